/* open.c - opening a handle: its driver, device, context, cache and compile route. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "internal.h"
#include "loader/missing.h"

const char *ptxpack_chosen(const char *option, const char *variable)
{
    const char *value = option != NULL && *option ? option : secure_getenv(variable);
    return value != NULL && *value ? value : NULL;
}

/* ---- the context ---------------------------------------------------------------------------------- */

ptxpack_status ptxpack_enter(const ptxpack *h, bool *pushed)
{
    struct CUctx_st *current = NULL;
    *pushed = false;
    if (h->driver->cuCtxGetCurrent(&current) == PTXPACK_CU_SUCCESS && current == h->context)
        return PTXPACK_OK;
    ptxpack_cu_result r = h->driver->cuCtxPushCurrent(h->context);
    if (r != PTXPACK_CU_SUCCESS)
        return ptxpack_fail_driver(h, r, "cuCtxPushCurrent");
    *pushed = true;
    return PTXPACK_OK;
}

void ptxpack_leave(const ptxpack *h, bool pushed)
{
    struct CUctx_st *ours;
    if (pushed)
        h->driver->cuCtxPopCurrent(&ours);
}

/* ---- the device ----------------------------------------------------------------------------------- */

/* Like ptxpack_fail_driver, but the caller of ptxpack_open reads the line without a handle. */
static ptxpack_status open_failed(const ptxpack *h, ptxpack_cu_result result, const char *what)
{
    char text[512];
    return ptxpack_fail(NULL, ptxpack_driver_status(result), "%s: %s", what,
                        ptxpack_driver_error(h->driver, result, text, sizeof text));
}

static ptxpack_status count_devices(const ptxpack *h, bool named, int *count)
{
    ptxpack_cu_result r = h->driver->cuDeviceGetCount(count);
    if (r != PTXPACK_CU_SUCCESS)
        return open_failed(h, r, "cuDeviceGetCount");
    return *count > 0 ? PTXPACK_OK
                      : ptxpack_fail(NULL, PTXPACK_E_NO_DEVICE, "the driver sees no device%s",
                                     named ? "" : PTXPACK_EMULATOR_ADVICE);
}

/* The current context of this thread, or NULL, and its device.  cuCtxGetDevice answers also for a context that was
 * destroyed (driver 580); cuMemGetInfo does not. */
static ptxpack_cu_result current_context(const struct ptxpack_driver *d, struct CUctx_st **current, int *device)
{
    *current = NULL;
    if (d->cuCtxGetCurrent(current) != PTXPACK_CU_SUCCESS || *current == NULL)
        return PTXPACK_CU_SUCCESS;
    size_t free_bytes, total;
    if (d->cuMemGetInfo(&free_bytes, &total) == PTXPACK_CU_CONTEXT_IS_DESTROYED)
        return PTXPACK_CU_CONTEXT_IS_DESTROYED;
    return d->cuCtxGetDevice(device);
}

/* Whether the handle's context is current by its address, and was destroyed. */
static bool is_dead(const ptxpack *h)
{
    int               device;
    struct CUctx_st  *current;
    ptxpack_cu_result r = current_context(h->driver, &current, &device);
    return current == h->context && r == PTXPACK_CU_CONTEXT_IS_DESTROYED;
}

/* The current context with its device; h->context stays NULL where there is none.  A thread keeps a context
 * that was destroyed as its current one, as after the last release of a primary context: that counts as
 * none. */
static ptxpack_status adopt_context(ptxpack *h, int count)
{
    int               device = -1;
    struct CUctx_st  *current = NULL;
    ptxpack_cu_result r = current_context(h->driver, &current, &h->device);
    if (current == NULL || r == PTXPACK_CU_CONTEXT_IS_DESTROYED)
        return PTXPACK_OK;
    if (r != PTXPACK_CU_SUCCESS)
        return open_failed(h, r, "cuCtxGetDevice");
    h->context = current;
    for (int i = 0; i < count; i++)
        if (h->driver->cuDeviceGet(&device, i) == PTXPACK_CU_SUCCESS && device == h->device)
            h->info.ordinal = i;
    return PTXPACK_OK;
}

static ptxpack_status retain_context(ptxpack *h, int ordinal, int count)
{
    if (ordinal < 0 || ordinal >= count)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "device %d: the driver sees %d, numbered from 0", ordinal,
                            count);
    ptxpack_cu_result r = h->driver->cuDeviceGet(&h->device, ordinal);
    if (r != PTXPACK_CU_SUCCESS)
        return open_failed(h, r, "cuDeviceGet");
    r = h->driver->cuDevicePrimaryCtxRetain(&h->context, h->device);
    if (r != PTXPACK_CU_SUCCESS)
        return open_failed(h, r, "cuDevicePrimaryCtxRetain");
    h->retained = true;
    h->info.ordinal = ordinal;
    if (is_dead(
            h)) /* an earlier context of this thread had the same address: what is current is still that one */
        h->driver->cuCtxSetCurrent(h->context);
    return PTXPACK_OK;
}

