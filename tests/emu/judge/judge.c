/* judge.c - the judge by itself: warps and blocks made by hand access memory and synchronise, and the judge
 * must report exactly the accesses that nothing orders.  oracle.c tests random programs. */
#include "machine.h"
#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

/* ---- threads and barriers ------------------------------------------------------------------------- */
TEST(test_barrier)
{
    begin();
    touch(warp(0), ST, EMU_ALL, 0, 4, 4);
    touch(warp(1), LD, EMU_ALL, 0, 4, 4);
    expect("race: line 10 of the PTX: ld.shared.u32: thread (32,0,0) of block (0,0,0) reads shared 0x0..0x3, "
           "written by thread (0,0,0) at line 11 of the PTX, and nothing orders them");
    begin();
    touch(warp(0), LD, EMU_ALL, 0, 4, 4);
    touch(warp(1), ST, EMU_ALL, 4, 4, 4);
    expect("race: line 11 of the PTX: st.shared.u32: thread (32,0,0) of block (0,0,0) writes shared "
           "0x4..0x7, "
           "read by thread (1,0,0) at line 10");
    begin();
    for (int turn = 0; turn < 4; turn++) {
        for (int w = 0; w < WARPS; w++)
            touch(warp(w), ST, EMU_ALL, (uint64_t)w * 128, 4, 4);
        barrier(WARPS);
        for (int w = 0; w < WARPS; w++)
            touch(warp(w), LD, EMU_ALL, (uint64_t)((w + 1) % WARPS) * 128, 4, 4);
        barrier(WARPS);
    }
    expect(NULL);
}

TEST(test_widths)
{
    begin();
    touch(warp(0), ST, EMU_ALL, 0, 4, 2); /* neighbours write halves of one word */
    touch(warp(1), ST, EMU_ALL, 2, 4, 2);
    touch(warp(2), ST, EMU_ALL, 1024, 2, 1);
    touch(warp(3), ST, EMU_ALL, 1025, 2, 1);
    barrier(WARPS);
    touch(warp(2), LD, EMU_ALL >> 24, 0, 16, 16);
    touch(warp(3), LD, EMU_ALL >> 24, 0, 16, 16);
    barrier(WARPS);
    touch(warp(1), ST, EMU_ALL >> 24, 0, 16, 16);
    expect(NULL);
    begin();
    touch(warp(0), ST, 1, 6, 0, 2);
    touch(warp(1), LD, 1, 0, 0, 16);
    expect("reads shared 0x0..0xf, written by thread (0,0,0)");
    begin();
    touch(warp(0), LD, 1, 0, 0, 16);
    touch(warp(1), ST, 1, 15, 0, 1);
    expect("writes shared 0xf..0xf, read by thread (0,0,0)");
    begin();
    touch(warp(0), ST, 3, 64, 0, 4); /* two lanes, one word */
    expect("written by thread (0,0,0)");
}

TEST(test_lanes)
{
    begin();
    touch(warp(0), ST, EMU_ALL, 0, 4, 4);
    touch(warp(0), LD, 1, 4, 0, 4);
    expect("thread (0,0,0) of block (0,0,0) reads shared 0x4..0x7, written by thread (1,0,0)");
    begin();
    touch(warp(0), ST, EMU_ALL, 0, 4, 4);
    judge_warp_sync(warp(0), EMU_ALL);
    touch(warp(0), LD, EMU_ALL, 128, 0, 4);
    touch(warp(0), LD, EMU_ALL, 64, 0, 4);
    judge_warp_sync(warp(0), EMU_ALL);
    touch(warp(0), ST, 1, 64, 0, 4);
    expect(NULL);
    begin();
    touch(warp(0), ST, EMU_ALL, 0, 4, 4);
    judge_warp_sync(warp(0), 0xffff);
    touch(warp(0), LD, 1, 4 * 15, 0, 4);
    touch(warp(0), LD, 1, 4 * 16, 0, 4);
    expect("reads shared 0x40..0x43, written by thread (16,0,0)");
}

/* Only lane 0 arrives, which does not order what the other lanes did. */
TEST(test_elected)
{
    for (int synced = 0; synced < 2; synced++) {
        struct judge_clock *clock = NULL;
        begin();
        touch(warp(0), ST, EMU_ALL, 0, 4, 4);
        if (synced)
            judge_warp_sync(warp(0), EMU_ALL);
        judge_release(warp(0), 1, &clock);
        judge_acquire(warp(1), EMU_ALL, clock);
        touch(warp(1), LD, 1, 0, 0, 4);
        touch(warp(1), LD, 1, 4, 0, 4);
        expect(synced ? NULL : "reads shared 0x4..0x7, written by thread (1,0,0)");
    }
}

