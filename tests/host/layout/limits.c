/* limits.c - layouts of 32 items, nested 8 deep, and offsets at the end of 64 bits: results are right, or
 * refused. */
#include "algebra_fixture.h"

__extension__ typedef __int128 wide;

/* The offset of l at i as it would be without a limit. */
static wide exact_at(const layout *l, int64_t i)
{
    wide sum = 0;
    for (int k = 0; k < l->shape.items; k++) {
        int64_t extent = l->shape.value[k];
        sum += (wide)(k + 1 < l->shape.items ? i % extent : i) * l->stride.value[k];
        i /= extent;
    }
    return sum;
}

static int64_t huge(void)
{
    /* clang-format off */
    static const int64_t big = (int64_t)1 << 62;
    const int64_t some[] = {1, 2, 3, 4, 0, -1, 1 << 20, (int64_t)1 << 40, (int64_t)3 << 40, big / 2, big, INT64_MAX,
                            INT64_MAX / 2, INT64_MAX / 3, INT64_MIN + 1, INT64_MIN, -big};
    /* clang-format on */
    return draw(6) == 0 ? (int64_t)random_bits() : some[draw(sizeof some / sizeof *some)];
}

/* Makes a layout of any numbers: most of these are not valid. */
static bool random_huge(layout *out)
{
    flat    f = {.count = 1 + draw(4)};
    int64_t rest = INT64_MAX;
    char    text[2 * TEXT] = "", stride[TEXT] = "";
    for (int k = 0; k < f.count; k++) {
        f.shape[k] = draw(3) ? 1 + draw(8) : huge();
        f.shape[k] = draw(8) && (f.shape[k] < 1 || f.shape[k] > rest) ? 2 : f.shape[k];
        rest /= f.shape[k] > 0 ? f.shape[k] : 1;
        f.stride[k] = draw(3) ? any_stride() : huge();
    }
    nest(&f, 0, f.count, 1 + draw(2), text, stride);
    *out = ptxpack_layout_parse(strcat(strcat(text, ":"), stride));
    if (!accepted(out))
        return false;
    wide size = 1, end = 1; /* an accepted layout fits */
    for (int k = 0; k < f.count; k++) {
        assert_true(f.shape[k] > 0);
        size *= f.shape[k];
        end += (wide)(f.shape[k] - 1) * (f.stride[k] < 0 ? -(wide)f.stride[k] : f.stride[k]);
    }
    assert_true(size <= INT64_MAX && end <= INT64_MAX);
    assert_true(ptxpack_size(out) == (int64_t)size && ptxpack_cosize(out) == (int64_t)end);
    return true;
}

/* Some indices of a layout, including its last one. */
static int64_t some_index(const layout *l, int n)
{
    int64_t size = ptxpack_size(l);
    return n == 0 ? 0 : n == 1 ? size - 1 : (int64_t)(random_bits() >> 1) % size;
}

static void check_fits(const layout *r, const char *what)
{
    if (!accepted(r))
        return;
    for (int n = 0; n < 4; n++) {
        int64_t i = some_index(r, n);
        wide    x = exact_at(r, i);
        if (ptxpack_size(r) < 1 || x < INT64_MIN || x > INT64_MAX ||
            (!r->composed && ptxpack_at(r, i) != (int64_t)x))
            fail_msg("%s: %s at %lld", what, text_of(r), (long long)i);
    }
}

static void check_same(const layout *r, const layout *l, const char *what)
{
    check_fits(r, what);
    for (int n = 0; ok(r) && n < 4; n++) {
        int64_t i = some_index(l, n);
        if (ptxpack_size(r) != ptxpack_size(l) || exact_at(r, i) != exact_at(l, i))
            fail_msg("%s of %s: %s at %lld", what, text_of(l), text_of(r), (long long)i);
    }
}

