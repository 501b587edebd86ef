/* memory.c - the emulated device memory: the arena, ld and st of every width, spaces, and what is
 * reported of accesses that may not be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "tests/support/emu_fixture.h"

#define HEAD ".version 8.8\n.target sm_90\n.address_size 64\n"
#define ENTRY                                                                                   \
    ".visible .entry k(.param .u64 a, .param .u64 b)\n{\n.reg .b16 %h<9>;\n.reg .b32 %r<20>;\n" \
    ".reg .b64 %d<20>;\n.reg .b128 %q<4>;\n.reg .f32 %f<9>;\n.reg .pred %p<9>;\n"               \
    "ld.param.u64 %d0, [a];\nld.param.u64 %d1, [b];\nmov.u32 %r0, %tid.x;\n"

static uint32_t seed = 20261120;
static uint32_t draw(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return seed;
}

static int begin(void **state)
{
    (void)state;
    emu_machine(90);
    emu_test_settings.host_threads = 2;
    return 0;
}

static unsigned int run_text(const char *text, uint32_t grid, uint32_t block, uint64_t a, uint64_t b)
{
    const uint64_t words[] = {a, b};
    return emu_run(text, "k", grid, block, 1024, words, 2);
}

static unsigned int run(const char *body, uint64_t a, uint64_t b, uint32_t block)
{
    char text[8192];
    int  n = snprintf(text, sizeof text, "%s%s%s\nret;\n}\n", HEAD, ENTRY, body);
    assert_true(n > 0 && (size_t)n < sizeof text);
    return run_text(text, 1, block, a, b);
}

static void run_well(const char *body, uint64_t a, uint64_t b, uint32_t block)
{
    unsigned int result = run(body, a, b, block);
    if (result || *emu_log())
        print_error("%s\n%s", body, emu_log());
    assert_int_equal(result, 0);
    assert_string_equal(emu_log(), "");
}

static void run_badly(const char *body, uint64_t a, uint64_t b, uint32_t block, unsigned int result,
                      const char *what)
{
    unsigned int got = run(body, a, b, block);
    if (got != result || strstr(emu_log(), what) == NULL)
        print_error("result %u, wanted %u \"%s\" of\n%s\nlog: %s", got, result, what, body, emu_log());
    assert_int_equal(got, result);
    assert_non_null(strstr(emu_log(), what));
    emu_log_clear();
}

static uint64_t filled(void *host, uint64_t bytes)
{
    uint64_t at = emu_buffer(bytes);
    for (uint64_t i = 0; i < bytes; i++)
        ((unsigned char *)host)[i] = (unsigned char)draw();
    emu_write(at, host, bytes);
    return at;
}

/* ---- the arena -------------------------------------------------------------------------------------- */
static void arena_keeps_allocations_apart(void **state)
{
    enum { COUNT = 200 };
    uint64_t              at[COUNT], bytes[COUNT], used = emu_arena_used();
    struct emu_allocation found;
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        bytes[i] = 1 + draw() % 100000;
        at[i] = emu_arena_alloc(bytes[i], EMU_MEMORY_DEVICE, NULL, &seed);
        assert_true(at[i] && at[i] % 256 == 0);
    }
    for (int i = 0; i < COUNT; i++) {
        assert_true(emu_arena_find(at[i] + bytes[i] - 1, &found));
        assert_true(found.address == at[i] && found.bytes == bytes[i] && found.context == &seed);
        assert_false(emu_arena_find(at[i] + bytes[i], &found));
        assert_false(emu_arena_find(at[i] - 1, &found));
        assert_true(emu_arena_holds(at[i], bytes[i]));
        assert_false(emu_arena_holds(at[i], bytes[i] + 1));
        assert_false(emu_arena_holds(at[i] + 1, UINT64_MAX));
        for (int k = 0; k < i; k++)
            assert_true(at[k] + bytes[k] < at[i] || at[i] + bytes[i] < at[k]);
    }
    assert_false(emu_arena_free(at[3] + 256));
    assert_true(emu_arena_free(at[3]));
    assert_false(emu_arena_free(at[3]));
    assert_false(emu_arena_find(at[3], &found));
    emu_arena_free_context(&seed);
    assert_int_equal(emu_arena_used(), used);
}

static void arena_gives_its_whole_memory_again_and_again(void **state)
{
    uint64_t all = emu_test_settings.memory_bytes - emu_arena_used(), last = 0;
    (void)state;
    for (int i = 0; i < 100; i++) {
        uint64_t at = emu_arena_alloc(all, EMU_MEMORY_DEVICE, NULL, NULL);
        assert_true(at && at != last);
        assert_int_equal(emu_arena_alloc(1, EMU_MEMORY_DEVICE, NULL, NULL), 0);
        memset((void *)(uintptr_t)(at + all - 100), 1, 100);
        assert_true(emu_arena_free(at));
        last = at;
    }
    assert_int_equal(emu_arena_alloc(all + 1, EMU_MEMORY_DEVICE, NULL, NULL), 0);
    assert_int_equal(emu_arena_alloc(UINT64_MAX, EMU_MEMORY_DEVICE, NULL, NULL), 0);
    assert_int_equal(emu_arena_alloc(0, EMU_MEMORY_DEVICE, NULL, NULL), 0);
}

/* Many small ones: addresses and slots come back, and fresh bytes are zero and undefined. */
static void arena_recycles(void **state)
{
    (void)state;
    for (int i = 0; i < 200000; i++) {
        uint64_t at = emu_arena_alloc(4096, i & 1 ? EMU_MEMORY_PARAMETERS : EMU_MEMORY_DEVICE, NULL, NULL);
        assert_true(at != 0);
        assert_int_equal(*(volatile unsigned char *)(uintptr_t)at, 0);
        *(volatile unsigned char *)(uintptr_t)at = 1;
        assert_true(emu_arena_free(at));
    }
}

