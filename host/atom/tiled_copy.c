/* tiled_copy.c - one copy atom over many threads and elements, and what each thread reads and writes. */
#include "host/layout/internal.h"
#include "tiled_internal.h"

/* ---- making ------------------------------------------------------------------------------------------ */
static ptxpack_tiled_copy copy_failed(ptxpack_status status) { return (ptxpack_tiled_copy){.status = status}; }

/* (thread, bit) -> bit as (thread, value) -> value. */
static ptxpack_layout in_values(const ptxpack_copy_atom *atom, int64_t value_bits, const ptxpack_layout *bits)
{
    ptxpack_layout values = ptxpack_recast_layout(bits, 1, value_bits);
    if (values.shape.status == PTXPACK_OK &&
        (ptxpack_rank(&values.shape) != 2 || ptxpack_mode_size(&values, 0) != ptxpack_size(&atom->thr_id)))
        return layout_error("%s does not copy whole values of %lld bits", atom->name, (long long)value_bits);
    return values;
}

static ptxpack_tiled_copy copy_of_atom(const ptxpack_copy_atom *atom, int64_t value_bits)
{
    if (value_bits <= 0)
        return copy_failed(
            tuple_error("values of %lld bits to copy with %s", (long long)value_bits, atom->name).status);
    ptxpack_tiled_copy copy = {.atom = *atom, .value_bits = value_bits};
    copy.src = in_values(atom, value_bits, &atom->src);
    copy.dst = in_values(atom, value_bits, &atom->dst);
    copy.ref = in_values(atom, value_bits, &atom->ref);
    copy.status = copy.src.shape.status != PTXPACK_OK   ? copy.src.shape.status
                  : copy.dst.shape.status != PTXPACK_OK ? copy.dst.shape.status
                                                        : copy.ref.shape.status;
    return copy;
}

/* Does the atom go evenly into the threads and values, and do these stay inside of the tile? */
static ptxpack_status check_tile(const ptxpack_tiled_copy *copy)
{
    const ptxpack_layout *tv = &copy->layout_tv;
    if (tv->composed || ptxpack_is_tiler(tv) || ptxpack_rank(&tv->shape) != 2)
        return tuple_error("%s is no (thread,value) layout of a tiled copy", layout_text(tv).text).status;
    int64_t threads = ptxpack_mode_size(tv, 0), atom_threads = ptxpack_mode_size(&copy->ref, 0);
    int64_t values = ptxpack_mode_size(tv, 1), atom_values = ptxpack_mode_size(&copy->ref, 1);
    if (threads % atom_threads != 0)
        return tuple_error("a tiled copy of %lld threads: %s takes multiples of %lld", (long long)threads,
                           copy->atom.name, (long long)atom_threads)
            .status;
    if (values % atom_values != 0)
        return tuple_error("a tiled copy of %lld values of %lld bits a thread: %s takes multiples of %lld",
                           (long long)values, (long long)copy->value_bits, copy->atom.name,
                           (long long)atom_values)
            .status;
    if (!ptxpack_is_tiler(&copy->tiler))
        return tuple_error("%s is no tiler of a tiled copy", layout_text(&copy->tiler).text).status;
    for (int i = 0; i < copy->tiler.shape.items; i++)
        if (copy->tiler.shape.kind[i] != 0)
            return tuple_error("tiler %s of a tiled copy has a mode without extent",
                               layout_text(&copy->tiler).text)
                .status;
    if (ptxpack_cosize(tv) > ptxpack_size(&copy->tiler) || ptxpack_cosize(tv) < 1)
        return tuple_error("%s leaves the tile %s of its tiled copy", layout_text(tv).text,
                           layout_text(&copy->tiler).text)
            .status;
    return PTXPACK_OK;
}

ptxpack_tiled_copy ptxpack_make_tiled_copy_tv(const ptxpack_copy_atom *atom, int64_t value_bits,
                                              const ptxpack_layout *layout_tv, const ptxpack_layout *tiler)
{
    GIVEN_COPY_ATOM(atom);
    GIVEN_LAYOUT(layout_tv);
    GIVEN_LAYOUT(tiler);
    if (layout_tv->shape.status != PTXPACK_OK)
        return copy_failed(layout_tv->shape.status);
    if (tiler->shape.status != PTXPACK_OK)
        return copy_failed(tiler->shape.status);
    ptxpack_tiled_copy copy = copy_of_atom(atom, value_bits);
    copy.layout_tv = *layout_tv;
    copy.tiler = *tiler;
    if (copy.status == PTXPACK_OK)
        copy.status = check_tile(&copy);
    return copy;
}

