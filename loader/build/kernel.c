/* kernel.c - one kernel from its row to a function: text, key, cache or compile, load, launch. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "assemble.h"
#include "loader/compile/log.h"
#include "image.h"
#include "loader/internal.h"
#include "shipped.h"

struct ptxpack_kernel {
    ptxpack             *handle;
    struct ptxpack_image image;
    struct CUfunc_st    *function;
    ptxpack_kernel_info  info;
    char                 asked[33]; /* digest of the row and symbols; "" where they do not make the text */
    char                 digest[33];
    const struct ptxpack_code *code; /* NULL when the driver compiled */
    ptxpack_kernel            *next;
};

/* ---- a request: all that one kernel's machine code depends on ------------------------------------- */

struct request {
    struct ptxpack_assembly assembly; /* first: one is found from the other */
    const ptxpack_variant  *variant;
    const ptxpack_symbol   *symbols;
    size_t                  symbol_count;
    ptxpack_expansion      *expansion; /* NULL while the text of an earlier run is enough */
    char                   *recalled;  /* that text */
    char                    target[16];
    char                    asked[33]; /* as in ptxpack_kernel */
    double                  expand_ms;
    bool                    folders_asked, settled;
    ptxpack_status          folders_status; /* when `folders_line` says why theirs is not taken */
    char                    folders_line[PTXPACK_DETAIL_BYTES];
};

/* The device's own architecture, or offline the one named; rows for one architecture only want its 'a'. */
ptxpack_status ptxpack_kernel_target(const ptxpack *h, const ptxpack_variant *v, char exact_target[16])
{
    const char *target = h->info.target;
    int         arch = ptxpack_parse_arch(target);
    bool        exact = (v->flags & PTXPACK_VARIANT_ARCH_SPECIFIC) != 0;
    bool        named = h->driver == NULL && target[strlen(target) - 1] == 'a';
    if (arch < v->arch || (exact && (arch != v->arch || (h->driver == NULL && !named && !h->stand_in))))
        return ptxpack_fail(h, PTXPACK_E_UNSUPPORTED, "%s needs %ssm_%d%s, the target is %s", v->id,
                            exact ? "exactly " : "", v->arch, exact ? "a" : "", target);
    snprintf(exact_target, 16, "%s%s", target, exact && !named ? "a" : "");
    return PTXPACK_OK;
}

static void end_request(struct request *q)
{
    ptxpack_assembly_end(&q->assembly);
    ptxpack_expansion_free(q->expansion);
    free(q->recalled);
}

/* What needs the lines' origin needs the expansion itself. */
static ptxpack_status expand(struct ptxpack_assembly *assembly)
{
    struct request *q = (struct request *)assembly;
    if (q->expansion != NULL)
        return PTXPACK_OK;
    ptxpack_status status = ptxpack_kernel_expand(assembly->request.handle, q->variant, q->symbols,
                                                  q->symbol_count, &q->expansion);
    assembly->job.origin = ptxpack_log_expanded_from;
    assembly->job.origin_of = q->expansion;
    return status;
}

/* The driver's own JIT is given the text, and its log may name lines: there is nothing to save there. */
static ptxpack_status find_text(struct request *q, ptxpack *h)
{
    struct ptxpack_job *job = &q->assembly.job;
    if (q->assembly.route != PTXPACK_ROUTE_DRIVER)
        q->recalled = ptxpack_text_recall(h, q->variant, q->symbols, q->symbol_count, &job->bytes);
    job->text = q->recalled;
    if (q->recalled != NULL)
        return PTXPACK_OK;
    ptxpack_status status = expand(&q->assembly);
    if (status != PTXPACK_OK)
        return status;
    job->text = ptxpack_expansion_text(q->expansion, &job->bytes);
    return PTXPACK_OK;
}

static ptxpack_status begin_request(struct request *q, ptxpack *h, const ptxpack_variant *v,
                                    const ptxpack_symbol *symbols, size_t count)
{
    memset(q, 0, sizeof *q);
    q->variant = v;
    q->symbols = symbols;
    q->symbol_count = count;
    q->assembly.request.handle = h;
    q->assembly.route = ptxpack_jit_route(&h->jit, v->flags & PTXPACK_VARIANT_WHOLE_PROGRAM);
    q->assembly.job = (struct ptxpack_job){.name = v->id,
                                           .entry = v->entry,
                                           .isa = v->isa,
                                           .target = q->target,
                                           .line_info = h->line_info};
    q->assembly.prepare = expand;
    ptxpack_status status = ptxpack_check_process(h);
    return status == PTXPACK_OK ? ptxpack_kernel_target(h, v, q->target) : status;
}

