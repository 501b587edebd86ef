/* loader.c - opening, contexts, launching, forks and every refusal of the driver, through a fake one. */
#include "loader_fixture.h"
#include <pthread.h>
#include <sys/wait.h>
#include "loader/context.h"

#define BEFORE_EACH reset
#define AFTER_EACH  NULL

/* Opens a handle on a fresh fake driver that behaves as `words` say; the driver itself compiles (cuLink). */
static ptxpack_status open_fake(const char *words, const char **driver, ptxpack **handle)
{
    ptxpack_options options = {.size = sizeof options, .ptxjit = "none"};
    setenv("FAKE_CUDA", words, 1);
    options.driver = *driver = fresh_copy("fake_driver.so");
    return ptxpack_open(&options, handle);
}

static ptxpack *must_open(const char *words, const char **driver)
{
    ptxpack *handle = NULL;
    if (open_fake(words, driver, &handle) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(NULL));
    return handle;
}

static void expect_open(const char *words, ptxpack_status status, const char *part)
{
    const char *driver;
    ptxpack    *handle = (ptxpack *)&driver;
    assert_int_equal(open_fake(words, &driver, &handle), status);
    assert_null(handle);
    assert_has(ptxpack_detail(NULL), part);
    assert_null(strchr(ptxpack_detail(NULL), '\n'));
}

/* ---- opening -------------------------------------------------------------------------------------- */

TEST(test_no_library)
{
    ptxpack_options options = {.size = sizeof options};
    ptxpack        *handle;
    options.driver = below("no-such-library.so");
    assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_E_NO_DRIVER);
    assert_null(handle);
    assert_has(ptxpack_detail(NULL), "no-such-library.so");
    setenv("PTXPACK_DRIVER", below("from-the-environment.so"), 1);
    assert_int_equal(ptxpack_open(NULL, &handle), PTXPACK_E_NO_DRIVER);
    assert_has(ptxpack_detail(NULL), "from-the-environment.so");
    unsetenv("PTXPACK_DRIVER");
}

TEST(test_refusals_of_open)
{
    expect_open("stub", PTXPACK_E_STUB_DRIVER, "stub");
    expect_open("init=34", PTXPACK_E_STUB_DRIVER, "(34)");
    expect_open("init=100", PTXPACK_E_NO_DEVICE, "(100)");
    expect_open("devices=0", PTXPACK_E_NO_DEVICE, "no device");
    expect_open("init=803", PTXPACK_E_DRIVER, "different versions");
    expect_open("init=804", PTXPACK_E_DRIVER, "forward-compatibility");
    expect_open("init=3", PTXPACK_E_DRIVER, "child of a process");
    expect_open("init=999", PTXPACK_E_DRIVER, "CUDA_ERROR_FAKE (999): a fake error");
    expect_open("missing=cuMemAlloc", PTXPACK_E_DRIVER, "cuMemAlloc of CUDA 3.2");
    expect_open("unnamed=cuLaunchKernel", PTXPACK_E_DRIVER, "cuLaunchKernel");
}

TEST(test_old_ways_to_find_functions)
{
    static const char *const builds[] = {"fake_driver_v1.so", "fake_driver_plain.so"};
    for (int i = 0; i < 2; i++) {
        ptxpack_options options = {.size = sizeof options, .ptxjit = "none"};
        ptxpack        *handle;
        ptxpack_kernel *kernel;
        const char     *driver = options.driver = fresh_copy(builds[i]);
        setenv("FAKE_CUDA", "version=11000", 1);
        if (ptxpack_open(&options, &handle) != PTXPACK_OK)
            fail_msg("%s: %s", builds[i], ptxpack_detail(NULL));
        assert_int_equal(ptxpack_device(handle)->caps.isa, 70);
        assert_int_equal(load_row(handle, &row, &kernel), PTXPACK_OK);
        ptxpack_close(handle);
        assert_int_equal(record_of(driver)->retained, 0);
    }
}

