/* code.h - what compilers made in this process.  Each thing is made once, however many threads and handles ask
 * for it at the same time, and is shared as long as one of them holds it. */
#ifndef PTXPACK_CODE_H
#define PTXPACK_CODE_H
#include <stdbool.h>
#include <stddef.h>
#include "cache/cache.h"
#include "loader/loader.h"

/* Immutable once it is handed out. */
struct ptxpack_code {
    void                  *bytes; /* machine code, or the PTX that NVRTC made */
    size_t                 size;
    char                  *notes; /* what the cache keeps with it: resources, names */
    size_t                 notes_bytes;
    char                  *log; /* everything the compiler wrote; NULL when the code came from a cache */
    bool                   from_cache, from_prebuilt; /* from_prebuilt: from a prebuilt folder */
    double                 compile_ms, cache_ms;
    struct ptxpack_shared *shared; /* for code.c */
};

/* Fill *code (zeroed; its pointers are malloc'ed), or fail with one line in `detail` and perhaps a log. */
typedef ptxpack_status (*ptxpack_code_maker)(void *context, struct ptxpack_code *code, char *detail,
                                             size_t cap);

/* The code named `digest`: the one that exists, or the one that another thread is making now, or else what
 * `make` makes.  All threads that wait for one attempt share its failure; a later call tries again.  The caller
 * releases *out, which after a failure holds nothing but the log, or is NULL. */
ptxpack_status ptxpack_code_obtain(const char digest[33], ptxpack_code_maker make, void *context,
                                   const struct ptxpack_code **out, char *detail, size_t cap);
void           ptxpack_code_release(const struct ptxpack_code *code); /* NULL is allowed */
/* Fill a code with what an entry of a cache holds, which the entry then holds no longer. */
void ptxpack_code_take_entry(struct ptxpack_code *code, struct ptxpack_cache_entry *entry);
/* The driver refused this code: later calls make it anew. */
void ptxpack_code_reject(const struct ptxpack_code *code);
#endif
