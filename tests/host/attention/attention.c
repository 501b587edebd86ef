/* attention.c - conversions of element types, the reference, and launches, without a GPU (through
 * tests/fake/loader.c). */
#include "fixture.h"

/* ---- element types ------------------------------------------------------------------------------ */
/* The value of a 16-bit pattern from the definition of the format; infinities as the next power of two. */
static double defined_value(ptxpack_dtype type, uint16_t bits)
{
    int    fraction_bits = type == PTXPACK_F16 ? 10 : 7, exponent_bits = 15 - fraction_bits;
    int    bias = (1 << (exponent_bits - 1)) - 1, exponent = (bits & 0x7fff) >> fraction_bits;
    int    fraction = bits & ((1 << fraction_bits) - 1);
    double magnitude = exponent == 0 ? ldexp(fraction, 1 - bias - fraction_bits)
                                     : ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
    return bits & 0x8000 ? -magnitude : magnitude;
}

static void widening_is_exact(void **state)
{
    (void)state;
    for (int t = PTXPACK_F16; t <= PTXPACK_BF16; t++)
        for (uint32_t bits = 0; bits < 65536; bits++) {
            ptxpack_dtype type = (ptxpack_dtype)t;
            uint32_t      top = type == PTXPACK_F16 ? 0x7c00 : 0x7f80;
            float         value = ptxpack_to_float(type, (uint16_t)bits);
            if ((bits & 0x7fff) > top)
                assert_true(isnan(value));
            else if ((bits & 0x7fff) == top)
                assert_true(isinf(value) && (value < 0) == (bits >= 0x8000));
            else
                assert_true(value == defined_value(type, (uint16_t)bits) &&
                            (signbit(value) != 0) == (bits >= 0x8000));
            if ((bits & 0x7fff) <= top)
                assert_int_equal(ptxpack_from_float(type, value), bits);
            else
                assert_true(isnan(ptxpack_to_float(type, ptxpack_from_float(type, value))));
        }
}

/* Tests every midpoint between neighbours: below it, at it (to even), above it. */
static void narrowing_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (int t = PTXPACK_F16; t <= PTXPACK_BF16; t++) {
        ptxpack_dtype type = (ptxpack_dtype)t;
        uint32_t      top = type == PTXPACK_F16 ? 0x7c00 : 0x7f80;
        for (uint32_t low = 0; low < top; low++)
            for (uint32_t sign = 0; sign <= 0x8000; sign += 0x8000) {
                double a = defined_value(type, (uint16_t)low), b = defined_value(type, (uint16_t)(low + 1));
                float  middle = (float)((a + b) / 2); /* exact: it needs one bit more */
                float  below = nextafterf(middle, 0), above = nextafterf(middle, INFINITY);
                float  s = sign ? -1.0f : 1.0f;
                if (middle > FLT_MAX)
                    continue;
                assert_int_equal(ptxpack_from_float(type, s * below), sign | low);
                assert_int_equal(ptxpack_from_float(type, s * middle), sign | (low + (low & 1)));
                assert_int_equal(ptxpack_from_float(type, s * above), sign | (low + 1));
            }
    }
    assert_int_equal(ptxpack_from_float(PTXPACK_F16, 1e30f), 0x7c00);
    assert_int_equal(ptxpack_from_float(PTXPACK_F16, -INFINITY), 0xfc00);
    assert_string_equal(ptxpack_dtype_name(PTXPACK_F16), "f16");
    assert_string_equal(ptxpack_dtype_name(PTXPACK_BF16), "bf16");
    assert_string_equal(ptxpack_dtype_name((ptxpack_dtype)7), "?");
}

/* ---- the reference ------------------------------------------------------------------------------ */
enum { MOST = 1 << 14 };
static uint16_t q_data[MOST], k_data[MOST], v_data[MOST];

static double at(const ptxpack_attention_desc *d, const uint16_t *data, const attention_tensor *t, int b, int i,
                 int h, int c)
{
    return ptxpack_to_float(d->dtype, data[b * t->batch + i * t->row + h * t->head + c]);
}

