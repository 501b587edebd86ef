/* plan.c - GEMM plans on the rows of ptx/gemm/mma.ptx, through tests/fake/loader.c: the chosen row, its
 * arguments, and what is refused with which line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "host/gemm/inspect.h"
#include "host/plan/quotient.h"
#include "loader/loader.h"

static const ptxpack_gemm_desc good =
    {.size = sizeof(ptxpack_gemm_desc), .dtype = PTXPACK_BF16, .m = 1000, .n = 520, .k = 328, .batch = 3};

static ptxpack *open_mock(const char *arch)
{
    ptxpack        *handle;
    ptxpack_options options = {.size = sizeof options, .arch = arch};
    assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_OK);
    return handle;
}

static void expect_line(const char *line, const char *words)
{
    if (strstr(line, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", line, words);
}

/* ---- refusals ----------------------------------------------------------------------------------- */
static void refuse_plan(ptxpack *handle, ptxpack_status status, ptxpack_gemm_desc d, const char *words)
{
    ptxpack_gemm_plan *plan = (ptxpack_gemm_plan *)(uintptr_t)1;
    assert_int_equal(ptxpack_gemm_plan_create(handle, &d, &plan), status);
    assert_null(plan);
    expect_line(ptxpack_detail(handle), words);
}
#define REFUSED(status, words, ...)            \
    do {                                       \
        ptxpack_gemm_desc d = good;            \
        __VA_ARGS__;                           \
        refuse_plan(handle, status, d, words); \
    } while (0)

static void bad_fields_are_named(void **state)
{
    (void)state;
    ptxpack *handle = open_mock("sm_80");
    REFUSED(PTXPACK_E_ARG, "desc.size", d.size--);
    REFUSED(PTXPACK_E_ARG, "dtype", d.dtype = PTXPACK_E4M3);
    REFUSED(PTXPACK_E_ARG, "m is 0", d.m = 0);
    REFUSED(PTXPACK_E_ARG, "n is -1", d.n = -1);
    REFUSED(PTXPACK_E_ARG, "k is -1", d.k = -1);
    REFUSED(PTXPACK_E_ARG, "batch is -1", d.batch = -1);
    REFUSED(PTXPACK_E_ARG, "order_a", d.order_a = (ptxpack_order)2);
    REFUSED(PTXPACK_E_ARG, "order_b", d.order_b = (ptxpack_order)2);
    REFUSED(PTXPACK_E_ARG, "activation", d.activation = (ptxpack_activation)5);
    REFUSED(PTXPACK_E_ARG, "n is ", d.activation = PTXPACK_ACTIVATION_SWIGLU, d.n = 520);
    REFUSED(PTXPACK_E_ARG, "has_c", d.activation = PTXPACK_ACTIVATION_SWIGLU, d.n = 512, d.has_c = true);
    REFUSED(PTXPACK_E_ARG, "stride_a", d.stride_a = 331);
    REFUSED(PTXPACK_E_ARG, "stride_b", d.stride_b = 512);
    REFUSED(PTXPACK_E_ARG, "stride_c", d.has_c = true, d.stride_c = 8);
    REFUSED(PTXPACK_E_ARG, "stride_d", d.stride_d = 521);
    REFUSED(PTXPACK_E_ARG, "batch_a", d.batch_a = 12);
    REFUSED(PTXPACK_E_ARG, "batch_b", d.batch_b = -2);
    REFUSED(PTXPACK_E_ARG, "batch_d", d.batch_d = 8);
    REFUSED(PTXPACK_E_ARG, "batch_d", d.batch_d = -1);
    REFUSED(PTXPACK_E_ARG, "batch_d: 519992 makes matrices overlap", d.batch_d = 999 * 520 + 512);
    assert_int_equal(ptxpack_gemm_plan_create(handle, NULL, &(ptxpack_gemm_plan *){NULL}), PTXPACK_E_ARG);
    assert_int_equal(ptxpack_gemm_plan_create(handle, &good, NULL), PTXPACK_E_ARG);
    assert_int_equal(ptxpack_gemm_plan_create(NULL, &good, &(ptxpack_gemm_plan *){NULL}), PTXPACK_E_ARG);
    ptxpack_close(handle);
}