ptxpack_cu_result ptxpack_read_attributes(const struct ptxpack_driver *driver, int device,
                                          ptxpack_device_info *info)
{
    int major = 0, minor = 0;
    const struct {
        unsigned int attribute;
        int         *value;
    } wanted[] = {
        {PTXPACK_CU_DEVICE_COMPUTE_MAJOR, &major},
        {PTXPACK_CU_DEVICE_COMPUTE_MINOR, &minor},
        {PTXPACK_CU_DEVICE_MULTIPROCESSOR_COUNT, &info->sm_count},
        {PTXPACK_CU_DEVICE_SHARED_PER_BLOCK_OPTIN, &info->caps.shared_per_block},
        {PTXPACK_CU_DEVICE_SHARED_PER_SM, &info->caps.shared_per_sm},
    };
    ptxpack_cu_result r = PTXPACK_CU_SUCCESS;
    for (size_t i = 0; r == PTXPACK_CU_SUCCESS && i < sizeof wanted / sizeof wanted[0]; i++)
        r = driver->cuDeviceGetAttribute(wanted[i].value, wanted[i].attribute, device);
    info->caps.arch = 10 * major + minor;
    return r;
}

static ptxpack_status read_device(ptxpack *h)
{
    ptxpack_device_info *info = &h->info;
    ptxpack_cu_result    r = ptxpack_read_attributes(h->driver, h->device, info);
    if (r != PTXPACK_CU_SUCCESS)
        return open_failed(h, r, "cuDeviceGetAttribute");
    r = h->driver->cuDeviceGetName(info->name, (int)sizeof info->name, h->device);
    if (r == PTXPACK_CU_SUCCESS)
        r = h->driver->cuDeviceTotalMem(&info->memory_bytes, h->device);
    if (r != PTXPACK_CU_SUCCESS)
        return open_failed(h, r, "cuDeviceGetName, cuDeviceTotalMem");
    info->driver_version = h->driver->version;
    snprintf(info->target, sizeof info->target, "sm_%d", info->caps.arch);
    return PTXPACK_OK;
}

static ptxpack_status open_device(ptxpack *h, const ptxpack_options *options)
{
    char           line[PTXPACK_DETAIL_BYTES];
    int            count = 0;
    ptxpack_status status = ptxpack_driver_open(options->driver, &h->driver, line, sizeof line);
    if (status != PTXPACK_OK)
        return ptxpack_fail(NULL, status, "%s", line);
    if ((status = count_devices(h, options->driver != NULL, &count)) != PTXPACK_OK)
        return status;
    status = adopt_context(h, count);
    if (status == PTXPACK_OK && h->context == NULL)
        status = retain_context(h, options->device, count);
    return status == PTXPACK_OK ? read_device(h) : status;
}

/* ---- the architecture to choose for, or offline to compile for ------------------------------------ */

ptxpack_status ptxpack_apply_arch(ptxpack *h, const char *arch, bool offline)
{
    ptxpack_device_caps *caps = &h->info.caps, named;
    if (arch == NULL && offline)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "arch: offline, the target must be named, as in sm_90a");
    if (arch == NULL)
        return PTXPACK_OK;
    named.arch = ptxpack_parse_arch(arch);
    if (named.arch < 0)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "arch: \"%s\" is not of the form sm_80 or sm_90a", arch);
    if (!ptxpack_arch_shared(named.arch, &named))
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "arch: %s is not an architecture that this library knows",
                            arch);
    if (!offline && named.arch > caps->arch)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "arch: %s is above the device, which is sm_%d", arch,
                            caps->arch);
    if (offline || named.shared_per_block < caps->shared_per_block)
        caps->shared_per_block = named.shared_per_block;
    if (offline || named.shared_per_sm < caps->shared_per_sm)
        caps->shared_per_sm = named.shared_per_sm;
    caps->arch = named.arch;
    if (offline) {
        snprintf(h->info.target, sizeof h->info.target, "%s", arch);
        caps->portable = arch[strlen(arch) - 1] != 'a';
        h->info.sm_count = ptxpack_arch_usual_sms(caps->arch);
    }
    return PTXPACK_OK;
}

/* ---- opening and closing -------------------------------------------------------------------------- */

static bool is_folder(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return false;
    errno = ENOTDIR;
    return S_ISDIR(st.st_mode);
}

ptxpack_status ptxpack_take_emulator(ptxpack_options *options, char path[PTXPACK_EMULATOR_PATH])
{
    char           line[PTXPACK_DETAIL_BYTES];
    const char    *driver = options->driver;
    bool           named = driver != NULL && *driver;
    ptxpack_status status = named || options->offline
                                ? PTXPACK_OK
                                : ptxpack_emulator_asked(&driver, path, line, sizeof line);
    if (status != PTXPACK_OK)
        return ptxpack_fail(NULL, status, "%s", line);
    if (driver == options->driver)
        return PTXPACK_OK;
    options->driver = driver;
    options->line_info = true;
    if (options->ptxjit == NULL || !*options->ptxjit)
        options->ptxjit = driver;
    return PTXPACK_OK;
}

