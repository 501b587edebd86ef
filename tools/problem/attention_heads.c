/* attention_heads.c - what each query head has, from options. */
#include "attention_heads.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/command.h"

/* Prints one line on stderr; the result is false. */
#define REFUSE(...) (command_fail(subcommand, __VA_ARGS__), false)

/* Numbers from `least` on, which may be -inf, and below infinity. */
static bool read_values(const char *text, float least, attention_head_list *list)
{
    size_t most = strlen(text) / 2 + 1;
    char  *end;
    list->values = (float *)calloc(most, sizeof *list->values);
    for (const char *at = text; list->values != NULL; at = end + 1) {
        float value = isspace((unsigned char)*at) ? NAN : strtof(at, &end); /* which would skip a blank */
        if (!(value >= least && value < INFINITY) || end == at || (*end != ',' && *end != '\0'))
            return false;
        list->values[list->count++] = value;
        if (*end == '\0')
            return true;
    }
    return false;
}

/* A word; `text` is NULL if the option was not given, and "" where nothing follows it. */
static bool read_list(const char *text, float least, attention_head_list *list)
{
    list->given = text != NULL;
    list->usual = text != NULL && *text == '\0';
    list->random = text != NULL && strcmp(text, "random") == 0;
    return !list->given || list->usual || list->random || read_values(text, least, list);
}

bool attention_heads_parse(const char *subcommand, const attention_head_words *words, attention_heads *heads)
{
    if (!read_list(words->sinks, -INFINITY, &heads->sinks))
        return REFUSE("--sinks: \"%s\" is neither random nor numbers, such as 0.5,-2", words->sinks);
    if (!read_list(words->alibi, 0, &heads->slopes))
        return REFUSE("--alibi: \"%s\" is neither random nor numbers from 0 on, such as 0.5,0.25",
                      words->alibi);
    return true;
}

static bool check_count(const char *subcommand, const char *name, const attention_head_list *list,
                        int32_t heads)
{
    return list->count == 0 || list->count == (size_t)heads ||
           REFUSE("--%s: %zu number%s for %d query heads", name, list->count, list->count > 1 ? "s" : "",
                  (int)heads);
}

bool attention_heads_describe(const char *subcommand, const attention_heads *heads, ptxpack_attention_desc *d)
{
    d->options |= (heads->sinks.given ? PTXPACK_SINKS : 0u) | (heads->slopes.given ? PTXPACK_ALIBI : 0u);
    return check_count(subcommand, "sinks", &heads->sinks, d->heads_q) &&
           check_count(subcommand, "alibi", &heads->slopes, d->heads_q);
}

/* Random numbers are evenly spread from `least` to `most`. */
static void draw(const attention_head_list *list, float least, float most, int32_t heads, random_state *random,
                 float *out)
{
    enum { STEPS = 1 << 20 };
    for (int32_t h = 0; h < heads && list->given && !list->usual; h++)
        out[h] = list->random ? least + (most - least) * (float)random_below(random, STEPS) / STEPS
                              : list->values[h];
}

void attention_heads_draw(const ptxpack_attention_desc *d, const attention_heads *heads, random_state *random,
                          attention_arrays *arrays)
{
    float *slopes = (float *)arrays->array[ARRAY_SLOPES];
    draw(&heads->sinks, -4, 4, d->heads_q, random, (float *)arrays->array[ARRAY_SINKS]);
    draw(&heads->slopes, 0, 1, d->heads_q, random, slopes);
    if (heads->slopes.usual)
        ptxpack_attention_alibi_slopes(d->heads_q, slopes);
}

void attention_heads_free(attention_heads *heads)
{
    free(heads->sinks.values);
    free(heads->slopes.values);
}
