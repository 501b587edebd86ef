/* cvt_float.c - cvt between floats, and between floats and integers: all sources become doubles first.
 *
 * A double holds every source exactly, except 64-bit integers, which are rounded to odd (their conversion to
 * f64 has a function of its own).  As on an H200, .ftz has no effect if the result is f16, and a NaN becomes
 *   - 0 as an integer of up to 32 bits, but only the top bit if it comes from f64 or the integer has 64 bits;
 *   - the canonical NaN as f16, bf16, f32, but a truncated one if it comes from f64;
 *   - the same NaN as f64, and from bf16 to f32. */
#include "cvt.h"
#include "float_round.h"

static const struct emu_format *format_of(enum ptx_type type)
{
    return type == PTX_f16 ? &emu_format_f16 : type == PTX_bf16 ? &emu_format_bf16 : &emu_format_f32;
}

/* ---- loading ---------------------------------------------------------------------------------------- */
static double from_u64(uint64_t magnitude, bool negative)
{
    if (magnitude >> 53) /* remove 11 bits; if one of them was set, the last bit becomes one */
        magnitude = (magnitude >> 11 | ((magnitude & 0x7ff) != 0)) << 11;
    return negative ? -(double)magnitude : (double)magnitude;
}
static void load_integers(const struct emu_warp *w, const struct emu_op *op, double v[EMU_LANES])
{
    const enum ptx_type from = (enum ptx_type)op->u8[CVT_FROM];
    const unsigned int  bits = ptx_type_bits(from), up = bits < 32 ? 32 - bits : 0;
    const bool          is_signed = cvt_is_signed(from);
    const uint32_t     *a32 = emu_r32(w, op->source[0]);
    const uint64_t     *a64 = emu_r64(w, op->source[0]);
    uint32_t            low[EMU_LANES];
    if (bits == 64) {
        for (int l = 0; l < EMU_LANES; l++) {
            const bool negative = is_signed && a64[l] >> 63;
            v[l] = from_u64(negative ? 0 - a64[l] : a64[l], negative);
        }
        return;
    }
    for (int l = 0; l < EMU_LANES; l++)
        low[l] = (op->u8[CVT_FROM_BITS] > 32 ? (uint32_t)a64[l] : a32[l]) << up;
    if (is_signed)
        for (int l = 0; l < EMU_LANES; l++)
            v[l] = (double)((int32_t)low[l] >> up);
    else
        for (int l = 0; l < EMU_LANES; l++)
            v[l] = (double)(low[l] >> up);
}
static void load(const struct emu_warp *w, const struct emu_op *op, double v[EMU_LANES])
{
    const bool      ftz = op->u8[CVT_FLAGS] & EMU_FTZ && op->u8[CVT_TO] != PTX_f16;
    const uint32_t *a = emu_r32(w, op->source[0]);
    switch ((enum ptx_type)op->u8[CVT_FROM]) {
    case PTX_f32:
        for (int l = 0; l < EMU_LANES; l++)
            v[l] = (double)emu_float_of(ftz ? emu_canonical_f32(emu_ftz_f32(a[l])) : a[l]);
        break;
    case PTX_f16:
        for (int l = 0; l < EMU_LANES; l++)
            v[l] = (double)emu_f16_to_f32(a[l]);
        break;
    case PTX_bf16:
        for (int l = 0; l < EMU_LANES; l++)
            v[l] = (double)emu_bf16_to_f32(a[l]);
        break;
    case PTX_f64:
        memcpy(v, emu_r64(w, op->source[0]), EMU_LANES * sizeof v[0]);
        break;
    default:
        load_integers(w, op, v);
        break;
    }
}

/* ---- to integers ------------------------------------------------------------------------------------ */
/* Round to an integral value and keep the sign. */
EMU_INLINE double integral(double value, enum emu_rounding rounding)
{
    const uint64_t bits = emu_bits_of_double(value), sign = bits & 1ull << 63;
    const double   a = emu_double_of(bits ^ sign), nearest = (a + 0x1p52) - 0x1p52;
    const double   below = nearest > a ? nearest - 1 : nearest, above = nearest < a ? nearest + 1 : nearest;
    const bool     outward = sign ? rounding == EMU_RM : rounding == EMU_RP;
    const double   rounded = rounding == EMU_RN ? nearest : outward ? above : below;
    return emu_double_of(emu_bits_of_double(a >= 0x1p52 ? a : rounded) | sign);
}

