/* decode_loop.c - a decoding loop on a fake driver: 1,000 launches of one plan, with lengths that grow in device memory, plan,
 * compile, load and allocate nothing; also where each launch appends. */
#include "tests/loader/loader_fixture.h"

enum { STEPS = 1000, BATCH = 4, PAGE = 16, WIDTH = (STEPS + PAGE - 1) / PAGE };

/* ---- what is counted ---------------------------------------------------------------------------------- */
typedef struct counts {
    unsigned loads, links, device_allocations, compilations, host_allocations;
} counts;

static unsigned host_allocations, compilations;

#ifdef __SANITIZE_ADDRESS__
/* A sanitiser replaces these functions itself. */
#else
extern void *__libc_malloc(size_t bytes), *__libc_calloc(size_t count, size_t bytes),
    *__libc_realloc(void *memory, size_t bytes);
void *malloc(size_t bytes) { return host_allocations++, __libc_malloc(bytes); }
void *calloc(size_t count, size_t bytes) { return host_allocations++, __libc_calloc(count, bytes); }
void *realloc(void *memory, size_t bytes) { return host_allocations++, __libc_realloc(memory, bytes); }
#endif

static void count_compilation(void *context, const char *kernel, const char *target, double ms)
{
    (void)context, (void)kernel, (void)target, (void)ms;
    compilations++;
}

static counts counts_now(const struct fake_record *record)
{
    return (counts){record->loads, record->links, record->allocations, compilations, host_allocations};
}

static void must_be_the_same(const counts *before, const counts *after)
{
    assert_int_equal(before->loads, after->loads);
    assert_int_equal(before->links, after->links);
    assert_int_equal(before->device_allocations, after->device_allocations);
    assert_int_equal(before->compilations, after->compilations);
    assert_int_equal(before->host_allocations, after->host_allocations);
}

/* ---- the loop ----------------------------------------------------------------------------------------- */
static const ptxpack_attention_desc problem = {.size = sizeof problem,
                                               .dtype = PTXPACK_F16,
                                               .batch = BATCH,
                                               .seqlen_q = 1,
                                               .seqlen_kv = STEPS,
                                               .heads_q = 8,
                                               .heads_kv = 2,
                                               .head_dim = 64,
                                               .kv_rows = PTXPACK_ROWS_PAGED,
                                               .rows_kv = BATCH * WIDTH,
                                               .page_rows = PAGE,
                                               .table_width = WIDTH,
                                               .options = PTXPACK_LENGTHS_KV};

static ptxpack *open_fake(struct fake_record **record)
{
    static const char text[] = ".version \\[ISA/10].\\[ISA%10]\n.target sm_\\[ARCH]\n";
    mkdir(below("ptx/attention"), 0700);
    mkdir(below("ptx/kv_cache"), 0700);
    write_text(below("ptx/kv_cache/append.ptx"), text);
    write_text(below("ptx/attention/decode.ptx"), text);
    write_text(below("ptx/attention/mma.ptx"), text);
    ptxpack_options options = {.size = sizeof options, .ptxjit = "none", .on_compile = count_compilation};
    options.driver = fresh_copy("fake_driver.so");
    ptxpack *handle = open_with(&options);
    *record = record_of(options.driver);
    return handle;
}

static void launch_a_thousand_steps(bool appends)
{
    const ptxpack_attention_append_desc    rotated = {.size = sizeof rotated,
                                                      .heads_q = 8,
                                                      .rotary_dim = 64,
                                                      .positions = STEPS};
    const ptxpack_attention_append_buffers new_rows = {.size = sizeof new_rows,
                                                       .k_new = UINT64_C(7) << 28,
                                                       .v_new = UINT64_C(8) << 28,
                                                       .cos = UINT64_C(9) << 28,
                                                       .sin = UINT64_C(10) << 28};
    ptxpack_attention_desc                 desc = problem;
    struct fake_record                    *record;
    ptxpack                               *handle = open_fake(&record);
    const struct ptxpack_driver           *cuda = ptxpack_driver_table(handle);
    ptxpack_attention_plan                *plan;
    ptxpack_deviceptr                      lengths;
    ptxpack_attention_buffers              b = {.size = sizeof b, .q = 1 << 28, .k = 2 << 28, .v = 3 << 28};
    desc.append = appends ? &rotated : NULL;
    b.append = appends ? &new_rows : NULL;
    if (ptxpack_attention_plan_create(handle, &desc, &plan) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(handle));
    assert_has(ptxpack_kernel_describe(ptxpack_attention_kernel(plan))->variant->id, "attention_decode");
    assert_true(compilations > 0 && record->loads > 0);
    assert_int_equal(cuda->cuCtxSetCurrent(ptxpack_context(handle)), 0);
    assert_int_equal(cuda->cuMemAlloc(&lengths, BATCH * sizeof(int32_t)), 0);
    b.o = UINT64_C(4) << 28;
    b.workspace = UINT64_C(5) << 28;
    b.lengths_kv = lengths;
    b.page_table = UINT64_C(6) << 28;
    assert_true(ptxpack_attention_workspace(plan) > 0);
    counts before = counts_now(record);
    for (int32_t step = 1; step <= STEPS; step++) {
        const int32_t now[BATCH] = {step, step / 2, 0, STEPS};
        assert_int_equal(cuda->cuMemcpyHtoD(lengths, now, sizeof now), 0);
        if (ptxpack_attention_launch(plan, &b, NULL) != PTXPACK_OK)
            fail_msg("step %d: %s", (int)step, ptxpack_detail(handle));
    }
    counts after = counts_now(record);
    must_be_the_same(&before, &after);
    assert_int_equal(record->launches, appends ? 2 * STEPS : STEPS);
    assert_true(before.device_allocations == 1 && before.host_allocations > 0);
    cuda->cuMemFree(lengths);
    ptxpack_attention_plan_free(plan);
    ptxpack_close(handle);
}

static void a_thousand_steps_only_launch(void **state)
{
    (void)state;
    launch_a_thousand_steps(false);
}

static void a_thousand_steps_with_appends_only_launch(void **state)
{
    (void)state;
    launch_a_thousand_steps(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_thousand_steps_only_launch, reset),
        cmocka_unit_test_setup(a_thousand_steps_with_appends_only_launch, reset),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
