/* mma_layout.c - the shared-memory layouts of every row of ptx/gemm/mma.ptx: the kernel computes from its
 * symbols the swizzled layout at the element that the instruction needs, every tile is copied once, and no
 * access conflicts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "host/gemm/inspect.h"
#include "loader/loader.h"

enum { ELEMENT = 2 };

/* ---- the rows ----------------------------------------------------------------------------------- */
typedef struct row_case {
    const ptxpack_variant *row;
    gemm_mma_layout        l;
    bool                   a_column, b_column;
    ptxpack_symbol         symbols[PTXPACK_INSTANCE_SYMBOLS];
    size_t                 symbol_count;
} row_case;

/* Tests every row in all four orders. */
static void for_every_row(void (*test)(const row_case *))
{
    size_t                 count, tested = 0;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    row_case              *c = (row_case *)calloc(1, sizeof *c);
    assert_non_null(c);
    for (size_t i = 0; i < 4 * count; i++) {
        c->row = &rows[i / 4];
        if (strcmp(c->row->file, "gemm/mma.ptx") != 0 && strcmp(c->row->file, "gemm/mma_groups.ptx") != 0)
            continue;
        if (ptxpack_gemm_mma_layout(c->row, &c->l) != PTXPACK_OK)
            fail_msg("%s", ptxpack_detail(NULL));
        c->a_column = i % 4 / 2 != 0;
        c->b_column = i % 2 != 0;
        const ptxpack_gemm_desc desc = {.size = sizeof desc,
                                        .dtype = PTXPACK_F16,
                                        .m = 64,
                                        .n = 64,
                                        .k = 64,
                                        .order_a = (ptxpack_order)c->a_column,
                                        .order_b = (ptxpack_order)c->b_column};
        c->symbol_count = plan_row_symbols(c->row, &desc, c->symbols);
        if (c->symbol_count == 0)
            fail_msg("%s", ptxpack_detail(NULL));
        test(c);
        tested++;
    }
    assert_true(tested > 0);
    free(c);
}

/* Symbol <x><name>; x is "", "A", "B" or "D". */
static int64_t symbol(const row_case *c, const char *x, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "%s%s", x, name);
    for (size_t i = 0; i < c->symbol_count; i++)
        if (strcmp(c->symbols[i].name, full) == 0)
            return c->symbols[i].value;
    fail_msg("%s: no symbol %s", c->row->id, full);
    return 0;
}

/* Computes <x><name>(thread) as shared/layout.ptx does, in 32 bits. */
static int64_t thread_function(const row_case *c, const char *x, const char *name, int64_t thread)
{
    char     part[64];
    uint32_t sum = 0;
    snprintf(part, sizeof part, "%s_MODES", name);
    int64_t digits = symbol(c, x, part);
    for (int i = 0; i < digits; i++) {
        int64_t value[3];
        for (int k = 0; k < 3; k++) {
            static const char *const parts[] = {"SHIFT", "MASK", "STRIDE"};
            snprintf(part, sizeof part, "%s_%s%d", name, parts[k], i);
            value[k] = symbol(c, x, part);
        }
        sum += ((uint32_t)thread >> value[0] & (uint32_t)value[1]) * (uint32_t)value[2];
    }
    return sum;
}

static int64_t swizzled(const row_case *c, const char *x, int64_t at)
{
    return at ^ (at >> symbol(c, x, "_SWIZZLE_SHIFT") & symbol(c, x, "_SWIZZLE_MASK"));
}

static int64_t byte_of(const gemm_mma_tile *tile, int64_t mode_0, int64_t mode_1)
{
    const int64_t at[2] = {mode_0, mode_1};
    ptxpack_tuple coord = ptxpack_tuple_of(2, at), offset = ptxpack_layout_crd2idx(&tile->swizzled, &coord);
    if (offset.status != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(NULL));
    return ELEMENT * offset.value[0];
}

