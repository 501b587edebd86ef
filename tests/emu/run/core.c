/* core.c - the emulated GPU's control flow: divergence, calls, barriers, clusters, limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "tools/emu/driver/emu_api.h"
#include "tests/support/emu_fixture.h"

#define HEAD(sm) ".version 8.0\n.target sm_" #sm "\n.address_size 64\n"
/* Kernels get one pointer; the thread's word is at %rd1. */
#define BEGIN(sm)                                                         \
    HEAD(sm)                                                              \
    ".visible .entry k(.param .u64 out) {\n"                              \
    ".reg .pred %p<9>; .reg .b32 %r<30>; .reg .b64 %rd<9>;\n"             \
    "ld.param.u64 %rd0, [out];\n"                                         \
    "mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x;\n" \
    "mad.lo.u32 %r3, %r1, %r2, %r0;\n"                                    \
    "mul.wide.u32 %rd1, %r3, 4; add.u64 %rd1, %rd0, %rd1;\n"
#define END "st.global.u32 [%rd1], %r9; ret; }\n"

enum { WORDS = 4096 };
static uint32_t words[WORDS];

static unsigned int run(const char *text, uint32_t grid, uint32_t block)
{
    uint64_t out = emu_buffer(sizeof words);
    emu_log_clear();
    memset(words, 0xee, sizeof words);
    emu_write(out, words, sizeof words);
    unsigned int result = emu_run(text, "k", grid, block, 0, &out, 1);
    emu_read(words, out, sizeof words);
    return result;
}

static void expect_clean(const char *text, uint32_t grid, uint32_t block)
{
    unsigned int result = run(text, grid, block);
    if (result != 0 || *emu_log())
        print_error("result %u\n%s", result, emu_log());
    assert_int_equal(result, 0);
    assert_string_equal(emu_log(), "");
}

static void expect_report(const char *text, uint32_t block, unsigned int wanted, const char *part)
{
    unsigned int result = run(text, 1, block);
    if (result != wanted || strstr(emu_log(), part) == NULL)
        print_error("result %u, wanted %u and '%s' in\n%s", result, wanted, part, emu_log());
    assert_int_equal(result, wanted);
    assert_non_null(strstr(emu_log(), part));
}

/* Each lane loops as often as its number says, in two nested branches. */
static void test_divergence(void **state)
{
    (void)state;
    expect_clean(BEGIN(75) "mov.u32 %r9, 0; mov.u32 %r4, 0;\n"
                           "LOOP: setp.ge.u32 %p1, %r4, %r0; @%p1 bra DONE;\n"
                           "and.b32 %r5, %r4, 1; setp.eq.u32 %p2, %r5, 0; @%p2 bra EVEN;\n"
                           "add.u32 %r9, %r9, 100; bra NEXT;\n"
                           "EVEN: add.u32 %r9, %r9, 1;\n"
                           "NEXT: add.u32 %r4, %r4, 1; bra LOOP;\n"
                           "DONE: bar.sync 0;\n" END,
                 3, 96);
    for (uint32_t i = 0; i < 3 * 96; i++) {
        uint32_t n = i % 96;
        assert_int_equal(words[i], (n + 1) / 2 + n / 2 * 100);
    }
    assert_int_equal(words[3 * 96], 0xeeeeeeee);
}

static void test_partial_warps_and_exits(void **state)
{
    (void)state;
    expect_clean(BEGIN(75) "setp.lt.u32 %p1, %r0, 5; @%p1 exit;\n"
                           "bar.sync 0; mov.u32 %r9, %r0;\n" END,
                 1, 40);
    for (uint32_t i = 0; i < 41; i++)
        assert_int_equal(words[i], i < 5 || i == 40 ? 0xeeeeeeee : i);
}

