/* text.c - CuTe's notation: what is printed can be read back, and every error names its column. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "host/layout/layout.h"
#include "loader/loader.h"
#include "tests/support/random_fixture.h"

enum { RUNS = 20000 };

/* ---- values are equal, item by item ------------------------------------------------------------------- */
static bool same_tuple(const ptxpack_tuple *a, const ptxpack_tuple *b)
{
    if (a->status != PTXPACK_OK || b->status != PTXPACK_OK || a->items != b->items)
        return false;
    for (int i = 0; i < a->items; i++)
        if (a->depth[i] != b->depth[i] || a->shared[i] != b->shared[i] || a->kind[i] != b->kind[i] ||
            (a->kind[i] < PTXPACK_EMPTY && a->value[i] != b->value[i]))
            return false;
    return true;
}

static bool same_layout(const ptxpack_layout *a, const ptxpack_layout *b)
{
    if (!same_tuple(&a->shape, &b->shape) || !same_tuple(&a->stride, &b->stride) ||
        a->composed != b->composed || memcmp(a->tiler, b->tiler, a->shape.items) != 0)
        return false;
    return !a->composed || (a->offset == b->offset && a->swizzle.bits == b->swizzle.bits &&
                            a->swizzle.base == b->swizzle.base && a->swizzle.shift == b->swizzle.shift);
}

static void assert_tuple(const char *text, const char *wanted)
{
    char          printed[PTXPACK_LAYOUT_TEXT];
    ptxpack_tuple t = ptxpack_tuple_parse(text);
    if (t.status != PTXPACK_OK)
        fail_msg("%s: %s", text, ptxpack_detail(NULL));
    assert_int_equal(ptxpack_tuple_print(&t, printed, sizeof printed), strlen(wanted));
    assert_string_equal(printed, wanted);
}

static void assert_layout(const char *text, const char *wanted)
{
    char           printed[PTXPACK_LAYOUT_TEXT];
    ptxpack_layout l = ptxpack_layout_parse(text);
    if (l.shape.status != PTXPACK_OK)
        fail_msg("%s: %s", text, ptxpack_detail(NULL));
    assert_int_equal(ptxpack_layout_print(&l, printed, sizeof printed), strlen(wanted));
    assert_string_equal(printed, wanted);
}

/* ---- reading ------------------------------------------------------------------------------------------ */
static void tuples_are_read(void **state)
{
    (void)state;
    assert_tuple("7", "7");
    assert_tuple(" ( 4 ,\t(2, 3 )\n) ", "(4,(2,3))");
    assert_tuple("(_8,_-3,-4,_)", "(8,-3,-4,_)");
    assert_tuple("_", "_");
    assert_tuple("()", "()");
    assert_tuple("((),(()),3)", "((),(()),3)");
    assert_tuple("((((((((1))))))))", "((((((((1))))))))");
    assert_tuple("(1@0,(1@0@1,_1@1@1),5@31)", "(1@0,(1@0@1,1@1@1),5@31)");
    assert_tuple("0@0@1@2@3@4@5@6@7", "0@0@1@2@3@4@5@6@7");
    assert_tuple("(9223372036854775807,-9223372036854775808)", "(9223372036854775807,-9223372036854775808)");
    assert_tuple("007", "7");
    ptxpack_tuple t = ptxpack_tuple_parse("(4,(2,3))");
    assert_int_equal(t.items, 3);
    assert_true(t.value[0] == 4 && t.value[1] == 2 && t.value[2] == 3);
    assert_true(t.depth[0] == 1 && t.depth[1] == 2 && t.depth[2] == 2);
    assert_true(t.shared[0] == 1 && t.shared[1] == 2 && t.shared[2] == 0);
    t = ptxpack_tuple_parse("3@0@1"); /* mode 0 of mode 1 */
    ptxpack_tuple path = ptxpack_basis(3, 2, (const int[]){1, 0});
    assert_true(same_tuple(&t, &path));
}