/* Text and key, which machine code of prebuilt folders does without. */
static ptxpack_status settle(struct request *q)
{
    double from = ptxpack_now_ms();
    if (q->settled)
        return PTXPACK_OK;
    q->settled = true;
    ptxpack_status status = find_text(q, q->assembly.request.handle);
    q->expand_ms = ptxpack_now_ms() - from;
    return status == PTXPACK_OK ? ptxpack_assembly_begin(&q->assembly) : status;
}

/* ---- machine code --------------------------------------------------------------------------------- */

/* *code NULL with PTXPACK_OK: no prebuilt folder has it. */
static ptxpack_status obtain_shipped(struct request *q, const struct ptxpack_code **code)
{
    struct ptxpack_request *r = &q->assembly.request;
    *code = NULL;
    if (q->folders_asked)
        return PTXPACK_OK;
    q->folders_asked = true;
    q->folders_status = PTXPACK_E_PREBUILT;
    return ptxpack_shipped_obtain(r->handle, q->variant, q->symbols, q->symbol_count, q->target, code,
                                  r->digest, q->folders_line);
}

/* What stands in the way of compiling: there is nothing to take, or what there is was no good. */
static ptxpack_status forbidden(const struct request *q)
{
    static const char     end[] = "and compiling is forbidden (PTXPACK_FORBID_COMPILE)";
    const ptxpack        *h = q->assembly.request.handle;
    const char           *how = h->line_info ? " with line info" : "";
    char                  others[128] = "";
    ptxpack_prebuilt_info first, more;
    if (q->folders_line[0])
        return ptxpack_fail(h, q->folders_status, "%s for %s: %.700s, %s", q->variant->id, q->target,
                            q->folders_line, end);
    if (!ptxpack_cache_prebuilt(h->cache, 0, &first))
        return ptxpack_request_forbidden(&q->assembly.request);
    if (strcmp(first.library, ptxpack_library_version) != 0)
        snprintf(others, sizeof others, " (of ptxpack %.31s; this is %.31s)", first.library,
                 ptxpack_library_version);
    else if (ptxpack_cache_prebuilt(h->cache, 1, &more))
        snprintf(others, sizeof others, " (and others)");
    return ptxpack_fail(h, PTXPACK_E_FORBIDDEN,
                        "%s for %s%s: there is no usable machine code in the "
                        "prebuilt folder %.400s%s nor in the cache, %s",
                        q->variant->id, q->target, how, first.path, others, end);
}

static ptxpack_status obtain(struct request *q, const struct ptxpack_code **code)
{
    struct ptxpack_request *r = &q->assembly.request;
    ptxpack_status          status = ptxpack_request_obtain(r, code);
    if (status == PTXPACK_E_FORBIDDEN)
        status = forbidden(q);
    if (status == PTXPACK_OK && r->ran && q->recalled == NULL)
        ptxpack_text_keep(r->handle, q->variant, q->symbols, q->symbol_count, q->assembly.job.text,
                          q->assembly.job.bytes);
    if (status != PTXPACK_OK) {
        ptxpack_code_release(*code);
        *code = NULL;
    }
    return status;
}

static void describe(const struct request *q, const struct ptxpack_code *code, ptxpack_kernel_info *info)
{
    info->variant = q->variant;
    info->expand_ms = q->expand_ms;
    if (code == NULL)
        return;
    ptxpack_resources_read(code->notes, code->notes_bytes, &info->resources);
    info->from_cache = code->from_cache;
    info->from_prebuilt = code->from_prebuilt;
    info->compile_ms = code->from_cache ? 0 : code->compile_ms;
    info->cache_ms = code->cache_ms;
    info->cubin_bytes = code->size;
}

