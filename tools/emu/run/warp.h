/* warp.h - what warp.c, control.c, barrier.c and cluster.c share: fragments of a warp. */
#ifndef EMU_WARP_H
#define EMU_WARP_H
#include "emu.h"

/* The lanes of `mask` leave the running fragment and become one of their own at pc: the fragment; the
 * running one keeps the rest and goes on at w->next.  When it would keep nothing, it is itself moved to
 * pc. */
struct emu_fragment *emu_split(struct emu_warp *w, uint32_t mask, uint32_t pc);
/* These lanes of the running fragment end. */
void emu_exit_lanes(struct emu_warp *w, uint32_t mask);
/* These lanes of the running fragment wait at the op at pc (state says how); the others go on at w->next.
 * Returns the fragment that waits. */
struct emu_fragment *emu_block(struct emu_warp *w, uint32_t mask, uint32_t pc, enum emu_state state);
/* Make f the running fragment: its frame, its lanes. */
void emu_load_fragment(struct emu_warp *w, struct emu_fragment *f);

/* The first row of the frame of a function at this depth of calls.  Lanes of a warp may be in different
 * functions at once, and a 64-bit register's lanes lie in other places than a 32-bit one's: so no two
 * functions share rows. */
static inline uint32_t emu_frame_of(const struct emu_function *f, uint32_t depth)
{
    return f->frame + (f->calls_recursively ? (depth - 1) * f->rows : 0);
}

/* Run until everything waits, or about `quantum` ops were executed.  Returns how many were; *spins tells
 * that the warp ended its turn by emu_yield. */
uint32_t emu_warp_run(struct emu_warp *w, uint32_t quantum, bool *spins);
/* Is there a fragment that can run? */
bool emu_warp_ready(struct emu_warp *w);

/* barrier.c: a thread has exited or a count has changed: complete what is complete now. */
void emu_barriers_recheck(struct emu_cta *cta);
void emu_cluster_barrier_recheck(struct emu_cluster *cluster);
void emu_warp_sync_recheck(struct emu_warp *w);
/* Lanes that have arrived at barrier.cluster, and then exit, are no longer counted. */
void emu_cluster_barrier_leave(struct emu_warp *w, uint32_t mask);
/* "64 of 128 threads are here": what a fragment that waits at a barrier waits for; returns buf. */
const char *emu_barrier_text(const struct emu_warp *w, const struct emu_fragment *f, char *buf, size_t cap);
#endif
