/* driver.h - the CUDA Driver API as a table of functions, which are found at run time.  All calls of the driver
 * go through this table.
 *
 * The declarations here are our own and hold only what the library needs of the ABI; tests/loader/driver_abi.c
 * compares them with the real cuda.h.  Enumerations are unsigned int, CUdevice is int, and a device address is
 * unsigned long long.  The opaque handles are pointers to the structures of cuda.h, so that a file may include
 * both headers.  It must include cuda.h first, because cuda.h renames functions by macros.
 *
 *   const struct ptxpack_driver *d = ptxpack_driver_table(handle);
 *   struct CUstream_st *stream;
 *   if (d->cuStreamCreate(&stream, PTXPACK_CU_STREAM_NON_BLOCKING) != PTXPACK_CU_SUCCESS) ...
 *
 * Streams   NULL is the legacy default stream.
 * Threads   A table never changes after it was handed out, and it stays valid as long as the process lives. */
#ifndef PTXPACK_DRIVER_H
#define PTXPACK_DRIVER_H
#include <stddef.h>
#include <stdint.h>
#include "status.h"
#ifdef __cplusplus
extern "C" {
#endif

struct CUctx_st;
struct CUmod_st;
struct CUlib_st;
struct CUkern_st;
struct CUfunc_st;
struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphExec_st;
struct CUlinkState_st;
struct CUlaunchConfig_st;     /* ptxpack_cu_launch_config, or cuda.h's own */
struct CUDA_MEMCPY3D_PEER_st; /* ptxpack_cu_peer_copy, or cuda.h's own */
struct CUtensorMap_st;        /* 128 bytes, aligned to 64 */

typedef unsigned int       ptxpack_cu_result; /* CUresult */
typedef unsigned long long ptxpack_deviceptr; /* CUdeviceptr */

enum { /* CUresult: the values that the library distinguishes */
       PTXPACK_CU_SUCCESS = 0,
       PTXPACK_CU_INVALID_VALUE = 1,
       PTXPACK_CU_OUT_OF_MEMORY = 2,
       PTXPACK_CU_NOT_INITIALIZED = 3,
       PTXPACK_CU_STUB_LIBRARY = 34,
       PTXPACK_CU_NO_DEVICE = 100,
       PTXPACK_CU_INVALID_DEVICE = 101,
       PTXPACK_CU_INVALID_IMAGE = 200,
       PTXPACK_CU_NO_BINARY_FOR_GPU = 209,
       PTXPACK_CU_INVALID_PTX = 218,
       PTXPACK_CU_JIT_COMPILER_NOT_FOUND = 221,
       PTXPACK_CU_UNSUPPORTED_PTX_VERSION = 222,
       PTXPACK_CU_JIT_COMPILATION_DISABLED = 223,
       PTXPACK_CU_NOT_READY = 600,
       PTXPACK_CU_PEER_ACCESS_ALREADY_ENABLED = 704,
       PTXPACK_CU_CONTEXT_IS_DESTROYED = 709,
       PTXPACK_CU_SYSTEM_DRIVER_MISMATCH = 803,
       PTXPACK_CU_COMPAT_NOT_SUPPORTED = 804,
       PTXPACK_CU_STREAM_CAPTURE_UNSUPPORTED = 900
};

enum { /* CUdevice_attribute */
       PTXPACK_CU_DEVICE_SHARED_PER_BLOCK = 8,
       PTXPACK_CU_DEVICE_CLOCK_RATE = 13, /* kHz */
       PTXPACK_CU_DEVICE_MULTIPROCESSOR_COUNT = 16,
       PTXPACK_CU_DEVICE_MEMORY_CLOCK_RATE = 36, /* kHz */
       PTXPACK_CU_DEVICE_MEMORY_BUS_WIDTH = 37,  /* bits */
       PTXPACK_CU_DEVICE_L2_CACHE_SIZE = 38,
       PTXPACK_CU_DEVICE_COMPUTE_MAJOR = 75,
       PTXPACK_CU_DEVICE_COMPUTE_MINOR = 76,
       PTXPACK_CU_DEVICE_SHARED_PER_SM = 81,
       PTXPACK_CU_DEVICE_SHARED_PER_BLOCK_OPTIN = 97
};

enum { /* CUfunction_attribute */
       PTXPACK_CU_FUNC_MAX_THREADS_PER_BLOCK = 0,
       PTXPACK_CU_FUNC_SHARED_SIZE = 1, /* static, bytes */
       PTXPACK_CU_FUNC_CONST_SIZE = 2,  /* the user's, bytes */
       PTXPACK_CU_FUNC_LOCAL_SIZE = 3,  /* bytes per thread */
       PTXPACK_CU_FUNC_NUM_REGS = 4,
       PTXPACK_CU_FUNC_MAX_DYNAMIC_SHARED = 8
};

enum { /* CUjit_option, CUjitInputType */
       PTXPACK_CU_JIT_INFO_LOG_BUFFER = 3,
       PTXPACK_CU_JIT_INFO_LOG_BUFFER_SIZE = 4,
       PTXPACK_CU_JIT_ERROR_LOG_BUFFER = 5,
       PTXPACK_CU_JIT_ERROR_LOG_BUFFER_SIZE = 6,
       PTXPACK_CU_JIT_LOG_VERBOSE = 12,
       PTXPACK_CU_JIT_GENERATE_LINE_INFO = 13,
       PTXPACK_CU_JIT_INPUT_PTX = 1
};

enum { /* flags of streams, events and pinned memory; CUstreamCaptureMode, CUstreamCaptureStatus */
       PTXPACK_CU_STREAM_NON_BLOCKING = 1,
       PTXPACK_CU_EVENT_DISABLE_TIMING = 2,
       PTXPACK_CU_MEMHOSTALLOC_PORTABLE = 1,
       PTXPACK_CU_POINTER_IS_LEGACY_IPC_CAPABLE = 10,
       PTXPACK_CU_CAPTURE_GLOBAL = 0,
       PTXPACK_CU_CAPTURE_THREAD_LOCAL = 1,
       PTXPACK_CU_CAPTURE_RELAXED = 2,
       PTXPACK_CU_CAPTURE_STATUS_NONE = 0
};

enum { /* CUlaunchAttributeID */
       PTXPACK_CU_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION = 6
};
typedef struct ptxpack_cu_launch_attribute { /* CUlaunchAttribute */
    unsigned int id, padding;
    union {
        uint64_t words[8];
        int      programmatic_stream_serialization_allowed;
    } value;
} ptxpack_cu_launch_attribute;
typedef struct ptxpack_cu_launch_config { /* CUlaunchConfig */
    unsigned int                 grid[3], block[3], shared_bytes;
    struct CUstream_st          *stream;
    ptxpack_cu_launch_attribute *attributes;
    unsigned int                 attribute_count;
} ptxpack_cu_launch_config;

enum { PTXPACK_CU_MEMORYTYPE_DEVICE = 2 }; /* CUmemorytype */
typedef struct ptxpack_cu_peer_copy_side { /* one side of CUDA_MEMCPY3D_PEER */
    size_t            x, y, z, level;      /* where it begins: bytes, rows, planes; 0 */
    unsigned int      type;                /* PTXPACK_CU_MEMORYTYPE_DEVICE */
    void             *host;
    ptxpack_deviceptr device;
    void             *array;
    struct CUctx_st  *context;
    size_t            pitch, height; /* bytes from one row to the next; rows from one plane to the next */
} ptxpack_cu_peer_copy_side;
typedef struct ptxpack_cu_peer_copy { /* CUDA_MEMCPY3D_PEER */
    ptxpack_cu_peer_copy_side from, to;
    size_t                    width, height, depth; /* bytes of a row, rows, planes */
} ptxpack_cu_peer_copy;

/* One row for each function: its name, the CUDA version whose prototype this is (as cuGetProcAddress wants it),
 * the suffix of the exported symbol (for drivers before 11.3), REQUIRED or OPTIONAL, and the parameters.  An
 * optional function that the driver lacks is NULL in the table. */
#define PTXPACK_DRIVER_MAP(X)                                                                                  \
    X(cuInit, 2000, "", REQUIRED, (unsigned int flags))                                                        \
    X(cuDriverGetVersion, 2020, "", REQUIRED, (int *version))                                                  \
    X(cuGetErrorName, 6000, "", REQUIRED, (ptxpack_cu_result error, const char **text))                        \
    X(cuGetErrorString, 6000, "", REQUIRED, (ptxpack_cu_result error, const char **text))                      \
    X(cuDeviceGetCount, 2000, "", REQUIRED, (int *count))                                                      \
    X(cuDeviceGet, 2000, "", REQUIRED, (int *device, int ordinal))                                             \
    X(cuDeviceGetName, 2000, "", REQUIRED, (char *name, int bytes, int device))                                \
    X(cuDeviceGetAttribute, 2000, "", REQUIRED, (int *value, unsigned int attribute, int device))              \
    X(cuDeviceTotalMem, 3020, "_v2", REQUIRED, (size_t * bytes, int device))                                   \
    X(cuDevicePrimaryCtxRetain, 7000, "", REQUIRED, (struct CUctx_st * *context, int device))                  \
    X(cuDevicePrimaryCtxRelease, 7000, "", REQUIRED, (int device))                                             \
    X(cuCtxGetCurrent, 4000, "", REQUIRED, (struct CUctx_st * *context))                                       \
    X(cuCtxSetCurrent, 4000, "", REQUIRED, (struct CUctx_st * context))                                        \
    X(cuCtxPushCurrent, 4000, "_v2", REQUIRED, (struct CUctx_st * context))                                    \
    X(cuCtxPopCurrent, 4000, "_v2", REQUIRED, (struct CUctx_st * *context))                                    \
    X(cuCtxGetDevice, 2000, "", REQUIRED, (int *device))                                                       \
    X(cuCtxSynchronize, 2000, "", REQUIRED, (void))                                                            \
    X(cuMemGetInfo, 3020, "_v2", REQUIRED, (size_t * free_bytes, size_t * total))                              \
    X(cuMemAlloc, 3020, "_v2", REQUIRED, (ptxpack_deviceptr * address, size_t bytes))                          \
    X(cuMemFree, 3020, "_v2", REQUIRED, (ptxpack_deviceptr address))                                           \
    X(cuMemHostAlloc, 2020, "", OPTIONAL, (void **address, size_t bytes, unsigned int flags))                  \
    X(cuMemFreeHost, 2000, "", OPTIONAL, (void *address))                                                      \
    X(cuMemcpyHtoD, 3020, "_v2", REQUIRED, (ptxpack_deviceptr to, const void *from, size_t bytes))             \
    X(cuMemcpyDtoH, 3020, "_v2", REQUIRED, (void *to, ptxpack_deviceptr from, size_t bytes))                   \
    X(cuMemcpyDtoD, 3020, "_v2", REQUIRED, (ptxpack_deviceptr to, ptxpack_deviceptr from, size_t bytes))       \
    X(cuMemcpyHtoDAsync, 3020, "_v2", REQUIRED,                                                                \
      (ptxpack_deviceptr to, const void *from, size_t bytes, struct CUstream_st *stream))                      \
    X(cuMemcpyDtoHAsync, 3020, "_v2", REQUIRED,                                                                \
      (void *to, ptxpack_deviceptr from, size_t bytes, struct CUstream_st *stream))                            \
    X(cuMemcpyDtoDAsync, 3020, "_v2", REQUIRED,                                                                \
      (ptxpack_deviceptr to, ptxpack_deviceptr from, size_t bytes, struct CUstream_st * stream))               \
    X(cuMemcpyPeerAsync, 4000, "", OPTIONAL,                                                                   \
      (ptxpack_deviceptr to, struct CUctx_st * to_context, ptxpack_deviceptr from,                             \
       struct CUctx_st * from_context, size_t bytes, struct CUstream_st * stream))                             \
    X(cuStreamWriteValue32, 11070, "_v2", OPTIONAL,                                                            \
      (struct CUstream_st * stream, ptxpack_deviceptr address, uint32_t value, unsigned int flags))            \
    X(cuMemcpy3DPeerAsync, 4000, "", OPTIONAL,                                                                 \
      (const struct CUDA_MEMCPY3D_PEER_st *copy, struct CUstream_st *stream))                                  \
    X(cuDeviceCanAccessPeer, 4000, "", OPTIONAL, (int *can, int device, int peer))                             \
    X(cuCtxEnablePeerAccess, 4000, "", OPTIONAL, (struct CUctx_st * peer, unsigned int flags))                 \
    X(cuMemsetD8, 3020, "_v2", REQUIRED, (ptxpack_deviceptr to, unsigned char value, size_t count))            \
    X(cuMemsetD16, 3020, "_v2", REQUIRED, (ptxpack_deviceptr to, unsigned short value, size_t count))          \
    X(cuMemsetD32, 3020, "_v2", REQUIRED, (ptxpack_deviceptr to, unsigned int value, size_t count))            \
    X(cuMemsetD8Async, 3020, "", REQUIRED,                                                                     \
      (ptxpack_deviceptr to, unsigned char value, size_t count, struct CUstream_st *stream))                   \
    X(cuMemsetD16Async, 3020, "", REQUIRED,                                                                    \
      (ptxpack_deviceptr to, unsigned short value, size_t count, struct CUstream_st *stream))                  \
    X(cuMemsetD32Async, 3020, "", REQUIRED,                                                                    \
      (ptxpack_deviceptr to, unsigned int value, size_t count, struct CUstream_st *stream))                    \
    X(cuStreamCreate, 2000, "", REQUIRED, (struct CUstream_st * *stream, unsigned int flags))                  \
    X(cuStreamDestroy, 4000, "_v2", REQUIRED, (struct CUstream_st * stream))                                   \
    X(cuStreamSynchronize, 2000, "", REQUIRED, (struct CUstream_st * stream))                                  \
    X(cuStreamQuery, 2000, "", REQUIRED, (struct CUstream_st * stream))                                        \
    X(cuEventQuery, 2000, "", REQUIRED, (struct CUevent_st * event))                                           \
    X(cuStreamWaitEvent, 3020, "", REQUIRED,                                                                   \
      (struct CUstream_st * stream, struct CUevent_st * event, unsigned int flags))                            \
    X(cuStreamBeginCapture, 10010, "_v2", OPTIONAL, (struct CUstream_st * stream, unsigned int mode))          \
    X(cuStreamEndCapture, 10000, "", OPTIONAL, (struct CUstream_st * stream, struct CUgraph_st * *graph))      \
    X(cuStreamIsCapturing, 10000, "", OPTIONAL, (struct CUstream_st * stream, unsigned int *status))           \
    X(cuGraphInstantiateWithFlags, 11040, "", OPTIONAL,                                                        \
      (struct CUgraphExec_st * *exec, struct CUgraph_st * graph, unsigned long long flags))                    \
    X(cuGraphLaunch, 10000, "", OPTIONAL, (struct CUgraphExec_st * exec, struct CUstream_st * stream))         \
    X(cuGraphExecDestroy, 10000, "", OPTIONAL, (struct CUgraphExec_st * exec))                                 \
    X(cuGraphDestroy, 10000, "", OPTIONAL, (struct CUgraph_st * graph))                                        \
    X(cuEventCreate, 2000, "", REQUIRED, (struct CUevent_st * *event, unsigned int flags))                     \
    X(cuEventRecord, 2000, "", REQUIRED, (struct CUevent_st * event, struct CUstream_st * stream))             \
    X(cuEventSynchronize, 2000, "", REQUIRED, (struct CUevent_st * event))                                     \
    X(cuEventElapsedTime, 2000, "", REQUIRED,                                                                  \
      (float *milliseconds, struct CUevent_st *from, struct CUevent_st *to))                                   \
    X(cuEventDestroy, 4000, "_v2", REQUIRED, (struct CUevent_st * event))                                      \
    X(cuModuleLoadDataEx, 2010, "", REQUIRED,                                                                  \
      (struct CUmod_st * *module, const void *image, unsigned int count, unsigned int *options,                \
       void **values))                                                                                         \
    X(cuModuleGetFunction, 2000, "", REQUIRED,                                                                 \
      (struct CUfunc_st * *function, struct CUmod_st * module, const char *name))                              \
    X(cuModuleUnload, 2000, "", REQUIRED, (struct CUmod_st * module))                                          \
    X(cuLibraryLoadData, 12000, "", OPTIONAL,                                                                  \
      (struct CUlib_st * *library, const void *code, unsigned int *jit_options, void **jit_values,             \
       unsigned int jit_count, unsigned int *options, void **values, unsigned int count))                      \
    X(cuLibraryGetKernel, 12000, "", OPTIONAL,                                                                 \
      (struct CUkern_st * *kernel, struct CUlib_st * library, const char *name))                               \
    X(cuLibraryUnload, 12000, "", OPTIONAL, (struct CUlib_st * library))                                       \
    X(cuKernelGetFunction, 12000, "", OPTIONAL, (struct CUfunc_st * *function, struct CUkern_st * kernel))     \
    X(cuFuncGetAttribute, 2020, "", REQUIRED,                                                                  \
      (int *value, unsigned int attribute, struct CUfunc_st *function))                                        \
    X(cuFuncSetAttribute, 9000, "", REQUIRED,                                                                  \
      (struct CUfunc_st * function, unsigned int attribute, int value))                                        \
    X(cuLaunchKernel, 4000, "", REQUIRED,                                                                      \
      (struct CUfunc_st * function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,             \
       unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,            \
       struct CUstream_st *stream, void **parameters, void **extra))                                           \
    X(cuLaunchKernelEx, 11060, "", OPTIONAL,                                                                   \
      (const struct CUlaunchConfig_st *config, struct CUfunc_st *function, void **parameters, void **extra))   \
    X(cuLinkCreate, 6050, "_v2", OPTIONAL,                                                                     \
      (unsigned int count, unsigned int *options, void **values, struct CUlinkState_st **state))               \
    X(cuLinkAddData, 6050, "_v2", OPTIONAL,                                                                    \
      (struct CUlinkState_st * state, unsigned int type, void *data, size_t bytes, const char *name,           \
       unsigned int count, unsigned int *options, void **values))                                              \
    X(cuLinkComplete, 5050, "", OPTIONAL, (struct CUlinkState_st * state, void **cubin, size_t *bytes))        \
    X(cuLinkDestroy, 5050, "", OPTIONAL, (struct CUlinkState_st * state))                                      \
    X(cuPointerGetAttributes, 7000, "", OPTIONAL,                                                              \
      (unsigned int count, unsigned int *attributes, void **values, ptxpack_deviceptr address))                \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, "", OPTIONAL,                                         \
      (int *blocks, struct CUfunc_st *function, int threads, size_t dynamic_shared))                           \
    X(cuTensorMapEncodeTiled, 12000, "", OPTIONAL,                                                             \
      (struct CUtensorMap_st * map, unsigned int type, uint32_t rank, void *address, const uint64_t *dims,     \
       const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides, unsigned int interleave, \
       unsigned int swizzle, unsigned int l2, unsigned int fill))                                              \
    X(cuTensorMapReplaceAddress, 12000, "", OPTIONAL, (struct CUtensorMap_st * map, void *address))

