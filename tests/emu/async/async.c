/* async.c - cp.async on the emulated GPU: groups, waits, and what is done wrongly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/support/emu_fixture.h"

/* %rd0 in, %rd1 out, %r0 thread, %r1 shared address of its 16 bytes, %rd2 global address of its 16 bytes,
 * %rd3 its word of out. */
#define BEGIN                                                                   \
    ".version 8.0\n.target sm_80\n.address_size 64\n"                           \
    ".visible .entry k(.param .u64 in, .param .u64 out) {\n"                    \
    ".shared .align 16 .b8 tile[8192]; .shared .align 8 .b64 bar;\n"            \
    ".reg .pred %p<9>; .reg .b32 %r<30>; .reg .b64 %rd<20>;\n"                  \
    "ld.param.u64 %rd0, [in]; ld.param.u64 %rd1, [out]; mov.u32 %r0, %tid.x;\n" \
    "shl.b32 %r2, %r0, 4; mov.u32 %r1, tile; add.u32 %r1, %r1, %r2;\n"          \
    "cvt.u64.u32 %rd2, %r2; add.u64 %rd2, %rd0, %rd2;\n"                        \
    "mul.wide.u32 %rd3, %r0, 4; add.u64 %rd3, %rd1, %rd3;\n"
#define END     "st.global.u32 [%rd3], %r9; ret; }\n"
#define COPY    "cp.async.cg.shared.global [%r1], [%rd2], 16;\n"
#define COMMIT  "cp.async.commit_group;\n"
#define WAIT(n) "cp.async.wait_group " #n ";\n"

enum { WORDS = 2048 };
static uint32_t                    in[WORDS], out[WORDS];
static uint64_t                    in_address, out_address;
static const enum emu_async_policy policies[] = {EMU_ASYNC_EARLIEST, EMU_ASYNC_LATEST, EMU_ASYNC_RANDOM};
enum { POLICIES = 3 };

static void begin(void)
{
    emu_machine(80);
    in_address = emu_buffer(sizeof in);
    out_address = emu_buffer(sizeof out);
    for (uint32_t i = 0; i < WORDS; i++)
        in[i] = i * 2654435761u + 12345;
}

static unsigned int run(const char *text, uint32_t threads, enum emu_async_policy policy)
{
    emu_log_clear();
    emu_test_settings.async_policy = policy;
    emu_write(in_address, in, sizeof in);
    memset(out, 0xee, sizeof out);
    emu_write(out_address, out, sizeof out);
    const uint64_t addresses[] = {in_address, out_address};
    unsigned int   result = emu_run(text, "k", 1, threads, 0, addresses, 2);
    emu_read(out, out_address, sizeof out);
    return result;
}

static void expect_clean(const char *text, uint32_t threads, enum emu_async_policy policy)
{
    unsigned int result = run(text, threads, policy);
    if (result != 0 || *emu_log())
        print_error("policy %d: result %u\n%s", (int)policy, result, emu_log());
    assert_int_equal(result, 0);
    assert_string_equal(emu_log(), "");
}

/* Under every policy, and with several seeds where that matters. */
static void expect_report(const char *text, uint32_t threads, unsigned int wanted, const char *part)
{
    for (int p = 0; p < POLICIES; p++) {
        unsigned int result = run(text, threads, policies[p]);
        if (result != wanted || strstr(emu_log(), part) == NULL)
            print_error("policy %d: result %u, wanted %u and '%s' in\n%s", p, result, wanted, part, emu_log());
        assert_int_equal(result, wanted);
        assert_non_null(strstr(emu_log(), part));
    }
}

/* ---- what arrives --------------------------------------------------------------------------------- */
static void test_copies_arrive(void **state)
{
    (void)state;
    begin();
    for (int p = 0; p < POLICIES; p++) {
        expect_clean(BEGIN COPY COMMIT WAIT(
                         0) "bar.sync 0;\n"
                            "xor.b32 %r3, %r2, 48; mov.u32 %r4, tile; add.u32 %r4, %r4, %r3; "
                            "ld.shared.u32 %r9, [%r4+8];\n" END,
                     96, policies[p]);
        for (uint32_t t = 0; t < 96; t++)
            assert_int_equal(out[t], in[(t ^ 3) * 4 + 2]);
    }
}

