/* cuda_source.h - CUDA C++ to machine code or PTX by NVRTC, as a request. */
#ifndef PTXPACK_CUDA_SOURCE_H
#define PTXPACK_CUDA_SOURCE_H
#include "loader/build/code.h"
#include "include.h"
#include "nvrtc.h"
#include "loader/build/program_source.h"

struct ptxpack_cuda {
    struct ptxpack_request     request;   /* first: one is found from the other */
    bool                       wants_ptx; /* not machine code, whatever NVRTC could make */
    struct ptxpack_text       *text;
    struct ptxpack_includes    includes;
    struct ptxpack_nvrtc_place place;
    const char               **dirs; /* include_dirs, then those of the options */
    char                       target[24];
};

/* Gather what the source includes, find NVRTC, and make the request.  Its notes are those of notes.h, which
 * say whether it is PTX.  `wants_ptx`: nothing else will do.  End it, also after a failure.
 *   PTXPACK_E_ARG (an option), _E_NO_NVRTC, _E_MEMORY */
ptxpack_status ptxpack_cuda_begin(struct ptxpack_cuda *c, struct ptxpack_text *text, bool wants_ptx);
void           ptxpack_cuda_end(struct ptxpack_cuda *c);
#endif
