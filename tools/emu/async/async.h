/* async.h - operations that complete later: in groups that a thread waits for, or on an mbarrier.
 *
 * The `complete` function of an operation does its work (moving data, multiplying matrices) at some time
 * between its issue and the wait that needs it: at once, at the last moment, or at random times, as
 * settings->async_policy says.  So a program that is right only by luck fails.
 *
 *   struct async_op *a = async_new(w, op, lane, sizeof *mine, complete_mine); // lane: who issues it
 *   ... fill in; a->judge = judge_async_begin(...); judge_async_touch(...) ...
 *   async_issue(w, lanes, a, ASYNC_CP);               // add it to the open group of that kind
 *   async_commit(w, mask, ASYNC_CP);                  // close the group
 *   async_wait(w, mask, ASYNC_CP, 1, false);          // complete all but the newest group */
#ifndef EMU_ASYNC_H
#define EMU_ASYNC_H
#include "tools/emu/machine/emu.h"
#include "tools/emu/judge/judge.h"
#include "tools/emu/memory/memory.h"

enum async_kind {
    ASYNC_CP,    /* cp.async: groups of a thread                         */
    ASYNC_BULK,  /* cp.async.bulk ... .bulk_group: groups of a thread     */
    ASYNC_WGMMA, /* wgmma: groups of a warp (lane 0 stands for it)       */
    ASYNC_KINDS,
    ASYNC_MBARRIER = ASYNC_KINDS /* completes on an mbarrier, in no group              */
};

struct async_op {
    void (*complete)(struct async_op *self); /* does the work; called once                        */
    void (*forget)(struct async_op *self);   /* frees what it owns, not the op itself; may be NULL */
    void (*observed)(struct async_op *self); /* the wait that covers it has ended; may be NULL     */
    struct emu_warp     *warp;               /* who issued it */
    const struct emu_op *op;
    int                  lane;
    bool                 done;
    struct judge_async  *judge; /* async.c ends it when the completion is observed */
    /* async.c's own */
    enum async_kind  kind;
    uint32_t         lanes;
    uint64_t         group;
    struct async_op *next;
};

/* `bytes` of a zeroed structure that begins with a struct async_op.  NULL: out of memory, which is reported. */
struct async_op *async_new(struct emu_warp *w, const struct emu_op *op, int lane, size_t bytes,
                           void (*complete)(struct async_op *));
void             async_issue(struct emu_warp *w, struct async_op *a, enum async_kind kind);
void             async_commit(struct emu_warp *w, uint32_t mask, enum async_kind kind);
/* Every lane of mask waits until at most `newest` of its groups are in flight; with `reads`, only for reads. */
void async_wait(struct emu_warp *w, uint32_t mask, enum async_kind kind, uint32_t newest, bool reads);
/* A wgmma is one operation of four warps: before a warp's wait, the covered operations of the other three
 * complete too.  False: one of the warps has not issued them yet, so the fragment waits (or out of memory was
 * reported). */
bool async_wait_warpgroup(struct emu_warp *w, uint32_t newest);
/* Are there operations of this kind in flight for the warp? */
bool async_pending(const struct emu_warp *w, enum async_kind kind);

/* Life, called by cluster.c. */
bool async_cluster_begin(struct emu_cluster *cluster);
/* Complete what is in flight, and report it as never waited for where that is an error. */
void async_cluster_end(struct emu_cluster *cluster);
/* A block's last thread has exited. */
void async_cta_end(struct emu_cta *cta);
/* Called between the turns of warps: complete what the policy completes now.  `stuck`: no fragment can run, so
 * at least one operation must complete if any is in flight.  True: something completed (emu_changed was
 * called). */
bool async_step(struct emu_cluster *cluster, bool stuck);
/* "2 bulk copies in flight on the mbarrier at shared 0x400 (phase 0, 1 pending arrival, 4096 bytes to
 * come)": what the fragment waits for, for the report of a deadlock; "" if nothing is known. */
const char *async_explain(struct emu_warp *w, const struct emu_op *op, uint32_t mask, char *buf, size_t cap);
#endif