TEST(test_one_table_per_library)
{
    const struct ptxpack_driver *first, *again, *other;
    char                         line[256];
    const char                  *path = fresh_copy("fake_driver.so");
    assert_int_equal(ptxpack_driver_open(path, &first, line, sizeof line), PTXPACK_OK);
    assert_int_equal(ptxpack_driver_open(path, &again, line, sizeof line), PTXPACK_OK);
    assert_ptr_equal(first, again);
    assert_int_equal(record_of(path)->inits, 1);
    assert_int_equal(ptxpack_driver_open(fresh_copy("fake_driver.so"), &other, line, sizeof line), PTXPACK_OK);
    assert_ptr_not_equal(first, other);
    assert_string_equal(first->path, path);
}

TEST(test_device)
{
    const char                *driver;
    ptxpack                   *handle = must_open("version=12040 arch=89 devices=2", &driver);
    const ptxpack_device_info *info = ptxpack_device(handle);
    assert_string_equal(info->name, "Fake GPU");
    assert_string_equal(info->target, "sm_89");
    assert_int_equal(info->caps.arch, 89);
    assert_int_equal(info->caps.isa, 84);
    assert_int_equal(info->caps.shared_per_block, 227 << 10);
    assert_int_equal(info->driver_version, 12040);
    assert_int_equal(info->sm_count, 132);
    assert_int_equal(info->memory_bytes, (size_t)1 << 30);
    assert_has(info->route, "cuLink");
    assert_has(info->route, "PTXPACK_PTXAS=none");
    ptxpack_close(handle);
    ptxpack_options options = {.size = sizeof options, .device = 2, .driver = driver};
    assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_E_ARG);
    assert_has(ptxpack_detail(NULL), "device 2");
}

TEST(test_options)
{
    ptxpack_options options = {.size = sizeof options + 8};
    ptxpack        *handle;
    assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_E_ARG);
    assert_has(ptxpack_detail(NULL), "options.size");
    options.size = 0;
    assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_E_ARG);
    options.size = offsetof(ptxpack_options, driver); /* a caller that is older than the other fields */
    options.driver = "/not/looked/at";
    setenv("FAKE_CUDA", "", 1);
    setenv("PTXPACK_DRIVER", fresh_copy("fake_driver.so"), 1);
    handle = open_with(&options);
    unsetenv("PTXPACK_DRIVER");
    ptxpack_close(handle);
}

static ptxpack_status open_arch(const char *words, const char *arch, ptxpack **handle)
{
    ptxpack_options options = {.size = sizeof options, .ptxjit = "none"};
    setenv("FAKE_CUDA", words, 1);
    setenv("PTXPACK_ARCH", arch, 1);
    options.driver = fresh_copy("fake_driver.so");
    return ptxpack_open(&options, handle);
}

TEST(test_forced_arch)
{
    static const char *const malformed[] = {"80",      "sm_",     "sm_8x", "sm_080",
                                            "sm_90ab", "sm_9999", "SM_80", "sm_-80"};
    ptxpack                 *handle;
    assert_int_equal(open_arch("arch=90", "sm_86", &handle), PTXPACK_OK);
    assert_int_equal(ptxpack_device(handle)->caps.arch, 86);
    assert_int_equal(ptxpack_device(handle)->caps.shared_per_block, 99 << 10); /* chosen as for an sm_86 */
    assert_string_equal(ptxpack_device(handle)->target, "sm_90");              /* but compiled for the device */
    ptxpack_close(handle);
    assert_int_equal(open_arch("arch=89", "sm_90", &handle), PTXPACK_E_ARG);
    assert_has(ptxpack_detail(NULL), "above the device");
    assert_int_equal(open_arch("arch=90", "sm_42", &handle), PTXPACK_E_ARG);
    for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) {
        assert_int_equal(open_arch("arch=90", malformed[i], &handle), PTXPACK_E_ARG);
        assert_has(ptxpack_detail(NULL), malformed[i]);
    }
}

/* ---- refusals when compiling and loading ---------------------------------------------------------- */

static void expect_load(const char *words, const ptxpack_variant *v, ptxpack_status status, const char *first,
                        const char *second)
{
    const char     *driver;
    ptxpack_kernel *kernel;
    ptxpack        *handle = must_open(words, &driver);
    ptxpack_status  got = load_row(handle, v, &kernel);
    if (got != status)
        fail_msg("%s: %s (%s)", words, ptxpack_status_name(got), ptxpack_detail(handle));
    assert_null(kernel);
    assert_has(ptxpack_detail(handle), first);
    assert_has(ptxpack_detail(handle), second);
    ptxpack_close(handle);
    assert_int_equal(record_of(driver)->retained, 0);
    assert_int_equal(record_of(driver)->libraries, 0);
    assert_int_equal(record_of(driver)->modules, 0);
}

