/* layout.c - layouts as values: making and reading them. */
#include <stdio.h>
#include <string.h>

#include "internal.h"

/* ---- building ------------------------------------------------------------------------------------- */
void layout_copy(layout_builder *b, const ptxpack_layout *l, tuple_node n)
{
    int first = b->shape.t->items;
    build_node(&b->shape, n);
    for (int i = first; i < b->shape.t->items; i++) {
        b->stride->value[i] = l->stride.value[n.begin + i - first];
        b->stride->kind[i] = l->stride.kind[n.begin + i - first];
    }
    layout_nest(b, first);
}

void tuple_assign(ptxpack_tuple *to, const ptxpack_tuple *from)
{
    size_t n = from->status == PTXPACK_OK ? from->items : 0;
    to->status = from->status;
    to->items = (uint8_t)n;
    memcpy(to->depth, from->depth, n);
    memcpy(to->shared, from->shared, n);
    memcpy(to->value, from->value, n * sizeof to->value[0]);
    memcpy(to->kind, from->kind, n * sizeof to->kind[0]);
}

void layout_assign(ptxpack_layout *to, const ptxpack_layout *from)
{
    tuple_assign(&to->shape, &from->shape);
    tuple_assign(&to->stride, &from->stride);
    to->composed = from->composed;
    to->swizzle = from->swizzle;
    to->offset = from->offset;
    memcpy(to->tiler, from->tiler, sizeof to->tiler);
}

/* One more mode: how far the offsets reach on either side of 0.  false: that overflows. */
static inline bool extend_reach(int64_t shape, int64_t stride, int64_t *low, int64_t *high)
{
    int64_t step;
    if (stride == INT64_MIN || !mul_into(shape - 1, stride, &step)) /* nor could -stride be said */
        return false;
    return step < 0 ? add_into(*low, step, low) : add_into(*high, step, high);
}

static inline bool span_of(int64_t low, int64_t high, int64_t *cosize)
{
    return !__builtin_sub_overflow(high, low, cosize) && add_into(*cosize, 1, cosize);
}

static bool reach_of(const ptxpack_layout *l, tuple_node n, int64_t *low, int64_t *high)
{
    *low = *high = 0;
    for (int i = n.begin; i < n.end; i++)
        if (l->shape.kind[i] != PTXPACK_EMPTY &&
            !extend_reach(l->shape.value[i], l->stride.value[i], low, high))
            return false;
    return true;
}

bool layout_cosize(const ptxpack_layout *l, tuple_node n, int64_t *cosize)
{
    int64_t low, high;
    return reach_of(l, n, &low, &high) && span_of(low, high, cosize);
}

bool layout_has_basis(const ptxpack_layout *l, tuple_node n)
{
    for (int i = n.begin; i < n.end; i++)
        if (l->stride.kind[i] != 0 && l->stride.kind[i] != PTXPACK_EMPTY)
            return true;
    return false;
}

ptxpack_status layout_wanted(const char *name, const ptxpack_layout *l)
{
    if (l->shape.status == PTXPACK_OK && !layout_is_plain(l))
        return layout_error("%s: %s is a tiler, not a layout", name, layout_text(l).text).shape.status;
    return l->shape.status;
}

ptxpack_status integers_wanted(const char *name, const ptxpack_layout *l)
{
    ptxpack_status status = layout_wanted(name, l);
    if (status == PTXPACK_OK && layout_has_basis(l, tuple_root(&l->shape)))
        return layout_error("%s: %s has no integer strides", name, layout_text(l).text).shape.status;
    return status;
}

/* If shape or stride is an error, both become one. */
static void agree(ptxpack_layout *l)
{
    ptxpack_status bad = error_of(&l->shape, &l->stride);
    if (bad == PTXPACK_OK)
        return;
    l->shape.status = l->stride.status = bad;
    l->shape.items = l->stride.items = 0;
}

/* An error names the whole layout. */
static void settle_error(ptxpack_layout *l, const char *what)
{
    ptxpack_layout error = layout_error("%s: %s", layout_text(l).text, what);
    l->shape.status = l->stride.status = error.shape.status;
    l->shape.items = l->stride.items = 0;
}

