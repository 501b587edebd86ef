/* dtype.c - half precision, bfloat16, e4m3, int8 and blocks of q8_0 to and from float. */
#include "dtype.h"

#include <string.h>

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Drop the low `count` (1 to 31) bits, rounding to nearest, ties to even. */
static uint32_t round_off(uint32_t bits, int count)
{
    uint32_t half = 1u << (count - 1);
    uint32_t odd = (bits >> count) & 1;
    return (bits + half - 1 + odd) >> count;
}

static uint16_t f16_from_float(float value)
{
    uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) /* NaN: quiet, keep the top of the payload */
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    if (magnitude >= 0x477ff000) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude >= 0x38800000) /* 2^-14: normal; rebias the exponent from 127 to 15 */
        return (uint16_t)(sign | round_off(magnitude - ((127u - 15u) << 23), 13));
    int shift = 126 - (int)(magnitude >> 23); /* units of 2^-24 */
    if (shift > 24)
        return (uint16_t)sign;
    return (uint16_t)(sign | round_off((magnitude & 0x7fffff) | 0x800000, shift));
}

static float f16_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, mantissa = half & 0x3ff;
    if (exponent == 31)
        return float_of(sign | 0x7f800000 | mantissa << 13);
    if (exponent != 0)
        return float_of(sign | (exponent + 127 - 15) << 23 | mantissa << 13);
    float magnitude = (float)mantissa * 0x1p-24f;
    return float_of(sign | bits_of(magnitude));
}

static uint16_t bf16_from_float(float value)
{
    uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)round_off(bits, 16); /* the carry out of the largest exponent gives infinity */
}

/* As cvt.rn.satfinite.e4m3x2.f32: every NaN is 0x7f. */
static uint16_t e4m3_from_float(float value)
{
    uint32_t bits = bits_of(value), sign = bits >> 24 & 0x80, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return 0x7f;
    if (magnitude > 0x43e00000) /* 448 */
        return (uint16_t)(sign | 0x7e);
    if (magnitude >= 0x3c800000) /* 2^-6: normal; rebias the exponent from 127 to 7 */
        return (uint16_t)(sign | round_off(magnitude - ((127u - 7u) << 23), 20));
    int shift = 141 - (int)(magnitude >> 23); /* units of 2^-9 */
    if (shift > 24)
        return (uint16_t)sign;
    return (uint16_t)(sign | round_off((magnitude & 0x7fffff) | 0x800000, shift));
}

static float e4m3_to_float(uint16_t code)
{
    uint32_t sign = (uint32_t)(code & 0x80) << 24, exponent = code >> 3 & 15, fraction = code & 7;
    if ((code & 0x7f) == 0x7f)
        return float_of(sign | 0x7fc00000);
    if (exponent != 0)
        return float_of(sign | (exponent + 127 - 7) << 23 | fraction << 20);
    float magnitude = (float)fraction * 0x1p-9f;
    return float_of(sign | bits_of(magnitude));
}

/* As cvt.rni.sat.s8.f32. */
static uint16_t int8_from_float(float value)
{
    const float magic = 0x1.8p23f; /* a sum of so much has no fraction: it is rounded to nearest even */
    if (!(value >= -128))          /* NaN, too */
        return value < -128 ? 0x80 : 0;
    volatile float sum = (value < 127 ? value : 127) + magic;
    return (uint16_t)((int)(sum - magic) & 0xff);
}

uint16_t ptxpack_from_float(ptxpack_dtype type, float value)
{
    return type == PTXPACK_BF16   ? bf16_from_float(value)
           : type == PTXPACK_E4M3 ? e4m3_from_float(value)
           : type == PTXPACK_INT8 ? int8_from_float(value)
                                  : f16_from_float(value);
}

float ptxpack_to_float(ptxpack_dtype type, uint16_t bits)
{
    return type == PTXPACK_BF16   ? float_of((uint32_t)bits << 16)
           : type == PTXPACK_E4M3 ? e4m3_to_float(bits)
           : type == PTXPACK_INT8 ? (float)(int8_t)bits
                                  : f16_to_float(bits);
}

ptxpack_dtype ptxpack_dtype_of(const char *name)
{
    if (name == NULL)
        return (ptxpack_dtype)0;
    for (int type = PTXPACK_F16; type <= PTXPACK_Q8_0; type++)
        if (strcmp(name, ptxpack_dtype_name((ptxpack_dtype)type)) == 0)
            return (ptxpack_dtype)type;
    return (ptxpack_dtype)0;
}

