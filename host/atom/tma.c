/* tma.c - from a tensor's layout and a tile's layout in shared memory to the arguments of a tensor map. */
#include "tma.h"

#include "host/layout/arithmetic.h"
#include "host/layout/internal.h"
#include "loader/loader.h"
#include "shared_swizzle.h"

enum {
    BOX_LIMIT = 256,
    STRIDE_ALIGN = 16,
    SHARED_ALIGN = 128,
    SHARED_LIMIT = 227 << 10, /* bytes that a block can have */
    STRIDE_BITS = 40,
    DIM_BITS = 32
};

static bool is_float(ptxpack_tma_type type) { return type >= PTXPACK_TMA_FLOAT16; }

int ptxpack_tma_type_bits(ptxpack_tma_type type)
{
    switch (type) {
#define TYPE_BITS(name, number, bits) \
    case PTXPACK_TMA_##name:          \
        return bits;
        PTXPACK_TMA_TYPE_MAP(TYPE_BITS)
#undef TYPE_BITS
    }
    return 0;
}

/* What is known while a box is made.  Leaf: one integer of the tensor's shape. */
typedef struct box_work {
    const ptxpack_tma_desc *desc;
    int                     bits;
    ptxpack_layout          shared;   /* the tile without its swizzle */
    ptxpack_layout          identity; /* of the tensor: has the basis path of each leaf */
    ptxpack_layout          tile;     /* tile index -> the tensor's modes */
    ptxpack_layout          inverse;  /* place in shared memory -> tile index */
    int                     parts;    /* of the box, each along one leaf; from 4 on they are one dimension */
    int                     leaf[PTXPACK_TUPLE_ITEMS];
    int64_t                 extent[PTXPACK_TUPLE_ITEMS];
    int64_t                 elements; /* of the box */
} box_work;

/* The first part of dimension d, and the first one beyond it. */
static int part_begin(int d) { return d; }
static int part_end(const box_work *w, int d) { return d == PTXPACK_TMA_RANK - 1 ? w->parts : d + 1; }

static ptxpack_status no_leaf(const box_work *w, int leaf, const char *why, long long value)
{
    ptxpack_tuple mode = {.items = 1, .value = {1}, .kind = {w->identity.stride.kind[leaf]}};
    return ptxpack_fail(NULL, PTXPACK_E_ARG, "TMA: mode %s of %s: %s %lld", tuple_text(&mode).text,
                        layout_text(w->desc->global).text, why, value);
}

/* ---- what is asked for --------------------------------------------------------------------------------- */
static ptxpack_status check_desc(const ptxpack_tma_desc *desc)
{
    if (desc->size != sizeof *desc)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "TMA: desc.size is %zu, this library's is %zu", desc->size,
                            sizeof *desc);
    if (ptxpack_tma_type_bits(desc->type) == 0)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "TMA: type %u is none", (unsigned)desc->type);
    if ((unsigned)desc->l2 > PTXPACK_TMA_L2_256B || (unsigned)desc->fill > PTXPACK_TMA_FILL_NAN)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "TMA: l2 %u, fill %u: 0..3 and 0..1", (unsigned)desc->l2,
                            (unsigned)desc->fill);
    if (desc->fill == PTXPACK_TMA_FILL_NAN && !is_float(desc->type))
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "TMA: fill 1, NaN, of type %u, which is an integer",
                            (unsigned)desc->type);
    if (desc->address % STRIDE_ALIGN)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "TMA: the tensor's address %#llx is no multiple of 16",
                            (unsigned long long)desc->address);
    if (desc->multicast < 0 || desc->multicast > 16)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "TMA: multicast to %lld blocks: 1..16",
                            (long long)desc->multicast);
    if (desc->global == NULL || desc->shared == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "TMA: desc.%s is NULL",
                            desc->global != NULL ? "shared" : "global");
    const ptxpack_layout *plain[] = {desc->global, desc->shared};
    for (int l = 0; l < 2; l++) {
        if (plain[l]->shape.status != PTXPACK_OK)
            return plain[l]->shape.status;
        bool basis = false;
        for (int i = 0; i < plain[l]->stride.items; i++)
            basis |= plain[l]->stride.kind[i] != 0;
        if (basis || plain[l]->offset || (l == 0 && plain[l]->composed))
            return ptxpack_fail(NULL, PTXPACK_E_ARG, "TMA: %s is no %s layout", layout_text(plain[l]).text,
                                l == 0 ? "global" : "shared");
    }
    return PTXPACK_OK;
}

