/* plan.c - plans and launches of wgmma rows on a fake driver: the chosen row, tensor maps, workspace, grid, and
 * refusals. */
#include "tests/loader/loader_fixture.h"
#include <sys/wait.h>

#include "host/attention/inspect.h"

/* Writes texts that compile to nothing: the tests check only which one is chosen. */
static void write_kernels(void)
{
    static const char text[] = ".version \\[ISA/10].\\[ISA%10]\n.target sm_\\[ARCH]\n// BLOCK_M \\[BLOCK_M]\n";
    mkdir(below("ptx/attention"), 0700);
    write_text(below("ptx/attention/mma.ptx"), text);
    write_text(below("ptx/attention/wgmma.ptx"), text);
}

static ptxpack *open_fake(const char *words, const char *ptxjit, struct fake_record **record)
{
    ptxpack        *handle;
    ptxpack_options options = {.size = sizeof options, .ptxjit = ptxjit, .no_cache = true};
    write_kernels();
    setenv("FAKE_CUDA", words, 1);
    options.driver = fresh_copy("fake_driver.so");
    if (ptxpack_open(&options, &handle) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(NULL));
    if (record != NULL)
        *record = record_of(options.driver);
    return handle;
}

/* 8 * 16 heads, each of several tiles: more than the 132 blocks that the fake GPU holds. */
static const ptxpack_attention_desc    big = {.size = sizeof big,
                                              .dtype = PTXPACK_BF16,
                                              .batch = 8,
                                              .seqlen_q = 2048,
                                              .seqlen_kv = 2048,
                                              .heads_q = 16,
                                              .heads_kv = 4,
                                              .head_dim = 128};
static const ptxpack_attention_buffers good = {.size = sizeof good,
                                               .q = 1 << 28,
                                               .k = 2 << 28,
                                               .v = 3 << 28,
                                               .o = UINT64_C(4) << 28,
                                               .lse = UINT64_C(5) << 28,
                                               .workspace = UINT64_C(6) << 28};

static ptxpack_attention_plan *must_plan(ptxpack *handle, const ptxpack_attention_desc *desc)
{
    ptxpack_attention_plan *plan;
    if (ptxpack_attention_plan_create(handle, desc, &plan) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(handle));
    return plan;
}

static const ptxpack_variant *row_of(const ptxpack_attention_plan *plan)
{
    return ptxpack_kernel_describe(ptxpack_attention_kernel(plan))->variant;
}

/* The row of 128 columns with tiles of block_m rows. */
static const ptxpack_variant *wgmma_row(int64_t block_m)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].file, "attention/wgmma.ptx") == 0 &&
            ptxpack_variant_parameter(&rows[i], "HEAD_DIM", 0) == 128 &&
            ptxpack_variant_parameter(&rows[i], "BLOCK_M", 0) == block_m &&
            ptxpack_variant_parameter(&rows[i], "FP8", 0) == 0)
            return &rows[i];
    fail_msg("there is no such row");
    return NULL;
}

static void expect_file(ptxpack *handle, const ptxpack_attention_desc *desc, const char *file)
{
    ptxpack_attention_plan *plan = must_plan(handle, desc);
    assert_string_equal(row_of(plan)->file, file);
    ptxpack_attention_plan_free(plan);
}

/* ---- plan and launch --------------------------------------------------------------------------------- */
static void a_launch_has_maps_and_workspace(void **state)
{
    (void)state;
    struct fake_record     *record;
    ptxpack                *handle = open_fake("", "none", &record);
    ptxpack_attention_plan *plan = must_plan(handle, &big);
    int64_t                 block_m = ptxpack_variant_parameter(row_of(plan), "BLOCK_M", 0);
    assert_true(block_m >= 128);
    assert_int_equal(ptxpack_attention_workspace(plan), 16 + 4 * 8 * 16 * ((2048 + block_m - 1) / block_m));
    assert_int_equal(record->maps_encoded, 4);
    assert_int_equal(record->maps_replaced, 0);
    for (unsigned n = 1; n <= 2; n++) {
        ptxpack_attention_buffers b = good;
        b.q += 1024 * n;
        unsigned calls = record->context_calls;
        if (ptxpack_attention_launch(plan, &b, NULL) != PTXPACK_OK)
            fail_msg("%s", ptxpack_detail(handle));
        assert_int_equal(record->context_calls - calls, 3); /* get, push, pop: the context is entered once */
        assert_int_equal(record->maps_replaced, 4 * n);
        assert_int_equal(record->argument, b.q); /* the fake map of q begins with its address */
    }
    assert_int_equal(record->maps_encoded, 4);
    assert_int_equal(record->launches, 2);
    assert_int_equal(record->grid[0], 132);
    assert_int_equal(record->grid[1] * record->grid[2], 1);
    assert_int_equal(record->threads, row_of(plan)->threads);
    assert_int_equal(record->shared, row_of(plan)->shared_bytes);
    assert_int_equal(record->shared_opt_in, row_of(plan)->shared_bytes);
    ptxpack_attention_plan_free(plan);
    ptxpack_close(handle);
}

