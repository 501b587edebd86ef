/* group.c - groups of ranks: the devices of one process. */
#include "group.h"

#include <stdlib.h>

#include "loader/missing.h"

/* ---- errors, contexts --------------------------------------------------------------------------------- */
ptxpack_status group_fail(const ptxpack_parallel_group *g, int32_t local, ptxpack_cu_result result,
                          const char *call)
{
    char           text[512];
    const ptxpack *handle = g->member[0].handle;
    return ptxpack_fail(handle, ptxpack_driver_status(result), "rank %d: %s: %s", (int)(g->first + local), call,
                        ptxpack_driver_error(ptxpack_driver_table(handle), result, text, sizeof text));
}

ptxpack_status group_pass(const ptxpack_parallel_group *g, int32_t local, ptxpack_status status)
{
    const ptxpack *first = g->member[0].handle, *handle = g->member[local].handle;
    return status == PTXPACK_OK || handle == first
               ? status
               : ptxpack_fail(first, status, "rank %d: %s", (int)(g->first + local), ptxpack_detail(handle));
}

ptxpack_status group_enter(const ptxpack_parallel_group *g, int32_t local, bool *pushed)
{
    const ptxpack *handle = g->member[local].handle;
    ptxpack_status status = ptxpack_check_process(handle);
    if (status == PTXPACK_OK)
        status = ptxpack_enter(handle, pushed);
    return group_pass(g, local, status);
}

void group_leave(const ptxpack_parallel_group *g, int32_t local, bool pushed)
{
    ptxpack_leave(g->member[local].handle, pushed);
}

/* ---- events ------------------------------------------------------------------------------------------- */
ptxpack_status group_record(const ptxpack_parallel_group *g, int32_t local, struct CUevent_st *event,
                            struct CUstream_st *stream)
{
    ptxpack_cu_result result = ptxpack_driver_table(g->member[local].handle)->cuEventRecord(event, stream);
    return result == PTXPACK_CU_SUCCESS ? PTXPACK_OK : group_fail(g, local, result, "cuEventRecord");
}

ptxpack_status group_wait_for(const ptxpack_parallel_group *g, int32_t local, struct CUstream_st *stream,
                              struct CUevent_st *event)
{
    ptxpack_cu_result result =
        ptxpack_driver_table(g->member[local].handle)->cuStreamWaitEvent(stream, event, 0);
    return result == PTXPACK_CU_SUCCESS ? PTXPACK_OK : group_fail(g, local, result, "cuStreamWaitEvent");
}

/* ---- copies ------------------------------------------------------------------------------------------- */
ptxpack_status group_copy(const ptxpack_parallel_group *g, struct CUstream_st *stream, int32_t to,
                          uint64_t to_address, int32_t from, uint64_t from_address, uint64_t bytes)
{
    const group_local_rank      *target = &g->member[to], *source = &g->member[from];
    const struct ptxpack_driver *d = ptxpack_driver_table(target->handle);
    struct CUctx_st  *there = ptxpack_context(target->handle), *here = ptxpack_context(source->handle);
    ptxpack_cu_result result = there == here
                                   ? d->cuMemcpyDtoDAsync(to_address, from_address, bytes, stream)
                                   : d->cuMemcpyPeerAsync(to_address, there, from_address, here, bytes, stream);
    return result == PTXPACK_CU_SUCCESS ? PTXPACK_OK : group_fail(g, to, result, "a copy between ranks");
}

static ptxpack_cu_peer_copy_side side_of(const ptxpack *handle, const group_side *side)
{
    return (ptxpack_cu_peer_copy_side){.x = (size_t)side->x,
                                       .y = (size_t)side->y,
                                       .type = PTXPACK_CU_MEMORYTYPE_DEVICE,
                                       .device = side->at,
                                       .context = ptxpack_context(handle),
                                       .pitch = (size_t)side->pitch,
                                       .height = (size_t)side->rows};
}

