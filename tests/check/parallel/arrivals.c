/* arrivals.c - attention whose keys come in pieces: all of them have come, in k and v or in the rank's own tensors; what is not
 * there, or is not attended to, is NaN.  That kernels wait is tested where several devices are (tests/host/parallel). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/attention/inspect.h"
#include "tests/check/heads.h"
#include "tests/check/region.h"
#include "tools/problem/random.h"
#include "tools/problem/verify.h"

/* The rank's rows are pieces `first` and, unless it is below 0, `second` and as many more behind it; there are no keys behind the
 * last of them. */
typedef struct arrivals_case {
    int32_t batch, heads_q, heads_kv, head_dim, head_dim_v, rows, first, second, more;
    bool    own; /* its own pieces are in k_own and v_own, otherwise in k and v, too */
    float   softcap;
    bool    sinks, no_lse, quick;
} arrivals_case;

static const arrivals_case cases[] = {
    {2, 2, 1, 64, 0, 128, 0, 3, 0, true, 0, false, false, true},
    {1, 2, 1, 64, 0, 128, 1, 3, 1, true, 0, false, false, true},
    {1, 2, 1, 64, 0, 384, 1, 2, 0, true, 0, true, false, true},
    {1, 2, 1, 64, 0, 128, 1, 4, 0, true, 0, false, false, false},
    {1, 3, 1, 40, 0, 128, 2, -1, 0, true, 0, false, true, true},
    {2, 2, 1, 128, 0, 128, 1, 2, 0, true, 0, false, false, true},
    {1, 1, 1, 128, 0, 384, 0, 1, 0, true, 20, false, false, false},
    {2, 2, 1, 96, 0, 128, 0, 3, 0, false, 0, false, false, false},
    {1, 1, 1, 128, 0, 256, 0, -1, 0, true, 0, true, false, false},
    {1, 2, 1, 192, 128, 128, 0, 3, 0, true, 0, false, false, false},
    {2, 2, 1, 192, 0, 160, 1, -1, 0, true, 0, false, false, false},
    {1, 1, 1, 256, 0, 192, 0, 3, 0, true, 0, true, false, false},
    {2, 1, 1, 256, 0, 128, 1, 2, 0, true, 30, false, false, true},
};
enum { CASES = sizeof cases / sizeof cases[0] };
enum { Q, K, V, K_OWN, V_OWN, WORDS, SINKS, O, LSE, REGIONS };

typedef struct arrivals_run {
    const arrivals_case    *a;
    ptxpack_attention_desc  desc;
    ptxpack_attention_plan *plan;
    uint64_t                workspace;
    uint16_t               *k, *v; /* whole, for the reference */
    check_region            region[REGIONS];
    char                    line[160];
} arrivals_run;

static ptxpack_attention_desc desc_of(const arrivals_case *a, ptxpack_dtype dtype)
{
    const int32_t last = a->second >= 0 ? a->second + a->more : a->first;
    return (ptxpack_attention_desc){
        .size = sizeof(ptxpack_attention_desc),
        .dtype = dtype,
        .batch = a->batch,
        .seqlen_q = a->second >= 0 ? (2 + a->more) * a->rows : a->rows,
        .seqlen_kv = (last + 1) * a->rows,
        .heads_q = a->heads_q,
        .heads_kv = a->heads_kv,
        .head_dim = a->head_dim,
        .head_dim_v = a->head_dim_v,
        .mask = PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT,
        .softcap = a->softcap,
        .options = a->sinks ? PTXPACK_SINKS : 0,
        .arrival_rows = a->rows,
        .early_rows = a->second >= 0 ? a->rows : 0,
        .early_keys = a->second >= 0 ? (a->second - 1 - a->first) * a->rows : 0,
    };
}

/* ---- tensors ------------------------------------------------------------------------------------------ */
/* Where piece `p` of the rank's own begins in its tensors; below 0: it is another's. */
static int32_t own_row(const arrivals_case *a, int32_t p)
{
    const bool later = a->second >= 0 && p >= a->second;
    return p == a->first ? 0 : later ? (1 + p - a->second) * a->rows : -1;
}

/* The rows of `whole` go to where the words say that they are; other rows stay NaN. */
static void deal_out(const arrivals_run *r, const uint16_t *whole, int64_t row, uint16_t *there, uint16_t *own)
{
    const ptxpack_attention_desc *d = &r->desc;
    for (int64_t b = 0; b < d->batch; b++)
        for (int32_t p = 0; p * r->a->rows < d->seqlen_kv; p++) {
            const int64_t first = b * d->seqlen_kv + p * r->a->rows;
            const int32_t mine = r->a->own ? own_row(r->a, p) : -1;
            memcpy(mine < 0 ? there + first * row : own + (b * d->seqlen_q + mine) * row, whole + first * row,
                   (size_t)(r->a->rows * row) * sizeof *whole);
        }
}

