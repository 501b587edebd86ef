/* preload_work.h - private: how layers above the loader tell a preloading what to make. */
#ifndef PTXPACK_PRELOAD_WORK_H
#define PTXPACK_PRELOAD_WORK_H
#include "preload.h"

/* The item that `resolve` passes to ptxpack_preload_make together with its row and symbols. */
struct ptxpack_preload_item;
typedef ptxpack_status (*ptxpack_preload_resolve)(ptxpack *stand_in, const void *what,
                                                  struct ptxpack_preload_item *item);

/* Queue an item: `resolve` is called in a thread of the preloading with a handle that chooses as a handle
 * on the device would, and with a copy of the `bytes` at `what`.  `name` is a literal.  The codes are those of
 * ptxpack_preload_row. */
ptxpack_status ptxpack_preload_add(ptxpack_preloading *preloading, const char *name,
                                   ptxpack_preload_resolve resolve, const void *what, size_t bytes);
/* `resolve` calls this once: make the machine code and hold it.  The codes are those of
 * ptxpack_kernel_compile. */
ptxpack_status ptxpack_preload_make(struct ptxpack_preload_item *item, ptxpack *stand_in,
                                    const ptxpack_variant *row, const ptxpack_symbol *symbols, size_t count);
#endif
