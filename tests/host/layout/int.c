/* int.c - arithmetic and comparisons of nested tuples: facts of CuTe, properties, every error. */
#include "tuple_fixture.h"

/* ---- facts ---------------------------------------------------------------------------------------- */
/* The results of CuTe 4.7 with static integers. */
static void test_arithmetic_facts(void **state)
{
    (void)state;
    GIVES(ptxpack_ceil_div(T("(4,(2,6),5)"), T("8")), "(1,(1,6),5)");
    GIVES(ptxpack_ceil_div(T("(4,(2,6),5)"), T("(3)")), "(2,(2,6),5)");
    GIVES(ptxpack_ceil_div(T("100"), T("(3,4)")), "9");
    GIVES(ptxpack_shape_div(T("(4,5,6)"), T("40")), "(1,1,3)");
    GIVES(ptxpack_shape_div(T("3"), T("12")), "1");
    GIVES(ptxpack_elem_scale(T("(2,(3,4))"), T("((2,5),(2,3))")), "(20,(6,12))");
    GIVES(ptxpack_elem_scale(T("(3@1,2)"), T("(2,3@1)")), "(6@1,6@1)");
    GIVES(ptxpack_filter_zeros_by(T("(0,2)"), T("((3,4),5)")), "((1,1),5)");
    GIVES(ptxpack_round_up(T("(7,5)"), T("(4)")), "(8,5)");
    GIVES(ptxpack_product(T("()")), "1");
    GIVES(ptxpack_product(T("(2@0,3)")), "6@0");
    GIVES(ptxpack_product_each(T("5")), "(5)");
    GIVES(ptxpack_product_each(T("((2,3),4)")), "(6,4)");
    GIVES(ptxpack_product_like(T("((2,3),(4,(5,6)))"), T("(0,(0,0))")), "(6,(4,30))");
    GIVES(ptxpack_sum(T("(2@0,1@1)")), "(2,1)");
    GIVES(ptxpack_sum(T("(2@1,0)")), "2@1");
    GIVES(ptxpack_ceil_div(T("7@1"), T("2")), "4@1");
    GIVES(ptxpack_gcd(T("(12,(18,0))")), "6");
    GIVES(ptxpack_gcd(T("(-4,6)")), "2");
    GIVES(ptxpack_inner_product(T("(1,(2,3))"), T("(4,(5,6))")), "32");
    GIVES(ptxpack_inner_product(T("(1,2)"), T("(1@0,1@1)")), "(1,2)");
    GIVES(ptxpack_abs(T("(-3,(4,-2@1))")), "(3,(4,2@1))");
    GIVES(ptxpack_signum(T("(-3,(4,0))")), "(-1,(1,0))");
    GIVES(ptxpack_as_arithmetic_tuple(T("(1@2,5)")), "((0,0,1),5)");
    GIVES(ptxpack_product(T("(4611686018427387904,4,0)")), "0");
    assert_true(ptxpack_evenly_divides(T("(4,6)"), T("8")));
    assert_false(ptxpack_evenly_divides(T("(4,6)"), T("16")));
    assert_true(ptxpack_evenly_divides(T("(4,6)"), T("(2,3)")));
    assert_false(ptxpack_evenly_divides(T("(4,6)"), T("(2,3,1)")));
    assert_true(ptxpack_colex_less(T("(1,2)"), T("(0,3)")));
    assert_true(ptxpack_lex_less(T("(1)"), T("(1,2)")));
    assert_true(ptxpack_elem_less(T("(1)"), T("(2,2)")));
    assert_false(ptxpack_elem_less(T("(2,2)"), T("(3)")));
}

/* ---- arithmetic, against text ------------------------------------------------------------------------ */
/* The definition of ceil_div, on text; *rest is what remains of an integer divisor. */
static void divide_text(const char *a, int64_t *rest, char *out)
{
    if (is_leaf(a)) {
        int64_t n = atoll(a);
        sprintf(out + strlen(out), "%lld", (long long)((n + *rest - 1) / *rest));
        *rest = (*rest + n - 1) / n;
        return;
    }
    modes m = split(a);
    strcat(out, "(");
    for (int i = 0; i < m.count; i++) {
        if (i > 0)
            strcat(out, ",");
        divide_text(m.text[i], rest, out);
    }
    strcat(out, ")");
}

