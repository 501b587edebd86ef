/* memory.c - allocating memory, sharing it with other processes, and queries about addresses. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include "api.h"
#include "tools/emu/ipc/handle.h"
#include "tools/emu/judge/report.h"
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
static bool is_device(int kind)
{
    return kind == EMU_MEMORY_DEVICE || kind == EMU_MEMORY_POOL || kind == EMU_MEMORY_MANAGED;
}

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
    const bool of_device = kind == EMU_MEMORY_DEVICE || kind == EMU_MEMORY_POOL; /* alone */
    if (of_device)
        emu_arena_place(*address, api_device_bit(device));
    if (is_device(kind)) {
        context->used += bytes;
        device->used += bytes;
    }
    if (!of_device)
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
    api_work_ended(context); /* any context of the process may free it */
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

api_result cuMemAlloc_v2(api_address *address, size_t bytes)
{
    API_CALL(API_CONTEXT | API_UNSAFE, alloc(call.context, EMU_MEMORY_DEVICE, address, bytes));
}

api_result cuMemAllocPitch_v2(api_address *address, size_t *pitch, size_t width, size_t height,
                              unsigned int element)
{
    API_ENTER(API_CONTEXT | API_UNSAFE);
    enum { ROW = 512 };
    API_WANT(pitch && width && height && width <= SIZE_MAX - ROW, API_INVALID_VALUE);
    API_WANT(element == 4 || element == 8 || element == 16, API_INVALID_VALUE);
    size_t row = (width + ROW - 1) / ROW * ROW;
    API_WANT(height <= SIZE_MAX / row, API_OUT_OF_MEMORY);
    API_TRY(alloc(call.context, EMU_MEMORY_DEVICE, address, row * height));
    *pitch = row;
    return API_OK;
}

api_result cuMemAllocManaged(api_address *address, size_t bytes, unsigned int flags)
{
    API_ENTER(API_CONTEXT | API_UNSAFE);
    API_WANT(flags == 1 || flags == 2, API_INVALID_VALUE); /* attach to all, or to the host */
    return alloc(call.context, EMU_MEMORY_MANAGED, address, bytes);
}

api_result cuMemAllocAsync(api_address *address, size_t bytes, struct CUstream_st *handle)
{
    API_ENTER(API_CONTEXT);
    struct api_stream *stream = NULL;
    API_TRY(api_stream_get(call.context, handle, &stream));
    API_WANT(!stream->capture, API_STREAM_CAPTURE_UNSUPPORTED);
    return alloc(call.context, EMU_MEMORY_POOL, address, bytes);
}

/* Freeing waits for the work of the context that owns the memory, as a GPU does. */
static void finish_owner(uint64_t address)
{
    struct emu_allocation found;
    if (emu_arena_find(address, &found) && found.context != NULL)
        api_finish_context((struct api_context *)found.context);
}

api_result cuMemFree_v2(api_address address)
{
    API_ENTER(API_CONTEXT | API_UNSAFE);
    finish_owner(address);
    return api_memory_free(call.context, address);
}

api_result cuMemFreeAsync(api_address address, struct CUstream_st *handle)
{
    API_ENTER(API_CONTEXT);
    struct api_stream *stream = NULL;
    API_TRY(api_stream_get(call.context, handle, &stream));
    API_WANT(!stream->capture, API_STREAM_CAPTURE_UNSUPPORTED);
    struct api_work work = {.kind = API_WORK_FREE, .context = call.context, .as.value.address = address};
    return api_stream_busy(stream) ? api_enqueue(stream, &work) : api_memory_free(call.context, address);
}

api_result cuMemAllocHost_v2(void **address, size_t bytes)
{
    API_CALL(API_CONTEXT | API_UNSAFE, alloc_host(call.context, address, bytes, 0));
}
api_result cuMemHostAlloc(void **address, size_t bytes, unsigned int flags)
{
    API_CALL(API_CONTEXT | API_UNSAFE, alloc_host(call.context, address, bytes, flags));
}

api_result cuMemFreeHost(void *address)
{
    API_ENTER(API_CONTEXT | API_UNSAFE);
    finish_owner((uint64_t)(uintptr_t)address);
    return address != NULL ? free_kind((uint64_t)(uintptr_t)address, false) : API_OK;
}

