/* gemm.c - GEMM on the host: valid descriptors and addresses; and the rows of ptx/gemm/wgmma.ptx and wgmma_fp8.ptx, compared with
 * the hardware's rules, which are worked out here without the layout algebra. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "host/gemm/inspect.h"
#include "loader/loader.h"
#include "tests/support/offline.h"

enum { ELEMENT = 2, BOX_ROW = 128, BOX = 64, SHARED_LIMIT = 232448 };

/* ---- descriptors -------------------------------------------------------------------------------------- */
static ptxpack_gemm_desc a_problem(void)
{
    return (ptxpack_gemm_desc){.size = sizeof(ptxpack_gemm_desc),
                               .dtype = PTXPACK_BF16,
                               .m = 40,
                               .n = 24,
                               .k = 16,
                               .batch = 3,
                               .has_c = true,
                               .has_bias = true};
}

static void expect_refusal(const ptxpack_gemm_desc *desc, const char *words)
{
    gemm_geometry geometry;
    char          line[PLAN_LINE] = "";
    assert_int_equal(ptxpack_gemm_resolve(desc, &geometry, line), PTXPACK_E_ARG);
    if (strstr(line, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", line, words);
}
#define REFUSED(words, ...)                \
    do {                                   \
        ptxpack_gemm_desc d = a_problem(); \
        __VA_ARGS__;                       \
        expect_refusal(&d, words);         \
    } while (0)

static void malformed_fields_are_named(void **state)
{
    (void)state;
    expect_refusal(NULL, "desc is NULL");
    REFUSED("desc.size", d.size--);
    REFUSED("dtype", d.dtype = PTXPACK_E4M3);
    REFUSED("m is 0", d.m = 0);
    REFUSED("n is -1", d.n = -1);
    REFUSED("k is -1", d.k = -1);
    REFUSED("batch is -2", d.batch = -2);
    REFUSED("order_a", d.order_a = (ptxpack_order)2);
    REFUSED("order_b", d.order_b = (ptxpack_order)7);
    REFUSED("activation 9", d.activation = (ptxpack_activation)9);
    REFUSED("dtype_ab 1 is none", d.dtype_ab = PTXPACK_F16);
    REFUSED("dtype_ab 4 is none", d.dtype_ab = PTXPACK_INT8);
    REFUSED("scales 3 are none", d.dtype_ab = PTXPACK_E4M3, d.scales = (ptxpack_gemm_scales)3);
    REFUSED("scales: only PTXPACK_E4M3 has any, of dtype_ab or dtype_b", d.scales = PTXPACK_SCALES_LINES);
    REFUSED("dtype_b 1 is none of 0, dtype and", d.dtype_b = PTXPACK_F16);
    REFUSED("dtype_b 4 is none of 0, dtype and", d.dtype_b = PTXPACK_INT8);
    REFUSED("dtype_b: B has 16 bits, and A", d.dtype_ab = PTXPACK_E4M3, d.dtype_b = PTXPACK_BF16);
    REFUSED("k is 0, and scales are of blocks", d.dtype_b = PTXPACK_E4M3, d.k = 0,
            d.scales = PTXPACK_SCALES_BLOCKS);
    REFUSED("k is 0, and scales are of blocks", d.dtype_ab = PTXPACK_E4M3, d.k = 0,
            d.scales = PTXPACK_SCALES_BLOCKS);
}

static void strides_are_checked(void **state)
{
    (void)state;
    REFUSED("stride_a: 20 is not a multiple of 8", d.stride_a = 20);
    REFUSED("stride_a: 8 is less", d.stride_a = 8);
    REFUSED("stride_a: packed, 24 is not a multiple of 16", d.dtype_ab = PTXPACK_E4M3, d.k = 24);
    REFUSED("batch_b: 1000 is not a multiple of 16", d.dtype_ab = PTXPACK_E4M3, d.batch_b = 1000,
            d.order_b = PTXPACK_COLUMN_MAJOR);
    REFUSED("stride_b: packed, 24 is not a multiple of 16", d.dtype_b = PTXPACK_E4M3, d.k = 24,
            d.order_b = PTXPACK_COLUMN_MAJOR);
    REFUSED("stride_b: packed, 21", d.n = 21);
    REFUSED("stride_b: 8 is less", d.order_b = PTXPACK_COLUMN_MAJOR, d.stride_b = 8);
    REFUSED("stride_d: 16 is less", d.stride_d = 16);
    REFUSED("stride_c: -8 is less", d.stride_c = -8);
    REFUSED("stride_d: 70368744177664 is 2^46", d.stride_d = (int64_t)1 << 46);
    REFUSED("batch_a: 4 is not a multiple", d.batch_a = 4);
    REFUSED("batch_b: -8 is negative", d.batch_b = -8);
    REFUSED("a: its strides span", d.m = INT32_MAX, d.stride_a = (int64_t)1 << 45);
    REFUSED("d: its strides span", d.batch = INT32_MAX, d.batch_a = d.batch_b = d.batch_c = -1,
            d.batch_d = (int64_t)1 << 45);
    REFUSED("scale_a: its strides span", d.m = d.k = 1 << 20, d.batch = INT32_MAX, d.batch_a = 16,
            d.batch_b = d.batch_c = -1, d.n = 8, d.dtype_ab = PTXPACK_E4M3, d.scales = PTXPACK_SCALES_BLOCKS,
            d.order_b = PTXPACK_COLUMN_MAJOR);
    REFUSED("batch_d: D cannot be", d.batch_d = -1);
    REFUSED("batch_d: 8 makes matrices overlap", d.batch_d = 8);
    REFUSED("batch_d: 24 makes matrices overlap", d.batch_d = 24, d.stride_d = 64);
    REFUSED("batch_d: 8 makes matrices overlap", d.m = 1, d.batch_d = 8);
}

static void defaults_are_filled_in(void **state)
{
    (void)state;
    ptxpack_gemm_desc d = a_problem();
    gemm_geometry     g;
    char              line[PLAN_LINE];
    d.batch_b = -1;
    d.order_a = PTXPACK_COLUMN_MAJOR;
    d.batch_d = 24; /* the rows of all three matrices lie next to each other */
    d.stride_d = 72;
    assert_int_equal(ptxpack_gemm_resolve(&d, &g, line), PTXPACK_OK);
    assert_int_equal(g.batch, 3);
    assert_int_equal(g.bias_bytes, 48);
    const gemm_matrix *a = &g.matrix[GEMM_A], *b = &g.matrix[GEMM_B], *x = &g.matrix[GEMM_D];
    assert_true(a->lines == 16 && a->length == 40 && a->stride == 40 && a->batch == 640 && a->bytes == 3840);
    assert_true(b->lines == 16 && b->length == 24 && b->stride == 24 && b->batch == 0 && b->bytes == 768);
    assert_true(x->stride == 72 && x->batch == 24 && x->bytes == 2 * (2 * 24 + 39 * 72 + 24));
    d.k = d.batch = 0;
    d.batch_d = d.stride_d = 0;
    assert_int_equal(ptxpack_gemm_resolve(&d, &g, line), PTXPACK_OK);
    assert_int_equal(g.batch, 1);
    assert_true(g.matrix[GEMM_A].bytes == 0 && g.matrix[GEMM_B].bytes == 0 && g.matrix[GEMM_D].batch == 0);
    assert_true(g.matrix[GEMM_A].stride % 8 == 0 && g.matrix[GEMM_A].stride > 0);
}

/* Of three products with one B. */
static void scales_are_counted(void **state)
{
    static const struct {
        ptxpack_gemm_scales scales;
        int64_t             a_line, a_batch, b_line, b_batch;
        uint64_t            a_bytes, b_bytes;
    } cases[] = {
        {PTXPACK_SCALES_TENSOR, 1, 0, 1, 0, 4, 4},
        {PTXPACK_SCALES_LINES, 1, 40, 1, 0, 480, 4 * 264},
        {PTXPACK_SCALES_BLOCKS, 2, 80, 2, 0, 960, 4 * 3 * 2},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ptxpack_gemm_desc d = a_problem();
        gemm_geometry     g;
        char              line[PLAN_LINE];
        d.n = 264;
        d.k = 144;
        d.order_b = PTXPACK_COLUMN_MAJOR;
        d.batch_b = -1;
        d.dtype_ab = PTXPACK_E4M3;
        d.scales = cases[i].scales;
        assert_int_equal(ptxpack_gemm_resolve(&d, &g, line), PTXPACK_OK);
        assert_true(g.matrix[GEMM_A].element == 1 && g.matrix[GEMM_A].bytes == 3 * 40 * 144);
        assert_true(g.matrix[GEMM_D].element == 2 && g.matrix[GEMM_D].bytes == 3 * 40 * 264 * 2);
        assert_int_equal(g.scale[GEMM_A].line, cases[i].a_line);
        assert_int_equal(g.scale[GEMM_A].batch, cases[i].a_batch);
        assert_int_equal(g.scale[GEMM_A].bytes, cases[i].a_bytes);
        assert_int_equal(g.scale[GEMM_B].line, cases[i].b_line);
        assert_int_equal(g.scale[GEMM_B].batch, cases[i].b_batch);
        assert_int_equal(g.scale[GEMM_B].bytes, cases[i].b_bytes);
    }
}

/* Blocks that share k: a cluster of them for each tile must fit into a grid. */
static void a_grid_has_its_limit(void **state)
{
    (void)state;
    char              line[PLAN_LINE];
    ptxpack          *handle = open_offline("sm_90a");
    ptxpack_gemm_desc d = a_problem();
    d.m = 1;
    d.batch = (1 << 30) - 1;
    if (plan_row_refusal(&gemm_op, handle, NULL, &d, ptxpack_variant_find("gemm_wgmma_sm90_64x128"), line) !=
        NULL)
        fail_msg("%s", line);
    assert_non_null(
        plan_row_refusal(&gemm_op, handle, NULL, &d, ptxpack_variant_find("gemm_wgmma_sm90_64x256_k4"), line));
    assert_string_equal(line, "takes up to 268435455 tiles");
    ptxpack_close(handle);
}

/* ---- addresses ---------------------------------------------------------------------------------------- */
static void addresses_are_checked(void **state)
{
    (void)state;
    ptxpack_gemm_desc          d = a_problem();
    gemm_geometry              g;
    char                       line[PLAN_LINE];
    const ptxpack_gemm_buffers fine =
        {.size = sizeof fine, .a = 0x10000, .b = 0x20000, .c = 0x40000, .d = 0x40000, .bias = 0x50000};
    assert_int_equal(ptxpack_gemm_resolve(&d, &g, line), PTXPACK_OK);
    assert_int_equal(ptxpack_gemm_check_buffers(&g, &fine, line), PTXPACK_OK);
    const struct {
        const char          *words;
        ptxpack_gemm_buffers b;
    } wrong[] = {
        {"buffers.size", {.size = 1}},
        {"a is null", {sizeof fine, 1, 1, 0, 0x20000, 0x30000, 0x40000, 0x50000, 0, 0, 0, 0, 0, 0, 0}},
        {"b: address 0x20008",
         {sizeof fine, 1, 1, 0x10000, 0x20008, 0x30000, 0x40000, 0x50000, 0, 0, 0, 0, 0, 0, 0}},
        {"c is null", {sizeof fine, 1, 1, 0x10000, 0x20000, 0, 0x40000, 0x50000, 0, 0, 0, 0, 0, 0, 0}},
        {"bias is null", {sizeof fine, 1, 1, 0x10000, 0x20000, 0x30000, 0x40000, 0, 0, 0, 0, 0, 0, 0, 0}},
        {"wraps",
         {sizeof fine, 1, 1, 0xfffffffffffffff0, 0x20000, 0x30000, 0x40000, 0x50000, 0, 0, 0, 0, 0, 0, 0}},
        {"d overlaps a", {sizeof fine, 1, 1, 0x10000, 0x20000, 0x30000, 0x10010, 0x50000, 0, 0, 0, 0, 0, 0, 0}},
        {"d overlaps c", {sizeof fine, 1, 1, 0x10000, 0x20000, 0x30010, 0x30000, 0x50000, 0, 0, 0, 0, 0, 0, 0}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(ptxpack_gemm_check_buffers(&g, &wrong[i].b, line), PTXPACK_E_ARG);
        if (strstr(line, wrong[i].words) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", line, wrong[i].words);
    }
    assert_int_equal(ptxpack_gemm_check_buffers(&g, NULL, line), PTXPACK_E_ARG);
    g.matrix[GEMM_C].stride = 32; /* in place only if it lies as D does */
    assert_int_equal(ptxpack_gemm_check_buffers(&g, &fine, line), PTXPACK_E_ARG);
    g.matrix[GEMM_C].bytes = 0; /* there is no C */
    assert_int_equal(ptxpack_gemm_check_buffers(&g, &fine, line), PTXPACK_OK);
}

static void scales_have_addresses(void **state)
{
    (void)state;
    ptxpack_gemm_desc    d = a_problem();
    gemm_geometry        g;
    char                 line[PLAN_LINE];
    ptxpack_gemm_buffers b =
        {.size = sizeof b, .a = 0x10000, .b = 0x20000, .c = 0x40000, .d = 0x40000, .bias = 0x50000};
    d.dtype_ab = PTXPACK_E4M3;
    d.n = 32; /* as B is row-major here */
    assert_int_equal(ptxpack_gemm_resolve(&d, &g, line), PTXPACK_OK);
    assert_int_equal(ptxpack_gemm_check_buffers(&g, &b, line), PTXPACK_OK); /* of a tensor: 1 */
    b.scale_b = 0x60004;
    assert_int_equal(ptxpack_gemm_check_buffers(&g, &b, line), PTXPACK_OK);
    b.scale_a = b.d;
    assert_int_equal(ptxpack_gemm_check_buffers(&g, &b, line), PTXPACK_E_ARG);
    assert_non_null(strstr(line, "d overlaps scale_a"));
    d.scales = PTXPACK_SCALES_LINES;
    assert_int_equal(ptxpack_gemm_resolve(&d, &g, line), PTXPACK_OK);
    b.scale_a = 0;
    assert_int_equal(ptxpack_gemm_check_buffers(&g, &b, line), PTXPACK_E_ARG);
    assert_string_equal(line, "scale_a is null");
    b.scale_a = 0x70000;
    assert_int_equal(ptxpack_gemm_check_buffers(&g, &b, line), PTXPACK_E_ARG);
    assert_string_equal(line, "scale_b: address 0x60004 is not a multiple of 16 bytes");
}

/* A of 16 bits has no scales, and none are wanted. */
static void b_alone_has_scales(void **state)
{
    (void)state;
    ptxpack_gemm_desc    d = a_problem();
    gemm_geometry        g;
    char                 line[PLAN_LINE];
    ptxpack_gemm_buffers b =
        {.size = sizeof b, .a = 0x10000, .b = 0x20000, .c = 0x40000, .d = 0x40000, .bias = 0x50000};
    d.dtype_b = PTXPACK_E4M3;
    d.order_b = PTXPACK_COLUMN_MAJOR;
    d.k = 144;
    d.n = 264;
    d.scales = PTXPACK_SCALES_BLOCKS;
    d.batch = 1;
    assert_int_equal(ptxpack_gemm_resolve(&d, &g, line), PTXPACK_OK);
    assert_true(g.matrix[GEMM_A].element == 2 && g.matrix[GEMM_A].bytes == 2 * 40 * 144);
    assert_true(g.matrix[GEMM_B].element == 1 && g.matrix[GEMM_B].bytes == 264 * 144);
    assert_true(g.scale[GEMM_A].bytes == 0 && g.scale[GEMM_B].line == 2 && g.scale[GEMM_B].bytes == 4 * 3 * 2);
    assert_int_equal(ptxpack_gemm_check_buffers(&g, &b, line), PTXPACK_E_ARG);
    assert_string_equal(line, "scale_b is null");
    b.scale_b = 0x60008;
    assert_int_equal(ptxpack_gemm_check_buffers(&g, &b, line), PTXPACK_E_ARG);
    assert_string_equal(line, "scale_b: address 0x60008 is not a multiple of 16 bytes");
    b.scale_b = 0x60000;
    assert_int_equal(ptxpack_gemm_check_buffers(&g, &b, line), PTXPACK_OK);
}

/* Callers that were compiled before dtype_ab and the scales were there, or before groups and dtype_b. */
static void older_structs_are_taken(void **state)
{
    (void)state;
    ptxpack           *handle = open_offline("sm_90a");
    ptxpack_gemm_plan *plan;
    ptxpack_gemm_desc  d = a_problem();
    d.size = offsetof(ptxpack_gemm_desc, dtype_ab);
    d.dtype_ab = PTXPACK_E4M3; /* not looked at */
    d.m = 0;
    assert_int_equal(ptxpack_gemm_plan_create(handle, &d, &plan), PTXPACK_E_ARG);
    assert_string_equal(ptxpack_detail(handle), "m is 0, not 1 or more");
    d.size = offsetof(ptxpack_gemm_desc, groups);
    d.groups = -1;
    d.dtype_b = PTXPACK_INT8; /* nor is this */
    assert_int_equal(ptxpack_gemm_plan_create(handle, &d, &plan), PTXPACK_E_ARG);
    assert_string_equal(ptxpack_detail(handle), "m is 0, not 1 or more");
    d.size--;
    assert_int_equal(ptxpack_gemm_plan_create(handle, &d, &plan), PTXPACK_E_ARG);
    assert_non_null(strstr(ptxpack_detail(handle), "desc.size"));
    ptxpack_close(handle);
}

static void expect_row_refusal(ptxpack *handle, const ptxpack_gemm_desc *d, const char *id, const char *words)
{
    char line[PLAN_LINE];
    assert_non_null(plan_row_refusal(&gemm_op, handle, NULL, d, ptxpack_variant_find(id), line));
    assert_string_equal(line, words);
}

/* The rows of a method that take the problem, and no others. */
static void expect_rows(ptxpack *handle, const ptxpack_gemm_desc *d, const plan_method *method, size_t wanted)
{
    char                   line[PLAN_LINE];
    size_t                 count, taken = 0;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].op, "gemm") != 0 ||
            plan_row_refusal(&gemm_op, handle, NULL, d, &rows[i], line) != NULL)
            continue;
        assert_ptr_equal(plan_method_of(&rows[i]), method);
        taken++;
    }
    assert_int_equal(taken, wanted);
}

