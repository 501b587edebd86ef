/* wgmma_layout.c - the tiles of a wgmma GEMM row in shared memory, their descriptors and boxes. */
#include "wgmma_layout.h"

#include <stdio.h>
#include <string.h>

#include "loader/loader.h"
#include "host/plan/tensor_map.h"

enum {
    ELEMENT = 2, /* bytes of one of C, D and bias */
    SUM = 4,
    RANK = 3, /* of maps: along a line, from line to line, batch */
    BITS = 8 * ELEMENT,
    BOX_COLUMNS = TILE_BOX_ROW / ELEMENT,
    GROUP_ROWS = 8,     /* after which the swizzle repeats */
    MOST_BLOCKS = 8,    /* of a cluster, on any GPU */
    WGMMA_COLUMNS = 16, /* that a warp finishes together */
};

/* ---- the row ------------------------------------------------------------------------------------------ */
/* Whether a column-major A or a row-major B is taken, whose k goes from line to line: each block of a cluster then brings whole boxes of
 * 64 lines.  wgmma takes no e4m3 in this way. */
static bool takes_k_lines(const gemm_wgmma_layout *l, int64_t extent, int64_t parts)
{
    return l->element != 1 && parts > 0 && extent / parts % BOX_COLUMNS == 0;
}

static void take_parameters(gemm_wgmma_layout *l, const ptxpack_variant *row)
{
    memset(l, 0, sizeof *l);
    l->block_m = ptxpack_variant_parameter(row, "BLOCK_M", 0);
    l->block_n = ptxpack_variant_parameter(row, "BLOCK_N", 0);
    l->element = ptxpack_variant_parameter(row, "FP8", 0) != 0 ? 1 : ELEMENT;
    l->block_k = TILE_BOX_ROW / l->element;
    l->parts = ptxpack_variant_parameter(row, "PARTS", 1);
    l->sets = ptxpack_variant_parameter(row, "SETS", 1);
    l->m_tiles = ptxpack_variant_parameter(row, "M_TILES", 0);
    l->warpgroups = ptxpack_variant_parameter(row, "WARPGROUPS", 0);
    l->stages = ptxpack_variant_parameter(row, "STAGES", 0);
    l->cluster_m = ptxpack_variant_parameter(row, "CLUSTER_M", 0);
    l->cluster_n = ptxpack_variant_parameter(row, "CLUSTER_N", 0);
    l->cluster_k = ptxpack_variant_parameter(row, "CLUSTER_K", 0);
    l->k_lines_a = takes_k_lines(l, l->block_m, l->cluster_n);
    l->k_lines_b = takes_k_lines(l, l->block_n, l->cluster_m);
    l->d_buffers = ptxpack_variant_parameter(row, "D_BUFFERS", 0);
    l->regs_producer = ptxpack_variant_parameter(row, "REGS_PRODUCER", 0);
    l->regs_consumer = ptxpack_variant_parameter(row, "REGS_CONSUMER", 0);
    l->d_columns = BOX_COLUMNS;
    l->d_boxes = (l->block_n + l->d_columns - 1) / l->d_columns; /* the last two may overlap */
}

static bool is_extent(int64_t blocks) { return blocks == 1 || blocks == 2 || blocks == 4 || blocks == 8; }

static const char *contradiction_of_fp8(const gemm_wgmma_layout *l)
{
    return l->element != 1                                   ? NULL
           : l->m_tiles != 1                                 ? "FP8 needs M_TILES 1"
           : l->parts != 1 && l->parts != 2 && l->parts != 4 ? "PARTS is not 1, 2 or 4"
           : l->block_n % (GROUP_ROWS * l->parts) != 0 ? "PARTS does not divide the columns into groups of 8"
           : l->sets != 1 && l->sets != 2              ? "SETS is not 1 or 2"
                                                       : NULL;
}

