/* norm.c - RMSNorm without a GPU: what is refused, how the threads of a block are shared, and the reference. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "host/norm/inspect.h"

static const ptxpack_norm_desc good =
    {.size = sizeof good, .dtype = PTXPACK_F16, .rows = 3, .heads = 4, .columns = 16, .eps = 1e-5f};

/* ---- refusals ----------------------------------------------------------------------------------------- */
static void odd_size(ptxpack_norm_desc *d) { d->size -= 4; }
static void odd_type(ptxpack_norm_desc *d) { d->dtype = PTXPACK_E4M3; }
static void odd_option(ptxpack_norm_desc *d) { d->options = 7; }
static void odd_reserved(ptxpack_norm_desc *d) { d->reserved = 1; }
static void no_rows(ptxpack_norm_desc *d) { d->rows = 0; }
static void no_heads(ptxpack_norm_desc *d) { d->heads = -1; }
static void odd_columns(ptxpack_norm_desc *d) { d->columns = 12; }
static void many_columns(ptxpack_norm_desc *d) { d->columns = 16392; }
static void no_eps(ptxpack_norm_desc *d) { d->eps = 0; }
static void odd_eps(ptxpack_norm_desc *d) { d->eps = NAN; }
static void odd_stride(ptxpack_norm_desc *d) { d->x = (ptxpack_norm_strides){64, 20}; }
static void repeated_y(ptxpack_norm_desc *d) { d->y = (ptxpack_norm_strides){0, 16}; }
static void repeated_r(ptxpack_norm_desc *d)
{
    d->options = PTXPACK_NORM_RESIDUAL;
    d->r = (ptxpack_norm_strides){0, 16};
}

static const struct {
    void (*spoil)(ptxpack_norm_desc *d);
    const char *line;
} refusals[] = {
    {odd_size, "desc.size is "},
    {odd_type, "dtype 3 is neither PTXPACK_F16 nor PTXPACK_BF16"},
    {odd_option, "options has the unknown bits 0x4"},
    {odd_reserved, "desc.reserved is 1, not 0"},
    {no_rows, "rows is 0; it must be at least 1"},
    {no_heads, "heads is -1; it must be at least 1"},
    {odd_columns, "columns 12 is not a multiple of 8 up to 16384"},
    {many_columns, "columns 16392 is not a multiple of 8 up to 16384"},
    {no_eps, "eps is 0; it must be positive"},
    {odd_eps, "eps is nan; it must be positive"},
    {odd_stride, "x.head: stride 20 is not a multiple of 8 elements"},
    {repeated_y, "y.row: stride 0 would write every element 3 times"},
    {repeated_r, "r.row: stride 0 would write every element 3 times"},
};

static void bad_descriptors_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        ptxpack_norm_desc d = good;
        norm_geometry     g;
        char              line[PLAN_LINE];
        refusals[i].spoil(&d);
        assert_int_equal(norm_resolve(&d, &g, line), PTXPACK_E_ARG);
        if (strncmp(line, refusals[i].line, strlen(refusals[i].line)) != 0)
            fail_msg("\"%s\" does not begin with \"%s\"", line, refusals[i].line);
    }
}

/* y may be x, exactly; nothing else that is written may overlap. */
static void buffers_are_checked(void **state)
{
    static const struct {
        int         member; /* of x, w, r, y */
        uint64_t    address;
        const char *line; /* NULL: it is fine */
    } changes[] = {
        {0, 0, "x is null"},
        {2, 0, "r is null"},
        {1, 0x20008, "w: address 0x20008 is not a multiple of 16 bytes"},
        {3, 0xfffffffffffffff0, "y: address 0xfffffffffffffff0 plus its 384 bytes wraps around"},
        {3, 0x10000, NULL},
        {3, 0x10010, "y overlaps x: 0x10010 and 0x10000"},
        {3, 0x30000, "y overlaps r: 0x30000 and 0x30000"},
        {2, 0x10000, "r overlaps x: 0x10000 and 0x10000"},
        {2, 0x1fff0, "r overlaps w: 0x1fff0 and 0x20000"},
    };
    char              line[PLAN_LINE];
    norm_geometry     g;
    ptxpack_norm_desc d = good;
    (void)state;
    d.options = PTXPACK_NORM_RESIDUAL;
    assert_int_equal(norm_resolve(&d, &g, line), PTXPACK_OK);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        ptxpack_norm_buffers b = {.size = sizeof b, .x = 0x10000, .w = 0x20000, .r = 0x30000, .y = 0x40000};
        uint64_t            *members[] = {&b.x, &b.w, &b.r, &b.y};
        *members[changes[i].member] = changes[i].address;
        assert_int_equal(norm_check(&g, &b, line), changes[i].line == NULL ? PTXPACK_OK : PTXPACK_E_ARG);
        if (changes[i].line != NULL)
            assert_string_equal(line, changes[i].line);
    }
    d.y = (ptxpack_norm_strides){16, 48}; /* in place means with the same strides */
    assert_int_equal(norm_resolve(&d, &g, line), PTXPACK_OK);
    const ptxpack_norm_buffers b = {.size = sizeof b, .x = 0x10000, .w = 0x20000, .r = 0x30000, .y = 0x10000};
    assert_int_equal(norm_check(&g, &b, line), PTXPACK_E_ARG);
}

