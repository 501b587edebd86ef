/* driver.c - a small libcuda.so for tests.  Device memory is host memory, kernels do not run; the
 * environment variable FAKE_CUDA (words separated by spaces) chooses how it fails:
 *
 *   stub           cuGetProcAddress answers 34, as the toolkit's stub does
 *   init=N         cuInit answers N                      devices=N     the number of devices (1)
 *   version=N      cuDriverGetVersion (13000)            arch=N        compute capability * 10 (90)
 *   missing=NAME   the driver has no such function       unnamed=NAME  it is there, but symbolStatus denies it
 *   no-libraries   no cuLibrary*, as before CUDA 12      no-link       no cuLink*
 *   load=N         loading an image answers N            load-times=N  ... the first N times only
 *   link=N         cuLinkAddData answers N               launch=N      cuLaunchKernel and cuLaunchKernelEx answer N
 *   encode=N       cuTensorMapEncodeTiled answers N      replace=N     cuTensorMapReplaceAddress answers N
 *   current        a context is current at the start     log=L         error logs name line L
 *   destroyed      the same, and it was destroyed: calls that need one answer 709
 *   fork           cuInit runs a child, as a real one runs nvidia-modprobe
 *
 * As in a real driver, calls that need a context are refused (201) while none is current.
 *
 * Compiled with FAKE_NO_V2 it knows only the first cuGetProcAddress, with FAKE_NO_PROC none: then functions
 * are found by their exported names.  fake_record tells the test what was called. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "loader/driver.h"
#include "driver.h"

#define EXPORT __attribute__((visibility("default")))
EXPORT struct fake_record fake_record;

/* ---- the environment ------------------------------------------------------------------------------ */

