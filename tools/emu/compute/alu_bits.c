/* alu_bits.c - bits: logic, shifts, fields, counts and permutations of bytes. */
#include "alu.h"

/* ---- and, or, xor, not, cnot --------------------------------------------------------------------------- */
#define LOGIC(name, operator)                                                                  \
    ALU_2(name##_32, uint32_t, uint32_t, a operator b)                                         \
    ALU_2(name##_64, uint64_t, uint64_t, a operator b)                                         \
    static void exec_##name##_pred(struct emu_warp *w, const struct emu_op *op, uint32_t mask) \
    {                                                                                          \
        const uint32_t a = emu_pred(w, op->source[0]) ^ op->u32[0];                            \
        const uint32_t b = emu_pred(w, op->source[1]) ^ op->u32[1];                            \
        emu_set_pred(w, op->result[0], mask, a operator b);                                    \
    }
LOGIC(bit_and, &)
LOGIC(bit_or, |)
LOGIC(bit_xor, ^)
ALU_1(not_16, uint32_t, uint32_t, a ^ 0xffffu)
ALU_1(not_32, uint32_t, uint32_t, ~a)
ALU_1(not_64, uint64_t, uint64_t, ~a)
ALU_1(cnot_32, uint32_t, uint32_t, a == 0)
ALU_1(cnot_64, uint64_t, uint64_t, a == 0)

static void exec_not_pred(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    emu_set_pred(w, op->result[0], mask, ~(emu_pred(w, op->source[0]) ^ op->u32[0]));
}

/* The sources of an operation on predicates may be negated; op->u32[] of such a source is all ones. */
static bool decode_predicates(struct decoder *d, struct emu_op *op, emu_exec *exec, unsigned int sources)
{
    if (!decode_end(d) || !decode_operands(d, sources + 1, sources + 1))
        return false;
    decode_result(d, 0, PTX_pred);
    for (unsigned int i = 0; i < sources; i++) {
        bool negated = false;
        decode_source_pred(d, decode_operand(d, i + 1), &negated);
        op->u32[i] = negated ? EMU_ALL : 0;
    }
    op->exec = exec;
    op->class_ = EMU_CLASS_integer;
    return !d->failed;
}

static bool decode_logic(struct decoder *d, struct emu_op *op, alu_table table, unsigned int sources)
{
    const enum ptx_type type = decode_type(d);
    if (type == PTX_pred && table[type] != NULL)
        return decode_predicates(d, op, table[type], sources);
    return alu_finish(d, op, table[type], type, type, sources);
}

#define LOGIC_TABLE(name)                                                                            \
    {                                                                                                \
        [PTX_pred] = exec_##name##_pred, [PTX_b16] = exec_##name##_32, [PTX_b32] = exec_##name##_32, \
        [PTX_b64] = exec_##name##_64                                                                 \
    }

bool decode_and(struct decoder *d, struct emu_op *op)
{
    static alu_table table = LOGIC_TABLE(bit_and);
    return decode_logic(d, op, table, 2);
}

bool decode_or(struct decoder *d, struct emu_op *op)
{
    static alu_table table = LOGIC_TABLE(bit_or);
    return decode_logic(d, op, table, 2);
}

bool decode_xor(struct decoder *d, struct emu_op *op)
{
    static alu_table table = LOGIC_TABLE(bit_xor);
    return decode_logic(d, op, table, 2);
}

bool decode_not(struct decoder *d, struct emu_op *op)
{
    static alu_table table =
        {[PTX_pred] = exec_not_pred, [PTX_b16] = exec_not_16, [PTX_b32] = exec_not_32, [PTX_b64] = exec_not_64};
    return decode_logic(d, op, table, 1);
}

bool decode_cnot(struct decoder *d, struct emu_op *op)
{
    static alu_table table = {[PTX_b16] = exec_cnot_32, [PTX_b32] = exec_cnot_32, [PTX_b64] = exec_cnot_64};
    return decode_logic(d, op, table, 1);
}

/* ---- lop3 ---------------------------------------------------------------------------------------------- */
/* Any function of three bits is a sum modulo 2 of products of these bits: bit k of the coefficients belongs to
 * the product of a (if bit 2 of k is set), b (bit 1) and c (bit 0). */
static uint8_t lop3_coefficients(uint8_t table)
{
    table ^= (uint8_t)((table & 0x55u) << 1);
    table ^= (uint8_t)((table & 0x33u) << 2);
    table ^= (uint8_t)((table & 0x0fu) << 4);
    return table;
}

static void exec_lop3(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    uint32_t       *d = emu_r32(w, op->result[0]), k[8];
    const uint32_t *pa = emu_r32(w, op->source[0]), *pb = emu_r32(w, op->source[1]);
    const uint32_t *pc = emu_r32(w, op->source[2]);
    for (int i = 0; i < 8; i++)
        k[i] = 0u - (op->u8[0] >> i & 1u);
    EMU_FOR_LANES(mask, l, const uint32_t a = pa[l]; const uint32_t b = pb[l]; const uint32_t c = pc[l];
                  d[l] = (k[0] ^ (k[1] & c) ^ (b & (k[2] ^ (k[3] & c)))) ^
                         (a & (k[4] ^ (k[5] & c) ^ (b & (k[6] ^ (k[7] & c))))));
}

/* p = (d != 0) .or/.and q */
static void exec_lop3_test(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const uint32_t *d = emu_r32(w, op->result[0]);
    const uint32_t  q = emu_pred(w, op->source[3]) ^ op->u32[0];
    uint32_t        set = 0;
    exec_lop3(w, op, mask);
    for (int l = 0; l < EMU_LANES; l++)
        set |= d[l] != 0 ? alu_bit[l] : 0;
    emu_set_pred(w, op->result[1], mask, op->u8[1] ? set & q : set | q);
}

static bool decode_lop3_table(struct decoder *d, struct emu_op *op)
{
    int64_t table;
    for (unsigned int i = 1; i <= 3; i++)
        decode_source(d, i, PTX_b32);
    if (!decode_integer(d, 4, &table))
        return false;
    op->u8[0] = lop3_coefficients((uint8_t)table); /* ptxas takes any constant: its low 8 bits count */
    op->exec = exec_lop3;
    op->class_ = EMU_CLASS_integer;
    return !d->failed;
}

bool decode_lop3(struct decoder *d, struct emu_op *op)
{
    static const char *const  words[] = {"or", "and", NULL};
    const int                 combine = decode_one_of(d, words);
    const struct ptx_operand *results;
    bool                      negated = false;
    if (!decode_take(d, "b32"))
        return decode_refuse(d, "the type must be .b32");
    if (!decode_end(d))
        return false;
    if (combine < 0) {
        if (!decode_operands(d, 5, 5))
            return false;
        decode_result(d, 0, PTX_b32);
        return decode_lop3_table(d, op);
    }
    if (!decode_need_isa(d, 82) || !decode_operands(d, 6, 6))
        return false;
    results = decode_operand(d, 0);
    if (results->kind != PTX_OP_PAIR)
        return decode_refuse(d, "the results must be d|p");
    decode_result_of(d, &results->items[0], PTX_b32);
    decode_result_pred(d, &results->items[1]);
    if (!decode_lop3_table(d, op))
        return false;
    decode_source_pred(d, decode_operand(d, 5), &negated);
    op->u32[0] = negated ? EMU_ALL : 0;
    op->u8[1] = combine == 1;
    op->exec = exec_lop3_test;
    return !d->failed;
}

/* ---- shl, shr ------------------------------------------------------------------------------------------ */
/* Amounts beyond the width shift everything out.  A shift by the same constant in all lanes, the common case,
 * is one vector instruction; other shifts are not on every CPU. */
#define SHIFT(name, R, T, bits, beyond, by)                                                    \
    static inline R name(T a, uint32_t n) { return n >= (bits) ? (R)(beyond) : (R)(by); }      \
    ALU_2X(name, R, R, T, uint32_t, uint32_t, name(a, b))                                      \
    static void exec_##name##_same(struct emu_warp *w, const struct emu_op *op, uint32_t mask) \
    {                                                                                          \
        R             *d = (R *)emu_row(w, op->result[0]);                                     \
        const R       *pa = (const R *)emu_row(w, op->source[0]);                              \
        const uint32_t n = *emu_r32(w, op->source[1]);                                         \
        if (n < (bits))                                                                        \
            EMU_FOR_LANES(mask, l, const T a = (T)pa[l]; d[l] = (R)(by));                      \
        else                                                                                   \
            EMU_FOR_LANES(mask, l, const T a = (T)pa[l]; (void)a; d[l] = (R)(beyond));         \
    }
SHIFT(shl_16, uint32_t, uint32_t, 16, 0, (uint16_t)(a << n))
SHIFT(shl_32, uint32_t, uint32_t, 32, 0, a << n)
SHIFT(shl_64, uint64_t, uint64_t, 64, 0, a << n)
SHIFT(shr_u32, uint32_t, uint32_t, 32, 0, a >> n)
SHIFT(shr_u64, uint64_t, uint64_t, 64, 0, a >> n)
SHIFT(shr_s16, uint32_t, int16_t, 16, (uint16_t)(a >> 15), (uint16_t)(a >> n))
SHIFT(shr_s32, uint32_t, int32_t, 32, a >> 31, a >> n)
SHIFT(shr_s64, uint64_t, int64_t, 64, a >> 63, a >> n)

static bool decode_shift(struct decoder *d, struct emu_op *op, alu_table table, alu_table same)
{
    const enum ptx_type type = decode_type(d);
    if (table[type] == NULL)
        return decode_refuse(d, "there is no such type for this operation");
    if (!DECODE_TYPED(d, type, type, PTX_u32))
        return false;
    op->exec = EMU_BANK(op->source[1]) == EMU_BANK_CONSTANT ? same[type] : table[type];
    op->class_ = EMU_CLASS_integer;
    return !d->failed;
}

bool decode_shl(struct decoder *d, struct emu_op *op)
{
    static alu_table table = {[PTX_b16] = exec_shl_16, [PTX_b32] = exec_shl_32, [PTX_b64] = exec_shl_64};
    static alu_table same =
        {[PTX_b16] = exec_shl_16_same, [PTX_b32] = exec_shl_32_same, [PTX_b64] = exec_shl_64_same};
    return decode_shift(d, op, table, same);
}

#define SHR_TABLE(end)                                                                               \
    {                                                                                                \
        [PTX_b16] = exec_shr_u32##end, [PTX_b32] = exec_shr_u32##end, [PTX_b64] = exec_shr_u64##end, \
        [PTX_u16] = exec_shr_u32##end, [PTX_u32] = exec_shr_u32##end, [PTX_u64] = exec_shr_u64##end, \
        [PTX_s16] = exec_shr_s16##end, [PTX_s32] = exec_shr_s32##end, [PTX_s64] = exec_shr_s64##end  \
    }

bool decode_shr(struct decoder *d, struct emu_op *op)
{
    static alu_table table = SHR_TABLE(), same = SHR_TABLE(_same);
    return decode_shift(d, op, table, same);
}

/* ---- shf: one half of the 64 bits b:a, shifted by c ---------------------------------------------------- */
#define BOTH ((uint64_t)b << 32 | a)
ALU_3(shf_l_clamp, uint32_t, uint32_t, BOTH << (c < 32 ? c : 32) >> 32)
ALU_3(shf_l_wrap, uint32_t, uint32_t, BOTH << (c & 31) >> 32)
ALU_3(shf_r_clamp, uint32_t, uint32_t, BOTH >> (c < 32 ? c : 32))
ALU_3(shf_r_wrap, uint32_t, uint32_t, BOTH >> (c & 31))

/* Take .clamp (0) or .wrap (1).  -1: it is neither, and the instruction is refused. */
static int take_mode(struct decoder *d)
{
    static const char *const words[] = {"clamp", "wrap", NULL};
    const int                mode = decode_one_of(d, words);
    if (mode < 0)
        decode_refuse(d, "one of .clamp, .wrap is needed");
    return mode;
}

bool decode_shf(struct decoder *d, struct emu_op *op)
{
    static emu_exec *const   table[2][2] = {{exec_shf_l_clamp, exec_shf_l_wrap},
                                            {exec_shf_r_clamp, exec_shf_r_wrap}};
    static const char *const words[] = {"l", "r", NULL};
    const int                way = decode_one_of(d, words), mode = way < 0 ? -1 : take_mode(d);
    if (way < 0)
        return decode_refuse(d, "one of .l, .r is needed");
    if (mode < 0)
        return false;
    if (!decode_take(d, "b32"))
        return decode_refuse(d, "the type must be .b32");
    op->exec = table[way][mode];
    op->class_ = EMU_CLASS_integer;
    return DECODE_TYPED(d, PTX_b32, PTX_b32, PTX_b32, PTX_u32);
}

/* ---- counts: popc, clz, bfind, fns, brev --------------------------------------------------------------- */
static inline uint32_t popc_32(uint32_t v)
{
    v -= v >> 1 & 0x55555555u;
    v = (v & 0x33333333u) + (v >> 2 & 0x33333333u);
    v = (v + (v >> 4)) & 0x0f0f0f0fu;
    return v * 0x01010101u >> 24;
}
static inline uint32_t clz_32(uint32_t v) { return v == 0 ? 32 : (uint32_t)__builtin_clz(v); }
static inline uint32_t clz_64(uint64_t v) { return v == 0 ? 64 : (uint32_t)__builtin_clzll(v); }
static inline uint32_t brev_32(uint32_t v)
{
    v = (v & 0x55555555u) << 1 | (v >> 1 & 0x55555555u);
    v = (v & 0x33333333u) << 2 | (v >> 2 & 0x33333333u);
    v = (v & 0x0f0f0f0fu) << 4 | (v >> 4 & 0x0f0f0f0fu);
    v = (v & 0x00ff00ffu) << 8 | (v >> 8 & 0x00ff00ffu);
    return v << 16 | v >> 16;
}

ALU_1(popc_32, uint32_t, uint32_t, popc_32(a))
ALU_1X(popc_64, uint32_t, uint64_t, uint64_t, popc_32((uint32_t)a) + popc_32((uint32_t)(a >> 32)))
ALU_1(clz_32, uint32_t, uint32_t, clz_32(a))
ALU_1X(clz_64, uint32_t, uint64_t, uint64_t, clz_64(a))
ALU_1(brev_32, uint32_t, uint32_t, brev_32(a))
ALU_1(brev_64, uint64_t, uint64_t, (uint64_t)brev_32((uint32_t)a) << 32 | brev_32((uint32_t)(a >> 32)))

/* The position of the highest bit that differs from the sign (unsigned: that is set); with .shiftamt its
 * distance from the top.  All ones: there is no such bit. */
static inline uint32_t find(uint32_t zeros, uint32_t bits, bool shift)
{
    return zeros == bits ? EMU_ALL : shift ? zeros : bits - 1 - zeros;
}
ALU_1(bfind_u32, uint32_t, uint32_t, find(clz_32(a), 32, op->u8[0]))
ALU_1(bfind_s32, uint32_t, uint32_t, find(clz_32(a ^ (0u - (a >> 31))), 32, op->u8[0]))
ALU_1X(bfind_u64, uint32_t, uint64_t, uint64_t, find(clz_64(a), 64, op->u8[0]))
ALU_1X(bfind_s64, uint32_t, uint64_t, uint64_t, find(clz_64(a ^ (0u - (a >> 63))), 64, op->u8[0]))

/* The offset-th set bit upwards from base (negative: downwards; 0: base itself).  All ones: there is none. */
static inline uint32_t fns(uint32_t bits, uint32_t base, int32_t offset)
{
    const int step = offset > 0 ? 1 : -1;
    int64_t   count = offset > 0 ? offset : -(int64_t)offset;
    if (base > 31)
        return EMU_ALL;
    if (offset == 0)
        return bits >> base & 1 ? base : EMU_ALL;
    for (int at = (int)base; at >= 0 && at < 32; at += step)
        if ((bits >> at & 1) != 0 && --count == 0)
            return (uint32_t)at;
    return EMU_ALL;
}
ALU_3(fns, uint32_t, uint32_t, fns(a, b, (int32_t)c))

/* An instruction that counts bits of one operand; the result has 32 bits. */
static bool decode_count(struct decoder *d, struct emu_op *op, alu_table table)
{
    const enum ptx_type type = decode_type(d);
    return alu_finish(d, op, table[type], PTX_u32, type, 1);
}

bool decode_popc(struct decoder *d, struct emu_op *op)
{
    static alu_table table = {[PTX_b32] = exec_popc_32, [PTX_b64] = exec_popc_64};
    return decode_count(d, op, table);
}

bool decode_clz(struct decoder *d, struct emu_op *op)
{
    static alu_table table = {[PTX_b32] = exec_clz_32, [PTX_b64] = exec_clz_64};
    return decode_count(d, op, table);
}

bool decode_bfind(struct decoder *d, struct emu_op *op)
{
    static alu_table table = {[PTX_u32] = exec_bfind_u32,
                              [PTX_s32] = exec_bfind_s32,
                              [PTX_u64] = exec_bfind_u64,
                              [PTX_s64] = exec_bfind_s64};
    op->u8[0] = decode_take(d, "shiftamt");
    return decode_count(d, op, table);
}

bool decode_fns(struct decoder *d, struct emu_op *op)
{
    static alu_table    table = {[PTX_b32] = exec_fns};
    const enum ptx_type type = decode_type(d);
    return alu_finish(d, op, table[type], type, type, 3);
}

bool decode_brev(struct decoder *d, struct emu_op *op)
{
    static alu_table table = {[PTX_b32] = exec_brev_32, [PTX_b64] = exec_brev_64};
    return decode_logic(d, op, table, 1);
}

/* ---- fields: bfe, bfi, bmsk, szext --------------------------------------------------------------------- */
/* Positions and lengths may reach beyond the top.  PTX restricts them to 0 to 255.  Of larger values, 32-bit
 * operations take the low 8 bits and 64-bit ones take all bits, as on sm_90. */
static inline uint64_t ones_64(uint32_t n) { return n >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1; }
static inline uint32_t ones_32(uint32_t n) { return n >= 32 ? ~0u : (1u << n) - 1; }

#define FIELD(bits, R, S, N, ones_)                                                                            \
    static inline R bfe_u##bits(R a, uint32_t at, uint32_t count)                                              \
    {                                                                                                          \
        return at >= bits ? 0 : a >> at & ones_(count);                                                        \
    }                                                                                                          \
    static inline R bfe_s##bits(S a, uint32_t at, uint32_t count)                                              \
    {                                                                                                          \
        const R v = (R)(a >> (at < bits ? at : bits - 1));                                                     \
        if (count == 0)                                                                                        \
            return 0;                                                                                          \
        if (count >= bits)                                                                                     \
            return v;                                                                                          \
        return (v >> (count - 1) & 1) != 0 ? v | ~ones_(count) : v & ones_(count);                             \
    }                                                                                                          \
    static inline R bfi_##bits(R a, R b, uint32_t at, uint32_t count)                                          \
    {                                                                                                          \
        const R field = at >= bits ? 0 : ones_(count) << at;                                                   \
        return at >= bits ? b : (b & ~field) | (a << at & field);                                              \
    }                                                                                                          \
    ALU_3X(bfe_u##bits, R, R, R, uint32_t, N, uint32_t, N, bfe_u##bits(a, b, c))                               \
    ALU_3X(bfe_s##bits, R, R, S, uint32_t, N, uint32_t, N, bfe_s##bits(a, b, c))                               \
    static void exec_bfi_##bits(struct emu_warp *w, const struct emu_op *op, uint32_t mask)                    \
    {                                                                                                          \
        R              *d = (R *)emu_row(w, op->result[0]);                                                    \
        const R        *pa = (const R *)emu_row(w, op->source[0]), *pb = (const R *)emu_row(w, op->source[1]); \
        const uint32_t *at = emu_r32(w, op->source[2]), *count = emu_r32(w, op->source[3]);                    \
        EMU_FOR_LANES(mask, l, d[l] = bfi_##bits(pa[l], pb[l], (N)at[l], (N)count[l]));                        \
    }
FIELD(32, uint32_t, int32_t, uint8_t, ones_32)
FIELD(64, uint64_t, int64_t, uint32_t, ones_64)

/* Constants of positions and lengths are 0 to 255. */
static bool decode_field(struct decoder *d, unsigned int number)
{
    for (unsigned int i = number; i < number + 2; i++) {
        const struct ptx_operand *o = decode_operand(d, i);
        if (o != NULL && o->kind == PTX_OP_INTEGER && o->integer > 255)
            return decode_refuse(d, "operand %u must be from 0 to 255", i + 1);
    }
    return !d->failed;
}

bool decode_bfe(struct decoder *d, struct emu_op *op)
{
    static alu_table table = {
        [PTX_u32] = exec_bfe_u32, [PTX_s32] = exec_bfe_s32, [PTX_u64] = exec_bfe_u64, [PTX_s64] = exec_bfe_s64};
    const enum ptx_type type = decode_type(d);
    if (table[type] == NULL)
        return decode_refuse(d, "there is no such type for this operation");
    op->exec = table[type];
    op->class_ = EMU_CLASS_integer;
    return DECODE_TYPED(d, type, type, PTX_u32, PTX_u32) && decode_field(d, 2);
}

bool decode_bfi(struct decoder *d, struct emu_op *op)
{
    const enum ptx_type type = decode_type(d);
    if (type != PTX_b32 && type != PTX_b64)
        return decode_refuse(d, "the type must be .b32 or .b64");
    op->exec = type == PTX_b32 ? exec_bfi_32 : exec_bfi_64;
    op->class_ = EMU_CLASS_integer;
    return DECODE_TYPED(d, type, type, type, PTX_u32, PTX_u32) && decode_field(d, 3);
}

/* `count` ones from bit `at` on. */
static inline uint32_t bmsk_clamp(uint32_t at, uint32_t count) { return at >= 32 ? 0 : ones_32(count) << at; }
ALU_2(bmsk_clamp, uint32_t, uint32_t, bmsk_clamp(a, b))
ALU_2(bmsk_wrap, uint32_t, uint32_t, ones_32(b & 31) << (a & 31))

/* The low `count` bits, extended with their sign or with zeros. */
static inline uint32_t szext_s32(uint32_t a, uint32_t count)
{
    return count == 0 ? 0 : bfe_s32((int32_t)a, 0, count < 32 ? count : 32);
}
ALU_2(szext_clamp_u32, uint32_t, uint32_t, a &ones_32(b))
ALU_2(szext_wrap_u32, uint32_t, uint32_t, a &ones_32(b & 31))
ALU_2(szext_clamp_s32, uint32_t, uint32_t, szext_s32(a, b))
ALU_2(szext_wrap_s32, uint32_t, uint32_t, szext_s32(a, b & 31))

bool decode_bmsk(struct decoder *d, struct emu_op *op)
{
    const int mode = take_mode(d);
    if (mode < 0)
        return false;
    if (!decode_take(d, "b32"))
        return decode_refuse(d, "the type must be .b32");
    return alu_finish(d, op, mode == 0 ? exec_bmsk_clamp : exec_bmsk_wrap, PTX_u32, PTX_u32, 2);
}

bool decode_szext(struct decoder *d, struct emu_op *op)
{
    static alu_table table[2] = {{[PTX_u32] = exec_szext_clamp_u32, [PTX_s32] = exec_szext_clamp_s32},
                                 {[PTX_u32] = exec_szext_wrap_u32, [PTX_s32] = exec_szext_wrap_s32}};
    const int        mode = take_mode(d);
    enum ptx_type    type;
    if (mode < 0)
        return false;
    type = decode_type(d);
    return alu_finish(d, op, table[mode][type], type, type, 2);
}

/* ---- prmt ---------------------------------------------------------------------------------------------- */
/* The selectors of the named modes, indexed by the low 2 bits of c. */
static const uint32_t prmt_modes[][4] = {
    {0x3210, 0x4321, 0x5432, 0x6543}, /* f4e  */
    {0x5670, 0x6701, 0x7012, 0x0123}, /* b4e  */
    {0x0000, 0x1111, 0x2222, 0x3333}, /* rc8  */
    {0x3210, 0x3211, 0x3222, 0x3333}, /* ecl  */
    {0x0000, 0x1110, 0x2210, 0x3210}, /* ecr  */
    {0x1010, 0x3232, 0x1010, 0x3232}  /* rc16 */
};

static inline uint32_t selector(const struct emu_op *op, uint32_t c)
{
    return op->u8[0] == 0 ? c : prmt_modes[op->u8[0] - 1][c & 3];
}

/* The low 3 bits of s choose a byte of b:a; with bit 3 the result is its sign in all bits. */
static inline uint32_t pick(uint64_t both, uint32_t s)
{
    const uint32_t byte = (uint32_t)(both >> 8 * (s & 7)) & 0xff;
    return (s & 8) == 0 ? byte : (byte & 0x80) != 0 ? 0xff : 0;
}
static inline uint32_t permute(uint64_t both, uint32_t s)
{
    return pick(both, s) | pick(both, s >> 4) << 8 | pick(both, s >> 8) << 16 | pick(both, s >> 12) << 24;
}
ALU_3(prmt, uint32_t, uint32_t, permute(BOTH, selector(op, c)))

/* The same selector without signs in all lanes: four shifted rows. */
static void exec_prmt_same(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    uint32_t       *d = emu_r32(w, op->result[0]);
    const uint32_t  s = selector(op, *emu_r32(w, op->source[2]));
    const uint32_t *row[4];
    uint32_t        shift[4];
    if ((s & 0x8888) != 0) {
        exec_prmt(w, op, mask);
        return;
    }
    for (int i = 0; i < 4; i++) {
        row[i] = emu_r32(w, op->source[s >> (4 * i + 2) & 1]);
        shift[i] = 8 * (s >> 4 * i & 3);
    }
    EMU_FOR_LANES(mask, l,
                  d[l] = (row[0][l] >> shift[0] & 0xff) | (row[1][l] >> shift[1] & 0xff) << 8 |
                         (row[2][l] >> shift[2] & 0xff) << 16 | (row[3][l] >> shift[3] & 0xff) << 24);
}

bool decode_prmt(struct decoder *d, struct emu_op *op)
{
    static const char *const words[] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16", NULL};
    if (!decode_take(d, "b32"))
        return decode_refuse(d, "the type must be .b32");
    op->u8[0] = (uint8_t)(decode_one_of(d, words) + 1);
    if (!DECODE_TYPED(d, PTX_b32, PTX_b32, PTX_b32, PTX_b32))
        return false;
    op->exec = EMU_BANK(op->source[2]) == EMU_BANK_CONSTANT ? exec_prmt_same : exec_prmt;
    op->class_ = EMU_CLASS_integer;
    return !d->failed;
}
