/* mbarrier.c - mbarriers on the emulated GPU: arrivals, bytes, phases, waits; misuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "tests/support/emu_fixture.h"

/* %r0 thread, %r1 its word of data, %r10 an mbarrier, %p1 thread 0; %rd1 its word of
 * out; %r20 rank in the cluster. */
#define BEGIN                                                                                          \
    ".version 8.1\n.target sm_90\n.address_size 64\n"                                                  \
    ".visible .entry k(.param .u64 out) {\n"                                                           \
    ".shared .align 16 .b8 data[4096]; .shared .align 8 .b8 bars[256];\n"                              \
    ".reg .pred %p<9>; .reg .b32 %r<40>; .reg .b64 %rd<20>;\n"                                         \
    "ld.param.u64 %rd0, [out]; mov.u32 %r0, %tid.x; setp.eq.u32 %p1, %r0, 0; mov.u32 %r10, bars;\n"    \
    "shl.b32 %r2, %r0, 2; mov.u32 %r1, data; add.u32 %r1, %r1, %r2; mov.u32 %r20, %cluster_ctarank;\n" \
    "mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mad.lo.u32 %r3, %r3, %r4, %r0;\n"                    \
    "mul.wide.u32 %rd1, %r3, 4; add.u64 %rd1, %rd0, %rd1; mov.u32 %r9, 0;\n"
#define END         "st.global.u32 [%rd1], %r9; ret; }\n"
#define INIT(count) "@%p1 mbarrier.init.shared.b64 [%r10], " #count "; bar.sync 0;\n"
#define ARRIVE      "mbarrier.arrive.shared.b64 %rd5, [%r10];\n"
#define WAIT(label, parity) \
    label ": mbarrier.try_wait.parity.shared.b64 %p2, [%r10], " #parity "; @!%p2 bra " label ";\n"
#define CLUSTER_SYNC "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"

enum { WORDS = 1024 };
static uint32_t                    out[WORDS];
static const enum emu_async_policy policies[] = {EMU_ASYNC_EARLIEST, EMU_ASYNC_LATEST, EMU_ASYNC_RANDOM};

static unsigned int run(const char *text, uint32_t grid, uint32_t cluster, uint32_t threads)
{
    uint64_t          address = emu_buffer(sizeof out);
    struct emu_launch launch = {.grid = {grid, 1, 1},
                                .block = {threads, 1, 1},
                                .cluster = {cluster, 1, 1},
                                .parameters = &address};
    emu_log_clear();
    memset(out, 0xee, sizeof out);
    emu_write(address, out, sizeof out);
    unsigned int result = emu_run_shape(text, &launch, "k");
    emu_read(out, address, sizeof out);
    return result;
}

static void expect_clean(const char *text, uint32_t grid, uint32_t cluster, uint32_t threads)
{
    unsigned int result = run(text, grid, cluster, threads);
    if (result != 0 || *emu_log())
        print_error("result %u\n%s", result, emu_log());
    assert_int_equal(result, 0);
    assert_string_equal(emu_log(), "");
}

static void expect_report(const char *text, uint32_t cluster, uint32_t threads, const char *part)
{
    unsigned int result = run(text, cluster, cluster, threads);
    if (result == 0 || strstr(emu_log(), part) == NULL)
        print_error("result %u, wanted '%s' in\n%s", result, part, emu_log());
    assert_int_not_equal(result, 0);
    assert_non_null(strstr(emu_log(), part));
}

/* ---- arrivals and phases -------------------------------------------------------------------------- */
static void test_arrive_and_wait(void **state)
{
    (void)state;
    emu_machine(90);
    for (int p = 0; p < 3; p++) {
        emu_test_settings.async_policy = policies[p];
        expect_clean(BEGIN INIT(96) "st.shared.u32 [%r1], %r0;\n" ARRIVE
                           WAIT("L", 0) "xor.b32 %r5, %r2, 128; mov.u32 %r6, data; add.u32 %r6, %r6, %r5; "
                                        "setp.lt.u32 %p3, %r0, 64;\n"
                                        "@%p3 ld.shared.u32 %r9, [%r6];\n" END,
                     1, 1, 96);
        for (uint32_t t = 0; t < 64; t++)
            assert_int_equal(out[t], t ^ 32);
        expect_clean(
            BEGIN INIT(64) "st.shared.u32 [%r1], %r0;\n" ARRIVE
                           "L: mbarrier.test_wait.acquire.cta.shared::cta.b64 %p2, [%r10], %rd5; @!%p2 bra L;\n"
                           "xor.b32 %r5, %r2, 128; mov.u32 %r6, data; add.u32 %r6, %r6, %r5; "
                           "ld.shared.u32 %r9, [%r6];\n" END,
            1, 1, 64);
        for (uint32_t t = 0; t < 64; t++)
            assert_int_equal(out[t], t ^ 32);
    }
}

