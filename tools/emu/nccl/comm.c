/* comm.c - communicators. */
#include "internal.h"
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const uint64_t MAGIC = 0x6d6d6f636c63636eull;
enum { LOOK_EVERY = 200 }; /* microseconds */

/* ---- checks -------------------------------------------------------------------------------------------- */
nccl_result nccl_comm_check(const struct ncclComm *comm, const char *call)
{
    if (comm == NULL || comm->magic != MAGIC)
        return nccl_error(NCCL_InvalidArgument, "%s: the communicator is %s", call,
                          comm == NULL ? "NULL" : "none, or was destroyed");
    return NCCL_Success;
}

static nccl_result not_null(const void *pointer, const char *call, const char *what)
{
    return pointer != NULL ? NCCL_Success : nccl_error(NCCL_InvalidArgument, "%s: %s is NULL", call, what);
}

/* ---- failures ------------------------------------------------------------------------------------------ */
nccl_result nccl_comm_failure(struct ncclComm *comm, bool look)
{
    if (!atomic_load(&comm->aborted))
        return nccl_segment_failed(&comm->segment, look, comm->text);
    snprintf(comm->text, sizeof comm->text, "rank %d has aborted", comm->rank);
    return NCCL_InvalidUsage;
}

void nccl_comm_fail(struct ncclComm *comm, nccl_result result, const char *format, ...)
{
    char    text[NCCL_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    nccl_segment_fail(&comm->segment, result, text);
}

/* ---- life ---------------------------------------------------------------------------------------------- */
void nccl_comm_keep(struct ncclComm *comm) { atomic_fetch_add(&comm->references, 1); }

void nccl_comm_release(struct ncclComm *comm)
{
    if (atomic_fetch_sub(&comm->references, 1) != 1)
        return;
    nccl_segment_close(&comm->segment);
    free(comm);
}

/* Of the current context, which must be there. */
static nccl_result make(const struct nccl_driver *driver, const nccl_id *id, int ranks, int rank,
                        struct ncclComm **out)
{
    struct CUctx_st *context = NULL;
    int              device = -1;
    if (driver->cuCtxGetCurrent(&context) != 0 || context == NULL || driver->cuCtxGetDevice(&device) != 0)
        return nccl_error(NCCL_UnhandledCudaError, "rank %d: no context is current", rank);
    struct ncclComm *comm = (struct ncclComm *)calloc(1, sizeof *comm);
    if (comm == NULL)
        return nccl_error(NCCL_SystemError, "rank %d: out of memory", rank);
    nccl_result result = nccl_segment_join(&comm->segment, id, ranks, rank, device);
    if (result != NCCL_Success) {
        free(comm);
        return result;
    }
    comm->magic = MAGIC;
    atomic_store(&comm->references, 1);
    comm->driver = driver;
    comm->context = context;
    comm->device = device;
    comm->rank = rank;
    comm->ranks = ranks;
    *out = comm;
    return NCCL_Success;
}

/* The caller's communicator ends; operations in streams end at their next step. */
static void end(struct ncclComm *comm, bool aborted)
{
    nccl_segment_leave(&comm->segment, aborted);
    if (comm->owns_context)
        comm->driver->cuDevicePrimaryCtxRelease_v2(comm->device);
    comm->magic = 0;
    nccl_comm_release(comm);
}

nccl_result nccl_comm_wait(struct ncclComm *comm)
{
    while (!nccl_segment_complete(&comm->segment)) {
        NCCL_TRY(nccl_comm_failure(comm, true));
        usleep(LOOK_EVERY);
    }
    return NCCL_Success;
}

/* Until what was enqueued has ended, or nothing will. */
static void flush(struct ncclComm *comm)
{
    while (atomic_load(&comm->pending) != 0 && nccl_comm_failure(comm, true) == NCCL_Success)
        usleep(LOOK_EVERY);
}

/* ---- making -------------------------------------------------------------------------------------------- */
nccl_result ncclGetUniqueId(nccl_id *id)
{
    NCCL_TRY(not_null(id, "ncclGetUniqueId", "the id"));
    nccl_segment_name(id);
    return NCCL_Success;
}

static nccl_result check_ranks(const char *call, int ranks, int rank)
{
    if (ranks < 1 || ranks > NCCL_MOST_RANKS)
        return nccl_error(NCCL_InvalidArgument, "%s: %d ranks, not 1 to %d", call, ranks, (int)NCCL_MOST_RANKS);
    if (rank < 0 || rank >= ranks)
        return nccl_error(NCCL_InvalidArgument, "%s: rank %d of %d", call, rank, ranks);
    return nccl_fault_check();
}

static nccl_result init(const char *call, struct ncclComm **out, int ranks, const nccl_id *id, int rank,
                        bool blocking)
{
    struct ncclComm *comm = NULL;
    NCCL_TRY(not_null(out, call, "comm"));
    NCCL_TRY(check_ranks(call, ranks, rank));
    const struct nccl_driver *driver = nccl_driver_find();
    if (driver == NULL)
        return NCCL_UnhandledCudaError;
    *out = NULL;
    NCCL_TRY(make(driver, id, ranks, rank, &comm));
    nccl_result result = nccl_group_init(comm, blocking);
    if (result == NCCL_Success || result == NCCL_InProgress)
        *out = comm;
    else
        end(comm, true);
    return result;
}

nccl_result ncclCommInitRank(struct ncclComm **comm, int ranks, nccl_id id, int rank)
{
    return nccl_group_result(init("ncclCommInitRank", comm, ranks, &id, rank, true));
}

nccl_result ncclCommInitRankConfig(struct ncclComm **comm, int ranks, nccl_id id, int rank, nccl_config *config)
{
    const char *call = "ncclCommInitRankConfig";
    if (config != NULL && (config->size < sizeof *config || config->magic != (unsigned int)NCCL_CONFIG_MAGIC))
        return nccl_group_result(nccl_error(NCCL_InvalidArgument,
                                            "%s: the configuration was not made by NCCL_CONFIG_INITIALIZER",
                                            call));
    const int blocking = config != NULL && config->blocking != INT_MIN ? config->blocking : 1;
    if (blocking != 0 && blocking != 1)
        return nccl_group_result(
            nccl_error(NCCL_InvalidArgument, "%s: blocking is %d, not 0 or 1", call, blocking));
    return nccl_group_result(init(call, comm, ranks, &id, rank, blocking != 0));
}

static nccl_result init_one(const struct nccl_driver *driver, const nccl_id *id, int ranks, int rank,
                            int device, struct ncclComm **out)
{
    struct CUctx_st *context = NULL;
    const unsigned   error = driver->cuDevicePrimaryCtxRetain(&context, device);
    if (error != 0)
        return nccl_error(NCCL_UnhandledCudaError, "ncclCommInitAll: device %d gives error %u", device, error);
    driver->cuCtxPushCurrent_v2(context);
    nccl_result result = make(driver, id, ranks, rank, out);
    driver->cuCtxPopCurrent_v2(&context);
    if (result == NCCL_Success)
        (*out)->owns_context = true;
    else
        driver->cuDevicePrimaryCtxRelease_v2(device);
    return result;
}

nccl_result ncclCommInitAll(struct ncclComm **comms, int count, const int *devices)
{
    nccl_id     id;
    nccl_result result = NCCL_Success;
    NCCL_TRY(not_null(comms, "ncclCommInitAll", "comm"));
    NCCL_TRY(check_ranks("ncclCommInitAll", count, 0));
    const struct nccl_driver *driver = nccl_driver_find();
    if (driver == NULL || driver->cuInit(0) != 0)
        return driver == NULL ? NCCL_UnhandledCudaError
                              : nccl_error(NCCL_UnhandledCudaError, "ncclCommInitAll: cuInit fails");
    nccl_segment_name(&id);
    for (int i = 0; i < count; i++)
        comms[i] = NULL;
    for (int i = 0; i < count && result == NCCL_Success; i++)
        result = init_one(driver, &id, count, i, devices != NULL ? devices[i] : i, &comms[i]);
    for (int i = 0; i < count && result != NCCL_Success && comms[i] != NULL; i++) {
        end(comms[i], true);
        comms[i] = NULL;
    }
    return result;
}

/* ---- ending -------------------------------------------------------------------------------------------- */
nccl_result ncclCommFinalize(struct ncclComm *comm)
{
    NCCL_TRY(nccl_comm_check(comm, "ncclCommFinalize"));
    if (atomic_exchange(&comm->finalized, true))
        return nccl_error(NCCL_InvalidArgument, "ncclCommFinalize: rank %d was finalized already", comm->rank);
    flush(comm);
    return nccl_comm_failure(comm, false);
}

nccl_result ncclCommDestroy(struct ncclComm *comm)
{
    if (comm == NULL)
        return NCCL_Success;
    NCCL_TRY(nccl_comm_check(comm, "ncclCommDestroy"));
    flush(comm);
    end(comm, false);
    return NCCL_Success;
}

/* When it returns, no operation of this rank touches memory any more. */
nccl_result ncclCommAbort(struct ncclComm *comm)
{
    if (comm == NULL)
        return NCCL_Success;
    NCCL_TRY(nccl_comm_check(comm, "ncclCommAbort"));
    nccl_comm_fail(comm, NCCL_InvalidUsage, "rank %d has aborted", comm->rank);
    atomic_store(&comm->aborted, true);
    while (atomic_load(&comm->running) != 0)
        usleep(LOOK_EVERY);
    end(comm, true);
    return NCCL_Success;
}

/* ---- queries ------------------------------------------------------------------------------------------- */
nccl_result ncclCommGetAsyncError(struct ncclComm *comm, nccl_result *error)
{
    NCCL_TRY(nccl_comm_check(comm, "ncclCommGetAsyncError"));
    NCCL_TRY(not_null(error, "ncclCommGetAsyncError", "the result"));
    *error = nccl_comm_failure(comm, true);
    if (*error == NCCL_Success && !nccl_segment_complete(&comm->segment))
        *error = NCCL_InProgress;
    return NCCL_Success;
}

static nccl_result ask(const struct ncclComm *comm, const char *call, const int *value, int *to)
{
    NCCL_TRY(nccl_comm_check(comm, call));
    NCCL_TRY(not_null(to, call, "the result"));
    *to = *value;
    return NCCL_Success;
}

nccl_result ncclCommCount(struct ncclComm *comm, int *count)
{
    return ask(comm, "ncclCommCount", comm != NULL ? &comm->ranks : NULL, count);
}
nccl_result ncclCommCuDevice(struct ncclComm *comm, int *device)
{
    return ask(comm, "ncclCommCuDevice", comm != NULL ? &comm->device : NULL, device);
}
nccl_result ncclCommUserRank(struct ncclComm *comm, int *rank)
{
    return ask(comm, "ncclCommUserRank", comm != NULL ? &comm->rank : NULL, rank);
}
