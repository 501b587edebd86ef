/* wgmma.c - the method of the rows of ptx/attention/wgmma.ptx. */
#include <stdio.h>

#include "cost.h"
#include "host/plan/tensor_map.h"
#include "op.h"
#include "wgmma_symbols.h"

/* ---- symbols ------------------------------------------------------------------------------------------ */
static void symbols(const plan_problem *problem, const void *layout, symbol_list *list)
{
    const attention_geometry *g = (const attention_geometry *)problem->geometry;
    ptxpack_dtype             dtype = ((const ptxpack_attention_desc *)problem->desc)->dtype;
    symbol_add(list, "BF16", dtype != PTXPACK_F16); /* of O, and of 16-bit inputs */
    symbol_add(list, "LIMITED_LEFT", g->limited_left);
    symbol_add(list, "LIMITED_RIGHT", g->limited_right);
    symbol_add(list, "SOFTCAP", g->softcap > 0);
    attention_wgmma_symbols((const attention_wgmma_layout *)layout, list);
}

/* ---- tensor maps -------------------------------------------------------------------------------------- */
static ptxpack_status encode_maps(const plan_problem *problem, const attention_wgmma_layout *layout,
                                  attention_wgmma_arguments *a)
{
    argument_tensor_map *const   maps[TENSOR_COUNT] = {&a->map_q, &a->map_k, &a->map_v, &a->map_o};
    const ptxpack_tma_box *const boxes[TENSOR_COUNT] = {&layout->q_box, &layout->kv_box, &layout->kv_box,
                                                        &layout->o_box};
    ptxpack_status               status = PTXPACK_OK;
    for (int i = 0; i < TENSOR_COUNT && status == PTXPACK_OK; i++) {
        ptxpack_tma_box box = *boxes[i];
        status = ptxpack_attention_wgmma_map((const ptxpack_attention_desc *)problem->desc,
                                             (const attention_geometry *)problem->geometry, i, &box);
        if (status != PTXPACK_OK)
            return ptxpack_fail(problem->handle, status, "%s", ptxpack_detail(NULL));
        status = ptxpack_tensor_map_encode(problem->handle, attention_tensor_names[i], &box, maps[i]);
    }
    return status;
}

/* ---- the plan ----------------------------------------------------------------------------------------- */
/* The tiles are those of every kernel, in another order.  Without a limit on the right, one head comes after
 * another, so that blocks which run at the same time read the same keys.  With a limit on the right and none
 * on the left, tiles differ in length, and the longest tiles of several heads come first: of 16 heads; of
 * fewer, but at least 8, where 16 have more than 64 MB of keys and values; of more where these are below 16
 * MB.  (H200, causal, TFLOP/s of 1, 4, 8, 16, 64 heads: d 128, s 16384 769 814 809 793; s 4096 680 699 721
 * 728 636; d 256, s 16384 722 807 815.) */
static ptxpack_status count_tiles(const ptxpack_attention_desc *d, const attention_geometry *g, int64_t block_m,
                                  attention_tiles *tiles, char line[PLAN_LINE])
{
    enum { LEAST_BYTES = 16 << 20, MOST_BYTES = 64 << 20, LEAST_HEADS = 8, HEADS = 16, TILE_LIMIT = 1 << 30 };
    ptxpack_status status = attention_count_tiles(d, g, block_m, tiles, line);
    if (status != PTXPACK_OK)
        return status;
    if (tiles->tiles_total >= TILE_LIMIT) /* the kernel keeps two flags in the word of a tile's number */
        return plan_refuse(line, PTXPACK_E_UNSUPPORTED, "%d tiles of %d rows exceed %d",
                           (int)tiles->tiles_total, (int)block_m, TILE_LIMIT - 1);
    int64_t head_bytes = 2 * (int64_t)ptxpack_dtype_bytes(d->dtype) * d->seqlen_kv * d->head_dim;
    int64_t heads = MOST_BYTES / head_bytes < HEADS ? MOST_BYTES / head_bytes : HEADS;
    heads = heads > LEAST_HEADS ? heads : LEAST_HEADS;
    heads = LEAST_BYTES / head_bytes > heads ? LEAST_BYTES / head_bytes : heads;
    heads = g->limited_right && !g->limited_left ? heads : 1;
    int64_t section = heads * (d->heads_q / d->heads_kv);
    tiles->section_heads = (int32_t)(section < tiles->heads_total ? section : tiles->heads_total);
    return PTXPACK_OK;
}

static const char *refusal(const plan_problem *problem, const ptxpack_variant *row, char line[PLAN_LINE])
{
    const ptxpack_attention_desc *desc = (const ptxpack_attention_desc *)problem->desc;
    const attention_geometry     *geometry = (const attention_geometry *)problem->geometry;
    const char                   *missing = ptxpack_tensor_map_refusal(problem->handle);
    attention_tiles               tiles;
    ptxpack_tma_box               box = {.status = PTXPACK_OK};
    if (attention_refuse_lengths(geometry, line) != NULL)
        return line;
    if (missing != NULL) {
        snprintf(line, PLAN_LINE, "%s", missing);
        return line;
    }
    for (int i = 0; i < TENSOR_COUNT; i++)
        if (ptxpack_attention_wgmma_map(desc, geometry, i, &box) != PTXPACK_OK) {
            snprintf(line, PLAN_LINE, "%s", ptxpack_detail(NULL));
            return line;
        }
    return count_tiles(desc, geometry, ptxpack_variant_parameter(row, "BLOCK_M", 0), &tiles, line) == PTXPACK_OK
               ? NULL
               : line;
}

