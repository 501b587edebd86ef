/* wgmma_layout.c - the tiles of a wgmma attention row in shared memory, their descriptors, boxes
 * and threads. */
#include "wgmma_layout.h"

#include <stdio.h>
#include <string.h>

#include "loader/loader.h"
#include "host/plan/tensor_map.h"

enum {
    O_BITS = 16, /* of an element of O, and of what ldmatrix and stmatrix move */
    O_ELEMENT = O_BITS / 8,
    EXCHANGE_BYTES = 72 * TILE_WARPGROUP, /* P of up to 64 keys, and two references of each thread */
    MESSAGE_BYTES = 48,                   /* two of 16 bytes, and 16 about the whole block */
    DESCALE_BYTES = 16,                   /* fp8: two pairs of floats */
    /* two of 32 bytes, about the sequence of a tile, and 48 of the producer; the same about parts of keys, and 32; two
     * of 32 about orders (ptx/attention/wgmma/sharers.ptx), and 16 for their barrier */
    LENGTHS_BYTES = 288,
    MAP_RANK = 5, /* of a ragged tensor map; of others one less */
};

#define BARRIER_NAME(name, count) #name,
const char *const attention_wgmma_barrier_names[WGMMA_BARRIERS] = {ATTENTION_WGMMA_BARRIERS(BARRIER_NAME)};
#undef BARRIER_NAME

/* ---- the row ------------------------------------------------------------------------------------------ */
static void take_parameters(attention_wgmma_layout *l, const ptxpack_variant *row)
{
    memset(l, 0, sizeof *l);
    l->row = row;
    l->fp8 = ptxpack_variant_parameter(row, "FP8", 0) != 0;
    l->element = l->fp8 ? 1 : 2;
    l->raw_stages = l->fp8 ? ptxpack_variant_parameter(row, "RAW_STAGES", 0) : 0;
    l->head_dim = ptxpack_variant_parameter(row, "HEAD_DIM", 0);
    l->block_m = ptxpack_variant_parameter(row, "BLOCK_M", 0);
    l->block_n = ptxpack_variant_parameter(row, "BLOCK_N", 0);
    l->warpgroups = ptxpack_variant_parameter(row, "WARPGROUPS", 0);
    l->k_stages = ptxpack_variant_parameter(row, "K_STAGES", 0);
    l->v_stages = ptxpack_variant_parameter(row, "V_STAGES", 0);
    l->q_stages = ptxpack_variant_parameter(row, "Q_STAGES", 0);
    l->q_registers = ptxpack_variant_parameter(row, "Q_REGISTERS", 0) != 0;
    l->p_buffers = ptxpack_variant_parameter(row, "P_BUFFERS", 0);
    l->o_buffers = ptxpack_variant_parameter(row, "O_BUFFERS", 0);
    l->producer_warps = ptxpack_variant_parameter(row, "PRODUCER_WARPS", 0);
    l->regs_producer = ptxpack_variant_parameter(row, "REGS_PRODUCER", 0);
    l->regs_consumer = ptxpack_variant_parameter(row, "REGS_CONSUMER", 0);
    l->value_dim = attention_row_values(row);
    l->column_groups = ptxpack_variant_parameter(row, "COLUMN_GROUPS", 1);
    l->values_in_keys = ptxpack_variant_parameter(row, "VALUES_IN_KEYS", 0) != 0;
    l->exchange = ptxpack_variant_parameter(row, "EXCHANGE", 0) != 0;
    l->o_in_q = ptxpack_variant_parameter(row, "O_IN_Q", 0) != 0;
    l->k_pieces = l->values_in_keys ? 3 : 1;
    l->o_dim = l->column_groups > 0 ? l->value_dim / l->column_groups : 0;
    l->box_columns = TILE_BOX_ROW / l->element;
    l->boxes = (l->head_dim + l->box_columns - 1) / l->box_columns;
    l->o_columns = TILE_BOX_ROW / O_ELEMENT;
    l->v_boxes = (l->value_dim + l->box_columns - 1) / l->box_columns;
    l->o_boxes = (l->o_dim + l->o_columns - 1) / l->o_columns;
}

static const char *contradiction_of_registers(const attention_wgmma_layout *l)
{
    if (l->regs_producer == 0 && l->regs_consumer == 0)
        return NULL;
    return l->producer_warps != 4
               ? "setmaxnreg needs PRODUCER_WARPS 4, a warpgroup"
               : tile_registers_refusal(l->regs_producer, l->regs_consumer, l->warpgroups, 1);
}

