/* arrive.c - way `arrive` of parallel attention.
 *
 *   stream of a rank   words | ready | wait for ready of all ranks that are read | all rows | wait until others have read
 *   its copies         wait for ready of all ranks that are read | a piece, its word | the next piece, its word ...
 *
 * The kernel may take all multiprocessors, and then nothing may need one that it waits for.  When it begins, all ranks
 * that are read are ready, so what is left are copies between devices, which copy engines do, and which were enqueued before.
 * Where that is not so it begins when all pieces have come, as with way `gather`: with NCCL, whose kernels need multiprocessors;
 * where two ranks have one device; and in a graph, whose branches need not run at the same time.
 *
 * Words are 0, 1 or, of the rank's own pieces, where they begin in its shard.  The stream writes them when a piece is there; where the
 * kernel begins late, or the driver cannot, they are copied from the one behind all words, a 1.  Measured on two H200: a copy
 * is followed by 8 us in which its stream copies nothing, so that words of copies came 16 us late. */
#include "arrive.h"

#include <stdlib.h>

#include "host/attention/arrivals/arrivals.h"
#include "host/attention/check.h"

typedef ptxpack_attention_parallel_plan    parallel_plan;
typedef ptxpack_attention_parallel_buffers parallel_buffers;

/* ---- a plan ------------------------------------------------------------------------------------------- */
ptxpack_status arrive_check(const parallel_whole *w, char line[PLAN_LINE])
{
    enum { TILE = 128 /* which divides what kernels take of each head_dim */ };
    const parallel_problem *p = &w->problem;
    const int32_t           all = p->ranks * (p->shards == PTXPACK_SHARDS_ZIGZAG ? 2 : 1);
    if (p->starts != NULL)
        return plan_refuse(line, PTXPACK_E_ARG, "way PTXPACK_PARALLEL_ARRIVE is not possible with packed rows");
    if (p->left >= 0 || p->right != 0)
        return plan_refuse(line, PTXPACK_E_ARG, "way PTXPACK_PARALLEL_ARRIVE needs a causal mask");
    if (p->rows % ((int64_t)all * TILE) != 0)
        return plan_refuse(line, PTXPACK_E_ARG,
                           "%lld rows are not %d chunks of a multiple of %d, as PTXPACK_PARALLEL_ARRIVE needs",
                           (long long)p->rows, (int)all, (int)TILE);
    return PTXPACK_OK;
}

ptxpack_attention_desc arrive_desc(const parallel_whole *w, int32_t rank)
{
    ptxpack_attention_desc d = w->desc;
    parallel_rows          chunk[2] = {{0, 0}, {0, 0}};
    const int32_t          chunks = parallel_chunks(&w->problem, rank, chunk);
    const int32_t          rows = (int32_t)chunk[0].count;
    d.seqlen_q = chunks * rows;
    d.seqlen_kv = (int32_t)chunk[chunks - 1].first + rows;
    d.mask = PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT;
    d.arrival_rows = rows;
    if (chunks == 2) {
        d.early_rows = rows;
        d.early_keys = (int32_t)(chunk[1].first - rows - chunk[0].first);
    }
    return d;
}

static bool make_words(const ptxpack_parallel_group *g, const ptxpack_attention_desc *d, parallel_rank *r)
{
    const int32_t pieces = d->seqlen_kv / d->arrival_rows;
    r->upload_count = pieces + 1;
    r->upload = (int32_t *)malloc((size_t)r->upload_count * sizeof *r->upload);
    if (r->upload == NULL)
        return false;
    for (int32_t p = 0; p < pieces; p++)
        r->upload[p] = g->nccl != NULL ? ATTENTION_ARRIVED : 0;
    for (int32_t c = 0; c < r->schedule->chunks; c++)
        r->upload[r->schedule->chunk[c].first / d->arrival_rows] = ATTENTION_ARRIVED_OWN + c * d->arrival_rows;
    r->upload[pieces] = ATTENTION_ARRIVED;
    r->upload_at = parallel_take(r, (uint64_t)r->upload_count * sizeof *r->upload);
    return true;
}

