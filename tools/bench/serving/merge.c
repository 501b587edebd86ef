/* merge.c - the merge of two partial attentions, as a case: the parts are random numbers of the arenas. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "serving.h"
#include "tools/problem/random.h"

typedef struct merge_state {
    ptxpack_attention_merge_desc  desc;
    ptxpack_attention_merge_plan *plan;
    float                        *lse[2]; /* in host memory, [heads][rows] */
    uint64_t                      lse_at[2];
} merge_state;

static size_t lse_count(const merge_state *s) { return (size_t)s->desc.heads_q * (size_t)s->desc.seqlen_q; }

static bool make_lse(bench_run *run, bench_case *c, merge_state *s)
{
    random_state random = random_start((uint64_t)run->settings->seed);
    const size_t count = lse_count(s);
    bool         ok = true;
    for (int part = 0; part < 2 && ok; part++) {
        s->lse[part] = (float *)malloc(count * sizeof(float));
        ok = s->lse[part] != NULL || bench_wrong(run, c, "no memory");
        if (ok)
            random_scales(&random, s->lse[part], count);
        ok = ok && device_alloc(run->gpu, &s->lse_at[part], count * sizeof(float)) &&
             device_upload(run->gpu, s->lse_at[part], s->lse[part], count * sizeof(float));
    }
    return ok;
}

static bool make_case(bench_run *run, bench_case *c)
{
    merge_state *s = (merge_state *)c->state;
    run->plans++;
    bool ok = device_status(run->gpu,
                            ptxpack_attention_merge_plan_create(run->gpu->handle, &s->desc, &s->plan));
    c->kernel = ptxpack_attention_merge_kernel(s->plan);
    return ok && make_lse(run, c, s);
}

static bool launch_case(bench_run *run, bench_case *c, int set)
{
    const merge_state                    *s = (const merge_state *)c->state;
    const ptxpack_attention_merge_buffers buffers = {.size = sizeof buffers,
                                                     .o_a = bench_at(run, c, ARENA_K, set),
                                                     .lse_a = s->lse_at[0],
                                                     .o_b = bench_at(run, c, ARENA_V, set),
                                                     .lse_b = s->lse_at[1],
                                                     .o = bench_at(run, c, ARENA_O, set)};
    return device_status(run->gpu, ptxpack_attention_merge(s->plan, &buffers, run->gpu->stream));
}

/* Compares one row of one head with the reference on the host. */
static bool compare(bench_run *run, bench_case *c, int set, size_t row, size_t head)
{
    const merge_state                 *s = (const merge_state *)c->state;
    const size_t                       dim = (size_t)s->desc.head_dim, heads = (size_t)s->desc.heads_q;
    const uint64_t                     at = (row * heads + head) * dim * sizeof(uint16_t);
    const size_t                       lse = head * (size_t)s->desc.seqlen_q + row;
    const double                       part = s->desc.dtype == PTXPACK_BF16 ? 0x1p-8 : 0x1p-10;
    const ptxpack_attention_merge_desc one = {.size = sizeof one,
                                              .dtype = s->desc.dtype,
                                              .batch = 1,
                                              .seqlen_q = 1,
                                              .heads_q = 1,
                                              .head_dim = s->desc.head_dim};
    uint16_t *bits = (uint16_t *)malloc(3 * dim * sizeof *bits); /* the parts, and the result */
    double   *want = (double *)malloc(dim * sizeof *want);
    bool      ok = (bits != NULL && want != NULL) || bench_wrong(run, c, "no memory");
    for (int i = 0; i < 3 && ok; i++) {
        static const int arenas[] = {ARENA_K, ARENA_V, ARENA_O};
        ok = device_download(run->gpu, bits + (size_t)i * dim, bench_at(run, c, arenas[i], set) + at,
                             dim * sizeof *bits);
    }
    if (ok && ptxpack_attention_merge_reference(&one, bits, s->lse[0] + lse, bits + dim, s->lse[1] + lse, want,
                                                NULL) != PTXPACK_OK)
        ok = bench_wrong(run, c, "%s", ptxpack_detail(NULL));
    for (size_t i = 0; i < dim && ok; i++) {
        double got = ptxpack_to_float(s->desc.dtype, bits[2 * dim + i]);
        if (!(fabs(got - want[i]) <= fabs(want[i]) * part + 1e-5))
            ok = bench_wrong(run, c, "wrong: row %zu, head %zu, element %zu is %g, not %g", row, head, i, got,
                             want[i]);
    }
    free(bits);
    free(want);
    return ok;
}

static bool check_case(bench_run *run, bench_case *c)
{
    const ptxpack_attention_merge_desc *d = &((const merge_state *)c->state)->desc;
    return launch_case(run, c, 0) && compare(run, c, 0, 0, 0) && launch_case(run, c, c->sets - 1) &&
           compare(run, c, c->sets - 1, (size_t)d->seqlen_q - 1, (size_t)d->heads_q - 1);
}

static void free_case(bench_run *run, bench_case *c)
{
    merge_state *s = (merge_state *)c->state;
    for (int part = 0; part < 2; part++) {
        device_free(run->gpu, s->lse_at[part]);
        free(s->lse[part]);
    }
    ptxpack_attention_merge_plan_free(s->plan);
}

int bench_add_merge(bench_run *run, const serving_sizes *sizes, int32_t rows)
{
    static const bench_kind merge = {make_case, launch_case, check_case, free_case};
    int                     index = bench_add(run, &merge, "merge", sizeof(merge_state));
    if (index < 0)
        return index;
    bench_case  *c = &run->cases[index];
    merge_state *s = (merge_state *)c->state;
    s->desc = (ptxpack_attention_merge_desc){.size = sizeof s->desc,
                                             .dtype = run->settings->dtype,
                                             .batch = 1,
                                             .seqlen_q = rows,
                                             .heads_q = sizes->heads_q,
                                             .head_dim = run->head_dim};
    snprintf(c->name, sizeof c->name, "%d rows", (int)rows);
    const size_t bytes = lse_count(s) * (size_t)run->head_dim * ptxpack_dtype_bytes(s->desc.dtype);
    c->bytes[ARENA_K] = c->bytes[ARENA_V] = c->bytes[ARENA_O] = bytes;
    c->work = 3.0 * (double)bytes + 2.0 * sizeof(float) * (double)lse_count(s);
    bench_rotate(run, c, 2 * bytes);
    return index;
}
