/* append.c - appends to caches without a GPU: what is refused, and the reference against examples by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "host/attention/append/inspect.h"

static const ptxpack_attention_append_desc good = {
    .size = sizeof good,
    .dtype = PTXPACK_F16,
    .batch = 2,
    .seqlen_new = 3,
    .seqlen_kv = 10,
    .heads_kv = 2,
    .heads_q = 4,
    .head_dim = 32,
    .rotary_dim = 16,
    .positions = 10,
};

/* ---- refusals ----------------------------------------------------------------------------------------- */
static void odd_size(ptxpack_attention_append_desc *d) { d->size += 8; }
static void odd_type(ptxpack_attention_append_desc *d) { d->dtype = (ptxpack_dtype)0; }
static void no_rows(ptxpack_attention_append_desc *d) { d->seqlen_new = 0; }
static void negative_q(ptxpack_attention_append_desc *d) { d->heads_q = -1; }
static void odd_dim(ptxpack_attention_append_desc *d) { d->head_dim = 36; }
static void odd_dim_of_bytes(ptxpack_attention_append_desc *d)
{
    d->kv_dtype = PTXPACK_INT8;
    d->head_dim = 40;
}
static void bad_kv_dtype(ptxpack_attention_append_desc *d) { d->kv_dtype = (ptxpack_dtype)6; }
static void odd_dim_of_blocks(ptxpack_attention_append_desc *d)
{
    d->kv_dtype = PTXPACK_Q8_0;
    d->head_dim = 48;
}
static void odd_stride_of_blocks(ptxpack_attention_append_desc *d)
{
    d->kv_dtype = PTXPACK_Q8_0;
    d->k = (ptxpack_strides){4096, 80, 32};
}
static void descales_of_blocks(ptxpack_attention_append_desc *d)
{
    d->kv_dtype = PTXPACK_Q8_0;
    d->options |= PTXPACK_DESCALES_TENSOR;
}
static void bad_reserved(ptxpack_attention_append_desc *d) { d->reserved = 1; }
static void descales_of_nothing(ptxpack_attention_append_desc *d) { d->options |= PTXPACK_DESCALES_HEAD; }
static void odd_rotary(ptxpack_attention_append_desc *d) { d->rotary_dim = 24; }
static void long_rotary(ptxpack_attention_append_desc *d) { d->rotary_dim = 48; }
static void no_positions(ptxpack_attention_append_desc *d) { d->positions = 0; }
static void no_rotary(ptxpack_attention_append_desc *d) { d->rotary_dim = 0; }
static void only_copy(ptxpack_attention_append_desc *d) { d->rotary_dim = d->positions = 0; }
static void pad_without_rotary(ptxpack_attention_append_desc *d)
{
    only_copy(d), d->options = PTXPACK_LEFT_PAD;
}
static void paged_new(ptxpack_attention_append_desc *d) { d->new_rows = PTXPACK_ROWS_PAGED; }
static void packed_kv(ptxpack_attention_append_desc *d) { d->kv_rows = PTXPACK_ROWS_PACKED; }
static void odd_option(ptxpack_attention_append_desc *d) { d->options = PTXPACK_LENGTHS_KV; }
static void packed_without_rows(ptxpack_attention_append_desc *d) { d->new_rows = PTXPACK_ROWS_PACKED; }
static void dense_with_rows(ptxpack_attention_append_desc *d) { d->rows_kv = 4; }
static void paged(ptxpack_attention_append_desc *d)
{
    d->kv_rows = PTXPACK_ROWS_PAGED;
    d->rows_kv = 9;
    d->page_rows = 4;
    d->table_width = 3;
}
static void paged_map(ptxpack_attention_append_desc *d) { paged(d), d->options = PTXPACK_ROW_MAP; }
static void odd_page(ptxpack_attention_append_desc *d) { paged(d), d->page_rows = 12; }
static void large_page(ptxpack_attention_append_desc *d) { paged(d), d->page_rows = 2048; }
static void short_table(ptxpack_attention_append_desc *d) { paged(d), d->table_width = 2; }
static void no_table(ptxpack_attention_append_desc *d) { paged(d), d->table_width = 0; }
static void repeated_k(ptxpack_attention_append_desc *d) { d->k = (ptxpack_strides){0, 64, 32}; }
static void short_q(ptxpack_attention_append_desc *d) { d->q_out = (ptxpack_strides){384, 64, 32}; }

