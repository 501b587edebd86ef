/* program_build.c - from a program's source to machine code: expander or NVRTC, then the compile route. */
#include "program_build.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "loader/compile/log.h"
#include "loader/compile/ptx_text.h"

/* ---- PTX of the expander -------------------------------------------------------------------------- */

static ptxpack_status expand(struct ptxpack_program_build *b)
{
    const ptxpack_source  *s = &b->text.source;
    const ptxpack         *h = b->handle;
    ptxpack_expand_options options = {.size = sizeof options,
                                      .read = ptxpack_text_read,
                                      .locate = ptxpack_text_locate,
                                      .context = &b->text,
                                      .line_info = h->line_info};
    ptxpack_symbol        *all = (ptxpack_symbol *)calloc(s->symbol_count + 2, sizeof *all);
    if (all == NULL)
        return ptxpack_fail(h, PTXPACK_E_MEMORY, "out of memory for the symbols of %s", b->text.path);
    all[0] = (ptxpack_symbol){"ARCH", h->info.caps.arch};
    all[1] = (ptxpack_symbol){"ISA", h->info.caps.isa};
    if (s->symbol_count)
        memcpy(all + 2, s->symbols, s->symbol_count * sizeof *all);
    options.symbols = all;
    options.symbol_count = s->symbol_count + 2;
    ptxpack_status status = ptxpack_expand(b->text.path, &options, &b->expansion);
    free(all);
    if (status == PTXPACK_OK)
        return status;
    return ptxpack_fail(h, status, "%s",
                        b->expansion != NULL ? ptxpack_expansion_error(b->expansion)
                                             : ptxpack_status_string(status));
}

static ptxpack_status find_ptx(struct ptxpack_program_build *b)
{
    struct ptxpack_job *job = &b->assembly.job;
    if (b->expansion != NULL)
        return PTXPACK_OK;
    double         from = ptxpack_now_ms();
    ptxpack_status status = expand(b);
    b->front_ms = ptxpack_now_ms() - from;
    if (status != PTXPACK_OK)
        return status;
    job->text = ptxpack_expansion_text(b->expansion, &job->bytes);
    job->origin = ptxpack_log_expanded_from;
    job->origin_of = b->expansion;
    return status;
}

/* ---- PTX or machine code of NVRTC ----------------------------------------------------------------- */

static bool add_log(struct ptxpack_program_build *b, const char *log)
{
    char *both = NULL;
    if (log == NULL || !*log)
        return true;
    if (asprintf(&both, "%s%s", b->log != NULL ? b->log : "", log) < 0)
        return false;
    free(b->log);
    b->log = both;
    return true;
}

/* What a request gives, and its log. */
static ptxpack_status obtain(struct ptxpack_program_build *b, struct ptxpack_request *q,
                             const struct ptxpack_code **code)
{
    ptxpack_status status = ptxpack_request_obtain(q, code);
    if (*code != NULL && !add_log(b, (*code)->log) && status == PTXPACK_OK)
        status = ptxpack_fail(b->handle, PTXPACK_E_MEMORY, "out of memory for the log of %s", q->name);
    if (status == PTXPACK_OK && !ptxpack_notes_read((*code)->notes, (*code)->notes_bytes, &b->notes))
        status = ptxpack_fail(b->handle, PTXPACK_E_MEMORY, "out of memory for the entries of %s", q->name);
    if (status == PTXPACK_OK)
        return status;
    ptxpack_code_release(*code);
    *code = NULL;
    return status;
}

/* b->made.  Asked for again, it is there. */
static ptxpack_status run_nvrtc(struct ptxpack_program_build *b)
{
    if (b->made != NULL)
        return PTXPACK_OK;
    double         from = ptxpack_now_ms();
    ptxpack_status status = b->cuda.request.key != NULL ? PTXPACK_OK
                                                        : ptxpack_cuda_begin(&b->cuda, &b->text, b->wants_ptx);
    if (status == PTXPACK_OK)
        status = obtain(b, &b->cuda.request, &b->made);
    b->front_ms += ptxpack_now_ms() - from;
    if (status == PTXPACK_OK && b->notes.is_ptx) {
        b->assembly.job.text = (const char *)b->made->bytes;
        b->assembly.job.bytes = b->made->size;
        b->assembly.job.origin = ptxpack_ptx_origin;
        b->assembly.job.origin_of = b->made->bytes;
    }
    return status;
}

