/* alu_approx.c - div rcp sqrt rsqrt and the functions sin cos lg2 ex2 tanh.
 *
 * div, rcp and sqrt with a rounding mode are exact.  The ISA leaves the bits of the approximate ones open; here
 * they are computed in double and rounded once, which is more accurate than the hardware.  As measured on an
 * H200:
 *   - ex2 of f16 and bf16 is 2^x truncated, except that arguments just below zero give 1;
 *   - rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64 read and write only the upper 32 bits;
 *   - div.approx by a divisor of 2^126 or more is +-0, as the ISA says. */
#include <math.h>
#include "alu_float.h"
#include "float_lanes.h"

EMU_INLINE uint32_t input(uint32_t u, unsigned int flags) { return emu_if(flags & EMU_FTZ, emu_ftz_f32(u), u); }
EMU_INLINE uint32_t output(float value, unsigned int flags)
{
    const uint32_t u = emu_canonical_f32(emu_bits_of(value));
    return emu_if(flags & EMU_FTZ, emu_ftz_f32(u), u);
}
#define OPERAND(a) emu_float_of(input(a, flags))

/* ---- 2^x ------------------------------------------------------------------------------------------------
 * x = k + f, |f| <= 1/2; the relative error of the series of 2^f in double is below 2^-36, so that only one
 * result in some thousands differs from the correctly rounded one, by one unit. */
EMU_INLINE double power_of_two(double x) /* |x| <= 200 */
{
    static const double c1 = 0x1.62e42fefa39efp-1, c2 = 0x1.ebfbdff82c58fp-3, c3 = 0x1.c6b08d704a0c0p-5,
                        c4 = 0x1.3b2ab6fba4e77p-7, c5 = 0x1.5d87fe78a6731p-10, c6 = 0x1.430912f86c787p-13,
                        c7 = 0x1.ffcbfc588b0c7p-17, c8 = 0x1.62c0223a5c824p-20, c9 = 0x1.b5253d395e7c4p-24;
    static const double round = 0x1.8p52;
    const double        shifted = x + round, f = x - (shifted - round);
    const double        series =
        1.0 + f * (c1 + f * (c2 + f * (c3 + f * (c4 + f * (c5 + f * (c6 + f * (c7 + f * (c8 + f * c9))))))));
    const uint64_t scale = (emu_bits_of_double(shifted) << 52) + 0x3ff0000000000000ull; /* low bits: k */
    return series * emu_double_of(scale);
}
EMU_INLINE uint32_t ex2(uint32_t a, unsigned int flags)
{
    const uint32_t x = input(a, flags), sign = x & 0x80000000, magnitude = x ^ sign;
    const uint32_t bounded = emu_if(magnitude > 0x43480000, 0x43480000, magnitude); /* 200: 0 or infinity */
    const uint32_t r = emu_bits_of((float)power_of_two((double)emu_float_of(bounded | sign)));
    const uint32_t number = emu_if(flags & EMU_FTZ, emu_ftz_f32(r), r);
    return emu_if(emu_is_nan_f32(x), EMU_NAN_F32, number);
}
#define EX2(a)     ex2(a, 0)
#define EX2_FTZ(a) ex2(a, EMU_FTZ)
EMU_FLOAT_1(exec_ex2, EX2)
EMU_FLOAT_1(exec_ex2_ftz, EX2_FTZ)

static uint32_t ex2_half(double x, const struct emu_format *format, double least)
{
    const double power = x < 0 && x >= least ? 1.0 : exp2(x);
    return emu_narrow(power, format, x >= format->bias + 1 ? EMU_RN : EMU_RZ, false); /* EMU_RN: infinity */
}

/* ---- f32 -------------------------------------------------------------------------------------------- */
/* The quotient times 2^24 shows which results round up to 2^-126 from below. */
EMU_INLINE uint32_t divide(uint32_t a, uint32_t b, unsigned int flags)
{
    const float    x = OPERAND(a), y = OPERAND(b);
    const uint32_t r = output(x / y, flags);
    const bool     tiny = ((flags & EMU_FTZ) != 0) & (__builtin_fabsf(x * 0x1p24f / y) < 0x1p-102f);
    return emu_if(tiny, r & 0x80000000, r);
}
#define DIV(a, b) divide(a, b, flags)
#define RCP(a)    output(1.0f / OPERAND(a), flags)
#define SQRT(a)   output(__builtin_sqrtf(OPERAND(a)), flags)
#define RSQRT(a)  output((float)(1.0 / __builtin_sqrt((double)OPERAND(a))), flags)
EMU_FLOAT_2(exec_div, DIV)
EMU_FLOAT_1(exec_rcp, RCP)
EMU_FLOAT_1(exec_sqrt, SQRT)
EMU_FLOAT_1(exec_rsqrt, RSQRT)
/* A divisor in [2^126, 2^128) gives 0, or NaN if the dividend is infinite. */
EMU_INLINE uint32_t div_approx(uint32_t a, uint32_t b, unsigned int flags)
{
    const uint32_t x = input(a, flags), y = input(b, flags), magnitude = y & 0x7fffffff;
    const bool     huge = magnitude > 0x7e800000 && magnitude < 0x7f800000;
    const float    divisor = huge ? emu_float_of(0x7f800000 | (y & 0x80000000)) : emu_float_of(y);
    return output(emu_float_of(x) / divisor, flags);
}
#define DIV_APPROX(a, b) div_approx(a, b, flags)
EMU_FLOAT_2(exec_div_approx, DIV_APPROX)

