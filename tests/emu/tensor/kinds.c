/* kinds.c - mma.sync with .kind, with and without block scaling, against a model in doubles that is written from the
 * PTX ISA: formats, bytes with padding, fragments, and which lane and byte holds which factor. */
#include <math.h>
#include "tests/support/emu_test.h"
#include "tests/support/random_fixture.h"
#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

enum { M = 16, N = 8, K = 64, LANES = 32, WORDS = 16, A = 0, B = 4, C = 6, SCALES = 10, SELECTORS = 12 };

/* ---- formats --------------------------------------------------------------------------------------------- */
struct format {
    const char *name;
    int         exponent, fraction, bias, bits;
};
static const struct format formats[] = {
    {"e4m3", 4, 3, 7, 8}, {"e5m2", 5, 2, 15, 8}, {"e3m2", 3, 2, 3, 6},
    {"e2m3", 2, 3, 1, 6}, {"e2m1", 2, 1, 1, 4},  {"f16", 5, 10, 15, 16},
};
enum { E4M3, E5M2, E3M2, E2M3, E2M1, FORMATS, F16 = FORMATS };

static double number(const struct format *f, unsigned int code)
{
    const int      e = (int)(code >> f->fraction) & ((1 << f->exponent) - 1);
    const unsigned m = code & ((1u << f->fraction) - 1);
    double         x = ldexp(m, 1 - f->bias - f->fraction);
    if (e != 0)
        x = ldexp(m + (1u << f->fraction), e - f->bias - f->fraction);
    if (f->exponent == 5 && e == 31)
        x = m == 0 ? (double)INFINITY : (double)NAN;
    if (f == &formats[E4M3] && (code & 0x7f) == 0x7f)
        x = (double)NAN;
    return code >> (f->bits - 1) & 1 ? -x : x;
}

/* The code of an integer below 2048. */
static uint32_t half_of(int value)
{
    int          e = 0;
    const double fraction = frexp(abs(value), &e); /* from 0.5 to 1 */
    return value == 0
               ? 0
               : (value < 0 ? 0x8000u : 0) | (uint32_t)(e + 14) << 10 | ((uint32_t)(fraction * 2048) & 0x3ff);
}

/* ue8m0, ue4m3 */
static double factor(bool ue4m3, unsigned int byte)
{
    if (ue4m3)
        return number(&formats[E4M3], byte & 0x7f);
    return byte == 0xff ? (double)NAN : ldexp(1, (int)byte - 127);
}

/* ---- a case ---------------------------------------------------------------------------------------------- */
struct form {
    const char *kind;
    int         k, a, b, vector;     /* vector: factors of a row of A, 0: none */
    bool        f16, ue4m3, unnamed; /* D and C; factors; .scale_vec is left out */
};
struct numbers {
    double a[M][K], b[K][N], c[M][N], a_scale[M][4], b_scale[4][N];
};
static struct numbers x;
static uint32_t       words[WORDS][LANES], answers[4][LANES];
static unsigned int   selector[4]; /* byte-id-a, thread-id-a, byte-id-b, thread-id-b */

/* What is drawn: small integers and powers of two, whose sums are exact, or any finite numbers. */
enum regime { EXACT, ANY };

static unsigned int draw_element(const struct format *f, enum regime regime)
{
    unsigned int code;
    double       value;
    do {
        code = (unsigned int)below(1 << f->bits);
        value = number(f, code);
    } while (!isfinite(value) || (regime == EXACT && (value != floor(value) || fabs(value) > 3)));
    return code;
}

static unsigned int draw_factor(bool ue4m3, enum regime regime)
{
    if (regime == EXACT) /* ue4m3: 1, 1.5, 2, 0.5 */
        return ue4m3 ? (unsigned int[]){0x38, 0x3c, 0x40, 0x30}[below(4)] : (unsigned int)(126 + below(3));
    return ue4m3 ? (unsigned int)below(0x7f) | (unsigned int)below(2) << 7 : (unsigned int)(117 + below(20));
}

/* Element i of register r of lane 4 g + q: row g or g + 8 (of B: column g), at the returned place along k. */
static int along_k(int per, int r, int q, int i) { return per * q + i + 4 * per * r; }

