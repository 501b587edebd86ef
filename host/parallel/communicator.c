/* communicator.c - groups of several processes, or threads, by NCCL: making them, waiting with a timeout, and giving up.
 *
 * Communicators that a group makes do not block: a call of NCCL may return while it is in progress, and is asked until it is
 * not, or until the timeout is over.  Whoever gives up aborts the communicator, so that the streams go on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "group.h"
#include "loader/missing.h"

/* ---- giving up ---------------------------------------------------------------------------------------- */
ptxpack_status group_usable(const ptxpack_parallel_group *g)
{
    return g->broken[0] == '\0' ? PTXPACK_OK
                                : ptxpack_fail(g->member[0].handle, PTXPACK_E_PEER, "%s", g->broken);
}

/* Aborts the communicator, also that of the application, and keeps the line. */
static ptxpack_status give_up(ptxpack_parallel_group *g, const char *what, const char *cause)
{
    if (g->broken[0] == '\0') {
        snprintf(g->broken, sizeof g->broken, "rank %d of %d: %s: %s", (int)g->first, (int)g->ranks, what,
                 cause);
        if (g->comm != NULL)
            g->nccl->ncclCommAbort(g->comm);
        g->comm = NULL;
    }
    return group_usable(g);
}

/* NCCL's own words: the communicator's last error, where it has one; and in a call that waits for all ranks, who is missing:
 * another one may have given up for that. */
static ptxpack_status give_up_with(ptxpack_parallel_group *g, const char *what, nccl_result result)
{
    char        cause[400], missing[PRESENCE_TEXT];
    const char *last = g->comm != NULL ? g->nccl->ncclGetLastError(g->comm) : NULL;
    const bool  some = presence_missing(&g->present, missing);
    snprintf(cause, sizeof cause, "NCCL: %s%s%.150s%s%s%s", g->nccl->ncclGetErrorString(result),
             last != NULL && *last != '\0' ? ": " : "", last != NULL ? last : "", some ? "; " : "",
             some ? missing : "", some ? " not seen on this machine" : "");
    return give_up(g, what, cause);
}

/* The time is over. */
static ptxpack_status give_up_late(ptxpack_parallel_group *g, const char *what, const char *otherwise)
{
    char cause[256], missing[PRESENCE_TEXT];
    if (presence_missing(&g->present, missing))
        snprintf(cause, sizeof cause, "%s not seen on this machine within %d ms", missing, (int)g->timeout_ms);
    else
        snprintf(cause, sizeof cause, "%s %d ms", otherwise, (int)g->timeout_ms);
    return give_up(g, what, cause);
}

/* ---- waiting ------------------------------------------------------------------------------------------ */
static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void pause_briefly(void)
{
    const struct timespec t = {0, 50000};
    nanosleep(&t, NULL);
}

/* Whether the time is over; pauses if not, and looks who else has come. */
static bool is_over(ptxpack_parallel_group *g, int64_t began)
{
    const int64_t now = now_ms();
    presence_look(&g->present, now);
    if (now - began >= g->timeout_ms)
        return true;
    pause_briefly();
    return false;
}

/* Until what was called last is no longer in progress. */
static ptxpack_status settle(ptxpack_parallel_group *g, const char *what, nccl_result result)
{
    const int64_t began = now_ms();
    while (result == NCCL_IN_PROGRESS) {
        nccl_result asked = g->nccl->ncclCommGetAsyncError(g->comm, &result);
        if (asked != NCCL_SUCCESS)
            result = asked;
        else if (result == NCCL_IN_PROGRESS && is_over(g, began))
            return give_up_late(g, what, "a rank did not take part within");
    }
    return result == NCCL_SUCCESS ? PTXPACK_OK : give_up_with(g, what, result);
}

/* The first step of the last launch that is not over, in words. */
static void say_awaited(const ptxpack_parallel_group *g, char *text, size_t size)
{
    const struct ptxpack_driver *d = ptxpack_driver_table(g->member[0].handle);
    snprintf(text, size, "%s", g->together != NULL ? g->together : "its launch");
    for (int32_t i = 0; i < g->step_count; i++)
        if (d->cuEventQuery(g->steps[i].event) == PTXPACK_CU_NOT_READY) {
            if (g->steps[i].rank >= 0)
                snprintf(text, size, "data of rank %d (step %d)", (int)g->steps[i].rank, (int)i + 1);
            else
                snprintf(text, size, "data of the other ranks");
            return;
        }
}