static void *hammer(void *argument)
{
    uint32_t x = (uint32_t)(uintptr_t)argument;
    for (int i = 0; i < 3000; i++) {
        uint64_t              at[4];
        struct emu_allocation found;
        for (int k = 0; k < 4; k++) {
            x = x * 1664525 + 1013904223;
            at[k] = emu_arena_alloc(1 + x % 50000, EMU_MEMORY_DEVICE, NULL, argument);
            if (!at[k] || !emu_arena_find(at[k], &found) || found.context != argument)
                return argument;
            emu_arena_define(at[k], 1 + x % 50000, true);
            memset((void *)(uintptr_t)at[k], (int)x, 1);
        }
        for (int k = 0; k < 4; k++)
            if (!emu_arena_free(at[k]))
                return argument;
    }
    return NULL;
}

static void arena_serves_threads(void **state)
{
    pthread_t threads[4];
    uint64_t  used = emu_arena_used();
    (void)state;
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, (void *)(i + 1)), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(emu_arena_used(), used);
}

/* A kernel looks addresses up while other threads allocate. */
static void arena_is_read_without_locks(void **state)
{
    enum { N = 4096 };
    static uint32_t host[N], back[N];
    pthread_t       other;
    void           *failed;
    uint64_t        a = filled(host, sizeof host), b = emu_buffer(sizeof host);
    (void)state;
    assert_int_equal(pthread_create(&other, NULL, hammer, (void *)(uintptr_t)7), 0);
    for (int i = 0; i < 20; i++) {
        static const char text[] = HEAD ENTRY
            "mov.u32 %r1, %ctaid.x; mad.lo.u32 %r2, %r1, 256, %r0; mul.wide.u32 %d2, %r2, 4;\n"
            "add.u64 %d3, %d0, %d2; add.u64 %d4, %d1, %d2;\n"
            "ld.global.u32 %r3, [%d3]; st.global.u32 [%d4], %r3; ret; }\n";
        assert_int_equal(run_text(text, N / 256, 256, a, b), 0);
    }
    pthread_join(other, &failed);
    assert_null(failed);
    emu_read(back, b, sizeof back);
    assert_memory_equal(back, host, sizeof back);
}

/* ---- loads and stores ------------------------------------------------------------------------------- */
static uint64_t extend(const unsigned char *at, unsigned int size, bool is_signed)
{
    uint64_t value = 0;
    for (unsigned int i = 0; i < size; i++)
        value |= (uint64_t)at[i] << (8 * i);
    if (is_signed && size < 8 && value >> (8 * size - 1) & 1)
        value |= ~0ull << (8 * size);
    return value;
}

/* Every type into every register that is wide enough, in every space that can be written. */
static void loads_extend(void **state)
{
    static const struct {
        const char  *name;
        unsigned int size;
        bool         is_signed;
    } types[] = {{"u8", 1, false},  {"s8", 1, true},   {"b8", 1, false},  {"u16", 2, false},
                 {"s16", 2, true},  {"b16", 2, false}, {"u32", 4, false}, {"s32", 4, true},
                 {"f32", 4, false}, {"u64", 8, false}, {"s64", 8, true}};
    static const struct {
        const char  *reg;
        unsigned int size;
    } registers[] = {{"%h1", 2}, {"%r1", 4}, {"%d2", 8}};
    static const char *const orders[] = {"", ".volatile", ".relaxed.gpu", ".acquire.sys"};
    unsigned char            host[256];
    uint64_t                 back[32];
    char                     body[1024];
    (void)state;
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
        for (size_t r = 0; r < 3; r++)
            for (size_t o = 0; o < 4; o++) {
                if (registers[r].size < types[t].size ||
                    (strcmp(types[t].name, "f32") == 0 && registers[r].size != 4))
                    continue;
                uint64_t a = filled(host, sizeof host), b = emu_buffer(sizeof back);
                snprintf(
                    body, sizeof body,
                    "mul.wide.u32 %%d3, %%r0, %u; add.u64 %%d3, %%d0, %%d3; mov.b64 %%d2, 0;\n"
                    "ld%s.global.%s %s, [%%d3];\n%s\nmul.wide.u32 %%d4, %%r0, 8; add.u64 %%d4, %%d1, %%d4;\n"
                    "st.global.u64 [%%d4], %%d2;",
                    types[t].size, orders[o], types[t].name, registers[r].reg,
                    r == 0   ? "cvt.u64.u16 %d2, %h1;"
                    : r == 1 ? "cvt.u64.u32 %d2, %r1;"
                             : "");
                run_well(body, a, b, 32);
                emu_read(back, b, sizeof back);
                uint64_t cut = registers[r].size == 8 ? ~0ull : (1ull << 8 * registers[r].size) - 1;
                for (unsigned int l = 0; l < 32; l++)
                    assert_int_equal(back[l],
                                     extend(host + l * types[t].size, types[t].size, types[t].is_signed) & cut);
                emu_machine(90);
            }
}

static void stores_cut(void **state)
{
    static const char *const body =
        "mul.wide.u32 %d3, %r0, 16; add.u64 %d4, %d0, %d3; add.u64 %d5, %d1, %d3;\n"
        "ld.global.v2.u64 {%d6, %d7}, [%d4]; ld.global.u32 %r1, [%d4]; ld.global.u16 %h1, [%d4+2];\n"
        "st.global.u8 [%d5], %d6; st.global.s8 [%d5+1], %r1; st.global.b16 [%d5+2], %d7;\n"
        "st.global.b32 [%d5+4], %d7; st.global.u8 [%d5+8], %h1; st.global.u8 [%d5+9], 255;\n"
        "st.volatile.global.u16 [%d5+10], %h1; st.release.gpu.global.u32 [%d5+12], -2;";
    unsigned char host[512], back[512];
    uint64_t      a = filled(host, sizeof host), b = emu_buffer(sizeof back);
    (void)state;
    run_well(body, a, b, 32);
    emu_read(back, b, sizeof back);
    for (int l = 0; l < 32; l++) {
        const unsigned char *h = host + 16 * l;
        const unsigned char  wanted[16] = {h[0], h[0], h[8], h[9], h[8], h[9], h[10], h[11],
                                           h[2], 255,  h[2], h[3], 254,  255,  255,   255};
        assert_memory_equal(back + 16 * l, wanted, 16);
    }
}

