/* append.c - new rows of keys and values into a cache, with rotary embedding, as a case. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "append.h"
#include "serving.h"

/* ---- the problem --------------------------------------------------------------------------------------- */
/* Real angles: a position's key keeps its length. */
static bool make_angles(append_state *s, ptxpack_dtype dtype)
{
    const size_t half = (size_t)s->desc.rotary_dim / 2, count = (size_t)s->desc.positions * half;
    s->cos = (uint16_t *)malloc(2 * (count + 1) * sizeof *s->cos);
    if (s->cos == NULL)
        return false;
    s->sin = s->cos + count;
    for (size_t i = 0; i < count; i++) {
        double angle = (double)(i / half) * pow(10000, -(double)(i % half) / (double)half);
        s->cos[i] = ptxpack_from_float(dtype, (float)cos(angle));
        s->sin[i] = ptxpack_from_float(dtype, (float)sin(angle));
    }
    return true;
}

bool append_describe(append_state *s, const ptxpack_attention_desc *cache, int32_t rows, const int32_t *table)
{
    const size_t batch = (size_t)cache->batch, width = (size_t)cache->table_width;
    s->desc = (ptxpack_attention_append_desc){.size = sizeof s->desc,
                                              .dtype = cache->dtype,
                                              .batch = cache->batch,
                                              .seqlen_new = rows,
                                              .seqlen_kv = cache->seqlen_kv,
                                              .heads_kv = cache->heads_kv,
                                              .head_dim = cache->head_dim,
                                              .rotary_dim = cache->head_dim / 16 * 16,
                                              .positions = cache->seqlen_kv,
                                              .kv_rows = cache->kv_rows,
                                              .rows_kv = cache->rows_kv,
                                              .page_rows = cache->page_rows,
                                              .table_width = cache->table_width};
    s->lengths = (int32_t *)calloc(batch + 1, sizeof *s->lengths);
    s->table = (int32_t *)calloc(batch * width + 1, sizeof *s->table);
    if (s->lengths == NULL || s->table == NULL || !make_angles(s, cache->dtype))
        return false;
    for (size_t i = 0; i < batch; i++)
        s->lengths[i] = cache->seqlen_kv;
    if (table != NULL)
        memcpy(s->table, table, batch * width * sizeof *table);
    return true;
}

/* ---- the plan and a launch ------------------------------------------------------------------------------ */
bool append_make(bench_run *run, append_state *s)
{
    const size_t angles = (size_t)s->desc.positions * (size_t)s->desc.rotary_dim * sizeof *s->cos; /* of both */
    run->plans++;
    return device_status(run->gpu,
                         ptxpack_attention_append_plan_create(run->gpu->handle, &s->desc, &s->plan)) &&
           bench_upload(run, &s->lengths_at, s->lengths, (size_t)s->desc.batch) &&
           bench_upload(run, &s->table_at, s->table, (size_t)s->desc.batch * (size_t)s->desc.table_width) &&
           device_alloc(run->gpu, &s->cos_at, angles) && device_upload(run->gpu, s->cos_at, s->cos, angles);
}

bool append_launch(bench_run *run, append_state *s, uint64_t rows, uint64_t k, uint64_t v, uint64_t lengths)
{
    const ptxpack_attention_append_desc *d = &s->desc;
    const uint64_t                       element = ptxpack_dtype_bytes(d->dtype);
    const uint64_t half = (uint64_t)d->batch * (uint64_t)d->seqlen_new * (uint64_t)d->heads_kv *
                          (uint64_t)d->head_dim * element;
    const ptxpack_attention_append_buffers buffers = {.size = sizeof buffers,
                                                      .k_new = rows,
                                                      .v_new = rows + half,
                                                      .k = k,
                                                      .v = v,
                                                      .cos = s->cos_at,
                                                      .sin = s->cos_at + (uint64_t)d->positions *
                                                                             (uint64_t)d->rotary_dim / 2 *
                                                                             element,
                                                      .lengths_kv = lengths != 0 ? lengths : s->lengths_at,
                                                      .page_table = s->table_at};
    return device_status(run->gpu, ptxpack_attention_append(s->plan, &buffers, run->gpu->stream));
}