ptxpack_status group_wait(ptxpack_parallel_group *g, int32_t local, struct CUstream_st *stream)
{
    const struct ptxpack_driver *d = ptxpack_driver_table(g->member[local].handle);
    const int64_t                began = now_ms();
    char                         awaited[64];
    for (;;) {
        ptxpack_cu_result result = d->cuStreamQuery(stream);
        nccl_result       error = NCCL_SUCCESS;
        if (result != PTXPACK_CU_SUCCESS && result != PTXPACK_CU_NOT_READY)
            return group_fail(g, local, result, "a kernel or copy failed");
        if (g->comm != NULL && g->nccl->ncclCommGetAsyncError(g->comm, &error) == NCCL_SUCCESS &&
            error != NCCL_SUCCESS && error != NCCL_IN_PROGRESS) {
            say_awaited(g, awaited, sizeof awaited);
            return give_up_with(g, awaited, error);
        }
        if (result == PTXPACK_CU_SUCCESS) /* only now: after an error the streams go on without the data */
            return PTXPACK_OK;
        if (is_over(g, began)) {
            say_awaited(g, awaited, sizeof awaited);
            return g->nccl != NULL
                       ? give_up_late(g, awaited, "not there after")
                       : ptxpack_fail(g->member[0].handle, PTXPACK_E_PEER, "rank %d: %s: not there after %d ms",
                                      (int)(g->first + local), awaited, (int)g->timeout_ms);
        }
    }
}

/* ---- operations --------------------------------------------------------------------------------------- */
ptxpack_status group_begin(ptxpack_parallel_group *g)
{
    nccl_result result = g->nccl->ncclGroupStart();
    return result == NCCL_SUCCESS ? PTXPACK_OK : give_up_with(g, "ncclGroupStart", result);
}

ptxpack_status group_end(ptxpack_parallel_group *g, nccl_result worst)
{
    nccl_result result = g->nccl->ncclGroupEnd();
    return settle(g, g->together != NULL ? g->together : "sends and receives",
                  worst != NCCL_SUCCESS && worst != NCCL_IN_PROGRESS ? worst : result);
}

/* The address of a buffer of the device as NCCL takes it. */
static void *pointer(uint64_t address) { return (void *)(uintptr_t)address; }

static ptxpack_status exchange(ptxpack_parallel_group *g, const void *record, void *all)
{
    const group_local_rank      *m = &g->member[0];
    const struct ptxpack_driver *d = ptxpack_driver_table(m->handle);
    const uint64_t               own = g->records + (uint64_t)g->ranks * GROUP_RECORD;
    bool                         pushed;
    ptxpack_status               status = group_enter(g, 0, &pushed);
    if (status != PTXPACK_OK)
        return status;
    g->step_count = 0;
    ptxpack_cu_result copied = d->cuMemcpyHtoDAsync(own, record, GROUP_RECORD, m->copies);
    if (copied == PTXPACK_CU_SUCCESS && (status = group_begin(g)) == PTXPACK_OK) {
        nccl_result result = g->nccl->ncclAllGather(pointer(own), pointer(g->records), GROUP_RECORD, NCCL_INT8,
                                                    g->comm, m->copies);
        status = group_end(g, result);
        if (status == PTXPACK_OK)
            status = group_wait(g, 0, m->copies);
        if (status == PTXPACK_OK)
            copied = d->cuMemcpyDtoH(all, g->records, (size_t)g->ranks * GROUP_RECORD);
    }
    group_leave(g, 0, pushed);
    return copied == PTXPACK_CU_SUCCESS ? status : group_fail(g, 0, copied, "an exchange between ranks");
}

ptxpack_status group_exchange(ptxpack_parallel_group *g, const void *record, void *all)
{
    if (g->nccl == NULL) {
        memcpy(all, record, GROUP_RECORD);
        return PTXPACK_OK;
    }
    ptxpack_status status = group_usable(g);
    if (status != PTXPACK_OK)
        return status;
    char marked[GROUP_RECORD];
    memcpy(marked, record, GROUP_RECORD - GROUP_MARK);
    memcpy(marked + GROUP_RECORD - GROUP_MARK, g->mark, GROUP_MARK);
    g->together = "making a plan";
    presence_begin(&g->present);
    status = exchange(g, marked, all);
    presence_end(&g->present);
    g->together = NULL;
    if (status == PTXPACK_OK && g->present.group == 0)
        presence_init(&g->present, (char *)all + GROUP_RECORD - GROUP_MARK, GROUP_MARK, g->ranks, g->first);
    return status;
}

/* ---- making and freeing ------------------------------------------------------------------------------- */
ptxpack_status ptxpack_parallel_id(uint8_t id[PTXPACK_PARALLEL_ID_BYTES])
{
    const nccl_table *nccl;
    nccl_id           unique;
    if (id == NULL)
        return PTXPACK_MISSING(NULL, "id");
    ptxpack_status status = nccl_open(NULL, &nccl);
    if (status != PTXPACK_OK)
        return status;
    nccl_result result = nccl->ncclGetUniqueId(&unique);
    if (result != NCCL_SUCCESS)
        return ptxpack_fail(NULL, PTXPACK_E_PEER, "ncclGetUniqueId: NCCL: %s",
                            nccl->ncclGetErrorString(result));
    memcpy(id, unique.bytes, sizeof unique.bytes);
    return PTXPACK_OK;
}