ptxpack_tiled_copy ptxpack_make_tiled_copy(const ptxpack_copy_atom *atom, int64_t value_bits,
                                           const ptxpack_layout *threads, const ptxpack_layout *values)
{
    GIVEN_COPY_ATOM(atom);
    GIVEN_LAYOUT(threads);
    const ptxpack_tuple  unit = ptxpack_int(1);
    const ptxpack_layout one = ptxpack_make_layout_left(&unit), *val = values != NULL ? values : &one;
    ptxpack_layout       mn = ptxpack_raked_product(threads, val); /* (M,N) -> thread + threads * value */
    if (mn.shape.status != PTXPACK_OK)
        return copy_failed(mn.shape.status);
    if (!is_numbering(threads) || !is_numbering(val))
        return copy_failed(tuple_error("%s %s of a tiled copy: not every number below its size comes once",
                                       is_numbering(threads) ? "values" : "threads",
                                       layout_text(is_numbering(threads) ? val : threads).text)
                               .status);
    ptxpack_layout inverse = ptxpack_right_inverse(&mn);
    ptxpack_tuple  tv_shape = pair_of_ints(ptxpack_size(threads), ptxpack_size(val));
    ptxpack_tuple  tile = ptxpack_product_each(&mn.shape);
    ptxpack_layout tv = ptxpack_with_shape(&inverse, &tv_shape), tiler = ptxpack_tiler_of(&tile);
    return ptxpack_make_tiled_copy_tv(atom, value_bits, &tv, &tiler);
}

ptxpack_tiled_copy ptxpack_make_tiled_copy_mma(const ptxpack_copy_atom *atom, int64_t value_bits,
                                               const ptxpack_tiled_mma *mma, ptxpack_operand operand)
{
    GIVEN_COPY_ATOM(atom);
    GIVEN_TILED_MMA(mma);
    ptxpack_layout thrfrg = mma_tile_thrfrg(mma, operand), tv = mma_tile_tv(mma, operand, &thrfrg);
    if (tv.shape.status != PTXPACK_OK)
        return copy_failed(tv.shape.status);
    int                x = operand == PTXPACK_B ? 1 : 0, y = operand == PTXPACK_C ? 1 : 2;
    ptxpack_tuple      tile = pair_of_ints(mma->tile_size_mnk.value[x], mma->tile_size_mnk.value[y]);
    ptxpack_layout     tiler = ptxpack_tiler_of(&tile);
    ptxpack_tiled_copy copy = ptxpack_make_tiled_copy_tv(atom, value_bits, &tv, &tiler);
    copy.out_of_order = !atoms_in_order(&thrfrg);
    return copy;
}

ptxpack_tiled_copy ptxpack_make_tiled_copy_like(const ptxpack_copy_atom *atom, int64_t value_bits,
                                                const ptxpack_tiled_copy *copy, ptxpack_side side)
{
    GIVEN_COPY_ATOM(atom);
    GIVEN_TILED_COPY(copy);
    ptxpack_layout     tv = ptxpack_copy_layout_tv(copy, side);
    ptxpack_tiled_copy like = ptxpack_make_tiled_copy_tv(atom, value_bits, &tv, &copy->tiler);
    like.out_of_order = copy->out_of_order;
    return like;
}

/* The tile that `tv`, a layout into the coordinates of `shape`, touches: in each mode what it reaches; and tv
 * counted inside of that tile. */