/* Functions of libm, one lane at a time. */
#define LIBM_F32(name, function)                                                              \
    static void name(struct emu_warp *w, const struct emu_op *op, uint32_t mask)              \
    {                                                                                         \
        const unsigned int flags = op->u8[1];                                                 \
        uint32_t          *d = emu_r32(w, op->result[0]);                                     \
        const uint32_t    *a = emu_r32(w, op->source[0]);                                     \
        EMU_FOR_LANES(mask, l, d[l] = output((float)function((double)OPERAND(a[l])), flags)); \
    }
LIBM_F32(exec_sin, sin)
LIBM_F32(exec_cos, cos)
LIBM_F32(exec_lg2, log2)
LIBM_F32(exec_tanh, tanh)

/* ---- f64 -------------------------------------------------------------------------------------------- */
#define DIV_64(a, b) emu_nan_f64(emu_bits_of_double(emu_double_of(a) / emu_double_of(b)), a, b, 0)
#define RCP_64(a)    emu_nan_f64(emu_bits_of_double(1.0 / emu_double_of(a)), a, 0, 0)
#define SQRT_64(a)   emu_nan_f64(emu_bits_of_double(__builtin_sqrt(emu_double_of(a))), a, 0, 0)
#define RSQRT_64(a)  emu_nan_f64(emu_bits_of_double(1.0 / __builtin_sqrt(emu_double_of(a))), a, 0, 0)
EMU_DOUBLE_2(exec_div_f64, DIV_64)
EMU_DOUBLE_1(exec_rcp_f64, RCP_64)
EMU_DOUBLE_1(exec_sqrt_f64, SQRT_64)
EMU_DOUBLE_1(exec_rsqrt_f64, RSQRT_64)

EMU_INLINE uint64_t upper(uint64_t u)
{
    const uint64_t cut = u & 0xffffffff00000000ull;
    return cut & 0x7ff0000000000000ull ? cut : cut & 1ull << 63;
}
EMU_INLINE uint64_t upper_result(double value)
{
    const uint64_t u = emu_bits_of_double(value);
    return (u & 0x7fffffffffffffffull) > 0x7ff0000000000000ull ? 0x7fffffff00000000ull : upper(u);
}
#define RCP_UPPER(a)   upper_result(1.0 / emu_double_of(upper(a)))
#define RSQRT_UPPER(a) upper_result(1.0 / __builtin_sqrt(emu_double_of(upper(a))))
EMU_DOUBLE_1(exec_rcp_upper, RCP_UPPER)
EMU_DOUBLE_1(exec_rsqrt_upper, RSQRT_UPPER)