static const char *contradiction_of_fp8(const attention_wgmma_layout *l)
{
    return !l->fp8                  ? NULL
           : l->head_dim % 32 != 0  ? "FP8 needs a HEAD_DIM that is a multiple of 32"
           : l->block_n % 32 != 0   ? "FP8 needs a BLOCK_N that is a multiple of 32"
           : l->raw_stages < 1      ? "FP8 without RAW_STAGES"
           : l->k_stages < 2        ? "FP8 needs K_STAGES 2 or more"
           : l->v_stages < 2        ? "FP8 needs V_STAGES 2 or more"
           : l->producer_warps != 4 ? "FP8 needs PRODUCER_WARPS 4, which transpose V"
                                    : NULL;
}

static const char *contradiction_of_values(const attention_wgmma_layout *l)
{
    return l->column_groups != 1 && l->column_groups != l->warpgroups
               ? "COLUMN_GROUPS is neither 1 nor WARPGROUPS"
           : l->o_dim < 16 || l->o_dim % 16 != 0 || l->o_dim > 256
               ? "VALUE_DIM / COLUMN_GROUPS is not a multiple of 16 up to 256"
           : l->o_dim * l->column_groups != l->value_dim ? "VALUE_DIM is not a multiple of COLUMN_GROUPS"
           : l->column_groups > 1 && l->o_dim % l->o_columns != 0
               ? "VALUE_DIM / COLUMN_GROUPS are not whole boxes of columns"
           : l->fp8 && (l->value_dim != l->head_dim || l->column_groups > 1 || l->values_in_keys)
               ? "FP8 needs the VALUE_DIM HEAD_DIM and one of COLUMN_GROUPS"
           : l->o_in_q &&
                   (l->q_stages > 1 || l->q_registers || l->column_groups == 1 ||
                    l->o_dim * l->column_groups > l->boxes * l->box_columns || l->o_buffers != l->o_boxes)
               ? "O_IN_Q needs one stage of Q that has room for O, and COLUMN_GROUPS"
           : l->exchange && (l->column_groups != 2 || l->block_n > 64 || !l->o_in_q)
               ? "EXCHANGE needs two COLUMN_GROUPS, BLOCK_N up to 64 and O_IN_Q"
           : l->values_in_keys && (!l->exchange || l->v_stages != l->k_stages || l->v_boxes >= l->boxes)
               ? "VALUES_IN_KEYS needs EXCHANGE, as many V_STAGES as K_STAGES, and boxes behind the values"
               : NULL;
}

static const char *contradiction(const attention_wgmma_layout *l, const ptxpack_variant *row)
{
    const char *of_fp8 = contradiction_of_fp8(l), *of_values = contradiction_of_values(l);
    return of_fp8 != NULL                              ? of_fp8
           : of_values != NULL                         ? of_values
           : l->head_dim < 16 || l->head_dim % 16 != 0 ? "HEAD_DIM is not a multiple of 16"
           : l->block_n < 16 || l->block_n > 256 || l->block_n % 16 != 0
               ? "BLOCK_N is not a multiple of 16 up to 256"
           : l->warpgroups < 1 || l->warpgroups > 3 ? "WARPGROUPS is not 1, 2 or 3"
           : l->block_m != TILE_WGMMA_ROWS * l->warpgroups / l->column_groups
               ? "BLOCK_M is not 64 * WARPGROUPS / COLUMN_GROUPS"
           : l->k_stages < 1 || l->v_stages < 1               ? "K_STAGES or V_STAGES is missing"
           : l->q_stages != 1 && l->q_stages != 2             ? "Q_STAGES is not 1 or 2"
           : l->p_buffers != 1 && l->p_buffers != 2           ? "P_BUFFERS is not 1 or 2"
           : l->o_buffers < 1 || l->o_buffers > l->o_boxes    ? "O_BUFFERS is not in 1..boxes of a tile"
           : l->producer_warps != 1 && l->producer_warps != 4 ? "PRODUCER_WARPS is not 1 or 4"
           : row->threads != TILE_WARPGROUP * l->warpgroups + 32 * l->producer_warps
               ? "threads is not 128 * WARPGROUPS + 32 * PRODUCER_WARPS"
               : contradiction_of_registers(l);
}

/* ---- tiles and descriptors ---------------------------------------------------------------------------- */
/* V's tile is like K's, read with its columns as N and its keys as K.  Where the last box is not full,
 * an instruction reads fewer columns than the tile has, with the same descriptor.  With fp8 the transpose of
 * V is a tile of its own. */
