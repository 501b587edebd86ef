/* divide.c - tiles: divides, products, and layouts repeated to fill a shape. */
#include "internal.h"

/* ---- logical ---------------------------------------------------------------------------------------- */
/* Operands that no divide and no product accepts. */
static bool operands_ok(const char *name, const ptxpack_layout *l, const ptxpack_layout *tiler,
                        ptxpack_layout *error)
{
    ptxpack_status status = layout_wanted(name, l);
    if (status != PTXPACK_OK || tiler->shape.status != PTXPACK_OK)
        *error = layout_failed(status != PTXPACK_OK ? status : tiler->shape.status);
    else if (tiler->composed)
        *error = layout_error("%s: tiler %s is swizzled", name, layout_text(tiler).text);
    else
        return true;
    return false;
}

/* The same where no rule about single modes finds it: both at once, then one after the other into their places. */
static bool divide_exactly(const tiling *t, layout_builder *out, const flat_layout *l,
                           const ptxpack_layout *tile, tuple_node m, const flat_layout *rest)
{
    ptxpack_layout pair, parts;
    layout_builder b = layout_begin(&pair), p = layout_begin(&parts);
    layout_open(&b);
    layout_copy(&b, tile, m);
    flat_emit(&b, rest);
    layout_close(&b);
    if (pair.shape.status != PTXPACK_OK || !compose_exactly(l, &p, &pair, tuple_root(&pair.shape)))
        return false;
    tuple_node root = tuple_root(&parts.shape), first = node_first(root);
    layout_copy(out, &parts, first);
    layout_copy(t->rests != NULL ? t->rests : out, &parts, node_next(root, first));
    return true;
}

/* l o (tile, complement of tile). */
static bool divide_whole(const tiling *t, layout_builder *out, tuple_node n, const ptxpack_layout *tile,
                         tuple_node m)
{
    composing   c;
    flat_layout rest;
    if (layout_has_basis(tile, m))
        return tiling_error(t, n, tile, m, "the tile has no integer strides");
    flat_coalesced(t->l, n, false, &c.a);
    if (!complement_flat(tile, m, c.a.modes, c.a.shape, true, &rest))
        return false;
    flat_coalesced(t->l, n, true, &c.a);
    compose_begin(&c, out);
    if (t->rests == NULL)
        layout_open(out);
    layout_builder *rests = t->rests != NULL ? t->rests : out;
    layout_mark     tiles = layout_here(out), after = layout_here(rests);
    bool            done = compose_node(&c, tile, m);
    c.out = rests;
    if (!done || !compose_flat(&c, &rest)) {
        layout_take_back(rests, &after);
        layout_take_back(out, &tiles);
        if (layout_has_basis(t->l, n) || !divide_exactly(t, out, &c.a, tile, m, &rest))
            return tiling_error(t, n, tile, m, c.why);
    }
    if (t->rests == NULL)
        layout_close(out);
    return true;
}

typedef void gather(tiling *t, ptxpack_layout *out); /* tile_by or tile_by_gathered */

static void divide_into(ptxpack_layout *out, const ptxpack_layout *l, const ptxpack_layout *tiler, gather *by)
{
    tiling t = {.name = "logical_divide", .l = l, .tiler = tiler, .keeps = true, .whole = divide_whole};
    if (operands_ok(t.name, l, tiler, out))
        by(&t, out);
}

ptxpack_layout ptxpack_logical_divide(const ptxpack_layout *l, const ptxpack_layout *tiler)
{
    GIVEN_LAYOUT(l);
    GIVEN_LAYOUT(tiler);
    ptxpack_layout out;
    divide_into(&out, l, tiler, tile_by);
    return out;
}

/* c->a: the places of copies of a node of the block, of which there will be as many as the tiler's cosize. */
static bool places_of(const tiling *t, composing *c, tuple_node n, const ptxpack_layout *tiler, tuple_node m)
{
    int64_t size, reach;
    if (layout_has_basis(tiler, m) || layout_has_basis(t->l, n))
        return tiling_error(t, n, tiler, m, "not all strides are integers");
    if (!node_product(n, &size) || !layout_cosize(tiler, m, &reach) || !mul_into(size, reach, &reach))
        return tiling_error(t, n, tiler, m, "size times cosize overflows 64 bits");
    return complement_flat(t->l, n, 1, &reach, false, &c->a);
}

/* Where the copies that the tiler m asks for begin: their places through the tiler, into c's output. */
static bool compose_places(const tiling *t, composing *c, tuple_node n, const ptxpack_layout *tiler,
                           tuple_node m)
{
    layout_mark before = layout_here(c->out);
    if (compose_node(c, tiler, m))
        return true;
    layout_take_back(c->out, &before);
    return compose_exactly(&c->a, c->out, tiler, m) || tiling_error(t, n, tiler, m, c->why);
}

