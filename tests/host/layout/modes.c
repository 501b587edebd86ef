/* modes.c - layouts are joined and split, made, sliced, and counted as coordinates. */
#include "algebra_fixture.h"

/* ---- the modes of a layout -------------------------------------------------------------------------- */
static int64_t extents[PTXPACK_TUPLE_ITEMS];

/* The modes of l, and the extent of each. */
static int modes_of(const layout *l, layout *modes)
{
    int rank = ptxpack_rank(&l->shape);
    for (int k = 0; k < rank; k++) {
        modes[k] = must(ptxpack_mode(l, k));
        extents[k] = size_of(&modes[k].shape);
        assert_int_equal(ptxpack_mode_size(l, k), extents[k]);
    }
    return rank;
}

/* Checks at some hundred points that r is the layout (modes[0],modes[1],...) as a function. */
static void check_modes(const layout *r, int count, const layout *modes, const char *what)
{
    int64_t size = 1;
    for (int k = 0; k < count; k++)
        size *= size_of(&modes[k].shape);
    if (!ok(r) || size_of(&r->shape) != size)
        fail_msg("%s: %s", what, text_of(r));
    for (int64_t i = 0; i < size; i += 1 + size / 300) {
        int64_t want = 0, rest = i;
        for (int k = 0; k < count; k++, rest /= size_of(&modes[k - 1].shape))
            want += value_at(&modes[k], rest % size_of(&modes[k].shape));
        if (value_at(r, i) != want)
            fail_msg("%s: %s at %lld", what, text_of(r), (long long)i);
    }
}

static void check_taken(const layout *l, int rank, const layout *modes)
{
    int    begin = draw(rank), end = begin + 1 + draw(rank - begin), picked[3];
    layout r = ptxpack_layout_take(l, begin, end), chosen[3];
    check_modes(&r, end - begin, modes + begin, "take");
    assert_int_equal(ptxpack_rank(&r.shape), end - begin);
    r = ptxpack_layout_take(l, begin, -1);
    check_modes(&r, rank - begin, modes + begin, "take to the end");
    for (int k = 0; k < 3; k++) {
        picked[k] = draw(rank);
        chosen[k] = modes[picked[k]];
    }
    r = ptxpack_layout_select(l, 3, picked);
    check_modes(&r, 3, chosen, "select");
    r = ptxpack_layout_group(l, begin, end);
    assert_same(&r, l, "group");
    assert_int_equal(ptxpack_rank(&r.shape), rank - (end - begin) + 1);
    layout grouped = must(ptxpack_mode(&r, begin));
    check_modes(&grouped, end - begin, modes + begin, "group");
}

static void check_joined(const layout *l, int rank, layout *modes)
{
    const layout *x = random_mode(ANY, 2, 4);
    layout        r = ptxpack_layout_append(l, x), back[PTXPACK_TUPLE_ITEMS], one = *L("1:0");
    int           at = draw(rank);
    check_modes(&r, 2, two(l, x), "append");
    r = ptxpack_layout_prepend(l, x);
    check_modes(&r, 2, two(x, l), "prepend");
    r = ptxpack_layout_append_to(l, rank + 2, NULL);
    assert_same(&r, l, "append_to");
    assert_int_equal(ptxpack_rank(&r.shape), rank + 2);
    layout last = must(ptxpack_mode(&r, rank + 1));
    assert_identical(&last, &one, "append_to");
    r = ptxpack_layout_prepend_to(l, rank + 1, x);
    check_modes(&r, 2, two(x, l), "prepend_to");
    for (int k = 0; k < rank; k++)
        back[k] = modes[rank - 1 - k];
    if (ptxpack_is_tuple(&l->shape)) { /* the mode of an integer is the integer */
        r = ptxpack_layout_reverse(l);
        check_modes(&r, rank, back, "reverse");
        layout old = modes[at];
        modes[at] = *x;
        r = ptxpack_layout_replace(l, at, x);
        check_modes(&r, rank, modes, "replace");
        modes[at] = old;
    }
    r = must(ptxpack_layout_join(rank, modes));
    assert_same(&r, l, "join");
}

