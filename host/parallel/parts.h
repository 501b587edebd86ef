/* parts.h - private: merging any number of partial attentions by their log-sum-exps, as an operation of the spine.
 *
 * Parts are compact: o [batch][rows][heads][head_dim] of dtype, lse [batch][heads][rows] f32, each as many bytes after that
 * of the part before as a launch says; or, of up to MERGE_LISTED parts, wherever it says, perhaps in the memory of other devices.
 * merge.h says what the values are; sums are f32, and o is rounded once. */
#ifndef PTXPACK_PARALLEL_PARTS_H
#define PTXPACK_PARALLEL_PARTS_H
#include "host/attention/attention.h"
#include "host/plan/memory.h"
#include "host/plan/plan.h"

enum { MERGE_LISTED = 8 };

/* clang-format off */
#define MERGE_PARTS_ARGUMENTS(X, S)                                                            \
    X(S, uint64_t, parts_o,   "ARG_PARTS_O") /* device addresses */                            \
    X(S, uint64_t, parts_lse, "ARG_PARTS_LSE")                                                 \
    X(S, uint64_t, o,         "ARG_O")                                                         \
    X(S, uint64_t, lse,       "ARG_LSE") /* 0: not wanted */                                   \
    X(S, int64_t,  o_part,    "ARG_O_PART") /* bytes from one part to the next */              \
    X(S, int64_t,  lse_part,  "ARG_LSE_PART")                                                  \
    X(S, merge_parts_list, list, "ARG_LIST") /* if they are listed: where the o of each is */  \
    X(S, int64_t,  list_lse,  "ARG_LIST_LSE") /* bytes from there to its lse */                \
    X(S, int64_t,  o_batch,   "ARG_O_BATCH") /* strides of the output in bytes */              \
    X(S, int64_t,  o_row,     "ARG_O_ROW")                                                     \
    X(S, int64_t,  o_head,    "ARG_O_HEAD")                                                    \
    X(S, uint32_t, parts,     "ARG_PARTS")                                                     \
    X(S, uint32_t, vectors,   "ARG_VECTORS") /* batch rows heads */                            \
    X(S, uint32_t, rows,      "ARG_ROWS")                                                      \
    X(S, uint32_t, heads,     "ARG_HEADS")                                                     \
    X(S, uint32_t, pieces,    "ARG_PIECES")    /* of 8 elements, of a vector */                \
    X(S, uint32_t, per_block, "ARG_PER_BLOCK") /* vectors that a block merges */
/* clang-format on */
typedef struct merge_parts_list {
    uint64_t at[MERGE_LISTED];
} merge_parts_list;
ARGUMENT_STRUCT(MERGE_PARTS_ARGUMENTS, merge_parts_arguments);

typedef struct merge_parts_desc {
    ptxpack_dtype   dtype;
    int32_t         batch, rows, heads, head_dim, parts;
    ptxpack_strides o; /* of the output, in elements; all 0: compact */
    bool            listed;
} merge_parts_desc;

typedef struct merge_parts_buffers {
    uint64_t         o, lse; /* lse 0: it is not wanted */
    uint64_t         parts_o, parts_lse;
    int64_t          o_part, lse_part; /* bytes from one part to the next */
    merge_parts_list list; /* listed: where the o of each part is; its lse is list_lse bytes after it */
    int64_t          list_lse;
} merge_parts_buffers;

typedef struct merge_parts_plan {
    plan_head             head;
    memory_tensor         geometry;  /* of the output */
    merge_parts_arguments arguments; /* all but what a launch brings */
} merge_parts_plan;

extern const plan_op merge_parts_op; /* its plans are merge_parts_plans, its buffers merge_parts_buffers */
#endif
