/* class.c - which registers and constants an instruction takes for a type, as ptxas decides it.
 *
 * Registers of bits fit every type of their width, and types of bits take every register.  Integers do not mind the
 * sign, and floating-point types take only their own registers or bits.  ptxas counts .f16x2 among the integers. */
#include "decode.h"
#include "state.h"

enum { BITS = 1, INTEGER = 2, FLOAT = 4, PREDICATE = 8 };

static unsigned int class_of(enum ptx_type type)
{
    switch (type) {
    case PTX_pred:
        return PREDICATE;
    case PTX_f16:
    case PTX_bf16:
    case PTX_bf16x2:
    case PTX_f32:
    case PTX_f64:
        return FLOAT;
    case PTX_f16x2:
        return FLOAT | INTEGER;
    default:
        return (type >= PTX_u8 && type <= PTX_s64) ? INTEGER : BITS;
    }
}

/* The operand itself, not a part of a list. */
static bool is_whole(const struct decoder *d, const struct ptx_operand *o)
{
    for (unsigned int i = 0; i < d->in->operand_count; i++)
        if (o == &d->in->operands[i])
            return true;
    return false;
}

static bool is_opcode(const struct decoder *d, const char *const *opcodes)
{
    for (int i = 0; opcodes[i] != NULL; i++)
        if (strcmp(d->in->opcode, opcodes[i]) == 0)
            return true;
    return false;
}

/* A pair of halves counts as an integer of the type that the instruction names, but not as a count, a mask or an
 * identifier, which the instruction does not name. */
static bool pair_counts(const struct decoder *d, const struct ptx_operand *o, enum ptx_type type)
{
    static const char *const first[] = {"bfind", "nanosleep", "getctarank", "dp4a", "dp2a", NULL};
    static const char *const never[] = {"mma", "wgmma", "wmma", NULL};
    static const char *const later[] = {"bfe", "szext", "mapa", "shl", "shr", NULL};
    const bool               counts = o == &d->in->operands[0]
                                          ? is_opcode(d, first)
                                          : d->in->operand_count > 2 && o >= &d->in->operands[2] && is_opcode(d, later);
    for (unsigned int i = 0; i < d->in->modifier_count && !is_opcode(d, never); i++)
        if (ptx_type_find(d->in->modifiers[i]) == type)
            return !counts;
    return false;
}

static bool agree(const struct decoder *d, const struct ptx_operand *o, enum ptx_type type)
{
    const enum ptx_type reg = o->symbol->type;
    const unsigned int  of_reg = class_of(reg), of_type = class_of(type);
    if (of_reg & PREDICATE || of_type & PREDICATE)
        return of_reg == of_type;
    if (of_reg & BITS)
        return true;
    if (of_type & BITS)
        return true;
    if (of_type & FLOAT)
        return reg == type;
    if (reg == PTX_f16x2)
        return pair_counts(d, o, type);
    return (of_reg & of_type) != 0;
}

/* ---- registers of lists ------------------------------------------------------------------------------- */
/* The list that holds an operand; NULL: none does. */
static const struct ptx_operand *list_of(const struct decoder *d, const struct ptx_operand *o)
{
    for (unsigned int i = 0; i < d->in->operand_count; i++) {
        const struct ptx_operand *list = &d->in->operands[i];
        if (list->kind == PTX_OP_LIST && o >= list->items && o < list->items + list->count)
            return list;
    }
    return NULL;
}

/* In a list of elements in memory, in one that is packed or unpacked, and in a fragment, a register of bits makes
 * ptxas look no further, as do integers of both signs in a fragment: the other registers only need its width. */
static bool beside_bits(const struct decoder *d, const struct ptx_operand *o)
{
    static const char *const  elements[] = {"ld", "ldu", "st", "mov", NULL};
    static const char *const  fragments[] = {"mma", "wgmma", "wmma", NULL};
    const bool                fragment = is_opcode(d, fragments);
    const struct ptx_operand *list = fragment || is_opcode(d, elements) ? list_of(d, o) : NULL;
    bool                      plain = false, with_sign = false;
    for (unsigned int k = 0; list != NULL && k < list->count; k++)
        if (list->items[k].kind == PTX_OP_REGISTER) {
            const enum ptx_type type = list->items[k].symbol->type;
            plain = plain || type == PTX_u32;
            with_sign = with_sign || type == PTX_s32;
            if (class_of(type) & BITS || (fragment && plain && with_sign))
                return true;
        }
    return false;
}

/* ptxas looks at no predicate among the registers of a fragment, unless it is the only one. */
static bool in_fragment(const struct decoder *d, const struct ptx_operand *o)
{
    static const char *const lists[] = {"ldmatrix", "stmatrix", "mma", "wgmma", NULL};
    if (is_whole(d, o))
        return strcmp(d->in->opcode, "movmatrix") == 0;
    return is_opcode(d, lists) || (strcmp(d->in->opcode, "wmma") == 0 && d->in->modifier_count > 0 &&
                                   strcmp(d->in->modifiers[0], "mma") == 0);
}

