/* alu_carry.c - additions and subtractions of several words: add.cc, addc, sub.cc, subc, mad.cc, madc.
 *
 * CC.CF is one predicate row of the function.  a - b is a + ~b + 1, as on the hardware: after sub.cc the flag
 * is set if nothing was borrowed, and subc borrows if it is not set.  Programs see this when they read the flag
 * with addc, as the 128-bit division of CUDA C++ does. */
#include "alu.h"

__extension__ typedef __int128          emu_s128;
__extension__ typedef unsigned __int128 emu_u128;

/* The carry into an op that does not read the flag: 0 for sums, 1 for differences. */
static uint32_t carry_in(const struct emu_warp *w, const struct emu_op *op, uint32_t otherwise)
{
    return op->u8[0] ? emu_pred(w, op->source[op->source_count - 1]) : otherwise;
}

static void carry_out(const struct emu_warp *w, const struct emu_op *op, uint32_t mask, uint32_t bits)
{
    if (op->u8[1])
        emu_set_pred(w, op->result[1], mask, bits);
}

/* x (made from a and b) + y + the carry; only mad has c.  At most one of the two additions carries. */
#define SUM(name, R, otherwise, x_, y_)                                                                     \
    static void exec_##name(struct emu_warp *w, const struct emu_op *op, uint32_t mask)                     \
    {                                                                                                       \
        R             *d = (R *)emu_row(w, op->result[0]);                                                  \
        const R       *a = (const R *)emu_row(w, op->source[0]), *b = (const R *)emu_row(w, op->source[1]); \
        const R       *c = (const R *)emu_row(w, op->source[op->source_count > 2 ? 2 : 1]);                 \
        const uint32_t in = carry_in(w, op, otherwise);                                                     \
        uint32_t       out = 0;                                                                             \
        (void)c;                                                                                            \
        EMU_FOR_LANES(mask, l, const R x = (x_); const R s = x + (y_);                                      \
                      const R t = s + ((in & alu_bit[l]) != 0 ? 1 : 0);                                     \
                      out |= s < x || t < s ? alu_bit[l] : 0; d[l] = t);                                    \
        carry_out(w, op, mask, out);                                                                        \
    }

SUM(add_32, uint32_t, 0, a[l], b[l])
SUM(add_64, uint64_t, 0, a[l], b[l])
SUM(sub_32, uint32_t, EMU_ALL, a[l], ~b[l])
SUM(sub_64, uint64_t, EMU_ALL, a[l], ~b[l])
SUM(mad_lo_32, uint32_t, 0, a[l] * b[l], c[l])
SUM(mad_lo_64, uint64_t, 0, a[l] * b[l], c[l])
SUM(mad_hi_u32, uint32_t, 0, (uint32_t)((uint64_t)a[l] * b[l] >> 32), c[l])
SUM(mad_hi_s32, uint32_t, 0, (uint32_t)((int64_t)(int32_t)a[l] * (int32_t)b[l] >> 32), c[l])
SUM(mad_hi_u64, uint64_t, 0, (uint64_t)((emu_u128)a[l] * b[l] >> 64), c[l])
SUM(mad_hi_s64, uint64_t, 0, (uint64_t)((emu_s128)(int64_t)a[l] * (int64_t)b[l] >> 64), c[l])

bool alu_decode_carry(struct decoder *d, struct emu_op *op, enum alu_carry_kind kind, bool reads, bool writes)
{
    /* clang-format off */
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
    /* clang-format on */
    const enum ptx_type type = decode_type(d);
    const bool          product = kind == ALU_CARRY_MAD_LO || kind == ALU_CARRY_MAD_HI;
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
