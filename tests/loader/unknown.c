/* unknown.c - words of an expansion that are neither macros nor instructions, and what is no such word. */
#include <stdio.h>
#include <string.h>
#include "loader/expand/unknown.h"
#include "tests/support/unit.h"
#include "expand_fixture.h"

#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

static ptxpack_expansion *expanded(const char *text)
{
    ptxpack_expansion *e = NULL;
    assert_int_equal(fixture_text(text, &e), PTXPACK_OK);
    return e;
}

/* The first unknown word is in that line of the output, and this is what is said; 0: there is none. */
static void expect(const char *text, size_t want_line, const char *want)
{
    char               line[256] = "";
    ptxpack_expansion *e = expanded(text);
    size_t             found = ptxpack_expansion_unknown(e, 0, line, sizeof line);
    if (found != want_line || strcmp(line, want) != 0)
        fail_msg("line %zu, \"%s\" of: %s", found, line, text);
    ptxpack_expansion_free(e);
}

TEST(what_may_begin_a_line_is_not_unknown)
{
    expect("AGAIN:\n  bra AGAIN;\n", 0, "");
    expect("{\n@%p bra DONE;\nDONE: ret;\n}\n", 0, "");
    expect(".visible .func\nMY_FUNCTION\n(.reg .u32 a)\n{\n ret;\n}\n", 0, "");
    expect(".global .u64 t[2] = {\n  TABLE_A,\n  TABLE_B\n};\n", 0, "");
    expect("call (%r), MY_FUNCTION,\n  MY_ARGUMENTS;\n", 0, "");
    expect("mad.lo.u32 %a,\n  WARP_SZ, %b, %c;\n", 0, "");
    expect("add.u32 %a, %b, %c;\n\nmov.u32 %x, Y_Z;\n", 0, "");
    expect("", 0, "");
}

TEST(what_is_unknown_is_named_with_the_nearest_macros)
{
    static const char macros[] =
        ".macro ROW_REDUCE\n.endm\n.macro ROW_REDUCE_MAX\n.endm\n.macro ROW_SUM\n.endm\n";
    char text[512];
    snprintf(text, sizeof text, "%sret;\nROW_REDUSE %%a, %%b\nret;\n", macros);
    expect(text, 2, "no macro or instruction ROW_REDUSE; near: ROW_REDUCE");
    snprintf(text, sizeof text, "%sRWO_SUM %%a\n", macros); /* two letters exchanged */
    expect(text, 1, "no macro or instruction RWO_SUM; near: ROW_SUM");
    snprintf(text, sizeof text, "%s.version 7.0\nRWO_SUM %%a\n", macros);
    expect(text, 2, "no macro or instruction RWO_SUM; near: ROW_SUM");
    snprintf(text, sizeof text, "%sret;\n@!%%p row_sums;\n", macros);
    expect(text, 2, "no macro or instruction row_sums; near: ROW_SUM");
    snprintf(text, sizeof text, "%s{\nSOMETHING_ELSE\n}\n", macros);
    expect(text, 2, "no macro or instruction SOMETHING_ELSE");
    expect(".macro AAA1\n.endm\n.macro AAA2\n.endm\n.macro AAA3\n.endm\n.macro AAA4\n.endm\nret;\nAAA %x\n", 2,
           "no macro or instruction AAA; near: AAA1, AAA2, AAA3");
}

TEST(all_of_them_are_found_one_after_another)
{
    char               line[256];
    ptxpack_expansion *e = expanded("ret;\nFIRST_ONE\nSECOND_ONE %a\nret;\nADD\n");
    assert_int_equal(ptxpack_expansion_unknown(e, 0, line, sizeof line), 2);
    assert_int_equal(ptxpack_expansion_unknown(e, 2, line, sizeof line), 3);
    assert_int_equal(ptxpack_expansion_unknown(e, 3, line, sizeof line), 5);
    assert_string_equal(line, "no macro or instruction ADD");
    assert_int_equal(ptxpack_expansion_unknown(e, 5, line, sizeof line), 0);
    ptxpack_expansion_free(e);
}

RUN_TESTS(NULL, NULL)
