/* program.h - a caller's own kernels by the same ways: macro PTX, or CUDA C++ through NVRTC.  C11 and C++.
 *
 *   ptxpack_program_load (expand or NVRTC, key, cache or compile, load) -> _function -> _launch
 *
 * A program is one source, with as many entries as it has.  PTX is expanded as the pack's own files are; its
 * .include finds the source's folder, then include_dirs, then the pack ("atom/mma_sync.ptx").  CUDA C++
 * finds the pack's headers of ptx/inline as #include <ptxpack/inline/mma_sync.h>, without any file of a CUDA
 * toolkit; its own headers beside the including file, in include_dirs, and in the folders of --include-path
 * among the options (<cuda_fp16.h> wants "--include-path=/usr/local/cuda/include").
 *
 * Target   the device's own; CUDA C++, and PTX that says so (.target sm_90a), for its exact target.  CUDA
 *          C++ becomes machine code by NVRTC where the driver takes it, otherwise PTX, which goes the way of
 *          all PTX.
 * Cache    machine code is kept in the handle's cache; its key holds all text that went in, also of what was
 *          included, the options, and the builds of the compilers.  What NVRTC reads by itself (an #include
 *          or __has_include whose name is a macro's, --pre-include, precompiled headers, files of options)
 *          cannot be known: such a program is not kept, nor shared with another.
 * Threads  one program may be launched by several threads; loading several at a time is fine, too.  NVRTC
 *          works for one thread at a time, and a fork waits for it.
 * Errors   as loader.h; a message about a line names the caller's file and line, through macros and
 *          includes; of inline assembly the line of the asm, and where it was inlined. */
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
    uint32_t              size; /* = sizeof(ptxpack_source)                                               */
    ptxpack_language      language;
    const char           *path;    /* the file; with `text` only its name in messages, and its folder        */
    const char           *text;    /* NULL: read `path`                                                      */
    size_t                bytes;   /* of text; 0: up to its NUL byte                                         */
    const ptxpack_symbol *symbols; /* PTX: of the expander, beside ARCH and ISA, which are the target's   */
    size_t             symbol_count; /*   and the highest that compiler and driver take; CUDA C++: -D       */
    const char *const *include_dirs; /* searched in this order, after the folder of the including file    */
    size_t             include_count;
    const char *const *options; /* of NVRTC, word by word, e.g. "--use_fast_math"; not the target, nor
                                   what makes no whole program (-rdc=true); PTX: none                    */
    size_t             option_count;
    const char *const *expressions; /* of NVRTC: names such as "scale<float>", which _function understands*/
    size_t             expression_count;
} ptxpack_source;

/* What a program is and how it was made; the strings belong to the program. */
typedef struct ptxpack_program_info {
    char        target[16];   /* "sm_90a": exact where the source or the device wants it                */
    char        compiler[96]; /* "NVRTC 13.0" or the loader's route                                     */
    bool        from_cache;
    double      front_ms;   /* expanding, or NVRTC                                                    */
    double      compile_ms; /* PTX to machine code; 0 when NVRTC gave that, or from_cache             */
    double      cache_ms, load_ms;
    size_t      cubin_bytes;
    const char *log; /* the compilers' whole, "" when they said nothing or from_cache          */
} ptxpack_program_info;

typedef struct ptxpack_function_info {
    const char *name; /* as it is in the machine code                                           */
    int         registers, shared_bytes, local_bytes, constant_bytes, max_threads; /* the driver's figures */
    ptxpack_resources resources; /* the compiler's of this entry; spills -1 where it did not say          */
} ptxpack_function_info;

/* On failure *out is NULL, and nothing of it is in the cache.
 *   PTXPACK_E_ARG          the handle is offline, a field is malformed
 *   PTXPACK_E_IO           `path` cannot be read
 *   PTXPACK_E_NO_NVRTC     CUDA C++, and no NVRTC can be used: the detail says where it was looked for
 *   PTXPACK_E_EXPAND, _E_COMPILE, _E_ISA, _E_FORBIDDEN and the rest as ptxpack_kernel_load */
PTXPACK_API ptxpack_status ptxpack_program_load(ptxpack *handle, const ptxpack_source *source,
                                                ptxpack_program **out);
/* As far as the machine code, without loading: works offline, for the handle's architecture.  *cubin and
 * *log_text are malloc'ed, the caller frees them; *log_text is the compilers' whole log, also after a
 * failure, "" when they said nothing, and what info->log is.  info, log_text, cubin and bytes may each be
 * NULL.  The codes of ptxpack_program_load but for PTXPACK_E_CUBIN; _E_NO_JIT also where nothing but the
 * driver itself compiles PTX. */
PTXPACK_API ptxpack_status ptxpack_program_compile(ptxpack *handle, const ptxpack_source *source,
                                                   ptxpack_program_info *info, char **log_text, void **cubin,
                                                   size_t *bytes);
/* The PTX that the compiler would get: expanded, or NVRTC's.  *text is malloc'ed and ends with a NUL byte. */
PTXPACK_API ptxpack_status ptxpack_program_ptx(ptxpack *handle, const ptxpack_source *source, char **text,
                                               size_t *bytes);
/* Call it before the handle is closed, and when none of its kernels runs any more.  NULL is allowed. */
PTXPACK_API void                        ptxpack_program_free(ptxpack_program *program);
PTXPACK_API const ptxpack_program_info *ptxpack_program_describe(const ptxpack_program *program);

/* Find a function by the name of its entry, by a name expression, or, where the program has only one
 * entry, by NULL.  It belongs to the program.  PTXPACK_E_ARG where there is no such entry: the detail
 * lists the existing ones. */
PTXPACK_API ptxpack_status               ptxpack_program_function(ptxpack_program *program, const char *name,
                                                                  const ptxpack_function **out);
PTXPACK_API const ptxpack_function_info *ptxpack_function_describe(const ptxpack_function *function);
/* The CUfunction, for callers that launch it themselves. */
PTXPACK_API void *ptxpack_function_handle(const ptxpack_function *function);

/* Enqueue.  arguments[i] points at the value of parameter i, as cuLaunchKernel takes it; shared_bytes is
 * dynamic, and may exceed 48 KB as far as the device has it.  No allocation, no synchronisation.
 *   PTXPACK_E_ARG      a grid or block extent of 0
 *   PTXPACK_E_LAUNCH   the driver refused it: the detail has the shape
 *   PTXPACK_E_DRIVER, _E_FORKED */
PTXPACK_API ptxpack_status ptxpack_function_launch(const ptxpack_function *function, const uint32_t grid[3],
                                                   const uint32_t block[3], size_t shared_bytes,
                                                   void *const *arguments, struct CUstream_st *stream);
#ifdef __cplusplus
}
#endif
#endif
