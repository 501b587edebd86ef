/* wgmma_plans.c - what the plan of a product on wgmma tells its kernel: parts of tiles, how many bytes come, the boxes of TMA, whether B stays
 * in the L2 cache. */
#include <string.h>

#include "host/gemm/op.h"
#include "host/gemm/wgmma_layout.h"
#include "host/plan/inspect.h"
#include "tests/support/offline.h"

/* ---- plans -------------------------------------------------------------------------------------------- */
enum { SMS = 132, BLOCK_K = 64, WARPGROUP = 4 /* warps */, LINE = 128, WORD = 32 /* bits */ };

/* The plan of a row for the problem on so many SMs. */
static const ptxpack_gemm_plan *filled(const ptxpack *handle, const plan_method *method,
                                       const ptxpack_variant *row, const ptxpack_gemm_desc *d)
{
    static ptxpack_gemm_plan plan;
    static gemm_wgmma_layout l;
    gemm_geometry            g;
    char                     line[PLAN_LINE];
    const plan_problem problem = {.op = &gemm_op, .handle = handle, .desc = d, .geometry = &g, .sm_count = SMS};
    memset(&plan, 0, sizeof plan);
    assert_int_equal(ptxpack_gemm_resolve(d, &g, line), PTXPACK_OK);
    assert_int_equal(ptxpack_gemm_wgmma_layout(row, &l), PTXPACK_OK);
    assert_int_equal(method->fill(&problem, row, &l, &plan.head), PTXPACK_OK);
    return &plan;
}

/* The row is chosen; the parts of a tile have all its k, and the workspace has room for their sums. */
static void check_cut(const ptxpack *handle, int32_t m, int32_t n, int32_t k, const char *id, int32_t whole,
                      int32_t cut)
{
    const ptxpack_variant *row;
    ptxpack_gemm_desc      d = {.size = sizeof d, .dtype = PTXPACK_BF16, .m = m, .n = n, .k = k};
    d.order_b = PTXPACK_COLUMN_MAJOR;
    assert_int_equal(plan_row_of(&gemm_op, handle, NULL, &d, &row), PTXPACK_OK);
    assert_string_equal(row->id, id);
    const ptxpack_gemm_plan          *plan = filled(handle, &gemm_wgmma_parts, row, &d);
    const gemm_wgmma_parts_arguments *a = &plan->arguments.wgmma_parts;
    const int64_t                     cluster = ptxpack_variant_parameter(row, "CLUSTER_M", 1);
    const int64_t                     warps = WARPGROUP * ptxpack_variant_parameter(row, "WARPGROUPS", 0);
    const int64_t                     sums = ptxpack_variant_parameter(row, "BLOCK_M", 0) *
                         ptxpack_variant_parameter(row, "BLOCK_N", 0);
    assert_int_equal(a->whole_tiles, whole);
    assert_int_equal(a->cut_tiles, cut);
    assert_int_equal(a->tiles_total, whole + cut * a->tile_parts);
    assert_int_equal(a->k_blocks, (k + BLOCK_K - 1) / BLOCK_K);
    assert_true(a->tile_parts >= 2 && a->tile_parts <= WORD && a->tile_parts * a->part_blocks >= a->k_blocks);
    assert_true(cut * a->tile_parts * cluster <= SMS); /* no block has two, */
    assert_int_equal(whole % (SMS / cluster), 0);      /* and one that begins with a part has no tile */
    assert_true((a->tile_parts - 1) * a->part_blocks < a->k_blocks);
    assert_int_equal(plan->head.grid[0], (a->tiles_total * cluster < SMS ? a->tiles_total * cluster : SMS));
    assert_int_equal(plan->head.counters, cut * cluster * warps * LINE);
    const int64_t places = a->tile_parts == 2 ? 1 : a->tile_parts; /* of two one is added to the other */
    assert_int_equal(plan->head.workspace - plan->head.counters,
                     cut * cluster * places * sums * (int64_t)sizeof(float));
}

