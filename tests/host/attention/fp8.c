/* fp8.c - e4m3 on the host: conversions, valid descriptors and addresses, the reference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <cmocka.h>

#include "host/attention/inspect.h"
#include "host/dtype.h"
#include "tools/problem/random.h"
#include "tools/problem/verify.h"

enum { SEED = 20261122 };

/* ---- conversions -------------------------------------------------------------------------------- */
/* The value of a code by the definition of the format; 0x7f, which is NaN, has the next value in order. */
static double defined_value(int code)
{
    int    exponent = code >> 3 & 15, fraction = code & 7;
    double magnitude = exponent == 0 ? ldexp(fraction, -9) : ldexp(8 + fraction, exponent - 10);
    return code & 0x80 ? -magnitude : magnitude;
}

static void every_code_is_exact(void **state)
{
    (void)state;
    for (int code = 0; code < 256; code++) {
        float value = ptxpack_to_float(PTXPACK_E4M3, (uint16_t)code);
        if ((code & 0x7f) == 0x7f) {
            assert_true(isnan(value));
            assert_int_equal(ptxpack_from_float(PTXPACK_E4M3, value), 0x7f);
        } else {
            assert_true(value == defined_value(code) && (signbit(value) != 0) == (code >= 0x80));
            assert_int_equal(ptxpack_from_float(PTXPACK_E4M3, value), code);
        }
    }
    assert_true(ptxpack_to_float(PTXPACK_E4M3, 0x7e) == 448);
}

/* Tests every midpoint between neighbours: below it, at it (to even), above it. */
static void narrowing_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (int low = 0; low < 0x7e; low++)
        for (int sign = 0; sign <= 0x80; sign += 0x80) {
            float middle = (float)((defined_value(low) + defined_value(low + 1)) / 2);
            float s = sign ? -1.0f : 1.0f;
            float below = nextafterf(middle, 0), above = nextafterf(middle, INFINITY);
            assert_int_equal(ptxpack_from_float(PTXPACK_E4M3, s * below), sign | low);
            assert_int_equal(ptxpack_from_float(PTXPACK_E4M3, s * middle), sign | (low + (low & 1)));
            assert_int_equal(ptxpack_from_float(PTXPACK_E4M3, s * above), sign | (low + 1));
        }
}

static void large_numbers_saturate(void **state)
{
    (void)state;
    const float large[] = {448, 448.0001f, 463.9f, 464, 480, 1e30f, INFINITY};
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        assert_int_equal(ptxpack_from_float(PTXPACK_E4M3, large[i]), 0x7e);
        assert_int_equal(ptxpack_from_float(PTXPACK_E4M3, -large[i]), 0xfe);
    }
    assert_int_equal(ptxpack_from_float(PTXPACK_E4M3, -NAN), 0x7f);
    assert_int_equal(ptxpack_from_float(PTXPACK_E4M3, 1e-40f), 0);
    assert_int_equal(ptxpack_from_float(PTXPACK_E4M3, -0.0f), 0x80);
}

static void int8_is_rounded_to_nearest_even(void **state)
{
    static const struct {
        float   value;
        uint8_t code;
    } cases[] = {{0.5f, 0},       {1.5f, 2},         {-2.5f, 0xfe},   {126.6f, 127},
                 {127.5f, 127},   {1e30f, 127},      {INFINITY, 127}, {-127.5f, 0x80},
                 {-128.4f, 0x80}, {-INFINITY, 0x80}, {NAN, 0},        {-0.4f, 0}};
    (void)state;
    for (int code = 0; code < 256; code++)
        assert_int_equal(ptxpack_from_float(PTXPACK_INT8, ptxpack_to_float(PTXPACK_INT8, (uint16_t)code)),
                         code);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(ptxpack_from_float(PTXPACK_INT8, cases[i].value), cases[i].code);
}

