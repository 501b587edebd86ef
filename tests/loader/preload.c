/* preload.c - compiling in the background: no context is made; what plans find afterwards, progress, failures,
 * cancelling, forks. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include "loader_fixture.h"
#include "cache/inspect.h"
#include "host/preload_plan.h"
#include "loader/inspect.h"

#define BEFORE_EACH begin
#define AFTER_EACH  NULL

static const char *compiler; /* this case's copy of the fake nvPTXCompiler */
static const char *driver;   /* and the copy of the fake driver */

static int begin(void **state)
{
    compiler = fresh_copy("fake_ptxjit.so");
    driver = fresh_copy("fake_driver.so");
    unsetenv("PTXPACK_PTX_DIR"); /* the built-in pack */
    return reset(state);
}

static unsigned compilations(void)
{
    return atomic_load((atomic_uint *)library_symbol(compiler, "fake_compilations"));
}

static ptxpack_options handle_options(bool no_cache)
{
    return (ptxpack_options){.size = sizeof(ptxpack_options),
                             .driver = driver,
                             .ptxjit = compiler,
                             .no_cache = no_cache};
}

/* What on_progress received. */
struct told {
    size_t              calls, failures, last_done, cached;
    char                names[512];
    char                detail[512];
    ptxpack_preloading *cancel; /* when set: from the first call */
    pthread_t           thread;
};

static void note(void *context, const ptxpack_preload_progress *progress)
{
    struct told *t = (struct told *)context;
    t->calls++; /* one call at a time */
    t->thread = pthread_self();
    if (progress->done != t->last_done + 1 || progress->total < progress->done || progress->ms < 0)
        t->failures += 100;
    t->last_done = progress->done;
    t->cached += progress->from_cache;
    snprintf(t->names + strlen(t->names), sizeof t->names - strlen(t->names), "%s ", progress->name);
    if (progress->status != PTXPACK_OK) {
        t->failures++;
        snprintf(t->detail, sizeof t->detail, "%s: %s", ptxpack_status_name(progress->status),
                 progress->detail);
    } else if (*progress->detail) {
        t->failures += 100;
    }
    if (t->cancel != NULL)
        ptxpack_preload_cancel(t->cancel);
}

static ptxpack_preloading *start(const char *arch, const ptxpack_options *open, struct told *told)
{
    ptxpack_preloading     *p = NULL;
    ptxpack_preload_options options = {.size = sizeof options,
                                       .arch = arch,
                                       .sm_count = arch != NULL ? 132 : 0,
                                       .open = open,
                                       .on_progress = told != NULL ? note : NULL,
                                       .context = told};
    if (told != NULL)
        memset(told, 0, sizeof *told);
    if (ptxpack_preload(&options, &p) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(NULL));
    return p;
}

static const ptxpack_attention_desc problem = {.size = sizeof problem,
                                               .dtype = PTXPACK_BF16,
                                               .batch = 2,
                                               .seqlen_q = 1024,
                                               .seqlen_kv = 1024,
                                               .heads_q = 16,
                                               .heads_kv = 4,
                                               .head_dim = 128,
                                               .mask = PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT};

/* Makes a plan of the problem; returns whether its machine code had to be compiled. */
static bool plan_compiles(const ptxpack_options *options, const ptxpack_attention_desc *desc, char *row_name)
{
    ptxpack                *handle;
    ptxpack_attention_plan *plan;
    unsigned                before = compilations();
    if (ptxpack_open(options, &handle) != PTXPACK_OK ||
        ptxpack_attention_plan_create(handle, desc, &plan) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(NULL));
    snprintf(row_name, 128, "%s ", ptxpack_kernel_describe(ptxpack_attention_kernel(plan))->variant->id);
    ptxpack_attention_plan_free(plan);
    ptxpack_close(handle);
    return compilations() != before;
}

/* ---- before the context --------------------------------------------------------------------------- */

