/* probe_value.c - numbers in the formats of matrix instructions, and their places in registers. */
#include <math.h>

#include "probe.h"

typedef struct format {
    int  exponent, mantissa; /* bits; 0: an integer */
    bool is_signed;
    int  code_bits; /* see probe_code_bits */
} format;

static const format formats[PTXPACK_VALUE_TYPE_COUNT] = {
    [PTXPACK_VALUE_F64] = {11, 52, true, 16}, [PTXPACK_VALUE_F32] = {8, 23, true, 16},
    [PTXPACK_VALUE_TF32] = {8, 23, true, 10}, [PTXPACK_VALUE_F16] = {5, 10, true, 8},
    [PTXPACK_VALUE_BF16] = {8, 7, true, 8},   [PTXPACK_VALUE_E4M3] = {4, 3, true, 4},
    [PTXPACK_VALUE_E5M2] = {5, 2, true, 3},   [PTXPACK_VALUE_E3M2] = {3, 2, true, 3},
    [PTXPACK_VALUE_E2M3] = {2, 3, true, 2},   [PTXPACK_VALUE_E2M1] = {2, 1, true, 2},
    [PTXPACK_VALUE_S32] = {0, 0, true, 16},   [PTXPACK_VALUE_S16] = {0, 0, true, 8},
    [PTXPACK_VALUE_S8] = {0, 0, true, 7},     [PTXPACK_VALUE_U8] = {0, 0, false, 8},
    [PTXPACK_VALUE_S4] = {0, 0, true, 3},     [PTXPACK_VALUE_U4] = {0, 0, false, 4},
    [PTXPACK_VALUE_U1] = {0, 0, false, 1},
};

int probe_code_bits(ptxpack_value_type type) { return formats[type].code_bits; }

bool probe_is_integer(ptxpack_value_type type) { return formats[type].exponent == 0; }

uint64_t probe_encode(ptxpack_value_type type, int64_t value)
{
    const format *f = &formats[type];
    int           bits = ptxpack_value_bits(type);
    if (f->exponent == 0)
        return (uint64_t)value & (UINT64_MAX >> (64 - bits));
    if (value == 0)
        return 0;
    uint64_t size = value < 0 ? -(uint64_t)value : (uint64_t)value;
    int      top = 63 - __builtin_clzll(size);
    uint64_t fraction = (top <= f->mantissa ? size << (f->mantissa - top) : size >> (top - f->mantissa));
    uint64_t biased = (uint64_t)(top + (1 << (f->exponent - 1)) - 1);
    return (uint64_t)(value < 0) << (bits - 1) | biased << f->mantissa |
           (fraction & ((UINT64_C(1) << f->mantissa) - 1));
}

double probe_decode(ptxpack_value_type type, uint64_t bits)
{
    const format *f = &formats[type];
    int           width = ptxpack_value_bits(type);
    if (f->exponent == 0 && f->is_signed)
        return (double)((int64_t)(bits << (64 - width)) >> (64 - width));
    if (f->exponent == 0)
        return (double)bits;
    uint64_t fraction = bits & ((UINT64_C(1) << f->mantissa) - 1);
    int      most = (1 << f->exponent) - 1, bias = most / 2;
    int      exponent = (int)(bits >> f->mantissa) & most;
    if (exponent != 0)
        fraction |= UINT64_C(1) << f->mantissa;
    double size = ldexp((double)fraction, (exponent != 0 ? exponent : 1) - bias - f->mantissa);
    bool   special = exponent == most && width > 6 && (type != PTXPACK_VALUE_E4M3 || fraction == 15);
    return special ? NAN : bits >> (width - 1) & 1 ? -size : size;
}

double probe_random_factor(random_state *random, ptxpack_value_type type, uint32_t *byte)
{
    int exponent = (int)random_below(random, 3);
    *byte = (uint32_t)(type == PTXPACK_VALUE_UE4M3 ? (exponent + 7) << 3 : exponent + 127);
    return ldexp(1, exponent);
}

int64_t probe_random(random_state *random, ptxpack_value_type type)
{
    int bits = ptxpack_value_bits(type);
    if (!probe_is_integer(type))
        return (int64_t)random_below(random, 7) - 3;
    if (bits > 16)
        return (int64_t)random_below(random, 2001) - 1000;
    if (bits > 8)
        bits = 8;
    return (int64_t)random_below(random, UINT64_C(1) << bits) - (formats[type].is_signed ? 1 << (bits - 1) : 0);
}

void probe_put(uint32_t *words, int lanes, int lane, ptxpack_value_type type, int value, uint64_t bits)
{
    int width = ptxpack_value_bits(type), first = value * width;
    if (width == 64) {
        words[first / 32 * lanes + lane] = (uint32_t)bits;
        words[(first / 32 + 1) * lanes + lane] = (uint32_t)(bits >> 32);
        return;
    }
    uint32_t *word = &words[first / 32 * lanes + lane];
    uint32_t  mask = UINT32_MAX >> (32 - width) << first % 32;
    *word = (*word & ~mask) | ((uint32_t)bits << first % 32 & mask);
}

uint64_t probe_get(const uint32_t *words, int lanes, int lane, ptxpack_value_type type, int value)
{
    int      width = ptxpack_value_bits(type), first = value * width;
    uint32_t word = words[first / 32 * lanes + lane];
    if (width == 64)
        return word | (uint64_t)words[(first / 32 + 1) * lanes + lane] << 32;
    return word >> first % 32 & (UINT32_MAX >> (32 - width));
}