struct ptxpack_driver {
#define PTXPACK_DRIVER_FIELD(name, version, suffix, need, parameters) ptxpack_cu_result(*name) parameters;
    PTXPACK_DRIVER_MAP(PTXPACK_DRIVER_FIELD)
#undef PTXPACK_DRIVER_FIELD
    int         version; /* as cuDriverGetVersion returns it: 13000 for CUDA 13.0 */
    const char *path;    /* of the library that was loaded, as the dynamic linker found it */
};

/* Load the driver library `path`, call cuInit, and return its table.  `path` NULL means the emulated driver if
 * PTXPACK_DEVICE is emu, or else $PTXPACK_DRIVER, then libcuda.so.1, then libcuda.so.  A library is loaded once
 * per process and path, and never unloaded.  On failure *out is NULL and `detail` holds one line.
 *   PTXPACK_E_ARG          PTXPACK_DEVICE is neither gpu nor emu
 *   PTXPACK_E_NO_DRIVER    there is no such library, or it cannot be loaded
 *   PTXPACK_E_STUB_DRIVER  it is the toolkit's link-time stub (error 34)
 *   PTXPACK_E_NO_DEVICE    cuInit found no device (error 100)
 *   PTXPACK_E_FORKED       a parent of this process has initialised it
 *   PTXPACK_E_DRIVER       a required function is missing, or cuInit failed for another reason
 *   PTXPACK_E_MEMORY */
