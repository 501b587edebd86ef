/* wgmma.c - wgmma on the emulated GPU: layouts of shared memory, completion, misuse. */

#include "tests/support/emu_test.h"
#include "tests/support/probe.h"

enum { SEED = 20261120 };

static char   text[1 << 16];
static size_t length;

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int n = vsnprintf(text + length, sizeof text - length, format, list);
    va_end(list);
    length += n > 0 ? (size_t)n : 0;
    assert_true(length < sizeof text);
}

static void say_list(const char *name, int first, int count)
{
    for (int i = 0; i < count; i++)
        say("%s%%%s%d", i ? "," : "{", name, first + i);
    say("}");
}

/* ---- every layout -------------------------------------------------------------------------------------- */
/* The chain of ptx/probe/wgmma.ptx, written out: D = C, then D += A B in steps. */
static void write_chain(const ptxpack_mma_atom *atom, const probe_wgmma_batch *b, bool a_mn, bool b_mn)
{
    const bool half = atom->a == PTXPACK_VALUE_F16 || atom->a == PTXPACK_VALUE_BF16,
               floats = atom->c != PTXPACK_VALUE_S32;
    length = 0;
    say(".version 8.4\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 s[];\n.visible "
        ".entry k(");
    for (int i = 0; i < 6; i++)
        say("%s.param .u64 p%d", i ? ", " : "", i);
    say(") {\n.reg .b64 %%p<6>, %%x, %%start, %%da<8>, %%db<8>; .reg .b32 %%t, %%trial, %%base, %%slot, "
        "%%w<4>, "
        "%%a<32>, %%d<%d>; .reg .pred %%q, %%yes;\nmov.u32 %%t, %%tid.x; mov.u32 %%trial, %%ctaid.x; mov.u32 "
        "%%base, s;\n",
        b->c_words);
    for (int i = 0; i < 6; i++)
        say("ld.param.u64 %%p%d, [p%d];\n", i, i);
    for (int i = 0; i < 2; i++) /* 16 bytes a thread at a time */
        if ((i ? b->b_bytes : b->a_bytes) != 0)
            say("mul.wide.u32 %%x, %%trial, %zu; add.u64 %%p%d, %%p%d, %%x; mul.lo.u32 %%slot, %%t, "
                "16;\nL%d: "
                "setp.ge.u32 %%q, %%slot, %zu; @%%q bra M%d; cvt.u64.u32 %%x, %%slot; add.u64 %%x, %%x, "
                "%%p%d;\n"
                "ld.global.v4.b32 {%%w0,%%w1,%%w2,%%w3}, [%%x]; add.u32 %%w0, %%w0, 0; add.u32 %%a0, %%slot, "
                "%%base;\n"
                "st.shared.v4.b32 [%%a0+%zu], {%%w0,%%w1,%%w2,%%w3}; add.u32 %%slot, %%slot, 2048; bra "
                "L%d;\nM%d:\n",
                i ? b->b_bytes : b->a_bytes, i, i, i, i ? b->b_bytes : b->a_bytes, i, i, i ? b->a_bytes : 0, i,
                i);
    say("shr.u32 %%slot, %%base, 4; cvt.u64.u32 %%start, %%slot; mul.wide.u32 %%x, %%trial, 128; "
        "add.u64 %%p4, %%p4, %%x;\n");
    for (int i = 0; i < PROBE_STEPS; i++)
        say("ld.global.v2.b64 {%%da%d, %%db%d}, [%%p4+%d]; add.u64 %%da%d, %%da%d, %%start; "
            "add.u64 %%db%d, %%db%d, %%start;\n",
            i, i, 16 * i, i, i, i, i);
    for (int i = 2; i < 6; i++)
        if (i != 4)
            say("mul.wide.u32 %%x, %%trial, %d; add.u64 %%p%d, %%p%d, %%x; mul.wide.u32 %%x, %%t, 4; "
                "add.u64 %%p%d, %%p%d, %%x;\n",
                512 * (i == 2 ? 32 : b->c_words), i, i, i, i);
    for (int i = 0; i < 32 && !atom->a_shared; i++)
        say("ld.global.b32 %%a%d, [%%p2+%d];\n", i, 512 * i);
    for (int i = 0; i < b->c_words; i++)
        say("ld.global.b32 %%d%d, [%%p3+%d];\n", i, 512 * i);
    say("setp.eq.u32 %%yes, %%base, %%base; fence.proxy.async.shared::cta; bar.sync "
        "0;\nwgmma.fence.sync.aligned;\n");
    for (int i = 0; i < PROBE_STEPS; i++) {
        say("wgmma.mma_async.sync.aligned%s ", strstr(atom->ptx, ".m64"));
        say_list("d", 0, b->c_words);
        say(", ");
        if (atom->a_shared)
            say("%%da%d", i);
        else
            say_list("a", 4 * i, 4);
        say(", %%db%d, %%yes%s;\n", i,
            !floats           ? ""
            : !half           ? ", 1, 1"
            : !atom->a_shared ? b_mn ? ", 1, 1, 1" : ", 1, 1, 0"
            : a_mn            ? b_mn ? ", 1, 1, 1, 1" : ", 1, 1, 1, 0"
            : b_mn            ? ", 1, 1, 0, 1"
                              : ", 1, 1, 0, 0");
    }
    say("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n");
    for (int i = 0; i < b->c_words; i++)
        say("st.global.b32 [%%p5+%d], %%d%d;\n", 512 * i, i);
    say("ret;\n}\n");
}

