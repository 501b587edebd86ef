/* block_scale.c - factors of block scaling, and products of e2m1 with them.
 *
 * One step computes all 64 terms, as MMA-Sim (Xie et al., arXiv 2511.10909) publishes it for RTX Blackwell GPUs:
 *   1. the products of 16 neighbours along k are added exactly, and multiplied by the significands of their factors;
 *   2. these four numbers and C are aligned to the largest exponent among them: of a number the sum of the exponents
 *      of its factors, of C its own, and at least that of the smallest normal f32;
 *   3. each is truncated toward zero to 35 fraction bits, their sum is exact and is rounded once, toward zero. */
#include <math.h>

#include "tensor.h"

enum { M = 16, N = 8, K = 64, GROUP = 16, FRACTION = 35, F32_SMALLEST = -126, F32_FRACTION = 23 };

struct tensor_scale tensor_scale_of(enum tensor_scale_type type, uint32_t bits)
{
    const int one = 1 << TENSOR_SCALE_FRACTION, exponent = (int)(bits >> 3 & 15), fraction = (int)(bits & 7);
    if (type == TENSOR_ue8m0)
        return (struct tensor_scale){(bits & 0xff) == 0xff ? -1 : one, (int)(bits & 0xff) - 127};
    if ((bits & 0x7f) == 0x7f) /* the highest bit does not count */
        return (struct tensor_scale){-1, 0};
    if (exponent == 0)
        return (struct tensor_scale){fraction, 1 - 7};
    return (struct tensor_scale){fraction | one, exponent - 7};
}

/* Twice the number. */
static int twice(uint32_t e2m1)
{
    static const int numbers[] = {0, 1, 2, 3, 4, 6, 8, 12};
    return e2m1 & 8 ? -numbers[e2m1 & 7] : numbers[e2m1 & 7];
}

/* significand 2^(exponent - FRACTION), before it is aligned */
struct term {
    int64_t significand;
    int     exponent;
};

static struct term term_of_f32(uint32_t bits)
{
    const int     e = (int)(bits >> F32_FRACTION & 0xff);
    const int64_t fraction = bits & 0x7fffff, magnitude = e == 0 ? fraction : fraction | 0x800000;
    return (struct term){(bits >> 31 ? -magnitude : magnitude) * (1 << (FRACTION - F32_FRACTION)),
                         (e == 0 ? 1 : e) - 127};
}

static int64_t aligned(struct term t, int top)
{
    const int     away = top - t.exponent;
    const int64_t magnitude = t.significand < 0 ? -t.significand : t.significand;
    const int64_t cut = away > 62 ? 0 : magnitude >> away;
    return t.significand < 0 ? -cut : cut;
}

static uint32_t f32_toward_zero(int64_t sum, int exponent)
{
    const double   x = ldexp((double)(sum < 0 ? -sum : sum), exponent); /* exact: below 2^53 */
    const uint32_t sign = sum < 0 ? 0x80000000u : 0;
    int            e;
    if (x < 0x1p-126)
        return x < 0x1p-149 ? 0 : sign | (uint32_t)(x * 0x1p149);
    const uint32_t significand = (uint32_t)(frexp(x, &e) * 0x1p24); /* from 2^23 to 2^24, cut */
    return sign | (e > 128 ? 0x7f800000u : (uint32_t)(e + 126) << F32_FRACTION | (significand & 0x7fffff));
}

static uint32_t add(const struct term *terms, int count)
{
    int     top = F32_SMALLEST;
    int64_t sum = 0;
    for (int i = 0; i < count; i++)
        top = terms[i].exponent > top ? terms[i].exponent : top;
    for (int i = 0; i < count; i++)
        sum += aligned(terms[i], top);
    return f32_toward_zero(sum, top - FRACTION);
}

/* false: a factor is a NaN */
static bool make_term(int products, struct tensor_scale x, struct tensor_scale y, struct term *out)
{
    const int64_t significand = (int64_t)products * x.significand * y.significand; /* in quarters and 64ths */
    const bool    zero = x.significand == 0 || y.significand == 0;
    *out = (struct term){significand * ((int64_t)1 << (FRACTION - 2 - 2 * TENSOR_SCALE_FRACTION)),
                         zero ? F32_SMALLEST : x.exponent + y.exponent};
    return x.significand >= 0 && y.significand >= 0;
}

void tensor_multiply_e2m1(int vector, const uint32_t *a, const uint32_t *b, const struct tensor_scale *a_scale,
                          const struct tensor_scale *b_scale, uint32_t *c)
{
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++) {
            struct term terms[1 + K / GROUP] = {term_of_f32(c[m * N + n])};
            bool        numbers = (c[m * N + n] & 0x7fffffff) <= 0x7f800000;
            for (int g = 0; g < K / GROUP; g++) {
                const int chunk = g * vector * GROUP / K;
                int       sum = 0;
                for (int k = g * GROUP; k < (g + 1) * GROUP; k++)
                    sum += twice(a[m * K + k]) * twice(b[k * N + n]);
                numbers &= make_term(sum, a_scale[m * vector + chunk], b_scale[chunk * N + n], &terms[1 + g]);
            }
            if (!numbers)
                c[m * N + n] = 0x7fffffff;
            else if ((c[m * N + n] & 0x7fffffff) != 0x7f800000)
                c[m * N + n] = add(terms, 1 + K / GROUP);
        }
}