/* With the architecture named the driver is not even loaded. */
TEST(test_without_driver)
{
    struct told         told;
    char                row_name[128];
    ptxpack_options     options = handle_options(false);
    struct fake_record *record = record_of(driver);
    ptxpack_preloading *p = start("sm_90a", &options, &told);
    assert_int_equal(ptxpack_preload_attention(p, &problem), PTXPACK_OK);
    assert_int_equal(ptxpack_preload_vector(p, PTXPACK_F16), PTXPACK_OK);
    assert_int_equal(ptxpack_preload_wait(p), PTXPACK_OK);
    assert_int_equal(told.calls, 2);
    assert_int_equal(told.failures + told.cached, 0);
    assert_false(pthread_equal(told.thread, pthread_self()));
    assert_int_equal(record->inits, 0);
    assert_int_equal(compilations(), 2);
    ptxpack_preload_free(p);
    assert_false(plan_compiles(&options, &problem, row_name)); /* the same row, the same machine code */
    assert_has(told.names, row_name);
    assert_has(told.names, "vector_add_sm80 ");
    assert_int_equal(compilations(), 2);
    assert_int_equal(record->inits, 1);
}

/* Without `arch` the device is asked for its attributes; no context is made or read. */
TEST(test_of_the_device)
{
    static const struct {
        const char *device, *row;
    } cases[] = {{"arch=90", "attention_wgmma_sm90_d128"}, {"arch=80", "attention_mma_sm80_d128"}};
    for (int i = 0; i < 2; i++) {
        struct told told;
        char        row_name[128];
        reset(NULL);
        setenv("FAKE_CUDA", cases[i].device, 1);
        compiler = fresh_copy("fake_ptxjit.so");
        driver = fresh_copy("fake_driver.so");
        ptxpack_options     options = handle_options(false);
        struct fake_record *record = record_of(driver);
        ptxpack_preloading *p = start(NULL, &options, &told);
        assert_int_equal(ptxpack_preload_attention(p, &problem), PTXPACK_OK);
        assert_int_equal(ptxpack_preload_wait(p), PTXPACK_OK);
        assert_int_equal(record->inits, 1);
        assert_int_equal(record->retained, 0);
        assert_int_equal(record->retains, 0);
        assert_int_equal(record->context_calls, 0);
        assert_int_equal(record->loads + record->links, 0);
        ptxpack_preload_free(p);
        assert_has(told.names, cases[i].row);
        assert_false(plan_compiles(&options, &problem, row_name));
        assert_has(told.names, row_name);
        assert_true(record->context_calls > 0 && record->retains == 1); /* it does count them */
    }
}

/* Without a cache the machine code is in memory, for as long as the preloading is. */
TEST(test_in_memory)
{
    char                row_name[128];
    ptxpack_options     options = handle_options(true);
    ptxpack_preloading *p = start("sm_90", &options, NULL);
    assert_int_equal(ptxpack_preload_attention(p, &problem), PTXPACK_OK);
    assert_int_equal(ptxpack_preload_wait(p), PTXPACK_OK);
    assert_false(plan_compiles(&options, &problem, row_name));
    ptxpack_preload_free(p);
    assert_true(plan_compiles(&options, &problem, row_name));
    assert_int_equal(access(below("cache"), F_OK), -1);
}

/* A plan that is made while its kernel is being compiled waits for that compilation and starts none. */
TEST(test_at_the_same_time)
{
    char            row_name[128];
    ptxpack_options options = handle_options(true);
    setenv("FAKE_PTXJIT", "ms=300", 1);
    ptxpack_preloading *p = start("sm_90", &options, NULL);
    assert_int_equal(ptxpack_preload_attention(p, &problem), PTXPACK_OK);
    usleep(100000);
    plan_compiles(&options, &problem, row_name);
    assert_int_equal(compilations(), 1);
    ptxpack_preload_free(p);
}

TEST(test_gemm)
{
    struct told             told;
    ptxpack_gemm_plan      *plan;
    ptxpack_options         options = handle_options(false);
    const ptxpack_gemm_desc desc = {.size = sizeof desc, .dtype = PTXPACK_F16, .m = 512, .n = 512, .k = 256};
    setenv("FAKE_CUDA", "arch=80", 1);
    ptxpack_preloading *p = start(NULL, &options, &told);
    assert_int_equal(ptxpack_preload_gemm(p, &desc), PTXPACK_OK);
    assert_int_equal(ptxpack_preload_wait(p), PTXPACK_OK);
    ptxpack_preload_free(p);
    assert_int_equal(compilations(), 1);
    ptxpack *handle = open_with(&options);
    assert_int_equal(ptxpack_gemm_plan_create(handle, &desc, &plan), PTXPACK_OK);
    assert_has(told.names, ptxpack_kernel_describe(ptxpack_gemm_kernel(plan))->variant->id);
    assert_int_equal(compilations(), 1);
    ptxpack_gemm_plan_free(plan);
    ptxpack_close(handle);
}