static void put(uint32_t *word, int bits, int i, const struct format *f, unsigned int code)
{
    const int shift = bits == 8 && f->bits == 4 ? 2 : 0;
    /* bits of the padding are random */
    const uint32_t place = (uint32_t)random_bits() & ((1u << bits) - 1);
    const uint32_t mask = ((1u << f->bits) - 1) << shift;
    *word |= ((place & ~mask) | code << shift) << (bits * i);
}

static void draw_matrices(const struct form *f, enum regime regime)
{
    const int bits = f->k == 64 ? 4 : 8, per = 32 / bits, deep = f->k / (4 * per);
    for (int l = 0; l < LANES; l++)
        for (int r = 0; r < 2 * deep; r++)
            for (int i = 0; i < per; i++) {
                const unsigned int code = draw_element(&formats[f->a], regime);
                put(&words[A + r][l], bits, i, &formats[f->a], code);
                x.a[l / 4 + 8 * (r % 2)][along_k(per, r / 2, l % 4, i)] = number(&formats[f->a], code);
            }
    for (int l = 0; l < LANES; l++)
        for (int r = 0; r < deep; r++)
            for (int i = 0; i < per; i++) {
                const unsigned int code = draw_element(&formats[f->b], regime);
                put(&words[B + r][l], bits, i, &formats[f->b], code);
                x.b[along_k(per, r, l % 4, i)][l / 4] = number(&formats[f->b], code);
            }
}

static void draw_c(const struct form *f, enum regime regime)
{
    for (int l = 0; l < LANES; l++)
        for (int i = 0; i < 4; i++) {
            const int   integer = below(201) - 100;
            const float value = regime == EXACT ? (float)integer
                                                : ldexpf((float)below(1 << 20), below(20) - 30);
            double     *c = &x.c[l / 4 + 8 * (i / 2)][2 * (l % 4) + i % 2];
            if (f->f16) {
                const uint32_t code = regime == EXACT ? half_of(integer) : (uint32_t)below(0x5800);
                words[C + i / 2][l] |= code << 16 * (i % 2);
                *c = number(&formats[F16], code);
            } else {
                memcpy(&words[C + i][l], &value, sizeof value);
                *c = (double)value;
            }
        }
}

/* Every byte that is not selected is random. */
static void draw_factors(const struct form *f, enum regime regime)
{
    for (int m = 0; m < M; m++)
        for (int v = 0; v < 4; v++)
            x.a_scale[m][v] = x.b_scale[v][m / 2] = 1;
    for (int l = 0; l < LANES; l++)
        for (int i = 0; i < 2; i++)
            words[SCALES + i][l] = (uint32_t)random_bits();
    for (int v = 0; v < f->vector; v++) {
        for (int m = 0; m < M; m++) {
            const unsigned int byte = draw_factor(f->ue4m3, regime), at = 8 * (selector[0] + (unsigned int)v);
            uint32_t          *word = &words[SCALES][4 * (m % 8) + 2 * (int)selector[1] + m / 8];
            *word = (*word & ~(0xffu << at)) | byte << at;
            x.a_scale[m][v] = factor(f->ue4m3, byte);
        }
        for (int n = 0; n < N; n++) {
            const unsigned int byte = draw_factor(f->ue4m3, regime), at = 8 * (selector[2] + (unsigned int)v);
            uint32_t          *word = &words[SCALES + 1][4 * n + (int)selector[3]];
            *word = (*word & ~(0xffu << at)) | byte << at;
            x.b_scale[v][n] = factor(f->ue4m3, byte);
        }
    }
}

static void draw(const struct form *f, enum regime regime)
{
    memset(words, 0, sizeof words);
    draw_matrices(f, regime);
    draw_c(f, regime);
    draw_factors(f, regime);
    for (int i = 0; i < 4; i++)
        for (int l = 0; l < LANES; l++)
            words[SELECTORS + i][l] = selector[i];
}

/* ---- the kernel ------------------------------------------------------------------------------------------ */
static void list(char *text, size_t cap, const char *name, int first, int count)
{
    size_t at = 0;
    for (int i = 0; i < count; i++)
        at += (size_t)snprintf(text + at, cap - at, "%s%%%s%d", i ? "," : "{", name, first + i);
    snprintf(text + at, cap - at, "}");
}

