/* main.c - ptxpack-check: every kernel against a reference on the device at hand. */
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "tools/command.h"
#include "tools/problem/random.h"
#include "tools/problem/verify.h"

enum { EXIT_SKIPPED = 77 };

static int run_all(check *c)
{
    double started = now_ms();
    report_device(&c->gpu, false);
    printf("seed      %llu, %d threads\n", (unsigned long long)c->seed, c->threads);
    if (c->row == NULL)
        check_atom(c);
    check_vector(c);
    check_gemm(c);
    check_gemm_groups(c);
    check_attention(c);
    check_lengths(c);
    check_blocks(c);
    check_merge(c);
    check_parts(c);
    check_arrivals(c);
    check_norm(c);
    check_quantise(c);
    check_sampling(c);
    check_experts(c);
    check_gather(c);
    check_append(c);
    check_chain(c);
    check_split(c);
    if (!atomic_load(&c->broken) && !c->brief) {
        check_far(c);
        check_far_gemm(c);
    }
    int passed = atomic_load(&c->passed), failed = atomic_load(&c->failed);
    printf("%d passed, %d failed, %.1f s%s\n", passed, failed, (now_ms() - started) * 1e-3,
           atomic_load(&c->over) ? "; the time is over: there may be more cases" : "");
    if (passed + failed == 0 && !c->list)
        return command_fail("check", "no case was run");
    return failed == 0 ? COMMAND_OK : COMMAND_FAILED;
}

int main(int argc, char **argv)
{
    check        c = {.threads = verify_threads()};
    const char  *ptx_dir = "ptx", *choice = NULL;
    char         word[] = "check";
    int64_t      threads = c.threads, seed = -1, seconds = 0;
    bool         self_test = false, full = false, newest = false;
    const option rows[] = {
        {"quick", OPTION_FLAG, &c.quick, "a few cases of each kind"},
        {"filter", OPTION_TEXT, &c.filter, "TEXT  only cases whose name contains it"},
        {"row", OPTION_TEXT, &c.row, "TEXT  only rows of kernels.def whose id contains it, and no atoms"},
        {"newest", OPTION_FLAG, &newest,
         "only rows of kernels.def for the newest architecture that the device has rows of"},
        {"first", OPTION_FLAG, &c.first, "stop at the first failure"},
        {"seconds", OPTION_INT, &seconds, "N  begin no more cases after so long (default 0: all are run)"},
        {"list", OPTION_FLAG, &c.list, "print the names and run nothing"},
        {"threads", OPTION_INT, &threads, "N  for the references (default: one per processor)"},
        {"seed", OPTION_INT, &seed, "N  of all random input"},
        {"self-test", OPTION_FLAG, &self_test,
         "break kernels on purpose: every break (--filter: by its name) must be noticed"},
        {"ptx-dir", OPTION_TEXT, &ptx_dir, "DIR  where --self-test finds the .ptx files (default ptx)"},
        {"full", OPTION_FLAG, &full, "all cases also on the emulated driver: it takes hours"},
        {"device", OPTION_TEXT, &choice, DEVICE_OPTION_HELP},
        {NULL, OPTION_FLAG, NULL, NULL},
    };
    argv[0] = word;
    command_begin();
    int status = command_options(argc, argv, "ptxpack-check [options]", rows, NULL);
    if (status >= 0)
        return command_end(status);
    if (threads < 1 || threads > 256)
        return command_fail("check", "--threads: %lld is not between 1 and 256", (long long)threads),
               COMMAND_USAGE;
    if (self_test && seconds > 0)
        return command_fail("check", "--seconds does not go with --self-test"), COMMAND_USAGE;
    if (seconds < 0 || seconds > 1000000)
        return command_fail("check", "--seconds: %lld is not between 0 and 1000000", (long long)seconds),
               COMMAND_USAGE;
    c.threads = (int)threads;
    c.seed = seed >= 0 ? (uint64_t)seed : random_seed();
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (self_test) /* on the emulated driver a break that is found ends its launch, not the breaks after it */
        setenv("PTXPACK_EMU_ERRORS", "launch", 1);
    ptxpack_status opened = device_open_as(&c.gpu, choice, NULL);
    if (device_absent(opened)) {
        printf("SKIP: no GPU: %s\n", c.gpu.line);
        return command_end(EXIT_SKIPPED);
    }
    if (opened != PTXPACK_OK)
        return command_fail("check", "%s", c.gpu.line), device_choice(choice) ? COMMAND_FAILED : COMMAND_USAGE;
    pthread_mutex_init(&c.gpu_lock, NULL);
    pthread_mutex_init(&c.print_lock, NULL);
    c.brief = c.gpu.emulated && !full;
    c.half = c.brief && c.quick && !self_test;
    c.oldest = newest ? check_newest(&c) : 0;
    c.end_ms = seconds > 0 ? now_ms() + 1e3 * (double)seconds : 0;
    status = self_test ? check_self_test(&c, ptx_dir) : run_all(&c);
    device_close(&c.gpu);
    return command_end(status);
}
