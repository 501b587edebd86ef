/* attention_problem.h - the problem that `ptxpack attention` computes: made from its options, with random input
 * or the input of .npy files. */
#ifndef PTXPACK_ATTENTION_PROBLEM_H
#define PTXPACK_ATTENTION_PROBLEM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "host/attention/inspect.h"
#include "attention_append.h"
#include "attention_heads.h"
#include "hooks/bias.h"
#include "hooks/files.h"
#include "attention_lengths.h"
#include "attention_mask.h"
#include "host/ptxpack.h"

#define SPLIT_ROWS_OPTION_HELP \
    "N  few queries: sum keys in parts of N rows (a multiple of 256), in any batch alike"
#define PARTS_OPTION_HELP "N  cut each tile's keys into N parts, where the kernel can (1: a build that cannot)"
#define PACK_OPTION_HELP \
    "0 or 1  1: tiles have rows of several query heads that share a key head, where the kernel can"

#define KV_DTYPE_OPTION_HELP \
    "e4m3|int8|q8_0  of k and v: bytes, with descales, or ggml's blocks (default: as dtype)"
#define DESCALES_OPTION_HELP \
    "sequence|head|tensor  of k and v of bytes: one for each key head of each sequence (default), ..."

/* What the options ask for; sizes and seed are OPTION_NOT_GIVEN when they were not given. */
typedef struct attention_settings {
    const char *subcommand;          /* named in lines on stderr */
    const char *q, *k, *v, *o, *lse; /* file names                */
    int64_t     batch, seqlen_q, seqlen_kv, heads_q, heads_kv, head_dim, head_dim_v;
    struct {
        int64_t batch, seqlen_q, heads_q;
    } otherwise; /* where these are not given, and no list says them */
    attention_mask_words    mask;
    attention_lengths_words lengths;
    attention_append_words  append;
    const char             *layout, *dtype, *kv_dtype, *descales, *cpu, *device;
    double                  scale, softcap;
    attention_head_words    heads;
    attention_hook_words    hooks;
    attention_bias_words    bias;
    int64_t                 blocks; /* 0: no lists */
    int64_t                 seed, repeat;
    int64_t                 parts; /* 0: the library's choice */
    int64_t                 split_rows;
    int64_t                 chunk; /* 0: off */
    int64_t                 pack, devices;
    const char             *way;     /* of `devices` */
    bool                    in_keys; /* v is the first columns of k */
    bool                    unnormalized;
    bool                    verify, json;
} attention_settings;

