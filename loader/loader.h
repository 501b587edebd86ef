/* loader.h - from PTX text to a function that can be launched.  C11 and C++; no CUDA header.
 *
 *   ptxpack_open -> ptxpack_kernel_load (expand, key, cache or compile, load) -> ptxpack_kernel_launch
 *
 * Contexts  the context that is current when ptxpack_open is called, otherwise the device's primary
 *           context, retained until ptxpack_close; never one of our own making.
 * Threads   a handle may be shared by threads.  ptxpack_kernel_load compiles one kernel once however
 *           many threads ask; ptxpack_kernel_launch takes no lock.
 * Errors    every call returns a ptxpack_status; ptxpack_detail is one line about the last failure of
 *           the calling thread.  Nothing is printed, nothing exits.
 * Fork      a handle is not usable in a child process: PTXPACK_E_FORKED. */
#ifndef PTXPACK_LOADER_H
#define PTXPACK_LOADER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "loader/expand/expand.h"
#include "registry.h"
#include "status.h"
#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;    /* CUstream is a pointer to it */
struct CUctx_st;       /* CUcontext is a pointer to it */
struct ptxpack_driver; /* the table of driver functions: driver.h */
struct ptxpack_cache;  /* cache.h */

typedef struct ptxpack        ptxpack;
typedef struct ptxpack_kernel ptxpack_kernel;

/* Called after each compilation, in the thread that made it, with the row's id ("attention_mma_...") or the
 * program's path, and the exact target ("sm_90a"; "compute_90a" when NVRTC made PTX); when the driver compiles
 * by itself, after it has loaded the text (perhaps from a cache of its own).  Several threads may be in it at a
 * time, and others wait for the kernel meanwhile: it must not call back into the handle. */
typedef void (*ptxpack_compile_event)(void *context, const char *kernel, const char *target, double ms);

/* Every pointer may be NULL and every number 0: then the environment variable named, then the
 * default.  Environment variables are ignored in setuid and setgid programs. */
typedef struct ptxpack_options {
    uint32_t    size;           /* = sizeof(ptxpack_options)                                              */
    int32_t     device;         /* ordinal, when no context is current                                    */
    const char *driver;         /* PTXPACK_DRIVER: library in place of libcuda.so.1                       */
    const char *ptxjit;         /* PTXPACK_PTXJIT: library in place of libnvidia-ptxjitcompiler.so.1;
                                   "none": do without it (PTXPACK_PTXAS likewise names a ptxas, or none)  */
    const char *ptx_dir;        /* PTXPACK_PTX_DIR: read .ptx files from this folder, not the built-in    */
    const char *arch;           /* PTXPACK_ARCH: "sm_80" chooses kernels as for that device; offline, the
                                   exact target to compile for ("sm_90a")                                 */
    const char *cache_dir;      /* PTXPACK_CACHE_DIR                                                      */
    bool        offline;        /* no driver, no device: kernels can be compiled, not loaded              */
    bool        no_cache;       /* PTXPACK_CACHE_DISABLE=1                                                */
    bool        line_info;      /* PTXPACK_LINE_INFO=1: .loc lines for profilers                          */
    bool        forbid_compile; /* PTXPACK_FORBID_COMPILE=1: never compile; what is neither in a prebuilt
                                   folder nor in the cache is refused                                 */
    ptxpack_compile_event on_compile;         /* NULL: no callback */
    void                 *on_compile_context; /* for that call                                                */
    const char *readonly_dirs; /* PTXPACK_CACHE_READONLY_DIRS: folders of prebuilt machine code, joined by
                                  ':', each DIR or DIR#SHA256 of its manifest; "": none (cache.h)     */
} ptxpack_options;

/* What was found; strings are owned by the handle. */
typedef struct ptxpack_device_info {
    char                name[96];
    char                target[16]; /* exact compile target: "sm_90"                              */
    int                 ordinal;
    int                 driver_version; /* as cuDriverGetVersion: 13000 for 13.0; 0 offline           */
    int                 sm_count;       /* offline: of the GPU of that architecture that is usual      */
    size_t              memory_bytes;
    ptxpack_device_caps caps;       /* after PTXPACK_ARCH                                         */
    char                route[256]; /* the compile route in use, and why: one line                */
} ptxpack_device_info;

/* What the compiler said of one compiled entry. */
typedef struct ptxpack_resources {
    int  registers;    /* per thread                                                                */
    int  shared_bytes; /* static                                                                    */
    int  stack_bytes, spill_store_bytes, spill_load_bytes;
    char remarks[480]; /* C75xx remarks and warnings, one a line; "" when none                      */
} ptxpack_resources;

/* How a kernel was made, for reports. */
typedef struct ptxpack_kernel_info {
    const ptxpack_variant *variant;
    ptxpack_resources      resources;
    bool                   from_cache, from_prebuilt; /* the latter: from a folder of readonly_dirs   */
    double                 expand_ms; /* or fetching the text that an earlier run expanded            */
    double                 compile_ms, load_ms; /* compile_ms 0 when from_cache            */
    double                 cache_ms;            /* look-up and read                        */
    size_t                 cubin_bytes;
} ptxpack_kernel_info;

