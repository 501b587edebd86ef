/* kernel.c - kernels of the pack: the build of a row, and the kernels that a handle keeps loaded. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "build.h"
#include "loader/compile/log.h"
#include "loader/missing.h"
#include "row.h"

struct ptxpack_kernel {
    ptxpack             *handle;
    struct ptxpack_image image;
    struct CUfunc_st    *function;
    ptxpack_kernel_info  info;
    char                 asked[33]; /* digest of the row and symbols; "" where they do not determine the text */
    char                 digest[33];
    const struct ptxpack_code *code; /* NULL when the driver compiled */
    ptxpack_kernel            *next;
};

/* The context of a row's build. */
struct request {
    ptxpack_kernel_source source;
    char                 *recalled;      /* the text that an earlier run expanded */
    char                  asked[33];     /* as in ptxpack_kernel */
    ptxpack_kernel       *kernel;        /* set when it is loaded */
    bool                  folders_asked; /* the prebuilt folders were searched */
    ptxpack_status        folders_status;
    char                  folders_line[PTXPACK_DETAIL_BYTES]; /* why their code is not used, or "" */
};

static struct request *request_of(const struct ptxpack_build *b) { return (struct request *)b->context; }

/* ---- the text, or machine code of a prebuilt folder ----------------------------------------------- */

/* To find the origin of lines, the expansion itself is needed. */
static ptxpack_status expand(struct ptxpack_build *b)
{
    const struct request *q = request_of(b);
    if (b->expansion != NULL)
        return PTXPACK_OK;
    ptxpack_status status = ptxpack_kernel_expand_source(b->handle, &q->source, &b->expansion);
    if (status == PTXPACK_OK)
        ptxpack_build_take_expansion(b);
    return status;
}

/* The log of the driver's own JIT may name lines, so that route always needs the expansion. */
static ptxpack_status find_text(struct ptxpack_build *b)
{
    struct request *q = request_of(b);
    if (b->route != PTXPACK_ROUTE_DRIVER)
        q->recalled = ptxpack_row_recall(b->handle, &q->source, &b->job.bytes);
    b->job.text = q->recalled;
    return q->recalled != NULL ? PTXPACK_OK : expand(b);
}

/* Machine code of a prebuilt folder needs neither a text nor a key. */
static ptxpack_status find(struct ptxpack_build *b)
{
    struct request *q = request_of(b);
    if (!q->folders_asked) {
        q->folders_asked = true;
        q->folders_status = PTXPACK_E_PREBUILT;
        ptxpack_status status = ptxpack_row_prebuilt(b->handle, &q->source, b->target, &b->front,
                                                     b->step.digest, q->folders_line);
        b->code = b->front;
        if (status != PTXPACK_OK || b->code != NULL)
            return status;
    }
    if (b->job.text != NULL)
        return PTXPACK_OK;
    double         from = ptxpack_now_ms();
    ptxpack_status status = find_text(b);
    b->front_ms = ptxpack_now_ms() - from;
    return status;
}

/* The driver refused the code of a prebuilt folder, whose entry stays as it is. */
static bool refuse(struct ptxpack_build *b)
{
    struct request *q = request_of(b);
    q->folders_status = PTXPACK_E_CUBIN;
    snprintf(q->folders_line, sizeof q->folders_line, "its code in a prebuilt folder was refused: %.900s",
             ptxpack_detail(b->handle));
    ptxpack_code_reject(b->front);
    ptxpack_code_release(b->front);
    b->front = NULL;
    return true;
}

/* There is no machine code, or it could not be used. */
static ptxpack_status forbidden(const struct ptxpack_build *b)
{
    static const char     end[] = "and compiling is forbidden (PTXPACK_FORBID_COMPILE)";
    const struct request *q = request_of(b);
    const ptxpack        *h = b->handle;
    const char           *how = h->line_info ? " with line info" : "";
    char                  others[128] = "";
    ptxpack_prebuilt_info first, more;
    if (q->folders_line[0])
        return ptxpack_fail(h, q->folders_status, "%s for %s: %.700s, %s", b->job.name, b->target,
                            q->folders_line, end);
    if (!ptxpack_cache_prebuilt(h->cache, 0, &first))
        return ptxpack_step_forbidden(&b->step);
    if (strcmp(first.library, ptxpack_library_version) != 0)
        snprintf(others, sizeof others, " (of ptxpack %.31s; this is %.31s)", first.library,
                 ptxpack_library_version);
    else if (ptxpack_cache_prebuilt(h->cache, 1, &more))
        snprintf(others, sizeof others, " (and others)");
    return ptxpack_fail(
        h, PTXPACK_E_FORBIDDEN,
        "%s for %s%s: there is no usable machine code in the prebuilt folder %.400s%s nor in the cache, %s",
        b->job.name, b->target, how, first.path, others, end);
}

