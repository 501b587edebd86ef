/* errors.c - the list of all errors of a text: what is in it, in which order, and what is not because it follows from
 * another error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/support/emu_fixture.h"
#include "tests/support/unit.h"
#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

#define HEADER    ".version 8.0\n.target sm_80\n.address_size 64\n"
#define REGISTERS ".reg .b32 %r<4>; .reg .b64 %d<2>; .reg .pred %p<2>;\n"
#define KERNEL    HEADER ".visible .entry k(.param .u64 a)\n{\n" REGISTERS /* what follows begins on line 7 */

static char              said[1 << 16];
static struct ptx_errors errors;

/* All errors of the text as lines; the result of the load must be that of invalid PTX. */
static const char *errors_of(const char *text, size_t bytes)
{
    unsigned int result = 0;
    memset(said, 0, sizeof said);
    errors = (struct ptx_errors){.text = said, .cap = sizeof said, .most = PTX_ERRORS};
    assert_null(emu_module_load(&emu_test_settings, text, bytes, true, NULL, &result, &errors));
    assert_int_equal(result, 218);
    return said;
}

static void check(const char *text, const char *expected)
{
    assert_string_equal(errors_of(text, strlen(text)), expected);
    unsigned int lines = 1;
    for (const char *at = said; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    assert_int_equal(errors.kept, lines);
    assert_int_equal(errors.count, lines);
}

TEST(test_each_statement)
{
    check(KERNEL "mov.u32 %r9, %r10;\n"           /* both names */
                 "@%p7 add.u32 %r1, %r2, %z.x;\n" /* a guard, a component */
                 "add.u32 %r1, %r2, %r3\n"        /* the next statement is read */
                 "add.u32 %r1, %r2;\n"
                 "ld.global.v2.u32 {%r1, %r8}, [%d1];\n" /* this brace ends no block */
                 "frob.u32 %r1;\n"
                 "mov.u32 %r1, (, %r2; bra L9;\n"
                 "mov.u32 %r1, %r8;\n"
                 "ret;\n}\n",
          "line 7: unknown name '%r9'\nline 7: unknown name '%r10'\n"
          "line 8: unknown name '%p7'\nline 8: unknown name '%z'\n"
          "line 9: ';' is missing before 'add'\n"
          "line 11: unknown name '%r8'\n"
          "line 13: a constant expected instead of ','\n"
          "line 14: unknown name '%r8'\n"
          "line 13: unknown name 'L9'\n"
          "line 10: add.u32 %r1, %r2: 2 operands instead of 3\n"
          "line 12: frob.u32 %r1: this instruction is not supported");
}

/* A '}' that closes a list ends no block; lines that continue a statement begin none. */
TEST(test_braces)
{
    check(KERNEL "{\nld.global.v2.u32 {%r1, %r2.y}, [%d1];\nadd.u32 %r1;\n}\n"
                 "call.uni (%r1.x),\nfunction,\n(\nfirst,\nsecond\n);\nadd.u32 %r2;\nret;\n}\n",
          "line 8: '%r' has no component '.y'\nline 11: '%r' has no component '.x'\n"
          "line 9: add.u32 %r1: 1 operands instead of 3\nline 17: add.u32 %r2: 1 operands instead of 3");
}

TEST(test_several_functions)
{
    check(
        KERNEL
        "add.u32 %r1;\n" /* its '}' is missing */
        ".visible .entry l() {\n" REGISTERS "add.u32 %r2;\nret;\n}\n"
        ".visible .entry m(.param .u63 a) {\nadd.u32 %unknown;\n{ ret; }\n}\n" /* unknown parameters: no look */
        ".global .u63 x;\n.global .u33 y;\n"
        ".visible .entry n() {\n" REGISTERS "add.u32 %r3;\nret;\n}\n",
        "line 8: '.visible' has no meaning within a function\n"
        "line 13: '.u63' has no meaning in this declaration\n"
        "line 17: '.u63' has no meaning in this declaration\n"
        "line 18: '.u33' has no meaning in this declaration\n"
        "line 7: add.u32 %r1: 1 operands instead of 3\n"
        "line 10: add.u32 %r2: 1 operands instead of 3\n"
        "line 21: add.u32 %r3: 1 operands instead of 3");
}

/* One error, although much else cannot be understood for its sake. */
TEST(test_what_follows)
{
    check(KERNEL ".reg .b33 %s<5>;\nmov.u32 %r1, %s1;\nadd.u32 %s1, %s2, %s3;\nret;\n}\n",
          "line 7: '.b33' has no meaning in this declaration");
    check(KERNEL ".shared .b33 buffer[4];\nmov.u32 %r1, buffer;\nld.shared.u32 %r1, [buffer+4];\nret;\n}\n",
          "line 7: '.b33' has no meaning in this declaration");
    check(HEADER ".func f(.param .u63 a) { ret; }\n.visible .entry k() { call f, (1);\n ret; }\n",
          "line 4: '.u63' has no meaning in this declaration");
    check(KERNEL "L1: # add.u32 %r1, %r2, %r3;\nbra L1;\nret;\n}\n", "line 7: '#' has no meaning here");
    check(KERNEL "bra L1;\nmov.u32 %r1, %r2;\n/* this comment hides the rest\nL1: ret;\n}\n",
          "line 9: this comment does not end");
    check(KERNEL "ret;\n}\n}\nmov.u32 %r1, %r2;\nret;\n}\n",
          "line 9: a variable or a function expected instead of '}'");
    check(KERNEL "ret;\n", "line 8: the body of 'k' does not end");
    check(
        HEADER
        ".func (.reg .b32 r) f(.reg .b32 a, .reg .b32 b, .reg .b32 c) {\n# ret; }\n", /* nor has it registers */
        "line 5: '#' has no meaning here");
    check(KERNEL "T: .calltargets f, k;\ncall (%r1), %d1, (%r2), T;\nmov.u64 %d1, f;\nret;\n}\n",
          "line 7: unknown name 'f'\nline 9: unknown name 'f'");
    check(KERNEL "T: .branchtargets L1, L2;\nbrx.idx %r1, T;\nL1: ret;\n}\n", "line 7: unknown name 'L2'");
}

TEST(test_bounds)
{
    enum { WRONG = 350 };
    char  *text = (char *)malloc(WRONG * 32 + 1000), line[64];
    size_t at = (size_t)sprintf(text, "%s", KERNEL);
    for (int i = 0; i < WRONG; i++)
        at += (size_t)sprintf(text + at, "mov.u32 %%r1, %%r%d;\n", i + 4);
    at += (size_t)sprintf(text + at, "ret;\n}\n");
    errors_of(text, at);
    assert_int_equal(errors.count, WRONG);
    assert_int_equal(errors.kept, PTX_ERRORS);
    snprintf(line, sizeof line, "line %d: unknown name '%%r%d'", 6 + PTX_ERRORS, 3 + PTX_ERRORS);
    assert_string_equal(strrchr(said, '\n') + 1, line);
    free(text);
}

/* The time to find the end of a wrong statement must not grow faster than the text: each of these takes minutes if
 * the rest of the text is looked at for every error. */
TEST(test_time)
{
    static const char *const pieces[] = {".visible\n",
                                         ".visible ",
                                         ".global .u9 x\n",
                                         "#\n",
                                         ".entry k(){.x}",
                                         ".x\n",
                                         "}",
                                         "/*",
                                         "\"",
                                         "x:\n",
                                         ".reg\n",
                                         "mov\n",
                                         "{",
                                         "@@",
                                         "(",
                                         ".extern\n",
                                         ".reg .b32 x;",
                                         "@x\n"};
    enum { BYTES = 2 << 20 };
    char *text = (char *)malloc(BYTES + 1000);
    for (unsigned int i = 0; i < 2 * sizeof pieces / sizeof *pieces; i++) {
        const char *piece = pieces[i / 2];
        size_t      at = (size_t)sprintf(text, "%s", i % 2 ? KERNEL : HEADER);
        while (at < BYTES)
            at += (size_t)sprintf(text + at, "%s", piece);
        errors_of(text, at);
        assert_true(errors.count > 0);
    }
    free(text);
}

int main(void) { return unit_run(NULL, NULL); }