/* In a fragment two registers side by side are of one class, unless one is of bits: both integers, or pairs of halves,
 * or floats, or predicates. */
static bool like_the_one_before(struct decoder *d, const struct ptx_operand *o)
{
    static const char *const  opcodes[] = {"ldmatrix", "stmatrix", "mma", "wgmma", "wmma", NULL};
    const struct ptx_operand *list = is_opcode(d, opcodes) ? list_of(d, o) : NULL, *before = o - 1;
    if (list == NULL || o == list->items || before->kind != PTX_OP_REGISTER)
        return true;
    const unsigned int of_this = class_of(o->symbol->type), of_before = class_of(before->symbol->type);
    return (of_this | of_before) & BITS || of_this == of_before ||
           decode_refuse(d, "'%s' of .%s and '%s' of .%s are side by side", before->symbol->name,
                         ptx_type_name(before->symbol->type), o->symbol->name, ptx_type_name(o->symbol->type));
}

bool decode_fits(struct decoder *d, const struct ptx_operand *o, enum ptx_type type, bool wider)
{
    const enum ptx_type reg = o->symbol->type;
    const unsigned int  bits = ptx_type_bits(reg), wanted = ptx_type_bits(type);
    if (!like_the_one_before(d, o))
        return false;
    if (reg == PTX_pred && wanted == 32 && in_fragment(d, o) && (type == PTX_b32 || beside_bits(d, o)))
        return true;
    if (bits != wanted && !(wider && bits > wanted && wanted > 1))
        return decode_refuse(d, "'%s' has %u bits, .%s %s %u", o->symbol->name, bits, ptx_type_name(type),
                             wider ? "needs at least" : "needs", wanted);
    if (bits > wanted && class_of(type) & FLOAT && !(class_of(reg) & BITS))
        return decode_refuse(d, "'%s' is wider than .%s, and is not a register of bits", o->symbol->name,
                             ptx_type_name(type));
    if (!agree(d, o, type) && !beside_bits(d, o))
        return decode_refuse(d, "'%s' is a register of .%s, which .%s cannot use", o->symbol->name,
                             ptx_type_name(reg), ptx_type_name(type));
    return true;
}

/* Halves have no literals.  A type of bits takes floats only of its own precision, but in a list any float. */
bool decode_literal_fits(struct decoder *d, const struct ptx_operand *o, enum ptx_type type)
{
    const unsigned int of_type = class_of(type);
    const bool         integer = o->kind == PTX_OP_INTEGER;
    if (integer && !(of_type & FLOAT))
        return true;
    if (!integer && (type == PTX_f32 || type == PTX_f64 || (type == PTX_b32 && o->kind == PTX_OP_F32) ||
                     (type == PTX_b64 && o->kind == PTX_OP_F64) ||
                     (!is_whole(d, o) && of_type & BITS && ptx_type_bits(type) >= 32)))
        return true;
    return decode_refuse(d, "%s literal is given for .%s", integer ? "an integer" : "a float",
                         ptx_type_name(type));
}

/* ---- operands that only some instructions take -------------------------------------------------------- */
bool decode_may_discard(struct decoder *d, const struct ptx_operand *o)
{
    static const char *const opcodes[] = {"atom", "mbarrier", "setp", NULL};
    const bool               waits = strcmp(d->in->opcode, "mbarrier") == 0 && d->in->modifier_count > 0 &&
                       strncmp(d->in->modifiers[0], "arrive", 6) != 0;
    return !is_whole(d, o) || (is_opcode(d, opcodes) && !waits) ||
           decode_refuse(d, "this instruction cannot discard its result");
}

/* mov of the same width, but 16 bits of places in the grid are enough; cvt to and from any; elements of lists. */
bool decode_special_fits(struct decoder *d, const struct ptx_operand *o, unsigned int bits, enum ptx_type type)
{
    static const struct {
        const char *name; /* or a part of it */
        int         sm, isa;
    } newer[] = {{"cluster", 90, 78},
                 {"aggr_smem_size", 90, 81},
                 {"reserved_smem", 80, 76},
                 {"current_graph", 50, 80}};
    static const char *const opcodes[] = {"mov", "cvt", NULL};
    const unsigned int       wanted = ptx_type_bits(type);
    const bool               place = strchr(o->name, '.') != NULL;
    if (is_whole(d, o) && !is_opcode(d, opcodes))
        return decode_refuse(d, "only mov and cvt can read %%%s", o->name);
    for (size_t i = 0; i < sizeof newer / sizeof newer[0]; i++)
        if (strstr(o->name, newer[i].name) != NULL &&
            (!decode_need_sm(d, newer[i].sm) || !decode_need_isa(d, newer[i].isa)))
            return false;
    for (unsigned int i = 0; i < d->in->modifier_count; i++)
        if (strcmp(d->in->opcode, "cvt") == 0 && class_of(ptx_type_find(d->in->modifiers[i])) & FLOAT)
            return decode_refuse(d, "a conversion to or from a float cannot read %%%s", o->name);
    if (is_whole(d, o) && class_of(type) & FLOAT)
        return decode_refuse(d, ".%s cannot use %%%s", ptx_type_name(type), o->name);
    if (bits == wanted || (is_whole(d, o) && wanted == 16 && place) ||
        (wanted == 32 && strcmp(o->name, "gridid") == 0) ||
        (bits > wanted && strcmp(d->in->opcode, "cvt") == 0))
        return true;
    return decode_refuse(d, "%%%s has %u bits, .%s needs %u", o->name, bits, ptx_type_name(type), wanted);
}

