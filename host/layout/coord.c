/* coord.c - coordinates to indices, indices to coordinates, parts of a coordinate. */
#include "internal.h"
#include "sum.h"

/* ---- coordinate to index -------------------------------------------------------------------------- */
/* The last leaf of n, or -1. */
static int last_leaf(tuple_node n)
{
    int last = n.end - 1;
    while (last >= n.begin && n.t->kind[last] == PTXPACK_EMPTY)
        last--;
    return last >= n.begin ? last : -1;
}

/* Splits an index into coordinates of the leaves of n, first one fastest, the last one without a limit:
 * crd[i] for item i of n.t.  false, with a message: an extent is no positive integer. */
static bool split_index(const char *who, int64_t index, tuple_node n, int64_t *crd)
{
    int last = last_leaf(n);
    for (int i = n.begin; i < n.end; i++) {
        int64_t extent = n.t->value[i];
        if (n.t->kind[i] == PTXPACK_EMPTY || i == last) {
            crd[i] = i == last ? index : 0;
        } else if (n.t->kind[i] != 0 || extent < 1) {
            tuple_error("%s: an extent of the shape %s is not a positive integer", who, tuple_text(n.t).text);
            return false;
        } else {
            crd[i] = index % extent;
            index /= extent;
        }
    }
    return true;
}

/* One coordinate for every leaf of the shape; `_` counts as 0. */
static bool spread(const char *who, tuple_node coord, tuple_node shape, int64_t *crd)
{
    if (node_is_leaf(coord)) {
        int64_t index = coord.t->value[coord.begin];
        if (coord.t->kind[coord.begin] == PTXPACK_UNDERSCORE)
            index = 0;
        else if (coord.t->kind[coord.begin] != 0) {
            tuple_error("%s: %s in the coordinate is not an integer", who, node_text(coord).text);
            return false;
        }
        return split_index(who, index, shape, crd);
    }
    if (node_is_leaf(shape)) {
        tuple_error("%s: the coordinate %s for the extent %s", who, node_text(coord).text,
                    node_text(shape).text);
        return false;
    }
    tuple_node c = node_first(coord), s = node_first(shape);
    while (c.begin < coord.end && s.begin < shape.end) {
        if (!spread(who, c, s, crd))
            return false;
        c = node_next(coord, c);
        s = node_next(shape, s);
    }
    if ((c.begin < coord.end) != (s.begin < shape.end)) {
        tuple_error("%s: the coordinate %s for the shape %s, which differ in rank", who, node_text(coord).text,
                    node_text(shape).text);
        return false;
    }
    return true;
}

static bool has_basis(const ptxpack_tuple *stride)
{
    uint64_t any = 0;
    for (int i = 0; i < stride->items; i++)
        any |= stride->kind[i] == PTXPACK_EMPTY ? 0 : stride->kind[i];
    return any != 0;
}

static ptxpack_tuple basis_index(const int64_t *crd, const ptxpack_tuple *stride)
{
    tuple_sum s = {.who = "crd2idx"};
    for (int i = 0; i < stride->items; i++)
        if (stride->kind[i] != PTXPACK_EMPTY)
            sum_add(&s, crd[i], stride->value[i], stride->kind[i]);
    return sum_end(&s);
}

ptxpack_tuple ptxpack_crd2idx(const ptxpack_tuple *coord, const ptxpack_tuple *shape,
                              const ptxpack_tuple *stride)
{
    GIVEN_TUPLE(coord);
    GIVEN_TUPLE(shape);
    GIVEN_TUPLE(stride);
    if (error_of_three(coord, shape, stride) != PTXPACK_OK)
        return tuple_failed(error_of_three(coord, shape, stride));
    if (!node_congruent(tuple_root(shape), tuple_root(stride)))
        return tuple_error("crd2idx: the shape %s and the stride %s differ in nesting", tuple_text(shape).text,
                           tuple_text(stride).text);
    int64_t crd[PTXPACK_TUPLE_ITEMS];
    if (!spread("crd2idx", tuple_root(coord), tuple_root(shape), crd))
        return tuple_failed(PTXPACK_E_ARG);
    if (has_basis(stride))
        return basis_index(crd, stride);
    int64_t index = 0, step;
    for (int i = 0; i < shape->items; i++)
        if (stride->kind[i] != PTXPACK_EMPTY &&
            !(mul_into(crd[i], stride->value[i], &step) && add_into(index, step, &index)))
            return tuple_error("crd2idx: %s in %s:%s overflows 64 bits", tuple_text(coord).text,
                               tuple_text(shape).text, tuple_text(stride).text);
    return ptxpack_int(index);
}

