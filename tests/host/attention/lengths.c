/* lengths.c - descriptors, buffers and the reference of sequences with lengths of their own; without a GPU (through
 * tests/fake/loader.c). */
#include "fixture.h"

/* ---- refusals ----------------------------------------------------------------------------------------- */
static void paged_q(ptxpack_attention_desc *d) { d->q_rows = PTXPACK_ROWS_PAGED; }
static void odd_rows(ptxpack_attention_desc *d) { d->kv_rows = (ptxpack_rows)3; }
static void split_rows(ptxpack_attention_desc *d) { d->split_rows = 7; }
static void odd_option(ptxpack_attention_desc *d) { d->options = 0xc00; }
static void packed_q_without_rows(ptxpack_attention_desc *d) { d->q_rows = PTXPACK_ROWS_PACKED; }
static void dense_q_with_rows(ptxpack_attention_desc *d) { d->rows_q = 10; }
static void packed_without_rows(ptxpack_attention_desc *d) { d->kv_rows = PTXPACK_ROWS_PACKED; }
static void dense_with_rows(ptxpack_attention_desc *d) { d->rows_kv = 10; }
static void dense_with_pages(ptxpack_attention_desc *d) { d->page_rows = 16; }
static void packed(ptxpack_attention_desc *d)
{
    d->kv_rows = PTXPACK_ROWS_PACKED;
    d->rows_kv = 14;
}
static void packed_map(ptxpack_attention_desc *d)
{
    packed(d);
    d->options = PTXPACK_ROW_MAP;
}
static void packed_pad(ptxpack_attention_desc *d)
{
    packed(d);
    d->options = PTXPACK_LEFT_PAD;
}
static void map_without_rows(ptxpack_attention_desc *d) { d->options = PTXPACK_ROW_MAP; }
static void paged(ptxpack_attention_desc *d)
{
    d->kv_rows = PTXPACK_ROWS_PAGED;
    d->rows_kv = 9;
    d->page_rows = 4;
    d->table_width = 2;
}
static void odd_page(ptxpack_attention_desc *d) { paged(d), d->page_rows = 12; }
static void large_page(ptxpack_attention_desc *d) { paged(d), d->page_rows = 2048; }
static void negative_page(ptxpack_attention_desc *d) { paged(d), d->page_rows = -4; }
static void no_table(ptxpack_attention_desc *d) { paged(d), d->table_width = 0; }
static void short_table(ptxpack_attention_desc *d) { paged(d), d->table_width = 1; }
static void large_table(ptxpack_attention_desc *d) { paged(d), d->batch = 3, d->table_width = 1431655766; }
static void short_page_stride(ptxpack_attention_desc *d)
{
    paged(d);
    d->k = (ptxpack_strides){64, 32, 16};
}

static const struct {
    void (*spoil)(ptxpack_attention_desc *d);
    const char *line;
} refusals[] = {
    {paged_q, "q_rows is 2, not"},
    {odd_rows, "kv_rows 3 is not a ptxpack_rows"},
    {split_rows, "split_rows 7 is not 0 or a multiple of 256"},
    {odd_option, "options has the unknown bits 0xc00"},
    {packed_q_without_rows, "rows_q is 0; with packed q it must be at least 1"},
    {dense_q_with_rows, "rows_q is 10; without packed q it must be 0"},
    {packed_without_rows, "rows_kv is 0; with packed or paged rows"},
    {dense_with_rows, "rows_kv is 10; without packed or paged rows"},
    {dense_with_pages, "page_rows is 16; without paged rows it must be 0"},
    {packed_map, "PTXPACK_ROW_MAP needs dense k and v"},
    {packed_pad, "PTXPACK_LEFT_PAD needs dense or paged k and v"},
    {map_without_rows, "rows_kv is 0; with packed or paged rows, or a row map,"},
    {odd_page, "page_rows 12 is not a power of two up to 1024"},
    {large_page, "page_rows 2048 is not a power of two"},
    {negative_page, "page_rows is -4"},
    {no_table, "table_width is 0"},
    {short_table, "table_width 1 times page_rows 4 is less than seqlen_kv 7"},
    {large_table, "batch 3 times table_width 1431655766 exceeds the 4294967295 entries of a page table"},
    {short_page_stride, "k.batch: stride 64 overlaps"},
};

