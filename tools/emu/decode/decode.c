/* decode.c - a function's instructions become ops: families, guards, branches. */
#include "decode.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "state.h"

static const struct {
    const char *opcode;
    emu_decode *decode;
} families[] = {
#define FAMILY(opcode, function) {opcode, function},
#include "families.def"
#undef FAMILY
};

bool decode_refuse(struct decoder *d, const char *format, ...)
{
    char    place[256], text[160], what[256], line[sizeof place + sizeof text + sizeof what + 32];
    va_list arguments;
    if (d->failed)
        return false;
    d->failed = true;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (d->in == NULL)
        snprintf(line, sizeof line, "%s", what);
    else
        snprintf(line, sizeof line, "line %u%s%s%s: %s: %s", d->in->place.line, d->in->place.file ? " (" : "",
                 d->in->place.file ? ptx_place_text(d->module->text, &d->in->place, place, sizeof place) : "",
                 d->in->place.file ? ")" : "", ptx_instruction_text(d->in, text, sizeof text), what);
    ptx_errors_add(d->errors, line);
    return false;
}

bool decode_no_memory(struct decoder *d)
{
    if (!d->failed) {
        d->out_of_memory = true;
        d->no_memory = d->errors->count == 0;
        d->failed = !d->no_memory; /* the module is refused for an earlier error */
    }
    return decode_refuse(d, "out of memory");
}

/* ---- memory --------------------------------------------------------------------------------------- */
void *decode_alloc(struct decoder *d, size_t count, size_t size)
{
    static unsigned char nothing[256];
    void                *memory = ptx_alloc(d->module->memory, count ? count : 1, size);
    if (memory != NULL)
        return memory;
    decode_no_memory(d);
    return size * count <= sizeof nothing ? nothing : NULL;
}

/* ---- ops ------------------------------------------------------------------------------------------ */
static emu_reg *keep(struct decoder *d, const emu_reg *list, uint32_t count)
{
    if (!count)
        return NULL;
    emu_reg *kept = (emu_reg *)ptx_alloc(d->module->memory, count, sizeof *kept);
    if (kept != NULL)
        memcpy(kept, list, count * sizeof *kept);
    else
        decode_no_memory(d);
    return kept;
}

static bool push(struct decoder *d, const struct emu_op *op)
{
    struct decode_state *s = d->state;
    if (s->op_count == s->op_cap) {
        uint32_t       cap = s->op_cap ? 2 * s->op_cap : 256;
        struct emu_op *grown = (struct emu_op *)realloc(s->ops, cap * sizeof *grown);
        if (grown == NULL)
            return decode_no_memory(d);
        s->ops = grown;
        s->op_cap = cap;
    }
    s->ops[s->op_count] = *op;
    s->ops[s->op_count].number = d->module->op_count++;
    s->op_count++;
    return true;
}

/* A row for "opcode.modifier" precedes the row for the opcode alone. */
static emu_decode *find_family(const struct ptx_instruction *in)
{
    emu_decode *found = NULL;
    size_t      length = strlen(in->opcode);
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        const char *rest = families[i].opcode + length;
        if (strncmp(families[i].opcode, in->opcode, length) != 0)
            continue;
        if (*rest == '.' && in->modifier_count && strcmp(rest + 1, in->modifiers[0]) == 0)
            return families[i].decode;
        if (*rest == '\0')
            found = families[i].decode;
    }
    return found;
}

static bool decode_guard(struct decoder *d, struct emu_op *op)
{
    op->guard = EMU_NO_REG;
    if (!d->in->guarded)
        return true;
    if (d->in->guard >= d->function->text->register_count || d->state->bits_of[d->in->guard] != 1)
        return decode_refuse(d, "the guard is not a predicate");
    op->guard = d->state->row_of[d->in->guard];
    op->guard_negated = d->in->guard_negated;
    return true;
}

static bool decode_instruction(struct decoder *d, const struct ptx_instruction *in)
{
    struct decode_state *s = d->state;
    struct emu_op        op;
    emu_decode          *decode = find_family(in);
    memset(&op, 0, sizeof op);
    d->in = in;
    d->op = &op;
    d->taken = 0;
    s->extra_count = 0;
    op.text = in;
    op.class_ = EMU_CLASS_other;
    op.result = s->results;
    op.source = s->sources;
    if (decode == NULL)
        return decode_refuse(d, "this instruction is not supported");
    if (!decode_guard(d, &op) || !decode_name(d) || !decode_needs(d))
        return false;
    if ((!decode(d, &op) || d->failed) || op.exec == NULL)
        return decode_refuse(d, "it cannot be decoded");
    decode_undefined(&op);
    for (uint32_t i = 0; i < s->extra_count; i++) {
        s->extra[i].guard = op.guard;
        s->extra[i].guard_negated = op.guard_negated;
        if (!push(d, &s->extra[i]))
            return false;
    }
    op.result = keep(d, s->results, op.result_count);
    op.source = keep(d, s->sources, op.source_count);
    return !d->failed && push(d, &op);
}

/* Branches name instructions; the ops that were inserted before instructions have moved them all. */
static void resolve_targets(struct decode_state *s)
{
    for (uint32_t i = 0; i < s->op_count; i++) {
        struct emu_op *op = &s->ops[i];
        if (op->class_ == EMU_CLASS_control && op->u8[7])
            op->target = s->op_of[op->target];
        if (op->class_ == EMU_CLASS_control && op->u8[6]) {
            const struct branch_table *table = (const struct branch_table *)op->data;
            for (uint32_t k = 0; k < table->count; k++)
                table->targets[k] = s->op_of[table->targets[k]];
        }
    }
}

/* A thread that runs past the last instruction returns. */
static bool push_end(struct decoder *d)
{
    static const struct ptx_instruction end = {.opcode = "ret"};
    return decode_instruction(d, &end);
}

/* An unknown name, which has an error already. */
static bool names_missing(const struct ptx_operand *operands, unsigned int count)
{
    for (unsigned int i = 0; i < count; i++)
        if ((operands[i].symbol != NULL && operands[i].symbol->kind == PTX_MISSING) ||
            names_missing(operands[i].items, operands[i].count))
            return true;
    return false;
}

/* The next instruction may be wrong, too. */
static void decode_next(struct decoder *d, const struct ptx_instruction *in)
{
    if (d->partial && names_missing(in->operands, in->operand_count))
        return;
    decode_instruction(d, in);
    d->failed = d->out_of_memory;
}

bool decode_function(struct decoder *d)
{
    struct decode_state       *s = d->state;
    const struct ptx_function *text = d->function->text;
    s->op_count = 0;
    s->op_of = (uint32_t *)calloc(text->code_count + 1u, sizeof *s->op_of);
    if (s->op_of == NULL)
        return decode_no_memory(d);
    for (uint32_t i = 0; i < text->code_count && !d->failed; i++) {
        s->op_of[i] = s->op_count;
        decode_next(d, &text->code[i]);
    }
    s->op_of[text->code_count] = s->op_count;
    if (d->errors->count == 0 && push_end(d)) {
        resolve_targets(s);
        d->function->code = (struct emu_op *)ptx_alloc(d->module->memory, s->op_count, sizeof *s->ops);
        if (d->function->code != NULL)
            memcpy(d->function->code, s->ops, s->op_count * sizeof *s->ops);
        else
            decode_no_memory(d);
        d->function->code_count = s->op_count;
    }
    free(s->op_of);
    s->op_of = NULL;
    return !d->failed;
}