static void expect(const row_case *c, const char *x, const char *what, int64_t thread, int64_t got,
                   int64_t want)
{
    if (got != want)
        fail_msg("%s, a_column %d, b_column %d: %s of %s of thread %lld is %lld, not %lld", c->row->id,
                 c->a_column, c->b_column, what, x, (long long)thread, (long long)got, (long long)want);
}

/* ---- operands ------------------------------------------------------------------------------------- */
typedef struct operand {
    const char             *name;
    const gemm_mma_operand *o;
    bool                    k_first;
    int64_t                 extent, warps;
    int64_t                 first; /* row or column of the thread's warp */
} operand;

/* Warps are numbered along m first. */
static operand operand_of(const row_case *c, int which, int64_t thread)
{
    const gemm_mma_layout *l = &c->l;
    bool                   is_a = which == GEMM_MMA_A, k_first = is_a ? !c->a_column : c->b_column;
    int64_t                warp = thread / 32;
    operand                x = {.name = is_a ? "A" : "B",
                                .o = &l->operand[which][k_first ? GEMM_MMA_K_FIRST : GEMM_MMA_K_LAST],
                                .k_first = k_first,
                                .extent = is_a ? l->block_m : l->block_n,
                                .warps = is_a ? l->warps_m : l->warps_n};
    x.first = (is_a ? warp % l->warps_m : warp / l->warps_m) * (x.extent / x.warps);
    return x;
}

static void one_tile(const ptxpack_layout *tile, int64_t elements)
{
    char *seen = (char *)calloc(1, (size_t)elements);
    assert_non_null(seen);
    assert_int_equal(ptxpack_size(tile), elements);
    for (int64_t i = 0; i < elements; i++) {
        int64_t at = ptxpack_at(tile, i);
        assert_true(at >= 0 && at < elements && !seen[at]);
        seen[at] = 1;
    }
    free(seen);
}

static void tiles(const row_case *c)
{
    const gemm_mma_layout *l = &c->l;
    for (int which = 0; which < GEMM_MMA_OPERANDS; which++) {
        operand x = operand_of(c, which, 0);
        one_tile(&x.o->tile.swizzled, x.extent * l->block_k);
        assert_int_equal(symbol(c, x.name, "_K_FIRST"), x.k_first);
    }
    one_tile(&l->d.swizzled, l->block_m * l->block_n);
    assert_int_equal(symbol(c, "", "SMEM_B"), ELEMENT * l->block_m * l->block_k);
    assert_int_equal(symbol(c, "", "STAGE_BYTES"), ELEMENT * (l->block_m + l->block_n) * l->block_k);
    assert_int_equal(l->shared_bytes, c->row->shared_bytes);
    assert_true(ELEMENT * l->block_m * l->block_n <= l->shared_bytes);
}

/* All threads and passes together copy each element to its place once. */
static void copies(const row_case *c)
{
    for (int which = 0; which < GEMM_MMA_OPERANDS; which++) {
        int64_t copied = 0;
        for (int64_t thread = 0; thread < c->row->threads; thread++) {
            operand x = operand_of(c, which, thread);
            int64_t to = swizzled(c, x.name, thread_function(c, x.name, "_LOAD_AT", thread));
            int64_t line = thread_function(c, x.name, "_LOAD_LINE", thread);
            int64_t along = thread_function(c, x.name, "_LOAD_BYTE", thread) / ELEMENT;
            for (int64_t p = 0; p < symbol(c, x.name, "_LOADS"); p++, copied += 8)
                for (int64_t e = 0; e < 8; e++) {
                    int64_t at_line = line + p * symbol(c, x.name, "_LOAD_LINES");
                    expect(c, x.name, "a copy", thread, to + p * symbol(c, x.name, "_LOAD_STEP") + ELEMENT * e,
                           x.k_first ? byte_of(&x.o->tile, at_line, along + e)
                                     : byte_of(&x.o->tile, along + e, at_line));
                }
        }
        assert_int_equal(copied, operand_of(c, which, 0).extent * c->l.block_k);
    }
}

