/* cost.c - the model that chooses among the rows of an op: the blocks that it counts are compared with a count
 * one by one, its choices are checked, and older architectures keep the first row that fits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "host/attention/inspect.h"
#include "loader/loader.h"
#include "tests/support/offline.h"

static ptxpack_attention_desc problem(int32_t batch, int32_t seqlen_q, int32_t seqlen_kv, int32_t heads,
                                      int32_t head_dim)
{
    return (ptxpack_attention_desc){.size = sizeof(ptxpack_attention_desc),
                                    .dtype = PTXPACK_F16,
                                    .batch = batch,
                                    .seqlen_q = seqlen_q,
                                    .seqlen_kv = seqlen_kv,
                                    .heads_q = heads,
                                    .heads_kv = heads,
                                    .head_dim = head_dim,
                                    .head_dim_v = head_dim > ATTENTION_MOST_VALUES ? ATTENTION_MOST_VALUES : 0,
                                    .split_rows = ATTENTION_PARTS + 1};
}

static attention_geometry resolve(const ptxpack_attention_desc *d)
{
    attention_geometry g;
    char               line[PLAN_LINE];
    if (ptxpack_attention_resolve(d, &g, line) != PTXPACK_OK)
        fail_msg("%s", line);
    return g;
}

/* ---- blocks -------------------------------------------------------------------------------------------- */
/* Counts blocks from the first one with a key that some row of the tile sees to the last one. */
static int64_t visited(const ptxpack_attention_desc *d, const attention_geometry *g, int64_t m, int64_t n,
                       int64_t tile)
{
    int64_t first = INT64_MAX, last = -1;
    for (int64_t i = tile * m; i < tile * m + m && i < d->seqlen_q; i++)
        for (int64_t j = 0; j < d->seqlen_kv; j++)
            if ((!g->limited_left || j >= attention_first_key(g, i + g->left_offset)) &&
                (!g->limited_right || j <= i + g->right_offset)) {
                first = j / n < first ? j / n : first;
                last = j / n > last ? j / n : last;
            }
    return last < 0 ? 0 : last - first + 1;
}

static void compare_blocks(const ptxpack_attention_desc *d, int64_t m, int64_t n)
{
    attention_geometry g = resolve(d);
    attention_blocks   b = attention_count_blocks(d, &g, m, n);
    int64_t            total = 0, tiles = (d->seqlen_q + m - 1) / m;
    for (int64_t t = 0; t < tiles; t++) {
        int64_t one = visited(d, &g, m, n, t);
        total += one;
        assert_true(b.longest >= one || g.limited_left); /* for windows the middle tile represents all */
    }
    assert_int_equal(b.tiles, tiles);
    if (b.total != total)
        fail_msg("%d x %d, mask %d, window %d %d, tiles %d x %d: %lld blocks, not %lld", (int)d->seqlen_q,
                 (int)d->seqlen_kv, (int)d->mask, (int)d->window_left, (int)d->window_right, (int)m, (int)n,
                 (long long)b.total, (long long)total);
}

static void blocks_are_counted(void **state)
{
    static const int32_t lengths[][2] = {{1, 1}, {100, 300}, {300, 100}, {257, 257}, {64, 513}, {513, 64}};
    static const int32_t windows[][2] = {{-1, 0}, {-1, 40}, {20, -1}, {30, 0}, {0, 0}, {100, 50}, {200, 7}};
    (void)state;
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++)
        for (int mask = PTXPACK_MASK_NONE; mask <= PTXPACK_MASK_WINDOW_BOTTOM_RIGHT; mask++)
            for (size_t w = 0;
                 w < (mask >= PTXPACK_MASK_WINDOW_TOP_LEFT ? sizeof windows / sizeof windows[0] : 1); w++) {
                ptxpack_attention_desc d = problem(1, lengths[l][0], lengths[l][1], 1, 64);
                d.mask = (ptxpack_mask)mask;
                if (mask >= PTXPACK_MASK_WINDOW_TOP_LEFT) {
                    d.window_left = windows[w][0];
                    d.window_right = windows[w][1];
                }
                compare_blocks(&d, 64, 128);
                compare_blocks(&d, 192, 48);
                compare_blocks(&d, 128, 80);
            }
}

