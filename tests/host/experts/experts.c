/* experts.c - mixtures of experts without a GPU: what is refused, how rows are divided, and what the references say. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "host/experts/inspect.h"

static const ptxpack_experts_route_desc   good_route = {.size = sizeof good_route,
                                                        .dtype = PTXPACK_BF16,
                                                        .rows = 100,
                                                        .experts = 40,
                                                        .top_k = 4};
static const ptxpack_experts_combine_desc good_combine = {.size = sizeof good_combine,
                                                          .dtype = PTXPACK_F16,
                                                          .rows = 4,
                                                          .top_k = 2,
                                                          .columns = 16,
                                                          .options = PTXPACK_EXPERTS_RESIDUAL};

static void expect_line(const char *line, const char *beginning)
{
    if (strncmp(line, beginning, strlen(beginning)) != 0)
        fail_msg("\"%s\" does not begin with \"%s\"", line, beginning);
}

/* ---- descriptors -------------------------------------------------------------------------------------- */
static void size_of_route(ptxpack_experts_route_desc *d) { d->size--; }
static void type_of_route(ptxpack_experts_route_desc *d) { d->dtype = PTXPACK_E4M3; }
static void option_of_route(ptxpack_experts_route_desc *d) { d->options = 5; }
static void no_rows(ptxpack_experts_route_desc *d) { d->rows = 0; }
static void many_rows(ptxpack_experts_route_desc *d) { d->rows = (1 << 24) + 1; }
static void no_experts(ptxpack_experts_route_desc *d) { d->experts = 0; }
static void many_experts(ptxpack_experts_route_desc *d) { d->experts = 513; }
static void no_choice(ptxpack_experts_route_desc *d) { d->top_k = 0; }
static void many_choices(ptxpack_experts_route_desc *d) { d->top_k = 17; }
static void more_choices(ptxpack_experts_route_desc *d) { d->experts = 3; }
static void short_stride(ptxpack_experts_route_desc *d) { d->stride = 39; }

static void bad_routes_are_refused(void **state)
{
    static const struct {
        void (*spoil)(ptxpack_experts_route_desc *d);
        const char *line;
    } refusals[] = {
        {size_of_route, "desc.size is "},
        {type_of_route, "dtype 3 is neither PTXPACK_F16 nor PTXPACK_BF16"},
        {option_of_route, "options has the unknown bits 0x4"},
        {no_rows, "rows 0 is not from 1 to 16777216"},
        {many_rows, "rows 16777217 is not from 1 to 16777216"},
        {no_experts, "experts 0 is not from 1 to 512"},
        {many_experts, "experts 513 is not from 1 to 512"},
        {no_choice, "top_k 0 is not from 1 to 16"},
        {many_choices, "top_k 17 is not from 1 to 16"},
        {more_choices, "top_k 4 is more than experts, 3"},
        {short_stride, "logits.row: stride 39 overlaps the 40 elements inside it"},
    };
    experts_route_geometry g;
    char                   line[PLAN_LINE];
    (void)state;
    assert_int_equal(experts_route_resolve(NULL, &g, line), PTXPACK_E_ARG);
    assert_string_equal(line, "desc is NULL");
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        ptxpack_experts_route_desc d = good_route;
        refusals[i].spoil(&d);
        assert_int_equal(experts_route_resolve(&d, &g, line), PTXPACK_E_ARG);
        expect_line(line, refusals[i].line);
    }
}

static void size_of_combine(ptxpack_experts_combine_desc *d) { d->size = 0; }
static void type_of_combine(ptxpack_experts_combine_desc *d) { d->dtype = (ptxpack_dtype)0; }
static void option_of_combine(ptxpack_experts_combine_desc *d) { d->options = 2; }
static void negative_rows(ptxpack_experts_combine_desc *d) { d->rows = -1; }
static void no_choices(ptxpack_experts_combine_desc *d) { d->top_k = 0; }
static void odd_columns(ptxpack_experts_combine_desc *d) { d->columns = 12; }
static void odd_stride(ptxpack_experts_combine_desc *d) { d->stride_y = 20; }
static void short_out(ptxpack_experts_combine_desc *d) { d->stride_out = 8; }
static void short_residual(ptxpack_experts_combine_desc *d) { d->stride_residual = 8; }

static void bad_combinations_are_refused(void **state)
{
    static const struct {
        void (*spoil)(ptxpack_experts_combine_desc *d);
        const char *line;
    } refusals[] = {
        {size_of_combine, "desc.size is 0; "},
        {type_of_combine, "dtype 0 is neither PTXPACK_F16 nor PTXPACK_BF16"},
        {option_of_combine, "options has the unknown bits 0x2"},
        {negative_rows, "rows -1 is not from 1 to 16777216"},
        {no_choices, "top_k 0 is not from 1 to 16"},
        {odd_columns, "columns 12 is not a multiple of 8"},
        {odd_stride, "y.row: stride 20 is not a multiple of 8 elements"},
        {short_out, "out.row: stride 8 overlaps the 16 elements inside it"},
        {short_residual, "residual.row: stride 8 overlaps the 16 elements inside it"},
    };
    experts_combine_geometry g;
    char                     line[PLAN_LINE];
    (void)state;
    assert_int_equal(experts_combine_resolve(NULL, &g, line), PTXPACK_E_ARG);
    assert_string_equal(line, "desc is NULL");
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        ptxpack_experts_combine_desc d = good_combine;
        refusals[i].spoil(&d);
        assert_int_equal(experts_combine_resolve(&d, &g, line), PTXPACK_E_ARG);
        expect_line(line, refusals[i].line);
    }
}

