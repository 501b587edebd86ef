/* alu_select.c - moves between registers, packing and unpacking, and selections by a predicate or a sign. */
#include <stdio.h>
#include "alu.h"

/* ---- mov of one register ------------------------------------------------------------------------------- */
ALU_1(mov_32, uint32_t, uint32_t, a)
ALU_1(mov_64, uint64_t, uint64_t, a)

static void exec_mov_128(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    uint64_t       *d = emu_r64(w, op->result[0]);
    const uint64_t *a = emu_r64(w, op->source[0]);
    EMU_FOR_LANES(mask, l, d[l] = a[l]; d[EMU_LANES + l] = a[EMU_LANES + l]);
}

static void exec_mov_pred(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    emu_set_pred(w, op->result[0], mask, emu_pred(w, op->source[0]) ^ op->u32[0]);
}

static bool decode_copy(struct decoder *d, struct emu_op *op, enum ptx_type type)
{
    static alu_table table =
        {[PTX_b16] = exec_mov_32,   [PTX_u16] = exec_mov_32, [PTX_s16] = exec_mov_32, [PTX_b32] = exec_mov_32,
         [PTX_u32] = exec_mov_32,   [PTX_s32] = exec_mov_32, [PTX_f32] = exec_mov_32, [PTX_b64] = exec_mov_64,
         [PTX_u64] = exec_mov_64,   [PTX_s64] = exec_mov_64, [PTX_f64] = exec_mov_64, [PTX_b128] = exec_mov_128,
         [PTX_pred] = exec_mov_pred};
    bool negated = false;
    if (table[type] == NULL)
        return decode_refuse(d, "there is no such type for this operation");
    decode_result(d, 0, type);
    if (type == PTX_pred)
        decode_source_pred(d, decode_operand(d, 1), &negated);
    else
        decode_source(d, 1, type);
    op->u32[0] = negated ? EMU_ALL : 0;
    op->exec = table[type];
    return !d->failed;
}

/* ---- mov of {...} into one register: the first part is the lowest ----------------------------------------- */
#define PACK_2(name, R, at)                                                             \
    static void exec_##name(struct emu_warp *w, const struct emu_op *op, uint32_t mask) \
    {                                                                                   \
        R              *d = (R *)emu_row(w, op->result[0]);                             \
        const uint32_t *a = emu_r32(w, op->source[0]), *b = emu_r32(w, op->source[1]);  \
        EMU_FOR_LANES(mask, l, d[l] = a[l] | (R)b[l] << at);                            \
    }
#define PACK_4(name, R, at)                                                                          \
    static void exec_##name(struct emu_warp *w, const struct emu_op *op, uint32_t mask)              \
    {                                                                                                \
        R              *d = (R *)emu_row(w, op->result[0]);                                          \
        const uint32_t *a = emu_r32(w, op->source[0]), *b = emu_r32(w, op->source[1]);               \
        const uint32_t *c = emu_r32(w, op->source[2]), *e = emu_r32(w, op->source[3]);               \
        EMU_FOR_LANES(mask, l, d[l] = a[l] | (R)b[l] << at | (R)c[l] << 2 * at | (R)e[l] << 3 * at); \
    }
PACK_2(pack_2x8, uint32_t, 8)
PACK_2(pack_2x16, uint32_t, 16)
PACK_2(pack_2x32, uint64_t, 32)
PACK_4(pack_4x8, uint32_t, 8)
PACK_4(pack_4x16, uint64_t, 16)

static void exec_pack_2x64(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    uint64_t       *d = emu_r64(w, op->result[0]);
    const uint64_t *a = emu_r64(w, op->source[0]), *b = emu_r64(w, op->source[1]);
    EMU_FOR_LANES(mask, l, d[l] = a[l]; d[EMU_LANES + l] = b[l]);
}