static void test_arithmetic_random(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const char  *text = random_text(3, 8, 12);
        const tuple *t = T(text);
        int64_t      v[BIG], sum = 0, squares = 0, largest = 0, smallest = INT64_MAX;
        int          count = numbers(text, v);
        for (int i = 0; i < count; i++) {
            sum += v[i];
            squares += v[i] * v[i];
            largest = v[i] > largest ? v[i] : largest;
            smallest = v[i] < smallest ? v[i] : smallest;
        }
        assert_int_equal(value(ptxpack_product(t)), product_of(text));
        assert_int_equal(value(ptxpack_sum(t)), sum);
        assert_int_equal(value(ptxpack_inner_product(t, t)), squares);
        assert_int_equal(value(ptxpack_max(t)), largest);
        assert_int_equal(value(ptxpack_min(t)), smallest);
        int64_t gcd = value(ptxpack_gcd(t));
        for (int i = 0; i < count; i++)
            assert_int_equal(v[i] % gcd, 0);
        for (int64_t d = gcd + 1; d <= smallest; d++) {
            int i = 0;
            while (i < count && v[i] % d == 0)
                i++;
            assert_true(i < count);
        }
        char    expected[TEXT] = "";
        int64_t by = 1 + draw(40), rest = by, whole = by;
        divide_text(text, &rest, expected);
        tuple quotient = ptxpack_ceil_div(t, keep(ptxpack_int(by)));
        GIVES(quotient, expected);
        assert_int_equal(ptxpack_evenly_divides(t, keep(ptxpack_int(whole))),
                         product_of(text) == whole * product_of(expected));
        tuple exact = ptxpack_shape_div(t, keep(ptxpack_int(by)));
        if (exact.status == PTXPACK_OK)
            assert_true(ptxpack_tuple_equal(&exact, &quotient));
        modes m = split(text);
        tuple each = ptxpack_product_each(t), like = ptxpack_product_like(t, &each);
        if (is_leaf(text))
            like = *t;
        else
            assert_true(ptxpack_tuple_equal(&each, &like));
        for (int i = 0; i < m.count; i++)
            assert_int_equal(value(ptxpack_get(&each, i)), product_of(m.text[i]));
        assert_true(ptxpack_compatible(&like, t));
        assert_true(ptxpack_compatible(keep(ptxpack_product(t)), t) && ptxpack_compatible(t, t));
    }
}

/* shape_div refuses exactly when it meets a pair in which neither number divides the other. */
static void test_shape_div_pairs(void **state)
{
    (void)state;
    for (int a = 0; a < 40; a++)
        for (int b = 1; b < 40; b++) {
            tuple got = ptxpack_shape_div(keep(ptxpack_int(a)), keep(ptxpack_int(b)));
            bool  divides = a % b == 0 || (a != 0 && b % a == 0);
            assert_int_equal(got.status, divides ? PTXPACK_OK : PTXPACK_E_ARG);
            if (divides)
                assert_int_equal(value(got), (a + b - 1) / b);
            tuple rounded = ptxpack_round_up(keep(ptxpack_int(a)), keep(ptxpack_int(b)));
            assert_int_equal(value(rounded), (a + b - 1) / b * b);
        }
}

