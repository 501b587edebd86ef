/* algebra.c - coalesce, filter, composition, complement, inverses: each is compared with its definition. */
#include "algebra_fixture.h"

static int64_t f[POINTS], g[POINTS], image[POINTS];

/* ---- evaluating ------------------------------------------------------------------------------------- */
/* The library's own ways to evaluate a layout agree with the sum over its leaves. */
static void test_values(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const layout *l = random_layout((strides)(round % STRIDES), 6, 128);
        int64_t       size = size_of(&l->shape), low = 0, high = 0;
        for (int k = 0; k < l->shape.items; k++)
            high += (l->shape.value[k] - 1) * llabs(l->stride.value[k]);
        assert_int_equal(ptxpack_size(l), size);
        assert_int_equal(ptxpack_cosize(l), high + 1);
        for (int64_t i = 0; i < size + 9; i++) {
            tuple at = ptxpack_layout_crd2idx(l, keep_tuple(ptxpack_int(i)));
            assert_true(at.status == PTXPACK_OK && at.value[0] == value_at(l, i));
            if (i < size && ptxpack_at(l, i) != value_at(l, i))
                fail_msg("%s at %lld is %lld, not %lld", text_of(l), (long long)i, (long long)ptxpack_at(l, i),
                         (long long)value_at(l, i));
            low = i < size && value_at(l, i) < low ? value_at(l, i) : low;
        }
        assert_true(low >= -high);
        tuple nest_of = ptxpack_idx2crd_compact(keep_tuple(ptxpack_int(size - 1)), &l->shape);
        tuple at = ptxpack_layout_crd2idx(l, &nest_of);
        assert_int_equal(at.value[0], value_at(l, size - 1));
    }
}

/* ---- coalesce, filter ------------------------------------------------------------------------------- */
static void check_fewest(const layout *r, const layout *l, const char *what)
{
    int64_t n = values_of(r, f);
    int     least = fewest_modes(f, n);
    if (ptxpack_depth(&r->shape) > 1 || ptxpack_rank(&r->shape) > (least > 1 ? least : 1))
        fail_msg("%s of %s is %s; %d modes do", what, text_of(l), text_of(r), least);
}

/* r is l coalesced at the terminals of profile, and also filtered if `filtered`. */
static void check_terminals(const layout *r, const layout *l, const tuple *profile, bool filtered)
{
    if (!ptxpack_is_tuple(profile)) {
        check_fewest(r, l, filtered ? "filter" : "coalesce");
        layout whole = filtered ? must(ptxpack_filter_zeros(l, NULL)) : *l;
        assert_same(r, &whole, filtered ? "filter" : "coalesce");
        return;
    }
    assert_int_equal(ptxpack_rank(&r->shape), ptxpack_rank(&l->shape));
    for (int k = 0; k < ptxpack_rank(&l->shape); k++) {
        layout rk = must(ptxpack_mode(r, k)), lk = must(ptxpack_mode(l, k));
        if (k < ptxpack_rank(profile))
            check_terminals(&rk, &lk, keep_tuple(ptxpack_get(profile, k)), filtered);
        else
            assert_identical(&rk, &lk, "beyond the profile");
    }
}

static const tuple *random_profile(const layout *l)
{
    const char *texts[] = {"1", "(1)", "(1,1)", "(1,(1))", "((1,1),1)", "(1,1,1)"};
    tuple       t = *T(texts[draw(6)]);
    while (!ptxpack_weakly_congruent(&t, &l->shape)) {
        if (ptxpack_rank(&t) <= 1 || !ptxpack_is_tuple(&t))
            return T("1");
        t = ptxpack_take(&t, 0, ptxpack_rank(&t) - 1);
    }
    return keep_tuple(t);
}