TEST(test_refusals_of_load)
{
    ptxpack_variant whole = row;
    whole.flags = PTXPACK_VARIANT_WHOLE_PROGRAM; /* so that the driver compiles, not cuLink */
    expect_load("version=10020 link=222", &row, PTXPACK_E_ISA,
                "needs PTX ISA 7.0 (CUDA 11.0, driver branch 445)", "takes up to 6.5");
    expect_load("version=10020 load=222", &whole, PTXPACK_E_ISA,
                "needs PTX ISA 7.0 (CUDA 11.0, driver branch 445)", "takes up to 6.5");
    expect_load("link=221", &row, PTXPACK_E_NO_JIT, "(221)", "libnvidia-ptxjitcompiler.so.1");
    expect_load("load=221", &whole, PTXPACK_E_NO_JIT, "(221)", "libnvidia-ptxjitcompiler.so.1");
    expect_load("load=223", &whole, PTXPACK_E_NO_JIT, "(223)", "CUDA_DISABLE_PTX_JIT");
    expect_load("link=218 log=7", &row, PTXPACK_E_COMPILE,
                "kernel/test.ptx:10 (in macro STEP, kernel/test.ptx:2)", "Unknown symbol '%zz'");
    expect_load("load=218 log=7", &whole, PTXPACK_E_COMPILE,
                "kernel/test.ptx:10 (in macro STEP, kernel/test.ptx:2)", "Unknown symbol '%zz'");
    expect_load("load=200", &row, PTXPACK_E_CUBIN, "test_row for sm_90", "CUDA_ERROR_INVALID_IMAGE (200)");
    expect_load("load=209", &row, PTXPACK_E_CUBIN, "test_row for sm_90", "(209)");
    expect_load("load=900", &row, PTXPACK_E_DRIVER, "(900)", "before a stream of this thread is captured");
    expect_load("load=999", &row, PTXPACK_E_DRIVER, "test_row for sm_90", "(999)");
    expect_load("arch=75", &row, PTXPACK_E_UNSUPPORTED, "needs sm_80", "the target is sm_75");
    expect_load("no-link load=218 log=1", &row, PTXPACK_E_COMPILE, "kernel/test.ptx:4: Unknown symbol",
                "sm_90");
}

TEST(test_refusals_of_expansion)
{
    write_pack("one line\n.error \"by intent\"\n");
    expect_load("", &row, PTXPACK_E_EXPAND, "kernel/test.ptx:2", "by intent");
    unlink(below("ptx/kernel/test.ptx"));
    expect_load("", &row, PTXPACK_E_EXPAND, "kernel/test.ptx", "");
}

/* Machine code that the driver refuses is removed and compiled once more. */
TEST(test_cubin_rebuilt)
{
    const char     *driver;
    ptxpack_kernel *kernel;
    ptxpack        *handle = must_open("load=200 load-times=1", &driver);
    assert_int_equal(load_row(handle, &row, &kernel), PTXPACK_OK);
    assert_int_equal(record_of(driver)->links, 2);
    assert_string_equal(record_of(driver)->image, "linked 2");
    assert_false(ptxpack_kernel_describe(kernel)->from_cache);
    ptxpack_close(handle);
}

TEST(test_cached_cubin_replaced)
{
    ptxpack_options          options = {.size = sizeof options, .ptxjit = fresh_copy("fake_ptxjit.so")};
    static const char *const words[] = {"", "load=209 load-times=1", "", "load=200"};
    static const char *const images[] = {"compiled 1 --gpu-name=sm_90", "compiled 2 --gpu-name=sm_90",
                                         "compiled 2 --gpu-name=sm_90", "compiled 3 --gpu-name=sm_90"};
    for (int i = 0; i < 4; i++) {
        ptxpack_kernel *kernel;
        setenv("FAKE_CUDA", words[i], 1);
        options.driver = fresh_copy("fake_driver.so");
        ptxpack *handle = open_with(&options);
        assert_int_equal(load_row(handle, &row, &kernel), i < 3 ? PTXPACK_OK : PTXPACK_E_CUBIN);
        assert_string_equal(record_of(options.driver)->image, images[i]);
        if (i < 3)
            assert_int_equal(ptxpack_kernel_describe(kernel)->from_cache, i == 2);
        else
            assert_has(ptxpack_detail(handle), "(200)");
        ptxpack_close(handle);
    }
}

