/* mma_layout.c - the shared-memory layouts of every attention row: the kernel computes from its symbols the
 * swizzled layout at the element that the instruction needs, and no access conflicts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "host/attention/inspect.h"
#include "loader/loader.h"

enum { ELEMENT = 2 };

/* ---- the rows ----------------------------------------------------------------------------------- */
typedef struct row_case {
    const ptxpack_variant *row;
    attention_mma_layout   l;
    ptxpack_symbol         symbols[PTXPACK_INSTANCE_SYMBOLS];
    size_t                 symbol_count;
} row_case;

static bool is_bytes(const ptxpack_variant *row) { return attention_row_kv(row) == ATTENTION_KV_BYTES; }

static void for_every_row(void (*test)(const row_case *))
{
    size_t                 count, tested = 0;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    row_case              *c = (row_case *)calloc(1, sizeof *c);
    assert_non_null(c);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].file, "attention/mma.ptx") != 0)
            continue;
        c->row = &rows[i];
        const ptxpack_attention_desc desc = {.size = sizeof desc,
                                             .dtype = PTXPACK_F16,
                                             .batch = 1,
                                             .seqlen_q = 64,
                                             .seqlen_kv = 64,
                                             .heads_q = 1,
                                             .heads_kv = 1,
                                             .head_dim = (int32_t)ptxpack_variant_parameter(c->row, "HEAD_DIM",
                                                                                            0),
                                             .kv_dtype = is_bytes(c->row) ? PTXPACK_INT8 : (ptxpack_dtype)0};
        if (ptxpack_attention_mma_layout(&rows[i], &c->l) != PTXPACK_OK)
            fail_msg("%s", ptxpack_detail(NULL));
        c->symbol_count = plan_row_symbols(c->row, &desc, c->symbols);
        if (c->symbol_count == 0)
            fail_msg("%s: %s", rows[i].id, ptxpack_detail(NULL));
        test(c);
        tested++;
    }
    assert_true(tested > 0);
    free(c);
}

static int64_t symbol(const row_case *c, const char *name)
{
    for (size_t i = 0; i < c->symbol_count; i++)
        if (strcmp(c->symbols[i].name, name) == 0)
            return c->symbols[i].value;
    fail_msg("%s: no symbol %s", c->row->id, name);
    return 0;
}

static int64_t digit(const row_case *c, const char *function, const char *part, int i)
{
    char name[64];
    snprintf(name, sizeof name, "%s_%s%d", function, part, i);
    return symbol(c, name);
}

/* Computes a function as shared/layout.ptx does, in 32 bits. */
static int64_t thread_function(const row_case *c, const char *function, int64_t thread)
{
    char     modes[64];
    uint32_t sum = 0;
    snprintf(modes, sizeof modes, "%s_MODES", function);
    for (int i = 0; i < symbol(c, modes); i++)
        sum += ((uint32_t)thread >> digit(c, function, "SHIFT", i) & (uint32_t)digit(c, function, "MASK", i)) *
               (uint32_t)digit(c, function, "STRIDE", i);
    return sum;
}

static int64_t swizzled(const row_case *c, int64_t x)
{
    return x ^ (x >> symbol(c, "SWIZZLE_SHIFT") & symbol(c, "SWIZZLE_MASK"));
}

/* The byte of element (row, column) in the Q tile, or in a K or V tile, by the layout. */
static int64_t byte_of(const row_case *c, bool of_q, int64_t row, int64_t column)
{
    const int64_t at[2] = {row, column};
    ptxpack_tuple coord = ptxpack_tuple_of(2, at);
    ptxpack_tuple offset = ptxpack_layout_crd2idx(of_q ? &c->l.q : &c->l.kv, &coord);
    if (offset.status != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(NULL));
    return ELEMENT * offset.value[0];
}

