/* constant.c - constant expressions: 64-bit integers, signed or not, and doubles. */
#include "parse.h"

/* An operator that binds tighter has a higher rank; 0: not a binary operator. */
static int rank_of(const struct ptx_parser *p)
{
    if (p->lex.kind != PTX_TOKEN_MARK)
        return 0;
    /* clang-format off */
    switch (p->lex.mark) {
    case PTX_MARK2('|', '|'): return 1;
    case PTX_MARK2('&', '&'): return 2;
    case '|': return 3;
    case '^': return 4;
    case '&': return 5;
    case PTX_MARK2('=', '='): case PTX_MARK2('!', '='): return 6;
    case '<': case '>': case PTX_MARK2('<', '='): case PTX_MARK2('>', '='): return 7;
    case PTX_MARK2('<', '<'): case PTX_MARK2('>', '>'): return 8;
    case '+': case '-': return 9;
    case '*': case '/': case '%': return 10;
    default: return 0;
    }
    /* clang-format on */
}
enum { RANK_SUM = 9, RANK_MOST = 10 };

static struct ptx_constant integer(uint64_t bits, bool is_unsigned)
{
    struct ptx_constant c = {PTX_TOKEN_INTEGER, is_unsigned, bits};
    return c;
}

static double to_double(const struct ptx_constant *c)
{
    double value;
    memcpy(&value, &c->bits, sizeof value);
    return value;
}

static struct ptx_constant from_double(double value)
{
    struct ptx_constant c = {PTX_TOKEN_F64, false, 0};
    memcpy(&c.bits, &value, sizeof value);
    return c;
}

static bool truth(struct ptx_parser *p, const struct ptx_constant *c)
{
    if (c->kind != PTX_TOKEN_INTEGER)
        ptx_fail_last(p, "a condition must be an integer");
    return c->bits != 0;
}

bool ptx_at_constant(const struct ptx_parser *p)
{
    switch (p->lex.kind) {
    case PTX_TOKEN_INTEGER:
    case PTX_TOKEN_F32:
    case PTX_TOKEN_F64:
    case PTX_TOKEN_DECIMAL:
        return true;
    case PTX_TOKEN_WORD:
        return strcmp(p->lex.name->text, "WARP_SZ") == 0;
    case PTX_TOKEN_MARK:
        return p->lex.mark && p->lex.mark < 128 && strchr("-+~!(", p->lex.mark) != NULL;
    default:
        return false;
    }
}

static struct ptx_constant ternary(struct ptx_parser *p);
static struct ptx_constant unary(struct ptx_parser *p);

static struct ptx_constant parenthesis(struct ptx_parser *p)
{
    struct ptx_constant value;
    if (ptx_at_dot(p, "s64") || ptx_at_dot(p, "u64")) { /* a cast */
        bool is_unsigned = ptx_at_dot(p, "u64");
        ptx_next(p);
        ptx_want_mark(p, ')');
        value = unary(p);
        if (value.kind != PTX_TOKEN_INTEGER)
            ptx_fail_last(p, "only integers can be cast to .s64 and .u64");
        value.is_unsigned = is_unsigned;
        return value;
    }
    value = ternary(p);
    ptx_want_mark(p, ')');
    return value;
}

static struct ptx_constant primary(struct ptx_parser *p)
{
    struct ptx_constant value = {p->lex.kind, p->lex.is_unsigned, p->lex.value};
    if (ptx_take_mark(p, '('))
        return parenthesis(p);
    if (ptx_at_word(p, "WARP_SZ"))
        value = integer(32, false);
    else if (value.kind == PTX_TOKEN_DECIMAL)
        value.kind = PTX_TOKEN_F64;
    else if (value.kind != PTX_TOKEN_INTEGER && value.kind != PTX_TOKEN_F32 && value.kind != PTX_TOKEN_F64)
        ptx_unexpected(p, "a constant");
    ptx_next(p);
    return value;
}

static struct ptx_constant apply_unary(struct ptx_parser *p, int mark, struct ptx_constant value)
{
    if (value.kind == PTX_TOKEN_F32)
        ptx_fail_last(p, "0f... cannot be part of an expression");
    if (value.kind == PTX_TOKEN_F64) {
        if (mark == '-')
            value.bits ^= (uint64_t)1 << 63;
        else if (mark != '+')
            ptx_fail_last(p, "'%c' needs an integer", mark);
        return value;
    }
    switch (mark) {
    case '-':
        value.bits = 0 - value.bits;
        break;
    case '~':
        value.bits = ~value.bits;
        break;
    case '!':
        value = integer(!value.bits, false);
        break;
    default:
        break;
    }
    return value;
}

static struct ptx_constant unary(struct ptx_parser *p)
{
    struct ptx_constant value;
    int                 mark = p->lex.mark;
    if (p->lex.kind != PTX_TOKEN_MARK || (mark != '-' && mark != '+' && mark != '~' && mark != '!')) {
        ptx_enter(p);
        value = primary(p);
    } else {
        ptx_enter(p);
        ptx_next(p);
        value = apply_unary(p, mark, unary(p));
    }
    ptx_leave(p);
    return value;
}

