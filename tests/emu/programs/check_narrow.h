/* check_narrow.h - matrix products of 4 and 6 bits on tensor cores. */
#ifndef EMU_PROGRAMS_CHECK_NARROW_H
#define EMU_PROGRAMS_CHECK_NARROW_H
#include "check_basic.h"

enum { NARROW_M = 32, NARROW_N = 24, NARROW_K = 128 };

/* Codes of small numbers, and these numbers: 0, 0.5, .. 6 of e2m1, 0, 0.25, .. 3.5 of e3m2, with a sign. */
static unsigned int draw_code(unsigned int bits, double *number)
{
    static const double e2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    unsigned int magnitude = random_below(bits == 4 ? 8 : 16), negative = random_below(2);
    double x = bits == 4 ? e2m1[magnitude]
               : magnitude < 4 ? 0.0625 * magnitude
                               : ldexp(4 + magnitude % 4, (int)(magnitude / 4) - 5);
    *number = negative ? -x : x;
    return magnitude | negative << (bits - 1);
}

/* `rows` rows along k of elements; runs of 16 begin every `run_bytes` bytes. */
static uint64_t put_narrow(struct program *p, int rows, unsigned int bits, size_t run_bytes, double *numbers)
{
    size_t bytes = (size_t)rows * NARROW_K / 16 * run_bytes;
    unsigned char *image = (unsigned char *)host(bytes, 1);
    for (size_t i = 0; i < bytes; i++)
        image[i] = (unsigned char)random_below(256); /* the padding */
    for (int i = 0; i < rows * NARROW_K; i++) {
        unsigned int code = draw_code(bits, &numbers[i]);
        for (unsigned int k = 0; k < bits; k++) {
            size_t at = (size_t)(i % 16) * bits + k;
            unsigned char *byte = &image[(size_t)(i / 16) * run_bytes + at / 8];
            *byte = (unsigned char)((*byte & ~(1u << at % 8)) | (code >> k & 1) << at % 8);
        }
    }
    uint64_t address = put(p, image, bytes);
    free(image);
    return address;
}

/* A ue4m3 of 1, 1.25, .. 3.5 for each run of 16; the numbers are multiplied by it. */
static uint64_t put_factors(struct program *p, int rows, double *numbers)
{
    size_t count = (size_t)rows * NARROW_K / 16;
    unsigned char *image = (unsigned char *)host(count, 1);
    for (size_t i = 0; i < count; i++) {
        unsigned int fraction = 2 * random_below(4), exponent = random_below(2);
        image[i] = (unsigned char)((exponent + 7) << 3 | fraction);
        for (int k = 0; k < 16; k++)
            numbers[16 * i + (size_t)k] *= ldexp(1 + fraction / 8.0, (int)exponent);
    }
    uint64_t address = put(p, image, count);
    free(image);
    return address;
}

static void check_matmul_narrow(struct program *p)
{
    static double a[NARROW_M * NARROW_K], b[NARROW_N * NARROW_K];
    static float c[NARROW_M * NARROW_N];
    int n = NARROW_N, k = NARROW_K;
    for (int scaled = 0; scaled < 2; scaled++) {
        uint64_t da = put_narrow(p, NARROW_M, 4, scaled ? 8 : 16, a), dc = buffer(p, sizeof c);
        uint64_t db = put_narrow(p, NARROW_N, scaled ? 4 : 6, scaled ? 8 : 16, b);
        const struct shape grid = SHAPE(NARROW_N / 8, NARROW_M / 16), block = SHAPE(32);
        if (scaled) {
            uint64_t sa = put_factors(p, NARROW_M, a), sb = put_factors(p, NARROW_N, b);
            launch(p, "matmul_nvf4", grid, block, 0, ARGS(&da, &db, &sa, &sb, &dc, &n, &k));
        } else {
            launch(p, "matmul_narrow", grid, block, 0, ARGS(&da, &db, &dc, &n, &k));
        }
        get(p, c, dc, sizeof c);
        for (int i = 0; i < NARROW_M * NARROW_N; i++) {
            double sum = 0; /* it is exact in f32 */
            for (int j = 0; j < k; j++)
                sum += a[i / n * k + j] * b[i % n * k + j];
            near_double(p, scaled ? "matmul_nvf4" : "matmul_narrow", (size_t)i, (double)c[i], sum, 0, 0);
        }
    }
}
#endif