/* Vectors, all lanes and some, forwards and mirrored, through each space. */
static void vectors_pass_through_every_space(void **state)
{
    static const struct {
        const char *values, *type;
    } vectors[] = {{"{%h1, %h2, %h3, %h4}", "v4.b16"},
                   {"{%r1, %r2}", "v2.b32"},
                   {"{%f1, %f2, %f3, %f4}", "v4.f32"},
                   {"{%d6, %d7}", "v2.b64"},
                   {"%q1", "b128"},
                   {"{%r1, %r2, %r3, %r4}", "v4.u32"}};
    static const char *const spaces[] = {"shared", "local", "global"};
    unsigned char            host[512], back[512];
    char                     body[2048];
    (void)state;
    for (size_t v = 0; v < sizeof vectors / sizeof vectors[0]; v++)
        for (unsigned int s = 0; s < 9; s++) {
            unsigned int bytes = v < 2 ? 8 : 16, lanes = s < 6 ? 32 : 13, block = lanes;
            bool         generic = s >= 3, mirrored = s >= 6;
            const char  *space = spaces[s % 3], *type = vectors[v].type, *values = vectors[v].values;
            uint64_t     a = filled(host, sizeof host), b = emu_buffer(sizeof back);
            if (s % 3 == 2 && !generic)
                snprintf(body, sizeof body, "mov.u64 %%d8, %%d1;");
            else if (s % 3 == 2)
                snprintf(body, sizeof body, "cvta.global.u64 %%d8, %%d1;");
            else if (generic)
                snprintf(body, sizeof body,
                         ".%s .align 16 .b8 room[1024]; mov.u64 %%d8, room; cvta.%s.u64 %%d8, %%d8;", space,
                         space);
            else
                snprintf(body, sizeof body, ".%s .align 16 .b8 room[1024]; mov.u64 %%d8, room;", space);
            size_t n = strlen(body);
            snprintf(body + n, sizeof body - n,
                     "mul.wide.u32 %%d3, %%r0, %u; add.u64 %%d4, %%d0, %%d3; add.u64 %%d5, %%d1, %%d3;\n"
                     "%s\nadd.u64 %%d9, %%d8, %%d3;\n"
                     "ld.global.%s %s, [%%d4]; st%s%s.%s [%%d9], %s; ld%s%s.%s %s, [%%d9]; st.global.%s "
                     "[%%d5], %s;",
                     bytes,
                     mirrored ? "sub.u64 %d8, %d8, %d3; sub.u64 %d8, %d8, %d3; add.u64 %d8, %d8, 192;" : "",
                     type, values, generic ? "" : ".", generic ? "" : space, type, values, generic ? "" : ".",
                     generic ? "" : space, type, values, type, values);
            if (s % 3 == 2 && mirrored)
                continue; /* source and copy would overlap */
            run_well(body, a, b, block);
            emu_read(back, b, lanes * bytes);
            assert_memory_equal(back, host, lanes * bytes);
            emu_machine(90);
        }
}

static void sinks_and_narrow_addresses(void **state)
{
    static const char *const body =
        ".shared .align 16 .b32 s[256]; mov.u32 %r5, s; shl.b32 %r6, %r0, 4; add.u32 %r6, %r5, %r6;\n"
        "add.u32 %r7, %r0, 100; st.shared.v4.b32 [%r6], {%r0, %r7, %r0, %r7}; ld.shared.v4.b32 {_, %r8, _, "
        "_}, [%r6];\n"
        "mul.wide.u32 %d3, %r0, 4; add.u64 %d4, %d1, %d3; st.global.u32 [%d4], %r8;";
    uint32_t back[32];
    uint64_t b = emu_buffer(sizeof back);
    (void)state;
    run_well(body, b, b, 32);
    emu_read(back, b, sizeof back);
    for (uint32_t l = 0; l < 32; l++)
        assert_int_equal(back[l], l + 100);
}

static void constants_and_variables(void **state)
{
    static const char text[] = HEAD
        ".const .u32 c[4] = {7, 8, 9, 10};\n.global .u32 g[2] = {1, 2};\n.shared .u32 s[4];\n" ENTRY
        "ld.const.u32 %r1, [c+8]; mov.u64 %d2, c; cvta.const.u64 %d2, %d2; ld.u32 %r2, [%d2+12];\n"
        "ld.global.u32 %r3, [g+4]; mov.u64 %d3, g; ld.global.u32 %r4, [%d3];\n"
        "mov.b64 %d4, a; cvta.param.u64 %d4, %d4; ld.u64 %d5, [%d4];\n"
        "isspacep.const %p1, %d2; isspacep.global %p2, %d2; isspacep.param %p3, %d4; isspacep.global %p4, "
        "%d1;\n"
        "mov.u64 %d6, s; cvta.shared.u64 %d6, %d6; isspacep.shared %p5, %d6; isspacep.local %p6, %d6;\n"
        "selp.u32 %r5, 1, 0, %p1; selp.u32 %r6, 2, 0, %p2; selp.u32 %r7, 4, 0, %p3; selp.u32 %r8, 8, 0, "
        "%p4;\n"
        "selp.u32 %r9, 16, 0, %p5; selp.u32 %r10, 32, 0, %p6; or.b32 %r5, %r5, %r6; or.b32 %r5, %r5, %r7;\n"
        "or.b32 %r5, %r5, %r8; or.b32 %r5, %r5, %r9; or.b32 %r5, %r5, %r10;\n"
        "st.global.v4.u32 [%d5], {%r1, %r2, %r3, %r4}; st.global.u32 [%d1+16], %r5; ret; }\n";
    uint32_t       back[5];
    uint64_t       b = emu_buffer(sizeof back);
    const uint32_t wanted[5] = {9, 10, 2, 1, 1 | 4 | 8 | 16};
    (void)state;
    unsigned int result = run_text(text, 1, 1, b, b);
    if (result)
        print_error("%s\n", emu_log());
    assert_int_equal(result, 0);
    assert_string_equal(emu_log(), "");
    emu_read(back, b, sizeof back);
    assert_memory_equal(back, wanted, sizeof wanted);
}