/* Producer and consumer warps over a ring of two slots, 20 turns: full and empty barriers, parities. */
static void test_ring(void **state)
{
    (void)state;
    static const char text[] = BEGIN
        "@%p1 mbarrier.init.shared.b64 [%r10], 32; @%p1 mbarrier.init.shared.b64 [%r10+8], 32;\n"
        "@%p1 mbarrier.init.shared.b64 [%r10+16], 32; @%p1 mbarrier.init.shared.b64 [%r10+24], 32; "
        "bar.sync 0;\n"
        "and.b32 %r5, %r2, 127; mov.u32 %r6, data; add.u32 %r5, %r5, %r6; mov.u32 %r11, 0;\n"
        "setp.lt.u32 %p3, %r0, 32; @!%p3 bra CONSUMER;\n"
        "PRODUCER: and.b32 %r12, %r11, 1; shl.b32 %r13, %r12, 3; add.u32 %r13, %r13, %r10;\n"
        "shr.u32 %r14, %r11, 1; and.b32 %r14, %r14, 1; xor.b32 %r15, %r14, 1;\n"
        "E: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r13+16], %r15, 1000; @!%p2 bra E;\n"
        "mad.lo.u32 %r16, %r11, 1000, %r0; shl.b32 %r17, %r12, 10; add.u32 %r17, %r17, %r5; "
        "st.shared.u32 [%r17], %r16;\n"
        "mbarrier.arrive.release.cta.shared::cta.b64 _, [%r13];\n"
        "add.u32 %r11, %r11, 1; setp.lt.u32 %p4, %r11, 20; @%p4 bra PRODUCER; bra DONE;\n"
        "CONSUMER: and.b32 %r12, %r11, 1; shl.b32 %r13, %r12, 3; add.u32 %r13, %r13, %r10;\n"
        "shr.u32 %r14, %r11, 1; and.b32 %r14, %r14, 1;\n"
        "F: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p2, [%r13], %r14; @!%p2 bra F;\n"
        "xor.b32 %r17, %r5, 4; shl.b32 %r18, %r12, 10; add.u32 %r17, %r17, %r18; "
        "ld.shared.u32 %r16, [%r17];\n"
        "add.u32 %r9, %r9, %r16; mbarrier.arrive.shared.b64 _, [%r13+16];\n"
        "add.u32 %r11, %r11, 1; setp.lt.u32 %p4, %r11, 20; @%p4 bra CONSUMER;\nDONE: " END;
    emu_machine(90);
    for (emu_test_settings.seed = 1; emu_test_settings.seed < 6; emu_test_settings.seed++)
        for (int p = 0; p < 3; p++) {
            emu_test_settings.async_policy = policies[p];
            expect_clean(text, 1, 1, 64);
            for (uint32_t t = 32; t < 64; t++)
                assert_int_equal(out[t], 190 * 1000 + 20 * ((t - 32) ^ 1));
        }
}

/* States tell what was pending; counts, drops, and phases of fewer arrivals after them. */
static void test_counts_and_states(void **state)
{
    (void)state;
    emu_machine(90);
    expect_clean(BEGIN
                 "mbarrier.init.shared.b64 [%r10], 7;\n"
                 "mbarrier.arrive.shared.b64 %rd5, [%r10], 3; mbarrier.pending_count.b64 %r5, %rd5;\n"
                 "mbarrier.arrive.noComplete.release.cta.shared.b64 %rd6, [%r10], 2; "
                 "mbarrier.pending_count.b64 %r6, %rd6;\n"
                 "mbarrier.test_wait.shared.b64 %p2, [%r10], %rd5; selp.u32 %r7, 1, 0, %p2;\n"
                 "mbarrier.arrive_drop.shared.b64 %rd7, [%r10], 2; mbarrier.pending_count.b64 %r8, %rd7;\n"
                 "mbarrier.test_wait.shared.b64 %p2, [%r10], %rd5; selp.u32 %r11, 1, 0, %p2;\n"
                 "mbarrier.arrive.shared.b64 %rd8, [%r10]; mbarrier.pending_count.b64 %r12, %rd8;\n"
                 "mbarrier.arrive.shared.b64 _, [%r10], 4;\n"
                 "mbarrier.test_wait.parity.shared.b64 %p2, [%r10], 1; selp.u32 %r13, 1, 0, %p2;\n"
                 "mbarrier.test_wait.parity.shared.b64 %p2, [%r10], 0; selp.u32 %r14, 1, 0, %p2;\n"
                 "mbarrier.inval.shared.b64 [%r10];\n"
                 "shl.b32 %r9, %r5, 4; or.b32 %r9, %r9, %r6; shl.b32 %r9, %r9, 4; or.b32 %r9, %r9, %r7;\n"
                 "shl.b32 %r9, %r9, 4; or.b32 %r9, %r9, %r8; shl.b32 %r9, %r9, 4; or.b32 %r9, %r9, %r11;\n"
                 "shl.b32 %r9, %r9, 4; or.b32 %r9, %r9, %r12; shl.b32 %r9, %r9, 4; or.b32 %r9, %r9, %r13;\n"
                 "shl.b32 %r9, %r9, 4; or.b32 %r9, %r9, %r14;\n" END,
                 1, 1, 1);
    assert_int_equal(out[0], 0x74021510);
}

