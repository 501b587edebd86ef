/* alu_compare.c - comparisons: set and setp of all types. */
#include "alu.h"

/* CmpOps.  Those that end in u are also true for NaNs; lo, ls, hi, hs are the names for unsigned numbers. */
enum relation { EQ, NE, LT, LE, GT, GE, EQU, NEU, LTU, LEU, GTU, GEU, NUM, NAN_, RELATIONS };
enum { INTEGER_RELATIONS = GE + 1 };
static const char *const relation_words[] = {"eq",  "ne",  "lt",  "le",  "gt", "ge", "equ", "neu", "ltu", "leu",
                                             "gtu", "geu", "num", "nan", "lo", "ls", "hi",  "hs",  NULL};
enum combination { PLAIN, AND, OR, XOR };

/* ---- all lanes at once ------------------------------------------------------------------------------------
 * Inactive lanes are compared too, which costs nothing.  The result has one bit for each lane. */
typedef uint32_t compare_rows(const void *a, const void *b);

static inline uint32_t load_u32(uint32_t v) { return v; }
static inline int32_t  load_s32(uint32_t v) { return (int32_t)v; }
static inline int32_t  load_s16(uint32_t v) { return (int16_t)v; }
static inline uint64_t load_u64(uint64_t v) { return v; }
static inline int64_t  load_s64(uint64_t v) { return (int64_t)v; }
static inline float    load_f32(uint32_t v)
{
    float f;
    memcpy(&f, &v, sizeof f);
    return f;
}
static inline float  load_f32_ftz(uint32_t v) { return load_f32((v & 0x7f800000u) == 0 ? v & 0x80000000u : v); }
static inline double load_f64(uint64_t v)
{
    double f;
    memcpy(&f, &v, sizeof f);
    return f;
}

#define COMPARE(relation, type, R, T, condition)                      \
    static uint32_t relation##_##type(const void *ra, const void *rb) \
    {                                                                 \
        const R *pa = (const R *)ra, *pb = (const R *)rb;             \
        uint32_t bits = 0;                                            \
        for (int l = 0; l < EMU_LANES; l++) {                         \
            const T a = load_##type(pa[l]), b = load_##type(pb[l]);   \
            bits |= (condition) ? alu_bit[l] : 0;                     \
        }                                                             \
        return bits;                                                  \
    }
#define COMPARE_ORDER(type, R, T)   \
    COMPARE(lt, type, R, T, a < b)  \
    COMPARE(le, type, R, T, a <= b) \
    COMPARE(gt, type, R, T, a > b)  \
    COMPARE(ge, type, R, T, a >= b)
#define COMPARE_INTEGERS(type, R, T) \
    COMPARE(eq, type, R, T, a == b)  \
    COMPARE(ne, type, R, T, a != b)  \
    COMPARE_ORDER(type, R, T)
#define COMPARE_FLOATS(type, R, T)              \
    COMPARE(eq, type, R, T, a == b)             \
    COMPARE(ne, type, R, T, a<b || a> b)        \
    COMPARE_ORDER(type, R, T)                   \
    COMPARE(equ, type, R, T, !(a < b || a > b)) \
    COMPARE(neu, type, R, T, !(a == b))         \
    COMPARE(ltu, type, R, T, !(a >= b))         \
    COMPARE(leu, type, R, T, !(a > b))          \
    COMPARE(gtu, type, R, T, !(a <= b))         \
    COMPARE(geu, type, R, T, !(a < b))          \
    COMPARE(num, type, R, T, a == a && b == b)  \
    COMPARE(nan, type, R, T, a != a || b != b)
COMPARE_INTEGERS(u32, uint32_t, uint32_t)
COMPARE_INTEGERS(s32, uint32_t, int32_t)
COMPARE_INTEGERS(s16, uint32_t, int32_t)
COMPARE_INTEGERS(u64, uint64_t, uint64_t)
COMPARE_INTEGERS(s64, uint64_t, int64_t)
COMPARE_FLOATS(f32, uint32_t, float)
COMPARE_FLOATS(f32_ftz, uint32_t, float)
COMPARE_FLOATS(f64, uint64_t, double)

