/* cuda_source.h - CUDA C++ to machine code or PTX by NVRTC, as a step of a build. */
#ifndef PTXPACK_CUDA_SOURCE_H
#define PTXPACK_CUDA_SOURCE_H
#include "loader/compile/nvrtc.h"
#include "program_source.h"
#include "step.h"

/* What a C++ text includes: found, read, and given to NVRTC under names of our own (include.c).
 *
 * Each #include with a literal name that is found becomes #include "PATH", PATH being where it was found, and
 * the file is a header of that name in memory.  So two files of one name are two, errors name real paths, and
 * what was compiled is what was read.  Whatever the preprocessor decides, all that might be included is
 * taken: the key of the machine code then holds at least what went in.  What is not found is left to
 * NVRTC; what is there and cannot be read is an #error, so that NVRTC does not read it by itself. */
struct ptxpack_header {
    char  *name; /* its path; of the pack "ptxpack/inline/mma_sync.h" */
    char  *text; /* with its own #includes rewritten */
    size_t bytes;
    bool   packed; /* of the pack */
};
struct ptxpack_includes {
    struct ptxpack_header *headers; /* the source itself is the first */
    size_t                 count;
    bool                   itself; /* the source is included, too */
    bool                   open;   /* there are some whose names only the preprocessor knows */
};

/* Of t's source.  False when memory is out; free it either way. */
bool ptxpack_includes_gather(struct ptxpack_includes *includes, struct ptxpack_text *t);
void ptxpack_includes_free(struct ptxpack_includes *includes);

struct ptxpack_cuda {
    struct ptxpack_step        step;
    bool                       wants_ptx; /* not machine code, whatever NVRTC could make */
    struct ptxpack_text       *text;
    struct ptxpack_includes    includes;
    struct ptxpack_nvrtc_place place;
    const char               **dirs; /* include_dirs, then those of the options */
    char                       target[24];
};

/* Gather what the source includes, find NVRTC, and make the key of the step.  The notes of its result are those
 * of notes.h, which say whether it is PTX.  End it, also after a failure.
 *   PTXPACK_E_ARG (an option), _E_NO_NVRTC, _E_MEMORY */
ptxpack_status ptxpack_cuda_begin(struct ptxpack_cuda *c, struct ptxpack_text *text, bool wants_ptx);
void           ptxpack_cuda_end(struct ptxpack_cuda *c);
#endif
