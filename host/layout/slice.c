/* slice.c - parts of a layout at a coordinate, and where they start. */
#include "internal.h"

/* ---- of a swizzled layout ------------------------------------------------------------------------------ */
/* The first of the strides that unswizzled() gives bits which must stay modes of their own: no two of them merge. */
#define UNMERGED power_of_2(54)

/* Without bits that meet under the swizzle, Sw(start + l(c)) is linear in c: each bit that is flipped has a
 * stride of the other sign.  `start_varies`: each bit of the swizzle is a mode of its own, also where the strides of this
 * start would merge. */
static ptxpack_layout unswizzled(ptxpack_swizzle s, int64_t start, bool start_varies, const ptxpack_layout *l)
{
    ptxpack_layout out;
    layout_builder b = layout_begin(&out);
    int64_t        y = swizzle_y(s) & -swizzle_y(s), z = swizzle_z(s) & -swizzle_z(s), strides[128];
    int            distance = s.shift < 0 ? -s.shift : s.shift, count = 0;
    layout_open(&b);
    layout_leaf(&b, power_of_2(s.base), 1, 0);
    for (int half = 0; half < 2; half++) {
        bool of_z = (half == 0) == (z < y); /* the lower field first */
        layout_open(&b);
        for (int i = 0; i < s.bits; i++) {
            int64_t own = of_z ? z << i : (start & z << i) == 0 ? (y + z) << i : (y - z) * power_of_2(i);
            own = of_z && (start & y << i) != 0 ? -own : own;
            layout_leaf(&b, 2, start_varies ? UNMERGED + count : own, 0);
            strides[count++] = own;
        }
        layout_close(&b);
        if (half == 0)
            layout_leaf(&b, power_of_2(distance - s.bits), power_of_2(s.base + s.bits), 0);
    }
    layout_leaf(&b, 1, power_of_2(s.base + s.bits + distance), 0);
    layout_close(&b);
    layout_settle(&out);
    out = ptxpack_composition(&out, l);
    for (int i = 0; start_varies && i < out.stride.items; i++)
        if (out.stride.value[i] >= UNMERGED)
            out.stride.value[i] = strides[out.stride.value[i] - UNMERGED];
    return out;
}

/* `start`: the composed layout's offset and that of the slice; `l`: what the slice keeps. */
static ptxpack_slice slice_swizzled(ptxpack_swizzle s, int64_t start, bool start_varies,
                                    const ptxpack_layout *l)
{
    int64_t shared, bits = bits_of(l, &shared), field = swizzle_y(s) | swizzle_z(s), outside = start & ~field;
    int64_t active = bits & field;
    ptxpack_slice out = {.offset = ptxpack_int(0)};
    if (s.bits == 0) {
        out.layout = *l;
        out.offset = ptxpack_int(start);
        return out;
    }
    if (bits < 0 || shared != 0 || (bits & start) != 0) { /* sums could carry into the swizzle: keep it all */
        out.layout = ptxpack_make_composed(s, start, l);
        return out;
    }
    if ((active & ~ptxpack_swizzle_apply(s, active)) == 0) {
        out.layout = unswizzled(s, start & field, start_varies && bits < UNMERGED, l);
        out.offset = ptxpack_int(ptxpack_swizzle_apply(s, start & field) + outside);
        return out;
    }
    out.layout = ptxpack_make_composed(s, start & field, l);
    out.offset = ptxpack_int(outside);
    return out;
}

static bool only_underscores(const ptxpack_tuple *t)
{
    for (int i = 0; i < t->items; i++)
        if (t->kind[i] != PTXPACK_UNDERSCORE)
            return false;
    return true;
}

/* The parts of a node of l at those leaves of the coordinate that are `_` (whole), or that are not. */
static bool keep_into(layout_builder *b, tuple_node coord, const ptxpack_layout *l, tuple_node n, bool whole)
{
    if (node_is_leaf(coord)) {
        if ((coord.t->kind[coord.begin] == PTXPACK_UNDERSCORE) == whole)
            layout_copy(b, l, n);
        return true;
    }
    if (node_is_leaf(n) || node_rank(coord) != node_rank(n)) {
        layout_error("%s: the coordinate %s for %s, which differ in rank", whole ? "slice" : "dice",
                     node_text(coord).text, node_text(n).text);
        return false;
    }
    tuple_node m = node_first(n);
    for (tuple_node c = node_first(coord); c.begin < coord.end; c = node_next(coord, c), m = node_next(n, m))
        if (!keep_into(b, c, l, m, whole))
            return false;
    return true;
}

