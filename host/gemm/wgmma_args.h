/* wgmma_args.h - private: the contract between host/gemm/wgmma.c and ptx/gemm/wgmma.ptx: the one
 * .param struct of the kernel, and its offsets as symbols of the expander. */
#ifndef PTXPACK_GEMM_WGMMA_ARGS_H
#define PTXPACK_GEMM_WGMMA_ARGS_H
#include <stddef.h>
#include <stdint.h>

/* The driver's CUtensorMap. */
typedef struct gemm_tensor_map {
    _Alignas(64) uint64_t opaque[16];
} gemm_tensor_map;

/* One row per member: C type, member, symbol of its byte offset.  Widest first: no padding inside.  "Tiles"
 * are those of a cluster. */
#define GEMM_WGMMA_ARGUMENTS(X)                                                                      \
    X(gemm_tensor_map, map_a, "ARG_MAP_A") /* rank 3: along a line, from line to line, batch   */    \
    X(gemm_tensor_map, map_b, "ARG_MAP_B")                                                           \
    X(gemm_tensor_map, map_c, "ARG_MAP_C") /* not set without C                                */    \
    X(gemm_tensor_map, map_d, "ARG_MAP_D")                                                           \
    X(uint64_t, bias, "ARG_BIAS")        /* device address                              */           \
    X(uint64_t, d, "ARG_D")              /* the same, and bytes from row to row and from */          \
    X(int64_t, stride_d, "ARG_STRIDE_D") /* matrix to matrix: for what TMA cannot store */           \
    X(int64_t, batch_d, "ARG_BATCH_D")                                                               \
    X(int32_t, m, "ARG_M")                                                                           \
    X(int32_t, n, "ARG_N")                                                                           \
    X(int32_t, k_begin, "ARG_K_BEGIN")   /* of the first block of k; beyond all where k is 0 */      \
    X(int32_t, k_blocks, "ARG_K_BLOCKS") /* 1 or more                                   */           \
    X(int32_t, tiles_m, "ARG_TILES_M")                                                               \
    X(int32_t, group_m, "ARG_GROUP_M")         /* rows of tiles that are worked on together   */     \
    X(int32_t, group_tiles, "ARG_GROUP_TILES") /* tiles in so many rows                       */     \
    X(int32_t, matrix_tiles, "ARG_MATRIX_TILES")                                                     \
    X(int32_t, tiles_total, "ARG_TILES_TOTAL")                                                       \
    X(int32_t, batches_a, "ARG_BATCHES_A") /* 1: one matrix for each of the batch; 0: one for all */ \
    X(int32_t, batches_b, "ARG_BATCHES_B")                                                           \
    X(int32_t, batches_c, "ARG_BATCHES_C")                                                           \
    X(float, alpha, "ARG_ALPHA")                                                                     \
    X(float, beta, "ARG_BETA")

typedef struct gemm_wgmma_arguments {
#define GEMM_WGMMA_MEMBER(type, name, symbol) type name;
    GEMM_WGMMA_ARGUMENTS(GEMM_WGMMA_MEMBER)
#undef GEMM_WGMMA_MEMBER
} gemm_wgmma_arguments;

/* The bytes in use; sizeof adds padding at the end, which the kernel does not declare. */
enum { GEMM_WGMMA_ARGUMENT_BYTES = offsetof(gemm_wgmma_arguments, beta) + sizeof(float) };
#endif
