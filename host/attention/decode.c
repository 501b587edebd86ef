/* decode.c - the method of the rows of ptx/attention/decode.ptx: few query rows, many keys.
 *
 * The query heads that share a key head, and their query rows, are the rows of one tile, or of several, which then
 * follow each other: of two the second one finds the keys in the L2 cache.  The key blocks of all tiles
 * are one list, cut into ranges of equal length, one for each block of the grid.  Where each sequence has
 * lengths of its own, the kernel counts and cuts the list; here it is as long as the descriptor allows. */
#include <float.h>
#include <stdio.h>
#include <string.h>

#include "append/op.h"
#include "arrivals/arrivals.h"
#include "bias/bias.h"
#include "cost.h"
#include "host/plan/quotient.h"
#include "mma_layout.h"
#include "mma_symbols.h"
#include "op.h"

enum { ELEMENT = sizeof(uint16_t), STATE_FLOATS = 4 };
enum {
    LARGEST_TILE = 16, /* query rows; a key head may have several tiles of these */
    MOST_ROWS =
        64 /* of a key head: with more, reading its keys for each tile takes longer than other kernels */
};

/* ---- the list of key blocks ------------------------------------------------------------------------- */
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Ranges as short as `blocks` blocks of the grid allow; a little longer if they then end where tiles end, which
 * leaves nothing to merge, or split every tile alike.  Where a range is several whole tiles these are far apart
 * in the list, so that blocks which run at the same time read neighbouring heads.  With clusters, whose blocks have the
 * same part of different tiles, tiles that are split alike begin where ranges begin. */
static void cut(attention_ranges *s, int64_t blocks, int64_t cluster)
{
    enum { MOST_BLOCKS = 1 << 30 };
    int64_t total = s->tiles * s->tile_padded;
    s->order = s->apart = s->tile_ranges = 1;
    if (s->fixed) {
        s->range = divide_up(total / s->part, blocks) * s->part;
        s->grid = divide_up(total, s->range);
        return;
    }
    int64_t    shortest = divide_up(total, blocks);
    int64_t    even = s->tiles <= blocks ? divide_up(s->tile_blocks, blocks / s->tiles)
                                         : divide_up(s->tiles, blocks) * s->tile_blocks;
    const bool alike = 15 * even <= 16 * shortest;
    s->range = alike ? even : shortest;
    const int64_t ranges = divide_up(s->tile_blocks, s->range), padded = ranges * s->range;
    if (alike && cluster > 1 && ranges > 1 && s->tiles * padded < MOST_BLOCKS) {
        s->tile_ranges = ranges;
        s->tile_padded = padded;
        total = s->tiles * padded;
    }
    s->grid = divide_up(total, s->range);
    if (s->range % s->tile_blocks == 0 && s->tiles % (s->range / s->tile_blocks) == 0) {
        s->order = s->range / s->tile_blocks;
        s->apart = s->tiles / s->order;
    }
}

/* The tiles that the rows of a key head make, where a tile has `rows`: only the largest ones are several. */
static int64_t count_row_tiles(const ptxpack_attention_desc *d, int64_t rows)
{
    return rows < LARGEST_TILE ? 1 : divide_up((int64_t)(d->heads_q / d->heads_kv) * d->seqlen_q, rows);
}
static int64_t rows_of(const ptxpack_variant *row) { return ptxpack_variant_parameter(row, "ROWS", 0); }

/* The list, before it is cut: of a problem that was not checked yet the number of all blocks may be too large. */
static attention_ranges count_blocks(const ptxpack_attention_desc *d, const attention_geometry *g,
                                     const ptxpack_variant *row)
{
    int64_t          block_n = ptxpack_variant_parameter(row, "BLOCK_N", 16);
    attention_ranges s = {.group = d->heads_q / d->heads_kv, .row_tiles = count_row_tiles(d, rows_of(row))};
    s.tiles = (int64_t)d->batch * d->heads_kv * s.row_tiles;
    s.rows = s.group * d->seqlen_q;
    s.first_key = g->limited_left ? larger(attention_planned_key(g, g->left_offset), 0) : 0;
    s.end = g->limited_right ? smaller(d->seqlen_kv, (int64_t)g->right_offset + d->seqlen_q) : d->seqlen_kv;
    s.tile_blocks = larger(divide_up(s.end - s.first_key, block_n), 1);
    if (g->varlen && attention_split_rows(d) > 0) /* in pages a tile may begin with a part of a block */
        s.tile_blocks = divide_up(d->seqlen_kv, block_n) + 1;
    s.fixed = attention_split_rows(d) > 0;
    s.part = attention_split_rows(d) / block_n;
    s.tile_padded = s.fixed ? divide_up(s.tile_blocks, s.part) * s.part : s.tile_blocks;
    return s;
}

