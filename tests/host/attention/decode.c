/* decode.c - how the rows of decode.ptx divide the keys of a problem, and when they are taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "host/attention/inspect.h"
#include "host/plan/quotient.h"
#include "loader/inspect.h"

static const ptxpack_device_caps h200 = {.arch = 90, .isa = 90};

static ptxpack_attention_desc problem(int32_t batch, int32_t rows, int32_t heads, int32_t heads_kv,
                                      int32_t keys)
{
    return (ptxpack_attention_desc){.size = sizeof(ptxpack_attention_desc),
                                    .dtype = PTXPACK_BF16,
                                    .batch = batch,
                                    .seqlen_q = rows,
                                    .seqlen_kv = keys,
                                    .heads_q = heads,
                                    .heads_kv = heads_kv,
                                    .head_dim = 128};
}

static const ptxpack_variant *row_named(const char *id)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].id, id) == 0)
            return &rows[i];
    fail_msg("there is no row %s", id);
    return NULL;
}

static attention_ranges ranges_of(const ptxpack_attention_desc *d, const char *id, int sms)
{
    attention_geometry g;
    char               line[PLAN_LINE];
    assert_int_equal(ptxpack_attention_resolve(d, &g, line), PTXPACK_OK);
    return attention_decode_ranges(d, &g, row_named(id), &h200, sms);
}

/* ---- ranges --------------------------------------------------------------------------------------- */
/* Where the kernel finds tile `number` of the list (ptx/attention/decode/tiles.ptx). */
static int64_t tile_at(const attention_ranges *s, int64_t number)
{
    return s->order == 1 ? number : number % s->order * s->apart + number / s->order;
}

/* Every block of every tile belongs to one range, no range is empty, and no tile comes twice. */
static void check_ranges(const attention_ranges *s, int64_t most)
{
    int64_t        total = s->tiles * s->tile_blocks;
    unsigned char *seen = (unsigned char *)calloc((size_t)s->tiles, 1);
    assert_non_null(seen);
    assert_true(s->grid >= 1 && s->grid <= most);
    assert_true(s->range * s->grid >= total && s->range * (s->grid - 1) < total);
    for (int64_t i = 0; i < s->tiles; i++) {
        int64_t tile = tile_at(s, i);
        assert_true(tile >= 0 && tile < s->tiles && !seen[tile]);
        seen[tile] = 1;
    }
    free(seen);
}

static void ranges_cover_all_blocks_once(void **state)
{
    (void)state;
    static const char *const ids[] = {"attention_decode_sm80_d128_8x8", "attention_decode_sm80_d128_8x4"};
    uint64_t                 random = 20261123;
    for (int i = 0; i < 4000; i++) {
        int32_t draw[4];
        for (int n = 0; n < 4; n++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            draw[n] = (int32_t)(random >> 40);
        }
        int                    sms = 1 + draw[0] % 200;
        ptxpack_attention_desc d = problem(1 + draw[1] % 70, 1, 8, 1 << (draw[2] % 4), 1 + draw[3] % 5000);
        attention_ranges       s = ranges_of(&d, ids[i % 2], sms);
        check_ranges(&s, sms * row_named(ids[i % 2])->blocks_per_sm);
        assert_int_equal(s.tile_blocks, (d.seqlen_kv + 15) / 16);
    }
}

/* A little more work for a block is better than tiles that are split unevenly. */
static void ranges_end_where_tiles_end(void **state)
{
    (void)state;
    ptxpack_attention_desc d = problem(16, 1, 32, 8, 1024);
    attention_ranges       s = ranges_of(&d, "attention_decode_sm80_d128_8x8", 132);
    assert_int_equal(s.range, 64); /* one of 128 tiles, where 62 blocks would do */
    assert_int_equal(s.grid, 128);
    d = problem(1, 1, 64, 8, 8192);
    s = ranges_of(&d, "attention_decode_sm80_d128_8x8", 132);
    assert_int_equal(s.range, 32); /* 16 for each of 8 tiles */
    d = problem(32, 1, 64, 8, 8192);
    s = ranges_of(&d, "attention_decode_sm80_d128_8x8", 132);
    assert_int_equal(s.order, 2);   /* two whole tiles, */
    assert_int_equal(s.apart, 128); /* of which the second comes after the first of all blocks */
}

