/* launch.c - a launch of parallel attention.
 *
 *   stream of a rank   ready | own keys | wait for the streams beside, merge | wait until others have read
 *   beside, a chunk    wait for ready | wait for step 1, its part | step 2 ...
 *   its copies         wait for ready of all ranks that are read | step 1 | step 2 ...; keys and values in a stream each
 * Way `arrive` is in arrive.c.  Way `heads`, which is in heads.c:
 *   stream of a rank   ready | wait for step 1, all of its heads | wait until others have their results
 *   its copies         wait for ready of all ranks | step 1, rows | wait for the kernels of all ranks | step 2, results
 *
 * Parts do not depend on each other, so that blocks of one kernel take the place of those of another one's last wave: a chunk's
 * tiles do not divide by the SMs.  Where keys have arrived, the order is that of the streams: the larger own part, those of
 * the other ranks' keys, and the smaller own part, with the smallest tiles, at the end.
 *
 * Measured on an H200 on 2026-11-27: the kernels of both of two ranks, one after another on one GPU, ms; causal, zigzag, 32/8 heads, d 128
 *   rows of the whole                   8192           16384          32768
 *   half of the whole in one kernel     0.340          1.302          5.132
 *   in one stream                       0.388  0.401   1.403  1.425   5.427  5.460
 *   a stream for each chunk             0.381  0.388   1.387  1.399   5.403  5.377
 *   as here                             0.377  0.384   1.375  1.382   5.333  5.330
 *   all keys first (gather)             0.366  0.369   1.362  1.375   5.321  5.400
 * What is left is the beginning and end of kernels, and where a rank's chunks see the same keys, 1 % that one kernel for both
 * would gain. */
#include "arrive.h"
#include "heads.h"
#include "loader/missing.h"

typedef ptxpack_attention_parallel_plan    parallel_plan;
typedef ptxpack_attention_parallel_buffers parallel_buffers;

/* ---- checks ------------------------------------------------------------------------------------------- */
enum { SHARD_RANGES = 5 }; /* the first ones below: of an empty shard they are ignored */

static ptxpack_status check_rank(const parallel_plan *plan, int32_t local, const parallel_buffers *b)
{
    const ptxpack       *handle = plan->group->member[0].handle;
    const parallel_rank *r = &plan->rank[local];
    const bool           sinks = (plan->whole.desc.options & PTXPACK_SINKS) != 0;
    const bool           slopes = (plan->whole.desc.options & PTXPACK_ALIBI) != 0;
    const int            rank = (int)(plan->group->first + local);
    const memory_range   ranges[] = {
          {"q", b->q, 1, 16, false},         {"k", b->k, 1, 16, false},
          {"v", b->v, 1, 16, false},         {"o", b->o, 1, 16, false},
          {"lse", b->lse, 1, 4, true},       {"workspace", b->workspace, r->bytes, 16, r->bytes == 0},
          {"sinks", b->sinks, 1, 4, !sinks}, {"slopes", b->slopes, 1, 4, !slopes},
    };
    const size_t count = sizeof ranges / sizeof ranges[0];
    char         line[PLAN_LINE];
    if (b->size != sizeof *b || b->reserved != 0)
        return ptxpack_fail(handle, PTXPACK_E_ARG,
                            b->reserved != 0
                                ? "buffers[%d].reserved is not 0"
                                : "buffers[%d].size is not sizeof(ptxpack_attention_parallel_buffers)",
                            (int)local);
    size_t i = r->rows > 0 ? 0 : r->heads != NULL ? SHARD_RANGES : count;
    for (; i < count; i++)
        if (memory_check(&ranges[i], line) != PTXPACK_OK)
            return ptxpack_fail(handle, PTXPACK_E_ARG, "rank %d: %s", rank, line);
    return PTXPACK_OK;
}