/* Lane l gives a row of 16 bytes of matrix l / 8.  For A the matrices are the halves along m, then along k; for
 * B along k, then along n.  If k is contiguous, the row is one of m or n, otherwise (transposed) one of k. */
static void fragments(const row_case *c)
{
    for (int which = 0; which < GEMM_MMA_OPERANDS; which++)
        for (int64_t thread = 0; thread < c->row->threads; thread++) {
            operand x = operand_of(c, which, thread);
            int64_t matrix = thread % 32 / 8, r = thread % 8;
            int64_t half_lanes = which == GEMM_MMA_A ? matrix % 2 : matrix / 2,
                    half_k = matrix % 2 + matrix / 2 - half_lanes;
            int64_t at = swizzled(c, x.name, thread_function(c, x.name, "_AT", thread));
            for (int64_t i = 0; i < x.extent / x.warps / 16; i++)
                for (int64_t k = 0; k < c->l.block_k / 16; k++) {
                    int64_t lanes = i * symbol(c, x.name, "_STEP_LANES"),
                            steps = k * symbol(c, x.name, "_STEP_K");
                    int64_t got = x.k_first ? (at ^ steps) + lanes : (at ^ lanes) + steps;
                    expect(c, x.name, "a fragment", thread, got,
                           byte_of(&x.o->tile, x.first + 16 * i + 8 * half_lanes + (x.k_first ? r : 0),
                                   16 * k + 8 * half_k + (x.k_first ? 0 : r)));
                }
        }
}

/* ---- the output ------------------------------------------------------------------------------------- */
static void sums(const row_case *c)
{
    const gemm_mma_layout *l = &c->l;
    for (int64_t thread = 0; thread < c->row->threads; thread++) {
        int64_t lane = thread % 32, row = operand_of(c, GEMM_MMA_A, thread).first + lane / 4;
        int64_t column = operand_of(c, GEMM_MMA_B, thread).first + 2 * (lane % 4);
        int64_t at = swizzled(c, "D", thread_function(c, "D", "_STORE_AT", thread));
        expect(c, "D", "the column", thread, thread_function(c, "D", "_STORE_COLUMN", thread), column);
        for (int64_t i = 0; i < l->block_m / l->warps_m / 8; i++)
            for (int64_t j = 0; j < l->block_n / l->warps_n / 8; j++)
                expect(c, "D", "a sum", thread,
                       (at ^ j * symbol(c, "D", "_COLUMN_STEP")) + i * symbol(c, "D", "_ROW_STEP"),
                       byte_of(&l->d, row + 8 * i, column + 8 * j));
    }
}

/* Each warp writes and reads only its own part: only the warp waits in between. */
static void output(const row_case *c)
{
    const gemm_mma_layout *l = &c->l;
    int64_t shift = symbol(c, "D", "_SWIZZLE_SHIFT"), mask = symbol(c, "D", "_SWIZZLE_MASK"), moved = 0;
    int64_t step = symbol(c, "D", "_COPY_STEP"), rows = l->block_m / l->warps_m,
            columns = l->block_n / l->warps_n;
    for (int64_t thread = 0; thread < c->row->threads; thread++) {
        int64_t from = swizzled(c, "D", thread_function(c, "D", "_COPY_AT", thread));
        int64_t row = thread_function(c, "D", "_COPY_ROW", thread);
        int64_t column = thread_function(c, "D", "_COPY_COLUMN", thread);
        for (int64_t p = 0; p < symbol(c, "D", "_COPIES"); p++, moved += 8) {
            int64_t at_row = row + p * symbol(c, "D", "_COPY_ROWS");
            expect(c, "D", "a piece", thread, (from ^ (p * step >> shift & mask)) + p * step,
                   byte_of(&l->d, at_row, column));
            expect(c, "D", "the first row of the warp", thread, at_row / rows * rows,
                   operand_of(c, GEMM_MMA_A, thread).first);
            expect(c, "D", "the first column of the warp", thread, column / columns * columns,
                   operand_of(c, GEMM_MMA_B, thread).first);
        }
    }
    assert_int_equal(moved, l->block_m * l->block_n);
}

