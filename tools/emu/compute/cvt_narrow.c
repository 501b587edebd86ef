/* cvt_narrow.c - cvt to and from tf32, pairs of f16, bf16, fp8, fp6, fp4 and ue8m0, .relu and .satfinite.
 *
 * The first operand of two f32 becomes the upper half. */
#include "cvt.h"

enum narrow { F16, BF16, TF32, E4M3, E5M2, E2M3, E3M2, E2M1, UE8M0, F32 };
enum { FLAG_RELU = EMU_RELU, FLAG_SATFINITE = CVT_SATFINITE };

/* The types: `bits` of one value; `operand` is the register of a pair. */
struct narrow_type {
    const char *word;
    enum narrow one;
    bool        pair;
    uint8_t     bits, operand;
};
static const struct narrow_type types[] =
    {{"f16x2", F16, true, 16, PTX_f16x2},  {"bf16x2", BF16, true, 16, PTX_bf16x2},
     {"f16", F16, false, 16, PTX_f16},     {"bf16", BF16, false, 16, PTX_bf16},
     {"tf32", TF32, false, 32, PTX_b32},   {"e4m3x2", E4M3, true, 8, PTX_b16},
     {"e5m2x2", E5M2, true, 8, PTX_b16},   {"e2m3x2", E2M3, true, 8, PTX_b16},
     {"e3m2x2", E3M2, true, 8, PTX_b16},   {"e2m1x2", E2M1, true, 4, PTX_b8},
     {"ue8m0x2", UE8M0, true, 8, PTX_b16}, {"f32", F32, false, 32, PTX_f32}};

static const struct narrow_type *take_type(struct decoder *d)
{
    const char *word;
    for (unsigned int at = 0; (word = decode_unread(d, &at)) != NULL;)
        for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
            if (strcmp(word, types[i].word) == 0) {
                decode_take(d, word);
                return &types[i];
            }
    decode_refuse(d, "a type is missing");
    return NULL;
}

static float widen(uint32_t code, enum narrow type)
{
    switch (type) {
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
    case UE8M0:
        return emu_ue8m0_to_f32(code);
    default:
        return emu_float_of(code);
    }
}
static uint32_t narrow(float value, enum narrow type, enum emu_rounding rounding, unsigned int flags)
{
    const uint32_t bits = emu_bits_of(value);
    const float    in = emu_float_of(flags & EMU_RELU ? emu_relu_f32_bits(bits) : bits);
    const bool     satfinite = flags & CVT_SATFINITE;
    /* clang-format off */
    switch (type) {
    case F16: return emu_f32_to_f16_mode(in, rounding, satfinite, false);
    case BF16: return emu_f32_to_bf16_mode(in, rounding, satfinite, false);
    case TF32: return emu_f32_to_tf32_mode(in, rounding, satfinite, false);
    case E4M3: return emu_f32_to_e4m3(in);
    case E5M2: return emu_f32_to_e5m2(in);
    case E2M3: return emu_f32_to_e2m3(in);
    case E3M2: return emu_f32_to_e3m2(in);
    case E2M1: return emu_f32_to_e2m1(in);
    case UE8M0: return emu_f32_to_ue8m0(in, rounding);
    default: return emu_bits_of(in);
    }
    /* clang-format on */
}

/* ---- execution: op->data is the type of the result, u32[0] the index of the source's ---------------- */
static void exec_one(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const struct narrow_type *to = (const struct narrow_type *)op->data;
    const enum emu_rounding   rounding = (enum emu_rounding)op->u8[CVT_ROUNDING];
    const unsigned int        flags = op->u8[CVT_FLAGS];
    uint32_t                 *d = emu_r32(w, op->result[0]);
    const uint32_t           *a = emu_r32(w, op->source[0]);
    EMU_FOR_LANES(mask, l, d[l] = narrow(emu_float_of(a[l]), to->one, rounding, flags));
}
static void exec_two(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const struct narrow_type *to = (const struct narrow_type *)op->data;
    const enum emu_rounding   rounding = (enum emu_rounding)op->u8[CVT_ROUNDING];
    const unsigned int        flags = op->u8[CVT_FLAGS];
    uint32_t                 *d = emu_r32(w, op->result[0]);
    const uint32_t           *a = emu_r32(w, op->source[0]), *b = emu_r32(w, op->source[1]);
    EMU_FOR_LANES(mask, l,
                  d[l] = narrow(emu_float_of(a[l]), to->one, rounding, flags) << to->bits |
                         narrow(emu_float_of(b[l]), to->one, rounding, flags));
}
static void exec_pairs(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const struct narrow_type *to = (const struct narrow_type *)op->data, *from = &types[op->u32[0]];
    const enum emu_rounding   rounding = (enum emu_rounding)op->u8[CVT_ROUNDING];
    const unsigned int        flags = op->u8[CVT_FLAGS];
    const uint32_t            field = (1u << from->bits) - 1;
    uint32_t                 *d = emu_r32(w, op->result[0]);
    const uint32_t           *a = emu_r32(w, op->source[0]);
    EMU_FOR_LANES(mask, l, const float high = widen(a[l] >> from->bits & field, from->one);
                  const float low = widen(a[l] & field, from->one);
                  d[l] = narrow(high, to->one, rounding, flags) << to->bits |
                         narrow(low, to->one, rounding, flags));
}
/* tf32 is in a register of f32; every attention kernel has these conversions */
#define F16X2(a, b)  (emu_f32_to_f16(emu_float_of(a)) << 16 | emu_f32_to_f16(emu_float_of(b)))
#define BF16X2(a, b) (emu_f32_to_bf16(emu_float_of(a)) << 16 | emu_f32_to_bf16(emu_float_of(b)))
#define TF32_RNA(a)  emu_f32_to_tf32_rna(emu_float_of(a))
EMU_FLOAT_2(exec_f16x2, F16X2)
EMU_FLOAT_2(exec_bf16x2, BF16X2)
EMU_FLOAT_1(exec_tf32_rna, TF32_RNA)

