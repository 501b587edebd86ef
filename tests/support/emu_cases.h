/* emu_cases.h - one PTX instruction (or a few) against a scalar reference, over edge and random values.
 *
 * A case's text is PTX on prepared registers: %as %ar %ad are the low 16, 32, 64 bits of the input word a,
 * and %ap its bit 0; likewise b, c, d.  The result goes to %os, %or, %od, or to %op (and %oq): the first of
 * these names that the text has says which.  Temporaries: %wb %xb %yb %zb (8 bits), %xs %ys, %xr %yr, %xd
 * %yd, %xp %yp, %xq %yq (128 bits). All cases of a table run in one kernel, first in all lanes, then under a
 * guard that leaves some out: those must keep what the result held before. */
#ifndef EMU_CASES_H
#define EMU_CASES_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "emu_fixture.h"
#include "random_fixture.h"

__extension__ typedef __int128 wide;

struct emu_case;
typedef uint64_t emu_reference(const struct emu_case *c, const uint64_t in[4]);
struct emu_case {
    const char    *text;
    emu_reference *reference;
    /* for the reference's use */
    int  kind, bits;
    bool sign;
    wide (*exact)(wide a, wide b, wide c, int bits);
};

enum { CASE_ELEMENTS = 2048, CASE_BLOCK = 64, CASE_TEXT = 1 << 20, CASE_MISMATCHES = 20 };
#define CASE_BEFORE 0xa5b6c7d8e9fa0b1cull /* what results hold before */

static uint64_t case_inputs[CASE_ELEMENTS][4];
/* What a test may change: */
static void (*case_adjust)(void);         /* called when case_inputs are filled            */
static const char  *case_version = "8.3"; /* of PTX                                        */
static const char  *case_suffix = "";     /* of .target                                    */
static unsigned int case_unjudged;        /* EMU_JUDGE_* that are off                      */
/* Which lanes are left out just now, for references that look at them: those with l & case_leave. */
static uint32_t case_leave;

static const uint64_t case_edges[] = {0,
                                      1,
                                      2,
                                      3,
                                      5,
                                      7,
                                      15,
                                      16,
                                      17,
                                      31,
                                      32,
                                      33,
                                      63,
                                      64,
                                      65,
                                      127,
                                      128,
                                      255,
                                      256,
                                      257,
                                      0x7fff,
                                      0x8000,
                                      0x8001,
                                      0xffff,
                                      0x10000,
                                      0x7c00,
                                      0x7c01,
                                      0xfc00,
                                      0x3c00,
                                      0x0400,
                                      0x8400,
                                      0x03ff7f80,
                                      0x7f817f80,
                                      0xff80ff81,
                                      0x7fc00000,
                                      0x7fffffff,
                                      0x80000000,
                                      0x80000001,
                                      0xffffffff,
                                      0xfffffffe,
                                      0x7f800000,
                                      0x7f800001,
                                      0xff800000,
                                      0x3f800000,
                                      0xbf800000,
                                      0x007fffff,
                                      0x807fffff,
                                      0x00800000,
                                      0x100000000,
                                      0x7fffffffffffffff,
                                      0x8000000000000000,
                                      0x8000000000000001,
                                      0xffffffffffffffff,
                                      0xfffffffffffffffe,
                                      0xffffffff80000000,
                                      0xffffffff00000000,
                                      0x3ff0000000000000,
                                      0x7ff0000000000000,
                                      0x7ff0000000000001,
                                      0xfff0000000000000,
                                      0x000fffffffffffff};
enum { CASE_EDGES = sizeof case_edges / sizeof *case_edges };

static uint64_t case_value(void)
{
    const uint64_t v = random_bits();
    switch (below(4)) {
    case 0:
        return case_edges[below(CASE_EDGES)];
    case 1:
        return v >> below(64);
    case 2:
        return v & 63;
    default:
        return v;
    }
}

static void case_fill(void)
{
    for (int i = 0; i < CASE_ELEMENTS; i++) {
        for (int k = 0; k < 4; k++)
            case_inputs[i][k] = case_value();
        if (below(8) == 0)
            case_inputs[i][1] = case_inputs[i][0];
        if (i < 2 * CASE_EDGES) { /* each edge with itself and its neighbour */
            case_inputs[i][0] = case_edges[i / 2];
            case_inputs[i][1] = case_edges[(i / 2 + i % 2) % CASE_EDGES];
        }
    }
}

