/* layout_divide.c - tiles: divides, products, and layouts repeated to fill a shape. */
#include "layout_internal.h"

typedef ptxpack_layout binary(const ptxpack_layout *l, const ptxpack_layout *tiler);

/* ---- logical ---------------------------------------------------------------------------------------- */
/* `mode` applied to the modes of l and of the tiler's node; the modes of l beyond stay as they are. */
static ptxpack_layout by_mode(const char *name, const ptxpack_layout *l, const ptxpack_layout *tiler,
                              tuple_node n, binary *mode)
{
    tuple_node     root = tuple_root(&l->shape), t = node_first(n);
    ptxpack_layout out;
    layout_builder b = layout_begin(&out);
    if (node_rank(n) > node_rank(root))
        return layout_no("%s: tiler %s has more modes than %s", name, layout_text(tiler).text,
                         layout_text(l).text);
    layout_open(&b);
    for (tuple_node m = node_first(root); m.begin < root.end; m = node_next(root, m)) {
        if (t.begin >= n.end) {
            layout_copy(&b, l, m);
            continue;
        }
        ptxpack_layout from, with;
        layout_node(l, m, &from);
        layout_node(tiler, t, &with);
        ptxpack_layout done = mode(&from, &with);
        if (done.shape.status != PTXPACK_OK)
            return done;
        layout_copy(&b, &done, tuple_root(&done.shape));
        t = node_next(n, t);
    }
    layout_close(&b);
    layout_settle(&out);
    return out;
}

/* An operation with a tiler: by mode for <...>, none for `_`, with n:1 for an integer n; the swizzle of l
 * stays in front. */
static ptxpack_layout with_tiler(const char *name, const ptxpack_layout *l, const ptxpack_layout *tiler,
                                 binary *self, binary *whole)
{
    if (l->shape.status != PTXPACK_OK || tiler->shape.status != PTXPACK_OK)
        return l->shape.status != PTXPACK_OK ? *l : *tiler;
    if (ptxpack_is_tiler(l))
        return layout_no("%s: %s is a tiler, not a layout", name, layout_text(l).text);
    if (tiler->composed)
        return layout_no("%s: tiler %s is swizzled", name, layout_text(tiler).text);
    if (l->composed) {
        ptxpack_layout inner = layout_inner(l), out = self(&inner, tiler);
        layout_recompose(&out, l);
        return out;
    }
    tuple_node root = tuple_root(&tiler->shape);
    if (tiler->shape.kind[0] == PTXPACK_UNDERSCORE && node_is_leaf(root))
        return *l;
    if (node_is_tiler(tiler, root))
        return by_mode(name, l, tiler, root, self);
    if (!node_is_integer_tile(tiler, root))
        return whole(l, tiler);
    ptxpack_layout first; /* n:1, and 1:0 */
    layout_builder b = layout_begin(&first);
    layout_leaf(&b, tiler->shape.value[0], tiler->shape.value[0] != 1, 0);
    return whole(l, &first);
}

static ptxpack_layout divide_whole(const ptxpack_layout *l, const ptxpack_layout *tile)
{
    ptxpack_layout both;
    layout_builder b = layout_begin(&both);
    flat_layout    f = flat_of(l, tuple_root(&l->shape)), rest;
    f = flat_coalesce(&f, false);
    if (!complement_flat(tile, f.modes, f.shape, true, &rest))
        return layout_bad(PTXPACK_E_ARG);
    layout_open(&b);
    layout_copy(&b, tile, tuple_root(&tile->shape));
    flat_emit(&b, &rest);
    layout_close(&b);
    layout_settle(&both);
    return ptxpack_composition(l, &both);
}

ptxpack_layout ptxpack_logical_divide(const ptxpack_layout *l, const ptxpack_layout *tiler)
{
    return with_tiler("logical_divide", l, tiler, ptxpack_logical_divide, divide_whole);
}

static ptxpack_layout product_whole(const ptxpack_layout *block, const ptxpack_layout *tiler)
{
    int64_t reach;
    if (!mul_into(ptxpack_size(block), ptxpack_cosize(tiler), &reach) || reach == 0)
        return layout_no("logical_product: size of %s times cosize of %s is no 64-bit number",
                         layout_text(block).text, layout_text(tiler).text);
    ptxpack_layout rest, out;
    flat_layout    f;
    layout_builder b = layout_begin(&rest), all = layout_begin(&out);
    if (!complement_flat(block, 1, &reach, false, &f))
        return layout_bad(PTXPACK_E_ARG);
    flat_emit(&b, &f);
    ptxpack_layout places = ptxpack_composition(&rest, tiler);
    if (places.shape.status != PTXPACK_OK)
        return places;
    layout_open(&all);
    layout_copy(&all, block, tuple_root(&block->shape));
    layout_copy(&all, &places, tuple_root(&places.shape));
    layout_close(&all);
    layout_settle(&out);
    return out;
}

ptxpack_layout ptxpack_logical_product(const ptxpack_layout *block, const ptxpack_layout *tiler)
{
    if (tiler->composed && block->shape.status == PTXPACK_OK && !block->composed)
        return product_swizzled(block, tiler);
    return with_tiler("logical_product", block, tiler, ptxpack_logical_product, product_whole);
}

/* ---- gathered ----------------------------------------------------------------------------------------- */
/* The modes [first, rank) of l, each replaced by its own modes where `open` says so.  A rest that is an integer,
 * or a tuple of one mode, stays a mode. */
