/* tensor.c - tensors: slices, tiles and partitions of memory or of coordinates. */
#include "tensor.h"

#include "internal.h"
#include "loader/loader.h"

static ptxpack_tensor tensor_failed(ptxpack_status status)
{
    return (ptxpack_tensor){.layout = layout_failed(status)};
}

static ptxpack_status status_of(const ptxpack_tensor *t) { return t->layout.shape.status; }

/* ---- where it starts ------------------------------------------------------------------------------- */
/* *address and *bit, `count` elements of `bits` bits further on. */
static bool advance(uint64_t *address, int *bit, int64_t count, int bits)
{
    int64_t step;
    if (!mul_into(count, bits, &step) || !add_into(step, *bit, &step))
        return false;
    *bit = (int)(step & 7);
    return !__builtin_add_overflow(*address, step >> 3, address);
}

static bool is_aligned(uint64_t address, int bit, int bits)
{
    if ((bits & (bits - 1)) != 0)
        return true;
    return bits < 8 ? bit % bits == 0 : bit == 0 && address % (uint64_t)(bits < 128 ? bits / 8 : 16) == 0;
}

/* The sum of two coordinates; a mode that one of them lacks counts as 0. */
static bool add_coords(tuple_builder *b, tuple_node x, tuple_node y)
{
    int64_t sum;
    if (node_is_leaf(x) && x.t->value[x.begin] == 0) {
        build_node(b, y);
        return true;
    }
    if (node_is_leaf(y) && y.t->value[y.begin] == 0) {
        build_node(b, x);
        return true;
    }
    if (node_is_leaf(x) && node_is_leaf(y)) {
        bool fits = add_into(x.t->value[x.begin], y.t->value[y.begin], &sum);
        build_leaf(b, sum, 0);
        return fits;
    }
    if (node_is_leaf(x) || node_is_leaf(y))
        return false;
    tuple_node p = node_first(x), q = node_first(y);
    build_open(b);
    for (; p.begin < x.end || q.begin < y.end; p = node_next(x, p), q = node_next(y, q)) {
        if (p.begin >= x.end)
            build_node(b, q);
        else if (q.begin >= y.end)
            build_node(b, p);
        else if (!add_coords(b, p, q))
            return false;
    }
    build_close(b);
    return true;
}

/* origin + offset, which can be a single step 3@1. */
static ptxpack_tuple coord_sum(const ptxpack_tuple *origin, const ptxpack_tuple *offset)
{
    ptxpack_tuple out, step = ptxpack_as_arithmetic_tuple(offset);
    if (step.status != PTXPACK_OK)
        return step;
    tuple_builder b = build_begin(&out);
    if (!add_coords(&b, tuple_root(origin), tuple_root(&step)))
        return tuple_error("coordinates %s and %s cannot be added", tuple_text(origin).text,
                           tuple_text(offset).text);
    return out;
}

/* t under the slice's layout, moved by its offset. */
static ptxpack_tensor moved(const ptxpack_tensor *t, const ptxpack_slice *to)
{
    ptxpack_tensor out = ptxpack_tensor_view(t, &to->layout);
    if (status_of(&out) != PTXPACK_OK)
        return out;
    if (to->offset.status != PTXPACK_OK)
        return tensor_failed(to->offset.status);
    if (t->bits == 0) {
        out.origin = coord_sum(&t->origin, &to->offset);
        return out.origin.status == PTXPACK_OK ? out : tensor_failed(out.origin.status);
    }
    if (ptxpack_is_tuple(&to->offset) || !advance(&out.address, &out.bit, to->offset.value[0], t->bits))
        return tensor_failed(tuple_error("offset %s from address %llu leaves 64 bits",
                                         tuple_text(&to->offset).text, (unsigned long long)t->address)
                                 .status);
    return out;
}

/* ---- making ---------------------------------------------------------------------------------------- */
/* Is l a layout (no tiler) of `bits`-bit elements, or, with 0 bits, of coordinates? */
static bool counts(const ptxpack_layout *l, int bits)
{
    tuple_node all = tuple_root(&l->shape);
    if (node_is_tiler(l, all) || node_is_integer_tile(l, all) || node_is_whole(l, all))
        return false;
    return bits == 0 || !layout_has_basis(l, all);
}

