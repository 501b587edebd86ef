/* expand.c - the macro expander: features that as does not have, errors, limits, the line map, memory,
 * speed. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <pthread.h>
#include <unistd.h>

#include "expand_fixture.h"
#include "tests/support/unit.h"

#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- memory that runs out -------------------------------------------------------------------------- */

#if !SANITIZED && defined(__GLIBC__)
#define CAN_FAIL_MEMORY 1
/* glibc's own functions under our names: the allocation to which `fail_at` counts down fails. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
static long  fail_at = -1;
static bool  out_of_memory(void) { return fail_at >= 0 && fail_at-- == 0; }
void        *malloc(size_t size) { return out_of_memory() ? NULL : __libc_malloc(size); }
void        *calloc(size_t count, size_t size) { return out_of_memory() ? NULL : __libc_calloc(count, size); }
void        *realloc(void *old, size_t size) { return out_of_memory() ? NULL : __libc_realloc(old, size); }
#else
#define CAN_FAIL_MEMORY 0
static long fail_at = -1;
#endif

/* ---- helpers --------------------------------------------------------------------------------------- */

/* The text must expand to `want`. */
static void check(const char *text, const char *want)
{
    ptxpack_expansion *e;
    size_t             bytes;
    ptxpack_status     status = fixture_text(text, &e);
    if (status != PTXPACK_OK)
        fail_msg("%s\n%s", text, ptxpack_expansion_error(e));
    assert_string_equal(ptxpack_expansion_text(e, &bytes), want);
    assert_int_equal(bytes, strlen(want));
    assert_string_equal(ptxpack_expansion_error(e), "");
    ptxpack_expansion_free(e);
}

/* Expanding f must fail with exactly this message. */
static void check_error_of(fixture *f, const char *want)
{
    ptxpack_expansion *e;
    ptxpack_status     status = fixture_expand(f, &e);
    assert_int_equal(status, PTXPACK_E_EXPAND);
    assert_non_null(e);
    assert_string_equal(ptxpack_expansion_error(e), want);
    assert_null(ptxpack_expansion_text(e, NULL));
    ptxpack_expansion_free(e);
}

static void check_error(const char *text, const char *want)
{
    fixture f = {.files = {{"t", text}}};
    check_error_of(&f, want);
}

static void check_warning(const char *text, const char *want)
{
    ptxpack_expansion *e;
    assert_int_equal(fixture_text(text, &e), PTXPACK_OK);
    assert_string_equal(ptxpack_expansion_warnings(e), want);
    ptxpack_expansion_free(e);
}

/* ---- PTX, not assembler ---------------------------------------------------------------------------- */

TEST(test_plain_text)
{
    check("", "");
    check("\n\n  \n", "");
    check("a\n\n\nb", "a\nb\n");
    check("  mov.b32 %r1, %r2;   \r\n", "  mov.b32 %r1, %r2;\n");
    check("\xEF\xBB\xBF.version 7.0\n", ".version 7.0\n");
    check(".version 7.0\n.target sm_80\n.reg .b32 %r<4>;\n.section x\n.align 4\n.file 1 \"a\"\n",
          ".version 7.0\n.target sm_80\n.reg .b32 %r<4>;\n.section x\n.align 4\n.file 1 \"a\"\n");
    check("a; b; # c\n@p bra L;\n@!p ret;\n{ a }\n[x]\n$l: x;\n%r = 1;\n",
          "a; b; # c\n@p bra L;\n@!p ret;\n{ a }\n[x]\n$l: x;\n%r = 1;\n");
    check(".macro M\nX\n.endm\n@p M\n{ M }\nM2\nM.x\n%M\n", "@p M\n{ M }\nM2\nM.x\n%M\n");
    check("mad.lo.u32 %r1, %r2,\n   %r3, %r4;\n", "mad.lo.u32 %r1, %r2,\n   %r3, %r4;\n");
    check("cp.async.bulk.shared::cluster [a];\nfence::x y\n",
          "cp.async.bulk.shared::cluster [a];\nfence::x y\n");
}

TEST(test_labels)
{
    check(".macro M a\nx\\a;\n.endm\nL: M 1\n$L_2:  M 2\nA: B: M 3\nC: y;\nD:\n",
          "L:\nx1;\n$L_2:\nx2;\nA: B:\nx3;\nC: y;\nD:\n");
    check("L: .if 1\nx\n.endif\nM: .set a, 1\nN: .rept 2\ny\nO: .endr\n", "L:\nx\nM:\nN:\ny\ny\n");
}