/* Blocks of a cluster: where a key head has several tiles of rows, those of sm_90 are pairs (PAIRED of ptx/attention/decode.ptx). */
static int64_t cluster_of(const attention_ranges *s, const ptxpack_variant *row)
{
    enum { PAIR = 2, CLUSTERS_FROM = 90 };
    return s->row_tiles > 1 && row->arch >= CLUSTERS_FROM ? PAIR : 1;
}

static attention_ranges plan_ranges(const ptxpack_attention_desc *d, const attention_geometry *g,
                                    const ptxpack_variant *row, int64_t sms)
{
    attention_ranges s = count_blocks(d, g, row);
    const int64_t    cluster = cluster_of(&s, row), slots = sms * row->blocks_per_sm;
    const int64_t    blocks = larger(slots - slots % cluster, cluster);
    cut(&s, blocks, cluster);
    s.grid = divide_up(s.grid, cluster) * cluster;
    if (g->varlen) { /* the kernel cuts the list into as many ranges */
        s.grid = blocks;
        s.tile_ranges = larger(blocks / s.tiles, 1);
    }
    s.parts = s.fixed ? s.tiles * s.tile_padded / s.part : s.grid;
    s.part = s.fixed ? s.part : s.range;
    return s;
}

attention_ranges attention_decode_ranges(const ptxpack_attention_desc *desc, const attention_geometry *geometry,
                                         const ptxpack_variant *row, const ptxpack_device_caps *caps,
                                         int sm_count)
{
    return plan_ranges(desc, geometry, row, attention_machine_of(caps, sm_count).sms);
}

static bool splits_tiles(const attention_ranges *s)
{
    return s->fixed ? s->tile_padded > s->part : s->range % s->tile_blocks != 0;
}

/* ---- cost ------------------------------------------------------------------------------------------- */
/* Clocks, from the times of 14 problems on an H200 (2026-11-23): until the first keys arrive; besides, where several blocks share an
 * SM; to merge the warps and write O of a range's last tile; to merge a tile's parts, and for each part. */
enum { START_CLOCKS = 8500, SEVERAL_CLOCKS = 1500, TILE_CLOCKS = 700, MERGE_CLOCKS = 800, PART_CLOCKS = 200 };
enum { MANY_KEYS = 16 /* for each query row */ };
/* Clocks for a tile of a range that is not the last one; the speed of two blocks that share an SM, and of more.  They hide each other's
 * merges, where each tile is merged once; with blocks of q8_0, whose two stages run empty where a tile ends, each hides all of
 * the other's waits (2026-11-30). */
typedef struct sharing {
    double tile, speed_of_two, speed_of_more;
} sharing;
static const sharing of_elements = {TILE_CLOCKS, 1.01, 1.01}, of_slots = {3000, 1.03, 1.01};
/* Blocks of q8_0 are as fast as they can be with so many threads an SM; the speed with fewer, a guess for four warps (two warps
 * of sm_80 had 0.46 on the H200). */
enum { FULL_SPEED_THREADS = 256 };
static const double speed_of_few = 0.8;
/* The time to read keys for another tile of rows, as a share of that from memory: of two tiles, and where both read them at the same
 * time (H200, 8 x 64/8 heads, 8192 keys, 4 rows: 64.5 us, one row 65.8; with 256 tiles of 8 rows 89.4); of more, each of which reads
 * them from memory again (the same with 5 rows: 191 us, wgmma.ptx 70; of keys that the L2 cache holds a guess). */
static const double cached = 0.65, cached_together = 0.05, not_cached = 1;

