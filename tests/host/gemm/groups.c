/* groups.c - products of groups of rows on the host: what is refused with which line, addresses, tiles, the choice of a row, and
 * the reference against sums that are worked out here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "host/gemm/inspect.h"
#include "loader/loader.h"
#include "refusals.h"
#include "tests/support/offline.h"

static const ptxpack_gemm_desc good = {.size = sizeof(ptxpack_gemm_desc),
                                       .dtype = PTXPACK_BF16,
                                       .m = 1000,
                                       .n = 528,
                                       .k = 320,
                                       .order_b = PTXPACK_COLUMN_MAJOR,
                                       .has_bias = true,
                                       .groups = 6};

/* ---- descriptors -------------------------------------------------------------------------------------- */
static void what_groups_do_not_have_is_named(void **state)
{
    (void)state;
    REFUSED("groups is -1, not between 0 and 1048576", d.groups = -1);
    REFUSED("groups is 1048577", d.groups = PTXPACK_GEMM_GROUPS + 1);
    REFUSED("batch is 2: groups of rows have no batch", d.batch = 2);
    REFUSED("order_a: groups of rows want a row-major A", d.order_a = PTXPACK_COLUMN_MAJOR);
    REFUSED("order_b: groups of rows want a column-major B", d.order_b = PTXPACK_ROW_MAJOR);
    REFUSED("dtype_ab: groups of rows want an A of dtype", d.dtype_ab = PTXPACK_E4M3);
    REFUSED("dtype_ab: groups of rows want an A of dtype", d.dtype_ab = d.dtype_b = PTXPACK_E4M3);
    REFUSED("scales: only PTXPACK_E4M3 has any", d.scales = PTXPACK_SCALES_LINES);
    REFUSED("batch_b: 328 is not a multiple of 16", d.batch_b = 328, d.dtype_b = PTXPACK_E4M3);
    REFUSED("has_c: there is no C with groups of rows", d.has_c = true);
    REFUSED("batch_b: -1 is negative", d.batch_b = -1);
    REFUSED("batch_b: 12 is not a multiple of 8", d.batch_b = 12);
    REFUSED("n is 520, with SwiGLU", d.n = 520, d.activation = PTXPACK_ACTIVATION_SWIGLU);
    REFUSED("b: its strides span", d.batch_b = INT64_C(1) << 45, d.groups = PTXPACK_GEMM_GROUPS);
}

static void each_group_has_a_b_and_a_bias(void **state)
{
    (void)state;
    ptxpack_gemm_desc d = good;
    gemm_geometry     g;
    char              line[PLAN_LINE];
    assert_int_equal(ptxpack_gemm_resolve(&d, &g, line), PTXPACK_OK);
    assert_int_equal(g.batch, 1);
    assert_int_equal(g.groups, 6);
    assert_int_equal(g.bias_bytes, 6 * 528 * 2);
    assert_int_equal(g.matrix[GEMM_A].bytes, 1000 * 320 * 2);
    assert_int_equal(g.matrix[GEMM_B].batch, 528 * 320);
    assert_int_equal(g.matrix[GEMM_B].bytes, 6 * 528 * 320 * 2);
    assert_int_equal(g.matrix[GEMM_D].bytes, 1000 * 528 * 2);
    d.batch_b = 528 * 320 + 8;
    d.activation = PTXPACK_ACTIVATION_SWIGLU;
    d.batch = 1;
    assert_int_equal(ptxpack_gemm_resolve(&d, &g, line), PTXPACK_OK);
    assert_int_equal(g.matrix[GEMM_B].bytes, (6 * 528 * 320 + 5 * 8) * 2);
    assert_int_equal(g.matrix[GEMM_D].bytes, 1000 * 264 * 2);
}

/* Of the six; 320 k are three blocks of 128, and 528 columns five. */
static void each_group_has_scales(void **state)
{
    (void)state;
    static const uint64_t floats[] = {1, 6 * 528, 6 * 5 * 3};
    for (int kind = PTXPACK_SCALES_TENSOR; kind <= PTXPACK_SCALES_BLOCKS; kind++) {
        ptxpack_gemm_desc d = good;
        gemm_geometry     g;
        char              line[PLAN_LINE];
        d.dtype_b = PTXPACK_E4M3;
        d.scales = (ptxpack_gemm_scales)kind;
        assert_int_equal(ptxpack_gemm_resolve(&d, &g, line), PTXPACK_OK);
        assert_int_equal(g.matrix[GEMM_B].bytes, 6 * 528 * 320);
        assert_int_equal(g.scale[GEMM_B].bytes, floats[kind] * sizeof(float));
        assert_int_equal(g.scale[GEMM_B].batch, kind == PTXPACK_SCALES_TENSOR ? 0 : floats[kind] / 6);
        assert_int_equal(g.scale[GEMM_A].bytes, 0);
    }
}

