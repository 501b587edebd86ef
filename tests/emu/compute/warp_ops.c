/* warp_ops.c - divergent lanes that meet in shfl, vote, match, redux and elect, and what the emulated GPU must
 * report: lanes that are missing, and undefined registers.  recorded.c compares the results of these
 * instructions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "tests/support/emu_fixture.h"

/* Runs the body in 32 lanes: %r0 is the lane, nothing has written %u and %ud, the result is in %r1. */
static const char *run_body(int sm, const char *body, uint32_t words[32], unsigned int *result)
{
    char     text[4096];
    uint64_t out;
    memset(words, 0xee, 128);
    snprintf(text, sizeof text,
             ".version 8.0\n.target sm_%d\n.address_size 64\n.visible .entry k(.param .u64 out) {\n"
             ".reg .pred %%p<4>; .reg .b32 %%r<9>; .reg .b32 %%u; .reg .b64 %%rd<4>, %%ud;\n"
             "ld.param.u64 %%rd0, [out]; mov.u32 %%r0, %%tid.x; mul.wide.u32 %%rd1, %%r0, 4;\n"
             "add.u64 %%rd0, %%rd0, %%rd1;\n%s\nst.global.u32 [%%rd0], %%r1; ret; }\n",
             sm, body);
    emu_machine(sm < 75 ? 75 : sm);
    emu_test_settings.budget = 100000;
    out = emu_buffer(128);
    emu_write(out, words, 128);
    *result = emu_run(text, "k", 1, 32, 0, &out, 1);
    emu_read(words, out, 128);
    return emu_log();
}

static void expect_lanes(int sm, const char *body, uint32_t (*wanted)(uint32_t lane))
{
    uint32_t     words[32];
    unsigned int result;
    const char  *log = run_body(sm, body, words, &result);
    if (result != 0 || *log != '\0')
        fail_msg("%s: result %u: %s", body, result, log);
    for (uint32_t l = 0; l < 32; l++)
        if (words[l] != wanted(l))
            fail_msg("%s: lane %u: %#x instead of %#x", body, l, words[l], wanted(l));
}

static uint32_t want_pair(uint32_t lane) { return lane ^ 2; }
static uint32_t want_reverse(uint32_t lane) { return 31 - lane; }
static uint32_t want_twenty(uint32_t lane) { return lane < 20 ? 0xfffffu : 0xeeeeeeeeu; }
static uint32_t want_seven(uint32_t lane) { return (void)lane, 7; }

static void test_divergence(void **state)
{
    (void)state;
    /* Odd and even lanes shuffle at different places. */
    expect_lanes(75,
                 "and.b32 %r2, %r0, 1; setp.eq.u32 %p0, %r2, 1; @%p0 bra ODD;\n"
                 "shfl.sync.bfly.b32 %r1, %r0, 2, 31, 0x55555555; bra DONE;\n"
                 "ODD: shfl.sync.bfly.b32 %r1, %r0, 2, 31, 0xaaaaaaaa;\nDONE:",
                 want_pair);
    /* Each lane leaves the loop in another turn and waits for the others. */
    expect_lanes(
        75,
        "mov.u32 %r2, 0;\nLOOP: setp.ge.u32 %p0, %r2, %r0; @%p0 bra OUT; add.u32 %r2, %r2, 1; bra LOOP;\n"
        "OUT: shfl.sync.bfly.b32 %r1, %r2, 31, 31, -1;",
        want_reverse);
    /* Lanes that have exited are no longer members. */
    expect_lanes(75,
                 "setp.ge.u32 %p0, %r0, 20; @%p0 exit; setp.ge.u32 %p1, %r0, 0;\n"
                 "vote.sync.ballot.b32 %r1, %p1, -1;",
                 want_twenty);
    /* Only lane 0's value is defined, and only that one is read. */
    expect_lanes(75,
                 "setp.ne.u32 %p0, %r0, 0; @%p0 bra JOIN; mov.u32 %u, 7;\n"
                 "JOIN: shfl.sync.idx.b32 %r1, %u, 0, 31, -1;",
                 want_seven);
    /* Before sm_70 there is no .sync. */
    expect_lanes(60, "shfl.bfly.b32 %r1, %r0, 31, 31;", want_reverse);
    expect_lanes(60, "setp.ge.u32 %p0, %r0, 20; @%p0 exit; vote.ballot.b32 %r1, !%p0;", want_twenty);
}

