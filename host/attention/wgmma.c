/* wgmma.c - the method of the rows of ptx/attention/wgmma.ptx. */
#include <stdio.h>
#include <string.h>

#include "arrivals/arrivals.h"
#include "bias/bias.h"
#include "cost.h"
#include "host/plan/tensor_map.h"
#include "op.h"
#include "wgmma_symbols.h"

/* ---- symbols ------------------------------------------------------------------------------------------ */
static attention_split split_of(const plan_problem *problem, const attention_wgmma_layout *layout)
{
    return attention_split_keys(layout->row, (const ptxpack_attention_desc *)problem->desc,
                                (const attention_geometry *)problem->geometry, &problem->caps,
                                problem->sm_count);
}

/* Whether no query sees a key behind its own position, from which ALiBi's distances are. */
static bool alibi_is_past(const ptxpack_attention_desc *d, const attention_geometry *g)
{
    if (!attention_has_alibi(g) || attention_has_hooks(g) ||
        attention_has_bias(g)) /* these may want whole scores */
        return false;
    return g->varlen ? g->bottom_right && g->reach_right == 0
                     : g->limited_right && g->right_offset <= d->seqlen_kv - d->seqlen_q;
}

/* Whether sums of products may begin with the bias over the scale: a score is only their sum, and with this scale the quotient of a bias up to
 * 1e32 is finite. */
static bool bias_is_first(const attention_geometry *g)
{
    const float least_scale = 1e-6F;
    return attention_has_bias(g) && g->softcap == 0 && g->hook_parts[HOOK_SCORE] == 0 &&
           g->scale >= least_scale;
}

static void symbols(const plan_problem *problem, const void *layout, symbol_list *list)
{
    const attention_geometry *g = (const attention_geometry *)problem->geometry;
    ptxpack_dtype             dtype = ((const ptxpack_attention_desc *)problem->desc)->dtype;
    symbol_add(list, "BF16", dtype != PTXPACK_F16); /* of O, and of 16-bit inputs */
    symbol_add(list, "VARLEN", g->varlen);
    symbol_add(list, "PAGED", ((const ptxpack_attention_desc *)problem->desc)->kv_rows == PTXPACK_ROWS_PAGED);
    symbol_add(list, "LIMITED_LEFT", attention_masks_left(g));
    symbol_add(list, "LIMITED_RIGHT", attention_masks_right(g));
    symbol_add(list, "CHUNK", g->chunk > 0);
    symbol_add(list, "SOFTCAP", g->softcap > 0);
    symbol_add(list, "SINKS", attention_has_sinks(g));
    symbol_add(list, "UNNORMALIZED", g->unnormalized);
    symbol_add(list, "ALIBI", attention_has_alibi(g));
    symbol_add(list, "HOOK_SCORE", g->hook_parts[HOOK_SCORE]);
    symbol_add(list, "HOOK_MASK", g->hook_parts[HOOK_MASK]);
    attention_bias_symbols((const ptxpack_attention_desc *)problem->desc, g->varlen,
                           (((const ptxpack_attention_desc *)problem->desc)->options & PTXPACK_LEFT_PAD) == 0,
                           list);
    symbol_add(list, "BIAS_FIRST", bias_is_first(g));
    symbol_add(list, "LISTS", attention_has_lists(g));
    symbol_add(list, "ARRIVALS", attention_has_arrivals(g));
    symbol_add(list, "ALIBI_PAST", alibi_is_past((const ptxpack_attention_desc *)problem->desc, g));
    const attention_wgmma_layout *l = (const attention_wgmma_layout *)layout;
    const attention_split         split = split_of(problem, l);
    symbol_add(list, "SPLIT", split.used);
    symbol_add(list, "PACKED_HEADS", split.group > 1);
    symbol_add(list, "WIDE_BOXES",
               attention_wgmma_has_wide_boxes((const ptxpack_attention_desc *)problem->desc, g, l->row));
    attention_wgmma_symbols((const attention_wgmma_layout *)layout, list);
}

