/* compare.c - nested tuples: comparing two of them. */
#include "internal.h"

static bool both_good(const ptxpack_tuple *a, const ptxpack_tuple *b)
{
    return a->status == PTXPACK_OK && b->status == PTXPACK_OK;
}

/* The leaf's integer; false of a basis or `_`. */
static bool integer_of(tuple_node leaf, int64_t *value)
{
    *value = leaf.t->value[leaf.begin];
    return leaf.t->kind[leaf.begin] == 0;
}

/* As node_product, of integers alone. */
static bool size_of(tuple_node n, int64_t *size)
{
    for (int i = n.begin; i < n.end; i++)
        if (n.t->kind[i] != 0 && n.t->kind[i] != PTXPACK_EMPTY)
            return false;
    return node_product(n, size);
}

/* ---- equality ------------------------------------------------------------------------------------- */
static bool node_equal(tuple_node a, tuple_node b)
{
    if (!node_congruent(a, b))
        return false;
    for (int i = a.begin, j = b.begin; i < a.end; i++, j++)
        if (a.t->kind[i] != b.t->kind[j] || (a.t->value[i] != b.t->value[j] && a.t->kind[i] != PTXPACK_EMPTY &&
                                             a.t->kind[i] != PTXPACK_UNDERSCORE))
            return false;
    return true;
}

bool ptxpack_tuple_equal(const ptxpack_tuple *a, const ptxpack_tuple *b)
{
    GIVEN_TUPLE(a);
    GIVEN_TUPLE(b);
    return both_good(a, b) && node_equal(tuple_root(a), tuple_root(b));
}

/* ---- nesting -------------------------------------------------------------------------------------- */
bool ptxpack_congruent(const ptxpack_tuple *a, const ptxpack_tuple *b)
{
    GIVEN_TUPLE(a);
    GIVEN_TUPLE(b);
    return both_good(a, b) && node_congruent(tuple_root(a), tuple_root(b));
}

/* Whether a's nesting is the outer part of b's, and every terminal of a passes `fits` with its part of b. */
static bool refines(tuple_node a, tuple_node b, bool (*fits)(tuple_node a, tuple_node b))
{
    if (node_is_leaf(a))
        return fits(a, b);
    if (node_is_leaf(b) || node_rank(a) != node_rank(b))
        return false;
    tuple_node n = node_first(b);
    for (tuple_node m = node_first(a); m.begin < a.end; m = node_next(a, m), n = node_next(b, n))
        if (!refines(m, n, fits))
            return false;
    return true;
}

static bool any_part(tuple_node a, tuple_node b)
{
    (void)a;
    (void)b;
    return true;
}

static bool part_of_size(tuple_node a, tuple_node b)
{
    int64_t extent, size;
    return integer_of(a, &extent) && size_of(b, &size) && extent == size;
}

bool ptxpack_weakly_congruent(const ptxpack_tuple *a, const ptxpack_tuple *b)
{
    GIVEN_TUPLE(a);
    GIVEN_TUPLE(b);
    return both_good(a, b) && refines(tuple_root(a), tuple_root(b), any_part);
}

bool ptxpack_compatible(const ptxpack_tuple *a, const ptxpack_tuple *b)
{
    GIVEN_TUPLE(a);
    GIVEN_TUPLE(b);
    return both_good(a, b) && refines(tuple_root(a), tuple_root(b), part_of_size);
}

/* Whether the shape's size is n times the size of ceil_div(shape, n): whether what each leaf takes of n
 * divides it, and nothing of n is left over. */
static bool divides_part(tuple_node shape, int64_t n)
{
    int64_t size, left = 1, rest = n;
    if (n < 1 || !size_of(shape, &size))
        return false;
    for (int i = shape.begin; i < shape.end; i++) {
        int64_t extent = shape.t->value[i];
        if (shape.t->kind[i] == PTXPACK_EMPTY)
            continue;
        if (extent < 1 || !mul_into(left, extent / rest + (extent % rest != 0), &left))
            return false;
        rest = rest / extent + (rest % extent != 0);
    }
    return mul_into(left, n, &left) && left == size;
}

static bool divides_in(tuple_node shape, tuple_node tiler)
{
    int64_t n;
    if (node_is_leaf(tiler))
        return integer_of(tiler, &n) && divides_part(shape, n);
    if (node_rank(tiler) > node_rank(shape))
        return false;
    tuple_node s = node_first(shape);
    for (tuple_node t = node_first(tiler); t.begin < tiler.end;
         t = node_next(tiler, t), s = node_next(shape, s))
        if (!divides_in(s, t))
            return false;
    return true;
}

bool ptxpack_evenly_divides(const ptxpack_tuple *shape, const ptxpack_tuple *tiler)
{
    GIVEN_TUPLE(shape);
    GIVEN_TUPLE(tiler);
    return both_good(shape, tiler) && divides_in(tuple_root(shape), tuple_root(tiler));
}

/* ---- orders --------------------------------------------------------------------------------------- */
static bool less_leaf(tuple_node a, tuple_node b)
{
    int64_t x, y;
    return node_is_leaf(a) && node_is_leaf(b) && integer_of(a, &x) && integer_of(b, &y) && x < y;
}

/* The k-th mode in the order of comparing, of a tuple of that rank. */
static tuple_node mode_from(tuple_node n, int rank, int k, bool last_first)
{
    return node_mode(n, last_first ? rank - 1 - k : k);
}

/* The first mode that differs decides; of two tuples one of which begins the other, the shorter is less. */
static bool less_in(tuple_node a, tuple_node b, bool last_first)
{
    if (node_is_leaf(a) || node_is_leaf(b))
        return less_leaf(a, b);
    int ranks[2] = {node_rank(a), node_rank(b)};
    for (int k = 0; k < ranks[0] && k < ranks[1]; k++) {
        tuple_node x = mode_from(a, ranks[0], k, last_first), y = mode_from(b, ranks[1], k, last_first);
        if (less_in(x, y, last_first))
            return true;
        if (!node_equal(x, y))
            return false;
    }
    return ranks[0] < ranks[1];
}

bool ptxpack_lex_less(const ptxpack_tuple *a, const ptxpack_tuple *b)
{
    GIVEN_TUPLE(a);
    GIVEN_TUPLE(b);
    return both_good(a, b) && less_in(tuple_root(a), tuple_root(b), false);
}

bool ptxpack_colex_less(const ptxpack_tuple *a, const ptxpack_tuple *b)
{
    GIVEN_TUPLE(a);
    GIVEN_TUPLE(b);
    return both_good(a, b) && less_in(tuple_root(a), tuple_root(b), true);
}

static bool elem_less_in(tuple_node a, tuple_node b)
{
    if (node_is_leaf(a) || node_is_leaf(b))
        return less_leaf(a, b);
    tuple_node y = node_first(b);
    for (tuple_node x = node_first(a); x.begin < a.end; x = node_next(a, x), y = node_next(b, y))
        if (y.begin >= b.end || !elem_less_in(x, y))
            return false;
    return true;
}

bool ptxpack_elem_less(const ptxpack_tuple *a, const ptxpack_tuple *b)
{
    GIVEN_TUPLE(a);
    GIVEN_TUPLE(b);
    return both_good(a, b) && elem_less_in(tuple_root(a), tuple_root(b));
}
