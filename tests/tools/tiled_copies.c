/* tiled_copies.c - "ptxpack atom --tiled" against what CuTe printed and computed for the same tiled copies, and for what
 * threads of tiled MMAs have, which tests/data/record_tiled_copies.cpp recorded in tests/data/tiled_copies.txt: every
 * line byte for byte. */
#include <stdbool.h>
#include "command_fixture.h"

enum { CASES = 142 };

/* Compares the next line of the output with one that was recorded; returns what follows in the output. */
static char *compare(const char *arguments, char *at, const char *wanted)
{
    char *end = strchr(at, '\n');
    if (end == NULL)
        fail_msg("%s: the output ends before \"%s\": %s", arguments, wanted, errors);
    *end = '\0';
    if (strcmp(at, wanted) != 0)
        fail_msg("%s:\nCuTe:    %s\nptxpack: %s", arguments, wanted, at);
    return end + 1;
}

/* Runs a recorded command; returns its output, of a tiled MMA what it says of the thread. */
static char *output_of(const char *arguments)
{
    if (run_command("atom", arguments) != 0)
        fail_msg("%s: %s", arguments, errors);
    char *thread = strstr(output, "\nThread: ");
    return thread != NULL ? thread + 1 : output;
}

static void as_cute_prints_them(void **state)
{
    static char line[16384], arguments[sizeof line];
    int         cases = 0, lines = 0;
    char       *at = NULL;
    FILE       *file = fopen("tests/data/tiled_copies.txt", "r");
    (void)state;
    assert_non_null(file);
    for (bool more = true; more;) {
        more = fgets(line, sizeof line, file) != NULL;
        line[strcspn(line, "\n")] = '\0';
        if (more && line[0] != '$') {
            assert_non_null(at);
            at = compare(arguments, at, line);
            lines++;
            continue;
        }
        if (at != NULL && strncmp(at, "Threads: ", 9) != 0) /* what follows what was recorded */
            fail_msg("%s: more than what CuTe says: %s", arguments, at);
        if (!more)
            break;
        memcpy(arguments, line + 2, strlen(line) - 1);
        at = output_of(arguments);
        cases++;
    }
    fclose(file);
    printf("%d cases, %d lines\n", cases, lines);
    assert_int_equal(cases, CASES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_cute_prints_them),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