size_t ptxpack_dtype_bytes(ptxpack_dtype type)
{
    switch (type) {
    case PTXPACK_F16:
    case PTXPACK_BF16:
        return sizeof(uint16_t);
    case PTXPACK_E4M3:
    case PTXPACK_INT8:
        return sizeof(uint8_t);
    case PTXPACK_Q8_0:
        break;
    }
    return 0;
}

size_t ptxpack_dtype_span(ptxpack_dtype type, size_t count)
{
    return type == PTXPACK_Q8_0 ? count / PTXPACK_Q8_0_ELEMENTS * PTXPACK_Q8_0_BYTES
                                : count * ptxpack_dtype_bytes(type);
}

/* ---- blocks ------------------------------------------------------------------------------------------- */
/* Where the scale of element `index` is; its numbers follow.  Nothing of it is aligned for the CPU. */
static uint8_t *block_of(const void *array, size_t index)
{
    return (uint8_t *)array + index / PTXPACK_Q8_0_ELEMENTS * PTXPACK_Q8_0_BYTES;
}

static float block_element(const void *array, size_t index)
{
    const uint8_t *block = block_of(array, index);
    uint16_t       scale;
    memcpy(&scale, block, sizeof scale);
    return f16_to_float(scale) * (float)(int8_t)block[sizeof scale + index % PTXPACK_Q8_0_ELEMENTS];
}

/* Halves away from zero.  |value| is at most a little more than 127, or infinite where 1 / d is: it is clamped.  A NaN becomes 0. */
static int8_t round_away(float value)
{
    if (value >= 127 || value <= -128)
        return value > 0 ? 127 : -128;
    const int   whole = value == value ? (int)value : 0;
    const float rest = value - (float)whole;
    return (int8_t)(rest >= 0.5f ? whole + 1 : rest <= -0.5f ? whole - 1 : whole);
}

static void set_block(uint8_t *block, const float *values)
{
    float most = 0;
    for (int i = 0; i < PTXPACK_Q8_0_ELEMENTS; i++) {
        const float size = values[i] < 0 ? -values[i] : values[i];
        most = size > most ? size : most;
    }
    const float    d = most / 127, inverse = d != 0 ? 1 / d : 0;
    const uint16_t scale = f16_from_float(d);
    memcpy(block, &scale, sizeof scale);
    for (int i = 0; i < PTXPACK_Q8_0_ELEMENTS; i++)
        block[sizeof scale + (size_t)i] = (uint8_t)round_away(values[i] * inverse);
}

/* ---- arrays ------------------------------------------------------------------------------------------- */
void ptxpack_set_elements(ptxpack_dtype type, void *array, size_t index, const float *values, size_t count)
{
    if (array == NULL || values == NULL)
        return;
    for (size_t i = 0; i < count && type != PTXPACK_Q8_0; i++)
        ptxpack_set_element(type, array, index + i, values[i]);
    for (size_t i = 0; i + PTXPACK_Q8_0_ELEMENTS <= count && type == PTXPACK_Q8_0; i += PTXPACK_Q8_0_ELEMENTS)
        set_block(block_of(array, index + i), values + i);
}

float ptxpack_element(ptxpack_dtype type, const void *array, size_t index)
{
    if (array == NULL)
        return 0;
    if (type == PTXPACK_Q8_0)
        return block_element(array, index);
    return ptxpack_to_float(type, ptxpack_dtype_bytes(type) == 1 ? ((const uint8_t *)array)[index]
                                                                 : ((const uint16_t *)array)[index]);
}

void ptxpack_set_element(ptxpack_dtype type, void *array, size_t index, float value)
{
    if (array == NULL || type == PTXPACK_Q8_0)
        return;
    uint16_t bits = ptxpack_from_float(type, value);
    if (ptxpack_dtype_bytes(type) == 1)
        ((uint8_t *)array)[index] = (uint8_t)bits;
    else
        ((uint16_t *)array)[index] = bits;
}

const char *ptxpack_dtype_name(ptxpack_dtype type)
{
    switch (type) {
    case PTXPACK_F16:
        return "f16";
    case PTXPACK_BF16:
        return "bf16";
    case PTXPACK_E4M3:
        return "e4m3";
    case PTXPACK_INT8:
        return "int8";
    case PTXPACK_Q8_0:
        return "q8_0";
    }
    return "?";
}
