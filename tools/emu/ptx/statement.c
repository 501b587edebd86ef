/* statement.c - the body of a function: blocks, labels, instructions. */
#include "parse.h"

enum { MAX_MODIFIERS = 64, MAX_OPERANDS = 256, MAX_CODE = 1 << 24 };

struct guard {
    bool         present, negated;
    unsigned int number;
};

static void instruction(struct ptx_parser *p, const struct guard *guard, const struct ptx_name *opcode,
                        uint32_t line)
{
    struct ptx_place place = ptx_here(p, line);
    while (p->lex.kind == PTX_TOKEN_DOT) {
        if (p->modifiers.count == MAX_MODIFIERS)
            ptx_fail(p, "'%s' has more than %d modifiers", opcode->text, MAX_MODIFIERS);
        *(const char **)ptx_add(p, &p->modifiers, sizeof(const char *)) = p->lex.name->text;
        ptx_next(p);
    }
    p->awaits = false;
    if (!ptx_at_mark(p, ';'))
        do {
            if (p->operands.count == MAX_OPERANDS)
                ptx_fail(p, "'%s' has more than %d operands", opcode->text, MAX_OPERANDS);
            ptx_operand(p, opcode->text);
        } while (ptx_take_mark(p, ','));
    ptx_want_mark(p, ';');
    if (p->drop) {
        p->operands.count = p->modifiers.count = 0;
        return;
    }
    if (p->code.count == MAX_CODE)
        ptx_fail(p, "more than %d instructions in a function", MAX_CODE);
    struct ptx_instruction *in = (struct ptx_instruction *)ptx_add(p, &p->code, sizeof *in);
    in->opcode = opcode->text;
    in->guarded = guard->present;
    in->guard_negated = guard->negated;
    in->guard = guard->number;
    in->place = place;
    in->modifiers = (const char **)ptx_take(p, &p->modifiers, 0, sizeof *in->modifiers, &in->modifier_count);
    in->operands = (struct ptx_operand *)ptx_take(p, &p->operands, 0, sizeof *in->operands, &in->operand_count);
    if (p->awaits)
        ptx_await_operands(p, in->operands, in->operand_count, line);
}

static void guarded(struct ptx_parser *p)
{
    struct guard guard = {.present = true};
    uint64_t     member;
    ptx_next(p);
    guard.negated = ptx_take_mark(p, '!');
    struct ptx_name         *name = ptx_want_name(p, "a predicate");
    const struct ptx_symbol *symbol = ptx_resolve(p, name, &member);
    if (symbol == NULL)
        ptx_unknown(p, name, p->lex.last_line);
    else if (symbol->kind != PTX_REGISTER || symbol->type != PTX_pred)
        ptx_fail_at(p, p->lex.last_line, "'%s' is not a predicate", name->text);
    else
        guard.number = symbol->first + (unsigned int)member;
    uint32_t         line = p->lex.token_line;
    struct ptx_name *opcode = ptx_want_name(p, "an instruction");
    instruction(p, &guard, opcode, line);
}

/* ---- labels, and other statements that begin with a name ----------------------------------------------- */
static struct ptx_symbol *declare(struct ptx_parser *p, struct ptx_name *name, enum ptx_symbol_kind kind,
                                  uint32_t line)
{
    struct ptx_symbol *s = (struct ptx_symbol *)ptx_keep(p, 1, sizeof *s);
    s->kind = kind;
    s->name = name->text;
    s->vector = 1;
    s->count = 1;
    s->place = ptx_here(p, line);
    ptx_bind(p, name, s, line);
    return s;
}

static void label(struct ptx_parser *p, struct ptx_name *name, uint32_t line)
{
    struct ptx_symbol *s = declare(p, name, PTX_LABEL, line);
    s->target = (uint32_t)p->code.count;
    *(struct ptx_symbol **)ptx_add(p, &p->labels, sizeof s) = s;
}

