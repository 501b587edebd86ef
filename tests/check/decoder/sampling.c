/* sampling.c - chosen tokens against those of the reference, which must be the same: every kind of row and of choice. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/sampling/inspect.h"
#include "tests/check/region.h"
#include "tools/problem/random.h"

typedef struct sampling_case {
    int32_t vocabulary;
    int64_t stride;
    bool    greedy; /* without parameters */
    bool    quick;
} sampling_case;

static const sampling_case cases[] = {
    {1, 0, false, false},   {33, 40, false, false},   {1024, 0, true, false},
    {4500, 0, false, true}, {7001, 7003, true, true},
};
enum { ROWS = 14, CASES = sizeof cases / sizeof cases[0], TYPES = 3, LOGITS = 0, PARAMETERS, TOKENS, REGIONS };
static const char *const type_names[TYPES] = {"f16", "bf16", "f32"};

typedef struct sampling_run {
    ptxpack_sampling_desc  desc;
    sampling_geometry      geometry;
    ptxpack_sampling_plan *plan;
    check_region           region[REGIONS];
    int32_t                want[ROWS];
    char                   line[256];
} sampling_run;

static void set_logit(const sampling_run *r, void *logits, int64_t at, float z)
{
    if ((r->desc.options & PTXPACK_SAMPLING_F32) != 0)
        ((float *)logits)[at] = z;
    else
        ptxpack_set_element(r->desc.dtype, logits, (size_t)at, z);
}

/* Rows of every kind: normal ones, few values with many ties, zeros of both signs, NaN and infinities among others. */
static void fill_row(const sampling_run *r, random_state *random, int row, void *logits)
{
    for (int32_t j = 0; j < r->desc.vocabulary; j++) {
        float z = ((float)random_below(random, 1 << 16) + (float)random_below(random, 1 << 16) - 65536) / 8192;
        switch (row % 7) {
        case 1:
            z = (float)random_below(random, 5);
            break;
        case 2:
            z = random_below(random, 2) != 0 ? -0.0f : 0.0f;
            break;
        case 3:
            z = random_below(random, 4) == 0 ? NAN : random_below(random, 4) == 0 ? -INFINITY : z - 100;
            break;
        case 4:
            z = row > 7 ? NAN : random_below(random, 90) == 0 ? INFINITY : z;
            break;
        default:
            break;
        }
        set_logit(r, logits, row * r->geometry.stride + j, z);
    }
}

static bool make_run(sampling_run *r, const sampling_case *m, int type, random_state random)
{
    static const float   temperatures[] = {1, 0, 0.7f, 1e-40f, 30, NAN};
    static const float   top_ps[] = {1, 0.9f, 0.5f, 1e-12f, NAN, 0};
    static const int32_t top_ks[] = {0, 40, 1, 1 << 30, 7};
    r->desc = (ptxpack_sampling_desc){.size = sizeof r->desc,
                                      .dtype = type == 0 ? PTXPACK_F16 : PTXPACK_BF16,
                                      .rows = ROWS,
                                      .vocabulary = m->vocabulary,
                                      .options = type == 2 ? PTXPACK_SAMPLING_F32 : 0,
                                      .stride = m->stride};
    if (sampling_resolve(&r->desc, &r->geometry, r->line) != PTXPACK_OK)
        return false;
    snprintf(r->line, sizeof r->line, "no memory");
    if (!check_region_make(&r->region[LOGITS], (size_t)r->geometry.logits_bytes, true) ||
        !check_region_make(&r->region[PARAMETERS], m->greedy ? 0 : (size_t)r->geometry.parameters_bytes,
                           false) ||
        !check_region_make(&r->region[TOKENS], (size_t)r->geometry.tokens_bytes, false))
        return false;
    ptxpack_sampling_row *p = (ptxpack_sampling_row *)check_region_fill(&r->region[PARAMETERS]);
    for (int i = 0; i < ROWS; i++) {
        fill_row(r, &random, i, check_region_fill(&r->region[LOGITS]));
        if (p != NULL)
            p[i] = (ptxpack_sampling_row){.temperature = i % 6 == 0 ? 1 : temperatures[i % 6],
                                          .top_p = top_ps[random_below(&random, 6)],
                                          .top_k = top_ks[random_below(&random, 5)],
                                          .seed = random_below(&random, UINT32_MAX),
                                          .counter = UINT64_C(0xfffffffc) + (uint64_t)i};
    }
    return ptxpack_sampling_reference(&r->desc, check_region_fill(&r->region[LOGITS]), p, r->want) ==
           PTXPACK_OK;
}