static void exec_pack_4x32(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    uint64_t       *d = emu_r64(w, op->result[0]);
    const uint32_t *a = emu_r32(w, op->source[0]), *b = emu_r32(w, op->source[1]);
    const uint32_t *c = emu_r32(w, op->source[2]), *e = emu_r32(w, op->source[3]);
    EMU_FOR_LANES(mask, l, d[l] = a[l] | (uint64_t)b[l] << 32; d[EMU_LANES + l] = c[l] | (uint64_t)e[l] << 32);
}

/* ---- mov of one register into {...} -------------------------------------------------------------------- */
#define UNPACK(name, R, bits)                                                               \
    static void exec_##name(struct emu_warp *w, const struct emu_op *op, uint32_t mask)     \
    {                                                                                       \
        const R *a = (const R *)emu_row(w, op->source[0]);                                  \
        for (uint32_t i = 0; i < op->result_count; i++) {                                   \
            uint32_t      *d = emu_r32(w, op->result[i]);                                   \
            const uint32_t at = (bits)*i;                                                   \
            EMU_FOR_LANES(mask, l, d[l] = (uint32_t)(a[l] >> at & (((R)1 << (bits)) - 1))); \
        }                                                                                   \
    }
UNPACK(unpack_8, uint32_t, 8)
UNPACK(unpack_16_32, uint32_t, 16)
UNPACK(unpack_16_64, uint64_t, 16)
UNPACK(unpack_32, uint64_t, 32)

static void exec_unpack_64(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const uint64_t *a = emu_r64(w, op->source[0]);
    uint64_t       *low = emu_r64(w, op->result[0]), *high = emu_r64(w, op->result[1]);
    EMU_FOR_LANES(mask, l, low[l] = a[l]; high[l] = a[EMU_LANES + l]);
}

static void exec_unpack_32_128(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const uint64_t *a = emu_r64(w, op->source[0]);
    for (uint32_t i = 0; i < op->result_count; i++) {
        uint32_t       *d = emu_r32(w, op->result[i]);
        const uint64_t *half = a + (i >> 1) * EMU_LANES;
        const uint32_t  at = 32 * (i & 1);
        EMU_FOR_LANES(mask, l, d[l] = (uint32_t)(half[l] >> at));
    }
}

static const struct shape {
    uint8_t       bits, parts;
    enum ptx_type part;
    emu_exec     *pack, *unpack;
} shapes[] = {{16, 2, PTX_b8, exec_pack_2x8, exec_unpack_8},
              {32, 4, PTX_b8, exec_pack_4x8, exec_unpack_8},
              {32, 2, PTX_b16, exec_pack_2x16, exec_unpack_16_32},
              {64, 4, PTX_b16, exec_pack_4x16, exec_unpack_16_64},
              {64, 2, PTX_b32, exec_pack_2x32, exec_unpack_32},
              {128, 2, PTX_b64, exec_pack_2x64, exec_unpack_64},
              {128, 4, PTX_b32, exec_pack_4x32, exec_unpack_32_128}};

static bool decode_shape(struct decoder *d, struct emu_op *op, const struct shape *s, enum ptx_type type,
                         bool packs)
{
    unsigned int              count;
    const struct ptx_operand *items = decode_items(decode_operand(d, packs ? 1 : 0), &count);
    if (packs)
        decode_result(d, 0, type);
    else
        decode_source(d, 1, type);
    for (unsigned int i = 0; i < count; i++)
        if (packs)
            decode_source_of(d, &items[i], s->part);
        else
            decode_result_of(d, &items[i], s->part);
    op->exec = packs ? s->pack : s->unpack;
    return !d->failed;
}

/* ---- mov.v2, mov.v4 ------------------------------------------------------------------------------------- */
enum { MOST_ELEMENTS = 4 };

