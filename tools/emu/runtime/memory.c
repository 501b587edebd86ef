/* memory.c - memory, copies, and variables of the device. */
#include <string.h>
#include "runtime.h"

enum { HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, BY_ADDRESS, DIRECTIONS };

static api_address device_of(const void *address) { return (api_address)(uintptr_t)address; }

/* An allocation of no bytes is no error, and its address is NULL. */
static runtime_result keep(runtime_result result, void **to, const api_address *address)
{
    if (result == RUNTIME_OK)
        *to = (void *)(uintptr_t)*address;
    return result;
}

runtime_result cudaMalloc(void **address, size_t bytes)
{
    api_address made = 0;
    RUNTIME_TRY(runtime_ready(NULL));
    RUNTIME_TRY(address != NULL ? RUNTIME_OK : (runtime_result)RUNTIME_INVALID_VALUE);
    return runtime_end(keep(bytes ? cuMemAlloc_v2(&made, bytes) : RUNTIME_OK, address, &made));
}
runtime_result cudaMallocAsync(void **address, size_t bytes, struct CUstream_st *stream)
{
    api_address made = 0;
    RUNTIME_TRY(runtime_ready(NULL));
    RUNTIME_TRY(address != NULL ? RUNTIME_OK : (runtime_result)RUNTIME_INVALID_VALUE);
    return runtime_end(keep(bytes ? cuMemAllocAsync(&made, bytes, stream) : RUNTIME_OK, address, &made));
}
runtime_result cudaMallocManaged(void **address, size_t bytes, unsigned int flags)
{
    api_address made = 0;
    RUNTIME_TRY(runtime_ready(NULL));
    RUNTIME_TRY(address != NULL ? RUNTIME_OK : (runtime_result)RUNTIME_INVALID_VALUE);
    return runtime_end(keep(cuMemAllocManaged(&made, bytes, flags), address, &made));
}
runtime_result cudaMallocPitch(void **address, size_t *pitch, size_t width, size_t height)
{
    enum { WIDEST = 16 }; /* elements that a kernel may load at once */
    api_address made = 0;
    RUNTIME_TRY(runtime_ready(NULL));
    RUNTIME_TRY(address != NULL ? RUNTIME_OK : (runtime_result)RUNTIME_INVALID_VALUE);
    return runtime_end(keep(cuMemAllocPitch_v2(&made, pitch, width, height, WIDEST), address, &made));
}
runtime_result cudaHostGetDevicePointer(void **device, void *host, unsigned int flags)
{
    api_address at = 0;
    RUNTIME_TRY(runtime_ready(NULL));
    RUNTIME_TRY(device != NULL ? RUNTIME_OK : (runtime_result)RUNTIME_INVALID_VALUE);
    return runtime_end(keep(cuMemHostGetDevicePointer_v2(&at, host, flags), device, &at));
}
runtime_result cudaMallocHost(void **address, size_t bytes) { RUNTIME_CALL(cuMemAllocHost_v2(address, bytes)); }
runtime_result cudaHostAlloc(void **address, size_t bytes, unsigned int flags)
{
    RUNTIME_CALL(cuMemHostAlloc(address, bytes, flags));
}
runtime_result cudaFree(void *address)
{
    RUNTIME_CALL(address != NULL ? cuMemFree_v2(device_of(address)) : RUNTIME_OK);
}
runtime_result cudaFreeAsync(void *address, struct CUstream_st *stream)
{
    RUNTIME_CALL(address != NULL ? cuMemFreeAsync(device_of(address), stream) : RUNTIME_OK);
}
runtime_result cudaFreeHost(void *address)
{
    RUNTIME_CALL(address != NULL ? cuMemFreeHost(address) : RUNTIME_OK);
}
runtime_result cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    RUNTIME_CALL(cuMemGetInfo_v2(free_bytes, total));
}

