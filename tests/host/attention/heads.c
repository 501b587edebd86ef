/* heads.c - what query heads have, sinks: descriptors, buffers and the reference; without a GPU (through
 * tests/fake/loader.c). */
#include "fixture.h"

static ptxpack_attention_desc with_sinks(void)
{
    ptxpack_attention_desc d = good;
    d.options = PTXPACK_SINKS;
    return d;
}

/* ---- addresses ---------------------------------------------------------------------------------------- */
static void sinks_are_checked(void **state)
{
    (void)state;
    attention_geometry        g;
    char                      line[PLAN_LINE];
    ptxpack_attention_desc    d = with_sinks();
    ptxpack_attention_buffers b = {.size = sizeof b, .q = 0x10000, .k = 0x20000, .v = 0x30000, .o = 0x40000};
    assert_int_equal(ptxpack_attention_resolve(&d, &g, line), PTXPACK_OK);
    assert_false(g.varlen);
    assert_int_equal(ptxpack_attention_check_buffers(&g, 0, &b, line), PTXPACK_E_ARG);
    assert_string_equal(line, "sinks is null");
    b.sinks = 0x50002;
    assert_int_equal(ptxpack_attention_check_buffers(&g, 0, &b, line), PTXPACK_E_ARG);
    assert_non_null(strstr(line, "sinks: address 0x50002 is not a multiple of 4"));
    b.sinks = b.o + 16;
    assert_int_equal(ptxpack_attention_check_buffers(&g, 0, &b, line), PTXPACK_E_ARG);
    assert_non_null(strstr(line, "o overlaps sinks"));
    b.sinks = b.o - (uint64_t)d.heads_q * sizeof(float);
    assert_int_equal(ptxpack_attention_check_buffers(&g, 0, &b, line), PTXPACK_OK);
    assert_true(attention_array(&g, &b, ARRAY_SINKS) == b.sinks);
    d.options = 0; /* not asked for */
    b.sinks = 3;
    assert_int_equal(ptxpack_attention_resolve(&d, &g, line), PTXPACK_OK);
    assert_int_equal(ptxpack_attention_check_buffers(&g, 0, &b, line), PTXPACK_OK);
    assert_true(attention_array(&g, &b, ARRAY_SINKS) == 0);
}

/* A caller that knows nothing of sinks states a smaller size. */
static void older_buffers_have_no_sinks(void **state)
{
    (void)state;
    enum { ROWS = 37, ELEMENTS = 2 * ROWS * 6 * 16 };
    _Alignas(16) static uint16_t in[ELEMENTS], out[ELEMENTS];
    ptxpack                     *handle = open_mock(NULL);
    ptxpack_attention_desc       d = with_sinks();
    ptxpack_attention_plan      *plan;
    ptxpack_attention_buffers    b = {.size = offsetof(ptxpack_attention_buffers, sinks),
                                      .q = (uintptr_t)in,
                                      .k = (uintptr_t)in,
                                      .v = (uintptr_t)in,
                                      .o = (uintptr_t)out,
                                      .sinks = 0xeeeeeeee};
    d.seqlen_q = ROWS;
    assert_int_equal(ptxpack_attention_plan_create(handle, &d, &plan), PTXPACK_OK);
    assert_int_equal(ptxpack_attention_launch(plan, &b, NULL), PTXPACK_E_ARG);
    assert_non_null(strstr(ptxpack_detail(handle), "sinks is null"));
    ptxpack_attention_plan_free(plan);
    d.options = 0;
    assert_int_equal(ptxpack_attention_plan_create(handle, &d, &plan), PTXPACK_OK);
    assert_int_equal(ptxpack_attention_launch(plan, &b, NULL), PTXPACK_OK);
    ptxpack_attention_plan_free(plan);
    ptxpack_close(handle);
}

/* ---- the reference ------------------------------------------------------------------------------------ */
enum { ROWS = 9, KEYS = 7, HEADS = 3, DIM = 16 };

static ptxpack_attention_desc problem(uint32_t options)
{
    return (ptxpack_attention_desc){.size = sizeof(ptxpack_attention_desc),
                                    .dtype = PTXPACK_F16,
                                    .batch = 1,
                                    .seqlen_q = ROWS,
                                    .seqlen_kv = KEYS,
                                    .heads_q = HEADS,
                                    .heads_kv = 1,
                                    .head_dim = DIM,
                                    .mask = PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, /* two rows see no key */
                                    .options = options};
}

/* Against the sum without sinks: the sink takes the share e^sink / (e^lse + e^sink) of each row. */
static void a_sink_takes_its_share(void **state)
{
    (void)state;
    static const float              sinks[HEADS] = {0.75f, -INFINITY, 300};
    const ptxpack_attention_lengths arrays = {.sinks = sinks};
    uint16_t                        q[ROWS * HEADS * DIM], k[KEYS * DIM], v[KEYS * DIM];
    double                          o[2][ROWS][HEADS][DIM], lse[2][HEADS][ROWS];
    random_state                    random = random_start(SEED);
    random_normal(&random, PTXPACK_F16, q, ROWS * HEADS * DIM);
    random_normal(&random, PTXPACK_F16, k, KEYS * DIM);
    random_normal(&random, PTXPACK_F16, v, KEYS * DIM);
    ptxpack_attention_desc d = problem(0);
    assert_int_equal(ptxpack_attention_reference(&d, q, k, v, NULL, &o[0][0][0][0], &lse[0][0][0]), PTXPACK_OK);
    d = problem(PTXPACK_SINKS);
    assert_int_equal(ptxpack_attention_reference_lengths(&d, q, k, v, NULL, &arrays, &o[1][0][0][0],
                                                         &lse[1][0][0]),
                     PTXPACK_OK);
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < ROWS; i++) {
            double without = lse[0][h][i], most = fmax(without, sinks[h]);
            double share = exp(without - most), all = share + exp(sinks[h] - most);
            bool   blind = isinf(without);
            double want = blind ? (double)sinks[h] : most + log(all);
            assert_true(lse[1][h][i] == want || fabs(lse[1][h][i] - want) < 1e-12 * (1 + fabs(want)));
            for (int c = 0; c < DIM; c++)
                assert_true(fabs(o[1][i][h][c] - (blind ? 0 : o[0][i][h][c] * share / all)) < 1e-12);
        }
}

static void missing_sinks_are_refused(void **state)
{
    (void)state;
    const ptxpack_attention_lengths arrays = {.sinks = NULL};
    uint16_t                        data[ROWS * HEADS * DIM] = {0};
    ptxpack_attention_desc          d = problem(PTXPACK_SINKS);
    assert_int_equal(ptxpack_attention_reference(&d, data, data, data, NULL, NULL, NULL), PTXPACK_E_ARG);
    assert_non_null(strstr(ptxpack_detail(NULL), "sinks is NULL"));
    assert_int_equal(ptxpack_attention_reference_lengths(&d, data, data, data, NULL, &arrays, NULL, NULL),
                     PTXPACK_E_ARG);
    assert_non_null(strstr(ptxpack_detail(NULL), "sinks is NULL"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sinks_are_checked),
        cmocka_unit_test(older_buffers_have_no_sinks),
        cmocka_unit_test(a_sink_takes_its_share),
        cmocka_unit_test(missing_sinks_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
