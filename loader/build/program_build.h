/* program_build.h - a program's source on its way to machine code. */
#ifndef PTXPACK_PROGRAM_BUILD_H
#define PTXPACK_PROGRAM_BUILD_H
#include "assemble.h"
#include "loader/compile/cuda_source.h"
#include "notes.h"
#include "program.h"
#include "program_source.h"

struct ptxpack_program_build {
    ptxpack                   *handle;
    struct ptxpack_text        text;      /* what the caller gave, and its files         */
    ptxpack_expansion         *expansion; /* PTX                                         */
    struct ptxpack_cuda        cuda;      /* CUDA C++                                    */
    const struct ptxpack_code *made;      /* by NVRTC: machine code, or PTX to assemble  */
    struct ptxpack_assembly    assembly;  /* of the PTX, where there is one              */
    const struct ptxpack_code *code;      /* the machine code; NULL when the driver compiles the PTX */
    struct ptxpack_notes       notes;     /* of the code                                 */
    bool                       wants_ptx; /* not machine code                            */
    char                       target[24];
    double                     front_ms;
    char                      *log; /* of all compilers, also after a failure; NULL: none */
};

/* Check and read the source.  End it, also after a failure.
 *   PTXPACK_E_ARG, _E_IO, _E_MEMORY, _E_FORKED */
ptxpack_status ptxpack_build_begin(struct ptxpack_program_build *b, ptxpack *handle,
                                   const ptxpack_source *source);
void           ptxpack_build_end(struct ptxpack_program_build *b);

/* The PTX that the compiler would get; it is the build's. */
ptxpack_status ptxpack_build_ptx(struct ptxpack_program_build *b, const char **ptx, size_t *bytes);
/* b->code and b->notes.  `driver`: the driver may compile, if nothing else does; then b->code is NULL. */
ptxpack_status ptxpack_build_code(struct ptxpack_program_build *b, bool driver);
/* The driver refused b->code.  True: there is another way, ask again. */
bool ptxpack_build_refuse(struct ptxpack_program_build *b);
/* What the driver's own JIT said of the PTX. */
void ptxpack_build_jit_log(struct ptxpack_program_build *b, const char *log);
/* All that the build knows; the log is not copied. */
void ptxpack_build_describe(const struct ptxpack_program_build *b, ptxpack_program_info *info);
#endif