/* Bytes: the phase waits for them, and takes them before they are expected while arrivals are pending. */
static void test_bytes(void **state)
{
    (void)state;
    emu_machine(90);
    expect_clean(BEGIN "mbarrier.init.shared.b64 [%r10], 1;\n"
                       "mbarrier.complete_tx.relaxed.cta.shared.b64 [%r10], 48;\n"
                       "mbarrier.arrive.expect_tx.shared.b64 _, [%r10], 64;\n"
                       "mbarrier.test_wait.parity.shared.b64 %p2, [%r10], 0; selp.u32 %r5, 1, 0, %p2;\n"
                       "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r10], 16;\n"
                       "mbarrier.test_wait.parity.shared.b64 %p2, [%r10], 0; selp.u32 %r6, 2, 0, %p2;\n"
                       "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r10], 8; "
                       "mbarrier.arrive.shared.b64 _, [%r10];\n"
                       "mbarrier.test_wait.parity.shared.b64 %p2, [%r10], 1; selp.u32 %r7, 4, 0, %p2;\n"
                       "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r10], 8;\n"
                       "mbarrier.test_wait.parity.shared.b64 %p2, [%r10], 1; selp.u32 %r8, 8, 0, %p2;\n"
                       "add.u32 %r9, %r5, %r6; add.u32 %r9, %r9, %r7; add.u32 %r9, %r9, %r8;\n" END,
                 1, 1, 1);
    assert_int_equal(out[0], 2 + 8);
}

/* ---- another block's ------------------------------------------------------------------------------ */
static void test_remote_arrivals(void **state)
{
    (void)state;
    emu_machine(90);
    expect_clean(BEGIN
                 "@%p1 mbarrier.init.shared.b64 [%r10], 64; fence.mbarrier_init.release.cluster;\n" CLUSTER_SYNC
                 "xor.b32 %r21, %r20, 1; mapa.shared::cluster.u32 %r22, %r10, %r21; "
                 "mapa.shared::cluster.u32 %r23, %r1, %r21;\n"
                 "mad.lo.u32 %r24, %r20, 100, %r0; st.shared::cluster.u32 [%r23], %r24;\n"
                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r22];\n"
                 "L: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r10], 0; @!%p2 bra L;\n"
                 "ld.shared.u32 %r9, [%r1];\n" CLUSTER_SYNC END,
                 2, 2, 64);
    for (uint32_t t = 0; t < 128; t++)
        assert_int_equal(out[t], t < 64 ? 100 + t : t - 64);
}

static void test_remote_stores(void **state)
{
    (void)state;
    emu_machine(90);
    for (int p = 0; p < 3; p++) {
        emu_test_settings.async_policy = policies[p];
        expect_clean(
            BEGIN
            "@%p1 mbarrier.init.shared.b64 [%r10], 1; fence.mbarrier_init.release.cluster;\n"
            "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r10], 768; mov.u32 %r25, 5;\n"
            "add.u32 %r26, %r1, %r2; add.u32 %r26, %r26, 1024; st.shared.u32 [%r26+-768], %r25;\n" CLUSTER_SYNC
            "xor.b32 %r21, %r20, 1; mapa.shared::cluster.u32 %r22, %r10, %r21;\n"
            "mapa.shared::cluster.u32 %r23, %r26, %r21;\n"
            "mad.lo.u32 %r24, %r20, 100, %r0; mov.u32 %r25, 7;\n"
            "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%r23], {%r24, %r25}, "
            "[%r22];\n"
            "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 "
            "[%r23+-768], %r24, [%r22];\n" WAIT(
                "L", 0) "ld.shared.v2.u32 {%r9, %r27}, [%r26]; ld.shared.u32 %r28, [%r26+-768];\n"
                        "add.u32 %r9, %r9, %r27; add.u32 %r9, %r9, %r28;\n" CLUSTER_SYNC END,
            2, 2, 64);
        for (uint32_t t = 0; t < 128; t++)
            assert_int_equal(out[t], (t < 64 ? 100 + t : t - 64) * 2 + 12);
    }
}