TEST(test_readers)
{
    for (int synced = 1; synced <= WARPS; synced++) {
        struct judge_clock *clock = NULL;
        begin();
        for (int w = 0; w < WARPS; w++) {
            touch(warp(w), LD, 0xff, 0, 16, 16);
            touch(warp(w), LD, EMU_ALL, 512, 0, 4);
        }
        for (int w = 0; w < synced; w++)
            judge_release(warp(w), EMU_ALL, &clock);
        judge_acquire(warp(0), EMU_ALL, clock);
        touch(warp(0), ST, 0xff, 0, 16, 16);
        touch(warp(0), ST, 1, 512, 0, 4);
        expect(synced == WARPS ? NULL : "race: line 11");
    }
}

TEST(test_clocks)
{
    struct judge_clock *phase = NULL, *done = NULL;
    begin();
    touch(warp(0), ST, 1, 0, 0, 4);
    judge_release(warp(0), 1, &phase);
    judge_clock_move(&m.cluster[0], &done, &phase);
    assert_null(phase);
    touch(warp(2), ST, 1, 4, 0, 4);
    judge_release(warp(2), 1, &phase); /* the next phase */
    judge_acquire(warp(1), EMU_ALL, done);
    touch(warp(1), LD, 1, 0, 0, 4);
    assert_int_equal(m.grid.findings, 0);
    touch(warp(1), LD, 1, 4, 0, 4);
    assert_int_equal(m.grid.findings, 1);
    judge_clock_move(&m.cluster[0], &done, &phase);
    judge_acquire(warp(3), EMU_ALL, done);
    touch(warp(3), LD, 1, 4, 0, 4);
    expect("reads shared 0x4..0x7");
    assert_int_equal(m.grid.findings, 1);
}

/* ---- blocks and clusters -------------------------------------------------------------------------- */
TEST(test_distributed)
{
    struct emu_ref ref[EMU_LANES];
    begin();
    touch(warp(0), ST, 1, 0, 0, 4);
    for (int l = 0; l < EMU_LANES; l++)
        ref[l] = in_shared(&m.cta[0][0], 0);
    judge_access(&m.warp[0][1][0], &op[LD], 1, ref, 4, EMU_READ);
    expect("thread (0,0,0) of block (1,0,0) reads shared 0x0..0x3 of block (0,0,0), written by thread "
           "(0,0,0) of "
           "block (0,0,0)");
}

TEST(test_flag)
{
    /* nothing is missing; one of the fences; the wait for the flag; one of the fences is of the scope .cta */
    for (int missing = 0; missing < 6; missing++) {
        struct emu_warp *a = &m.warp[0][1][2], *b = &m.warp[1][0][1];
        begin();
        touch_global(a, ST, 3, 0x10000, EMU_WRITE);
        if (missing != 1)
            judge_fence(a, 1u << 3, missing == 4);
        touch_global(a, ATOM, 3, 0x20000, EMU_WRITE | EMU_STRONG);
        if (missing == 3)
            touch_global(&m.warp[1][1][0], ATOM, 0, 0x20000, EMU_WRITE | EMU_STRONG);
        touch_global(b, ATOM, 0, 0x20000, EMU_READ | EMU_STRONG);
        if (missing != 2)
            judge_fence(b, 1, missing == 5);
        touch_global(b, LD, 0, 0x10000, EMU_READ);
        expect(missing ? "race: line 10 of the PTX: ld.shared.u32: thread (32,0,0) of block (2,0,0) reads "
                         "global "
                         "0x10000..0x10003, written by thread (67,0,0) of block (1,0,0) at line 11"
                       : NULL);
    }
}

/* Within a block the scope .cta is enough, also beside releases by other blocks through the same word; and what a block
 * has released so for itself, a thread of it can release for all. */