static const struct {
    void (*spoil)(ptxpack_attention_append_desc *d);
    const char *line;
} refusals[] = {
    {odd_size, "desc.size is "},
    {odd_dim_of_bytes, "head_dim 40 is not a multiple of 16 up to 1024"},
    {bad_kv_dtype, "kv_dtype 6 is none of 0, PTXPACK_E4M3, PTXPACK_INT8, PTXPACK_Q8_0 and dtype"},
    {odd_dim_of_blocks, "head_dim 48 is not a multiple of 32 up to 1024"},
    {odd_stride_of_blocks, "k.row: stride 80 is not a multiple of 32 elements"},
    {descales_of_blocks, "PTXPACK_DESCALES_TENSOR and PTXPACK_DESCALES_HEAD need a kv_dtype of bytes"},
    {bad_reserved, "reserved is 1; it must be 0"},
    {descales_of_nothing, "PTXPACK_DESCALES_TENSOR and PTXPACK_DESCALES_HEAD need a kv_dtype of bytes"},
    {odd_type, "dtype 0 is neither PTXPACK_F16 nor PTXPACK_BF16"},
    {no_rows, "seqlen_new is 0; it must be at least 1"},
    {negative_q, "heads_q is -1; it must be at least 0"},
    {odd_dim, "head_dim 36 is not a multiple of 8 up to 1024"},
    {odd_rotary, "rotary_dim 24 is not a multiple of 16 up to head_dim 32"},
    {long_rotary, "rotary_dim 48 is not a multiple of 16 up to head_dim 32"},
    {no_positions, "positions is 0 with rotary_dim 16; cos and sin have at least one row"},
    {no_rotary, "positions is 10 with rotary_dim 0; cos and sin have no rows then"},
    {only_copy, "heads_q is 4, but without a rotary_dim q stays as it is"},
    {pad_without_rotary, "options 0x8: left_pad and the kinds of rotary embedding need a rotary_dim"},
    {paged_new, "new_rows is 2, not PTXPACK_ROWS_DENSE or PTXPACK_ROWS_PACKED"},
    {packed_kv, "kv_rows is 1, not PTXPACK_ROWS_DENSE or PTXPACK_ROWS_PAGED"},
    {odd_option, "options has the unknown bits 0x2"},
    {packed_without_rows, "rows_new is 0; with packed new rows it must be at least 1"},
    {dense_with_rows, "rows_kv is 4; without paged rows or a row map it must be 0"},
    {paged_map, "PTXPACK_ROW_MAP needs dense k and v"},
    {odd_page, "page_rows 12 is not a power of two up to 1024"},
    {large_page, "page_rows 2048 is not a power of two up to 1024"},
    {short_table, "table_width 2 times page_rows 4 is less than seqlen_kv 10"},
    {no_table, "table_width is 0; with paged rows it must be at least 1"},
    {repeated_k, "k.batch: stride 0 would write every element 2 times"},
    {short_q, "q_out.row: stride 64 overlaps the 128 elements inside it"},
};

static void bad_descriptors_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        ptxpack_attention_append_desc  d = good;
        ptxpack_attention_append_plan *plan;
        refusals[i].spoil(&d);
        assert_int_equal(ptxpack_attention_append_plan_create(NULL, &d, &plan), PTXPACK_E_ARG);
        assert_null(plan);
        if (strncmp(ptxpack_detail(NULL), refusals[i].line, strlen(refusals[i].line)) != 0)
            fail_msg("\"%s\" does not begin with \"%s\"", ptxpack_detail(NULL), refusals[i].line);
    }
}

/* Every buffer is far from the others; then one address is changed. */
static const ptxpack_attention_append_buffers apart =
    {sizeof apart, 0x10000, 0x20000, 0x30000, 0x40000, 0x50000, 0x60000, 0x70000, 0x80000, 0x90000, 0,
     0xa0000,      0,       0xb0000, 0xc0000, 0,       0,       0,       0};