static void starts_have_an_address(void **state)
{
    (void)state;
    gemm_geometry g;
    char          line[PLAN_LINE];
    assert_int_equal(ptxpack_gemm_resolve(&good, &g, line), PTXPACK_OK);
    const ptxpack_gemm_buffers fine = {.size = sizeof fine,
                                       .a = 0x1000000,
                                       .b = 0x2000000,
                                       .d = 0x4000000,
                                       .bias = 0x5000000,
                                       .group_starts = 0x6000004};
    const struct {
        uint64_t    starts;
        const char *words;
    } wrong[] = {
        {0, "group_starts is null"},
        {0x6000002, "group_starts: address 0x6000002 is not a multiple of 4 bytes"},
        {0x4000000 - 24, "d overlaps group_starts"}, /* the seventh of seven */
        {0x4000000 + 1000 * 528 * 2 - 4, "d overlaps group_starts"},
    };
    assert_int_equal(ptxpack_gemm_check_buffers(&g, &fine, line), PTXPACK_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ptxpack_gemm_buffers b = fine;
        b.group_starts = wrong[i].starts;
        assert_int_equal(ptxpack_gemm_check_buffers(&g, &b, line), PTXPACK_E_ARG);
        expect_line(line, wrong[i].words);
    }
    ptxpack_gemm_buffers b = fine;
    b.group_starts = 0x4000000 - 28;
    assert_int_equal(ptxpack_gemm_check_buffers(&g, &b, line), PTXPACK_OK);
    b.group_starts = 0;
    g.groups = 0;
    assert_int_equal(ptxpack_gemm_check_buffers(&g, &b, line), PTXPACK_OK);
}

/* ---- tiles -------------------------------------------------------------------------------------------- */
/* All sizes of three groups, counted. */
static void no_sizes_have_more_tiles(void **state)
{
    enum { ROWS = 11, HEIGHT = 4 };
    (void)state;
    for (int32_t rows = 1; rows <= ROWS; rows++) {
        int32_t most = 0;
        for (int32_t first = 0; first <= rows; first++)
            for (int32_t second = 0; first + second <= rows; second++) {
                const int32_t sizes[] = {first, second, rows - first - second};
                int32_t       tiles = 0;
                for (int g = 0; g < 3; g++)
                    tiles += (sizes[g] + HEIGHT - 1) / HEIGHT;
                most = tiles > most ? tiles : most;
            }
        assert_int_equal((int32_t)gemm_groups_most_tiles(3, rows, HEIGHT), most);
        assert_true(gemm_groups_usual_tiles(3, rows, HEIGHT) <= most + 0.5);
        assert_true(gemm_groups_usual_tiles(3, rows, HEIGHT) >= (double)rows / HEIGHT);
    }
}

/* ---- the choice --------------------------------------------------------------------------------------- */
static void expect_row(ptxpack *handle, ptxpack_gemm_desc d, int32_t m, int32_t groups, const char *id)
{
    const ptxpack_variant *row;
    d.m = m;
    d.groups = groups;
    if (plan_row_of(&gemm_op, handle, NULL, &d, &row) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(handle));
    if (strcmp(row->id, id) != 0)
        fail_msg("%d rows of %d groups take %s, not %s", (int)m, (int)groups, row->id, id);
}