/* What a block of k of a row of `id` brings by TMA of A at most, in lines, for so many rows of A. */
static void expect_lines_of_a(ptxpack *handle, const char *id, ptxpack_order order_a, int32_t m, int64_t lines)
{
    ptxpack_gemm_desc d = {.size = sizeof d, .dtype = PTXPACK_BF16, .m = m, .n = 512, .k = 512};
    d.order_a = order_a;
    d.order_b = PTXPACK_COLUMN_MAJOR;
    const ptxpack_gemm_plan *plan = filled(handle, &gemm_wgmma, ptxpack_variant_find(id), &d);
    assert_int_equal(plan->arguments.wgmma.a_bytes, LINE * lines);
}

/* In eights; not where A's columns are its lines, or where the blocks of a cluster share its rows. */
static void few_rows_are_brought_alone(void **state)
{
    (void)state;
    ptxpack *handle = open_offline("sm_90a");
    expect_lines_of_a(handle, "gemm_wgmma_sm90_64x64", PTXPACK_ROW_MAJOR, 1, 8);
    expect_lines_of_a(handle, "gemm_wgmma_sm90_64x64", PTXPACK_ROW_MAJOR, 33, 40);
    expect_lines_of_a(handle, "gemm_wgmma_sm90_64x64", PTXPACK_ROW_MAJOR, 65, 64);
    expect_lines_of_a(handle, "gemm_wgmma_sm90_128x256_2x1", PTXPACK_ROW_MAJOR, 100, 104);
    expect_lines_of_a(handle, "gemm_wgmma_sm90_64x64", PTXPACK_COLUMN_MAJOR, 8, 64);
    expect_lines_of_a(handle, "gemm_wgmma_sm90_256x128_1x2", PTXPACK_ROW_MAJOR, 1, 256);
    ptxpack_close(handle);
}

/* Whether tiles at the edges of A and of B have boxes of their own. */
static void expect_cuts(ptxpack *handle, const char *id, const ptxpack_gemm_desc *desc, bool a, bool b)
{
    ptxpack_gemm_desc d = *desc;
    d.size = sizeof d;
    d.dtype = PTXPACK_BF16;
    const ptxpack_gemm_plan *plan = filled(handle, &gemm_wgmma, ptxpack_variant_find(id), &d);
    assert_int_equal(plan->arguments.wgmma.lines_a, a ? d.m : GEMM_ALL_LINES);
    assert_int_equal(plan->arguments.wgmma.lines_b, b ? d.n : GEMM_ALL_LINES);
    assert_int_equal(plan->arguments.wgmma.cut_lines, a || b);
}