struct context {
    const ptxpack_mma_atom *atom;
    bool                    a_mn, b_mn;
};

static uint64_t give(const void *from, size_t bytes)
{
    uint64_t to = emu_buffer(bytes + 1);
    emu_write(to, from, bytes);
    return to;
}

static bool execute(void *context, const probe_wgmma_batch *b)
{
    const struct context *x = (const struct context *)context;
    const size_t          n = b->trials, word = sizeof(uint32_t) * PROBE_WARP_GROUP,
                 bytes = n * (size_t)b->c_words * word;
    write_chain(x->atom, b, x->a_mn, x->b_mn);
    const uint64_t words[] = {give(b->a, n * b->a_bytes),
                              give(b->b, n * b->b_bytes),
                              give(b->a_words, n * PROBE_STEPS * PROBE_A_REGISTERS * word),
                              give(b->c, bytes),
                              give(b->descriptors, n * 2 * PROBE_STEPS * sizeof *b->descriptors),
                              emu_buffer(bytes)};
    unsigned int result = emu_run(text, "k", (uint32_t)n, PROBE_WARP_GROUP, (uint32_t)(b->a_bytes + b->b_bytes),
                                  words, 6);
    if (result != 0 || emu_log()[0] != '\0') {
        printf("%s: result %u: %s\n", x->atom->name, result, emu_log());
        return false;
    }
    emu_read(b->d, words[5], bytes);
    return true;
}

static void prove(const char *name, enum emu_async_policy policy)
{
    ptxpack_mma_atom atom;
    char             line[PROBE_LINE];
    if (ptxpack_mma_atom_find(name, &atom) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(NULL));
    for (int major = 0; major < 4; major++) {
        struct context x = {&atom, major & 1, major & 2};
        if ((x.a_mn && (!atom.a_shared || atom.a_major != '*')) || (x.b_mn && atom.b_major != '*'))
            continue;
        emu_machine(90);
        emu_test_settings.async_policy = policy;
        if (probe_wgmma_prove(&atom, x.a_mn ? PTXPACK_WGMMA_MN : PTXPACK_WGMMA_K,
                              x.b_mn ? PTXPACK_WGMMA_MN : PTXPACK_WGMMA_K, execute, &x, SEED,
                              line) != PROBE_PROVEN)
            fail_msg("%s, A %d B %d: %s", name, x.a_mn, x.b_mn, line);
    }
}

