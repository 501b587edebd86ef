/* context.h - private: the handle's context, for calls of the driver that need one to be current. */
#ifndef PTXPACK_CONTEXT_H
#define PTXPACK_CONTEXT_H
#include <stdbool.h>
#include "loader.h"

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