/* Lanes of one warp wait for each other through memory: only independent scheduling ends this. */
static void test_lanes_wait_for_lanes(void **state)
{
    (void)state;
    expect_clean(
        HEAD(
            75) ".visible .entry k(.param .u64 out) {\n"
                ".reg .pred %p<9>; .reg .b32 %r<30>; .reg .b64 %rd<9>; .shared .b32 lock; .shared .b32 sum;\n"
                "ld.param.u64 %rd0, [out]; mov.u32 %r0, %tid.x; setp.ne.u32 %p1, %r0, 0;\n"
                "@!%p1 st.volatile.shared.u32 [lock], 0; @!%p1 st.volatile.shared.u32 [sum], 0; bar.sync 0;\n"
                "SPIN: atom.acquire.cta.shared.cas.b32 %r1, [lock], 0, 1; setp.ne.u32 %p2, %r1, 0; @%p2 bra "
                "SPIN;\n"
                "ld.volatile.shared.u32 %r2, [sum]; add.u32 %r2, %r2, %r0; st.volatile.shared.u32 [sum], %r2;\n"
                "atom.release.cta.shared.exch.b32 %r3, [lock], 0;\n"
                "bar.sync 0; ld.volatile.shared.u32 %r4, [sum]; @!%p1 st.global.u32 [%rd0], %r4; ret; }\n",
        1, 64);
    assert_int_equal(words[0], 64 * 63 / 2);
}

static void test_branch_tables(void **state)
{
    (void)state;
    expect_clean(BEGIN(75) "and.b32 %r4, %r0, 3;\n"
                           "T: .branchtargets A, B, C, A;\n"
                           "brx.idx %r4, T;\n"
                           "A: mov.u32 %r9, 10; bra.uni OUT;\n"
                           "B: mov.u32 %r9, 20; bra.uni OUT;\n"
                           "C: mov.u32 %r9, 30;\n"
                           "OUT: bar.sync 0;\n" END,
                 1, 32);
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(words[i], ((uint32_t[]){10, 20, 30, 10})[i % 4]);
}

/* Recursion with divergent depth, local memory in each frame, arguments in .param and in registers. */
static void test_calls(void **state)
{
    (void)state;
    expect_clean(
        HEAD(75) ".func (.param .b32 r) fact(.param .b32 n) {\n"
                 ".reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<3>; .local .align 4 .b8 mine[8];\n"
                 "ld.param.u32 %r0, [n]; st.local.u32 [mine+4], %r0; setp.gt.u32 %p0, %r0, 1; @%p0 bra MORE;\n"
                 "mov.u32 %r2, 1; st.param.b32 [r], %r2; ret;\n"
                 "MORE: sub.u32 %r1, %r0, 1;\n"
                 "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call.uni (b), fact, (a); "
                 "ld.param.b32 %r2, [b]; }\n"
                 "ld.local.u32 %r3, [mine+4]; mul.lo.u32 %r2, %r2, %r3; st.param.b32 [r], %r2; ret; }\n"
                 ".func (.reg .b32 r) twice(.reg .b32 a) { add.u32 r, a, a; ret; }\n"
                 ".visible .entry k(.param .u64 out) {\n"
                 ".reg .pred %p<3>; .reg .b32 %r<19>; .reg .b64 %rd<9>;\n"
                 "ld.param.u64 %rd0, [out]; mov.u32 %r0, %tid.x; mul.wide.u32 %rd1, %r0, 4; "
                 "add.u64 %rd1, %rd0, %rd1;\n"
                 "and.b32 %r1, %r0, 7;\n"
                 "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), fact, (a); "
                 "ld.param.b32 %r9, [b]; }\n"
                 "and.b32 %r2, %r0, 1; setp.eq.u32 %p1, %r2, 0; @%p1 call (%r9), twice, (%r9);\n"
                 "st.global.u32 [%rd1], %r9; ret; }\n",
        1, 64);
    for (uint32_t i = 0; i < 64; i++) {
        uint32_t f = 1;
        for (uint32_t k = 2; k <= i % 8; k++)
            f *= k;
        assert_int_equal(words[i], i % 2 ? f : 2 * f);
    }
}

