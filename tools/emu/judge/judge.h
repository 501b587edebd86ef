/* judge.h - errors that a GPU never reports: races, undefined values, misuse of asynchronous operations.
 *
 * Vector clocks of threads represent happens-before.  An object through which threads synchronise (a barrier, a
 * phase of an mbarrier, a word of memory) has a clock: a release joins the clocks of the releasing lanes into
 * it, and an acquire joins it into the clocks of the acquiring lanes.  Every clock has two parts: what was
 * observed, and what was observed and then covered by fence.proxy.async.  Only the latter is ordered before
 * accesses by the async proxy.
 *
 * If the grid is not judged (w->judge is NULL), all calls do nothing and the objects are NULL.  Each finding is
 * printed once for each op and kind, with places, threads and address. */
#ifndef EMU_JUDGE_H
#define EMU_JUDGE_H
#include "tools/emu/machine/emu.h"
#include "tools/emu/machine/space.h"

struct judge_clock;
struct judge_async;

enum judge_kind {
    JUDGE_UNINITIALISED,
    JUDGE_RACE,
    JUDGE_PROXY,
    JUDGE_ASYNC,
    JUDGE_MBARRIER,
    JUDGE_DEADLOCK,
    JUDGE_CONFLICT,
    JUDGE_OVERREAD /* a note: it does not fail the launch */
};
/* A finding: count it in the grid and print one line, unless its kind is switched off. */
void judge_find(struct emu_warp *w, const struct emu_op *op, int lane, enum judge_kind kind, const char *format,
                ...) __attribute__((format(printf, 5, 6)));

/* ---- life: false means out of memory ------------------------------------------------------------------- */
/* What is left of the grids before in grid->kept (unless that is NULL) is used if this grid depends on them
 * (grid->dependent), and is forgotten otherwise.  At the end the grid is kept there for the next one. */
bool judge_grid_begin(struct emu_grid *grid);
void judge_grid_end(struct emu_grid *grid);
void judge_forget(struct judge_grid **kept);           /* sets NULL */
bool judge_cluster_begin(struct emu_cluster *cluster); /* ctas and warps are set up */
void judge_cluster_end(struct emu_cluster *cluster);

/* ---- generic accesses: called by emu_memory and emu_memory_range ---------------------------------- */
void judge_access(struct emu_warp *w, const struct emu_op *op, uint32_t mask,
                  const struct emu_ref ref[EMU_LANES], uint32_t bytes, unsigned int access);

/* griddepcontrol.wait: these lanes have observed the end of the grid before.  griddepcontrol.launch_dependents. */
void judge_dependent_wait(struct emu_warp *w, uint32_t mask);
void judge_dependents_begin(struct emu_warp *w, uint32_t mask);

/* These lanes exit; `last`: with them their block. */
void judge_exit(struct emu_warp *w, uint32_t mask, bool last);

/* ---- synchronisation ------------------------------------------------------------------------------ */
/* *clock is allocated if it is NULL. */
void judge_release(struct emu_warp *w, uint32_t mask, struct judge_clock **clock);
/* The same of what they had observed at their last fence, not in the scope .cta: a relaxed arrival. */
void judge_release_fenced(struct emu_warp *w, uint32_t mask, struct judge_clock **clock);
void judge_acquire(struct emu_warp *w, uint32_t mask, const struct judge_clock *clock);
void judge_clock_clear(struct emu_cluster *cluster, struct judge_clock **clock); /* frees it and sets NULL */
/* Join *from into *to and forget *from: the next phase of an mbarrier. */
void judge_clock_move(struct emu_cluster *cluster, struct judge_clock **to, struct judge_clock **from);
/* bar.warp.sync: the lanes of mask have observed each other's accesses. */
void judge_warp_sync(struct emu_warp *w, uint32_t mask);
/* fence, membar: order earlier accesses before later strong accesses, and the reverse; own_block: in the scope .cta, so
 * for threads of the block only. */
void judge_fence(struct emu_warp *w, uint32_t mask, bool own_block);
/* fence.proxy.async: what these lanes have observed so far becomes visible to the async proxy.  `spaces`: the
 * memory that it covers (1 global, 2 shared). */
void judge_proxy_fence(struct emu_warp *w, uint32_t mask, unsigned int spaces);

/* ---- asynchronous operations ------------------------------------------------------------------------------
 * Call begin at the issue, and touch for all memory that the operation will read and write: it is checked
 * against earlier accesses and is then in flight, so that an access by any thread is a finding.  Call end when
 * the completion is observed. */
struct judge_async *judge_async_begin(struct emu_warp *w, const struct emu_op *op, int lane, bool async_proxy);
void judge_async_touch(struct judge_async *a, const struct emu_ref *ref, uint64_t bytes, unsigned int access);
/* The reads are complete (cp.async.bulk.wait_group.read), the writes are not. */
void judge_async_end_reads(struct judge_async *a, struct emu_warp *w, uint32_t lanes);
/* These lanes have observed it by a wait: it counts as if they had done the work now.  Frees a. */
void judge_async_end(struct judge_async *a, struct emu_warp *w, uint32_t lanes);
/* It is complete, and a thread that acquires *clock observes it.  Frees a. */
void judge_async_end_at(struct judge_async *a, struct emu_cluster *cluster, struct judge_clock **clock);
/* The block ended while it was in flight.  Frees a. */
void judge_async_drop(struct judge_async *a, struct emu_cluster *cluster);
/* What the judge asks of the room async: do these bytes belong to a live mbarrier?  False while an mbarrier
 * instruction itself looks at them. */
bool async_is_mbarrier(const struct emu_cta *cta, uint32_t address, uint32_t bytes);
/* What it asks of the room memory: which byte does a lane's store write there?  False: the op is no store. */
bool memory_stored_byte(const struct emu_warp *w, const struct emu_op *op, int lane, uint32_t offset,
                        unsigned char *byte);
#endif
