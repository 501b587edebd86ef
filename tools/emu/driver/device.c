/* device.c - devices: their names and attributes, and access to each other's memory.
 *
 * The settings choose the GPU, by default an sm_90 with 4 multiprocessors and 4 GiB.  Attributes are those of a
 * GPU of that architecture, from the tables of compute capabilities.  They are 0 for what the emulated driver
 * does not support (textures, memory pools, virtual memory management). */
#include <stdio.h>
#include "api.h"
#include "tools/emu/machine/faults.h"

enum { MOST_DEVICES = 16 };
static struct api_device devices[MOST_DEVICES];

struct api_device *api_device(int ordinal)
{
    if (ordinal < 0 || ordinal >= api_settings()->device_count || ordinal >= MOST_DEVICES)
        return NULL;
    devices[ordinal].ordinal = ordinal;
    return &devices[ordinal];
}

/* ---- attributes ---------------------------------------------------------------------------------------- */
/* The attributes that depend on the GPU. */
static const struct model {
    int sm, clock, memory_clock, bus_width, l2, single_to_double, copy_engines;
} models[] = {
    {75, 1590000, 5001000, 256, 4 << 20, 32, 3},    {80, 1410000, 1215000, 5120, 40 << 20, 2, 3},
    {86, 1695000, 7501000, 384, 6 << 20, 64, 2},    {89, 2520000, 10501000, 384, 72 << 20, 64, 2},
    {90, 1980000, 2619000, 5120, 50 << 20, 2, 3},   {100, 1965000, 3996000, 8192, 126 << 20, 2, 4},
    {120, 2407000, 14001000, 512, 96 << 20, 64, 2}, {121, 2418000, 4266000, 256, 24 << 20, 64, 2},
};

static const struct model *model_of(int sm)
{
    size_t i = 0;
    while (models[i].sm != sm) /* settings.c refuses all others */
        i++;
    return &models[i];
}

/* Attributes 1 to 147; what is not in the table is 0. */
static api_result attribute(const struct api_device *device, unsigned int number, int *value)
{
    const struct emu_settings *s = api_settings();
    const struct model        *m = model_of(s->sm);
    /* clang-format off */
    const int values[] = {
        [1] = 1024, [2] = 1024, [3] = 1024, [4] = 64, /* threads of a block, and its extents */
        [5] = 0x7fffffff, [6] = 65535, [7] = 65535,   /* grid */
        [8] = (int)s->shared_default, [9] = 65536, [10] = 32, [11] = 0x7fffffff, /* constants, warp, pitch */
        [12] = 65536, [13] = m->clock, [14] = 512, [15] = 1, [16] = s->sm_count, [19] = 1, [30] = 512,
        [31] = 1, [32] = 1, /* concurrent kernels, ECC */
        [33] = device->ordinal + 1, [36] = m->memory_clock, [37] = m->bus_width, [38] = m->l2,
        [39] = (int)s->threads_per_sm, [40] = m->copy_engines, [41] = 1, /* unified addressing */
        [51] = 32, [75] = s->sm / 10, [76] = s->sm % 10, [78] = 1, [79] = 1, [80] = 1,
        [81] = (int)s->shared_per_sm, [82] = 65536, [83] = 1, [85] = device->ordinal,
        [87] = m->single_to_double, [89] = 1, [90] = 1, [91] = 1, [92] = 1, [93] = 1, [94] = 1, /* stream memory operations */
        [95] = 1, [97] = (int)s->shared_opt_in,
        [106] = (int)s->blocks_per_sm, [111] = (int)s->shared_reserved, [120] = s->sm >= 90, [122] = 1, [123] = 1,
        [125] = 1, /* events of other processes */
        [126] = s->sm >= 90 ? 4 : 1, [127] = s->sm >= 90, [129] = 1, [131] = -1, [147] = 0,
    };
    /* clang-format on */
    API_WANT(number >= 1 && number < sizeof values / sizeof values[0], API_INVALID_VALUE);
    *value = values[number];
    return API_OK;
}