/* With chunks tile by tile, where they are many a part of them; the longest and the shortest are real tiles. */
static void blocks_of_chunks_are_counted(void **state)
{
    static const int32_t lengths[][2] = {{1, 300}, {100, 300}, {300, 100}, {257, 257}, {64, 513}, {513, 1000}};
    static const int32_t chunks[] = {1, 7, 64, 100, 128, 256, 600};
    (void)state;
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++)
        for (size_t c = 0; c < sizeof chunks / sizeof chunks[0]; c++) {
            ptxpack_attention_desc d = problem(1, lengths[l][0], lengths[l][1], 1, 64);
            d.mask = PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT;
            d.chunk = chunks[c];
            compare_blocks(&d, 64, 128);
            compare_blocks(&d, 192, 48);
            compare_blocks(&d, 128, 80);
        }
    ptxpack_attention_desc d = problem(1, 1 << 24, 1 << 24, 1, 64);
    d.mask = PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT;
    d.chunk = 8192;
    attention_geometry g = resolve(&d);
    attention_blocks   b = attention_count_blocks(&d, &g, 64, 64);
    assert_int_equal(b.tiles, 1 << 18);
    assert_int_equal(b.longest, 128); /* not every tile is looked at */
    assert_int_equal(b.shortest, 1);
    assert_in_range(b.total, (2048 * (128 * 129 / 2)) / 100 * 99, (2048 * (128 * 129 / 2)) / 99 * 100);
    d.seqlen_q = d.seqlen_kv = 1 << 17;
    g = resolve(&d);
    b = attention_count_blocks(&d, &g, 64, 64);
    assert_int_equal(b.total, 16 * (128 * 129 / 2));
    assert_int_equal(b.longest, 128);
    assert_int_equal(b.shortest, 1);
}

/* With lengths in memory any chunk may be whole; with equal lengths the plan knows. */
static void short_sequences_may_have_more_keys(void **state)
{
    (void)state;
    ptxpack_attention_desc d = problem(1, 1, 8193, 1, 64);
    d.mask = PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT;
    d.chunk = 8192;
    attention_geometry g = resolve(&d);
    assert_int_equal(attention_count_blocks(&d, &g, 64, 64).total, 1);
    d.options = PTXPACK_LENGTHS_KV;
    g = resolve(&d);
    assert_int_equal(attention_count_blocks(&d, &g, 64, 64).total, 129);
}

/* The first row of a kernel with this HEAD_DIM and BLOCK_M (0: any). */
static const ptxpack_variant *row_of(const char *file, int arch, int64_t head_dim, int64_t block_m)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].file, file) == 0 && rows[i].arch == arch &&
            ptxpack_variant_parameter(&rows[i], "HEAD_DIM", 0) == head_dim &&
            ptxpack_variant_parameter(&rows[i], "FP8", 0) == 0 &&
            (block_m == 0 || ptxpack_variant_parameter(&rows[i], "BLOCK_M", 0) == block_m))
            return &rows[i];
    fail_msg("there is no row of %s for %d", file, (int)head_dim);
    return NULL;
}
#define MMA   "attention/mma.ptx"
#define WGMMA "attention/wgmma.ptx"

/* ---- the estimate -------------------------------------------------------------------------------------- */
static const ptxpack_device_caps h200 = {.arch = 90,
                                         .isa = 90,
                                         .shared_per_block = 227 << 10,
                                         .shared_per_sm = 228 << 10};

static double cost(const ptxpack_variant *row, const ptxpack_attention_desc *d)
{
    attention_geometry g = resolve(d);
    return attention_cost(row, d, &g, &h200, 132);
}

static double cost_of_window(const ptxpack_variant *row, ptxpack_attention_desc d, int32_t left, int32_t right)
{
    d.mask = PTXPACK_MASK_WINDOW_TOP_LEFT;
    d.window_left = left;
    d.window_right = right;
    return cost(row, &d);
}

/* More of anything never takes less time.  A mask that hides less does not take less time, either; this holds
 * separately among the masks that limit the right and among those that do not, because their rates differ. */
