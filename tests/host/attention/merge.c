/* merge.c - merges of two partial attentions without a GPU: what is refused, and the reference. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "host/attention/merge/inspect.h"
#include "tools/problem/random.h"

static const ptxpack_attention_merge_desc good = {
    .size = sizeof good,
    .dtype = PTXPACK_F16,
    .batch = 2,
    .seqlen_q = 3,
    .heads_q = 4,
    .head_dim = 16,
};

/* ---- refusals ----------------------------------------------------------------------------------------- */
static void odd_size(ptxpack_attention_merge_desc *d) { d->size -= 4; }
static void odd_type(ptxpack_attention_merge_desc *d) { d->dtype = PTXPACK_E4M3; }
static void odd_option(ptxpack_attention_merge_desc *d) { d->options = 6; }
static void no_rows(ptxpack_attention_merge_desc *d) { d->seqlen_q = 0; }
static void odd_dim(ptxpack_attention_merge_desc *d) { d->head_dim = 12; }
static void large_dim(ptxpack_attention_merge_desc *d) { d->head_dim = 1032; }
static void odd_stride(ptxpack_attention_merge_desc *d) { d->o_b = (ptxpack_strides){192, 64, 20}; }
static void repeated_o(ptxpack_attention_merge_desc *d) { d->o = (ptxpack_strides){0, 64, 16}; }
static void short_stride(ptxpack_attention_merge_desc *d) { d->o_a = (ptxpack_strides){64, 64, 16}; }
static void negative_stride(ptxpack_attention_merge_desc *d) { d->o = (ptxpack_strides){-192, 64, 16}; }
static void far_stride(ptxpack_attention_merge_desc *d) { d->o = (ptxpack_strides){INT64_MAX - 7, 64, 16}; }

static const struct {
    void (*spoil)(ptxpack_attention_merge_desc *d);
    const char *line;
} refusals[] = {
    {odd_size, "desc.size is "},
    {odd_type, "dtype 3 is neither PTXPACK_F16 nor PTXPACK_BF16"},
    {odd_option, "options has the unknown bits 0x6"},
    {no_rows, "seqlen_q is 0; it must be at least 1"},
    {odd_dim, "head_dim 12 is not a multiple of 8 up to 1024"},
    {large_dim, "head_dim 1032 is not a multiple of 8 up to 1024"},
    {odd_stride, "o_b.head: stride 20 is not a multiple of 8 elements"},
    {repeated_o, "o.batch: stride 0 would write every element 2 times"},
    {short_stride, "o_a.row: stride 64 overlaps the 128 elements inside it"},
    {negative_stride, "o.batch: stride -192 is negative"},
    {far_stride, "o.batch: stride 9223372036854775800 times 2 overflows"},
};

static void bad_descriptors_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        ptxpack_attention_merge_desc  d = good;
        ptxpack_attention_merge_plan *plan;
        refusals[i].spoil(&d);
        assert_int_equal(ptxpack_attention_merge_plan_create(NULL, &d, &plan), PTXPACK_E_ARG);
        assert_null(plan);
        if (strncmp(ptxpack_detail(NULL), refusals[i].line, strlen(refusals[i].line)) != 0)
            fail_msg("\"%s\" does not begin with \"%s\"", ptxpack_detail(NULL), refusals[i].line);
    }
}

/* o may be a part, and lse a part's, exactly; nothing else may overlap. */
static void buffers_are_checked(void **state)
{
    static const struct {
        int         member; /* of o_a, lse_a, o_b, lse_b, o, lse */
        uint64_t    address;
        const char *line; /* NULL: it is fine */
    } changes[] = {
        {0, 0, "o_a is null"},
        {5, 0, NULL},
        {2, 0x20008, "o_b: address 0x20008 is not a multiple of 16 bytes"},
        {1, 0x40002, "lse_a: address 0x40002 is not a multiple of 4 bytes"},
        {4, 0xfffffffffffffff0, "o: address 0xfffffffffffffff0 plus its 768 bytes wraps around"},
        {4, 0x10000, NULL},
        {4, 0x20000, NULL},
        {4, 0x10010, "o overlaps o_a: 0x10010 and 0x10000"},
        {4, 0x202f0, "o overlaps o_b: 0x202f0 and 0x20000"},
        {4, 0x20300, NULL},
        {4, 0x40050, "o overlaps lse_a: 0x40050 and 0x40000"},
        {5, 0x40000, NULL},
        {5, 0x50000, NULL},
        {5, 0x4ffa4, "lse overlaps lse_b: 0x4ffa4 and 0x50000"},
        {5, 0x30000, "lse overlaps o: 0x30000 and 0x30000"},
        {5, 0x10000, "lse overlaps o_a: 0x10000 and 0x10000"},
    };
    char           line[PLAN_LINE];
    merge_geometry g;
    (void)state;
    assert_int_equal(merge_resolve(&good, &g, line), PTXPACK_OK);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        ptxpack_attention_merge_buffers b = {sizeof b, 0x10000, 0x40000, 0x20000, 0x50000,
                                             0x30000,  0x60000, 0,       0};
        uint64_t                       *members[] = {&b.o_a, &b.lse_a, &b.o_b, &b.lse_b, &b.o, &b.lse};
        *members[changes[i].member] = changes[i].address;
        ptxpack_status status = merge_check(&g, &b, line);
        assert_int_equal(status, changes[i].line == NULL ? PTXPACK_OK : PTXPACK_E_ARG);
        if (changes[i].line != NULL)
            assert_string_equal(line, changes[i].line);
        b.size = 8;
        assert_int_equal(merge_check(&g, &b, line), PTXPACK_E_ARG);
    }
}

