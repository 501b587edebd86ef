/* warp.h - what warp.c, control.c, barrier.c and cluster.c share: fragments of a warp. */
#ifndef EMU_WARP_H
#define EMU_WARP_H
#include "tools/emu/machine/emu.h"

/* Split the lanes of `mask` from the running fragment into a new one at pc, which is returned; the running one
 * keeps the rest and continues at w->next.  If no lane would be left, the running fragment itself moves to
 * pc. */
struct emu_fragment *emu_split(struct emu_warp *w, uint32_t mask, uint32_t pc);
/* These lanes of the running fragment end. */
void emu_exit_lanes(struct emu_warp *w, uint32_t mask);
/* These lanes of the running fragment wait at pc in this state; the others continue at w->next.  Returns the
 * fragment that waits. */
struct emu_fragment *emu_block(struct emu_warp *w, uint32_t mask, uint32_t pc, enum emu_state state);
/* Make f the running fragment, with its frame and its lanes. */
void emu_load_fragment(struct emu_warp *w, struct emu_fragment *f);

/* The first row of the frame of a function at this depth of calls.  No two functions share rows, because lanes
 * of a warp may be in different functions at once, and 64-bit registers place their lanes differently than
 * 32-bit ones. */
static inline uint32_t emu_frame_of(const struct emu_function *f, uint32_t depth)
{
    return f->frame + (f->calls_recursively ? (depth - 1) * f->rows : 0);
}

/* Run until all fragments wait or about `quantum` ops were executed.  Returns the number of ops; *spins: the
 * warp ended its turn with emu_yield. */
uint32_t emu_warp_run(struct emu_warp *w, uint32_t quantum, bool *spins);
/* Can a fragment run? */
bool emu_warp_ready(struct emu_warp *w);

/* barrier.c: a thread has exited or a count has changed, so barriers may be complete now. */
void emu_barriers_recheck(struct emu_cta *cta);
void emu_cluster_barrier_recheck(struct emu_cluster *cluster);
void emu_warp_sync_recheck(struct emu_warp *w);
/* Lanes that have arrived at barrier.cluster and then exit are no longer counted. */
void emu_cluster_barrier_leave(struct emu_warp *w, uint32_t mask);
/* What a fragment at a barrier waits for: "64 of 128 threads are here"; returns buf. */
const char *emu_barrier_text(const struct emu_warp *w, const struct emu_fragment *f, char *buf, size_t cap);
#endif