static void test_barriers(void **state)
{
    (void)state;
    /* Warps 0 and 1 hand values to warps 2 and 3 by arrive and sync on barrier 1; the count of a reduction */
    expect_clean(
        BEGIN(75) ".shared .b32 mail[64];\n"
                  "mul.lo.u32 %r4, %r0, 4; mov.u32 %r5, mail; setp.ge.u32 %p1, %r0, 64; @%p1 bra TAKE;\n"
                  "add.u32 %r5, %r5, %r4; mul.lo.u32 %r6, %r0, 3; st.shared.u32 [%r5], %r6; bar.arrive 1, 128; "
                  "mov.u32 %r9, 0;\n"
                  "bra JOIN;\n"
                  "TAKE: bar.sync 1, 128; sub.u32 %r4, %r4, 256; add.u32 %r5, %r5, %r4; ld.shared.u32 %r9, "
                  "[%r5];\n"
                  "JOIN: setp.lt.u32 %p2, %r0, 77; bar.red.popc.u32 %r7, 0, %p2; add.u32 %r9, %r9, %r7;\n" END,
        2, 128);
    for (uint32_t i = 0; i < 256; i++)
        assert_int_equal(words[i], (i % 128 < 64 ? 0 : (i % 128 - 64) * 3) + 77);
}

static void test_special_registers(void **state)
{
    (void)state;
    expect_clean(
        BEGIN(75) "mov.u32 %r4, %laneid; mov.u32 %r5, %lanemask_lt; popc.b32 %r5, %r5; sub.u32 %r9, %r4, %r5;\n"
                  "mov.u32 %r6, %nctaid.x; mad.lo.u32 %r9, %r6, 1000, %r9;\n"
                  "mov.u64 %rd2, %clock64; mov.u64 %rd3, %clock64; setp.ge.u64 %p1, %rd3, %rd2; "
                  "@%p1 add.u32 %r9, %r9, 1;\n" END,
        3, 64);
    for (uint32_t i = 0; i < 192; i++)
        assert_int_equal(words[i], 3001);
}

/* ---- what goes wrong ------------------------------------------------------------------------------ */
static void test_deadlocks(void **state)
{
    (void)state;
    expect_report(BEGIN(75) "setp.lt.u32 %p1, %r0, 32; mov.u32 %r9, 0; @%p1 bar.sync 1, 64; bar.sync 0;\n" END,
                  64, 702, "barrier 1: 32 of 64 threads are here");
    expect_report(
        BEGIN(75) "setp.lt.u32 %p1, %r0, 7; mov.u32 %r9, 0; @%p1 bra A; bar.sync 0; A: bar.sync 1;\n" END, 32,
        702, "the warp has diverged");
}

static void test_endless_loop(void **state)
{
    (void)state;
    emu_test_settings.budget = 1000000;
    expect_report(BEGIN(75) "mov.u32 %r9, 0; L: add.u32 %r9, %r9, 1; bra L;\n" END, 64, 702,
                  "its budget of 1000000");
    emu_machine(75);
}

static void test_stack_overflow(void **state)
{
    (void)state;
    expect_report(HEAD(75) ".func f(.param .b32 n) { .param .b32 a; .reg .b32 %r<3>; ld.param.u32 %r0, [n]; "
                           "st.param.b32 [a], %r0;\n"
                           "call f, (a); ret; }\n"
                           ".visible .entry k(.param .u64 out) { .param .b32 a; st.param.b32 [a], 1; call f, "
                           "(a); ret; }\n",
                  32, 719, "the stack overflows");
}

static void test_trap(void **state)
{
    (void)state;
    expect_report(BEGIN(75) "mov.u32 %r9, 0; setp.eq.u32 %p1, %r0, 3; @%p1 trap;\n" END, 32, 719,
                  "thread (3,0,0)");
}

static void test_divergent_aligned(void **state)
{
    (void)state;
    expect_report(BEGIN(75) "mov.u32 %r9, 0; setp.eq.u32 %p1, %r0, 3; @%p1 bar.sync 0;\n" END, 32, 719,
                  ".aligned");
}

static void test_undefined_register(void **state)
{
    (void)state;
    expect_report(BEGIN(75) "add.u32 %r9, %r20, 1;\n" END, 32, 719, "reads register %r20");
    expect_clean(BEGIN(75) "mov.u32 %r9, %r20; mov.u32 %r9, 1;\n" END, 1, 32); /* copies are no uses */
}