/* u8[0]: an element has 64 bits.  All sources are read before a result is written. */
static void exec_mov_vector(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    uint64_t value[MOST_ELEMENTS][EMU_LANES];
    for (uint32_t i = 0; i < op->source_count; i++)
        memcpy(value[i], emu_row(w, op->source[i]), op->u8[0] ? 2 * EMU_ROW : EMU_ROW);
    for (uint32_t i = 0; i < op->result_count; i++) {
        uint32_t        narrow[EMU_LANES];
        const uint64_t *wide = value[i];
        memcpy(narrow, wide, sizeof narrow);
        if (op->u8[0])
            EMU_FOR_LANES(mask, l, emu_r64(w, op->result[i])[l] = wide[l]);
        else
            EMU_FOR_LANES(mask, l, emu_r32(w, op->result[i])[l] = narrow[l]);
    }
}

/* %tid and the like without a component: all four of them. */
static void add_special(struct decoder *d, const struct ptx_operand *o, unsigned int element,
                        enum ptx_type type)
{
    char               name[64];
    struct ptx_operand one = *o;
    snprintf(name, sizeof name, "%s.%c", o->name, "xyzw"[element]);
    one.name = name;
    decode_source_of(d, &one, type);
}

static bool decode_vector(struct decoder *d, struct emu_op *op, unsigned int elements)
{
    const enum ptx_type       type = decode_type(d);
    const struct ptx_operand *to, *from;
    if (!decode_end(d) || !decode_operands(d, 2, 2))
        return false;
    to = decode_operand(d, 0);
    from = decode_operand(d, 1);
    const bool special = from->kind == PTX_OP_SPECIAL && elements == MOST_ELEMENTS;
    /* One register or literal is for all elements. */
    const bool one = from->kind == PTX_OP_REGISTER || from->kind == PTX_OP_INTEGER ||
                     from->kind == PTX_OP_F32 || from->kind == PTX_OP_F64;
    if (to->kind != PTX_OP_LIST || to->count != elements ||
        (!special && !one && (from->kind != PTX_OP_LIST || from->count != elements)))
        return decode_refuse(d, "two vectors of %u elements are expected", elements);
    if (type == PTX_pred || ptx_type_bits(type) < 16 || ptx_type_bits(type) * elements > 128)
        return decode_refuse(d, "there are no such vectors of .%s", ptx_type_name(type));
    for (unsigned int i = 0; i < elements; i++) {
        decode_result_of(d, &to->items[i], type);
        if (special)
            add_special(d, from, i, type);
        else
            decode_source_of(d, one ? from : &from->items[i], type);
    }
    op->u8[0] = ptx_type_bits(type) == 64;
    op->class_ = EMU_CLASS_move;
    op->exec = exec_mov_vector;
    return !d->failed;
}

bool decode_mov(struct decoder *d, struct emu_op *op)
{
    static const char *const vectors[] = {"v2", "v4", NULL};
    const int                vector = decode_one_of(d, vectors);
    if (vector >= 0)
        return decode_vector(d, op, 2u << vector);
    const enum ptx_type       type = decode_type(d);
    const struct ptx_operand *to, *from;
    if (!decode_end(d) || !decode_operands(d, 2, 2))
        return false;
    op->class_ = EMU_CLASS_move;
    to = decode_operand(d, 0);
    from = decode_operand(d, 1);
    if (to->kind != PTX_OP_LIST && from->kind != PTX_OP_LIST)
        return decode_copy(d, op, type);
    if (to->kind == PTX_OP_LIST && from->kind == PTX_OP_LIST)
        return decode_refuse(d, "one side must be a register");
    if (type != PTX_b16 && type != PTX_b32 && type != PTX_b64 && type != PTX_b128)
        return decode_refuse(d, "the type of a list must be .b16, .b32, .b64 or .b128");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (shapes[i].bits == ptx_type_bits(type) &&
            shapes[i].parts == (from->kind == PTX_OP_LIST ? from->count : to->count))
            return decode_shape(d, op, &shapes[i], type, from->kind == PTX_OP_LIST);
    return decode_refuse(d, "the list has the wrong number of elements for one register");
}