static struct ptx_constant apply_double(struct ptx_parser *p, int mark, double a, double b)
{
    /* clang-format off */
    switch (mark) {
    case '+': return from_double(a + b);
    case '-': return from_double(a - b);
    case '*': return from_double(a * b);
    case '/': return from_double(a / b);
    case '<': return integer(a < b, false);
    case '>': return integer(a > b, false);
    case PTX_MARK2('<', '='): return integer(a <= b, false);
    case PTX_MARK2('>', '='): return integer(a >= b, false);
    case PTX_MARK2('=', '='): return integer(a == b, false);
    case PTX_MARK2('!', '='): return integer(a != b, false);
    default: ptx_fail_last(p, "this operator needs integers");
    }
    /* clang-format on */
}

static bool less(uint64_t a, uint64_t b, bool is_unsigned)
{
    return is_unsigned ? a < b : (int64_t)a < (int64_t)b;
}

static uint64_t divide(struct ptx_parser *p, int mark, uint64_t a, uint64_t b, bool is_unsigned)
{
    if (b == 0)
        ptx_fail_last(p, "division by zero");
    if (is_unsigned)
        return mark == '/' ? a / b : a % b;
    if (b == UINT64_MAX) /* by -1: the only one that can overflow */
        return mark == '/' ? 0 - a : 0;
    return (uint64_t)(mark == '/' ? (int64_t)a / (int64_t)b : (int64_t)a % (int64_t)b);
}

static struct ptx_constant shift(int mark, struct ptx_constant a, uint64_t by)
{
    bool     minus = !a.is_unsigned && a.bits >> 63;
    uint64_t flip = minus ? UINT64_MAX : 0;
    if (mark == PTX_MARK2('<', '<'))
        a.bits = by > 63 ? 0 : a.bits << by;
    else
        a.bits = (by > 63 ? 0 : (a.bits ^ flip) >> by) ^ flip;
    return a;
}

static struct ptx_constant apply_integer(struct ptx_parser *p, int mark, struct ptx_constant a,
                                         struct ptx_constant b)
{
    bool is_unsigned = a.is_unsigned || b.is_unsigned;
    /* clang-format off */
    switch (mark) {
    case '+': return integer(a.bits + b.bits, is_unsigned);
    case '-': return integer(a.bits - b.bits, is_unsigned);
    case '*': return integer(a.bits * b.bits, is_unsigned);
    case '/': case '%': return integer(divide(p, mark, a.bits, b.bits, is_unsigned), is_unsigned);
    case '&': return integer(a.bits & b.bits, is_unsigned);
    case '|': return integer(a.bits | b.bits, is_unsigned);
    case '^': return integer(a.bits ^ b.bits, is_unsigned);
    case '<': return integer(less(a.bits, b.bits, is_unsigned), false);
    case '>': return integer(less(b.bits, a.bits, is_unsigned), false);
    case PTX_MARK2('<', '='): return integer(!less(b.bits, a.bits, is_unsigned), false);
    case PTX_MARK2('>', '='): return integer(!less(a.bits, b.bits, is_unsigned), false);
    case PTX_MARK2('=', '='): return integer(a.bits == b.bits, false);
    case PTX_MARK2('!', '='): return integer(a.bits != b.bits, false);
    case PTX_MARK2('&', '&'): return integer(a.bits && b.bits, false);
    case PTX_MARK2('|', '|'): return integer(a.bits || b.bits, false);
    default: return shift(mark, a, b.bits);
    }
    /* clang-format on */
}

static struct ptx_constant apply(struct ptx_parser *p, int mark, struct ptx_constant a, struct ptx_constant b)
{
    if (a.kind == PTX_TOKEN_F32 || b.kind == PTX_TOKEN_F32)
        ptx_fail_last(p, "0f... cannot be part of an expression");
    if (a.kind != b.kind)
        ptx_fail_last(p, "one operation mixes an integer and a float");
    if (a.kind == PTX_TOKEN_F64)
        return apply_double(p, mark, to_double(&a), to_double(&b));
    return apply_integer(p, mark, a, b);
}

/* Operators of this rank and above. */
static struct ptx_constant binary(struct ptx_parser *p, int least)
{
    struct ptx_constant a = least > RANK_MOST ? unary(p) : binary(p, least + 1);
    while (least <= RANK_MOST && rank_of(p) == least) {
        int mark = p->lex.mark;
        ptx_next(p);
        a = apply(p, mark, a, binary(p, least + 1));
    }
    return a;
}

static struct ptx_constant ternary(struct ptx_parser *p)
{
    ptx_enter(p);
    struct ptx_constant value = binary(p, 1);
    if (ptx_take_mark(p, '?')) {
        bool                first = truth(p, &value);
        struct ptx_constant a = ternary(p);
        ptx_want_mark(p, ':');
        struct ptx_constant b = ternary(p);
        value = first ? a : b;
    }
    ptx_leave(p);
    return value;
}

struct ptx_constant ptx_constant_expression(struct ptx_parser *p) { return ternary(p); }

int64_t ptx_constant_offset(struct ptx_parser *p)
{
    ptx_enter(p);
    struct ptx_constant value = binary(p, RANK_SUM);
    ptx_leave(p);
    if (value.kind != PTX_TOKEN_INTEGER)
        ptx_fail_last(p, "an offset must be an integer");
    return (int64_t)value.bits;
}
