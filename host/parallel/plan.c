/* plan.c - making a plan of parallel attention. */
#include "arrive.h"
#include "heads.h"

#include <stdlib.h>
#include <string.h>

#include "host/attention/check.h"
#include "loader/missing.h"

/* ---- one rank ----------------------------------------------------------------------------------------- */
uint64_t parallel_take(parallel_rank *r, uint64_t bytes)
{
    enum { ALIGNMENT = 256 };
    uint64_t at = r->bytes;
    r->bytes += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return at;
}

/* Where the sequences begin in a chunk, and in the keys that it attends to. */
static bool find_starts(const parallel_whole *w, parallel_rank *r)
{
    const int32_t *starts = w->problem.starts, count = w->problem.sequences + 1;
    const bool     heads = w->problem.way == PTXPACK_PARALLEL_HEADS;
    int32_t       *to;
    if (starts == NULL)
        return true;
    r->upload_count = heads ? count : 4 * count;
    r->upload = to = (int32_t *)calloc((size_t)r->upload_count, sizeof *to);
    r->upload_at = parallel_take(r, (uint64_t)r->upload_count * sizeof *to);
    if (heads && to != NULL)
        memcpy(to, starts, (size_t)count * sizeof *to);
    if (heads)
        return to != NULL;
    for (int32_t c = 0; c < r->schedule->chunks && to != NULL; c++) {
        const parallel_rows *chunk = &r->schedule->chunk[c];
        const parallel_rows  reach = chunk->count > 0 ? parallel_reach(&w->problem, chunk) : *chunk;
        for (int kind = 0; kind < 2; kind++)
            for (int32_t i = 0; i < count; i++) {
                const parallel_rows *rows = kind == 0 ? chunk : &reach;
                const int64_t        at = starts[i] - rows->first;
                *to++ = (int32_t)(at < 0 ? 0 : at > rows->count ? rows->count : at);
            }
    }
    return to != NULL;
}

int32_t parallel_stream_of(const parallel_part *part) { return part->step == 0 ? 2 : part->chunk; }

static ptxpack_status make_kernel(ptxpack *handle, const parallel_whole *w, parallel_rank *r, int32_t index)
{
    parallel_kernel *kernel = &r->kernel[index];
    kernel->desc = parallel_part_desc(w, r->schedule, index);
    const parallel_kernel *same = NULL, *shared = NULL;
    for (int32_t i = 0; i < index && shared == NULL; i++)
        if (memcmp(&r->kernel[i].desc, &kernel->desc, sizeof kernel->desc) == 0) {
            same = &r->kernel[i];
            if (parallel_stream_of(&r->schedule->parts[i]) == parallel_stream_of(&r->schedule->parts[index]))
                shared = same;
        }
    ptxpack_status status = PTXPACK_OK;
    kernel->own = same == NULL;
    if (kernel->own)
        status = ptxpack_attention_plan_create(handle, &kernel->desc, &kernel->plan);
    else
        kernel->plan = same->plan;
    kernel->workspace = shared != NULL ? shared->workspace
                                       : parallel_take(r, ptxpack_attention_workspace(kernel->plan));
    return status;
}

static ptxpack_status make_merge(ptxpack *handle, const parallel_whole *w, parallel_rank *r, int32_t chunk)
{
    const int64_t    rows = r->schedule->chunk[chunk].count, columns = attention_value_dim(&w->desc);
    merge_parts_desc d = {.dtype = w->desc.dtype,
                          .batch = (int32_t)w->batch,
                          .rows = (int32_t)rows,
                          .heads = w->desc.heads_q,
                          .head_dim = (int32_t)columns,
                          .parts = parallel_parts_of(r->schedule, chunk),
                          .o = {r->rows * w->desc.heads_q * columns, w->desc.heads_q * columns, columns}};
    plan_head       *made = NULL;
    if (d.parts < 2)
        return PTXPACK_OK;
    ptxpack_status status = plan_create(&merge_parts_op, handle, &d, NULL, &made);
    r->merge[chunk] = (merge_parts_plan *)made;
    r->o_part[chunk] = (uint64_t)(d.batch * rows * w->o_row);
    r->lse_part[chunk] = (uint64_t)d.batch * (uint64_t)rows * (uint64_t)d.heads * sizeof(float);
    r->o[chunk] = parallel_take(r, (uint64_t)d.parts * r->o_part[chunk]);
    r->lse[chunk] = parallel_take(r, (uint64_t)d.parts * r->lse_part[chunk]);
    return status;
}

