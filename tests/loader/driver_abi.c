/* driver_abi.c - compares our declarations of the Driver API with NVIDIA's own headers, if they are installed:
 * a difference fails the compilation.  Otherwise the test is skipped. */
#include <stdio.h>

#if __has_include(<cuda.h>) && __has_include(<cudaTypedefs.h>)
#include <cuda.h>
#include <cudaTypedefs.h>

#include "loader/driver.h"
#include "tests/support/unit.h"

#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

/* The header hides the first version, whose prototype is the same. */
#define PFN_cuDevicePrimaryCtxRelease_v7000 PFN_cuDevicePrimaryCtxRelease_v11000

/* Compares every prototype at the version that cuGetProcAddress is asked for. */
#define SAME_PROTOTYPE(name, version, suffix, need, parameters)                                            \
    _Static_assert(__builtin_types_compatible_p(ptxpack_cu_result(*) parameters, PFN_##name##_v##version), \
                   #name " differs from cuda.h");
PTXPACK_DRIVER_MAP(SAME_PROTOTYPE)

_Static_assert(__builtin_types_compatible_p(ptxpack_deviceptr, CUdeviceptr), "CUdeviceptr");
_Static_assert(__builtin_types_compatible_p(struct CUstream_st *, CUstream), "CUstream");
_Static_assert(__builtin_types_compatible_p(struct CUctx_st *, CUcontext), "CUcontext");
_Static_assert(sizeof(CUdevice) == sizeof(int), "CUdevice");

#define SAME_FIELD(ours, our_field, theirs, their_field)                                     \
    _Static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field) &&             \
                       sizeof(((ours *)0)->our_field) == sizeof(((theirs *)0)->their_field), \
                   #ours "." #our_field " differs from cuda.h");
_Static_assert(sizeof(ptxpack_cu_launch_config) == sizeof(CUlaunchConfig), "CUlaunchConfig");
_Static_assert(offsetof(ptxpack_cu_launch_config, grid) == offsetof(CUlaunchConfig, gridDimX), "gridDim");
_Static_assert(offsetof(ptxpack_cu_launch_config, block) == offsetof(CUlaunchConfig, blockDimX), "blockDim");
SAME_FIELD(ptxpack_cu_launch_config, shared_bytes, CUlaunchConfig, sharedMemBytes)
SAME_FIELD(ptxpack_cu_launch_config, stream, CUlaunchConfig, hStream)
SAME_FIELD(ptxpack_cu_launch_config, attributes, CUlaunchConfig, attrs)
SAME_FIELD(ptxpack_cu_launch_config, attribute_count, CUlaunchConfig, numAttrs)
_Static_assert(sizeof(ptxpack_cu_launch_attribute) == sizeof(CUlaunchAttribute), "CUlaunchAttribute");
SAME_FIELD(ptxpack_cu_launch_attribute, id, CUlaunchAttribute, id)
SAME_FIELD(ptxpack_cu_launch_attribute, value, CUlaunchAttribute, value)
SAME_FIELD(ptxpack_cu_launch_attribute, value.programmatic_stream_serialization_allowed, CUlaunchAttribute,
           value.programmaticStreamSerializationAllowed)

_Static_assert(sizeof(ptxpack_cu_peer_copy) == sizeof(CUDA_MEMCPY3D_PEER), "CUDA_MEMCPY3D_PEER");
SAME_FIELD(ptxpack_cu_peer_copy, from.level, CUDA_MEMCPY3D_PEER, srcLOD)
SAME_FIELD(ptxpack_cu_peer_copy, from.type, CUDA_MEMCPY3D_PEER, srcMemoryType)
SAME_FIELD(ptxpack_cu_peer_copy, from.device, CUDA_MEMCPY3D_PEER, srcDevice)
SAME_FIELD(ptxpack_cu_peer_copy, from.context, CUDA_MEMCPY3D_PEER, srcContext)
SAME_FIELD(ptxpack_cu_peer_copy, from.pitch, CUDA_MEMCPY3D_PEER, srcPitch)
SAME_FIELD(ptxpack_cu_peer_copy, from.height, CUDA_MEMCPY3D_PEER, srcHeight)
SAME_FIELD(ptxpack_cu_peer_copy, to.type, CUDA_MEMCPY3D_PEER, dstMemoryType)
SAME_FIELD(ptxpack_cu_peer_copy, to.device, CUDA_MEMCPY3D_PEER, dstDevice)
SAME_FIELD(ptxpack_cu_peer_copy, to.context, CUDA_MEMCPY3D_PEER, dstContext)
SAME_FIELD(ptxpack_cu_peer_copy, to.height, CUDA_MEMCPY3D_PEER, dstHeight)
SAME_FIELD(ptxpack_cu_peer_copy, width, CUDA_MEMCPY3D_PEER, WidthInBytes)
SAME_FIELD(ptxpack_cu_peer_copy, height, CUDA_MEMCPY3D_PEER, Height)
SAME_FIELD(ptxpack_cu_peer_copy, depth, CUDA_MEMCPY3D_PEER, Depth)

static const struct {
    const char *name;
    int         ours, theirs;
} values[] = {
#define VALUE(ours, theirs)        \
    {                              \
#theirs, ours, (int)theirs \
    }
    VALUE(PTXPACK_CU_SUCCESS, CUDA_SUCCESS),
    VALUE(PTXPACK_CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE),
    VALUE(PTXPACK_CU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE),
    VALUE(PTXPACK_CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY),
    VALUE(PTXPACK_CU_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED),
    VALUE(PTXPACK_CU_STUB_LIBRARY, CUDA_ERROR_STUB_LIBRARY),
    VALUE(PTXPACK_CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE),
    VALUE(PTXPACK_CU_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE),
    VALUE(PTXPACK_CU_INVALID_IMAGE, CUDA_ERROR_INVALID_IMAGE),
    VALUE(PTXPACK_CU_NO_BINARY_FOR_GPU, CUDA_ERROR_NO_BINARY_FOR_GPU),
    VALUE(PTXPACK_CU_INVALID_PTX, CUDA_ERROR_INVALID_PTX),
    VALUE(PTXPACK_CU_JIT_COMPILER_NOT_FOUND, CUDA_ERROR_JIT_COMPILER_NOT_FOUND),
    VALUE(PTXPACK_CU_UNSUPPORTED_PTX_VERSION, CUDA_ERROR_UNSUPPORTED_PTX_VERSION),
    VALUE(PTXPACK_CU_JIT_COMPILATION_DISABLED, CUDA_ERROR_JIT_COMPILATION_DISABLED),
    VALUE(PTXPACK_CU_SYSTEM_DRIVER_MISMATCH, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH),
    VALUE(PTXPACK_CU_COMPAT_NOT_SUPPORTED, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE),
    VALUE(PTXPACK_CU_STREAM_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED),
    VALUE(PTXPACK_CU_DEVICE_SHARED_PER_BLOCK, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK),
    VALUE(PTXPACK_CU_DEVICE_CLOCK_RATE, CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
    VALUE(PTXPACK_CU_DEVICE_MULTIPROCESSOR_COUNT, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
    VALUE(PTXPACK_CU_DEVICE_MEMORY_CLOCK_RATE, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE),
    VALUE(PTXPACK_CU_DEVICE_MEMORY_BUS_WIDTH, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH),
    VALUE(PTXPACK_CU_DEVICE_L2_CACHE_SIZE, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
    VALUE(PTXPACK_CU_DEVICE_COMPUTE_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
    VALUE(PTXPACK_CU_DEVICE_COMPUTE_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
    VALUE(PTXPACK_CU_DEVICE_SHARED_PER_SM, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
    VALUE(PTXPACK_CU_DEVICE_SHARED_PER_BLOCK_OPTIN, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
    VALUE(PTXPACK_CU_FUNC_MAX_THREADS_PER_BLOCK, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
    VALUE(PTXPACK_CU_FUNC_SHARED_SIZE, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
    VALUE(PTXPACK_CU_FUNC_CONST_SIZE, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES),
    VALUE(PTXPACK_CU_FUNC_LOCAL_SIZE, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES),
    VALUE(PTXPACK_CU_FUNC_NUM_REGS, CU_FUNC_ATTRIBUTE_NUM_REGS),
    VALUE(PTXPACK_CU_FUNC_MAX_DYNAMIC_SHARED, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES),
    VALUE(PTXPACK_CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER),
    VALUE(PTXPACK_CU_JIT_INFO_LOG_BUFFER_SIZE, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES),
    VALUE(PTXPACK_CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER),
    VALUE(PTXPACK_CU_JIT_ERROR_LOG_BUFFER_SIZE, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES),
    VALUE(PTXPACK_CU_JIT_LOG_VERBOSE, CU_JIT_LOG_VERBOSE),
    VALUE(PTXPACK_CU_JIT_GENERATE_LINE_INFO, CU_JIT_GENERATE_LINE_INFO),
    VALUE(PTXPACK_CU_JIT_INPUT_PTX, CU_JIT_INPUT_PTX),
    VALUE(PTXPACK_CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING),
    VALUE(PTXPACK_CU_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING),
    VALUE(PTXPACK_CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_PORTABLE),
    VALUE(PTXPACK_CU_POINTER_IS_LEGACY_IPC_CAPABLE, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE),
    VALUE(PTXPACK_CU_CAPTURE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL),
    VALUE(PTXPACK_CU_CAPTURE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
    VALUE(PTXPACK_CU_CAPTURE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED),
    VALUE(PTXPACK_CU_CAPTURE_STATUS_NONE, CU_STREAM_CAPTURE_STATUS_NONE),
    VALUE(PTXPACK_CU_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION,
          CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION),
#undef VALUE
};

TEST(test_values)
{
    printf("compared with cuda.h of CUDA %d.%d\n", CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        if (values[i].ours != values[i].theirs)
            fail_msg("%s is %d, we say %d", values[i].name, values[i].theirs, values[i].ours);
}

RUN_TESTS(NULL, NULL)
#else
int main(void)
{
    printf("SKIP: no cuda.h and cudaTypedefs.h to compare with\n");
    return 77;
}
#endif