static void test_refusals(void **state)
{
    static const struct {
        const char *body, *part;
    } cases[] = {
        {"frobnicate.u32 %r9, %r0;", "not executed here"},
        {"vadd.u32.u32.u32 %r9, %r0, %r0;", "not executed here"},
        {"add.u32 %r9, %rd0, 1;", "'%rd' has 64 bits"},
        {"bar.sync 0, 1, 2;", "operands"},
        {"mov.u32 %r9, %nosuch;", "%nosuch"},
    };
    char text[2048];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(text, sizeof text, "%s%s\n%s", BEGIN(75), cases[i].body, END);
        unsigned int result = run(text, 1, 32);
        if (result != 218 || strstr(emu_log(), cases[i].part) == NULL || strncmp(emu_log(), "line 10", 7) != 0)
            print_error("%s: result %u, %s\n", cases[i].body, result, emu_log());
        assert_int_equal(result, 218);
        assert_non_null(strstr(emu_log(), cases[i].part));
        assert_int_equal(strncmp(emu_log(), "line 10", 7), 0);
    }
}

static void test_targets(void **state)
{
    (void)state;
    emu_machine(75);
    assert_int_equal(run(BEGIN(80) "mov.u32 %r9, 0;" END, 1, 32), 209);
    emu_machine(90);
    assert_int_equal(run(BEGIN(80) "mov.u32 %r9, 0;" END, 1, 32), 0);
    assert_int_equal(run(BEGIN(90a) "mov.u32 %r9, 0;" END, 1, 32), 0);
    emu_machine(100);
    assert_int_equal(run(BEGIN(90a) "mov.u32 %r9, 0;" END, 1, 32), 209);
    emu_machine(75);
}

/* Blocks of a cluster meet; each sees its rank and the shape. */
static void test_clusters(void **state)
{
    unsigned char parameters[8];
    (void)state;
    emu_machine(90);
    uint64_t out = emu_buffer(sizeof words);
    memcpy(parameters, &out, 8);
    struct emu_launch shape = {.grid = {8, 2, 1},
                               .block = {64, 1, 1},
                               .cluster = {4, 2, 1},
                               .parameters = parameters};
    unsigned int      result = emu_run_shape(
             HEAD(90) ".visible .entry k(.param .u64 out) { .reg .b32 %r<20>; .reg .b64 %rd<4>; .reg .pred p;\n"
                           "ld.param.u64 %rd0, [out]; mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ctaid.y; "
                           "mad.lo.u32 %r2, %r1, 8, %r0;\n"
                           "mul.wide.u32 %rd1, %r2, 4; add.u64 %rd0, %rd0, %rd1;\n"
                           "mov.u32 %r3, %cluster_ctarank; mov.u32 %r4, %cluster_nctarank; mad.lo.u32 %r3, %r4, 100, "
                           "%r3;\n"
                           "barrier.cluster.arrive; barrier.cluster.wait; barrier.cluster.arrive.aligned; "
                           "barrier.cluster.wait.aligned;\n"
                           "mov.u32 %r5, %tid.x; setp.eq.u32 p, %r5, 0; @p st.global.u32 [%rd0], %r3; ret; }\n",
             &shape, "k");
    if (result)
        print_error("%s", emu_log());
    assert_int_equal(result, 0);
    emu_read(words, out, sizeof words);
    for (uint32_t i = 0; i < 16; i++)
        assert_int_equal(words[i], 800 + i % 4 + i / 8 * 4);
    shape.cluster[0] = 3;
    assert_int_equal(emu_run_shape(HEAD(90) ".visible .entry k(.param .u64 out) { ret; }\n", &shape, "k"), 912);
    emu_machine(75);
}

/* Blocks wait for each other: all that fit on the GPU at once make progress. */
static void test_blocks_wait_for_blocks(void **state)
{
    (void)state;
    emu_machine(80);
    expect_clean(
        HEAD(80) ".global .align 4 .b32 arrived = 0;\n"
                 ".visible .entry k(.param .u64 out) { .reg .b32 %r<20>; .reg .b64 %rd<4>; .reg .pred p;\n"
                 "ld.param.u64 %rd0, [out]; mov.u32 %r0, %ctaid.x; mul.wide.u32 %rd1, %r0, 4; "
                 "add.u64 %rd0, %rd0, %rd1;\n"
                 "atom.global.add.u32 %r1, [arrived], 1;\n"
                 "SPIN: ld.acquire.gpu.global.u32 %r2, [arrived]; setp.lt.u32 p, %r2, 6; @p bra SPIN;\n"
                 "st.global.u32 [%rd0], %r2; ret; }\n",
        6, 1);
    for (uint32_t i = 0; i < 6; i++)
        assert_int_equal(words[i], 6);
    emu_machine(75);
}

