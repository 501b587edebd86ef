/* panel.c - the product of references, for processors with AVX2 in half the time. */
#include "panel.h"

#include <string.h>

enum { HALF = PANEL / 2 };

typedef double half_sum __attribute__((vector_size(HALF * sizeof(double))));
typedef float  half_row __attribute__((vector_size(HALF * sizeof(float))));

static inline __attribute__((always_inline)) void multiply(const double *a, size_t a_step, const float *b,
                                                           size_t n, double *out, size_t out_step)
{
    for (int at = 0; at < PANEL; at += HALF) {
        half_sum sum0 = {0}, sum1 = {0}, sum2 = {0}, sum3 = {0}; /* variables, which stay in registers */
        for (size_t i = 0; i < n; i++) {
            half_row row;
            memcpy(&row, b + i * PANEL + at, sizeof row);
            const half_sum wide = __builtin_convertvector(row, half_sum);
            sum0 += wide * a[i];
            sum1 += wide * a[a_step + i];
            sum2 += wide * a[2 * a_step + i];
            sum3 += wide * a[3 * a_step + i];
        }
        memcpy(out + at, &sum0, sizeof sum0);
        memcpy(out + out_step + at, &sum1, sizeof sum1);
        memcpy(out + 2 * out_step + at, &sum2, sizeof sum2);
        memcpy(out + 3 * out_step + at, &sum3, sizeof sum3);
    }
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void multiply_avx2(const double *a, size_t a_step, const float *b,
                                                          size_t n, double *out, size_t out_step)
{
    multiply(a, a_step, b, n, out, out_step);
}
#endif

void panel_multiply(const double *a, size_t a_step, const float *b, size_t n, double *out, size_t out_step)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        multiply_avx2(a, a_step, b, n, out, out_step);
        return;
    }
#endif
    multiply(a, a_step, b, n, out, out_step);
}
