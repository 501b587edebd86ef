/* int.c - nested tuples: arithmetic.  A basis item acts as its value, as in CuTe. */
#include "arithmetic.h"
#include "internal.h"
#include "sum.h"

/* ---- one leaf ------------------------------------------------------------------------------------- */
static bool is_number(uint64_t kind) { return kind == 0; }

static int64_t value_of(tuple_node leaf) { return leaf.t->value[leaf.begin]; }

static uint64_t kind_of(tuple_node leaf) { return leaf.t->kind[leaf.begin]; }

/* What an operation that builds `out` needs on its way down: the first error ends it. */
typedef struct walk {
    const char    *who;
    tuple_builder  b;
    ptxpack_status status;
} walk;

#define FAIL(w, ...) \
    ((w)->status == PTXPACK_OK ? (void)((w)->status = tuple_error(__VA_ARGS__).status) : (void)0)

static ptxpack_tuple walked(const walk *w, const ptxpack_tuple *out)
{
    return w->status != PTXPACK_OK ? tuple_failed(w->status) : *out;
}

/* ---- products ------------------------------------------------------------------------------------- */
static bool has_zero(tuple_node n)
{
    for (int i = n.begin; i < n.end; i++)
        if (n.t->value[i] == 0 && is_number(n.t->kind[i]))
            return true;
    return false;
}

/* The product of the leaves; at most one of them may be a basis, whose path the product then has. */
static bool product_of(const char *who, tuple_node n, int64_t *value, uint64_t *kind)
{
    *value = 1;
    *kind = 0;
    bool fits = true;
    for (int i = n.begin; i < n.end; i++) {
        uint64_t k = n.t->kind[i];
        if (k == PTXPACK_EMPTY)
            continue;
        if (k == PTXPACK_UNDERSCORE || (k != 0 && *kind != 0)) {
            tuple_error(k == PTXPACK_UNDERSCORE ? "%s: _ in %s is not an integer"
                                                : "%s: two basis values in %s have no product",
                        who, node_text(n).text);
            return false;
        }
        *kind |= k;
        fits = fits && mul_into(*value, n.t->value[i], value);
    }
    if (!fits && !has_zero(n)) {
        tuple_error("%s: the product of %s overflows 64 bits", who, node_text(n).text);
        return false;
    }
    *value = fits ? *value : 0;
    return true;
}

ptxpack_tuple ptxpack_product(const ptxpack_tuple *t)
{
    GIVEN_TUPLE(t);
    if (t->status != PTXPACK_OK)
        return tuple_failed(t->status);
    int64_t  value;
    uint64_t kind;
    if (!product_of("product", tuple_root(t), &value, &kind))
        return tuple_failed(PTXPACK_E_ARG);
    ptxpack_tuple out;
    tuple_builder b = build_begin(&out);
    build_leaf(&b, value, kind);
    return out;
}

ptxpack_tuple ptxpack_product_each(const ptxpack_tuple *t)
{
    GIVEN_TUPLE(t);
    if (t->status != PTXPACK_OK)
        return tuple_failed(t->status);
    ptxpack_tuple out;
    tuple_builder b = build_begin(&out);
    build_open(&b);
    tuple_node n = tuple_root(t);
    for (tuple_node m = node_first(n); m.begin < n.end; m = node_next(n, m)) {
        int64_t  value;
        uint64_t kind;
        if (!product_of("product_each", m, &value, &kind))
            return tuple_failed(PTXPACK_E_ARG);
        build_leaf(&b, value, kind);
    }
    build_close(&b);
    return out;
}

/* Whether a and b are tuples of equal rank: what most walks ask before they go down. */
static bool equal_ranks(walk *w, tuple_node a, tuple_node b)
{
    if (!node_is_leaf(a) && !node_is_leaf(b) && node_rank(a) == node_rank(b))
        return true;
    FAIL(w, "%s: %s and %s differ in nesting", w->who, node_text(a).text, node_text(b).text);
    return false;
}

static void product_at(walk *w, tuple_node n, tuple_node guide)
{
    if (node_is_leaf(guide)) {
        int64_t  value;
        uint64_t kind;
        if (!product_of(w->who, n, &value, &kind))
            w->status = PTXPACK_E_ARG;
        build_leaf(&w->b, value, kind);
        return;
    }
    if (!equal_ranks(w, n, guide))
        return;
    build_open(&w->b);
    tuple_node m = node_first(n);
    for (tuple_node g = node_first(guide); g.begin < guide.end && w->status == PTXPACK_OK;
         g = node_next(guide, g), m = node_next(n, m))
        product_at(w, m, g);
    build_close(&w->b);
}

