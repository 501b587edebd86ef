/* attention_decode.c - attention of few query rows to pages of keys, on the emulated GPU, as a server uses it: one workspace for a
 * thousand launches with other lengths each time, two streams, and lists that are cut for 1 to 132 blocks. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "host/ptxpack.h"
#include "tests/support/unit.h"
#include "tools/device.h"
#include "tools/problem/random.h"

#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

enum { BATCH = 3, HEADS_Q = 4, HEADS_KV = 2, DIM = 64, KEYS = 320, PAGE = 16, PAGES = BATCH * KEYS / PAGE };
enum { CACHE = BATCH * KEYS * HEADS_KV * DIM, O = BATCH * HEADS_Q * DIM };

static device                  gpu;
static ptxpack_attention_plan *plan;
static uint64_t                q, k, v, o[2], workspace[2], lengths, table;
static uint16_t                queries[O], keys[CACHE], values[CACHE];

static void open_all(void)
{
    const ptxpack_attention_desc desc = {.size = sizeof desc,
                                         .dtype = PTXPACK_BF16,
                                         .batch = BATCH,
                                         .seqlen_q = 1,
                                         .seqlen_kv = KEYS,
                                         .heads_q = HEADS_Q,
                                         .heads_kv = HEADS_KV,
                                         .head_dim = DIM,
                                         .options = PTXPACK_LENGTHS_KV,
                                         .kv_rows = PTXPACK_ROWS_PAGED,
                                         .rows_kv = PAGES,
                                         .page_rows = PAGE,
                                         .table_width = KEYS / PAGE};
    random_state                 random = random_start(7);
    int32_t                      pages[PAGES];
    setenv("PTXPACK_EMU_SM", "90", 1);
    assert_int_equal(device_open_as(&gpu, "emu", NULL), PTXPACK_OK);
    random_normal(&random, PTXPACK_BF16, queries, O);
    random_normal(&random, PTXPACK_BF16, keys, CACHE);
    random_normal(&random, PTXPACK_BF16, values, CACHE);
    for (int i = 0; i < PAGES; i++)
        pages[i] = PAGES - 1 - i;
    if (ptxpack_attention_plan_create(gpu.handle, &desc, &plan) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(gpu.handle));
    assert_true(device_alloc(&gpu, &q, sizeof queries) && device_alloc(&gpu, &k, sizeof keys) &&
                device_alloc(&gpu, &v, sizeof values) &&
                device_alloc(&gpu, &lengths, BATCH * sizeof(int32_t)) &&
                device_alloc(&gpu, &table, sizeof pages));
    for (int i = 0; i < 2; i++)
        assert_true(device_alloc(&gpu, &o[i], sizeof queries) &&
                    device_alloc_zeros(&gpu, &workspace[i], ptxpack_attention_workspace(plan)));
    assert_true(device_upload(&gpu, q, queries, sizeof queries) && device_upload(&gpu, k, keys, sizeof keys) &&
                device_upload(&gpu, v, values, sizeof values) &&
                device_upload(&gpu, table, pages, sizeof pages));
}

static void close_all(void)
{
    ptxpack_attention_plan_free(plan);
    device_close(&gpu);
}

static void set_lengths(const int32_t of[BATCH])
{
    assert_true(device_upload(&gpu, lengths, of, BATCH * sizeof *of));
}

static void attend(int which, struct CUstream_st *stream)
{
    const ptxpack_attention_buffers at = {.size = sizeof at,
                                          .q = q,
                                          .k = k,
                                          .v = v,
                                          .o = o[which],
                                          .workspace = workspace[which],
                                          .lengths_kv = lengths,
                                          .page_table = table};
    if (ptxpack_attention_launch(plan, &at, stream) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(gpu.handle));
}

static void read_back(int which, uint16_t bits[O])
{
    assert_true(device_sync(&gpu) && device_download(&gpu, bits, o[which], O * sizeof *bits));
}

/* ---- the same sums in double precision ------------------------------------------------------------------ */
static double number(uint16_t bf16)
{
    const uint32_t bits = (uint32_t)bf16 << 16;
    float          out;
    memcpy(&out, &bits, sizeof out);
    return (double)out;
}

/* Where key `key` of a sequence is in the pool, whose pages are in reverse. */
static size_t row_of(int sequence, int key, int head)
{
    const int page = PAGES - 1 - (sequence * KEYS + key) / PAGE;
    return (size_t)((page * PAGE + key % PAGE) * HEADS_KV + head) * DIM;
}

