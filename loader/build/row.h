/* row.h - what is made from a row and its symbols alone: the target, the text, the machine code of prebuilt
 * folders.
 *
 * The key of prebuilt code is everything that the PTX text is made from (the row's file and entry, the symbols,
 * line info, and a digest of the embedded pack and the expander), the exact target, and the compiler's options.
 * It names no compiler: a folder made on one machine serves others with other drivers, and it is looked up
 * before any text is expanded.  The entry's label tells which compiler made it.  A driver that is too old for
 * the machine code refuses it, and the loader goes on to its own cache and the compiler. */
#ifndef PTXPACK_ROW_H
#define PTXPACK_ROW_H
#include "loader/inspect.h"
#include "loader/internal.h"

/* The expanded text, malloc'ed, as an earlier run kept it; NULL when it must be expanded.  Only texts of the
 * embedded pack are kept. */
char *ptxpack_row_recall(ptxpack *handle, const ptxpack_variant *v, const ptxpack_symbol *symbols, size_t count,
                         size_t *bytes);
void  ptxpack_row_keep(ptxpack *handle, const ptxpack_variant *v, const ptxpack_symbol *symbols, size_t count,
                       const char *text, size_t bytes);
/* The digest of everything that the text depends on; "" when the text comes from a folder, or this library's
 * build id cannot be told. */
void ptxpack_row_digest(const ptxpack *h, const ptxpack_variant *v, const ptxpack_symbol *symbols, size_t count,
                        char digest[33]);

/* Look in the handle's prebuilt folders.  *out NULL with PTXPACK_OK: none of them has usable code; `line` says
 * why when an entry is bad, otherwise it is "".  Otherwise the caller releases *out, and `digest` names it in
 * this process.
 *   PTXPACK_E_MEMORY */
ptxpack_status ptxpack_row_prebuilt(ptxpack *handle, const ptxpack_variant *variant,
                                    const ptxpack_symbol *symbols, size_t count, const char *target,
                                    const struct ptxpack_code **out, char digest[33],
                                    char line[PTXPACK_DETAIL_BYTES]);
#endif
