/* captured.c - parallel attention in a CUDA graph over all devices of a group: captured once, launched again with other
 * tensors; and decoding. */
#include "decoding.h"

static const struct ptxpack_driver *enter(int32_t rank)
{
    const struct ptxpack_driver *d = ptxpack_driver_table(handles[rank]);
    must(d->cuCtxSetCurrent(ptxpack_context(handles[rank])), "cuCtxSetCurrent");
    return d;
}

typedef struct capture {
    int32_t                ranks;
    struct CUstream_st    *stream[RANKS];
    struct CUevent_st     *event[RANKS];
    struct CUgraphExec_st *exec;
} capture;

/* The stream of `waiting` goes on when that of `before` has come here. */
static void follow(const capture *c, int32_t waiting, int32_t before)
{
    must(enter(before)->cuEventRecord(c->event[before], c->stream[before]), "cuEventRecord");
    must(enter(waiting)->cuStreamWaitEvent(c->stream[waiting], c->event[before], 0), "cuStreamWaitEvent");
}

/* The other ranks' streams join the capture of the first one's, and end in it. */
static void begin(capture *c)
{
    for (int32_t r = 0; r < c->ranks; r++)
        must(enter(r)->cuEventCreate(&c->event[r], PTXPACK_CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    must(enter(0)->cuStreamBeginCapture(c->stream[0], PTXPACK_CU_CAPTURE_RELAXED), "cuStreamBeginCapture");
    for (int32_t r = 1; r < c->ranks; r++)
        follow(c, r, 0);
}

static void end(capture *c)
{
    struct CUgraph_st *graph;
    for (int32_t r = 1; r < c->ranks; r++)
        follow(c, 0, r);
    const struct ptxpack_driver *d = enter(0);
    must(d->cuStreamEndCapture(c->stream[0], &graph), "cuStreamEndCapture");
    must(d->cuGraphInstantiateWithFlags(&c->exec, graph, 0), "cuGraphInstantiateWithFlags");
    must(d->cuGraphDestroy(graph), "cuGraphDestroy");
    for (int32_t r = 0; r < c->ranks; r++)
        must(enter(r)->cuEventDestroy(c->event[r]), "cuEventDestroy");
}

/* Twice in a row: the second one finds the workspace as the first one left it. */
static void launch_twice(const capture *c)
{
    const struct ptxpack_driver *d = enter(0);
    for (int n = 0; n < 2; n++)
        must(d->cuGraphLaunch(c->exec, c->stream[0]), "cuGraphLaunch");
    must(d->cuStreamSynchronize(c->stream[0]), "cuStreamSynchronize");
}

static void capture_sharded(capture *c, sharded *s)
{
    c->ranks = s->local;
    for (int32_t r = 0; r < s->local; r++)
        c->stream[r] = s->rank[r].buffers.stream;
    begin(c);
    if (!sharded_launch(s))
        fail_msg("%s", s->line);
    end(c);
}

static void run_case(int32_t ranks, ptxpack_shards shards, ptxpack_parallel_way way, const int32_t *starts)
{
    const int32_t rows = way == PTXPACK_PARALLEL_ARRIVE ? 256 * ranks : 140,
                  heads = way == PTXPACK_PARALLEL_HEADS ? ranks : 2;
    const ptxpack_attention_desc          d = {.size = sizeof d,
                                               .dtype = PTXPACK_F16,
                                               .batch = starts != NULL ? 3 : 1,
                                               .seqlen_q = rows,
                                               .seqlen_kv = rows,
                                               .heads_q = way == PTXPACK_PARALLEL_HEADS ? heads : 4,
                                               .heads_kv = heads,
                                               .head_dim = 64,
                                               .q_rows = starts != NULL ? PTXPACK_ROWS_PACKED : PTXPACK_ROWS_DENSE,
                                               .kv_rows = starts != NULL ? PTXPACK_ROWS_PACKED : PTXPACK_ROWS_DENSE,
                                               .rows_q = starts != NULL ? rows : 0,
                                               .rows_kv = starts != NULL ? rows : 0,
                                               .mask = PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT};
    const ptxpack_attention_parallel_desc desc = {.size = sizeof desc,
                                                  .attention = &d,
                                                  .shards = shards,
                                                  .way = way,
                                                  .starts = starts};
    ptxpack_parallel_group               *group;
    sharded                               s;
    capture                               c = {.exec = NULL};
    char                                  what[96];
    assert_int_equal(ptxpack_parallel_devices(handles, ranks, &group), PTXPACK_OK);
    if (!sharded_open(&s, group, handles, &desc))
        fail_msg("%s", s.line);
    for (uint64_t seed = SEED; seed < SEED + 2; seed++) {
        whole_tensors t = draw_tensors(&d, seed);
        t.starts = starts;
        snprintf(what, sizeof what, "%d ranks, shards %d, way %d, seed %d", (int)ranks, (int)shards, (int)way,
                 (int)seed);
        if (!sharded_upload(&s, (const void *const *)t.tensor, t.sinks, t.slopes))
            fail_msg("%s: %s", what, s.line);
        if (c.exec == NULL)
            capture_sharded(&c, &s);
        launch_twice(&c);
        if (!sharded_download(&s, t.tensor[SHARDED_O], t.lse))
            fail_msg("%s: %s", what, s.line);
        must_be_right(&d, &t, what);
        free_tensors(&t);
    }
    must(enter(0)->cuGraphExecDestroy(c.exec), "cuGraphExecDestroy");
    sharded_close(&s);
    ptxpack_parallel_free(group);
}

static void dense_rows(void **state)
{
    (void)state;
    for (int way = PTXPACK_PARALLEL_GATHER; way <= PTXPACK_PARALLEL_ARRIVE; way++) {
        run_case(2, PTXPACK_SHARDS_ZIGZAG, (ptxpack_parallel_way)way, NULL);
        run_case(3, PTXPACK_SHARDS_CONTIGUOUS, (ptxpack_parallel_way)way, NULL);
    }
}

/* The graph reads where sequences begin from the plan's host memory. */
static void packed_rows(void **state)
{
    static const int32_t starts[4] = {0, 60, 61, 140};
    (void)state;
    run_case(2, PTXPACK_SHARDS_ZIGZAG, PTXPACK_PARALLEL_GATHER, starts);
    run_case(2, PTXPACK_SHARDS_CONTIGUOUS, PTXPACK_PARALLEL_HEADS, starts);
}

static void decoding(void **state)
{
    static const decode_case      decode = {3, 2, 1, 257, 8, 2, 64, 0, PTXPACK_SINKS, false};
    const ptxpack_attention_desc  whole = decode_desc(&decode, PTXPACK_F16);
    ptxpack_attention_desc        own = whole;
    whole_tensors                 t = draw_decode(&whole);
    ptxpack_parallel_group       *group;
    ptxpack_parallel_decode_plan *plan;
    decode_rank_memory            memory[RANKS];
    capture                       c = {.ranks = decode.ranks};
    (void)state;
    own.options |= PTXPACK_LENGTHS_KV;
    assert_int_equal(ptxpack_parallel_devices(handles, decode.ranks, &group), PTXPACK_OK);
    assert_int_equal(ptxpack_parallel_decode_plan_create(group, &own, &plan), PTXPACK_OK);
    ptxpack_parallel_decode_buffers buffers[RANKS];
    for (int32_t r = 0; r < decode.ranks; r++) {
        place_rank(&decode, &whole, &own, &t, r, &memory[r], ptxpack_parallel_decode_workspace(plan));
        buffers[r] = memory[r].buffers;
        c.stream[r] = buffers[r].stream;
    }
    begin(&c);
    assert_int_equal(ptxpack_parallel_decode(plan, buffers), PTXPACK_OK);
    end(&c);
    launch_twice(&c);
    must(enter(0)->cuGraphExecDestroy(c.exec), "cuGraphExecDestroy");
    for (int32_t r = 0; r < decode.ranks; r++)
        judge_rank(&decode, &whole, &t, r, &memory[r]);
    ptxpack_parallel_decode_plan_free(plan);
    ptxpack_parallel_free(group);
    free_tensors(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(dense_rows), cmocka_unit_test(packed_rows),
                                       cmocka_unit_test(decoding)};
    return cmocka_run_group_tests(tests, open_handles, close_handles);
}
