/* cost.c - the time that a row of kernels.def would take for a problem. */
#include "cost.h"

#include <string.h>

/* ---- what was measured -------------------------------------------------------------------------------- */
/* For each kind of row: the operations per clock that all blocks of an SM together perform in long loops over
 * keys, and the further clocks of a tile (to start, to wait for the first keys, to write O).  Both numbers are
 * given again for a limit on the right without one on the left, because tiles then have different lengths and
 * share fewer keys in the L2 cache.  The rows of wgmma come from the TFLOP/s at 512 to 16384 keys on an H200,
 * 132 SMs at 1.755 GHz, 2026-11-22; those of mma.sync come from the same GPU, without a mask.  Rows that were
 * not measured have round numbers, which keep them behind the earlier rows of the table, if those run. */
typedef struct row_class {
    int arch, fp8, head_dim, block_m, block_n; /* of the row; 0: any, of fp8 no */
    int rate, overhead, limited_rate, limited_overhead;
} row_class;

static const row_class classes[] = {
    /* arch  8    D    M    N  rate  overhead, with a right limit */
    {90, 0, 64, 192, 0, 2914, 2400, 2814, 2500},  {90, 0, 64, 128, 0, 2374, 1600, 2396, 2400},
    {90, 0, 64, 64, 0, 2150, 3700, 2150, 3700},   {90, 0, 96, 128, 0, 3280, 3200, 3200, 3200},
    {90, 0, 128, 128, 0, 3518, 3700, 3430, 3700}, {90, 0, 128, 192, 0, 3630, 4000, 3540, 4000},
    {90, 0, 128, 64, 0, 2400, 3000, 2400, 3000},  {90, 0, 192, 128, 128, 3680, 4500, 3620, 5000},
    {90, 0, 192, 128, 0, 3370, 5000, 3370, 5000}, {90, 0, 512, 64, 0, 2550, 6000, 2550, 6000},
    {90, 0, 576, 64, 0, 3300, 9000, 3300, 9000},  {90, 0, 256, 128, 0, 3660, 6000, 3483, 8000},
    {90, 0, 256, 64, 0, 3226, 4500, 3226, 4500},  {90, 1, 64, 192, 0, 3004, 2500, 2900, 3500},
    {90, 1, 128, 128, 0, 4446, 3100, 4364, 4200}, {90, 1, 128, 192, 0, 4692, 4100, 4714, 4800},
    {90, 1, 256, 128, 0, 5468, 6700, 5300, 8000}, {80, 0, 32, 0, 0, 1100, 2500, 1100, 2500},
    {80, 0, 64, 0, 0, 1545, 2900, 1545, 2900},    {80, 0, 96, 0, 0, 1650, 4500, 1650, 4500},
    {80, 0, 128, 0, 48, 1790, 6600, 1790, 6600},  {80, 0, 128, 0, 32, 1500, 6600, 1500, 6600},
    {80, 0, 192, 128, 0, 1650, 7500, 1650, 7500}, {80, 0, 192, 64, 0, 800, 7500, 800, 7500},
    {80, 0, 256, 0, 0, 1545, 9200, 1545, 9200},   {75, 0, 0, 0, 0, 600, 6000, 600, 6000},
    {0, 0, 0, 0, 0, 1000, 5000, 1000, 5000},
};
enum { CLASSES = sizeof classes / sizeof classes[0] };

/* The factor of the rates on each architecture; of a well-known part of it the clock, the SMs, and the bytes that
 * memory gives to one of them in a clock. */
static const struct arch_row {
    int    arch;
    double ghz, scale;
    int    sms;
    double bytes;
} archs[] = {
    {75, 1.59, 0.35, 40, 5}, {80, 1.41, 0.75, 108, 12}, {86, 1.74, 0.4, 84, 6},  {87, 1.30, 0.4, 16, 9},
    {89, 2.49, 0.4, 142, 3}, {90, 1.755, 1, 132, 19.6}, {100, 1.85, 1, 148, 27}, {120, 2.41, 0.4, 170, 4},
};
enum { ARCHS = sizeof archs / sizeof archs[0] };

enum { LAUNCH_CLOCKS = 12000 }; /* with the time in which the first keys come from memory */
/* A tile's block at the left end of a window is masked, too: clocks for each of its keys.  (H200, d 128, s
 * 16384, window of 1024: 239 us with 128 x 128, 226 with 192 x 64.) */
enum { LEFT_MASK_CLOCKS = 12 };