/* In place means with the same strides and type. */
static void in_place_needs_the_same_layout(void **state)
{
    const ptxpack_attention_merge_buffers b = {sizeof b, 0x10000, 0x40000, 0x20000, 0x50000, 0x10000, 0, 0, 0};
    char                                  line[PLAN_LINE];
    merge_geometry                        g;
    ptxpack_attention_merge_desc          d = good;
    (void)state;
    d.o = (ptxpack_strides){192, 16, 48}; /* as many bytes, heads first */
    assert_int_equal(merge_resolve(&d, &g, line), PTXPACK_OK);
    assert_int_equal(merge_check(&g, &b, line), PTXPACK_E_ARG);
    d.o_a = d.o;
    assert_int_equal(merge_resolve(&d, &g, line), PTXPACK_OK);
    assert_int_equal(merge_check(&g, &b, line), PTXPACK_OK);
    d.options = PTXPACK_MERGE_F32_PARTS;
    assert_int_equal(merge_resolve(&d, &g, line), PTXPACK_OK);
    assert_int_equal(merge_check(&g, &b, line), PTXPACK_E_ARG);
}

static void too_many_vectors_are_unsupported(void **state)
{
    ptxpack                      *handle;
    ptxpack_options               options = {.size = sizeof options, .offline = true, .no_cache = true};
    ptxpack_attention_merge_desc  d = good;
    ptxpack_attention_merge_plan *plan;
    (void)state;
    d.seqlen_q = 1 << 30;
    options.arch = "sm_80";
    assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_OK);
    assert_int_equal(ptxpack_attention_merge_plan_create(handle, &d, &plan), PTXPACK_E_UNSUPPORTED);
    assert_non_null(strstr(ptxpack_detail(handle), "counts batch 2 times seqlen_q 1073741824 times heads_q 4"));
    ptxpack_close(handle);
}

/* ---- the reference ------------------------------------------------------------------------------------ */
/* The attention of one query to keys with scores s and values v: all of them, or two parts merged. */
static void parts_of_an_attention_merge_to_it(void **state)
{
    enum { KEYS = 7, FIRST = 3, DIM = 8 };
    static const double          s[KEYS] = {0.5, -3, 8, 7.5, 2, -60, 1};
    ptxpack_attention_merge_desc d = {.size = sizeof d,
                                      .dtype = PTXPACK_F16,
                                      .batch = 1,
                                      .seqlen_q = 1,
                                      .heads_q = 1,
                                      .head_dim = DIM,
                                      .options = PTXPACK_MERGE_F32_PARTS};
    double                       sum[2] = {0, 0}, o[2][DIM] = {{0}}, merged[DIM], lse;
    float                        part[2][DIM], of_part[2];
    (void)state;
    for (int j = 0; j < KEYS; j++) {
        sum[j >= FIRST] += exp(s[j]);
        for (int c = 0; c < DIM; c++)
            o[j >= FIRST][c] += exp(s[j]) * (j - c);
    }
    for (int p = 0; p < 2; p++) {
        of_part[p] = (float)log(sum[p]);
        for (int c = 0; c < DIM; c++)
            part[p][c] = (float)(o[p][c] / sum[p]);
    }
    assert_int_equal(ptxpack_attention_merge_reference(&d, part[0], &of_part[0], part[1], &of_part[1], merged,
                                                       &lse),
                     PTXPACK_OK);
    assert_true(fabs(lse - log(sum[0] + sum[1])) < 1e-6);
    for (int c = 0; c < DIM; c++)
        assert_true(fabs(merged[c] - (o[0][c] + o[1][c]) / (sum[0] + sum[1])) < 1e-5);
}