static void check_composed(const layout *a, const layout *b)
{
    layout r = ptxpack_composition(a, b);
    check_fits(&r, "composition");
    for (int n = 0; ok(&r) && n < 4; n++) {
        int64_t i = some_index(b, n);
        wide    x = exact_at(b, i), y = exact_at(a, (int64_t)x);
        if (x >= 0 && exact_at(&r, i) != y)
            fail_msg("composition(%s,%s) = %s at %lld", text_of(a), text_of(b), text_of(&r), (long long)i);
    }
}

static void check_inverses(const layout *l)
{
    layout r = ptxpack_right_inverse(l);
    check_fits(&r, "right_inverse");
    for (int n = 0; ok(&r) && n < 4; n++) {
        int64_t i = some_index(&r, n);
        assert_true(exact_at(l, (int64_t)exact_at(&r, i)) == i);
    }
    r = ptxpack_left_inverse(l);
    check_fits(&r, "left_inverse");
    for (int n = 0; ok(&r) && n < 4; n++) {
        wide x = exact_at(l, some_index(l, n)), back = exact_at(&r, (int64_t)x);
        if (back <= INT64_MAX && exact_at(l, (int64_t)back) != x) /* the last mode continues */
            fail_msg("left_inverse(%s) = %s", text_of(l), text_of(&r));
    }
}

static void check_others(const layout *a, const layout *b)
{
    static ptxpack_layout (*const calls[])(const layout *, const layout *) =
        {ptxpack_logical_divide,  ptxpack_zipped_divide,     ptxpack_flat_divide,
         ptxpack_logical_product, ptxpack_flat_product,      ptxpack_raked_product,
         ptxpack_blocked_product, ptxpack_max_common_layout, ptxpack_layout_append};
    tuple  n = ptxpack_int(huge()), at = ptxpack_int(huge());
    layout r;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        r = calls[i](a, b);
        check_fits(&r, "a division or product");
    }
    if (ptxpack_max_common_vector(a, b) < 0)
        fail_msg("max_common_vector(%s,%s)", text_of(a), text_of(b));
    r = ptxpack_complement(a, &n);
    check_fits(&r, "complement");
    r = ptxpack_complement(a, NULL);
    check_fits(&r, "complement");
    r = ptxpack_tile_to_shape(a, &b->shape, NULL);
    check_fits(&r, "tile_to_shape");
    r = ptxpack_upcast(a, n.value[0]);
    check_fits(&r, "upcast");
    r = ptxpack_downcast(a, n.value[0]);
    check_fits(&r, "downcast");
    r = ptxpack_recast_layout(a, n.value[0], at.value[0]);
    check_fits(&r, "recast_layout");
    r = ptxpack_nullspace(a);
    check_fits(&r, "nullspace");
    r = ptxpack_make_layout_like(a);
    check_fits(&r, "make_layout_like");
    ptxpack_slice s = ptxpack_domain_offset(&at, a);
    (void)ptxpack_slice_and_offset(&at, a);
    assert_true(s.layout.shape.status == PTXPACK_OK || ptxpack_detail(NULL)[0] != '\0');
    tuple x = ptxpack_layout_crd2idx(a, &at);
    if (x.status == PTXPACK_OK && !a->composed && (wide)x.value[0] != exact_at(a, at.value[0]))
        fail_msg("%s at %lld is %lld", text_of(a), (long long)at.value[0], (long long)x.value[0]);
}

static void test_overflow(void **state)
{
    int made = 0;
    (void)state;
    for (int round = 0; round < 8 * ROUNDS; round++) {
        layout a, b;
        if (!random_huge(&a) || !random_huge(&b))
            continue;
        made++;
        layout r = ptxpack_coalesce(&a, NULL);
        check_same(&r, &a, "coalesce");
        check_composed(&a, &b);
        check_inverses(&a);
        check_others(&a, &b);
        ptxpack_swizzle swizzle = {(int8_t)draw(9), (int8_t)(draw(70) - 4), (int8_t)(draw(140) - 70)};
        layout          c = ptxpack_make_composed(swizzle, huge(), &a);
        if (!accepted(&c))
            continue;
        check_others(&c, &b);
        check_others(&b, &c);
        (void)ptxpack_right_inverse(&c);
        (void)ptxpack_composition(&b, &c);
    }
    assert_in_range(made, ROUNDS, 8 * ROUNDS);
}