/* Registers, literals and .param variables stand for each other in calls. */
static void test_mixed_arguments(void **state)
{
    (void)state;
    expect_clean(HEAD(75) ".func (.param .b32 r) f(.param .b32 n) { .reg .b32 %r<3>; ld.param.b32 %r0, [n]; "
                          "add.u32 %r0, %r0, 1;\n"
                          "st.param.b32 [r], %r0; ret; }\n"
                          ".func (.reg .b64 r) g(.reg .b64 n) { add.u64 r, n, 1; ret; }\n"
                          ".visible .entry k(.param .u64 out) {\n"
                          ".reg .b32 %r<19>; .reg .b64 %rd<9>; .param .b64 wide;\n"
                          "ld.param.u64 %rd0, [out]; mov.u32 %r0, %tid.x; mul.wide.u32 %rd1, %r0, 4; "
                          "add.u64 %rd1, %rd0, %rd1;\n"
                          "call (%r1), f, (%r0); call (%r2), f, (40); call (%rd3), g, (5000000000);\n"
                          "st.param.b64 [wide], %rd3; call (%rd4), g, (wide); shr.u64 %rd4, %rd4, 4; "
                          "cvt.u32.u64 %r3, %rd4;\n"
                          "add.u32 %r4, %r1, %r2; add.u32 %r4, %r4, %r3; st.global.u32 [%rd1], %r4; ret; }\n",
                 1, 32);
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(words[i], i + 1 + 41 + (uint32_t)(5000000002ull >> 4));
}

/* Polling is no deadlock, however long, as long as it ends. */
static void test_long_waits(void **state)
{
    (void)state;
    expect_clean(
        BEGIN(75) "mov.u32 %r9, 0;\n"
                  "L: ld.volatile.global.u32 %r4, [%rd0]; add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, 150000; "
                  "@%p1 bra L;\n" END,
        1, 1);
    assert_int_equal(words[0], 150000);
    emu_test_settings.host_threads = 2;
    expect_clean(
        HEAD(75) /* block 1 waits for block 0, which works for long */
        ".global .b32 flag = 0;\n"
        ".visible .entry k(.param .u64 out) { .reg .b32 %r<9>; .reg .b64 %d<3>; .reg .pred %p<3>;\n"
        "ld.param.u64 %d0, [out]; mov.u32 %r0, %ctaid.x; mov.u32 %r1, 0; setp.eq.u32 %p0, %r0, 1; "
        "@%p0 bra S;\n"
        "W: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 3000000; @%p1 bra W;\n"
        "st.global.u32 [%d0], %r1; fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [flag], 1; ret;\n"
        "S: nanosleep.u32 100; ld.acquire.gpu.global.u32 %r2, [flag]; setp.eq.u32 %p2, %r2, 0; @%p2 bra S;\n"
        "ld.global.u32 %r3, [%d0]; st.global.u32 [%d0+4], %r3; ret; }\n",
        2, 1);
    assert_int_equal(words[1], 3000000);
    emu_machine(75);
}