/* Block r writes into its neighbour's shared memory: by mapa of shared and of generic addresses. */
static void blocks_of_a_cluster_share(void **state)
{
    static const char text[] = HEAD
        ".visible .entry k(.param .u64 a)\n.reqntid 32\n.reqnctapercluster 4\n{\n"
        ".reg .b32 %r<20>; .reg .b64 %d<20>; .reg .pred %p<4>; .shared .align 16 .b32 s[64];\n"
        "ld.param.u64 %d0, [a]; mov.u32 %r0, %tid.x; mov.u32 %r1, %cluster_ctarank; add.u32 %r2, %r1, 1;\n"
        "and.b32 %r2, %r2, 3; mov.u32 %r3, s; shl.b32 %r4, %r0, 2; add.u32 %r3, %r3, %r4;\n"
        "mapa.shared::cluster.u32 %r5, %r3, %r2; mad.lo.u32 %r6, %r1, 1000, %r0;\n"
        "st.shared::cluster.u32 [%r5], %r6;\n"
        "cvt.u64.u32 %d1, %r3; cvta.shared.u64 %d1, %d1; mapa.u64 %d2, %d1, %r2; st.u32 [%d2+128], %r5;\n"
        "getctarank.u64 %r7, %d2; getctarank.shared::cluster.u32 %r8, %r3; isspacep.shared::cta %p1, %d2;\n"
        "isspacep.shared::cluster %p2, %d2; setp.ne.u32 %p3, %r7, %r2; @%p3 trap; setp.ne.u32 %p3, %r8, "
        "%r1;\n"
        "@%p3 trap; @%p1 trap; @!%p2 trap;\n"
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
        "ld.shared.u32 %r9, [%r3]; mad.lo.u32 %r10, %r1, 32, %r0; mul.wide.u32 %d3, %r10, 4; add.u64 %d3, "
        "%d0, %d3;\n"
        "st.global.u32 [%d3], %r9; ret; }\n";
    uint32_t back[128];
    uint64_t a = emu_buffer(sizeof back);
    (void)state;
    unsigned int result = emu_run(text, "k", 4, 32, 0, &a, 1);
    if (result || *emu_log())
        print_error("%s\n", emu_log());
    assert_int_equal(result, 0);
    emu_read(back, a, sizeof back);
    for (uint32_t i = 0; i < 128; i++)
        assert_int_equal(back[i], (i / 32 + 3) % 4 * 1000 + i % 32);
}

/* Parameters of device functions are the thread's own memory. */
static void functions_take_parameters(void **state)
{
    static const char text[] = HEAD
        ".func (.param .b32 out) f(.param .align 8 .b8 in[16])\n{\n.reg .b32 %r<5>; .reg .b64 %d<4>;\n"
        "ld.param.u32 %r1, [in+4]; ld.param.v2.u32 {%r2, %r3}, [in+8]; add.u32 %r1, %r1, %r2;\n"
        "mad.lo.u32 %r1, %r3, 1000, %r1; st.param.b32 [out], %r1; ret;\n}\n" ENTRY
        "add.u32 %r1, %r0, 5;\n{\n.param .align 8 .b8 p[16]; .param .b32 q;\n"
        "st.param.b32 [p], %r0; st.param.b32 [p+4], %r0; st.param.v2.b32 [p+8], {%r1, %r0};\n"
        "call.uni (q), f, (p); ld.param.b32 %r2, [q];\n}\n"
        "mul.wide.u32 %d3, %r0, 4; add.u64 %d4, %d1, %d3; st.global.u32 [%d4], %r2; ret; }\n";
    uint32_t back[32];
    uint64_t b = emu_buffer(sizeof back);
    (void)state;
    unsigned int result = run_text(text, 1, 32, b, b);
    if (result || *emu_log())
        print_error("%s\n", emu_log());
    assert_int_equal(result, 0);
    emu_read(back, b, sizeof back);
    for (uint32_t l = 0; l < 32; l++)
        assert_int_equal(back[l], 2 * l + 5 + 1000 * l);
}

