/* tuple.c - nested tuples: making them, and operations on their structure alone. */
#include "internal.h"

/* ---- making --------------------------------------------------------------------------------------- */
static ptxpack_tuple one_item(int64_t value, uint64_t kind)
{
    ptxpack_tuple out;
    tuple_builder b = build_begin(&out);
    build_leaf(&b, value, kind);
    return out;
}

ptxpack_tuple ptxpack_int(int64_t value) { return one_item(value, 0); }

ptxpack_tuple ptxpack_underscore(void) { return one_item(0, PTXPACK_UNDERSCORE); }

ptxpack_tuple ptxpack_basis(int64_t value, int count, const int *modes)
{
    if (count < 0 || count > PTXPACK_TUPLE_DEPTH)
        return tuple_error("basis: a path of %d modes; 0 to %d are possible", count, PTXPACK_TUPLE_DEPTH);
    if (modes == NULL && count > 0)
        return tuple_failed(operand_missing(__func__, "modes"));
    uint64_t path = 0;
    for (int i = 0; i < count; i++) {
        if (modes[i] < 0 || modes[i] >= PTXPACK_TUPLE_ITEMS)
            return tuple_error("basis: mode %d; 0 to %d are possible", modes[i], PTXPACK_TUPLE_ITEMS - 1);
        path |= (uint64_t)(modes[i] + 1) << 8 * i;
    }
    return one_item(value, path);
}

ptxpack_tuple ptxpack_tuple_of(int count, const int64_t *values)
{
    if (count < 0 || count > PTXPACK_TUPLE_ITEMS)
        return tuple_error("tuple_of: %d integers; 0 to %d are possible", count, PTXPACK_TUPLE_ITEMS);
    if (values == NULL && count > 0)
        return tuple_failed(operand_missing(__func__, "values"));
    ptxpack_tuple out;
    tuple_builder b = build_begin(&out);
    build_open(&b);
    for (int i = 0; i < count; i++)
        build_leaf(&b, values[i], 0);
    build_close(&b);
    return out;
}

ptxpack_tuple ptxpack_tuple_join(int count, const ptxpack_tuple *modes)
{
    if (count < 0 || count > PTXPACK_TUPLE_ITEMS)
        return tuple_error("tuple_join: %d modes; 0 to %d are possible", count, PTXPACK_TUPLE_ITEMS);
    if (modes == NULL && count > 0)
        return tuple_failed(operand_missing(__func__, "modes"));
    ptxpack_tuple out;
    tuple_builder b = build_begin(&out);
    build_open(&b);
    for (int i = 0; i < count; i++) {
        if (modes[i].status != PTXPACK_OK)
            return tuple_failed(modes[i].status);
        build_node(&b, tuple_root(&modes[i]));
    }
    build_close(&b);
    if (count > 0)
        tuple_name(&out, "tuple_join", &modes[0]);
    return out;
}

/* ---- reading -------------------------------------------------------------------------------------- */
bool ptxpack_is_tuple(const ptxpack_tuple *t)
{
    GIVEN_TUPLE(t);
    return t->status == PTXPACK_OK && !node_is_leaf(tuple_root(t));
}

int ptxpack_rank(const ptxpack_tuple *t)
{
    GIVEN_TUPLE(t);
    return t->status == PTXPACK_OK ? node_rank(tuple_root(t)) : 0;
}

int ptxpack_depth(const ptxpack_tuple *t)
{
    GIVEN_TUPLE(t);
    int depth = 0;
    for (int i = 0; t->status == PTXPACK_OK && i < t->items; i++) {
        int here = t->depth[i] + (t->kind[i] == PTXPACK_EMPTY);
        depth = here > depth ? here : depth;
    }
    return depth;
}

bool ptxpack_has_underscore(const ptxpack_tuple *t)
{
    GIVEN_TUPLE(t);
    for (int i = 0; t->status == PTXPACK_OK && i < t->items; i++)
        if (t->kind[i] == PTXPACK_UNDERSCORE)
            return true;
    return false;
}

static ptxpack_tuple no_such_mode(const char *who, int mode, const ptxpack_tuple *t)
{
    return tuple_error("%s: mode %d of %s, which has %d", who, mode, tuple_text(t).text, ptxpack_rank(t));
}

