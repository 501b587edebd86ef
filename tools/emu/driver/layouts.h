/* layouts.h - the structures that cross the Driver API, as cuda.h lays them out (tests/emu/driver/abi.c
 * compares every field). */
#ifndef EMU_API_LAYOUTS_H
#define EMU_API_LAYOUTS_H
#include "types.h"

struct CUuuid_st {
    char bytes[16];
};

struct CUdevprop_st {
    int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], sharedMemPerBlock, totalConstantMemory, SIMDWidth,
        memPitch, regsPerBlock, clockRate, textureAlign;
};

struct CUipcMemHandle_st {
    char reserved[64];
};

struct CUipcEventHandle_st {
    char reserved[64];
};

struct CUctxCreateParams_st {
    struct CUexecAffinityParam_st *execAffinityParams;
    int                            numExecAffinityParams;
    void                          *cigParams;
};

struct CUgraphEdgeData_st {
    unsigned char from_port, to_port, type, reserved[5];
};

struct CUlaunchAttribute_st {
    unsigned int id;
    char         pad[4];
    union {
        char pad[64];
        int  cooperative;
        struct {
            unsigned int x, y, z;
        } clusterDim;
        int          programmaticStreamSerializationAllowed;
        unsigned int sharedMemCarveout;
        struct {
            struct CUevent_st *event;
            int                flags;
        } launchCompletionEvent;
    } value;
};

struct CUlaunchConfig_st {
    unsigned int                 gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    struct CUstream_st          *hStream;
    struct CUlaunchAttribute_st *attrs;
    unsigned int                 numAttrs;
};

struct CUtensorMap_st {
    _Alignas(128) uint64_t opaque[16];
};

struct CUDA_MEMCPY2D_st {
    size_t       srcXInBytes, srcY;
    unsigned int srcMemoryType;
    const void  *srcHost;
    api_address  srcDevice;
    void        *srcArray;
    size_t       srcPitch;
    size_t       dstXInBytes, dstY;
    unsigned int dstMemoryType;
    void        *dstHost;
    api_address  dstDevice;
    void        *dstArray;
    size_t       dstPitch;
    size_t       WidthInBytes, Height;
};

struct CUDA_MEMCPY3D_st {
    size_t       srcXInBytes, srcY, srcZ, srcLOD;
    unsigned int srcMemoryType;
    const void  *srcHost;
    api_address  srcDevice;
    void        *srcArray, *reserved0;
    size_t       srcPitch, srcHeight;
    size_t       dstXInBytes, dstY, dstZ, dstLOD;
    unsigned int dstMemoryType;
    void        *dstHost;
    api_address  dstDevice;
    void        *dstArray, *reserved1;
    size_t       dstPitch, dstHeight;
    size_t       WidthInBytes, Height, Depth;
};

struct CUDA_MEMCPY3D_PEER_st {
    size_t           srcXInBytes, srcY, srcZ, srcLOD;
    unsigned int     srcMemoryType;
    const void      *srcHost;
    api_address      srcDevice;
    void            *srcArray;
    struct CUctx_st *srcContext;
    size_t           srcPitch, srcHeight;
    size_t           dstXInBytes, dstY, dstZ, dstLOD;
    unsigned int     dstMemoryType;
    void            *dstHost;
    api_address      dstDevice;
    void            *dstArray;
    struct CUctx_st *dstContext;
    size_t           dstPitch, dstHeight;
    size_t           WidthInBytes, Height, Depth;
};

struct CUDA_KERNEL_NODE_PARAMS_st {
    struct CUfunc_st *func;
    unsigned int      gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    void            **kernelParams, **extra;
};

struct CUDA_KERNEL_NODE_PARAMS_v2_st {
    struct CUfunc_st *func;
    unsigned int      gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    void            **kernelParams, **extra;
    struct CUkern_st *kern;
    struct CUctx_st  *ctx;
};

struct CUDA_MEMSET_NODE_PARAMS_st {
    api_address  dst;
    size_t       pitch;
    unsigned int value, elementSize;
    size_t       width, height;
};

struct CUDA_HOST_NODE_PARAMS_st {
    api_host_function *fn;
    void              *userData;
};

struct CUDA_GRAPH_INSTANTIATE_PARAMS_st {
    uint64_t               flags;
    struct CUstream_st    *hUploadStream;
    struct CUgraphNode_st *hErrNode_out;
    unsigned int           result_out;
};
#endif