/* ---- tensor maps -------------------------------------------------------------------------------------- */
static ptxpack_status encode_maps(const plan_problem *problem, const attention_wgmma_layout *layout,
                                  int32_t group, attention_wgmma_arguments *a)
{
    argument_tensor_map *const    maps[TENSOR_COUNT] = {&a->map_q, &a->map_k, &a->map_v, &a->map_o};
    const ptxpack_tma_box *const  boxes[TENSOR_COUNT] = {&layout->q_box, &layout->k_box, &layout->v_box,
                                                         &layout->o_box};
    const ptxpack_attention_desc *desc = (const ptxpack_attention_desc *)problem->desc;
    const attention_geometry     *geometry = (const attention_geometry *)problem->geometry;
    const bool                    wide = attention_wgmma_has_wide_boxes(desc, geometry, layout->row);
    ptxpack_status                status = PTXPACK_OK;
    for (int i = 0; i < TENSOR_COUNT && status == PTXPACK_OK; i++) {
        ptxpack_tma_box box = *boxes[i];
        status = ptxpack_attention_wgmma_map(desc, geometry, i, &box);
        if (status != PTXPACK_OK)
            return ptxpack_fail(problem->handle, status, "%s", ptxpack_detail(NULL));
        if (group > 1 && (i == TENSOR_Q || i == TENSOR_O))
            attention_wgmma_pack_box(&box, group);
        if (wide && (i == TENSOR_K || i == TENSOR_V))
            attention_wgmma_widen_box(&box, layout, attention_columns(desc, i), desc->heads_kv,
                                      attention_wgmma_head_chunks(desc, geometry));
        status = ptxpack_tensor_map_encode(problem->handle, attention_tensor_names[i], &box, maps[i]);
    }
    return status;
}

/* Of the same boxes as those of k and v. */
static ptxpack_status encode_own_maps(const plan_problem *problem, const attention_wgmma_layout *layout,
                                      attention_wgmma_arguments *a)
{
    ptxpack_attention_desc desc;
    attention_geometry     geometry;
    ptxpack_tma_box        k = layout->k_box, v = layout->v_box;
    attention_own_keys((const ptxpack_attention_desc *)problem->desc,
                       (const attention_geometry *)problem->geometry, &desc, &geometry);
    ptxpack_status status = ptxpack_attention_wgmma_map(&desc, &geometry, TENSOR_K, &k);
    if (status == PTXPACK_OK)
        status = ptxpack_attention_wgmma_map(&desc, &geometry, TENSOR_V, &v);
    if (status != PTXPACK_OK)
        return ptxpack_fail(problem->handle, status, "%s", ptxpack_detail(NULL));
    status = ptxpack_tensor_map_encode(problem->handle, "k_own", &k, &a->map_own_k);
    return status == PTXPACK_OK ? ptxpack_tensor_map_encode(problem->handle, "v_own", &v, &a->map_own_v)
                                : status;
}

/* ---- the plan ----------------------------------------------------------------------------------------- */
/* The tiles are those of every kernel, in another order.  Without a limit on the right, one head comes after
 * another, so that blocks which run at the same time read the same keys.  With a limit on the right and none
 * on the left, or with chunks, tiles differ in length, and the longest tiles of several heads come first (with lists of blocks,
 * which nobody here knows, in the same order; and several heads also where they have the same bias): of 16 heads; of fewer, but
 * at least 8, where 16 have more than 64 MB of keys and values; of more where these are below 16 MB.  (H200, causal, TFLOP/s of 1, 4, 8, 16, 64 heads: d 128, s 16384 769 814 809 793;
 * s 4096 680 699 721 728 636; d 256, s 16384 722 807 815.) */
static ptxpack_status count_tiles(const ptxpack_attention_desc *d, const attention_geometry *g, int64_t block_m,
                                  attention_tiles *tiles, char line[PLAN_LINE])
{
    enum { LEAST_BYTES = 16 << 20, MOST_BYTES = 64 << 20, LEAST_HEADS = 8, HEADS = 16, TILE_LIMIT = 1 << 30 };
    ptxpack_attention_desc tiled = *d;
    const int64_t          rows = (int64_t)d->seqlen_q + attention_early_shift(g, block_m);
    tiled.seqlen_q = rows < INT32_MAX ? (int32_t)rows : INT32_MAX;
    ptxpack_status status = attention_count_tiles(&tiled, g, block_m, tiles, line);
    if (status != PTXPACK_OK)
        return status;
    if (tiles->tiles_total >= TILE_LIMIT) /* the kernel keeps two flags in the word of a tile's number */
        return plan_refuse(line, PTXPACK_E_UNSUPPORTED, "%d tiles of %d rows exceed %d",
                           (int)tiles->tiles_total, (int)block_m, TILE_LIMIT - 1);
    const int64_t keys = g->chunk > 0 && g->chunk < d->seqlen_kv ? g->chunk : d->seqlen_kv;
    int64_t head_bytes = (int64_t)ptxpack_dtype_bytes(d->dtype) * keys * (d->head_dim + attention_value_dim(d));
    int64_t heads = MOST_BYTES / head_bytes < HEADS ? MOST_BYTES / head_bytes : HEADS;
    heads = heads > LEAST_HEADS ? heads : LEAST_HEADS;
    heads = LEAST_BYTES / head_bytes > heads ? LEAST_BYTES / head_bytes : heads;
    const bool uneven = attention_masks_right(g) && (!attention_masks_left(g) || g->chunk > 0);
    heads = attention_has_lists(g) || attention_shares_bias(d) || uneven ? heads : 1;
    int64_t section = heads * (d->heads_q / d->heads_kv), most = g->varlen ? d->heads_q : tiles->heads_total;
    tiles->section_heads = (int32_t)(section < most ? section : most);
    tiles->tiles_total = (int32_t)attention_most_tiles(&tiled, block_m);
    return PTXPACK_OK;
}