static void test_tiles(void **state)
{
    (void)state;
    for_every_row(tiles);
}
static void test_copies(void **state)
{
    (void)state;
    for_every_row(copies);
}
static void test_fragments(void **state)
{
    (void)state;
    for_every_row(fragments);
}
static void test_output(void **state)
{
    (void)state;
    for_every_row(sums);
    for_every_row(output);
}

/* ---- banks ---------------------------------------------------------------------------------------- */
static void expect_no_conflicts(const row_case *c, const gemm_mma_tile *tile, const gemm_mma_access *access)
{
    ptxpack_banks banks = ptxpack_gemm_mma_banks(tile, access);
    if (banks.status != PTXPACK_OK || banks.conflicts != 0 || banks.phases == 0)
        fail_msg("%s: %s: %lld conflicts in %lld phases; %s", c->row->id, access->atom,
                 (long long)banks.conflicts, (long long)banks.phases, ptxpack_detail(NULL));
}

static void no_conflicts(const row_case *c)
{
    for (int which = 0; which < GEMM_MMA_OPERANDS; which++) {
        const gemm_mma_operand *o = operand_of(c, which, 0).o;
        expect_no_conflicts(c, &o->tile, &o->load);
        expect_no_conflicts(c, &o->tile, &o->fragment);
        gemm_mma_tile plain = o->tile; /* without the swizzle */
        memset(&plain.swizzle, 0, sizeof plain.swizzle);
        assert_true(ptxpack_gemm_mma_banks(&plain, &o->fragment).conflicts > 0);
    }
    expect_no_conflicts(c, &c->l.d, &c->l.d_store);
    expect_no_conflicts(c, &c->l.d, &c->l.d_copy);
}

static void test_no_conflicts(void **state)
{
    (void)state;
    for_every_row(no_conflicts);
}

/* ---- errors --------------------------------------------------------------------------------------- */
static void expect_refusal(ptxpack_variant row, const char *why)
{
    static gemm_mma_layout l;
    assert_int_equal(ptxpack_gemm_mma_layout(&row, &l), PTXPACK_E_UNSUPPORTED);
    assert_int_equal(l.status, PTXPACK_E_UNSUPPORTED);
    if (strstr(ptxpack_detail(NULL), row.id) == NULL || strstr(ptxpack_detail(NULL), why) == NULL)
        fail_msg("\"%s\" does not say \"%s\" of %s", ptxpack_detail(NULL), why, row.id);
}

static ptxpack_variant with(ptxpack_variant row, const char *name, int64_t value)
{
    for (int i = 0; i < row.parameter_count; i++)
        if (strcmp(row.parameters[i].name, name) == 0)
            row.parameters[i].value = value;
    return row;
}

static void test_bad_rows(void **state)
{
    (void)state;
    const ptxpack_variant *found = ptxpack_variant_find("gemm_mma_sm80_128x256x64");
    assert_non_null(found);
    ptxpack_variant row = *found, bad = row;
    bad.shared_bytes += 16;
    expect_refusal(bad, "shared_bytes is");
    bad = row;
    bad.threads = 96;
    expect_refusal(bad, "threads is not 32 * WARPS_M * WARPS_N");
    expect_refusal(with(row, "BLOCK_N", 0), "BLOCK_N");
    expect_refusal(with(row, "BLOCK_M", 100), "not a multiple of 16 x 16");
    expect_refusal(with(row, "WARPS_N", 2), "not 16, 32 or 64 columns");
    expect_refusal(with(row, "BLOCK_K", 48), "BLOCK_K");
    expect_refusal(with(row, "BLOCK_M", 96), "whole lines");
    expect_refusal(with(row, "STAGES", 1), "STAGES");
    expect_refusal(with(row, "CP_ASYNC", 0), "STAGES");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiles),  cmocka_unit_test(test_copies),       cmocka_unit_test(test_fragments),
        cmocka_unit_test(test_output), cmocka_unit_test(test_no_conflicts), cmocka_unit_test(test_bad_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
