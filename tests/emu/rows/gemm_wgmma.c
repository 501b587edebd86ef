/* gemm_wgmma.c - every row of ptx/gemm/wgmma.ptx, wgmma_fit.ptx, wgmma_parts.ptx and wgmma_fp8.ptx on the emulated GPU: problems of random
 * extents, orders, strides, batches and epilogues run twice on six SMs, so that a cluster has several tiles, some of which lie
 * beyond the matrix.  The emulated driver finds waits that never end, and races; every element is verified, and
 * the bytes between the elements of D must not change.  Also, one block of ptx/gemm/mma.ptx runs on lines of
 * more than 2^30 elements.
 *
 *   gemm_wgmma [SEED [PROBLEMS a row [ROW]]] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tools/device.h"
#include "host/gemm/inspect.h"
#include "tools/problem/random.h"

enum { PROBLEMS = 6, ELEMENT = 2, GUARD = 0x5a };

typedef struct problem {
    ptxpack_gemm_desc    desc;
    gemm_geometry        geometry;
    ptxpack_gemm_buffers at;
    uint8_t             *matrix[GEMM_MATRICES];
    uint16_t            *bias;
    float               *scale[2]; /* of A, of B */
} problem;

static ptxpack_dtype type_of(const problem *p, int matrix) { return gemm_type(&p->desc, matrix); }

static int32_t pick(random_state *random, int32_t least, int32_t most)
{
    return least + (int32_t)random_below(random, (uint64_t)(most - least + 1));
}

/* ---- problems ----------------------------------------------------------------------------------------- */
/* Draws strides with room after each line, so that any extent is valid; now and then all batches share a
 * matrix. */
static void draw(random_state *random, problem *p, const ptxpack_variant *row)
{
    int32_t            m = (int32_t)ptxpack_variant_parameter(row, "BLOCK_M", 0);
    int32_t            n = (int32_t)ptxpack_variant_parameter(row, "BLOCK_N", 0);
    ptxpack_gemm_desc *d = &p->desc;
    *d = (ptxpack_gemm_desc){.size = sizeof *d,
                             .dtype = pick(random, 0, 1) != 0 ? PTXPACK_BF16 : PTXPACK_F16,
                             .m = pick(random, 1, 4 * m),
                             .n = pick(random, 1, 2 * n),
                             .k = pick(random, 0, 9) == 0 ? 0 : pick(random, 1, 400),
                             .batch = pick(random, 1, 2),
                             .order_a = (ptxpack_order)pick(random, 0, 1),
                             .order_b = (ptxpack_order)pick(random, 0, 1),
                             .has_c = pick(random, 0, 1) != 0,
                             .has_bias = pick(random, 0, 1) != 0,
                             .activation = (ptxpack_activation)pick(random, 0, 3)};
    if (plan_method_of(row) == &gemm_wgmma_fp8) {
        d->dtype_ab = PTXPACK_E4M3;
        d->scales = (ptxpack_gemm_scales)pick(random, 0, 2);
        d->order_a = PTXPACK_ROW_MAJOR;
        d->order_b = PTXPACK_COLUMN_MAJOR;
        d->k += d->k == 0;
    }
    if (plan_method_of(row) == &gemm_wgmma_fit || (plan_method_of(row) == &gemm_wgmma_parts && n % 64 != 0)) {
        d->has_c = false;
        d->order_a = PTXPACK_ROW_MAJOR;
        d->order_b = PTXPACK_COLUMN_MAJOR;
    }
    if (plan_method_of(row) == &gemm_wgmma_parts) {
        d->has_c = false;
        if (pick(random, 0, 3) != 0) { /* a k that is worth cutting, and sometimes whole tiles, too */
            d->m = pick(random, 1, 2 * m);
            d->n = pick(random, 1, n / 2);
            d->k = pick(random, 2000, 3500);
        }
    }
    if (d->dtype_ab != 0 || pick(random, 0, 1) != 0) /* D by TMA; otherwise by ordinary stores */
        d->n = (d->n + 7) / 8 * 8;
    const int64_t unit = d->dtype_ab != 0 ? 16 : 8;
    int64_t       a = d->order_a == PTXPACK_ROW_MAJOR ? d->k : d->m;
    int64_t       b = d->order_b == PTXPACK_ROW_MAJOR ? d->n : d->k;
    d->stride_a = (a / unit + 2) * unit;
    d->stride_b = (b / unit + 1) * unit;
    d->stride_c = d->n / 8 * 8 + 24;
    d->stride_d = d->n / 8 * 8 + 8;
    d->batch_a = pick(random, 0, 2) == 0 ? -1 : (d->order_a == PTXPACK_ROW_MAJOR ? d->m : d->k) * d->stride_a;
    d->batch_b = (d->order_b == PTXPACK_ROW_MAJOR ? d->k : d->n) * d->stride_b;
    d->batch_c = pick(random, 0, 2) == 0 ? -1 : d->m * d->stride_c;
    d->batch_d = d->m * d->stride_d + 64;
    const uint32_t early = PTXPACK_LAUNCH_OVERLAP | PTXPACK_LAUNCH_CONSTANT_B;
    p->at = (ptxpack_gemm_buffers){.size = sizeof p->at,
                                   .alpha = 0.5f,
                                   .beta = -1.5f,
                                   .launch = pick(random, 0, 1) != 0 ? early : 0};
}

