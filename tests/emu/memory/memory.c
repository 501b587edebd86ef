/* memory.c - the emulated device memory: the arena, ld and st of every width, bounds, and undefined bytes.
 * access.txt tests single instructions and their reports. */
#include <pthread.h>
#include "tests/support/emu_test.h"
#define BEFORE_EACH begin
#define AFTER_EACH  NULL

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
    emu_must_end(run(body, a, b, block), 0, NULL, body);
}

static void run_badly(const char *body, uint64_t a, unsigned int result, const char *what)
{
    emu_must_end(run(body, a, a, 1), result, what, body);
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
TEST(arena_keeps_allocations_apart)
{
    enum { COUNT = 200 };
    uint64_t              at[COUNT], bytes[COUNT], used = emu_arena_used();
    struct emu_allocation found;
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

TEST(arena_gives_its_whole_memory_again_and_again)
{
    uint64_t all = emu_test_settings.memory_bytes - emu_arena_used(), last = 0;
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

/* Many small allocations: addresses and slots are reused, and new bytes are zero. */
TEST(arena_recycles)
{
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

TEST(arena_serves_threads)
{
    pthread_t threads[4];
    uint64_t  used = emu_arena_used();
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, (void *)(i + 1)), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(emu_arena_used(), used);
}

/* A kernel looks up addresses while other threads allocate. */
TEST(arena_is_read_without_locks)
{
    enum { N = 4096 };
    static uint32_t host[N], back[N];
    pthread_t       other;
    void           *failed;
    uint64_t        a = filled(host, sizeof host), b = emu_buffer(sizeof host);
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

/* Every type is loaded into every register that is wide enough, in every space that can be written. */
TEST(loads_extend)
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

/* Vectors pass through each space, with all lanes and some, forwards and mirrored. */
TEST(vectors_pass_through_every_space)
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

/* ---- what is reported ------------------------------------------------------------------------------- */
/* Random addresses near the edges of two allocations: there is a fault exactly when a lane is outside. */
TEST(bounds_are_exact)
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
    for (int round = 0; round < 400; round++) {
        emu_machine(90);
        emu_test_settings.judge &= ~(unsigned int)EMU_JUDGE_UNINITIALISED;
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
            uint64_t room = (bytes[i] + 15) / 16 * 16; /* a load may end within the last 16 bytes */
            bool     outside = at > room || width > room - at;
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

/* Such a load is a note on request, and never fails the launch. */
TEST(loads_beyond_the_end_are_noted)
{
    unsigned char host[28] = {0};
    uint64_t      at = filled(host, sizeof host);
    run_well("ld.global.v2.u32 {%r1, %r2}, [%d0+16]; ld.global.u32 %r3, [%d0+24];", at, at, 32);
    emu_test_settings.judge = EMU_JUDGE_OVERREAD;
    emu_must_end(run("ld.global.v2.u32 {%r1, %r2}, [%d0+24];", at, at, 32), 0,
                 "reads 8 bytes, not all of them within the allocation: global", "a note");
    assert_non_null(strstr(emu_log(), "k: 32 notes at 1 place"));
    assert_int_equal(strstr(emu_log(), "finding") != NULL, 0);
}

TEST(freed_memory_is_named)
{
    char     address[64];
    uint64_t freed = emu_arena_alloc(512, EMU_MEMORY_DEVICE, NULL, NULL);
    emu_arena_free(freed);
    run_badly("st.global.u32 [%d0+8], %r0;", freed, 700, "which was freed");
    snprintf(address, sizeof address, "global 0x%llx", (unsigned long long)freed + 8);
    run_badly("st.global.u32 [%d0+8], %r0;", freed, 700, address);
    run_badly("st.global.u32 [%d0+1024], %r0;", UINT64_MAX - 511, 700, "in no allocation");
    run_badly("st.global.u64 [%d0+-4], %d0;", 0, 716, "not aligned");
}

/* The host defines and copies bytes, and a kernel discards some. */
TEST(definedness_lasts_between_launches)
{
    unsigned char host[256];
    uint64_t      a = filled(host, sizeof host), b = emu_buffer(64);
    run_well("discard.global.L2 [%d0+128], 128; ld.global.u32 %r1, [%d0+124];", a, a, 1);
    run_badly("ld.global.u32 %r1, [%d0+128]; st.global.u32 [%d0], %r1;", a, 719,
              "computed from bytes that nothing has written");
    run_badly("discard.global.L2 [%d0+64], 128;", a, 716, "not aligned to 128");
    run_well("st.global.u32 [%d0], 5; ld.global.u32 %r2, [%d0];", b, b, 1);
    emu_arena_define(b, 4, false);
    run_badly("ld.global.u8 %r1, [%d0+3]; st.global.u8 [%d0+16], %r1;", b, 719, "nothing has written");
    emu_arena_copy_defined(b, a + 122, 8);
    run_well("ld.global.v2.u16 {%r1, %r2}, [%d0]; ld.global.u16 %r3, [%d0+4];", b, b, 1);
    run_badly("ld.global.u8 %r1, [%d0+6]; st.global.u8 [%d0+16], %r1;", b, 719, "nothing has written");
    emu_test_settings.judge &= ~(unsigned int)EMU_JUDGE_UNINITIALISED;
    assert_int_equal(run("ld.global.u8 %r1, [%d0+6];", b, b, 1), 0);
}

/* Random copies and writes are compared with a model that knows which bytes are defined. */
TEST(definedness_follows_copies)
{
    enum { N = 512 };
    bool     known[2][N] = {{false}};
    uint64_t at[2] = {emu_arena_alloc(N, EMU_MEMORY_DEVICE, NULL, NULL),
                      emu_arena_alloc(N, EMU_MEMORY_DEVICE, NULL, NULL)};
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
/* Counts the passes that serve the lanes of each phase, one word of each bank in every pass. */
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

TEST(wavefronts_are_counted)
{
    uint64_t address[32];
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

int main(void)
{
    print_message("seed %u\n", seed);
    return unit_run(NULL, NULL);
}
