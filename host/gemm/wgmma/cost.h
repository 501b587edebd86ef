/* cost.h - private: the tiles of the rows of ptx/gemm/wgmma.ptx and of its like, what is cut of them, and clocks that they take. */
#ifndef PTXPACK_GEMM_WGMMA_COST_H
#define PTXPACK_GEMM_WGMMA_COST_H
#include "host/gemm/op.h"

/* The k of a block: 128 bytes. */
int64_t gemm_wgmma_block_k(const ptxpack_variant *row);

/* Tiles of clusters. */
typedef struct gemm_tile_counts {
    int64_t m, n, total;
    int64_t cluster;  /* blocks */
    int64_t k_blocks; /* of a block of the cluster */
} gemm_tile_counts;
gemm_tile_counts gemm_wgmma_tiles(const ptxpack_variant *row, const ptxpack_gemm_desc *d,
                                  const gemm_geometry *g);

/* Clusters that the GPU holds, and those of the grid: each takes one tile after another; where its blocks share k, there is one for each
 * tile.  sm_count 0: an H200's. */
int64_t gemm_wgmma_held(const ptxpack_variant *row, const gemm_tile_counts *t, int sm_count);
int64_t gemm_wgmma_clusters(const ptxpack_variant *row, const gemm_tile_counts *t, int sm_count);

/* What rows of ptx/gemm/wgmma_parts.ptx cut, and what that brings.  Tiles are those of clusters. */
typedef struct gemm_cut_counts {
    int64_t tiles;  /* that are cut: the last ones, which do not fill a round */
    int64_t parts;  /* of each of them */
    int64_t blocks; /* of k, of a part */
    double  saved;  /* clocks that the blocks of k of the last round take less */
    double  added;  /* clocks for the sums of parts */
} gemm_cut_counts;
gemm_cut_counts gemm_wgmma_cut(const plan_problem *problem, const ptxpack_variant *row,
                               const gemm_tile_counts *t);

/* plan_method.cost: clocks. */
double gemm_wgmma_cost(const plan_problem *problem, const ptxpack_variant *row);
double gemm_wgmma_cost_parts(const plan_problem *problem, const ptxpack_variant *row);
double gemm_wgmma_cost_groups(const plan_problem *problem, const ptxpack_variant *row);
#endif