static void layouts_are_read(void **state)
{
    (void)state;
    assert_layout("(4,(2,3)):(1,(12,4))", "(4,(2,3)):(1,(12,4))");
    assert_layout("(4,8)", "(4,8):(1,4)");
    assert_layout("(4,(1,2))", "(4,(1,2)):(1,(0,4))");
    assert_layout("8", "8:1");
    assert_layout("_8:_1", "8:1");
    assert_layout("(2,2):(-1,0)", "(2,2):(-1,0)");
    assert_layout("(2,(3,4)):(1@0,(1@0@1,1@1@1))", "(2,(3,4)):(1@0,(1@0@1,1@1@1))");
    assert_layout("Sw<3,4,3> o 0 o (8,64):(64,1)", "Sw<3,4,3> o 0 o (8,64):(64,1)");
    assert_layout("Sw < 2 , 0 , _-3 >o-5o(8,8)", "Sw<2,0,-3> o -5 o (8,8):(1,8)");
    assert_layout("Swizzle<2,3,3> o 5 o 8:1", "Sw<2,3,3> o 5 o 8:1");
    assert_layout("Sw<0,4,3> o 0 o 4:1", "4:1");
    assert_layout("<4:2,_,8>", "<4:2,_,8>");
    assert_layout("<<3:3,(2,4):(1,8)>,(2,_),((2,2)):((1,4))>", "<<3:3,(2,4):(1,8)>,<2,_>,((2,2)):((1,4))>");
    assert_layout("<<<<((((2,3)))):((((1,2)))),<<<<5>>>>>>>>", "<<<<((((2,3)))):((((1,2)))),<<<<5>>>>>>>>");
    assert_layout("_", "_");
    ptxpack_layout tiler = ptxpack_layout_parse("<4:2,<_,8>>");
    assert_true(ptxpack_is_tiler(&tiler));
    assert_true(tiler.tiler[0] == 1 && tiler.tiler[1] == 2 && tiler.tiler[2] == 2);
    ptxpack_layout parts[2] = {ptxpack_layout_parse("4:2"), ptxpack_layout_parse("<_,8>")};
    ptxpack_layout made = ptxpack_make_tiler(2, parts);
    assert_true(same_layout(&tiler, &made));
}

/* ---- printing and reading back ------------------------------------------------------------------------ */
static int64_t any_integer(void)
{
    int64_t n = (int64_t)(random_bits() >> below(64));
    return below(3) == 0 ? -n : n;
}

static ptxpack_tuple random_tuple(int depth, int *room)
{
    ptxpack_tuple modes[5];
    int           path[3] = {below(32), below(4), below(2)}, count = 1 + below(4);
    if (depth == PTXPACK_TUPLE_DEPTH || below(3) == 0 || *room < count) {
        --*room;
        switch (below(12)) {
        case 0:
            return ptxpack_underscore();
        case 1:
            return depth < PTXPACK_TUPLE_DEPTH ? ptxpack_tuple_join(0, NULL) : ptxpack_int(1);
        case 2:
            return ptxpack_basis(any_integer(), 1 + below(3), path);
        default:
            return ptxpack_int(any_integer());
        }
    }
    *room -= count; /* each mode has at least one item */
    for (int i = 0; i < count; i++) {
        ++*room;
        modes[i] = random_tuple(depth + 1, room);
    }
    return ptxpack_tuple_join(count, modes);
}

/* Inserts blanks, and underscores before integers, in random places. */
static void spread(const char *text, char *out)
{
    for (; *text != '\0'; text++) {
        bool inside = text[0] == '@' || (text[0] >= '0' && text[0] <= '9') || (text[-1] == '-');
        if (!inside && below(3) == 0)
            *out++ = " \t\n"[below(3)];
        if (*text >= '1' && *text <= '9' && strchr("(,:", text[-1]) != NULL && below(2) == 0)
            *out++ = '_';
        *out++ = *text;
    }
    *out = '\0';
}