static bool launch(check *c, sampling_run *r)
{
    bool ok = true;
    for (int i = 0; i < REGIONS && ok; i++)
        ok = check_region_upload(c, &r->region[i]);
    const ptxpack_sampling_buffers b = {.size = sizeof b,
                                        .logits = check_region_at(&r->region[LOGITS]),
                                        .parameters = check_region_at(&r->region[PARAMETERS]),
                                        .tokens = check_region_at(&r->region[TOKENS])};
    ok = ok && device_status(&c->gpu, ptxpack_sampling(r->plan, &b, c->gpu.stream));
    for (int i = PARAMETERS; i < REGIONS && ok; i++)
        ok = check_region_download(c, &r->region[i]);
    return ok;
}

/* Puts what is expected in place of what was before the launch: then nothing may have changed. */
static const char *judge(sampling_run *r)
{
    ptxpack_sampling_row *p = (ptxpack_sampling_row *)check_region_fill(&r->region[PARAMETERS]);
    const int32_t        *got = (const int32_t *)(r->region[TOKENS].after + CHECK_GUARD);
    int64_t               place;
    for (int i = 0; i < ROWS; i++) {
        if (got[i] != r->want[i]) {
            snprintf(r->line, sizeof r->line, "the token of row %d is %d, not %d", i, (int)got[i],
                     (int)r->want[i]);
            return r->line;
        }
        if (p != NULL)
            p[i].counter++;
    }
    memcpy(check_region_fill(&r->region[TOKENS]), r->want, sizeof r->want);
    for (int i = PARAMETERS; i < REGIONS; i++)
        if (check_region_changed(&r->region[i], NULL, &place)) {
            snprintf(r->line, sizeof r->line, "byte %lld of the %s is not what it must be", (long long)place,
                     i == TOKENS ? "tokens" : "parameters");
            return r->line;
        }
    return NULL;
}

static void run_case(check *c, const sampling_case *m, int type, const ptxpack_variant *row, const char *name,
                     random_state random)
{
    sampling_run r = {.plan = NULL};
    if (!make_run(&r, m, type, random))
        check_broken(c, name, r.line);
    else if (ptxpack_sampling_plan_row(c->gpu.handle, &r.desc, row, &r.plan) != PTXPACK_OK)
        check_broken(c, name, ptxpack_detail(c->gpu.handle));
    else if (!launch(c, &r))
        check_broken(c, name, c->gpu.line);
    else
        check_record(c, name, judge(&r));
    for (int i = 0; i < REGIONS; i++)
        check_region_free(c, &r.region[i]);
    ptxpack_sampling_plan_free(r.plan);
}

void check_sampling(check *c)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    char                   name[160];
    for (size_t i = 0; i < count; i++)
        for (int k = 0; k < TYPES * CASES && !atomic_load(&c->broken); k++) {
            const sampling_case *m = &cases[k / TYPES];
            snprintf(name, sizeof name, "sampling %s %d%s%s %s", type_names[k % TYPES], (int)m->vocabulary,
                     m->stride != 0 ? " gaps" : "", m->greedy ? " greedy" : "", rows[i].id);
            if (check_row_runs(c, &rows[i], "sampling", k % TYPES == 1 ? PTXPACK_BF16 : PTXPACK_F16) &&
                check_case_runs(c, name, m->quick))
                run_case(c, m, k % TYPES, &rows[i], name, random_start(c->seed + (uint64_t)k));
        }
}
