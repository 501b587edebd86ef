/* program.c - programs of users: the build of a source, and loaded programs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "build.h"
#include "cuda_source.h"
#include "function.h"
#include "loader/missing.h"
#include "loader/compile/log.h"
#include "loader/inspect.h"
#include "loader/compile/ptx_text.h"

/* The context of a program's build. */
struct request {
    struct ptxpack_text text;      /* the caller's source and its files */
    struct ptxpack_cuda cuda;      /* CUDA C++ */
    bool                wants_ptx; /* not machine code */
    ptxpack_program    *program;   /* that is being loaded */
};

static struct request      *request_of(const struct ptxpack_build *b) { return (struct request *)b->context; }
static struct ptxpack_text *text_of(const struct ptxpack_build *b) { return &request_of(b)->text; }

static bool is_cuda(const struct ptxpack_build *b)
{
    return text_of(b)->source.language == PTXPACK_LANGUAGE_CUDA;
}

/* ---- the text, or machine code of NVRTC ----------------------------------------------------------- */

static ptxpack_status expand(struct ptxpack_build *b)
{
    struct ptxpack_text  *t = text_of(b);
    const ptxpack_source *s = &t->source;
    const ptxpack        *h = b->handle;
    ptxpack_symbol       *all = (ptxpack_symbol *)calloc(s->symbol_count + 2, sizeof *all);
    if (all == NULL)
        return ptxpack_fail(h, PTXPACK_E_MEMORY, "out of memory for the symbols of %s", t->path);
    all[0] = (ptxpack_symbol){"ARCH", h->info.caps.arch};
    all[1] = (ptxpack_symbol){"ISA", h->info.caps.isa};
    if (s->symbol_count)
        memcpy(all + 2, s->symbols, s->symbol_count * sizeof *all);
    ptxpack_status status = ptxpack_text_expand(t, all, s->symbol_count + 2, &b->expansion);
    free(all);
    return status;
}

/* Take NVRTC's result: machine code, or PTX that becomes the text of the job. */
static ptxpack_status run_nvrtc(struct ptxpack_build *b)
{
    struct request *q = request_of(b);
    if (b->front != NULL)
        return PTXPACK_OK;
    ptxpack_status status = q->cuda.step.key != NULL ? PTXPACK_OK
                                                     : ptxpack_cuda_begin(&q->cuda, &q->text, q->wants_ptx);
    if (status == PTXPACK_OK)
        status = ptxpack_build_run(b, &q->cuda.step, &b->front);
    if (status != PTXPACK_OK)
        return status;
    if (b->notes.is_ptx) {
        b->job.text = (const char *)b->front->bytes;
        b->job.bytes = b->front->size;
        b->job.origin = ptxpack_ptx_origin;
        b->job.origin_of = b->front->bytes;
    } else {
        snprintf(b->target, sizeof b->target, "%s", q->cuda.step.target);
    }
    return status;
}

static ptxpack_status find_text(struct ptxpack_build *b)
{
    if (b->expansion != NULL)
        return PTXPACK_OK;
    ptxpack_status status = expand(b);
    if (status == PTXPACK_OK)
        ptxpack_build_take_expansion(b);
    return status;
}

/* The handle's target, unless the text is made for exactly one architecture, or for a family. */
static ptxpack_status choose_target(struct ptxpack_build *b)
{
    const ptxpack *h = b->handle;
    const char    *ours = h->info.target;
    char           named[16];
    if (!ptxpack_ptx_target(b->job.text, named, sizeof named))
        named[0] = '\0'; /* the compiler reports that */
    int  have = ptxpack_parse_arch(ours), needs = ptxpack_parse_arch(named);
    char suffix = needs < 0 ? '\0' : named[strlen(named) - 1];
    bool exact = suffix == 'a', family = suffix == 'f';
    bool plain = h->driver == NULL && !h->stand_in && strchr("0123456789", ours[strlen(ours) - 1]) != NULL;
    bool fits = exact ? have == needs : family ? have / 10 == needs / 10 && have >= needs : have >= needs;
    if (!fits || ((exact || family) && plain))
        return ptxpack_fail(h, PTXPACK_E_UNSUPPORTED, "%s needs %s%s, the target is %s", b->job.name,
                            exact    ? "exactly "
                            : family ? "the family of "
                                     : "",
                            named, ours);
    if (exact || family)
        snprintf(b->target, sizeof b->target, "sm_%d%c", have, suffix);
    else
        snprintf(b->target, sizeof b->target, "%s", ours);
    return PTXPACK_OK;
}