static void test_modes(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        flat f;
        random_shape(&f, 5, 64);
        random_strides(&f, (strides)(round % STRIDES));
        const layout *l = nested(&f, 1 + draw(4));
        layout        modes[PTXPACK_TUPLE_ITEMS];
        int           rank = modes_of(l, modes);
        check_taken(l, rank, modes);
        check_joined(l, rank, modes);
        layout r = must(ptxpack_layout_flatten(l));
        assert_same(&r, l, "flatten");
        assert_true(ptxpack_depth(&r.shape) <= 1 && r.shape.items == l->shape.items);
        if (ptxpack_is_tuple(&l->shape)) {
            r = must(ptxpack_layout_unflatten(&r, &l->shape));
            assert_identical(&r, l, "unflatten");
        }
    }
}

/* zip pairs the modes; tile_unzip separates them again. */
static void test_zip(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        layout a[3], b[3], pairs[3], all[6];
        int    rank = 2 + draw(2);
        for (int k = 0; k < rank; k++) {
            a[k] = all[k] = *random_mode(ANY, 2, 6);
            b[k] = *random_mode(ANY, 2, 6);
            pairs[k] = must(ptxpack_layout_join(2, two(&a[k], &b[k])));
        }
        memcpy(all + rank, b, sizeof *b * (size_t)rank);
        layout left = must(ptxpack_layout_join(rank, a)), right = must(ptxpack_layout_join(rank, b));
        layout zipped = must(ptxpack_layout_zip(&left, &right)), tiler = must(ptxpack_make_tiler(rank, a));
        layout want = must(ptxpack_layout_join(rank, pairs));
        assert_identical(&zipped, &want, "zip");
        layout apart = must(ptxpack_tile_unzip(&zipped, &tiler));
        assert_int_equal(ptxpack_rank(&apart.shape), 2);
        layout half = must(ptxpack_mode(&apart, 0));
        assert_identical(&half, &left, "tile_unzip");
        half = must(ptxpack_mode(&apart, 1));
        assert_identical(&half, &right, "tile_unzip");
    }
}

/* ---- slices ----------------------------------------------------------------------------------------- */
/* A coordinate for the nodes of a shape: an integer, `_`, or those of its modes.  `fixed` and `open` add up its
 * leaves: the offset of the integers, and the steps of the `_`s. */
typedef struct cut {
    flat    open, fixed;
    int64_t offset;
    char    text[TEXT];
} cut;

static void add_leaves(flat *f, const layout *l)
{
    for (int k = 0; k < l->shape.items; k++) {
        f->shape[f->count] = l->shape.value[k];
        f->stride[f->count++] = l->stride.value[k];
    }
}

static void random_cut(const layout *l, cut *c)
{
    if (!ptxpack_is_tuple(&l->shape) || draw(3) == 0) {
        int64_t at = draw((int)size_of(&l->shape));
        bool    open = draw(2);
        sprintf(c->text + strlen(c->text), open ? "_" : "%lld", (long long)at);
        add_leaves(open ? &c->open : &c->fixed, l);
        c->offset += open ? 0 : linear_at(l, at);
        return;
    }
    strcat(c->text, "(");
    for (int k = 0; k < ptxpack_rank(&l->shape); k++) {
        layout mode = must(ptxpack_mode(l, k));
        strcat(c->text, k > 0 ? "," : "");
        random_cut(&mode, c);
    }
    strcat(c->text, ")");
}