static const char *contradiction(const gemm_wgmma_layout *l, const ptxpack_variant *row)
{
    int64_t     boxes = l->m_tiles * l->d_boxes;
    const char *of_fp8 = contradiction_of_fp8(l);
    return of_fp8 != NULL                           ? of_fp8
           : l->warpgroups < 1 || l->warpgroups > 3 ? "WARPGROUPS is not 1, 2 or 3"
           : l->m_tiles < 1 || l->m_tiles > 2       ? "M_TILES is not 1 or 2"
           : l->block_m != TILE_WGMMA_ROWS * l->m_tiles * l->warpgroups
               ? "BLOCK_M is not 64 * M_TILES * WARPGROUPS"
           : l->block_n < BOX_COLUMNS || l->block_n > 256 || l->block_n % WGMMA_COLUMNS != 0
               ? "BLOCK_N is not a multiple of 16 from 64 to 256"
           : l->stages < 2                                        ? "STAGES is not 2 or more"
           : !is_extent(l->cluster_m) || !is_extent(l->cluster_n) ? "CLUSTER_M or CLUSTER_N is not 1, 2, 4 or 8"
           : l->cluster_m * l->cluster_n > MOST_BLOCKS            ? "a cluster has more than 8 blocks"
           : l->block_m % l->cluster_n != 0                       ? "CLUSTER_N does not divide the rows of A"
           : l->block_n % l->cluster_m != 0                       ? "CLUSTER_M does not divide the columns of B"
           : !is_extent(l->cluster_k) || l->cluster_k > 4         ? "CLUSTER_K is not 1, 2 or 4"
           : l->cluster_k > 1 && (l->cluster_m * l->cluster_n > 1 || l->m_tiles > 1)
               ? "CLUSTER_K goes with no CLUSTER_M, CLUSTER_N and M_TILES"
           : boxes % l->cluster_k != 0 ? "CLUSTER_K does not divide the boxes of D"
           : l->d_buffers < 1 || boxes / l->cluster_k % l->d_buffers != 0
               ? "D_BUFFERS does not divide a block's boxes of D"
           : row->threads != TILE_WARPGROUP * (l->warpgroups + 1)
               ? "threads is not 128 * (WARPGROUPS + 1)"
               : tile_registers_refusal(l->regs_producer, l->regs_consumer, l->warpgroups, row->blocks_per_sm);
}

/* ---- tiles, descriptors, boxes ------------------------------------------------------------------------ */
/* A box of lines becomes one of so many of them. */
static void crop_box(ptxpack_tma_box *box, int64_t lines)
{
    box->bytes = box->bytes / box->box_dim[1] * lines;
    box->box_dim[1] = (uint32_t)lines;
}

/* `extent` rows of A or columns of B, of which an instruction reads `mn`; k_lines: k goes from line to line,
 * and a box has 64 of the extent; otherwise a line has all of the block's k, and a box the extent's lines.  A part may begin within a group
 * of 8 lines: the swizzle is one of addresses. */
OWN_FRAME ptxpack_status describe_operand(const char *name, gemm_wgmma_operand *o, int64_t extent, int64_t mn,
                                          int64_t block_k, bool k_lines)
{
    const int64_t  element = TILE_BOX_ROW / block_k;
    const int      bits = (int)(8 * element);
    ptxpack_layout part;
    o->part_extent = extent / o->parts;
    if (k_lines) {
        o->tile = tile_of_boxes(block_k, extent, bits);
        o->tile = tile_transposed(&o->tile);
        part = tile_of_boxes(block_k, o->part_extent, bits);
    } else {
        o->tile = tile_of_boxes(extent, block_k, bits);
        part = tile_of_boxes(divided_up(o->part_extent, GROUP_ROWS) * GROUP_ROWS, block_k, bits);
    }
    o->read = ptxpack_wgmma_descriptor(&o->tile, k_lines ? PTXPACK_WGMMA_MN : PTXPACK_WGMMA_K, bits, mn);
    o->box = tile_box(&part, RANK, bits);
    if (!k_lines)
        crop_box(&o->box, o->part_extent);
    o->boxes = k_lines ? o->part_extent / BOX_COLUMNS : 1;
    o->box_extent = o->part_extent / o->boxes;
    o->box_bytes = o->box.bytes;
    o->part_bytes = o->boxes * o->box_bytes;
    const ptxpack_status all[] = {o->tile.shape.status, o->read.status,
                                  tile_check_box(name, &o->box, RANK,
                                                 k_lines ? ptxpack_mode_size(&part, 0) : o->part_extent,
                                                 TILE_BOX_ROW / element, o->boxes, o->box_bytes / element)};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i] != PTXPACK_OK)
            return all[i];
    const ptxpack_layout plain = tile_without_swizzle(o->tile);
    for (int64_t i = 0; i < o->parts; i++)
        if (ptxpack_at(&plain, i * o->part_extent) * element != i * o->part_bytes)
            return ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED, "a tile of %s is not its parts in a row", name);
    return PTXPACK_OK;
}

static void describe_operands(gemm_wgmma_layout *l)
{
    for (int column = 0; column < 2 && l->status == PTXPACK_OK; column++) {
        const bool a_needed = column == 0 || l->k_lines_a, b_needed = column == 1 || l->k_lines_b;
        l->a[column].parts = l->cluster_n;
        l->b[column].parts = l->cluster_m;
        if (a_needed)
            l->status = describe_operand("a", &l->a[column], l->block_m, TILE_WGMMA_ROWS, l->block_k,
                                         column == 1);
        if (l->status == PTXPACK_OK && b_needed)
            l->status = describe_operand("b", &l->b[column], l->block_n, l->block_n / l->parts, l->block_k,
                                         column == 0);
    }
}