static void check_head(const uint16_t bits[O], const int32_t of[BATCH], int sequence, int head)
{
    const uint16_t *row = &queries[(sequence * HEADS_Q + head) * DIM];
    double          sum = 0, out[DIM] = {0};
    for (int key = 0; key < of[sequence]; key++) {
        const size_t at = row_of(sequence, key, head / (HEADS_Q / HEADS_KV));
        double       score = 0;
        for (int i = 0; i < DIM; i++)
            score += number(row[i]) * number(keys[at + (size_t)i]);
        const double weight = exp(score / 8); /* the square root of DIM */
        sum += weight;
        for (int i = 0; i < DIM; i++)
            out[i] += weight * number(values[at + (size_t)i]);
    }
    for (int i = 0; i < DIM; i++) {
        const double want = sum > 0 ? out[i] / sum : 0,
                     got = number(bits[(sequence * HEADS_Q + head) * DIM + i]);
        if (!(fabs(got - want) <= 0.02 * (1 + fabs(want))))
            fail_msg("sequence %d of %d keys, head %d, column %d: %g, should be %g", sequence,
                     (int)of[sequence], head, i, got, want);
    }
}
static void check(const uint16_t bits[O], const int32_t of[BATCH])
{
    for (int i = 0; i < BATCH * HEADS_Q; i++)
        check_head(bits, of, i / HEADS_Q, i % HEADS_Q);
}

/* ---- the tests ------------------------------------------------------------------------------------------ */
/* In a process of its own, as the driver reads its settings once; and before this process opens it, which no child could then use. */
static void attend_with(int multiprocessors)
{
    char          text[16];
    uint16_t      bits[O];
    const int32_t of[BATCH] = {KEYS, KEYS - 7, multiprocessors};
    snprintf(text, sizeof text, "%d", multiprocessors);
    setenv("PTXPACK_EMU_SMS", text, 1);
    open_all();
    set_lengths(of);
    for (int i = 0; i < 2; i++) {
        attend(0, gpu.stream);
        read_back(0, bits);
        check(bits, of);
    }
    close_all();
}

TEST(the_list_is_cut_for_any_number_of_blocks)
{
    enum { MOST = 132 };
    for (int n = 1; n <= MOST; n++) {
        int         status;
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            attend_with(n);
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (status != 0)
            fail_msg("with %d blocks: status %d", n, status);
    }
}

TEST(one_workspace_serves_a_thousand_launches)
{
    enum { LAUNCHES = 1000, CHECKED = 25 };
    uint16_t first[O], bits[O];
    open_all();
    for (int i = 0; i <= LAUNCHES; i++) {
        const int     n = i % LAUNCHES; /* the last one is the first again */
        const int32_t of[BATCH] = {n * 7 % 41, n * 13 % 64, n % 5 == 0 ? KEYS - n % 100 : n % 3};
        set_lengths(of);
        attend(0, gpu.stream);
        read_back(0, bits);
        if (i % CHECKED == 0)
            check(bits, of);
        if (i == 0)
            memcpy(first, bits, sizeof first);
    }
    assert_memory_equal(first, bits, sizeof bits);
    close_all();
}

TEST(two_streams_have_a_workspace_each)
{
    enum { LAUNCHES = 50 };
    const int32_t       of[BATCH] = {KEYS, 33, 100};
    uint16_t            bits[2][O];
    struct CUstream_st *streams[2];
    open_all();
    set_lengths(of);
    assert_true(device_sync(&gpu));
    for (int i = 0; i < 2; i++)
        assert_int_equal(gpu.driver->cuStreamCreate(&streams[i], PTXPACK_CU_STREAM_NON_BLOCKING),
                         PTXPACK_CU_SUCCESS);
    for (int i = 0; i < 2 * LAUNCHES; i++)
        attend(i % 2, streams[i % 2]);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(gpu.driver->cuStreamSynchronize(streams[i]), PTXPACK_CU_SUCCESS);
        read_back(i, bits[i]);
        check(bits[i], of);
    }
    assert_memory_equal(bits[0], bits[1], sizeof bits[0]);
    for (int i = 0; i < 2; i++)
        assert_int_equal(gpu.driver->cuStreamDestroy(streams[i]), PTXPACK_CU_SUCCESS);
    close_all();
}

RUN_TESTS(NULL, NULL)
