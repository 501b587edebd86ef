/* coord.c - coordinates and compact strides: facts of CuTe, brute force, every error. */
#include "tuple_fixture.h"

/* ---- facts ---------------------------------------------------------------------------------------- */
/* The results of CuTe 4.7 with static integers. */
static void test_coordinate_facts(void **state)
{
    (void)state;
    GIVES(ptxpack_crd2idx(T("3"), T("4"), T("1@0")), "3@0");
    GIVES(ptxpack_crd2idx(T("(3)"), T("(4)"), T("(1@2)")), "3@2");
    GIVES(ptxpack_crd2idx(T("(3,2)"), T("(4,4)"), T("(1@0,1@0)")), "(5)");
    GIVES(ptxpack_crd2idx(T("(0,0)"), T("(4,4)"), T("(1@0,1@1)")), "(0,0)");
    GIVES(ptxpack_crd2idx(T("(_,2)"), T("(4,4)"), T("(1,4)")), "8");
    GIVES(ptxpack_crd2idx(T("9"), T("(4,1)"), T("(1,0)")), "1");
    GIVES(ptxpack_crd2idx(T("23"), T("(4,2)"), T("(1,10)")), "53");
    GIVES(ptxpack_crd2idx_compact(T("(3,(1,2))"), T("((2,2),(2,3))")), "23");
    GIVES(ptxpack_crd2idx_compact(T("77"), T("(2,3)")), "77");
    GIVES(ptxpack_idx2crd_compact(T("47"), T("(2,(3,1))")), "(1,(2,7))");
    GIVES(ptxpack_idx2crd_compact(T("(3,4)"), T("((2,2),9)")), "((1,1),4)");
    GIVES(ptxpack_idx2crd_compact(T("9"), T("4")), "9");
    GIVES(ptxpack_idx2crd(T("5"), T("(2,(3,4))"), T("1")), "(1,(2,0))");
    GIVES(ptxpack_idx2crd(T("(1,13)"), T("(2,(3,4))"), T("(1,2)")), "(1,(0,2))");
    GIVES(ptxpack_idx2crd(T("7"), T("(1,4)"), T("(0,2)")), "(0,3)");
    GIVES(ptxpack_idx2crd(T("9"), T("4"), T("1")), "1");
    GIVES(ptxpack_compact_col_major(T("(2,1,(3,4))"), T("7")), "(7,0,(14,42))");
    GIVES(ptxpack_compact_col_major(T("(2,(3,4))"), T("(5,7)")), "(5,(7,21))");
    GIVES(ptxpack_compact_row_major(T("(2,1,(3,4))"), NULL), "(12,0,(4,1))");
    GIVES(ptxpack_compact_order(T("(2,(3,4),5)"), T("(3,2,1)")), "(60,(5,15),1)");
    GIVES(ptxpack_compact_order(T("(2,(3,4),5)"), T("(3,(4,9),1)")), "(5,(10,30),1)");
    GIVES(ptxpack_compact_order(T("(2,1,1)"), T("(3,3,3)")), "(1,0,0)");
    GIVES(ptxpack_compact_order(T("(2,3)"), T("9")), "(1,2)");
    GIVES(ptxpack_make_basis_like(T("(4,8)")), "(1@0,1@1)");
    GIVES(ptxpack_make_basis_like(T("4")), "1");
    GIVES(ptxpack_crd2crd(T("(3,2)"), T("(4,6)"), T("((2,2),(3,2))")), "((1,1),(2,0))");
    GIVES(ptxpack_crd2crd(T("(3,2)"), T("(4,6)"), T("24")), "11");
    GIVES(ptxpack_increment(T("(1,(2,0))"), T("(2,(3,4))")), "(0,(0,1))");
    GIVES(ptxpack_increment(T("(1,(2,3))"), T("(2,(3,4))")), "(0,(0,4))");
    GIVES(ptxpack_increment(T("3"), T("4")), "4");
}

/* Paths: the first mode given is the outermost one. */
static void test_basis(void **state)
{
    (void)state;
    int   into[] = {1, 0};
    tuple b = ptxpack_basis(5, 2, into), b0 = ptxpack_basis(2, 1, at(0, 0)), pair[] = {b, b0};
    tuple joined = ptxpack_tuple_join(2, pair);
    GIVES(ptxpack_as_arithmetic_tuple(&b), "(0,(5))");
    GIVES(ptxpack_sum(&joined), "(2,(5))");
    GIVES(ptxpack_basis_get(&b, T("(7,(8,9))")), "8");
    GIVES(ptxpack_basis_get(T("1"), T("(7,8)")), "(7,8)");
    GIVES(ptxpack_basis(4, 0, NULL), "4");
    tuple like = ptxpack_make_basis_like(T("(4,(2,3))")), mode = ptxpack_get(&like, 1);
    tuple leaf = ptxpack_get(&mode, 1), expected = ptxpack_basis(1, 2, at(1, 1));
    assert_true(ptxpack_tuple_equal(&leaf, &expected));
    assert_false(ptxpack_tuple_equal(&leaf, T("1")));
}

