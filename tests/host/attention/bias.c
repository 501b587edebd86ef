/* bias.c - a bias and bits: what descriptors and buffers may state, and what their elements are; without a GPU. */
#include "fixture.h"

#include "host/attention/bias/bias.h"

static ptxpack_attention_desc problem(void)
{
    ptxpack_attention_desc d = good;
    d.options = PTXPACK_BIAS | PTXPACK_MASK_BITS;
    d.bias_dtype = PTXPACK_BF16;
    d.bias = (ptxpack_strides){.batch = 1 << 20, .row = d.seqlen_kv, .head = 0};
    d.mask_bits = (ptxpack_strides){.batch = 0, .row = 1024, .head = 0};
    return d;
}

/* ---- fields --------------------------------------------------------------------------------------------- */
static void no_option(ptxpack_attention_desc *d) { d->options = PTXPACK_MASK_BITS; }
static void odd_type(ptxpack_attention_desc *d) { d->bias_dtype = PTXPACK_E4M3; }
static void only_stride(ptxpack_attention_desc *d)
{
    no_option(d);
    d->bias_dtype = (ptxpack_dtype)0;
}
static void negative(ptxpack_attention_desc *d) { d->bias.head = -1; }
static void long_row(ptxpack_attention_desc *d) { d->bias.row = (int64_t)1 << 30; }
static void odd_bytes(ptxpack_attention_desc *d) { d->mask_bits.head = 6; }
static void many_keys(ptxpack_attention_desc *d) { d->mask_keys = d->seqlen_kv + 1; }
static void no_keys(ptxpack_attention_desc *d) { d->mask_keys = -2; }
static void no_bits(ptxpack_attention_desc *d)
{
    d->options = PTXPACK_BIAS;
    d->mask_keys = 3;
}
static void bits_alone(ptxpack_attention_desc *d) { d->options = PTXPACK_BIAS; }

