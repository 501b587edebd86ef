/* alu_carry.c - additions and subtractions of many words: add.cc, addc, sub.cc, subc, mad.cc, madc.
 *
 * CC.CF is one predicate row of the function.  After a subtraction it holds the borrow, as PTX defines it. */
#include "alu.h"

__extension__ typedef __int128 emu_s128;
__extension__ typedef unsigned __int128 emu_u128;

static uint32_t carry_in(const struct emu_warp *w, const struct emu_op *op)
{
    return op->u8[0] ? emu_pred(w, op->source[op->source_count - 1]) : 0;
}

static void carry_out(const struct emu_warp *w, const struct emu_op *op, uint32_t mask, uint32_t bits)
{
    if (op->u8[1])
        emu_set_pred(w, op->result[1], mask, bits);
}

/* x (made from a and b) + y + CC.CF.  Not both of the two steps can carry. */
#define SUM(name, R, x_, y_)                                                                              \
    static void exec_##name(struct emu_warp *w, const struct emu_op *op, uint32_t mask)                   \
    {                                                                                                     \
        R *d = (R *)emu_row(w, op->result[0]);                                                            \
        const R *a = (const R *)emu_row(w, op->source[0]), *b = (const R *)emu_row(w, op->source[1]);     \
        const R *c = (const R *)emu_row(w, op->source[op->source_count > 2 ? 2 : 1]);                     \
        const uint32_t in = carry_in(w, op);                                                              \
        uint32_t out = 0;                                                                                 \
        (void)c;                                                                                          \
        EMU_FOR_LANES(mask, l, const R x = (x_); const R s = x + (y_);                                    \
                      const R t = s + ((in & alu_bit[l]) != 0 ? 1 : 0);                                   \
                      out |= s < x || t < s ? alu_bit[l] : 0; d[l] = t);                                  \
        carry_out(w, op, mask, out);                                                                      \
    }
#define DIFFERENCE(name, R)                                                                               \
    static void exec_##name(struct emu_warp *w, const struct emu_op *op, uint32_t mask)                   \
    {                                                                                                     \
        R *d = (R *)emu_row(w, op->result[0]);                                                            \
        const R *a = (const R *)emu_row(w, op->source[0]), *b = (const R *)emu_row(w, op->source[1]);     \
        const uint32_t in = carry_in(w, op);                                                              \
        uint32_t out = 0;                                                                                 \
        EMU_FOR_LANES(mask, l, const R x = a[l]; const R y = b[l]; const R borrow = (in & alu_bit[l]) != 0; \
                      out |= x < y || (R)(x - y) < borrow ? alu_bit[l] : 0; d[l] = x - y - borrow);       \
        carry_out(w, op, mask, out);                                                                      \
    }

SUM(add_32, uint32_t, a[l], b[l])
SUM(add_64, uint64_t, a[l], b[l])
SUM(mad_lo_32, uint32_t, a[l] * b[l], c[l])
SUM(mad_lo_64, uint64_t, a[l] * b[l], c[l])
SUM(mad_hi_u32, uint32_t, (uint32_t)((uint64_t)a[l] * b[l] >> 32), c[l])
SUM(mad_hi_s32, uint32_t, (uint32_t)((int64_t)(int32_t)a[l] * (int32_t)b[l] >> 32), c[l])
SUM(mad_hi_u64, uint64_t, (uint64_t)((emu_u128)a[l] * b[l] >> 64), c[l])
SUM(mad_hi_s64, uint64_t, (uint64_t)((emu_s128)(int64_t)a[l] * (int64_t)b[l] >> 64), c[l])
DIFFERENCE(sub_32, uint32_t)
DIFFERENCE(sub_64, uint64_t)

bool alu_decode_carry(struct decoder *d, struct emu_op *op, enum alu_carry_kind kind, bool reads,
                      bool writes)
{
    static alu_table table[] = {
        [ALU_CARRY_ADD] = {[PTX_u32] = exec_add_32, [PTX_s32] = exec_add_32,
                           [PTX_u64] = exec_add_64, [PTX_s64] = exec_add_64},
        [ALU_CARRY_SUB] = {[PTX_u32] = exec_sub_32, [PTX_s32] = exec_sub_32,
                           [PTX_u64] = exec_sub_64, [PTX_s64] = exec_sub_64},
        [ALU_CARRY_MAD_LO] = {[PTX_u32] = exec_mad_lo_32, [PTX_s32] = exec_mad_lo_32,
                              [PTX_u64] = exec_mad_lo_64, [PTX_s64] = exec_mad_lo_64},
        [ALU_CARRY_MAD_HI] = {[PTX_u32] = exec_mad_hi_u32, [PTX_s32] = exec_mad_hi_s32,
                              [PTX_u64] = exec_mad_hi_u64, [PTX_s64] = exec_mad_hi_s64}
    };
    const enum ptx_type type = decode_type(d);
    const bool product = kind == ALU_CARRY_MAD_LO || kind == ALU_CARRY_MAD_HI;
    if (!alu_finish(d, op, table[kind][type], type, type, product ? 3 : 2))
        return false;
    op->u8[0] = reads;
    op->u8[1] = writes;
    if (reads)
        decode_add_source(d, decode_carry(d));
    if (writes)
        decode_add_result(d, decode_carry(d));
    return !d->failed;
}

bool decode_addc(struct decoder *d, struct emu_op *op)
{
    return alu_decode_carry(d, op, ALU_CARRY_ADD, true, decode_take(d, "cc"));
}

bool decode_subc(struct decoder *d, struct emu_op *op)
{
    return alu_decode_carry(d, op, ALU_CARRY_SUB, true, decode_take(d, "cc"));
}

bool decode_madc(struct decoder *d, struct emu_op *op)
{
    const bool hi = decode_take(d, "hi");
    if (!hi && !decode_take(d, "lo"))
        return decode_refuse(d, "one of .lo, .hi is needed");
    return alu_decode_carry(d, op, hi ? ALU_CARRY_MAD_HI : ALU_CARRY_MAD_LO, true, decode_take(d, "cc"));
}