/* The PTX, or NVRTC's machine code in b->front. */
static ptxpack_status find_front(struct ptxpack_build *b)
{
    double         from = ptxpack_now_ms();
    ptxpack_status status = is_cuda(b) ? run_nvrtc(b) : find_text(b);
    b->front_ms += ptxpack_now_ms() - from;
    return status;
}

static ptxpack_status find(struct ptxpack_build *b)
{
    ptxpack_status status = find_front(b);
    if (status != PTXPACK_OK)
        return status;
    if (b->job.text == NULL) {
        b->code = b->front;
        return PTXPACK_OK;
    }
    if (b->step.key != NULL)
        return PTXPACK_OK;
    b->job.isa = ptxpack_ptx_isa(b->job.text);
    return choose_target(b);
}

/* The driver has refused NVRTC's machine code.  If the code has just been made, the driver would always refuse
 * it: then PTX takes its place, also in the cache. */
static bool refuse(struct ptxpack_build *b)
{
    struct ptxpack_cuda *cuda = &request_of(b)->cuda;
    bool                 fresh = !b->front->from_cache;
    if (!ptxpack_step_refuse(&cuda->step, b->front) || fresh)
        cuda->wants_ptx = true;
    ptxpack_code_release(b->front);
    ptxpack_notes_free(&b->notes);
    b->front = NULL;
    return true;
}

/* ---- loading -------------------------------------------------------------------------------------- */

/* Add what the driver's own JIT said about the PTX. */
static void take_jit_log(struct ptxpack_build *b, const char *log)
{
    ptxpack_build_add_log(b, log); /* if memory runs out, there is no log */
    for (size_t i = 0; i < b->notes.entry_count; i++)
        if (ptxpack_log_knows(log, b->notes.entries[i].name))
            ptxpack_log_resources(log, b->notes.entries[i].name, &b->notes.entries[i].resources);
}

static ptxpack_status load(struct ptxpack_build *b)
{
    ptxpack_program  *p = request_of(b)->program;
    struct CUfunc_st *first = NULL;
    bool              pushed = false;
    char             *log = NULL;
    double            from = ptxpack_now_ms();
    ptxpack_status    status = ptxpack_enter(b->handle, &pushed);
    if (status == PTXPACK_OK)
        status = ptxpack_image_load(b->handle, &b->job, b->code != NULL ? b->code->bytes : NULL,
                                    b->notes.entries[0].name, &p->image, &first, &log);
    ptxpack_leave(b->handle, pushed);
    b->load_ms = ptxpack_now_ms() - from;
    if (status == PTXPACK_OK && b->code == NULL)
        ptxpack_step_report(&b->step, b->load_ms);
    if (log != NULL)
        take_jit_log(b, log);
    free(log);
    return status;
}

/* Describe the program with everything that the build knows.  The log is not copied. */
static void describe(const struct ptxpack_build *b, ptxpack_program_info *info)
{
    const struct ptxpack_code *code = b->code;
    char                       route[128] = "", nvrtc[32] = "";
    memset(info, 0, sizeof *info);
    snprintf(info->target, sizeof info->target, "%.15s", b->target);
    if (b->notes.nvrtc) /* it is 1 if NVRTC does not report its version */
        snprintf(nvrtc, sizeof nvrtc, b->notes.nvrtc < 1000 ? "NVRTC" : "NVRTC %d.%d", b->notes.nvrtc / 1000,
                 b->notes.nvrtc % 1000 / 10);
    if (code != b->front || code == NULL)
        ptxpack_jit_name(&b->handle->jit, b->route, route, sizeof route);
    snprintf(info->compiler, sizeof info->compiler, "%s%s%.60s", nvrtc, *nvrtc && *route ? ", " : "", route);
    info->front_ms = b->front_ms;
    info->load_ms = b->load_ms;
    info->log = b->log != NULL ? b->log : "";
    if (code == NULL)
        return;
    info->from_cache = code->from_cache && (b->front == NULL || b->front->from_cache);
    info->compile_ms = code->from_cache || code == b->front ? 0 : code->compile_ms;
    info->cache_ms = code->cache_ms;
    info->cubin_bytes = code->size;
}

