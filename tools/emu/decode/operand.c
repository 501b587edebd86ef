/* operand.c - operands become rows: registers of the frame, constants, special registers, addresses. */
#include <time.h>
#include "decode.h"
#include "state.h"
#include "tools/emu/machine/special.h"

static const struct {
    const char      *name;
    enum emu_special special;
    unsigned int     bits;
} specials[] = {
#define ROW(text, name, bits) {text, EMU_SPECIAL_##name, bits},
    EMU_SPECIAL_MAP(ROW)
#undef ROW
};
static const struct {
    const char    *name;
    enum emu_clock clock;
    unsigned int   bits;
} clocks[] = {
    {"clock", EMU_CLOCK, 32},       {"clock_hi", EMU_CLOCK_HI, 32},       {"clock64", EMU_CLOCK64, 64},
    {"globaltimer", EMU_TIMER, 64}, {"globaltimer_lo", EMU_TIMER_LO, 32}, {"globaltimer_hi", EMU_TIMER_HI, 32},
};

/* ---- lists of registers --------------------------------------------------------------------------- */
void decode_add_result(struct decoder *d, emu_reg reg)
{
    if (d->op->result_count < DECODE_REGISTERS)
        d->state->results[d->op->result_count++] = reg;
    else
        decode_refuse(d, "more than %d results", DECODE_REGISTERS);
}

void decode_add_source(struct decoder *d, emu_reg reg)
{
    if (d->op->source_count < DECODE_REGISTERS)
        d->state->sources[d->op->source_count++] = reg;
    else
        decode_refuse(d, "more than %d sources", DECODE_REGISTERS);
}

emu_reg decode_temporary(struct decoder *d, unsigned int bits)
{
    emu_reg reg = d->state->rows;
    d->state->rows += bits == 128 ? 4 : bits == 64 ? 2 : 1;
    return reg;
}

emu_reg decode_carry(struct decoder *d)
{
    if (d->state->carry == EMU_NO_REG)
        d->state->carry = decode_temporary(d, 1);
    return d->state->carry;
}

unsigned int decode_operand_count(const struct decoder *d) { return d->in->operand_count; }

const struct ptx_operand *decode_operand(struct decoder *d, unsigned int number)
{
    if (number < d->in->operand_count)
        return &d->in->operands[number];
    decode_refuse(d, "operand %u is missing", number + 1);
    return NULL;
}

bool decode_operands(struct decoder *d, unsigned int least, unsigned int most)
{
    unsigned int count = d->in->operand_count;
    if (count >= least && count <= most)
        return !d->failed;
    if (least == most)
        return decode_refuse(d, "%u operands instead of %u", count, least);
    return decode_refuse(d, "%u operands instead of %u to %u", count, least, most);
}

const struct ptx_operand *decode_items(const struct ptx_operand *operand, unsigned int *count)
{
    bool list = operand->kind == PTX_OP_LIST || operand->kind == PTX_OP_GROUP;
    *count = list ? operand->count : 1;
    return list ? operand->items : operand;
}

/* ---- registers ------------------------------------------------------------------------------------ */
static emu_reg frame_register(struct decoder *d, const struct ptx_operand *o, unsigned int *bits)
{
    if (o->kind != PTX_OP_REGISTER || o->index >= d->function->text->register_count) {
        decode_refuse(d, "a register is expected");
        return EMU_NO_REG;
    }
    *bits = d->state->bits_of[o->index];
    static const char names[] = "xyzw";
    uint32_t          element = o->component ? (uint32_t)(strchr(names, o->component) - names) : 0;
    return d->state->row_of[o->index] + element * (*bits == 128 ? 4 : *bits == 64 ? 2 : 1);
}

