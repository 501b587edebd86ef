/* abi.c - compares the emulated driver's declarations with NVIDIA's own headers, if they are installed: a
 * difference fails the compilation.  Otherwise the test is skipped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#if __has_include(<cuda.h>) && __has_include(<cudaTypedefs.h>)
#include <cuda.h>
#include <cudaTypedefs.h>

/* First versions that the header hides; their prototypes are the same as the later ones. */
#define PFN_cuDevicePrimaryCtxRelease_v7000  PFN_cuDevicePrimaryCtxRelease_v11000
#define PFN_cuDevicePrimaryCtxReset_v7000    PFN_cuDevicePrimaryCtxReset_v11000
#define PFN_cuDevicePrimaryCtxSetFlags_v7000 PFN_cuDevicePrimaryCtxSetFlags_v11000
#define PFN_cuIpcOpenMemHandle_v4010         PFN_cuIpcOpenMemHandle_v11000
/* Types that these two headers do not declare. */
typedef CUresult (*PFN_cuProfilerStart_v4000)(void);
typedef CUresult (*PFN_cuProfilerStop_v4000)(void);
typedef CUresult (*PFN_cuGraphInstantiate_v10000)(CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t);
typedef PFN_cuGraphInstantiate_v10000 PFN_cuGraphInstantiate_v11000;

typedef unsigned int       api_result;
typedef unsigned long long api_address;
typedef void               api_stream_callback(struct CUstream_st *stream, unsigned int result, void *data);
typedef void               api_host_function(void *data);
typedef size_t             api_block_to_shared(int block);