/* Problems that are valid, but too large for 32-bit registers of the kernel, or for this device. */
static void what_no_row_covers_is_told(void **state)
{
    (void)state;
    ptxpack *handle = open_mock("sm_80");
    REFUSED(PTXPACK_E_UNSUPPORTED, "stride_a: 1073741824 exceeds", d.stride_a = 1 << 30);
    REFUSED(PTXPACK_E_UNSUPPORTED, "stride_d", d.stride_d = INT64_C(1) << 31);
    REFUSED(PTXPACK_E_UNSUPPORTED, "k is 2147483640", d.m = d.n = 8, d.k = INT32_MAX - 7, d.batch = 1,
            d.order_a = PTXPACK_COLUMN_MAJOR);
    REFUSED(PTXPACK_E_UNSUPPORTED, "tiles", d.m = d.n = 1 << 29, d.batch = 1, d.k = 8);
    ptxpack_close(handle);
    handle = open_mock("sm_75");
    REFUSED(PTXPACK_E_UNSUPPORTED, "no gemm kernel for dtype bf16", d.k = 8);
    ptxpack_close(handle);
}

/* tanh.approx came with PTX ISA 7.0, and rows for sm_75 run on drivers that know less. */
static void gelu_needs_a_newer_isa_than_its_row(void **state)
{
    (void)state;
    ptxpack               *handle = open_mock("sm_75");
    const ptxpack_variant *row = ptxpack_variant_find("gemm_mma_sm75_128x128x32");
    ptxpack_device_caps    caps = ptxpack_device(handle)->caps;
    ptxpack_gemm_desc      d = good;
    char                   line[PLAN_LINE];
    d.dtype = PTXPACK_F16;
    d.activation = PTXPACK_ACTIVATION_SILU;
    caps.isa = 65;
    assert_null(plan_row_refusal(&gemm_op, handle, &caps, &d, row, line));
    d.activation = PTXPACK_ACTIVATION_GELU;
    assert_string_equal(plan_row_refusal(&gemm_op, handle, &caps, &d, row, line),
                        "activation: GELU needs PTX ISA 7.0, and here it is 6.5");
    caps.isa = 70;
    assert_null(plan_row_refusal(&gemm_op, handle, &caps, &d, row, line));
    ptxpack_close(handle);
}

static void bad_addresses_are_named(void **state)
{
    (void)state;
    ptxpack           *handle = open_mock("sm_80");
    ptxpack_gemm_plan *plan;
    ptxpack_gemm_desc  desc = good;
    desc.has_c = desc.has_bias = true;
    assert_int_equal(ptxpack_gemm_plan_create(handle, &desc, &plan), PTXPACK_OK);
    assert_int_equal(ptxpack_gemm_workspace(plan), 0);
    const ptxpack_gemm_buffers fine = {.size = sizeof fine,
                                       .alpha = 1,
                                       .beta = 1,
                                       .a = 0x10000000,
                                       .b = 0x20000000,
                                       .c = 0x30000000,
                                       .d = 0x40000000,
                                       .bias = 0x50000000};
    const struct {
        size_t      member;
        uint64_t    address;
        const char *words;
    } bad[] = {
        {offsetof(ptxpack_gemm_buffers, a), 0, "a is null"},
        {offsetof(ptxpack_gemm_buffers, b), 0x20000008, "b: address 0x20000008"},
        {offsetof(ptxpack_gemm_buffers, bias), 0, "bias is null"},
        {offsetof(ptxpack_gemm_buffers, c), fine.d + 16, "d overlaps c"},
        {offsetof(ptxpack_gemm_buffers, d), fine.a, "d overlaps a"},
        {offsetof(ptxpack_gemm_buffers, d), UINT64_MAX - 15, "d"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ptxpack_gemm_buffers b = fine;
        memcpy((char *)&b + bad[i].member, &bad[i].address, sizeof bad[i].address);
        assert_int_equal(ptxpack_gemm_launch(plan, &b, NULL), PTXPACK_E_ARG);
        expect_line(ptxpack_detail(handle), bad[i].words);
    }
    assert_int_equal(ptxpack_gemm_launch(plan, NULL, NULL), PTXPACK_E_ARG);
    assert_int_equal(ptxpack_gemm_launch(NULL, &fine, NULL), PTXPACK_E_ARG);
    ptxpack_gemm_plan_free(plan);
    ptxpack_close(handle);
}

/* D may take the place of C where each of its elements lies where the same element of C does. */
static void c_may_be_in_place_of_d(void **state)
{
    static const struct {
        int64_t stride, batch;
        bool    fits;
    } cases[] = {{520, 520000, true},
                 {0, 0, true},
                 {528, 520000, false},
                 {520, 520008, false},
                 {520, -1, false}};
    (void)state;
    const ptxpack_gemm_buffers b =
        {.size = sizeof b, .alpha = 1, .beta = 1, .a = 1 << 28, .b = 2 << 28, .c = 3 << 28, .d = 3 << 28};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ptxpack_gemm_desc d = good;
        gemm_geometry     g;
        char              line[PLAN_LINE];
        d.has_c = true;
        d.stride_c = cases[i].stride;
        d.batch_c = cases[i].batch;
        assert_int_equal(ptxpack_gemm_resolve(&d, &g, line), PTXPACK_OK);
        assert_int_equal(ptxpack_gemm_check_buffers(&g, &b, line), cases[i].fits ? PTXPACK_OK : PTXPACK_E_ARG);
        if (!cases[i].fits)
            expect_line(line, "d overlaps c");
    }
}

