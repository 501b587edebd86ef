/* inspect.h - private: what the command and the tests use of the loader beyond its public headers.  Of the
 * headers included here they may use finding and reading files, the reading of logs, the pack's texts, and the
 * function tables of NVRTC and nvPTXCompiler, which the fake libraries of the tests export. */
#ifndef PTXPACK_INSPECT_H
#define PTXPACK_INSPECT_H
#include "cache/cache.h"
#include "emulator.h"
#include "files.h"
#include "loader/build/code.h"
#include "loader/build/program.h"
#include "loader/compile/find.h"
#include "loader/build/program.h"
#include "loader/compile/log.h"
#include "loader/compile/nvrtc.h"
#include "loader/compile/ptxcompiler.h"
#include "loader/compile/ptx_text.h"
#include "loader.h"
#include "pack/pack.h"

/* The Makefile makes a digest of the embedded pack and the expander: ptxpack_pack_identity.  The library's
 * version with the first digits of that digest, for people and manifests, is "0.1.0 (pack 01234567)". */
extern const char ptxpack_pack_identity[], ptxpack_library_version[];

/* The target that a row is compiled for: "sm_90", "sm_90a".
 *   PTXPACK_E_UNSUPPORTED */
ptxpack_status ptxpack_kernel_target(const ptxpack *handle, const ptxpack_variant *variant,
                                     char exact_target[16]);
/* Whether the handle's compiler knows the target that the row is compiled for.  The compiler is asked once for
 * each of the two targets that a handle has, "sm_90" and "sm_90a"; `known` is zero at first.  Compilers that
 * need a device know the target of that device.
 *   PTXPACK_E_UNSUPPORTED  as ptxpack_kernel_target
 *   PTXPACK_E_COMPILE      the compiler does not know the target
 *   PTXPACK_E_ISA, _E_NO_JIT, _E_IO, _E_MEMORY */
struct ptxpack_known_targets {
    bool asked[2];
};
ptxpack_status ptxpack_know_target(ptxpack *handle, const ptxpack_variant *variant,
                                   struct ptxpack_known_targets *known);
/* The key of the row's machine code in prebuilt folders (build/row.h).  NULL: its text comes from a folder, or
 * memory ran out. */
ptxpack_cache_key *ptxpack_row_prebuilt_key(const ptxpack *handle, const ptxpack_variant *variant,
                                            const ptxpack_symbol *symbols, size_t count, const char *target);
/* ptxpack_kernel_compile without a copy: the caller releases *code, which after a failure is NULL. */
ptxpack_status ptxpack_kernel_make(ptxpack *handle, const ptxpack_variant *variant,
                                   const ptxpack_symbol *symbols, size_t symbol_count,
                                   ptxpack_kernel_info *info, const struct ptxpack_code **code);
/* Expand a program of PTX as ptxpack_program_load does, but only with the symbols of the source: ARCH and ISA
 * are not added.  The codes are those of ptxpack_expand and ptxpack_program_load, with the handle's detail
 * line.  *out may be NULL. */
ptxpack_status ptxpack_source_expand(ptxpack *handle, const ptxpack_source *source, ptxpack_expansion **out);
/* The compiler that the handle uses, with its build id if that is known:
 * "nvPTXCompiler 13.0 (build-id 01...)". */
void ptxpack_compiler_name(const ptxpack *handle, char *buf, size_t cap);

/* After PTXPACK_E_COMPILE: all errors of the source, one a line, as ptxpack_log_error_list; it is compiled once more.
 * malloc'ed; NULL where they are not known one by one. */
char *ptxpack_program_errors(ptxpack *handle, const ptxpack_source *source, size_t *count);

/* An offline handle that chooses and compiles as a handle on a device of `arch` would: sm_90 and sm_90a are the
 * same device, and each row is compiled for its own exact target.  sm_count 0 means the usual number.  The
 * codes are those of ptxpack_open. */
ptxpack_status ptxpack_open_stand_in(const ptxpack_options *options, const char *arch, int sm_count,
                                     ptxpack **out);
#endif
