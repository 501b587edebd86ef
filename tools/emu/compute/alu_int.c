/* alu_int.c - integer arithmetic; for floating-point types, the decoders call those of alu_float.h. */
#include "alu.h"
#include "alu_float.h"

__extension__ typedef __int128          emu_s128;
__extension__ typedef unsigned __int128 emu_u128;

/* ---- add, sub ------------------------------------------------------------------------------------------ */
static inline uint32_t saturate_s32(int64_t v)
{
    return v > INT32_MAX ? (uint32_t)INT32_MAX : v < INT32_MIN ? (uint32_t)INT32_MIN : (uint32_t)v;
}

ALU_2(add_16, uint32_t, uint32_t, (uint16_t)(a + b))
ALU_2(add_32, uint32_t, uint32_t, a + b)
ALU_2(add_64, uint64_t, uint64_t, a + b)
ALU_2(add_sat, uint32_t, int32_t, saturate_s32((int64_t)a + b))
ALU_2(add_16x2, uint32_t, uint32_t, ((a + b) & 0xffffu) | ((a & 0xffff0000u) + (b & 0xffff0000u)))
ALU_2(sub_16, uint32_t, uint32_t, (uint16_t)(a - b))
ALU_2(sub_32, uint32_t, uint32_t, a - b)
ALU_2(sub_64, uint64_t, uint64_t, a - b)
ALU_2(sub_sat, uint32_t, int32_t, saturate_s32((int64_t)a - b))

/* Pairs of 16-bit types need sm_90. */
static bool take_pair(struct decoder *d, const char *word)
{
    return decode_take(d, word) && decode_need_sm(d, 90) && decode_need_isa(d, 80);
}

static bool decode_sum(struct decoder *d, struct emu_op *op, alu_table table, emu_exec *saturated,
                       enum alu_carry_kind kind)
{
    bool          sat;
    enum ptx_type type;
    if (decode_take(d, "cc"))
        return alu_decode_carry(d, op, kind, false, true);
    sat = decode_take(d, "sat");
    type = decode_type(d);
    if (sat && type != PTX_s32)
        return decode_refuse(d, "only .s32 has .sat");
    return alu_finish(d, op, sat ? saturated : table[type], type, type, 2);
}

bool decode_add(struct decoder *d, struct emu_op *op)
{
    static alu_table table = {[PTX_u16] = exec_add_16, [PTX_u32] = exec_add_32, [PTX_u64] = exec_add_64,
                              [PTX_s16] = exec_add_16, [PTX_s32] = exec_add_32, [PTX_s64] = exec_add_64};
    if (decode_is_float(d))
        return decode_float_add(d, op);
    if (take_pair(d, "u16x2") || take_pair(d, "s16x2"))
        return alu_finish(d, op, exec_add_16x2, PTX_f16x2, PTX_f16x2, 2);
    return decode_sum(d, op, table, exec_add_sat, ALU_CARRY_ADD);
}

bool decode_sub(struct decoder *d, struct emu_op *op)
{
    static alu_table table = {[PTX_u16] = exec_sub_16, [PTX_u32] = exec_sub_32, [PTX_u64] = exec_sub_64,
                              [PTX_s16] = exec_sub_16, [PTX_s32] = exec_sub_32, [PTX_s64] = exec_sub_64};
    if (decode_is_float(d))
        return decode_float_sub(d, op);
    return decode_sum(d, op, table, exec_sub_sat, ALU_CARRY_SUB);
}