static void check_flat(const layout *r, const flat *want, const char *what, const char *coord)
{
    flat got = {.count = 0};
    for (int k = 0; k < r->shape.items; k++)
        if (r->shape.kind[k] != PTXPACK_EMPTY) {
            got.shape[got.count] = r->shape.value[k];
            got.stride[got.count++] = r->stride.value[k];
        }
    if (got.count != want->count ||
        memcmp(got.shape, want->shape, sizeof *got.shape * (size_t)got.count) != 0 ||
        memcmp(got.stride, want->stride, sizeof *got.stride * (size_t)got.count) != 0)
        fail_msg("%s of %s: %s", what, coord, text_of(r));
}

static void test_slices(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const layout *l = random_layout((strides)(round % STRIDES), 6, 128);
        cut           c = {.offset = 0};
        random_cut(l, &c);
        const tuple  *coord = T(c.text);
        ptxpack_slice s = ptxpack_slice_and_offset(coord, l);
        layout        sub = must(s.layout), kept = must(ptxpack_layout_slice(coord, l));
        check_flat(&sub, &c.open, "slice", c.text);
        assert_identical(&kept, &sub, "slice");
        assert_int_equal(s.offset.value[0], c.offset);
        layout rest = must(ptxpack_layout_dice(coord, l));
        check_flat(&rest, &c.fixed, "dice", c.text);
    }
}

/* r counts from another coordinate: r(x) = l(coord + x). */
static void test_domain_offset(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const layout *l = random_layout((strides)(round % STRIDES), 4, 128);
        int64_t       start = draw((int)size_of(&l->shape));
        tuple         coord = ptxpack_idx2crd_compact(keep_tuple(ptxpack_int(start)), &l->shape);
        ptxpack_slice s = ptxpack_domain_offset(&coord, l);
        assert_identical(&s.layout, l, "domain_offset");
        assert_int_equal(s.offset.value[0], value_at(l, start));
        tuple one = ptxpack_layout_crd2idx(l, &coord);
        assert_int_equal(one.value[0], value_at(l, start));
    }
}

/* ---- making layouts ------------------------------------------------------------------------------------ */
/* Checks that the strides of the leaves are compact in the order of `order`. */
static void check_compact(const layout *l, const int *order, int count)
{
    int64_t running = 1;
    for (int k = 0; k < count; k++) {
        if (l->shape.value[order[k]] > 1 && l->stride.value[order[k]] != running)
            fail_msg("%s: stride %d is not %lld", text_of(l), order[k], (long long)running);
        running *= l->shape.value[order[k]];
    }
}

static void test_left_right(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const layout *l = random_layout(ANY, 8, 1024);
        layout        left = must(ptxpack_make_layout_left(&l->shape)), right;
        int           up[PTXPACK_TUPLE_ITEMS], down[PTXPACK_TUPLE_ITEMS], n = l->shape.items;
        right = must(ptxpack_make_layout_right(&l->shape));
        for (int k = 0; k < n; k++) {
            up[k] = k;
            down[k] = n - 1 - k;
        }
        check_compact(&left, up, n);
        check_compact(&right, down, n);
        assert_true(bijective(&left) && bijective(&right));
        assert_true(ptxpack_tuple_equal(&left.shape, &l->shape) &&
                    ptxpack_tuple_equal(&right.shape, &l->shape));
    }
}

static void test_ordered(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        flat f;
        int  place[PTXPACK_TUPLE_ITEMS];
        random_shape(&f, 6, 512);
        for (int k = 0; k < f.count; k++) {
            int at = draw(k + 1);
            place[k] = place[at];
            place[at] = k;
        }
        for (int k = 0; k < f.count; k++) /* the stride only gives the order */
            f.stride[place[k]] = 3 * k - 4;
        const layout *l = nested(&f, 1 + draw(3));
        layout        r = must(ptxpack_make_ordered_layout(&l->shape, &l->stride));
        check_compact(&r, place, f.count);
        assert_true(ptxpack_tuple_equal(&r.shape, &l->shape));
    }
    layout tied = ptxpack_make_ordered_layout(T("(2,3)"), T("(1,1)")); /* it would alias */
    assert_false(accepted(&tied));
}