void layout_settle(ptxpack_layout *l)
{
    int64_t size = 1, low = 0, high = 0, cosize;
    bool    reaches = true;
    agree(l);
    for (int i = 0; i < l->shape.items; i++) {
        int64_t extent = l->shape.value[i];
        if (l->shape.kind[i] == PTXPACK_EMPTY)
            continue;
        if (l->shape.kind[i] != 0 || l->stride.kind[i] >= PTXPACK_EMPTY) {
            settle_error(l, "a layout is made of integers");
            return;
        }
        if (extent <= 0) {
            char what[64];
            snprintf(what, sizeof what, "extent %lld is not positive", (long long)extent);
            settle_error(l, what);
            return;
        }
        if (!mul_into(size, extent, &size)) {
            settle_error(l, "its size overflows 64 bits");
            return;
        }
        reaches = reaches && extend_reach(extent, l->stride.value[i], &low, &high);
    }
    if (!reaches || !span_of(low, high, &cosize))
        settle_error(l, "its cosize overflows 64 bits");
}

ptxpack_layout layout_inner(const ptxpack_layout *l)
{
    ptxpack_layout inner;
    layout_assign(&inner, l);
    inner.composed = false;
    inner.offset = 0;
    memset(&inner.swizzle, 0, sizeof inner.swizzle);
    return inner;
}

/* l behind a swizzle and an offset; an overflow becomes its status. */
static void swizzle_by(ptxpack_layout *l, ptxpack_swizzle swizzle, int64_t offset)
{
    tuple_node all = tuple_root(&l->shape);
    int64_t    low = 0, high = 0;
    l->composed = true;
    l->swizzle = swizzle;
    l->offset = offset;
    if (layout_has_basis(l, all))
        settle_error(l, "no swizzle takes what is no integer");
    else if (offset != 0 && (!reach_of(l, all, &low, &high) || !add_into(offset, low, &low) ||
                             !add_into(offset, high, &high) || low == INT64_MIN))
        settle_error(l, "its offsets overflow 64 bits");
}

void layout_recompose(ptxpack_layout *out, const ptxpack_layout *l)
{
    agree(out);
    if (out->shape.status != PTXPACK_OK || !l->composed)
        return;
    swizzle_by(out, l->swizzle, l->offset);
}

void layout_node(const ptxpack_layout *l, tuple_node n, ptxpack_layout *out)
{
    layout_builder b = layout_begin(out);
    layout_copy(&b, l, n);
    for (int i = n.begin; i < n.end; i++)
        out->tiler[i - n.begin] = (uint8_t)(l->tiler[i] > n.level ? l->tiler[i] - n.level : 0);
    layout_recompose(out, l);
}

/* ---- making --------------------------------------------------------------------------------------- */
ptxpack_layout ptxpack_make_layout(const ptxpack_tuple *shape, const ptxpack_tuple *stride)
{
    GIVEN_TUPLE(shape);
    GIVEN_TUPLE(stride);
    if (error_of(shape, stride) != PTXPACK_OK)
        return layout_failed(error_of(shape, stride));
    if (!node_congruent(tuple_root(shape), tuple_root(stride)))
        return layout_error("shape %s and stride %s are not nested alike", tuple_text(shape).text,
                            tuple_text(stride).text);
    ptxpack_layout out;
    (void)layout_begin(&out);
    tuple_assign(&out.shape, shape);
    tuple_assign(&out.stride, stride);
    layout_settle(&out);
    return out;
}

ptxpack_layout ptxpack_make_layout_left(const ptxpack_tuple *shape)
{
    GIVEN_TUPLE(shape);
    ptxpack_tuple stride = ptxpack_compact_col_major(shape, NULL);
    return ptxpack_make_layout(shape, &stride);
}

ptxpack_layout ptxpack_make_layout_right(const ptxpack_tuple *shape)
{
    GIVEN_TUPLE(shape);
    ptxpack_tuple stride = ptxpack_compact_row_major(shape, NULL);
    return ptxpack_make_layout(shape, &stride);
}

ptxpack_layout ptxpack_make_ordered_layout(const ptxpack_tuple *shape, const ptxpack_tuple *order)
{
    GIVEN_TUPLE(shape);
    GIVEN_TUPLE(order);
    ptxpack_tuple stride = ptxpack_compact_order(shape, order);
    return ptxpack_make_layout(shape, &stride);
}

ptxpack_layout ptxpack_make_identity_layout(const ptxpack_tuple *shape)
{
    GIVEN_TUPLE(shape);
    ptxpack_tuple stride = ptxpack_make_basis_like(shape);
    return ptxpack_make_layout(shape, &stride);
}