/* ---- D ------------------------------------------------------------------------------------------------ */
/* D is stored in boxes of 16 rows, of which each warp has D_BUFFERS, one after another; ldmatrix reads C in
 * the way in which stmatrix writes D. */
OWN_FRAME void describe_output(gemm_wgmma_layout *l)
{
    ptxpack_layout d = tile_of_boxes(TILE_WARP_ROWS, l->d_columns, BITS);
    ptxpack_layout c = tile_of_boxes(l->block_m, l->d_columns, BITS);
    l->d = tile_of_warps(4 * l->warpgroups, l->d_buffers, l->d_columns, BITS);
    l->d_box = tile_box(&d, RANK, BITS);
    l->c_box = tile_box(&c, RANK, BITS);
    l->d_box_bytes = TILE_WARP_ROWS * TILE_BOX_ROW;
    l->d_offsets = tile_matrix_rows(l->warpgroups, "SM90_U32x4_STSM_N", PTXPACK_C, PTXPACK_DST, &l->d);
    l->status = l->d.shape.status != PTXPACK_OK ? l->d.shape.status : l->d_offsets.shape.status;
    if (l->status == PTXPACK_OK)
        l->status = tile_check_box("d", &l->d_box, RANK, TILE_WARP_ROWS, l->d_columns, 1, 0);
    if (l->status == PTXPACK_OK)
        l->status = tile_check_box("c", &l->c_box, RANK, l->block_m, l->d_columns, 1, 0);
}

/* The accumulators of a warpgroup, each with the rows of one instruction; of e4m3, whose scales differ from row to row, of all. */
OWN_FRAME void describe_accumulators(gemm_wgmma_layout *l)
{
    const int64_t warpgroups = l->element == 1 ? l->warpgroups : 1;
    char          name[64];
    snprintf(name, sizeof name, "SM90_64x%lldx16_F32F16F16_SS", (long long)l->block_n);
    ptxpack_tiled_mma mma = tile_wgmma(warpgroups, name);
    l->status = mma.status;
    if (l->status != PTXPACK_OK)
        return;
    l->c_place = tile_accumulators(&mma, TILE_WGMMA_ROWS * warpgroups, l->block_n);
    l->status = l->c_place.shape.status;
}

/* ---- shared memory ------------------------------------------------------------------------------------ */
static void place_all(gemm_wgmma_layout *l)
{
    const int64_t warps = 4 * l->warpgroups, box = l->d_box_bytes;
    const int64_t counts[GEMM_BARRIERS] = {l->stages, l->stages};
    l->a_stage_bytes = l->block_m * TILE_BOX_ROW;
    l->b_stage_bytes = l->block_n * TILE_BOX_ROW;
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
ptxpack_status ptxpack_gemm_wgmma_layout(const ptxpack_variant *row, gemm_wgmma_layout *l)
{
    static void (*const steps[])(gemm_wgmma_layout *) = {describe_operands, describe_output,
                                                         describe_accumulators, place_all};
    take_parameters(l, row);
    const char *wrong = contradiction(l, row);
    if (wrong != NULL)
        return l->status = tile_refuse_row(row, "%s", wrong);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0] && l->status == PTXPACK_OK; i++)
        steps[i](l);
    if (l->status != PTXPACK_OK)
        return l->status = tile_refuse_row(row, "%s", ptxpack_detail(NULL));
    if ((l->cluster_k - 1) * l->block_m * l->block_n * SUM / l->cluster_k > l->smem_d - l->smem_b)
        return l->status =
                   tile_refuse_row(row,
                                   "the stages of B have no room for the sums of the cluster's other blocks");
    if (row->shared_bytes != l->shared_bytes)
        return l->status = tile_refuse_row(row, "shared_bytes is %d, its tiles and barriers take %lld",
                                           row->shared_bytes, (long long)l->shared_bytes);
    return l->status;
}

/* ---- tensor maps -------------------------------------------------------------------------------------- */
static ptxpack_status map_groups(const gemm_matrix *d, ptxpack_tma_box *box)
{
    const int64_t wrap = INT64_C(1) << 34, row = d->element * d->stride;
    if (row >= wrap)
        return ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED, "stride_d: %lld elements are 2^34 bytes or more",
                            (long long)d->stride);
    if (d->lines >= GEMM_GROUP_ROWS)
        return ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED, "m is %lld, 2^30 or more, for groups too many",
                            (long long)d->lines);
    box->rank = PTXPACK_TMA_RANK;
    box->global_dim[1] = GEMM_GROUP_ROWS;
    box->global_dim[2] = 1;
    box->global_dim[3] = (uint64_t)d->lines + 1;
    box->global_dim[4] = (uint64_t)GEMM_GROUP_ROWS + 1;
    box->global_strides[0] = box->global_strides[1] = box->global_strides[2] = (uint64_t)row;
    box->global_strides[3] = (uint64_t)(wrap - row);
    for (int i = RANK; i < PTXPACK_TMA_RANK; i++)
        box->box_dim[i] = box->element_strides[i] = 1;
    return PTXPACK_OK;
}