static emu_reg result_of(struct decoder *d, const struct ptx_operand *o, enum ptx_type type, bool wider,
                         unsigned int *bits)
{
    emu_reg reg;
    *bits = ptx_type_bits(type);
    if (o == NULL || d->failed)
        return EMU_NO_REG;
    if (o->kind == PTX_OP_PAIR && o->items[1].kind == PTX_OP_SINK) /* d|_ is d */
        o = &o->items[0];
    if (o->kind == PTX_OP_SINK) {
        if (!decode_may_discard(d, o))
            return EMU_NO_REG;
        reg = decode_temporary(d, *bits);
    } else {
        reg = frame_register(d, o, bits);
        if (d->failed || !decode_fits(d, o, type, wider))
            return EMU_NO_REG;
        if (o->negated) {
            decode_refuse(d, "a result cannot be negated");
            return EMU_NO_REG;
        }
    }
    decode_add_result(d, reg);
    return reg;
}

emu_reg decode_result_of(struct decoder *d, const struct ptx_operand *o, enum ptx_type type)
{
    unsigned int bits;
    return result_of(d, o, type, false, &bits);
}

emu_reg decode_result(struct decoder *d, unsigned int number, enum ptx_type type)
{
    return decode_result_of(d, decode_operand(d, number), type);
}

emu_reg decode_result_wide(struct decoder *d, const struct ptx_operand *o, enum ptx_type type,
                           unsigned int *bits)
{
    return result_of(d, o, type, true, bits);
}

emu_reg decode_result_pred(struct decoder *d, const struct ptx_operand *o)
{
    return decode_result_of(d, o, PTX_pred);
}

/* ---- ops that run before: clocks and addresses ---------------------------------------------------- */
static struct emu_op *extra_op(struct decoder *d, emu_exec *exec, emu_reg result, emu_reg source)
{
    struct decode_state *s = d->state;
    if (s->extra_count == DECODE_EXTRA_OPS) {
        decode_refuse(d, "too many operands of that kind");
        return NULL;
    }
    struct emu_op *op = &s->extra[s->extra_count++];
    memset(op, 0, sizeof *op);
    op->exec = exec;
    op->text = d->in;
    op->class_ = EMU_CLASS_special;
    op->result = (emu_reg *)decode_alloc(d, 1, sizeof *op->result);
    op->source = (emu_reg *)decode_alloc(d, 1, sizeof *op->source);
    op->result[0] = result;
    op->source[0] = source;
    op->result_count = 1;
    op->source_count = source != EMU_NO_REG;
    return op;
}

static void exec_address(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const uint64_t *base = emu_r64(w, op->source[0]);
    uint32_t       *narrow = emu_r32(w, op->result[0]);
    uint64_t       *wide = emu_r64(w, op->result[0]);
    const uint32_t  kept = op->u32[0] == 16 ? 0xffff : EMU_ALL;
    if (op->u32[0] == 64)
        EMU_FOR_LANES(mask, l, wide[l] = base[l] + (uint64_t)op->offset);
    else
        EMU_FOR_LANES(mask, l, narrow[l] = (uint32_t)(base[l] + (uint64_t)op->offset) & kept);
}

static void exec_param_address(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const uint64_t *wide = emu_r64(w, op->source[0]);
    const uint32_t *narrow = emu_r32(w, op->source[0]);
    uint64_t       *to = emu_r64(w, op->result[0]), base = w->grid->parameter_address;
    if (op->u32[0] == 64)
        EMU_FOR_LANES(mask, l, to[l] = base + wide[l]);
    else
        EMU_FOR_LANES(mask, l, to[l] = base + narrow[l]);
}

/* Nanoseconds are the host's clock; cycles are the ops that the cluster has executed. */
static void exec_clock(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    uint64_t value = w->cluster->executed + w->executed;
    if (op->u32[0] >= EMU_TIMER) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        value = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    }
    if (op->u32[0] == EMU_CLOCK_HI || op->u32[0] == EMU_TIMER_HI)
        value >>= 32;
    if (op->u32[1] == 64)
        EMU_FOR_LANES(mask, l, emu_r64(w, op->result[0])[l] = value);
    else
        EMU_FOR_LANES(mask, l, emu_r32(w, op->result[0])[l] = (uint32_t)value);
}

