/* tiled_mma.c - one MMA atom over many threads and elements, and what each thread holds of A, B and C. */
#include <string.h>

#include "host/layout/internal.h"
#include "tiled_internal.h"

/* ---- helpers, shared with tiled_copy.c --------------------------------------------------------------- */
ptxpack_layout tile_of(int64_t extent)
{
    ptxpack_tuple t = ptxpack_int(extent);
    return ptxpack_tiler_of(&t);
}

ptxpack_layout tile_whole(void)
{
    ptxpack_tuple t = ptxpack_underscore();
    return ptxpack_tiler_of(&t);
}

ptxpack_layout tiler_pair(const ptxpack_layout *a, const ptxpack_layout *b)
{
    const ptxpack_layout *const modes[] = {a, b};
    ptxpack_layout              out;
    tiler_join(2, modes, &out);
    return out;
}

ptxpack_tuple pair_of(const ptxpack_tuple *a, const ptxpack_tuple *b)
{
    const ptxpack_tuple modes[] = {*a, *b};
    return ptxpack_tuple_join(2, modes);
}

ptxpack_tuple pair_of_ints(int64_t a, int64_t b)
{
    const int64_t values[] = {a, b};
    return ptxpack_tuple_of(2, values);
}

ptxpack_status tiles_fit(const char *who, const ptxpack_layout *tensor, const ptxpack_tuple *tile)
{
    tuple_node all = tuple_root(&tensor->shape), tiles = tuple_root(tile);
    if (node_rank(all) < node_rank(tiles))
        return tuple_error("%s: %s has fewer modes than the tile %s", who, tuple_text(&tensor->shape).text,
                           tuple_text(tile).text)
            .status;
    tuple_node m = node_first(all), t = node_first(tiles);
    for (int i = 0; t.begin < tiles.end; i++, m = node_next(all, m), t = node_next(tiles, t)) {
        int64_t extent, size;
        if (!node_product(m, &extent) || !node_product(t, &size) || size <= 0 || extent % size != 0)
            return tuple_error("%s: mode %d of %s does not divide into tiles of %s", who, i,
                               tuple_text(&tensor->shape).text, tuple_text(tile).text)
                .status;
    }
    return PTXPACK_OK;
}

bool is_numbering(const ptxpack_layout *l)
{
    ptxpack_layout inverse = ptxpack_right_inverse(l);
    return ptxpack_cosize(l) == ptxpack_size(l) && ptxpack_size(&inverse) == ptxpack_size(l);
}

/* ---- making ------------------------------------------------------------------------------------------ */
static const char operand_names[] = "ABC";
/* The two modes of MNK that an operand has. */
static const int operand_modes[][2] = {[PTXPACK_A] = {0, 2}, [PTXPACK_B] = {1, 2}, [PTXPACK_C] = {0, 1}};

static const ptxpack_layout *atom_tv(const ptxpack_tiled_mma *mma, ptxpack_operand operand)
{
    return operand == PTXPACK_A   ? &mma->atom.a_layout
           : operand == PTXPACK_B ? &mma->atom.b_layout
                                  : &mma->atom.c_layout;
}

static int atom_extent(const ptxpack_tiled_mma *mma, int mode)
{
    return mode == 0 ? mma->atom.m : mode == 1 ? mma->atom.n : mma->atom.k;
}

static int64_t tile_size(const ptxpack_tiled_mma *mma, int mode) { return mma->tile_size_mnk.value[mode]; }

