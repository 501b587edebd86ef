/* experts.c - routes of rows and sums of what experts make of them, against double precision: every kind of row, one chunk of
 * rows and several, ties, NaN; each route twice with one workspace. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/experts/inspect.h"
#include "tests/check/region.h"
#include "tools/problem/random.h"

/* ---- route -------------------------------------------------------------------------------------------- */
typedef struct route_case {
    int32_t rows, experts, top_k;
    int64_t gap;
    bool    normalise, quick;
} route_case;

static const route_case route_cases[] = {
    {1, 8, 2, 0, true, false},    {64, 128, 8, 8, true, true},   {33, 1, 1, 0, false, false},
    {131, 60, 4, 3, false, true}, {70, 512, 16, 0, true, false}, {200, 17, 16, 0, false, false},
    {150, 500, 3, 0, true, true},
};
enum { LOGITS, STARTS, SOURCES, PLACES, WEIGHTS, WORKSPACE, ROUTE_REGIONS, TYPES = 3 };
static const char *const region_names[ROUTE_REGIONS] = {"logits", "starts",  "sources",
                                                        "places", "weights", "workspace"};
static const char *const type_names[TYPES] = {"f16", "bf16", "f32"};

typedef struct route_run {
    ptxpack_experts_route_desc  desc;
    experts_route_geometry      geometry;
    ptxpack_experts_route_plan *plan;
    check_region                region[ROUTE_REGIONS];
    void                       *want[WORKSPACE]; /* of the regions of the same numbers; LOGITS has none */
    char                        line[256];
} route_run;

/* The kinds of rows: any numbers, whole ones, zeros, some NaN and infinities, nothing else. */
static void fill_row(const route_run *r, random_state *random, int row, void *logits)
{
    const int64_t stride = row * (r->geometry.logits.stride[MEMORY_ROW] / (int64_t)r->geometry.element_bytes);
    for (int32_t e = 0; e < r->desc.experts; e++) {
        float z = ((float)random_below(random, 1 << 16) - 32768) / 8192;
        switch (row % 9) {
        case 2:
            z = (float)random_below(random, 5);
            break;
        case 4:
            z = random_below(random, 2) != 0 ? -0.0f : 0.0f;
            break;
        case 6:
            z = random_below(random, 3) == 0 ? NAN : random_below(random, 3) == 0 ? -INFINITY : z * 20;
            break;
        case 7:
            z = row % 2 != 0 ? NAN : random_below(random, 9) == 0 ? INFINITY : z;
            break;
        default:
            break;
        }
        if (r->geometry.element_bytes == sizeof(float))
            ((float *)logits)[stride + e] = z;
        else
            ptxpack_set_element(r->desc.dtype, logits, (size_t)(stride + e), z);
    }
}

static bool make_route(route_run *r, const route_case *m, int type, random_state random)
{
    r->desc = (ptxpack_experts_route_desc){.size = sizeof r->desc,
                                           .dtype = type == 0 ? PTXPACK_F16 : PTXPACK_BF16,
                                           .rows = m->rows,
                                           .experts = m->experts,
                                           .top_k = m->top_k,
                                           .options = (type == 2 ? PTXPACK_EXPERTS_F32 : 0u) |
                                                      (m->normalise ? PTXPACK_EXPERTS_NORMALISE : 0u),
                                           .stride = m->gap != 0 ? m->experts + m->gap : 0};
    if (experts_route_resolve(&r->desc, &r->geometry, r->line) != PTXPACK_OK)
        return false;
    snprintf(r->line, sizeof r->line, "no memory");
    const experts_route_geometry *g = &r->geometry;
    const uint64_t                bytes[ROUTE_REGIONS] = {g->logits.bytes, g->starts_bytes, g->all_bytes,
                                                          g->all_bytes,    g->all_bytes,    g->workspace};
    for (int i = 0; i < ROUTE_REGIONS; i++) {
        if (!check_region_make(&r->region[i], (size_t)bytes[i], i == LOGITS))
            return false;
        if (i != LOGITS && i < WORKSPACE && (r->want[i] = malloc((size_t)bytes[i])) == NULL)
            return false;
    }
    if (g->workspace != 0)
        memset(check_region_fill(&r->region[WORKSPACE]), 0, (size_t)g->workspace);
    for (int i = 0; i < m->rows; i++)
        fill_row(r, &random, i, check_region_fill(&r->region[LOGITS]));
    return ptxpack_experts_route_reference(&r->desc, check_region_fill(&r->region[LOGITS]),
                                           (int32_t *)r->want[STARTS], (int32_t *)r->want[SOURCES],
                                           (int32_t *)r->want[PLACES], (float *)r->want[WEIGHTS]) == PTXPACK_OK;
}

