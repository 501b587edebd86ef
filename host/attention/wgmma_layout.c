/* wgmma_layout.c - the tiles of a wgmma attention row in shared memory, their descriptors, boxes
 * and threads. */
#include "wgmma_layout.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "loader/loader.h"
#include "host/plan/row_memo.h"

enum {
    O_BITS = 16, /* of an element of O, and of what ldmatrix and stmatrix move */
    O_ELEMENT = O_BITS / 8,
    BOX_ROW_BYTES = 128, /* what the widest swizzle spans */
    MESSAGES = 2,        /* tiles that the producer is ahead of the consumers */
    MESSAGE_BYTES = 48,  /* two of 16, and what is said of the block as a whole */
    DESCALE_BYTES = 16,  /* fp8: two pairs of floats */
    REGISTERS = 65536,   /* of an SM */
};
static const int64_t TMA_STRIDE = (int64_t)1 << 40; /* bytes: no stride reaches that far */

const char *const attention_wgmma_barrier_names[WGMMA_BARRIERS] = {"Q_FULL",        "Q_EMPTY",   "K_FULL",
                                                                   "K_EMPTY",       "V_FULL",    "V_EMPTY",
                                                                   "RAW_FULL",      "RAW_EMPTY", "MESSAGE_FULL",
                                                                   "MESSAGE_EMPTY", "DONE"};

/* Atoms, tiled copies and layouts take kilobytes of stack: these functions do not share a frame. */
#define OWN_FRAME __attribute__((noinline)) static

/* ---- the row ------------------------------------------------------------------------------------------ */
static void take_parameters(attention_wgmma_layout *l, const ptxpack_variant *row)
{
    memset(l, 0, sizeof *l);
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
    l->box_columns = BOX_ROW_BYTES / l->element;
    l->boxes = (l->head_dim + l->box_columns - 1) / l->box_columns;
    l->o_columns = BOX_ROW_BYTES / O_ELEMENT;
    l->o_boxes = (l->head_dim + l->o_columns - 1) / l->o_columns;
}

static bool setmaxnreg_takes(int64_t registers)
{
    return registers >= 24 && registers <= 256 && registers % 8 == 0;
}

static const char *contradiction_of_registers(const attention_wgmma_layout *l)
{
    int64_t wanted = WGMMA_WARPGROUP * (l->regs_producer + l->warpgroups * l->regs_consumer);
    if (l->regs_producer == 0 && l->regs_consumer == 0)
        return NULL;
    return l->producer_warps != 4                ? "setmaxnreg wants PRODUCER_WARPS 4, a warpgroup"
           : !setmaxnreg_takes(l->regs_producer) ? "REGS_PRODUCER is no multiple of 8 in 24..256"
           : !setmaxnreg_takes(l->regs_consumer) ? "REGS_CONSUMER is no multiple of 8 in 24..256"
           : wanted > REGISTERS                  ? "REGS_PRODUCER and REGS_CONSUMER exceed an SM's registers"
                                                 : NULL;
}

static const char *contradiction_of_fp8(const attention_wgmma_layout *l)
{
    return !l->fp8                  ? NULL
           : l->head_dim % 32 != 0  ? "FP8 wants a HEAD_DIM that is a multiple of 32"
           : l->block_n % 32 != 0   ? "FP8 wants a BLOCK_N that is a multiple of 32"
           : l->raw_stages < 1      ? "FP8 without RAW_STAGES"
           : l->k_stages < 2        ? "FP8 wants K_STAGES 2 or more"
           : l->v_stages < 2        ? "FP8 wants V_STAGES 2 or more"
           : l->producer_warps != 4 ? "FP8 wants PRODUCER_WARPS 4, which turn V round"
                                    : NULL;
}