#define API(name, suffix, version, parameters)                                                      \
    _Static_assert(__builtin_types_compatible_p(api_result(*) parameters, PFN_##name##_v##version), \
                   #name #suffix " differs from cuda.h");
#include "tools/emu/driver/api.def"
#undef API

/* Our layouts get other tags, beside the header's. */
#define EMU_API_TYPES_H
#define CUuuid_st                        ours_CUuuid_st
#define CUdevprop_st                     ours_CUdevprop_st
#define CUipcMemHandle_st                ours_CUipcMemHandle_st
#define CUipcEventHandle_st              ours_CUipcEventHandle_st
#define CUctxCreateParams_st             ours_CUctxCreateParams_st
#define CUgraphEdgeData_st               ours_CUgraphEdgeData_st
#define CUlaunchAttribute_st             ours_CUlaunchAttribute_st
#define CUlaunchConfig_st                ours_CUlaunchConfig_st
#define CUtensorMap_st                   ours_CUtensorMap_st
#define CUDA_MEMCPY2D_st                 ours_CUDA_MEMCPY2D_st
#define CUDA_MEMCPY3D_st                 ours_CUDA_MEMCPY3D_st
#define CUDA_MEMCPY3D_PEER_st            ours_CUDA_MEMCPY3D_PEER_st
#define CUDA_KERNEL_NODE_PARAMS_st       ours_CUDA_KERNEL_NODE_PARAMS_st
#define CUDA_KERNEL_NODE_PARAMS_v2_st    ours_CUDA_KERNEL_NODE_PARAMS_v2_st
#define CUDA_MEMSET_NODE_PARAMS_st       ours_CUDA_MEMSET_NODE_PARAMS_st
#define CUDA_HOST_NODE_PARAMS_st         ours_CUDA_HOST_NODE_PARAMS_st
#define CUDA_GRAPH_INSTANTIATE_PARAMS_st ours_CUDA_GRAPH_INSTANTIATE_PARAMS_st
#include "tools/emu/driver/layouts.h"

#define SIZE(ours, theirs) _Static_assert(sizeof(struct ours) == sizeof(theirs), #theirs " differs in size")
#define FIELD(ours, theirs, field)                                                        \
    _Static_assert(offsetof(struct ours, field) == offsetof(theirs, field) &&             \
                       sizeof(((struct ours *)0)->field) == sizeof(((theirs *)0)->field), \
                   #theirs "." #field " differs")
SIZE(CUuuid_st, CUuuid);
SIZE(CUdevprop_st, CUdevprop_v1);
FIELD(CUdevprop_st, CUdevprop_v1, maxThreadsDim);
FIELD(CUdevprop_st, CUdevprop_v1, maxGridSize);
FIELD(CUdevprop_st, CUdevprop_v1, textureAlign);
SIZE(CUipcMemHandle_st, CUipcMemHandle);
SIZE(CUipcEventHandle_st, CUipcEventHandle);
SIZE(CUctxCreateParams_st, CUctxCreateParams);
FIELD(CUctxCreateParams_st, CUctxCreateParams, numExecAffinityParams);
FIELD(CUctxCreateParams_st, CUctxCreateParams, cigParams);
SIZE(CUgraphEdgeData_st, CUgraphEdgeData);
SIZE(CUlaunchAttribute_st, CUlaunchAttribute);
FIELD(CUlaunchAttribute_st, CUlaunchAttribute, value);
FIELD(CUlaunchAttribute_st, CUlaunchAttribute, value.clusterDim);
FIELD(CUlaunchAttribute_st, CUlaunchAttribute, value.cooperative);
SIZE(CUlaunchConfig_st, CUlaunchConfig);
FIELD(CUlaunchConfig_st, CUlaunchConfig, sharedMemBytes);
FIELD(CUlaunchConfig_st, CUlaunchConfig, hStream);
FIELD(CUlaunchConfig_st, CUlaunchConfig, attrs);
FIELD(CUlaunchConfig_st, CUlaunchConfig, numAttrs);
SIZE(CUtensorMap_st, CUtensorMap);
_Static_assert(_Alignof(struct CUtensorMap_st) == _Alignof(CUtensorMap), "CUtensorMap differs in alignment");
SIZE(CUDA_MEMCPY2D_st, CUDA_MEMCPY2D);
FIELD(CUDA_MEMCPY2D_st, CUDA_MEMCPY2D, srcDevice);
FIELD(CUDA_MEMCPY2D_st, CUDA_MEMCPY2D, srcPitch);
FIELD(CUDA_MEMCPY2D_st, CUDA_MEMCPY2D, dstMemoryType);
FIELD(CUDA_MEMCPY2D_st, CUDA_MEMCPY2D, dstDevice);
FIELD(CUDA_MEMCPY2D_st, CUDA_MEMCPY2D, dstPitch);
FIELD(CUDA_MEMCPY2D_st, CUDA_MEMCPY2D, Height);
SIZE(CUDA_MEMCPY3D_st, CUDA_MEMCPY3D);
FIELD(CUDA_MEMCPY3D_st, CUDA_MEMCPY3D, srcLOD);
FIELD(CUDA_MEMCPY3D_st, CUDA_MEMCPY3D, srcPitch);
FIELD(CUDA_MEMCPY3D_st, CUDA_MEMCPY3D, srcHeight);
FIELD(CUDA_MEMCPY3D_st, CUDA_MEMCPY3D, dstDevice);
FIELD(CUDA_MEMCPY3D_st, CUDA_MEMCPY3D, dstHeight);
FIELD(CUDA_MEMCPY3D_st, CUDA_MEMCPY3D, Depth);
SIZE(CUDA_MEMCPY3D_PEER_st, CUDA_MEMCPY3D_PEER);
FIELD(CUDA_MEMCPY3D_PEER_st, CUDA_MEMCPY3D_PEER, srcContext);
FIELD(CUDA_MEMCPY3D_PEER_st, CUDA_MEMCPY3D_PEER, srcHeight);
FIELD(CUDA_MEMCPY3D_PEER_st, CUDA_MEMCPY3D_PEER, dstDevice);
FIELD(CUDA_MEMCPY3D_PEER_st, CUDA_MEMCPY3D_PEER, dstContext);
FIELD(CUDA_MEMCPY3D_PEER_st, CUDA_MEMCPY3D_PEER, Depth);
SIZE(CUDA_KERNEL_NODE_PARAMS_st, CUDA_KERNEL_NODE_PARAMS_v1);
FIELD(CUDA_KERNEL_NODE_PARAMS_st, CUDA_KERNEL_NODE_PARAMS_v1, extra);
SIZE(CUDA_KERNEL_NODE_PARAMS_v2_st, CUDA_KERNEL_NODE_PARAMS_v2);
FIELD(CUDA_KERNEL_NODE_PARAMS_v2_st, CUDA_KERNEL_NODE_PARAMS_v2, kernelParams);
FIELD(CUDA_KERNEL_NODE_PARAMS_v2_st, CUDA_KERNEL_NODE_PARAMS_v2, kern);
FIELD(CUDA_KERNEL_NODE_PARAMS_v2_st, CUDA_KERNEL_NODE_PARAMS_v2, ctx);
SIZE(CUDA_MEMSET_NODE_PARAMS_st, CUDA_MEMSET_NODE_PARAMS_v1);
FIELD(CUDA_MEMSET_NODE_PARAMS_st, CUDA_MEMSET_NODE_PARAMS_v1, elementSize);
FIELD(CUDA_MEMSET_NODE_PARAMS_st, CUDA_MEMSET_NODE_PARAMS_v1, height);
SIZE(CUDA_HOST_NODE_PARAMS_st, CUDA_HOST_NODE_PARAMS_v1);
FIELD(CUDA_HOST_NODE_PARAMS_st, CUDA_HOST_NODE_PARAMS_v1, userData);
SIZE(CUDA_GRAPH_INSTANTIATE_PARAMS_st, CUDA_GRAPH_INSTANTIATE_PARAMS);
FIELD(CUDA_GRAPH_INSTANTIATE_PARAMS_st, CUDA_GRAPH_INSTANTIATE_PARAMS, hErrNode_out);
FIELD(CUDA_GRAPH_INSTANTIATE_PARAMS_st, CUDA_GRAPH_INSTANTIATE_PARAMS, result_out);

/* Every error of our table has the header's value. */
#define ERROR(name, value, text) _Static_assert((int)CUDA_ERROR_##name == (value), #name " differs");
#include "tools/emu/driver/errors.def"
#undef ERROR

/* The symbols that the header makes of plain names have rows, where we have the function at all. */
#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
static const char *const renamed[] = {
    TEXT(cuMemAlloc),           TEXT(cuCtxCreate),
    TEXT(cuMemcpyHtoD),         TEXT(cuStreamGetCaptureInfo),
    TEXT(cuGraphInstantiate),   TEXT(cuStreamBeginCapture),
    TEXT(cuLinkCreate),         TEXT(cuModuleGetGlobal),
    TEXT(cuGraphAddKernelNode), TEXT(cuDeviceGetUuid),
    TEXT(cuEventElapsedTime),   TEXT(cuGetProcAddress),
    TEXT(cuMemsetD2D32),        TEXT(cuIpcOpenMemHandle),
};

static const char *const symbols[] = {
#define API(name, suffix, version, parameters) #name #suffix,
#include "tools/emu/driver/api.def"
#undef API
};

static void test_renamed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof renamed / sizeof renamed[0]; i++) {
        size_t k = 0, count = sizeof symbols / sizeof symbols[0];
        while (k < count && strcmp(symbols[k], renamed[i]) != 0)
            k++;
        if (k == count && strcmp(renamed[i], "cuGraphInstantiateWithFlags") != 0)
            fail_msg("%s has no row in api.def", renamed[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_renamed)};
    printf("compared %zu functions with cuda.h of CUDA %d.%d\n", sizeof symbols / sizeof symbols[0],
           CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    printf("SKIP: no cuda.h and cudaTypedefs.h to compare with\n");
    return 77;
}
#endif
