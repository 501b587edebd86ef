/* tiled_copies.c - "ptxpack atom --tiled" of copies against what CuTe printed and computed for the same copies, which
 * tests/data/record_tiled_copies.cpp recorded in tests/data/tiled_copies.txt: each line byte for byte, or, where CuTe
 * does not merge strides that a swizzle makes known only when it runs, the same layout value for value. */
#include "command_fixture.h"
#include "host/layout/layout.h"

enum { CASES = 92, OTHER_FORMS = 9 };

/* "title: SHAPE:STRIDE + OFFSET" as a layout and an offset; false if the line has no layout. */
static bool read_line(const char *line, ptxpack_layout *layout, long long *offset)
{
    char        text[4096];
    const char *colon = strstr(line, ": "), *plus = strstr(line, " + ");
    if (colon == NULL || strchr(colon + 2, ':') == NULL)
        return false;
    size_t bytes = plus != NULL ? (size_t)(plus - colon - 2) : strlen(colon + 2);
    assert_in_range(bytes, 1, sizeof text - 1);
    memcpy(text, colon + 2, bytes);
    text[bytes] = '\0';
    *layout = ptxpack_layout_parse(text);
    *offset = plus != NULL ? strtoll(plus + 3, NULL, 10) : 0;
    return layout->shape.status == PTXPACK_OK;
}

/* Modes of the same sizes, and the same values from the same start. */
static bool same_values(const char *a, const char *b)
{
    ptxpack_layout x, y;
    long long      x_offset, y_offset;
    if (!read_line(a, &x, &x_offset) || !read_line(b, &y, &y_offset))
        return false;
    bool same = x_offset == y_offset && ptxpack_rank(&x.shape) == ptxpack_rank(&y.shape);
    for (int i = 0; same && i < ptxpack_rank(&x.shape); i++)
        same = ptxpack_mode_size(&x, i) == ptxpack_mode_size(&y, i);
    for (int64_t i = 0; same && i < ptxpack_size(&x); i++)
        same = ptxpack_at(&x, i) == ptxpack_at(&y, i);
    return same;
}

/* Compares the next line of the output with one that was recorded; returns what follows in the output. */
static char *compare(const char *arguments, char *at, const char *wanted, int *other_forms)
{
    char *end = strchr(at, '\n');
    if (end == NULL)
        fail_msg("%s: the output ends before \"%s\": %s", arguments, wanted, errors);
    *end = '\0';
    if (strcmp(at, wanted) != 0) {
        if (strcspn(at, ":") != strcspn(wanted, ":") || !same_values(at, wanted))
            fail_msg("%s:\nCuTe:    %s\nptxpack: %s", arguments, wanted, at);
        ++*other_forms;
    }
    return end + 1;
}

static void as_cute_prints_them(void **state)
{
    static char line[16384], arguments[sizeof line];
    int         cases = 0, lines = 0, other_forms = 0;
    char       *at = NULL;
    FILE       *file = fopen("tests/data/tiled_copies.txt", "r");
    (void)state;
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '$') {
            assert_true(at == NULL || strncmp(at, "Threads: ", 9) == 0); /* nothing is missing in the record */
            memcpy(arguments, line + 2, strlen(line) - 1);
            if (run_command("atom", arguments) != 0)
                fail_msg("%s: %s", arguments, errors);
            at = output;
            cases++;
            continue;
        }
        assert_non_null(at);
        at = compare(arguments, at, line, &other_forms);
        lines++;
    }
    assert_true(at != NULL && strncmp(at, "Threads: ", 9) == 0);
    fclose(file);
    printf("%d cases, %d lines, %d of them the same layout in another form\n", cases, lines, other_forms);
    assert_int_equal(cases, CASES);
    assert_int_equal(other_forms, OTHER_FORMS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_cute_prints_them),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