/* Which rows take e4m3, and of which problems. */
static void e4m3_has_rows_of_its_own(void **state)
{
    (void)state;
    enum { ROWS = 11 };
    static const char id[] = "gemm_wgmma_sm90_fp8_128x256";
    ptxpack          *handle = open_offline("sm_90a");
    ptxpack_gemm_desc d = a_problem();
    d.order_b = PTXPACK_COLUMN_MAJOR;
    d.dtype_ab = PTXPACK_E4M3;
    expect_rows(handle, &d, &gemm_wgmma_fp8, ROWS);
    d.order_b = PTXPACK_ROW_MAJOR;
    d.n = 32;
    expect_row_refusal(handle, &d, id, "order_b: takes e4m3 of a row-major A and a column-major B");
    d.order_b = PTXPACK_COLUMN_MAJOR;
    d.n = 20;
    d.stride_c = d.stride_d = 24;
    d.batch_c = d.batch_d = 24 * d.m;
    expect_row_refusal(handle, &d, id, "n is 20, no multiple of 8");
    ptxpack_close(handle);
}

/* Which rows take a B of e4m3 beside an A of 16 bits, and of which problems. */
static void b_alone_has_rows_of_its_own(void **state)
{
    (void)state;
    static const char  id[] = "gemm_rows_e4m3_sm90_16x32";
    ptxpack           *handle = open_offline("sm_90a");
    ptxpack_gemm_plan *plan;
    ptxpack_gemm_desc  d = {.size = sizeof d,
                            .dtype = PTXPACK_F16,
                            .m = 8,
                            .n = 40,
                            .k = 384,
                            .order_b = PTXPACK_COLUMN_MAJOR,
                            .dtype_b = PTXPACK_E4M3};
    expect_rows(handle, &d, &gemm_rows_e4m3, 5);
    d.m = 9;
    expect_rows(handle, &d, &gemm_rows_e4m3, 3);
    d.m = 17;
    expect_rows(handle, &d, &gemm_rows_e4m3, 1);
    expect_row_refusal(handle, &d, id, "m is 17, more than 16");
    d.m = 33;
    assert_int_equal(ptxpack_gemm_plan_create(handle, &d, &plan), PTXPACK_E_UNSUPPORTED);
    assert_non_null(strstr(ptxpack_detail(handle), "dtype f16, dtype_b e4m3"));
    assert_non_null(strstr(ptxpack_detail(handle), "m is 33, more than"));
    d.m = 8;
    d.k = 192;
    expect_row_refusal(handle, &d, id, "k is 192, no multiple of 128 above 0");
    d.k = 384;
    d.n = 44;
    d.stride_d = 48;
    expect_row_refusal(handle, &d, id, "n is 44, no multiple of 8");
    d.n = 48;
    d.batch = 2;
    expect_row_refusal(handle, &d, id, "batch: takes one product");
    d.batch = 1;
    d.order_b = PTXPACK_ROW_MAJOR;
    expect_row_refusal(handle, &d, id, "order_a, order_b: takes A row-major and B column-major");
    d.order_b = PTXPACK_COLUMN_MAJOR;
    d.dtype_ab = PTXPACK_E4M3; /* of both: not a B alone */
    expect_rows(handle, &d, &gemm_wgmma_fp8, 11);
    ptxpack_close(handle);
}