runtime_result cudaIpcGetMemHandle(struct CUipcMemHandle_st *handle, void *address)
{
    RUNTIME_CALL(cuIpcGetMemHandle(handle, device_of(address)));
}
runtime_result cudaIpcOpenMemHandle(void **address, struct CUipcMemHandle_st handle, unsigned int flags)
{
    api_address at = 0;
    RUNTIME_TRY(runtime_ready(NULL));
    RUNTIME_TRY(address != NULL ? RUNTIME_OK : (runtime_result)RUNTIME_INVALID_VALUE);
    return runtime_end(keep(cuIpcOpenMemHandle_v2(&at, handle, flags), address, &at));
}
runtime_result cudaIpcCloseMemHandle(void *address) { RUNTIME_CALL(cuIpcCloseMemHandle(device_of(address))); }

/* Memory that the driver does not know is no error. */
runtime_result cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *address)
{
    enum {
        MEMORY_TYPE = 2,
        DEVICE_POINTER,
        HOST_POINTER,
        IS_MANAGED = 8,
        ORDINAL,
        UNKNOWN_DEVICE = -2,
        MANAGED = 3
    };
    struct cudaPointerAttributes a = {.device = UNKNOWN_DEVICE};
    unsigned int                 managed = 0;
    api_address                  at = device_of(address);
    RUNTIME_TRY(attributes != NULL ? runtime_ready(NULL) : (runtime_result)RUNTIME_INVALID_VALUE);
    *attributes = a;
    attributes->on_host = (void *)(uintptr_t)address;
    if (cuPointerGetAttribute(&a.type, MEMORY_TYPE, at) != RUNTIME_OK)
        return RUNTIME_OK;
    RUNTIME_TRY(cuPointerGetAttribute(&a.device, ORDINAL, at));
    RUNTIME_TRY(cuPointerGetAttribute(&a.on_device, DEVICE_POINTER, at));
    RUNTIME_TRY(cuPointerGetAttribute(&managed, IS_MANAGED, at));
    if (managed)
        a.type = MANAGED;
    if (cuPointerGetAttribute(&a.on_host, HOST_POINTER, at) != RUNTIME_OK)
        a.on_host = NULL;
    *attributes = a;
    return RUNTIME_OK;
}

/* ---- copies and fills ---------------------------------------------------------------------------------- */
static runtime_result copy(void *to, const void *from, size_t bytes, unsigned int kind)
{
    if (bytes == 0 || kind >= DIRECTIONS)
        return kind < DIRECTIONS ? RUNTIME_OK : RUNTIME_INVALID_DIRECTION;
    if (kind == HOST_TO_DEVICE)
        return cuMemcpyHtoD_v2(device_of(to), from, bytes);
    if (kind == DEVICE_TO_HOST)
        return cuMemcpyDtoH_v2(to, device_of(from), bytes);
    return cuMemcpy(device_of(to), device_of(from), bytes);
}

static runtime_result copy_async(void *to, const void *from, size_t bytes, unsigned int kind,
                                 struct CUstream_st *stream)
{
    if (bytes == 0 || kind >= DIRECTIONS)
        return kind < DIRECTIONS ? RUNTIME_OK : RUNTIME_INVALID_DIRECTION;
    if (kind == HOST_TO_DEVICE)
        return cuMemcpyHtoDAsync_v2(device_of(to), from, bytes, stream);
    if (kind == DEVICE_TO_HOST)
        return cuMemcpyDtoHAsync_v2(to, device_of(from), bytes, stream);
    return cuMemcpyAsync(device_of(to), device_of(from), bytes, stream);
}

runtime_result cudaMemcpy(void *to, const void *from, size_t bytes, unsigned int kind)
{
    RUNTIME_CALL(copy(to, from, bytes, kind));
}
runtime_result cudaMemcpyAsync(void *to, const void *from, size_t bytes, unsigned int kind,
                               struct CUstream_st *stream)
{
    RUNTIME_CALL(copy_async(to, from, bytes, kind, stream));
}