/* An attention that appends: both of its kernels. */
TEST(test_attention_with_append)
{
    struct told                   told;
    ptxpack_attention_plan       *plan;
    ptxpack_options               options = handle_options(false);
    ptxpack_attention_append_desc rows = {.size = sizeof rows};
    ptxpack_attention_desc        desc = {.size = sizeof desc,
                                          .dtype = PTXPACK_F16,
                                          .batch = 2,
                                          .seqlen_q = 1,
                                          .seqlen_kv = 100,
                                          .heads_q = 2,
                                          .heads_kv = 2,
                                          .head_dim = 64,
                                          .options = PTXPACK_LENGTHS_KV,
                                          .append = &rows};
    setenv("FAKE_CUDA", "arch=80", 1);
    ptxpack_preloading *p = start(NULL, &options, &told);
    rows.batch = 3;
    assert_int_equal(ptxpack_preload_attention(p, &desc), PTXPACK_E_ARG);
    assert_has(ptxpack_detail(NULL), "append: batch is 3, but batch of the attention is 2");
    rows.batch = 0;
    assert_int_equal(ptxpack_preload_attention(p, &desc), PTXPACK_OK);
    assert_int_equal(ptxpack_preload_wait(p), PTXPACK_OK);
    ptxpack_preload_free(p);
    assert_int_equal(compilations(), 2);
    ptxpack *handle = open_with(&options);
    assert_int_equal(ptxpack_attention_plan_create(handle, &desc, &plan), PTXPACK_OK);
    assert_int_equal(compilations(), 2);
    ptxpack_attention_plan_free(plan);
    ptxpack_close(handle);
}

/* The operations around attention. */
TEST(test_append_and_merge)
{
    struct told                        told;
    ptxpack_attention_append_plan     *append;
    ptxpack_attention_merge_plan      *merge;
    ptxpack_options                    options = handle_options(false);
    ptxpack_attention_merge_desc       wrong = {.size = 4};
    const ptxpack_attention_merge_desc parts =
        {.size = sizeof parts, .dtype = PTXPACK_BF16, .batch = 2, .seqlen_q = 3, .heads_q = 4, .head_dim = 64};
    const ptxpack_attention_append_desc rows = {.size = sizeof rows,
                                                .dtype = PTXPACK_BF16,
                                                .batch = 2,
                                                .seqlen_new = 1,
                                                .seqlen_kv = 100,
                                                .heads_kv = 2,
                                                .head_dim = 64};
    setenv("FAKE_CUDA", "arch=80", 1);
    ptxpack_preloading *p = start(NULL, &options, &told);
    assert_int_equal(ptxpack_preload_attention_append(p, &rows), PTXPACK_OK);
    assert_int_equal(ptxpack_preload_attention_merge(p, &parts), PTXPACK_OK);
    assert_int_equal(ptxpack_preload_attention_merge(p, &wrong), PTXPACK_E_ARG);
    assert_has(ptxpack_detail(NULL), "desc.size is not sizeof(ptxpack_attention_merge_desc)");
    assert_int_equal(ptxpack_preload_wait(p), PTXPACK_OK);
    ptxpack_preload_free(p);
    assert_int_equal(compilations(), 2);
    ptxpack *handle = open_with(&options);
    assert_int_equal(ptxpack_attention_append_plan_create(handle, &rows, &append), PTXPACK_OK);
    assert_int_equal(ptxpack_attention_merge_plan_create(handle, &parts, &merge), PTXPACK_OK);
    assert_has(told.names, ptxpack_kernel_describe(ptxpack_attention_append_kernel(append))->variant->id);
    assert_has(told.names, ptxpack_kernel_describe(ptxpack_attention_merge_kernel(merge))->variant->id);
    assert_int_equal(compilations(), 2);
    ptxpack_attention_append_plan_free(append);
    ptxpack_attention_merge_plan_free(merge);
    ptxpack_close(handle);
}

