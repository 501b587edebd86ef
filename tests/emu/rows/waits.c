/* waits.c - kernels of a decoder beside attention and Hopper's products, on the emulated GPU: launched to overlap, they wait for the kernel
 * before, which writes what they read.  The judge finds one that does not, and the bits are those of a normal launch. */
#include <stdlib.h>
#include <string.h>
#include "host/ptxpack.h"
#include "tests/support/unit.h"
#include "tools/device.h"

#define BEFORE_EACH open_all
#define AFTER_EACH  close_all

enum { WORDS = 4096, BYTES = 4 * WORDS, PLACE = 1 << 12 /* bytes: of each of what an operation writes */ };

static device               gpu;
static ptxpack_gather_plan *copy;               /* of one row: to x */
static uint64_t             first_id, table, x; /* x: small integers, which are ids and tiny floats */
static uint64_t             zeros, out;         /* what else is read, and what is written */
static uint8_t              bits[2][BYTES];

static int open_all(void **state)
{
    const ptxpack_gather_desc d = {.size = sizeof d,
                                   .dtype = PTXPACK_F16,
                                   .rows = 1,
                                   .table_rows = 1,
                                   .columns = BYTES / 2};
    static uint32_t           words[WORDS];
    (void)state;
    for (uint32_t i = 0; i < WORDS; i++)
        words[i] = i < 4 ? i : i * i % 7 % 4; /* starts of groups, too */
    setenv("PTXPACK_EMU_SM", "90", 1);
    assert_int_equal(device_open_as(&gpu, "emu", NULL), PTXPACK_OK);
    assert_int_equal(ptxpack_gather_plan_create(gpu.handle, &d, &copy), PTXPACK_OK);
    assert_true(device_alloc_zeros(&gpu, &first_id, 16) && device_alloc(&gpu, &table, BYTES) &&
                device_alloc(&gpu, &x, BYTES) && device_alloc_zeros(&gpu, &zeros, 1 << 20) &&
                device_alloc_zeros(&gpu, &out, BYTES) && device_upload(&gpu, table, words, sizeof words));
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    ptxpack_gather_plan_free(copy);
    device_close(&gpu);
    return 0;
}

static ptxpack_status write_x(void)
{
    const ptxpack_gather_buffers b = {.size = sizeof b, .ids = first_id, .table = table, .y = x};
    return ptxpack_gather(copy, &b, gpu.stream);
}

/* The operation's kernel reads x, which the kernel before it writes. */
static void expect_wait(ptxpack_status (*operation)(uint32_t launch))
{
    for (int i = 0; i < 2; i++) {
        if (operation(i == 0 ? 0 : PTXPACK_LAUNCH_OVERLAP) != PTXPACK_OK)
            fail_msg("%s", ptxpack_detail(gpu.handle));
        assert_true(device_download(&gpu, bits[i], out, BYTES));
    }
    assert_memory_equal(bits[0], bits[1], BYTES);
}

/* Nothing comes between the two kernels. */
#define AFTER_X(kind, desc, launch_call)                                                      \
    ptxpack_##kind##_plan *plan;                                                              \
    ptxpack_status         status = ptxpack_##kind##_plan_create(gpu.handle, &(desc), &plan); \
    status = status == PTXPACK_OK ? write_x() : status;                                       \
    status = status == PTXPACK_OK ? (launch_call) : status;                                   \
    if (status == PTXPACK_OK && !device_sync(&gpu))                                           \
        status = ptxpack_fail(gpu.handle, PTXPACK_E_DRIVER, "%s", gpu.line);                  \
    ptxpack_##kind##_plan_free(plan);                                                         \
    return status

static ptxpack_status gather(uint32_t launch)
{
    const ptxpack_gather_desc    d = {.size = sizeof d,
                                      .dtype = PTXPACK_F16,
                                      .rows = 64,
                                      .table_rows = 4,
                                      .columns = 64};
    const ptxpack_gather_buffers b = {.size = sizeof b, .ids = x, .table = table, .y = out, .launch = launch};
    AFTER_X(gather, d, ptxpack_gather(plan, &b, gpu.stream));
}
TEST(ids_of_a_gather) { expect_wait(gather); }

static ptxpack_status norm(uint32_t launch)
{
    const ptxpack_norm_desc d =
        {.size = sizeof d, .dtype = PTXPACK_F16, .rows = 8, .heads = 1, .columns = 256, .eps = 1e-6f};
    const ptxpack_norm_buffers b = {.size = sizeof b, .x = x, .w = table, .y = out, .launch = launch};
    AFTER_X(norm, d, ptxpack_norm(plan, &b, gpu.stream));
}
TEST(rows_of_a_norm) { expect_wait(norm); }