static const char *contradiction(const attention_wgmma_layout *l, const ptxpack_variant *row)
{
    const char *of_fp8 = contradiction_of_fp8(l);
    return of_fp8 != NULL                              ? of_fp8
           : l->head_dim < 16 || l->head_dim % 16 != 0 ? "HEAD_DIM is no multiple of 16"
           : l->head_dim > 256                         ? "HEAD_DIM is over 256"
           : l->block_n < 16 || l->block_n > 256 || l->block_n % 16 != 0
               ? "BLOCK_N is no multiple of 16 up to 256"
           : l->warpgroups < 1 || l->warpgroups > 3           ? "WARPGROUPS is not 1, 2 or 3"
           : l->block_m != WGMMA_ROWS * l->warpgroups         ? "BLOCK_M is not 64 * WARPGROUPS"
           : l->k_stages < 1 || l->v_stages < 1               ? "K_STAGES or V_STAGES is missing"
           : l->q_stages != 1 && l->q_stages != 2             ? "Q_STAGES is not 1 or 2"
           : l->p_buffers != 1 && l->p_buffers != 2           ? "P_BUFFERS is not 1 or 2"
           : l->o_buffers < 1 || l->o_buffers > l->o_boxes    ? "O_BUFFERS is not in 1..boxes of a tile"
           : l->producer_warps != 1 && l->producer_warps != 4 ? "PRODUCER_WARPS is not 1 or 4"
           : row->threads != WGMMA_WARPGROUP * l->warpgroups + 32 * l->producer_warps
               ? "threads is not 128 * WARPGROUPS + 32 * PRODUCER_WARPS"
               : contradiction_of_registers(l);
}

/* ---- tiles and descriptors ---------------------------------------------------------------------------- */
/* Boxes one after another, each as wide as the swizzle's span. */
OWN_FRAME ptxpack_layout tile_of(int64_t rows, int64_t columns, int64_t element)
{
    const int64_t  extents[2] = {rows, columns};
    ptxpack_layout atom = ptxpack_wgmma_atom(PTXPACK_WGMMA_K, PTXPACK_WGMMA_128B, (int)(8 * element));
    ptxpack_tuple  shape = ptxpack_tuple_of(2, extents);
    return ptxpack_tile_to_shape(&atom, &shape, NULL);
}

static ptxpack_layout without_swizzle(ptxpack_layout l)
{
    l.composed = false;
    l.swizzle = (ptxpack_swizzle){0, 0, 0};
    return l;
}

/* V is the tile that K is, read with its columns as N and its keys as K.  Where the last box is not full an
 * instruction reads fewer columns than the tile has, by the same descriptor.  With fp8 it is a tile of its
 * own. */
OWN_FRAME void describe_tiles(attention_wgmma_layout *l)
{
    static const int columns_first[2] = {1, 0};
    const int        bits = (int)(8 * l->element);
    l->q = tile_of(l->block_m, l->boxes * l->box_columns, l->element);
    l->kv = tile_of(l->block_n, l->boxes * l->box_columns, l->element);
    l->q_operand = ptxpack_wgmma_descriptor(&l->q, PTXPACK_WGMMA_K, bits, WGMMA_ROWS);
    l->k_operand = ptxpack_wgmma_descriptor(&l->kv, PTXPACK_WGMMA_K, bits, 0);
    if (l->fp8) {
        l->status = ptxpack_attention_fp8_layout(l->head_dim, l->block_n, BOX_ROW_BYTES, &l->turned);
        l->v = l->turned.vt;
        l->v_operand = l->turned.operand;
    } else {
        l->v = ptxpack_layout_select(&l->kv, 2, columns_first);
        l->v_operand = ptxpack_wgmma_descriptor(&l->v, PTXPACK_WGMMA_MN, bits, 0);
    }
}

/* O leaves by boxes of 16 rows, of which each warp has O_BUFFERS one after another. */
OWN_FRAME void describe_output(attention_wgmma_layout *l)
{
    const int64_t  warps = 4 * l->warpgroups, box = WGMMA_WARP_ROWS * l->o_columns;
    const int64_t  copies[2] = {warps, 1}, steps[2] = {l->o_buffers * box, 0};
    ptxpack_tuple  copies_of = ptxpack_tuple_of(2, copies), stride = ptxpack_tuple_of(2, steps);
    ptxpack_layout all = ptxpack_make_layout(&copies_of, &stride);
    ptxpack_layout swizzled = tile_of(WGMMA_WARP_ROWS, l->o_columns, O_ELEMENT);
    ptxpack_layout one = without_swizzle(swizzled);
    all = ptxpack_layout_zip(&one, &all); /* ((row, warp), (column, 1)) */
    all = ptxpack_coalesce(&all, &copies_of);
    l->o = ptxpack_make_composed(swizzled.swizzle, 0, &all);
}