static ptxpack_tiled_copy copy_of_touched(const ptxpack_copy_atom *atom, int64_t value_bits,
                                          const ptxpack_tuple *shape, const ptxpack_layout *tv)
{
    ptxpack_layout      tiler, tile;
    layout_builder      b = layout_begin(&tiler);
    const ptxpack_tuple zero = ptxpack_int(0), one = ptxpack_int(1), none = ptxpack_repeat_like(shape, &zero);
    if (tv->composed)
        return copy_failed(tuple_error("%s of a tiled copy is swizzled", layout_text(tv).text).status);
    layout_open(&b);
    for (int i = 0; i < ptxpack_rank(shape); i++) {
        ptxpack_tuple stride = ptxpack_replace(&none, i, &one);
        tile = ptxpack_make_layout(shape, &stride);
        tile = ptxpack_composition(&tile, tv);
        tile = ptxpack_filter(&tile, NULL);
        if (tile.shape.status != PTXPACK_OK)
            return copy_failed(tile.shape.status);
        layout_copy(&b, &tile, tuple_root(&tile.shape));
    }
    layout_close(&b);
    memset(tiler.tiler, 1, tiler.shape.items);
    tile = ptxpack_make_layout_left(shape);
    tile = ptxpack_composition(&tile, &tiler);
    tile = ptxpack_left_inverse(&tile);
    tile = ptxpack_composition(&tile, tv);
    return ptxpack_make_tiled_copy_tv(atom, value_bits, &tile, &tiler);
}

ptxpack_tiled_copy ptxpack_make_tiled_copy_c_atom(const ptxpack_copy_atom *atom, int64_t value_bits,
                                                  const ptxpack_tiled_mma *mma)
{
    GIVEN_COPY_ATOM(atom);
    GIVEN_TILED_MMA(mma);
    ptxpack_tiled_copy one = copy_of_atom(atom, value_bits);
    ptxpack_layout     thrfrg = mma_tile_thrfrg(mma, PTXPACK_C), tv = mma_tile_tv(mma, PTXPACK_C, &thrfrg);
    if (one.status != PTXPACK_OK || tv.shape.status != PTXPACK_OK)
        return copy_failed(one.status != PTXPACK_OK ? one.status : tv.shape.status);
    int64_t values = ptxpack_mode_size(&one.src, 1), held = ptxpack_mode_size(&tv, 1);
    if (values > held)
        return copy_failed(tuple_error("%s copies %lld values of a thread, which has %lld of C", atom->name,
                                       (long long)values, (long long)held)
                               .status);
    /* The first values of each thread, in the order of the MMA. */
    ptxpack_tuple shape = pair_of_ints(ptxpack_mode_size(&tv, 0), values);
    ptxpack_tuple tile = pair_of_ints(mma->tile_size_mnk.value[0], mma->tile_size_mnk.value[1]);
    tv = ptxpack_with_shape(&tv, &shape);
    one = copy_of_touched(atom, value_bits, &tile, &tv);
    one.out_of_order = !atoms_in_order(&thrfrg);
    return one;
}

ptxpack_tiled_copy ptxpack_make_cotiled_copy(const ptxpack_copy_atom *atom, int64_t value_bits,
                                             const ptxpack_layout *atom_tv, const ptxpack_layout *data)
{
    GIVEN_COPY_ATOM(atom);
    GIVEN_LAYOUT(atom_tv);
    GIVEN_LAYOUT(data);
    /* A further mode of stride 0 catches what lies beyond the data. */
    ptxpack_tuple        unit = ptxpack_int(1);
    const ptxpack_layout end = ptxpack_make_layout_left(&unit);
    const ptxpack_layout inverse[] = {ptxpack_left_inverse(data), end}, there[] = {*data, end};
    ptxpack_layout       to_data = ptxpack_layout_join(2, inverse);
    ptxpack_layout       tv = ptxpack_composition(&to_data, atom_tv);
    if (tv.shape.status != PTXPACK_OK)
        return copy_failed(tv.shape.status);
    if (ptxpack_rank(&tv.shape) != 2)
        return copy_failed(tuple_error("%s is no (thread,value) layout", layout_text(atom_tv).text).status);
    ptxpack_layout to_offset = ptxpack_layout_join(2, there), values = ptxpack_mode(&tv, 1);
    ptxpack_layout reached = ptxpack_composition(&to_offset, &values), wanted = ptxpack_mode(atom_tv, 1);
    reached = ptxpack_coalesce(&reached, NULL);
    wanted = ptxpack_coalesce(&wanted, NULL);
    if (reached.shape.status != PTXPACK_OK)
        return copy_failed(reached.shape.status);
    if (!ptxpack_layout_equal(&reached, &wanted))
        return copy_failed(tuple_error("values %s of a tiled copy are not offsets of %s",
                                       layout_text(&wanted).text, layout_text(data).text)
                               .status);
    ptxpack_tuple shape = ptxpack_product_each(&data->shape);
    return copy_of_touched(atom, value_bits, &shape, &tv);
}