/* The range of a block, as RANGE_NUMBER of ptx/attention/decode/tiles.ptx finds it. */
static int64_t range_of(const attention_ranges *s, int64_t block)
{
    const int64_t ranges = s->row_tiles * s->tile_ranges, first = block / ranges * ranges, at = block - first;
    return first + ranges > s->grid ? block : first + at % s->row_tiles * s->tile_ranges + at / s->row_tiles;
}

/* Each block has a range of its own, and with two tiles of rows that are split alike pairs have the same part of both. */
static void check_pairs(const attention_ranges *s)
{
    unsigned char *seen = (unsigned char *)calloc((size_t)s->grid, 1);
    assert_non_null(seen);
    for (int64_t i = 0; i < s->grid; i++) {
        const int64_t range = range_of(s, i);
        assert_true(range >= 0 && range < s->grid && !seen[range]);
        seen[range] = 1;
        if (s->row_tiles == 2 && s->tile_ranges > 1)
            assert_int_equal(range_of(s, i | 1) - range_of(s, i & ~(int64_t)1), s->tile_ranges);
    }
    if (s->tile_ranges > 1)
        assert_int_equal(s->tile_padded, s->tile_ranges * s->range);
    free(seen);
}

/* The blocks of a kernel of sm_90 with several tiles of rows are whole clusters of two. */
static void tiles_of_a_head_have_pairs_of_blocks(void **state)
{
    (void)state;
    static const char *const ids[] = {"attention_decode_sm90_d128_16x8", "attention_decode_sm80_d128_16x8"};
    for (int32_t keys = 1; keys < 4000; keys += 37) {
        const int              sms = 1 + keys % 140;
        ptxpack_attention_desc d = problem(1 + keys % 5, 17, 12, 4, keys);
        const attention_ranges pairs = ranges_of(&d, ids[0], sms), any = ranges_of(&d, ids[1], sms);
        const int64_t          total = pairs.tiles * pairs.tile_padded;
        check_pairs(&pairs);
        assert_int_equal(any.tile_ranges, 1);
        assert_int_equal(pairs.row_tiles, 4);
        assert_int_equal(pairs.grid % 2, 0);
        assert_true(pairs.grid <= (sms == 1 ? 2 : sms));
        assert_true(pairs.range * pairs.grid >= total && pairs.range * (pairs.grid - 2) < total);
        assert_true(any.range * (any.grid - 1) < total);
    }
    ptxpack_attention_desc d = problem(1, 17, 4, 4, 330); /* 8 tiles of 21 blocks */
    assert_int_equal(ranges_of(&d, ids[0], 3).grid, 2);
    assert_int_equal(ranges_of(&d, ids[0], 7).grid, 6);
    int alike = 0;
    for (int32_t keys = 1024; keys < 32768; keys += 16) {
        d = problem(1, 4, 64, 8, keys);
        const attention_ranges s = ranges_of(&d, ids[0], 132);
        check_pairs(&s);
        alike += s.tile_ranges > 1;
    }
    assert_true(alike > 1900); /* of 1984 */
}

/* Only keys that some row sees are in the list. */
static void masks_shorten_the_list(void **state)
{
    (void)state;
    ptxpack_attention_desc d = problem(1, 2, 8, 8, 1000);
    d.mask = PTXPACK_MASK_WINDOW_BOTTOM_RIGHT;
    d.window_left = 100;
    attention_ranges s = ranges_of(&d, "attention_decode_sm80_d128_8x8", 132);
    assert_int_equal(s.first_key, 1000 - 2 - 100); /* the first row is key 998's */
    assert_int_equal(s.end, 1000);
    d.mask = PTXPACK_MASK_CAUSAL_TOP_LEFT;
    d.window_left = 0;
    s = ranges_of(&d, "attention_decode_sm80_d128_8x8", 132);
    assert_int_equal(s.end, 2);
    assert_int_equal(s.tile_blocks, 1);
}