/* ---- selp: d = p ? a : b ---------------------------------------------------------------------------------- */
#define SELECT(name, R)                                                                                     \
    static void exec_##name(struct emu_warp *w, const struct emu_op *op, uint32_t mask)                     \
    {                                                                                                       \
        R             *d = (R *)emu_row(w, op->result[0]);                                                  \
        const R       *a = (const R *)emu_row(w, op->source[0]), *b = (const R *)emu_row(w, op->source[1]); \
        const uint32_t p = emu_pred(w, op->source[2]) ^ op->u32[0];                                         \
        EMU_FOR_LANES(mask, l, const R x = a[l]; const R y = b[l]; d[l] = (p & alu_bit[l]) != 0 ? x : y);   \
    }
SELECT(selp_32, uint32_t)
SELECT(selp_64, uint64_t)

#define SELECT_TABLE(name)                                                                        \
    {                                                                                             \
        [PTX_b16] = exec_##name##_32, [PTX_u16] = exec_##name##_32, [PTX_s16] = exec_##name##_32, \
        [PTX_b32] = exec_##name##_32, [PTX_u32] = exec_##name##_32, [PTX_s32] = exec_##name##_32, \
        [PTX_f32] = exec_##name##_32, [PTX_b64] = exec_##name##_64, [PTX_u64] = exec_##name##_64, \
        [PTX_s64] = exec_##name##_64, [PTX_f64] = exec_##name##_64                                \
    }

bool decode_selp(struct decoder *d, struct emu_op *op)
{
    static alu_table    table = SELECT_TABLE(selp);
    const enum ptx_type type = decode_type(d);
    bool                negated = false;
    if (table[type] == NULL)
        return decode_refuse(d, "there is no such type for this operation");
    if (!decode_end(d) || !decode_operands(d, 4, 4))
        return false;
    decode_result(d, 0, type);
    decode_source(d, 1, type);
    decode_source(d, 2, type);
    decode_source_pred(d, decode_operand(d, 3), &negated);
    op->u32[0] = negated ? EMU_ALL : 0;
    op->exec = table[type];
    op->class_ = EMU_CLASS_move;
    return !d->failed;
}

/* ---- slct: d = c >= 0 ? a : b -------------------------------------------------------------------------- */
/* As a float, NaN is not >= 0 and -0 is; .ftz treats subnormals as zeros. */
static inline bool float_not_negative(uint32_t c, bool flush)
{
    const uint32_t size = c & 0x7fffffffu;
    return size <= 0x7f800000u && ((c >> 31) == 0 || size < (flush ? 0x00800000u : 1u));
}

ALU_3X(slct_32, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, (c >> 31) == 0 ? a : b)
ALU_3X(slct_64, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint32_t, uint32_t, (c >> 31) == 0 ? a : b)
ALU_3X(slct_float_32, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t,
       float_not_negative(c, op->u8[0]) ? a : b)
ALU_3X(slct_float_64, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint32_t, uint32_t,
       float_not_negative(c, op->u8[0]) ? a : b)

bool decode_slct(struct decoder *d, struct emu_op *op)
{
    static alu_table    by_integer = SELECT_TABLE(slct), by_float = SELECT_TABLE(slct_float);
    const bool          flush = decode_take(d, "ftz");
    const enum ptx_type type = decode_type(d), sign = decode_type(d);
    if (by_integer[type] == NULL)
        return decode_refuse(d, "there is no such type for this operation");
    if (sign != PTX_f32 && (sign != PTX_s32 || flush))
        return decode_refuse(d, "c must be .s32 or .f32, and only .f32 has .ftz");
    op->u8[0] = flush;
    op->exec = sign == PTX_s32 ? by_integer[type] : by_float[type];
    op->class_ = EMU_CLASS_move;
    return DECODE_TYPED(d, type, type, type, sign);
}