/* `constants`: the selectors are in the text; `extra`: lines in front of the instruction. */
static const char *kernel(const struct form *f, bool constants, const char *extra)
{
    static char text[8192];
    char        a[64], b[64], c[64], d[64], factors[160] = "", words_of_scaling[64] = "";
    const int   deep = f->k == 16 ? 1 : 2;
    list(a, sizeof a, "r", A, 2 * deep);
    list(b, sizeof b, "r", B, deep);
    list(c, sizeof c, "r", C, f->f16 ? 2 : 4);
    list(d, sizeof d, "d", 0, f->f16 ? 2 : 4);
    if (f->vector) {
        if (constants)
            snprintf(factors, sizeof factors, ", %%r10, {%u, %u}, %%r11, {%u, %u}", selector[0], selector[1],
                     selector[2], selector[3]);
        else
            snprintf(factors, sizeof factors, ", %%r10, {%%h0, %%h1}, %%r11, {%%h2, %%h3}");
        snprintf(words_of_scaling, sizeof words_of_scaling, ".block_scale");
        if (!f->unnamed)
            snprintf(words_of_scaling, sizeof words_of_scaling, ".block_scale.scale_vec::%dX", f->vector);
    }
    size_t at = (size_t)
        snprintf(text, sizeof text,
                 ".version 8.7\n.target sm_120a\n.address_size 64\n"
                 ".visible .entry k(.param .u64 in, .param .u64 out) {\n.reg .b64 %%i, %%o, %%x; "
                 ".reg .b32 %%t, %%r<%d>, %%d<4>; .reg .b16 %%h<4>;\nld.param.u64 %%i, [in]; "
                 "ld.param.u64 %%o, [out]; mov.u32 %%t, %%tid.x; mul.wide.u32 %%x, %%t, 4;\n"
                 "add.u64 %%i, %%i, %%x; add.u64 %%o, %%o, %%x;\n",
                 WORDS);
    for (int w = 0; w < WORDS; w++)
        at += (size_t)snprintf(text + at, sizeof text - at, "ld.global.b32 %%r%d, [%%i+%d];\n", w, 128 * w);
    for (int i = 0; i < 4; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "cvt.u16.u32 %%h%d, %%r%d; mov.b32 %%d%d, 0;\n", i,
                               SELECTORS + i, i);
    snprintf(text + at, sizeof text - at,
             "%s\nmma.sync.aligned.m16n8k%d.row.col.%s%s.%s.%s.%s.%s%s %s, %s, %s, %s%s;\nst.global.b32 [%%o], "
             "%%d0; "
             "st.global.b32 [%%o+128], %%d1; st.global.b32 [%%o+256], %%d2; st.global.b32 [%%o+384], "
             "%%d3;\nret;\n}\n",
             extra, f->k, f->kind, words_of_scaling, f->f16 ? "f16" : "f32", formats[f->a].name,
             formats[f->b].name, f->f16 ? "f16" : "f32",
             !f->vector ? ""
             : f->ue4m3 ? ".ue4m3"
                        : ".ue8m0",
             d, a, b, c, factors);
    return text;
}

static unsigned int run_on(int sm, const char *text)
{
    emu_machine(sm);
    const uint64_t from = emu_buffer(sizeof words), to = emu_buffer(sizeof answers), arguments[] = {from, to};
    emu_write(from, words, sizeof words);
    const unsigned int result = emu_run(text, "k", 1, LANES, 0, arguments, 2);
    if (result == 0)
        emu_read(answers, to, sizeof answers);
    return result;
}

static unsigned int run(const char *text) { return run_on(120, text); }

static double answer(const struct form *f, int m, int n)
{
    const int lane = 4 * (m % 8) + n / 2, i = 2 * (m / 8) + n % 2;
    float     wide;
    memcpy(&wide, &answers[i][lane], sizeof wide);
    return f->f16 ? number(&formats[F16], answers[i / 2][lane] >> 16 * (i % 2) & 0xffff) : (double)wide;
}

/* The exact sum of each element of D, and how far from it D may be: each of the terms and C may lose what is below
 * single precision of the largest, and the result is rounded. */