static emu_reg base_plus(struct decoder *d, enum emu_special base, int64_t offset, unsigned int bits)
{
    emu_reg        reg = decode_temporary(d, bits);
    struct emu_op *op = extra_op(d, exec_address, reg, emu_special_reg(base));
    if (op == NULL)
        return EMU_NO_REG;
    op->offset = offset;
    op->u32[0] = bits;
    return reg;
}

static emu_reg clock_register(struct decoder *d, enum emu_clock clock, unsigned int bits)
{
    emu_reg        reg = decode_temporary(d, bits);
    struct emu_op *op = extra_op(d, exec_clock, reg, EMU_NO_REG);
    if (op == NULL)
        return EMU_NO_REG;
    op->u32[0] = clock;
    op->u32[1] = bits;
    return reg;
}

static void exec_low_half(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const uint32_t *from = emu_r32(w, op->source[0]);
    uint32_t       *to = emu_r32(w, op->result[0]);
    EMU_FOR_LANES(mask, l, to[l] = from[l] & 0xffff);
}

/* Special registers may be read by narrower instructions. */
static emu_reg low_part(struct decoder *d, emu_reg from, unsigned int bits, unsigned int wanted)
{
    emu_reg reg = decode_temporary(d, wanted);
    if ((bits != 64 || wanted != 32) && (bits != 32 || wanted != 16)) {
        decode_refuse(d, "a special register of %u bits is read as %u", bits, wanted);
        return EMU_NO_REG;
    }
    struct emu_op *op = extra_op(d, bits == 64 ? exec_address : exec_low_half, reg, from);
    if (op == NULL)
        return EMU_NO_REG;
    op->u32[0] = wanted;
    return reg;
}

/* The fourth component of %tid, %clusterid and the like. */
static bool is_fourth(const char *name)
{
    const size_t length = strlen(name);
    return length > 2 && strcmp(name + length - 2, ".w") == 0;
}

/* The driver's own values and the performance counters, which nothing sets here. */
static bool is_unset(const char *name)
{
    return strncmp(name, "envreg", 6) == 0 || strncmp(name, "pm", 2) == 0;
}

static emu_reg special_register(struct decoder *d, const char *name, unsigned int *bits)
{
    if (is_fourth(name)) {
        *bits = 32;
        return decode_constant(d, 0, 32);
    }
    for (size_t i = 0; i < sizeof specials / sizeof specials[0]; i++)
        if (*name && strcmp(specials[i].name, name) == 0) {
            *bits = specials[i].bits;
            return emu_special_reg(specials[i].special);
        }
    for (size_t i = 0; i < sizeof clocks / sizeof clocks[0]; i++)
        if (strcmp(clocks[i].name, name) == 0) {
            *bits = clocks[i].bits;
            return clock_register(d, clocks[i].clock, clocks[i].bits);
        }
    if (is_unset(name)) {
        *bits = strstr(name, "_64") != NULL ? 64 : 32;
        return decode_constant(d, 0, *bits);
    }
    decode_refuse(d, "special register %%%s is not provided", name);
    return EMU_NO_REG;
}

/* ---- symbols -------------------------------------------------------------------------------------- */
static enum emu_special base_of(const struct placed *p)
{
    return p->space == EMU_LOCAL   ? EMU_SPECIAL_LOCAL_BASE
           : p->space == EMU_PARAM ? EMU_SPECIAL_PARAM_BASE
                                   : EMU_SPECIAL_DYNAMIC_SHARED;
}

