/* alu_minmax.c - min max abs neg testp copysign of floating-point types.
 *
 * f16 and bf16 are moved to the top of 32 bits, where all three formats differ only in the value of infinity.
 * Values are compared as integers in sign and magnitude, so that -0 is less than +0. */
#include "alu_float.h"
#include "float_lanes.h"

enum { INFINITY_F32 = 0x7f800000, INFINITY_F16 = 0x7c000000 };
#define SIGN      0x80000000u
#define MAGNITUDE 0x7fffffffu

EMU_INLINE bool is_nan(uint32_t u, uint32_t infinity) { return (int32_t)(u & MAGNITUDE) > (int32_t)infinity; }
EMU_INLINE uint32_t flushed(uint32_t u, uint32_t infinity, unsigned int flags)
{
    return emu_if(((flags & EMU_FTZ) != 0) & ((u & infinity) == 0), u & SIGN, u);
}
EMU_INLINE int32_t key(uint32_t u) { return (int32_t)(u & SIGN ? ~u ^ SIGN : u); }

/* If one operand is NaN, the result is the other operand, or with .NaN it is NaN. */
EMU_INLINE uint32_t choose(uint32_t a, uint32_t b, uint32_t infinity, unsigned int flags, bool larger)
{
    const uint32_t kept = flags & EMU_ABS ? MAGNITUDE : 0xffffffffu;
    const uint32_t sign = flags & EMU_XORSIGN ? (a ^ b) & SIGN : 0;
    const uint32_t x = flushed(a, infinity, flags) & kept, y = flushed(b, infinity, flags) & kept;
    const bool     nan_x = is_nan(x, infinity), nan_y = is_nan(y, infinity);
    const bool     nan = (nan_x & nan_y) | ((nan_x | nan_y) & ((flags & EMU_NAN) != 0));
    const bool     first = larger ? key(x) > key(y) : key(x) < key(y);
    const uint32_t number = emu_if(nan_x, y, emu_if(nan_y | first, x, y));
    return emu_if(nan, EMU_NAN_F32, number | sign);
}

#define MIN_F32(a, b)  choose(a, b, INFINITY_F32, 0, false)
#define MAX_F32(a, b)  choose(a, b, INFINITY_F32, 0, true)
#define MIN_FTZ(a, b)  choose(a, b, INFINITY_F32, EMU_FTZ, false)
#define MAX_FTZ(a, b)  choose(a, b, INFINITY_F32, EMU_FTZ, true)
#define MIN_ANY(a, b)  choose(a, b, INFINITY_F32, flags, false)
#define MAX_ANY(a, b)  choose(a, b, INFINITY_F32, flags, true)
#define MIN_3(a, b, c) MIN_ANY(MIN_ANY(a, b), c)
#define MAX_3(a, b, c) MAX_ANY(MAX_ANY(a, b), c)
EMU_FLOAT_2(exec_min_f32, MIN_F32)
EMU_FLOAT_2(exec_max_f32, MAX_F32)
EMU_FLOAT_2(exec_min_ftz, MIN_FTZ)
EMU_FLOAT_2(exec_max_ftz, MAX_FTZ)
EMU_FLOAT_2(exec_min_any, MIN_ANY)
EMU_FLOAT_2(exec_max_any, MAX_ANY)
EMU_FLOAT_3(exec_min_3, MIN_3)
EMU_FLOAT_3(exec_max_3, MAX_3)

/* Halves at the top of 32 bits, and back. */
#define ONE(a, b, infinity, larger) (choose((a) << 16, (b) << 16, infinity, flags, larger) >> 16)
#define TWO(a, b, infinity, larger) \
    (ONE(a, b, infinity, larger) |  \
     (choose((a)&0xffff0000, (b)&0xffff0000, infinity, flags, larger) & 0xffff0000))
