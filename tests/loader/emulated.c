/* emulated.c - PTXPACK_DEVICE: the environment alone chooses the emulated driver, which is found beside the
 * program and compiles itself; what refuses it, and what takes precedence. */
#include "loader_fixture.h"
#include "loader/internal.h"

#define BEFORE_EACH reset_device
#define AFTER_EACH  NULL

/* No other driver, no other compiler. */
static int reset_device(void **state)
{
    setenv("PTXPACK_DRIVER", "/no/such/driver.so", 1);
    setenv("PTXPACK_PTXJIT", "none", 1);
    setenv("PTXPACK_DEVICE", "emu", 1);
    setenv("PTXPACK_EMU_SM", "90", 1);
    unsetenv("PTXPACK_EMU");
    return reset(state);
}

static void refused(ptxpack_status want, const char *part)
{
    const struct ptxpack_driver *table;
    ptxpack                     *handle;
    char                         line[1024];
    assert_int_equal(ptxpack_open(NULL, &handle), want);
    assert_null(handle);
    assert_has(ptxpack_detail(NULL), part);
    assert_int_equal(ptxpack_driver_open(NULL, &table, line, sizeof line), want);
    assert_has(line, part);
}

TEST(a_kernel_runs_compiled_by_the_emulated_driver_itself)
{
    const uint32_t        grid[3] = {1, 1, 1};
    const ptxpack_variant simple = {.id = "test_row",
                                    .op = "test",
                                    .file = "kernel/test.ptx",
                                    .entry = "test",
                                    .arch = 80,
                                    .isa = 70,
                                    .threads = 64,
                                    .blocks_per_sm = 1};
    ptxpack_deviceptr     argument = 0;
    ptxpack_kernel       *kernel;
    ptxpack              *handle = open_with(NULL);
    assert_has(ptxpack_device(handle)->name, "emulated");
    assert_has(ptxpack_device(handle)->route, "libptxpack-emu.so");
    assert_has(ptxpack_driver_path(ptxpack_driver_table(handle)), "libptxpack-emu.so");
    assert_int_equal(load_row(handle, &simple, &kernel), PTXPACK_OK);
    assert_int_equal(ptxpack_kernel_launch(kernel, grid, &argument, NULL), PTXPACK_OK);
    ptxpack_close(handle);
}

TEST(both_ways_to_open_give_one_driver)
{
    const struct ptxpack_driver *table;
    char                         line[1024];
    ptxpack                     *handle = open_with(NULL);
    assert_int_equal(ptxpack_driver_open(NULL, &table, line, sizeof line), PTXPACK_OK);
    assert_ptr_equal(table, ptxpack_driver_table(handle));
    ptxpack_close(handle);
}

/* A kernel that is made while the program starts must be the one that the device's handle looks for. */
TEST(what_is_preloaded_is_for_the_emulated_driver)
{
    ptxpack        *handle = NULL;
    ptxpack_options options = {.size = sizeof options};
    assert_int_equal(ptxpack_open_stand_in_for_device(&options, &handle), PTXPACK_OK);
    assert_has(ptxpack_device(handle)->route, "libptxpack-emu.so");
    assert_int_equal(ptxpack_device(handle)->caps.arch, 90);
    ptxpack_close(handle);
}

TEST(what_names_a_driver_takes_precedence)
{
    ptxpack_options options = {.size = sizeof options, .driver = "/another/driver.so"};
    ptxpack        *handle;
    assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_E_NO_DRIVER);
    assert_has(ptxpack_detail(NULL), "/another/driver.so");
    assert_null(strstr(ptxpack_detail(NULL), "PTXPACK_DEVICE")); /* the variable would not help */
    options = (ptxpack_options){.size = sizeof options, .offline = true, .arch = "sm_80"};
    handle = open_with(&options);
    assert_null(ptxpack_driver_table(handle));
    ptxpack_close(handle);
}

TEST(without_a_gpu_the_line_says_what_helps)
{
    static const char *const ways[] = {"gpu", ""};
    for (int i = 0; i < 2; i++) {
        setenv("PTXPACK_DEVICE", ways[i], 1);
        refused(PTXPACK_E_NO_DRIVER, "/no/such/driver.so: cannot open");
        refused(PTXPACK_E_NO_DRIVER, "; PTXPACK_DEVICE=emu takes the emulated driver");
    }
    unsetenv("PTXPACK_DEVICE");
    setenv("PTXPACK_DRIVER", fresh_copy("fake_driver.so"), 1);
    setenv("FAKE_CUDA", "init=100", 1);
    refused(PTXPACK_E_NO_DEVICE, "; PTXPACK_DEVICE=emu takes the emulated driver");
}

TEST(other_words_and_a_missing_library_are_refused)
{
    setenv("PTXPACK_DEVICE", "cpu", 1);
    refused(PTXPACK_E_ARG, "PTXPACK_DEVICE: 'cpu' is neither gpu nor emu");
    setenv("PTXPACK_DEVICE", "emu", 1);
    setenv("PTXPACK_EMU", "/nowhere/emu.so", 1);
    refused(PTXPACK_E_NO_DRIVER, "/nowhere/emu.so: cannot open");
}

RUN_TESTS(make_folder, remove_folder)
