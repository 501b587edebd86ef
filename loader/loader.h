/* loader.h - from PTX text to a function that can be launched.  C11 and C++; this header needs no CUDA header.
 *
 *   ptxpack_open -> ptxpack_kernel_load (expand, key, cache or compile, load) -> ptxpack_kernel_launch
 *
 * Contexts  A handle uses the context that is current when ptxpack_open is called.  If there is none, or if
 *           it was destroyed, the handle retains the device's primary context until ptxpack_close.  A handle
 *           never creates a context of its own.
 * Threads   Threads may share a handle.  ptxpack_kernel_load compiles a kernel only once, even if several
 *           threads ask for it at the same time.  ptxpack_kernel_launch takes no lock.
 * Errors    Calls that can fail return a ptxpack_status, and ptxpack_detail returns one line about the last
 *           failure of the calling thread.  The library prints nothing and never exits.
 * Fork      A child process cannot use the handle of its parent: calls return PTXPACK_E_FORKED. */
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

/* The handle calls this function after each compilation, in the thread that compiled.  `kernel` is the row's id
 * ("attention_mma_...") or the program's path.  `target` is the exact target ("sm_90a"; "compute_90a" if NVRTC
 * made PTX).  `ms` is the time of the compilation in milliseconds.  If the driver itself compiles, the call
 * comes after the driver has loaded the text, perhaps from a cache of its own.  Several threads may be in the
 * callback at the same time, and other threads may wait for the kernel: the callback must not use the
 * handle. */
typedef void (*ptxpack_compile_event)(void *context, const char *kernel, const char *target, double ms);

/* Every pointer may be NULL and every number may be 0.  Then the environment variable that is named here
 * applies, and without it the default.  Programs that run setuid or setgid ignore environment variables. */
typedef struct ptxpack_options {
    uint32_t size;   /* = sizeof(ptxpack_options) */
    int32_t  device; /* the ordinal of the device; it is ignored when a context is current */
    /* PTXPACK_DRIVER: a library in place of libcuda.so.1.  PTXPACK_DEVICE=emu takes the emulated driver and its
     * compiler, whatever other variables name. */
    const char *driver;
    /* PTXPACK_PTXJIT: a library in place of libnvidia-ptxjitcompiler.so.1.  "none" does without it.  Likewise
     * the environment variable PTXPACK_PTXAS names a ptxas, or "none". */
    const char *ptxjit;
    const char *ptx_dir; /* PTXPACK_PTX_DIR: read the .ptx files from this folder, not the built-in copy */
    /* PTXPACK_ARCH: "sm_80" chooses kernels as for such a device.  Offline it is the exact target to compile
     * for ("sm_90a"). */
    const char *arch;
    const char *cache_dir; /* PTXPACK_CACHE_DIR */
    bool        offline;   /* use no driver and no device: kernels can be compiled, but not loaded */
    bool        no_cache;  /* PTXPACK_CACHE_DISABLE=1 */
    bool        line_info; /* PTXPACK_LINE_INFO=1: emit .loc lines for profilers */
    /* PTXPACK_FORBID_COMPILE=1: never compile.  A kernel that is neither in a prebuilt folder nor in the cache
     * is refused. */
    bool                  forbid_compile;
    ptxpack_compile_event on_compile;         /* NULL: there is no callback */
    void                 *on_compile_context; /* its first argument */
    /* PTXPACK_CACHE_READONLY_DIRS: folders of prebuilt machine code, joined by ':'.  Each is DIR, or DIR#SHA256
     * with the SHA-256 of its manifest.  "" means none.  See cache.h. */
    const char *readonly_dirs;
} ptxpack_options;

/* What ptxpack_open found.  The handle owns the strings. */
typedef struct ptxpack_device_info {
    char                name[96];
    char                target[16]; /* the exact target of compilations: "sm_90" */
    int                 ordinal;
    int                 driver_version; /* as cuDriverGetVersion returns it: 13000 for 13.0; offline 0 */
    int                 sm_count;       /* offline: that of the usual GPU of the architecture */
    size_t              memory_bytes;
    ptxpack_device_caps caps;       /* after PTXPACK_ARCH was applied */
    char                route[256]; /* one line: which compiler is used, and why */
} ptxpack_device_info;

/* What the compiler reported about one compiled entry. */
typedef struct ptxpack_resources {
    int  registers;                                        /* per thread */
    int  shared_bytes;                                     /* static shared memory per block */
    int  stack_bytes, spill_store_bytes, spill_load_bytes; /* per thread */
    char remarks[480]; /* the remarks C75xx and the warnings, one a line; "" if there are none */
} ptxpack_resources;

