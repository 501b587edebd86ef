/* assemble.c - the key of a PTX text's machine code, and compiling it by the route in use. */
#include "assemble.h"
#include <stdio.h>
#include <string.h>
#include "loader/compile/log.h"
#include "notes.h"

enum { SCHEMA = 1 }; /* of the key and of the notes: raise it when either changes its meaning */

static bool accept_one(const char *notes, size_t bytes)
{
    ptxpack_resources resources;
    return ptxpack_resources_read(notes, bytes, &resources);
}

static bool take_notes(const struct ptxpack_job *job, const char *log, struct ptxpack_code *code)
{
    ptxpack_resources    resources;
    struct ptxpack_notes notes = {.nvrtc = 0};
    if (job->entry == NULL) {
        bool taken = ptxpack_notes_add_entries(&notes, job->text, log) &&
                     ptxpack_notes_write(&notes, &code->notes, &code->notes_bytes);
        ptxpack_notes_free(&notes);
        return taken;
    }
    ptxpack_log_resources(log, job->entry, &resources);
    return ptxpack_resources_write(&resources, &code->notes, &code->notes_bytes);
}

static ptxpack_status make(struct ptxpack_request *q, struct ptxpack_code *code, char *detail, size_t cap)
{
    struct ptxpack_assembly *a = (struct ptxpack_assembly *)q;
    struct ptxpack_build     build = {.log = NULL};
    bool                     pushed = false;
    ptxpack_status           status = a->prepare != NULL ? a->prepare(a) : PTXPACK_OK;
    if (status == PTXPACK_OK && a->route == PTXPACK_ROUTE_LINK)
        status = ptxpack_enter(q->handle, &pushed);
    if (status != PTXPACK_OK) {
        snprintf(detail, cap, "%s", ptxpack_detail(q->handle));
        return status;
    }
    status = ptxpack_jit_compile(&q->handle->jit, a->route, &a->job, &build, detail, cap);
    ptxpack_leave(q->handle, pushed);
    if (status == PTXPACK_OK && !take_notes(&a->job, build.log, code)) {
        snprintf(detail, cap, "out of memory for the resources of %s", q->name);
        status = PTXPACK_E_MEMORY;
    }
    code->bytes = build.cubin;
    code->size = build.cubin_bytes;
    code->log = build.log;
    return status;
}

ptxpack_status ptxpack_assembly_begin(struct ptxpack_assembly *a)
{
    struct ptxpack_request    *q = &a->request;
    struct ptxpack_jit_options options;
    q->name = a->job.name;
    q->target = a->job.target;
    q->make = make;
    q->accept = a->job.entry != NULL ? accept_one : ptxpack_notes_good;
    ptxpack_jit_options(&a->job, &options);
    q->key = ptxpack_cache_key_create();
    ptxpack_cache_key_add_u64(q->key, "schema", SCHEMA);
    ptxpack_cache_key_add(q->key, "ptx", a->job.text, a->job.bytes);
    if (a->job.entry != NULL) /* notes are about it */
        ptxpack_cache_key_add_text(q->key, "entry", a->job.entry);
    ptxpack_cache_key_add_text(q->key, "target", a->job.target);
    for (int i = 0; i < options.count; i++)
        ptxpack_cache_key_add_text(q->key, "option", options.words[i]);
    return ptxpack_request_seal(q, ptxpack_jit_identify(&q->handle->jit, a->route, q->key));
}

void ptxpack_assembly_end(struct ptxpack_assembly *a) { ptxpack_cache_key_free(a->request.key); }