TEST(test_flag_of_block)
{
    for (int missing = 0; missing < 2; missing++) {
        struct emu_warp *a = &m.warp[0][1][2], *b = &m.warp[0][1][0], *other = &m.warp[1][0][1];
        begin();
        touch_global(a, ST, 3, 0x10000, EMU_WRITE);
        judge_fence(a, 1u << 3, true);
        touch_global(a, ATOM, 3, 0x20000, EMU_READ | EMU_WRITE | EMU_ATOMIC);
        judge_fence(other, 1, true);
        touch_global(other, ATOM, 0, 0x20000, EMU_READ | EMU_WRITE | EMU_ATOMIC);
        touch_global(b, ATOM, 0, 0x20000, EMU_READ | EMU_STRONG);
        judge_fence(b, 1, true);
        touch_global(b, LD, 0, 0x10000, EMU_READ);
        judge_fence(b, 1, missing);
        touch_global(b, ATOM, 0, 0x30000, EMU_WRITE | EMU_STRONG);
        touch_global(other, ATOM, 0, 0x30000, EMU_READ | EMU_STRONG);
        judge_fence(other, 1, false);
        touch_global(other, LD, 0, 0x10000, EMU_READ);
        expect(missing
                   ? "race: line 10 of the PTX: ld.shared.u32: thread (32,0,0) of block (2,0,0) reads global "
                     "0x10000..0x10003, written by thread (67,0,0) of block (1,0,0) at line 11"
                   : NULL);
    }
}

/* The last block that increments the counter sees what all the others did. */
TEST(test_counter)
{
    for (int fences = 0; fences < 2; fences++) {
        begin();
        for (uint32_t c = 0; c < CLUSTERS; c++)
            for (uint32_t b = 0; b < CTAS; b++) {
                struct emu_warp *w = &m.warp[c][b][0];
                touch_global(w, ST, 0, 0x10000 + 64 * (c * CTAS + b), EMU_WRITE);
                if (fences)
                    judge_fence(w, 1, false);
                touch_global(w, ATOM, 0, 0x20000, EMU_READ | EMU_WRITE | EMU_ATOMIC);
                if (fences)
                    judge_fence(w, 1, false);
            }
        for (uint32_t i = 0; i < CLUSTERS * CTAS; i++)
            touch_global(&m.warp[CLUSTERS - 1][CTAS - 1][0], LD, 0, 0x10000 + 64 * i, EMU_READ);
        expect(fences ? NULL : "reads global 0x10000..0x10003, written by thread (0,0,0) of block (0,0,0)");
    }
    begin();
    touch_global(&m.warp[0][0][0], ATOM, 0, 0x20000, EMU_READ | EMU_WRITE | EMU_ATOMIC);
    touch_global(&m.warp[1][0][0], LD, 0, 0x20000, EMU_READ);
    expect("reads global 0x20000..0x20003, written by");
    begin();
    touch_global(&m.warp[0][0][0], LD, 0, 0x20000, EMU_READ);
    touch_global(&m.warp[0][1][0], LD, 0, 0x20000, EMU_READ);
    touch_global(&m.warp[1][0][0], LD, 0, 0x20000, EMU_READ);
    touch_global(&m.warp[1][1][0], LD, 0, 0x20000, EMU_READ);
    touch_global(&m.warp[1][0][0], ATOM, 0, 0x20000, EMU_READ | EMU_WRITE | EMU_ATOMIC);
    expect("updates global 0x20000..0x20003, read by");
}

/* ---- asynchronous operations ---------------------------------------------------------------------- */
TEST(test_cp_async)
{
    struct judge_async *a, *b;
    begin();
    a = issue(warp(0), CP_ASYNC, 5, 0, 16, EMU_WRITE);
    b = issue(warp(0), CP_ASYNC, 5, 16, 16, EMU_WRITE);
    judge_async_end(a, warp(0), 1u << 5);
    touch(warp(0), LD, 1u << 5, 0, 0, 4);
    assert_int_equal(m.grid.findings, 0);
    touch(warp(0), LD, 1u << 5, 16, 0, 4); /* one stage too early */
    judge_async_end(b, warp(0), 1u << 5);
    expect("async: line 10 of the PTX: ld.shared.u32: thread (5,0,0) of block (0,0,0) reads shared "
           "0x10..0x13 before "
           "the cp.async at line 13 of the PTX (of thread (5,0,0)), which writes it, was waited for");
    for (int ordered = 0; ordered < 2; ordered++) {
        begin();
        a = issue(warp(0), CP_ASYNC, 5, 0, 16, EMU_WRITE);
        judge_async_end(a, warp(0), 1u << 5);
        if (ordered)
            barrier(2);
        touch(warp(1), LD, 1, 0, 0, 4);
        expect(ordered ? NULL
                       : "race: line 10 of the PTX: ld.shared.u32: thread (32,0,0) of block (0,0,0) "
                         "reads shared "
                         "0x0..0x3, written by the cp.async at line 13");
    }
    begin();
    a = issue(warp(0), CP_ASYNC, 5, 0, 16, EMU_WRITE);
    b = issue(warp(0), CP_ASYNC, 5, 8, 8, EMU_WRITE);
    judge_async_drop(a, &m.cluster[0]);
    judge_async_drop(b, &m.cluster[0]);
    expect("async: line 13");
    begin();
    a = issue(warp(0), CP_ASYNC, 5, 0, 16, EMU_READ);
    touch(warp(0), ST, 1u << 5, 0, 0, 4);
    judge_async_drop(a, &m.cluster[0]);
    expect("writes shared 0x0..0x3 before the cp.async at line 13 of the PTX (of thread (5,0,0)), which "
           "reads it");
}