/* ---- what is done wrongly ------------------------------------------------------------------------- */
static void test_misuse_is_found(void **state)
{
    (void)state;
    static const struct {
        const char *text, *line;
    } rows[] = {
        {"mbarrier.arrive.shared.b64 _, [%r10];", "none was initialised there"},
        {"mbarrier.test_wait.parity.shared.b64 %p2, [%r10], 0;", "none was initialised there"},
        {"mbarrier.init.shared.b64 [%r10], 1; mbarrier.init.shared.b64 [%r10], 1;", "initialised already"},
        {"mbarrier.init.shared.b64 [%r10], 0;", "its count 0"},
        {"mbarrier.init.shared.b64 [%r10], 1048576;", "its count 1048576"},
        {"mbarrier.init.shared.b64 [%r10], 1; mbarrier.inval.shared.b64 [%r10]; "
         "mbarrier.arrive.shared.b64 _, [%r10];",
         "it was invalidated"},
        {"mbarrier.init.shared.b64 [%r10], 2; mbarrier.arrive.shared.b64 _, [%r10]; "
         "mbarrier.inval.shared.b64 [%r10];",
         "in the middle of phase 0: 1 of 2 arrivals"},
        {"mbarrier.init.shared.b64 [%r10], 2; mbarrier.expect_tx.relaxed.cta.shared.b64 [%r10], 16; "
         "mbarrier.inval.shared.b64 [%r10];",
         "16 bytes to come"},
        {"mbarrier.init.shared.b64 [%r10], 2; mbarrier.arrive.shared.b64 _, [%r10], 3;",
         "3 arrivals in phase 0"},
        {"mbarrier.init.shared.b64 [%r10], 1; mbarrier.arrive.expect_tx.shared.b64 _, [%r10], 16; "
         "mbarrier.arrive.shared.b64 _, [%r10];",
         "1 arrival in phase 0, which waits for 0 more (of 1)"},
        {"mbarrier.init.shared.b64 [%r10], 2; mbarrier.arrive.noComplete.shared.b64 %rd5, [%r10], 2;",
         ".noComplete"},
        {"mbarrier.init.shared.b64 [%r10], 2; mbarrier.expect_tx.relaxed.cta.shared.b64 [%r10], 1048575; "
         "mbarrier.expect_tx.relaxed.cta.shared.b64 [%r10], 1;",
         "1048576 bytes"},
        {"mbarrier.init.shared.b64 [%r10], 2; mbarrier.complete_tx.relaxed.cta.shared.b64 [%r10], 1048576;",
         "-1048576 bytes"},
        {"mbarrier.init.shared.b64 [%r10], 2; mbarrier.test_wait.parity.shared.b64 %p2, [%r10], 2;",
         "a parity of 2"},
        {"mbarrier.init.shared.b64 [%r10], 1; mbarrier.arrive.shared.b64 %rd5, [%r10]; "
         "mbarrier.arrive.shared.b64 _, "
         "[%r10]; mbarrier.test_wait.shared.b64 %p2, [%r10], %rd5;",
         "phase 0 is waited for"},
        {"mbarrier.init.shared.b64 [%r10], 1; mov.b64 %rd5, 77; "
         "mbarrier.test_wait.shared.b64 %p2, [%r10], %rd5;",
         "no state of this mbarrier"},
        {"mbarrier.init.shared.b64 [%r10], 1; mov.b64 %rd5, 77; st.shared.b64 [%r10], %rd5;",
         "where an mbarrier is alive"},
        {"mbarrier.init.shared.b64 [%r10], 1; ld.shared.b64 %rd5, [%r10];", "where an mbarrier is alive"},
        {"mbarrier.init.shared.b64 [%r10], 1; mov.u32 %r5, 77; st.shared.u32 [%r10+4], %r5; "
         "mbarrier.arrive.shared.b64 _, [%r10];",
         "something else was stored over it"},
        {"mbarrier.init.shared.b64 [%r10+4], 1;", "aligned"},
        {"mov.b64 %rd5, 0; mbarrier.arrive.shared.b64 %rd6, [%rd5+1000000];", "outside"},
        {"mbarrier.init.b64 [%rd0], 1;", "not in shared memory"},
    };
    char text[4096];
    emu_machine(90);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(text, sizeof text, "%s%s%s", BEGIN, rows[i].text, END);
        expect_report(text, 1, 1, rows[i].line);
    }
}