/* d is 127 / 127 = 1, so that numbers are the values, rounded; then the same times 2^-10, 2^20 and 0. */
static void blocks_are_rounded_as_ggml_does(void **state)
{
    static const struct {
        float  value;
        int8_t number;
    } cases[] = {{-127, -127}, {0.5f, 1},           {-0.5f, -1},      {2.5f, 3},
                 {-3.5f, -4},  {1.4999999f, 1},     {0.49999997f, 0}, {126.5f, 127},
                 {-0.0f, 0},   {-126.49999f, -126}, {3, 3},           {1e-30f, 0}};
    enum { CASES = sizeof cases / sizeof cases[0], COUNT = PTXPACK_Q8_0_ELEMENTS };
    static const float factors[] = {1, 0x1p-10f, 0x1p14f, 0};
    uint8_t            blocks[3 * PTXPACK_Q8_0_BYTES];
    (void)state;
    assert_int_equal(ptxpack_dtype_span(PTXPACK_Q8_0, 96), sizeof blocks);
    assert_int_equal(ptxpack_dtype_span(PTXPACK_BF16, 96), 192);
    assert_int_equal(ptxpack_dtype_span((ptxpack_dtype)6, 96), 0);
    for (size_t k = 0; k < sizeof factors / sizeof factors[0]; k++) {
        float values[COUNT] = {0};
        for (size_t i = 0; i < CASES; i++)
            values[i] = cases[i].value * factors[k];
        memset(blocks, 0xa5, sizeof blocks);
        ptxpack_set_elements(PTXPACK_Q8_0, blocks, COUNT, values, COUNT);
        const uint16_t scale = (uint16_t)(blocks[PTXPACK_Q8_0_BYTES] | blocks[PTXPACK_Q8_0_BYTES + 1] << 8);
        assert_int_equal(scale, ptxpack_from_float(PTXPACK_F16, factors[k]));
        for (size_t i = 0; i < COUNT; i++) {
            const int number = i < CASES && factors[k] != 0 ? cases[i].number : 0;
            assert_int_equal((int8_t)blocks[PTXPACK_Q8_0_BYTES + 2 + i], number);
            assert_true(ptxpack_element(PTXPACK_Q8_0, blocks, COUNT + i) == (float)number * factors[k]);
        }
        ptxpack_set_element(PTXPACK_Q8_0, blocks, COUNT, 5);
        assert_true(ptxpack_element(PTXPACK_Q8_0, blocks, COUNT) == -127 * factors[k]);
        for (size_t i = 0; i < PTXPACK_Q8_0_BYTES; i++)
            assert_true(blocks[i] == 0xa5 && blocks[2 * PTXPACK_Q8_0_BYTES + i] == 0xa5);
    }
}

/* Blocks of zeros, with a NaN, with an infinity, and of numbers so small that 1 / d is infinite. */
static void blocks_of_no_numbers_are_defined(void **state)
{
    enum { COUNT = PTXPACK_Q8_0_ELEMENTS };
    static const struct {
        float    values[3];
        uint16_t scale;
        int8_t   numbers[3];
    } cases[] = {{{0, -0.0f, 0}, 0, {0, 0, 0}},
                 {{NAN, 127, -3}, 0x3c00, {0, 127, -3}},
                 {{3, INFINITY, -INFINITY}, 0x7c00, {0, 0, 0}},
                 {{0x1p-130f, -0x1p-130f, 0}, 0, {127, -128, 0}}};
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        float   values[COUNT] = {cases[k].values[0], cases[k].values[1], cases[k].values[2]};
        uint8_t block[PTXPACK_Q8_0_BYTES];
        ptxpack_set_elements(PTXPACK_Q8_0, block, 0, values, COUNT);
        assert_int_equal(block[0] | block[1] << 8, cases[k].scale);
        for (int i = 0; i < 3; i++)
            assert_int_equal((int8_t)block[2 + i], cases[k].numbers[i]);
    }
}

static void arrays_have_their_element_size(void **state)
{
    (void)state;
    const struct {
        ptxpack_dtype type;
        size_t        bytes;
        const char   *name;
    } types[] = {
        {PTXPACK_F16, 2, "f16"},    {PTXPACK_BF16, 2, "bf16"}, {PTXPACK_E4M3, 1, "e4m3"},
        {PTXPACK_INT8, 1, "int8"},  {PTXPACK_Q8_0, 0, "q8_0"}, {(ptxpack_dtype)0, 0, "?"},
        {(ptxpack_dtype)6, 0, "?"},
    };
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        assert_int_equal(ptxpack_dtype_bytes(types[t].type), types[t].bytes);
        assert_string_equal(ptxpack_dtype_name(types[t].type), types[t].name);
        assert_int_equal(ptxpack_dtype_of(types[t].name), types[t].name[0] != '?' ? types[t].type : 0);
    }
    for (size_t t = 0; t < 3; t++) {
        uint16_t      array[4];
        unsigned char bytes[sizeof array];
        memset(array, 0xa5, sizeof array);
        ptxpack_set_element(types[t].type, array, 1, -1.5f);
        assert_true(ptxpack_element(types[t].type, array, 1) == -1.5f);
        memcpy(bytes, array, sizeof bytes);
        for (size_t i = 0; i < sizeof bytes; i++)
            if (i / types[t].bytes != 1)
                assert_int_equal(bytes[i], 0xa5);
    }
}

