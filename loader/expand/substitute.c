/* substitute.c - arguments in place of parameters: a body is divided once and then assembled for each
 * call. */
#include <stdlib.h>
#include "internal.h"

enum { MAX_SHADOWS = 16 }; /* lists inside lists */

/* Names that an enclosing \{name=...} defines, and the brace depth that ends each. */
typedef struct shadows {
    span   names[MAX_SHADOWS];
    size_t depths[MAX_SHADOWS];
    size_t count, depth;
} shadows;

typedef struct division {
    expander      *x;
    const formals *f;
    span           body;
    size_t         start;        /* of the text that is not in a piece yet */
    size_t         at, next_amp; /* the first & at or after `at`, or body.size */
    bool           numbered;
    pieces        *out;
    shadows        shadow;
} division;

/* ---- division -------------------------------------------------------------------------------------- */

static bool is_shadowed(const shadows *s, span name)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->names[i].size == name.size && memcmp(s->names[i].data, name.data, name.size) == 0)
            return true;
    return false;
}

/* Skip text in which only braces and the end of the line matter to the shadows. */
static void follow_braces(shadows *s, span plain)
{
    for (size_t i = 0; i < plain.size && s->count; i++) {
        char c = plain.data[i];
        if (c == '\n')
            s->count = 0;
        else if (c == '{')
            s->depth++;
        else if (c == '}' && s->depth-- == s->depths[s->count - 1])
            s->count--;
    }
}

/* A piece ends before `stop`; the next one starts at `next`. */
static bool cut(division *d, size_t stop, uint32_t then, size_t next)
{
    pieces *p = d->out;
    if (!expand_hold(d->x, sizeof(piece)) ||
        !expand_grow(d->x, (void **)&p->items, p->count, &p->cap, sizeof(piece)))
        return false;
    p->items[p->count++] = (piece){d->body.data + d->start, stop - d->start, then};
    d->start = d->at = next;
    return true;
}

/* Record an error in the substitution: the text after it is ignored. */
static bool cut_short(division *d, enum piece_end why) { return cut(d, d->at, why, d->body.size); }

static bool open_list(division *d, span variable)
{
    shadows *h = &d->shadow;
    if (!variable.size)
        return true;
    if (h->count == MAX_SHADOWS)
        return cut_short(d, PIECE_TOO_DEEP);
    if (!h->count)
        h->depth = 0;
    h->names[h->count] = variable;
    h->depths[h->count++] = h->depth + 1; /* the brace itself is copied, and counted, as plain text */
    return true;
}

/* "\(literal)" is copied without the parentheses.  Inside a list it stays as it is, for the list. */
static bool literal(division *d)
{
    if (d->shadow.count) {
        d->at += 2;
        return true;
    }
    size_t      from = d->at + 2;
    const char *close = (const char *)memchr(d->body.data + from, ')', d->body.size - from);
    if (close == NULL)
        return cut_short(d, PIECE_UNCLOSED);
    size_t end = (size_t)(close - d->body.data);
    return cut(d, d->at, PIECE_END, from) && cut(d, end, PIECE_END, end + 1);
}

/* The index of the formal that `name` names, or PIECE_END. */
static uint32_t formal_of(const division *d, span name)
{
    const formal *f = name.size ? expand_formal_find(d->f, name) : NULL;
    if (f == NULL || (d->shadow.count && is_shadowed(&d->shadow, name)))
        return PIECE_END;
    return (uint32_t)(f - d->f->items);
}

/* "&name" or "&name&", which as accepts too; other ampersands stay. */
static bool ampersand(division *d)
{
    span     rest = span_of(d->body.data + d->at + 1, d->body.size - d->at - 1);
    span     name = expand_word(rest);
    bool     closed = name.size < rest.size && rest.data[name.size] == '&';
    size_t   next = d->at + 1 + name.size + closed;
    uint32_t found = formal_of(d, name);
    if (found != PIECE_END)
        return cut(d, d->at, found, next);
    d->at = next;
    return true;
}

/* Handle what follows a backslash. */
static bool backslash(division *d)
{
    span rest = span_of(d->body.data + d->at + 1, d->body.size - d->at - 1);
    char next = rest.size ? rest.data[0] : 0;
    if (next == '(')
        return literal(d);
    if (next == '@' && d->numbered)
        return cut(d, d->at, PIECE_NUMBER, d->at + 2);
    if (next == '&') {
        d->at += 2;
        return true;
    }
    span     name = expand_word(rest);
    uint32_t found = formal_of(d, name);
    if (found != PIECE_END)
        return cut(d, d->at, found, d->at + 1 + name.size);
    d->at += 1 + name.size;
    return open_list(d, expand_list_variable(rest));
}

bool expand_divide(expander *x, span body, const formals *f, bool numbered, pieces *out)
{
    division d = {x, f, body, 0, 0, 0, numbered, out, {.count = 0}};
    while (d.at < body.size) {
        const char *from = body.data + d.at;
        if (d.at >= d.next_amp) {
            const char *amp = (const char *)memchr(from, '&', body.size - d.at);
            d.next_amp = amp != NULL ? (size_t)(amp - body.data) : body.size;
        }
        const char *slash = (const char *)memchr(from, '\\', d.next_amp - d.at);
        size_t      stop = slash != NULL ? (size_t)(slash - body.data) : d.next_amp;
        if (d.shadow.count)
            follow_braces(&d.shadow, span_of(from, stop - d.at));
        d.at = stop;
        if (stop < body.size && !(body.data[stop] == '&' ? ampersand : backslash)(&d))
            return false;
        if (d.next_amp < d.at)
            d.next_amp = d.at;
    }
    return cut(&d, body.size, PIECE_END, body.size);
}

void expand_pieces_drop(expander *x, pieces *p)
{
    expand_release(x, p->count * sizeof *p->items);
    p->count = 0;
}

void expand_pieces_free(expander *x, pieces *p)
{
    expand_pieces_drop(x, p);
    free(p->items);
    *p = (pieces){0};
}

/* ---- putting together ------------------------------------------------------------------------------ */

static bool add_end(expander *x, uint32_t then, uint32_t number, text *out)
{
    switch (then) {
    case PIECE_NUMBER:
        return expand_text_number(x, out, number);
    case PIECE_UNCLOSED:
        return expand_fail(x, "\\( is not closed by )");
    case PIECE_TOO_DEEP:
        return expand_fail(x, "\\{ is nested more than %d deep", MAX_SHADOWS);
    default:
        return true;
    }
}

bool expand_substitute(expander *x, const pieces *p, const formals *f, uint32_t number, text *out)
{
    for (uint32_t i = 0; i < p->count; i++) {
        const piece *at = &p->items[i];
        if (!expand_step(x, at->size) || !expand_text_add(x, out, at->data, at->size))
            return false;
        if (at->then >= PIECE_FORMALS) {
            if (!add_end(x, at->then, number, out))
                return false;
            continue;
        }
        const formal *to = &f->items[at->then];
        const text   *value = to->actual.size ? &to->actual : &to->initial;
        if (!expand_text_add(x, out, value->data, value->size))
            return false;
    }
    return true;
}
