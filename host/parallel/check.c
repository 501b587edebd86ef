/* check.c - what is computed in parallel, and the attention of each part. */
#define XXH_INLINE_ALL
#include <string.h>
#include <xxhash.h>

#include "host/attention/check.h"
#include "arrive.h"
#include "heads.h"

#define refuse(line, ...) plan_refuse(line, PTXPACK_E_ARG, __VA_ARGS__)

/* The fields of an attention that are 0 here. */
#define UNUSED(field)                                                                                 \
    {                                                                                                 \
#field, offsetof(ptxpack_attention_desc, field), sizeof(((ptxpack_attention_desc *)0)->field) \
    }
static const struct {
    const char *name;
    size_t      at, bytes;
} unused[] = {
    UNUSED(q),          UNUSED(k),           UNUSED(v),           UNUSED(o),           UNUSED(page_rows),
    UNUSED(split_rows), UNUSED(append),      UNUSED(kv_dtype),    UNUSED(score_mod),   UNUSED(mask_mod),
    UNUSED(bias_dtype), UNUSED(mask_keys),   UNUSED(bias),        UNUSED(mask_bits),   UNUSED(block_rows),
    UNUSED(block_keys), UNUSED(block_width), UNUSED(table_width), UNUSED(block_batch), UNUSED(block_head),
};

static ptxpack_status check_attention(const ptxpack_attention_desc *d, char *line)
{
    static const char  zeros[sizeof(ptxpack_strides)] = {0};
    attention_geometry geometry;
    for (size_t i = 0; i < sizeof unused / sizeof unused[0]; i++)
        if (memcmp((const char *)d + unused[i].at, zeros, unused[i].bytes) != 0)
            return refuse(line, "attention.%s is not 0, as it must be in parallel", unused[i].name);
    if ((d->options & ~(uint32_t)(PTXPACK_SINKS | PTXPACK_ALIBI)) != 0)
        return refuse(line,
                      "attention.options 0x%x: only PTXPACK_SINKS and PTXPACK_ALIBI are possible in parallel",
                      (unsigned)d->options);
    if (d->dtype == PTXPACK_E4M3)
        return refuse(line, "attention.dtype PTXPACK_E4M3 is not possible in parallel");
    if (d->seqlen_q != d->seqlen_kv)
        return refuse(line, "attention.seqlen_q %d is not seqlen_kv %d, as it must be in parallel",
                      (int)d->seqlen_q, (int)d->seqlen_kv);
    return ptxpack_attention_resolve(d, &geometry, line);
}

/* Packed rows, and where their sequences begin, are there together. */
static ptxpack_status check_starts(const ptxpack_attention_parallel_desc *desc, const ptxpack_attention_desc *d,
                                   char *line)
{
    const int32_t *starts = desc->starts;
    const bool     packed = d->q_rows == PTXPACK_ROWS_PACKED && d->kv_rows == PTXPACK_ROWS_PACKED;
    if (!packed && (d->q_rows != PTXPACK_ROWS_DENSE || d->kv_rows != PTXPACK_ROWS_DENSE || d->rows_q != 0 ||
                    d->rows_kv != 0))
        return refuse(line, "attention.q_rows and kv_rows are neither both dense nor both packed");
    if (packed != (starts != NULL))
        return refuse(line, "starts is %s, and rows are %spacked", starts != NULL ? "given" : "NULL",
                      packed ? "" : "not ");
    if (!packed)
        return PTXPACK_OK;
    if (d->rows_q != d->rows_kv)
        return refuse(line, "attention.rows_q %d is not rows_kv %d", (int)d->rows_q, (int)d->rows_kv);
    if (desc->way == PTXPACK_PARALLEL_STEPS)
        return refuse(line, "way PTXPACK_PARALLEL_STEPS is not possible with packed rows");
    if (starts[0] != 0 || starts[d->batch] != d->rows_q)
        return refuse(line, "starts from %d to %d is not from 0 to rows_q %d", (int)starts[0],
                      (int)starts[d->batch], (int)d->rows_q);
    for (int32_t i = 0; i < d->batch; i++)
        if (starts[i + 1] < starts[i] || starts[i + 1] - starts[i] > d->seqlen_q)
            return refuse(line, "sequence %d of starts has %d rows, not 0 to seqlen_q %d", (int)i,
                          (int)(starts[i + 1] - starts[i]), (int)d->seqlen_q);
    return PTXPACK_OK;
}