/* ---- decoders of div rcp sqrt rsqrt ----------------------------------------------------------------- */
static bool decode_root(struct decoder *d, struct emu_op *op, unsigned int operation,
                        struct emu_float_mode *mode, const struct emu_exec_pair nearest[2])
{
    enum { ALL = EMU_HAS | EMU_ROUNDS | EMU_DIRECTED };
    static const unsigned int modes[3][EMU_FLOAT_TYPES] =
        {{[EMU_F32] = ALL | EMU_FTZ | EMU_APPROX | EMU_FULL, [EMU_F64] = ALL},
         {[EMU_F32] = ALL | EMU_FTZ | EMU_APPROX, [EMU_F64] = ALL | EMU_APPROX | EMU_FTZ},
         {[EMU_F32] = ALL | EMU_FTZ | EMU_APPROX, [EMU_F64] = ALL}};
    const unsigned int words = EMU_ROUNDS | EMU_APPROX | EMU_FULL;
    if (!emu_float_modifiers(d, modes[operation - EMU_OPERATION_DIV], mode) ||
        !emu_float_operands(d, op, mode, operation == EMU_OPERATION_DIV ? 2 : 1))
        return false;
    if ((mode->flags & words) & ((mode->flags & words) - 1))
        return decode_refuse(d, "a rounding mode, .approx and .full exclude each other");
    const bool approximate_64 = mode->type == EMU_F64 && mode->flags & (EMU_APPROX | EMU_FTZ);
    const bool rounded_rcp = operation == EMU_OPERATION_RCP &&
                             mode->flags & EMU_ROUNDS; /* .ftz means nothing */
    if (approximate_64 && !rounded_rcp && (mode->flags & (EMU_APPROX | EMU_FTZ)) != (EMU_APPROX | EMU_FTZ))
        return decode_refuse(d, ".approx and .ftz go together for .f64");
    op->u8[2] = (uint8_t)operation;
    op->exec = emu_float_exec(nearest[mode->type]);
    if (mode->rounding != EMU_RN)
        op->exec = mode->type == EMU_F32 ? emu_exec_directed_f32 : emu_exec_directed_f64;
    if (mode->type == EMU_F32 && operation != EMU_OPERATION_DIV && mode->flags & EMU_APPROX)
        op->class_ = EMU_CLASS_special;
    return true;
}
bool decode_float_div(struct decoder *d, struct emu_op *op)
{
    static const struct emu_exec_pair nearest[2] = {EMU_PAIR(exec_div), EMU_PAIR(exec_div_f64)};
    static const struct emu_exec_pair approximate = EMU_PAIR(exec_div_approx);
    struct emu_float_mode             mode;
    if (!decode_root(d, op, EMU_OPERATION_DIV, &mode, nearest))
        return false;
    if (mode.flags & EMU_APPROX)
        op->exec = emu_float_exec(approximate);
    return true;
}
bool decode_rcp(struct decoder *d, struct emu_op *op)
{
    static const struct emu_exec_pair nearest[2] = {EMU_PAIR(exec_rcp), EMU_PAIR(exec_rcp_f64)};
    static const struct emu_exec_pair upper_half = EMU_PAIR(exec_rcp_upper);
    struct emu_float_mode             mode;
    if (!decode_root(d, op, EMU_OPERATION_RCP, &mode, nearest))
        return false;
    if (mode.type == EMU_F64 && mode.flags & EMU_APPROX)
        op->exec = emu_float_exec(upper_half);
    return true;
}
bool decode_sqrt(struct decoder *d, struct emu_op *op)
{
    static const struct emu_exec_pair nearest[2] = {EMU_PAIR(exec_sqrt), EMU_PAIR(exec_sqrt_f64)};
    struct emu_float_mode             mode;
    return decode_root(d, op, EMU_OPERATION_SQRT, &mode, nearest);
}
bool decode_rsqrt(struct decoder *d, struct emu_op *op)
{
    static const unsigned int modes[EMU_FLOAT_TYPES] =
        {[EMU_F32] = EMU_HAS | EMU_APPROX | EMU_FTZ, [EMU_F64] = EMU_HAS | EMU_APPROX | EMU_FTZ};
    static const struct emu_exec_pair table[3] = {EMU_PAIR(exec_rsqrt), EMU_PAIR(exec_rsqrt_f64),
                                                  EMU_PAIR(exec_rsqrt_upper)};
    struct emu_float_mode             mode;
    if (!emu_float_modifiers(d, modes, &mode) || !emu_float_operands(d, op, &mode, 1))
        return false;
    if (!(mode.flags & EMU_APPROX))
        return decode_refuse(d, ".approx is missing");
    op->class_ = EMU_CLASS_special;
    op->exec = emu_float_exec(table[mode.type == EMU_F32 ? 0 : mode.flags & EMU_FTZ ? 2 : 1]);
    return true;
}

