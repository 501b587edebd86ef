/* wgmma_layout.c - the tiles of a wgmma GEMM row in shared memory, their descriptors and boxes. */
#include "wgmma_layout.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "loader/loader.h"
#include "host/plan/row_memo.h"

enum {
    ELEMENT = 2,
    SUM = 4, /* bytes */
    BITS = 8 * ELEMENT,
    BOX_ROW_BYTES = 128, /* what the widest swizzle spans */
    BOX_COLUMNS = BOX_ROW_BYTES / ELEMENT,
    REGISTERS = 65536, /* of an SM */
};
static const int64_t TMA_STRIDE = (int64_t)1 << 40; /* bytes: no stride reaches that far */

/* Atoms, tiled copies and layouts take kilobytes of stack: these functions do not share a frame. */
#define OWN_FRAME __attribute__((noinline)) static

/* ---- the row ------------------------------------------------------------------------------------------ */
static void take_parameters(gemm_wgmma_layout *l, const ptxpack_variant *row)
{
    memset(l, 0, sizeof *l);
    l->block_m = ptxpack_variant_parameter(row, "BLOCK_M", 0);
    l->block_n = ptxpack_variant_parameter(row, "BLOCK_N", 0);
    l->block_k = BOX_COLUMNS;
    l->m_tiles = ptxpack_variant_parameter(row, "M_TILES", 0);
    l->warpgroups = ptxpack_variant_parameter(row, "WARPGROUPS", 0);
    l->stages = ptxpack_variant_parameter(row, "STAGES", 0);
    l->cluster_m = ptxpack_variant_parameter(row, "CLUSTER_M", 0);
    l->cluster_n = ptxpack_variant_parameter(row, "CLUSTER_N", 0);
    l->cluster_k = ptxpack_variant_parameter(row, "CLUSTER_K", 0);
    l->d_buffers = ptxpack_variant_parameter(row, "D_BUFFERS", 0);
    l->regs_producer = ptxpack_variant_parameter(row, "REGS_PRODUCER", 0);
    l->regs_consumer = ptxpack_variant_parameter(row, "REGS_CONSUMER", 0);
    l->d_columns = BOX_COLUMNS;
    l->d_boxes = l->block_n / l->d_columns;
}

static bool setmaxnreg_takes(int64_t registers)
{
    return registers >= 24 && registers <= 256 && registers % 8 == 0;
}

static bool is_extent(int64_t blocks) { return blocks == 1 || blocks == 2 || blocks == 4; }

static const char *contradiction_of_registers(const gemm_wgmma_layout *l, const ptxpack_variant *row)
{
    int64_t wanted = GEMM_WARPGROUP * (l->regs_producer + l->warpgroups * l->regs_consumer);
    return !setmaxnreg_takes(l->regs_producer)   ? "REGS_PRODUCER is no multiple of 8 in 24..256"
           : !setmaxnreg_takes(l->regs_consumer) ? "REGS_CONSUMER is no multiple of 8 in 24..256"
           : row->blocks_per_sm * wanted > REGISTERS
               ? "REGS_PRODUCER and REGS_CONSUMER exceed an SM's registers"
               : NULL;
}

