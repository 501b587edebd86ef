/* swizzle.c - layouts behind a swizzle, and layouts of wider or narrower elements, value by value. */
#include "algebra_fixture.h"

static int64_t f[POINTS], g[POINTS];

static ptxpack_swizzle random_swizzle(void)
{
    int             bits = 1 + draw(3), shift = bits + draw(3);
    ptxpack_swizzle s = {(int8_t)bits, (int8_t)draw(4), (int8_t)(draw(4) ? shift : -shift)};
    return s;
}

/* A random layout whose extents are powers of two. */
static const layout *random_binary(strides how, int leaves, int64_t size)
{
    flat l = {.count = 1 + draw(leaves)};
    for (int k = 0; k < l.count; k++) {
        l.shape[k] = (int64_t)1 << draw(4);
        l.shape[k] = l.shape[k] > size ? 1 : l.shape[k];
        size /= l.shape[k];
    }
    random_strides(&l, how);
    for (int k = 0; k < l.count && how == GAPS; k++) /* gaps, too */
        while ((l.stride[k] & (l.stride[k] - 1)) != 0)
            l.stride[k] &= l.stride[k] - 1;
    return nested(&l, 1 + draw(3));
}

static const layout *random_swizzled(const layout *inner)
{
    return keep(must(ptxpack_make_composed(random_swizzle(), draw(3) ? 0 : draw(64), inner)));
}

/* The layout behind the swizzle. */
static layout behind(const layout *l) { return must(ptxpack_make_layout(&l->shape, &l->stride)); }

/* Checks that r is l's swizzle and offset over `inner`. */
static void assert_behind(const layout *r, const layout *l, const layout *inner, const char *what)
{
    if (!ok(r) || size_of(&r->shape) != size_of(&inner->shape))
        fail_msg("%s of %s: %s", what, text_of(l), text_of(r));
    for (int64_t i = 0; i < size_of(&inner->shape); i++)
        if (value_at(r, i) != swizzled(l->swizzle, l->offset + value_at(inner, i)))
            fail_msg("%s of %s: %s at %lld", what, text_of(l), text_of(r), (long long)i);
}

static void test_apply(void **state)
{
    const ptxpack_swizzle none = {0, 4, 3};
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        ptxpack_swizzle s = random_swizzle();
        int64_t         x = (int64_t)(random_bits() >> 2), y = ptxpack_swizzle_apply(s, x);
        assert_true(y == swizzled(s, x));
        assert_true(ptxpack_swizzle_apply(s, y) == x);
        assert_true(ptxpack_swizzle_apply(none, x) == x);
        const layout *l = random_swizzled(random_binary(BIJECTIVE, 4, 256));
        for (int64_t i = 0; i < size_of(&l->shape); i++) {
            tuple at = ptxpack_layout_crd2idx(l, keep_tuple(ptxpack_int(i)));
            assert_true(ptxpack_at(l, i) == value_at(l, i) && at.value[0] == value_at(l, i));
        }
    }
}

/* Operations on the layout behind the swizzle do not change the swizzle. */
static void test_structure(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const layout *l = random_swizzled(random_binary((strides)(round % SIGNED), 5, 256));
        layout        inner = behind(l), r = must(ptxpack_coalesce(l, NULL)), want;
        int           rank = ptxpack_rank(&l->shape), k = draw(rank);
        assert_same(&r, l, "coalesce");
        r = must(ptxpack_layout_flatten(l));
        assert_same(&r, l, "flatten");
        r = must(ptxpack_layout_group(l, k, -1));
        assert_same(&r, l, "group");
        r = ptxpack_mode(l, k);
        want = must(ptxpack_mode(&inner, k));
        assert_behind(&r, l, &want, "mode");
        r = ptxpack_layout_take(l, k, -1);
        want = must(ptxpack_layout_take(&inner, k, -1));
        assert_behind(&r, l, &want, "take");
        r = ptxpack_filter(l, NULL);
        want = must(ptxpack_filter(&inner, NULL));
        assert_behind(&r, l, &want, "filter");
        assert_int_equal(ptxpack_size(l), ptxpack_size(&inner));
    }
}