static void time_grows_with_the_problem(void **state)
{
    (void)state;
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    for (size_t i = 0; i < count; i++) {
        double before[3][3] = {{0}};
        if (strcmp(rows[i].op, "attention") != 0)
            continue;
        int32_t dim = (int32_t)ptxpack_variant_parameter(&rows[i], "HEAD_DIM", 0);
        for (int32_t size = 1; size <= 1 << 20; size *= 2) {
            const ptxpack_attention_desc of[3] = {problem(1, size, 512, 4, dim), problem(1, 512, size, 4, dim),
                                                  problem(size, 200, 300, 4, dim)};
            for (int k = 0; k < 3; k++) {
                const double us[3] = {cost(&rows[i], &of[k]), cost_of_window(&rows[i], of[k], -1, 0),
                                      cost_of_window(&rows[i], of[k], 70, -1)};
                for (int mask = 0; mask < 3; mask++) {
                    if (!(us[mask] > 0 && us[mask] >= before[k][mask] * 0.999999))
                        fail_msg("%s: problem %d, mask %d, %d: %g after %g us", rows[i].id, k, mask, (int)size,
                                 us[mask], before[k][mask]);
                    before[k][mask] = us[mask];
                }
                /* a left limit that hides little costs the masked block at its end, and not more */
                assert_true(us[2] <= us[0] * 1.5);
                assert_true(cost_of_window(&rows[i], of[k], 70, 0) <= us[1] * 1.5);
                if (of[k].seqlen_kv > 101) /* otherwise it hides nothing, and is not a limit */
                    assert_true(us[1] <= cost_of_window(&rows[i], of[k], -1, 100) * 1.000001);
            }
        }
    }
}

/* A block and a tile may cost more when the right is limited, but not so much that hiding half of the keys of a
 * long sequence does not pay.  When the limit hides nothing, it costs little. */
/* Whether the row is one that this model is for. */
static bool works_in_tiles(const ptxpack_variant *row)
{
    return strcmp(row->op, "attention") == 0 && plan_method_of(row) != &attention_decode;
}

static void a_causal_mask_pays(void **state)
{
    (void)state;
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    for (size_t i = 0; i < count; i++) {
        if (!works_in_tiles(&rows[i]))
            continue;
        int32_t                dim = (int32_t)ptxpack_variant_parameter(&rows[i], "HEAD_DIM", 0);
        ptxpack_attention_desc square = problem(1, 16384, 16384, 16, dim);
        ptxpack_attention_desc decode = problem(16, 1, 4096, 16, dim);
        double                 us = cost_of_window(&rows[i], square, -1, 0) / cost(&rows[i], &square);
        if (!(us > 0.4 && us < 0.6)) /* below a half when the full problem ends in a wave of few blocks */
            fail_msg("%s: causal takes %g of the time of full", rows[i].id, us);
        us = cost_of_window(&rows[i], decode, -1, 4094) / cost(&rows[i], &decode);
        if (!(us > 0.9 && us < 1.1))
            fail_msg("%s: a limit that hides one key takes %g of the time of full", rows[i].id, us);
    }
}

/* The cost of a window depends on the keys that it shows, not on all keys. */
static void a_window_pays(void **state)
{
    (void)state;
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    for (size_t i = 0; i < count; i++) {
        if (!works_in_tiles(&rows[i]))
            continue;
        int32_t                dim = (int32_t)ptxpack_variant_parameter(&rows[i], "HEAD_DIM", 0);
        ptxpack_attention_desc once = problem(1, 16384, 16384, 16, dim),
                               twice = problem(1, 32768, 32768, 16, dim);
        double window = cost_of_window(&rows[i], once, 1023, 0);
        double causal = cost_of_window(&rows[i], once, -1, 0);
        if (!(causal / window > 4.5))
            fail_msg("%s: causal takes %g times as long as a window of 1024", rows[i].id, causal / window);
        double longer = cost_of_window(&rows[i], twice, 1023, 0) / window;
        if (!(longer > 1.8 && longer < 2.2))
            fail_msg("%s: twice the rows take %g times as long", rows[i].id, longer);
    }
}