/* Lengths in memory: of 16-bit types; of pages whole boxes, whose first row is a key. */
static const char *refuse_lengths(const ptxpack_attention_desc *d, const attention_geometry *g,
                                  const ptxpack_variant *row, char line[PLAN_LINE])
{
    enum { LEAST_PAGE = 8 }; /* rows of the swizzle's pattern */
    if (ptxpack_variant_parameter(row, "FP8", 0) != 0)
        return attention_refuse_lengths(g, line);
    if (d->kv_rows != PTXPACK_ROWS_PAGED ||
        (d->page_rows >= LEAST_PAGE && (d->options & PTXPACK_LEFT_PAD) == 0))
        return attention_refuse_reach(d, g, line);
    plan_refuse(line, PTXPACK_E_UNSUPPORTED, "takes pages of %d rows or more, without a pad on the left",
                LEAST_PAGE);
    return line;
}

/* A kernel that has V in K's tiles takes nothing else. */
static const char *refuse_values(const attention_geometry *g, const ptxpack_variant *row, char line[PLAN_LINE])
{
    if (g->values_in_keys || ptxpack_variant_parameter(row, "VALUES_IN_KEYS", 0) == 0)
        return NULL;
    plan_refuse(line, PTXPACK_E_UNSUPPORTED, "takes PTXPACK_VALUES_IN_KEYS alone");
    return line;
}

/* The scale of fp8's scores is known on the device alone. */
static const char *refuse_scores(const attention_geometry *g, const ptxpack_variant *row, char line[PLAN_LINE])
{
    const bool takes_none = attention_has_alibi(g) || attention_has_hooks(g) || attention_has_bias(g) ||
                            attention_has_bits(g) || g->unnormalized;
    if (!takes_none || ptxpack_variant_parameter(row, "FP8", 0) == 0)
        return NULL;
    plan_refuse(line, PTXPACK_E_UNSUPPORTED, "does not take %s with fp8",
                attention_has_alibi(g)           ? "PTXPACK_ALIBI"
                : attention_has_bias(g)          ? "PTXPACK_BIAS"
                : attention_has_bits(g)          ? "PTXPACK_MASK_BITS"
                : g->hook_parts[HOOK_SCORE] != 0 ? attention_hook_names[HOOK_SCORE]
                : g->hook_parts[HOOK_MASK] != 0  ? attention_hook_names[HOOK_MASK]
                                                 : "PTXPACK_UNNORMALIZED");
    return line;
}

static const char *refusal(const plan_problem *problem, const ptxpack_variant *row, char line[PLAN_LINE])
{
    const ptxpack_attention_desc *desc = (const ptxpack_attention_desc *)problem->desc;
    const attention_geometry     *geometry = (const attention_geometry *)problem->geometry;
    const char                   *missing = ptxpack_tensor_map_refusal(problem->handle);
    attention_tiles               tiles;
    const uint32_t                block_n = (uint32_t)ptxpack_variant_parameter(row, "BLOCK_N", 0);
    ptxpack_tma_box               box = {.status = PTXPACK_OK};
    if (attention_refuse_split(desc, line) != NULL || refuse_lengths(desc, geometry, row, line) != NULL ||
        refuse_values(geometry, row, line) != NULL || refuse_scores(geometry, row, line) != NULL ||
        attention_refuse_chunk(desc, geometry, line) != NULL ||
        attention_refuse_lists(geometry, row, line) != NULL ||
        attention_refuse_pieces(desc, geometry, row, line) != NULL)
        return line;
    if (missing != NULL) {
        snprintf(line, PLAN_LINE, "%s", missing);
        return line;
    }
    for (int i = 0; i < TENSOR_COUNT; i++) {
        box.box_dim[1] = block_n;
        if (ptxpack_attention_wgmma_map(desc, geometry, i, &box) != PTXPACK_OK) {
            snprintf(line, PLAN_LINE, "%s", ptxpack_detail(NULL));
            return line;
        }
    }
    return count_tiles(desc, geometry, ptxpack_variant_parameter(row, "BLOCK_M", 0), &tiles, line) == PTXPACK_OK
               ? NULL
               : line;
}