/* Where k is 0, a map of one element stands for the empty matrix: all that the kernel loads lies beyond it. */
ptxpack_status ptxpack_gemm_wgmma_map(const ptxpack_gemm_desc *desc, const gemm_geometry *geometry, int matrix,
                                      ptxpack_tma_box *box)
{
    const gemm_matrix *x = &geometry->matrix[matrix];
    const char        *name = gemm_matrix_names[matrix];
    box->type = x->element == 1               ? PTXPACK_TMA_UINT8
                : desc->dtype == PTXPACK_BF16 ? PTXPACK_TMA_BFLOAT16
                                              : PTXPACK_TMA_FLOAT16;
    box->global_dim[0] = x->length > 0 ? (uint64_t)x->length : 1;
    box->global_dim[1] = x->lines > 0 ? (uint64_t)x->lines : 1;
    box->global_dim[2] = x->batch > 0 ? (uint64_t)gemm_matrices(geometry, matrix) : 1;
    if (x->stride >= TENSOR_MAP_STRIDE / x->element)
        return ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED,
                            "stride_%s: %lld elements are 2^40 bytes or more, for TMA too far", name,
                            (long long)x->stride);
    if (x->batch >= TENSOR_MAP_STRIDE / x->element)
        return ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED,
                            "batch_%s: %lld elements are 2^40 bytes or more, for TMA too far", name,
                            (long long)x->batch);
    box->global_strides[0] = (uint64_t)(x->element * x->stride);
    box->global_strides[1] = (uint64_t)(x->element * (x->batch > 0 ? x->batch : x->stride));
    return geometry->groups > 0 && matrix == GEMM_D ? map_groups(x, box) : PTXPACK_OK;
}

int64_t gemm_wgmma_idle_lines(const ptxpack_gemm_desc *desc, const gemm_wgmma_layout *l)
{
    enum { SWIZZLED = 8 };
    const gemm_wgmma_operand *a = &l->a[0];
    const int64_t             lines = ((int64_t)desc->m + SWIZZLED - 1) / SWIZZLED * SWIZZLED;
    return desc->order_a == PTXPACK_ROW_MAJOR && a->parts == 1 && lines < a->box_extent ? a->box_extent - lines
                                                                                        : 0;
}

/* What the L2 cache fetches at once of B.  Tiles of 64 rows read the k of few rows at the speed of memory, 128 bytes of each column at a
 * time: with 256 their neighbours come along, which the next block wants (H200, 2026-11-29, columns of 8 KB: 128 x 4096 x 4096 takes
 * 5 % less, 128 x 28672 x 4096 2.6 %).  Elsewhere it is up to 21 % slower, where columns begin anywhere (1288 x 2568 x 5128). */
static ptxpack_tma_l2 fetch_of_b(const ptxpack_gemm_desc *d, const gemm_matrix *b, const gemm_wgmma_layout *l)
{
    enum { FEW = 128, SMALLEST_TILE = 64, FETCH = 256 /* bytes */ };
    return d->m <= FEW && l->block_m == SMALLEST_TILE && d->order_b == PTXPACK_COLUMN_MAJOR &&
                   b->stride * b->element % FETCH == 0
               ? PTXPACK_TMA_L2_256B
               : PTXPACK_TMA_L2_128B;
}

ptxpack_status ptxpack_gemm_wgmma_box(const ptxpack_gemm_desc *desc, const gemm_geometry *geometry,
                                      const gemm_wgmma_layout *l, int matrix, ptxpack_tma_box *box)
{
    const ptxpack_tma_box *const boxes[GEMM_MATRICES] = {&l->a[desc->order_a == PTXPACK_COLUMN_MAJOR].box,
                                                         &l->b[desc->order_b == PTXPACK_COLUMN_MAJOR].box,
                                                         &l->c_box, &l->d_box};
    *box = *boxes[matrix];
    if (matrix == GEMM_A || matrix == GEMM_C)
        crop_box(box, (int64_t)box->box_dim[1] - gemm_wgmma_idle_lines(desc, l));
    if (matrix == GEMM_B)
        box->l2 = fetch_of_b(desc, &geometry->matrix[GEMM_B], l);
    return ptxpack_gemm_wgmma_map(desc, geometry, matrix, box);
}

void gemm_wgmma_crop_rest(ptxpack_tma_box *box)
{
    const int64_t rest = (int64_t)(box->global_dim[1] % box->box_dim[1]);
    if (rest != 0)
        crop_box(box, rest);
}