/* By the rows that a group has on average. */
static void few_rows_take_low_tiles(void **state)
{
    (void)state;
    ptxpack_gemm_desc d = good;
    d.n = 14336;
    d.k = 4096;
    ptxpack *handle = open_offline("sm_90a");
    expect_row(handle, d, 16384, 8, "gemm_wgmma_sm90_groups_128x256");
    expect_row(handle, d, 16384, 1, "gemm_wgmma_sm90_groups_128x256_2x1");
    expect_row(handle, d, 64, 8, "gemm_wgmma_sm90_groups_64x128");
    d.n = 1536; /* too few tiles for all SMs */
    expect_row(handle, d, 8, 128, "gemm_wgmma_sm90_groups_64x64");
    d.activation = PTXPACK_ACTIVATION_SWIGLU;
    d.n = 14336;
    expect_row(handle, d, 64, 8, "gemm_wgmma_sm90_groups_64x128");
    d.activation = PTXPACK_ACTIVATION_NONE;
    d.n = 43; /* whose rows TMA cannot store */
    d.stride_d = 48;
    expect_row(handle, d, 64, 8, "gemm_mma_sm80_groups_16x64x64");
    ptxpack_close(handle);
    handle = open_offline("sm_80");
    d.n = 4096;
    d.stride_d = 0;
    expect_row(handle, d, 16384, 8, "gemm_mma_sm80_groups_128x128x32");
    expect_row(handle, d, 300, 8, "gemm_mma_sm80_groups_64x64x64");
    expect_row(handle, d, 64, 8, "gemm_mma_sm80_groups_16x64x64");
    ptxpack_close(handle);
    handle = open_offline("sm_75");
    d.dtype = PTXPACK_F16;
    expect_row(handle, d, 16384, 8, "gemm_mma_sm75_groups_64x64x32");
    expect_row(handle, d, 64, 64, "gemm_mma_sm75_groups_16x64x64");
    ptxpack_close(handle);
}

/* A B of e4m3 takes low tiles unless groups have about as many rows as a high one. */
static void a_b_of_e4m3_takes_rows_of_its_own(void **state)
{
    (void)state;
    ptxpack_gemm_desc d = good;
    d.dtype_b = PTXPACK_E4M3;
    ptxpack *handle = open_offline("sm_90a");
    expect_row(handle, d, 8, 128, "gemm_rows_e4m3_sm90_groups_8x16");
    expect_row(handle, d, 64, 8, "gemm_rows_e4m3_sm90_groups_8x16");
    expect_row(handle, d, 256, 8, "gemm_rows_e4m3_sm90_groups_32x32");
    expect_row(handle, d, 16384, 8, "gemm_rows_e4m3_sm90_groups_32x32");
    ptxpack_close(handle);
    handle = open_offline("sm_89");
    expect_row(handle, d, 8, 128, "gemm_rows_e4m3_sm80_groups_8x16");
    expect_row(handle, d, 16384, 8, "gemm_rows_e4m3_sm80_groups_32x32");
    ptxpack_close(handle);
    handle = open_offline("sm_75");
    ptxpack_gemm_plan *plan;
    d.dtype = PTXPACK_F16;
    assert_int_equal(ptxpack_gemm_plan_create(handle, &d, &plan), PTXPACK_E_UNSUPPORTED);
    expect_line(ptxpack_detail(handle), "dtype f16, dtype_b e4m3, groups");
    ptxpack_close(handle);
}

/* Rows for groups take nothing else, and nothing else takes groups. */
static void groups_have_rows_of_their_own(void **state)
{
    (void)state;
    ptxpack               *handle = open_offline("sm_90a");
    size_t                 count, taken = 0;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    char                   line[PLAN_LINE];
    for (size_t i = 0; i < count; i++) {
        ptxpack_gemm_desc d = good;
        if (strcmp(rows[i].op, "gemm") != 0 || !plan_row_takes(&rows[i], PTXPACK_BF16))
            continue;
        const bool b_alone = gemm_takes_b_alone(&rows[i]);
        if (b_alone || !gemm_is_of_groups(&rows[i])) {
            assert_non_null(plan_row_refusal(&gemm_op, handle, NULL, &d, &rows[i], line));
            assert_string_equal(line, "does not cover dtype bf16, groups");
        }
        if (!gemm_is_of_groups(&rows[i]))
            continue;
        d.dtype_b = b_alone ? PTXPACK_E4M3 : (ptxpack_dtype)0;
        assert_null(plan_row_refusal(&gemm_op, handle, NULL, &d, &rows[i], line));
        d.groups = 0;
        assert_non_null(plan_row_refusal(&gemm_op, handle, NULL, &d, &rows[i], line));
        assert_string_equal(line,
                            b_alone ? "does not cover dtype bf16, dtype_b e4m3" : "does not cover dtype bf16");
        taken++;
    }
    assert_true(taken > 0);
    ptxpack_close(handle);
}

static void expect_row_refusal(ptxpack *handle, const char *id, const ptxpack_gemm_desc *d, const char *words)
{
    char line[PLAN_LINE];
    assert_non_null(plan_row_refusal(&gemm_op, handle, NULL, d, ptxpack_variant_find(id), line));
    assert_string_equal(line, words);
}

