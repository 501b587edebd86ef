/* code.c - a request for what a compiler makes: cache, lock between processes, maker. */
#include "code.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LOCK_TIMEOUT_MS = 10000 }; /* for another process's compilation; some seconds at most */

double ptxpack_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* The digest names the thing in this process, so it must be there even when nothing can be cached. */
ptxpack_status ptxpack_request_seal(struct ptxpack_request *q, const char *unknown)
{
    ptxpack_cache_key_hex(q->key, q->digest);
    if (unknown != NULL)
        ptxpack_cache_key_poison(q->key, unknown);
    if (q->digest[0])
        return PTXPACK_OK;
    return ptxpack_fail(q->handle, PTXPACK_E_MEMORY, "no key for %s: %s", q->name,
                        ptxpack_cache_key_poisoned(q->key));
}

static bool take_cached(struct ptxpack_request *q, struct ptxpack_code *code)
{
    ptxpack_cache_entry entry;
    ptxpack_cache      *cache = q->handle->cache;
    if (q->source == PTXPACK_COMPILER || !ptxpack_cache_get(cache, q->key, &entry))
        return false;
    bool good = q->accept((const char *)entry.metadata, entry.metadata_bytes);
    if (good) {
        code->bytes = entry.payload;
        code->size = entry.payload_bytes;
        code->notes = (char *)entry.metadata;
        code->notes_bytes = entry.metadata_bytes;
        code->from_cache = true;
        entry.payload = entry.metadata = NULL;
    }
    ptxpack_cache_entry_free(&entry);
    return good;
}

static void keep(const struct ptxpack_request *q, const struct ptxpack_code *code)
{
    enum { NAME = 120 }; /* the end of a long path says more than its beginning */
    char   label[160];
    size_t bytes = strlen(q->name);
    snprintf(label, sizeof label, "%s %s", q->name + (bytes > NAME ? bytes - NAME : 0), q->target);
    ptxpack_cache_put(q->handle->cache, q->key, label, code->notes, code->notes_bytes, code->bytes, code->size);
}

ptxpack_status ptxpack_request_forbidden(const struct ptxpack_request *q)
{
    return ptxpack_fail(q->handle, PTXPACK_E_FORBIDDEN,
                        "%s for %s: there is no usable machine code in the "
                        "cache, and compiling is forbidden (PTXPACK_FORBID_COMPILE)",
                        q->name, q->target);
}

void ptxpack_request_report(const struct ptxpack_request *q, double ms)
{
    if (q->handle->on_compile != NULL)
        q->handle->on_compile(q->handle->on_compile_context, q->name, q->target, ms);
}

static ptxpack_status make_new(struct ptxpack_request *q, struct ptxpack_code *code, char *detail, size_t cap)
{
    double from = ptxpack_now_ms();
    if (q->handle->forbid_compile) {
        ptxpack_status status = ptxpack_request_forbidden(q);
        snprintf(detail, cap, "%s", ptxpack_detail(q->handle));
        return status;
    }
    ptxpack_status status = q->make(q, code, detail, cap);
    code->compile_ms = ptxpack_now_ms() - from;
    if (status == PTXPACK_OK)
        ptxpack_request_report(q, code->compile_ms);
    return status;
}

/* A ptxpack_code_maker: the lock between processes is only there to share the work. */
static ptxpack_status find_or_make(void *context, struct ptxpack_code *code, char *detail, size_t cap)
{
    struct ptxpack_request *q = (struct ptxpack_request *)context;
    double                  from = ptxpack_now_ms();
    q->ran = true;
    bool found = take_cached(q, code);
    int  lock = found ? -1 : ptxpack_cache_lock(q->handle->cache, q->key, LOCK_TIMEOUT_MS);
    if (!found)
        found = take_cached(q, code);
    code->cache_ms = ptxpack_now_ms() - from;
    ptxpack_status status = found ? PTXPACK_OK : make_new(q, code, detail, cap);
    if (!found && status == PTXPACK_OK)
        keep(q, code);
    ptxpack_cache_unlock(q->handle->cache, lock);
    return status;
}

ptxpack_status ptxpack_request_obtain(struct ptxpack_request *q, const struct ptxpack_code **code)
{
    char           line[PTXPACK_DETAIL_BYTES];
    ptxpack_status status;
    do { /* again where a handle that forbids compiling was the first to ask */
        q->ran = false;
        status = ptxpack_code_obtain(q->digest, find_or_make, q, code, line, sizeof line);
    } while (status == PTXPACK_E_FORBIDDEN && !q->handle->forbid_compile);
    return status == PTXPACK_OK ? status : ptxpack_fail(q->handle, status, "%s", line);
}

void ptxpack_request_refuse(struct ptxpack_request *q, const struct ptxpack_code *code)
{
    q->again = q->source != PTXPACK_COMPILER;
    if (q->again)
        ptxpack_cache_remove(q->handle->cache, q->key); /* a stale entry, perhaps */
    q->source = PTXPACK_COMPILER;
    ptxpack_code_reject(code);
}

ptxpack_status ptxpack_code_copy(const ptxpack *h, ptxpack_status status, const char *name,
                                 const struct ptxpack_code *code, void **bytes, size_t *size)
{
    void *copy = status == PTXPACK_OK && bytes != NULL ? malloc(code->size) : NULL;
    if (copy != NULL)
        memcpy(copy, code->bytes, code->size);
    else if (status == PTXPACK_OK && bytes != NULL)
        status = ptxpack_fail(h, PTXPACK_E_MEMORY, "out of memory for the machine code of %s", name);
    if (bytes != NULL)
        *bytes = copy;
    if (size != NULL)
        *size = status == PTXPACK_OK ? code->size : 0;
    return status;
}
