/* preload.h - machine code is made in the background, before there is a context.  C11 and C++.
 *
 *   ptxpack_preload -> ptxpack_preload_row, ptxpack_preload_attention ... (preload_plan.h) ->
 *   ptxpack_preload_wait -> ptxpack_open, plans, which find the machine code -> ptxpack_preload_free
 *
 * Compiling needs neither a context nor a GPU, so it can run while a program starts.  A preloading has threads
 * of its own.  They get the machine code of each kernel from a prebuilt folder, from the cache, or from the
 * compiler.  It is kept in the cache and, until the preloading is freed, in the memory of this process, where
 * every handle with the same compiler and target finds it.
 *
 * Driver    If `arch` is given, the driver is not used.  Otherwise it is initialised (cuInit) in the background
 *           and asked for the device's attributes.  No context is created or used.
 * Threads   Every call except ptxpack_preload_free may be made from any thread at any time.
 * Fork      A child process cannot use the preloading of its parent: calls return PTXPACK_E_FORKED, and
 *           ptxpack_preload_free does nothing.
 * Errors    If one kernel cannot be made, the others are made all the same.  on_progress gets the status of
 *           each kernel, and ptxpack_preload_wait returns the first failure. */
#ifndef PTXPACK_PRELOAD_H
#define PTXPACK_PRELOAD_H
#include "loader/loader.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct ptxpack_preloading ptxpack_preloading;

/* One kernel is ready, or has failed. */
typedef struct ptxpack_preload_progress {
    size_t         done, total; /* kernels that are done, and all that were asked for so far */
    const char    *name;        /* of this kernel: its row's id, or "attention" if no row was found */
    ptxpack_status status;
    const char    *detail;     /* one line if status is a failure, otherwise "" */
    bool           from_cache; /* nothing had to be compiled */
    double         ms;         /* the time that it took, in milliseconds */
} ptxpack_preload_progress;
/* The threads of the preloading call this function, one at a time.  The strings live until it returns.  It may
 * call ptxpack_preload_cancel, but no other function of this preloading. */
typedef void (*ptxpack_preload_event)(void *context, const ptxpack_preload_progress *progress);

/* A zeroed struct means the defaults. */
typedef struct ptxpack_preload_options {
    uint32_t    size;    /* = sizeof(ptxpack_preload_options) */
    uint32_t    threads; /* the most threads to use; 0: one for each processor, at most 8 */
    const char *arch;    /* make code for this architecture, "sm_90a" or "sm_90"; NULL: for open->device */
    /* With `arch`: the number of multiprocessors of that device, on which the choice of kernels depends.  0:
     * the usual number. */
    int32_t sm_count;
    /* The options with which the handle will be opened later; they are copied.  NULL: the defaults.  `offline`
     * is ignored, and on_compile is called from the threads of the preloading. */
    const ptxpack_options *open;
    ptxpack_preload_event  on_progress; /* NULL: there is no callback */
    void                  *context;     /* its first argument */
} ptxpack_preload_options;

/* Create a preloading, which does nothing yet.  `options` may be NULL.  On failure *out is NULL.  For all calls
 * of this header the detail line is ptxpack_detail(NULL).
 *   PTXPACK_E_ARG     a size is wrong, or the architecture is malformed or unknown
 *   PTXPACK_E_MEMORY */
PTXPACK_API ptxpack_status ptxpack_preload(const ptxpack_preload_options *options, ptxpack_preloading **out);

/* Make the machine code of this row with these symbols, as ptxpack_kernel_load would.  The row must live as
 * long as the preloading; the symbols are copied.  The call does not wait.
 *   PTXPACK_E_ARG     the preloading was cancelled
 *   PTXPACK_E_MEMORY, _E_FORKED */
PTXPACK_API ptxpack_status ptxpack_preload_row(ptxpack_preloading *preloading, const ptxpack_variant *row,
                                               const ptxpack_symbol *symbols, size_t symbol_count);

/* Wait until every kernel that was asked for is made, has failed, or was cancelled.  Returns the status of
 * the first kernel that failed, or PTXPACK_E_FORKED. */
PTXPACK_API ptxpack_status ptxpack_preload_wait(ptxpack_preloading *preloading);
/* Count the kernels that are done, and all that were asked for.  Either pointer may be NULL. */
PTXPACK_API void ptxpack_preload_count(ptxpack_preloading *preloading, size_t *done, size_t *total);
/* Begin no further kernel.  Kernels that are being compiled are finished.  The call does not wait. */
PTXPACK_API void ptxpack_preload_cancel(ptxpack_preloading *preloading);
/* Cancel, wait, and free the memory.  Do not call it from a callback, nor while another thread uses the
 * preloading.  NULL is allowed. */
PTXPACK_API void ptxpack_preload_free(ptxpack_preloading *preloading);
#ifdef __cplusplus
}
#endif
#endif
