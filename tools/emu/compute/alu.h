/* alu.h - what the integer, bit, selection and warp-wide families share. */
#ifndef EMU_ALU_H
#define EMU_ALU_H
#include "tools/emu/decode/decode.h"
#include "tools/emu/judge/judge.h"

/* ---- loops ------------------------------------------------------------------------------------------------
 * exec_<name>: d = expr of a, b, c in every lane.  D, A, B, C are the types of the rows' elements (uint32_t, or
 * uint64_t for 64 bits); TA, TB, TC are the types in which expr sees the operands.  expr must leave the upper
 * bits of 16-bit results zero. */
#define ALU_1X(name, D, A, TA, expr)                                                    \
    static void exec_##name(struct emu_warp *w, const struct emu_op *op, uint32_t mask) \
    {                                                                                   \
        D       *d = (D *)emu_row(w, op->result[0]);                                    \
        const A *pa = (const A *)emu_row(w, op->source[0]);                             \
        EMU_FOR_LANES(mask, l, const TA a = (TA)pa[l]; d[l] = (D)(expr));               \
    }
#define ALU_2X(name, D, A, TA, B, TB, expr)                                                       \
    static void exec_##name(struct emu_warp *w, const struct emu_op *op, uint32_t mask)           \
    {                                                                                             \
        D       *d = (D *)emu_row(w, op->result[0]);                                              \
        const A *pa = (const A *)emu_row(w, op->source[0]);                                       \
        const B *pb = (const B *)emu_row(w, op->source[1]);                                       \
        EMU_FOR_LANES(mask, l, const TA a = (TA)pa[l]; const TB b = (TB)pb[l]; d[l] = (D)(expr)); \
    }
#define ALU_3X(name, D, A, TA, B, TB, C, TC, expr)                                                     \
    static void exec_##name(struct emu_warp *w, const struct emu_op *op, uint32_t mask)                \
    {                                                                                                  \
        D       *d = (D *)emu_row(w, op->result[0]);                                                   \
        const A *pa = (const A *)emu_row(w, op->source[0]);                                            \
        const B *pb = (const B *)emu_row(w, op->source[1]);                                            \
        const C *pc = (const C *)emu_row(w, op->source[2]);                                            \
        EMU_FOR_LANES(mask, l, const TA a = (TA)pa[l]; const TB b = (TB)pb[l]; const TC c = (TC)pc[l]; \
                      d[l] = (D)(expr));                                                               \
    }
#define ALU_1(name, R, T, expr) ALU_1X(name, R, R, T, expr)
#define ALU_2(name, R, T, expr) ALU_2X(name, R, R, T, R, T, expr)
#define ALU_3(name, R, T, expr) ALU_3X(name, R, R, T, R, T, R, T, expr)

/* One bit for each lane.  Compilers vectorise `bits |= condition ? alu_bit[l] : 0` for every CPU, but not a
 * shift by l. */
static const uint32_t alu_bit[EMU_LANES] = {1u << 0,  1u << 1,  1u << 2,  1u << 3,  1u << 4,  1u << 5,
                                            1u << 6,  1u << 7,  1u << 8,  1u << 9,  1u << 10, 1u << 11,
                                            1u << 12, 1u << 13, 1u << 14, 1u << 15, 1u << 16, 1u << 17,
                                            1u << 18, 1u << 19, 1u << 20, 1u << 21, 1u << 22, 1u << 23,
                                            1u << 24, 1u << 25, 1u << 26, 1u << 27, 1u << 28, 1u << 29,
                                            1u << 30, 1u << 31};

/* ---- decoding ------------------------------------------------------------------------------------------ */
/* Functions by type; a type without a function is refused. */
typedef emu_exec *const alu_table[PTX_TYPE_COUNT];

/* Decode the rest of an op whose modifiers are all read: the result, then `sources` operands of one type.
 * exec NULL: the instruction does not exist for the type, and is refused. */
static inline bool alu_finish(struct decoder *d, struct emu_op *op, emu_exec *exec, enum ptx_type result,
                              enum ptx_type source, unsigned int sources)
{
    if (exec == NULL)
        return decode_refuse(d, "there is no such type for this operation");
    if (!decode_end(d) || !decode_operands(d, sources + 1, sources + 1))
        return false;
    decode_result(d, 0, result);
    for (unsigned int i = 1; i <= sources; i++)
        decode_source(d, i, source);
    op->exec = exec;
    op->class_ = EMU_CLASS_integer;
    return !d->failed;
}

/* ---- ops with EMU_OP_CHECKS ---------------------------------------------------------------------------- */
/* The registers that an op with EMU_OP_CHECKS touches must not belong to a wgmma in flight. */
static inline void alu_check_busy(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    if (w->busy == NULL)
        return;
    for (uint32_t i = 0; i < (uint32_t)op->source_count + op->result_count; i++) {
        const bool     reads = i < op->source_count;
        const emu_reg  reg = reads ? op->source[i] : op->result[i - op->source_count];
        const uint32_t taken = EMU_BANK(reg) == EMU_BANK_FRAME ? w->busy[EMU_ROW_OF(reg)] & mask : 0;
        if (taken != 0) {
            judge_find(w, op, __builtin_ctz(taken), JUDGE_ASYNC,
                       "%s a register before wgmma.wait_group covers the wgmma that owns it",
                       reads ? "reads" : "writes");
            return;
        }
    }
}

/* alu_carry.c: add.cc, addc, ...: `reads` and `writes` CC.CF; the modifiers after ".cc" are not read yet. */
enum alu_carry_kind { ALU_CARRY_ADD, ALU_CARRY_SUB, ALU_CARRY_MAD_LO, ALU_CARRY_MAD_HI };
bool alu_decode_carry(struct decoder *d, struct emu_op *op, enum alu_carry_kind kind, bool reads, bool writes);
#endif