OWN_FRAME void describe_tiles(attention_wgmma_layout *l)
{
    const int bits = (int)(8 * l->element);
    l->q = tile_of_boxes(l->block_m, l->boxes * l->box_columns, bits);
    l->k = tile_of_boxes(l->block_n, l->boxes * l->box_columns, bits);
    l->q_operand = ptxpack_wgmma_descriptor(&l->q, PTXPACK_WGMMA_K, bits, TILE_WGMMA_ROWS);
    l->k_operand = ptxpack_wgmma_descriptor(&l->k, PTXPACK_WGMMA_K, bits, 0);
    if (l->fp8) {
        l->status = ptxpack_attention_fp8_layout(l->head_dim, l->block_n, TILE_BOX_ROW, &l->transposed);
        l->v = l->transposed.vt;
        l->v_operand = l->transposed.operand;
    } else {
        ptxpack_layout v = tile_of_boxes(l->block_n, l->v_boxes * l->box_columns, bits);
        l->v = tile_transposed(&v);
        l->v_operand = ptxpack_wgmma_descriptor(&l->v, PTXPACK_WGMMA_MN, bits,
                                                l->column_groups > 1 ? l->o_dim : 0);
    }
}

/* ---- shared memory ------------------------------------------------------------------------------------ */
static void place_barriers(attention_wgmma_layout *l)
{
#define BARRIER_COUNT(name, count) count,
    const int64_t counts[WGMMA_BARRIERS] = {ATTENTION_WGMMA_BARRIERS(BARRIER_COUNT)};
#undef BARRIER_COUNT
    int64_t at = l->smem_barriers;
    for (int i = 0; i < WGMMA_BARRIERS; i++) {
        l->barrier[i] = at;
        l->barrier_count[i] = counts[i];
        at += 8 * counts[i];
    }
    if (l->values_in_keys) {
        l->barrier[WGMMA_V_FULL] = l->barrier[WGMMA_K_FULL];
        l->barrier[WGMMA_V_EMPTY] = l->barrier[WGMMA_K_EMPTY];
    }
    l->smem_message = (at + 15) / 16 * 16;
    l->smem_descales = l->smem_message + MESSAGE_BYTES;
    l->smem_lengths = l->smem_descales;
    l->shared_bytes = l->smem_lengths + (l->fp8 ? DESCALE_BYTES : LENGTHS_BYTES);
}

static void place_tiles(attention_wgmma_layout *l)
{
    l->q_box_bytes = l->block_m * TILE_BOX_ROW;
    l->kv_box_bytes = l->block_n * TILE_BOX_ROW;
    l->o_box_bytes = TILE_WARP_ROWS * TILE_BOX_ROW;
    l->q_stage_bytes = ptxpack_cosize(&l->q) * l->element;
    l->k_stage_bytes = ptxpack_cosize(&l->k) * l->element;
    l->v_stage_bytes = l->fp8              ? l->transposed.vt_bytes
                       : l->values_in_keys ? l->k_stage_bytes
                                           : l->v_boxes * l->kv_box_bytes;
    l->smem_q = 0;
    l->smem_k = l->smem_q + l->q_stages * l->q_stage_bytes;
    l->smem_raw = l->smem_k + l->k_stages * l->k_stage_bytes;
    l->smem_v = l->values_in_keys ? l->smem_k : l->smem_raw + l->raw_stages * l->k_stage_bytes;
    l->smem_barriers = l->smem_v + l->v_stages * l->v_stage_bytes;
    l->smem_o = l->o_in_q ? l->smem_q : l->smem_barriers;
    l->smem_exchange = l->smem_barriers;
    l->smem_barriers += l->exchange ? EXCHANGE_BYTES : 0;
    l->smem_barriers += l->o_in_q ? 0 : 4 * l->warpgroups * l->o_buffers * l->o_box_bytes;
    place_barriers(l);
}

