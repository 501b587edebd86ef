/* heads.c - what query heads have, sinks and slopes of ALiBi: descriptors, buffers and the reference; without a GPU (through
 * tests/fake/loader.c). */
#include "fixture.h"

static ptxpack_attention_desc with(uint32_t options)
{
    ptxpack_attention_desc d = good;
    d.options = options;
    return d;
}

/* ---- addresses ---------------------------------------------------------------------------------------- */
static void addresses_are_checked(void **state)
{
    (void)state;
    static const struct {
        uint32_t option;
        int      array;
        size_t   at;
    } kinds[] = {{PTXPACK_SINKS, ARRAY_SINKS, offsetof(ptxpack_attention_buffers, sinks)},
                 {PTXPACK_ALIBI, ARRAY_SLOPES, offsetof(ptxpack_attention_buffers, slopes)}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        attention_geometry        g;
        char                      line[PLAN_LINE], want[64];
        ptxpack_attention_desc    d = with(kinds[i].option);
        ptxpack_attention_buffers b = {.size = sizeof b,
                                       .q = 0x10000,
                                       .k = 0x20000,
                                       .v = 0x30000,
                                       .o = 0x40000};
        uint64_t                 *address = (uint64_t *)(void *)((char *)&b + kinds[i].at);
        const char               *name = attention_array_names[kinds[i].array];
        assert_int_equal(ptxpack_attention_resolve(&d, &g, line), PTXPACK_OK);
        assert_false(g.varlen);
        assert_int_equal(ptxpack_attention_check_buffers(&g, 0, &b, line), PTXPACK_E_ARG);
        snprintf(want, sizeof want, "%s is null", name);
        assert_string_equal(line, want);
        *address = 0x50002;
        assert_int_equal(ptxpack_attention_check_buffers(&g, 0, &b, line), PTXPACK_E_ARG);
        snprintf(want, sizeof want, "%s: address 0x50002 is not a multiple of 4", name);
        assert_non_null(strstr(line, want));
        *address = b.o + 16;
        assert_int_equal(ptxpack_attention_check_buffers(&g, 0, &b, line), PTXPACK_E_ARG);
        snprintf(want, sizeof want, "o overlaps %s", name);
        assert_non_null(strstr(line, want));
        *address = b.o - (uint64_t)d.heads_q * sizeof(float);
        assert_int_equal(ptxpack_attention_check_buffers(&g, 0, &b, line), PTXPACK_OK);
        assert_true(attention_array(&g, &b, kinds[i].array) == *address);
        d.options = 0; /* not asked for */
        *address = 3;
        assert_int_equal(ptxpack_attention_resolve(&d, &g, line), PTXPACK_OK);
        assert_int_equal(ptxpack_attention_check_buffers(&g, 0, &b, line), PTXPACK_OK);
        assert_true(attention_array(&g, &b, kinds[i].array) == 0);
    }
}

