/* groups.c - products of groups of rows, of 16 bits or with a B of e4m3, against the double-precision reference: sizes as they
 * come, no rows at all, all of them in one group, more groups than a step of the search takes; then a captured graph with other
 * sizes.  A kernel writes the starts, which ends before the product begins to work, not before it starts.
 *
 * Passes   Every row of D before the last start is the rounding of a number within the reference's error
 *          (host/gemm/reference.h), and nothing else is written; starts beyond m count as m.  Rows of A from the last start on are NaN. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/gather/gather.h"
#include "host/gemm/inspect.h"
#include "tests/check/region.h"
#include "tools/problem/random.h"

/* ---- cases -------------------------------------------------------------------------------------------- */
/* Of a round: the graph's has the next kind. */
typedef enum sizes_kind { MIXED, ALL_IN_ONE, NONE, FEW, KINDS } sizes_kind;

/* Elements of B: 16 bits, or e4m3 with scales; or with none, and some NaN. */
typedef enum of_b { WORDS, E4M3_TENSOR, E4M3_LINES, E4M3_BLOCKS, E4M3_BARE } of_b;

typedef struct groups_case {
    const char        *name;
    int32_t            groups, m, n, k;
    sizes_kind         sizes;
    bool               has_bias;
    ptxpack_activation activation;
    bool               quick;
    of_b               b;
} groups_case;

/* Some tiles of 256 columns are partial.  660 rows are more rows of tiles than are worked on together; a block takes several
 * tiles.  What has 43 columns only ptx/gemm/mma_groups.ptx takes.  Of e4m3: blocks of scales that are not whole, and k that ends
 * within a block of 64; more k than warps have in flight. */