/* ---- the choice ----------------------------------------------------------------------------------- */
static const plan_method *method_for(const ptxpack *handle, const ptxpack_attention_desc *d)
{
    const ptxpack_variant *row;
    assert_int_equal(plan_row_of(&attention_op, handle, NULL, d, &row), PTXPACK_OK);
    return plan_method_of(row);
}

/* Caches of every type have a kernel for decoding, one that copies asynchronously: what is fast on one GPU may not fit another one. */
static void check_caches(const ptxpack *handle, const char *arch)
{
    static const ptxpack_dtype types[] = {PTXPACK_E4M3, PTXPACK_INT8, PTXPACK_Q8_0};
    for (int i = 0; i < 3 * 3 * 2 * 2; i++) {
        ptxpack_attention_desc d = problem(8, 1, 64, i % 2 == 0 ? 8 : 4, 8192);
        const ptxpack_variant *row;
        d.dtype = i / 2 % 2 == 0 ? PTXPACK_F16 : PTXPACK_BF16;
        d.head_dim = 64 << i / 4 % 3;
        d.kv_dtype = types[i / 12];
        if (plan_row_of(&attention_op, handle, NULL, &d, &row) != PTXPACK_OK)
            fail_msg("%s: %s", arch, ptxpack_detail(handle));
        if (plan_method_of(row) != &attention_decode || row->arch < 80)
            fail_msg("%s, %s, k and v of %s, head_dim %d, %d key heads: %s", arch, ptxpack_dtype_name(d.dtype),
                     ptxpack_dtype_name(d.kv_dtype), (int)d.head_dim, (int)d.heads_kv, row->id);
    }
}

static void few_rows_are_taken(void **state)
{
    (void)state;
    static const char *const archs[] = {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"};
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        ptxpack        *handle;
        ptxpack_options options = {.size = sizeof options, .offline = true, .no_cache = true, .ptxjit = "none"};
        assert_int_equal(ptxpack_open_stand_in(&options, archs[i], 0, &handle), PTXPACK_OK);
        ptxpack_attention_desc one = problem(1, 1, 64, 8, 8192), sixteen = problem(4, 4, 32, 8, 4096),
                               tiles = problem(1, 17, 8, 8, 4096), short_keys = problem(1, 17, 8, 8, 200),
                               many = problem(1, 65, 8, 8, 4096), mha = problem(16, 1, 32, 32, 4096);
        assert_ptr_equal(method_for(handle, &one), &attention_decode);
        assert_ptr_equal(method_for(handle, &sixteen), &attention_decode);
        assert_ptr_equal(method_for(handle, &mha), &attention_decode);
        assert_ptr_equal(method_for(handle, &tiles), &attention_decode);
        assert_ptr_not_equal(method_for(handle, &short_keys), &attention_decode);
        assert_ptr_not_equal(method_for(handle, &many), &attention_decode);
        check_caches(handle, archs[i]);
        for (int32_t dim = 8; dim <= 256; dim += 8) { /* the smallest HEAD_DIM that suffices */
            const ptxpack_variant *row;
            one.head_dim = dim;
            assert_int_equal(plan_row_of(&attention_op, handle, NULL, &one, &row), PTXPACK_OK);
            assert_int_equal(ptxpack_variant_parameter(row, "HEAD_DIM", 0), dim <= 64    ? 64
                                                                            : dim <= 128 ? 128
                                                                                         : 256);
        }
        ptxpack_close(handle);
    }
}