static ptxpack_status open_parts(ptxpack *h, const ptxpack_options *options)
{
    const char           *dir = ptxpack_chosen(options->ptx_dir, "PTXPACK_PTX_DIR");
    ptxpack_cache_options cache = {.size = sizeof cache,
                                   .disable = options->no_cache,
                                   .dir = options->cache_dir,
                                   .readonly_dirs = options->readonly_dirs};
    ptxpack_status        status;
    h->line_info = options->line_info || ptxpack_cache_env_flag("PTXPACK_LINE_INFO");
    h->forbid_compile = options->forbid_compile || ptxpack_cache_env_flag("PTXPACK_FORBID_COMPILE");
    h->on_compile = options->on_compile;
    h->on_compile_context = options->on_compile_context;
    if (dir != NULL && (h->ptx_dir = strdup(dir)) == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_MEMORY, "out of memory for a handle");
    if (dir != NULL && !is_folder(dir))
        return ptxpack_fail(NULL, PTXPACK_E_IO, "PTXPACK_PTX_DIR: %s: %s", dir, strerror(errno));
    if (options->offline)
        snprintf(h->info.name, sizeof h->info.name, "no device");
    else if ((status = open_device(h, options)) != PTXPACK_OK)
        return status;
    status = ptxpack_apply_arch(h, ptxpack_chosen(options->arch, "PTXPACK_ARCH"), options->offline);
    if (status != PTXPACK_OK)
        return status;
    if (!ptxpack_jit_open(&h->jit, h->driver, options->ptxjit))
        return ptxpack_fail(NULL, PTXPACK_E_NO_JIT, "%s", h->jit.why);
    h->info.caps.isa = ptxpack_jit_isa(&h->jit);
    snprintf(h->info.route, sizeof h->info.route, "%s", h->jit.why);
    h->cache = ptxpack_cache_open(&cache);
    if (h->cache == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_MEMORY, "out of memory for the cache");
    const char *refusal = ptxpack_cache_prebuilt_refusal(h->cache);
    return refusal != NULL ? ptxpack_fail(NULL, PTXPACK_E_PREBUILT, "%s", refusal) : PTXPACK_OK;
}

ptxpack_status ptxpack_open(const ptxpack_options *options, ptxpack **out)
{
    if (out == NULL)
        return PTXPACK_MISSING(NULL, "out");
    ptxpack_options all = {.size = sizeof all};
    char            emulator[PTXPACK_EMULATOR_PATH];
    *out = NULL;
    if (options != NULL && (options->size < sizeof options->size || options->size > sizeof all))
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "options.size is %u, but this library knows %zu",
                            options->size, sizeof all);
    if (options != NULL)
        memcpy(&all, options, options->size);
    ptxpack *h = (ptxpack *)calloc(1, sizeof *h);
    if (h == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_MEMORY, "out of memory for a handle");
    h->id = ptxpack_new_id();
    h->pid = getpid();
    pthread_mutex_init(&h->lock, NULL);
    ptxpack_status status = ptxpack_take_emulator(&all, emulator);
    if (status == PTXPACK_OK)
        status = open_parts(h, &all);
    if (status == PTXPACK_OK)
        *out = h;
    else
        ptxpack_close(h);
    return status;
}

/* Release the primary context.  If nobody else holds it, it is destroyed; then it must not stay current in this
 * thread, whose next calls would fail with error 709. */
static void release_context(const ptxpack *h)
{
    h->driver->cuDevicePrimaryCtxRelease(h->device);
    if (is_dead(h))
        h->driver->cuCtxSetCurrent(NULL);
}

void ptxpack_close(ptxpack *h)
{
    if (h == NULL)
        return;
    bool ours = h->pid == getpid(); /* a forked child must not call the driver */
    ptxpack_kernels_free(h, ours);
    if (ours && h->retained)
        release_context(h);
    ptxpack_cache_close(h->cache);
    pthread_mutex_destroy(&h->lock);
    free(h->ptx_dir);
    free(h);
}

const ptxpack_device_info *ptxpack_device(const ptxpack *handle)
{
    if (handle == NULL) {
        PTXPACK_MISSING(NULL, "handle");
        return NULL;
    }
    return &handle->info;
}
const struct ptxpack_driver *ptxpack_driver_table(const ptxpack *handle)
{
    if (handle == NULL) {
        PTXPACK_MISSING(NULL, "handle");
        return NULL;
    }
    return handle->driver;
}
struct ptxpack_cache *ptxpack_cache_of(const ptxpack *handle)
{
    if (handle == NULL) {
        PTXPACK_MISSING(NULL, "handle");
        return NULL;
    }
    return handle->cache;
}
struct CUctx_st *ptxpack_context(const ptxpack *handle)
{
    if (handle == NULL) {
        PTXPACK_MISSING(NULL, "handle");
        return NULL;
    }
    return handle->context;
}
