/* undefined.c - what an op makes of source bits that hold no value: the rule of each opcode.
 *
 * What moves bits keeps track of each one; arithmetic spreads them; everything else (addresses, barriers, ...)
 * uses its sources, so that an undefined one is a finding there. */
#include "state.h"

/* Opcodes whose result bits each depend on few bits of the first sources (0: of all); the other sources say
 * which. */
static const struct {
    const char *opcode;
    uint8_t     tried;
} movers[] = {{"mov", 0},  {"and", 2},  {"or", 2},   {"xor", 2},   {"not", 1},  {"lop3", 3},
              {"shl", 1},  {"shr", 1},  {"shf", 2},  {"prmt", 2},  {"bfe", 1},  {"bfi", 2},
              {"brev", 1}, {"selp", 3}, {"slct", 2}, {"szext", 1}, {"vote", 1}, {"movmatrix", 1}};

/* Integer operations whose result bits depend on source bits at the same place and below. */
static const char *const risers[] = {"add",   "sub", "mul",  "mad",  "mul24",
                                     "mad24", "neg", "addc", "subc", "madc"};

static bool has_modifier(const struct ptx_instruction *in, const char *word)
{
    for (unsigned int i = 0; i < in->modifier_count; i++)
        if (strcmp(in->modifiers[i], word) == 0)
            return true;
    return false;
}

/* A type of two or more values in one register: f16x2, e4m3x2, ... */
static bool is_packed(const char *modifier)
{
    const size_t length = strlen(modifier);
    return length > 3 && strcmp(modifier + length - 2, "x2") == 0;
}

static bool any_packed(const struct ptx_instruction *in)
{
    for (unsigned int i = 0; i < in->modifier_count; i++)
        if (is_packed(in->modifiers[i]))
            return true;
    return false;
}

/* cvt: the first type is the result's. */
static enum emu_undefined rule_of_cvt(const struct emu_op *op)
{
    const struct ptx_instruction *in = op->text;
    const unsigned int            count = in->modifier_count;
    const enum ptx_type           to = count > 1 ? ptx_type_find(in->modifiers[count - 2]) : PTX_NO_TYPE;
    const enum ptx_type           from = count > 1 ? ptx_type_find(in->modifiers[count - 1]) : PTX_NO_TYPE;
    if (any_packed(in))
        return op->source_count == 1   ? EMU_UNDEFINED_PARTS
               : op->source_count == 2 ? EMU_UNDEFINED_PACKS
                                       : EMU_UNDEFINED_SPREADS;
    if (count == 2 && to >= PTX_u8 && to <= PTX_s64 && from >= PTX_u8 && from <= PTX_s64)
        return EMU_UNDEFINED_BITS; /* extended or cut off */
    return EMU_UNDEFINED_SPREADS;
}

static bool find_mover(struct emu_op *op)
{
    for (size_t i = 0; i < sizeof movers / sizeof movers[0]; i++)
        if (strcmp(movers[i].opcode, op->text->opcode) == 0) {
            op->tried = movers[i].tried ? movers[i].tried : (uint8_t)op->source_count;
            return true;
        }
    return false;
}

static bool rises(const struct emu_op *op)
{
    bool found = false;
    for (size_t i = 0; i < sizeof risers / sizeof risers[0]; i++)
        found |= strcmp(risers[i], op->text->opcode) == 0;
    return found && op->class_ == EMU_CLASS_integer && !has_modifier(op->text, "hi") &&
           !has_modifier(op->text, "sat");
}

static enum emu_undefined rule_of(struct emu_op *op)
{
    const struct ptx_instruction *in = op->text;
    switch (op->class_) {
    case EMU_CLASS_integer:
    case EMU_CLASS_floating:
    case EMU_CLASS_half:
    case EMU_CLASS_convert:
    case EMU_CLASS_compare:
    case EMU_CLASS_move:
    case EMU_CLASS_shuffle:
        break;
    default:
        return EMU_UNDEFINED_REPORTS;
    }
    if (strcmp(in->opcode, "cvt") == 0) {
        op->tried = 1;
        return rule_of_cvt(op);
    }
    if (find_mover(op))
        return op->result_count == 1 || strcmp(in->opcode, "mov") == 0
                   ? (has_modifier(in, "uni") ? EMU_UNDEFINED_WARP : EMU_UNDEFINED_BITS)
                   : EMU_UNDEFINED_SPREADS;
    if (op->class_ == EMU_CLASS_shuffle)
        return EMU_UNDEFINED_WARP;
    if (any_packed(in))
        return EMU_UNDEFINED_PARTS;
    return rises(op) ? EMU_UNDEFINED_UPWARDS : EMU_UNDEFINED_SPREADS;
}

void decode_undefined(struct emu_op *op)
{
    if (op->undefined == EMU_UNDEFINED_BY_OPCODE)
        op->undefined = (uint8_t)rule_of(op);
}