/* ---- what may not be -------------------------------------------------------------------------------- */
static void strays_are_named(void **state)
{
    uint64_t a = emu_buffer(1000), b = emu_buffer(64), freed;
    char     text[64];
    (void)state;
    run_badly("ld.global.u32 %r1, [%d0+1000];", a, b, 1, 700, "0 bytes beyond allocation");
    assert_int_equal(run("ld.global.u32 %r1, [%d0+1016];", a, b, 1), 700);
    assert_non_null(strstr(emu_log(), "16 bytes beyond allocation"));
    assert_non_null(strstr(emu_log(), "(1000 bytes)"));
    assert_non_null(strstr(emu_log(), "line 15")); /* of the PTX */
    emu_log_clear();
    run_badly("st.global.v4.u32 [%d0+992], {%r0,%r0,%r0,%r0};", a, b, 1, 700, "writes 16 bytes");
    run_badly("st.global.u32 [%d0+-8], %r0;", a, b, 1, 700, "8 bytes before allocation");
    run_badly("st.u32 [%d0+-8], %r0;", a, b, 1, 700, "8 bytes before allocation");
    run_badly("mov.b64 %d3, 16; st.global.u32 [%d3], %r0;", a, b, 1, 700, "in no allocation");
    run_badly("mov.b64 %d3, 0x0800000000000000; st.u32 [%d3], %r0;", a, b, 1, 700, "in no window");
    run_badly("mul.wide.u32 %d3, %r0, 36; add.u64 %d3, %d0, %d3; st.global.u32 [%d3], %r0;", a, b, 32, 700,
              "8 bytes beyond allocation");
    run_badly("st.shared.u32 [65536], %r0;", a, b, 1, 700, "shared 0x10000");
    run_badly("mov.b32 %r1, 0x01000000; add.u32 %r1, %r1, 65536; st.shared::cluster.u32 [%r1], %r0;", a, b, 1,
              700, "shared 0x10000");
    run_badly("mov.b32 %r1, 0x02000000; st.shared::cluster.u32 [%r1], %r0;", a, b, 1, 700, "of no block");
    run_badly(".local .b32 x[4]; mov.u64 %d3, x; st.local.u32 [%d3+65536], %r0;", a, b, 1, 700, "local 0x");
    run_badly(".local .b32 x[4]; cvt.u64.u32 %d4, %r0; mul.lo.u64 %d4, %d4, -4; st.local.u32 [%d4], %r0;", a, b,
              2, 700, "local 0xfffffffffffffffc");
    run_badly(".shared .b32 x[4]; cvt.u64.u32 %d4, %r0; mul.lo.u64 %d4, %d4, -4; st.shared.u32 [%d4], %r0;", a,
              b, 2, 700, "shared 0xfffffffffffffffc");
    run_badly("ld.global.u32 %r1, [%d0+2];", a, b, 1, 716, "4 bytes not aligned to 4");
    run_badly("ld.global.v4.u32 {%r1,%r2,%r3,%r4}, [%d0+8];", a, b, 1, 716, "16 bytes not aligned to 16");
    run_badly("mov.b64 %d3, a; cvta.param.u64 %d3, %d3; st.u64 [%d3], %d3;", a, b, 1, 700, "read-only");
    freed = emu_arena_alloc(512, EMU_MEMORY_DEVICE, NULL, NULL);
    emu_arena_free(freed);
    run_badly("st.global.u32 [%d0+8], %r0;", freed, b, 1, 700, "which was freed");
    snprintf(text, sizeof text, "global 0x%llx", (unsigned long long)freed + 8);
    run_badly("st.global.u32 [%d0+8], %r0;", freed, b, 1, 700, text);
    run_badly("st.global.u32 [%d0+1024], %r0;", UINT64_MAX - 511, b, 1, 700, "in no allocation");
    run_badly("st.global.u64 [%d0+-4], %d0;", 0, b, 1, 716, "not aligned");
    run_badly("mapa.shared::cluster.u32 %r1, %r0, 3;", a, b, 1, 700, "block 3 of a cluster of 1");
    run_badly("mov.u32 %r1, 1; mapa.u64 %d3, %d0, 0;", a, b, 1, 700, "not an address of shared memory");
}

static void constants_stay(void **state)
{
    static const char text[] = HEAD ".const .u32 c[4];\n" ENTRY
                                    "mov.u64 %d2, c; cvta.const.u64 %d2, %d2; st.u32 [%d2+4], %r0; ret; }\n";
    static const char wrong[] = HEAD ENTRY "ld.const.u32 %r1, [%d0]; ret; }\n";
    uint64_t                         a = emu_buffer(64);
    (void)state;
    assert_int_equal(run_text(text, 1, 1, a, a), 700);
    assert_non_null(strstr(emu_log(), "read-only: global"));
    assert_non_null(strstr(emu_log(), "byte 4 of constant 'c' (16 bytes)"));
    emu_log_clear();
    assert_int_equal(run_text(wrong, 1, 1, a, a), 700);
    assert_non_null(strstr(emu_log(), "not constant memory"));
}

/* Random addresses round the edges of two allocations: a fault exactly when a lane leaves them. */
static void bounds_are_exact(void **state)
{
    static const struct {
        const char *load;
        uint32_t    bytes;
    } loads[] = {{"ld.global.u8 %r1, [%d4]", 1},
                 {"ld.global.u16 %r1, [%d4]", 2},
                 {"ld.u32 %r1, [%d4]", 4},
                 {"ld.global.v2.u32 {%r1,%r2}, [%d4]", 8},
                 {"ld.v4.u32 {%r1,%r2,%r3,%r4}, [%d4]", 16}};
    unsigned char host[2048] = {0};
    unsigned int  faults = 0;
    char          body[512];
    (void)state;
    for (int round = 0; round < 400; round++) {
        emu_machine(90);
        uint64_t bytes[2] = {1 + draw() % 2048, 1 + draw() % 2048}, base[2], address[32];
        uint32_t lanes = 1 + draw() % 32, which = draw() % 5, width = loads[which].bytes, wanted = 0;
        for (int i = 0; i < 2; i++) {
            base[i] = emu_buffer(bytes[i]);
            emu_write(base[i], host, bytes[i]);
        }
        for (uint32_t l = 0; l < lanes; l++) {
            uint32_t i = draw() & 1;
            uint64_t last = bytes[i] < width ? 0 : (bytes[i] - width) / width * width,
                     at = draw() % (last + 1) / width * width;
            uint32_t odd = draw() % 100;
            at = odd == 0 ? last + width : odd == 1 ? 0ull - width : odd == 2 ? at + 1 : odd < 20 ? last : at;
            address[l] = base[i] + at;
            bool outside = at > bytes[i] || width > bytes[i] - at;
            wanted |= (at % width ? 2 : 0) | (outside ? 1 : 0);
        }
        uint64_t table = emu_buffer(sizeof address);
        emu_write(table, address, lanes * sizeof address[0]);
        snprintf(body, sizeof body,
                 "mul.wide.u32 %%d3, %%r0, 8; add.u64 %%d3, %%d0, %%d3; ld.global.u64 %%d4, [%%d3]; %s;",
                 loads[which].load);
        unsigned int result = run(body, table, table, lanes);
        bool         good = wanted == 0   ? result == 0
                            : wanted == 1 ? result == 700
                            : wanted == 2 ? result == 716
                                          : result >= 700;
        if (!good)
            fail_msg("round %d: wanted %u, result %u of\n%s\n%s", round, wanted, result, body, emu_log());
        faults += result != 0;
    }
    assert_in_range(faults, 20, 380);
}

