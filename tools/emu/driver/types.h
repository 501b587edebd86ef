/* types.h - the prototypes of the emulated driver: the Driver API's own names, in minimal types.
 *
 * Enumerations are unsigned int, CUdevice is int, handles are pointers to the structures of cuda.h.  This
 * header may be included after cuda.h. */
#ifndef EMU_API_TYPES_H
#define EMU_API_TYPES_H
#include <stddef.h>
#include <stdint.h>

typedef unsigned int       api_result;  /* CUresult    */
typedef unsigned long long api_address; /* CUdeviceptr */

struct CUctx_st;
struct CUmod_st;
struct CUlib_st;
struct CUkern_st;
struct CUfunc_st;
struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphNode_st;
struct CUgraphExec_st;
struct CUlinkState_st;
struct CUuuid_st;
struct CUdevprop_st;
struct CUipcMemHandle_st;
struct CUipcEventHandle_st;
struct CUexecAffinityParam_st;
struct CUctxCreateParams_st;
struct CUgraphEdgeData_st;
struct CUlaunchConfig_st;
struct CUtensorMap_st;
struct CUDA_MEMCPY2D_st;
struct CUDA_MEMCPY3D_st;
struct CUDA_MEMCPY3D_PEER_st;
struct CUDA_KERNEL_NODE_PARAMS_st;
struct CUDA_KERNEL_NODE_PARAMS_v2_st;
struct CUDA_MEMSET_NODE_PARAMS_st;
struct CUDA_HOST_NODE_PARAMS_st;
struct CUDA_GRAPH_INSTANTIATE_PARAMS_st;

typedef void   api_stream_callback(struct CUstream_st *stream, api_result result, void *data);
typedef void   api_host_function(void *data);
typedef size_t api_block_to_shared(int block);

#define API_EXPORT                             __attribute__((visibility("default")))
#define API(name, suffix, version, parameters) API_EXPORT api_result name##suffix parameters;
#include "api.def"
#undef API
#endif
