/* blocks.c - lists of blocks without a GPU: what is refused, who takes them, and the references. */
#include "fixture.h"

#include "host/attention/blocks/inspect.h"

static const char every_other[] = ".macro MASK_MOD keep, r, b, h, q, kv, c, cf\n"
                                  "        .reg .b32 %my_x;\n"
                                  "        xor.b32 %my_x, \\q, \\kv;\n"
                                  "        and.b32 %my_x, %my_x, 4;\n"
                                  "        setp.eq.s32 \\keep, %my_x, 0;\n"
                                  ".endm\n";
/* In groups of four rows and keys: with blocks of 4 all are full or absent. */
static int is_same_group(void *context, int32_t b, int32_t h, int32_t q, int32_t kv)
{
    (void)context, (void)b, (void)h;
    return ((q ^ kv) & 4) == 0;
}

static void assert_has(const char *text, const char *what)
{
    if (strstr(text, what) == NULL)
        fail_msg("\"%s\" has no \"%s\"", text, what);
}

/* ---- refusals ----------------------------------------------------------------------------------------- */
static void rows_alone(ptxpack_attention_desc *d) { d->block_keys = 0; }
static void negative_keys(ptxpack_attention_desc *d) { d->block_keys = -128; }
static void narrow(ptxpack_attention_desc *d) { d->block_width = 1; }
static void reserved(ptxpack_attention_desc *d) { d->reserved_block = 1; }
static void negative_head(ptxpack_attention_desc *d) { d->block_head = -3; }
static void far_batch(ptxpack_attention_desc *d) { d->block_batch = INT64_C(1) << 31; }
static void too_many(ptxpack_attention_desc *d) { d->block_batch = d->block_head = INT32_MAX; }
static void head_without(ptxpack_attention_desc *d)
{
    d->block_rows = d->block_keys = d->block_width = 0;
    d->block_batch = 0;
}

static const ptxpack_attention_desc lists = {
    .size = sizeof lists,
    .dtype = PTXPACK_F16,
    .batch = 2,
    .seqlen_q = 300,
    .seqlen_kv = 400,
    .heads_q = 6,
    .heads_kv = 2,
    .head_dim = 64,
    .block_rows = 128,
    .block_keys = 128,
    .block_width = 5,
    .block_batch = 18,
    .block_head = 3,
};

static void bad_fields_are_refused(void **state)
{
    (void)state;
    static const bad_field refusals[] = {
        {rows_alone, "block_rows 128 and block_keys 0 are neither both at least 1 nor both 0"},
        {negative_keys, "block_rows 128 and block_keys -128 are neither both"},
        {narrow, "block_width 1 is less than the 4 blocks of 128 keys"},
        {reserved, "reserved_block is 1; it must be 0"},
        {negative_head, "block_head -3 is not from 0 to 2147483647"},
        {far_batch, "block_batch 2147483648 is not from 0 to 2147483647"},
        {too_many, "block_batch 2147483647 and block_head 2147483647: the lists exceed 2147483647"},
        {head_without, "block_head is not 0, but block_rows is"},
    };
    assert_refused_fields(&lists, refusals, sizeof refusals / sizeof refusals[0]);
}

/* Why the first row whose id has `word` takes no such lists. */
static void assert_refused(const ptxpack_attention_desc *d, const char *word, const char *why)
{
    size_t                 count, i = 0;
    char                   line[PLAN_LINE] = "";
    attention_geometry     g;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    assert_int_equal(ptxpack_attention_resolve(d, &g, line), PTXPACK_OK);
    while (i < count && strstr(rows[i].id, word) == NULL)
        i++;
    assert_true(i < count);
    const char *got = attention_refuse_lists(&g, &rows[i], line);
    if (why == NULL ? got != NULL : got == NULL || strstr(got, why) == NULL)
        fail_msg("%s: \"%s\"", rows[i].id, got != NULL ? got : "taken");
}

static void rows_take_what_their_tiles_divide(void **state)
{
    (void)state;
    ptxpack_attention_desc d = lists;
    assert_refused(&d, "wgmma_sm90_d64_128x128", NULL);
    assert_refused(&d, "wgmma_sm90_d64_192x128", "would spill");
    assert_refused(&d, "mma_sm80_d64_128x64", NULL);
    assert_refused(&d, "decode_sm90_d64_16x8", "takes no lists of blocks");
    d.block_rows = 64;
    d.block_width = 7;
    d.block_keys = 64;
    assert_refused(&d, "wgmma_sm90_d64_128x128", "block_rows 64 is no multiple of its 128 rows");
    assert_refused(&d, "wgmma_sm90_d64_64x128", "block_keys 64 is no multiple of its 128 keys");
    d = lists;
    d.options = PTXPACK_LENGTHS_KV;
    assert_refused(&d, "wgmma_sm90_d64_128x128", "takes no lists of blocks with lengths");
    assert_refused(&d, "mma_sm80_d64_128x64", "takes no lists of blocks with lengths");
    d.options = 0;
    d.dtype = PTXPACK_E4M3;
    assert_refused(&d, "wgmma_sm90_fp8_d64", "takes no lists of blocks with fp8");
    d.options = PTXPACK_LENGTHS_KV;
    attention_geometry g;
    char               line[PLAN_LINE];
    assert_int_equal(blocks_resolve(&d, &g, line), PTXPACK_E_ARG);
    assert_string_equal(line, "lists of blocks are for sequences of equal lengths");
    assert_int_equal(blocks_resolve(&good, &g, line), PTXPACK_E_ARG);
    assert_string_equal(line, "block_rows is 0: there are no blocks");
}

