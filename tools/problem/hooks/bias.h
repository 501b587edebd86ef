/* bias.h - the options --bias, --mask-bits and --mask-keys: a bias and bits, in files or random. */
#ifndef PTXPACK_BIAS_FILES_H
#define PTXPACK_BIAS_FILES_H
#include "tools/problem/attention_lengths.h"
#include "tools/problem/npy.h"

#define BIAS_OPTION_HELP                                                                                       \
    "FILE|random  .npy of float32, float16 or uint16 (bf16), [batch, heads, rows, keys] or 1 where all share " \
    "it"
#define MASK_BITS_OPTION_HELP \
    "FILE|random  .npy of uint8, [batch, heads, rows, bytes]: bit j of a row is 1 if it may attend to key j"
#define MASK_KEYS_OPTION_HELP \
    "N|queries  the bits are those of the last N keys, or of as many as there are query rows"

/* What the options ask for; NULL if they were not given. */
typedef struct attention_bias_words {
    const char *bias, *bits, *keys;
} attention_bias_words;

typedef struct attention_bias_files {
    npy_array bias, bits; /* of files */
} attention_bias_files;

/* Reads the files and sets the fields of a descriptor that has its sizes.  False after a line on stderr.  Free them in any
 * case. */
bool attention_bias_describe(const char *subcommand, const attention_bias_words *words,
                             attention_bias_files *files, ptxpack_attention_desc *d);
/* Fills the arrays that attention_lengths_draw has allocated. */
void attention_bias_draw(const ptxpack_attention_desc *d, const attention_geometry *g,
                         const attention_bias_files *files, random_state *random, attention_arrays *arrays);
void attention_bias_free(attention_bias_files *files);
#endif