static void every_layout_is_read(void **state)
{
    static const char *const names[] =
        {"SM90_64x8x16_F32F16F16_SS",      "SM90_64x64x16_F32BF16BF16_SS",
         "SM90_64x16x16_F16F16F16_RS",     "SM90_64x128x16_F32BF16BF16_RS",
         "SM90_64x256x16_F32F16F16_SS",    "SM90_64x24x8_F32TF32TF32_SS_TN",
         "SM90_64x32x8_F32TF32TF32_RS_TN", "SM90_64x32x32_S32S8U8_SS_TN",
         "SM90_64x16x32_S32U8U8_RS_TN",    "SM90_64x40x32_F32E4M3E5M2_SS_TN",
         "SM90_64x8x32_F16E5M2E5M2_RS_TN", "SM90_64x96x32_S32S8S8_SS_TN_SATURATE"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        prove(names[i], (enum emu_async_policy)(i % 3));
}

/* ---- small kernels ------------------------------------------------------------------------------------- */
/* A and B of ones (f16) in shared memory; what stands between begin and end is up to the test.  D: %d0..3. */
static void begin(void)
{
    length = 0;
    say(".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 out) {\n"
        ".shared .align 1024 .b8 s[4096];\n.reg .b64 %%o, %%x, %%da, %%db; .reg .b32 %%t, %%p, %%q, %%a<4>; "
        ".reg .f32 %%d<4>, %%e<4>; .reg .pred %%yes, %%no;\nmov.u32 %%t, %%tid.x; mov.u32 %%p, s; "
        "ld.param.u64 %%o, [out];\n"
        "mad.lo.u32 %%q, %%t, 32, %%p; mov.b32 %%a0, 0x3c003c00; mov.b32 %%a1, %%a0; mov.b32 %%a2, %%a0; "
        "mov.b32 %%a3, %%a0;\nst.shared.v4.b32 [%%q], {%%a0,%%a1,%%a2,%%a3}; "
        "st.shared.v4.b32 [%%q+16], {%%a0,%%a1,%%a2,%%a3};\nsetp.eq.u32 %%yes, %%p, %%p; setp.ne.u32 %%no, "
        "%%p, %%p;\n"
        "shr.u32 %%q, %%p, 4; cvt.u64.u32 %%da, %%q; or.b64 %%da, %%da, 0x1000080000; add.u64 %%db, %%da, "
        "128;\n"
        "mov.f32 %%d0, 0f40400000; mov.f32 %%d1, %%d0; mov.f32 %%d2, %%d0; mov.f32 %%d3, %%d0;\n");
}

static void end(void)
{
    say("mul.wide.u32 %%x, %%t, 16; add.u64 %%o, %%o, %%x; st.global.v4.f32 [%%o], "
        "{%%d0,%%d1,%%d2,%%d3};\nret;\n}\n");
}

#define READY  "fence.proxy.async.shared::cta; bar.sync 0;\n"
#define FENCE  "wgmma.fence.sync.aligned;\n"
#define SUM    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%%d0,%%d1,%%d2,%%d3}, "
#define COMMIT "wgmma.commit_group.sync.aligned;\n"
#define WAIT   "wgmma.wait_group.sync.aligned 0;\n"

static uint64_t     out;
static unsigned int run_small(enum emu_async_policy policy, unsigned int threads)
{
    emu_machine(90);
    emu_test_settings.async_policy = policy;
    emu_log_clear();
    out = emu_buffer(128 * 16);
    return emu_run(text, "k", 1, threads, 0, &out, 1);
}

static void expect_sum(float wanted)
{
    for (int policy = 0; policy < 3; policy++) {
        float        d[512];
        unsigned int result = run_small((enum emu_async_policy)policy, 128);
        if (result != 0 || emu_log()[0] != '\0')
            fail_msg("result %u: %s", result, emu_log());
        emu_read(d, out, sizeof d);
        for (int i = 0; i < 512; i++)
            if (d[i] != wanted)
                fail_msg("policy %d: word %d is %g, not %g", policy, i, (double)d[i], (double)wanted);
    }
}

static void signs_and_scales_count(void **state)
{
    (void)state;
    begin();
    say(READY FENCE SUM "%%da, %%db, %%yes, 1, 1, 0, 0;\n" COMMIT WAIT);
    end();
    expect_sum(19);
    begin();
    say(READY FENCE SUM "%%da, %%db, %%no, -1, 1, 0, 1;\n" COMMIT WAIT);
    end();
    expect_sum(-16);
    begin();
    say(READY FENCE SUM "%%da, %%db, %%yes, -1, -1, 1, 1;\n" SUM
                        "{%%a0,%%a1,%%a2,%%a3}, %%db, 0, 1, -1, 0;\n" COMMIT WAIT);
    end();
    expect_sum(-16);
}

/* Two groups in flight, the first waited for alone; later ones add in order. */
static void groups_complete_in_order(void **state)
{
    (void)state;
    begin();
    say(READY FENCE SUM
        "%%da, %%db, %%yes, 1, 1, 0, 0;\n" SUM "%%da, %%db, %%yes, 1, 1, 0, 0;\n" COMMIT
        "mov.f32 %%e0, 0f00000000; mov.f32 %%e1, %%e0; mov.f32 %%e2, %%e0; mov.f32 %%e3, %%e0;\n" FENCE
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%%e0,%%e1,%%e2,%%e3}, %%da, %%db, %%yes, -1, 1, "
        "0, 0;\n" COMMIT
        "wgmma.wait_group.sync.aligned 1;\nadd.f32 %%d0, %%d0, %%d1; sub.f32 %%d0, %%d0, %%d2;\n" WAIT
        "add.f32 %%d0, %%d0, %%e0; add.f32 %%d1, %%d1, %%e1; add.f32 %%d2, %%d2, %%e2; add.f32 %%d3, %%d3, "
        "%%e3;\n");
    end();
    expect_sum(19);
}

