/* program.h - compile and launch a caller's own kernels: PTX with macros, or CUDA C++ through NVRTC.  C11 and
 * C++.
 *
 *   ptxpack_program_load (expand or NVRTC, key, cache or compile, load) -> ptxpack_program_function ->
 *   ptxpack_function_launch
 *
 * A program is one source with one or more entries.  PTX is expanded like the files of the pack.  An .include
 * is searched for in the source's folder, then in include_dirs, then in the pack ("atom/mma_sync.ptx").  CUDA
 * C++ may include the headers of ptx/inline as <ptxpack/inline/mma_sync.h>; they need no file of a CUDA
 * toolkit.  Its other headers are searched for in the folder of the including file, in include_dirs, and in the
 * folders that the option --include-path names (<cuda_fp16.h> needs "--include-path=/usr/local/cuda/include").
 *
 * Target   The target is that of the device.  CUDA C++, and PTX that asks for it (.target sm_90a), are compiled
 *          for the device's exact target.  NVRTC compiles CUDA C++ to machine code if the driver takes that
 *          code, otherwise to PTX, which is then compiled like all PTX.
 * Cache    Machine code is kept in the handle's cache.  Its key holds the text of the source and of everything
 *          that it includes, the options, and the builds of the compilers.  NVRTC may also read files by
 *          itself: for an #include or __has_include whose name comes from a macro, --pre-include, precompiled
 *          headers, and files of options.  Their text is not known, so the code of such a program is neither
 *          kept nor shared.
 * Threads  Several threads may launch one program, and may load programs at the same time.  NVRTC works for one
 *          thread at a time, and a fork waits for it.
 * Errors   Errors are reported as in loader.h.  A message about a line names the caller's file and line,
 *          through macros and includes; for inline assembly it names the line of the asm and where it was
 *          inlined. */
#ifndef PTXPACK_PROGRAM_H
#define PTXPACK_PROGRAM_H
#include "loader/loader.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct ptxpack_program  ptxpack_program;
typedef struct ptxpack_function ptxpack_function; /* one entry of a program */

typedef enum ptxpack_language { PTXPACK_LANGUAGE_PTX, PTXPACK_LANGUAGE_CUDA } ptxpack_language;

typedef struct ptxpack_source {
    uint32_t         size; /* = sizeof(ptxpack_source) */
    ptxpack_language language;
    const char      *path;  /* the file; if `text` is given, only its name in messages and its folder */
    const char      *text;  /* the source; NULL: read `path` */
    size_t           bytes; /* of text; 0: up to its NUL byte */
    /* PTX: symbols for the expander.  It also gets ARCH, the architecture of the target, and ISA, the highest
     * that both compiler and driver take.  CUDA C++: macros, as by the option -D. */
    const ptxpack_symbol *symbols;
    size_t                symbol_count;
    const char *const    *include_dirs; /* searched in this order, after the folder of the including file */
    size_t                include_count;
    /* The options of NVRTC, one word each, for example "--use_fast_math".  Refused are the target and options
     * that do not give a whole program (-rdc=true).  PTX has no options. */
    const char *const *options;
    size_t             option_count;
    const char *const *expressions; /* NVRTC's name expressions, such as "scale<float>" */
    size_t             expression_count;
} ptxpack_source;

/* What a program is and how it was made.  The strings belong to the program; times are in milliseconds. */
typedef struct ptxpack_program_info {
    char        target[16];   /* "sm_90a": exact if the source or the device needs that */
    char        compiler[96]; /* "NVRTC 13.0" or the loader's compiler */
    bool        from_cache;
    double      front_ms;   /* to expand the text, or NVRTC's time */
    double      compile_ms; /* from PTX to machine code; 0 if NVRTC made machine code, or from_cache */
    double      cache_ms, load_ms;
    size_t      cubin_bytes;
    const char *log; /* everything that the compilers wrote; "" if they wrote nothing, or from_cache */
} ptxpack_program_info;

typedef struct ptxpack_function_info {
    const char *name; /* as it stands in the machine code */
    int registers, shared_bytes, local_bytes, constant_bytes, max_threads; /* as the driver reports them */
    ptxpack_resources resources; /* as the compiler reported them for this entry; spills -1 if it did not */
} ptxpack_function_info;

