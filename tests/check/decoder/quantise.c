/* quantise.c - rounding to e4m3 and the way back against the CPU, bit for bit: rows and blocks of every number of threads, strides, and
 * rows of zeros, NaN, infinities, the smallest and the largest numbers. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "host/quantise/inspect.h"
#include "tests/check/region.h"
#include "tools/problem/random.h"

/* ---- cases -------------------------------------------------------------------------------------------- */
typedef struct quantise_case {
    int32_t  rows, columns;
    uint32_t options;
    bool     gaps; /* between the rows of x and of codes */
    bool     quick;
} quantise_case;

/* 2^share threads have a row: 1 up to 32 columns, 32 of 1024, 64 of 1040, all of a block from 8208 on. */
static const quantise_case cases[] = {
    {600, 16, 0, false, false},
    {11, 48, PTXPACK_QUANTISE_POWERS, true, true},
    {11, 1024, 0, true, false},
    {11, 1040, PTXPACK_QUANTISE_POWERS, false, true},
    {2, 8208, 0, true, false},
    {2, 32768, PTXPACK_QUANTISE_POWERS, false, false},
    {1, 16, PTXPACK_QUANTISE_BLOCKS, false, false},
    {11, 144, PTXPACK_QUANTISE_BLOCKS, true, true},
    {3, 2048, PTXPACK_QUANTISE_BLOCKS | PTXPACK_QUANTISE_POWERS, false, false},
};
enum { CASES = sizeof cases / sizeof cases[0], X = 0, CODES, SCALES, REGIONS };

typedef struct quantise_run {
    ptxpack_quantise_desc    desc;
    quantise_geometry        geometry;
    bool                     back;
    ptxpack_quantise_plan   *plan;
    ptxpack_dequantise_plan *plan_back;
    check_region             region[REGIONS];
    char                     line[256];
} quantise_run;

/* ---- data --------------------------------------------------------------------------------------------- */
/* A kind of row after another: plain, of another scale, zeros, the largest element is that of a power of two, a NaN among the
 * others, the smallest numbers, an infinity, the largest numbers, nothing but NaN. */
static void fill_row(ptxpack_dtype dtype, int64_t row, random_state *random, uint16_t *x, int32_t columns)
{
    enum { PLAIN, OTHER, ZEROS, EXACT, ONE_NAN, SMALL, INFINITE, LARGE, NANS, KINDS };
    const int     kind = (int)(row % KINDS);
    const int32_t place = (int32_t)random_below(random, (uint64_t)columns);
    const float   large = dtype == PTXPACK_F16 ? 0x1.ffcp15f : 0x1.fep127f;
    random_normal(random, dtype, x, (size_t)columns);
    for (int32_t c = 0; c < columns; c++) {
        const float value = ptxpack_to_float(dtype, x[c]);
        if (kind == OTHER || kind == ZEROS || kind == EXACT)
            x[c] = ptxpack_from_float(dtype, kind == ZEROS ? 0 * value : value * 0x1p-7f);
        if (kind == SMALL)
            x[c] &= 0x8003;
        if (kind == LARGE)
            x[c] = ptxpack_from_float(dtype, fminf(fabsf(value), 1) * large);
        if (kind == NANS)
            x[c] |= 0x7fff;
    }
    if (kind == EXACT)
        x[place] = ptxpack_from_float(dtype, -448 * 0x1p-10f);
    if (kind == ONE_NAN)
        x[place] = 0xffff;
    if (kind == INFINITE)
        x[place] = ptxpack_from_float(dtype, -INFINITY);
}

/* For the way back: every code, and scales of all kinds. */
static void fill_codes(const quantise_run *r, random_state *random, uint8_t *codes, float *scales)
{
    static const float odd[] = {1, 0x1p-126f, 0x1p120f, INFINITY, 0, -3, 0x1p-20f, NAN};
    for (int32_t row = 0; row < r->desc.rows; row++)
        for (int32_t c = 0; c < r->desc.columns; c++)
            codes[row * r->geometry.codes.stride[MEMORY_ROW] + c] = (uint8_t)random_below(random, 256);
    random_scales(random, scales, r->geometry.scale_bytes / sizeof *scales);
    for (size_t i = 0; i < r->geometry.scale_bytes / sizeof *scales; i += 2)
        scales[i] = odd[i / 2 % (sizeof odd / sizeof odd[0])];
}