static bool matches(int wanted, int64_t value) { return wanted == 0 || wanted == value; }

static const row_class *class_of(const ptxpack_variant *row)
{
    int i = 0;
    while (i < CLASSES - 1 && !(matches(classes[i].arch, row->arch) &&
                                classes[i].fp8 == ptxpack_variant_parameter(row, "FP8", 0) &&
                                matches(classes[i].head_dim, ptxpack_variant_parameter(row, "HEAD_DIM", 0)) &&
                                matches(classes[i].block_m, ptxpack_variant_parameter(row, "BLOCK_M", 0)) &&
                                matches(classes[i].block_n, ptxpack_variant_parameter(row, "BLOCK_N", 0))))
        i++;
    return &classes[i];
}

/* The last that is not above `arch`. */
static const struct arch_row *arch_of(int arch)
{
    const struct arch_row *found = &archs[0];
    for (int i = 0; i < ARCHS; i++)
        if (archs[i].arch <= arch)
            found = &archs[i];
    return found;
}

attention_machine attention_machine_of(const ptxpack_device_caps *caps, int sm_count)
{
    const struct arch_row *arch = arch_of(caps->arch);
    return (
        attention_machine){.sms = sm_count > 0 ? sm_count : arch->sms, .ghz = arch->ghz, .bytes = arch->bytes};
}

/* The columns of K and V that a row's kernel multiplies with, and that it loads. */
static int64_t columns_of(const ptxpack_variant *row)
{
    return ptxpack_variant_parameter(row, "HEAD_DIM", 64) + attention_row_values(row);
}
static int64_t loaded_columns(const ptxpack_variant *row)
{
    return ptxpack_variant_parameter(row, "VALUES_IN_KEYS", 0) != 0
               ? ptxpack_variant_parameter(row, "HEAD_DIM", 64)
               : columns_of(row);
}

/* ---- blocks that are visited -------------------------------------------------------------------------- */
static int64_t clamp(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }

/* The sum of (a i + b) / m, rounded down, over i in [0, n); nothing is negative. */
static int64_t floor_sum(int64_t n, int64_t m, int64_t a, int64_t b)
{
    int64_t sum = 0;
    while (n > 0) { /* the remainder is summed with the axes exchanged */
        sum += n * (n - 1) / 2 * (a / m) + n * (b / m);
        int64_t step = a % m, most = step * n + b % m;
        n = most / m;
        b = most % m;
        a = m;
        m = step;
    }
    return sum;
}

/* The sum over i in [0, n) of the blocks of m keys before key `first + step i`, which is clipped to [0,
 * keys].  A block that is begun counts as a whole one where round_up is m - 1. */
static int64_t sum_of_blocks(int64_t n, int64_t m, int64_t step, int64_t first, int64_t keys, int64_t round_up)
{
    int64_t from = clamp((step - 1 - first) / step, 0, n);         /* before it the key is below 0 */
    int64_t to = clamp((keys - first + step - 1) / step, from, n); /* from it on it is beyond the last */
    return floor_sum(to - from, m, step, first + step * from + round_up) + (n - to) * ((keys + m - 1) / m);
}

int64_t attention_planned_key(const attention_geometry *g, int64_t at)
{
    return g->chunk > 0 && g->varlen ? at + 1 - g->chunk : attention_first_key(g, at);
}

/* Of one tile, which sees keys [low, high). */
static int64_t blocks_of_tile(const ptxpack_attention_desc *d, const attention_geometry *g, int64_t block_m,
                              int64_t block_n, int64_t tile)
{
    int64_t keys = d->seqlen_kv, first = tile * block_m, end = clamp(first + block_m, 0, d->seqlen_q);
    int64_t low = g->limited_left ? clamp(attention_planned_key(g, first + g->left_offset), 0, keys) : 0;
    int64_t high = g->limited_right ? clamp(end + g->right_offset, 0, keys) : keys;
    int64_t blocks = (high + block_n - 1) / block_n - low / block_n;
    return high > low && blocks > 0 ? blocks : 0;
}

