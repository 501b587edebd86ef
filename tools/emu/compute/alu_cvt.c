/* alu_cvt.c - the decoder of cvt; cvt_int.c, cvt_float.c and cvt_narrow.c execute. */
#include "tools/emu/machine/undefined.h"
#include "cvt.h"

static const char *const roundings[] = {"rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi", NULL};
enum { FIRST_INTEGRAL = 5, NO_ROUNDING = -1 };

static unsigned int take_flags(struct decoder *d)
{
    static const struct {
        const char  *word;
        unsigned int flag;
    } words[] = {{"ftz", EMU_FTZ}, {"sat", EMU_SAT}, {"satfinite", CVT_SATFINITE}, {"relu", EMU_RELU}};
    unsigned int flags = 0, before;
    do {
        before = flags;
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
            if (!(flags & words[i].flag) && decode_take(d, words[i].word))
                flags |= words[i].flag;
    } while (flags != before);
    return flags;
}

/* Significant bits of a floating-point type; 0: an integer. */
static unsigned int precision(enum ptx_type type)
{
    switch (type) {
    case PTX_f16:
        return 11;
    case PTX_bf16:
        return 8;
    case PTX_f32:
        return 24;
    case PTX_f64:
        return 53;
    default:
        return 0;
    }
}
static bool is_type(enum ptx_type type) { return cvt_is_integer(type) || precision(type); }

/* The rounding that a pair of types allows: an integral one to integers (and between floats of one type), a
 * floating-point one if bits may get lost, otherwise none. */
static bool check_rounding(struct decoder *d, enum ptx_type to, enum ptx_type from, int rounding)
{
    const bool integral = rounding >= FIRST_INTEGRAL, whole = cvt_is_integer(to) || cvt_is_integer(from);
    if ((to == PTX_bf16 || from == PTX_bf16) && whole && !(decode_need_sm(d, 90) && decode_need_isa(d, 78)))
        return false;
    if (cvt_is_integer(to) && cvt_is_integer(from))
        return rounding == NO_ROUNDING || decode_refuse(d, "integers are not rounded");
    if (cvt_is_integer(to))
        return integral || decode_refuse(d, "an integer needs .rni, .rzi, .rmi or .rpi");
    if (rounding == EMU_RNA)
        return decode_refuse(d, "only .tf32 has .rna");
    if (cvt_is_integer(from))
        return (rounding != NO_ROUNDING && !integral) || decode_refuse(d, "needs .rn, .rz, .rm or .rp");
    if (to == PTX_bf16 && from == PTX_bf16 && !decode_need_sm(d, 90))
        return false;
    if (to == from)
        return integral || rounding == NO_ROUNDING || decode_refuse(d, "only .rni .rzi .rmi .rpi round here");
    const bool loses = precision(to) < precision(from), halves = precision(to) < 24 && precision(from) < 24;
    if (integral || (loses && !halves && rounding == NO_ROUNDING))
        return decode_refuse(d, "needs .rn, .rz, .rm or .rp");
    if (halves && (to == PTX_bf16 || from == PTX_bf16) && !decode_need_sm(d, 90))
        return false;
    if (!loses && !halves && rounding != NO_ROUNDING && from != PTX_bf16)
        return decode_refuse(d, "a wider type needs no rounding");
    return true;
}

/* Integers, and all values of `from` are values of `to`. */
static bool contains(enum ptx_type to, enum ptx_type from)
{
    if (!cvt_is_integer(to) || !cvt_is_integer(from) || (cvt_is_signed(from) && !cvt_is_signed(to)))
        return false;
    const unsigned int sign = cvt_is_signed(to) && !cvt_is_signed(from) ? 1 : 0;
    return ptx_type_bits(to) >= ptx_type_bits(from) + sign;
}

static bool check_flags(struct decoder *d, enum ptx_type to, enum ptx_type from, unsigned int flags)
{
    if (flags & EMU_FTZ && to != PTX_f32 && from != PTX_f32)
        return decode_refuse(d, "only .f32 has .ftz");
    if (flags & EMU_SAT && contains(to, from))
        return decode_refuse(d, ".sat is given although every value fits");
    if ((to == PTX_bf16 && ptx_type_bits(from) == 8) || (from == PTX_bf16 && ptx_type_bits(to) == 8))
        return decode_refuse(d, "no such conversion from .%s to .%s", ptx_type_name(from), ptx_type_name(to));
    if ((to == PTX_bf16 || from == PTX_bf16) && (!decode_need_sm(d, 80) || flags & EMU_SAT))
        return decode_refuse(d, ".bf16 has no .sat");
    if (flags & (EMU_RELU | CVT_SATFINITE))
        return decode_refuse(d, ".relu and .satfinite do not exist for these types");
    return true;
}

/* ---- wider registers ---------------------------------------------------------------------------------- */
/* Around a conversion (op->data) between registers of the types' own widths.  Integers are extended as their type says,
 * floats with zeros. */
