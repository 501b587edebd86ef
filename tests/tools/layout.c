/* layout.c - `ptxpack layout`: values of expressions, errors, lines of any kind, JSON,
 * pictures. */
#include "command_fixture.h"
#include "tests/support/random_fixture.h"

static const struct {
    const char *expression, *value;
} cases[] = {
#define CASE(expression, value) {expression, value},
#include "layout_cases.def"
#undef CASE
};
enum { CASES = sizeof cases / sizeof cases[0] };

/* What CuTe writes as methods, or does not write at all. */
static const char *const more[][2] = {
    {"(4,8):(8,1)(1,_)", "(8):(1)"},
    {"(4,8):(8,1)(1,2)", "10"},
    {"(4,8):(8,1)((1,2))", "10"},
    {"(4,8):(8,1)(5)", "9"},
    {"make_layout((4,8),LayoutRight)(2,3)", "19"},
    {"Sw<3,4,3>(1023)", "911"},
    {"Swizzle<3,4,3>(1023)", "911"},
    {"Sw<3,4,3> o 0 o (8,64):(64,1)(1,_)(3)", "3"},
    {"upcast<2>(Sw<3,4,3>)", "Sw<3,3,3>"},
    {"composition(Sw<3,0,3>,Sw<1,0,3>)", "Sw<2,1,3>"},
    {"composition(composition(Sw<2,0,3>,Sw<2,0,3>),(8,8):(8,1))", "(8,8):(8,1)"},
    {"composition((8,8):(8,1),(4,2))", "(4,2):(8,1)"},
    {"(colex_geq((1,2),(2,1)),colex_geq((2,1),(1,2)),colex_geq((1,2),(1,2)))", "(1,0,1)"},
    {"(lex_geq((1,2),(2,1)),lex_geq((2,1),(1,2)),lex_geq((1,2),(1,2)))", "(0,1,1)"},
    {"group<0,-1>((2,3,4))", "((2,3,4))"},
    {"(shape<1>((4,(2,3)):(1,(12,4))),rank((1,2,3)))", "((2,3),3)"},
    {"(2,rank((1,2,3))):(size((4,8)),1)", "(2,3):(32,1)"},
    {"<4:2,make_layout((2,4)),_>", "<4:2,(2,4):(1,2),_>"},
    {"make_tile(4,8:1,_)", "<4,8:1,_>"},
    {"(4:2,8)", "<4:2,8>"},
    {"composition((8,8):(8,1),(4:1,_))", "(4,8):(8,1)"},
    {"get<1>(<4:2,(8,2),_>)", "<8,2>"},
    {"get<2>(<4:2,(8,2),_>)", "_"},
    {"make_coord(1,_,(2,3))", "(1,_,(2,3))"},
    {"make_layout(4:1,(2,3):(12,4))", "(4,(2,3)):(1,(12,4))"},
    {"get<0>(slice_and_offset((1,_),(3,4):(4,1)))", "(4):(1)"},
    {"get<1>(slice_and_offset((1,_),(3,4):(4,1)))", "4"},
    {"composition(Sw<2,0,3>,5,(8,8):(8,1))", "Sw<2,0,3> o 5 o (8,8):(8,1)"},
    {"with_shape(8:1,2,4)", "(2,4):(1,2)"},
    {"tile((8,8):(1,8),4,2)", "((4,2),2,4):((1,8),4,16)"},
    {"local_tile((16,32,8):(1,16,512),(4,8,2),(1,2,3),(1,_,1))", "(4,2,8):(1,16,512)"},
    {"local_partition((16,32):(1,16),(4,8,2),5,(1,1,_))", "(4,4):(4,128)"},
    {"tile_to_shape(Sw<3,4,3> o 0 o (8,64):(64,1),(128,64),LayoutRight{})",
     "Sw<3,4,3> o 0 o ((8,16),(64,1)):((64,512),(1,0))"},
    {"values((2,2))", "0,1,2,3"},
    {"values(make_identity_layout((2,(1,2))))", "(0,(0,0)),(1,(0,0)),(0,(0,1)),(1,(0,1))"},
    {" (  _4 , 8 )\t: ( _8 , _1 ) ", "(4,8):(8,1)"},
    {"coalesce(\tcoalesce( (2,(1,6)):(1,(6,2)) ) )\r", "12:1"},
    {"-5", "-5"},
    {"make_layout(make_shape(Int<4>{}, _8{}), LayoutRight{})", "(4,8):(8,1)"},
    {"Layout<Shape<_4,Shape<_2,_3>>,Stride<_1,Stride<_12,_4>>>{}", "(4,(2,3)):(1,(12,4))"},
    {"Layout<Shape<_4,_8>>{}", "(4,8):(1,4)"},
    {"local_tile((64,32):(1,64),make_tile(_16{},_24{},_8{}),make_coord(2,1,_),Step<_1, X,_1>{})",
     "(16,8,4):(1,64,512)"},
    {"composition((8,8):(8,1),Tile<_4,_>{})", "(4,8):(8,1)"},
    {"_", "_"},
};