ptxpack_tuple ptxpack_product_like(const ptxpack_tuple *t, const ptxpack_tuple *guide)
{
    GIVEN_TUPLE(t);
    GIVEN_TUPLE(guide);
    if (error_of(t, guide) != PTXPACK_OK)
        return tuple_failed(error_of(t, guide));
    ptxpack_tuple out;
    walk          w = {.who = "product_like", .b = build_begin(&out)};
    product_at(&w, tuple_root(t), tuple_root(guide));
    return walked(&w, &out);
}

/* ---- elementwise ---------------------------------------------------------------------------------- */
static void scale_in(walk *w, tuple_node x, tuple_node y)
{
    if (!node_is_leaf(x)) {
        if (!equal_ranks(w, x, y))
            return;
        build_open(&w->b);
        tuple_node m = node_first(y);
        for (tuple_node n = node_first(x); n.begin < x.end && w->status == PTXPACK_OK;
             n = node_next(x, n), m = node_next(y, m))
            scale_in(w, n, m);
        build_close(&w->b);
        return;
    }
    int64_t  value;
    uint64_t kind;
    if (!product_of(w->who, y, &value, &kind)) {
        w->status = PTXPACK_E_ARG;
        return;
    }
    if (kind_of(x) == PTXPACK_UNDERSCORE || (kind != 0 && kind_of(x) != 0))
        FAIL(w, "%s: %s and %s have no product", w->who, node_text(x).text, node_text(y).text);
    else if (!mul_into(value_of(x), value, &value))
        FAIL(w, "%s: %s times %s overflows 64 bits", w->who, node_text(x).text, node_text(y).text);
    build_leaf(&w->b, value, kind | kind_of(x));
}

ptxpack_tuple ptxpack_elem_scale(const ptxpack_tuple *x, const ptxpack_tuple *y)
{
    GIVEN_TUPLE(x);
    GIVEN_TUPLE(y);
    if (error_of(x, y) != PTXPACK_OK)
        return tuple_failed(error_of(x, y));
    ptxpack_tuple out;
    walk          w = {.who = "elem_scale", .b = build_begin(&out)};
    scale_in(&w, tuple_root(x), tuple_root(y));
    return walked(&w, &out);
}

static void ones_in(walk *w, tuple_node guide, tuple_node n)
{
    if (node_is_leaf(guide)) {
        bool           zero = value_of(guide) == 0 && is_number(kind_of(guide));
        tuple_builder *b = &w->b;
        int            first = b->t->items;
        build_node(b, n);
        for (int i = first; zero && i < b->t->items; i++)
            if (b->t->kind[i] != PTXPACK_EMPTY) {
                b->t->value[i] = 1;
                b->t->kind[i] = 0;
            }
        return;
    }
    if (!equal_ranks(w, guide, n))
        return;
    build_open(&w->b);
    tuple_node m = node_first(n);
    for (tuple_node g = node_first(guide); g.begin < guide.end && w->status == PTXPACK_OK;
         g = node_next(guide, g), m = node_next(n, m))
        ones_in(w, g, m);
    build_close(&w->b);
}

ptxpack_tuple ptxpack_filter_zeros_by(const ptxpack_tuple *guide, const ptxpack_tuple *t)
{
    GIVEN_TUPLE(guide);
    GIVEN_TUPLE(t);
    if (error_of(guide, t) != PTXPACK_OK)
        return tuple_failed(error_of(guide, t));
    ptxpack_tuple out;
    walk          w = {.who = "filter_zeros", .b = build_begin(&out)};
    ones_in(&w, tuple_root(guide), tuple_root(t));
    return walked(&w, &out);
}

ptxpack_tuple ptxpack_abs(const ptxpack_tuple *t)
{
    GIVEN_TUPLE(t);
    if (t->status != PTXPACK_OK)
        return tuple_failed(t->status);
    ptxpack_tuple out = *t;
    for (int i = 0; i < t->items; i++) {
        if (t->kind[i] >= PTXPACK_EMPTY)
            continue;
        if (t->value[i] == INT64_MIN)
            return tuple_error("abs: of %s it overflows 64 bits", tuple_text(t).text);
        out.value[i] = t->value[i] < 0 ? -t->value[i] : t->value[i];
    }
    return out;
}

ptxpack_tuple ptxpack_signum(const ptxpack_tuple *t)
{
    GIVEN_TUPLE(t);
    if (t->status != PTXPACK_OK)
        return tuple_failed(t->status);
    ptxpack_tuple out = *t;
    for (int i = 0; i < t->items; i++) {
        if (t->kind[i] != 0 && t->kind[i] != PTXPACK_EMPTY)
            return tuple_error("signum: %s is not made of integers alone", tuple_text(t).text);
        if (t->kind[i] == 0)
            out.value[i] = (t->value[i] > 0) - (t->value[i] < 0);
    }
    return out;
}