static void what_a_row_cannot_do_is_told(void **state)
{
    (void)state;
    ptxpack          *handle = open_offline("sm_90a");
    ptxpack_gemm_desc d = good;
    d.n = 43;
    d.stride_d = 48;
    expect_row_refusal(handle, "gemm_wgmma_sm90_groups_128x256", &d, "n is 43, no multiple of 8");
    d = good;
    d.activation = PTXPACK_ACTIVATION_SWIGLU;
    expect_row_refusal(handle, "gemm_wgmma_sm90_groups_64x64", &d, "activation: has no SwiGLU");
    d = good;
    d.m = 1 << 30;
    expect_row_refusal(handle, "gemm_wgmma_sm90_groups_64x64", &d,
                       "m is 1073741824, 2^30 or more, for groups too many");
    d = good;
    d.stride_d = INT64_C(1) << 33;
    expect_row_refusal(handle, "gemm_wgmma_sm90_groups_64x64", &d,
                       "stride_d: 8589934592 elements are 2^34 bytes or more");
    d = good;
    d.m = 1 << 30;
    d.n = 4096;
    expect_row_refusal(handle, "gemm_mma_sm80_groups_16x64x64", &d,
                       "m 1073741824, n 4096, batch 1 are 4294967616 tiles, more than 1073741823");
    static const char id[] = "gemm_rows_e4m3_sm80_groups_32x32";
    d = good;
    d.dtype_b = PTXPACK_E4M3;
    d.k = 328;
    d.stride_b = 336;
    d.batch_b = 528 * 336;
    expect_row_refusal(handle, id, &d, "k is 328, no multiple of 16");
    d = good;
    d.dtype_b = PTXPACK_E4M3;
    d.n = 43;
    d.stride_d = 48;
    expect_row_refusal(handle, id, &d, "n is 43, no multiple of 8");
    d.n = 4096;
    d.stride_d = 0;
    d.m = 1 << 30;
    expect_row_refusal(handle, id, &d, "m 1073741824, n 4096 are 4294967936 tiles, more than 2147483647");
    d.m = INT32_MAX;
    expect_row_refusal(handle, id, &d, "takes extents up to 2147418111");
    ptxpack_close(handle);
}

/* ---- the map of D ------------------------------------------------------------------------------------- */
/* The address of row i of a group, as TMA computes it, modulo 2^64; it does not store rows from the group's end on. */
static void rows_end_where_the_group_does(void **state)
{
    (void)state;
    gemm_geometry   g;
    char            line[PLAN_LINE];
    ptxpack_tma_box box = {.status = PTXPACK_OK};
    assert_int_equal(ptxpack_gemm_resolve(&good, &g, line), PTXPACK_OK);
    assert_int_equal(ptxpack_gemm_wgmma_map(&good, &g, GEMM_D, &box), PTXPACK_OK);
    assert_int_equal(box.rank, 5);
    const uint64_t start = 300, end = 428;
    for (uint64_t row = start; row < end + 20; row++) {
        const uint64_t at[] = {GEMM_GROUP_ROWS - (end - start) + (row - start), 0, end, GEMM_GROUP_ROWS};
        uint64_t       address = 0;
        for (int i = 0; i < 4; i++)
            address += at[i] * box.global_strides[i];
        assert_int_equal(address, row * 528 * 2);
        assert_int_equal(at[0] < box.global_dim[1], row < end);
        assert_true(at[2] < box.global_dim[3] && at[3] < box.global_dim[4]);
    }
    assert_int_equal(ptxpack_gemm_wgmma_map(&good, &g, GEMM_B, &box), PTXPACK_OK);
    assert_int_equal(box.global_dim[2], 6);
}