/* ---- the rows of gemm_wgmma --------------------------------------------------------------------------- */
typedef struct row_case {
    const ptxpack_variant *row;
    gemm_wgmma_layout      l;
} row_case;

static void for_every_row(void (*test)(const row_case *))
{
    size_t                 count, tested = 0;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    for (size_t i = 0; i < count; i++) {
        static row_case    c;
        const plan_method *method = plan_method_of(&rows[i]);
        if (method != &gemm_wgmma && method != &gemm_wgmma_fit && method != &gemm_wgmma_parts &&
            method != &gemm_wgmma_fp8 && method != &gemm_wgmma_groups)
            continue;
        c.row = &rows[i];
        if (ptxpack_gemm_wgmma_layout(c.row, &c.l) != PTXPACK_OK)
            fail_msg("%s", ptxpack_detail(NULL));
        test(&c);
        tested++;
    }
    assert_true(tested > 0);
}

static void expect(const row_case *c, const char *what, int64_t got, int64_t want)
{
    if (got != want)
        fail_msg("%s: %s is %lld, not %lld", c->row->id, what, (long long)got, (long long)want);
}

/* Where TMA puts the element, by the rule of the 128-byte swizzle: the index of the 16-byte chunk is XORed with
 * the row. */
static int64_t place(int64_t mn, int64_t k, int64_t element, bool k_lines)
{
    int64_t box = k_lines ? mn / BOX : 0, line = k_lines ? k : mn, along = k_lines ? mn % BOX : k;
    return box * BOX * BOX_ROW + line * BOX_ROW + ((along * element) ^ (line % 8 * 16));
}

