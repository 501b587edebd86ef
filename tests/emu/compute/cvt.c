/* cvt.c - conversions between number formats: every code of the small formats, and rounding against a
 * search among all values of a format.  recorded.c compares cvt with an H200. */
#include <fenv.h>
#include <math.h>
#include "float_run.h"
#include "tools/emu/compute/float_format.h"
#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

struct format {
    const char              *name;
    const struct emu_format *ours;
    int                      exponent_bits, fraction_bits, bias;
    uint32_t                 largest;
    bool                     infinity;
};
static const struct format formats[] = {{"f16", &emu_format_f16, 5, 10, 15, 0x7bff, true},
                                        {"bf16", &emu_format_bf16, 8, 7, 127, 0x7f7f, true},
                                        {"tf32", &emu_format_tf32, 8, 10, 127, 0x3fbff, true},
                                        {"e4m3", &emu_format_e4m3, 4, 3, 7, 0x7e, false},
                                        {"e5m2", &emu_format_e5m2, 5, 2, 15, 0x7b, true},
                                        {"e2m3", &emu_format_e2m3, 2, 3, 1, 0x1f, false},
                                        {"e3m2", &emu_format_e3m2, 3, 2, 3, 0x1f, false},
                                        {"e2m1", &emu_format_e2m1, 2, 1, 1, 0x7, false}};
enum { FORMATS = sizeof formats / sizeof formats[0], F16 = 0, BF16, TF32, E4M3, E5M2, E2M3, E3M2, E2M1 };

/* ---- the references ------------------------------------------------------------------------------- */
/* The value of a finite code (largest + 1: the value that would follow). */
static double value_of(const struct format *f, uint32_t code)
{
    const uint32_t exponent = code >> f->fraction_bits, fraction = code & ((1u << f->fraction_bits) - 1);
    const int      e = (int)(exponent ? exponent : 1) - f->bias - f->fraction_bits;
    return ldexp((double)(exponent ? fraction + (1u << f->fraction_bits) : fraction), e);
}
static uint32_t search(const struct format *f, double magnitude)
{
    uint32_t low = 0, high = f->largest + 1;
    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;
        if (value_of(f, middle) <= magnitude)
            low = middle;
        else
            high = middle;
    }
    return low;
}
static uint32_t reference(const struct format *f, double value, enum emu_rounding rounding, bool satfinite)
{
    const uint32_t sign = signbit(value) ? 1u << (f->exponent_bits + f->fraction_bits) : 0;
    const double   a = fabs(value);
    if (isinf(value))
        return sign | (f->infinity && !satfinite ? f->largest + 1 : f->largest);
    const uint32_t low = search(f, a);
    const double   below = value_of(f, low), above = value_of(f, low + 1), middle = (below + above) / 2;
    const bool     outward = rounding == (sign ? EMU_RM : EMU_RP);
    uint32_t       code = low;
    if (a != below)
        code += rounding == EMU_RN    ? a > middle || (a == middle && low % 2)
                : rounding == EMU_RNA ? a >= middle
                                      : outward;
    return sign | (code > f->largest && (satfinite || !f->infinity) ? f->largest : code);
}

/* ---- widening: every code ------------------------------------------------------------------------- */
static float widened(int format, uint32_t code)
{
    switch (format) {
    case F16:
        return emu_f16_to_f32(code);
    case BF16:
        return emu_bf16_to_f32(code);
    case E4M3:
        return emu_e4m3_to_f32(code);
    case E5M2:
        return emu_e5m2_to_f32(code);
    case E2M3:
        return emu_e2m3_to_f32(code);
    case E3M2:
        return emu_e3m2_to_f32(code);
    case E2M1:
        return emu_e2m1_to_f32(code);
    default:
        return emu_float_of(code << 13);
    }
}
TEST(every_code_widens)
{
    for (int k = 0; k < FORMATS; k++) {
        const struct format *f = &formats[k];
        const uint32_t       sign = 1u << (f->exponent_bits + f->fraction_bits);
        for (uint32_t code = 0; code < 2 * sign; code++) {
            const uint32_t magnitude = code & (sign - 1);
            const double   wide = emu_widen(code, f->ours);
            const float    narrow = widened(k, code);
            if (magnitude <= f->largest) {
                const double exact = code & sign ? -value_of(f, magnitude) : value_of(f, magnitude);
                assert_true(emu_bits_of_double(wide) == emu_bits_of_double(exact));
                assert_true(emu_bits_of(narrow) == emu_bits_of((float)exact));
                assert_int_equal(emu_narrow(wide, f->ours, EMU_RM, false), code);
            } else if (f->infinity && magnitude == f->largest + 1) {
                assert_true(isinf(wide) && isinf(narrow) && !signbit(narrow) == !(code & sign));
            } else {
                assert_true(isnan(wide) && isnan(narrow));
            }
        }
    }
    for (uint32_t code = 0; code < 255; code++)
        assert_true(emu_ue8m0_to_f32(code) == (float)ldexp(1, (int)code - 127));
    assert_true(isnan(emu_ue8m0_to_f32(255)));
}

