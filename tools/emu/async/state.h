/* state.h - what async.c and its families share: queues, pools, kinds of operations. */
#ifndef EMU_ASYNC_STATE_H
#define EMU_ASYNC_STATE_H
#include "async.h"

enum {
    ASYNC_GRAIN = 64,    /* bytes: sizes of operations are rounded up to this                      */
    ASYNC_POOLS = 20,    /* free lists by size; larger operations use malloc                        */
    ASYNC_MOST = 1 << 16 /* operations, or commits, that a warp may have in flight                  */
};

/* An operation of several lanes that are judged separately: a warp's cp.async.  All operations of kind ASYNC_CP
 * begin with it; op.judge is not used. */
struct async_lanes {
    struct async_op     op;
    uint64_t            serial;           /* in the order of issue, of the warp            */
    struct judge_async *judge[EMU_LANES]; /* NULL: not judged, or ended already */
};

/* An operation that signals an mbarrier at its end.  All operations of kind ASYNC_MBARRIER begin with it. */
struct async_signal {
    struct async_op op;
    struct emu_cta *cta;      /* whose mbarrier              */
    uint32_t        address;  /* of the mbarrier             */
    uint32_t        bytes;    /* for its tx-count            */
    bool            harmless; /* may be in flight when a block ends */
};

/* The operations of one kind that a warp has in flight, oldest first.  Commits are masks of lanes: a lane's
 * groups end at the commits that have its bit; op.group is the number of commits before the operation. */
struct async_queue {
    struct async_op *head, **tail;
    uint32_t         count, undone;
    uint32_t        *commits; /* commits[i] has number first + i          */
    uint64_t         first;
    uint32_t         commit_count, commit_room;
    uint32_t         busy; /* its place in async_cluster.busy, plus 1  */
};

struct async_warp {
    struct async_queue queue[ASYNC_KINDS];
    uint64_t           serial; /* cp.async operations issued so far        */
};

struct async_cluster {
    struct async_warp   *warps;
    struct async_cell   *pool[ASYNC_POOLS];
    struct async_op    **flying; /* towards mbarriers, oldest first           */
    uint32_t             flying_count, flying_room;
    struct async_queue **busy; /* queues with unfinished operations; there is room for every queue */
    uint32_t             busy_count;
    struct async_op    **batch; /* scratch of a wait                        */
    uint32_t             batch_room;
    uint32_t             spins, rounds; /* failed tests of mbarriers, and steps, since something completed */
    bool                 looking;       /* an mbarrier instruction reads its word itself */
};

/* The header of each operation. */
struct async_cell {
    _Alignas(16) struct async_cell *next;
    uint32_t pool;       /* ASYNC_POOLS: it was too large for the pools                 */
    bool     reads_over; /* a wait for reads has covered it                             */
};

static inline struct async_cell *async_cell_of(const struct async_op *a)
{
    return (struct async_cell *)(void *)((unsigned char *)(uintptr_t)a - sizeof(struct async_cell));
}

static inline struct async_queue *async_queue_of(const struct emu_warp *w, enum async_kind kind)
{
    return &w->async->queue[kind];
}

/* Do the work of an operation that is in a queue. */
void async_complete_queued(struct async_op *a);
/* Remove operations that are done and fully reported; forget commits that no wait can ask for. */
void async_sweep(struct emu_warp *w, struct async_queue *q);
/* Room for one more; false: out of memory. */
bool async_grow(struct async_op ***list, uint32_t *room, uint32_t count);
/* Free an operation that was never issued. */
void async_discard(struct async_op *a);
/* For cp.async.mbarrier.arrive: complete the warp's copies of these lanes that were issued before number
 * `serial`; a thread that acquires *clock observes them. */
void async_cp_settle(struct emu_warp *w, uint32_t lanes, uint64_t serial, struct judge_clock **clock);
/* A test of an mbarrier has failed: even the policy `latest` must complete operations at some time. */
void async_spun(struct emu_cluster *cluster);
/* How many operations, and bytes, are in flight towards an mbarrier. */
uint32_t async_flying_to(const struct emu_cta *cta, uint32_t address, uint64_t *bytes);
#endif
