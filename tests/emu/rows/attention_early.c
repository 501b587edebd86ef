/* attention_early.c - attention of few query rows, and appends, behind a product that writes what they read, on the emulated GPU: with
 * PTXPACK_LAUNCH_CONSTANT_KV queries and new rows still wait for it, and a caller whose keys or lengths are not constant is found out by
 * the judge. */
#include <stdlib.h>
#include <string.h>
#include "host/attention/append/append.h"
#include "host/ptxpack.h"
#include "tests/support/unit.h"
#include "tools/device.h"
#include "tools/problem/random.h"

#define BEFORE_EACH open_all
#define AFTER_EACH  close_all

enum { BATCH = 3, HEADS_Q = 4, HEADS_KV = 2, DIM = 64, KEYS = 128, PAGE = 16, WIDTH = BATCH * HEADS_KV * DIM };
enum { CACHE = BATCH * KEYS * HEADS_KV * DIM, PAGES = BATCH * KEYS / PAGE, O = BATCH * HEADS_Q * DIM };
enum { NORMAL, OVERLAP = PTXPACK_LAUNCH_OVERLAP, EARLY = PTXPACK_LAUNCH_OVERLAP | PTXPACK_LAUNCH_CONSTANT_KV };
typedef enum rows { EQUAL, LENGTHS, PAGED, APPENDED, APPENDED_PAGED, KINDS } rows;

static device             gpu;
static ptxpack_gemm_plan *product;
static uint64_t           x, y, cache, values, o, lengths, none, pads, table, workspace;
static uint16_t           input[CACHE], bits[2][O], rows_of_cache[2][CACHE];
/* A block has 32 keys.  In pages the first sequence begins in the second block, and its last key is the last one of the third; the last
 * keys of the others are in their first blocks. */
static const int32_t lengths_of[BATCH] = {96, 5, 60}, pads_of[BATCH] = {53, 0, 53};

static int open_all(void **state)
{
    random_state            random = random_start(5);
    const ptxpack_gemm_desc desc = {.size = sizeof desc,
                                    .dtype = PTXPACK_BF16,
                                    .m = KEYS,
                                    .n = WIDTH,
                                    .k = DIM,
                                    .order_b = PTXPACK_COLUMN_MAJOR};
    int32_t                 pages[PAGES];
    (void)state;
    setenv("PTXPACK_EMU_SM", "90", 1);
    assert_int_equal(device_open_as(&gpu, "emu", NULL), PTXPACK_OK);
    random_normal(&random, PTXPACK_BF16, input, CACHE);
    for (int i = 0; i < PAGES; i++)
        pages[i] = PAGES - 1 - i;
    assert_int_equal(ptxpack_gemm_plan_create(gpu.handle, &desc, &product), PTXPACK_OK);
    assert_true(device_alloc(&gpu, &x, sizeof input) && device_alloc(&gpu, &y, sizeof input) &&
                device_alloc(&gpu, &cache, sizeof input) && device_alloc(&gpu, &values, sizeof input) &&
                device_alloc(&gpu, &o, sizeof bits[0]) && device_alloc(&gpu, &lengths, sizeof lengths_of) &&
                device_alloc(&gpu, &pads, sizeof pads_of) &&
                device_alloc_zeros(&gpu, &none, sizeof lengths_of) && device_alloc(&gpu, &table, sizeof pages));
    assert_true(device_upload(&gpu, x, input, sizeof input) &&
                device_upload(&gpu, lengths, lengths_of, sizeof lengths_of) &&
                device_upload(&gpu, pads, pads_of, sizeof pads_of) &&
                device_upload(&gpu, table, pages, sizeof pages));
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    ptxpack_gemm_plan_free(product);
    device_close(&gpu);
    return 0;
}

static bool multiply(void)
{
    const ptxpack_gemm_buffers at = {.size = sizeof at, .alpha = 0.125F, .a = x, .b = x, .d = y};
    return device_upload(&gpu, cache, input, sizeof input) &&
           device_upload(&gpu, values, input, sizeof input) &&
           device_status(&gpu, ptxpack_gemm_launch(product, &at, gpu.stream));
}