static ptxpack_status quantise(uint32_t launch)
{
    const ptxpack_quantise_desc    d = {.size = sizeof d, .dtype = PTXPACK_F16, .rows = 8, .columns = 256};
    const ptxpack_quantise_buffers b = {.size = sizeof b,
                                        .x = x,
                                        .codes = out,
                                        .scales = out + PLACE,
                                        .launch = launch};
    AFTER_X(quantise, d, ptxpack_quantise(plan, &b, gpu.stream));
}
TEST(rows_that_are_quantised) { expect_wait(quantise); }

static ptxpack_status dequantise(uint32_t launch)
{
    const ptxpack_quantise_desc    d = {.size = sizeof d, .dtype = PTXPACK_F16, .rows = 8, .columns = 256};
    const ptxpack_quantise_buffers b = {.size = sizeof b,
                                        .x = out,
                                        .codes = x,
                                        .scales = table,
                                        .launch = launch};
    AFTER_X(dequantise, d, ptxpack_dequantise(plan, &b, gpu.stream));
}
TEST(codes_that_become_rows) { expect_wait(dequantise); }

static ptxpack_status sampling(uint32_t launch)
{
    const ptxpack_sampling_desc    d = {.size = sizeof d, .dtype = PTXPACK_F16, .rows = 2, .vocabulary = 3000};
    const ptxpack_sampling_buffers b = {.size = sizeof b, .logits = x, .tokens = out, .launch = launch};
    AFTER_X(sampling, d, ptxpack_sampling(plan, &b, gpu.stream));
}
TEST(logits_of_tokens) { expect_wait(sampling); }

static ptxpack_status route(uint32_t launch)
{
    const ptxpack_experts_route_desc    d = {.size = sizeof d,
                                             .dtype = PTXPACK_F16,
                                             .rows = 40,
                                             .experts = 8,
                                             .top_k = 2};
    const ptxpack_experts_route_buffers b = {.size = sizeof b,
                                             .logits = x,
                                             .starts = out,
                                             .sources = out + 1024,
                                             .places = out + 2048,
                                             .weights = out + 3072,
                                             .workspace = zeros,
                                             .launch = launch};
    AFTER_X(experts_route, d, ptxpack_experts_route(plan, &b, gpu.stream));
}
TEST(logits_of_experts) { expect_wait(route); }

static ptxpack_status combine(uint32_t launch)
{
    const ptxpack_experts_combine_desc    d = {.size = sizeof d,
                                               .dtype = PTXPACK_F16,
                                               .rows = 8,
                                               .top_k = 2,
                                               .columns = 256};
    const ptxpack_experts_combine_buffers b =
        {.size = sizeof b, .y = x, .places = table, .weights = table, .out = out, .launch = launch};
    AFTER_X(experts_combine, d, ptxpack_experts_combine(plan, &b, gpu.stream));
}
TEST(results_of_experts) { expect_wait(combine); }

static ptxpack_status rows(uint32_t launch)
{
    const ptxpack_gemm_desc d =
        {.size = sizeof d, .dtype = PTXPACK_F16, .m = 3, .n = 64, .k = 1032, .order_b = PTXPACK_COLUMN_MAJOR};
    const ptxpack_gemm_buffers b = {.size = sizeof b,
                                    .alpha = 1,
                                    .a = x,
                                    .b = zeros,
                                    .d = out,
                                    .workspace = zeros + (1 << 19),
                                    .launch = launch};
    AFTER_X(gemm, d, ptxpack_gemm_launch(plan, &b, gpu.stream));
}
TEST(a_of_few_rows) { expect_wait(rows); }

static ptxpack_status groups(uint32_t launch)
{
    const ptxpack_gemm_desc    d = {.size = sizeof d,
                                    .dtype = PTXPACK_F16,
                                    .m = 8,
                                    .n = 64,
                                    .k = 64,
                                    .order_b = PTXPACK_COLUMN_MAJOR,
                                    .groups = 3,
                                    .dtype_b = PTXPACK_E4M3};
    const ptxpack_gemm_buffers b =
        {.size = sizeof b, .alpha = 1, .a = table, .b = zeros, .d = out, .group_starts = x, .launch = launch};
    AFTER_X(gemm, d, ptxpack_gemm_launch(plan, &b, gpu.stream));
}
TEST(starts_of_groups) { expect_wait(groups); }

RUN_TESTS(NULL, NULL)
