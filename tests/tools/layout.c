/* layout.c - `ptxpack layout -` on lines that are too long for a transcript and on random bytes.  Its values,
 * errors, JSON and pictures are in tests/golden/layout.txt and layout_values.txt. */
#include "command_fixture.h"
#include "tests/support/random_fixture.h"

static int run_lines(const void *bytes, size_t count)
{
    char  arguments[8300];
    FILE *file = fopen(scratch_path("in"), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
    snprintf(arguments, sizeof arguments, "- <%s", scratch_path("in"));
    return run_command("layout", arguments);
}

/* A line of megabytes of one character gives a short error (blanks give none), and the next line is
 * evaluated. */
static void lines_may_be_long(void **state)
{
    enum { LONG = 3 << 20 };
    static char text[LONG];
    (void)state;
    for (const char *c = "(<-1 _,as"; *c != '\0'; c++) {
        memset(text, *c, LONG);
        memcpy(text + LONG - 4, "\n7:1", 4);
        assert_int_equal(run_lines(text, LONG), *c != ' ');
        const char *end = strchr(output, '\n');
        assert_non_null(end);
        assert_true(*c == ' ' || (strncmp(output, "error: ", 7) == 0 && end - output < 600));
        assert_string_equal(end, "\n7:1\n");
    }
}

static char junk[1 << 18];

static void fill_with_junk(void)
{
    for (size_t i = 0; i < sizeof junk; i++)
        junk[i] = i % 2 == 0 ? (char)below(256) : "(),:<>_@o-#123Sw\n\nvalues"[below(24)];
    junk[sizeof junk - 1] = '\n';
}

/* Random bytes give a result or an error for each line, never a signal.  (A ';' would separate two results, and an
 * assignment has none.) */
static void junk_is_an_error(void **state)
{
    (void)state;
    size_t lines = 0, results = 0;
    fill_with_junk();
    for (size_t i = 0; i < sizeof junk; i++)
        junk[i] = junk[i] == ';' || junk[i] == '=' ? '+' : junk[i];
    for (size_t i = 0; i < sizeof junk; i++)
        lines += junk[i] == '\n';
    assert_int_equal(run_lines(junk, sizeof junk), 1);
    size_t bytes = read_output("out", output);
    for (size_t i = 0; i < bytes; i++)
        results += output[i] == '\n';
    assert_int_equal(results, lines);
}

/* Random statements, comments and assignments never end in a signal, and what follows them is evaluated. */
static void junk_of_statements(void **state)
{
    (void)state;
    fill_with_junk();
    for (size_t i = 0; i + 40 < sizeof junk; i += 1 + below(40)) {
        static const char *const pieces[] = {"x=", "auto x = ",   ";",  "/*",      "*/",
                                             "//", "\nA=4:1;A\n", "\"", ".size()", "A("};
        const char              *piece = pieces[below(10)];
        memcpy(junk + i, piece, strlen(piece));
    }
    memset(junk + sizeof junk - 4096, ')', 4096); /* closes what is open */
    memcpy(junk + sizeof junk - 4096, "\n*/\n", 4);
    memcpy(junk + sizeof junk - 9, "\n7:1\n7:1\n", 9);
    assert_int_equal(run_lines(junk, sizeof junk), 1);
    size_t bytes = read_output("out", output);
    assert_true(bytes > 8 && strcmp(output + bytes - 8, "7:1\n7:1\n") == 0);
}

static int start(void **state) { return print_seed(state) == 0 ? scratch_open(state) : -1; }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_may_be_long),
        cmocka_unit_test(junk_is_an_error),
        cmocka_unit_test(junk_of_statements),
    };
    return cmocka_run_group_tests(tests, start, scratch_close);
}