static emu_reg symbol_register(struct decoder *d, const struct ptx_operand *o, unsigned int bits)
{
    const struct ptx_symbol *symbol = o->symbol;
    if (symbol->kind == PTX_FUNCTION) {
        for (uint32_t i = 0; i < d->module->function_count; i++)
            if (d->module->functions[i].text == symbol->function)
                return decode_constant(d, EMU_FUNCTION_WINDOW + i, bits);
    }
    const struct placed *p = decode_find_placed(d->state, symbol);
    if (p == NULL) {
        decode_refuse(d, "'%s' has no address here", symbol->name);
        return EMU_NO_REG;
    }
    if (p->space == EMU_LOCAL || p->dynamic)
        return base_plus(d, base_of(p), (int64_t)(p->address + o->integer), bits);
    return decode_constant(d, (p->address + o->integer) & (bits < 32 ? 0xffff : UINT64_MAX), bits);
}

/* ---- sources -------------------------------------------------------------------------------------- */
static uint64_t float_bits(const struct ptx_operand *o, enum ptx_type type)
{
    double       wide;
    float        narrow;
    uint32_t     bits32;
    uint64_t     bits64 = o->integer;
    unsigned int wanted = ptx_type_bits(type);
    if (o->kind == PTX_OP_F64 && wanted == 32) {
        memcpy(&wide, &bits64, 8);
        narrow = (float)wide;
        memcpy(&bits32, &narrow, 4);
        return bits32;
    }
    if (o->kind == PTX_OP_F32 && wanted == 64 && type == PTX_f64) {
        bits32 = (uint32_t)bits64;
        memcpy(&narrow, &bits32, 4);
        wide = (double)narrow;
        memcpy(&bits64, &wide, 8);
    }
    return bits64;
}

static emu_reg immediate(struct decoder *d, const struct ptx_operand *o, enum ptx_type type)
{
    unsigned int bits = ptx_type_bits(type);
    uint64_t     value = o->integer;
    if (!decode_literal_fits(d, o, type))
        return EMU_NO_REG;
    if (o->kind != PTX_OP_INTEGER)
        value = float_bits(o, type);
    if (type == PTX_pred)
        value = value ? EMU_ALL : 0;
    else if (bits < 64)
        value &= (1ull << bits) - 1;
    if (bits == 128) {
        decode_refuse(d, "a literal is given for .b128");
        return EMU_NO_REG;
    }
    return decode_constant(d, value, bits == 64 ? 64 : 32);
}

/* Where ptxas takes a register in braces for the register. */
static bool takes_braces(const struct decoder *d, enum ptx_type type)
{
    const char *const opcode = d->in->opcode;
    return strcmp(opcode, "mbarrier") == 0
               ? d->in->modifier_count > 0 && strncmp(d->in->modifiers[0], "arrive", 6) == 0
               : (type == PTX_bf16 || type == PTX_bf16x2) &&
                     (strcmp(opcode, "min") == 0 || strcmp(opcode, "max") == 0);
}

static emu_reg source_of(struct decoder *d, const struct ptx_operand *o, enum ptx_type type, bool wider,
                         unsigned int *bits)
{
    emu_reg reg = EMU_NO_REG;
    *bits = ptx_type_bits(type);
    if (o == NULL || d->failed)
        return reg;
    if (o->kind == PTX_OP_LIST && o->count == 1 && takes_braces(d, type))
        o = &o->items[0];
    if (o->negated && type != PTX_pred) {
        decode_refuse(d, "the operand cannot be negated");
        return reg;
    }
    switch (o->kind) {
    case PTX_OP_REGISTER:
        reg = frame_register(d, o, bits);
        if (d->failed || !decode_fits(d, o, type, wider))
            return EMU_NO_REG;
        break;
    case PTX_OP_SPECIAL:
        reg = special_register(d, o->name, bits);
        if (d->failed || !decode_special_fits(d, o, *bits, type))
            return EMU_NO_REG;
        if (*bits > ptx_type_bits(type) && !wider)
            reg = low_part(d, reg, *bits, ptx_type_bits(type));
        break;
    case PTX_OP_INTEGER:
    case PTX_OP_F32:
    case PTX_OP_F64:
        reg = immediate(d, o, type);
        break;
    case PTX_OP_SYMBOL:
        if (decode_symbol_fits(d, o, type))
            reg = symbol_register(d, o, ptx_type_bits(type));
        break;
    default:
        decode_refuse(d, "a register or a constant is expected");
    }
    if (!d->failed)
        decode_add_source(d, reg);
    return reg;
}

