/* sharded.c - a parallel attention of tensors in host memory. */
#include "sharded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool fail(sharded *s, const char *line)
{
    snprintf(s->line, sizeof s->line, "%s", line);
    return false;
}

static bool check(sharded *s, const sharded_rank *r, ptxpack_cu_result result, const char *what)
{
    char text[256];
    if (result == PTXPACK_CU_SUCCESS)
        return true;
    snprintf(s->line, sizeof s->line, "%s: %s", what,
             ptxpack_driver_error(ptxpack_driver_table(r->handle), result, text, sizeof text));
    return false;
}

static const struct ptxpack_driver *driver_of(const sharded_rank *r) { return ptxpack_driver_table(r->handle); }

static bool enter(sharded *s, const sharded_rank *r)
{
    return check(s, r, driver_of(r)->cuCtxPushCurrent(ptxpack_context(r->handle)), "cuCtxPushCurrent");
}

static void leave(const sharded_rank *r)
{
    struct CUctx_st *context;
    driver_of(r)->cuCtxPopCurrent(&context);
}

static int64_t rows_of(const sharded_rank *r) { return (int64_t)r->count[0] + r->count[1]; }

static uint64_t *address_of(sharded_rank *r, int tensor)
{
    ptxpack_attention_parallel_buffers *b = &r->buffers;
    uint64_t *const                     at[SHARDED_TENSORS] = {&b->q, &b->k, &b->v, &b->o};
    return at[tensor];
}

/* Bytes of a row of all heads. */
static size_t row_bytes(const sharded *s, int tensor)
{
    const ptxpack_attention_desc *d = &s->attention;
    const bool                    query = tensor == SHARDED_Q || tensor == SHARDED_O;
    const int32_t columns = tensor == SHARDED_Q || tensor == SHARDED_K || d->head_dim_v == 0 ? d->head_dim
                                                                                             : d->head_dim_v;
    return ptxpack_dtype_bytes(d->dtype) * (size_t)(query ? d->heads_q : d->heads_kv) * (size_t)columns;
}

static size_t lse_bytes(const sharded *s, const sharded_rank *r)
{
    return sizeof(float) * (size_t)(rows_of(r) * s->batch * s->attention.heads_q);
}

/* ---- ways --------------------------------------------------------------------------------------------- */
const char *const sharded_ways[SHARDED_WAYS] = {"best", "gather", "steps", "heads", "arrive"};

ptxpack_parallel_way sharded_way_of(const char *word)
{
    ptxpack_parallel_way way = PTXPACK_PARALLEL_BEST;
    for (int i = 0; i < SHARDED_WAYS; i++)
        if (strcmp(word, sharded_ways[i]) == 0)
            way = (ptxpack_parallel_way)i;
    return way;
}

/* ---- making and freeing ------------------------------------------------------------------------------- */
static bool reserve(sharded *s, const sharded_rank *r, uint64_t *at, size_t bytes)
{
    ptxpack_deviceptr address = 0;
    bool ok = bytes == 0 || (check(s, r, driver_of(r)->cuMemAlloc(&address, bytes), "cuMemAlloc") &&
                             check(s, r, driver_of(r)->cuMemsetD8(address, 0, bytes), "cuMemsetD8"));
    *at = address;
    return ok;
}

static bool make_rank(sharded *s, int32_t local)
{
    sharded_rank *r = &s->rank[local];
    bool          ok = enter(s, r);
    if (!ok)
        return false;
    r->buffers.size = sizeof r->buffers;
    for (int i = 0; i < SHARDED_TENSORS && ok; i++)
        ok = reserve(s, r, address_of(r, i), (size_t)(rows_of(r) * s->batch) * row_bytes(s, i));
    ok = ok && reserve(s, r, &r->buffers.lse, lse_bytes(s, r)) &&
         reserve(s, r, &r->buffers.workspace, ptxpack_attention_parallel_workspace(s->plan, local)) &&
         reserve(s, r, &r->buffers.sinks, sizeof(float) * (size_t)s->attention.heads_q) &&
         reserve(s, r, &r->buffers.slopes, sizeof(float) * (size_t)s->attention.heads_q) &&
         check(s, r, driver_of(r)->cuStreamCreate(&r->buffers.stream, PTXPACK_CU_STREAM_NON_BLOCKING),
               "cuStreamCreate") &&
         check(s, r, driver_of(r)->cuCtxSynchronize(),
               "cuCtxSynchronize"); /* that stream does not wait for the zeros */
    leave(r);
    return ok;
}

