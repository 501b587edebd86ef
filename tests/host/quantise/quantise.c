/* quantise.c - rounding to e4m3 without a GPU: what is refused, where the scales are, and the reference. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "host/gemm/gemm.h"
#include "host/quantise/inspect.h"

_Static_assert((int)PTXPACK_QUANTISE_BLOCK == (int)PTXPACK_SCALE_BLOCK, "blocks are those of products");

static const ptxpack_quantise_desc good = {.size = sizeof good,
                                           .dtype = PTXPACK_F16,
                                           .rows = 3,
                                           .columns = 272};

/* ---- refusals ----------------------------------------------------------------------------------------- */
static void odd_size(ptxpack_quantise_desc *d) { d->size -= 4; }
static void odd_type(ptxpack_quantise_desc *d) { d->dtype = PTXPACK_E4M3; }
static void odd_option(ptxpack_quantise_desc *d) { d->options = 7; }
static void odd_reserved(ptxpack_quantise_desc *d) { d->reserved = 1; }
static void no_rows(ptxpack_quantise_desc *d) { d->rows = 0; }
static void odd_columns(ptxpack_quantise_desc *d) { d->columns = 24; }
static void no_columns(ptxpack_quantise_desc *d) { d->columns = 0; }
static void many_columns(ptxpack_quantise_desc *d) { d->columns = 32784; }
static void odd_stride(ptxpack_quantise_desc *d) { d->stride_x = 276; }
static void odd_code_stride(ptxpack_quantise_desc *d) { d->stride_codes = 280; }
static void short_stride(ptxpack_quantise_desc *d) { d->stride_x = 264; }

static const struct {
    void (*spoil)(ptxpack_quantise_desc *d);
    const char *line;
} refusals[] = {
    {odd_size, "desc.size is "},
    {odd_type, "dtype 3 is neither PTXPACK_F16 nor PTXPACK_BF16"},
    {odd_option, "options has the unknown bits 0x4"},
    {odd_reserved, "desc.reserved is 1, not 0"},
    {no_rows, "rows is 0; it must be at least 1"},
    {odd_columns, "columns 24 is not a multiple of 16"},
    {no_columns, "columns 0 is not a multiple of 16"},
    {many_columns, "columns 32784: a row with one scale has up to 32768"},
    {odd_stride, "x.row: stride 276 is not a multiple of 8 elements"},
    {odd_code_stride, "codes.row: stride 280 is not a multiple of 16 elements"},
    {short_stride, "x.row: stride 264 overlaps the 272 elements inside it"},
};

static void bad_descriptors_are_refused(void **state)
{
    char              line[PLAN_LINE];
    quantise_geometry g;
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        ptxpack_quantise_desc d = good;
        refusals[i].spoil(&d);
        assert_int_equal(quantise_resolve(&d, &g, line), PTXPACK_E_ARG);
        if (strncmp(line, refusals[i].line, strlen(refusals[i].line)) != 0)
            fail_msg("\"%s\" does not begin with \"%s\"", line, refusals[i].line);
    }
    assert_int_equal(quantise_resolve(NULL, &g, line), PTXPACK_E_ARG);
    assert_string_equal(line, "desc is NULL");
}

