/* compact.c - the strides that fill a shape without gaps, and its basis. */
#include "internal.h"

/* ---- compact strides ------------------------------------------------------------------------------ */
typedef enum direction { FIRST_FASTEST, LAST_FASTEST } direction;

/* Strides for the items of the shape in n, from `stride` on.  The product after the last item is not needed, so
 * it may overflow. */
static bool compact_range(const char *who, tuple_node n, direction way, int64_t stride, uint64_t kind,
                          ptxpack_tuple *out)
{
    bool fits = true;
    for (int k = 0; k < n.end - n.begin; k++) {
        int     i = way == FIRST_FASTEST ? n.begin + k : n.end - 1 - k;
        int64_t extent = n.t->value[i];
        if (n.t->kind[i] == PTXPACK_EMPTY)
            continue;
        if (n.t->kind[i] != 0 || (extent != 1 && !fits)) {
            tuple_error(fits ? "%s: an extent of the shape %s is not an integer"
                             : "%s: the size of the shape %s overflows 64 bits",
                        who, tuple_text(n.t).text);
            return false;
        }
        out->value[i] = extent == 1 ? 0 : stride;
        out->kind[i] = extent == 1 ? 0 : kind;
        if (extent != 1)
            fits = mul_into(stride, extent, &stride);
    }
    return true;
}

/* Down to the terminals of `start`, each of which starts its part of the shape. */
static bool compact_from(const char *who, tuple_node n, tuple_node start, direction way, ptxpack_tuple *out)
{
    if (node_is_leaf(start)) {
        if (start.t->kind[start.begin] != PTXPACK_UNDERSCORE)
            return compact_range(who, n, way, start.t->value[start.begin], start.t->kind[start.begin], out);
        tuple_error("%s: the first stride _ is not an integer", who);
        return false;
    }
    if (node_is_leaf(n) || node_rank(n) != node_rank(start)) {
        tuple_error("%s: the shape %s and the first strides %s differ in rank", who, node_text(n).text,
                    node_text(start).text);
        return false;
    }
    tuple_node s = node_first(start);
    for (tuple_node m = node_first(n); m.begin < n.end; m = node_next(n, m), s = node_next(start, s))
        if (!compact_from(who, m, s, way, out))
            return false;
    return true;
}

static ptxpack_tuple compact(const char *who, const ptxpack_tuple *shape, const ptxpack_tuple *start,
                             direction way)
{
    if (error_of(shape, start != NULL ? start : shape) != PTXPACK_OK)
        return tuple_failed(error_of(shape, start != NULL ? start : shape));
    ptxpack_tuple out = tuple_profile(shape);
    bool          done = start != NULL ? compact_from(who, tuple_root(shape), tuple_root(start), way, &out)
                                       : compact_range(who, tuple_root(shape), way, 1, 0, &out);
    return done ? out : tuple_failed(PTXPACK_E_ARG);
}

ptxpack_tuple ptxpack_compact_col_major(const ptxpack_tuple *shape, const ptxpack_tuple *start)
{
    GIVEN_TUPLE(shape);
    return compact("compact_col_major", shape, start, FIRST_FASTEST);
}

ptxpack_tuple ptxpack_compact_row_major(const ptxpack_tuple *shape, const ptxpack_tuple *start)
{
    GIVEN_TUPLE(shape);
    return compact("compact_row_major", shape, start, LAST_FASTEST);
}

/* The parts of a shape at the terminals of an order. */
typedef struct ordered {
    int        count;
    tuple_node part[PTXPACK_TUPLE_ITEMS];
    int64_t    order[PTXPACK_TUPLE_ITEMS], size[PTXPACK_TUPLE_ITEMS];
} ordered;

static bool order_parts(tuple_node n, tuple_node order, ordered *o)
{
    if (node_is_leaf(order)) {
        int i = o->count++;
        o->part[i] = n;
        o->order[i] = order.t->value[order.begin];
        bool integer = order.t->kind[order.begin] == 0, fits = node_product(n, &o->size[i]);
        if (!integer)
            tuple_error("compact_order: the order %s of %s is not an integer", node_text(order).text,
                        node_text(n).text);
        else if (!fits)
            tuple_error("compact_order: the size of %s overflows 64 bits", node_text(n).text);
        return integer && fits;
    }
    if (node_is_leaf(n) || node_rank(n) != node_rank(order)) {
        tuple_error("compact_order: the shape %s and the order %s differ in rank", node_text(n).text,
                    node_text(order).text);
        return false;
    }
    tuple_node p = node_first(order);
    for (tuple_node m = node_first(n); m.begin < n.end; m = node_next(n, m), p = node_next(order, p))
        if (!order_parts(m, p, o))
            return false;
    return true;
}

/* The product of the sizes that come before part i.  Parts of one element may share their number. */
static bool order_start(const ordered *o, int i, const ptxpack_tuple *shape, const ptxpack_tuple *order,
                        int64_t *start)
{
    *start = 1;
    for (int j = 0; j < o->count && o->size[i] != 1; j++) {
        if (j != i && o->order[j] == o->order[i] && o->size[j] != 1) {
            tuple_error("compact_order: %lld stands twice in the order %s of %s", (long long)o->order[i],
                        tuple_text(order).text, tuple_text(shape).text);
            return false;
        }
        if (o->order[j] < o->order[i] && !mul_into(*start, o->size[j], start)) {
            tuple_error("compact_order: the size of %s overflows 64 bits", tuple_text(shape).text);
            return false;
        }
    }
    return true;
}

ptxpack_tuple ptxpack_compact_order(const ptxpack_tuple *shape, const ptxpack_tuple *order)
{
    GIVEN_TUPLE(shape);
    GIVEN_TUPLE(order);
    if (error_of(shape, order) != PTXPACK_OK)
        return tuple_failed(error_of(shape, order));
    ordered o;
    o.count = 0;
    if (!order_parts(tuple_root(shape), tuple_root(order), &o))
        return tuple_failed(PTXPACK_E_ARG);
    ptxpack_tuple out = tuple_profile(shape);
    for (int i = 0; i < o.count; i++) {
        int64_t start;
        if (!order_start(&o, i, shape, order, &start) ||
            !compact_range("compact_order", o.part[i], FIRST_FASTEST, start, 0, &out))
            return tuple_failed(PTXPACK_E_ARG);
    }
    return out;
}

static void basis_in(tuple_node n, uint64_t path, int steps, ptxpack_tuple *out)
{
    if (node_is_leaf(n)) {
        out->value[n.begin] = 1;
        out->kind[n.begin] = path;
        return;
    }
    uint64_t mode = 1;
    for (tuple_node m = node_first(n); m.begin < n.end; m = node_next(n, m), mode++)
        basis_in(m, path | mode << 8 * steps, steps + 1, out);
}

ptxpack_tuple ptxpack_make_basis_like(const ptxpack_tuple *shape)
{
    GIVEN_TUPLE(shape);
    if (shape->status != PTXPACK_OK)
        return tuple_failed(shape->status);
    ptxpack_tuple out = tuple_profile(shape);
    basis_in(tuple_root(shape), 0, 0, &out);
    return out;
}