bool sharded_open(sharded *s, ptxpack_parallel_group *group, ptxpack *const *handles,
                  const ptxpack_attention_parallel_desc *desc)
{
    *s = (sharded){.group = group, .attention = *desc->attention, .local = ptxpack_parallel_local(group)};
    s->batch = desc->starts != NULL ? 1 : s->attention.batch;
    s->rows = desc->starts != NULL ? s->attention.rows_q : s->attention.seqlen_q;
    s->rank = (sharded_rank *)calloc((size_t)s->local, sizeof *s->rank);
    if (s->rank == NULL)
        return fail(s, "out of memory");
    for (int32_t i = 0; i < s->local; i++)
        s->rank[i].handle = handles[i];
    if (ptxpack_attention_parallel_plan_create(group, desc, &s->plan) != PTXPACK_OK)
        return fail(s, ptxpack_detail(handles[0]));
    for (int32_t i = 0; i < s->local; i++) {
        for (int32_t c = 0; c < 2; c++)
            ptxpack_attention_parallel_chunk(desc->shards, ptxpack_parallel_ranks(group),
                                             ptxpack_parallel_rank(group) + i, s->rows, c, &s->rank[i].first[c],
                                             &s->rank[i].count[c]);
        if (!make_rank(s, i))
            return false;
    }
    return true;
}

void sharded_close(sharded *s)
{
    for (int32_t i = 0; s->rank != NULL && i < s->local; i++) {
        sharded_rank *r = &s->rank[i];
        if (!enter(s, r))
            continue;
        if (r->buffers.stream != NULL) {
            driver_of(r)->cuStreamSynchronize(r->buffers.stream);
            driver_of(r)->cuStreamDestroy(r->buffers.stream);
        }
        const uint64_t at[] = {r->buffers.q,   r->buffers.k,         r->buffers.v,     r->buffers.o,
                               r->buffers.lse, r->buffers.workspace, r->buffers.sinks, r->buffers.slopes};
        for (size_t k = 0; k < sizeof at / sizeof at[0]; k++)
            if (at[k] != 0)
                driver_of(r)->cuMemFree(at[k]);
        leave(r);
    }
    ptxpack_attention_parallel_plan_free(s->plan);
    free(s->rank);
    *s = (sharded){.group = NULL};
}

/* ---- shards ------------------------------------------------------------------------------------------- */
/* Copies the rows of a rank between a whole tensor and its shard. */
static void copy_rows(const sharded *s, const sharded_rank *r, size_t bytes, char *whole, char *shard,
                      bool take)
{
    for (int64_t b = 0, at = 0; b < s->batch; b++)
        for (int c = 0; c < 2; at += r->count[c++]) {
            char *of_whole = whole + (size_t)(b * s->rows + r->first[c]) * bytes;
            char *of_shard = shard + (size_t)at * bytes;
            memcpy(take ? of_shard : of_whole, take ? of_whole : of_shard, (size_t)r->count[c] * bytes);
        }
}

/* What query heads have; NULL: nothing. */
static bool upload_heads(sharded *s, sharded_rank *r, uint64_t at, const float *values)
{
    return values == NULL ||
           check(s, r, driver_of(r)->cuMemcpyHtoD(at, values, sizeof *values * (size_t)s->attention.heads_q),
                 "cuMemcpyHtoD");
}

