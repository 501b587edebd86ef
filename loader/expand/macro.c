/* macro.c - .macro and .purgem. */
#include <stdlib.h>
#include "internal.h"

enum {
    FEW_FORMALS = 4, /* up to this size it is faster to compare than to hash */
    MAX_NAME = 128   /* characters of a macro's name */
};

/* ---- formals --------------------------------------------------------------------------------------- */

void expand_formal_free(formal *f)
{
    expand_text_free(&f->name);
    expand_text_free(&f->initial);
    expand_text_free(&f->actual);
}

formal *expand_formal_find(const formals *f, span name)
{
    if (f->count > FEW_FORMALS) {
        uint32_t index = expand_names_find(&f->index, name);
        return index == NAME_NONE ? NULL : &f->items[index];
    }
    for (uint32_t i = 0; i < f->count; i++) {
        const text *t = &f->items[i].name;
        if (t->size == name.size && memcmp(t->data, name.data, name.size) == 0)
            return &f->items[i];
    }
    return NULL;
}

/* ---- definition ------------------------------------------------------------------------------------ */

static bool add_formal(expander *x, macro *m, span name, formal **out)
{
    formals *f = &m->params;
    if (expand_formal_find(f, name) != NULL)
        return expand_fail(x, "a parameter named %.*s already exists", QUOTE(name));
    if (!expand_grow(x, (void **)&f->items, f->count, &f->cap, sizeof *f->items))
        return false;
    *out = &f->items[f->count++];
    if (!expand_text_add(x, &(*out)->name, name.data, name.size))
        return false;
    if (f->count <= FEW_FORMALS)
        return true;
    for (uint32_t i = f->count == FEW_FORMALS + 1 ? 0 : f->count - 1; i < f->count; i++)
        if (!expand_names_put(x, &f->index, span_text(&f->items[i].name), i))
            return false;
    return true;
}

/* ":req" or ":vararg" at s[*at]. */
static bool qualifier(expander *x, span s, size_t *at, formal *f)
{
    *at = expand_skip_blank(s, *at + 1);
    span word = expand_word(span_of(s.data + *at, s.size - *at));
    if (span_is(word, "req"))
        f->kind = FORMAL_REQUIRED;
    else if (span_is(word, "vararg"))
        f->kind = FORMAL_VARARG;
    else
        return expand_fail(x, "\"%.*s\" is not a qualifier of the parameter %.*s: req or vararg", QUOTE(word),
                           QUOTE(f->name));
    *at = expand_skip_blank(s, *at + word.size);
    return true;
}

/* NAME[:qualifier][=default], separated by commas or blanks. */
static bool define_formals(expander *x, macro *m, span s, size_t at)
{
    while (at < s.size) {
        formal *f;
        span    name = expand_word(span_of(s.data + at, s.size - at));
        if (!name.size)
            return expand_fail(x, "a bad parameter list at \"%.*s\"", QUOTE(span_of(s.data + at, s.size - at)));
        if (!add_formal(x, m, name, &f))
            return false;
        at = expand_skip_blank(s, at + name.size);
        if (at < s.size && s.data[at] == ':' && !qualifier(x, s, &at, f))
            return false;
        if (at < s.size && s.data[at] == '=') {
            at++;
            if (!expand_argument(x, s, &at, &f->initial))
                return false;
            if (f->kind == FORMAL_REQUIRED) {
                f->initial.size = 0;
                if (!expand_warn(x, "the required parameter %.*s has a pointless default", QUOTE(name)))
                    return false;
            }
        }
        size_t next = expand_skip_comma(s, at);
        if (next < s.size && f->kind == FORMAL_VARARG)
            return expand_fail(x, "a parameter follows the vararg %.*s", QUOTE(name));
        if (next == s.size && at < s.size && s.data[s.size - 1] == ',')
            return expand_fail(x, "a parameter is missing at the end");
        at = next;
    }
    return true;
}

/* Macro names ignore case.  One bit makes upper and lower case equal, and no other two characters of
 * names. Names too long for `low` are not macros. */
static span lowered(span name, char low[MAX_NAME])
{
    if (name.size > MAX_NAME)
        return span_of(low, 0);
    for (size_t i = 0; i < name.size; i++)
        low[i] = (char)(name.data[i] | 0x20);
    return span_of(low, name.size);
}

/* The index of a macro's name, new ones included. */
static bool intern(expander *x, span name, uint32_t *index)
{
    char   buffer[MAX_NAME];
    names *n = &x->e->macro_names;
    span   low = lowered(name, buffer);
    if (!low.size)
        return expand_fail(x, "a macro name of more than %d characters", MAX_NAME);
    *index = expand_names_find(n, low);
    if (*index != NAME_NONE)
        return true;
    *index = n->count;
    x->dots = x->dots || memchr(low.data, '.', low.size) != NULL;
    if (!expand_grow(x, (void **)&x->macros, *index, &x->macro_cap, sizeof(macro *)) ||
        !expand_grow(x, (void **)&x->e->macro_texts, *index, &x->e->macro_text_cap, sizeof(char *)) ||
        !expand_names_put(x, n, low, *index))
        return false;
    x->e->macro_texts[*index] = strndup(name.data, name.size);
    return x->e->macro_texts[*index] != NULL || expand_no_memory(x);
}

bool expand_macro_define(expander *x, span operands)
{
    span s, body, name;
    if (!expand_scrub(x, operands, &s))
        return false;
    name = expand_word(s);
    if (!name.size)
        return expand_fail(x, "the .macro has no name");
    macro *m = (macro *)calloc(1, sizeof *m);
    if (m == NULL)
        return expand_no_memory(x);
    place first;
    bool  ok = define_formals(x, m, s, expand_skip_comma(s, name.size));
    ok = ok && intern(x, name, &m->name) && expand_take_block(x, false, &body, &first) &&
         expand_hold(x, body.size + sizeof *m) && expand_text_add(x, &m->body, body.data, body.size);
    if (ok && x->macros[m->name] != NULL)
        ok = expand_fail(x, "the macro %.*s was already defined", QUOTE(name));
    if (!ok) {
        expand_macro_free(x, m);
        return false;
    }
    m->file = first.file;
    m->line = first.line;
    m->number = x->defined++;
    x->macros[m->name] = m;
    return true;
}

void expand_macro_free(expander *x, macro *m)
{
    if (m == NULL)
        return;
    expand_release(x, m->body.size + sizeof *m);
    for (uint32_t i = 0; i < m->params.count; i++)
        expand_formal_free(&m->params.items[i]);
    free(m->params.items);
    expand_names_free(&m->params.index);
    expand_pieces_free(x, &m->parts);
    expand_text_free(&m->body);
    free(m);
}

macro *expand_macro_find(const expander *x, span name)
{
    char buffer[MAX_NAME];
    if (!x->dots && memchr(name.data, '.', name.size) != NULL) /* most instructions have a dot */
        return NULL;
    span     low = lowered(name, buffer);
    uint32_t index = low.size ? expand_names_find(&x->e->macro_names, low) : NAME_NONE;
    return index == NAME_NONE ? NULL : x->macros[index];
}

bool expand_macro_purge(expander *x, span operands)
{
    span   name = expand_trim(operands);
    macro *m = expand_word(name).size == name.size ? expand_macro_find(x, name) : NULL;
    if (m == NULL)
        return expand_warn(x, "there is no macro \"%.*s\" to purge", QUOTE(name));
    x->macros[m->name] = NULL;
    expand_macro_free(x, m);
    return true;
}