/* clang-format off */
static const char *const wrong[][2] = {
    {"bad(4)", "column 1: there is no function bad"},
    {"size(bad(4))", "column 6: there is no function bad"},
    {"(4,8):(8,1", "column 11: expected ',' or ')', found the end"},
    {"(4,8))", "column 6: expected the end, found ')'"},
    {"<4,8", "column 5: expected ',' or '>', found the end"},
    {"size", "column 5: expected '(', found the end"},
    {"size(", "column 6: expected an integer, '_', '(', '<' or a function, found the end"},
    {"size<x>(4)", "column 6: expected an integer, found 'x'"},
    {"size<1", "column 7: expected ',' or '>', found the end"},
    {"size<99999999999>(4)", "column 6: 99999999999 in the <> of size is out of range"},
    {"take((1,2))", "column 1: take takes <N,N>(tuple) or <N,N>(layout), not (tuple)"},
    {"round_up(4:1,2)", "column 1: round_up takes (tuple, tuple), not (layout, integer)"},
    {"composition(4:1)", "not (layout)"},
    {"(4:1):2", "column 1: what is left of ':' is no tuple of integers"},
    {"4:(2:1)", "column 3: what is right of ':' is no tuple of integers"},
    {"4:1:1", "column 4: expected the end, found ':'"},
    {"(4,8):8", "column 1: "},
    {"(4,0):(1,4)", "extent 0"},
    {"composition((4,-2):(1,4),2)", "column 13: (4,-2):(1,4): extent -2"},
    {"99999999999999999999", "column 1: 99999999999999999999 does not fit 64 bits"},
    {"(4294967296,4294967296):(1,1)", "overflow"},
    {"2:9223372036854775807", "overflow"},
    {"get<3>((1,2))", "column 1: get: mode 3 of (1,2)"},
    {"get<0>(Sw<1,0,1>)", "column 1: "},
    {"Sw<3,4,2>(1)", "column 1: |S|"},
    {"Sw<3,4,3>((1,2))", "column 1: a swizzle is applied to an integer"},
    {"(2,3)(1)", "column 1: only layouts and swizzles are applied to coordinates"},
    {"(4,8):(8,1)(1,2,3)", "column 1: "},
    {"4:1(4:1)", "column 1: what a layout is applied to is no coordinate"},
    {"_4{", "column 3: expected the end, found '{'"},
    {"Shape<4", "column 8: expected ',' or '>', found the end"},
    {"Shape(4)", "column 6: expected '<', found '('"},
    {"Int<4,8>", "column 1: this takes <integer>"},
    {"Layout<4:1>{}", "column 1: this takes <shape,stride>"},
    {"Layout<(4,8),8>", "column 1: "},
    {"LayoutLeft", "LayoutLeft and LayoutRight are only arguments"},
    {"make_layout((4,2),LayoutLeft{x})", "column 29: expected ',' or ')', found '{'"},
    {"(LayoutLeft,4)", "column 1: item 0 is neither a tuple nor a layout"},
    {"values(99999999999:1)", "column 1: values: 99999999999:1 has more than 16777216 values"},
    {"values(<4,8>)", "column 1: values takes (layout), not (tiler)"},
    {"((((((((((1))))))))))", "nested more than 8 deep"},
    {"composition((4,8,8):(1,32,4),4:3)", "column 1: composition"}, /* C++: (2,2):(3,32), which is wrong */
    {"complement((4,3):(5,1),54)", "column 1: complement"},          /* C++: 3:20, which is wrong        */
    {"make_ordered_layout((2,3),(1,1))", "column 1: "},              /* C++: (2,3):(1,1), which aliases  */
    {"complement((2,2):(2,3))", "column 1: complement"},
    {"logical_divide((4,2),<2,2,2>)", "column 1: logical_divide"},
    {"shape_div(6,4)", "column 1: shape_div"},
    {"crd2idx((1,2,3),(3,4))", "column 1: crd2idx"},
    {"upcast<0>(4:1)", "column 1: upcast"},
    {"take<-2,1>((1,2))", "column 6: -2 in the <> of take is out of range"},
    {"get<-1>((1,2))", "column 1: get: mode -1 of (1,2)"},
    {"composition(Sw<2,0,3>,Sw<2,1,3>)", "column 1: composition: the two swizzles do not make one"},
    {"local_partition((4,6):(6,1),(2,2):(2,1),4)", "column 1: local_partition: 4 "},
    {"local_partition((4,6):(6,1),(2,2):(2,1),-1)", "column 1: local_partition: -1 "},
};
/* clang-format on */