static bool upload_rank(sharded *s, sharded_rank *r, const void *const tensors[SHARDED_O], const float *sinks,
                        const float *slopes)
{
    bool ok = true;
    for (int i = 0; i < SHARDED_O && ok && rows_of(r) > 0; i++) {
        const size_t bytes = (size_t)(rows_of(r) * s->batch) * row_bytes(s, i);
        char        *shard = (char *)malloc(bytes);
        if (shard == NULL)
            return fail(s, "out of memory");
        copy_rows(s, r, row_bytes(s, i), (char *)(uintptr_t)tensors[i], shard, true);
        ok = check(s, r, driver_of(r)->cuMemcpyHtoD(*address_of(r, i), shard, bytes), "cuMemcpyHtoD");
        free(shard);
    }
    return ok && upload_heads(s, r, r->buffers.sinks, sinks) && upload_heads(s, r, r->buffers.slopes, slopes);
}

bool sharded_upload(sharded *s, const void *const tensors[SHARDED_O], const float *sinks, const float *slopes)
{
    bool ok = true;
    for (int32_t i = 0; i < s->local && ok; i++)
        if ((ok = enter(s, &s->rank[i]))) {
            ok = upload_rank(s, &s->rank[i], tensors, sinks, slopes);
            leave(&s->rank[i]);
        }
    return ok;
}

bool sharded_launch(sharded *s)
{
    ptxpack_attention_parallel_buffers *buffers = (ptxpack_attention_parallel_buffers *)calloc((size_t)s->local,
                                                                                               sizeof *buffers);
    if (buffers == NULL)
        return fail(s, "out of memory");
    for (int32_t i = 0; i < s->local; i++)
        buffers[i] = s->rank[i].buffers;
    ptxpack_status status = ptxpack_attention_parallel_launch(s->plan, buffers);
    free(buffers);
    return status == PTXPACK_OK || fail(s, ptxpack_detail(s->rank[0].handle));
}

bool sharded_wait(sharded *s)
{
    bool ok = true;
    for (int32_t i = 0; i < s->local && ok; i++) {
        sharded_rank *r = &s->rank[i];
        if ((ok = enter(s, r))) {
            ok = check(s, r, driver_of(r)->cuStreamSynchronize(r->buffers.stream), "cuStreamSynchronize");
            leave(r);
        }
    }
    return ok;
}

/* The lse of a rank, chunk after chunk, into [batch][heads_q][rows]. */
static void place_lse(const sharded *s, const sharded_rank *r, const float *from, float *lse)
{
    for (int c = 0; c < 2; c++)
        for (int64_t i = 0; i < (int64_t)s->batch * s->attention.heads_q; i++, from += r->count[c])
            memcpy(lse + i * s->rows + r->first[c], from, sizeof *lse * (size_t)r->count[c]);
}

static bool download_rank(sharded *s, sharded_rank *r, uint16_t *o, float *lse)
{
    const size_t bytes = (size_t)(rows_of(r) * s->batch) * row_bytes(s, SHARDED_O), lses = lse_bytes(s, r);
    char        *shard = (char *)malloc(bytes + lses + 1);
    bool         ok = shard != NULL || fail(s, "out of memory");
    if (ok && bytes > 0)
        ok = check(s, r, driver_of(r)->cuMemcpyDtoH(shard, r->buffers.o, bytes), "cuMemcpyDtoH") &&
             check(s, r, driver_of(r)->cuMemcpyDtoH(shard + bytes, r->buffers.lse, lses), "cuMemcpyDtoH");
    if (ok)
        copy_rows(s, r, row_bytes(s, SHARDED_O), (char *)o, shard, false);
    if (ok && lse != NULL)
        place_lse(s, r, (const float *)(const void *)(shard + bytes), lse);
    free(shard);
    return ok;
}

bool sharded_download(sharded *s, uint16_t *o, float *lse)
{
    bool ok = true;
    for (int32_t i = 0; i < s->local && ok; i++)
        if ((ok = enter(s, &s->rank[i]))) {
            ok = download_rank(s, &s->rank[i], o, lse);
            leave(&s->rank[i]);
        }
    return ok;
}