/* A text that was expanded now is kept for later runs. */
static void keep_text(const struct ptxpack_build *b)
{
    const struct request *q = request_of(b);
    if (b->step.ran && b->code != NULL && q->recalled == NULL)
        ptxpack_row_keep(b->handle, &q->source, b->job.text, b->job.bytes);
}

/* ---- loading -------------------------------------------------------------------------------------- */

static ptxpack_kernel *find_kernel(const struct ptxpack_build *b)
{
    ptxpack_kernel *k = b->handle->kernels;
    while (k != NULL &&
           (k->info.variant != request_of(b)->source.variant || strcmp(k->digest, b->step.digest) != 0))
        k = k->next;
    return k;
}

static bool is_loaded(struct ptxpack_build *b)
{
    pthread_mutex_lock(&b->handle->lock);
    bool loaded = find_kernel(b) != NULL;
    pthread_mutex_unlock(&b->handle->lock);
    return loaded;
}

/* Find a kernel that was loaded for the same row and symbols, so that its text need not be found again. */
static ptxpack_kernel *find_asked(ptxpack *h, const ptxpack_variant *v, const char asked[33])
{
    pthread_mutex_lock(&h->lock);
    ptxpack_kernel *k = asked[0] ? h->kernels : NULL;
    while (k != NULL && (k->info.variant != v || strcmp(k->asked, asked) != 0))
        k = k->next;
    pthread_mutex_unlock(&h->lock);
    return k;
}

static void describe(const struct ptxpack_build *b, ptxpack_kernel_info *info)
{
    const struct ptxpack_code *code = b->code;
    memset(info, 0, sizeof *info);
    info->variant = request_of(b)->source.variant;
    info->expand_ms = b->front_ms;
    if (code == NULL)
        return;
    ptxpack_resources_read(code->notes, code->notes_bytes, &info->resources);
    info->from_cache = code->from_cache;
    info->from_prebuilt = code->from_prebuilt;
    info->compile_ms = code->from_cache ? 0 : code->compile_ms;
    info->cache_ms = code->cache_ms;
    info->cubin_bytes = code->size;
}

/* Load the image, find its function, and allow the row's dynamic shared memory. */
static ptxpack_status load_image(struct ptxpack_build *b, ptxpack_kernel *k)
{
    ptxpack       *h = k->handle;
    char          *log = NULL;
    int            shared = k->info.variant->shared_bytes;
    ptxpack_status status = ptxpack_image_load(h, &b->job, b->code != NULL ? b->code->bytes : NULL,
                                               b->job.entry, &k->image, &k->function, &log);
    if (status == PTXPACK_OK && shared > 0) {
        ptxpack_cu_result r = h->driver->cuFuncSetAttribute(k->function, PTXPACK_CU_FUNC_MAX_DYNAMIC_SHARED,
                                                            shared);
        if (r != PTXPACK_CU_SUCCESS) {
            status = ptxpack_image_refused(h, &b->job, r);
            ptxpack_image_unload(h->driver, &k->image);
        }
    }
    if (log != NULL)
        ptxpack_log_resources(log, b->job.entry, &k->info.resources);
    if (status == PTXPACK_OK)
        ptxpack_image_resources(h->driver, k->function, &k->info.resources);
    free(log);
    return status;
}

/* The caller holds the handle's lock. */
static ptxpack_status load_new(struct ptxpack_build *b, ptxpack_kernel **out)
{
    ptxpack        *h = b->handle;
    bool            pushed = false;
    ptxpack_kernel *k = (ptxpack_kernel *)calloc(1, sizeof *k);
    if (k == NULL)
        return ptxpack_fail(h, PTXPACK_E_MEMORY, "out of memory for the kernel %s", b->job.name);
    k->handle = h;
    memcpy(k->asked, request_of(b)->asked, sizeof k->asked);
    memcpy(k->digest, b->step.digest, sizeof k->digest);
    describe(b, &k->info);
    double         from = ptxpack_now_ms();
    ptxpack_status status = ptxpack_enter(h, &pushed);
    if (status == PTXPACK_OK)
        status = load_image(b, k);
    ptxpack_leave(h, pushed);
    k->info.load_ms = ptxpack_now_ms() - from;
    if (status != PTXPACK_OK) {
        free(k);
        return status;
    }
    k->code = ptxpack_build_take_code(b);
    k->next = h->kernels;
    h->kernels = k;
    *out = k;
    return PTXPACK_OK;
}

