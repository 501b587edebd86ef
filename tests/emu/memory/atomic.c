/* atomic.c - atom and red on the emulated GPU: compares every operation and type with a reference, also for
 * lanes that collide and blocks on several host threads.  atomic.txt tests locks, flags and reports. */
#include <math.h>
#include "tests/support/emu_test.h"
#define BEFORE_EACH begin
#define AFTER_EACH  NULL

#define HEAD ".version 8.8\n.target sm_90\n.address_size 64\n"
#define ENTRY                                                                                     \
    ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c)\n{\n.reg .b16 %h<20>;\n"      \
    ".reg .b32 %r<20>;\n.reg .b64 %d<20>;\n.reg .b128 %q<5>;\n.reg .f32 %f<20>;\n"                \
    ".reg .pred %p<9>;\nld.param.u64 %d0, [a];\nld.param.u64 %d1, [b];\nld.param.u64 %d2, [c];\n" \
    "mov.u32 %r0, %tid.x;\n"
enum { LANES = 32 };

static uint64_t seed = 20261120;
static uint64_t draw(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed * 0x2545f4914f6cdd1dull;
}

static int begin(void **state)
{
    (void)state;
    emu_machine(90);
    emu_test_settings.host_threads = 2;
    return 0;
}

static unsigned int run(const char *body, uint32_t grid, uint32_t block, uint64_t a, uint64_t b, uint64_t c)
{
    char           text[8192];
    const uint64_t words[] = {a, b, c};
    int            n = snprintf(text, sizeof text, "%s%s%s\nret;\n}\n", HEAD, ENTRY, body);
    assert_true(n > 0 && (size_t)n < sizeof text);
    return emu_run(text, "k", grid, block, 0, words, 3);
}

static void run_well(const char *body, uint32_t grid, uint32_t block, uint64_t a, uint64_t b, uint64_t c)
{
    emu_must_end(run(body, grid, block, a, b, c), 0, NULL, body);
}

static uint64_t buffer(const void *host, uint64_t bytes)
{
    uint64_t at = emu_buffer(bytes);
    emu_write(at, host, bytes);
    return at;
}

/* ---- the reference: it works on values, without the emulator ---------------------------------------- */
enum kind { UNSIGNED, SIGNED, BITS, F32, F64 };

static uint64_t reference(const char *name, enum kind kind, unsigned int bytes, bool global, uint64_t x,
                          uint64_t y, uint64_t z)
{
    uint64_t cut = bytes == 8 ? ~0ull : (1ull << 8 * bytes) - 1;
    int64_t  sx = bytes == 8 ? (int64_t)x : bytes == 4 ? (int32_t)x : (int16_t)x;
    int64_t  sy = bytes == 8 ? (int64_t)y : bytes == 4 ? (int32_t)y : (int16_t)y;
    if (kind == F32) {
        float    f, g;
        uint32_t fx = (uint32_t)x, fy = (uint32_t)y, sum;
        if (global && !(fx & 0x7f800000))
            fx &= 0x80000000;
        if (global && !(fy & 0x7f800000))
            fy &= 0x80000000;
        memcpy(&f, &fx, 4);
        memcpy(&g, &fy, 4);
        f += g;
        memcpy(&sum, &f, 4);
        if (isnan(f))
            return 0x7fffffff;
        return global && fpclassify(f) == FP_SUBNORMAL ? sum & 0x80000000 : sum;
    }
    if (kind == F64) {
        double f, g;
        memcpy(&f, &x, 8);
        memcpy(&g, &y, 8);
        f += g;
        memcpy(&x, &f, 8);
        return x;
    }
    switch (name[0] == 'm' ? name[1] : name[0]) {
    case 'i':
        return name[0] == 'm' ? (kind == SIGNED ? sx < sy : x < y) ? x : y : x >= y ? 0 : x + 1;
    case 'd':
        return x == 0 || x > y ? y : x - 1;
    case 'a':
        return name[0] == 'm'   ? (kind == SIGNED ? sx > sy : x > y) ? x : y
               : name[1] == 'd' ? (x + y) & cut
                                : x & y;
    case 'o':
        return x | y;
    case 'x':
        return x ^ y;
    case 'e':
        return y;
    default:
        return x == y ? z : x;
    }
}

static uint64_t interesting(enum kind kind, unsigned int bytes)
{
    static const uint32_t floats[] = {0,          0x80000000, 1,          0x80000001, 0x007fffff,
                                      0x00800000, 0x80800000, 0x3f800000, 0xbf800000, 0x7f7fffff,
                                      0x7f800000, 0xff800000, 0x00800001, 0x34000000};
    uint64_t              value = draw();
    if (kind == F32)
        return draw() % 2 ? floats[draw() % 14] : (value & 0x80ffffff) | 0x3f000000;
    if (kind == F64)
        return (value & 0x800fffffffffffffull) | (1020 + draw() % 8) << 52;
    if (draw() % 3 == 0)
        value = draw() % 4 - 2;
    return bytes == 8 ? value : value & ((1ull << 8 * bytes) - 1);
}

struct form {
    const char  *operation, *type;
    enum kind    kind;
    unsigned int bytes;
};
static const struct form forms[] = {{"add", "u32", UNSIGNED, 4}, {"add", "s32", SIGNED, 4},
                                    {"add", "u64", UNSIGNED, 8}, {"add", "f32", F32, 4},
                                    {"add", "f64", F64, 8},      {"min", "u32", UNSIGNED, 4},
                                    {"min", "s32", SIGNED, 4},   {"min", "u64", UNSIGNED, 8},
                                    {"min", "s64", SIGNED, 8},   {"max", "u32", UNSIGNED, 4},
                                    {"max", "s32", SIGNED, 4},   {"max", "u64", UNSIGNED, 8},
                                    {"max", "s64", SIGNED, 8},   {"inc", "u32", UNSIGNED, 4},
                                    {"dec", "u32", UNSIGNED, 4}, {"and", "b32", BITS, 4},
                                    {"and", "b64", BITS, 8},     {"or", "b32", BITS, 4},
                                    {"or", "b64", BITS, 8},      {"xor", "b32", BITS, 4},
                                    {"xor", "b64", BITS, 8},     {"exch", "b32", BITS, 4},
                                    {"exch", "b64", BITS, 8},    {"cas", "b16", BITS, 2},
                                    {"cas", "b32", BITS, 4},     {"cas", "b64", BITS, 8}};

/* Writes the body of a kernel.  a: the words, b: the operands (c after b), c: the old values.  `at`: the
 * address in memory. */
static void write_body(char *body, size_t cap, const struct form *f, bool global, bool red,
                       unsigned int shared_by)
{
    static const char *const names[] = {NULL, NULL, "%h", NULL, "%r", NULL, NULL, NULL, "%d"};
    const char *reg = names[f->bytes], *width = f->bytes == 2 ? "b16" : f->bytes == 4 ? "b32" : "b64";
    size_t      n = (size_t)
        snprintf(body, cap,
                 ".shared .align 16 .b8 s[256];\nshr.u32 %%r1, %%r0, %u; mul.wide.u32 %%d3, %%r1, %u;\n"
                 "mul.wide.u32 %%d4, %%r0, %u; add.u64 %%d5, %%d0, %%d3; add.u64 %%d6, %%d1, %%d4;\n"
                 "add.u64 %%d7, %%d2, %%d4; ld.global.%s %s9, [%%d6]; ld.global.%s %s10, [%%d6+%u];\n",
                 shared_by, f->bytes, f->bytes, width, reg, width, reg, f->bytes * LANES);
    if (!global)
        n += (size_t)
            snprintf(body + n, cap - n,
                     "ld.global.%s %s11, [%%d5]; mov.u64 %%d8, s; add.u64 %%d8, %%d8, %%d3;\n"
                     "and.b32 %%r2, %%r0, %u; setp.eq.u32 %%p1, %%r2, 0; @%%p1 st.shared.%s [%%d8], %s11;\n"
                     "bar.sync 0;\n",
                     width, reg, (1u << shared_by) - 1, width, reg);
    n += (size_t)snprintf(body + n, cap - n, "%s.%s.%s.%s ", red ? "red" : "atom", global ? "global" : "shared",
                          f->operation, f->type);
    if (!red)
        n += (size_t)snprintf(body + n, cap - n, "%s12, ", reg);
    n += (size_t)snprintf(body + n, cap - n, "[%s], %s9%s%s;\n", global ? "%d5" : "%d8", reg,
                          strcmp(f->operation, "cas") == 0 ? ", " : "",
                          strcmp(f->operation, "cas") != 0 ? ""
                          : f->bytes == 2                  ? "%h10"
                          : f->bytes == 4                  ? "%r10"
                                                           : "%d10");
    if (!red)
        n += (size_t)snprintf(body + n, cap - n, "st.global.%s [%%d7], %s12;\n", width, reg);
    if (!global)
        n += (size_t)snprintf(body + n, cap - n,
                              "bar.sync 0; @%%p1 ld.shared.%s %s13, [%%d8]; @%%p1 st.global.%s [%%d5], %s13;\n",
                              width, reg, width, reg);
}

static void check_form(const struct form *f, bool global, bool red, unsigned int shared_by)
{
    unsigned char words[8 * LANES] = {0}, operands[16 * LANES] = {0}, back[8 * LANES], old[8 * LANES];
    uint64_t      model[LANES], olds[LANES], y[LANES], z[LANES];
    char          body[2048];
    for (unsigned int l = 0; l < LANES; l++) {
        model[l] = interesting(f->kind, f->bytes);
        y[l] = draw() % 3 && f->operation[0] == 'c' ? model[l >> shared_by] : interesting(f->kind, f->bytes);
        z[l] = interesting(f->kind, f->bytes);
        memcpy(words + l * f->bytes, &model[l], f->bytes);
        memcpy(operands + l * f->bytes, &y[l], f->bytes);
        memcpy(operands + (LANES + l) * f->bytes, &z[l], f->bytes);
    }
    for (unsigned int l = 0; l < LANES; l++) { /* one lane after the other */
        uint64_t *word = &model[l >> shared_by];
        olds[l] = *word;
        *word = reference(f->operation, f->kind, f->bytes, global, *word, y[l], z[l]);
    }
    uint64_t a = buffer(words, f->bytes * LANES), b = buffer(operands, 2 * f->bytes * LANES);
    uint64_t c = buffer(words, f->bytes * LANES);
    write_body(body, sizeof body, f, global, red, shared_by);
    run_well(body, 1, LANES, a, b, c);
    emu_read(back, a, f->bytes * LANES);
    emu_read(old, c, f->bytes * LANES);
    for (unsigned int l = 0; l < LANES; l++) {
        if (memcmp(back + l * f->bytes, &model[l], f->bytes) ||
            (!red && memcmp(old + l * f->bytes, &olds[l], f->bytes)))
            fail_msg("lane %u of %s", l, body);
    }
    emu_machine(90);
    emu_test_settings.host_threads = 2;
}

TEST(every_operation)
{
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        for (unsigned int way = 0; way < 12; way++) {
            bool red = way >= 6;
            if (!red || forms[i].operation[0] == 'a' || forms[i].operation[0] == 'm' ||
                forms[i].operation[0] == 'x')
                check_form(&forms[i], way & 1, red, way % 6 / 2 == 0 ? 0 : way % 6 / 2 == 1 ? 2 : 5);
        }
}

/* ---- halves and vectors ----------------------------------------------------------------------------- */
static double of_half(uint32_t h)
{
    int    e = h >> 10 & 31, f = h & 1023;
    double v = e == 31 ? (f ? NAN : INFINITY) : e ? ldexp(1024 + f, e - 25) : ldexp(f, -24);
    return h & 0x8000 ? -v : v;
}

static double of_bhalf(uint32_t h)
{
    uint32_t bits = h << 16;
    float    f;
    memcpy(&f, &bits, 4);
    return f;
}

/* Whether the code is the nearest of all 65536 codes, or the even one of two. */
static bool is_nearest(double (*value)(uint32_t), uint32_t code, double wanted)
{
    double got = value(code), low = value(code - 1), high = value(code + 1);
    if (isnan(wanted))
        return code == 0x7fff;
    if (isinf(got))
        /* beyond the largest: rounded to infinity */
        return isinf(wanted) || fabs(wanted) > fabs(value(code - 1));
    if (got == wanted)
        return true;
    double mine = fabs(got - wanted),
           other = fmin((code & 0x7fff) ? fabs(low - wanted) : INFINITY, fabs(high - wanted));
    return mine < other || (mine == other && !(code & 1));
}

TEST(halves)
{
    static const struct {
        const char  *type, *reg;
        bool         bfloat;
        unsigned int count;
    } types[] = {{"f16", "%h", false, 1},
                 {"bf16", "%h", true, 1},
                 {"f16x2", "%r", false, 2},
                 {"bf16x2", "%r", true, 2}};
    char body[1024];
    for (int round = 0; round < 80; round++) {
        size_t       t = (size_t)round % 4;
        unsigned int bytes = 2 * types[t].count;
        uint16_t     x[64], y[64], sum[64], old[64];
        for (int i = 0; i < 64; i++) {
            x[i] = (uint16_t)draw();
            y[i] = (uint16_t)(draw() % 4 ? (x[i] ^ draw() % 4096) : draw());
        }
        uint64_t a = buffer(x, bytes * LANES), b = buffer(y, bytes * LANES), c = buffer(x, bytes * LANES);
        snprintf(body, sizeof body,
                 "mul.wide.u32 %%d3, %%r0, %u; add.u64 %%d5, %%d0, %%d3; add.u64 %%d6, %%d1, %%d3; add.u64 "
                 "%%d7, %%d2, %%d3;\n"
                 "ld.global.b%u %s1, [%%d6]; atom.global.add.noftz.%s %s2, [%%d5], %s1; st.global.b%u "
                 "[%%d7], %s2;",
                 bytes, 8 * bytes, types[t].reg, types[t].type, types[t].reg, types[t].reg, 8 * bytes,
                 types[t].reg);
        run_well(body, 1, LANES, a, b, c);
        emu_read(sum, a, bytes * LANES);
        emu_read(old, c, bytes * LANES);
        assert_memory_equal(old, x, bytes * LANES);
        double (*value)(uint32_t) = types[t].bfloat ? of_bhalf : of_half;
        for (unsigned int i = 0; i < LANES * types[t].count; i++)
            if (!is_nearest(value, sum[i], value(x[i]) + value(y[i])))
                fail_msg("%s: %04x + %04x = %04x", types[t].type, x[i], y[i], sum[i]);
        emu_machine(90);
    }
}

TEST(vectors)
{
    float    x[4 * LANES], y[4 * LANES], old[4 * LANES], sum[4 * LANES];
    uint16_t h[8 * LANES], g[8 * LANES], low[8 * LANES];
    for (int i = 0; i < 4 * LANES; i++) {
        x[i] = (float)(int32_t)draw() / 1024;
        y[i] = (float)(int32_t)draw() / 2048;
    }
    uint64_t a = buffer(x, sizeof x), b = buffer(y, sizeof y), c = buffer(x, sizeof x);
    run_well("mul.wide.u32 %d3, %r0, 16; add.u64 %d5, %d0, %d3; add.u64 %d6, %d1, %d3; add.u64 %d7, %d2, %d3;\n"
             "ld.global.v4.f32 {%f1,%f2,%f3,%f4}, [%d6]; atom.global.add.v2.f32 {%f5,%f6}, [%d5], {%f1,%f2};\n"
             "atom.global.gpu.add.v2.f32 {%f7,%f8}, [%d5+8], {%f3,%f4}; st.global.v4.f32 [%d7], "
             "{%f5,%f6,%f7,%f8};\n"
             "red.global.add.v4.f32 [%d5], {%f1,%f2,%f3,%f4};",
             1, LANES, a, b, c);
    emu_read(sum, a, sizeof sum);
    emu_read(old, c, sizeof old);
    assert_memory_equal(old, x, sizeof x);
    for (int i = 0; i < 4 * LANES; i++)
        assert_true(sum[i] == (x[i] + y[i]) + y[i]);
    for (int i = 0; i < 8 * LANES; i++) {
        h[i] = (uint16_t)(draw() % 0x7c00 | (draw() & 0x8000));
        g[i] = (uint16_t)(draw() % 0x7c00 | (draw() & 0x8000));
    }
    a = buffer(h, sizeof h);
    b = buffer(g, sizeof g);
    run_well("mul.wide.u32 %d3, %r0, 16; add.u64 %d5, %d0, %d3; add.u64 %d6, %d1, %d3;\n"
             "ld.global.v4.b32 {%r1,%r2,%r3,%r4}, [%d6]; ld.global.v4.b16 {%h1,%h2,%h3,%h4}, [%d6+8];\n"
             "red.global.min.noftz.v2.f16x2 [%d5], {%r1,%r2}; red.global.min.noftz.v4.f16 [%d5+8], "
             "{%h1,%h2,%h3,%h4};",
             1, LANES, a, b, c);
    emu_read(low, a, sizeof low);
    for (int i = 0; i < 8 * LANES; i++)
        assert_true(of_half(low[i]) == fmin(of_half(h[i]), of_half(g[i])));
}

/* 128 bits: in a chain of exchanges every lane gets the value of the lane before it. */
TEST(wide_ones)
{
    uint64_t word[2] = {draw(), draw()}, mine[2 * LANES], old[2 * LANES], now[2];
    for (int i = 0; i < 2 * LANES; i++)
        mine[i] = draw();
    uint64_t a = buffer(word, 16), b = buffer(mine, sizeof mine), c = buffer(mine, sizeof mine);
    run_well("mul.wide.u32 %d3, %r0, 16; add.u64 %d6, %d1, %d3; add.u64 %d7, %d2, %d3; ld.global.b128 %q1, "
             "[%d6];\n"
             "atom.global.exch.b128 %q2, [%d0], %q1; st.global.b128 [%d7], %q2;",
             1, LANES, a, b, c);
    emu_read(old, c, sizeof old);
    emu_read(now, a, 16);
    assert_memory_equal(old, word, 16);
    assert_memory_equal(old + 2, mine, sizeof mine - 16);
    assert_memory_equal(now, mine + 2 * LANES - 2, 16);
    /* every lane compares with lane 5's value: all lanes but the first find the new value */
    emu_write(a, mine + 10, 16);
    run_well(
        "mul.wide.u32 %d3, %r0, 16; add.u64 %d6, %d1, %d3; add.u64 %d7, %d2, %d3; ld.global.b128 %q1, "
        "[%d6];\n"
        "ld.global.b128 %q3, [%d1+80]; atom.global.cas.b128 %q2, [%d0], %q3, %q1; st.global.b128 [%d7], %q2;",
        1, LANES, a, b, c);
    emu_read(old, c, sizeof old);
    assert_memory_equal(old, mine + 10, 16);
    for (int l = 1; l < LANES; l++)
        assert_memory_equal(old + 2 * l, mine, 16);
}

/* ---- threads ---------------------------------------------------------------------------------------- */
TEST(blocks_count_together)
{
    enum { BLOCKS = 64, THREADS = 128, ALL = BLOCKS * THREADS };
    static uint32_t tickets[ALL];
    static bool     seen[ALL];
    uint64_t        zero[4] = {0}, back[4];
    uint64_t        a = buffer(zero, sizeof zero), b = emu_buffer(sizeof tickets);
    run_well(
        "mov.u32 %r1, %ctaid.x; mad.lo.u32 %r1, %r1, 128, %r0; mul.wide.u32 %d3, %r1, 4; add.u64 %d4, %d1, "
        "%d3;\n"
        "atom.global.add.u32 %r2, [%d0], 1; st.global.u32 [%d4], %r2; mov.f32 %f1, 0f3f800000;\n"
        "red.relaxed.gpu.global.add.f32 [%d0+4], %f1; atom.acq_rel.gpu.global.inc.u32 %r3, [%d0+8], 1000;\n"
        "cvt.u64.u32 %d5, %r1; red.global.max.u64 [%d0+16], %d5; red.release.sys.global.xor.b64 [%d0+24], "
        "%d5;",
        BLOCKS, THREADS, a, b, b);
    emu_read(tickets, b, sizeof tickets);
    emu_read(back, a, sizeof back);
    for (int i = 0; i < ALL; i++) {
        assert_true(tickets[i] < ALL && !seen[tickets[i]]);
        seen[tickets[i]] = true;
    }
    uint32_t sum;
    float    wanted = ALL;
    memcpy(&sum, &wanted, 4);
    assert_int_equal(back[0], (uint64_t)sum << 32 | ALL);
    assert_int_equal(back[1], ALL % 1001);
    assert_int_equal(back[2], ALL - 1);
    assert_int_equal(back[3], 0); /* the exclusive or of 0 .. 2^k - 1 */
}

int main(void)
{
    print_message("seed %llu\n", (unsigned long long)seed);
    return unit_run(NULL, NULL);
}
