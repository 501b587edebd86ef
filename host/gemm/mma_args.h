/* mma_args.h - private: the contract between host/gemm/mma.c and ptx/gemm/mma.ptx: the kernel's one .param
 * struct. */
#ifndef PTXPACK_GEMM_MMA_ARGS_H
#define PTXPACK_GEMM_MMA_ARGS_H
#include "host/plan/arguments.h"

/* The order of tiles, of clusters where there are any (ptx/gemm/matrix_tile.ptx).  An inverse and a shift: quotient_inverse;
 * groups of rows, which differ, do without. */
/* clang-format off */
#define GEMM_TILE_ORDER(X, S)                                                                                    \
    X(S, int32_t,  tiles_m,              "ARG_TILES_M")          /* tiles in a column of them */                 \
    X(S, int32_t,  matrix_tiles,         "ARG_MATRIX_TILES")     /* in a matrix */                               \
    X(S, int32_t,  group_m,              "ARG_GROUP_M")          /* rows of tiles that are worked on together */ \
    X(S, int32_t,  group_tiles,          "ARG_GROUP_TILES")      /* tiles in so many rows */                     \
    X(S, int32_t,  matrix_tiles_inverse, "ARG_MATRIX_TILES_INVERSE")                                             \
    X(S, int32_t,  matrix_tiles_shift,   "ARG_MATRIX_TILES_SHIFT")                                               \
    X(S, int32_t,  group_tiles_inverse,  "ARG_GROUP_TILES_INVERSE")                                              \
    X(S, int32_t,  group_tiles_shift,    "ARG_GROUP_TILES_SHIFT")                                                \
    X(S, int32_t,  group_m_inverse,      "ARG_GROUP_M_INVERSE")                                                  \
    X(S, int32_t,  group_m_shift,        "ARG_GROUP_M_SHIFT")                                                    \
    X(S, int32_t,  last_m_inverse,       "ARG_LAST_M_INVERSE")   /* of the rows of the last of such groups */    \
    X(S, int32_t,  last_m_shift,         "ARG_LAST_M_SHIFT")
/* clang-format on */
ARGUMENT_STRUCT(GEMM_TILE_ORDER, gemm_tile_order);

/* clang-format off */
#define GEMM_MMA_ARGUMENTS(X, S)                                                                     \
    X(S, uint64_t, a,            "ARG_A")            /* device addresses */                          \
    X(S, uint64_t, b,            "ARG_B")                                                            \
    X(S, uint64_t, c,            "ARG_C")                                                            \
    X(S, uint64_t, d,            "ARG_D")                                                            \
    X(S, uint64_t, bias,         "ARG_BIAS")                                                         \
    X(S, int64_t,  a_batch,      "ARG_A_BATCH")      /* bytes from a matrix to the next */           \
    X(S, int64_t,  b_batch,      "ARG_B_BATCH")                                                      \
    X(S, int64_t,  c_batch,      "ARG_C_BATCH")                                                      \
    X(S, int64_t,  d_batch,      "ARG_D_BATCH")                                                      \
    X(S, int32_t,  a_line,       "ARG_A_LINE")       /* bytes from a line to the next */             \
    X(S, int32_t,  b_line,       "ARG_B_LINE")                                                       \
    X(S, int32_t,  c_line,       "ARG_C_LINE")                                                       \
    X(S, int32_t,  d_line,       "ARG_D_LINE")                                                       \
    X(S, int32_t,  m,            "ARG_M")                                                            \
    X(S, int32_t,  n,            "ARG_N")                                                            \
    X(S, int32_t,  k,            "ARG_K")                                                            \
    X(S, int32_t,  blocks,       "ARG_BLOCKS")       /* of BLOCK_K k; the last may be partial */     \
    GEMM_TILE_ORDER(X, S)                                                                            \
    X(S, float,    alpha,        "ARG_ALPHA")                                                        \
    X(S, float,    beta,         "ARG_BETA")
/* clang-format on */
ARGUMENT_STRUCT(GEMM_MMA_ARGUMENTS, gemm_mma_arguments);

/* Those of ptx/gemm/mma_groups.ptx: the same, and the starts. */
/* clang-format off */
#define GEMM_MMA_GROUPS_ARGUMENTS(X, S)                                                              \
    GEMM_MMA_ARGUMENTS(X, S)                                                                         \
    X(S, uint64_t, starts,       "ARG_STARTS")       /* device address */                            \
    X(S, int32_t,  groups,       "ARG_GROUPS")                                                       \
    X(S, int32_t,  tiles_n,      "ARG_TILES_N")      /* tiles in a row of them */
/* clang-format on */
ARGUMENT_STRUCT(GEMM_MMA_GROUPS_ARGUMENTS, gemm_mma_groups_arguments);
_Static_assert(offsetof(gemm_mma_groups_arguments, starts) ==
                   offsetof(gemm_mma_arguments, beta) + sizeof(float),
               "the arguments of both kernels begin alike");
#endif