ptxpack_tuple ptxpack_get(const ptxpack_tuple *t, int mode)
{
    GIVEN_TUPLE(t);
    if (t->status != PTXPACK_OK)
        return tuple_failed(t->status);
    tuple_node n = tuple_root(t), m = node_mode(n, mode);
    return m.begin < n.end ? node_tuple(m) : no_such_mode("get", mode, t);
}

ptxpack_tuple ptxpack_basis_get(const ptxpack_tuple *basis, const ptxpack_tuple *t)
{
    GIVEN_TUPLE(basis);
    GIVEN_TUPLE(t);
    if (error_of(basis, t) != PTXPACK_OK)
        return tuple_failed(error_of(basis, t));
    if (ptxpack_is_tuple(basis) || basis->kind[0] == PTXPACK_UNDERSCORE)
        return tuple_error("basis_get: %s is not a basis value", tuple_text(basis).text);
    tuple_node n = tuple_root(t);
    for (uint64_t path = basis->kind[0]; path != 0; path >>= 8) {
        tuple_node m = node_mode(n, (int)(path & 255) - 1);
        if (m.begin >= n.end)
            return tuple_error("basis_get: %s has no mode %s", tuple_text(t).text, tuple_text(basis).text);
        n = m;
    }
    return node_tuple(n);
}

/* The integer of the first or last leaf; `which` is its item. */
static ptxpack_tuple leaf_at(const char *who, const ptxpack_tuple *t, int which)
{
    if (which < 0 || t->kind[which] == PTXPACK_EMPTY)
        return tuple_error("%s: () in %s has no leaf", who, tuple_text(t).text);
    return one_item(t->value[which], t->kind[which]);
}

ptxpack_tuple ptxpack_front(const ptxpack_tuple *t)
{
    GIVEN_TUPLE(t);
    return t->status == PTXPACK_OK ? leaf_at("front", t, 0) : tuple_failed(t->status);
}

ptxpack_tuple ptxpack_back(const ptxpack_tuple *t)
{
    GIVEN_TUPLE(t);
    return t->status == PTXPACK_OK ? leaf_at("back", t, t->items - 1) : tuple_failed(t->status);
}

/* ---- nesting -------------------------------------------------------------------------------------- */
ptxpack_tuple ptxpack_flatten_to_tuple(const ptxpack_tuple *t)
{
    GIVEN_TUPLE(t);
    if (t->status != PTXPACK_OK)
        return tuple_failed(t->status);
    ptxpack_tuple out;
    tuple_builder b = build_begin(&out);
    build_open(&b);
    for (int i = 0; i < t->items; i++)
        if (t->kind[i] != PTXPACK_EMPTY)
            build_leaf(&b, t->value[i], t->kind[i]);
    build_close(&b);
    return out;
}

ptxpack_tuple ptxpack_flatten(const ptxpack_tuple *t)
{
    GIVEN_TUPLE(t);
    if (t->status == PTXPACK_OK && !ptxpack_is_tuple(t))
        return node_tuple(tuple_root(t));
    return ptxpack_flatten_to_tuple(t);
}

/* Puts the modes of a tuple, from *mode on, where the leaves of `profile` are. */
static void fill_profile(tuple_builder *b, tuple_node profile, tuple_node of, tuple_node *mode)
{
    if (node_is_leaf(profile)) {
        build_node(b, *mode);
        *mode = node_next(of, *mode);
        return;
    }
    build_open(b);
    for (tuple_node p = node_first(profile); p.begin < profile.end; p = node_next(profile, p))
        fill_profile(b, p, of, mode);
    build_close(b);
}

static int leaf_count(const ptxpack_tuple *t)
{
    int leaves = 0;
    for (int i = 0; i < t->items; i++)
        leaves += t->kind[i] != PTXPACK_EMPTY;
    return leaves;
}

ptxpack_tuple ptxpack_unflatten(const ptxpack_tuple *flat, const ptxpack_tuple *profile)
{
    GIVEN_TUPLE(flat);
    GIVEN_TUPLE(profile);
    if (error_of(flat, profile) != PTXPACK_OK)
        return tuple_failed(error_of(flat, profile));
    tuple_node n = tuple_root(flat);
    if (node_rank(n) != leaf_count(profile))
        return tuple_error("unflatten: %s has %d modes for the %d leaves of %s", tuple_text(flat).text,
                           node_rank(n), leaf_count(profile), tuple_text(profile).text);
    ptxpack_tuple out;
    tuple_builder b = build_begin(&out);
    tuple_node    mode = node_first(n);
    fill_profile(&b, tuple_root(profile), n, &mode);
    tuple_name(&out, "unflatten", flat);
    return out;
}