TEST(test_comments)
{
    check("a // it's \"one\n// all\n/* b */ c /* d\n e */ f\n/**/g/***/\n", "a\n  c\n f\n g\n");
    check(".macro M a // it's\n x\\a; // \\a don't\n /* \\a\n ' */ y;\n.endm // end\nM 1 // M's\n",
          " x1;\n y;\n");
    check(".pragma \"a // b /* c\";\n", ".pragma \"a // b /* c\";\n");
    check("a/b c/ /d\n", "a/b c/ /d\n");
    check(".set q, '/'\n.set r, '\"' // x\n\\[q] \\[r] // \"\n", "47 34\n");
    check("x/* */y\n", "x y\n");
}

/* ---- \[expr] and \{...} ---------------------------------------------------------------------------- */

TEST(test_values)
{
    check(".set N, 4\n%r\\[N] \\[N*2+1] \\[ -N ] \\[(N==4)] \\[[N]+1]\n", "%r4 9 -4 -1 5\n");
    check(".macro M j\n%s\\[4*\\j+1], %s\\[4*\\j+\\j]\\()x;\n.endm\nM 3\nM 1+1\n",
          "%s13, %s15x;\n%s6, %s7x;\n");
    check(".set N, 2\n.macro M a, b\n\\a-\\b\n.endm\nM \\[N], \\[N + 1]\nM a\\[N]b \\[N]\n", "2-3\na2b-2\n");
    check(".set N, 2\n.irp i, \\[N], \\[2 * N]\nx\\i y\\[\\i*\\i]\n.endr\n", "x2 y4\nx4 y16\n");
    check(".set N, 3\n.set v\\[N], 7\n.set M\\[N], \\[N]\n\\[v3] \\[M3]\n", "7 3\n");
    check(".set x, 1\n.rept 3\n\\[x]\n.set x, x * 2\n.endr\n", "1\n2\n4\n");
    check(".set N, 1\nx N \\[N]\n", "x N 1\n");
    check(".set N, 1\n.if 0\n\\[none]\n.elseif \\[N] == 1\na\n.elseif \\[none]\n.endif\n", "a\n");
    check(".set a, -9223372036854775807 - 1\n\\[a] \\[a/-1] \\[a%-1] \\[-a] \\[a-1]\n",
          "-9223372036854775808 -9223372036854775808 0 -9223372036854775808 9223372036854775807\n");
}

TEST(test_lists)
{
    check("{\\{i=0..3: %s\\i}};\n", "{%s0, %s1, %s2, %s3};\n");
    check(".set N, 3\n\\{i=0..N-1: %s\\[2*\\i+1]}\n", "%s1, %s3, %s5\n");
    check("\\{ i = 1 .. 2 :  a\\i\\()b }\n", "a1b, a2b\n");
    check("[\\{i=1..0: x}]\n", "[]\n");
    check("\\{i=-1..1: \\i}\n", "-1, 0, 1\n");
    check("\\{i=0..1: {%a\\i, %b\\i}}\n", "{%a0, %b0}, {%a1, %b1}\n");
    check("\\{i=0..1: \\{j=0..1: %\\[2*\\i+\\j]}}\n", "%0, %1, %2, %3\n");
    check("\\{i=-1..1: \\{j=0..\\i: \\i:\\j}}\n", "0:0, 1:0, 1:1\n");
    check(".macro M i, n, x\n\\{i=0..\\n-1: \\x\\i\\()y\\i}, \\i;\n.endm\nM 7, 2, %r\n", "%r0y0, %r1y1, 7;\n");
    check(".macro M j, r\n{\\{i=0..1: %\\r\\[2*\\j+\\i]}} \\j\n.endm\n.irp i, 5, 6\nM \\i, q\n.endr\n",
          "{%q10, %q11} 5\n{%q12, %q13} 6\n");
    check(".macro M a:vararg\n\\a\n.endm\nM \\{i=0..2: %\\i}\n", "%0,%1,%2\n");
    check(".irp r, \\{k=0..2: %\\k}\n<\\r>\n.endr\n", "<%0>\n<%1>\n<%2>\n");
    check(".macro M a, b\n\\b \\a\n.endm\nM \"\\{i=0..1: %\\i}\", x\n", "x %0, %1\n");
    check(".macro A v\n.macro B w\n\\{i=0..\\v: \\w\\i} \\@\n.endm\n.endm\nA 1\nB z\n", "z0, z1 0\n");
    check("\\{i=9223372036854775806..9223372036854775807: \\i}\n",
          "9223372036854775806, 9223372036854775807\n");
}

/* ---- symbols, reader, API -------------------------------------------------------------------------- */

TEST(test_symbols)
{
    ptxpack_expansion *e;
    int64_t            value;
    fixture            f = {
                   .files = {{"t", ".if BF16\nbf16 \\[D]\n.endif\n.set D, D + 1\n.set E, -1\n"}},
                   .symbols = {{"D", 64}, {"BF16", 1}, {"D", 128}},
    };
    assert_int_equal(fixture_expand(&f, &e), PTXPACK_OK);
    assert_string_equal(ptxpack_expansion_text(e, NULL), "bf16 128\n");
    assert_true(ptxpack_expansion_symbol(e, "D", &value));
    assert_int_equal(value, 129);
    assert_true(ptxpack_expansion_symbol(e, "E", &value));
    assert_int_equal(value, -1);
    assert_false(ptxpack_expansion_symbol(e, "F", &value));
    assert_false(ptxpack_expansion_symbol(e, "", &value));
    ptxpack_expansion_free(e);
}

