/* internal.h - what the files of the emulated NCCL share.
 *
 *   driver.c     the emulated driver that the program has loaded
 *   segment.c    memory that the ranks of a communicator share, in one process or several: who is there, what has failed,
 *                and a ring of bytes from each rank to each other one
 *   comm.c       communicators
 *   group.c      calls between ncclGroupStart and ncclGroupEnd, and how operations come into streams
 *   operation.c  an operation: parts that send to a rank or receive from one, driven by the driver as a task
 *   collective.c the calls, as lists of parts
 *   reduce.c     sums, products, extremes
 *   fault.c      errors on request */
#ifndef EMU_NCCL_INTERNAL_H
#define EMU_NCCL_INTERNAL_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "abi.h"
#include "tools/emu/driver/layouts.h"
#include "tools/emu/driver/task.h"

#define NCCL(type, name, parameters) __attribute__((visibility("default"))) type name parameters;
#include "nccl.def"
#undef NCCL

#define NCCL_TRY(expression)             \
    do {                                 \
        nccl_result try_ = (expression); \
        if (try_ != NCCL_Success)        \
            return try_;                 \
    } while (0)

enum { NCCL_MOST_RANKS = 64, NCCL_TEXT = 256 };

/* ---- errors -------------------------------------------------------------------------------------------- */
/* Keeps the line for ncclGetLastError of this thread, and returns the result. */
nccl_result nccl_error(nccl_result result, const char *format, ...) __attribute__((format(printf, 2, 3)));
size_t      nccl_type_bytes(nccl_type type); /* 0: there is no such type */
const char *nccl_type_name(nccl_type type);

/* ---- the driver ---------------------------------------------------------------------------------------- */
#define NCCL_DRIVER_MAP(CALL)                                                                              \
    CALL(unsigned int, cuCtxGetCurrent, (struct CUctx_st * *context))                                      \
    CALL(unsigned int, cuCtxGetDevice, (int *device))                                                      \
    CALL(unsigned int, cuCtxPushCurrent_v2, (struct CUctx_st * context))                                   \
    CALL(unsigned int, cuCtxPopCurrent_v2, (struct CUctx_st * *context))                                   \
    CALL(unsigned int, cuInit, (unsigned int flags))                                                       \
    CALL(unsigned int, cuDevicePrimaryCtxRetain, (struct CUctx_st * *context, int device))                 \
    CALL(unsigned int, cuDevicePrimaryCtxRelease_v2, (int device))                                         \
    CALL(unsigned int, cuPointerGetAttribute, (void *value, unsigned int attribute, api_address address))  \
    CALL(unsigned int, cuMemGetAddressRange_v2, (api_address * base, size_t * bytes, api_address address)) \
    CALL(unsigned int, cuEventCreate, (struct CUevent_st * *event, unsigned int flags))                    \
    CALL(unsigned int, cuEventDestroy_v2, (struct CUevent_st * event))                                     \
    CALL(unsigned int, cuEventRecord, (struct CUevent_st * event, struct CUstream_st * stream))            \
    CALL(unsigned int, cuStreamWaitEvent,                                                                  \
         (struct CUstream_st * stream, struct CUevent_st * event, unsigned int flags))                     \
    CALL(unsigned int, ptxpack_emu_stream_task,                                                            \
         (void *stream, const struct ptxpack_emu_task *task, void *operation))                             \
    CALL(bool, ptxpack_emu_memory_read, (void *to, unsigned char *defined, uint64_t from, uint64_t bytes)) \
    CALL(bool, ptxpack_emu_memory_write,                                                                   \
         (uint64_t to, const void *from, const unsigned char *defined, uint64_t bytes))
struct nccl_driver {
#define NCCL_DRIVER_FIELD(type, name, parameters) type(*name) parameters;
    NCCL_DRIVER_MAP(NCCL_DRIVER_FIELD)
#undef NCCL_DRIVER_FIELD
    struct nccl_driver *next; /* for driver.c only */
};
/* The one in which this thread has a current context, or the first one.  NULL: none is loaded (nccl_error was called). */
const struct nccl_driver *nccl_driver_find(void);

/* ---- the segment --------------------------------------------------------------------------------------- */
struct nccl_shared;
struct nccl_segment {
    struct nccl_shared *shared;
    size_t              bytes;
    int                 file, rank, ranks;
    char                name[NCCL_ID_BYTES];
};
void nccl_segment_name(nccl_id *id);
/* Join the others under the name of the id. */
nccl_result nccl_segment_join(struct nccl_segment *s, const nccl_id *id, int ranks, int rank, int device);
bool        nccl_segment_complete(const struct nccl_segment *s); /* have all ranks joined? */
/* This rank needs the others no more, or does not want them any more. */
void nccl_segment_leave(struct nccl_segment *s, bool aborted);
void nccl_segment_close(struct nccl_segment *s);
/* The communicator has failed in this rank.  The first failure counts. */
void nccl_segment_fail(struct nccl_segment *s, nccl_result result, const char *text);
/* What has failed, as this rank sees it: its own failures by their result, those of others as ncclRemoteError.
 * `look`: also look which ranks have died. */
