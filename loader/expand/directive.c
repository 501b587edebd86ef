/* directive.c - the table of directives; .set, .include, .error and other small directives. */
#include <endian.h>
#include <stdlib.h>
#include "internal.h"

typedef bool (*directive_call)(expander *x, span operands, int kind);

/* ---- the small ones -------------------------------------------------------------------------------- */

bool expand_assign(expander *x, span name, span value, bool once)
{
    int64_t v, old;
    if (once && expand_symbol_get(x->e, name, &old))
        return expand_fail(x, "the symbol %.*s is already defined", QUOTE(name));
    if (!expand_trim(value).size)
        return expand_fail(x, "the symbol %.*s is given no value", QUOTE(name));
    return expand_expression(x, value, &v) && expand_symbol_set(x, name, v);
}

static bool do_set(expander *x, span operands, int once)
{
    operands = expand_trim(operands);
    span   name = expand_word(operands);
    size_t comma = expand_skip_blank(operands, name.size);
    if (!name.size)
        return expand_fail(x, "expected a symbol name, not \"%.*s\"", QUOTE(operands));
    if (comma == operands.size || operands.data[comma] != ',')
        return expand_fail(x, "expected a comma after %.*s", QUOTE(name));
    return expand_assign(x, name, span_of(operands.data + comma + 1, operands.size - comma - 1), once);
}

static bool do_include(expander *x, span operands, int kind)
{
    frame   *f;
    uint32_t site, file;
    span     path = expand_quoted(operands);
    (void)kind;
    if (path.data == NULL || !path.size)
        return expand_fail(x, "expected .include \"FILE\"");
    if (!expand_map_site(x, x->here, NAME_NONE, &site) || !expand_file(x, path, site, &file) ||
        !expand_frame_push(x, FRAME_FILE, &f))
        return false;
    f->source = span_text(&x->e->files[file].stripped);
    f->first = (place){file, 1, site};
    f->line = 1;
    return true;
}

/* .error and .warning */
static bool do_message(expander *x, span operands, int is_error)
{
    span what = expand_quoted(operands);
    operands = expand_trim(operands);
    if (operands.size && what.data == NULL)
        return expand_fail(x, "expected .%s \"TEXT\"", is_error ? "error" : "warning");
    if (!operands.size)
        what = is_error ? span_of(".error", 6) : span_of(".warning", 8);
    int size = what.size > 400 ? 400 : (int)what.size;
    return is_error ? expand_fail(x, "%.*s", size, what.data) : expand_warn(x, "%.*s", size, what.data);
}

static bool do_define(expander *x, span operands, int kind)
{
    (void)kind;
    return expand_macro_define(x, operands);
}

static bool do_purge(expander *x, span operands, int kind)
{
    (void)kind;
    return expand_macro_purge(x, operands);
}

static bool do_exit(expander *x, span operands, int kind)
{
    (void)operands;
    (void)kind;
    return expand_exit(x);
}

static bool do_loop(expander *x, span operands, int kind)
{
    return expand_loop_open(x, (enum frame_kind)kind, operands);
}

static bool do_condition(expander *x, span operands, int kind)
{
    return expand_condition(x, (enum condition_kind)kind, operands);
}

static bool do_stray(expander *x, span operands, int is_loop)
{
    (void)operands;
    return expand_fail(x, is_loop ? ".endr without .rept, .irp or .irpc" : ".endm without .macro");
}

/* ---- the table ------------------------------------------------------------------------------------- */

enum { LONGEST = 8 };
typedef struct directive {
    char           name[LONGEST + 1]; /* without the dot; sorted */
    directive_call call;
    int            kind;
} directive;

static const directive directives[] = {
    {"else", do_condition, IF_ELSE},
    {"elseif", do_condition, IF_ELSEIF},
    {"endif", do_condition, IF_END},
    {"endm", do_stray, 0},
    {"endr", do_stray, 1},
    {"equ", do_set, 0},
    {"equiv", do_set, 1},
    {"err", do_message, 1},
    {"error", do_message, 1},
    {"exitm", do_exit, 0},
    {"if", do_condition, IF_EXPR},
    {"ifb", do_condition, IF_B},
    {"ifc", do_condition, IF_C},
    {"ifdef", do_condition, IF_DEF},
    {"ifeq", do_condition, IF_EQ},
    {"ifge", do_condition, IF_GE},
    {"ifgt", do_condition, IF_GT},
    {"ifle", do_condition, IF_LE},
    {"iflt", do_condition, IF_LT},
    {"ifnb", do_condition, IF_NB},
    {"ifnc", do_condition, IF_NC},
    {"ifndef", do_condition, IF_NDEF},
    {"ifne", do_condition, IF_NE},
    {"ifnotdef", do_condition, IF_NDEF},
    {"include", do_include, 0},
    {"irp", do_loop, FRAME_IRP},
    {"irpc", do_loop, FRAME_IRPC},
    {"macro", do_define, 0},
    {"purgem", do_purge, 0},
    {"rep", do_loop, FRAME_REPT},
    {"rept", do_loop, FRAME_REPT},
    {"set", do_set, 0},
    {"warning", do_message, 0},
};

/* A name of at most LONGEST bytes as a number that sorts in the same order, upper case like lower case. */
static uint64_t number_of(const char *name, size_t size)
{
    uint64_t n = 0;
    for (size_t i = 0; i < size; i++)
        n = n << 8 | (unsigned char)name[i] | 0x20;
    return n << 8 * (LONGEST - size);
}

static int by_name(const void *key, const void *row)
{
    uint64_t a = *(const uint64_t *)key, b;
    memcpy(&b, ((const directive *)row)->name, sizeof b); /* lower case, with zeros at the end */
    b = be64toh(b);
    return (a > b) - (a < b);
}

int expand_directive_find(span word)
{
    if (word.size < 2 || word.size > LONGEST + 1 || word.data[0] != '.')
        return -1;
    uint64_t         key = number_of(word.data + 1, word.size - 1);
    const directive *d = (const directive *)bsearch(&key, directives, sizeof directives / sizeof *directives,
                                                    sizeof *directives, by_name);
    return d != NULL ? (int)(d - directives) : -1;
}

bool expand_directive_is_condition(int index) { return directives[index].call == do_condition; }

bool expand_directive_pastes_itself(int index)
{
    return index >= 0 && expand_directive_is_condition(index) && directives[index].kind == IF_ELSEIF;
}

int expand_directive_block(int index, bool loop)
{
    const directive *d = &directives[index];
    if (d->call == do_stray && d->kind == loop)
        return -1;
    return d->call == (loop ? do_loop : do_define);
}

bool expand_directive_run(expander *x, int index, span operands)
{
    return directives[index].call(x, operands, directives[index].kind);
}