/* A swizzle inside becomes another one outside, or there is none. */
static void test_composition_inside(void **state)
{
    int done = 0;
    (void)state;
    for (int round = 0; round < 2 * ROUNDS; round++) {
        const layout *a = random_binary((strides)(round % SIGNED), 4, 512);
        const layout *b = random_swizzled(random_binary(GAPS, 3, 64));
        layout        r = ptxpack_composition(a, b);
        if (!accepted(&r))
            continue;
        done++;
        for (int64_t i = 0; i < size_of(&b->shape); i++)
            if (value_at(&r, i) != value_at(a, value_at(b, i)))
                fail_msg("composition(%s,%s) = %s at %lld", text_of(a), text_of(b), text_of(&r), (long long)i);
    }
    assert_in_range(done, ROUNDS / 20, 2 * ROUNDS);
}

/* ---- slices ----------------------------------------------------------------------------------------- */
static void test_slices(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        layout modes[3];
        int    rank = 2 + draw(2), open = draw(rank);
        char   text[64] = "(";
        for (int k = 0; k < rank; k++) {
            int64_t n = (int64_t)1 << draw(4);
            tuple   shape = ptxpack_int(n), stride = ptxpack_int(0);
            modes[k] = must(ptxpack_make_layout(&shape, &stride));
        }
        layout joined = must(ptxpack_layout_join(rank, modes));
        int    order[3] = {0, 1, 2}, at = draw(rank), swap = order[0];
        order[0] = order[at];
        order[at] = swap;
        int64_t       places[3] = {order[0], order[1], order[2]};
        tuple         way = ptxpack_tuple_of(rank, places);
        layout        inner = must(ptxpack_make_ordered_layout(&joined.shape, &way));
        const layout *l = random_swizzled(&inner);
        int64_t       fixed = 0, before = 1, step = 1;
        for (int k = 0; k < rank; k++, before *= ptxpack_mode_size(l, k - 1)) {
            int64_t x = draw((int)ptxpack_mode_size(l, k));
            step = k == open ? before : step;
            fixed += k == open ? 0 : x * before;
            sprintf(text + strlen(text), k == open ? "%s_" : "%s%lld", k > 0 ? "," : "", (long long)x);
        }
        ptxpack_slice s = ptxpack_slice_and_offset(T(strcat(text, ")")), l);
        for (int64_t i = 0; i < ptxpack_mode_size(l, open); i++)
            if (!ok(&s.layout) || s.offset.value[0] + value_at(&s.layout, i) != value_at(l, fixed + i * step))
                fail_msg("slice_and_offset(%s,%s) = %s + %s at %lld", text, text_of(l), text_of(&s.layout),
                         tuple_text_of(&s.offset), (long long)i);
    }
}

static void test_domain_offset(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const layout *l = random_swizzled(random_binary(GAPS, 4, 128));
        layout        inner = behind(l);
        int64_t       start = draw((int)size_of(&l->shape));
        ptxpack_slice s = ptxpack_domain_offset(keep_tuple(ptxpack_int(start)), l);
        for (int64_t i = 0; i < size_of(&l->shape); i++)
            assert_true(s.offset.value[0] + value_at(&s.layout, i) ==
                        swizzled(l->swizzle, l->offset + value_at(&inner, start) + value_at(&inner, i)));
    }
}

/* ---- compositions, divisions, products, inverses ------------------------------------------------------- */
/* op(l,b) is l's swizzle over op(the layout behind it, b), for the same b. */
static void test_outside(void **state)
{
    /* clang-format off */
    static const struct {
        const char    *name;
        ptxpack_layout (*call)(const layout *, const layout *);
        bool           product; /* b is a separate tiler, not steps through l */
    } ops[] = {
        {"composition", ptxpack_composition, false},       {"logical_divide", ptxpack_logical_divide, false},
        {"zipped_divide", ptxpack_zipped_divide, false},   {"tiled_divide", ptxpack_tiled_divide, false},
        {"flat_divide", ptxpack_flat_divide, false},       {"logical_product", ptxpack_logical_product, true},
        {"blocked_product", ptxpack_blocked_product, true}, {"raked_product", ptxpack_raked_product, true},
    };
    /* clang-format on */
    enum { OPS = sizeof ops / sizeof *ops };
    int done = 0;
    (void)state;
    for (int round = 0; round < 2 * ROUNDS; round++) {
        int           op = round % 2 == 0 ? 0 : 1 + draw(OPS - 1);
        const layout *l = random_swizzled(op == 0 ? random_binary((strides)(round / 2 % SIGNED), 4, 256)
                                                  : random_binary(BIJECTIVE, 3, 64));
        const layout *b = ops[op].product ? random_binary(BIJECTIVE, 2, 16)
                                          : random_steps(size_of(&l->shape), op == 0 ? 3 : 2);
        layout        inner = behind(l), r = ops[op].call(l, b), want = ops[op].call(&inner, b);
        assert_true(accepted(&r) == ok(&want));
        if (!ok(&r))
            continue;
        done++;
        assert_behind(&r, l, &want, ops[op].name);
        assert_true(op != 0 || ptxpack_compatible(&b->shape, &r.shape));
    }
    assert_in_range(done, ROUNDS, 2 * ROUNDS);
}