/* One instruction whose lanes lie in shared, local and global memory. */
static void lanes_in_several_spaces(void **state)
{
    static const char *const body =
        ".shared .align 8 .b32 s[32]; .local .align 8 .b32 x[2]; shl.b32 %r1, %r0, 2; mov.u64 %d3, s; "
        "cvta.shared.u64 %d3, %d3;\n"
        "cvt.u64.u32 %d4, %r1; add.u64 %d3, %d3, %d4; mov.u64 %d5, x; cvta.local.u64 %d5, %d5; add.u64 %d6, "
        "%d0, %d4;\n"
        "rem.u32 %r2, %r0, 3; setp.eq.u32 %p1, %r2, 1; setp.eq.u32 %p2, %r2, 2; selp.b64 %d3, %d5, %d3, "
        "%p1;\n"
        "selp.b64 %d3, %d6, %d3, %p2; add.u32 %r3, %r0, 77; st.u32 [%d3], %r3; atom.add.u32 %r6, [%d3], 1;\n"
        "ld.u32 %r4, [%d3]; add.u32 %r4, %r4, %r6; add.u64 %d7, %d1, %d4; st.global.u32 [%d7], %r4;";
    uint32_t host[32] = {0}, back[32];
    uint64_t a = emu_buffer(sizeof host), b = emu_buffer(sizeof back);
    (void)state;
    emu_write(a, host, sizeof host);
    run_badly(body, a, b, 32, 700, "local memory");
    char global_only[1024];
    snprintf(global_only, sizeof global_only, "%s", body);
    char *atom = strstr(global_only, "atom.add.u32 %r6, [%d3], 1;");
    assert_non_null(atom);
    memcpy(atom, "mov.u32 %r6, 0;            ", 27);
    run_well(global_only, a, b, 32);
    emu_read(back, b, sizeof back);
    for (uint32_t l = 0; l < 32; l++)
        assert_int_equal(back[l], l + 77);
    emu_read(host, a, sizeof host);
    for (uint32_t l = 0; l < 32; l++)
        assert_int_equal(host[l], l % 3 == 2 ? l + 77 : 0);
}

static void discarded_bytes_are_undefined(void **state)
{
    unsigned char host[256];
    uint64_t      a = filled(host, sizeof host);
    (void)state;
    run_well("discard.global.L2 [%d0+128], 128; ld.global.u32 %r1, [%d0+124];", a, a, 1);
    run_badly("ld.global.u32 %r1, [%d0+128];", a, a, 1, 719, "byte 0 of which was never written");
    run_badly("discard.global.L2 [%d0+64], 128;", a, a, 1, 716, "not aligned to 128");
}

/* What was never written is reported once an op; each space, each byte. */
static void undefined_bytes_are_found(void **state)
{
    unsigned char host[64] = {0};
    uint64_t      a = emu_buffer(64), b = emu_buffer(64);
    (void)state;
    emu_write(a, host, 62);
    run_badly("ld.global.u32 %r1, [%d0+60];", a, b, 1, 719, "byte 2 of which was never written");
    run_badly("ld.global.u8 %r1, [%d0+63];", a, b, 1, 719, "never written, or copied from such: global");
    run_badly("ld.global.v4.u32 {%r1,%r2,%r3,%r4}, [%d0+48];", a, b, 1, 719, "byte 14 of which");
    run_badly(".shared .b32 s[4]; ld.shared.u32 %r1, [s];", a, b, 1, 719,
              "never written, or copied from such: shared");
    run_badly(".local .b32 s[4]; ld.local.u32 %r1, [s+4];", a, b, 1, 719,
              "never written, or copied from such: local");
    run_badly("atom.global.add.u32 %r1, [%d1], 1;", a, b, 1, 719, "never written");
    run_well("ld.global.u16 %r1, [%d0+60]; st.global.u32 [%d1], 5; ld.global.u32 %r2, [%d1];\n"
             ".local .b32 s[4]; st.local.u32 [s+4], %r0; ld.local.u32 %r1, [s+4];",
             a, b, 32 / 32);
    emu_arena_define(b, 4, false);
    run_badly("ld.global.u8 %r1, [%d1+3];", a, b, 1, 719, "never written");
    emu_arena_copy_defined(b, a + 56, 8);
    run_well("ld.global.v2.u16 {%r1, %r2}, [%d1]; ld.global.u16 %r3, [%d1+4];", a, b, 1);
    run_badly("ld.global.u8 %r1, [%d1+6];", a, b, 1, 719, "never written");
    run_badly("discard.global.L2 [%d0], 128;", a, b, 1, 700, "outside");
    emu_test_settings.judge &= ~(unsigned int)EMU_JUDGE_UNINITIALISED;
    assert_int_equal(run("ld.global.u8 %r1, [%d1+6];", a, b, 1), 0);
}

/* Definedness by a model: random copies and writes, checked byte by byte through kernels' eyes. */
static void definedness_follows_copies(void **state)
{
    enum { N = 512 };
    bool     known[2][N] = {{false}};
    uint64_t at[2] = {emu_arena_alloc(N, EMU_MEMORY_DEVICE, NULL, NULL),
                      emu_arena_alloc(N, EMU_MEMORY_DEVICE, NULL, NULL)};
    (void)state;
    for (int round = 0; round < 2000; round++) {
        uint32_t x = draw() % N, y = draw() % N, n = draw() % (N + 1 - (x > y ? x : y)), which = draw() & 1;
        bool     value = draw() & 1;
        if (round & 1) {
            emu_arena_copy_defined(at[which] + x, at[!which] + y, n);
            memcpy(&known[which][x], &known[!which][y], n * sizeof known[0][0]);
        } else {
            emu_arena_define(at[which] + x, n, value);
            for (uint32_t i = x; i < x + n; i++)
                known[which][i] = value;
        }
        for (int i = 0; i < 2; i++)
            for (uint32_t k = 0; k < N; k++) {
                struct emu_ref ref = {.at = (unsigned char *)(uintptr_t)(at[i] + k), .space = EMU_GLOBAL};
                assert_int_equal(emu_defined(&ref, 1), known[i][k]);
            }
    }
    emu_arena_free(at[0]);
    emu_arena_free(at[1]);
}