/* ---- the choice --------------------------------------------------------------------------------- */
static const char *chosen(ptxpack *handle, ptxpack_gemm_desc d)
{
    ptxpack_gemm_plan *plan;
    if (ptxpack_gemm_plan_create(handle, &d, &plan) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(handle));
    const char *id = ptxpack_kernel_describe(ptxpack_gemm_kernel(plan))->variant->id;
    ptxpack_gemm_plan_free(plan);
    return id;
}

/* Tiles that fill the device are chosen before tiles that are faster on a full device. */
static void small_problems_take_small_tiles(void **state)
{
    (void)state;
    ptxpack          *handle = open_mock("sm_80");
    ptxpack_gemm_desc d = good;
    d.m = d.n = d.k = 512;
    d.batch = 1;
    assert_string_equal(chosen(handle, d), "gemm_mma_sm80_64x64x64");
    d.m = d.n = d.k = 8192;
    assert_true(strncmp(chosen(handle, d), "gemm_mma_sm80_128x", 18) == 0);
    ptxpack_close(handle);
    handle = open_mock("sm_75");
    d.dtype = PTXPACK_F16;
    assert_string_equal(chosen(handle, d), "gemm_mma_sm75_128x128x32");
    d.m = d.n = 512;
    assert_string_equal(chosen(handle, d), "gemm_mma_sm75_64x64x32");
    ptxpack_close(handle);
}

/* ---- arguments ---------------------------------------------------------------------------------- */
static void the_arguments_are_those_of_the_problem(void **state)
{
    (void)state;
    ptxpack               *handle = open_mock("sm_80");
    ptxpack_gemm_plan     *plan;
    gemm_arguments         arguments;
    uint32_t               grid[3];
    ptxpack_gemm_desc      d = good;
    const ptxpack_variant *row = ptxpack_variant_find("gemm_mma_sm80_128x256x32");
    d.order_a = d.order_b = PTXPACK_COLUMN_MAJOR;
    d.has_c = true;
    d.stride_b = 336;
    d.batch_a = -1;
    assert_int_equal(ptxpack_gemm_plan_row(handle, &d, row, &plan), PTXPACK_OK);
    const ptxpack_gemm_buffers b =
        {.size = sizeof b, .alpha = 3, .beta = 4, .a = 16, .b = 32, .c = 48, .d = 64};
    assert_int_equal(plan_arguments(&plan->head, &b, &arguments, grid), PTXPACK_OK);
    const gemm_mma_arguments *g = &arguments.mma;
    assert_int_equal(g->a, 16);
    assert_int_equal(g->b, 32);
    assert_int_equal(g->c, 48);
    assert_int_equal(g->d, 64);
    assert_true(g->alpha == 3 && g->beta == 4);
    assert_int_equal(g->a_line, 1000 * 2); /* lines of a column-major A are columns */
    assert_int_equal(g->b_line, 336 * 2);
    assert_int_equal(g->c_line, 520 * 2);
    assert_int_equal(g->d_line, 520 * 2);
    assert_int_equal(g->a_batch, 0);
    assert_int_equal(g->b_batch, (519 * 336 + 328) * 2);
    assert_int_equal(g->d_batch, 1000 * 520 * 2);
    assert_int_equal(g->m, 1000);
    assert_int_equal(g->n, 520);
    assert_int_equal(g->k, 328);
    assert_int_equal(g->blocks, 11); /* of 32 */
    assert_int_equal(g->tiles_m, 8); /* of 128 */
    assert_int_equal(g->matrix_tiles, 8 * 3);
    assert_in_range(g->group_m, 1, 8);
    assert_int_equal(g->group_tiles, g->group_m * 3);
    assert_int_equal(grid[0], 3 * 8 * 3);
    assert_int_equal(grid[1], 1);
    ptxpack_gemm_plan_free(plan);
    ptxpack_close(handle);
}