static void test_tile_to_shape(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t m = (int64_t)1 << draw(4), n = (int64_t)1 << draw(4);
        tuple   shape = *pair(m * (1 + draw(3)), n * (1 + draw(3))), order = *pair(1, 0);
        layout  inner = must((draw(2) ? ptxpack_make_layout_left : ptxpack_make_layout_right)(pair(m, n)));
        const layout *l = random_swizzled(&inner);
        const tuple  *way = draw(2) ? &order : NULL;
        layout r = ptxpack_tile_to_shape(l, &shape, way), want = ptxpack_tile_to_shape(&inner, &shape, way);
        assert_behind(&r, l, &want, "tile_to_shape");
    }
}

/* A swizzled arrangement of plain blocks: tile t starts where the tiler says, in blocks. */
static void test_product_inside(void **state)
{
    static ptxpack_layout (*const product[])(const layout *, const layout *) = {ptxpack_logical_product,
                                                                                ptxpack_zipped_product,
                                                                                ptxpack_tiled_product};
    int done = 0;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const layout *block = random_binary(BIJECTIVE, 2, 16),
                     *t = random_swizzled(random_binary(BIJECTIVE, 2, 64));
        layout  r = product[round % 3](block, t);
        int64_t n = size_of(&block->shape);
        if (!accepted(&r))
            continue;
        done++;
        assert_int_equal(size_of(&r.shape), n * size_of(&t->shape));
        for (int64_t i = 0; i < size_of(&r.shape); i++)
            if (value_at(&r, i) != value_at(block, i % n) + n * value_at(t, i / n))
                fail_msg("%s times %s: %s at %lld", text_of(block), text_of(t), text_of(&r), (long long)i);
    }
    assert_in_range(done, ROUNDS / 20, ROUNDS);
}

/* A swizzle of the tiles' places leaves every block as it is, also one with gaps; or there is no product. */
static void test_product_blocks(void **state)
{
    int done = 0;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const layout *block = random_binary(GAPS, 2, 16), *t = random_swizzled(random_binary(BIJECTIVE, 2, 64));
        layout        r = ptxpack_logical_product(block, t);
        int64_t       n = size_of(&block->shape);
        if (!accepted(&r))
            continue;
        done++;
        for (int64_t i = 0; i < size_of(&r.shape); i++)
            if (value_at(&r, i) - value_at(&r, i - i % n) != value_at(block, i % n))
                fail_msg("%s times %s: %s at %lld", text_of(block), text_of(t), text_of(&r), (long long)i);
    }
    assert_in_range(done, ROUNDS / 40, ROUNDS);
    layout r = ptxpack_logical_product(L("4:8"), L("Sw<3,1,-5> o 0 o 1:0"));
    assert_false(accepted(&r));
}

static void test_inverses(void **state)
{
    int done = 0;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const layout *l = random_swizzled(random_binary(round % 2 ? BIJECTIVE : GAPS, 4, 256));
        layout        r = ptxpack_right_inverse(l);
        done += accepted(&r);
        for (int64_t i = 0; ok(&r) && i < size_of(&r.shape); i++)
            if (value_at(l, value_at(&r, i)) != i)
                fail_msg("right_inverse(%s) = %s at %lld", text_of(l), text_of(&r), (long long)i);
        r = ptxpack_left_inverse(l);
        for (int64_t i = 0; accepted(&r) && i < size_of(&l->shape); i++)
            if (value_at(l, value_at(&r, value_at(l, i))) != value_at(l, i))
                fail_msg("left_inverse(%s) = %s at %lld", text_of(l), text_of(&r), (long long)i);
    }
    assert_in_range(done, ROUNDS / 20, ROUNDS);
}