/* ---- bank conflicts --------------------------------------------------------------------------------- */
/* Serve the lanes of each phase by taking, in every pass, one word of each bank. */
static unsigned int passes_of(const uint64_t *address, uint32_t mask, uint32_t bytes)
{
    unsigned int passes = 0, lanes = bytes <= 4 ? 32 : 128 / bytes;
    for (unsigned int first = 0; first < 32; first += lanes) {
        static bool  wanted[1 << 14];
        unsigned int most = 0;
        memset(wanted, 0, sizeof wanted);
        for (unsigned int l = first; l < first + lanes; l++)
            for (uint32_t i = 0; mask >> l & 1 && i < bytes; i++)
                wanted[(address[l] + i) / 4] = true;
        for (unsigned int bank = 0; bank < 32; bank++) {
            unsigned int words = 0;
            for (unsigned int word = bank; word < 1 << 14; word += 32)
                words += wanted[word];
            most = words > most ? words : most;
        }
        passes += most;
    }
    return passes;
}

static void wavefronts_are_counted(void **state)
{
    uint64_t address[32];
    (void)state;
    for (int round = 0; round < 3000; round++) {
        uint32_t bytes = 1u << (draw() % 6), mask = round & 1 ? draw() : UINT32_MAX, span = 1u << (draw() % 11);
        for (int l = 0; l < 32; l++)
            address[l] = (uint64_t)(draw() % span) * bytes;
        assert_int_equal(emu_wavefronts(address, mask, bytes), passes_of(address, mask, bytes));
    }
    for (int l = 0; l < 32; l++)
        address[l] = (uint64_t)l * 128;
    assert_int_equal(emu_wavefronts(address, UINT32_MAX, 4), 32);
    assert_int_equal(emu_wavefronts(address, 0, 4), 0);
}

/* ---- what is taken and what is refused -------------------------------------------------------------- */
static void forms_that_exist_are_taken(void **state)
{
    static const char *const forms[] =
        {"ld.weak.global.u32 %r1, [%d0];",
         "ld.global.ca.u32 %r1, [%d0];",
         "ld.global.cv.u32 %r1, [%d0];",
         "ld.global.nc.u32 %r1, [%d0];",
         "ld.global.ca.nc.v4.f32 {%f1,%f2,%f3,%f4}, [%d0];",
         "ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%r1,%r2,%r3,%r4}, [%d0];",
         "ld.global.L1::evict_last.L2::256B.u32 %r1, [%d0];",
         "createpolicy.fractional.L2::evict_last.b64 %d3, 1.0; ld.global.L2::cache_hint.u32 %r1, [%d0], %d3;",
         "createpolicy.fractional.L2::evict_first.b64 %d3; "
         "ld.global.nc.L1::no_allocate.L2::cache_hint.L2::256B.u32 %r1, [%d0], %d3;",
         "createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %d3, 0.5; "
         "st.global.L2::cache_hint.u32 [%d1], %r0, %d3;",
         "createpolicy.range.global.L2::evict_last.L2::evict_first.b64 %d3, [%d0], 64, 128;",
         "ld.volatile.global.u32 %r1, [%d0];",
         "ld.volatile.u32 %r1, [%d0];",
         "ld.relaxed.cluster.global.u32 %r1, [%d0];",
         "ld.acquire.cta.u32 %r1, [%d0];",
         "ld.global.acquire.gpu.u32 %r1, [%d0];",
         "ld.u32.global %r1, [%d0];",
         "ld.global.v2.L2::128B.u32 {%r1,%r2}, [%d0];",
         "st.weak.cs.v2.b64 [%d1], {%d0,%d0};",
         "ld.mmio.relaxed.sys.global.u32 %r1, [%d0];",
         "ldu.global.u32 %r1, [%d0];",
         "st.global.wb.u32 [%d1], %r0;",
         "st.global.wt.u32 [%d1], %r0;",
         "st.global.cs.v2.f32 [%d1], {0f00000000, 0f3f800000};",
         "st.global.L1::no_allocate.u32 [%d1], %r0;",
         "st.mmio.relaxed.sys.global.u32 [%d1], %r0;",
         "st.relaxed.gpu.global.u32 [%d1], %r0;",
         "ld.param::entry.u64 %d3, [a];",
         "st.shared::cta.u32 [1024], %r0;",
         "prefetch.global.L1 [%d0];",
         "prefetch.global.L2 [%d0];",
         "prefetch.L2 [%d0];",
         "prefetchu.L1 [%d0];",
         "prefetch.global.L2::evict_last [%d0];",
         "applypriority.global.L2::evict_normal [%d1], 128;",
         "discard.global.L2 [%d1], 128;",
         "cvta.to.global.u64 %d3, %d0;",
         "membar.gl;",
         "membar.cta;",
         "membar.sys;",
         "fence.sc.gpu;",
         "fence.acq_rel.cta;",
         "fence.cluster;",
         "fence.acquire.gpu;",
         "fence.release.sys;",
         "fence.proxy.alias;",
         "fence.proxy.async;",
         "fence.proxy.async.global;",
         "fence.proxy.async.shared::cta;",
         "fence.proxy.async.shared::cluster;",
         "fence.mbarrier_init.release.cluster;",
         "fence.proxy.tensormap::generic.release.gpu;",
         "fence.proxy.tensormap::generic.acquire.gpu [%d1], 128;",
         "fence.acquire.sync_restrict::shared::cluster.cluster;",
         "fence.release.sync_restrict::shared::cta.cluster;",
         "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;",
         "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;"};
    unsigned char host[256];
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        uint64_t a = filled(host, sizeof host), b = filled(host, sizeof host);
        run_well(forms[i], a, b, 1);
        emu_machine(90);
    }
}