/* ---- coordinates, by brute force ---------------------------------------------------------------------- */
/* Replaces some nested modes of c by one integer that counts through them. */
static tuple collapse(const tuple *c, const tuple *shape)
{
    if (!ptxpack_is_tuple(c))
        return *c;
    if (draw(3) == 0)
        return ptxpack_crd2idx_compact(c, shape);
    tuple out = ptxpack_tuple_of(0, NULL);
    for (int i = 0; i < ptxpack_rank(c); i++) {
        tuple part = ptxpack_get(c, i), extent = ptxpack_get(shape, i), less = collapse(&part, &extent);
        out = ptxpack_append(&out, &less);
    }
    return out;
}

static tuple small_shape(void)
{
    for (;;) {
        tuple s = *T(random_text(3, 6, 5));
        if (value(ptxpack_product(&s)) <= 400)
            return s;
    }
}

/* Checks everything that must hold for one index of a shape. */
static void check_index(int64_t i, const tuple *shape, const tuple *stride, const tuple *basis)
{
    const tuple *index = keep(ptxpack_int(i));
    tuple        crd = ptxpack_idx2crd_compact(index, shape);
    assert_true(ptxpack_congruent(&crd, shape));
    int64_t offset = 0, run = 1, expected = 0;
    for (int k = 0; k < crd.items; k++) {
        assert_true(0 <= crd.value[k] && crd.value[k] < shape->value[k]);
        expected += crd.value[k] * run;
        run *= shape->value[k];
        offset += crd.value[k] * stride->value[k];
    }
    assert_int_equal(expected, i);
    assert_int_equal(value(ptxpack_crd2idx_compact(&crd, shape)), i);
    assert_int_equal(value(ptxpack_crd2idx(&crd, shape, stride)), offset);
    assert_int_equal(value(ptxpack_crd2idx(index, shape, stride)), offset);
    tuple less = collapse(&crd, shape), spread = ptxpack_idx2crd_compact(&less, shape);
    assert_int_equal(value(ptxpack_crd2idx(&less, shape, stride)), offset);
    assert_int_equal(value(ptxpack_crd2idx_compact(&less, shape)), i);
    assert_true(ptxpack_tuple_equal(&spread, &crd));
    tuple stepped = ptxpack_crd2idx(index, shape, basis);
    tuple lifted = ptxpack_as_arithmetic_tuple(&stepped);
    assert_true(ptxpack_tuple_equal(&lifted, &crd));
}

static void test_coordinates_random(void **state)
{
    (void)state;
    for (int round = 0; round < 300; round++) {
        tuple fresh = small_shape(), *shape = &fresh, stride = fresh, basis = ptxpack_make_basis_like(shape);
        for (int k = 0; k < shape->items; k++)
            stride.value[k] = draw(100) - 30;
        int64_t size = value(ptxpack_product(shape));
        tuple   crd = ptxpack_idx2crd_compact(T("0"), shape);
        for (int64_t i = 0; i < size; i++) {
            check_index(i, shape, &stride, &basis);
            tuple here = ptxpack_idx2crd_compact(keep(ptxpack_int(i)), shape);
            assert_true(ptxpack_tuple_equal(&crd, &here));
            tuple next = ptxpack_increment(&crd, shape);
            assert_true(ptxpack_colex_less(&crd, &next) && !ptxpack_colex_less(&next, &crd));
            crd = next;
        }
        /* Beyond the end the last mode continues. */
        GIVES(crd, text_of(ptxpack_idx2crd_compact(keep(ptxpack_int(size)), shape)));
    }
}

/* Checks that strides fill [0, size) without gaps, in the stated order. */
static void check_filling(const tuple *shape, const tuple *stride)
{
    static bool seen[512];
    int64_t     size = value(ptxpack_product(shape));
    memset(seen, 0, sizeof seen);
    for (int64_t i = 0; i < size; i++) {
        const tuple *index = keep(ptxpack_int(i));
        int64_t      at = value(ptxpack_crd2idx(index, shape, stride));
        assert_true(0 <= at && at < size && !seen[at]);
        seen[at] = true;
        tuple crd = ptxpack_idx2crd(keep(ptxpack_int(at)), shape, stride);
        assert_int_equal(value(ptxpack_crd2idx_compact(&crd, shape)), i);
    }
}

