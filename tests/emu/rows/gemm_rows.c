/* gemm_rows.c - a product of few rows whose B is what the product before has written, on the emulated GPU: it waits for that one,
 * and a caller who says that nobody writes B (PTXPACK_LAUNCH_CONSTANT_B) is found out by the judge; A, C and bias may always be
 * the one before's, and so may the scales of a B of e4m3 be.  The weights of A's norm are as B. */
#include <stdlib.h>
#include <string.h>
#include "host/gemm/inspect.h"
#include "host/ptxpack.h"
#include "tests/support/unit.h"
#include "tools/device.h"
#include "tools/problem/random.h"

#define BEFORE_EACH open_all
#define AFTER_EACH  close_all

enum { M = 5, MORE = 40 /* rows: of wgmma */, N = 64, K = 1088, ELEMENTS = N * K };

static device             gpu;
static ptxpack_gemm_plan *first, *second;
static uint64_t           x, w, y, z, workspace, scales, norm_w;
static uint16_t           input[ELEMENTS], bits[3][ELEMENTS];

static ptxpack_gemm_plan *plan_of(const ptxpack_gemm_desc *desc)
{
    ptxpack_gemm_plan *out = NULL;
    if (ptxpack_gemm_plan_create(gpu.handle, desc, &out) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(gpu.handle));
    return out;
}

/* In the second product's place another one. */
static void replace_second(const ptxpack_gemm_desc *desc)
{
    ptxpack_gemm_plan_free(second);
    second = plan_of(desc);
}

/* The first product makes y [N][K] = x w; the second one z [M][N]. */
static ptxpack_gemm_plan *plan(int m, int n, int k, bool has_c)
{
    const ptxpack_gemm_desc desc = {.size = sizeof desc,
                                    .dtype = PTXPACK_BF16,
                                    .m = m,
                                    .n = n,
                                    .k = k,
                                    .order_b = PTXPACK_COLUMN_MAJOR,
                                    .has_c = has_c,
                                    .stride_c = K};
    return plan_of(&desc);
}

static int open_all(void **state)
{
    random_state random = random_start(3);
    (void)state;
    setenv("PTXPACK_EMU_SM", "90", 1);
    assert_int_equal(device_open_as(&gpu, "emu", NULL), PTXPACK_OK);
    random_normal(&random, PTXPACK_BF16, input, ELEMENTS);
    scales = norm_w = 0;
    first = plan(N, K, 64, false);
    second = plan(M, N, K, true);
    assert_string_equal(ptxpack_kernel_describe(ptxpack_gemm_kernel(second))->variant->file,
                        "gemm/rows_tma.ptx");
    assert_true(device_alloc(&gpu, &x, sizeof input) && device_alloc(&gpu, &w, sizeof input) &&
                device_alloc(&gpu, &y, sizeof input) && device_alloc_zeros(&gpu, &z, sizeof bits[0]) &&
                device_alloc_zeros(&gpu, &workspace, ptxpack_gemm_workspace(second)));
    assert_true(device_upload(&gpu, x, input, sizeof input) && device_upload(&gpu, w, input, sizeof input));
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    ptxpack_gemm_plan_free(first);
    ptxpack_gemm_plan_free(second);
    device_close(&gpu);
    return 0;
}

/* Both products; whether all went well. */
static bool run(uint32_t launch, uint64_t a, uint64_t b, uint64_t c, uint16_t *out)
{
    const ptxpack_gemm_buffers one = {.size = sizeof one, .alpha = 1, .a = x, .b = w, .d = y};
    const ptxpack_gemm_buffers two = {.size = sizeof two,
                                      .alpha = 1,
                                      .beta = 1,
                                      .a = a,
                                      .b = b,
                                      .c = c,
                                      .d = z,
                                      .workspace = workspace,
                                      .launch = launch,
                                      .scale_b = scales,
                                      .norm_w = norm_w};
    return device_status(&gpu, ptxpack_gemm_launch(first, &one, gpu.stream)) &&
           device_status(&gpu, ptxpack_gemm_launch(second, &two, gpu.stream)) && device_sync(&gpu) &&
           device_download(&gpu, out, z, sizeof bits[0]);
}

TEST(b_of_the_product_before_is_waited_for)
{
    assert_true(run(0, x, y, w, bits[0]));
    assert_true(run(PTXPACK_LAUNCH_OVERLAP, x, y, w, bits[1]));
    assert_memory_equal(bits[0], bits[1], sizeof bits[0]);
}

