/* runtime.h - a small CUDA runtime, libcudart.so.13, on top of the emulated driver's public calls.
 *
 * NVIDIA's own runtime runs only on NVIDIA's driver.  This one has the documented calls of runtime.def, and what the
 * host code of nvcc 13 calls to register fat binaries and to launch kernels; it is for programs built with nvcc -cudart
 * shared.  A call that is not there is an undefined symbol of the program.
 *
 * Every call returns the driver's result, whose numbers are the runtime's, and keeps an error for cudaGetLastError. */
#ifndef EMU_RUNTIME_H
#define EMU_RUNTIME_H
#include <stdbool.h>
#include "tools/emu/driver/layouts.h"

struct runtime_dim3 {
    unsigned int x, y, z;
};
struct cudaDeviceProp;     /* of devices.c */
struct cudaFuncAttributes; /* of kernels.c */
struct cudaPointerAttributes {
    unsigned int type; /* 0: unknown to the driver, 1: host, 2: device, 3: managed */
    int          device;
    void        *on_device, *on_host;
    long         reserved[8];
};
struct cudaLaunchConfig_st {
    struct runtime_dim3          grid, block;
    size_t                       shared_bytes;
    struct CUstream_st          *stream;
    struct CUlaunchAttribute_st *attributes;
    unsigned int                 count;
};
typedef unsigned int runtime_result;

#define RUNTIME(name, parameters) API_EXPORT runtime_result name parameters;
#include "runtime.def"
#undef RUNTIME

enum { /* cudaError_t, where the driver has no such error or another number */
       RUNTIME_OK = 0,
       RUNTIME_INVALID_VALUE = 1,
       RUNTIME_OUT_OF_MEMORY = 2,
       RUNTIME_INVALID_CONFIGURATION = 9,
       RUNTIME_INVALID_SYMBOL = 13,
       RUNTIME_INVALID_DIRECTION = 21,
       RUNTIME_MISSING_CONFIGURATION = 52,
       RUNTIME_INVALID_FUNCTION = 98,
       RUNTIME_INVALID_DEVICE = 101
};

/* The current device of this thread, whose primary context becomes current. */
runtime_result runtime_ready(int *device);
/* The result of a call, kept for cudaGetLastError if it is an error. */
runtime_result runtime_end(runtime_result result);
#define RUNTIME_TRY(expression)             \
    do {                                    \
        runtime_result try_ = (expression); \
        if (try_ != RUNTIME_OK)             \
            return runtime_end(try_);       \
    } while (0)
/* A call that is one call of the driver. */
#define RUNTIME_CALL(expression)      \
    RUNTIME_TRY(runtime_ready(NULL)); \
    return runtime_end(expression)

/* The kernel of a host stub, or the kernel itself. */
runtime_result runtime_kernel(const void *function, struct CUkern_st **kernel);
/* A __device__ or __constant__ variable by the address of its shadow on the host. */
runtime_result runtime_variable(const void *symbol, api_address *address, size_t *bytes);
#endif