static ptxpack_attention_plan *plan(rows kind)
{
    const ptxpack_strides         fresh = {WIDTH, WIDTH, DIM};
    ptxpack_attention_append_desc append = {.size = sizeof append, .k_new = fresh, .v_new = fresh};
    ptxpack_attention_plan       *out = NULL;
    ptxpack_attention_desc        desc = {.size = sizeof desc,
                                          .dtype = PTXPACK_BF16,
                                          .batch = BATCH,
                                          .seqlen_q = 1,
                                          .seqlen_kv = KEYS,
                                          .heads_q = HEADS_Q,
                                          .heads_kv = HEADS_KV,
                                          .head_dim = DIM,
                                          .options = kind != EQUAL ? PTXPACK_LENGTHS_KV | PTXPACK_LEFT_PAD : 0,
                                          .append = kind >= APPENDED ? &append : NULL};
    if (kind == PAGED || kind == APPENDED_PAGED) {
        desc.kv_rows = PTXPACK_ROWS_PAGED;
        desc.rows_kv = PAGES, desc.page_rows = PAGE, desc.table_width = KEYS / PAGE;
    }
    if (ptxpack_attention_plan_create(gpu.handle, &desc, &out) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(gpu.handle));
    assert_string_equal(ptxpack_kernel_describe(ptxpack_attention_kernel(out))->variant->file,
                        "attention/decode.ptx");
    assert_true(device_alloc_zeros(&gpu, &workspace, ptxpack_attention_workspace(out) + 1));
    return out;
}

/* The product y [KEYS][WIDTH] = x x^T, as large as the cache, and attention of queries at q to keys at k; whether all went well. */
static bool attend(rows kind, uint32_t launch, uint64_t q, uint64_t k, uint64_t lengths_kv, int which)
{
    ptxpack_attention_plan                *p = plan(kind);
    const ptxpack_attention_append_buffers append = {.size = sizeof append,
                                                     .k_new = y,
                                                     .v_new = y + sizeof(uint16_t) * KEYS};
    const ptxpack_attention_buffers        at = {.size = sizeof at,
                                                 .q = q,
                                                 .k = k,
                                                 .v = values,
                                                 .o = o,
                                                 .workspace = workspace,
                                                 .lengths_kv = lengths_kv,
                                                 .left_pad = pads,
                                                 .page_table = table,
                                                 .append = kind >= APPENDED ? &append : NULL,
                                                 .launch = launch};
    bool ok = multiply() && device_status(&gpu, ptxpack_attention_launch(p, &at, gpu.stream)) &&
              device_sync(&gpu) && device_download(&gpu, bits[which], o, sizeof bits[0]) &&
              device_download(&gpu, rows_of_cache[which], cache, sizeof input);
    ptxpack_attention_plan_free(p);
    return ok;
}

TEST(queries_and_new_rows_of_the_product_before_are_waited_for)
{
    for (int kind = EQUAL; kind < KINDS; kind++) {
        const uint64_t q = kind >= APPENDED ? x : y;
        assert_true(attend((rows)kind, NORMAL, q, cache, lengths, 0));
        for (int i = 0; i < 2; i++) {
            assert_true(attend((rows)kind, i == 0 ? OVERLAP : EARLY, q, cache, lengths, 1));
            assert_memory_equal(bits[0], bits[1], sizeof bits[0]);
            assert_memory_equal(rows_of_cache[0], rows_of_cache[1], sizeof input);
        }
        assert_int_equal(memcmp(rows_of_cache[0], input, sizeof input) != 0, kind >= APPENDED);
    }
}

TEST(keys_that_are_not_constant_are_noticed)
{
    for (int kind = EQUAL; kind < APPENDED; kind++) {
        assert_true(attend((rows)kind, OVERLAP, x, y, lengths, 0));
        assert_false(attend((rows)kind, EARLY, x, y, lengths, 0));
        (void)close_all(NULL);
        (void)open_all(NULL);
    }
}

TEST(lengths_that_are_not_constant_are_noticed)
{
    assert_true(attend(LENGTHS, OVERLAP, x, cache, y, 0));
    assert_false(attend(LENGTHS, EARLY, x, cache, y, 0));
}

/* ---- an append of its own --------------------------------------------------------------------------------- */
typedef enum moved { PLAIN, HALVES, PAIRS, BLOCKS, MOVES } moved;