/* Orders the modes by their strides; those of stride 0 stay at 0. */
static bool like_order(const layout *l, int from, int *order, int *count)
{
    *count = 0;
    for (int k = from; k < l->shape.items; k++) {
        if (l->stride.value[k] == 0)
            continue;
        int at = (*count)++;
        for (; at > 0 && llabs(l->stride.value[order[at - 1]]) > llabs(l->stride.value[k]); at--)
            order[at] = order[at - 1];
        order[at] = k;
        if (at > 0 && llabs(l->stride.value[order[at - 1]]) == llabs(l->stride.value[k]))
            return false;
    }
    return true;
}

static void test_like(void **state)
{
    int done = 0;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const layout *l = random_layout(round % 2 ? ZEROS : GAPS, 6, 256);
        layout        r = ptxpack_make_layout_like(l);
        int           order[PTXPACK_TUPLE_ITEMS], count;
        bool          clear = like_order(l, 0, order, &count);
        if (!accepted(&r)) {
            assert_false(clear); /* equal strides would alias */
            continue;
        }
        done++;
        assert_true(ptxpack_tuple_equal(&r.shape, &l->shape));
        for (int k = 0; k < l->shape.items; k++)
            assert_true(l->stride.value[k] != 0 || r.stride.value[k] == 0);
        layout once = must(ptxpack_filter_zeros(&r, NULL));
        assert_true(bijective(&once));
        if (clear)
            check_compact(&r, order, count);
    }
    assert_in_range(done, ROUNDS / 2, ROUNDS);
}

/* A copy in registers: different elements of l are different in it, without gaps; the first mode comes
 * first. */
static void test_fragment_like(void **state)
{
    int done = 0;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const layout *l = random_layout(round % 2 ? ZEROS : GAPS, 6, 256);
        layout        r = ptxpack_make_fragment_like(l);
        if (!accepted(&r))
            continue;
        done++;
        if (r.shape.items != l->shape.items || /* CuTe puts the last of two modes in parentheses */
            memcmp(r.shape.value, l->shape.value, sizeof *r.shape.value * (size_t)r.shape.items) != 0)
            fail_msg("make_fragment_like(%s) = %s", text_of(l), text_of(&r));
        layout once = must(ptxpack_filter_zeros(&r, NULL));
        assert_true(bijective(&once));
        if (ptxpack_rank(&r.shape) < 2)
            continue;
        layout first = must(ptxpack_mode(&once, 0));
        assert_true(bijective(&first));
        for (int k = 0; k < first.shape.items; k++) /* equal elements stay equal in it, but not in the others */
            assert_true(l->stride.value[k] != 0 || r.stride.value[k] == 0);
    }
    assert_in_range(done, ROUNDS / 2, ROUNDS);
}

/* ---- identity layouts ------------------------------------------------------------------------------- */
/* The integers of a coordinate, in the order of the leaves of `shape`; an integer counts through all leaves
 * that it stands for. */
static void leaves_in(const tuple *coord, const tuple *shape, int64_t *out, int *count)
{
    if (!ptxpack_is_tuple(shape)) {
        out[(*count)++] = coord->value[0];
        return;
    }
    for (int k = 0; k < ptxpack_rank(shape); k++) {
        tuple s = ptxpack_get(shape, k), c;
        c = ptxpack_is_tuple(coord) && k < ptxpack_rank(coord) ? ptxpack_get(coord, k) : ptxpack_int(0);
        leaves_in(&c, &s, out, count);
    }
}

static void assert_coord(const tuple *got, const tuple *shape, int64_t index, const char *what)
{
    int64_t at[PTXPACK_TUPLE_ITEMS];
    int     count = 0;
    tuple   coord = ptxpack_as_arithmetic_tuple(got); /* 3@1 is (0,3) */
    assert_int_equal(coord.status, PTXPACK_OK);
    leaves_in(&coord, shape, at, &count);
    for (int k = 0; k < count; k++, index /= shape->value[k - 1])
        if (at[k] != index % shape->value[k])
            fail_msg("%s: %s in %s", what, tuple_text_of(got), tuple_text_of(shape));
}

