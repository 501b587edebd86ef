/* jit.c - from text to machine code: routes, keys, the cache, forbidding, through fake compilers. */
#include "jit_fixture.h"
#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include "loader/internal.h"

#define BEFORE_EACH reset_compiler
#define AFTER_EACH  NULL

/* ---- what belongs to a key ------------------------------------------------------------------------ */

TEST(test_key)
{
    static const ptxpack_symbol other[] = {{"WHICH", 0}};
    char                        cubin[128], edited[1024];
    ptxpack                    *handle = open_offline("sm_90", false);
    assert_false(compile(handle, which, cubin, sizeof cubin));
    assert_string_equal(cubin, "compiled 1 --gpu-name=sm_90");
    assert_true(compile(handle, which, cubin, sizeof cubin));
    assert_string_equal(cubin, "compiled 1 --gpu-name=sm_90");
    assert_false(compile(handle, other, cubin, sizeof cubin)); /* another text */
    ptxpack_close(handle);
    handle = open_offline("sm_90a", false); /* another target */
    assert_false(compile(handle, which, cubin, sizeof cubin));
    assert_string_equal(cubin, "compiled 3 --gpu-name=sm_90a");
    ptxpack_close(handle);
    setenv("PTXPACK_LINE_INFO", "1", 1); /* other options (and another text) */
    handle = open_offline("sm_90", false);
    assert_false(compile(handle, which, cubin, sizeof cubin));
    ptxpack_close(handle);
    setenv("PTXPACK_LINE_INFO", "0", 1);
    compiler = fresh_copy("fake_ptxjit.so"); /* the same compiler under another path is the same */
    handle = open_offline("sm_90", false);
    assert_true(compile(handle, which, cubin, sizeof cubin));
    assert_int_equal(compilations(), 0);
    unsetenv("PTXPACK_LINE_INFO");
    snprintf(edited, sizeof edited, "%sedited\n", test_ptx);
    write_pack(edited); /* the change is seen at once */
    assert_false(compile(handle, which, cubin, sizeof cubin));
    ptxpack_close(handle);
    FILE *file = fopen(compiler = fresh_copy("fake_ptxjit.so"), "a"); /* another build of the compiler */
    assert_non_null(file);
    fputs("x", file);
    fclose(file);
    write_pack(test_ptx);
    handle = open_offline("sm_90", false);
    assert_false(compile(handle, which, cubin, sizeof cubin));
    ptxpack_close(handle);
}

TEST(test_no_cache)
{
    char     cubin[128];
    ptxpack *handle = open_offline("sm_90", true);
    assert_false(compile(handle, which, cubin, sizeof cubin));
    assert_false(compile(handle, which, cubin, sizeof cubin));
    assert_int_equal(compilations(), 2);
    assert_int_equal(access(below("cache"), F_OK), -1);
    ptxpack_close(handle);
}

/* An entry whose metadata is not ours is compiled again and replaced. */
TEST(test_foreign_metadata)
{
    char               cubin[128];
    ptxpack           *handle = open_offline("sm_90", false);
    ptxpack_cache_key *key = key_of_row(handle);
    assert_true(ptxpack_cache_put(ptxpack_cache_of(handle), key, "", "?", 1, "bad", 3));
    assert_false(compile(handle, which, cubin, sizeof cubin));
    assert_string_equal(cubin, "compiled 1 --gpu-name=sm_90");
    assert_true(compile(handle, which, cubin, sizeof cubin));
    ptxpack_cache_key_free(key);
    ptxpack_close(handle);
}

