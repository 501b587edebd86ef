/* tuple.c - the structure of nested tuples: facts of CuTe, properties, every error, the limits. */
#include <time.h>

#include "tuple_fixture.h"

/* ---- facts ---------------------------------------------------------------------------------------- */
/* The results of CuTe 4.7 with static integers. */
static void test_structure_facts(void **state)
{
    (void)state;
    GIVES(ptxpack_group(T("5"), 0, 1), "((5))");
    GIVES(ptxpack_group(T("(1,2)"), 1, 1), "(1,2)");
    GIVES(ptxpack_group(T("(1,2,3)"), 1, -1), "(1,(2,3))");
    GIVES(ptxpack_take(T("5"), 0, 1), "(5)");
    GIVES(ptxpack_take(T("(1,2)"), 1, 1), "()");
    GIVES(ptxpack_zip(T("7")), "7");
    GIVES(ptxpack_zip(T("(1,2)")), "((1,2))");
    GIVES(ptxpack_zip(T("((1,2),(3,4))")), "((1,3),(2,4))");
    GIVES(ptxpack_zip2_by(T("((1,2),((3,4),(5,6),9),7)"), T("(0,(0,0))")), "((1,(3,5)),(2,(4,6,9),7))");
    GIVES(ptxpack_zip2_by(T("(1,2)"), T("0")), "(1,2)");
    GIVES(ptxpack_tuple_slice(T("(1,(_,2,_))"), T("(4,(5,6,(7,8)))")), "(5,(7,8))");
    GIVES(ptxpack_tuple_dice(T("(1,(_,2,_))"), T("(4,(5,6,(7,8)))")), "(4,6)");
    GIVES(ptxpack_tuple_slice(T("1"), T("(4)")), "()");
    GIVES(ptxpack_tuple_slice(T("_"), T("(4)")), "(4)");
    GIVES(ptxpack_tuple_dice(T("1"), T("(4)")), "(4)");
    GIVES(ptxpack_tuple_dice(T("_"), T("(4)")), "()");
    GIVES(ptxpack_unflatten(T("(1,2,3)"), T("(0,(0,0))")), "(1,(2,3))");
    GIVES(ptxpack_unflatten(T("1"), T("0")), "1");
    GIVES(ptxpack_unflatten(T("1"), T("((0),())")), "((1),())");
    GIVES(ptxpack_flatten(T("(())")), "()");
    GIVES(ptxpack_flatten(T("5")), "5");
    GIVES(ptxpack_flatten_to_tuple(T("5")), "(5)");
    GIVES(ptxpack_front(T("((1,2),3)")), "1");
    GIVES(ptxpack_back(T("(3,(1,2))")), "2");
    GIVES(ptxpack_append_to(T("5"), 3, T("1")), "(5,1,1)");
    GIVES(ptxpack_append_to(T("5"), 1, T("1")), "5");
    GIVES(ptxpack_prepend_to(T("5"), 3, T("1")), "(1,1,5)");
    GIVES(ptxpack_append(T("5"), T("(1,2)")), "(5,(1,2))");
    GIVES(ptxpack_prepend(T("5"), T("1")), "(1,5)");
    GIVES(ptxpack_repeat(T("5"), 3), "(5,5,5)");
    GIVES(ptxpack_repeat(T("5"), 1), "5");
    GIVES(ptxpack_repeat(T("5"), 0), "()");
    GIVES(ptxpack_replace(T("5"), 0, T("(1,2)")), "(1,2)");
    GIVES(ptxpack_unwrap(T("((5))")), "5");
    GIVES(ptxpack_unwrap(T("(((5,6)))")), "(5,6)");
    GIVES(ptxpack_unwrap(T("(())")), "()");
    GIVES(ptxpack_wrap(T("5")), "(5)");
    GIVES(ptxpack_get(T("5"), 0), "5");
    assert_int_equal(ptxpack_depth(T("(1,(2))")), 2);
    assert_int_equal(ptxpack_depth(T("()")), 1);
    assert_int_equal(ptxpack_rank(T("()")), 0);
    assert_true(ptxpack_is_tuple(T("()")) && !ptxpack_is_tuple(T("_")) && !ptxpack_is_tuple(T("3@1")));
    assert_true(ptxpack_has_underscore(T("(1,(_,2))")) && !ptxpack_has_underscore(T("(1,(0,2))")));
}

