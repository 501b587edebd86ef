/* tiles.h - private: what the kernels' layouts have in common: tiles in shared memory as TMA and wgmma need
 * them, their boxes, and which thread accesses which of their elements. */
#ifndef PTXPACK_TILES_H
#define PTXPACK_TILES_H
#include "host/atom/tiled.h"
#include "host/atom/tma.h"
#include "host/atom/wgmma.h"
#include "host/dtype.h"
#include "host/atom/banks.h"
#include "loader/registry.h"

/* Atoms, tiled copies and layouts take kilobytes of stack: these functions do not share a frame. */
#define OWN_FRAME __attribute__((noinline)) static

enum {
    TILE_BOX_ROW = 128, /* bytes: the span of the widest swizzle */
    TILE_CHUNK = 16,    /* bytes that a thread moves at once */
    TILE_WARPGROUP = 128,
    TILE_WGMMA_ROWS = 64, /* of one instruction */
    TILE_WARP_ROWS = 16,  /* of those, a warp's */
};

/* Fails with "kernels.def, row ID: ..." in ptxpack_detail(NULL).  PTXPACK_E_UNSUPPORTED */
ptxpack_status tile_refuse_row(const ptxpack_variant *row, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- layouts ------------------------------------------------------------------------------------ */
ptxpack_layout tile_ints(int count, const int64_t *extents, const int64_t *strides);
ptxpack_layout tile_pair(const ptxpack_layout *a, const ptxpack_layout *b);
ptxpack_layout tile_identity(int64_t rows, int64_t columns);
ptxpack_layout tile_transposed(const ptxpack_layout *l);
ptxpack_layout tile_without_swizzle(ptxpack_layout l);
/* The parts of l that the coordinates pick ("(_,0)"), each of them made one mode. */
ptxpack_layout tile_arrange(const ptxpack_layout *l, int count, const char *const *coords);

/* ---- mma.sync ----------------------------------------------------------------------------------- */
/* The warps' m16n8k16, with these permutations of M and N.  The fragments of two k8 instructions side by side,
 * and those of bf16, have the same layout. */
ptxpack_tiled_mma tile_mma(int64_t warps_m, int64_t warps_n, const ptxpack_layout *m, const ptxpack_layout *n);
/* The name of the atom that the kernel issues for such inputs; with mma_k 8 it is issued twice for each 16
 * k. */
const char *tile_mma_instruction(int64_t mma_k, ptxpack_dtype dtype);
/* The swizzle that removes all bank conflicts from some accesses of threads to a tile of 16-bit elements.  All
 * warps and steps of an access are alike, so the search looks at the first of each. */
ptxpack_status tile_find_swizzle(const ptxpack_layout *plain, int count, const ptxpack_layout *const *offsets,
                                 const int *bytes, ptxpack_swizzle *out);
/* The conflicts that the hardware sees in an access to 16-bit elements, all warps and steps. */
ptxpack_banks tile_banks(ptxpack_swizzle swizzle, const ptxpack_layout *offsets, int bytes);

/* ---- wgmma -------------------------------------------------------------------------------------- */
/* Boxes one after another, each as wide as the swizzle's span. */
ptxpack_layout tile_of_boxes(int64_t rows, int64_t columns, int bits);
/* The boxes of 16 rows through which warps store their rows: (row, column of a box) -> element of all boxes, of
 * which each warp has `buffers`, one after another. */
ptxpack_layout tile_of_warps(int64_t warps, int64_t buffers, int64_t columns, int bits);
/* The accumulators of all warpgroups, by the name of the atom. */
ptxpack_tiled_mma tile_wgmma(int64_t warpgroups, const char *atom);
/* (thread, row half, 8 columns) -> (row, column) of an accumulator. */
ptxpack_layout tile_accumulators(const ptxpack_tiled_mma *mma, int64_t rows, int64_t columns);
/* (thread, 16 columns): the row of 16 bytes whose address a thread gives to ldmatrix or stmatrix -> 16-bit
 * element of `tile`, before the swizzle.  Accumulators of any N are those of N = 16, one after another. */
ptxpack_layout tile_matrix_rows(int64_t warpgroups, const char *atom, ptxpack_operand operand,
                                ptxpack_side side, const ptxpack_layout *tile);
/* Why the row's registers cannot be set by setmaxnreg, or NULL. */
const char *tile_registers_refusal(int64_t producer, int64_t consumer, int64_t warpgroups, int64_t blocks);

/* ---- tensor maps -------------------------------------------------------------------------------- */
/* The box by which TMA moves `shared`, rows x columns, of a tensor {columns, rows, ...} of `rank` modes.  All
 * tensors have the same box: the one here is larger than the tile in each mode, so that no mode vanishes. */
ptxpack_tma_box tile_box(const ptxpack_layout *shared, int rank, int bits);
/* Checks that the boxes of a tile, each rows x columns, lie one after another, `distance` elements apart, and
 * that the coordinates of the instruction are the tensor's modes in their order.  PTXPACK_E_UNSUPPORTED */
ptxpack_status tile_check_box(const char *name, const ptxpack_tma_box *box, int rank, int64_t rows,
                              int64_t columns, int64_t boxes, int64_t distance);
#endif