/* 's' 'r' 'd' 'p': the class of the result. */
static char case_result(const char *text)
{
    const char *o = strstr(text, "%o");
    return o != NULL ? o[2] : 0;
}

static size_t case_append(char *out, size_t at, const char *format, ...) __attribute__((format(printf, 3, 4)));
static size_t case_append(char *out, size_t at, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    at += (size_t)vsnprintf(out + at, CASE_TEXT - at, format, arguments);
    va_end(arguments);
    assert_true(at < CASE_TEXT);
    return at;
}

/* The statements of a case, each under the guard. */
static size_t case_statements(char *out, size_t at, const char *text)
{
    while (*text != '\0') {
        const size_t length = strcspn(text, ";");
        at = case_append(out, at, "@%%g %.*s;\n", (int)length, text);
        text += length + (text[length] == ';');
        text += strspn(text, " ");
    }
    return at;
}

static size_t case_store(char *out, size_t at, char class_, unsigned int offset)
{
    switch (class_) {
    case 's': /* the bits above 16 would be seen */
        return case_append(out, at, "mov.b32 %%zr, {%%os, 0}; st.global.b32 [%%out+%u], %%zr;\n", offset);
    case 'r':
        return case_append(out, at, "st.global.b32 [%%out+%u], %%or;\n", offset);
    case 'd':
        return case_append(out, at, "st.global.b64 [%%out+%u], %%od;\n", offset);
    default:
        return case_append(out, at,
                           "selp.b32 %%zr, 1, 0, %%op; @%%oq or.b32 %%zr, %%zr, 2;"
                           " st.global.b32 [%%out+%u], %%zr;\n",
                           offset);
    }
}

static char *case_kernel(const struct emu_case *cases, unsigned int count, int sm)
{
    char  *out = (char *)malloc(CASE_TEXT);
    size_t at = 0;
    assert_non_null(out);
    at = case_append(out, at, ".version %s\n.target sm_%d%s\n.address_size 64\n", case_version, sm,
                     case_suffix);
    at = case_append(out, at, ".visible .entry k(.param .u64 in, .param .u64 out, .param .u32 leave) {\n");
    at = case_append(out, at,
                     ".reg .b16 %%as, %%bs, %%cs, %%ds, %%os, %%xs, %%ys;\n"
                     ".reg .b32 %%ar, %%br, %%cr, %%dr, %%or, %%xr, %%yr, %%zr;\n"
                     ".reg .b64 %%ad, %%bd, %%cd, %%dd, %%od, %%xd, %%yd, %%in, %%out;\n"
                     ".reg .pred %%ap, %%bp, %%cp, %%dp, %%op, %%oq, %%xp, %%yp, %%g;\n"
                     ".reg .b8 %%wb, %%xb, %%yb, %%zb; .reg .b128 %%xq, %%yq;\n");
    at = case_append(out, at,
                     "ld.param.u64 %%in, [in]; ld.param.u64 %%out, [out]; ld.param.u32 %%yr, [leave];\n"
                     "mov.u32 %%xr, %%ctaid.x; mov.u32 %%zr, %%ntid.x; mul.lo.u32 %%xr, %%xr, %%zr;\n"
                     "mov.u32 %%zr, %%tid.x; add.u32 %%xr, %%xr, %%zr;\n"
                     "and.b32 %%zr, %%zr, %%yr; setp.eq.u32 %%g, %%zr, 0;\n"
                     "mul.wide.u32 %%xd, %%xr, 32; add.u64 %%in, %%in, %%xd;\n"
                     "mul.wide.u32 %%xd, %%xr, 8; add.u64 %%out, %%out, %%xd;\n");
    for (int k = 0; k < 4; k++)
        at = case_append(out, at,
                         "ld.global.b64 %%%cd, [%%in+%d]; ld.global.b32 %%%cr, [%%in+%d];"
                         " ld.global.b16 %%%cs, [%%in+%d]; and.b32 %%xr, %%%cr, 1;"
                         " setp.ne.b32 %%%cp, %%xr, 0;\n",
                         'a' + k, 8 * k, 'a' + k, 8 * k, 'a' + k, 8 * k, 'a' + k, 'a' + k);
    for (unsigned int i = 0; i < count; i++) {
        at = case_append(out, at,
                         "mov.b64 %%od, 0x%llx; mov.b32 %%or, 0x%x; mov.b16 %%os, 0x%x;"
                         " mov.pred %%op, 0; mov.pred %%oq, 0;\n",
                         CASE_BEFORE, (unsigned int)CASE_BEFORE, (unsigned int)(CASE_BEFORE & 0xffff));
        at = case_statements(out, at, cases[i].text);
        at = case_store(out, at, case_result(cases[i].text), i * CASE_ELEMENTS * 8);
    }
    case_append(out, at, "ret; }\n");
    return out;
}

