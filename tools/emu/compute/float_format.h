/* float_format.h - floating-point formats and the conversions between them, bit by bit.
 *
 *   f64 f32, tf32 (19 bits at the top of 32), f16, bf16, e4m3 and e5m2 (8 bits), e2m3 and e3m2 (6), e2m1 (4),
 *   ue8m0 (a power of two)
 *
 * Pure functions: no state, no rounding mode of the host (which must be nearest even, as it is by default).
 * Inline functions have no branches and no calls, so that the compiler vectorises loops over them.
 *
 * NaN  narrowing gives the canonical NaN (f16, bf16: 0x7fff; e4m3, e5m2: 0x7f; f32: 0x7fffffff; tf32:
 *      0x7fffe000); widening keeps sign and payload.  Formats without infinity saturate, and so do all formats
 *      with `satfinite`. */
#ifndef EMU_FLOAT_FORMAT_H
#define EMU_FLOAT_FORMAT_H
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define EMU_INLINE static inline __attribute__((always_inline, unused))

enum emu_rounding {
    EMU_RN, /* to nearest, ties to even             */
    EMU_RZ, /* toward zero                          */
    EMU_RM, /* toward minus infinity                */
    EMU_RP, /* toward plus infinity                 */
    EMU_RNA /* to nearest, ties away from zero      */
};
#define EMU_NAN_F32  0x7fffffffu
#define EMU_NAN_TF32 0x7fffe000u
#define EMU_NAN_F16  0x7fffu
#define EMU_NAN_BF16 0x7fffu
#define EMU_NAN_F8   0x7fu
#define EMU_NAN_F64  0xfff8000000000000ull

