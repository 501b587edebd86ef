/* memory.c - allocating memory, and queries about addresses. */
#include <stdlib.h>
#include "api.h"
#include "tools/emu/machine/faults.h"
#include "tools/emu/machine/arena.h"

/* ---- kinds of addresses -------------------------------------------------------------------------------- */
enum api_memory api_memory_of(uint64_t address, uint64_t bytes)
{
    if (address == 0 || bytes > UINT64_MAX - address)
        return API_MEMORY_BAD;
    if (address + bytes <= emu_arena.base || address >= emu_arena.base + emu_arena.bytes)
        return API_MEMORY_HOST;
    return emu_arena_holds(address, bytes ? bytes : 1) ? API_MEMORY_DEVICE : API_MEMORY_BAD;
}

/* ---- allocating ---------------------------------------------------------------------------------------- */
static bool is_device(int kind) { return kind == EMU_MEMORY_DEVICE || kind == EMU_MEMORY_MANAGED; }

api_result api_memory_alloc(struct api_context *context, int kind, uint64_t bytes, uint64_t *address)
{
    struct api_device *device = context->device;
    API_WANT(bytes > 0, API_INVALID_VALUE);
    if (is_device(kind)) {
        API_WANT(!faults_now(api_settings()->faults, FAULT_NO_MEMORY), API_OUT_OF_MEMORY);
        API_WANT(bytes <= api_settings()->memory_bytes - device->used, API_OUT_OF_MEMORY);
    }
    *address = emu_arena_alloc(bytes, (enum emu_memory_kind)kind, NULL, context);
    API_WANT(*address, API_OUT_OF_MEMORY);
    if (is_device(kind)) {
        context->used += bytes;
        device->used += bytes;
    }
    if (kind != EMU_MEMORY_DEVICE)
        emu_arena_define(*address, bytes, true); /* writes of the host are not seen */
    return API_OK;
}

static api_result free_kind(uint64_t address, bool device)
{
    struct emu_allocation found;
    API_WANT(emu_arena_find(address, &found) && found.address == address && found.context, API_INVALID_VALUE);
    API_WANT(device ? is_device((int)found.kind) : found.kind == EMU_MEMORY_HOST, API_INVALID_VALUE);
    if (device) {
        struct api_context *owner = (struct api_context *)found.context;
        owner->used -= found.bytes;
        owner->device->used -= found.bytes;
    }
    return emu_arena_free(address) ? API_OK : API_INVALID_VALUE;
}

api_result api_memory_free(struct api_context *context, uint64_t address)
{
    (void)context; /* any context of the process may free it */
    return address ? free_kind(address, true) : API_OK;
}

void api_memory_free_all(struct api_context *context)
{
    emu_arena_free_context(context);
    context->device->used -= context->used;
    context->used = 0;
}

static api_result alloc(struct api_context *context, int kind, api_address *address, size_t bytes)
{
    uint64_t at = 0;
    API_WANT(address, API_INVALID_VALUE);
    API_TRY(api_memory_alloc(context, kind, bytes, &at));
    *address = at;
    return API_OK;
}

static api_result alloc_pitch(struct api_context *context, api_address *address, size_t *pitch, size_t width,
                              size_t height, unsigned int element)
{
    enum { ROW = 512 };
    API_WANT(pitch && width && height && width <= SIZE_MAX - ROW, API_INVALID_VALUE);
    API_WANT(element == 4 || element == 8 || element == 16, API_INVALID_VALUE);
    size_t row = (width + ROW - 1) / ROW * ROW;
    API_WANT(height <= SIZE_MAX / row, API_OUT_OF_MEMORY);
    API_TRY(alloc(context, EMU_MEMORY_DEVICE, address, row * height));
    *pitch = row;
    return API_OK;
}

static api_result alloc_managed(struct api_context *context, api_address *address, size_t bytes,
                                unsigned int flags)
{
    API_WANT(flags == 1 || flags == 2, API_INVALID_VALUE); /* attach to all, or to the host */
    return alloc(context, EMU_MEMORY_MANAGED, address, bytes);
}

static api_result alloc_host(struct api_context *context, void **address, size_t bytes, unsigned int flags)
{
    enum { FLAGS = 7 };
    uint64_t at = 0;
    API_WANT(address && flags <= FLAGS, API_INVALID_VALUE);
    *address = NULL;
    if (bytes == 0)
        return API_OK;
    API_TRY(api_memory_alloc(context, EMU_MEMORY_HOST, bytes, &at));
    *address = (void *)(uintptr_t)at;
    return API_OK;
}

static api_result free_host(void *address)
{
    return address != NULL ? free_kind((uint64_t)(uintptr_t)address, false) : API_OK;
}

static api_result alloc_async(struct api_context *context, api_address *address, size_t bytes,
                              struct CUstream_st *handle)
{
    struct api_stream *stream = NULL;
    API_TRY(api_stream_get(context, handle, &stream));
    API_WANT(!stream->capture, API_STREAM_CAPTURE_UNSUPPORTED);
    return alloc(context, EMU_MEMORY_DEVICE, address, bytes);
}

