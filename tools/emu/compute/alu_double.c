/* alu_double.c - f64 arithmetic to nearest even, and the directed rounding modes of f32 and f64. */
#include <math.h>
#include "float_lanes.h"
#include "float_round.h"

/* The NaN of the result, as measured on an H200: that of b, then c, then a; for a quotient that of a first. */
#define VALUE(x)            emu_double_of(x)
#define ADD(a, b)           emu_nan_f64(emu_bits_of_double(VALUE(a) + VALUE(b)), b, a, 0)
#define SUB(a, b)           emu_nan_f64(emu_bits_of_double(VALUE(a) - VALUE(b)), b, a, 0)
#define MUL(a, b)           emu_nan_f64(emu_bits_of_double(VALUE(a) * VALUE(b)), b, a, 0)
#define FUSED(a, b, c)      emu_nan_f64(emu_bits_of_double(fma(VALUE(a), VALUE(b), VALUE(c))), b, c, a)
#define HOST_FMA(a, b, c)   emu_bits_of_double(__builtin_fma(VALUE(a), VALUE(b), VALUE(c)))
#define FUSED_HOST(a, b, c) emu_nan_f64(HOST_FMA(a, b, c), b, c, a)
EMU_DOUBLE_2(exec_add, ADD)
EMU_DOUBLE_2(exec_sub, SUB)
EMU_DOUBLE_2(exec_mul, MUL)
EMU_LANES_3(, exec_fma, uint64_t, emu_r64, FUSED)
EMU_LANES_3(EMU_WIDE, exec_fma_wide, uint64_t, emu_r64, FUSED_HOST)

emu_exec *emu_arithmetic_f64(enum emu_arithmetic operation)
{
    static const struct emu_exec_pair table[EMU_ARITHMETIC] = {EMU_PAIR(exec_add), EMU_PAIR(exec_sub),
                                                               EMU_PAIR(exec_mul), EMU_PAIR(exec_fma)};
    return emu_float_exec(table[operation]);
}

/* ---- directed modes --------------------------------------------------------------------------------- */
static uint32_t directed_f32(const struct emu_op *op, uint32_t a, uint32_t b, uint32_t c)
{
    const enum emu_rounding rounding = (enum emu_rounding)op->u8[0];
    const unsigned int      flags = op->u8[1];
    const bool              ftz = flags & EMU_FTZ;
    uint32_t                r;
    if (ftz) {
        a = emu_ftz_f32(a);
        b = emu_ftz_f32(b);
        c = emu_ftz_f32(c);
    }
    /* clang-format off */
    switch (op->u8[2]) {
    case EMU_ADD: r = emu_round_add_f32(a, b, rounding, ftz); break;
    case EMU_SUB: r = emu_round_add_f32(a, b ^ 0x80000000, rounding, ftz); break;
    case EMU_MUL: r = emu_round_mul_f32(a, b, rounding, ftz); break;
    case EMU_FMA: r = emu_round_fma_f32(a, b, c, rounding, ftz); break;
    case EMU_OPERATION_DIV: r = emu_round_div_f32(a, b, rounding, ftz); break;
    case EMU_OPERATION_RCP: r = emu_round_div_f32(0x3f800000, a, rounding, ftz); break;
    default: r = emu_round_sqrt_f32(a, rounding, ftz); break;
    }
    /* clang-format on */
    return flags & EMU_SAT ? emu_sat_f32(r) : r;
}
#define ONE 0x3ff0000000000000ull
static uint64_t directed_f64(const struct emu_op *op, uint64_t a, uint64_t b, uint64_t c)
{
    const enum emu_rounding rounding = (enum emu_rounding)op->u8[0];
    switch (op->u8[2]) {
    case EMU_ADD:
        return emu_nan_f64(emu_round_add_f64(a, b, rounding), b, a, 0);
    case EMU_SUB:
        return emu_nan_f64(emu_round_add_f64(a, b ^ 1ull << 63, rounding), b, a, 0);
    case EMU_MUL:
        return emu_nan_f64(emu_round_mul_f64(a, b, rounding), b, a, 0);
    case EMU_FMA:
        return emu_nan_f64(emu_round_fma_f64(a, b, c, rounding), b, c, a);
    case EMU_OPERATION_DIV:
        return emu_nan_f64(emu_round_div_f64(a, b, rounding), a, b, 0);
    case EMU_OPERATION_RCP:
        return emu_nan_f64(emu_round_div_f64(ONE, a, rounding), a, 0, 0);
    default:
        return emu_nan_f64(emu_round_sqrt_f64(a, rounding), a, 0, 0);
    }
}
/* An operation with fewer sources reads its first one in their place. */
static emu_reg source(const struct emu_op *op, unsigned int number)
{
    return op->source[number < op->source_count ? number : 0];
}
void emu_exec_directed_f32(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    uint32_t       *d = emu_r32(w, op->result[0]);
    const uint32_t *a = emu_r32(w, source(op, 0)), *b = emu_r32(w, source(op, 1));
    const uint32_t *c = emu_r32(w, source(op, 2));
    EMU_FOR_LANES(mask, l, d[l] = directed_f32(op, a[l], b[l], c[l]));
}
void emu_exec_directed_f64(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    uint64_t       *d = emu_r64(w, op->result[0]);
    const uint64_t *a = emu_r64(w, source(op, 0)), *b = emu_r64(w, source(op, 1));
    const uint64_t *c = emu_r64(w, source(op, 2));
    EMU_FOR_LANES(mask, l, d[l] = directed_f64(op, a[l], b[l], c[l]));
}
void emu_exec_directed_f32x2(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    uint64_t       *d = emu_r64(w, op->result[0]);
    const uint64_t *a = emu_r64(w, source(op, 0)), *b = emu_r64(w, source(op, 1));
    const uint64_t *c = emu_r64(w, source(op, 2));
    EMU_FOR_LANES(mask, l,
                  d[l] = directed_f32(op, (uint32_t)a[l], (uint32_t)b[l], (uint32_t)c[l]) |
                         (uint64_t)directed_f32(op, (uint32_t)(a[l] >> 32), (uint32_t)(b[l] >> 32),
                                                (uint32_t)(c[l] >> 32))
                             << 32);
}