/* 4, 8 and 16 bytes of which the thread's number says how many are read; nothing is read at address 0. */
static void test_zeros_fill_the_rest(void **state)
{
    (void)state;
    static const int sizes[] = {4, 8, 16};
    char             text[4096];
    begin();
    for (int s = 0; s < 3; s++)
        for (int p = 0; p < POLICIES; p++) {
            snprintf(text, sizeof text,
                     "%s mov.u32 %%r9, -1; "
                     "st.shared.v4.u32 [%%r1], {%%r9,%%r9,%%r9,%%r9};\n"
                     "rem.u32 %%r5, %%r0, %d; setp.eq.u32 %%p1, %%r5, 0; selp.b64 %%rd2, 0, %%rd2, %%p1;\n"
                     "cp.async.ca.shared.global.L2::128B [%%r1], [%%rd2], %d, %%r5;\n"
                     "cp.async.wait_all;\n"
                     "ld.shared.v4.u32 {%%r10,%%r11,%%r12,%%r13}, [%%r1];\n"
                     "mul.wide.u32 %%rd4, %%r0, 16; add.u64 %%rd4, %%rd1, %%rd4;\n"
                     "st.global.v4.u32 [%%rd4], {%%r10,%%r11,%%r12,%%r13}; ret; }\n",
                     BEGIN, sizes[s] + 1, sizes[s]);
            expect_clean(text, 64, policies[p]);
            for (int t = 0; t < 64; t++) {
                unsigned char wanted[16];
                memset(wanted, 0xff, sizeof wanted);
                memset(wanted, 0, (size_t)sizes[s]);
                memcpy(wanted, &in[t * 4], (size_t)(t % (sizes[s] + 1)));
                assert_memory_equal(&out[t * 4], wanted, 16);
            }
        }
}

static void test_ignored_sources(void **state)
{
    (void)state;
    begin();
    for (int p = 0; p < POLICIES; p++) {
        expect_clean(BEGIN
                     "and.b32 %r5, %r0, 1; setp.eq.u32 %p1, %r5, 1; selp.b64 %rd2, 64, %rd2, %p1;\n"
                     "mov.b64 %rd9, 0;\n"
                     "cp.async.cg.shared::cta.global.L2::cache_hint [%r1], [%rd2], 16, %p1, %rd9;\n" COMMIT
                         WAIT(0) "ld.shared.u32 %r9, [%r1+12];\n" END,
                     40, policies[p]);
        for (uint32_t t = 0; t < 40; t++)
            assert_int_equal(out[t], t % 2 ? 0 : in[t * 4 + 3]);
        assert_int_equal(out[40], 0xeeeeeeee);
    }
}

/* Three stages: the sum of 8 tiles, two of which are always on their way. */
static void test_pipeline(void **state)
{
    (void)state;
    begin();
    for (int p = 0; p < POLICIES; p++) {
        expect_clean(BEGIN "mov.u32 %r9, 0; mov.u32 %r20, 0; mov.u32 %r21, 0;\n" COPY COMMIT
                           "cp.async.cg.shared.global [%r1+1024], [%rd2+1024], 16;\n" COMMIT
                           "LOOP: add.u32 %r22, %r20, 2; setp.ge.u32 %p1, %r22, 8; @%p1 bra NONE;\n"
                           "rem.u32 %r23, %r22, 3; shl.b32 %r23, %r23, 10; add.u32 %r23, %r23, %r1;\n"
                           "mul.wide.u32 %rd5, %r22, 1024; add.u64 %rd5, %rd5, %rd2;\n"
                           "cp.async.cg.shared.global [%r23], [%rd5], 16;\n"
                           "NONE: " COMMIT WAIT(
                               2) "bar.sync 0;\n"
                                  "rem.u32 %r23, %r20, 3; shl.b32 %r23, %r23, 10; xor.b32 %r24, %r2, 16; "
                                  "add.u32 %r23, %r23, %r24;\n"
                                  "mov.u32 %r24, tile; add.u32 %r24, %r24, %r23; ld.shared.u32 %r25, [%r24]; "
                                  "add.u32 %r9, %r9, %r25;\n"
                                  "bar.sync 0;\n"
                                  "add.u32 %r20, %r20, 1; setp.lt.u32 %p2, %r20, 8; @%p2 bra LOOP;\n" END,
                     64, policies[p]);
        for (uint32_t t = 0; t < 64; t++) {
            uint32_t sum = 0;
            for (uint32_t i = 0; i < 8; i++)
                sum += in[i * 256 + (t ^ 1) * 4];
            assert_int_equal(out[t], sum);
        }
    }
}