/* ---- boxes -------------------------------------------------------------------------------------------- */
/* A warp stores its own 16 rows of O, box by box. */
OWN_FRAME void describe_boxes(attention_wgmma_layout *l)
{
    enum { RANK = 4 }; /* head_dim, sequence, head, batch */
    const int      bits = (int)(8 * l->element);
    ptxpack_layout o = tile_of_boxes(TILE_WARP_ROWS, l->o_columns, O_BITS);
    ptxpack_layout v = tile_of_boxes(l->block_n, l->v_boxes * l->box_columns, bits);
    l->q_box = tile_box(&l->q, RANK, bits);
    l->k_box = tile_box(&l->k, RANK, bits);
    l->v_box = tile_box(&v, RANK, bits);
    l->o_box = tile_box(&o, RANK, O_BITS);
    if (l->status == PTXPACK_OK)
        l->status = tile_check_box("q", &l->q_box, RANK, l->block_m, l->box_columns, l->boxes,
                                   l->q_box_bytes / l->element);
    if (l->status == PTXPACK_OK)
        l->status = tile_check_box("k", &l->k_box, RANK, l->block_n, l->box_columns, l->boxes,
                                   l->kv_box_bytes / l->element);
    if (l->status == PTXPACK_OK)
        l->status = tile_check_box("v", &l->v_box, RANK, l->block_n, l->box_columns, l->v_boxes,
                                   l->kv_box_bytes / l->element);
    if (l->status == PTXPACK_OK)
        l->status = tile_check_box("o", &l->o_box, RANK, TILE_WARP_ROWS, l->o_columns, 1, 0);
}

/* A sequence of one row has no stride from row to row: that from sequence to sequence takes its place, or any. */
static int64_t row_stride(const ptxpack_attention_desc *desc, const attention_tensor *t)
{
    return t->row != 0 ? t->row : t->batch != 0 ? t->batch : desc->head_dim;
}

int32_t attention_wgmma_rows_apart(const ptxpack_attention_desc *desc, const attention_tensor *t)
{
    return (int32_t)(t->batch / row_stride(desc, t));
}

int32_t attention_wgmma_box_rows(const ptxpack_attention_desc *desc, int64_t block_n)
{
    int32_t most = (int32_t)(block_n & -block_n); /* pages and blocks are whole boxes */
    return desc->kv_rows != PTXPACK_ROWS_PAGED ? 0 : desc->page_rows < most ? desc->page_rows : most;
}

/* Rows (RAGGED - length + i, end, RAGGED) of all sequences, or of boxes of pages: the last stride times RAGGED is -RAGGED
 * times the row's, modulo 2^64. */
static ptxpack_status ragged_extents(const ptxpack_attention_desc *desc, const attention_geometry *geometry,
                                     int tensor, int64_t extents[MAP_RANK], int64_t strides[MAP_RANK])
{
    const int64_t           ragged = INT64_C(1) << 30, wrap = (INT64_C(1) << 34) / (int64_t)sizeof(uint16_t);
    const attention_tensor *t = &geometry->tensor[tensor];
    const char             *name = attention_tensor_names[tensor];
    int64_t                 batches, rows, row = row_stride(desc, t);
    attention_extents(desc, tensor, &batches, &rows);
    if (row >= wrap)
        return ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED, "%s.row: stride %lld is 2^34 bytes or more", name,
                            (long long)row);
    if (t->batch % row != 0)
        return ptxpack_fail(
            NULL, PTXPACK_E_UNSUPPORTED,
            "%s.batch: stride %lld is no multiple of the row's %lld, as a ragged tensor map wants it", name,
            (long long)t->batch, (long long)row);
    int64_t apart = t->batch / row;
    if (apart > (INT32_MAX - rows) / batches)
        return ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED,
                            "%s: %lld sequences that are %lld rows apart exceed %d rows", name,
                            (long long)batches, (long long)apart, INT32_MAX);
    strides[1] = strides[3] = row;
    strides[4] = wrap - row;
    extents[1] = ragged;
    extents[3] = (batches - 1) * apart + rows + 1;
    extents[4] = ragged + 1;
    return PTXPACK_OK;
}

