/* streams.c - streams, events and graphs: they are the driver's. */
#include "runtime.h"

runtime_result cudaStreamCreate(struct CUstream_st **stream) { RUNTIME_CALL(cuStreamCreate(stream, 0)); }
runtime_result cudaStreamCreateWithFlags(struct CUstream_st **stream, unsigned int flags)
{
    RUNTIME_CALL(cuStreamCreate(stream, flags));
}
runtime_result cudaStreamCreateWithPriority(struct CUstream_st **stream, unsigned int flags, int priority)
{
    RUNTIME_CALL(cuStreamCreateWithPriority(stream, flags, priority));
}
runtime_result cudaStreamDestroy(struct CUstream_st *stream) { RUNTIME_CALL(cuStreamDestroy_v2(stream)); }
runtime_result cudaStreamSynchronize(struct CUstream_st *stream) { RUNTIME_CALL(cuStreamSynchronize(stream)); }
runtime_result cudaStreamQuery(struct CUstream_st *stream) { RUNTIME_CALL(cuStreamQuery(stream)); }
runtime_result cudaStreamGetFlags(struct CUstream_st *stream, unsigned int *flags)
{
    RUNTIME_CALL(cuStreamGetFlags(stream, flags));
}
runtime_result cudaStreamGetPriority(struct CUstream_st *stream, int *priority)
{
    RUNTIME_CALL(cuStreamGetPriority(stream, priority));
}
runtime_result cudaStreamWaitEvent(struct CUstream_st *stream, struct CUevent_st *event, unsigned int flags)
{
    RUNTIME_CALL(cuStreamWaitEvent(stream, event, flags));
}
runtime_result cudaLaunchHostFunc(struct CUstream_st *stream, api_host_function *function, void *data)
{
    RUNTIME_CALL(cuLaunchHostFunc(stream, function, data));
}
runtime_result cudaEventCreate(struct CUevent_st **event) { RUNTIME_CALL(cuEventCreate(event, 0)); }
runtime_result cudaEventCreateWithFlags(struct CUevent_st **event, unsigned int flags)
{
    RUNTIME_CALL(cuEventCreate(event, flags));
}
runtime_result cudaEventDestroy(struct CUevent_st *event) { RUNTIME_CALL(cuEventDestroy_v2(event)); }
runtime_result cudaEventRecord(struct CUevent_st *event, struct CUstream_st *stream)
{
    RUNTIME_CALL(cuEventRecord(event, stream));
}
runtime_result cudaEventSynchronize(struct CUevent_st *event) { RUNTIME_CALL(cuEventSynchronize(event)); }
runtime_result cudaEventQuery(struct CUevent_st *event) { RUNTIME_CALL(cuEventQuery(event)); }
runtime_result cudaIpcGetEventHandle(struct CUipcEventHandle_st *handle, struct CUevent_st *event)
{
    RUNTIME_CALL(cuIpcGetEventHandle(handle, event));
}
runtime_result cudaIpcOpenEventHandle(struct CUevent_st **event, struct CUipcEventHandle_st handle)
{
    RUNTIME_CALL(cuIpcOpenEventHandle(event, handle));
}
runtime_result cudaEventElapsedTime(float *milliseconds, struct CUevent_st *from, struct CUevent_st *to)
{
    RUNTIME_CALL(cuEventElapsedTime_v2(milliseconds, from, to));
}

/* ---- graphs -------------------------------------------------------------------------------------------- */
runtime_result cudaStreamBeginCapture(struct CUstream_st *stream, unsigned int mode)
{
    RUNTIME_CALL(cuStreamBeginCapture_v2(stream, mode));
}
runtime_result cudaStreamEndCapture(struct CUstream_st *stream, struct CUgraph_st **graph)
{
    RUNTIME_CALL(cuStreamEndCapture(stream, graph));
}
runtime_result cudaStreamIsCapturing(struct CUstream_st *stream, unsigned int *status)
{
    RUNTIME_CALL(cuStreamIsCapturing(stream, status));
}
runtime_result cudaGraphInstantiate(struct CUgraphExec_st **exec, struct CUgraph_st *graph,
                                    unsigned long long flags)
{
    RUNTIME_CALL(cuGraphInstantiateWithFlags(exec, graph, flags));
}
runtime_result cudaGraphLaunch(struct CUgraphExec_st *exec, struct CUstream_st *stream)
{
    RUNTIME_CALL(cuGraphLaunch(exec, stream));
}
runtime_result cudaGraphDestroy(struct CUgraph_st *graph) { RUNTIME_CALL(cuGraphDestroy(graph)); }
runtime_result cudaGraphExecDestroy(struct CUgraphExec_st *exec) { RUNTIME_CALL(cuGraphExecDestroy(exec)); }