PTXPACK_API ptxpack_status ptxpack_driver_open(const char *path, const struct ptxpack_driver **out,
                                               char *detail, size_t cap);
/* The path of the library that was loaded, as the dynamic linker found it: for programs that call it by other
 * means. */
PTXPACK_API const char *ptxpack_driver_path(const struct ptxpack_driver *driver);
/* Write "CUDA_ERROR_INVALID_PTX (218): a PTX JIT compilation failed" to buf, at most `cap` bytes; returns
 * buf. */
PTXPACK_API const char *ptxpack_driver_error(const struct ptxpack_driver *driver, ptxpack_cu_result result,
                                             char *buf, size_t cap);
/* The status for a result of the driver; PTXPACK_E_DRIVER for all results that have no status of their own. */
PTXPACK_API ptxpack_status ptxpack_driver_status(ptxpack_cu_result result);

/* The highest PTX ISA version * 10 that a driver of this CUDA version takes (12040 -> 84).  The result is 0 for
 * a version older than the table, and the last value of the table for a newer one. */
PTXPACK_API int ptxpack_isa_of_cuda(int cuda_version);
/* The first CUDA version that takes PTX ISA `isa`, and its driver branch: 84 -> 12040 and 550.  The result is 0
 * for an unknown `isa`.  `branch` may be NULL. */
PTXPACK_API int ptxpack_cuda_of_isa(int isa, int *branch);
#ifdef __cplusplus
}
#endif
#endif