static void check_operand(const row_case *c, const gemm_wgmma_operand *o, int64_t extent, bool k_lines)
{
    const int64_t element = c->l.element;
    for (int64_t k = 0; k < BOX_ROW / element; k++)
        for (int64_t mn = 0; mn < extent; mn++)
            expect(c, "an element's place", element * ptxpack_at(&o->tile, mn + extent * k),
                   place(mn, k, element, k_lines));
    expect(c, "swizzle", o->read.fields.swizzle, PTXPACK_WGMMA_128B);
    expect(c, "stride", o->read.fields.stride, 8 * BOX_ROW);
    expect(c, "the next k", 16 * o->read.step_k, k_lines ? 16 * BOX_ROW : 32); /* 16 of 2 bytes, 32 of one */
    if (k_lines && o->read.mn > BOX)
        expect(c, "leading", o->read.fields.leading, BOX * BOX_ROW);
    if (o->read.mn < extent)
        expect(c, "the next rows", 16 * o->read.step_mn, o->read.mn * BOX_ROW);
    expect(c, "box", o->box.box_dim[1], k_lines ? BOX : extent / o->parts);
    expect(c, "bytes of all boxes", o->parts * o->boxes * o->box_bytes, extent * BOX_ROW);
}

static void check_row(const row_case *c)
{
    const plan_method *method = plan_method_of(c->row);
    const bool         k_lines =
        method != &gemm_wgmma_fp8 && method != &gemm_wgmma_fit &&
        c->l.block_n % BOX ==
            0; /* the others have one order, as have tiles whose columns are no multiple of 64 */
    assert_true(!k_lines || (c->l.k_lines_a && c->l.k_lines_b));
    for (int column = 0; column < 2; column++) {
        if (k_lines || column == 0)
            check_operand(c, &c->l.a[column], c->l.block_m, column == 1);
        if (k_lines || column == 1)
            check_operand(c, &c->l.b[column], c->l.block_n, column == 0);
    }
    assert_true(c->l.shared_bytes <= SHARED_LIMIT / c->row->blocks_per_sm - 1024 * (c->row->blocks_per_sm - 1));
    assert_true(c->l.smem_d % 1024 == 0 && c->l.d_box_bytes % 1024 == 0);
}