/* What is written overlaps nothing; what is read may overlap what is read. */
static void buffers_are_checked(void **state)
{
    static const struct {
        int         member; /* of x, codes, scales */
        uint64_t    address;
        const char *line, *back; /* NULL: it is fine */
    } changes[] = {
        {0, 0, "x is null", "x is null"},
        {1, 0, "codes is null", "codes is null"},
        {2, 0, "scales is null", "scales is null"},
        {1, 0x20008, "codes: address 0x20008 is not a multiple of 16 bytes",
         "codes: address 0x20008 is not a multiple of 16 bytes"},
        {2, 0x30002, "scales: address 0x30002 is not a multiple of 4 bytes",
         "scales: address 0x30002 is not a multiple of 4 bytes"},
        {2, 0x30004, NULL, NULL},
        {0, 0x1f9b0, "codes overlaps x: 0x20000 and 0x1f9b0", "codes overlaps x: 0x20000 and 0x1f9b0"},
        {0, 0x1f9a0, NULL, NULL},
        {2, 0x10000, "scales overlaps x: 0x10000 and 0x10000", "scales overlaps x: 0x10000 and 0x10000"},
        {2, 0x2032c, "scales overlaps codes: 0x2032c and 0x20000", NULL},
    };
    char              line[PLAN_LINE];
    quantise_geometry g;
    (void)state;
    assert_int_equal(quantise_resolve(&good, &g, line), PTXPACK_OK);
    for (size_t i = 0; i < 2 * sizeof changes / sizeof changes[0]; i++) {
        ptxpack_quantise_buffers b = {.size = sizeof b, .x = 0x10000, .codes = 0x20000, .scales = 0x30000};
        uint64_t                *members[] = {&b.x, &b.codes, &b.scales};
        const bool               back = i % 2 != 0;
        const char              *want = back ? changes[i / 2].back : changes[i / 2].line;
        *members[changes[i / 2].member] = changes[i / 2].address;
        assert_int_equal(quantise_check(&g, &b, back, line), want == NULL ? PTXPACK_OK : PTXPACK_E_ARG);
        if (want != NULL)
            assert_string_equal(line, want);
    }
}

static void too_many_scales_are_unsupported(void **state)
{
    ptxpack                 *handle;
    ptxpack_options          options = {.size = sizeof options, .offline = true, .no_cache = true};
    ptxpack_quantise_desc    d = good;
    ptxpack_quantise_plan   *plan;
    ptxpack_dequantise_plan *back;
    (void)state;
    d.rows = 1 << 30;
    d.options = PTXPACK_QUANTISE_BLOCKS;
    options.arch = "sm_80";
    assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_OK);
    assert_int_equal(ptxpack_quantise_plan_create(handle, &d, &plan), PTXPACK_E_UNSUPPORTED);
    assert_non_null(strstr(ptxpack_detail(handle), "counts rows 1073741824 times 3 scales only up to"));
    assert_int_equal(ptxpack_dequantise_plan_create(handle, &d, &back), PTXPACK_E_UNSUPPORTED);
    ptxpack_close(handle);
}

static void blocks_have_scales_each(void **state)
{
    char                  line[PLAN_LINE];
    quantise_geometry     g;
    ptxpack_quantise_desc d = good;
    (void)state;
    assert_int_equal(quantise_resolve(&d, &g, line), PTXPACK_OK);
    assert_true(g.parts == 1 && g.pieces == 34 && g.last == 34 && g.scale_bytes == 12);
    d.options = PTXPACK_QUANTISE_BLOCKS;
    assert_int_equal(quantise_resolve(&d, &g, line), PTXPACK_OK);
    assert_true(g.parts == 3 && g.pieces == 16 && g.last == 2 && g.scale_bytes == 36);
    d.columns = 1 << 20; /* more than a row with one scale may have */
    assert_int_equal(quantise_resolve(&d, &g, line), PTXPACK_OK);
    assert_true(g.parts == 8192 && g.last == 16);
}

/* ---- the reference ------------------------------------------------------------------------------------ */
/* The scale of rows of 16 numbers, the largest of which is `most`. */
static float scale_of(float most, uint32_t options)
{
    ptxpack_quantise_desc d = {.size = sizeof d,
                               .dtype = PTXPACK_BF16,
                               .rows = 1,
                               .columns = 16,
                               .options = options};
    uint16_t              x[16] = {0};
    uint8_t               codes[16];
    float                 scale = 0;
    x[5] = ptxpack_from_float(PTXPACK_BF16, most);
    x[6] = 0x7fff; /* NaN does not count */
    assert_true(ptxpack_to_float(PTXPACK_BF16, x[5]) == most);
    assert_int_equal(ptxpack_quantise_reference(&d, x, codes, &scale), PTXPACK_OK);
    assert_int_equal(codes[6], 0x7f);
    return scale;
}

