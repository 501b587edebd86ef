/* gemm_groups.c - products of groups of rows with a B of e4m3, on emulated GPUs that convert its codes by an instruction and by bits: what
 * each code is multiplied as, and NaN among them. */
#include <math.h>
#include <stdlib.h>
#include "host/gemm/inspect.h"
#include "host/ptxpack.h"
#include "host/scalars.h"
#include "tests/support/unit.h"
#include "tools/device.h"

#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

enum { N = 16, K = 16, GROUPS = 2, CODES = N * K };

/* Group 0 has no rows.  Row k of A is 1 at k, otherwise 0, so that D [K][N] is B of group 1. */
static void multiply_codes(const char *sm, ptxpack_dtype dtype, const uint8_t codes[CODES], float d[CODES])
{
    static const int32_t    starts[GROUPS + 1] = {0, 0, K};
    uint16_t                ones[K * K] = {0}, out[CODES];
    uint64_t                a, b, y, at;
    device                  gpu;
    ptxpack_gemm_plan      *plan;
    const ptxpack_gemm_desc desc = {.size = sizeof desc,
                                    .dtype = dtype,
                                    .m = K,
                                    .n = N,
                                    .k = K,
                                    .order_b = PTXPACK_COLUMN_MAJOR,
                                    .groups = GROUPS,
                                    .dtype_b = PTXPACK_E4M3};
    setenv("PTXPACK_EMU_SM", sm, 1);
    assert_int_equal(device_open_as(&gpu, "emu", NULL), PTXPACK_OK);
    for (size_t i = 0; i < K; i++)
        ptxpack_set_element(dtype, ones, i * K + i, 1);
    assert_true(device_alloc(&gpu, &a, sizeof ones) && device_upload(&gpu, a, ones, sizeof ones) &&
                device_alloc_zeros(&gpu, &b, GROUPS * CODES) && device_upload(&gpu, b + CODES, codes, CODES) &&
                device_alloc(&gpu, &at, sizeof starts) && device_upload(&gpu, at, starts, sizeof starts) &&
                device_alloc(&gpu, &y, sizeof out));
    if (ptxpack_gemm_plan_create(gpu.handle, &desc, &plan) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(gpu.handle));
    const ptxpack_gemm_buffers buffers =
        {.size = sizeof buffers, .alpha = 1, .a = a, .b = b, .d = y, .group_starts = at};
    assert_true(device_status(&gpu, ptxpack_gemm_launch(plan, &buffers, gpu.stream)) && device_sync(&gpu) &&
                device_download(&gpu, out, y, sizeof out));
    for (size_t i = 0; i < CODES; i++)
        d[i] = ptxpack_to_float(dtype, out[i]);
    ptxpack_gemm_plan_free(plan);
    device_close(&gpu);
}

/* NaN makes all of its column NaN, in whichever order of k; its column is tried again without it. */
static void expect_codes(const char *sm, ptxpack_dtype dtype)
{
    enum { NAN_CODE = 0x7f };
    for (int with_nan = 0; with_nan < 2; with_nan++) {
        uint8_t codes[CODES];
        float   d[CODES];
        for (int i = 0; i < CODES; i++)
            codes[i] = (uint8_t)(!with_nan && i % 128 == NAN_CODE ? 0 : i);
        multiply_codes(sm, dtype, codes, d);
        for (size_t i = 0; i < CODES; i++) {
            const float got = d[i % K * N + i / K], want = ptxpack_element(PTXPACK_E4M3, codes, i);
            const bool  none = with_nan && i / K % 8 == NAN_CODE / K;
            if (none ? !isnan(got) : got != want)
                fail_msg("sm_%s, %s: code %02x is %g, not %g", sm, ptxpack_dtype_name(dtype), codes[i],
                         (double)got, (double)(none ? NAN : want));
        }
    }
}

TEST(codes_are_numbers_by_an_instruction)
{
    expect_codes("90", PTXPACK_F16);
    expect_codes("90", PTXPACK_BF16);
}

TEST(codes_are_the_same_numbers_by_bits)
{
    expect_codes("80", PTXPACK_F16);
    expect_codes("80", PTXPACK_BF16);
}

RUN_TESTS(NULL, NULL)