/* The options that describe a problem, as rows for command_options, with the defaults that the help names. */
#define ATTENTION_OPTIONS(s, batch_default, rows_default, heads_default)                                      \
    {"batch", OPTION_INT, &(s)->batch, "N  sequences (default " batch_default ", or as many as a list has)"}, \
        {"seqlen-q", OPTION_INT, &(s)->seqlen_q,                                                              \
         "N  query rows (default " rows_default "; with --lengths: 1)"},                                      \
        {"seqlen-kv", OPTION_INT, &(s)->seqlen_kv,                                                            \
         "N  keys (default: the longest of --lengths, or as seqlen-q)"},                                      \
        {"heads-q", OPTION_INT, &(s)->heads_q, "N  query heads (default " heads_default ")"},                 \
        {"heads-kv", OPTION_INT, &(s)->heads_kv, "N  key heads (default: as heads-q)"},                       \
        {"head-dim", OPTION_INT, &(s)->head_dim,                                                              \
         "N  multiple of 8 up to 576, e4m3: of 16 up to 256 (default 128)"},                                  \
        {"head-dim-v", OPTION_INT, &(s)->head_dim_v, "N  of v and o, up to 512 (default: as head-dim)"},      \
        {"values-in-keys", OPTION_FLAG, &(s)->in_keys, "v is the first head-dim-v columns of k (MLA)"},       \
        {"causal", OPTION_MAYBE, &(s)->mask.causal, "[top-left|bottom-right]  alone: bottom-right"},          \
        {"window", OPTION_TEXT, &(s)->mask.window, WINDOW_OPTION_HELP},                                       \
        {"align", OPTION_TEXT, &(s)->mask.align, ALIGN_OPTION_HELP},                                          \
        {"chunk", OPTION_INT, &(s)->chunk, CHUNK_OPTION_HELP},                                                \
        {"softcap", OPTION_REAL, &(s)->softcap, SOFTCAP_OPTION_HELP},                                         \
        {"sinks", OPTION_TEXT, &(s)->heads.sinks, SINKS_OPTION_HELP},                                         \
        {"unnormalized", OPTION_FLAG, &(s)->unnormalized, UNNORMALIZED_OPTION_HELP},                          \
        {"alibi", OPTION_MAYBE, &(s)->heads.alibi, ALIBI_OPTION_HELP},                                        \
        {"parts", OPTION_INT, &(s)->parts, PARTS_OPTION_HELP},                                                \
        {"split-rows", OPTION_INT, &(s)->split_rows, SPLIT_ROWS_OPTION_HELP},                                 \
        {"pack", OPTION_INT, &(s)->pack, PACK_OPTION_HELP},                                                   \
        {"kv-dtype", OPTION_TEXT, &(s)->kv_dtype, KV_DTYPE_OPTION_HELP},                                      \
        {"descales", OPTION_TEXT, &(s)->descales, DESCALES_OPTION_HELP},                                      \
        {"lengths", OPTION_TEXT, &(s)->lengths.lengths, LENGTHS_OPTION_HELP},                                 \
        {"lengths-q", OPTION_TEXT, &(s)->lengths.lengths_q, LENGTHS_Q_OPTION_HELP},                           \
        {"rows-q", OPTION_TEXT, &(s)->lengths.rows_q, ROWS_Q_OPTION_HELP},                                    \
        {"rows-kv", OPTION_TEXT, &(s)->lengths.rows_kv, ROWS_KV_OPTION_HELP},                                 \
        {"page", OPTION_INT, &(s)->lengths.page, PAGE_OPTION_HELP},                                           \
        {"left-pad", OPTION_TEXT, &(s)->lengths.left_pad, LEFT_PAD_OPTION_HELP},                              \
    {                                                                                                         \
        "row-map", OPTION_TEXT, &(s)->lengths.row_map, ROW_MAP_OPTION_HELP                                    \
    }
/* The settings before options are read. */
attention_settings attention_settings_of(const char *subcommand);

/* The problem, its tensors in host memory, and its results.  Of sequences with lengths of their own all that is
 * not a row of a sequence is NaN in random inputs, and 0 in the results.  Where rows are appended, q, k and v are as they
 * are after that. */
typedef struct attention_problem {
    ptxpack_attention_desc desc;
    attention_geometry     geometry;
    attention_arrays       arrays;
    attention_heads        heads;
    attention_hook_files   hooks;
    attention_bias_files   bias;
    attention_new_rows     fresh;
    bool                   bhsd;
    void                  *tensor[TENSOR_COUNT];
    float                 *descale[TENSOR_O]; /* of q, k and v; NULL: all are 1 */
    ptxpack_descales       descales;          /* the same descales */
    size_t                 descale_count[TENSOR_O];
    float                 *lse; /* [batch][heads_q][seqlen_q]; packed q: [heads_q][rows_q] */
    size_t                 elements[TENSOR_COUNT], lse_count;
    uint64_t               seed;
    double                 ms;       /* of one launch, or of the reference */
    int64_t                repeat;   /* launches timed */
    bool                   emulated; /* by the emulated driver */
} attention_problem;

/* Returns the size of a tensor in bytes. */
size_t attention_problem_bytes(const attention_problem *p, int tensor);
/* Checks the settings, makes or reads the inputs, and allocates the outputs.  Returns an exit status; a line is
 * on stderr unless it is COMMAND_OK.  Free the problem in any case. */
int attention_problem_make(const attention_settings *s, attention_problem *p);
/* Reports the type, the extents, the mask and the kind of rows of a problem as values. */
void attention_problem_report(report *r, const attention_problem *p);
/* Makes only the descriptor, from sizes.  Free the problem in any case. */
int  attention_problem_describe(const attention_settings *s, attention_problem *p);
void attention_problem_free(attention_problem *p);
#endif
