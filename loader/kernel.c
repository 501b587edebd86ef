/* kernel.c - one kernel from its row to a function: text, key, cache or compile, load, launch. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "compile_log.h"
#include "flight.h"
#include "image.h"
#include "loader_internal.h"

enum {
    SCHEMA = 1,            /* of the key and of the metadata: raise it when either changes its meaning */
    LOCK_TIMEOUT_MS = 10000 /* for another process's compilation; some seconds at most                 */
};

struct ptxpack_kernel {
    ptxpack                   *handle;
    struct ptxpack_image       image;
    ptxpack_kernel_info        info;
    char                       asked[33]; /* digest of the row and symbols; "" where they do not make the text */
    char                       digest[33];
    const struct ptxpack_code *code; /* NULL when the driver compiled */
    ptxpack_kernel            *next;
};

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* ---- a request: all that one kernel's machine code depends on ------------------------------------- */

/* Where machine code may come from; each refusal by the driver moves on to what is left. */
enum source { ANY_CACHE, OWN_CACHE, COMPILER };

struct request {
    ptxpack              *handle;
    const ptxpack_symbol *symbols;
    size_t                symbol_count;
    ptxpack_expansion    *expansion; /* NULL while the text of an earlier run is enough */
    char                 *recalled;  /* that text */
    struct ptxpack_job    job;
    char                  target[16];
    enum ptxpack_route    route;
    ptxpack_cache_key    *key;
    char                  asked[33], digest[33]; /* as in ptxpack_kernel */
    enum source           source;
    bool                  again; /* the driver refused the code, and there is another source */
    double                expand_ms;
};

/* The device's own architecture, or offline the one named; rows for one architecture only want its 'a'. */
static ptxpack_status choose_target(struct request *q, const ptxpack_variant *v)
{
    const ptxpack *h = q->handle;
    const char *target = h->info.target;
    int arch = ptxpack_parse_arch(target);
    bool exact = (v->flags & PTXPACK_VARIANT_ARCH_SPECIFIC) != 0;
    bool named = !h->driver && target[strlen(target) - 1] == 'a';
    if (arch < v->arch || (exact && (arch != v->arch || (!h->driver && !named))))
        return ptxpack_fail(h, PTXPACK_E_UNSUPPORTED, "%s needs %ssm_%d%s, the target is %s", v->id,
                            exact ? "exactly " : "", v->arch, exact ? "a" : "", target);
    snprintf(q->target, sizeof q->target, "%s%s", target, exact && !named ? "a" : "");
    return PTXPACK_OK;
}

/* The digest names the kernel in this process, so it must be there even when nothing can be cached. */
static ptxpack_status make_key(struct request *q)
{
    struct ptxpack_jit_options options;
    ptxpack_jit_options(&q->job, &options);
    q->key = ptxpack_cache_key_create();
    ptxpack_cache_key_add_u64(q->key, "schema", SCHEMA);
    ptxpack_cache_key_add(q->key, "ptx", q->job.text, q->job.bytes);
    ptxpack_cache_key_add_text(q->key, "entry", q->job.variant->entry); /* metadata is about it */
    ptxpack_cache_key_add_text(q->key, "target", q->target);
    for (int i = 0; i < options.count; i++)
        ptxpack_cache_key_add_text(q->key, "option", options.words[i]);
    const char *unknown = ptxpack_jit_identify(&q->handle->jit, q->route, q->key);
    ptxpack_cache_key_hex(q->key, q->digest);
    if (unknown)
        ptxpack_cache_key_poison(q->key, unknown);
    if (q->digest[0])
        return PTXPACK_OK;
    return ptxpack_fail(q->handle, PTXPACK_E_MEMORY, "no key for %s: %s", q->job.variant->id,
                        ptxpack_cache_key_poisoned(q->key));
}

static void end_request(struct request *q)
{
    ptxpack_cache_key_free(q->key);
    ptxpack_expansion_free(q->expansion);
    free(q->recalled);
}

/* What needs the lines' origin needs the expansion itself. */
static ptxpack_status expand(struct request *q)
{
    if (q->expansion)
        return PTXPACK_OK;
    ptxpack_status status =
        ptxpack_kernel_expand(q->handle, q->job.variant, q->symbols, q->symbol_count, &q->expansion);
    q->job.expansion = q->expansion;
    return status;
}

/* The driver's own JIT is given the text, and its log may name lines: there is nothing to save there. */
static ptxpack_status find_text(struct request *q)
{
    const ptxpack_variant *v = q->job.variant;
    if (q->route != PTXPACK_ROUTE_DRIVER)
        q->recalled = ptxpack_text_recall(q->handle, v, q->symbols, q->symbol_count, &q->job.bytes);
    q->job.text = q->recalled;
    if (q->recalled)
        return PTXPACK_OK;
    ptxpack_status status = expand(q);
    if (status != PTXPACK_OK)
        return status;
    q->job.text = ptxpack_expansion_text(q->expansion, &q->job.bytes);
    return PTXPACK_OK;
}

