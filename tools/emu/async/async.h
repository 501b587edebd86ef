/* async.h - operations that complete later: in groups that a thread waits for, or on an mbarrier.
 *
 * An operation's work (moving data, multiplying matrices) is done by its `complete` function at some time
 * between its issue and the wait that needs it: at once, at the last moment, or at random times, as
 * settings->async_policy says; so what is right only by luck goes wrong.
 *
 *   struct async_op *a = async_new(w, op, lane, sizeof *mine, complete_mine); // lane: who issues it
 *   ... fill in; a->judge = judge_async_begin(...); judge_async_touch(...) ...
 *   async_issue(w, lanes, a, ASYNC_CP);               // joins the open group of that kind
 *   async_commit(w, mask, ASYNC_CP);                  // closes it
 *   async_wait(w, mask, ASYNC_CP, 1, false);          // all but the newest 1 complete now */
#ifndef EMU_ASYNC_H
#define EMU_ASYNC_H
#include "tools/emu/run/emu.h"
#include "tools/emu/judge/judge.h"

enum async_kind {
    ASYNC_CP,    /* cp.async: groups of a thread                         */
    ASYNC_BULK,  /* cp.async.bulk ... .bulk_group: groups of a thread     */
    ASYNC_WGMMA, /* wgmma: groups of a warp (lane 0 stands for it)       */
    ASYNC_KINDS,
    ASYNC_MBARRIER = ASYNC_KINDS /* completes on an mbarrier, in no group              */
};

struct async_op {
    void (*complete)(struct async_op *self); /* do the work; called once                          */
    void (*forget)(struct async_op *self);   /* free what hangs on it, not the op itself; NULL: nothing */
    void (*observed)(struct async_op *self); /* the wait that covers it has ended; NULL: nothing   */
    struct emu_warp     *warp;               /* who issued it */
    const struct emu_op *op;
    int                  lane;
    bool                 done;
    struct judge_async  *judge; /* ended by async.c when the completion is observed */
    /* async.c's own */
    enum async_kind  kind;
    uint32_t         lanes;
    uint64_t         group;
    struct async_op *next;
};

/* bytes: of a structure that begins with a struct async_op; zeroed.  NULL: out of memory (reported). */
struct async_op *async_new(struct emu_warp *w, const struct emu_op *op, int lane, size_t bytes,
                           void (*complete)(struct async_op *));
void             async_issue(struct emu_warp *w, struct async_op *a, enum async_kind kind);
void             async_commit(struct emu_warp *w, uint32_t mask, enum async_kind kind);
/* Every lane of mask waits until at most `newest` of its groups are in flight; with `reads`: their reads. */
void async_wait(struct emu_warp *w, uint32_t mask, enum async_kind kind, uint32_t newest, bool reads);
/* A wgmma is one operation of four warps: before a warp's wait, those of the other three that it covers
 * complete, too.  False: one of them has not issued them yet, the fragment waits (or out of memory was
 * reported). */
bool async_wait_warpgroup(struct emu_warp *w, uint32_t newest);
/* Are there operations of this kind in flight for the warp? */
bool async_pending(const struct emu_warp *w, enum async_kind kind);

/* Life, called by cluster.c. */
bool async_cluster_begin(struct emu_cluster *cluster);
/* What is in flight is completed, and judged as never waited for where that is an error. */
void async_cluster_end(struct emu_cluster *cluster);
/* A block's last thread has exited. */
void async_cta_end(struct emu_cta *cta);
/* Called between warps' turns: completes what the policy completes now.  `stuck`: no fragment can run;
 * then at least one operation must complete if any is in flight.  True: something completed (emu_changed
 * was called). */
bool async_step(struct emu_cluster *cluster, bool stuck);
/* "2 bulk copies in flight on the mbarrier at shared 0x400 (phase 0, 1 pending arrival, 4096 bytes to
 * come)": what waits for what, for the report of a deadlock; "" when there is nothing to say. */
const char *async_explain(struct emu_warp *w, const struct emu_op *op, uint32_t mask, char *buf, size_t cap);
#endif