static void expect(const row_case *c, const char *what, int64_t thread, int64_t got, int64_t want)
{
    if (got != want)
        fail_msg("%s: %s of thread %lld is byte %lld, not %lld", c->row->id, what, (long long)thread,
                 (long long)got, (long long)want);
}

/* ---- tiles -------------------------------------------------------------------------------------- */
static void one_tile(const ptxpack_layout *tile, int64_t rows, int64_t columns)
{
    int64_t size = ptxpack_size(tile);
    char   *seen = (char *)calloc(1, (size_t)size);
    assert_non_null(seen);
    assert_int_equal(size, rows * columns);
    assert_int_equal(ptxpack_cosize(tile), size);
    for (int64_t i = 0; i < size; i++) {
        int64_t at = ptxpack_at(tile, i);
        assert_true(at >= 0 && at < size && !seen[at]);
        seen[at] = 1;
    }
    free(seen);
}

static void tiles_fill_shared_memory(const row_case *c)
{
    const attention_mma_layout *l = &c->l;
    assert_int_equal(l->kv_columns * (is_bytes(c->row) ? 2 : 1), l->head_dim);
    one_tile(&l->q, l->block_m, l->head_dim);
    one_tile(&l->kv, l->block_n, l->kv_columns);
    assert_int_equal(l->smem_q, 0);
    const int64_t q = ELEMENT * l->block_m * l->head_dim, tile = ELEMENT * l->block_n * l->kv_columns;
    const int64_t raw = l->block_n * l->head_dim / PTXPACK_Q8_0_ELEMENTS * PTXPACK_Q8_0_BYTES;
    if (l->blocks) {
        assert_int_equal(l->stage_bytes, raw);
        assert_int_equal(l->smem_raw_k, q);
        assert_int_equal(l->smem_raw_v, q + raw);
        assert_int_equal(l->smem_k, q + 2 * raw);
        assert_int_equal(l->smem_v, q + 2 * raw + tile);
    } else {
        assert_int_equal(l->stage_bytes, tile);
        assert_int_equal(l->smem_k, q);
        assert_int_equal(l->smem_v, q + l->stages * tile);
    }
    assert_int_equal(l->shared_bytes, c->row->shared_bytes);
}

static void test_tiles(void **state)
{
    (void)state;
    for_every_row(tiles_fill_shared_memory);
}

/* ---- copies ------------------------------------------------------------------------------------- */
static void copies_cover_a_tile(const row_case *c, bool of_q, int64_t rows)
{
    int64_t line = symbol(c, "CHUNKS") * 16, passes = rows / symbol(c, "LOAD_ROWS"), copied = 0;
    int64_t step = symbol(c, of_q ? "LOAD_Q_STEP" : "LOAD_KV_STEP"),
            group = symbol(c, of_q ? "Q_GROUP" : "KV_GROUP"), groups = symbol(c, of_q ? "Q_GROUPS" : "GROUPS");
    for (int64_t thread = 0; thread < c->row->threads; thread++) {
        int64_t to = swizzled(c, thread_function(c, "LOAD_AT", thread));
        int64_t row = thread_function(c, "LOAD_ROW", thread),
                column = thread_function(c, "LOAD_COLUMN", thread);
        for (int64_t p = 0; p < passes; p++)
            for (int64_t g = 0; g < groups; g++) {
                int64_t at_row = row + p * symbol(c, "LOAD_ROWS"), at_column = (column + g * line) / ELEMENT;
                for (int64_t e = 0; e < 8; e++)
                    expect(c, "a copy", thread, to + p * step + g * group + ELEMENT * e,
                           byte_of(c, of_q, at_row, at_column + e));
                copied += 8;
            }
    }
    assert_int_equal(copied, rows * (of_q ? c->l.head_dim : c->l.kv_columns));
}

static void copies(const row_case *c)
{
    copies_cover_a_tile(c, true, c->l.block_m);
    copies_cover_a_tile(c, false, c->l.block_n);
}