/* How a kernel was made, for reports.  Times are in milliseconds. */
typedef struct ptxpack_kernel_info {
    const ptxpack_variant *variant;
    ptxpack_resources      resources;
    bool                   from_cache;
    bool                   from_prebuilt; /* the code comes from a folder of readonly_dirs */
    double                 expand_ms; /* to expand the text, or to fetch it if an earlier run has expanded it */
    double                 compile_ms; /* 0 if from_cache */
    double                 load_ms;
    double                 cache_ms; /* to look up and read the entry */
    size_t                 cubin_bytes;
} ptxpack_kernel_info;

/* Open a handle.  `options` may be NULL.  On failure *out is NULL and ptxpack_detail(NULL) gives the reason.
 *   PTXPACK_E_ARG      options.size is wrong, there is no device with that ordinal, or `arch` is malformed,
 *                      unknown, or above the device
 *   PTXPACK_E_NO_DRIVER, _E_STUB_DRIVER, _E_NO_DEVICE, _E_DRIVER   the driver cannot be used (never offline)
 *   PTXPACK_E_NO_JIT   `ptxjit` names a library that cannot be used
 *   PTXPACK_E_IO       `ptx_dir` is not a folder
 *   PTXPACK_E_PREBUILT a folder of readonly_dirs cannot be used, because of its manifest, its owner or its pin
 *   PTXPACK_E_FORKED   this process is a child of the process that initialised the driver
 *   PTXPACK_E_MEMORY */
PTXPACK_API ptxpack_status ptxpack_open(const ptxpack_options *options, ptxpack **out);
/* Close a handle, which may be NULL.  Its kernels and plans become invalid.  A primary context that nobody else
 * retains is destroyed; if it was current in the calling thread, no context is current there afterwards. */
PTXPACK_API void ptxpack_close(ptxpack *handle);

/* One line about the last failure of this thread on this handle (NULL: of ptxpack_open), or "" if there was
 * none.  The line is valid until the thread's next call that fails. */
