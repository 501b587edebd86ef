/* rows_tma_args.h - private: the contract between host/gemm/rows_tma.c and ptx/gemm/rows_tma.ptx: the kernel's one .param
 * struct. */
#ifndef PTXPACK_GEMM_ROWS_TMA_ARGS_H
#define PTXPACK_GEMM_ROWS_TMA_ARGS_H
#include "host/plan/arguments.h"

/* clang-format off */
#define GEMM_ROWS_TMA_ARGUMENTS(X, S)                                                                                  \
    X(S, argument_tensor_map, map_a,       "ARG_MAP_A")       /* rank 3: along a line, from line to line, 1 */         \
    X(S, argument_tensor_map, map_b,       "ARG_MAP_B")                                                                \
    X(S, uint64_t,            c,           "ARG_C")           /* device addresses */                                   \
    X(S, uint64_t,            d,           "ARG_D")                                                                    \
    X(S, uint64_t,            bias,        "ARG_BIAS")                                                                 \
    X(S, uint64_t,            counters,    "ARG_COUNTERS")    /* one for each tile, zero between launches */           \
    X(S, uint64_t,            parts,       "ARG_PARTS")       /* f32 sums: [tile][part of k][...] */                   \
    X(S, int64_t,             c_line,      "ARG_C_LINE")      /* bytes from a line to the next */                      \
    X(S, int64_t,             d_line,      "ARG_D_LINE")                                                               \
    X(S, int32_t,             m,           "ARG_M")                                                                    \
    X(S, int32_t,             n,           "ARG_N")                                                                    \
    X(S, int32_t,             splits,      "ARG_SPLITS")      /* parts of k of a tile */                               \
    X(S, int32_t,             splits_inverse, "ARG_SPLITS_INVERSE")                                                    \
    X(S, int32_t,             splits_shift, "ARG_SPLITS_SHIFT")                                                        \
    X(S, int32_t,             items,       "ARG_ITEMS")       /* tiles times parts */                                  \
    X(S, int32_t,             part_blocks, "ARG_PART_BLOCKS") /* blocks of k of a part; the last one may have fewer */ \
    X(S, int32_t,             all_blocks,  "ARG_ALL_BLOCKS")  /* of k */                                               \
    X(S, int32_t,             early,       "ARG_EARLY")       /* not 0: B may be read before the kernel before ends */ \
    X(S, float,               alpha,       "ARG_ALPHA")                                                                \
    X(S, float,               beta,        "ARG_BETA")
/* clang-format on */
ARGUMENT_STRUCT(GEMM_ROWS_TMA_ARGUMENTS, gemm_rows_tma_arguments);

/* Those of ptx/gemm/rows_norm.ptx: the same, and what A's norm needs. */
/* clang-format off */
#define GEMM_ROWS_NORM_ARGUMENTS(X, S)                                                                                 \
    GEMM_ROWS_TMA_ARGUMENTS(X, S)                                                                                      \
    X(S, argument_tensor_map, map_w,       "ARG_MAP_W")       /* rank 3: k in boxes of 64, 1, boxes */                 \
    X(S, float,               inverse,     "ARG_INVERSE")     /* 1 / k */                                              \
    X(S, float,               eps,         "ARG_EPS")
/* clang-format on */
ARGUMENT_STRUCT(GEMM_ROWS_NORM_ARGUMENTS, gemm_rows_norm_arguments);

/* Those of ptx/gemm/rows_e4m3.ptx: the same, and the scales of B. */
/* clang-format off */
#define GEMM_ROWS_E4M3_ARGUMENTS(X, S)                                                                                 \
    GEMM_ROWS_TMA_ARGUMENTS(X, S)                                                                                      \
    X(S, uint64_t,            scale_b,     "ARG_SCALE_B")     /* device address; of a tensor's scale: or 0 */          \
    X(S, int32_t,             scale_k,     "ARG_SCALE_K")     /* blocks of k that have scales */
/* clang-format on */
ARGUMENT_STRUCT(GEMM_ROWS_E4M3_ARGUMENTS, gemm_rows_e4m3_arguments);
_Static_assert(offsetof(gemm_rows_e4m3_arguments, early) == offsetof(gemm_rows_tma_arguments, early) &&
                   offsetof(gemm_rows_e4m3_arguments, beta) == offsetof(gemm_rows_tma_arguments, beta) &&
                   offsetof(gemm_rows_norm_arguments, early) == offsetof(gemm_rows_tma_arguments, early) &&
                   offsetof(gemm_rows_norm_arguments, beta) == offsetof(gemm_rows_tma_arguments, beta),
               "the arguments of these kernels begin alike");
#endif
