/* tensor.c - compares sums of products with a model in doubles, and fragments with the table of atoms. */
#include <stdio.h>
#include <string.h>
#include <math.h>

#include "host/atom/atom.h"
#include "tests/support/unit.h"
#include "tests/support/random_fixture.h"
#include "tools/emu/tensor/tensor.h"
#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

/* ---- numbers, computed with ldexp ---------------------------------------------------------------------- */
struct kind {
    enum tensor_type type;
    int              exponent_bits, fraction_bits;
    bool             infinite;
};
static const struct kind kinds[] = {
    {TENSOR_f16, 5, 10, true},  {TENSOR_bf16, 8, 7, true}, {TENSOR_tf32, 8, 10, true},
    {TENSOR_e4m3, 4, 3, false}, {TENSOR_e5m2, 5, 2, true}, {TENSOR_f32, 8, 23, true},
};

static const struct kind *kind_of(enum tensor_type type)
{
    size_t i = 0;
    while (kinds[i].type != type)
        i++;
    return &kinds[i];
}

/* The value, and the exponent that the hardware uses: that of the exponent field, also for subnormal
 * numbers. */
static double value_of(enum tensor_type type, uint32_t bits, int *exponent)
{
    const struct kind *k = kind_of(type);
    bits >>= type == TENSOR_tf32 ? 13 : 0;
    int    top = (1 << k->exponent_bits) - 1, e = (int)(bits >> k->fraction_bits) & top;
    int    fraction = (int)(bits & ((1u << k->fraction_bits) - 1)), bias = top / 2;
    double sign = bits >> (k->exponent_bits + k->fraction_bits) & 1 ? -1 : 1;
    *exponent = (e == 0 ? 1 : e) - bias;
    if (e == top && (k->infinite || fraction == (1 << k->fraction_bits) - 1))
        return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
    return sign * ldexp((e == 0 ? 0 : 1 << k->fraction_bits) + fraction, *exponent - k->fraction_bits);
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Rounds toward zero with so many fraction bits. */
static uint32_t round_f32(double x, int kept)
{
    int e;
    if (isinf(x))
        return x < 0 ? 0xff800000 : 0x7f800000;
    if (x == 0)
        return 0;
    frexp(x, &e);
    int    quantum = (e - 1 < -126 ? -126 : e - 1) - kept;
    double cut = ldexp(trunc(ldexp(x, -quantum)), quantum);
    return cut == 0 ? 0 : bits_of((float)cut);
}

/* Rounds to the nearest number, or to the even one of two. */
static uint32_t round_f16(double x)
{
    uint32_t low = 0, high = 0x7c00;
    int      e;
    while (high - low > 1) { /* low <= |x| < high, as numbers */
        uint32_t middle = (low + high) / 2;
        if (value_of(TENSOR_f16, middle, &e) <= fabs(x))
            low = middle;
        else
            high = middle;
    }
    double below_it = value_of(TENSOR_f16, low, &e),
           above = high == 0x7c00 ? 65536 : value_of(TENSOR_f16, high, &e);
    double   to_low = fabs(x) - below_it, to_high = above - fabs(x);
    uint32_t bits = to_low < to_high || (to_low == to_high && low % 2 == 0) ? low : high;
    return bits == 0 ? 0 : bits | (x < 0 ? 0x8000u : 0);
}

/* Computes one step: all terms are cut to a multiple at the largest exponent, and added. */
static uint32_t step(const struct tensor_product *p, int terms, const uint32_t *a, const uint32_t *b,
                     uint32_t c)
{
    double sum, product[64];
    int    top = TENSOR_FLOOR, ea, eb, ec, exponent[64];
    double plain = value_of(p->c, c, &ec), addend = plain;
    if (addend != 0 && ec > top)
        top = ec;
    for (int i = 0; i < terms; i++) {
        product[i] = value_of(p->a, a[i], &ea) * value_of(p->b, b[i], &eb);
        exponent[i] = ea + eb;
        plain += product[i];
        if (product[i] != 0 && exponent[i] > top)
            top = exponent[i];
    }
    if (isnan(plain))
        return p->c == TENSOR_f16 ? 0x7fff : 0x7fffffff;
    if (isinf(plain))
        return (p->c == TENSOR_f16 ? 0x7c00u : 0x7f800000u) |
               (plain < 0 ? p->c == TENSOR_f16 ? 0x8000u : 0x80000000u : 0);
    int quantum = top - p->rule.fraction;
    sum = trunc(ldexp(addend, -quantum));
    for (int i = 0; i < terms; i++)
        sum += trunc(ldexp(product[i], -quantum));
    return p->c == TENSOR_f16 ? round_f16(ldexp(sum, quantum)) : round_f32(ldexp(sum, quantum), p->rule.kept);
}

/* ---- random matrices ----------------------------------------------------------------------------------- */
/* Draws numbers of every size, near one, the smallest, the largest, zeros, infinities and NaNs. */
static uint32_t draw(enum tensor_type type, int mood)
{
    const struct kind *k = kind_of(type);
    int                top = (1 << k->exponent_bits) - 1, bias = top / 2, e = below(top);
    uint32_t           fraction = (uint32_t)random_bits() & ((1u << k->fraction_bits) - 1);
    e = mood == 1 ? bias - 2 + below(5) : mood == 2 ? below(3) : mood == 3 ? top - 1 - below(3) : e;
    if (mood == 4 && below(2) == 0)
        e = 0, fraction = 0;
    if (mood == 5 && below(24) == 0)
        e = top, fraction = below(2) ? 0 : fraction;
    uint32_t bits = (uint32_t)below(2) << (k->exponent_bits + k->fraction_bits) |
                    (uint32_t)e << k->fraction_bits | fraction;
    return type == TENSOR_tf32 ? bits << 13 | (uint32_t)below(1 << 13) : bits;
}

static void compare(const struct tensor_product *p, int mood)
{
    static uint32_t a[32 * 64], b[64 * 64], c[32 * 64], d[32 * 64];
    for (int i = 0; i < p->m * p->k; i++)
        a[i] = draw(p->a, mood);
    for (int i = 0; i < p->k * p->n; i++)
        b[i] = draw(p->b, mood);
    for (int i = 0; i < p->m * p->n; i++)
        c[i] = d[i] = draw(p->c, below(3) ? mood : below(6));
    tensor_multiply(p, a, b, d);
    for (int i = 0; i < p->m * p->n; i++) {
        uint32_t column[64], wanted = c[i];
        for (int k = 0; k < p->k; k++)
            column[k] = b[k * p->n + i % p->n];
        for (int k = 0; k < p->k; k += p->rule.terms)
            wanted = step(p, p->k - k < p->rule.terms ? p->k - k : p->rule.terms, a + i / p->n * p->k + k,
                          column + k, wanted);
        if (d[i] != wanted)
            fail_msg("%s %s %s terms %d fraction %d mood %d, c %08x: %08x, not %08x", tensor_type_name(p->a),
                     tensor_type_name(p->b), tensor_type_name(p->c), p->rule.terms, p->rule.fraction, mood,
                     c[i], d[i], wanted);
    }
}

TEST(sums_are_as_the_rule_says)
{
    static const struct {
        enum tensor_type a, b;
        int              k;
    } pairs[] = {{TENSOR_f16, TENSOR_f16, 16},  {TENSOR_f16, TENSOR_f16, 8},    {TENSOR_bf16, TENSOR_bf16, 16},
                 {TENSOR_tf32, TENSOR_tf32, 8}, {TENSOR_e4m3, TENSOR_e5m2, 32}, {TENSOR_e5m2, TENSOR_e5m2, 32},
                 {TENSOR_e4m3, TENSOR_e4m3, 32}};
    static const struct tensor_rule rules[] = {{TENSOR_FUSED, 16, 25, 23}, {TENSOR_FUSED, 8, 24, 23},
                                               {TENSOR_FUSED, 4, 24, 23},  {TENSOR_FUSED, 32, 13, 13},
                                               {TENSOR_FUSED, 16, 13, 13}, {TENSOR_FUSED, 32, 25, 23}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++)
            for (int round = 0; round < 24; round++) {
                bool fp8 = pairs[i].a == TENSOR_e4m3 || pairs[i].a == TENSOR_e5m2;
                if (rules[r].fraction == 13 && !fp8)
                    continue;
                struct tensor_product p = {.m = round % 3 == 0   ? 32
                                                : round % 3 == 1 ? 16
                                                                 : 8,
                                           .n = 8 << round % 2,
                                           .k = pairs[i].k,
                                           .a = pairs[i].a,
                                           .b = pairs[i].b,
                                           .rule = rules[r]};
                p.c = p.a != TENSOR_bf16 && p.a != TENSOR_tf32 && round % 2 ? TENSOR_f16 : TENSOR_f32;
                compare(&p, round / 2 % 6);
            }
}

/* Results that are known without a model. */
TEST(plain_cases_hold)
{
    struct tensor_product p = {.m = 8, .n = 8, .k = 8, .a = TENSOR_f16, .b = TENSOR_f16, .c = TENSOR_f32};
    uint32_t              a[64], b[64], c[64];
    p.rule = tensor_rule_of(90, TENSOR_MMA, p.a, 16, 8);
    for (int i = 0; i < 64; i++) {
        a[i] = 0x3c00;     /* 1 */
        b[i] = 0x4000;     /* 2 */
        c[i] = 0x3f800000; /* 1 */
    }
    tensor_multiply(&p, a, b, c);
    for (int i = 0; i < 64; i++)
        assert_int_equal(c[i], 0x41880000); /* 17 */
    a[0] = 0x7c00;                          /* infinity, in row 0 */
    b[1] = 0;                               /* it meets 0 in column 1 */
    c[2] = 0xff800000;                      /* and -infinity in column 2 */
    tensor_multiply(&p, a, b, c);
    assert_int_equal(c[0], 0x7f800000);
    assert_int_equal(c[1], 0x7fffffff);
    assert_int_equal(c[2], 0x7fffffff);
    assert_int_equal(c[8], 0x42040000); /* 33 */
    for (int i = 0; i < 64; i++) {      /* a b + c = 0: +0 */
        a[i] = i % 8 == 0 ? 0x3c00 : 0x8000;
        b[i] = 0x4000;
        c[i] = 0xc0000000;
    }
    tensor_multiply(&p, a, b, c);
    for (int i = 0; i < 64; i++)
        assert_int_equal(c[i], 0);
}

TEST(conversions_are_exact)
{
    int e;
    for (uint32_t i = 0; i < 256; i++) {
        double x = value_of(TENSOR_e4m3, i, &e), y = value_of(TENSOR_e5m2, i, &e);
        assert_true(isnan(x) ? (tensor_f16_of_e4m3(i) & 0x7c00) == 0x7c00
                             : value_of(TENSOR_f16, tensor_f16_of_e4m3(i), &e) == x);
        assert_true(isnan(y) ? isnan(tensor_double_of_f16(tensor_f16_of_e5m2(i)))
                             : value_of(TENSOR_f16, tensor_f16_of_e5m2(i), &e) == y);
    }
    for (uint32_t i = 0; i < 65536; i++) {
        double x = value_of(TENSOR_f16, i, &e), y = tensor_double_of_f16(i);
        assert_true(isnan(x) ? isnan(y) : x == y && signbit(x) == signbit(y));
        assert_int_equal(tensor_f16_of_double(x), isnan(x) ? 0x7fff : i);
        for (int j = 0; j < 4 && !isnan(x); j++) {
            double   near = x * (1 + ldexp(below(2001) - 1000, -20));
            uint32_t wanted = isinf(near) ? i : round_f16(near);
            assert_int_equal(tensor_f16_of_double(near) & (wanted == 0 ? 0x7fff : 0xffff), wanted);
        }
    }
}

/* ---- integers and bits --------------------------------------------------------------------------------- */
static int64_t integer_of(enum tensor_type type, uint32_t bits)
{
    return type == TENSOR_s8 ? (int8_t)bits : type == TENSOR_s4 ? (int64_t)(bits ^ 8) - 8 : (int64_t)bits;
}

TEST(integers_are_exact)
{
    static const enum tensor_type types[] = {TENSOR_s8, TENSOR_u8, TENSOR_s4, TENSOR_u4};
    static uint32_t               a[16 * 64], b[64 * 16], c[256], d[256];
    for (int round = 0; round < 64; round++) {
        struct tensor_product p = {.m = 16,
                                   .n = 16,
                                   .k = 32 << round % 2,
                                   .c = TENSOR_s32,
                                   .saturates = round % 3 == 0};
        p.a = types[round / 4 % 2 * 2 + round % 2];
        p.b = types[round / 4 % 2 * 2 + round / 2 % 2];
        for (int i = 0; i < 16 * p.k; i++) {
            a[i] = (uint32_t)random_bits() & ((1u << tensor_type_bits(p.a)) - 1);
            b[i] = (uint32_t)random_bits() & ((1u << tensor_type_bits(p.b)) - 1);
        }
        for (int i = 0; i < 256; i++)
            c[i] = d[i] = (uint32_t)(below(3) ? random_bits() : below(2) ? 0x7fffff00 : 0x80000010);
        tensor_multiply(&p, a, b, d);
        for (int i = 0; i < 256; i++) {
            int64_t sum = (int32_t)c[i];
            for (int k = 0; k < p.k; k++)
                sum += integer_of(p.a, a[i / 16 * p.k + k]) * integer_of(p.b, b[k * 16 + i % 16]);
            if (p.saturates)
                sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
            assert_int_equal(d[i], (uint32_t)sum);
        }
    }
}

TEST(bits_are_counted)
{
    uint32_t a[16 * 8], b[8 * 8], c[128] = {0};
    for (int i = 0; i < 128; i++)
        a[i] = (uint32_t)random_bits();
    for (int i = 0; i < 64; i++)
        b[i] = (uint32_t)random_bits();
    for (int both = 0; both < 2; both++) {
        struct tensor_product p = {.m = 16,
                                   .n = 8,
                                   .k = 256,
                                   .a = TENSOR_b1,
                                   .b = TENSOR_b1,
                                   .c = TENSOR_s32,
                                   .bits = both ? TENSOR_AND : TENSOR_XOR};
        memset(c, 0, sizeof c);
        tensor_multiply(&p, a, b, c);
        for (int i = 0; i < 128; i++) {
            uint32_t count = 0;
            for (int k = 0; k < 256; k++) {
                uint32_t x = a[i / 8 * 8 + k / 32] >> k % 32 & 1, y = b[k / 32 * 8 + i % 8] >> k % 32 & 1;
                count += both ? x & y : x ^ y;
            }
            assert_int_equal(c[i], count);
        }
    }
}

/* ---- fragments ----------------------------------------------------------------------------------------- */
enum { MOST_REGISTERS = 128, FILE_ROWS = 2 * MOST_REGISTERS };
static uint32_t        file[FILE_ROWS][32];
static emu_reg         registers[MOST_REGISTERS];
static struct emu_warp warp;

static void open_file(bool wide)
{
    warp.bank[EMU_BANK_FRAME] = (unsigned char *)file;
    for (uint32_t i = 0; i < MOST_REGISTERS; i++)
        registers[i] = wide ? 2 * i : i;
    memset(file, 0, sizeof file);
}

/* Writes value v of a thread to its registers. */
static void put(int lane, int v, unsigned int bits, uint32_t x)
{
    unsigned int at = (unsigned int)v * bits;
    if (bits == 64)
        emu_r64(&warp, registers[v])[lane] = x;
    else
        file[at / 32][lane] |= x << at % 32;
}

typedef void gather(const struct emu_warp *w, const emu_reg *reg, const struct tensor_fragment *f,
                    uint32_t *out);
typedef void gather64(const struct emu_warp *w, const emu_reg *reg, int rows, int columns, uint64_t *out);
typedef void scatter(struct emu_warp *w, const emu_reg *reg, const struct tensor_fragment *f,
                     const uint32_t *in);

/* Compares the codes with the layout of the table: element (row, column) of the layout counts `rows` first.
 * `across`: the table has the matrix transposed (B as N x K). */
static void compare_layout(const char *name, const ptxpack_layout *layout, int first_thread, int rows,
                           int columns, unsigned int bits, bool across, gather *of32, scatter *back,
                           gather64 *of64)
{
    static uint32_t out[64 * 256], before[FILE_ROWS][32];
    static uint64_t wide[64 * 64];
    int             threads = (int)ptxpack_mode_size(layout, 0), values = (int)ptxpack_mode_size(layout, 1);
    uint32_t        mask = bits >= 32 ? 0xffffffff : (1u << bits) - 1;
    const struct tensor_fragment f = {across ? columns : rows, across ? rows : columns, bits};
    open_file(bits == 64);
    for (int t = 0; t < 32; t++)
        for (int v = 0; v < values; v++)
            put(t, v, bits,
                ((uint32_t)ptxpack_at(layout, (first_thread + t) + threads * v) * 0x9e3779b1u >> 7) & mask);
    memcpy(before, file, sizeof file);
    if (of64 != NULL)
        of64(&warp, registers, f.rows, f.columns, wide);
    else
        of32(&warp, registers, &f, out);
    for (int i = 0; i < rows * columns && of64 != NULL; i++)
        out[i] = (uint32_t)wide[i];
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++) {
            int      row = first_thread / 32 * 16 + r, all_rows = (int)ptxpack_size(layout) / columns;
            uint32_t wanted = ((uint32_t)(row + all_rows * c) * 0x9e3779b1u >> 7) & mask;
            uint32_t got = across ? out[c * rows + r] : out[r * columns + c];
            if (got != wanted)
                fail_msg("%s: element (%d,%d) is %x, not %x", name, r, c, got, wanted);
        }
    if (of64 != NULL)
        return;
    memset(file, 0, sizeof file);
    back(&warp, registers, &f, out);
    assert_memory_equal(file, before, sizeof file);
}