/* ---- shared memory ------------------------------------------------------------------------------------ */
static void place_barriers(attention_wgmma_layout *l)
{
    const int64_t counts[WGMMA_BARRIERS] = {l->q_stages,
                                            l->q_stages,
                                            l->k_stages,
                                            l->k_stages,
                                            l->v_stages,
                                            l->v_stages,
                                            l->raw_stages,
                                            l->raw_stages,
                                            MESSAGES,
                                            MESSAGES,
                                            1};
    int64_t       at = l->smem_barriers;
    for (int i = 0; i < WGMMA_BARRIERS; i++) {
        l->barrier[i] = at;
        l->barrier_count[i] = counts[i];
        at += 8 * counts[i];
    }
    l->smem_message = (at + 15) / 16 * 16;
    l->smem_descales = l->smem_message + MESSAGE_BYTES;
    l->shared_bytes = l->smem_descales + (l->fp8 ? DESCALE_BYTES : 0);
}

static void place_tiles(attention_wgmma_layout *l)
{
    l->q_box_bytes = l->block_m * BOX_ROW_BYTES;
    l->kv_box_bytes = l->block_n * BOX_ROW_BYTES;
    l->o_box_bytes = WGMMA_WARP_ROWS * BOX_ROW_BYTES;
    l->q_stage_bytes = ptxpack_cosize(&l->q) * l->element;
    l->kv_stage_bytes = ptxpack_cosize(&l->kv) * l->element;
    l->v_stage_bytes = l->fp8 ? l->turned.vt_bytes : l->kv_stage_bytes;
    l->smem_q = 0;
    l->smem_k = l->smem_q + l->q_stages * l->q_stage_bytes;
    l->smem_raw = l->smem_k + l->k_stages * l->kv_stage_bytes;
    l->smem_v = l->smem_raw + l->raw_stages * l->kv_stage_bytes;
    l->smem_o = l->smem_v + l->v_stages * l->v_stage_bytes;
    l->smem_barriers = l->smem_o + 4 * l->warpgroups * l->o_buffers * l->o_box_bytes;
    place_barriers(l);
}

/* ---- boxes -------------------------------------------------------------------------------------------- */
/* The box by which TMA moves `shared`, rows x columns, of a tensor {head_dim, sequence, head, batch}.  Every
 * tensor has the same box: this one is larger than the tile in each mode, so that no mode vanishes. */
OWN_FRAME ptxpack_tma_box box_of(const ptxpack_layout *shared, int64_t element)
{
    static const int columns_first[2] = {1, 0};
    int64_t          rows = ptxpack_mode_size(shared, 0), columns = ptxpack_mode_size(shared, 1);
    const int64_t    extents[4] = {2 * columns, 2 * rows, 2, 2}, taken[4] = {columns, rows, 1, 1};
    ptxpack_tuple    shape = ptxpack_tuple_of(4, extents), tile = ptxpack_tuple_of(4, taken);
    ptxpack_layout   global = ptxpack_make_layout_left(&shape), tiler = ptxpack_tiler_of(&tile);
    ptxpack_layout   turned = ptxpack_layout_select(shared, 2, columns_first);
    ptxpack_tma_desc desc = {.size = sizeof desc,
                             .global = &global,
                             .type = element == 1 ? PTXPACK_TMA_UINT8 : PTXPACK_TMA_FLOAT16,
                             .shared = &turned,
                             .tile = &tiler,
                             .l2 = PTXPACK_TMA_L2_256B};
    return ptxpack_tma_make(&desc);
}

/* Boxes lie one after another, and the instruction's coordinates are the tensor's modes in their order. */
static ptxpack_status check_box(const char *name, const ptxpack_tma_box *box, int64_t boxes, int64_t columns,
                                int64_t rows, int64_t distance)
{
    bool right = box->status == PTXPACK_OK && box->rank == 4 && box->boxes == boxes &&
                 (int64_t)box->box_dim[0] == columns && (int64_t)box->box_dim[1] == rows;
    for (int d = 0; d < 4 && right; d++)
        right = box->coordinates.stride.value[d] == 1 && box->coordinates.stride.kind[d] == (uint64_t)d + 1;
    for (int64_t i = 0; i < boxes && right; i++)
        right = ptxpack_at(&box->offsets, i) == i * distance;
    if (right)
        return PTXPACK_OK;
    return box->status != PTXPACK_OK
               ? box->status
               : ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED, "a tile of %s is not its %lld boxes in a row", name,
                              (long long)boxes);
}

