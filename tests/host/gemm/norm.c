/* norm.c - products of RMSNorm(A) on the host: what is refused with which line, the address of the weights, the choice of a row, and the
 * reference against sums that are worked out here. */
#include <math.h>
#include <string.h>

#include "host/gemm/inspect.h"
#include "loader/loader.h"
#include "refusals.h"
#include "tests/support/unit.h"

#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

static const ptxpack_gemm_desc good = {.size = sizeof(ptxpack_gemm_desc),
                                       .dtype = PTXPACK_BF16,
                                       .m = 8,
                                       .n = 48,
                                       .k = 320,
                                       .order_b = PTXPACK_COLUMN_MAJOR,
                                       .norm_a = true,
                                       .norm_eps = 1e-5f};

TEST(malformed_fields_are_named)
{
    REFUSED("norm_eps is 0; it must be positive", d.norm_eps = 0);
    REFUSED("norm_eps is -1; it must be positive", d.norm_eps = -1);
    REFUSED("norm_eps is inf; it must be positive", d.norm_eps = INFINITY);
    REFUSED("norm_eps is nan; it must be positive", d.norm_eps = NAN);
    REFUSED("norm_eps is 0.5, and there is no norm_a", d.norm_a = false, d.norm_eps = 0.5f);
    REFUSED("norm_a: groups of rows take A as it is", d.groups = 2);
    REFUSED("norm_a: batch is 2, not 1", d.batch = 2);
    REFUSED("norm_a: order_a: rows of a row-major A", d.order_a = PTXPACK_COLUMN_MAJOR);
    REFUSED("norm_a: dtype_ab: an A of dtype", d.dtype_ab = PTXPACK_E4M3);
    REFUSED("norm_a: k is 0, and there is nothing", d.k = 0);
}

TEST(weights_have_an_address)
{
    gemm_geometry        g;
    char                 line[PLAN_LINE];
    ptxpack_gemm_buffers b = {.size = sizeof b, .a = 0x10000, .b = 0x20000, .d = 0x40000};
    assert_int_equal(ptxpack_gemm_resolve(&good, &g, line), PTXPACK_OK);
    assert_int_equal(g.norm_bytes, 2 * 320);
    assert_int_equal(ptxpack_gemm_check_buffers(&g, &b, line), PTXPACK_E_ARG);
    expect_line(line, "norm_w is null");
    b.norm_w = 0x50008;
    assert_int_equal(ptxpack_gemm_check_buffers(&g, &b, line), PTXPACK_E_ARG);
    expect_line(line, "norm_w: address 0x50008 is not a multiple of 16 bytes");
    b.norm_w = b.d + 16;
    assert_int_equal(ptxpack_gemm_check_buffers(&g, &b, line), PTXPACK_E_ARG);
    expect_line(line, "d overlaps norm_w");
    b.norm_w = 0x50000;
    assert_int_equal(ptxpack_gemm_check_buffers(&g, &b, line), PTXPACK_OK);
}

/* A caller that was compiled before norm_a was there. */
TEST(an_older_struct_has_no_norm)
{
    ptxpack              *handle;
    ptxpack_gemm_plan    *plan;
    const ptxpack_options options = {.size = sizeof options, .offline = true, .arch = "sm_90a"};
    ptxpack_gemm_desc     d = good;
    d.size = offsetof(ptxpack_gemm_desc, norm_a);
    d.norm_eps = -1; /* not looked at */
    d.m = 0;
    assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_OK);
    assert_int_equal(ptxpack_gemm_plan_create(handle, &d, &plan), PTXPACK_E_ARG);
    expect_line(ptxpack_detail(handle), "m is 0, not 1 or more");
    d.size = sizeof d;
    d.m = good.m;
    assert_int_equal(ptxpack_gemm_plan_create(handle, &d, &plan), PTXPACK_E_ARG);
    expect_line(ptxpack_detail(handle), "norm_eps is -1");
    ptxpack_close(handle);
}

/* ---- rows of kernels.def ------------------------------------------------------------------------------ */
static void expect_rows(ptxpack *handle, const ptxpack_gemm_desc *d, size_t wanted)
{
    char                   line[PLAN_LINE];
    size_t                 count, taken = 0;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].op, "gemm") == 0 &&
            plan_row_refusal(&gemm_op, handle, NULL, d, &rows[i], line) == NULL) {
            assert_true(gemm_normalises(&rows[i]) == d->norm_a);
            taken++;
        }
    assert_int_equal(taken, wanted);
}

