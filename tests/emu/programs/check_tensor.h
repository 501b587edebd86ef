/* check_tensor.h - matrix products on tensor cores. */
#ifndef EMU_PROGRAMS_CHECK_TENSOR_H
#define EMU_PROGRAMS_CHECK_TENSOR_H
#include "check_basic.h"

/* Small multiples of 1/4: sums are exact in f32, and in f16 as long as they are below 128. */
static float small_number(void) { return (float)((int)random_below(9) - 4) / 4; }

enum element { F16, BF16, F32, F64, S8 };
static const size_t element_bytes[] = {2, 2, 4, 8, 1};

static void store_element(void *bytes, size_t i, enum element type, float x)
{
    double wide = (double)x;
    uint16_t half = type == BF16 ? bf16_of(x) : f16_of(wide);
    signed char byte = (signed char)x;
    const void *from[] = {&half, &half, &x, &wide, &byte};
    memcpy((char *)bytes + i * element_bytes[type], from[type], element_bytes[type]);
}

/* A is m x k, B is k x n; as they lie in memory; `a_rows`, `b_rows`: row-major. */
struct factors { int m, n, k; float *a, *b; uint64_t da, db; };

static struct factors make_factors(struct program *p, int m, int n, int k, enum element type,
                                   bool a_rows, bool b_rows)
{
    struct factors f = {m, n, k, NULL, NULL, 0, 0};
    size_t a_count = (size_t)(m * k), b_count = (size_t)(k * n), bytes = element_bytes[type];
    void *a = host(a_count, bytes), *b = host(b_count, bytes);
    f.a = (float *)host(a_count, 4);
    f.b = (float *)host(b_count, 4);
    for (int i = 0; i < m * k; i++) {
        f.a[i] = type == S8 ? (float)((int)random_below(256) - 128) : small_number();
        store_element(a, (size_t)(a_rows ? i : i % k * m + i / k), type, f.a[i]);
    }
    for (int i = 0; i < k * n; i++) {
        f.b[i] = type == S8 ? (float)((int)random_below(256) - 128) : small_number();
        store_element(b, (size_t)(b_rows ? i : i % n * k + i / n), type, f.b[i]);
    }
    f.da = put(p, a, a_count * bytes);
    f.db = put(p, b, b_count * bytes);
    free(a);
    free(b);
    return f;
}

static double factor_sum(const struct factors *f, int y, int x)
{
    double sum = 0;
    for (int i = 0; i < f->k; i++)
        sum += (double)f->a[y * f->k + i] * (double)f->b[i * f->n + x];
    return sum;
}

static void free_factors(struct factors *f)
{
    free(f->a);
    free(f->b);
}

/* Checks that C, of f32 and row-major, is exact. */
static void check_product(struct program *p, const char *kernel, struct factors *f, struct shape grid,
                          struct shape block, double scale)
{
    size_t count = (size_t)(f->m * f->n);
    float *c = (float *)host(count, 4);
    uint64_t dc = buffer(p, count * 4);
    launch(p, kernel, grid, block, 0, ARGS(&f->da, &f->db, &dc, &f->n, &f->k));
    get(p, c, dc, count * 4);
    for (int i = 0; i < f->m * f->n; i++)
        near_double(p, kernel, (size_t)i, (double)c[i], scale * factor_sum(f, i / f->n, i % f->n), 0, 0);
    free(c);
    free_factors(f);
}

static void check_wmma_shared(struct program *p)
{
    struct factors f = make_factors(p, 64, 24, 48, F16, true, true);
    size_t count = 64 * 24;
    uint16_t *c = (uint16_t *)host(count, 2);
    for (size_t i = 0; i < count; i++)
        c[i] = f16_of((double)(int)(i % 7) - 3);
    uint64_t dc = put(p, c, count * 2);
    launch(p, "wmma_f16_shared", SHAPE(3, 2), SHAPE(32), 0, ARGS(&f.da, &f.db, &dc, &f.n, &f.k));
    get(p, c, dc, count * 2);
    for (size_t i = 0; i < count; i++)
        near_double(p, "wmma_f16_shared", i, (double)of_f16(c[i]),
                    (double)(int)(i % 7) - 3 + factor_sum(&f, (int)i / 24, (int)i % 24), 0, 0);
    free(c);
    free_factors(&f);
}

static void check_wmma_s8(struct program *p)
{
    enum { N = 48 };
    struct factors f = make_factors(p, N, N, 64, S8, true, false);
    int *c = (int *)host(N * N, 4);
    uint64_t dc = buffer(p, N * N * 4);
    launch(p, "wmma_s8", SHAPE(N / 16, N / 16), SHAPE(32), 0, ARGS(&f.da, &f.db, &dc, &f.n, &f.k));
    get(p, c, dc, N * N * 4);
    for (int i = 0; i < N * N; i++) /* stored column by column */
        assert_int_equal(c[i % N * N + i / N], (int)factor_sum(&f, i / N, i % N));
    free(c);
    free_factors(&f);
}

static void check_wmma_f64(struct program *p)
{
    enum { M = 16, N = 24 };
    struct factors f = make_factors(p, M, N, 32, F64, true, true);
    double c[M * N];
    uint64_t dc = buffer(p, sizeof c);
    launch(p, "wmma_f64", SHAPE(N / 8, M / 8), SHAPE(32), 0, ARGS(&f.da, &f.db, &dc, &f.n, &f.k));
    get(p, c, dc, sizeof c);
    for (int i = 0; i < M * N; i++)
        near_double(p, "wmma_f64", (size_t)i, c[i], factor_sum(&f, i / N, i % N), 0, 0);
    free_factors(&f);
}

static void check_matmul_wmma(struct program *p)
{
    struct factors f = make_factors(p, 32, 48, 64, F16, true, false);
    check_product(p, "wmma_f16", &f, SHAPE(3), SHAPE(64), 2);
    check_wmma_shared(p);
    check_wmma_s8(p);
    if (p->sm < 80)
        return;
    f = make_factors(p, 32, 48, 64, BF16, false, true);
    check_product(p, "wmma_bf16", &f, SHAPE(3, 2), SHAPE(32), 1);
    f = make_factors(p, 32, 48, 24, F32, true, true);
    check_product(p, "wmma_tf32", &f, SHAPE(3, 2), SHAPE(32), 1);
    check_wmma_f64(p);
}

static void check_matmul_mma(struct program *p)
{
    struct factors f = make_factors(p, 128, 64, 160, F16, true, true);
    check_product(p, "matmul_mma", &f, SHAPE(1, 2), SHAPE(128), 1);
}
#endif
