/* code.h - the results of compilers in this process.  Each result is made once, even if several threads and
 * handles ask for it at the same time, and is shared as long as one of them holds it. */
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
    char                  *notes; /* the metadata that the cache keeps with it: resources, names */
    size_t                 notes_bytes;
    char                  *log; /* everything that the compiler wrote; NULL if the code came from a cache */
    bool                   from_cache;
    bool                   from_prebuilt; /* the code came from a prebuilt folder */
    double                 compile_ms, cache_ms;
    struct ptxpack_shared *shared; /* belongs to code.c */
};

/* Fill *code, which is zeroed, with malloc'ed pointers; or fail with one line in `detail` and perhaps a log. */
typedef ptxpack_status (*ptxpack_code_maker)(void *context, struct ptxpack_code *code, char *detail,
                                             size_t cap);

/* Get the code with the name `digest`: the code that exists, or the code that another thread is making now, or
 * else what `make` makes.  All threads that wait for one attempt share its failure; a later call tries again.
 * The caller releases *out, which after a failure is NULL or holds nothing but the log. */
ptxpack_status ptxpack_code_obtain(const char digest[33], ptxpack_code_maker make, void *context,
                                   const struct ptxpack_code **out, char *detail, size_t cap);
void           ptxpack_code_release(const struct ptxpack_code *code); /* NULL is allowed */
/* Move what an entry of a cache holds to *code. */
void ptxpack_code_take_entry(struct ptxpack_code *code, struct ptxpack_cache_entry *entry);
/* The driver has refused this code: later calls make it again. */
void ptxpack_code_reject(const struct ptxpack_code *code);
#endif