static tuple twice(void *user, const tuple *t)
{
    ++*(int *)user;
    return ptxpack_elem_scale(t, &(tuple){.items = 1, .value = {2}});
}

static tuple append_two(void *user, const tuple *so_far, const tuple *mode)
{
    (void)user;
    return ptxpack_append(so_far, mode);
}

static tuple refuse(void *user, const tuple *t)
{
    (void)user;
    return ptxpack_get(t, 9);
}

static void test_callbacks(void **state)
{
    int calls = 0;
    (void)state;
    GIVES(ptxpack_transform(T("(1,2)"), twice, &calls), "(2,4)");
    GIVES(ptxpack_transform_leaf(T("(1,((),(2,3)))"), twice, &calls), "(2,((),(4,6)))");
    assert_int_equal(calls, 5);
    GIVES(ptxpack_fold(T("(1,(2,3))"), T("()"), append_two, NULL), "(1,(2,3))");
    FAILS(ptxpack_transform(T("(1,2)"), refuse, NULL), "get: mode 9 of 1, which has 1");
    FAILS(ptxpack_transform_leaf(T("((1),2)"), refuse, NULL), "get: mode 9");
    FAILS(ptxpack_transform(T("3"), refuse, NULL), "get: mode 9");
}

/* ---- structure, against text ------------------------------------------------------------------------ */
static void check_modes(const char *text, const modes *m)
{
    const tuple *t = T(text), *x = T("(7,(8))");
    modes        back = *m;
    for (int i = 0; i < m->count; i++) {
        GIVES(ptxpack_get(t, i), m->text[i]);
        strcpy(back.text[m->count - 1 - i], m->text[i]);
    }
    GIVES(ptxpack_reverse(t), is_leaf(text) ? text : join(&back, 0, m->count, true));
    int begin = draw(m->count + 1), end = begin + draw(m->count - begin + 1);
    GIVES(ptxpack_take(t, begin, end), join(m, begin, end, true));
    modes grouped = {.count = 0};
    for (int i = 0; i < begin; i++)
        strcpy(grouped.text[grouped.count++], m->text[i]);
    if (begin < end)
        strcpy(grouped.text[grouped.count++], join(m, begin, end, true));
    for (int i = end; i < m->count; i++)
        strcpy(grouped.text[grouped.count++], m->text[i]);
    GIVES(ptxpack_group(t, begin, end), join(&grouped, 0, grouped.count, true));
    modes more = *m;
    strcpy(more.text[more.count++], "(7,(8))");
    GIVES(ptxpack_append(t, x), join(&more, 0, more.count, true));
    strcpy(more.text[more.count++], "(7,(8))");
    GIVES(ptxpack_append_to(t, more.count, x), join(&more, 0, more.count, true));
    int   picked[3] = {draw(m->count), draw(m->count), draw(m->count)};
    modes chosen = {.count = 3};
    for (int i = 0; i < 3; i++)
        strcpy(chosen.text[i], m->text[picked[i]]);
    GIVES(ptxpack_select(t, 3, picked), join(&chosen, 0, 3, true));
}

static void check_splices(const char *text, const modes *m)
{
    const tuple *t = T(text), *x = T("(7,(8))");
    int          at = draw(m->count);
    modes        other = *m;
    strcpy(other.text[at], "(7,(8))");
    GIVES(ptxpack_replace(t, at, x), is_leaf(text) ? "(7,(8))" : join(&other, 0, other.count, true));
    if (is_leaf(text))
        return;
    modes fewer = *m;
    for (int i = at; i + 1 < m->count; i++)
        strcpy(fewer.text[i], m->text[i + 1]);
    GIVES(ptxpack_remove(t, at), join(&fewer, 0, m->count - 1, true));
    tuple removed = ptxpack_remove(t, at);
    GIVES(ptxpack_insert(&removed, at, T(m->text[at])), text);
    tuple cut = ptxpack_take(t, at, -1), front = ptxpack_take(t, 0, at);
    for (int i = 0; i < at; i++)
        cut = ptxpack_prepend(&cut, keep(ptxpack_get(&front, at - 1 - i)));
    GIVES(cut, text);
}