/* ---- descriptors and addresses ------------------------------------------------------------------ */
static const ptxpack_attention_desc good = {
    .size = sizeof good,
    .dtype = PTXPACK_E4M3,
    .batch = 2,
    .seqlen_q = 5,
    .seqlen_kv = 7,
    .heads_q = 6,
    .heads_kv = 2,
    .head_dim = 32,
};

static void refuse(ptxpack_attention_desc d, const char *wanted)
{
    attention_geometry g;
    char               line[PLAN_LINE];
    assert_int_equal(ptxpack_attention_resolve(&d, &g, line), PTXPACK_E_ARG);
    assert_string_equal(line, wanted);
}

static void bad_descriptors_are_refused(void **state)
{
    (void)state;
    ptxpack_attention_desc d = good;
    d.head_dim = 24;
    refuse(d, "head_dim 24 is not a multiple of 16 up to 256");
    d = good;
    d.k = (ptxpack_strides){7 * 64, 64, 40};
    refuse(d, "k.head: stride 40 is not a multiple of 16 elements");
    d = good;
    d.o = (ptxpack_strides){5 * 6 * 40, 6 * 40, 36};
    refuse(d, "o.head: stride 36 is not a multiple of 8 elements");
}

static void sizes_are_those_of_the_types(void **state)
{
    (void)state;
    ptxpack_attention_desc d = good;
    attention_geometry     g;
    char                   line[PLAN_LINE];
    d.o = (ptxpack_strides){5 * 6 * 40, 6 * 40, 40}; /* bf16: multiples of 8 */
    assert_int_equal(ptxpack_attention_resolve(&d, &g, line), PTXPACK_OK);
    assert_int_equal(g.tensor[TENSOR_Q].bytes, 2 * 5 * 6 * 32);
    assert_int_equal(g.tensor[TENSOR_V].bytes, 2 * 7 * 2 * 32);
    assert_int_equal(g.tensor[TENSOR_O].bytes, 2 * (2 * 5 * 6 * 40 - 8));
    assert_int_equal(g.descale_bytes, 2 * 2 * 4);
    assert_true(ptxpack_attention_bytes(&good) ==
                2 * 5 * 6 * 32 * (1 + 2) + 2 * 7 * 2 * 32 * 2 + 4 * 2 * 6 * 5 + 3 * 16);
    d.dtype = PTXPACK_BF16;
    assert_int_equal(ptxpack_attention_resolve(&d, &g, line), PTXPACK_OK);
    assert_int_equal(g.descale_bytes, 0);
}

static void descales_are_checked(void **state)
{
    (void)state;
    const ptxpack_attention_buffers fine = {.size = sizeof fine,
                                            .q = 0x10000,
                                            .k = 0x20000,
                                            .v = 0x30000,
                                            .o = 0x40000,
                                            .lse = 0x50000,
                                            .q_descale = 0x60000,
                                            .k_descale = 0x60010,
                                            .v_descale = 0x60010};
    const struct {
        size_t      member;
        uint64_t    value;
        const char *line;
    } bad[] = {
        {offsetof(ptxpack_attention_buffers, q_descale), 0x60002,
         "q_descale: address 0x60002 is not a multiple of 4 bytes"},
        {offsetof(ptxpack_attention_buffers, k_descale), 0x3fff4, "o overlaps k_descale: 0x40000 and 0x3fff4"},
        {offsetof(ptxpack_attention_buffers, v_descale), 0x50000,
         "lse overlaps v_descale: 0x50000 and 0x50000"},
        {offsetof(ptxpack_attention_buffers, v_descale), UINT64_MAX - 3,
         "v_descale: address 0xfffffffffffffffc plus its 16 bytes wraps around"},
    };
    attention_geometry     g;
    char                   line[PLAN_LINE];
    ptxpack_attention_desc d = good;
    for (int type = PTXPACK_F16; type <= PTXPACK_E4M3; type++) {
        d.dtype = (ptxpack_dtype)type;
        assert_int_equal(ptxpack_attention_resolve(&d, &g, line), PTXPACK_OK);
        assert_int_equal(ptxpack_attention_check_buffers(&g, 0, &fine, line), PTXPACK_OK);
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            ptxpack_attention_buffers b = fine;
            memcpy((char *)&b + bad[i].member, &bad[i].value, sizeof bad[i].value);
            ptxpack_status status = ptxpack_attention_check_buffers(&g, 0, &b, line);
            assert_int_equal(status, type == PTXPACK_E4M3 ? PTXPACK_E_ARG : PTXPACK_OK);
            if (type == PTXPACK_E4M3)
                assert_string_equal(line, bad[i].line);
        }
    }
    ptxpack_attention_buffers none = fine;
    none.q_descale = none.k_descale = none.v_descale = 0;
    assert_int_equal(ptxpack_attention_check_buffers(&g, 0, &none, line), PTXPACK_OK);
}

