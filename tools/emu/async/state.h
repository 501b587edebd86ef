/* state.h - what async.c and its families keep: queues, pools, kinds of operations. */
#ifndef EMU_ASYNC_STATE_H
#define EMU_ASYNC_STATE_H
#include "async.h"

enum {
    ASYNC_GRAIN = 64,    /* bytes: sizes of operations are rounded up to this                      */
    ASYNC_POOLS = 20,    /* free lists by size; what is larger goes back to malloc                  */
    ASYNC_MOST = 1 << 16 /* operations, or commits, that a warp may have in flight                  */
};

/* An operation of several lanes, each judged by itself: a warp's cp.async.  All of kind ASYNC_CP begin so;
 * op.judge is not used. */
struct async_lanes {
    struct async_op     op;
    uint64_t            serial;           /* in the order of issue, of the warp            */
    struct judge_async *judge[EMU_LANES]; /* NULL: not judged, or ended already */
};

/* An operation that tells an mbarrier when it is complete.  All of kind ASYNC_MBARRIER begin so. */
struct async_signal {
    struct async_op op;
    struct emu_cta *cta;      /* whose mbarrier              */
    uint32_t        address;  /* of the mbarrier             */
    uint32_t        bytes;    /* for its tx-count            */
    bool            harmless; /* may be in flight when a block ends */
};

/* What a warp has in flight of one kind, oldest first.  Commits are kept as masks of lanes: a lane's
 * groups end at the commits that have its bit; op.group is the number of commits that came before the
 * operation. */
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
    struct async_queue **busy; /* that have operations to do: one place for each queue there is */
    uint32_t             busy_count;
    struct async_op    **batch; /* scratch of a wait                        */
    uint32_t             batch_room;
    uint32_t             spins, rounds; /* tests of mbarriers in vain, and steps, since something completed */
    bool                 looking;       /* an mbarrier instruction reads its word itself */
};

/* What stands before each operation. */
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
/* Take out what is done and of which nothing is left to tell; forget commits that no wait asks for. */
void async_sweep(struct emu_warp *w, struct async_queue *q);
/* Room for one more; false: out of memory. */
bool async_grow(struct async_op ***list, uint32_t *room, uint32_t count);
/* Give back an operation that was never issued. */
void async_discard(struct async_op *a);
/* The warp's copies by these lanes that were issued before number `serial` complete now, and whoever
 * acquires *clock observes them: cp.async.mbarrier.arrive. */
void async_cp_settle(struct emu_warp *w, uint32_t lanes, uint64_t serial, struct judge_clock **clock);
/* A test of an mbarrier was in vain: even what completes last must do so some day. */
void async_spun(struct emu_cluster *cluster);
/* How many operations, and bytes, are in flight towards an mbarrier. */
uint32_t async_flying_to(const struct emu_cta *cta, uint32_t address, uint64_t *bytes);
#endif
