/* divide.c - divisions and products: tiles of a layout, and layouts of tiles, element by element. */
#include "algebra_fixture.h"

static int64_t f[POINTS], g[POINTS];

/* ---- division by a layout ----------------------------------------------------------------------------- */
/* r is a in tiles t: (tile, rest), the tile a o t, and each element as often as in a, or more often if t does
 * not divide a. */
static void check_divided(const layout *r, const layout *a, const layout *t)
{
    int64_t size = size_of(&a->shape), tile = size_of(&t->shape);
    if (ptxpack_rank(&r->shape) != 2)
        fail_msg("%s in tiles of %s: %s", text_of(a), text_of(t), text_of(r));
    layout in = must(ptxpack_mode(r, 0)), out = must(ptxpack_mode(r, 1));
    assert_int_equal(size_of(&in.shape), tile);
    for (int64_t i = 0; i < tile; i++)
        if (value_at(&in, i) != value_at(a, value_at(t, i)))
            fail_msg("%s in tiles of %s: %s", text_of(a), text_of(t), text_of(r));
    if (value_at(&out, 0) != 0 || tile * size_of(&out.shape) < size || !injective(t))
        assert_true(value_at(&out, 0) == 0 && !injective(t));
    if (tile * size_of(&out.shape) != size || !injective(t) || ptxpack_cosize(t) > size || !strides_divide(t))
        return; /* some parts lie outside a, and equally many are in no tile */
    assert_int_equal(sorted_values(r, f), sorted_values(a, g));
    if (memcmp(f, g, sizeof *f * (size_t)size) != 0)
        fail_msg("%s in tiles of %s: %s has other elements", text_of(a), text_of(t), text_of(r));
}

static void test_divide(void **state)
{
    int done = 0;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const layout *a = random_layout((strides)(round % STRIDES), 4, 256);
        const layout *t = random_steps(size_of(&a->shape), 3);
        layout        r = ptxpack_logical_divide(a, t), one = ptxpack_composition(a, t);
        if (!accepted(&r)) {
            layout rest = ptxpack_complement(t, keep_tuple(ptxpack_int(size_of(&a->shape))));
            layout both = ok(&rest) ? ptxpack_layout_join(2, two(t, &rest)) : rest;
            layout all = ok(&both) ? ptxpack_composition(a, &both) : both;
            if (ok(&one) && ok(&all) && injective(t))
                fail_msg("logical_divide(%s,%s): but (%s) o %s can be done", text_of(a), text_of(t), text_of(a),
                         text_of(&both));
            continue;
        }
        done++;
        check_divided(&r, a, t);
    }
    assert_in_range(done, ROUNDS / 3, ROUNDS);
    layout rounded = must(ptxpack_logical_divide(L("10:1"), L("4:1")));
    assert_string_equal(text_of(&rounded), "(4,3):(1,4)");
}

/* ---- division mode by mode -------------------------------------------------------------------------- */
typedef struct pairs { /* rank modes, each divided or multiplied by its own tile */
    int     rank, tiled;
    layout  a[3], t[3], whole, tiler;
    int64_t first[3], second[3]; /* sizes of each mode's two parts */
} pairs;

static void random_pairs(pairs *p, bool underscores, bool steps)
{
    p->rank = 1 + draw(3);
    p->tiled = 1 + draw(p->rank);
    for (int k = 0; k < p->rank; k++)
        p->a[k] = *random_mode((strides)draw(STRIDES), 2, 12);
    for (int k = 0; k < p->tiled; k++) {
        int64_t size = size_of(&p->a[k].shape);
        tuple   n = ptxpack_int(draw(8) ? random_divisor(size) : 1 + draw(5));
        layout  integer = must(ptxpack_make_layout(&n, keep_tuple(ptxpack_int(1))));
        p->t[k] = underscores && draw(5) == 0 ? *L("_") : draw(2) || !steps ? integer : *random_steps(size, 2);
    }
    p->whole = must(ptxpack_layout_join(p->rank, p->a));
    p->tiler = must(ptxpack_make_tiler(p->tiled, p->t));
}