/* ---- progress, failures, cancelling --------------------------------------------------------------- */

static ptxpack_variant rows[12];
static void            make_rows(void)
{
    setenv("PTXPACK_PTX_DIR", below("ptx"), 1);
    for (size_t i = 0; i < 12; i++)
        rows[i] = row;
}

TEST(test_many)
{
    struct told     told;
    ptxpack_options options = handle_options(false);
    make_rows();
    setenv("FAKE_PTXJIT", "ms=20", 1);
    ptxpack_preloading *p = start("sm_90", &options, &told);
    for (int64_t i = 0; i < 12; i++) {
        char                 name[] = "WHICH";
        const ptxpack_symbol symbol = {name, i};
        assert_int_equal(ptxpack_preload_row(p, &rows[i], &symbol, 1), PTXPACK_OK);
        name[0] = 'X'; /* names are copied */
    }
    assert_int_equal(ptxpack_preload_wait(p), PTXPACK_OK);
    size_t done = 0, total = 0;
    ptxpack_preload_count(p, &done, &total);
    assert_int_equal(done, 12);
    assert_int_equal(total, 12);
    assert_int_equal(told.calls, 12);
    assert_int_equal(told.failures, 0);
    assert_int_equal(compilations(), 12);
    assert_int_equal(ptxpack_preload_row(p, &row, which, 1), PTXPACK_OK); /* again: WHICH 1 */
    assert_int_equal(ptxpack_preload_wait(p), PTXPACK_OK);
    assert_int_equal(compilations(), 12);
    ptxpack_preload_free(p);
}

/* A kernel that fails does not affect others; waiting returns the first failure. */
TEST(test_failures)
{
    struct told            told;
    ptxpack_options        options = handle_options(false);
    ptxpack_attention_desc wrong = problem;
    ptxpack_variant        too_new = row;
    ptxpack_preloading    *p = start("sm_80", &options, &told);
    wrong.head_dim = 7;
    assert_int_equal(ptxpack_preload_attention(p, &wrong), PTXPACK_OK);
    assert_int_equal(ptxpack_preload_wait(p), PTXPACK_E_ARG);
    assert_has(ptxpack_detail(NULL), "head_dim");
    assert_has(told.detail, "PTXPACK_E_ARG: head_dim");
    assert_has(told.names, "attention ");
    too_new.arch = 90;
    assert_int_equal(ptxpack_preload_row(p, &too_new, which, 1), PTXPACK_OK);
    assert_int_equal(ptxpack_preload_vector(p, (ptxpack_dtype)9), PTXPACK_OK);
    assert_int_equal(ptxpack_preload_attention(p, &problem), PTXPACK_OK);
    assert_int_equal(ptxpack_preload_wait(p), PTXPACK_E_ARG);
    assert_int_equal(told.calls, 4);
    assert_int_equal(told.failures, 3);
    assert_int_equal(compilations(), 1);
    wrong.size = 4;
    assert_int_equal(ptxpack_preload_attention(p, &wrong), PTXPACK_E_ARG);
    ptxpack_preload_free(p);
    setenv("FAKE_PTXJIT", "line=4", 1);
    p = start("sm_80", &options, &told);
    assert_int_equal(ptxpack_preload_vector(p, PTXPACK_F16), PTXPACK_OK);
    assert_int_equal(ptxpack_preload_wait(p), PTXPACK_E_COMPILE);
    assert_has(ptxpack_detail(NULL), "Unknown symbol");
    ptxpack_preload_free(p);
}