TEST(test_arguments)
{
    static const char *const bad[] = {"", "1a", "a.b", "a b", "$a", NULL};
    ptxpack_expansion       *e;
    fixture                  f = {.files = {{"t", "x\n"}}};
    ptxpack_expand_options   o = {.size = sizeof o, .read = fixture_read, .context = &f};
    assert_int_equal(ptxpack_expand(NULL, &o, &e), PTXPACK_E_ARG);
    ptxpack_expansion_free(e);
    assert_int_equal(ptxpack_expand("t", NULL, &e), PTXPACK_E_ARG);
    assert_string_not_equal(ptxpack_expansion_error(e), "");
    ptxpack_expansion_free(e);
    o.size--;
    assert_int_equal(ptxpack_expand("t", &o, &e), PTXPACK_E_ARG);
    ptxpack_expansion_free(e);
    o.size++;
    o.max_depth = PTXPACK_EXPAND_MAX_DEPTH + 1;
    assert_int_equal(ptxpack_expand("t", &o, &e), PTXPACK_E_ARG);
    ptxpack_expansion_free(e);
    o.max_depth = PTXPACK_EXPAND_MAX_DEPTH;
    assert_int_equal(ptxpack_expand("t", &o, &e), PTXPACK_OK);
    ptxpack_expansion_free(e);
    for (size_t i = 0; i < COUNT(bad); i++) {
        ptxpack_symbol symbol = {bad[i], 1};
        o.symbols = &symbol;
        o.symbol_count = 1;
        assert_int_equal(ptxpack_expand("t", &o, &e), PTXPACK_E_ARG);
        ptxpack_expansion_free(e);
    }
    o.symbol_count = 0;
    o.read = NULL;
    assert_int_equal(ptxpack_expand("t", &o, &e), PTXPACK_E_ARG);
    ptxpack_expansion_free(e);
    ptxpack_expansion_free(NULL);
    assert_null(ptxpack_expansion_text(NULL, NULL));
    assert_string_equal(ptxpack_expansion_error(NULL), "");
    assert_string_equal(ptxpack_expansion_warnings(NULL), "");
}

TEST(test_include)
{
    ptxpack_expansion *e;
    fixture            f = {.files = {
                                {"k/a.ptx", ".include \"s/b.ptx\"\n.include \"s/b.ptx\"\nM 1\n"},
                                {"s/b.ptx", ".ifndef B_\n.set B_, 1\n.macro M a\nm\\a\n.endm\n.endif\nb"},
                 }};
    assert_int_equal(fixture_expand(&f, &e), PTXPACK_OK);
    assert_string_equal(ptxpack_expansion_text(e, NULL), "b\nb\nm1\n");
    ptxpack_expansion_free(e);
}

/* ---- errors ---------------------------------------------------------------------------------------- */