static const struct {
    size_t      member;
    uint64_t    address;
    const char *line; /* NULL: it is fine */
} changes[] = {
#define AT(member) offsetof(ptxpack_attention_append_buffers, member)
    {AT(k_new), 0, "k_new is null"},
    {AT(q), 0x50004, "q: address 0x50004 is not a multiple of 16 bytes"},
    {AT(q_out), 0, "q_out is null"},
    {AT(q_out), 0x50000, NULL},
    {AT(q_out), 0x50010, "q_out overlaps q: 0x50010 and 0x50000"},
    {AT(q_out), 0x20100, NULL}, /* parts of one tensor, as far as ranges say */
    {AT(q_out), 0x10000, "q_out overlaps k_new: 0x10000 and 0x10000"},
    {AT(q_out), 0x70000, "q_out overlaps cos: 0x70000 and 0x70000"},
    {AT(q_out), 0x30040, "q_out overlaps k: 0x30040 and 0x30000"},
    {AT(v), 0x30000, "v overlaps k: 0x30000 and 0x30000"},
    {AT(v), 0x30080, NULL},
    {AT(v), 0x20010, "v overlaps v_new: 0x20010 and 0x20000"},
    {AT(k), 0x8ff90, "k overlaps lengths_kv: 0x8ff90 and 0x90000"},
    {AT(k), 0xc0010, "k overlaps page_table: 0xc0010 and 0xc0000"},
    {AT(cos), 0, "cos is null"},
    {AT(lengths_kv), 0, "lengths_kv is null"},
    {AT(lengths_new), 0x3, NULL}, /* not asked for */
    {AT(left_pad), 0xb0002, "left_pad: address 0xb0002 is not a multiple of 4 bytes"},
    {AT(page_table), 0, "page_table is null"},
    {AT(starts_new), 0, "starts_new is null"},
#undef AT
};

static void buffers_are_checked(void **state)
{
    char                          line[PLAN_LINE];
    append_geometry               g;
    ptxpack_attention_append_desc d = good;
    (void)state;
    paged(&d);
    d.new_rows = PTXPACK_ROWS_PACKED;
    d.rows_new = 6;
    d.options = PTXPACK_LEFT_PAD;
    assert_int_equal(append_resolve(&d, &g, line), PTXPACK_OK);
    assert_int_equal(append_check(&g, &apart, line), PTXPACK_OK);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        ptxpack_attention_append_buffers b = apart;
        memcpy((char *)&b + changes[i].member, &changes[i].address, sizeof b.k);
        ptxpack_status status = append_check(&g, &b, line);
        if (status != (changes[i].line == NULL ? PTXPACK_OK : PTXPACK_E_ARG))
            fail_msg("change %zu: %s", i, status == PTXPACK_OK ? "not refused" : line);
        if (changes[i].line != NULL)
            assert_string_equal(line, changes[i].line);
    }
    d.q_out = (ptxpack_strides){0, 256, 32}; /* in place with other strides */
    ptxpack_attention_append_buffers b = apart;
    b.q_out = b.q;
    assert_int_equal(append_resolve(&d, &g, line), PTXPACK_OK);
    assert_int_equal(append_check(&g, &b, line), PTXPACK_E_ARG);
}

static void too_much_work_is_unsupported(void **state)
{
    ptxpack                       *handle;
    ptxpack_options                options = {.size = sizeof options, .offline = true, .no_cache = true};
    ptxpack_attention_append_desc  d = good;
    ptxpack_attention_append_plan *plan;
    (void)state;
    d.seqlen_new = 1 << 29;
    options.arch = "sm_80";
    assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_OK);
    assert_int_equal(ptxpack_attention_append_plan_create(handle, &d, &plan), PTXPACK_E_UNSUPPORTED);
    assert_non_null(strstr(ptxpack_detail(handle), "does not append 1073741824 rows of 26 pieces"));
    ptxpack_close(handle);
}

/* ---- the reference ------------------------------------------------------------------------------------ */
enum { DIM = 32, TURNED = 16, HALF = TURNED / 2, NEW = 3, KV = 10, POSITIONS = 10 };
static uint16_t new_rows[2][NEW][DIM], cosines[POSITIONS][HALF], sines[POSITIONS][HALF];