static void test_copies(void **state)
{
    (void)state;
    for_every_row(copies);
}

/* ---- ldmatrix ------------------------------------------------------------------------------------- */
/* Lane l gives row l % 8 of matrix l / 8.  For A the matrices are the row halves, then the column halves; for B
 * from K (rows n) the column halves, then the next eight keys; for B from V (rows k, transposed) the row
 * halves, then the next eight columns. */
static void ldmatrix_addresses(const row_case *c)
{
    const attention_mma_layout *l = &c->l;
    int64_t per = symbol(c, "CHUNKS") / 2, q_group = symbol(c, "Q_GROUP"), kv_group = symbol(c, "KV_GROUP");
    for (int64_t thread = 0; thread < c->row->threads; thread++) {
        int64_t lane = thread % 32, warp = thread / 32, matrix = lane / 8, r = lane % 8;
        int64_t q = swizzled(c, thread_function(c, "Q_AT", thread)),
                k = swizzled(c, thread_function(c, "K_AT", thread));
        int64_t v = swizzled(c, thread_function(c, "V_AT", thread));
        for (int64_t s = 0; s < l->head_dim / 16; s++) {
            int64_t flip = 32 * (s % per);
            for (int64_t i = 0; i < l->m_tiles; i++)
                expect(c, "Q", thread, (q ^ flip) + i * symbol(c, "Q_STEP") + s / per * q_group,
                       byte_of(c, true, 16 * l->m_tiles * warp + 16 * i + r + 8 * (matrix % 2),
                               16 * s + 8 * (matrix / 2)));
            for (int64_t j = 0; j < l->block_n / 16 && s < l->kv_columns / 16; j++) {
                expect(c, "K", thread, (k ^ flip) + j * symbol(c, "K_STEP") + s / per * kv_group,
                       byte_of(c, false, 16 * j + r + 8 * (matrix / 2), 16 * s + 8 * (matrix % 2)));
                expect(c, "V", thread, (v ^ flip) + j * symbol(c, "V_STEP") + s / per * kv_group,
                       byte_of(c, false, 16 * j + r + 8 * (matrix % 2), 16 * s + 8 * (matrix / 2)));
            }
        }
    }
}

static void test_ldmatrix(void **state)
{
    (void)state;
    for_every_row(ldmatrix_addresses);
}

/* ---- accumulators --------------------------------------------------------------------------------- */
static void accumulators(const row_case *c)
{
    const attention_mma_layout *l = &c->l;
    const int64_t bytes = is_bytes(c->row), chunks = symbol(c, "CHUNKS") >> bytes; /* steps of O in a line */
    int64_t       group = symbol(c, "Q_GROUP"), warp_rows = symbol(c, "WARP_ROWS");
    assert_int_equal(warp_rows, 16 * l->m_tiles);
    for (int64_t thread = 0; thread < c->row->threads; thread++) {
        int64_t lane = thread % 32, warp = thread / 32, row = warp_rows * warp + lane / 4,
                column = 2 * (lane % 4);
        int64_t to = swizzled(c, thread_function(c, "O_STORE_AT", thread));
        expect(c, "C's row", thread, thread_function(c, "C_ROW", thread), row);
        expect(c, "C's column", thread, thread_function(c, "C_COLUMN", thread), column);
        for (int64_t h = 0; h < 2 * l->m_tiles; h++)
            for (int64_t j = 0; j < (l->head_dim / 8) >> bytes; j++)
                for (int64_t e = 0; e < 2 << bytes; e++) /* of bytes four columns, of two tiles */
                    expect(c, "O", thread,
                           (to ^ (16 << bytes) * (j % chunks)) + h * symbol(c, "O_STORE_STEP") +
                               j / chunks * group + ELEMENT * e,
                           byte_of(c, true, row + h * symbol(c, "C_ROWS"), ((column + 8 * j) << bytes) + e));
    }
}

