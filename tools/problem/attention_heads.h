/* attention_heads.h - what each query head has, by the options --sinks and --alibi: a descriptor's options, and arrays. */
#ifndef PTXPACK_ATTENTION_HEADS_H
#define PTXPACK_ATTENTION_HEADS_H
#include <stdbool.h>
#include <stddef.h>
#include "host/attention/inspect.h"
#include "attention_lengths.h"
#include "random.h"

#define SINKS_OPTION_HELP "LIST|random  a virtual logit of each query head in the softmax, such as 0.5,-2"
#define ALIBI_OPTION_HELP "[LIST|random]  ALiBi with a slope of each query head; alone: the usual slopes"

/* What the options ask for; NULL if they were not given, and alibi "" if it was given alone. */
typedef struct attention_head_words {
    const char *sinks, *alibi;
} attention_head_words;

/* A list of an option: values, random ones, or the usual ones. */
typedef struct attention_head_list {
    bool   given, random, usual;
    size_t count;
    float *values;
} attention_head_list;

typedef struct attention_heads {
    attention_head_list sinks, slopes;
} attention_heads;

/* Reads the lists.  False after a line on stderr that names the option.  Free the heads in any case. */
bool attention_heads_parse(const char *subcommand, const attention_head_words *words, attention_heads *heads);
/* Sets the options of a descriptor that has its sizes, and checks the lists against them; false after a line on stderr. */
bool attention_heads_describe(const char *subcommand, const attention_heads *heads, ptxpack_attention_desc *d);
/* Fills the arrays that attention_lengths_draw has allocated: as the lists say, else random. */
void attention_heads_draw(const ptxpack_attention_desc *d, const attention_heads *heads, random_state *random,
                          attention_arrays *arrays);
void attention_heads_free(attention_heads *heads);
#endif