static void test_identity(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        flat f;
        random_shape(&f, 4, 64);
        random_strides(&f, BIJECTIVE);
        const layout *l = nested(&f, 1 + draw(2));
        const tuple  *shape = &l->shape;
        layout        id = must(ptxpack_make_identity_layout(shape));
        int64_t       size = size_of(shape);
        for (int64_t i = 0; i < size && ptxpack_is_tuple(shape); i++) {
            tuple at = ptxpack_layout_crd2idx(&id, keep_tuple(ptxpack_int(i)));
            assert_coord(&at, shape, i, "identity");
        }
        if (!ptxpack_is_tuple(shape) || shape->items == 1)
            continue;
        /* a composition gives the coordinate of b's offset */
        const layout *b = random_steps(size, 3);
        layout        r = ptxpack_composition(&id, b);
        for (int64_t i = 0; accepted(&r) && i < size_of(&b->shape); i++) {
            if (value_at(b, i) >= size)
                continue;
            tuple at = ptxpack_layout_crd2idx(&r, keep_tuple(ptxpack_int(i)));
            assert_coord(&at, shape, value_at(b, i), "composition with an identity");
        }
        /* as the second argument it gives l itself */
        r = must(ptxpack_composition(l, &id));
        assert_same(&r, l, "composition of an identity");
    }
}

/* Slices of an identity start at the coordinate that they name; tiles of it give their own place. */
static void test_identity_slices(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t m = 2 + draw(6), n = 2 + draw(6), i = draw((int)m), j = draw((int)n), x = draw((int)m);
        int64_t tile_m = random_divisor(m), tile_n = random_divisor(n);
        char    text[64];
        layout  id = must(ptxpack_make_identity_layout(pair(m, n)));
        sprintf(text, "(_,%lld)", (long long)j);
        ptxpack_slice s = ptxpack_slice_and_offset(T(text), &id);
        tuple         at = ptxpack_layout_crd2idx(&s.layout, keep_tuple(ptxpack_int(x)));
        sprintf(text, "(0,%lld)", (long long)j);
        assert_string_equal(tuple_text_of(&s.offset), text);
        assert_int_equal(at.value[0], x);
        sprintf(text, "(%lld,%lld)", (long long)i, (long long)j);
        s = ptxpack_domain_offset(T(text), &id);
        assert_identical(&s.layout, &id, "domain_offset");
        assert_string_equal(tuple_text_of(&s.offset), text);
        sprintf(text, "<%lld,%lld>", (long long)tile_m, (long long)tile_n);
        layout tiled = must(ptxpack_zipped_divide(&id, L(text)));
        for (int64_t a = 0; a < m * n; a++) {
            int64_t in = a % (tile_m * tile_n), out = a / (tile_m * tile_n), across = m / tile_m;
            int64_t row = in % tile_m + tile_m * (out % across), column = in / tile_m + tile_n * (out / across);
            at = ptxpack_layout_crd2idx(&tiled, keep_tuple(ptxpack_int(a)));
            assert_coord(&at, pair(m, n), row + m * column, "tile");
        }
    }
}

/* ---- from an offset to a coordinate ----------------------------------------------------------------- */
/* An offset of a compact layout has one coordinate, in three forms; an offset that it does not reach has
 * none. */