static api_result device_attribute(int *value, unsigned int number, int ordinal)
{
    const struct api_device *device = api_device(ordinal);
    API_WANT(value, API_INVALID_VALUE);
    API_WANT(device, API_INVALID_DEVICE);
    return attribute(device, number, value);
}

api_result cuDeviceGetAttribute(int *value, unsigned int number, int device)
{
    API_CALL(API_INIT, device_attribute(value, number, device));
}

api_result cuDeviceGetProperties(struct CUdevprop_st *properties, int device)
{
    API_ENTER(API_INIT);
    API_WANT(properties, API_INVALID_VALUE);
    API_WANT(api_device(device), API_INVALID_DEVICE);
    *properties = (struct CUdevprop_st){.maxThreadsPerBlock = 1024,
                                        .maxThreadsDim = {1024, 1024, 64},
                                        .maxGridSize = {0x7fffffff, 65535, 65535},
                                        .sharedMemPerBlock = (int)api_settings()->shared_default,
                                        .totalConstantMemory = 65536,
                                        .SIMDWidth = 32,
                                        .memPitch = 0x7fffffff,
                                        .regsPerBlock = 65536,
                                        .clockRate = model_of(api_settings()->sm)->clock,
                                        .textureAlign = 512};
    return API_OK;
}

api_result cuDeviceComputeCapability(int *major, int *minor, int device)
{
    API_ENTER(API_INIT);
    API_WANT(major && minor, API_INVALID_VALUE);
    API_TRY(device_attribute(major, 75, device));
    return device_attribute(minor, 76, device);
}

/* ---- the devices --------------------------------------------------------------------------------------- */
api_result cuDeviceGetCount(int *count)
{
    API_ENTER(API_INIT);
    API_WANT(count, API_INVALID_VALUE);
    *count = api_settings()->device_count;
    return API_OK;
}

api_result cuDeviceGet(int *device, int ordinal)
{
    API_ENTER(API_INIT);
    API_WANT(device, API_INVALID_VALUE);
    API_WANT(api_device(ordinal), API_INVALID_DEVICE);
    *device = ordinal;
    return API_OK;
}

api_result cuDeviceGetName(char *name, int bytes, int device)
{
    API_ENTER(API_INIT);
    API_WANT(name && bytes > 0, API_INVALID_VALUE);
    API_WANT(api_device(device), API_INVALID_DEVICE);
    snprintf(name, (size_t)bytes, "ptxpack emulated GPU (sm_%d)", api_settings()->sm);
    return API_OK;
}

static api_result uuid_of(struct CUuuid_st *uuid, int device)
{
    API_WANT(uuid, API_INVALID_VALUE);
    API_WANT(api_device(device), API_INVALID_DEVICE);
    memcpy(uuid->bytes, "ptxpack emulated", sizeof uuid->bytes);
    uuid->bytes[14] = (char)api_settings()->sm;
    uuid->bytes[15] = (char)device;
    return API_OK;
}

api_result cuDeviceGetUuid(struct CUuuid_st *uuid, int device) { API_CALL(API_INIT, uuid_of(uuid, device)); }
api_result cuDeviceGetUuid_v2(struct CUuuid_st *uuid, int device) { API_CALL(API_INIT, uuid_of(uuid, device)); }

api_result cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    API_ENTER(API_INIT);
    API_WANT(bytes, API_INVALID_VALUE);
    API_WANT(api_device(device), API_INVALID_DEVICE);
    *bytes = (size_t)api_settings()->memory_bytes;
    return API_OK;
}

api_result cuDeviceGetPCIBusId(char *text, int bytes, int device)
{
    API_ENTER(API_INIT);
    API_WANT(text && bytes > 0, API_INVALID_VALUE);
    API_WANT(api_device(device), API_INVALID_DEVICE);
    snprintf(text, (size_t)bytes, "0000:%02X:00.0", (unsigned int)device + 1);
    return API_OK;
}