/* A and C are what the product before writes. */
static void expect_a_and_c_to_be_waited_for(void)
{
    assert_true(run(0, y, w, y, bits[0]));
    assert_true(run(PTXPACK_LAUNCH_OVERLAP, y, w, y, bits[1]));
    assert_true(run(PTXPACK_LAUNCH_OVERLAP | PTXPACK_LAUNCH_CONSTANT_B, y, w, y, bits[2]));
    assert_memory_equal(bits[0], bits[1], sizeof bits[0]);
    assert_memory_equal(bits[0], bits[2], sizeof bits[0]);
}

TEST(a_and_c_of_the_product_before_are_waited_for_beside_a_constant_b) { expect_a_and_c_to_be_waited_for(); }

TEST(a_b_that_is_not_constant_is_noticed)
{
    assert_false(run(PTXPACK_LAUNCH_OVERLAP | PTXPACK_LAUNCH_CONSTANT_B, x, y, w, bits[0]));
}

TEST(scales_of_the_product_before_are_waited_for)
{
    for (int kind = PTXPACK_SCALES_TENSOR; kind <= PTXPACK_SCALES_BLOCKS; kind++) {
        const ptxpack_gemm_desc desc = {.size = sizeof desc,
                                        .dtype = PTXPACK_BF16,
                                        .m = M,
                                        .n = N,
                                        .k = 512,
                                        .order_b = PTXPACK_COLUMN_MAJOR,
                                        .scales = (ptxpack_gemm_scales)kind,
                                        .dtype_b = PTXPACK_E4M3};
        replace_second(&desc);
        scales = y;
        assert_true(run(0, x, w, 0, bits[0]));
        assert_true(run(PTXPACK_LAUNCH_OVERLAP | PTXPACK_LAUNCH_CONSTANT_B, x, w, 0, bits[1]));
        assert_memory_equal(bits[0], bits[1], sizeof bits[0]);
    }
}

/* In the second product's place one of a normalised A. */
static void normalise_second(void)
{
    const ptxpack_gemm_desc desc = {.size = sizeof desc,
                                    .dtype = PTXPACK_BF16,
                                    .m = M,
                                    .n = N,
                                    .k = K,
                                    .order_b = PTXPACK_COLUMN_MAJOR,
                                    .norm_a = true,
                                    .norm_eps = 1e-5f};
    replace_second(&desc);
    assert_true(device_alloc_zeros(&gpu, &workspace, ptxpack_gemm_workspace(second)));
}

TEST(a_normalised_a_of_the_product_before_is_waited_for)
{
    normalise_second();
    norm_w = x;
    assert_true(run(0, y, w, 0, bits[0]));
    assert_true(run(PTXPACK_LAUNCH_OVERLAP | PTXPACK_LAUNCH_CONSTANT_B, y, w, 0, bits[1]));
    assert_memory_equal(bits[0], bits[1], sizeof bits[0]);
}

TEST(weights_of_a_norm_of_the_product_before_are_waited_for)
{
    normalise_second();
    norm_w = y;
    assert_true(run(0, x, w, 0, bits[0]));
    assert_true(run(PTXPACK_LAUNCH_OVERLAP, x, w, 0, bits[1]));
    assert_memory_equal(bits[0], bits[1], sizeof bits[0]);
}

TEST(weights_of_a_norm_that_are_not_constant_are_noticed)
{
    normalise_second();
    norm_w = y;
    assert_false(run(PTXPACK_LAUNCH_OVERLAP | PTXPACK_LAUNCH_CONSTANT_B, x, w, 0, bits[0]));
}

/* In the second product's place one of more rows. */
static void take_more_rows(void)
{
    ptxpack_gemm_plan_free(second);
    second = plan(MORE, N, K, true);
    assert_string_equal(ptxpack_kernel_describe(ptxpack_gemm_kernel(second))->variant->file, "gemm/wgmma.ptx");
}

TEST(a_and_c_of_more_rows_are_waited_for_beside_a_constant_b)
{
    take_more_rows();
    expect_a_and_c_to_be_waited_for();
}

TEST(b_of_more_rows_is_waited_for_unless_it_is_constant)
{
    take_more_rows();
    assert_true(run(0, x, y, w, bits[0]));
    assert_true(run(PTXPACK_LAUNCH_OVERLAP, x, y, w, bits[1]));
    assert_memory_equal(bits[0], bits[1], sizeof bits[0]);
    assert_false(run(PTXPACK_LAUNCH_OVERLAP | PTXPACK_LAUNCH_CONSTANT_B, x, y, w, bits[0]));
}