static void scales_are_the_least(void **state)
{
    static const struct {
        float most, plain, power;
    } cases[] = {
        {0, 1, 1},
        {448, 1, 1},
        {450, 450 / 448.0f, 2},
        {-7, 7 / 448.0f, 0x1p-6f},
        {1, 1 / 448.0f, 0x1p-8f},
        {0x1.fep127f, 0x1.fep127f / 448, 0x1p120f},
        {0x1p-110f, 0x1p-110f / 448, 0x1p-118f},
        {0x1p-120f, 0x1p-126f, 0x1p-126f},
        {0x1p-133f, 0x1p-126f, 0x1p-126f},
        {-INFINITY, INFINITY, INFINITY},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_true(scale_of(cases[i].most, 0) == cases[i].plain);
        assert_true(scale_of(cases[i].most, PTXPACK_QUANTISE_POWERS) == cases[i].power);
    }
}

/* Every finite f16 as the largest of its row: with powers of two the way back gives what the code means, without a rounding. */
static void the_way_back_is_exact(void **state)
{
    ptxpack_quantise_desc d = {.size = sizeof d,
                               .dtype = PTXPACK_F16,
                               .rows = 1,
                               .columns = 16,
                               .options = PTXPACK_QUANTISE_POWERS};
    (void)state;
    for (uint16_t bits = 0; bits < 0x7b00; bits++) {
        uint16_t x[16], back[16];
        uint8_t  codes[16];
        float    scale;
        for (int i = 0; i < 16; i++)
            x[i] = (uint16_t)((i % 2 != 0 ? 0x8000 : 0) | bits >> i % 15);
        assert_int_equal(ptxpack_quantise_reference(&d, x, codes, &scale), PTXPACK_OK);
        assert_int_equal(ptxpack_dequantise_reference(&d, codes, &scale, back), PTXPACK_OK);
        for (int i = 0; i < 16; i++)
            assert_true(ptxpack_to_float(PTXPACK_F16, back[i]) ==
                        ptxpack_element(PTXPACK_E4M3, codes, (size_t)i) * scale);
    }
}

static void infinities_and_nan_stay(void **state)
{
    ptxpack_quantise_desc d = {.size = sizeof d, .dtype = PTXPACK_F16, .rows = 2, .columns = 16};
    uint16_t              x[32] = {[0] = 0x3c00, [1] = 0xfc00, [16] = 0x7c01, [17] = 0x3c00}, back[32];
    uint8_t               codes[32];
    float                 scales[2];
    (void)state;
    assert_int_equal(ptxpack_quantise_reference(&d, x, codes, scales), PTXPACK_OK);
    assert_true(isinf(scales[0]) && codes[0] == 0 && codes[1] == 0x7f);
    assert_true(scales[1] == 1 / 448.0f && codes[16] == 0x7f && codes[17] == 0x7e && codes[18] == 0);
    assert_int_equal(ptxpack_dequantise_reference(&d, codes, scales, back), PTXPACK_OK);
    for (int i = 0; i <= 16; i++) /* every element of an infinite row */
        assert_int_equal(back[i], 0x7fff);
    assert_int_equal(back[17], 0x3c00);
    scales[0] = 2e5f; /* beyond f16 */
    codes[0] = 0xb8;  /* -1 */
    assert_int_equal(ptxpack_dequantise_reference(&d, codes, scales, back), PTXPACK_OK);
    assert_int_equal(back[0], 0xfc00);
    assert_int_equal(ptxpack_dequantise_reference(&d, NULL, scales, back), PTXPACK_E_ARG);
    assert_string_equal(ptxpack_detail(NULL), "codes is NULL");
    assert_int_equal(ptxpack_quantise_reference(&d, x, codes, NULL), PTXPACK_E_ARG);
    assert_string_equal(ptxpack_detail(NULL), "scales is NULL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_descriptors_are_refused),
        cmocka_unit_test(buffers_are_checked),
        cmocka_unit_test(too_many_scales_are_unsupported),
        cmocka_unit_test(blocks_have_scales_each),
        cmocka_unit_test(scales_are_the_least),
        cmocka_unit_test(the_way_back_is_exact),
        cmocka_unit_test(infinities_and_nan_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
