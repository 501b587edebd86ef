/* cuda_source.h - CUDA C++ to machine code or PTX by NVRTC, as a step of a build. */
#ifndef PTXPACK_CUDA_SOURCE_H
#define PTXPACK_CUDA_SOURCE_H
#include "loader/compile/nvrtc.h"
#include "program_source.h"
#include "step.h"

/* The files that a C++ text includes: they are found, read, and given to NVRTC under our own names (include.c).
 *
 * An #include with a literal name whose file is found becomes #include "PATH", where PATH is the file's path,
 * and NVRTC gets the file as a header in memory with that name.  So two files with the same name stay distinct,
 * errors name real paths, and NVRTC compiles exactly what was read.  Conditions of the preprocessor are not
 * evaluated: every file that might be included is taken, so that the key of the machine code holds at least
 * what was compiled.  A file that is not found is left to NVRTC.  A file that exists but cannot be read becomes
 * an #error, so that NVRTC does not read it by itself. */
struct ptxpack_header {
    char  *name; /* its path; for a header of the pack "ptxpack/inline/mma_sync.h" */
    char  *text; /* with its own #includes rewritten */
    size_t bytes;
    bool   packed; /* it is a header of the pack */
};
struct ptxpack_includes {
    struct ptxpack_header *headers; /* the source itself is the first */
    size_t                 count;
    bool                   itself; /* the source includes itself */
    bool                   open;   /* there are headers whose names only the preprocessor knows */
};

/* Gather what the source of `t` includes.  False: memory ran out.  Free it in both cases. */
bool ptxpack_includes_gather(struct ptxpack_includes *includes, struct ptxpack_text *t);
void ptxpack_includes_free(struct ptxpack_includes *includes);

struct ptxpack_cuda {
    struct ptxpack_step        step;
    bool                       wants_ptx; /* the result shall be PTX, even if NVRTC could make machine code */
    struct ptxpack_text       *text;
    struct ptxpack_includes    includes;
    struct ptxpack_nvrtc_place place;
    const char               **dirs; /* include_dirs, then the folders of the options */
    char                       target[24];
};

/* Gather what the source includes, find NVRTC, and make the key of the step.  The notes of its result (notes.h)
 * say whether it is PTX.  Call ptxpack_cuda_end, also after a failure.
 *   PTXPACK_E_ARG     an option is not allowed
 *   PTXPACK_E_NO_NVRTC, _E_MEMORY */
ptxpack_status ptxpack_cuda_begin(struct ptxpack_cuda *c, struct ptxpack_text *text, bool wants_ptx);
void           ptxpack_cuda_end(struct ptxpack_cuda *c);
#endif
