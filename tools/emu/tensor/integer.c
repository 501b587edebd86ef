/* integer.c - products of integers and of bits, and of f64, which are plain multiply-adds. */
#include <math.h>

#include "tensor.h"

enum { WIDE = 8 };

/* Elements as numbers. */
static void decode(enum tensor_type type, size_t count, const uint32_t *raw, int32_t *out)
{
    const int shift = 32 - (int)tensor_type_bits(type);
    if (type == TENSOR_s8 || type == TENSOR_s4)
        for (size_t i = 0; i < count; i++)
            out[i] = (int32_t)(raw[i] << shift) >> shift;
    else
        for (size_t i = 0; i < count; i++)
            out[i] = (int32_t)raw[i];
}

static uint32_t add(uint32_t c, int32_t sum, bool saturates)
{
    int64_t exact = (int64_t)(int32_t)c + sum;
    if (saturates)
        exact = exact > INT32_MAX ? INT32_MAX : exact < INT32_MIN ? INT32_MIN : exact;
    return (uint32_t)exact;
}

/* Sums of K products of bytes fit in 32 bits. */
static void multiply_numbers(const struct tensor_product *p, const uint32_t *a, const uint32_t *b, uint32_t *c)
{
    int32_t x[TENSOR_MOST_M * TENSOR_MOST_K], y[TENSOR_MOST_K * WIDE];
    decode(p->a, (size_t)(p->m * p->k), a, x);
    for (int n = 0; n < p->n; n += WIDE) {
        for (int k = 0; k < p->k; k++)
            decode(p->b, WIDE, b + k * p->n + n, y + k * WIDE);
        for (int m = 0; m < p->m; m++) {
            int32_t sum[WIDE] = {0};
            for (int k = 0; k < p->k; k++)
                for (int i = 0; i < WIDE; i++)
                    sum[i] += x[m * p->k + k] * y[k * WIDE + i];
            for (int i = 0; i < WIDE; i++)
                c[m * p->n + n + i] = add(c[m * p->n + n + i], sum[i], p->saturates);
        }
    }
}

static void multiply_bits(const struct tensor_product *p, const uint32_t *a, const uint32_t *b, uint32_t *c)
{
    const int words = p->k / 32;
    for (int i = 0; i < p->m * p->n; i++) {
        int sum = 0;
        for (int k = 0; k < words; k++) {
            uint32_t x = a[i / p->n * words + k], y = b[k * p->n + i % p->n];
            sum += __builtin_popcount(p->bits == TENSOR_AND ? x & y : x ^ y);
        }
        c[i] = add(c[i], sum, p->saturates);
    }
}

void tensor_multiply_integer(const struct tensor_product *p, const uint32_t *a, const uint32_t *b, uint32_t *c)
{
    if (p->a == TENSOR_b1)
        multiply_bits(p, a, b, c);
    else
        multiply_numbers(p, a, b, c);
}

void tensor_multiply(const struct tensor_product *p, const uint32_t *a, const uint32_t *b, uint32_t *c)
{
    if (p->c == TENSOR_s32)
        tensor_multiply_integer(p, a, b, c);
    else
        tensor_multiply_float(p, a, b, c);
}

static bool is_nan(uint64_t bits) { return (bits & 0x7fffffffffffffffull) > 0x7ff0000000000000ull; }

/* a b + c.  A NaN keeps its payload and becomes quiet; b takes precedence over c, and c over a. */
static uint64_t multiply_add(uint64_t a, uint64_t b, uint64_t c)
{
    const uint64_t quiet = 0x0008000000000000ull, none = 0xfff8000000000000ull;
    double         x, y, sum;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    memcpy(&sum, &c, sizeof sum);
    if (is_nan(b) || is_nan(c) || is_nan(a))
        return quiet | (is_nan(b) ? b : is_nan(c) ? c : a);
    sum = fma(x, y, sum);
    memcpy(&c, &sum, sizeof c);
    return is_nan(c) ? none : c;
}

/* In order of k. */
void tensor_multiply_f64(int m, int n, int k, const uint64_t *a, const uint64_t *b, uint64_t *c)
{
    for (int i = 0; i < m * n; i++)
        for (int j = 0; j < k; j++)
            c[i] = multiply_add(a[i / n * k + j], b[j * n + i % n], c[i]);
}
