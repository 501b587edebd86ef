/* arrivals.c - keys that arrive while a launch runs, without a GPU: what is refused, who takes them, and the reference. */
#include "fixture.h"

#include "host/attention/arrivals/arrivals.h"

/* Pieces 0 and 3 of four of 128 rows. */
static const ptxpack_attention_desc pieces = {
    .size = sizeof pieces,
    .dtype = PTXPACK_BF16,
    .batch = 2,
    .seqlen_q = 256,
    .seqlen_kv = 512,
    .heads_q = 4,
    .heads_kv = 2,
    .head_dim = 64,
    .mask = PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT,
    .arrival_rows = 128,
    .early_rows = 128,
    .early_keys = 256,
};

/* ---- refusals ----------------------------------------------------------------------------------------- */
static void reserved(ptxpack_attention_desc *d) { d->reserved_arrival = 7; }
static void negative(ptxpack_attention_desc *d) { d->arrival_rows = -128; }
static void early_alone(ptxpack_attention_desc *d) { d->arrival_rows = d->early_keys = 0; }
static void keys_alone(ptxpack_attention_desc *d) { d->arrival_rows = d->early_rows = 0; }
static void no_mask(ptxpack_attention_desc *d) { d->mask = PTXPACK_MASK_NONE; }
static void chunks(ptxpack_attention_desc *d) { d->chunk = 64; }
static void few_keys(ptxpack_attention_desc *d) { d->seqlen_kv = 255, d->early_rows = d->early_keys = 0; }
static void all_early(ptxpack_attention_desc *d) { d->early_rows = 256; }
static void no_key(ptxpack_attention_desc *d) { d->early_keys = 257; }
static void nobody_early(ptxpack_attention_desc *d) { d->early_rows = 0; }

static void bad_fields_are_refused(void **state)
{
    (void)state;
    static const bad_field refusals[] = {
        {reserved, "reserved_arrival is 7; it must be 0"},
        {negative, "arrival_rows is -128; it must be at least 0"},
        {early_alone, "early_rows is 128; without arrival_rows it must be 0"},
        {keys_alone, "early_keys is 256; without arrival_rows it must be 0"},
        {no_mask, "arrival_rows needs PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, without chunks"},
        {chunks, "arrival_rows needs PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, without chunks"},
        {few_keys, "seqlen_kv 255 is less than seqlen_q 256, as it may not be with arrival_rows"},
        {all_early, "early_rows is 256, not from 0 to below seqlen_q 256"},
        {no_key, "early_keys is 257, not from 0 to 256: the first row must see a key"},
        {nobody_early, "early_keys is 256, not from 0 to 0: early_rows is 0"},
    };
    assert_refused_fields(&pieces, refusals, sizeof refusals / sizeof refusals[0]);
}

/* Why the first row whose id has `word` does not take the problem; NULL: it takes it.  The mock has no tensor maps, which
 * rows of wgmma need besides. */
static void assert_refused(const ptxpack_attention_desc *d, const char *word, const char *why)
{
    size_t                 count, i = 0;
    char                   line[PLAN_LINE] = "";
    attention_geometry     g;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    ptxpack               *handle = open_mock("sm_90");
    assert_int_equal(ptxpack_attention_resolve(d, &g, line), PTXPACK_OK);
    while (i < count && strstr(rows[i].id, word) == NULL)
        i++;
    assert_true(i < count);
    const char *got = strstr(word, "wgmma") != NULL
                          ? attention_refuse_pieces(d, &g, &rows[i], line)
                          : plan_row_refusal(&attention_op, handle, &ptxpack_device(handle)->caps, d, &rows[i],
                                             line);
    if (why == NULL ? got != NULL : got == NULL || strstr(got, why) == NULL)
        fail_msg("%s: \"%s\"", rows[i].id, got != NULL ? got : "taken");
    ptxpack_close(handle);
}

static void rows_take_what_their_blocks_divide(void **state)
{
    (void)state;
    ptxpack_attention_desc d = pieces;
    assert_refused(&d, "wgmma_sm90_d64_128x128", NULL);
    assert_refused(&d, "wgmma_sm90_d64_192x128", NULL);
    assert_refused(&d, "mma_sm80_d64_128x64", "does not wait for keys (arrival_rows)");
    d.seqlen_q = 4;
    d.early_rows = d.early_keys = 0;
    assert_refused(&d, "decode_sm90_d64_16x8", "does not wait for keys (arrival_rows)");
    d = pieces;
    assert_refused(&d, "wgmma_sm90_d512", "does not wait for keys (arrival_rows)");
    d.arrival_rows = 64;
    assert_refused(&d, "wgmma_sm90_d64_64x128", "takes multiples of 128 keys: arrival_rows is 64");
    assert_refused(&d, "wgmma_sm90_d128_64x64", NULL);
    d.early_rows = 120;
    assert_refused(&d, "wgmma_sm90_d128_64x64", "takes multiples of 16 rows: early_rows is 120");
    d.early_rows = d.early_keys = 0;
    assert_refused(&d, "wgmma_sm90_d128_192x64", NULL);
    d = pieces;
    d.options = PTXPACK_LENGTHS_KV;
    assert_refused(&d, "wgmma_sm90_d64_128x128",
                   "does not take lengths of sequences, packed or paged rows with");
    d.options = PTXPACK_ALIBI;
    assert_refused(&d, "wgmma_sm90_d64_128x128", "does not take PTXPACK_ALIBI with arrival_rows");
    d.options = PTXPACK_BIAS;
    assert_refused(&d, "wgmma_sm90_d64_128x128", "does not take a bias or bits with arrival_rows");
    d.options = 0;
    d.block_rows = d.block_keys = 128;
    assert_refused(&d, "wgmma_sm90_d64_128x128", "does not take lists of blocks with arrival_rows");
    d.block_rows = d.block_keys = 0;
    d.dtype = PTXPACK_E4M3;
    assert_refused(&d, "wgmma_sm90_fp8_d64", "does not wait for keys (arrival_rows)");
}