/* One tile more than the GPU runs at a time makes another wave; sm_count 0 means that of the H200. */
static void waves_are_whole(void **state)
{
    (void)state;
    ptxpack_attention_desc d = problem(1, 128, 4096, 132, 128), e = problem(1, 128, 4096, 133, 128);
    const ptxpack_variant *row = row_of(WGMMA, 90, 128, 128);
    d.heads_kv = e.heads_kv = 1; /* so that memory is no limit */
    double one = cost(row, &d), two = cost(row, &e);
    assert_true(two > 1.8 * one && two < 2 * one);
    attention_geometry g = resolve(&d);
    assert_true(attention_cost(row, &d, &g, &h200, 0) == one);
    assert_true(attention_cost(row, &d, &g, &h200, 66) == two);
}

/* ---- parts of the keys --------------------------------------------------------------------------------- */
/* The library's choice for a row of wgmma.ptx on an H200. */
static attention_split split_of(int32_t head_dim, int block_m, int block_n, ptxpack_attention_desc d)
{
    const ptxpack_variant *row = row_of(WGMMA, 90, head_dim, block_m);
    d.split_rows = 0;
    attention_geometry g = resolve(&d);
    assert_int_equal(ptxpack_variant_parameter(row, "BLOCK_N", 0), block_n);
    return attention_split_keys(row, &d, &g, &h200, 132);
}

static ptxpack_attention_desc causal(ptxpack_attention_desc d, int32_t heads_kv)
{
    d.heads_kv = heads_kv;
    d.mask = PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT;
    return d;
}

static void few_tiles_are_split(void **state)
{
    (void)state;
    attention_split chunk = split_of(128, 64, 64, causal(problem(1, 64, 16384, 32, 128), 8));
    assert_true(chunk.used && chunk.most == 4 && chunk.blocks == 64); /* 128 items */
    attention_split longer = split_of(128, 128, 128, causal(problem(1, 256, 16384, 32, 128), 8));
    assert_true(longer.used && longer.most == 2 && longer.blocks == 64);
    attention_split one = split_of(64, 64, 128, problem(1, 64, 65536, 1, 64));
    assert_true(one.used && one.most > 8 && one.most <= ATTENTION_PARTS_MOST);
    ptxpack_attention_desc lengths_kv = causal(problem(1, 64, 16384, 32, 128), 8);
    lengths_kv.options = PTXPACK_LENGTHS_KV; /* as without, but not with tiles of 192 rows */
    attention_split served = split_of(128, 128, 128, lengths_kv);
    assert_true(served.used && served.group == 4 && served.most == 8 && served.blocks == 16); /* 128 items */
    ptxpack_attention_desc sinks = causal(problem(1, 8, 16384, 32, 96), 8);
    sinks.options = PTXPACK_LENGTHS_KV | PTXPACK_SINKS;
    attention_split spilling = split_of(96, 128, 128, sinks);
    assert_true(!spilling.used || spilling.group == 1);
    attention_split wide = split_of(128, 192, 64, lengths_kv);
    assert_true(!wide.used && wide.most == 1);
    attention_split full = split_of(128, 128, 128, problem(1, 2048, 2048, 8, 128)); /* 128 tiles: one wave */
    assert_true(!full.used && full.most == 1);
}

/* Where tiles differ in length, and a block of the grid takes few of them, it takes its next one late. */
static void few_uneven_tiles_are_taken_late(void **state)
{
    (void)state;
    attention_split heads = split_of(128, 128, 128, causal(problem(1, 8192, 8192, 8, 128), 1));
    assert_true(heads.used && heads.most == 1);
    attention_split prompt = split_of(128, 128, 128, causal(problem(1, 700, 700, 28, 128), 4));
    assert_true(prompt.used && prompt.most == 1);
    attention_split many = split_of(128, 128, 128, causal(problem(1, 8192, 8192, 32, 128), 8));
    assert_true(!many.used && many.most == 1);
}

static void wanted_parts_do_not_change_the_row(void **state)
{
    (void)state;
    ptxpack_attention_desc d = problem(1, 300, 1000, 4, 128);
    const ptxpack_variant *row = row_of(WGMMA, 90, 128, 128);
    double                 whole = cost(row, &d);
    for (int32_t parts = 1; parts <= ATTENTION_PARTS_MOST; parts++) {
        d.split_rows = ATTENTION_PARTS + parts;
        attention_geometry g = resolve(&d);
        attention_split    s = attention_split_keys(row, &d, &g, &h200, 132);
        assert_true(s.used == (parts > 1) && s.most <= 8 && (s.most - 1) * s.blocks < 8); /* 8 blocks */
        assert_true(cost(row, &d) == whole);
    }
    d.split_rows = ATTENTION_PARTS + ATTENTION_ONE_PART;
    attention_geometry g = resolve(&d);
    attention_split    s = attention_split_keys(row, &d, &g, &h200, 132);
    assert_true(s.used && s.most == 1);
}

