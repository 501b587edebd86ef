/* float_format.c - rounding a value once to any floating-point format, and back. */
#include "float_format.h"

/*                                            exponent fraction bias bits inf    nan    largest     nan */
const struct emu_format emu_format_f32 = {8, 23, 127, 32, true, true, 0x7f7fffff, EMU_NAN_F32};
const struct emu_format emu_format_tf32 = {8, 10, 127, 19, true, true, 0x3fbff, 0x3ffff};
const struct emu_format emu_format_f16 = {5, 10, 15, 16, true, true, 0x7bff, EMU_NAN_F16};
const struct emu_format emu_format_bf16 = {8, 7, 127, 16, true, true, 0x7f7f, EMU_NAN_BF16};
const struct emu_format emu_format_e5m2 = {5, 2, 15, 8, true, true, 0x7b, EMU_NAN_F8};
const struct emu_format emu_format_e4m3 = {4, 3, 7, 8, false, true, 0x7e, EMU_NAN_F8};
const struct emu_format emu_format_e2m3 = {2, 3, 1, 6, false, false, 0x1f, 0};
const struct emu_format emu_format_e3m2 = {3, 2, 3, 6, false, false, 0x1f, 0};
const struct emu_format emu_format_e2m1 = {2, 1, 1, 4, false, false, 0x07, 0};

static uint32_t overflow_code(const struct emu_format *f, bool negative, enum emu_rounding rounding,
                              bool satfinite)
{
    const bool inward = rounding == EMU_RZ || rounding == (negative ? EMU_RP : EMU_RM);
    return satfinite || !f->has_infinity || inward ? f->largest : f->largest + 1;
}

/* Does a magnitude that is `rest` above a multiple of `unit` round up to the next multiple? */
static bool rounds_up(uint64_t rest, uint64_t unit, bool odd, bool negative, enum emu_rounding rounding)
{
    switch (rounding) {
    case EMU_RZ:
        return false;
    case EMU_RM:
        return negative && rest;
    case EMU_RP:
        return !negative && rest;
    case EMU_RNA:
        return rest >= unit / 2;
    default:
        return rest > unit / 2 || (rest == unit / 2 && odd);
    }
}

uint32_t emu_narrow(double value, const struct emu_format *f, enum emu_rounding rounding, bool satfinite)
{
    const uint64_t bits = emu_bits_of_double(value), magnitude = bits & 0x7fffffffffffffffull;
    const bool     negative = bits >> 63;
    const uint32_t sign = (uint32_t)negative << (f->total_bits - 1);
    if (magnitude > 0x7ff0000000000000ull)
        return f->has_nan ? f->nan : f->largest;
    if (magnitude == 0x7ff0000000000000ull)
        return sign | (f->has_infinity && !satfinite ? f->largest + 1 : f->largest);
    if (magnitude == 0)
        return sign;
    /* value = significand * 2^exponent, significand in [2^52, 2^53) */
    uint64_t significand = magnitude & 0xfffffffffffffull;
    int      exponent = (int)(magnitude >> 52) - 1075;
    if (magnitude >> 52)
        significand |= 1ull << 52;
    else
        exponent++;
    const int up = __builtin_clzll(significand) - 11;
    significand <<= up;
    exponent -= up;

    const int lowest = 1 - f->bias - f->fraction_bits;   /* the exponent of a subnormal's last bit */
    const int wanted = exponent + 52 - f->fraction_bits; /* and of a normal value's */
    const int unit = wanted > lowest ? wanted : lowest;
    const int shift = unit - exponent > 60 ? 60 : unit - exponent; /* 29 or more; 60: less than half a unit */
    uint64_t  kept = significand >> shift;
    kept += rounds_up(significand & ((1ull << shift) - 1), 1ull << shift, kept & 1, negative, rounding);
    const uint64_t code = ((uint64_t)(unit - lowest) << f->fraction_bits) + kept;
    return sign | (code > f->largest ? overflow_code(f, negative, rounding, satfinite) : (uint32_t)code);
}