/* Element e of row i of sequence b is 100 b + 10 i + e / 32; the table of position p has cos = p + j / 8, sin = p / 2. */
static void make_rows(void)
{
    for (int b = 0; b < 2; b++)
        for (int i = 0; i < NEW; i++)
            for (int e = 0; e < DIM; e++)
                new_rows[b][i][e] = ptxpack_from_float(PTXPACK_F16, (float)(100 * b + 10 * i) + (float)e / 32);
    for (int p = 0; p < POSITIONS; p++)
        for (int j = 0; j < HALF; j++) {
            cosines[p][j] = ptxpack_from_float(PTXPACK_F16, (float)p + (float)j / 8);
            sines[p][j] = ptxpack_from_float(PTXPACK_F16, (float)p / 2);
        }
}

static double source(int b, int i, int e) { return ptxpack_to_float(PTXPACK_F16, new_rows[b][i][e]); }

/* Element e of row i, rotated for position p as append.h says. */
static double turned(int b, int i, int e, int p, bool pairs)
{
    if (e >= TURNED)
        return source(b, i, e);
    int    j = pairs ? e / 2 : e % HALF, x = pairs ? 2 * j : j, y = pairs ? x + 1 : j + HALF;
    double c = ptxpack_to_float(PTXPACK_F16, cosines[p][j]), s = ptxpack_to_float(PTXPACK_F16, sines[p][j]);
    return e == x ? source(b, i, x) * c - source(b, i, y) * s : source(b, i, y) * c + source(b, i, x) * s;
}

static const ptxpack_attention_append_desc one_head = {
    .size = sizeof one_head,
    .dtype = PTXPACK_F16,
    .batch = 2,
    .seqlen_new = NEW,
    .seqlen_kv = KV,
    .heads_kv = 1,
    .heads_q = 1,
    .head_dim = DIM,
    .rotary_dim = TURNED,
    .positions = POSITIONS,
};

/* Runs the reference into arrays of -1. */
static ptxpack_status run_reference(const ptxpack_attention_append_desc   *d,
                                    const ptxpack_attention_append_inputs *extra, double k[2 * KV][DIM],
                                    double v[2 * KV][DIM], double q[2][NEW][DIM])
{
    ptxpack_attention_append_inputs in = *extra;
    in.k_new = in.v_new = in.q = new_rows;
    in.cos = cosines;
    in.sin = sines;
    for (int i = 0; i < 2 * KV * DIM; i++)
        k[i / DIM][i % DIM] = v[i / DIM][i % DIM] = -1;
    for (int i = 0; i < 2 * NEW * DIM; i++)
        q[i / DIM / NEW][i / DIM % NEW][i % DIM] = -1;
    return ptxpack_attention_append_reference(d, &in, k[0], v[0], q[0][0]);
}

static void rows_follow_those_of_the_cache(void **state)
{
    static const int32_t                  lengths[] = {7, 3}, counts[] = {2, 3};
    const ptxpack_attention_append_inputs in = {.lengths_kv = lengths, .lengths_new = counts};
    static double                         k[2 * KV][DIM], v[2 * KV][DIM], q[2][NEW][DIM];
    (void)state;
    for (int pairs = 0; pairs < 2; pairs++) {
        ptxpack_attention_append_desc d = one_head;
        d.options = PTXPACK_LENGTHS_NEW | (pairs ? PTXPACK_ROPE_PAIRS : 0);
        assert_int_equal(run_reference(&d, &in, k, v, q), PTXPACK_OK);
        for (int b = 0; b < 2; b++)
            for (int row = 0; row < KV; row++) {
                int i = row - (lengths[b] - counts[b]); /* the new row that goes there */
                for (int e = 0; e < DIM; e++) {
                    bool here = i >= 0 && i < counts[b];
                    assert_true(v[b * KV + row][e] == (here ? source(b, i, e) : -1));
                    assert_true(k[b * KV + row][e] == (here ? turned(b, i, e, row, pairs) : -1));
                    if (here)
                        assert_true(q[b][i][e] == turned(b, i, e, row, pairs));
                }
            }
        assert_true(q[0][2][0] == -1); /* sequence 0 has two new rows */
    }
}