ptxpack_status group_copy_rows(const ptxpack_parallel_group *g, int32_t to, const group_side *to_side,
                               int32_t from, const group_side *from_side, const group_rows *rows)
{
    const group_local_rank    *target = &g->member[to];
    const ptxpack_cu_peer_copy copy = {.from = side_of(g->member[from].handle, from_side),
                                       .to = side_of(target->handle, to_side),
                                       .width = (size_t)rows->width,
                                       .height = (size_t)rows->height,
                                       .depth = (size_t)rows->depth};
    ptxpack_cu_result          result =
        ptxpack_driver_table(target->handle)
            ->cuMemcpy3DPeerAsync((const struct CUDA_MEMCPY3D_PEER_st *)(const void *)&copy, target->copies);
    return result == PTXPACK_CU_SUCCESS ? PTXPACK_OK
                                        : group_fail(g, to, result, "a copy of rows between ranks");
}

/* ---- making and freeing ------------------------------------------------------------------------------- */
/* Lets the memory of another rank be read from this one, and returns whether it can be: otherwise copies go through the host. */
static bool enable_access(const ptxpack *handle, const ptxpack *peer)
{
    const struct ptxpack_driver *d = ptxpack_driver_table(handle);
    const int device = ptxpack_device(handle)->ordinal, other = ptxpack_device(peer)->ordinal;
    int       can = 0;
    if (ptxpack_context(handle) == ptxpack_context(peer))
        return true;
    if (device == other || d->cuDeviceCanAccessPeer == NULL || d->cuCtxEnablePeerAccess == NULL ||
        d->cuDeviceCanAccessPeer(&can, device, other) != PTXPACK_CU_SUCCESS || !can)
        return false;
    ptxpack_cu_result result = d->cuCtxEnablePeerAccess(ptxpack_context(peer), 0);
    return result == PTXPACK_CU_SUCCESS || result == PTXPACK_CU_PEER_ACCESS_ALREADY_ENABLED;
}

bool group_shows(const ptxpack_parallel_group *g, int32_t local, uint64_t address)
{
    const struct ptxpack_driver *d = ptxpack_driver_table(g->member[local].handle);
    unsigned int                 attribute = PTXPACK_CU_POINTER_IS_LEGACY_IPC_CAPABLE;
    uint64_t                     plain = 0; /* a boolean, whatever bytes of it the driver writes */
    void                        *value = &plain;
    return g->direct && d->cuPointerGetAttributes != NULL &&
           d->cuPointerGetAttributes(1, &attribute, &value, address) == PTXPACK_CU_SUCCESS && plain != 0;
}

ptxpack_parallel_group *group_allocate(int32_t local)
{
    ptxpack_parallel_group *g = (ptxpack_parallel_group *)calloc(1,
                                                                 sizeof *g + (size_t)local * sizeof *g->member);
    if (g == NULL)
        return NULL;
    g->ranks = g->local = local;
    g->member = (group_local_rank *)(g + 1);
    return g;
}

ptxpack_status group_make_member(ptxpack_parallel_group *g, int32_t local)
{
    group_local_rank            *member = &g->member[local];
    const struct ptxpack_driver *d = ptxpack_driver_table(member->handle);
    bool                         pushed;
    if (ptxpack_context(member->handle) != ptxpack_context(g->member[0].handle) && d->cuMemcpyPeerAsync == NULL)
        return ptxpack_fail(g->member[0].handle, PTXPACK_E_DRIVER,
                            "rank %d: the driver has no cuMemcpyPeerAsync", (int)local);
    ptxpack_status status = group_enter(g, local, &pushed);
    if (status != PTXPACK_OK)
        return status;
    for (int32_t i = 0; i < g->local; i++)
        if (!enable_access(member->handle, g->member[i].handle))
            g->direct = false;
    ptxpack_cu_result result = d->cuStreamCreate(&member->copies, PTXPACK_CU_STREAM_NON_BLOCKING);
    if (result == PTXPACK_CU_SUCCESS)
        result = d->cuStreamCreate(&member->values, PTXPACK_CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 2 && result == PTXPACK_CU_SUCCESS; i++)
        result = d->cuStreamCreate(&member->beside[i], PTXPACK_CU_STREAM_NON_BLOCKING);
    if (result == PTXPACK_CU_SUCCESS && g->nccl != NULL) {
        ptxpack_deviceptr at = 0;
        result = d->cuMemAlloc(&at, (size_t)(g->ranks + 1) * GROUP_RECORD);
        g->records = at;
    }
    group_leave(g, local, pushed);
    return result == PTXPACK_CU_SUCCESS ? PTXPACK_OK : group_fail(g, local, result, "a stream of the group");
}