/* With chunks: of all tiles, or of evenly spaced ones where they are many; so far apart that they differ in chunks of 2^n. */
static attention_blocks count_chunked(const ptxpack_attention_desc *d, const attention_geometry *g,
                                      int64_t block_m, int64_t block_n)
{
    enum { MOST_TILES = 4096 };
    attention_blocks b = {.tiles = (d->seqlen_q + block_m - 1) / block_m, .shortest = INT64_MAX};
    const int64_t    step = (b.tiles / MOST_TILES) | 1;
    for (int64_t tile = 0; tile < b.tiles; tile += step) {
        int64_t blocks = blocks_of_tile(d, g, block_m, block_n, tile);
        b.total += blocks * (step < b.tiles - tile ? step : b.tiles - tile);
        b.longest = blocks > b.longest ? blocks : b.longest;
        b.shortest = blocks < b.shortest ? blocks : b.shortest;
    }
    return b;
}

attention_blocks attention_count_blocks(const ptxpack_attention_desc *d, const attention_geometry *g,
                                        int64_t block_m, int64_t block_n)
{
    if (g->chunk > 0)
        return count_chunked(d, g, block_m, block_n);
    int64_t          keys = d->seqlen_kv, whole = (keys + block_n - 1) / block_n;
    attention_blocks b = {.tiles = (d->seqlen_q + block_m - 1) / block_m};
    int64_t          before = b.tiles - 1; /* tiles before the last one, which may be short */
    int64_t          last = blocks_of_tile(d, g, block_m, block_n, before);
    int64_t          first = blocks_of_tile(d, g, block_m, block_n, 0);
    int64_t          middle = blocks_of_tile(d, g, block_m, block_n, before / 2);
    int64_t          high = g->limited_right
                                ? sum_of_blocks(before, block_n, block_m, block_m + g->right_offset, keys, block_n - 1)
                                : before * whole;
    int64_t low = g->limited_left ? sum_of_blocks(before, block_n, block_m, g->left_offset, keys, 0) : 0;
    b.total = high - low + last;
    b.longest = first > last ? first : last;
    b.longest = middle > b.longest ? middle : b.longest;
    b.shortest = first < last ? first : last;
    return b;
}

/* ---- the estimate ------------------------------------------------------------------------------------- */
/* Not fmax: the library does not need libm. */
static double larger(double a, double b) { return a > b ? a : b; }

/* The blocks of a row that share an SM, while there are tiles for them. */
static int64_t resident_blocks(const ptxpack_variant *row, int64_t tiles, int64_t sms)
{
    return clamp((tiles + sms - 1) / sms, 1, row->blocks_per_sm);
}

/* What the model knows of a problem on a row: clocks of a block of keys where `resident` blocks share an SM, and of what
 * a tile takes besides. */
typedef struct estimate {
    const ptxpack_variant        *row;
    const ptxpack_attention_desc *desc;
    const attention_geometry     *geometry;
    attention_blocks              blocks;
    int64_t                       m, n, heads, tiles, sms, slots;
    int64_t                       group, queries; /* query heads of a tile; its queries */
    bool                          uneven;         /* tiles differ in length */
    double                        block, overhead;
} estimate;

/* Clocks in which the producer of wgmma.ptx issues the loads of a block of keys in pages, a box for 64 columns of each; 0 of other
 * problems.  One thread issues all where there is one warp, otherwise one those of a tensor, or several that share its pages
 * (ptx/attention/wgmma/sharers.ptx).  What each page takes besides is a guess. */
static double issue_clocks(const ptxpack_variant *row, const ptxpack_attention_desc *d, int64_t keys)
{
    enum { BOX_CLOCKS = 119, PAGE_CLOCKS = 60, COLUMNS = 64, TENSORS = 2 };
    const int64_t tensors = ptxpack_variant_parameter(row, "VALUES_IN_KEYS", 0) != 0 ? 1 : TENSORS;
    if (d->kv_rows != PTXPACK_ROWS_PAGED || d->page_rows <= 0 || strcmp(row->file, "attention/wgmma.ptx") != 0)
        return 0;
    int64_t pages = d->page_rows < keys ? keys / d->page_rows : 1;
    int64_t boxes = (loaded_columns(row) + COLUMNS - 1) / COLUMNS; /* of all tensors */
    int64_t warps = ptxpack_variant_parameter(row, "PRODUCER_WARPS", 1);
    int64_t threads = warps > 1 ? tensors * clamp(pages, 1, warps / tensors) : 1;
    return (double)(pages * (boxes * BOX_CLOCKS + tensors * PAGE_CLOCKS)) / (double)threads;
}