/* ---- copies ------------------------------------------------------------------------------------------- */
/* Keys in the rank's stream of copies, values in `values`. */
static ptxpack_status copy_rows(const parallel_plan *plan, int32_t local, const parallel_buffers *b,
                                const parallel_copy *copy, int32_t from_local, struct CUstream_st *values)
{
    const parallel_rank    *to = &plan->rank[local], *from = &plan->rank[from_local];
    const parallel_buffers *source = &b[from_local];
    const int64_t           k = plan->whole.k_row, v = plan->whole.v_row;
    struct CUstream_st     *keys = plan->group->member[local].copies;
    for (int64_t i = 0; i < plan->whole.batch; i++) {
        const int64_t at = i * to->schedule->buffer_rows + copy->to, there = i * from->rows + copy->from;
        TRY(group_copy(plan->group, keys, local, b[local].workspace + to->k + (uint64_t)(at * k), from_local,
                       source->k + (uint64_t)(there * k), (uint64_t)(copy->count * k)));
        TRY(group_copy(plan->group, values, local, b[local].workspace + to->v + (uint64_t)(at * v), from_local,
                       source->v + (uint64_t)(there * v), (uint64_t)(copy->count * v)));
    }
    return PTXPACK_OK;
}

static void *pointer(uint64_t address) { return (void *)(uintptr_t)address; }

/* With NCCL: keys and values of `copy`, to a rank that takes them or from the one that has them; keeps the first error. */
static void transfer(const parallel_plan *plan, const parallel_buffers *b, const parallel_copy *copy, bool send,
                     nccl_result *worst)
{
    const parallel_rank *r = &plan->rank[0];
    const int64_t        bytes[2] = {plan->whole.k_row, plan->whole.v_row};
    const uint64_t       shard[2] = {b->k, b->v}, buffer[2] = {b->workspace + r->k, b->workspace + r->v};
    const nccl_table    *nccl = plan->group->nccl;
    for (int64_t i = 0; i < plan->whole.batch; i++)
        for (int t = 0; t < 2; t++) {
            const int64_t at = send ? i * r->rows + copy->from : i * r->schedule->buffer_rows + copy->to;
            void         *memory = pointer((send ? shard[t] : buffer[t]) + (uint64_t)(at * bytes[t]));
            const size_t  count = (size_t)(copy->count * bytes[t]);
            nccl_result result = send ? nccl->ncclSend(memory, count, NCCL_INT8, copy->rank, plan->group->comm,
                                                       plan->group->member[0].copies)
                                      : nccl->ncclRecv(memory, count, NCCL_INT8, copy->rank, plan->group->comm,
                                                       plan->group->member[0].copies);
            if (*worst == NCCL_SUCCESS || *worst == NCCL_IN_PROGRESS)
                *worst = result;
        }
}

/* With NCCL, each step is one operation of sends and receives; two ranks name what passes between them in the same order. */
static ptxpack_status enqueue_transfers(const parallel_plan *plan, int32_t local, const parallel_buffers *b)
{
    const parallel_rank     *r = &plan->rank[0];
    const parallel_schedule *s = r->schedule;
    struct CUstream_st      *stream = plan->group->member[0].copies;
    TRY(group_wait_for(plan->group, local, stream, r->ready));
    plan->group->step_count = r->steps;
    for (int32_t step = 1; step <= r->steps; step++) {
        nccl_result worst = NCCL_SUCCESS;
        group_step *over = &plan->group->steps[step - 1];
        *over = (group_step){r->arrived[step], -1};
        for (int32_t i = 0; i < s->copy_count; i++)
            if (s->copies[i].step == step && s->copies[i].rank == plan->group->first)
                TRY(copy_rows(plan, local, b, &s->copies[i], local, stream));
        TRY(group_begin(plan->group));
        for (int32_t i = 0; i < s->copy_count; i++)
            if (s->copies[i].step == step && s->copies[i].rank != plan->group->first) {
                over->rank = s->copies[i].rank;
                transfer(plan, b, &s->copies[i], false, &worst);
            }
        for (int32_t i = 0; i < r->send_count; i++)
            if (r->sends[i].step == step)
                transfer(plan, b, &r->sends[i], true, &worst);
        TRY(group_end(plan->group, worst));
        TRY(group_record(plan->group, local, r->arrived[step], stream));
    }
    return PTXPACK_OK;
}

