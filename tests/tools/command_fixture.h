/* command_fixture.h - for the tests of subcommands: runs one through the shell, and reads what it printed.
 *
 * Runs build/ptxpack ($PTXPACK_BINARY names another). */
#ifndef PTXPACK_TEST_COMMAND_FIXTURE_H
#define PTXPACK_TEST_COMMAND_FIXTURE_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <cmocka.h>
#include "tests/support/scratch.h"

enum { OUTPUT = 1 << 23 };
static char output[OUTPUT], errors[OUTPUT]; /* of the last run */

/* Reads a file of the scratch folder as text; returns its size. */
static inline size_t read_output(const char *name, char *to)
{
    FILE *file = fopen(scratch_path(name), "rb");
    assert_non_null(file);
    size_t bytes = fread(to, 1, OUTPUT - 1, file);
    to[bytes] = '\0';
    fclose(file);
    return bytes;
}

/* Runs "ptxpack SUBCOMMAND ARGUMENTS", which may redirect the streams; returns its exit status. */
static inline int run_command(const char *subcommand, const char *arguments)
{
    char        line[32768];
    const char *binary = getenv("PTXPACK_BINARY");
    int bytes = snprintf(line, sizeof line, ">%s 2>%s %s %s %s", scratch_path("out"), scratch_path("err"),
                         binary != NULL ? binary : "build/ptxpack", subcommand, arguments);
    assert_in_range(bytes, 1, sizeof line - 1);
    int status = system(line);
    read_output("out", output);
    read_output("err", errors);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static inline size_t lines_of(const char *text)
{
    size_t lines = 0;
    for (; *text != '\0'; text++)
        lines += *text == '\n';
    return lines;
}

/* Checks that there is only one line, on stderr, which contains `reason`, and this exit status. */
static inline void refuses(const char *subcommand, const char *arguments, int wanted, const char *reason)
{
    int status = run_command(subcommand, arguments);
    if (status != wanted || strstr(errors, reason) == NULL || lines_of(errors) != 1 || output[0] != '\0')
        fail_msg("%s %s: status %d, not %d, or not \"%s\": %s%s", subcommand, arguments, status, wanted, reason,
                 errors, output);
}
#endif