/* ---- narrowing ------------------------------------------------------------------------------------ */
static void check_narrow(const struct format *f, double value)
{
    for (int rounding = EMU_RN; rounding <= EMU_RNA; rounding++)
        for (int satfinite = 0; satfinite < 2; satfinite++) {
            const uint32_t ours = emu_narrow(value, f->ours, (enum emu_rounding)rounding, satfinite);
            const uint32_t right = reference(f, value, (enum emu_rounding)rounding, satfinite);
            if (ours != right)
                print_error("%a to %s, mode %d, satfinite %d\n", value, f->name, rounding, satfinite);
            assert_int_equal(ours, right);
        }
}
TEST(narrowing_finds_the_neighbour)
{
    uint64_t random = 0xa4093822299f31d0ull;
    print_message("seed %llx\n", (unsigned long long)random);
    for (int k = 0; k < FORMATS; k++) {
        const struct format *f = &formats[k];
        const uint32_t       step = f->largest > 4096 ? 37 : 1;
        /* at codes, between codes, and beside both */
        for (uint32_t code = 0; code <= f->largest; code += step) {
            const double low = value_of(f, code), middle = (low + value_of(f, code + 1)) / 2;
            const double tries[] = {low,    nextafter(low, 1e300),    nextafter(low, -1e300),
                                    middle, nextafter(middle, 1e300), nextafter(middle, 0)};
            for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
                check_narrow(f, tries[i]);
                check_narrow(f, -tries[i]);
            }
        }
        for (size_t i = 0; i < 20000; i++) {
            const double value = emu_double_of(input_value('d', &random, i, 0, 0));
            if (!isnan(value))
                check_narrow(f, value);
        }
        check_narrow(f, INFINITY);
        check_narrow(f, -0.0);
        if (f->ours->has_nan)
            assert_int_equal(emu_narrow((double)NAN, f->ours, EMU_RN, false), f->ours->nan);
    }
}
static void check_inline(float v)
{
    const uint32_t bits = emu_bits_of(v);
    const bool     nan = isnan(v);
#define RIGHT(format, rounding, of_nan) (nan ? (of_nan) : reference(&formats[format], (double)v, rounding, 0))
    assert_int_equal(emu_f32_to_f16(v), RIGHT(F16, EMU_RN, 0x7fff));
    assert_int_equal(emu_f32_to_f16_rz(v), RIGHT(F16, EMU_RZ, 0x7fff));
    assert_int_equal(emu_f32_to_bf16(v), RIGHT(BF16, EMU_RN, 0x7fff));
    assert_int_equal(emu_f32_to_bf16_rz(v), RIGHT(BF16, EMU_RZ, 0x7fff));
    assert_int_equal(emu_f32_to_tf32(v), RIGHT(TF32, EMU_RN, 0x3ffff) << 13);
    assert_int_equal(emu_f32_to_tf32_rz(v), RIGHT(TF32, EMU_RZ, 0x3ffff) << 13);
    assert_int_equal(emu_f32_to_tf32_rna(v), RIGHT(TF32, EMU_RNA, bits >> 13) << 13);
#undef RIGHT
    assert_int_equal(emu_f32_to_e4m3(v), nan ? 0x7f : reference(&formats[E4M3], (double)v, EMU_RN, true));
    assert_int_equal(emu_f32_to_e5m2(v), nan ? 0x7f : reference(&formats[E5M2], (double)v, EMU_RN, true));
    assert_int_equal(emu_f32_to_f16_mode(v, EMU_RN, true, true),
                     nan          ? 0x7fff
                     : signbit(v) ? 0
                                  : reference(&formats[F16], (double)v, EMU_RN, true));
}
TEST(inline_conversions_agree)
{
    uint64_t random = 0x082efa98ec4e6c89ull;
    for (size_t i = 0; i < 100000; i++)
        check_inline(emu_float_of((uint32_t)input_value('f', &random, i, 0, 0)));
    for (uint32_t code = 0; code <= 0x7c00; code++) { /* each f16, each midpoint, and their neighbours */
        const float low = emu_f16_to_f32(code);
        const float middle = code < 0x7bff ? (low + emu_f16_to_f32(code + 1)) / 2 : 65520.0f;
        check_inline(nextafterf(middle, 0));
        check_inline(-middle);
        check_inline(nextafterf(middle, 1e9f));
        check_inline(nextafterf(low, 1e9f));
    }
}
TEST(f64_to_f32_rounds_as_the_host)
{
    static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    uint64_t         random = 0x452821e638d01377ull;
    for (size_t i = 0; i < 200000; i++) {
        const volatile double value = emu_double_of(input_value('d', &random, i, (int)(i % 3), i));
        if (isnan(value))
            continue;
        fesetround(modes[i / 8 % 4]);
        const volatile float host = (float)value;
        fesetround(FE_TONEAREST);
        assert_int_equal(emu_f64_to_f32(value, (enum emu_rounding)(i / 8 % 4)), emu_bits_of(host));
    }
}

