/* decode.c - decoding with keys that are divided among emulated devices, against the attention to all keys in double precision:
 * shares of any size, also none; sinks, which count once; queries of several rows; records that are read where they are, and copied. */
#include <sys/wait.h>
#include <unistd.h>

#include "decoding.h"

static const decode_case cases[] = {
    {1, 2, 1, 300, 4, 2, 64, 0, 0, false},
    {2, 3, 1, 257, 8, 2, 128, 0, 0, false},
    {3, 2, 4, 130, 4, 4, 64, 0, PTXPACK_SINKS, false},
    {8, 2, 1, 500, 8, 1, 64, 128, PTXPACK_SINKS, true},
    {4, 5, 1, 3, 4, 2, 64, 0, 0, false}, /* some ranks have no key of a sequence, or of any */
};

/* Other queries, and a result that nobody looks at. */
typedef struct other_launch {
    uint64_t                  q, o;
    ptxpack_attention_buffers attention;
} other_launch;

static void place_other(const decode_case *c, const ptxpack_attention_desc *whole, int32_t r,
                        const decode_rank_memory *m, other_launch *other)
{
    const struct ptxpack_driver *d = ptxpack_driver_table(handles[r]);
    other->q = place(d, NULL, 2 * (size_t)(c->batch * c->rows * c->heads_q * c->dim));
    other->o = place(d, NULL, 2 * decode_o_elements(c, whole));
    other->attention = m->attention;
    other->attention.q = other->q;
    other->attention.o = other->o;
    other->attention.lse = 0;
    must(d->cuCtxSynchronize(), "cuCtxSynchronize");
}

/* A launch that is judged, and behind it one with other queries in the same workspace: what is read too early or written too
 * soon is noticed, as streams are late at random. */
static void run_case(const decode_case *c, ptxpack_dtype dtype)
{
    const ptxpack_attention_desc  whole = decode_desc(c, dtype);
    ptxpack_attention_desc        own = whole;
    ptxpack_parallel_group       *group;
    ptxpack_parallel_decode_plan *plan;
    decode_rank_memory            memory[RANKS];
    own.options |= PTXPACK_LENGTHS_KV;
    whole_tensors t = draw_decode(&whole);
    assert_int_equal(ptxpack_parallel_devices(handles, c->ranks, &group), PTXPACK_OK);
    if (ptxpack_parallel_decode_plan_create(group, &own, &plan) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(handles[0]));
    ptxpack_parallel_decode_buffers buffers[RANKS];
    other_launch                    others[RANKS];
    for (int32_t r = 0; r < c->ranks; r++) {
        place_rank(c, &whole, &own, &t, r, &memory[r], ptxpack_parallel_decode_workspace(plan));
        buffers[r] = memory[r].buffers;
        place_other(c, &whole, r, &memory[r], &others[r]);
    }
    for (int n = 0; n < 2; n++) {
        if (ptxpack_parallel_decode(plan, buffers) != PTXPACK_OK)
            fail_msg("%s", ptxpack_detail(handles[0]));
        for (int32_t r = 0; r < c->ranks; r++)
            buffers[r].attention = &others[r].attention;
    }
    for (int32_t r = 0; r < c->ranks; r++) {
        judge_rank(c, &whole, &t, r, &memory[r]);
        must(ptxpack_driver_table(handles[r])->cuMemFree(others[r].q), "cuMemFree");
        must(ptxpack_driver_table(handles[r])->cuMemFree(others[r].o), "cuMemFree");
    }
    ptxpack_parallel_decode_plan_free(plan);
    ptxpack_parallel_free(group);
    free_tensors(&t);
}

static void all_ranks_get_the_result(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        run_case(&cases[i], i % 2 != 0 ? PTXPACK_BF16 : PTXPACK_F16);
}

static void what_cannot_be_divided_is_refused(void **state)
{
    static const struct {
        ptxpack_mask mask;
        uint32_t     options;
        ptxpack_rows q_rows;
        const char  *line;
    } refusals[] = {
        {PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, PTXPACK_ROWS_DENSE, "mask is 2"},
        {PTXPACK_MASK_NONE, PTXPACK_ALIBI, PTXPACK_ROWS_DENSE, "options 0x20 are"},
        {PTXPACK_MASK_NONE, PTXPACK_LENGTHS_Q, PTXPACK_ROWS_DENSE, "options 0x1 are"},
        {PTXPACK_MASK_NONE, 0, PTXPACK_ROWS_PACKED, "q_rows is 1"},
    };
    ptxpack_parallel_group       *group;
    ptxpack_parallel_decode_plan *plan;
    (void)state;
    assert_int_equal(ptxpack_parallel_devices(handles, 2, &group), PTXPACK_OK);
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const ptxpack_attention_desc d = {.size = sizeof d,
                                          .dtype = PTXPACK_F16,
                                          .batch = 1,
                                          .seqlen_q = 1,
                                          .seqlen_kv = 64,
                                          .heads_q = 1,
                                          .heads_kv = 1,
                                          .head_dim = 64,
                                          .mask = refusals[i].mask,
                                          .options = refusals[i].options,
                                          .q_rows = refusals[i].q_rows};
        assert_int_equal(ptxpack_parallel_decode_plan_create(group, &d, &plan), PTXPACK_E_ARG);
        assert_null(plan);
        if (strstr(ptxpack_detail(handles[0]), refusals[i].line) == NULL)
            fail_msg("\"%s\" is not about \"%s\"", ptxpack_detail(handles[0]), refusals[i].line);
    }
    ptxpack_parallel_free(group);
}

/* A child runs the same on devices that cannot read each other's memory, so that records are copied. */
int main(void)
{
    const pid_t child = fork();
    int         status = 0;
    if (child < 0)
        return perror("fork"), 1;
    if (child == 0)
        setenv("PTXPACK_EMU_FAULT", "no-peers", 1);
    else if (waitpid(child, &status, 0) != child || status != 0)
        return puts("FAIL: on devices without access to each other"), 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_get_the_result),
        cmocka_unit_test(what_cannot_be_divided_is_refused),
    };
    return cmocka_run_group_tests(tests, open_handles, close_handles);
}
