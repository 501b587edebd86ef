/* attention_mask.c - an attention mask from options, and in words. */
#include "attention_mask.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Prints one line on stderr; the result is false. */
#define REFUSE(...) (command_fail(subcommand, __VA_ARGS__), false)

/* Reads "top-left" or "bottom-right" as one of two masks. */
static bool parse_corner(const char *subcommand, const char *name, const char *word, ptxpack_mask top_left,
                         ptxpack_mask bottom_right, ptxpack_attention_desc *d)
{
    bool top = strcmp(word, "top-left") == 0;
    if (!top && strcmp(word, "bottom-right") != 0)
        return REFUSE("--%s: \"%s\" is neither top-left nor bottom-right", name, word);
    d->mask = top ? top_left : bottom_right;
    return true;
}

/* Reads a side of a window at *text, then points behind it: a whole number, or "none" or -1 for no limit. */
static bool parse_side(const char **text, int32_t *side)
{
    char *end;
    if (strncmp(*text, "none", 4) == 0) {
        *side = -1;
        *text += 4;
        return true;
    }
    if (isspace((unsigned char)**text)) /* strtoll would skip it */
        return false;
    long long value = strtoll(*text, &end, 10);
    if (end == *text || value < -1 || value > INT32_MAX)
        return false;
    *side = (int32_t)value;
    *text = end;
    return true;
}

bool attention_mask_parse(const char *subcommand, const attention_mask_words *words, ptxpack_attention_desc *d)
{
    const char *at = words->window, *corner = words->align != NULL ? words->align : "bottom-right";
    d->mask = PTXPACK_MASK_NONE;
    d->window_left = d->window_right = 0;
    if (words->window == NULL && words->align != NULL)
        return REFUSE("--align goes with --window");
    if (words->window != NULL && words->causal != NULL)
        return REFUSE("give only one of --window and --causal; a causal window is --window LEFT,0");
    if (words->causal != NULL)
        return parse_corner(subcommand, "causal", *words->causal != '\0' ? words->causal : "bottom-right",
                            PTXPACK_MASK_CAUSAL_TOP_LEFT, PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, d);
    if (words->window == NULL)
        return true;
    if (!parse_side(&at, &d->window_left) || *at++ != ',' || !parse_side(&at, &d->window_right) || *at != '\0')
        return REFUSE("--window: \"%s\" is not LEFT,RIGHT, each a whole number up to %d or none", words->window,
                      INT32_MAX);
    return parse_corner(subcommand, "align", corner, PTXPACK_MASK_WINDOW_TOP_LEFT,
                        PTXPACK_MASK_WINDOW_BOTTOM_RIGHT, d);
}

static void print_side(char text[16], int32_t side)
{
    if (side < 0)
        snprintf(text, 16, "none");
    else
        snprintf(text, 16, "%d", (int)side);
}

/* The mask in words, without the softcap. */
static attention_mask_text mask_alone(const ptxpack_attention_desc *d)
{
    attention_mask_text name = {"full"};
    const char         *corner = "bottom-right";
    char                left[16], right[16];
    if (d->mask == PTXPACK_MASK_CAUSAL_TOP_LEFT || d->mask == PTXPACK_MASK_WINDOW_TOP_LEFT)
        corner = "top-left";
    print_side(left, d->window_left);
    print_side(right, d->window_right);
    if (d->mask >= PTXPACK_MASK_WINDOW_TOP_LEFT)
        snprintf(name.text, sizeof name.text, "window %s,%s %s", left, right, corner);
    else if (d->mask != PTXPACK_MASK_NONE)
        snprintf(name.text, sizeof name.text, "causal %s", corner);
    return name;
}

attention_mask_text attention_mask_name(const ptxpack_attention_desc *d)
{
    attention_mask_text name = mask_alone(d);
    size_t              length = strlen(name.text);
    if (d->chunk > 0)
        snprintf(name.text + length, sizeof name.text - length, ", chunk %d", (int)d->chunk);
    length = strlen(name.text);
    if (d->softcap > 0)
        snprintf(name.text + length, sizeof name.text - length, ", softcap %g", (double)d->softcap);
    length = strlen(name.text);
    if ((d->options & PTXPACK_SINKS) != 0)
        snprintf(name.text + length, sizeof name.text - length, ", sinks");
    length = strlen(name.text);
    if ((d->options & PTXPACK_ALIBI) != 0)
        snprintf(name.text + length, sizeof name.text - length, ", alibi");
    length = strlen(name.text);
    if ((d->options & PTXPACK_UNNORMALIZED) != 0)
        snprintf(name.text + length, sizeof name.text - length, ", unnormalized");
    return name;
}

void attention_mask_report(report *r, const ptxpack_attention_desc *d)
{
    report_text(r, "mask", "%s", mask_alone(d).text);
    if (d->mask >= PTXPACK_MASK_WINDOW_TOP_LEFT) {
        report_int(r, "window_left", d->window_left);
        report_int(r, "window_right", d->window_right);
    }
    if (d->chunk > 0)
        report_int(r, "chunk", d->chunk);
    if (d->softcap > 0)
        report_real(r, "softcap", d->softcap);
    if ((d->options & PTXPACK_SINKS) != 0)
        report_bool(r, "sinks", true);
    if ((d->options & PTXPACK_ALIBI) != 0)
        report_bool(r, "alibi", true);
    if ((d->options & PTXPACK_UNNORMALIZED) != 0)
        report_bool(r, "unnormalized", true);
    report_text(r, ".mask_name", "%s", attention_mask_name(d).text);
}