static double time_of_keys(const attention_ranges *s)
{
    const bool   together = s->range <= s->tile_blocks;
    const double share = s->row_tiles > 2 ? not_cached : together ? cached_together : cached;
    return share + (1 - share) / (double)s->row_tiles;
}

static double row_cost(const plan_problem *p, const ptxpack_variant *row)
{
    const ptxpack_attention_desc *d = (const ptxpack_attention_desc *)p->desc;
    attention_machine             m = attention_machine_of(&p->caps, p->sm_count);
    attention_ranges              s = plan_ranges(d, (const attention_geometry *)p->geometry, row, m.sms);
    /* with the row's HEAD_DIM, so that the smallest that fits is taken */
    double block = 2.0 * (double)ptxpack_variant_parameter(row, "BLOCK_N", 16) *
                   (double)attention_kv_span(d, ptxpack_variant_parameter(row, "HEAD_DIM", 64));
    if (s.fixed) /* the choice must not depend on the batch: the first row of the smallest HEAD_DIM */
        return block * (double)s.row_tiles;
    if (s.row_tiles > 1 && s.end - s.first_key < MANY_KEYS * s.rows)
        return DBL_MAX; /* not meant for these: the tiles of other kernels have work enough */
    double         resident = (double)smaller(divide_up(s.grid, m.sms), row->blocks_per_sm);
    const bool     slots = ptxpack_variant_parameter(row, "KV_SLOT", 0) != 0;
    const sharing *shared = slots ? &of_slots : &of_elements;
    const bool     alone = resident == 1 || (splits_tiles(&s) && !slots);
    double         speed = alone ? 1 : resident > 2 ? shared->speed_of_more : shared->speed_of_two;
    if (slots && (int)resident * row->threads < FULL_SPEED_THREADS)
        speed *= speed_of_few;
    double clocks = START_CLOCKS + (resident > 1 ? SEVERAL_CLOCKS : 0);
    clocks += (double)s.range * resident * block / (m.bytes * speed) * time_of_keys(&s);
    clocks += (TILE_CLOCKS + shared->tile * (double)(divide_up(s.range, s.tile_blocks) - 1)) / resident;
    if (splits_tiles(&s))
        clocks += MERGE_CLOCKS + PART_CLOCKS * (double)divide_up(s.tile_blocks, s.range);
    if (ptxpack_variant_parameter(row, "CP_ASYNC", 0) == 0) /* a guess: a warp waits for what it loads */
        clocks *= 1.3;
    return clocks / (1e3 * m.ghz);
}

/* ---- the plan --------------------------------------------------------------------------------------- */
static void symbols(const plan_problem *problem, const void *layout, symbol_list *list)
{
    const attention_mma_layout   *l = (const attention_mma_layout *)layout;
    const ptxpack_attention_desc *desc = (const ptxpack_attention_desc *)problem->desc;
    const attention_geometry     *g = (const attention_geometry *)problem->geometry;
    symbol_add(list, "BF16", desc->dtype == PTXPACK_BF16);
    symbol_add(list, "KV_E4M3", desc->kv_dtype == PTXPACK_E4M3);
    symbol_add(list, "KV_INT8", desc->kv_dtype == PTXPACK_INT8);
    symbol_add(list, "KV_Q8_0", desc->kv_dtype == PTXPACK_Q8_0);
    symbol_add(list, "ROW_TILES", count_row_tiles(desc, l->rows) > 1);
    symbol_add(list, "VARLEN", g->varlen);
    symbol_add(list, "PAGED", desc->kv_rows != PTXPACK_ROWS_PAGED ? 0 : desc->page_rows >= l->block_n ? 1 : 2);
    const bool limited = g->varlen || ((g->limited_left || g->limited_right) && desc->seqlen_q > 1);
    symbol_add(list, "LIMITED", limited);
    symbol_add(list, "CHUNK", limited && g->chunk > 0);
    symbol_add(list, "SOFTCAP", g->softcap > 0);
    symbol_add(list, "SINKS", attention_has_sinks(g));
    symbol_add(list, "UNNORMALIZED", g->unnormalized);
    symbol_add(list, "ALIBI", attention_has_alibi(g));
    symbol_add(list, "HOOK_SCORE", g->hook_parts[HOOK_SCORE]);
    symbol_add(list, "HOOK_MASK", g->hook_parts[HOOK_MASK]);
    attention_bias_symbols(desc, g->varlen, (desc->options & PTXPACK_LEFT_PAD) == 0 && !attention_masks_left(g),
                           list);
    symbol_add(list, "PADDED", desc->head_dim < l->head_dim || attention_value_dim(desc) < l->head_dim);
    symbol_add(list, "VALUES_DIFFER", attention_value_dim(desc) != desc->head_dim);
    symbol_add(list, "WARP_BYTES", l->shared_bytes);
    attention_mma_symbols(l, list);
}

