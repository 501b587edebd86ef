/* float.c - compares the emulated GPU's floating-point arithmetic with the host's: bit for bit in all rounding
 * modes, and the approximate functions with libm.  recorded.c compares it with an H200. */
#include <fenv.h>
#include <math.h>
#include "float_run.h"
#include "tools/emu/compute/float_lanes.h"
#include "tools/emu/compute/float_round.h"
#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

enum { ROUNDS = 200000 };
static const int host_modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};

/* ---- rounding modes, against the host's ----------------------------------------------------------- */
static uint32_t bits32(float value) { return isnan(value) ? EMU_NAN_F32 : emu_bits_of(value); }
static uint64_t bits64(double value) { return isnan(value) ? EMU_NAN_F64 : emu_bits_of_double(value); }

static void host_f32(const volatile float v[3], int mode, volatile float out[5])
{
    fesetround(mode);
    out[0] = v[0] + v[1];
    out[1] = v[0] * v[1];
    out[2] = fmaf(v[0], v[1], v[2]);
    out[3] = v[0] / v[1];
    out[4] = sqrtf(v[0]);
    fesetround(FE_TONEAREST);
}
static void host_f64(const volatile double v[3], int mode, volatile double out[5])
{
    fesetround(mode);
    out[0] = v[0] + v[1];
    out[1] = v[0] * v[1];
    out[2] = fma(v[0], v[1], v[2]);
    out[3] = v[0] / v[1];
    out[4] = sqrt(v[0]);
    fesetround(FE_TONEAREST);
}
static void check_f32(const uint32_t u[3], int mode)
{
    const volatile float    v[3] = {emu_float_of(u[0]), emu_float_of(u[1]), emu_float_of(u[2])};
    const enum emu_rounding r = (enum emu_rounding)mode;
    volatile float          host[5];
    host_f32(v, host_modes[mode], host);
    const uint32_t ours[5] = {emu_round_add_f32(u[0], u[1], r, false), emu_round_mul_f32(u[0], u[1], r, false),
                              emu_round_fma_f32(u[0], u[1], u[2], r, false),
                              emu_round_div_f32(u[0], u[1], r, false), emu_round_sqrt_f32(u[0], r, false)};
    for (int k = 0; k < 5; k++) {
        if (ours[k] != bits32(host[k]))
            print_error("f32 operation %d mode %d: %08x %08x %08x\n", k, mode, u[0], u[1], u[2]);
        assert_int_equal(ours[k], bits32(host[k]));
    }
    const double to_odd = emu_sum_to_odd((double)v[0] * (double)v[1], (double)v[2]);
    if (mode == EMU_RN) /* computes as hosts without FMA do */
        assert_int_equal(bits32((float)to_odd), bits32(host[2]));
}
static void check_f64(const uint64_t u[3], int mode)
{
    const volatile double   v[3] = {emu_double_of(u[0]), emu_double_of(u[1]), emu_double_of(u[2])};
    const enum emu_rounding r = (enum emu_rounding)mode;
    volatile double         host[5];
    host_f64(v, host_modes[mode], host);
    const uint64_t ours[5] = {emu_round_add_f64(u[0], u[1], r), emu_round_mul_f64(u[0], u[1], r),
                              emu_round_fma_f64(u[0], u[1], u[2], r), emu_round_div_f64(u[0], u[1], r),
                              emu_round_sqrt_f64(u[0], r)};
    for (int k = 0; k < 5; k++) {
        if (ours[k] != bits64(host[k]))
            print_error("f64 operation %d mode %d: %016llx %016llx %016llx\n", k, mode,
                        (unsigned long long)u[0], (unsigned long long)u[1], (unsigned long long)u[2]);
        assert_true(ours[k] == bits64(host[k]));
    }
}
TEST(rounding_modes_are_the_hosts)
{
    uint64_t random = 0x243f6a8885a308d3ull;
    print_message("seed %llx\n", (unsigned long long)random);
    for (size_t i = 0; i < ROUNDS; i++) {
        uint64_t a[3], before = 0;
        uint32_t b[3];
        for (int k = 0; k < 3; k++) {
            before = input_value(i % 5 == 4 ? 't' : 'f', &random, i, k, before);
            b[k] = (uint32_t)before;
        }
        before = 0;
        for (int k = 0; k < 3; k++)
            before = a[k] = input_value('d', &random, i, k, before);
        check_f32(b, (int)(i / 8 % 4));
        check_f64(a, (int)(i / 8 % 4));
    }
}

/* ---- approximate functions ------------------------------------------------------------------------ */
static long double reciprocal(long double x) { return 1 / x; }
static long double reciprocal_root(long double x) { return 1 / sqrtl(x); }

