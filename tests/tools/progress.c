/* progress.c - signs of life: lines elsewhere, one line that is written over on a terminal, nothing of short work. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/support/unit.h"
#include "tools/command.h"
#include "tools/progress.h"

#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

/* What `work` writes to stderr, which is the other end of `output`; seconds are "0 s", however busy the machine is. */
static void collect(int stream, int output, void (*work)(void), char *buf, size_t cap)
{
    size_t  used = 0;
    ssize_t got;
    pid_t   child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(stream, STDERR_FILENO);
        work();
        _exit(0);
    }
    close(stream);
    while (used + 1 < cap && (got = read(output, buf + used, cap - 1 - used)) > 0)
        used += (size_t)got; /* of a terminal that nobody has open, read fails */
    buf[used] = '\0';
    for (char *at = buf; (at = strstr(at, " s: ")) != NULL; at++)
        at[-1] = '0';
    close(output);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void collect_from_pipe(void (*work)(void), char *buf, size_t cap)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    collect(ends[1], ends[0], work, buf, cap);
}

static void work_of_three_lines(void)
{
    progress_every(100);
    progress_begin("list", "compiling");
    usleep(150000);
    progress_begin("list", "a part of it");
    progress_step(2, 5, "kernel %d", 7);
    usleep(100000);
    progress_end();
    usleep(100000);
    progress_end();
}

TEST(elsewhere_lines_come_at_intervals)
{
    char text[1024];
    collect_from_pipe(work_of_three_lines, text, sizeof text);
    assert_memory_equal(text, "ptxpack list: 0 s: compiling\n", strlen("ptxpack list: 0 s: compiling\n"));
    assert_non_null(strstr(text, "\nptxpack list: 0 s: 2 of 5: kernel 7\n"));
    assert_null(strchr(text, '\r'));
}

static void short_work(void)
{
    progress_begin("list", "compiling");
    progress_step(1, 2, "quick");
    progress_end();
    progress_end(); /* one too many is nothing */
    progress_clear();
}

TEST(short_work_says_nothing)
{
    char text[64];
    collect_from_pipe(short_work, text, sizeof text);
    assert_string_equal(text, "");
}

static void work_with_a_failure(void)
{
    progress_begin("gemm", "running");
    usleep(700000);
    command_fail("gemm", "it failed");
    progress_end();
}

TEST(on_a_terminal_the_line_is_cleared_before_others)
{
    char text[1024];
    int  ours = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(ours >= 0 && grantpt(ours) == 0 && unlockpt(ours) == 0);
    int terminal = open(ptsname(ours), O_RDWR | O_NOCTTY);
    assert_true(terminal >= 0);
    collect(terminal, ours, work_with_a_failure, text, sizeof text);
    assert_string_equal(text, "\r\033[Kptxpack gemm: 0 s: running\r\033[Kptxpack gemm: it failed\r\n");
}

RUN_TESTS(NULL, NULL)