static void test_coord_of_offset(void **state)
{
    int done = 0;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const layout *l = random_layout(round % 2 ? BIJECTIVE : GAPS, 4, 256);
        int64_t       size = size_of(&l->shape), n = 0;
        static bool   reached[1 << 16];
        memset(reached, 0, sizeof reached);
        for (int64_t i = 0; i < size; i++) {
            int64_t x = value_at(l, i);
            tuple   hier = ptxpack_get_hier_coord(l, x), each = ptxpack_get_flat_coord(l, x);
            tuple   one = ptxpack_get_1d_coord(l, x), want = ptxpack_int(i);
            if (x >= 0 && x < (int64_t)(sizeof reached / sizeof *reached))
                reached[x] = true;
            if (hier.status != PTXPACK_OK) /* gaps that no remainder shows */
                continue;
            n++;
            assert_true(ptxpack_tuple_equal(&one, &want) || !injective(l));
            assert_true(ptxpack_congruent(&hier, &l->shape) && ptxpack_rank(&each) == ptxpack_rank(&l->shape));
            tuple back = ptxpack_layout_crd2idx(l, &hier);
            assert_true(back.status == PTXPACK_OK && back.value[0] == x);
            back = ptxpack_layout_crd2idx(l, &each); /* one mode: one integer, which counts through it */
            assert_true(back.status == PTXPACK_OK && back.value[0] == x);
        }
        assert_true(n == size || round % 2 == 0);
        for (int64_t x = -3; x < 300; x++) {
            tuple c = ptxpack_get_hier_coord(l, x);
            if (c.status == PTXPACK_OK && (x < 0 || !reached[x]))
                fail_msg("%s does not reach %lld, not at %s", text_of(l), (long long)x, tuple_text_of(&c));
        }
        done += n > 1;
    }
    assert_in_range(done, ROUNDS / 2, ROUNDS);
    static const int64_t offsets[] = {5, 99, -1, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        assert_int_equal(ptxpack_get_hier_coord(L("(4,2):(1,8)"), offsets[i]).status, PTXPACK_E_ARG);
        assert_int_equal(ptxpack_get_flat_coord(L("(4,2):(1,8)"), offsets[i]).status, PTXPACK_E_ARG);
        assert_int_equal(ptxpack_get_1d_coord(L("(4,2):(1,8)"), offsets[i]).status, PTXPACK_E_ARG);
    }
    tuple c = ptxpack_get_1d_coord(L("(4,2):(2,1)"), 5);
    assert_string_equal(tuple_text_of(&c), "6");
    c = ptxpack_get_1d_coord(L("((2,2),3):((3,6),1)"), 11);
    assert_string_equal(tuple_text_of(&c), "11");
    c = ptxpack_get_1d_coord(L("((2,2),3):((3,6),1)"), 7);
    assert_string_equal(tuple_text_of(&c), "6");
}

static void test_ceil_div_layout(void **state)
{
    (void)state;
    tuple t = ptxpack_ceil_div_layout(T("24"), L("4:2"));
    assert_string_equal(tuple_text_of(&t), "(2,3)");
    t = ptxpack_ceil_div_layout(T("30"), L("4:1"));
    assert_string_equal(tuple_text_of(&t), "8");
    t = ptxpack_ceil_div_layout(T("(24,2)"), L("(2,4):(1,6)"));
    assert_string_equal(tuple_text_of(&t), "(3,2)");
    t = ptxpack_ceil_div_layout(T("24"), L("<4>"));
    assert_int_equal(t.status, PTXPACK_E_ARG);
}

int main(void)
{
    /* clang-format off */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_modes),         cmocka_unit_test(test_zip),
        cmocka_unit_test(test_slices),        cmocka_unit_test(test_domain_offset),
        cmocka_unit_test(test_left_right),    cmocka_unit_test(test_ordered),
        cmocka_unit_test(test_like),          cmocka_unit_test(test_fragment_like),
        cmocka_unit_test(test_identity),      cmocka_unit_test(test_identity_slices),
        cmocka_unit_test(test_coord_of_offset), cmocka_unit_test(test_ceil_div_layout),
    };
    /* clang-format on */
    return cmocka_run_group_tests(tests, print_seed, NULL);
}
