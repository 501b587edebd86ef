/* wgmma_args.h - private: the contract between host/gemm/wgmma.c and ptx/gemm/wgmma.ptx: the kernel's one
 * .param struct.  "Tiles" are those of a cluster. */
#ifndef PTXPACK_GEMM_WGMMA_ARGS_H
#define PTXPACK_GEMM_WGMMA_ARGS_H
#include "mma_args.h"

/* clang-format off */
#define GEMM_WGMMA_ARGUMENTS(X, S)                                                                                        \
    X(S, argument_tensor_map, map_a,        "ARG_MAP_A")        /* rank 3: along a line, from line to line, batch */      \
    X(S, argument_tensor_map, map_b,        "ARG_MAP_B")                                                                  \
    X(S, argument_tensor_map, map_c,        "ARG_MAP_C")        /* not set without C */                                   \
    X(S, argument_tensor_map, map_d,        "ARG_MAP_D")                                                                  \
    X(S, argument_tensor_map, map_a_rest,   "ARG_MAP_A_REST")   /* of the rest of its lines, if lines_a is set */         \
    X(S, argument_tensor_map, map_b_rest,   "ARG_MAP_B_REST")                                                             \
    X(S, uint64_t,            bias,         "ARG_BIAS")         /* device address */                                      \
    X(S, uint64_t,            d,            "ARG_D")            /* the same, and bytes from row to row and from */        \
    X(S, int64_t,             stride_d,     "ARG_STRIDE_D")     /* matrix to matrix: for what TMA cannot store */         \
    X(S, int64_t,             batch_d,      "ARG_BATCH_D")                                                                \
    X(S, int32_t,             a_bytes,      "ARG_A_BYTES")      /* that TMA brings of A, of a block of k, at most */      \
    X(S, int32_t,             cut_lines,    "ARG_CUT_LINES")    /* not 0: tiles at an edge have boxes of their own */     \
    X(S, int32_t,             lines_a,      "ARG_LINES_A")      /* m or GEMM_ALL_LINES: its boxes are all alike */        \
    X(S, int32_t,             lines_b,      "ARG_LINES_B")      /* n, the same */                                         \
    X(S, int32_t,             early,        "ARG_EARLY")        /* not 0: B may be read before the kernel before ends */  \
    X(S, int32_t,             once,         "ARG_ONCE")         /* not 0: few tiles want the same B */                    \
    X(S, int32_t,             m,            "ARG_M")                                                                      \
    X(S, int32_t,             n,            "ARG_N")                                                                      \
    X(S, int32_t,             k_begin,      "ARG_K_BEGIN")      /* of the first block of k; beyond all where k is 0 */    \
    X(S, int32_t,             k_blocks,     "ARG_K_BLOCKS")     /* 1 or more */                                           \
    GEMM_TILE_ORDER(X, S)                                                                                                 \
    X(S, int32_t,             tiles_total,  "ARG_TILES_TOTAL")                                                            \
    X(S, int32_t,             batches_a,    "ARG_BATCHES_A")    /* 1: one matrix for each of the batch; 0: one for all */ \
    X(S, int32_t,             batches_b,    "ARG_BATCHES_B")                                                              \
    X(S, int32_t,             batches_c,    "ARG_BATCHES_C")                                                              \
    X(S, float,               alpha,        "ARG_ALPHA")                                                                  \
    X(S, float,               beta,         "ARG_BETA")
/* clang-format on */
ARGUMENT_STRUCT(GEMM_WGMMA_ARGUMENTS, gemm_wgmma_arguments);
enum { GEMM_ALL_LINES = INT32_MAX };

/* Those of ptx/gemm/wgmma_fp8.ptx: the same, and the scales. */
/* clang-format off */
#define GEMM_WGMMA_FP8_ARGUMENTS(X, S)                                                                                    \
    GEMM_WGMMA_ARGUMENTS(X, S)                                                                                            \
    X(S, uint64_t,            scale_a,      "ARG_SCALE_A")      /* device addresses; of a tensor's scale: or 0 */         \
    X(S, uint64_t,            scale_b,      "ARG_SCALE_B")                                                                \
    X(S, int64_t,             scales_a,     "ARG_SCALES_A")     /* bytes from a matrix's to the next one's */             \
    X(S, int64_t,             scales_b,     "ARG_SCALES_B")                                                               \
    X(S, int32_t,             scale_k,      "ARG_SCALE_K")      /* blocks of k that have scales */
/* clang-format on */
ARGUMENT_STRUCT(GEMM_WGMMA_FP8_ARGUMENTS, gemm_wgmma_fp8_arguments);
_Static_assert(offsetof(gemm_wgmma_fp8_arguments, beta) == offsetof(gemm_wgmma_arguments, beta),
               "the arguments of both kernels begin alike");

/* Those of ptx/gemm/wgmma_parts.ptx: the same, and what is cut.  tiles_total counts pieces: whole tiles, and parts of the others. */
/* clang-format off */
#define GEMM_WGMMA_PARTS_ARGUMENTS(X, S)                                                                                  \
    GEMM_WGMMA_ARGUMENTS(X, S)                                                                                            \
    X(S, uint64_t,            counters,     "ARG_COUNTERS")     /* device addresses: a counter of each warp of a cut tile */ \
    X(S, uint64_t,            parts,        "ARG_PARTS")        /* the sums of each part of each of them */               \
    X(S, int32_t,             whole_tiles,  "ARG_WHOLE_TILES")  /* the first ones */                                      \
    X(S, int32_t,             cut_tiles,    "ARG_CUT_TILES")                                                              \
    X(S, int32_t,             cut_tiles_inverse, "ARG_CUT_TILES_INVERSE") /* quotient_inverse; of none not set */         \
    X(S, int32_t,             cut_tiles_shift, "ARG_CUT_TILES_SHIFT")                                                     \
    X(S, int32_t,             tile_parts,   "ARG_TILE_PARTS")   /* of each of them, 2 or more */                          \
    X(S, int32_t,             part_blocks,  "ARG_PART_BLOCKS")  /* blocks of k of a part; of a tile's last one as many or fewer */
/* clang-format on */
ARGUMENT_STRUCT(GEMM_WGMMA_PARTS_ARGUMENTS, gemm_wgmma_parts_arguments);
_Static_assert(offsetof(gemm_wgmma_parts_arguments, beta) == offsetof(gemm_wgmma_arguments, beta),
               "the arguments of both kernels begin alike");

/* Those of ptx/gemm/wgmma_groups.ptx: the same, and the starts.  map_d is of rank 5: along a row, from row to row, 1, and the rows
 * of a group's end and of GEMM_GROUP_ROWS before it (host/gemm/wgmma_layout.h). */
/* clang-format off */
#define GEMM_WGMMA_GROUPS_ARGUMENTS(X, S)                                                                                 \
    GEMM_WGMMA_ARGUMENTS(X, S)                                                                                            \
    X(S, uint64_t,            starts,       "ARG_STARTS")       /* device address */                                      \
    X(S, int32_t,             groups,       "ARG_GROUPS")                                                                 \
    X(S, int32_t,             tiles_n,      "ARG_TILES_N")      /* tiles in a row of them */
/* clang-format on */
ARGUMENT_STRUCT(GEMM_WGMMA_GROUPS_ARGUMENTS, gemm_wgmma_groups_arguments);
_Static_assert(offsetof(gemm_wgmma_groups_arguments, beta) == offsetof(gemm_wgmma_arguments, beta),
               "the arguments of both kernels begin alike");
#endif