/* ---- division ------------------------------------------------------------------------------------- */
/* How two integers divide: rounding up, or rounding up where one divides the other. */
typedef enum division { CEIL, EXACT } division;

/* a / b for a leaf a, which may be a basis, and a positive integer b. */
static bool divide(walk *w, division how, int64_t a, int64_t b, int64_t *quotient)
{
    *quotient = 0;
    if (b < 1 || a < 0)
        FAIL(w, "%s: %lld by %lld needs a number from 0 on and a positive divisor", w->who, (long long)a,
             (long long)b);
    else if (how == EXACT && a % b != 0 && (a == 0 || b % a != 0))
        FAIL(w, "%s: neither of %lld and %lld divides the other", w->who, (long long)a, (long long)b);
    else
        *quotient = a / b + (a % b != 0);
    return w->status == PTXPACK_OK;
}

static void divide_leaf(walk *w, division how, tuple_node leaf, int64_t b)
{
    int64_t quotient = 0;
    if (kind_of(leaf) == PTXPACK_UNDERSCORE)
        FAIL(w, "%s: _ is not an integer", w->who);
    else
        divide(w, how, value_of(leaf), b, &quotient);
    build_leaf(&w->b, quotient, kind_of(leaf));
}

/* From left to right each leaf is divided by as much of the divisor as possible; the rest stays in *b. */
static void divide_fold(walk *w, division how, tuple_node n, int64_t *b)
{
    build_open(&w->b);
    for (tuple_node m = node_first(n); m.begin < n.end && w->status == PTXPACK_OK; m = node_next(n, m)) {
        if (!node_is_leaf(m)) {
            divide_fold(w, how, m, b);
            continue;
        }
        divide_leaf(w, how, m, *b);
        divide(w, how, *b, value_of(m), b);
    }
    build_close(&w->b);
}

static void divide_in(walk *w, division how, tuple_node x, tuple_node y)
{
    if (!node_is_leaf(x) && !node_is_leaf(y)) {
        int missing = node_rank(x) - node_rank(y);
        if (missing < 0 || (how == EXACT && missing > 0)) {
            FAIL(w, "%s: %s and %s differ in rank", w->who, node_text(x).text, node_text(y).text);
            return;
        }
        build_open(&w->b);
        tuple_node m = node_first(y);
        for (tuple_node n = node_first(x); n.begin < x.end && w->status == PTXPACK_OK; n = node_next(x, n)) {
            if (m.begin < y.end)
                divide_in(w, how, n, m);
            else
                build_node(&w->b, n);
            m = node_next(y, m);
        }
        build_close(&w->b);
        return;
    }
    int64_t  divisor;
    uint64_t kind;
    if (!product_of(w->who, y, &divisor, &kind))
        w->status = PTXPACK_E_ARG;
    else if (kind != 0)
        FAIL(w, "%s: the divisor %s is not an integer", w->who, node_text(y).text);
    else if (node_is_leaf(x))
        divide_leaf(w, how, x, divisor);
    else
        divide_fold(w, how, x, &divisor);
}

static ptxpack_tuple divided(const char *who, division how, const ptxpack_tuple *x, const ptxpack_tuple *y)
{
    if (error_of(x, y) != PTXPACK_OK)
        return tuple_failed(error_of(x, y));
    ptxpack_tuple out;
    walk          w = {.who = who, .b = build_begin(&out)};
    divide_in(&w, how, tuple_root(x), tuple_root(y));
    return walked(&w, &out);
}

ptxpack_tuple ptxpack_ceil_div(const ptxpack_tuple *x, const ptxpack_tuple *y)
{
    GIVEN_TUPLE(x);
    GIVEN_TUPLE(y);
    return divided("ceil_div", CEIL, x, y);
}

ptxpack_tuple ptxpack_shape_div(const ptxpack_tuple *x, const ptxpack_tuple *y)
{
    GIVEN_TUPLE(x);
    GIVEN_TUPLE(y);
    return divided("shape_div", EXACT, x, y);
}

static void round_in(walk *w, tuple_node x, tuple_node y)
{
    if (!node_is_leaf(x) && !node_is_leaf(y) && node_rank(x) >= node_rank(y)) {
        build_open(&w->b);
        tuple_node m = node_first(y);
        for (tuple_node n = node_first(x); n.begin < x.end && w->status == PTXPACK_OK; n = node_next(x, n)) {
            if (m.begin < y.end)
                round_in(w, n, m);
            else
                build_node(&w->b, n);
            m = node_next(y, m);
        }
        build_close(&w->b);
        return;
    }
    if (!node_is_leaf(x) || !node_is_leaf(y) || !is_number(kind_of(x)) || !is_number(kind_of(y))) {
        FAIL(w, "%s: %s and %s are neither two integers nor tuples whose ranks fit", w->who, node_text(x).text,
             node_text(y).text);
        return;
    }
    int64_t rounded;
    if (divide(w, CEIL, value_of(x), value_of(y), &rounded) && !mul_into(rounded, value_of(y), &rounded))
        FAIL(w, "%s: %s to a multiple of %s overflows 64 bits", w->who, node_text(x).text, node_text(y).text);
    build_leaf(&w->b, rounded, 0);
}