/* ---- addresses ---------------------------------------------------------------------------------------- */
static void full_lists_are_there_together(void **state)
{
    (void)state;
    attention_geometry        g;
    char                      line[PLAN_LINE];
    ptxpack_attention_buffers b = {.size = sizeof b, .q = 1 << 20, .k = 2 << 20, .v = 3 << 20, .o = 4 << 20};
    assert_int_equal(ptxpack_attention_resolve(&lists, &g, line), PTXPACK_OK);
    assert_int_equal(g.array_bytes[ARRAY_FULL_COUNT], 4 * (18 + 5 * 3 + 3));
    assert_int_equal(g.array_bytes[ARRAY_BLOCK_LIST], 4 * (35 * 5 + 4));
    assert_int_equal(ptxpack_attention_check_buffers(&g, 0, &b, line), PTXPACK_E_ARG);
    assert_has(line, "block_count is null");
    b.block_count = 5 << 20;
    assert_int_equal(ptxpack_attention_check_buffers(&g, 0, &b, line), PTXPACK_E_ARG);
    assert_has(line, "block_list is null");
    b.block_list = 6 << 20;
    assert_int_equal(ptxpack_attention_check_buffers(&g, 0, &b, line), PTXPACK_OK);
    b.full_count = 7 << 20;
    assert_int_equal(ptxpack_attention_check_buffers(&g, 0, &b, line), PTXPACK_E_ARG);
    assert_has(line, "full_list is null");
    b.full_list = (8 << 20) + 2;
    assert_int_equal(ptxpack_attention_check_buffers(&g, 0, &b, line), PTXPACK_E_ARG);
    assert_has(line, "full_list: address 0x800002 is not a multiple of 4");
    b.full_list = b.o;
    assert_int_equal(ptxpack_attention_check_buffers(&g, 0, &b, line), PTXPACK_E_ARG);
    assert_has(line, "overlap");
}

/* ---- references --------------------------------------------------------------------------------------- */
enum { ROWS = 11, KEYS = 14, DIM = 8, ROW_BLOCKS = 3, KEY_BLOCKS = 4 };

/* One head, with a hook and blocks of 4 x 4. */
static ptxpack_attention_desc small(int32_t rows, int32_t keys)
{
    return (ptxpack_attention_desc){.size = sizeof(ptxpack_attention_desc),
                                    .dtype = PTXPACK_F16,
                                    .batch = 1,
                                    .seqlen_q = rows,
                                    .seqlen_kv = keys,
                                    .heads_q = 1,
                                    .heads_kv = 1,
                                    .head_dim = DIM,
                                    .mask_mod = every_other,
                                    .block_rows = 4,
                                    .block_keys = 4};
}

/* With the lists that are made of a mask and a hook, all rows are as without any. */
static void made_lists_change_nothing(void **state)
{
    (void)state;
    static uint16_t               q[ROWS * DIM], k[KEYS * DIM], v[KEYS * DIM];
    double                        o[2][ROWS * DIM], lse[2][ROWS];
    int32_t                       count[2][ROW_BLOCKS], list[2][ROW_BLOCKS * KEY_BLOCKS];
    const ptxpack_attention_hooks hooks = {.mask = is_same_group};
    ptxpack_attention_lengths     arrays = {.hooks = &hooks};
    random_state                  random = random_start(SEED);
    random_normal(&random, PTXPACK_F16, q, ROWS * DIM);
    random_normal(&random, PTXPACK_F16, k, KEYS * DIM);
    random_normal(&random, PTXPACK_F16, v, KEYS * DIM);
    for (size_t i = 0; i < sizeof maskings / sizeof maskings[0]; i++) {
        ptxpack_attention_desc d = small(ROWS, KEYS);
        d.mask = maskings[i].mask;
        d.window_left = maskings[i].left;
        d.window_right = maskings[i].right;
        d.softcap = maskings[i].softcap;
        d.chunk = maskings[i].chunk;
        d.mask_mod = i % 2 != 0 ? every_other : NULL;
        d.block_rows = d.block_keys = 0;
        assert_int_equal(ptxpack_attention_reference_lengths(&d, q, k, v, NULL, &arrays, o[0], lse[0]),
                         PTXPACK_OK);
        d.block_rows = d.block_keys = 4;
        assert_int_equal(ptxpack_attention_blocks_reference(&d, &hooks, count[0], count[1], list[0], list[1]),
                         PTXPACK_OK);
        arrays.block_count = count[0];
        arrays.full_count = count[1];
        arrays.block_list = list[0];
        arrays.full_list = list[1];
        assert_int_equal(ptxpack_attention_reference_lengths(&d, q, k, v, NULL, &arrays, o[1], lse[1]),
                         PTXPACK_OK);
        assert_memory_equal(o[0], o[1], sizeof o[0]);
        assert_memory_equal(lse[0], lse[1], sizeof lse[0]);
    }
}