/* Twice: what the first launch leaves in the workspace serves the second one. */
static bool launch_route(check *c, route_run *r)
{
    bool ok = true;
    for (int i = 0; i < ROUTE_REGIONS && ok; i++)
        ok = check_region_upload(c, &r->region[i]);
    const ptxpack_experts_route_buffers b = {.size = sizeof b,
                                             .logits = check_region_at(&r->region[LOGITS]),
                                             .starts = check_region_at(&r->region[STARTS]),
                                             .sources = check_region_at(&r->region[SOURCES]),
                                             .places = check_region_at(&r->region[PLACES]),
                                             .weights = check_region_at(&r->region[WEIGHTS]),
                                             .workspace = check_region_at(&r->region[WORKSPACE])};
    for (int i = 0; i < 2 && ok; i++)
        ok = device_status(&c->gpu, ptxpack_experts_route(r->plan, &b, c->gpu.stream));
    for (int i = STARTS; i < ROUTE_REGIONS && ok; i++)
        ok = check_region_download(c, &r->region[i]);
    return ok;
}

/* Puts what is expected in place of what was before the launch: then nothing may have changed. */
static const char *judge_route(route_run *r)
{
    const size_t all = (size_t)r->geometry.all_bytes / sizeof(float);
    float       *got = (float *)(void *)(r->region[WEIGHTS].after + CHECK_GUARD);
    int64_t      place;
    for (size_t i = 0; i < all; i++) {
        const float want = ((const float *)r->want[WEIGHTS])[i];
        if (!(fabsf(got[i] - want) <= 1e-5f * want + 1e-30f)) {
            snprintf(r->line, sizeof r->line, "choice %zu of row %zu weighs %g, not %g",
                     i % (size_t)r->desc.top_k, i / (size_t)r->desc.top_k, (double)got[i], (double)want);
            return r->line;
        }
        ((float *)r->want[WEIGHTS])[i] = got[i];
    }
    for (int i = STARTS; i < WORKSPACE; i++)
        memcpy(check_region_fill(&r->region[i]), r->want[i], r->region[i].bytes);
    if (r->region[WORKSPACE].bytes != 0) /* all but the counters may be anything */
        memcpy(r->region[WORKSPACE].before + CHECK_GUARD + 16, r->region[WORKSPACE].after + CHECK_GUARD + 16,
               r->region[WORKSPACE].bytes - 16);
    for (int i = STARTS; i < ROUTE_REGIONS; i++)
        if (check_region_changed(&r->region[i], NULL, &place)) {
            snprintf(r->line, sizeof r->line, "byte %lld of %s is not what it must be", (long long)place,
                     region_names[i]);
            return r->line;
        }
    return NULL;
}

static void run_route(check *c, const route_case *m, int type, const ptxpack_variant *row, const char *name,
                      random_state random)
{
    route_run r = {.plan = NULL};
    if (!make_route(&r, m, type, random))
        check_broken(c, name, r.line);
    else if (ptxpack_experts_route_plan_row(c->gpu.handle, &r.desc, row, &r.plan) != PTXPACK_OK)
        check_broken(c, name, ptxpack_detail(c->gpu.handle));
    else if (!launch_route(c, &r))
        check_broken(c, name, c->gpu.line);
    else
        check_record(c, name, judge_route(&r));
    for (int i = 0; i < ROUTE_REGIONS; i++)
        check_region_free(c, &r.region[i]);
    for (int i = 0; i < WORKSPACE; i++)
        free(r.want[i]);
    ptxpack_experts_route_plan_free(r.plan);
}

/* ---- combine ------------------------------------------------------------------------------------------ */
typedef enum residual_kind { NONE, APART, IN_PLACE } residual_kind;

typedef struct combine_case {
    int32_t       rows, top_k, columns;
    int64_t       gap;
    residual_kind residual;
    bool          quick;
} combine_case;