/* ---- memory of other processes ------------------------------------------------------------------------- */
/* Memory that a context has opened. */
struct import {
    struct api_handle handle;
    struct ipc_handle name;
    uint64_t          address;
    unsigned int      references;
    uint32_t          peer; /* bit of the device to which opening it has given access; 0: none */
};
static bool is_shared;

bool api_memory_is_shared(void) { return is_shared; }

/* Pools have other handles, and memory of other processes is not handed on. */
static bool can_export(const struct emu_allocation *a)
{
    return a->kind == EMU_MEMORY_DEVICE && a->context != NULL;
}

api_result cuIpcGetMemHandle(struct CUipcMemHandle_st *handle, api_address address)
{
    API_ENTER(API_CONTEXT);
    struct emu_allocation found;
    struct ipc_handle     name;
    API_WANT(handle && emu_arena_find(address, &found) && can_export(&found), API_INVALID_VALUE);
    const struct api_context *owner = (const struct api_context *)found.context;
    const int                 file = emu_arena_share(address);
    if (file < 0 || !ipc_handle_make(&name, IPC_MEMORY, file, owner->device->ordinal, found.id, found.bytes)) {
        report_line(api_settings(), "no handle for %llu bytes of memory: %s", (unsigned long long)found.bytes,
                    strerror(errno));
        return API_OUT_OF_MEMORY;
    }
    memcpy(handle->reserved, &name, sizeof handle->reserved);
    is_shared = true;
    return API_OK;
}

void api_report_unopened(const char *what, int process)
{
    if (errno == ENOENT)
        report_line(api_settings(), "the handle names %s of process %d, which has ended or has deleted it",
                    what, process);
    else
        report_line(api_settings(), "%s of process %d cannot be opened: %s", what, process, strerror(errno));
}

static struct import *next_import(const struct import *after)
{
    return (struct import *)api_handle_next(API_KIND_IMPORT, after != NULL ? &after->handle : NULL);
}

static void release_import(struct api_handle *h) { emu_arena_free(((struct import *)h)->address); }

/* Maps the memory, as memory of the device that it has in its process. */
static api_result import(struct api_context *context, const struct ipc_handle *name, struct import **made)
{
    const struct api_device *device = api_device(name->device);
    uint32_t                 enabled = 0;
    API_WANT(device, API_INVALID_DEVICE);
    API_TRY(api_peer_enable(context, device, &enabled));
    const int      file = ipc_handle_open(name, emu_arena_file_bytes(name->bytes));
    const uint64_t address = file >= 0 ? emu_arena_map(file, name->bytes, context) : 0;
    struct import *i = address ? (struct import *)api_handle_new(API_KIND_IMPORT, sizeof *i, context, NULL,
                                                                 release_import)
                               : NULL;
    if (file < 0)
        api_report_unopened("memory", name->process);
    else
        close(file);
    if (i == NULL) {
        emu_arena_free(address);
        context->peers &= ~enabled;
        return file < 0 ? API_INVALID_VALUE : address ? API_OUT_OF_MEMORY : API_MAP_FAILED;
    }
    emu_arena_place(address, api_device_bit(device));
    *i = (struct import){i->handle, *name, address, 0, enabled};
    *made = i;
    return API_OK;
}

/* One context of each device opens the memory that another process has on one of its devices. */
static api_result open_memory(struct api_context *context, api_address *address,
                              const struct CUipcMemHandle_st *handle, unsigned int flags)
{
    enum { LAZY_ENABLE_PEER_ACCESS = 1 };
    struct ipc_handle name;
    struct import    *open = NULL;
    API_WANT(address && flags == LAZY_ENABLE_PEER_ACCESS, API_INVALID_VALUE);
    API_WANT(ipc_handle_read(&name, IPC_MEMORY, handle->reserved), API_INVALID_VALUE);
    API_WANT(!ipc_handle_is_own(&name), API_INVALID_CONTEXT);
    for (struct import *i = next_import(NULL); i != NULL; i = next_import(i)) {
        const struct api_context *by = i->handle.context;
        API_WANT(by == context || by->device != context->device || i->name.process != name.process ||
                     i->name.device != name.device,
                 API_INVALID_CONTEXT);
        if (by == context && ipc_handle_same(&i->name, &name))
            open = i;
    }
    if (open == NULL)
        API_TRY(import(context, &name, &open));
    open->references++;
    *address = open->address;
    is_shared = true;
    return API_OK;
}