static void tiles_are_as_the_hardware_has_them(void **state)
{
    (void)state;
    for_every_row(check_row);
}

static int64_t symbol(const row_case *c, const ptxpack_symbol *all, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(all[i].name, name) == 0)
            return all[i].value;
    fail_msg("%s: no symbol %s", c->row->id, name);
    return 0;
}

/* Computes a function as shared/layout.ptx does. */
static int64_t thread_function(const row_case *c, const ptxpack_symbol *all, size_t count, const char *function,
                               int64_t thread)
{
    char    name[64];
    int64_t sum = 0;
    snprintf(name, sizeof name, "%s_MODES", function);
    for (int64_t i = 0, modes = symbol(c, all, count, name); i < modes; i++) {
        snprintf(name, sizeof name, "%s_SHIFT%d", function, (int)i);
        int64_t digit = thread >> symbol(c, all, count, name);
        snprintf(name, sizeof name, "%s_MASK%d", function, (int)i);
        digit &= symbol(c, all, count, name);
        snprintf(name, sizeof name, "%s_STRIDE%d", function, (int)i);
        sum += digit * symbol(c, all, count, name);
    }
    return sum;
}

/* Lane l of stmatrix.x4 gives row l % 8 of matrix l / 8.  Of four neighbouring pairs of accumulators the second
 * is eight rows down, and the third eight columns to the right. */
