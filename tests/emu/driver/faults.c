/* faults.c - the loader on the emulated driver: it works on each of its compile routes, and every error path
 * that PTXPACK_EMU_FAULT can cause is taken. */
#include "tests/loader/loader_fixture.h"
#include "api_fixture.h"
#include "loader/inspect.h"
#define BEFORE_EACH reset
#define AFTER_EACH  NULL

enum route { COMPILER, LINK, JIT }; /* nvPTXCompiler, cuLink, the driver's JIT */

static ptxpack_variant on_route(enum route route)
{
    ptxpack_variant v = row;
    v.flags = route == JIT ? PTXPACK_VARIANT_WHOLE_PROGRAM : 0;
    return v;
}

static ptxpack_status open_emulated(const char *environment, enum route route, ptxpack **handle)
{
    static char     path[256];
    ptxpack_options options = {.size = sizeof options};
    emu_environment(environment);
    snprintf(path, sizeof path, "%s", emu_fresh_library());
    options.driver = path;
    options.ptxjit = route == COMPILER ? path : "none";
    return ptxpack_open(&options, handle);
}

static ptxpack *must_open(const char *environment, enum route route)
{
    ptxpack *handle = NULL;
    if (open_emulated(environment, route, &handle) != PTXPACK_OK)
        fail_msg("%s: %s", environment, ptxpack_detail(NULL));
    return handle;
}

/* ---- without faults ------------------------------------------------------------------------------------ */
TEST(test_routes)
{
    const uint32_t grid[3] = {2, 1, 1};
    uint64_t       argument = 0;
    for (int r = COMPILER; r <= JIT; r++)
        for (int turn = 0; turn < 2; turn++) {
            ptxpack        *handle = must_open("PTXPACK_EMU_SM=86", (enum route)r);
            ptxpack_variant v = on_route((enum route)r);
            ptxpack_kernel *kernel = NULL;
            if (load_row(handle, &v, &kernel) != PTXPACK_OK)
                fail_msg("route %d: %s", r, ptxpack_detail(handle));
            const ptxpack_kernel_info *info = ptxpack_kernel_describe(kernel);
            assert_int_equal(info->from_cache, turn == 1 && r != JIT);
            assert_true(info->resources.registers > 0);
            for (int i = 0; i < 2; i++) /* the error of a launch is reported by the next call */
                assert_int_equal(ptxpack_kernel_launch(kernel, grid, &argument, NULL), PTXPACK_OK);
            ptxpack_close(handle);
        }
}

/* An error names the line in our own file, with every compiler. */
TEST(test_bad_text)
{
    char text[sizeof test_ptx + 16];
    snprintf(text, sizeof text, "%s", test_ptx);
    memcpy(strstr(text, "mov.u32"), "frobnic", 7);
    write_pack(text);
    for (int r = COMPILER; r <= JIT; r++) {
        ptxpack        *handle = must_open("", (enum route)r);
        ptxpack_variant v = on_route((enum route)r);
        ptxpack_kernel *kernel = NULL;
        assert_int_equal(load_row(handle, &v, &kernel), PTXPACK_E_COMPILE);
        assert_has(ptxpack_detail(handle), "kernel/test.ptx:2");
        assert_has(ptxpack_detail(handle), "frobnic");
        ptxpack_close(handle);
    }
}

