/* flight.h - what compilers made, in this process: made once however many threads and handles ask for it at
 * the same time, and shared for as long as one of them holds it. */
#ifndef PTXPACK_FLIGHT_H
#define PTXPACK_FLIGHT_H
#include <stdbool.h>
#include <stddef.h>
#include "loader/loader.h"

/* Immutable once handed out. */
struct ptxpack_code {
    void  *bytes; /* machine code, or what else was asked for */
    size_t size;
    char  *notes; /* what the cache keeps with it: resources, names */
    size_t notes_bytes;
    char  *log;                       /* the compiler's whole; NULL when it came from a cache */
    bool   from_cache, from_prebuilt; /* the latter: a prebuilt folder */
    double compile_ms, cache_ms;
};

/* Fill *code (zeroed; its pointers malloc'ed), or fail with one line in `detail` and perhaps the log. */
typedef ptxpack_status (*ptxpack_code_maker)(void *context, struct ptxpack_code *code, char *detail,
                                             size_t cap);

/* The code of `digest`: that which is there, or which another thread is making now, or else what `make`
 * gives.  All who wait for one making share its failure; the next to ask tries again.  Release *out, which
 * after a failure has the log only, or is NULL. */
ptxpack_status ptxpack_code_obtain(const char digest[33], ptxpack_code_maker make, void *context,
                                   const struct ptxpack_code **out, char *detail, size_t cap);
void           ptxpack_code_release(const struct ptxpack_code *code); /* NULL is fine */
/* Its consumer refused it: whoever asks from now on has it made anew. */
void ptxpack_code_reject(const struct ptxpack_code *code);
#endif
