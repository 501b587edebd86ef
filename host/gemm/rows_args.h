/* rows_args.h - private: the contract between host/gemm/rows.c and ptx/gemm/rows.ptx: the kernel's one .param
 * struct. */
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
    X(S, float,    alpha,     "ARG_ALPHA")                                                           \
    X(S, float,    beta,      "ARG_BETA")
/* clang-format on */
ARGUMENT_STRUCT(GEMM_ROWS_ARGUMENTS, gemm_rows_arguments);
#endif