static ptxpack_layout threads_of(const ptxpack_mma_atom *atom, const ptxpack_layout *atom_layout)
{
    const ptxpack_tuple  unit = ptxpack_int(1);
    const ptxpack_layout one = ptxpack_make_layout_left(&unit);
    ptxpack_layout       atoms = ptxpack_layout_append_to(atom_layout != NULL ? atom_layout : &one, 3, NULL);
    if (atoms.shape.status != PTXPACK_OK)
        return atoms;
    if (atoms.composed || ptxpack_is_tiler(&atoms))
        return layout_error("atom layout %s of a tiled MMA is no plain layout", layout_text(&atoms).text);
    ptxpack_layout vmnk = ptxpack_tiled_product(&atom->thr_id, &atoms);
    if (vmnk.shape.status != PTXPACK_OK)
        return vmnk;
    ptxpack_layout distinct = ptxpack_filter(&vmnk, NULL), rest = ptxpack_complement(&vmnk, NULL);
    if (ptxpack_size(&distinct) != ptxpack_size(&vmnk) || rest.shape.status != PTXPACK_OK)
        return layout_error("atom layout %s of a tiled MMA: its threads %s overlap or leave uneven gaps",
                            layout_text(&atoms).text, layout_text(&vmnk).text);
    return vmnk;
}

static ptxpack_layout pad_permutation(const ptxpack_layout *permutation)
{
    ptxpack_layout modes[3] = {tile_whole(), tile_whole(), tile_whole()};
    if (permutation != NULL && permutation->shape.status != PTXPACK_OK)
        return *permutation;
    bool underscore = permutation != NULL && permutation->shape.kind[0] == PTXPACK_UNDERSCORE &&
                      !ptxpack_is_tiler(permutation);
    if (permutation != NULL && !underscore) {
        int rank = ptxpack_rank(&permutation->shape);
        if (!ptxpack_is_tiler(permutation) || rank > 3)
            return layout_error("permutation %s of a tiled MMA is no tiler <M,N,K>",
                                layout_text(permutation).text);
        for (int i = 0; i < rank; i++)
            modes[i] = ptxpack_mode(permutation, i);
    }
    return ptxpack_make_tiler(3, modes);
}

/* An extent or `_`. */
static bool is_simple(const ptxpack_layout *tile)
{
    return tile->stride.kind[0] == PTXPACK_UNDERSCORE && !ptxpack_is_tiler(tile);
}

ptxpack_tiled_mma ptxpack_make_tiled_mma(const ptxpack_mma_atom *atom, const ptxpack_layout *atom_layout,
                                         const ptxpack_layout *permutation)
{
    if (atom == NULL)
        return *tiled_mma_missing(__func__, "atom");
    ptxpack_tiled_mma mma = {.atom = *atom,
                             .thr_layout_vmnk = threads_of(atom, atom_layout),
                             .permutation_mnk = pad_permutation(permutation)};
    int64_t           size[3];
    mma.status = mma.thr_layout_vmnk.shape.status;
    if (mma.status == PTXPACK_OK && (atom->m < 1 || atom->n < 1 || atom->k < 1))
        mma.status = tuple_error("a tiled MMA of an atom of %d x %d x %d", atom->m, atom->n, atom->k).status;
    if (mma.status == PTXPACK_OK)
        mma.status = mma.permutation_mnk.shape.status;
    for (int i = 0; i < 3 && mma.status == PTXPACK_OK; i++) {
        ptxpack_layout mode = ptxpack_mode(&mma.permutation_mnk, i);
        int64_t        atoms;
        if (!mul_into(atom_extent(&mma, i), ptxpack_mode_size(&mma.thr_layout_vmnk, i + 1), &atoms)) {
            mma.status = tuple_error("a tiled MMA of atoms %s overflows 64 bits",
                                     layout_text(&mma.thr_layout_vmnk).text)
                             .status;
            break;
        }
        size[i] = mode.shape.kind[0] == PTXPACK_UNDERSCORE ? atoms : ptxpack_size(&mode);
        if (!is_simple(&mode) && !is_numbering(&mode))
            mma.status = tuple_error("%s of mode %c is no permutation for a tiled MMA", layout_text(&mode).text,
                                     "MNK"[i])
                             .status;
        else if (size[i] % atoms != 0)
            mma.status = tuple_error("tile %s of mode %c does not divide into %s's atoms: they cover %lld",
                                     layout_text(&mode).text, "MNK"[i], atom -> name, (long long)atoms)
                             .status;
    }
    if (mma.status == PTXPACK_OK)
        mma.tile_size_mnk = ptxpack_tuple_of(3, size);
    return mma;
}

