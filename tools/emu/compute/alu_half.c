/* alu_half.c - f16, f16x2, bf16, bf16x2 arithmetic to nearest even: add sub mul fma.
 *
 * f16 is computed in f32: sums and products of 11 bits, rounded to 24 and then to 11 bits, equal those rounded
 * once; fused sums are rounded to odd first.  bf16 products may leave the range of f32, so they are computed in
 * double.  Subnormals are ordinary numbers; .ftz flushes those of f16. */
#include "float_lanes.h"

EMU_INLINE uint32_t ftz(uint32_t h, unsigned int flags)
{
    return emu_if(((flags & EMU_FTZ) != 0) & ((h & 0x7c00) == 0), h & 0x8000, h);
}
EMU_INLINE uint32_t finish_f16(float value, unsigned int flags)
{
    const uint32_t rounded = emu_f32_to_f16(
        value); /* tiny: below 2^-14 when rounded to 11 bits with any exponent */
    const bool     tiny = ((flags & EMU_FTZ) != 0) & (__builtin_fabsf(value) < 0x1.ffep-15f);
    const uint32_t h = emu_if(tiny, rounded & 0x8000, rounded);
    const uint32_t positive = emu_if(h > 0x7c00, 0, h); /* NaN, and everything negative */
    const uint32_t ranged = emu_if(positive > 0x3c00, 0x3c00, positive);
    const uint32_t relu = emu_if(((flags & EMU_RELU) != 0) & (h >> 15), 0, h); /* NaN has no sign */
    return emu_if(flags & EMU_SAT, ranged, relu);
}
#define F16(x) emu_f16_to_f32(ftz(x, flags))
EMU_INLINE uint32_t add_f16(uint32_t a, uint32_t b, unsigned int flags)
{
    return finish_f16(F16(a) + F16(b), flags);
}
EMU_INLINE uint32_t sub_f16(uint32_t a, uint32_t b, unsigned int flags)
{
    return finish_f16(F16(a) - F16(b), flags);
}
EMU_INLINE uint32_t mul_f16(uint32_t a, uint32_t b, unsigned int flags)
{
    return finish_f16(F16(a) * F16(b), flags);
}
EMU_INLINE uint32_t fma_f16(uint32_t a, uint32_t b, uint32_t c, unsigned int flags)
{
    return finish_f16(emu_sum_to_odd_f32(F16(a) * F16(b), F16(c)), flags);
}

/* emu_sum_to_odd as vectors. */
EMU_INLINE double sum_to_odd(double p, double c)
{
    const double   s = p + c, back = s - p, error = (p - (s - back)) + (c - back);
    const uint64_t bits = emu_bits_of_double(s);
    const uint64_t inexact = (error > 0) | (error < 0), outward = (error > 0) == (s > 0);
    return emu_double_of(emu_if_64(inexact & ~bits & 1, emu_if_64(outward, bits + 1, bits - 1), bits));
}
EMU_INLINE uint32_t finish_bf16(float value, unsigned int flags)
{
    const uint32_t h = emu_f32_to_bf16(value);
    return emu_if(((flags & EMU_RELU) != 0) & (h >> 15), 0, h);
}
#define BF16(x) emu_bf16_to_f32(x)
EMU_INLINE uint32_t add_bf16(uint32_t a, uint32_t b, unsigned int flags)
{
    return finish_bf16(BF16(a) + BF16(b), flags);
}
EMU_INLINE uint32_t sub_bf16(uint32_t a, uint32_t b, unsigned int flags)
{
    return finish_bf16(BF16(a) - BF16(b), flags);
}
EMU_INLINE uint32_t mul_bf16(uint32_t a, uint32_t b, unsigned int flags)
{
    return finish_bf16(emu_to_odd_f32((double)BF16(a) * (double)BF16(b)), flags);
}
EMU_INLINE uint32_t fma_bf16(uint32_t a, uint32_t b, uint32_t c, unsigned int flags)
{
    return finish_bf16(emu_to_odd_f32(sum_to_odd((double)BF16(a) * (double)BF16(b), (double)BF16(c))), flags);
}