/* 11 = 8 + 3 carries into the second mode of an inverse (15,2):(0,1): no single bit shows that. */
static void test_inverse_of_gaps(void **state)
{
    static const char *const texts[] = {"Sw<1,2,1> o 0 o 2:15", "Sw<1,2,-1> o 0 o 2:14",
                                        "Sw<1,0,-2> o 0 o 4:13", "Sw<1,2,1> o 0 o ((2,6)):((13,0))"};
    (void)state;
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        const layout *l = L(texts[k]);
        layout        r = ptxpack_left_inverse(l);
        for (int64_t i = 0; accepted(&r) && i < size_of(&l->shape); i++)
            if (value_at(l, value_at(&r, value_at(l, i))) != value_at(l, i))
                fail_msg("left_inverse(%s) = %s at %lld", texts[k], text_of(&r), (long long)i);
    }
}

static void test_max_common(void **state)
{
    int more = 0;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const layout *inner = random_binary(BIJECTIVE, 3, 256), *a = random_swizzled(inner);
        const layout *b = draw(2) ? inner : random_binary(BIJECTIVE, 3, 256);
        int64_t       v = ptxpack_max_common_vector(a, b);
        layout        c = ptxpack_max_common_layout(a, b), same = must(ptxpack_coalesce(inner, NULL));
        for (int64_t i = 0; accepted(&c) && i < size_of(&c.shape); i++)
            if (value_at(a, value_at(&c, i)) - value_at(a, 0) != i || value_at(b, value_at(&c, i)) != i)
                fail_msg("max_common_layout(%s,%s) = %s", text_of(a), text_of(b), text_of(&c));
        more += v > 1;
        if (b == inner) /* runs of v stay runs at any place */
            for (int64_t i = 0; v > 0 && i < size_of(&a->shape) && a->offset == 0; i++) {
                layout  back = must(ptxpack_right_inverse(&same));
                int64_t x = value_at(a, value_at(&back, i)), start = value_at(a, value_at(&back, i - i % v));
                assert_true(x == start + i % v);
            }
        v = ptxpack_max_common_vector(a, a);
        assert_true(v == ptxpack_max_common_vector(inner, inner));
    }
    const layout *same = L("Sw<1,0,1> o 0 o 8:1"), *later = L("Sw<1,0,1> o 1 o 8:1");
    assert_int_equal(ptxpack_max_common_vector(same, same), 8);
    assert_int_equal(ptxpack_max_common_vector(same, later), 1);
    assert_in_range(more, ROUNDS / 4, ROUNDS);
}

/* ---- wider and narrower elements -------------------------------------------------------------------- */
/* The smaller units that elements of `units` each take up. */
static int64_t units_of(const layout *l, int64_t units, int64_t *out)
{
    int64_t n = 0;
    if (size_of(&l->shape) * units > POINTS)
        fail_msg("%s is too large for this test", text_of(l));
    for (int64_t i = 0; i < size_of(&l->shape); i++)
        for (int64_t u = 0; u < units; u++)
            out[n++] = value_at(l, i) * units + u;
    qsort(out, (size_t)n, sizeof *out, by_value);
    return distinct(out, n);
}

static void assert_units(const layout *wide, int64_t units, const layout *narrow, int64_t parts,
                         const char *what)
{
    int64_t n = units_of(wide, units, f), m = units_of(narrow, parts, g);
    if (n != m || memcmp(f, g, (size_t)n * sizeof *f) != 0)
        fail_msg("%s: %s and %s take up other bytes", what, text_of(wide), text_of(narrow));
}

static int64_t floor_div(int64_t a, int64_t n) { return a / n - (a % n < 0); }

/* Checks that the words that n elements of r reach are those of l's elements. */
static void assert_words(const layout *r, const layout *l, int64_t n)
{
    int64_t a = sorted_values(l, f), b = distinct(g, sorted_values(r, g));
    for (int64_t i = 0; i < a; i++)
        f[i] = floor_div(f[i], n);
    a = distinct(f, a);
    if (a != b || memcmp(f, g, (size_t)a * sizeof *f) != 0)
        fail_msg("upcast<%lld>(%s) = %s", (long long)n, text_of(l), text_of(r));
}