static void expect_report(const char *body, unsigned int wanted, const char *part)
{
    uint32_t     words[32];
    unsigned int result;
    const char  *log = run_body(90, body, words, &result);
    if (result != wanted || strstr(log, part) == NULL)
        fail_msg("%s: result %u, not %u with '%s': %s", body, result, wanted, part, log);
}

static void test_reports(void **state)
{
    (void)state;
    expect_report("shfl.sync.bfly.b32 %r1, %r0, 1, 31, 0x7fffffff;", 719, "does not name the lane itself");
    expect_report("setp.lt.u32 %p0, %r0, 16; mov.u32 %r1, 0; @%p0 shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1;", 719,
                  "guard");
    expect_report(
        "setp.lt.u32 %p0, %r0, 16; selp.b32 %r2, 0xffff, -1, %p0; vote.sync.ballot.b32 %r1, %p0, %r2;", 719,
        "member mask is 0x");
    expect_report("setp.lt.u32 %p0, %r0, 16; selp.b32 %r2, 0xffff, -1, %p0; elect.sync %r1|%p1, %r2;", 719,
                  "member mask is 0x");
    expect_report("setp.lt.u32 %p0, %r0, 16; mov.u32 %r1, 0; @%p0 bra END; bar.sync 0;\n"
                  "END: @%p0 redux.sync.add.u32 %r1, %r0, 0xfffe;",
                  719, "does not name the lane itself");
    expect_report("shfl.sync.bfly.b32 %r1, %u, 1, 31, -1;", 719, "which nothing has written");
    expect_report("shfl.sync.bfly.b32 %r1, %r0, %u, 31, -1;", 719, "lane operand, which nothing has written");
    expect_report("setp.ge.u32 %p0, %r0, 20; @%p0 exit; shfl.sync.down.b32 %r1, %r0, 1, 31, -1;", 719,
                  "which nothing has written"); /* lane 19 reads lane 20, which has exited */
    expect_report("setp.eq.u32 %p0, %r0, 3; @%p0 bra GONE; match.any.sync.b32 %r1, %r0, -1; bra END;\n"
                  "GONE: bar.warp.sync 8; bra GONE;\nEND:",
                  702, "");
}

/* Undefined registers may be copied and left unused; what depends on one must be reported. */
static void test_undefined(void **state)
{
    static const char *const clean[] =
        {"mov.u32 %r2, %u; mov.u32 %r1, %r0;",                                 /* copied, not used */
         "mov.u32 %r2, %u; selp.b32 %r1, %r0, %r2, %p1;",                      /* not chosen */
         "mov.u32 %r1, %u; selp.b32 %r1, %r1, %r0, !%p1;",                     /* overwritten */
         "mov.b64 %rd1, {%r0, %u}; mov.b64 {%r2, _}, %rd1; mov.u32 %r1, %r0;", /* in pieces */
         "mov.b64 {_, %r2}, %ud; mov.u32 %r1, 7;",
         "mov.pred %p2, %p2; mov.u32 %r1, 7;"};
    static const char *const found[] = {"mov.u32 %r2, %u; add.u32 %r1, %r2, %r0;",
                                        "selp.b32 %r1, %u, %r0, %p1;",
                                        "selp.b32 %r1, %r0, %r0, %p2;",
                                        "mov.b64 %rd1, {%u, %r0}; mov.b64 {_, %r1}, %rd1;",
                                        "mov.b64 {%r1, _}, %ud;",
                                        "addc.u32 %r1, %r0, %r0;",
                                        "slct.u32.s32 %r1, %r0, %r0, %u;",
                                        "setp.eq.u32 %p2, %u, %r0; selp.b32 %r1, 1, 2, %p2;"};
    static const char        first[] = "setp.ge.u32 %p1, %r0, 0; mov.u32 %r0, 7; ";
    char                     body[512];
    uint32_t                 words[32];
    unsigned int             result;
    (void)state;
    for (size_t i = 0; i < sizeof clean / sizeof *clean; i++) {
        snprintf(body, sizeof body, "%s%s", first, clean[i]);
        const char *log = run_body(80, body, words, &result);
        if (*log != '\0' || words[0] != 7 || words[31] != 7)
            fail_msg("%s: %u, %s", clean[i], words[0], log);
    }
    for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
        snprintf(body, sizeof body, "%s%s", first, found[i]);
        if (strstr(run_body(80, body, words, &result), "which nothing has written") == NULL)
            fail_msg("%s: no report of an undefined register: %s", found[i], emu_log());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_divergence), cmocka_unit_test(test_reports),
                                       cmocka_unit_test(test_undefined)};
    return cmocka_run_group_tests_name("emulator, lanes of a warp", tests, NULL, NULL);
}