static bool fill(device *dev, random_state *random, problem *p)
{
    uint64_t *addresses[GEMM_MATRICES] = {&p->at.a, &p->at.b, &p->at.c, &p->at.d};
    bool      ok = true;
    for (int i = 0; i < GEMM_MATRICES && ok; i++) {
        size_t bytes = p->geometry.matrix[i].bytes;
        if (bytes == 0)
            continue;
        p->matrix[i] = (uint8_t *)malloc(bytes);
        ok = p->matrix[i] != NULL && device_alloc(dev, addresses[i], bytes);
        if (ok && i != GEMM_D)
            random_normal(random, type_of(p, i), p->matrix[i], bytes / (size_t)p->geometry.matrix[i].element);
        else if (ok)
            memset(p->matrix[i], GUARD, bytes);
        ok = ok && device_upload(dev, *addresses[i], p->matrix[i], bytes);
    }
    uint64_t *const scales[] = {&p->at.scale_a, &p->at.scale_b};
    for (int i = 0; i < 2 && ok && p->geometry.scale[i].bytes > 0; i++) {
        const size_t bytes = p->geometry.scale[i].bytes;
        p->scale[i] = (float *)malloc(bytes);
        ok = p->scale[i] != NULL && device_alloc(dev, scales[i], bytes);
        if (ok)
            random_scales(random, p->scale[i], bytes / sizeof(float));
        ok = ok && device_upload(dev, *scales[i], p->scale[i], bytes);
    }
    if (ok && p->desc.has_bias) {
        p->bias = (uint16_t *)malloc(p->geometry.bias_bytes);
        ok = p->bias != NULL && device_alloc(dev, &p->at.bias, p->geometry.bias_bytes);
        if (ok)
            random_normal(random, p->desc.dtype, p->bias, p->geometry.bias_bytes / ELEMENT);
        ok = ok && device_upload(dev, p->at.bias, p->bias, p->geometry.bias_bytes);
    }
    return ok;
}

static void release(device *dev, problem *p)
{
    const uint64_t addresses[] = {p->at.a,    p->at.b,         p->at.c,       p->at.d,
                                  p->at.bias, p->at.workspace, p->at.scale_a, p->at.scale_b};
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++)
        device_free(dev, addresses[i]);
    for (int i = 0; i < GEMM_MATRICES; i++)
        free(p->matrix[i]);
    free(p->scale[GEMM_A]);
    free(p->scale[GEMM_B]);
    free(p->bias);
}

static bool counters_are_zero(device *dev, uint64_t workspace, size_t bytes)
{
    uint8_t *counters = (uint8_t *)calloc(bytes + 1, 1);
    size_t   at = 0;
    bool     ok = counters != NULL && device_download(dev, counters, workspace, bytes);
    while (ok && at < bytes && counters[at] == 0)
        at++;
    if (ok && at < bytes)
        ok = (snprintf(dev->line, sizeof dev->line, "byte %zu of the counters is %d", at, counters[at]), false);
    free(counters);
    return ok;
}