static void check_staging(const row_case *c)
{
    static ptxpack_symbol   all[PTXPACK_INSTANCE_SYMBOLS];
    const bool              fp8 = plan_method_of(c->row) == &gemm_wgmma_fp8;
    const bool              one_order = fp8 || plan_method_of(c->row) == &gemm_wgmma_fit;
    const ptxpack_gemm_desc desc = {.size = sizeof desc,
                                    .dtype = PTXPACK_BF16,
                                    .m = 64,
                                    .n = 64,
                                    .k = 64,
                                    .order_b = one_order ? PTXPACK_COLUMN_MAJOR : PTXPACK_ROW_MAJOR,
                                    .dtype_ab = fp8 ? PTXPACK_E4M3 : (ptxpack_dtype)0};
    size_t                  count = plan_row_symbols(c->row, &desc, all);
    if (count == 0)
        fail_msg("%s", ptxpack_detail(NULL));
    for (int64_t lane = 0; lane < 32; lane++) {
        int64_t row = lane % 8 + lane / 8 % 2 * 8, chunk = lane / 16;
        expect(c, "D_AT", thread_function(c, all, count, "D_AT", lane), row * BOX_ROW + chunk * 16);
    }
    for (int64_t thread = 0; thread < 128; thread++)
        expect(c, "C_COLUMN", thread_function(c, all, count, "C_COLUMN", thread), thread % 4 * 2);
    for (int64_t thread = 0; thread < 128 && fp8; thread++)
        expect(c, "C_ROW", thread_function(c, all, count, "C_ROW", thread), thread / 32 * 16 + thread % 32 / 4);
    if (fp8)
        expect(c, "C_ROWS", symbol(c, all, count, "C_ROWS"), 8);
    expect(c, "C_COLUMNS", symbol(c, all, count, "C_COLUMNS"), 8);
    expect(c, "D_STEP", symbol(c, all, count, "D_STEP"), 32);
    expect(c, "D_STEPS", symbol(c, all, count, "D_STEPS"), 4);
    expect(c, "SWIZZLE_SHIFT", symbol(c, all, count, "SWIZZLE_SHIFT"), 3);
    expect(c, "SWIZZLE_MASK", symbol(c, all, count, "SWIZZLE_MASK"), 0x70);
}