/* A full block has all pairs that the mask leaves, and the hook is not asked; a hook that masks one of these makes it a block of
 * the other list.  Rows 0 to 7 of keys 0 to 7 in groups of four: (0, 0) and (1, 1) have the diagonal, (1, 0) nothing. */
static void what_the_mask_masks_does_not_count(void **state)
{
    (void)state;
    enum { SIDE = 8, BLOCKS = 2 };
    int32_t count[BLOCKS], full_count[BLOCKS], list[BLOCKS * BLOCKS], full[BLOCKS * BLOCKS];
    const ptxpack_attention_hooks hooks = {.mask = is_same_group};
    ptxpack_attention_desc        d = small(SIDE, SIDE);
    d.mask = PTXPACK_MASK_CAUSAL_TOP_LEFT;
    assert_int_equal(ptxpack_attention_blocks_reference(&d, &hooks, count, full_count, list, full), PTXPACK_OK);
    for (int i = 0; i < BLOCKS; i++) {
        assert_int_equal(count[i], 0);
        assert_int_equal(full_count[i], 1);
        assert_int_equal(full[i * BLOCKS], i);
    }
    d.block_keys = SIDE; /* the one block of keys: rows 4 to 7 see keys that the hook masks */
    assert_int_equal(ptxpack_attention_blocks_reference(&d, &hooks, count, full_count, list, full), PTXPACK_OK);
    assert_int_equal(full_count[0], 1);
    assert_int_equal(count[1], 1);
    assert_int_equal(full_count[1], 0);
    d.mask_mod = NULL;
    assert_int_equal(ptxpack_attention_blocks_reference(&d, NULL, count, full_count, list, full), PTXPACK_OK);
    assert_int_equal(count[0] + count[1], 0);
    assert_int_equal(full_count[0] + full_count[1], BLOCKS);
}

/* No keys; only a full block, whose hook is not asked; and a block that the hook leaves nothing of. */
static void lists_mask_and_full_blocks_have_no_hook(void **state)
{
    (void)state;
    static uint16_t               q[ROWS * DIM], k[KEYS * DIM], v[KEYS * DIM];
    double                        o[ROWS * DIM], lse[ROWS];
    const int32_t                 count[ROW_BLOCKS] = {0, 0, 1}, full[ROW_BLOCKS] = {0, 2, 0};
    const int32_t                 list[ROW_BLOCKS * KEY_BLOCKS] = {[8] = 0};
    const int32_t                 full_list[ROW_BLOCKS * KEY_BLOCKS] = {[4] = 3, [5] = 77};
    const ptxpack_attention_hooks hooks = {.mask = is_same_group};
    ptxpack_attention_lengths     arrays = {.hooks = &hooks};
    ptxpack_attention_desc        d = small(ROWS, KEYS);
    for (int i = 0; i < KEYS * DIM; i++)
        v[i] = ptxpack_from_float(PTXPACK_F16, (float)(i / DIM));
    assert_int_equal(ptxpack_attention_reference_lengths(&d, q, k, v, NULL, &arrays, o, lse), PTXPACK_E_ARG);
    assert_string_equal(ptxpack_detail(NULL), "block_count is NULL");
    arrays.block_count = count;
    arrays.block_list = list;
    arrays.full_count = full;
    assert_int_equal(ptxpack_attention_reference_lengths(&d, q, k, v, NULL, &arrays, o, lse), PTXPACK_E_ARG);
    assert_string_equal(ptxpack_detail(NULL), "of full_count and full_list one alone is NULL");
    arrays.full_list = full_list;
    assert_int_equal(ptxpack_attention_reference_lengths(&d, q, k, v, NULL, &arrays, o, lse), PTXPACK_OK);
    assert_true(lse[0] == -INFINITY && o[0] == 0);
    assert_true(fabs(lse[5] - log(2)) < 1e-12 && fabs(o[5 * DIM] - 12.5) < 1e-12); /* keys 12 and 13 */
    for (int row = 8; row < ROWS;
         row++) /* at positions 11 to 13: groups 2 and 3 do not see group 0's other half */
        assert_true(((row + KEYS - ROWS) & 4) == 0 ? fabs(lse[row] - log(4)) < 1e-12 : lse[row] == -INFINITY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_fields_are_refused),
        cmocka_unit_test(rows_take_what_their_tiles_divide),
        cmocka_unit_test(full_lists_are_there_together),
        cmocka_unit_test(made_lists_change_nothing),
        cmocka_unit_test(what_the_mask_masks_does_not_count),
        cmocka_unit_test(lists_mask_and_full_blocks_have_no_hook),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
