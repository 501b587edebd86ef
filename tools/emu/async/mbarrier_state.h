/* mbarrier_state.h - what mbarrier.c and mbarrier_ops.c share. */
#ifndef EMU_MBARRIER_STATE_H
#define EMU_MBARRIER_STATE_H
#include "mbarrier.h"

struct mbarrier {
    uint32_t            address;
    bool                live;
    uint32_t            expected, pending; /* arrivals: of each phase, and missing in this one       */
    int32_t             tx;                /* missing bytes; below 0: bytes came before expect_tx    */
    uint64_t            phase;             /* the current one                                        */
    uint64_t            word;              /* what the 8 bytes must hold                             */
    struct judge_clock *arriving, *completed;
};

/* NULL: none is alive there. */
struct mbarrier *mbarrier_alive(struct mbarrier_place at);
/* The same, if its word is intact; otherwise NULL, and a finding is reported in both cases. */
struct mbarrier *mbarrier_living(struct emu_warp *w, const struct emu_op *op, int lane,
                                 struct mbarrier_place at);
void             mbarrier_init(struct emu_warp *w, const struct emu_op *op, int lane, struct mbarrier_place at,
                               uint32_t count);
void mbarrier_inval(struct emu_warp *w, const struct emu_op *op, int lane, struct mbarrier_place at);
void mbarrier_add_bytes(struct emu_warp *w, const struct emu_op *op, int lane, struct mbarrier_place at,
                        struct mbarrier *m, int64_t bytes);
void mbarrier_take_arrivals(struct emu_warp *w, const struct emu_op *op, int lane, struct mbarrier_place at,
                            struct mbarrier *m, uint32_t count);
/* Call it after either: the phase ends when neither arrivals nor bytes are missing. */
void mbarrier_settle(struct mbarrier_place at, struct mbarrier *m);
/* The state that an arrival returns: pending arrivals in bits 0..19, the phase, the owner from bit 52 on. */
uint64_t mbarrier_token(struct mbarrier_place at, const struct mbarrier *m);
uint64_t mbarrier_owner_bits(struct mbarrier_place at);

/* A finding about the mbarrier. */
void mbarrier_misuse(struct emu_warp *w, const struct emu_op *op, int lane, struct mbarrier_place at,
                     const char *format, ...) __attribute__((format(printf, 5, 6)));
#endif