/* Compile a program and load it.  The caller frees *out.  On failure *out is NULL, and the cache keeps nothing.
 *   PTXPACK_E_ARG          the handle is offline, or a field is malformed
 *   PTXPACK_E_IO           `path` cannot be read
 *   PTXPACK_E_NO_NVRTC     the source is CUDA C++ and no NVRTC can be used: the detail says where it was
 *                          searched for
 *   PTXPACK_E_EXPAND, _E_COMPILE, _E_ISA, _E_FORBIDDEN and the other codes of ptxpack_kernel_load */
PTXPACK_API ptxpack_status ptxpack_program_load(ptxpack *handle, const ptxpack_source *source,
                                                ptxpack_program **out);
/* Make the machine code, but do not load it.  This works offline, for the handle's architecture.  *cubin and
 * *log_text are malloc'ed and the caller frees them.  *log_text is everything that the compilers wrote, also
 * after a failure, and "" if they wrote nothing; info->log is the same string.  `info`, `log_text`, `cubin` and
 * `bytes` may each be NULL.  The codes are those of ptxpack_program_load without PTXPACK_E_CUBIN;
 * PTXPACK_E_NO_JIT is also returned if only the driver itself can compile PTX. */
PTXPACK_API ptxpack_status ptxpack_program_compile(ptxpack *handle, const ptxpack_source *source,
                                                   ptxpack_program_info *info, char **log_text, void **cubin,
                                                   size_t *bytes);
/* Make the PTX that the compiler would get: the expanded text, or NVRTC's result.  *text is malloc'ed and ends
 * with a NUL byte; the caller frees it.  The codes are those of ptxpack_program_compile. */
PTXPACK_API ptxpack_status ptxpack_program_ptx(ptxpack *handle, const ptxpack_source *source, char **text,
                                               size_t *bytes);
/* Which of the source's symbols stand neither in its text nor in what it includes, outside of comments: misspelt ones would
 * change nothing.  unused[i] is for source->symbols[i]; of CUDA C++ that includes what only NVRTC finds, all are false.
 *   PTXPACK_E_ARG, _E_IO, _E_EXPAND   as for ptxpack_program_load */
PTXPACK_API ptxpack_status ptxpack_program_unused(ptxpack *handle, const ptxpack_source *source, bool *unused);
/* Unload and free a program.  Call this before the handle is closed, and when none of the program's kernels
 * runs any more.  NULL is allowed. */
PTXPACK_API void                        ptxpack_program_free(ptxpack_program *program);
PTXPACK_API const ptxpack_program_info *ptxpack_program_describe(const ptxpack_program *program);

/* Find a function by the name of its entry or by a name expression.  NULL finds the entry of a program that has
 * only one.  The function belongs to the program.
 *   PTXPACK_E_ARG      there is no such entry: the detail lists the existing ones
 *   PTXPACK_E_MEMORY, _E_FORKED, _E_DRIVER */
PTXPACK_API ptxpack_status               ptxpack_program_function(ptxpack_program *program, const char *name,
                                                                  const ptxpack_function **out);
PTXPACK_API const ptxpack_function_info *ptxpack_function_describe(const ptxpack_function *function);
/* The CUfunction, for callers that launch it themselves. */
PTXPACK_API void *ptxpack_function_handle(const ptxpack_function *function);

/* Enqueue a function on `stream` (NULL: the default stream).  `grid` counts blocks, `block` counts threads, and
 * arguments[i] points to the value of parameter i, as for cuLaunchKernel.  `shared_bytes` is the dynamic shared
 * memory of a block; it may exceed 48 KB up to the limit of the device.  The call allocates nothing and does
 * not synchronise.
 *   PTXPACK_E_ARG      an extent of the grid or the block is 0
 *   PTXPACK_E_LAUNCH   the driver refused the launch: the detail tells its shape
 *   PTXPACK_E_DRIVER, _E_FORKED */
PTXPACK_API ptxpack_status ptxpack_function_launch(const ptxpack_function *function, const uint32_t grid[3],
                                                   const uint32_t block[3], size_t shared_bytes,
                                                   void *const *arguments, struct CUstream_st *stream);
#ifdef __cplusplus
}
#endif
#endif