/* ---- comparisons ---------------------------------------------------------------------------------- */
/* Comparisons of mixed kinds: a leaf and a tuple, `_` and basis values. */
static void test_questions(void **state)
{
    (void)state;
    assert_false(ptxpack_lex_less(T("1"), T("(2)")) || ptxpack_elem_less(T("(1)"), T("2")));
    assert_false(ptxpack_lex_less(T("_"), T("2")) || ptxpack_colex_less(T("1@0"), T("2")));
    assert_false(ptxpack_lex_less(T("(1,2)"), T("(1,2)")) || ptxpack_colex_less(T("(1,2)"), T("(1)")));
    assert_true(ptxpack_colex_less(T("(2)"), T("(1,2)"))); /* the last modes are equal */
    assert_true(ptxpack_lex_less(T("(1,(2,3))"), T("(1,(2,4))")));
    assert_true(ptxpack_tuple_equal(T("(_,())"), T("(_,())")));
    assert_false(ptxpack_tuple_equal(T("0"), T("_")) || ptxpack_tuple_equal(T("1@0"), T("1@1")));
    assert_false(ptxpack_tuple_equal(T("((1,2),3)"), T("(1,(2,3))")) || ptxpack_tuple_equal(T("1"), T("(1)")));
    assert_false(ptxpack_congruent(T("((1),2)"), T("(1,(2))")) || ptxpack_congruent(T("()"), T("0")));
    assert_true(ptxpack_congruent(T("()"), T("()")) && !ptxpack_congruent(T("()"), T("(())")));
    assert_true(ptxpack_weakly_congruent(T("(0,0)"), T("((1,2),3)")));
    assert_false(ptxpack_weakly_congruent(T("((1,2),3)"), T("(0,0)")) ||
                 ptxpack_weakly_congruent(T("(0,0)"), T("(1,2,3)")));
    assert_true(ptxpack_compatible(T("24"), T("(2,(3,4))")) && ptxpack_compatible(T("(2,12)"), T("(2,(3,4))")));
    assert_false(ptxpack_compatible(T("23"), T("(2,(3,4))")) || ptxpack_compatible(T("25"), T("(2,(3,4))")));
    assert_false(ptxpack_compatible(T("(3,8)"), T("(2,(3,4))")) || ptxpack_compatible(T("_"), T("1")));
    assert_false(ptxpack_compatible(T("(2,12)"), T("24")) || ptxpack_compatible(T("0"), T("(2,_)")));
    assert_true(ptxpack_evenly_divides(T("6"), T("(3)")));
    assert_false(ptxpack_evenly_divides(T("6"), T("0")) || ptxpack_evenly_divides(T("6"), T("_")));
    assert_false(ptxpack_evenly_divides(T("6"), T("-2")) || ptxpack_evenly_divides(T("6"), T("4")));
}