/* Computes one output row by the definition, in long double. */
static double naive_row(const ptxpack_attention_desc *d, int b, int h, int i, double *o)
{
    attention_geometry g;
    char               line[PLAN_LINE];
    assert_int_equal(ptxpack_attention_resolve(d, &g, line), PTXPACK_OK);
    int         share = d->heads_q / d->heads_kv, seen = 0;
    long double sum = 0, out[256] = {0};
    for (int j = 0; j < d->seqlen_kv; j++) {
        long double score = 0;
        if (outside(d, i, j) != 0)
            continue;
        for (int c = 0; c < d->head_dim; c++)
            score += (long double)at(d, q_data, &g.tensor[TENSOR_Q], b, i, h, c) *
                     at(d, k_data, &g.tensor[TENSOR_K], b, j, h / share, c);
        score *= g.scale;
        if (d->softcap > 0)
            score = d->softcap * tanhl(score / d->softcap);
        long double p = expl(score);
        sum += p;
        for (int c = 0; c < d->head_dim; c++)
            out[c] += p * at(d, v_data, &g.tensor[TENSOR_V], b, j, h / share, c);
        seen++;
    }
    for (int c = 0; c < d->head_dim; c++)
        o[c] = seen > 0 ? (double)(out[c] / sum) : 0;
    return seen > 0 ? (double)logl(sum) : -INFINITY;
}

static void compare_reference(const ptxpack_attention_desc *d)
{
    static double      o[MOST], lse[MOST];
    attention_geometry g;
    char               line[PLAN_LINE];
    assert_int_equal(ptxpack_attention_resolve(d, &g, line), PTXPACK_OK);
    for (int i = 0; i < MOST; i++)
        o[i] = 12345;
    assert_int_equal(ptxpack_attention_reference(d, q_data, k_data, v_data, NULL, o, lse), PTXPACK_OK);
    for (int b = 0; b < d->batch; b++)
        for (int h = 0; h < d->heads_q; h++)
            for (int i = 0; i < d->seqlen_q; i++) {
                double                  row[256], want = naive_row(d, b, h, i, row);
                const attention_tensor *t = &g.tensor[TENSOR_O];
                double                 *got = o + b * t->batch + i * t->row + h * t->head;
                double                  got_lse = lse[(b * d->heads_q + h) * d->seqlen_q + i];
                assert_true(want == got_lse || fabs(want - got_lse) < 1e-12);
                for (int c = 0; c < d->head_dim; c++) {
                    assert_true(fabs(got[c] - row[c]) < 1e-12);
                    got[c] = 12345;
                }
            }
    for (int i = 0; i < MOST; i++)
        assert_true(o[i] == 12345); /* nothing else was written */
}

static void the_reference_is_the_definition(void **state)
{
    (void)state;
    static const int lengths[][2] = {{5, 7}, {7, 5}, {1, 1}, {17, 33}, {33, 3}, {1, 40}};
    random_state     random = random_start(SEED);
    print_message("seed %d\n", (int)SEED);
    for (int type = PTXPACK_F16; type <= PTXPACK_BF16; type++) {
        random_normal(&random, (ptxpack_dtype)type, q_data, MOST);
        random_normal(&random, (ptxpack_dtype)type, k_data, MOST);
        random_normal(&random, (ptxpack_dtype)type, v_data, MOST);
        for (int mask = 0; mask < MASKINGS; mask++)
            for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
                ptxpack_attention_desc d = good;
                d.dtype = (ptxpack_dtype)type;
                set_masking(&d, &maskings[mask]);
                d.seqlen_q = lengths[i][0];
                d.seqlen_kv = lengths[i][1];
                d.scale = i % 2 ? 0 : 0.7f;
                compare_reference(&d);
                d.q = d.o = (ptxpack_strides){24 * 6 * d.seqlen_q + 8, 24, 24 * d.seqlen_q};
                d.k = (ptxpack_strides){0, 40, 16};
                d.v = (ptxpack_strides){40 * d.seqlen_kv, 40, 0};
                compare_reference(&d);
            }
    }
}