static ptxpack_status load(struct ptxpack_build *b)
{
    ptxpack_kernel **out = &request_of(b)->kernel;
    ptxpack_status   status = PTXPACK_OK;
    keep_text(b);
    pthread_mutex_lock(&b->handle->lock);
    *out = find_kernel(b); /* another thread may have loaded it in the meantime */
    bool loaded = *out == NULL && (status = load_new(b, out)) == PTXPACK_OK;
    pthread_mutex_unlock(&b->handle->lock);
    if (loaded && (*out)->code == NULL) /* the driver compiled */
        ptxpack_step_report(&b->step, (*out)->info.load_ms);
    return status;
}

/* ---- builds of rows ------------------------------------------------------------------------------- */

static const struct ptxpack_build_kind to_load = {find, refuse, load, expand, is_loaded, forbidden},
                                       to_compile = {.find = find, .locate = expand, .forbidden = forbidden};

static ptxpack_status begin(struct ptxpack_build *b, ptxpack *h, const struct ptxpack_build_kind *kind,
                            struct request *q, const ptxpack_kernel_source *source)
{
    const ptxpack_variant *v = source->variant;
    *q = (struct request){.source = *source};
    ptxpack_build_begin(b, h, kind, q, v->flags & PTXPACK_VARIANT_WHOLE_PROGRAM);
    b->job.name = v->id;
    b->job.entry = v->entry;
    b->job.isa = v->isa;
    ptxpack_status status = ptxpack_check_process(h);
    return status == PTXPACK_OK ? ptxpack_kernel_target(h, v, b->target) : status;
}

static void end(struct ptxpack_build *b)
{
    ptxpack_build_end(b);
    free(request_of(b)->recalled);
}

/* Make the machine code of a row, b->code.  End the build, also after a failure. */
static ptxpack_status compile_row(struct ptxpack_build *b, struct request *q, ptxpack *h,
                                  const ptxpack_kernel_source *source, ptxpack_kernel_info *info)
{
    ptxpack_status status = begin(b, h, &to_compile, q, source);
    if (status == PTXPACK_OK)
        status = ptxpack_build_code(b, false);
    if (status != PTXPACK_OK)
        return status;
    keep_text(b);
    if (info != NULL)
        describe(b, info);
    return status;
}

ptxpack_status ptxpack_kernel_make(ptxpack *h, const ptxpack_variant *v, const ptxpack_symbol *symbols,
                                   size_t count, ptxpack_kernel_info *info, const struct ptxpack_code **code)
{
    const ptxpack_kernel_source source = {.variant = v, .symbols = symbols, .symbol_count = count};
    struct ptxpack_build        b;
    struct request              q;
    ptxpack_status              status = compile_row(&b, &q, h, &source, info);
    *code = status == PTXPACK_OK ? ptxpack_build_take_code(&b) : NULL;
    end(&b);
    return status;
}

ptxpack_status ptxpack_kernel_compile(ptxpack *h, const ptxpack_variant *v, const ptxpack_symbol *symbols,
                                      size_t count, ptxpack_kernel_info *info, void **cubin, size_t *bytes)
{
    if (h == NULL)
        return PTXPACK_MISSING(NULL, "handle");
    if (v == NULL)
        return PTXPACK_MISSING(h, "variant");
    if (symbols == NULL && count > 0)
        return PTXPACK_MISSING(h, "symbols");
    const ptxpack_kernel_source source = {.variant = v, .symbols = symbols, .symbol_count = count};
    struct ptxpack_build        b;
    struct request              q;
    ptxpack_status              status = compile_row(&b, &q, h, &source, info);
    status = ptxpack_build_copy(&b, status, cubin, bytes);
    end(&b);
    return status;
}

ptxpack_status ptxpack_kernel_compile_source(ptxpack *h, const ptxpack_kernel_source *source,
                                             ptxpack_kernel_info *info)
{
    struct ptxpack_build b;
    struct request       q;
    ptxpack_status       status = compile_row(&b, &q, h, source, info);
    end(&b);
    return status;
}

ptxpack_status ptxpack_kernel_load(ptxpack *h, const ptxpack_variant *v, const ptxpack_symbol *symbols,
                                   size_t count, ptxpack_kernel **out)
{
    const ptxpack_kernel_source source = {.variant = v, .symbols = symbols, .symbol_count = count};
    return ptxpack_kernel_load_source(h, &source, out);
}