ptxpack_tuple ptxpack_wrap(const ptxpack_tuple *t)
{
    GIVEN_TUPLE(t);
    if (t->status != PTXPACK_OK || ptxpack_is_tuple(t))
        return *t;
    return ptxpack_tuple_join(1, t);
}

ptxpack_tuple ptxpack_unwrap(const ptxpack_tuple *t)
{
    GIVEN_TUPLE(t);
    if (t->status != PTXPACK_OK)
        return tuple_failed(t->status);
    tuple_node n = tuple_root(t);
    while (!node_is_leaf(n) && node_rank(n) == 1)
        n = node_first(n);
    return node_tuple(n);
}

/* ---- modes ---------------------------------------------------------------------------------------- */
/* Whether [begin, *end) is a range of the modes of t; an *end of -1 becomes the rank. */
static bool range_fits(const ptxpack_tuple *t, int begin, int *end)
{
    int rank = ptxpack_rank(t);
    if (*end == -1)
        *end = rank;
    return 0 <= begin && begin <= *end && *end <= rank;
}

static ptxpack_tuple bad_range(const char *who, const ptxpack_tuple *t, int begin, int end)
{
    return tuple_error("%s: modes %d to %d of %s, which has %d", who, begin, end, tuple_text(t).text,
                       ptxpack_rank(t));
}

/* The modes [begin, end) of t, which must be there, next in b. */
static void build_range(tuple_builder *b, const ptxpack_tuple *t, int begin, int end)
{
    tuple_node n = tuple_root(t), m = node_mode(n, begin);
    for (int i = begin; i < end; i++, m = node_next(n, m))
        build_node(b, m);
}

ptxpack_tuple ptxpack_take(const ptxpack_tuple *t, int begin, int end)
{
    GIVEN_TUPLE(t);
    if (t->status != PTXPACK_OK)
        return tuple_failed(t->status);
    int last = end;
    if (!range_fits(t, begin, &last))
        return bad_range("take", t, begin, end);
    ptxpack_tuple out;
    tuple_builder b = build_begin(&out);
    build_open(&b);
    build_range(&b, t, begin, last);
    build_close(&b);
    return out;
}

ptxpack_tuple ptxpack_group(const ptxpack_tuple *t, int begin, int end)
{
    GIVEN_TUPLE(t);
    if (t->status != PTXPACK_OK)
        return tuple_failed(t->status);
    int last = end;
    if (!range_fits(t, begin, &last))
        return bad_range("group", t, begin, end);
    ptxpack_tuple out;
    tuple_builder b = build_begin(&out);
    build_open(&b);
    build_range(&b, t, 0, begin);
    if (begin < last) {
        build_open(&b);
        build_range(&b, t, begin, last);
        build_close(&b);
    }
    build_range(&b, t, last, ptxpack_rank(t));
    build_close(&b);
    tuple_name(&out, "group", t);
    return out;
}

ptxpack_tuple ptxpack_select(const ptxpack_tuple *t, int count, const int *modes)
{
    GIVEN_TUPLE(t);
    if (t->status != PTXPACK_OK)
        return tuple_failed(t->status);
    if (count < 0 || count > PTXPACK_TUPLE_ITEMS)
        return tuple_error("select: %d modes; 0 to %d are possible", count, PTXPACK_TUPLE_ITEMS);
    if (modes == NULL && count > 0)
        return tuple_failed(operand_missing(__func__, "modes"));
    ptxpack_tuple out;
    tuple_builder b = build_begin(&out);
    build_open(&b);
    for (int i = 0; i < count; i++) {
        tuple_node n = tuple_root(t), m = node_mode(n, modes[i]);
        if (m.begin >= n.end)
            return no_such_mode("select", modes[i], t);
        build_node(&b, m);
    }
    build_close(&b);
    tuple_name(&out, "select", t);
    return out;
}

/* x `before` times, the modes of t, x `after` times. */
static ptxpack_tuple pad(const char *who, int before, const ptxpack_tuple *t, int after, const ptxpack_tuple *x)
{
    ptxpack_tuple out;
    tuple_builder b = build_begin(&out);
    build_open(&b);
    for (int i = 0; i < before; i++)
        build_node(&b, tuple_root(x));
    build_modes(&b, tuple_root(t));
    for (int i = 0; i < after; i++)
        build_node(&b, tuple_root(x));
    build_close(&b);
    tuple_name(&out, who, t);
    return out;
}