/* ---- loading -------------------------------------------------------------------------------------- */

static void check_loaded(const char *words, const ptxpack_variant *v, unsigned libraries, unsigned modules,
                         const char *image)
{
    const char         *driver;
    ptxpack_kernel     *kernel, *again;
    ptxpack            *handle = must_open(words, &driver);
    struct fake_record *record = record_of(driver);
    if (load_row(handle, v, &kernel) != PTXPACK_OK)
        fail_msg("%s: %s", words, ptxpack_detail(handle));
    assert_int_equal(record->libraries, libraries);
    assert_int_equal(record->modules, modules);
    assert_int_equal(strncmp(record->image, image, strlen(image)), 0);
    assert_int_equal(record->shared_opt_in, v->shared_bytes);
    assert_int_equal(ptxpack_kernel_describe(kernel)->resources.registers, 42);
    assert_int_equal(ptxpack_kernel_describe(kernel)->resources.shared_bytes, 128);
    assert_non_null(ptxpack_kernel_function(kernel));
    assert_int_equal(load_row(handle, v, &again), PTXPACK_OK);
    assert_ptr_equal(kernel, again); /* the same text is the same kernel */
    assert_int_equal(record->loads, 1);
    ptxpack_close(handle);
    assert_int_equal(record->libraries, 0);
    assert_int_equal(record->modules, 0);
    assert_int_equal(record->retained, 0);
}

TEST(test_ways_to_load)
{
    ptxpack_variant whole = row;
    whole.flags = PTXPACK_VARIANT_WHOLE_PROGRAM;
    check_loaded("", &row, 1, 0, "linked 1");
    reset(state);
    check_loaded("no-libraries", &row, 0, 1, "linked 1");
    check_loaded("", &whole, 1, 0, ".version 7.0"); /* the driver gets the PTX itself */
    check_loaded("no-libraries no-link", &row, 0, 1, ".version 7.0");
}

/* When a kernel of the embedded pack is asked for again with the same symbols, it is found without its
 * text, and the cache is not read.  Other symbols are another kernel. */
TEST(test_asked_again)
{
    const char            *driver;
    const ptxpack_variant *v = ptxpack_variant_find("vector_add_sm80");
    ptxpack_instance       f16 = ptxpack_instance_get(v, 0), bf16 = ptxpack_instance_get(v, 1);
    ptxpack_cache_stats    before = {.size = sizeof before}, after = before;
    ptxpack_kernel        *first, *again, *other;
    unsetenv("PTXPACK_PTX_DIR");
    ptxpack *handle = must_open("", &driver);
    assert_int_equal(ptxpack_kernel_load(handle, v, f16.symbols, f16.symbol_count, &first), PTXPACK_OK);
    ptxpack_cache_get_stats(ptxpack_cache_of(handle), &before);
    assert_int_equal(ptxpack_kernel_load(handle, v, f16.symbols, f16.symbol_count, &again), PTXPACK_OK);
    ptxpack_cache_get_stats(ptxpack_cache_of(handle), &after);
    assert_ptr_equal(first, again);
    assert_int_equal(before.hits + before.misses, after.hits + after.misses);
    assert_int_equal(ptxpack_kernel_load(handle, v, bf16.symbols, bf16.symbol_count, &other), PTXPACK_OK);
    assert_ptr_not_equal(first, other);
    assert_int_equal(record_of(driver)->loads, 2);
    ptxpack_close(handle);
    setenv("PTXPACK_PTX_DIR", below("ptx"), 1);
}

TEST(test_offline_does_not_load)
{
    ptxpack_options options = {.size = sizeof options, .offline = true, .arch = "sm_90a", .ptxjit = "none"};
    ptxpack_kernel *kernel;
    ptxpack        *handle = open_with(&options);
    assert_null(ptxpack_driver_table(handle));
    assert_null(ptxpack_context(handle));
    assert_int_equal(load_row(handle, &row, &kernel), PTXPACK_E_ARG);
    assert_int_equal(ptxpack_kernel_compile(handle, &row, which, 1, NULL, NULL, NULL), PTXPACK_E_NO_JIT);
    ptxpack_close(handle);
    options.arch = NULL;
    assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_E_ARG);
    assert_has(ptxpack_detail(NULL), "arch");
}

