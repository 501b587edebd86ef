/* checker.c - tests the device checker without a device: on tests/fake/loader.c, whose kernels are right, or
 * wrong in one way at a time.  (On a GPU, "ptxpack-check --self-test" does the same with the real kernels.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/check/check.h"

enum { SEED = 20240607 };

static double end_ms; /* of check.end_ms in the next runs */

/* Runs the cases with `filter` on kernels broken in `how`; counts passed and failed runs. */
static void run(const char *how, const char *filter, int *passed, int *failed)
{
    check c = {.quiet = true, .filter = filter, .threads = 2, .seed = SEED, .end_ms = end_ms};
    setenv("MOCK_BREAK", how, 1);
    pthread_mutex_init(&c.gpu_lock, NULL);
    pthread_mutex_init(&c.print_lock, NULL);
    assert_int_equal(device_open(&c.gpu, NULL), PTXPACK_OK);
    check_vector(&c);
    check_gemm(&c);
    check_attention(&c);
    check_far(&c);
    check_far_gemm(&c);
    assert_int_equal(atomic_load(&c.broken), end_ms != 0);
    device_close(&c.gpu);
    *passed = atomic_load(&c.passed);
    *failed = atomic_load(&c.failed);
}

static void no_case_begins_when_the_time_is_over(void **state)
{
    (void)state;
    int all, some, failed;
    run("", "gemm bf16 rr 129x65x33", &all, &failed);
    end_ms = 1;
    run("", "gemm bf16 rr 129x65x33", &some, &failed);
    end_ms = 0;
    assert_in_range(some, 1, all - 1);
    assert_int_equal(failed, 0);
}

static void right_kernels_pass(void **state)
{
    (void)state;
    static const char *const filters[] = {"vector_add",
                                          "d8 6/2 113x203",
                                          "d8 6/1 239x1",
                                          "d8 6/6 108x256",
                                          "bf16 d40 6/2 113x203 huge",
                                          "bf16 d40 6/2 113x203 tiny",
                                          "bf16 d40 6/2 113x203 falling",
                                          "bf16 d40 6/2 113x203 repeated",
                                          "bf16 d40 6/2 113x203 equal",
                                          "bf16 d40 6/2 113x203 overflowing",
                                          "gemm bf16 rr 129x65x33",
                                          "gemm f16 cc 129x65x33",
                                          "gemm f16 rr 8x8x8", /* rc would be gemm/rows.ptx's */
                                          "gemm bf16 cr 100x40x0"};
    print_message("seed %d\n", (int)SEED);
    for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++) {
        int passed, failed;
        run("", filters[i], &passed, &failed);
        if (failed > 0 || passed == 0)
            fail_msg("%s: %d passed, %d failed", filters[i], passed, failed);
    }
}

static void every_break_is_noticed(void **state)
{
    (void)state;
    static const struct {
        const char *how, *filter;
    } breaks[] = {
        {"mask", "d8 6/2 113x203"},
        {"head", "d8 6/2 113x203"},
        {"sum", "d8 6/2 113x203"},
        {"guard", "d8 6/2 113x203"},
        {"lse", "d8 6/2 113x203"},
        {"repeat", "d8 6/2 113x203"},
        {"unwritten", "d8 6/2 113x203"},
        {"blind", "d8 6/2 239x1"},
        {"tail", "vector_add"},
        {"window", "d8 6/2 113x203 normal"},
        {"softcap", "d8 6/2 113x203 normal"},
        {"sinks", "d8 6/2 113x203 normal"},
        {"alibi", "d8 6/2 113x203 normal"},
        {"overflow", "bf16 d40 6/2 113x203 overflowing"},
        {"gemm k", "gemm bf16 rc 129x65x33"},
        {"gemm beta", "gemm bf16 rc 129x65x33"},
        {"gemm activation", "gemm f16 rc 129x65x33"},
        {"gemm unwritten", "gemm bf16 cc 129x65x33"},
        {"gemm guard", "gemm bf16 rr 129x65x33"},
        {"gemm repeat", "gemm bf16 rr 129x65x33"},
        {"gemm batch", "gemm bf16 rr 3x5x7"},
    };
    for (size_t i = 0; i < sizeof breaks / sizeof breaks[0]; i++) {
        int passed, failed;
        run(breaks[i].how, breaks[i].filter, &passed, &failed);
        if (failed == 0)
            fail_msg("\"%s\" was not noticed in %d runs", breaks[i].how, passed);
    }
}

/* Offsets beyond 32 bits; the mock's memory uses only the pages that are accessed. */
static void far_tensors_are_reached(void **state)
{
    (void)state;
    /* the fake loader computes what attention/mma.ptx would, not decode.ptx */
    static const char *const filters[] = {"attention far-rows f16 d128 attention_mma",
                                          "attention far-tiles f16 d128 attention_mma",
                                          "attention far-heads f16 d128 attention_mma"};
    int                      passed, failed;
    run("memory", filters[0], &passed, &failed); /* too little memory: nothing is run */
    assert_int_equal(passed + failed, 0);
    for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++) {
        run("", filters[i], &passed, &failed);
        if (passed + failed == 0) {
            print_message("SKIP: no address space for tensors of many GiB\n");
            skip();
        }
        assert_int_equal(failed, 0);
        run("far", filters[i], &passed, &failed);
        assert_true(passed == 0 && failed > 0);
    }
    run("", "gemm far-", &passed, &failed);
    assert_true(passed > 0 && failed == 0);
    run("far", "gemm far-lines rr", &passed, &failed);
    assert_true(passed == 0 && failed > 0);
    run("far", "gemm far-batch cc", &passed, &failed);
    assert_true(passed == 0 && failed > 0);
}

/* The self-test on a GPU edits lines of the .ptx files: they must still be there. */
static void the_self_test_fits_the_kernels(void **state)
{
    (void)state;
    char line[512] = "";
    if (check_self_test_texts("ptx", line, sizeof line) != 0)
        fail_msg("%s", line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_case_begins_when_the_time_is_over),
        cmocka_unit_test(right_kernels_pass),
        cmocka_unit_test(every_break_is_noticed),
        cmocka_unit_test(far_tensors_are_reached),
        cmocka_unit_test(the_self_test_fits_the_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