static const char *contradiction(const gemm_wgmma_layout *l, const ptxpack_variant *row)
{
    int64_t boxes = l->m_tiles * l->d_boxes;
    return l->warpgroups < 1 || l->warpgroups > 3 ? "WARPGROUPS is not 1, 2 or 3"
           : l->m_tiles < 1 || l->m_tiles > 2     ? "M_TILES is not 1 or 2"
           : l->block_m != GEMM_WGMMA_ROWS * l->m_tiles * l->warpgroups
               ? "BLOCK_M is not 64 * M_TILES * WARPGROUPS"
           : l->block_n < BOX_COLUMNS || l->block_n > 256 || l->block_n % BOX_COLUMNS != 0
               ? "BLOCK_N is no multiple of 64 up to 256"
           : l->stages < 2                                        ? "STAGES is not 2 or more"
           : !is_extent(l->cluster_m) || !is_extent(l->cluster_n) ? "CLUSTER_M or CLUSTER_N is not 1, 2 or 4"
           : l->block_m / BOX_COLUMNS % l->cluster_n != 0         ? "CLUSTER_N does not divide the boxes of A"
           : l->block_n / BOX_COLUMNS % l->cluster_m != 0         ? "CLUSTER_M does not divide the boxes of B"
           : !is_extent(l->cluster_k)                             ? "CLUSTER_K is not 1, 2 or 4"
           : l->cluster_k > 1 && (l->cluster_m * l->cluster_n > 1 || l->m_tiles > 1)
               ? "CLUSTER_K goes with no CLUSTER_M, CLUSTER_N and M_TILES"
           : boxes % l->cluster_k != 0 ? "CLUSTER_K does not divide the boxes of D"
           : l->d_buffers < 1 || boxes / l->cluster_k % l->d_buffers != 0
               ? "D_BUFFERS does not divide a block's boxes of D"
           : row->threads != GEMM_WARPGROUP * (l->warpgroups + 1) ? "threads is not 128 * (WARPGROUPS + 1)"
                                                                  : contradiction_of_registers(l, row);
}

/* ---- tiles, descriptors, boxes ------------------------------------------------------------------------ */
/* Boxes one after another, each as wide as the swizzle's span. */
OWN_FRAME ptxpack_layout tile_of(int64_t rows, int64_t columns)
{
    const int64_t  extents[2] = {rows, columns};
    ptxpack_layout atom = ptxpack_wgmma_atom(PTXPACK_WGMMA_K, PTXPACK_WGMMA_128B, BITS);
    ptxpack_tuple  shape = ptxpack_tuple_of(2, extents);
    return ptxpack_tile_to_shape(&atom, &shape, NULL);
}

static ptxpack_layout turned(const ptxpack_layout *l)
{
    static const int columns_first[2] = {1, 0};
    return ptxpack_layout_select(l, 2, columns_first);
}

static ptxpack_layout without_swizzle(ptxpack_layout l)
{
    l.composed = false;
    l.swizzle = (ptxpack_swizzle){0, 0, 0};
    return l;
}

/* The box by which TMA moves `shared`, lines x elements of them, of a matrix {along a line, lines, batch}:
 * any matrix that is larger than the tile in each mode, so that no mode vanishes. */
OWN_FRAME ptxpack_tma_box box_of(const ptxpack_layout *shared)
{
    int64_t          lines = ptxpack_mode_size(shared, 0), length = ptxpack_mode_size(shared, 1);
    const int64_t    extents[3] = {2 * length, 2 * lines, 2}, taken[3] = {length, lines, 1};
    ptxpack_tuple    shape = ptxpack_tuple_of(3, extents), tile = ptxpack_tuple_of(3, taken);
    ptxpack_layout   global = ptxpack_make_layout_left(&shape), tiler = ptxpack_tiler_of(&tile);
    ptxpack_layout   columns_first = turned(shared);
    ptxpack_tma_desc desc = {.size = sizeof desc,
                             .global = &global,
                             .type = PTXPACK_TMA_FLOAT16,
                             .shared = &columns_first,
                             .tile = &tiler,
                             .l2 = PTXPACK_TMA_L2_256B};
    return ptxpack_tma_make(&desc);
}

/* Boxes lie one after another, and the instruction's coordinates are the matrix's modes in their order. */
static ptxpack_status check_box(const char *name, const ptxpack_tma_box *box, int64_t boxes)
{
    bool right = box->status == PTXPACK_OK && box->rank == 3 && box->boxes == boxes &&
                 box->box_dim[0] == (uint32_t)BOX_COLUMNS;
    for (int d = 0; d < 3 && right; d++)
        right = box->coordinates.stride.value[d] == 1 && box->coordinates.stride.kind[d] == (uint64_t)d + 1;
    for (int64_t i = 0; i < boxes && right; i++)
        right = ptxpack_at(&box->offsets, i) == i * box->bytes / ELEMENT;
    if (right)
        return PTXPACK_OK;
    return box->status != PTXPACK_OK
               ? box->status
               : ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED,
                              "a part of a tile of %s is not its %lld boxes in a row", name, (long long)boxes);
}