/* Lanes that commit and wait for themselves: the groups of each are its own. */
static void test_lanes_have_their_own_groups(void **state)
{
    (void)state;
    begin();
    for (int p = 0; p < POLICIES; p++) {
        expect_clean(BEGIN COPY "setp.lt.u32 %p1, %r0, 16; @%p1 bra LOW;\n" /* the upper ones: two groups */
                     COMMIT "cp.async.ca.shared.global [%r1+1024], [%rd2+16], 4;\n" COMMIT WAIT(
                         1) "ld.shared.u32 %r9, [%r1]; bra DONE;\n"
                            "LOW: cp.async.ca.shared.global [%r1+1024], [%rd2+32], 4;\n" COMMIT WAIT(
                                0) "ld.shared.u32 %r9, [%r1+1024];\n"
                                   "DONE: cp.async.wait_all;\n" END,
                     32, policies[p]);
        for (uint32_t t = 0; t < 32; t++)
            assert_int_equal(out[t], t < 16 ? in[t * 4 + 8] : in[t * 4]);
    }
}

/* One wait of lanes whose commits differ: the upper half closed a group more, before the second copy. */
#define UNEQUAL                                                          \
    BEGIN COPY "setp.ge.u32 %p1, %r0, 16; @%p1 cp.async.commit_group;\n" \
               "cp.async.cg.shared.global [%r1+1024], [%rd2+64], 16;\n" COMMIT WAIT(1) "mov.u32 %r9, 3;\n"

static void test_unequal_groups(void **state)
{
    (void)state;
    begin();
    for (int p = 0; p < POLICIES; p++) {
        expect_clean(UNEQUAL "@%p1 ld.shared.u32 %r9, [%r1];\n" END, 32, policies[p]);
        for (uint32_t t = 0; t < 32; t++)
            assert_int_equal(out[t], t < 16 ? 3 : in[t * 4]);
    }
    expect_report(UNEQUAL "@!%p1 ld.shared.u32 %r9, [%r1];\n" END, 32, 719, "was waited for");
    expect_report(UNEQUAL "@%p1 ld.shared.u32 %r9, [%r1+1024];\n" END, 32, 719, "was waited for");
    emu_test_settings.judge = 0;
    expect_clean(BEGIN
                 "mov.u32 %r9, 7; st.shared.u32 [%r1], %r9; st.shared.u32 [%r1+1024], %r9;\n"
                 "setp.ge.u32 %p1, %r0, 16; @%p1 cp.async.cg.shared.global [%r1], [%rd2], 16;\n"
                 "@!%p1 cp.async.cg.shared.global [%r1], [%rd2], 16; @%p1 cp.async.commit_group;\n" COMMIT WAIT(
                     1) "ld.shared.u32 %r9, [%r1];\n" END,
                 32, EMU_ASYNC_LATEST);
    for (uint32_t t = 0; t < 32; t++)
        assert_int_equal(out[t], t < 16 ? 7 : in[t * 4]);
}