/* ---- contexts and launching ----------------------------------------------------------------------- */

static void check_launch(const char *words, bool foreign)
{
    const char                  *driver;
    const uint32_t               grid[3] = {3, 4, 5};
    uint64_t                     argument = 0x123456789abcdef;
    struct CUctx_st             *current = NULL;
    ptxpack_kernel              *kernel;
    ptxpack                     *handle = must_open(words, &driver);
    const struct ptxpack_driver *d = ptxpack_driver_table(handle);
    struct fake_record          *record = record_of(driver);
    assert_int_equal(record->retained, foreign ? 0 : 1);
    assert_int_equal(load_row(handle, &row, &kernel), PTXPACK_OK);
    assert_ptr_equal(record->context_at_load, ptxpack_context(handle));
    for (int with = 0; with < 2; with++) { /* no context current, then ours */
        d->cuCtxSetCurrent(with ? ptxpack_context(handle) : NULL);
        assert_int_equal(ptxpack_kernel_launch(kernel, grid, &argument, NULL), PTXPACK_OK);
        assert_ptr_equal(record->context_at_launch, ptxpack_context(handle));
        d->cuCtxGetCurrent(&current);
        assert_ptr_equal(current, with ? ptxpack_context(handle) : NULL);
    }
    assert_int_equal(record->launches, 2);
    assert_memory_equal(record->grid, grid, sizeof grid);
    assert_int_equal(record->threads, 64);
    assert_int_equal(record->shared, 50000);
    assert_int_equal(record->argument, argument);
    ptxpack_close(handle);
    assert_int_equal(record->retained, 0);
}

TEST(test_contexts)
{
    check_launch("", false);
    check_launch("current", true);
}

/* A launch that may begin early, as far as the row and the driver allow it. */
static void check_overlap(const char *words, unsigned flags, bool overlap, int expected)
{
    const char         *driver;
    const uint32_t      grid[3] = {3, 4, 5};
    uint64_t            argument = 0x123456789abcdef;
    ptxpack_variant     with = row;
    ptxpack_kernel     *kernel;
    ptxpack            *handle = must_open(words, &driver);
    struct fake_record *record = record_of(driver);
    with.flags = flags;
    assert_int_equal(load_row(handle, &with, &kernel), PTXPACK_OK);
    ptxpack_driver_table(handle)->cuCtxSetCurrent(ptxpack_context(handle));
    record->overlapping = 7;
    assert_int_equal(ptxpack_kernel_enqueue(kernel, grid, &argument, NULL, overlap), PTXPACK_OK);
    assert_int_equal(record->overlapping, expected);
    assert_int_equal(record->launches, 1);
    assert_memory_equal(record->grid, grid, sizeof grid);
    assert_int_equal(record->threads, 64);
    assert_int_equal(record->shared, 50000);
    assert_int_equal(record->argument, argument);
    ptxpack_close(handle);
}

TEST(test_overlap)
{
    check_overlap("current", PTXPACK_VARIANT_OVERLAPS, true, 1);
    check_overlap("current", PTXPACK_VARIANT_OVERLAPS, false, 0);
    check_overlap("current", PTXPACK_VARIANT_NO_SPILLS, true, 0);
    check_overlap("current missing=cuLaunchKernelEx", PTXPACK_VARIANT_OVERLAPS, true, 0);
    check_overlap("current unnamed=cuLaunchKernelEx", PTXPACK_VARIANT_OVERLAPS, true, 0);

    const char     *driver;
    const uint32_t  grid[3] = {1, 1, 1};
    uint64_t        argument = 0;
    ptxpack_variant with = row;
    ptxpack_kernel *kernel;
    ptxpack        *handle = must_open("current launch=701", &driver);
    with.flags = PTXPACK_VARIANT_OVERLAPS;
    assert_int_equal(load_row(handle, &with, &kernel), PTXPACK_OK);
    ptxpack_driver_table(handle)->cuCtxSetCurrent(ptxpack_context(handle));
    assert_int_equal(ptxpack_kernel_enqueue(kernel, grid, &argument, NULL, true), PTXPACK_E_LAUNCH);
    assert_has(ptxpack_detail(handle), "cuLaunchKernelEx of test_row, grid 1 x 1 x 1: ");
    assert_int_equal(ptxpack_kernel_enqueue(kernel, grid, &argument, NULL, false), PTXPACK_E_LAUNCH);
    assert_has(ptxpack_detail(handle), "cuLaunchKernel of test_row");
    ptxpack_close(handle);
}