#define MIN_F16(a, b)    ONE(a, b, INFINITY_F16, false)
#define MAX_F16(a, b)    ONE(a, b, INFINITY_F16, true)
#define MIN_F16X2(a, b)  TWO(a, b, INFINITY_F16, false)
#define MAX_F16X2(a, b)  TWO(a, b, INFINITY_F16, true)
#define MIN_BF16(a, b)   ONE(a, b, INFINITY_F32, false)
#define MAX_BF16(a, b)   ONE(a, b, INFINITY_F32, true)
#define MIN_BF16X2(a, b) TWO(a, b, INFINITY_F32, false)
#define MAX_BF16X2(a, b) TWO(a, b, INFINITY_F32, true)
EMU_FLOAT_2(exec_min_f16, MIN_F16)
EMU_FLOAT_2(exec_max_f16, MAX_F16)
EMU_FLOAT_2(exec_min_f16x2, MIN_F16X2)
EMU_FLOAT_2(exec_max_f16x2, MAX_F16X2)
EMU_FLOAT_2(exec_min_bf16, MIN_BF16)
EMU_FLOAT_2(exec_max_bf16, MAX_BF16)
EMU_FLOAT_2(exec_min_bf16x2, MIN_BF16X2)
EMU_FLOAT_2(exec_max_bf16x2, MAX_BF16X2)

/* ---- f64: the result of two NaNs is the second one, made quiet ---------------------------------------- */
#define SIGN_64 (1ull << 63)
EMU_INLINE bool     is_nan_64(uint64_t u) { return (u & ~SIGN_64) > 0x7ff0000000000000ull; }
EMU_INLINE uint64_t quiet_64(uint64_t u) { return is_nan_64(u) ? u | 1ull << 51 : u; }
EMU_INLINE int64_t  key_64(uint64_t u) { return (int64_t)(u & SIGN_64 ? ~u ^ SIGN_64 : u); }
EMU_INLINE uint64_t choose_64(uint64_t a, uint64_t b, bool larger)
{
    const bool first = larger ? key_64(a) > key_64(b) : key_64(a) < key_64(b);
    return quiet_64(is_nan_64(a) ? b : is_nan_64(b) ? a : first ? a : b);
}
#define MIN_64(a, b) choose_64(a, b, false)
#define MAX_64(a, b) choose_64(a, b, true)
EMU_DOUBLE_2(exec_min_f64, MIN_64)
EMU_DOUBLE_2(exec_max_f64, MAX_64)

static bool choose_three(struct decoder *d, struct emu_op *op, bool larger, const struct emu_float_mode *mode)
{
    static const struct emu_exec_pair table[2] = {EMU_PAIR(exec_min_3), EMU_PAIR(exec_max_3)};
    if (mode->type != EMU_F32 || mode->flags & EMU_XORSIGN)
        return decode_refuse(d, "only .f32 without .xorsign can have three inputs");
    decode_need_sm(d, 100);
    op->exec = emu_float_exec(table[larger]);
    return emu_float_operands(d, op, mode, 3);
}

static bool minmax(struct decoder *d, struct emu_op *op, bool larger)
{
    enum { ALL = EMU_HAS | EMU_NAN | EMU_XORSIGN | EMU_ABS };
    static const unsigned int modes[EMU_FLOAT_TYPES] =
        {[EMU_F32] = ALL | EMU_FTZ,   [EMU_F64] = EMU_HAS, [EMU_F16] = ALL | EMU_FTZ,
         [EMU_F16X2] = ALL | EMU_FTZ, [EMU_BF16] = ALL,    [EMU_BF16X2] = ALL};
    static const struct emu_exec_pair table[2][EMU_FLOAT_TYPES] = {EMU_FLOAT_ROW(exec_min),
                                                                   EMU_FLOAT_ROW(exec_max)};
    static const struct emu_exec_pair ftz[2] = {EMU_PAIR(exec_min_ftz), EMU_PAIR(exec_max_ftz)};
    static const struct emu_exec_pair any[2] = {EMU_PAIR(exec_min_any), EMU_PAIR(exec_max_any)};
    struct emu_float_mode             mode;
    if (!emu_float_modifiers(d, modes, &mode))
        return false;
    if (decode_operand_count(d) == 4)
        return choose_three(d, op, larger, &mode);
    if (mode.flags & EMU_XORSIGN ? !(mode.flags & EMU_ABS) : mode.flags & EMU_ABS)
        return decode_refuse(d, ".xorsign and .abs need each other");
    if (mode.flags & EMU_XORSIGN)
        decode_need_sm(d, 86);
    if (mode.flags & EMU_NAN || mode.type > EMU_F64)
        decode_need_sm(d, 80);
    if (!emu_float_operands(d, op, &mode, 2))
        return false;
    struct emu_exec_pair pair = table[larger][mode.type];
    if (mode.type == EMU_F32 && mode.flags)
        pair = mode.flags == EMU_FTZ ? ftz[larger] : any[larger];
    op->exec = emu_float_exec(pair);
    return !d->failed;
}
bool decode_float_min(struct decoder *d, struct emu_op *op) { return minmax(d, op, false); }
bool decode_float_max(struct decoder *d, struct emu_op *op) { return minmax(d, op, true); }

