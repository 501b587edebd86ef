/* compare.c - one row of an attention on the device against the host: only what that row needs is copied back. */
#include "attend.h"

#include <stdlib.h>
#include <string.h>

#include "tools/problem/verify.h"

enum { TOGETHER = 4096 /* rows of one copy */ };

size_t attend_key_row(const attend_state *s, int32_t sequence, int32_t key)
{
    const ptxpack_attention_desc *d = &s->desc;
    if (s->table != NULL) {
        const int32_t *pages = s->table + (size_t)sequence * (size_t)d->table_width;
        return (size_t)pages[key / d->page_rows] * (size_t)d->page_rows + (size_t)(key % d->page_rows);
    }
    return (size_t)key +
           (s->starts_kv != NULL ? (size_t)s->starts_kv[sequence] : (size_t)sequence * (size_t)d->seqlen_kv);
}

size_t attend_query_row(const attend_state *s, int32_t sequence, int32_t row)
{
    return (size_t)row +
           (s->starts_q != NULL ? (size_t)s->starts_q[sequence] : (size_t)sequence * (size_t)s->desc.seqlen_q);
}

/* One key head of the first `count` keys of a sequence, from either arena; rows that follow each other are copied at once. */
static bool read_keys(bench_run *run, const bench_case *c, const attend_state *s, int arena, int set,
                      int32_t sequence, int32_t count, int32_t head, uint8_t *to)
{
    const size_t dim = attend_key_bytes(&s->desc), unit = s->desc.kv_dtype != 0 ? 1 : sizeof(uint16_t);
    const size_t row = (size_t)s->desc.heads_kv * dim;
    uint8_t     *rows = (uint8_t *)malloc(TOGETHER * row);
    bool         ok = rows != NULL || bench_wrong(run, c, "no memory");
    for (int32_t key = 0, length; key < count && ok; key += length) {
        const size_t first = attend_key_row(s, sequence, key);
        for (length = 1; length < TOGETHER && key + length < count &&
                         attend_key_row(s, sequence, key + length) == first + (size_t)length;)
            length++;
        ok = bench_read(run, c, arena, set, first * row / unit, (size_t)length * row / unit, rows);
        for (int32_t i = 0; i < length && ok; i++)
            memcpy(to + (size_t)(key + i) * dim, rows + (size_t)i * row + (size_t)head * dim, dim);
    }
    free(rows);
    return ok;
}

/* The row alone: one query of one head, and the keys that its mask keeps. */
typedef struct row_alone {
    ptxpack_attention_desc desc;
    uint16_t              *q, *o;
    uint8_t               *k, *v;
    float                  lse;
} row_alone;

static bool read_row(bench_run *run, bench_case *c, const attend_state *s, int set, int32_t sequence,
                     int32_t row, int32_t head, row_alone *r)
{
    const ptxpack_attention_desc *d = &s->desc;
    const size_t dim = (size_t)d->head_dim, at = attend_query_row(s, sequence, row), heads = (size_t)d->heads_q;
    const size_t keys = (size_t)r->desc.seqlen_kv;
    const int32_t shared = head / (d->heads_q / d->heads_kv);
    const size_t  lse = s->starts_q != NULL
                            ? (size_t)head * (size_t)d->rows_q + at
                            : ((size_t)sequence * heads + (size_t)head) * (size_t)d->seqlen_q + (size_t)row;
    r->q = (uint16_t *)malloc(2 * (keys + 1) * dim * sizeof *r->q);
    if (r->q == NULL)
        return bench_wrong(run, c, "no memory");
    r->o = r->q + dim;
    r->k = (uint8_t *)(r->o + dim);
    r->v = r->k + keys * attend_key_bytes(d);
    return bench_read(run, c, ARENA_Q, set, (at * heads + (size_t)head) * dim, dim, r->q) &&
           bench_read(run, c, ARENA_O, set, (at * heads + (size_t)head) * dim, dim, r->o) &&
           bench_read(run, c, ARENA_LSE, set, lse, 1, &r->lse) &&
           read_keys(run, c, s, ARENA_K, set, sequence, r->desc.seqlen_kv, shared, r->k) &&
           read_keys(run, c, s, ARENA_V, set, sequence, r->desc.seqlen_kv, shared, r->v);
}

bool attend_compare(bench_run *run, bench_case *c, const attend_state *s, int set, int32_t sequence,
                    int32_t row, int32_t head)
{
    const int32_t after = s->desc.mask == PTXPACK_MASK_NONE ? 0 : s->queries[sequence] - 1 - row;
    verify_result result = {.pass = false};
    row_alone     r = {.desc = {.size = sizeof r.desc,
                                .dtype = s->desc.dtype,
                                .kv_dtype = s->desc.kv_dtype,
                                .options = s->desc.options & PTXPACK_DESCALES_TENSOR,
                                .batch = 1,
                                .seqlen_q = 1,
                                .seqlen_kv = s->keys[sequence] - after,
                                .heads_q = 1,
                                .heads_kv = 1,
                                .scale = s->desc.scale,
                                .head_dim = s->desc.head_dim}};
    bool          ok = read_row(run, c, s, set, sequence, row, head, &r);
    if (ok) {
        const ptxpack_descales descales = {NULL, &attend_descale, &attend_descale};
        ptxpack_status status = verify_attention(&r.desc, r.q, r.k, r.v, &descales, r.o, &r.lse, 1, 1, &result);
        ok = status == PTXPACK_OK
                 ? result.pass || bench_wrong(run, c,
                                              "wrong: sequence %d, row %d, head %d differs by %.3g, "
                                              "of %.3g allowed; the log-sum-exp by %.3g, of %.3g",
                                              (int)sequence, (int)row, (int)head, result.out_error,
                                              result.bound, result.lse_error, result.lse_bound)
                 : bench_wrong(run, c, "%s", ptxpack_detail(NULL));
    }
    free(r.q);
    return ok;
}
