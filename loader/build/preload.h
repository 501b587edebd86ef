/* preload.h - machine code made ready in the background, before there is a context.  C11 and C++.
 *
 *   ptxpack_preload -> ptxpack_preload_row, ptxpack_preload_attention ... (preload_plan.h) ->
 *   ptxpack_preload_wait -> ptxpack_open, plans, which find what was made -> ptxpack_preload_free
 *
 * Compiling takes neither a context nor a GPU, so it can go on while a program starts: threads of its own
 * bring each kernel as far as machine code - from a prebuilt folder, from the cache, or from the compiler -
 * and keep it in the cache and, until it is freed, in this process's memory, for handles that compile alike.
 *
 * Driver    with `arch` named the driver is not touched; without, it is initialised (cuInit) in the
 *           background and asked for the device's attributes.  No context is made or looked at.
 * Threads   all calls, but for free, from any thread at any time.
 * Fork      not usable in a child process: PTXPACK_E_FORKED; there free does nothing.
 * Errors    a kernel that cannot be made is no failure of the others: its status is told to on_progress, the
 *           first such to ptxpack_preload_wait. */
#ifndef PTXPACK_PRELOAD_H
#define PTXPACK_PRELOAD_H
#include "loader/loader.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct ptxpack_preloading ptxpack_preloading;

/* One kernel is ready, or has failed. */
typedef struct ptxpack_preload_progress {
    size_t         done, total; /* of those asked for so far                                          */
    const char    *name;        /* of this one: its row's id, or "attention" where no row was found   */
    ptxpack_status status;
    const char    *detail;     /* one line when status is a failure, otherwise ""                    */
    bool           from_cache; /* nothing had to be compiled                                         */
    double         ms;         /* that it took                                                       */
} ptxpack_preload_progress;
/* Called in the threads of the preloading, one at a time; strings live until it returns.  It may call
 * ptxpack_preload_cancel, but no other function on this preloading. */
typedef void (*ptxpack_preload_event)(void *context, const ptxpack_preload_progress *progress);

/* A zeroed struct is the default. */
typedef struct ptxpack_preload_options {
    uint32_t               size;        /* = sizeof(ptxpack_preload_options)                             */
    uint32_t               threads;     /* at most that many; 0: one for each processor, at most 8       */
    const char            *arch;        /* for a device of "sm_90a" (or sm_90); NULL: for open->device   */
    int32_t                sm_count;    /* with arch: its multiprocessors, which the choice of kernels
                                          looks at; 0: as many as is usual                              */
    const ptxpack_options *open;        /* as the handle's that comes later, copied; NULL: the defaults.
                                          `offline` is not looked at; on_compile is called from the
                                          threads of the preloading                                     */
    ptxpack_preload_event  on_progress; /* NULL: no callback                                           */
    void                  *context;     /* for that call                                              */
} ptxpack_preload_options;

/* Create a preloading, which does nothing yet; returns at once.  options may be NULL.  On failure *out is
 * NULL and the detail line is ptxpack_detail(NULL), as for all calls here.
 *   PTXPACK_E_ARG     a size, or an architecture that is malformed or unknown
 *   PTXPACK_E_MEMORY */
PTXPACK_API ptxpack_status ptxpack_preload(const ptxpack_preload_options *options, ptxpack_preloading **out);

/* Make the machine code of this row with these symbols, as ptxpack_kernel_load would.  The row must live as
 * long as the preloading; the symbols are copied.
 *   PTXPACK_E_ARG     it was cancelled
 *   PTXPACK_E_MEMORY, _E_FORKED */
PTXPACK_API ptxpack_status ptxpack_preload_row(ptxpack_preloading *preloading, const ptxpack_variant *row,
                                               const ptxpack_symbol *symbols, size_t symbol_count);

/* Wait until every kernel that was asked for is made, has failed, or was cancelled.  Returns the status of
 * the first kernel that failed, or PTXPACK_E_FORKED. */
PTXPACK_API ptxpack_status ptxpack_preload_wait(ptxpack_preloading *preloading);
/* How many kernels are done, and of how many; either pointer may be NULL. */
PTXPACK_API void ptxpack_preload_count(ptxpack_preloading *preloading, size_t *done, size_t *total);
/* Begin no other kernel; kernels that are being compiled are finished.  Does not wait. */
PTXPACK_API void ptxpack_preload_cancel(ptxpack_preloading *preloading);
/* Cancel, wait, and free the memory.  May be called at any time, but not from a callback.  NULL is
 * allowed. */
PTXPACK_API void ptxpack_preload_free(ptxpack_preloading *preloading);
#ifdef __cplusplus
}
#endif
#endif