int64_t ptxpack_mma_threads(const ptxpack_tiled_mma *mma)
{
    GIVEN_TILED_MMA(mma);
    return mma->status == PTXPACK_OK ? ptxpack_size(&mma->thr_layout_vmnk) : 0;
}

ptxpack_layout ptxpack_mma_permutation(const ptxpack_tiled_mma *mma, int mode)
{
    GIVEN_TILED_MMA(mma);
    if (mma->status != PTXPACK_OK)
        return layout_failed(mma->status);
    if (mode < 0 || mode > 2)
        return layout_error("mode %d of a tiled MMA: there are M, N, K, which are 0, 1, 2", mode);
    ptxpack_layout tile = ptxpack_mode(&mma->permutation_mnk, mode);
    if (!is_simple(&tile))
        return tile;
    ptxpack_tuple shape = ptxpack_int(tile_size(mma, mode)), stride = ptxpack_int(1);
    return ptxpack_make_layout(&shape, &stride);
}

/* ---- what a thread holds ----------------------------------------------------------------------------- */
static ptxpack_status operand_ok(const ptxpack_tiled_mma *mma, ptxpack_operand operand)
{
    if (mma->status == PTXPACK_OK && (unsigned)operand > PTXPACK_C)
        return tuple_error("operand %d of a tiled MMA: there are A, B, C", (int)operand).status;
    return mma->status;
}

/* The tensor's modes in the order of the permutation.  Tiles of n:1 change nothing that the atoms see. */
static ptxpack_layout permuted(const ptxpack_tiled_mma *mma, int x, int y, const ptxpack_layout *tensor)
{
    ptxpack_layout px = ptxpack_mode(&mma->permutation_mnk, x), py = ptxpack_mode(&mma->permutation_mnk, y);
    if (is_simple(&px) && is_simple(&py))
        return *tensor;
    px = is_simple(&px) ? tile_of(tile_size(mma, x)) : px;
    py = is_simple(&py) ? tile_of(tile_size(mma, y)) : py;
    ptxpack_layout tiler = tiler_pair(&px, &py);
    return ptxpack_logical_divide(tensor, &tiler);
}

ptxpack_layout ptxpack_mma_thrfrg(const ptxpack_tiled_mma *mma, ptxpack_operand operand,
                                  const ptxpack_layout *tensor)
{
    GIVEN_TILED_MMA(mma);
    GIVEN_LAYOUT(tensor);
    ptxpack_status status = operand_ok(mma, operand);
    if (status != PTXPACK_OK || tensor->shape.status != PTXPACK_OK)
        return status != PTXPACK_OK ? layout_failed(status) : *tensor;
    int           x = operand_modes[operand][0], y = operand_modes[operand][1];
    ptxpack_tuple tile = pair_of_ints(tile_size(mma, x), tile_size(mma, y));
    status = tiles_fit("partition of a matrix", tensor, &tile);
    if (status != PTXPACK_OK)
        return layout_failed(status);

    ptxpack_layout tiler, t = permuted(mma, x, y, tensor); /* (PermX,PermY,...) */

    ptxpack_layout ax = tile_of(atom_extent(mma, x)), ay = tile_of(atom_extent(mma, y));
    tiler = tiler_pair(&ax, &ay);
    t = ptxpack_zipped_divide(&t, &tiler); /* ((AtomX,AtomY),(RestX,RestY,...)) */

    const ptxpack_layout whole = tile_whole();
    tiler = tiler_pair(atom_tv(mma, operand), &whole);
    t = ptxpack_composition(&t, &tiler); /* ((ThrV,FrgV),(RestX,RestY,...)) */

    ax = tile_of(ptxpack_mode_size(&mma->thr_layout_vmnk, x + 1));
    ay = tile_of(ptxpack_mode_size(&mma->thr_layout_vmnk, y + 1));
    ptxpack_layout threads = tiler_pair(&ax, &ay);
    tiler = tiler_pair(&whole, &threads);
    return ptxpack_zipped_divide(&t, &tiler); /* ((ThrV,(ThrX,ThrY)),(FrgV,(RestX,RestY,...))) */
}