/* Move to the program what it keeps of its build, after the image is loaded. */
static ptxpack_status take_build(struct ptxpack_program *p, struct ptxpack_build *b)
{
    const ptxpack_source *s = &text_of(b)->source;
    describe(b, &p->info);
    p->log = b->log;
    b->log = NULL;
    p->notes = b->notes;
    memset(&b->notes, 0, sizeof b->notes);
    p->path = strdup(b->job.name);
    p->expressions = (char **)calloc(s->expression_count + 1, sizeof *p->expressions);
    bool good = p->path != NULL && p->expressions != NULL;
    for (; good && p->expression_count < s->expression_count; p->expression_count += good)
        good = (p->expressions[p->expression_count] = strdup(s->expressions[p->expression_count])) != NULL;
    if (!good)
        return ptxpack_fail(p->handle, PTXPACK_E_MEMORY, "out of memory for %s", b->job.name);
    p->code = ptxpack_build_take_code(b);
    return PTXPACK_OK;
}

/* ---- builds of sources ---------------------------------------------------------------------------- */

static const struct ptxpack_build_kind kind = {.find = find, .refuse = refuse, .load = load};

/* Check and read the source.  End it, also after a failure.
 *   PTXPACK_E_ARG, _E_IO, _E_MEMORY, _E_FORKED */
static ptxpack_status begin(struct ptxpack_build *b, ptxpack *h, struct request *q,
                            const ptxpack_source *source)
{
    memset(q, 0, sizeof *q);
    ptxpack_build_begin(b, h, &kind, q, true);
    ptxpack_status status = ptxpack_check_process(h);
    if (status == PTXPACK_OK)
        status = ptxpack_text_begin(&q->text, h, source);
    b->job.name = q->text.path != NULL ? q->text.path : "the program";
    return status;
}

static void end(struct ptxpack_build *b)
{
    struct request *q = request_of(b);
    ptxpack_build_end(b);
    ptxpack_cuda_end(&q->cuda);
    ptxpack_text_end(&q->text);
}

ptxpack_status ptxpack_program_compile(ptxpack *h, const ptxpack_source *source, ptxpack_program_info *info,
                                       char **log_text, void **cubin, size_t *bytes)
{
    if (h == NULL)
        return PTXPACK_MISSING(NULL, "handle");
    if (source == NULL)
        return PTXPACK_MISSING(h, "source");
    struct ptxpack_build b;
    struct request       q;
    ptxpack_status       status = begin(&b, h, &q, source);
    if (status == PTXPACK_OK)
        status = ptxpack_build_code(&b, false);
    if (info != NULL && status == PTXPACK_OK)
        describe(&b, info);
    else if (info != NULL)
        memset(info, 0, sizeof *info);
    if (info != NULL && log_text == NULL)
        info->log = "";
    status = ptxpack_build_copy(&b, status, cubin, bytes);
    if (log_text != NULL) {
        *log_text = b.log != NULL ? b.log : strdup("");
        b.log = NULL; /* the caller's */
        if (info != NULL)
            info->log = *log_text != NULL ? *log_text : "";
    }
    end(&b);
    return status;
}

ptxpack_status ptxpack_program_ptx(ptxpack *h, const ptxpack_source *source, char **text, size_t *bytes)
{
    if (h == NULL)
        return PTXPACK_MISSING(NULL, "handle");
    if (text == NULL)
        return PTXPACK_MISSING(h, "text");
    *text = NULL;
    if (bytes != NULL)
        *bytes = 0;
    if (source == NULL)
        return PTXPACK_MISSING(h, "source");
    struct ptxpack_build b;
    struct request       q;
    ptxpack_status       status = begin(&b, h, &q, source);
    q.wants_ptx = true;
    if (status == PTXPACK_OK)
        status = find_front(&b);
    if (status == PTXPACK_OK && (*text = (char *)calloc(1, b.job.bytes + 1)) == NULL)
        status = ptxpack_fail(h, PTXPACK_E_MEMORY, "out of memory for the PTX of %s", b.job.name);
    if (status == PTXPACK_OK) {
        memcpy(*text, b.job.text, b.job.bytes);
        if (bytes != NULL)
            *bytes = b.job.bytes;
    }
    end(&b);
    return status;
}

/* ---- explanations --------------------------------------------------------------------------------- */