TEST(test_errors)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"a\n.macro f\n.endm\nf 1\n", "t:4: too many arguments for the macro f: it takes 0"},
        {".macro f a:req\n.endm\n\nf\n", "t:4: the required parameter a of the macro f has no value"},
        {".macro f a\n.endm\nf b=1\n", "t:3: the macro f has no parameter named b"},
        {".macro f a\n.endm\nf \"abc\n", "t:3: a \" is not closed"},
        {"x\n.macro q\n", "t:2: the .macro that begins here has no .endm"},
        {".endm\n", "t:1: .endm without .macro"},
        {".endr\n", "t:1: .endr without .rept, .irp or .irpc"},
        {".rept 2\n.rept 1\n.endr\n", "t:1: the loop that begins here has no .endr"},
        {"\n.if 1\n", "t:2: the .if that begins here has no .endif"},
        {".endif\n", "t:1: .endif without .if"},
        {".else\n", "t:1: .else without .if"},
        {".elseif 1\n", "t:1: .elseif without .if"},
        {".macro M\nx\n.if 1\n.endm\nM\n", "t:5: the .if that begins here has no .endif (in macro M, t:3)"},
        {".if 0\n.else\n.else\n.endif\n", "t:3: .else after .else, in the .if of line 1"},
        {".set N, 2\n.error \"N is \\[N]\"\n", "t:2: N is 2"},
        {".error\n", "t:1: .error"},
        {".exitm\n", "t:1: .exitm stands outside macros and loops"},
        {"a\n\n/* b\n", "t:3: the comment that begins here is not closed"},
        {".include \"no\"\n", "t:1: there is no file \"no\""},
        {".include no\n", "t:1: expected .include \"FILE\""},
        {"x \\[y+1]\n", "t:1: unknown symbol y in the expression \"y+1\""},
        {"x \\[1\n", "t:1: \\[ is not closed by ]"},
        {"x \\[]\n", "t:1: a value is missing at the end of the expression \"\""},
        {"x \\[1/0]\n", "t:1: division by zero in the expression \"1/0\""},
        {"x \\[1 2]\n", "t:1: unexpected text at \"2\" in the expression \"1 2\""},
        {"x \\[(1]\n", "t:1: expected ) at the end of the expression \"(1\""},
        {"x \\[09]\n", "t:1: a malformed number at \"9\" in the expression \"09\""},
        {"x \\[18446744073709551616]\n", "t:1: a number of more than 64 bits at \"6\" in the expression "
                                         "\"18446744073709551616\""},
        {"x \\{i=0..3: y\n", "t:1: \\{ is not closed by }"},
        {"x \\{0..3: y}\n", "t:1: expected \\{NAME=FIRST..LAST: item}"},
        {"x \\{i=3: y}\n", "t:1: expected \\{i=FIRST..LAST: item}"},
        {"x \\{i=0..n: y}\n", "t:1: unknown symbol n in the expression \"n\""},
        {".macro A\n.error \"deep\"\n.endm\n.macro B\n\n A\n.endm\nB\n",
         "t:8: deep (in macro B, t:6) (in macro A, t:2)"},
        {".rept 2\n.error \"loop\"\n.endr\n", "t:2: loop"},
        {".macro Long_Name a\n.endm\nLONG_NAME 1 2\n",
         "t:3: too many arguments for the macro Long_Name: it takes 1"},
        {".set 1, 2\n", "t:1: expected a symbol name, not \"1, 2\""},
        {".rept -1\n.endr\n", "t:1: a negative count: -1"},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        check_error(cases[i].text, cases[i].error);
}

TEST(test_errors_in_files)
{
    fixture f = {.files = {{"k.ptx", "\n.include \"s.ptx\"\n"}, {"s.ptx", "x\n.if foo\n.endif\n"}}};
    check_error_of(&f, "k.ptx:2: unknown symbol foo in the expression \"foo\" (in s.ptx:2)");
    f.files[1].text = "\n/* x\n";
    check_error_of(&f, "k.ptx:2: the comment that begins here is not closed (in s.ptx:2)");
    f.files[1].text = "\n.if 1\n";
    check_error_of(&f, "k.ptx:2: the .if that begins here has no .endif (in s.ptx:2)");
    f = (fixture){.files = {{"nul", "a\nb\0c\n"}}, .bytes = 6};
    check_error_of(&f, "nul:2: there is a NUL byte here");
    f = (fixture){.files = {{"other", ""}}};
    ptxpack_expand_options o = {.size = sizeof o, .read = fixture_read, .context = &f};
    ptxpack_expansion     *e;
    assert_int_equal(ptxpack_expand("gone", &o, &e), PTXPACK_E_EXPAND);
    assert_string_equal(ptxpack_expansion_error(e), "gone: there is no file \"gone\"");
    ptxpack_expansion_free(e);
}

TEST(test_warnings)
{
    check_warning("x\n.warning \"w \\[1+1]\"\n.warning\n", "t:2: w 2\nt:3: .warning\n");
    check_warning(".macro M a\nx \\b;\n.endm\nM 1\n",
                  "t:4: there is nothing to put in place of \"\\b;\" (in macro M, t:2)\n");
    check_warning(".pragma \"a\\b\";\n", "");
    check_warning(".set x, 1 << 64\n", "t:1: shift count 64 is not between 0 and 63\n");
    check_warning(".purgem q\n", "t:1: there is no macro \"q\" to purge\n");
}

/* ---- limits: nothing hangs, nothing grows without bound -------------------------------------------- */

/* All these texts would run for ever or fill memory; the message must begin with the place and contain
 * `part`. */
