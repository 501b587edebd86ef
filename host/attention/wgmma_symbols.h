/* wgmma_symbols.h - private: the layouts of a wgmma attention row as symbols of its PTX text.  All are bytes
 * unless said otherwise; offsets of functions named _AT are before the swizzle.
 *
 *   BOXES, BOX_COLUMNS             of a tile, elements of a box
 *   SMEM_Q, SMEM_K, SMEM_V, SMEM_O, SMEM_BARRIERS, BAR_*, SMEM_MESSAGE
 *   Q_STAGE_BYTES, KV_STAGE_BYTES, Q_BOX_BYTES, KV_BOX_BYTES, O_BUFFER_BYTES
 *   DESC_Q_LOW, DESC_Q_HIGH, DESC_K_*, DESC_V_*   the two words of the descriptor of a tile at address 0
 *   in units of 16 bytes, to be added to the low word:
 *   DESC_STEP, DESC_STEPS          the next k16 of Q and K inside a box; how many of them a box has
 *   DESC_Q_BOX, DESC_K_BOX         the next box
 *   DESC_Q_WARPGROUP               the next 64 rows of Q
 *   DESC_V_STEP                    the next 16 keys of V
 *   SWIZZLE_SHIFT, SWIZZLE_MASK    as of ptx/shared/layout.ptx
 *   functions (host/plan/symbols.h) of the thread's number in its warpgroup:
 *   C_ROW, C_COLUMN                of its first accumulator; C_ROWS to the second row, C_COLUMNS to the next
 *                                  8 columns
 *   Q_AT                           the row of a Q tile whose address it gives to ldmatrix for the first step;
 *                                  the others by 16 DESC_STEP, 16 DESC_Q_WARPGROUP and Q_BOX_BYTES
 *   O_AT                           the row of its warp's box whose address it gives to stmatrix for the first
 *                                  16 columns
 *   O_STEP, O_STEPS                16 columns on inside a box: XOR by O_STEP; steps in a box
 *   O_WARP                         from a warp's boxes of O to the next warp's
 * With fp8 a step is k32, there is no DESC_V_*, and V means the transpose:
 *   SMEM_RAW, BAR_RAW_*            V as TMA writes it, KV_STAGE_BYTES a stage; the transpose has V_STAGE_BYTES
 *   SMEM_DESCALES                  8 bytes for each message
 *   and those of ptxpack_attention_fp8_symbols */
#ifndef PTXPACK_ATTENTION_WGMMA_SYMBOLS_H
#define PTXPACK_ATTENTION_WGMMA_SYMBOLS_H
#include "wgmma_layout.h"

/* The list fails when a layout cannot be expressed in this way. */
void attention_wgmma_symbols(const attention_wgmma_layout *l, symbol_list *list);
#endif
