/* row_memo.h - private: what is derived from a row of kernels.def never changes, so once in a process will
 * do. */
#ifndef PTXPACK_ROW_MEMO_H
#define PTXPACK_ROW_MEMO_H
#include <stddef.h>
#include "loader/registry.h"

enum { ROW_MEMO_ROWS = 64 };
typedef struct row_memo {
    _Atomic(void *) kept[ROW_MEMO_ROWS]; /* by the row's place in the table */
} row_memo;

/* Fills the memory; only what is PTXPACK_OK is kept. */
typedef ptxpack_status (*row_derivation)(const ptxpack_variant *row, void *out);

/* What `derive` makes of the row, `bytes` of it.  For a row that is not of the table, and when it is not
 * PTXPACK_OK, the result is *own, too, which the caller frees (NULL is fine).  NULL: no memory, with a line.
 */
const void *row_memo_get(row_memo *memo, const ptxpack_variant *row, size_t bytes, row_derivation derive,
                         void **own);
#endif