static estimate open_estimate(const ptxpack_variant *row, const ptxpack_attention_desc *d,
                              const attention_geometry *g, const ptxpack_device_caps *caps, int sm_count,
                              int64_t group)
{
    const row_class       *kind = class_of(row);
    const struct arch_row *arch = arch_of(caps->arch != 0 ? caps->arch : row->arch); /* 0: a build is listed */
    estimate               e = {.row = row, .desc = d, .geometry = g, .group = group};
    e.m = ptxpack_variant_parameter(row, "BLOCK_M", 64);
    e.n = ptxpack_variant_parameter(row, "BLOCK_N", 64);
    e.queries = e.m / group;
    e.blocks = attention_count_blocks(d, g, e.queries, e.n);
    e.heads = (int64_t)d->batch * d->heads_q / group;
    e.tiles = e.heads * e.blocks.tiles;
    e.sms = sm_count > 0 ? sm_count : arch->sms;
    int64_t resident = resident_blocks(row, e.tiles, e.sms);
    e.slots = e.sms * resident;
    e.uneven = g->limited_right && (!g->limited_left || g->chunk > 0);
    int rate = e.uneven ? kind->limited_rate : kind->rate;
    e.overhead = e.uneven ? kind->limited_overhead : kind->overhead;
    e.overhead += g->limited_left ? LEFT_MASK_CLOCKS * (double)e.n : 0;
    e.block = 2.0 * (double)e.m * (double)e.n * (double)columns_of(row) * (double)resident /
              (rate * arch->scale);
    e.block = larger(e.block, issue_clocks(row, d, e.n));
    return e;
}

/* Of items that run on the slots, the longest first. */
static double clocks_of(const estimate *e, double items, double work, double longest, double shortest)
{
    double  slots = (double)e->slots;
    int64_t waves = ((int64_t)items + e->slots - 1) / e->slots;
    return larger(work / slots + ((double)waves - items / slots) * shortest, longest);
}

static double whole_clocks(const estimate *e)
{
    double work = (double)e->heads * (double)e->blocks.total * e->block + (double)e->tiles * e->overhead;
    return clocks_of(e, (double)e->tiles, work, (double)e->blocks.longest * e->block + e->overhead,
                     (double)e->blocks.shortest * e->block + e->overhead);
}

/* ---- parts of the keys -------------------------------------------------------------------------------- */
/* Clocks in which a part is counted, and in which the first numbers of a part to sum arrive; bytes of a part that a block
 * writes, or reads, in a clock.  Not measured. */
enum { PART_CLOCKS = 1500, SUM_CLOCKS = 1000, WRITE_BYTES = 32, READ_BYTES = 48 };
/* Bytes that the L2 cache gives to each SM in a clock where all read. */
static const double l2_bytes = 27;

enum { MOST_SLOTS = 1024 };

/* The slot that is free first takes an item.  `free_at` is a heap: no slot is free before the first one. */
static void take_item(double *free_at, int64_t slots, double clocks)
{
    double  until = free_at[0] + clocks;
    int64_t at = 0;
    for (int64_t next = 1; next < slots; next = 2 * at + 1) {
        next += next + 1 < slots && free_at[next + 1] < free_at[next];
        if (free_at[next] >= until)
            break;
        free_at[at] = free_at[next];
        at = next;
    }
    free_at[at] = until;
}

/* Until the last of few items is done, with parts of up to `blocks` blocks of keys.  Each slot takes the next item when it
 * is free, the last tile of every head first. */
static double item_clocks(const estimate *e, int64_t blocks)
{
    /* where warpgroups share rows, warps without a query merge nothing */
    enum { WARP_ROWS = 16 };
    bool    wide = ptxpack_variant_parameter(e->row, "COLUMN_GROUPS", 1) > 1;
    int64_t used = (clamp(e->desc->seqlen_q, 1, e->queries) * e->group + WARP_ROWS - 1) / WARP_ROWS * WARP_ROWS;
    double  bytes = (double)(wide ? used : e->m) * (double)attention_row_values(e->row) * sizeof(float);
    double  one = PART_CLOCKS + bytes / WRITE_BYTES, sum = SUM_CLOCKS + bytes / READ_BYTES;
    double  keys = 2.0 * (double)e->n * (double)loaded_columns(e->row) * (double)e->slots /
                  (double)e->sms; /* of a block on each slot */
    double  block = larger(e->block, keys / l2_bytes);
    double  free_at[MOST_SLOTS] = {0}, last = 0;
    int64_t most = 1;
    for (int64_t tile = e->blocks.tiles - 1; tile >= 0; tile--) {
        int64_t all = blocks_of_tile(e->desc, e->geometry, e->queries, e->n, tile);
        int64_t parts = clamp((all + blocks - 1) / blocks, 1, ATTENTION_PARTS_MOST);
        double  clocks = (double)((all + parts - 1) / parts) * block + e->overhead + (parts > 1 ? one : 0);
        for (int64_t i = 0; i < e->heads * parts; i++)
            take_item(free_at, e->slots, clocks);
        most = parts > most ? parts : most;
    }
    for (int64_t i = 0; i < e->slots; i++)
        last = larger(last, free_at[i]);
    return last + (most > 1 ? (double)most * sum : 0);
}