/* ---- the reference ------------------------------------------------------------------------------ */
enum { MOST = 1 << 14 };
static uint8_t     q_data[MOST], k_data[MOST], v_data[MOST];
static const float q_scales[4] = {0.5f, 1.25f, 2, 1}, k_scales[4] = {1, 0.75f, 0.3f, 1.5f},
                   v_scales[4] = {1.7f, 1, 0.6f, 2};

static void fill(void)
{
    random_state random = random_start(SEED);
    random_normal(&random, PTXPACK_E4M3, q_data, MOST);
    random_normal(&random, PTXPACK_E4M3, k_data, MOST);
    random_normal(&random, PTXPACK_E4M3, v_data, MOST);
}

static double through(ptxpack_dtype type, double value)
{
    return ptxpack_to_float(type, ptxpack_from_float(type, (float)value));
}

/* Computes one output row of compact tensors by the definition; `rounded`: scores are rounded to bf16, weights
 * to e4m3 where the largest is 256. */
static double naive_row(int b, int h, int i, const ptxpack_descales *s, bool rounded, double *o)
{
    int    kv = b * 2 + h / 3, d = good.head_dim;
    double scores[7], most = -INFINITY, sum = 0, out[32] = {0};
    for (int j = 0; j < 7; j++) {
        double score = 0;
        for (int c = 0; c < d; c++)
            score += (double)ptxpack_element(PTXPACK_E4M3, q_data, (size_t)(((b * 5 + i) * 6 + h) * d + c)) *
                     ptxpack_element(PTXPACK_E4M3, k_data, (size_t)(((b * 7 + j) * 2 + h / 3) * d + c));
        scores[j] = score * (s != NULL ? (double)s->q[kv] * s->k[kv] : 1) * (float)(1 / sqrt(32.0));
        scores[j] = rounded ? through(PTXPACK_BF16, scores[j]) : scores[j];
        most = fmax(most, scores[j]);
    }
    for (int j = 0; j < 7; j++) {
        double p = exp(scores[j] - most);
        sum += p;
        p = rounded ? through(PTXPACK_E4M3, 256 * p) / 256 : p;
        for (int c = 0; c < d; c++)
            out[c] += p * ptxpack_element(PTXPACK_E4M3, v_data, (size_t)(((b * 7 + j) * 2 + h / 3) * d + c));
    }
    for (int c = 0; c < d; c++)
        o[c] = out[c] / sum * (s != NULL ? s->v[kv] : 1);
    return most + log(sum);
}

static void the_reference_is_the_definition(void **state)
{
    (void)state;
    const ptxpack_descales given = {q_scales, k_scales, v_scales};
    fill();
    for (int scaled = 0; scaled < 2; scaled++) {
        const ptxpack_descales *s = scaled ? &given : NULL;
        double                  o[2 * 5 * 6 * 32], lse[60], row[32];
        assert_int_equal(ptxpack_attention_reference(&good, q_data, k_data, v_data, s, o, lse), PTXPACK_OK);
        for (int b = 0; b < 2; b++)
            for (int i = 0; i < 5; i++)
                for (int h = 0; h < 6; h++) {
                    double want = naive_row(b, h, i, s, false, row);
                    assert_true(fabs(want - lse[(b * 6 + h) * 5 + i]) < 1e-12);
                    for (int c = 0; c < 32; c++)
                        assert_true(fabs(row[c] - o[((b * 5 + i) * 6 + h) * 32 + c]) < 1e-12);
                }
    }
}