/* ---- packed heads -------------------------------------------------------------------------------------- */
/* Few queries of several heads: one tile has the rows of all heads of a group, where that is clearly faster. */
static void few_queries_are_packed(void **state)
{
    (void)state;
    attention_split tree = split_of(128, 64, 64, causal(problem(32, 16, 2048, 32, 128), 8));
    assert_true(tree.group == 4 && tree.most == 1);
    attention_split one = split_of(128, 64, 64, causal(problem(1, 16, 65536, 32, 128), 8));
    assert_true(one.group == 4 && one.used && one.most > 8); /* and cut into parts */
    attention_split chunk = split_of(128, 128, 128, causal(problem(1, 64, 16384, 32, 128), 8));
    assert_true(chunk.group == 4 && chunk.most == 8 && chunk.blocks == 16);
    attention_split alone = split_of(128, 64, 64, causal(problem(32, 16, 2048, 8, 128), 8));
    assert_true(alone.group == 1);
    attention_split six = split_of(128, 64, 64, causal(problem(32, 16, 2048, 48, 128), 8));
    assert_true(six.group == 2); /* a power of two */
    attention_split many = split_of(128, 64, 64, causal(problem(32, 16, 2048, 32, 128), 1));
    assert_true(many.group == 16); /* a warp's rows */
    attention_split seven = split_of(128, 64, 64, causal(problem(32, 16, 2048, 28, 128), 4));
    assert_true(seven.group == 1);
    attention_split most = split_of(128, 64, 64, causal(problem(32, 2, 2048, 32, 128), 2));
    assert_true(most.group == 16);
    attention_split prompt = split_of(128, 128, 128, causal(problem(32, 1024, 1024, 32, 128), 8));
    assert_true(prompt.group == 1);
}

static void wanted_packing_does_not_change_the_row(void **state)
{
    (void)state;
    ptxpack_attention_desc d = causal(problem(3, 300, 1000, 8, 128), 2);
    const ptxpack_variant *row = row_of(WGMMA, 90, 128, 128), *large = row_of(WGMMA, 90, 128, 192);
    double                 plain = cost(row, &d);
    d.split_rows = ATTENTION_PARTS + ATTENTION_PACK + 3;
    attention_geometry g = resolve(&d);
    attention_split    s = attention_split_keys(row, &d, &g, &h200, 132);
    assert_true(s.group == 4 && s.used && s.most == 3);
    assert_true(cost(row, &d) == plain);
    d.split_rows = ATTENTION_PARTS; /* the library's choice of parts, without packing */
    assert_int_equal(attention_split_keys(row, &d, &g, &h200, 132).group, 1);
    d.split_rows = ATTENTION_PARTS + ATTENTION_PACK + 1;
    assert_int_equal(attention_split_keys(large, &d, &g, &h200, 132).group, 1); /* would spill */
    d.heads_kv = 8;
    assert_int_equal(attention_split_keys(row, &d, &g, &h200, 132).group, 1); /* nothing to pack */
}

/* ---- measurements -------------------------------------------------------------------------------------- */
/* TFLOP/s of an H200 for bf16, by sequence length, 2026-11-22 (d 128, full, 4096: 2026-11-29); 0: not measured.  The batch is
 * tokens / length. */