/* Whether a build of the row can split this problem. */
static bool splits(const estimate *e)
{
    enum { MOST_TILES = 1 << 20 };
    const attention_geometry *g = e->geometry;
    /* with more than that in registers ptxas would spill: of consumers (a softcap with f16 alone), or of a producer that has 32 */
    bool spills = (attention_row_values(e->row) / ptxpack_variant_parameter(e->row, "COLUMN_GROUPS", 1) ==
                       256 &&
                   (e->m == 64 ? g->softcap > 0 && e->desc->dtype == PTXPACK_F16 : attention_masks_left(g))) ||
                  (g->varlen && ptxpack_variant_parameter(e->row, "REGS_PRODUCER", 0) == 32) ||
                  (g->varlen && e->group > 1 && ptxpack_variant_parameter(e->row, "HEAD_DIM", 0) == 96 &&
                   attention_has_sinks(g));
    /* lists have whole tiles, as nobody knows their lengths here; and so have keys that arrive */
    bool whole = attention_has_lists(g) || attention_has_arrivals(g);
    return e->row->arch == 90 && strcmp(e->row->file, "attention/wgmma.ptx") == 0 && !spills && !whole &&
           ptxpack_variant_parameter(e->row, "FP8", 0) == 0 && e->tiles <= MOST_TILES;
}

static attention_split split_into(const estimate *e, int64_t parts)
{
    int64_t longest = e->blocks.longest > 0 ? e->blocks.longest : 1, blocks = (longest + parts - 1) / parts;
    return (attention_split){.used = true,
                             .most = (int32_t)((longest + blocks - 1) / blocks),
                             .blocks = (int32_t)blocks,
                             .group = (int32_t)e->group};
}

/* Several parts if that takes clearly less time: the model is rough.  With one part only the order matters: where a
 * causal mask makes few tiles of different lengths, a block of the grid should not take its next tile early. */
static attention_split choose_split(const estimate *e, double *clocks)
{
    enum { FEW = 6 /* tiles for each slot */, DECODE_ROWS = 16, DECODE_DIM = 256 /* which decode.ptx takes */ };
    static const double clearly = 0.92;
    int32_t             wanted = attention_parts_wanted(e->desc);
    int64_t             longest = clamp(e->blocks.longest, 1, INT32_MAX);
    attention_split     best = {.most = 1, .blocks = (int32_t)longest, .group = (int32_t)e->group};
    bool                few = e->tiles <= FEW * e->slots && e->slots <= MOST_SLOTS;
    *clocks = whole_clocks(e); /* with parts that are wanted, too: the row should be the same */
    best.used = splits(e) && wanted != 1 && (wanted != 0 || (few && e->uneven && e->tiles > e->slots));
    if (best.used && wanted > 1)
        return split_into(e, wanted == ATTENTION_ONE_PART    ? 1
                             : wanted < ATTENTION_PARTS_MOST ? wanted
                                                             : ATTENTION_PARTS_MOST);
    int64_t rows = (int64_t)e->desc->seqlen_q * (e->desc->heads_q / e->desc->heads_kv);
    if (!splits(e) || wanted != 0 || !few || (rows <= DECODE_ROWS && e->desc->head_dim <= DECODE_DIM))
        return best;
    if (best.used)
        *clocks = item_clocks(e, longest);
    double whole = *clocks;
    for (int64_t parts = 2;
         parts <= ATTENTION_PARTS_MOST && parts <= longest && e->tiles * parts <= FEW * e->slots; parts++) {
        attention_split split = split_into(e, parts);
        double          with = split.most == parts ? item_clocks(e, split.blocks) : whole;
        if (with < *clocks && with < clearly * whole) {
            best = split;
            *clocks = with;
        }
    }
    return best;
}

