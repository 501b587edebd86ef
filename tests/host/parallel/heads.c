/* heads.c - the way of parallel attention that divides the heads, on emulated devices of one process: groups of 1 to 8 ranks,
 * both kinds of shards, every mask, grouped heads, odd lengths, lengths below the number of ranks, and packed rows; and when a
 * plan chooses it. */
#include "cases.h"

/* Heads are those of one rank. */
static const parallel_case cases[] = {
    {"full", 2, 70, 2, 1, 64, 0, PTXPACK_MASK_NONE, 0, 0, 0, 0, false, 0},
    {"causal, sinks", 1, 91, 2, 2, 64, 0, PTXPACK_MASK_CAUSAL_TOP_LEFT, 0, 0, 0, PTXPACK_SINKS, false, 0},
    {"window", 1, 97, 1, 1, 64, 0, PTXPACK_MASK_WINDOW_BOTTOM_RIGHT, 20, 0, 0, 0, false, 0},
    {"window on both sides", 1, 80, 2, 1, 64, 128, PTXPACK_MASK_WINDOW_TOP_LEFT, 15, 21, 5, 0, false, 0},
    {"few rows", 2, 5, 1, 1, 64, 0, PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, 0, false, 0},
    {"packed, causal", SEQUENCES, 180, 1, 1, 64, 0, PTXPACK_MASK_CAUSAL_TOP_LEFT, 0, 0, 0, PTXPACK_SINKS, true,
     0},
    {"ALiBi, full", 1, 75, 2, 1, 64, 0, PTXPACK_MASK_NONE, 0, 0, 0, PTXPACK_ALIBI, false, 0},
    {"chunks", 1, 83, 2, 1, 64, 0, PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, 0, false, 30},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static void run_cases(int32_t ranks, ptxpack_shards shards, int first, int every)
{
    for (int i = first; i < CASES; i += every) {
        parallel_case c = cases[i];
        c.heads_q *= ranks;
        c.heads_kv *= ranks;
        run_case(&c, ranks, shards, PTXPACK_PARALLEL_HEADS, i % 2 ? PTXPACK_BF16 : PTXPACK_F16);
    }
}

static void one_rank(void **state) { (void)state, run_cases(1, PTXPACK_SHARDS_ZIGZAG, 1, 3); }
static void two_ranks(void **state) { (void)state, run_cases(2, PTXPACK_SHARDS_ZIGZAG, 0, 1); }
static void three_ranks(void **state) { (void)state, run_cases(3, PTXPACK_SHARDS_CONTIGUOUS, 0, 1); }
static void four_ranks(void **state) { (void)state, run_cases(4, PTXPACK_SHARDS_ZIGZAG, 1, 2); }
static void eight_ranks(void **state) { (void)state, run_cases(8, PTXPACK_SHARDS_CONTIGUOUS, 1, 3); }

/* A launch that does not want the lse, and one that has none of another rank's. */
static void without_lse(void **state)
{
    const parallel_case c = {"without the lse", 1, 60, 4, 2, 64, 0, PTXPACK_MASK_NONE, 0, 0, 0, 0, false, 0};
    const ptxpack_attention_desc          d = desc_of(&c, PTXPACK_F16);
    const ptxpack_attention_parallel_desc desc = {.size = sizeof desc,
                                                  .attention = &d,
                                                  .way = PTXPACK_PARALLEL_HEADS};
    whole_tensors                         t = draw_tensors(&d, SEED), with = draw_tensors(&d, SEED);
    ptxpack_parallel_group               *group;
    sharded                               s;
    (void)state;
    assert_int_equal(ptxpack_parallel_devices(handles, 2, &group), PTXPACK_OK);
    if (!sharded_open(&s, group, handles, &desc) ||
        !sharded_upload(&s, (const void *const *)t.tensor, NULL, NULL) || !sharded_launch(&s) ||
        !sharded_wait(&s) || !sharded_download(&s, with.tensor[SHARDED_O], with.lse))
        fail_msg("%s", s.line);
    must_be_right(&d, &with, c.name);
    const uint64_t lse = s.rank[1].buffers.lse;
    s.rank[1].buffers.lse = 0;
    if (!sharded_launch(&s) || !sharded_wait(&s))
        fail_msg("%s", s.line);
    s.rank[1].buffers.lse = lse;
    if (!sharded_download(&s, t.tensor[SHARDED_O], t.lse))
        fail_msg("%s", s.line);
    must_be_right(&d, &t, c.name);
    sharded_close(&s);
    ptxpack_parallel_free(group);
    free_tensors(&t);
    free_tensors(&with);
}

/* A rank without rows attends, too, and needs its workspace. */
static void an_empty_shard_has_a_workspace(void **state)
{
    const parallel_case          c = {"empty", 1, 1, 2, 2, 64, 0, PTXPACK_MASK_NONE, 0, 0, 0, 0, false, 0};
    const ptxpack_attention_desc d = desc_of(&c, PTXPACK_F16);
    const ptxpack_attention_parallel_desc desc = {.size = sizeof desc,
                                                  .attention = &d,
                                                  .way = PTXPACK_PARALLEL_HEADS};
    ptxpack_parallel_group               *group;
    sharded                               s;
    (void)state;
    assert_int_equal(ptxpack_parallel_devices(handles, 2, &group), PTXPACK_OK);
    assert_true(sharded_open(&s, group, handles, &desc));
    assert_int_equal(s.rank[0].count[0], 0);
    const uint64_t workspace = s.rank[0].buffers.workspace;
    s.rank[0].buffers.workspace = 0;
    assert_false(sharded_launch(&s));
    if (strstr(s.line, "rank 0: workspace ") == NULL)
        fail_msg("%s", s.line);
    s.rank[0].buffers.workspace = workspace;
    sharded_close(&s);
    ptxpack_parallel_free(group);
}

/* ---- the choice --------------------------------------------------------------------------------------- */
static ptxpack_parallel_way way_chosen(const ptxpack *handle, int32_t ranks, int32_t rows, int32_t heads_kv,
                                       ptxpack_mask mask, ptxpack_shards shards, float link_gbps, bool early)
{
    const ptxpack_attention_desc          d = {.size = sizeof d,
                                               .dtype = PTXPACK_BF16,
                                               .batch = 1,
                                               .seqlen_q = rows,
                                               .seqlen_kv = rows,
                                               .heads_q = 32,
                                               .heads_kv = heads_kv,
                                               .head_dim = 128,
                                               .mask = mask};
    const ptxpack_attention_parallel_desc desc = {.size = sizeof desc,
                                                  .shards = shards,
                                                  .attention = &d,
                                                  .link_gbps = link_gbps};
    char                                  line[PLAN_LINE];
    parallel_whole                        whole;
    assert_int_equal(parallel_resolve(&desc, ranks, &whole, line), PTXPACK_OK);
    assert_int_equal(parallel_choose(handle, &whole, (double)link_gbps, early), PTXPACK_OK);
    return whole.problem.way;
}

static bool heads_chosen(int32_t ranks, int32_t rows, int32_t heads_kv, ptxpack_mask mask,
                         ptxpack_shards shards, float link_gbps)
{
    return way_chosen(handles[0], ranks, rows, heads_kv, mask, shards, link_gbps, true) ==
           PTXPACK_PARALLEL_HEADS;
}

/* Where shards are not balanced, or keys of many ranks take longer than heads; not where links are slow, or heads are too
 * few, or the ways of keys are as fast. */
static void the_model_chooses(void **state)
{
    const ptxpack_mask   causal = PTXPACK_MASK_CAUSAL_TOP_LEFT;
    const ptxpack_shards contiguous = PTXPACK_SHARDS_CONTIGUOUS;
    (void)state;
    assert_true(heads_chosen(8, 131072, 32, causal, contiguous, 0));
    assert_true(heads_chosen(8, 131072, 8, causal, contiguous, 0));
    assert_false(heads_chosen(8, 131072, 4, causal, contiguous, 0));
    assert_false(heads_chosen(8, 131072, 8, causal, PTXPACK_SHARDS_ZIGZAG, 0));
    assert_false(heads_chosen(2, 32768, 8, PTXPACK_MASK_NONE, contiguous, 0));
    assert_false(heads_chosen(2, 4096, 8, causal, contiguous, 1));
}

/* One launch that waits for keys: where kernels may begin early, with a causal mask and chunks of a multiple of 128; on H200s. */
static void a_launch_that_waits_is_chosen(void **state)
{
    const ptxpack_mask   causal = PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT;
    const ptxpack_shards zigzag = PTXPACK_SHARDS_ZIGZAG;
    ptxpack             *h;
    ptxpack_options options = {.size = sizeof options, .offline = true, .arch = "sm_90a", .no_cache = true};
    (void)state;
    assert_int_equal(ptxpack_open(&options, &h), PTXPACK_OK);
    assert_int_equal(way_chosen(h, 2, 8192, 8, causal, zigzag, 0, true), PTXPACK_PARALLEL_ARRIVE);
    assert_int_equal(way_chosen(h, 2, 8192, 8, causal, zigzag, 0, false), PTXPACK_PARALLEL_STEPS);
    assert_int_equal(way_chosen(h, 2, 131072, 8, causal, zigzag, 0, true), PTXPACK_PARALLEL_STEPS);
    assert_int_not_equal(way_chosen(h, 2, 8000, 8, causal, zigzag, 0, true), PTXPACK_PARALLEL_ARRIVE);
    assert_int_not_equal(way_chosen(h, 2, 8192, 8, PTXPACK_MASK_NONE, zigzag, 0, true),
                         PTXPACK_PARALLEL_ARRIVE);
    assert_int_not_equal(way_chosen(h, 1, 8192, 8, causal, zigzag, 0, true), PTXPACK_PARALLEL_ARRIVE);
    ptxpack_close(h);
}

/* Without the copies heads are not chosen; who asks for them is refused. */
static void a_driver_without_the_copies(void **state)
{
    struct ptxpack_driver       *driver = (struct ptxpack_driver *)(uintptr_t)ptxpack_driver_table(handles[0]);
    const struct ptxpack_driver  whole = *driver;
    const parallel_case          c = {"refused", 1, 9, 1, 1, 64, 0, PTXPACK_MASK_NONE, 0, 0, 0, 0, false, 0};
    const ptxpack_attention_desc d = desc_of(&c, PTXPACK_F16);
    const ptxpack_attention_parallel_desc desc = {.size = sizeof desc,
                                                  .attention = &d,
                                                  .way = PTXPACK_PARALLEL_HEADS};
    ptxpack_parallel_group               *group;
    ptxpack_attention_parallel_plan      *plan;
    (void)state;
    assert_int_equal(ptxpack_parallel_devices(handles, 1, &group), PTXPACK_OK);
    driver->cuMemcpy3DPeerAsync = NULL;
    assert_false(heads_chosen(8, 131072, 32, PTXPACK_MASK_CAUSAL_TOP_LEFT, PTXPACK_SHARDS_CONTIGUOUS, 0));
    assert_int_equal(ptxpack_attention_parallel_plan_create(group, &desc, &plan), PTXPACK_E_DRIVER);
    *driver = whole;
    assert_null(plan);
    assert_string_equal(ptxpack_detail(handles[0]), "the driver has no cuMemcpy3DPeerAsync");
    ptxpack_parallel_free(group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank),
        cmocka_unit_test(two_ranks),
        cmocka_unit_test(three_ranks),
        cmocka_unit_test(four_ranks),
        cmocka_unit_test(eight_ranks),
        cmocka_unit_test(without_lse),
        cmocka_unit_test(an_empty_shard_has_a_workspace),
        cmocka_unit_test(the_model_chooses),
        cmocka_unit_test(a_launch_that_waits_is_chosen),
        cmocka_unit_test(a_driver_without_the_copies),
    };
    return cmocka_run_group_tests(tests, open_handles, close_handles);
}
