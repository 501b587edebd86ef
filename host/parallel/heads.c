/* heads.c - way `heads` of parallel attention: an all-to-all of rows, one attention of each rank's heads, and an all-to-all of
 * results.
 *
 * In a group of devices a rank takes each piece by one copy of rows that are apart.  With NCCL, what is sent or received is
 * compact: where a piece is not, a copy within the device makes it so before, or takes it apart after. */
#include "heads.h"

#include <stdlib.h>

#include "host/attention/check.h"

typedef ptxpack_attention_parallel_plan    parallel_plan;
typedef ptxpack_attention_parallel_buffers parallel_buffers;

/* ---- pieces ------------------------------------------------------------------------------------------- */
/* Some rows of a tensor; its place in the shard of the rank that holds them, and in the whole sequences of the one that attends. */
typedef struct heads_piece {
    int        tensor;
    int32_t    holder, attends;
    group_rows rows;
    group_side shard, whole; /* .at: from the beginning of the tensor */
} heads_piece;

static int64_t row_of(const parallel_whole *w, int tensor)
{
    const int64_t rows[] = {w->q_row, w->k_row, w->v_row, w->o_row};
    return rows[tensor];
}

/* Of chunk `c` of the holder; perhaps without rows. */
static heads_piece piece_of(const parallel_whole *w, int tensor, int32_t holder, int32_t attends, int32_t c)
{
    const int32_t ranks = w->problem.ranks;
    const int64_t heads = w->desc.heads_q, all = w->problem.rows;
    parallel_rows chunk[2] = {{0, 0}, {0, 0}};
    heads_piece   piece = {.tensor = tensor, .holder = holder, .attends = attends};
    (void)parallel_chunks(&w->problem, holder, chunk);
    const int64_t first = chunk[c].first, count = chunk[c].count, before = c == 0 ? 0 : chunk[0].count;
    if (tensor == HEADS_LSE) {
        const int64_t row = count * (int64_t)sizeof(float),
                      at = before * w->batch * heads * (int64_t)sizeof(float);
        piece.rows = (group_rows){row, count > 0 ? heads / ranks : 0, w->batch};
        piece.shard = (group_side){(uint64_t)at, 0, attends * (heads / ranks), row, heads};
        piece.whole = (group_side){0, first * (int64_t)sizeof(float), 0, all * (int64_t)sizeof(float),
                                   heads / ranks};
    } else {
        const int64_t row = row_of(w, tensor), part = row / ranks;
        piece.rows = (group_rows){part, count, w->batch};
        piece.shard = (group_side){0, attends * part, before, row, chunk[0].count + chunk[1].count};
        piece.whole = (group_side){0, 0, first, part, all};
    }
    return piece;
}

static uint64_t bytes_of(const heads_piece *piece)
{
    return (uint64_t)(piece->rows.width * piece->rows.height * piece->rows.depth);
}

/* Where a piece is in the buffers of a local rank; .at is 0 if the lse is not wanted. */
static group_side in_shard(const heads_piece *piece, const parallel_buffers *b)
{
    const uint64_t tensors[] = {b->q, b->k, b->v, b->o, b->lse};
    group_side     side = piece->shard;
    side.at = tensors[piece->tensor] != 0 ? side.at + tensors[piece->tensor] : 0;
    return side;
}

static group_side in_whole(const heads_piece *piece, const parallel_buffers *b, const parallel_rank *r)
{
    group_side side = piece->whole;
    side.at += b->workspace + r->heads->whole[piece->tensor];
    return side;
}

/* ---- a plan ------------------------------------------------------------------------------------------- */
ptxpack_status heads_check(const parallel_whole *w, char line[PLAN_LINE])
{
    const int32_t heads = w->desc.heads_kv; /* heads_q is a multiple of it */
    return heads % w->problem.ranks == 0
               ? PTXPACK_OK
               : plan_refuse(line, PTXPACK_E_ARG,
                             "heads_kv %d is not a multiple of the %d ranks, as PTXPACK_PARALLEL_HEADS needs",
                             (int)heads, (int)w->problem.ranks);
}

