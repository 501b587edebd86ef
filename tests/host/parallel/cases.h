/* cases.h - a parallel attention on emulated devices of one process, against the whole attention in double precision. */
#ifndef PTXPACK_TEST_PARALLEL_CASES_H
#define PTXPACK_TEST_PARALLEL_CASES_H
#include "fixture.h"

typedef struct parallel_case {
    const char  *name;
    int32_t      batch, rows, heads_q, heads_kv, dim, dim_v;
    ptxpack_mask mask;
    int32_t      left, right;
    float        softcap;
    uint32_t     options;
    bool         packed; /* sequences of packed_starts, `rows` in all */
    int32_t      chunk;
} parallel_case;

/* One is empty, one has a single row. */
enum { SEQUENCES = 5, LONGEST = 77 };
static const int32_t packed_starts[SEQUENCES + 1] = {0, 40, 40, 117, 118, 180};

static inline ptxpack_attention_desc desc_of(const parallel_case *c, ptxpack_dtype dtype)
{
    return (ptxpack_attention_desc){.size = sizeof(ptxpack_attention_desc),
                                    .dtype = dtype,
                                    .batch = c->batch,
                                    .seqlen_q = c->packed ? LONGEST : c->rows,
                                    .seqlen_kv = c->packed ? LONGEST : c->rows,
                                    .q_rows = c->packed ? PTXPACK_ROWS_PACKED : PTXPACK_ROWS_DENSE,
                                    .kv_rows = c->packed ? PTXPACK_ROWS_PACKED : PTXPACK_ROWS_DENSE,
                                    .rows_q = c->packed ? c->rows : 0,
                                    .rows_kv = c->packed ? c->rows : 0,
                                    .heads_q = c->heads_q,
                                    .heads_kv = c->heads_kv,
                                    .head_dim = c->dim,
                                    .head_dim_v = c->dim_v,
                                    .mask = c->mask,
                                    .window_left = c->left,
                                    .window_right = c->right,
                                    .softcap = c->softcap,
                                    .options = c->options,
                                    .chunk = c->chunk};
}

/* In the stream of each rank: the tensors of `from` replace those of `to`, and zeros its workspace. */
static inline void replace(const sharded *to, const sharded *from)
{
    const ptxpack_attention_desc *d = &to->attention;
    for (int32_t i = 0; i < to->local; i++) {
        const struct ptxpack_driver              *driver = ptxpack_driver_table(to->rank[i].handle);
        const ptxpack_attention_parallel_buffers *a = &to->rank[i].buffers, *b = &from->rank[i].buffers;
        const size_t rows = (size_t)(to->rank[i].count[0] + to->rank[i].count[1]) * (size_t)to->batch,
                     row = sizeof(uint16_t) * rows, kv = row * (size_t)d->heads_kv;
        const struct {
            uint64_t to, from;
            size_t   bytes;
        } copies[] = {{a->q, b->q, row * (size_t)(d->heads_q * d->head_dim)},
                      {a->k, b->k, kv * (size_t)d->head_dim},
                      {a->v, b->v, kv * (size_t)attention_value_dim(d)}};
        assert_int_equal(driver->cuCtxSetCurrent(ptxpack_context(to->rank[i].handle)), PTXPACK_CU_SUCCESS);
        for (int k = 0; k < 3 && rows > 0; k++)
            assert_int_equal(driver->cuMemcpyDtoDAsync(copies[k].to, copies[k].from, copies[k].bytes,
                                                       a->stream),
                             PTXPACK_CU_SUCCESS);
        const size_t bytes = ptxpack_attention_parallel_workspace(to->plan, i);
        if (bytes > 0)
            assert_int_equal(driver->cuMemsetD8Async(a->workspace, 0, bytes, a->stream), PTXPACK_CU_SUCCESS);
    }
}

/* The results of both, and where they go, change places. */
static inline void swap_results(sharded *a, sharded *b)
{
    for (int32_t i = 0; i < a->local; i++) {
        ptxpack_attention_parallel_buffers *x = &a->rank[i].buffers, *y = &b->rank[i].buffers;
        const uint64_t                      o = x->o, lse = x->lse;
        x->o = y->o, x->lse = y->lse;
        y->o = o, y->lse = lse;
    }
}

/* Two launches in a row: the second one finds the workspace as the first one left it.  The first has other numbers, which the
 * streams replace when it is done, and a result of its own: who reads or writes too early or too late has a wrong one. */
static inline void run_case(const parallel_case *c, int32_t ranks, ptxpack_shards shards,
                            ptxpack_parallel_way way, ptxpack_dtype dtype)
{
    const ptxpack_attention_desc          d = desc_of(c, dtype);
    const ptxpack_attention_parallel_desc desc = {.size = sizeof desc,
                                                  .attention = &d,
                                                  .shards = shards,
                                                  .way = way,
                                                  .starts = c->packed ? packed_starts : NULL};
    whole_tensors                         t = draw_tensors(&d, SEED), others = draw_tensors(&d, SEED + 1);
    ptxpack_parallel_group               *group;
    sharded                               s, next;
    char                                  what[128];
    snprintf(what, sizeof what, "%s, %d ranks, shards %d, way %d", c->name, (int)ranks, (int)shards, (int)way);
    assert_int_equal(ptxpack_parallel_devices(handles, ranks, &group), PTXPACK_OK);
    if (!sharded_open(&next, group, handles, &desc) ||
        !sharded_upload(&next, (const void *const *)t.tensor, t.sinks, t.slopes))
        fail_msg("%s: %s", what, next.line);
    if (!sharded_open(&s, group, handles, &desc) ||
        !sharded_upload(&s, (const void *const *)others.tensor, others.sinks, others.slopes) ||
        !sharded_launch(&s))
        fail_msg("%s: %s", what, s.line);
    replace(&s, &next);
    swap_results(&s, &next);
    if (!sharded_launch(&s) || !sharded_wait(&s))
        fail_msg("%s: %s", what, s.line);
    swap_results(&s, &next);
    if (!sharded_download(&s, others.tensor[SHARDED_O], others.lse) ||
        !sharded_download(&next, t.tensor[SHARDED_O], t.lse))
        fail_msg("%s: %s%s", what, s.line, next.line);
    others.starts = t.starts = desc.starts;
    must_be_right(&d, &others, what);
    must_be_right(&d, &t, what);
    sharded_close(&s);
    sharded_close(&next);
    ptxpack_parallel_free(group);
    free_tensors(&t);
    free_tensors(&others);
}
#endif