emu_reg decode_source_of(struct decoder *d, const struct ptx_operand *o, enum ptx_type type)
{
    unsigned int bits;
    return source_of(d, o, type, false, &bits);
}

emu_reg decode_source(struct decoder *d, unsigned int number, enum ptx_type type)
{
    return decode_source_of(d, decode_operand(d, number), type);
}

bool decode_typed(struct decoder *d, unsigned int count, const enum ptx_type *types)
{
    if (!decode_end(d) || !decode_operands(d, count, count))
        return false;
    decode_result(d, 0, types[0]);
    for (unsigned int i = 1; i < count; i++)
        decode_source(d, i, types[i]);
    return !d->failed;
}

emu_reg decode_source_wide(struct decoder *d, const struct ptx_operand *o, enum ptx_type type,
                           unsigned int *bits)
{
    return source_of(d, o, type, true, bits);
}

emu_reg decode_source_pred(struct decoder *d, const struct ptx_operand *o, bool *negated)
{
    if (o != NULL && negated != NULL)
        *negated = o->negated;
    else if (o != NULL && o->negated)
        decode_refuse(d, "the predicate cannot be negated here");
    return decode_source_of(d, o, PTX_pred);
}

bool decode_integer(struct decoder *d, unsigned int number, int64_t *value)
{
    const struct ptx_operand *o = decode_operand(d, number);
    *value = 0;
    if (o == NULL)
        return false;
    if (o->kind != PTX_OP_INTEGER)
        return decode_refuse(d, "operand %u is not an integer constant", number + 1);
    *value = (int64_t)o->integer;
    return true;
}

/* ---- addresses ------------------------------------------------------------------------------------ */
/* A variable can be named where its own space is, global and shared ones also in generic addresses. */
static bool space_agrees(const struct ptx_symbol *symbol, enum emu_space space)
{
    switch (symbol->space) {
    case PTX_GLOBAL:
        return space == EMU_GLOBAL || space == EMU_GENERIC;
    case PTX_SHARED:
        return space == EMU_SHARED || space == EMU_GENERIC;
    case PTX_CONST:
        return space == EMU_CONST;
    case PTX_LOCAL:
        return space == EMU_LOCAL || space == EMU_GENERIC;
    default:
        return space == EMU_PARAM;
    }
}

static emu_reg symbol_address(struct decoder *d, const struct ptx_operand *base, enum emu_space space)
{
    const struct placed *p = decode_find_placed(d->state, base->symbol);
    if (p == NULL || base->symbol->kind == PTX_FUNCTION) {
        decode_refuse(d, "'%s' has no address here", base->symbol->name);
        return EMU_NO_REG;
    }
    if (!space_agrees(base->symbol, space)) {
        decode_refuse(d, "'%s' lies in another state space", base->symbol->name);
        return EMU_NO_REG;
    }
    if (space == EMU_GENERIC)
        d->op->offset += (int64_t)(p->space == EMU_SHARED  ? EMU_SHARED_WINDOW
                                   : p->space == EMU_LOCAL ? EMU_LOCAL_WINDOW
                                                           : 0);
    if (p->space == EMU_LOCAL || p->space == EMU_PARAM || p->dynamic) {
        d->op->offset += (int64_t)p->address;
        return emu_special_reg(base_of(p));
    }
    return decode_constant(d, p->address, 64);
}

/* A kernel's parameter space begins at 0, so that its addresses fit 32 bits, as on a GPU; the generic address of
 * a parameter is in device memory. */
