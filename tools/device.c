/* device.c - GPU memory, copies, timing, and reports of kernels, for commands and checks. */
#include "device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "command.h"
#include "loader/inspect.h"

bool device_try(device *d, ptxpack_cu_result result, const char *what)
{
    char text[256];
    if (result == PTXPACK_CU_SUCCESS)
        return true;
    snprintf(d->line, sizeof d->line, "%s: %s", what,
             ptxpack_driver_error(d->driver, result, text, sizeof text));
    return false;
}

bool device_status(device *d, ptxpack_status status)
{
    if (status == PTXPACK_OK)
        return true;
    const char *detail = ptxpack_detail(d->handle);
    snprintf(d->line, sizeof d->line, "%s%s%s", ptxpack_status_string(status), *detail ? ": " : "", detail);
    return false;
}

bool device_attach(device *d)
{
    return device_try(d, d->driver->cuCtxSetCurrent(d->context), "cuCtxSetCurrent");
}

bool device_absent(ptxpack_status opened)
{
    return opened == PTXPACK_E_NO_DRIVER || opened == PTXPACK_E_STUB_DRIVER || opened == PTXPACK_E_NO_DEVICE;
}

void *device_library_function(const device *d, const char *name)
{
    void *library = dlopen(ptxpack_driver_path(d->driver), RTLD_NOW | RTLD_NOLOAD);
    if (library == NULL)
        return NULL;
    void *function = dlsym(library, name);
    dlclose(library); /* the driver table keeps it */
    return function;
}

ptxpack_status device_open(device *d, const ptxpack_options *options)
{
    memset(d, 0, sizeof *d);
    ptxpack_status status = ptxpack_open(options, &d->handle);
    if (!device_status(d, status))
        return status;
    d->driver = ptxpack_driver_table(d->handle);
    d->context = ptxpack_context(d->handle);
    if (d->driver == NULL) {
        snprintf(d->line, sizeof d->line, "the handle is offline");
        device_close(d);
        return PTXPACK_E_DRIVER;
    }
    d->emulated = device_library_function(d, "ptxpack_emu_executed") != NULL;
    if (device_attach(d) && /* driver calls of our own need the handle's context to be current */
        device_try(d, d->driver->cuStreamCreate(&d->stream, PTXPACK_CU_STREAM_NON_BLOCKING),
                   "cuStreamCreate") &&
        device_try(d, d->driver->cuEventCreate(&d->from, 0), "cuEventCreate") &&
        device_try(d, d->driver->cuEventCreate(&d->to, 0), "cuEventCreate"))
        return PTXPACK_OK;
    device_close(d);
    return PTXPACK_E_DRIVER;
}

/* The emulated driver with its own compiler; .loc lines, so that its reports name the lines of the pack. */
static ptxpack_status open_emulator(device *d, const ptxpack_options *options)
{
    char            path[4096], why[sizeof d->why];
    ptxpack_options emulated = {.size = sizeof emulated};
    snprintf(why, sizeof why, "%s", d->line);
    if (ptxpack_emulator_path(path, sizeof path) == NULL) {
        snprintf(d->line, sizeof d->line,
                 "%.380s%sno emulated driver: libptxpack-emu.so is not beside this program", why,
                 *why ? "; " : "");
        return PTXPACK_E_NO_DRIVER;
    }
    if (options != NULL)
        emulated = *options;
    emulated.driver = emulated.ptxjit = path;
    emulated.line_info = true;
    ptxpack_status status = device_open(d, &emulated);
    snprintf(d->why, sizeof d->why, "%s", why);
    return status;
}

/* What the option, or else the environment, asks for; NULL: whatever there is. */
static const char *chosen_device(const char *choice)
{
    const char *asked = choice != NULL ? choice : getenv("PTXPACK_DEVICE");
    return asked != NULL && *asked != '\0' ? asked : NULL;
}

bool device_choice(const char *choice)
{
    const char *asked = chosen_device(choice);
    return asked == NULL || strcmp(asked, "gpu") == 0 || strcmp(asked, "emu") == 0;
}

ptxpack_status device_open_as(device *d, const char *choice, const ptxpack_options *options)
{
    const char *driver = getenv("PTXPACK_DRIVER"), *asked = chosen_device(choice);
    memset(d, 0, sizeof *d);
    if (!device_choice(choice)) {
        snprintf(d->line, sizeof d->line, "%s: '%.80s' is neither gpu nor emu",
                 choice != NULL ? "--device" : "PTXPACK_DEVICE", asked);
        return PTXPACK_E_ARG;
    }
    if (asked != NULL && strcmp(asked, "emu") == 0)
        return open_emulator(d, options);
    if (choice != NULL)
        unsetenv("PTXPACK_DEVICE"); /* which the library would obey */
    ptxpack_status status = device_open(d, options);
    bool           named = asked != NULL || (driver != NULL && *driver != '\0');
    return device_absent(status) && !named ? open_emulator(d, options) : status;
}