static struct import *import_at(uint64_t address)
{
    struct import *i = next_import(NULL);
    while (i != NULL && i->address != address)
        i = next_import(i);
    return i;
}

/* Access that it has given goes with the last memory that needs it. */
static void close_memory(struct import *closed)
{
    struct import *i = next_import(NULL);
    while (i != NULL && (i == closed || i->handle.context != closed->handle.context ||
                         i->name.device != closed->name.device))
        i = next_import(i);
    if (i != NULL)
        i->peer |= closed->peer;
    else
        closed->handle.context->peers &= ~closed->peer;
    api_work_ended(closed->handle.context);
    api_handle_delete(&closed->handle);
}

api_result cuIpcOpenMemHandle(api_address *address, struct CUipcMemHandle_st handle, unsigned int flags)
{
    API_CALL(API_CONTEXT, open_memory(call.context, address, &handle, flags));
}
api_result cuIpcOpenMemHandle_v2(api_address *address, struct CUipcMemHandle_st handle, unsigned int flags)
{
    API_CALL(API_CONTEXT, open_memory(call.context, address, &handle, flags));
}

api_result cuIpcCloseMemHandle(api_address address)
{
    API_ENTER(API_CONTEXT | API_UNSAFE);
    API_WANT(import_at(address), API_INVALID_VALUE);
    if (import_at(address)->references == 1)
        finish_owner(address);
    struct import *i = import_at(address);
    API_WANT(i, API_INVALID_VALUE); /* another thread has closed it meanwhile */
    if (--i->references == 0)
        close_memory(i);
    return API_OK;
}

/* ---- queries ------------------------------------------------------------------------------------------- */
static bool find_host(const void *host, struct emu_allocation *found)
{
    return host != NULL && emu_arena_find((uint64_t)(uintptr_t)host, found) && found->kind == EMU_MEMORY_HOST;
}

api_result cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    API_ENTER(API_CONTEXT);
    API_WANT(free_bytes && total, API_INVALID_VALUE);
    *total = (size_t)api_settings()->memory_bytes;
    uint64_t all = emu_arena_used(),
             used = call.context->device->used; /* `all`: also modules and pinned memory */
    used = api_settings()->device_count == 1 && all > used ? all : used;
    *free_bytes = used < *total ? *total - (size_t)used : 0;
    return API_OK;
}

api_result cuMemGetAddressRange_v2(api_address *base, size_t *bytes, api_address address)
{
    API_ENTER(API_CONTEXT);
    struct emu_allocation found;
    API_WANT(emu_arena_find(address, &found), API_NOT_FOUND);
    if (base != NULL)
        *base = found.address;
    if (bytes != NULL)
        *bytes = (size_t)found.bytes;
    return API_OK;
}

api_result cuMemHostGetDevicePointer_v2(api_address *device, void *host, unsigned int flags)
{
    API_ENTER(API_CONTEXT);
    struct emu_allocation found;
    API_WANT(device && flags == 0, API_INVALID_VALUE);
    *device = 0;
    API_WANT(find_host(host, &found), API_INVALID_VALUE);
    *device = (api_address)(uintptr_t)host;
    return API_OK;
}

api_result cuMemHostGetFlags(unsigned int *flags, void *host)
{
    API_ENTER(API_CONTEXT);
    enum { DEVICE_MAP = 2 };
    struct emu_allocation found;
    API_WANT(flags && find_host(host, &found), API_INVALID_VALUE);
    *flags = DEVICE_MAP;
    return API_OK;
}

/* ---- attributes of a pointer --------------------------------------------------------------------------- */
/* clang-format off */
enum { /* CUpointer_attribute */
    ASK_CONTEXT = 1, ASK_TYPE, ASK_DEVICE_POINTER, ASK_HOST_POINTER, ASK_P2P, ASK_SYNC, ASK_BUFFER,
    ASK_MANAGED, ASK_ORDINAL, ASK_LEGACY_IPC, ASK_START, ASK_SIZE, ASK_MAPPED, ASK_HANDLES, ASK_RDMA,
    ASK_ACCESS, ASK_POOL
};
/* clang-format on */
enum { TYPE_HOST = 1, TYPE_DEVICE = 2 }; /* CUmemorytype */

/* The values of attributes by number, with their size; bytes 0: there is no such attribute. */
struct answer {
    uint64_t value;
    size_t   bytes;
};
enum { INT = 4, POINTER = 8, BOOL = 1 };