static void edges_have_boxes_of_their_own(void **state)
{
    (void)state;
    const ptxpack_order column = PTXPACK_COLUMN_MAJOR;
    static const char   id[] = "gemm_wgmma_sm90_128x128", below[] = "gemm_wgmma_sm90_128x256_2x1",
                      beside[] = "gemm_wgmma_sm90_256x128_1x2";
    ptxpack *handle = open_offline("sm_90a");
    expect_cuts(handle, id, &(ptxpack_gemm_desc){.m = 192, .n = 520, .k = 512, .order_b = column}, true, true);
    expect_cuts(handle, id, &(ptxpack_gemm_desc){.m = 256, .n = 512, .k = 512, .order_b = column}, false,
                false);
    /* few rows: all boxes of A have no more lines */
    expect_cuts(handle, id, &(ptxpack_gemm_desc){.m = 100, .n = 520, .k = 512, .order_b = column}, false, true);
    /* k goes from line to line */
    expect_cuts(handle, id, &(ptxpack_gemm_desc){.m = 192, .n = 520, .k = 512}, true, false);
    expect_cuts(handle, id,
                &(ptxpack_gemm_desc){.m = 192, .n = 520, .k = 512, .order_a = column, .order_b = column}, false,
                true);
    /* the blocks of a cluster bring each other lines; of three tiles below each other the second cluster has one */
    expect_cuts(handle, below, &(ptxpack_gemm_desc){.m = 192, .n = 520, .k = 512, .order_b = column}, true,
                false);
    expect_cuts(handle, below, &(ptxpack_gemm_desc){.m = 384, .n = 512, .k = 512, .order_b = column}, true,
                false);
    expect_cuts(handle, beside, &(ptxpack_gemm_desc){.m = 300, .n = 520, .k = 512, .order_b = column}, false,
                true);
    /* fewer blocks of k than stages, and more tiles than one of each block: a later tile would read what nothing has written */
    expect_cuts(handle, id, &(ptxpack_gemm_desc){.m = 192, .n = 520, .k = 64, .order_b = column}, true, true);
    expect_cuts(handle, id, &(ptxpack_gemm_desc){.m = 8000, .n = 520, .k = 64, .order_b = column}, false,
                false);
    /* with groups others' rows follow */
    expect_cuts(handle, "gemm_wgmma_sm90_groups_128x128",
                &(ptxpack_gemm_desc){.m = 192, .n = 520, .k = 512, .order_b = column, .groups = 3}, false,
                false);
    /* C comes to stages, too */
    expect_cuts(handle, id,
                &(ptxpack_gemm_desc){.m = 192, .n = 520, .k = 512, .order_b = column, .has_c = true}, true,
                true);
    expect_cuts(handle, id, &(ptxpack_gemm_desc){.m = 192, .n = 520, .k = 64, .order_b = column, .has_c = true},
                false, false);
    ptxpack_close(handle);
}

/* The last box of a matrix has the lines that are left. */
static void the_rest_of_lines_is_a_box(void **state)
{
    (void)state;
    static const struct {
        uint64_t lines;
        uint32_t rest;
    } cases[] = {{80, 16}, {64, 64}, {1, 1}, {129, 1}, {127, 63}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ptxpack_tma_box box = {.box_dim = {64, 64, 1},
                               .global_dim = {512, cases[i].lines, 1},
                               .bytes = LINE * 64};
        gemm_wgmma_crop_rest(&box);
        assert_int_equal(box.box_dim[1], cases[i].rest);
        assert_int_equal(box.bytes, LINE * cases[i].rest);
    }
}

static const char *chosen_id(const ptxpack *handle, const ptxpack_gemm_desc *d)
{
    const ptxpack_variant *row;
    assert_int_equal(plan_row_of(&gemm_op, handle, NULL, d, &row), PTXPACK_OK);
    return row->id;
}

static ptxpack_gemm_desc launched(int32_t m, int32_t n, int32_t k, uint32_t launch)
{
    ptxpack_gemm_desc d = {.size = sizeof d, .dtype = PTXPACK_BF16, .m = m, .n = n, .k = k, .launch = launch};
    d.order_b = PTXPACK_COLUMN_MAJOR;
    return d;
}

static void expect_row(const ptxpack *handle, int32_t m, int32_t n, int32_t k, uint32_t launch, const char *id)
{
    const ptxpack_gemm_desc d = launched(m, n, k, launch);
    assert_string_equal(chosen_id(handle, &d), id);
}

/* A row whose id begins so. */
static void expect_kind(const ptxpack *handle, int32_t m, int32_t n, int32_t k, uint32_t launch,
                        const char *kind)
{
    const ptxpack_gemm_desc d = launched(m, n, k, launch);
    const char             *id = chosen_id(handle, &d);
    if (strncmp(id, kind, strlen(kind)) != 0)
        assert_string_equal(id, kind);
}