/* Keeps the line. */
void device_close(device *d)
{
    if (d->from != NULL)
        d->driver->cuEventDestroy(d->from);
    if (d->to != NULL)
        d->driver->cuEventDestroy(d->to);
    if (d->stream != NULL)
        d->driver->cuStreamDestroy(d->stream);
    d->from = d->to = NULL;
    d->stream = NULL;
    ptxpack_close(d->handle);
    d->handle = NULL;
}

bool device_alloc(device *d, uint64_t *address, size_t bytes)
{
    ptxpack_deviceptr made = 0;
    char              what[64];
    snprintf(what, sizeof what, "cuMemAlloc of %zu bytes", bytes);
    *address = 0;
    if (!device_try(d, d->driver->cuMemAlloc(&made, bytes > 0 ? bytes : 1), what))
        return false;
    *address = made;
    return true;
}

bool device_alloc_zeros(device *d, uint64_t *address, size_t bytes)
{
    *address = 0;
    return bytes == 0 ||
           (device_alloc(d, address, bytes) &&
            device_try(d, d->driver->cuMemsetD8Async(*address, 0, bytes, d->stream), "cuMemsetD8Async"));
}

void device_free(device *d, uint64_t address)
{
    if (address != 0)
        d->driver->cuMemFree(address);
}

bool device_upload(device *d, uint64_t to, const void *from, size_t bytes)
{
    return device_try(d, d->driver->cuMemcpyHtoDAsync(to, from, bytes, d->stream), "cuMemcpyHtoDAsync") &&
           device_sync(d);
}

bool device_download(device *d, void *to, uint64_t from, size_t bytes)
{
    return device_try(d, d->driver->cuMemcpyDtoHAsync(to, from, bytes, d->stream), "cuMemcpyDtoHAsync") &&
           device_sync(d);
}

bool device_sync(device *d)
{
    return device_try(d, d->driver->cuStreamSynchronize(d->stream), "waiting for the GPU");
}

bool device_start(device *d)
{
    return device_try(d, d->driver->cuEventRecord(d->from, d->stream), "cuEventRecord");
}

bool device_stop(device *d)
{
    return device_try(d, d->driver->cuEventRecord(d->to, d->stream), "cuEventRecord");
}

bool device_elapsed(device *d, double *milliseconds)
{
    float elapsed = 0;
    if (!device_try(d, d->driver->cuEventSynchronize(d->to), "waiting for the GPU") ||
        !device_try(d, d->driver->cuEventElapsedTime(&elapsed, d->from, d->to), "cuEventElapsedTime"))
        return false;
    *milliseconds = elapsed;
    return true;
}

int64_t device_launches(const device *d, int64_t asked)
{
    return asked != OPTION_NOT_GIVEN ? asked : d->emulated ? 1 : 20;
}

int device_warm_up(const device *d) { return d->emulated ? 0 : 3; }

double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare_doubles);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* ---- reports ------------------------------------------------------------------------------------ */
void report_device(const device *d, bool json)
{
    const ptxpack_device_info *info = ptxpack_device(d->handle);
    if (json) {
        json_open("device", '{');
        json_text("name", info->name);
        json_text("target", info->target);
        json_int("driver", info->driver_version);
        json_bool("emulated", d->emulated);
        json_close();
        return;
    }
    printf("device    %s, %s, CUDA driver %d.%d\n", info->name, info->target, info->driver_version / 1000,
           info->driver_version % 1000 / 10);
    if (d->emulated)
        printf("emulated  every instruction is executed and judged on the CPU; times say nothing of a GPU"
               "%s%s%s\n",
               *d->why ? " (no GPU: " : "", d->why, *d->why ? ")" : "");
}

void report_kernel(const ptxpack_kernel_info *info, double ready_ms, bool json)
{
    const ptxpack_resources *r = &info->resources;
    int                      spills = r->spill_store_bytes + r->spill_load_bytes;
    if (json) {
        json_open("kernel", '{');
        json_text("variant", info->variant->id);
        json_int("registers", r->registers);
        json_int("spill_bytes", spills);
        json_bool("from_cache", info->from_cache);
        json_real("ready_ms", ready_ms);
        json_real("expand_ms", info->expand_ms);
        json_real("cache_ms", info->cache_ms);
        json_real("compile_ms", info->compile_ms);
        json_real("load_ms", info->load_ms);
        json_close();
        return;
    }
    printf("kernel    %s, %d registers, %d bytes of spills\n", info->variant->id, r->registers, spills);
    printf("ready in  %.2f ms, %s: expand %.2f, cache %.2f, compile %.2f, driver load %.2f\n", ready_ms,
           info->from_cache ? "warm from the cache" : "cold", info->expand_ms, info->cache_ms, info->compile_ms,
           info->load_ms);
}