static bool are_apart(const ptxpack_parallel_group *g)
{
    for (int32_t i = 0; i < g->local; i++)
        for (int32_t other = 0; other < i; other++)
            if (ptxpack_device(g->member[i].handle)->ordinal ==
                ptxpack_device(g->member[other].handle)->ordinal)
                return false;
    return true;
}

ptxpack_status ptxpack_parallel_devices(ptxpack *const *handles, int32_t ranks, ptxpack_parallel_group **group)
{
    if (group != NULL)
        *group = NULL;
    if (handles == NULL)
        return PTXPACK_MISSING(NULL, "handles");
    if (group == NULL)
        return PTXPACK_MISSING(handles[0], "group");
    if (ranks < 1 || ranks > GROUP_RANKS)
        return ptxpack_fail(handles[0], PTXPACK_E_ARG, "ranks is %d, not 1 to %d", (int)ranks,
                            (int)GROUP_RANKS);
    for (int32_t i = 0; i < ranks; i++)
        if (handles[i] == NULL || ptxpack_driver_table(handles[i]) == NULL)
            return ptxpack_fail(handles[0], PTXPACK_E_ARG, "handles[%d] is %s", (int)i,
                                handles[i] == NULL ? "NULL" : "offline");
    ptxpack_parallel_group *g = group_allocate(ranks);
    if (g == NULL)
        return ptxpack_fail(handles[0], PTXPACK_E_MEMORY, "out of memory for a group of %d ranks", (int)ranks);
    g->timeout_ms = INT32_MAX;
    g->direct = true;
    for (int32_t i = 0; i < ranks; i++)
        g->member[i].handle = handles[i];
    g->apart = are_apart(g);
    ptxpack_status status = PTXPACK_OK;
    for (int32_t i = 0; i < ranks && status == PTXPACK_OK; i++)
        status = group_make_member(g, i);
    if (status == PTXPACK_OK)
        *group = g;
    else
        ptxpack_parallel_free(g);
    return status;
}

void ptxpack_parallel_free(ptxpack_parallel_group *g)
{
    bool pushed;
    if (g != NULL && g->nccl != NULL)
        presence_free(&g->present);
    if (g != NULL && g->own_comm && g->comm != NULL)
        g->nccl->ncclCommDestroy(g->comm);
    for (int32_t i = 0; g != NULL && i < g->local; i++)
        if (g->member[i].copies != NULL && group_enter(g, i, &pushed) == PTXPACK_OK) {
            const struct ptxpack_driver *d = ptxpack_driver_table(g->member[i].handle);
            d->cuStreamDestroy(g->member[i].copies);
            if (g->member[i].values != NULL)
                d->cuStreamDestroy(g->member[i].values);
            for (int n = 0; n < 2; n++)
                if (g->member[i].beside[n] != NULL)
                    d->cuStreamDestroy(g->member[i].beside[n]);
            if (g->records != 0)
                d->cuMemFree(g->records);
            group_leave(g, i, pushed);
        }
    free(g);
}

int32_t ptxpack_parallel_ranks(const ptxpack_parallel_group *g) { return g != NULL ? g->ranks : 0; }
int32_t ptxpack_parallel_local(const ptxpack_parallel_group *g) { return g != NULL ? g->local : 0; }
int32_t ptxpack_parallel_rank(const ptxpack_parallel_group *g) { return g != NULL ? g->first : 0; }