static void too_many_vectors_are_unsupported(void **state)
{
    ptxpack           *handle;
    ptxpack_options    options = {.size = sizeof options, .offline = true, .no_cache = true};
    ptxpack_norm_desc  d = good;
    ptxpack_norm_plan *plan;
    (void)state;
    d.rows = 1 << 30;
    options.arch = "sm_80";
    assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_OK);
    assert_int_equal(ptxpack_norm_plan_create(handle, &d, &plan), PTXPACK_E_UNSUPPORTED);
    assert_non_null(strstr(ptxpack_detail(handle), "counts rows 1073741824 times heads 4 only up to"));
    d.columns = 16384; /* not of the first row's columns, though that refuses these, too */
    assert_int_equal(ptxpack_norm_plan_create(handle, &d, &plan), PTXPACK_E_UNSUPPORTED);
    assert_non_null(strstr(ptxpack_detail(handle), "counts rows 1073741824 times heads 4 only up to"));
    ptxpack_close(handle);
}

static void columns_decide_about_the_row(void **state)
{
    static const struct expected {
        const char *arch;
        int32_t     columns;
        const char *row;
    } all[] = {{"sm_90a", 8192, "norm_sm90"},       {"sm_90a", 8200, "norm_sm90_long"},
               {"sm_90a", 16384, "norm_sm90_long"}, {"sm_80", 8192, "norm_sm80"},
               {"sm_86", 8200, "norm_sm80_long"},   {"sm_75", 16384, "norm_sm75"}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        ptxpack_options        options = {.size = sizeof options,
                                          .arch = all[i].arch,
                                          .offline = true,
                                          .no_cache = true};
        ptxpack_norm_desc      d = good;
        ptxpack               *handle;
        const ptxpack_variant *row;
        d.columns = all[i].columns;
        assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_OK);
        assert_int_equal(plan_row_of(&norm_op, handle, NULL, &d, &row), PTXPACK_OK);
        assert_string_equal(row->id, all[i].row);
        ptxpack_close(handle);
    }
}

/* ---- the reference ------------------------------------------------------------------------------------ */
/* The mean square of 1, -1, ... is 1, and of zeros eps alone is left. */
static void the_reference_is_the_formula(void **state)
{
    static const uint16_t half[8] = {0x3c00, 0xbc00, 0x3c00, 0xbc00, 0x3c00, 0xbc00, 0x3c00, 0xbc00};
    static const uint16_t w[8] = {0x4000, 0x4000, 0x3800, 0x3800, 0, 0, 0x3c00, 0xbc00};
    static const double   weights[8] = {2, 2, 0.5, 0.5, 0, 0, 1, -1};
    static const uint16_t zeros[8] = {0};
    ptxpack_norm_desc     d = good;
    double                y[8], sum[8];
    (void)state;
    d.rows = d.heads = 1;
    d.columns = 8;
    d.eps = 3;
    assert_int_equal(ptxpack_norm_reference(&d, half, w, NULL, NULL, y), PTXPACK_OK);
    for (int c = 0; c < 8; c++)
        assert_true(fabs(y[c] - (c % 2 != 0 ? -0.5 : 0.5) * weights[c]) < 1e-12);
    d.options = PTXPACK_NORM_RESIDUAL | PTXPACK_NORM_ONE_PLUS_WEIGHT;
    assert_int_equal(ptxpack_norm_reference(&d, half, w, half, sum, y), PTXPACK_OK);
    for (int c = 0; c < 8; c++) {
        assert_true(sum[c] == (c % 2 != 0 ? -2 : 2));
        assert_true(fabs(y[c] - sum[c] / sqrt(7.0) * (1 + weights[c])) < 1e-12);
    }
    d.options = 0;
    assert_int_equal(ptxpack_norm_reference(&d, zeros, w, NULL, NULL, y), PTXPACK_OK);
    assert_true(y[0] == 0 && y[7] == 0);
    d.options = PTXPACK_NORM_RESIDUAL;
    assert_int_equal(ptxpack_norm_reference(&d, half, w, NULL, sum, y), PTXPACK_E_ARG);
    assert_string_equal(ptxpack_detail(NULL), "r is NULL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_descriptors_are_refused),      cmocka_unit_test(buffers_are_checked),
        cmocka_unit_test(too_many_vectors_are_unsupported), cmocka_unit_test(columns_decide_about_the_row),
        cmocka_unit_test(the_reference_is_the_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
