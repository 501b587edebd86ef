/* parts.c - merges of any number of partial attentions against double precision: weights of every kind, parts that are
 * further apart than they are long, or listed; outputs with strides. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/parallel/inspect.h"
#include "host/scalars.h"
#include "tests/check/region.h"
#include "tools/problem/random.h"

typedef struct parts_case {
    int32_t parts, dim, batch, rows, heads;
    bool    apart; /* as in an exchange: the lse of a part follows its o, before the next part */
    bool    heads_first, no_lse, quick, listed;
} parts_case;

/* 80 elements are ten threads, so that six of a block are left over; 8 are one thread, 1024 half a block. */
static const parts_case cases[] = {
    {2, 128, 2, 5, 3, false, false, false, true, false}, {3, 80, 2, 11, 3, true, true, false, true, false},
    {1, 64, 1, 7, 2, false, false, false, false, false}, {5, 8, 3, 101, 2, true, false, false, false, false},
    {4, 1024, 1, 3, 5, false, true, true, false, false}, {9, 128, 3, 6, 4, true, false, false, true, false},
    {2, 128, 2, 5, 3, true, true, false, true, true},    {8, 80, 2, 11, 3, true, false, false, true, true},
    {5, 8, 3, 101, 2, true, false, true, false, true},
};
enum { CASES = sizeof cases / sizeof cases[0] };
enum { PARTS, OUT, OUT_LSE, REGIONS };

typedef struct parts_run {
    const parts_case   *c;
    merge_parts_desc    desc;
    merge_parts_plan   *plan;
    merge_parts_buffers at; /* offsets until a launch */
    check_region        region[REGIONS];
    char                line[160];
} parts_run;

static float uniform(random_state *random, float low, float high)
{
    return low + (high - low) * (float)random_below(random, 1 << 20) / (1 << 20);
}

/* Vectors of all kinds: parts of which some, or all, or none count; far apart ones; and what no attention gives. */
static float draw_lse(random_state *random, int64_t vector, int32_t part)
{
    float lse = uniform(random, -5, 5);
    switch (vector % 9) {
    case 1:
        return part % 2 == 0 ? -INFINITY : lse;
    case 2:
        return -INFINITY;
    case 3:
        return lse - 100 * (float)part;
    case 4:
        return lse + 10000;
    case 5:
        return part == 1 ? lse : -INFINITY;
    case 6:
        return vector % 2 == 0 && part == 0 ? NAN : vector % 7 == 0 && part == 0 ? INFINITY : lse;
    default:
        return lse;
    }
}

static int64_t vector_of(const parts_run *r, int64_t i) /* heads before rows, of heads after rows */
{
    int64_t row = i % r->desc.rows, head = i / r->desc.rows % r->desc.heads;
    return (i / r->desc.rows / r->desc.heads * r->desc.rows + row) * r->desc.heads + head;
}

static bool make_run(parts_run *r, const parts_case *m, ptxpack_dtype dtype, random_state random)
{
    const int64_t vectors = (int64_t)m->batch * m->rows * m->heads, o_bytes = 2 * m->dim * vectors;
    const int64_t lse_bytes = 4 * vectors, record = (o_bytes + lse_bytes + 15) / 16 * 16;
    r->c = m;
    r->desc = (merge_parts_desc){dtype, m->batch, m->rows, m->heads, m->dim, m->parts, {0, 0, 0}, m->listed};
    if (m->heads_first)
        r->desc.o = (ptxpack_strides){m->heads * m->rows * (m->dim + 8) + 24, m->dim + 8,
                                      m->rows * (m->dim + 8)};
    r->at = (merge_parts_buffers){.parts_lse = (uint64_t)(m->apart ? o_bytes : o_bytes * m->parts),
                                  .o_part = m->apart ? record : o_bytes,
                                  .lse_part = m->apart ? record : lse_bytes};
    const size_t out = (size_t)(m->heads_first ? 2 * r->desc.o.batch * m->batch : o_bytes);
    if (!check_region_make(&r->region[PARTS], (size_t)(record * m->parts), true) ||
        !check_region_make(&r->region[OUT], out, false) ||
        !check_region_make(&r->region[OUT_LSE], m->no_lse ? 0 : (size_t)lse_bytes, false))
        return false;
    uint8_t *parts = (uint8_t *)check_region_fill(&r->region[PARTS]);
    for (int32_t p = 0; p < m->parts; p++)
        for (int64_t i = 0; i < vectors; i++) {
            float lse = draw_lse(&random, i, p);
            memcpy(parts + r->at.parts_lse + p * r->at.lse_part + 4 * i, &lse, 4);
            if (lse != -INFINITY) /* otherwise its o is NaN */
                random_normal(&random, dtype,
                              (uint16_t *)(void *)(parts + p * r->at.o_part + 2 * m->dim * vector_of(r, i)),
                              (size_t)m->dim);
        }
    return true;
}