/* The value of `word` in FAKE_CUDA: after "word=", "" for the bare word, NULL when it is absent. */
static const char *setting(const char *word)
{
    const char *at = getenv("FAKE_CUDA");
    size_t      bytes = strlen(word);
    while (at && *at) {
        if (strncmp(at, word, bytes) == 0 && strchr("= ", at[bytes]))
            return at[bytes] == '=' ? at + bytes + 1 : at + bytes;
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    return NULL;
}

static unsigned int number(const char *word, unsigned int otherwise)
{
    const char *value = setting(word);
    return value ? (unsigned int)strtoul(value, NULL, 10) : otherwise;
}

/* ---- contexts: each thread has a stack ------------------------------------------------------------ */

static char                           primary, foreign; /* their addresses are the contexts */
static _Thread_local struct CUctx_st *stack[16];
static _Thread_local int              depth = -1;

static struct CUctx_st **top(void)
{
    if (depth < 0) {
        depth = 0;
        stack[0] = setting("current") || setting("destroyed") ? (struct CUctx_st *)&foreign : NULL;
    }
    return &stack[depth];
}

/* What a call that needs a context answers.  The primary one lives from its first retain to its last release. */
enum { INVALID_CONTEXT = 201 };
static ptxpack_cu_result state_of_context(void)
{
    const struct CUctx_st *current = *top();
    bool                   dead = current == (struct CUctx_st *)&primary ? fake_record.retained == 0
                                                                         : setting("destroyed") != NULL;
    if (current == NULL)
        return INVALID_CONTEXT;
    return dead ? PTXPACK_CU_CONTEXT_IS_DESTROYED : PTXPACK_CU_SUCCESS;
}
#define WANT_CONTEXT()                                \
    do {                                              \
        if (state_of_context() != PTXPACK_CU_SUCCESS) \
            return state_of_context();                \
    } while (0)

/* In the build without cuGetProcAddress every function is exported under its own name and suffix. */
#ifdef FAKE_NO_PROC
#define EXPORTED(name, version, suffix, need, parameters) \
    EXPORT ptxpack_cu_result fake_##name parameters __asm__(#name suffix);
#else
#define EXPORTED(name, version, suffix, need, parameters) static ptxpack_cu_result fake_##name parameters;
#endif
PTXPACK_DRIVER_MAP(EXPORTED)
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define DEFINE(name, ...) ptxpack_cu_result fake_##name(__VA_ARGS__)

DEFINE(cuInit, unsigned int flags)
{
    pid_t child = setting("fork") ? fork() : -1;
    if (child == 0)
        _exit(0);
    if (child > 0)
        waitpid(child, NULL, 0);
    return fake_record.inits++, number("init", 0);
}
DEFINE(cuDriverGetVersion, int *version) { return *version = (int)number("version", 13000), 0u; }
DEFINE(cuGetErrorName, ptxpack_cu_result error, const char **text)
{
    *text = error == 222   ? "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"
            : error == 200 ? "CUDA_ERROR_INVALID_IMAGE"
                           : "CUDA_ERROR_FAKE";
    return 0;
}
DEFINE(cuGetErrorString, ptxpack_cu_result error, const char **text) { return *text = "a fake error", 0u; }
DEFINE(cuDeviceGetCount, int *count) { return *count = (int)number("devices", 1), 0u; }
DEFINE(cuDeviceGet, int *device, int ordinal) { return *device = ordinal, 0u; }
DEFINE(cuDeviceGetName, char *name, int bytes, int device)
{
    return snprintf(name, (size_t)bytes, "Fake GPU"), 0u;
}
DEFINE(cuDeviceGetAttribute, int *value, unsigned int attribute, int device)
{
    int arch = (int)number("arch", 90);
    *value = attribute == PTXPACK_CU_DEVICE_COMPUTE_MAJOR            ? arch / 10
             : attribute == PTXPACK_CU_DEVICE_COMPUTE_MINOR          ? arch % 10
             : attribute == PTXPACK_CU_DEVICE_MULTIPROCESSOR_COUNT   ? 132
             : attribute == PTXPACK_CU_DEVICE_SHARED_PER_BLOCK_OPTIN ? 227 << 10
             : attribute == PTXPACK_CU_DEVICE_SHARED_PER_SM          ? 228 << 10
                                                                     : 1;
    return 0;
}
DEFINE(cuDeviceTotalMem, size_t *bytes, int device) { return *bytes = (size_t)1 << 30, 0u; }
DEFINE(cuDevicePrimaryCtxRetain, struct CUctx_st **context, int device)
{
    fake_record.retained++;
    fake_record.retains++;
    fake_record.context_calls++;
    return *context = (struct CUctx_st *)&primary, 0u;
}
DEFINE(cuDevicePrimaryCtxRelease, int device)
{
    return fake_record.context_calls++, fake_record.retained--, 0u;
}
DEFINE(cuCtxGetCurrent, struct CUctx_st **context)
{
    return fake_record.context_calls++, *context = *top(), 0u;
}
DEFINE(cuCtxSetCurrent, struct CUctx_st *context) { return fake_record.context_calls++, *top() = context, 0u; }
DEFINE(cuCtxPushCurrent, struct CUctx_st *context)
{
    fake_record.context_calls++;
    top();
    stack[++depth] = context;
    return 0;
}
DEFINE(cuCtxPopCurrent, struct CUctx_st **context)
{
    return fake_record.context_calls++, *context = stack[depth--], 0u;
}
/* The real one answers also for a context that was destroyed (driver 580). */
DEFINE(cuCtxGetDevice, int *device)
{
    fake_record.context_calls++;
    *device = 0;
    return *top() == NULL ? (ptxpack_cu_result)INVALID_CONTEXT : PTXPACK_CU_SUCCESS;
}
DEFINE(cuCtxSynchronize, void) { return fake_record.context_calls++, state_of_context(); }
DEFINE(cuMemGetInfo, size_t *free_bytes, size_t *total)
{
    WANT_CONTEXT();
    return *free_bytes = *total = (size_t)1 << 30, 0u;
}
DEFINE(cuMemAlloc, ptxpack_deviceptr *address, size_t bytes)
{
    WANT_CONTEXT();
    fake_record.allocations++;
    return *address = (uintptr_t)calloc(1, bytes), *address ? 0u : 2u;
}
DEFINE(cuMemFree, ptxpack_deviceptr address)
{
    WANT_CONTEXT();
    return free((void *)(uintptr_t)address), 0u;
}
DEFINE(cuMemHostAlloc, void **address, size_t bytes, unsigned int flags)
{
    WANT_CONTEXT();
    fake_record.allocations++;
    return *address = malloc(bytes), 0u;
}
DEFINE(cuMemFreeHost, void *address)
{
    WANT_CONTEXT();
    return free(address), 0u;
}

static ptxpack_cu_result copy(uintptr_t to, uintptr_t from, size_t bytes)
{
    WANT_CONTEXT();
    return memmove((void *)to, (const void *)from, bytes), 0u;
}
DEFINE(cuMemcpyHtoD, ptxpack_deviceptr to, const void *from, size_t bytes)
{
    return copy(to, (uintptr_t)from, bytes);
}
DEFINE(cuMemcpyDtoH, void *to, ptxpack_deviceptr from, size_t bytes)
{
    return copy((uintptr_t)to, from, bytes);
}
DEFINE(cuMemcpyDtoD, ptxpack_deviceptr to, ptxpack_deviceptr from, size_t bytes)
{
    return copy(to, from, bytes);
}
DEFINE(cuMemcpyHtoDAsync, ptxpack_deviceptr to, const void *from, size_t bytes, struct CUstream_st *stream)
{
    return copy(to, (uintptr_t)from, bytes);
}
DEFINE(cuMemcpyDtoHAsync, void *to, ptxpack_deviceptr from, size_t bytes, struct CUstream_st *stream)
{
    return copy((uintptr_t)to, from, bytes);
}
DEFINE(cuMemcpyDtoDAsync, ptxpack_deviceptr to, ptxpack_deviceptr from, size_t bytes,
       struct CUstream_st *stream)
{
    return copy(to, from, bytes);
}

static ptxpack_cu_result fill(uintptr_t to, const void *value, size_t unit, size_t count)
{
    WANT_CONTEXT();
    for (size_t i = 0; i < count; i++)
        memcpy((char *)to + i * unit, value, unit);
    return 0;
}
DEFINE(cuMemsetD8, ptxpack_deviceptr to, unsigned char value, size_t count)
{
    return fill(to, &value, 1, count);
}
DEFINE(cuMemsetD16, ptxpack_deviceptr to, unsigned short value, size_t count)
{
    return fill(to, &value, 2, count);
}
DEFINE(cuMemsetD32, ptxpack_deviceptr to, unsigned int value, size_t count)
{
    return fill(to, &value, 4, count);
}
DEFINE(cuMemsetD8Async, ptxpack_deviceptr to, unsigned char value, size_t count, struct CUstream_st *stream)
{
    return fill(to, &value, 1, count);
}
DEFINE(cuMemsetD16Async, ptxpack_deviceptr to, unsigned short value, size_t count, struct CUstream_st *stream)
{
    return fill(to, &value, 2, count);
}
DEFINE(cuMemsetD32Async, ptxpack_deviceptr to, unsigned int value, size_t count, struct CUstream_st *stream)
{
    return fill(to, &value, 4, count);
}

/* ---- streams, graphs, events: nothing is ever pending --------------------------------------------- */

#define NOTHING(name, ...) \
    DEFINE(name, __VA_ARGS__) { return *top() ? 0 : INVALID_CONTEXT; }
#define HANDLE(name, type, ...) \
    DEFINE(name, type **made, __VA_ARGS__) { return *made = (type *)&primary, *top() ? 0u : INVALID_CONTEXT; }
HANDLE(cuStreamCreate, struct CUstream_st, unsigned int flags)
NOTHING(cuStreamDestroy, struct CUstream_st *stream)
NOTHING(cuStreamQuery, struct CUstream_st *stream)
NOTHING(cuMemcpyPeerAsync, ptxpack_deviceptr to, struct CUctx_st *to_context, ptxpack_deviceptr from,
        struct CUctx_st *from_context, size_t bytes, struct CUstream_st *stream)
NOTHING(cuMemcpy3DPeerAsync, const struct CUDA_MEMCPY3D_PEER_st *copy, struct CUstream_st *stream)
NOTHING(cuStreamWriteValue32, struct CUstream_st *stream, ptxpack_deviceptr address, uint32_t value,
        unsigned int flags)
NOTHING(cuDeviceCanAccessPeer, int *can, int device, int peer)
NOTHING(cuCtxEnablePeerAccess, struct CUctx_st *peer, unsigned int flags)
NOTHING(cuStreamSynchronize, struct CUstream_st *stream)
NOTHING(cuStreamWaitEvent, struct CUstream_st *stream, struct CUevent_st *event, unsigned int flags)
NOTHING(cuStreamBeginCapture, struct CUstream_st *stream, unsigned int mode)
DEFINE(cuStreamEndCapture, struct CUstream_st *stream, struct CUgraph_st **graph) { return 801; }
DEFINE(cuStreamIsCapturing, struct CUstream_st *stream, unsigned int *status) { return *status = 0, 0u; }
DEFINE(cuGraphInstantiateWithFlags, struct CUgraphExec_st **exec, struct CUgraph_st *graph,
       unsigned long long flags)
{
    return 801;
}
NOTHING(cuGraphLaunch, struct CUgraphExec_st *exec, struct CUstream_st *stream)
NOTHING(cuGraphExecDestroy, struct CUgraphExec_st *exec)
NOTHING(cuGraphDestroy, struct CUgraph_st *graph)
HANDLE(cuEventCreate, struct CUevent_st, unsigned int flags)
NOTHING(cuEventRecord, struct CUevent_st *event, struct CUstream_st *stream)
NOTHING(cuEventSynchronize, struct CUevent_st *event)
NOTHING(cuEventQuery, struct CUevent_st *event)
DEFINE(cuEventElapsedTime, float *milliseconds, struct CUevent_st *from, struct CUevent_st *to)
{
    return *milliseconds = 1, 0u;
}
NOTHING(cuEventDestroy, struct CUevent_st *event)

/* ---- images --------------------------------------------------------------------------------------- */

/* Writes to the error log, or to the info log, if the caller wants one. */
static void write_log(unsigned int count, const unsigned int *options, void **values, unsigned int which,
                      const char *text)
{
    size_t room = 0;
    char  *log = NULL;
    for (unsigned int i = 0; i < count; i++) {
        if (options[i] == which)
            log = (char *)values[i];
        if (options[i] == which + 1)
            room = (size_t)(uintptr_t)values[i];
    }
    if (log && room)
        snprintf(log, room, "%s", text);
}

static ptxpack_cu_result judge(unsigned int result, unsigned int count, const unsigned int *options,
                               void **values)
{
    char text[256];
    if (result)
        snprintf(text, sizeof text,
                 "ptxas application ptx input, line %u; error   : Unknown symbol '%%zz'\nptxas fatal   : Ptx "
                 "assembly aborted due to errors\n",
                 number("log", 1));
    else
        snprintf(text, sizeof text, "ptxas info    : Used 42 registers, 128 bytes smem\n");
    write_log(count, options, values, result ? PTXPACK_CU_JIT_ERROR_LOG_BUFFER : PTXPACK_CU_JIT_INFO_LOG_BUFFER,
              text);
    return result;
}

static ptxpack_cu_result load_image(const void *image)
{
    fake_record.loads++;
    snprintf(fake_record.image, sizeof fake_record.image, "%s", (const char *)image);
    fake_record.context_at_load = *top();
    unsigned int result = number("load", 0);
    return fake_record.loads <= number("load-times", 1u << 30) ? result : 0;
}

DEFINE(cuModuleLoadDataEx, struct CUmod_st **module, const void *image, unsigned int count,
       unsigned int *options, void **values)
{
    WANT_CONTEXT();
    fake_record.modules++;
    return *module = (struct CUmod_st *)&foreign, judge(load_image(image), count, options, values);
}
DEFINE(cuModuleGetFunction, struct CUfunc_st **function, struct CUmod_st *module, const char *name)
{
    return *function = (struct CUfunc_st *)&foreign, 0u;
}
DEFINE(cuModuleUnload, struct CUmod_st *module) { return fake_record.modules--, 0u; }
DEFINE(cuLibraryLoadData, struct CUlib_st **library, const void *code, unsigned int *jit_options,
       void **jit_values, unsigned int jit_count, unsigned int *options, void **values, unsigned int count)
{
    ptxpack_cu_result result = judge(load_image(code), jit_count, jit_options, jit_values);
    *library = result ? NULL : (struct CUlib_st *)&foreign;
    fake_record.libraries += !result;
    return result;
}
DEFINE(cuLibraryGetKernel, struct CUkern_st **kernel, struct CUlib_st *library, const char *name)
{
    return *kernel = (struct CUkern_st *)&foreign, 0u;
}
DEFINE(cuLibraryUnload, struct CUlib_st *library) { return fake_record.libraries--, 0u; }
DEFINE(cuKernelGetFunction, struct CUfunc_st **function, struct CUkern_st *kernel)
{
    WANT_CONTEXT();
    return *function = (struct CUfunc_st *)&foreign, 0u;
}
DEFINE(cuFuncGetAttribute, int *value, unsigned int attribute, struct CUfunc_st *function)
{
    return *value = 7, 0u;
}
DEFINE(cuFuncSetAttribute, struct CUfunc_st *function, unsigned int attribute, int value)
{
    if (attribute == PTXPACK_CU_FUNC_MAX_DYNAMIC_SHARED)
        fake_record.shared_opt_in = value;
    return 0;
}
DEFINE(cuLaunchKernel, struct CUfunc_st *function, unsigned int grid_x, unsigned int grid_y,
       unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z,
       unsigned int shared_bytes, struct CUstream_st *stream, void **parameters, void **extra)
{
    WANT_CONTEXT();
    fake_record.launches++;
    fake_record.overlapping = 0;
    fake_record.context_at_launch = *top();
    fake_record.grid[0] = grid_x, fake_record.grid[1] = grid_y, fake_record.grid[2] = grid_z;
    fake_record.threads = block_x * block_y * block_z;
    fake_record.shared = shared_bytes;
    memcpy(&fake_record.argument, parameters[0], sizeof fake_record.argument);
    return number("launch", 0);
}
DEFINE(cuLaunchKernelEx, const struct CUlaunchConfig_st *opaque, struct CUfunc_st *function, void **parameters,
       void **extra)
{
    const ptxpack_cu_launch_config *config = (const ptxpack_cu_launch_config *)(const void *)opaque;
    ptxpack_cu_result result = fake_cuLaunchKernel(function, config->grid[0], config->grid[1], config->grid[2],
                                                   config->block[0], config->block[1], config->block[2],
                                                   config->shared_bytes, config->stream, parameters, extra);
    for (unsigned int i = 0; i < config->attribute_count; i++)
        if (config->attributes[i].id == PTXPACK_CU_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION)
            fake_record.overlapping = config->attributes[i].value.programmatic_stream_serialization_allowed;
    return result;
}

/* ---- cuLink: the "cubin" is a line that says so --------------------------------------------------- */

static unsigned int  link_count;
static unsigned int *link_options;
static void        **link_values;
DEFINE(cuLinkCreate, unsigned int count, unsigned int *options, void **values, struct CUlinkState_st **state)
{
    WANT_CONTEXT();
    link_count = count;
    link_options = options;
    link_values = values;
    return *state = (struct CUlinkState_st *)&primary, 0u;
}
DEFINE(cuLinkAddData, struct CUlinkState_st *state, unsigned int type, void *data, size_t bytes,
       const char *name, unsigned int count, unsigned int *options, void **values)
{
    if (type != PTXPACK_CU_JIT_INPUT_PTX || ((char *)data)[bytes - 1] != '\0')
        return PTXPACK_CU_INVALID_VALUE;
    fake_record.links++;
    return judge(number("link", 0), link_count, link_options, link_values);
}
DEFINE(cuLinkComplete, struct CUlinkState_st *state, void **cubin, size_t *bytes)
{
    static char made[64];
    snprintf(made, sizeof made, "linked %u", fake_record.links);
    return *cubin = made, *bytes = strlen(made) + 1, 0u;
}
NOTHING(cuLinkDestroy, struct CUlinkState_st *state)
DEFINE(cuPointerGetAttributes, unsigned int count, unsigned int *attributes, void **values,
       ptxpack_deviceptr address)
{
    return 801;
}
DEFINE(cuOccupancyMaxActiveBlocksPerMultiprocessor, int *blocks, struct CUfunc_st *function, int threads,
       size_t dynamic_shared)
{
    return *blocks = 1, 0u;
}

/* ---- tensor maps: the address, then the other numbers in the order of the arguments --------------- */

DEFINE(cuTensorMapEncodeTiled, struct CUtensorMap_st *map, unsigned int type, uint32_t rank, void *address,
       const uint64_t *dims, const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides,
       unsigned int interleave, unsigned int swizzle, unsigned int l2, unsigned int fill_with)
{
    uint64_t words[16] = {(uintptr_t)address, type, rank, swizzle, l2, fill_with, interleave};
    WANT_CONTEXT();
    if (rank < 3 || rank > 5 || element_strides[0] != 1)
        return PTXPACK_CU_INVALID_VALUE;
    for (uint32_t d = 0; d < rank; d++)
        words[7 + d] = dims[d] << 32 | box[d];
    memcpy(words + 7 + rank, strides, (rank - 1) * sizeof *strides);
    memcpy(map, words, sizeof words);
    fake_record.maps_encoded++;
    return number("encode", 0);
}
DEFINE(cuTensorMapReplaceAddress, struct CUtensorMap_st *map, void *address)
{
    uint64_t word = (uintptr_t)address;
    WANT_CONTEXT();
    fake_record.maps_replaced++;
    return memcpy(map, &word, sizeof word), number("replace", 0);
}

/* ---- finding functions ---------------------------------------------------------------------------- */

#ifndef FAKE_NO_PROC
static int names(const char *word, const char *name)
{
    const char *value = setting(word);
    size_t      bytes = strlen(name);
    return value && strncmp(value, name, bytes) == 0 && strchr(" ", value[bytes]);
}

static ptxpack_cu_result look_up(const char *symbol, void **function, int version)
{
    *function = NULL;
    if (setting("stub"))
        return PTXPACK_CU_STUB_LIBRARY;
    if (names("missing", symbol) || (setting("no-libraries") && strncmp(symbol, "cuLibrary", 9) == 0) ||
        (setting("no-link") && strncmp(symbol, "cuLink", 6) == 0))
        return 500;
#define FOUND(name, since, suffix, need, parameters)        \
    if (strcmp(symbol, #name) == 0 && version == since) {   \
        ptxpack_cu_result(*found) parameters = fake_##name; \
        memcpy(function, &found, sizeof *function);         \
    }
    PTXPACK_DRIVER_MAP(FOUND)
#undef FOUND
    return *function ? 0 : 500;
}

#ifdef FAKE_NO_V2
EXPORT ptxpack_cu_result cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags);
ptxpack_cu_result        cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags)
{
    return look_up(symbol, function, version);
}
#else
EXPORT ptxpack_cu_result cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags,
                                             int *found);
ptxpack_cu_result        cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags,
                                             int *found)
{
    ptxpack_cu_result result = look_up(symbol, function, version);
    *found = result || names("unnamed", symbol);
    return result == 500 ? 0 : result; /* as newer drivers: the call succeeds, and the status has the answer */
}
#endif
#endif