/* ---- the reference ------------------------------------------------------------------------------------ */
/* Row r of A is r + 1, B of group g is 10^g in column 0 and twice that in column 1, its bias 100 g and 0.  Group 1 has no rows. */
static void the_reference_takes_the_group_of_each_row(void **state)
{
    enum { M = 5, N = 2, GROUPS = 3 };
    (void)state;
    const int32_t           starts[GROUPS + 1] = {0, 2, 2, 4};
    const ptxpack_gemm_desc d = {.size = sizeof d,
                                 .dtype = PTXPACK_F16,
                                 .m = M,
                                 .n = N,
                                 .k = 1,
                                 .order_b = PTXPACK_COLUMN_MAJOR,
                                 .stride_a = 8,
                                 .stride_b = 8,
                                 .batch_b = 16,
                                 .stride_d = 8,
                                 .has_bias = true,
                                 .groups = GROUPS};
    uint16_t                a[8 * M] = {0}, b[16 * GROUPS] = {0}, bias[N * GROUPS] = {0};
    gemm_row                rows[4];
    double                  value[4 * N], error[4 * N];
    gemm_reference         *reference;
    const gemm_inputs       inputs = {.a = a, .b = b, .bias = bias, .alpha = 1, .group_starts = starts};
    for (int i = 0; i < M; i++)
        ptxpack_set_element(PTXPACK_F16, a, 8 * (size_t)i, (float)(i + 1));
    for (int g = 0; g < GROUPS; g++) {
        const float power = g == 0 ? 1 : g == 1 ? 10 : 100;
        ptxpack_set_element(PTXPACK_F16, b, 16 * (size_t)g, power);
        ptxpack_set_element(PTXPACK_F16, b, 16 * (size_t)g + 8, 2 * power);
        ptxpack_set_element(PTXPACK_F16, bias, N * (size_t)g, 100 * (float)g);
    }
    for (int i = 0; i < 4; i++)
        rows[i] = (gemm_row){0, i};
    assert_int_equal(gemm_reference_open(&d, &inputs, &reference), PTXPACK_OK);
    assert_int_equal(gemm_reference_rows(reference, rows, 4, 1, value, error), PTXPACK_OK);
    gemm_reference_close(reference);
    const double want[] = {1, 2, 2, 4, 300 + 200, 600, 400 + 200, 800};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        assert_true(value[i] == want[i]);
}

/* Each of the columns is 1 at k = 0 and at k = 128, which is the next block, in all groups; the scales differ. */
static void the_reference_takes_the_scales_of_each_group(void **state)
{
    enum { N = 16, K = 144, GROUPS = 2, BLOCKS = 2, ONE = 0x38 };
    (void)state;
    static const int32_t starts[GROUPS + 1] = {0, 1, 2};
    static uint16_t      a[2 * K];
    static uint8_t       b[GROUPS * N * K];
    static float         scales[GROUPS * N];
    const gemm_inputs    inputs = {.a = a, .b = b, .alpha = 1, .scale_b = scales, .group_starts = starts};
    const gemm_row       rows[2] = {{0, 0}, {0, 1}};
    for (size_t i = 0; i < GROUPS * N; i++) {
        scales[i] = (float)(i + 1);
        b[i * K] = b[i * K + PTXPACK_SCALE_BLOCK] = ONE;
    }
    for (size_t i = 0; i < 2 * (size_t)K; i++)
        ptxpack_set_element(PTXPACK_BF16, a, i, 1);
    for (int kind = PTXPACK_SCALES_LINES; kind <= PTXPACK_SCALES_BLOCKS; kind++) {
        const ptxpack_gemm_desc d = {.size = sizeof d,
                                     .dtype = PTXPACK_BF16,
                                     .m = 2,
                                     .n = N,
                                     .k = K,
                                     .order_b = PTXPACK_COLUMN_MAJOR,
                                     .scales = (ptxpack_gemm_scales)kind,
                                     .groups = GROUPS,
                                     .dtype_b = PTXPACK_E4M3};
        gemm_reference         *reference;
        double                  value[2 * N], error[2 * N];
        assert_int_equal(gemm_reference_open(&d, &inputs, &reference), PTXPACK_OK);
        assert_int_equal(gemm_reference_rows(reference, rows, 2, 1, value, error), PTXPACK_OK);
        gemm_reference_close(reference);
        for (int i = 0; i < 2 * N; i++)
            assert_true(value[i] == (kind == PTXPACK_SCALES_LINES ? 2 * (i + 1) : i < N ? 1 + 2 : 3 + 4));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_groups_do_not_have_is_named),
        cmocka_unit_test(each_group_has_a_b_and_a_bias),
        cmocka_unit_test(each_group_has_scales),
        cmocka_unit_test(starts_have_an_address),
        cmocka_unit_test(no_sizes_have_more_tiles),
        cmocka_unit_test(few_rows_take_low_tiles),
        cmocka_unit_test(a_b_of_e4m3_takes_rows_of_its_own),
        cmocka_unit_test(groups_have_rows_of_their_own),
        cmocka_unit_test(what_a_row_cannot_do_is_told),
        cmocka_unit_test(rows_end_where_the_group_does),
        cmocka_unit_test(the_reference_takes_the_group_of_each_row),
        cmocka_unit_test(the_reference_takes_the_scales_of_each_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