static ptxpack_status swizzle_of(const box_work *w, ptxpack_tma_swizzle *out)
{
    int            b;
    ptxpack_status status = shared_swizzle("TMA", w->desc->shared, w->bits, &b);
    *out = (ptxpack_tma_swizzle)b;
    return status;
}

/* ---- the box ------------------------------------------------------------------------------------------- */
static ptxpack_status map_tile(box_work *w)
{
    const ptxpack_tma_desc *desc = w->desc;
    if (ptxpack_cosize(desc->shared) > (int64_t)SHARED_LIMIT * 8 / w->bits)
        return ptxpack_fail(NULL, PTXPACK_E_ARG,
                            "TMA: %s is larger than shared memory, of which a block has %d bytes",
                            layout_text(desc->shared).text, SHARED_LIMIT);
    w->shared = layout_inner(desc->shared);
    w->identity = ptxpack_make_identity_layout(&desc->global->shape);
    ptxpack_tuple  extents = ptxpack_product_each(&w->shared.shape);
    ptxpack_layout tiler = desc->tile != NULL ? *desc->tile : ptxpack_tiler_of(&extents);
    w->tile = ptxpack_composition(&w->identity, &tiler);
    w->inverse = ptxpack_right_inverse(&w->shared);
    if (w->tile.shape.status != PTXPACK_OK || w->inverse.shape.status != PTXPACK_OK)
        return w->tile.shape.status != PTXPACK_OK ? w->tile.shape.status : w->inverse.shape.status;
    if (ptxpack_size(&w->tile) != ptxpack_size(&w->shared))
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "TMA: the tile %s has %lld elements, %s in shared memory %lld",
                            layout_text(&tiler).text, (long long)ptxpack_size(&w->tile),
                            layout_text(desc->shared).text, (long long)ptxpack_size(&w->shared));
    return PTXPACK_OK;
}

static int leaf_of(const box_work *w, uint64_t kind)
{
    for (int i = 0; i < w->identity.stride.items; i++)
        if (w->identity.stride.kind[i] == kind)
            return i;
    return -1;
}

static void add_part(box_work *w, int leaf, int64_t extent)
{
    w->leaf[w->parts] = leaf;
    w->extent[w->parts++] = extent;
}

/* Along shared memory as long as one mode of the tensor after the other is run through from its start. */
static ptxpack_status grow_box(box_work *w)
{
    ptxpack_layout run = ptxpack_composition(&w->tile, &w->inverse);
    run = ptxpack_coalesce(&run, NULL);
    if (run.shape.status != PTXPACK_OK)
        return run.shape.status;
    w->elements = 1;
    for (int i = 0; i < run.shape.items && run.stride.value[i] == 1; i++) {
        int leaf = leaf_of(w, run.stride.kind[i]);
        if (leaf < 0)
            break;
        add_part(w, leaf, run.shape.value[i]);
        w->elements *= run.shape.value[i];
    }
    if (w->parts == 0)
        return ptxpack_fail(NULL, PTXPACK_E_ARG,
                            "TMA: neighbours in %s are not neighbours in any mode of the tile %s",
                            layout_text(w->desc->shared).text, layout_text(&w->tile).text);
    int64_t first = w->desc->global->stride.value[w->leaf[0]];
    if (first != 1)
        return no_leaf(w, w->leaf[0], "it comes first in shared memory, but its stride is", (long long)first);
    return PTXPACK_OK;
}

/* The box has extent 1 in all other modes of the tensor that have more than one element. */
static void add_other_modes(box_work *w)
{
    const ptxpack_layout *global = w->desc->global;
    for (int i = 0, in_box = w->parts; i < global->shape.items; i++) {
        bool known = global->shape.value[i] == 1 || global->stride.value[i] == 0;
        for (int p = 0; p < in_box; p++)
            known |= w->leaf[p] == i;
        if (!known)
            add_part(w, i, 1);
    }
}

