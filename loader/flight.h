/* flight.h - machine code in this process: made once however many threads and handles ask for it at the
 * same time, and shared for as long as one of them holds it. */
#ifndef PTXPACK_FLIGHT_H
#define PTXPACK_FLIGHT_H
#include <stdbool.h>
#include <stddef.h>
#include "loader.h"

/* Immutable once handed out. */
struct ptxpack_code {
    void             *cubin;
    size_t            cubin_bytes;
    ptxpack_resources resources;
    bool              from_cache, from_prebuilt; /* the latter: the cache that is only read */
    double            compile_ms, cache_ms;
};

/* Fill *code (zeroed; the cubin malloc'ed), or fail with one line in `detail`. */
typedef ptxpack_status (*ptxpack_code_maker)(void *context, struct ptxpack_code *code, char *detail,
                                             size_t cap);

/* The code of `digest`: that which is there, or which another thread is making now, or else what `make`
 * gives.  All who wait for one making share its failure; the next to ask tries again.  Release *out. */
ptxpack_status ptxpack_code_obtain(const char digest[33], ptxpack_code_maker make, void *context,
                                   const struct ptxpack_code **out, char *detail, size_t cap);
void ptxpack_code_release(const struct ptxpack_code *code); /* NULL is fine */
/* Its consumer refused it: whoever asks from now on has it made anew. */
void ptxpack_code_reject(const struct ptxpack_code *code);
#endif