/* Runs twice, on so many blocks if there are more: a launch must leave its workspace ready for the next. */
static bool run(device *dev, problem *p, const ptxpack_variant *row, uint32_t most_blocks)
{
    ptxpack_gemm_plan *plan = NULL;
    bool               ok = device_status(dev, ptxpack_gemm_plan_row(dev->handle, &p->desc, row, &plan)) &&
              device_alloc_zeros(dev, &p->at.workspace, ptxpack_gemm_workspace(plan));
    if (ok && plan->head.grid[0] > most_blocks)
        plan->head.grid[0] = most_blocks;
    for (int i = 0; i < 2 && ok; i++)
        ok = device_status(dev, ptxpack_gemm_launch(plan, &p->at, dev->stream)) && device_sync(dev) &&
             counters_are_zero(dev, p->at.workspace, plan->head.counters);
    ok = ok && device_download(dev, p->matrix[GEMM_D], p->at.d, p->geometry.matrix[GEMM_D].bytes);
    ptxpack_gemm_plan_free(plan);
    return ok;
}

/* ---- the right result --------------------------------------------------------------------------------- */
static double element(const problem *p, int matrix, bool column_major, int32_t batch, int64_t row,
                      int64_t column)
{
    const gemm_matrix *x = &p->geometry.matrix[matrix];
    int64_t            line = column_major ? column : row, along = column_major ? row : column;
    return (double)ptxpack_element(type_of(p, matrix), p->matrix[matrix],
                                   (size_t)(batch * x->batch + line * x->stride + along));
}

/* Of element `k` of line `line` of A or B, as gemm.h says it. */
static double scale(const problem *p, int matrix, int32_t batch, int64_t line, int64_t k)
{
    enum { BLOCK = 128 };
    const ptxpack_gemm_desc *d = &p->desc;
    const int64_t            blocks = (d->k + BLOCK - 1) / BLOCK, lines = matrix == GEMM_A ? d->m : d->n;
    const int64_t            which = (matrix == GEMM_A ? d->batch_a : d->batch_b) == -1 ? 0 : batch;
    if (d->dtype_ab == 0)
        return 1;
    if (d->scales == PTXPACK_SCALES_TENSOR)
        return (double)p->scale[matrix][0];
    if (d->scales == PTXPACK_SCALES_LINES)
        return (double)p->scale[matrix][which * lines + line];
    return matrix == GEMM_A
               ? (double)p->scale[matrix][(which * lines + line) * blocks + k / BLOCK]
               : (double)p->scale[matrix]
                                 [(which * ((lines + BLOCK - 1) / BLOCK) + line / BLOCK) * blocks + k / BLOCK];
}

static double activated(ptxpack_activation activation, double x)
{
    const double scale = 0.79788456080286535588; /* sqrt(2 / pi) */
    return activation == PTXPACK_ACTIVATION_RELU   ? (x > 0 ? x : 0)
           : activation == PTXPACK_ACTIVATION_GELU ? x / 2 * (1 + tanh(scale * (x + 0.044715 * x * x * x)))
           : activation == PTXPACK_ACTIVATION_SILU ? x / (1 + exp(-x))
                                                   : x;
}

/* The rows of A or the columns of B, each with its scales, one after another; the caller frees them. */
static double *scaled(const problem *p, int matrix, int32_t batch)
{
    const ptxpack_gemm_desc *d = &p->desc;
    const bool               of_a = matrix == GEMM_A;
    const bool               column_major = (of_a ? d->order_a : d->order_b) == PTXPACK_COLUMN_MAJOR;
    const int32_t            lines = of_a ? d->m : d->n;
    double                  *out = (double *)malloc(((size_t)lines * (size_t)d->k + 1) * sizeof *out);
    for (int32_t line = 0; out != NULL && line < lines; line++)
        for (int32_t k = 0; k < d->k; k++)
            out[(size_t)line * (size_t)d->k + (size_t)k] = element(p, matrix, column_major, batch,
                                                                   of_a ? line : k, of_a ? k : line) *
                                                           scale(p, matrix, batch, line, k);
    return out;
}

/* Allows half a unit of the type, the error of f32 sums, or of those of 128 products of e4m3, and that of tanh.approx.  `a` is the
 * row of A, `b` the column of B. */