/* A warp stores its own 16 rows of O, box by box. */
OWN_FRAME void describe_boxes(attention_wgmma_layout *l)
{
    ptxpack_layout o = tile_of(WGMMA_WARP_ROWS, l->o_columns, O_ELEMENT);
    l->q_box = box_of(&l->q, l->element);
    l->kv_box = box_of(&l->kv, l->element);
    l->o_box = box_of(&o, O_ELEMENT);
    if (l->status == PTXPACK_OK)
        l->status = check_box("q", &l->q_box, l->boxes, l->box_columns, l->block_m,
                              l->q_box_bytes / l->element);
    if (l->status == PTXPACK_OK)
        l->status = check_box("k", &l->kv_box, l->boxes, l->box_columns, l->block_n,
                              l->kv_box_bytes / l->element);
    if (l->status == PTXPACK_OK)
        l->status = check_box("o", &l->o_box, 1, l->o_columns, WGMMA_WARP_ROWS, 0);
}

/* A stride of an extent of 1 means nothing, but must be one that TMA takes. */
ptxpack_status ptxpack_attention_wgmma_map(const ptxpack_attention_desc *desc,
                                           const attention_geometry *geometry, int tensor, ptxpack_tma_box *box)
{
    static const char *const modes[4] = {"head_dim", "row", "head", "batch"};
    const attention_tensor  *t = &geometry->tensor[tensor];
    const char              *name = attention_tensor_names[tensor];
    bool                     keys = tensor == TENSOR_K || tensor == TENSOR_V;
    const int64_t            extents[4] = {desc->head_dim, keys ? desc->seqlen_kv : desc->seqlen_q,
                                keys ? desc->heads_kv : desc->heads_q, desc->batch};
    const int64_t            strides[4] = {1, t->row, t->head, t->batch};
    const ptxpack_dtype      type = attention_tensor_type(desc, tensor);
    const int64_t            element = (int64_t)ptxpack_dtype_bytes(type);
    box->type = type == PTXPACK_E4M3   ? PTXPACK_TMA_UINT8
                : type == PTXPACK_BF16 ? PTXPACK_TMA_BFLOAT16
                                       : PTXPACK_TMA_FLOAT16;
    for (int d = 0; d < 4; d++) {
        box->global_dim[d] = (uint64_t)extents[d];
        if (extents[d] > 1 && strides[d] == 0)
            return ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED, "%s.%s: TMA has no stride 0", name, modes[d]);
        if (extents[d] > 1 && strides[d] >= TMA_STRIDE / element)
            return ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED,
                                "%s.%s: stride %lld is 2^40 bytes or more, for TMA too far", name, modes[d],
                                (long long)strides[d]);
        if (d > 0)
            box->global_strides[d - 1] = (uint64_t)(element * (extents[d] > 1 ? strides[d] : desc->head_dim));
    }
    return PTXPACK_OK;
}

