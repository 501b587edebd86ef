/* attention_append.h - the options --append and --rotary: new rows of k and v that the launch of an attention writes to their cache
 * first, and what the cache and q have before it. */
#ifndef PTXPACK_ATTENTION_APPEND_PROBLEM_H
#define PTXPACK_ATTENTION_APPEND_PROBLEM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "attention_lengths.h"
#include "host/attention/append/inspect.h"
#include "random.h"
#include "tools/report.h"

struct device;

#define APPEND_OPTION_HELP "N  write the last N keys of each sequence in the same launch, before it attends"
#define ROTARY_OPTION_HELP \
    "D  rotate D elements of a head of these keys and of q, by their rows (with --append)"
#define ROTARY_PAIRS_OPTION_HELP "rotate neighbours (GPT-J), not elements D/2 apart (GPT-NeoX)"

/* What the options ask for; OPTION_NOT_GIVEN if they were not given. */
typedef struct attention_append_words {
    int64_t rows, rotary;
    bool    pairs;
} attention_append_words;

enum { NEW_K, NEW_V, NEW_Q, NEW_COS, NEW_SIN, NEW_COUNT };
typedef struct attention_new_rows {
    bool                          given;
    ptxpack_attention_append_desc desc, whole; /* as the plan gets it, and complete */
    append_geometry               geometry;
    void                         *memory[NEW_COUNT]; /* NULL: there is none */
    uint64_t                      device[NEW_COUNT];
    void *before[TENSOR_O]; /* q, k and v before the launch; after it, as it left them */
} attention_new_rows;

/* Adds the append to a descriptor that is complete otherwise; false after a line on stderr that names the option. */
bool attention_append_describe(const char *subcommand, const attention_append_words *words,
                               const attention_arrays *a, ptxpack_attention_desc *d, attention_new_rows *n);
/* Makes new rows for random tensors, which become what they are after the append; descales of k and v of bytes.  False with a
 * line in *why. */
bool attention_append_draw(const ptxpack_attention_desc *d, const attention_geometry *g,
                           const attention_arrays *a, random_state *random, void *const tensors[TENSOR_O],
                           const ptxpack_descales *descales, attention_new_rows *n, const char **why);
/* The new rows on the device, and the addresses of a launch. */
bool attention_append_upload(struct device *gpu, attention_new_rows *n, ptxpack_attention_append_buffers *out);
void attention_append_release(struct device *gpu, attention_new_rows *n);
void attention_append_free(attention_new_rows *n);
/* Reports them; {appended} is the same in words. */
void attention_append_report(report *r, const attention_new_rows *n);
#endif