static bool launch(check *c, parts_run *r)
{
    bool ok = true;
    for (int i = 0; i < REGIONS && ok; i++)
        ok = check_region_upload(c, &r->region[i]);
    const uint64_t      parts = check_region_at(&r->region[PARTS]);
    merge_parts_buffers b = r->at;
    b.parts_o = parts;
    b.parts_lse += parts;
    b.o = check_region_at(&r->region[OUT]);
    b.lse = check_region_at(&r->region[OUT_LSE]);
    for (int32_t p = 0; r->c->listed && p < r->c->parts; p++)
        b.list.at[p] = parts + (uint64_t)(p * b.o_part);
    b.list_lse = (int64_t)(b.parts_lse - b.parts_o);
    ok = ok && device_status(&c->gpu, plan_launch(&r->plan->head, &b, c->gpu.stream));
    for (int i = 0; i < REGIONS && ok; i++)
        ok = check_region_download(c, &r->region[i]);
    return ok;
}

/* o is rounded once, from sums whose f32 errors are those of a few terms up to 6. */
static bool near_o(ptxpack_dtype type, double got, double want)
{
    double unit = type == PTXPACK_F16 ? 0x1p-11 : 0x1p-8;
    return isnan(want) ? isnan(got) : fabs(got - want) <= 1.01 * unit * fabs(want) + 8e-6;
}

static bool near_lse(double got, double want)
{
    return isnan(want) ? isnan(got) : got == want || fabs(got - want) <= 3e-6 + 0x1p-22 * fabs(want);
}

/* The weights of the parts of vector i; returns the lse. */
static double weigh(const parts_run *r, int64_t i, double *weight)
{
    const uint8_t *lse = r->region[PARTS].before + CHECK_GUARD + r->at.parts_lse + 4 * i;
    double         most = -INFINITY, sum = 0;
    bool           odd = false;
    for (int32_t p = 0; p < r->desc.parts; p++) {
        float value;
        memcpy(&value, lse + p * r->at.lse_part, 4);
        odd |= isnan(value) || value == INFINITY;
        weight[p] = value;
        most = value > most ? value : most;
    }
    for (int32_t p = 0; p < r->desc.parts; p++) {
        weight[p] = odd ? NAN : most == -INFINITY ? 0 : exp(weight[p] - most);
        sum += weight[p];
    }
    for (int32_t p = 0; p < r->desc.parts && sum != 0; p++)
        weight[p] /= sum;
    return most + log(sum);
}

