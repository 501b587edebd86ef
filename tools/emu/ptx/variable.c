/* variable.c - declarations of variables, registers and parameters. */
#include <stdio.h>
#include "parse.h"

enum {
    MAX_ALIGN = 1 << 20,
    MAX_MEMBERS = 4096,      /* of a family of variables, each of which is a symbol */
    MAX_REGISTERS = 1 << 20, /* of a function */
    MAX_PARAMETERS = 4096,
    MAX_VECTOR_BITS = 128,
};
static const uint64_t max_bytes = (uint64_t)1 << 40; /* of a variable */

/* The part of a declaration before the names. */
struct declaration {
    enum ptx_space     space;
    struct ptx_linkage linkage;
    enum ptx_type      type;
    unsigned int       vector, align;
    uint32_t           line;
};

enum ptx_space ptx_space_find(const char *name)
{
    static const struct {
        const char    *name;
        enum ptx_space space;
    } spaces[] = {{"reg", PTX_REG},       {"param", PTX_PARAM}, {"local", PTX_LOCAL}, {"shared", PTX_SHARED},
                  {"global", PTX_GLOBAL}, {"const", PTX_CONST}, {"tex", PTX_TEX}};
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (strcmp(spaces[i].name, name) == 0)
            return spaces[i].space;
    return PTX_NO_SPACE;
}

/* ---- before the names ---------------------------------------------------------------------------------- */
static unsigned int want_align(struct ptx_parser *p)
{
    uint64_t align = ptx_want_integer(p, MAX_ALIGN, "an alignment");
    if (align == 0 || (align & (align - 1)))
        ptx_fail_last(p, "an alignment must be a power of two");
    return (unsigned int)align;
}

/* .attribute(.managed) and (.unified(1, 2)): the place and the name of the memory, which change nothing
 * here. */
static void skip_attributes(struct ptx_parser *p)
{
    ptx_want_mark(p, '(');
    do {
        if (ptx_take_dot(p, "managed"))
            continue;
        if (!ptx_take_dot(p, "unified"))
            ptx_unexpected(p, ".managed or .unified");
        ptx_want_mark(p, '(');
        ptx_want_integer(p, UINT64_MAX, "half of an identifier");
        ptx_want_mark(p, ',');
        ptx_want_integer(p, UINT64_MAX, "half of an identifier");
        ptx_want_mark(p, ')');
    } while (ptx_take_mark(p, ','));
    ptx_want_mark(p, ')');
}

/* .ptr .global .align 16: promises about what a parameter points to.  They are ignored. */
static void skip_pointee(struct ptx_parser *p)
{
    if (p->lex.kind == PTX_TOKEN_DOT) {
        enum ptx_space space = ptx_space_find(p->lex.name->text);
        if ((space != PTX_NO_SPACE && space != PTX_REG && space != PTX_TEX) || ptx_at_dot(p, "generic"))
            ptx_next(p);
    }
    if (ptx_take_dot(p, "align"))
        want_align(p);
}

static unsigned int vector_of(const char *name)
{
    return strcmp(name, "v2") == 0 ? 2 : strcmp(name, "v4") == 0 ? 4 : 0;
}

static void check_type(struct ptx_parser *p, const struct declaration *d)
{
    bool opaque = d->type == PTX_texref || d->type == PTX_samplerref || d->type == PTX_surfref;
    if (d->type == PTX_NO_TYPE)
        ptx_unexpected(p, "a type");
    if (d->type == PTX_bf16 || d->type == PTX_bf16x2)
        ptx_fail_last(p, ".%s is a type of instructions: declare .b%u", ptx_type_name(d->type),
                      ptx_type_bits(d->type));
    if (d->type == PTX_pred && (d->space != PTX_REG || d->vector > 1))
        ptx_fail_last(p, ".pred is a type of single registers");
    if (opaque && (d->space == PTX_REG || d->vector > 1))
        ptx_fail_last(p, ".%s is a type of .global variables and of parameters", ptx_type_name(d->type));
    if (d->vector > 1 && d->vector * ptx_type_bits(d->type) > MAX_VECTOR_BITS)
        ptx_fail_last(p, "a vector has at most %d bits", MAX_VECTOR_BITS);
}