static emu_reg from_param_base(struct decoder *d, emu_reg reg, unsigned int bits)
{
    emu_reg        sum = decode_temporary(d, 64);
    struct emu_op *op = extra_op(d, exec_param_address, sum, reg);
    if (op == NULL)
        return EMU_NO_REG;
    op->u32[0] = bits;
    return sum;
}

static void exec_widen(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const uint32_t *from = emu_r32(w, op->source[0]);
    uint64_t       *to = emu_r64(w, op->result[0]);
    EMU_FOR_LANES(mask, l, to[l] = from[l]);
}

/* Any integer or bits of at most 64; narrow ones are extended with zeros. */
static emu_reg address_register(struct decoder *d, const struct ptx_operand *o, enum emu_space space,
                                unsigned int *bits)
{
    emu_reg reg = frame_register(d, o, bits);
    if (d->failed || !decode_is_address(d, o))
        return EMU_NO_REG;
    if (*bits == 64)
        return reg;
    *bits = 32;
    if (space != EMU_GLOBAL && space != EMU_GENERIC)
        return reg;
    if (!decode_may_widen(d, ptx_type_bits(o->symbol->type)))
        return EMU_NO_REG;
    emu_reg wide = decode_temporary(d, 64);
    extra_op(d, exec_widen, wide, reg);
    *bits = 64;
    return wide;
}

emu_reg decode_address(struct decoder *d, const struct ptx_operand *o, enum emu_space space, unsigned int *bits)
{
    emu_reg reg = EMU_NO_REG;
    *bits = 64;
    if (o == NULL || d->failed)
        return reg;
    if (o->kind != PTX_OP_ADDRESS || o->count < 1) {
        decode_refuse(d, "an address in brackets is expected");
        return reg;
    }
    const struct ptx_operand *base = &o->items[0];
    d->op->offset = (int64_t)o->integer;
    switch (base->kind) {
    case PTX_OP_REGISTER:
        reg = address_register(d, base, space, bits);
        break;
    case PTX_OP_INTEGER:
        if (space != EMU_LOCAL)
            decode_refuse(d, "only .local has addresses that are numbers");
        d->op->offset += (int64_t)base->integer;
        reg = decode_constant(d, 0, 64);
        break;
    case PTX_OP_SYMBOL:
        d->op->offset += (int64_t)base->integer;
        reg = symbol_address(d, base, space);
        break;
    default:
        decode_refuse(d, "the address must begin with a register or a variable");
    }
    if (!d->failed && space == EMU_PARAM && base->kind != PTX_OP_SYMBOL && d->function->text->is_entry) {
        reg = from_param_base(d, reg, *bits);
        *bits = 64;
    }
    if (!d->failed)
        decode_add_source(d, reg);
    return reg;
}

bool decode_param_is_local(struct decoder *d, const struct ptx_operand *address)
{
    if (address != NULL && address->kind == PTX_OP_ADDRESS && address->count &&
        address->items[0].kind == PTX_OP_SYMBOL) {
        const struct placed *p = decode_find_placed(d->state, address->items[0].symbol);
        return p != NULL && p->space == EMU_LOCAL;
    }
    return !d->function->text->is_entry;
}

void emu_addresses(struct emu_warp *w, const struct emu_op *op, unsigned int source, unsigned int bits,
                   uint64_t out[EMU_LANES])
{
    const uint64_t *wide = emu_r64(w, op->source[source]);
    const uint32_t *narrow = emu_r32(w, op->source[source]);
    uint64_t        offset = (uint64_t)op->offset;
    if (bits == 64)
        for (int l = 0; l < EMU_LANES; l++)
            out[l] = wide[l] + offset;
    else
        for (int l = 0; l < EMU_LANES; l++)
            out[l] = (uint32_t)(narrow[l] + (uint32_t)offset);
}