/* A NaN that the mask hides has no effect, and a NaN that it does not hide has one. */
static void masked_values_do_not_matter(void **state)
{
    (void)state;
    ptxpack_attention_desc d = good;
    double                 o[2 * 5 * 6 * 16], lse[60];
    random_state           random = random_start(SEED);
    random_normal(&random, d.dtype, q_data, MOST);
    random_normal(&random, d.dtype, k_data, MOST);
    random_normal(&random, d.dtype, v_data, MOST);
    d.mask = PTXPACK_MASK_CAUSAL_TOP_LEFT;
    for (int b = 0; b < 2; b++)
        for (int c = 0; c < 32; c++)
            v_data[b * 7 * 32 + 3 * 32 + c] = 0x7e00; /* key 3 */
    assert_int_equal(ptxpack_attention_reference(&d, q_data, k_data, v_data, NULL, o, lse), PTXPACK_OK);
    for (int i = 0; i < 2 * 5 * 6 * 16; i++)
        assert_int_equal(isnan(o[i]), i / 96 % 5 >= 3);
    d.mask = PTXPACK_MASK_WINDOW_TOP_LEFT;
    d.window_right = 1;
    assert_int_equal(ptxpack_attention_reference(&d, q_data, k_data, v_data, NULL, o, lse), PTXPACK_OK);
    for (int i = 0; i < 2 * 5 * 6 * 16; i++)
        assert_int_equal(isnan(o[i]), i / 96 % 5 == 2 || i / 96 % 5 == 3);
}

/* Several threads, and rows in any order, give the same bits as one thread. */
static void threads_do_not_matter(void **state)
{
    (void)state;
    ptxpack_attention_desc d = good;
    attention_reference   *r;
    attention_row          rows[60];
    double                 o[2][60 * 16], rounded[2][60 * 16], lse[2][60];
    random_state           random = random_start(SEED);
    random_normal(&random, d.dtype, q_data, MOST);
    random_normal(&random, d.dtype, k_data, MOST);
    random_normal(&random, d.dtype, v_data, MOST);
    d.mask = PTXPACK_MASK_CAUSAL_TOP_LEFT;
    for (int i = 0; i < 60; i++)
        rows[i] = (attention_row){i % 2, i * 7 % 6, i % 5};
    assert_int_equal(attention_reference_open(&d, q_data, k_data, v_data, NULL, NULL, &r), PTXPACK_OK);
    for (int n = 0; n < 2; n++)
        assert_int_equal(attention_reference_rows(r, rows, 60, n == 0 ? 1 : 8,
                                                  &(attention_row_results){o[n], rounded[n], lse[n]}),
                         PTXPACK_OK);
    attention_reference_close(r);
    assert_memory_equal(o[0], o[1], sizeof o[0]);
    assert_memory_equal(rounded[0], rounded[1], sizeof rounded[0]);
    assert_memory_equal(lse[0], lse[1], sizeof lse[0]);
    double most = 0;
    for (int i = 0; i < 60 * 16; i++) { /* the result is rounded to the type, and near */
        assert_true(ptxpack_to_float(d.dtype, ptxpack_from_float(d.dtype, (float)rounded[0][i])) ==
                    rounded[0][i]);
        most = fmax(most, fabs(rounded[0][i] - o[0][i]));
    }
    assert_true(most > 0 && most < 0.01);
}

static void flops_count_the_pairs(void **state)
{
    (void)state;
    for (int mask = 0; mask < MASKINGS; mask++)
        for (int sq = 1; sq < 20; sq++)
            for (int sk = 1; sk < 20; sk++) {
                ptxpack_attention_desc d = good;
                int64_t                pairs = 0;
                set_masking(&d, &maskings[mask]);
                d.seqlen_q = sq;
                d.seqlen_kv = sk;
                for (int i = 0; i < sq; i++)
                    for (int j = 0; j < sk; j++)
                        pairs += outside(&d, i, j) == 0;
                assert_true(ptxpack_attention_flops(&d) == 4.0 * 16 * 2 * 6 * (double)pairs);
                assert_true(ptxpack_attention_bytes(&d) ==
                            2 * (2 * 2 * 16.0 * (6 * sq + 2 * sk) + 4.0 * 6 * sq));
            }
}