int64_t ptxpack_copy_threads(const ptxpack_tiled_copy *copy)
{
    GIVEN_TILED_COPY(copy);
    return copy->status == PTXPACK_OK ? ptxpack_mode_size(&copy->layout_tv, 0) : 0;
}

/* ---- what a thread copies ------------------------------------------------------------------------------ */
static ptxpack_status side_ok(const ptxpack_tiled_copy *copy, ptxpack_side side)
{
    if (copy->status == PTXPACK_OK && (unsigned)side > PTXPACK_DST)
        return tuple_error("side %d of a tiled copy: there are source and destination", (int)side).status;
    return copy->status;
}

/* ((Tile..),(Rest..)) -> (Thr,(FrgV,FrgX),(Rest..)) */
static ptxpack_layout tile_to_thrfrg(const ptxpack_tiled_copy *copy, ptxpack_side side,
                                     const ptxpack_layout *tiles)
{
    const ptxpack_layout whole = tile_whole();
    /* ((AtomThr,AtomVal),(RestThr,RestVal)) -> element of the tile */
    ptxpack_tuple  atom = pair_of_ints(ptxpack_mode_size(&copy->ref, 0), ptxpack_mode_size(&copy->ref, 1));
    ptxpack_layout tiler = ptxpack_tiler_of(&atom), tv = ptxpack_zipped_divide(&copy->layout_tv, &tiler);

    /* (thread, value) of this side -> (thread, value) of ref */
    ptxpack_layout to_ref = ptxpack_right_inverse(&copy->ref);
    to_ref = ptxpack_composition(&to_ref, side == PTXPACK_SRC ? &copy->src : &copy->dst);
    tiler = tiler_pair(&to_ref, &whole);
    tv = ptxpack_composition(&tv, &tiler);

    ptxpack_tuple shape = ptxpack_zip(&tv.shape), stride = ptxpack_zip(&tv.stride);
    ptxpack_tuple pair = pair_of_ints(1, 1), one = ptxpack_int(1), profile = pair_of(&one, &pair);
    tv = ptxpack_make_layout(&shape, &stride); /* ((AtomThr,RestThr),(AtomVal,RestVal)) */
    tv = ptxpack_coalesce(&tv, &profile);

    tiler = tiler_pair(&tv, &whole);
    ptxpack_layout out = ptxpack_composition(tiles, &tiler); /* ((Thr,Val),(Rest..)) */
    ptxpack_tuple  all = ptxpack_underscore(), unfold = pair_of(&all, &all);
    unfold = pair_of(&unfold, &all);
    return ptxpack_layout_slice(&unfold, &out);
}

ptxpack_layout ptxpack_copy_tidfrg(const ptxpack_tiled_copy *copy, ptxpack_side side,
                                   const ptxpack_layout *tensor)
{
    GIVEN_TILED_COPY(copy);
    GIVEN_LAYOUT(tensor);
    ptxpack_status status = side_ok(copy, side);
    if (status != PTXPACK_OK || tensor->shape.status != PTXPACK_OK)
        return status != PTXPACK_OK ? layout_failed(status) : *tensor;
    ptxpack_tuple tile = ptxpack_product_each(&copy->tiler.shape);
    status = tiles_fit("partition of a copy", tensor, &tile);
    if (status != PTXPACK_OK)
        return layout_failed(status);
    ptxpack_layout tiles = ptxpack_zipped_divide(tensor, &copy->tiler);
    return tile_to_thrfrg(copy, side, &tiles);
}

