/* args.h - private: the contract between host/attention/merge/merge.c and ptx/attention/merge.ptx. */
#ifndef PTXPACK_ATTENTION_MERGE_ARGS_H
#define PTXPACK_ATTENTION_MERGE_ARGS_H
#include "host/plan/arguments.h"

/* clang-format off */
#define MERGE_ARGUMENTS(X, S)                                                              \
    X(S, uint64_t, o_a,       "ARG_O_A") /* device addresses */                            \
    X(S, uint64_t, o_b,       "ARG_O_B")                                                   \
    X(S, uint64_t, o,         "ARG_O")                                                     \
    X(S, uint64_t, lse_a,     "ARG_LSE_A")                                                 \
    X(S, uint64_t, lse_b,     "ARG_LSE_B")                                                 \
    X(S, uint64_t, lse,       "ARG_LSE") /* 0: not wanted */                               \
    X(S, int64_t,  a_batch,   "ARG_A_BATCH") /* strides in bytes */                        \
    X(S, int64_t,  a_row,     "ARG_A_ROW")                                                 \
    X(S, int64_t,  a_head,    "ARG_A_HEAD")                                                \
    X(S, int64_t,  b_batch,   "ARG_B_BATCH")                                               \
    X(S, int64_t,  b_row,     "ARG_B_ROW")                                                 \
    X(S, int64_t,  b_head,    "ARG_B_HEAD")                                                \
    X(S, int64_t,  o_batch,   "ARG_O_BATCH")                                               \
    X(S, int64_t,  o_row,     "ARG_O_ROW")                                                 \
    X(S, int64_t,  o_head,    "ARG_O_HEAD")                                                \
    X(S, uint32_t, vectors,   "ARG_VECTORS") /* batch seqlen_q heads_q */                  \
    X(S, uint32_t, rows,      "ARG_ROWS")    /* seqlen_q */                                \
    X(S, uint32_t, heads,     "ARG_HEADS")                                                 \
    X(S, uint32_t, pieces,    "ARG_PIECES")    /* of 8 elements, of a vector */            \
    X(S, uint32_t, per_block, "ARG_PER_BLOCK") /* vectors that a block merges */
/* clang-format on */
ARGUMENT_STRUCT(MERGE_ARGUMENTS, merge_arguments);
#endif
