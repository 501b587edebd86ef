/* shipped.h - machine code that came with the application: entries of prebuilt folders.
 *
 * Their key is all that the PTX text is made from - the row's file and entry, the symbols, line info, and a
 * digest of the embedded pack and the expander - and the exact target with the compiler's options.  It names
 * no compiler: a folder made on one machine serves others with other drivers, and it is looked up before any
 * text is expanded.  Which compiler made an entry stands in its label.  A driver that is too old for the
 * machine code refuses it, and the loader goes on to its own cache and the compiler. */
#ifndef PTXPACK_SHIPPED_H
#define PTXPACK_SHIPPED_H
#include "flight.h"
#include "loader/internal.h"

/* Of the embedded pack and the expander, which the Makefile takes; and the library's version with the first
 * digits of that, for people and manifests: "0.1.0 (pack 01234567)". */
extern const char ptxpack_pack_identity[], ptxpack_library_version[];

/* NULL where there is none: texts that come from a folder; or memory is out. */
ptxpack_cache_key *ptxpack_shipped_key(const ptxpack *handle, const ptxpack_variant *variant,
                                       const ptxpack_symbol *symbols, size_t count, const char *target);

/* The handle's folders are asked.  *out NULL with PTXPACK_OK: none of them has it; `line` says so of an entry
 * that is bad, otherwise it is "".  Otherwise the caller releases *out, and `digest` names it in this
 * process.
 *   PTXPACK_E_MEMORY */
ptxpack_status ptxpack_shipped_obtain(ptxpack *handle, const ptxpack_variant *variant,
                                      const ptxpack_symbol *symbols, size_t count, const char *target,
                                      const struct ptxpack_code **out, char digest[33],
                                      char line[PTXPACK_DETAIL_BYTES]);

/* What compiles for the handle, with its build where that can be told:
 * "nvPTXCompiler 13.0 (build-id 01...)". */
void ptxpack_compiler_name(const ptxpack *handle, char *buf, size_t cap);
#endif