static void accumulators_are_staged_where_they_belong(void **state)
{
    (void)state;
    for_every_row(check_staging);
}

static void contradictions_of(const char *id)
{
    static gemm_wgmma_layout l;
    ptxpack_variant          row = *ptxpack_variant_find(id);
    assert_int_equal(ptxpack_gemm_wgmma_layout(&row, &l), PTXPACK_OK);
    row.shared_bytes -= 16;
    assert_int_equal(ptxpack_gemm_wgmma_layout(&row, &l), PTXPACK_E_UNSUPPORTED);
    assert_non_null(strstr(ptxpack_detail(NULL), "shared_bytes"));
    for (int i = 0; i < row.parameter_count; i++) {
        int64_t kept = row.parameters[i].value;
        if (strcmp(row.parameters[i].name, "SPEED") == 0 || strcmp(row.parameters[i].name, "FP8") == 0)
            continue;
        row.parameters[i].value = 999;
        assert_int_equal(ptxpack_gemm_wgmma_layout(&row, &l), PTXPACK_E_UNSUPPORTED);
        assert_non_null(strstr(ptxpack_detail(NULL), row.id));
        row.parameters[i].value = kept;
    }
}

static void contradictions_are_refused(void **state)
{
    (void)state;
    contradictions_of("gemm_wgmma_sm90_128x256_2x1");
    contradictions_of("gemm_wgmma_sm90_fit_192x144_1x2");
    contradictions_of("gemm_wgmma_sm90_fp8_128x192_2x1");
}