static void check(const struct form *f, enum regime regime)
{
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++) {
            double sum = x.c[m][n], largest = fabs(x.c[m][n]);
            for (int k = 0; k < f->k; k++) {
                const int    v = f->vector ? k * f->vector / f->k : 0;
                const double term = x.a[m][k] * x.a_scale[m][v] * x.b[k][n] * x.b_scale[v][n];
                sum += term;
                largest = fmax(largest, fabs(term));
            }
            const double got = answer(f, m, n),
                         allowed = (f->k + 1) * largest * 0x1p-24 + fabs(sum) * (f->f16 ? 0x1p-11 : 0x1p-23);
            const bool overflows = f->f16 && fabs(sum) + allowed >= 65520;
            if (regime == EXACT ? got != sum : !overflows && !(fabs(got - sum) <= allowed))
                fail_msg("%s %s %s k%d %dX: D(%d,%d) is %.10g, not %.10g", f->kind, formats[f->a].name,
                         formats[f->b].name, f->k, f->vector, m, n, got, sum);
        }
}

static void check_form(const struct form *f, bool constants)
{
    for (int regime = EXACT; regime <= ANY; regime++) {
        draw(f, (enum regime)regime);
        const unsigned int result = run(kernel(f, constants, ""));
        if (result != 0 || emu_log()[0] != '\0')
            fail_msg("%s: result %u: %s", f->kind, result, emu_log());
        check(f, (enum regime)regime);
    }
}

/* ---- tests ----------------------------------------------------------------------------------------------- */
TEST(all_pairs_of_types)
{
    memset(selector, 0, sizeof selector);
    for (int a = 0; a < FORMATS; a++)
        for (int b = 0; b < FORMATS; b++) {
            for (int f16 = 0; f16 < 2; f16++)
                check_form(&(struct form){.kind = "kind::f8f6f4", .k = 32, .a = a, .b = b, .f16 = f16}, false);
            check_form(&(struct form){.kind = "kind::mxf8f6f4", .k = 32, .a = a, .b = b, .vector = 1}, false);
            if (a <= E5M2 && b <= E5M2)
                check_form(&(struct form){.kind = "kind::f8f6f4", .k = 16, .a = a, .b = b}, false);
        }
}

static const struct form scaled[] = {
    {.kind = "kind::mxf8f6f4", .k = 32, .a = E4M3, .b = E2M1, .vector = 1},
    {.kind = "kind::mxf8f6f4", .k = 32, .a = E3M2, .b = E5M2, .vector = 1, .unnamed = true},
    {.kind = "kind::mxf4", .k = 64, .a = E2M1, .b = E2M1, .vector = 2},
    {.kind = "kind::mxf4", .k = 64, .a = E2M1, .b = E2M1, .vector = 2, .unnamed = true},
    {.kind = "kind::mxf4nvf4", .k = 64, .a = E2M1, .b = E2M1, .vector = 2},
    {.kind = "kind::mxf4nvf4", .k = 64, .a = E2M1, .b = E2M1, .vector = 4, .ue4m3 = true},
};
enum { SCALED = sizeof scaled / sizeof scaled[0], FIRST_OF_E2M1 = 2 };

TEST(every_selector_selects)
{
    int count = 0;
    for (size_t i = 0; i < SCALED; i++)
        for (unsigned int which = 0; which < 4 * 2 * 4 * 4; which++) {
            const unsigned int drawn[4] = {which & 3, which >> 2 & 1, which >> 3 & 3, which >> 5};
            if (drawn[0] % (unsigned int)scaled[i].vector || drawn[2] % (unsigned int)scaled[i].vector)
                continue;
            memcpy(selector, drawn, sizeof selector);
            check_form(&scaled[i], which % 2);
            count++;
        }
    assert_int_equal(count, 2 * 128 + 3 * 32 + 8);
}

