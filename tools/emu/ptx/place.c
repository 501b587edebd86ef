/* place.c - places and instructions as readable text. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "ptx.h"

enum { MAX_CALLERS = 8 };

struct text {
    char  *buf;
    size_t cap, used;
};

static void add(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *t, const char *format, ...)
{
    va_list list;
    if (t->used + 1 >= t->cap)
        return;
    va_start(list, format);
    int bytes = vsnprintf(t->buf + t->used, t->cap - t->used, format, list);
    va_end(list);
    if (bytes > 0)
        t->used += (size_t)bytes < t->cap - t->used ? (size_t)bytes : t->cap - t->used - 1;
}

static struct text begin(char *buf, size_t cap)
{
    struct text t = {buf, cap, 0};
    if (cap)
        buf[0] = 0;
    return t;
}

/* ---- places -------------------------------------------------------------------------------------------- */
static const char *file_of(const struct ptx_module *m, const struct ptx_place *place)
{
    return place->file && place->file < m->file_count ? m->files[place->file] : NULL;
}

const char *ptx_place_text(const struct ptx_module *m, const struct ptx_place *place, char *buf, size_t cap)
{
    struct text t = begin(buf, cap);
    const char *file = file_of(m, place);
    if (file == NULL || !place->file_line) {
        add(&t, "line %u of the PTX", place->line);
        return buf;
    }
    add(&t, "%s:%u", file, place->file_line);
    uint32_t caller = place->caller;
    for (int i = 0; caller && caller <= m->inlined_count && i < MAX_CALLERS; i++) {
        const struct ptx_inlined *in = &m->inlined[caller - 1];
        file = file_of(m, &in->place);
        add(&t, " (in %s at %s:%u)", in->function != NULL ? in->function : "macro", file != NULL ? file : "?",
            in->place.file_line);
        caller = in->place.caller;
    }
    return buf;
}

/* ---- instructions -------------------------------------------------------------------------------------- */
static void operand(struct text *t, const struct ptx_operand *o);

static void items(struct text *t, const char *open, const struct ptx_operand *o, unsigned int from,
                  const char *close)
{
    add(t, "%s", open);
    for (unsigned int i = from; i < o->count; i++) {
        if (i > from)
            add(t, ", ");
        operand(t, &o->items[i]);
    }
    add(t, "%s", close);
}

static void name(struct text *t, const struct ptx_operand *o)
{
    const struct ptx_symbol *s = o->symbol;
    add(t, "%s%s", o->negated ? s->type == PTX_pred ? "!" : "-" : "", s->name);
    if (s->is_array) /* a family of registers */
        add(t, "%u", o->index - s->first);
    if (o->component)
        add(t, ".%c", o->component);
}

static void offset(struct text *t, uint64_t value)
{
    if (value)
        add(t, "+%lld", (long long)value);
}

static void address(struct text *t, const struct ptx_operand *o)
{
    add(t, "[");
    if (o->count && o->items[0].kind == PTX_OP_INTEGER) {
        add(t, "%lld", (long long)o->integer);
    } else if (o->count) {
        operand(t, &o->items[0]);
        offset(t, o->integer);
    }
    if (o->count > 1)
        items(t, ", ", o, 1, "");
    add(t, "]");
}

static void operand(struct text *t, const struct ptx_operand *o)
{
    /* clang-format off */
    switch (o->kind) {
    case PTX_OP_REGISTER: name(t, o); break;
    case PTX_OP_INTEGER:
        if (o->unsigned_literal)
            add(t, "%lluU", (unsigned long long)o->integer);
        else
            add(t, "%lld", (long long)o->integer);
        break;
    case PTX_OP_F32: add(t, "0f%08X", (unsigned int)o->integer); break;
    case PTX_OP_F64: add(t, "0d%016llX", (unsigned long long)o->integer); break;
    case PTX_OP_SYMBOL:
        add(t, "%s", o->symbol->name);
        offset(t, o->integer);
        break;
    case PTX_OP_SPECIAL: add(t, "%%%s", o->name); break;
    case PTX_OP_ADDRESS: address(t, o); break;
    case PTX_OP_LIST:
        if (o->symbol != NULL)
            name(t, o);
        else
            items(t, "{", o, 0, "}");
        break;
    case PTX_OP_GROUP: items(t, "(", o, 0, ")"); break;
    case PTX_OP_PAIR:
        operand(t, &o->items[0]);
        add(t, "|");
        operand(t, &o->items[1]);
        break;
    case PTX_OP_SINK: add(t, "_"); break;
    }
    /* clang-format on */
}

const char *ptx_instruction_text(const struct ptx_instruction *in, char *buf, size_t cap)
{
    struct text t = begin(buf, cap);
    add(&t, "%s", in->opcode);
    for (unsigned int i = 0; i < in->modifier_count; i++)
        add(&t, ".%s", in->modifiers[i]);
    for (unsigned int i = 0; i < in->operand_count; i++) {
        add(&t, i ? ", " : " ");
        operand(&t, &in->operands[i]);
    }
    return buf;
}