ptxpack_status ptxpack_kernel_make(ptxpack *h, const ptxpack_variant *v, const ptxpack_symbol *symbols,
                                   size_t count, ptxpack_kernel_info *info, const struct ptxpack_code **code)
{
    struct request q;
    *code = NULL;
    ptxpack_status status = begin_request(&q, h, v, symbols, count);
    if (status == PTXPACK_OK)
        status = obtain_shipped(&q, code);
    if (status == PTXPACK_OK && *code == NULL && (status = settle(&q)) == PTXPACK_OK)
        status = obtain(&q, code);
    if (status == PTXPACK_OK && info != NULL) {
        memset(info, 0, sizeof *info);
        describe(&q, *code, info);
    }
    end_request(&q);
    return status;
}

ptxpack_status ptxpack_kernel_compile(ptxpack *h, const ptxpack_variant *v, const ptxpack_symbol *symbols,
                                      size_t count, ptxpack_kernel_info *info, void **cubin, size_t *bytes)
{
    const struct ptxpack_code *code;
    ptxpack_status             status = ptxpack_kernel_make(h, v, symbols, count, info, &code);
    status = ptxpack_code_copy(h, status, v->id, code, cubin, bytes);
    ptxpack_code_release(code);
    return status;
}

/* ---- loading -------------------------------------------------------------------------------------- */

static ptxpack_kernel *find_kernel(const ptxpack *h, const struct request *q)
{
    ptxpack_kernel *k = h->kernels;
    while (k != NULL && (k->info.variant != q->variant || strcmp(k->digest, q->assembly.request.digest) != 0))
        k = k->next;
    return k;
}