TEST(test_limits)
{
    static const struct {
        const char *text, *place, *part;
    } cases[] = {
        {".macro f a\n f \\a\n.endm\n\nf 1\n", "t:5: ", "nested more than 200 deep (in macro f, t:2)"},
        {".macro f\nf\nf\n.endm\nf\n", "t:5: ", "nested more than 200 deep"},
        {".include \"t\"\n", "t:1: ", "nested more than 200 deep (in t:1)"},
        {".rept 1000000000\n.endr\n", "t:1: ", "steps"},
        {".rept 9223372036854775807\n.endr\n", "t:1: ", "steps"},
        {"\n.rept 1000000000\n.rept 1000000\n.set a, 1\n.endr\n.endr\n", "t:", "steps"},
        {".macro A x\nA \"\\x\\x\"\n.endm\nA \"0123456789\"\n", "t:4: ", "bytes"},
        {".macro A x\nA \"\\x\\x\"\n.endm\nA \"\"\n", "t:4: ", "deep"},
        {"x \\{i=0..100000000000: }\n", "t:1: ", "steps"},
        {"x \\{i=0..1000000000: %r\\i}\n", "t:1: ", "text grows beyond"},
        {".rept 100000000\n0123456789012345678901234567890123456789\n.endr\n", "t:2: ", "text grows beyond"},
        {".macro M\n.rept 1000\nM\n.endr\n.endm\nM\n", "t:6: ", "deep"},
        {".set i, 0\n.rept 100000000\n.macro m\\[i]\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n.endm\n.set i, "
         "i+1\n.endr\n",
         "t:", "take more than"},
        {".set i, 0\n.rept 100000000\n.set s\\[i], 1\n.set i, i+1\n.endr\n", "t:", ""},
        {"\\{a=0..9999:\\{b=0..9999:\\{c=0..9999:\\{d=0..9999:}}}}\n", "t:1: ", "steps"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        ptxpack_expansion *e;
        fixture            f = {.files = {{"t", cases[i].text}}, .max_output = 4 << 20};
        assert_int_equal(fixture_expand(&f, &e), PTXPACK_E_EXPAND);
        const char *error = ptxpack_expansion_error(e);
        const char *slow =
            strstr(error, "the expansion takes more than"); /* that limit comes first on a busy machine */
        if (slow == NULL && (strncmp(error, cases[i].place, strlen(cases[i].place)) != 0 ||
                             strstr(error, cases[i].part) == NULL))
            fail_msg("%s\n%s", cases[i].text, error);
        assert_true(strlen(error) < 4096);
        ptxpack_expansion_free(e);
    }
}

/* Makes a text of `count` times `open`, then `middle`, then `count` times `close`. */
static char *nest(size_t count, const char *open, const char *middle, const char *close)
{
    char *text = (char *)malloc(count * (strlen(open) + strlen(close)) + strlen(middle) + 1), *at = text;
    assert_non_null(text);
    for (size_t i = 0; i < count; i++)
        at = stpcpy(at, open);
    at = stpcpy(at, middle);
    for (size_t i = 0; i < count; i++)
        at = stpcpy(at, close);
    return text;
}

static void check_nest(size_t count, const char *open, const char *middle, const char *close,
                       ptxpack_status want)
{
    ptxpack_expansion *e;
    char              *text = nest(count, open, middle, close);
    fixture            f = {.files = {{"t", text}}, .max_depth = 1000};
    ptxpack_status     status = fixture_expand(&f, &e);
    if (status != want)
        fail_msg("%s...%s: %s", open, close, ptxpack_expansion_error(e));
    ptxpack_expansion_free(e);
    free(text);
}

TEST(test_nesting)
{
    check_nest(100000, ".if 1\n", "x\n", ".endif\n", PTXPACK_OK);
    check_nest(100000, ".if 0\n", "x\n", ".endif\n", PTXPACK_OK);
    check_nest(900, ".rept 1\n", "x\n", ".endr\n", PTXPACK_OK);
    check_nest(2000, ".rept 1\n", "x\n", ".endr\n", PTXPACK_E_EXPAND);
    check_nest(1000, ".macro m\n", "x\n", ".endm\n", PTXPACK_OK);
    check_nest(1000000, "(", "1", ")", PTXPACK_OK); /* plain text */
    check_nest(1, "x \\[", "((((((((((1))))))))))", "]\n", PTXPACK_OK);
    char *deep = nest(100000, "(", "1", ")"), *minus = nest(100000, "-", "1", "");
    check_nest(1, "x \\[", deep, "]\n", PTXPACK_E_EXPAND);
    check_nest(1, "x \\[", minus, "]\n", PTXPACK_E_EXPAND);
    check_nest(1, ".macro f a\n.endm\nf ", deep, "\n", PTXPACK_E_EXPAND);
    check_nest(10, "\\{i=0..0: ", "x", "}", PTXPACK_OK);
    check_nest(1000, "\\{i=0..0: ", "x", "}", PTXPACK_E_EXPAND);
    check_nest(100000, "\\[", "1", "]", PTXPACK_E_EXPAND);
    free(deep);
    free(minus);
}

TEST(test_long_lines)
{
    enum { SIZE = 1 << 20 };
    char *line = (char *)malloc(SIZE + 64);
    assert_non_null(line);
    memset(line, 'x', SIZE);
    strcpy(line + SIZE, "\n");
    check(line, line);
    memset(line, ' ', SIZE);
    memcpy(line + SIZE, "y\n", 3);
    check(line, line);
    memset(line, '\\', SIZE);
    strcpy(line + SIZE, "\n");
    check(line, line);
    strcpy(line, ".macro F a, b:vararg\n.endm\nF ");
    memset(line + 29, ',', SIZE - 29);
    check(line, "");
    memset(line + 29, '"', SIZE - 29); /* an even number of them: a string of quotes */
    strcpy(line + SIZE - 1, "\n");
    check(line, "");
    free(line);
}

TEST(test_clock)
{
    ptxpack_expansion *e;
    struct timespec    from, to;
    fixture            f = {.files = {{"t", ".rept 1000000000\n.endr\n"}}, .max_ms = 1};
    clock_gettime(CLOCK_MONOTONIC, &from);
    assert_int_equal(fixture_expand(&f, &e), PTXPACK_E_EXPAND);
    clock_gettime(CLOCK_MONOTONIC, &to);
    assert_string_equal(ptxpack_expansion_error(e), "t:1: the expansion takes more than 1 ms");
    assert_true(to.tv_sec - from.tv_sec < 2);
    ptxpack_expansion_free(e);
}

/* ---- the line map ---------------------------------------------------------------------------------- */

TEST(test_map)
{
    static const char *const want[] = {
        "k/a.ptx:2",
        "k/a.ptx:4 (in s/b.ptx:8)",
        "k/a.ptx:7 (in macro Outer, s/b.ptx:5) (in macro INNER, s/b.ptx:2)",
        "k/a.ptx:7 (in macro Outer, s/b.ptx:6)",
        "k/a.ptx:9",
        "k/a.ptx:9",
        "k/a.ptx:12",
        "k/a.ptx:12",
        "k/a.ptx:13 (in macro INNER, s/b.ptx:2)",
        "k/a.ptx:13 (in macro INNER, s/b.ptx:2)",
        "k/a.ptx:16",
    };
    ptxpack_expansion *e;
    char               where[256];
    fixture            f = {
                   .files = {
                       {"k/a.ptx", "// one\nfirst\n\n.include \"s/b.ptx\"\n\n\nL: OUTER 1\n.rept 2\nloop\n.endr\n"
                                              ".irp x, 1, 2\nirp \\x\nINNER \\x\n.endr\n/* c\n*/ last\n"},
                       {"s/b.ptx", ".macro INNER a\nin \\a;\n.endm\n.macro Outer a\n INNER \\a\n out\n.endm\nin b\n"},
        }};
    assert_int_equal(fixture_expand(&f, &e), PTXPACK_OK);
    assert_string_equal(ptxpack_expansion_text(e, NULL),
                        "first\nin b\nL:\nin 1;\n out\nloop\nloop\nirp 1\nin 1;\nirp 2\n"
                        "in 2;\n last\n");
    assert_string_equal(ptxpack_expansion_where(e, 1, where, sizeof where), want[0]);
    assert_string_equal(ptxpack_expansion_where(e, 2, where, sizeof where), want[1]);
    assert_string_equal(ptxpack_expansion_where(e, 3, where, sizeof where), "k/a.ptx:7");
    assert_string_equal(ptxpack_expansion_where(e, 4, where, sizeof where), want[2]);
    assert_string_equal(ptxpack_expansion_where(e, 5, where, sizeof where), want[3]);
    assert_string_equal(ptxpack_expansion_where(e, 6, where, sizeof where), want[4]);
    assert_string_equal(ptxpack_expansion_where(e, 7, where, sizeof where), want[5]);
    assert_string_equal(ptxpack_expansion_where(e, 8, where, sizeof where), want[6]);
    assert_string_equal(ptxpack_expansion_where(e, 9, where, sizeof where), want[8]);
    assert_string_equal(ptxpack_expansion_where(e, 10, where, sizeof where), want[7]);
    assert_string_equal(ptxpack_expansion_where(e, 11, where, sizeof where), want[9]);
    assert_string_equal(ptxpack_expansion_where(e, 12, where, sizeof where), want[10]);
    assert_string_equal(ptxpack_expansion_where(e, 13, where, sizeof where), "");
    assert_string_equal(ptxpack_expansion_where(e, 0, where, sizeof where), "");
    assert_string_equal(ptxpack_expansion_where(e, (size_t)1 << 33, where, sizeof where), "");
    assert_string_equal(ptxpack_expansion_where(e, 4, where, 12), "k/a.ptx:7 (");
    assert_string_equal(ptxpack_expansion_where(e, 4, where, 1), "");
    ptxpack_expansion_free(e);
}

static const char kernel[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".macro ADD d, a, b\n        add.s32 \\d, \\a, \\b;\n.endm\n"
    ".global .u32 table[4] = {1, 2,\n   3, 4};\n"
    ".func (.reg .b32 r) twice (.reg .b32 a);\n"
    ".func (.reg .b32 r) twice (.reg .b32 a)\n{\n ADD r, a, a\n ret;\n}\n"
    ".visible .entry k(\n .param .u64 p\n)\n.maxntid 32, 1, 1\n{\n .reg .b32 %r<8>;\n .reg .b64 %rd<4>;\n"
    " .reg .pred q;\n ld.param.u64 %rd1, [p];\n mov.u32 %r1, %tid.x;\nL0:\n ADD %r2, %r1, %r1\n ADD %r2, %r2, "
    "%r1\n"
    " setp.lt.u32 q, %r2,\n  1000;\n @q bra L0;\n { .reg .b32 s;\n mov.b32 s, 3;\n ADD %r2, %r2, s\n }\n"
    " call (%r3), twice, (%r2);\nL1: st.global.u32 [%rd1], %r3;\n ret;\n}\n";

TEST(test_line_info)
{
    ptxpack_expansion *e;
    char               where[128];
    fixture            f = {.files = {{"kernel/k.ptx", kernel}}, .line_info = true};
    assert_int_equal(fixture_expand(&f, &e), PTXPACK_OK);
    const char *text = ptxpack_expansion_text(e, NULL);
    assert_non_null(strstr(text, "{\n.loc 1 5 0\n        add.s32 r, a, a;\n.loc 1 13 0\n ret;\n}\n"));
    assert_non_null(strstr(text,
                           "L0:\n.loc 1 5 0\n        add.s32 %r2, %r1, %r1;\n        add.s32 %r2, %r2, %r1;\n"
                           ".loc 1 28 0\n setp.lt.u32 q, %r2,\n  1000;\n"));
    assert_non_null(strstr(text, "ret;\n}\n.file 1 \"ptx/kernel/k.ptx\"\n"));
    assert_null(strstr(text, ".loc 1 7 0"));
    size_t line = 1;
    for (const char *at = strstr(text, ".loc"); at > text; at--)
        line += at[-1] == '\n';
    assert_string_equal(ptxpack_expansion_where(e, line, where, sizeof where),
                        "kernel/k.ptx:12 (in macro ADD, kernel/k.ptx:5)");
    ptxpack_expansion_free(e);
}

/* ptxas must accept the .loc and .file lines where we put them. */
TEST(test_line_info_ptxas)
{
    char        folder[] = "/tmp/ptxpack-loc-XXXXXX", path[64], command[512];
    const char *ptxas = access("/usr/local/cuda/bin/ptxas", X_OK) == 0 ? "/usr/local/cuda/bin/ptxas" : "ptxas";
    ptxpack_expansion *e;
    fixture            f = {.files = {{"kernel/k.ptx", kernel}}, .line_info = true};
    size_t             bytes;
    snprintf(command, sizeof command, "%s --version >/dev/null 2>&1", ptxas);
    if (system(command) != 0) {
        printf("SKIP: no ptxas to try .loc and .file on\n");
        skip();
    }
    assert_int_equal(fixture_expand(&f, &e), PTXPACK_OK);
    const char *text = ptxpack_expansion_text(e, &bytes);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/k.ptx", folder);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    fclose(file);
    snprintf(
        command, sizeof command,
        "%s -lineinfo -arch=sm_80 -o %s/k.cubin %s && grep -q ptx/kernel %s/k.cubin; r=$?; rm -rf %s; exit $r",
        ptxas, folder, path, folder, folder);
    ptxpack_expansion_free(e);
    assert_int_equal(system(command), 0);
}

/* ---- memory, threads, speed ------------------------------------------------------------------------ */

static const char busy[] = ".include \"inc\"\n.set k, 0\n.rept 3\n.irp r, a, \"b c\", %d\nM \\[k], \\r, z=\"q "
                           "r\"\n.endr\n.set k, k + 1\n.endr\n"
                           ".irpc c, abc\n\\c {\\{i=0..3: %s\\[2*\\i]}}\n.endr\n.macro D n\n.macro \\n "
                           "v\n\\v\n.endm\n.endm\nD one\none 1\n.purgem one\n"
                           ".warning \"w\"\nx \\y;\nM 1, x, z=2\n.entry e {\n mov;\n}\n";
static const char busy_include[] = ".macro M a, b, p1, p2, p3, p4, z=1\n.if \\a & 1\nodd \\b \\z "
                                   "\\@;\n.elseif \\a\n even \\a;\n.exitm\n.else\nzero\n.endif\n.endm\n";

/* Each allocation fails in turn: the status reports it, nothing leaks, nothing crashes. */
TEST(test_memory)
{
    if (!CAN_FAIL_MEMORY) {
        printf("SKIP: allocations cannot be made to fail under a sanitizer\n");
        skip();
    }
    fixture        f = {.files = {{"busy", busy}, {"inc", busy_include}}, .line_info = true};
    ptxpack_status status = PTXPACK_E_MEMORY;
    long           n = 0;
    for (; status != PTXPACK_OK; n++) {
        ptxpack_expansion *e;
        fail_at = n;
        status = fixture_expand(&f, &e);
        fail_at = -1;
        if (status == PTXPACK_E_MEMORY)
            assert_null(e);
        else
            assert_int_equal(status, PTXPACK_OK);
        ptxpack_expansion_free(e);
        assert_true(n < 100000);
    }
    printf("%ld allocations made to fail\n", n - 1);
    assert_true(n > 50);
}

static void *expand_often(void *unused)
{
    (void)unused;
    ptxpack_expansion *e;
    char              *all = NULL;
    for (int i = 0; i < 50; i++) {
        fixture f = {.files = {{"t", ".macro F a\n.if \\a\nf\\a \\[x*\\a] \\@\nF "
                                     "\\a-1\n.endif\n.endm\n.set x, 3\nF 20\n"}}};
        if (fixture_expand(&f, &e) == PTXPACK_OK) {
            const char *text = ptxpack_expansion_text(e, NULL);
            if (all == NULL)
                all = strdup(text);
            else if (strcmp(all, text) != 0)
                all[0] = '!';
        }
        ptxpack_expansion_free(e);
    }
    return all;
}

TEST(test_threads)
{
    pthread_t threads[4];
    char     *first = (char *)expand_often(NULL);
    assert_non_null(first);
    assert_int_equal(first[0], 'f');
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, expand_often, NULL), 0);
    for (int i = 0; i < 4; i++) {
        void *text;
        assert_int_equal(pthread_join(threads[i], &text), 0);
        assert_string_equal((char *)text, first);
        free(text);
    }
    free(first);
}