static int text_depth(const char *text)
{
    int depth = 0, deepest = 0;
    for (; *text; text++) {
        depth += (*text == '(') - (*text == ')');
        deepest = depth > deepest ? depth : deepest;
    }
    return deepest;
}

static void test_structure_random(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const char  *text = random_text(4, 9, 30);
        const tuple *t = T(text);
        modes        m = split(text);
        GIVES(*t, text);
        assert_int_equal(ptxpack_rank(t), m.count);
        assert_int_equal(ptxpack_depth(t), text_depth(text));
        check_modes(text, &m);
        check_splices(text, &m);
        int64_t v[BIG];
        int     count = numbers(text, v);
        tuple   flat = ptxpack_flatten_to_tuple(t), same = ptxpack_tuple_of(count, v);
        assert_true(ptxpack_tuple_equal(&flat, &same));
        GIVES(ptxpack_unflatten(&flat, t), text);
        assert_int_equal(value(ptxpack_front(t)), v[0]);
        assert_int_equal(value(ptxpack_back(t)), v[count - 1]);
        tuple ones = ptxpack_repeat_like(t, T("1")), twos = ptxpack_repeat_like(&ones, T("(2,3)"));
        assert_true(ptxpack_congruent(&ones, t) && ptxpack_weakly_congruent(t, &twos));
        assert_false(ptxpack_congruent(&twos, t) || ptxpack_weakly_congruent(&twos, t));
        assert_int_equal(value(ptxpack_product(&ones)), 1);
        assert_int_equal(twos.items, 2 * count);
    }
}

/* zip and zip2_by put every item at the place that the definition says. */
static void test_zip_random(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        int   rows = 1 + draw(4), columns = 1 + draw(4);
        tuple grid = ptxpack_tuple_of(0, NULL), guide = grid;
        for (int i = 0; i < rows; i++) {
            tuple row = grid;
            row = ptxpack_tuple_of(0, NULL);
            for (int j = 0; j < columns; j++)
                row = ptxpack_append(&row, T(random_text(2, 2, 9)));
            grid = ptxpack_append(&grid, &row);
            guide = ptxpack_append(&guide, T("0"));
        }
        tuple zipped = ptxpack_zip(&grid), again = ptxpack_zip(&zipped);
        assert_int_equal(ptxpack_rank(&zipped), columns);
        assert_true(ptxpack_tuple_equal(&again, &grid));
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < columns; j++) {
                tuple a = ptxpack_get(keep(ptxpack_get(&grid, i)), j);
                tuple b = ptxpack_get(keep(ptxpack_get(&zipped, j)), i);
                assert_true(ptxpack_tuple_equal(&a, &b));
            }
        tuple by = ptxpack_zip2_by(&grid, &guide);
        if (columns == 2)
            assert_true(ptxpack_tuple_equal(&by, &zipped));
        else
            assert_int_equal(by.status, PTXPACK_E_ARG);
    }
}