static void test_coalesce(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const layout *l = random_layout((strides)(round % STRIDES), 8, 512);
        layout        r = must(ptxpack_coalesce(l, NULL));
        assert_same(&r, l, "coalesce");
        check_fewest(&r, l, "coalesce");
        const tuple *profile = random_profile(l);
        r = must(ptxpack_coalesce(l, profile));
        assert_same(&r, l, "coalesce");
        check_terminals(&r, l, profile, false);
    }
}

static void test_filter(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const layout *l = random_layout(round % 2 ? ZEROS : ANY, 8, 512);
        layout        z = must(ptxpack_filter_zeros(l, NULL)), r = must(ptxpack_filter(l, NULL));
        assert_true(ptxpack_congruent(&z.shape, &l->shape) && ptxpack_tuple_equal(&z.stride, &l->stride));
        for (int k = 0; k < l->shape.items; k++)
            assert_int_equal(z.shape.value[k], l->stride.value[k] == 0 ? 1 : l->shape.value[k]);
        /* g has the same offsets, and no mode that only repeats them */
        int64_t n = distinct(f, sorted_values(l, f)), m = distinct(g, sorted_values(&r, g));
        assert_int_equal(n, m);
        assert_memory_equal(f, g, (size_t)n * sizeof *f);
        for (int k = 0; k < r.shape.items; k++)
            assert_true(r.stride.value[k] != 0 || size_of(&r.shape) == 1);
        check_fewest(&r, l, "filter");
        const tuple *profile = random_profile(l);
        r = must(ptxpack_filter(l, profile));
        check_terminals(&r, l, profile, true);
    }
}

/* ---- composition ------------------------------------------------------------------------------------ */
/* Makes the values of A o (s:d) by the construction in the literature; returns false if its conditions fail. */
static bool by_the_book(const layout *a, int64_t s, int64_t d, int64_t *out)
{
    flat    c = {.count = 0}, r = {.count = 0};
    int64_t n = s, sign = d < 0 ? -1 : 1;
    for (int k = 0; k < a->shape.items; k++) {
        int64_t extent = a->shape.value[k], stride = a->stride.value[k];
        bool    last = k + 1 == a->shape.items;
        if (extent == 1 && !last)
            continue;
        if (c.count > 0 && stride == c.shape[c.count - 1] * c.stride[c.count - 1]) {
            c.shape[c.count - 1] *= extent;
            continue;
        }
        c.shape[c.count] = extent;
        c.stride[c.count++] = stride;
    }
    d = llabs(d);
    for (int k = 0; k + 1 < c.count && d != 0; k++) {
        int64_t here = (c.shape[k] + d - 1) / d;
        if (d % c.shape[k] != 0 && d >= c.shape[k])
            return false;
        here = here < s ? here : s;
        if (s % here != 0 || (here > 1 && s > here && c.shape[k] % d != 0))
            return false;
        r.shape[r.count] = here;
        r.stride[r.count++] = sign * d * c.stride[k];
        s /= here;
        d = (d + c.shape[k] - 1) / c.shape[k];
    }
    r.shape[r.count] = s;
    r.stride[r.count++] = sign * d * c.stride[c.count - 1];
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i;
        out[i] = 0;
        for (int k = 0; k < r.count; k++, rest /= r.shape[k - 1])
            out[i] += rest % r.shape[k] * r.stride[k];
    }
    return true;
}

/* Whether the layout a o b can be made mode by mode. */
static bool can_compose(const layout *a, const layout *b)
{
    int64_t n = size_of(&b->shape), before = 1;
    memset(g, 0, sizeof g);
    for (int k = 0; k < b->shape.items; k++) {
        int64_t extent = b->shape.value[k];
        if (!by_the_book(a, extent, b->stride.value[k], f))
            return false;
        for (int64_t i = 0; i < n; i++)
            g[i] += f[i / before % extent];
        before *= extent;
    }
    for (int64_t i = 0; i < n; i++)
        if (g[i] != value_at(a, value_at(b, i)))
            return false;
    return true;
}