static void check_logical(const layout *r, const pairs *p)
{
    assert_int_equal(ptxpack_rank(&r->shape), p->rank);
    for (int k = 0; k < p->rank; k++) {
        layout mode = must(ptxpack_mode(r, k));
        if (k >= p->tiled || p->t[k].shape.kind[0] == PTXPACK_UNDERSCORE)
            assert_identical(&mode, &p->a[k], "an undivided mode");
        else
            check_divided(&mode, &p->a[k], &p->t[k]);
    }
}

/* The same values as r, whose modes are pairs, when all first parts come before all second ones. */
static void check_gathered(const layout *r, const layout *logical, pairs *p, const char *what)
{
    int64_t size = size_of(&logical->shape);
    for (int k = 0; k < p->rank; k++) {
        layout mode = must(ptxpack_mode(logical, k));
        p->first[k] = k < p->tiled ? ptxpack_mode_size(&mode, 0) : 1;
        p->second[k] = size_of(&mode.shape) / p->first[k];
    }
    if (!ok(r) || size_of(&r->shape) != size)
        fail_msg("%s of %s by %s: %s", what, text_of(&p->whole), text_of(&p->tiler), text_of(r));
    for (int64_t i = 0; i < size; i++) {
        int64_t rest = i, at[3] = {0}, from = 0, before = 1;
        for (int k = 0; k < p->rank; k++, rest /= p->first[k - 1])
            at[k] = rest % p->first[k];
        for (int k = 0; k < p->rank; k++, rest /= p->second[k - 1])
            at[k] += rest % p->second[k] * p->first[k];
        for (int k = 0; k < p->rank; k++) {
            from += at[k] * before;
            before *= p->first[k] * p->second[k];
        }
        if (value_at(r, i) != value_at(logical, from))
            fail_msg("%s of %s by %s: %s at %lld", what, text_of(&p->whole), text_of(&p->tiler), text_of(r),
                     (long long)i);
    }
}

/* Checks their nesting: (firsts),(seconds); (firsts),second..; first..,second.. */
static void check_forms(const layout *zipped, const layout *tiled, const layout *flattened, int rank, int tiles)
{
    layout rests = must(ptxpack_mode(zipped, 1)), firsts = must(ptxpack_mode(zipped, 0));
    layout first = must(ptxpack_mode(tiled, 0));
    assert_int_equal(ptxpack_rank(&zipped->shape), 2);
    assert_int_equal(ptxpack_rank(&rests.shape), rank);
    assert_int_equal(ptxpack_rank(&firsts.shape), tiles);
    assert_identical(&first, &firsts, "the tiles");
    assert_int_equal(ptxpack_rank(&tiled->shape), 1 + (rank > 1 ? rank : 1));
    assert_int_equal(ptxpack_rank(&flattened->shape), tiles + rank);
}

static void test_divide_by_mode(void **state)
{
    int done = 0;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        pairs p;
        random_pairs(&p, true, true);
        layout r = ptxpack_logical_divide(&p.whole, &p.tiler);
        if (!accepted(&r))
            continue;
        done++;
        check_logical(&r, &p);
    }
    assert_in_range(done, ROUNDS / 3, ROUNDS);
    done = 0;
    for (int round = 0; round < ROUNDS; round++) {
        pairs p;
        random_pairs(&p, false, true);
        layout r = ptxpack_logical_divide(&p.whole, &p.tiler), z = ptxpack_zipped_divide(&p.whole, &p.tiler);
        layout t = ptxpack_tiled_divide(&p.whole, &p.tiler), all = ptxpack_flat_divide(&p.whole, &p.tiler);
        assert_true(accepted(&z) == ok(&r) && accepted(&t) == ok(&r) && accepted(&all) == ok(&r));
        if (!ok(&r))
            continue;
        done++;
        check_gathered(&z, &r, &p, "zipped_divide");
        check_gathered(&t, &r, &p, "tiled_divide");
        check_gathered(&all, &r, &p, "flat_divide");
        check_forms(&z, &t, &all, p.rank, p.tiled);
        layout tile = must(ptxpack_mode(&z, 0)), composed = must(ptxpack_composition(&p.whole, &p.tiler));
        assert_same(&tile, &composed, "the tile of a zipped_divide");
    }
    assert_in_range(done, ROUNDS / 3, ROUNDS);
}

/* ---- products --------------------------------------------------------------------------------------- */
/* The first part of r counts through `block` and the rest through `tiler`: the blocks are shifted in the order
 * of the tiler, and do not overlap. */