/* ---- every error ------------------------------------------------------------------------------------- */
static void test_no_structure(void **state)
{
    (void)state;
    const int64_t many[33] = {0};
    const tuple  *t = T("(4,(2,3))");
    FAILS(ptxpack_tuple_of(33, many), "tuple_of: 33 integers");
    FAILS(ptxpack_tuple_of(-1, many), "tuple_of: -1 integers");
    FAILS(ptxpack_tuple_join(33, t), "tuple_join: 33 modes");
    FAILS(ptxpack_basis(1, 9, at(0, 0)), "basis: a path of 9 modes");
    FAILS(ptxpack_basis(1, 1, at(32, 0)), "basis: mode 32");
    FAILS(ptxpack_basis(1, 1, at(-1, 0)), "basis: mode -1");
    FAILS(ptxpack_get(t, 2), "get: mode 2 of (4,(2,3)), which has 2");
    FAILS(ptxpack_get(t, -1), "get: mode -1");
    FAILS(ptxpack_get(T("7"), 1), "get: mode 1 of 7, which has 1");
    FAILS(ptxpack_get(T("()"), 0), "get: mode 0 of (), which has 0");
    FAILS(ptxpack_basis_get(T("_"), t), "basis_get: _ is not a basis");
    FAILS(ptxpack_basis_get(T("1@5"), t), "basis_get: (4,(2,3)) has no mode 1@5");
    FAILS(ptxpack_front(T("((),1)")), "front: () in ((),1)");
    FAILS(ptxpack_back(T("()")), "back: () in ()");
    FAILS(ptxpack_unflatten(T("(1,2)"), t), "unflatten: (1,2) has 2 modes for the 3 leaves of (4,(2,3))");
    FAILS(ptxpack_take(t, 1, 3), "take: modes 1 to 3 of (4,(2,3)), which has 2");
    FAILS(ptxpack_take(t, 2, 1), "take: modes 2 to 1");
    FAILS(ptxpack_take(t, 0, -2), "take: modes 0 to -2");
    FAILS(ptxpack_group(t, -1, 1), "group: modes -1 to 1");
    FAILS(ptxpack_select(t, 1, at(2, 0)), "select: mode 2");
    FAILS(ptxpack_select(t, 33, at(0, 0)), "select: 33 modes");
    FAILS(ptxpack_append_to(t, 1, t), "append: (4,(2,3)) to rank 1; its rank is 2");
    FAILS(ptxpack_prepend_to(t, 33, t), "prepend: (4,(2,3)) to rank 33");
    FAILS(ptxpack_insert(T("4"), 0, t), "insert: 4 is not a tuple");
    FAILS(ptxpack_insert(t, 3, t), "insert: mode 3");
    FAILS(ptxpack_remove(T("4"), 0), "remove: 4 is not a tuple");
    FAILS(ptxpack_remove(t, 2), "remove: mode 2");
    FAILS(ptxpack_replace(t, 2, t), "replace: mode 2");
    FAILS(ptxpack_repeat(t, -1), "repeat: (4,(2,3)) -1 times");
    FAILS(ptxpack_repeat(t, 33), "repeat: (4,(2,3)) 33 times");
    FAILS(ptxpack_zip(T("()")), "zip: ()");
    FAILS(ptxpack_zip(T("((1,2),3)")), "zip: the modes (1,2) and 3");
    FAILS(ptxpack_zip(T("((1,2),(3,4,5))")), "zip: the modes (1,2) and (3,4,5)");
    FAILS(ptxpack_zip2_by(T("((1,2),(3,4,5))"), T("(0,0)")), "zip2_by: (3,4,5) of ((1,2),(3,4,5))");
    FAILS(ptxpack_zip2_by(T("((1,2),3)"), T("(0,0,0)")), "zip2_by: ((1,2),3) has fewer modes");
    FAILS(ptxpack_zip2_by(T("7"), T("(0)")), "zip2_by: 7 has fewer modes");
}