/* ---- opening ------------------------------------------------------------------------------------------- */
TEST(test_opening)
{
    static const struct {
        const char    *environment;
        ptxpack_status status;
        const char    *says;
    } cases[] = {
        {"PTXPACK_EMU_FAULT=stub", PTXPACK_E_STUB_DRIVER, "stub"},
        {"PTXPACK_EMU_FAULT=no-device", PTXPACK_E_NO_DEVICE, "(100)"},
        {"PTXPACK_EMU_DEVICES=0", PTXPACK_E_NO_DEVICE, "(100)"},
        {"PTXPACK_EMU_FAULT=no-such-word", PTXPACK_E_DRIVER, "(802)"},
        {"PTXPACK_EMU_SM=42", PTXPACK_E_DRIVER, "(802)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ptxpack       *handle = NULL;
        ptxpack_status status = open_emulated(cases[i].environment, LINK, &handle);
        if (status != cases[i].status)
            fail_msg("%s: %s", cases[i].environment, ptxpack_status_name(status));
        assert_null(handle);
        assert_has(ptxpack_detail(NULL), cases[i].says);
    }
    ptxpack *handle = NULL;
    assert_int_not_equal(open_emulated("PTXPACK_EMU_FAULT=no-jit", COMPILER, &handle), PTXPACK_OK);
    assert_has(ptxpack_detail(NULL), "does not tell its version");
}

TEST(test_old_driver)
{
    ptxpack        *handle = must_open("PTXPACK_EMU_FAULT=old-driver", LINK);
    ptxpack_variant v = row;
    ptxpack_kernel *kernel = NULL;
    assert_int_equal(ptxpack_device(handle)->driver_version, 11040);
    assert_null(ptxpack_driver_table(handle)->cuLibraryLoadData); /* it came with CUDA 12 */
    assert_null(ptxpack_driver_table(handle)->cuLaunchKernelEx);
    assert_int_equal(load_row(handle, &v, &kernel), PTXPACK_OK); /* it loads modules instead */
    v.isa = 80;
    v.id = "newer";
    assert_int_equal(load_row(handle, &v, &kernel), PTXPACK_E_ISA);
    assert_has(ptxpack_detail(handle), "needs PTX ISA 8.0");
    ptxpack_close(handle);
    for (int r = COMPILER; r <= JIT; r++) {
        handle = must_open("PTXPACK_EMU_FAULT=old-driver=10020", (enum route)r);
        v = on_route((enum route)r);
        assert_int_equal(load_row(handle, &v, &kernel), PTXPACK_E_ISA);
        assert_has(ptxpack_detail(handle), "needs PTX ISA 7.0");
        assert_has(ptxpack_detail(handle), "up to 6.5");
        ptxpack_close(handle);
    }
}

/* ---- compiling and loading ----------------------------------------------------------------------------- */
TEST(test_loading)
{
    static const struct {
        const char    *environment;
        enum route     route;
        ptxpack_status status;
        const char    *says;
    } cases[] = {
        {"PTXPACK_EMU_FAULT=no-jit", LINK, PTXPACK_E_NO_JIT, "libnvidia-ptxjitcompiler.so.1"},
        {"PTXPACK_EMU_FAULT=no-jit", JIT, PTXPACK_E_NO_JIT, "(221)"},
        {"PTXPACK_EMU_FAULT=jit-disabled", LINK, PTXPACK_E_NO_JIT, "(223)"},
        {"PTXPACK_EMU_FAULT=jit-disabled", JIT, PTXPACK_E_NO_JIT, "CUDA_DISABLE_PTX_JIT"},
        {"PTXPACK_EMU_FAULT=cubin-rejected", COMPILER, PTXPACK_E_CUBIN, "(209)"},
        {"PTXPACK_EMU_FAULT=cubin-rejected", LINK, PTXPACK_E_CUBIN, "test_row for sm_90"},
        {"PTXPACK_EMU_FAULT=cubin-invalid", COMPILER, PTXPACK_E_CUBIN, "(200)"},
        /* the entry is forgotten, and built once more */
        {"PTXPACK_EMU_FAULT=cubin-rejected=1", COMPILER, PTXPACK_OK, ""},
        {"PTXPACK_EMU_FAULT=cubin-invalid=1", LINK, PTXPACK_OK, ""},
        {"PTXPACK_EMU_FAULT=cubin-rejected", JIT, PTXPACK_OK, ""}, /* there is no cubin */
        {"PTXPACK_EMU_SM=75", LINK, PTXPACK_E_UNSUPPORTED, "sm_75"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ptxpack        *handle = must_open(cases[i].environment, cases[i].route);
        ptxpack_variant v = on_route(cases[i].route);
        ptxpack_kernel *kernel = NULL;
        ptxpack_status  status = load_row(handle, &v, &kernel);
        if (status != cases[i].status)
            fail_msg("%s, route %d: %s: %s", cases[i].environment, cases[i].route, ptxpack_status_name(status),
                     ptxpack_detail(handle));
        if (status != PTXPACK_OK)
            assert_has(ptxpack_detail(handle), cases[i].says);
        ptxpack_close(handle);
    }
}

/* A cached entry that the driver no longer accepts is replaced. */
TEST(test_cached)
{
    static const char *const environments[] = {"", "PTXPACK_EMU_FAULT=cubin-rejected=1", ""};
    static const bool        cached[] = {false, false, true};
    for (int i = 0; i < 3; i++) {
        ptxpack        *handle = must_open(environments[i], LINK);
        ptxpack_kernel *kernel = NULL;
        assert_int_equal(load_row(handle, &row, &kernel), PTXPACK_OK);
        assert_int_equal(ptxpack_kernel_describe(kernel)->from_cache, cached[i]);
        ptxpack_close(handle);
    }
}

/* ---- running ------------------------------------------------------------------------------------------- */
TEST(test_memory)
{
    ptxpack                     *handle = must_open("PTXPACK_EMU_FAULT=no-memory=2", LINK);
    const struct ptxpack_driver *d = ptxpack_driver_table(handle);
    ptxpack_deviceptr            a = 0;
    struct CUctx_st             *context = NULL;
    assert_int_equal(d->cuDevicePrimaryCtxRetain(&context, 0), 0);
    assert_int_equal(d->cuCtxSetCurrent(context), 0);
    assert_int_equal(d->cuMemAlloc(&a, 16), 0);
    assert_int_equal(d->cuMemAlloc(&a, 16), PTXPACK_CU_OUT_OF_MEMORY);
    assert_int_equal(d->cuMemAlloc(&a, 16), 0);
    assert_int_equal(d->cuCtxSetCurrent(NULL), 0);
    assert_int_equal(d->cuDevicePrimaryCtxRelease(0), 0);
    ptxpack_close(handle);
}

static ptxpack_kernel *loaded(ptxpack *handle)
{
    ptxpack_kernel *kernel = NULL;
    if (load_row(handle, &row, &kernel) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(handle));
    return kernel;
}

TEST(test_running)
{
    static const struct {
        const char  *environment;
        unsigned int later;
    } cases[] = {{"PTXPACK_EMU_FAULT=launch-failure", 719}, {"PTXPACK_EMU_FAULT=device-lost", 999}};
    const uint32_t grid[3] = {1, 1, 1};
    uint64_t       argument = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ptxpack                     *handle = must_open(cases[i].environment, LINK);
        const struct ptxpack_driver *d = ptxpack_driver_table(handle);
        ptxpack_kernel              *kernel = loaded(handle);
        struct CUctx_st             *context = NULL;
        assert_int_equal(d->cuDevicePrimaryCtxRetain(&context, 0), 0);
        assert_int_equal(d->cuCtxSetCurrent(context), 0);
        assert_int_equal(ptxpack_kernel_launch(kernel, grid, &argument, NULL), PTXPACK_OK);
        assert_int_equal(d->cuCtxSynchronize(), cases[i].later);
        assert_int_equal(ptxpack_kernel_launch(kernel, grid, &argument, NULL), PTXPACK_E_LAUNCH);
        ptxpack_close(handle);
        assert_int_equal(d->cuCtxSynchronize(), cases[i].later);
        assert_int_equal(d->cuDevicePrimaryCtxRelease(0), 0);
        assert_int_equal(d->cuDevicePrimaryCtxRetain(&context, 0), i == 0 ? 0 : 46);
        assert_int_equal(d->cuCtxSetCurrent(NULL), 0);
    }
    ptxpack        *handle = must_open("PTXPACK_EMU_FAULT=launch-refused=2", LINK);
    ptxpack_kernel *kernel = loaded(handle);
    assert_int_equal(ptxpack_kernel_launch(kernel, grid, &argument, NULL), PTXPACK_OK);
    assert_int_equal(ptxpack_kernel_launch(kernel, grid, &argument, NULL), PTXPACK_E_LAUNCH);
    assert_has(ptxpack_detail(handle), "(701)");
    assert_int_equal(ptxpack_kernel_launch(kernel, grid, &argument, NULL), PTXPACK_OK);
    ptxpack_close(handle);
}

static int begin(void **state) { return make_folder(state) || emu_folder_make(state); }
static int end(void **state) { return remove_folder(state) || emu_folder_remove(state); }

int main(void)
{
    (void)fresh_copy, (void)record_of; /* the fake driver has them */
    return unit_run(begin, end);
}