static const groups_case cases[] = {
    {"mixed", 7, 300, 272, 72, MIXED, false, PTXPACK_ACTIVATION_NONE, true, WORDS},
    {"swiglu", 5, 260, 288, 72, ALL_IN_ONE, true, PTXPACK_ACTIVATION_SWIGLU, true, WORDS},
    {"tall", 3, 660, 136, 40, ALL_IN_ONE, true, PTXPACK_ACTIVATION_GELU, false, WORDS},
    {"many", 300, 150, 64, 24, FEW, true, PTXPACK_ACTIVATION_RELU, true, WORDS},
    {"none", 4, 90, 72, 200, NONE, false, PTXPACK_ACTIVATION_SILU, false, WORDS},
    {"ragged", 4, 40, 43, 33, MIXED, true, PTXPACK_ACTIVATION_NONE, true, WORDS},
    {"single", 1, 70, 72, 0, ALL_IN_ONE, true, PTXPACK_ACTIVATION_NONE, false, WORDS},
    {"e4m3-blocks", 5, 90, 272, 208, MIXED, true, PTXPACK_ACTIVATION_NONE, true, E4M3_BLOCKS},
    {"e4m3-long", 2, 20, 144, 1168, ALL_IN_ONE, false, PTXPACK_ACTIVATION_GELU, false, E4M3_BLOCKS},
    {"e4m3-swiglu", 6, 70, 160, 400, ALL_IN_ONE, true, PTXPACK_ACTIVATION_SWIGLU, true, E4M3_LINES},
    {"e4m3-many", 300, 150, 64, 32, FEW, true, PTXPACK_ACTIVATION_RELU, true, E4M3_TENSOR},
    {"e4m3-bare", 3, 50, 80, 96, MIXED, false, PTXPACK_ACTIVATION_NONE, true, E4M3_BARE},
    {"e4m3-none", 4, 40, 72, 64, NONE, false, PTXPACK_ACTIVATION_SILU, false, E4M3_LINES},
    {"e4m3-single", 1, 40, 72, 0, ALL_IN_ONE, true, PTXPACK_ACTIVATION_NONE, false, E4M3_TENSOR},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static void name_case(const groups_case *g, ptxpack_dtype dtype, const char *row, char name[160])
{
    snprintf(name, 160, "gemm groups %s %s %d of %dx%dx%d %s", g->name, ptxpack_dtype_name(dtype),
             (int)g->groups, (int)g->m, (int)g->n, (int)g->k, row);
}

static int64_t rounded_up(int64_t length) { return (length + 7) / 8 * 8; }

/* Lines have gaps, and so have the matrices of B. */
static ptxpack_gemm_desc desc_of(const groups_case *g, ptxpack_dtype dtype)
{
    ptxpack_gemm_desc d = {.size = sizeof d,
                           .dtype = dtype,
                           .m = g->m,
                           .n = g->n,
                           .k = g->k,
                           .order_b = PTXPACK_COLUMN_MAJOR,
                           .stride_a = rounded_up(g->k) + 8,
                           .stride_b = rounded_up(g->k) + 16,
                           .has_bias = g->has_bias,
                           .activation = g->activation,
                           .scales = (ptxpack_gemm_scales)(g->b == WORDS || g->b == E4M3_BARE
                                                               ? 0
                                                               : g->b - E4M3_TENSOR),
                           .groups = g->groups,
                           .dtype_b = g->b == WORDS ? (ptxpack_dtype)0 : PTXPACK_E4M3};
    d.stride_d = rounded_up(gemm_columns(&d)) + 8;
    d.batch_b = d.n * d.stride_b + (g->b == WORDS ? 24 : 48);
    return d;
}

/* ---- data --------------------------------------------------------------------------------------------- */
enum { A, B, SCALES, BIAS, TABLE /* a row: the starts */, IDS, STARTS, D, REGIONS };

typedef struct groups_run {
    ptxpack_gemm_desc      desc;
    bool                   bare; /* no scales, and codes that are NaN */
    gemm_geometry          geometry;
    ptxpack_gemm_plan     *plan;
    ptxpack_gather_plan   *gather; /* from the table to the starts */
    struct CUgraphExec_st *graph;
    check_region           region[REGIONS];
    int32_t                rows; /* before the last start */
    gemm_row              *row;  /* room for m */
    double                *value, *error;
    bool                  *may_change;
    char                   line[256];
} groups_run;

static int32_t *starts_of(groups_run *r) { return (int32_t *)check_region_fill(&r->region[TABLE]); }

static int32_t draw_size(sizes_kind kind, random_state *random)
{
    static const uint64_t limits[] = {1, 4, 72, 200}; /* 1: no rows */
    return kind == NONE  ? 0
           : kind == FEW ? (int32_t)(random_below(random, 6) / 4 * (1 + random_below(random, 2)))
                         : (int32_t)random_below(random, limits[random_below(random, 4)]);
}

/* Some are beyond m, as of groups that have more rows than there is room for. */
static void draw_starts(groups_run *r, sizes_kind kind, random_state *random)
{
    int32_t      *starts = starts_of(r);
    const int32_t groups = r->desc.groups, one = (int32_t)random_below(random, (uint64_t)groups);
    starts[0] = 0;
    for (int32_t g = 0; g < groups; g++) {
        const int32_t size = kind != ALL_IN_ONE ? draw_size(kind, random)
                             : g == one         ? r->desc.m - (int32_t)random_below(random, 3)
                                                : 0;
        starts[g + 1] = starts[g] + size;
    }
    r->rows = starts[groups] < r->desc.m ? starts[groups] : r->desc.m;
}

/* Rows of A from the last start on stay NaN. */
static void draw_a(groups_run *r, random_state *random)
{
    const gemm_matrix *a = &r->geometry.matrix[GEMM_A];
    uint16_t          *to = (uint16_t *)check_region_fill(&r->region[A]);
    memset(to, REGION_POISON, r->region[A].bytes);
    for (int32_t row = 0; row < r->rows && a->length > 0; row++)
        random_normal(random, r->desc.dtype, to + row * a->stride, (size_t)a->length);
}

static void draw_b(groups_run *r, random_state *random)
{
    const gemm_matrix *b = &r->geometry.matrix[GEMM_B];
    char              *to = (char *)check_region_fill(&r->region[B]);
    for (int32_t g = 0; g < r->desc.groups; g++)
        for (int64_t line = 0; line < b->lines && b->length > 0; line++)
            random_normal(random, gemm_type(&r->desc, GEMM_B),
                          to + (g * b->batch + line * b->stride) * b->element, (size_t)b->length);
    for (int i = 0; r->bare && i < 2 * r->desc.groups; i++)
        to[random_below(random, (uint64_t)r->desc.groups) * (uint64_t)b->batch +
           random_below(random, (uint64_t)b->lines) * (uint64_t)b->stride +
           random_below(random, (uint64_t)b->length)] = (char)(i % 2 != 0 ? 0x7f : 0xff);
    random_scales(random, (float *)check_region_fill(&r->region[SCALES]),
                  r->region[SCALES].bytes / sizeof(float));
    random_normal(random, r->desc.dtype, check_region_fill(&r->region[BIAS]),
                  r->region[BIAS].bytes / sizeof(uint16_t));
}

/* Columns of the table, of 16 bits. */
static int32_t columns_of(const groups_run *r) { return (int32_t)rounded_up(2 * (r->desc.groups + 1)); }

static bool make_run(groups_run *r, const groups_case *g, ptxpack_dtype dtype, random_state *random)
{
    r->desc = desc_of(g, dtype);
    r->bare = g->b == E4M3_BARE;
    if (ptxpack_gemm_resolve(&r->desc, &r->geometry, r->line) != PTXPACK_OK)
        return false;
    const gemm_matrix *m = r->geometry.matrix;
    const size_t       elements = (size_t)r->desc.m * (size_t)gemm_columns(&r->desc);
    snprintf(r->line, sizeof r->line, "no memory");
    if (!check_region_make(&r->region[A], m[GEMM_A].bytes, true) ||
        !check_region_make(&r->region[B], m[GEMM_B].bytes, true) ||
        !check_region_make(&r->region[SCALES], r->geometry.scale[GEMM_B].bytes, true) ||
        !check_region_make(&r->region[BIAS], r->geometry.bias_bytes, true) ||
        !check_region_make(&r->region[TABLE], sizeof(uint16_t) * (size_t)columns_of(r), true) ||
        !check_region_make(&r->region[IDS], sizeof(int32_t), true) ||
        !check_region_make(&r->region[STARTS], r->region[TABLE].bytes, true) ||
        !check_region_make(&r->region[D], m[GEMM_D].bytes, false))
        return false;
    r->row = (gemm_row *)calloc((size_t)r->desc.m, sizeof *r->row);
    r->value = (double *)calloc(2 * elements, sizeof *r->value);
    r->error = r->value + elements;
    r->may_change = (bool *)calloc(m[GEMM_D].bytes, sizeof(bool));
    if (r->row == NULL || r->value == NULL || r->may_change == NULL)
        return false;
    draw_b(r, random);
    *(int32_t *)check_region_fill(&r->region[IDS]) = 0;
    return true;
}

static void free_run(check *c, groups_run *r)
{
    if (r->graph != NULL)
        c->gpu.driver->cuGraphExecDestroy(r->graph);
    for (int i = 0; i < REGIONS; i++)
        check_region_free(c, &r->region[i]);
    ptxpack_gemm_plan_free(r->plan);
    ptxpack_gather_plan_free(r->gather);
    free(r->row);
    free(r->value);
    free(r->may_change);
}

/* ---- a launch and its judgement ----------------------------------------------------------------------- */
static const float alpha = 0.7f;

static bool make_plans(check *c, groups_run *r, const ptxpack_variant *row)
{
    const ptxpack_gather_desc d = {.size = sizeof d,
                                   .dtype = PTXPACK_F16,
                                   .rows = 1,
                                   .table_rows = 1,
                                   .columns = columns_of(r)};
    return ptxpack_gemm_plan_row(c->gpu.handle, &r->desc, row, &r->plan) == PTXPACK_OK &&
           ptxpack_gather_plan_create(c->gpu.handle, &d, &r->gather) == PTXPACK_OK;
}

static bool enqueue(check *c, const groups_run *r)
{
    const ptxpack_gather_buffers g = {.size = sizeof g,
                                      .ids = check_region_at(&r->region[IDS]),
                                      .table = check_region_at(&r->region[TABLE]),
                                      .y = check_region_at(&r->region[STARTS]),
                                      .launch = PTXPACK_LAUNCH_OVERLAP};
    const ptxpack_gemm_buffers   b = {.size = sizeof b,
                                      .alpha = alpha,
                                      .a = check_region_at(&r->region[A]),
                                      .b = check_region_at(&r->region[B]),
                                      .d = check_region_at(&r->region[D]),
                                      .bias = check_region_at(&r->region[BIAS]),
                                      .launch = PTXPACK_LAUNCH_OVERLAP,
                                      .scale_b = r->bare ? 0 : check_region_at(&r->region[SCALES]),
                                      .group_starts = check_region_at(&r->region[STARTS])};
    return device_status(&c->gpu, ptxpack_gather(r->gather, &g, c->gpu.stream)) &&
           device_status(&c->gpu, ptxpack_gemm_launch(r->plan, &b, c->gpu.stream));
}

/* The same launches; without graphs r->graph stays NULL. */
static bool capture(check *c, groups_run *r)
{
    const struct ptxpack_driver *d = c->gpu.driver;
    struct CUgraph_st           *graph = NULL;
    if (d->cuStreamBeginCapture == NULL || d->cuStreamEndCapture == NULL || d->cuGraphLaunch == NULL ||
        d->cuGraphInstantiateWithFlags == NULL || d->cuGraphDestroy == NULL || d->cuGraphExecDestroy == NULL)
        return true;
    bool ok = device_try(&c->gpu, d->cuStreamBeginCapture(c->gpu.stream, PTXPACK_CU_CAPTURE_THREAD_LOCAL),
                         "cuStreamBeginCapture") &&
              enqueue(c, r);
    ptxpack_cu_result ended = d->cuStreamEndCapture(c->gpu.stream, &graph);
    ok = ok && device_try(&c->gpu, ended, "cuStreamEndCapture") &&
         device_try(&c->gpu, d->cuGraphInstantiateWithFlags(&r->graph, graph, 0), "cuGraphInstantiate");
    if (graph != NULL)
        d->cuGraphDestroy(graph);
    return ok;
}

static bool refer(groups_run *r)
{
    gemm_reference   *reference;
    const gemm_inputs inputs = {.a = check_region_fill(&r->region[A]),
                                .b = check_region_fill(&r->region[B]),
                                .bias = check_region_fill(&r->region[BIAS]),
                                .alpha = alpha,
                                .scale_b = r->bare ? NULL
                                                   : (const float *)check_region_fill(&r->region[SCALES]),
                                .group_starts = starts_of(r)};
    for (int32_t i = 0; i < r->rows; i++)
        r->row[i] = (gemm_row){0, i};
    bool ok = gemm_reference_open(&r->desc, &inputs, &reference) == PTXPACK_OK;
    ok = ok && gemm_reference_rows(reference, r->row, (size_t)r->rows, 1, r->value, r->error) == PTXPACK_OK;
    gemm_reference_close(reference);
    if (!ok)
        snprintf(r->line, sizeof r->line, "%s", ptxpack_detail(NULL));
    return ok;
}

/* Returns NULL, or what is wrong. */
static const char *judge(groups_run *r)
{
    const gemm_matrix *d = &r->geometry.matrix[GEMM_D];
    int64_t            place;
    if (!refer(r))
        return r->line;
    memset(r->may_change, 0, d->bytes);
    for (int32_t row = 0; row < r->rows; row++) {
        const uint16_t *line = (const uint16_t *)(void *)(r->region[D].after + CHECK_GUARD) + row * d->stride;
        memset(r->may_change + row * d->stride * d->element, 1, (size_t)(d->length * d->element));
        for (int64_t column = 0; column < d->length; column++) {
            const size_t at = (size_t)(row * d->length + column);
            if (gemm_accepts(r->desc.dtype, line[column], r->value[at], r->error[at]))
                continue;
            snprintf(r->line, sizeof r->line, "d[%d of %d][%d] is %.8g, exact %.8g +- %.3g", (int)row,
                     (int)r->rows, (int)column, (double)ptxpack_to_float(r->desc.dtype, line[column]),
                     r->value[at], r->error[at]);
            return r->line;
        }
    }
    if (!check_region_changed(&r->region[D], r->may_change, &place))
        return NULL;
    snprintf(r->line, sizeof r->line, "byte %lld of d, row %d, was written; %d rows have groups",
             (long long)place, (int)(place / (d->stride * d->element)), (int)r->rows);
    return r->line;
}

/* One round: new sizes and rows, a launch or a replay, and what is wrong with it (NULL: nothing). */
static bool run_round(check *c, groups_run *r, sizes_kind kind, random_state *random, const char **what)
{
    bool ok = true;
    draw_starts(r, kind, random);
    draw_a(r, random);
    for (int i = 0; i < REGIONS && ok; i++)
        ok = check_region_upload(c, &r->region[i]);
    ok = ok &&
         (r->graph != NULL
              ? device_try(&c->gpu, c->gpu.driver->cuGraphLaunch(r->graph, c->gpu.stream), "cuGraphLaunch")
              : enqueue(c, r)) &&
         check_region_download(c, &r->region[D]);
    if (ok)
        *what = judge(r);
    return ok;
}

static void run_case(check *c, const groups_case *g, const ptxpack_variant *row, ptxpack_dtype dtype,
                     const char *name, random_state random)
{
    groups_run  r = {.plan = NULL};
    const char *what = NULL;
    char        why[PLAN_LINE];
    if (!make_run(&r, g, dtype, &random)) {
        check_broken(c, name, r.line);
    } else if (plan_row_refusal(&gemm_op, c->gpu.handle, NULL, &r.desc, row, why) != NULL) {
        /* a row for other n */
    } else if (!make_plans(c, &r, row)) {
        check_broken(c, name, ptxpack_detail(c->gpu.handle));
    } else {
        bool ok = run_round(c, &r, g->sizes, &random, &what);
        if (ok && what == NULL)
            ok = capture(c, &r) && run_round(c, &r, (sizes_kind)((g->sizes + 1) % KINDS), &random, &what);
        if (!ok)
            check_broken(c, name, c->gpu.line);
        else
            check_record(c, name, what);
    }
    free_run(c, &r);
}

/* On the emulated driver each case has one type, unless a row has only the other one. */
void check_gemm_groups(check *c)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < 2 * (size_t)CASES && !atomic_load(&c->broken); k++) {
            const groups_case  *g = &cases[k / 2];
            const ptxpack_dtype dtype = k % 2 == 0 ? PTXPACK_F16 : PTXPACK_BF16;
            char                name[160];
            const bool both = plan_row_takes(&rows[i], PTXPACK_F16) && plan_row_takes(&rows[i], PTXPACK_BF16);
            name_case(g, dtype, rows[i].id, name);
            if (check_row_runs(c, &rows[i], "gemm", dtype) && gemm_is_of_groups(&rows[i]) &&
                gemm_takes_b_alone(&rows[i]) == (g->b != WORDS) &&
                (!c->brief || !both || (i + k / 2) % 2 == k % 2) && check_case_runs(c, name, g->quick))
                run_case(c, g, &rows[i], dtype, name, random_start(c->seed + (uint64_t)k));
        }
}