/* The caller's memory may be misaligned; the host is little-endian. */
static api_result give(void *to, const struct answer answers[ASK_POOL + 1], unsigned int number)
{
    API_WANT(number <= ASK_POOL && answers[number].bytes, API_INVALID_VALUE);
    memcpy(to, &answers[number].value, answers[number].bytes);
    return API_OK;
}

static api_result pointer_attribute(void *value, unsigned int number, api_address address,
                                    const struct emu_allocation *a)
{
    enum { READ_AND_WRITE = 3 };
    const struct api_context *context = (const struct api_context *)a->context;
    bool                      host = a->kind == EMU_MEMORY_HOST, managed = a->kind == EMU_MEMORY_MANAGED;
    const struct answer       answers[ASK_POOL + 1] = {
              [ASK_CONTEXT] = {(uintptr_t)context, POINTER},
              [ASK_TYPE] = {host ? TYPE_HOST : TYPE_DEVICE, INT},
              [ASK_DEVICE_POINTER] = {address, POINTER},
              [ASK_HOST_POINTER] = {host || managed ? address : 0, POINTER},
              [ASK_SYNC] = {1, INT},
              [ASK_BUFFER] = {a->id, POINTER},
              [ASK_MANAGED] = {managed, BOOL},
              [ASK_ORDINAL] = {a->device != 0    ? (uint32_t)__builtin_ctz(a->device)
                               : context != NULL ? (uint32_t)context->device->ordinal
                                                 : 0,
                               INT},
              [ASK_LEGACY_IPC] = {can_export(a), BOOL},
              [ASK_START] = {a->address, POINTER},
              [ASK_SIZE] = {a->bytes, POINTER},
              [ASK_MAPPED] = {true, BOOL},
              [ASK_HANDLES] = {0, POINTER},
              [ASK_RDMA] = {false, BOOL},
              [ASK_ACCESS] = {READ_AND_WRITE, INT},
              [ASK_POOL] = {0, POINTER},
    };
    api_result result = give(value, answers, number);
    return number == ASK_HOST_POINTER && !host && !managed ? API_INVALID_VALUE : result;
}

/* The result of cuPointerGetAttributes for memory that the driver does not know. */
static api_result foreign_attribute(void *value, unsigned int number, api_address address)
{
    const struct answer answers[ASK_POOL + 1] = {
        [ASK_CONTEXT] = {0, POINTER}, [ASK_TYPE] = {0, INT},        [ASK_DEVICE_POINTER] = {0, POINTER},
        [ASK_SYNC] = {0, INT},        [ASK_BUFFER] = {0, POINTER},  [ASK_HOST_POINTER] = {address, POINTER},
        [ASK_MANAGED] = {0, BOOL},    [ASK_LEGACY_IPC] = {0, BOOL}, [ASK_ORDINAL] = {(uint32_t)-2, INT},
        [ASK_MAPPED] = {0, BOOL},     [ASK_HANDLES] = {0, POINTER}, [ASK_RDMA] = {0, BOOL},
        [ASK_ACCESS] = {0, INT},      [ASK_POOL] = {0, POINTER},
    };
    bool unchanged = number == ASK_START || number == ASK_SIZE;
    return unchanged ? API_OK : give(value, answers, number);
}

api_result cuPointerGetAttribute(void *value, unsigned int attribute, api_address address)
{
    API_ENTER(API_INIT);
    struct emu_allocation found;
    API_WANT(value && emu_arena_find(address, &found), API_INVALID_VALUE);
    return pointer_attribute(value, attribute, address, &found);
}

api_result cuPointerGetAttributes(unsigned int count, unsigned int *attributes, void **values,
                                  api_address address)
{
    API_ENTER(API_INIT);
    struct emu_allocation found;
    API_WANT(count && attributes && values, API_INVALID_VALUE);
    bool known = emu_arena_find(address, &found);
    for (unsigned int i = 0; i < count; i++) {
        API_WANT(values[i], API_INVALID_VALUE);
        api_result r = known ? pointer_attribute(values[i], attributes[i], address, &found)
                             : foreign_attribute(values[i], attributes[i], address);
        if (r != API_OK && attributes[i] != ASK_HOST_POINTER)
            return r;
    }
    return API_OK;
}
