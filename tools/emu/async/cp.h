/* cp.h - cp.async and its kin: what tools/emu/decode/cp.c hands on to, and the addresses that they share. */
#ifndef EMU_CP_H
#define EMU_CP_H
#include "tools/emu/decode/decode.h"
#include "mbarrier.h"

/* One of several addresses of an instruction. */
struct cp_address {
    unsigned int   source, bits; /* op->source[source], of 32 or 64 bits */
    int64_t        offset;
    enum emu_space space;
};
bool cp_decode_address(struct decoder *d, unsigned int number, enum emu_space space, struct cp_address *out);
void cp_addresses(struct emu_warp *w, const struct emu_op *op, const struct cp_address *a,
                  uint64_t out[EMU_LANES]);
uint64_t cp_address_of(struct emu_warp *w, const struct emu_op *op, const struct cp_address *a, int lane);
/* The mbarrier at this lane's address; `remote`: it may be another block's.  False: a fault was reported. */
bool cp_find_mbarrier(struct emu_warp *w, const struct emu_op *op, const struct cp_address *a, int lane,
                      bool remote, struct mbarrier_place *out);
/* .L2::cache_hint: true when it was there (its operand is the last). */
bool cp_take_cache_hint(struct decoder *d);

/* Each reads its own modifiers, from behind the words that chose it. */
bool decode_cp_async(struct decoder *d, struct emu_op *op);
bool decode_cp_arrive(struct decoder *d, struct emu_op *op);
bool decode_bulk_copy(struct decoder *d, struct emu_op *op);
bool decode_bulk_reduce(struct decoder *d, struct emu_op *op);
bool decode_bulk_prefetch(struct decoder *d, struct emu_op *op);
bool decode_tensor_copy(struct decoder *d, struct emu_op *op);
bool decode_tensor_reduce(struct decoder *d, struct emu_op *op);
bool decode_tensor_prefetch(struct decoder *d, struct emu_op *op);
/* st.async and red.async: called from the decoders of st and red with "async" still to be read. */
bool decode_st_async(struct decoder *d, struct emu_op *op);
bool decode_red_async(struct decoder *d, struct emu_op *op);
#endif