static uint64_t to_64(double v, bool is_signed)
{
    if (v != v)
        return 1ull << 63;
    if (is_signed)
        return v < -0x1p63 ? 1ull << 63 : v >= 0x1p63 ? ~(1ull << 63) : (uint64_t)(int64_t)v;
    return v < 0 ? 0 : v >= 0x1p64 ? ~0ull : (uint64_t)v;
}
static void store_integers(const struct emu_warp *w, const struct emu_op *op, uint32_t mask,
                           const uint32_t values[EMU_LANES])
{
    uint32_t          *d32 = emu_r32(w, op->result[0]);
    uint64_t          *d64 = emu_r64(w, op->result[0]);
    const unsigned int bits = op->u8[CVT_TO_BITS];
    const uint32_t     kept = bits >= 32 ? 0xffffffff : (1u << bits) - 1;
    if (bits <= 32)
        EMU_EACH(uint32_t, d32, mask, values[l] & kept);
    else if (cvt_is_signed((enum ptx_type)op->u8[CVT_TO]))
        EMU_EACH(uint64_t, d64, mask, (uint64_t)(int64_t)(int32_t)values[l]);
    else
        EMU_EACH(uint64_t, d64, mask, (uint64_t)values[l]);
}
void cvt_exec_to_integer(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const enum ptx_type     to = (enum ptx_type)op->u8[CVT_TO];
    const enum emu_rounding rounding = (enum emu_rounding)op->u8[CVT_ROUNDING];
    const unsigned int      bits = ptx_type_bits(to);
    const bool              is_signed = cvt_is_signed(to);
    double                  v[EMU_LANES];
    load(w, op, v);
    if (bits == 64) {
        uint64_t *d = emu_r64(w, op->result[0]);
        EMU_FOR_LANES(mask, l, d[l] = to_64(integral(v[l], rounding), is_signed));
        return;
    }
    const double half = (double)(1ull << (bits - 1)), least = is_signed ? -half : 0;
    const double most = (is_signed ? half : 2 * half) - 1;
    const double nan = op->u8[CVT_FROM] != PTX_f64 ? 0 : is_signed ? -half : half;
    uint32_t     values[EMU_LANES];
    for (int l = 0; l < EMU_LANES; l++) {
        const double r = integral(v[l], rounding), low = r < least ? least : r, in = low > most ? most : low;
        const double number = in != in ? nan : in;
        values[l] = (uint32_t)emu_bits_of_double(number + 0x1.8p52); /* its low bits are the integer */
    }
    store_integers(w, op, mask, values);
}