static void test_compact_random(void **state)
{
    (void)state;
    for (int round = 0; round < 500; round++) {
        tuple fresh = small_shape(), *shape = &fresh;
        tuple left = ptxpack_compact_col_major(shape, NULL), right = ptxpack_compact_row_major(shape, NULL);
        check_filling(shape, &left);
        check_filling(shape, &right);
        int     rank = ptxpack_rank(shape), order[BIG];
        int64_t run = 1;
        for (int i = 0; i < rank; i++)
            order[i] = i;
        for (int i = rank - 1; i > 0; i--) {
            int j = draw(i + 1), swap = order[i];
            order[i] = order[j];
            order[j] = swap;
        }
        tuple by = *keep(ptxpack_tuple_of(0, NULL));
        for (int i = 0; i < rank; i++)
            by = ptxpack_append(&by, keep(ptxpack_int(3 * order[i] - 4)));
        if (!ptxpack_is_tuple(shape))
            by = ptxpack_int(5);
        tuple stride = ptxpack_compact_order(shape, &by);
        check_filling(shape, &stride);
        for (int step = 0; step < rank; step++) /* the modes, fastest first, start where the last one ended */
            for (int i = 0; i < rank; i++)
                if (order[i] == step) {
                    tuple part = ptxpack_get(shape, i), start = ptxpack_int(run);
                    GIVES(ptxpack_get(&stride, i), text_of(ptxpack_compact_col_major(&part, &start)));
                    run *= value(ptxpack_product(&part));
                }
        for (int i = 0; i < 30;
             i++) { /* the last mode is fastest where coordinates compare lexicographically */
            tuple a = ptxpack_idx2crd_compact(keep(ptxpack_int(draw((int)run))), shape);
            tuple b = ptxpack_idx2crd_compact(keep(ptxpack_int(draw((int)run))), shape);
            assert_int_equal(ptxpack_lex_less(&a, &b), value(ptxpack_crd2idx(&a, shape, &right)) <
                                                           value(ptxpack_crd2idx(&b, shape, &right)));
            assert_int_equal(ptxpack_colex_less(&a, &b), value(ptxpack_crd2idx(&a, shape, &left)) <
                                                             value(ptxpack_crd2idx(&b, shape, &left)));
            bool every = true;
            for (int k = 0; k < a.items; k++)
                every = every && a.value[k] < b.value[k];
            assert_int_equal(ptxpack_elem_less(&a, &b), every);
        }
    }
}

/* Basis strides along random paths: each place of the result is the sum of the steps that lead there. */
static void test_basis_random(void **state)
{
    static const int paths[5][2] = {{0, -1}, {1, 0}, {1, 2}, {2, -1}, {3, 1}};
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t sums[5] = {0}, crds[6];
        int     count = 2 + draw(4), used = 0;
        tuple   shape = ptxpack_tuple_of(0, NULL), stride = shape;
        for (int i = 0; i < count; i++) {
            int path = draw(5), step = 1 + draw(9);
            crds[i] = draw(20);
            sums[path] += crds[i] * step;
            used |= 1 << path;
            tuple b = ptxpack_basis(step, paths[path][1] < 0 ? 1 : 2, paths[path]);
            shape = ptxpack_append(&shape, T("20"));
            stride = ptxpack_append(&stride, &b);
        }
        tuple crd = ptxpack_tuple_of(count, crds), index = ptxpack_crd2idx(&crd, &shape, &stride);
        assert_int_equal(index.status, PTXPACK_OK);
        assert_true(ptxpack_is_tuple(&index));
        for (int p = 0; p < 5; p++)
            if (used >> p & 1) {
                tuple b = ptxpack_basis(1, paths[p][1] < 0 ? 1 : 2, paths[p]);
                assert_int_equal(value(ptxpack_basis_get(&b, &index)), sums[p]);
            }
        int64_t total = 0;
        for (int p = 0; p < 5; p++)
            total += sums[p];
        assert_int_equal(value(ptxpack_sum(&index)), total); /* and nothing else */
    }
}