static ptxpack_status begin_request(struct request *q, ptxpack *h, const ptxpack_variant *v,
                                    const ptxpack_symbol *symbols, size_t count)
{
    memset(q, 0, sizeof *q);
    q->handle = h;
    q->symbols = symbols;
    q->symbol_count = count;
    q->route = ptxpack_jit_route(&h->jit, v);
    q->job = (struct ptxpack_job){.variant = v, .target = q->target, .line_info = h->line_info};
    ptxpack_status status = ptxpack_check_process(h);
    if (status == PTXPACK_OK)
        status = choose_target(q, v);
    double from = now_ms();
    if (status == PTXPACK_OK)
        status = find_text(q);
    q->expand_ms = now_ms() - from;
    return status == PTXPACK_OK ? make_key(q) : status;
}

/* ---- machine code: from the cache or from the compiler -------------------------------------------- */

static bool take_cached(struct request *q, struct ptxpack_code *code)
{
    ptxpack_cache_entry entry;
    ptxpack_cache *cache = q->handle->cache;
    if (q->source == COMPILER)
        return false;
    if (!(q->source == OWN_CACHE ? ptxpack_cache_get_own : ptxpack_cache_get)(cache, q->key, &entry))
        return false;
    bool prebuilt = entry.prebuilt;
    bool good = ptxpack_resources_read((const char *)entry.metadata, entry.metadata_bytes, &code->resources);
    if (good) {
        code->cubin = entry.payload;
        code->cubin_bytes = entry.payload_bytes;
        code->from_cache = true;
        code->from_prebuilt = prebuilt;
        entry.payload = NULL;
    }
    ptxpack_cache_entry_free(&entry);
    if (good || !prebuilt)
        return good;
    q->source = OWN_CACHE; /* that entry stays as it is */
    return take_cached(q, code);
}

static void keep(const struct request *q, const struct ptxpack_code *code)
{
    char *text = NULL, label[160];
    size_t bytes = 0;
    snprintf(label, sizeof label, "%s %s", q->job.variant->id, q->target);
    if (ptxpack_resources_write(&code->resources, &text, &bytes))
        ptxpack_cache_put(q->handle->cache, q->key, label, text, bytes, code->cubin, code->cubin_bytes);
    free(text);
}

static ptxpack_status forbidden(const struct request *q)
{
    return ptxpack_fail(q->handle, PTXPACK_E_FORBIDDEN, "%s for %s: there is no usable machine code in the "
                        "cache, and compiling is forbidden (PTXPACK_FORBID_COMPILE)", q->job.variant->id,
                        q->target);
}

static void report(const struct request *q, double ms)
{
    if (q->handle->on_compile)
        q->handle->on_compile(q->handle->on_compile_context, q->job.variant->id, q->target, ms);
}

static ptxpack_status compile(struct request *q, struct ptxpack_code *code, char *detail, size_t cap)
{
    struct ptxpack_build build;
    bool pushed = false;
    double from = now_ms();
    ptxpack_status status = q->handle->forbid_compile ? forbidden(q) : expand(q);
    if (status == PTXPACK_OK && q->route == PTXPACK_ROUTE_LINK)
        status = ptxpack_enter(q->handle, &pushed);
    if (status != PTXPACK_OK) {
        snprintf(detail, cap, "%s", ptxpack_detail(q->handle));
        return status;
    }
    status = ptxpack_jit_compile(&q->handle->jit, q->route, &q->job, &build, detail, cap);
    ptxpack_leave(q->handle, pushed);
    code->compile_ms = now_ms() - from;
    if (status == PTXPACK_OK) {
        report(q, code->compile_ms);
        ptxpack_log_resources(build.log, q->job.variant->entry, &code->resources);
        code->cubin = build.cubin;
        code->cubin_bytes = build.cubin_bytes;
        build.cubin = NULL;
    }
    ptxpack_build_free(&build);
    return status;
}

/* A ptxpack_code_maker: the lock between processes is only there to share the work. */
static ptxpack_status make_code(void *context, struct ptxpack_code *code, char *detail, size_t cap)
{
    struct request *q = (struct request *)context;
    double from = now_ms();
    bool found = take_cached(q, code);
    int lock = found ? -1 : ptxpack_cache_lock(q->handle->cache, q->key, LOCK_TIMEOUT_MS);
    if (!found)
        found = take_cached(q, code);
    code->cache_ms = now_ms() - from;
    ptxpack_status status = found ? PTXPACK_OK : compile(q, code, detail, cap);
    if (!found && status == PTXPACK_OK)
        keep(q, code);
    ptxpack_cache_unlock(q->handle->cache, lock);
    if (status == PTXPACK_OK && !q->recalled)
        ptxpack_text_keep(q->handle, q->job.variant, q->symbols, q->symbol_count, q->job.text, q->job.bytes);
    return status;
}