ptxpack_status arrive_make(const ptxpack_parallel_group *g, const parallel_whole *w, int32_t local,
                           parallel_rank *r)
{
    ptxpack         *handle = g->member[local].handle;
    parallel_kernel *kernel = &r->kernel[0];
    kernel->desc = arrive_desc(w, g->first + local);
    if (!make_words(g, &kernel->desc, r))
        return ptxpack_fail(handle, PTXPACK_E_MEMORY, "out of memory for the words of %d pieces",
                            (int)r->upload_count);
    kernel->own = true;
    ptxpack_status status = ptxpack_attention_plan_create(handle, &kernel->desc, &kernel->plan);
    kernel->workspace = parallel_take(r, ptxpack_attention_workspace(kernel->plan));
    return status;
}

/* ---- a launch ----------------------------------------------------------------------------------------- */
static uint64_t word_at(const parallel_rank *r, const parallel_buffers *b, int64_t piece)
{
    return b->workspace + r->upload_at + (uint64_t)piece * sizeof *r->upload;
}

bool arrive_early(const ptxpack_parallel_group *g)
{
    return g->nccl == NULL && g->apart &&
           ptxpack_driver_table(g->member[0].handle)->cuStreamWriteValue32 != NULL;
}

/* Whether the pieces must have come before the kernel begins. */
static bool begins_late(const parallel_plan *plan, int32_t local, const parallel_buffers *b)
{
    const struct ptxpack_driver *d = ptxpack_driver_table(plan->group->member[local].handle);
    unsigned int                 capturing = 0;
    return !arrive_early(plan->group) || d->cuStreamIsCapturing == NULL ||
           d->cuStreamIsCapturing(b->stream, &capturing) != PTXPACK_CU_SUCCESS || capturing != 0;
}

ptxpack_status arrive_tell(const parallel_plan *plan, int32_t local, const parallel_buffers *b,
                           const parallel_copy *copy)
{
    const parallel_rank         *to = &plan->rank[local], *from = &plan->rank[copy->rank];
    const struct ptxpack_driver *d = ptxpack_driver_table(plan->group->member[local].handle);
    struct CUstream_st          *stream = plan->group->member[local].values;
    const uint64_t               word = word_at(to, &b[local], copy->first / to->kernel[0].desc.arrival_rows);
    if (begins_late(plan, local, &b[local]))
        return group_copy(plan->group, stream, local, word, copy->rank,
                          word_at(from, &b[copy->rank], from->upload_count - 1), sizeof *to->upload);
    const ptxpack_cu_result result = d->cuStreamWriteValue32(stream, word, ATTENTION_ARRIVED, 0);
    return result == PTXPACK_CU_SUCCESS ? PTXPACK_OK
                                        : group_fail(plan->group, local, result, "cuStreamWriteValue32");
}

static ptxpack_status wait_for_pieces(const parallel_plan *plan, int32_t local, const parallel_buffers *b)
{
    const parallel_rank     *r = &plan->rank[local];
    const parallel_schedule *s = r->schedule;
    if (s->steps == 0)
        return PTXPACK_OK;
    if (begins_late(plan, local, b))
        return group_wait_for(plan->group, local, b->stream, r->arrived[1]);
    for (int32_t i = 0; i < s->copy_count; i++)
        TRY(group_wait_for(plan->group, local, b->stream, plan->rank[s->copies[i].rank].ready));
    return PTXPACK_OK;
}

ptxpack_status arrive_attend(const parallel_plan *plan, int32_t local, const parallel_buffers *all)
{
    const parallel_buffers *b = &all[local];
    const parallel_rank    *r = &plan->rank[local];
    const bool              alone = r->schedule->steps == 0; /* it reads its own keys, and has no buffer */
    const ptxpack_attention_buffers buffers = {.size = sizeof buffers,
                                               .q = b->q,
                                               .k = alone ? b->k : b->workspace + r->k,
                                               .v = alone ? b->v : b->workspace + r->v,
                                               .o = b->o,
                                               .lse = b->lse,
                                               .workspace = b->workspace + r->kernel[0].workspace,
                                               .sinks = b->sinks,
                                               .arrivals = word_at(r, b, 0),
                                               .k_own = b->k,
                                               .v_own = b->v};
    TRY(wait_for_pieces(plan, local, b));
    return group_pass(plan->group, local, ptxpack_attention_launch(r->kernel[0].plan, &buffers, b->stream));
}
