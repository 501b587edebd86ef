/* inspect.h - private: what the command and the tests use of the loader beyond its public headers.  Of the
 * headers included here they may use the reading of files and logs, the pack's texts, and the function tables of
 * NVRTC and nvPTXCompiler, which the fake libraries of the tests export. */
#ifndef PTXPACK_INSPECT_H
#define PTXPACK_INSPECT_H
#include "cache/cache.h"
#include "files.h"
#include "loader/build/code.h"
#include "loader/compile/log.h"
#include "loader/compile/nvrtc.h"
#include "loader/compile/ptxcompiler.h"
#include "loader.h"
#include "pack.h"

/* A digest of the embedded pack and the expander, which the Makefile takes.  The library's version with the
 * first digits of that, for people and manifests: "0.1.0 (pack 01234567)". */
extern const char ptxpack_pack_identity[], ptxpack_library_version[];

/* What a row is compiled for: "sm_90", "sm_90a".   PTXPACK_E_UNSUPPORTED */
ptxpack_status ptxpack_kernel_target(const ptxpack *handle, const ptxpack_variant *variant,
                                     char exact_target[16]);
/* The key of its machine code in prebuilt folders (build/row.h).  NULL: its text comes from a folder, or memory
 * is out. */
ptxpack_cache_key *ptxpack_row_prebuilt_key(const ptxpack *handle, const ptxpack_variant *variant,
                                            const ptxpack_symbol *symbols, size_t count, const char *target);
/* ptxpack_kernel_compile without a copy: the caller releases *code, which after a failure is NULL. */
ptxpack_status ptxpack_kernel_make(ptxpack *handle, const ptxpack_variant *variant,
                                   const ptxpack_symbol *symbols, size_t symbol_count,
                                   ptxpack_kernel_info *info, const struct ptxpack_code **code);
/* The compiler that the handle uses, with its build id where that can be told:
 * "nvPTXCompiler 13.0 (build-id 01...)". */
void ptxpack_compiler_name(const ptxpack *handle, char *buf, size_t cap);

/* An offline handle that chooses and compiles as a handle on a device of `arch` would: sm_90 and sm_90a are the
 * same device, and each row is compiled for its own exact target.  sm_count 0: the usual number.  Codes of
 * ptxpack_open. */
ptxpack_status ptxpack_open_stand_in(const ptxpack_options *options, const char *arch, int sm_count,
                                     ptxpack **out);
#endif