/* If there are fewer tiles than the GPU holds, there are as many blocks, of the rows with small tiles. */
static void small_problems_have_small_grids(void **state)
{
    (void)state;
    struct fake_record    *record;
    ptxpack               *handle = open_fake("", "none", &record);
    ptxpack_attention_desc d = big;
    d.batch = 1;
    d.seqlen_q = d.seqlen_kv = 100;
    d.heads_q = d.heads_kv = 3;
    ptxpack_attention_plan *plan = must_plan(handle, &d);
    assert_ptr_equal(row_of(plan), wgmma_row(64));
    assert_int_equal(ptxpack_attention_workspace(plan), 16 + 4 * 6);
    assert_int_equal(ptxpack_attention_launch(plan, &good, NULL), PTXPACK_OK);
    assert_int_equal(record->grid[0], 6);
    assert_int_equal(record->threads, row_of(plan)->threads);
    ptxpack_attention_plan_free(plan);
    ptxpack_close(handle);
}

static void the_arguments_are_those_of_the_problem(void **state)
{
    (void)state;
    ptxpack                *handle = open_fake("", "none", NULL);
    ptxpack_attention_desc  d = big;
    ptxpack_attention_plan *plan;
    attention_arguments     a;
    uint32_t                grid[3];
    const ptxpack_variant  *wanted = wgmma_row(128);
    d.mask = PTXPACK_MASK_WINDOW_TOP_LEFT;
    d.window_left = 100;
    d.window_right = 7;
    d.softcap = 20;
    d.scale = 0.5f;
    d.seqlen_q = 1000;
    assert_int_equal(ptxpack_attention_plan_row(handle, &d, wanted, &plan), PTXPACK_OK);
    assert_int_equal(plan_arguments(&plan->head, &good, &a, grid), PTXPACK_OK);
    assert_int_equal(a.wgmma.map_o.opaque[0], good.o);
    assert_int_equal(a.wgmma.map_k.opaque[0], good.k);
    assert_int_equal(a.wgmma.map_v.opaque[0], good.v);
    assert_int_equal(a.wgmma.lse, good.lse);
    assert_int_equal(a.wgmma.workspace, good.workspace);
    assert_int_equal(a.wgmma.q_descale | a.wgmma.k_descale | a.wgmma.v_descale, 0);
    assert_int_equal(a.wgmma.seqlen_q, 1000);
    assert_int_equal(a.wgmma.seqlen_kv, 2048);
    assert_int_equal(a.wgmma.heads_q, 16);
    assert_int_equal(a.wgmma.heads_per_kv, 4);
    assert_int_equal(a.wgmma.left_offset, -100);
    assert_int_equal(a.wgmma.right_offset, 7);
    assert_int_equal(a.wgmma.tiles_q, 8);
    assert_int_equal(a.wgmma.heads_total, 8 * 16);
    assert_int_equal(a.wgmma.tiles_total, 8 * 16 * 8);
    assert_in_range(a.wgmma.section_heads, 1, 8 * 16);
    assert_true(a.wgmma.scale_log2 > 20 * 1.44269f && a.wgmma.scale_log2 < 20 * 1.44270f);
    assert_true(a.wgmma.softcap_in == 0.5f / 20);
    /* The fake map: address, type, rank, swizzle, L2, fill, interleave, extent << 32 | box, strides. */
    assert_int_equal(a.wgmma.map_q.opaque[1], PTXPACK_TMA_BFLOAT16);
    assert_int_equal(a.wgmma.map_q.opaque[3], PTXPACK_TMA_SWIZZLE_128B);
    assert_int_equal(a.wgmma.map_q.opaque[4], PTXPACK_TMA_L2_128B);
    assert_int_equal(a.wgmma.map_q.opaque[7], UINT64_C(128) << 32 | 64);
    assert_int_equal(a.wgmma.map_q.opaque[8], UINT64_C(1000) << 32 | 128);
    assert_int_equal(a.wgmma.map_q.opaque[9], UINT64_C(16) << 32 | 1);
    assert_int_equal(a.wgmma.map_q.opaque[10], UINT64_C(8) << 32 | 1);
    uint64_t block_n = (uint64_t)ptxpack_variant_parameter(wanted, "BLOCK_N", 0);
    assert_int_equal(a.wgmma.map_k.opaque[8], UINT64_C(2048) << 32 | block_n);
    assert_int_equal(a.wgmma.map_k.opaque[9], UINT64_C(4) << 32 | 1);
    assert_int_equal(a.wgmma.map_o.opaque[8], UINT64_C(1000) << 32 | 16);
    assert_int_equal(a.wgmma.map_q.opaque[11], 16 * 128 * 2); /* row, head, batch */
    assert_int_equal(a.wgmma.map_q.opaque[12], 128 * 2);
    assert_int_equal(a.wgmma.map_q.opaque[13], 1000 * 16 * 128 * 2);
    ptxpack_attention_plan_free(plan);
    ptxpack_close(handle);
}