TEST(fragments_are_as_in_the_table)
{
    int              compared = 0;
    ptxpack_mma_atom x;
    for (size_t i = 0; ptxpack_mma_atom_at(i, &x); i++) {
        if (strncmp(x.ptx, "mma.sync", 8) != 0 || x.arch > 90 || ptxpack_size(&x.thr_id) != 32 ||
            x.instructions != 1)
            continue;
        bool         b1 = x.a == PTXPACK_VALUE_U1, f64 = x.a == PTXPACK_VALUE_F64;
        unsigned int a_bits = (unsigned int)ptxpack_value_bits(x.a),
                     c_bits = (unsigned int)ptxpack_value_bits(x.c);
        if (!b1) { /* words of b1 use the same formulas with K / 32 */
            compare_layout(x.name, &x.a_layout, 0, x.m, x.k, a_bits, false, tensor_gather_a, tensor_scatter_a,
                           f64 ? tensor_gather_a64 : NULL);
            compare_layout(x.name, &x.b_layout, 0, x.n, x.k, a_bits, true, tensor_gather_b, tensor_scatter_b,
                           f64 ? tensor_gather_b64 : NULL);
        }
        compare_layout(x.name, &x.c_layout, 0, x.m, x.n, c_bits, false, tensor_gather_c, tensor_scatter_c,
                       f64 ? tensor_gather_c64 : NULL);
        compared++;
    }
    printf("%d atoms of mma.sync\n", compared);
    assert_true(compared > 60);
}

