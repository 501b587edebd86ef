/* mma_layout.h - private: which thread of the mma.sync GEMM touches which element of shared memory,
 * derived from the row's tile with the layout algebra: the source of the symbols that the kernel is told
 * (mma_symbols.h).
 *
 * A tile of A is BLOCK_M x BLOCK_K, of B BLOCK_N x BLOCK_K: "lanes" x K here, whichever of the two lies side
 * by side.  Shared memory has a stage of A, one of B, the next of A, ...; when all k are done the tile of D
 * lies where the stages were, each warp's part for itself. */
#ifndef PTXPACK_GEMM_MMA_LAYOUT_H
#define PTXPACK_GEMM_MMA_LAYOUT_H
#include "gemm.h"
#include "host/plan/tiles.h"

enum { GEMM_MMA_A, GEMM_MMA_B, GEMM_MMA_OPERANDS };
enum { GEMM_MMA_K_FIRST, GEMM_MMA_K_LAST, GEMM_MMA_ORDERS }; /* k lies side by side; k is far apart */

/* One instruction of all threads, repeated. */
typedef struct gemm_mma_access {
    const char    *atom;    /* the copy atom's name; of plain stores the instruction */
    int            bytes;   /* of a thread, each time */
    ptxpack_layout offsets; /* (thread, step along mode 0, along mode 1) -> element, before the swizzle */
    ptxpack_layout place;   /* the same -> (mode 0, mode 1): the element itself */
} gemm_mma_access;

/* A tile in shared memory, of one element each. */
typedef struct gemm_mma_tile {
    ptxpack_layout  plain; /* (mode 0, mode 1) -> element */
    ptxpack_swizzle swizzle;
    ptxpack_layout  swizzled;
} gemm_mma_tile;

typedef struct gemm_mma_operand {
    gemm_mma_tile   tile;     /* (row of A or column of B, k) */
    gemm_mma_access load;     /* global -> tile, 16 bytes a thread */
    gemm_mma_access fragment; /* ldmatrix.x4; mode 0 in steps of 16, mode 1 too */
} gemm_mma_operand;

typedef struct gemm_mma_layout {
    ptxpack_status    status;
    int64_t           block_m, block_n, block_k, warps_m, warps_n, stages, mma_k;
    bool              cp_async;
    ptxpack_tiled_mma mma; /* the warps' m16n8k16; with MMA_K = 8 two instructions make one */
    gemm_mma_operand  operand[GEMM_MMA_OPERANDS][GEMM_MMA_ORDERS];
    gemm_mma_tile     d;       /* (row, column) */
    gemm_mma_access   d_store; /* a thread's two neighbouring accumulators, rounded */
    gemm_mma_access   d_copy;  /* 16 bytes a thread, of its warp's part: C in, D out */
    int64_t           smem_b, stage_bytes, shared_bytes; /* bytes; B's place in a stage */
} gemm_mma_layout;

/* PTXPACK_E_UNSUPPORTED, with a line in ptxpack_detail(NULL), when the row contradicts itself.  That is
 * l->status, too. */
ptxpack_status ptxpack_gemm_mma_layout(const ptxpack_variant *row, gemm_mma_layout *l);
/* The conflicts that the hardware sees in one access to a tile. */
ptxpack_banks ptxpack_gemm_mma_banks(const gemm_mma_tile *tile, const gemm_mma_access *access);
#endif
