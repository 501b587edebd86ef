/* build.h - a build: a row with all its symbols, or a program's source, made for one target.
 *
 *   text -> key -> cache -> machine code -> load
 *
 * The kernels of the pack (kernel.c) and the programs of users (program.c) take this one path.  They differ in
 * where the text comes from and in who keeps the loaded image: struct ptxpack_build_kind. */
#ifndef PTXPACK_BUILD_H
#define PTXPACK_BUILD_H
#include "image.h"
#include "notes.h"
#include "step.h"

struct ptxpack_build {
    ptxpack                         *handle;
    const struct ptxpack_build_kind *kind;
    void                            *context; /* of the kind */
    struct ptxpack_job               job; /* the PTX to compile; without an entry it stands for all of them */
    char                             target[24];
    enum ptxpack_route               route;
    ptxpack_expansion               *expansion; /* that the text comes from; NULL: from elsewhere */
    struct ptxpack_step              step;      /* PTX to machine code */
    const struct ptxpack_code       *front; /* what existed before that step: prebuilt code, NVRTC's result */
    const struct ptxpack_code       *code;  /* the machine code, perhaps `front`; NULL: the driver compiles */
    struct ptxpack_notes             notes; /* of a job without an entry */
    double                           front_ms, load_ms;
    char                            *log; /* of all compilers, also after a failure; NULL: none */
};

struct ptxpack_build_kind {
    /* Set b->code where no PTX has to be compiled, otherwise b->job's text and b->target.  Called again after a
     * refusal: what is there stays. */
    ptxpack_status (*find)(struct ptxpack_build *b);
    /* The driver refused b->front, of which b->code is NULL already.  True: `find` can give something else. */
    bool (*refuse)(struct ptxpack_build *b);
    /* Load b->code, or the PTX, and keep the image. */
    ptxpack_status (*load)(struct ptxpack_build *b);
    /* These three may be NULL.  Before a compilation: set job.origin. */
    ptxpack_status (*locate)(struct ptxpack_build *b);
    /* Whether the image with this key is loaded already, so that no code is needed. */
    bool (*is_loaded)(struct ptxpack_build *b);
    /* The line for code that may not be compiled, in place of ptxpack_step_forbidden's. */
    ptxpack_status (*forbidden)(const struct ptxpack_build *b);
};

/* Begin; the job needs its name, and the rest of it comes from `find`.  End it, also after a failure. */
void ptxpack_build_begin(struct ptxpack_build *b, ptxpack *handle, const struct ptxpack_build_kind *kind,
                         void *context, bool whole_program);
void ptxpack_build_end(struct ptxpack_build *b);

/* Make b->code.  `driver`: the driver may compile if nothing else does; then b->code is NULL. */
ptxpack_status ptxpack_build_code(struct ptxpack_build *b, bool driver);
/* Make the code and load it, with other code again as long as the driver refuses it (PTXPACK_E_CUBIN). */
ptxpack_status ptxpack_build_load(struct ptxpack_build *b);

/* ---- for the kinds ---- */
/* The expansion becomes the text of the job. */
void ptxpack_build_take_expansion(struct ptxpack_build *b);
/* The result of a step.  Its log and, for a job without an entry, its notes are added to the build's. */
ptxpack_status ptxpack_build_run(struct ptxpack_build *b, struct ptxpack_step *step,
                                 const struct ptxpack_code **code);
bool           ptxpack_build_add_log(struct ptxpack_build *b, const char *log); /* false: out of memory */
/* The build's hold of its code passes to the caller. */
const struct ptxpack_code *ptxpack_build_take_code(struct ptxpack_build *b);
/* A copy of the code for the caller of an API: *bytes malloc'ed, *size; either may be NULL, and both are
 * cleared unless `status`, which is returned, is PTXPACK_OK.   PTXPACK_E_MEMORY */
ptxpack_status ptxpack_build_copy(const struct ptxpack_build *b, ptxpack_status status, void **bytes,
                                  size_t *size);
#endif