/* `extent` rows of A or columns of B, of which an instruction reads `mn`; k_lines: k goes from line to line,
 * and a box has 64 of the extent; otherwise a line has all of the block's k, and a box the extent's lines. */
OWN_FRAME ptxpack_status describe_operand(const char *name, gemm_wgmma_operand *o, int64_t extent, int64_t mn,
                                          int64_t block_k, bool k_lines)
{
    ptxpack_layout part;
    o->part_extent = extent / o->parts;
    if (k_lines) {
        o->tile = tile_of(block_k, extent);
        o->tile = turned(&o->tile);
        part = tile_of(block_k, o->part_extent);
    } else {
        o->tile = tile_of(extent, block_k);
        part = tile_of(o->part_extent, block_k);
    }
    o->read = ptxpack_wgmma_descriptor(&o->tile, k_lines ? PTXPACK_WGMMA_MN : PTXPACK_WGMMA_K, BITS, mn);
    o->box = box_of(&part);
    o->boxes = k_lines ? o->part_extent / BOX_COLUMNS : 1;
    o->box_extent = o->part_extent / o->boxes;
    o->box_bytes = o->box.bytes;
    o->part_bytes = o->boxes * o->box_bytes;
    const ptxpack_status all[] = {o->tile.shape.status, o->read.status, check_box(name, &o->box, o->boxes)};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i] != PTXPACK_OK)
            return all[i];
    for (int64_t i = 0; i < o->parts; i++)
        if (ptxpack_at(&o->tile, i * o->part_extent) * ELEMENT != i * o->part_bytes)
            return ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED, "a tile of %s is not its parts in a row", name);
    return PTXPACK_OK;
}

static void describe_operands(gemm_wgmma_layout *l)
{
    for (int column = 0; column < 2 && l->status == PTXPACK_OK; column++) {
        l->a[column].parts = l->cluster_n;
        l->b[column].parts = l->cluster_m;
        l->status = describe_operand("a", &l->a[column], l->block_m, GEMM_WGMMA_ROWS, l->block_k, column == 1);
        if (l->status == PTXPACK_OK)
            l->status = describe_operand("b", &l->b[column], l->block_n, 0, l->block_k, column == 0);
    }
}

/* ---- D ------------------------------------------------------------------------------------------------ */
/* It leaves by boxes of 16 rows, of which each warp has D_BUFFERS one after another. */
OWN_FRAME void describe_output(gemm_wgmma_layout *l)
{
    const int64_t  warps = 4 * l->warpgroups, box = GEMM_WARP_ROWS * l->d_columns;
    const int64_t  copies[2] = {warps, 1}, steps[2] = {l->d_buffers * box, 0};
    ptxpack_tuple  copies_of = ptxpack_tuple_of(2, copies), stride = ptxpack_tuple_of(2, steps);
    ptxpack_layout all = ptxpack_make_layout(&copies_of, &stride);
    ptxpack_layout swizzled = tile_of(GEMM_WARP_ROWS, l->d_columns), one = without_swizzle(swizzled);
    all = ptxpack_layout_zip(&one, &all); /* ((row, warp), (column, 1)) */
    all = ptxpack_coalesce(&all, &copies_of);
    l->d = ptxpack_make_composed(swizzled.swizzle, 0, &all);
    ptxpack_layout c = tile_of(l->block_m, l->d_columns);
    l->d_box = box_of(&swizzled);
    l->c_box = box_of(&c);
    l->d_box_bytes = GEMM_WARP_ROWS * BOX_ROW_BYTES;
    l->status = l->d.shape.status != PTXPACK_OK ? l->d.shape.status : check_box("d", &l->d_box, 1);
    if (l->status == PTXPACK_OK)
        l->status = check_box("c", &l->c_box, 1);
}