static void check_product(const layout *r, const layout *block, const layout *tiler)
{
    int64_t n = size_of(&block->shape), m = size_of(&tiler->shape);
    if (size_of(&r->shape) != n * m)
        fail_msg("%s times %s: %s", text_of(block), text_of(tiler), text_of(r));
    for (int64_t t = 0; t < m; t++) {
        f[t] = value_at(r, t * n);
        g[t] = value_at(tiler, t);
        for (int64_t i = 0; i < n; i++)
            if (value_at(r, i + t * n) != f[t] + value_at(block, i))
                fail_msg("%s times %s: %s is no block at %lld", text_of(block), text_of(tiler), text_of(r),
                         (long long)t);
    }
    for (int64_t t = 1; t < m; t++)
        if ((f[t] < f[t - 1]) != (g[t] < g[t - 1]) || (f[t] == f[t - 1]) != (g[t] == g[t - 1]))
            fail_msg("%s times %s: %s in another order", text_of(block), text_of(tiler), text_of(r));
    if (n * m > POINTS || !injective(block) || !injective(tiler))
        return;
    if (!injective(r) || (bijective(block) && bijective(tiler) && !bijective(r)))
        fail_msg("%s times %s: %s overlaps or leaves gaps", text_of(block), text_of(tiler), text_of(r));
}

static strides no_sign(int n)
{
    static const strides some[] = {BIJECTIVE, BIJECTIVE, GAPS, ZEROS};
    return some[n % 4];
}

static void test_product(void **state)
{
    int done = 0;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const layout *a = random_mode(no_sign(draw(4)), 3, 32), *t = random_mode(no_sign(draw(4)), 3, 32);
        layout        r = ptxpack_logical_product(a, t);
        if (!accepted(&r)) {
            if (bijective(a) && bijective(t))
                fail_msg("logical_product(%s,%s): %s", text_of(a), text_of(t), text_of(&r));
            continue;
        }
        done++;
        layout first = must(ptxpack_mode(&r, 0));
        assert_identical(&first, a, "the block of a product");
        check_product(&r, a, t);
    }
    assert_in_range(done, ROUNDS / 2, ROUNDS);
    layout over = ptxpack_logical_product(L("(5,2):(4,32)"), L("5:1")); /* the gap holds 4 tiles */
    assert_false(accepted(&over));
}

static void test_product_by_mode(void **state)
{
    int done = 0;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        pairs p;
        random_pairs(&p, false, false);
        layout r = ptxpack_logical_product(&p.whole, &p.tiler), z = ptxpack_zipped_product(&p.whole, &p.tiler);
        layout t = ptxpack_tiled_product(&p.whole, &p.tiler), all = ptxpack_flat_product(&p.whole, &p.tiler);
        assert_true(accepted(&z) == ok(&r) && accepted(&t) == ok(&r) && accepted(&all) == ok(&r));
        if (!ok(&r))
            continue;
        done++;
        for (int k = 0; k < p.rank; k++) {
            layout mode = must(ptxpack_mode(&r, k));
            if (k < p.tiled)
                check_product(&mode, &p.a[k], &p.t[k]);
            else
                assert_identical(&mode, &p.a[k], "a mode beyond the tiler");
        }
        check_gathered(&z, &r, &p, "zipped_product");
        check_gathered(&t, &r, &p, "tiled_product");
        check_gathered(&all, &r, &p, "flat_product");
        check_forms(&z, &t, &all, p.rank, p.tiled);
    }
    assert_in_range(done, ROUNDS / 3, ROUNDS);
}

/* ---- blocked, raked --------------------------------------------------------------------------------- */
/* The modes of l, filled up with 1:0 to rank modes. */
static void padded(const layout *l, int rank, int64_t *sizes)
{
    for (int k = 0; k < rank; k++)
        sizes[k] = k < ptxpack_rank(&l->shape) ? ptxpack_mode_size(l, k) : 1;
}