#define INTEGER_ROW(t)                                 \
    {                                                  \
        eq_##t, ne_##t, lt_##t, le_##t, gt_##t, ge_##t \
    }
#define FLOAT_ROW(t)                                                                                          \
    {                                                                                                         \
        eq_##t, ne_##t, lt_##t, le_##t, gt_##t, ge_##t, equ_##t, neu_##t, ltu_##t, leu_##t, gtu_##t, geu_##t, \
            num_##t, nan_##t                                                                                  \
    }
/* What emu_op.data points to. */
struct comparison {
    compare_rows *rows[RELATIONS];
};
static const struct comparison comparisons[PTX_TYPE_COUNT] =
    {[PTX_b16] = {INTEGER_ROW(u32)}, [PTX_b32] = {INTEGER_ROW(u32)}, [PTX_b64] = {INTEGER_ROW(u64)},
     [PTX_u16] = {INTEGER_ROW(u32)}, [PTX_u32] = {INTEGER_ROW(u32)}, [PTX_u64] = {INTEGER_ROW(u64)},
     [PTX_s16] = {INTEGER_ROW(s16)}, [PTX_s32] = {INTEGER_ROW(s32)}, [PTX_s64] = {INTEGER_ROW(s64)},
     [PTX_f32] = {FLOAT_ROW(f32)},   [PTX_f64] = {FLOAT_ROW(f64)}};
static const struct comparison flushed = {FLOAT_ROW(f32_ftz)};

/* ---- halves -------------------------------------------------------------------------------------------- */
/* Which of less, equal, greater, unordered make a relation true. */
enum { LESS = 1, SAME = 2, MORE = 4, UNORDERED = 8 };
/* clang-format off */
static const uint8_t outcomes[RELATIONS] = {
    [EQ] = SAME, [NE] = LESS | MORE, [LT] = LESS, [LE] = LESS | SAME, [GT] = MORE, [GE] = MORE | SAME,
    [EQU] = SAME | UNORDERED, [NEU] = LESS | MORE | UNORDERED, [LTU] = LESS | UNORDERED,
    [LEU] = LESS | SAME | UNORDERED, [GTU] = MORE | UNORDERED, [GEU] = MORE | SAME | UNORDERED,
    [NUM] = LESS | SAME | MORE, [NAN_] = UNORDERED
};
/* clang-format on */

/* emu_op.u8 of a comparison. */
enum { U8_RELATION, U8_COMBINATION, U8_BF16, U8_FTZ, U8_PAIRS };

/* A number without its sign; a number below `least` is flushed to zero. */
static inline int32_t half_size(uint32_t v, int32_t least)
{
    const int32_t size = (int32_t)(v & 0x7fff);
    return size < least ? 0 : size;
}
/* A number in sign and magnitude, as an integer with the same order. */
static inline int32_t half_order(int32_t size, uint32_t v) { return (v & 0x8000) != 0 ? -size : size; }

/* 16-bit floats at bit `at` of the registers. */
static uint32_t compare_halves(const struct emu_warp *w, const struct emu_op *op, uint32_t at)
{
    const uint32_t *pa = emu_r32(w, op->source[0]), *pb = emu_r32(w, op->source[1]);
    const int32_t   infinite = op->u8[U8_BF16] ? 0x7f80 : 0x7c00, least = op->u8[U8_FTZ] ? 0x0400 : 0;
    const uint8_t   wanted = outcomes[op->u8[U8_RELATION]];
    uint32_t        less = 0, same = 0, unordered = 0;
    for (int l = 0; l < EMU_LANES; l++) {
        const uint32_t x = pa[l] >> at, y = pb[l] >> at;
        const int32_t  size_x = half_size(x, least), size_y = half_size(y, least);
        const int32_t  a = half_order(size_x, x), b = half_order(size_y, y);
        less |= a < b ? alu_bit[l] : 0;
        same |= a == b ? alu_bit[l] : 0;
        unordered |= size_x > infinite || size_y > infinite ? alu_bit[l] : 0;
    }
    return (((wanted & LESS ? less : 0) | (wanted & SAME ? same : 0) | (wanted & MORE ? ~(less | same) : 0)) &
            ~unordered) |
           (wanted & UNORDERED ? unordered : 0);
}