ptxpack_layout ptxpack_make_layout_like(const ptxpack_layout *l)
{
    GIVEN_LAYOUT(l);
    ptxpack_status status = layout_wanted("make_layout_like", l);
    if (status != PTXPACK_OK)
        return layout_failed(status);
    ptxpack_tuple filtered = ptxpack_filter_zeros_by(&l->stride, &l->shape);
    ptxpack_tuple stride = ptxpack_compact_order(&filtered, &l->stride);
    return ptxpack_make_layout(&l->shape, &stride);
}

ptxpack_layout ptxpack_make_fragment_like(const ptxpack_layout *l)
{
    GIVEN_LAYOUT(l);
    ptxpack_status status = layout_wanted("make_fragment_like", l);
    int            rank = ptxpack_rank(&l->shape);
    if (status != PTXPACK_OK)
        return layout_failed(status);
    if (rank < 2)
        return ptxpack_make_layout_left(&l->shape);
    ptxpack_tuple  shape0 = ptxpack_get(&l->shape, 0), stride0 = ptxpack_get(&l->stride, 0);
    ptxpack_tuple  filtered = ptxpack_filter_zeros_by(&stride0, &shape0);
    ptxpack_tuple  compact = ptxpack_compact_col_major(&filtered, NULL);
    ptxpack_tuple  shapes = ptxpack_take(&l->shape, 1, rank), strides = ptxpack_take(&l->stride, 1, rank);
    ptxpack_layout block = ptxpack_make_layout(&shape0, &compact);
    ptxpack_layout rest = ptxpack_make_ordered_layout(&shapes, &strides);
    return ptxpack_tiled_product(&block, &rest);
}

static bool joinable(const ptxpack_layout *mode, bool tiler, ptxpack_layout *error)
{
    if (mode->shape.status != PTXPACK_OK)
        *error = layout_failed(mode->shape.status);
    else if (mode->composed || (!tiler && !layout_is_plain(mode)))
        *error = layout_error("%s cannot be a mode of a %s", layout_text(mode).text,
                              tiler ? "tiler" : "layout");
    else
        return true;
    return false;
}

ptxpack_layout ptxpack_layout_join(int count, const ptxpack_layout *modes)
{
    ptxpack_layout out;
    layout_builder b = layout_begin(&out);
    if (count < 0 || count > PTXPACK_TUPLE_ITEMS)
        return layout_error("layout_join: %d modes; 0 to %d are possible", count, PTXPACK_TUPLE_ITEMS);
    if (modes == NULL && count > 0)
        return layout_failed(operand_missing(__func__, "modes"));
    layout_open(&b);
    for (int i = 0; i < count; i++) {
        if (!joinable(&modes[i], false, &out))
            return out;
        layout_copy(&b, &modes[i], tuple_root(&modes[i].shape));
    }
    layout_close(&b);
    if (count > 0)
        tuple_name(&out.shape, "layout_join", &modes[0].shape);
    layout_settle(&out);
    return out;
}

void tiler_join(int count, const ptxpack_layout *const *modes, ptxpack_layout *out)
{
    layout_builder b = layout_begin(out);
    layout_open(&b);
    for (int i = 0; i < count; i++) {
        int first = out->shape.items;
        if (!joinable(modes[i], true, out))
            return;
        layout_copy(&b, modes[i], tuple_root(&modes[i]->shape));
        for (int k = first; k < out->shape.items; k++)
            out->tiler[k] = (uint8_t)(1 + modes[i]->tiler[k - first]);
    }
    layout_close(&b);
    tuple_name(&out->shape, "make_tiler", &modes[0]->shape);
    agree(out);
}

ptxpack_layout ptxpack_make_tiler(int count, const ptxpack_layout *modes)
{
    const ptxpack_layout *each[PTXPACK_TUPLE_ITEMS];
    ptxpack_layout        out;
    if (count < 1 || count > PTXPACK_TUPLE_ITEMS)
        return layout_error("a tiler of %d modes; 1 to %d are possible", count, PTXPACK_TUPLE_ITEMS);
    if (modes == NULL)
        return layout_failed(operand_missing(__func__, "modes"));
    for (int i = 0; i < count; i++)
        each[i] = &modes[i];
    tiler_join(count, each, &out);
    return out;
}

ptxpack_layout ptxpack_tiler_of(const ptxpack_tuple *t)
{
    GIVEN_TUPLE(t);
    if (t->status != PTXPACK_OK)
        return layout_failed(t->status);
    ptxpack_layout out;
    layout_builder b = layout_begin(&out);
    build_node(&b.shape, tuple_root(t));
    for (int i = 0; i < t->items; i++) {
        bool underscore = t->kind[i] == PTXPACK_UNDERSCORE;
        if (!underscore && (t->kind[i] != 0 || t->value[i] <= 0))
            return layout_error("a tile of %s is neither a positive integer nor _", tuple_text(t).text);
        out.stride.value[i] = 1;
        out.stride.kind[i] = PTXPACK_UNDERSCORE;
        out.tiler[i] = t->depth[i];
    }
    layout_nest(&b, 0);
    return out;
}

