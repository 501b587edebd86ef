/* alu_float.c - floating-point arithmetic: modifiers, decoders of add sub mul fma mad, and f32 to nearest.
 *
 * f32 runs as vectors.  A fused multiply-add uses the host's instruction if there is one; otherwise it is
 * computed in double, rounded to odd, and then to float, which gives the same bits. */
#include "alu_float.h"
#include "float_lanes.h"

emu_exec *emu_float_exec(struct emu_exec_pair pair)
{
#if defined(__x86_64__) && defined(__GNUC__)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? pair.wide : pair.plain;
#else
    return pair.plain;
#endif
}

/* ---- f32 -------------------------------------------------------------------------------------------- */
EMU_INLINE uint32_t input(uint32_t u, unsigned int flags) { return emu_if(flags & EMU_FTZ, emu_ftz_f32(u), u); }
/* `tiny`: the value, rounded to 24 bits with any exponent, is less than 2^-126. */
EMU_INLINE uint32_t output(float value, bool tiny, unsigned int flags)
{
    const uint32_t u = emu_bits_of(value), flushed = emu_if(tiny, u & 0x80000000, emu_ftz_f32(u));
    const uint32_t number = emu_if(flags & EMU_FTZ, flushed, u);
    return emu_if(flags & EMU_SAT, emu_sat_f32(number), emu_canonical_f32(number));
}
#define OPERAND(x) emu_float_of(input(x, flags))
/* Sums that small are exact. */
EMU_INLINE uint32_t add(uint32_t a, uint32_t b, unsigned int flags)
{
    return output(OPERAND(a) + OPERAND(b), false, flags);
}
EMU_INLINE uint32_t sub(uint32_t a, uint32_t b, unsigned int flags)
{
    return output(OPERAND(a) - OPERAND(b), false, flags);
}
/* Times 2^24 there are no subnormals, so this product shows which results are tiny. */
EMU_INLINE uint32_t mul(uint32_t a, uint32_t b, unsigned int flags)
{
    const float x = OPERAND(a), y = OPERAND(b);
    return output(x * y, __builtin_fabsf(x * 0x1p24f * y) < 0x1p-102f, flags);
}
EMU_INLINE uint32_t fused(uint32_t a, uint32_t b, uint32_t c, unsigned int flags)
{
    const double sum = emu_sum_to_odd((double)OPERAND(a) * (double)OPERAND(b), (double)OPERAND(c));
    return output((float)sum, __builtin_fabs(sum) < 0x1.ffffffp-127, flags);
}
EMU_INLINE uint32_t fused_host(uint32_t a, uint32_t b, uint32_t c, unsigned int flags)
{
    const float x = OPERAND(a), y = OPERAND(b), z = OPERAND(c);
    const float raised = __builtin_fmaf(x * 0x1p24f, y, z * 0x1p24f);
    return output(__builtin_fmaf(x, y, z), __builtin_fabsf(raised) < 0x1p-102f, flags);
}

/* Two f32 in 64 bits. */
#define TWICE(call_low, call_high) ((uint64_t)(call_low) | (uint64_t)(call_high) << 32)
#define LOW(x)                     ((uint32_t)(x))
#define HIGH(x)                    ((uint32_t)((x) >> 32))