/* ---- launches ----------------------------------------------------------------------------------- */
static void bad_buffers_are_refused(void **state)
{
    (void)state;
    ptxpack                *handle = open_mock(NULL);
    ptxpack_attention_plan *plan;
    ptxpack_attention_desc  d = good;
    d.o = (ptxpack_strides){512, 96, 16}; /* 512 + 4*96 + 5*16 + 16 elements = 1984 bytes */
    assert_int_equal(ptxpack_attention_plan_create(handle, &d, &plan), PTXPACK_OK);
    const ptxpack_attention_buffers fine =
        {.size = sizeof fine, .q = 0x10000, .k = 0x20000, .v = 0x30000, .o = 0x40000, .lse = 0x50000};
    const struct {
        size_t      member;
        uint64_t    value;
        const char *line;
    } bad[] = {
        {offsetof(ptxpack_attention_buffers, q), 0, "q is null"},
        {offsetof(ptxpack_attention_buffers, v), 0, "v is null"},
        {offsetof(ptxpack_attention_buffers, o), 0, "o is null"},
        {offsetof(ptxpack_attention_buffers, k), 0x20008, "k: address 0x20008 is not a multiple of 16"},
        {offsetof(ptxpack_attention_buffers, lse), 0x50002, "lse: address 0x50002 is not a multiple of 4"},
        {offsetof(ptxpack_attention_buffers, q), UINT64_MAX - 15, "wraps"},
        {offsetof(ptxpack_attention_buffers, o), 0x10000, "o overlaps q"},
        {offsetof(ptxpack_attention_buffers, o), 0x20000 - 1984 + 16, "o overlaps k"},
        {offsetof(ptxpack_attention_buffers, v), 0x40000 + 1984 - 16, "o overlaps v"},
        {offsetof(ptxpack_attention_buffers, lse), 0x40000 + 1984 - 4, "lse overlaps o"},
        {offsetof(ptxpack_attention_buffers, lse), 0x20004, "lse overlaps k"},
    };
    attention_geometry g;
    char               line[PLAN_LINE];
    assert_int_equal(ptxpack_attention_resolve(&d, &g, line), PTXPACK_OK);
    assert_int_equal(ptxpack_attention_check_buffers(&g, 0, &fine, line), PTXPACK_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ptxpack_attention_buffers b = fine;
        memcpy((char *)&b + bad[i].member, &bad[i].value, sizeof bad[i].value);
        assert_int_equal(ptxpack_attention_launch(plan, &b, NULL), PTXPACK_E_ARG);
        if (strstr(ptxpack_detail(handle), bad[i].line) == NULL)
            fail_msg("\"%s\" does not contain \"%s\"", ptxpack_detail(handle), bad[i].line);
    }
    ptxpack_attention_buffers b = fine;
    b.o = 0x20000 - 1984; /* adjacent buffers are allowed */
    assert_int_equal(ptxpack_attention_check_buffers(&g, 0, &b, line), PTXPACK_OK);
    b.size = 0;
    assert_int_equal(ptxpack_attention_launch(plan, &b, NULL), PTXPACK_E_ARG);
    assert_int_equal(ptxpack_attention_launch(plan, NULL, NULL), PTXPACK_E_ARG);
    ptxpack_attention_plan_free(plan);
    ptxpack_close(handle);
}