static ptxpack_attention_append_plan *append_plan(moved kind)
{
    const ptxpack_strides               fresh = {WIDTH, WIDTH, DIM};
    const bool                          turned = kind == HALVES || kind == PAIRS;
    const ptxpack_attention_append_desc desc = {.size = sizeof desc,
                                                .dtype = PTXPACK_BF16,
                                                .batch = BATCH,
                                                .seqlen_new = 1,
                                                .seqlen_kv = KEYS,
                                                .heads_kv = HEADS_KV,
                                                .head_dim = DIM,
                                                .rotary_dim = turned ? DIM : 0,
                                                .positions = turned ? KEYS : 0,
                                                .options = kind == PAIRS ? PTXPACK_ROPE_PAIRS : 0,
                                                .k_new = fresh,
                                                .v_new = fresh,
                                                .kv_dtype = kind == BLOCKS ? PTXPACK_Q8_0 : (ptxpack_dtype)0};
    ptxpack_attention_append_plan      *out = NULL;
    if (ptxpack_attention_append_plan_create(gpu.handle, &desc, &out) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(gpu.handle));
    return out;
}

/* The product, and an append of its rows; whether all went well. */
static bool append(const ptxpack_attention_append_plan *p, uint32_t launch, uint64_t lengths_kv, int which)
{
    const ptxpack_attention_append_buffers at = {.size = sizeof at,
                                                 .k_new = y,
                                                 .v_new = y,
                                                 .k = cache,
                                                 .v = values,
                                                 .cos = x,
                                                 .sin = x + sizeof(uint16_t) * KEYS * DIM / 2,
                                                 .lengths_kv = lengths_kv,
                                                 .launch = launch};
    return multiply() && device_status(&gpu, ptxpack_attention_append(p, &at, gpu.stream)) &&
           device_sync(&gpu) && device_download(&gpu, rows_of_cache[which], cache, sizeof input);
}

TEST(new_rows_of_the_product_before_are_waited_for)
{
    const uint32_t launches[] = {OVERLAP, EARLY};
    for (int kind = PLAIN; kind < MOVES; kind++) {
        ptxpack_attention_append_plan *p = append_plan((moved)kind);
        assert_true(append(p, NORMAL, lengths, 0));
        assert_memory_not_equal(rows_of_cache[0], input, sizeof input);
        for (int i = 0; i < 2; i++) {
            assert_true(append(p, launches[i], lengths, 1));
            assert_memory_equal(rows_of_cache[0], rows_of_cache[1], sizeof input);
        }
        ptxpack_attention_append_plan_free(p);
    }
}

/* All of these lengths are too large, so that nothing is written. */
TEST(places_of_new_rows_are_waited_for_unless_they_are_constant)
{
    ptxpack_attention_append_plan *p = append_plan(PLAIN);
    assert_true(append(p, OVERLAP, y, 0));
    assert_false(append(p, EARLY, y, 0));
    ptxpack_attention_append_plan_free(p);
}

/* Blocks whose rows have no place end after the product all the same: what comes next waits for them alone. */
TEST(an_append_without_places_ends_after_the_kernel_before)
{
    ptxpack_attention_append_plan         *p = append_plan(PLAIN);
    ptxpack_attention_plan                *next = plan(EQUAL);
    const ptxpack_attention_append_buffers one = {.size = sizeof one,
                                                  .k_new = x,
                                                  .v_new = x,
                                                  .k = cache,
                                                  .v = values,
                                                  .lengths_kv = none,
                                                  .launch = EARLY};
    const ptxpack_attention_buffers        two = {
               .size = sizeof two, .q = y, .k = cache, .v = values, .o = o, .workspace = workspace, .launch = OVERLAP};
    assert_true(attend(EQUAL, NORMAL, y, cache, lengths, 0));
    assert_true(multiply() && device_status(&gpu, ptxpack_attention_append(p, &one, gpu.stream)) &&
                device_status(&gpu, ptxpack_attention_launch(next, &two, gpu.stream)) && device_sync(&gpu) &&
                device_download(&gpu, bits[1], o, sizeof bits[1]));
    assert_memory_equal(bits[0], bits[1], sizeof bits[0]);
    ptxpack_attention_append_plan_free(p);
    ptxpack_attention_plan_free(next);
}

RUN_TESTS(NULL, NULL)