/* ---- the time ----------------------------------------------------------------------------------------- */
/* Clocks of tiles with the rows of `group` heads, and how they are cut. */
static double clocks_with(const ptxpack_variant *row, const ptxpack_attention_desc *desc,
                          const attention_geometry *geometry, const ptxpack_device_caps *caps, int sm_count,
                          int64_t group, attention_split *split)
{
    enum { HIDDEN = 8 /* of the operations that memory's time hides 1/8 is not hidden: a guess */ };
    estimate e = open_estimate(row, desc, geometry, caps, sm_count, group);
    double   clocks;
    *split = choose_split(&e, &clocks);
    double  keys = (double)desc->batch * desc->heads_kv * desc->seqlen_kv;
    int64_t columns = desc->head_dim + (geometry->values_in_keys ? 0 : attention_value_dim(desc));
    /* a limit where few rows share the keys: 263 us where decode.ptx takes 244 (H200, 16 x 32 heads, 4096 keys) */
    double memory = 1.08 * keys * (double)attention_kv_span(desc, columns) /
                    ((double)e.sms * arch_of(caps->arch)->bytes);
    memory *= (double)e.blocks.total /
              ((double)e.blocks.tiles * (double)((desc->seqlen_kv + e.n - 1) / e.n)); /* seen */
    /* few queries are bound by memory on every row: then the one with fewer operations is better */
    double work = group > 1 ? whole_clocks(&e) : 0;
    return LAUNCH_CLOCKS + larger(clocks, memory) + (work < memory ? work : memory) / HIDDEN;
}

/* The query heads that a build of the row can have in a tile, the largest power of two that divides those of a key head; 1: it
 * cannot have several. */
static int64_t group_of(const ptxpack_variant *row, const ptxpack_attention_desc *d)
{
    /* a warp's rows; with lengths in memory tiles of 192 rows would spill, and few queries do not fill them */
    enum {
        MOST_GROUP = 16,
        MOST_WIDE = 64 /* where warpgroups share rows */,
        MOST_TILE = 128,
        MOST_ROWS = 1 << 26
    };
    bool    wide = ptxpack_variant_parameter(row, "COLUMN_GROUPS", 1) > 1;
    int64_t heads = d->heads_q / d->heads_kv, group = clamp(heads & -heads, 1, wide ? MOST_WIDE : MOST_GROUP);
    bool    packs = row->arch == 90 && strcmp(row->file, "attention/wgmma.ptx") == 0 &&
                 ptxpack_variant_parameter(row, "FP8", 0) == 0 &&
                 ptxpack_variant_parameter(row, "BLOCK_M", 0) <= MOST_TILE && d->seqlen_q <= MOST_ROWS / group;
    return packs ? group : 1;
}

/* The rows of several heads in a tile, of few queries, if that takes clearly less time. */
static double choose(const ptxpack_variant *row, const ptxpack_attention_desc *d, const attention_geometry *g,
                     const ptxpack_device_caps *caps, int sm_count, attention_split *split)
{
    enum { MOST_QUERIES = 256 };
    static const double clearly = 0.92;
    attention_split     packed;
    int64_t             group = group_of(row, d);
    double              clocks = clocks_with(row, d, g, caps, sm_count, 1, split);
    bool                few = d->seqlen_q <= MOST_QUERIES && d->split_rows == 0;
    if (group == 1 || attention_has_lists(g) || attention_has_arrivals(g) || !(few || attention_pack_wanted(d)))
        return clocks;
    double with = clocks_with(row, d, g, caps, sm_count, group, &packed);
    if (with >= clearly * clocks && !attention_pack_wanted(d))
        return clocks;
    *split = packed;
    return attention_pack_wanted(d) ? clocks : with; /* the row should be the same where packing is wanted */
}

attention_split attention_split_keys(const ptxpack_variant *row, const ptxpack_attention_desc *desc,
                                     const attention_geometry *geometry, const ptxpack_device_caps *caps,
                                     int sm_count)
{
    attention_split split;
    choose(row, desc, geometry, caps, sm_count, &split);
    return split;
}

double attention_cost(const ptxpack_variant *row, const ptxpack_attention_desc *desc,
                      const attention_geometry *geometry, const ptxpack_device_caps *caps, int sm_count)
{
    attention_split split;
    return choose(row, desc, geometry, caps, sm_count, &split) / (1e3 * arch_of(caps->arch)->ghz);
}

double attention_row_cost(const plan_problem *p, const ptxpack_variant *row)
{
    return attention_cost(row, (const ptxpack_attention_desc *)p->desc, (const attention_geometry *)p->geometry,
                          &p->caps, p->sm_count);
}