/* Tests 32 extents of 2, in any order, flat or nested as deep as allowed. */
static void test_many_items(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS / 4; round++) {
        flat f = {.count = PTXPACK_TUPLE_ITEMS};
        for (int k = 0; k < f.count; k++)
            f.shape[k] = 2;
        random_strides(&f, BIJECTIVE);
        const layout *l = nested(&f, 1 + draw(PTXPACK_TUPLE_DEPTH));
        layout        r = must(ptxpack_right_inverse(l)), back = must(ptxpack_right_inverse(&r));
        layout        left = must(ptxpack_left_inverse(l));
        for (int n = 0; n < 20; n++) {
            int64_t i = some_index(l, n);
            assert_true(ptxpack_at(l, i) == (int64_t)exact_at(l, i));
            assert_true(ptxpack_at(l, ptxpack_at(&r, i)) == i && ptxpack_at(&left, ptxpack_at(l, i)) == i);
            assert_true(ptxpack_at(&back, i) == ptxpack_at(l, i));
        }
        layout whole = must(ptxpack_composition(l, &r)), one = must(ptxpack_coalesce(&whole, NULL));
        assert_string_equal(text_of(&one), "4294967296:1");
        layout flattened = must(ptxpack_layout_flatten(l));
        check_same(&flattened, l, "flatten");
        layout more = ptxpack_layout_append(l, L("2:1"));
        assert_true(!accepted(&more));
        layout product = ptxpack_logical_product(l, L("(2,2):(2,1)"));
        assert_true(!accepted(&product));
        layout rest = must(ptxpack_complement(l, NULL));
        assert_string_equal(text_of(&rest), "1:0");
    }
}

static void test_deep(void **state)
{
    const layout *l = L("((((((((4,2))))))),3):((((((((1,4))))))),8)"),
                 *deep = L("((((((((2)))))))):((((((((5))))))))");
    layout r = must(ptxpack_coalesce(l, NULL));
    (void)state;
    assert_string_equal(text_of(&r), "24:1");
    r = ptxpack_layout_join(1, deep);
    assert_false(accepted(&r));
    r = ptxpack_layout_group(L("((((((((2)))))))):((((((((5))))))))"), 0, 1);
    assert_false(accepted(&r));
    r = ptxpack_logical_divide(deep, L("1:0"));
    assert_true(accepted(&r)); /* it is made of new tuples */
    r = ptxpack_logical_product(deep, L("2:1"));
    assert_false(accepted(&r));
}

/* Every operation passes an error on, and its line stays. */
static void test_errors_pass(void **state)
{
    layout no = ptxpack_layout_parse("(4,"), good = *L("(4,2)"), r;
    char   line[256];
    (void)state;
    snprintf(line, sizeof line, "%s", ptxpack_detail(NULL));
    r = ptxpack_coalesce(&no, NULL);
    r = ptxpack_composition(&good, &r);
    r = ptxpack_logical_divide(&r, &good);
    r = ptxpack_blocked_product(&good, &r);
    r = ptxpack_upcast(&r, 2);
    r = ptxpack_right_inverse(&r);
    r = ptxpack_layout_append(&good, &r);
    r = ptxpack_tile_to_shape(&r, T("(8,8)"), NULL);
    r = ptxpack_slice_and_offset(T("(_,1)"), &r).layout;
    assert_int_equal(r.shape.status, PTXPACK_E_ARG);
    assert_string_equal(ptxpack_detail(NULL), line);
    assert_true(ptxpack_size(&r) == 0 && ptxpack_cosize(&r) == 0 && ptxpack_max_common_vector(&r, &good) == 0);
}