/* Where a row is in its sequence, which ALiBi and chunks ask for, is said by the last key: of parts that end elsewhere it is not. */
static ptxpack_status check_places(const parallel_whole *w, ptxpack_parallel_way way, char *line)
{
    if (!parallel_has_places(w) || way == PTXPACK_PARALLEL_HEADS)
        return PTXPACK_OK;
    if (way == PTXPACK_PARALLEL_STEPS || way == PTXPACK_PARALLEL_ARRIVE)
        return refuse(line, "way %s is not possible with %s",
                      way == PTXPACK_PARALLEL_STEPS ? "PTXPACK_PARALLEL_STEPS" : "PTXPACK_PARALLEL_ARRIVE",
                      w->desc.chunk > 0 ? "chunks" : "PTXPACK_ALIBI");
    if (w->problem.right != 0)
        return refuse(line, "PTXPACK_ALIBI needs a mask without keys behind a row, or PTXPACK_PARALLEL_HEADS");
    return PTXPACK_OK;
}

ptxpack_status parallel_check_way(const parallel_whole *w, ptxpack_parallel_way way, char line[PLAN_LINE])
{
    ptxpack_status status = check_places(w, way, line);
    if (status == PTXPACK_OK && way == PTXPACK_PARALLEL_HEADS)
        status = heads_check(w, line);
    if (status == PTXPACK_OK && way == PTXPACK_PARALLEL_ARRIVE)
        status = arrive_check(w, line);
    return status;
}

ptxpack_status parallel_resolve(const ptxpack_attention_parallel_desc *desc, int32_t ranks, parallel_whole *out,
                                char line[PLAN_LINE])
{
    ptxpack_attention_desc *d = &out->desc;
    if (desc == NULL || desc->size != sizeof *desc)
        return refuse(line, "desc%s%s", desc == NULL ? "" : ".size",
                      desc == NULL ? " is NULL" : " is not sizeof(ptxpack_attention_parallel_desc)");
    if (desc->attention == NULL)
        return refuse(line, "desc.attention is NULL");
    if (desc->shards != PTXPACK_SHARDS_CONTIGUOUS && desc->shards != PTXPACK_SHARDS_ZIGZAG)
        return refuse(line, "shards %d is neither PTXPACK_SHARDS_CONTIGUOUS nor PTXPACK_SHARDS_ZIGZAG",
                      (int)desc->shards);
    if (desc->way < PTXPACK_PARALLEL_BEST || desc->way > PTXPACK_PARALLEL_ARRIVE)
        return refuse(line, "way %d is no ptxpack_parallel_way", (int)desc->way);
    if (!(desc->link_gbps >= 0))
        return refuse(line, "link_gbps is %g; it must be at least 0", (double)desc->link_gbps);
    ptxpack_status status = attention_whole_desc(desc->attention, d, line);
    if (status == PTXPACK_OK)
        status = check_attention(d, line);
    if (status == PTXPACK_OK)
        status = check_starts(desc, d, line);
    if (status != PTXPACK_OK)
        return status;
    const bool window = d->mask == PTXPACK_MASK_WINDOW_TOP_LEFT || d->mask == PTXPACK_MASK_WINDOW_BOTTOM_RIGHT;
    out->problem = (parallel_problem){.ranks = ranks,
                                      .shards = desc->shards,
                                      .way = desc->way,
                                      .rows = d->seqlen_q,
                                      .left = window ? d->window_left : -1,
                                      .right = window                         ? d->window_right
                                               : d->mask == PTXPACK_MASK_NONE ? -1
                                                                              : 0,
                                      .keys_of_chunk = d->chunk};
    out->batch = d->batch;
    if (desc->starts != NULL) {
        out->batch = 1;
        out->problem.rows = d->rows_q;
        if (desc->way == PTXPACK_PARALLEL_BEST) /* the model knows no lengths */
            out->problem.way = PTXPACK_PARALLEL_GATHER;
        out->problem.starts = desc->starts;
        out->problem.sequences = d->batch;
        out->starts_digest = XXH32(desc->starts, ((size_t)d->batch + 1) * sizeof *desc->starts, 0);
        if (out->problem.right > 0 || (out->problem.right < 0 && out->problem.left >= 0))
            return refuse(line, "window_right is %d; with packed rows it must be 0", (int)d->window_right);
    }
    status = parallel_check_way(out, desc->way, line);
    if (status != PTXPACK_OK)
        return status;
    out->asked = desc->way;
    const int64_t bytes = (int64_t)ptxpack_dtype_bytes(d->dtype);
    out->q_row = bytes * d->heads_q * d->head_dim;
    out->k_row = bytes * d->heads_kv * d->head_dim;
    out->v_row = bytes * d->heads_kv * attention_value_dim(d);
    out->o_row = bytes * d->heads_q * attention_value_dim(d);
    return PTXPACK_OK;
}

