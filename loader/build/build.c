/* build.c - the path of every build: find the text, make the key, look in the cache, compile, load. */
#include "build.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "loader/compile/log.h"

enum { SCHEMA = 1 }; /* the version of the key and of the notes: raise it when the meaning of either changes */

/* ---- the step from PTX to machine code ------------------------------------------------------------ */

static bool accept_one(const char *notes, size_t bytes)
{
    ptxpack_resources resources;
    return ptxpack_resources_read(notes, bytes, &resources);
}

static bool write_notes(const struct ptxpack_job *job, const char *log, struct ptxpack_code *code)
{
    ptxpack_resources    resources;
    struct ptxpack_notes notes = {.nvrtc = 0};
    if (job->entry == NULL) {
        bool written = ptxpack_notes_add_entries(&notes, job->text, log) &&
                       ptxpack_notes_write(&notes, &code->notes, &code->notes_bytes);
        ptxpack_notes_free(&notes);
        return written;
    }
    ptxpack_log_resources(log, job->entry, &resources);
    return ptxpack_resources_write(&resources, &code->notes, &code->notes_bytes);
}

/* A ptxpack_code_maker. */
static ptxpack_status compile(void *context, struct ptxpack_code *code, char *detail, size_t cap)
{
    struct ptxpack_build   *b = (struct ptxpack_build *)context;
    struct ptxpack_compiled compiled = {.log = NULL};
    bool                    pushed = false;
    ptxpack_status          status = b->kind->locate != NULL ? b->kind->locate(b) : PTXPACK_OK;
    if (status == PTXPACK_OK && b->route == PTXPACK_ROUTE_LINK)
        status = ptxpack_enter(b->handle, &pushed);
    if (status != PTXPACK_OK) {
        snprintf(detail, cap, "%s", ptxpack_detail(b->handle));
        return status;
    }
    status = ptxpack_jit_compile(&b->handle->jit, b->route, &b->job, &compiled, detail, cap);
    ptxpack_leave(b->handle, pushed);
    if (status == PTXPACK_OK && !write_notes(&b->job, compiled.log, code)) {
        snprintf(detail, cap, "out of memory for the resources of %s", b->job.name);
        status = PTXPACK_E_MEMORY;
    }
    code->bytes = compiled.cubin;
    code->size = compiled.cubin_bytes;
    code->log = compiled.log;
    return status;
}

static ptxpack_status make_key(struct ptxpack_build *b)
{
    struct ptxpack_jit_options options;
    ptxpack_cache_key         *key = b->step.key = ptxpack_cache_key_create();
    b->step.name = b->job.name;
    b->step.target = b->target;
    b->step.accept = b->job.entry != NULL ? accept_one : ptxpack_notes_good;
    ptxpack_jit_options(&b->job, &options);
    ptxpack_cache_key_add_u64(key, "schema", SCHEMA);
    ptxpack_cache_key_add(key, "ptx", b->job.text, b->job.bytes);
    if (b->job.entry != NULL) /* the notes are its resources */
        ptxpack_cache_key_add_text(key, "entry", b->job.entry);
    ptxpack_cache_key_add_text(key, "target", b->target);
    for (int i = 0; i < options.count; i++)
        ptxpack_cache_key_add_text(key, "option", options.words[i]);
    return ptxpack_step_seal(&b->step, ptxpack_jit_identify(&b->handle->jit, b->route, key));
}

/* ---- machine code --------------------------------------------------------------------------------- */

bool ptxpack_build_add_log(struct ptxpack_build *b, const char *log)
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

ptxpack_status ptxpack_build_run(struct ptxpack_build *b, struct ptxpack_step *step,
                                 const struct ptxpack_code **code)
{
    ptxpack_status status = ptxpack_step_obtain(step, code);
    if (*code != NULL && !ptxpack_build_add_log(b, (*code)->log) && status == PTXPACK_OK)
        status = ptxpack_fail(b->handle, PTXPACK_E_MEMORY, "out of memory for the log of %s", step->name);
    if (status == PTXPACK_OK && b->job.entry == NULL &&
        !ptxpack_notes_merge(&b->notes, (*code)->notes, (*code)->notes_bytes))
        status = ptxpack_fail(b->handle, PTXPACK_E_MEMORY, "out of memory for the entries of %s", step->name);
    if (status == PTXPACK_OK)
        return status;
    ptxpack_code_release(*code);
    *code = NULL;
    return status;
}

static ptxpack_status forbidden(const struct ptxpack_build *b)
{
    return b->kind->forbidden != NULL ? b->kind->forbidden(b) : ptxpack_step_forbidden(&b->step);
}