static bool make_regions(arrivals_run *r, size_t kv, size_t own)
{
    const ptxpack_attention_desc *d = &r->desc;
    const size_t rows = (size_t)(d->batch * d->seqlen_q * d->heads_q), columns = (size_t)attention_value_dim(d),
                 d_kv = (size_t)(d->heads_kv * d->head_dim), d_v = (size_t)d->heads_kv * columns;
    const struct {
        size_t bytes;
        bool   read_only;
    } want[REGIONS] = {[Q] = {2 * rows * (size_t)d->head_dim, true},
                       [K] = {2 * kv * d_kv, true},
                       [V] = {2 * kv * d_v, true},
                       [K_OWN] = {r->a->own ? 2 * own * d_kv : 0, true},
                       [V_OWN] = {r->a->own ? 2 * own * d_v : 0, true},
                       [WORDS] = {4 * (size_t)(d->seqlen_kv / r->a->rows), true},
                       [SINKS] = {r->a->sinks ? 4 * (size_t)d->heads_q : 0, true},
                       [O] = {2 * rows * columns, false},
                       [LSE] = {r->a->no_lse ? 0 : 4 * rows, false}};
    for (int i = 0; i < REGIONS; i++)
        if (!check_region_make(&r->region[i], want[i].bytes, want[i].read_only))
            return false;
    r->k = (uint16_t *)malloc(want[K].bytes);
    r->v = (uint16_t *)malloc(want[V].bytes);
    return r->k != NULL && r->v != NULL;
}

static bool make_run(arrivals_run *r, const arrivals_case *a, ptxpack_dtype dtype, random_state random)
{
    r->a = a;
    r->desc = desc_of(a, dtype);
    const ptxpack_attention_desc *d = &r->desc;
    const size_t  kv = (size_t)(d->batch * d->seqlen_kv), own = (size_t)(d->batch * d->seqlen_q);
    const int64_t k_row = (int64_t)d->heads_kv * d->head_dim,
                  v_row = (int64_t)d->heads_kv * attention_value_dim(d);
    if (!make_regions(r, kv, own))
        return false;
    random_normal(&random, dtype, (uint16_t *)check_region_fill(&r->region[Q]), r->region[Q].bytes / 2);
    random_normal(&random, dtype, r->k, r->region[K].bytes / 2);
    random_normal(&random, dtype, r->v, r->region[V].bytes / 2);
    deal_out(r, r->k, k_row, (uint16_t *)check_region_fill(&r->region[K]),
             (uint16_t *)check_region_fill(&r->region[K_OWN]));
    deal_out(r, r->v, v_row, (uint16_t *)check_region_fill(&r->region[V]),
             (uint16_t *)check_region_fill(&r->region[V_OWN]));
    uint32_t *words = (uint32_t *)check_region_fill(&r->region[WORDS]);
    for (int32_t p = 0; p < d->seqlen_kv / a->rows; p++)
        words[p] = a->own && own_row(a, p) >= 0 ? 2 + (uint32_t)own_row(a, p) : 1;
    if (a->sinks)
        check_fill_sinks((float *)check_region_fill(&r->region[SINKS]), d->heads_q, 0);
    return true;
}

/* ---- a case ------------------------------------------------------------------------------------------- */
static bool launch(check *c, arrivals_run *r)
{
    bool ok = true;
    for (int i = 0; i < REGIONS && ok; i++)
        ok = check_region_upload(c, &r->region[i]);
    const ptxpack_attention_buffers b = {.size = sizeof b,
                                         .q = check_region_at(&r->region[Q]),
                                         .k = check_region_at(&r->region[K]),
                                         .v = check_region_at(&r->region[V]),
                                         .o = check_region_at(&r->region[O]),
                                         .lse = check_region_at(&r->region[LSE]),
                                         .workspace = r->workspace,
                                         .sinks = check_region_at(&r->region[SINKS]),
                                         .arrivals = check_region_at(&r->region[WORDS]),
                                         .k_own = check_region_at(&r->region[K_OWN]),
                                         .v_own = check_region_at(&r->region[V_OWN])};
    ok = ok && device_status(&c->gpu, ptxpack_attention_launch(r->plan, &b, c->gpu.stream));
    for (int i = 0; i < REGIONS && ok; i++)
        ok = check_region_download(c, &r->region[i]);
    return ok;
}