static uint64_t case_cut(uint64_t v, char class_)
{
    return class_ == 's' ? v & 0xffff : class_ == 'r' ? v & 0xffffffffu : class_ == 'p' ? v & 3 : v;
}

/* How many results were wrong; the first of them are printed. */
static unsigned int case_compare(const struct emu_case *c, const uint64_t *got)
{
    const char   class_ = case_result(c->text);
    unsigned int wrong = 0;
    for (unsigned int i = 0; i < CASE_ELEMENTS; i++) {
        const bool     runs = (i % CASE_BLOCK & case_leave) == 0;
        const uint64_t before = class_ == 'p' ? 0 : case_cut(CASE_BEFORE, class_);
        const uint64_t want = runs ? case_cut(c->reference(c, case_inputs[i]), class_) : before;
        if (got[i] == want)
            continue;
        if (wrong++ < 2)
            print_error("%s%s: a %#llx b %#llx c %#llx d %#llx: %#llx instead of %#llx\n", c->text,
                        runs ? "" : " (left out)", (unsigned long long)case_inputs[i][0],
                        (unsigned long long)case_inputs[i][1], (unsigned long long)case_inputs[i][2],
                        (unsigned long long)case_inputs[i][3], (unsigned long long)got[i],
                        (unsigned long long)want);
    }
    return wrong;
}

static void case_run(const struct emu_case *cases, unsigned int count, int sm)
{
    static const uint32_t leaves[] = {0, 5, 31};
    const uint64_t        bytes = (uint64_t)count * CASE_ELEMENTS * 8;
    uint64_t             *results = (uint64_t *)malloc(bytes), in, out;
    char                 *text = case_kernel(cases, count, sm);
    unsigned int          wrong_cases = 0;
    assert_non_null(results);
    case_fill();
    if (case_adjust != NULL)
        case_adjust();
    emu_machine(sm);
    emu_test_settings.judge &= ~case_unjudged;
    in = emu_buffer(sizeof case_inputs);
    out = emu_buffer(bytes);
    emu_write(in, case_inputs, sizeof case_inputs);
    for (unsigned int k = 0; k < sizeof leaves / sizeof *leaves; k++) {
        const uint64_t words[] = {in, out, leaves[k]};
        unsigned int   result;
        case_leave = leaves[k];
        memset(results, 0, bytes);
        emu_write(out, results, bytes);
        emu_log_clear();
        result = emu_run(text, "k", CASE_ELEMENTS / CASE_BLOCK, CASE_BLOCK, 0, words, 3);
        if (result != 0 || *emu_log() != '\0')
            print_error("result %u\n%s", result, emu_log());
        assert_int_equal(result, 0);
        assert_string_equal(emu_log(), "");
        emu_read(results, out, bytes);
        for (unsigned int i = 0; i < count; i++)
            if (case_compare(&cases[i], results + (size_t)i * CASE_ELEMENTS) > 0 &&
                wrong_cases++ >= CASE_MISMATCHES)
                break;
    }
    printf("%u instructions, %d inputs\n", count, CASE_ELEMENTS);
    free(text);
    free(results);
    assert_int_equal(wrong_cases, 0);
}

/* A number of this many bits, with or without sign. */
static wide case_number(uint64_t v, int bits, bool sign)
{
    const wide low = bits == 64 ? (wide)v : (wide)(v & (((uint64_t)1 << bits) - 1));
    return sign && (low >> (bits - 1)) != 0 ? low - ((wide)1 << bits) : low;
}
#endif