static void qualifiers(struct ptx_parser *p, struct declaration *d)
{
    while (p->lex.kind == PTX_TOKEN_DOT) {
        const char  *word = p->lex.name->text;
        unsigned int vector = vector_of(word);
        ptx_next(p);
        if (strcmp(word, "align") == 0 && d->space != PTX_REG && d->type == PTX_NO_TYPE) {
            d->align = want_align(p);
        } else if (strcmp(word, "attribute") == 0 && d->type == PTX_NO_TYPE) {
            skip_attributes(p);
        } else if (strcmp(word, "ptr") == 0 && d->space == PTX_PARAM && d->type != PTX_NO_TYPE) {
            skip_pointee(p);
        } else if (vector && d->vector == 1 && d->type == PTX_NO_TYPE) {
            d->vector = vector;
        } else {
            if (d->type != PTX_NO_TYPE || ptx_type_find(word) == PTX_NO_TYPE)
                ptx_fail_last(p, "'.%s' has no meaning in this declaration", word);
            d->type = ptx_type_find(word);
        }
    }
    check_type(p, d);
}

/* ---- a name and what follows it ------------------------------------------------------------------------ */
static struct ptx_symbol *new_symbol(struct ptx_parser *p, const struct declaration *d, const char *name)
{
    struct ptx_symbol *s = (struct ptx_symbol *)ptx_keep(p, 1, sizeof *s);
    unsigned int       bits = ptx_type_bits(d->type);
    s->kind = d->space == PTX_REG ? PTX_REGISTER : PTX_VARIABLE;
    s->name = name;
    s->space = d->space;
    s->type = d->type;
    s->vector = d->vector;
    s->count = 1;
    s->bytes = (bits < 8 ? 1 : bits / 8) * (uint64_t)d->vector;
    s->align = (unsigned int)s->bytes > d->align ? (unsigned int)s->bytes : d->align;
    s->is_extern = d->linkage.is_extern;
    s->is_visible = d->linkage.is_visible;
    s->is_weak = d->linkage.is_weak;
    s->is_common = d->linkage.is_common;
    s->place = ptx_here(p, d->line);
    return s;
}

static void number_registers(struct ptx_parser *p, struct ptx_symbol *s)
{
    if (s->count > MAX_REGISTERS - p->register_count)
        ptx_fail_last(p, "'%s': more than %d registers in a function", s->name, MAX_REGISTERS);
    s->bytes = 0;
    s->first = p->register_count;
    p->register_count += (unsigned int)s->count;
    *(struct ptx_symbol **)ptx_add(p, &p->registers, sizeof s) = s;
}

/* [2][3], [] ...: the count and the size.  Both are 0 if the first dimension is open. */
static unsigned int dimensions(struct ptx_parser *p, struct ptx_symbol *s, uint64_t sizes[PTX_MAX_DIMENSIONS])
{
    unsigned int levels = 0;
    uint64_t     known = 1; /* the product of the dimensions that are not open */
    for (; ptx_take_mark(p, '['); levels++) {
        if (levels == PTX_MAX_DIMENSIONS)
            ptx_fail_last(p, "'%s' has more than %d dimensions", s->name, PTX_MAX_DIMENSIONS);
        sizes[levels] = 0;
        if (levels > 0 || !ptx_at_mark(p, ']')) {
            sizes[levels] = ptx_want_integer(p, max_bytes, "the size of an array");
            if (sizes[levels] == 0)
                ptx_fail_last(p, "'%s' is an array without elements", s->name);
        }
        ptx_want_mark(p, ']');
        s->is_array = true;
        if (sizes[levels] > max_bytes / s->bytes / known)
            ptx_fail_last(p, "'%s' is too large", s->name);
        known *= sizes[levels] ? sizes[levels] : 1;
    }
    s->count = levels > 0 && sizes[0] == 0 ? 0 : known;
    s->bytes *= s->count;
    return levels;
}

/* A name that was declared .extern earlier: that symbol becomes what is declared now. */
static bool merge(struct ptx_parser *p, const struct ptx_name *name, const struct ptx_symbol *s)
{
    struct ptx_symbol *old = ptx_resolve_here(p, name);
    if (old == NULL || old->kind != PTX_VARIABLE || p->function != NULL || !(old->is_extern || s->is_extern))
        return false;
    if (old->space != s->space || old->type != s->type || old->vector != s->vector ||
        old->is_array != s->is_array || (old->bytes && s->bytes && old->bytes != s->bytes))
        ptx_fail_at(p, s->place.line, "'%s' is declared differently on line %u", s->name, old->place.line);
    if (!old->is_extern || !(s->is_extern || s->is_visible || s->is_weak || s->is_common)) {
        if (s->is_extern) /* the definition came first */
            return true;
        ptx_fail_at(p, s->place.line, "'%s' is .extern on line %u and must be .visible here", s->name,
                    old->place.line);
    }
    unsigned int align = old->align > s->align ? old->align : s->align;
    *old = *s;
    old->align = align;
    return true;
}

static void keep_variable(struct ptx_parser *p, struct ptx_symbol *s)
{
    struct ptx_list *list = p->function != NULL ? &p->variables : &p->module_variables;
    *(struct ptx_symbol **)ptx_add(p, list, sizeof s) = s;
}

