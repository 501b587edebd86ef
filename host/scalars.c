/* scalars.c - exp, tanh and log in double precision without libm, and a rounding. */
#include "scalars.h"

#include <math.h>
#include <string.h>

double reference_exp(double x)
{
    if (!(x > -707))
        return x < 0 ? 0 : x;                                     /* NaN stays */
    double   n = (x * 0x1.71547652b82fep0 + 0x1.8p52) - 0x1.8p52; /* nearest integer of x / ln 2 */
    double   r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33, sum = 1;
    uint64_t bits = (uint64_t)((int64_t)n + 1023) << 52;
    double   power;
    for (int i = 13; i > 0; i--) /* |r| <= 0.35: the next term is below 2^-57 */
        sum = 1 + sum * r * (1.0 / i);
    memcpy(&power, &bits, sizeof power);
    return sum * power;
}

double reference_tanh(double x)
{
    double y = x < 0 ? 2 * x : -2 * x, less = 1; /* less: e^y - 1 */
    if (y > -0.35) {
        for (int i = 13; i > 1; i--)
            less = 1 + less * y * (1.0 / i);
        less *= y;
    } else {
        less = reference_exp(y) - 1;
    }
    return (x < 0 ? less : -less) / (2 + less);
}

/* By 2 atanh((m-1)/(m+1)) of the mantissa m in [sqrt 1/2, sqrt 2). */
double reference_log(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int64_t exponent = (int64_t)(bits - 0x3fe6a09e667f3bcdu) >> 52;
    double  m, sum = 0;
    bits -= (uint64_t)exponent << 52;
    memcpy(&m, &bits, sizeof m);
    double z = (m - 1) / (m + 1);
    for (int i = 23; i > 0; i -= 2)
        sum = sum * z * z + 1.0 / i;
    return (double)exponent * 0x1.62e42fefa39efp-1 + 2 * z * sum;
}

double reference_root(double x) /* Newton's steps from above */
{
    double root = x > 1 ? x : 1, next;
    while ((next = (root + x / root) / 2) < root)
        root = next;
    return root;
}

uint16_t reference_round(ptxpack_dtype type, double value)
{
    float    nearest = (float)value;
    uint32_t bits;
    memcpy(&bits, &nearest, sizeof bits);
    if ((double)nearest != value && !isinf(nearest)) {
        if (fabs((double)nearest) > fabs(value))
            bits--; /* truncate */
        bits |= 1;
    }
    memcpy(&nearest, &bits, sizeof bits);
    return ptxpack_from_float(type, nearest);
}