/* What ptx/gemm/matrix_tile.ptx makes of a tile's number: group by group, in a group column by column. */
static void check_tile_order(int32_t tiles_m, int32_t tiles_n, int32_t group)
{
    const gemm_tile_order o = gemm_order_tiles(tiles_m, tiles_n, group);
    uint32_t              number = 0;
    for (int32_t batch = 0; batch < 2; batch++)
        for (int32_t first = 0; first < tiles_m; first += group) {
            const int32_t rows = tiles_m - first < group ? tiles_m - first : group;
            const bool    last = rows < group;
            for (int32_t column = 0; column < tiles_n; column++)
                for (int32_t row = 0; row < rows; row++, number++) {
                    const uint32_t of_batch = quotient(number, o.matrix_tiles_inverse, o.matrix_tiles_shift);
                    const uint32_t in_matrix = number - of_batch * (uint32_t)o.matrix_tiles;
                    const uint32_t above = quotient(in_matrix, o.group_tiles_inverse, o.group_tiles_shift);
                    const uint32_t within = in_matrix - above * (uint32_t)o.group_tiles;
                    assert_int_equal(of_batch, batch);
                    assert_int_equal(above * (uint32_t)o.group_m, first);
                    assert_int_equal(quotient(within, last ? o.last_m_inverse : o.group_m_inverse,
                                              last ? o.last_m_shift : o.group_m_shift),
                                     column);
                }
        }
}

static void tiles_are_found_without_divisions(void **state)
{
    (void)state;
    for (int32_t tiles_m = 1; tiles_m < 20; tiles_m++)
        for (int32_t group = 1; group <= tiles_m; group++)
            check_tile_order(tiles_m, tiles_m % 7 + 1, group);
    check_tile_order(511, 257, 12);
    check_tile_order(64, 3, 64);
    gemm_order_tiles(0, 5, 1); /* of no rows: nothing is divided by 0 */
}

/* The rows of tiles that are computed together form about a square with their columns. */
static void groups_are_about_square(void **state)
{
    (void)state;
    ptxpack           *handle = open_mock("sm_80");
    ptxpack_gemm_plan *plan;
    ptxpack_gemm_desc  d = good;
    d.m = d.n = 8192;
    d.batch = 1;
    assert_int_equal(ptxpack_gemm_plan_row(handle, &d, ptxpack_variant_find("gemm_mma_sm80_128x256x32"), &plan),
                     PTXPACK_OK);
    assert_int_equal(plan->arguments.mma.group_m, 16); /* 132 tiles: 2048 rows by 8 * 256 columns and a bit */
    ptxpack_gemm_plan_free(plan);
    ptxpack_close(handle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_fields_are_named),
        cmocka_unit_test(what_no_row_covers_is_told),
        cmocka_unit_test(gelu_needs_a_newer_isa_than_its_row),
        cmocka_unit_test(bad_addresses_are_named),
        cmocka_unit_test(c_may_be_in_place_of_d),
        cmocka_unit_test(small_problems_take_small_tiles),
        cmocka_unit_test(the_arguments_are_those_of_the_problem),
        cmocka_unit_test(tiles_are_found_without_divisions),
        cmocka_unit_test(groups_are_about_square),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