static void bad_lengths_are_refused(void **state)
{
    (void)state;
    ptxpack *handle = open_mock(NULL);
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        ptxpack_attention_desc  d = good;
        ptxpack_attention_plan *plan;
        refusals[i].spoil(&d);
        assert_int_equal(ptxpack_attention_plan_create(handle, &d, &plan), PTXPACK_E_ARG);
        assert_null(plan);
        if (strstr(ptxpack_detail(handle), refusals[i].line) == NULL)
            fail_msg("\"%s\" does not contain \"%s\"", ptxpack_detail(handle), refusals[i].line);
    }
    ptxpack_close(handle);
}

/* A valid problem that no kernel takes yet is not a wrong one: the kernels for fp8 know one length for all. */
static void fp8_is_unsupported(void **state)
{
    (void)state;
    ptxpack                *handle = open_mock("sm_90");
    ptxpack_attention_desc  d = good;
    ptxpack_attention_plan *plan;
    d.options = PTXPACK_LENGTHS_KV;
    d.seqlen_q = 100;
    assert_int_equal(ptxpack_attention_plan_create(handle, &d, &plan), PTXPACK_OK);
    assert_string_equal(ptxpack_kernel_describe(ptxpack_attention_kernel(plan))->variant->file,
                        "attention/mma.ptx");
    ptxpack_attention_plan_free(plan);
    d.dtype = PTXPACK_E4M3;
    assert_int_equal(ptxpack_attention_plan_create(handle, &d, &plan), PTXPACK_E_UNSUPPORTED);
    assert_non_null(strstr(ptxpack_detail(handle), "does not take lengths of sequences"));
    ptxpack_close(handle);
}

/* ---- structs of callers that know nothing of lengths --------------------------------------------------- */
static void older_sizes_are_taken(void **state)
{
    (void)state;
    enum { ROWS = 37, ELEMENTS = 2 * ROWS * 6 * 16 };
    _Alignas(16) static uint16_t in[ELEMENTS], out[ELEMENTS];
    ptxpack                     *handle = open_mock(NULL);
    ptxpack_attention_desc       d = good;
    ptxpack_attention_plan      *plan;
    ptxpack_attention_buffers    b = {.size = offsetof(ptxpack_attention_buffers, starts_q),
                                      .q = (uintptr_t)in,
                                      .k = (uintptr_t)in,
                                      .v = (uintptr_t)in,
                                      .o = (uintptr_t)out};
    d.seqlen_q = ROWS;
    double flops = ptxpack_attention_flops(&d);
    memset(&d.q_rows, 0xee, sizeof d - offsetof(ptxpack_attention_desc, q_rows)); /* beyond the end: not read */
    memset(&b.starts_q, 0xee, sizeof b - offsetof(ptxpack_attention_buffers, starts_q));
    d.size = offsetof(ptxpack_attention_desc, q_rows);
    assert_int_equal(ptxpack_attention_plan_create(handle, &d, &plan), PTXPACK_OK);
    assert_true(ptxpack_attention_flops(&d) == flops && flops > 0);
    assert_int_equal(ptxpack_attention_launch(plan, &b, NULL), PTXPACK_OK);
    b.size -= 8;
    assert_int_equal(ptxpack_attention_launch(plan, &b, NULL), PTXPACK_E_ARG);
    assert_non_null(strstr(ptxpack_detail(handle), "buffers.size is"));
    ptxpack_attention_plan_free(plan);
    d.size += 4;
    assert_int_equal(ptxpack_attention_plan_create(handle, &d, &plan), PTXPACK_E_ARG);
    assert_non_null(strstr(ptxpack_detail(handle), "desc.size is"));
    ptxpack_close(handle);
}