/* ---- setp, set ----------------------------------------------------------------------------------------- */
static uint32_t compare(const struct emu_warp *w, const struct emu_op *op)
{
    const struct comparison *c = (const struct comparison *)op->data;
    if (c == NULL)
        return compare_halves(w, op, 0);
    return c->rows[op->u8[U8_RELATION]](emu_row(w, op->source[0]), emu_row(w, op->source[1]));
}

/* t .and/.or/.xor c, if there is a c; u32[0] negates it. */
static uint32_t combine(const struct emu_warp *w, const struct emu_op *op, uint32_t t)
{
    if (op->u8[U8_COMBINATION] == PLAIN)
        return t;
    const uint32_t c = emu_pred(w, op->source[2]) ^ op->u32[0];
    return op->u8[U8_COMBINATION] == AND ? t & c : op->u8[U8_COMBINATION] == OR ? t | c : t ^ c;
}

static void exec_setp(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    emu_set_pred(w, op->result[0], mask, combine(w, op, compare(w, op)));
}

/* p|q: q is the opposite of p, or the result for the upper halves. */
static void exec_setp_two(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const uint32_t t = compare(w, op), other = op->u8[U8_PAIRS] ? compare_halves(w, op, 16) : ~t;
    const uint32_t p = combine(w, op, t), q = combine(w, op, other);
    emu_set_pred(w, op->result[0], mask, p);
    emu_set_pred(w, op->result[1], mask, q);
}

/* u32[1] is the value of true for the whole or the lower half, u32[2] for the upper half. */
static void exec_set(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    uint32_t      *d = emu_r32(w, op->result[0]);
    const uint32_t t = combine(w, op, compare(w, op));
    const uint32_t high = op->u8[U8_PAIRS] ? combine(w, op, compare_halves(w, op, 16)) : 0;
    const uint32_t low_true = op->u32[1], high_true = op->u32[2];
    EMU_FOR_LANES(mask, l,
                  d[l] = ((t & alu_bit[l]) != 0 ? low_true : 0) | ((high & alu_bit[l]) != 0 ? high_true : 0));
}

/* .CmpOp{.BoolOp}{.ftz} */
static bool decode_relation(struct decoder *d, struct emu_op *op, bool *is_unsigned)
{
    static const char *const words[] = {"and", "or", "xor", NULL};
    int                      relation = decode_one_of(d, relation_words);
    if (relation < 0)
        return decode_refuse(d, "a comparison is missing: .eq, .ne, .lt, ...");
    *is_unsigned = relation >= RELATIONS;
    if (*is_unsigned)
        relation = (int)LT + relation - (int)RELATIONS;
    op->u8[U8_RELATION] = (uint8_t)relation;
    op->u8[U8_COMBINATION] = (uint8_t)(decode_one_of(d, words) + 1);
    op->u8[U8_FTZ] = decode_take(d, "ftz");
    return true;
}

/* The relation must exist for the type, which decides how it is executed. */
static bool decode_compared_type(struct decoder *d, struct emu_op *op, enum ptx_type type, bool is_unsigned)
{
    const bool f16 = type == PTX_f16 || type == PTX_f16x2, bf16 = type == PTX_bf16 || type == PTX_bf16x2;
    const bool bits = type == PTX_b16 || type == PTX_b32 || type == PTX_b64;
    const bool natural = type == PTX_u16 || type == PTX_u32 || type == PTX_u64;
    const int  relation = op->u8[U8_RELATION];
    if (bf16 && (!decode_need_sm(d, 90) || !decode_need_isa(d, 78)))
        return false;
    if (op->u8[U8_FTZ] && type != PTX_f32 && !f16)
        return decode_refuse(d, "only .f32, .f16 and .f16x2 have .ftz");
    op->u8[U8_BF16] = bf16;
    op->u8[U8_PAIRS] = type == PTX_f16x2 || type == PTX_bf16x2;
    if (!f16 && !bf16 && comparisons[type].rows[relation] == NULL)
        return decode_refuse(d, "there is no such comparison of this type");
    if ((is_unsigned && !natural) || (bits && relation > NE))
        return decode_refuse(d, "there is no such comparison of this type");
    op->data = f16 || bf16 ? NULL : op->u8[U8_FTZ] ? &flushed : &comparisons[type];
    op->class_ = EMU_CLASS_compare;
    return true;
}