/* ---- the target ----------------------------------------------------------------------------------- */

/* The handle's, but for a text that is made for exactly one architecture, or a family. */
static ptxpack_status choose_target(struct ptxpack_program_build *b)
{
    const ptxpack *h = b->handle;
    const char    *ours = h->info.target;
    char           named[16];
    if (!ptxpack_ptx_target(b->assembly.job.text, named, sizeof named))
        named[0] = '\0'; /* the compiler will say what it thinks of that */
    int  have = ptxpack_parse_arch(ours), needs = ptxpack_parse_arch(named);
    char suffix = needs < 0 ? '\0' : named[strlen(named) - 1];
    bool exact = suffix == 'a', family = suffix == 'f';
    bool plain = h->driver == NULL && !h->stand_in && strchr("0123456789", ours[strlen(ours) - 1]) != NULL;
    bool fits = exact ? have == needs : family ? have / 10 == needs / 10 && have >= needs : have >= needs;
    if (!fits || ((exact || family) && plain))
        return ptxpack_fail(h, PTXPACK_E_UNSUPPORTED, "%s needs %s%s, the target is %s", b->text.path,
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

/* ---- machine code --------------------------------------------------------------------------------- */

static bool is_cuda(const struct ptxpack_program_build *b)
{
    return b->text.source.language == PTXPACK_LANGUAGE_CUDA;
}

static ptxpack_status no_entry(const struct ptxpack_program_build *b)
{
    return ptxpack_fail(b->handle, PTXPACK_E_COMPILE, "%s has no entry%s", b->text.path,
                        is_cuda(b) ? ": no __global__ function; a template wants a name expression" : "");
}

/* The PTX is there: make machine code of it, unless the driver is to compile. */
static ptxpack_status assemble(struct ptxpack_program_build *b, bool driver)
{
    struct ptxpack_assembly *a = &b->assembly;
    struct ptxpack_notes     entries = {.nvrtc = 0};
    if (a->request.key == NULL) {
        ptxpack_status status = choose_target(b);
        a->job.isa = ptxpack_ptx_isa(a->job.text);
        if (status == PTXPACK_OK)
            status = ptxpack_assembly_begin(a);
        if (status != PTXPACK_OK)
            return status;
    }
    if (driver && a->route == PTXPACK_ROUTE_DRIVER) {
        if (b->handle->forbid_compile)
            return ptxpack_request_forbidden(&a->request);
        return ptxpack_notes_add_entries(&b->notes, a->job.text, NULL)
                   ? PTXPACK_OK
                   : ptxpack_fail(b->handle, PTXPACK_E_MEMORY, "out of memory for the entries of %s",
                                  b->text.path);
    }
    struct ptxpack_notes front = b->notes; /* of NVRTC: the names are there */
    b->notes = entries;
    ptxpack_status status = obtain(b, &a->request, &b->code);
    free(b->notes.names);
    b->notes.names = front.names;
    b->notes.name_count = front.name_count;
    b->notes.nvrtc = front.nvrtc;
    front.names = NULL;
    front.name_count = 0;
    ptxpack_notes_free(&front);
    return status;
}

ptxpack_status ptxpack_build_code(struct ptxpack_program_build *b, bool driver)
{
    ptxpack_status status = is_cuda(b) ? run_nvrtc(b) : find_ptx(b);
    if (status != PTXPACK_OK)
        return status;
    if (b->made != NULL && b->assembly.job.text == NULL) { /* by NVRTC alone */
        snprintf(b->target, sizeof b->target, "%s", b->cuda.request.target);
        b->code = b->made;
    } else {
        status = assemble(b, driver);
    }
    return status == PTXPACK_OK && !b->notes.entry_count ? no_entry(b) : status;
}

ptxpack_status ptxpack_build_ptx(struct ptxpack_program_build *b, const char **ptx, size_t *bytes)
{
    b->wants_ptx = true;
    ptxpack_status status = is_cuda(b) ? run_nvrtc(b) : find_ptx(b);
    *ptx = b->assembly.job.text;
    *bytes = b->assembly.job.bytes;
    return status;
}

/* What the driver refuses of NVRTC when it has just been made is refused for good: PTX then, in its place
 * also in the cache. */
static bool refuse_nvrtc(struct ptxpack_program_build *b)
{
    struct ptxpack_request *q = &b->cuda.request;
    bool                    fresh = !b->code->from_cache;
    ptxpack_request_refuse(q, b->code);
    if (fresh || !q->again) {
        q->source = PTXPACK_COMPILER;
        b->cuda.wants_ptx = true;
    }
    ptxpack_code_release(b->code);
    ptxpack_notes_free(&b->notes);
    b->code = b->made = NULL;
    return true;
}

bool ptxpack_build_refuse(struct ptxpack_program_build *b)
{
    struct ptxpack_request *q = &b->assembly.request;
    if (b->code == b->made)
        return refuse_nvrtc(b);
    ptxpack_request_refuse(q, b->code);
    ptxpack_code_release(b->code);
    b->code = NULL;
    return q->again;
}

/* ---- begin, describe, end ------------------------------------------------------------------------- */

ptxpack_status ptxpack_build_begin(struct ptxpack_program_build *b, ptxpack *h, const ptxpack_source *source)
{
    memset(b, 0, sizeof *b);
    b->handle = h;
    ptxpack_status status = ptxpack_check_process(h);
    if (status == PTXPACK_OK)
        status = ptxpack_text_begin(&b->text, h, source);
    b->assembly.request.handle = h;
    b->assembly.route = ptxpack_jit_route(&h->jit, true);
    b->assembly.job = (struct ptxpack_job){.name = b->text.path,
                                           .target = b->target,
                                           .line_info = h->line_info};
    return status;
}

void ptxpack_build_describe(const struct ptxpack_program_build *b, ptxpack_program_info *info)
{
    const struct ptxpack_code *code = b->code;
    char                       route[128] = "", nvrtc[32] = "";
    memset(info, 0, sizeof *info);
    snprintf(info->target, sizeof info->target, "%.15s", b->target);
    if (b->notes.nvrtc) /* which may not tell its version */
        snprintf(nvrtc, sizeof nvrtc, b->notes.nvrtc < 1000 ? "NVRTC" : "NVRTC %d.%d", b->notes.nvrtc / 1000,
                 b->notes.nvrtc % 1000 / 10);
    if (code != b->made || code == NULL)
        ptxpack_jit_name(&b->handle->jit, b->assembly.route, route, sizeof route);
    snprintf(info->compiler, sizeof info->compiler, "%s%s%.60s", nvrtc, *nvrtc && *route ? ", " : "", route);
    info->front_ms = b->front_ms;
    info->log = b->log != NULL ? b->log : "";
    if (code == NULL)
        return;
    info->from_cache = code->from_cache && (b->made == NULL || b->made->from_cache);
    info->compile_ms = code->from_cache || code == b->made ? 0 : code->compile_ms;
    info->cache_ms = code->cache_ms;
    info->cubin_bytes = code->size;
}

void ptxpack_build_end(struct ptxpack_program_build *b)
{
    if (b->code != b->made)
        ptxpack_code_release(b->code);
    ptxpack_code_release(b->made);
    ptxpack_notes_free(&b->notes);
    ptxpack_assembly_end(&b->assembly);
    ptxpack_cuda_end(&b->cuda);
    ptxpack_expansion_free(b->expansion);
    ptxpack_text_end(&b->text);
    free(b->log);
}

void ptxpack_build_jit_log(struct ptxpack_program_build *b, const char *log)
{
    add_log(b, log); /* without memory there is no log */
    for (size_t i = 0; i < b->notes.entry_count; i++)
        if (ptxpack_log_knows(log, b->notes.entries[i].name))
            ptxpack_log_resources(log, b->notes.entries[i].name, &b->notes.entries[i].resources);
}