/* ---- addresses ---------------------------------------------------------------------------------------- */
typedef struct change {
    int         member;
    uint64_t    address;
    const char *line; /* NULL: it is fine */
} change;

static void buffers_of_routes_are_checked(void **state)
{
    static const change changes[] = {
        /* of logits, starts, sources, places, weights, workspace */
        {0, 0x10002, NULL},
        {0, 0x10001, "logits: address 0x10001 is not a multiple of 2 bytes"},
        {1, 0, "starts is null"},
        {2, 0x30002, "sources: address 0x30002 is not a multiple of 4 bytes"},
        {3, 0x10000, "places overlaps logits: 0x10000 and 0x10000"},
        {4, 0x40000, "weights overlaps places: 0x40000 and 0x40000"},
        {5, 0, "workspace is null"},
        {5, 0x60008, "workspace: address 0x60008 is not a multiple of 16 bytes"},
        {5, 0x20000, "workspace overlaps starts: 0x20000 and 0x20000"},
    };
    experts_route_geometry g;
    char                   line[PLAN_LINE];
    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        ptxpack_experts_route_buffers b = {.size = sizeof b,
                                           .logits = 0x10000,
                                           .starts = 0x20000,
                                           .sources = 0x30000,
                                           .places = 0x40000,
                                           .weights = 0x50000,
                                           .workspace = 0x60000};
        uint64_t *members[] = {&b.logits, &b.starts, &b.sources, &b.places, &b.weights, &b.workspace};
        *members[changes[i].member] = changes[i].address;
        assert_int_equal(experts_route_resolve(&good_route, &g, line), PTXPACK_OK);
        assert_int_equal(experts_route_check(&g, &b, line),
                         changes[i].line == NULL ? PTXPACK_OK : PTXPACK_E_ARG);
        if (changes[i].line != NULL)
            assert_string_equal(line, changes[i].line);
    }
}

static void buffers_of_combinations_are_checked(void **state)
{
    static const change changes[] = {
        /* of y, places, weights, residual, out */
        {0, 0x10008, "y: address 0x10008 is not a multiple of 16 bytes"},
        {1, 0, "places is null"},
        {2, 0x30002, "weights: address 0x30002 is not a multiple of 4 bytes"},
        {3, 0, "residual is null"},
        {3, 0x50000, NULL}, /* in place */
        {3, 0x50010, "out overlaps residual: 0x50000 and 0x50010"},
        {4, 0x10000, "out overlaps y: 0x10000 and 0x10000"},
    };
    experts_combine_geometry     g;
    ptxpack_experts_combine_desc d = good_combine;
    char                         line[PLAN_LINE];
    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        ptxpack_experts_combine_buffers b = {.size = sizeof b,
                                             .y = 0x10000,
                                             .places = 0x20000,
                                             .weights = 0x30000,
                                             .residual = 0x40000,
                                             .out = 0x50000};
        uint64_t                       *members[] = {&b.y, &b.places, &b.weights, &b.residual, &b.out};
        *members[changes[i].member] = changes[i].address;
        assert_int_equal(experts_combine_resolve(&d, &g, line), PTXPACK_OK);
        assert_int_equal(experts_combine_check(&g, &b, line),
                         changes[i].line == NULL ? PTXPACK_OK : PTXPACK_E_ARG);
        if (changes[i].line != NULL)
            assert_string_equal(line, changes[i].line);
    }
    d.stride_out = 24; /* rows in place have one stride */
    const ptxpack_experts_combine_buffers b = {.size = sizeof b,
                                               .y = 0x10000,
                                               .places = 0x20000,
                                               .weights = 0x30000,
                                               .residual = 0x50000,
                                               .out = 0x50000};
    assert_int_equal(experts_combine_resolve(&d, &g, line), PTXPACK_OK);
    assert_int_equal(experts_combine_check(&g, &b, line), PTXPACK_E_ARG);
    assert_string_equal(line, "out overlaps residual: 0x50000 and 0x50000");
}