/* What the judge says of the text since begin(). */
static void expect_finding(const char *word)
{
    end();
    for (int policy = 0; policy < 3; policy++) {
        unsigned int result = run_small((enum emu_async_policy)policy, 128);
        if (result == 0 || strstr(emu_log(), word) == NULL)
            fail_msg("policy %d: result %u, '%s' is not in: %s", policy, result, word, emu_log());
    }
}

static void misuse_is_found(void **state)
{
    (void)state;
    begin(); /* D too soon */
    say(READY FENCE SUM "%%da, %%db, %%yes, 1, 1, 0, 0;\n" COMMIT "add.f32 %%d0, %%d0, %%d0;\n" WAIT);
    expect_finding("wait_group");
    begin(); /* the group that owns D is the one that may still be in flight */
    say(READY FENCE SUM "%%da, %%db, %%yes, 1, 1, 0, 0;\n" COMMIT SUM "%%da, %%db, %%yes, 1, 1, 0, 0;\n" COMMIT
                        "wgmma.wait_group.sync.aligned 1;\nmov.f32 %%e0, %%d0;\n" WAIT);
    expect_finding("wait_group");
    begin(); /* A in registers too soon */
    say(READY FENCE SUM "{%%a0,%%a1,%%a2,%%a3}, %%db, %%yes, 1, 1, 0;\n" COMMIT "mov.b32 %%a2, 0;\n" WAIT);
    expect_finding("wait_group");
    begin(); /* an accumulator as A */
    say(".reg .b32 %%h<2>;\nmov.b32 %%h0, 0; mov.b32 %%h1, 0;\n" READY FENCE
        "wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%%h0,%%h1}, %%da, %%db, %%no, 1, 1, 0, 0;\n" SUM
        "{%%h0,%%h1,%%a0,%%a1}, %%db, %%yes, 1, 1, 0;\n" COMMIT WAIT);
    expect_finding("accumulator");
    begin(); /* nothing in D */
    say(".reg .f32 %%f<4>;\n" READY FENCE
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%%f0,%%f1,%%f2,%%f3}, "
        "%%da, %%db, %%yes, 1, 1, 0, 0;\n" COMMIT WAIT);
    expect_finding("never been written");
    begin(); /* no wgmma.fence */
    say(READY SUM "%%da, %%db, %%yes, 1, 1, 0, 0;\n" COMMIT WAIT);
    expect_finding("wgmma.fence");
    begin(); /* memory that nothing wrote */
    say(READY FENCE "add.u64 %%db, %%db, 128;\n" SUM "%%da, %%db, %%yes, 1, 1, 0, 0;\n" COMMIT WAIT);
    text[strstr(text, "s[4096]") - text + 2] = '8'; /* the array is 8096 bytes */
    expect_finding("nothing has written");
}