/* The embedded pack: the text is remembered, and expanded again as soon as its lines are needed. */
TEST(test_remembered_text)
{
    const ptxpack_variant *v = ptxpack_variant_find("vector_add_sm80");
    ptxpack_instance       i = ptxpack_instance_get(v, 0);
    ptxpack_cache_stats    stats = {.size = sizeof stats};
    ptxpack_kernel_info    cold, warm;
    unsetenv("PTXPACK_PTX_DIR");
    ptxpack *handle = open_offline("sm_90", false);
    assert_int_equal(ptxpack_kernel_compile(handle, v, i.symbols, i.symbol_count, &cold, NULL, NULL),
                     PTXPACK_OK);
    ptxpack_close(handle);
    handle = open_offline("sm_90", false);
    assert_int_equal(ptxpack_kernel_compile(handle, v, i.symbols, i.symbol_count, &warm, NULL, NULL),
                     PTXPACK_OK);
    ptxpack_cache_get_stats(ptxpack_cache_of(handle), &stats);
    assert_true(warm.from_cache && !cold.from_cache);
    assert_int_equal(stats.entries, 2);
    assert_int_equal(stats.hits, 2); /* text and machine code */
    ptxpack_close(handle);
    handle = open_offline("sm_80", false); /* known text, new target */
    assert_int_equal(ptxpack_kernel_compile(handle, v, i.symbols, i.symbol_count, &cold, NULL, NULL),
                     PTXPACK_OK);
    ptxpack_close(handle);
    setenv("FAKE_PTXJIT", "line=10", 1);
    handle = open_offline("sm_89", false);
    assert_int_equal(ptxpack_kernel_compile(handle, v, i.symbols, i.symbol_count, NULL, NULL, NULL),
                     PTXPACK_E_COMPILE);
    assert_has(ptxpack_detail(handle), "vector/add.ptx:");
    ptxpack_close(handle);
    setenv("PTXPACK_PTX_DIR", below("ptx"), 1);
}

/* ---- refusals ------------------------------------------------------------------------------------- */

static void expect_refusal(const char *words, ptxpack_status status, const char *first, const char *second)
{
    setenv("FAKE_PTXJIT", words, 1);
    ptxpack *handle = open_offline("sm_90", false);
    assert_int_equal(ptxpack_kernel_compile(handle, &row, which, 1, NULL, NULL, NULL), status);
    assert_has(ptxpack_detail(handle), first);
    assert_has(ptxpack_detail(handle), second);
    ptxpack_close(handle);
}

TEST(test_refusals)
{
    expect_refusal("line=7", PTXPACK_E_COMPILE,
                   "test_row for sm_90, nvPTXCompiler 13.0: kernel/test.ptx:10 (in macro STEP, "
                   "kernel/test.ptx:2): Unknown symbol '%zz'",
                   "(and 1 more)");
    expect_refusal("isa=65", PTXPACK_E_ISA, "test_row needs PTX ISA 7.0 (CUDA 11.0, driver branch 445)",
                   "nvPTXCompiler 13.0 takes up to 6.5");
    expect_refusal("silent", PTXPACK_E_COMPILE, "test_row", "");
    setenv("FAKE_PTXJIT", "", 1);
    char     cubin[128];
    ptxpack *handle = open_offline("sm_90", false); /* a failure is not remembered */
    assert_false(compile(handle, which, cubin, sizeof cubin));
    ptxpack_close(handle);
}

TEST(test_unusable_compilers)
{
    ptxpack        *handle;
    ptxpack_options options = {.size = sizeof options, .offline = true, .arch = "sm_90"};
    options.ptxjit = below("none.so"); /* it was named: no other route is taken silently */
    assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_E_NO_JIT);
    assert_has(ptxpack_detail(NULL), "none.so");
    setenv("FAKE_PTXJIT", "no-version", 1);
    options.ptxjit = fresh_copy("fake_ptxjit.so");
    assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_E_NO_JIT);
    assert_has(ptxpack_detail(NULL), "version");
    options.ptxjit = fresh_copy("fake_driver.so"); /* a library, but not a compiler */
    assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_E_NO_JIT);
    assert_has(ptxpack_detail(NULL), "does not export nvPTXCompilerGetVersion");
}

TEST(test_offline_isa)
{
    ptxpack *handle = open_offline("sm_86", false);
    assert_int_equal(ptxpack_device(handle)->caps.isa, 90); /* from the version of the API */
    ptxpack_close(handle);
    setenv("FAKE_PTXJIT", "isa=74 old", 1); /* by asking the compiler */
    handle = open_offline("sm_86", false);
    assert_int_equal(ptxpack_device(handle)->caps.isa, 74);
    assert_int_equal(ptxpack_device(handle)->caps.arch, 86);
    assert_int_equal(ptxpack_device(handle)->caps.shared_per_block, 99 << 10);
    assert_int_equal(ptxpack_device(handle)->caps.shared_per_sm, 100 << 10);
    assert_has(ptxpack_device(handle)->route, "nvPTXCompiler 1.0");
    ptxpack_close(handle);
}

