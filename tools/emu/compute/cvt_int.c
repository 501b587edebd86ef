/* cvt_int.c - cvt between integers, and cvt.pack. */
#include "cvt.h"

bool cvt_is_signed(enum ptx_type type) { return type >= PTX_s8 && type <= PTX_s64; }
bool cvt_is_integer(enum ptx_type type) { return type >= PTX_u8 && type <= PTX_s64; }

#define ZERO_EXTEND(x) ((uint64_t)(x))
#define SIGN_EXTEND(x) ((uint64_t)(int64_t)(int32_t)(x))
#define LOW_32(x)      ((uint32_t)(x))
#define LOW_16(x)      ((x)&0xffff)
#define LOW_8(x)       ((x)&0xff)
#define SAME(x)        (x)

#define WIDTHS(name, to, to_row, from, from_row, VALUE)                          \
    static void name(struct emu_warp *w, const struct emu_op *op, uint32_t mask) \
    {                                                                            \
        to         *d = to_row(w, op->result[0]);                                \
        const from *a = from_row(w, op->source[0]);                              \
        EMU_EACH(to, d, mask, VALUE(a[l]));                                      \
    }
WIDTHS(exec_zero_extend, uint64_t, emu_r64, uint32_t, emu_r32, ZERO_EXTEND)
WIDTHS(exec_sign_extend, uint64_t, emu_r64, uint32_t, emu_r32, SIGN_EXTEND)
WIDTHS(exec_cut, uint32_t, emu_r32, uint64_t, emu_r64, LOW_32)
WIDTHS(exec_low_16, uint32_t, emu_r32, uint32_t, emu_r32, LOW_16)
WIDTHS(exec_low_8, uint32_t, emu_r32, uint32_t, emu_r32, LOW_8)
WIDTHS(exec_same_32, uint32_t, emu_r32, uint32_t, emu_r32, SAME)
WIDTHS(exec_same_64, uint64_t, emu_r64, uint64_t, emu_r64, SAME)

/* The low `bits` of a value, extended to 64. */
static uint64_t extended(uint64_t value, unsigned int bits, bool is_signed)
{
    const unsigned int up = 64 - bits;
    return is_signed ? (uint64_t)((int64_t)(value << up) >> up) : value << up >> up;
}

/* Clamp to the range of `to`. */
static uint64_t clamped(uint64_t value, bool from_signed, enum ptx_type to)
{
    const unsigned int bits = ptx_type_bits(to);
    const bool         negative = from_signed && value >> 63;
    if (cvt_is_signed(to)) {
        const uint64_t most = (1ull << (bits - 1)) - 1;
        if (negative)
            return (int64_t)value < -(int64_t)most - 1 ? ~most : value;
        return value > most ? most : value;
    }
    const uint64_t most = bits == 64 ? ~0ull : (1ull << bits) - 1;
    return negative ? 0 : value > most ? most : value;
}

static uint64_t converted(const struct emu_op *op, uint64_t value)
{
    const enum ptx_type from = (enum ptx_type)op->u8[CVT_FROM], to = (enum ptx_type)op->u8[CVT_TO];
    uint64_t            v = extended(value, ptx_type_bits(from), cvt_is_signed(from));
    if (op->u8[CVT_FLAGS] & EMU_SAT)
        v = clamped(v, cvt_is_signed(from), to);
    return extended(extended(v, ptx_type_bits(to), cvt_is_signed(to)), op->u8[CVT_TO_BITS], false);
}

static void exec_integers(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const uint32_t *a32 = emu_r32(w, op->source[0]);
    const uint64_t *a64 = emu_r64(w, op->source[0]);
    uint32_t       *d32 = emu_r32(w, op->result[0]);
    uint64_t       *d64 = emu_r64(w, op->result[0]);
    uint64_t        values[EMU_LANES];
    EMU_FOR_LANES(mask, l, values[l] = converted(op, op->u8[CVT_FROM_BITS] > 32 ? a64[l] : a32[l]));
    if (op->u8[CVT_TO_BITS] > 32)
        EMU_FOR_LANES(mask, l, d64[l] = values[l]);
    else
        EMU_FOR_LANES(mask, l, d32[l] = (uint32_t)values[l]);
}

