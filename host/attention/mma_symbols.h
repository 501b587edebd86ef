/* mma_symbols.h - private: what the layouts of an attention row mean for its PTX text, as symbols. */
#ifndef PTXPACK_ATTENTION_MMA_SYMBOLS_H
#define PTXPACK_ATTENTION_MMA_SYMBOLS_H
#include "mma_layout.h"
#include "host/plan/symbols.h"

/* The symbols are functions of the thread (host/plan/symbols.h).  Offsets in shared memory are bytes in a tile
 * before the swizzle.
 *
 *   LOAD_AT, LOAD_ROW, LOAD_COLUMN        the first 16 bytes of a tile that the thread copies: their offset,
 *                                         their row, and their byte in the row
 *   Q_AT, K_AT, V_AT                      the row whose address the thread gives to ldmatrix
 *   C_ROW, C_COLUMN                       the row and column of its first accumulator
 *   O_STORE_AT                            where it stores its first accumulator of O
 *   O_LOAD_AT, O_LOAD_ROW, O_LOAD_COLUMN  the first 16 bytes of O that it copies to global memory
 *
 * The list fails if a layout cannot be expressed in this way. */
void attention_mma_symbols(const attention_mma_layout *l, symbol_list *list);
#endif
