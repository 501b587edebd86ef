/* group.h - private: the ranks of a group, and how their data reach each other. */
#ifndef PTXPACK_PARALLEL_GROUP_H
#define PTXPACK_PARALLEL_GROUP_H
#include <stdbool.h>
#include "loader/context.h"
#include "loader/driver.h"
#include "nccl.h"
#include "parallel.h"
#include "presence.h"

enum { GROUP_RANKS = PRESENCE_RANKS, GROUP_STEPS = 11, GROUP_RECORD = 256, GROUP_MARK = 16 };

typedef struct group_local_rank {
    ptxpack            *handle;
    struct CUstream_st *copies;    /* data of other ranks arrive on it */
    struct CUstream_st *values;    /* or keys on that one, and values on this one at the same time */
    struct CUstream_st *beside[2]; /* kernels of a chunk that take what arrives */
} group_local_rank;

/* What the launch enqueued last waits for: a step is over when its event is. */
typedef struct group_step {
    struct CUevent_st *event;
    int32_t            rank; /* from which rank data come in it, or one of them; -1: from all */
} group_step;

struct ptxpack_parallel_group {
    int32_t           ranks, first, local; /* local ranks are first .. first + local - 1 */
    group_local_rank *member;              /* of the local ranks */
    bool              direct; /* kernels of every rank can read memory of all others: see group_shows */
    bool              apart;  /* the local ranks have a device each */
    /* With NCCL, where one rank is local; otherwise NULL. */
    const nccl_table *nccl;
    struct ncclComm  *comm;
    bool              own_comm; /* the group made it */
    int32_t           timeout_ms;
    uint64_t          records;     /* in device memory: ranks + 1 of GROUP_RECORD bytes */
    char              broken[400]; /* why the group can no longer be used; "": it can */
    group_step        steps[GROUP_STEPS];
    int32_t           step_count;
    const char       *together; /* a call that waits for all ranks, while it does; otherwise NULL */
    presence          present;
    uint64_t          mark[2]; /* of rank 0 an id for `present`, if the group has none */
};
_Static_assert(sizeof(((ptxpack_parallel_group *)0)->mark) == GROUP_MARK, "the mark ends a record");

/* A group with so many local ranks, all else 0; NULL: out of memory. */
ptxpack_parallel_group *group_allocate(int32_t local);
/* Makes what a local rank needs, whose handle is set. */
ptxpack_status group_make_member(ptxpack_parallel_group *group, int32_t local);
/* The line of a failed call of the driver, at the handle of the first local rank. */
ptxpack_status group_fail(const ptxpack_parallel_group *group, int32_t local, ptxpack_cu_result result,
                          const char *call);
/* The same for what a local rank's handle has a line of. */
ptxpack_status group_pass(const ptxpack_parallel_group *group, int32_t local, ptxpack_status status);
/* Makes the context of a local rank current, like ptxpack_enter; the line is that of the first local rank. */
ptxpack_status group_enter(const ptxpack_parallel_group *group, int32_t local, bool *pushed);
void           group_leave(const ptxpack_parallel_group *group, int32_t local, bool pushed);
/* Records an event of a local rank in a stream of it; lets a stream of it wait for an event of any rank.  Its context is
 * current. */
ptxpack_status group_record(const ptxpack_parallel_group *group, int32_t local, struct CUevent_st *event,
                            struct CUstream_st *stream);
ptxpack_status group_wait_for(const ptxpack_parallel_group *group, int32_t local, struct CUstream_st *stream,
                              struct CUevent_st *event);
/* Enqueues a copy from the memory of local rank `from` to that of local rank `to`, in a stream of `to`. */
ptxpack_status group_copy(const ptxpack_parallel_group *group, struct CUstream_st *stream, int32_t to,
                          uint64_t to_address, int32_t from, uint64_t from_address, uint64_t bytes);

/* `depth` times `height` rows of `width` bytes.  One side of a copy of them: the memory has `depth` times `rows` rows of `pitch`
 * bytes, of which they begin in row y, x bytes after its beginning. */
typedef struct group_rows {
    int64_t width, height, depth;
} group_rows;
typedef struct group_side {
    uint64_t at;
    int64_t  x, y, pitch, rows;
} group_side;
/* The same of rows that are apart. */
ptxpack_status group_copy_rows(const ptxpack_parallel_group *group, int32_t to, const group_side *to_side,
                               int32_t from, const group_side *from_side, const group_rows *rows);

/* Whether kernels of all ranks can read the memory at this address of a local rank, given that the group is direct: as cuMemAlloc
 * makes it, not that of pools and mapped ranges, whose access is the application's. */
bool group_shows(const ptxpack_parallel_group *group, int32_t local, uint64_t address);

/* ---- NCCL ----------------------------------------------------------------------------------------------- */
/* PTXPACK_E_PEER with the line that broke the group; otherwise PTXPACK_OK. */
ptxpack_status group_usable(const ptxpack_parallel_group *group);
/* Between these two calls sends and receives are one operation, which is enqueued when group_end returns. */
ptxpack_status group_begin(ptxpack_parallel_group *group);
ptxpack_status group_end(ptxpack_parallel_group *group, nccl_result worst);
/* Waits until the work of a local rank's stream is done, no longer than the group's timeout. */
ptxpack_status group_wait(ptxpack_parallel_group *group, int32_t local, struct CUstream_st *stream);
/* Collective: gives every rank's record to all; `all` has room for those of all ranks.  Without NCCL it is only copied.  Its last
 * GROUP_MARK bytes are the group's own. */
ptxpack_status group_exchange(ptxpack_parallel_group *group, const void *record, void *all);
#endif