nccl_result nccl_segment_failed(struct nccl_segment *s, bool look, char text[NCCL_TEXT]);
/* Has the rank left, so that nothing more will come from it? */
bool nccl_segment_has_left(const struct nccl_segment *s, int rank);
/* Bytes to or from another rank, all or nothing. */
bool nccl_segment_put(struct nccl_segment *s, int to, const void *first, size_t first_bytes, const void *second,
                      size_t second_bytes);
bool nccl_segment_get(struct nccl_segment *s, int from, void *first, size_t first_bytes, void *second,
                      size_t second_bytes);

/* ---- communicators ------------------------------------------------------------------------------------- */
struct ncclComm {
    uint64_t                  magic;
    atomic_uint               references; /* the caller's, and one of each operation */
    const struct nccl_driver *driver;
    struct CUctx_st          *context;
    bool                      owns_context; /* of ncclCommInitAll */
    int                       device, rank, ranks;
    struct nccl_segment       segment;
    atomic_bool               aborted, finalized;
    /* Operations run in the order of their enqueueing, whatever their streams; with the driver's lock held. */
    uint64_t      issued, next;
    atomic_ullong running, pending; /* runs that have begun; that have not ended */
    char          text[NCCL_TEXT];  /* of the failure, for ncclGetLastError */
};
/* Is it one, and in order?  Otherwise an error. */
nccl_result nccl_comm_check(const struct ncclComm *comm, const char *call);
/* Its failure, or ncclSuccess. */
nccl_result nccl_comm_failure(struct ncclComm *comm, bool look);
void        nccl_comm_fail(struct ncclComm *comm, nccl_result result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void nccl_comm_keep(struct ncclComm *comm);
void nccl_comm_release(struct ncclComm *comm);
/* Wait until all ranks have joined. */
nccl_result nccl_comm_wait(struct ncclComm *comm);

/* ---- operations ---------------------------------------------------------------------------------------- */
enum nccl_kind {
    NCCL_POINT_TO_POINT,
    NCCL_BROADCAST,
    NCCL_ALL_GATHER,
    NCCL_ALL_TO_ALL,
    NCCL_ALL_REDUCE,
    NCCL_REDUCE_SCATTER
};
const char *nccl_kind_name(enum nccl_kind kind);

/* What both sides of a part must agree on. */
struct nccl_header {
    uint32_t kind, type, reduction, root;
    uint64_t count; /* of the call, in elements */
};
struct nccl_part {
    struct nccl_header header;
    int                peer;
    bool               sends, staged; /* staged: received into memory of the host, by rank, to be reduced */
    uint64_t           address, bytes;
};
/* Copies within the rank. */
struct nccl_local {
    uint64_t to, from, bytes;
};
struct nccl_operation {
    atomic_uint       references;
    struct ncclComm  *comm;
    struct nccl_part *parts;
    size_t            part_count;
    struct nccl_local local; /* bytes 0: none */
    struct {
        uint64_t       own, to, count; /* count 0: nothing is reduced; own: this rank's elements */
        nccl_type      type;
        nccl_reduction reduction;
    } reduce;
};
struct nccl_operation *nccl_operation_new(struct ncclComm *comm); /* NULL: no memory */
bool                   nccl_operation_add(struct nccl_operation *operation, const struct nccl_part *part);
void                   nccl_operation_release(void *operation);
extern const struct ptxpack_emu_task nccl_task;

/* Elements of several ranks become one, with the bits of the defined bytes: those of an element are all defined where
 * they are in all ranks. */
void nccl_reduce(nccl_type type, nccl_reduction reduction, int ranks, unsigned char *const elements[],
                 unsigned char *const defined[], uint64_t count);

/* ---- groups -------------------------------------------------------------------------------------------- */
/* Takes over the operation.  In a group it is enqueued at its end. */
nccl_result nccl_group_add(struct nccl_operation *operation, struct CUstream_st *stream);
/* Wait for the other ranks now, or at the end of the group. */
nccl_result nccl_group_init(struct ncclComm *comm, bool blocking);
/* The result of a call: within a group its end returns it, too. */
nccl_result nccl_group_result(nccl_result result);

/* ---- errors on request --------------------------------------------------------------------------------- */
/* Is PTXPACK_EMU_NCCL_FAULT well formed? */
nccl_result nccl_fault_check(void);
/* The rank begins its nth operation, from 1 on: microseconds by which it is late; it may end the process, or make
 * *fails true. */
uint64_t nccl_fault_begin(int rank, uint64_t n, bool *fails);
#endif