/* Rows of tiles that fill whole rounds where others do not. */
static void tiles_fit_the_gpu(void **state)
{
    (void)state;
    ptxpack               *handle = open_offline("sm_90a");
    const ptxpack_variant *row;
    ptxpack_gemm_desc      d = {.size = sizeof d,
                                .dtype = PTXPACK_F16,
                                .m = 1536,
                                .n = 1536,
                                .k = 1536,
                                .order_b = PTXPACK_COLUMN_MAJOR};
    assert_int_equal(plan_row_of(&gemm_op, handle, NULL, &d, &row), PTXPACK_OK);
    assert_string_equal(row->id, "gemm_wgmma_sm90_fit_128x144"); /* 132 tiles */
    d.has_c = true;
    expect_row_refusal(handle, &d, row->id, "has_c: takes no C");
    d.has_c = false;
    d.order_a = PTXPACK_COLUMN_MAJOR;
    expect_row_refusal(handle, &d, row->id, "order_a: takes a row-major A and a column-major B");
    d.order_a = d.order_b = PTXPACK_ROW_MAJOR;
    expect_row_refusal(handle, &d, row->id, "order_b: takes a row-major A and a column-major B");
    d.order_b = PTXPACK_COLUMN_MAJOR;
    d.activation = PTXPACK_ACTIVATION_SWIGLU;
    expect_row_refusal(handle, &d, row->id, "activation: has no SwiGLU");
    ptxpack_close(handle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_fields_are_named),
        cmocka_unit_test(strides_are_checked),
        cmocka_unit_test(defaults_are_filled_in),
        cmocka_unit_test(scales_are_counted),
        cmocka_unit_test(a_grid_has_its_limit),
        cmocka_unit_test(addresses_are_checked),
        cmocka_unit_test(scales_have_addresses),
        cmocka_unit_test(b_alone_has_scales),
        cmocka_unit_test(older_structs_are_taken),
        cmocka_unit_test(e4m3_has_rows_of_its_own),
        cmocka_unit_test(b_alone_has_rows_of_its_own),
        cmocka_unit_test(tiles_are_as_the_hardware_has_them),
        cmocka_unit_test(accumulators_are_staged_where_they_belong),
        cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(tiles_fit_the_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
