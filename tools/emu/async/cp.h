/* cp.h - the decoders of the cp instructions, which cp.c calls, and the addresses that they share. */
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
bool cp_decode_address_of(struct decoder *d, const struct ptx_operand *operand, enum emu_space space,
                          struct cp_address *out);
void cp_addresses(struct emu_warp *w, const struct emu_op *op, const struct cp_address *a,
                  uint64_t out[EMU_LANES]);
uint64_t cp_address_of(struct emu_warp *w, const struct emu_op *op, const struct cp_address *a, int lane);
/* Find the mbarrier at this lane's address; `remote`: it may be in another block.  False: a fault was
 * reported. */
bool cp_find_mbarrier(struct emu_warp *w, const struct emu_op *op, const struct cp_address *a, int lane,
                      bool remote, struct mbarrier_place *out);
/* Take .L2::cache_hint, whose operand is the last.  False: it is absent. */
bool cp_take_cache_hint(struct decoder *d);

/* Each reads the modifiers after the words that chose it. */
bool decode_cp_async(struct decoder *d, struct emu_op *op);
bool decode_cp_arrive(struct decoder *d, struct emu_op *op);
bool decode_bulk_copy(struct decoder *d, struct emu_op *op);
bool decode_bulk_reduce(struct decoder *d, struct emu_op *op);
bool decode_bulk_prefetch(struct decoder *d, struct emu_op *op);
bool decode_tensor_copy(struct decoder *d, struct emu_op *op);
bool decode_tensor_reduce(struct decoder *d, struct emu_op *op);
bool decode_tensor_prefetch(struct decoder *d, struct emu_op *op);
#endif