/* What the other ranks take from this one, from their schedules. */
static bool find_sends(const ptxpack_parallel_group *g, const parallel_whole *w, parallel_rank *r)
{
    r->steps = r->schedule->steps;
    if (g->nccl == NULL || w->problem.way == PTXPACK_PARALLEL_HEADS)
        return true;
    r->sends = (parallel_copy *)malloc(2 * (size_t)g->ranks * sizeof *r->sends);
    for (int32_t peer = 0; peer < g->ranks && r->sends != NULL; peer++) {
        parallel_schedule *theirs = peer != g->first ? parallel_schedule_make(&w->problem, peer) : NULL;
        if (peer != g->first && theirs == NULL)
            return false;
        for (int32_t i = 0; theirs != NULL && i < theirs->copy_count; i++)
            if (theirs->copies[i].rank == g->first) {
                parallel_copy *send = &r->sends[r->send_count++];
                *send = theirs->copies[i];
                send->rank = peer;
                r->steps = send->step > r->steps ? send->step : r->steps;
            }
        free(theirs);
    }
    return r->sends != NULL;
}

static ptxpack_status make_events(const ptxpack_parallel_group *g, int32_t local, parallel_rank *r)
{
    const struct ptxpack_driver *d = ptxpack_driver_table(g->member[local].handle);
    bool                         pushed;
    ptxpack_status               status = group_enter(g, local, &pushed);
    if (status != PTXPACK_OK)
        return status;
    ptxpack_cu_result result = d->cuEventCreate(&r->ready, PTXPACK_CU_EVENT_DISABLE_TIMING);
    if (result == PTXPACK_CU_SUCCESS)
        result = d->cuEventCreate(&r->keys, PTXPACK_CU_EVENT_DISABLE_TIMING);
    for (int i = 0; i < 2 && result == PTXPACK_CU_SUCCESS; i++)
        result = d->cuEventCreate(&r->beside[i], PTXPACK_CU_EVENT_DISABLE_TIMING);
    for (int32_t i = 1; i <= r->steps && result == PTXPACK_CU_SUCCESS; i++)
        result = d->cuEventCreate(&r->arrived[i], PTXPACK_CU_EVENT_DISABLE_TIMING);
    group_leave(g, local, pushed);
    return result == PTXPACK_CU_SUCCESS ? PTXPACK_OK : group_fail(g, local, result, "cuEventCreate");
}

static ptxpack_status make_rank(const ptxpack_parallel_group *g, const parallel_whole *w, int32_t local,
                                parallel_rank *r)
{
    ptxpack       *handle = g->member[local].handle;
    ptxpack_status status = PTXPACK_OK;
    r->schedule = parallel_schedule_make(&w->problem, g->first + local);
    if (r->schedule != NULL)
        r->kernel = (parallel_kernel *)calloc((size_t)r->schedule->part_count + 1, sizeof *r->kernel);
    if (r->kernel == NULL || !find_sends(g, w, r) || !find_starts(w, r))
        return ptxpack_fail(g->member[0].handle, PTXPACK_E_MEMORY, "out of memory for the plan of rank %d",
                            (int)(g->first + local));
    r->rows = r->schedule->chunk[0].count + r->schedule->chunk[1].count;
    r->k = parallel_take(r, (uint64_t)(w->batch * r->schedule->buffer_rows * w->k_row));
    r->v = parallel_take(r, (uint64_t)(w->batch * r->schedule->buffer_rows * w->v_row));
    const bool arrives = w->problem.way == PTXPACK_PARALLEL_ARRIVE;
    for (int32_t i = 0; i < r->schedule->part_count && status == PTXPACK_OK && !arrives; i++)
        status = make_kernel(handle, w, r, i);
    for (int32_t c = 0; c < r->schedule->chunks && status == PTXPACK_OK && !arrives; c++)
        status = make_merge(handle, w, r, c);
    if (status == PTXPACK_OK && arrives)
        status = arrive_make(g, w, local, r);
    if (status == PTXPACK_OK && w->problem.way == PTXPACK_PARALLEL_HEADS)
        status = heads_make(g, w, local, r);
    if (status != PTXPACK_OK)
        return group_pass(g, local, status);
    return make_events(g, local, r);
}