ptxpack_slice ptxpack_copy_partition(const ptxpack_tiled_copy *copy, ptxpack_side side, int64_t thread,
                                     const ptxpack_layout *tensor)
{
    GIVEN_TILED_COPY(copy);
    GIVEN_LAYOUT(tensor);
    ptxpack_layout tidfrg = ptxpack_copy_tidfrg(copy, side, tensor);
    if (tidfrg.shape.status != PTXPACK_OK)
        return (ptxpack_slice){tidfrg, tuple_failed(tidfrg.shape.status)};
    if (thread < 0 || thread >= ptxpack_mode_size(&tidfrg, 0))
        return slice_error("thread %lld of a tiled copy of %lld threads", (long long)thread,
                           (long long)ptxpack_mode_size(&tidfrg, 0));
    const ptxpack_tuple all = ptxpack_underscore();
    const ptxpack_tuple rests = ptxpack_repeat(&all, ptxpack_rank(&tensor->shape));
    const ptxpack_tuple modes[] = {ptxpack_int(thread), all, rests};
    ptxpack_tuple       coord = ptxpack_tuple_join(3, modes);
    return slice_of_thread(&coord, &tidfrg);
}

ptxpack_layout ptxpack_copy_retile(const ptxpack_tiled_copy *copy, const ptxpack_layout *fragment)
{
    GIVEN_TILED_COPY(copy);
    GIVEN_LAYOUT(fragment);
    if (copy->status != PTXPACK_OK || fragment->shape.status != PTXPACK_OK)
        return copy->status != PTXPACK_OK ? layout_failed(copy->status) : *fragment;
    if (copy->out_of_order)
        return layout_error("retile: the tiled MMA's permutation takes a thread's atoms out of order");
    int64_t values = ptxpack_mode_size(fragment, 0), atom_values = ptxpack_mode_size(&copy->ref, 1), held;
    if (!mul_into(ptxpack_mode_size(&copy->layout_tv, 0), values, &held))
        return layout_error("retile: %s is too large", layout_text(fragment).text);

    /* The first `values` of each thread in layout_tv are mode 0 of the fragment: (m,n) -> which of those */
    ptxpack_layout mn = ptxpack_right_inverse(&copy->layout_tv);
    mn = ptxpack_with_shape(&mn, &copy->tiler.shape);
    mn = ptxpack_upcast(&mn, held);

    /* (atom's value, further value) -> (v,m,n) */
    ptxpack_tuple  v = ptxpack_int(values);
    ptxpack_layout order = ptxpack_right_inverse(&mn), block = ptxpack_make_layout_left(&v);
    ptxpack_layout tile = tile_of(atom_values), whole = tile_whole();
    order = ptxpack_logical_product(&block, &order);
    order = ptxpack_zipped_divide(&order, &tile);

    ptxpack_tuple tiles = ptxpack_product_each(&mn.shape);
    tiles = ptxpack_prepend(&tiles, &v);
    ptxpack_layout tiler = ptxpack_tiler_of(&tiles);
    ptxpack_layout out = ptxpack_zipped_divide(fragment, &tiler); /* ((TileV,TileM,..),(1,RestM,..)) */
    tiler = tiler_pair(&order, &whole);
    out = ptxpack_composition(&out, &tiler);

    ptxpack_tuple all = ptxpack_underscore(), rest = ptxpack_int(0);
    for (int i = 1; i < ptxpack_rank(&fragment->shape); i++)
        rest = ptxpack_append(&rest, &all);
    ptxpack_tuple coord = pair_of(&all, &rest);
    return ptxpack_layout_slice(&coord, &out);
}

ptxpack_layout ptxpack_copy_layout_tv(const ptxpack_tiled_copy *copy, ptxpack_side side)
{
    GIVEN_TILED_COPY(copy);
    ptxpack_status status = side_ok(copy, side);
    if (status != PTXPACK_OK)
        return layout_failed(status);
    ptxpack_tuple  one = ptxpack_int(1), shape = pair_of(&copy->tiler.shape, &one);
    ptxpack_layout tile = ptxpack_make_layout_left(&shape);
    tile = tile_to_thrfrg(copy, side, &tile);
    ptxpack_tuple       all = ptxpack_underscore();
    const ptxpack_tuple modes[] = {all, all, ptxpack_int(0)};
    ptxpack_tuple       coord = ptxpack_tuple_join(3, modes);
    return ptxpack_layout_slice(&coord, &tile);
}
