/* norm.c - RMSNorm against double precision: vectors of every number of threads, heads, strides, in place and apart. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/norm/inspect.h"
#include "tests/check/region.h"
#include "tools/problem/random.h"

/* ---- cases -------------------------------------------------------------------------------------------- */
typedef struct norm_case {
    int32_t  rows, heads, columns;
    uint32_t options;
    bool     in_place; /* y is x */
    bool     gaps;     /* x and r have gaps, and heads come before rows in y */
    bool     quick;
} norm_case;

/* 2^share threads have a vector: 1 for 8 and 16 columns, 32 for 520, 64 for 1032, all of a block from 4104 on. */
static const norm_case cases[] = {
    {1, 1, 4096, 0, false, false, true},
    {5, 3, 128, PTXPACK_NORM_ONE_PLUS_WEIGHT, true, false, true},
    {7, 3, 64, 0, false, true, false},
    {3, 1, 8, 0, false, false, false},
    {1100, 1, 16, PTXPACK_NORM_RESIDUAL, false, false, false},
    {19, 1, 520, PTXPACK_NORM_RESIDUAL, true, false, true},
    {9, 2, 1032, PTXPACK_NORM_RESIDUAL | PTXPACK_NORM_ONE_PLUS_WEIGHT, false, true, true},
    {3, 1, 5120, PTXPACK_NORM_RESIDUAL, false, false, false},
    {2, 1, 8200, 0, true, false, false},
    {3, 1, 8192, PTXPACK_NORM_ONE_PLUS_WEIGHT, false, false, true},
    {2, 1, 16384, PTXPACK_NORM_RESIDUAL, false, false, true},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static void name_case(const norm_case *m, ptxpack_dtype dtype, const char *row, char name[160])
{
    snprintf(name, 160, "norm %s %dx%dx%d%s%s%s%s %s", ptxpack_dtype_name(dtype), (int)m->rows, (int)m->heads,
             (int)m->columns, (m->options & PTXPACK_NORM_RESIDUAL) != 0 ? " residual" : "",
             (m->options & PTXPACK_NORM_ONE_PLUS_WEIGHT) != 0 ? " one plus" : "", m->gaps ? " gaps" : "",
             m->in_place ? " in place" : "", row);
}

static ptxpack_norm_desc desc_of(const norm_case *m, ptxpack_dtype dtype)
{
    const int64_t     wide = m->columns + 8;
    ptxpack_norm_desc d = {.size = sizeof d,
                           .dtype = dtype,
                           .rows = m->rows,
                           .heads = m->heads,
                           .columns = m->columns,
                           .options = m->options,
                           .eps = 1e-5f};
    if (m->gaps) {
        d.x = (ptxpack_norm_strides){m->heads * wide + 16, wide};
        d.r = (ptxpack_norm_strides){m->heads * wide, wide};
        d.y = (ptxpack_norm_strides){wide, m->rows * wide};
    }
    return d;
}

/* ---- data --------------------------------------------------------------------------------------------- */
enum { X, W, R, OUT, REGIONS };

typedef struct norm_run {
    ptxpack_norm_desc  desc;
    norm_geometry      geometry;
    ptxpack_norm_plan *plan;
    check_region       region[REGIONS];
    check_region      *y; /* OUT or X */
    double            *want_y, *want_r;
    char               line[256];
} norm_run;

/* The first row's elements are about 1; each other one has a scale of its own, and one is zeros. */
static void fill_vectors(const norm_run *r, int tensor, random_state *random, uint8_t *to)
{
    const ptxpack_norm_desc *d = &r->desc;
    const int64_t           *stride = r->geometry.tensor[tensor].stride;
    for (int64_t i = 0; i < (int64_t)d->rows * d->heads; i++) {
        uint8_t *at = to + i / d->heads * stride[MEMORY_ROW] + i % d->heads * stride[MEMORY_HEAD];
        float    scale = i % 5 == 4 ? 0 : (float)(1 << (i % 5 * 2)) / (1 << (i % 3 * 3));
        random_normal(random, d->dtype, at, (size_t)d->columns);
        for (int64_t c = 0; c < d->columns; c++)
            ptxpack_set_element(d->dtype, at, (size_t)c, ptxpack_element(d->dtype, at, (size_t)c) * scale);
    }
}

static bool make_run(norm_run *r, const norm_case *m, ptxpack_dtype dtype, random_state random)
{
    r->desc = desc_of(m, dtype);
    if (norm_resolve(&r->desc, &r->geometry, r->line) != PTXPACK_OK)
        return false;
    const memory_tensor *t = r->geometry.tensor;
    snprintf(r->line, sizeof r->line, "no memory");
    if (!check_region_make(&r->region[X], (size_t)t[NORM_X].bytes, !m->in_place) ||
        !check_region_make(&r->region[W], (size_t)r->geometry.w_bytes, true) ||
        !check_region_make(&r->region[R], (size_t)t[NORM_R].bytes, false) ||
        !check_region_make(&r->region[OUT], m->in_place ? 0 : (size_t)t[NORM_Y].bytes, false))
        return false;
    r->y = &r->region[m->in_place ? X : OUT];
    r->want_y = (double *)calloc((size_t)t[NORM_Y].bytes / 2, sizeof(double));
    r->want_r = (double *)calloc((size_t)t[NORM_R].bytes / 2 + 1, sizeof(double));
    if (r->want_y == NULL || r->want_r == NULL)
        return false;
    void *x = check_region_fill(&r->region[X]), *w = check_region_fill(&r->region[W]);
    void *residual = check_region_fill(&r->region[R]);
    fill_vectors(r, NORM_X, &random, (uint8_t *)x);
    random_normal(&random, dtype, w, (size_t)m->columns);
    if (residual != NULL)
        fill_vectors(r, NORM_R, &random, (uint8_t *)residual);
    return ptxpack_norm_reference(&r->desc, x, w, residual, r->want_r, r->want_y) == PTXPACK_OK;
}

static void free_run(check *c, norm_run *r)
{
    for (int i = 0; i < REGIONS; i++)
        check_region_free(c, &r->region[i]);
    ptxpack_norm_plan_free(r->plan);
    free(r->want_y);
    free(r->want_r);
}

/* ---- a launch and its judgement ----------------------------------------------------------------------- */
static bool launch(check *c, norm_run *r)
{
    bool ok = true;
    for (int i = 0; i < REGIONS && ok; i++)
        ok = check_region_upload(c, &r->region[i]);
    const ptxpack_norm_buffers b = {.size = sizeof b,
                                    .x = check_region_at(&r->region[X]),
                                    .w = check_region_at(&r->region[W]),
                                    .r = check_region_at(&r->region[R]),
                                    .y = check_region_at(r->y)};
    ok = ok && device_status(&c->gpu, ptxpack_norm(r->plan, &b, c->gpu.stream));
    for (int i = 0; i < REGIONS && ok; i++)
        ok = check_region_download(c, &r->region[i]);
    return ok;
}

/* Judges tensor `tensor`, which is in `region`: rounded once from f32, whose errors are `slack` of a value; and nothing
 * around its elements was written. */
static bool judge_tensor(norm_run *r, int tensor, const check_region *region, const double *want, double slack)
{
    const ptxpack_norm_desc *d = &r->desc;
    const int64_t           *stride = r->geometry.tensor[tensor].stride;
    const double             unit = d->dtype == PTXPACK_F16 ? 0x1p-11 : 0x1p-8;
    int64_t                  place;
    bool                    *may_change = (bool *)calloc(region->bytes + 1, sizeof(bool));
    bool                     ok = may_change != NULL;
    for (int64_t i = 0; i < (int64_t)d->rows * d->heads && ok; i++) {
        const int64_t at = i / d->heads * stride[MEMORY_ROW] + i % d->heads * stride[MEMORY_HEAD];
        for (int64_t c = 0; c < d->columns && ok; c++) {
            double got = ptxpack_element(d->dtype, region->after + CHECK_GUARD + at, (size_t)c);
            double expected = want[at / 2 + c];
            may_change[at + 2 * c] = may_change[at + 2 * c + 1] = true;
            ok = fabs(got - expected) <= (unit + slack) * fabs(expected) + (slack > 0 ? 0x1p-25 : 0);
            if (!ok)
                snprintf(r->line, sizeof r->line, "%c[%d][%d][%d] is %.9g, not %.9g",
                         tensor == NORM_R ? 'r' : 'y', (int)(i / d->heads), (int)(i % d->heads), (int)c, got,
                         expected);
        }
    }
    if (ok && check_region_changed(region, may_change, &place)) {
        snprintf(r->line, sizeof r->line, "byte %lld of %c, which is none of its elements, was written",
                 (long long)place, tensor == NORM_R ? 'r' : 'y');
        ok = false;
    }
    free(may_change);
    return ok;
}

/* The residual is exact: the reference rounds it as the kernel does. */
static const char *judge(norm_run *r)
{
    return judge_tensor(r, NORM_Y, r->y, r->want_y, 4e-6) &&
                   (r->region[R].bytes == 0 || judge_tensor(r, NORM_R, &r->region[R], r->want_r, -0x1p-12))
               ? NULL
               : r->line;
}

/* A second launch must give the same bits. */
static bool run_twice(check *c, norm_run *r, const char **what)
{
    const size_t bytes = r->y->bytes;
    uint8_t     *first = (uint8_t *)malloc(bytes);
    bool         ok = first != NULL && launch(c, r);
    if (ok) {
        memcpy(first, r->y->after + CHECK_GUARD, bytes);
        ok = launch(c, r);
    }
    if (ok)
        *what = memcmp(first, r->y->after + CHECK_GUARD, bytes) != 0 ? "a second run gave other bits"
                                                                     : judge(r);
    free(first);
    return ok;
}

static void run_case(check *c, const norm_case *m, const ptxpack_variant *row, ptxpack_dtype dtype,
                     const char *name, random_state random)
{
    norm_run    r = {.plan = NULL};
    const char *what = NULL;
    if (!make_run(&r, m, dtype, random))
        check_broken(c, name, r.line);
    else if (ptxpack_norm_plan_row(c->gpu.handle, &r.desc, row, &r.plan) != PTXPACK_OK)
        check_broken(c, name, ptxpack_detail(c->gpu.handle));
    else if (!run_twice(c, &r, &what))
        check_broken(c, name, c->gpu.line);
    else
        check_record(c, name, what);
    free_run(c, &r);
}

/* tests/host/norm/norm.c says of which columns that must be. */
static bool row_takes(const check *c, const ptxpack_variant *row, const norm_case *m, ptxpack_dtype dtype)
{
    const ptxpack_norm_desc d = desc_of(m, dtype);
    char                    why[PLAN_LINE];
    return plan_row_refusal(&norm_op, c->gpu.handle, NULL, &d, row, why) == NULL;
}

void check_norm(check *c)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    for (size_t i = 0; i < count; i++)
        for (int k = 0; k < 2 * CASES && !atomic_load(&c->broken); k++) {
            const norm_case *m = &cases[k / 2];
            ptxpack_dtype    dtype = k % 2 == 0 ? PTXPACK_F16 : PTXPACK_BF16;
            char             name[160];
            name_case(m, dtype, rows[i].id, name);
            if (check_row_runs(c, &rows[i], "norm", dtype) && row_takes(c, &rows[i], m, dtype) &&
                check_case_runs(c, name, m->quick))
                run_case(c, m, &rows[i], dtype, name, random_start(c->seed + (uint64_t)k));
        }
}