/* How many x bring t to rank n; -1, with a message: impossible. */
static int missing(const char *who, const ptxpack_tuple *t, int n, ptxpack_tuple *error)
{
    int rank = ptxpack_rank(t);
    if (rank <= n && n <= PTXPACK_TUPLE_ITEMS)
        return n - rank;
    *error = tuple_error("%s: %s to rank %d; its rank is %d and %d is the limit", who, tuple_text(t).text, n,
                         rank, PTXPACK_TUPLE_ITEMS);
    return -1;
}

ptxpack_tuple ptxpack_append(const ptxpack_tuple *t, const ptxpack_tuple *x)
{
    GIVEN_TUPLE(t);
    GIVEN_TUPLE(x);
    if (error_of(t, x) != PTXPACK_OK)
        return tuple_failed(error_of(t, x));
    return pad("append", 0, t, 1, x);
}

ptxpack_tuple ptxpack_prepend(const ptxpack_tuple *t, const ptxpack_tuple *x)
{
    GIVEN_TUPLE(t);
    GIVEN_TUPLE(x);
    if (error_of(t, x) != PTXPACK_OK)
        return tuple_failed(error_of(t, x));
    return pad("prepend", 1, t, 0, x);
}

ptxpack_tuple ptxpack_append_to(const ptxpack_tuple *t, int n, const ptxpack_tuple *x)
{
    GIVEN_TUPLE(t);
    GIVEN_TUPLE(x);
    if (error_of(t, x) != PTXPACK_OK)
        return tuple_failed(error_of(t, x));
    ptxpack_tuple error;
    int           count = missing("append", t, n, &error);
    return count < 0 ? error : count == 0 ? *t : pad("append", 0, t, count, x);
}

ptxpack_tuple ptxpack_prepend_to(const ptxpack_tuple *t, int n, const ptxpack_tuple *x)
{
    GIVEN_TUPLE(t);
    GIVEN_TUPLE(x);
    if (error_of(t, x) != PTXPACK_OK)
        return tuple_failed(error_of(t, x));
    ptxpack_tuple error;
    int           count = missing("prepend", t, n, &error);
    return count < 0 ? error : count == 0 ? *t : pad("prepend", count, t, 0, x);
}

/* t with x (NULL: nothing) in place of its modes [begin, end). */
static ptxpack_tuple splice(const char *who, const ptxpack_tuple *t, int begin, int end, const ptxpack_tuple *x)
{
    ptxpack_tuple out;
    tuple_builder b = build_begin(&out);
    build_open(&b);
    build_range(&b, t, 0, begin);
    if (x != NULL)
        build_node(&b, tuple_root(x));
    build_range(&b, t, end, ptxpack_rank(t));
    build_close(&b);
    tuple_name(&out, who, t);
    return out;
}

ptxpack_tuple ptxpack_insert(const ptxpack_tuple *t, int before, const ptxpack_tuple *x)
{
    GIVEN_TUPLE(t);
    GIVEN_TUPLE(x);
    if (error_of(t, x) != PTXPACK_OK)
        return tuple_failed(error_of(t, x));
    if (!ptxpack_is_tuple(t))
        return tuple_error("insert: %s is not a tuple", tuple_text(t).text);
    if (before < 0 || before > ptxpack_rank(t))
        return no_such_mode("insert", before, t);
    return splice("insert", t, before, before, x);
}

ptxpack_tuple ptxpack_remove(const ptxpack_tuple *t, int mode)
{
    GIVEN_TUPLE(t);
    if (t->status != PTXPACK_OK)
        return tuple_failed(t->status);
    if (!ptxpack_is_tuple(t))
        return tuple_error("remove: %s is not a tuple", tuple_text(t).text);
    if (mode < 0 || mode >= ptxpack_rank(t))
        return no_such_mode("remove", mode, t);
    return splice("remove", t, mode, mode + 1, NULL);
}

ptxpack_tuple ptxpack_replace(const ptxpack_tuple *t, int mode, const ptxpack_tuple *x)
{
    GIVEN_TUPLE(t);
    GIVEN_TUPLE(x);
    if (error_of(t, x) != PTXPACK_OK)
        return tuple_failed(error_of(t, x));
    if (mode < 0 || mode >= ptxpack_rank(t))
        return no_such_mode("replace", mode, t);
    return ptxpack_is_tuple(t) ? splice("replace", t, mode, mode + 1, x) : *x;
}