static const int32_t lengths[] = {512, 1024, 2048, 4096, 8192, 16384};
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };
typedef struct series {
    int32_t      head_dim;
    int          block_m;
    int32_t      tokens, heads; /* tokens 0: batch 1 */
    ptxpack_mask mask;
    double       tflops[LENGTHS];
} series;
#define FULL   PTXPACK_MASK_NONE
#define CAUSAL PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT
static const series wgmma_series[] = {
    /* D    M  tokens heads          512 1024 2048 4096 8192 16384 */
    {128, 128, 16384, 16, FULL, {564, 686, 751, 800, 0, 815}},
    {128, 192, 16384, 16, FULL, {559, 660, 765, 828, 0, 805}},
    {128, 128, 16384, 16, CAUSAL, {376, 521, 636, 721, 760, 795}},
    {128, 192, 16384, 16, CAUSAL, {357, 485, 623, 714, 790, 814}},
    {64, 192, 16384, 32, FULL, {463, 530, 0, 637, 0, 675}},
    {64, 128, 16384, 32, FULL, {432, 504, 0, 554, 0, 550}},
    {64, 192, 16384, 32, CAUSAL, {269, 359, 492, 560, 0, 652}},
    {64, 128, 16384, 32, CAUSAL, {274, 382, 461, 512, 0, 555}},
    {256, 128, 16384, 8, FULL, {581, 705, 784, 829, 0, 848}},
    {256, 128, 16384, 8, CAUSAL, {361, 514, 646, 732, 783, 807}},
    {64, 64, 0, 16, FULL, {96, 215, 0, 0, 0, 0}},
    {64, 128, 0, 16, FULL, {90, 265, 0, 0, 0, 0}},
    {128, 64, 0, 16, FULL, {171, 327, 0, 0, 0, 0}},
    {128, 128, 0, 16, FULL, {158, 431, 0, 0, 0, 0}},
    {256, 64, 0, 8, FULL, {140, 404, 0, 0, 0, 0}},
    {256, 128, 0, 8, FULL, {111, 303, 0, 0, 0, 0}},
};
/* The first row of a head_dim, without a mask. */
static const series mma_series[] = {
    {64, 0, 16384, 32, FULL, {307, 0, 0, 0, 0, 358}},
    {128, 0, 16384, 16, FULL, {341, 0, 0, 0, 0, 410}},
    {256, 0, 16384, 8, FULL, {0, 0, 0, 0, 0, 358}},
};
enum {
    WGMMA_SERIES = sizeof wgmma_series / sizeof wgmma_series[0],
    MMA_SERIES = sizeof mma_series / sizeof mma_series[0]
};

static ptxpack_attention_desc problem_of(const series *m, int32_t length)
{
    int32_t                batch = m->tokens != 0 ? m->tokens / length : 1;
    ptxpack_attention_desc d = problem(batch, length, length, m->heads, m->head_dim);
    d.dtype = PTXPACK_BF16;
    d.mask = m->mask;
    return d;
}

/* Compares every figure to 10 %, which is what a model with three numbers for each row can reach. */
static void compare_series(const series *m, const ptxpack_variant *row)
{
    for (int i = 0; i < LENGTHS; i++) {
        ptxpack_attention_desc d = problem_of(m, lengths[i]);
        double                 part = ptxpack_attention_flops(&d) * 1e-6 / cost(row, &d) / m->tflops[i];
        if (m->tflops[i] > 0 && !(part > 0.9 && part < 1.1))
            fail_msg("%s, %d heads of %d, %s: %g of the %g TFLOP/s that were measured", row->id, (int)m->heads,
                     (int)lengths[i], m->mask == FULL ? "full" : "causal", part, m->tflops[i]);
    }
}

static void the_model_gives_what_was_measured(void **state)
{
    (void)state;
    for (int i = 0; i < WGMMA_SERIES; i++)
        compare_series(&wgmma_series[i], row_of(WGMMA, 90, wgmma_series[i].head_dim, wgmma_series[i].block_m));
    for (int i = 0; i < MMA_SERIES; i++)
        compare_series(&mma_series[i], row_of(MMA, 80, mma_series[i].head_dim, mma_series[i].block_m));
}

/* ---- choices ------------------------------------------------------------------------------------------- */
static const ptxpack_variant *chosen(ptxpack *handle, const ptxpack_attention_desc *d)
{
    ptxpack_device_caps caps = ptxpack_device(handle)->caps;
    plan_survey         survey;
    caps.isa = 93;
    assert_int_equal(plan_survey_of(&attention_op, handle, &caps, d, &survey), PTXPACK_OK);
    return survey.chosen;
}

