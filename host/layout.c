/* layout.c - layouts as values: making and reading them, and what is done to shape and stride alike. */
#include <stdio.h>
#include <string.h>

#include "layout_internal.h"

/* ---- building ------------------------------------------------------------------------------------- */
layout_builder layout_begin(ptxpack_layout *l)
{
    l->composed = false;
    l->offset = 0;
    memset(&l->swizzle, 0, sizeof l->swizzle);
    memset(l->tiler, 0, sizeof l->tiler);
    return (layout_builder){build_begin(&l->shape), build_begin(&l->stride)};
}

void layout_open(layout_builder *b)
{
    build_open(&b->shape);
    build_open(&b->stride);
}

void layout_close(layout_builder *b)
{
    build_close(&b->shape);
    build_close(&b->stride);
}

void layout_leaf(layout_builder *b, int64_t shape, int64_t stride, uint64_t kind)
{
    build_leaf(&b->shape, shape, 0);
    build_leaf(&b->stride, stride, kind);
}

void layout_copy(layout_builder *b, const ptxpack_layout *l, tuple_node n)
{
    build_node(&b->shape, n);
    n.t = &l->stride;
    build_node(&b->stride, n);
}

ptxpack_layout layout_end(layout_builder *b, const ptxpack_layout *l)
{
    ptxpack_layout out;
    (void)b;
    layout_assign(&out, l);
    layout_settle(&out);
    return out;
}