static void expect_no_kernel(ptxpack *handle, const ptxpack_gemm_desc *d, const char *words)
{
    ptxpack_gemm_plan *plan;
    assert_int_equal(ptxpack_gemm_plan_create(handle, d, &plan), PTXPACK_E_UNSUPPORTED);
    assert_null(plan);
    expect_line(ptxpack_detail(handle), "norm_a: ");
    expect_line(ptxpack_detail(handle), words);
}

TEST(norms_have_rows_of_their_own)
{
    ptxpack              *handle;
    char                  line[PLAN_LINE];
    const ptxpack_options options = {.size = sizeof options, .offline = true, .arch = "sm_90a"};
    ptxpack_gemm_desc     d = good;
    assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_OK);
    expect_rows(handle, &d, 4);
    assert_non_null(
        plan_row_refusal(&gemm_op, handle, NULL, &d, ptxpack_variant_find("gemm_rows_tma_sm90_8x16"), line));
    assert_string_equal(line, "does not cover dtype bf16, norm_a");
    d.m = 17;
    expect_rows(handle, &d, 1);
    d.m = 33;
    expect_no_kernel(handle, &d, "m is 33, more than 32");
    d = good;
    d.k = 72;
    expect_no_kernel(handle, &d, "k is 72, no multiple of 64 above 0");
    d = good;
    d.order_b = PTXPACK_ROW_MAJOR;
    expect_no_kernel(handle, &d, "order_a, order_b: takes A row-major and B column-major");
    d = good;
    d.dtype_b = PTXPACK_E4M3;
    d.k = 384;
    expect_no_kernel(handle, &d, "dtype_b e4m3, norm_a");
    ptxpack_close(handle);
}

TEST(other_devices_have_none)
{
    static const char *const archs[] = {"sm_75", "sm_80", "sm_89"};
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        ptxpack              *handle;
        const ptxpack_options options = {.size = sizeof options, .offline = true, .arch = archs[i]};
        ptxpack_gemm_desc     d = good;
        d.dtype = PTXPACK_F16;
        assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_OK);
        expect_no_kernel(handle, &d, "sm_90");
        ptxpack_close(handle);
    }
}

/* ---- the reference ------------------------------------------------------------------------------------ */
/* Of small whole numbers, whose products with the weights are rounded: 3 x (1 + 2^-7) in bf16 is a tie, to even 3 + 2^-5. */
TEST(the_reference_is_what_the_header_says)
{
    enum { M = 2, N = 8, K = 64 };
    ptxpack_gemm_desc d = good;
    uint16_t          a[M * K], b[N * K], w[K];
    double            value[M * N], error[M * N];
    const gemm_row    rows[M] = {{0, 0}, {0, 1}};
    gemm_reference   *reference;
    d.m = M;
    d.n = N;
    d.k = K;
    d.norm_eps = 0.5f;
    for (int i = 0; i < M * K; i++)
        ptxpack_set_element(d.dtype, a, (size_t)i, i < K ? 3.0f : -6.0f);
    for (int i = 0; i < K; i++)
        ptxpack_set_element(d.dtype, w, (size_t)i, 1 + 0x1p-7f);
    for (int i = 0; i < N * K; i++)
        ptxpack_set_element(d.dtype, b, (size_t)i, (float)(i / K));
    const gemm_inputs inputs = {.a = a, .b = b, .norm_w = w, .alpha = 2};
    assert_int_equal(gemm_reference_open(&d, &inputs, &reference), PTXPACK_OK);
    assert_int_equal(gemm_reference_rows(reference, rows, M, 1, value, error), PTXPACK_OK);
    gemm_reference_close(reference);
    for (int row = 0; row < M; row++)
        for (int column = 0; column < N; column++) {
            const double x = row == 0 ? 3 : -6, weighed = row == 0 ? 3 + 0x1p-5 : -6 - 0x1p-4;
            const double expected = 2 * weighed * column * K / sqrt(x * x + 0.5);
            assert_true(fabs(value[row * N + column] - expected) <= 1e-12 * fabs(expected));
            assert_true(error[row * N + column] < 1e-4 * fabs(expected) + 1e-30);
        }
}

RUN_TESTS(NULL, NULL)