ptxpack_tuple ptxpack_mma_thread_vmnk(const ptxpack_tiled_mma *mma, int64_t thread)
{
    GIVEN_TILED_MMA(mma);
    if (mma->status != PTXPACK_OK)
        return tuple_failed(mma->status);
    const ptxpack_layout *vmnk = &mma->thr_layout_vmnk;
    if (thread < 0 || thread >= ptxpack_cosize(vmnk))
        return tuple_error("thread %lld of a tiled MMA whose threads are %s", (long long)thread,
                           layout_text(vmnk).text);
    ptxpack_tuple index = ptxpack_int(thread);
    ptxpack_tuple coord = ptxpack_idx2crd(&index, &vmnk->shape, &vmnk->stride);
    ptxpack_tuple back = ptxpack_layout_crd2idx(vmnk, &coord);
    if (back.status == PTXPACK_OK && back.value[0] != thread)
        return tuple_error("thread %lld takes no part in a tiled MMA whose threads are %s", (long long)thread,
                           layout_text(vmnk).text);
    ptxpack_tuple flat = ptxpack_product_each(&vmnk->shape);
    return ptxpack_crd2crd(&coord, &vmnk->shape, &flat);
}

ptxpack_tuple ptxpack_mma_thread(const ptxpack_tiled_mma *mma, ptxpack_operand operand, int64_t thread)
{
    GIVEN_TILED_MMA(mma);
    ptxpack_status status = operand_ok(mma, operand);
    if (status != PTXPACK_OK)
        return tuple_failed(status);
    ptxpack_tuple vmnk = ptxpack_mma_thread_vmnk(mma, thread);
    if (vmnk.status != PTXPACK_OK)
        return vmnk;
    const int    *xy = operand_modes[operand];
    ptxpack_tuple rest = pair_of_ints(vmnk.value[xy[0] + 1], vmnk.value[xy[1] + 1]);
    ptxpack_tuple v = ptxpack_int(vmnk.value[0]);
    return pair_of(&v, &rest);
}

/* The coordinate (thread,(_,(_,_,...))) of all that a thread holds of a tensor of `rank` modes. */
static ptxpack_tuple values_of(const ptxpack_tuple *thread, int rank)
{
    const ptxpack_tuple whole = ptxpack_underscore();
    ptxpack_tuple       rests = ptxpack_repeat(&whole, rank), values = pair_of(&whole, &rests);
    return pair_of(thread, &values);
}

ptxpack_slice ptxpack_mma_partition(const ptxpack_tiled_mma *mma, ptxpack_operand operand, int64_t thread,
                                    const ptxpack_layout *tensor)
{
    GIVEN_TILED_MMA(mma);
    GIVEN_LAYOUT(tensor);
    ptxpack_layout thrfrg = ptxpack_mma_thrfrg(mma, operand, tensor);
    if (thrfrg.shape.status != PTXPACK_OK)
        return (ptxpack_slice){thrfrg, tuple_failed(thrfrg.shape.status)};
    ptxpack_tuple at = ptxpack_mma_thread(mma, operand, thread);
    ptxpack_tuple coord = values_of(&at, ptxpack_rank(&tensor->shape));
    return slice_of_thread(&coord, &thrfrg);
}

ptxpack_tuple ptxpack_mma_partition_shape(const ptxpack_tiled_mma *mma, ptxpack_operand operand,
                                          const ptxpack_tuple *shape)
{
    GIVEN_TILED_MMA(mma);
    GIVEN_TUPLE(shape);
    ptxpack_layout dummy = ptxpack_make_layout_left(shape);
    dummy = ptxpack_mma_thrfrg(mma, operand, &dummy);
    if (dummy.shape.status != PTXPACK_OK)
        return tuple_failed(dummy.shape.status);
    ptxpack_tuple thread = ptxpack_int(0), coord = values_of(&thread, ptxpack_rank(shape));
    return ptxpack_layout_slice(&coord, &dummy).shape;
}