static const combine_case combine_cases[] = {
    {1, 1, 8, 0, NONE, false},
    {37, 8, 136, 0, IN_PLACE, true},
    {9, 16, 520, 24, APART, false},
    {50, 3, 72, 8, NONE, true},
};
enum { Y, C_PLACES, C_WEIGHTS, RESIDUAL, OUT, COMBINE_REGIONS };

typedef struct combine_run {
    ptxpack_experts_combine_desc  desc;
    experts_combine_geometry      geometry;
    ptxpack_experts_combine_plan *plan;
    check_region                  region[COMBINE_REGIONS];
    bool                          in_place;
    double                       *want;
    char                          line[256];
} combine_run;

static void fill_combine(combine_run *r, random_state *random)
{
    const int32_t all = r->desc.rows * r->desc.top_k, odd[] = {-1, INT32_MIN, INT32_MAX, all};
    int32_t      *places = (int32_t *)check_region_fill(&r->region[C_PLACES]);
    float        *weights = (float *)check_region_fill(&r->region[C_WEIGHTS]);
    for (int32_t i = 0; i < all; i++) {
        places[i] = i % 11 == 5 ? odd[i / 11 % 4] : (int32_t)random_below(random, (uint32_t)all);
        weights[i] = (float)(1 + random_below(random, 1 << 16)) / 65536;
    }
    for (int i = Y; i < OUT; i++)
        if (i != C_PLACES && i != C_WEIGHTS && r->region[i].bytes != 0)
            random_normal(random, r->desc.dtype, check_region_fill(&r->region[i]), r->region[i].bytes / 2);
    ptxpack_set_element(r->desc.dtype, check_region_fill(&r->region[Y]), 0,
                        INFINITY); /* of rows that have it, and no others */
}

static bool make_combine(combine_run *r, const combine_case *m, ptxpack_dtype dtype, random_state random)
{
    const int64_t apart = m->gap != 0 ? m->columns + m->gap : 0;
    r->desc = (ptxpack_experts_combine_desc){.size = sizeof r->desc,
                                             .dtype = dtype,
                                             .rows = m->rows,
                                             .top_k = m->top_k,
                                             .columns = m->columns,
                                             .options = m->residual != NONE ? PTXPACK_EXPERTS_RESIDUAL : 0,
                                             .stride_y = apart,
                                             .stride_residual = apart != 0 ? apart + m->gap : 0,
                                             .stride_out = apart != 0 ? apart + 2 * m->gap : 0};
    r->in_place = m->residual == IN_PLACE;
    if (experts_combine_resolve(&r->desc, &r->geometry, r->line) != PTXPACK_OK)
        return false;
    snprintf(r->line, sizeof r->line, "no memory");
    const experts_combine_geometry *g = &r->geometry;
    const uint64_t bytes[COMBINE_REGIONS] = {g->y.bytes, g->all_bytes, g->all_bytes, g->residual.bytes,
                                             g->out.bytes};
    for (int i = 0; i < COMBINE_REGIONS; i++)
        if (!check_region_make(&r->region[i], (size_t)bytes[i], i != OUT))
            return false;
    r->want = (double *)malloc((size_t)m->rows * (size_t)m->columns * sizeof *r->want);
    if (r->want == NULL)
        return false;
    fill_combine(r, &random);
    if (r->in_place)
        memcpy(check_region_fill(&r->region[OUT]), check_region_fill(&r->region[RESIDUAL]),
               r->region[OUT].bytes);
    return ptxpack_experts_combine_reference(&r->desc, check_region_fill(&r->region[Y]),
                                             (const int32_t *)check_region_fill(&r->region[C_PLACES]),
                                             (const float *)check_region_fill(&r->region[C_WEIGHTS]),
                                             check_region_fill(&r->region[RESIDUAL]), r->want) == PTXPACK_OK;
}

static bool launch_combine(check *c, combine_run *r)
{
    bool ok = true;
    for (int i = 0; i < COMBINE_REGIONS && ok; i++)
        ok = check_region_upload(c, &r->region[i]);
    const ptxpack_experts_combine_buffers b = {.size = sizeof b,
                                               .y = check_region_at(&r->region[Y]),
                                               .places = check_region_at(&r->region[C_PLACES]),
                                               .weights = check_region_at(&r->region[C_WEIGHTS]),
                                               .residual = check_region_at(
                                                   &r->region[r->in_place ? OUT : RESIDUAL]),
                                               .out = check_region_at(&r->region[OUT])};
    return ok && device_status(&c->gpu, ptxpack_experts_combine(r->plan, &b, c->gpu.stream)) &&
           check_region_download(c, &r->region[OUT]);
}