/* fma in the other roundings, which the ISA does not list but ptxas takes.  The upper half of a single bf16 is 0 and stays so. */
static uint32_t directed_bf16(const struct emu_op *op, uint32_t a, uint32_t b, uint32_t c)
{
    const double   exact = sum_to_odd((double)BF16(a) * (double)BF16(b), (double)BF16(c));
    const uint32_t h = emu_narrow(exact, &emu_format_bf16, (enum emu_rounding)op->u8[0], false);
    return op->u8[1] & EMU_RELU && h >> 15 ? 0 : h;
}
void emu_exec_directed_bf16(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    uint32_t       *d = emu_r32(w, op->result[0]);
    const uint32_t *a = emu_r32(w, op->source[0]), *b = emu_r32(w, op->source[1]),
                   *c = emu_r32(w, op->source[2]);
    EMU_FOR_LANES(mask, l, {
        const uint32_t high = a[l] >> 16 | b[l] >> 16 | c[l] >> 16
                                  ? directed_bf16(op, a[l] >> 16, b[l] >> 16, c[l] >> 16)
                                  : 0;
        d[l] = directed_bf16(op, a[l] & 0xffff, b[l] & 0xffff, c[l] & 0xffff) | high << 16;
    });
}

#define LOW(x)         ((x)&0xffff)
#define HIGH(x)        ((x) >> 16)
#define ONE_2(a, b)    OPERATION(a, b, flags)
#define TWO_2(a, b)    (OPERATION(LOW(a), LOW(b), flags) | OPERATION(HIGH(a), HIGH(b), flags) << 16)
#define ONE_3(a, b, c) OPERATION(a, b, c, flags)
#define TWO_3(a, b, c) \
    (OPERATION(LOW(a), LOW(b), LOW(c), flags) | OPERATION(HIGH(a), HIGH(b), HIGH(c), flags) << 16)

#define OPERATION add_f16
EMU_FLOAT_2(exec_add_f16, ONE_2)
EMU_FLOAT_2(exec_add_f16x2, TWO_2)
#undef OPERATION
#define OPERATION sub_f16
EMU_FLOAT_2(exec_sub_f16, ONE_2)
EMU_FLOAT_2(exec_sub_f16x2, TWO_2)
#undef OPERATION
#define OPERATION mul_f16
EMU_FLOAT_2(exec_mul_f16, ONE_2)
EMU_FLOAT_2(exec_mul_f16x2, TWO_2)
#undef OPERATION
#define OPERATION fma_f16
EMU_FLOAT_3(exec_fma_f16, ONE_3)
EMU_FLOAT_3(exec_fma_f16x2, TWO_3)
#undef OPERATION
#define OPERATION add_bf16
EMU_FLOAT_2(exec_add_bf16, ONE_2)
EMU_FLOAT_2(exec_add_bf16x2, TWO_2)
#undef OPERATION
#define OPERATION sub_bf16
EMU_FLOAT_2(exec_sub_bf16, ONE_2)
EMU_FLOAT_2(exec_sub_bf16x2, TWO_2)
#undef OPERATION
#define OPERATION mul_bf16
EMU_FLOAT_2(exec_mul_bf16, ONE_2)
EMU_FLOAT_2(exec_mul_bf16x2, TWO_2)
#undef OPERATION
#define OPERATION fma_bf16
EMU_FLOAT_3(exec_fma_bf16, ONE_3)
EMU_FLOAT_3(exec_fma_bf16x2, TWO_3)
#undef OPERATION

emu_exec *emu_arithmetic_half(enum emu_arithmetic operation, const struct emu_float_mode *mode)
{
#define FOUR_TYPES(name)                                                                             \
    {                                                                                                \
        EMU_PAIR(name##_f16), EMU_PAIR(name##_f16x2), EMU_PAIR(name##_bf16), EMU_PAIR(name##_bf16x2) \
    }
    static const struct emu_exec_pair table[EMU_ARITHMETIC][4] = {FOUR_TYPES(exec_add), FOUR_TYPES(exec_sub),
                                                                  FOUR_TYPES(exec_mul), FOUR_TYPES(exec_fma)};
    return emu_float_exec(table[operation][mode->type - EMU_F16]);
}