/* ---- every error ------------------------------------------------------------------------------------- */
static void test_no_arithmetic(void **state)
{
    (void)state;
    FAILS(ptxpack_product(T("(" MAX ",2)")), "product: the product of (" MAX ",2) overflows 64 bits");
    FAILS(ptxpack_product(T("(2,_)")), "product: _ in (2,_)");
    FAILS(ptxpack_product(T("(2@0,3@1)")), "product: two basis values");
    FAILS(ptxpack_product_each(T("((" MAX ",2),1)")), "product_each: the product of (" MAX ",2)");
    FAILS(ptxpack_product_like(T("((" MAX ",2),1)"), T("(0,0)")), "product_like: the product of");
    FAILS(ptxpack_product_like(T("(1,2)"), T("(0,(0,0))")), "product_like: 2 and (0,0) differ");
    FAILS(ptxpack_product_like(T("(1,2)"), T("(0,0,0)")), "product_like: (1,2) and (0,0,0) differ");
    FAILS(ptxpack_sum(T("(" MAX ",1)")), "sum: adding 1 times 1 overflows 64 bits");
    FAILS(ptxpack_sum(T("(1,_)")), "sum: _");
    FAILS(ptxpack_sum(T("(3,1@0)")), "sum: 3 and a basis value");
    FAILS(ptxpack_sum(T("(" MAX "@0,1@0)")), "sum: adding");
    FAILS(ptxpack_sum(T("(3@0,2@1@0)")), "sum: 3 and a tuple have no sum");
    FAILS(ptxpack_max(T("()")), "max: ()");
    FAILS(ptxpack_min(T("(1,_)")), "min: (1,_)");
    FAILS(ptxpack_gcd(T("(1,2@0)")), "gcd: (1,2@0)");
    FAILS(ptxpack_gcd(T("(-9223372036854775808,-9223372036854775808)")), "gcd: ");
    FAILS(ptxpack_abs(T("-9223372036854775808")), "abs: of -9223372036854775808");
    FAILS(ptxpack_signum(T("_")), "signum: _");
    FAILS(ptxpack_as_arithmetic_tuple(T("(1,_)")), "as_arithmetic_tuple: _");
    FAILS(ptxpack_inner_product(T("(1,2)"), T("(1,2,3)")), "inner_product: (1,2) and (1,2,3) differ");
    FAILS(ptxpack_inner_product(T("4"), T("(1)")), "inner_product: 4 and (1) differ");
    FAILS(ptxpack_inner_product(T("(1@0,2)"), T("(1@0,3)")), "inner_product: 1@0 and 1@0");
    FAILS(ptxpack_inner_product(T("(" MAX ",1)"), T("(2,1)")), "inner_product: adding " MAX " times 2");
    FAILS(ptxpack_elem_scale(T("(1,2)"), T("3")), "elem_scale: (1,2) and 3 differ");
    FAILS(ptxpack_elem_scale(T("(1," MAX ")"), T("(3,(1,2))")), "elem_scale: " MAX " times (1,2) overflows");
    FAILS(ptxpack_elem_scale(T("_"), T("3")), "elem_scale: _ and 3");
    FAILS(ptxpack_elem_scale(T("2"), T("(3,_)")), "elem_scale: _ in (3,_)");
    FAILS(ptxpack_filter_zeros_by(T("(0,1)"), T("(0,1,2)")), "filter_zeros: (0,1) and (0,1,2)");
}

static void test_no_division(void **state)
{
    (void)state;
    FAILS(ptxpack_ceil_div(T("5"), T("0")), "ceil_div: 5 by 0");
    FAILS(ptxpack_ceil_div(T("-5"), T("2")), "ceil_div: -5 by 2");
    FAILS(ptxpack_ceil_div(T("(4,0)"), T("8")), "ceil_div: 2 by 0");
    FAILS(ptxpack_ceil_div(T("5"), T("(2,_)")), "ceil_div: _ in (2,_)");
    FAILS(ptxpack_ceil_div(T("_"), T("2")), "ceil_div: _");
    FAILS(ptxpack_ceil_div(T("5"), T("2@0")), "ceil_div: the divisor 2@0");
    FAILS(ptxpack_ceil_div(T("(1,2)"), T("(1,2,3)")), "ceil_div: (1,2) and (1,2,3) differ in rank");
    FAILS(ptxpack_ceil_div(T("5"), T("(" MAX ",2)")), "ceil_div: the product of");
    FAILS(ptxpack_shape_div(T("6"), T("4")), "shape_div: neither of 6 and 4 divides the other");
    FAILS(ptxpack_shape_div(T("(6,8)"), T("(3,5)")), "shape_div: neither of 8 and 5");
    FAILS(ptxpack_shape_div(T("(1,2)"), T("(1)")), "shape_div: (1,2) and (1) differ in rank");
    FAILS(ptxpack_round_up(T("(1,2)"), T("2")), "round_up: (1,2) and 2 are neither");
    FAILS(ptxpack_round_up(T("3@0"), T("2")), "round_up: 3@0 and 2");
    FAILS(ptxpack_round_up(T(MAX), T("2")), "round_up: " MAX " to a multiple of 2 overflows 64 bits");
    GIVES(ptxpack_ceil_div(T(MAX), T("2")), "4611686018427387904"); /* there is no overflow in between */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arithmetic_facts), cmocka_unit_test(test_arithmetic_random),
        cmocka_unit_test(test_shape_div_pairs),  cmocka_unit_test(test_questions),
        cmocka_unit_test(test_no_arithmetic),    cmocka_unit_test(test_no_division),
    };
    return cmocka_run_group_tests(tests, print_seed, NULL);
}