/* ---- abs neg: NaN becomes canonical, but an f64 NaN only quiet -------------------------------------- */
EMU_INLINE uint32_t with_sign(uint32_t u, uint32_t infinity, unsigned int flags, bool negate)
{
    const uint32_t value = flushed(negate ? u ^ SIGN : u & MAGNITUDE, infinity, flags);
    return emu_if(is_nan(u, infinity), EMU_NAN_F32, value);
}
#define SIGN_F32(a) with_sign(a, INFINITY_F32, flags, NEGATE)
#define SIGN_ONE(a) (with_sign((a) << 16, HALF_INFINITY, flags, NEGATE) >> 16)
#define SIGN_TWO(a) (SIGN_ONE(a) | (with_sign((a)&0xffff0000, HALF_INFINITY, flags, NEGATE) & 0xffff0000))
#define SIGN_F64(a) (is_nan_64(a) ? quiet_64(a) : NEGATE ? (a) ^ SIGN_64 : (a) & ~SIGN_64)

#define NEGATE false
EMU_FLOAT_1(exec_abs_f32, SIGN_F32)
EMU_DOUBLE_1(exec_abs_f64, SIGN_F64)
#define HALF_INFINITY INFINITY_F16
EMU_FLOAT_1(exec_abs_f16, SIGN_ONE)
EMU_FLOAT_1(exec_abs_f16x2, SIGN_TWO)
#undef HALF_INFINITY
#define HALF_INFINITY INFINITY_F32
EMU_FLOAT_1(exec_abs_bf16, SIGN_ONE)
EMU_FLOAT_1(exec_abs_bf16x2, SIGN_TWO)
#undef HALF_INFINITY
#undef NEGATE
#define NEGATE true
EMU_FLOAT_1(exec_neg_f32, SIGN_F32)
EMU_DOUBLE_1(exec_neg_f64, SIGN_F64)
#define HALF_INFINITY INFINITY_F16
EMU_FLOAT_1(exec_neg_f16, SIGN_ONE)
EMU_FLOAT_1(exec_neg_f16x2, SIGN_TWO)
#undef HALF_INFINITY
#define HALF_INFINITY INFINITY_F32
EMU_FLOAT_1(exec_neg_bf16, SIGN_ONE)
EMU_FLOAT_1(exec_neg_bf16x2, SIGN_TWO)
#undef HALF_INFINITY
#undef NEGATE

static bool sign_change(struct decoder *d, struct emu_op *op, bool negate)
{
    static const unsigned int modes[EMU_FLOAT_TYPES] =
        {[EMU_F32] = EMU_HAS | EMU_FTZ,   [EMU_F64] = EMU_HAS,  [EMU_F16] = EMU_HAS | EMU_FTZ,
         [EMU_F16X2] = EMU_HAS | EMU_FTZ, [EMU_BF16] = EMU_HAS, [EMU_BF16X2] = EMU_HAS};
    static const struct emu_exec_pair table[2][EMU_FLOAT_TYPES] = {EMU_FLOAT_ROW(exec_abs),
                                                                   EMU_FLOAT_ROW(exec_neg)};
    struct emu_float_mode             mode;
    if (!emu_float_modifiers(d, modes, &mode) || !emu_float_operands(d, op, &mode, 1))
        return false;
    if (mode.type == EMU_BF16 || mode.type == EMU_BF16X2)
        decode_need_sm(d, 80);
    op->exec = emu_float_exec(table[negate][mode.type]);
    return !d->failed;
}
bool decode_float_abs(struct decoder *d, struct emu_op *op) { return sign_change(d, op, false); }
bool decode_float_neg(struct decoder *d, struct emu_op *op) { return sign_change(d, op, true); }

