/* vector.c - vector_add against exact arithmetic: every length around a block, every alias. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "tools/problem/random.h"
#include "host/vector/inspect.h"
#include "host/scalars.h"

enum { LENGTHS = 22, ALIASES = 3 };
static const uint64_t    lengths[LENGTHS] = {0,    1,    2,     7,     8,     9,     15,   16,
                                             17,   255,  256,   2047,  2048,  2049,  4095, 4096,
                                             4097, 4103, 12345, 65535, 65536, 100003};
static const char *const alias_names[ALIASES] = {"", " z=x", " z=y"};

static double widen(ptxpack_dtype type, uint16_t bits) { return ptxpack_to_float(type, bits); }

/* z must be fma(a, x, fma(b, y, c)), each rounded; zeros of either sign are equal. */
static bool right(ptxpack_dtype type, double a, double x, double b, double y, double c, uint16_t z)
{
    double want = widen(type, reference_round(type, a * x + widen(type, reference_round(type, b * y + c))));
    return want == widen(type, z) || (isnan(want) && isnan(widen(type, z)));
}

/* Makes random numbers with every kind of special value among them. */
static void fill(random_state *random, ptxpack_dtype type, uint16_t *out, size_t n)
{
    static const float special[] = {0.0f, -0.0f, 1.0f, -1.0f, 65504.0f, 6.1e-5f, 6e-8f, -6e-8f};
    random_normal(random, type, out, n);
    for (size_t i = 0; i < n; i += 1 + random_below(random, 64))
        out[i] = ptxpack_from_float(type, special[random_below(random, sizeof special / sizeof special[0])]);
}

typedef struct vector_run {
    const ptxpack_vector_plan *plan;
    ptxpack_dtype              dtype;
    uint64_t                   n;
    int                        alias; /* where z lies: 0 apart, 1 in x, 2 in y */
    float                      a, b, c;
} vector_run;

/* Launches with each vector between guards; out receives the whole region of z. */
static bool launch(check *c, const vector_run *r, check_buffer buffers[3], const uint16_t *x, const uint16_t *y,
                   uint16_t *out)
{
    size_t   bytes = r->n * sizeof(uint16_t), region = bytes + 2 * CHECK_GUARD;
    uint64_t at[3];
    for (int i = 0; i < 3; i++) {
        if (!check_reserve(c, &buffers[i], region) ||
            !device_try(&c->gpu,
                        c->gpu.driver->cuMemsetD8Async(buffers[i].address, 0xff, region, c->gpu.stream),
                        "cuMemsetD8Async"))
            return false;
        at[i] = buffers[i].address + CHECK_GUARD;
    }
    if (bytes > 0 && (!device_upload(&c->gpu, at[0], x, bytes) || !device_upload(&c->gpu, at[1], y, bytes)))
        return false;
    int z = r->alias == 0 ? 2 : r->alias - 1;
    return device_status(&c->gpu, ptxpack_vector_add(r->plan, at[z], at[0], at[1], r->a, r->b, r->c, r->n,
                                                     c->gpu.stream)) &&
           device_download(&c->gpu, out, buffers[z].address, region);
}

/* Returns NULL, or what is wrong, in `what`. */
static const char *judge(const vector_run *r, const uint16_t *x, const uint16_t *y, const uint16_t *out,
                         char what[160])
{
    enum { GUARD = CHECK_GUARD / sizeof(uint16_t) };
    double a = widen(r->dtype, ptxpack_from_float(r->dtype, r->a));
    double b = widen(r->dtype, ptxpack_from_float(r->dtype, r->b));
    double c = widen(r->dtype, ptxpack_from_float(r->dtype, r->c));
    for (size_t i = 0; i < GUARD; i++)
        if (out[i] != 0xffff || out[GUARD + r->n + i] != 0xffff) {
            snprintf(what, 160, "guard bytes %s z were written", out[i] != 0xffff ? "before" : "after");
            return what;
        }
    for (size_t i = 0; i < r->n; i++) {
        double xi = widen(r->dtype, x[i]), yi = widen(r->dtype, y[i]);
        if (!right(r->dtype, a, xi, b, yi, c, out[GUARD + i])) {
            snprintf(what, 160, "z[%zu] is %g for x %g, y %g; a x + b y + c is %g", i,
                     widen(r->dtype, out[GUARD + i]), xi, yi, a * xi + b * yi + c);
            return what;
        }
    }
    return NULL;
}

static void run_case(check *c, const vector_run *r, const char *name, random_state random)
{
    size_t       region = r->n * sizeof(uint16_t) + 2 * CHECK_GUARD;
    check_buffer buffers[3] = {{0, 0}, {0, 0}, {0, 0}};
    uint16_t    *x = (uint16_t *)malloc(region), *y = (uint16_t *)malloc(region);
    uint16_t    *first = (uint16_t *)malloc(region), *second = (uint16_t *)malloc(region);
    char         what[160];
    if (x == NULL || y == NULL || first == NULL || second == NULL) {
        check_broken(c, name, "no memory");
    } else {
        fill(&random, r->dtype, x, r->n);
        fill(&random, r->dtype, y, r->n);
        if (!launch(c, r, buffers, x, y, first) || !launch(c, r, buffers, x, y, second))
            check_broken(c, name, c->gpu.line);
        else if (memcmp(first, second, region) != 0)
            check_record(c, name, "a second run gave other bits");
        else
            check_record(c, name, judge(r, x, y, first, what));
    }
    for (int i = 0; i < 3; i++)
        device_free(&c->gpu, buffers[i].address);
    free(x);
    free(y);
    free(first);
    free(second);
}

/* Runs all lengths and aliases of one row and type. */
static void run_row(check *c, const ptxpack_variant *row, ptxpack_dtype dtype)
{
    ptxpack_vector_plan *plan = NULL;
    for (int i = 0; i < LENGTHS; i++)
        for (int alias = 0; alias < ALIASES && !atomic_load(&c->broken); alias++) {
            char       name[128];
            vector_run r = {.dtype = dtype, .n = lengths[i], .alias = alias, .a = 1.5f, .b = -0.3f, .c = 0.7f};
            snprintf(name, sizeof name, "vector_add %s n=%llu%s %s", ptxpack_dtype_name(dtype),
                     (unsigned long long)r.n, alias_names[alias], row->id);
            if (!check_case_runs(c, name, i % 4 == 1))
                continue;
            if (plan == NULL && ptxpack_vector_plan_row(c->gpu.handle, dtype, row, &plan) != PTXPACK_OK) {
                check_broken(c, name, ptxpack_detail(c->gpu.handle));
                return;
            }
            r.plan = plan;
            run_case(c, &r, name, random_start(c->seed + (uint64_t)(i * ALIASES + alias)));
        }
    ptxpack_vector_plan_free(plan);
}

void check_vector(check *c)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    for (size_t i = 0; i < count; i++)
        for (int k = 0; k < 2; k++) {
            const ptxpack_dtype dtype = k == 0 ? PTXPACK_F16 : PTXPACK_BF16;
            if (check_row_runs(c, &rows[i], "vector_add", dtype))
                run_row(c, &rows[i], dtype);
        }
}