ptxpack_attention_desc heads_desc(const parallel_whole *w)
{
    ptxpack_attention_desc d = w->desc;
    d.heads_q /= w->problem.ranks;
    d.heads_kv /= w->problem.ranks;
    return d;
}

/* What is staged of a piece: with NCCL both ranks of it send and receive compact bytes. */
static uint64_t staged_bytes(const heads_piece *piece)
{
    enum { ALIGNMENT = 16 };
    return (bytes_of(piece) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* The most that is staged at a time: rows that this rank sends, or results that it receives, and the lse of its heads that it
 * sends and that of its rows, which may be unwanted. */
static uint64_t most_staged(const parallel_whole *w, int32_t rank)
{
    uint64_t rows = 0, results = 0;
    for (int32_t peer = 0; peer < w->problem.ranks; peer++)
        for (int32_t c = 0; c < 2 && peer != rank; c++)
            for (int tensor = 0; tensor < HEADS_TENSORS; tensor++) {
                const heads_piece held = piece_of(w, tensor, rank, peer, c);
                const heads_piece attended = piece_of(w, tensor, peer, rank, c);
                if (tensor < HEADS_O)
                    rows += staged_bytes(&held);
                else
                    results += staged_bytes(&held) + (tensor == HEADS_LSE ? staged_bytes(&attended) : 0);
            }
    return rows > results ? rows : results;
}

ptxpack_status heads_make(const ptxpack_parallel_group *g, const parallel_whole *w, int32_t local,
                          parallel_rank *r)
{
    ptxpack                     *handle = g->member[local].handle;
    const ptxpack_attention_desc d = heads_desc(w);
    const uint64_t               rows = (uint64_t)(w->batch * w->problem.rows);
    r->steps = 2;
    if (ptxpack_driver_table(handle)->cuMemcpy3DPeerAsync == NULL)
        return ptxpack_fail(handle, PTXPACK_E_DRIVER, "the driver has no cuMemcpy3DPeerAsync");
    r->heads = (parallel_heads *)calloc(1, sizeof *r->heads);
    if (r->heads == NULL)
        return ptxpack_fail(handle, PTXPACK_E_MEMORY, "out of memory for a plan by heads");
    for (int tensor = 0; tensor < HEADS_LSE; tensor++)
        r->heads->whole[tensor] = parallel_take(r, rows * (uint64_t)row_of(w, tensor) / (uint64_t)g->ranks);
    r->heads->whole[HEADS_LSE] = parallel_take(r, rows * (uint64_t)d.heads_q * sizeof(float));
    if (g->nccl != NULL)
        r->heads->staged = parallel_take(r, most_staged(w, g->first));
    ptxpack_status status = ptxpack_attention_plan_create(handle, &d, &r->heads->plan);
    if (status == PTXPACK_OK)
        r->heads->workspace = parallel_take(r, ptxpack_attention_workspace(r->heads->plan));
    return status;
}

void heads_free(parallel_heads *heads)
{
    if (heads != NULL)
        ptxpack_attention_plan_free(heads->plan);
    free(heads);
}

/* ---- copies between and within devices ---------------------------------------------------------------- */
/* Copies a piece on the copy stream of the local rank that takes it: rows are taken by the one that attends, results by
 * the holder. */
static ptxpack_status copy_piece(const parallel_plan *plan, const parallel_buffers *all,
                                 const heads_piece *piece)
{
    const int32_t first = plan->group->first, holder = piece->holder - first, attends = piece->attends - first;
    const group_side shard = in_shard(piece, &all[holder]),
                     whole = in_whole(piece, &all[attends], &plan->rank[attends]);
    if (bytes_of(piece) == 0 || shard.at == 0)
        return PTXPACK_OK;
    return piece->tensor < HEADS_O
               ? group_copy_rows(plan->group, attends, &whole, holder, &shard, &piece->rows)
               : group_copy_rows(plan->group, holder, &shard, attends, &whole, &piece->rows);
}

/* All pieces that a local rank takes from local ranks: of the tensors first .. end - 1.  Each begins with itself and goes on with
 * the next one, so that the ranks do not read from the same one at a time. */
static ptxpack_status copy_pieces(const parallel_plan *plan, int32_t local, const parallel_buffers *all,
                                  int first, int end)
{
    const int32_t own = plan->group->first + local;
    for (int32_t n = 0; n < plan->local; n++) {
        const int32_t peer = plan->group->first + (local + n) % plan->local;
        for (int tensor = first; tensor < end; tensor++)
            for (int32_t c = 0; c < 2; c++) {
                const bool        rows = tensor < HEADS_O;
                const heads_piece piece = piece_of(&plan->whole, tensor, rows ? peer : own, rows ? own : peer,
                                                   c);
                TRY(copy_piece(plan, all, &piece));
            }
    }
    return PTXPACK_OK;
}

/* ---- NCCL --------------------------------------------------------------------------------------------- */
typedef enum heads_pass { PACK, TRANSFER, UNPACK } heads_pass;

/* An exchange of the one local rank with all others: in each pass the same pieces in the same order, so that what is staged is
 * at the same place. */
typedef struct heads_exchange {
    const parallel_plan    *plan;
    const parallel_buffers *buffers;
    heads_pass              pass;
    uint64_t                at; /* what is staged next */
    nccl_result             worst;
} heads_exchange;

/* A piece that this rank sends to a peer, or receives from it. */
static ptxpack_status pass_piece(heads_exchange *e, const heads_piece *piece, int32_t peer, bool send)
{
    const ptxpack_parallel_group *g = e->plan->group;
    const group_rows             *rows = &piece->rows;
    const group_side              side = piece->holder == g->first ? in_shard(piece, e->buffers)
                                                                   : in_whole(piece, e->buffers, &e->plan->rank[0]);
    const bool                    apart = side.pitch != rows->width || side.at == 0;
    const group_side              compact = {e->at, 0, 0, rows->width, rows->height};
    const group_side             *from = apart ? &compact : &side;
    const size_t                  bytes = (size_t)(rows->width * rows->height); /* of one sequence */
    struct CUstream_st           *stream = g->member[0].copies;
    if (bytes_of(piece) == 0)
        return PTXPACK_OK;
    e->at += apart ? staged_bytes(piece) : 0;
    if (e->pass == PACK && apart && send)
        return group_copy_rows(g, 0, &compact, 0, &side, rows);
    if (e->pass == UNPACK && apart && !send && side.at != 0)
        return group_copy_rows(g, 0, &side, 0, &compact, rows);
    for (int64_t i = 0; e->pass == TRANSFER && i < rows->depth; i++) {
        void       *memory = (void *)(uintptr_t)(from->at +
                                           (uint64_t)(from->x + from->pitch * (from->y + i * from->rows)));
        nccl_result result = send ? g->nccl->ncclSend(memory, bytes, NCCL_INT8, peer, g->comm, stream)
                                  : g->nccl->ncclRecv(memory, bytes, NCCL_INT8, peer, g->comm, stream);
        if (e->worst == NCCL_SUCCESS || e->worst == NCCL_IN_PROGRESS)
            e->worst = result;
    }
    return PTXPACK_OK;
}

/* Two ranks name what passes between them in the same order: that of tensors, and of the holder's chunks. */
static ptxpack_status pass_pieces(heads_exchange *e, heads_pass pass, int first, int end)
{
    const parallel_plan *plan = e->plan;
    const int32_t        own = plan->group->first, ranks = plan->group->ranks;
    e->pass = pass;
    e->at = e->buffers->workspace + plan->rank[0].heads->staged;
    for (int32_t n = 1; n < ranks; n++)
        for (int tensor = first; tensor < end; tensor++)
            for (int32_t c = 0; c < 2; c++) {
                const int32_t     peer = (own + n) % ranks;
                const heads_piece held = piece_of(&plan->whole, tensor, own, peer, c),
                                  attended = piece_of(&plan->whole, tensor, peer, own, c);
                TRY(pass_piece(e, &held, peer, tensor < HEADS_O));
                TRY(pass_piece(e, &attended, peer, tensor >= HEADS_O));
            }
    return PTXPACK_OK;
}

static ptxpack_status exchange(const parallel_plan *plan, const parallel_buffers *b, int first, int end)
{
    ptxpack_parallel_group *g = plan->group;
    heads_exchange          e = {.plan = plan, .buffers = b, .worst = NCCL_SUCCESS};
    TRY(pass_pieces(&e, PACK, first, end));
    TRY(group_begin(g));
    ptxpack_status status = pass_pieces(&e, TRANSFER, first, end);
    TRY(group_end(g, e.worst));
    TRY(status);
    return pass_pieces(&e, UNPACK, first, end);
}

/* ---- the stages of a launch --------------------------------------------------------------------------- */
/* The copies of step 1 or 2 of a local rank, when an event of each local rank is over. */
static ptxpack_status enqueue_step(const parallel_plan *plan, int32_t local, const parallel_buffers *all,
                                   int32_t step)
{
    ptxpack_parallel_group *g = plan->group;
    const parallel_rank    *r = &plan->rank[local];
    struct CUstream_st     *stream = g->member[local].copies;
    const int               first = step == 1 ? HEADS_Q : HEADS_O, end = step == 1 ? HEADS_O : HEADS_TENSORS;
    for (int32_t i = 0; i < plan->local; i++)
        TRY(group_wait_for(g, local, stream, step == 1 ? plan->rank[i].ready : plan->rank[i].beside[0]));
    TRY(copy_pieces(plan, local, all, first, end));
    if (g->nccl != NULL && g->ranks > 1) {
        g->step_count = step;
        g->steps[step - 1] = (group_step){r->arrived[step], g->ranks == 2 ? 1 - g->first : -1};
        TRY(exchange(plan, all, first, end));
    }
    return group_record(g, local, r->arrived[step], stream);
}

ptxpack_status heads_take(const parallel_plan *plan, int32_t local, const parallel_buffers *all)
{
    return enqueue_step(plan, local, all, 1);
}

ptxpack_status heads_attend(const parallel_plan *plan, int32_t local, const parallel_buffers *all)
{
    const parallel_buffers *b = &all[local];
    const parallel_rank    *r = &plan->rank[local];
    const parallel_heads   *heads = r->heads;
    const uint64_t          from = b->workspace, starts = r->upload != NULL ? from + r->upload_at : 0;
    const uint64_t          before = (uint64_t)(plan->group->first + local) *
                            (uint64_t)(plan->whole.desc.heads_q / plan->whole.problem.ranks);
    const ptxpack_attention_buffers buffers = {
        .size = sizeof buffers,
        .q = from + heads->whole[HEADS_Q],
        .k = from + heads->whole[HEADS_K],
        .v = from + heads->whole[HEADS_V],
        .o = from + heads->whole[HEADS_O],
        .lse = from + heads->whole[HEADS_LSE],
        .workspace = from + heads->workspace,
        .sinks = b->sinks != 0 ? b->sinks + before * sizeof(float) : 0,
        .slopes = b->slopes != 0 ? b->slopes + before * sizeof(float) : 0,
        .starts_q = starts,
        .starts_kv = starts,
    };
    TRY(group_wait_for(plan->group, local, b->stream, r->arrived[1]));
    TRY(group_pass(plan->group, local, ptxpack_attention_launch(heads->plan, &buffers, b->stream)));
    return group_record(plan->group, local, r->beside[0], b->stream);
}

ptxpack_status heads_return(const parallel_plan *plan, int32_t local, const parallel_buffers *all)
{
    return enqueue_step(plan, local, all, 2);
}

ptxpack_status heads_end(const parallel_plan *plan, int32_t local, const parallel_buffers *all)
{
    for (int32_t reader = 0; reader < plan->local; reader++)
        TRY(group_wait_for(plan->group, local, all[local].stream, plan->rank[reader].arrived[2]));
    return PTXPACK_OK;
}
