/* attend.c - describes, plans and launches attention of sequences that are stored as inference engines store them. */
#include "attend.h"

#include <stdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const float attend_descale = 0x1p-7f;

/* ---- the problem --------------------------------------------------------------------------------------- */
static int32_t most_of(const int32_t *values, int32_t count)
{
    int32_t most = 1;
    for (int32_t i = 0; i < count; i++)
        most = values[i] > most ? values[i] : most;
    return most;
}

/* A copy of an array; or with `starts`, where each sequence begins, and where the last one ends. */
static int32_t *copy_of(const int32_t *values, int32_t count, bool starts)
{
    int32_t *copy = (int32_t *)calloc((size_t)count + 1, sizeof *copy);
    for (int32_t i = 0; i < count && copy != NULL; i++) {
        if (starts)
            copy[i + 1] = copy[i] + values[i];
        else
            copy[i] = values[i];
    }
    return copy;
}

static int32_t pages_of(int32_t keys, int32_t page_rows) { return (keys + page_rows - 1) / page_rows; }

/* Gives every sequence pages of a pool that holds no others, in random order. */
static bool make_table(const bench_run *run, attend_state *s, const attend_problem *p, int32_t room)
{
    random_state random = random_start((uint64_t)run->settings->seed);
    int32_t      total = 0, taken = 0, width = pages_of(room, p->page_rows);
    for (int32_t i = 0; i < p->batch; i++)
        total += pages_of(p->room != 0 ? p->room : p->keys[i], p->page_rows);
    int32_t *pool = (int32_t *)calloc((size_t)total + 1, sizeof *pool);
    s->table = (int32_t *)calloc((size_t)p->batch * (size_t)width + 1, sizeof *s->table);
    if (pool == NULL || s->table == NULL)
        return free(pool), false;
    for (int32_t i = 0; i < total; i++) {
        int32_t other = (int32_t)random_below(&random, (uint64_t)i + 1);
        pool[i] = pool[other];
        pool[other] = i;
    }
    for (int32_t i = 0; i < p->batch; i++)
        for (int32_t page = 0; page < pages_of(p->room != 0 ? p->room : p->keys[i], p->page_rows); page++)
            s->table[(size_t)i * (size_t)width + (size_t)page] = pool[taken++];
    free(pool);
    s->desc.rows_kv = total;
    s->desc.page_rows = p->page_rows;
    s->desc.table_width = width;
    return true;
}

size_t attend_key_bytes(const ptxpack_attention_desc *d)
{
    return ptxpack_dtype_span(d->kv_dtype != 0 ? d->kv_dtype : d->dtype, (size_t)d->head_dim);
}

/* What each sequence's rows count in the figure. */
static double work_of(const attend_problem *p, size_t key_bytes, bool flops)
{
    double work = 0;
    for (int32_t i = 0; i < p->batch; i++) {
        double q = p->queries[i], k = p->keys[i];
        work += flops ? 4.0 * p->heads_q * p->head_dim * (q * k - (p->causal ? q * q / 2 : 0))
                      : 2.0 * (double)key_bytes * k * p->heads_kv;
    }
    return work;
}

/* Rows of k and of v in memory. */
static size_t rows_kv(const ptxpack_attention_desc *d)
{
    return d->kv_rows == PTXPACK_ROWS_PACKED  ? (size_t)d->rows_kv
           : d->kv_rows == PTXPACK_ROWS_PAGED ? (size_t)d->rows_kv * (size_t)d->page_rows
                                              : (size_t)d->batch * (size_t)d->seqlen_kv;
}

static bool describe(bench_run *run, attend_state *s, const attend_problem *p)
{
    ptxpack_attention_desc *d = &s->desc;
    *d = (ptxpack_attention_desc){.size = sizeof *d,
                                  .dtype = p->dtype,
                                  .kv_dtype = p->kv_dtype,
                                  .options = p->kv_dtype != 0 && p->kv_dtype != PTXPACK_Q8_0
                                                 ? PTXPACK_DESCALES_TENSOR
                                                 : 0,
                                  .batch = p->batch,
                                  .seqlen_q = most_of(p->queries, p->batch),
                                  .seqlen_kv = p->room != 0 ? p->room : most_of(p->keys, p->batch),
                                  .heads_q = p->heads_q,
                                  .heads_kv = p->heads_kv,
                                  .head_dim = p->head_dim,
                                  .mask = p->causal ? PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT : PTXPACK_MASK_NONE};
    if (p->kv_dtype == PTXPACK_Q8_0) /* the numbers that fill memory make scales near 1, and keys near 64 */
        d->scale = 0x1p-7f / sqrtf((float)p->head_dim);
    s->queries = copy_of(p->queries, p->batch, false);
    s->keys = copy_of(p->keys, p->batch, false);
    bool ok = s->queries != NULL && s->keys != NULL;
    if (p->packed && ok) {
        ok = (s->starts_q = copy_of(p->queries, p->batch, true)) != NULL;
        d->q_rows = PTXPACK_ROWS_PACKED;
        d->rows_q = ok ? s->starts_q[p->batch] : 0;
    }
    if (p->store == STORE_PACKED && ok) {
        ok = (s->starts_kv = copy_of(p->keys, p->batch, true)) != NULL;
        d->kv_rows = PTXPACK_ROWS_PACKED;
        d->rows_kv = ok ? s->starts_kv[p->batch] : 0;
    }
    if (p->store == STORE_PAGES && ok) {
        d->kv_rows = PTXPACK_ROWS_PAGED;
        ok = make_table(run, s, p, d->seqlen_kv);
    }
    if (p->store == STORE_PAGES || p->store == STORE_LENGTHS)
        d->options |= PTXPACK_LENGTHS_KV;
    return ok;
}