/* The stream of values goes on when the keys are there, too, while that of keys takes the next ones. */
static ptxpack_status join_keys(const parallel_plan *plan, int32_t local)
{
    const group_local_rank *member = &plan->group->member[local];
    struct CUevent_st      *keys = plan->rank[local].keys;
    TRY(group_record(plan->group, local, keys, member->copies));
    return group_wait_for(plan->group, local, member->values, keys);
}

/* Both streams go on when a local rank's own has come to the launch. */
static ptxpack_status wait_for_rank(const parallel_plan *plan, int32_t local, int32_t rank)
{
    const group_local_rank *member = &plan->group->member[local];
    TRY(group_wait_for(plan->group, local, member->copies, plan->rank[rank].ready));
    return group_wait_for(plan->group, local, member->values, plan->rank[rank].ready);
}

/* All copies of a rank.  Those of a step begin with the first one whose rank is above this one's, so that the ranks do not
 * read from the same one at a time; of way `arrive` with those that are attended to first, which are of different ranks. */
static ptxpack_status enqueue_copies(const parallel_plan *plan, int32_t local, const parallel_buffers *b)
{
    const parallel_schedule *s = plan->rank[local].schedule;
    struct CUstream_st      *values = plan->group->member[local].values;
    const bool               arrives = plan->whole.problem.way == PTXPACK_PARALLEL_ARRIVE;
    if (plan->group->nccl != NULL)
        return enqueue_transfers(plan, local, b);
    TRY(wait_for_rank(plan, local, local));
    for (int32_t i = 0, end; i < s->copy_count; i = end) {
        int32_t step = s->copies[i].step, first = i;
        for (end = i; end < s->copy_count && s->copies[end].step == step; end++) {
            if (!arrives && first == i && s->copies[end].rank > local && s->copies[i].rank <= local)
                first = end;
            TRY(wait_for_rank(plan, local, s->copies[end].rank));
        }
        for (int32_t n = 0; n < end - i; n++) {
            const parallel_copy *copy = &s->copies[i + (first - i + n) % (end - i)];
            TRY(copy_rows(plan, local, b, copy, copy->rank, values));
            if (arrives || n == end - i - 1)
                TRY(join_keys(plan, local));
            if (arrives)
                TRY(arrive_tell(plan, local, b, copy));
        }
        TRY(group_record(plan->group, local, plan->rank[local].arrived[step], values));
    }
    return PTXPACK_OK;
}

/* A rank's stream goes on when nobody reads its shard any more. */
static ptxpack_status wait_for_readers(const parallel_plan *plan, int32_t local, const parallel_buffers *b)
{
    if (plan->group->nccl != NULL) /* its own last step sends what others take last */
        return plan->rank[0].steps == 0
                   ? PTXPACK_OK
                   : group_wait_for(plan->group, local, b->stream, plan->rank[0].arrived[plan->rank[0].steps]);
    for (int32_t reader = 0; reader < plan->local; reader++) {
        const parallel_rank *r = &plan->rank[reader];
        for (int32_t i = 0; i < r->schedule->copy_count && reader != local; i++)
            if (r->schedule->copies[i].rank == local)
                TRY(group_wait_for(plan->group, local, b[local].stream,
                                   r->arrived[r->schedule->copies[i].step]));
    }
    return PTXPACK_OK;
}

/* ---- kernels ------------------------------------------------------------------------------------------ */
static uint64_t chunk_row(const parallel_rank *r, int32_t chunk)
{
    return chunk == 0 ? 0 : (uint64_t)r->schedule->chunk[0].count;
}

static uint64_t chunk_lse(const parallel_plan *plan, const parallel_rank *r, int32_t chunk, uint64_t lse)
{
    const ptxpack_attention_desc *d = &plan->whole.desc;
    return lse == 0
               ? 0
               : lse + chunk_row(r, chunk) * (uint64_t)plan->whole.batch * (uint64_t)d->heads_q * sizeof(float);
}