/* The accumulators of all warpgroups, each with one instruction's rows. */
OWN_FRAME ptxpack_tiled_mma tile_mma(const gemm_wgmma_layout *l, int64_t n)
{
    char             name[64];
    ptxpack_mma_atom atom;
    snprintf(name, sizeof name, "SM90_64x%lldx16_F32F16F16_SS", (long long)n);
    ptxpack_status status = ptxpack_mma_atom_find(name, &atom);
    if (status != PTXPACK_OK)
        return (ptxpack_tiled_mma){.status = status};
    const int64_t  groups[3] = {l->warpgroups, 1, 1};
    ptxpack_tuple  shape = ptxpack_tuple_of(3, groups);
    ptxpack_layout atoms = ptxpack_make_layout_left(&shape);
    return ptxpack_make_tiled_mma(&atom, &atoms, NULL);
}

static ptxpack_layout part_of(const ptxpack_layout *l, const char *coord)
{
    ptxpack_tuple  at = ptxpack_tuple_parse(coord);
    ptxpack_layout part = ptxpack_layout_slice(&at, l);
    return ptxpack_coalesce(&part, NULL);
}

OWN_FRAME void describe_accumulators(gemm_wgmma_layout *l)
{
    const int64_t     extents[2] = {GEMM_WGMMA_ROWS * l->warpgroups, l->block_n};
    ptxpack_tiled_mma mma = tile_mma(l, l->block_n);
    ptxpack_tuple     shape = ptxpack_tuple_of(2, extents);
    ptxpack_layout    places = ptxpack_make_identity_layout(&shape);
    if (mma.status != PTXPACK_OK) {
        l->status = mma.status;
        return;
    }
    ptxpack_layout c = ptxpack_mma_thrfrg(&mma, PTXPACK_C, &places);
    ptxpack_layout modes[3] = {part_of(&c, "(_,0)"), part_of(&c, "(0,((0,_,0),0))"),
                               part_of(&c, "(0,((0,0,_),0))")};
    l->c_place = ptxpack_layout_join(3, modes);
    l->status = l->c_place.shape.status;
}

/* Rows of 16 bytes that stmatrix writes, 16 columns at a time: accumulators of any N are those of N = 16, one
 * after another.  ldmatrix reads C by the same. */
OWN_FRAME void describe_staging(gemm_wgmma_layout *l)
{
    ptxpack_copy_atom atom;
    ptxpack_tiled_mma mma = tile_mma(l, 16);
    ptxpack_layout    plain = without_swizzle(l->d);
    l->status = ptxpack_copy_atom_find("SM90_U32x4_STSM_N", &atom);
    l->status = l->status != PTXPACK_OK ? l->status : mma.status;
    if (l->status != PTXPACK_OK)
        return;
    ptxpack_tiled_copy copy = ptxpack_make_tiled_copy_mma(&atom, BITS, &mma, PTXPACK_C);
    ptxpack_layout     all = ptxpack_copy_tidfrg(&copy, PTXPACK_DST, &plain);
    ptxpack_layout     modes[2] = {part_of(&all, "(_,0,0)"), part_of(&all, "(0,0,(0,_))")};
    l->d_offsets = ptxpack_layout_join(2, modes);
    l->status = l->d_offsets.shape.status;
}

/* ---- shared memory ------------------------------------------------------------------------------------ */
static void place_all(gemm_wgmma_layout *l)
{
    const int64_t warps = 4 * l->warpgroups, box = l->d_box_bytes;
    const int64_t counts[GEMM_BARRIERS] = {l->stages, l->stages};
    l->a_stage_bytes = l->block_m * BOX_ROW_BYTES;
    l->b_stage_bytes = l->block_n * BOX_ROW_BYTES;
    l->smem_a = 0;
    l->smem_b = l->smem_a + l->stages * l->a_stage_bytes;
    l->smem_d = l->smem_b + l->stages * l->b_stage_bytes;
    l->smem_bias = l->smem_d + warps * l->d_buffers * box;
    l->smem_barriers = l->smem_bias + l->warpgroups * l->block_n * ELEMENT;
    int64_t at = l->smem_barriers;
    for (int i = 0; i < GEMM_BARRIERS; i++) {
        l->barrier[i] = at;
        l->barrier_count[i] = counts[i];
        at += 8 * counts[i];
    }
    l->shared_bytes = (at + 15) / 16 * 16;
}