/* In a failed value only the status has a meaning. */
static void test_poisoned(void **state)
{
    layout no, good = *L("(4,2)");
    (void)state;
    memset(&no, 0xA5, sizeof no);
    no.shape.status = PTXPACK_E_ARG;
    const layout *n = &no, *g = &good;
    /* clang-format off */
    const layout all[] = {
        ptxpack_domain_offset(T("0"), n).layout, ptxpack_slice_and_offset(T("0"), n).layout,
        ptxpack_layout_slice(T("_"), n), ptxpack_layout_dice(T("_"), n), ptxpack_max_common_layout(n, g),
        ptxpack_max_common_layout(g, n), ptxpack_composition(n, g), ptxpack_composition(g, n),
        ptxpack_logical_product(n, g), ptxpack_raked_product(g, n), ptxpack_zipped_divide(g, n),
        ptxpack_layout_zip(g, n), ptxpack_layout_append(g, n), ptxpack_layout_flatten(n),
        ptxpack_tile_unzip(n, g), ptxpack_tile_unzip(g, n), ptxpack_upcast(n, 2), ptxpack_downcast(n, 2),
        ptxpack_right_inverse(n), ptxpack_nullspace(n), ptxpack_make_layout_like(n),
        ptxpack_make_fragment_like(n), ptxpack_make_composed((ptxpack_swizzle){0, 0, 0}, 0, n),
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (ok(&all[i]))
            fail_msg("operation %zu makes %s of nothing", i, text_of(&all[i]));
    assert_true(ptxpack_max_alignment(n) == 0 && ptxpack_max_common_vector(n, g) == 0 &&
                ptxpack_max_common_vector(g, n) == 0);
    assert_true(ptxpack_get_flat_coord(n, 0).status != PTXPACK_OK);
}

/* `_`, an integer and <...> are not layouts; the error names the operation. */
static void test_tiles_are_no_layouts(void **state)
{
    layout        eight = ptxpack_tiler_of(T("8"));
    const layout *four = L("4:1"), *tiles[] = {&eight, L("_"), L("<4:1,8:4>"), L("<4,8>"), L("<_,<2,3>>")};
    const int     first[] = {0};
    (void)state;
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        const layout *t = tiles[i];
        const struct {
            const char *name;
            layout      result;
        } all[] = {{"logical_divide", ptxpack_logical_divide(t, four)},
                   {"logical_divide", ptxpack_zipped_divide(t, L("():()"))},
                   {"logical_product", ptxpack_logical_product(t, four)},
                   {"blocked_product", ptxpack_blocked_product(four, t)},
                   {"coalesce", ptxpack_coalesce(t, NULL)},
                   {"filter_zeros", ptxpack_filter_zeros(t, NULL)},
                   {"composition", ptxpack_composition(t, four)},
                   {"right_inverse", ptxpack_right_inverse(t)},
                   {"complement", ptxpack_complement(t, NULL)},
                   {"slice", ptxpack_layout_slice(T("_"), t)},
                   {"dice", ptxpack_layout_dice(T("_"), t)},
                   {"domain_offset", ptxpack_domain_offset(T("0"), t).layout},
                   {"flatten", ptxpack_layout_flatten(t)},
                   {"take", ptxpack_layout_take(t, 0, 1)},
                   {"select", ptxpack_layout_select(t, 1, first)},
                   {"reverse", ptxpack_layout_reverse(t)},
                   {"append", ptxpack_layout_append(t, NULL)},
                   {"prepend", ptxpack_layout_prepend(four, t)},
                   {"zip", ptxpack_layout_zip(four, t)},
                   {"tile_unzip", ptxpack_tile_unzip(t, four)},
                   {"make_layout_like", ptxpack_make_layout_like(t)},
                   {"upcast", ptxpack_upcast(t, 2)},
                   {"make_composed", ptxpack_make_composed((ptxpack_swizzle){0, 0, 0}, 0, t)}};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            if (ok(&all[k].result))
                fail_msg("%s takes %s for a layout", all[k].name, text_of(t));
        layout last = ptxpack_layout_take(t, 0, 1);
        char   want[128];
        snprintf(want, sizeof want, "take: %s is a tiler, not a layout", text_of(t));
        assert_true(!accepted(&last));
        assert_string_equal(ptxpack_detail(NULL), want);
        last = ptxpack_layout_join(1, t);
        assert_false(accepted(&last));
    }
}