/* `number` counts the parts of the chunk. */
static ptxpack_status launch_part(const parallel_plan *plan, int32_t local, const parallel_buffers *b,
                                  struct CUstream_st *stream, int32_t index, int32_t number)
{
    const parallel_rank  *r = &plan->rank[local];
    const parallel_part  *part = &r->schedule->parts[index];
    const parallel_whole *w = &plan->whole;
    const int32_t         c = part->chunk;
    const uint64_t        k = part->step == 0 ? b->k : b->workspace + r->k,
                   v = part->step == 0 ? b->v : b->workspace + r->v;
    const bool     merged = r->merge[c] != NULL;
    const uint64_t bytes = ((uint64_t)w->desc.batch + 1) * sizeof *r->upload; /* of packed sequences */
    const uint64_t starts = b->workspace + r->upload_at + (uint64_t)c * 2 * bytes;
    const ptxpack_attention_buffers buffers = {
        .size = sizeof buffers,
        .q = b->q + chunk_row(r, c) * (uint64_t)w->q_row,
        .k = k + (uint64_t)(part->row * w->k_row),
        .v = v + (uint64_t)(part->row * w->v_row),
        .o = merged ? b->workspace + r->o[c] + (uint64_t)number * r->o_part[c]
                    : b->o + chunk_row(r, c) * (uint64_t)w->o_row,
        .lse = merged ? b->workspace + r->lse[c] + (uint64_t)number * r->lse_part[c]
                      : chunk_lse(plan, r, c, b->lse),
        .workspace = b->workspace + r->kernel[index].workspace,
        .sinks = b->sinks,
        .slopes = b->slopes,
        .starts_q = starts,
        .starts_kv = starts + bytes,
    };
    return group_pass(plan->group, local, ptxpack_attention_launch(r->kernel[index].plan, &buffers, stream));
}

/* What the plan knows. */
static ptxpack_status upload(const parallel_plan *plan, int32_t local, const parallel_buffers *b)
{
    const parallel_rank *r = &plan->rank[local];
    if (r->upload == NULL || (r->rows == 0 && r->heads == NULL))
        return PTXPACK_OK;
    const size_t      bytes = (size_t)r->upload_count * sizeof *r->upload;
    ptxpack_cu_result result = ptxpack_driver_table(plan->group->member[local].handle)
                                   ->cuMemcpyHtoDAsync(b->workspace + r->upload_at, r->upload, bytes,
                                                       b->stream);
    return result == PTXPACK_CU_SUCCESS ? PTXPACK_OK
                                        : group_fail(plan->group, local, result, "cuMemcpyHtoDAsync");
}

/* The parts of a chunk in one of the rank's streams, each when its keys are there. */
static ptxpack_status enqueue_parts(const parallel_plan *plan, int32_t local, const parallel_buffers *b,
                                    int32_t c, int32_t stream_of, struct CUstream_st *stream, bool *any)
{
    const parallel_rank *r = &plan->rank[local];
    for (int32_t i = 0, number = 0, step = 0; i < r->schedule->part_count; i++) {
        const parallel_part *part = &r->schedule->parts[i];
        if (part->chunk != c)
            continue;
        if (parallel_stream_of(part) == stream_of) {
            if (!*any && stream != b->stream)
                TRY(group_wait_for(plan->group, local, stream, r->ready));
            if (part->step > step)
                TRY(group_wait_for(plan->group, local, stream, r->arrived[step = part->step]));
            TRY(launch_part(plan, local, b, stream, i, number));
            *any = true;
        }
        number++;
    }
    return PTXPACK_OK;
}