/* Fewer blocks of k than there are stages, and more tiles than SMs. */
TEST(short_sums_and_many_tiles_of_a_constant_b_are_right)
{
    static const int shapes[][3] = {{MORE, N, 64}, {33, N, 128}, {1088, N, 64}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        ptxpack_gemm_plan_free(second);
        second = plan(shapes[i][0], shapes[i][1], shapes[i][2], false);
        assert_int_equal(ptxpack_variant_parameter(
                             ptxpack_kernel_describe(ptxpack_gemm_kernel(second))->variant, "BLOCK_M", 0),
                         64);
        assert_true(run(0, x, w, 0, bits[0]));
        assert_true(run(PTXPACK_LAUNCH_OVERLAP | PTXPACK_LAUNCH_CONSTANT_B, x, w, 0, bits[1]));
        assert_memory_equal(bits[0], bits[1], sizeof bits[0]);
    }
}

/* In the second product's place one of this row. */
static void take_row(const char *id, const ptxpack_gemm_desc *desc)
{
    ptxpack_gemm_plan_free(second);
    assert_int_equal(ptxpack_gemm_plan_row(gpu.handle, desc, ptxpack_variant_find(id), &second), PTXPACK_OK);
    assert_true(ptxpack_gemm_workspace(second) == 0 ||
                device_alloc_zeros(&gpu, &workspace, ptxpack_gemm_workspace(second)));
}

/* A is waited for, and a B that is not constant is noticed, after which nothing runs until all is opened again. */
static void expect_b_to_be_read_early(void)
{
    assert_true(run(0, y, w, 0, bits[0]));
    assert_true(run(PTXPACK_LAUNCH_OVERLAP | PTXPACK_LAUNCH_CONSTANT_B, y, w, 0, bits[1]));
    assert_memory_equal(bits[0], bits[1], sizeof bits[0]);
    assert_false(run(PTXPACK_LAUNCH_OVERLAP | PTXPACK_LAUNCH_CONSTANT_B, x, y, 0, bits[1]));
    close_all(NULL);
    open_all(NULL);
}

/* Blocks of a cluster load B, their own or what they share, before the kernel before has ended, and A after that. */
TEST(blocks_that_share_a_or_b_load_a_constant_b_early)
{
    static const char *const rows[] = {"gemm_wgmma_sm90_fit_64x64_1x4", "gemm_wgmma_sm90_fit_64x128_1x2",
                                       "gemm_wgmma_sm90_fit_64x80_1x2", "gemm_wgmma_sm90_fp8_64x64_1x4",
                                       "gemm_wgmma_sm90_64x128_2x1",    "gemm_wgmma_sm90_fit_64x96_2x1",
                                       "gemm_wgmma_sm90_fit_64x64_4x1", "gemm_wgmma_sm90_fit_64x144_8x1",
                                       "gemm_wgmma_sm90_128x256_2x1",   "gemm_wgmma_sm90_128x192_1x2",
                                       "gemm_wgmma_sm90_fit_128x112",   "gemm_wgmma_sm90_fp8_128x256_2x1"};
    ptxpack_gemm_desc        desc = {.size = sizeof desc,
                                     .dtype = PTXPACK_BF16,
                                     .m = 2 * MORE,
                                     .n = 256,
                                     .k = 256,
                                     .order_b = PTXPACK_COLUMN_MAJOR};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        desc.dtype_ab = strstr(rows[i], "fp8") != NULL ? PTXPACK_E4M3 : (ptxpack_dtype)0;
        take_row(rows[i], &desc);
        expect_b_to_be_read_early();
    }
}

/* Each part loads its own k of B. */
TEST(parts_of_a_tile_load_a_constant_b_early)
{
    static const char *const rows[] = {"gemm_wgmma_sm90_parts_64x128", "gemm_wgmma_sm90_parts_128x128",
                                       "gemm_wgmma_sm90_parts_128x144", "gemm_wgmma_sm90_parts_128x256_2x1"};
    const ptxpack_gemm_desc  desc = {.size = sizeof desc,
                                     .dtype = PTXPACK_BF16,
                                     .m = 8,
                                     .n = 8,
                                     .k = ELEMENTS / 8,
                                     .order_b = PTXPACK_COLUMN_MAJOR};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        take_row(rows[i], &desc);
        assert_true(ptxpack_gemm_workspace(second) > 0);
        expect_b_to_be_read_early();
    }
}

/* Of e4m3 the bytes of x and of y: y is what the product before writes. */
TEST(a_of_e4m3_is_waited_for_beside_a_constant_b)
{
    const ptxpack_gemm_desc desc = {.size = sizeof desc,
                                    .dtype = PTXPACK_BF16,
                                    .m = MORE,
                                    .n = N,
                                    .k = K,
                                    .order_b = PTXPACK_COLUMN_MAJOR,
                                    .dtype_ab = PTXPACK_E4M3};
    replace_second(&desc);
    assert_string_equal(ptxpack_kernel_describe(ptxpack_gemm_kernel(second))->variant->file,
                        "gemm/wgmma_fp8.ptx");
    expect_b_to_be_read_early();
}

RUN_TESTS(NULL, NULL)