ptxpack_layout ptxpack_mma_fragment(const ptxpack_tiled_mma *mma, ptxpack_operand operand,
                                    const ptxpack_layout *partition)
{
    GIVEN_TILED_MMA(mma);
    GIVEN_LAYOUT(partition);
    ptxpack_status status = operand_ok(mma, operand);
    if (status != PTXPACK_OK || partition->shape.status != PTXPACK_OK)
        return status != PTXPACK_OK ? layout_failed(status) : *partition;
    const ptxpack_mma_atom *atom = &mma->atom;
    int64_t                 values = ptxpack_mode_size(atom_tv(mma, operand), 1);
    if (ptxpack_rank(&partition->shape) < 3 || ptxpack_mode_size(partition, 0) != values)
        return layout_error("%s is no partition of %c: (V,..,..) with %lld values in mode 0",
                            layout_text(partition).text, operand_names[operand], (long long)values);
    if (operand == PTXPACK_A ? atom->a_tensor : operand == PTXPACK_C && atom->d_tensor)
        return layout_error("%c of %s lies in tensor memory and has no fragment", operand_names[operand],
                            atom->name);
    if (operand == PTXPACK_C)
        return ptxpack_make_layout_left(&partition->shape);
    if (operand == PTXPACK_A ? !atom->a_shared : !atom->b_shared)
        return ptxpack_make_fragment_like(partition);
    /* One descriptor names the whole mode 0, and the swizzle, too. */
    ptxpack_layout plain = layout_inner(partition);
    plain = ptxpack_recast_layout(&plain, operand == PTXPACK_A ? atom->a_bits : atom->b_bits, 128);
    return ptxpack_layout_replace(&plain, 0, NULL);
}

/* Moves the strides that the swizzle of `tensor` negates for some threads behind all others, in their own order. */
static void swizzled_strides_last(ptxpack_layout *partition, const ptxpack_layout *tensor)
{
    int64_t exchanged = swizzle_z(tensor->swizzle), last = 1;
    if (!tensor->composed || partition->composed)
        return;
    for (int i = 0; i < partition->stride.items; i++)
        if (last < partition->stride.value[i])
            last = partition->stride.value[i];
    for (int i = 0; i < partition->stride.items; i++)
        if ((partition->stride.value[i] & exchanged) != 0)
            partition->stride.value[i] = last + 1 + i;
}

ptxpack_layout ptxpack_mma_partition_fragment(const ptxpack_tiled_mma *mma, ptxpack_operand operand,
                                              const ptxpack_layout *tensor)
{
    GIVEN_TILED_MMA(mma);
    GIVEN_LAYOUT(tensor);
    ptxpack_slice held = ptxpack_mma_partition(mma, operand, 0, tensor);
    if (held.layout.shape.status != PTXPACK_OK)
        return held.layout;
    if (operand == PTXPACK_A ? !mma->atom.a_shared : operand == PTXPACK_B && !mma->atom.b_shared)
        swizzled_strides_last(&held.layout, tensor);
    return ptxpack_mma_fragment(mma, operand, &held.layout);
}

/* ---- (thread, value) layouts --------------------------------------------------------------------------- */
/* Thread -> (v,(m,n,k)), counted first mode fastest: the inverse of the threads' layout. */
static ptxpack_layout thread_to_vmnk(const ptxpack_tiled_mma *mma)
{
    const ptxpack_layout rest = ptxpack_complement(&mma->thr_layout_vmnk, NULL);
    const ptxpack_layout parts[] = {mma->thr_layout_vmnk, rest};
    ptxpack_layout       all = ptxpack_layout_join(2, parts), inverse = ptxpack_right_inverse(&all);
    ptxpack_tuple        shape = pair_of_ints(ptxpack_size(&mma->thr_layout_vmnk), 1);
    ptxpack_tuple        stride = pair_of_ints(1, 0);
    ptxpack_layout       threads = ptxpack_make_layout(&shape, &stride);
    return ptxpack_composition(&threads, &inverse);
}