/* The stride of an extent of 1 means nothing, but TMA must accept it. */
ptxpack_status ptxpack_attention_wgmma_map(const ptxpack_attention_desc *desc,
                                           const attention_geometry *geometry, int tensor, ptxpack_tma_box *box)
{
    static const char *const modes[MAP_RANK] = {"head_dim", "row", "head", "batch", "row"};
    const attention_tensor  *t = &geometry->tensor[tensor];
    const char              *name = attention_tensor_names[tensor];
    bool                     keys = tensor == TENSOR_K || tensor == TENSOR_V;
    const int32_t            columns = attention_columns(desc, tensor);
    int64_t                  extents[MAP_RANK] = {columns, keys ? desc->seqlen_kv : desc->seqlen_q,
                                 keys ? desc->heads_kv : desc->heads_q, desc->batch, 1};
    int64_t                  strides[MAP_RANK] = {1, t->row, t->head, t->batch, 0};
    const ptxpack_dtype      type = attention_tensor_type(desc, tensor);
    const int64_t            element = (int64_t)ptxpack_dtype_bytes(type);
    box->type = type == PTXPACK_E4M3   ? PTXPACK_TMA_UINT8
                : type == PTXPACK_BF16 ? PTXPACK_TMA_BFLOAT16
                                       : PTXPACK_TMA_FLOAT16;
    if (geometry->varlen && ragged_extents(desc, geometry, tensor, extents, strides) != PTXPACK_OK)
        return PTXPACK_E_UNSUPPORTED;
    if (keys && desc->kv_rows == PTXPACK_ROWS_PAGED)
        box->box_dim[1] = (uint32_t)attention_wgmma_box_rows(desc, box->box_dim[1]);
    box->box_dim[MAP_RANK - 1] = box->element_strides[MAP_RANK - 1] = 1;
    box->rank = geometry->varlen ? MAP_RANK : MAP_RANK - 1;
    for (uint32_t d = 0; d < box->rank; d++) {
        box->global_dim[d] = (uint64_t)extents[d];
        if (extents[d] > 1 && strides[d] == 0)
            return ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED, "%s.%s: TMA has no stride 0", name, modes[d]);
        if (extents[d] > 1 && strides[d] >= TENSOR_MAP_STRIDE / element)
            return ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED,
                                "%s.%s: stride %lld is 2^40 bytes or more, for TMA too far", name, modes[d],
                                (long long)strides[d]);
        if (d > 0)
            box->global_strides[d - 1] = (uint64_t)(element * (extents[d] > 1 ? strides[d] : columns));
    }
    return PTXPACK_OK;
}

/* Heads come before rows. */
void attention_wgmma_pack_box(ptxpack_tma_box *box, int32_t group)
{
    enum { ROWS = 1, HEADS = 2 };
    uint64_t rows = box->global_dim[ROWS], row_stride = box->global_strides[ROWS - 1];
    box->global_dim[ROWS] = box->global_dim[HEADS];
    box->global_strides[ROWS - 1] = box->global_strides[HEADS - 1];
    box->global_dim[HEADS] = rows;
    box->global_strides[HEADS - 1] = row_stride;
    uint32_t heads = (uint32_t)group < box->box_dim[ROWS] ? (uint32_t)group : box->box_dim[ROWS];
    box->box_dim[HEADS] = box->box_dim[ROWS] / heads;
    box->box_dim[ROWS] = heads;
}

/* ---- wide boxes --------------------------------------------------------------------------------------- */
enum { CHUNK_COLUMNS = 64 /* 128 bytes */ };

int32_t attention_wgmma_head_chunks(const ptxpack_attention_desc *desc, const attention_geometry *geometry)
{
    return desc->heads_kv > 1 ? (int32_t)(geometry->tensor[TENSOR_K].head / CHUNK_COLUMNS) : 0;
}

bool attention_wgmma_has_wide_boxes(const ptxpack_attention_desc *desc, const attention_geometry *geometry,
                                    const ptxpack_variant *row)
{
    enum { MOST_CHUNKS = 1 << 24 };
    const attention_tensor *k = &geometry->tensor[TENSOR_K], *v = &geometry->tensor[TENSOR_V];
    const bool              one = desc->heads_kv == 1;
    const int64_t           block_n = ptxpack_variant_parameter(row, "BLOCK_N", 0);
    if (desc->kv_rows == PTXPACK_ROWS_PAGED && attention_wgmma_box_rows(desc, block_n) != block_n)
        return false; /* boxes of fewer rows are not the tile's */
    return ptxpack_variant_parameter(row, "COLUMN_GROUPS", 1) > 1 &&
           ptxpack_variant_parameter(row, "HEAD_DIM", 0) == desc->head_dim &&
           attention_row_values(row) == attention_value_dim(desc) && desc->head_dim % CHUNK_COLUMNS == 0 &&
           (one || (k->head % CHUNK_COLUMNS == 0 && k->head == v->head &&
                    k->head / CHUNK_COLUMNS < MOST_CHUNKS / desc->heads_kv));
}