static ptxpack_status obtain(struct request *q, const struct ptxpack_code **code)
{
    char line[PTXPACK_DETAIL_BYTES];
    ptxpack_status status;
    do /* again where a handle that forbids compiling was the first to ask */
        status = ptxpack_code_obtain(q->digest, make_code, q, code, line, sizeof line);
    while (status == PTXPACK_E_FORBIDDEN && !q->handle->forbid_compile);
    return status == PTXPACK_OK ? status : ptxpack_fail(q->handle, status, "%s", line);
}

static void describe(const struct request *q, const struct ptxpack_code *code, ptxpack_kernel_info *info)
{
    info->variant = q->job.variant;
    info->expand_ms = q->expand_ms;
    if (!code)
        return;
    info->resources = code->resources;
    info->from_cache = code->from_cache;
    info->compile_ms = code->from_cache ? 0 : code->compile_ms;
    info->cache_ms = code->cache_ms;
    info->cubin_bytes = code->cubin_bytes;
}

ptxpack_status ptxpack_kernel_compile(ptxpack *h, const ptxpack_variant *v, const ptxpack_symbol *symbols,
                                      size_t count, ptxpack_kernel_info *info, void **cubin, size_t *bytes)
{
    struct request q;
    const struct ptxpack_code *code = NULL;
    ptxpack_status status = begin_request(&q, h, v, symbols, count);
    if (status == PTXPACK_OK)
        status = obtain(&q, &code);
    if (cubin)
        *cubin = NULL;
    if (bytes)
        *bytes = 0;
    if (status == PTXPACK_OK && info) {
        memset(info, 0, sizeof *info);
        describe(&q, code, info);
    }
    if (status == PTXPACK_OK && cubin) {
        *cubin = malloc(code->cubin_bytes);
        if (*cubin)
            memcpy(*cubin, code->cubin, code->cubin_bytes);
        else
            status = ptxpack_fail(h, PTXPACK_E_MEMORY, "out of memory for the machine code of %s", v->id);
    }
    if (status == PTXPACK_OK && bytes)
        *bytes = code->cubin_bytes;
    ptxpack_code_release(code);
    end_request(&q);
    return status;
}

/* ---- loading -------------------------------------------------------------------------------------- */

static ptxpack_kernel *find_kernel(const ptxpack *h, const struct request *q)
{
    ptxpack_kernel *k = h->kernels;
    while (k && (k->info.variant != q->job.variant || strcmp(k->digest, q->digest) != 0))
        k = k->next;
    return k;
}

/* One that was asked for in the same words, so that its text need not be found again. */
static ptxpack_kernel *find_asked(ptxpack *h, const ptxpack_variant *v, const char asked[33])
{
    pthread_mutex_lock(&h->lock);
    ptxpack_kernel *k = asked[0] ? h->kernels : NULL;
    while (k && (k->info.variant != v || strcmp(k->asked, asked) != 0))
        k = k->next;
    pthread_mutex_unlock(&h->lock);
    return k;
}

static ptxpack_kernel *find_kernel_locked(ptxpack *h, const struct request *q)
{
    pthread_mutex_lock(&h->lock);
    ptxpack_kernel *k = find_kernel(h, q);
    pthread_mutex_unlock(&h->lock);
    return k;
}

/* With the handle's lock held.  Takes over the caller's hold of `code` when it succeeds. */
static ptxpack_status load_new(struct request *q, const struct ptxpack_code *code, ptxpack_kernel **out)
{
    ptxpack *h = q->handle;
    bool pushed = false;
    ptxpack_kernel *k = (ptxpack_kernel *)calloc(1, sizeof *k);
    if (!k)
        return ptxpack_fail(h, PTXPACK_E_MEMORY, "out of memory for the kernel %s", q->job.variant->id);
    k->handle = h;
    memcpy(k->asked, q->asked, sizeof k->asked);
    memcpy(k->digest, q->digest, sizeof k->digest);
    describe(q, code, &k->info);
    double from = now_ms();
    ptxpack_status status = ptxpack_enter(h, &pushed);
    if (status == PTXPACK_OK)
        status = ptxpack_image_load(h, &q->job, code ? code->cubin : NULL, &k->image, &k->info.resources);
    ptxpack_leave(h, pushed);
    k->info.load_ms = now_ms() - from;
    if (status != PTXPACK_OK) {
        free(k);
        return status;
    }
    k->code = code;
    k->next = h->kernels;
    h->kernels = k;
    *out = k;
    return PTXPACK_OK;
}