static ptxpack_tensor tensor_at(uint64_t address, int bit, int bits, const ptxpack_layout *l)
{
    if (l->shape.status != PTXPACK_OK)
        return tensor_failed(l->shape.status);
    if (bits < 1)
        return tensor_failed(tuple_error("elements of %d bits", bits).status);
    if (!counts(l, bits))
        return tensor_failed(tuple_error("%s does not count elements", layout_text(l).text).status);
    if (!is_aligned(address, bit, bits))
        return tensor_failed(tuple_error("address %llu, bit %d, is not aligned to elements of %d bits",
                                         (unsigned long long)address, bit, bits)
                                 .status);
    return (ptxpack_tensor){.layout = *l, .address = address, .bit = bit, .bits = bits};
}

ptxpack_tensor ptxpack_make_tensor(uint64_t address, int bits, const ptxpack_layout *l)
{
    GIVEN_LAYOUT(l);
    return tensor_at(address, 0, bits, l);
}

ptxpack_tensor ptxpack_make_coord_tensor(const ptxpack_layout *l)
{
    GIVEN_LAYOUT(l);
    ptxpack_tensor t = {.layout = *l, .origin = ptxpack_coprofile(l)};
    if (l->shape.status != PTXPACK_OK)
        return tensor_failed(l->shape.status);
    if (!counts(l, 0) || l->composed)
        return tensor_failed(tuple_error("%s gives no coordinates", layout_text(l).text).status);
    return t.origin.status == PTXPACK_OK ? t : tensor_failed(t.origin.status);
}

ptxpack_tensor ptxpack_make_identity_tensor(const ptxpack_tuple *shape)
{
    GIVEN_TUPLE(shape);
    ptxpack_layout l = ptxpack_make_identity_layout(shape);
    return ptxpack_make_coord_tensor(&l);
}

/* ---- views ----------------------------------------------------------------------------------------- */
ptxpack_tensor ptxpack_tensor_view(const ptxpack_tensor *t, const ptxpack_layout *l)
{
    GIVEN_TENSOR(t);
    GIVEN_LAYOUT(l);
    ptxpack_tensor out = *t;
    if (status_of(t) != PTXPACK_OK)
        return *t;
    if (l->shape.status != PTXPACK_OK)
        return tensor_failed(l->shape.status);
    if (!counts(l, t->bits))
        return tensor_failed(tuple_error("%s does not count elements", layout_text(l).text).status);
    out.layout = *l;
    return out;
}

ptxpack_tensor ptxpack_tensor_slice(const ptxpack_tuple *coord, const ptxpack_tensor *t)
{
    GIVEN_TUPLE(coord);
    GIVEN_TENSOR(t);
    if (status_of(t) != PTXPACK_OK)
        return *t;
    ptxpack_slice to = ptxpack_slice_and_offset(coord, &t->layout);
    return moved(t, &to);
}

ptxpack_tensor ptxpack_tensor_domain_offset(const ptxpack_tuple *coord, const ptxpack_tensor *t)
{
    GIVEN_TUPLE(coord);
    GIVEN_TENSOR(t);
    if (status_of(t) != PTXPACK_OK)
        return *t;
    ptxpack_slice to = ptxpack_domain_offset(coord, &t->layout);
    return moved(t, &to);
}

ptxpack_tensor ptxpack_tensor_recast(const ptxpack_tensor *t, int bits)
{
    GIVEN_TENSOR(t);
    if (status_of(t) != PTXPACK_OK)
        return *t;
    if (t->bits == 0)
        return tensor_failed(tuple_error("a tensor of coordinates has no other elements").status);
    ptxpack_layout l = ptxpack_recast_layout(&t->layout, t->bits, bits);
    return tensor_at(t->address, t->bit, bits, &l);
}