static void output(const row_case *c)
{
    int64_t step = symbol(c, "O_LOAD_STEP"), group = symbol(c, "Q_GROUP"), line = 16 * symbol(c, "CHUNKS"),
            moved = 0;
    int64_t shift = symbol(c, "SWIZZLE_SHIFT"), mask = symbol(c, "SWIZZLE_MASK"),
            warp_rows = symbol(c, "WARP_ROWS");
    for (int64_t thread = 0; thread < c->row->threads; thread++) {
        int64_t from = swizzled(c, thread_function(c, "O_LOAD_AT", thread));
        int64_t row = thread_function(c, "O_LOAD_ROW", thread),
                column = thread_function(c, "O_LOAD_COLUMN", thread);
        for (int64_t p = 0; p < symbol(c, "O_LOADS"); p++)
            for (int64_t g = 0; g < symbol(c, "Q_GROUPS"); g++) {
                int64_t at_row = row + p * symbol(c, "O_LOAD_ROWS");
                assert_int_equal(at_row / warp_rows, thread / 32); /* its warp's own rows */
                expect(c, "O's way out", thread, (from ^ (p * step >> shift & mask)) + p * step + g * group,
                       byte_of(c, true, at_row, (column + g * line) / ELEMENT));
                moved += 8;
            }
    }
    assert_int_equal(moved, c->l.block_m * c->l.head_dim);
}

static void test_accumulators(void **state)
{
    (void)state;
    for_every_row(accumulators);
    for_every_row(output);
}

/* ---- banks ---------------------------------------------------------------------------------------- */
static void no_access_conflicts(const row_case *c)
{
    for (int id = 0; id < MMA_ACCESS_COUNT; id++) {
        ptxpack_banks banks = ptxpack_attention_mma_banks(&c->l, (attention_mma_access_id)id);
        if (is_bytes(c->row) && id == MMA_ACCESS_O_STORE)
            continue; /* once a tile: two phases where one would do */
        if (banks.status != PTXPACK_OK || banks.conflicts != 0 || banks.phases == 0)
            fail_msg("%s: %s: %lld conflicts in %lld phases; %s", c->row->id, c->l.access[id].name,
                     (long long)banks.conflicts, (long long)banks.phases, ptxpack_detail(NULL));
    }
}

static void test_no_conflicts(void **state)
{
    (void)state;
    for_every_row(no_access_conflicts);
}

/* Counts the conflicts without the swizzle, which is there to remove them. */
static void conflicts_without(const row_case *c)
{
    attention_mma_layout plain = c->l;
    memset(&plain.swizzle, 0, sizeof plain.swizzle);
    ptxpack_banks banks = ptxpack_attention_mma_banks(&plain, MMA_ACCESS_K);
    assert_int_equal(banks.status, PTXPACK_OK);
    assert_true(banks.conflicts >= banks.phases); /* rows of 64 bytes: 4 of 8 conflict; of 128 bytes: all 8 */
}

static void test_conflicts_without_swizzle(void **state)
{
    (void)state;
    for_every_row(conflicts_without);
}

/* ---- slots ---------------------------------------------------------------------------------------- */
/* Passes of shared memory for an access of `bytes` from each of 32 lanes: of 8 bytes by half warps. */
static int passes(const int64_t at[32], int64_t bytes)
{
    const int lanes = bytes > 4 ? 16 : 32;
    int       sum = 0;
    for (int first = 0; first < 32; first += lanes) {
        int most = 0;
        for (int64_t bank = 0; bank < 32; bank++) {
            int64_t words[32];
            int     count = 0;
            for (int i = first; i < first + lanes; i++)
                for (int64_t word = at[i] / 4; word <= (at[i] + bytes - 1) / 4; word++) {
                    bool seen = word % 32 != bank;
                    for (int k = 0; k < count; k++)
                        seen = seen || words[k] == word;
                    if (!seen)
                        words[count++] = word;
                }
            most = count > most ? count : most;
        }
        sum += most;
    }
    return sum;
}

