/* wgmma_symbols.h - private: the layouts of a wgmma GEMM row as numbers for the PTX. */
#ifndef PTXPACK_GEMM_WGMMA_SYMBOLS_H
#define PTXPACK_GEMM_WGMMA_SYMBOLS_H
#include "host/plan/symbols.h"
#include "wgmma_layout.h"

/* The list fails when a layout cannot be expressed in this way.
 *
 *   SMEM_A, _B, _D, _BIAS   where the stages, the warps' boxes and the bias of a tile begin
 *   BAR_FULL, BAR_EMPTY     the first of each kind of barrier
 *   BLOCK_K, BOX_ROW        of a stage; bytes of a row of a box
 *   A_STAGE_BYTES, A_PARTS, A_PART_BYTES, A_PART, A_BOXES, A_BOX_BYTES, A_BOX, and the same of B
 *                           a stage is PARTS parts of PART rows, PART_BYTES apart; a part BOXES boxes likewise
 *   DESC_A_LOW, _HIGH, _STEP, _TILE, and the same of B
 *                           descriptors, in units of 16 bytes; to the next k, to the next 64 rows
 *   D_AT, SWIZZLE_*, D_STEP, D_STEPS, D_WARP, D_BOX_BYTES, D_COLUMNS
 *                           where a thread's rows of D go
 *   C_COLUMN, C_COLUMNS     a thread's first column of an accumulator, and how far the next pair is away */
void gemm_wgmma_symbols(const gemm_wgmma_layout *l, bool a_column, bool b_column, symbol_list *list);
/* What the kernel of e4m3 wants besides:
 *   C_ROW, C_ROWS           a thread's first row of a block's accumulators, and how far the other one is away */
void gemm_wgmma_row_symbols(const gemm_wgmma_layout *l, symbol_list *list);
#endif