/* Addresses say by themselves whose memory they are. */
static runtime_result describe(struct CUDA_MEMCPY2D_st *copy, void *to, size_t to_pitch, const void *from,
                               size_t from_pitch, size_t width, size_t height, unsigned int kind)
{
    enum { UNIFIED = 4 }; /* CUmemorytype */
    const struct CUDA_MEMCPY2D_st made = {.srcMemoryType = UNIFIED,
                                          .srcDevice = device_of(from),
                                          .srcPitch = from_pitch,
                                          .dstMemoryType = UNIFIED,
                                          .dstDevice = device_of(to),
                                          .dstPitch = to_pitch,
                                          .WidthInBytes = width,
                                          .Height = height};
    *copy = made;
    RUNTIME_TRY(kind < DIRECTIONS ? RUNTIME_OK : (runtime_result)RUNTIME_INVALID_DIRECTION);
    return runtime_ready(NULL);
}
runtime_result cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                            size_t height, unsigned int kind)
{
    struct CUDA_MEMCPY2D_st copy_2d;
    RUNTIME_TRY(describe(&copy_2d, to, to_pitch, from, from_pitch, width, height, kind));
    return runtime_end(cuMemcpy2DUnaligned_v2(&copy_2d));
}
runtime_result cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                                 size_t height, unsigned int kind, struct CUstream_st *stream)
{
    struct CUDA_MEMCPY2D_st copy_2d;
    RUNTIME_TRY(describe(&copy_2d, to, to_pitch, from, from_pitch, width, height, kind));
    return runtime_end(cuMemcpy2DAsync_v2(&copy_2d, stream));
}
runtime_result cudaMemset(void *to, int value, size_t bytes)
{
    RUNTIME_CALL(bytes ? cuMemsetD8_v2(device_of(to), (unsigned char)value, bytes) : RUNTIME_OK);
}
runtime_result cudaMemsetAsync(void *to, int value, size_t bytes, struct CUstream_st *stream)
{
    RUNTIME_CALL(bytes ? cuMemsetD8Async(device_of(to), (unsigned char)value, bytes, stream) : RUNTIME_OK);
}

/* ---- variables ----------------------------------------------------------------------------------------- */
/* The address of `bytes` bytes at an offset of a variable. */
static runtime_result part(const void *symbol, size_t offset, size_t bytes, void **at)
{
    api_address    address = 0;
    size_t         size = 0;
    runtime_result result = runtime_ready(NULL);
    if (result == RUNTIME_OK)
        result = runtime_variable(symbol, &address, &size);
    if (result == RUNTIME_OK && (offset > size || bytes > size - offset))
        result = RUNTIME_INVALID_VALUE;
    *at = (void *)(uintptr_t)(address + offset);
    return result;
}

runtime_result cudaGetSymbolAddress(void **address, const void *symbol)
{
    void *at = NULL;
    RUNTIME_TRY(address != NULL ? part(symbol, 0, 0, &at) : RUNTIME_INVALID_VALUE);
    *address = at;
    return RUNTIME_OK;
}
runtime_result cudaGetSymbolSize(size_t *bytes, const void *symbol)
{
    api_address address = 0;
    RUNTIME_TRY(runtime_ready(NULL));
    return runtime_end(bytes != NULL ? runtime_variable(symbol, &address, bytes) : RUNTIME_INVALID_VALUE);
}
runtime_result cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset,
                                  unsigned int kind)
{
    void *at = NULL;
    RUNTIME_TRY(part(symbol, offset, bytes, &at));
    return runtime_end(copy(at, from, bytes, kind));
}
runtime_result cudaMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset,
                                    unsigned int kind)
{
    void *at = NULL;
    RUNTIME_TRY(part(symbol, offset, bytes, &at));
    return runtime_end(copy(to, at, bytes, kind));
}