TEST(wrong_selectors_are_faults)
{
    for (size_t i = 0; i < SCALED; i++)
        for (int s = 0; s < 4; s++)
            for (unsigned int value = 0; value < 6; value++) {
                const unsigned int most = s == 1 ? 1 : 3;
                memset(selector, 0, sizeof selector);
                selector[s] = value;
                if (value <= most && (s % 2 || value % (unsigned int)scaled[i].vector == 0))
                    continue;
                memset(words, 0, sizeof words);
                for (int l = 0; l < LANES; l++)
                    words[SELECTORS + s][l] = value;
                emu_must_end(run(kernel(&scaled[i], false, "")), 715, "which selects nothing", scaled[i].kind);
                emu_must_end(run(kernel(&scaled[i], true, "")), 218, "which selects nothing", scaled[i].kind);
            }
    memset(words, 0, sizeof words);
    words[SELECTORS + 3][17] = 1;
    emu_must_end(run(kernel(&scaled[0], false, "")), 715,
                 "thread-id-b is 1 in this thread and 0 in the first one", "selectors that differ");
}

/* A NaN or an infinity of an element, of C or of a factor reaches its row and column only. */
static void check_special(const struct form *f, int word, int lane, uint32_t bits, int row, int column,
                          double wanted)
{
    memset(selector, 0, sizeof selector);
    draw(f, EXACT);
    words[word][lane] = bits;
    assert_int_equal(run(kernel(f, false, "")), 0);
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++) {
            const double got = answer(f, m, n);
            const bool   here = (row < 0 || m == row) && (column < 0 || n == column);
            if (here ? (isnan(wanted) ? !isnan(got) : got != wanted) : !isfinite(got))
                fail_msg("%s: word %d: D(%d,%d) is %g", f->kind, word, m, n, got);
        }
}

TEST(infinities_and_nans)
{
    const double      none = (double)NAN;
    const struct form plain = {.kind = "kind::f8f6f4", .k = 32, .a = E4M3, .b = E5M2};
    check_special(&plain, A + 1, 9, 0x7f, 10, -1, none);
    check_special(&plain, B, 9, 0x7d, -1, 2, none);
    for (size_t i = 0; i < SCALED; i++) {
        const uint32_t nan = scaled[i].ue4m3 ? 0x7f7f7f7f : 0xffffffff;
        check_special(&scaled[i], C + 2, 6, 0x7fc00000, 9, 4, none);
        check_special(&scaled[i], C + 2, 6, 0xff800000, 9, 4, -(double)INFINITY);
        check_special(&scaled[i], SCALES, 13, nan, 11, -1, none);
        check_special(&scaled[i], SCALES + 1, 12, nan, -1, 3, none);
        check_special(&scaled[i], SCALES + 1, 12, 0xffffffff, -1, 3, none); /* ue4m3 ignores the highest bit */
    }
}

/* Tiny and huge factors: zero and infinity, without a fault. */
TEST(the_range_of_f32)
{
    memset(selector, 0, sizeof selector);
    for (size_t i = 0; i < SCALED; i++)
        for (int huge = 0; huge < 2 && !scaled[i].ue4m3; huge++) {
            draw(&scaled[i], EXACT);
            memset(words[C], 0, 4 * sizeof words[C]);
            for (int l = 0; l < LANES; l++)
                words[SCALES][l] = words[SCALES + 1][l] = huge ? 0xfefefefe : 0;
            assert_int_equal(run(kernel(&scaled[i], false, "")), 0);
            for (int m = 0; m < M; m++)
                for (int n = 0; n < N; n++) {
                    double sum = 0;
                    for (int k = 0; k < scaled[i].k; k++)
                        sum += x.a[m][k] * x.b[k][n];
                    const double got = answer(&scaled[i], m, n);
                    assert_true(huge && sum != 0 ? isinf(got) && (got > 0) == (sum > 0) : got == 0);
                }
        }
}

/* As it is published for .kind::mxf4: numbers are aligned to the largest exponent of a pair of factors or of C, and cut
 * to 35 bits below it.  Here C and a product of 2^exponent cancel, and a product of 1/4 is left, or is cut off. */
