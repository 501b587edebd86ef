/* attention_problem.h - what `ptxpack attention` is to compute: from its options, with random input or with
 * that of .npy files. */
#ifndef PTXPACK_ATTENTION_PROBLEM_H
#define PTXPACK_ATTENTION_PROBLEM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "host/attention/check.h"
#include "attention_mask.h"
#include "host/ptxpack.h"

/* What was asked for; sizes and seed are OPTION_NOT_GIVEN where nothing was said. */
typedef struct attention_settings {
    const char          *subcommand;          /* that lines on stderr name */
    const char          *q, *k, *v, *o, *lse; /* file names                */
    int64_t              batch, seqlen_q, seqlen_kv, heads_q, heads_kv, head_dim;
    attention_mask_words mask;
    const char          *layout, *dtype, *cpu, *device;
    double               scale, softcap;
    int64_t              seed, repeat;
    bool                 verify, json;
} attention_settings;

/* The problem, its tensors in host memory, and what came of it. */
typedef struct attention_problem {
    ptxpack_attention_desc desc;
    bool                   bhsd;
    void                  *tensor[TENSOR_COUNT];
    float                 *descale[TENSOR_O]; /* of q, k and v; NULL: all are 1 */
    ptxpack_descales       descales;          /* the same */
    size_t                 descale_count;     /* of each, with PTXPACK_E4M3 */
    float                 *lse;               /* [batch][heads_q][seqlen_q] */
    size_t                 elements[TENSOR_COUNT], lse_count;
    uint64_t               seed;
    double                 ms;       /* of one launch, or of the reference */
    int64_t                repeat;   /* launches timed */
    bool                   emulated; /* by the emulated driver */
} attention_problem;

/* Bytes of a tensor. */
size_t attention_problem_bytes(const attention_problem *p, int tensor);
/* Check the settings, make or read the inputs, and make room for the outputs.  Returns an exit status, after
 * a line on stderr unless it is COMMAND_OK; free the problem in any case. */
int attention_problem_make(const attention_settings *s, attention_problem *p);
/* The descriptor alone, of sizes. */
int  attention_problem_describe(const attention_settings *s, attention_problem *p);
void attention_problem_free(attention_problem *p);
#endif