static ptxpack_layout opened(const ptxpack_layout *l, bool open_first, bool open_second)
{
    ptxpack_layout out;
    tuple_node     root = tuple_root(&l->shape);
    layout_builder b = layout_begin(&out);
    int            i = 0;
    if (l->shape.status != PTXPACK_OK)
        return *l;
    layout_open(&b);
    for (tuple_node m = node_first(root); m.begin < root.end; m = node_next(root, m), i++) {
        bool open = (i == 0 ? open_first : open_second) && node_rank(m) > 1;
        if (!open)
            layout_copy(&b, l, m);
        for (tuple_node k = node_first(m); open && k.begin < m.end; k = node_next(m, k))
            layout_copy(&b, l, k);
    }
    layout_close(&b);
    layout_settle(&out);
    layout_recompose(&out, l);
    return out;
}

static ptxpack_layout zipped(const ptxpack_layout *l, const ptxpack_layout *tiler, binary *logical)
{
    ptxpack_layout parts = logical(l, tiler);
    return ptxpack_tile_unzip(&parts, tiler);
}

ptxpack_layout ptxpack_zipped_divide(const ptxpack_layout *l, const ptxpack_layout *tiler)
{
    return zipped(l, tiler, ptxpack_logical_divide);
}

ptxpack_layout ptxpack_tiled_divide(const ptxpack_layout *l, const ptxpack_layout *tiler)
{
    ptxpack_layout parts = ptxpack_zipped_divide(l, tiler);
    return opened(&parts, false, true);
}

ptxpack_layout ptxpack_flat_divide(const ptxpack_layout *l, const ptxpack_layout *tiler)
{
    ptxpack_layout parts = ptxpack_zipped_divide(l, tiler);
    return opened(&parts, true, true);
}

ptxpack_layout ptxpack_zipped_product(const ptxpack_layout *block, const ptxpack_layout *tiler)
{
    return zipped(block, tiler, ptxpack_logical_product);
}

ptxpack_layout ptxpack_tiled_product(const ptxpack_layout *block, const ptxpack_layout *tiler)
{
    ptxpack_layout parts = ptxpack_zipped_product(block, tiler);
    return opened(&parts, false, true);
}

ptxpack_layout ptxpack_flat_product(const ptxpack_layout *block, const ptxpack_layout *tiler)
{
    ptxpack_layout parts = ptxpack_zipped_product(block, tiler);
    return opened(&parts, true, true);
}

/* ---- rank by rank -------------------------------------------------------------------------------------- */
static ptxpack_layout by_rank(const ptxpack_layout *block, const ptxpack_layout *tiler, int first)
{
    if (block->shape.status != PTXPACK_OK || tiler->shape.status != PTXPACK_OK)
        return block->shape.status != PTXPACK_OK ? *block : *tiler;
    int            a = ptxpack_rank(&block->shape), b = ptxpack_rank(&tiler->shape), rank = a > b ? a : b;
    ptxpack_layout padded = ptxpack_layout_append_to(block, rank, NULL);
    ptxpack_layout repeat = ptxpack_layout_append_to(tiler, rank, NULL);
    /* a bare integer counts as a tuple of one */
    padded.shape = ptxpack_wrap(&padded.shape), padded.stride = ptxpack_wrap(&padded.stride);
    repeat.shape = ptxpack_wrap(&repeat.shape), repeat.stride = ptxpack_wrap(&repeat.stride);
    ptxpack_layout both = ptxpack_logical_product(&padded, &repeat);
    ptxpack_layout inner = layout_inner(&both);
    ptxpack_layout parts[2] = {ptxpack_mode(&inner, first), ptxpack_mode(&inner, 1 - first)};
    ptxpack_layout out = ptxpack_layout_zip(&parts[0], &parts[1]);
    layout_recompose(&out, &both);
    return out;
}

ptxpack_layout ptxpack_blocked_product(const ptxpack_layout *block, const ptxpack_layout *tiler)
{
    return by_rank(block, tiler, 0);
}

ptxpack_layout ptxpack_raked_product(const ptxpack_layout *block, const ptxpack_layout *tiler)
{
    return by_rank(block, tiler, 1);
}

ptxpack_layout ptxpack_tile_to_shape(const ptxpack_layout *block, const ptxpack_tuple *shape,
                                     const ptxpack_tuple *order)
{
    if (block->shape.status != PTXPACK_OK || shape->status != PTXPACK_OK)
        return layout_bad(block->shape.status != PTXPACK_OK ? block->shape.status : shape->status);
    int rank = ptxpack_rank(shape);
    if (ptxpack_rank(&block->shape) > rank)
        return layout_no("tile_to_shape: %s has more modes than %s", layout_text(block).text,
                         tuple_text(shape).text);
    ptxpack_layout padded = ptxpack_layout_append_to(block, rank, NULL);
    ptxpack_tuple  extents = ptxpack_product_each(&padded.shape), target = ptxpack_product_each(shape);
    for (int i = 0; i < target.items; i++)
        if (extents.value[i] == 0 || target.value[i] % extents.value[i] != 0)
            return layout_no("tile_to_shape: extent %lld of %s does not divide %lld of %s",
                             (long long)extents.value[i], layout_text(block).text, (long long)target.value[i],
                             tuple_text(shape).text);
    ptxpack_tuple  times = ptxpack_ceil_div(&target, &extents);
    ptxpack_layout repeat =
        order != NULL ? ptxpack_make_ordered_layout(&times, order) : ptxpack_make_layout_left(&times);
    return ptxpack_blocked_product(&padded, &repeat);
}

ptxpack_tuple ptxpack_ceil_div_layout(const ptxpack_tuple *shape, const ptxpack_layout *tiler)
{
    return ptxpack_complement(tiler, shape).shape;
}