/* ---- mul, mad ------------------------------------------------------------------------------------------ */
/* One expression for both: K truncates the result to its width, D and S are the rows of result and factors. */
#define PRODUCT(name, D, K, S, T, product)          \
    ALU_2X(mul_##name, D, S, T, S, T, (K)(product)) \
    ALU_3X(mad_##name, D, S, T, S, T, D, D, (K)((D)(product) + c))

static inline int32_t low24(int32_t v) { return (int32_t)((uint32_t)v << 8) >> 8; }

PRODUCT(lo_16, uint32_t, uint16_t, uint32_t, uint32_t, a *b)
PRODUCT(lo_32, uint32_t, uint32_t, uint32_t, uint32_t, a *b)
PRODUCT(lo_64, uint64_t, uint64_t, uint64_t, uint64_t, a *b)
PRODUCT(hi_u16, uint32_t, uint16_t, uint32_t, uint32_t, a *b >> 16)
PRODUCT(hi_s16, uint32_t, uint16_t, uint32_t, int16_t, (int32_t)a *b >> 16)
PRODUCT(hi_u32, uint32_t, uint32_t, uint32_t, uint32_t, (uint64_t)a *b >> 32)
PRODUCT(hi_s32, uint32_t, uint32_t, uint32_t, int32_t, (int64_t)a *b >> 32)
PRODUCT(hi_u64, uint64_t, uint64_t, uint64_t, uint64_t, (emu_u128)a *b >> 64)
PRODUCT(hi_s64, uint64_t, uint64_t, uint64_t, int64_t, (emu_s128)a *b >> 64)
PRODUCT(wide_u16, uint32_t, uint32_t, uint32_t, uint32_t, a *b)
PRODUCT(wide_s16, uint32_t, uint32_t, uint32_t, int16_t, (int32_t)a *b)
PRODUCT(wide_u32, uint64_t, uint64_t, uint32_t, uint32_t, (uint64_t)a *b)
PRODUCT(wide_s32, uint64_t, uint64_t, uint32_t, int32_t, (int64_t)a *b)
/* The low or the high 32 bits of the 48-bit product of two 24-bit factors. */
PRODUCT(lo24_u32, uint32_t, uint32_t, uint32_t, uint32_t, (a & 0xffffffu) * (b & 0xffffffu))
PRODUCT(lo24_s32, uint32_t, uint32_t, uint32_t, int32_t, (int64_t)low24(a) * low24(b))
PRODUCT(hi24_u32, uint32_t, uint32_t, uint32_t, uint32_t, (uint64_t)(a & 0xffffffu) * (b & 0xffffffu) >> 16)
PRODUCT(hi24_s32, uint32_t, uint32_t, uint32_t, int32_t, (int64_t)low24(a) * low24(b) >> 16)

ALU_3(mad_hi_sat, uint32_t, int32_t, saturate_s32(((int64_t)a * b >> 32) + c))
ALU_3(mad_hi24_sat, uint32_t, int32_t, saturate_s32(((int64_t)low24(a) * low24(b) >> 16) + c))

enum product { PRODUCT_LO, PRODUCT_HI, PRODUCT_WIDE, PRODUCT_MODES };
static const char *const product_words[] = {"lo", "hi", "wide", NULL};

#define PRODUCT_TABLE(op)                                                                                     \
    {                                                                                                         \
        {[PTX_u16] = exec_##op##_lo_16, [PTX_u32] = exec_##op##_lo_32, [PTX_u64] = exec_##op##_lo_64,         \
         [PTX_s16] = exec_##op##_lo_16, [PTX_s32] = exec_##op##_lo_32, [PTX_s64] = exec_##op##_lo_64},        \
            {[PTX_u16] = exec_##op##_hi_u16, [PTX_u32] = exec_##op##_hi_u32, [PTX_u64] = exec_##op##_hi_u64,  \
             [PTX_s16] = exec_##op##_hi_s16, [PTX_s32] = exec_##op##_hi_s32, [PTX_s64] = exec_##op##_hi_s64}, \
        {                                                                                                     \
            [PTX_u16] = exec_##op##_wide_u16, [PTX_u32] = exec_##op##_wide_u32,                               \
            [PTX_s16] = exec_##op##_wide_s16, [PTX_s32] = exec_##op##_wide_s32                                \
        }                                                                                                     \
    }

static enum ptx_type product_type(int mode, enum ptx_type type)
{
    if (mode != PRODUCT_WIDE)
        return type;
    return type == PTX_u16 ? PTX_u32 : type == PTX_s16 ? PTX_s32 : type == PTX_u32 ? PTX_u64 : PTX_s64;
}

bool decode_mul(struct decoder *d, struct emu_op *op)
{
    static alu_table table[PRODUCT_MODES] = PRODUCT_TABLE(mul);
    enum ptx_type    type;
    int              mode;
    if (decode_is_float(d))
        return decode_float_mul(d, op);
    mode = decode_one_of(d, product_words);
    if (mode < 0)
        return decode_refuse(d, "one of .lo, .hi, .wide is needed");
    type = decode_type(d);
    return alu_finish(d, op, table[mode][type], product_type(mode, type), type, 2);
}

/* a and b have one type; c and the result have another. */
static bool finish_mad(struct decoder *d, struct emu_op *op, emu_exec *exec, enum ptx_type type,
                       enum ptx_type result)
{
    if (exec == NULL)
        return decode_refuse(d, "there is no such type for this operation");
    op->exec = exec;
    op->class_ = EMU_CLASS_integer;
    return DECODE_TYPED(d, result, type, type, result);
}

bool decode_mad(struct decoder *d, struct emu_op *op)
{
    static alu_table table[PRODUCT_MODES] = PRODUCT_TABLE(mad);
    enum ptx_type    type;
    bool             sat;
    int              mode;
    if (decode_is_float(d))
        return decode_float_mad(d, op);
    mode = decode_one_of(d, product_words);
    if (mode < 0)
        return decode_refuse(d, "one of .lo, .hi, .wide is needed");
    if (mode != PRODUCT_WIDE && decode_take(d, "cc"))
        return alu_decode_carry(d, op, mode == PRODUCT_LO ? ALU_CARRY_MAD_LO : ALU_CARRY_MAD_HI, false, true);
    sat = decode_take(d, "sat");
    type = decode_type(d);
    if (sat && (mode != PRODUCT_HI || type != PTX_s32))
        return decode_refuse(d, "only .hi.s32 has .sat");
    return finish_mad(d, op, sat ? exec_mad_hi_sat : table[mode][type], type, product_type(mode, type));
}

bool decode_mul24(struct decoder *d, struct emu_op *op)
{
    static alu_table low = {[PTX_u32] = exec_mul_lo24_u32, [PTX_s32] = exec_mul_lo24_s32};
    static alu_table high = {[PTX_u32] = exec_mul_hi24_u32, [PTX_s32] = exec_mul_hi24_s32};
    const bool       hi = decode_take(d, "hi");
    enum ptx_type    type;
    if (!hi && !decode_take(d, "lo"))
        return decode_refuse(d, "one of .lo, .hi is needed");
    type = decode_type(d);
    return alu_finish(d, op, hi ? high[type] : low[type], type, type, 2);
}

bool decode_mad24(struct decoder *d, struct emu_op *op)
{
    static alu_table low = {[PTX_u32] = exec_mad_lo24_u32, [PTX_s32] = exec_mad_lo24_s32};
    static alu_table high = {[PTX_u32] = exec_mad_hi24_u32, [PTX_s32] = exec_mad_hi24_s32};
    const bool       hi = decode_take(d, "hi");
    enum ptx_type    type;
    bool             sat;
    if (!hi && !decode_take(d, "lo"))
        return decode_refuse(d, "one of .lo, .hi is needed");
    sat = decode_take(d, "sat");
    type = decode_type(d);
    if (sat && (!hi || type != PTX_s32))
        return decode_refuse(d, "only .hi.s32 has .sat");
    return alu_finish(d, op, sat ? exec_mad_hi24_sat : hi ? high[type] : low[type], type, type, 3);
}

/* ---- div, rem ------------------------------------------------------------------------------------------ */
/* Division by zero is unspecified; here it gives all ones.  The smallest number divided by -1 wraps around. */
#define DIVISION(suffix, R, T, K, least)                                                                 \
    static inline R quotient_##suffix(T a, T b)                                                          \
    {                                                                                                    \
        return b == 0 ? (R)(K)-1 : (least) != 0 && a == (least) && b == (T)-1 ? (R)(K)a : (R)(K)(a / b); \
    }                                                                                                    \
    static inline R remainder_##suffix(T a, T b)                                                         \
    {                                                                                                    \
        return b == 0 ? (R)(K)-1 : (least) != 0 && b == (T)-1 ? 0 : (R)(K)(a % b);                       \
    }                                                                                                    \
    ALU_2(div_##suffix, R, T, quotient_##suffix(a, b))                                                   \
    ALU_2(rem_##suffix, R, T, remainder_##suffix(a, b))

DIVISION(u16, uint32_t, uint16_t, uint16_t, 0)
DIVISION(u32, uint32_t, uint32_t, uint32_t, 0)
DIVISION(u64, uint64_t, uint64_t, uint64_t, 0)
DIVISION(s16, uint32_t, int16_t, uint16_t, INT16_MIN)
DIVISION(s32, uint32_t, int32_t, uint32_t, INT32_MIN)
DIVISION(s64, uint64_t, int64_t, uint64_t, INT64_MIN)

#define SIX_TYPES(name)                                                                              \
    {                                                                                                \
        [PTX_u16] = exec_##name##_u16, [PTX_u32] = exec_##name##_u32, [PTX_u64] = exec_##name##_u64, \
        [PTX_s16] = exec_##name##_s16, [PTX_s32] = exec_##name##_s32, [PTX_s64] = exec_##name##_s64  \
    }

static bool decode_plain(struct decoder *d, struct emu_op *op, alu_table table, unsigned int sources)
{
    const enum ptx_type type = decode_type(d);
    return alu_finish(d, op, table[type], type, type, sources);
}

bool decode_div(struct decoder *d, struct emu_op *op)
{
    static alu_table table = SIX_TYPES(div);
    return decode_is_float(d) ? decode_float_div(d, op) : decode_plain(d, op, table, 2);
}

bool decode_rem(struct decoder *d, struct emu_op *op)
{
    static alu_table table = SIX_TYPES(rem);
    return decode_plain(d, op, table, 2);
}

/* ---- abs, neg, sad ------------------------------------------------------------------------------------- */
ALU_1(abs_s16, uint32_t, int16_t, (uint16_t)(a < 0 ? -a : a))
ALU_1(abs_s32, uint32_t, int32_t, a < 0 ? 0 - (uint32_t)a : (uint32_t)a)
ALU_1(abs_s64, uint64_t, int64_t, a < 0 ? 0 - (uint64_t)a : (uint64_t)a)
ALU_1(neg_s16, uint32_t, uint32_t, (uint16_t)(0 - a))
ALU_1(neg_s32, uint32_t, uint32_t, 0 - a)
ALU_1(neg_s64, uint64_t, uint64_t, 0 - a)

#define DISTANCE(U) (a < b ? (U)b - (U)a : (U)a - (U)b)
ALU_3(sad_u16, uint32_t, uint16_t, (uint16_t)(c + DISTANCE(uint32_t)))
ALU_3(sad_u32, uint32_t, uint32_t, c + DISTANCE(uint32_t))
ALU_3(sad_u64, uint64_t, uint64_t, c + DISTANCE(uint64_t))
ALU_3(sad_s16, uint32_t, int16_t, (uint16_t)((uint32_t)c + DISTANCE(uint32_t)))
ALU_3(sad_s32, uint32_t, int32_t, (uint32_t)c + DISTANCE(uint32_t))
ALU_3(sad_s64, uint64_t, int64_t, (uint64_t)c + DISTANCE(uint64_t))

bool decode_abs(struct decoder *d, struct emu_op *op)
{
    static alu_table table = {[PTX_s16] = exec_abs_s16, [PTX_s32] = exec_abs_s32, [PTX_s64] = exec_abs_s64};
    return decode_is_float(d) ? decode_float_abs(d, op) : decode_plain(d, op, table, 1);
}

bool decode_neg(struct decoder *d, struct emu_op *op)
{
    static alu_table table = {[PTX_s16] = exec_neg_s16, [PTX_s32] = exec_neg_s32, [PTX_s64] = exec_neg_s64};
    return decode_is_float(d) ? decode_float_neg(d, op) : decode_plain(d, op, table, 1);
}

bool decode_sad(struct decoder *d, struct emu_op *op)
{
    static alu_table table = SIX_TYPES(sad);
    return decode_plain(d, op, table, 3);
}

/* ---- min, max ------------------------------------------------------------------------------------------ */
static inline int32_t  low_half(uint32_t v) { return (int16_t)v; }
static inline int32_t  high_half(uint32_t v) { return (int32_t)v >> 16; }
static inline int32_t  least(int32_t a, int32_t b) { return a < b ? a : b; }
static inline int32_t  greatest(int32_t a, int32_t b) { return a > b ? a : b; }
static inline int32_t  relu(int32_t v) { return v < 0 ? 0 : v; }
static inline uint32_t halves(int32_t low, int32_t high)
{
    return ((uint32_t)low & 0xffffu) | (uint32_t)high << 16;
}

#define EXTREME(name, is, pick)                                                     \
    ALU_2(name##_u16, uint32_t, uint32_t, a is b ? a : b)                           \
    ALU_2(name##_u32, uint32_t, uint32_t, a is b ? a : b)                           \
    ALU_2(name##_u64, uint64_t, uint64_t, a is b ? a : b)                           \
    ALU_2(name##_s16, uint32_t, int16_t, (uint16_t)(a is b ? a : b))                \
    ALU_2(name##_s32, uint32_t, int32_t, a is b ? a : b)                            \
    ALU_2(name##_s64, uint64_t, int64_t, a is b ? a : b)                            \
    ALU_2(name##_u16x2, uint32_t, uint32_t,                                         \
          ((a & 0xffffu) is(b & 0xffffu) ? a & 0xffffu : b & 0xffffu) |             \
              (a >> 16 is b >> 16 ? a & 0xffff0000u : b & 0xffff0000u))             \
    ALU_2(name##_s16x2, uint32_t, uint32_t,                                         \
          halves(pick(low_half(a), low_half(b)), pick(high_half(a), high_half(b)))) \
    ALU_2(name##_relu, uint32_t, int32_t, relu(pick(a, b)))                         \
    ALU_2(name##_relu_x2, uint32_t, uint32_t,                                       \
          halves(relu(pick(low_half(a), low_half(b))), relu(pick(high_half(a), high_half(b)))))
EXTREME(min, <, least)
EXTREME(max, >, greatest)

struct extreme {
    alu_table plain;
    emu_exec *u16x2, *s16x2, *relu, *relu_x2;
};

/* .relu may come before or after the type. */
static bool decode_extreme(struct decoder *d, struct emu_op *op, const struct extreme *e)
{
    bool                clip = decode_take(d, "relu");
    const bool          s16x2 = take_pair(d, "s16x2"), u16x2 = !s16x2 && take_pair(d, "u16x2");
    const enum ptx_type type = s16x2 || u16x2 || d->failed ? PTX_f16x2
                                                           : decode_type(d); /* pairs: no literals */
    clip |= decode_take(d, "relu");
    if (clip && (!decode_need_sm(d, 90) || !decode_need_isa(d, 80)))
        return false;
    if (clip && !s16x2 && type != PTX_s32)
        return decode_refuse(d, "only .s32 and .s16x2 have .relu");
    if (s16x2)
        return alu_finish(d, op, clip ? e->relu_x2 : e->s16x2, type, type, 2);
    return alu_finish(d, op, u16x2 ? e->u16x2 : clip ? e->relu : e->plain[type], type, type, 2);
}

bool decode_min(struct decoder *d, struct emu_op *op)
{
    static const struct extreme e = {SIX_TYPES(min), exec_min_u16x2, exec_min_s16x2, exec_min_relu,
                                     exec_min_relu_x2};
    return decode_is_float(d) ? decode_float_min(d, op) : decode_extreme(d, op, &e);
}

bool decode_max(struct decoder *d, struct emu_op *op)
{
    static const struct extreme e = {SIX_TYPES(max), exec_max_u16x2, exec_max_s16x2, exec_max_relu,
                                     exec_max_relu_x2};
    return decode_is_float(d) ? decode_float_max(d, op) : decode_extreme(d, op, &e);
}

/* ---- dp4a, dp2a ---------------------------------------------------------------------------------------- */
#define BYTE(T, v, i) ((int32_t)(T)((v) >> 8 * (i)))
#define HALF(T, v, i) ((int32_t)(T)((v) >> 16 * (i)))
/* The products fit in 32 signed bits; the sums wrap around. */
#define DOT(types, A4, A2, B)                                                              \
    ALU_3(dp4a_##types, uint32_t, uint32_t,                                                \
          c + (uint32_t)(BYTE(A4, a, 0) * BYTE(B, b, 0) + BYTE(A4, a, 1) * BYTE(B, b, 1) + \
                         BYTE(A4, a, 2) * BYTE(B, b, 2) + BYTE(A4, a, 3) * BYTE(B, b, 3))) \
    ALU_3(dp2a_lo_##types, uint32_t, uint32_t,                                             \
          c + (uint32_t)(HALF(A2, a, 0) * BYTE(B, b, 0) + HALF(A2, a, 1) * BYTE(B, b, 1))) \
    ALU_3(dp2a_hi_##types, uint32_t, uint32_t,                                             \
          c + (uint32_t)(HALF(A2, a, 0) * BYTE(B, b, 2) + HALF(A2, a, 1) * BYTE(B, b, 3)))
DOT(uu, uint8_t, uint16_t, uint8_t)
DOT(us, uint8_t, uint16_t, int8_t)
DOT(su, int8_t, int16_t, uint8_t)
DOT(ss, int8_t, int16_t, int8_t)

/* table: by the signedness of a (times 2) and of b. */
static bool decode_dot(struct decoder *d, struct emu_op *op, emu_exec *const table[4])
{
    const enum ptx_type a = decode_type(d), b = decode_type(d);
    if ((a != PTX_u32 && a != PTX_s32) || (b != PTX_u32 && b != PTX_s32))
        return decode_refuse(d, "the types must be .u32 or .s32");
    op->exec = table[2 * (a == PTX_s32) + (b == PTX_s32)];
    op->class_ = EMU_CLASS_integer;
    return DECODE_TYPED(d, a == b ? a : PTX_s32, a, b, a == b ? a : PTX_s32);
}

bool decode_dp4a(struct decoder *d, struct emu_op *op)
{
    static emu_exec *const table[4] = {exec_dp4a_uu, exec_dp4a_us, exec_dp4a_su, exec_dp4a_ss};
    return decode_dot(d, op, table);
}

bool decode_dp2a(struct decoder *d, struct emu_op *op)
{
    static emu_exec *const low[4] = {exec_dp2a_lo_uu, exec_dp2a_lo_us, exec_dp2a_lo_su, exec_dp2a_lo_ss};
    static emu_exec *const high[4] = {exec_dp2a_hi_uu, exec_dp2a_hi_us, exec_dp2a_hi_su, exec_dp2a_hi_ss};
    if (decode_take(d, "lo"))
        return decode_dot(d, op, low);
    if (decode_take(d, "hi"))
        return decode_dot(d, op, high);
    return decode_refuse(d, "one of .lo, .hi is needed");
}