static bool product_whole(const tiling *t, layout_builder *out, tuple_node n, const ptxpack_layout *tiler,
                          tuple_node m)
{
    composing c;
    if (!places_of(t, &c, n, tiler, m))
        return false;
    compose_begin(&c, t->rests != NULL ? t->rests : out);
    if (t->rests == NULL)
        layout_open(out);
    layout_copy(out, t->l, n);
    if (!compose_places(t, &c, n, tiler, m))
        return false;
    if (t->rests == NULL)
        layout_close(out);
    return true;
}

static void product_into(ptxpack_layout *out, const ptxpack_layout *block, const ptxpack_layout *tiler,
                         gather *by)
{
    tiling t = {.name = "logical_product", .l = block, .tiler = tiler, .keeps = true, .whole = product_whole};
    if (error_of(&block->shape, &tiler->shape) == PTXPACK_OK && tiler->composed && !block->composed) {
        ptxpack_layout inner = layout_inner(tiler);
        product_into(out, block, &inner, by);
        product_swizzled(block, tiler, out);
    } else if (operands_ok(t.name, block, tiler, out)) {
        by(&t, out);
    }
}

ptxpack_layout ptxpack_logical_product(const ptxpack_layout *block, const ptxpack_layout *tiler)
{
    GIVEN_LAYOUT(block);
    GIVEN_LAYOUT(tiler);
    ptxpack_layout out;
    product_into(&out, block, tiler, tile_by);
    return out;
}

/* ---- gathered ----------------------------------------------------------------------------------------- */
/* The modes of l, the first and the second one replaced by its own modes where that is wanted.  A rest that
 * is an integer, or a tuple of one mode, stays a mode. */
static ptxpack_layout opened(const ptxpack_layout *l, bool open_first, bool open_second)
{
    ptxpack_layout out;
    tuple_node     root = tuple_root(&l->shape);
    layout_builder b = layout_begin(&out);
    int            i = 0;
    if (l->shape.status != PTXPACK_OK)
        return layout_failed(l->shape.status);
    layout_open(&b);
    for (tuple_node m = node_first(root); m.begin < root.end; m = node_next(root, m), i++) {
        bool open = (i == 0 ? open_first : open_second) && node_rank(m) > 1;
        if (!open)
            layout_copy(&b, l, m);
        for (tuple_node k = node_first(m); open && k.begin < m.end; k = node_next(m, k))
            layout_copy(&b, l, k);
    }
    layout_close(&b);
    layout_recompose(&out, l);
    return out;
}

ptxpack_layout ptxpack_zipped_divide(const ptxpack_layout *l, const ptxpack_layout *tiler)
{
    GIVEN_LAYOUT(l);
    GIVEN_LAYOUT(tiler);
    ptxpack_layout out;
    divide_into(&out, l, tiler, tile_by_gathered);
    return out;
}

ptxpack_layout ptxpack_tiled_divide(const ptxpack_layout *l, const ptxpack_layout *tiler)
{
    GIVEN_LAYOUT(l);
    GIVEN_LAYOUT(tiler);
    ptxpack_layout parts = ptxpack_zipped_divide(l, tiler);
    return opened(&parts, false, true);
}

ptxpack_layout ptxpack_flat_divide(const ptxpack_layout *l, const ptxpack_layout *tiler)
{
    GIVEN_LAYOUT(l);
    GIVEN_LAYOUT(tiler);
    ptxpack_layout parts = ptxpack_zipped_divide(l, tiler);
    return opened(&parts, true, true);
}

ptxpack_layout ptxpack_zipped_product(const ptxpack_layout *block, const ptxpack_layout *tiler)
{
    GIVEN_LAYOUT(block);
    GIVEN_LAYOUT(tiler);
    ptxpack_layout out;
    product_into(&out, block, tiler, tile_by_gathered);
    return out;
}

ptxpack_layout ptxpack_tiled_product(const ptxpack_layout *block, const ptxpack_layout *tiler)
{
    GIVEN_LAYOUT(block);
    GIVEN_LAYOUT(tiler);
    ptxpack_layout parts = ptxpack_zipped_product(block, tiler);
    return opened(&parts, false, true);
}

ptxpack_layout ptxpack_flat_product(const ptxpack_layout *block, const ptxpack_layout *tiler)
{
    GIVEN_LAYOUT(block);
    GIVEN_LAYOUT(tiler);
    ptxpack_layout parts = ptxpack_zipped_product(block, tiler);
    return opened(&parts, true, true);
}

/* ---- rank by rank -------------------------------------------------------------------------------------- */
/* Mode m of a layout; where it has no more modes, 1:0. */
static void emit_mode(layout_builder *out, const ptxpack_layout *l, tuple_node root, tuple_node m)
{
    if (m.begin >= root.end)
        layout_leaf(out, 1, 0, 0);
    else
        layout_copy(out, l, m);
}

