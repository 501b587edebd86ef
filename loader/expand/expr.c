/* expr.c - as's integer expressions: 64 bits, its operators and precedence, translated from text to steps. */
#include "internal.h"

/* In `as` the bitwise operators bind tighter than + and -, and shifts bind like *. */
static const uint8_t ranks[] = {
    [STEP_NONE] = 0, [STEP_MUL] = 6, [STEP_DIV] = 6,    [STEP_MOD] = 6,  [STEP_SHL] = 6,
    [STEP_SHR] = 6,  [STEP_OR] = 5,  [STEP_OR_NOT] = 5, [STEP_XOR] = 5,  [STEP_AND] = 5,
    [STEP_ADD] = 4,  [STEP_SUB] = 4, [STEP_EQ] = 3,     [STEP_NE] = 3,   [STEP_LT] = 3,
    [STEP_LE] = 3,   [STEP_GE] = 3,  [STEP_GT] = 3,     [STEP_LAND] = 2, [STEP_LOR] = 1,
};

/* ---- symbols --------------------------------------------------------------------------------------- */

bool expand_symbol_set(expander *x, span name, int64_t value)
{
    ptxpack_expansion *e = x->e;
    uint32_t           index = expand_names_find(&e->symbols, name);
    if (index == NAME_NONE) {
        index = e->value_count;
        if (!expand_grow(x, (void **)&e->values, index, &e->value_cap, sizeof *e->values) ||
            !expand_names_put(x, &e->symbols, name, index))
            return false;
        e->value_count++;
    }
    e->values[index] = value;
    return true;
}

bool expand_symbol_get(const ptxpack_expansion *e, span name, int64_t *value)
{
    uint32_t index = expand_names_find(&e->symbols, name);
    if (index == NAME_NONE)
        return false;
    *value = e->values[index];
    return true;
}

/* ---- from text to steps ---------------------------------------------------------------------------- */

static const char too_deep[] = "an expression nested", unknown[] = "unknown symbol";

static bool binary(reader *r, int rank);
static bool operand(reader *r);

static char peek(const reader *r) { return r->at < r->s.size ? r->s.data[r->at] : 0; }
static char peek_next(const reader *r) { return r->at + 1 < r->s.size ? r->s.data[r->at + 1] : 0; }
static void skip(reader *r) { r->at = expand_skip_blank(r->s, r->at); }

static bool add_step(reader *r, enum step_kind op, int64_t value)
{
    return expand_add_step(r, (step){.op = op, .value = value});
}

/* A right operand that is a number becomes part of its operator. */
static bool add_operator(reader *r, enum step_kind op)
{
    step *last = &r->x->steps_read[r->count - 1];
    if (last->op != STEP_VALUE)
        return add_step(r, op, 0);
    *last = (step){.op = op, .has_right = true, .value = last->value};
    return true;
}

static bool complain(reader *r, const char *what)
{
    r->wrong = what;
    return false;
}

bool expand_tell(const reader *r)
{
    span rest = span_of(r->s.data + r->at, r->s.size - r->at);
    if (r->whole)
        return expand_fail(r->x, "%s", r->wrong);
    if (r->wrong == too_deep)
        return expand_fail(r->x, "%s more than %d deep", too_deep, EXPAND_MAX_NESTING);
    if (r->wrong == unknown)
        return expand_fail(r->x, "%s %.*s in the expression \"%.*s\"", unknown, QUOTE(expand_word(rest)),
                           QUOTE(r->s));
    if (rest.size)
        return expand_fail(r->x, "%s at \"%.*s\" in the expression \"%.*s\"", r->wrong, QUOTE(rest),
                           QUOTE(r->s));
    return expand_fail(r->x, "%s at the end of the expression \"%.*s\"", r->wrong, QUOTE(r->s));
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 32);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

static bool number(reader *r)
{
    uint64_t v = 0;
    unsigned base = 10;
    if (peek(r) == '0') {
        char kind = (char)(peek_next(r) | 32);
        base = kind == 'x' ? 16 : kind == 'b' ? 2 : 8;
        r->at += base == 8 ? 1 : 2;
        if (base != 8 && digit_of(peek(r)) >= (int)base)
            return complain(r, "a digit is missing");
    }
    for (int d; (d = digit_of(peek(r))) < (int)base; r->at++)
        if (__builtin_mul_overflow(v, base, &v) || __builtin_add_overflow(v, (unsigned)d, &v))
            return complain(r, "a number of more than 64 bits");
    if (is_name(peek(r)))
        return complain(r, "a malformed number");
    return add_step(r, STEP_VALUE, (int64_t)v);
}