static void free_rank(const ptxpack_parallel_group *g, int32_t local, parallel_rank *r)
{
    const struct ptxpack_driver *d = ptxpack_driver_table(g->member[local].handle);
    bool                         pushed;
    if (r->ready != NULL && group_enter(g, local, &pushed) == PTXPACK_OK) {
        d->cuEventDestroy(r->ready);
        if (r->keys != NULL)
            d->cuEventDestroy(r->keys);
        for (int i = 0; i < 2; i++)
            if (r->beside[i] != NULL)
                d->cuEventDestroy(r->beside[i]);
        for (int32_t i = 1; i <= PARALLEL_STEPS; i++)
            if (r->arrived[i] != NULL)
                d->cuEventDestroy(r->arrived[i]);
        group_leave(g, local, pushed);
    }
    for (int32_t i = 0; r->kernel != NULL && i < r->schedule->part_count; i++)
        if (r->kernel[i].own)
            ptxpack_attention_plan_free(r->kernel[i].plan);
    heads_free(r->heads);
    free(r->merge[0]);
    free(r->merge[1]);
    free(r->kernel);
    free(r->sends);
    free(r->upload);
    free(r->schedule);
}

/* ---- the public calls --------------------------------------------------------------------------------- */
void ptxpack_attention_parallel_chunk(ptxpack_shards shards, int32_t ranks, int32_t rank, int32_t rows,
                                      int32_t chunk, int32_t *first, int32_t *count)
{
    const parallel_problem p = {.ranks = ranks, .shards = shards, .rows = rows};
    parallel_rows          chunks[2] = {{0, 0}, {0, 0}};
    if (ranks >= 1 && rank >= 0 && rank < ranks && rows >= 0 && (chunk == 0 || chunk == 1))
        (void)parallel_chunks(&p, rank, chunks);
    if (first != NULL)
        *first = (int32_t)chunks[chunk == 1].first;
    if (count != NULL)
        *count = (int32_t)chunks[chunk == 1].count;
}

ptxpack_status ptxpack_attention_parallel_plan_create(ptxpack_parallel_group                *g,
                                                      const ptxpack_attention_parallel_desc *desc,
                                                      ptxpack_attention_parallel_plan      **plan)
{
    char           line[PLAN_LINE];
    parallel_whole whole;
    memset(&whole, 0, sizeof whole);
    if (plan != NULL)
        *plan = NULL;
    if (g == NULL)
        return PTXPACK_MISSING(NULL, "group");
    ptxpack *handle = g->member[0].handle;
    if (plan == NULL)
        return PTXPACK_MISSING(handle, "plan");
    ptxpack_status status = parallel_resolve(desc, g->ranks, &whole, line);
    status = status == PTXPACK_OK ? parallel_choose(handle, &whole, (double)desc->link_gbps, arrive_early(g))
                                  : ptxpack_fail(handle, status, "%s", line);
    status = parallel_agree(g, &whole, status);
    if (status != PTXPACK_OK)
        return status;
    ptxpack_attention_parallel_plan *made = (ptxpack_attention_parallel_plan *)
        calloc(1, sizeof *made + (size_t)g->local * sizeof *made->rank);
    if (made == NULL)
        return ptxpack_fail(handle, PTXPACK_E_MEMORY, "out of memory for a plan of %d ranks", (int)g->local);
    *made = (ptxpack_attention_parallel_plan){g, whole, g->local, (parallel_rank *)(made + 1)};
    for (int32_t i = 0; i < g->local && status == PTXPACK_OK; i++)
        status = make_rank(g, &whole, i, &made->rank[i]);
    made->whole.problem.starts = NULL; /* they are the caller's */
    status = parallel_agree(g, &whole, status);
    if (status == PTXPACK_OK)
        *plan = made;
    else
        ptxpack_attention_parallel_plan_free(made);
    return status;
}

void ptxpack_attention_parallel_plan_free(ptxpack_attention_parallel_plan *plan)
{
    for (int32_t i = 0; plan != NULL && i < plan->local; i++)
        free_rank(plan->group, i, &plan->rank[i]);
    if (plan != NULL)
        plan->group->step_count = 0; /* its events are gone */
    free(plan);
}

size_t ptxpack_attention_parallel_workspace(const ptxpack_attention_parallel_plan *plan, int32_t local)
{
    return plan != NULL && local >= 0 && local < plan->local ? (size_t)plan->rank[local].bytes : 0;
}

ptxpack_parallel_way ptxpack_attention_parallel_way(const ptxpack_attention_parallel_plan *plan)
{
    return plan != NULL ? plan->whole.problem.way : PTXPACK_PARALLEL_BEST;
}