/* The rounded reference is the definition with such scores and weights, rounded to bf16; it differs from the
 * exact one. */
static void rounded_is_what_fp8_can_do(void **state)
{
    (void)state;
    const ptxpack_descales s = {q_scales, k_scales, v_scales};
    attention_reference   *r;
    attention_row          rows[60];
    double                 o[60 * 32], rounded[60 * 32], row[32], most = 0;
    fill();
    for (int n = 0; n < 60; n++)
        rows[n] = (attention_row){n / 30, n / 5 % 6, n % 5};
    assert_int_equal(attention_reference_open(&good, q_data, k_data, v_data, &s, NULL, &r), PTXPACK_OK);
    assert_int_equal(attention_reference_rows(r, rows, 60, 2, &(attention_row_results){o, rounded, NULL}),
                     PTXPACK_OK);
    attention_reference_close(r);
    for (int n = 0; n < 60; n++) {
        naive_row(rows[n].batch, rows[n].head, rows[n].row, &s, true, row);
        for (int c = 0; c < 32; c++) {
            double got = rounded[n * 32 + c];
            assert_true(through(PTXPACK_BF16, got) == got);
            assert_true(fabs(got - row[c]) <= 0x1p-8 * fabs(row[c]));
            most = fmax(most, fabs(got - o[n * 32 + c]));
        }
    }
    assert_true(most > 0.03 && most < 0.3);
}

/* A right bf16 output passes; an output without one of the descales does not. */
static void verification_knows_the_descales(void **state)
{
    (void)state;
    const ptxpack_descales s = {q_scales, k_scales, v_scales}, forgotten = {q_scales, k_scales, NULL};
    double                 o[2 * 5 * 6 * 32], lse[60];
    uint16_t               out[2 * 5 * 6 * 32];
    float                  out_lse[60];
    verify_result          result;
    fill();
    for (int wrong = 0; wrong < 2; wrong++) {
        const ptxpack_descales *used = wrong ? &forgotten : &s;
        assert_int_equal(ptxpack_attention_reference(&good, q_data, k_data, v_data, used, o, lse), PTXPACK_OK);
        for (int i = 0; i < 2 * 5 * 6 * 32; i++)
            out[i] = ptxpack_from_float(PTXPACK_BF16, (float)o[i]);
        for (int i = 0; i < 60; i++)
            out_lse[i] = (float)lse[i];
        assert_int_equal(verify_attention(&good, q_data, k_data, v_data, &s, out, out_lse, 0, 1, &result),
                         PTXPACK_OK);
        assert_int_equal(result.pass, !wrong);
    }
}

/* ---- verification -------------------------------------------------------------------------------- */
/* The part of a score that wgmma cuts off grows with the scale. */
static void a_large_scale_widens_the_bound(void **state)
{
    (void)state;
    ptxpack_attention_desc d = {.dtype = PTXPACK_E4M3, .head_dim = 64};
    const double           bound = verify_lse_bound(&d, 0);
    d.scale = 0.125f; /* the default */
    assert_true(verify_lse_bound(&d, 0) == bound);
    d.scale = 0.001f;
    assert_true(verify_lse_bound(&d, 0) == bound);
    d.scale = 4;
    assert_true(verify_lse_bound(&d, 0) == 32 * bound);
    d.dtype = PTXPACK_F16;
    assert_true(verify_lse_bound(&d, 0) < bound);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_is_exact),
        cmocka_unit_test(narrowing_rounds_to_nearest_even),
        cmocka_unit_test(large_numbers_saturate),
        cmocka_unit_test(int8_is_rounded_to_nearest_even),
        cmocka_unit_test(blocks_are_rounded_as_ggml_does),
        cmocka_unit_test(blocks_of_no_numbers_are_defined),
        cmocka_unit_test(arrays_have_their_element_size),
        cmocka_unit_test(bad_descriptors_are_refused),
        cmocka_unit_test(sizes_are_those_of_the_types),
        cmocka_unit_test(descales_are_checked),
        cmocka_unit_test(the_reference_is_the_definition),
        cmocka_unit_test(rounded_is_what_fp8_can_do),
        cmocka_unit_test(verification_knows_the_descales),
        cmocka_unit_test(a_large_scale_widens_the_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
