/* cond.c - .if and its family. */
#include "internal.h"

static bool nothing_more(expander *x, span operands)
{
    return !operands.size || expand_fail(x, "nothing may follow here: \"%.*s\"", QUOTE(operands));
}

/* ".ifc a, b": as compares the text left of the first comma with all the text right of it. */
static bool same_text(expander *x, span operands, bool *same)
{
    span s;
    if (!expand_scrub(x, operands, &s))
        return false;
    const char *comma = s.size ? (const char *)memchr(s.data, ',', s.size) : NULL;
    if (comma == NULL)
        return expand_fail(x, "expected two texts with a comma between them");
    span a = expand_trim(span_of(s.data, (size_t)(comma - s.data)));
    span b = expand_trim(span_of(comma + 1, (size_t)(s.data + s.size - comma - 1)));
    *same = a.size == b.size && (!a.size || memcmp(a.data, b.data, a.size) == 0);
    return true;
}

static bool is_defined(expander *x, span operands, bool *defined)
{
    int64_t value;
    span    name = expand_word(operands);
    if (!name.size || name.size != operands.size)
        return expand_fail(x, "\"%.*s\" is not a symbol name", QUOTE(operands));
    *defined = expand_symbol_get(x->e, name, &value);
    return true;
}

static bool holds(expander *x, enum condition_kind kind, span operands, bool *result)
{
    int64_t v = 0;
    bool    same = false;
    switch (kind) {
    case IF_DEF:
    case IF_NDEF:
        if (!is_defined(x, operands, &same))
            return false;
        *result = same == (kind == IF_DEF);
        return true;
    case IF_C:
    case IF_NC:
        if (!same_text(x, operands, &same))
            return false;
        *result = same == (kind == IF_C);
        return true;
    case IF_B:
        *result = operands.size == 0;
        return true;
    case IF_NB:
        *result = operands.size != 0;
        return true;
    default:
        break;
    }
    if (!expand_expression(x, operands, &v))
        return false;
    *result = kind == IF_EQ   ? v == 0
              : kind == IF_GT ? v > 0
              : kind == IF_GE ? v >= 0
              : kind == IF_LT ? v < 0
              : kind == IF_LE ? v <= 0
                              : v != 0;
    return true;
}

static bool open_condition(expander *x, enum condition_kind kind, span operands)
{
    condition c = {.at = x->here, .depth = x->depth, .dead = expand_ignoring(x)};
    if (!c.dead && !holds(x, kind, operands, &c.taken))
        return false;
    c.ignoring = !c.taken;
    if (!expand_grow(x, (void **)&x->conditions, x->condition_count, &x->condition_cap, sizeof c))
        return false;
    x->conditions[x->condition_count++] = c;
    return true;
}

static bool other_branch(expander *x, condition *c, enum condition_kind kind, span operands)
{
    const char *word = kind == IF_ELSE ? ".else" : ".elseif";
    bool        result = true;
    if (c->seen_else)
        return expand_fail(x, "%s after .else, in the .if of line %u", word, c->at.line);
    c->seen_else = kind == IF_ELSE;
    if (c->seen_else && !nothing_more(x, operands))
        return false;
    if (c->dead || c->taken) {
        c->ignoring = true;
        return true;
    }
    if (kind == IF_ELSEIF) { /* it was not pasted yet, because it may not count */
        if (!expand_paste(x, operands, &x->pasted) || !holds(x, IF_EXPR, span_text(&x->pasted), &result))
            return false;
    }
    c->taken = result;
    c->ignoring = !result;
    return true;
}

bool expand_condition(expander *x, enum condition_kind kind, span operands)
{
    if (kind != IF_C && kind != IF_NC)
        operands = expand_trim(operands);
    if (kind < IF_ELSEIF)
        return open_condition(x, kind, operands);
    if (!x->condition_count)
        return expand_fail(x, "%s without .if",
                           kind == IF_END    ? ".endif"
                           : kind == IF_ELSE ? ".else"
                                             : ".elseif");
    if (kind != IF_END)
        return other_branch(x, &x->conditions[x->condition_count - 1], kind, operands);
    x->condition_count--;
    return nothing_more(x, operands);
}

bool expand_condition_closed(expander *x, uint32_t depth)
{
    if (!x->condition_count || x->conditions[x->condition_count - 1].depth < depth)
        return true;
    return expand_fail_at(x, x->conditions[x->condition_count - 1].at,
                          "the .if that begins here has no .endif");
}

void expand_condition_drop(expander *x, uint32_t depth)
{
    while (x->condition_count && x->conditions[x->condition_count - 1].depth >= depth)
        x->condition_count--;
}