/* ---- the tensor ---------------------------------------------------------------------------------------- */
/* Modes that share the last dimension: it steps by the gcd of their strides and reaches as far as they do. */
static ptxpack_status join_leaves(const box_work *w, int d, int64_t *extent, int64_t *stride)
{
    const ptxpack_layout *global = w->desc->global;
    int64_t               last = 0; /* the greatest coordinate, in units of *stride */
    *extent = *stride = 0;
    for (int p = part_begin(d); p < part_end(w, d); p++) {
        int64_t leaf_extent = global->shape.value[w->leaf[p]], leaf_stride = global->stride.value[w->leaf[p]];
        int64_t before = *stride, reach;
        if (leaf_stride < 0)
            return no_leaf(w, w->leaf[p], "its stride is negative,", (long long)leaf_stride);
        *stride = gcd_of(before, leaf_stride);
        int64_t scale = *stride ? before / *stride : 0, leaf_scale = *stride ? leaf_stride / *stride : 0;
        if (!mul_into(last, scale, &last) || !mul_into(leaf_extent - 1, leaf_scale, &reach) ||
            !add_into(last, reach, &last) || last == INT64_MAX)
            return no_leaf(w, w->leaf[p], "64 bits do not hold what it reaches; the extent is",
                           (long long)leaf_extent);
    }
    *extent = last + 1;
    if (part_end(w, d) - part_begin(d) == 1)
        *extent = global->shape.value[w->leaf[d]];
    return PTXPACK_OK;
}

/* Along a dimension that modes share, a box runs in equal steps: what it takes of them must do the same. */
static ptxpack_status check_joined(const box_work *w, int d, int64_t stride)
{
    for (int p = part_begin(d); p < part_end(w, d); p++) {
        int64_t is = w->desc->global->stride.value[w->leaf[p]];
        if (w->extent[p] == 1)
            continue;
        if (is != stride)
            return no_leaf(w, w->leaf[p], "more than 5 modes, of which it must share the last; its stride is",
                           (long long)is);
        if (!mul_into(stride, w->extent[p], &stride))
            return no_leaf(w, w->leaf[p], "64 bits do not hold its stride times", (long long)w->extent[p]);
    }
    return PTXPACK_OK;
}

static ptxpack_status set_tensor(const box_work *w, ptxpack_tma_box *box)
{
    for (int d = 0; d < (int)box->rank; d++) {
        int64_t        extent, stride, bits;
        int            leaf = w->leaf[part_begin(d)];
        ptxpack_status status = join_leaves(w, d, &extent, &stride);
        if (status != PTXPACK_OK)
            return status;
        if (extent > (int64_t)1 << DIM_BITS)
            return no_leaf(w, leaf, "its extent is over 2^32:", (long long)extent);
        box->global_dim[d] = (uint64_t)extent;
        if (d == 0)
            continue;
        if (part_end(w, d) - part_begin(d) > 1)
            status = check_joined(w, d, stride);
        if (status != PTXPACK_OK)
            return status;
        if (!mul_into(stride, w->bits, &bits) || bits / 8 >> STRIDE_BITS)
            return no_leaf(w, leaf, "2^40 bytes are less than its stride", (long long)stride);
        if (bits % (STRIDE_ALIGN * 8))
            return no_leaf(w, leaf, "a stride must be a multiple of 16 bytes; its bytes are",
                           (long long)(bits / 8));
        box->global_strides[d - 1] = (uint64_t)bits / 8;
    }
    return PTXPACK_OK;
}

/* ---- the arguments of the box -------------------------------------------------------------------------- */
/* Of each dimension that is cut: how many parts, and how long each is. */
static ptxpack_layout parts_of(const ptxpack_tma_box *box, const int64_t whole[PTXPACK_TMA_RANK])
{
    ptxpack_tuple shape[PTXPACK_TMA_RANK], step[PTXPACK_TMA_RANK];
    int           count = 0;
    for (int d = 0; d < (int)box->rank; d++)
        if (whole[d] != (int64_t)box->box_dim[d]) {
            shape[count] = ptxpack_int(whole[d] / (int64_t)box->box_dim[d]);
            step[count++] = ptxpack_basis((int64_t)box->box_dim[d], 1, &d);
        }
    if (count == 0) {
        shape[0] = ptxpack_int(1);
        return ptxpack_make_layout_left(&shape[0]);
    }
    ptxpack_tuple shapes = ptxpack_tuple_join(count, shape), steps = ptxpack_tuple_join(count, step);
    shapes = ptxpack_unwrap(&shapes);
    steps = ptxpack_unwrap(&steps);
    return ptxpack_make_layout(&shapes, &steps);
}

