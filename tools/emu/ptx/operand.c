/* operand.c - the operands of an instruction, with their names resolved. */
#include <stdio.h>
#include "parse.h"

enum { MAX_ITEMS = 4096 }; /* of one operand */

/* The operand on top of the stack; it moves when another is pushed. */
static struct ptx_operand *push(struct ptx_parser *p, enum ptx_operand_kind kind)
{
    struct ptx_operand *o = (struct ptx_operand *)ptx_add(p, &p->operands, sizeof *o);
    o->kind = kind;
    return o;
}

static struct ptx_operand *top(struct ptx_parser *p)
{
    return (struct ptx_operand *)p->operands.items + p->operands.count - 1;
}

/* The operands pushed since `from` become the items of one operand. */
static void gather(struct ptx_parser *p, size_t from, enum ptx_operand_kind kind, uint64_t integer)
{
    unsigned int        count;
    struct ptx_operand *items = (struct ptx_operand *)ptx_take(p, &p->operands, from, sizeof *items, &count);
    struct ptx_operand *o = push(p, kind);
    o->items = items;
    o->count = count;
    o->integer = integer;
}

/* ---- constants ----------------------------------------------------------------------------------------- */
static void constant(struct ptx_parser *p)
{
    struct ptx_constant value = ptx_constant_expression(p);
    struct ptx_operand *o = push(p, value.kind == PTX_TOKEN_F32   ? PTX_OP_F32
                                    : value.kind == PTX_TOKEN_F64 ? PTX_OP_F64
                                                                  : PTX_OP_INTEGER);
    o->integer = value.bits;
    o->unsigned_literal = value.kind == PTX_TOKEN_INTEGER && value.is_unsigned;
}

/* ---- names --------------------------------------------------------------------------------------------- */
static char component_of(const char *name)
{
    static const char from[] = "xyzwrgba", to[] = "xyzwxyzw";
    const char       *at = name[0] && !name[1] ? strchr(from, name[0]) : NULL;
    return at != NULL ? to[at - from] : 0;
}

/* ".x" after a register, but not a directive on the next line. */
static bool at_component(const struct ptx_parser *p)
{
    return p->lex.kind == PTX_TOKEN_DOT && (p->lex.touches || p->lex.token_line == p->lex.last_line);
}

static void special(struct ptx_parser *p, struct ptx_name *name, uint32_t line)
{
    static const struct ptx_symbol missing = {.kind = PTX_MISSING, .name = "", .vector = 1};
    bool                           vector;
    if (!ptx_is_special(name->text + 1, &vector)) { /* the rest of the instruction may have other errors */
        ptx_unknown(p, name, line);
        push(p, PTX_OP_REGISTER)->symbol = &missing;
        if (at_component(p))
            ptx_next(p);
        return;
    }
    const char *text = name->text + 1;
    if (at_component(p)) {
        char full[64];
        char component = component_of(p->lex.name->text);
        if (!vector || !component)
            ptx_fail(p, "'%s' has no component '.%s'", name->text, p->lex.name->text);
        int bytes = snprintf(full, sizeof full, "%s.%c", text, component);
        text = ptx_intern(p, full, (size_t)bytes)->text;
        ptx_next(p);
    }
    push(p, PTX_OP_SPECIAL)->name = text;
}

/* A vector register without a component is the list of its components. */
static void whole_vector(struct ptx_parser *p, const struct ptx_symbol *symbol, unsigned int index)
{
    size_t from = p->operands.count;
    for (unsigned int i = 0; i < symbol->vector; i++) {
        struct ptx_operand *o = push(p, PTX_OP_REGISTER);
        o->symbol = symbol;
        o->index = index;
        o->component = "xyzw"[i];
    }
    gather(p, from, PTX_OP_LIST, 0);
    top(p)->symbol = symbol;
    top(p)->index = index;
}

static void registered(struct ptx_parser *p, const struct ptx_symbol *symbol, uint64_t member)
{
    unsigned int index = symbol->first + (unsigned int)member;
    if (symbol->vector > 1 && !at_component(p)) {
        whole_vector(p, symbol, index);
        return;
    }
    struct ptx_operand *o = push(p, PTX_OP_REGISTER);
    o->symbol = symbol;
    o->index = index;
    if (!at_component(p))
        return;
    o->component = component_of(p->lex.name->text);
    if (!o->component || (size_t)(strchr("xyzw", o->component) - "xyzw") >= symbol->vector ||
        symbol->vector == 1)
        ptx_fail(p, "'%s' has no component '.%s'", symbol->name, p->lex.name->text);
    ptx_next(p);
}

/* array[2] is array + 2 elements: the address for mov and cvta, the memory there for all others. */
static void subscript(struct ptx_parser *p, const char *opcode)
{
    struct ptx_operand      *o = top(p);
    const struct ptx_symbol *symbol = o->symbol;
    if (symbol == NULL || symbol->kind != PTX_VARIABLE)
        ptx_unexpected(p, "','");
    ptx_next(p);
    uint64_t element = (uint64_t)(ptx_type_bits(symbol->type) / 8) * symbol->vector;
    uint64_t offset = (uint64_t)ptx_constant_offset(p) * element;
    ptx_want_mark(p, ']');
    if (strcmp(opcode, "mov") == 0 || strcmp(opcode, "cvta") == 0)
        top(p)->integer = offset;
    else
        gather(p, p->operands.count - 1, PTX_OP_ADDRESS, offset);
}