/* Elements that are near enough to what is expected are put in place of what was before the launch: then nothing may have changed. */
static const char *judge_combine(combine_run *r)
{
    const size_t   columns = (size_t)r->desc.columns, stride = (size_t)r->geometry.out.stride[MEMORY_ROW] / 2;
    const double   half = r->desc.dtype == PTXPACK_F16 ? 0x1p-11 : 0x1p-8;
    uint16_t      *before = (uint16_t *)check_region_fill(&r->region[OUT]);
    const uint8_t *after = r->region[OUT].after + CHECK_GUARD;
    int64_t        place;
    for (size_t i = 0; i < (size_t)r->desc.rows * columns; i++) {
        const size_t at = i / columns * stride + i % columns;
        const double got = (double)ptxpack_element(r->desc.dtype, after, at);
        if (got != r->want[i] && !(fabs(got - r->want[i]) <= half * fabs(r->want[i]) + 1e-5)) {
            snprintf(r->line, sizeof r->line, "element %zu of row %zu is %g, not %g", i % columns, i / columns,
                     got, r->want[i]);
            return r->line;
        }
        memcpy(before + at, after + at * sizeof *before, sizeof *before);
    }
    if (!check_region_changed(&r->region[OUT], NULL, &place))
        return NULL;
    snprintf(r->line, sizeof r->line, "byte %lld of out is not what it must be", (long long)place);
    return r->line;
}

static void run_combine(check *c, const combine_case *m, ptxpack_dtype dtype, const ptxpack_variant *row,
                        const char *name, random_state random)
{
    combine_run r = {.plan = NULL};
    if (!make_combine(&r, m, dtype, random))
        check_broken(c, name, r.line);
    else if (ptxpack_experts_combine_plan_row(c->gpu.handle, &r.desc, row, &r.plan) != PTXPACK_OK)
        check_broken(c, name, ptxpack_detail(c->gpu.handle));
    else if (!launch_combine(c, &r))
        check_broken(c, name, c->gpu.line);
    else
        check_record(c, name, judge_combine(&r));
    for (int i = 0; i < COMBINE_REGIONS; i++)
        check_region_free(c, &r.region[i]);
    free(r.want);
    ptxpack_experts_combine_plan_free(r.plan);
}

/* ---- both --------------------------------------------------------------------------------------------- */
void check_experts(check *c)
{
    enum {
        ROUTES = sizeof route_cases / sizeof route_cases[0],
        COMBINES = sizeof combine_cases / sizeof combine_cases[0]
    };
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    char                   name[160];
    for (size_t i = 0; i < count; i++) {
        for (int k = 0; k < TYPES * ROUTES && !atomic_load(&c->broken); k++) {
            const route_case *m = &route_cases[k / TYPES];
            snprintf(name, sizeof name, "experts route %s %dx%d top %d%s%s %s", type_names[k % TYPES],
                     (int)m->rows, (int)m->experts, (int)m->top_k, m->gap != 0 ? " gaps" : "",
                     m->normalise ? " normalised" : "", rows[i].id);
            if (check_row_runs(c, &rows[i], "experts_route", k % TYPES == 1 ? PTXPACK_BF16 : PTXPACK_F16) &&
                check_case_runs(c, name, m->quick))
                run_route(c, m, k % TYPES, &rows[i], name, random_start(c->seed + (uint64_t)k));
        }
        for (int k = 0; k < 2 * COMBINES && !atomic_load(&c->broken); k++) {
            const combine_case *m = &combine_cases[k / 2];
            const ptxpack_dtype dtype = k % 2 == 0 ? PTXPACK_F16 : PTXPACK_BF16;
            snprintf(name, sizeof name, "experts combine %s %dx%d of %d%s%s %s", type_names[k % 2],
                     (int)m->rows, (int)m->columns, (int)m->top_k, m->gap != 0 ? " gaps" : "",
                     m->residual == NONE       ? ""
                     : m->residual == IN_PLACE ? " in place"
                                               : " residual",
                     rows[i].id);
            if (check_row_runs(c, &rows[i], "experts_combine", dtype) && check_case_runs(c, name, m->quick))
                run_combine(c, m, dtype, &rows[i], name, random_start(c->seed + (uint64_t)k));
        }
    }
}