/* Each of the blocks fetches its part: the last dimensions are cut. */
static ptxpack_status cut_box(const box_work *w, ptxpack_tma_box *box, int64_t extent[PTXPACK_TMA_RANK])
{
    int64_t blocks = w->desc->multicast ? w->desc->multicast : 1;
    if (w->elements * w->bits / 8 % (blocks * SHARED_ALIGN) && blocks > 1)
        return ptxpack_fail(NULL, PTXPACK_E_ARG,
                            "TMA: %lld blocks share a box of %lld bytes: not in multiples of 128 bytes",
                            (long long)blocks, (long long)(w->elements * w->bits / 8));
    for (int d = (int)box->rank - 1; blocks > 1; d--) {
        if (d < 0 || (extent[d] % blocks && blocks % extent[d]))
            return ptxpack_fail(NULL, PTXPACK_E_ARG, "TMA: multicast to %lld blocks does not divide the box %s",
                                (long long)w->desc->multicast, layout_text(&box->basis).text);
        int64_t rest = extent[d] % blocks ? blocks / extent[d] : 1;
        extent[d] = extent[d] % blocks ? 1 : extent[d] / blocks;
        blocks = rest;
    }
    return PTXPACK_OK;
}

/* A row fills the swizzle's span: the next one begins there in any case. */
static ptxpack_status check_rows(const box_work *w, const ptxpack_tma_box *box, bool one_row)
{
    int64_t row = (int64_t)box->box_dim[0] * w->bits / 8, span = (int64_t)STRIDE_ALIGN << box->swizzle;
    if (row % STRIDE_ALIGN)
        return no_leaf(w, w->leaf[0], "a box must have a multiple of 16 bytes of it; it has", (long long)row);
    if (box->swizzle == PTXPACK_TMA_SWIZZLE_NONE || row == span || (row < span && one_row))
        return PTXPACK_OK;
    return ptxpack_fail(NULL, PTXPACK_E_ARG,
                        "TMA: a row of the box in %s has %lld bytes, but the swizzle spans %lld",
                        layout_text(w->desc->shared).text, (long long)row, (long long)span);
}

static ptxpack_status set_box(const box_work *w, ptxpack_tma_box *box)
{
    int64_t whole[PTXPACK_TMA_RANK], extent[PTXPACK_TMA_RANK];
    bool    one_row = true;
    for (int d = 0; d < PTXPACK_TMA_RANK; d++) {
        whole[d] = 1;
        for (int p = part_begin(d); d < (int)box->rank && p < part_end(w, d); p++)
            whole[d] *= w->extent[p];
        extent[d] = whole[d];
    }
    ptxpack_status status = cut_box(w, box, extent);
    for (int d = 0; d < PTXPACK_TMA_RANK && status == PTXPACK_OK; d++) {
        if (extent[d] > BOX_LIMIT)
            return no_leaf(w, w->leaf[part_begin(d)], "a box can have 256 of it, not", (long long)extent[d]);
        box->box_dim[d] = (uint32_t)extent[d];
        one_row &= d == 0 || extent[d] == 1;
    }
    if (status != PTXPACK_OK)
        return status;
    box->parts = parts_of(box, whole);
    return check_rows(w, box, one_row);
}

/* ---- how to use it ------------------------------------------------------------------------------------- */
static ptxpack_layout basis_of(const box_work *w, int rank)
{
    ptxpack_tuple shape = ptxpack_tuple_of(w->parts, w->extent), stride = shape;
    for (int p = 0; p < w->parts; p++) {
        stride.value[p] = 1;
        stride.kind[p] = w->identity.stride.kind[w->leaf[p]];
    }
    if (w->parts > rank) {
        shape = ptxpack_group(&shape, rank - 1, -1);
        stride = ptxpack_group(&stride, rank - 1, -1);
    }
    return ptxpack_make_layout(&shape, &stride);
}