static api_result free_async(struct api_context *context, api_address address, struct CUstream_st *handle)
{
    struct api_stream *stream = NULL;
    API_TRY(api_stream_get(context, handle, &stream));
    API_WANT(!stream->capture, API_STREAM_CAPTURE_UNSUPPORTED);
    return api_memory_free(context, address);
}

api_result cuMemAlloc_v2(api_address *address, size_t bytes)
{
    API_CALL(API_CONTEXT | API_UNSAFE, alloc(call.context, EMU_MEMORY_DEVICE, address, bytes));
}
api_result cuMemAllocPitch_v2(api_address *address, size_t *pitch, size_t width, size_t height,
                              unsigned int element)
{
    API_CALL(API_CONTEXT | API_UNSAFE, alloc_pitch(call.context, address, pitch, width, height, element));
}
api_result cuMemAllocManaged(api_address *address, size_t bytes, unsigned int flags)
{
    API_CALL(API_CONTEXT | API_UNSAFE, alloc_managed(call.context, address, bytes, flags));
}
api_result cuMemAllocAsync(api_address *address, size_t bytes, struct CUstream_st *stream)
{
    API_CALL(API_CONTEXT, alloc_async(call.context, address, bytes, stream));
}
api_result cuMemFree_v2(api_address address)
{
    API_CALL(API_CONTEXT | API_UNSAFE, api_memory_free(call.context, address));
}
api_result cuMemFreeAsync(api_address address, struct CUstream_st *stream)
{
    API_CALL(API_CONTEXT, free_async(call.context, address, stream));
}
api_result cuMemAllocHost_v2(void **address, size_t bytes)
{
    API_CALL(API_CONTEXT | API_UNSAFE, alloc_host(call.context, address, bytes, 0));
}
api_result cuMemHostAlloc(void **address, size_t bytes, unsigned int flags)
{
    API_CALL(API_CONTEXT | API_UNSAFE, alloc_host(call.context, address, bytes, flags));
}
api_result cuMemFreeHost(void *address) { API_CALL(API_CONTEXT | API_UNSAFE, free_host(address)); }

/* ---- queries ------------------------------------------------------------------------------------------- */
static api_result info(const struct api_context *context, size_t *free_bytes, size_t *total)
{
    API_WANT(free_bytes && total, API_INVALID_VALUE);
    *total = (size_t)api_settings()->memory_bytes;
    uint64_t all = emu_arena_used(), used = context->device->used; /* `all`: also modules and pinned memory */
    used = api_settings()->device_count == 1 && all > used ? all : used;
    *free_bytes = used < *total ? *total - (size_t)used : 0;
    return API_OK;
}

static api_result range_of(api_address *base, size_t *bytes, api_address address)
{
    struct emu_allocation found;
    API_WANT(emu_arena_find(address, &found), API_NOT_FOUND);
    if (base != NULL)
        *base = found.address;
    if (bytes != NULL)
        *bytes = (size_t)found.bytes;
    return API_OK;
}

static bool find_host(const void *host, struct emu_allocation *found)
{
    return host != NULL && emu_arena_find((uint64_t)(uintptr_t)host, found) && found->kind == EMU_MEMORY_HOST;
}

static api_result device_pointer(api_address *device, const void *host, unsigned int flags)
{
    struct emu_allocation found;
    API_WANT(device && flags == 0, API_INVALID_VALUE);
    *device = 0;
    API_WANT(find_host(host, &found), API_INVALID_VALUE);
    *device = (api_address)(uintptr_t)host;
    return API_OK;
}

static api_result host_flags(unsigned int *flags, const void *host)
{
    enum { DEVICE_MAP = 2 };
    struct emu_allocation found;
    API_WANT(flags && find_host(host, &found), API_INVALID_VALUE);
    *flags = DEVICE_MAP;
    return API_OK;
}

api_result cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    API_CALL(API_CONTEXT, info(call.context, free_bytes, total));
}
api_result cuMemGetAddressRange_v2(api_address *base, size_t *bytes, api_address address)
{
    API_CALL(API_CONTEXT, range_of(base, bytes, address));
}
api_result cuMemHostGetDevicePointer_v2(api_address *device, void *host, unsigned int flags)
{
    API_CALL(API_CONTEXT, device_pointer(device, host, flags));
}
api_result cuMemHostGetFlags(unsigned int *flags, void *host)
{
    API_CALL(API_CONTEXT, host_flags(flags, host));
}

/* ---- attributes of a pointer --------------------------------------------------------------------------- */
enum { /* CUpointer_attribute */
       ASK_CONTEXT = 1,
       ASK_TYPE,
       ASK_DEVICE_POINTER,
       ASK_HOST_POINTER,
       ASK_P2P,
       ASK_SYNC,
       ASK_BUFFER,
       ASK_MANAGED,
       ASK_ORDINAL,
       ASK_LEGACY_IPC,
       ASK_START,
       ASK_SIZE,
       ASK_MAPPED,
       ASK_HANDLES,
       ASK_RDMA,
       ASK_ACCESS,
       ASK_POOL
};
enum { TYPE_HOST = 1, TYPE_DEVICE = 2 }; /* CUmemorytype */