EMU_INLINE float emu_float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
EMU_INLINE uint32_t emu_bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}
EMU_INLINE double emu_double_of(uint64_t bits)
{
    double f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
EMU_INLINE uint64_t emu_bits_of_double(double f)
{
    uint64_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* condition ? yes : no, with both always computed.  Compilers branch around floating-point operations, because
 * these might trap, and do not vectorise a loop with such a branch. */
EMU_INLINE uint32_t emu_if(bool condition, uint32_t yes, uint32_t no)
{
    const uint32_t mask = 0u - (uint32_t)condition;
    return (yes & mask) | (no & ~mask);
}
EMU_INLINE uint64_t emu_if_64(bool condition, uint64_t yes, uint64_t no)
{
    const uint64_t mask = 0ull - (uint64_t)condition;
    return (yes & mask) | (no & ~mask);
}

/* ---- any format ------------------------------------------------------------------------------------- */
struct emu_format {
    uint8_t  exponent_bits, fraction_bits;
    int16_t  bias;
    uint8_t  total_bits; /* the sign is the top one */
    bool     has_infinity, has_nan;
    uint32_t largest; /* code of the largest finite value */
    uint32_t nan;     /* the canonical NaN                */
};
extern const struct emu_format emu_format_f32, emu_format_tf32, emu_format_f16, emu_format_bf16,
    emu_format_e4m3, emu_format_e5m2, emu_format_e2m3, emu_format_e3m2, emu_format_e2m1;

/* The value rounded once to the format.  Beyond the range the result is as IEEE says for the rounding mode, or
 * the largest finite value with `satfinite` or if the format has no infinity.  NaN gives the canonical NaN, or
 * the largest value if the format has none. */
uint32_t emu_narrow(double value, const struct emu_format *format, enum emu_rounding rounding, bool satfinite);
/* The value of a code; exact. */
double emu_widen(uint32_t code, const struct emu_format *format);
/* A power of two at least as large (EMU_RP) or at most as large (EMU_RZ) as |value|; NaN: 0xff; beyond the
 * range: 0 or 0xfe. */
uint32_t emu_f32_to_ue8m0(float value, enum emu_rounding rounding);

/* ---- widening --------------------------------------------------------------------------------------- */
/* The bits of an f32 with the magnitude of a code of `fraction` fraction bits and this bias, which is neither
 * NaN nor infinite.  An exact subtraction makes subnormals normal. */
EMU_INLINE uint32_t emu_widen_magnitude(uint32_t magnitude, int fraction, int bias)
{
    const uint32_t m = magnitude << (23 - fraction), one = (uint32_t)(128 - bias) << 23;
    const uint32_t subnormal = emu_bits_of(emu_float_of(m + one) - emu_float_of(one));
    const uint32_t normal = m + ((uint32_t)(127 - bias) << 23);
    return emu_if(magnitude >> fraction, normal, subnormal);
}
EMU_INLINE uint32_t emu_f16_to_f32_bits(uint32_t h)
{
    const uint32_t m = h & 0x7fff, finite = emu_widen_magnitude(m, 10, 15);
    return (h & 0x8000) << 16 | emu_if(m >= 0x7c00, 0x7f800000 | m << 13, finite);
}
EMU_INLINE uint32_t emu_bf16_to_f32_bits(uint32_t h) { return h << 16; }
EMU_INLINE uint32_t emu_e5m2_to_f32_bits(uint32_t b) { return emu_f16_to_f32_bits((b & 0xff) << 8); }
EMU_INLINE uint32_t emu_e4m3_to_f32_bits(uint32_t b)
{
    const uint32_t m = b & 0x7f, finite = emu_widen_magnitude(m, 3, 7);
    return (b & 0x80) << 24 | emu_if(m == 0x7f, 0x7fffffff, finite);
}
EMU_INLINE uint32_t emu_e2m3_to_f32_bits(uint32_t b)
{
    return (b & 0x20) << 26 | emu_widen_magnitude(b & 0x1f, 3, 1);
}
EMU_INLINE uint32_t emu_e3m2_to_f32_bits(uint32_t b)
{
    return (b & 0x20) << 26 | emu_widen_magnitude(b & 0x1f, 2, 3);
}
EMU_INLINE uint32_t emu_e2m1_to_f32_bits(uint32_t b)
{
    return (b & 0x08) << 28 | emu_widen_magnitude(b & 0x07, 1, 1);
}
EMU_INLINE uint32_t emu_ue8m0_to_f32_bits(uint32_t b)
{
    return b == 0xff ? EMU_NAN_F32 : b ? b << 23 : 0x00400000;
}
EMU_INLINE float emu_f16_to_f32(uint32_t h) { return emu_float_of(emu_f16_to_f32_bits(h)); }
EMU_INLINE float emu_bf16_to_f32(uint32_t h) { return emu_float_of(emu_bf16_to_f32_bits(h)); }
EMU_INLINE float emu_e4m3_to_f32(uint32_t b) { return emu_float_of(emu_e4m3_to_f32_bits(b)); }
EMU_INLINE float emu_e5m2_to_f32(uint32_t b) { return emu_float_of(emu_e5m2_to_f32_bits(b)); }
EMU_INLINE float emu_e2m3_to_f32(uint32_t b) { return emu_float_of(emu_e2m3_to_f32_bits(b)); }
EMU_INLINE float emu_e3m2_to_f32(uint32_t b) { return emu_float_of(emu_e3m2_to_f32_bits(b)); }
EMU_INLINE float emu_e2m1_to_f32(uint32_t b) { return emu_float_of(emu_e2m1_to_f32_bits(b)); }
EMU_INLINE float emu_ue8m0_to_f32(uint32_t b) { return emu_float_of(emu_ue8m0_to_f32_bits(b)); }
/* What a tensor core reads of a tf32 operand: it ignores the low 13 bits. */
EMU_INLINE uint32_t emu_tf32_operand(uint32_t bits) { return bits & 0xffffe000; }

/* ---- narrowing from f32 ----------------------------------------------------------------------------- */
EMU_INLINE uint32_t emu_f32_to_f16(float value) /* nearest even */
{
    const uint32_t bits = emu_bits_of(value), u = bits & 0x7fffffff;
    const uint32_t subnormal = emu_bits_of(emu_float_of(u) + 0.5f) - 0x3f000000; /* its last bit is 2^-24 */
    const uint32_t normal = (u + 0xc8000fff + (u >> 13 & 1)) >> 13;
    const uint32_t small = emu_if((int32_t)u < 0x38800000, subnormal, normal);
    const uint32_t finite = emu_if((int32_t)u >= 0x47800000, 0x7c00, small);
    return emu_if((int32_t)u > 0x7f800000, EMU_NAN_F16, (bits >> 16 & 0x8000) | finite);
}
EMU_INLINE uint32_t emu_f32_to_f16_rz(float value)
{
    const uint32_t bits = emu_bits_of(value), u = bits & 0x7fffffff;
    const uint32_t shift = u < 0x33000000 ? 24 : 126 - (u >> 23); /* the subnormals' unit is 2^-24 */
    const uint32_t subnormal = ((u & 0x7fffff) | 0x800000) >> (shift & 31);
    const uint32_t normal = (u - 0x38000000) >> 13;
    const uint32_t small = emu_if(u < 0x38800000, subnormal, normal);
    const uint32_t finite = u == 0x7f800000 ? 0x7c00 : u >= 0x47800000 ? 0x7bff : small;
    return u > 0x7f800000 ? EMU_NAN_F16 : (bits >> 16 & 0x8000) | finite;
}
EMU_INLINE uint32_t emu_f32_to_bf16(float value) /* nearest even */
{
    const uint32_t u = emu_bits_of(value);
    return (u & 0x7fffffff) > 0x7f800000 ? EMU_NAN_BF16 : (u + 0x7fff + (u >> 16 & 1)) >> 16;
}
EMU_INLINE uint32_t emu_f32_to_bf16_rz(float value)
{
    const uint32_t u = emu_bits_of(value);
    return (u & 0x7fffffff) > 0x7f800000 ? EMU_NAN_BF16 : u >> 16;
}
/* cvt.rna.tf32 only masks infinities and NaNs: the payload of a NaN may get lost. */
EMU_INLINE uint32_t emu_f32_to_tf32_rna(float value)
{
    const uint32_t u = emu_bits_of(value), finite = (u + 0x1000) & 0xffffe000;
    return (u & 0x7f800000) == 0x7f800000 ? u & 0xffffe000 : finite;
}
EMU_INLINE uint32_t emu_f32_to_tf32(float value) /* nearest even */
{
    const uint32_t u = emu_bits_of(value), finite = (u + 0xfff + (u >> 13 & 1)) & 0xffffe000;
    return (u & 0x7fffffff) > 0x7f800000 ? EMU_NAN_TF32 : finite;
}
EMU_INLINE uint32_t emu_f32_to_tf32_rz(float value)
{
    const uint32_t u = emu_bits_of(value);
    return (u & 0x7fffffff) > 0x7f800000 ? EMU_NAN_TF32 : u & 0xffffe000;
}
/* relu: negative values and -0 become +0; NaN stays.  On bits of f32. */
EMU_INLINE uint32_t emu_relu_f32_bits(uint32_t u)
{
    return (u & 0x7fffffff) > 0x7f800000 || !(u >> 31) ? u : 0;
}
/* Any rounding mode, with all of the rules above; slower. */
uint32_t emu_f32_to_f16_mode(float value, enum emu_rounding rounding, bool satfinite, bool relu);
uint32_t emu_f32_to_bf16_mode(float value, enum emu_rounding rounding, bool satfinite, bool relu);
uint32_t emu_f32_to_tf32_mode(float value, enum emu_rounding rounding, bool satfinite, bool relu);
uint32_t emu_f64_to_f32(double value, enum emu_rounding rounding); /* bits */

/* Nearest even and always satfinite, as in PTX. */
uint32_t emu_f32_to_e4m3(float value);
uint32_t emu_f32_to_e5m2(float value);
uint32_t emu_f32_to_e2m3(float value);
uint32_t emu_f32_to_e3m2(float value);
uint32_t emu_f32_to_e2m1(float value);
#endif