static void test_initialised_without_a_barrier(void **state)
{
    (void)state;
    emu_machine(90);
    expect_report(BEGIN "@%p1 mbarrier.init.shared.b64 [%r10], 64;\n" ARRIVE WAIT("L", 0) END, 1, 64, "race");
    expect_report(BEGIN INIT(32) "setp.lt.u32 %p3, %r0, 32; @%p3 st.shared.u32 [%r1], %r0;\n"
                                 "@%p3 mbarrier.arrive.relaxed.cta.shared.b64 _, [%r10];\n" WAIT(
                                     "L", 0) "mov.u32 %r6, data; ld.shared.u32 %r9, [%r6];\n" END,
                  1, 64, "race");
}

static void test_wait_for_ever(void **state)
{
    (void)state;
    emu_machine(90);
    expect_report(BEGIN INIT(65) ARRIVE WAIT("L", 0) END, 1, 64, "phase 0, 1 of 65 arrivals pending");
    expect_report(BEGIN INIT(1) "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r10], 100;\n" WAIT("L", 0) END,
                  1, 32, "100 bytes to come");
    expect_report(BEGIN INIT(32) ARRIVE WAIT("L", 1) WAIT("M", 1) END, 1, 32, "parity 1 is waited for");
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text, *line;
    } rows[] = {
        {"mbarrier.arrive.shared::cluster.b64 %rd5, [%r10];", "its destination is _"},
        {"mbarrier.init.shared::cluster.b64 [%r10], 1;", "another block's"},
        {"mbarrier.test_wait.parity.shared::cluster.b64 %p2, [%r10], 1;", "another block's"},
        {"mbarrier.init.global.b64 [%rd0], 1;", "in shared memory"},
        {"mbarrier.init.shared.b32 [%r10], 1;", ".b64"},
        {"mbarrier.arrive.noComplete.shared.b64 %rd5, [%r10];", "operands"},
        {"mbarrier.arrive.relaxed.shared.b64 %rd5, [%r10];", ".relaxed needs"},
        {"mbarrier.hold.shared.b64 [%r10], 1;", "mbarrier.hold"},
        {"mbarrier.init.release.cta.shared.b64 [%r10], 1;", ""},
    };
    char text[4096];
    emu_machine(90);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(text, sizeof text, "%s%s%s", BEGIN, rows[i].text, END);
        unsigned int result = run(text, 1, 1, 32);
        if (result != 218 || strstr(emu_log(), rows[i].line) == NULL)
            print_error("%s: %u %s", rows[i].text, result, emu_log());
        assert_int_equal(result, 218);
        assert_non_null(strstr(emu_log(), rows[i].line));
    }
}

/* A table of many: each lane has mbarriers of its own, all over shared memory. */
static void test_many(void **state)
{
    (void)state;
    emu_machine(90);
    expect_clean(BEGIN
                 "mov.u32 %r11, 0; mov.u32 %r6, data; add.u32 %r12, %r6, %r2; "
                 "add.u32 %r12, %r12, %r2;\n"
                 "LOOP: mbarrier.init.shared.b64 [%r12], 2; add.u32 %r12, %r12, 512; add.u32 %r11, %r11, 1;\n"
                 "setp.lt.u32 %p2, %r11, 8; @%p2 bra LOOP; add.u32 %r12, %r12, -4096;\n"
                 "AGAIN: mbarrier.arrive.shared.b64 _, [%r12], 2; "
                 "mbarrier.test_wait.parity.shared.b64 %p3, [%r12], 0;\n"
                 "@%p3 add.u32 %r9, %r9, 1; mbarrier.inval.shared.b64 [%r12]; add.u32 %r12, %r12, 512;\n"
                 "sub.u32 %r11, %r11, 1; setp.gt.u32 %p2, %r11, 0; @%p2 bra AGAIN;\n" END,
                 1, 1, 64);
    for (int t = 0; t < 64; t++)
        assert_int_equal(out[t], 8);
}

int main(void)
{
    /* clang-format off */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arrive_and_wait), cmocka_unit_test(test_ring),
        cmocka_unit_test(test_counts_and_states), cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_remote_arrivals), cmocka_unit_test(test_remote_stores),
        cmocka_unit_test(test_misuse_is_found), cmocka_unit_test(test_initialised_without_a_barrier),
        cmocka_unit_test(test_wait_for_ever), cmocka_unit_test(test_refusals), cmocka_unit_test(test_many),
    };
    /* clang-format on */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