/* The error in units of the last place of the exact value as an f32. */
static double error_in_units(float got, long double exact)
{
    int exponent;
    frexpl(exact, &exponent);
    const int unit = exponent - 24 > -149 ? exponent - 24 : -149;
    return (double)fabsl(((long double)got - exact) / ldexpl(1, unit));
}
static void check_function(const char *instruction, long double function(long double), float least, float most,
                           double least_right)
{
    uint64_t random = 0x13198a2e03707344ull;
    double   worst = 0;
    size_t   right = 0;
    for (size_t i = 0; i < INPUTS; i++) {
        const double t = (double)(input_random(&random) >> 11) * 0x1p-53;
        const double linear = least + ((double)most - least) * t;
        const double spread = least * pow((double)most / least, t);
        run_operands[0][i] = emu_bits_of((float)(i % 2 && least > 0 ? spread : linear));
    }
    assert_int_equal(run_instruction("sm_90a", instruction, 4, INPUTS), 0);
    const uint32_t *results = (const uint32_t *)run_results;
    for (size_t i = 0; i < INPUTS; i++) {
        const long double exact = function((long double)emu_float_of((uint32_t)run_operands[0][i]));
        const double      error = error_in_units(emu_float_of(results[i]), exact);
        worst = error > worst ? error : worst;
        right += error <= 0.5;
    }
    print_message("%-28s worst %.4f units, %.2f %% correctly rounded\n", instruction, worst,
                  100.0 * (double)right / INPUTS);
    assert_true(worst < 0.501);
    assert_true((double)right >= least_right * INPUTS);
}
TEST(functions_are_close)
{
    run_machine(90);
    check_function("ex2.approx.ftz.f32 d4, a4;", exp2l, -125, 127, 0.999);
    check_function("ex2.approx.f32 d4, a4;", exp2l, -148, 127, 0.999);
    check_function("ex2.approx.ftz.f32 d4, a4;", exp2l, -1e-3f, 1e-3f, 0.999);
    check_function("rcp.approx.ftz.f32 d4, a4;", reciprocal, 1e-30f, 1e30f, 1);
    check_function("rsqrt.approx.ftz.f32 d4, a4;", reciprocal_root, 1e-30f, 1e30f, 0.999);
    check_function("sqrt.approx.f32 d4, a4;", sqrtl, 1e-30f, 1e30f, 1);
    check_function("lg2.approx.f32 d4, a4;", log2l, 1e-30f, 1e30f, 0.999);
    check_function("sin.approx.f32 d4, a4;", sinl, -3, 3, 0.999);
    check_function("cos.approx.f32 d4, a4;", cosl, -3, 3, 0.999);
    check_function("tanh.approx.f32 d4, a4;", tanhl, -9, 9, 0.999);
}

/* instruction, argument, result */
static const struct {
    const char *instruction;
    uint32_t    argument, result;
} special[] = {{"ex2.approx.ftz.f32 d4, a4;", 0xff800000, 0},
               {"ex2.approx.ftz.f32 d4, a4;", 0x7f800000, 0x7f800000},
               {"ex2.approx.ftz.f32 d4, a4;", 0xffc00001, 0x7fffffff},
               {"ex2.approx.ftz.f32 d4, a4;", 0x80000001, 0x3f800000},
               {"ex2.approx.ftz.f32 d4, a4;", 0xc2fe0000, 0},
               {"ex2.approx.f32 d4, a4;", 0xc2fe0000, 0x00400000},
               {"ex2.approx.f32 d4, a4;", 0xc3150000, 1},
               {"ex2.approx.f32 d4, a4;", 0x43000000, 0x7f800000},
               {"ex2.approx.f32 d4, a4;", 0xff7fffff, 0},
               {"ex2.approx.f32 d4, a4;", 0x7f7fffff, 0x7f800000},
               {"rcp.approx.ftz.f32 d4, a4;", 0, 0x7f800000},
               {"rcp.approx.ftz.f32 d4, a4;", 0x80000001, 0xff800000},
               {"rcp.approx.ftz.f32 d4, a4;", 0xff800000, 0x80000000},
               {"rcp.approx.ftz.f32 d4, a4;", 0x7f000000, 0},
               {"rcp.approx.f32 d4, a4;", 0x7f000000, 0x00400000},
               {"rsqrt.approx.f32 d4, a4;", 0x80000000, 0xff800000},
               {"rsqrt.approx.f32 d4, a4;", 0xbf800000, 0x7fffffff},
               {"rsqrt.approx.ftz.f32 d4, a4;", 1, 0x7f800000},
               {"sqrt.approx.f32 d4, a4;", 0x80000000, 0x80000000},
               {"sqrt.approx.f32 d4, a4;", 0xbf800000, 0x7fffffff},
               {"lg2.approx.f32 d4, a4;", 0x80000000, 0xff800000},
               {"lg2.approx.f32 d4, a4;", 1, 0xc3150000},
               {"lg2.approx.ftz.f32 d4, a4;", 1, 0xff800000},
               {"lg2.approx.f32 d4, a4;", 0xbf800000, 0x7fffffff},
               {"lg2.approx.f32 d4, a4;", 0x3f800000, 0},
               {"sin.approx.f32 d4, a4;", 0x80000000, 0x80000000},
               {"sin.approx.f32 d4, a4;", 0x7f800000, 0x7fffffff},
               {"cos.approx.f32 d4, a4;", 0x80000001, 0x3f800000},
               {"tanh.approx.f32 d4, a4;", 0xff800000, 0xbf800000},
               {"tanh.approx.f32 d4, a4;", 1, 1},
               {"tanh.approx.bf16 d2, a2; cvt.u32.u16 d4, d2;", 0xff80, 0xbf80},
               {"tanh.approx.f16 d2, a2; cvt.u32.u16 d4, d2;", 0x7c00, 0x3c00}};