/* .global .b32 x<4> : x0 to x3 */
static void variable_family(struct ptx_parser *p, const struct declaration *d, const struct ptx_name *name,
                            uint64_t count)
{
    char text[8300];
    if (count > MAX_MEMBERS)
        ptx_fail_last(p, "'%s': a family of more than %d variables", name->text, MAX_MEMBERS);
    for (uint64_t i = 0; i < count; i++) {
        int                bytes = snprintf(text, sizeof text, "%s%llu", name->text, (unsigned long long)i);
        struct ptx_name   *member = ptx_intern(p, text, (size_t)bytes);
        struct ptx_symbol *s = new_symbol(p, d, member->text);
        ptx_bind(p, member, s, d->line);
        keep_variable(p, s);
    }
}

static void variable(struct ptx_parser *p, const struct declaration *d, struct ptx_name *name)
{
    uint64_t sizes[PTX_MAX_DIMENSIONS];
    if (ptx_take_mark(p, '<')) {
        uint64_t count = ptx_want_integer(p, MAX_REGISTERS, "the size of a family");
        ptx_want_mark(p, '>');
        variable_family(p, d, name, count);
        return;
    }
    struct ptx_symbol *s = new_symbol(p, d, name->text);
    unsigned int       levels = dimensions(p, s, sizes);
    if (ptx_take_mark(p, '=')) {
        if ((d->space != PTX_GLOBAL && d->space != PTX_CONST) || s->is_extern)
            ptx_fail_last(p, "'%s': only .global and .const variables that are not .extern have initial values",
                          s->name);
        ptx_initial(p, s, sizes, levels);
    }
    if (s->bytes == 0 && !s->is_extern)
        ptx_fail_at(p, d->line, "'%s' has no size and is not .extern", s->name);
    if (merge(p, name, s))
        return;
    ptx_bind(p, name, s, d->line);
    keep_variable(p, s);
}

static void reg(struct ptx_parser *p, const struct declaration *d, struct ptx_name *name)
{
    struct ptx_symbol *s = new_symbol(p, d, name->text);
    if (ptx_take_mark(p, '<')) {
        s->count = ptx_want_integer(p, MAX_REGISTERS, "the size of a family");
        s->is_array = true;
        ptx_want_mark(p, '>');
        ptx_bind_family(p, name, s, d->line);
    } else {
        ptx_bind(p, name, s, d->line);
    }
    number_registers(p, s);
}

void ptx_declaration(struct ptx_parser *p, enum ptx_space space, struct ptx_linkage linkage, uint32_t line)
{
    struct declaration d = {.space = space, .linkage = linkage, .vector = 1, .align = 1, .line = line};
    qualifiers(p, &d);
    do {
        d.line = p->lex.token_line;
        struct ptx_name *name = ptx_want_name(p, "a name");
        if (space == PTX_REG)
            reg(p, &d, name);
        else
            variable(p, &d, name);
    } while (ptx_take_mark(p, ','));
    ptx_want_mark(p, ';');
}

/* ---- parameters ---------------------------------------------------------------------------------------- */
static void parameter(struct ptx_parser *p, struct ptx_list *list, bool bind)
{
    struct declaration d = {.vector = 1, .align = 1, .line = p->lex.token_line};
    uint64_t           sizes[PTX_MAX_DIMENSIONS];
    if (p->lex.kind == PTX_TOKEN_DOT)
        d.space = ptx_space_find(p->lex.name->text);
    if (d.space != PTX_PARAM && d.space != PTX_REG)
        ptx_unexpected(p, ".param or .reg");
    ptx_next(p);
    qualifiers(p, &d);
    struct ptx_name *name = p->lex.name;
    if (!bind && ptx_at_word(p, "_"))
        ptx_next(p);
    else
        ptx_want_name(p, "a parameter's name");
    struct ptx_symbol *s = new_symbol(p, &d, name->text);
    if (d.space == PTX_PARAM)
        dimensions(p, s, sizes);
    else if (bind)
        number_registers(p, s);
    if (bind)
        ptx_bind(p, name, s, d.line);
    if (list->count >= MAX_PARAMETERS)
        ptx_fail_last(p, "more than %d parameters", MAX_PARAMETERS);
    *(struct ptx_symbol **)ptx_add(p, list, sizeof s) = s;
}

void ptx_parameters(struct ptx_parser *p, struct ptx_list *list, bool bind)
{
    ptx_want_mark(p, '(');
    if (ptx_take_mark(p, ')'))
        return;
    do
        parameter(p, list, bind);
    while (ptx_take_mark(p, ','));
    ptx_want_mark(p, ')');
}