ptxpack_layout ptxpack_make_composed(ptxpack_swizzle swizzle, int64_t offset, const ptxpack_layout *l)
{
    GIVEN_LAYOUT(l);
    ptxpack_status status = layout_wanted("make_composed", l);
    if (status != PTXPACK_OK)
        return layout_failed(status);
    if (l->composed)
        return layout_error("make_composed: %s is swizzled already", layout_text(l).text);
    if (!swizzle_ok(swizzle))
        return layout_error(
            "Sw<%d,%d,%d>: B and M must not be negative, |S| not below B, B + M + |S| at most 62", swizzle.bits,
            swizzle.base, swizzle.shift);
    ptxpack_layout out;
    layout_assign(&out, l);
    if (swizzle.bits != 0 || offset != 0)
        swizzle_by(&out, swizzle, offset);
    return out;
}

/* ---- reading -------------------------------------------------------------------------------------- */
bool ptxpack_is_tiler(const ptxpack_layout *l)
{
    GIVEN_LAYOUT(l);
    return l->shape.status == PTXPACK_OK && l->shape.items > 0 && l->tiler[0] > 0;
}

bool ptxpack_layout_equal(const ptxpack_layout *a, const ptxpack_layout *b)
{
    GIVEN_LAYOUT(a);
    GIVEN_LAYOUT(b);
    if (!ptxpack_tuple_equal(&a->shape, &b->shape) || !ptxpack_tuple_equal(&a->stride, &b->stride) ||
        memcmp(a->tiler, b->tiler, a->shape.items) != 0 || a->composed != b->composed)
        return false;
    return !a->composed || (a->offset == b->offset && a->swizzle.bits == b->swizzle.bits &&
                            a->swizzle.base == b->swizzle.base && a->swizzle.shift == b->swizzle.shift);
}

int64_t ptxpack_size(const ptxpack_layout *l)
{
    GIVEN_LAYOUT(l);
    int64_t size = 0;
    return l->shape.status == PTXPACK_OK && node_product(tuple_root(&l->shape), &size) ? size : 0;
}

int64_t ptxpack_cosize(const ptxpack_layout *l)
{
    GIVEN_LAYOUT(l);
    int64_t    cosize;
    tuple_node all = tuple_root(&l->shape);
    bool has = l->shape.status == PTXPACK_OK && !layout_has_basis(l, all) && layout_cosize(l, all, &cosize);
    return has ? cosize : 0;
}

/* 1 + the greatest coordinate, strides taken as positive. */
ptxpack_tuple ptxpack_coshape(const ptxpack_layout *l)
{
    GIVEN_LAYOUT(l);
    ptxpack_status status = layout_wanted("coshape", l);
    if (status != PTXPACK_OK)
        return tuple_failed(status);
    ptxpack_tuple last = l->shape, stride = l->stride;
    for (int i = 0; i < last.items; i++) {
        if (last.kind[i] == PTXPACK_EMPTY)
            continue;
        last.value[i] -= last.kind[i] == 0;
        stride.value[i] = stride.value[i] < 0 ? -stride.value[i] : stride.value[i];
    }
    ptxpack_tuple top = ptxpack_inner_product(&last, &stride);
    top = ptxpack_as_arithmetic_tuple(&top);
    for (int i = 0; i < top.items && top.status == PTXPACK_OK; i++)
        top.value[i]++;
    return top;
}

ptxpack_tuple ptxpack_coprofile(const ptxpack_layout *l)
{
    GIVEN_LAYOUT(l);
    ptxpack_tuple shape = ptxpack_coshape(l);
    for (int i = 0; i < shape.items && shape.status == PTXPACK_OK; i++)
        shape.value[i] = 0;
    return shape;
}

ptxpack_layout ptxpack_mode(const ptxpack_layout *l, int mode)
{
    GIVEN_LAYOUT(l);
    if (l->shape.status != PTXPACK_OK)
        return *l;
    tuple_node root = tuple_root(&l->shape), n = node_mode(root, mode);
    if (n.begin >= root.end)
        return layout_error("mode %d of %s: it has %d", mode, layout_text(l).text, node_rank(root));
    ptxpack_layout out;
    layout_node(l, n, &out);
    return out;
}

