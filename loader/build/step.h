/* step.h - one compiler's step of a build: CUDA C++ to PTX or machine code, or PTX to machine code.
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
    const char        *name, *target; /* for messages, labels and events: "vector_add_sm80", "sm_90" */
    ptxpack_code_maker make;          /* runs the compiler */
    void              *context;       /* for `make` */
    bool (*accept)(const char *notes, size_t bytes); /* whether notes from the cache are well formed */
    ptxpack_cache_key *key;                          /* owned */
    /* set by the functions below */
    char digest[33];   /* of the key: it identifies the result in this process */
    bool compile_only; /* the driver refused the cache's entry: do not look there again */
    bool ran;          /* this step found or made the result itself, and did not share that of another */
};

/* Compute the digest of the key.  If `unknown` is not NULL, it says why the key must not reach the disk.
 *   PTXPACK_E_MEMORY   the key could not be made */
ptxpack_status ptxpack_step_seal(struct ptxpack_step *step, const char *unknown);
/* Get the result, which the caller releases.  After a failure *out is NULL, or holds only the compiler's log.
 *   PTXPACK_E_FORBIDDEN, _E_MEMORY, and what `make` returns */
ptxpack_status ptxpack_step_obtain(struct ptxpack_step *step, const struct ptxpack_code **out);
/* Set the detail line of a step that must not compile, and return PTXPACK_E_FORBIDDEN. */
ptxpack_status ptxpack_step_forbidden(const struct ptxpack_step *step);
/* The driver has refused this result: never use it again.  False: the compiler has just made it, so that a
 * second attempt would give the same. */
bool ptxpack_step_refuse(struct ptxpack_step *step, const struct ptxpack_code *code);
/* Call the handle's on_compile. */
void ptxpack_step_report(const struct ptxpack_step *step, double ms);

double ptxpack_now_ms(void); /* milliseconds of the monotonic clock */
#endif