static bool right(const problem *p, const double *a, const double *b, int32_t batch, int32_t row,
                  int32_t column, double *got, double *want, double *bound)
{
    const ptxpack_gemm_desc *d = &p->desc;
    double                   sum = 0, size = 0;
    for (int32_t k = 0; k < d->k; k++) {
        sum += a[k] * b[k];
        size += fabs(a[k] * b[k]);
    }
    double x = (double)p->at.alpha * sum;
    size *= fabs((double)p->at.alpha);
    const double cut = d->dtype_ab != 0 ? 0x1p-9 * size : 0;
    if (d->has_c) {
        double c = (double)p->at.beta * element(p, GEMM_C, false, batch, row, column);
        x += c;
        size += fabs(c);
    }
    if (d->has_bias) {
        double bias = (double)ptxpack_element(d->dtype, p->bias, (size_t)column);
        x += bias;
        size += fabs(bias);
    }
    *want = activated(d->activation, x);
    *got = element(p, GEMM_D, false, batch, row, column);
    *bound = fabs(*want) * (d->dtype == PTXPACK_BF16 ? 0x1.02p-8 : 0x1.02p-11) + 1e-6 * size + 0x1p-24 +
             1.13 * cut + (d->activation == PTXPACK_ACTIVATION_GELU ? 0x1p-11 * fabs(x) : 0);
    return fabs(*got - *want) <= *bound;
}

static bool batch_right(device *dev, const problem *p, const double *a, const double *b, int32_t batch,
                        size_t *at)
{
    const gemm_matrix *x = &p->geometry.matrix[GEMM_D];
    const size_t       k = (size_t)p->desc.k;
    double             got, want, bound;
    for (int32_t i = 0; i < p->desc.m; i++) {
        size_t line = (size_t)(batch * x->batch + i * x->stride);
        for (; *at < line; ++*at)
            if (((const uint16_t *)(const void *)p->matrix[GEMM_D])[*at] != GUARD * 0x101)
                return snprintf(dev->line, sizeof dev->line, "d: place %zu is not an element, but was written",
                                *at),
                       false;
        *at = line + (size_t)p->desc.n;
        for (int32_t j = 0; j < p->desc.n; j++)
            if (!right(p, a + (size_t)i * k, b + (size_t)j * k, batch, i, j, &got, &want, &bound))
                return snprintf(dev->line, sizeof dev->line,
                                "d[%d][%d][%d] is %.6g, not %.6g, off by %.3g of %.3g", batch, i, j, got, want,
                                got - want, bound),
                       false;
    }
    return true;
}

static bool all_right(device *dev, const problem *p)
{
    size_t at = 0;
    bool   good = true;
    for (int32_t batch = 0; good && batch < p->geometry.batch; batch++) {
        double *a = scaled(p, GEMM_A, batch), *b = scaled(p, GEMM_B, batch);
        good = a != NULL && b != NULL;
        if (!good)
            snprintf(dev->line, sizeof dev->line, "no memory");
        good = good && batch_right(dev, p, a, b, batch, &at);
        free(a);
        free(b);
    }
    return good;
}

/* ---- all rows ----------------------------------------------------------------------------------------- */
static void describe(const ptxpack_gemm_desc *d, uint32_t launch, const char *row, const char *why)
{
    fprintf(stderr,
            "%s, %s, %d x (%d x %d x %d), orders %c%c, strides %lld %lld %lld %lld, batches %lld %lld %lld "
            "%lld, c %d, bias %d, activation %d, launch %u: %s\n",
            row, ptxpack_dtype_name(d->dtype), d->batch, d->m, d->n, d->k,
            d->order_a != PTXPACK_ROW_MAJOR ? 'c' : 'r', d->order_b != PTXPACK_ROW_MAJOR ? 'c' : 'r',
            (long long)d->stride_a, (long long)d->stride_b, (long long)d->stride_c, (long long)d->stride_d,
            (long long)d->batch_a, (long long)d->batch_b, (long long)d->batch_c, (long long)d->batch_d,
            d->has_c, d->has_bias, (int)d->activation, (unsigned)launch, why);
}

static bool test_row(device *dev, const ptxpack_variant *row, random_state *random, int64_t problems)
{
    for (int64_t i = 0; i < problems; i++) {
        problem p;
        char    line[PLAN_LINE];
        memset(&p, 0, sizeof p);
        draw(random, &p, row);
        bool ok = ptxpack_gemm_resolve(&p.desc, &p.geometry, line) == PTXPACK_OK;
        if (!ok)
            snprintf(dev->line, sizeof dev->line, "%s", line);
        ok = ok && fill(dev, random, &p) && run(dev, &p, row, UINT32_MAX) && all_right(dev, &p);
        if (!ok)
            describe(&p.desc, p.at.launch, row->id, dev->line);
        release(dev, &p);
        if (!ok)
            return false;
    }
    return true;
}

/* ---- parts of a tile ---------------------------------------------------------------------------------- */
/* Tiles for so many SMs, which are cut into so many parts, as the cost of the row says. */
typedef struct parts_case {
    const char *id, *sms;
    int32_t     m, n, k, least, most;
} parts_case;