static void random_tuples_come_back(void **state)
{
    (void)state;
    int deepest = 0, most = 0;
    for (int i = 0; i < RUNS; i++) {
        char          text[PTXPACK_LAYOUT_TEXT + 1] = "(", again[2 * PTXPACK_LAYOUT_TEXT];
        int           room = 1 + below(PTXPACK_TUPLE_ITEMS);
        ptxpack_tuple t = random_tuple(0, &room);
        assert_int_equal(t.status, PTXPACK_OK);
        assert_true(ptxpack_tuple_print(&t, text + 1, PTXPACK_LAYOUT_TEXT) < PTXPACK_LAYOUT_TEXT);
        ptxpack_tuple back = ptxpack_tuple_parse(text + 1);
        if (!same_tuple(&t, &back))
            fail_msg("%s does not come back: %s", text + 1, back.status ? ptxpack_detail(NULL) : "other");
        spread(text + 1, again);
        back = ptxpack_tuple_parse(again);
        if (!same_tuple(&t, &back))
            fail_msg("%s is not %s", again, text + 1);
        deepest = ptxpack_depth(&t) > deepest ? ptxpack_depth(&t) : deepest;
        most = t.items > most ? t.items : most;
    }
    assert_int_equal(deepest, PTXPACK_TUPLE_DEPTH);
    assert_true(most > 20);
}

static ptxpack_layout random_layout(int depth)
{
    ptxpack_layout modes[4];
    int            count = 1 + below(3);
    if (depth == 4 || below(2) == 0) {
        ptxpack_tuple shape = ptxpack_int(1 + below(9)), stride = ptxpack_int(below(999) - 99);
        return ptxpack_make_layout(&shape, &stride);
    }
    for (int i = 0; i < count; i++)
        modes[i] = random_layout(depth + 2);
    return ptxpack_layout_join(count, modes);
}

static ptxpack_layout random_tiler(int depth)
{
    ptxpack_layout modes[4];
    int            count = 1 + below(3), what = below(5);
    if (depth > 0 && (depth == 3 || what > 0)) {
        ptxpack_tuple tile = what == 1 ? ptxpack_underscore() : ptxpack_int(1 + below(64));
        return what < 4 ? ptxpack_tiler_of(&tile) : random_layout(2);
    }
    for (int i = 0; i < count; i++)
        modes[i] = random_tiler(depth + 1);
    return ptxpack_make_tiler(count, modes);
}

static void random_layouts_come_back(void **state)
{
    (void)state;
    for (int i = 0; i < RUNS; i++) {
        char           text[PTXPACK_LAYOUT_TEXT];
        ptxpack_layout l = i % 3 == 0 ? random_tiler(0) : random_layout(0);
        if (i % 3 == 1) {
            int             bits = 1 + below(4), shift = bits + below(4);
            ptxpack_swizzle s = {(int8_t)bits, (int8_t)below(9), (int8_t)(below(2) ? shift : -shift)};
            l = ptxpack_make_composed(s, below(100) - 50, &l);
        }
        assert_int_equal(l.shape.status, PTXPACK_OK);
        assert_true(ptxpack_layout_print(&l, text, sizeof text) < sizeof text);
        ptxpack_layout back = ptxpack_layout_parse(text);
        if (!same_layout(&l, &back))
            fail_msg("%s does not come back: %s", text, back.shape.status ? ptxpack_detail(NULL) : "other");
    }
}