#define FMA_HOST(a, b, c) fused_host(a, b, c, MODE)
#ifdef __FP_FAST_FMAF /* every host of this architecture has FMA */
#define FMA_PLAIN FMA_HOST
#else
#define FMA_PLAIN(a, b, c) fused(a, b, c, MODE)
#endif
#define ADD(a, b)       add(a, b, MODE)
#define SUB(a, b)       sub(a, b, MODE)
#define MUL(a, b)       mul(a, b, MODE)
#define ADD_X2(a, b)    TWICE(add(LOW(a), LOW(b), MODE), add(HIGH(a), HIGH(b), MODE))
#define SUB_X2(a, b)    TWICE(sub(LOW(a), LOW(b), MODE), sub(HIGH(a), HIGH(b), MODE))
#define MUL_X2(a, b)    TWICE(mul(LOW(a), LOW(b), MODE), mul(HIGH(a), HIGH(b), MODE))
#define FMA_X2(a, b, c) TWICE(fused(LOW(a), LOW(b), LOW(c), MODE), fused(HIGH(a), HIGH(b), HIGH(c), MODE))
#define ARITHMETIC(suffix)                                        \
    EMU_FLOAT_2(exec_add##suffix, ADD)                            \
    EMU_FLOAT_2(exec_sub##suffix, SUB)                            \
    EMU_FLOAT_2(exec_mul##suffix, MUL)                            \
    EMU_LANES_3(, exec_fma##suffix, uint32_t, emu_r32, FMA_PLAIN) \
    EMU_LANES_3(EMU_WIDE, exec_fma##suffix##_wide, uint32_t, emu_r32, FMA_HOST)
#define ARITHMETIC_X2(suffix)                                  \
    EMU_LANES_2(, exec_add##suffix, uint64_t, emu_r64, ADD_X2) \
    EMU_LANES_2(, exec_sub##suffix, uint64_t, emu_r64, SUB_X2) \
    EMU_LANES_2(, exec_mul##suffix, uint64_t, emu_r64, MUL_X2) \
    EMU_LANES_3(, exec_fma##suffix, uint64_t, emu_r64, FMA_X2)

#define MODE 0
ARITHMETIC()
ARITHMETIC_X2(_x2)
#undef MODE
#define MODE EMU_FTZ
ARITHMETIC(_ftz)
ARITHMETIC_X2(_ftz_x2)
#undef MODE
#define MODE flags /* .sat, with or without .ftz, is rarer, so the flags are tested at run time */
ARITHMETIC(_any)
#undef MODE

static emu_exec *exec_f32(enum emu_arithmetic operation, unsigned int flags)
{
    static const struct emu_exec_pair table[EMU_ARITHMETIC][3] =
        {{EMU_PAIR(exec_add), EMU_PAIR(exec_add_ftz), EMU_PAIR(exec_add_any)},
         {EMU_PAIR(exec_sub), EMU_PAIR(exec_sub_ftz), EMU_PAIR(exec_sub_any)},
         {EMU_PAIR(exec_mul), EMU_PAIR(exec_mul_ftz), EMU_PAIR(exec_mul_any)},
         {EMU_PAIR(exec_fma), EMU_PAIR(exec_fma_ftz), EMU_PAIR(exec_fma_any)}};
    return emu_float_exec(table[operation][flags & EMU_SAT ? 2 : flags & EMU_FTZ ? 1 : 0]);
}
static emu_exec *exec_f32x2(enum emu_arithmetic operation, unsigned int flags)
{
    static emu_exec *const table[EMU_ARITHMETIC][2] = {{exec_add_x2, exec_add_ftz_x2},
                                                       {exec_sub_x2, exec_sub_ftz_x2},
                                                       {exec_mul_x2, exec_mul_ftz_x2},
                                                       {exec_fma_x2, exec_fma_ftz_x2}};
    return table[operation][flags & EMU_FTZ ? 1 : 0];
}

/* ---- modifiers and operands ------------------------------------------------------------------------- */
static const char *const type_words[] = {"f32", "f64", "f16", "f16x2", "bf16", "bf16x2", "f32x2", NULL};

bool decode_is_float(const struct decoder *d)
{
    const char *word;
    for (unsigned int at = 0; (word = decode_unread(d, &at)) != NULL;)
        for (int i = 0; type_words[i]; i++)
            if (!strcmp(word, type_words[i]))
                return true;
    return false;
}

static void take_modifiers(struct decoder *d, struct emu_float_mode *mode)
{
    static const char *const roundings[] = {"rn", "rz", "rm", "rp", NULL};
    static const struct {
        const char  *word;
        unsigned int flag;
    } words[] = {{"approx", EMU_APPROX}, {"full", EMU_FULL}, {"ftz", EMU_FTZ},         {"sat", EMU_SAT},
                 {"relu", EMU_RELU},     {"NaN", EMU_NAN},   {"xorsign", EMU_XORSIGN}, {"abs", EMU_ABS}};
    const int rounding = decode_one_of(d, roundings);
    mode->rounding = rounding < 0 ? EMU_RN : (enum emu_rounding)rounding;
    mode->flags = rounding < 0 ? 0 : EMU_ROUNDS;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (decode_take(d, words[i].word))
            mode->flags |= words[i].flag;
}

bool emu_float_modifiers(struct decoder *d, const unsigned int allowed[EMU_FLOAT_TYPES],
                         struct emu_float_mode *mode)
{
    static const enum ptx_type operands[] = {PTX_f32,  PTX_f64,    PTX_f16, PTX_f16x2,
                                             PTX_bf16, PTX_bf16x2, PTX_b64};
    take_modifiers(d, mode);
    const int type = decode_one_of(d, type_words);
    if (type < 0)
        return decode_refuse(d, "a type is missing");
    mode->type = (enum emu_float_type)type;
    mode->operand = operands[type];
    const unsigned int has = allowed[type], modes = EMU_NEAREST | EMU_DIRECTED;
    if (!(has & EMU_HAS))
        return decode_refuse(d, "there is no such instruction for .%s", type_words[type]);
    if (mode->flags & ~has & ~(unsigned int)EMU_ROUNDS)
        return decode_refuse(d, "a modifier does not exist for .%s", type_words[type]);
    if ((mode->flags & EMU_ROUNDS && !(has & modes)) || (mode->rounding != EMU_RN && !(has & EMU_DIRECTED)))
        return decode_refuse(d, "the rounding mode does not exist for .%s", type_words[type]);
    if (has & EMU_ROUNDS && !(mode->flags & (EMU_ROUNDS | EMU_APPROX | EMU_FULL)))
        return decode_refuse(d, "a rounding mode is missing");
    if (type == EMU_F32X2)
        decode_need_sm(d, 100);
    return decode_end(d);
}

bool emu_float_operands(struct decoder *d, struct emu_op *op, const struct emu_float_mode *mode,
                        unsigned int sources)
{
    if (!decode_operands(d, sources + 1, sources + 1))
        return false;
    decode_result(d, 0, mode->operand);
    for (unsigned int i = 1; i <= sources; i++)
        decode_source(d, i, mode->operand);
    op->u8[0] = (uint8_t)mode->rounding;
    op->u8[1] = (uint8_t)(mode->flags & 0x3f);
    const bool half = mode->type >= EMU_F16 && mode->type <= EMU_BF16X2;
    op->class_ = half ? EMU_CLASS_half : EMU_CLASS_floating;
    return !d->failed;
}

/* ---- add sub mul fma mad ---------------------------------------------------------------------------- */
static bool arithmetic(struct decoder *d, struct emu_op *op, enum emu_arithmetic operation,
                       const unsigned int allowed[EMU_FLOAT_TYPES])
{
    static emu_exec *const directed[EMU_FLOAT_TYPES] = {[EMU_F32] = emu_exec_directed_f32,
                                                        [EMU_F64] = emu_exec_directed_f64,
                                                        [EMU_BF16] = emu_exec_directed_bf16,
                                                        [EMU_BF16X2] = emu_exec_directed_bf16,
                                                        [EMU_F32X2] = emu_exec_directed_f32x2};
    struct emu_float_mode  mode;
    if (!emu_float_modifiers(d, allowed, &mode) ||
        !emu_float_operands(d, op, &mode, operation == EMU_FMA ? 3 : 2))
        return false;
    op->u8[2] = (uint8_t)operation;
    if (mode.type == EMU_BF16 || mode.type == EMU_BF16X2)
        decode_need_sm(d, operation == EMU_FMA ? 80 : 90);
    if (mode.rounding != EMU_RN)
        op->exec = directed[mode.type];
    else if (mode.type == EMU_F32)
        op->exec = exec_f32(operation, mode.flags);
    else if (mode.type == EMU_F32X2)
        op->exec = exec_f32x2(operation, mode.flags);
    else if (mode.type == EMU_F64)
        op->exec = emu_arithmetic_f64(operation);
    else
        op->exec = emu_arithmetic_half(operation, &mode);
    return !d->failed;
}

static const unsigned int sum_modes[EMU_FLOAT_TYPES] = {[EMU_F32] = EMU_HAS | EMU_DIRECTED | EMU_FTZ | EMU_SAT,
                                                        [EMU_F64] = EMU_HAS | EMU_DIRECTED,
                                                        [EMU_F16] = EMU_HAS | EMU_NEAREST | EMU_FTZ | EMU_SAT,
                                                        [EMU_F16X2] = EMU_HAS | EMU_NEAREST | EMU_FTZ | EMU_SAT,
                                                        [EMU_BF16] = EMU_HAS | EMU_NEAREST,
                                                        [EMU_BF16X2] = EMU_HAS | EMU_NEAREST,
                                                        [EMU_F32X2] = EMU_HAS | EMU_DIRECTED | EMU_FTZ};

bool decode_float_add(struct decoder *d, struct emu_op *op) { return arithmetic(d, op, EMU_ADD, sum_modes); }
bool decode_float_sub(struct decoder *d, struct emu_op *op) { return arithmetic(d, op, EMU_SUB, sum_modes); }
bool decode_float_mul(struct decoder *d, struct emu_op *op) { return arithmetic(d, op, EMU_MUL, sum_modes); }
bool decode_fma(struct decoder *d, struct emu_op *op)
{
    enum { ANY = EMU_HAS | EMU_ROUNDS, HALF = ANY | EMU_NEAREST | EMU_RELU };
    static const unsigned int modes[EMU_FLOAT_TYPES] = {[EMU_F32] = ANY | EMU_DIRECTED | EMU_FTZ | EMU_SAT,
                                                        [EMU_F64] = ANY | EMU_DIRECTED,
                                                        [EMU_F16] = HALF | EMU_FTZ | EMU_SAT,
                                                        [EMU_F16X2] = HALF | EMU_FTZ | EMU_SAT,
                                                        [EMU_BF16] = HALF | EMU_DIRECTED,
                                                        [EMU_BF16X2] = HALF | EMU_DIRECTED,
                                                        [EMU_F32X2] = ANY | EMU_DIRECTED | EMU_FTZ};
    return arithmetic(d, op, EMU_FMA, modes);
}
bool decode_float_mad(struct decoder *d, struct emu_op *op)
{
    static const unsigned int modes[EMU_FLOAT_TYPES] = {[EMU_F32] = EMU_HAS | EMU_ROUNDS | EMU_DIRECTED |
                                                                    EMU_FTZ | EMU_SAT,
                                                        [EMU_F64] = EMU_HAS | EMU_ROUNDS | EMU_DIRECTED};
    return arithmetic(d, op, EMU_FMA, modes);
}