char *ptxpack_program_errors(ptxpack *h, const ptxpack_source *source, size_t *count)
{
    struct ptxpack_build b;
    struct request       q;
    char                *list = NULL;
    *count = 0;
    ptxpack_status status = begin(&b, h, &q, source);
    if (status == PTXPACK_OK)
        status = ptxpack_build_code(&b, false);
    if (status == PTXPACK_E_COMPILE && b.log != NULL && is_cuda(&b) && b.job.origin == NULL)
        list = ptxpack_log_cuda_list(b.log, count);
    else if (status == PTXPACK_E_COMPILE && b.log != NULL)
        list = ptxpack_log_error_list(b.log, b.job.origin, b.job.origin_of, count);
    end(&b);
    return list;
}

ptxpack_status ptxpack_program_unused(ptxpack *h, const ptxpack_source *source, bool *unused)
{
    if (h == NULL)
        return PTXPACK_MISSING(NULL, "handle");
    if (source == NULL)
        return PTXPACK_MISSING(h, "source");
    if (unused == NULL)
        return PTXPACK_MISSING(h, "unused");
    struct ptxpack_build     b;
    struct request           q;
    ptxpack_status           status = begin(&b, h, &q, source);
    struct ptxpack_includes *in = &q.cuda.includes;
    memset(unused, false, source->symbol_count * sizeof *unused);
    q.text.used = unused;
    if (status == PTXPACK_OK && !is_cuda(&b))
        status = expand(&b); /* reads the files */
    else if (status == PTXPACK_OK && !ptxpack_includes_gather(in, &q.text))
        status = ptxpack_fail(h, PTXPACK_E_MEMORY, "out of memory for %s", b.job.name);
    for (size_t i = 0; status == PTXPACK_OK && i < in->count; i++)
        ptxpack_text_note(&q.text, in->headers[i].text);
    for (size_t i = 0; i < source->symbol_count; i++)
        unused[i] = status == PTXPACK_OK && !unused[i] && !in->open; /* what only NVRTC reads cannot be known */
    end(&b);
    return status;
}

ptxpack_status ptxpack_program_load(ptxpack *h, const ptxpack_source *source, ptxpack_program **out)
{
    if (h == NULL)
        return PTXPACK_MISSING(NULL, "handle");
    if (out == NULL)
        return PTXPACK_MISSING(h, "out");
    *out = NULL;
    if (source == NULL)
        return PTXPACK_MISSING(h, "source");
    struct ptxpack_build b;
    struct request       q;
    if (h->driver == NULL)
        return ptxpack_fail(h, PTXPACK_E_ARG, "an offline handle can compile programs, not load them");
    ptxpack_program *p = (ptxpack_program *)calloc(1, sizeof *p);
    if (p == NULL)
        return ptxpack_fail(h, PTXPACK_E_MEMORY, "out of memory for a program");
    p->handle = h;
    pthread_mutex_init(&p->lock, NULL);
    ptxpack_status status = begin(&b, h, &q, source);
    q.program = p;
    if (status == PTXPACK_OK)
        status = ptxpack_build_load(&b);
    if (status == PTXPACK_OK)
        status = take_build(p, &b);
    if (status == PTXPACK_OK)
        *out = p;
    else
        ptxpack_program_free(p);
    end(&b);
    return status;
}

void ptxpack_program_free(ptxpack_program *p)
{
    bool pushed = false;
    if (p == NULL)
        return;
    bool ours = ptxpack_check_process(p->handle) == PTXPACK_OK; /* a forked child must leave the driver alone */
    if (ours && (p->image.library != NULL || p->image.module != NULL) &&
        ptxpack_enter(p->handle, &pushed) == PTXPACK_OK) {
        ptxpack_image_unload(p->handle->driver, &p->image);
        ptxpack_leave(p->handle, pushed);
    }
    ptxpack_functions_free(p);
    ptxpack_code_release(p->code);
    ptxpack_notes_free(&p->notes);
    for (size_t i = 0; i < p->expression_count; i++)
        free(p->expressions[i]);
    free(p->expressions);
    free(p->path);
    free(p->log);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

const ptxpack_program_info *ptxpack_program_describe(const ptxpack_program *program)
{
    if (program == NULL) {
        PTXPACK_MISSING(NULL, "program");
        return NULL;
    }
    return &program->info;
}