TEST(products_of_e2m1_are_cut_to_35_bits)
{
    const struct form *f = &scaled[FIRST_OF_E2M1];
    for (int exponent = 32; exponent < 36; exponent++) {
        const float c = -ldexpf(1, exponent);
        memset(words, 0, sizeof words);
        words[A][0] = words[B][0] = 2;         /* A(0,0) = B(0,0) = 1 */
        words[A + 2][0] = words[B + 1][0] = 1; /* A(0,32) = B(32,0) = 0.5 */
        memcpy(&words[C][0], &c, sizeof c);
        words[SCALES][0] = (uint32_t)(127 + exponent) | 127 << 8;
        words[SCALES + 1][0] = 127 | 127 << 8;
        memset(selector, 0, sizeof selector);
        assert_int_equal(run(kernel(f, false, "")), 0);
        assert_true(answer(f, 0, 0) == (exponent - 35 <= -2 ? 0.25 : 0));
    }
}

/* The targets of the family on both of its GPUs. */
TEST(targets_of_the_family)
{
    static const struct {
        int         sm;
        const char *target;
        bool        runs;
    } cases[] = {{120, "120f", true}, {120, "120", false}, {120, "121a", false}, {121, "120f", true},
                 {121, "121a", true}, {121, "121f", true}, {121, "120a", false}};
    memset(selector, 0, sizeof selector);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (size_t f = 0; f < SCALED; f += SCALED - 1) {
            draw(&scaled[f], EXACT);
            char text[8192], head[64];
            snprintf(head, sizeof head, ".version 8.8\n.target sm_%s\n", cases[i].target);
            snprintf(text, sizeof text, "%s%s", head, strstr(kernel(&scaled[f], true, ""), ".address_size"));
            const unsigned int result = run_on(cases[i].sm, text);
            if ((result == 0) != cases[i].runs)
                fail_msg("sm_%s on sm_%d: result %u: %s", cases[i].target, cases[i].sm, result, emu_log());
            if (result == 0)
                check(&scaled[f], EXACT);
        }
}

/* ---- undefined values ------------------------------------------------------------------------------------ */
/* The extra lines make bits of a register undefined in one lane; then only D of the lanes of `rows` (of 8) may be
 * stored. */
static void check_undefined(const struct form *f, const char *reg, uint32_t mask, int lane, bool found)
{
    char extra[256];
    memset(selector, 0, sizeof selector);
    draw(f, EXACT);
    snprintf(
        extra, sizeof extra,
        "{ .reg .b32 %%u, %%v; .reg .pred %%p; and.b32 %%v, %%u, 0x%x; xor.b32 %%v, %%v, %%%s; setp.eq.u32 "
        "%%p, %%t, "
        "%d; selp.b32 %%%s, %%v, %%%s, %%p; }",
        mask, reg, lane, reg, reg);
    emu_must_end(run(kernel(f, false, extra)), found ? 719 : 0, found ? "uninitialised" : NULL, reg);
}

TEST(undefined_bits_of_elements_and_factors_count_others_do_not)
{
    const struct form e2m1 = {.kind = "kind::f8f6f4", .k = 32, .a = E2M1, .b = E3M2};
    check_undefined(&e2m1, "r0", 0xc3c3c3c3, 5, false); /* padding */
    check_undefined(&e2m1, "r0", 0x04000000, 5, true);
    check_undefined(&e2m1, "r5", 0xc0c0c0c0, 31, false);
    check_undefined(&e2m1, "r5", 0x20, 31, true);
    check_undefined(&e2m1, "r7", 1, 3, true);
    check_undefined(&scaled[0], "r10", 0xff, 13, true);
    check_undefined(&scaled[0], "r10", 0xffffff00, 13, false);
    check_undefined(&scaled[0], "r10", 0xff, 14, false); /* another thread of the quad */
    check_undefined(&scaled[0], "r11", 0xff, 12, true);
    check_undefined(&scaled[0], "r11", 0xff, 13, false);
    check_undefined(&scaled[2], "r10", 0xff00, 0, true);
    check_undefined(&scaled[2], "r10", 0xffff0000, 0, false);
    check_undefined(&scaled[FIRST_OF_E2M1], "r1", 0x80000000, 30, true);
}

TEST(an_undefined_selector_is_found)
{
    memset(selector, 0, sizeof selector);
    draw(&scaled[0], EXACT);
    emu_must_end(run(kernel(&scaled[0], false, "{ .reg .b16 %u; or.b16 %h3, %h3, %u; }")), 719, "uninitialised",
                 "a selector");
}

RUN_TESTS(print_seed, NULL)