static void fill_numbers(attention_wgmma_arguments *a, const ptxpack_attention_desc *d,
                         const attention_geometry *g, const attention_tiles *tiles)
{
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
    a->scale_log2 = attention_scale_log2(g);
    a->softcap_in = g->softcap > 0 ? g->scale / g->softcap : 0;
    a->alibi_in = attention_alibi_in(g);
    a->hook_scale = attention_score_scale(g);
    a->alibi_diagonal = d->seqlen_kv - d->seqlen_q;
    a->head_chunks = attention_wgmma_head_chunks(d, g);
    a->arrival_rows = g->arrival_rows;
    a->early_rows = g->early_rows;
    a->early_keys = g->early_keys;
    attention_find_turn(d, g, &a->turn_first, &a->turn_end);
}

static void fill_lengths(attention_wgmma_arguments *to, const ptxpack_attention_desc *d,
                         const attention_geometry *g)
{
    const attention_lengths_numbers from = attention_count_lengths(d, g);
    const attention_tensor         *t = g->tensor;
    ATTENTION_LENGTHS(ARGUMENT_COPY, );
    if (!g->varlen)
        return;
    to->lse_batch = attention_lse_batch(d);
    to->batch = d->batch;
    to->q_apart = attention_wgmma_rows_apart(d, &t[TENSOR_Q]);
    to->k_apart = attention_wgmma_rows_apart(d, &t[TENSOR_K]);
    to->v_apart = attention_wgmma_rows_apart(d, &t[TENSOR_V]);
    to->o_apart = attention_wgmma_rows_apart(d, &t[TENSOR_O]);
}

static void fill_chunks(attention_wgmma_arguments *to, const attention_geometry *g)
{
    const attention_chunks_arguments from = attention_count_chunks(g);
    ATTENTION_CHUNKS(ARGUMENT_COPY, );
}

static void fill_bias(attention_wgmma_arguments *to, const ptxpack_attention_desc *d)
{
    const attention_bias_arguments from = attention_bias_numbers(d);
    ATTENTION_BIAS(ARGUMENT_COPY, );
}

static void fill_lists(attention_wgmma_arguments *to, const attention_geometry *g, int64_t block_n)
{
    const attention_list_numbers from = attention_count_lists(g, block_n);
    ATTENTION_LIST_NUMBERS(ARGUMENT_COPY, );
}

static void find_lists(attention_wgmma_arguments *to, const attention_geometry *g,
                       const ptxpack_attention_buffers *b)
{
    const attention_list_addresses from = attention_find_lists(g, b);
    ATTENTION_LIST_ARRAYS(ARGUMENT_COPY, );
}

/* As many blocks as the GPU holds: each of them takes one tile after another from a counter in the
 * workspace. */
static uint32_t grid_of(int sm_count, const ptxpack_variant *row, int32_t tiles)
{
    int64_t held = (int64_t)sm_count * row->blocks_per_sm;
    return (uint32_t)(held > 0 && held < tiles ? held : tiles);
}

attention_wgmma_workspace attention_wgmma_workspace_of(const attention_wgmma_layout *l,
                                                       const attention_split *split, int64_t tiles)
{
    enum { UNIT = 16, LANES = 32, STATE_BYTES = 2 * UNIT /* of a lane */ };
    uint64_t warps = 4 * (uint64_t)l->warpgroups, items = (uint64_t)tiles * (uint64_t)split->most;
    uint64_t slot = LANES * ((uint64_t)l->o_dim / 8 * UNIT + STATE_BYTES);
    attention_wgmma_workspace w = {.counters = UNIT + sizeof(int32_t) * items};
    w.bytes = w.counters;
    if (split->most == 1)
        return w;
    w.tile_counters = (int32_t)((w.counters + UNIT - 1) / UNIT);
    w.slots = w.tile_counters + (int32_t)(sizeof(int32_t) * (uint64_t)tiles * warps / UNIT);
    w.counters = UNIT * (uint64_t)w.slots;
    w.bytes = w.counters + items * warps * slot;
    return w;
}

