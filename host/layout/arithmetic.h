/* arithmetic.h - private: small integer arithmetic that several files need. */
#ifndef PTXPACK_HOST_MATH_H
#define PTXPACK_HOST_MATH_H
#include <stdbool.h>
#include <stdint.h>

static inline bool is_power_of_2(int64_t x) { return x > 0 && (x & (x - 1)) == 0; }

/* The logarithm of a power of 2. */
static inline int log2_of(int64_t power) { return __builtin_ctzll((unsigned long long)power); }

/* The greatest common divisor of numbers that are not negative; gcd(a, 0) is a. */
static inline int64_t gcd_of(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}
#endif