/* ---- a launch's arrays --------------------------------------------------------------------------------- */
static void arrays_are_checked(void **state)
{
    (void)state;
    attention_geometry        g;
    char                      line[PLAN_LINE];
    ptxpack_attention_desc    d = good;
    ptxpack_attention_buffers b = {.size = sizeof b, .q = 0x10000, .k = 0x20000, .v = 0xc0000, .o = 0x40000};
    paged(&d);
    d.options = PTXPACK_LENGTHS_KV;
    assert_int_equal(ptxpack_attention_resolve(&d, &g, line), PTXPACK_OK);
    assert_int_equal(ptxpack_attention_check_buffers(&g, 0, &b, line), PTXPACK_E_ARG);
    assert_string_equal(line, "lengths_kv is null");
    b.lengths_kv = 0x50002;
    assert_int_equal(ptxpack_attention_check_buffers(&g, 0, &b, line), PTXPACK_E_ARG);
    assert_non_null(strstr(line, "lengths_kv: address 0x50002 is not a multiple of 4"));
    b.lengths_kv = 0x50000;
    assert_int_equal(ptxpack_attention_check_buffers(&g, 0, &b, line), PTXPACK_E_ARG);
    assert_string_equal(line, "page_table is null");
    b.page_table = b.o + 8;
    assert_int_equal(ptxpack_attention_check_buffers(&g, 0, &b, line), PTXPACK_E_ARG);
    assert_non_null(strstr(line, "o overlaps page_table"));
    b.page_table = 0x60000;
    b.lengths_q = 1; /* not asked for */
    assert_int_equal(ptxpack_attention_check_buffers(&g, 0, &b, line), PTXPACK_OK);
    assert_true(attention_array(&g, &b, ARRAY_LENGTHS_Q) == 0);
    assert_true(attention_array(&g, &b, ARRAY_PAGE_TABLE) == 0x60000);
}

/* ---- the reference --------------------------------------------------------------------------------------- */
enum { DIM = 16, HEADS = 2, PAGES = 6, PAGE = 2, WIDTH = 3, BATCH = 3 };
static const int32_t table[BATCH * WIDTH] = {4, 1, -1, 3, 5, 0, -1, -1, -1};
static const int32_t lengths_kv[BATCH] = {3, 6, 0}, starts_q[BATCH + 1] = {0, 2, 3, 5};

