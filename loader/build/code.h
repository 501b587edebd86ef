/* code.h - what a compiler makes, once: from this process, from the cache, or else made and kept.
 *
 * A request names the thing by a key of all that it depends on.  Machine code is one such thing; the PTX that
 * NVRTC makes of CUDA C++ is another. */
#ifndef PTXPACK_CODE_H
#define PTXPACK_CODE_H
#include "flight.h"
#include "loader/internal.h"

/* Where it may come from; each refusal by its consumer moves on to what is left. */
enum ptxpack_code_source { PTXPACK_ANY_CACHE, PTXPACK_COMPILER };

struct ptxpack_request {
    /* the caller's */
    ptxpack           *handle;
    const char        *name, *target; /* in messages, labels and events: "vector_add_sm80", "sm_90"       */
    ptxpack_cache_key *key;           /* owned                                                            */
    ptxpack_status (*make)(struct ptxpack_request *q, struct ptxpack_code *code, char *detail, size_t cap);
    bool (*accept)(const char *notes, size_t bytes); /* notes of the cache: as `make` leaves them? */
    /* what becomes of it */
    char                     digest[33]; /* names the thing in this process                               */
    enum ptxpack_code_source source;
    bool                     again; /* the consumer refused it, and there is another source          */
    bool                     ran;   /* this request found or made it; it did not share another's     */
};

/* Take the digest of the key; `unknown`, when not NULL, says why the key must not reach the disk.
 *   PTXPACK_E_MEMORY   there is no digest */
ptxpack_status ptxpack_request_seal(struct ptxpack_request *q, const char *unknown);
/* The code, which the caller releases.  On failure *out is NULL, or holds nothing but the compiler's log.
 *   PTXPACK_E_FORBIDDEN, _E_MEMORY, and what `make` answers */
ptxpack_status ptxpack_request_obtain(struct ptxpack_request *q, const struct ptxpack_code **out);
/* The line for one that may not be made. */
ptxpack_status ptxpack_request_forbidden(const struct ptxpack_request *q);
/* Its consumer refused this code: never take it again. */
void ptxpack_request_refuse(struct ptxpack_request *q, const struct ptxpack_code *code);
/* A copy for the caller of an API: *bytes malloc'ed, *size; either may be NULL, both are cleared unless
 * `status` is PTXPACK_OK, which is then returned.   PTXPACK_E_MEMORY */
ptxpack_status ptxpack_code_copy(const ptxpack *handle, ptxpack_status status, const char *name,
                                 const struct ptxpack_code *code, void **bytes, size_t *size);
/* Tell on_compile. */
void ptxpack_request_report(const struct ptxpack_request *q, double ms);

double ptxpack_now_ms(void); /* monotonic */
#endif