/* A group of one local rank, without its communicator. */
static ptxpack_status make_group(ptxpack *handle, int32_t ranks, int32_t rank, int32_t timeout_ms,
                                 ptxpack_parallel_group **out)
{
    const nccl_table *nccl;
    *out = NULL;
    if (ptxpack_driver_table(handle) == NULL)
        return ptxpack_fail(handle, PTXPACK_E_ARG, "the handle is offline");
    if (ranks < 1 || ranks > GROUP_RANKS || rank < 0 || rank >= ranks)
        return ptxpack_fail(handle, PTXPACK_E_ARG, "rank %d of %d is not one of 1 to %d ranks", (int)rank,
                            (int)ranks, (int)GROUP_RANKS);
    if (timeout_ms < 1)
        return ptxpack_fail(handle, PTXPACK_E_ARG, "timeout_ms is %d; it must be at least 1", (int)timeout_ms);
    ptxpack_status status = nccl_open(handle, &nccl);
    if (status != PTXPACK_OK)
        return status;
    ptxpack_parallel_group *g = group_allocate(1);
    if (g == NULL)
        return ptxpack_fail(handle, PTXPACK_E_MEMORY, "out of memory for a group of %d ranks", (int)ranks);
    g->ranks = ranks;
    g->first = rank;
    g->nccl = nccl;
    g->timeout_ms = timeout_ms;
    g->mark[0] = (uint64_t)getpid() << 32 ^ (uint64_t)now_ms();
    g->mark[1] = (uint64_t)(uintptr_t)g;
    presence_init(&g->present, NULL, 0, ranks, rank);
    g->member[0].handle = handle;
    status = group_make_member(g, 0);
    if (status == PTXPACK_OK)
        *out = g;
    else
        ptxpack_parallel_free(g);
    return status;
}

static ptxpack_status join(ptxpack_parallel_group *g, const uint8_t *bytes)
{
    nccl_config config = {sizeof config, (unsigned)NCCL_CONFIG_MAGIC, NCCL_CONFIG_VERSION, 0};
    nccl_id     id;
    bool        pushed;
    memcpy(id.bytes, bytes, sizeof id.bytes);
    ptxpack_status status = group_enter(g, 0, &pushed);
    if (status != PTXPACK_OK)
        return status;
    g->own_comm = true;
    presence_init(&g->present, bytes, PTXPACK_PARALLEL_ID_BYTES, g->ranks, g->first);
    presence_begin(&g->present);
    nccl_result result = g->nccl->ncclCommInitRankConfig(&g->comm, g->ranks, id, g->first, &config);
    if (g->comm == NULL)
        status = give_up_with(g, "joining the group", result != NCCL_SUCCESS ? result : NCCL_IN_PROGRESS);
    else
        status = settle(g, "joining the group", result);
    presence_end(&g->present);
    group_leave(g, 0, pushed);
    return status;
}

ptxpack_status ptxpack_parallel_join(ptxpack *handle, const uint8_t id[PTXPACK_PARALLEL_ID_BYTES],
                                     int32_t ranks, int32_t rank, int32_t timeout_ms,
                                     ptxpack_parallel_group **group)
{
    if (group != NULL)
        *group = NULL;
    if (handle == NULL)
        return PTXPACK_MISSING(NULL, "handle");
    if (id == NULL)
        return PTXPACK_MISSING(handle, "id");
    if (group == NULL)
        return PTXPACK_MISSING(handle, "group");
    ptxpack_status status = make_group(handle, ranks, rank, timeout_ms, group);
    if (status == PTXPACK_OK && (status = join(*group, id)) != PTXPACK_OK) {
        ptxpack_parallel_free(*group);
        *group = NULL;
    }
    return status;
}

ptxpack_status ptxpack_parallel_communicator(ptxpack *handle, struct ncclComm *comm, int32_t timeout_ms,
                                             ptxpack_parallel_group **group)
{
    const nccl_table *nccl;
    int               ranks = 0, rank = 0;
    if (group != NULL)
        *group = NULL;
    if (handle == NULL)
        return PTXPACK_MISSING(NULL, "handle");
    if (comm == NULL)
        return PTXPACK_MISSING(handle, "comm");
    if (group == NULL)
        return PTXPACK_MISSING(handle, "group");
    ptxpack_status status = nccl_open(handle, &nccl);
    if (status != PTXPACK_OK)
        return status;
    nccl_result result = nccl->ncclCommCount(comm, &ranks);
    if (result == NCCL_SUCCESS)
        result = nccl->ncclCommUserRank(comm, &rank);
    if (result != NCCL_SUCCESS)
        return ptxpack_fail(handle, PTXPACK_E_PEER, "comm: NCCL: %s", nccl->ncclGetErrorString(result));
    status = make_group(handle, ranks, rank, timeout_ms, group);
    if (status == PTXPACK_OK)
        (*group)->comm = comm;
    return status;
}

ptxpack_status ptxpack_parallel_wait(ptxpack_parallel_group *g, struct CUstream_st *const *streams)
{
    bool pushed;
    if (g == NULL)
        return PTXPACK_MISSING(NULL, "group");
    if (streams == NULL)
        return PTXPACK_MISSING(g->member[0].handle, "streams");
    ptxpack_status status = group_usable(g);
    for (int32_t i = 0; i < g->local && status == PTXPACK_OK; i++) {
        status = group_enter(g, i, &pushed);
        if (status == PTXPACK_OK) {
            status = group_wait(g, i, streams[i]);
            group_leave(g, i, pushed);
        }
    }
    return status;
}