/* ---- the instruction ------------------------------------------------------------------------------ */
/* Checks fp6, fp4 and ue8m0, which an H200 does not have. */
static void check_small(const char *narrow, const char *widen, const struct format *f, int shift)
{
    const uint32_t field = (1u << (f->exponent_bits + f->fraction_bits + 1)) - 1;
    run_fill("ff");
    assert_int_equal(run_instruction("sm_100a", narrow, 4, INPUTS), 0);
    const uint32_t *results = (const uint32_t *)run_results;
    for (size_t i = 0; i < INPUTS; i++)
        for (int k = 0; k < 2; k++) {
            const float    v = emu_float_of((uint32_t)run_operands[k][i]);
            const uint32_t right = isnan(v) ? f->largest : reference(f, (double)v, EMU_RN, true);
            assert_int_equal(results[i] >> (k ? 0 : shift) & field, right);
        }
    run_fill("x");
    assert_int_equal(run_instruction("sm_100a", widen, 4, INPUTS_ALL), 0);
    for (size_t i = 0; i < INPUTS_ALL; i++)
        for (int k = 0; k < 2; k++) {
            const uint32_t code = (uint32_t)i >> (k ? shift : 0) & field, magnitude = code & field >> 1;
            const float right = (float)(code == magnitude ? value_of(f, magnitude) : -value_of(f, magnitude));
            assert_int_equal(results[i] >> 16 * k & 0xffff, emu_f32_to_f16(right));
        }
}
TEST(the_smallest_formats)
{
    run_machine(100);
    check_small("cvt.rn.satfinite.e2m3x2.f32 d2, a4, b4; cvt.u32.u16 d4, d2;", "cvt.rn.f16x2.e2m3x2 d4, a2;",
                &formats[E2M3], 8);
    check_small("cvt.rn.satfinite.e3m2x2.f32 d2, a4, b4; cvt.u32.u16 d4, d2;", "cvt.rn.f16x2.e3m2x2 d4, a2;",
                &formats[E3M2], 8);
    check_small("{ .reg .b8 n; cvt.rn.satfinite.e2m1x2.f32 n, a4, b4; cvt.u32.u8 d4, n; }",
                "{ .reg .b8 n, o; mov.b16 {n, o}, a2; cvt.rn.f16x2.e2m1x2 d4, n; }", &formats[E2M1], 4);
    run_fill("ff");
    const char *scale = "cvt.rp.satfinite.ue8m0x2.f32 d2, a4, b4; cvt.u32.u16 d4, d2;";
    assert_int_equal(run_instruction("sm_100a", scale, 4, INPUTS), 0);
    const uint32_t *results = (const uint32_t *)run_results;
    for (size_t i = 0; i < INPUTS; i++) {
        const float v = fabsf(emu_float_of((uint32_t)run_operands[1][i]));
        uint32_t    right = 0;
        while (right < 254 && emu_ue8m0_to_f32(right) < v)
            right++;
        assert_int_equal(results[i] & 0xff, isnan(v) ? 0xff : right);
    }
}
RUN_TESTS(NULL, NULL)