static bool check_composition(const layout *a, const layout *b)
{
    layout r = ptxpack_composition(a, b);
    if (!accepted(&r)) {
        if (ptxpack_depth(&b->shape) < PTXPACK_TUPLE_DEPTH && can_compose(a, b))
            fail_msg("composition(%s,%s) can be done: %s", text_of(a), text_of(b), text_of(&r));
        return false;
    }
    if (!ptxpack_compatible(&b->shape, &r.shape))
        fail_msg("composition(%s,%s) = %s: another shape", text_of(a), text_of(b), text_of(&r));
    for (int64_t i = 0; i < size_of(&b->shape); i++)
        if (value_at(&r, i) != value_at(a, value_at(b, i)))
            fail_msg("composition(%s,%s) = %s: at %lld", text_of(a), text_of(b), text_of(&r), (long long)i);
    return true;
}

static void test_composition(void **state)
{
    int done = 0;
    (void)state;
    for (int round = 0; round < 3 * ROUNDS; round++) {
        const layout *a = random_layout((strides)(round % STRIDES), 5, 256);
        const layout *b = draw(3) ? random_steps(size_of(&a->shape), 4) : random_layout(ANY, 3, 64);
        done += check_composition(a, b);
    }
    assert_in_range(done, ROUNDS, 3 * ROUNDS);
    check_composition(L("(4,8,8):(1,32,4)"), L("4:3")); /* where CuTe is wrong */
    assert_false(check_composition(L("(5,6):(6,1)"), L("4:4")));
    assert_true(check_composition(L("(4,3):(3,1)"), L("(6,2):(2,1)")));
}

/* A tiler acts mode by mode; elements that it does not reach are omitted. */
static void test_composition_by_mode(void **state)
{
    int done = 0;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        layout modes[3], tiles[3], r;
        int    rank = 1 + draw(3), reached = 1 + draw(rank);
        for (int k = 0; k < rank; k++)
            modes[k] = *random_mode((strides)draw(STRIDES), 2, 12);
        layout a = must(ptxpack_layout_join(rank, modes));
        for (int k = 0; k < reached; k++)
            tiles[k] = draw(4) == 0 ? *L("_") : *random_steps(size_of(&modes[k].shape), 2);
        layout tiler = must(ptxpack_make_tiler(reached, tiles));
        r = ptxpack_composition(&a, &tiler);
        bool whole = true;
        for (int k = 0; k < reached; k++) {
            layout one = ptxpack_composition(&modes[k], &tiles[k]);
            whole &= ok(&one);
        }
        if (!accepted(&r)) {
            assert_false(whole);
            continue;
        }
        done++;
        assert_int_equal(ptxpack_rank(&r.shape), reached);
        for (int k = 0; k < reached; k++)
            if (tiles[k].shape.kind[0] == PTXPACK_UNDERSCORE)
                tiles[k] = must(ptxpack_make_layout_left(keep_tuple(ptxpack_product(&modes[k].shape))));
        for (int64_t i = 0; i < size_of(&r.shape); i++) {
            int64_t want = 0, rest = i;
            for (int k = 0; k < reached; k++, rest /= size_of(&tiles[k - 1].shape))
                want += value_at(&modes[k], value_at(&tiles[k], rest % size_of(&tiles[k].shape)));
            assert_int_equal(value_at(&r, i), want);
        }
    }
    assert_in_range(done, ROUNDS / 2, ROUNDS);
}

static void test_with_shape(void **state)
{
    int done = 0;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const layout *l = random_layout((strides)(round % STRIDES), 5, 256);
        const layout *b = random_steps(size_of(&l->shape), 4);
        layout        r = ptxpack_with_shape(l, &b->shape);
        done += accepted(&r);
        if (!ok(&r))
            continue;
        assert_true(ptxpack_compatible(&b->shape, &r.shape));
        for (int64_t i = 0; i < size_of(&b->shape); i++)
            assert_int_equal(value_at(&r, i), value_at(l, i));
    }
    assert_in_range(done, ROUNDS / 2, ROUNDS);
}