void tuple_assign(ptxpack_tuple *to, const ptxpack_tuple *from)
{
    size_t n = from->items;
    to->status = from->status;
    to->items = from->items;
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

/* How far the offsets reach on either side of 0: false when that overflows. */
static bool reach(const ptxpack_layout *l, int64_t *low, int64_t *high)
{
    *low = *high = 0;
    for (int i = 0; i < l->shape.items; i++) {
        int64_t step;
        if (l->shape.kind[i] == PTXPACK_EMPTY)
            continue;
        if (!mul_into(l->shape.value[i] - 1, l->stride.value[i], &step))
            return false;
        int64_t *side = step < 0 ? low : high;
        if (!add_into(*side, step, side))
            return false;
    }
    return true;
}

/* What is wrong is said of the whole layout. */
static void settle_no(ptxpack_layout *l, const char *what)
{
    ptxpack_layout no = layout_no("%s: %s", layout_text(l).text, what);
    l->shape.status = l->stride.status = no.shape.status;
    l->shape.items = l->stride.items = 0;
}

void layout_settle(ptxpack_layout *l)
{
    int64_t size = 1, low, high, span;
    if (l->shape.status != PTXPACK_OK || l->stride.status != PTXPACK_OK) {
        ptxpack_status status = l->shape.status != PTXPACK_OK ? l->shape.status : l->stride.status;
        l->shape.status = l->stride.status = status;
        l->shape.items = l->stride.items = 0;
        return;
    }
    for (int i = 0; i < l->shape.items; i++) {
        if (l->shape.kind[i] == PTXPACK_EMPTY)
            continue;
        if (l->shape.kind[i] != 0 || l->stride.kind[i] >= PTXPACK_EMPTY) {
            settle_no(l, "a layout is made of integers");
            return;
        }
        if (l->shape.value[i] <= 0) {
            char what[64];
            snprintf(what, sizeof what, "extent %lld is not positive", (long long)l->shape.value[i]);
            settle_no(l, what);
            return;
        }
        if (!mul_into(size, l->shape.value[i], &size)) {
            settle_no(l, "its size overflows 64 bits");
            return;
        }
    }
    if (!reach(l, &low, &high) || __builtin_sub_overflow(high, low, &span) || span == INT64_MAX)
        settle_no(l, "its cosize overflows 64 bits");
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

void layout_recompose(ptxpack_layout *out, const ptxpack_layout *l)
{
    if (out->shape.status != PTXPACK_OK || !l->composed)
        return;
    out->composed = true;
    out->swizzle = l->swizzle;
    out->offset = l->offset;
}

bool node_is_tiler(const ptxpack_layout *l, tuple_node n)
{
    return n.begin < n.end && l->tiler[n.begin] > n.level;
}

bool node_is_integer_tile(const ptxpack_layout *l, tuple_node n)
{
    return n.end - n.begin == 1 && l->stride.kind[n.begin] == PTXPACK_UNDERSCORE &&
           l->shape.kind[n.begin] == 0;
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
    if (shape->status != PTXPACK_OK || stride->status != PTXPACK_OK)
        return layout_bad(shape->status != PTXPACK_OK ? shape->status : stride->status);
    if (!node_congruent(tuple_root(shape), tuple_root(stride)))
        return layout_no("shape %s and stride %s are not nested alike", tuple_text(shape).text,
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
    ptxpack_tuple stride = ptxpack_compact_col_major(shape, NULL);
    return ptxpack_make_layout(shape, &stride);
}

ptxpack_layout ptxpack_make_layout_right(const ptxpack_tuple *shape)
{
    ptxpack_tuple stride = ptxpack_compact_row_major(shape, NULL);
    return ptxpack_make_layout(shape, &stride);
}

ptxpack_layout ptxpack_make_ordered_layout(const ptxpack_tuple *shape, const ptxpack_tuple *order)
{
    ptxpack_tuple stride = ptxpack_compact_order(shape, order);
    return ptxpack_make_layout(shape, &stride);
}

ptxpack_layout ptxpack_make_identity_layout(const ptxpack_tuple *shape)
{
    ptxpack_tuple stride = ptxpack_make_basis_like(shape);
    return ptxpack_make_layout(shape, &stride);
}

ptxpack_layout ptxpack_make_layout_like(const ptxpack_layout *l)
{
    ptxpack_tuple filtered = ptxpack_filter_zeros_by(&l->stride, &l->shape);
    ptxpack_tuple stride = ptxpack_compact_order(&filtered, &l->stride);
    return ptxpack_make_layout(&l->shape, &stride);
}

ptxpack_layout ptxpack_make_fragment_like(const ptxpack_layout *l)
{
    int rank = ptxpack_rank(&l->shape);
    if (l->shape.status != PTXPACK_OK)
        return *l;
    if (rank < 2)
        return ptxpack_make_layout_left(&l->shape);
    ptxpack_tuple shape0 = ptxpack_get(&l->shape, 0), stride0 = ptxpack_get(&l->stride, 0);
    ptxpack_tuple filtered = ptxpack_filter_zeros_by(&stride0, &shape0);
    ptxpack_tuple compact = ptxpack_compact_col_major(&filtered, NULL);
    ptxpack_tuple shapes = ptxpack_take(&l->shape, 1, rank), strides = ptxpack_take(&l->stride, 1, rank);
    ptxpack_layout block = ptxpack_make_layout(&shape0, &compact);
    ptxpack_layout rest = ptxpack_make_ordered_layout(&shapes, &strides);
    return ptxpack_tiled_product(&block, &rest);
}

static ptxpack_layout join(int count, const ptxpack_layout *modes, bool tiler)
{
    ptxpack_layout out;
    layout_builder b = layout_begin(&out);
    layout_open(&b);
    for (int i = 0; i < count; i++) {
        if (modes[i].shape.status != PTXPACK_OK)
            return modes[i];
        if (modes[i].composed || (!tiler && ptxpack_is_tiler(&modes[i])))
            return layout_no("%s cannot be a mode of a %s", layout_text(&modes[i]).text,
                             tiler ? "tiler" : "layout");
        int first = out.shape.items;
        layout_copy(&b, &modes[i], tuple_root(&modes[i].shape));
        for (int k = first; tiler && k < out.shape.items; k++)
            out.tiler[k] = (uint8_t)(1 + modes[i].tiler[k - first]);
    }
    layout_close(&b);
    if (tiler && count == 0)
        return layout_no("a tiler has no modes");
    if (tiler && (out.shape.status != PTXPACK_OK || out.stride.status != PTXPACK_OK))
        return layout_bad(PTXPACK_E_ARG);
    if (!tiler)
        layout_settle(&out);
    return out;
}

ptxpack_layout ptxpack_layout_join(int count, const ptxpack_layout *modes)
{
    return join(count, modes, false);
}

ptxpack_layout ptxpack_make_tiler(int count, const ptxpack_layout *modes)
{
    return join(count, modes, true);
}

ptxpack_layout ptxpack_tiler_of(const ptxpack_tuple *t)
{
    if (t->status != PTXPACK_OK)
        return layout_bad(t->status);
    ptxpack_layout out = {.shape = *t, .stride = *t};
    for (int i = 0; i < t->items; i++) {
        bool underscore = t->kind[i] == PTXPACK_UNDERSCORE;
        if (!underscore && (t->kind[i] != 0 || t->value[i] <= 0))
            return layout_no("a tile of %s is neither a positive integer nor _", tuple_text(t).text);
        out.stride.value[i] = 1;
        out.stride.kind[i] = PTXPACK_UNDERSCORE;
        out.tiler[i] = t->depth[i];
    }
    return out;
}

ptxpack_layout ptxpack_make_composed(ptxpack_swizzle swizzle, int64_t offset, const ptxpack_layout *l)
{
    int distance = swizzle.shift < 0 ? -swizzle.shift : swizzle.shift;
    if (l->shape.status != PTXPACK_OK)
        return *l;
    if (l->composed || ptxpack_is_tiler(l))
        return layout_no("%s cannot be composed with a swizzle: it is no plain layout", layout_text(l).text);
    if (swizzle.bits < 0 || swizzle.base < 0 || distance < swizzle.bits ||
        swizzle.bits + swizzle.base + distance > 62)
        return layout_no("Sw<%d,%d,%d>: B and M must not be negative, |S| not below B, B + M + |S| at most 62",
                         swizzle.bits, swizzle.base, swizzle.shift);
    ptxpack_layout out = *l;
    out.composed = swizzle.bits != 0 || offset != 0;
    out.swizzle = swizzle;
    out.offset = offset;
    return out;
}

/* ---- reading -------------------------------------------------------------------------------------- */
bool ptxpack_is_tiler(const ptxpack_layout *l)
{
    return l->shape.status == PTXPACK_OK && l->shape.items > 0 && l->tiler[0] > 0;
}

bool ptxpack_layout_equal(const ptxpack_layout *a, const ptxpack_layout *b)
{
    if (!ptxpack_tuple_equal(&a->shape, &b->shape) || !ptxpack_tuple_equal(&a->stride, &b->stride) ||
        memcmp(a->tiler, b->tiler, a->shape.items) != 0 || a->composed != b->composed)
        return false;
    return !a->composed || (a->offset == b->offset && a->swizzle.bits == b->swizzle.bits &&
                            a->swizzle.base == b->swizzle.base && a->swizzle.shift == b->swizzle.shift);
}

int64_t ptxpack_size(const ptxpack_layout *l)
{
    int64_t size = 0;
    return l->shape.status == PTXPACK_OK && node_product(tuple_root(&l->shape), &size) ? size : 0;
}

int64_t ptxpack_cosize(const ptxpack_layout *l)
{
    int64_t low, high;
    if (l->shape.status != PTXPACK_OK)
        return 0;
    for (int i = 0; i < l->stride.items; i++)
        if (l->stride.kind[i] != 0 && l->stride.kind[i] != PTXPACK_EMPTY)
            return 0;
    return reach(l, &low, &high) ? high - low + 1 : 0;
}

/* 1 + the greatest coordinate, strides taken as positive. */
ptxpack_tuple ptxpack_coshape(const ptxpack_layout *l)
{
    if (l->shape.status != PTXPACK_OK)
        return tuple_bad(l->shape.status);
    ptxpack_tuple last = l->shape, stride = l->stride;
    for (int i = 0; i < last.items; i++) {
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
    ptxpack_tuple shape = ptxpack_coshape(l);
    for (int i = 0; i < shape.items && shape.status == PTXPACK_OK; i++)
        shape.value[i] = 0;
    return shape;
}

ptxpack_layout ptxpack_mode(const ptxpack_layout *l, int mode)
{
    if (l->shape.status != PTXPACK_OK)
        return *l;
    tuple_node root = tuple_root(&l->shape), n = node_mode(root, mode);
    if (n.begin >= root.end)
        return layout_no("mode %d of %s: it has %d", mode, layout_text(l).text, node_rank(root));
    ptxpack_layout out;
    layout_node(l, n, &out);
    return out;
}

int64_t ptxpack_mode_size(const ptxpack_layout *l, int mode)
{
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
    if (l->shape.status != PTXPACK_OK)
        return tuple_bad(l->shape.status);
    ptxpack_tuple offset = ptxpack_crd2idx(coord, &l->shape, &l->stride);
    if (offset.status != PTXPACK_OK || !l->composed)
        return offset;
    if (ptxpack_is_tuple(&offset) || !add_into(offset.value[0], l->offset, &offset.value[0]))
        return tuple_no("%s has no such coordinate", layout_text(l).text);
    offset.value[0] = ptxpack_swizzle_apply(l->swizzle, offset.value[0]);
    return offset;
}

ptxpack_tuple ptxpack_get_hier_coord(const ptxpack_layout *l, int64_t offset)
{
    ptxpack_tuple index = ptxpack_int(offset);
    if (l->shape.status != PTXPACK_OK)
        return tuple_bad(l->shape.status);
    if (l->composed)
        return tuple_no("get_hier_coord: %s is swizzled", layout_text(l).text);
    return ptxpack_idx2crd(&index, &l->shape, &l->stride);
}

ptxpack_tuple ptxpack_get_flat_coord(const ptxpack_layout *l, int64_t offset)
{
    ptxpack_tuple coord = ptxpack_get_hier_coord(l, offset);
    ptxpack_tuple flat = ptxpack_product_each(&l->shape);
    flat = ptxpack_crd2crd(&coord, &l->shape, &flat);
    return ptxpack_unwrap(&flat);
}

ptxpack_tuple ptxpack_get_1d_coord(const ptxpack_layout *l, int64_t offset)
{
    ptxpack_tuple coord = ptxpack_get_hier_coord(l, offset);
    return ptxpack_crd2idx_compact(&coord, &l->shape);
}

/* ---- structure ------------------------------------------------------------------------------------ */
/* Shape and stride after the same change. */
static void finish(ptxpack_layout *out, const ptxpack_layout *l)
{
    layout_settle(out);
    layout_recompose(out, l);
}

ptxpack_layout ptxpack_layout_flatten(const ptxpack_layout *l)
{
    ptxpack_layout out;
    if (l->shape.status != PTXPACK_OK)
        return *l;
    (void)layout_begin(&out);
    out.shape = ptxpack_flatten(&l->shape);
    out.stride = ptxpack_flatten(&l->stride);
    finish(&out, l);
    return out;
}

ptxpack_layout ptxpack_layout_unflatten(const ptxpack_layout *l, const ptxpack_tuple *profile)
{
    ptxpack_layout out;
    if (l->shape.status != PTXPACK_OK)
        return *l;
    (void)layout_begin(&out);
    out.shape = ptxpack_unflatten(&l->shape, profile);
    out.stride = ptxpack_unflatten(&l->stride, profile);
    finish(&out, l);
    return out;
}

ptxpack_layout ptxpack_layout_take(const ptxpack_layout *l, int begin, int end)
{
    ptxpack_layout out;
    if (l->shape.status != PTXPACK_OK)
        return *l;
    if (begin == end)
        return layout_no("take<%d,%d> of %s leaves nothing", begin, end, layout_text(l).text);
    (void)layout_begin(&out);
    out.shape = ptxpack_take(&l->shape, begin, end);
    out.stride = ptxpack_take(&l->stride, begin, end);
    finish(&out, l);
    return out;
}

ptxpack_layout ptxpack_layout_group(const ptxpack_layout *l, int begin, int end)
{
    ptxpack_layout out;
    if (l->shape.status != PTXPACK_OK)
        return *l;
    (void)layout_begin(&out);
    out.shape = ptxpack_group(&l->shape, begin, end);
    out.stride = ptxpack_group(&l->stride, begin, end);
    finish(&out, l);
    return out;
}

ptxpack_layout ptxpack_layout_select(const ptxpack_layout *l, int count, const int *modes)
{
    ptxpack_layout out;
    if (l->shape.status != PTXPACK_OK)
        return *l;
    (void)layout_begin(&out);
    out.shape = ptxpack_select(&l->shape, count, modes);
    out.stride = ptxpack_select(&l->stride, count, modes);
    finish(&out, l);
    return out;
}

ptxpack_layout ptxpack_layout_reverse(const ptxpack_layout *l)
{
    ptxpack_layout out;
    if (l->shape.status != PTXPACK_OK)
        return *l;
    (void)layout_begin(&out);
    out.shape = ptxpack_reverse(&l->shape);
    out.stride = ptxpack_reverse(&l->stride);
    finish(&out, l);
    return out;
}

/* x, or 1:0 for NULL; a swizzled one cannot become part of another layout. */
static ptxpack_layout operand(const ptxpack_layout *x)
{
    ptxpack_layout one;
    layout_builder b = layout_begin(&one);
    layout_leaf(&b, 1, 0, 0);
    if (x != NULL && x->composed)
        return layout_no("%s cannot be a mode of another layout", layout_text(x).text);
    return x != NULL ? *x : one;
}

ptxpack_layout ptxpack_layout_append(const ptxpack_layout *l, const ptxpack_layout *x)
{
    ptxpack_layout o = operand(x);
    ptxpack_layout out;
    if (l->shape.status != PTXPACK_OK)
        return *l;
    (void)layout_begin(&out);
    out.shape = ptxpack_append(&l->shape, &o.shape);
    out.stride = ptxpack_append(&l->stride, &o.stride);
    finish(&out, l);
    return out;
}

ptxpack_layout ptxpack_layout_prepend(const ptxpack_layout *l, const ptxpack_layout *x)
{
    ptxpack_layout o = operand(x);
    ptxpack_layout out;
    if (l->shape.status != PTXPACK_OK)
        return *l;
    (void)layout_begin(&out);
    out.shape = ptxpack_prepend(&l->shape, &o.shape);
    out.stride = ptxpack_prepend(&l->stride, &o.stride);
    finish(&out, l);
    return out;
}

ptxpack_layout ptxpack_layout_append_to(const ptxpack_layout *l, int n, const ptxpack_layout *x)
{
    ptxpack_layout o = operand(x);
    ptxpack_layout out;
    if (l->shape.status != PTXPACK_OK)
        return *l;
    (void)layout_begin(&out);
    out.shape = ptxpack_append_to(&l->shape, n, &o.shape);
    out.stride = ptxpack_append_to(&l->stride, n, &o.stride);
    finish(&out, l);
    return out;
}

ptxpack_layout ptxpack_layout_prepend_to(const ptxpack_layout *l, int n, const ptxpack_layout *x)
{
    ptxpack_layout o = operand(x);
    ptxpack_layout out;
    if (l->shape.status != PTXPACK_OK)
        return *l;
    (void)layout_begin(&out);
    out.shape = ptxpack_prepend_to(&l->shape, n, &o.shape);
    out.stride = ptxpack_prepend_to(&l->stride, n, &o.stride);
    finish(&out, l);
    return out;
}

ptxpack_layout ptxpack_layout_replace(const ptxpack_layout *l, int mode, const ptxpack_layout *x)
{
    ptxpack_layout o = operand(x);
    ptxpack_layout out;
    if (l->shape.status != PTXPACK_OK)
        return *l;
    (void)layout_begin(&out);
    out.shape = ptxpack_replace(&l->shape, mode, &o.shape);
    out.stride = ptxpack_replace(&l->stride, mode, &o.stride);
    finish(&out, l);
    return out;
}

ptxpack_layout ptxpack_layout_zip(const ptxpack_layout *a, const ptxpack_layout *b)
{
    if (a->composed || b->composed)
        return layout_no("zip: %s is swizzled", layout_text(a->composed ? a : b).text);
    const ptxpack_tuple shapes[2] = {a->shape, b->shape}, strides[2] = {a->stride, b->stride};
    ptxpack_tuple       shape = ptxpack_tuple_join(2, shapes), stride = ptxpack_tuple_join(2, strides);
    ptxpack_layout out;
    if (a->shape.status != PTXPACK_OK)
        return *a;
    (void)layout_begin(&out);
    out.shape = ptxpack_zip(&shape);
    out.stride = ptxpack_zip(&stride);
    finish(&out, a);
    return out;
}

/* Follow the tiler's <...>: at its terminals l has two modes, one for the tiles and one for the rests, which
 * also get the modes of l that the tiler does not mention. */
static bool unzip_into(layout_builder *tiles, layout_builder *rests, const ptxpack_layout *l, tuple_node n,
                       const ptxpack_layout *tiler, tuple_node t)
{
    tuple_node m = node_first(n);
    if (!node_is_tiler(tiler, t)) {
        if (node_is_leaf(n) || node_rank(n) != 2)
            return false;
        layout_copy(tiles, l, m);
        layout_copy(rests, l, node_next(n, m));
        return true;
    }
    if (node_rank(n) < node_rank(t))
        return false;
    layout_open(tiles);
    layout_open(rests);
    for (tuple_node k = node_first(t); k.begin < t.end; k = node_next(t, k), m = node_next(n, m))
        if (!unzip_into(tiles, rests, l, m, tiler, k))
            return false;
    for (; m.begin < n.end; m = node_next(n, m))
        layout_copy(rests, l, m);
    layout_close(tiles);
    layout_close(rests);
    return true;
}

ptxpack_layout ptxpack_tile_unzip(const ptxpack_layout *l, const ptxpack_layout *tiler)
{
    ptxpack_layout tiles, rests, out;
    if (l->shape.status != PTXPACK_OK || tiler->shape.status != PTXPACK_OK)
        return l->shape.status != PTXPACK_OK ? *l : *tiler;
    layout_builder a = layout_begin(&tiles), b = layout_begin(&rests), all = layout_begin(&out);
    if (!unzip_into(&a, &b, l, tuple_root(&l->shape), tiler, tuple_root(&tiler->shape)))
        return layout_no("%s is not made of pairs where %s has its tiles", layout_text(l).text,
                         layout_text(tiler).text);
    layout_open(&all);
    layout_copy(&all, &tiles, tuple_root(&tiles.shape));
    layout_copy(&all, &rests, tuple_root(&rests.shape));
    layout_close(&all);
    finish(&out, l);
    return out;
}