/* Opens, makes the context current, launches and closes, as a program that uses the library now and then. */
static void check_session(const ptxpack_options *options)
{
    const uint32_t               grid[3] = {1, 1, 1};
    uint64_t                     argument = 0;
    ptxpack_kernel              *kernel;
    ptxpack                     *handle = open_with(options);
    struct CUctx_st             *current = NULL;
    const struct ptxpack_driver *d = ptxpack_driver_table(handle);
    assert_int_equal(load_row(handle, &row, &kernel), PTXPACK_OK);
    assert_int_equal(ptxpack_kernel_launch(kernel, grid, &argument, NULL), PTXPACK_OK);
    assert_int_equal(d->cuCtxSetCurrent(ptxpack_context(handle)), 0);
    assert_int_equal(d->cuCtxSynchronize(), 0);
    ptxpack_close(handle);
    assert_int_equal(d->cuCtxGetCurrent(&current), 0);
    assert_null(current);
}

TEST(test_twice_in_a_thread)
{
    ptxpack_options options = {.size = sizeof options, .ptxjit = "none"};
    setenv("FAKE_CUDA", "", 1);
    options.driver = fresh_copy("fake_driver.so");
    check_session(&options);
    check_session(&options);
    assert_int_equal(record_of(options.driver)->retained, 0);
}

TEST(test_destroyed_context)
{
    const char                  *driver;
    const uint32_t               grid[3] = {1, 1, 1};
    uint64_t                     argument = 0;
    struct CUctx_st             *current = NULL;
    ptxpack_kernel              *kernel;
    ptxpack                     *handle = must_open("destroyed", &driver);
    const struct ptxpack_driver *d = ptxpack_driver_table(handle);
    assert_int_equal(record_of(driver)->retained, 1); /* it uses the primary context instead */
    assert_int_equal(load_row(handle, &row, &kernel), PTXPACK_OK);
    assert_int_equal(ptxpack_kernel_launch(kernel, grid, &argument, NULL), PTXPACK_OK);
    assert_ptr_equal(record_of(driver)->context_at_launch, ptxpack_context(handle));
    d->cuCtxGetCurrent(&current);
    assert_ptr_not_equal(current, ptxpack_context(handle)); /* the caller's context stays current */
    assert_non_null(current);
    ptxpack_close(handle);
    assert_int_equal(record_of(driver)->retained, 0);
}

TEST(test_launch_refused)
{
    const char     *driver;
    const uint32_t  grid[3] = {7, 1, 1};
    uint64_t        argument = 0;
    ptxpack_kernel *kernel;
    ptxpack        *handle = must_open("launch=701", &driver);
    assert_int_equal(load_row(handle, &row, &kernel), PTXPACK_OK);
    assert_int_equal(ptxpack_kernel_launch(kernel, grid, &argument, NULL), PTXPACK_E_LAUNCH);
    assert_has(ptxpack_detail(handle), "test_row, grid 7 x 1 x 1: CUDA_ERROR_FAKE (701)");
    ptxpack_close(handle);
}

/* ---- forks ---------------------------------------------------------------------------------------- */