/* For each leaf of the tensor the dimension that it steps along, and how far. */
static ptxpack_layout coordinates_of(const box_work *w, const ptxpack_tma_box *box)
{
    ptxpack_layout out = w->identity;
    for (int i = 0; i < out.stride.items; i++) {
        out.stride.value[i] = 0;
        out.stride.kind[i] = 0;
    }
    for (int d = 0; d < (int)box->rank; d++)
        for (int p = part_begin(d); p < part_end(w, d); p++) {
            int     i = w->leaf[p];
            int64_t stride = w->desc->global->stride.value[i];
            bool    joined = part_end(w, d) - part_begin(d) > 1;
            if (w->desc->global->shape.value[i] == 1 || stride == 0)
                continue;
            out.stride.value[i] = joined ? stride / ((int64_t)box->global_strides[d - 1] * 8 / w->bits) : 1;
            out.stride.kind[i] = (uint64_t)d + 1;
        }
    return out;
}

/* Box i -> tile index of its first element; then the same in the instruction's coordinates and in shared
 * memory. */
static ptxpack_status set_steps(const box_work *w, ptxpack_tma_box *box)
{
    ptxpack_tuple  elements = ptxpack_int(w->elements), size = ptxpack_int(ptxpack_size(&w->shared));
    ptxpack_layout one = ptxpack_make_layout_left(&elements);
    one = ptxpack_composition(&w->inverse, &one);
    ptxpack_layout first = ptxpack_complement(&one, &size);
    box->offsets = ptxpack_composition(&w->shared, &first);
    box->steps = ptxpack_composition(&w->tile, &first);
    if (box->offsets.shape.status != PTXPACK_OK || box->steps.shape.status != PTXPACK_OK)
        return box->offsets.shape.status != PTXPACK_OK ? box->offsets.shape.status : box->steps.shape.status;
    for (int i = 0; i < box->steps.stride.items; i++) {
        int leaf = leaf_of(w, box->steps.stride.kind[i]);
        if (box->steps.shape.value[i] == 1 || leaf < 0)
            continue;
        int64_t *step = &box->steps.stride.value[i];
        if (!mul_into(*step, box->coordinates.stride.value[leaf], step))
            return no_leaf(w, leaf, "its steps overflow 64 bits; the extent is",
                           (long long)w->desc->global->shape.value[leaf]);
        box->steps.stride.kind[i] = box->coordinates.stride.kind[leaf];
    }
    for (int i = 0; i < box->offsets.stride.items; i++)
        if (box->offsets.shape.value[i] > 1 && box->offsets.stride.value[i] * w->bits / 8 % SHARED_ALIGN)
            return ptxpack_fail(NULL, PTXPACK_E_ARG,
                                "TMA: boxes begin %lld bytes apart in %s: no multiple of 128",
                                (long long)(box->offsets.stride.value[i] * w->bits / 8),
                                layout_text(w->desc->shared).text);
    box->boxes = ptxpack_size(&box->offsets);
    box->bytes = w->elements * w->bits / 8;
    box->align = box->swizzle ? (int64_t)SHARED_ALIGN << box->swizzle : SHARED_ALIGN;
    return PTXPACK_OK;
}

ptxpack_tma_box ptxpack_tma_make(const ptxpack_tma_desc *desc)
{
    if (desc == NULL)
        return (ptxpack_tma_box){.status = operand_missing(__func__, "desc")};
    ptxpack_tma_box box = {.type = desc->type,
                           .address = desc->address,
                           .element_strides = {1, 1, 1, 1, 1},
                           .l2 = desc->l2,
                           .fill = desc->fill};
    box_work        w;
    w.desc = desc;
    w.parts = 0;
    box.status = check_desc(desc);
    if (box.status != PTXPACK_OK)
        return box;
    w.bits = ptxpack_tma_type_bits(desc->type);
    box.status = swizzle_of(&w, &box.swizzle);
    if (box.status == PTXPACK_OK)
        box.status = map_tile(&w);
    if (box.status == PTXPACK_OK)
        box.status = grow_box(&w);
    if (box.status != PTXPACK_OK)
        return box;
    add_other_modes(&w);
    box.rank = w.parts < PTXPACK_TMA_RANK ? (uint32_t)w.parts : PTXPACK_TMA_RANK;
    for (int d = 0; d < PTXPACK_TMA_RANK; d++)
        box.global_dim[d] = 1;
    box.basis = basis_of(&w, (int)box.rank);
    box.status = set_tensor(&w, &box);
    if (box.status == PTXPACK_OK)
        box.status = set_box(&w, &box);
    if (box.status != PTXPACK_OK)
        return box;
    box.coordinates = coordinates_of(&w, &box);
    box.status = set_steps(&w, &box);
    return box;
}