/* ---- chunks ------------------------------------------------------------------------------------------- */
static void rows_are_divided_into_chunks(void **state)
{
    static const struct {
        int32_t  rows;
        uint32_t chunks, chunk_rows;
    } divisions[] = {{1, 1, 64},
                     {64, 1, 64},
                     {65, 2, 64},
                     {8192, 128, 64},
                     {8193, 86, 96},
                     {16384, 128, 128},
                     {1 << 24, 128, 1 << 17}};
    (void)state;
    for (size_t i = 0; i < sizeof divisions / sizeof divisions[0]; i++) {
        ptxpack_experts_route_desc d = good_route;
        experts_route_geometry     g;
        char                       line[PLAN_LINE];
        d.rows = divisions[i].rows;
        assert_int_equal(experts_route_resolve(&d, &g, line), PTXPACK_OK);
        assert_int_equal(g.chunks, divisions[i].chunks);
        assert_int_equal(g.chunk_rows, divisions[i].chunk_rows);
        assert_int_equal(g.padded, 64);
        assert_int_equal(g.workspace, g.chunks > 1 ? 16 + 256 * g.chunks : 0);
    }
}

/* ---- references --------------------------------------------------------------------------------------- */
enum { ROWS = 4, EXPERTS = 4, TOP = 2, ALL = ROWS * TOP };

static void expect_route(uint32_t options, const float *logits, const int32_t *starts, const int32_t *sources,
                         const int32_t *places, const double *weights)
{
    const ptxpack_experts_route_desc d = {.size = sizeof d,
                                          .rows = ROWS,
                                          .experts = EXPERTS,
                                          .top_k = TOP,
                                          .options = options | PTXPACK_EXPERTS_F32};
    int32_t                          got[EXPERTS + 1 + 2 * ALL];
    float                            w[ALL];
    assert_int_equal(ptxpack_experts_route_reference(&d, logits, got, got + EXPERTS + 1,
                                                     got + EXPERTS + 1 + ALL, w),
                     PTXPACK_OK);
    assert_memory_equal(got, starts, (EXPERTS + 1) * sizeof *got);
    assert_memory_equal(got + EXPERTS + 1, sources, ALL * sizeof *got);
    assert_memory_equal(got + EXPERTS + 1 + ALL, places, ALL * sizeof *got);
    for (int i = 0; i < ALL; i++)
        assert_true(fabs((double)w[i] - weights[i]) <= 1e-7);
}

static void rows_go_to_the_largest_logits(void **state)
{
    const float l2 = logf(2),
                logits[ROWS * EXPERTS] = {0,        l2,        0,        2 * l2, /* p 1/8, 2/8, 1/8, 4/8 */
                                          1,        1,         1,        1,      /* equal */
                                          NAN,      -INFINITY, 3,        NAN,    /* one number */
                                          INFINITY, 0,         INFINITY, 0};
    const int32_t starts[] = {0, 3, 5, 7, 8}, sources[] = {1, 2, 3, 0, 1, 2, 3, 0},
                  places[] = {7, 3, 0, 4, 5, 1, 2, 6};
    const double of_all[] = {0.5, 0.25, 0.25, 0.25, 1, 0, 0.5, 0.5},
                 of_two[] = {2 / 3., 1 / 3., 0.5, 0.5, 1, 0, 0.5, 0.5};
    (void)state;
    expect_route(0, logits, starts, sources, places, of_all);
    expect_route(PTXPACK_EXPERTS_NORMALISE, logits, starts, sources, places, of_two);
}

static void outputs_of_experts_are_added(void **state)
{
    enum { COLUMNS = 8 };
    const ptxpack_experts_combine_desc d = {.size = sizeof d,
                                            .dtype = PTXPACK_F16,
                                            .rows = 2,
                                            .top_k = 2,
                                            .columns = COLUMNS,
                                            .options = PTXPACK_EXPERTS_RESIDUAL};
    const int32_t                      places[] = {3, 0, 1, 4}; /* the last one is none */
    const float                        weights[] = {0.5f, 0.25f, 2, 1};
    uint16_t                           y[4 * COLUMNS], residual[2 * COLUMNS];
    double                             out[2 * COLUMNS];
    (void)state;
    for (int i = 0; i < 4 * COLUMNS; i++)
        y[i] = ptxpack_from_float(PTXPACK_F16, (float)i);
    for (int i = 0; i < 2 * COLUMNS; i++)
        residual[i] = ptxpack_from_float(PTXPACK_F16, -100);
    assert_int_equal(ptxpack_experts_combine_reference(&d, y, places, weights, residual, out), PTXPACK_OK);
    for (int i = 0; i < COLUMNS; i++) {
        assert_true(out[i] == -100 + 0.5 * (3 * COLUMNS + i) + 0.25 * i);
        assert_true(out[COLUMNS + i] == -100 + 2.0 * (COLUMNS + i));
    }
    assert_int_equal(ptxpack_experts_combine_reference(&d, y, places, weights, NULL, out), PTXPACK_E_ARG);
    assert_non_null(strstr(ptxpack_detail(NULL), "residual is NULL"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_routes_are_refused),        cmocka_unit_test(bad_combinations_are_refused),
        cmocka_unit_test(buffers_of_routes_are_checked), cmocka_unit_test(buffers_of_combinations_are_checked),
        cmocka_unit_test(rows_are_divided_into_chunks),  cmocka_unit_test(rows_go_to_the_largest_logits),
        cmocka_unit_test(outputs_of_experts_are_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