TEST(special_values)
{
    run_machine(90);
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++) {
        for (size_t k = 0; k < 256; k++)
            run_operands[0][k] = special[i].argument;
        assert_int_equal(run_instruction("sm_90a", special[i].instruction, 4, 256), 0);
        if ((uint32_t)run_results[0] != special[i].result)
            print_error("%s of %08x\n", special[i].instruction, special[i].argument);
        assert_int_equal((uint32_t)run_results[0], special[i].result);
    }
}

/* ---- what an H200 does not have: f32x2, three inputs ---------------------------------------------- */
TEST(pairs_are_two_of_one)
{
    static const char *const modes[] = {"rn", "rz", "rm", "rp", "rn.ftz", "rp.ftz"};
    static uint32_t          one[2][INPUTS];
    char                     text[128];
    run_machine(100);
    run_fill("fff");
    for (int operation = 0; operation < 4; operation++)
        for (size_t m = 0; m < sizeof modes / sizeof modes[0]; m++) {
            const char *name = operation == 0 ? "add" : operation == 1 ? "mul" : operation == 2 ? "sub" : "fma";
            const char *third = operation == 3 ? ", c4" : "", *third_pair = operation == 3 ? ", c8" : "";
            snprintf(text, sizeof text, "%s.%s.f32 d4, a4, b4%s;", name, modes[m], third);
            assert_int_equal(run_instruction("sm_100", text, 4, INPUTS), 0);
            memcpy(one[0], run_results, sizeof one[0]);
            snprintf(text, sizeof text, "%s.%s.f32 d4, b4, a4%s;", name, modes[m], third);
            assert_int_equal(run_instruction("sm_100", text, 4, INPUTS), 0);
            memcpy(one[1], run_results, sizeof one[1]);
            snprintf(text, sizeof text,
                     "mov.b64 a8, {a4, b4}; mov.b64 b8, {b4, a4}; mov.b64 c8, {c4, c4};\n"
                     "%s.%s.f32x2 d8, a8, b8%s;",
                     name, modes[m], third_pair);
            assert_int_equal(run_instruction("sm_100", text, 8, INPUTS), 0);
            for (size_t i = 0; i < INPUTS; i++)
                assert_true(run_results[i] == (one[0][i] | (uint64_t)one[1][i] << 32));
        }
}
TEST(three_inputs_are_two_steps)
{
    static const char *const modes[] = {"min", "max", "min.ftz", "max.NaN", "min.ftz.NaN"};
    static uint32_t          steps[INPUTS];
    char                     text[128];
    run_machine(100);
    run_fill("fff");
    for (size_t m = 0; m < sizeof modes / sizeof modes[0]; m++) {
        snprintf(text, sizeof text, "%s.f32 d4, a4, b4; %s.f32 d4, d4, c4;", modes[m], modes[m]);
        assert_int_equal(run_instruction("sm_100", text, 4, INPUTS), 0);
        memcpy(steps, run_results, sizeof steps);
        snprintf(text, sizeof text, "%s.f32 d4, a4, b4, c4;", modes[m]);
        assert_int_equal(run_instruction("sm_100", text, 4, INPUTS), 0);
        assert_memory_equal(run_results, steps, sizeof steps);
    }
}

/* Lanes that a guard excludes keep their values. */
TEST(a_guard_spares_the_others)
{
    static const char *const text[] = {"mov.b32 d4, 7; setp.gt.u32 p, a4, 100; @p add.f32 d4, a4, b4;",
                                       "mov.b32 d4, 7; setp.gt.u32 p, a4, 100; @p add.rm.f32 d4, a4, b4;",
                                       "mov.b32 d4, 7; setp.gt.u32 p, a4, 100; @p lg2.approx.f32 d4, a4;",
                                       "mov.b32 d4, 7; setp.gt.u32 p, a4, 9; @p cvt.rn.bf16x2.f32 d4, a4, b4;",
                                       "mov.b32 d4, 7; setp.gt.u32 p, a4, 100; @p cvt.rzi.s32.f32 d4, a4;"};
    run_machine(90);
    for (size_t i = 0; i < 256; i++) {
        run_operands[0][i] = i % 3 ? 5 : 0x3f800000 + i;
        run_operands[1][i] = 0x40000000;
    }
    for (size_t k = 0; k < sizeof text / sizeof text[0]; k++) {
        assert_int_equal(run_instruction("sm_90a", text[k], 4, 256), 0);
        const uint32_t *results = (const uint32_t *)run_results;
        for (size_t i = 0; i < 256; i++)
            assert_true((results[i] == 7) == (i % 3 != 0));
    }
}

RUN_TESTS(NULL, NULL)
