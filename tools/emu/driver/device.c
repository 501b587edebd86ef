/* device.c - devices: their names and attributes.
 *
 * The settings choose the GPU, by default an sm_90 with 4 multiprocessors and 4 GiB.  Attributes are those of a
 * GPU of that architecture, from the tables of compute capabilities.  They are 0 for what the emulated driver
 * does not support (textures, memory pools, peers, virtual memory management). */
#include <stdio.h>
#include "api.h"

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
    {120, 2407000, 14001000, 512, 96 << 20, 64, 2},
};

static const struct model *model_of(int sm)
{
    size_t i = 0;
    while (models[i].sm != sm) /* settings.c refuses all others */
        i++;
    return &models[i];
}

/* Attributes that are the same on all GPUs: number and value. */
static const struct {
    unsigned int attribute;
    int          value;
} constants[] = {
    {1, 1024},       {2, 1024},  {3, 1024},        {4, 64}, /* threads of a block, and its extents */
    {5, 0x7fffffff}, {6, 65535}, {7, 65535},                /* grid */
    {9, 65536},      {10, 32},   {11, 0x7fffffff},          /* constant memory, warp, pitch */
    {12, 65536},     {14, 512},  {15, 1},          {17, 0},  {18, 0},  {19, 1},     {20, 0},   {21, 0},
    {22, 0},         {23, 0},    {24, 0},          {25, 0},  {26, 0},  {27, 0},     {28, 0},   {29, 0},
    {30, 512},       {31, 1},    {32, 1},          {34, 0},  {35, 0}, /* concurrent kernels, ECC */
    {41, 1},                                                          /* unified addressing */
    {42, 0},         {43, 0},    {44, 0},          {45, 0},  {46, 0},  {47, 0},     {48, 0},   {49, 0},
    {50, 0},         {51, 32},   {52, 0},          {53, 0},  {54, 0},  {55, 0},     {56, 0},   {57, 0},
    {58, 0},         {59, 0},    {60, 0},          {61, 0},  {62, 0},  {63, 0},     {64, 0},   {65, 0},
    {66, 0},         {67, 0},    {68, 0},          {69, 0},  {70, 0},  {71, 0},     {72, 0},   {73, 0},
    {74, 0},         {77, 0},    {78, 1},          {79, 1},  {80, 1},  {82, 65536}, {83, 1},   {84, 0},
    {86, 0},         {88, 0},    {89, 1},          {90, 1},  {91, 1},  {92, 0},     {93, 0},   {94, 0},
    {95, 1},         {96, 0},    {98, 0},          {99, 0},  {100, 0}, {101, 0},    {102, 0},  {103, 0},
    {104, 0},        {105, 0},   {107, 0},         {108, 0}, {109, 0}, {110, 0},    {112, 0},  {113, 0},
    {114, 0},        {115, 0},   {116, 0},         {117, 0}, {118, 0}, {119, 0},    {121, 0},  {122, 0},
    {123, 0},        {124, 0},   {125, 0},         {128, 0}, {129, 1}, {130, 0},    {131, -1}, {132, 0},
    {133, 0},        {134, 0},   {135, 0},         {136, 0}, {137, 0}, {138, 0},    {139, 0},  {140, 0},
    {141, 0},        {142, 0},   {143, 0},         {144, 0}, {145, 0}, {146, 0},    {147, 0},
};

static api_result attribute(const struct api_device *device, unsigned int number, int *value)
{
    const struct emu_settings *s = api_settings();
    const struct model        *m = model_of(s->sm);
    switch (number) {
    case 8:
        *value = (int)s->shared_default;
        return API_OK;
    case 13:
        *value = m->clock;
        return API_OK;
    case 16:
        *value = s->sm_count;
        return API_OK;
    case 33:
        *value = device->ordinal + 1;
        return API_OK;
    case 36:
        *value = m->memory_clock;
        return API_OK;
    case 37:
        *value = m->bus_width;
        return API_OK;
    case 38:
        *value = m->l2;
        return API_OK;
    case 39:
        *value = (int)s->threads_per_sm;
        return API_OK;
    case 40:
        *value = m->copy_engines;
        return API_OK;
    case 75:
        *value = s->sm / 10;
        return API_OK;
    case 76:
        *value = s->sm % 10;
        return API_OK;
    case 81:
        *value = (int)s->shared_per_sm;
        return API_OK;
    case 85:
        *value = device->ordinal;
        return API_OK;
    case 87:
        *value = m->single_to_double;
        return API_OK;
    case 97:
        *value = (int)s->shared_opt_in;
        return API_OK;
    case 106:
        *value = (int)s->blocks_per_sm;
        return API_OK;
    case 111:
        *value = (int)s->shared_reserved;
        return API_OK;
    case 120:
        *value = s->sm >= 90;
        return API_OK;
    case 126:
        *value = s->sm >= 90 ? 4 : 1;
        return API_OK;
    case 127:
        *value = s->sm >= 90;
        return API_OK;
    default:
        break;
    }
    for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++)
        if (constants[i].attribute == number) {
            *value = constants[i].value;
            return API_OK;
        }
    return API_INVALID_VALUE;
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