/* ---- addresses ---------------------------------------------------------------------------------------- */
static void assert_line(const ptxpack_attention_buffers *b, const char *want)
{
    attention_geometry g;
    char               line[PLAN_LINE] = "";
    assert_int_equal(ptxpack_attention_resolve(&pieces, &g, line), PTXPACK_OK);
    assert_int_equal(ptxpack_attention_check_buffers(&g, 0, b, line),
                     want == NULL ? PTXPACK_OK : PTXPACK_E_ARG);
    if (want != NULL && strstr(line, want) == NULL)
        fail_msg("\"%s\" has no \"%s\"", line, want);
}

static void addresses_are_checked(void **state)
{
    (void)state;
    const ptxpack_attention_buffers all = {.size = sizeof all,
                                           .q = 1 << 24,
                                           .k = 2 << 24,
                                           .v = 3 << 24,
                                           .o = 4 << 24,
                                           .arrivals = 5 << 24,
                                           .k_own = 6 << 24,
                                           .v_own = 7 << 24};
    ptxpack_attention_buffers       b = all;
    assert_line(&b, NULL);
    b.k_own = b.v_own = 0;
    assert_line(&b, NULL);
    b.k_own = all.k_own;
    assert_line(&b, "v_own");
    b = all;
    b.k_own += 8;
    assert_line(&b, "k_own");
    b = all;
    b.arrivals = 0;
    assert_line(&b, "arrivals");
    b.arrivals = all.arrivals + 2;
    assert_line(&b, "arrivals");
    b.arrivals = all.o + 16; /* written by the launch itself */
    assert_line(&b, "overlap");
}

/* ---- what it computes --------------------------------------------------------------------------------- */
/* Two runs of rows give what two attentions give: of the early rows to the first 128 keys, and of the others to all. */
static void reference_has_two_runs(void **state)
{
    (void)state;
    enum { BATCH = 2, ROWS = 256, KEYS = 512, HEADS = 4, HEADS_KV = 2, DIM = 64, RUN = 128 };
    static uint16_t q[BATCH * ROWS * HEADS * DIM], k[BATCH * KEYS * HEADS_KV * DIM],
        v[BATCH * KEYS * HEADS_KV * DIM];
    static double both[BATCH * ROWS * HEADS * DIM], one[BATCH * ROWS * HEADS * DIM];
    random_state  random = random_start(SEED);
    random_normal(&random, PTXPACK_BF16, q, sizeof q / 2);
    random_normal(&random, PTXPACK_BF16, k, sizeof k / 2);
    random_normal(&random, PTXPACK_BF16, v, sizeof v / 2);
    assert_int_equal(ptxpack_attention_reference(&pieces, q, k, v, NULL, both, NULL), PTXPACK_OK);
    double flops = 0;
    for (int run = 0; run < 2; run++) {
        ptxpack_attention_desc d = pieces;
        d.arrival_rows = d.early_rows = d.early_keys = 0;
        d.seqlen_q = RUN;
        d.seqlen_kv = run == 0 ? RUN : KEYS;
        d.q = d.o = (ptxpack_strides){ROWS * HEADS * DIM, HEADS * DIM, DIM};
        d.k = d.v = (ptxpack_strides){KEYS * HEADS_KV * DIM, HEADS_KV * DIM, DIM};
        assert_int_equal(ptxpack_attention_reference(&d, q + run * RUN * HEADS * DIM, k, v, NULL,
                                                     one + run * RUN * HEADS * DIM, NULL),
                         PTXPACK_OK);
        flops += ptxpack_attention_flops(&d);
    }
    assert_memory_equal(both, one, sizeof both);
    assert_true(flops > 0 && ptxpack_attention_flops(&pieces) == flops);
}

/* What callers knew before has none of it. */
static void older_descriptors_have_none(void **state)
{
    (void)state;
    ptxpack_attention_desc older = pieces, whole;
    char                   line[PLAN_LINE];
    older.size = offsetof(ptxpack_attention_desc, arrival_rows);
    assert_int_equal(attention_whole_desc(&older, &whole, line), PTXPACK_OK);
    assert_int_equal(whole.arrival_rows | whole.early_rows | whole.early_keys, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_fields_are_refused),      cmocka_unit_test(rows_take_what_their_blocks_divide),
        cmocka_unit_test(addresses_are_checked),       cmocka_unit_test(reference_has_two_runs),
        cmocka_unit_test(older_descriptors_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
