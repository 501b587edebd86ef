/* number.c - types of matrix elements, their conversions, and the rules by which each GPU adds products. */
#include <math.h>

#include "tensor.h"

static const struct {
    const char  *name;
    unsigned int bits;
} types[TENSOR_TYPES] = {
#define TENSOR_TYPE_ROW(name, bits, word) {#name, bits},
    TENSOR_TYPE_MAP(TENSOR_TYPE_ROW)
#undef TENSOR_TYPE_ROW
};

const char *tensor_type_name(enum tensor_type type)
{
    return (unsigned int)type < TENSOR_TYPES ? types[type].name : "?";
}

unsigned int tensor_type_bits(enum tensor_type type)
{
    return (unsigned int)type < TENSOR_TYPES ? types[type].bits : 0;
}

enum tensor_type tensor_type_find(const char *name)
{
    unsigned int i = 0;
    while (i < TENSOR_TYPES && strcmp(types[i].name, name) != 0)
        i++;
    return (enum tensor_type)i;
}

/* ---- f16 and narrower types ---------------------------------------------------------------------------- */
uint32_t tensor_f16_of_e5m2(uint32_t bits) { return bits << 8; }

uint32_t tensor_f16_of_e4m3(uint32_t bits)
{
    const uint32_t sign = bits >> 7 << 15, fraction = bits & 7;
    uint32_t       e = (bits >> 3 & 15) + 15 - 7, significand = fraction | 8;
    if ((bits & 0x7f) == 0x7f)
        return 0x7fff;
    if ((bits & 0x7f) == 0)
        return sign;
    if (bits >> 3 & 15)
        return sign | e << 10 | fraction << 7;
    for (e++, significand = fraction; significand < 8; significand <<= 1) /* these are normal numbers in f16 */
        e--;
    return sign | e << 10 | (significand & 7) << 7;
}

double tensor_double_of_f16(uint32_t bits)
{
    int      e = (int)(bits >> 10 & 31);
    uint32_t fraction = bits & 0x3ff;
    double   x;
    if (e == 31)
        x = fraction ? (double)NAN : (double)INFINITY;
    else
        x = e == 0 ? fraction * 0x1p-24 : ldexp(fraction | 0x400, e - 25);
    return bits & 0x8000 ? -x : x;
}

uint32_t tensor_f16_of_double(double x)
{
    const uint64_t lost = 52 - 10, largest = (uint64_t)(1023 + 16) << 52,
                   smallest = (uint64_t)(1023 - 14) << 52;
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t sign = (uint32_t)(bits >> 48 & 0x8000);
    bits &= ~(uint64_t)0 >> 1;
    if (x != x)
        return 0x7fff;
    if (bits < smallest) /* multiples of the smallest number; 0x400 is the smallest normal number */
        return sign | (uint32_t)(fabs(x) * 0x1p24 + 0x1p52 - 0x1p52);
    bits += ((uint64_t)1 << (lost - 1)) - 1 + (bits >> lost & 1);
    return sign | (bits >= largest ? 0x7c00 : (uint32_t)((bits - smallest) >> lost) + 0x400);
}

/* ---- rules --------------------------------------------------------------------------------------------- */
enum { AMPERE = 80, ADA = 89, HOPPER = 90, BLACKWELL = 100 };

static bool is_narrow(enum tensor_type type) /* of 8, 6 or 4 bits */
{
    return type == TENSOR_e4m3 || type == TENSOR_e5m2 || type == TENSOR_e3m2 || type == TENSOR_e2m3 ||
           type == TENSOR_e2m1;
}

static struct tensor_rule narrow_rule(int sm, enum tensor_unit unit, int k)
{
    if (unit == TENSOR_WGMMA)
        return (struct tensor_rule){.terms = 32, .fraction = 13, .kept = 13};
    if (sm < HOPPER)
        return (struct tensor_rule){.terms = 16, .fraction = 13, .kept = 13};
    if (sm < BLACKWELL)
        return (struct tensor_rule){.method = TENSOR_BY_F16, .terms = k / 2, .fraction = 25, .kept = 23};
    return (struct tensor_rule){.terms = 32, .fraction = 25, .kept = 23};
}

struct tensor_rule tensor_rule_of(int sm, enum tensor_unit unit, enum tensor_type a, int m, int k)
{
    if (is_narrow(a))
        return narrow_rule(sm, unit, k);
    if (a == TENSOR_f16 && m == 8 && k == 4)
        return (struct tensor_rule){.method = TENSOR_BY_FMA, .terms = 4, .fraction = 23, .kept = 23};
    struct tensor_rule rule = {.terms = sm < HOPPER ? 8 : 16, .fraction = sm < HOPPER ? 24 : 25, .kept = 23};
    if (a == TENSOR_tf32) /* twice the bits, half as many; wmma is made of m16n8k4 */
        rule.terms = unit == TENSOR_WMMA ? 4 : rule.terms / 2;
    return rule;
}
