/* wgmma.c - wgmma on the emulated GPU reads every layout of shared memory.  Small kernels are in wgmma.txt. */
#include "tests/support/emu_test.h"
#include "tests/support/probe.h"
#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

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
/* Writes the chain of ptx/probe/wgmma.ptx: D = C, then D += A B in steps. */
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
    for (int i = 0; i < 2; i++) /* each thread copies 16 bytes at a time */
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

TEST(every_layout_is_read)
{
    static const char *const names[] =
        {"SM90_64x8x16_F32F16F16_SS",      "SM90_64x64x16_F32BF16BF16_SS",
         "SM90_64x16x16_F16F16F16_RS",     "SM90_64x128x16_F32BF16BF16_RS",
         "SM90_64x256x16_F32F16F16_SS",    "SM90_64x24x8_F32TF32TF32_SS_TN",
         "SM90_64x32x8_F32TF32TF32_RS_TN", "SM90_64x32x32_S32S8U8_SS_TN",
         "SM90_64x16x32_S32U8U8_RS_TN",    "SM90_64x40x32_F32E4M3E5M2_SS_TN",
         "SM90_64x8x32_F16E5M2E5M2_RS_TN", "SM90_64x96x32_S32S8S8_SS_TN_SATURATE"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        prove(names[i], (enum emu_async_policy)(i % 3));
}

int main(void)
{
    printf("seed %d\n", SEED);
    return unit_run(NULL, NULL);
}