emu_exec *cvt_integers(const struct emu_op *op)
{
    const enum ptx_type from = (enum ptx_type)op->u8[CVT_FROM], to = (enum ptx_type)op->u8[CVT_TO];
    const unsigned int  from_bits = ptx_type_bits(from), to_bits = ptx_type_bits(to);
    const bool          own_registers = op->u8[CVT_FROM_BITS] == from_bits && op->u8[CVT_TO_BITS] == to_bits;
    if (!own_registers || op->u8[CVT_FLAGS] & EMU_SAT)
        return exec_integers;
    if (from_bits == 64 && to_bits == 64)
        return exec_same_64;
    if (from_bits == 64 && to_bits == 32)
        return exec_cut;
    if (from_bits == 32 && to_bits < 32)
        return to_bits == 16 ? exec_low_16 : exec_low_8;
    if (from_bits == 32 && to_bits == 64)
        return cvt_is_signed(from) ? exec_sign_extend : exec_zero_extend;
    if (from_bits == to_bits || (from_bits <= to_bits && to_bits <= 32 && !cvt_is_signed(from)))
        return exec_same_32;
    if (to_bits == 64 && !cvt_is_signed(from))
        return exec_zero_extend;
    return exec_integers;
}

/* ---- cvt.pack.sat: a and b side by side, and the low bits of c above them --------------------------- */
static void exec_pack(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const uint32_t    *a = emu_r32(w, op->source[0]), *b = emu_r32(w, op->source[1]);
    const uint32_t    *c = emu_r32(w, op->source[op->source_count - 1]);
    uint32_t          *d = emu_r32(w, op->result[0]);
    const unsigned int bits = op->u32[0];
    const bool         is_signed = op->u32[1], third = op->source_count == 3;
    const int64_t      least = is_signed ? -((int64_t)1 << (bits - 1)) : 0;
    const int64_t      most = ((int64_t)1 << (is_signed ? bits - 1 : bits)) - 1;
    const uint32_t     field = (1u << bits) - 1;
    EMU_FOR_LANES(mask, l, {
        const int64_t x = (int32_t)a[l], y = (int32_t)b[l];
        const int64_t high = x < least ? least : x > most ? most : x;
        const int64_t low = y < least ? least : y > most ? most : y;
        d[l] = ((uint32_t)high & field) << bits | ((uint32_t)low & field) | (third ? c[l] << 2 * bits : 0);
    });
}

bool cvt_decode_pack(struct decoder *d, struct emu_op *op)
{
    static const struct {
        const char *word;
        uint8_t     bits;
        bool        is_signed;
    } types[] = {{"u16", 16, false}, {"s16", 16, true}, {"u8", 8, false}, {"s8", 8, true},
                 {"u4", 4, false},   {"s4", 4, true},   {"u2", 2, false}, {"s2", 2, true}};
    if (!decode_take(d, "sat"))
        return decode_refuse(d, ".sat is missing");
    for (size_t i = 0; i < sizeof types / sizeof types[0] && !op->u32[0]; i++)
        if (decode_take(d, types[i].word)) {
            op->u32[0] = types[i].bits;
            op->u32[1] = types[i].is_signed;
        }
    if (!op->u32[0] || !decode_take(d, "s32"))
        return decode_refuse(d, "the types must be those of the result, .s32 and, below 16 bits, .b32");
    const bool third = decode_take(d, "b32");
    if (third == (op->u32[0] == 16))
        return decode_refuse(d, ".u8, .s8 and narrower types, and only they, need .b32 and the operand c");
    const unsigned int operands = third ? 4 : 3;
    if (!decode_end(d) || !decode_operands(d, operands, operands))
        return false;
    decode_result(d, 0, PTX_u32);
    decode_source(d, 1, PTX_s32);
    decode_source(d, 2, PTX_s32);
    if (third)
        decode_source(d, 3, PTX_b32);
    op->exec = exec_pack;
    op->class_ = EMU_CLASS_convert;
    return !d->failed;
}