/* ---- to floats -------------------------------------------------------------------------------------- */
/* A NaN of f64 loses the low bits of its payload. */
static uint32_t cut_nan(uint64_t bits, const struct emu_format *f)
{
    const uint32_t quiet = ((2u << f->exponent_bits) - 1) << (f->fraction_bits - 1);
    const uint64_t payload = (bits & 0xfffffffffffffull) >> (52 - f->fraction_bits);
    return (uint32_t)(bits >> 63) << (f->total_bits - 1) | quiet | (uint32_t)payload;
}
static uint32_t saturated(uint32_t code, const struct emu_format *f)
{
    const uint32_t one = (uint32_t)f->bias << f->fraction_bits;
    return code > f->largest + 1 ? 0
           : code > one          ? one
                                 : code; /* as unsigned numbers, negative codes are the largest */
}
static uint32_t to_format(const struct emu_op *op, double v, const struct emu_format *f)
{
    const bool              sat = op->u8[CVT_FLAGS] & EMU_SAT;
    const enum emu_rounding rounding = (enum emu_rounding)op->u8[CVT_ROUNDING];
    const bool              ftz = f == &emu_format_f32 && op->u8[CVT_FLAGS] & EMU_FTZ;
    const uint32_t          code = ftz ? emu_round_f32(v, rounding, true) : emu_narrow(v, f, rounding, false);
    if (v != v && op->u8[CVT_FROM] == PTX_f64 && !sat)
        return cut_nan(emu_bits_of_double(v), f);
    return sat ? saturated(code, f) : code;
}
static uint64_t to_f64(const struct emu_op *op, double v)
{
    const uint64_t bits = emu_bits_of_double(v);
    if (v != v)
        return op->u8[CVT_FLAGS] & EMU_SAT ? 0 : bits | 1ull << 51;
    if (op->u8[CVT_FLAGS] & EMU_SAT)
        return bits >> 63 ? 0 : v > 1 ? 0x3ff0000000000000ull : bits;
    return bits;
}
/* 64 bits into 53: the sum of two halves, each of which is exact. */
static uint64_t long_to_f64(const struct emu_op *op, uint64_t value)
{
    const bool     negative = op->u8[CVT_FROM] == PTX_s64 && value >> 63;
    const uint64_t magnitude = negative ? 0 - value : value, sign = (uint64_t)negative << 63;
    if (!magnitude)
        return 0;
    const uint64_t high = emu_bits_of_double((double)(magnitude & 0xffffffff00000000ull)) | sign;
    const uint64_t low = emu_bits_of_double((double)(magnitude & 0xffffffffull)) | sign;
    return emu_round_add_f64(high, low, (enum emu_rounding)op->u8[CVT_ROUNDING]);
}
void cvt_exec_to_float(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const enum ptx_type from = (enum ptx_type)op->u8[CVT_FROM], to = (enum ptx_type)op->u8[CVT_TO];
    uint32_t           *d32 = emu_r32(w, op->result[0]);
    uint64_t           *d64 = emu_r64(w, op->result[0]);
    if (to == PTX_f64 && (from == PTX_s64 || from == PTX_u64)) {
        const uint64_t *a = emu_r64(w, op->source[0]);
        EMU_FOR_LANES(mask, l, d64[l] = long_to_f64(op, a[l]));
        return;
    }
    double v[EMU_LANES];
    load(w, op, v);
    if (op->u8[CVT_FLAGS] & CVT_INTEGRAL)
        for (int l = 0; l < EMU_LANES; l++)
            v[l] = integral(v[l], (enum emu_rounding)op->u8[CVT_ROUNDING]);
    if (to == PTX_f64)
        EMU_FOR_LANES(mask, l, d64[l] = to_f64(op, v[l]));
    else
        EMU_FOR_LANES(mask, l, d32[l] = to_format(op, v[l], format_of(to)));
}

/* ---- the common conversions, as vectors ------------------------------------------------------------- */
#define TO_F16(a)   emu_f32_to_f16(emu_float_of(a))
#define TO_BF16(a)  emu_f32_to_bf16(emu_float_of(a))
#define FROM_F16(a) emu_canonical_f32(emu_f16_to_f32_bits(a))
#define FROM_S32(a) emu_bits_of((float)(int32_t)(a))
#define FROM_U32(a) emu_bits_of((float)(a))
EMU_FLOAT_1(exec_f32_f16, TO_F16)
EMU_FLOAT_1(exec_f32_bf16, TO_BF16)
EMU_FLOAT_1(exec_f16_f32, FROM_F16)
EMU_FLOAT_1(exec_bf16_f32, emu_bf16_to_f32_bits)
EMU_FLOAT_1(exec_s32_f32, FROM_S32)
EMU_FLOAT_1(exec_u32_f32, FROM_U32)

emu_exec *cvt_fast_float(const struct emu_op *op)
{
    static const struct {
        uint8_t              from, to;
        struct emu_exec_pair pair;
    } fast[] = {{PTX_f32, PTX_f16, EMU_PAIR(exec_f32_f16)}, {PTX_f32, PTX_bf16, EMU_PAIR(exec_f32_bf16)},
                {PTX_f16, PTX_f32, EMU_PAIR(exec_f16_f32)}, {PTX_bf16, PTX_f32, EMU_PAIR(exec_bf16_f32)},
                {PTX_s32, PTX_f32, EMU_PAIR(exec_s32_f32)}, {PTX_u32, PTX_f32, EMU_PAIR(exec_u32_f32)}};
    if (op->u8[CVT_ROUNDING] != EMU_RN || op->u8[CVT_FLAGS] || op->u8[CVT_FROM_BITS] > 32)
        return NULL;
    for (size_t i = 0; i < sizeof fast / sizeof fast[0]; i++)
        if (fast[i].from == op->u8[CVT_FROM] && fast[i].to == op->u8[CVT_TO])
            return emu_float_exec(fast[i].pair);
    return NULL;
}
