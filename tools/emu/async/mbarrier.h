/* mbarrier.h - barriers in shared memory that count arrivals and bytes. */
#ifndef EMU_MBARRIER_H
#define EMU_MBARRIER_H
#include "tools/emu/run/emu.h"
#include "tools/emu/judge/judge.h"

enum { MBARRIER_MOST = (1 << 20) - 1 }; /* arrivals, and bytes either way */

/* Where the program says an mbarrier is. */
struct mbarrier_place {
    struct emu_cta *cta;
    uint32_t        address;
};

/* Do these bytes belong to an mbarrier that is alive?  Not while an mbarrier instruction itself looks. */
bool async_is_mbarrier(const struct emu_cta *cta, uint32_t address, uint32_t bytes);

/* The mbarrier that an operation is to signal: it must exist (a finding otherwise). */
void mbarrier_expect_signal(struct emu_warp *w, const struct emu_op *op, int lane, struct mbarrier_place at);
/* The operation is complete: its memory is visible to who sees the phase end, and `bytes` have come.  Ends
 * *judge (which may be NULL). */
void mbarrier_complete_bytes(struct emu_warp *w, const struct emu_op *op, int lane, struct mbarrier_place at,
                             uint32_t bytes, struct judge_async **judge);
/* cp.async.mbarrier.arrive: at its issue (one arrival more pending, unless .noinc); its copies done. */
void mbarrier_expect_arrival(struct emu_warp *w, const struct emu_op *op, int lane, struct mbarrier_place at);
void mbarrier_arrive_for(struct emu_warp *w, const struct emu_op *op, int lane, struct mbarrier_place at);
/* Clock of the phase that is under way; NULL: there is no mbarrier. */
struct judge_clock **mbarrier_clock(struct mbarrier_place at);

/* A copy is going to write these bytes: a finding if an mbarrier lives there. */
void mbarrier_overwritten(struct emu_warp *w, const struct emu_op *op, int lane, const struct emu_cta *cta,
                          uint32_t address, uint32_t bytes);

void mbarrier_cta_end(struct emu_cta *cta);
/* See async_explain. */
const char *mbarrier_explain(struct emu_warp *w, const struct emu_op *op, uint32_t mask, char *buf, size_t cap);
#endif