/* 32 items and 8 parentheses are possible, one more is not. */
static void test_limits(void **state)
{
    (void)state;
    int64_t v[32];
    for (int i = 0; i < 32; i++)
        v[i] = i + 1;
    tuple full = ptxpack_tuple_of(32, v), deep = ptxpack_int(7), hollow = ptxpack_tuple_of(0, NULL);
    assert_int_equal(value(ptxpack_get(&full, 31)), 32);
    FAILS(ptxpack_append(&full, T("1")), "more than 32 items");
    FAILS(ptxpack_prepend(&full, T("()")), "more than 32 items");
    FAILS(ptxpack_repeat(T("(1,2)"), 17), "more than 32 items");
    FAILS(ptxpack_repeat_like(&full, T("(1,2)")), "more than 32 items");
    assert_int_equal(ptxpack_make_basis_like(&full).kind[31], 32);
    for (int i = 0; i < 8; i++)
        deep = ptxpack_tuple_join(1, &deep);
    GIVES(deep, "((((((((7))))))))");
    assert_int_equal(ptxpack_depth(&deep), 8);
    FAILS(ptxpack_tuple_join(1, &deep), "nested more than 8 deep");
    FAILS(ptxpack_group(&deep, 0, 1), "nested more than 8 deep");
    for (int i = 0; i < 7; i++)
        hollow = ptxpack_tuple_join(1, &hollow);
    assert_int_equal(ptxpack_depth(&hollow), 8);
    FAILS(ptxpack_tuple_join(1, &hollow), "nested more than 8 deep");
    tuple basis = ptxpack_make_basis_like(&deep), index = ptxpack_crd2idx(T("5"), &deep, &basis);
    tuple path = ptxpack_as_arithmetic_tuple(&index);
    GIVES(path, "((((((((5))))))))");
    tuple pair[] = {index, index}, both = ptxpack_tuple_join(2, pair);
    GIVES(ptxpack_sum(&both), "((((((((10))))))))");
    tuple far = ptxpack_basis(1, 2, at(31, 1)); /* 31 zeros, then (0,1): 33 items */
    FAILS(ptxpack_as_arithmetic_tuple(&far), "more than 32 items");
}

/* An argument's error is passed on, and the first line stays. */
static void test_handed_on(void **state)
{
    (void)state;
    tuple        bad = ptxpack_get(T("7"), 5), pair[] = {ptxpack_int(1), bad}, good = ptxpack_int(2);
    const char  *line = "get: mode 5 of 7";
    const tuple *b = &bad, *g = &good;
    /* clang-format off */
    tuple (*const one[])(const tuple *) = {
        ptxpack_flatten, ptxpack_flatten_to_tuple, ptxpack_wrap, ptxpack_unwrap, ptxpack_front, ptxpack_back,
        ptxpack_reverse, ptxpack_zip, ptxpack_product, ptxpack_product_each, ptxpack_sum, ptxpack_max, ptxpack_min,
        ptxpack_gcd, ptxpack_abs, ptxpack_signum, ptxpack_as_arithmetic_tuple, ptxpack_make_basis_like};
    tuple (*const two[])(const tuple *, const tuple *) = {
        ptxpack_unflatten, ptxpack_append, ptxpack_prepend, ptxpack_repeat_like, ptxpack_zip2_by, ptxpack_basis_get,
        ptxpack_product_like, ptxpack_inner_product, ptxpack_elem_scale, ptxpack_ceil_div, ptxpack_round_up,
        ptxpack_shape_div, ptxpack_filter_zeros_by, ptxpack_crd2idx_compact, ptxpack_idx2crd_compact,
        ptxpack_compact_col_major, ptxpack_compact_row_major, ptxpack_compact_order, ptxpack_increment,
        ptxpack_tuple_slice, ptxpack_tuple_dice};
    tuple (*const three[])(const tuple *, const tuple *, const tuple *) = {
        ptxpack_crd2idx, ptxpack_idx2crd, ptxpack_crd2crd};
    bool (*const asked[])(const tuple *, const tuple *) = {
        ptxpack_tuple_equal, ptxpack_congruent, ptxpack_weakly_congruent, ptxpack_compatible, ptxpack_evenly_divides,
        ptxpack_lex_less, ptxpack_colex_less, ptxpack_elem_less};
    /* clang-format on */
    for (size_t i = 0; i < sizeof one / sizeof *one; i++)
        FAILS(one[i](b), line);
    for (size_t i = 0; i < sizeof two / sizeof *two; i++) {
        FAILS(two[i](b, g), line);
        FAILS(two[i](g, b), line);
    }
    for (size_t i = 0; i < sizeof three / sizeof *three; i++) {
        FAILS(three[i](b, g, g), line);
        FAILS(three[i](g, b, g), line);
        FAILS(three[i](g, g, b), line);
    }
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
        assert_false(asked[i](b, g) || asked[i](g, b) || asked[i](b, b));
    FAILS(ptxpack_tuple_join(2, pair), line);
    FAILS(ptxpack_get(b, 0), line);
    FAILS(ptxpack_take(b, 0, 1), line);
    FAILS(ptxpack_group(b, 0, 1), line);
    FAILS(ptxpack_select(b, 0, NULL), line);
    FAILS(ptxpack_append_to(b, 3, g), line);
    FAILS(ptxpack_prepend_to(g, 3, b), line);
    FAILS(ptxpack_insert(T("(1)"), 0, b), line);
    FAILS(ptxpack_remove(b, 0), line);
    FAILS(ptxpack_replace(g, 0, b), line);
    FAILS(ptxpack_repeat(b, 3), line);
    FAILS(ptxpack_transform(b, refuse, NULL), line);
    FAILS(ptxpack_transform_leaf(b, refuse, NULL), line);
    FAILS(ptxpack_fold(b, g, append_two, NULL), line);
    assert_true(!ptxpack_is_tuple(b) && ptxpack_rank(b) == 0 && ptxpack_depth(b) == 0 &&
                !ptxpack_has_underscore(b));
}

