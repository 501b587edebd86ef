/* modes.c - layouts: what is done to the modes of shape and stride alike. */
#include "internal.h"

/* ---- one change of both ---------------------------------------------------------------------------- */
typedef struct change change;
struct change {
    const char *name;
    ptxpack_tuple (*of)(const ptxpack_tuple *t, const change *c, const ptxpack_tuple *x);
    int                   first, last; /* of the operation: modes, or a rank in `first` */
    const int            *modes;       /* `last` of them */
    const ptxpack_tuple  *profile;
    const ptxpack_layout *x; /* becomes part of the result; NULL: there is none */
};

/* Can x become part of another layout? */
static ptxpack_status part_wanted(const char *name, const ptxpack_layout *x)
{
    ptxpack_status status = layout_wanted(name, x);
    if (status == PTXPACK_OK && x->composed)
        return layout_error("%s: %s cannot be a mode of another layout", name, layout_text(x).text)
            .shape.status;
    return status;
}

static ptxpack_layout changed(const ptxpack_layout *l, const change *c)
{
    ptxpack_status status = layout_wanted(c->name, l);
    ptxpack_layout out;
    if (status == PTXPACK_OK && c->x != NULL)
        status = part_wanted(c->name, c->x);
    if (status != PTXPACK_OK)
        return layout_failed(status);
    (void)layout_begin(&out);
    out.shape = c->of(&l->shape, c, c->x != NULL ? &c->x->shape : NULL);
    out.stride = c->of(&l->stride, c, c->x != NULL ? &c->x->stride : NULL);
    layout_settle(&out);
    layout_recompose(&out, l);
    return out;
}

static ptxpack_tuple flatten_of(const ptxpack_tuple *t, const change *c, const ptxpack_tuple *x)
{
    (void)c, (void)x;
    return ptxpack_flatten(t);
}

static ptxpack_tuple unflatten_of(const ptxpack_tuple *t, const change *c, const ptxpack_tuple *x)
{
    (void)x;
    return ptxpack_unflatten(t, c->profile);
}

static ptxpack_tuple take_of(const ptxpack_tuple *t, const change *c, const ptxpack_tuple *x)
{
    (void)x;
    return ptxpack_take(t, c->first, c->last);
}

static ptxpack_tuple group_of(const ptxpack_tuple *t, const change *c, const ptxpack_tuple *x)
{
    (void)x;
    return ptxpack_group(t, c->first, c->last);
}

static ptxpack_tuple select_of(const ptxpack_tuple *t, const change *c, const ptxpack_tuple *x)
{
    (void)x;
    return ptxpack_select(t, c->last, c->modes);
}

static ptxpack_tuple reverse_of(const ptxpack_tuple *t, const change *c, const ptxpack_tuple *x)
{
    (void)c, (void)x;
    return ptxpack_reverse(t);
}

static ptxpack_tuple append_of(const ptxpack_tuple *t, const change *c, const ptxpack_tuple *x)
{
    (void)c;
    return ptxpack_append(t, x);
}

static ptxpack_tuple prepend_of(const ptxpack_tuple *t, const change *c, const ptxpack_tuple *x)
{
    (void)c;
    return ptxpack_prepend(t, x);
}

static ptxpack_tuple append_to_of(const ptxpack_tuple *t, const change *c, const ptxpack_tuple *x)
{
    return ptxpack_append_to(t, c->first, x);
}

static ptxpack_tuple prepend_to_of(const ptxpack_tuple *t, const change *c, const ptxpack_tuple *x)
{
    return ptxpack_prepend_to(t, c->first, x);
}

static ptxpack_tuple replace_of(const ptxpack_tuple *t, const change *c, const ptxpack_tuple *x)
{
    return ptxpack_replace(t, c->first, x);
}

/* ---- of one layout ---------------------------------------------------------------------------------- */
ptxpack_layout ptxpack_layout_flatten(const ptxpack_layout *l)
{
    GIVEN_LAYOUT(l);
    return changed(l, &(change){.name = "flatten", .of = flatten_of});
}

ptxpack_layout ptxpack_layout_unflatten(const ptxpack_layout *l, const ptxpack_tuple *profile)
{
    GIVEN_LAYOUT(l);
    GIVEN_TUPLE(profile);
    return changed(l, &(change){.name = "unflatten", .of = unflatten_of, .profile = profile});
}

ptxpack_layout ptxpack_layout_take(const ptxpack_layout *l, int begin, int end)
{
    GIVEN_LAYOUT(l);
    if (begin == end && l->shape.status == PTXPACK_OK)
        return layout_error("take<%d,%d> of %s leaves nothing", begin, end, layout_text(l).text);
    return changed(l, &(change){.name = "take", .of = take_of, .first = begin, .last = end});
}

ptxpack_layout ptxpack_layout_group(const ptxpack_layout *l, int begin, int end)
{
    GIVEN_LAYOUT(l);
    return changed(l, &(change){.name = "group", .of = group_of, .first = begin, .last = end});
}