static api_result properties_of(struct CUdevprop_st *p, int device)
{
    API_WANT(p, API_INVALID_VALUE);
    API_WANT(api_device(device), API_INVALID_DEVICE);
    *p = (struct CUdevprop_st){.maxThreadsPerBlock = 1024,
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

api_result cuDeviceGetProperties(struct CUdevprop_st *properties, int device)
{
    API_CALL(API_INIT, properties_of(properties, device));
}

static api_result capability_of(int *major, int *minor, int device)
{
    API_WANT(major && minor, API_INVALID_VALUE);
    API_TRY(device_attribute(major, 75, device));
    return device_attribute(minor, 76, device);
}

api_result cuDeviceComputeCapability(int *major, int *minor, int device)
{
    API_CALL(API_INIT, capability_of(major, minor, device));
}

/* ---- the devices --------------------------------------------------------------------------------------- */
static api_result count_of(int *count)
{
    API_WANT(count, API_INVALID_VALUE);
    *count = api_settings()->device_count;
    return API_OK;
}

api_result cuDeviceGetCount(int *count) { API_CALL(API_INIT, count_of(count)); }

static api_result device_get(int *device, int ordinal)
{
    API_WANT(device, API_INVALID_VALUE);
    API_WANT(api_device(ordinal), API_INVALID_DEVICE);
    *device = ordinal;
    return API_OK;
}

api_result cuDeviceGet(int *device, int ordinal) { API_CALL(API_INIT, device_get(device, ordinal)); }

static api_result name_of(char *name, int bytes, int device)
{
    API_WANT(name && bytes > 0, API_INVALID_VALUE);
    API_WANT(api_device(device), API_INVALID_DEVICE);
    snprintf(name, (size_t)bytes, "ptxpack emulated GPU (sm_%d)", api_settings()->sm);
    return API_OK;
}

api_result cuDeviceGetName(char *name, int bytes, int device)
{
    API_CALL(API_INIT, name_of(name, bytes, device));
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

static api_result total_of(size_t *bytes, int device)
{
    API_WANT(bytes, API_INVALID_VALUE);
    API_WANT(api_device(device), API_INVALID_DEVICE);
    *bytes = (size_t)api_settings()->memory_bytes;
    return API_OK;
}

api_result cuDeviceTotalMem_v2(size_t *bytes, int device) { API_CALL(API_INIT, total_of(bytes, device)); }

static api_result bus_id_of(char *text, int bytes, int device)
{
    API_WANT(text && bytes > 0, API_INVALID_VALUE);
    API_WANT(api_device(device), API_INVALID_DEVICE);
    snprintf(text, (size_t)bytes, "0000:%02X:00.0", (unsigned int)device + 1);
    return API_OK;
}

api_result cuDeviceGetPCIBusId(char *text, int bytes, int device)
{
    API_CALL(API_INIT, bus_id_of(text, bytes, device));
}

static api_result device_at(int *device, const char *text)
{
    unsigned int domain = 0, bus = 0, slot = 0;
    API_WANT(device && text, API_INVALID_VALUE);
    if (sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3 && sscanf(text, "%x:%x", &bus, &slot) != 2)
        return API_INVALID_VALUE;
    API_WANT(domain == 0 && slot == 0 && bus <= MOST_DEVICES && api_device((int)bus - 1), API_INVALID_DEVICE);
    *device = (int)bus - 1;
    return API_OK;
}

api_result cuDeviceGetByPCIBusId(int *device, const char *text) { API_CALL(API_INIT, device_at(device, text)); }

static api_result peers(int *can, int device, int peer)
{
    API_WANT(can, API_INVALID_VALUE);
    API_WANT(api_device(device) && api_device(peer), API_INVALID_DEVICE);
    *can = 0;
    return API_OK;
}

api_result cuDeviceCanAccessPeer(int *can, int device, int peer)
{
    API_CALL(API_INIT, peers(can, device, peer));
}
