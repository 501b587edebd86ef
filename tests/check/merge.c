/* merge.c - merges of two partial attentions against double precision: weights of every kind, in place and apart. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/attention/merge/inspect.h"
#include "region.h"
#include "tools/problem/random.h"

/* ---- cases -------------------------------------------------------------------------------------------- */
/* Where o and the lse are written: apart from the parts, or in place of one. */
typedef enum merge_place { APART, IN_A, IN_B, O_IN_A_LSE_IN_B, NO_LSE } merge_place;
static const char *const place_names[] = {"", " in a", " in b", " o in a lse in b", " no lse"};

typedef struct merge_case {
    int32_t     dim, batch, rows, heads;
    merge_place place;
    bool        gaps;     /* o_b has gaps, and heads come before rows in o */
    bool        repeated; /* o_b has a batch stride of 0 */
    bool        f32;      /* parts */
    bool        quick;
} merge_case;

/* 80 elements are ten threads, so that six of a block are left over; 8 are one thread, 1024 half a block. */
static const merge_case cases[] = {
    {128, 2, 5, 3, APART, false, false, false, true},
    {80, 2, 11, 3, APART, true, false, false, true},
    {80, 3, 6, 2, APART, false, true, false, false},
    {64, 1, 20, 3, IN_A, false, false, false, true},
    {64, 2, 7, 5, IN_B, false, false, false, false},
    {256, 2, 5, 3, O_IN_A_LSE_IN_B, false, false, false, false},
    {8, 3, 101, 2, APART, true, false, false, false},
    {1024, 1, 3, 5, IN_A, false, false, false, false},
    {128, 2, 5, 3, APART, true, false, true, true},
    {72, 3, 6, 4, NO_LSE, false, true, true, false},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static void name_case(const merge_case *m, ptxpack_dtype dtype, const char *row, char name[160])
{
    snprintf(name, 160, "merge %s d%d %dx%dx%d%s%s%s%s %s", ptxpack_dtype_name(dtype), (int)m->dim,
             (int)m->batch, (int)m->rows, (int)m->heads, m->f32 ? " f32 parts" : "", m->gaps ? " gaps" : "",
             m->repeated ? " repeated" : "", place_names[m->place], row);
}

static ptxpack_attention_merge_desc desc_of(const merge_case *m, ptxpack_dtype dtype)
{
    ptxpack_attention_merge_desc d = {
        .size = sizeof d,
        .dtype = dtype,
        .batch = m->batch,
        .seqlen_q = m->rows,
        .heads_q = m->heads,
        .head_dim = m->dim,
        .options = m->f32 ? PTXPACK_MERGE_F32_PARTS : 0,
    };
    int64_t wide = m->dim + 8;
    if (m->gaps) {
        d.o_b = (ptxpack_strides){(m->rows * m->heads + 2) * wide, m->heads * wide, wide};
        d.o = (ptxpack_strides){m->heads * m->rows * wide + 24, wide, m->rows * wide};
    }
    if (m->repeated)
        d.o_b = (ptxpack_strides){0, (int64_t)m->heads * m->dim, m->dim};
    return d;
}

/* ---- data --------------------------------------------------------------------------------------------- */
enum { PART_A, PART_B, LSE_A, LSE_B, OUT, OUT_LSE, REGIONS };

typedef struct merge_run {
    ptxpack_attention_merge_desc  desc;
    merge_geometry                geometry;
    ptxpack_attention_merge_plan *plan;
    check_region                  region[REGIONS];
    check_region                 *o, *lse; /* where they are written */
    double                       *want_o, *want_lse;
    char                          line[256];
} merge_run;

static float uniform(random_state *random, float low, float high)
{
    return low + (high - low) * (float)random_below(random, 1 << 20) / (1 << 20);
}

/* The log-sum-exps of vector i: each kind is a way in which parts may differ. */
static void draw_lse(random_state *random, int64_t i, float *a, float *b)
{
    *a = uniform(random, -5, 5);
    *b = uniform(random, -5, 5);
    switch (i % 11) {
    case 1:
        *a = -INFINITY;
        break;
    case 2:
        *b = -INFINITY;
        break;
    case 3:
        *a = *b = -INFINITY;
        break;
    case 4:
        *b = *a;
        break;
    case 5:
        *b = *a - 100;
        break;
    case 6:
        *a = *b - 100;
        break;
    case 7:
        *a += 10000, *b = *a + 1;
        break;
    case 8:
        *a -= 500, *b = *a + 3;
        break;
    case 9:
        *(random_below(random, 2) != 0 ? a : b) = random_below(random, 2) != 0 ? NAN : INFINITY;
        break;
    default:
        break;
    }
}

/* Random elements for every vector of a part; NaN for those that count nothing. */
static void fill_part(const merge_run *r, int tensor, random_state *random, void *to, const float *lse)
{
    const ptxpack_attention_merge_desc *d = &r->desc;
    const int64_t                      *stride = r->geometry.tensor[tensor].stride;
    bool                                f32 = (d->options & PTXPACK_MERGE_F32_PARTS) != 0;
    bool                                repeated = stride[MEMORY_BATCH] == 0 && d->batch > 1;
    for (int64_t i = 0; i < (int64_t)d->batch * d->heads_q * d->seqlen_q; i++) {
        int64_t row = i % d->seqlen_q, head = i / d->seqlen_q % d->heads_q,
                batch = i / d->seqlen_q / d->heads_q;
        uint8_t *at = (uint8_t *)to + batch * stride[MEMORY_BATCH] + row * stride[MEMORY_ROW] +
                      head * stride[MEMORY_HEAD];
        for (int64_t c = 0; c < d->head_dim && (repeated || lse[i] != -INFINITY); c++)
            if (f32)
                ((float *)at)[c] = uniform(random, -3, 3);
            else
                random_normal(random, d->dtype, at + 2 * c, 1);
    }
}

static bool make_run(merge_run *r, const merge_case *m, ptxpack_dtype dtype, random_state random)
{
    r->desc = desc_of(m, dtype);
    if (merge_resolve(&r->desc, &r->geometry, r->line) != PTXPACK_OK)
        return false;
    const size_t o_bytes = (size_t)r->geometry.tensor[MERGE_O].bytes, lse_bytes = (size_t)r->geometry.lse_bytes;
    bool         in_a = m->place == IN_A || m->place == O_IN_A_LSE_IN_B, in_b = m->place == IN_B;
    bool         lse_in_a = m->place == IN_A, lse_in_b = m->place == IN_B || m->place == O_IN_A_LSE_IN_B;
    bool         own_lse = m->place == APART;
    snprintf(r->line, sizeof r->line, "no memory");
    if (!check_region_make(&r->region[PART_A], (size_t)r->geometry.tensor[MERGE_A].bytes, !in_a) ||
        !check_region_make(&r->region[PART_B], (size_t)r->geometry.tensor[MERGE_B].bytes, !in_b) ||
        !check_region_make(&r->region[LSE_A], lse_bytes, !lse_in_a) ||
        !check_region_make(&r->region[LSE_B], lse_bytes, !lse_in_b) ||
        !check_region_make(&r->region[OUT], in_a || in_b ? 0 : o_bytes, false) ||
        !check_region_make(&r->region[OUT_LSE], own_lse ? lse_bytes : 0, false))
        return false;
    r->o = &r->region[in_a ? PART_A : in_b ? PART_B : OUT];
    r->lse = &r->region[lse_in_a ? LSE_A : lse_in_b ? LSE_B : OUT_LSE];
    r->want_o = (double *)calloc(o_bytes / 2, sizeof(double));
    r->want_lse = (double *)calloc(lse_bytes / sizeof(float), sizeof(double));
    if (r->want_o == NULL || r->want_lse == NULL)
        return false;
    float *a = (float *)check_region_fill(&r->region[LSE_A]),
          *b = (float *)check_region_fill(&r->region[LSE_B]);
    for (size_t i = 0; i < lse_bytes / sizeof(float); i++)
        draw_lse(&random, (int64_t)i, &a[i], &b[i]);
    fill_part(r, MERGE_A, &random, check_region_fill(&r->region[PART_A]), a);
    fill_part(r, MERGE_B, &random, check_region_fill(&r->region[PART_B]), b);
    return ptxpack_attention_merge_reference(&r->desc, check_region_fill(&r->region[PART_A]), a,
                                             check_region_fill(&r->region[PART_B]), b, r->want_o,
                                             r->want_lse) == PTXPACK_OK;
}

static void free_run(check *c, merge_run *r)
{
    for (int i = 0; i < REGIONS; i++)
        check_region_free(c, &r->region[i]);
    ptxpack_attention_merge_plan_free(r->plan);
    free(r->want_o);
    free(r->want_lse);
}

/* ---- a launch and its judgement ----------------------------------------------------------------------- */
static bool launch(check *c, merge_run *r)
{
    bool ok = true;
    for (int i = 0; i < REGIONS && ok; i++)
        ok = check_region_upload(c, &r->region[i]);
    const ptxpack_attention_merge_buffers b = {.size = sizeof b,
                                               .o_a = check_region_at(&r->region[PART_A]),
                                               .lse_a = check_region_at(&r->region[LSE_A]),
                                               .o_b = check_region_at(&r->region[PART_B]),
                                               .lse_b = check_region_at(&r->region[LSE_B]),
                                               .o = check_region_at(r->o),
                                               .lse = check_region_at(r->lse)};
    ok = ok && device_status(&c->gpu, ptxpack_attention_merge(r->plan, &b, c->gpu.stream));
    for (int i = 0; i < REGIONS && ok; i++)
        ok = check_region_download(c, &r->region[i]);
    return ok;
}

/* o is rounded once, from sums whose f32 errors are those of terms up to 6. */
static bool near_o(ptxpack_dtype type, double got, double want)
{
    double unit = type == PTXPACK_F16 ? 0x1p-11 : 0x1p-8;
    return isnan(want) ? isnan(got) : fabs(got - want) <= 1.01 * unit * fabs(want) + 4e-6;
}

static bool near_lse(double got, double want)
{
    return isnan(want) ? isnan(got) : got == want || fabs(got - want) <= 2e-6 + 0x1p-22 * fabs(want);
}

/* Returns NULL, or what is wrong.  `may_change` has room for the bytes of o. */
static const char *judge(merge_run *r, bool *may_change)
{
    const ptxpack_attention_merge_desc *d = &r->desc;
    const int64_t                      *stride = r->geometry.tensor[MERGE_O].stride;
    const float                        *lse = (const float *)(r->lse->after + CHECK_GUARD);
    int64_t                             place;
    for (int64_t i = 0; i < (int64_t)d->batch * d->heads_q * d->seqlen_q; i++) {
        int64_t row = i % d->seqlen_q, head = i / d->seqlen_q % d->heads_q,
                batch = i / d->seqlen_q / d->heads_q;
        int64_t at = batch * stride[MEMORY_BATCH] + row * stride[MEMORY_ROW] + head * stride[MEMORY_HEAD];
        for (int64_t c = 0; c < d->head_dim; c++) {
            double want = r->want_o[at / 2 + c];
            double got = ptxpack_element(d->dtype, r->o->after + CHECK_GUARD + at, (size_t)c);
            may_change[at + 2 * c] = may_change[at + 2 * c + 1] = true;
            if (!near_o(d->dtype, got, want)) {
                snprintf(r->line, sizeof r->line, "o[%d][%d][%d][%d] is %g, not %g", (int)batch, (int)row,
                         (int)head, (int)c, got, want);
                return r->line;
            }
        }
        if (r->lse->bytes != 0 && !near_lse(lse[i], r->want_lse[i])) {
            snprintf(r->line, sizeof r->line, "lse[%d][%d][%d] is %.9g, not %.9g", (int)batch, (int)head,
                     (int)row, (double)lse[i], r->want_lse[i]);
            return r->line;
        }
    }
    memset(may_change + r->o->bytes, 1, r->lse->bytes); /* all of the lse is written */
    for (int i = 0; i < REGIONS; i++) {
        const bool *may = &r->region[i] == r->o     ? may_change
                          : &r->region[i] == r->lse ? may_change + r->o->bytes
                                                    : NULL;
        if (!r->region[i].read_only && check_region_changed(&r->region[i], may, &place)) {
            snprintf(r->line, sizeof r->line,
                     "byte %lld of tensor %d, which is none of its elements, was written", (long long)place, i);
            return r->line;
        }
    }
    return NULL;
}

/* A second launch must give the same bits. */
static bool run_twice(check *c, merge_run *r, const char **what)
{
    const size_t o_bytes = r->o->bytes, lse_bytes = r->lse->bytes;
    uint8_t     *first = (uint8_t *)malloc(o_bytes + lse_bytes);
    bool        *may_change = (bool *)calloc(o_bytes + lse_bytes, sizeof(bool));
    bool         ok = first != NULL && may_change != NULL && launch(c, r);
    if (ok) {
        memcpy(first, r->o->after + CHECK_GUARD, o_bytes);
        if (lse_bytes != 0)
            memcpy(first + o_bytes, r->lse->after + CHECK_GUARD, lse_bytes);
        ok = launch(c, r);
    }
    if (ok && (memcmp(first, r->o->after + CHECK_GUARD, o_bytes) != 0 ||
               (lse_bytes != 0 && memcmp(first + o_bytes, r->lse->after + CHECK_GUARD, lse_bytes) != 0)))
        *what = "a second run gave other bits";
    else if (ok)
        *what = judge(r, may_change);
    free(first);
    free(may_change);
    return ok;
}

static void run_case(check *c, const merge_case *m, const ptxpack_variant *row, ptxpack_dtype dtype,
                     const char *name, random_state random)
{
    merge_run   r = {.plan = NULL};
    const char *what = NULL;
    if (!make_run(&r, m, dtype, random))
        check_broken(c, name, r.line);
    else if (ptxpack_attention_merge_plan_row(c->gpu.handle, &r.desc, row, &r.plan) != PTXPACK_OK)
        check_broken(c, name, ptxpack_detail(c->gpu.handle));
    else if (!run_twice(c, &r, &what))
        check_broken(c, name, c->gpu.line);
    else
        check_record(c, name, what);
    free_run(c, &r);
}

void check_merge(check *c)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    for (size_t i = 0; i < count; i++)
        for (int k = 0; k < 2 * CASES && !atomic_load(&c->broken); k++) {
            const merge_case *m = &cases[k / 2];
            ptxpack_dtype     dtype = k % 2 == 0 ? PTXPACK_F16 : PTXPACK_BF16;
            char              name[160];
            name_case(m, dtype, rows[i].id, name);
            if (check_row_runs(c, &rows[i], "attention_merge", dtype) && check_case_runs(c, name, m->quick))
                run_case(c, m, &rows[i], dtype, name, random_start(c->seed + (uint64_t)k));
        }
}