/* ---- tiles ----------------------------------------------------------------------------------------- */
/* t in tiles, sliced at `coord` of mode `cut` of (Tile,Rest); the other mode is kept. */
static ptxpack_tensor partition(const ptxpack_tensor *t, const ptxpack_layout *tiler,
                                const ptxpack_tuple *coord, int cut)
{
    if (status_of(t) != PTXPACK_OK || coord->status != PTXPACK_OK)
        return status_of(t) != PTXPACK_OK ? *t : tensor_failed(coord->status);
    ptxpack_layout divided = ptxpack_zipped_divide(&t->layout, tiler);
    ptxpack_tensor tiled = ptxpack_tensor_view(t, &divided);
    if (status_of(&tiled) != PTXPACK_OK)
        return tiled;
    ptxpack_tuple parts[2] = {ptxpack_get(&divided.shape, 0), ptxpack_get(&divided.shape, 1)};
    ptxpack_tuple all = ptxpack_underscore(), at[2];
    at[cut] = *coord;
    if (ptxpack_is_tuple(coord))
        at[cut] = ptxpack_append_to(coord, ptxpack_rank(&parts[cut]), &all);
    at[1 - cut] = ptxpack_repeat(&all, ptxpack_rank(&parts[1 - cut]));
    ptxpack_tuple place = ptxpack_tuple_join(2, at);
    return ptxpack_tensor_slice(&place, &tiled);
}

ptxpack_tensor ptxpack_inner_partition(const ptxpack_tensor *t, const ptxpack_layout *tiler,
                                       const ptxpack_tuple *coord)
{
    GIVEN_TENSOR(t);
    GIVEN_LAYOUT(tiler);
    GIVEN_TUPLE(coord);
    return partition(t, tiler, coord, 1);
}

ptxpack_tensor ptxpack_outer_partition(const ptxpack_tensor *t, const ptxpack_layout *tiler,
                                       const ptxpack_tuple *coord)
{
    GIVEN_TENSOR(t);
    GIVEN_LAYOUT(tiler);
    GIVEN_TUPLE(coord);
    return partition(t, tiler, coord, 0);
}

/* The modes of the tiler that meet an integer in the projection. */
static ptxpack_layout project_tiler(const ptxpack_tuple *projection, const ptxpack_layout *tiler)
{
    ptxpack_layout out;
    int            rank = ptxpack_rank(projection);
    if (!ptxpack_is_tiler(tiler) || rank != ptxpack_rank(&tiler->shape))
        return layout_error("projection %s does not have the rank of the tiler %s", tuple_text(projection).text,
                            layout_text(tiler).text);
    layout_builder b = layout_begin(&out);
    layout_open(&b);
    for (int i = 0; i < rank; i++) {
        tuple_node step = node_mode(tuple_root(projection), i);
        tuple_node mode = node_mode(tuple_root(&tiler->shape), i);
        int        first = out.shape.items;
        if (step.end - step.begin != 1 || projection->kind[step.begin] == PTXPACK_UNDERSCORE)
            continue;
        layout_copy(&b, tiler, mode);
        memcpy(&out.tiler[first], &tiler->tiler[mode.begin], (size_t)(mode.end - mode.begin));
    }
    layout_close(&b);
    if (out.shape.kind[0] == PTXPACK_EMPTY)
        return layout_error("projection %s keeps no mode of the tiler %s", tuple_text(projection).text,
                            layout_text(tiler).text);
    return out;
}

ptxpack_tensor ptxpack_local_tile(const ptxpack_tensor *t, const ptxpack_layout *tiler,
                                  const ptxpack_tuple *coord, const ptxpack_tuple *projection)
{
    GIVEN_TENSOR(t);
    GIVEN_LAYOUT(tiler);
    GIVEN_TUPLE(coord);
    if (projection == NULL)
        return partition(t, tiler, coord, 1);
    if (status_of(t) != PTXPACK_OK || projection->status != PTXPACK_OK)
        return status_of(t) != PTXPACK_OK ? *t : tensor_failed(projection->status);
    if (tiler->shape.status != PTXPACK_OK || coord->status != PTXPACK_OK)
        return tensor_failed(error_of(&tiler->shape, coord));
    ptxpack_layout tiles = project_tiler(projection, tiler);
    if (tiles.shape.status != PTXPACK_OK)
        return tensor_failed(tiles.shape.status);
    ptxpack_tuple place = ptxpack_tuple_dice(projection, coord);
    return partition(t, &tiles, &place, 1);
}

