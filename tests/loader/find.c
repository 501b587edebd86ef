/* find.c - compilers are found where toolkits, Python's packages and distributions install them; and the
 * message when there is no compiler, or one that does not know the target. */
#include "jit_fixture.h"
#include "loader/inspect.h"

#define BEFORE_EACH reset_places
#define AFTER_EACH  NULL

static int reset_places(void **state)
{
    static const char *const variables[] = {"PTXPACK_PTXAS", "VIRTUAL_ENV", "CONDA_PREFIX", "HOME"};
    reset_compiler(state);
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        unsetenv(variables[i]);
    setenv("PATH", below("empty"), 1);
    return 0;
}

/* Makes a program that only prints its version, as ptxas does, or fails. */
static void make_tool(const char *folder_name, const char *name, bool works)
{
    char command[1024], path[512];
    snprintf(command, sizeof command, "/bin/mkdir -p '%s'", below(folder_name));
    assert_int_equal(system(command), 0);
    snprintf(path, sizeof path, "%s/%s", below(folder_name), name);
    write_text(path, works ? "#!/bin/sh\necho 'Cuda compilation tools, release 12.4, V12.4.131'\n"
                           : "#!/bin/sh\nexit 1\n");
    assert_int_equal(chmod(path, 0700), 0);
}

static void expect_ptxas(const char *path)
{
    struct ptxpack_ptxas ptxas;
    char                 why[256];
    assert_true(ptxpack_ptxas_open(&ptxas, why, sizeof why));
    assert_string_equal(ptxas.path, below(path));
    assert_int_equal(ptxas.cuda, 12040);
}

TEST(ptxas_in_the_active_environment)
{
    make_tool("conda/lib/python3.12/site-packages/triton/backends/nvidia/bin", "ptxas", true);
    setenv("CONDA_PREFIX", below("conda"), 1);
    expect_ptxas("conda/lib/python3.12/site-packages/triton/backends/nvidia/bin/ptxas");
    make_tool("venv/lib/python3.11/site-packages/nvidia/cuda_nvcc/bin", "ptxas", true);
    setenv("VIRTUAL_ENV", below("venv"), 1);
    expect_ptxas("venv/lib/python3.11/site-packages/nvidia/cuda_nvcc/bin/ptxas");
    make_tool("venv/lib/python3.11/site-packages/nvidia/cu13/bin", "ptxas", true);
    expect_ptxas("venv/lib/python3.11/site-packages/nvidia/cu13/bin/ptxas");
}

TEST(ptxas_in_the_path_comes_first_if_it_works)
{
    char path[600];
    make_tool("venv/lib/python3.11/site-packages/nvidia/cu13/bin", "ptxas", true);
    make_tool("broken", "ptxas", false);
    make_tool("works", "ptxas", true);
    setenv("VIRTUAL_ENV", below("venv"), 1);
    setenv("PATH", below("broken"), 1);
    expect_ptxas("venv/lib/python3.11/site-packages/nvidia/cu13/bin/ptxas");
    snprintf(path, sizeof path, "relative:%s:%s", below("broken"), below("works"));
    setenv("PATH", path, 1);
    expect_ptxas("works/ptxas");
}

static bool take_first(const char *path, void *context)
{
    snprintf((char *)context, 512, "%s", path);
    return true;
}

TEST(packages_of_the_user)
{
    static const char below_site[] = "nvidia/cu[1-9][0-9]/bin/ptxas";
    char              found[512] = "";
    make_tool("home/.local/lib/python3.9/site-packages/nvidia/cu12/bin", "ptxas", true);
    make_tool("home/.local/lib/python3.9/site-packages/nvidia/cu13/bin", "ptxas", true);
    setenv("HOME", "home", 1); /* not absolute */
    assert_false(ptxpack_find_in_packages(below_site, take_first, found) && strstr(found, folder) != NULL);
    setenv("HOME", below("home"), 1);
    assert_true(ptxpack_find_in_packages(below_site, take_first, found)); /* the later version first */
    assert_string_equal(found, below("home/.local/lib/python3.9/site-packages/nvidia/cu13/bin/ptxas"));
    assert_false(ptxpack_find_in_environment(below_site, take_first, found));
}

TEST(without_a_compiler_the_line_names_packages)
{
    ptxpack_options options = {.size = sizeof options, .offline = true, .arch = "sm_90", .ptxjit = "none"};
    void           *cubin;
    setenv("PTXPACK_PTXAS", "none", 1);
    ptxpack *handle = open_with(&options);
    assert_has(ptxpack_device(handle)->route, PTXPACK_COMPILER_ADVICE);
    assert_int_equal(ptxpack_kernel_compile(handle, &row, which, 1, NULL, &cubin, NULL), PTXPACK_E_NO_JIT);
    assert_has(ptxpack_detail(handle), "nvidia-cuda-nvcc");
    assert_has(ptxpack_detail(handle), "libnvidia-ptxjitcompiler1");
    ptxpack_close(handle);
}

/* Where nothing was named and nothing is found, the whole line still fits. */
TEST(the_advice_is_not_cut_off)
{
    struct ptxpack_jit jit;
    assert_true(ptxpack_jit_open(&jit, NULL, NULL));
    if (jit.route == PTXPACK_ROUTE_NONE)
        assert_has(jit.why, "or Python's packages; " PTXPACK_COMPILER_ADVICE);
}

RUN_TESTS(make_folder, remove_folder)