/* An error of size names the operation and the operand. */
static void test_lines_name_the_culprit(void **state)
{
    int64_t values[PTXPACK_TUPLE_ITEMS];
    (void)state;
    for (int i = 0; i < PTXPACK_TUPLE_ITEMS; i++)
        values[i] = 1;
    tuple  full = ptxpack_tuple_of(PTXPACK_TUPLE_ITEMS, values), r;
    layout l = must(ptxpack_make_layout_left(&full)), product = ptxpack_logical_product(&l, L("(2,2)"));
    assert_true(!accepted(&product) && strstr(ptxpack_detail(NULL), "logical_product of (1,1,") != NULL);
    product = ptxpack_blocked_product(&l, L("(2,2)"));
    assert_true(!accepted(&product) && strstr(ptxpack_detail(NULL), "blocked_product of (1,1,") != NULL);
    r = ptxpack_append(&full, T("2"));
    assert_true(r.status == PTXPACK_E_ARG && strncmp(ptxpack_detail(NULL), "append of (1,1,", 15) == 0 &&
                strstr(ptxpack_detail(NULL), "more than 32 items") != NULL);
    r = ptxpack_group(T("((((((((2))))))),3)"), 0, 1);
    assert_true(r.status == PTXPACK_E_ARG && strncmp(ptxpack_detail(NULL), "group of ((((((((2", 18) == 0);
    l = ptxpack_layout_join(-1, NULL);
    assert_true(!accepted(&l));
    assert_string_equal(ptxpack_detail(NULL), "layout_join: -1 modes; 0 to 32 are possible");
    l = ptxpack_layout_join(33, NULL);
    assert_false(accepted(&l));
}

/* The greatest offset and the offset in front of it fit together. */
static void test_composed_range(void **state)
{
    const ptxpack_swizzle s = {1, 0, 1};
    (void)state;
    layout l = ptxpack_make_composed(s, INT64_MAX, L("8:1"));
    assert_false(accepted(&l));
    l = ptxpack_make_composed(s, INT64_MAX - 7, L("8:1"));
    assert_true(accepted(&l) && ptxpack_at(&l, 0) == swizzled(s, INT64_MAX - 7));
    l = ptxpack_make_composed(s, INT64_MIN + 7, L("8:-1"));
    assert_false(accepted(&l));
    l = ptxpack_make_composed(s, INT64_MIN, L("8:1"));
    assert_false(accepted(&l));
    l = ptxpack_make_composed(s, 1, L("(4,4):(1@0,1@1)"));
    assert_false(accepted(&l));
    l = ptxpack_layout_append(L("Sw<1,0,1> o 0 o 8:1"), L("(4):(1@0)"));
    assert_false(accepted(&l));
    l = ptxpack_layout_parse("Sw<1,0,1> o 9223372036854775801 o 8:1");
    assert_false(accepted(&l));
    l = must(ptxpack_make_composed(s, INT64_MAX - 7, L("8:1")));
    l = ptxpack_composition(&l, L("9:1")); /* it reaches beyond the end */
    assert_false(accepted(&l));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overflow),       cmocka_unit_test(test_many_items),
        cmocka_unit_test(test_deep),           cmocka_unit_test(test_errors_pass),
        cmocka_unit_test(test_poisoned),       cmocka_unit_test(test_tiles_are_no_layouts),
        cmocka_unit_test(test_composed_range), cmocka_unit_test(test_lines_name_the_culprit),
    };
    return cmocka_run_group_tests(tests, print_seed, NULL);
}