/* ---- all of it ---------------------------------------------------------------------------------------- */
static ptxpack_status refuse_row(const ptxpack_variant *row, gemm_wgmma_layout *l, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static ptxpack_status refuse_row(const ptxpack_variant *row, gemm_wgmma_layout *l, const char *format, ...)
{
    char    why[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    l->status = ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED, "kernels.def, row %s: %s", row->id, why);
    return l->status;
}

ptxpack_status ptxpack_gemm_wgmma_layout(const ptxpack_variant *row, gemm_wgmma_layout *l)
{
    static void (*const steps[])(gemm_wgmma_layout *) = {describe_operands, describe_output,
                                                         describe_accumulators, describe_staging, place_all};
    take_parameters(l, row);
    const char *wrong = contradiction(l, row);
    if (wrong != NULL)
        return refuse_row(row, l, "%s", wrong);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0] && l->status == PTXPACK_OK; i++)
        steps[i](l);
    if (l->status != PTXPACK_OK)
        return refuse_row(row, l, "%s", ptxpack_detail(NULL));
    if ((l->cluster_k - 1) * l->block_m * l->block_n * SUM / l->cluster_k > l->smem_d - l->smem_b)
        return refuse_row(row, l, "the stages of B have no room for the sums of the cluster's other blocks");
    if (row->shared_bytes != l->shared_bytes)
        return refuse_row(row, l, "shared_bytes is %d, its tiles and barriers take %lld", row->shared_bytes,
                          (long long)l->shared_bytes);
    return l->status;
}

static ptxpack_status derive(const ptxpack_variant *row, void *out)
{
    return ptxpack_gemm_wgmma_layout(row, (gemm_wgmma_layout *)out);
}

const gemm_wgmma_layout *ptxpack_gemm_wgmma_layout_of(const ptxpack_variant *row, gemm_wgmma_layout **own)
{
    static row_memo memo;
    void           *made;
    const void     *layout = row_memo_get(&memo, row, sizeof(gemm_wgmma_layout), derive, &made);
    *own = (gemm_wgmma_layout *)made;
    return (const gemm_wgmma_layout *)layout;
}

/* ---- tensor maps -------------------------------------------------------------------------------------- */
/* Where k is 0 a map of one element stands for what is none: what the kernel asks for lies beyond it. */
ptxpack_status ptxpack_gemm_wgmma_map(const ptxpack_gemm_desc *desc, const gemm_geometry *geometry, int matrix,
                                      ptxpack_tma_box *box)
{
    const gemm_matrix *x = &geometry->matrix[matrix];
    const char        *name = gemm_matrix_names[matrix];
    box->type = desc->dtype == PTXPACK_BF16 ? PTXPACK_TMA_BFLOAT16 : PTXPACK_TMA_FLOAT16;
    box->global_dim[0] = x->length > 0 ? (uint64_t)x->length : 1;
    box->global_dim[1] = x->lines > 0 ? (uint64_t)x->lines : 1;
    box->global_dim[2] = x->batch > 0 ? (uint64_t)geometry->batch : 1;
    if (x->stride >= TMA_STRIDE / ELEMENT)
        return ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED,
                            "stride_%s: %lld elements are 2^40 bytes or more, for TMA too far", name,
                            (long long)x->stride);
    if (x->batch >= TMA_STRIDE / ELEMENT)
        return ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED,
                            "batch_%s: %lld elements are 2^40 bytes or more, for TMA too far", name,
                            (long long)x->batch);
    box->global_strides[0] = (uint64_t)(ELEMENT * x->stride);
    box->global_strides[1] = (uint64_t)(ELEMENT * (x->batch > 0 ? x->batch : x->stride));
    return PTXPACK_OK;
}