ptxpack_tuple ptxpack_round_up(const ptxpack_tuple *x, const ptxpack_tuple *y)
{
    GIVEN_TUPLE(x);
    GIVEN_TUPLE(y);
    if (error_of(x, y) != PTXPACK_OK)
        return tuple_failed(error_of(x, y));
    ptxpack_tuple out;
    walk          w = {.who = "round_up", .b = build_begin(&out)};
    round_in(&w, tuple_root(x), tuple_root(y));
    return walked(&w, &out);
}

/* ---- over all leaves ------------------------------------------------------------------------------ */
/* The greatest common divisor, not negative; INT64_MIN and INT64_MIN have none in 64 bits. */
static bool gcd_into(int64_t a, int64_t b, int64_t *out)
{
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    uint64_t less = x < y ? x : y, more = x < y ? y : x;
    *out = less == 0 ? (int64_t)more : gcd_of((int64_t)less, (int64_t)(more % less));
    return *out >= 0;
}

static bool max_into(int64_t a, int64_t b, int64_t *out)
{
    *out = a > b ? a : b;
    return true;
}

static bool min_into(int64_t a, int64_t b, int64_t *out)
{
    *out = a < b ? a : b;
    return true;
}

static ptxpack_tuple over_leaves(const char *who, const ptxpack_tuple *t,
                                 bool (*join)(int64_t a, int64_t b, int64_t *out))
{
    if (t->status != PTXPACK_OK)
        return tuple_failed(t->status);
    int64_t all = t->value[0];
    for (int i = 0; i < t->items; i++) {
        if (!is_number(t->kind[i]))
            return tuple_error("%s: %s is not made of integers alone", who, tuple_text(t).text);
        if (i > 0 && !join(all, t->value[i], &all))
            return tuple_error("%s: of %s it overflows 64 bits", who, tuple_text(t).text);
    }
    return ptxpack_int(all);
}

ptxpack_tuple ptxpack_max(const ptxpack_tuple *t)
{
    GIVEN_TUPLE(t);
    return over_leaves("max", t, max_into);
}

ptxpack_tuple ptxpack_min(const ptxpack_tuple *t)
{
    GIVEN_TUPLE(t);
    return over_leaves("min", t, min_into);
}

ptxpack_tuple ptxpack_gcd(const ptxpack_tuple *t)
{
    GIVEN_TUPLE(t);
    return over_leaves("gcd", t, gcd_into);
}

/* ---- sums ----------------------------------------------------------------------------------------- */
ptxpack_tuple ptxpack_sum(const ptxpack_tuple *t)
{
    GIVEN_TUPLE(t);
    if (t->status != PTXPACK_OK)
        return tuple_failed(t->status);
    tuple_sum s = {.who = "sum"};
    for (int i = 0; i < t->items; i++)
        if (t->kind[i] != PTXPACK_EMPTY)
            sum_add(&s, 1, t->value[i], t->kind[i]);
    return sum_end(&s);
}

static void inner_in(walk *w, tuple_sum *s, tuple_node x, tuple_node y)
{
    if (!node_is_leaf(x) || !node_is_leaf(y)) {
        if (!equal_ranks(w, x, y))
            return;
        tuple_node m = node_first(y);
        for (tuple_node n = node_first(x); n.begin < x.end && w->status == PTXPACK_OK;
             n = node_next(x, n), m = node_next(y, m))
            inner_in(w, s, n, m);
        return;
    }
    if (kind_of(x) != 0 && kind_of(y) != 0)
        FAIL(w, "%s: %s and %s have no product", w->who, node_text(x).text, node_text(y).text);
    sum_add(s, value_of(x), value_of(y), kind_of(x) | kind_of(y));
}

ptxpack_tuple ptxpack_inner_product(const ptxpack_tuple *x, const ptxpack_tuple *y)
{
    GIVEN_TUPLE(x);
    GIVEN_TUPLE(y);
    if (error_of(x, y) != PTXPACK_OK)
        return tuple_failed(error_of(x, y));
    walk      w = {.who = "inner_product"};
    tuple_sum s = {.who = w.who};
    inner_in(&w, &s, tuple_root(x), tuple_root(y));
    return w.status != PTXPACK_OK ? tuple_failed(w.status) : sum_end(&s);
}