/* The coordinate of thread `index` in the layout; an error if no coordinate has that value. */
static ptxpack_tuple thread_coord(const ptxpack_layout *threads, int64_t index)
{
    if (threads->shape.status != PTXPACK_OK)
        return tuple_failed(threads->shape.status);
    ptxpack_tuple coord = ptxpack_get_hier_coord(threads, index);
    if (coord.status == PTXPACK_OK)
        return coord;
    return tuple_error("local_partition: %lld is no thread of %s", (long long)index, layout_text(threads).text);
}

ptxpack_tensor ptxpack_local_partition(const ptxpack_tensor *t, const ptxpack_layout *threads, int64_t index,
                                       const ptxpack_tuple *projection)
{
    GIVEN_TENSOR(t);
    GIVEN_LAYOUT(threads);
    if (status_of(t) != PTXPACK_OK)
        return *t;
    ptxpack_tuple coord = thread_coord(threads, index), used = threads->shape;
    if (projection != NULL) {
        coord = ptxpack_tuple_dice(projection, &coord);
        used = ptxpack_tuple_dice(projection, &used);
    }
    ptxpack_tuple  shape = ptxpack_product_each(&used);
    ptxpack_layout tiler = ptxpack_tiler_of(&shape);
    coord = ptxpack_crd2crd(&coord, &used, &shape);
    coord = ptxpack_unwrap(&coord);
    return partition(t, &tiler, &coord, 0);
}

/* ---- elements -------------------------------------------------------------------------------------- */
ptxpack_status ptxpack_tensor_bit_address(const ptxpack_tensor *t, const ptxpack_tuple *coord,
                                          uint64_t *address, int *bit)
{
    GIVEN_TENSOR(t);
    GIVEN_TUPLE(coord);
    if (address == NULL || bit == NULL)
        return operand_missing(__func__, address == NULL ? "address" : "bit");
    if (status_of(t) != PTXPACK_OK)
        return status_of(t);
    if (t->bits == 0)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "a tensor of coordinates has no addresses");
    ptxpack_tuple offset = ptxpack_layout_crd2idx(&t->layout, coord);
    if (offset.status != PTXPACK_OK)
        return offset.status;
    *address = t->address;
    *bit = t->bit;
    if (advance(address, bit, offset.value[0], t->bits))
        return PTXPACK_OK;
    return ptxpack_fail(NULL, PTXPACK_E_ARG, "element %s of %s at address %llu is outside of 64 bits",
                        tuple_text(coord).text, layout_text(&t->layout).text, (unsigned long long)t->address);
}

ptxpack_status ptxpack_tensor_address(const ptxpack_tensor *t, const ptxpack_tuple *coord, uint64_t *address)
{
    GIVEN_TENSOR(t);
    GIVEN_TUPLE(coord);
    if (address == NULL)
        return operand_missing(__func__, "address");
    int            bit = 0;
    ptxpack_status status = ptxpack_tensor_bit_address(t, coord, address, &bit);
    if (status == PTXPACK_OK && bit != 0)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "element %s of %s starts at bit %d of its byte",
                            tuple_text(coord).text, layout_text(&t->layout).text, bit);
    return status;
}

ptxpack_tuple ptxpack_tensor_coord(const ptxpack_tensor *t, const ptxpack_tuple *coord)
{
    GIVEN_TENSOR(t);
    GIVEN_TUPLE(coord);
    if (status_of(t) != PTXPACK_OK)
        return tuple_failed(status_of(t));
    if (t->bits != 0)
        return tuple_error("a tensor of memory has no coordinates for elements");
    ptxpack_tuple offset = ptxpack_layout_crd2idx(&t->layout, coord);
    return coord_sum(&t->origin, &offset);
}