TEST(test_exact_targets)
{
    static const struct {
        const char    *arch;
        int            needs;
        ptxpack_status status;
    } cases[] = {
        {"sm_90a", 90, PTXPACK_OK},
        {"sm_90", 90, PTXPACK_E_UNSUPPORTED},
        {"sm_100a", 90, PTXPACK_E_UNSUPPORTED},
        {"sm_89", 90, PTXPACK_E_UNSUPPORTED},
    };
    ptxpack_variant exact = row;
    exact.flags = PTXPACK_VARIANT_ARCH_SPECIFIC;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ptxpack *handle = open_offline(cases[i].arch, false);
        exact.arch = cases[i].needs;
        assert_int_equal(ptxpack_kernel_compile(handle, &exact, which, 1, NULL, NULL, NULL), cases[i].status);
        if (cases[i].status != PTXPACK_OK)
            assert_has(ptxpack_detail(handle), "needs exactly sm_90a");
        ptxpack_close(handle);
    }
}

/* With a driver, the lower of the two versions is used. */
TEST(test_isa_of_both)
{
    static const struct {
        const char *cuda, *ptxjit;
        int         isa;
    } cases[] = {{"version=12040", "", 84}, {"version=13030", "", 90}, {"version=13000", "isa=74 old", 74}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ptxpack_options options = {.size = sizeof options};
        setenv("FAKE_CUDA", cases[i].cuda, 1);
        setenv("FAKE_PTXJIT", cases[i].ptxjit, 1);
        options.driver = fresh_copy("fake_driver.so");
        options.ptxjit = fresh_copy("fake_ptxjit.so");
        ptxpack *handle = open_with(&options);
        assert_int_equal(ptxpack_device(handle)->caps.isa, cases[i].isa);
        ptxpack_close(handle);
    }
}

/* On a device the row's own 'a' is added. */
TEST(test_exact_target_of_device)
{
    ptxpack_variant exact = row;
    void           *cubin;
    size_t          bytes;
    ptxpack_options options = {.size = sizeof options};
    exact.flags = PTXPACK_VARIANT_ARCH_SPECIFIC;
    exact.arch = 90;
    setenv("FAKE_CUDA", "arch=90", 1);
    options.driver = fresh_copy("fake_driver.so");
    options.ptxjit = fresh_copy("fake_ptxjit.so");
    ptxpack *handle = open_with(&options);
    assert_int_equal(ptxpack_kernel_compile(handle, &exact, which, 1, NULL, &cubin, &bytes), PTXPACK_OK);
    assert_string_equal((char *)cubin, "compiled 1 --gpu-name=sm_90a");
    free(cubin);
    ptxpack_close(handle);
}

/* ---- ptxas ---------------------------------------------------------------------------------------- */

static const char script[] =
    "#!/bin/sh\n"
    "[ \"$1\" = --version ] && { echo 'Cuda compilation tools, release 12.4, V12.4.131'; exit 0; }\n"
    "while [ $# -gt 1 ]; do [ \"$1\" = -o ] && out=$2; shift; done\n"
    "grep -q MARK_ISA \"$1\" && { echo \"ptxas $1, line 1; fatal   : Unsupported .version 9.5; current version "
    "is '8.4'\"; exit 255; }\n"
    "grep -q MARK_BAD \"$1\" && { echo \"ptxas $1, line 7; error   : Unknown symbol '%zz'\"; exit 255; }\n"
    "grep -q MARK_KILL \"$1\" && kill -9 $$\n"
    "echo 'ptxas info    : Used 21 registers, 16 bytes smem'\n"
    "printf made > \"$out\"\n";

static void expect_ptxas(ptxpack *handle, const char *mark, ptxpack_status status, const char *part)
{
    char                text[1024];
    ptxpack_kernel_info info;
    void               *cubin = NULL;
    size_t              bytes = 0;
    snprintf(text, sizeof text, "%s.pragma \"%s\";\n", test_ptx, mark);
    write_pack(text);
    ptxpack_status got = ptxpack_kernel_compile(handle, &row, which, 1, &info, &cubin, &bytes);
    if (got != status)
        fail_msg("%s: %s", mark, ptxpack_detail(handle));
    if (status == PTXPACK_OK) {
        assert_int_equal(bytes, 4);
        assert_memory_equal(cubin, "made", 4);
        assert_int_equal(info.resources.registers, 21);
        free(cubin);
    } else {
        assert_has(ptxpack_detail(handle), part);
    }
}

