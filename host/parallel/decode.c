/* decode.c - decoding with keys that are divided among ranks: each one's result, an exchange of all, a merge.
 *
 * The workspace has a record for each rank: its o, compact, then its lse.  A rank's attention writes its own record; the
 * exchange brings those of the others.  Devices that can read each other's memory need no exchange: the merge of each reads the
 * records where they are.
 *   Two H200, 2026-11-27, 32/8 heads, d 128, four launches at a time, us     65,536 keys   262,144   1,048,576
 *   one GPU                                                                       67       248        951
 *   with the exchange                                                             95       186        539
 *   without                                                                       87       169        525
 * Where many launches follow each other it is 55, 146 and 503: a device sees an event of another one 4 to 8 us later, twice a launch.
 * Values that streams write to and wait for in the other's memory take 6 to 9. */
#include <stdlib.h>
#include <string.h>

#include "host/attention/check.h"
#include "loader/missing.h"
#include "plan.h"

typedef ptxpack_parallel_decode_plan    decode_plan;
typedef ptxpack_parallel_decode_buffers decode_buffers;

typedef struct decode_rank {
    ptxpack_attention_plan *attention;
    merge_parts_plan       *merge;
    merge_parts_plan       *listed;         /* the same of records that are where they were made, or NULL */
    struct CUevent_st      *done, *arrived; /* the own record; those of all others, which then may change */
} decode_rank;

struct ptxpack_parallel_decode_plan {
    ptxpack_parallel_group *group;
    uint64_t     lse, record, records, bytes; /* in a record; its bytes; those of all; of the workspace */
    uint64_t     o_bytes, lse_bytes;          /* of the result */
    decode_rank *rank;
};

/* ---- making plans ------------------------------------------------------------------------------------- */
static ptxpack_status check_desc(const ptxpack_attention_desc *d, char *line)
{
    const uint32_t     refused = PTXPACK_LENGTHS_Q | PTXPACK_ALIBI | PTXPACK_BIAS | PTXPACK_MASK_BITS;
    attention_geometry geometry;
    if (d->mask != PTXPACK_MASK_NONE)
        return plan_refuse(line, PTXPACK_E_ARG, "mask is %d; of divided keys it must be PTXPACK_MASK_NONE",
                           (int)d->mask);
    if (d->q_rows != PTXPACK_ROWS_DENSE)
        return plan_refuse(line, PTXPACK_E_ARG, "q_rows is %d; in parallel it must be PTXPACK_ROWS_DENSE",
                           (int)d->q_rows);
    if ((d->options & refused) != 0)
        return plan_refuse(line, PTXPACK_E_ARG, "options 0x%x are not possible in parallel",
                           (unsigned)(d->options & refused));
    if (d->append != NULL || d->block_rows != 0)
        return plan_refuse(line, PTXPACK_E_ARG, "%s is not possible in parallel",
                           d->append != NULL ? "append" : "block_rows");
    return ptxpack_attention_resolve(d, &geometry, line);
}

static ptxpack_status make_events(const ptxpack_parallel_group *g, int32_t local, decode_rank *r)
{
    const struct ptxpack_driver *d = ptxpack_driver_table(g->member[local].handle);
    bool                         pushed;
    ptxpack_status               status = group_enter(g, local, &pushed);
    if (status != PTXPACK_OK)
        return status;
    ptxpack_cu_result result = d->cuEventCreate(&r->done, PTXPACK_CU_EVENT_DISABLE_TIMING);
    if (result == PTXPACK_CU_SUCCESS)
        result = d->cuEventCreate(&r->arrived, PTXPACK_CU_EVENT_DISABLE_TIMING);
    group_leave(g, local, pushed);
    return result == PTXPACK_CU_SUCCESS ? PTXPACK_OK : group_fail(g, local, result, "cuEventCreate");
}