static void test_upcast(void **state)
{
    int done = 0, same = 0;
    (void)state;
    for (int round = 0; round < 2 * ROUNDS; round++) {
        const layout *l = random_layout((strides)(round % SIGNED), 4, 256);
        int64_t       n = draw(4) ? (int64_t)1 << draw(4) : 1 + draw(6);
        layout        r = ptxpack_upcast(l, n);
        bool          divides = true;
        for (int k = 0; k < l->shape.items; k++) {
            int64_t d = l->stride.value[k];
            divides &= d == 0 || d % n == 0 || (n % d == 0 && l->shape.value[k] % (n / d) == 0) ||
                       (n % d == 0 && (n / d) % l->shape.value[k] == 0);
        }
        if (!accepted(&r)) {
            if (divides)
                fail_msg("upcast<%lld>(%s): %s", (long long)n, text_of(l), text_of(&r));
            continue;
        }
        done++;
        assert_words(&r, l, n);
        layout once = must(ptxpack_filter(l, NULL)), wide = must(ptxpack_filter(&r, NULL));
        if (strides_divide(l) && size_of(&once.shape) == n * size_of(&wide.shape)) {
            same++;
            assert_units(&r, n, l, 1, "upcast");
        }
    }
    assert_in_range(done, ROUNDS / 2, 2 * ROUNDS);
    assert_in_range(same, ROUNDS / 4, 2 * ROUNDS);
}

/* Modes that step downwards, or into each other: the words are those of the elements, or the operation is
 * refused. */
static void test_upcast_down(void **state)
{
    int down = 0, refused = 0;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const layout *l = random_layout(round % 2 ? SIGNED : ANY, 4, 256);
        int64_t       n = (int64_t)1 << draw(4);
        layout        r = ptxpack_upcast(l, n);
        if (!accepted(&r)) {
            refused++;
            continue;
        }
        assert_words(&r, l, n);
        for (int k = 0; k < r.stride.items; k++)
            down += r.stride.value[k] < 0;
    }
    assert_in_range(down, ROUNDS / 20, 4 * ROUNDS);
    assert_in_range(refused, ROUNDS / 20, ROUNDS);
}

static void test_downcast(void **state)
{
    int done = 0;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const layout *l = random_layout((strides)(round % SIGNED), 4, 128);
        int64_t       n = 1 + draw(8);
        layout        r = ptxpack_downcast(l, n);
        bool          one = false;
        for (int k = 0; k < l->shape.items; k++)
            one |= l->stride.value[k] == 1;
        assert_true(accepted(&r) || !one);
        if (!ok(&r) || !strides_divide(l))
            continue;
        done++;
        assert_units(l, n, &r, 1, "downcast");
        layout back = must(ptxpack_upcast(&r, n));
        assert_same(&back, l, "downcast and upcast");
    }
    assert_in_range(done, ROUNDS / 2, ROUNDS);
}

/* Elements of max_alignment units reach the same bytes; elements twice as wide would not. */
static void test_max_alignment(void **state)
{
    int more = 0;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const layout *any = random_layout(draw(2) ? BIJECTIVE : GAPS, 4, 256);
        const layout *l = keep(must(ptxpack_coalesce(any, NULL))); /* extents of 1 count, too */
        int64_t       n = ptxpack_max_alignment(l);
        assert_int_equal(ptxpack_max_alignment(any), n);
        layout r = must(ptxpack_upcast(l, n));
        assert_units(&r, n, l, 1, "max_alignment");
        r = ptxpack_upcast(l, 2 * n);
        if (accepted(&r))
            assert_true(units_of(&r, 2 * n, f) != units_of(l, 1, g));
        more += n > 1;
    }
    assert_in_range(more, ROUNDS / 4, ROUNDS);
    assert_int_equal(ptxpack_max_alignment(L("6:1")), 6);
    assert_int_equal(ptxpack_max_alignment(L("Sw<1,2,1> o 0 o 6:1")), 2);
    assert_int_equal(ptxpack_max_alignment(L("Sw<2,3,3> o 0 o (8,64):(64,1)")), 8);
    assert_int_equal(ptxpack_max_alignment(L("Sw<2,3,3> o 4 o (8,64):(64,1)")), 4);
    assert_int_equal(ptxpack_max_alignment(L("Sw<0,3,3> o 16 o 64:1")), 16);
    assert_int_equal(ptxpack_max_alignment(L("(8,8):(1@0,1@1)")), 0);
}