/* The driver refused this code: never take it again. */
static void refuse(struct request *q, const struct ptxpack_code *code)
{
    q->again = q->source != COMPILER;
    if (q->again && !code->from_prebuilt)
        ptxpack_cache_remove(q->handle->cache, q->key); /* a stale entry, perhaps */
    q->source = code->from_prebuilt && q->source == ANY_CACHE ? OWN_CACHE : COMPILER;
    ptxpack_code_reject(code);
}

/* One attempt: machine code (unless the driver compiles by itself), then the driver. */
static ptxpack_status try_load(struct request *q, ptxpack_kernel **out)
{
    ptxpack *h = q->handle;
    const struct ptxpack_code *code = NULL;
    bool driver_compiles = q->route == PTXPACK_ROUTE_DRIVER;
    ptxpack_status status = PTXPACK_OK;
    q->again = false;
    if (!driver_compiles)
        status = obtain(q, &code);
    else if (h->forbid_compile)
        status = forbidden(q);
    if (status != PTXPACK_OK)
        return status;
    pthread_mutex_lock(&h->lock);
    *out = find_kernel(h, q); /* another thread may have loaded it meanwhile */
    bool loaded = !*out && (status = load_new(q, code, out)) == PTXPACK_OK;
    pthread_mutex_unlock(&h->lock);
    if (loaded && driver_compiles)
        report(q, (*out)->info.load_ms);
    if (loaded)
        code = NULL;
    if (code && status == PTXPACK_E_CUBIN)
        refuse(q, code);
    ptxpack_code_release(code);
    return status;
}

ptxpack_status ptxpack_kernel_load(ptxpack *h, const ptxpack_variant *v, const ptxpack_symbol *symbols,
                                   size_t count, ptxpack_kernel **out)
{
    struct request q;
    char           asked[33];
    *out = NULL;
    if (!h->driver)
        return ptxpack_fail(h, PTXPACK_E_ARG, "an offline handle can compile kernels, not load them");
    ptxpack_status status = ptxpack_check_process(h);
    if (status != PTXPACK_OK)
        return status;
    ptxpack_text_digest(h, v, symbols, count, asked);
    if ((*out = find_asked(h, v, asked)) != NULL)
        return PTXPACK_OK;
    status = begin_request(&q, h, v, symbols, count);
    memcpy(q.asked, asked, sizeof asked);
    if (status == PTXPACK_OK && !(*out = find_kernel_locked(h, &q))) {
        do
            status = try_load(&q, out);
        while (q.again);
    }
    end_request(&q);
    return status;
}

void ptxpack_kernels_free(ptxpack *h, bool unload)
{
    bool pushed = false;
    unload = unload && h->kernels && ptxpack_enter(h, &pushed) == PTXPACK_OK;
    while (h->kernels) {
        ptxpack_kernel *k = h->kernels;
        h->kernels = k->next;
        if (unload)
            ptxpack_image_unload(h->driver, &k->image);
        ptxpack_code_release(k->code);
        free(k);
    }
    ptxpack_leave(h, pushed);
}

const ptxpack_kernel_info *ptxpack_kernel_describe(const ptxpack_kernel *kernel) { return &kernel->info; }
void *ptxpack_kernel_function(const ptxpack_kernel *kernel) { return kernel->image.function; }

/* ---- launching ------------------------------------------------------------------------------------ */

ptxpack_status ptxpack_kernel_launch(const ptxpack_kernel *k, const uint32_t grid[3], const void *arguments,
                                     struct CUstream_st *stream)
{
    const ptxpack *h = k->handle;
    const ptxpack_variant *v = k->info.variant;
    void *parameters[] = {(void *)(uintptr_t)arguments};
    bool pushed = false;
    ptxpack_status status = ptxpack_check_process(h);
    if (status == PTXPACK_OK)
        status = ptxpack_enter(h, &pushed);
    if (status != PTXPACK_OK)
        return status;
    ptxpack_cu_result r =
        h->driver->cuLaunchKernel(k->image.function, grid[0], grid[1], grid[2], (unsigned int)v->threads, 1,
                                  1, (unsigned int)v->shared_bytes, stream, parameters, NULL);
    ptxpack_leave(h, pushed);
    if (r == PTXPACK_CU_SUCCESS)
        return PTXPACK_OK;
    char text[512];
    return ptxpack_fail(h, PTXPACK_E_LAUNCH, "cuLaunchKernel of %s, grid %u x %u x %u: %s", v->id, grid[0],
                        grid[1], grid[2], ptxpack_driver_error(h->driver, r, text, sizeof text));
}