/* By itself wgmma takes 17 to 32 rows, unless k is long or there are few columns or very many; while B is read before, none. */
static void launches_decide_about_few_rows(void **state)
{
    (void)state;
    const uint32_t constant = PTXPACK_LAUNCH_OVERLAP | PTXPACK_LAUNCH_CONSTANT_B;
    ptxpack       *handle = open_offline("sm_90a");
    expect_kind(handle, 32, 4096, 4096, 0, "gemm_wgmma");
    expect_kind(handle, 17, 4096, 8192, PTXPACK_LAUNCH_OVERLAP, "gemm_wgmma");
    expect_kind(handle, 16, 4096, 4096, 0, "gemm_rows_tma");
    expect_kind(handle, 32, 4096, 8256, 0, "gemm_rows_tma");
    expect_kind(handle, 32, 1600, 1600, 0, "gemm_rows_tma");
    expect_kind(handle, 32, 28672, 4096, 0, "gemm_wgmma");
    expect_row(handle, 32, 57344, 8192, 0, "gemm_rows_tma_sm90_32x64");
    expect_row(handle, 24, 4096, 14336, 0, "gemm_rows_tma_sm90_24x32");
    expect_kind(handle, 32, 4096, 4096, constant, "gemm_rows_tma");
    expect_row(handle, 32, 28672, 4096, constant, "gemm_rows_tma_sm90_32x32");
    ptxpack_close(handle);
}

/* On an H200: small tiles in clusters where the L2 cache brings what memory would wait for.  Beside the kernel before, what counts is
 * that B is read once: by tiles of all rows, or by clusters that share it. */
static void small_tiles_are_chosen_for_their_launches(void **state)
{
    (void)state;
    const uint32_t constant = PTXPACK_LAUNCH_OVERLAP | PTXPACK_LAUNCH_CONSTANT_B;
    ptxpack       *handle = open_offline("sm_90a");
    expect_row(handle, 512, 512, 512, 0, "gemm_wgmma_sm90_fit_64x64_4x1");
    expect_row(handle, 768, 768, 768, 0, "gemm_wgmma_sm90_fit_64x96_4x1");
    expect_row(handle, 1000, 1000, 1000, 0, "gemm_wgmma_sm90_fit_64x144_8x1");
    expect_row(handle, 1024, 1024, 1024, 0, "gemm_wgmma_sm90_64x128_2x1");
    expect_row(handle, 64, 4096, 14336, 0, "gemm_wgmma_sm90_fit_64x64_1x4");
    expect_row(handle, 64, 4096, 14336, constant, "gemm_wgmma_sm90_parts_64x128");
    expect_row(handle, 64, 28672, 4096, 0, "gemm_wgmma_sm90_fit_64x128_1x2");
    expect_row(handle, 64, 28672, 4096, constant, "gemm_wgmma_sm90_fit_64x80");
    expect_row(handle, 96, 28672, 4096, constant, "gemm_wgmma_sm90_fit_128x112");
    expect_row(handle, 64, 10240, 8192, 0, "gemm_wgmma_sm90_fit_64x80_1x2");
    expect_row(handle, 128, 4096, 4096, 0, "gemm_wgmma_sm90_parts_64x128");
    expect_row(handle, 96, 8192, 8192, 0, "gemm_wgmma_sm90_parts_64x128");
    expect_row(handle, 96, 8192, 8192, constant, "gemm_wgmma_sm90_64x128_2x1");
    expect_row(handle, 96, 4096, 14336, constant, "gemm_wgmma_sm90_parts_128x128");
    expect_row(handle, 128, 10240, 8192, constant, "gemm_wgmma_sm90_fit_128x80");
    ptxpack_close(handle);
}

/* Of more rows, and of e4m3, a constant B changes nothing. */
static void constant_b_is_for_few_rows_of_16_bits(void **state)
{
    (void)state;
    static const int32_t shapes[][2] = {{4096, 4096}, {28672, 4096}, {8192, 8192}, {6144, 1024}};
    const uint32_t       constant = PTXPACK_LAUNCH_OVERLAP | PTXPACK_LAUNCH_CONSTANT_B;
    ptxpack             *handle = open_offline("sm_90a");
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        ptxpack_gemm_desc d = launched(129, shapes[i][0], shapes[i][1], 0);
        for (int fp8 = 0; fp8 <= 1; fp8++) {
            d.launch = 0;
            const char *by_itself = chosen_id(handle, &d);
            d.launch = constant;
            assert_string_equal(chosen_id(handle, &d), by_itself);
            d.m = 64;
            d.dtype_ab = PTXPACK_E4M3;
        }
    }
    ptxpack_close(handle);
}