/* What a name alone means, without anything that may follow it.  An unknown name may become a label later. */
static void named(struct ptx_parser *p)
{
    uint32_t         line = p->lex.token_line;
    struct ptx_name *name = p->lex.name;
    uint64_t         member;
    if (p->lex.kind != PTX_TOKEN_WORD)
        ptx_unexpected(p, "a name");
    struct ptx_symbol *symbol = ptx_resolve(p, name, &member);
    ptx_next(p);
    if (symbol != NULL && symbol->kind == PTX_REGISTER) {
        registered(p, symbol, member);
    } else if (symbol == NULL && strcmp(name->text, "_") == 0) {
        push(p, PTX_OP_SINK);
    } else if (symbol == NULL && name->text[0] == '%') {
        special(p, name, line);
    } else {
        struct ptx_operand *o = push(p, PTX_OP_SYMBOL);
        o->symbol = symbol;
        if (symbol == NULL || symbol->kind == PTX_LABEL) {
            o->name = name->text;
            p->awaits = true;
        }
    }
}

static void name(struct ptx_parser *p, const char *opcode)
{
    size_t from = p->operands.count;
    named(p);
    enum ptx_operand_kind kind = top(p)->kind;
    if (ptx_at_mark(p, '|') && (kind == PTX_OP_REGISTER || kind == PTX_OP_SINK)) {
        ptx_next(p);
        named(p);
        if (top(p)->kind != PTX_OP_REGISTER && top(p)->kind != PTX_OP_SINK)
            ptx_fail_last(p, "a register or '_' expected behind '|'");
        gather(p, from, PTX_OP_PAIR, 0);
    } else if (kind == PTX_OP_SYMBOL && ptx_take_mark(p, '+')) {
        int64_t offset = ptx_constant_offset(p);
        top(p)->integer = (uint64_t)offset;
    } else if (kind == PTX_OP_SYMBOL && ptx_at_mark(p, '[')) {
        subscript(p, opcode);
    }
}

/* !%p and -%r */
static bool negated(struct ptx_parser *p)
{
    struct ptx_lexer before = p->lex;
    const bool       minus = ptx_at_mark(p, '-');
    if (!ptx_at_mark(p, '!') && !minus)
        return false;
    ptx_next(p);
    if (p->lex.kind != PTX_TOKEN_WORD || ptx_at_constant(p)) {
        p->lex = before;
        return false;
    }
    named(p);
    if (top(p)->kind != PTX_OP_REGISTER)
        ptx_fail_last(p, "only registers can be negated");
    else if (minus && top(p)->symbol->type == PTX_pred)
        ptx_fail_last(p, "a predicate is negated by '!'");
    top(p)->negated = true;
    return true;
}

/* ---- brackets and braces ------------------------------------------------------------------------------- */
static void check_items(struct ptx_parser *p, size_t from)
{
    if (p->operands.count - from > MAX_ITEMS)
        ptx_fail_last(p, "more than %d items in an operand", MAX_ITEMS);
}

static void address(struct ptx_parser *p, const char *opcode)
{
    size_t  from = p->operands.count;
    int64_t offset = 0;
    ptx_next(p);
    if (ptx_at_constant(p)) {
        struct ptx_constant value = ptx_constant_expression(p);
        if (value.kind != PTX_TOKEN_INTEGER)
            ptx_fail_last(p, "an address must be an integer");
        offset = (int64_t)value.bits;
        push(p, PTX_OP_INTEGER);
    } else {
        named(p);
        if (top(p)->kind == PTX_OP_SPECIAL || top(p)->kind == PTX_OP_SINK)
            ptx_fail_last(p, "an address begins with a register, a variable or a number");
        if (ptx_take_mark(p, '+'))
            offset = ptx_constant_offset(p);
    }
    while (ptx_take_mark(p, ',')) {
        ptx_operand(p, opcode);
        check_items(p, from);
    }
    ptx_want_mark(p, ']');
    gather(p, from, PTX_OP_ADDRESS, (uint64_t)offset);
}

static void items(struct ptx_parser *p, const char *opcode, int end, enum ptx_operand_kind kind)
{
    size_t from = p->operands.count;
    ptx_next(p);
    if (!ptx_at_mark(p, end))
        do {
            ptx_operand(p, opcode);
            check_items(p, from);
        } while (ptx_take_mark(p, ','));
    if (kind == PTX_OP_LIST && p->operands.count == from)
        ptx_fail(p, "the list is empty");
    ptx_want_mark(p, end);
    gather(p, from, kind, 0);
}

/* Parentheses within the parentheses of a call belong to an expression. */
void ptx_operand(struct ptx_parser *p, const char *opcode)
{
    ptx_enter(p);
    if (ptx_at_mark(p, '{'))
        items(p, opcode, '}', PTX_OP_LIST);
    else if (ptx_at_mark(p, '['))
        address(p, opcode);
    else if (ptx_at_mark(p, '(') && p->depth == 1 && strcmp(opcode, "call") == 0)
        items(p, opcode, ')', PTX_OP_GROUP);
    else if (!negated(p)) {
        if (ptx_at_constant(p))
            constant(p);
        else if (p->lex.kind == PTX_TOKEN_WORD)
            name(p, opcode);
        else
            ptx_unexpected(p, "an operand");
    }
    ptx_leave(p);
}

void ptx_await_operands(struct ptx_parser *p, struct ptx_operand *operands, unsigned int count, uint32_t line)
{
    for (unsigned int i = 0; i < count; i++) {
        struct ptx_operand *o = &operands[i];
        if (o->count)
            ptx_await_operands(p, o->items, o->count, line);
        if (o->kind != PTX_OP_SYMBOL || o->name == NULL)
            continue;
        struct ptx_name *label = ptx_intern(p, o->name, strlen(o->name));
        o->name = NULL;
        if (o->symbol == NULL || ptx_resolve_here(p, label) != o->symbol)
            ptx_await_label(p, &o->symbol, label, line);
    }
}