/* A text like the main loop of an attention kernel: nested macros, loops, lists, conditions. */
static const char realistic[] =
    ".macro QUAD op, x\n .irp d, 1, 2\n        shfl.sync.bfly.b32  %t, \\x, \\d, 31, -1;\n"
    "        \\op\\().f32          \\x, \\x, %t;\n .endr\n.endm\n"
    ".macro SM_MAX j, r\n        max.f32             %m\\r, %m\\r, %s\\j\\r\\()0;\n"
    "        max.f32             %m\\r, %m\\r, %s\\j\\r\\()1;\n.endm\n"
    ".macro SM_CLOSE r\n        QUAD                max, %m\\r\n        sub.f32             %c\\r, %c\\r, "
    "%m\\r;\n"
    "        ex2.approx.ftz.f32  %c\\r, %c\\r;\n        mul.f32             %l\\r, %l\\r, %c\\r;\n.endm\n"
    ".macro SM_EXP j, r\n .irp e, 0, 1\n        sub.f32             %s\\j\\r\\e, %s\\j\\r\\e, %m\\r;\n"
    "        ex2.approx.ftz.f32  %s\\j\\r\\e, %s\\j\\r\\e;\n        add.f32             %l\\r, %l\\r, "
    "%s\\j\\r\\e;\n .endr\n.endm\n"
    ".macro MMA d, a, b\n        mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {\\{i=0..3: "
    "%o\\[4*\\d+\\i]}}, {\\{i=0..3: %p\\[4*\\a+\\i]}}, {%b\\[2*\\b], %b\\[2*\\b+1]}, {\\{i=0..3: "
    "%o\\[4*\\d+\\i]}};\n.endm\n"
    ".macro STEP k\n .irp r, a, b\n  .set j, 0\n  .rept 16\n    SM_MAX \\[j], "
    "\\r\n   .set j, j + 1\n  .endr\n    SM_CLOSE \\r\n"
    "  .set j, 0\n  .rept 16\n    SM_EXP \\[j], \\r\n   .if j & 1\n    MMA "
    "\\[j], \\[j/2], \\k\n   .endif\n"
    "   .set j, j + 1\n  .endr\n .endr\n.endm\n"
    ".set k, 0\n.rept 35\n STEP \\[k]\n .set k, k + 1\n.endr\n";

static double thread_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

TEST(test_speed)
{
    double best = 1e9;
    size_t bytes = 0, lines = 0;
    for (int run = 0; run < 20; run++) {
        ptxpack_expansion *e;
        double             from = thread_ms();
        assert_int_equal(fixture_text(realistic, &e), PTXPACK_OK);
        double ms = thread_ms() - from;
        best = ms < best ? ms : best;
        const char *text = ptxpack_expansion_text(e, &bytes);
        lines = 0;
        for (size_t i = 0; i < bytes; i++)
            lines += text[i] == '\n';
        ptxpack_expansion_free(e);
    }
    printf("%zu lines, %zu bytes, from %zu bytes: %.2f ms\n", lines, bytes, sizeof realistic, best);
    assert_in_range(lines, 10000, 11000);
    if (!SANITIZED)
        assert_true(best < 10.0);
}

RUN_TESTS(NULL, NULL)
