/* check.c - two rows of a case against double precision; keys and values are computed anew, not copied back. */
#include <stdio.h>
#include <stdlib.h>

#include "ranks.h"
#include "tools/bench/memory.h"
#include "tools/problem/verify.h"

/* Where a row of the sequence is: its rank, and the row of its tensors; of the lse the first element of its chunk, and its
 * row there. */
typedef struct place {
    int32_t rank, row, rows_before, rows, in_chunk;
} place;

static place place_of(const ranks_bench *b, const ranks_case *c, int32_t row)
{
    place p = {0, row, 0, c->desc.seqlen_q, row};
    for (int32_t r = 0; c->kind == RANKS_PREFILL && r < b->ranks; r++)
        for (int32_t chunk = 0, before = 0, first, count; chunk < 2; chunk++, before += count) {
            ptxpack_attention_parallel_chunk(c->shards, b->ranks, r, c->desc.seqlen_q, chunk, &first, &count);
            if (row >= first && row < first + count)
                p = (place){r, before + row - first, before, count, row - first};
        }
    return p;
}

/* Where a key is; those of decoding are divided in equal parts. */
static place key_of(const ranks_bench *b, const ranks_case *c, int32_t key)
{
    if (c->kind == RANKS_DECODE)
        return (place){key / c->desc.seqlen_kv, key % c->desc.seqlen_kv, 0, 0, 0};
    return place_of(b, c, key);
}

static void make_row(const ranks_bench *b, const ptxpack_attention_desc *d, const place *p, int tensor, int set,
                     int32_t head, uint16_t *to)
{
    const int32_t  heads = tensor == RANKS_Q ? d->heads_q : d->heads_kv;
    const uint32_t seed = ranks_seed(b, p->rank, tensor, set);
    const uint32_t from = ((uint32_t)p->row * (uint32_t)heads + (uint32_t)head) * (uint32_t)d->head_dim;
    for (int32_t i = 0; i < d->head_dim; i++)
        to[i] = ptxpack_from_float(d->dtype, bench_memory_element(from + (uint32_t)i, seed));
}

static bool read_result(ranks_bench *b, const ranks_case *c, const place *p, int set, int32_t head, uint16_t *o,
                        float *lse)
{
    const ptxpack_attention_desc *d = &c->desc;
    device                       *gpu = &b->rank[p->rank].gpu;
    const size_t                  heads = (size_t)d->heads_q, dim = (size_t)d->head_dim;
    const size_t                  at = ((size_t)p->row * heads + (size_t)head) * dim;
    const size_t lse_at = heads * (size_t)p->rows_before + (size_t)head * (size_t)p->rows + (size_t)p->in_chunk;
    return ranks_said(b, p->rank,
                      device_attach(gpu) &&
                          device_download(gpu, o, ranks_at(b, p->rank, RANKS_O, set) + at * sizeof *o,
                                          dim * sizeof *o) &&
                          device_download(gpu, lse, ranks_at(b, p->rank, RANKS_LSE, set) + lse_at * sizeof *lse,
                                          sizeof *lse));
}

static bool wrong(ranks_bench *b, const ranks_case *c, int32_t row, const verify_result *v)
{
    snprintf(
        b->rank[0].gpu.line, sizeof b->rank[0].gpu.line,
        "wrong: %s of %d keys, %d ranks: row %d differs by %.3g, of %.3g allowed; the log-sum-exp by %.3g, "
        "of %.3g",
        c->kind == RANKS_DECODE ? "decoding" : "attention", (int)c->desc.seqlen_kv,
        c->kind == RANKS_ALONE ? 1 : (int)b->ranks, (int)row, v->out_error, v->bound, v->lse_error,
        v->lse_bound);
    return false;
}

static bool check_row(ranks_bench *b, const ranks_case *c, int set, int32_t row, int32_t head)
{
    const ptxpack_attention_desc *d = &c->desc;
    const bool                    causal = d->mask != PTXPACK_MASK_NONE;
    const int32_t keys = causal ? row + 1 : d->seqlen_kv * (c->kind == RANKS_DECODE ? b->ranks : 1);
    const ptxpack_attention_desc alone = {.size = sizeof alone,
                                          .dtype = d->dtype,
                                          .batch = 1,
                                          .seqlen_q = 1,
                                          .seqlen_kv = keys,
                                          .heads_q = 1,
                                          .heads_kv = 1,
                                          .head_dim = d->head_dim};
    const size_t                 dim = (size_t)d->head_dim;
    const place                  query = place_of(b, c, row);
    uint16_t                    *q = (uint16_t *)malloc(2 * ((size_t)keys + 1) * dim * sizeof *q);
    verify_result                result = {.pass = false};
    float                        lse;
    if (q == NULL)
        return snprintf(b->rank[0].gpu.line, sizeof b->rank[0].gpu.line, "no memory"), false;
    uint16_t     *o = q + dim, *k = o + dim, *v = k + (size_t)keys * dim;
    const int32_t shared = head / (d->heads_q / d->heads_kv);
    make_row(b, d, &query, RANKS_Q, set, head, q);
    for (int32_t i = 0; i < keys; i++) {
        const place key = key_of(b, c, i);
        make_row(b, d, &key, RANKS_K, set, shared, k + (size_t)i * dim);
        make_row(b, d, &key, RANKS_V, set, shared, v + (size_t)i * dim);
    }
    bool ok = read_result(b, c, &query, set, head, o, &lse);
    ok = ok &&
         device_status(&b->rank[0].gpu, verify_attention(&alone, q, k, v, NULL, o, &lse, 1, 1, &result)) &&
         (result.pass || wrong(b, c, row, &result));
    free(q);
    return ok;
}

bool ranks_check(ranks_bench *b, const ranks_case *c)
{
    return c->kind == RANKS_COPY ||
           (check_row(b, c, 0, 0, 0) &&
            check_row(b, c, RANKS_SETS - 1, c->desc.seqlen_q - 1, c->desc.heads_q - 1));
}