/* A coordinate with `_` here and there, what slice keeps and what dice keeps, as text. */
static void random_cut(const char *text, char *coord, modes *kept, modes *cut)
{
    modes m = split(text);
    if (is_leaf(text) || draw(3) == 0) {
        bool keeps = draw(2) == 0;
        strcat(coord, keeps ? "_" : "3");
        modes *to = keeps ? kept : cut;
        strcpy(to->text[to->count++], text);
        return;
    }
    strcat(coord, "(");
    for (int i = 0; i < m.count; i++) {
        if (i > 0)
            strcat(coord, ",");
        random_cut(m.text[i], coord, kept, cut);
    }
    strcat(coord, ")");
}

static void test_slice_random(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const char *text = random_text(4, 12, 30);
        char        coord[TEXT] = "";
        modes       kept = {.count = 0}, cut = {.count = 0};
        random_cut(text, coord, &kept, &cut);
        bool alone = is_leaf(coord);
        GIVES(ptxpack_tuple_slice(T(coord), T(text)), join(&kept, 0, kept.count, !alone || kept.count == 0));
        GIVES(ptxpack_tuple_dice(T(coord), T(text)), join(&cut, 0, cut.count, !alone || cut.count == 0));
    }
}

/* crd2crd keeps the index. */
static void test_crd2crd_random(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        tuple fresh = small_shape(), *from = &fresh;
        tuple to = ptxpack_flatten(from);
        to = draw(2) ? ptxpack_reverse(&to) : ptxpack_product(from);
        tuple index = ptxpack_int(draw((int)value(ptxpack_product(from))));
        tuple crd = ptxpack_idx2crd_compact(&index, from), there = ptxpack_crd2crd(&crd, from, &to);
        if (there.status == PTXPACK_OK && ptxpack_is_tuple(from) && ptxpack_is_tuple(&to)) {
            tuple back = ptxpack_crd2crd(&there, &to, from); /* mode by mode */
            assert_true(ptxpack_tuple_equal(&back, &crd));
        } else if (there.status == PTXPACK_OK) {
            assert_int_equal(value(ptxpack_crd2idx_compact(&there, &to)), index.value[0]);
        } else {
            assert_non_null(strstr(ptxpack_detail(NULL), "crd2crd: "));
        }
    }
}

/* ---- every error ------------------------------------------------------------------------------------- */
static void test_no_coordinates(void **state)
{
    (void)state;
    FAILS(ptxpack_crd2idx(T("1"), T("(2,3)"), T("(1,(2,3))")),
          "crd2idx: the shape (2,3) and the stride (1,(2,3))");
    FAILS(ptxpack_crd2idx(T("(1,(2,3))"), T("(2,3)"), T("(1,2)")),
          "crd2idx: the coordinate (2,3) for the extent 3");
    FAILS(ptxpack_crd2idx(T("(1,2,3)"), T("(2,3)"), T("(1,2)")),
          "crd2idx: the coordinate (1,2,3) for the shape (2,3)");
    FAILS(ptxpack_crd2idx(T("1"), T("(0,3)"), T("(1,2)")), "crd2idx: an extent of the shape (0,3)");
    FAILS(ptxpack_crd2idx(T("1@0"), T("(2,3)"), T("(1,2)")), "crd2idx: 1@0 in the coordinate");
    FAILS(ptxpack_crd2idx(T("4"), T("5"), T(MAX)), "crd2idx: 4 in 5:" MAX " overflows 64 bits");
    FAILS(ptxpack_crd2idx(T("(2,2)"), T("(5,5)"), T("(" MAX "@0,1)")), "crd2idx: adding 2 times " MAX);
    FAILS(ptxpack_crd2idx(T("(2,2)"), T("(5,5)"), T("(1@0,1)")), "crd2idx: 2 and a basis value");
    FAILS(ptxpack_crd2idx_compact(T("(1,2)"), T("3")), "crd2idx: the coordinate (1,2) for the extent 3");
    FAILS(ptxpack_crd2idx_compact(T("(1,2," MAX ")"), T("(4,5,6)")),
          "crd2idx: (1,2," MAX ") in (4,5,6) overflows");
    FAILS(ptxpack_idx2crd_compact(T("(1,2)"), T("3")), "idx2crd: the coordinate (1,2) for the extent 3");
    FAILS(ptxpack_idx2crd_compact(T("7"), T("(-2,3)")), "idx2crd: an extent of the shape (-2,3)");
    FAILS(ptxpack_idx2crd(T("7"), T("(2,3)"), T("(1,0)")), "idx2crd: the index 7 in 3:0 has no coordinate");
    FAILS(ptxpack_idx2crd(T("7"), T("0"), T("1")), "idx2crd: the index 7 in 0:1");
    FAILS(ptxpack_idx2crd(T("-9223372036854775808"), T("3"), T("-1")),
          "idx2crd: the index -9223372036854775808");
    FAILS(ptxpack_idx2crd(T("_"), T("3"), T("1")), "idx2crd: the index _");
    FAILS(ptxpack_idx2crd(T("(1,2)"), T("3"), T("1")), "idx2crd: (1,2) with the stride 1 for the extent 3");
    FAILS(ptxpack_idx2crd(T("1"), T("3"), T("(1)")), "idx2crd: 1 with the stride (1) for the extent 3");
    FAILS(ptxpack_idx2crd(T("(1,2)"), T("(3,4,5)"), T("(1,3,12)")), "idx2crd: (1,2), the shape (3,4,5)");
    FAILS(ptxpack_idx2crd(T("1"), T("(3,4)"), T("(1,3,12)")), "idx2crd: 1, the shape (3,4) and the stride");
    FAILS(ptxpack_idx2crd(T("1"), T("(3,4,5)"), T(MAX)), "compact_col_major: the size of the shape (3,4,5)");
    FAILS(ptxpack_crd2crd(T("(1,2)"), T("(3,4)"), T("(12)")), "crd2crd: (1,2) from (3,4) to (12)");
    FAILS(ptxpack_crd2crd(T("1"), T("(3,4)"), T("13")), "crd2crd: the shapes (3,4) and 13 differ in size");
    FAILS(ptxpack_crd2crd(T("((1,2),1)"), T("(12,1)"), T("(12,1)")), "crd2idx: the coordinate (1,2)");
    FAILS(ptxpack_increment(T("(1,2)"), T("(3,(4,5))")),
          "increment: the coordinate (1,2) and the shape (3,(4,5))");
    FAILS(ptxpack_increment(T(MAX), T("3")), "increment: the coordinate " MAX " has no next");
    FAILS(ptxpack_increment(T("_"), T("3")), "increment: the coordinate _");
    FAILS(ptxpack_tuple_slice(T("(1,_)"), T("(1,2,3)")), "slice: the coordinate (1,_) for (1,2,3)");
    FAILS(ptxpack_tuple_slice(T("(_)"), T("3")), "slice: the coordinate (_) for 3");
    FAILS(ptxpack_tuple_dice(T("(1,(_,_))"), T("(1,2)")), "dice: the coordinate (_,_) for 2");
}