double emu_widen(uint32_t code, const struct emu_format *f)
{
    const uint32_t fraction_mask = (1u << f->fraction_bits) - 1, exponent_mask = (1u << f->exponent_bits) - 1;
    const uint64_t fraction = code & fraction_mask, exponent = code >> f->fraction_bits & exponent_mask;
    const uint64_t sign = (uint64_t)(code >> (f->total_bits - 1) & 1) << 63;
    const uint32_t magnitude = code & (exponent_mask << f->fraction_bits | fraction_mask);
    if (f->has_nan && magnitude > f->largest + (f->has_infinity ? 1u : 0u))
        return emu_double_of(sign | 0x7ff8000000000000ull | fraction << (52 - f->fraction_bits));
    if (f->has_infinity && magnitude == f->largest + 1)
        return emu_double_of(sign | 0x7ff0000000000000ull);
    const uint64_t scale = (exponent ? exponent : 1) + 1023 - (uint64_t)f->bias - f->fraction_bits;
    const uint64_t significand = exponent ? fraction | 1ull << f->fraction_bits : fraction;
    const double   value = (double)significand * emu_double_of(scale << 52);
    return emu_double_of(emu_bits_of_double(value) | sign);
}

uint32_t emu_f32_to_ue8m0(float value, enum emu_rounding rounding)
{
    const uint32_t magnitude = emu_bits_of(value) & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return 0xff;
    const uint32_t exponent = magnitude >> 23, fraction = magnitude & 0x7fffff;
    if (exponent == 0) /* 0 is 2^-127, the value of the f32 subnormal 0x400000 */
        return rounding == EMU_RP && magnitude > 0x400000 ? 1 : 0;
    const uint32_t code = exponent + (rounding == EMU_RP && fraction ? 1u : 0u);
    return code > 0xfe ? 0xfe : code;
}

static uint32_t narrow_f32(float value, const struct emu_format *f, enum emu_rounding rounding, bool satfinite,
                           bool relu)
{
    const uint32_t bits = emu_bits_of(value);
    return emu_narrow((double)emu_float_of(relu ? emu_relu_f32_bits(bits) : bits), f, rounding, satfinite);
}
uint32_t emu_f32_to_f16_mode(float value, enum emu_rounding rounding, bool satfinite, bool relu)
{
    return narrow_f32(value, &emu_format_f16, rounding, satfinite, relu);
}
uint32_t emu_f32_to_bf16_mode(float value, enum emu_rounding rounding, bool satfinite, bool relu)
{
    return narrow_f32(value, &emu_format_bf16, rounding, satfinite, relu);
}
uint32_t emu_f32_to_tf32_mode(float value, enum emu_rounding rounding, bool satfinite, bool relu)
{
    const uint32_t masked = emu_f32_to_tf32_rna(value);
    if (rounding == EMU_RNA &&
        (emu_bits_of(value) & 0x7f800000) == 0x7f800000) /* as the hardware does, also for NaN */
        return satfinite ? masked - 0x2000 : masked;
    return narrow_f32(value, &emu_format_tf32, rounding, satfinite, relu) << 13;
}
uint32_t emu_f64_to_f32(double value, enum emu_rounding rounding)
{
    return emu_narrow(value, &emu_format_f32, rounding, false);
}
uint32_t emu_f32_to_e4m3(float value) { return narrow_f32(value, &emu_format_e4m3, EMU_RN, true, false); }
uint32_t emu_f32_to_e5m2(float value) { return narrow_f32(value, &emu_format_e5m2, EMU_RN, true, false); }
uint32_t emu_f32_to_e2m3(float value) { return narrow_f32(value, &emu_format_e2m3, EMU_RN, true, false); }
uint32_t emu_f32_to_e3m2(float value) { return narrow_f32(value, &emu_format_e3m2, EMU_RN, true, false); }
uint32_t emu_f32_to_e2m1(float value) { return narrow_f32(value, &emu_format_e2m1, EMU_RN, true, false); }