/* A pipeline of two stages; without the barrier at its end the copy overwrites what others still read. */
TEST(test_pipeline)
{
    for (int safe = 0; safe < 2; safe++) {
        begin();
        for (int turn = 0; turn < 4; turn++) {
            for (int w = 0; w < 2; w++) {
                struct judge_async *a = issue(warp(w), CP_ASYNC, 0, (uint64_t)(turn % 2 * 64 + w * 16), 16,
                                              EMU_WRITE);
                judge_async_end(a, warp(w), 1);
            }
            barrier(2);
            for (int w = 0; w < 2; w++)
                touch(warp(w), LD, 3, (uint64_t)(turn % 2) * 64, 16, 16);
            if (safe)
                barrier(2);
            else if (turn < 2) /* the barrier of the other turn is in between */
                assert_int_equal(m.grid.findings, 0);
        }
        expect(NULL);
    }
    begin();
    for (int turn = 0; turn < 2; turn++) {
        struct judge_async *a = issue(warp(0), CP_ASYNC, 0, 0, 16, EMU_WRITE);
        judge_async_end(a, warp(0), 1);
        barrier(2);
        touch(warp(1), LD, 1, 0, 0, 16);
    }
    expect("race: line 13 of the PTX: cp.async.ca: thread (0,0,0) of block (0,0,0) writes shared 0x0..0xf, "
           "read by "
           "thread (32,0,0) at line 10");
}

TEST(test_mbarriers)
{
    struct judge_clock *first = NULL, *second = NULL;
    struct judge_async *a, *b;
    begin();
    a = issue(warp(0), TMA_LOAD, 0, 0, 256, EMU_WRITE);
    b = issue(warp(0), TMA_LOAD, 0, 256, 256, EMU_WRITE);
    judge_async_end_at(b, &m.cluster[0], &second);
    judge_async_end_at(a, &m.cluster[0], &first);
    judge_acquire(warp(1), EMU_ALL, second);
    touch(warp(1), LD, EMU_ALL, 256, 4, 4);
    assert_int_equal(m.grid.findings, 0);
    touch(warp(1), LD, EMU_ALL, 0, 4, 4);
    assert_int_equal(m.grid.findings, 32);
    judge_acquire(warp(2), EMU_ALL, first);
    touch(warp(2), LD, EMU_ALL, 0, 4, 4);
    assert_int_equal(m.grid.findings, 32);
    expect("async: line 10 of the PTX: ld.shared.u32: thread (32,0,0) of block (0,0,0) reads shared "
           "0x0..0x3 before the "
           "cp.async.bulk at line 14");
    begin();
    a = issue(warp(0), TMA_LOAD, 0, 0, 256, EMU_WRITE);
    first = NULL;
    judge_async_end_at(a, &m.cluster[0], &first);
    judge_acquire(warp(1), 1, first);
    touch(warp(1), LD, 1, 0, 0, 16);
    judge_clock_clear(&m.cluster[0], &first);
    judge_release(warp(1), 1, &first);
    judge_acquire(warp(0), 1, first);
    a = issue(warp(0), TMA_LOAD, 0, 0, 256, EMU_WRITE); /* ordered, but a generic read was before */
    judge_async_drop(a, &m.cluster[0]);
    expect("proxy: line 14 of the PTX: cp.async.bulk.mbarrier::complete_tx::bytes: thread (0,0,0) of block "
           "(0,0,0) writes "
           "shared 0x0..0xff through the async proxy, read by thread (32,0,0) at line 10");
}