/* Side by side, without the swizzle.  A part of a layout needs no checks; an error becomes its
 * status. */
static void keep(const ptxpack_tuple *coord, const ptxpack_layout *l, bool whole, ptxpack_layout *out)
{
    tuple_node     c = tuple_root(coord), n = tuple_root(&l->shape);
    layout_builder b = layout_begin(out);
    bool           all = node_is_leaf(c) && (coord->kind[0] == PTXPACK_UNDERSCORE) == whole;
    if (!all)
        layout_open(&b);
    if (!keep_into(&b, c, l, n, whole)) {
        *out = layout_failed(PTXPACK_E_ARG);
        return;
    }
    if (!all)
        layout_close(&b);
}

static ptxpack_slice slice_failed(ptxpack_status status)
{
    return (ptxpack_slice){layout_failed(status), tuple_failed(status)};
}

/* Operands that no slice accepts. */
static ptxpack_status sliceable(const char *name, const ptxpack_tuple *coord, const ptxpack_layout *l)
{
    ptxpack_status status = layout_wanted(name, l);
    return status != PTXPACK_OK ? status : coord->status;
}

/* `coord_varies`: its integers are those of one thread, or of one run. */
static ptxpack_slice slice_at(const ptxpack_tuple *coord, bool coord_varies, const ptxpack_layout *l)
{
    ptxpack_status status = sliceable("slice", coord, l);
    ptxpack_slice  out;
    if (status == PTXPACK_OK) {
        keep(coord, l, true, &out.layout);
        out.offset = ptxpack_crd2idx(coord, &l->shape, &l->stride); /* _ counts as 0 */
        status = error_of(&out.layout.shape, &out.offset);
    }
    if (status != PTXPACK_OK)
        return slice_failed(status);
    if (!l->composed)
        return out;
    if (only_underscores(coord)) {
        layout_recompose(&out.layout, l);
        out.offset = ptxpack_int(0);
        return out;
    }
    int64_t start;
    if (!add_into(l->offset, out.offset.value[0], &start))
        return slice_error("slice: the offset of %s overflows 64 bits", layout_text(l).text);
    return slice_swizzled(l->swizzle, start, coord_varies, &out.layout);
}

ptxpack_slice ptxpack_slice_and_offset(const ptxpack_tuple *coord, const ptxpack_layout *l)
{
    GIVEN_TUPLE(coord);
    GIVEN_LAYOUT(l);
    return slice_at(coord, false, l);
}

ptxpack_slice slice_of_thread(const ptxpack_tuple *coord, const ptxpack_layout *l)
{
    return slice_at(coord, true, l);
}

ptxpack_layout ptxpack_layout_slice(const ptxpack_tuple *coord, const ptxpack_layout *l)
{
    GIVEN_TUPLE(coord);
    GIVEN_LAYOUT(l);
    ptxpack_layout out;
    ptxpack_status status = sliceable("slice", coord, l);
    if (status != PTXPACK_OK)
        return layout_failed(status);
    if (l->composed) /* the offset goes into the swizzle */
        return ptxpack_slice_and_offset(coord, l).layout;
    keep(coord, l, true, &out);
    return out;
}

ptxpack_layout ptxpack_layout_dice(const ptxpack_tuple *coord, const ptxpack_layout *l)
{
    GIVEN_TUPLE(coord);
    GIVEN_LAYOUT(l);
    ptxpack_layout out;
    ptxpack_status status = sliceable("dice", coord, l);
    if (status != PTXPACK_OK)
        return layout_failed(status);
    keep(coord, l, false, &out);
    layout_recompose(&out, l);
    return out;
}

ptxpack_slice ptxpack_domain_offset(const ptxpack_tuple *coord, const ptxpack_layout *l)
{
    GIVEN_TUPLE(coord);
    GIVEN_LAYOUT(l);
    ptxpack_status status = sliceable("domain_offset", coord, l);
    ptxpack_slice  out;
    int64_t        start;
    if (status != PTXPACK_OK)
        return slice_failed(status);
    out.offset = ptxpack_crd2idx(coord, &l->shape, &l->stride);
    if (out.offset.status != PTXPACK_OK)
        return slice_failed(out.offset.status);
    if (!l->composed) {
        layout_assign(&out.layout, l);
        return out;
    }
    if (!add_into(l->offset, out.offset.value[0], &start))
        return slice_error("domain_offset: the offset of %s overflows 64 bits", layout_text(l).text);
    ptxpack_layout inner = layout_inner(l);
    out.layout = ptxpack_make_composed(l->swizzle, start, &inner);
    out.offset = ptxpack_int(0);
    return out;
}