/* Runs in the child: the exit status shows which check failed. */
static int use_after_fork(ptxpack *handle, const ptxpack_kernel *kernel, const char *driver,
                          struct fake_record *record)
{
    const uint32_t  grid[3] = {1, 1, 1};
    uint64_t        argument = 0;
    ptxpack_kernel *other;
    ptxpack        *second;
    ptxpack_options options = {.size = sizeof options, .driver = driver};
    if (ptxpack_kernel_launch(kernel, grid, &argument, NULL) != PTXPACK_E_FORKED || record->launches)
        return 1;
    if (strstr(ptxpack_detail(handle), "child") == NULL)
        return 2;
    if (load_row(handle, &row, &other) != PTXPACK_E_FORKED)
        return 3;
    if (ptxpack_kernel_compile(handle, &row, which, 1, NULL, NULL, NULL) != PTXPACK_E_FORKED)
        return 4;
    if (ptxpack_open(&options, &second) != PTXPACK_E_FORKED)
        return 5;
    ptxpack_close(handle); /* it frees memory, and does not call the driver */
    return record->retained == 1 && record->libraries == 1 ? 0 : 6;
}

TEST(test_fork)
{
    const char         *driver;
    int                 status = -1;
    ptxpack_kernel     *kernel;
    ptxpack            *handle = must_open("", &driver);
    struct fake_record *record = record_of(driver);
    assert_int_equal(load_row(handle, &row, &kernel), PTXPACK_OK);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(use_after_fork(handle, kernel, driver, record));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    ptxpack_close(handle);
}

/* Opening, while the driver's cuInit or the compiler's constructor forks, does not wait for itself. */
TEST(test_fork_inside_open)
{
    ptxpack_options options = {.size = sizeof options};
    int             status = -1;
    setenv("FAKE_CUDA", "fork", 1);
    setenv("FAKE_PTXJIT", "fork", 1);
    options.driver = fresh_copy("fake_driver.so");
    options.ptxjit = fresh_copy("fake_ptxjit.so");
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        ptxpack *handle;
        alarm(10);                    /* the test ends instead of waiting for ever */
        for (int i = 0; i < 2; i++) { /* the second time with the handlers of the first */
            if (ptxpack_open(&options, &handle) != PTXPACK_OK)
                _exit(1);
            ptxpack_close(handle);
            options.driver = fresh_copy("fake_driver.so");
            options.ptxjit = fresh_copy("fake_ptxjit.so");
        }
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- detail lines --------------------------------------------------------------------------------- */

static void *other_thread(void *handle)
{
    return (void *)(uintptr_t)(ptxpack_detail((ptxpack *)handle)[0] != '\0');
}

TEST(test_detail)
{
    ptxpack_options options = {.size = sizeof options, .offline = true, .arch = "sm_80", .ptxjit = "none"};
    ptxpack        *handles[6];
    pthread_t       thread;
    void           *seen;
    char            line[16];
    for (int i = 0; i < 6; i++)
        assert_int_equal(ptxpack_open(&options, &handles[i]), PTXPACK_OK);
    assert_string_equal(ptxpack_detail(handles[0]), "");
    for (int i = 0; i < 4; i++)
        assert_int_equal(ptxpack_fail(handles[i], PTXPACK_E_ARG, "line %d\nand more\n", i), PTXPACK_E_ARG);
    for (int i = 0; i < 4; i++) {
        snprintf(line, sizeof line, "line %d and", i); /* one line */
        assert_has(ptxpack_detail(handles[i]), line);
    }
    /* the argument is the detail itself */
    ptxpack_fail(handles[0], PTXPACK_E_ARG, "%s!", ptxpack_detail(handles[0]));
    assert_string_equal(ptxpack_detail(handles[0]), "line 0 and more!");
    ptxpack_fail(handles[0], PTXPACK_E_ARG,
                 "a\tb\x1b[2J\x7f \xc2\x9b \xc3\xa9"); /* a terminal gets no commands */
    assert_string_equal(ptxpack_detail(handles[0]), "a b\\x1b[2J\\x7f \\xc2\\x9b \xc3\xa9");
    ptxpack_fail(handles[0], PTXPACK_E_ARG, "line 0 and more!");
    ptxpack_fail(handles[5], PTXPACK_E_ARG, "newest");
    assert_string_equal(ptxpack_detail(handles[1]), ""); /* the oldest was forgotten */
    assert_string_equal(ptxpack_detail(handles[0]), "line 0 and more!");
    assert_int_equal(pthread_create(&thread, NULL, other_thread, handles[5]), 0);
    assert_int_equal(pthread_join(thread, &seen), 0);
    assert_null(seen);
    for (int i = 0; i < 6; i++)
        ptxpack_close(handles[i]);
}

RUN_TESTS(make_folder, remove_folder)