static const char *refusal(const plan_problem *problem, const ptxpack_variant *row, char line[PLAN_LINE])
{
    const ptxpack_attention_desc *d = (const ptxpack_attention_desc *)problem->desc;
    const attention_geometry     *g = (const attention_geometry *)problem->geometry;
    int64_t                       rows = (int64_t)(d->heads_q / d->heads_kv) * d->seqlen_q,
            most = count_row_tiles(d, rows_of(row)) > 1 ? MOST_ROWS : rows_of(row);
    if (rows > most) {
        snprintf(line, PLAN_LINE,
                 "%lld query rows share a key head (seqlen_q %d times heads_q / heads_kv %d); it takes %d",
                 (long long)rows, (int)d->seqlen_q, (int)(d->heads_q / d->heads_kv), (int)most);
        return line;
    }
    if (attention_refuse_softcap(problem, row, line) != NULL || attention_refuse_chunk(d, g, line) != NULL ||
        attention_refuse_lists(g, row, line) != NULL || attention_refuse_arrivals(g, line) != NULL)
        return line;
    for (int i = TENSOR_K; i <= TENSOR_V; i++)
        if (g->tensor[i].row > INT32_MAX / ELEMENT) {
            snprintf(line, PLAN_LINE, "%s.row: stride %lld exceeds %d elements", attention_tensor_names[i],
                     (long long)g->tensor[i].row, INT32_MAX / ELEMENT);
            return line;
        }
    /* where the kernel cuts the list, it multiplies the number of blocks by 16 */
    int32_t          block_limit = g->varlen ? 1 << 27 : INT32_MAX / 2;
    int32_t          key_limit = (g->varlen ? ATTENTION_NO_LIMIT : INT32_MAX) - 4096;
    attention_ranges s = count_blocks(d, g, row);
    if (d->seqlen_kv > key_limit) {
        snprintf(line, PLAN_LINE, "takes up to %d keys; seqlen_kv is %d", (int)key_limit, (int)d->seqlen_kv);
        return line;
    }
    if (s.tiles > block_limit / s.tile_padded) {
        snprintf(line, PLAN_LINE, "seqlen_kv %d: the keys of %lld heads are more than %d blocks",
                 (int)d->seqlen_kv, (long long)s.tiles, (int)block_limit);
        return line;
    }
    return NULL;
}

static void fill_tensors(attention_decode_arguments *a, const ptxpack_attention_desc *d,
                         const attention_tensor *t)
{
    a->q_batch = t[TENSOR_Q].batch * ELEMENT;
    a->q_row = t[TENSOR_Q].row * ELEMENT;
    a->q_head = t[TENSOR_Q].head * ELEMENT;
    a->k_batch = attention_kv_span(d, t[TENSOR_K].batch);
    a->k_row = (int32_t)attention_kv_span(d, t[TENSOR_K].row);
    a->k_head = attention_kv_span(d, t[TENSOR_K].head);
    a->v_batch = attention_kv_span(d, t[TENSOR_V].batch);
    a->v_row = (int32_t)attention_kv_span(d, t[TENSOR_V].row);
    a->v_head = attention_kv_span(d, t[TENSOR_V].head);
    a->o_batch = t[TENSOR_O].batch * ELEMENT;
    a->o_row = t[TENSOR_O].row * ELEMENT;
    a->o_head = t[TENSOR_O].head * ELEMENT;
}