/* The same of the library's own reference, in its layout of o and lse: the first keys, the others, and all. */
static void attention_to_parts_of_the_keys_merges(void **state)
{
    enum {
        BATCH = 2,
        ROWS = 3,
        KEYS = 11,
        FIRST = 4,
        HEADS = 4,
        KV_HEADS = 2,
        DIM = 16,
        VECTORS = BATCH * ROWS * HEADS
    };
    static uint16_t        q[VECTORS * DIM], k[BATCH * KEYS * KV_HEADS * DIM], v[BATCH * KEYS * KV_HEADS * DIM];
    static double          o[3][VECTORS * DIM], lse[3][VECTORS], merged[VECTORS * DIM], merged_lse[VECTORS];
    static float           part[2][VECTORS * DIM], of_part[2][VECTORS];
    const ptxpack_strides  keys = {KEYS * KV_HEADS * DIM, KV_HEADS * DIM, DIM};
    static const int       first[3] = {0, FIRST, 0}, count[3] = {FIRST, KEYS - FIRST, KEYS};
    ptxpack_attention_desc d = {.size = sizeof d,
                                .dtype = PTXPACK_F16,
                                .batch = BATCH,
                                .seqlen_q = ROWS,
                                .heads_q = HEADS,
                                .heads_kv = KV_HEADS,
                                .head_dim = DIM,
                                .k = keys,
                                .v = keys};
    random_state           random = random_start(7);
    (void)state;
    random_normal(&random, PTXPACK_F16, q, sizeof q / 2);
    random_normal(&random, PTXPACK_F16, k, sizeof k / 2);
    random_normal(&random, PTXPACK_F16, v, sizeof v / 2);
    for (int i = 0; i < 3; i++) {
        d.seqlen_kv = count[i];
        assert_int_equal(ptxpack_attention_reference(&d, q, k + first[i] * KV_HEADS * DIM,
                                                     v + first[i] * KV_HEADS * DIM, NULL, o[i], lse[i]),
                         PTXPACK_OK);
        for (int j = 0; j < VECTORS * DIM && i < 2; j++)
            part[i][j] = (float)o[i][j];
        for (int j = 0; j < VECTORS && i < 2; j++)
            of_part[i][j] = (float)lse[i][j];
    }
    const ptxpack_attention_merge_desc m = {.size = sizeof m,
                                            .dtype = PTXPACK_F16,
                                            .batch = BATCH,
                                            .seqlen_q = ROWS,
                                            .heads_q = HEADS,
                                            .head_dim = DIM,
                                            .options = PTXPACK_MERGE_F32_PARTS};
    assert_int_equal(ptxpack_attention_merge_reference(&m, part[0], of_part[0], part[1], of_part[1], merged,
                                                       merged_lse),
                     PTXPACK_OK);
    for (int j = 0; j < VECTORS * DIM; j++)
        assert_true(fabs(merged[j] - o[2][j]) <
                    1e-3); /* the reference rounds weights to f16, with other references */
    for (int j = 0; j < VECTORS; j++)
        assert_true(fabs(merged_lse[j] - lse[2][j]) < 1e-3);
}

static void parts_without_keys_count_nothing(void **state)
{
    static const uint16_t a[8] = {0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700, 0x4800}; /* 1 .. 8 */
    const float           none = -INFINITY, some = 1.25f;
    uint16_t              nan[8];
    double                o[8], lse;
    ptxpack_attention_merge_desc d = good;
    (void)state;
    memset(nan, 0xff, sizeof nan);
    d.batch = d.seqlen_q = d.heads_q = 1;
    d.head_dim = 8;
    assert_int_equal(ptxpack_attention_merge_reference(&d, a, &some, nan, &none, o, &lse), PTXPACK_OK);
    assert_true(lse == 1.25);
    for (int c = 0; c < 8; c++)
        assert_true(o[c] == c + 1);
    assert_int_equal(ptxpack_attention_merge_reference(&d, nan, &none, nan, &none, o, &lse), PTXPACK_OK);
    assert_true(lse == -INFINITY && o[0] == 0 && o[7] == 0);
    assert_int_equal(ptxpack_attention_merge_reference(&d, a, &some, nan, &some, o, NULL), PTXPACK_OK);
    assert_true(isnan(o[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_descriptors_are_refused),
        cmocka_unit_test(buffers_are_checked),
        cmocka_unit_test(in_place_needs_the_same_layout),
        cmocka_unit_test(too_many_vectors_are_unsupported),
        cmocka_unit_test(parts_of_an_attention_merge_to_it),
        cmocka_unit_test(attention_to_parts_of_the_keys_merges),
        cmocka_unit_test(parts_without_keys_count_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
