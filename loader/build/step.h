/* step.h - one step of a build that a compiler takes: CUDA C++ to PTX or machine code, PTX to machine code.
 *
 * The key of a step is everything that its result depends on.  The result comes from this process, from the
 * cache, or else from the compiler, and then the cache keeps it. */
#ifndef PTXPACK_STEP_H
#define PTXPACK_STEP_H
#include "code.h"
#include "loader/internal.h"

struct ptxpack_step {
    /* set by the user of the step */
    ptxpack           *handle;
    const char        *name, *target; /* in messages, labels and events: "vector_add_sm80", "sm_90" */
    ptxpack_code_maker make;          /* runs the compiler */
    void              *context;       /* for `make` */
    bool (*accept)(const char *notes, size_t bytes); /* whether notes from the cache are well formed */
    ptxpack_cache_key *key;                          /* owned */
    /* set by the functions below */
    char digest[33];   /* of the key: names the result in this process */
    bool compile_only; /* the cache's entry was refused: do not look there again */
    bool ran;          /* this step found or made the result itself; it did not share another's */
};

/* Take the digest of the key.  `unknown`, when not NULL, says why the key must not reach the disk.
 *   PTXPACK_E_MEMORY   the key could not be made */
ptxpack_status ptxpack_step_seal(struct ptxpack_step *step, const char *unknown);
/* The result, which the caller releases.  After a failure *out is NULL, or holds only the compiler's log.
 *   PTXPACK_E_FORBIDDEN, _E_MEMORY, and what `make` returns */
ptxpack_status ptxpack_step_obtain(struct ptxpack_step *step, const struct ptxpack_code **out);
/* Set the detail line of a step that may not compile.  Returns PTXPACK_E_FORBIDDEN. */
ptxpack_status ptxpack_step_forbidden(const struct ptxpack_step *step);
/* The driver refused this result: never take it again.  False when it came from the compiler just now, so that
 * asking again is of no use. */
bool ptxpack_step_refuse(struct ptxpack_step *step, const struct ptxpack_code *code);
/* Call the handle's on_compile. */
void ptxpack_step_report(const struct ptxpack_step *step, double ms);

double ptxpack_now_ms(void); /* monotonic */
#endif