/* ---- speed ------------------------------------------------------------------------------------------ */
static volatile int sink; /* results go here, so that the calls are made */

static double nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* Prints the best time of several runs; it is far above the expected time only if something is wrong. */
#define TIMED(call)                                       \
    do {                                                  \
        double best = 1e9;                                \
        for (int run = 0; run < 7; run++) {               \
            double begin = nanoseconds();                 \
            for (int i = 0; i < 2000; i++) {              \
                tuple t = call;                           \
                sink += t.items;                          \
            }                                             \
            double each = (nanoseconds() - begin) / 2000; \
            best = each < best ? each : best;             \
        }                                                 \
        print_message("%7.1f ns  %s\n", best, #call);     \
        assert_true(best < 5000);                         \
    } while (0)

static void test_speed(void **state)
{
    (void)state;
    tuple s = *T("(4,(2,3),8)"), c = *T("(1,(1,2),5)"), d = *T("(1,(4,8),24)"), n = *T("77"), x = *T("6");
    tuple basis = ptxpack_make_basis_like(&s), order = *T("(2,0,1)"), cut = *T("(_,(1,_),2)");
    TIMED(ptxpack_int(5));
    TIMED(ptxpack_get(&s, 1));
    TIMED(ptxpack_flatten(&s));
    TIMED(ptxpack_append(&s, &x));
    TIMED(ptxpack_group(&s, 1, 3));
    TIMED(ptxpack_product(&s));
    TIMED(ptxpack_product_each(&s));
    TIMED(ptxpack_ceil_div(&s, &x));
    TIMED(ptxpack_elem_scale(&s, &c));
    TIMED(ptxpack_crd2idx(&c, &s, &d));
    TIMED(ptxpack_crd2idx(&n, &s, &d));
    TIMED(ptxpack_crd2idx(&n, &s, &basis));
    TIMED(ptxpack_idx2crd_compact(&n, &s));
    TIMED(ptxpack_idx2crd(&n, &s, &d));
    TIMED(ptxpack_compact_col_major(&s, NULL));
    TIMED(ptxpack_compact_order(&s, &order));
    TIMED(ptxpack_make_basis_like(&s));
    TIMED(ptxpack_increment(&c, &s));
    TIMED(ptxpack_tuple_slice(&cut, &s));
    tuple pairs = *T("((1,2),(3,4))"), guide = *T("(0,0)");
    TIMED(ptxpack_zip2_by(&pairs, &guide));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_structure_facts),  cmocka_unit_test(test_callbacks),
        cmocka_unit_test(test_structure_random), cmocka_unit_test(test_zip_random),
        cmocka_unit_test(test_no_structure),     cmocka_unit_test(test_limits),
        cmocka_unit_test(test_handed_on),        cmocka_unit_test(test_speed),
    };
    return cmocka_run_group_tests(tests, print_seed, NULL);
}