/* The mock computes only from the arguments: a right result means that they are right. */
static void arguments_reach_the_kernel(void **state)
{
    (void)state;
    ptxpack                     *handle = open_mock(NULL);
    random_state                 random = random_start(SEED);
    _Alignas(16) static uint16_t q[MOST], k[MOST], v[MOST], o[MOST];
    static float                 lse[MOST];
    for (int mask = 0; mask < MASKINGS; mask++)
        for (int type = PTXPACK_F16; type <= PTXPACK_BF16; type++) {
            ptxpack_attention_desc d = good;
            verify_result          result;
            d.dtype = (ptxpack_dtype)type;
            set_masking(&d, &maskings[mask]);
            d.seqlen_q = 37;
            d.seqlen_kv = 23;
            d.head_dim = 8;
            d.q = (ptxpack_strides){37 * 64, 64, 8};
            d.k = (ptxpack_strides){2 * 24 * 16 + 8, 16, 24 * 16};
            d.o = (ptxpack_strides){6 * 37 * 16, 16, 37 * 16};
            random_normal(&random, d.dtype, q, MOST);
            random_normal(&random, d.dtype, k, MOST);
            random_normal(&random, d.dtype, v, MOST);
            memset(o, 0xff, sizeof o);
            ptxpack_attention_plan         *plan;
            const ptxpack_attention_buffers b = {.size = sizeof b,
                                                 .q = (uintptr_t)q,
                                                 .k = (uintptr_t)k,
                                                 .v = (uintptr_t)v,
                                                 .o = (uintptr_t)o,
                                                 .lse = (uintptr_t)lse};
            assert_int_equal(ptxpack_attention_plan_create(handle, &d, &plan), PTXPACK_OK);
            assert_int_equal(ptxpack_attention_launch(plan, &b, NULL), PTXPACK_OK);
            ptxpack_attention_plan_free(plan);
            assert_int_equal(verify_attention(&d, q, k, v, NULL, o, lse, 0, 1, &result), PTXPACK_OK);
            assert_true(result.pass);
            assert_int_equal(result.rows, 2 * 6 * 37);
            o[3] = ptxpack_from_float(d.dtype, ptxpack_to_float(d.dtype, o[3]) + 0.25f);
            assert_int_equal(verify_attention(&d, q, k, v, NULL, o, NULL, 0, 1, &result), PTXPACK_OK);
            assert_false(result.pass);
            lse[5] = NAN;
            o[3] = 0xffff;
            assert_int_equal(verify_attention(&d, q, k, v, NULL, o, lse, 0, 1, &result), PTXPACK_OK);
            assert_false(result.pass);
        }
    ptxpack_close(handle);
}

/* An error in the first row must still be reported after good rows. */
static void verification_sees_every_row(void **state)
{
    (void)state;
    enum { ROWS = 2 * 6 * 37 };
    random_state    random = random_start(SEED);
    static uint16_t q[ROWS * 8], k[2 * 2 * 23 * 8], v[2 * 2 * 23 * 8], o[ROWS * 8];
    static double   exact_o[ROWS * 8], exact_lse[ROWS];
    static float    lse[ROWS];
    /* The first 14 rows of each head see no key. */
    ptxpack_attention_desc d = {.size = sizeof d,
                                .dtype = PTXPACK_F16,
                                .batch = 2,
                                .seqlen_q = 37,
                                .seqlen_kv = 23,
                                .heads_q = 6,
                                .heads_kv = 2,
                                .head_dim = 8,
                                .mask = PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT};
    random_normal(&random, d.dtype, q, sizeof q / sizeof q[0]);
    random_normal(&random, d.dtype, k, sizeof k / sizeof k[0]);
    random_normal(&random, d.dtype, v, sizeof v / sizeof v[0]);
    assert_int_equal(ptxpack_attention_reference(&d, q, k, v, NULL, exact_o, exact_lse), PTXPACK_OK);
    for (int i = 0; i < ROWS * 8; i++)
        o[i] = ptxpack_from_float(d.dtype, (float)exact_o[i]);
    for (int i = 0; i < ROWS; i++)
        lse[i] = (float)exact_lse[i];

    const int     rows[] = {0, 13, 14, 36, ROWS - 1};
    const float   wrong[] = {NAN, INFINITY, 1e30f, 0};
    verify_result r;
    assert_int_equal(verify_attention(&d, q, k, v, NULL, o, lse, 0, 1, &r), PTXPACK_OK);
    assert_true(r.pass);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (size_t w = 0; w < sizeof wrong / sizeof wrong[0]; w++) {
            float kept = lse[rows[i]];
            lse[rows[i]] = wrong[w];
            assert_int_equal(verify_attention(&d, q, k, v, NULL, o, lse, 0, 1, &r), PTXPACK_OK);
            lse[rows[i]] = kept;
            if (r.pass)
                fail_msg("lse %g in row %d passed", (double)wrong[w], rows[i]);
        }
    o[0] = 0xffff;
    assert_int_equal(verify_attention(&d, q, k, v, NULL, o, lse, 0, 1, &r), PTXPACK_OK);
    assert_false(r.pass);
}