/* 'c, optionally closed by another '. */
static bool character(reader *r)
{
    static const char codes[] = "b\bf\fn\nr\rt\t\\\\''\"\"";
    char              c = peek_next(r);
    if (!c)
        return complain(r, "a character is missing");
    r->at += 2;
    if (c == '\\') {
        const char *code = codes;
        while (*code && *code != peek(r))
            code += 2;
        if (!*code)
            return complain(r, "an unknown character escape");
        c = code[1];
        r->at++;
    }
    if (peek(r) == '\'')
        r->at++;
    return add_step(r, STEP_VALUE, (unsigned char)c);
}

static bool symbol(reader *r)
{
    span     name = expand_word(span_of(r->s.data + r->at, r->s.size - r->at));
    uint32_t index = expand_names_find(&r->x->e->symbols, name);
    if (index == NAME_NONE)
        return complain(r, unknown);
    r->at += name.size;
    return add_step(r, STEP_SYMBOL, index);
}

static bool bracketed(reader *r)
{
    char close = peek(r) == '(' ? ')' : ']';
    r->at++;
    if (!binary(r, 0))
        return false;
    if (peek(r) != close)
        return complain(r, close == ')' ? "expected )" : "expected ]");
    r->at++;
    return true;
}

static bool unary(reader *r)
{
    char sign = r->s.data[r->at++];
    if (!operand(r))
        return false;
    if (sign == '+')
        return true;
    return add_step(r, sign == '-' ? STEP_NEGATE : sign == '~' ? STEP_COMPLEMENT : STEP_NOT, 0);
}

static bool operand(reader *r)
{
    skip(r);
    char c = peek(r);
    bool ok;
    if (r->nesting == EXPAND_MAX_NESTING)
        return complain(r, too_deep);
    r->nesting++;
    if (is_name_start(c))
        ok = symbol(r);
    else if (is_any(c, IS_DIGIT))
        ok = number(r);
    else if (c == '\'')
        ok = character(r);
    else if (c == '-' || c == '~' || c == '!' || c == '+')
        ok = unary(r);
    else if (c == '(' || c == '[')
        ok = bracketed(r);
    else
        ok = complain(r, "a value is missing");
    r->nesting--;
    return ok;
}

/* "!=", or "!!", which is as's spelling of ^. */
static enum step_kind exclamation(const reader *r, size_t *size)
{
    size_t next = expand_skip_blank(r->s, r->at + 1);
    *size = 2;
    if (peek_next(r) == '=')
        return STEP_NE;
    if (next == r->s.size || r->s.data[next] != '!')
        return *size = 1, STEP_OR_NOT;
    *size = next + 1 - r->at;
    return STEP_XOR;
}

static enum step_kind angle(char a, char b)
{
    if (b == '=')
        return a == '<' ? STEP_LE : STEP_GE;
    if (a == b)
        return a == '<' ? STEP_SHL : STEP_SHR;
    return a == '<' && b == '>' ? STEP_NE : STEP_NONE;
}

static enum step_kind operator_of_two(char a, char b)
{
    switch (a) {
    case '<':
    case '>':
        return angle(a, b);
    case '=':
        return b == '=' ? STEP_EQ : STEP_NONE;
    case '&':
        return b == '&' ? STEP_LAND : STEP_NONE;
    case '|':
        return b == '|' ? STEP_LOR : STEP_NONE;
    default:
        return STEP_NONE;
    }
}

static enum step_kind operator_at(const reader *r, size_t *size)
{
    char           a = peek(r);
    enum step_kind two = operator_of_two(a, peek_next(r));
    *size = two ? 2 : 1;
    if (two)
        return two;
    switch (a) {
    case '*':
        return STEP_MUL;
    case '/':
        return STEP_DIV;
    case '%':
        return STEP_MOD;
    case '+':
        return STEP_ADD;
    case '-':
        return STEP_SUB;
    case '^':
        return STEP_XOR;
    case '&':
        return STEP_AND;
    case '|':
        return STEP_OR;
    case '<':
        return STEP_LT;
    case '>':
        return STEP_GT;
    case '!':
        return exclamation(r, size);
    default:
        return STEP_NONE;
    }
}

/* An operand and the operators after it that bind tighter than `rank`, from the left. */
static bool binary(reader *r, int rank)
{
    if (!operand(r))
        return false;
    skip(r);
    r->next = operator_at(r, &r->next_size);
    while (ranks[r->next] > rank) {
        enum step_kind op = r->next;
        r->at += r->next_size;
        if (!binary(r, ranks[op]) || !add_operator(r, op))
            return false;
    }
    return true;
}

bool expand_read_expression(reader *r)
{
    r->s = expand_trim(r->s);
    return binary(r, 0) && (r->at == r->s.size || complain(r, "unexpected text"));
}

bool expand_expression(expander *x, span s, int64_t *value)
{
    return expand_evaluate(x, expand_trim(s), expand_read_expression, (target){.value = value});
}