static ptxpack_status make_rank(decode_plan *plan, int32_t local, const ptxpack_attention_desc *whole)
{
    const ptxpack_parallel_group *g = plan->group;
    decode_rank                  *r = &plan->rank[local];
    ptxpack_attention_desc        own = *whole;
    plan_head                    *made = NULL;
    merge_parts_desc              merge = {.dtype = whole->dtype == PTXPACK_E4M3 ? PTXPACK_BF16 : whole->dtype,
                                           .batch = whole->batch,
                                           .rows = whole->seqlen_q,
                                           .heads = whole->heads_q,
                                           .head_dim = attention_value_dim(whole),
                                           .parts = g->ranks,
                                           .o = whole->o};
    own.o = (ptxpack_strides){0, 0, 0};
    if (g->first + local > 0)
        own.options &= ~(uint32_t)PTXPACK_SINKS; /* they count once */
    ptxpack_status status = ptxpack_attention_plan_create(g->member[local].handle, &own, &r->attention);
    if (status == PTXPACK_OK)
        status = plan_create(&merge_parts_op, g->member[local].handle, &merge, NULL, &made);
    r->merge = (merge_parts_plan *)made;
    merge.listed = g->direct && g->ranks > 1 && g->ranks <= MERGE_LISTED;
    if (status == PTXPACK_OK && merge.listed) {
        status = plan_create(&merge_parts_op, g->member[local].handle, &merge, NULL, &made);
        r->listed = (merge_parts_plan *)made;
    }
    if (status != PTXPACK_OK)
        return group_pass(g, local, status);
    if (plan->bytes < plan->records + ptxpack_attention_workspace(r->attention))
        plan->bytes = plan->records + ptxpack_attention_workspace(r->attention);
    return make_events(g, local, r);
}

