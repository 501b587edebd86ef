/* row.h - what depends only on a row and its symbols: the target, the text, and the machine code of prebuilt
 * folders.
 *
 * The key of prebuilt code consists of everything that the PTX text depends on (the row's file and entry, the
 * symbols, line info, and a digest of the embedded pack and the expander), the exact target, and the compiler's
 * options.  It names no compiler, so that a folder that was made on one machine serves machines with other
 * drivers, and so that no text has to be expanded before the look-up.  The entry's label names the compiler
 * that made it.  If a driver is too old for the machine code, it refuses the code, and the loader then uses its
 * cache and the compiler. */
#ifndef PTXPACK_ROW_H
#define PTXPACK_ROW_H
#include "loader/context.h"
#include "loader/inspect.h"
#include "loader/internal.h"

/* The expanded text, malloc'ed, as an earlier run has kept it; NULL if it must be expanded.  Only texts of the
 * embedded pack are kept. */
char *ptxpack_row_recall(ptxpack *handle, const ptxpack_kernel_source *source, size_t *bytes);
void  ptxpack_row_keep(ptxpack *handle, const ptxpack_kernel_source *source, const char *text, size_t bytes);
/* The digest of everything that the text depends on; "" if the text comes from a folder, or if this library's
 * build id cannot be determined. */
void ptxpack_row_digest(const ptxpack *h, const ptxpack_kernel_source *source, char digest[33]);

/* Look in the handle's prebuilt folders.  If one of them has usable code, the caller releases *out, and
 * `digest` identifies it in this process.  If none has, the status is PTXPACK_OK, too, and *out is NULL; `line`
 * tells what is wrong with a bad entry, or is "".
 *   PTXPACK_E_MEMORY */
ptxpack_status ptxpack_row_prebuilt(ptxpack *handle, const ptxpack_kernel_source *source, const char *target,
                                    const struct ptxpack_code **out, char digest[33],
                                    char line[PTXPACK_DETAIL_BYTES]);
#endif
