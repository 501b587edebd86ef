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
    struct ptxpack_job               job; /* the PTX to compile; without an entry, all entries of the text */
    char                             target[24];
    enum ptxpack_route               route;
    ptxpack_expansion               *expansion; /* the source of the text; NULL: it has another source */
    struct ptxpack_step              step;      /* PTX to machine code */
    const struct ptxpack_code       *front; /* what exists before that step: prebuilt code, NVRTC's result */
    const struct ptxpack_code       *code;  /* the machine code, perhaps `front`; NULL: the driver compiles */
    struct ptxpack_notes             notes; /* the notes of a job without an entry */
    double                           front_ms, load_ms;
    char                            *log; /* what all compilers wrote, also after a failure; NULL: nothing */
};

struct ptxpack_build_kind {
    /* Set b->code if no PTX has to be compiled, otherwise the text of b->job, and b->target.  After a refusal
     * it is called again and keeps what is set already. */
    ptxpack_status (*find)(struct ptxpack_build *b);
    /* The driver has refused b->front, and b->code is NULL already.  True: `find` can give something else. */
    bool (*refuse)(struct ptxpack_build *b);
    /* Load b->code, or the PTX, and keep the image. */
    ptxpack_status (*load)(struct ptxpack_build *b);
    /* The next three may be NULL.  `locate` is called before a compilation and sets job.origin. */
    ptxpack_status (*locate)(struct ptxpack_build *b);
    /* Whether the image with this key is loaded already, so that no code is needed. */
    bool (*is_loaded)(struct ptxpack_build *b);
    /* Set the line for code that must not be compiled, in place of ptxpack_step_forbidden. */
    ptxpack_status (*forbidden)(const struct ptxpack_build *b);
};

/* Begin a build.  Then set the name of its job; `find` sets the rest.  End the build, also after a failure. */
void ptxpack_build_begin(struct ptxpack_build *b, ptxpack *handle, const struct ptxpack_build_kind *kind,
                         void *context, bool whole_program);
void ptxpack_build_end(struct ptxpack_build *b);

/* Make b->code.  With `driver` the driver may compile if no other compiler can; then b->code is NULL. */
ptxpack_status ptxpack_build_code(struct ptxpack_build *b, bool driver);
/* Make the code and load it.  As long as the driver refuses the code (PTXPACK_E_CUBIN), try other code. */
ptxpack_status ptxpack_build_load(struct ptxpack_build *b);

/* ---- for the kinds ---- */
/* Make the expansion the text of the job. */
void ptxpack_build_take_expansion(struct ptxpack_build *b);
/* Run a step.  Its log is added to that of the build, and for a job without an entry its notes are, too. */
ptxpack_status ptxpack_build_run(struct ptxpack_build *b, struct ptxpack_step *step,
                                 const struct ptxpack_code **code);
bool           ptxpack_build_add_log(struct ptxpack_build *b, const char *log); /* false: out of memory */
/* Pass the build's reference to its code to the caller. */
const struct ptxpack_code *ptxpack_build_take_code(struct ptxpack_build *b);
/* Copy the code for the caller of the public API: *bytes is malloc'ed and *size long.  Either pointer may be
 * NULL.  Unless `status` is PTXPACK_OK, both are cleared and `status` is returned.
 *   PTXPACK_E_MEMORY */
ptxpack_status ptxpack_build_copy(const struct ptxpack_build *b, ptxpack_status status, void **bytes,
                                  size_t *size);
#endif
