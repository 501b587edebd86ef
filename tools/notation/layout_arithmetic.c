/* layout_arithmetic.c - + - * / % in expressions. */
#include "layout_calls.h"
#include "host/layout/notation.h"

/* An integer, which may stand in parentheses. */
static bool take_integer(const expr_value *v, int64_t *n)
{
    *n = v->as.tuple.value[0];
    return v->kind == EXPR_TUPLE && v->as.tuple.items == 1 && v->as.tuple.kind[0] == 0;
}

static expr_value of_integers(int64_t a, char sign, int64_t b)
{
    int64_t n = 0;
    bool    fits = true;
    if ((sign == '/' || sign == '%') && (b == 0 || (b == -1 && a == INT64_MIN)))
        return value_of_tuple(tuple_error("%lld cannot be divided by %lld", (long long)a, (long long)b));
    switch (sign) {
    case '+':
        fits = !__builtin_add_overflow(a, b, &n);
        break;
    case '-':
        fits = !__builtin_sub_overflow(a, b, &n);
        break;
    case '*':
        fits = !__builtin_mul_overflow(a, b, &n);
        break;
    case '/':
        n = a / b;
        break;
    default:
        n = a % b;
    }
    return value_of_tuple(
        fits ? ptxpack_int(n)
             : tuple_error("%lld %c %lld does not fit 64 bits", (long long)a, sign, (long long)b));
}

expr_value value_calculate(const expr_value *left, char sign, const expr_value *right)
{
    int64_t a, b;
    if (!take_integer(right, &b))
        return value_of_tuple(tuple_error("what is right of %c is no integer", sign));
    if (take_integer(left, &a))
        return of_integers(a, sign, b);
    if (sign == '+' && left->kind == EXPR_POINTER) {
        expr_value moved = value_of_tensor(pointer_plus(&left->as.tensor, b));
        moved.kind = moved.kind == EXPR_TENSOR ? EXPR_POINTER : moved.kind;
        return moved;
    }
    if (sign == '+' && left->kind == EXPR_LAYOUT && !ptxpack_is_tiler(&left->as.layout))
        return (expr_value){.kind = EXPR_SLICE, .as = {.slice = {left->as.layout, ptxpack_int(b)}}};
    return value_of_tuple(tuple_error(sign == '+' ? "what is left of + is no integer, no pointer and no layout"
                                                  : "what is left of %c is no integer",
                                      sign));
}
