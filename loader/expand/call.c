/* call.c - macro calls: their arguments, and the texts that they produced, kept for the next call with the
 * same operands. */
#include <stdlib.h>
#include "internal.h"

/* ---- arguments ------------------------------------------------------------------------------------- */

/* Whether the argument at s[at] is NAME=value. */
static bool is_keyword(span s, size_t at)
{
    while (at < s.size && !is_any(s.data[at], ENDS_KEYWORD))
        at++;
    return at < s.size && s.data[at] == '=';
}

static bool keyword(expander *x, macro *m, span s, size_t *at)
{
    span name = expand_word(span_of(s.data + *at, s.size - *at));
    if (!name.size || *at + name.size >= s.size || s.data[*at + name.size] != '=')
        return expand_fail(x, "expected NAME=value at \"%.*s\"", QUOTE(span_of(s.data + *at, s.size - *at)));
    formal *f = expand_formal_find(&m->params, name);
    if (f == NULL)
        return expand_fail(x, "the macro %s has no parameter named %.*s", x->e->macro_texts[m->name],
                           QUOTE(name));
    if (f->actual.size) {
        if (!expand_warn(x, "the parameter %.*s of the macro %s has two values", QUOTE(name),
                         x->e->macro_texts[m->name]))
            return false;
        f->actual.size = 0;
    }
    *at += name.size + 1;
    return expand_argument(x, s, at, &f->actual);
}

static bool positional(expander *x, macro *m, uint32_t index, span s, size_t *at)
{
    if (index >= m->params.count)
        return expand_fail(x, "too many arguments for the macro %s: it takes %u", x->e->macro_texts[m->name],
                           m->params.count);
    formal *f = &m->params.items[index];
    if (f->kind != FORMAL_VARARG)
        return expand_argument(x, s, at, &f->actual);
    size_t from = *at;
    *at = s.size;
    return expand_text_add(x, &f->actual, s.data + from, s.size - from);
}

static bool read_arguments(expander *x, macro *m, span s)
{
    bool     seen_keyword = false;
    uint32_t next = 0;
    for (size_t at = 0; at < s.size; at = expand_skip_comma(s, at)) {
        if (is_keyword(s, at)) {
            seen_keyword = true;
            if (!keyword(x, m, s, &at))
                return false;
        } else if (seen_keyword) {
            return expand_fail(x, "an argument without a name follows one with a name");
        } else if (!positional(x, m, next++, s, &at)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < m->params.count; i++)
        if (m->params.items[i].kind == FORMAL_REQUIRED && !m->params.items[i].actual.size)
            return expand_fail(x, "the required parameter %s of the macro %s has no value",
                               m->params.items[i].name.data, x->e->macro_texts[m->name]);
    return true;
}

/* ---- keeping --------------------------------------------------------------------------------------- */

enum { KEPT_BYTES = 1 << 20, PROBES = 4 };

struct kept_call {
    uint32_t macro, hash; /* the number of the macro, the hash of the operands */
    text     body;        /* the body with the arguments substituted */
    uint64_t steps;       /* the work that it took */
    size_t   size;
    char     operands[];
};

/* The call if it was kept, otherwise NULL; then *at is the place to keep it, or NULL if there is no room. */
static const kept_call *find(expander *x, const macro *m, span s, uint32_t hash, kept_call ***at)
{
    kept_call **first = &x->kept_calls[(hash ^ m->number) % (KEPT_CALLS - PROBES)];
    for (*at = first; *at < first + PROBES; ++*at) {
        const kept_call *k = **at;
        if (k == NULL)
            return NULL;
        if (k->hash == hash && k->macro == m->number && k->size == s.size &&
            memcmp(k->operands, s.data, s.size) == 0)
            return k;
    }
    *at = NULL;
    return NULL;
}

static bool has_number(const pieces *p)
{
    for (uint32_t i = 0; i < p->count; i++)
        if (p->items[i].then == PIECE_NUMBER)
            return true;
    return false;
}

/* Keep the call of m with the operands s, which produced *body. */
static bool keep(expander *x, const kept_call *call, span s, text *body, kept_call **at)
{
    kept_call *k = (kept_call *)malloc(sizeof *k + s.size);
    if (k == NULL)
        return expand_no_memory(x);
    *k = *call;
    memcpy(k->operands, s.data, s.size);
    k->body = *body;
    *body = (text){0};
    *at = k;
    x->kept += sizeof *k + s.size + k->body.cap;
    return true;
}

void expand_calls_free(expander *x)
{
    for (size_t i = 0; i < KEPT_CALLS; i++) {
        if (x->kept_calls[i] != NULL)
            expand_text_free(&x->kept_calls[i]->body);
        free(x->kept_calls[i]);
    }
}

/* ---- calls ----------------------------------------------------------------------------------------- */

static bool enter(expander *x, const macro *m, frame **f)
{
    uint32_t site;
    if (!expand_frame_push(x, FRAME_MACRO, f) || !expand_map_site(x, x->here, m->name, &site))
        return false;
    (*f)->first = (place){m->file, m->line, site};
    (*f)->line = m->line;
    x->calls++;
    return true;
}

/* Substitute the arguments of a call that was not kept. */
static bool make(expander *x, macro *m, span operands, frame **f)
{
    span s;
    for (uint32_t i = 0; i < m->params.count; i++)
        m->params.items[i].actual.size = 0;
    return expand_scrub(x, operands, &s) && read_arguments(x, m, s) && enter(x, m, f) &&
           (m->parts.count || expand_divide(x, span_text(&m->body), &m->params, true, &m->parts)) &&
           expand_substitute(x, &m->parts, &m->params, x->calls - 1, &(*f)->own);
}

bool expand_macro_call(expander *x, macro *m, span operands)
{
    frame           *f;
    kept_call      **at;
    uint32_t         hash = expand_hash(operands), warnings = x->warning_count;
    uint64_t         steps = x->steps;
    const kept_call *known = find(x, m, operands, hash, &at);
    if (known != NULL) {
        x->steps += known->steps;
        if (!enter(x, m, &f))
            return false;
        f->source = span_text(&known->body);
        return expand_frame_hold(x, f);
    }
    if (!make(x, m, operands, &f))
        return false;
    f->source = span_text(&f->own);
    if (at != NULL && x->kept < KEPT_BYTES && warnings == x->warning_count && !has_number(&m->parts)) {
        kept_call call = {m->number, hash, {0}, x->steps - steps, operands.size};
        if (!keep(x, &call, operands, &f->own, at))
            return false;
    }
    return expand_frame_hold(x, f);
}