/* .branchtargets L1, L2; labels may follow later.  .calltargets f, g; functions are declared before. */
static void targets(struct ptx_parser *p, struct ptx_name *name, bool of_calls, uint32_t line)
{
    struct ptx_list list = {NULL, 0, 0}, lines = {NULL, 0, 0};
    do {
        *(uint32_t *)ptx_add(p, &lines, sizeof(uint32_t)) = p->lex.token_line;
        *(struct ptx_name **)ptx_add(p, &list, sizeof(struct ptx_name *)) = ptx_want_name(p, "a target");
    } while (ptx_take_mark(p, ','));
    ptx_want_mark(p, ';');
    struct ptx_symbol *s = declare(p, name, PTX_TARGETS, line);
    s->targets = (struct ptx_symbol **)ptx_keep(p, list.count, sizeof *s->targets);
    s->target_count = (unsigned int)list.count;
    for (size_t i = 0; i < list.count; i++) {
        struct ptx_name *target = ((struct ptx_name **)list.items)[i];
        uint32_t         at = ((uint32_t *)lines.items)[i];
        uint64_t         member;
        s->targets[i] = ptx_resolve(p, target, &member);
        if (!of_calls && (s->targets[i] == NULL || s->targets[i]->kind == PTX_LABEL)) {
            ptx_await_label(p, (const struct ptx_symbol **)&s->targets[i], target, at);
        } else if (s->targets[i] == NULL) {
            ptx_unknown(p, target, at);
            s->kind = PTX_MISSING;
        } else if (!of_calls || s->targets[i]->kind != PTX_FUNCTION) {
            ptx_note_at(p, at, "'%s' is not a %s", target->text, of_calls ? "function" : "label");
            s->kind = PTX_MISSING;
        }
    }
}

static void worded(struct ptx_parser *p)
{
    static const struct guard no_guard = {false, false, 0};
    uint32_t                  line = p->lex.token_line;
    struct ptx_name          *name = ptx_want_name(p, "an instruction");
    if (!ptx_take_mark(p, ':'))
        instruction(p, &no_guard, name, line);
    else if (ptx_take_dot(p, "callprototype"))
        ptx_prototype(p, name, line);
    else if (ptx_take_dot(p, "branchtargets"))
        targets(p, name, false, line);
    else if (ptx_take_dot(p, "calltargets"))
        targets(p, name, true, line);
    else
        label(p, name, line);
}

static void directive(struct ptx_parser *p)
{
    static const struct ptx_linkage none = {false, false, false, false};
    uint32_t                        line = p->lex.token_line;
    const char                     *word = p->lex.name->text;
    enum ptx_space                  space = ptx_space_find(word);
    if (space != PTX_NO_SPACE && space != PTX_TEX) {
        ptx_next(p);
        ptx_declaration(p, space, none, line);
    } else if (ptx_take_dot(p, "loc")) {
        ptx_debug_loc(p);
    } else if (ptx_take_dot(p, "file")) {
        ptx_debug_file(p);
    } else if (ptx_take_dot(p, "pragma")) {
        ptx_skip_pragma(p);
    } else {
        ptx_fail(p, "'.%s' has no meaning within a function", word);
    }
}

static void statements(struct ptx_parser *p)
{
    while (p->blocks > 0) {
        ptx_begin(p);
        if (ptx_take_mark(p, '{')) {
            ptx_scope_open(p);
            p->blocks++;
        } else if (ptx_at_mark(p, '}')) {
            if (--p->blocks > 0)
                ptx_scope_close(p);
            ptx_next(p);
        } else if (ptx_at_mark(p, '@')) {
            guarded(p);
        } else if (p->lex.kind == PTX_TOKEN_WORD) {
            worded(p);
        } else if (p->lex.kind == PTX_TOKEN_DOT) {
            directive(p);
        } else if (p->lex.kind == PTX_TOKEN_END) {
            ptx_fail(p, "the body of '%s' does not end", p->function->name);
        } else {
            ptx_unexpected(p, "an instruction");
        }
    }
}

void ptx_body(struct ptx_parser *p)
{
    p->blocks = 1;
    while (!ptx_attempt(p, statements)) {
        if (p->blocks == 0) /* what follows the body is wrong */
            ptx_leave_attempt(p);
        ptx_skip_statement(p);
    }
}