void attention_wgmma_widen_box(ptxpack_tma_box *box, const attention_wgmma_layout *l, int32_t columns,
                               int32_t heads, int32_t head_chunks)
{
    enum { COLUMNS = 0, CHUNKS = 2 /* in place of heads */ };
    const bool     values = columns == l->value_dim;
    const uint32_t chunks = (uint32_t)(columns / CHUNK_COLUMNS);
    box->global_dim[COLUMNS] = CHUNK_COLUMNS;
    box->global_dim[CHUNKS] = (uint64_t)(heads - 1) * (uint64_t)head_chunks + chunks;
    box->global_strides[CHUNKS - 1] = CHUNK_COLUMNS * sizeof(uint16_t);
    box->box_dim[CHUNKS] = l->k_pieces == 1 ? chunks
                           : values         ? chunks / (uint32_t)l->column_groups
                                            : (uint32_t)(l->boxes - l->v_boxes);
}

/* ---- threads ------------------------------------------------------------------------------------------ */
OWN_FRAME ptxpack_tiled_mma tile_warpgroups(const attention_wgmma_layout *l, int64_t n, const char *operands)
{
    char name[64];
    if (l->fp8)
        snprintf(name, sizeof name, "SM90_64x%lldx32_F32E4M3E4M3_%s_TN", (long long)n, operands);
    else
        snprintf(name, sizeof name, "SM90_64x%lldx16_F32F16F16_%s", (long long)n, operands);
    return tile_wgmma(l->warpgroups / l->column_groups, name);
}

OWN_FRAME void describe_accesses(attention_wgmma_layout *l)
{
    ptxpack_layout q = tile_of_boxes(l->block_m, l->boxes * l->o_columns, O_BITS); /* the same bytes */
    l->access[WGMMA_ACCESS_Q] =
        (attention_wgmma_access){.name = "Q to registers",
                                 .atom = "SM75_U32x4_LDSM_N",
                                 .used = l->q_registers,
                                 .offsets = tile_matrix_rows(l->warpgroups / l->column_groups,
                                                             "SM75_U32x4_LDSM_N", PTXPACK_A, PTXPACK_SRC, &q)};
    l->access[WGMMA_ACCESS_O] = (attention_wgmma_access){.name = "O to shared memory",
                                                         .atom = "SM90_U32x4_STSM_N",
                                                         .used = true,
                                                         .offsets = tile_matrix_rows(l->warpgroups,
                                                                                     "SM90_U32x4_STSM_N",
                                                                                     PTXPACK_C, PTXPACK_DST,
                                                                                     &l->o)};
}

ptxpack_banks ptxpack_attention_wgmma_banks(const attention_wgmma_layout *l, attention_wgmma_access_id id)
{
    return tile_banks(l->o.swizzle, &l->access[id].offsets, TILE_CHUNK);
}

/* ---- all of it ---------------------------------------------------------------------------------------- */
static ptxpack_status derivation_status(const attention_wgmma_layout *l)
{
    const ptxpack_status all[] = {l->q.shape.status,
                                  l->k.shape.status,
                                  l->v.shape.status,
                                  l->o.shape.status,
                                  l->q_operand.status,
                                  l->k_operand.status,
                                  l->v_operand.status,
                                  l->qk.status,
                                  l->pv.status,
                                  l->c_place.shape.status,
                                  l->access[WGMMA_ACCESS_Q].offsets.shape.status,
                                  l->access[WGMMA_ACCESS_O].offsets.shape.status};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i] != PTXPACK_OK)
            return all[i];
    return PTXPACK_OK;
}

ptxpack_status ptxpack_attention_wgmma_layout(const ptxpack_variant *row, attention_wgmma_layout *l)
{
    take_parameters(l, row);
    const char *wrong = contradiction(l, row);
    if (wrong != NULL)
        return l->status = tile_refuse_row(row, "%s", wrong);
    describe_tiles(l);
    l->o = tile_of_warps(4 * l->warpgroups, l->o_buffers, l->o_columns, O_BITS);
    place_tiles(l);
    describe_boxes(l);
    l->qk = tile_warpgroups(l, l->block_n, l->q_registers ? "RS" : "SS");
    l->pv = tile_warpgroups(l, l->o_dim, "RS");
    l->c_place = tile_accumulators(&l->qk, l->block_m, l->block_n);
    describe_accesses(l);
    if (l->status == PTXPACK_OK)
        l->status = derivation_status(l);
    if (l->status != PTXPACK_OK)
        return l->status = tile_refuse_row(row, "%s", ptxpack_detail(NULL));
    if (row->shared_bytes != l->shared_bytes)
        return l->status = tile_refuse_row(row, "shared_bytes is %d, its tiles and barriers take %lld",
                                           row->shared_bytes, (long long)l->shared_bytes);
    return l->status;
}