TEST(test_what_cannot_begin)
{
    ptxpack_preloading     *p;
    struct told             told;
    ptxpack_options         options = handle_options(false);
    ptxpack_preload_options wrong = {.size = sizeof wrong, .arch = "sm_12"};
    assert_int_equal(ptxpack_preload(&wrong, &p), PTXPACK_E_ARG);
    assert_null(p);
    assert_has(ptxpack_detail(NULL), "sm_12");
    wrong.arch = NULL;
    wrong.size = 3;
    assert_int_equal(ptxpack_preload(&wrong, &p), PTXPACK_E_ARG);
    options.ptxjit = "/no/such/library.so"; /* detected in the background, and reported for each kernel */
    p = start("sm_90", &options, &told);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ptxpack_preload_vector(p, PTXPACK_F16), PTXPACK_OK);
    assert_int_equal(ptxpack_preload_wait(p), PTXPACK_E_NO_JIT);
    assert_int_equal(told.failures, 3);
    assert_has(told.detail, "/no/such/library.so");
    ptxpack_preload_free(p);
    setenv("FAKE_CUDA", "devices=0", 1);
    options = handle_options(false);
    p = start(NULL, &options, NULL);
    assert_int_equal(ptxpack_preload_vector(p, PTXPACK_F16), PTXPACK_OK);
    assert_int_equal(ptxpack_preload_wait(p), PTXPACK_E_NO_DEVICE);
    ptxpack_preload_free(p);
    ptxpack_preload_free(NULL);
    assert_int_equal(ptxpack_preload(NULL, &p), PTXPACK_OK);
    assert_int_equal(ptxpack_preload_wait(p), PTXPACK_OK); /* there is nothing to wait for */
    ptxpack_preload_free(p);
}

/* The callback cancels: of twelve kernels on one thread, one is made. */
TEST(test_cancelled)
{
    struct told             told = {.calls = 0};
    ptxpack_options         options = handle_options(false);
    ptxpack_preload_options settings = {.size = sizeof settings,
                                        .threads = 1,
                                        .arch = "sm_90",
                                        .open = &options,
                                        .on_progress = note,
                                        .context = &told};
    make_rows();
    setenv("FAKE_PTXJIT", "ms=100", 1);
    ptxpack_preloading *p;
    assert_int_equal(ptxpack_preload(&settings, &p), PTXPACK_OK);
    told.cancel = p;
    for (int64_t i = 0; i < 12; i++)
        assert_int_equal(ptxpack_preload_row(p, &rows[i], &(ptxpack_symbol){"WHICH", i}, 1), PTXPACK_OK);
    assert_int_equal(ptxpack_preload_wait(p), PTXPACK_OK);
    size_t done, total;
    ptxpack_preload_count(p, &done, &total);
    assert_int_equal(done, 1);
    assert_int_equal(total, 12);
    assert_int_equal(ptxpack_preload_row(p, &row, which, 1), PTXPACK_E_ARG);
    assert_has(ptxpack_detail(NULL), "cancelled");
    ptxpack_preload_free(p);
    assert_int_equal(compilations(), 1);
    p = start("sm_90", &options, NULL); /* it ends also when it is freed while it works */
    for (int64_t i = 0; i < 12; i++)
        assert_int_equal(ptxpack_preload_row(p, &rows[i], &(ptxpack_symbol){"WHICH", 50 + i}, 1), PTXPACK_OK);
    usleep(20000);
    ptxpack_preload_free(p);
    assert_true(compilations() < 12);
}

/* ---- forbidden, prebuilt, forked ------------------------------------------------------------------ */

TEST(test_forbidden)
{
    struct told     told;
    ptxpack_options options = handle_options(false);
    options.forbid_compile = true;
    ptxpack_preloading *p = start("sm_90", &options, &told);
    assert_int_equal(ptxpack_preload_vector(p, PTXPACK_F16), PTXPACK_OK);
    assert_int_equal(ptxpack_preload_wait(p), PTXPACK_E_FORBIDDEN);
    ptxpack_preload_free(p);
    assert_int_equal(compilations(), 0);
}

TEST(test_second_run)
{
    struct told     told;
    ptxpack_options options = handle_options(false);
    for (int i = 0; i < 2; i++) {
        ptxpack_preloading *p = start("sm_90", &options, &told);
        assert_int_equal(ptxpack_preload_attention(p, &problem), PTXPACK_OK);
        assert_int_equal(ptxpack_preload_wait(p), PTXPACK_OK);
        assert_int_equal(told.cached, i);
        ptxpack_preload_free(p);
    }
    assert_int_equal(compilations(), 1);
}