/* a, b and, if there is a BoolOp, c. */
static bool decode_compared(struct decoder *d, struct emu_op *op, enum ptx_type type)
{
    bool negated = false;
    decode_source(d, 1, type);
    decode_source(d, 2, type);
    if (op->u8[U8_COMBINATION] != PLAIN)
        decode_source_pred(d, decode_operand(d, 3), &negated);
    op->u32[0] = negated ? EMU_ALL : 0;
    return !d->failed;
}

bool decode_setp(struct decoder *d, struct emu_op *op)
{
    const struct ptx_operand *results;
    enum ptx_type             type;
    bool                      is_unsigned;
    unsigned int              count;
    if (!decode_relation(d, op, &is_unsigned))
        return false;
    type = decode_type(d);
    count = op->u8[U8_COMBINATION] != PLAIN ? 4 : 3;
    if (!decode_compared_type(d, op, type, is_unsigned) || !decode_end(d) || !decode_operands(d, count, count))
        return false;
    results = decode_operand(d, 0);
    if (results->kind != PTX_OP_PAIR) {
        decode_result_pred(d, results);
        op->exec = exec_setp;
        return decode_compared(d, op, type);
    }
    if (type == PTX_f16 || type == PTX_bf16)
        return decode_refuse(d, "there must be one result");
    decode_result_pred(d, &results->items[0]);
    decode_result_pred(d, &results->items[1]);
    op->exec = exec_setp_two;
    return decode_compared(d, op, type);
}

/* The value of true in a result of this type; 0: comparing `type` has no such result. */
static uint32_t true_value(enum ptx_type result, enum ptx_type type)
{
    const bool pairs = type == PTX_f16x2 || type == PTX_bf16x2, half = type == PTX_f16 || type == PTX_bf16;
    /* clang-format off */
    switch (result) {
    case PTX_u32: case PTX_s32: return pairs ? 0xffffu : 0xffffffffu;
    case PTX_u16: case PTX_s16: return half ? 0xffffu : 0;
    case PTX_f32: return pairs || half ? 0 : 0x3f800000u;
    case PTX_f16: return pairs || type == PTX_bf16 ? 0 : 0x3c00u;
    case PTX_bf16: return pairs ? 0 : 0x3f80u;
    case PTX_f16x2: return type == PTX_f16x2 ? 0x3c00u : 0;
    case PTX_bf16x2: return type == PTX_bf16x2 ? 0x3f80u : 0;
    default: return 0;
    }
    /* clang-format on */
}

bool decode_set(struct decoder *d, struct emu_op *op)
{
    enum ptx_type result, type;
    bool          is_unsigned;
    unsigned int  count;
    if (!decode_relation(d, op, &is_unsigned))
        return false;
    result = decode_type(d);
    type = decode_type(d);
    count = op->u8[U8_COMBINATION] != PLAIN ? 4 : 3;
    if (!decode_compared_type(d, op, type, is_unsigned) || !decode_end(d) || !decode_operands(d, count, count))
        return false;
    if ((result == PTX_bf16 || result == PTX_bf16x2) && !(decode_need_sm(d, 90) && decode_need_isa(d, 78)))
        return false;
    if (op->u8[U8_FTZ] && result == PTX_bf16)
        return decode_refuse(d, "a result of .bf16 has no .ftz");
    op->u32[1] = true_value(result, type);
    op->u32[2] = op->u32[1] << 16;
    if (op->u32[1] == 0)
        return decode_refuse(d, "there is no result of type .%s for a comparison of .%s", ptx_type_name(result),
                             ptx_type_name(type));
    decode_result(d, 0, result);
    op->exec = exec_set;
    return decode_compared(d, op, type);
}
