/* loop.c - .rept, .irp and .irpc: one iteration at a time. */
#include "internal.h"

/* ".irp NAME, items": the name and the items, in the frame. */
static bool open_items(expander *x, frame *f, span s)
{
    span name = expand_word(s);
    if (!name.size)
        return expand_fail(x, "the loop has no variable");
    f->items.size = f->variable.name.size = 0;
    f->item = 0;
    size_t at = expand_skip_comma(s, name.size);
    f->quoted = f->kind == FRAME_IRPC && at < s.size && s.data[at] == '"';
    at += f->quoted;
    return expand_text_add(x, &f->variable.name, name.data, name.size) &&
           expand_text_add(x, &f->items, s.data + at, s.size - at);
}

bool expand_loop_open(expander *x, enum frame_kind kind, span operands)
{
    int64_t times = 0;
    span    s, body;
    place   first;
    frame  *f;
    if (kind == FRAME_REPT && expand_trim(operands).size && !expand_expression(x, operands, &times))
        return false;
    if (times < 0)
        return expand_fail(x, "a negative count: %lld", (long long)times);
    if (!expand_scrub(x, operands, &s) || !expand_take_block(x, true, &body, &first) ||
        !expand_frame_push(x, kind, &f))
        return false;
    f->body = body;
    f->first = first;
    f->left = (uint64_t)times;
    f->number = x->calls;
    f->started = false;
    f->source = span_of("", 0);
    return kind == FRAME_REPT || open_items(x, f, s);
}

/* The next value of an .irp variable. */
static bool next_item(expander *x, frame *f, bool *more)
{
    span s = span_text(&f->items);
    *more = f->item < s.size || !f->started; /* without items the body is expanded once, with an empty value */
    f->variable.actual.size = 0;
    if (f->item >= s.size)
        return true;
    if (!expand_argument(x, s, &f->item, &f->variable.actual))
        return false;
    f->item = expand_skip_comma(s, f->item);
    return true;
}

/* The next value of an .irpc variable; quotes are removed, and blanks outside of them do not count. */
static bool next_character(expander *x, frame *f, bool *more)
{
    span s = span_text(&f->items);
    *more = f->item < s.size || !f->started;
    f->variable.actual.size = 0;
    if (f->item >= s.size)
        return true;
    if (s.data[f->item] == '"') {
        f->quoted = !f->quoted;
        if (expand_skip_blank(s, f->item + 1) >= s.size) {
            *more = false;
            return true;
        }
    }
    if (!expand_text_char(x, &f->variable.actual, s.data[f->item++]))
        return false;
    if (!f->quoted)
        f->item = expand_skip_blank(s, f->item);
    return true;
}

bool expand_loop_next(expander *x, bool *more)
{
    frame *f = &x->frames[x->depth - 1];
    f->pos = 0;
    f->line = f->first.line;
    if (f->kind == FRAME_REPT) {
        *more = f->left > 0;
        f->left -= *more;
        f->source = f->body;
        return expand_step(x, 0);
    }
    if (!(f->kind == FRAME_IRP ? next_item : next_character)(x, f, more))
        return false;
    f->started = true;
    if (!*more)
        return true;
    formals one = {&f->variable, 1, 0, {0}};
    f->own.size = 0;
    if ((!f->parts.count && !expand_divide(x, f->body, &one, true, &f->parts)) ||
        !expand_substitute(x, &f->parts, &one, f->number, &f->own))
        return false;
    f->source = span_text(&f->own);
    return expand_frame_hold(x, f);
}