/* ---- errors -------------------------------------------------------------------------------------------- */
static const char *const bad_tuples[][2] = {
    {"", "column 1: expected an integer, '_' or '(', found the end"},
    {"(4", "column 3: expected ',' or ')', found the end"},
    {"((4)", "column 5: expected ',' or ')', found the end"},
    {"(4,)", "column 4: expected an integer, '_' or '(', found ')'"},
    {"(,4)", "column 2: expected an integer, '_' or '(', found ','"},
    {"4)", "column 2: expected the end, found ')'"},
    {"4 5", "column 3: expected the end, found '5'"},
    {"(4 5)", "column 4: expected ',' or ')', found '5'"},
    {"(4;5)", "column 3: expected ',' or ')', found ';'"},
    {"-", "column 2: expected a digit, found the end"},
    {"- 3", "column 3: expected a digit, found '3'"},
    {"_-", "column 3: expected a digit, found the end"},
    {"+3", "column 1: expected an integer, '_' or '(', found '+'"},
    {"3.5", "column 2: expected the end, found '.'"},
    {"0x10", "column 2: expected the end, found 'x'"},
    {"(\x01)", "column 2: expected an integer, '_' or '(', found the byte 0x01"},
    {"(\xff)", "column 2: expected an integer, '_' or '(', found the byte 0xff"},
    {"9223372036854775808", "column 1: 9223372036854775808 does not fit 64 bits"},
    {"(1,-9223372036854775809)", "column 4: -9223372036854775809 does not fit 64 bits"},
    {"1@", "column 3: expected an integer, found the end"},
    {"1@32", "column 2: @32 is no mode: 0 to 31 are"},
    {"1@-1", "column 2: @-1 is no mode: 0 to 31 are"},
    {"1@0@0@0@0@0@0@0@0@0", "column 18: more than 8 @"},
    {"_@0", "column 2: expected the end, found '@'"},
    {"(((((((((1)))))))))", "column 9: nested more than 8 deep"},
    {"(((((((((((((((((((((((((", "column 9: nested more than 8 deep"},
    {"(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)", "column 66: more than 32 items"},
};

static const char *const bad_layouts[][2] = {
    {"", "column 1: expected an integer, '_' or '(', found the end"},
    {"(4,8):", "column 7: expected an integer, '_' or '(', found the end"},
    {"(4,8):(1,4", "column 11: expected ',' or ')', found the end"},
    {"(4,8):(1,4))", "column 12: expected the end, found ')'"},
    {"(4,8):(1,4):1", "column 12: expected the end, found ':'"},
    {":1", "column 1: expected an integer, '_' or '(', found ':'"},
    {"Sw<3,4,3>", "column 10: expected 'o', as in Sw<B,M,S> o 0 o (8,8):(8,1), found the end"},
    {"Sw<3,4,3> o 0", "column 14: expected 'o', found the end"},
    {"Sw<3,4,3> o (8,8):(8,1)", "column 13: expected an integer, found '('"},
    {"Sw", "column 3: expected '<', found the end"},
    {"Swiz<3,4,3> o 0 o 8:1", "column 1: expected an integer, '_' or '(', found 'S'"},
    {"Sw<3,4>", "column 7: expected ',', found '>'"},
    {"Sw<3,4,3 o 0 o 8:1", "column 10: expected '>', found 'o'"},
    {"Sw<-1,4,3> o 0 o 8:1", "column 1: a swizzle's B cannot be -1"},
    {"Sw<3,4,99> o 0 o 8:1", "column 1: a swizzle's S cannot be 99"},
    {"Sw<3,4,2> o 0 o 8:1", "column 1: |S| of Sw<B,M,S> must not be below B, nor B + M + |S| above 62"},
    {"Sw<3,60,3> o 0 o 8:1", "column 1: |S| of Sw<B,M,S> must not be below B, nor B + M + |S| above 62"},
    {"Sw<2,0,2> o 0 o <8>", "column 17: expected an integer, '_' or '(', found '<'"},
    {"<>", "column 2: expected an integer, '_' or '(', found '>'"},
    {"<4", "column 3: expected ',' or '>', found the end"},
    {"<4,", "column 4: expected an integer, '_' or '(', found the end"},
    {"<4>>", "column 4: expected the end, found '>'"},
    {"<4,(2,8>", "column 8: expected ',' or ')', found '>'"},
    {"<4>:1", "column 4: expected the end, found ':'"},
    {"<<<<<<<<<4>>>>>>>>>", "column 9: nested more than 8 deep"},
    {"<<<<(((((2)))))>>>>", "column 5: nested more than 8 deep"},
    {"<1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,(1,1)>", "column 64: more than 32 items"},
};