/* One that was asked for in the same words, so that its text need not be found again. */
static ptxpack_kernel *find_asked(ptxpack *h, const ptxpack_variant *v, const char asked[33])
{
    pthread_mutex_lock(&h->lock);
    ptxpack_kernel *k = asked[0] ? h->kernels : NULL;
    while (k != NULL && (k->info.variant != v || strcmp(k->asked, asked) != 0))
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

/* The driver's answer to the image, its function and the row's dynamic shared memory. */
static ptxpack_status load_image(struct request *q, const struct ptxpack_code *code, ptxpack_kernel *k)
{
    ptxpack       *h = k->handle;
    char          *log = NULL;
    ptxpack_status status = ptxpack_image_load(h, &q->assembly.job, code != NULL ? code->bytes : NULL,
                                               q->variant->entry, &k->image, &k->function, &log);
    if (status == PTXPACK_OK && q->variant->shared_bytes > 0) {
        ptxpack_cu_result r = h->driver->cuFuncSetAttribute(k->function, PTXPACK_CU_FUNC_MAX_DYNAMIC_SHARED,
                                                            q->variant->shared_bytes);
        if (r != PTXPACK_CU_SUCCESS) {
            status = ptxpack_image_refused(h, &q->assembly.job, r);
            ptxpack_image_unload(h->driver, &k->image);
        }
    }
    if (log != NULL)
        ptxpack_log_resources(log, q->variant->entry, &k->info.resources);
    if (status == PTXPACK_OK)
        ptxpack_image_resources(h->driver, k->function, &k->info.resources);
    free(log);
    return status;
}

/* With the handle's lock held.  Takes over the caller's hold of `code` when it succeeds. */
static ptxpack_status load_new(struct request *q, const struct ptxpack_code *code, ptxpack_kernel **out)
{
    ptxpack        *h = q->assembly.request.handle;
    bool            pushed = false;
    ptxpack_kernel *k = (ptxpack_kernel *)calloc(1, sizeof *k);
    if (k == NULL)
        return ptxpack_fail(h, PTXPACK_E_MEMORY, "out of memory for the kernel %s", q->variant->id);
    k->handle = h;
    memcpy(k->asked, q->asked, sizeof k->asked);
    memcpy(k->digest, q->assembly.request.digest, sizeof k->digest);
    describe(q, code, &k->info);
    double         from = ptxpack_now_ms();
    ptxpack_status status = ptxpack_enter(h, &pushed);
    if (status == PTXPACK_OK)
        status = load_image(q, code, k);
    ptxpack_leave(h, pushed);
    k->info.load_ms = ptxpack_now_ms() - from;
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
    struct ptxpack_request *r = &q->assembly.request;
    if (!code->from_prebuilt) {
        ptxpack_request_refuse(r, code);
        return;
    }
    r->again = true; /* that entry stays as it is */
    q->folders_status = PTXPACK_E_CUBIN;
    snprintf(q->folders_line, sizeof q->folders_line, "of a prebuilt folder: %.900s",
             ptxpack_detail(r->handle));
    ptxpack_code_reject(code);
}

/* What to load: a kernel that is there, machine code, or neither where the driver compiles by itself. */
static ptxpack_status find_image(struct request *q, const struct ptxpack_code **code, ptxpack_kernel **out)
{
    ptxpack       *h = q->assembly.request.handle;
    ptxpack_status status = obtain_shipped(q, code);
    if (status != PTXPACK_OK || *code != NULL)
        return status;
    status = settle(q);
    if (status != PTXPACK_OK || (*out = find_kernel_locked(h, q)) != NULL)
        return status;
    if (q->assembly.route != PTXPACK_ROUTE_DRIVER)
        return obtain(q, code);
    return h->forbid_compile ? forbidden(q) : PTXPACK_OK;
}

/* One attempt: the image, then the driver. */
static ptxpack_status try_load(struct request *q, ptxpack_kernel **out)
{
    struct ptxpack_request    *r = &q->assembly.request;
    ptxpack                   *h = r->handle;
    const struct ptxpack_code *code = NULL;
    r->again = false;
    ptxpack_status status = find_image(q, &code, out);
    if (status != PTXPACK_OK || *out != NULL)
        return status;
    bool driver_compiles = code == NULL;
    pthread_mutex_lock(&h->lock);
    *out = find_kernel(h, q); /* another thread may have loaded it meanwhile */
    bool loaded = *out == NULL && (status = load_new(q, code, out)) == PTXPACK_OK;
    pthread_mutex_unlock(&h->lock);
    if (loaded && driver_compiles)
        ptxpack_request_report(r, (*out)->info.load_ms);
    if (loaded)
        code = NULL;
    if (code != NULL && status == PTXPACK_E_CUBIN)
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
    if (h->driver == NULL)
        return ptxpack_fail(h, PTXPACK_E_ARG, "an offline handle can compile kernels, not load them");
    ptxpack_status status = ptxpack_check_process(h);
    if (status != PTXPACK_OK)
        return status;
    ptxpack_text_digest(h, v, symbols, count, asked);
    if ((*out = find_asked(h, v, asked)) != NULL)
        return PTXPACK_OK;
    status = begin_request(&q, h, v, symbols, count);
    memcpy(q.asked, asked, sizeof asked);
    if (status == PTXPACK_OK)
        do
            status = try_load(&q, out);
        while (q.assembly.request.again);
    end_request(&q);
    return status;
}

void ptxpack_kernels_free(ptxpack *h, bool unload)
{
    bool pushed = false;
    unload = unload && h->kernels != NULL && ptxpack_enter(h, &pushed) == PTXPACK_OK;
    while (h->kernels != NULL) {
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
void                      *ptxpack_kernel_function(const ptxpack_kernel *kernel) { return kernel->function; }

/* ---- launching ------------------------------------------------------------------------------------ */

ptxpack_status ptxpack_kernel_launch(const ptxpack_kernel *k, const uint32_t grid[3], const void *arguments,
                                     struct CUstream_st *stream)
{
    const ptxpack         *h = k->handle;
    const ptxpack_variant *v = k->info.variant;
    void                  *parameters[] = {(void *)(uintptr_t)arguments};
    bool                   pushed = false;
    ptxpack_status         status = ptxpack_check_process(h);
    if (status == PTXPACK_OK)
        status = ptxpack_enter(h, &pushed);
    if (status != PTXPACK_OK)
        return status;
    ptxpack_cu_result r = h->driver->cuLaunchKernel(k->function, grid[0], grid[1], grid[2],
                                                    (unsigned int)v->threads, 1, 1,
                                                    (unsigned int)v->shared_bytes, stream, parameters, NULL);
    ptxpack_leave(h, pushed);
    if (r == PTXPACK_CU_SUCCESS)
        return PTXPACK_OK;
    char text[512];
    return ptxpack_fail(h, PTXPACK_E_LAUNCH, "cuLaunchKernel of %s, grid %u x %u x %u: %s", v->id, grid[0],
                        grid[1], grid[2], ptxpack_driver_error(h->driver, r, text, sizeof text));
}
