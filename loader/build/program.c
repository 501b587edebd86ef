/* program.c - a caller's own program: built, loaded, described. */
#include "program_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "loader/compile/log.h"

/* ---- without loading ------------------------------------------------------------------------------ */

ptxpack_status ptxpack_program_compile(ptxpack *h, const ptxpack_source *source, ptxpack_program_info *info,
                                       char **log_text, void **cubin, size_t *bytes)
{
    struct ptxpack_program_build b;
    ptxpack_status               status = ptxpack_build_begin(&b, h, source);
    if (status == PTXPACK_OK)
        status = ptxpack_build_code(&b, false);
    if (info != NULL && status == PTXPACK_OK)
        ptxpack_build_describe(&b, info);
    else if (info != NULL)
        memset(info, 0, sizeof *info);
    if (info != NULL && log_text == NULL)
        info->log = "";
    status = ptxpack_code_copy(h, status, b.text.path != NULL ? b.text.path : "the program", b.code, cubin,
                               bytes);
    if (log_text != NULL) {
        *log_text = b.log != NULL ? b.log : strdup("");
        b.log = NULL; /* the caller's */
        if (info != NULL)
            info->log = *log_text != NULL ? *log_text : "";
    }
    ptxpack_build_end(&b);
    return status;
}

ptxpack_status ptxpack_program_ptx(ptxpack *h, const ptxpack_source *source, char **text, size_t *bytes)
{
    struct ptxpack_program_build b;
    const char                  *ptx = NULL;
    size_t                       ptx_bytes = 0;
    *text = NULL;
    if (bytes != NULL)
        *bytes = 0;
    ptxpack_status status = ptxpack_build_begin(&b, h, source);
    if (status == PTXPACK_OK)
        status = ptxpack_build_ptx(&b, &ptx, &ptx_bytes);
    if (status == PTXPACK_OK && (*text = (char *)calloc(1, ptx_bytes + 1)) == NULL)
        status = ptxpack_fail(h, PTXPACK_E_MEMORY, "out of memory for the PTX of %s", b.text.path);
    if (status == PTXPACK_OK) {
        memcpy(*text, ptx, ptx_bytes);
        if (bytes != NULL)
            *bytes = ptx_bytes;
    }
    ptxpack_build_end(&b);
    return status;
}

/* ---- loading -------------------------------------------------------------------------------------- */

/* The driver loads b->code, or the PTX. */
static ptxpack_status load_image(struct ptxpack_program *p, struct ptxpack_program_build *b)
{
    ptxpack          *h = p->handle;
    struct CUfunc_st *first = NULL;
    bool              pushed = false;
    char             *log = NULL;
    double            from = ptxpack_now_ms();
    ptxpack_status    status = ptxpack_enter(h, &pushed);
    if (status == PTXPACK_OK)
        status = ptxpack_image_load(h, &b->assembly.job, b->code != NULL ? b->code->bytes : NULL,
                                    b->notes.entries[0].name, &p->image, &first, &log);
    ptxpack_leave(h, pushed);
    p->info.load_ms = ptxpack_now_ms() - from;
    if (status == PTXPACK_OK && b->code == NULL)
        ptxpack_request_report(&b->assembly.request, p->info.load_ms);
    if (log != NULL)
        ptxpack_build_jit_log(b, log);
    free(log);
    return status;
}

/* What the program keeps of its build; with the image loaded. */
static ptxpack_status take_build(struct ptxpack_program *p, struct ptxpack_program_build *b)
{
    const ptxpack_source *s = &b->text.source;
    double                load_ms = p->info.load_ms;
    ptxpack_build_describe(b, &p->info);
    p->info.load_ms = load_ms;
    p->log = b->log;
    b->log = NULL;
    p->notes = b->notes;
    memset(&b->notes, 0, sizeof b->notes);
    p->path = strdup(b->text.path);
    p->expressions = (char **)calloc(s->expression_count + 1, sizeof *p->expressions);
    bool good = p->path != NULL && p->expressions != NULL;
    for (; good && p->expression_count < s->expression_count; p->expression_count += good)
        good = (p->expressions[p->expression_count] = strdup(s->expressions[p->expression_count])) != NULL;
    if (!good)
        return ptxpack_fail(p->handle, PTXPACK_E_MEMORY, "out of memory for %s", b->text.path);
    if (b->code == b->made) /* the program's hold now */
        b->made = NULL;
    p->code = b->code;
    b->code = NULL;
    return PTXPACK_OK;
}

static ptxpack_status load(struct ptxpack_program *p, struct ptxpack_program_build *b)
{
    ptxpack_status status;
    do {
        status = ptxpack_build_code(b, true); /* there is an entry then */
        if (status == PTXPACK_OK)
            status = load_image(p, b);
    } while (status == PTXPACK_E_CUBIN && b->code != NULL && ptxpack_build_refuse(b));
    return status == PTXPACK_OK ? take_build(p, b) : status;
}

ptxpack_status ptxpack_program_load(ptxpack *h, const ptxpack_source *source, ptxpack_program **out)
{
    struct ptxpack_program_build b;
    *out = NULL;
    if (h->driver == NULL)
        return ptxpack_fail(h, PTXPACK_E_ARG, "an offline handle can compile programs, not load them");
    ptxpack_program *p = (ptxpack_program *)calloc(1, sizeof *p);
    if (p == NULL)
        return ptxpack_fail(h, PTXPACK_E_MEMORY, "out of memory for a program");
    p->handle = h;
    pthread_mutex_init(&p->lock, NULL);
    ptxpack_status status = ptxpack_build_begin(&b, h, source);
    if (status == PTXPACK_OK)
        status = load(p, &b);
    if (status == PTXPACK_OK)
        *out = p;
    else
        ptxpack_program_free(p);
    ptxpack_build_end(&b);
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

const ptxpack_program_info *ptxpack_program_describe(const ptxpack_program *program) { return &program->info; }