/* Each attribute has its own type; the caller's memory may be misaligned. */
static void put_u32(void *to, uint32_t value) { memcpy(to, &value, sizeof value); }
static void put_u64(void *to, uint64_t value) { memcpy(to, &value, sizeof value); }
static void put_bool(void *to, bool value) { *(unsigned char *)to = value; }

static api_result pointer_attribute(void *value, unsigned int number, api_address address,
                                    const struct emu_allocation *a)
{
    const struct api_context *context = (const struct api_context *)a->context;
    bool                      host = a->kind == EMU_MEMORY_HOST, managed = a->kind == EMU_MEMORY_MANAGED;
    switch (number) {
    case ASK_CONTEXT:
        put_u64(value, (uint64_t)(uintptr_t)context);
        return API_OK;
    case ASK_TYPE:
        put_u32(value, host ? TYPE_HOST : TYPE_DEVICE);
        return API_OK;
    case ASK_DEVICE_POINTER:
        put_u64(value, address);
        return API_OK;
    case ASK_HOST_POINTER:
        put_u64(value, host || managed ? address : 0);
        return host || managed ? API_OK : API_INVALID_VALUE;
    case ASK_SYNC:
        put_u32(value, 1);
        return API_OK;
    case ASK_BUFFER:
        put_u64(value, a->id);
        return API_OK;
    case ASK_MANAGED:
        put_bool(value, managed);
        return API_OK;
    case ASK_ORDINAL:
        put_u32(value, context != NULL ? (uint32_t)context->device->ordinal : 0);
        return API_OK;
    case ASK_LEGACY_IPC:
        put_bool(value, false);
        return API_OK;
    case ASK_START:
        put_u64(value, a->address);
        return API_OK;
    case ASK_SIZE:
        put_u64(value, a->bytes);
        return API_OK;
    case ASK_MAPPED:
        put_bool(value, true);
        return API_OK;
    case ASK_HANDLES:
        put_u64(value, 0);
        return API_OK;
    case ASK_RDMA:
        put_bool(value, false);
        return API_OK;
    case ASK_ACCESS:
        put_u32(value, 3);
        return API_OK; /* read and write */
    case ASK_POOL:
        put_u64(value, 0);
        return API_OK;
    default:
        return API_INVALID_VALUE;
    }
}

/* The result of cuPointerGetAttributes for memory that the driver does not know. */
static api_result foreign_attribute(void *value, unsigned int number, api_address address)
{
    switch (number) {
    case ASK_TYPE:
    case ASK_SYNC:
    case ASK_ACCESS:
        put_u32(value, 0);
        return API_OK;
    case ASK_ORDINAL:
        put_u32(value, (uint32_t)-2);
        return API_OK;
    case ASK_MANAGED:
    case ASK_LEGACY_IPC:
    case ASK_MAPPED:
    case ASK_RDMA:
        put_bool(value, false);
        return API_OK;
    case ASK_HOST_POINTER:
        put_u64(value, address);
        return API_OK;
    case ASK_START:
    case ASK_SIZE:
        return API_OK; /* left unchanged */
    case ASK_CONTEXT:
    case ASK_DEVICE_POINTER:
    case ASK_BUFFER:
    case ASK_HANDLES:
    case ASK_POOL:
        put_u64(value, 0);
        return API_OK;
    default:
        return API_INVALID_VALUE;
    }
}

static api_result one_attribute(void *value, unsigned int number, api_address address)
{
    struct emu_allocation found;
    API_WANT(value && emu_arena_find(address, &found), API_INVALID_VALUE);
    return pointer_attribute(value, number, address, &found);
}

static api_result all_attributes(unsigned int count, const unsigned int *numbers, void **values,
                                 api_address address)
{
    struct emu_allocation found;
    API_WANT(count && numbers && values, API_INVALID_VALUE);
    bool known = emu_arena_find(address, &found);
    for (unsigned int i = 0; i < count; i++) {
        API_WANT(values[i], API_INVALID_VALUE);
        api_result r = known ? pointer_attribute(values[i], numbers[i], address, &found)
                             : foreign_attribute(values[i], numbers[i], address);
        if (r != API_OK && numbers[i] != ASK_HOST_POINTER)
            return r;
    }
    return API_OK;
}

api_result cuPointerGetAttribute(void *value, unsigned int attribute, api_address address)
{
    API_CALL(API_INIT, one_attribute(value, attribute, address));
}
api_result cuPointerGetAttributes(unsigned int count, unsigned int *attributes, void **values,
                                  api_address address)
{
    API_CALL(API_INIT, all_attributes(count, attributes, values, address));
}