/* ---- copysign: the sign of a, the rest of b --------------------------------------------------------- */
#define COPYSIGN_32(a, b) (((a)&SIGN) | ((b)&MAGNITUDE))
#define COPYSIGN_64(a, b) (((a)&SIGN_64) | ((b) & ~SIGN_64))
EMU_FLOAT_2(exec_copysign_f32, COPYSIGN_32)
EMU_DOUBLE_2(exec_copysign_f64, COPYSIGN_64)

bool decode_copysign(struct decoder *d, struct emu_op *op)
{
    static const unsigned int         modes[EMU_FLOAT_TYPES] = {[EMU_F32] = EMU_HAS, [EMU_F64] = EMU_HAS};
    static const struct emu_exec_pair table[2] = {EMU_PAIR(exec_copysign_f32), EMU_PAIR(exec_copysign_f64)};
    struct emu_float_mode             mode;
    if (!emu_float_modifiers(d, modes, &mode) || !emu_float_operands(d, op, &mode, 2))
        return false;
    op->exec = emu_float_exec(table[mode.type]);
    return true;
}

/* ---- testp ------------------------------------------------------------------------------------------ */
enum property { FINITE, INFINITE, NUMBER, NOT_A_NUMBER, NORMAL, SUBNORMAL };

/* The argument is a magnitude; a zero counts as normal. */
static bool has_property(enum property p, uint64_t magnitude, uint64_t infinity, uint64_t least_normal)
{
    switch (p) {
    case FINITE:
        return magnitude < infinity;
    case INFINITE:
        return magnitude == infinity;
    case NUMBER:
        return magnitude <= infinity;
    case NOT_A_NUMBER:
        return magnitude > infinity;
    case NORMAL:
        return magnitude < infinity && (magnitude >= least_normal || !magnitude);
    default:
        return magnitude && magnitude < least_normal;
    }
}
static void exec_testp_f32(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const uint32_t     *a = emu_r32(w, op->source[0]);
    const enum property p = (enum property)op->u8[2];
    uint32_t            bits = 0;
    for (int l = 0; l < EMU_LANES; l++)
        bits |= (uint32_t)has_property(p, a[l] & MAGNITUDE, INFINITY_F32, 1u << 23) << l;
    emu_set_pred(w, op->result[0], mask, bits);
}
static void exec_testp_f64(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const uint64_t     *a = emu_r64(w, op->source[0]);
    const enum property p = (enum property)op->u8[2];
    uint32_t            bits = 0;
    for (int l = 0; l < EMU_LANES; l++)
        bits |= (uint32_t)has_property(p, a[l] & ~SIGN_64, 0x7ff0000000000000ull, 1ull << 52) << l;
    emu_set_pred(w, op->result[0], mask, bits);
}

bool decode_testp(struct decoder *d, struct emu_op *op)
{
    static const char *const words[] = {"finite", "infinite",  "number", "notanumber",
                                        "normal", "subnormal", NULL};
    const int                property = decode_one_of(d, words);
    if (property < 0)
        return decode_refuse(d, "the property is missing: .finite, .infinite, .number, ...");
    const enum ptx_type type = decode_type(d);
    if (type != PTX_f32 && type != PTX_f64)
        return decode_refuse(d, "the type must be .f32 or .f64");
    if (!decode_end(d) || !decode_operands(d, 2, 2))
        return false;
    decode_result_pred(d, decode_operand(d, 0));
    decode_source(d, 1, type);
    op->u8[2] = (uint8_t)property;
    op->exec = type == PTX_f32 ? exec_testp_f32 : exec_testp_f64;
    op->class_ = EMU_CLASS_compare;
    return !d->failed;
}