static void too_many_rows_are_refused(void **state)
{
    (void)state;
    ptxpack_attention_desc d = problem(1, 16, 8, 2, 64);
    attention_geometry     g;
    plan_problem           p;
    char                   line[PLAN_LINE];
    assert_int_equal(plan_resolve(&attention_op, NULL, NULL, &d, &g, &p, line), PTXPACK_OK);
    assert_null(attention_decode.refusal(&p, row_named("attention_decode_sm80_d128_16x4"), line));
    assert_string_equal(attention_decode.refusal(&p, row_named("attention_decode_sm80_d128_8x4"), line),
                        "64 query rows share a key head (seqlen_q 16 times heads_q / heads_kv 4); it takes 8");
    d.seqlen_q = 17;
    assert_string_equal(attention_decode.refusal(&p, row_named("attention_decode_sm80_d128_16x4"), line),
                        "68 query rows share a key head (seqlen_q 17 times heads_q / heads_kv 4); it takes 64");
    /* the keys of 2^38 heads, all the same ones */
    d = problem(1 << 19, 1, 1 << 19, 1 << 19, INT32_MAX - 4096);
    d.k = d.v = (ptxpack_strides){.row = 128};
    assert_int_equal(plan_resolve(&attention_op, NULL, NULL, &d, &g, &p, line), PTXPACK_OK);
    assert_string_equal(attention_decode.refusal(&p, row_named("attention_decode_sm80_d128_8x8"), line),
                        "seqlen_kv 2147479551: the keys of 274877906944 heads are more than 1073741823 blocks");
    d.seqlen_kv = INT32_MAX;
    assert_string_equal(attention_decode.refusal(&p, row_named("attention_decode_sm80_d128_8x8"), line),
                        "takes up to 2147479551 keys; seqlen_kv is 2147483647");
    d = problem(1, 1, 8, 8, 64);
    d.v = (ptxpack_strides){.row = (int64_t)1 << 31, .head = 128};
    assert_int_equal(plan_resolve(&attention_op, NULL, NULL, &d, &g, &p, line), PTXPACK_OK);
    assert_string_equal(attention_decode.refusal(&p, row_named("attention_decode_sm80_d128_8x8"), line),
                        "v.row: stride 2147483648 exceeds 1073741823 elements");
}

/* ---- quotients ------------------------------------------------------------------------------------ */
static void check_quotients(int64_t d, uint64_t *random)
{
    const uint32_t most = (UINT32_C(1) << 30) - 1;
    int32_t        inverse, shift;
    quotient_inverse(d, &inverse, &shift);
    for (int i = 0; i < 200; i++) {
        *random = *random * UINT64_C(6364136223846793005) + 1442695040888963407;
        uint32_t multiple = (uint32_t)((*random >> 33) % (most / (uint64_t)d + 1) * (uint64_t)d);
        uint32_t near[] = {0, most, multiple, multiple == 0 ? 0 : multiple - 1, (uint32_t)(*random >> 34)};
        for (size_t k = 0; k < sizeof near / sizeof near[0]; k++)
            assert_int_equal(quotient(near[k], inverse, shift), near[k] / (uint64_t)d);
    }
}

static void quotients_are_exact(void **state)
{
    uint64_t random = 20261126;
    (void)state;
    for (int64_t d = 1; d <= 4096; d++)
        check_quotients(d, &random);
    for (int bit = 12; bit <= 30; bit++)
        for (int64_t d = (INT64_C(1) << bit) - 3; d <= (INT64_C(1) << bit) + 3 && d <= INT64_C(1) << 30; d++)
            check_quotients(d, &random);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quotients_are_exact),        cmocka_unit_test(ranges_cover_all_blocks_once),
        cmocka_unit_test(ranges_end_where_tiles_end), cmocka_unit_test(tiles_of_a_head_have_pairs_of_blocks),
        cmocka_unit_test(masks_shorten_the_list),     cmocka_unit_test(few_rows_are_taken),
        cmocka_unit_test(too_many_rows_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
