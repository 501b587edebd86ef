/* function.c - the entries of a program: found by name, described, launched. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "code.h"
#include "function.h"
#include "loader/missing.h"

struct ptxpack_function {
    const ptxpack_program *program;
    struct CUfunc_st      *function;
    ptxpack_function_info  info;
    ptxpack_function      *next;
};

/* ---- finding -------------------------------------------------------------------------------------- */

static const struct ptxpack_entry *entry_named(const ptxpack_program *p, const char *name)
{
    for (size_t i = 0; i < p->expression_count && i < p->notes.name_count; i++)
        if (strcmp(p->expressions[i], name) == 0)
            name = p->notes.names[i];
    for (size_t i = 0; i < p->notes.entry_count; i++)
        if (strcmp(p->notes.entries[i].name, name) == 0)
            return &p->notes.entries[i];
    return NULL;
}

/* The name expression that gave this entry, or the entry's own name. */
static const char *spelling(const ptxpack_program *p, const char *entry)
{
    for (size_t i = 0; i < p->expression_count && i < p->notes.name_count; i++)
        if (strcmp(p->notes.names[i], entry) == 0)
            return p->expressions[i];
    return entry;
}

static ptxpack_status no_entry(const ptxpack_program *p, const char *name)
{
    char   list[700] = "";
    size_t have = 0;
    for (size_t i = 0; i < p->notes.entry_count && have < sizeof list; i++)
        have += (size_t)snprintf(list + have, sizeof list - have, "%s%s", i ? ", " : "",
                                 spelling(p, p->notes.entries[i].name));
    if (name != NULL)
        return ptxpack_fail(p->handle, PTXPACK_E_ARG, "%s has no entry \"%.100s\"; it has %s", p->path, name,
                            list);
    return ptxpack_fail(p->handle, PTXPACK_E_ARG, "%s has %zu entries: name one of %s", p->path,
                        p->notes.entry_count, list);
}

/* Allow as much dynamic shared memory as the device has, so that no launch has to raise the limit. */
static void allow_shared(const struct ptxpack_driver *d, int device, const ptxpack_function *f)
{
    int limit = 0;
    if (d->cuDeviceGetAttribute(&limit, PTXPACK_CU_DEVICE_SHARED_PER_BLOCK_OPTIN, device) ==
            PTXPACK_CU_SUCCESS &&
        limit > f->info.shared_bytes)
        d->cuFuncSetAttribute(f->function, PTXPACK_CU_FUNC_MAX_DYNAMIC_SHARED, limit - f->info.shared_bytes);
}

static ptxpack_cu_result read_attributes(const struct ptxpack_driver *d, ptxpack_function *f)
{
    ptxpack_function_info *i = &f->info;
    const struct {
        unsigned int attribute;
        int         *value;
    } wanted[] = {
        {PTXPACK_CU_FUNC_NUM_REGS, &i->registers},
        {PTXPACK_CU_FUNC_SHARED_SIZE, &i->shared_bytes},
        {PTXPACK_CU_FUNC_LOCAL_SIZE, &i->local_bytes},
        {PTXPACK_CU_FUNC_CONST_SIZE, &i->constant_bytes},
        {PTXPACK_CU_FUNC_MAX_THREADS_PER_BLOCK, &i->max_threads},
    };
    for (size_t n = 0; n < sizeof wanted / sizeof wanted[0]; n++) {
        ptxpack_cu_result r = d->cuFuncGetAttribute(wanted[n].value, wanted[n].attribute, f->function);
        if (r != PTXPACK_CU_SUCCESS)
            return r;
    }
    return PTXPACK_CU_SUCCESS;
}

/* The caller holds the program's lock and has made its context current. */
static ptxpack_status find_new(ptxpack_program *p, const struct ptxpack_entry *e, ptxpack_function **out)
{
    const struct ptxpack_driver *d = p->handle->driver;
    char                         what[300];
    ptxpack_function            *f = (ptxpack_function *)calloc(1, sizeof *f);
    if (f == NULL)
        return ptxpack_fail(p->handle, PTXPACK_E_MEMORY, "out of memory for the function %s", e->name);
    f->program = p;
    f->info.name = e->name;
    f->info.resources = e->resources;
    ptxpack_cu_result r = ptxpack_image_function(d, &p->image, e->name, &f->function);
    if (r == PTXPACK_CU_SUCCESS)
        r = read_attributes(d, f);
    if (r != PTXPACK_CU_SUCCESS) {
        free(f);
        snprintf(what, sizeof what, "finding %.200s in the machine code", e->name);
        return ptxpack_fail_driver(p->handle, r, what);
    }
    ptxpack_image_resources(d, f->function, &f->info.resources);
    allow_shared(d, p->handle->device, f);
    f->next = p->functions;
    p->functions = f;
    *out = f;
    return PTXPACK_OK;
}