/* ---- threads ------------------------------------------------------------------------------------------ */
OWN_FRAME ptxpack_tiled_mma tile_mma(const attention_wgmma_layout *l, int64_t n, int64_t element,
                                     const char *operands)
{
    char             name[64];
    ptxpack_mma_atom atom;
    if (element == 1)
        snprintf(name, sizeof name, "SM90_64x%lldx32_F32E4M3E4M3_%s_TN", (long long)n, operands);
    else
        snprintf(name, sizeof name, "SM90_64x%lldx16_F32F16F16_%s", (long long)n, operands);
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

OWN_FRAME void describe_accumulators(attention_wgmma_layout *l)
{
    const int64_t  extents[2] = {l->block_m, l->block_n};
    ptxpack_tuple  shape = ptxpack_tuple_of(2, extents);
    ptxpack_layout places = ptxpack_make_identity_layout(&shape);
    ptxpack_layout c = ptxpack_mma_thrfrg(&l->qk, PTXPACK_C, &places);
    ptxpack_layout modes[3] = {part_of(&c, "(_,0)"), part_of(&c, "(0,((0,_,0),0))"),
                               part_of(&c, "(0,((0,0,_),0))")};
    l->c_place = ptxpack_layout_join(3, modes);
}

/* Rows of 16 bytes, in elements of 16 bits, that a tiled copy of the MMA's operand finds in `tile`, 16
 * columns at a time: accumulators of any N are those of N = 16, one after another. */
OWN_FRAME ptxpack_layout rows_of(const attention_wgmma_layout *l, const char *atom_name,
                                 ptxpack_operand operand, ptxpack_side side, const ptxpack_layout *tile)
{
    ptxpack_copy_atom atom;
    ptxpack_tiled_mma mma = tile_mma(l, 16, O_ELEMENT, "RS");
    ptxpack_status    status = ptxpack_copy_atom_find(atom_name, &atom);
    ptxpack_layout    plain = without_swizzle(*tile);
    status = status != PTXPACK_OK ? status : mma.status;
    plain.shape.status = status != PTXPACK_OK ? status : plain.shape.status;
    if (plain.shape.status != PTXPACK_OK)
        return plain;
    ptxpack_tiled_copy copy = ptxpack_make_tiled_copy_mma(&atom, O_BITS, &mma, operand);
    ptxpack_layout     all = ptxpack_copy_tidfrg(&copy, side, &plain);
    ptxpack_layout     modes[2] = {part_of(&all, "(_,0,0)"), part_of(&all, "(0,0,(0,_))")};
    return ptxpack_layout_join(2, modes);
}

OWN_FRAME void describe_accesses(attention_wgmma_layout *l)
{
    ptxpack_layout q = tile_of(l->block_m, l->boxes * l->o_columns, O_ELEMENT); /* the same bytes */
    l->access[WGMMA_ACCESS_Q] = (attention_wgmma_access){.name = "Q to registers",
                                                         .atom = "SM75_U32x4_LDSM_N",
                                                         .used = l->q_registers,
                                                         .offsets = rows_of(l, "SM75_U32x4_LDSM_N", PTXPACK_A,
                                                                            PTXPACK_SRC, &q)};
    l->access[WGMMA_ACCESS_O] = (attention_wgmma_access){.name = "O to shared memory",
                                                         .atom = "SM90_U32x4_STSM_N",
                                                         .used = true,
                                                         .offsets = rows_of(l, "SM90_U32x4_STSM_N", PTXPACK_C,
                                                                            PTXPACK_DST, &l->o)};
}

ptxpack_banks ptxpack_attention_wgmma_banks(const attention_wgmma_layout *l, attention_wgmma_access_id id)
{
    ptxpack_layout      swizzled = ptxpack_make_composed(l->o.swizzle, 0, &l->access[id].offsets);
    ptxpack_bank_access access = {.offsets = &swizzled, .bytes = 16};
    return ptxpack_bank_conflicts(&access, O_BITS);
}

/* ---- all of it ---------------------------------------------------------------------------------------- */
static ptxpack_status derivation_status(const attention_wgmma_layout *l)
{
    const ptxpack_status all[] = {l->q.shape.status,
                                  l->kv.shape.status,
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

static ptxpack_status refuse_row(const ptxpack_variant *row, attention_wgmma_layout *l, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static ptxpack_status refuse_row(const ptxpack_variant *row, attention_wgmma_layout *l, const char *format, ...)
{
    char    why[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    l->status = ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED, "kernels.def, row %s: %s", row->id, why);
    return l->status;
}

ptxpack_status ptxpack_attention_wgmma_layout(const ptxpack_variant *row, attention_wgmma_layout *l)
{
    take_parameters(l, row);
    const char *wrong = contradiction(l, row);
    if (wrong != NULL)
        return refuse_row(row, l, "%s", wrong);
    describe_tiles(l);
    describe_output(l);
    place_tiles(l);
    describe_boxes(l);
    l->qk = tile_mma(l, l->block_n, l->element, l->q_registers ? "RS" : "SS");
    l->pv = tile_mma(l, l->head_dim, l->element, "RS");
    describe_accumulators(l);
    describe_accesses(l);
    if (l->status == PTXPACK_OK)
        l->status = derivation_status(l);
    if (l->status != PTXPACK_OK)
        return refuse_row(row, l, "%s", ptxpack_detail(NULL));
    if (row->shared_bytes != l->shared_bytes)
        return refuse_row(row, l, "shared_bytes is %d, its tiles and barriers take %lld", row->shared_bytes,
                          (long long)l->shared_bytes);
    return l->status;
}

static ptxpack_status derive(const ptxpack_variant *row, void *out)
{
    return ptxpack_attention_wgmma_layout(row, (attention_wgmma_layout *)out);
}

const attention_wgmma_layout *ptxpack_attention_wgmma_layout_of(const ptxpack_variant   *row,
                                                                attention_wgmma_layout **own)
{
    static row_memo memo;
    void           *made;
    const void     *layout = row_memo_get(&memo, row, sizeof(attention_wgmma_layout), derive, &made);
    *own = (attention_wgmma_layout *)made;
    return (const attention_wgmma_layout *)layout;
}