/* Syncs of parts of a warp, with lanes that leave; a fragment that only others wait for. */
static void test_parts_of_a_warp(void **state)
{
    (void)state;
    expect_clean(BEGIN(
                     75) ".shared .b32 s[32];\n"
                         "mov.u32 %r4, s; mad.lo.u32 %r5, %r0, 4, %r4; st.shared.u32 [%r5], %r0;\n"
                         "setp.lt.u32 %p1, %r0, 16; selp.b32 %r6, 0xffff, 0xffff0000, %p1; bar.warp.sync %r6;\n"
                         "xor.b32 %r7, %r0, 15; mad.lo.u32 %r7, %r7, 4, %r4; ld.shared.u32 %r9, [%r7];\n" END,
                 1, 32);
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(words[i], i ^ 15);
    expect_clean(
        BEGIN(75) "setp.ge.u32 %p1, %r0, 16; @%p1 bra X; bar.warp.sync 0xffffffff; mov.u32 %r9, 7; bra OUT;\n"
                  "X: mov.u32 %r4, 0; Y: add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 50; @%p2 bra Y; exit;\n"
                  "OUT:\n" END,
        1, 32);
    assert_int_equal(words[15], 7);
    expect_clean(
        BEGIN(75) /* lane 0 spins first, lane 2 last in the text, lane 1 frees them in the end */
        ".shared .b32 flag; setp.eq.u32 %p1, %r0, 0; @%p1 st.volatile.shared.u32 [flag], 0; bar.sync 0;\n"
        "setp.eq.u32 %p2, %r0, 1; setp.eq.u32 %p3, %r0, 2; @%p2 bra B; @%p3 bra C; "
        "setp.gt.u32 %p4, %r0, 2; @%p4 bra OUT;\n"
        "A: ld.volatile.shared.u32 %r4, [flag]; setp.eq.u32 %p5, %r4, 0; @%p5 bra A; bra OUT;\n"
        "B: mov.u32 %r5, 0; B2: add.u32 %r5, %r5, 1; setp.lt.u32 %p6, %r5, 50; @%p6 bra B2;\n"
        "st.volatile.shared.u32 [flag], 1; bra OUT;\n"
        "C: ld.volatile.shared.u32 %r4, [flag]; setp.eq.u32 %p7, %r4, 0; @%p7 bra C;\n"
        "OUT: mov.u32 %r9, 3;\n" END,
        1, 32);
}

/* Named barriers with and without a count mean the same when all are counted. */
static void test_counted_barriers(void **state)
{
    (void)state;
    expect_clean(BEGIN(75) "setp.lt.u32 %p1, %r0, 32; @%p1 bra A; bar.sync 1, 64; bra B; A: bar.sync 1; "
                           "B: mov.u32 %r9, 1;\n" END,
                 1, 64);
}

/* Threads that arrive at a cluster's barrier and exit are not waited for, nor counted for others. */
static void test_cluster_barrier_exits(void **state)
{
    (void)state;
    emu_machine(90);
    expect_clean(
        BEGIN(90) "setp.eq.u32 %p1, %r0, 0; @%p1 st.volatile.global.u32 [%rd0+4096], 0;\n"
                  "setp.lt.u32 %p1, %r0, 32; @%p1 bra A; setp.lt.u32 %p2, %r0, 64; @%p2 bra C;\n"
                  "mov.u32 %r5, 0; L: add.u32 %r5, %r5, 1; setp.lt.u32 %p4, %r5, 100000; @%p4 bra L;\n"
                  "mov.u32 %r6, 77; st.volatile.global.u32 [%rd0+4096], %r6; barrier.cluster.arrive; exit;\n"
                  "A: barrier.cluster.arrive; exit;\n"
                  "C: barrier.cluster.arrive; barrier.cluster.wait; ld.volatile.global.u32 %r9, "
                  "[%rd0+4096];\n" END,
        1, 96);
    for (uint32_t i = 32; i < 64; i++)
        assert_int_equal(words[i], 77);
    emu_machine(75);
}

static void count_multiplications(void *context, const struct ptxpack_emu_row *row)
{
    uint64_t *sums = (uint64_t *)context;
    if (strncmp(row->instruction, "mul.lo", 6) == 0) {
        sums[0] += row->warps;
        sums[1] += row->lanes;
    }
}

/* Behind if/else the lanes are together again: what stands there is executed, and counted, once. */
static void test_lanes_meet_again(void **state)
{
    uint64_t sums[2] = {0, 0};
    (void)state;
    ptxpack_emu_profile_start();
    expect_clean(BEGIN(75) "setp.lt.u32 %p1, %r0, 16; @%p1 bra A; mov.u32 %r9, 3; bra C; A: mov.u32 %r9, 4;\n"
                           "C: mul.lo.u32 %r10, %r0, 3; add.u32 %r9, %r9, %r10;\n" END,
                 1, 32);
    ptxpack_emu_profile_stop();
    ptxpack_emu_profile_read(count_multiplications, sums);
    assert_int_equal(sums[0], 1);
    assert_int_equal(sums[1], 32);
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(words[i], 3 * i + (i < 16 ? 4 : 3));
}

static void test_too_many_blocks(void **state)
{
    const struct emu_launch shape = {.grid = {0x20000, 0x8000, 1}, .block = {1, 1, 1}};
    (void)state;
    assert_int_equal(emu_run_shape(HEAD(75) ".visible .entry k() { ret; }\n", &shape, "k"), 701);
}