/* ---- complement --------------------------------------------------------------------------------------- */
static bool check_complement(const layout *l, const tuple *cotarget)
{
    layout  c = ptxpack_complement(l, cotarget), once = must(ptxpack_filter(l, NULL));
    int64_t target = cotarget != NULL ? size_of(cotarget) : ptxpack_cosize(&once);
    if (!accepted(&c)) {
        if (strides_divide(l) && (cotarget == NULL || !ptxpack_is_tuple(cotarget)))
            fail_msg("complement(%s): %s", text_of(l), text_of(&c));
        return false;
    }
    int64_t n = values_of(&c, f), m = values_of(&once, g);
    if (n * m < target)
        fail_msg("complement(%s,%lld) = %s is too small", text_of(l), (long long)target, text_of(&c));
    for (int64_t i = 1; i < n; i++)
        if (f[i] <= f[i - 1])
            fail_msg("complement(%s) = %s is not ordered", text_of(l), text_of(&c));
    if (!injective(&once) || n * m > POINTS)
        return true;
    const layout modes[2] = {once, c};
    layout       both = must(ptxpack_layout_join(2, modes));
    if (!injective(&both))
        fail_msg("complement(%s) = %s: not disjoint", text_of(l), text_of(&c));
    return true;
}

static void test_complement(void **state)
{
    int done = 0;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const layout *l = random_layout((strides)(round % STRIDES), 4, 64);
        done += check_complement(l, NULL);
        done += check_complement(l, keep_tuple(ptxpack_int(1 + draw(512))));
        check_complement(l, T(draw(2) ? "(5,4)" : "(24,(2,8))"));
    }
    assert_in_range(done, ROUNDS, 2 * ROUNDS);
    assert_false(check_complement(L("(4,3):(5,1)"), T("54"))); /* gaps that CuTe rounds off */
    assert_false(check_complement(L("(4,2):(2,1)"), T("(5,4)")));
}

/* ---- inverses --------------------------------------------------------------------------------------- */
/* How many offsets from 1 on the modes reach, if each mode begins where those before it end. */
static int64_t run_length(const layout *l)
{
    int64_t run = 1;
    for (int k = 0; k < l->shape.items; k++)
        if (l->shape.value[k] > 1 && l->stride.value[k] == run) {
            run *= l->shape.value[k];
            k = -1;
        }
    return run;
}

static void test_right_inverse(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const layout *l = random_layout((strides)(round % STRIDES), 6, 256);
        layout        r = must(ptxpack_right_inverse(l));
        int64_t       n = size_of(&r.shape);
        for (int64_t i = 0; i < n; i++)
            if (value_at(l, value_at(&r, i)) != i)
                fail_msg("right_inverse(%s) = %s: at %lld", text_of(l), text_of(&r), (long long)i);
        if (injective(l))
            assert_int_equal(n, run_length(l));
        if (bijective(l))
            assert_true(n == size_of(&l->shape) && bijective(&r));
    }
}

static void test_left_inverse(void **state)
{
    int done = 0;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const layout *l = random_layout((strides)(round % STRIDES), 6, 256);
        layout        r = ptxpack_left_inverse(l);
        if (!accepted(&r)) {
            layout once = must(ptxpack_coalesce(l, NULL));
            if (strides_divide(&once))
                fail_msg("left_inverse(%s): %s", text_of(l), text_of(&r));
            continue;
        }
        done++;
        bool once = injective(l);
        for (int64_t i = 0; i < size_of(&l->shape); i++) {
            int64_t back = value_at(&r, value_at(l, i));
            if (value_at(l, back) != value_at(l, i) || (once && back != i))
                fail_msg("left_inverse(%s) = %s: at %lld", text_of(l), text_of(&r), (long long)i);
        }
    }
    assert_in_range(done, ROUNDS / 2, ROUNDS);
}