/* The name of a function stands for its address in nearly all operands of the instruction's own type. */
static bool takes_functions(const struct decoder *d, const struct ptx_operand *o, enum ptx_type type)
{
    static const char *const others[] = {"cvt",      "shfl",      "bar",       "barrier",   "vote",  "testp",
                                         "copysign", "sqrt",      "mbarrier",  "redux",     "elect", "cp",
                                         "bfe",      "bfi",       "nanosleep", "red.async", "wgmma", "mma",
                                         "wmma",     "tensormap", NULL};
    static const char *const shifts[] = {"shl", "shr", "mapa", "match",
                                         NULL};                      /* not as the amount, rank, mask */
    static const char *const sums[] = {"dp4a", "dp2a", "shf", NULL}; /* not as the last operand */
    if (type == PTX_bf16 || type == PTX_bf16x2 || is_opcode(d, others) ||
        (o == &d->in->operands[2] && is_opcode(d, shifts)) || (o == &d->in->operands[3] && is_opcode(d, sums)))
        return false;
    return strcmp(d->in->opcode, "cvta") != 0 ||
           (d->in->modifier_count > 0 && strcmp(d->in->modifiers[0], "to") == 0);
}

bool decode_symbol_fits(struct decoder *d, const struct ptx_operand *o, enum ptx_type type)
{
    static const char *const opcodes[] = {"mov", "cvta", "mapa", "getctarank", "call", NULL};
    const unsigned int       bits = ptx_type_bits(type);
    if (is_whole(d, o) && o->symbol->kind == PTX_FUNCTION && !o->symbol->function->is_entry &&
        takes_functions(d, o, type))
        return true;
    if (!is_whole(d, o) || !is_opcode(d, opcodes))
        return decode_refuse(d, "a register is expected instead of '%s'", o->symbol->name);
    if (bits < 16 || bits > 64 || class_of(type) & FLOAT)
        return decode_refuse(d, "an address cannot be .%s", ptx_type_name(type));
    if (o->symbol->space != PTX_SHARED &&
        (strcmp(d->in->opcode, "mapa") == 0 || strcmp(d->in->opcode, "getctarank") == 0))
        return decode_refuse(d, "'%s' is not in shared memory", o->symbol->name);
    if (bits == 32 && o->symbol->space == PTX_GLOBAL)
        return decode_refuse(d, "the address of '%s' has 64 bits", o->symbol->name);
    if (o->symbol->kind == PTX_VARIABLE && o->symbol->space == PTX_PARAM && d->function->text->is_entry)
        for (unsigned int i = 0; i < d->function->text->variable_count; i++)
            if (d->function->text->variables[i] == o->symbol)
                return decode_refuse(d, "'%s' is for calls: it has no address", o->symbol->name);
    return true;
}

/* As a global or generic address, ptxas takes 32 bits only for the instructions that it widens them for, and fewer
 * for most others. */
bool decode_may_widen(struct decoder *d, unsigned int bits)
{
    static const char *const opcodes[] = {"ldmatrix", "stmatrix", "cp", "wmma", "tensormap", "fence", NULL};
    bool                     widened = false;
    for (unsigned int i = 0; i < d->in->modifier_count; i++)
        widened = widened || strcmp(d->in->modifiers[i], "async") == 0 ||
                  strcmp(d->in->modifiers[i], "tensormap") == 0;
    const bool narrow = (!widened && strcmp(d->in->opcode, "wmma") != 0) || strcmp(d->in->opcode, "cp") == 0;
    if (bits == 32 ? widened || is_opcode(d, opcodes) : narrow)
        return true;
    return decode_refuse(d, "a global or generic address has 64 bits, not %u", bits);
}

bool decode_is_address(struct decoder *d, const struct ptx_operand *o)
{
    const enum ptx_type reg = o->symbol->type;
    return (class_of(reg) & (BITS | INTEGER) && reg != PTX_f16x2 && reg != PTX_b128) ||
           decode_refuse(d, "'%s' is a register of .%s, which is not an address", o->symbol->name,
                         ptx_type_name(reg));
}

bool decode_same_widths(struct decoder *d, const struct ptx_operand *list)
{
    unsigned int wanted = 0;
    for (unsigned int i = 0; list->kind == PTX_OP_LIST && i < list->count; i++) {
        const struct ptx_operand *o = &list->items[i];
        const unsigned int        bits = o->kind == PTX_OP_REGISTER ? ptx_type_bits(o->symbol->type) : wanted;
        if (wanted != 0 && bits != wanted)
            return decode_refuse(d, "the registers of a list have %u and %u bits", wanted, bits);
        wanted = bits;
    }
    return true;
}