static bool test_parts(random_state *random, const parts_case *c)
{
    const ptxpack_variant *row = ptxpack_variant_find(c->id);
    device                 dev = {.handle = NULL};
    ptxpack_gemm_plan     *plan = NULL;
    char                   line[PLAN_LINE];
    problem                p = {.desc = {.size = sizeof p.desc,
                                         .dtype = PTXPACK_BF16,
                                         .m = c->m,
                                         .n = c->n,
                                         .k = c->k,
                                         .order_b = PTXPACK_COLUMN_MAJOR,
                                         .has_bias = true},
                                .at = {.size = sizeof p.at, .alpha = 1}};
    setenv("PTXPACK_EMU_SMS", c->sms, 1);
    bool ok = device_open_as(&dev, "emu", NULL) == PTXPACK_OK &&
              ptxpack_gemm_resolve(&p.desc, &p.geometry, line) == PTXPACK_OK &&
              device_status(&dev, ptxpack_gemm_plan_row(dev.handle, &p.desc, row, &plan));
    const int32_t parts = ok ? plan->arguments.wgmma_parts.tile_parts : 0;
    if (ok && (parts < c->least || parts > c->most))
        ok = (snprintf(dev.line, sizeof dev.line, "%d parts, not %d to %d", parts, c->least, c->most), false);
    ok = ok && fill(&dev, random, &p) && run(&dev, &p, row, UINT32_MAX) && all_right(&dev, &p);
    if (ok) { /* one after the other: no part may wait for one that there is no room for */
        memset(p.matrix[GEMM_D], GUARD, p.geometry.matrix[GEMM_D].bytes);
        device_free(&dev, p.at.workspace);
        ok = device_upload(&dev, p.at.d, p.matrix[GEMM_D], p.geometry.matrix[GEMM_D].bytes) &&
             run(&dev, &p, row, 1) && all_right(&dev, &p);
    }
    if (!ok)
        describe(&p.desc, p.at.launch, row->id, dev.line);
    ptxpack_gemm_plan_free(plan);
    release(&dev, &p);
    device_close(&dev);
    return ok;
}

/* Two, which hand over; more, which are scattered: a few, the most whose slices are wide, one more, and many.  Those of other rows have edges. */
static const parts_case parts_cases[] = {
    {"gemm_wgmma_sm90_parts_128x128", "32", 400, 392, 4096, 2, 2},
    {"gemm_wgmma_sm90_parts_128x128", "32", 260, 184, 4096, 3, 7},
    {"gemm_wgmma_sm90_parts_128x128", "32", 400, 8, 8192, 8, 8},
    {"gemm_wgmma_sm90_parts_128x128", "32", 300, 8, 5184, 9, 16},
    {"gemm_wgmma_sm90_parts_128x128", "132", 100, 8, 32768, 17, 32},
    {"gemm_wgmma_sm90_parts_192x128", "32", 400, 600, 2048, 2, 2},
    {"gemm_wgmma_sm90_parts_192x128", "32", 200, 72, 8192, 9, 16},
    {"gemm_wgmma_sm90_parts_128x144", "32", 400, 504, 2048, 2, 2},
    {"gemm_wgmma_sm90_parts_128x144", "32", 72, 200, 8192, 9, 16},
    {"gemm_wgmma_sm90_parts_64x128", "32", 200, 392, 2048, 2, 2},
    {"gemm_wgmma_sm90_parts_64x128", "32", 72, 72, 12288, 9, 16},
};
enum { PARTS_CASES = sizeof parts_cases / sizeof parts_cases[0] };

/* Of a row, or NULL: of all. */
static void test_all_parts(random_state *random, const char *id, size_t *tested, size_t *failed)
{
    char *sms = getenv("PTXPACK_EMU_SMS") != NULL ? strdup(getenv("PTXPACK_EMU_SMS")) : NULL;
    for (const parts_case *c = parts_cases; c < parts_cases + PARTS_CASES; c++)
        if (id == NULL || strcmp(id, c->id) == 0) {
            *tested += 1;
            *failed += !test_parts(random, c);
        }
    if (sms != NULL)
        setenv("PTXPACK_EMU_SMS", sms, 1);
    else
        unsetenv("PTXPACK_EMU_SMS");
    free(sms);
}