static void launches_have_known_bits(void **state)
{
    (void)state;
    ptxpack           *handle = open_offline("sm_90a");
    ptxpack_gemm_plan *plan;
    ptxpack_gemm_desc  d = {.size = sizeof d, .dtype = PTXPACK_BF16, .m = 8, .n = 8, .k = 0, .launch = 7};
    assert_int_equal(ptxpack_gemm_plan_create(handle, &d, &plan), PTXPACK_E_ARG);
    assert_non_null(strstr(ptxpack_detail(handle), "desc.launch has the unknown bits 0x4"));
    d.launch = 3;
    d.reserved = 1;
    assert_int_equal(ptxpack_gemm_plan_create(handle, &d, &plan), PTXPACK_E_ARG);
    assert_non_null(strstr(ptxpack_detail(handle), "desc.reserved is 1, not 0"));
    d.size = offsetof(ptxpack_gemm_desc, launch); /* an older struct has none of them */
    d.launch = 7;
    d.m = 0;
    assert_int_equal(ptxpack_gemm_plan_create(handle, &d, &plan), PTXPACK_E_ARG);
    assert_string_equal(ptxpack_detail(handle), "m is 0, not 1 or more");
    ptxpack_close(handle);
}

static void tiles_that_fill_the_gpu_badly_are_cut(void **state)
{
    (void)state;
    ptxpack          *handle = open_offline("sm_90a");
    ptxpack_gemm_desc d =
        {.size = sizeof d, .dtype = PTXPACK_BF16, .m = 512, .n = 512, .k = 512, .has_c = true};
    check_cut(handle, 512, 512, 16384, "gemm_wgmma_sm90_parts_128x128", 0, 16);
    check_cut(handle, 256, 256, 65536, "gemm_wgmma_sm90_parts_128x128", 0, 4);
    check_cut(handle, 1536, 1664, 16384, "gemm_wgmma_sm90_parts_128x144", 132, 12);
    check_cut(handle, 192, 8192, 8192, "gemm_wgmma_sm90_parts_192x128", 0, 64);
    check_cut(handle, 128, 4096, 14336, "gemm_wgmma_sm90_parts_64x128", 0, 64);
    /* of two blocks, 66 at once: */
    check_cut(handle, 4352, 4352, 8192, "gemm_wgmma_sm90_parts_128x256_2x1", 264, 25);
    char line[PLAN_LINE];
    assert_non_null(plan_row_refusal(&gemm_op, handle, NULL, &d,
                                     ptxpack_variant_find("gemm_wgmma_sm90_parts_128x128"), line));
    assert_string_equal(line, "has_c: takes no C");
    ptxpack_close(handle);
}

/* ---- boxes ---------------------------------------------------------------------------------------------- */
static void expect_box(const char *id, const ptxpack_gemm_desc *d, int matrix, uint32_t lines,
                       ptxpack_tma_l2 l2)
{
    static gemm_wgmma_layout l;
    gemm_geometry            g;
    char                     line[PLAN_LINE];
    ptxpack_tma_box          box;
    assert_int_equal(ptxpack_gemm_resolve(d, &g, line), PTXPACK_OK);
    assert_int_equal(ptxpack_gemm_wgmma_layout(ptxpack_variant_find(id), &l), PTXPACK_OK);
    assert_int_equal(ptxpack_gemm_wgmma_box(d, &g, &l, matrix, &box), PTXPACK_OK);
    assert_int_equal(box.box_dim[1], lines);
    assert_int_equal(box.l2, l2);
}