ptxpack_status ptxpack_kernel_load_source(ptxpack *h, const ptxpack_kernel_source *source, ptxpack_kernel **out)
{
    if (h == NULL)
        return PTXPACK_MISSING(NULL, "handle");
    if (out == NULL)
        return PTXPACK_MISSING(h, "out");
    *out = NULL;
    if (source->variant == NULL)
        return PTXPACK_MISSING(h, "variant");
    if (source->symbols == NULL && source->symbol_count > 0)
        return PTXPACK_MISSING(h, "symbols");
    struct ptxpack_build b;
    struct request       q;
    char                 asked[33];
    if (h->driver == NULL)
        return ptxpack_fail(h, PTXPACK_E_ARG, "an offline handle can compile kernels, not load them");
    ptxpack_status status = ptxpack_check_process(h);
    if (status != PTXPACK_OK)
        return status;
    ptxpack_row_digest(h, source, asked);
    if ((*out = find_asked(h, source->variant, asked)) != NULL)
        return PTXPACK_OK;
    status = begin(&b, h, &to_load, &q, source);
    memcpy(q.asked, asked, sizeof asked);
    if (status == PTXPACK_OK)
        status = ptxpack_build_load(&b);
    *out = q.kernel;
    end(&b);
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

const ptxpack_kernel_info *ptxpack_kernel_describe(const ptxpack_kernel *kernel)
{
    if (kernel == NULL) {
        PTXPACK_MISSING(NULL, "kernel");
        return NULL;
    }
    return &kernel->info;
}
void *ptxpack_kernel_function(const ptxpack_kernel *kernel)
{
    if (kernel == NULL) {
        PTXPACK_MISSING(NULL, "kernel");
        return NULL;
    }
    return kernel->function;
}

/* ---- launching ------------------------------------------------------------------------------------ */

static ptxpack_cu_result launch_dependent(const ptxpack_kernel *k, const uint32_t grid[3], void **parameters,
                                          struct CUstream_st *stream)
{
    const ptxpack_variant      *v = k->info.variant;
    ptxpack_cu_launch_attribute attribute = {.id = PTXPACK_CU_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION};
    attribute.value.programmatic_stream_serialization_allowed = 1;
    const ptxpack_cu_launch_config config = {.grid = {grid[0], grid[1], grid[2]},
                                             .block = {(unsigned int)v->threads, 1, 1},
                                             .shared_bytes = (unsigned int)v->shared_bytes,
                                             .stream = stream,
                                             .attributes = &attribute,
                                             .attribute_count = 1};
    return k->handle->driver->cuLaunchKernelEx((const struct CUlaunchConfig_st *)(const void *)&config,
                                               k->function, parameters, NULL);
}

ptxpack_status ptxpack_kernel_enqueue(const ptxpack_kernel *k, const uint32_t grid[3], const void *arguments,
                                      struct CUstream_st *stream, bool overlap)
{
    const ptxpack         *h = k->handle;
    const ptxpack_variant *v = k->info.variant;
    void                  *parameters[] = {(void *)(uintptr_t)arguments};
    const bool             dependent = overlap && (v->flags & PTXPACK_VARIANT_OVERLAPS) != 0 &&
                           h->driver->cuLaunchKernelEx != NULL;
    ptxpack_cu_result r = dependent ? launch_dependent(k, grid, parameters, stream)
                                    : h->driver->cuLaunchKernel(k->function, grid[0], grid[1], grid[2],
                                                                (unsigned int)v->threads, 1, 1,
                                                                (unsigned int)v->shared_bytes, stream,
                                                                parameters, NULL);
    if (r == PTXPACK_CU_SUCCESS)
        return PTXPACK_OK;
    char text[512];
    return ptxpack_fail(h, PTXPACK_E_LAUNCH, "%s of %s, grid %u x %u x %u: %s",
                        dependent ? "cuLaunchKernelEx" : "cuLaunchKernel", v->id, grid[0], grid[1], grid[2],
                        ptxpack_driver_error(h->driver, r, text, sizeof text));
}

ptxpack_status ptxpack_kernel_launch(const ptxpack_kernel *k, const uint32_t grid[3], const void *arguments,
                                     struct CUstream_st *stream)
{
    if (k == NULL)
        return PTXPACK_MISSING(NULL, "kernel");
    if (grid == NULL)
        return PTXPACK_MISSING(k->handle, "grid");
    if (arguments == NULL)
        return PTXPACK_MISSING(k->handle, "arguments");
    bool           pushed = false;
    ptxpack_status status = ptxpack_check_process(k->handle);
    if (status == PTXPACK_OK)
        status = ptxpack_enter(k->handle, &pushed);
    if (status != PTXPACK_OK)
        return status;
    status = ptxpack_kernel_enqueue(k, grid, arguments, stream, false);
    ptxpack_leave(k->handle, pushed);
    return status;
}
