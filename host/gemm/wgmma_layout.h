/* wgmma_layout.h - private: the tiles of a row of ptx/gemm/wgmma.ptx or wgmma_fp8.ptx in shared memory: what TMA
 * writes there, what wgmma reads through descriptors, and where the accumulators are staged; derived from the
 * row with the layout algebra.  The source of the symbols that the kernel is told and of its tensor maps. */
#ifndef PTXPACK_GEMM_WGMMA_LAYOUT_H
#define PTXPACK_GEMM_WGMMA_LAYOUT_H
#include "check.h"
#include "host/plan/tiles.h"

/* The mbarriers, in the order in which they lie: so many of each, 8 bytes each. */
typedef enum gemm_wgmma_barrier { GEMM_FULL, GEMM_EMPTY, GEMM_BARRIERS } gemm_wgmma_barrier;

/* A or B, one of the two orders. */
typedef struct gemm_wgmma_operand {
    ptxpack_layout        tile;  /* (row of A or column of B, k) -> element of a stage, swizzled */
    ptxpack_wgmma_operand read;  /* its descriptors */
    ptxpack_tma_box       box;   /* of a matrix {along a line, from line to line, batch} */
    int64_t               parts; /* blocks of a cluster that share it: each brings one part of it to all */
    int64_t               part_bytes, part_extent; /* of a part; its rows of A or columns of B */
    int64_t               boxes;                   /* of a part, one behind the other */
    int64_t               box_bytes, box_extent;
} gemm_wgmma_operand;

typedef struct gemm_wgmma_layout {
    ptxpack_status status;
    int64_t        block_m, block_n, block_k, m_tiles, warpgroups, stages, d_buffers;
    int64_t        cluster_m, cluster_n, cluster_k;
    bool           k_lines_a, k_lines_b; /* an A, a B of which k goes from line to line is taken */
    int64_t        element;              /* bytes of one of A or B */
    int64_t        parts, sets; /* e4m3: instructions' columns are BLOCK_N / parts; accumulators in flight */
    int64_t        regs_producer, regs_consumer; /* registers a thread */
    gemm_wgmma_operand a[2],
        b[2]; /* row-major, column-major: the bytes of both are the same; of e4m3 a[0], b[1] */
    int64_t        d_boxes, d_columns; /* of a tile: so many boxes of so many columns, side by side */
    ptxpack_layout d;                  /* (row, column of one box) -> element of all warps' boxes */
    ptxpack_layout d_offsets;          /* stmatrix: (thread, 16 columns) -> the same, before the swizzle */
    /* Of matrices {along a row, from row to row, batch}: 64 columns, of C of the block's rows, of D of a
     * warp's. */
    ptxpack_tma_box c_box, d_box;
    ptxpack_layout  c_place; /* (thread, row half, 8 columns) -> (row, column) of an accumulator */
    /* Bytes. */
    int64_t a_stage_bytes, b_stage_bytes, d_box_bytes;
    int64_t smem_a, smem_b, smem_d, smem_bias, smem_barriers, shared_bytes;
    int64_t barrier[GEMM_BARRIERS], barrier_count[GEMM_BARRIERS];
} gemm_wgmma_layout;

/* PTXPACK_E_UNSUPPORTED, with a line in ptxpack_detail(NULL), when the row contradicts itself.  That is
 * l->status, too. */
ptxpack_status ptxpack_gemm_wgmma_layout(const ptxpack_variant *row, gemm_wgmma_layout *l);
/* More rows than a group may have.  With groups D's map has the coordinates (column, GEMM_GROUP_ROWS - rows + i, 0, end,
 * GEMM_GROUP_ROWS) for row i of a group of `rows` rows that ends before row `end`: rows from `end` on lie beyond the extent of the
 * second one, so that TMA does not store them.  The last stride times GEMM_GROUP_ROWS is minus that many rows, modulo 2^64. */
enum { GEMM_GROUP_ROWS = 1 << 30 };
/* Into `box`, one of the layout's, type, extents and strides of the problem's matrix; with groups the rank of D's, too.
 * PTXPACK_E_UNSUPPORTED, with a line in ptxpack_detail(NULL), for what TMA cannot do. */
ptxpack_status ptxpack_gemm_wgmma_map(const ptxpack_gemm_desc *desc, const gemm_geometry *geometry, int matrix,
                                      ptxpack_tma_box *box);
/* The last rows of a block of A, and of C, that are not brought at all where there are few: TMA takes longer for a line of zeros than for one
 * that it reads (H200, 2026-11-29, tiles of 64 x 64, 4096 columns of 14336: 64 rows 3671 GB/s, 32 rows 2764).  Their rows of D are not
 * stored. */
int64_t gemm_wgmma_idle_lines(const ptxpack_gemm_desc *desc, const gemm_wgmma_layout *l);
/* The layout's box of a matrix, with these numbers of the problem and what the L2 cache fetches at once.  Fails as ptxpack_gemm_wgmma_map. */
ptxpack_status ptxpack_gemm_wgmma_box(const ptxpack_gemm_desc *desc, const gemm_geometry *geometry,
                                      const gemm_wgmma_layout *l, int matrix, ptxpack_tma_box *box);
/* Leaves of the box of A or B, with the numbers of a problem, the lines that the last one has. */
void gemm_wgmma_crop_rest(ptxpack_tma_box *box);
#endif