/* A and C have the problem's rows, in eights. */
static void boxes_have_the_rows_that_are(void **state)
{
    (void)state;
    ptxpack_gemm_desc d = {.size = sizeof d, .dtype = PTXPACK_F16, .m = 33, .n = 512, .k = 512, .has_c = true};
    d.order_b = PTXPACK_COLUMN_MAJOR;
    expect_box("gemm_wgmma_sm90_64x64", &d, GEMM_A, 40, PTXPACK_TMA_L2_128B);
    expect_box("gemm_wgmma_sm90_64x64", &d, GEMM_C, 40, PTXPACK_TMA_L2_128B);
    expect_box("gemm_wgmma_sm90_64x64", &d, GEMM_D, 16, PTXPACK_TMA_L2_128B);
    d.m = 200;
    expect_box("gemm_wgmma_sm90_64x64", &d, GEMM_A, 64, PTXPACK_TMA_L2_128B);
    expect_box("gemm_wgmma_sm90_64x64", &d, GEMM_C, 64, PTXPACK_TMA_L2_128B);
}

/* Of B the L2 cache fetches what the next block of k wants, too, if it is read at the speed of memory, and if lines begin where it fetches. */
static void neighbours_of_b_are_fetched_for_few_rows(void **state)
{
    (void)state;
    ptxpack_gemm_desc d = {.size = sizeof d, .dtype = PTXPACK_BF16, .m = 128, .n = 512, .k = 512};
    d.order_b = PTXPACK_COLUMN_MAJOR;
    expect_box("gemm_wgmma_sm90_64x64", &d, GEMM_B, 64, PTXPACK_TMA_L2_256B);
    expect_box("gemm_wgmma_sm90_128x128", &d, GEMM_B, 128, PTXPACK_TMA_L2_128B);
    d.m = 129;
    expect_box("gemm_wgmma_sm90_64x64", &d, GEMM_B, 64, PTXPACK_TMA_L2_128B);
    d.m = 128;
    d.k = 520; /* lines of 1040 bytes */
    expect_box("gemm_wgmma_sm90_64x64", &d, GEMM_B, 64, PTXPACK_TMA_L2_128B);
    d.k = 512;
    d.order_b = PTXPACK_ROW_MAJOR;
    expect_box("gemm_wgmma_sm90_64x64", &d, GEMM_B, 64, PTXPACK_TMA_L2_128B);
}

/* At most two tiles that want the same columns, one product, or a B for each. */
static void b_that_few_tiles_want_leaves_the_cache_first(void **state)
{
    (void)state;
    ptxpack          *handle = open_offline("sm_90a");
    ptxpack_gemm_desc d = {.size = sizeof d, .dtype = PTXPACK_BF16, .m = 128, .n = 512, .k = 512};
    d.order_b = PTXPACK_COLUMN_MAJOR;
    const ptxpack_variant *row = ptxpack_variant_find("gemm_wgmma_sm90_64x64");
    assert_int_equal(filled(handle, &gemm_wgmma, row, &d)->arguments.wgmma.once, 1);
    d.m = 129;
    assert_int_equal(filled(handle, &gemm_wgmma, row, &d)->arguments.wgmma.once, 0);
    d.m = 128;
    d.batch = 2;
    assert_int_equal(filled(handle, &gemm_wgmma, row, &d)->arguments.wgmma.once, 1);
    d.batch_b = -1; /* one for both */
    assert_int_equal(filled(handle, &gemm_wgmma, row, &d)->arguments.wgmma.once, 0);
    ptxpack_close(handle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_rows_are_brought_alone),
        cmocka_unit_test(edges_have_boxes_of_their_own),
        cmocka_unit_test(the_rest_of_lines_is_a_box),
        cmocka_unit_test(tiles_that_fill_the_gpu_badly_are_cut),
        cmocka_unit_test(launches_decide_about_few_rows),
        cmocka_unit_test(small_tiles_are_chosen_for_their_launches),
        cmocka_unit_test(constant_b_is_for_few_rows_of_16_bits),
        cmocka_unit_test(launches_have_known_bits),
        cmocka_unit_test(boxes_have_the_rows_that_are),
        cmocka_unit_test(neighbours_of_b_are_fetched_for_few_rows),
        cmocka_unit_test(b_that_few_tiles_want_leaves_the_cache_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