/* Against a dense problem of the same rows, sequence by sequence. */
static void pages_are_the_same_rows(void **state)
{
    (void)state;
    static uint16_t pool[2][PAGES * PAGE * HEADS * DIM], q[5 * HEADS * DIM],
        dense[2][WIDTH * PAGE * HEADS * DIM];
    double                 o[5 * HEADS * DIM], lse[HEADS * 5], one[2 * HEADS * DIM], one_lse[HEADS * 2];
    random_state           random = random_start(SEED);
    ptxpack_attention_desc d = {.size = sizeof d,
                                .dtype = PTXPACK_F16,
                                .batch = BATCH,
                                .seqlen_q = 2,
                                .seqlen_kv = WIDTH * PAGE,
                                .heads_q = HEADS,
                                .heads_kv = HEADS,
                                .head_dim = DIM,
                                .mask = PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT,
                                .q_rows = PTXPACK_ROWS_PACKED,
                                .kv_rows = PTXPACK_ROWS_PAGED,
                                .rows_q = 5,
                                .rows_kv = PAGES,
                                .page_rows = PAGE,
                                .table_width = WIDTH,
                                .options = PTXPACK_LENGTHS_KV};
    const ptxpack_attention_lengths arrays = {.starts_q = starts_q,
                                              .lengths_kv = lengths_kv,
                                              .page_table = table};
    for (int t = 0; t < 2; t++)
        random_normal(&random, PTXPACK_F16, pool[t], PAGES * PAGE * HEADS * DIM);
    random_normal(&random, PTXPACK_F16, q, 5 * HEADS * DIM);
    assert_int_equal(ptxpack_attention_reference_lengths(&d, q, pool[0], pool[1], NULL, &arrays, o, lse),
                     PTXPACK_OK);
    for (int i = 0; i < BATCH; i++) {
        int rows = starts_q[i + 1] - starts_q[i];
        if (lengths_kv[i] == 0) {
            for (int c = starts_q[i] * HEADS * DIM; c < starts_q[i + 1] * HEADS * DIM; c++)
                assert_true(o[c] == 0);
            assert_true(lse[starts_q[i]] == -INFINITY);
            continue;
        }
        ptxpack_attention_desc alone = {.size = sizeof alone,
                                        .dtype = PTXPACK_F16,
                                        .batch = 1,
                                        .seqlen_q = rows,
                                        .seqlen_kv = lengths_kv[i],
                                        .heads_q = HEADS,
                                        .heads_kv = HEADS,
                                        .head_dim = DIM,
                                        .mask = d.mask};
        for (int t = 0; t < 2; t++)
            for (int j = 0; j < lengths_kv[i]; j++)
                memcpy(dense[t] + j * HEADS * DIM,
                       pool[t] + (table[i * WIDTH + j / PAGE] * PAGE + j % PAGE) * HEADS * DIM,
                       HEADS * DIM * sizeof(uint16_t));
        assert_int_equal(ptxpack_attention_reference(&alone, q + starts_q[i] * HEADS * DIM, dense[0], dense[1],
                                                     NULL, one, one_lse),
                         PTXPACK_OK);
        for (int c = 0; c < rows * HEADS * DIM; c++)
            assert_true(o[starts_q[i] * HEADS * DIM + c] == one[c]);
        for (int h = 0; h < HEADS; h++)
            for (int r = 0; r < rows; r++)
                assert_true(lse[h * 5 + starts_q[i] + r] == one_lse[h * rows + r]);
    }
}

static void wrong_arrays_are_refused(void **state)
{
    (void)state;
    static const int32_t long_one[2] = {8, 7}, negative[2] = {-1, 7}, far_page[4] = {0, 9, 0, 1},
                         map[2] = {0, 3};
    uint16_t                  data[8] = {0};
    ptxpack_attention_desc    d = good;
    ptxpack_attention_lengths l = {.lengths_kv = NULL};
    d.options = PTXPACK_LENGTHS_KV;
#define REFUSED(text)                                                                                 \
    assert_int_equal(ptxpack_attention_reference_lengths(&d, data, data, data, NULL, &l, NULL, NULL), \
                     PTXPACK_E_ARG);                                                                  \
    if (strstr(ptxpack_detail(NULL), text) == NULL)                                                   \
    fail_msg("\"%s\" does not contain \"%s\"", ptxpack_detail(NULL), text)
    REFUSED("lengths_kv is NULL");
    l.lengths_kv = long_one;
    REFUSED("sequence 0: lengths_kv says 8 rows, not 0 to 7");
    l.lengths_kv = negative;
    REFUSED("sequence 0: lengths_kv says -1 rows");
    paged(&d);
    d.options = 0;
    l = (ptxpack_attention_lengths){.page_table = far_page};
    REFUSED("sequence 0: page_table[1] is 9, not one of 9 pages");
    d = good;
    d.options = PTXPACK_ROW_MAP;
    d.rows_kv = 3;
    l = (ptxpack_attention_lengths){.row_map = map};
    REFUSED("sequence 1: row_map says 3, not one of 3");
#undef REFUSED
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_lengths_are_refused), cmocka_unit_test(fp8_is_unsupported),
        cmocka_unit_test(older_sizes_are_taken),   cmocka_unit_test(arrays_are_checked),
        cmocka_unit_test(pages_are_the_same_rows), cmocka_unit_test(wrong_arrays_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