/* The items are the parts of the tiles.  With lengths each sequence has its own tiles, and a part need not be longer than
 * what makes it worth the sum: short sequences are cut, too. */
static void fill_parts(plan_head *head, const attention_wgmma_layout *l, const attention_split *split,
                       int32_t tiles, attention_wgmma_arguments *a)
{
    enum {
        LENGTHS_BLOCKS = 8
    }; /* the sum takes about as long as so many blocks of keys divided by their parts */
    const bool                varlen = ((const ptxpack_attention_plan *)head)->geometry.varlen;
    attention_wgmma_workspace w = attention_wgmma_workspace_of(l, split, tiles);
    head->workspace = w.bytes;
    head->counters = w.counters;
    a->parts_most = split->most;
    a->part_blocks = varlen && split->blocks > LENGTHS_BLOCKS ? LENGTHS_BLOCKS : split->blocks;
    a->tile_counters = w.tile_counters;
    a->slots = w.slots;
    a->tiles_total = tiles * split->most;
}

/* The problem as tiles with the rows of `group` heads number it: these are one head, of which a block has block_m / group
 * queries. */
static ptxpack_attention_desc packed_heads(const ptxpack_attention_desc *d, int32_t group)
{
    ptxpack_attention_desc packed = *d;
    packed.heads_q /= group;
    return packed;
}

static int32_t log2_of(int32_t power)
{
    int32_t shift = 0;
    while (power >> (shift + 1) != 0)
        shift++;
    return shift;
}

static ptxpack_status fill(const plan_problem *problem, const ptxpack_variant *row, const void *layout,
                           plan_head *head)
{
    const attention_wgmma_layout *l = (const attention_wgmma_layout *)layout;
    const ptxpack_attention_desc *desc = (const ptxpack_attention_desc *)problem->desc;
    ptxpack_attention_plan       *plan = (ptxpack_attention_plan *)head;
    char                          line[PLAN_LINE];
    attention_tiles               tiles;
    const attention_split         split = split_of(problem, l);
    const ptxpack_attention_desc  packed = packed_heads(desc, split.group);
    ptxpack_status status = count_tiles(&packed, &plan->geometry, l->block_m / split.group, &tiles, line);
    if (status != PTXPACK_OK)
        return ptxpack_fail(problem->handle, status, "%s", line);
    if (ptxpack_driver_table(problem->handle) != NULL) /* offline nothing is launched: loading will report it */
        status = encode_maps(problem, l, split.group, &plan->arguments.wgmma);
    if (ptxpack_driver_table(problem->handle) != NULL && status == PTXPACK_OK &&
        attention_has_arrivals(&plan->geometry))
        status = encode_own_maps(problem, l, &plan->arguments.wgmma);
    fill_numbers(&plan->arguments.wgmma, &packed, &plan->geometry, &tiles);
    plan->arguments.wgmma.group_shift = log2_of(split.group);
    plan->arguments.wgmma.early_shift = attention_early_shift(&plan->geometry, l->block_m);
    fill_lengths(&plan->arguments.wgmma, desc, &plan->geometry);
    fill_chunks(&plan->arguments.wgmma, &plan->geometry);
    fill_bias(&plan->arguments.wgmma, desc);
    fill_lists(&plan->arguments.wgmma, &plan->geometry, l->block_n);
    plan->arguments.wgmma.box_rows = attention_wgmma_box_rows(desc, l->block_n);
    fill_parts(head, l, &split, tiles.tiles_total, &plan->arguments.wgmma);
    head->grid[0] = grid_of(problem->sm_count, row, plan->arguments.wgmma.tiles_total);
    return status;
}

/* ---- the launch --------------------------------------------------------------------------------------- */
static ptxpack_status find_arrivals(const ptxpack_attention_plan *plan, const ptxpack_attention_buffers *b,
                                    attention_wgmma_arguments *to)
{
    const bool own = b->k_own != 0; /* otherwise no piece is there */
    to->arrivals = b->arrivals;
    ptxpack_status status = ptxpack_tensor_map_replace(plan->head.handle, "k_own", own ? b->k_own : b->k,
                                                       &to->map_own_k);
    return status == PTXPACK_OK
               ? ptxpack_tensor_map_replace(plan->head.handle, "v_own", own ? b->v_own : b->v, &to->map_own_v)
               : status;
}