/* Returns NULL, or what is wrong. */
static const char *judge(arrivals_run *r)
{
    const ptxpack_attention_lengths lengths = {
        .sinks = r->a->sinks ? (const float *)(const void *)(r->region[SINKS].before + CHECK_GUARD) : NULL};
    verify_result result;
    int64_t       place;
    const float  *lse = r->a->no_lse ? NULL : (const float *)(const void *)(r->region[LSE].after + CHECK_GUARD);
    if (verify_attention_lengths(&r->desc, r->region[Q].before + CHECK_GUARD, r->k, r->v, NULL, &lengths,
                                 (const uint16_t *)(const void *)(r->region[O].after + CHECK_GUARD), lse,
                                 SIZE_MAX, 1, &result) != PTXPACK_OK)
        return ptxpack_detail(NULL);
    if (!result.pass) {
        snprintf(r->line, sizeof r->line, "error %g of o, bound %g; %g of the lse, bound %g", result.out_error,
                 result.bound, result.lse_error, result.lse_bound);
        return r->line;
    }
    for (int i = O; i <= LSE; i++) {
        bool *all = (bool *)malloc(r->region[i].bytes + 1);
        if (all == NULL)
            return "no memory";
        memset(all, 1, r->region[i].bytes);
        const bool changed = check_region_changed(&r->region[i], all, &place);
        free(all);
        if (changed)
            return "a byte beside an output was written";
    }
    return NULL;
}

static bool run_twice(check *c, arrivals_run *r, const char **what)
{
    uint8_t *first = (uint8_t *)malloc(r->region[O].bytes);
    bool     ok = first != NULL &&
              device_alloc_zeros(&c->gpu, &r->workspace, ptxpack_attention_workspace(r->plan)) && launch(c, r);
    if (ok) {
        *what = judge(r);
        memcpy(first, r->region[O].after + CHECK_GUARD, r->region[O].bytes);
    }
    if (ok && *what == NULL &&
        check_repeats(c, 1)) { /* the first launch must leave the workspace as it found it */
        ok = launch(c, r);
        if (ok && memcmp(first, r->region[O].after + CHECK_GUARD, r->region[O].bytes) != 0)
            *what = "a second run gave other bits";
    }
    free(first);
    return ok;
}

static void run_case(check *c, const arrivals_case *a, const ptxpack_variant *row, ptxpack_dtype dtype,
                     const char *name, random_state random)
{
    arrivals_run r = {.plan = NULL};
    const char  *what = NULL;
    if (!make_run(&r, a, dtype, random))
        check_broken(c, name, "no memory");
    else if (ptxpack_attention_plan_row(c->gpu.handle, &r.desc, row, &r.plan) != PTXPACK_OK)
        check_broken(c, name, ptxpack_detail(c->gpu.handle));
    else if (!run_twice(c, &r, &what))
        check_broken(c, name, c->gpu.line);
    else
        check_record(c, name, what);
    for (int i = 0; i < REGIONS; i++)
        check_region_free(c, &r.region[i]);
    device_free(&c->gpu, r.workspace);
    ptxpack_attention_plan_free(r.plan);
    free(r.k);
    free(r.v);
}

/* Rows for larger heads show nothing more. */
static bool meant_for(const ptxpack_variant *row, const ptxpack_attention_desc *d)
{
    enum { MOST_PADDING = 64 };
    return attention_op.covers(row, d) &&
           ptxpack_variant_parameter(row, "HEAD_DIM", 0) < d->head_dim + MOST_PADDING;
}

void check_arrivals(check *c)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    for (size_t i = 0; i < count; i++)
        for (int k = 0; k < 2 * CASES && !atomic_load(&c->broken); k++) {
            const arrivals_case         *a = &cases[k / 2];
            const ptxpack_dtype          dtype = k % 2 == 0 ? PTXPACK_F16 : PTXPACK_BF16;
            const ptxpack_attention_desc d = desc_of(a, dtype);
            char                         name[160], why[256];
            snprintf(name, sizeof name, "arrivals %s d%d/%d %d/%d %dx%dx%d%s%s%s %s", ptxpack_dtype_name(dtype),
                     (int)a->head_dim, (int)attention_value_dim(&d), (int)a->heads_q, (int)a->heads_kv,
                     (int)a->batch, (int)d.seqlen_q, (int)d.seqlen_kv, a->own ? "" : " none of its own",
                     a->softcap > 0 ? " softcap" : "", a->sinks ? " sinks" : "", rows[i].id);
            if (check_row_runs(c, &rows[i], "attention", dtype) && meant_for(&rows[i], &d) &&
                plan_row_refusal(&attention_op, c->gpu.handle, &ptxpack_device(c->gpu.handle)->caps, &d,
                                 &rows[i], why) == NULL &&
                check_case_runs(c, name, a->quick))
                run_case(c, a, &rows[i], dtype, name, random_start(c->seed + (uint64_t)k));
        }
}