TEST(fragments_of_warpgroups_are_as_in_the_table)
{
    int              compared = 0;
    ptxpack_mma_atom x;
    for (size_t i = 0; ptxpack_mma_atom_at(i, &x); i++) {
        if (strncmp(x.ptx, "wgmma", 5) != 0 || x.n > 64)
            continue;
        unsigned int a_bits = (unsigned int)ptxpack_value_bits(x.a),
                     c_bits = (unsigned int)ptxpack_value_bits(x.c);
        for (int thread = 0; thread < 128; thread += 32) {
            if (!x.a_shared)
                compare_layout(x.name, &x.a_layout, thread, 16, x.k, a_bits, false, tensor_gather_a,
                               tensor_scatter_a, NULL);
            compare_layout(x.name, &x.c_layout, thread, 16, x.n, c_bits, false, tensor_gather_c,
                           tensor_scatter_c, NULL);
        }
        compared++;
    }
    printf("%d atoms of wgmma\n", compared);
    assert_true(compared > 100);
}

TEST(fragments_of_quad_pairs_are_as_in_the_table)
{
    ptxpack_mma_atom x;
    int              compared = 0;
    for (size_t i = 0; ptxpack_mma_atom_at(i, &x); i++) {
        if (strncmp(x.name, "SM70_", 5) != 0)
            continue;
        uint32_t     out[64];
        unsigned int bits = (unsigned int)ptxpack_value_bits(x.c);
        for (int which = 0; which < 3; which++) {
            const ptxpack_layout *layout = which == 0 ? &x.a_layout : which == 1 ? &x.b_layout : &x.c_layout;
            open_file(false);
            for (int t = 0; t < 8; t++)
                for (int v = 0; v < (int)ptxpack_mode_size(layout, 1); v++)
                    put(8 + (int)ptxpack_at(&x.thr_id, t), v, which == 2 ? bits : 16,
                        100 + (uint32_t)ptxpack_at(layout, t + 8 * v));
            if (which == 0)
                tensor_gather_quad_a(&warp, registers, 2, x.a_major == 'K', out);
            else if (which == 1)
                tensor_gather_quad_b(&warp, registers, 2, x.b_major == 'K', out);
            else
                tensor_gather_quad_c(&warp, registers, 2, bits, out);
            for (int r = 0; r < 8; r++)
                for (int c = 0; c < (which == 2 ? 8 : 4); c++)
                    assert_int_equal(which == 1 ? out[c * 8 + r] : out[r * (which == 2 ? 8 : 4) + c],
                                     100 + r + 8 * c);
            if (which != 2)
                continue;
            uint32_t before[FILE_ROWS][32];
            memcpy(before, file, sizeof file);
            memset(file, 0, sizeof file);
            tensor_scatter_quad_c(&warp, registers, 2, bits, out);
            assert_memory_equal(file, before, sizeof file);
        }
        compared++;
    }
    assert_int_equal(compared, 8);
}

RUN_TESTS(print_seed, NULL)