/* Nothing waits for it at all: whatever is said of that, it ends. */
static void no_wait_ends_well(void **state)
{
    (void)state;
    begin();
    say(READY FENCE SUM "%%da, %%db, %%yes, 1, 1, 0, 0;\n" COMMIT "ret;\n");
    end();
    for (int policy = 0; policy < 3; policy++) {
        unsigned int result = run_small((enum emu_async_policy)policy, 128);
        if (result != 0 && emu_log()[0] == '\0')
            fail_msg("policy %d: result %u without a word", policy, result);
    }
}

static void misuse_of_memory_is_found(void **state)
{
    (void)state;
    begin(); /* stored, but not fenced towards the asynchronous proxy */
    say("bar.sync 0;\n" FENCE SUM "%%da, %%db, %%yes, 1, 1, 0, 0;\n" COMMIT WAIT);
    expect_finding("fence.proxy.async");
    begin(); /* overwritten while it is read */
    say(READY FENCE SUM "%%da, %%db, %%yes, 1, 1, 0, 0;\n" COMMIT
                        "mad.lo.u32 %%q, %%t, 16, %%p; st.shared.b32 [%%q], %%a0;\n" WAIT);
    expect_finding("wgmma");
}

static void expect_fault(const char *word, unsigned int threads)
{
    end();
    unsigned int result = run_small(EMU_ASYNC_LATEST, threads);
    if (result == 0 || strstr(emu_log(), word) == NULL)
        fail_msg("result %u, '%s' is not in: %s", result, word, emu_log());
}

static void faults_and_refusals(void **state)
{
    (void)state;
    begin();
    say(READY FENCE SUM "%%da, %%db, %%yes, 1, 1, 0, 0;\n" COMMIT WAIT);
    expect_fault("warpgroup", 96);
    begin();
    say(READY FENCE "cvt.u64.u32 %%x, %%t; add.u64 %%db, %%db, %%x;\n" SUM
                    "%%da, %%db, %%yes, 1, 1, 0, 0;\n" COMMIT WAIT);
    expect_fault("descriptor", 128);
    begin();
    say(READY FENCE "setp.eq.u32 %%yes, %%t, 0;\n" SUM "%%da, %%db, %%yes, 1, 1, 0, 0;\n" COMMIT WAIT);
    expect_fault("scale-d", 128);
    begin(); /* far beyond the block's shared memory */
    say(READY FENCE "add.u64 %%db, %%db, 0x2000;\n" SUM "%%da, %%db, %%yes, 1, 1, 0, 0;\n" COMMIT WAIT);
    expect_fault("shared", 128);
    begin();
    say("wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 {%%d0,%%d1,%%d2,%%d3}, %%da, %%db, %%yes, 1, 1, "
        "0, 0;\n");
    expect_fault("12", 128);
    begin();
    say(SUM "%%da, %%db, %%yes, 1, 2, 0, 0;\n");
    expect_fault("sign", 128);
    begin();
    say(SUM "%%da, %%db, %%yes, 1, 1;\n");
    expect_fault("operands", 128);
    begin();
    say("wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%%d0,%%d1,%%d2,%%d3}, %%da, %%db, %%t, 0, "
        "%%yes, 1, 1, 0, 0;\n");
    expect_fault("sparse", 128);
    begin();
    say(READY FENCE);
    memcpy(strstr(text, "sm_90a"), "sm_90 ", 6);
    expect_fault("sm_90a", 128);
}