static void test_nullspace(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const layout *l = random_layout(round % 2 ? ZEROS : ANY, 6, 256);
        layout        r = must(ptxpack_nullspace(l));
        int64_t       zeros = 1;
        for (int k = 0; k < l->shape.items; k++)
            zeros *= l->stride.value[k] == 0 ? l->shape.value[k] : 1;
        assert_int_equal(size_of(&r.shape), zeros);
        assert_true(injective(&r));
        for (int64_t i = 0; i < zeros; i++)
            assert_true(value_at(&r, i) < size_of(&l->shape) && value_at(l, value_at(&r, i)) == 0);
    }
}

/* The longest run that two bijections share: a(x) = b(x) = i for all x in the run. */
static int64_t common_run(const layout *a, const layout *b)
{
    int64_t n = values_of(a, f), run = 0;
    for (int64_t i = 0; i < n; i++)
        image[f[i]] = i;
    while (run < n && value_at(b, image[run]) == run)
        run++;
    return run;
}

static void test_max_common(void **state)
{
    int more = 0;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const layout *a = random_layout((strides)(round % STRIDES), 5, 128);
        const layout *b = draw(2) ? random_layout((strides)draw(STRIDES), 5, 128) : a;
        if (draw(3) == 0) { /* the same shape, other strides */
            flat other = {.count = a->shape.items};
            memcpy(other.shape, a->shape.value, sizeof other.shape);
            random_strides(&other, BIJECTIVE);
            b = nested(&other, 1);
        }
        layout c = ptxpack_max_common_layout(a, b);
        if (!accepted(&c)) { /* the order of b has uneven steps in a */
            assert_int_equal(ptxpack_max_common_vector(a, b), 0);
            continue;
        }
        int64_t v = ptxpack_max_common_vector(a, b), n = size_of(&c.shape);
        for (int64_t i = 0; i < n; i++)
            if (value_at(a, value_at(&c, i)) != i || value_at(b, value_at(&c, i)) != i)
                fail_msg("max_common_layout(%s,%s) = %s", text_of(a), text_of(b), text_of(&c));
        assert_int_equal(v, n);
        more += n > 1;
        if (bijective(a) && bijective(b) && size_of(&a->shape) == size_of(&b->shape))
            assert_true(n <= common_run(a, b) && (a != b || n == size_of(&a->shape)));
    }
    assert_in_range(more, ROUNDS / 4, ROUNDS);
}

/* Distributes n threads over the leaves of a shape: along each leaf as many as divide it, next to each
 * other. */
static int64_t common_divisor(int64_t a, int64_t b) { return b == 0 ? a : common_divisor(b, a % b); }

static void test_domain_distribute(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const layout *l = random_layout(BIJECTIVE, 4, 256);
        int64_t       n = 1 + draw(40), rest = n, before = 1;
        flat          want = {.count = l->shape.items};
        for (int k = 0; k < want.count; k++) {
            want.shape[k] = common_divisor(l->shape.value[k], rest);
            want.stride[k] = before;
            rest /= want.shape[k];
            before *= l->shape.value[k];
        }
        layout r = must(ptxpack_domain_distribute(&l->shape, n));
        assert_same(&r, nested(&want, 1), "domain_distribute");
    }
}

int main(void)
{
    /* clang-format off */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),        cmocka_unit_test(test_coalesce),
        cmocka_unit_test(test_filter),        cmocka_unit_test(test_composition),
        cmocka_unit_test(test_composition_by_mode), cmocka_unit_test(test_with_shape),
        cmocka_unit_test(test_complement),    cmocka_unit_test(test_right_inverse),
        cmocka_unit_test(test_left_inverse),  cmocka_unit_test(test_nullspace),
        cmocka_unit_test(test_max_common),    cmocka_unit_test(test_domain_distribute),
    };
    /* clang-format on */
    return cmocka_run_group_tests(tests, print_seed, NULL);
}