/* ((Block,Tile),..) or, raked, ((Tile,Block),..), mode by mode. */
static bool product_by_rank(const tiling *t, ptxpack_layout *out, bool raked)
{
    composing      c;
    ptxpack_layout copies;
    tuple_node     x = tuple_root(&t->l->shape), y = tuple_root(&t->tiler->shape);
    layout_builder b = layout_begin(&copies);
    if (!places_of(t, &c, x, t->tiler, y))
        return false;
    compose_begin(&c, &b);
    if (!compose_places(t, &c, x, t->tiler, y))
        return false;
    tuple_node z = tuple_root(&copies.shape), i = node_first(x), k = node_first(z);
    /* CuTe keeps the parentheses of (n) after a bare integer */
    if (node_is_leaf(raked ? y : x) && node_rank(x) == 1 && node_rank(y) == 1)
        i = x, k = z;
    if (node_is_leaf(y)) /* one mode, also where it became several */
        k = z;
    b = layout_begin(out);
    layout_open(&b);
    while (i.begin < x.end || k.begin < z.end) {
        layout_open(&b);
        if (raked)
            emit_mode(&b, &copies, z, k);
        emit_mode(&b, t->l, x, i);
        if (!raked)
            emit_mode(&b, &copies, z, k);
        layout_close(&b);
        i = i.begin < x.end ? node_next(x, i) : i;
        k = k.begin < z.end ? node_next(z, k) : k;
    }
    layout_close(&b);
    return true;
}

static ptxpack_layout by_rank(const char *name, const ptxpack_layout *block, const ptxpack_layout *tiler,
                              bool raked)
{
    const tiling   t = {.name = name, .l = block, .tiler = tiler};
    ptxpack_layout out;
    if (error_of(&block->shape, &tiler->shape) == PTXPACK_OK && tiler->composed && !block->composed) {
        ptxpack_layout inner = layout_inner(tiler);
        out = by_rank(name, block, &inner, raked);
        product_swizzled(block, tiler, &out);
        return out;
    }
    if (!operands_ok(name, block, tiler, &out))
        return out;
    if (layout_wanted(name, tiler) != PTXPACK_OK)
        return layout_failed(PTXPACK_E_ARG);
    if (product_by_rank(&t, &out, raked))
        tuple_name(&out.shape, name, &block->shape);
    else
        out.shape.status = PTXPACK_E_ARG;
    layout_settle(&out);
    layout_recompose(&out, block);
    return out;
}

ptxpack_layout ptxpack_blocked_product(const ptxpack_layout *block, const ptxpack_layout *tiler)
{
    GIVEN_LAYOUT(block);
    GIVEN_LAYOUT(tiler);
    return by_rank("blocked_product", block, tiler, false);
}

ptxpack_layout ptxpack_raked_product(const ptxpack_layout *block, const ptxpack_layout *tiler)
{
    GIVEN_LAYOUT(block);
    GIVEN_LAYOUT(tiler);
    return by_rank("raked_product", block, tiler, true);
}

/* How often the block goes into each mode of the shape, nested as modes only. */
static bool repeats_of(const ptxpack_layout *block, const ptxpack_tuple *shape, ptxpack_tuple *times)
{
    tuple_node    x = tuple_root(&block->shape), y = tuple_root(shape), i = node_first(x);
    tuple_builder b = build_begin(times);
    if (node_rank(x) > node_rank(y)) {
        *times = tuple_error("tile_to_shape: %s has more modes than %s", layout_text(block).text,
                             tuple_text(shape).text);
        return false;
    }
    if (!node_is_leaf(y))
        build_open(&b);
    for (tuple_node k = node_first(y); k.begin < y.end; k = node_next(y, k)) {
        int64_t extent = 1, target;
        bool    fits = node_product(k, &target) && (i.begin >= x.end || node_product(i, &extent));
        if (!fits || extent == 0 || target % extent != 0) {
            *times = tuple_error("tile_to_shape: extent %lld of %s does not divide %lld of %s",
                                 (long long)extent, layout_text(block).text, (long long)target,
                                 tuple_text(shape).text);
            return false;
        }
        build_leaf(&b, target / extent, 0);
        i = i.begin < x.end ? node_next(x, i) : i;
    }
    if (!node_is_leaf(y))
        build_close(&b);
    return true;
}

ptxpack_layout ptxpack_tile_to_shape(const ptxpack_layout *block, const ptxpack_tuple *shape,
                                     const ptxpack_tuple *order)
{
    GIVEN_LAYOUT(block);
    GIVEN_TUPLE(shape);
    ptxpack_tuple times;
    if (error_of(&block->shape, shape) != PTXPACK_OK)
        return layout_failed(error_of(&block->shape, shape));
    if (!repeats_of(block, shape, &times))
        return layout_failed(times.status);
    ptxpack_layout repeat = order != NULL ? ptxpack_make_ordered_layout(&times, order)
                                          : ptxpack_make_layout_left(&times);
    return by_rank("tile_to_shape", block, &repeat, false);
}

ptxpack_tuple ptxpack_ceil_div_layout(const ptxpack_tuple *shape, const ptxpack_layout *tiler)
{
    GIVEN_TUPLE(shape);
    GIVEN_LAYOUT(tiler);
    return ptxpack_complement(tiler, shape).shape;
}
