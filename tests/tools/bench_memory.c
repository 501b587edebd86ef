/* bench_memory.c - the kernels of ptx/probe that benchmarks use, on the emulated driver: what they write is what the host
 * computes. */
#include <stdlib.h>
#include "tests/support/unit.h"
#include "tools/bench/memory.h"

#define BEFORE_EACH open_gpu
#define AFTER_EACH  close_gpu

static device gpu;

static int open_gpu(void **state)
{
    (void)state;
    assert_int_equal(device_open_as(&gpu, "emu", NULL), PTXPACK_OK);
    return 0;
}

static int close_gpu(void **state)
{
    (void)state;
    device_close(&gpu);
    return 0;
}

TEST(random_numbers_are_those_of_the_host)
{
    enum { COUNT = 8 * 300 };
    for (int type = PTXPACK_F16; type <= PTXPACK_BF16; type++) {
        uint16_t     bits[COUNT];
        uint64_t     at;
        bench_memory memory;
        double       sum = 0, squares = 0;
        assert_true(bench_memory_open(&memory, &gpu, (ptxpack_dtype)type));
        assert_true(device_alloc(&gpu, &at, sizeof bits));
        assert_true(bench_memory_fill(&memory, at, sizeof bits, 77));
        assert_true(device_download(&gpu, bits, at, sizeof bits));
        for (uint32_t i = 0; i < COUNT; i++) {
            float value = bench_memory_element(i, 77);
            assert_true(ptxpack_to_float((ptxpack_dtype)type, bits[i]) == value);
            sum += value;
            squares += (double)value * value;
        }
        assert_true(sum / COUNT > -0.1 && sum / COUNT < 0.1);
        assert_true(squares / COUNT > 1.2 && squares / COUNT < 1.5);
        device_free(&gpu, at);
        bench_memory_close(&memory);
    }
}

/* A tile has 16 KiB: a part of one, one, and many of them. */
TEST(a_reduction_reads_every_word_once)
{
    enum { MOST = 27 * 16384 + 12288 + 48 };
    static const size_t bytes[] = {16, 4096 + 32, 16384 - 16, 16384, 16384 + 16, 3 * 16384, MOST};
    uint32_t           *words = (uint32_t *)malloc(2 * MOST);
    uint64_t            at;
    bench_memory        memory;
    assert_non_null(words);
    for (uint32_t i = 0; i < 2 * MOST / 4; i++)
        words[i] = i * 2654435761u + 12345;
    assert_true(bench_memory_open(&memory, &gpu, PTXPACK_BF16));
    assert_true(device_alloc(&gpu, &at, 2 * MOST) && device_upload(&gpu, at, words, 2 * MOST));
    memory.sm_count = 1; /* few blocks: some do several tiles */
    for (size_t n = 0; n < sizeof bytes / sizeof bytes[0]; n++) {
        uint32_t want = 5, got = 5;
        for (size_t i = 0; i < bytes[n] / 4; i++)
            want += words[i] + words[MOST / 4 + i];
        assert_true(device_upload(&gpu, memory.sum, &got, sizeof got));
        assert_true(bench_memory_reduce(&memory, at, at + MOST, bytes[n]));
        assert_true(device_download(&gpu, &got, memory.sum, sizeof got));
        assert_int_equal(got, want);
    }
    device_free(&gpu, at);
    bench_memory_close(&memory);
    free(words);
}

TEST(a_step_makes_lengths_longer_and_begins_anew)
{
    enum { COUNT = 300, STEPS = 3 };
    int32_t      first[COUNT], lengths[COUNT];
    uint64_t     first_at, lengths_at;
    bench_memory memory;
    for (int32_t i = 0; i < COUNT; i++)
        first[i] = lengths[i] = 5 * i % 71;
    assert_true(bench_memory_open(&memory, &gpu, PTXPACK_BF16));
    assert_true(device_alloc(&gpu, &first_at, sizeof first) &&
                device_upload(&gpu, first_at, first, sizeof first));
    assert_true(device_alloc(&gpu, &lengths_at, sizeof first) &&
                device_upload(&gpu, lengths_at, first, sizeof first));
    for (int32_t step = 1; step <= 2 * STEPS; step++) {
        assert_true(bench_memory_advance(&memory, lengths_at, first_at, STEPS, COUNT));
        assert_true(device_download(&gpu, lengths, lengths_at, sizeof lengths));
        for (int32_t i = 0; i < COUNT; i++)
            assert_int_equal(lengths[i], first[i] + (step - 1) % STEPS + 1);
    }
    device_free(&gpu, first_at);
    device_free(&gpu, lengths_at);
    bench_memory_close(&memory);
}

RUN_TESTS(NULL, NULL)
