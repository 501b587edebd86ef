/* rows_args.h - private: the contracts between host/gemm/rows.c and ptx/gemm/rows.ptx, and between rows_groups.c and
 * rows_groups_e4m3.ptx: each kernel's one .param struct. */
#ifndef PTXPACK_GEMM_ROWS_ARGS_H
#define PTXPACK_GEMM_ROWS_ARGS_H
#include "host/plan/arguments.h"

/* clang-format off */
#define GEMM_ROWS_ARGUMENTS(X, S)                                                                    \
    X(S, uint64_t, a,         "ARG_A")         /* device addresses */                                \
    X(S, uint64_t, b,         "ARG_B")                                                               \
    X(S, uint64_t, c,         "ARG_C")                                                               \
    X(S, uint64_t, d,         "ARG_D")                                                               \
    X(S, uint64_t, bias,      "ARG_BIAS")                                                            \
    X(S, uint64_t, counters,  "ARG_COUNTERS")  /* one for each tile, zero between launches */        \
    X(S, uint64_t, parts,     "ARG_PARTS")     /* f32 sums: [tile][part of k][...] */                \
    X(S, int64_t,  a_line,    "ARG_A_LINE")    /* bytes from a line to the next */                   \
    X(S, int64_t,  b_line,    "ARG_B_LINE")                                                          \
    X(S, int64_t,  c_line,    "ARG_C_LINE")                                                          \
    X(S, int64_t,  d_line,    "ARG_D_LINE")                                                          \
    X(S, int32_t,  m,         "ARG_M")                                                               \
    X(S, int32_t,  n,         "ARG_N")                                                               \
    X(S, int32_t,  k,         "ARG_K")                                                               \
    X(S, int32_t,  blocks,    "ARG_BLOCKS")    /* of 32 k, of a part */                              \
    X(S, int32_t,  splits,    "ARG_SPLITS")    /* parts of k, each of a block */                     \
    X(S, int32_t,  splits_inverse, "ARG_SPLITS_INVERSE")                                             \
    X(S, int32_t,  splits_shift, "ARG_SPLITS_SHIFT")                                                 \
    X(S, float,    alpha,     "ARG_ALPHA")                                                           \
    X(S, float,    beta,      "ARG_BETA")
/* clang-format on */
ARGUMENT_STRUCT(GEMM_ROWS_ARGUMENTS, gemm_rows_arguments);

/* clang-format off */
#define GEMM_ROWS_GROUPS_ARGUMENTS(X, S)                                                                     \
    X(S, uint64_t, a,           "ARG_A")           /* device addresses */                                    \
    X(S, uint64_t, b,           "ARG_B")                                                                     \
    X(S, uint64_t, d,           "ARG_D")                                                                     \
    X(S, uint64_t, bias,        "ARG_BIAS")                                                                  \
    X(S, uint64_t, scale_b,     "ARG_SCALE_B")     /* of one scale for all: or 0 */                          \
    X(S, uint64_t, starts,      "ARG_STARTS")                                                                \
    X(S, int64_t,  a_line,      "ARG_A_LINE")      /* bytes from a line to the next */                       \
    X(S, int64_t,  b_line,      "ARG_B_LINE")                                                                \
    X(S, int64_t,  d_line,      "ARG_D_LINE")                                                                \
    X(S, int64_t,  b_batch,     "ARG_B_BATCH")     /* bytes from a group's B to the next */                  \
    X(S, int32_t,  m,           "ARG_M")                                                                     \
    X(S, int32_t,  n,           "ARG_N")                                                                     \
    X(S, int32_t,  k,           "ARG_K")                                                                     \
    X(S, int32_t,  blocks,      "ARG_BLOCKS")      /* of 64 k; the last may be partial */                    \
    X(S, int32_t,  scale_k,     "ARG_SCALE_K")     /* blocks of k that have scales */                        \
    X(S, int32_t,  groups,      "ARG_GROUPS")                                                                \
    X(S, int32_t,  tiles_n,     "ARG_TILES_N")     /* tiles in a row of them */                              \
    X(S, int32_t,  group_m,     "ARG_GROUP_M")     /* rows of tiles that are worked on together */           \
    X(S, int32_t,  group_tiles, "ARG_GROUP_TILES") /* tiles in so many rows */                               \
    X(S, float,    alpha,       "ARG_ALPHA")
/* clang-format on */
ARGUMENT_STRUCT(GEMM_ROWS_GROUPS_ARGUMENTS, gemm_rows_groups_arguments);
#endif
