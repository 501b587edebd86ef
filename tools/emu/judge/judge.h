/* judge.h - what a GPU never says: races, undefined values, misuse of asynchronous operations.
 *
 * Happens-before is kept by vector clocks of threads.  What threads synchronise through (a barrier, a
 * phase of an mbarrier, a word of memory) has a clock object: releasing joins the releasing lanes' clocks
 * into it, acquiring joins it into the acquiring lanes'.  Every clock has two parts: what was observed,
 * and what was observed and then covered by fence.proxy.async; only the latter is ordered before accesses
 * by the async proxy.
 *
 * All calls do nothing when the grid is not judged (w->judge NULL), objects are then NULL. Each finding is
 * printed once per op and kind, with places, threads and address. */
#ifndef EMU_JUDGE_H
#define EMU_JUDGE_H
#include "tools/emu/run/emu.h"
#include "tools/emu/memory/memory.h"

struct judge_clock;
struct judge_async;

enum judge_kind {
    JUDGE_UNINITIALISED,
    JUDGE_RACE,
    JUDGE_PROXY,
    JUDGE_ASYNC,
    JUDGE_MBARRIER,
    JUDGE_DEADLOCK,
    JUDGE_CONFLICT
};
/* A finding: counted in the grid, one line printed; ignored when its kind is switched off. */
void judge_find(struct emu_warp *w, const struct emu_op *op, int lane, enum judge_kind kind, const char *format,
                ...) __attribute__((format(printf, 5, 6)));

/* ---- life: false means out of memory ------------------------------------------------------------------- */
bool judge_grid_begin(struct emu_grid *grid);
void judge_grid_end(struct emu_grid *grid);
bool judge_cluster_begin(struct emu_cluster *cluster); /* ctas and warps are set up */
void judge_cluster_end(struct emu_cluster *cluster);

/* ---- generic accesses: called by emu_memory and emu_memory_range ---------------------------------- */
void judge_access(struct emu_warp *w, const struct emu_op *op, uint32_t mask,
                  const struct emu_ref ref[EMU_LANES], uint32_t bytes, unsigned int access);

/* ---- synchronisation ------------------------------------------------------------------------------ */
/* *clock is made when it is NULL. */
void judge_release(struct emu_warp *w, uint32_t mask, struct judge_clock **clock);
void judge_acquire(struct emu_warp *w, uint32_t mask, const struct judge_clock *clock);
void judge_clock_clear(struct emu_cluster *cluster, struct judge_clock **clock); /* forget; sets NULL */
/* Move what is in *from into *to (joined), and forget *from: the next phase of an mbarrier. */
void judge_clock_move(struct emu_cluster *cluster, struct judge_clock **to, struct judge_clock **from);
/* bar.warp.sync: the lanes of mask see each other's accesses. */
void judge_warp_sync(struct emu_warp *w, uint32_t mask);
/* fence, membar: orders accesses before it with strong accesses after it, and the reverse. */
void judge_fence(struct emu_warp *w, uint32_t mask);
/* fence.proxy.async: what these lanes have observed so far is visible to the async proxy.  `spaces`: which
 * memory it covers (1 global, 2 shared). */
void judge_proxy_fence(struct emu_warp *w, uint32_t mask, unsigned int spaces);

/* ---- asynchronous operations ------------------------------------------------------------------------------
 * begin at issue; tell all memory it will read and write, which is checked against what came before and is in
 * flight from then on (a touch by anybody is a finding); end when its completion is observed. */
struct judge_async *judge_async_begin(struct emu_warp *w, const struct emu_op *op, int lane, bool async_proxy);
void judge_async_touch(struct judge_async *a, const struct emu_ref *ref, uint64_t bytes, unsigned int access);
/* The reads are over (cp.async.bulk.wait_group.read), the writes are not. */
void judge_async_end_reads(struct judge_async *a, struct emu_warp *w, uint32_t lanes);
/* Observed by these lanes by a wait: from now on it is as if they had done it at this moment.  Frees a. */
void judge_async_end(struct judge_async *a, struct emu_warp *w, uint32_t lanes);
/* It is complete, and will be observed by whoever acquires *clock.  Frees a. */
void judge_async_end_at(struct judge_async *a, struct emu_cluster *cluster, struct judge_clock **clock);
/* The block ended with it in flight: dropped. */
void judge_async_drop(struct judge_async *a, struct emu_cluster *cluster);
#endif