int64_t ptxpack_mode_size(const ptxpack_layout *l, int mode)
{
    GIVEN_LAYOUT(l);
    int64_t size = 0;
    if (l->shape.status != PTXPACK_OK)
        return 0;
    tuple_node root = tuple_root(&l->shape), n = node_mode(root, mode);
    return n.begin < root.end && node_product(n, &size) ? size : 0;
}

int64_t ptxpack_swizzle_apply(ptxpack_swizzle s, int64_t x)
{
    int64_t field = ((int64_t)1 << s.bits) - 1;
    if (s.shift >= 0)
        return x ^ (x >> s.shift & field << s.base);
    return x ^ (x & field << s.base) << -s.shift;
}

int64_t ptxpack_at(const ptxpack_layout *l, int64_t index)
{
    GIVEN_LAYOUT(l);
    int64_t offset = l->offset;
    for (int i = 0; i < l->shape.items && index != 0; i++) {
        int64_t extent = l->shape.value[i];
        if (extent <= 1)
            continue;
        offset += index % extent * l->stride.value[i];
        index /= extent;
    }
    return l->composed ? ptxpack_swizzle_apply(l->swizzle, offset) : offset;
}

ptxpack_tuple ptxpack_layout_crd2idx(const ptxpack_layout *l, const ptxpack_tuple *coord)
{
    GIVEN_LAYOUT(l);
    GIVEN_TUPLE(coord);
    if (l->shape.status != PTXPACK_OK)
        return tuple_failed(l->shape.status);
    ptxpack_tuple offset = ptxpack_crd2idx(coord, &l->shape, &l->stride);
    if (offset.status != PTXPACK_OK || !l->composed)
        return offset;
    if (ptxpack_is_tuple(&offset) || !add_into(offset.value[0], l->offset, &offset.value[0]))
        return tuple_error("%s has no such coordinate", layout_text(l).text);
    offset.value[0] = ptxpack_swizzle_apply(l->swizzle, offset.value[0]);
    return offset;
}

/* Is that the offset of this coordinate, which was read off it digit by digit? */
static bool is_offset_of(const ptxpack_layout *l, const ptxpack_tuple *coord, int64_t offset)
{
    int64_t there = 0;
    for (int i = 0; i < coord->items; i++) {
        if (coord->value[i] < 0)
            return false;
        there += coord->value[i] * l->stride.value[i]; /* below the extent: it fits as the cosize does */
    }
    return there == offset;
}

ptxpack_tuple ptxpack_get_hier_coord(const ptxpack_layout *l, int64_t offset)
{
    GIVEN_LAYOUT(l);
    ptxpack_status status = layout_wanted("get_hier_coord", l);
    if (status != PTXPACK_OK)
        return tuple_failed(status);
    if (l->composed)
        return tuple_error("get_hier_coord: %s is swizzled", layout_text(l).text);
    ptxpack_tuple index = ptxpack_int(offset), coord = ptxpack_idx2crd(&index, &l->shape, &l->stride);
    if (coord.status == PTXPACK_OK && !is_offset_of(l, &coord, offset))
        return tuple_error("get_hier_coord: %s does not reach %lld", layout_text(l).text, (long long)offset);
    return coord;
}

ptxpack_tuple ptxpack_get_flat_coord(const ptxpack_layout *l, int64_t offset)
{
    GIVEN_LAYOUT(l);
    ptxpack_tuple coord = ptxpack_get_hier_coord(l, offset);
    if (coord.status != PTXPACK_OK)
        return coord;
    /* nested as the shape: its items are those of the coordinate */
    ptxpack_tuple flat;
    tuple_builder b = build_begin(&flat);
    tuple_node    root = tuple_root(&l->shape);
    build_open(&b);
    for (tuple_node m = node_first(root); m.begin < root.end; m = node_next(root, m)) {
        int64_t index = 0, before = 1;
        for (int i = m.begin; i < m.end; i++)
            if (l->shape.kind[i] != PTXPACK_EMPTY) {
                index += coord.value[i] * before;
                before *= l->shape.value[i];
            }
        build_leaf(&b, index, 0);
    }
    build_close(&b);
    return ptxpack_unwrap(&flat);
}

ptxpack_tuple ptxpack_get_1d_coord(const ptxpack_layout *l, int64_t offset)
{
    GIVEN_LAYOUT(l);
    ptxpack_tuple coord = ptxpack_get_hier_coord(l, offset);
    return ptxpack_crd2idx_compact(&coord, &l->shape);
}