static bool make_run(quantise_run *r, const quantise_case *m, ptxpack_dtype dtype, bool back,
                     random_state random)
{
    r->desc = (ptxpack_quantise_desc){.size = sizeof r->desc,
                                      .dtype = dtype,
                                      .rows = m->rows,
                                      .columns = m->columns,
                                      .options = m->options,
                                      .stride_x = m->gaps ? m->columns + 8 : 0,
                                      .stride_codes = m->gaps ? m->columns + 48 : 0};
    r->back = back;
    if (quantise_resolve(&r->desc, &r->geometry, r->line) != PTXPACK_OK)
        return false;
    snprintf(r->line, sizeof r->line, "no memory");
    if (!check_region_make(&r->region[X], (size_t)r->geometry.x.bytes, !back) ||
        !check_region_make(&r->region[CODES], (size_t)r->geometry.codes.bytes, back) ||
        !check_region_make(&r->region[SCALES], (size_t)r->geometry.scale_bytes, back))
        return false;
    uint8_t *x = (uint8_t *)check_region_fill(&r->region[X]);
    if (back)
        fill_codes(r, &random, (uint8_t *)check_region_fill(&r->region[CODES]),
                   (float *)check_region_fill(&r->region[SCALES]));
    for (int32_t row = 0; row < m->rows && !back; row++)
        fill_row(dtype, row, &random, (uint16_t *)(void *)(x + row * r->geometry.x.stride[MEMORY_ROW]),
                 m->columns);
    return true;
}

/* ---- a launch and its judgement ----------------------------------------------------------------------- */
static bool launch(check *c, quantise_run *r)
{
    bool ok = true;
    for (int i = 0; i < REGIONS && ok; i++)
        ok = check_region_upload(c, &r->region[i]);
    const ptxpack_quantise_buffers b = {.size = sizeof b,
                                        .x = check_region_at(&r->region[X]),
                                        .codes = check_region_at(&r->region[CODES]),
                                        .scales = check_region_at(&r->region[SCALES])};
    ok = ok && device_status(&c->gpu, r->back ? ptxpack_dequantise(r->plan_back, &b, c->gpu.stream)
                                              : ptxpack_quantise(r->plan, &b, c->gpu.stream));
    for (int i = 0; i < REGIONS && ok; i++)
        ok = check_region_download(c, &r->region[i]);
    return ok;
}

/* Puts what is expected in place of what was before the launch: then nothing may have changed. */
static const char *judge(quantise_run *r)
{
    static const char *const names[REGIONS] = {"x", "codes", "scales"};
    void                    *at[REGIONS];
    int64_t                  place;
    for (int i = 0; i < REGIONS; i++)
        at[i] = check_region_fill(&r->region[i]);
    ptxpack_status status = r->back
                                ? ptxpack_dequantise_reference(&r->desc, at[CODES], (const float *)at[SCALES],
                                                               at[X])
                                : ptxpack_quantise_reference(&r->desc, at[X], at[CODES], (float *)at[SCALES]);
    if (status != PTXPACK_OK)
        return ptxpack_detail(NULL);
    for (int i = 0; i < REGIONS; i++)
        if (check_region_changed(&r->region[i], NULL, &place)) {
            snprintf(r->line, sizeof r->line, "byte %lld of %s is not what it must be", (long long)place,
                     names[i]);
            return r->line;
        }
    return NULL;
}

static void run_case(check *c, const quantise_case *m, const ptxpack_variant *row, ptxpack_dtype dtype,
                     const char *name, random_state random)
{
    quantise_run r = {.plan = NULL};
    const bool   back = strcmp(row->op, "dequantise") == 0;
    if (!make_run(&r, m, dtype, back, random))
        check_broken(c, name, r.line);
    else if ((back ? ptxpack_dequantise_plan_row(c->gpu.handle, &r.desc, row, &r.plan_back)
                   : ptxpack_quantise_plan_row(c->gpu.handle, &r.desc, row, &r.plan)) != PTXPACK_OK)
        check_broken(c, name, ptxpack_detail(c->gpu.handle));
    else if (!launch(c, &r))
        check_broken(c, name, c->gpu.line);
    else
        check_record(c, name, judge(&r));
    for (int i = 0; i < REGIONS; i++)
        check_region_free(c, &r.region[i]);
    ptxpack_quantise_plan_free(r.plan);
    ptxpack_dequantise_plan_free(r.plan_back);
}

void check_quantise(check *c)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    for (size_t i = 0; i < count; i++)
        for (int k = 0; k < 2 * CASES && !atomic_load(&c->broken); k++) {
            const quantise_case *m = &cases[k / 2];
            const ptxpack_dtype  dtype = k % 2 == 0 ? PTXPACK_F16 : PTXPACK_BF16;
            char                 name[160];
            snprintf(name, sizeof name, "%s %s %dx%d%s%s%s %s", rows[i].op, ptxpack_dtype_name(dtype),
                     (int)m->rows, (int)m->columns,
                     (m->options & PTXPACK_QUANTISE_BLOCKS) != 0 ? " blocks" : "",
                     (m->options & PTXPACK_QUANTISE_POWERS) != 0 ? " powers" : "", m->gaps ? " gaps" : "",
                     rows[i].id);
            if ((check_row_runs(c, &rows[i], "quantise", dtype) ||
                 check_row_runs(c, &rows[i], "dequantise", dtype)) &&
                check_case_runs(c, name, m->quick))
                run_case(c, m, &rows[i], dtype, name, random_start(c->seed + (uint64_t)k));
        }
}
