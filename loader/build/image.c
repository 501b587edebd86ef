/* image.c - loading machine code or PTX through the driver. */
#include "image.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "loader/compile/log.h"

enum { JIT_LOG = 256 << 10 }; /* bytes of each of the two logs of the driver's JIT */

/* The options that make the driver's JIT write its logs; none for machine code. */
struct jit_logs {
    char        *info, *errors;
    unsigned int names[6];
    void        *values[6];
    unsigned int count;
};

static bool open_logs(struct jit_logs *logs, bool line_info)
{
    const struct {
        unsigned int name;
        uintptr_t    value;
    } options[] = {
        {PTXPACK_CU_JIT_INFO_LOG_BUFFER, (uintptr_t)(logs->info = (char *)calloc(1, JIT_LOG))},
        {PTXPACK_CU_JIT_INFO_LOG_BUFFER_SIZE, JIT_LOG},
        {PTXPACK_CU_JIT_ERROR_LOG_BUFFER, (uintptr_t)(logs->errors = (char *)calloc(1, JIT_LOG))},
        {PTXPACK_CU_JIT_ERROR_LOG_BUFFER_SIZE, JIT_LOG},
        {PTXPACK_CU_JIT_LOG_VERBOSE, 1},
        {PTXPACK_CU_JIT_GENERATE_LINE_INFO, line_info},
    };
    for (logs->count = 0; logs->count < sizeof options / sizeof options[0]; logs->count++) {
        logs->names[logs->count] = options[logs->count].name;
        logs->values[logs->count] = (void *)options[logs->count].value;
    }
    return logs->info != NULL && logs->errors != NULL;
}

static ptxpack_cu_result load(const struct ptxpack_driver *d, const void *image, struct jit_logs *logs,
                              struct ptxpack_image *out)
{
    unsigned int *names = logs->count ? logs->names : NULL;
    void        **values = logs->count ? logs->values : NULL;
    bool          libraries = d->cuLibraryLoadData != NULL && d->cuLibraryGetKernel != NULL &&
                     d->cuKernelGetFunction != NULL && d->cuLibraryUnload != NULL;
    return libraries ? d->cuLibraryLoadData(&out->library, image, names, values, logs->count, NULL, NULL, 0)
                     : d->cuModuleLoadDataEx(&out->module, image, logs->count, names, values);
}

ptxpack_cu_result ptxpack_image_function(const struct ptxpack_driver *d, const struct ptxpack_image *image,
                                         const char *entry, struct CUfunc_st **function)
{
    struct CUkern_st *kernel = NULL;
    if (image->library == NULL)
        return d->cuModuleGetFunction(function, image->module, entry);
    ptxpack_cu_result r = d->cuLibraryGetKernel(&kernel, image->library, entry);
    return r == PTXPACK_CU_SUCCESS ? d->cuKernelGetFunction(function, kernel) : r;
}

void ptxpack_image_resources(const struct ptxpack_driver *d, struct CUfunc_st *function,
                             ptxpack_resources *resources)
{
    if (resources->registers > 0)
        return;
    d->cuFuncGetAttribute(&resources->registers, PTXPACK_CU_FUNC_NUM_REGS, function);
    d->cuFuncGetAttribute(&resources->shared_bytes, PTXPACK_CU_FUNC_SHARED_SIZE, function);
    d->cuFuncGetAttribute(&resources->stack_bytes, PTXPACK_CU_FUNC_LOCAL_SIZE, function);
}

ptxpack_status ptxpack_image_refused(const ptxpack *h, const struct ptxpack_job *job, ptxpack_cu_result r)
{
    char what[256];
    snprintf(what, sizeof what, "loading %s for %s", job->name, job->target);
    return ptxpack_fail_driver(h, r, what);
}

static ptxpack_status explain(const ptxpack *h, const struct ptxpack_job *job, ptxpack_cu_result r,
                              const struct jit_logs *logs)
{
    char           error[512], line[PTXPACK_DETAIL_BYTES];
    ptxpack_status status = ptxpack_driver_status(r);
    ptxpack_driver_error(h->driver, r, error, sizeof error);
    if (logs->count && (status == PTXPACK_E_COMPILE || status == PTXPACK_E_ISA)) {
        ptxpack_jit_explain(job, status, error, *logs->errors ? logs->errors : NULL,
                            ptxpack_isa_of_cuda(h->driver->version), line, sizeof line);
        return ptxpack_fail(h, status, "%s", line);
    }
    return ptxpack_image_refused(h, job, r);
}

ptxpack_status ptxpack_image_load(const ptxpack *h, const struct ptxpack_job *job, const void *cubin,
                                  const char *entry, struct ptxpack_image *out, struct CUfunc_st **function,
                                  char **log)
{
    struct jit_logs logs;
    ptxpack_status  status = PTXPACK_OK;
    memset(&logs, 0, sizeof logs);
    memset(out, 0, sizeof *out);
    if (cubin == NULL && !open_logs(&logs, job->line_info)) {
        status = ptxpack_fail(h, PTXPACK_E_MEMORY, "out of memory for the log of %s", job->name);
    } else {
        ptxpack_cu_result r = load(h->driver, cubin != NULL ? cubin : job->text, &logs, out);
        if (r == PTXPACK_CU_SUCCESS)
            r = ptxpack_image_function(h->driver, out, entry, function);
        if (r != PTXPACK_CU_SUCCESS)
            status = explain(h, job, r, &logs);
    }
    if (status != PTXPACK_OK)
        ptxpack_image_unload(h->driver, out);
    if (log != NULL)
        *log = status == PTXPACK_OK ? logs.info : NULL;
    if (log == NULL || *log == NULL)
        free(logs.info);
    free(logs.errors);
    return status;
}

void ptxpack_image_unload(const struct ptxpack_driver *d, struct ptxpack_image *image)
{
    if (image->library != NULL)
        d->cuLibraryUnload(image->library);
    if (image->module != NULL)
        d->cuModuleUnload(image->module);
    memset(image, 0, sizeof *image);
}