/* The loads of K of ptx/attention/bytes/q8_fragments.ptx: `from` bytes into a row, `apart` from lane to lane of a key. */
static int key_passes(int64_t slot, int64_t from, int64_t apart, int64_t bytes)
{
    int64_t at[32];
    for (int64_t lane = 0; lane < 32; lane++) {
        const int64_t key = lane / 4, place = key % 4 * 2 + key / 4;
        at[lane] = place * slot + from + lane % 4 * apart;
    }
    return passes(at, bytes);
}

static void test_slots(void **state)
{
    (void)state;
    size_t                      count, tested = 0;
    const ptxpack_variant      *rows = ptxpack_variants(&count);
    static attention_mma_layout l;
    for (size_t i = 0; i < count; i++) {
        const int64_t slot = ptxpack_variant_parameter(&rows[i], "KV_SLOT", 0);
        if (slot == 0)
            continue;
        if (ptxpack_attention_decode_layout(&rows[i], &l) != PTXPACK_OK)
            fail_msg("%s", ptxpack_detail(NULL));
        assert_true(!l.blocks && l.slot == slot && slot % 16 == 0);
        assert_true(slot >= (int64_t)ptxpack_dtype_span(PTXPACK_Q8_0, (size_t)l.head_dim));
        assert_int_equal(l.stage_bytes, l.block_n * slot);
        assert_int_equal(l.smem_v - l.smem_k, l.stages * l.stage_bytes);
        assert_int_equal(l.shared_bytes - l.smem_v, l.stages * l.stage_bytes);
        assert_int_equal(l.smem_k % 16, 0);
        assert_true(l.smem_k >= 4 * l.rows * l.head_dim);
        assert_int_equal(key_passes(slot, 0, 8, 8), 2);
        assert_int_equal(key_passes(slot, 8, 8, 4), 2);
        assert_int_equal(key_passes(slot, 36, 4, 4), 1);
        tested++;
    }
    assert_true(tested > 0);
}

/* ---- errors --------------------------------------------------------------------------------------- */
static void expect_refusal(ptxpack_variant row, const char *why)
{
    static attention_mma_layout l;
    assert_int_equal(ptxpack_attention_mma_layout(&row, &l), PTXPACK_E_UNSUPPORTED);
    assert_int_equal(l.status, PTXPACK_E_UNSUPPORTED);
    assert_non_null(strstr(ptxpack_detail(NULL), row.id));
    if (strstr(ptxpack_detail(NULL), why) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", ptxpack_detail(NULL), why);
}

static ptxpack_variant with_parameter(ptxpack_variant row, const char *name, int64_t value)
{
    for (int i = 0; i < row.parameter_count; i++)
        if (strcmp(row.parameters[i].name, name) == 0)
            row.parameters[i].value = value;
    return row;
}

static void test_bad_rows(void **state)
{
    (void)state;
    size_t          count;
    ptxpack_variant row = ptxpack_variants(&count)[0], bad = row;
    bad.shared_bytes += 16;
    expect_refusal(bad, "shared_bytes is");
    bad = row;
    bad.threads = 96;
    expect_refusal(bad, "threads is not 32 * WARPS");
    expect_refusal(with_parameter(row, "HEAD_DIM", 40), "HEAD_DIM");
    expect_refusal(with_parameter(row, "BLOCK_M", 96), "BLOCK_M");
    expect_refusal(with_parameter(row, "BLOCK_N", 0), "BLOCK_N");
    expect_refusal(with_parameter(row, "BLOCK_N", 72), "72)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiles),        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_ldmatrix),     cmocka_unit_test(test_accumulators),
        cmocka_unit_test(test_no_conflicts), cmocka_unit_test(test_conflicts_without_swizzle),
        cmocka_unit_test(test_slots),        cmocka_unit_test(test_bad_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