/* Neighbours in shared memory that are none in global memory. */
static void test_gather(void **state)
{
    (void)state;
    begin();
    expect_clean(BEGIN
                 "xor.b32 %r5, %r0, 21; mul.wide.u32 %rd2, %r5, 16; add.u64 %rd2, %rd0, %rd2;\n" COPY COMMIT
                     WAIT(0) "ld.shared.u32 %r9, [%r1+4];\n" END,
                 64, EMU_ASYNC_LATEST);
    for (uint32_t t = 0; t < 64; t++)
        assert_int_equal(out[t], in[(t ^ 21) * 4 + 1]);
}

/* The judge off: what is not waited for is not there when it comes last, and two copies of one group that
 * write
 * the same bytes end in either order. */
static void test_luck_runs_out(void **state)
{
    (void)state;
    static const char no_wait[] = BEGIN "mov.u32 %r9, 7; st.shared.u32 [%r1], %r9;\n" COPY COMMIT
                                        "ld.shared.u32 %r9, [%r1];\n" END;
    static const char                                             one_too_few[] = BEGIN
        "mov.u32 %r9, 7; st.shared.u32 [%r1], %r9;\n" COPY COMMIT WAIT(1) "ld.shared.u32 %r9, [%r1];\n" END;
    static const char twice[] = BEGIN                              COPY
        "cp.async.cg.shared.global [%r1], [%rd2+16], 16;\n" COMMIT WAIT(0) "ld.shared.u32 %r9, [%r1];\n" END;
    begin();
    emu_test_settings.judge = 0;
    const char *early[] = {no_wait, one_too_few};
    for (int i = 0; i < 2; i++) {
        expect_clean(early[i], 32, EMU_ASYNC_EARLIEST);
        assert_int_equal(out[5], in[20]);
        expect_clean(early[i], 32, EMU_ASYNC_LATEST);
        assert_int_equal(out[5], 7);
    }
    expect_clean(twice, 32, EMU_ASYNC_EARLIEST);
    assert_int_equal(out[5], in[24]);
    expect_clean(twice, 32, EMU_ASYNC_LATEST);
    assert_int_equal(out[5], in[20]);
    int seen[2] = {0, 0};
    for (emu_test_settings.seed = 1; emu_test_settings.seed <= 40; emu_test_settings.seed++) {
        expect_clean(twice, 32, EMU_ASYNC_RANDOM);
        seen[out[5] == in[20]]++;
    }
    assert_true(seen[0] > 0 && seen[1] > 0);
}

/* ---- arrivals on mbarriers ------------------------------------------------------------------------ */
#define READ_OTHER "xor.b32 %r3, %r2, 16; mov.u32 %r4, tile; add.u32 %r4, %r4, %r3; ld.shared.u32 %r9, [%r4];\n"
#define INIT(count)                                                                                          \
    "mov.u32 %r10, bar; setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared.b64 [%r10], " count "; bar.sync " \
    "0;\n"

static void test_arrivals_after_copies(void **state)
{
    (void)state;
    begin();
    for (int p = 0; p < POLICIES; p++) {
        expect_clean(BEGIN INIT("64") COPY
                     "cp.async.mbarrier.arrive.noinc.shared.b64 [%r10];\n"
                     "L: mbarrier.test_wait.parity.shared.b64 %p2, [%r10], 0; @!%p2 bra L;\n" READ_OTHER END,
                     64, policies[p]);
        for (uint32_t t = 0; t < 64; t++)
            assert_int_equal(out[t], in[(t ^ 1) * 4]);
        expect_clean(BEGIN INIT("64") COPY
                     "cp.async.mbarrier.arrive.shared::cta.b64 [%r10];\n"
                     "mbarrier.arrive.shared.b64 %rd10, [%r10];\n"
                     "L: mbarrier.test_wait.shared.b64 %p2, [%r10], %rd10; @!%p2 bra L;\n" READ_OTHER END,
                     64, policies[p]);
        for (uint32_t t = 0; t < 64; t++)
            assert_int_equal(out[t], in[(t ^ 1) * 4]);
    }
}