/* The text and the machine code are files in memory.  If the table of open files has no room for them, nothing
 * is compiled, and the line says so. */
static void expect_no_files(ptxpack *handle)
{
    struct rlimit limit, less;
    int           next = dup(0); /* the lowest that is free */
    assert_true(next >= 0 && close(next) == 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    less = limit;
    less.rlim_cur = (rlim_t)next + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
    expect_ptxas(handle, "crowded", PTXPACK_E_IO,
                 "a file in memory cannot be made for it: Too many open files");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* ptxas gets its files also when a standard stream is closed, so that a file would get its number. */
static void expect_without_stdin(ptxpack *handle)
{
    int kept = dup(0);
    assert_true(kept >= 0 && close(0) == 0);
    expect_ptxas(handle, "without stdin", PTXPACK_OK, "");
    assert_int_equal(dup2(kept, 0), 0);
    close(kept);
}

static unsigned files_in(const char *path)
{
    unsigned count = 0;
    DIR     *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));)
        count += e->d_name[0] != '.';
    closedir(dir);
    return count;
}

TEST(test_ptxas)
{
    ptxpack_options options = {.size = sizeof options, .offline = true, .arch = "sm_90", .ptxjit = "none"};
    options.no_cache = true;
    write_text(below("ptxas"), script);
    assert_int_equal(chmod(below("ptxas"), 0700), 0);
    mkdir(below("temporary"), 0700);
    setenv("PTXPACK_PTXAS", below("ptxas"), 1);
    setenv("TMPDIR", below("temporary"), 1);
    ptxpack *handle = open_with(&options);
    assert_has(ptxpack_device(handle)->route, "ptxas of CUDA 12.4, because PTXPACK_PTXJIT is none");
    assert_int_equal(ptxpack_device(handle)->caps.isa, 84);
    expect_ptxas(handle, "good", PTXPACK_OK, "");
    expect_ptxas(handle, "MARK_ISA", PTXPACK_E_ISA, "takes up to 8.4");
    expect_ptxas(handle, "MARK_BAD", PTXPACK_E_COMPILE,
                 "kernel/test.ptx:10 (in macro STEP, kernel/test.ptx:2)");
    expect_ptxas(handle, "MARK_KILL", PTXPACK_E_COMPILE, "test_row");
    signal(SIGCHLD, SIG_IGN); /* then the exit status of ptxas is lost */
    expect_ptxas(handle, "good, unwatched", PTXPACK_OK, "");
    expect_ptxas(handle, "MARK_BAD unwatched", PTXPACK_E_COMPILE, "kernel/test.ptx:10");
    signal(SIGCHLD, SIG_DFL);
    expect_without_stdin(handle);
    assert_int_equal(files_in(below("temporary")), 0);
    setenv("TMPDIR", below("no-such-folder"), 1); /* it is not needed */
    expect_ptxas(handle, "no temporary folder", PTXPACK_OK, "");
    unsetenv("TMPDIR");
    expect_no_files(handle);
    assert_int_equal(unlink(below("ptxas")), 0);
    expect_ptxas(handle, "gone", PTXPACK_E_NO_JIT, "it cannot be run: No such file or directory");
    ptxpack_close(handle);
}

/* The version of ptxas is read once, and again when the file has changed. */
TEST(test_ptxas_asked_once)
{
    static const int releases[] = {4, 4, 5};
    char             text[256];
    ptxpack         *handle;
    ptxpack_options  options = {.size = sizeof options, .offline = true, .arch = "sm_90", .ptxjit = "none"};
    mkdir(below("asked"), 0700);
    setenv("PTXPACK_PTXAS", below("ptxas-counting"), 1);
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text, "#!/bin/sh\nmktemp '%s/XXXXXX' >/dev/null\necho 'release 12.%d, V12'%s\n",
                 below("asked"), releases[i], i == 2 ? " # longer" : "");
        if (i != 1)
            write_text(below("ptxas-counting"), text);
        assert_int_equal(chmod(below("ptxas-counting"), 0700), 0);
        handle = open_with(&options);
        assert_int_equal(ptxpack_device(handle)->caps.isa, 80 + releases[i]);
        assert_int_equal(files_in(below("asked")), i == 2 ? 2 : 1);
        ptxpack_close(handle);
    }
}