ptxpack_tuple ptxpack_reverse(const ptxpack_tuple *t)
{
    GIVEN_TUPLE(t);
    if (t->status != PTXPACK_OK || !ptxpack_is_tuple(t))
        return *t;
    ptxpack_tuple out;
    tuple_builder b = build_begin(&out);
    build_open(&b);
    for (int mode = ptxpack_rank(t) - 1; mode >= 0; mode--)
        build_node(&b, node_mode(tuple_root(t), mode));
    build_close(&b);
    return out;
}

/* ---- repeating ------------------------------------------------------------------------------------ */
ptxpack_tuple ptxpack_repeat(const ptxpack_tuple *x, int n)
{
    GIVEN_TUPLE(x);
    if (x->status != PTXPACK_OK || n == 1)
        return *x;
    if (n < 0 || n > PTXPACK_TUPLE_ITEMS)
        return tuple_error("repeat: %s %d times; 0 to %d are possible", tuple_text(x).text, n,
                           PTXPACK_TUPLE_ITEMS);
    ptxpack_tuple out;
    tuple_builder b = build_begin(&out);
    build_open(&b);
    for (int i = 0; i < n; i++)
        build_node(&b, tuple_root(x));
    build_close(&b);
    tuple_name(&out, "repeat", x);
    return out;
}

static void repeat_in(tuple_builder *b, tuple_node profile, tuple_node x)
{
    if (node_is_leaf(profile)) {
        build_node(b, x);
        return;
    }
    build_open(b);
    for (tuple_node p = node_first(profile); p.begin < profile.end; p = node_next(profile, p))
        repeat_in(b, p, x);
    build_close(b);
}

ptxpack_tuple ptxpack_repeat_like(const ptxpack_tuple *profile, const ptxpack_tuple *x)
{
    GIVEN_TUPLE(profile);
    GIVEN_TUPLE(x);
    if (error_of(profile, x) != PTXPACK_OK)
        return tuple_failed(error_of(profile, x));
    ptxpack_tuple out;
    tuple_builder b = build_begin(&out);
    repeat_in(&b, tuple_root(profile), tuple_root(x));
    tuple_name(&out, "repeat_like", x);
    return out;
}

/* ---- functions of the caller ---------------------------------------------------------------------- */
/* f(n) next in b; its error ends the building. */
static void build_mapped(tuple_builder *b, tuple_node n, ptxpack_map f, void *user)
{
    if (b->t->status != PTXPACK_OK)
        return;
    ptxpack_tuple x = node_tuple(n), y = f(user, &x);
    if (y.status == PTXPACK_OK)
        build_node(b, tuple_root(&y));
    else
        b->t->status = y.status;
}

ptxpack_tuple ptxpack_transform(const ptxpack_tuple *t, ptxpack_map f, void *user)
{
    GIVEN_TUPLE(t);
    if (f == NULL)
        return tuple_failed(operand_missing(__func__, "f"));
    if (t->status != PTXPACK_OK)
        return tuple_failed(t->status);
    if (!ptxpack_is_tuple(t))
        return f(user, t);
    ptxpack_tuple out;
    tuple_builder b = build_begin(&out);
    tuple_node    n = tuple_root(t);
    build_open(&b);
    for (tuple_node m = node_first(n); m.begin < n.end; m = node_next(n, m))
        build_mapped(&b, m, f, user);
    build_close(&b);
    return out;
}

static void transform_in(tuple_builder *b, tuple_node n, ptxpack_map f, void *user)
{
    if (node_is_leaf(n)) {
        build_mapped(b, n, f, user);
        return;
    }
    build_open(b);
    for (tuple_node m = node_first(n); m.begin < n.end; m = node_next(n, m))
        transform_in(b, m, f, user);
    build_close(b);
}

ptxpack_tuple ptxpack_transform_leaf(const ptxpack_tuple *t, ptxpack_map f, void *user)
{
    GIVEN_TUPLE(t);
    if (f == NULL)
        return tuple_failed(operand_missing(__func__, "f"));
    if (t->status != PTXPACK_OK)
        return tuple_failed(t->status);
    ptxpack_tuple out;
    tuple_builder b = build_begin(&out);
    transform_in(&b, tuple_root(t), f, user);
    return out;
}