/* options may be NULL.  On failure *out is NULL and ptxpack_detail(NULL) has the reason.
 *   PTXPACK_E_ARG      options.size, an ordinal that is not there, a malformed or unknown or too high arch
 *   PTXPACK_E_NO_DRIVER, _E_STUB_DRIVER, _E_NO_DEVICE, _E_DRIVER   not offline: what became of the driver
 *   PTXPACK_E_NO_JIT   the ptxjit that was named cannot be used
 *   PTXPACK_E_IO       ptx_dir is no folder
 *   PTXPACK_E_PREBUILT a folder of readonly_dirs cannot be used: its manifest, its owner, its pin
 *   PTXPACK_E_FORKED   this is a child of the process that initialised the driver
 *   PTXPACK_E_MEMORY */
PTXPACK_API ptxpack_status ptxpack_open(const ptxpack_options *options, ptxpack **out);
PTXPACK_API void ptxpack_close(ptxpack *handle); /* NULL is allowed; its kernels and plans become invalid */

/* The last failure of this thread on this handle (NULL: of ptxpack_open); "" when there is none.
 * Valid until the thread's next call that fails. */
PTXPACK_API const char *ptxpack_detail(const ptxpack *handle);
/* For layers above the loader: set that line, and return `status`. */
PTXPACK_API ptxpack_status ptxpack_fail(const ptxpack *handle, ptxpack_status status, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/* The results belong to the handle (the table to the process) and must not be freed.  From here on the
 * handle must not be NULL. */
PTXPACK_API const ptxpack_device_info   *ptxpack_device(const ptxpack *handle);
PTXPACK_API const struct ptxpack_driver *ptxpack_driver_table(const ptxpack *handle); /* NULL offline */
PTXPACK_API struct ptxpack_cache        *ptxpack_cache_of(const ptxpack *handle);
/* The context that kernels are loaded into (NULL offline): make it current (cuCtxSetCurrent of the table)
 * before allocating memory or making streams for them.  Loading and launching need no current context. */
PTXPACK_API struct CUctx_st *ptxpack_context(const ptxpack *handle);

/* Make `variant` ready with the caller's symbols added to the row's own.  The kernel belongs to the
 * handle; asking again for the same text returns the same kernel.  On failure *out is NULL.
 *   PTXPACK_E_ARG          the handle is offline, or the name of a symbol is malformed
 *   PTXPACK_E_UNSUPPORTED  the row is not for this device
 *   PTXPACK_E_EXPAND       the text has an error, or a file of it cannot be read
 *   PTXPACK_E_FORBIDDEN    it is in no prebuilt folder and not in the cache, and forbid_compile is set
 *   PTXPACK_E_PREBUILT     the same, and its entry in a prebuilt folder is not what the manifest says;
 *                          without forbid_compile such an entry is passed over and counted (cache.h)
 *   PTXPACK_E_COMPILE, _E_ISA, _E_NO_JIT, _E_IO   the compiler refused it, is too old, is not there, or its
 *                          temporary files could not be made
 *   PTXPACK_E_CUBIN, _E_DRIVER, _E_NO_DEVICE      the driver refused the machine code, or a call
 *   PTXPACK_E_FORKED, _E_MEMORY */
PTXPACK_API ptxpack_status ptxpack_kernel_load(ptxpack *handle, const ptxpack_variant *variant,
                                               const ptxpack_symbol *symbols, size_t symbol_count,
                                               ptxpack_kernel **out);
/* The same as far as the machine code (cache or compiler), without loading it: works offline.
 * *cubin is malloc'ed, the caller frees it.  info, cubin and bytes may each be NULL.  On failure *cubin is
 * NULL, *bytes 0.  The codes of ptxpack_kernel_load but for PTXPACK_E_CUBIN; _E_NO_JIT also where nothing
 * but the driver itself compiles. */
PTXPACK_API ptxpack_status ptxpack_kernel_compile(ptxpack *handle, const ptxpack_variant *variant,
                                                  const ptxpack_symbol *symbols, size_t symbol_count,
                                                  ptxpack_kernel_info *info, void **cubin, size_t *bytes);
/* Expand only; as ptxpack_expand, reading from the handle's pack.  The caller frees *out, which is NULL on
 * failure.
 *   PTXPACK_E_ARG (the name of a symbol), _E_EXPAND, _E_MEMORY */
PTXPACK_API ptxpack_status ptxpack_kernel_expand(ptxpack *handle, const ptxpack_variant *variant,
                                                 const ptxpack_symbol *symbols, size_t symbol_count,
                                                 ptxpack_expansion **out);
/* Lives as long as the kernel, as does the CUfunction. */
PTXPACK_API const ptxpack_kernel_info *ptxpack_kernel_describe(const ptxpack_kernel *kernel);
/* The CUfunction, for callers that launch it themselves. */
PTXPACK_API void *ptxpack_kernel_function(const ptxpack_kernel *kernel);

/* Enqueue: `arguments` is the one .param struct of the entry.  No allocation, no lock, no
 * synchronisation; capturable in a CUDA graph.  stream NULL: the default stream.
 *   PTXPACK_E_LAUNCH  the driver refused it
 *   PTXPACK_E_DRIVER  the handle's context could not be made current
 *   PTXPACK_E_FORKED */
PTXPACK_API ptxpack_status ptxpack_kernel_launch(const ptxpack_kernel *kernel, const uint32_t grid[3],
                                                 const void *arguments, struct CUstream_st *stream);
#ifdef __cplusplus
}
#endif
#endif
