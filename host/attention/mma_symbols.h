/* mma_symbols.h - private: what the layouts of an attention row mean for its PTX text, as symbols. */
#ifndef PTXPACK_ATTENTION_SYMBOLS_H
#define PTXPACK_ATTENTION_SYMBOLS_H
#include "mma_layout.h"
#include "host/plan/instance.h"

/* Thread functions (thread_symbols.h); offsets in shared memory are bytes in a tile before the swizzle:
 *
 *   LOAD_AT, LOAD_ROW, LOAD_COLUMN      the thread's first 16 bytes of a tile to copy: where, row, byte in
 *   row
 *   Q_AT, K_AT, V_AT                    the row whose address it gives to ldmatrix
 *   C_ROW, C_COLUMN                     the row and column of its first accumulator
 *   O_STORE_AT, O_LOAD_AT, _ROW, _COLUMN  its first accumulator, its first 16 bytes of O on the way out
 *
 * Appends at most `cap` symbols; returns how many, 0 with a line in ptxpack_detail(NULL) when a layout
 * cannot be
 * told that way. */
size_t ptxpack_attention_layout_symbols(const attention_layout *l, ptxpack_symbol *out, size_t cap);
#endif