static emu_exec *choose_exec(const struct emu_op *op, const struct narrow_type *to,
                             const struct narrow_type *from)
{
    static const struct emu_exec_pair f16x2 = EMU_PAIR(exec_f16x2), bf16x2 = EMU_PAIR(exec_bf16x2);
    static const struct emu_exec_pair tf32 = EMU_PAIR(exec_tf32_rna);
    const bool                        plain = from->one == F32 && !op->u8[CVT_FLAGS];
    if (plain && to->pair && op->u8[CVT_ROUNDING] == EMU_RN && (to->one == F16 || to->one == BF16))
        return emu_float_exec(to->one == F16 ? f16x2 : bf16x2);
    if (plain && to->one == TF32 && op->u8[CVT_ROUNDING] == EMU_RNA)
        return emu_float_exec(tf32);
    return from->one != F32 ? exec_pairs : to->pair ? exec_two : exec_one;
}

/* ---- which of them exist ---------------------------------------------------------------------------- */
/* Bits of rounding modes and flags, and the least GPU. */
enum { RN = 1 << EMU_RN, RZ = 1 << EMU_RZ, RP = 1 << EMU_RP, RNA = 1 << EMU_RNA };
struct narrow_form {
    enum narrow to;
    bool        pair;
    enum narrow from;
    uint8_t     roundings, allowed, required, sm;
};
static const struct narrow_form forms[] =
    {{F16, true, F32, RN | RZ, FLAG_RELU | FLAG_SATFINITE, 0, 80},
     {BF16, true, F32, RN | RZ, FLAG_RELU | FLAG_SATFINITE, 0, 80},
     {F16, false, F32, RN | RZ, FLAG_RELU | FLAG_SATFINITE, 0, 80},
     {BF16, false, F32, RN | RZ, FLAG_RELU | FLAG_SATFINITE, 0, 80},
     {TF32, false, F32, RNA, FLAG_SATFINITE, 0, 80},
     {TF32, false, F32, RN | RZ, FLAG_RELU, 0, 90},
     {TF32, false, F32, RN | RZ, FLAG_RELU | FLAG_SATFINITE, FLAG_SATFINITE, 100},
     {E4M3, true, F32, RN, FLAG_RELU | FLAG_SATFINITE, FLAG_SATFINITE, 89},
     {E5M2, true, F32, RN, FLAG_RELU | FLAG_SATFINITE, FLAG_SATFINITE, 89},
     {E4M3, true, F16, RN, FLAG_RELU | FLAG_SATFINITE, FLAG_SATFINITE, 89},
     {E5M2, true, F16, RN, FLAG_RELU | FLAG_SATFINITE, FLAG_SATFINITE, 89},
     {F16, true, E4M3, RN, FLAG_RELU, 0, 89},
     {F16, true, E5M2, RN, FLAG_RELU, 0, 89},
     {E2M3, true, F32, RN, FLAG_RELU | FLAG_SATFINITE, FLAG_SATFINITE, 100},
     {E3M2, true, F32, RN, FLAG_RELU | FLAG_SATFINITE, FLAG_SATFINITE, 100},
     {E2M1, true, F32, RN, FLAG_RELU | FLAG_SATFINITE, FLAG_SATFINITE, 100},
     {F16, true, E2M3, RN, FLAG_RELU, 0, 100},
     {F16, true, E3M2, RN, FLAG_RELU, 0, 100},
     {F16, true, E2M1, RN, FLAG_RELU, 0, 100},
     {UE8M0, true, F32, RZ | RP, FLAG_SATFINITE, FLAG_SATFINITE, 100},
     {UE8M0, true, BF16, RZ | RP, FLAG_SATFINITE, FLAG_SATFINITE, 100},
     {BF16, true, UE8M0, RN, 0, 0, 100}};

static const struct narrow_form *find_form(const struct narrow_type *to, const struct narrow_type *from,
                                           enum emu_rounding rounding, unsigned int flags)
{
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        const struct narrow_form *f = &forms[i];
        if (f->to == to->one && f->pair == to->pair && f->from == from->one && f->roundings >> rounding & 1 &&
            !(flags & ~(unsigned int)f->allowed) && (flags & f->required) == f->required)
            return f;
    }
    return NULL;
}

bool cvt_decode_narrow(struct decoder *d, struct emu_op *op, enum emu_rounding rounding, unsigned int flags)
{
    const struct narrow_type *to = take_type(d), *from = to != NULL ? take_type(d) : NULL;
    if (from == NULL || !decode_end(d))
        return false;
    const struct narrow_form *form = find_form(to, from, rounding, flags);
    if (form == NULL || from->pair != (from->one != F32))
        return decode_refuse(d, "no such conversion from .%s to .%s", from->word, to->word);
    decode_need_sm(d, form->sm);
    if (to->one == TF32 && flags & FLAG_SATFINITE)
        decode_need_isa(d, 81);
    const unsigned int sources = from->one == F32 && to->pair ? 2 : 1;
    if (!decode_operands(d, sources + 1, sources + 1))
        return false;
    decode_result(d, 0, (enum ptx_type)to->operand);
    for (unsigned int i = 1; i <= sources; i++)
        decode_source(d, i, (enum ptx_type)from->operand);
    op->u8[CVT_ROUNDING] = (uint8_t)rounding;
    op->u8[CVT_FLAGS] = (uint8_t)flags;
    op->u32[0] = (uint32_t)(from - types);
    op->data = to;
    op->exec = choose_exec(op, to, from);
    return !d->failed;
}