void append_free(bench_run *run, append_state *s)
{
    device_free(run->gpu, s->lengths_at);
    device_free(run->gpu, s->table_at);
    device_free(run->gpu, s->cos_at);
    ptxpack_attention_append_plan_free(s->plan);
    free(s->lengths);
    free(s->table);
    free(s->cos);
}

/* ---- the case ------------------------------------------------------------------------------------------- */
static bool make_case(bench_run *run, bench_case *c)
{
    append_state *s = (append_state *)c->state;
    bool          ok = append_make(run, s);
    c->kernel = ptxpack_attention_append_kernel(s->plan);
    return ok;
}

static bool launch_case(bench_run *run, bench_case *c, int set)
{
    return append_launch(run, (append_state *)c->state, bench_at(run, c, ARENA_Q, set),
                         bench_at(run, c, ARENA_K, set), bench_at(run, c, ARENA_V, set), 0);
}

/* Where a row of the cache is, in rows from the beginning. */
static size_t cache_row(const append_state *s, int32_t sequence, int32_t row)
{
    const ptxpack_attention_append_desc *d = &s->desc;
    if (d->kv_rows != PTXPACK_ROWS_PAGED)
        return (size_t)sequence * (size_t)d->seqlen_kv + (size_t)row;
    const int32_t page = s->table[(size_t)sequence * (size_t)d->table_width + (size_t)(row / d->page_rows)];
    return (size_t)page * (size_t)d->page_rows + (size_t)(row % d->page_rows);
}

/* What the reference makes of one new row of one head that goes to `position`. */
static bool expect_row(const append_state *s, int32_t position, const uint16_t *k_new, const uint16_t *v_new,
                       double *k, double *v)
{
    const size_t                          skipped = (size_t)position * (size_t)s->desc.rotary_dim / 2;
    const int32_t                         one = 1;
    const ptxpack_attention_append_desc   desc = {.size = sizeof desc,
                                                  .dtype = s->desc.dtype,
                                                  .batch = 1,
                                                  .seqlen_new = 1,
                                                  .seqlen_kv = 1,
                                                  .heads_kv = 1,
                                                  .head_dim = s->desc.head_dim,
                                                  .rotary_dim = s->desc.rotary_dim,
                                                  .positions = 1};
    const ptxpack_attention_append_inputs inputs = {.k_new = k_new,
                                                    .v_new = v_new,
                                                    .cos = s->cos +
                                                           skipped, /* its position's row of the tables */
                                                    .sin = s->sin + skipped,
                                                    .lengths_kv = &one};
    return ptxpack_attention_append_reference(&desc, &inputs, k, v, NULL) == PTXPACK_OK;
}

/* The difference that rounding to the type explains, and that of sums in f32. */
static bool close_to(ptxpack_dtype dtype, uint16_t got, double want)
{
    const double part = dtype == PTXPACK_BF16 ? 0x1p-8 : 0x1p-10;
    return fabs(ptxpack_to_float(dtype, got) - want) <= fabs(want) * part + 1e-5;
}