ptxpack_tuple ptxpack_crd2idx_compact(const ptxpack_tuple *coord, const ptxpack_tuple *shape)
{
    GIVEN_TUPLE(coord);
    GIVEN_TUPLE(shape);
    if (error_of(coord, shape) != PTXPACK_OK)
        return tuple_failed(error_of(coord, shape));
    if (!ptxpack_is_tuple(coord))
        return *coord;
    int64_t crd[PTXPACK_TUPLE_ITEMS], index = 0;
    if (!spread("crd2idx", tuple_root(coord), tuple_root(shape), crd))
        return tuple_failed(PTXPACK_E_ARG);
    bool fits = true;
    for (int i = shape->items - 1; i >= 0 && fits; i--)
        if (shape->kind[i] != PTXPACK_EMPTY)
            fits = mul_into(index, shape->value[i], &index) && add_into(index, crd[i], &index);
    return fits ? ptxpack_int(index)
                : tuple_error("crd2idx: %s in %s overflows 64 bits", tuple_text(coord).text,
                              tuple_text(shape).text);
}

/* ---- index to coordinate -------------------------------------------------------------------------- */
static bool idx2crd_strided(tuple_builder *b, tuple_node index, tuple_node shape, tuple_node stride);

/* The modes of three tuples side by side; the index or the stride may be one integer for all. */
static bool idx2crd_modes(tuple_builder *b, tuple_node index, tuple_node shape, tuple_node stride)
{
    if ((!node_is_leaf(index) && node_rank(index) != node_rank(shape)) ||
        node_rank(stride) != node_rank(shape)) {
        tuple_error("idx2crd: %s, the shape %s and the stride %s differ in rank", node_text(index).text,
                    node_text(shape).text, node_text(stride).text);
        return false;
    }
    build_open(b);
    tuple_node i = node_first(index), d = node_first(stride);
    for (tuple_node s = node_first(shape); s.begin < shape.end;
         s = node_next(shape, s), d = node_next(stride, d)) {
        if (!idx2crd_strided(b, i, s, d))
            return false;
        i = node_is_leaf(index) ? index : node_next(index, i);
    }
    build_close(b);
    return true;
}

/* (i / d) % s; of an extent of 1 it is 0, whatever the stride. */
static bool idx2crd_leaf(tuple_builder *b, tuple_node index, tuple_node shape, tuple_node stride)
{
    int64_t i = index.t->value[index.begin], s = shape.t->value[shape.begin], d = stride.t->value[stride.begin];
    bool    integers = index.t->kind[index.begin] == 0 && shape.t->kind[shape.begin] == 0 &&
                    (s == 1 || stride.t->kind[stride.begin] == 0);
    if (!integers || s < 1 || (s > 1 && (d == 0 || (d == -1 && i == INT64_MIN)))) {
        tuple_error("idx2crd: the index %s in %s:%s has no coordinate", node_text(index).text,
                    node_text(shape).text, node_text(stride).text);
        return false;
    }
    build_leaf(b, s == 1 ? 0 : i / d % s, 0);
    return true;
}

static bool idx2crd_strided(tuple_builder *b, tuple_node index, tuple_node shape, tuple_node stride)
{
    if (node_is_leaf(shape) && node_is_leaf(index) && node_is_leaf(stride))
        return idx2crd_leaf(b, index, shape, stride);
    if (node_is_leaf(shape)) {
        tuple_error("idx2crd: %s with the stride %s for the extent %s", node_text(index).text,
                    node_text(stride).text, node_text(shape).text);
        return false;
    }
    if (node_is_leaf(stride) && node_is_leaf(index)) { /* where a compact order starts */
        ptxpack_tuple part = node_tuple(shape), start = node_tuple(stride);
        ptxpack_tuple strides = ptxpack_compact_col_major(&part, &start);
        return strides.status == PTXPACK_OK && idx2crd_modes(b, index, shape, tuple_root(&strides));
    }
    return idx2crd_modes(b, index, shape, stride);
}

ptxpack_tuple ptxpack_idx2crd(const ptxpack_tuple *index, const ptxpack_tuple *shape,
                              const ptxpack_tuple *stride)
{
    GIVEN_TUPLE(index);
    GIVEN_TUPLE(shape);
    GIVEN_TUPLE(stride);
    if (error_of_three(index, shape, stride) != PTXPACK_OK)
        return tuple_failed(error_of_three(index, shape, stride));
    ptxpack_tuple out;
    tuple_builder b = build_begin(&out);
    if (!idx2crd_strided(&b, tuple_root(index), tuple_root(shape), tuple_root(stride)))
        return tuple_failed(PTXPACK_E_ARG);
    return out;
}

ptxpack_tuple ptxpack_idx2crd_compact(const ptxpack_tuple *index, const ptxpack_tuple *shape)
{
    GIVEN_TUPLE(index);
    GIVEN_TUPLE(shape);
    if (error_of(index, shape) != PTXPACK_OK)
        return tuple_failed(error_of(index, shape));
    ptxpack_tuple out = tuple_profile(shape);
    if (!spread("idx2crd", tuple_root(index), tuple_root(shape), out.value))
        return tuple_failed(PTXPACK_E_ARG);
    return out;
}

