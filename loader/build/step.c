/* step.c - one compiled step: look in the cache, lock against other processes, compile, keep. */
#include "step.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { LOCK_TIMEOUT_MS = 10000 }; /* the wait for another process's compilation, which takes some seconds */

double ptxpack_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* The digest names the result in this process, so it is needed even when nothing can be cached. */
ptxpack_status ptxpack_step_seal(struct ptxpack_step *step, const char *unknown)
{
    ptxpack_cache_key_hex(step->key, step->digest);
    if (unknown != NULL)
        ptxpack_cache_key_poison(step->key, unknown);
    if (step->digest[0])
        return PTXPACK_OK;
    return ptxpack_fail(step->handle, PTXPACK_E_MEMORY, "no key could be made for %s: %s", step->name,
                        ptxpack_cache_key_poisoned(step->key));
}

static bool take_cached(struct ptxpack_step *step, struct ptxpack_code *code)
{
    ptxpack_cache_entry entry;
    if (step->compile_only || !ptxpack_cache_get(step->handle->cache, step->key, &entry))
        return false;
    bool good = step->accept((const char *)entry.metadata, entry.metadata_bytes);
    if (good)
        ptxpack_code_take_entry(code, &entry);
    ptxpack_cache_entry_free(&entry);
    return good;
}

static void keep(const struct ptxpack_step *step, const struct ptxpack_code *code)
{
    enum { NAME = 120 }; /* the end of a long path says more than its beginning */
    char   label[160];
    size_t bytes = strlen(step->name);
    snprintf(label, sizeof label, "%s %s", step->name + (bytes > NAME ? bytes - NAME : 0), step->target);
    ptxpack_cache_put(step->handle->cache, step->key, label, code->notes, code->notes_bytes, code->bytes,
                      code->size);
}

ptxpack_status ptxpack_step_forbidden(const struct ptxpack_step *step)
{
    return ptxpack_fail(step->handle, PTXPACK_E_FORBIDDEN,
                        "%s for %s: there is no usable machine code in the cache, and compiling is forbidden "
                        "(PTXPACK_FORBID_COMPILE)",
                        step->name, step->target);
}

void ptxpack_step_report(const struct ptxpack_step *step, double ms)
{
    if (step->handle->on_compile != NULL)
        step->handle->on_compile(step->handle->on_compile_context, step->name, step->target, ms);
}

static ptxpack_status compile(struct ptxpack_step *step, struct ptxpack_code *code, char *detail, size_t cap)
{
    double from = ptxpack_now_ms();
    if (step->handle->forbid_compile) {
        ptxpack_status status = ptxpack_step_forbidden(step);
        snprintf(detail, cap, "%s", ptxpack_detail(step->handle));
        return status;
    }
    ptxpack_status status = step->make(step->context, code, detail, cap);
    code->compile_ms = ptxpack_now_ms() - from;
    if (status == PTXPACK_OK)
        ptxpack_step_report(step, code->compile_ms);
    return status;
}

/* A ptxpack_code_maker.  The lock between processes only serves to share the work. */
static ptxpack_status find_or_compile(void *context, struct ptxpack_code *code, char *detail, size_t cap)
{
    struct ptxpack_step *step = (struct ptxpack_step *)context;
    double               from = ptxpack_now_ms();
    step->ran = true;
    bool found = take_cached(step, code);
    int  lock = found ? -1 : ptxpack_cache_lock(step->handle->cache, step->key, LOCK_TIMEOUT_MS);
    if (!found)
        found = take_cached(step, code);
    code->cache_ms = ptxpack_now_ms() - from;
    ptxpack_status status = found ? PTXPACK_OK : compile(step, code, detail, cap);
    if (!found && status == PTXPACK_OK)
        keep(step, code);
    ptxpack_cache_unlock(step->handle->cache, lock);
    return status;
}

ptxpack_status ptxpack_step_obtain(struct ptxpack_step *step, const struct ptxpack_code **code)
{
    char           line[PTXPACK_DETAIL_BYTES];
    ptxpack_status status;
    do { /* try again if the thread that we waited for has a handle that forbids compiling */
        step->ran = false;
        status = ptxpack_code_obtain(step->digest, find_or_compile, step, code, line, sizeof line);
    } while (status == PTXPACK_E_FORBIDDEN && !step->handle->forbid_compile);
    return status == PTXPACK_OK ? status : ptxpack_fail(step->handle, status, "%s", line);
}

bool ptxpack_step_refuse(struct ptxpack_step *step, const struct ptxpack_code *code)
{
    bool again = !step->compile_only;
    if (again)
        ptxpack_cache_remove(step->handle->cache, step->key); /* the entry may be stale */
    step->compile_only = true;
    ptxpack_code_reject(code);
    return again;
}