TEST(test_proxy_fence)
{
    for (int fence = 0; fence < 4; fence++) { /* none; by the writers; by the reader after, before */
        struct judge_async *a;
        begin();
        for (int w = 0; w < 2; w++)
            touch(warp(w), ST, EMU_ALL, (uint64_t)w * 128, 4, 4);
        for (int w = 0; w < 2 && fence == 1; w++)
            judge_proxy_fence(warp(w), EMU_ALL, 2);
        if (fence == 3)
            judge_proxy_fence(warp(0), EMU_ALL, 2);
        barrier(2);
        if (fence == 2)
            judge_proxy_fence(warp(0), 1, 2);
        a = issue(warp(0), TMA_STORE, 0, 0, 256, EMU_READ);
        judge_async_end(a, warp(0), 1);
        expect(fence == 1 || fence == 2 ? NULL
               : fence == 0 ? "written by thread (0,0,0) at line 11 of the PTX: fence.proxy.async is missing"
                            : "written by thread (32,0,0) at line 11");
    }
    begin();
    touch(warp(0), ST, 1, 0, 4, 4);
    judge_proxy_fence(warp(0), 1, 1); /* global memory only */
    judge_async_drop(issue(warp(0), TMA_STORE, 0, 0, 4, EMU_READ), &m.cluster[0]);
    expect("proxy:");
    begin();
    judge_async_end(issue(warp(0), CP_ASYNC, 0, 0, 16, EMU_WRITE), warp(0), 1); /* cp.async is generic, too */
    judge_async_drop(issue(warp(0), TMA_STORE, 0, 0, 16, EMU_READ), &m.cluster[0]);
    expect("proxy:");
    begin();
    judge_async_end(issue(warp(0), CP_ASYNC, 0, 0, 16, EMU_WRITE), warp(0), 1);
    judge_proxy_fence(warp(0), 1, 3);
    judge_async_drop(issue(warp(0), TMA_STORE, 0, 0, 16, EMU_READ), &m.cluster[0]);
    expect(NULL);
    begin();
    touch(warp(1), ST, 1, 0, 4, 4);
    judge_proxy_fence(warp(1), 1, 3);
    judge_async_drop(issue(warp(0), TMA_STORE, 0, 0, 4, EMU_READ), &m.cluster[0]);
    expect("race: line 15");
}

TEST(test_bulk_store)
{
    struct emu_ref global = in_global(0x30000);
    for (int reads = 0; reads < 2; reads++) {
        struct judge_async *a;
        begin();
        a = issue(warp(0), TMA_STORE, 7, 0, 64, EMU_READ);
        judge_async_touch(a, &global, 64, EMU_WRITE);
        if (reads)
            judge_async_end_reads(a, warp(0), 1u << 7);
        touch(warp(0), ST, 1u << 7, 0, 0, 4);
        assert_int_equal(m.grid.findings, !reads);
        touch_global(warp(0), LD, 7, 0x30000, EMU_READ);
        judge_async_end(a, warp(0), 1u << 7);
        touch_global(warp(0), LD, 7, 0x30004, EMU_READ);
        assert_int_equal(m.grid.findings, !reads + 1);
        expect("async: line 10 of the PTX: ld.shared.u32: thread (7,0,0) of block (0,0,0) reads global "
               "0x30000..0x30003 "
               "before the cp.async.bulk at line 15");
    }
}

TEST(test_wgmma)
{
    struct judge_async *a[WARPS], *load;
    struct judge_clock *empty = NULL;
    for (int waited = 0; waited < 2; waited++) {
        empty = NULL;
        begin();
        for (int w = 0; w < WARPS; w++)
            a[w] = issue(warp(w), WGMMA, 0, 0, 512, EMU_READ);
        for (int w = 0; w < WARPS && waited; w++)
            judge_async_end(a[w], warp(w), EMU_ALL);
        judge_release(warp(2), 1u << 9, &empty); /* one thread arrives for the warpgroup */
        judge_acquire(&m.warp[0][1][0], 1, empty);
        load = judge_async_begin(&m.warp[0][1][0], &op[TMA_LOAD], 0, true);
        struct emu_ref ref = in_shared(&m.cta[0][0], 256);
        judge_async_touch(load, &ref, 128, EMU_WRITE);
        judge_async_drop(load, &m.cluster[0]);
        for (int w = 0; w < WARPS && !waited; w++)
            judge_async_drop(a[w], &m.cluster[0]);
        expect(waited ? NULL
                      : "writes shared 0x100..0x17f of block (0,0,0) before the wgmma.mma_async at "
                        "line 16");
    }
}

RUN_TESTS(NULL, NULL)
