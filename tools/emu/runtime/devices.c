/* devices.c - versions, devices and their properties. */
#include <string.h>
#include "runtime.h"

enum { VERSION = 13000 };
static _Thread_local int current; /* device of this thread */

/* ---- versions and devices ------------------------------------------------------------------------------ */
runtime_result runtime_ready(int *device)
{
    struct CUctx_st *context = NULL;
    runtime_result   result = cuInit(0);
    if (device != NULL)
        *device = current;
    if (result == RUNTIME_OK)
        result = cuCtxGetCurrent(&context);
    if (result != RUNTIME_OK || context != NULL)
        return result;
    result = cuDevicePrimaryCtxRetain(&context, current);
    return result == RUNTIME_OK ? cuCtxSetCurrent(context) : result;
}

runtime_result cudaDriverGetVersion(int *version) { return runtime_end(cuDriverGetVersion(version)); }

runtime_result cudaRuntimeGetVersion(int *version)
{
    if (version == NULL)
        return runtime_end(RUNTIME_INVALID_VALUE);
    *version = VERSION;
    return RUNTIME_OK;
}

runtime_result cudaGetDeviceCount(int *count)
{
    RUNTIME_TRY(cuInit(0));
    return runtime_end(cuDeviceGetCount(count));
}

runtime_result cudaGetDevice(int *device)
{
    if (device == NULL)
        return runtime_end(RUNTIME_INVALID_VALUE);
    *device = current;
    return RUNTIME_OK;
}

runtime_result cudaSetDevice(int device)
{
    int              count = 0;
    struct CUctx_st *context = NULL;
    RUNTIME_TRY(cudaGetDeviceCount(&count));
    RUNTIME_TRY(device < 0 || device >= count ? (runtime_result)RUNTIME_INVALID_DEVICE : RUNTIME_OK);
    RUNTIME_TRY(cuDevicePrimaryCtxRetain(&context, device));
    RUNTIME_TRY(cuCtxSetCurrent(context));
    current = device;
    return RUNTIME_OK;
}

runtime_result cudaDeviceGetAttribute(int *value, unsigned int attribute, int device)
{
    RUNTIME_TRY(cuInit(0));
    return runtime_end(cuDeviceGetAttribute(value, attribute, device));
}

runtime_result cudaDeviceGetPCIBusId(char *text, int bytes, int device)
{
    RUNTIME_TRY(cuInit(0));
    return runtime_end(cuDeviceGetPCIBusId(text, bytes, device));
}
runtime_result cudaDeviceGetByPCIBusId(int *device, const char *text)
{
    RUNTIME_TRY(cuInit(0));
    return runtime_end(cuDeviceGetByPCIBusId(device, text));
}
runtime_result cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    RUNTIME_TRY(cuInit(0));
    return runtime_end(cuDeviceCanAccessPeer(can, device, peer));
}
runtime_result cudaDeviceGetLimit(size_t *value, unsigned int limit)
{
    RUNTIME_CALL(cuCtxGetLimit(value, limit));
}
runtime_result cudaDeviceSetLimit(unsigned int limit, size_t value)
{
    RUNTIME_CALL(cuCtxSetLimit(limit, value));
}
runtime_result cudaProfilerStart(void) { RUNTIME_CALL(cuProfilerStart()); }
runtime_result cudaProfilerStop(void) { RUNTIME_CALL(cuProfilerStop()); }

runtime_result cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    RUNTIME_CALL(cuCtxGetStreamPriorityRange(least, greatest));
}

runtime_result cudaDeviceSynchronize(void) { RUNTIME_CALL(cuCtxSynchronize()); }

runtime_result cudaDeviceReset(void)
{
    RUNTIME_TRY(cuInit(0));
    RUNTIME_TRY(cuCtxSetCurrent(NULL));
    return runtime_end(cuDevicePrimaryCtxReset_v2(current));
}

/* ---- properties ---------------------------------------------------------------------------------------- */
/* The fields of CUDA 13's struct that are filled in, by their place in it; all others are 0. */
enum { PROPERTIES_BYTES = 1008, NAME_BYTES = 256, UUID = 256, TOTAL_MEMORY = 288 };
static const struct {
    unsigned short offset, bytes, attribute; /* CUdevice_attribute */
} fields[] = {
    {296, 8, 8},                             /* sharedMemPerBlock */
    {304, 4, 12},                            /* regsPerBlock */
    {308, 4, 10},                            /* warpSize */
    {312, 8, 11},                            /* memPitch */
    {320, 4, 1},                             /* maxThreadsPerBlock */
    {324, 4, 2},                             /* maxThreadsDim */
    {328, 4, 3},   {332, 4, 4}, {336, 4, 5}, /* maxGridSize */
    {340, 4, 6},   {344, 4, 7}, {352, 8, 9}, /* totalConstMem */
    {360, 4, 75},                            /* major */
    {364, 4, 76},                            /* minor */
    {368, 8, 14},                            /* textureAlignment */
    {384, 4, 16},                            /* multiProcessorCount */
    {388, 4, 18},                            /* integrated */
    {392, 4, 19},                            /* canMapHostMemory */
    {560, 4, 31},                            /* concurrentKernels */
    {564, 4, 32},                            /* ECCEnabled */
    {568, 4, 33},                            /* pciBusID */
    {572, 4, 34},                            /* pciDeviceID */
    {576, 4, 50},                            /* pciDomainID */
    {584, 4, 40},                            /* asyncEngineCount */
    {588, 4, 41},                            /* unifiedAddressing */
    {592, 4, 37},                            /* memoryBusWidth */
    {596, 4, 38},                            /* l2CacheSize */
    {604, 4, 39},                            /* maxThreadsPerMultiProcessor */
    {608, 4, 78},                            /* streamPrioritiesSupported */
    {624, 8, 81},                            /* sharedMemPerMultiprocessor */
    {632, 4, 82},                            /* regsPerMultiprocessor */
    {636, 4, 83},                            /* managedMemory */
    {668, 4, 95},                            /* cooperativeLaunch */
    {672, 8, 97},                            /* sharedMemPerBlockOptin */
    {688, 4, 106},                           /* maxBlocksPerMultiProcessor */
    {696, 8, 111},                           /* reservedSharedMemPerBlock */
};

runtime_result cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    char  *at = (char *)properties;
    size_t memory = 0;
    RUNTIME_TRY(at == NULL ? (runtime_result)RUNTIME_INVALID_VALUE : cuInit(0));
    memset(at, 0, PROPERTIES_BYTES);
    RUNTIME_TRY(cuDeviceGetName(at, NAME_BYTES, device));
    RUNTIME_TRY(cuDeviceGetUuid_v2((struct CUuuid_st *)(void *)(at + UUID), device));
    RUNTIME_TRY(cuDeviceTotalMem_v2(&memory, device));
    memcpy(at + TOTAL_MEMORY, &memory, sizeof memory);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        int value = 0;
        RUNTIME_TRY(cuDeviceGetAttribute(&value, fields[i].attribute, device));
        size_t wide = (size_t)value;
        memcpy(at + fields[i].offset, &wide, fields[i].bytes); /* little-endian */
    }
    return RUNTIME_OK;
}