/* Text that wants too much ends in a line, and takes nothing. */
static void test_hostile(void **state)
{
    static const struct {
        const char  *text;
        unsigned int result;
        const char  *part;
    } cases[] = {
        {".global .b8 a[1099511627776]; .visible .entry k(.param .u64 out) { ret; }", 2,
         "no device memory for 'a'"},
        {".const .b8 a[100000]; .visible .entry k(.param .u64 out) { ret; }", 218, "64 KiB of constants"},
        {".visible .entry k(.param .u64 out) { .shared .b8 a[65536]; .reg .b32 r; mov.u32 r, a; ret; }", 218,
         "48 KiB of static shared memory"},
        {".visible .entry k(.param .u64 out) { .local .b8 a[1048576]; ret; }", 218,
         "too large for local memory"},
        {".visible .entry k(.param .u64 out) { .reg .b64 %r<500000>; ret; }", 218, "too many registers"},
        {".visible .entry k(.param .b8 p[40000]) { ret; }", 218, "parameters"},
        {".visible .entry k(.param .u64 out) { { { { bra L; } } } ret; }", 218, "'L'"},
    };
    char text[1024];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(text, sizeof text, "%s%s\n", HEAD(75), cases[i].text);
        unsigned int result = run(text, 1, 32);
        if (result != cases[i].result || strstr(emu_log(), cases[i].part) == NULL)
            print_error("%s: result %u, %s\n", cases[i].text, result, emu_log());
        assert_int_equal(result, cases[i].result);
        assert_non_null(strstr(emu_log(), cases[i].part));
    }
    /* a grid of 2^31 - 1 blocks that never end */
    emu_test_settings.budget = 1000000;
    assert_int_equal(run(BEGIN(75) "L: bra L;\n"
                                   "mov.u32 %r9, 0;\n" END,
                         0x7fffffff, 1024),
                     702);
    emu_machine(75);
}

/* A column of a row-major tile of 32 words: slow, not wrong, so that it is only said when it is asked for. */
static void test_bank_conflicts(void **state)
{
#define TILE(pitch)                                              \
    BEGIN(75)                                                    \
    ".shared .align 128 .b8 tile[8192];\n"                       \
    "mov.u32 %r4, tile; mad.lo.u32 %r5, %r0, " #pitch ", %r4;\n" \
    "st.shared.u32 [%r5], %r0;\n"                                \
    "ld.shared.u32 %r9, [%r5];\n" END
    (void)state;
    expect_clean(TILE(128), 1, 32);
    emu_test_settings.judge |= EMU_JUDGE_CONFLICT;
    expect_report(TILE(128), 32, 719,
                  "conflict: line 12 of the PTX: st.shared.u32: warp 0 of block (0,0,0) needs 32 wavefronts");
    assert_non_null(strstr(emu_log(), "line 13"));
    expect_clean(TILE(132), 1, 32);
    emu_machine(75);
#undef TILE
}

int main(void)
{
    /* clang-format off */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_divergence),         cmocka_unit_test(test_partial_warps_and_exits),
        cmocka_unit_test(test_lanes_wait_for_lanes), cmocka_unit_test(test_branch_tables),
        cmocka_unit_test(test_calls),              cmocka_unit_test(test_barriers),
        cmocka_unit_test(test_special_registers),  cmocka_unit_test(test_deadlocks),
        cmocka_unit_test(test_endless_loop),       cmocka_unit_test(test_stack_overflow),
        cmocka_unit_test(test_trap),               cmocka_unit_test(test_divergent_aligned),
        cmocka_unit_test(test_undefined_register), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_targets),            cmocka_unit_test(test_clusters),
        cmocka_unit_test(test_blocks_wait_for_blocks), cmocka_unit_test(test_bank_conflicts),
        cmocka_unit_test(test_hostile),            cmocka_unit_test(test_mixed_arguments),
        cmocka_unit_test(test_long_waits),         cmocka_unit_test(test_parts_of_a_warp),
        cmocka_unit_test(test_counted_barriers),   cmocka_unit_test(test_cluster_barrier_exits),
        cmocka_unit_test(test_lanes_meet_again),   cmocka_unit_test(test_too_many_blocks),
    };
    /* clang-format on */
    emu_machine(75);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