/* Only what was issued before the arrival is covered by it. */
static void test_arrival_comes_too_early(void **state)
{
    (void)state;
    begin();
    expect_report(BEGIN INIT(
                      "64") "cp.async.mbarrier.arrive.noinc.shared.b64 [%r10];\n" COPY
                            "L: mbarrier.test_wait.parity.shared.b64 %p2, [%r10], 0; @!%p2 bra L;\n" READ_OTHER
                                END,
                  64, 719, "cp.async");
}

/* ---- what is done wrongly ------------------------------------------------------------------------- */
static void test_misuse_is_found(void **state)
{
    (void)state;
    begin();
    expect_report(BEGIN COPY COMMIT "ld.shared.u32 %r9, [%r1];\n" END, 32, 719, "cp.async");
    expect_report(BEGIN COPY COMMIT WAIT(1) "ld.shared.u32 %r9, [%r1];\n" END, 32, 719, "cp.async");
    expect_report(BEGIN COPY WAIT(0) "ld.shared.u32 %r9, [%r1];\n" COMMIT WAIT(0) END, 32, 719, "cp.async");
    expect_report(BEGIN COPY COMMIT "mov.u32 %r9, 1; st.global.u32 [%rd2], %r9;\n" WAIT(0) END, 32, 719,
                  "cp.async");
    expect_report(BEGIN COPY COMMIT "mov.u32 %r9, 1; st.shared.u32 [%r1], %r9;\n" WAIT(0) END, 32, 719,
                  "cp.async");
    expect_report(BEGIN COPY COMMIT WAIT(0) READ_OTHER END, 64, 719, "cp.async"); /* no barrier */
    expect_report(BEGIN "mov.u32 %r5, 17;\n cp.async.cg.shared.global [%r1], [%rd2], 16, %r5;\n" COMMIT WAIT(
                      0) "mov.u32 "
                         "%r9, 0;\n" END,
                  32, 719, "reads 17 bytes for a copy of 16");
    expect_report(BEGIN "mov.u32 %r10, bar; mov.u32 %r9, 0; setp.eq.u32 %p1, %r0, 0; @!%p1 bra E;\n"
                        "mbarrier.init.shared.b64 [%r10], 1; cp.async.ca.shared.global [%r10], [%rd2], 8;\n"
                        "cp.async.wait_all;\nE: " END,
                  32, 719, "mbarrier");
}

static void test_faults(void **state)
{
    (void)state;
    begin();
    expect_report(BEGIN "cp.async.cg.shared.global [%r1+8], [%rd2], 16;\n" END, 32, 716, "");
    expect_report(BEGIN "cp.async.cg.shared.global [%r1], [%rd2+8], 16;\n" END, 32, 716, "");
    expect_report(BEGIN "cp.async.cg.shared.global [%r1], [%rd2+8192], 16;\n" END, 32, 700, "");
    expect_report(BEGIN "cp.async.cg.shared.global [%r1+32768], [%rd2], 16;\n" END, 32, 700, "");
    expect_report(BEGIN "mov.u32 %r9, 0;\nLOOP: @%p1 bra DONE; cp.async.ca.shared.global [%r1], [%rd2], 4;\n"
                        "add.u32 %r9, %r9, 1; setp.gt.u32 %p1, %r9, 70000; bra LOOP;\nDONE: " END,
                  1, 719, "");
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text, *line;
    } rows[] = {
        {"cp.async.cg.shared.global [%r1], [%rd2], 8;", ".cg has 16"},
        {"cp.async.ca.shared.global [%r1], [%rd2], 12;", "12 bytes"},
        {"cp.async.ca.shared::cluster.global [%r1], [%rd2], 16;", "from .global to .shared::cta"},
        {"cp.async.cv.shared.global [%r1], [%rd2], 16;", "cp.async.cv"},
        {"cp.async.ca.shared.global [%r1], [%rd2], %r1;", "no integer constant"},
        {"cp.async.bulk.commit_group;", "90"},
        {"cp.async.wait_group -1;", "-1"},
        {"cp.async.mbarrier.arrive.noinc.shared.b32 [%r1];", ".b64"},
        {"cp.sync.ca.shared.global [%r1], [%rd2], 16;", "only cp.async"},
    };
    char text[4096];
    begin();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(text, sizeof text, "%s %s mov.u32 %%r9, 0; %s", BEGIN, rows[i].text, END);
        unsigned int result = run(text, 32, EMU_ASYNC_LATEST);
        if (result != 218 || strstr(emu_log(), rows[i].line) == NULL)
            print_error("%s: %u %s", rows[i].text, result, emu_log());
        assert_int_equal(result, 218);
        assert_non_null(strstr(emu_log(), rows[i].line));
    }
}