bool append_compare(bench_run *run, bench_case *c, const append_state *s, int set, int32_t sequence,
                    int32_t row, int32_t head)
{
    const ptxpack_attention_append_desc *d = &s->desc;
    const size_t                         dim = (size_t)d->head_dim, heads = (size_t)d->heads_kv;
    const int32_t                        position = s->lengths[sequence] - d->seqlen_new + row;
    const size_t from = (((size_t)sequence * (size_t)d->seqlen_new + (size_t)row) * heads + (size_t)head) * dim;
    const size_t v_from = from + (size_t)d->batch * (size_t)d->seqlen_new * heads * dim;
    const size_t to = (cache_row(s, sequence, position) * heads + (size_t)head) * dim;
    uint16_t    *bits = (uint16_t *)malloc(4 * dim * sizeof *bits); /* new k and v; k and v of the cache */
    double      *want = (double *)malloc(2 * dim * sizeof *want);
    bool         ok = (bits != NULL && want != NULL) || bench_wrong(run, c, "no memory");
    ok = ok && bench_read(run, c, ARENA_Q, set, from, dim, bits) &&
         bench_read(run, c, ARENA_Q, set, v_from, dim, bits + dim) &&
         bench_read(run, c, ARENA_K, set, to, dim, bits + 2 * dim) &&
         bench_read(run, c, ARENA_V, set, to, dim, bits + 3 * dim);
    if (ok && !expect_row(s, position, bits, bits + dim, want, want + dim))
        ok = bench_wrong(run, c, "%s", ptxpack_detail(NULL));
    for (size_t i = 0; i < 2 * dim && ok; i++)
        if (!close_to(d->dtype, bits[2 * dim + i], want[i]))
            ok = bench_wrong(run, c, "wrong: sequence %d, new row %d, head %d, element %zu of %s is %g, not %g",
                             (int)sequence, (int)row, (int)head, i % dim, i < dim ? "k" : "v",
                             (double)ptxpack_to_float(d->dtype, bits[2 * dim + i]), want[i]);
    free(bits);
    free(want);
    return ok;
}

static bool check_case(bench_run *run, bench_case *c)
{
    append_state *s = (append_state *)c->state;
    return launch_case(run, c, 0) && append_compare(run, c, s, 0, 0, 0, 0) &&
           launch_case(run, c, c->sets - 1) &&
           append_compare(run, c, s, c->sets - 1, s->desc.batch - 1, s->desc.seqlen_new - 1,
                          s->desc.heads_kv - 1);
}

static void free_case(bench_run *run, bench_case *c) { append_free(run, (append_state *)c->state); }

int bench_add_append(bench_run *run, const serving_sizes *sizes, int which, int32_t page_rows)
{
    static const bench_kind append = {make_case, launch_case, check_case, free_case};
    const int32_t           batch = sizes->append_batch[which], rows = sizes->append_rows[which];
    const int32_t           keys = sizes->cached + rows;
    int                     index = bench_add(run, &append, "append", sizeof(append_state));
    int32_t                *table = NULL;
    if (index < 0)
        return index;
    bench_case            *c = &run->cases[index];
    ptxpack_attention_desc cache = {.dtype = run->settings->dtype,
                                    .batch = batch,
                                    .seqlen_kv = keys,
                                    .heads_kv = sizes->heads_kv,
                                    .head_dim = run->head_dim};
    if (page_rows > 0) {
        const int32_t width = (keys + page_rows - 1) / page_rows;
        table = (int32_t *)malloc((size_t)batch * (size_t)width * sizeof *table);
        for (int32_t i = 0; i < batch * width && table != NULL; i++) /* the sequences' pages by turns */
            table[i] = i % width * batch + i / width;
        cache.kv_rows = PTXPACK_ROWS_PAGED;
        cache.rows_kv = batch * width;
        cache.page_rows = page_rows;
        cache.table_width = width;
    }
    int end = snprintf(c->name, sizeof c->name, "%d x %d new row%s", (int)batch, (int)rows,
                       rows == 1 ? "" : "s");
    if (page_rows > 0)
        snprintf(c->name + end, sizeof c->name - (size_t)end, ", pages of %d", (int)page_rows);
    bool ok = (page_rows == 0 || table != NULL) &&
              append_describe((append_state *)c->state, &cache, rows, table);
    free(table);
    if (!ok)
        return bench_wrong(run, c, "no memory"), -1;
    const size_t row = (size_t)sizes->heads_kv * (size_t)run->head_dim * ptxpack_dtype_bytes(cache.dtype);
    const size_t cached = page_rows > 0 ? (size_t)cache.rows_kv * (size_t)page_rows
                                        : (size_t)batch * (size_t)keys;
    c->bytes[ARENA_K] = c->bytes[ARENA_V] = cached * row;
    c->bytes[ARENA_Q] = 2 * (size_t)batch * (size_t)rows * row; /* the new rows */
    c->work = 2.0 * (double)c->bytes[ARENA_Q];
    bench_rotate(run, c, 2 * c->bytes[ARENA_K]);
    return index;
}