static ptxpack_status address(const plan_head *head, const void *buffers, void *arguments, uint32_t grid[3])
{
    const ptxpack_attention_buffers *b = (const ptxpack_attention_buffers *)buffers;
    const ptxpack_attention_plan    *plan = (const ptxpack_attention_plan *)head;
    attention_wgmma_arguments       *to = (attention_wgmma_arguments *)arguments;
    const attention_addresses        from = attention_find_addresses(&plan->geometry, b);
    argument_tensor_map *const       maps[TENSOR_COUNT] = {&to->map_q, &to->map_k, &to->map_v, &to->map_o};
    const uint64_t                   addresses[TENSOR_COUNT] = {b->q, b->k, b->v, b->o};
    ptxpack_status                   status = PTXPACK_OK;
    (void)grid;
    to->lse = b->lse;
    to->sinks = attention_array(&plan->geometry, b, ARRAY_SINKS);
    to->slopes = attention_array(&plan->geometry, b, ARRAY_SLOPES);
    memcpy(&to->aux, b->aux, sizeof to->aux);
    to->bias = attention_array(&plan->geometry, b, ARRAY_BIAS);
    to->bits = attention_array(&plan->geometry, b, ARRAY_BITS);
    to->workspace = b->workspace;
    ATTENTION_ARRAYS(ARGUMENT_COPY, );
    find_lists(to, &plan->geometry, b);
    if (plan->geometry.descale_bytes != 0) {
        to->q_descale = b->q_descale;
        to->k_descale = b->k_descale;
        to->v_descale = b->v_descale;
    }
    for (int i = 0; i < TENSOR_COUNT && status == PTXPACK_OK; i++)
        status = ptxpack_tensor_map_replace(head->handle, attention_tensor_names[i], addresses[i], maps[i]);
    return status == PTXPACK_OK && attention_has_arrivals(&plan->geometry) ? find_arrivals(plan, b, to)
                                                                           : status;
}

static ptxpack_status derive(const ptxpack_variant *row, void *layout)
{
    return ptxpack_attention_wgmma_layout(row, (attention_wgmma_layout *)layout);
}

/* full, causal, left, window; full softcap, window softcap, causal sinks; lengths, lengths causal, lengths window
 * softcap, the same of pages; in parts full, causal, window softcap, lengths causal, lengths window softcap, the same of
 * pages; packed heads full, window softcap, lengths causal, pages window softcap, in parts causal, window softcap, lengths causal
 * and pages window softcap;
 * sinks with a window and lengths, in parts causal, packed heads with a window; ALiBi full, with a window;
 * of the past causal, with a window and lengths, in parts causal, packed heads with a window; chunks,
 * with pages, in parts, in parts with lengths, packed heads padded, packed heads with pages; keys that arrive; lists of
 * blocks with a window: the others lie between these. */
static const uint16_t corners[] = {0,   4,   12,  8,   1,   9,   178, 16,  28,  33,  20,  36,  41,  44,  48,
                                   53,  72,  77,  80,  85,  88,  97,  116, 129, 136, 141, 160, 173, 192, 200,
                                   224, 264, 268, 354, 368, 376, 400, 440, 450, 462, 470, 485, 494, 536, 532};
enum { EQUAL_LENGTHS = 7, WITH_LISTS = 1 /* the last one */, WITH_ARRIVALS = 1 /* before it */ }; /* corners */
static size_t corners_of(const ptxpack_variant *row)
{
    const size_t all = sizeof corners / sizeof corners[0];
    return ptxpack_variant_parameter(row, "FP8", 0) != 0 ? EQUAL_LENGTHS
           : attention_arrivals_missing(row) != NULL     ? all - WITH_LISTS - WITH_ARRIVALS
           : attention_lists_missing(row) != NULL        ? all - WITH_LISTS
                                                         : all;
}

static const argument_field fields[] = ARGUMENT_FIELDS(ATTENTION_WGMMA_ARGUMENTS, attention_wgmma_arguments);
const plan_method           attention_wgmma = {
              .file = "attention/wgmma.ptx",
              PLAN_ARGUMENTS(fields, attention_wgmma_arguments),
              .layout_bytes = sizeof(attention_wgmma_layout),
              .derive = derive,
              .refusal = refusal,
              .cost = attention_row_cost,
              .symbols = symbols,
              .fill = fill,
              .address = address,
              PLAN_CORNERS(corners),
              .corners_of = corners_of,
};