/* The measured figure of this row for the problem of a series; 0: there is none. */
static double measured_of(const series *problem_series, int length, int64_t block_m)
{
    for (int i = 0; i < WGMMA_SERIES; i++) {
        const series *m = &wgmma_series[i];
        if (m->head_dim == problem_series->head_dim && m->tokens == problem_series->tokens &&
            m->mask == problem_series->mask && m->block_m == block_m)
            return m->tflops[length];
    }
    return 0;
}

/* The chosen row is within 3 % of the best measured figure for the problem. */
static void the_best_that_was_measured_is_chosen(void **state)
{
    (void)state;
    ptxpack *handle = open_offline("sm_90a");
    for (int i = 0; i < WGMMA_SERIES; i++)
        for (int l = 0; l < LENGTHS; l++) {
            const series          *m = &wgmma_series[i];
            ptxpack_attention_desc d = problem_of(m, lengths[l]);
            if (m->tflops[l] == 0)
                continue;
            const ptxpack_variant *row = chosen(handle, &d);
            assert_non_null(row);
            assert_string_equal(row->file, WGMMA);
            assert_int_equal(ptxpack_variant_parameter(row, "HEAD_DIM", 0), m->head_dim);
            double got = measured_of(m, l, ptxpack_variant_parameter(row, "BLOCK_M", 0));
            if (!(got >= 0.97 * m->tflops[l]))
                fail_msg("%d heads of %d x %d, %s: %s, of %g TFLOP/s; tiles of %d rows have %g", (int)m->heads,
                         (int)lengths[l], (int)m->head_dim, m->mask == FULL ? "full" : "causal", row->id, got,
                         m->block_m, m->tflops[l]);
        }
    ptxpack_close(handle);
}

/* Two tiles of rows of decode.ptx are as fast as one where they run at the same time, and slower than wgmma.ptx elsewhere. */
static void few_queries_take_the_row_that_was_faster(void **state)
{
    (void)state;
    static const struct {
        int32_t     batch, queries, keys, heads_q;
        const char *file;
    } measured[] = {{8, 4, 8192, 64, "attention/decode.ptx"},
                    {8, 8, 8192, 64, WGMMA},
                    {32, 4, 2048, 32, "attention/decode.ptx"},
                    {32, 8, 2048, 32, WGMMA}};
    ptxpack *handle = open_offline("sm_90a");
    for (size_t i = 0; i < sizeof measured / sizeof measured[0]; i++) {
        ptxpack_attention_desc d = causal(problem(measured[i].batch, measured[i].queries, measured[i].keys,
                                                  measured[i].heads_q, 128),
                                          8);
        d.split_rows = 0;
        assert_string_equal(chosen(handle, &d)->file, measured[i].file);
    }
    ptxpack_close(handle);
}

/* Tiles of 64 rows are chosen when larger tiles would leave SMs idle; the sizes nearest to the change are the
 * measured ones. */
static void small_grids_take_small_tiles(void **state)
{
    static const struct {
        int32_t batch, seqlen, heads, head_dim;
        bool    small;
    } cases[] = {
        {1, 64, 1, 128, true},     {1, 256, 16, 128, true}, {1, 512, 16, 128, true},  {1, 1024, 16, 128, false},
        {8, 2048, 16, 128, false}, {1, 512, 16, 64, true},  {1, 1024, 16, 64, false}, {8, 4096, 32, 64, false},
        {1, 256, 8, 256, true},    {1, 512, 8, 256, true},  {1, 1024, 8, 256, true},  {8, 2048, 8, 256, false},
    };
    (void)state;
    ptxpack *handle = open_offline("sm_90a");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ptxpack_attention_desc d = problem(cases[i].batch, cases[i].seqlen, cases[i].seqlen, cases[i].heads,
                                           cases[i].head_dim);
        const ptxpack_variant *row = chosen(handle, &d);
        assert_non_null(row);
        assert_string_equal(row->file, WGMMA);
        assert_int_equal(ptxpack_variant_parameter(row, "HEAD_DIM", 0), cases[i].head_dim);
        if ((ptxpack_variant_parameter(row, "BLOCK_M", 0) == 64) != cases[i].small)
            fail_msg("case %zu: %s", i, row->id);
    }
    ptxpack_close(handle);
}