static void fill_numbers(attention_wgmma_arguments *a, const ptxpack_attention_desc *d,
                         const attention_geometry *g, const attention_tiles *tiles)
{
    const double log2_e = 1.4426950408889634;
    a->seqlen_q = d->seqlen_q;
    a->seqlen_kv = d->seqlen_kv;
    a->heads_q = d->heads_q;
    a->heads_per_kv = d->heads_q / d->heads_kv;
    a->left_offset = g->limited_left ? g->left_offset : 0;
    a->right_offset = g->limited_right ? g->right_offset : 0;
    a->tiles_q = tiles->tiles_q;
    a->tiles_total = tiles->tiles_total;
    a->heads_total = tiles->heads_total;
    a->section_heads = tiles->section_heads;
    a->scale_log2 = (float)((g->softcap > 0 ? g->softcap : g->scale) * log2_e);
    a->softcap_in = g->softcap > 0 ? g->scale / g->softcap : 0;
}

/* As many blocks as the GPU holds: each of them takes one tile after another from a counter in the
 * workspace. */
static uint32_t grid_of(int sm_count, const ptxpack_variant *row, int32_t tiles)
{
    int64_t held = (int64_t)sm_count * row->blocks_per_sm;
    return (uint32_t)(held > 0 && held < tiles ? held : tiles);
}

static ptxpack_status fill(const plan_problem *problem, const ptxpack_variant *row, const void *layout,
                           plan_head *head)
{
    enum { COUNTERS = 16 };
    const attention_wgmma_layout *l = (const attention_wgmma_layout *)layout;
    const ptxpack_attention_desc *desc = (const ptxpack_attention_desc *)problem->desc;
    ptxpack_attention_plan       *plan = (ptxpack_attention_plan *)head;
    char                          line[PLAN_LINE];
    attention_tiles               tiles;
    ptxpack_status                status = count_tiles(desc, &plan->geometry, l->block_m, &tiles, line);
    if (status != PTXPACK_OK)
        return ptxpack_fail(problem->handle, status, "%s", line);
    if (ptxpack_driver_table(problem->handle) != NULL) /* offline nothing is launched: loading will report it */
        status = encode_maps(problem, l, &plan->arguments.wgmma);
    fill_numbers(&plan->arguments.wgmma, desc, &plan->geometry, &tiles);
    head->workspace = head->counters = COUNTERS + sizeof(int32_t) * (uint64_t)tiles.tiles_total;
    head->grid[0] = grid_of(problem->sm_count, row, tiles.tiles_total);
    return status;
}

/* ---- the launch --------------------------------------------------------------------------------------- */
static ptxpack_status address(const plan_head *head, const void *buffers, void *arguments, uint32_t grid[3])
{
    const ptxpack_attention_buffers *b = (const ptxpack_attention_buffers *)buffers;
    attention_wgmma_arguments       *a = (attention_wgmma_arguments *)arguments;
    argument_tensor_map *const       maps[TENSOR_COUNT] = {&a->map_q, &a->map_k, &a->map_v, &a->map_o};
    const uint64_t                   addresses[TENSOR_COUNT] = {b->q, b->k, b->v, b->o};
    ptxpack_status                   status = PTXPACK_OK;
    (void)grid;
    a->lse = b->lse;
    a->workspace = b->workspace;
    if (((const ptxpack_attention_plan *)head)->geometry.descale_bytes != 0) {
        a->q_descale = b->q_descale;
        a->k_descale = b->k_descale;
        a->v_descale = b->v_descale;
    }
    for (int i = 0; i < TENSOR_COUNT && status == PTXPACK_OK; i++)
        status = ptxpack_tensor_map_replace(head->handle, attention_tensor_names[i], addresses[i], maps[i]);
    return status;
}

static ptxpack_status derive(const ptxpack_variant *row, void *layout)
{
    return ptxpack_attention_wgmma_layout(row, (attention_wgmma_layout *)layout);
}

/* full, causal, left, window; full softcap, window softcap: the others with a softcap lie between these. */
static const uint8_t        corners[] = {0, 4, 12, 8, 1, 9};
static const argument_field fields[] = ARGUMENT_FIELDS(ATTENTION_WGMMA_ARGUMENTS, attention_wgmma_arguments);
const plan_method           attention_wgmma = {
              .file = "attention/wgmma.ptx",
              .fields = fields,
              .field_count = sizeof fields / sizeof fields[0],
              .argument_bytes = sizeof(attention_wgmma_arguments),
              .layout_bytes = sizeof(attention_wgmma_layout),
              .derive = derive,
              .refusal = refusal,
              .cost = attention_row_cost,
              .symbols = symbols,
              .fill = fill,
              .address = address,
              .corners = corners,
              .corner_count = sizeof corners,
};