static void fill_inverses(attention_decode_arguments *a)
{
    quotient_inverse(a->tile_padded, &a->tile_padded_inverse, &a->tile_padded_shift);
    quotient_inverse(a->part, &a->part_inverse, &a->part_shift);
    quotient_inverse(a->order, &a->order_inverse, &a->order_shift);
    quotient_inverse(a->heads_kv, &a->heads_kv_inverse, &a->heads_kv_shift);
    quotient_inverse(a->row_tiles, &a->row_tiles_inverse, &a->row_tiles_shift);
}

static void fill_numbers(attention_decode_arguments *a, const ptxpack_attention_desc *d,
                         const attention_geometry *g, const attention_ranges *s)
{
    int32_t last = d->seqlen_q - 1;
    a->seqlen_q = d->seqlen_q;
    a->heads_kv = d->heads_kv;
    a->head_dim = d->head_dim;
    a->head_dim_v = attention_value_dim(d);
    a->rows = (int32_t)s->rows;
    a->group = (int32_t)s->group;
    a->group_inverse = (int32_t)divide_up(1 << 16, s->group);
    a->first_key = (int32_t)s->first_key;
    a->keys_end = (int32_t)s->end;
    a->left_offset = g->limited_left ? g->left_offset : -last; /* never binds */
    a->right_offset = g->limited_right ? g->right_offset : d->seqlen_kv;
    a->full_from = (int32_t)attention_first_key(g, a->left_offset + last);
    a->full_to = (int32_t)smaller(s->end, (int64_t)a->right_offset + 1);
    a->tile_blocks = (int32_t)s->tile_blocks;
    a->tile_padded = (int32_t)s->tile_padded;
    a->blocks = (int32_t)(s->tiles * s->tile_padded);
    a->part = (int32_t)s->part;
    a->fixed = s->fixed;
    a->range = (int32_t)s->range;
    a->order = (int32_t)s->order;
    a->tiles_apart = (int32_t)s->apart;
    a->row_tiles = (int32_t)s->row_tiles;
    fill_inverses(a);
    a->scale_log2 = attention_scale_log2(g);
    a->softcap_in = g->softcap > 0 ? g->scale / g->softcap : 0;
    a->alibi_in = attention_alibi_in(g);
    a->hook_scale = attention_score_scale(g);
    a->alibi_diagonal = d->seqlen_kv - d->seqlen_q;
    a->descale_batch = (int32_t)(attention_descale_batch(d) * (int64_t)sizeof(float));
    a->descale_head = (int32_t)(attention_descale_head(d) * (int64_t)sizeof(float));
}

static void fill_lengths(attention_decode_arguments *to, const ptxpack_attention_desc *d,
                         const attention_geometry *g, const attention_ranges *s)
{
    const attention_lengths_numbers from = attention_count_lengths(d, g);
    ATTENTION_LENGTHS(ARGUMENT_COPY, );
    to->lse_batch = attention_lse_batch(d);
    to->batch = d->batch;
    to->seqlen_kv = d->seqlen_kv;
    to->tile_ranges = (int32_t)s->tile_ranges;
    to->range_tiles = (int32_t)divide_up(s->tiles, s->grid);
    quotient_inverse(to->tile_ranges, &to->tile_ranges_inverse, &to->tile_ranges_shift);
    quotient_inverse(s->grid, &to->ranges_inverse, &to->ranges_shift);
}

static void fill_chunks(attention_decode_arguments *to, const attention_geometry *g)
{
    const attention_chunks_arguments from = attention_count_chunks(g);
    ATTENTION_CHUNKS(ARGUMENT_COPY, );
}

static void fill_bias(attention_decode_arguments *to, const ptxpack_attention_desc *d)
{
    const attention_bias_arguments from = attention_bias_numbers(d);
    ATTENTION_BIAS(ARGUMENT_COPY, );
}

/* Counters of the parts, in whole 16 bytes. */
static uint64_t counter_bytes(uint64_t grid) { return (sizeof(uint32_t) * grid + 15) / 16 * 16; }