/* A caller that knows nothing of sinks states a smaller size. */
static void older_buffers_have_no_sinks(void **state)
{
    (void)state;
    enum { ROWS = 37, ELEMENTS = 2 * ROWS * 6 * 16 };
    _Alignas(16) static uint16_t in[ELEMENTS], out[ELEMENTS];
    ptxpack                     *handle = open_mock(NULL);
    ptxpack_attention_desc       d = with(PTXPACK_SINKS);
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

/* The kernels' scale must not lose slopes, nor make them infinite; and fp8's is on the device. */
static void alibi_is_checked(void **state)
{
    (void)state;
    ptxpack                *handle = open_mock("sm_90");
    ptxpack_attention_desc  d = with(PTXPACK_ALIBI);
    ptxpack_attention_plan *plan;
    d.scale = 0x1p-41f;
    assert_int_equal(ptxpack_attention_plan_create(handle, &d, &plan), PTXPACK_E_ARG);
    assert_non_null(strstr(ptxpack_detail(handle), "scale 4.54747e-13 is too small for PTXPACK_ALIBI"));
    d.scale = 0x1p-60f;
    d.softcap = 0x1p-50f;
    assert_int_equal(ptxpack_attention_plan_create(handle, &d, &plan), PTXPACK_E_ARG);
    assert_non_null(strstr(ptxpack_detail(handle), "softcap 8.88178e-16 is too small for PTXPACK_ALIBI"));
    d.softcap = 1;
    assert_int_equal(ptxpack_attention_plan_create(handle, &d, &plan), PTXPACK_OK);
    ptxpack_attention_plan_free(plan);
    d = with(PTXPACK_ALIBI);
    d.dtype = PTXPACK_E4M3;
    assert_int_equal(ptxpack_attention_plan_create(handle, &d, &plan), PTXPACK_E_UNSUPPORTED);
    assert_non_null(strstr(ptxpack_detail(handle), "does not take PTXPACK_ALIBI with fp8"));
    ptxpack_close(handle);
}

static void slopes_are_those_of_the_paper(void **state)
{
    (void)state;
    static const float eight[] = {0.5f, 0.25f, 0.125f, 0.0625f, 0.03125f, 0.015625f, 0.0078125f, 0.00390625f};
    static const float twelve[] = {0.70710678f, 0.35355339f, 0.17677670f, 0.08838835f};
    float              slopes[13] = {0}, one[1];
    slopes[12] = 77;
    ptxpack_attention_alibi_slopes(12, slopes);
    for (int i = 0; i < 8; i++)
        assert_true(slopes[i] == eight[i]);
    for (int i = 0; i < 4; i++)
        assert_true(fabs(slopes[8 + i] - twelve[i]) < 1e-7);
    assert_true(slopes[12] == 77);
    ptxpack_attention_alibi_slopes(1, one);
    assert_true(one[0] == 0x1p-8f);
    ptxpack_attention_alibi_slopes(0, NULL);
    ptxpack_attention_alibi_slopes(-5, one);
    ptxpack_attention_alibi_slopes(5, NULL);
    assert_true(one[0] == 0x1p-8f);
}

static double dot_of(const uint16_t *q, const uint16_t *k)
{
    double sum = 0;
    for (int c = 0; c < DIM; c++)
        sum += (double)ptxpack_to_float(PTXPACK_F16, q[c]) * (double)ptxpack_to_float(PTXPACK_F16, k[c]);
    return sum;
}

/* Against the formula of attention.h, with a softcap and every mask. */
static void scores_fall_with_the_distance(void **state)
{
    (void)state;
    static const float              slopes[HEADS] = {0.5f, 0, 0.03f};
    const ptxpack_attention_lengths arrays = {.slopes = slopes};
    uint16_t                        q[ROWS * HEADS * DIM], k[KEYS * DIM], v[KEYS * DIM];
    double                          o[ROWS][HEADS][DIM], lse[HEADS][ROWS];
    random_state                    random = random_start(SEED);
    random_normal(&random, PTXPACK_F16, q, ROWS * HEADS * DIM);
    random_normal(&random, PTXPACK_F16, k, KEYS * DIM);
    random_normal(&random, PTXPACK_F16, v, KEYS * DIM);
    for (size_t m = 0; m < MASKINGS; m++) {
        ptxpack_attention_desc d = problem(PTXPACK_ALIBI);
        set_masking(&d, &maskings[m]);
        assert_int_equal(ptxpack_attention_reference_lengths(&d, q, k, v, NULL, &arrays, &o[0][0][0],
                                                             &lse[0][0]),
                         PTXPACK_OK);
        for (int h = 0; h < HEADS; h++)
            for (int i = 0; i < ROWS; i++) {
                double sum = 0, first = 0;
                for (int j = 0; j < KEYS; j++) {
                    double s = dot_of(q + (i * HEADS + h) * DIM, k + j * DIM) / sqrt((double)DIM);
                    s = d.softcap > 0 ? d.softcap * tanh(s / d.softcap) : s;
                    double p = outside(&d, i, j) ? 0 : exp(s - slopes[h] * fabs((double)(i + KEYS - ROWS - j)));
                    sum += p;
                    first += p * ptxpack_to_float(PTXPACK_F16, v[j * DIM]);
                }
                assert_true(sum > 0 ? fabs(lse[h][i] - log(sum)) < 1e-9 : lse[h][i] == -INFINITY);
                assert_true(fabs(o[i][h][0] - (sum > 0 ? first / sum : 0)) < 1e-9);
            }
    }
}

static void wrong_slopes_are_refused(void **state)
{
    (void)state;
    static const float        wrong[][HEADS] = {{0, -1, 0}, {0, 0, NAN}, {INFINITY, 0, 0}};
    static const char *const  lines[] = {"slopes[1] is -1", "slopes[2] is", "slopes[0] is inf"};
    ptxpack_attention_lengths arrays = {.slopes = NULL};
    uint16_t                  data[ROWS * HEADS * DIM] = {0};
    ptxpack_attention_desc    d = problem(PTXPACK_ALIBI);
    assert_int_equal(ptxpack_attention_reference(&d, data, data, data, NULL, NULL, NULL), PTXPACK_E_ARG);
    assert_non_null(strstr(ptxpack_detail(NULL), "slopes is NULL"));
    for (int i = 0; i < 3; i++) {
        arrays.slopes = wrong[i];
        assert_int_equal(ptxpack_attention_reference_lengths(&d, data, data, data, NULL, &arrays, NULL, NULL),
                         PTXPACK_E_ARG);
        assert_non_null(strstr(ptxpack_detail(NULL), lines[i]));
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
        cmocka_unit_test(addresses_are_checked),
        cmocka_unit_test(older_buffers_have_no_sinks),
        cmocka_unit_test(a_sink_takes_its_share),
        cmocka_unit_test(missing_sinks_are_refused),
        cmocka_unit_test(alibi_is_checked),
        cmocka_unit_test(slopes_are_those_of_the_paper),
        cmocka_unit_test(scores_fall_with_the_distance),
        cmocka_unit_test(wrong_slopes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
