/* paste.c - the two additions to as: \[expr] pastes a value, \{i=a..b: item} writes a list. */
#include "internal.h"

enum { MAX_LISTS = 16 }; /* lists inside lists */

static bool paste_text(expander *x, span s, text *out, int nesting);

span expand_list_variable(span s)
{
    if (!s.size || s.data[0] != '{')
        return span_of(s.data, 0);
    size_t at = expand_skip_blank(s, 1), start = at;
    while (at < s.size && s.data[at] != '.' && (at == start ? is_name_start : is_name)(s.data[at]))
        at++;
    size_t equals = expand_skip_blank(s, at);
    return span_of(s.data + start, equals < s.size && s.data[equals] == '=' ? at - start : 0);
}

/* Where the bracket that s starts with is closed, or s.size. */
static size_t closing(span s, char open, char close)
{
    size_t depth = 1;
    for (size_t i = 1; i < s.size; i++) {
        if (s.data[i] == open)
            depth++;
        else if (s.data[i] == close && --depth == 0)
            return i;
    }
    return s.size;
}

span expand_pasted(span s)
{
    span inside = span_of(s.data + 1, s.size - 1);
    return expand_trim(span_of(inside.data + 1, closing(inside, '[', ']') - 1));
}

typedef struct list {
    span    variable, item;
    int64_t first, last;
} list;

/* "{i=a..b: item}", all of s. */
static bool read_list(expander *x, span s, list *l)
{
    l->variable = expand_list_variable(s);
    if (!l->variable.size)
        return expand_fail(x, "expected \\{NAME=FIRST..LAST: item}");
    const char *end = s.data + s.size - 1;
    const char *low = (const char *)memchr(l->variable.data, '=', (size_t)(end - l->variable.data)) + 1;
    const char *colon = (const char *)memchr(low, ':', (size_t)(end - low));
    const char *dots = colon != NULL ? (const char *)memmem(low, (size_t)(colon - low), "..", 2) : NULL;
    if (dots == NULL)
        return expand_fail(x, "expected \\{%.*s=FIRST..LAST: item}", QUOTE(l->variable));
    l->item = expand_trim(span_of(colon + 1, (size_t)(end - colon - 1)));
    return expand_expression(x, span_of(low, (size_t)(dots - low)), &l->first) &&
           expand_expression(x, span_of(dots + 2, (size_t)(colon - dots - 2)), &l->last);
}

/* Write one item, after a comma unless it is the first that is not empty. */
static bool paste_item(expander *x, span item, bool *first, text *out, int nesting)
{
    size_t before = out->size;
    if (!*first && !expand_text_add(x, out, ", ", 2))
        return false;
    size_t start = out->size;
    bool   plain = !item.size || memchr(item.data, '\\', item.size) == NULL;
    if (!(plain ? expand_text_add(x, out, item.data, item.size) : paste_text(x, item, out, nesting)))
        return false;
    if (out->size == start) /* a list inside it was empty */
        out->size = before;
    else
        *first = false;
    return true;
}

static bool paste_items(expander *x, const list *l, text *out, int nesting)
{
    formal  variable = {0};
    formals f = {&variable, 1, 0, {0}};
    pieces  parts = {0};
    text    item = {0};
    bool    first = true, ok = expand_text_add(x, &variable.name, l->variable.data, l->variable.size) &&
                            (l->first > l->last || expand_divide(x, l->item, &f, false, &parts));
    for (int64_t i = l->first; ok && i <= l->last; i++) {
        item.size = variable.actual.size = 0;
        ok = expand_step(x, l->item.size) && expand_text_number(x, &variable.actual, i) &&
             expand_substitute(x, &parts, &f, 0, &item) &&
             paste_item(x, span_text(&item), &first, out, nesting);
        if (i == INT64_MAX)
            break;
    }
    expand_formal_free(&variable);
    expand_pieces_free(x, &parts);
    expand_text_free(&item);
    return ok;
}

bool expand_list(expander *x, span s, text *out, int nesting)
{
    list l;
    if (nesting == MAX_LISTS)
        return expand_fail(x, "\\{ is nested more than %d deep", MAX_LISTS);
    return read_list(x, s, &l) && paste_items(x, &l, out, nesting + 1);
}

/* ---- lines ----------------------------------------------------------------------------------------- */

static bool add_step(reader *r, enum step_kind op, size_t at, size_t end)
{
    return expand_add_step(r, (step){.op = op, .at = at, .size = end - at});
}

static bool complain(reader *r, const char *what)
{
    r->wrong = what;
    r->whole = true;
    return false;
}

/* Lines often contain X, X+1, X+2: an expression that starts with all the steps of an earlier one uses its
 * value.  Shifts are excluded, since each may warn. */
static bool share(reader *r, uint32_t start)
{
    uint32_t    own = r->count - start, same = 0;
    bool        shift = false;
    step       *steps = r->x->steps_read + start;
    const step *base = r->x->steps_read + r->base;
    for (; same < own && same < r->base_count; same++)
        if (steps[same].op != base[same].op || steps[same].has_right != base[same].has_right ||
            steps[same].value != base[same].value)
            break;
    if (same && same == r->base_count) {
        steps[0] = (step){.op = STEP_AGAIN};
        memmove(steps + 1, steps + same, (own - same) * sizeof *steps);
        r->count -= same - 1;
        return true;
    }
    for (uint32_t i = 0; i < own; i++)
        shift = shift || steps[i].op == STEP_SHL || steps[i].op == STEP_SHR;
    r->base = start;
    r->base_count = shift ? 0 : own;
    return false;
}

/* text[at] starts the [ of \[expr] or the { of a list; *next is where the text goes on. */
static bool read_paste(reader *r, size_t at, size_t *next)
{
    span   rest = span_of(r->text.data + at, r->text.size - at);
    bool   is_value = rest.data[0] == '[';
    size_t end = is_value ? closing(rest, '[', ']') : closing(rest, '{', '}');
    if (end == rest.size)
        return complain(r, is_value ? "\\[ is not closed by ]" : "\\{ is not closed by }");
    *next = at + end + 1;
    if (!is_value)
        return add_step(r, STEP_LIST, at, *next);
    r->s = span_of(rest.data + 1, end - 1);
    r->at = 0;
    uint32_t start = r->count;
    if (!expand_read_expression(r))
        return false;
    bool shared = share(r, start);
    return expand_add_step(r, (step){.op = STEP_PASTE, .value = !shared});
}

static bool read_line(reader *r)
{
    span   s = r->text;
    size_t start = 0, at = 0; /* where plain text starts, and where the unread text starts */
    while (at < s.size) {
        const char *slash = (const char *)memchr(s.data + at, '\\', s.size - at);
        if (slash == NULL)
            break;
        at = (size_t)(slash - s.data) + 1;
        if (at == s.size || (s.data[at] != '[' && s.data[at] != '{'))
            continue;
        if (!add_step(r, STEP_TEXT, start, at - 1) || !read_paste(r, at, &start))
            return false;
        at = start;
    }
    return add_step(r, STEP_TEXT, start, s.size);
}

static bool paste_text(expander *x, span s, text *out, int nesting)
{
    return expand_evaluate(x, s, read_line, (target){.out = out, .nesting = nesting});
}

bool expand_paste(expander *x, span line, text *out)
{
    out->size = 0;
    return expand_step(x, line.size) && paste_text(x, line, out, 0);
}