bool attend_describe(bench_run *run, bench_case *c, attend_state *s, const attend_problem *p, bool flops)
{
    if (!describe(run, s, p))
        return bench_wrong(run, c, "no memory");
    size_t element = ptxpack_dtype_bytes(p->dtype), rows_q = (size_t)p->batch * (size_t)s->desc.seqlen_q;
    if (p->packed)
        rows_q = (size_t)s->desc.rows_q;
    c->bytes[ARENA_K] = c->bytes[ARENA_V] = rows_kv(&s->desc) * (size_t)p->heads_kv *
                                            attend_key_bytes(&s->desc);
    c->bytes[ARENA_Q] = c->bytes[ARENA_O] = rows_q * (size_t)p->heads_q * (size_t)p->head_dim * element;
    c->bytes[ARENA_LSE] = rows_q * (size_t)p->heads_q * sizeof(float);
    c->work = work_of(p, attend_key_bytes(&s->desc), flops);
    c->flops = flops;
    bench_rotate(run, c, 2 * (c->bytes[ARENA_K] + (flops ? c->bytes[ARENA_Q] : 0)));
    return true;
}

/* ---- the plan and a launch ------------------------------------------------------------------------------ */
bool attend_make(bench_run *run, bench_case *c, attend_state *s)
{
    const size_t batch = (size_t)s->desc.batch;
    run->plans++;
    if (!device_status(run->gpu, ptxpack_attention_plan_create(run->gpu->handle, &s->desc, &s->plan)))
        return false;
    c->kernel = ptxpack_attention_kernel(s->plan);
    return device_alloc_zeros(run->gpu, &s->workspace, ptxpack_attention_workspace(s->plan)) &&
           (s->desc.kv_dtype == 0 ||
            (device_alloc(run->gpu, &s->descale_at, sizeof(float)) &&
             device_upload(run->gpu, s->descale_at, &attend_descale, sizeof(float)))) &&
           (s->starts_q == NULL || bench_upload(run, &s->starts_q_at, s->starts_q, batch + 1)) &&
           (s->starts_kv == NULL || bench_upload(run, &s->starts_kv_at, s->starts_kv, batch + 1)) &&
           ((s->desc.options & PTXPACK_LENGTHS_KV) == 0 ||
            bench_upload(run, &s->lengths_kv_at, s->keys, batch)) &&
           (s->table == NULL || bench_upload(run, &s->table_at, s->table, batch * (size_t)s->desc.table_width));
}

bool attend_launch(bench_run *run, bench_case *c, attend_state *s, int set)
{
    const ptxpack_attention_buffers buffers = {.size = sizeof buffers,
                                               .q = bench_at(run, c, ARENA_Q, set),
                                               .k = bench_at(run, c, ARENA_K, set),
                                               .v = bench_at(run, c, ARENA_V, set),
                                               .o = bench_at(run, c, ARENA_O, set),
                                               .lse = bench_at(run, c, ARENA_LSE, set),
                                               .workspace = s->workspace,
                                               .starts_q = s->starts_q_at,
                                               .starts_kv = s->starts_kv_at,
                                               .lengths_kv = s->lengths_kv_at,
                                               .page_table = s->table_at,
                                               .k_descale = s->descale_at,
                                               .v_descale = s->descale_at};
    return device_status(run->gpu, ptxpack_attention_launch(s->plan, &buffers, run->gpu->stream));
}

void attend_free(bench_run *run, attend_state *s)
{
    const uint64_t at[] = {s->workspace,     s->starts_q_at, s->starts_kv_at,
                           s->lengths_kv_at, s->table_at,    s->descale_at};
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++)
        device_free(run->gpu, at[i]);
    ptxpack_attention_plan_free(s->plan);
    free(s->queries);
    free(s->keys);
    free(s->starts_q);
    free(s->starts_kv);
    free(s->table);
}

/* ---- the case ------------------------------------------------------------------------------------------- */
static bool make_case(bench_run *run, bench_case *c) { return attend_make(run, c, (attend_state *)c->state); }

static bool launch_case(bench_run *run, bench_case *c, int set)
{
    return attend_launch(run, c, (attend_state *)c->state, set);
}

/* The first row of the first sequence and the last one of the last, in the first and in the last set. */
static bool check_case(bench_run *run, bench_case *c)
{
    attend_state *s = (attend_state *)c->state;
    const int32_t last = s->desc.batch - 1;
    return attend_launch(run, c, s, 0) && attend_compare(run, c, s, 0, 0, 0, 0) &&
           attend_launch(run, c, s, c->sets - 1) &&
           attend_compare(run, c, s, c->sets - 1, last, s->queries[last] - 1, s->desc.heads_q - 1);
}

static void free_case(bench_run *run, bench_case *c) { attend_free(run, (attend_state *)c->state); }

int bench_add_attend(bench_run *run, const char *part, const char *name, const attend_problem *problem,
                     bool flops)
{
    static const bench_kind attend = {make_case, launch_case, check_case, free_case};
    int                     index = bench_add(run, &attend, part, sizeof(attend_state));
    if (index < 0)
        return index;
    bench_case *c = &run->cases[index];
    snprintf(c->name, sizeof c->name, "%s", name);
    return attend_describe(run, c, (attend_state *)c->state, problem, flops) ? index : -1;
}