/* ---- sin cos lg2 ex2 tanh --------------------------------------------------------------------------- */
static uint32_t ex2_f16(uint32_t h) { return ex2_half((double)emu_f16_to_f32(h), &emu_format_f16, -0x1p-24); }
static uint32_t ex2_bf16(uint32_t h)
{
    const uint32_t flushed = h & 0x7f80 ? h : 0;
    const uint32_t power = ex2_half((double)emu_bf16_to_f32(flushed), &emu_format_bf16, -0x1.fep-24);
    return power & 0x7f80 ? power : 0;
}
static uint32_t tanh_f16(uint32_t h)
{
    return emu_narrow(tanh((double)emu_f16_to_f32(h)), &emu_format_f16, EMU_RN, false);
}
static uint32_t tanh_bf16(uint32_t h)
{
    return emu_narrow(tanh((double)emu_bf16_to_f32(h)), &emu_format_bf16, EMU_RN, false);
}
#define LIBM_HALF(name, function)                                                            \
    static void name(struct emu_warp *w, const struct emu_op *op, uint32_t mask)             \
    {                                                                                        \
        uint32_t       *d = emu_r32(w, op->result[0]);                                       \
        const uint32_t *a = emu_r32(w, op->source[0]);                                       \
        EMU_FOR_LANES(mask, l, d[l] = function(a[l] & 0xffff));                              \
    }                                                                                        \
    static void name##_x2(struct emu_warp *w, const struct emu_op *op, uint32_t mask)        \
    {                                                                                        \
        uint32_t       *d = emu_r32(w, op->result[0]);                                       \
        const uint32_t *a = emu_r32(w, op->source[0]);                                       \
        EMU_FOR_LANES(mask, l, d[l] = function(a[l] & 0xffff) | function(a[l] >> 16) << 16); \
    }
LIBM_HALF(exec_ex2_f16, ex2_f16)
LIBM_HALF(exec_ex2_bf16, ex2_bf16)
LIBM_HALF(exec_tanh_f16, tanh_f16)
LIBM_HALF(exec_tanh_bf16, tanh_bf16)

static bool special(struct decoder *d, struct emu_op *op, const unsigned int modes[EMU_FLOAT_TYPES],
                    struct emu_float_mode *mode)
{
    if (!emu_float_modifiers(d, modes, mode) || !emu_float_operands(d, op, mode, 1))
        return false;
    if (!(mode->flags & EMU_APPROX))
        return decode_refuse(d, ".approx is missing");
    if (mode->type == EMU_BF16 || mode->type == EMU_BF16X2)
        decode_need_sm(d, 90);
    op->class_ = EMU_CLASS_special;
    return !d->failed;
}
static bool special_f32(struct decoder *d, struct emu_op *op, emu_exec *exec)
{
    static const unsigned int modes[EMU_FLOAT_TYPES] = {[EMU_F32] = EMU_HAS | EMU_APPROX | EMU_FTZ};
    struct emu_float_mode     mode;
    op->exec = exec;
    return special(d, op, modes, &mode);
}
bool decode_sin(struct decoder *d, struct emu_op *op) { return special_f32(d, op, exec_sin); }
bool decode_cos(struct decoder *d, struct emu_op *op) { return special_f32(d, op, exec_cos); }
bool decode_lg2(struct decoder *d, struct emu_op *op) { return special_f32(d, op, exec_lg2); }

bool decode_ex2(struct decoder *d, struct emu_op *op)
{
    enum { ALL = EMU_HAS | EMU_APPROX };
    static const unsigned int         modes[EMU_FLOAT_TYPES] = {[EMU_F32] = ALL | EMU_FTZ,
                                                                [EMU_F16] = ALL,
                                                                [EMU_F16X2] = ALL,
                                                                [EMU_BF16] = ALL | EMU_FTZ,
                                                                [EMU_BF16X2] = ALL | EMU_FTZ};
    static const struct emu_exec_pair f32[2] = {EMU_PAIR(exec_ex2), EMU_PAIR(exec_ex2_ftz)};
    static emu_exec *const half[4] = {exec_ex2_f16, exec_ex2_f16_x2, exec_ex2_bf16, exec_ex2_bf16_x2};
    struct emu_float_mode  mode;
    if (!special(d, op, modes, &mode))
        return false;
    if (mode.type >= EMU_BF16 && !(mode.flags & EMU_FTZ))
        return decode_refuse(d, ".ftz is missing");
    op->exec = mode.type == EMU_F32 ? emu_float_exec(f32[mode.flags & EMU_FTZ]) : half[mode.type - EMU_F16];
    return true;
}
bool decode_tanh(struct decoder *d, struct emu_op *op)
{
    enum { ALL = EMU_HAS | EMU_APPROX };
    static const unsigned int modes[EMU_FLOAT_TYPES] =
        {[EMU_F32] = ALL, [EMU_F16] = ALL, [EMU_F16X2] = ALL, [EMU_BF16] = ALL, [EMU_BF16X2] = ALL};
    static emu_exec *const half[4] = {exec_tanh_f16, exec_tanh_f16_x2, exec_tanh_bf16, exec_tanh_bf16_x2};
    struct emu_float_mode  mode;
    if (!special(d, op, modes, &mode))
        return false;
    op->exec = mode.type == EMU_F32 ? exec_tanh : half[mode.type - EMU_F16];
    return true;
}