static ptxpack_status fill(const plan_problem *problem, const ptxpack_variant *row, const void *layout,
                           plan_head *head)
{
    const ptxpack_attention_desc *d = (const ptxpack_attention_desc *)problem->desc;
    ptxpack_attention_plan       *plan = (ptxpack_attention_plan *)head;
    attention_machine             m = attention_machine_of(&problem->caps, problem->sm_count);
    attention_ranges              s = plan_ranges(d, &plan->geometry, row, m.sms);
    (void)layout;
    fill_tensors(&plan->arguments.decode, d, plan->geometry.tensor);
    fill_numbers(&plan->arguments.decode, d, &plan->geometry, &s);
    fill_lengths(&plan->arguments.decode, d, &plan->geometry, &s);
    fill_chunks(&plan->arguments.decode, &plan->geometry);
    fill_bias(&plan->arguments.decode, d);
    head->grid[0] = (uint32_t)s.grid;
    if (splits_tiles(&s) || plan->geometry.varlen) {
        uint64_t rows = (uint64_t)rows_of(row);
        uint64_t columns = (uint64_t)ptxpack_variant_parameter(row, "HEAD_DIM", 0) + STATE_FLOATS;
        head->counters = counter_bytes((uint64_t)s.parts);
        head->workspace = head->counters + 2 * (uint64_t)s.parts * rows * columns * sizeof(float);
    }
    return PTXPACK_OK;
}

static ptxpack_status address(const plan_head *plan, const void *buffers, void *arguments, uint32_t grid[3])
{
    attention_decode_arguments          *to = (attention_decode_arguments *)arguments;
    const ptxpack_attention_buffers     *b = (const ptxpack_attention_buffers *)buffers;
    const ptxpack_attention_append_plan *append = ((const ptxpack_attention_plan *)plan)->append;
    const attention_geometry            *g = &((const ptxpack_attention_plan *)plan)->geometry;
    const attention_addresses            from = attention_find_addresses(g, b);
    const int32_t                        appended = append != NULL ? append->arguments.seqlen_new : 0;
    (void)grid;
    ATTENTION_ARRAYS(ARGUMENT_COPY, );
    to->q = b->q;
    to->k = b->k;
    to->v = b->v;
    to->o = b->o;
    to->lse = b->lse;
    to->sinks = attention_array(g, b, ARRAY_SINKS);
    to->slopes = attention_array(g, b, ARRAY_SLOPES);
    memcpy(&to->aux, b->aux, sizeof to->aux);
    to->k_descale = g->descale_bytes != 0 ? b->k_descale : 0;
    to->v_descale = g->descale_bytes != 0 ? b->v_descale : 0;
    to->bias = attention_array(g, b, ARRAY_BIAS);
    to->bits = attention_array(g, b, ARRAY_BITS);
    to->workspace = b->workspace;
    to->parts = b->workspace + plan->counters;
    to->early = (b->launch & PTXPACK_LAUNCH_CONSTANT_KV) != 0 ? 1 + appended : 0;
    return PTXPACK_OK;
}

static ptxpack_status derive(const ptxpack_variant *row, void *layout)
{
    return ptxpack_attention_decode_layout(row, (attention_mma_layout *)layout);
}

/* full, causal, the same padded; causal softcap, the same padded; causal sinks, small pages sinks padded; causal ALiBi,
 * lengths ALiBi; chunks, small pages chunks padded; pages, small pages softcap padded; several tiles of rows: causal softcap padded, small pages
 * softcap padded: the other builds lie between these. */
static const uint16_t corners[] = {0, 4, 2, 6, 5, 7, 178, 189, 266, 272, 440, 453, 20, 27, 95, 115};
enum { CORNERS = sizeof corners / sizeof corners[0], ONE_TILE = CORNERS - 2 };
static size_t corners_of(const ptxpack_variant *row)
{
    if (attention_row_kv(row) != ATTENTION_KV_HALVES)
        return ATTENTION_BYTES_CORNERS;
    return rows_of(row) < LARGEST_TILE ? ONE_TILE : CORNERS;
}

static const argument_field fields[] = ARGUMENT_FIELDS(ATTENTION_DECODE_ARGUMENTS, attention_decode_arguments);
const plan_method           attention_decode = {
              .file = "attention/decode.ptx",
              PLAN_ARGUMENTS(fields, attention_decode_arguments),
              .layout_bytes = sizeof(attention_mma_layout),
              .derive = derive,
              .refusal = refusal,
              .cost = row_cost,
              .symbols = symbols,
              .fill = fill,
              .address = address,
              .corners = corners,
              .corner_count = CORNERS,
              .corners_of = corners_of,
};
