/* attention_heads.h - what each query head has, by the option --sinks: a descriptor's option and an array. */
#ifndef PTXPACK_ATTENTION_HEADS_H
#define PTXPACK_ATTENTION_HEADS_H
#include <stdbool.h>
#include <stddef.h>
#include "host/attention/inspect.h"
#include "attention_lengths.h"
#include "random.h"

#define SINKS_OPTION_HELP "LIST|random  a virtual logit of each query head in the softmax, such as 0.5,-2"

/* A list of an option: values, or random ones. */
typedef struct attention_head_list {
    bool   given, random;
    size_t count;
    float *values;
} attention_head_list;

typedef struct attention_heads {
    attention_head_list sinks;
} attention_heads;

/* Reads the list; NULL if the option was not given.  False after a line on stderr that names the option.  Free the heads in
 * any case. */
bool attention_heads_parse(const char *subcommand, const char *sinks, attention_heads *heads);
/* Sets the options of a descriptor that has its sizes, and checks the list against them; false after a line on stderr. */
bool attention_heads_describe(const char *subcommand, const attention_heads *heads, ptxpack_attention_desc *d);
/* Fills the arrays that attention_lengths_draw has allocated: as the list says, else random. */
void attention_heads_draw(const ptxpack_attention_desc *d, const attention_heads *heads, random_state *random,
                          attention_arrays *arrays);
void attention_heads_free(attention_heads *heads);
#endif
