/* mbarrier.h - barriers in shared memory that count arrivals and bytes. */
#ifndef EMU_MBARRIER_H
#define EMU_MBARRIER_H
#include "tools/emu/machine/emu.h"
#include "tools/emu/judge/judge.h"

enum { MBARRIER_MOST = (1 << 20) - 1 }; /* arrivals, and bytes either way */

/* The place of an mbarrier, according to the program. */
struct mbarrier_place {
    struct emu_cta *cta;
    uint32_t        address;
};

/* The mbarrier that an operation will signal must exist; otherwise a finding. */
void mbarrier_expect_signal(struct emu_warp *w, const struct emu_op *op, int lane, struct mbarrier_place at);
/* The operation is complete: `bytes` have arrived, and its memory is visible to every thread that sees the
 * phase end.  Ends *judge (which may be NULL). */
void mbarrier_complete_bytes(struct emu_warp *w, const struct emu_op *op, int lane, struct mbarrier_place at,
                             uint32_t bytes, struct judge_async **judge);
/* cp.async.mbarrier.arrive: at its issue (one more pending arrival, unless .noinc), and when its copies are
 * done. */
void mbarrier_expect_arrival(struct emu_warp *w, const struct emu_op *op, int lane, struct mbarrier_place at);
void mbarrier_arrive_for(struct emu_warp *w, const struct emu_op *op, int lane, struct mbarrier_place at);
/* The clock of the current phase; NULL: there is no mbarrier. */
struct judge_clock **mbarrier_clock(struct mbarrier_place at);

/* A copy is about to write these bytes: a finding if a live mbarrier is there. */
void mbarrier_overwritten(struct emu_warp *w, const struct emu_op *op, int lane, const struct emu_cta *cta,
                          uint32_t address, uint32_t bytes);

void mbarrier_cta_end(struct emu_cta *cta);
/* See async_explain. */
const char *mbarrier_explain(struct emu_warp *w, const struct emu_op *op, uint32_t mask, char *buf, size_t cap);
#endif