static bool crd2crd_in(tuple_builder *b, tuple_node c, tuple_node from, tuple_node to)
{
    if (!node_is_leaf(c) && !node_is_leaf(from) && !node_is_leaf(to)) {
        if (node_rank(c) != node_rank(from) || node_rank(c) != node_rank(to)) {
            tuple_error("crd2crd: %s from %s to %s, which differ in rank", node_text(c).text,
                        node_text(from).text, node_text(to).text);
            return false;
        }
        build_open(b);
        tuple_node f = node_first(from), t = node_first(to);
        for (tuple_node m = node_first(c); m.begin < c.end; m = node_next(c, m)) {
            if (!crd2crd_in(b, m, f, t))
                return false;
            f = node_next(from, f);
            t = node_next(to, t);
        }
        build_close(b);
        return true;
    }
    int64_t from_size, to_size;
    if (!node_product(from, &from_size) || !node_product(to, &to_size) || from_size != to_size) {
        tuple_error("crd2crd: the shapes %s and %s differ in size", node_text(from).text, node_text(to).text);
        return false;
    }
    ptxpack_tuple coord = node_tuple(c), shape = node_tuple(from), target = node_tuple(to);
    ptxpack_tuple index = ptxpack_crd2idx_compact(&coord, &shape);
    ptxpack_tuple there = index.status == PTXPACK_OK ? ptxpack_idx2crd_compact(&index, &target) : index;
    if (there.status == PTXPACK_OK)
        build_node(b, tuple_root(&there));
    return there.status == PTXPACK_OK;
}

ptxpack_tuple ptxpack_crd2crd(const ptxpack_tuple *coord, const ptxpack_tuple *from, const ptxpack_tuple *to)
{
    GIVEN_TUPLE(coord);
    GIVEN_TUPLE(from);
    GIVEN_TUPLE(to);
    if (error_of_three(coord, from, to) != PTXPACK_OK)
        return tuple_failed(error_of_three(coord, from, to));
    ptxpack_tuple out;
    tuple_builder b = build_begin(&out);
    if (!crd2crd_in(&b, tuple_root(coord), tuple_root(from), tuple_root(to)))
        return tuple_failed(PTXPACK_E_ARG);
    return out;
}

ptxpack_tuple ptxpack_increment(const ptxpack_tuple *coord, const ptxpack_tuple *shape)
{
    GIVEN_TUPLE(coord);
    GIVEN_TUPLE(shape);
    if (error_of(coord, shape) != PTXPACK_OK)
        return tuple_failed(error_of(coord, shape));
    if (!node_congruent(tuple_root(coord), tuple_root(shape)))
        return tuple_error("increment: the coordinate %s and the shape %s differ in nesting",
                           tuple_text(coord).text, tuple_text(shape).text);
    ptxpack_tuple out = *coord;
    int           last = last_leaf(tuple_root(shape));
    for (int i = 0; i <= last; i++) {
        if (out.kind[i] == PTXPACK_EMPTY)
            continue;
        if (out.kind[i] != 0 || out.value[i] == INT64_MAX)
            return tuple_error("increment: the coordinate %s has no next one", tuple_text(coord).text);
        if (++out.value[i] != shape->value[i] || i == last)
            break;
        out.value[i] = 0;
    }
    return out;
}

/* ---- slice and dice ------------------------------------------------------------------------------- */
/* Keeps, side by side, the parts of t at those leaves of the coordinate that are `_` (whole) or that are
 * not. */
static bool keep_in(const char *who, tuple_builder *b, tuple_node coord, tuple_node t, bool whole)
{
    if (node_is_leaf(coord)) {
        if ((coord.t->kind[coord.begin] == PTXPACK_UNDERSCORE) == whole)
            build_node(b, t);
        return true;
    }
    if (node_is_leaf(t) || node_rank(coord) != node_rank(t)) {
        tuple_error("%s: the coordinate %s for %s, which differ in rank", who, node_text(coord).text,
                    node_text(t).text);
        return false;
    }
    tuple_node m = node_first(t);
    for (tuple_node c = node_first(coord); c.begin < coord.end; c = node_next(coord, c), m = node_next(t, m))
        if (!keep_in(who, b, c, m, whole))
            return false;
    return true;
}

static ptxpack_tuple keep(const char *who, const ptxpack_tuple *coord, const ptxpack_tuple *t, bool whole)
{
    if (error_of(coord, t) != PTXPACK_OK)
        return tuple_failed(error_of(coord, t));
    tuple_node c = tuple_root(coord);
    if (node_is_leaf(c) && (coord->kind[0] == PTXPACK_UNDERSCORE) == whole)
        return *t;
    ptxpack_tuple out;
    tuple_builder b = build_begin(&out);
    build_open(&b);
    if (!keep_in(who, &b, c, tuple_root(t), whole))
        return tuple_failed(PTXPACK_E_ARG);
    build_close(&b);
    return out;
}

ptxpack_tuple ptxpack_tuple_slice(const ptxpack_tuple *coord, const ptxpack_tuple *t)
{
    GIVEN_TUPLE(coord);
    GIVEN_TUPLE(t);
    return keep("slice", coord, t, true);
}

ptxpack_tuple ptxpack_tuple_dice(const ptxpack_tuple *coord, const ptxpack_tuple *t)
{
    GIVEN_TUPLE(coord);
    GIVEN_TUPLE(t);
    return keep("dice", coord, t, false);
}