ptxpack_layout ptxpack_layout_select(const ptxpack_layout *l, int count, const int *modes)
{
    GIVEN_LAYOUT(l);
    return changed(l, &(change){.name = "select", .of = select_of, .last = count, .modes = modes});
}

ptxpack_layout ptxpack_layout_reverse(const ptxpack_layout *l)
{
    GIVEN_LAYOUT(l);
    return changed(l, &(change){.name = "reverse", .of = reverse_of});
}

/* ---- with another one --------------------------------------------------------------------------------- */
/* With x, or with 1:0 where that is NULL. */
static ptxpack_layout changed_with(const ptxpack_layout *l, change c)
{
    ptxpack_layout one;
    if (c.x == NULL) {
        layout_builder b = layout_begin(&one);
        layout_leaf(&b, 1, 0, 0);
        c.x = &one;
    }
    return changed(l, &c);
}

ptxpack_layout ptxpack_layout_append(const ptxpack_layout *l, const ptxpack_layout *x)
{
    GIVEN_LAYOUT(l);
    return changed_with(l, (change){.name = "append", .of = append_of, .x = x});
}

ptxpack_layout ptxpack_layout_prepend(const ptxpack_layout *l, const ptxpack_layout *x)
{
    GIVEN_LAYOUT(l);
    return changed_with(l, (change){.name = "prepend", .of = prepend_of, .x = x});
}

ptxpack_layout ptxpack_layout_append_to(const ptxpack_layout *l, int n, const ptxpack_layout *x)
{
    GIVEN_LAYOUT(l);
    return changed_with(l, (change){.name = "append", .of = append_to_of, .first = n, .x = x});
}

ptxpack_layout ptxpack_layout_prepend_to(const ptxpack_layout *l, int n, const ptxpack_layout *x)
{
    GIVEN_LAYOUT(l);
    return changed_with(l, (change){.name = "prepend", .of = prepend_to_of, .first = n, .x = x});
}

ptxpack_layout ptxpack_layout_replace(const ptxpack_layout *l, int mode, const ptxpack_layout *x)
{
    GIVEN_LAYOUT(l);
    return changed_with(l, (change){.name = "replace", .of = replace_of, .first = mode, .x = x});
}

ptxpack_layout ptxpack_layout_zip(const ptxpack_layout *a, const ptxpack_layout *b)
{
    GIVEN_LAYOUT(a);
    GIVEN_LAYOUT(b);
    ptxpack_status of_a = part_wanted("zip", a), status = of_a != PTXPACK_OK ? of_a : part_wanted("zip", b);
    if (status != PTXPACK_OK)
        return layout_failed(status);
    const ptxpack_tuple shapes[2] = {a->shape, b->shape}, strides[2] = {a->stride, b->stride};
    ptxpack_tuple       shape = ptxpack_tuple_join(2, shapes), stride = ptxpack_tuple_join(2, strides);
    ptxpack_layout      out;
    (void)layout_begin(&out);
    out.shape = ptxpack_zip(&shape);
    out.stride = ptxpack_zip(&stride);
    layout_settle(&out);
    return out;
}

/* Follow the tiler's <...>: at its terminals l has two modes, one for the tiles and one for the rests, which
 * also get the modes of l that the tiler does not mention.  Emits the `part` (0 or 1) of all. */
static bool unzip_into(layout_builder *b, int part, const ptxpack_layout *l, tuple_node n,
                       const ptxpack_layout *tiler, tuple_node t)
{
    tuple_node m = node_first(n);
    if (!node_is_tiler(tiler, t)) {
        if (node_is_leaf(n) || node_rank(n) != 2)
            return false;
        layout_copy(b, l, part == 0 ? m : node_next(n, m));
        return true;
    }
    if (node_rank(n) < node_rank(t))
        return false;
    layout_open(b);
    for (tuple_node k = node_first(t); k.begin < t.end; k = node_next(t, k), m = node_next(n, m))
        if (!unzip_into(b, part, l, m, tiler, k))
            return false;
    for (; part == 1 && m.begin < n.end; m = node_next(n, m))
        layout_copy(b, l, m);
    layout_close(b);
    return true;
}

ptxpack_layout ptxpack_tile_unzip(const ptxpack_layout *l, const ptxpack_layout *tiler)
{
    GIVEN_LAYOUT(l);
    GIVEN_LAYOUT(tiler);
    ptxpack_status status = layout_wanted("tile_unzip", l);
    ptxpack_layout out;
    if (status != PTXPACK_OK || tiler->shape.status != PTXPACK_OK)
        return layout_failed(status != PTXPACK_OK ? status : tiler->shape.status);
    tuple_node     root = tuple_root(&l->shape), t = tuple_root(&tiler->shape);
    layout_builder b = layout_begin(&out);
    layout_open(&b);
    if (!unzip_into(&b, 0, l, root, tiler, t) || !unzip_into(&b, 1, l, root, tiler, t))
        return layout_error("tile_unzip: %s is not made of pairs where %s has its tiles", layout_text(l).text,
                            layout_text(tiler).text);
    layout_close(&b);
    layout_settle(&out);
    layout_recompose(&out, l);
    return out;
}