static void exec_wide(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const struct emu_op *plain = (const struct emu_op *)op->data;
    const unsigned int   from = plain->u8[CVT_FROM_BITS], to = plain->u8[CVT_TO_BITS];
    const bool           is_signed = cvt_is_signed((enum ptx_type)op->u8[CVT_TO]);
    const unsigned int   sign = is_signed ? 64 - to : 0;
    const uint64_t      *a64 = emu_r64(w, op->source[0]);
    const uint32_t      *a32 = emu_r32(w, op->source[0]);
    uint64_t            *d64 = emu_r64(w, op->result[0]), *high = d64 + EMU_LANES;
    uint32_t            *d32 = emu_r32(w, op->result[0]), *narrow = emu_r32(w, plain->source[0]);
    if (from == 64)
        memcpy(emu_r64(w, plain->source[0]), a64, 2 * EMU_ROW);
    else
        for (int l = 0; l < EMU_LANES; l++)
            narrow[l] = (op->u8[CVT_FROM_BITS] > 32 ? (uint32_t)a64[l] : a32[l]) & (uint32_t)emu_ones(from);
    plain->exec(w, plain, mask);
    const uint64_t *wide = emu_r64(w, plain->result[0]);
    narrow = emu_r32(w, plain->result[0]);
    EMU_FOR_LANES(mask, l, {
        const uint64_t value = (uint64_t)((int64_t)((to == 64 ? wide[l] : narrow[l]) << sign) >> sign);
        if (op->u8[CVT_TO_BITS] > 32)
            d64[l] = value;
        else
            d32[l] = (uint32_t)(value & emu_ones(op->u8[CVT_TO_BITS]));
        if (op->u8[CVT_TO_BITS] == 128)
            high[l] = is_signed && value >> 63 ? UINT64_MAX : 0;
    });
}

static emu_exec *choose_exec(const struct emu_op *op)
{
    emu_exec *const fast = cvt_fast_float(op);
    if (cvt_is_integer((enum ptx_type)op->u8[CVT_TO]))
        return cvt_is_integer((enum ptx_type)op->u8[CVT_FROM]) ? cvt_integers(op) : cvt_exec_to_integer;
    return fast != NULL ? fast : cvt_exec_to_float;
}

/* Integers in registers of up to 64 bits are converted where they are. */
static bool is_wide(enum ptx_type type, unsigned int bits)
{
    return bits > ptx_type_bits(type) && (!cvt_is_integer(type) || bits > 64);
}

static bool decode_wide(struct decoder *d, struct emu_op *op, enum ptx_type to, enum ptx_type from)
{
    struct emu_op *plain = (struct emu_op *)decode_alloc(d, 1, sizeof *plain);
    if (plain == NULL)
        return false;
    *plain = *op;
    plain->u8[CVT_FROM_BITS] = (uint8_t)ptx_type_bits(from);
    plain->u8[CVT_TO_BITS] = (uint8_t)ptx_type_bits(to);
    plain->source = (emu_reg *)decode_alloc(d, 1, sizeof *plain->source);
    plain->result = (emu_reg *)decode_alloc(d, 1, sizeof *plain->result);
    plain->source[0] = decode_temporary(d, ptx_type_bits(from));
    plain->result[0] = decode_temporary(d, ptx_type_bits(to));
    plain->exec = choose_exec(plain);
    op->data = plain;
    op->exec = exec_wide;
    return !d->failed;
}

static bool decode_plain(struct decoder *d, struct emu_op *op, int rounding, unsigned int flags)
{
    const enum ptx_type to = decode_type(d), from = to == PTX_NO_TYPE ? to : decode_type(d);
    if (from == PTX_NO_TYPE || !decode_end(d))
        return false;
    if (!is_type(to) || !is_type(from))
        return decode_refuse(d, "no such conversion from .%s to .%s", ptx_type_name(from), ptx_type_name(to));
    if (!check_rounding(d, to, from, rounding) || !check_flags(d, to, from, flags))
        return false;
    if (!decode_operands(d, 2, 2))
        return false;
    unsigned int to_bits = ptx_type_bits(to), from_bits = ptx_type_bits(from);
    const bool   bf16 = to == PTX_bf16 || from == PTX_bf16; /* only in registers of its own width */
    if (bf16 && !cvt_is_integer(to))
        decode_result(d, 0, to);
    else
        decode_result_wide(d, decode_operand(d, 0), to, &to_bits);
    if (bf16 && !cvt_is_integer(from))
        decode_source(d, 1, from);
    else
        decode_source_wide(d, decode_operand(d, 1), from, &from_bits);
    const bool integral = rounding >= FIRST_INTEGRAL;
    const int  mode = integral ? rounding - FIRST_INTEGRAL : rounding;
    op->u8[CVT_ROUNDING] = (uint8_t)(rounding == NO_ROUNDING ? EMU_RN : mode);
    op->u8[CVT_FLAGS] = (uint8_t)(flags | (integral ? CVT_INTEGRAL : 0));
    op->u8[CVT_FROM] = (uint8_t)from;
    op->u8[CVT_TO] = (uint8_t)to;
    op->u8[CVT_FROM_BITS] = (uint8_t)from_bits;
    op->u8[CVT_TO_BITS] = (uint8_t)to_bits;
    if (is_wide(to, to_bits) || is_wide(from, from_bits))
        return !d->failed && decode_wide(d, op, to, from);
    op->exec = choose_exec(op);
    return !d->failed;
}

bool decode_cvt(struct decoder *d, struct emu_op *op)
{
    if (decode_take(d, "pack"))
        return cvt_decode_pack(d, op);
    op->class_ = EMU_CLASS_convert;
    const int          rounding = decode_one_of(d, roundings);
    const unsigned int flags = take_flags(d);
    const char        *to = decode_peek(d);
    const size_t       length = strlen(to);
    const bool         pair = length > 2 && !strcmp(to + length - 2, "x2");
    if (!pair && strcmp(to, "tf32") && !(flags & (EMU_RELU | CVT_SATFINITE)))
        return decode_plain(d, op, rounding, flags);
    if (rounding == NO_ROUNDING || rounding >= FIRST_INTEGRAL || flags & (EMU_FTZ | EMU_SAT))
        return decode_refuse(d, "no such rounding or modifier for .%s", to);
    return cvt_decode_narrow(d, op, (enum emu_rounding)rounding, flags);
}