static void measure(decode_plan *plan, const ptxpack_attention_desc *d)
{
    enum { ALIGNMENT = 256 };
    const uint64_t vectors = (uint64_t)d->batch * (uint64_t)d->seqlen_q * (uint64_t)d->heads_q;
    plan->lse_bytes = vectors * sizeof(float);
    plan->o_bytes = 2 * vectors * (uint64_t)attention_value_dim(d);
    plan->lse = plan->o_bytes; /* columns are a multiple of 8 */
    plan->record = (plan->lse + plan->lse_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    plan->records = plan->bytes = plan->record * (uint64_t)plan->group->ranks;
}

ptxpack_status ptxpack_parallel_decode_plan_create(ptxpack_parallel_group        *g,
                                                   const ptxpack_attention_desc  *desc,
                                                   ptxpack_parallel_decode_plan **plan)
{
    char           line[PLAN_LINE];
    parallel_whole whole;
    decode_plan   *made = NULL;
    memset(&whole, 0, sizeof whole);
    if (plan != NULL)
        *plan = NULL;
    if (g == NULL)
        return PTXPACK_MISSING(NULL, "group");
    ptxpack *handle = g->member[0].handle;
    if (plan == NULL)
        return PTXPACK_MISSING(handle, "plan");
    ptxpack_status status = attention_whole_desc(desc, &whole.desc, line);
    if (status == PTXPACK_OK)
        status = check_desc(&whole.desc, line);
    if (status != PTXPACK_OK)
        ptxpack_fail(handle, status, "%s", line);
    status = parallel_agree(g, &whole, status);
    if (status != PTXPACK_OK)
        return status;
    made = (decode_plan *)calloc(1, sizeof *made + (size_t)g->local * sizeof *made->rank);
    if (made == NULL)
        return ptxpack_fail(handle, PTXPACK_E_MEMORY, "out of memory for a plan of %d ranks", (int)g->local);
    made->group = g;
    made->rank = (decode_rank *)(made + 1);
    measure(made, &whole.desc);
    for (int32_t i = 0; i < g->local && status == PTXPACK_OK; i++)
        status = make_rank(made, i, &whole.desc);
    status = parallel_agree(g, &whole, status);
    if (status == PTXPACK_OK)
        *plan = made;
    else
        ptxpack_parallel_decode_plan_free(made);
    return status;
}

void ptxpack_parallel_decode_plan_free(ptxpack_parallel_decode_plan *plan)
{
    bool pushed;
    for (int32_t i = 0; plan != NULL && i < plan->group->local; i++) {
        decode_rank                 *r = &plan->rank[i];
        const struct ptxpack_driver *d = ptxpack_driver_table(plan->group->member[i].handle);
        if (r->done != NULL && group_enter(plan->group, i, &pushed) == PTXPACK_OK) {
            d->cuEventDestroy(r->done);
            if (r->arrived != NULL)
                d->cuEventDestroy(r->arrived);
            group_leave(plan->group, i, pushed);
        }
        ptxpack_attention_plan_free(r->attention);
        free(r->merge);
        free(r->listed);
    }
    if (plan != NULL)
        plan->group->step_count = 0; /* its events are gone */
    free(plan);
}

size_t ptxpack_parallel_decode_workspace(const ptxpack_parallel_decode_plan *plan)
{
    return plan != NULL ? (size_t)plan->bytes : 0;
}

/* ---- launches ----------------------------------------------------------------------------------------- */
static uint64_t record_of(const decode_plan *plan, const decode_buffers *b, int32_t rank)
{
    return b->workspace + (uint64_t)rank * plan->record;
}

static ptxpack_status check_rank(const decode_plan *plan, int32_t local, const decode_buffers *b)
{
    const ptxpack *handle = plan->group->member[0].handle;
    char           line[PLAN_LINE];
    if (b->size != sizeof *b || b->reserved != 0 || b->attention == NULL)
        return ptxpack_fail(handle, PTXPACK_E_ARG, "buffers[%d].%s", (int)local,
                            b->size != sizeof *b   ? "size is not sizeof(ptxpack_parallel_decode_buffers)"
                            : b->attention == NULL ? "attention is NULL"
                                                   : "reserved is not 0");
    const memory_range ranges[] = {
        {"workspace", b->workspace, plan->bytes, 16, false},
        {"o", b->attention->o, plan->o_bytes, 16, false},
        {"lse", b->attention->lse, plan->lse_bytes, 4, true},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (memory_check(&ranges[i], line) != PTXPACK_OK)
            return ptxpack_fail(handle, PTXPACK_E_ARG, "rank %d: %s", (int)(plan->group->first + local), line);
    return PTXPACK_OK;
}

static ptxpack_status attend(const decode_plan *plan, int32_t local, const decode_buffers *all)
{
    const decode_buffers     *b = &all[local];
    const uint64_t            own = record_of(plan, b, plan->group->first + local);
    ptxpack_attention_buffers buffers;
    char                      line[PLAN_LINE];
    ptxpack_status            status = plan_whole(&attention_buffers_struct, b->attention, &buffers, line);
    if (status != PTXPACK_OK)
        return ptxpack_fail(plan->group->member[0].handle, status, "rank %d: %s",
                            (int)(plan->group->first + local), line);
    buffers.size = sizeof buffers;
    buffers.o = own;
    buffers.lse = own + plan->lse;
    buffers.workspace = b->workspace + plan->records;
    buffers.launch = 0;
    status = group_pass(plan->group, local,
                        ptxpack_attention_launch(plan->rank[local].attention, &buffers, b->stream));
    return status == PTXPACK_OK ? group_record(plan->group, local, plan->rank[local].done, b->stream) : status;
}

static ptxpack_status exchange(const decode_plan *plan, int32_t local, const decode_buffers *b)
{
    ptxpack_parallel_group *g = plan->group;
    struct CUstream_st     *stream = g->member[local].copies;
    ptxpack_status          status = group_wait_for(g, local, stream, plan->rank[local].done);
    if (status == PTXPACK_OK && g->nccl != NULL) {
        const uint64_t own = record_of(plan, b, g->first);
        g->steps[0] = (group_step){plan->rank[0].arrived, -1};
        g->step_count = 1;
        if ((status = group_begin(g)) == PTXPACK_OK)
            status = group_end(g, g->nccl->ncclAllGather((const void *)(uintptr_t)own,
                                                         (void *)(uintptr_t)b->workspace, plan->record,
                                                         NCCL_INT8, g->comm, stream));
    }
    for (int32_t n = 1; n < g->local && status == PTXPACK_OK; n++) {
        const int32_t from = (local + n) % g->local; /* not all from the same one at a time */
        status = group_wait_for(g, local, stream, plan->rank[from].done);
        if (status == PTXPACK_OK)
            status = group_copy(g, g->member[local].copies, local, record_of(plan, &b[local], from), from,
                                record_of(plan, &b[from], from), plan->record);
    }
    return status == PTXPACK_OK ? group_record(g, local, plan->rank[local].arrived, stream) : status;
}

static ptxpack_status merge(const decode_plan *plan, int32_t local, const decode_buffers *all)
{
    const decode_buffers     *b = &all[local];
    const merge_parts_buffers parts = {.parts_o = b->workspace,
                                       .parts_lse = b->workspace + plan->lse,
                                       .o = b->attention->o,
                                       .lse = b->attention->lse,
                                       .o_part = (int64_t)plan->record,
                                       .lse_part = (int64_t)plan->record};
    ptxpack_status            status = group_wait_for(plan->group, local, b->stream, plan->rank[local].arrived);
    return status == PTXPACK_OK
               ? group_pass(plan->group, local, plan_launch(&plan->rank[local].merge->head, &parts, b->stream))
               : status;
}

static ptxpack_status merge_where_they_are(const decode_plan *plan, int32_t local, const decode_buffers *all)
{
    const decode_buffers *b = &all[local];
    merge_parts_buffers   parts = {.list_lse = (int64_t)plan->lse,
                                   .o = b->attention->o,
                                   .lse = b->attention->lse};
    ptxpack_status        status = PTXPACK_OK;
    for (int32_t rank = 0; rank < plan->group->local && status == PTXPACK_OK; rank++) {
        parts.list.at[rank] = record_of(plan, &all[rank], rank);
        if (rank != local)
            status = group_wait_for(plan->group, local, b->stream, plan->rank[rank].done);
    }
    if (status == PTXPACK_OK)
        status = group_pass(plan->group, local,
                            plan_launch(&plan->rank[local].listed->head, &parts, b->stream));
    return status == PTXPACK_OK ? group_record(plan->group, local, plan->rank[local].arrived, b->stream)
                                : status;
}

/* A rank's stream goes on when its record has been read by all: then it may change. */
static ptxpack_status wait_for_readers(const decode_plan *plan, int32_t local, const decode_buffers *all)
{
    ptxpack_status status = PTXPACK_OK;
    for (int32_t reader = 0; reader < plan->group->local && status == PTXPACK_OK; reader++)
        if (reader != local)
            status = group_wait_for(plan->group, local, all[local].stream, plan->rank[reader].arrived);
    return status;
}

typedef ptxpack_status (*decode_stage)(const decode_plan *, int32_t, const decode_buffers *);
enum { STAGES = 4 };
static const decode_stage exchanging[STAGES] = {attend, exchange, merge, wait_for_readers};
static const decode_stage direct[STAGES] = {attend, merge_where_they_are, wait_for_readers, NULL};

static bool can_be_direct(const decode_plan *plan, const decode_buffers *buffers)
{
    for (int32_t i = 0; i < plan->group->local; i++)
        if (plan->rank[i].listed == NULL || !group_shows(plan->group, i, buffers[i].workspace))
            return false;
    return true;
}

ptxpack_status ptxpack_parallel_decode(const ptxpack_parallel_decode_plan    *plan,
                                       const ptxpack_parallel_decode_buffers *buffers)
{
    bool pushed;
    if (plan == NULL)
        return PTXPACK_MISSING(NULL, "plan");
    if (buffers == NULL)
        return PTXPACK_MISSING(plan->group->member[0].handle, "buffers");
    ptxpack_status status = group_usable(plan->group);
    for (int32_t i = 0; i < plan->group->local && status == PTXPACK_OK; i++)
        status = check_rank(plan, i, &buffers[i]);
    const decode_stage *stages = can_be_direct(plan, buffers) ? direct : exchanging;
    for (int stage = 0; stage < STAGES && stages[stage] != NULL; stage++)
        for (int32_t i = 0; i < plan->group->local && status == PTXPACK_OK; i++)
            if ((status = group_enter(plan->group, i, &pushed)) == PTXPACK_OK) {
                status = stages[stage](plan, i, buffers);
                group_leave(plan->group, i, pushed);
            }
    return status;
}
