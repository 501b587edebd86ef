/* attention_heads.c - what each query head has, from options. */
#include "attention_heads.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/command.h"

/* Prints one line on stderr; the result is false. */
#define REFUSE(...) (command_fail(subcommand, __VA_ARGS__), false)

static bool read_values(const char *text, attention_head_list *list)
{
    size_t most = strlen(text) / 2 + 1;
    char  *end;
    list->values = (float *)calloc(most, sizeof *list->values);
    for (const char *at = text; list->values != NULL; at = end + 1) {
        float value = isspace((unsigned char)*at) ? NAN : strtof(at, &end); /* which would skip a blank */
        if (isnan(value) || value == INFINITY || end == at || (*end != ',' && *end != '\0'))
            return false;
        list->values[list->count++] = value;
        if (*end == '\0')
            return true;
    }
    return false;
}

bool attention_heads_parse(const char *subcommand, const char *sinks, attention_heads *heads)
{
    attention_head_list *list = &heads->sinks;
    if (sinks == NULL)
        return true;
    list->given = true;
    list->random = strcmp(sinks, "random") == 0;
    return list->random || read_values(sinks, list) ||
           REFUSE("--sinks: \"%s\" is neither random nor numbers, such as 0.5,-2", sinks);
}

bool attention_heads_describe(const char *subcommand, const attention_heads *heads, ptxpack_attention_desc *d)
{
    const attention_head_list *list = &heads->sinks;
    if (list->count > 0 && list->count != (size_t)d->heads_q)
        return REFUSE("--sinks: %zu number%s for %d query heads", list->count, list->count > 1 ? "s" : "",
                      (int)d->heads_q);
    d->options |= list->given ? PTXPACK_SINKS : 0u;
    return true;
}

void attention_heads_draw(const ptxpack_attention_desc *d, const attention_heads *heads, random_state *random,
                          attention_arrays *arrays)
{
    enum { STEPS = 1 << 20 };
    float *sinks = (float *)arrays->array[ARRAY_SINKS];
    for (int32_t h = 0; h < d->heads_q && sinks != NULL; h++) /* random: from -4 to 4 */
        sinks[h] = heads->sinks.random ? 8 * (float)random_below(random, STEPS) / STEPS - 4
                                       : heads->sinks.values[h];
}

void attention_heads_free(attention_heads *heads) { free(heads->sinks.values); }
