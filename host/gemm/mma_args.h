/* mma_args.h - private: the contract between host/gemm/mma.c and ptx/gemm/mma.ptx: the one .param
 * struct of the kernel, and its offsets as symbols of the expander. */
#ifndef PTXPACK_GEMM_MMA_ARGS_H
#define PTXPACK_GEMM_MMA_ARGS_H
#include <stddef.h>
#include <stdint.h>

/* One row per member: C type, member, symbol of its byte offset.  Widest first: no padding inside. */
#define GEMM_MMA_ARGUMENTS(X)                                                                    \
    X(uint64_t, a, "ARG_A") /* device addresses                                    */            \
    X(uint64_t, b, "ARG_B")                                                                      \
    X(uint64_t, c, "ARG_C")                                                                      \
    X(uint64_t, d, "ARG_D")                                                                      \
    X(uint64_t, bias, "ARG_BIAS")                                                                \
    X(int64_t, a_batch, "ARG_A_BATCH") /* bytes from a matrix to the next                     */ \
    X(int64_t, b_batch, "ARG_B_BATCH")                                                           \
    X(int64_t, c_batch, "ARG_C_BATCH")                                                           \
    X(int64_t, d_batch, "ARG_D_BATCH")                                                           \
    X(int32_t, a_line, "ARG_A_LINE") /* bytes from a line to the next                       */   \
    X(int32_t, b_line, "ARG_B_LINE")                                                             \
    X(int32_t, c_line, "ARG_C_LINE")                                                             \
    X(int32_t, d_line, "ARG_D_LINE")                                                             \
    X(int32_t, m, "ARG_M")                                                                       \
    X(int32_t, n, "ARG_N")                                                                       \
    X(int32_t, k, "ARG_K")                                                                       \
    X(int32_t, blocks, "ARG_BLOCKS")             /* of BLOCK_K k; the last may be partial     */ \
    X(int32_t, tiles_m, "ARG_TILES_M")           /* tiles in a column of them                 */ \
    X(int32_t, matrix_tiles, "ARG_MATRIX_TILES") /* in a matrix                               */ \
    X(int32_t, group_m, "ARG_GROUP_M")           /* rows of tiles that are worked on together */ \
    X(int32_t, group_tiles, "ARG_GROUP_TILES")   /* tiles in so many rows                     */ \
    X(float, alpha, "ARG_ALPHA")                                                                 \
    X(float, beta, "ARG_BETA")

typedef struct gemm_mma_arguments {
#define GEMM_MMA_MEMBER(type, name, symbol) type name;
    GEMM_MMA_ARGUMENTS(GEMM_MMA_MEMBER)
#undef GEMM_MMA_MEMBER
} gemm_mma_arguments;

/* The bytes in use; sizeof may add padding at the end, which the kernel does not declare. */
enum { GEMM_MMA_ARGUMENT_BYTES = offsetof(gemm_mma_arguments, beta) + sizeof(float) };
#endif