/* The first row for many query rows that this architecture can run, with the smallest sufficient HEAD_DIM. */
static const ptxpack_variant *first_fit(const ptxpack_device_caps *caps, int64_t head_dim)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count), *best = NULL;
    char                   why[256];
    for (size_t i = 0; i < count; i++) {
        int64_t dim = ptxpack_variant_parameter(&rows[i], "HEAD_DIM", 0);
        if (works_in_tiles(&rows[i]) && dim >= head_dim &&
            ptxpack_variant_refusal(&rows[i], caps, why, sizeof why) == NULL &&
            (best == NULL || dim < ptxpack_variant_parameter(best, "HEAD_DIM", 0)))
            best = &rows[i];
    }
    return best;
}

static void other_architectures_keep_table_order(void **state)
{
    static const char *const archs[] = {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"};
    static const int32_t     sizes[][3] = {{1, 17, 1}, {1, 100, 4}, {2, 512, 16}, {4, 4096, 32}, {1, 32768, 8}};
    (void)state;
    for (size_t a = 0; a < sizeof archs / sizeof archs[0]; a++) {
        ptxpack            *handle = open_offline(archs[a]);
        ptxpack_device_caps caps = ptxpack_device(handle)->caps;
        caps.isa = 93;
        for (int32_t dim = 8; dim <= 256; dim += 8)
            for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
                ptxpack_attention_desc d = problem(sizes[s][0], sizes[s][1], sizes[s][1], sizes[s][2], dim);
                d.mask = s % 2 ? PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT : PTXPACK_MASK_NONE;
                const ptxpack_variant *row = chosen(handle, &d), *want = first_fit(&caps, dim);
                assert_non_null(row);
                if (row != want)
                    fail_msg("%s, head_dim %d, length %d: %s, not %s", archs[a], (int)dim, (int)sizes[s][1],
                             row->id, want->id);
            }
        ptxpack_close(handle);
    }
}

/* Problems that TMA cannot handle run with mma.sync, and the survey says so. */
static void what_tma_cannot_do_falls_back(void **state)
{
    (void)state;
    ptxpack               *handle = open_offline("sm_90a");
    ptxpack_device_caps    caps = ptxpack_device(handle)->caps;
    ptxpack_attention_desc d = problem(8, 2048, 2048, 16, 128);
    plan_survey            survey;
    char                   line[PLAN_LINE];
    bool                   refused = false;
    caps.isa = 93;
    d.k = (ptxpack_strides){0, 16 * 128, 128};
    assert_int_equal(plan_survey_of(&attention_op, handle, &caps, &d, &survey), PTXPACK_OK);
    assert_non_null(survey.chosen);
    assert_string_equal(survey.chosen->file, MMA);
    for (size_t i = 0; i < survey.count; i++)
        if (strcmp(survey.candidate[i].row->file, WGMMA) == 0 &&
            ptxpack_variant_parameter(survey.candidate[i].row, "VALUES_IN_KEYS", 0) == 0) {
            assert_true(survey.candidate[i].refused);
            assert_string_equal(plan_row_refusal(&attention_op, handle, &caps, &d, survey.candidate[i].row,
                                                 line),
                                "k.batch: TMA has no stride 0");
            refused = true;
        }
    assert_true(refused);
    ptxpack_close(handle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_counted),
        cmocka_unit_test(blocks_of_chunks_are_counted),
        cmocka_unit_test(short_sequences_may_have_more_keys),
        cmocka_unit_test(time_grows_with_the_problem),
        cmocka_unit_test(a_causal_mask_pays),
        cmocka_unit_test(a_window_pays),
        cmocka_unit_test(waves_are_whole),
        cmocka_unit_test(few_tiles_are_split),
        cmocka_unit_test(few_queries_are_packed),
        cmocka_unit_test(wanted_packing_does_not_change_the_row),
        cmocka_unit_test(few_uneven_tiles_are_taken_late),
        cmocka_unit_test(wanted_parts_do_not_change_the_row),
        cmocka_unit_test(the_model_gives_what_was_measured),
        cmocka_unit_test(the_best_that_was_measured_is_chosen),
        cmocka_unit_test(few_queries_take_the_row_that_was_faster),
        cmocka_unit_test(small_grids_take_small_tiles),
        cmocka_unit_test(other_architectures_keep_table_order),
        cmocka_unit_test(what_tma_cannot_do_falls_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