static void wrong_fields_are_named(void **state)
{
    (void)state;
    static const struct {
        void (*spoil)(ptxpack_attention_desc *d);
        const char *line;
    } cases[] = {
        {no_option, "bias_dtype is 2, but options lack PTXPACK_BIAS"},
        {odd_type, "bias_dtype 3 is none of 0 (f32), PTXPACK_F16 and PTXPACK_BF16"},
        {only_stride, "bias.batch is 1048576, but options lack PTXPACK_BIAS"},
        {negative, "bias.head is -1; it must be from 0 to 1099511627776"},
        {long_row, "bias.row is 1073741824; it must be from 0 to 1073741823"},
        {odd_bytes, "a distance of mask_bits is 6 bytes, not a multiple of 4"},
        {many_keys, "is neither PTXPACK_KEYS_OF_QUERIES nor from 0 to seqlen_kv"},
        {no_keys, "mask_keys -2 is neither"},
        {no_bits, "mask_keys is 3, but options lack PTXPACK_MASK_BITS"},
        {bits_alone, "mask_bits.row is 1024, but options lack PTXPACK_MASK_BITS"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ptxpack_attention_desc d = problem();
        attention_geometry     g;
        char                   line[PLAN_LINE] = "";
        assert_int_equal(ptxpack_attention_resolve(&d, &g, line), PTXPACK_OK);
        cases[i].spoil(&d);
        assert_int_equal(ptxpack_attention_resolve(&d, &g, line), PTXPACK_E_ARG);
        if (strstr(line, cases[i].line) == NULL)
            fail_msg("%s, not %s", line, cases[i].line);
    }
}

static void fp8_has_neither(void **state)
{
    (void)state;
    ptxpack                *handle = open_mock("sm_90");
    ptxpack_attention_plan *plan;
    for (int bits = 0; bits < 2; bits++) {
        ptxpack_attention_desc d = good;
        d.dtype = PTXPACK_E4M3;
        d.options = bits ? PTXPACK_MASK_BITS : PTXPACK_BIAS;
        assert_int_equal(ptxpack_attention_plan_create(handle, &d, &plan), PTXPACK_E_UNSUPPORTED);
        assert_non_null(strstr(ptxpack_detail(handle), bits ? "does not take PTXPACK_MASK_BITS with fp8"
                                                            : "does not take PTXPACK_BIAS with fp8"));
    }
    ptxpack_close(handle);
}

/* ---- bytes, and how they are read ----------------------------------------------------------------------- */
static int64_t symbol_of(const ptxpack_attention_desc *d, const char *name, bool varlen, bool even)
{
    ptxpack_symbol symbols[8];
    symbol_list    list = {.out = symbols, .cap = 8};
    attention_bias_symbols(d, varlen, even, &list);
    for (size_t i = 0; i < list.count; i++)
        if (strcmp(symbols[i].name, name) == 0)
            return symbols[i].value;
    return -1;
}

static int64_t pairs_of(const ptxpack_attention_desc *d, bool even)
{
    return symbol_of(d, "BIAS_PAIRS", false, even);
}

static void tiles_that_share_a_bias_are_neighbours(void **state)
{
    (void)state;
    ptxpack_attention_desc d = problem();
    const struct {
        int64_t batch_stride, head_stride;
        int     batch, heads;
        bool    shared, batches_first;
    } cases[] = {
        {800, 400, 3, 2, false, false}, {0, 400, 3, 2, true, true},   {800, 0, 3, 2, true, false},
        {0, 0, 3, 2, true, false},      {0, 400, 1, 2, false, false}, {800, 0, 3, 1, false, false},
        {0, 0, 3, 1, true, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        d.batch = cases[i].batch, d.heads_q = d.heads_kv = cases[i].heads;
        d.bias = (ptxpack_strides){.batch = cases[i].batch_stride, .row = 100, .head = cases[i].head_stride};
        assert_int_equal(attention_shares_bias(&d), cases[i].shared);
        assert_int_equal(symbol_of(&d, "BATCHES_FIRST", false, true), cases[i].batches_first);
        assert_int_equal(symbol_of(&d, "BATCHES_FIRST", true, true), false); /* sequences follow one another */
    }
    d.options = 0;
    assert_false(attention_shares_bias(&d));
    assert_int_equal(symbol_of(&d, "BATCHES_FIRST", false, true), false);
}

static void rows_are_read_in_pairs_where_they_can_be(void **state)
{
    (void)state;
    ptxpack_attention_desc d = problem();
    d.batch = 2, d.seqlen_q = 3, d.heads_q = d.heads_kv = 1, d.seqlen_kv = 7;
    d.bias = (ptxpack_strides){.batch = 100, .row = 10, .head = 0};
    assert_int_equal(pairs_of(&d, true), 1);
    assert_int_equal(pairs_of(&d, false), 0);
    assert_int_equal(attention_bias_bytes(&d),
                     2 * (100 + 2 * 10 + 8)); /* with the other one of the last pair */
    d.bias.batch = 101;
    assert_int_equal(pairs_of(&d, true), 0);
    assert_int_equal(attention_bias_bytes(&d), 2 * (101 + 2 * 10 + 7));
    d.bias = (ptxpack_strides){.batch = 0, .row = 0, .head = 0}; /* one row, without an element behind */
    assert_int_equal(pairs_of(&d, true), 0);
    assert_int_equal(attention_bias_bytes(&d), 2 * 7);
    d.seqlen_kv = 8;
    assert_int_equal(pairs_of(&d, true), 1);
    d.mask_bits = (ptxpack_strides){.batch = 0, .row = 8, .head = 0};
    assert_int_equal(attention_bits_bytes(&d), 2 * 8 + 4);
    d.options = 0;
    assert_int_equal(attention_bias_bytes(&d), 0);
    assert_int_equal(attention_bits_bytes(&d), 0);
}

static void addresses_are_checked(void **state)
{
    (void)state;
    ptxpack_attention_desc    d = problem();
    attention_geometry        g;
    char                      line[PLAN_LINE];
    ptxpack_attention_buffers b = {.size = sizeof b,
                                   .q = 1u << 28,
                                   .k = 2u << 28,
                                   .v = 3u << 28,
                                   .o = (uint64_t)4 << 28};
    assert_int_equal(ptxpack_attention_resolve(&d, &g, line), PTXPACK_OK);
    assert_false(g.varlen);
    assert_int_equal(ptxpack_attention_check_buffers(&g, 0, &b, line), PTXPACK_E_ARG);
    assert_string_equal(line, "bias is null");
    b.bias = ((uint64_t)5 << 28) + 8;
    assert_int_equal(ptxpack_attention_check_buffers(&g, 0, &b, line), PTXPACK_E_ARG);
    assert_non_null(strstr(line, "is not a multiple of 16"));
    b.bias += 8;
    b.mask_bits = b.o + 4;
    assert_int_equal(ptxpack_attention_check_buffers(&g, 0, &b, line), PTXPACK_E_ARG);
    assert_non_null(strstr(line, "o overlaps mask_bits"));
    b.mask_bits = ((uint64_t)6 << 28) + 4;
    assert_int_equal(ptxpack_attention_check_buffers(&g, 0, &b, line), PTXPACK_OK);
}

/* ---- bits ----------------------------------------------------------------------------------------------- */
static void bits_are_those_of_their_keys(void **state)
{
    (void)state;
    const uint32_t         bits[] = {1u << 5, 0, 1u << 31, 1};
    ptxpack_attention_desc d = problem();
    d.seqlen_q = 2, d.seqlen_kv = 64;
    d.mask_bits = (ptxpack_strides){.batch = 0, .row = 8, .head = 0};
    for (int64_t i = 0; i < 2; i++)
        for (int64_t j = 0; j < 64; j++)
            assert_int_equal(attention_bit_at(&d, bits, 0, 0, i, j, 2, 64),
                             i == 0 ? j == 5 : j == 31 || j == 32);
    d.mask_keys = 33; /* keys 0 to 30 have none */
    for (int64_t j = 0; j < 64; j++)
        assert_int_equal(attention_bit_at(&d, bits, 0, 0, 1, j, 2, 64), j < 31 || j == 31 + 31 || j == 31 + 32);
    d.mask_keys = PTXPACK_KEYS_OF_QUERIES; /* of 7: the last 7 keys of 20 */
    for (int64_t j = 0; j < 20; j++)
        assert_int_equal(attention_bit_at(&d, bits, 0, 0, 0, j, 7, 20), j < 13 || j == 13 + 5);
    assert_false(attention_bit_at(&d, bits, 0, 0, 0, 0, 7, 3)); /* of more queries than keys: bit 4 */
    assert_true(attention_bit_at(&d, bits, 0, 0, 0, 1, 7, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_fields_are_named),
        cmocka_unit_test(fp8_has_neither),
        cmocka_unit_test(rows_are_read_in_pairs_where_they_can_be),
        cmocka_unit_test(tiles_that_share_a_bias_are_neighbours),
        cmocka_unit_test(addresses_are_checked),
        cmocka_unit_test(bits_are_those_of_their_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