static void vectors_are_checked(void **state)
{
    (void)state;
    ptxpack             *handle = open_mock(NULL), *h75 = open_mock("sm_75");
    ptxpack_vector_plan *plan = NULL;
    assert_int_equal(ptxpack_vector_plan_create(handle, (ptxpack_dtype)9, &plan), PTXPACK_E_ARG);
    assert_int_equal(ptxpack_vector_plan_create(handle, PTXPACK_F16, NULL), PTXPACK_E_ARG);
    assert_int_equal(ptxpack_vector_plan_create(NULL, PTXPACK_F16, &plan), PTXPACK_E_ARG);
    assert_int_equal(ptxpack_vector_plan_create(h75, PTXPACK_BF16, &plan), PTXPACK_E_UNSUPPORTED);
    assert_null(plan);
    assert_int_equal(ptxpack_vector_plan_create(handle, PTXPACK_F16, &plan), PTXPACK_OK);
    const struct {
        uint64_t       z, x, y, n;
        ptxpack_status status;
    } calls[] = {
        {0, 0, 0, 0, PTXPACK_OK},
        {0, 0x1000, 0x2000, 8, PTXPACK_E_ARG},
        {0x1000, 0, 0x2000, 8, PTXPACK_E_ARG},
        {0x1000, 0x2008, 0x3000, 8, PTXPACK_E_ARG},
        {0x1000, 0x2000, 0x1010, 9, PTXPACK_E_ARG},
        {0x1010, 0x1000, 0x3000, 9, PTXPACK_E_ARG},
        {0x1000, 0x2000, UINT64_MAX - 15, 9, PTXPACK_E_ARG},
        {0x1000, 0x2000, 0x3000, UINT64_C(1) << 63, PTXPACK_E_UNSUPPORTED},
        {0x1000, 0x2000, 0x3000, UINT64_C(8) * 256 * INT32_MAX + 1, PTXPACK_E_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        assert_int_equal(ptxpack_vector_add(plan, calls[i].z, calls[i].x, calls[i].y, 1, 1, 1, calls[i].n,
                                            NULL),
                         calls[i].status);
    _Alignas(16) uint16_t x[9], y[9];
    for (int i = 0; i < 9; i++) {
        x[i] = ptxpack_from_float(PTXPACK_F16, (float)i);
        y[i] = ptxpack_from_float(PTXPACK_F16, (float)(i * i));
    }
    assert_int_equal(ptxpack_vector_add(plan, (uintptr_t)x, (uintptr_t)x, (uintptr_t)y, 2, 0.5f, -1, 9, NULL),
                     PTXPACK_OK);
    for (int i = 0; i < 9; i++)
        assert_true(ptxpack_to_float(PTXPACK_F16, x[i]) == 2 * i + 0.5f * (float)(i * i) - 1);
    ptxpack_vector_plan_free(plan);
    ptxpack_close(handle);
    ptxpack_close(h75);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(widening_is_exact),
        cmocka_unit_test(narrowing_rounds_to_nearest_even),
        cmocka_unit_test(the_reference_is_the_definition),
        cmocka_unit_test(masked_values_do_not_matter),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(flops_count_the_pairs),
        cmocka_unit_test(bad_buffers_are_refused),
        cmocka_unit_test(arguments_reach_the_kernel),
        cmocka_unit_test(verification_sees_every_row),
        cmocka_unit_test(vectors_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