/* Values that the library itself refuses: the line must contain these words. */
/* clang-format off */
static const char *const impossible[][2] = {
    {"(0,8):(1,4)", "extent 0 is not positive"}, {"(4,-8):(1,4)", "extent -8 is not positive"},
    {"(4,8):8", "8"},                           {"(4,(2,4)):(1,4)", "(1,4)"},
    {"(4,_):(1,2)", "(4,_)"},                   {"4:_", "4"},
    {"2:9223372036854775807", "overflow"},      {"(4294967296,4294967296):(0,0)", "overflow"},
    {"<4,0>", "column 4: a tile of 0"},         {"<(4,2):1>", "column 2: "},
    {"<4:2,()>", "column 6: "},                 {"Sw<2,0,2> o 0 o (4,0):(1,2)", "extent 0"},
};
/* clang-format on */

static void errors_name_the_column(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_tuples / sizeof bad_tuples[0]; i++) {
        ptxpack_tuple t = ptxpack_tuple_parse(bad_tuples[i][0]);
        assert_int_equal(t.status, PTXPACK_E_ARG);
        assert_string_equal(ptxpack_detail(NULL), bad_tuples[i][1]);
    }
    for (size_t i = 0; i < sizeof bad_layouts / sizeof bad_layouts[0]; i++) {
        ptxpack_layout l = ptxpack_layout_parse(bad_layouts[i][0]);
        assert_int_equal(l.shape.status, PTXPACK_E_ARG);
        assert_string_equal(ptxpack_detail(NULL), bad_layouts[i][1]);
    }
    for (size_t i = 0; i < sizeof impossible / sizeof impossible[0]; i++) {
        ptxpack_layout l = ptxpack_layout_parse(impossible[i][0]);
        assert_int_equal(l.shape.status, PTXPACK_E_ARG);
        if (strstr(ptxpack_detail(NULL), impossible[i][1]) == NULL)
            fail_msg("%s: %s", impossible[i][0], ptxpack_detail(NULL));
    }
    assert_int_equal(ptxpack_tuple_parse(NULL).status, PTXPACK_E_ARG);
    assert_int_equal(ptxpack_layout_parse(NULL).shape.status, PTXPACK_E_ARG);
}

/* A text of any length ends in an error, quickly and without a deep stack. */
static void long_texts_end(void **state)
{
    (void)state;
    enum { LENGTH = 1 << 20 };
    char *text = (char *)malloc(LENGTH + 1);
    assert_non_null(text);
    for (const char *c = "(<-1 _,@"; *c != '\0'; c++) {
        memset(text, *c, LENGTH);
        text[LENGTH] = '\0';
        assert_int_equal(ptxpack_tuple_parse(text).status, PTXPACK_E_ARG);
        assert_int_equal(ptxpack_layout_parse(text).shape.status, PTXPACK_E_ARG);
        assert_true(strlen(ptxpack_detail(NULL)) < 200);
    }
    free(text);
}

static void printing_is_like_snprintf(void **state)
{
    (void)state;
    static const char whole[] = "Sw<3,4,3> o -7 o (8,(4,2)):(64,(1,-4))";
    ptxpack_layout    l = ptxpack_layout_parse(whole);
    for (size_t cap = 0; cap <= sizeof whole; cap++) {
        char text[sizeof whole + 2];
        memset(text, '#', sizeof text);
        assert_int_equal(ptxpack_layout_print(&l, text, cap), sizeof whole - 1);
        if (cap > 0) {
            assert_int_equal(strlen(text), cap - 1 < sizeof whole - 1 ? cap - 1 : sizeof whole - 1);
            assert_memory_equal(text, whole, strlen(text));
        }
        assert_int_equal(text[cap], '#');
    }
    assert_int_equal(ptxpack_layout_print(&l, NULL, 0), sizeof whole - 1);
    char          text[16];
    ptxpack_tuple no = ptxpack_tuple_parse("(");
    assert_int_equal(ptxpack_tuple_print(&no, text, sizeof text), 5);
    assert_string_equal(text, "error");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tuples_are_read),           cmocka_unit_test(layouts_are_read),
        cmocka_unit_test(random_tuples_come_back),   cmocka_unit_test(random_layouts_come_back),
        cmocka_unit_test(errors_name_the_column),    cmocka_unit_test(long_texts_end),
        cmocka_unit_test(printing_is_like_snprintf),
    };
    return cmocka_run_group_tests(tests, print_seed, NULL);
}