/* ---- forbidding compilations, and reporting them -------------------------------------------------- */

struct events {
    unsigned count;
    char     last[128];
    double   ms;
};

static void note_event(void *context, const char *kernel, const char *target, double ms)
{
    struct events *e = (struct events *)context;
    e->count++;
    e->ms = ms;
    snprintf(e->last, sizeof e->last, "%s %s", kernel, target);
}

TEST(test_forbidden_and_told)
{
    static const struct {
        bool           option;
        const char    *variable;
        ptxpack_status status;
        unsigned       events; /* so far */
    } steps[] = {
        {true, "0", PTXPACK_E_FORBIDDEN, 0},
        {false, "1", PTXPACK_E_FORBIDDEN, 0},
        {false, "off", PTXPACK_OK, 1},
        {true, "0", PTXPACK_OK, 1}, /* from the cache */
    };
    struct events   events = {0};
    ptxpack_options options = {.size = sizeof options, .offline = true, .arch = "sm_90"};
    options.ptxjit = compiler = fresh_copy("fake_ptxjit.so");
    options.on_compile = note_event;
    options.on_compile_context = &events;
    setenv("FAKE_PTXJIT", "ms=5", 1);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        options.forbid_compile = steps[i].option;
        setenv("PTXPACK_FORBID_COMPILE", steps[i].variable, 1);
        ptxpack *handle = open_with(&options);
        assert_int_equal(ptxpack_kernel_compile(handle, &row, which, 1, NULL, NULL, NULL), steps[i].status);
        if (steps[i].status != PTXPACK_OK)
            assert_has(
                ptxpack_detail(handle),
                "test_row for sm_90: there is no usable machine code in the cache, and compiling is forbidden");
        assert_int_equal(events.count, steps[i].events);
        assert_int_equal(compilations(), steps[i].events);
        ptxpack_close(handle);
    }
    assert_string_equal(events.last, "test_row sm_90");
    assert_true(events.ms >= 5);
    setenv("FAKE_PTXJIT", "line=1", 1); /* a failure is not reported as a compilation */
    unsetenv("PTXPACK_FORBID_COMPILE");
    options.forbid_compile = false;
    options.no_cache = true;
    ptxpack *handle = open_with(&options);
    assert_int_equal(ptxpack_kernel_compile(handle, &row, which, 1, NULL, NULL, NULL), PTXPACK_E_COMPILE);
    assert_int_equal(events.count, 1);
    ptxpack_close(handle);
}

/* The driver's own JIT is forbidden, too: it would compile while it loads. */
TEST(test_forbidden_and_told_by_the_driver)
{
    ptxpack_variant whole = row;
    struct events   events = {0};
    ptxpack_options options = {.size = sizeof options, .ptxjit = "none"};
    whole.flags = PTXPACK_VARIANT_WHOLE_PROGRAM;
    setenv("FAKE_CUDA", "", 1);
    options.on_compile = note_event;
    options.on_compile_context = &events;
    for (int allowed = 0; allowed < 2; allowed++) {
        ptxpack_kernel *kernel;
        options.driver = fresh_copy("fake_driver.so");
        options.forbid_compile = !allowed;
        ptxpack *handle = open_with(&options);
        for (int i = 0; i < 2; i++) /* the second time it is there */
            assert_int_equal(load_row(handle, &whole, &kernel), allowed ? PTXPACK_OK : PTXPACK_E_FORBIDDEN);
        assert_int_equal(record_of(options.driver)->loads, allowed);
        assert_int_equal(events.count, allowed);
        ptxpack_close(handle);
    }
    assert_string_equal(events.last, "test_row sm_90");
}

/* ---- library identity ----------------------------------------------------------------------------- */

TEST(test_identity)
{
    char        first[96], second[96];
    const char *with = fresh_copy("fake_driver.so"), *without = fresh_copy("fake_ptxjit.so");
    assert_true(ptxpack_library_identity(dlopen(with, RTLD_NOW), first, sizeof first));
    assert_true(ptxpack_library_identity(dlopen(without, RTLD_NOW), second, sizeof second));
    assert_has(first, "build-id ");
    assert_has(second, "content ");
    assert_string_equal(ptxpack_library_path(dlopen(with, RTLD_NOW)), with);
}

RUN_TESTS(make_folder, remove_folder)