static int run(const char *arguments) { return run_command("layout", arguments); }

static void write_input(const void *bytes, size_t count)
{
    FILE *file = fopen(scratch_path("in"), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static int run_lines(const void *bytes, size_t count)
{
    char arguments[8300];
    write_input(bytes, count);
    snprintf(arguments, sizeof arguments, "- <%s", scratch_path("in"));
    return run(arguments);
}

/* The next line of the output, without its end. */
static char *next_line(char **at)
{
    char *line = *at, *end = strchr(line, '\n');
    assert_non_null(end);
    *end = '\0';
    *at = end + 1;
    return line;
}

/* ---- values -------------------------------------------------------------------------------------------- */
static void expressions_have_values(void **state)
{
    (void)state;
    static char input[1 << 16];
    size_t      used = 0, count = sizeof more / sizeof more[0];
    for (size_t i = 0; i < CASES + count; i++)
        used += (size_t)snprintf(input + used, sizeof input - used, "%s\n",
                                 i < CASES ? cases[i].expression : more[i - CASES][0]);
    assert_true(used < sizeof input);
    int   status = run_lines(input, used);
    char *at = output;
    for (size_t i = 0; i < CASES + count; i++) {
        const char *expression = i < CASES ? cases[i].expression : more[i - CASES][0];
        const char *wanted = i < CASES ? cases[i].value : more[i - CASES][1], *line = next_line(&at);
        if (strcmp(line, wanted) != 0)
            fail_msg("%s\n  is   %s\n  not  %s", expression, wanted, line);
    }
    assert_string_equal(at, "");
    assert_string_equal(errors, "");
    assert_int_equal(status, 0);
}

static void one_expression_is_an_argument(void **state)
{
    (void)state;
    assert_int_equal(run("'composition((6,2):(8,2),(4,3):(3,1))'"), 0);
    assert_string_equal(output, "((2,2),3):((24,2),8)\n");
    assert_int_equal(run("'values((3,4):(4,1))'"), 0);
    assert_string_equal(output, "0,4,8,1,5,9,2,6,10,3,7,11\n");
    assert_int_equal(run("-- -5"), 0);
    assert_string_equal(output, "-5\n");
    assert_int_equal(run("'(4'"), 1);
    assert_string_equal(output, "");
    assert_string_equal(errors, "ptxpack layout: column 3: expected ',' or ')', found the end\n");
}

/* ---- errors -------------------------------------------------------------------------------------------- */
static void wrong_expressions_are_named(void **state)
{
    (void)state;
    static char input[1 << 16];
    size_t      used = 0, count = sizeof wrong / sizeof wrong[0];
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(input + used, sizeof input - used, "%s\n", wrong[i][0]);
    int   status = run_lines(input, used);
    char *at = output;
    for (size_t i = 0; i < count; i++) {
        const char *line = next_line(&at);
        if (strncmp(line, "error: ", 7) != 0 || strstr(line, wrong[i][1]) == NULL)
            fail_msg("%s: %s", wrong[i][0], line);
    }
    assert_string_equal(at, "");
    assert_int_equal(status, 1);
}

static void usage_errors_are_2(void **state)
{
    (void)state;
    /* clang-format off */
    static const char *const usages[][2] = {
        {"", "expected one EXPR"},          {"4:1 4:1", "expected one EXPR"},
        {"--nonsense 4", "--nonsense"},     {"--grid --svg 4", "exclude each other"},
        {"--grid - </dev/null", "one EXPR"}, {"--tv '(4,4)' 4", "--tv goes with"},
        {"--tv '(4' --svg 4", "--tv (4: column 3"},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof usages / sizeof usages[0]; i++)
        refuses("layout", usages[i][0], 2, usages[i][1]);
}

/* ---- lines --------------------------------------------------------------------------------------------- */
static void lines_keep_their_order(void **state)
{
    (void)state;
    static const char input[] = "4:1\n\n# a comment\n  # another\nx\n(2,3):(3,1)\r\nsize((4,8))";
    assert_int_equal(run_lines(input, sizeof input - 1), 1);
    assert_string_equal(output, "4:1\n\n# a comment\n  # another\n"
                                "error: column 1: there is no function x\n(2,3):(3,1)\n32\n");
    assert_int_equal(run_lines("", 0), 0);
    assert_string_equal(output, "");
    assert_int_equal(run_lines("\n", 1), 0);
    assert_string_equal(output, "\n");
}

static void lines_hold_anything(void **state)
{
    (void)state;
    enum { LONG = 3 << 20 };
    static const char nul[] = "4:1\0(4\n\0\n(2,\0)\n7\n\xff\xfe\n\x1b[2J\n";
    assert_int_equal(run_lines(nul, sizeof nul - 1), 1);
    char *at = output;
    assert_string_equal(next_line(&at), "error: column 4: expected the end, found the byte 0x00");
    assert_non_null(strstr(next_line(&at), "error: column 1: "));
    assert_non_null(strstr(next_line(&at), "error: column 4: "));
    assert_string_equal(next_line(&at), "7");
    assert_non_null(strstr(next_line(&at), "found the byte 0xff"));
    assert_non_null(strstr(next_line(&at), "found the byte 0x1b"));
    assert_string_equal(at, "");
    static char text[LONG];
    for (const char *c = "(<-1 _,as"; *c != '\0'; c++) {
        memset(text, *c, LONG);
        memcpy(text + LONG - 4, "\n7:1", 4);
        int status = run_lines(text, LONG);
        at = output;
        assert_int_equal(status, *c != ' ');
        if (*c != ' ')
            assert_true(strncmp(output, "error: ", 7) == 0 && strlen(next_line(&at)) < 600);
        assert_string_equal(*c != ' ' ? at : strchr(output, '\n'), *c != ' ' ? "7:1\n" : "\n7:1\n");
    }
}

/* Random bytes: a result or an error for each line, never a signal. */
static void junk_is_an_error(void **state)
{
    (void)state;
    static char junk[1 << 18];
    size_t      lines = 0, results = 0;
    for (size_t i = 0; i < sizeof junk; i++)
        junk[i] = i % 2 == 0 ? (char)below(256) : "(),:<>_@o-#123Sw\n\nvalues"[below(24)];
    junk[sizeof junk - 1] = '\n';
    for (size_t i = 0; i < sizeof junk; i++)
        lines += junk[i] == '\n';
    assert_int_equal(run_lines(junk, sizeof junk), 1);
    size_t bytes = read_output("out", output);
    for (size_t i = 0; i < bytes; i++)
        results += output[i] == '\n';
    assert_int_equal(results, lines);
}

static void comments_keep_their_bytes(void **state)
{
    (void)state;
    static const char input[] = "# a\0b\n\n4:1\n";
    assert_int_equal(run_lines(input, sizeof input - 1), 0);
    assert_int_equal(read_output("out", output), sizeof input - 1);
    assert_memory_equal(output, input, sizeof input - 1);
}

static void a_closed_output_is_an_error(void **state)
{
    (void)state;
    assert_int_equal(run("'4:1' >&-"), 1);
    assert_non_null(strstr(errors, "cannot write the output"));
    assert_int_equal(run("'values((1000,1000))' >/dev/full"), 1);
    assert_non_null(strstr(errors, "cannot write the output"));
    write_input("4:1\n4:1\n", 8);
    char arguments[8300];
    snprintf(arguments, sizeof arguments, "- <%s >/dev/full", scratch_path("in"));
    assert_int_equal(run(arguments), 1);
    assert_non_null(strstr(errors, "cannot write the output: No space left on device"));
    assert_int_equal(run("- <&-"), 0);
    assert_int_equal(run("- </"), 1);
    assert_non_null(strstr(errors, "cannot read the expressions"));
}

/* ---- JSON and pictures --------------------------------------------------------------------------------- */
static void json_tells_more(void **state)
{
    (void)state;
    assert_int_equal(run("--json '(4,(2,3)):(1,(12,4))'"), 0);
    assert_string_equal(output, "{\n  \"expression\": \"(4,(2,3)):(1,(12,4))\",\n"
                                "  \"result\": \"(4,(2,3)):(1,(12,4))\",\n  \"shape\": \"(4,(2,3))\",\n"
                                "  \"stride\": \"(1,(12,4))\",\n  \"size\": 24,\n  \"cosize\": 24\n}\n");
    static const char input[] = "size((2,3))\n\n# no\n\"\\\x01\n";
    assert_int_equal(run_lines(input, sizeof input - 1), 1);
    char arguments[8300];
    snprintf(arguments, sizeof arguments, "--json - <%s", scratch_path("in"));
    assert_int_equal(run(arguments), 1);
    assert_string_equal(output, "[\n  {\n    \"expression\": \"size((2,3))\",\n    \"result\": \"6\"\n  },\n"
                                "  {\n    \"expression\": \"\\\"\\\\\\u0001\",\n"
                                "    \"error\": \"column 1: expected an integer, '_', '(', '<' or a function"
                                ", found '\\\"'\"\n  }\n]\n");
    assert_int_equal(run("--json 'x(1)'"), 1);
    assert_non_null(strstr(output, "\"error\": \"column 1: there is no function x\""));
}

static void layouts_are_drawn(void **state)
{
    (void)state;
    assert_int_equal(run("--grid '(2,3):(3,1)'"), 0);
    assert_string_equal(output, "(2,3):(3,1)\n"
                                "      0   1   2 \n"
                                "    +---+---+---+\n"
                                " 0  | 0 | 1 | 2 |\n"
                                "    +---+---+---+\n"
                                " 1  | 3 | 4 | 5 |\n"
                                "    +---+---+---+\n");
    assert_int_equal(run("--svg 'make_layout((2,3),LayoutRight)'"), 0);
    assert_true(strncmp(output, "<svg ", 5) == 0 && strstr(output, "</svg>") != NULL);
    assert_int_equal(run("--latex '(2,3):(3,1)'"), 0);
    assert_non_null(strstr(output, "\\begin{tikzpicture}"));
    assert_null(strstr(output, "T0"));
    assert_int_equal(run("--latex '((4,8),2):((16,1),8)' --tv '(8,8)'"), 0);
    assert_non_null(strstr(output, "T31 \\\\ V1"));
    assert_int_equal(run("--grid 4:1"), 1);
    assert_string_equal(output, "");
    assert_int_equal(run("--svg '<4,8>'"), 1);
    assert_string_equal(errors, "ptxpack layout: <4,8> is a tiler, no layout\n");
    assert_int_equal(run("--svg '(4,5)' --tv '(4,4)'"), 1);
    assert_string_equal(errors, "ptxpack layout: TV layout: value 4 of thread 0 is at 16, outside of the "
                                "4 x 4 tile\n");
}

static void help_says_what_surprises(void **state)
{
    (void)state;
    assert_int_equal(run("--help"), 0);
    assert_non_null(strstr(output, "(4,2) acts mode by mode, as <4,2> does"));
    assert_non_null(strstr(output, "without its offset (slice_and_offset prints it)"));
}

static int start(void **state) { return print_seed(state) == 0 ? scratch_open(state) : -1; }

int main(void)
{
    /* clang-format off */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expressions_have_values),     cmocka_unit_test(one_expression_is_an_argument),
        cmocka_unit_test(wrong_expressions_are_named), cmocka_unit_test(usage_errors_are_2),
        cmocka_unit_test(lines_keep_their_order),      cmocka_unit_test(lines_hold_anything),
        cmocka_unit_test(junk_is_an_error),            cmocka_unit_test(a_closed_output_is_an_error),
        cmocka_unit_test(comments_keep_their_bytes),   cmocka_unit_test(json_tells_more),
        cmocka_unit_test(layouts_are_drawn),           cmocka_unit_test(help_says_what_surprises),
    };
    /* clang-format on */
    return cmocka_run_group_tests(tests, start, scratch_close);
}