static void positions_are_shifted_and_limited(void **state)
{
    static const int32_t                  lengths[] = {10, 3}, pad[] = {6, -8};
    const ptxpack_attention_append_inputs in = {.lengths_kv = lengths, .left_pad = pad};
    static double                         k[2 * KV][DIM], v[2 * KV][DIM], q[2][NEW][DIM];
    ptxpack_attention_append_desc         d = one_head;
    (void)state;
    d.options = PTXPACK_LEFT_PAD | PTXPACK_ROPE_Q_AT_START;
    assert_int_equal(run_reference(&d, &in, k, v, q), PTXPACK_OK);
    for (int i = 0; i < NEW; i++) {
        assert_true(k[7 + i][3] == turned(0, i, 3, 1 + i, false));
        assert_true(q[0][i][3] == turned(0, i, 3, 1, false));
        assert_true(k[KV + i][3] == turned(1, i, 3, i < 2 ? 8 + i : POSITIONS - 1, false));
        assert_true(q[1][i][3] == turned(1, i, 3, 8, false));
    }
}

static void rows_without_a_place_are_dropped(void **state)
{
    static const int32_t            lengths[] = {11, 2}, table[] = {3, 1, -1, 0, 7, 4, 4, 4}, map[] = {1, 2};
    ptxpack_attention_append_inputs in = {.lengths_kv = lengths, .page_table = table, .row_map = map};
    static double                   k[2 * KV][DIM], v[2 * KV][DIM], q[2][NEW][DIM];
    ptxpack_attention_append_desc   d = one_head;
    (void)state;
    d.kv_rows = PTXPACK_ROWS_PAGED;
    d.page_rows = 4;
    d.rows_kv = 5; /* pages 0 to 4 */
    d.table_width = 4;
    assert_int_equal(run_reference(&d, &in, k, v, q), PTXPACK_OK);
    for (int row = 0; row < 2 * KV; row++)
        for (int e = 0; e < DIM;
             e += 31) /* rows 8 to 10 are in no page, or beyond the end; 0 and 1 are in page 7 */
            assert_true(k[row][e] == -1 && v[row][e] == -1);
    assert_true(q[0][0][0] == turned(0, 0, 0, 8, false) && q[0][2][20] == source(0, 2, 20));
    d = one_head;
    d.options = PTXPACK_ROW_MAP;
    d.rows_kv = 2;
    assert_int_equal(run_reference(&d, &in, k, v, q), PTXPACK_OK);
    for (int row = 0; row < 2 * KV; row++) /* sequence 0 is sequence 1 of the cache, sequence 1 none */
        assert_true(v[row][5] == (row == KV + 8 ? source(0, 0, 5) : row == KV + 9 ? source(0, 1, 5) : -1));
}

static void wrong_arrays_are_refused(void **state)
{
    static const int32_t            lengths[] = {5, 5}, counts[] = {1, 4}, starts[] = {0, 2, 7};
    ptxpack_attention_append_inputs in = {.lengths_kv = lengths};
    static double                   k[2 * KV][DIM], v[2 * KV][DIM], q[2][NEW][DIM];
    ptxpack_attention_append_desc   d = one_head;
    (void)state;
    d.options = PTXPACK_LENGTHS_NEW;
    assert_int_equal(run_reference(&d, &in, k, v, q), PTXPACK_E_ARG);
    assert_string_equal(ptxpack_detail(NULL), "lengths_new is NULL");
    in.lengths_new = counts;
    assert_int_equal(run_reference(&d, &in, k, v, q), PTXPACK_E_ARG);
    assert_string_equal(ptxpack_detail(NULL), "sequence 1 has 4 new rows, not 0 to 3");
    d.options = 0;
    d.new_rows = PTXPACK_ROWS_PACKED;
    d.rows_new = 6;
    d.seqlen_new = 5;
    in.starts_new = starts;
    assert_int_equal(run_reference(&d, &in, k, v, q), PTXPACK_E_ARG);
    assert_string_equal(ptxpack_detail(NULL),
                        "sequence 1: rows 2 to 7 of starts_new are not in the 6 rows in memory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_descriptors_are_refused),       cmocka_unit_test(buffers_are_checked),
        cmocka_unit_test(too_much_work_is_unsupported),      cmocka_unit_test(rows_follow_those_of_the_cache),
        cmocka_unit_test(positions_are_shifted_and_limited), cmocka_unit_test(rows_without_a_place_are_dropped),
        cmocka_unit_test(wrong_arrays_are_refused),
    };
    make_rows();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