/* A wgmma is one operation of four warps: when one of them has waited, the operands of all may be
 * overwritten, even if the others come to their wait later. */
static void one_warp_waits_for_all(void **state)
{
    static const char kernel[] =
        ".version 8.0\n.target sm_90a\n.address_size 64\n"
        ".visible .entry k(.param .u64 out) {\n"
        ".reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %d<9>; .reg .f32 %f<4>;\n"
        ".shared .align 1024 .b8 tile[4096]; .shared .b32 flag;\n"
        "ld.param.u64 %d0, [out]; mov.u32 %r0, %tid.x; mov.u32 %r1, tile; shr.u32 %r2, %r0, 5;\n"
        "mad.lo.u32 %r3, %r0, 32, %r1; mov.u32 %r4, 0x3c003c00;\n"
        "st.shared.v4.b32 [%r3], {%r4, %r4, %r4, %r4}; st.shared.v4.b32 [%r3+16], {%r4, %r4, %r4, %r4};\n"
        "setp.ne.u32 %p0, %r0, 0; @!%p0 st.volatile.shared.u32 [flag], 0;\n"
        "fence.proxy.async; bar.sync 0;\n"
        "and.b32 %r5, %r1, 0x3ffff; shr.u32 %r5, %r5, 4; cvt.u64.u32 %d1, %r5; add.u64 %d2, %d1, 128;\n"
        "mov.u64 %d3, 0x0000001000080000; or.b64 %d1, %d1, %d3; or.b64 %d2, %d2, %d3;\n"
        "mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0; "
        "setp.eq.u32 %p1, %r0, %r0;\n"
        "wgmma.fence.sync.aligned;\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d1, %d2, %p1, 1, 1, 0, 0;\n"
        "wgmma.commit_group.sync.aligned;\n"
        "setp.eq.u32 %p2, %r2, 0; @%p2 bra WAIT;\n"
        "SPIN: ld.volatile.shared.u32 %r6, [flag]; setp.eq.u32 %p3, %r6, 0; @%p3 bra SPIN;\n"
        "WAIT: wgmma.wait_group.sync.aligned 0;\n"
        "@!%p2 bra OUT;\n"
        "mov.u32 %r7, 0; mad.lo.u32 %r8, %r0, 8, %r1; st.shared.v2.b32 [%r8+2048], {%r7, %r7};\n"
        "bar.warp.sync 0xffffffff; @!%p0 st.volatile.shared.u32 [flag], 1;\n"
        "OUT: mul.wide.u32 %d4, %r0, 16; add.u64 %d4, %d0, %d4;\n"
        "st.global.v4.f32 [%d4], {%f0, %f1, %f2, %f3}; ret; }\n";
    static const enum emu_async_policy policies[] = {EMU_ASYNC_EARLIEST, EMU_ASYNC_LATEST, EMU_ASYNC_RANDOM};
    float                              d[512];
    (void)state;
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        emu_machine(90);
        emu_test_settings.async_policy = policies[i];
        uint64_t     to = emu_buffer(sizeof d);
        unsigned int result = emu_run(kernel, "k", 1, 128, 0, &to, 1);
        if (result != 0)
            print_error("%s", emu_log());
        assert_int_equal(result, 0);
        emu_read(d, to, sizeof d);
        for (int k = 0; k < 512; k++)
            assert_true(d[k] == 16);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_warp_waits_for_all),    cmocka_unit_test(every_layout_is_read),
        cmocka_unit_test(signs_and_scales_count),    cmocka_unit_test(groups_complete_in_order),
        cmocka_unit_test(misuse_is_found),           cmocka_unit_test(no_wait_ends_well),
        cmocka_unit_test(misuse_of_memory_is_found), cmocka_unit_test(faults_and_refusals),
    };
    printf("seed %d\n", SEED);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