/* Returns NULL, or what is wrong. */
static const char *judge(parts_run *r, bool *may_change)
{
    const merge_parts_desc *d = &r->desc;
    const int64_t          *stride = r->plan->geometry.stride;
    int64_t                 place;
    for (int64_t i = 0; i < (int64_t)d->batch * d->rows * d->heads; i++) {
        double  weight[16], lse = weigh(r, i, weight);
        int64_t row = i % d->rows, head = i / d->rows % d->heads, batch = i / d->rows / d->heads;
        int64_t at = batch * stride[MEMORY_BATCH] + row * stride[MEMORY_ROW] + head * stride[MEMORY_HEAD];
        for (int64_t e = 0; e < d->head_dim; e++) {
            double got = ptxpack_element(d->dtype, r->region[OUT].after + CHECK_GUARD + at, (size_t)e),
                   want = 0;
            for (int32_t p = 0; p < d->parts; p++)
                if (weight[p] != 0)
                    want += weight[p] *
                            ptxpack_element(d->dtype, r->region[PARTS].before + CHECK_GUARD + p * r->at.o_part,
                                            (size_t)(vector_of(r, i) * d->head_dim + e));
            may_change[at + 2 * e] = may_change[at + 2 * e + 1] = true;
            if (near_o(d->dtype, got, want))
                continue;
            snprintf(r->line, sizeof r->line, "o[%d][%d][%d][%d] is %g, not %g", (int)batch, (int)row,
                     (int)head, (int)e, got, want);
            return r->line;
        }
        float got = r->c->no_lse ? 0
                                 : ((const float *)(const void *)(r->region[OUT_LSE].after + CHECK_GUARD))[i];
        if (r->c->no_lse || near_lse(got, lse))
            continue;
        snprintf(r->line, sizeof r->line, "lse[%d][%d][%d] is %.9g, not %.9g", (int)batch, (int)head, (int)row,
                 (double)got, lse);
        return r->line;
    }
    memset(may_change + r->region[OUT].bytes, 1, r->region[OUT_LSE].bytes); /* all of the lse is written */
    if (!check_region_changed(&r->region[OUT], may_change, &place) &&
        !check_region_changed(&r->region[OUT_LSE], may_change + r->region[OUT].bytes, &place))
        return NULL;
    snprintf(r->line, sizeof r->line, "byte %lld, which is none of an output's elements, was written",
             (long long)place);
    return r->line;
}

/* A second launch must give the same bits. */
static bool run_twice(check *c, parts_run *r, const char **what)
{
    const size_t bytes = r->region[OUT].bytes;
    uint8_t     *first = (uint8_t *)malloc(bytes);
    bool        *may_change = (bool *)calloc(bytes + r->region[OUT_LSE].bytes, sizeof(bool));
    bool         ok = first != NULL && may_change != NULL && launch(c, r);
    if (ok) {
        memcpy(first, r->region[OUT].after + CHECK_GUARD, bytes);
        ok = launch(c, r);
    }
    if (ok)
        *what = memcmp(first, r->region[OUT].after + CHECK_GUARD, bytes) != 0 ? "a second run gave other bits"
                                                                              : judge(r, may_change);
    free(first);
    free(may_change);
    return ok;
}

static void run_case(check *c, const parts_case *m, const ptxpack_variant *row, ptxpack_dtype dtype,
                     const char *name, random_state random)
{
    parts_run   r = {.plan = NULL};
    plan_head  *made = NULL;
    const char *what = NULL;
    if (!make_run(&r, m, dtype, random))
        check_broken(c, name, "no memory");
    else if (plan_create(&merge_parts_op, c->gpu.handle, &r.desc, row, &made) != PTXPACK_OK)
        check_broken(c, name, ptxpack_detail(c->gpu.handle));
    else if (r.plan = (merge_parts_plan *)(void *)made, !run_twice(c, &r, &what))
        check_broken(c, name, c->gpu.line);
    else
        check_record(c, name, what);
    for (int i = 0; i < REGIONS; i++)
        check_region_free(c, &r.region[i]);
    free(made);
}

void check_parts(check *c)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    for (size_t i = 0; i < count; i++)
        for (int k = 0; k < 2 * CASES && !atomic_load(&c->broken); k++) {
            const parts_case *m = &cases[k / 2];
            ptxpack_dtype     dtype = k % 2 == 0 ? PTXPACK_F16 : PTXPACK_BF16;
            char              name[160];
            snprintf(name, sizeof name, "merge of %d %sparts %s d%d %dx%dx%d%s%s%s %s", (int)m->parts,
                     m->listed ? "listed " : "", ptxpack_dtype_name(dtype), (int)m->dim, (int)m->batch,
                     (int)m->rows, (int)m->heads, m->apart ? " apart" : "",
                     m->heads_first ? " heads first" : "", m->no_lse ? " no lse" : "", rows[i].id);
            if (check_row_runs(c, &rows[i], "attention_merge_parts", dtype) &&
                check_case_runs(c, name, m->quick))
                run_case(c, m, &rows[i], dtype, name, random_start(c->seed + (uint64_t)k));
        }
}