/* r with the two parts of each mode in the order (block, tile), as a table. */
static layout as_product(const layout *r, const layout *a, const layout *t, bool raked)
{
    int     rank = ptxpack_rank(&r->shape);
    int64_t na[8], nt[8];
    layout  blocks[8], tiles[8], all[2];
    assert_in_range(rank, 1, 8);
    padded(a, rank, na);
    padded(t, rank, nt);
    for (int k = 0; k < rank; k++) { /* a mode is (block, tile) or (tile, block) */
        layout mode = must(ptxpack_mode(r, k));
        assert_int_equal(ptxpack_rank(&mode.shape), 2);
        blocks[k] = must(ptxpack_mode(&mode, raked));
        tiles[k] = must(ptxpack_mode(&mode, !raked));
        if (size_of(&blocks[k].shape) != na[k] || size_of(&tiles[k].shape) != nt[k])
            fail_msg("product of %s and %s: %s", text_of(a), text_of(t), text_of(r));
    }
    all[0] = must(ptxpack_layout_join(rank, blocks));
    all[1] = must(ptxpack_layout_join(rank, tiles));
    return must(ptxpack_layout_join(2, all));
}

static void test_blocked_raked(void **state)
{
    int done = 0;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const layout *a = random_mode(no_sign(draw(4)), 3, 32), *t = random_mode(no_sign(draw(4)), 3, 32);
        layout        b = ptxpack_blocked_product(a, t), k = ptxpack_raked_product(a, t);
        if (!accepted(&b) || !accepted(&k)) {
            assert_false(bijective(a) && bijective(t));
            assert_false(ok(&b) && ok(&k));
            continue;
        }
        done++;
        layout product = as_product(&b, a, t, false);
        check_product(&product, a, t);
        layout other = as_product(&k, a, t, true);
        assert_same(&other, &product, "raked_product");
    }
    assert_in_range(done, ROUNDS / 2, ROUNDS);
}

/* ---- tile_to_shape ---------------------------------------------------------------------------------- */
static void test_tile_to_shape(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const layout *block = random_mode(BIJECTIVE, 2, 24);
        int           rank = ptxpack_rank(&block->shape), more = rank + draw(3), order[5];
        int64_t       shape[5], tiles[5], at[5], blocks[5], steps[5];
        for (int k = 0; k < more; k++) {
            int to = draw(k + 1);
            order[k] = order[to];
            order[to] = k;
            tiles[k] = 1 + draw(3);
            blocks[k] = k < rank ? ptxpack_mode_size(block, k) : 1;
            shape[k] = tiles[k] * blocks[k];
        }
        bool first_first = draw(3) == 0;
        for (int k = 0; k < more; k++)
            at[order[k]] = k; /* mode order[k] is the k-th to grow */
        int64_t step = size_of(&block->shape);
        for (int k = 0; k < more; k++) {
            int mode = first_first ? k : order[k];
            steps[mode] = step;
            step *= tiles[mode];
        }
        tuple  whole = ptxpack_tuple_of(more, shape), way = ptxpack_tuple_of(more, at);
        layout r = must(ptxpack_tile_to_shape(block, &whole, first_first ? NULL : &way));
        assert_int_equal(ptxpack_rank(&r.shape), more);
        for (int k = 0; k < more; k++)
            assert_int_equal(ptxpack_mode_size(&r, k), shape[k]);
        assert_true(bijective(&r));
        for (int64_t i = 0; i < size_of(&r.shape); i++) {
            int64_t rest = i, inside = 0, before = 1, base = 0;
            for (int k = 0; k < more; k++, rest /= shape[k - 1], before *= blocks[k - 1]) {
                inside += rest % shape[k] % blocks[k] * before;
                base += rest % shape[k] / blocks[k] * steps[k];
            }
            if (value_at(&r, i) != base + value_at(block, inside))
                fail_msg("tile_to_shape(%s,%s,%s) = %s at %lld", text_of(block), tuple_text_of(&whole),
                         first_first ? "" : tuple_text_of(&way), text_of(&r), (long long)i);
        }
    }
    layout uneven = ptxpack_tile_to_shape(L("(4,2)"), T("(6,2)"), NULL);
    assert_false(accepted(&uneven));
    uneven = ptxpack_tile_to_shape(L("(4,2)"), T("8"), NULL);
    assert_false(accepted(&uneven));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_divide),        cmocka_unit_test(test_divide_by_mode),
        cmocka_unit_test(test_product),       cmocka_unit_test(test_product_by_mode),
        cmocka_unit_test(test_blocked_raked), cmocka_unit_test(test_tile_to_shape),
    };
    return cmocka_run_group_tests(tests, print_seed, NULL);
}
