/* group.c - groups of calls, and how operations come into streams.
 *
 * Outside of a group each call is one.  At the end of a group, all ncclSend and ncclRecv of a communicator become one
 * operation, whose parts go on at the same time; if they name several streams, it runs in the first one, after what is
 * in the others, which go on after it. */
#include "internal.h"
#include <stdlib.h>

struct call {
    struct nccl_operation *operation;
    struct CUstream_st    *stream;
};
static _Thread_local struct {
    int               depth;
    nccl_result       result; /* the first error within the group */
    struct call      *calls;
    struct ncclComm **made; /* by blocking calls */
    size_t            call_count, made_count;
} group;

/* ---- into streams -------------------------------------------------------------------------------------- */
static bool is_point_to_point(const struct nccl_operation *o)
{
    return o->part_count && o->parts[0].header.kind == NCCL_POINT_TO_POINT;
}

/* `after` does not go on before `before` is where it is now. */
static unsigned int order(const struct nccl_driver *d, struct CUstream_st *before, struct CUstream_st *after)
{
    enum { DISABLE_TIMING = 2 };
    struct CUevent_st *event = NULL;
    unsigned int       error = d->cuEventCreate(&event, DISABLE_TIMING);
    if (error != 0)
        return error;
    error = d->cuEventRecord(event, before);
    if (error == 0)
        error = d->cuStreamWaitEvent(after, event, 0);
    d->cuEventDestroy_v2(event);
    return error;
}

static nccl_result enqueue(struct nccl_operation *o, struct CUstream_st *const *streams, size_t count)
{
    const struct nccl_driver *d = o->comm->driver;
    struct CUctx_st          *context = NULL;
    unsigned int              error = d->cuCtxPushCurrent_v2(o->comm->context);
    if (error == 0) {
        for (size_t i = 1; i < count && error == 0; i++)
            error = order(d, streams[i], streams[0]);
        if (error == 0)
            error = d->ptxpack_emu_stream_task(streams[0], &nccl_task, o);
        for (size_t i = 1; i < count && error == 0; i++)
            error = order(d, streams[0], streams[i]);
        d->cuCtxPopCurrent_v2(&context);
    }
    return error == 0 ? NCCL_Success
                      : nccl_error(NCCL_UnhandledCudaError, "rank %d: the driver returns %u for the stream",
                                   o->comm->rank, error);
}

/* The parts of later calls of this communicator join those of the first one; `streams` gets their streams, once each. */
static bool merge(struct call *first, struct call *end, struct CUstream_st **streams, size_t *count)
{
    struct nccl_operation *o = first->operation;
    streams[0] = first->stream;
    *count = 1;
    for (struct call *c = first + 1; c < end; c++) {
        size_t i = 0;
        if (c->operation == NULL || c->operation->comm != o->comm || !is_point_to_point(c->operation))
            continue;
        for (size_t k = 0; k < c->operation->part_count; k++)
            if (!nccl_operation_add(o, &c->operation->parts[k]))
                return false;
        nccl_operation_release(c->operation);
        c->operation = NULL;
        while (i < *count && streams[i] != c->stream)
            i++;
        if (i == *count)
            streams[(*count)++] = c->stream;
    }
    return true;
}

static nccl_result enqueue_call(struct call *first, struct call *end)
{
    struct CUstream_st **streams = (struct CUstream_st **)malloc((size_t)(end - first) *
                                                                 sizeof(struct CUstream_st *));
    size_t               count = 1;
    nccl_result          result;
    if (streams == NULL)
        return nccl_error(NCCL_SystemError, "out of memory");
    streams[0] = first->stream;
    if (is_point_to_point(first->operation) && !merge(first, end, streams, &count))
        result = nccl_error(NCCL_SystemError, "out of memory");
    else
        result = enqueue(first->operation, streams, count);
    free(streams);
    return result;
}

/* Enqueues and clears what the group has collected, or only clears it after an error. */
static nccl_result flush(nccl_result result)
{
    struct call *end = group.calls + group.call_count;
    for (size_t i = 0; i < group.made_count && result == NCCL_Success; i++)
        result = nccl_comm_wait(group.made[i]);
    for (struct call *c = group.calls; c < end && result == NCCL_Success; c++)
        if (c->operation != NULL)
            result = enqueue_call(c, end);
    for (struct call *c = group.calls; c < end; c++)
        if (c->operation != NULL)
            nccl_operation_release(c->operation);
    free(group.calls);
    free(group.made);
    group.calls = NULL;
    group.made = NULL;
    group.call_count = group.made_count = 0;
    group.result = NCCL_Success;
    return result;
}

/* ---- calls --------------------------------------------------------------------------------------------- */
nccl_result nccl_group_result(nccl_result result)
{
    if (group.depth > 0 && group.result == NCCL_Success && result != NCCL_InProgress)
        group.result = result;
    return result;
}

nccl_result nccl_group_add(struct nccl_operation *operation, struct CUstream_st *stream)
{
    struct call *calls = (struct call *)realloc(group.calls, (group.call_count + 1) * sizeof *calls);
    if (calls == NULL) {
        nccl_operation_release(operation);
        return nccl_error(NCCL_SystemError, "out of memory");
    }
    group.calls = calls;
    calls[group.call_count++] = (struct call){operation, stream};
    return group.depth > 0 ? NCCL_Success : flush(NCCL_Success);
}

nccl_result nccl_group_init(struct ncclComm *comm, bool blocking)
{
    if (!blocking)
        return nccl_segment_complete(&comm->segment) ? NCCL_Success : NCCL_InProgress;
    if (group.depth == 0)
        return nccl_comm_wait(comm);
    struct ncclComm **made = (struct ncclComm **)realloc(group.made,
                                                         (group.made_count + 1) * sizeof(struct ncclComm *));
    if (made == NULL)
        return nccl_error(NCCL_SystemError, "out of memory");
    group.made = made;
    made[group.made_count++] = comm;
    return NCCL_Success;
}

nccl_result ncclGroupStart(void)
{
    group.depth++;
    return NCCL_Success;
}

nccl_result ncclGroupEnd(void)
{
    if (group.depth == 0)
        return nccl_error(NCCL_InvalidUsage, "ncclGroupEnd without ncclGroupStart");
    return --group.depth > 0 ? NCCL_Success : flush(group.result);
}