/* Machine code that is shipped needs no compiler: the folder is read, and nothing else happens. */
TEST(test_prebuilt_folder)
{
    struct told                told;
    char                       line[PTXPACK_CACHE_LINE];
    size_t                     entries;
    uint64_t                   bytes;
    ptxpack                   *handle;
    const struct ptxpack_code *code;
    const ptxpack_variant     *v = ptxpack_variant_find("vector_add_sm80");
    ptxpack_instance           i = ptxpack_instance_get(v, 0);
    ptxpack_options            options = handle_options(false);
    assert_int_equal(ptxpack_open_stand_in(&options, "sm_90", 0, &handle), PTXPACK_OK);
    ptxpack_cache_key *key = ptxpack_row_prebuilt_key(handle, v, i.symbols, i.symbol_count, "sm_90");
    ptxpack_filling   *f = ptxpack_filling_open(below("ship"), "1", NULL, line);
    assert_non_null(f);
    assert_int_equal(ptxpack_kernel_make(handle, v, i.symbols, i.symbol_count, NULL, &code), PTXPACK_OK);
    assert_true(ptxpack_filling_put(f, key, "", code->notes, code->notes_bytes, code->bytes, code->size, line));
    assert_true(ptxpack_filling_finish(f, false, &entries, &bytes, line));
    ptxpack_filling_close(f);
    ptxpack_code_release(code);
    ptxpack_cache_key_free(key);
    ptxpack_close(handle);
    reset(NULL); /* the cache is empty again */
    options.readonly_dirs = below("ship");
    options.forbid_compile = true;
    ptxpack_preloading *p = start("sm_90a", &options, &told);
    assert_int_equal(ptxpack_preload_vector(p, PTXPACK_F16), PTXPACK_OK);
    assert_int_equal(ptxpack_preload_wait(p), PTXPACK_OK);
    assert_int_equal(told.cached, 1);
    assert_int_equal(ptxpack_preload_vector(p, PTXPACK_BF16), PTXPACK_OK);
    assert_int_equal(ptxpack_preload_wait(p), PTXPACK_E_FORBIDDEN);
    assert_has(told.detail, "prebuilt folder ");
    assert_has(told.detail, "(of ptxpack 1; this is ");
    ptxpack_preload_free(p);
    assert_int_equal(compilations(), 1);
}

static int in_forked_child(ptxpack_preloading *p)
{
    size_t done = 9;
    if (ptxpack_preload_vector(p, PTXPACK_F16) != PTXPACK_E_FORKED ||
        ptxpack_preload_wait(p) != PTXPACK_E_FORKED)
        return 1;
    ptxpack_preload_cancel(p);
    ptxpack_preload_count(p, &done, NULL);
    ptxpack_preload_free(p); /* neither call waits for threads that do not exist in the child */
    return done == 0 ? 0 : 2;
}

TEST(test_fork)
{
    int             status;
    ptxpack_options options = handle_options(false);
    setenv("FAKE_PTXJIT", "ms=300", 1);
    ptxpack_preloading *p = start("sm_90", &options, NULL);
    assert_int_equal(ptxpack_preload_vector(p, PTXPACK_F16), PTXPACK_OK);
    usleep(50000);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(in_forked_child(p));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(ptxpack_preload_wait(p), PTXPACK_OK); /* the parent continues */
    ptxpack_preload_free(p);
}

/* Several threads ask at once. */
static void *ask_for_some(void *context)
{
    ptxpack_preloading *p = (ptxpack_preloading *)context;
    for (int64_t i = 0; i < 6; i++)
        if (ptxpack_preload_row(p, &row, &(ptxpack_symbol){"WHICH", i}, 1) != PTXPACK_OK ||
            ptxpack_preload_wait(p) != PTXPACK_OK)
            return context;
    return NULL;
}

TEST(test_threads)
{
    struct told     told;
    pthread_t       threads[8];
    ptxpack_options options = handle_options(false);
    make_rows();
    ptxpack_preloading *p = start("sm_90", &options, &told);
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_for_some, p), 0);
    for (int i = 0; i < 8; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    ptxpack_preload_free(p);
    assert_int_equal(told.calls, 48);
    assert_int_equal(told.failures, 0);
    assert_int_equal(compilations(), 6);
}

RUN_TESTS(make_folder, remove_folder)