/* ---- any program ---------------------------------------------------------------------------------- */
/* Copies of random sizes to places of their own, groups, waits: what a wait covers is there. */
static char *random_program(char *text, size_t cap, uint32_t *seed, int *source, int *bytes, int *copies)
{
    size_t n = (size_t)snprintf(text, cap, "%s", BEGIN);
    int    groups[64], group = 0, open = 0;
    *copies = 0;
    for (int i = 0; i < 40 && *copies < 24; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        uint32_t dice = *seed >> 16;
        if (dice % 8 < 5) {
            source[*copies] = (int)(dice >> 4) % 24;
            bytes[*copies] = 4 << (dice >> 9) % 3;
            groups[*copies] = group;
            n += (size_t)snprintf(text + n, cap - n, "cp.async.ca.shared.global [%%r1+%d], [%%rd2+%d], %d;\n",
                                  *copies * 256, source[*copies] * 256, bytes[*copies]);
            ++*copies;
            open = 1;
        } else if (dice % 8 < 7) {
            n += (size_t)snprintf(text + n, cap - n, "%s", COMMIT);
            group++;
            open = 0;
        } else {
            int newest = (int)(dice >> 5) % 3;
            n += (size_t)snprintf(text + n, cap - n, "cp.async.wait_group %d;\n", newest);
            for (int c = 0; c < *copies; c++)
                if (groups[c] < group - newest)
                    n += (size_t)snprintf(text + n, cap - n, "ld.shared.u32 %%r9, [%%r1+%d];\n", c * 256);
        }
    }
    if (open)
        n += (size_t)snprintf(text + n, cap - n, "%s", COMMIT);
    n += (size_t)snprintf(text + n, cap - n, "%s mov.u32 %%r9, 0;\n", WAIT(0));
    for (int c = 0; c < *copies; c++)
        n += (size_t)snprintf(text + n, cap - n,
                              "ld.shared.u32 %%r10, [%%r1+%d]; "
                              "mad.lo.u32 %%r9, %%r9, 31, %%r10;\n",
                              c * 256 + bytes[c] - 4);
    snprintf(text + n, cap - n, "%s", END);
    return text;
}

static void test_random_programs(void **state)
{
    (void)state;
    static char text[32768];
    uint32_t    seed = 20240607;
    int         source[64], bytes[64], copies;
    printf("seed %u\n", seed);
    begin();
    for (int i = 0; i < 60; i++) {
        random_program(text, sizeof text, &seed, source, bytes, &copies);
        emu_test_settings.seed = seed;
        expect_clean(text, 16, policies[i % 3]);
        for (int t = 0; t < 16; t++) {
            uint32_t sum = 0;
            for (int c = 0; c < copies; c++)
                sum = sum * 31 + in[source[c] * 64 + t * 4 + bytes[c] / 4 - 1];
            assert_int_equal(out[t], sum);
        }
    }
}

int main(void)
{
    /* clang-format off */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies_arrive), cmocka_unit_test(test_zeros_fill_the_rest),
        cmocka_unit_test(test_ignored_sources), cmocka_unit_test(test_pipeline),
        cmocka_unit_test(test_lanes_have_their_own_groups), cmocka_unit_test(test_unequal_groups),
        cmocka_unit_test(test_gather), cmocka_unit_test(test_luck_runs_out),
        cmocka_unit_test(test_arrivals_after_copies), cmocka_unit_test(test_arrival_comes_too_early),
        cmocka_unit_test(test_misuse_is_found), cmocka_unit_test(test_faults),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_random_programs),
    };
    /* clang-format on */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