/* ---- long lines --------------------------------------------------------------------------------------- */
enum { LONG = (1 << 30) + 64, SOME = 64 /* columns of the first block: only it is launched */ };

/* Computes D = 2 B + C, one row: the length of a line in bytes needs more than 32 bits. */
static bool run_long(device *dev, ptxpack_gemm_plan *plan, uint16_t d[SOME])
{
    uint16_t             a[8] = {ptxpack_from_float(PTXPACK_F16, 2)}, b[SOME], c[SOME];
    ptxpack_gemm_buffers at = {.size = sizeof at, .alpha = 1, .beta = 1};
    gemm_arguments       arguments;
    uint32_t             grid[3];
    for (int i = 0; i < SOME; i++) {
        b[i] = ptxpack_from_float(PTXPACK_F16, (float)i);
        c[i] = ptxpack_from_float(PTXPACK_F16, 1);
    }
    plan->head.grid[0] = 1;
    bool ok = device_alloc(dev, &at.a, sizeof a) && device_alloc(dev, &at.b, sizeof b) &&
              device_alloc(dev, &at.c, sizeof c) && device_alloc(dev, &at.d, sizeof c) &&
              device_upload(dev, at.a, a, sizeof a) && device_upload(dev, at.b, b, sizeof b) &&
              device_upload(dev, at.c, c, sizeof c) &&
              device_status(dev, plan_arguments(&plan->head, &at, &arguments, grid)) &&
              device_status(dev, ptxpack_kernel_launch(plan->head.kernel, grid, &arguments, dev->stream)) &&
              device_download(dev, d, at.d, sizeof c);
    const uint64_t addresses[] = {at.a, at.b, at.c, at.d};
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++)
        device_free(dev, addresses[i]);
    return ok;
}

static bool test_long(device *dev)
{
    const ptxpack_gemm_desc desc =
        {.size = sizeof desc, .dtype = PTXPACK_F16, .m = 1, .n = LONG, .k = 1, .has_c = true};
    const ptxpack_variant *row = ptxpack_variant_find("gemm_mma_sm80_64x64x64");
    ptxpack_gemm_plan     *plan = NULL;
    uint16_t               d[SOME] = {0};
    bool                   ok = device_status(dev, ptxpack_gemm_plan_row(dev->handle, &desc, row, &plan)) &&
              run_long(dev, plan, d);
    for (int i = 0; i < SOME && ok; i++)
        if (d[i] != ptxpack_from_float(PTXPACK_F16, 2 * (float)i + 1))
            ok = (snprintf(dev->line, sizeof dev->line, "d[0][%d] is %g, not %d", i,
                           (double)ptxpack_to_float(PTXPACK_F16, d[i]), 2 * i + 1),
                  false);
    if (!ok)
        describe(&desc, 0, row->id, dev->line);
    ptxpack_gemm_plan_free(plan);
    return ok;
}

int main(int argc, char **argv)
{
    int64_t                seed = argc > 1 ? atoll(argv[1]) : 20261122;
    int64_t                problems = argc > 2 ? atoll(argv[2]) : PROBLEMS;
    random_state           random = random_start((uint64_t)seed);
    device                 dev = {.handle = NULL};
    size_t                 count, tested = 0, failed = 0;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    setenv("PTXPACK_EMU_SM", "90", 1);
    test_all_parts(&random, argc > 3 ? argv[3] : NULL, &tested, &failed);
    setenv("PTXPACK_EMU_SMS", "6", 0);
    if (device_open_as(&dev, "emu", NULL) != PTXPACK_OK)
        return fprintf(stderr, "gemm_wgmma: %s\n", dev.line), 1;
    for (size_t i = 0; i < count; i++)
        if ((plan_method_of(&rows[i]) == &gemm_wgmma || plan_method_of(&rows[i]) == &gemm_wgmma_fit ||
             plan_method_of(&rows[i]) == &gemm_wgmma_parts || plan_method_of(&rows[i]) == &gemm_wgmma_fp8) &&
            (argc <= 3 || strcmp(argv[3], rows[i].id) == 0)) {
            tested++;
            failed += !test_row(&dev, &rows[i], &random, problems);
        }
    failed += argc <= 3 && !test_long(&dev);
    tested += argc <= 3;
    device_close(&dev);
    printf("%zu of %zu rows right, %lld problems each, seed %lld\n", tested - failed, tested,
           (long long)problems, (long long)seed);
    return failed != 0 || tested == 0;
}