api_result cuDeviceGetByPCIBusId(int *device, const char *text)
{
    API_ENTER(API_INIT);
    unsigned int domain = 0, bus = 0, slot = 0;
    API_WANT(device && text, API_INVALID_VALUE);
    if (sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3 && sscanf(text, "%x:%x", &bus, &slot) != 2)
        return API_INVALID_VALUE;
    API_WANT(domain == 0 && slot == 0 && bus <= MOST_DEVICES && api_device((int)bus - 1), API_INVALID_DEVICE);
    *device = (int)bus - 1;
    return API_OK;
}

/* ---- peers --------------------------------------------------------------------------------------------- */
/* Every device can access every other one's memory.  A kernel may do so where its context has enabled it; copies always
 * may.  Access is kept by device, not by context: a program uses one context of each device. */
static bool can_access(const struct api_device *device, const struct api_device *peer)
{
    return device != peer && !faults_now(api_settings()->faults, FAULT_NO_PEERS);
}

api_result cuDeviceCanAccessPeer(int *can, int device, int peer)
{
    API_ENTER(API_INIT);
    API_WANT(can, API_INVALID_VALUE);
    API_WANT(api_device(device) && api_device(peer), API_INVALID_DEVICE);
    *can = can_access(api_device(device), api_device(peer));
    return API_OK;
}

/* All links are equal, and carry every atomic operation. */
api_result cuDeviceGetP2PAttribute(int *value, unsigned int attribute, int device, int peer)
{
    API_ENTER(API_INIT);
    enum { PERFORMANCE_RANK = 1, ACCESS, NATIVE_ATOMICS, ARRAYS, PARTIAL_ATOMICS };
    API_WANT(value && attribute >= PERFORMANCE_RANK && attribute <= PARTIAL_ATOMICS, API_INVALID_VALUE);
    API_WANT(api_device(device) && api_device(peer) && device != peer, API_INVALID_DEVICE);
    const bool linked = attribute == ACCESS || attribute == NATIVE_ATOMICS;
    *value = linked && can_access(api_device(device), api_device(peer));
    return API_OK;
}

/* The device of the context to which access is asked for. */
static api_result peer_of(const struct api_context *context, struct CUctx_st *handle, uint32_t *bit)
{
    const struct api_context *peer = (const struct api_context *)api_handle_get(API_KIND_CONTEXT, handle);
    API_WANT(peer && peer != context, API_INVALID_CONTEXT);
    API_WANT(can_access(context->device, peer->device), API_PEER_ACCESS_UNSUPPORTED);
    *bit = api_device_bit(peer->device);
    return API_OK;
}

api_result api_peer_enable(struct api_context *context, const struct api_device *peer, uint32_t *enabled)
{
    const uint32_t bit = api_device_bit(peer);
    *enabled = 0;
    if (peer == context->device || context->peers & bit)
        return API_OK;
    API_WANT(can_access(context->device, peer), API_PEER_ACCESS_UNSUPPORTED);
    context->peers |= bit;
    *enabled = bit;
    return API_OK;
}

api_result cuCtxEnablePeerAccess(struct CUctx_st *peer, unsigned int flags)
{
    API_ENTER(API_CONTEXT);
    uint32_t bit = 0;
    API_WANT(flags == 0, API_INVALID_VALUE);
    API_TRY(peer_of(call.context, peer, &bit));
    API_WANT(!(call.context->peers & bit), API_PEER_ACCESS_ALREADY_ENABLED);
    call.context->peers |= bit;
    return API_OK;
}

api_result cuCtxDisablePeerAccess(struct CUctx_st *peer)
{
    API_ENTER(API_CONTEXT);
    uint32_t bit = 0;
    API_TRY(peer_of(call.context, peer, &bit));
    API_WANT(call.context->peers & bit, API_PEER_ACCESS_NOT_ENABLED);
    call.context->peers &= ~bit;
    return API_OK;
}

void api_peer_forget(const struct api_context *context)
{
    for (struct api_handle *h = api_handle_next(API_KIND_CONTEXT, NULL); h != NULL;
         h = api_handle_next(API_KIND_CONTEXT, h))
        ((struct api_context *)h)->peers &= ~api_device_bit(context->device);
}