ptxpack_status ptxpack_program_function(ptxpack_program *p, const char *name, const ptxpack_function **out)
{
    if (p == NULL)
        return PTXPACK_MISSING(NULL, "program");
    if (out == NULL)
        return PTXPACK_MISSING(p->handle, "out");
    bool pushed = false;
    *out = NULL;
    ptxpack_status status = ptxpack_check_process(p->handle);
    if (status != PTXPACK_OK)
        return status;
    const struct ptxpack_entry *e = name != NULL                ? entry_named(p, name)
                                    : p->notes.entry_count == 1 ? &p->notes.entries[0]
                                                                : NULL;
    if (e == NULL)
        return no_entry(p, name);
    pthread_mutex_lock(&p->lock);
    ptxpack_function *f = p->functions;
    while (f != NULL && f->info.name != e->name)
        f = f->next;
    if (f == NULL && (status = ptxpack_enter(p->handle, &pushed)) == PTXPACK_OK) {
        status = find_new(p, e, &f);
        ptxpack_leave(p->handle, pushed);
    }
    pthread_mutex_unlock(&p->lock);
    *out = f;
    return status;
}

void ptxpack_functions_free(ptxpack_program *p)
{
    while (p->functions != NULL) {
        ptxpack_function *f = p->functions;
        p->functions = f->next;
        free(f);
    }
}

const ptxpack_function_info *ptxpack_function_describe(const ptxpack_function *function)
{
    if (function == NULL) {
        PTXPACK_MISSING(NULL, "function");
        return NULL;
    }
    return &function->info;
}
void *ptxpack_function_handle(const ptxpack_function *function)
{
    if (function == NULL) {
        PTXPACK_MISSING(NULL, "function");
        return NULL;
    }
    return function->function;
}

/* ---- launching ------------------------------------------------------------------------------------ */

static ptxpack_status refused(const ptxpack_function *f, const uint32_t grid[3], const uint32_t block[3],
                              size_t shared_bytes, const char *why)
{
    return ptxpack_fail(
        f->program->handle, PTXPACK_E_LAUNCH,
        "cuLaunchKernel of %s, grid %u x %u x %u, block %u x %u x %u, %zu bytes of dynamic shared memory: %s",
        f->info.name, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared_bytes, why);
}

ptxpack_status ptxpack_function_launch(const ptxpack_function *f, const uint32_t grid[3],
                                       const uint32_t block[3], size_t shared_bytes, void *const *arguments,
                                       struct CUstream_st *stream)
{
    if (f == NULL)
        return PTXPACK_MISSING(NULL, "function");
    if (grid == NULL)
        return PTXPACK_MISSING(f->program->handle, "grid");
    if (block == NULL)
        return PTXPACK_MISSING(f->program->handle, "block");
    const ptxpack *h = f->program->handle;
    char           text[512];
    bool           pushed = false;
    for (int i = 0; i < 3; i++)
        if (!grid[i] || !block[i])
            return ptxpack_fail(h, PTXPACK_E_ARG, "launch of %s: %s[%d] is 0", f->info.name,
                                grid[i] ? "block" : "grid", i);
    if (shared_bytes > INT32_MAX)
        return refused(f, grid, block, shared_bytes, "no device has so much");
    ptxpack_status status = ptxpack_check_process(h);
    if (status == PTXPACK_OK)
        status = ptxpack_enter(h, &pushed);
    if (status != PTXPACK_OK)
        return status;
    ptxpack_cu_result r = h->driver->cuLaunchKernel(f->function, grid[0], grid[1], grid[2], block[0], block[1],
                                                    block[2], (unsigned int)shared_bytes, stream,
                                                    (void **)(uintptr_t)arguments, NULL);
    ptxpack_leave(h, pushed);
    if (r == PTXPACK_CU_SUCCESS)
        return PTXPACK_OK;
    return refused(f, grid, block, shared_bytes, ptxpack_driver_error(h->driver, r, text, sizeof text));
}