/* The driver will load the PTX itself: here only its entries are found. */
static ptxpack_status leave_to_driver(struct ptxpack_build *b)
{
    if (b->handle->forbid_compile)
        return forbidden(b);
    if (b->job.entry != NULL || ptxpack_notes_add_entries(&b->notes, b->job.text, NULL))
        return PTXPACK_OK;
    return ptxpack_fail(b->handle, PTXPACK_E_MEMORY, "out of memory for the entries of %s", b->job.name);
}

static ptxpack_status make_code(struct ptxpack_build *b, bool driver)
{
    ptxpack_status status = b->kind->find(b);
    if (status == PTXPACK_OK && b->code == NULL && b->step.key == NULL)
        status = make_key(b);
    if (status != PTXPACK_OK || b->code != NULL || (b->kind->is_loaded != NULL && b->kind->is_loaded(b)))
        return status;
    if (driver && b->route == PTXPACK_ROUTE_DRIVER)
        return leave_to_driver(b);
    status = ptxpack_build_run(b, &b->step, &b->code);
    return status == PTXPACK_E_FORBIDDEN ? forbidden(b) : status;
}

ptxpack_status ptxpack_build_code(struct ptxpack_build *b, bool driver)
{
    ptxpack_status status = make_code(b, driver);
    if (status != PTXPACK_OK || b->job.entry != NULL || b->notes.entry_count)
        return status;
    return ptxpack_fail(b->handle, PTXPACK_E_COMPILE, "%s has no entry%s", b->job.name,
                        b->notes.nvrtc ? ": no __global__ function; a template wants a name expression" : "");
}

/* The driver has refused b->code: never use it again.  True: other code can be found or made. */
static bool refuse(struct ptxpack_build *b)
{
    const struct ptxpack_code *code = b->code;
    b->code = NULL;
    if (code == b->front)
        return b->kind->refuse(b);
    bool again = ptxpack_step_refuse(&b->step, code);
    ptxpack_code_release(code);
    return again;
}

ptxpack_status ptxpack_build_load(struct ptxpack_build *b)
{
    ptxpack_status status;
    do {
        status = ptxpack_build_code(b, true);
        if (status == PTXPACK_OK)
            status = b->kind->load(b);
    } while (status == PTXPACK_E_CUBIN && b->code != NULL && refuse(b));
    return status;
}

/* ---- begin and end -------------------------------------------------------------------------------- */

void ptxpack_build_begin(struct ptxpack_build *b, ptxpack *h, const struct ptxpack_build_kind *kind,
                         void *context, bool whole_program)
{
    memset(b, 0, sizeof *b);
    b->handle = h;
    b->kind = kind;
    b->context = context;
    b->route = ptxpack_jit_route(&h->jit, whole_program);
    b->job.target = b->target;
    b->job.line_info = h->line_info;
    b->step.handle = h;
    b->step.make = compile;
    b->step.context = b;
}

void ptxpack_build_end(struct ptxpack_build *b)
{
    if (b->code != b->front)
        ptxpack_code_release(b->code);
    ptxpack_code_release(b->front);
    ptxpack_cache_key_free(b->step.key);
    ptxpack_expansion_free(b->expansion);
    ptxpack_notes_free(&b->notes);
    free(b->log);
}

void ptxpack_build_take_expansion(struct ptxpack_build *b)
{
    if (b->job.text == NULL)
        b->job.text = ptxpack_expansion_text(b->expansion, &b->job.bytes);
    b->job.origin = ptxpack_log_expanded_from;
    b->job.origin_of = b->expansion;
}

const struct ptxpack_code *ptxpack_build_take_code(struct ptxpack_build *b)
{
    const struct ptxpack_code *code = b->code;
    if (b->front == code)
        b->front = NULL;
    b->code = NULL;
    return code;
}

ptxpack_status ptxpack_build_copy(const struct ptxpack_build *b, ptxpack_status status, void **bytes,
                                  size_t *size)
{
    void *copy = status == PTXPACK_OK && bytes != NULL ? malloc(b->code->size) : NULL;
    if (copy != NULL)
        memcpy(copy, b->code->bytes, b->code->size);
    else if (status == PTXPACK_OK && bytes != NULL)
        status = ptxpack_fail(b->handle, PTXPACK_E_MEMORY, "out of memory for the machine code of %s",
                              b->job.name);
    if (bytes != NULL)
        *bytes = copy;
    if (size != NULL)
        *size = status == PTXPACK_OK ? b->code->size : 0;
    return status;
}