static ptxpack_status enqueue_merge(const parallel_plan *plan, int32_t local, const parallel_buffers *b,
                                    int32_t c)
{
    const parallel_rank      *r = &plan->rank[local];
    const merge_parts_buffers parts = {.parts_o = b->workspace + r->o[c],
                                       .parts_lse = b->workspace + r->lse[c],
                                       .o = b->o + chunk_row(r, c) * (uint64_t)plan->whole.o_row,
                                       .lse = chunk_lse(plan, r, c, b->lse),
                                       .o_part = (int64_t)r->o_part[c],
                                       .lse_part = (int64_t)r->lse_part[c]};
    return r->merge[c] == NULL
               ? PTXPACK_OK
               : group_pass(plan->group, local, plan_launch(&r->merge[c]->head, &parts, b->stream));
}

/* Under a causal mask the last chunk is the longer one. */
static ptxpack_status enqueue_kernels(const parallel_plan *plan, int32_t local, const parallel_buffers *all)
{
    const parallel_buffers *b = &all[local];
    const parallel_rank    *r = &plan->rank[local];
    bool                    own = false, any[2] = {false, false};
    for (int32_t c = r->schedule->chunks - 1; c >= 0; c--) {
        struct CUstream_st *beside = plan->group->member[local].beside[c];
        TRY(enqueue_parts(plan, local, b, c, 2, b->stream, &own));
        TRY(enqueue_parts(plan, local, b, c, c, beside, &any[c]));
        if (any[c])
            TRY(group_record(plan->group, local, r->beside[c], beside));
    }
    for (int32_t c = 0; c < r->schedule->chunks; c++)
        if (any[c])
            TRY(group_wait_for(plan->group, local, b->stream, r->beside[c]));
    for (int32_t c = 0; c < r->schedule->chunks; c++)
        TRY(enqueue_merge(plan, local, b, c));
    return PTXPACK_OK;
}

/* ---- the launch --------------------------------------------------------------------------------------- */
static ptxpack_status begin(const parallel_plan *plan, int32_t local, const parallel_buffers *b)
{
    TRY(upload(plan, local, &b[local]));
    return group_record(plan->group, local, plan->rank[local].ready, b[local].stream);
}

/* What a launch does for all ranks, one after another, each in its context. */
typedef ptxpack_status (*parallel_stage)(const parallel_plan *, int32_t, const parallel_buffers *);
enum { STAGES = 5 };
static const parallel_stage by_keys[STAGES] = {begin, enqueue_copies, enqueue_kernels, wait_for_readers, NULL};
static const parallel_stage by_pieces[STAGES] = {begin, enqueue_copies, arrive_attend, wait_for_readers, NULL};
static const parallel_stage by_heads[STAGES] = {begin, heads_take, heads_attend, heads_return, heads_end};

static ptxpack_status run_stage(const parallel_plan *plan, parallel_stage stage, int32_t local,
                                const parallel_buffers *b)
{
    bool pushed;
    TRY(group_enter(plan->group, local, &pushed));
    ptxpack_status status = stage(plan, local, b);
    group_leave(plan->group, local, pushed);
    return status;
}

ptxpack_status ptxpack_attention_parallel_launch(const ptxpack_attention_parallel_plan    *plan,
                                                 const ptxpack_attention_parallel_buffers *buffers)
{
    if (plan == NULL)
        return PTXPACK_MISSING(NULL, "plan");
    if (buffers == NULL)
        return PTXPACK_MISSING(plan->group->member[0].handle, "buffers");
    TRY(group_usable(plan->group));
    for (int32_t i = 0; i < plan->local; i++)
        TRY(check_rank(plan, i, &buffers[i]));
    const ptxpack_parallel_way way = plan->whole.problem.way;
    const parallel_stage      *stages = way == PTXPACK_PARALLEL_HEADS    ? by_heads
                                        : way == PTXPACK_PARALLEL_ARRIVE ? by_pieces
                                                                         : by_keys;
    for (int stage = 0; stage < STAGES && stages[stage] != NULL; stage++)
        for (int32_t i = 0; i < plan->local; i++)
            TRY(run_stage(plan, stages[stage], i, buffers));
    return PTXPACK_OK;
}
