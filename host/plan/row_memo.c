/* row_memo.c - derivations from rows of kernels.def, each made once in a process. */
#include "row_memo.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "loader/loader.h"

/* Where what is derived from this row is kept; NULL: it is no row of kernels.def. */
static _Atomic(void *) *place_of(row_memo *memo, const ptxpack_variant *row)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    for (size_t i = 0; i < count && i < ROW_MEMO_ROWS; i++)
        if (row == &rows[i])
            return &memo->kept[i];
    return NULL;
}

const void *row_memo_get(row_memo *memo, const ptxpack_variant *row, size_t bytes, row_derivation derive,
                         void **own)
{
    _Atomic(void *) *place = place_of(memo, row);
    void            *known = place != NULL ? atomic_load_explicit(place, memory_order_acquire) : NULL;
    *own = NULL;
    if (known != NULL)
        return known;
    void *made = malloc(bytes);
    if (made == NULL) {
        ptxpack_fail(NULL, PTXPACK_E_MEMORY, "no memory for the layouts of %s", row->id);
        return NULL;
    }
    if (derive(row, made) != PTXPACK_OK || place == NULL) {
        *own = made;
        return made;
    }
    if (!atomic_compare_exchange_strong(place, &known, made)) { /* another thread was faster */
        free(made);
        return known;
    }
    return made;
}