static void forms_that_do_not_exist_are_refused(void **state)
{
    static const struct {
        const char *form, *why;
    } forms[] = {{"ld.shared.nc.u32 %r1, [0];", ".nc is for .global"},
                 {"ld.global.f16 %h1, [%d0];", "use .b16"},
                 {"ld.relaxed.global.u32 %r1, [%d0];", "a scope is missing"},
                 {"ld.global.v2.u32 %r1, [%d0];", "registers for 2 elements"},
                 {"ld.global.v2.u32 {%r1,%r2,%r3}, [%d0];", "3 registers for 2"},
                 {"ld.global.u32 %h1, [%d0];", "at least 32"},
                 {"ld.global.v4.u64 {%d2,%d3,%d4,%d5}, [%d0];", "sm_100"},
                 {"ld.global.u32 %r1, [%r0];", "64"},
                 {"st.const.u32 [%d0], %r0;", "constants cannot"},
                 {"st.param.u64 [a], %d0;", "cannot be written"},
                 {"ld.global.pred %p1, [%d0];", "pred"},
                 {"ld.global.u32.u32 %r1, [%d0];", "u32"},
                 {"ld.global.u32 %r1, [%d0], %d1;", "3 operands"},
                 {"ld.global.L2::cache_hint.u32 %r1, [%d0];", "operands"},
                 {"ld.acquire.u32 %r1, [%d0];", "a scope is missing"},
                 {"fence.sc;", "a scope is missing"},
                 {"membar.gpu;", "a level"},
                 {"fence.proxy.strange;", "not known"},
                 {"alloca.u64 %d3, %d0;", "not executed"},
                 {"prefetch.shared.L1 [0];", "no cache"},
                 {"cvta.shared.u32 %r1, %r0;", "64 bits"},
                 {"ld.global.b128 %d3, [%d0];", "128"},
                 {"st.global.u32 [%d0], {%r0};", ""},
                 {"discard.global.L2 [%d0], 64;", "128"}};
    uint64_t a = emu_buffer(256);
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (!*forms[i].why)
            continue;
        run_badly(forms[i].form, a, a, 1, 218, forms[i].why);
    }
}

/* ---- speed: printed, not judged --------------------------------------------------------------------- */
static void speed_is_told(void **state)
{
    static const char *const bodies[] =
        {"mul.wide.u32 %d3, %r0, 4; add.u64 %d3, %d0, %d3; mov.u32 %r2, 20000;\nL: ld.global.u32 %r1, [%d3];\n"
         "ld.global.u32 %r3, [%d3]; ld.global.u32 %r1, [%d3]; ld.global.u32 %r3, [%d3];\n"
         "sub.u32 %r2, %r2, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra L;",
         ".shared .align 16 .b32 s[128]; shl.b32 %r4, %r0, 4; mov.u32 %r5, s; add.u32 %r5, %r5, %r4; mov.u32 "
         "%r2, 20000;\n"
         "st.shared.v4.u32 [%r5], {%r0,%r0,%r0,%r0};\n"
         "L: st.shared.v4.u32 [%r5], {%r0,%r0,%r0,%r0}; ld.shared.v4.u32 {%r6,%r7,%r8,%r9}, [%r5];\n"
         "st.shared.v4.u32 [%r5], {%r0,%r0,%r0,%r0}; ld.shared.v4.u32 {%r6,%r7,%r8,%r9}, [%r5];\n"
         "sub.u32 %r2, %r2, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra L;",
         ("mov.u32 %r2, 20000;\nL: add.u32 %r1, %r0, 1; add.u32 %r3, %r0, 1; add.u32 %r1, %r0, 1;\n"
          "add.u32 %r3, %r0, 1; sub.u32 %r2, %r2, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra L;")};
    static const char *const names[] = {"ld.global.u32", "ld/st.shared.v4.u32", "(add.u32, to compare)"};
    unsigned char            host[128];
    uint64_t                 a = filled(host, sizeof host);
    (void)state;
    for (unsigned int judge = 0; judge < 2; judge++)
        for (int i = 0; i < 3; i++) {
            struct timespec from, to;
            emu_test_settings.judge = judge ? EMU_JUDGE_ALL : 0;
            clock_gettime(CLOCK_MONOTONIC, &from);
            run_well(bodies[i], a, a, 32);
            clock_gettime(CLOCK_MONOTONIC, &to);
            print_message("%-22s %s: %.0f ns an op (and 3/4 of loop)\n", names[i],
                          judge ? "judged" : "not judged",
                          ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) /
                              80000);
        }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, begin)
    const struct CMUnitTest tests[] = {CASE(arena_keeps_allocations_apart),
                                       CASE(arena_gives_its_whole_memory_again_and_again),
                                       CASE(arena_recycles),
                                       CASE(arena_serves_threads),
                                       CASE(arena_is_read_without_locks),
                                       CASE(loads_extend),
                                       CASE(stores_cut),
                                       CASE(vectors_pass_through_every_space),
                                       CASE(sinks_and_narrow_addresses),
                                       CASE(constants_and_variables),
                                       CASE(blocks_of_a_cluster_share),
                                       CASE(functions_take_parameters),
                                       CASE(strays_are_named),
                                       CASE(constants_stay),
                                       CASE(bounds_are_exact),
                                       CASE(lanes_in_several_spaces),
                                       CASE(discarded_bytes_are_undefined),
                                       CASE(undefined_bytes_are_found),
                                       CASE(definedness_follows_copies),
                                       CASE(wavefronts_are_counted),
                                       CASE(forms_that_exist_are_taken),
                                       CASE(forms_that_do_not_exist_are_refused),
                                       CASE(speed_is_told)};
    print_message("seed %u\n", seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
