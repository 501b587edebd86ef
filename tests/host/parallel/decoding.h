/* decoding.h - the memory of a rank that decodes with its share of the keys, and the judgement of what it gets. */
#ifndef PTXPACK_TEST_DECODING_H
#define PTXPACK_TEST_DECODING_H
#include "fixture.h"

typedef struct decode_case {
    int32_t  ranks, batch, rows, keys, heads_q, heads_kv, dim, dim_v;
    uint32_t options;
    bool     gaps; /* o has them */
} decode_case;

/* Which keys of sequence `b` rank `r` has: `count` from `first` on.  Shares differ. */
static inline int32_t share(const decode_case *c, int32_t b, int32_t r, int32_t *first)
{
    const int32_t parts = c->ranks * 3 + 1, at = r == 0 ? 0 : 3 * r + b % 3,
                  end = r == c->ranks - 1 ? parts : 3 * r + 3 + b % 3;
    *first = (int32_t)((int64_t)c->keys * at / parts);
    return (int32_t)((int64_t)c->keys * end / parts) - *first;
}

typedef struct decode_rank_memory {
    uint64_t                        at[8];
    ptxpack_attention_buffers       attention;
    ptxpack_parallel_decode_buffers buffers;
} decode_rank_memory;

static inline void must(ptxpack_cu_result result, const char *what)
{
    if (result != PTXPACK_CU_SUCCESS)
        fail_msg("%s: %u", what, result);
}

static inline uint64_t place(const struct ptxpack_driver *d, const void *from, size_t bytes)
{
    ptxpack_deviceptr at = 0;
    must(d->cuMemAlloc(&at, bytes), "cuMemAlloc");
    if (from != NULL)
        must(d->cuMemcpyHtoD(at, from, bytes), "cuMemcpyHtoD");
    else
        must(d->cuMemsetD8(at, 0, bytes), "cuMemsetD8");
    return at;
}

static inline size_t decode_o_elements(const decode_case *c, const ptxpack_attention_desc *d)
{
    return (size_t)c->batch *
           (size_t)(d->o.batch != 0 ? d->o.batch : c->rows * c->heads_q * attention_value_dim(d));
}

/* The rank's keys and lengths; what is behind them is NaN. */
static inline void place_rank(const decode_case *c, const ptxpack_attention_desc *whole,
                              const ptxpack_attention_desc *own, const whole_tensors *t, int32_t r,
                              decode_rank_memory *m, size_t workspace)
{
    const struct ptxpack_driver *d = ptxpack_driver_table(handles[r]);
    const size_t                 row[2] = {2 * (size_t)(whole->heads_kv * whole->head_dim),
                                           2 * (size_t)(whole->heads_kv * attention_value_dim(whole))};
    int32_t                      lengths[8], first;
    must(d->cuCtxSetCurrent(ptxpack_context(handles[r])), "cuCtxSetCurrent");
    for (int i = 0; i < 2; i++) {
        const size_t bytes = (size_t)(c->batch * own->seqlen_kv) * row[i];
        char        *cache = (char *)malloc(bytes);
        assert_non_null(cache);
        memset(cache, 0xff, bytes);
        for (int32_t b = 0; b < c->batch; b++) {
            lengths[b] = share(c, b, r, &first);
            memcpy(cache + (size_t)(b * own->seqlen_kv) * row[i],
                   (const char *)t->tensor[SHARDED_K + i] + (size_t)(b * c->keys + first) * row[i],
                   (size_t)lengths[b] * row[i]);
        }
        m->at[i] = place(d, cache, bytes);
        free(cache);
    }
    m->at[2] = place(d, t->tensor[SHARDED_Q], 2 * (size_t)(c->batch * c->rows * c->heads_q * c->dim));
    m->at[3] = place(d, lengths, sizeof(int32_t) * (size_t)c->batch);
    m->at[4] = place(d, t->sinks, sizeof(float) * (size_t)c->heads_q);
    m->at[5] = place(d, NULL, 2 * decode_o_elements(c, own));
    m->at[6] = place(d, NULL, sizeof(float) * (size_t)(c->batch * c->rows * c->heads_q));
    m->at[7] = place(d, NULL, workspace);
    m->attention = (ptxpack_attention_buffers){.size = sizeof m->attention,
                                               .q = m->at[2],
                                               .k = m->at[0],
                                               .v = m->at[1],
                                               .o = m->at[5],
                                               .lse = m->at[6],
                                               .lengths_kv = m->at[3],
                                               .sinks = m->at[4]};
    m->buffers = (ptxpack_parallel_decode_buffers){.size = sizeof m->buffers,
                                                   .attention = &m->attention,
                                                   .workspace = m->at[7]};
    must(d->cuStreamCreate(&m->buffers.stream, PTXPACK_CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    must(d->cuCtxSynchronize(), "cuCtxSynchronize"); /* that stream does not wait for the zeros */
}

/* Each rank has the whole result. */
static inline void judge_rank(const decode_case *c, const ptxpack_attention_desc *whole, whole_tensors *t,
                              int32_t r, const decode_rank_memory *m)
{
    const struct ptxpack_driver *d = ptxpack_driver_table(handles[r]);
    const size_t                 o_elements = decode_o_elements(c, whole);
    char                         what[64];
    must(d->cuCtxSetCurrent(ptxpack_context(handles[r])), "cuCtxSetCurrent");
    must(d->cuStreamSynchronize(m->buffers.stream), "cuStreamSynchronize");
    t->tensor[SHARDED_O] = (uint16_t *)realloc(t->tensor[SHARDED_O], 2 * o_elements);
    assert_non_null(t->tensor[SHARDED_O]);
    must(d->cuMemcpyDtoH(t->tensor[SHARDED_O], m->at[5], 2 * o_elements), "cuMemcpyDtoH");
    must(d->cuMemcpyDtoH(t->lse, m->at[6], sizeof(float) * (size_t)(c->batch * c->rows * c->heads_q)),
         "cuMemcpyDtoH");
    snprintf(what, sizeof what, "%d keys, rank %d of %d", (int)c->keys, (int)r, (int)c->ranks);
    must_be_right(whole, t, what);
    must(d->cuStreamDestroy(m->buffers.stream), "cuStreamDestroy");
    for (int i = 0; i < 8; i++)
        must(d->cuMemFree(m->at[i]), "cuMemFree");
}

static inline ptxpack_attention_desc decode_desc(const decode_case *c, ptxpack_dtype dtype)
{
    ptxpack_attention_desc whole = {.size = sizeof whole,
                                    .dtype = dtype,
                                    .batch = c->batch,
                                    .seqlen_q = c->rows,
                                    .seqlen_kv = c->keys,
                                    .heads_q = c->heads_q,
                                    .heads_kv = c->heads_kv,
                                    .head_dim = c->dim,
                                    .head_dim_v = c->dim_v,
                                    .options = c->options};
    const int32_t          dv = attention_value_dim(&whole);
    if (c->gaps)
        whole.o = (ptxpack_strides){c->rows * c->heads_q * (dv + 8), c->heads_q * (dv + 8), dv + 8};
    return whole;
}

/* As many rows of queries as of keys: enough of all. */
static inline whole_tensors draw_decode(const ptxpack_attention_desc *whole)
{
    ptxpack_attention_desc drawn = *whole;
    drawn.seqlen_q = whole->seqlen_kv > whole->seqlen_q ? whole->seqlen_kv : whole->seqlen_q;
    return draw_tensors(&drawn, SEED);
}
#endif