ptxpack_tuple ptxpack_fold(const ptxpack_tuple *t, const ptxpack_tuple *start, ptxpack_folder f, void *user)
{
    GIVEN_TUPLE(t);
    GIVEN_TUPLE(start);
    if (f == NULL)
        return tuple_failed(operand_missing(__func__, "f"));
    if (error_of(t, start) != PTXPACK_OK)
        return tuple_failed(error_of(t, start));
    ptxpack_tuple so_far = *start;
    tuple_node    n = tuple_root(t);
    for (tuple_node m = node_first(n); m.begin < n.end && so_far.status == PTXPACK_OK; m = node_next(n, m)) {
        ptxpack_tuple mode = node_tuple(m);
        so_far = f(user, &so_far, &mode);
    }
    return so_far;
}

/* ---- zipping -------------------------------------------------------------------------------------- */
ptxpack_tuple ptxpack_zip(const ptxpack_tuple *t)
{
    GIVEN_TUPLE(t);
    if (t->status != PTXPACK_OK || !ptxpack_is_tuple(t))
        return *t;
    tuple_node n = tuple_root(t), first = node_first(n);
    if (node_is_empty(n))
        return tuple_error("zip: () has no modes");
    if (node_is_leaf(first))
        return ptxpack_tuple_join(1, t);
    int rank = node_rank(first);
    for (tuple_node m = first; m.begin < n.end; m = node_next(n, m))
        if (node_is_leaf(m) || node_rank(m) != rank)
            return tuple_error("zip: the modes %s and %s of %s differ in rank", node_text(first).text,
                               node_text(m).text, tuple_text(t).text);
    ptxpack_tuple out;
    tuple_builder b = build_begin(&out);
    build_open(&b);
    for (int j = 0; j < rank; j++) {
        build_open(&b);
        for (tuple_node m = first; m.begin < n.end; m = node_next(n, m))
            build_node(&b, node_mode(m, j));
        build_close(&b);
    }
    build_close(&b);
    return out;
}

/* One half of zip2_by: which = 0 the first ones, nested as the guide is; 1 the second ones, each level
 * followed by what the guide does not reach. */
static void gather(tuple_builder *b, tuple_node n, tuple_node guide, int which)
{
    if (node_is_leaf(guide)) {
        build_node(b, node_mode(n, which));
        return;
    }
    build_open(b);
    tuple_node m = node_first(n);
    for (tuple_node g = node_first(guide); g.begin < guide.end; g = node_next(guide, g)) {
        gather(b, m, g, which);
        m = node_next(n, m);
    }
    for (; which == 1 && m.begin < n.end; m = node_next(n, m))
        build_node(b, m);
    build_close(b);
}

/* Whether n has rank 2 at every terminal of the guide; false with a message. */
static bool guide_fits(tuple_node n, tuple_node guide, ptxpack_tuple *error)
{
    if (node_is_leaf(guide)) {
        bool pair = !node_is_leaf(n) && node_rank(n) == 2;
        if (!pair)
            *error = tuple_error("zip2_by: %s of %s is not of rank 2", node_text(n).text, tuple_text(n.t).text);
        return pair;
    }
    if (node_is_leaf(n) || node_rank(n) < node_rank(guide)) {
        *error = tuple_error("zip2_by: %s has fewer modes than its guide %s", node_text(n).text,
                             node_text(guide).text);
        return false;
    }
    tuple_node m = node_first(n);
    for (tuple_node g = node_first(guide); g.begin < guide.end; g = node_next(guide, g)) {
        if (!guide_fits(m, g, error))
            return false;
        m = node_next(n, m);
    }
    return true;
}

ptxpack_tuple ptxpack_zip2_by(const ptxpack_tuple *t, const ptxpack_tuple *guide)
{
    GIVEN_TUPLE(t);
    GIVEN_TUPLE(guide);
    if (error_of(t, guide) != PTXPACK_OK)
        return tuple_failed(error_of(t, guide));
    ptxpack_tuple out;
    if (!guide_fits(tuple_root(t), tuple_root(guide), &out))
        return out;
    tuple_builder b = build_begin(&out);
    build_open(&b);
    gather(&b, tuple_root(t), tuple_root(guide), 0);
    gather(&b, tuple_root(t), tuple_root(guide), 1);
    build_close(&b);
    tuple_name(&out, "zip2_by", t);
    return out;
}