/* ---- refusals ---------------------------------------------------------------------------------------- */
static void a_bad_workspace_is_refused(void **state)
{
    (void)state;
    struct fake_record     *record;
    ptxpack                *handle = open_fake("", "none", &record);
    ptxpack_attention_plan *plan = must_plan(handle, &big);
    const struct {
        uint64_t    workspace;
        const char *line;
    } bad[] = {
        {0, "workspace is null"},
        {good.workspace + 8, "workspace: address 0x60000008 is not a multiple of 16"},
        {good.o, "workspace overlaps o"},
        {good.o - 16, "workspace overlaps o"},
        {good.lse + 1024, "workspace overlaps lse"},
        {good.k + 32, "workspace overlaps k"},
        {UINT64_MAX - 15, "wraps"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ptxpack_attention_buffers b = good;
        b.workspace = bad[i].workspace;
        assert_int_equal(ptxpack_attention_launch(plan, &b, NULL), PTXPACK_E_ARG);
        assert_has(ptxpack_detail(handle), bad[i].line);
    }
    assert_int_equal(record->launches, 0);
    ptxpack_attention_plan_free(plan);
    ptxpack_close(handle);
}

/* mma.sync rows need no workspace and do not check it. */
static void other_rows_want_no_workspace(void **state)
{
    (void)state;
    ptxpack                  *handle = open_fake("arch=80", "none", NULL);
    ptxpack_attention_plan   *plan = must_plan(handle, &big);
    ptxpack_attention_buffers b = good;
    assert_int_equal(ptxpack_attention_workspace(plan), 0);
    b.workspace = 3;
    assert_int_equal(ptxpack_attention_launch(plan, &b, NULL), PTXPACK_OK);
    b.workspace = b.o;
    assert_int_equal(ptxpack_attention_launch(plan, &b, NULL), PTXPACK_OK);
    ptxpack_attention_plan_free(plan);
    ptxpack_close(handle);
}

static void the_drivers_refusals_are_told(void **state)
{
    (void)state;
    ptxpack                *handle = open_fake("encode=1", "none", NULL);
    ptxpack_attention_plan *plan;
    assert_int_equal(ptxpack_attention_plan_create(handle, &big, &plan), PTXPACK_E_DRIVER);
    assert_null(plan);
    assert_has(ptxpack_detail(handle), "cuTensorMapEncodeTiled of q: ");
    ptxpack_close(handle);
    handle = open_fake("replace=1", "none", NULL);
    plan = must_plan(handle, &big);
    assert_int_equal(ptxpack_attention_launch(plan, &good, NULL), PTXPACK_E_LAUNCH);
    assert_has(ptxpack_detail(handle), "cuTensorMapReplaceAddress of q: ");
    ptxpack_attention_plan_free(plan);
    ptxpack_close(handle);
}

/* The driver is not called in a forked process, also not for addresses in tensor maps. */
static int use_after_fork(ptxpack *handle, const ptxpack_attention_plan *plan, const struct fake_record *record)
{
    const unsigned          encoded = record->maps_encoded;
    ptxpack_attention_plan *other;
    if (ptxpack_attention_launch(plan, &good, NULL) != PTXPACK_E_FORKED)
        return 1;
    if (ptxpack_attention_plan_create(handle, &big, &other) != PTXPACK_E_FORKED || other != NULL)
        return 2;
    return record->maps_replaced == 0 && record->maps_encoded == encoded && record->launches == 0 ? 0 : 3;
}

static void a_forked_child_is_refused(void **state)
{
    (void)state;
    int                     status = -1;
    struct fake_record     *record;
    ptxpack                *handle = open_fake("", "none", &record);
    ptxpack_attention_plan *plan = must_plan(handle, &big);
    pid_t                   child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(use_after_fork(handle, plan, record));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    ptxpack_attention_plan_free(plan);
    ptxpack_close(handle);
}

/* ---- the choice -------------------------------------------------------------------------------------- */
static void a_driver_without_tensor_maps_has_the_other_kernel(void **state)
{
    static const char *const missing[] = {"missing=cuTensorMapEncodeTiled",
                                          "missing=cuTensorMapReplaceAddress"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        ptxpack                *handle = open_fake(missing[i], "none", NULL);
        ptxpack_attention_plan *plan;
        const ptxpack_variant  *wanted = wgmma_row(128);
        expect_file(handle, &big, "attention/mma.ptx");
        assert_int_equal(ptxpack_attention_plan_row(handle, &big, wanted, &plan), PTXPACK_E_UNSUPPORTED);
        assert_has(ptxpack_detail(handle), wanted->id);
        assert_has(ptxpack_detail(handle), " needs cuTensorMapEncodeTiled and ");
        ptxpack_close(handle);
    }
}

static void exactly_sm_90_takes_it(void **state)
{
    static const struct {
        const char *words, *arch, *file;
    } cases[] = {
        {"", NULL, "attention/wgmma.ptx"},       {"", "sm_90", "attention/wgmma.ptx"},
        {"", "sm_80", "attention/mma.ptx"},      {"arch=89", NULL, "attention/mma.ptx"},
        {"arch=100", NULL, "attention/mma.ptx"}, {"version=11080", NULL, "attention/mma.ptx"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (cases[i].arch != NULL)
            setenv("PTXPACK_ARCH", cases[i].arch, 1);
        ptxpack *handle = open_fake(cases[i].words, "none", NULL);
        expect_file(handle, &big, cases[i].file);
        ptxpack_close(handle);
        unsetenv("PTXPACK_ARCH");
    }
}

static void what_tma_cannot_do_falls_back(void **state)
{
    (void)state;
    ptxpack               *handle = open_fake("", "none", NULL);
    ptxpack_attention_desc d = big;
    d.v = (ptxpack_strides){2048 * 4 * 128, 4 * 128, 0};
    expect_file(handle, &d, "attention/mma.ptx");
    d = big;
    d.k = (ptxpack_strides){INT64_C(1) << 40, 4 * 128, 128};
    expect_file(handle, &d, "attention/mma.ptx");
    ptxpack_close(handle);
}

/* ---- how it is compiled ------------------------------------------------------------------------------ */
/* It is compiled for sm_90a as a whole program; when only cuLink is available, the driver's own JIT compiles
 * it. */
static void it_is_compiled_for_sm_90a_as_a_whole(void **state)
{
    (void)state;
    struct fake_record     *record;
    const char             *compiler = fresh_copy("fake_ptxjit.so");
    ptxpack                *handle = open_fake("", compiler, &record);
    ptxpack_attention_plan *plan = must_plan(handle, &big);
    assert_has(record->image, "--gpu-name=sm_90a");
    ptxpack_attention_plan_free(plan);
    ptxpack_close(handle);

    handle = open_fake("", "none", &record);
    plan = must_plan(handle, &big);
    assert_int_equal(record->links, 0);
    assert_has(record->image, ".version 8.0");
    ptxpack_attention_plan_free(plan);
    const ptxpack_variant *other = ptxpack_variant_find("attention_mma_sm80_d128_128x48");
    assert_int_equal(ptxpack_attention_plan_row(handle, &big, other, &plan), PTXPACK_OK);
    assert_int_equal(record->links, 1);
    ptxpack_attention_plan_free(plan);
    ptxpack_close(handle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_launch_has_maps_and_workspace, reset),
        cmocka_unit_test_setup(small_problems_have_small_grids, reset),
        cmocka_unit_test_setup(the_arguments_are_those_of_the_problem, reset),
        cmocka_unit_test_setup(a_bad_workspace_is_refused, reset),
        cmocka_unit_test_setup(other_rows_want_no_workspace, reset),
        cmocka_unit_test_setup(the_drivers_refusals_are_told, reset),
        cmocka_unit_test_setup(a_forked_child_is_refused, reset),
        cmocka_unit_test_setup(a_driver_without_tensor_maps_has_the_other_kernel, reset),
        cmocka_unit_test_setup(exactly_sm_90_takes_it, reset),
        cmocka_unit_test_setup(what_tma_cannot_do_falls_back, reset),
        cmocka_unit_test_setup(it_is_compiled_for_sm_90a_as_a_whole, reset),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