static ptxpack_strides strides_of(int64_t rows, int64_t heads, int64_t columns)
{
    return (ptxpack_strides){rows * heads * columns, heads * columns, columns};
}

/* Each sequence's last row of the chunk is at its last key, or there is no mask: masks count from there. */
static ptxpack_attention_desc packed_desc(const parallel_whole *whole, const parallel_schedule *s,
                                          const parallel_part *part)
{
    ptxpack_attention_desc d = whole->desc;
    d.rows_q = (int32_t)s->chunk[part->chunk].count;
    d.rows_kv = (int32_t)part->rows;
    d.seqlen_q = d.seqlen_q < d.rows_q ? d.seqlen_q : d.rows_q;
    d.seqlen_kv = d.seqlen_kv < d.rows_kv ? d.seqlen_kv : d.rows_kv;
    if (d.mask == PTXPACK_MASK_CAUSAL_TOP_LEFT)
        d.mask = PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT;
    if (d.mask == PTXPACK_MASK_WINDOW_TOP_LEFT)
        d.mask = PTXPACK_MASK_WINDOW_BOTTOM_RIGHT;
    return d;
}

ptxpack_attention_desc parallel_part_desc(const parallel_whole *whole, const parallel_schedule *s,
                                          int32_t index)
{
    const parallel_part   *part = &s->parts[index];
    ptxpack_attention_desc d = whole->desc;
    const int64_t          shard = s->chunk[0].count + s->chunk[1].count;
    const int64_t          keys = part->step == 0 ? shard : s->buffer_rows;
    if (whole->problem.starts != NULL)
        return packed_desc(whole, s, part);
    d.seqlen_q = (int32_t)s->chunk[part->chunk].count;
    d.seqlen_kv = (int32_t)part->rows;
    d.mask = d.chunk > 0 ? PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT : part->mask; /* the same, of one row too */
    d.window_left = part->window_left;
    d.window_right = part->window_right;
    d.q = strides_of(shard, d.heads_q, d.head_dim);
    d.k = strides_of(keys, d.heads_kv, d.head_dim);
    d.v = strides_of(keys, d.heads_kv, attention_value_dim(&d));
    d.o = strides_of(parallel_parts_of(s, part->chunk) == 1 ? shard : d.seqlen_q, d.heads_q,
                     attention_value_dim(&d));
    for (int32_t i = 0; i < index; i++)
        if (s->parts[i].chunk == part->chunk)
            d.options &= ~(uint32_t)PTXPACK_SINKS; /* the chunk's first part has them */
    return d;
}
