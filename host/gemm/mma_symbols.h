/* mma_symbols.h - private: what the layouts of a row of ptx/gemm/mma.ptx mean for its text, as symbols. */
#ifndef PTXPACK_GEMM_MMA_SYMBOLS_H
#define PTXPACK_GEMM_MMA_SYMBOLS_H
#include "host/plan/symbols.h"
#include "mma_layout.h"

/* Offsets in shared memory are bytes in a tile before its swizzle X_SWIZZLE_SHIFT, X_SWIZZLE_MASK; X is A, B
 * or D.  A line is what lies side by side: k where X_K_FIRST is 1, otherwise rows of A, columns of B.
 *
 * functions of the thread (host/plan/symbols.h)
 *   X_LOAD_AT, X_LOAD_LINE, X_LOAD_BYTE   its first 16 bytes of a tile to copy: where, line, byte of it
 *   X_AT                                  the 16 bytes whose address it gives to ldmatrix
 *   D_STORE_AT, D_STORE_COLUMN            its first two accumulators
 *   D_COPY_AT, D_COPY_ROW, D_COPY_COLUMN  its first 16 bytes of D
 * numbers
 *   X_LOADS, X_LOAD_LINES, X_LOAD_STEP    passes of the copies; lines and bytes from one to the next
 *   X_STEP_LANES, X_STEP_K                bytes between fragments of 16 rows or columns, and of 16 k; the one
 *                                         along a line is an XOR, the other is added
 *   D_ROW_STEP, D_COLUMN_STEP             bytes between a thread's accumulators; the second is an XOR
 *   D_COPIES, D_COPY_ROWS, D_COPY_STEP    passes; rows and bytes from one to the next: the swizzle flips
 *   SMEM_B, STAGE_BYTES
 *
 * The list fails when a layout cannot be expressed in this way. */
void gemm_mma_symbols(const gemm_mma_layout *l, bool a_column, bool b_column, symbol_list *list);
#endif