/* Threads that differ only in the mode that the operand lacks hold the same.  That mode is put, with stride
 * 0, where the threads' order has it: beside ThrM for A's N and B's M, beside ThrN for C's K. */
static ptxpack_layout add_missing_mode(const ptxpack_tiled_mma *mma, ptxpack_operand operand,
                                       const ptxpack_layout *thrfrg)
{
    const ptxpack_layout whole = tile_whole(), *vmnk = &mma->thr_layout_vmnk;
    int                  first = operand == PTXPACK_C ? 2 : 1;
    ptxpack_tuple  shape = pair_of_ints(ptxpack_mode_size(vmnk, first), ptxpack_mode_size(vmnk, first + 1));
    ptxpack_tuple  stride = pair_of_ints(operand != PTXPACK_B, operand == PTXPACK_B);
    ptxpack_layout both = ptxpack_make_layout(&shape, &stride);
    ptxpack_layout tiler = operand == PTXPACK_C ? tiler_pair(&whole, &both) : tiler_pair(&both, &whole);
    tiler = tiler_pair(&whole, &tiler);
    tiler = tiler_pair(&tiler, &whole);
    return ptxpack_composition(thrfrg, &tiler);
}

ptxpack_layout mma_tile_thrfrg(const ptxpack_tiled_mma *mma, ptxpack_operand operand)
{
    ptxpack_status status = operand_ok(mma, operand);
    if (status != PTXPACK_OK)
        return layout_failed(status);
    const int     *xy = operand_modes[operand];
    ptxpack_tuple  shape = pair_of_ints(tile_size(mma, xy[0]), tile_size(mma, xy[1]));
    ptxpack_layout tile = ptxpack_make_layout_left(&shape);
    return ptxpack_mma_thrfrg(mma, operand, &tile);
}

ptxpack_layout mma_tile_tv(const ptxpack_tiled_mma *mma, ptxpack_operand operand, const ptxpack_layout *thrfrg)
{
    if (thrfrg->shape.status != PTXPACK_OK)
        return layout_failed(thrfrg->shape.status);
    const ptxpack_layout whole = tile_whole(), threads = thread_to_vmnk(mma);
    ptxpack_layout       tiler = tiler_pair(&threads, &whole);
    if (operand == PTXPACK_C && ptxpack_mode_size(&mma->thr_layout_vmnk, 3) == 1)
        return ptxpack_composition(thrfrg, &tiler);
    /* of C with threads along K: CuTe leaves the tile there */
    ptxpack_layout all = add_missing_mode(mma, operand, thrfrg);
    return ptxpack_composition(&all, &tiler);
}

ptxpack_layout ptxpack_mma_layout_tv(const ptxpack_tiled_mma *mma, ptxpack_operand operand)
{
    GIVEN_TILED_MMA(mma);
    ptxpack_layout thrfrg = mma_tile_thrfrg(mma, operand);
    return mma_tile_tv(mma, operand, &thrfrg);
}

/* Is l(i) < l(i + 1) for all i?  Each mode must step beyond all that those before it reach. */
static bool is_increasing(const ptxpack_layout *l)
{
    int64_t reach = 0;
    for (int i = 0; i < l->shape.items; i++) {
        if (l->shape.value[i] == 1)
            continue;
        if (l->stride.value[i] <= reach)
            return false;
        reach += (l->shape.value[i] - 1) * l->stride.value[i]; /* below the cosize, which fits */
    }
    return true;
}

bool atoms_in_order(const ptxpack_layout *thrfrg)
{
    ptxpack_layout rests = ptxpack_mode(thrfrg, 1);
    rests = ptxpack_mode(&rests, 1); /* (RestX,RestY) */
    ptxpack_layout x = ptxpack_mode(&rests, 0), y = ptxpack_mode(&rests, 1);
    return is_increasing(&x) && is_increasing(&y);
}