static void test_no_compact(void **state)
{
    (void)state;
    FAILS(ptxpack_compact_col_major(T("(" MAX ",2,3)"), NULL), "compact_col_major: the size of the shape");
    GIVES(ptxpack_compact_col_major(T("(" MAX ",2,1)"), NULL), "(1," MAX ",0)"); /* as far as needed */
    FAILS(ptxpack_compact_row_major(T("(3,2," MAX ")"), NULL), "compact_row_major: the size of the shape");
    FAILS(ptxpack_compact_col_major(T("(2,_)"), NULL), "compact_col_major: an extent of the shape (2,_)");
    FAILS(ptxpack_compact_col_major(T("(2,3)"), T("_")), "compact_col_major: the first stride _");
    FAILS(ptxpack_compact_col_major(T("(2,3)"), T("(1,2,3)")),
          "compact_col_major: the shape (2,3) and the first");
    FAILS(ptxpack_compact_row_major(T("2"), T("(1)")),
          "compact_row_major: the shape 2 and the first strides (1)");
    FAILS(ptxpack_compact_order(T("(2,3)"), T("(1,1)")),
          "compact_order: 1 stands twice in the order (1,1) of (2,3)");
    FAILS(ptxpack_compact_order(T("(2,3)"), T("(1,2,3)")),
          "compact_order: the shape (2,3) and the order (1,2,3)");
    FAILS(ptxpack_compact_order(T("(2,3)"), T("(1,_)")), "compact_order: the order _ of 3 is not an integer");
    FAILS(ptxpack_compact_order(T("((" MAX ",2),3)"), T("(1,2)")),
          "compact_order: the size of (" MAX ",2) overflows");
    FAILS(ptxpack_compact_order(T("(" MAX ",2,3)"), T("(1,2,3)")), "compact_order: the size of");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_coordinate_facts),   cmocka_unit_test(test_basis),
        cmocka_unit_test(test_coordinates_random), cmocka_unit_test(test_compact_random),
        cmocka_unit_test(test_basis_random),       cmocka_unit_test(test_slice_random),
        cmocka_unit_test(test_crd2crd_random),     cmocka_unit_test(test_no_coordinates),
        cmocka_unit_test(test_no_compact),
    };
    return cmocka_run_group_tests(tests, print_seed, NULL);
}