PTXPACK_API const char *ptxpack_detail(const ptxpack *handle);
/* For layers above the loader: set that line and return `status`. */
PTXPACK_API ptxpack_status ptxpack_fail(const ptxpack *handle, ptxpack_status status, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/* The results belong to the handle, and the table of functions belongs to the process: do not free them.  For
 * these calls and all that follow the handle must not be NULL. */
PTXPACK_API const ptxpack_device_info   *ptxpack_device(const ptxpack *handle);
PTXPACK_API const struct ptxpack_driver *ptxpack_driver_table(const ptxpack *handle); /* NULL offline */
PTXPACK_API struct ptxpack_cache        *ptxpack_cache_of(const ptxpack *handle);
/* The context into which kernels are loaded (NULL offline).  Make it current (cuCtxSetCurrent of the table)
 * before you allocate memory or create streams for them.  Loading and launching need no current context. */
PTXPACK_API struct CUctx_st *ptxpack_context(const ptxpack *handle);

/* Make the kernel of `variant` with the row's symbols and the caller's, and load it.  The kernel belongs to the
 * handle.  A second call for the same text returns the same kernel.  On failure *out is NULL.
 *   PTXPACK_E_ARG          the handle is offline, or the name of a symbol is malformed
 *   PTXPACK_E_UNSUPPORTED  the row cannot run on this device
 *   PTXPACK_E_EXPAND       the text has an error, or one of its files cannot be read
 *   PTXPACK_E_FORBIDDEN    forbid_compile is set, and the code is in no prebuilt folder and not in the cache
 *   PTXPACK_E_PREBUILT     the same, and the entry in a prebuilt folder is not what the manifest says; without
 *                          forbid_compile such an entry is skipped and counted (cache.h)
 *   PTXPACK_E_COMPILE      the compiler refused the text
 *   PTXPACK_E_ISA          the compiler is too old for the text
 *   PTXPACK_E_NO_JIT       there is no compiler
 *   PTXPACK_E_IO           the compiler's files in memory could not be made
 *   PTXPACK_E_CUBIN        the driver refused the machine code
 *   PTXPACK_E_DRIVER, _E_NO_DEVICE   a call of the driver failed
 *   PTXPACK_E_FORKED, _E_MEMORY */
PTXPACK_API ptxpack_status ptxpack_kernel_load(ptxpack *handle, const ptxpack_variant *variant,
                                               const ptxpack_symbol *symbols, size_t symbol_count,
                                               ptxpack_kernel **out);
/* Make the machine code as ptxpack_kernel_load does, from the cache or by the compiler, but do not load it.
 * This works offline.  *cubin is malloc'ed and the caller frees it.  `info`, `cubin` and `bytes` may each be
 * NULL.  On failure *cubin is NULL and *bytes is 0.  The codes are those of ptxpack_kernel_load without
 * PTXPACK_E_CUBIN; PTXPACK_E_NO_JIT is also returned if only the driver itself can compile. */
PTXPACK_API ptxpack_status ptxpack_kernel_compile(ptxpack *handle, const ptxpack_variant *variant,
                                                  const ptxpack_symbol *symbols, size_t symbol_count,
                                                  ptxpack_kernel_info *info, void **cubin, size_t *bytes);
/* Only expand the text, as ptxpack_expand does with the files of the handle's pack.  The caller frees *out,
 * which is NULL on failure.
 *   PTXPACK_E_ARG     the name of a symbol is malformed
 *   PTXPACK_E_EXPAND, _E_MEMORY */
PTXPACK_API ptxpack_status ptxpack_kernel_expand(ptxpack *handle, const ptxpack_variant *variant,
                                                 const ptxpack_symbol *symbols, size_t symbol_count,
                                                 ptxpack_expansion **out);
/* How the kernel was made.  The result lives as long as the kernel. */
PTXPACK_API const ptxpack_kernel_info *ptxpack_kernel_describe(const ptxpack_kernel *kernel);
/* The CUfunction, for callers that launch it themselves.  It lives as long as the kernel. */
PTXPACK_API void *ptxpack_kernel_function(const ptxpack_kernel *kernel);

/* Bits of the field `launch` of what comes with the launch of a plan (ptxpack_attention_buffers, ptxpack_gemm_buffers,
 * ...).
 *
 * PTXPACK_LAUNCH_OVERLAP: this kernel may begin before the kernel that was enqueued just before it in the stream has
 * ended: that one's last blocks still run while this one sets up shared memory and barriers (CUDA's programmatic
 * dependent launch; in a captured graph it is a programmatic edge, which drivers from CUDA 12.3 on know).  The results are
 * as without it: before this kernel reads or writes any buffer it waits until that kernel has ended and its writes are
 * visible.
 *   The kernel before may be any kernel.  Nothing is required of it; if it lets its dependents begin early, as all kernels
 * of this library with this ability do, launched with this flag or without it, this one begins then, otherwise when it
 * has ended.  But a kernel that was itself launched as a programmatic dependent must wait for its own predecessor in at
 * least one thread (griddepcontrol.wait; all kernels of this library do): one that does not may end before that one, and
 * what is enqueued after it, this kernel included, would not wait for it, either.
 *   If the stream's work before this launch is no kernel (a copy, a wait for an event), and on GPUs below sm_90, with
 * kernels that have no such instruction (rows of kernels.def without OVERLAPS) and with drivers before CUDA 11.6, the flag
 * is accepted and the launch is a normal one.
 *
 * PTXPACK_LAUNCH_CONSTANT_B, of a matrix product and with the bit above: the caller's word that no kernel that may still run writes
 * B, nor norm_w, as of a model's weights.  Then parts of them may be read before the kernel before has ended: the memory is busy
 * meanwhile.
 *
 * PTXPACK_LAUNCH_CONSTANT_KV, of an attention or an append and with the first bit: the same word about k and v, lengths, starts, row maps,
 * left pads, page tables, descales, and the tables of sines, as of a cache while a model decodes; but not about the rows that the
 * append of this launch writes.  Then kernels for few query rows may find keys and read them before the kernel before has ended,
 * and appends the places of their rows. */
enum { PTXPACK_LAUNCH_OVERLAP = 1, PTXPACK_LAUNCH_CONSTANT_B = 2, PTXPACK_LAUNCH_CONSTANT_KV = 4 };

/* Enqueue the kernel on `stream` (NULL: the default stream).  `grid` counts blocks, and `arguments` points to
 * the one .param struct of the entry.  The call allocates nothing, takes no lock and does not synchronise.  It
 * can be captured in a CUDA graph.
 *   PTXPACK_E_LAUNCH  the driver refused the launch
 *   PTXPACK_E_DRIVER  the handle's context could not be made current
 *   PTXPACK_E_FORKED */
PTXPACK_API ptxpack_status ptxpack_kernel_launch(const ptxpack_kernel *kernel, const uint32_t grid[3],
                                                 const void *arguments, struct CUstream_st *stream);
#ifdef __cplusplus
}
#endif
#endif