/* Modes that move whole elements cannot be omitted. */
static void test_upcast_reads(void **state)
{
    (void)state;
    layout r = ptxpack_upcast(L("Sw<3,1,-4> o 0 o 8:1"), 4);
    assert_false(accepted(&r));
    r = must(ptxpack_upcast(L("Sw<3,1,-4> o 0 o 8:1"), 2));
    assert_string_equal(text_of(&r), "Sw<3,0,-4> o 0 o 4:1");
    r = must(ptxpack_upcast(L("Sw<3,1,4> o 0 o 8:1"), 4));
    assert_string_equal(text_of(&r), "Sw<2,0,4> o 0 o 2:1");
    r = must(ptxpack_upcast(L("Sw<1,0,-1> o 0 o 8:1"), 4));
    assert_string_equal(text_of(&r), "2:1");
    r = ptxpack_upcast(L("(8,8):(1,2)"), 8);
    assert_false(accepted(&r));
    r = must(ptxpack_upcast(L("(8,8):(1@0,1@1)"), 8));
    assert_string_equal(text_of(&r), "(1,1):(1@0,1@1)");
}

static void test_recast(void **state)
{
    static const int bits[] = {1, 2, 4, 6, 8, 12, 16, 32};
    int              done = 0;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const layout *l = random_binary(round % 2 ? BIJECTIVE : GAPS, 3, 32);
        int           from = bits[draw(8)], to = bits[draw(8)];
        layout        r = ptxpack_recast_layout(l, from, to);
        if (!accepted(&r) || size_of(&r.shape) * to != size_of(&l->shape) * from)
            continue;
        done++;
        assert_units(&r, to, l, from, "recast_layout");
    }
    assert_in_range(done, ROUNDS / 4, ROUNDS);
}

/* A wide element has the same place as the element of l at its beginning. */
static void test_cast_swizzled(void **state)
{
    int done = 0;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t         n = (int64_t)1 << draw(4), rows = (int64_t)1 << draw(4);
        layout          plain = must(ptxpack_make_layout_left(pair(n << (1 + draw(3)), rows)));
        const layout   *l = random_swizzled(&plain);
        layout          wide = ptxpack_upcast(l, n), narrow = must(ptxpack_downcast(l, n));
        ptxpack_swizzle s = l->swizzle; /* reads below the elements, and changes them? */
        bool            split = s.shift < 0 && s.bits > 0 && (int64_t)1 << s.base < n &&
                     (int64_t)1 << (s.base + s.bits - s.shift) > n;
        assert_true(accepted(&wide) != (l->offset % n != 0 || split));
        for (int64_t i = 0; ok(&wide) && i < size_of(&wide.shape); i++)
            if (value_at(&wide, i) != value_at(l, i * n) / n)
                fail_msg("upcast<%lld>(%s) = %s at %lld", (long long)n, text_of(l), text_of(&wide),
                         (long long)i);
        done += ok(&wide);
        for (int64_t i = 0; i < size_of(&narrow.shape); i++)
            if (value_at(&narrow, i) != value_at(l, i / n) * n + i % n)
                fail_msg("downcast<%lld>(%s) = %s at %lld", (long long)n, text_of(l), text_of(&narrow),
                         (long long)i);
    }
    assert_in_range(done, ROUNDS / 2, ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_apply),
        cmocka_unit_test(test_structure),
        cmocka_unit_test(test_composition_inside),
        cmocka_unit_test(test_slices),
        cmocka_unit_test(test_domain_offset),
        cmocka_unit_test(test_outside),
        cmocka_unit_test(test_tile_to_shape),
        cmocka_unit_test(test_product_inside),
        cmocka_unit_test(test_inverses),
        cmocka_unit_test(test_max_common),
        cmocka_unit_test(test_upcast),
        cmocka_unit_test(test_upcast_down),
        cmocka_unit_test(test_downcast),
        cmocka_unit_test(test_max_alignment),
        cmocka_unit_test(test_recast),
        cmocka_unit_test(test_cast_swizzled),
        cmocka_unit_test(test_product_blocks),
        cmocka_unit_test(test_upcast_reads),
        cmocka_unit_test(test_inverse_of_gaps),
    };
    return cmocka_run_group_tests(tests, print_seed, NULL);
}
