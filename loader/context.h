/* context.h - private: the handle's context, for calls of the driver that need one to be current. */
#ifndef PTXPACK_CONTEXT_H
#define PTXPACK_CONTEXT_H
#include <stdbool.h>
#include "loader.h"

/* What the text of a kernel depends on, besides the pack. */
typedef struct ptxpack_named_text {
    const char *name, *text; /* the row's file .includes it by this name, which no file of the pack has */
} ptxpack_named_text;
typedef struct ptxpack_kernel_source {
    const ptxpack_variant    *variant;
    const ptxpack_symbol     *symbols;
    size_t                    symbol_count;
    const ptxpack_named_text *texts; /* of the caller */
    size_t                    text_count;
} ptxpack_kernel_source;
/* ptxpack_kernel_load and ptxpack_kernel_expand of a source with texts; all of them must outlive the call. */
ptxpack_status ptxpack_kernel_load_source(ptxpack *handle, const ptxpack_kernel_source *source,
                                          ptxpack_kernel **out);
ptxpack_status ptxpack_kernel_expand_source(ptxpack *handle, const ptxpack_kernel_source *source,
                                            ptxpack_expansion **out);
/* ptxpack_kernel_compile of such a source, for what the compiler says about it. */
ptxpack_status ptxpack_kernel_compile_source(ptxpack *handle, const ptxpack_kernel_source *source,
                                             ptxpack_kernel_info *info);

/* PTXPACK_OK if this process opened the handle, otherwise PTXPACK_E_FORKED with a detail line. */
ptxpack_status ptxpack_check_process(const ptxpack *handle);
/* Make the handle's context current in this thread, unless it is current already.  ptxpack_leave restores the
 * previous one.
 *   PTXPACK_E_DRIVER */
ptxpack_status ptxpack_enter(const ptxpack *handle, bool *pushed);
void           ptxpack_leave(const ptxpack *handle, bool pushed);
/* ptxpack_kernel_launch for a caller that has checked the process and made the handle's context current.
 * overlap: the kernel may begin before the one before it has ended, if its row (PTXPACK_VARIANT_OVERLAPS) and the
 * driver allow that; otherwise this is a normal launch. */
ptxpack_status ptxpack_kernel_enqueue(const ptxpack_kernel *kernel, const uint32_t grid[3],
                                      const void *arguments, struct CUstream_st *stream, bool overlap);
#endif
