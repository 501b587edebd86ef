/* mma_symbols.h - private: what the layouts of an attention row mean for its PTX text, as symbols. */
#ifndef PTXPACK_ATTENTION_MMA_SYMBOLS_H
#define PTXPACK_ATTENTION_MMA_SYMBOLS_H
#include "mma_layout.h"
#include "host/plan/symbols.h"

/* Functions of the thread (host/plan/symbols.h); offsets in shared memory are bytes in a tile before the
 * swizzle:
 *
 *   LOAD_AT, LOAD_ROW, LOAD_COLUMN        the thread's first 16 bytes of a tile to copy: where, row, byte in
 * the row Q_AT, K_AT, V_AT                      the row whose address the thread gives to ldmatrix C_ROW,
 * C_COLUMN                       the row and column of its first accumulator O_STORE_AT, O_LOAD_AT, _ROW,
 * _COLUMN  its first accumulator, and its first 16 bytes of O on the way out
 *
 * The list fails when a layout cannot be expressed in this way. */
void attention_mma_symbols(const attention_mma_layout *l, symbol_list *list);
#endif
