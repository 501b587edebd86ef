/* test_jit.c - from text to machine code: routes, logs, keys, the cache, and one compilation for all who ask,
 * through fake compilers. */
#include "loader_fixture.h"
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include "compile_log.h"
#include "flight.h"
#include "loader_internal.h"

static const char *compiler; /* this case's copy of the fake nvPTXCompiler */

static int reset_compiler(void **state)
{
    compiler = NULL;
    return reset(state);
}

static unsigned compilations(void)
{
    return atomic_load((atomic_uint *)library_symbol(compiler, "fake_compilations"));
}

static ptxpack *open_offline(const char *arch, bool no_cache)
{
    ptxpack *handle = NULL;
    ptxpack_options options = {.size = sizeof options, .offline = true, .no_cache = no_cache};
    options.arch = arch;
    if (!compiler)
        compiler = fresh_copy("fake_ptxjit.so");
    options.ptxjit = compiler;
    if (ptxpack_open(&options, &handle) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(NULL));
    return handle;
}

/* Compile `row` and tell whether it came from the cache. */
static bool compile(ptxpack *handle, const ptxpack_symbol *symbols, char *cubin, size_t cap)
{
    ptxpack_kernel_info info;
    void *made = NULL;
    size_t bytes = 0;
    if (ptxpack_kernel_compile(handle, &row, symbols, 1, &info, &made, &bytes) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(handle));
    assert_int_equal(info.cubin_bytes, bytes);
    assert_ptr_equal(info.variant, &row);
    assert_int_equal(info.resources.registers, 33);
    assert_int_equal(info.resources.shared_bytes, 64);
    assert_int_equal(info.resources.stack_bytes, 24);
    assert_int_equal(info.resources.spill_store_bytes, 12);
    assert_int_equal(info.resources.spill_load_bytes, 16);
    assert_string_equal(info.resources.remarks, "(C7510) Potential Performance Loss: this is a fake");
    snprintf(cubin, cap, "%.*s", (int)bytes, (char *)made);
    free(made);
    return info.from_cache;
}

/* ---- what belongs to a key ------------------------------------------------------------------------ */

static void test_key(void **state)
{
    static const ptxpack_symbol other[] = {{"WHICH", 0}};
    char cubin[128], edited[1024];
    ptxpack *handle = open_offline("sm_90", false);
    (void)state;
    assert_false(compile(handle, which, cubin, sizeof cubin));
    assert_string_equal(cubin, "compiled 1 --gpu-name=sm_90");
    assert_true(compile(handle, which, cubin, sizeof cubin));
    assert_string_equal(cubin, "compiled 1 --gpu-name=sm_90");
    assert_false(compile(handle, other, cubin, sizeof cubin)); /* other text */
    ptxpack_close(handle);
    handle = open_offline("sm_90a", false); /* other target */
    assert_false(compile(handle, which, cubin, sizeof cubin));
    assert_string_equal(cubin, "compiled 3 --gpu-name=sm_90a");
    ptxpack_close(handle);
    setenv("PTXPACK_LINE_INFO", "1", 1); /* other options (and text) */
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
    write_pack(edited); /* seen at once */
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

static void test_no_cache(void **state)
{
    char cubin[128];
    ptxpack *handle = open_offline("sm_90", true);
    (void)state;
    assert_false(compile(handle, which, cubin, sizeof cubin));
    assert_false(compile(handle, which, cubin, sizeof cubin));
    assert_int_equal(compilations(), 2);
    assert_int_equal(access(below("cache"), F_OK), -1);
    ptxpack_close(handle);
}

/* The key of `row` for sm_90, as the loader makes it. */
static ptxpack_cache_key *key_of_row(ptxpack *handle)
{
    ptxpack_cache_key *key = ptxpack_cache_key_create();
    ptxpack_expansion *expansion;
    struct ptxpack_jit jit;
    size_t bytes;
    assert_int_equal(ptxpack_kernel_expand(handle, &row, which, 1, &expansion), PTXPACK_OK);
    assert_true(ptxpack_jit_open(&jit, NULL, compiler));
    const char *text = ptxpack_expansion_text(expansion, &bytes);
    ptxpack_cache_key_add_u64(key, "schema", 1);
    ptxpack_cache_key_add(key, "ptx", text, bytes);
    ptxpack_cache_key_add_text(key, "entry", "test");
    ptxpack_cache_key_add_text(key, "target", "sm_90");
    ptxpack_cache_key_add_text(key, "option", "--gpu-name=sm_90");
    ptxpack_cache_key_add_text(key, "option", "--verbose");
    assert_null(ptxpack_jit_identify(&jit, PTXPACK_ROUTE_PTXCOMPILER, key));
    ptxpack_expansion_free(expansion);
    return key;
}

/* An entry whose metadata is not ours is made anew, and replaced. */
static void test_foreign_metadata(void **state)
{
    char cubin[128];
    ptxpack *handle = open_offline("sm_90", false);
    ptxpack_cache_key *key = key_of_row(handle);
    (void)state;
    assert_true(ptxpack_cache_put(ptxpack_cache_of(handle), key, "", "?", 1, "bad", 3));
    assert_false(compile(handle, which, cubin, sizeof cubin));
    assert_string_equal(cubin, "compiled 1 --gpu-name=sm_90");
    assert_true(compile(handle, which, cubin, sizeof cubin));
    ptxpack_close(handle);
    ptxpack_cache_options prebuilt = {.size = sizeof prebuilt, .dir = below("prebuilt")};
    ptxpack_cache *cache = ptxpack_cache_open(&prebuilt);
    assert_true(ptxpack_cache_put(cache, key, "", "?", 1, "bad", 3));
    ptxpack_cache_close(cache);
    setenv("PTXPACK_CACHE_PREBUILT", below("prebuilt"), 1);
    handle = open_offline("sm_90", false);
    assert_true(compile(handle, which, cubin, sizeof cubin)); /* there it cannot be replaced: ours is taken */
    unsetenv("PTXPACK_CACHE_PREBUILT");
    ptxpack_cache_key_free(key);
    ptxpack_close(handle);
}

/* The embedded pack: the text is remembered, and expanded again as soon as its lines matter. */
static void test_remembered_text(void **state)
{
    const ptxpack_variant *v = ptxpack_variant_find("vector_add_sm80");
    ptxpack_instance i = ptxpack_instance_get(v, 0);
    ptxpack_cache_stats stats = {.size = sizeof stats};
    ptxpack_kernel_info cold, warm;
    (void)state;
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
    assert_has(ptxpack_detail(handle), "kernel/vector_add.ptx:");
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

static void test_refusals(void **state)
{
    (void)state;
    expect_refusal("line=7", PTXPACK_E_COMPILE, "test_row for sm_90, nvPTXCompiler 13.0: kernel/test.ptx:10 "
                   "(in macro STEP, kernel/test.ptx:2): Unknown symbol '%zz'", "(and 1 more)");
    expect_refusal("isa=65", PTXPACK_E_ISA, "test_row needs PTX ISA 7.0 (CUDA 11.0, driver branch 445)",
                   "nvPTXCompiler 13.0 takes up to 6.5");
    expect_refusal("silent", PTXPACK_E_COMPILE, "test_row", "");
    setenv("FAKE_PTXJIT", "", 1);
    char cubin[128];
    ptxpack *handle = open_offline("sm_90", false); /* a failure is not remembered */
    assert_false(compile(handle, which, cubin, sizeof cubin));
    ptxpack_close(handle);
}

static void test_unusable_compilers(void **state)
{
    ptxpack *handle;
    ptxpack_options options = {.size = sizeof options, .offline = true, .arch = "sm_90"};
    (void)state;
    options.ptxjit = below("none.so"); /* named: no silent way round */
    assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_E_NO_JIT);
    assert_has(ptxpack_detail(NULL), "none.so");
    setenv("FAKE_PTXJIT", "no-version", 1);
    options.ptxjit = fresh_copy("fake_ptxjit.so");
    assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_E_NO_JIT);
    assert_has(ptxpack_detail(NULL), "version");
    options.ptxjit = fresh_copy("fake_driver.so"); /* a library, but not that one */
    assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_E_NO_JIT);
    assert_has(ptxpack_detail(NULL), "does not export nvPTXCompilerGetVersion");
}

static void test_offline_isa(void **state)
{
    (void)state;
    ptxpack *handle = open_offline("sm_86", false);
    assert_int_equal(ptxpack_device(handle)->caps.isa, 90); /* from the version of the API */
    ptxpack_close(handle);
    setenv("FAKE_PTXJIT", "isa=74 old", 1); /* by asking */
    handle = open_offline("sm_86", false);
    assert_int_equal(ptxpack_device(handle)->caps.isa, 74);
    assert_int_equal(ptxpack_device(handle)->caps.arch, 86);
    assert_int_equal(ptxpack_device(handle)->caps.shared_per_block, 99 << 10);
    assert_int_equal(ptxpack_device(handle)->caps.shared_per_sm, 100 << 10);
    assert_has(ptxpack_device(handle)->route, "nvPTXCompiler 1.0");
    ptxpack_close(handle);
}

static void test_exact_targets(void **state)
{
    static const struct { const char *arch; int needs; ptxpack_status status; } cases[] = {
        {"sm_90a", 90, PTXPACK_OK},
        {"sm_90", 90, PTXPACK_E_UNSUPPORTED},
        {"sm_100a", 90, PTXPACK_E_UNSUPPORTED},
        {"sm_89", 90, PTXPACK_E_UNSUPPORTED},
    };
    ptxpack_variant exact = row;
    (void)state;
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

/* With a driver, the lower of the two counts. */
static void test_isa_of_both(void **state)
{
    static const struct {
        const char *cuda, *ptxjit;
        int isa;
    } cases[] = {
        {"version=12040", "", 84}, {"version=13030", "", 90}, {"version=13000", "isa=74 old", 74}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ptxpack *handle;
        ptxpack_options options = {.size = sizeof options};
        setenv("FAKE_CUDA", cases[i].cuda, 1);
        setenv("FAKE_PTXJIT", cases[i].ptxjit, 1);
        options.driver = fresh_copy("fake_driver.so");
        options.ptxjit = fresh_copy("fake_ptxjit.so");
        assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_OK);
        assert_int_equal(ptxpack_device(handle)->caps.isa, cases[i].isa);
        ptxpack_close(handle);
    }
}

/* On a device the row's own 'a' is added. */
static void test_exact_target_of_device(void **state)
{
    ptxpack_variant exact = row;
    ptxpack *handle;
    void *cubin;
    size_t bytes;
    ptxpack_options options = {.size = sizeof options};
    (void)state;
    exact.flags = PTXPACK_VARIANT_ARCH_SPECIFIC;
    exact.arch = 90;
    setenv("FAKE_CUDA", "arch=90", 1);
    options.driver = fresh_copy("fake_driver.so");
    options.ptxjit = fresh_copy("fake_ptxjit.so");
    assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_OK);
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
    "case $(stat -c %a \"$1\") in 600) ;; *) echo 'ptxas fatal   : not private'; exit 1;; esac\n"
    "grep -q MARK_ISA \"$1\" && { echo \"ptxas $1, line 1; fatal   : Unsupported .version 9.5; current "
    "version is '8.4'\"; exit 255; }\n"
    "grep -q MARK_BAD \"$1\" && { echo \"ptxas $1, line 7; error   : Unknown symbol '%zz'\"; exit 255; }\n"
    "grep -q MARK_KILL \"$1\" && kill -9 $$\n"
    "echo 'ptxas info    : Used 21 registers, 16 bytes smem'\n"
    "printf made > \"$out\"\n";

static void expect_ptxas(ptxpack *handle, const char *mark, ptxpack_status status, const char *part)
{
    char text[1024];
    ptxpack_kernel_info info;
    void *cubin = NULL;
    size_t bytes = 0;
    snprintf(text, sizeof text, "%s%s\n", test_ptx, mark);
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

static unsigned files_in(const char *path)
{
    unsigned count = 0;
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));)
        count += e->d_name[0] != '.';
    closedir(dir);
    return count;
}

static void test_ptxas(void **state)
{
    ptxpack *handle;
    ptxpack_options options = {.size = sizeof options, .offline = true, .arch = "sm_90", .ptxjit = "none"};
    (void)state;
    write_text(below("ptxas"), script);
    assert_int_equal(chmod(below("ptxas"), 0700), 0);
    mkdir(below("temporary"), 0700);
    setenv("PTXPACK_PTXAS", below("ptxas"), 1);
    setenv("TMPDIR", below("temporary"), 1);
    assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_OK);
    assert_has(ptxpack_device(handle)->route, "ptxas of CUDA 12.4, because PTXPACK_PTXJIT is none");
    assert_int_equal(ptxpack_device(handle)->caps.isa, 84);
    expect_ptxas(handle, "good", PTXPACK_OK, "");
    expect_ptxas(handle, "MARK_ISA", PTXPACK_E_ISA, "takes up to 8.4");
    expect_ptxas(handle, "MARK_BAD", PTXPACK_E_COMPILE,
                 "kernel/test.ptx:10 (in macro STEP, kernel/test.ptx:2)");
    expect_ptxas(handle, "MARK_KILL", PTXPACK_E_COMPILE, "test_row");
    signal(SIGCHLD, SIG_IGN); /* then nobody learns how ptxas ended */
    expect_ptxas(handle, "good, unwatched", PTXPACK_OK, "");
    expect_ptxas(handle, "MARK_BAD unwatched", PTXPACK_E_COMPILE, "kernel/test.ptx:10");
    signal(SIGCHLD, SIG_DFL);
    assert_int_equal(files_in(below("temporary")), 0);
    setenv("TMPDIR", below("no-such-folder"), 1);
    expect_ptxas(handle, "unwritable", PTXPACK_E_IO, "test_row");
    unsetenv("TMPDIR");
    ptxpack_close(handle);
}

/* Its version is asked for once, and again when the file is another. */
static void test_ptxas_asked_once(void **state)
{
    static const int releases[] = {4, 4, 5};
    char text[256];
    ptxpack *handle;
    ptxpack_options options = {.size = sizeof options, .offline = true, .arch = "sm_90", .ptxjit = "none"};
    (void)state;
    mkdir(below("asked"), 0700);
    setenv("PTXPACK_PTXAS", below("ptxas-counting"), 1);
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text, "#!/bin/sh\nmktemp '%s/XXXXXX' >/dev/null\necho 'release 12.%d, V12'%s\n",
                 below("asked"), releases[i], i == 2 ? " # longer" : "");
        if (i != 1)
            write_text(below("ptxas-counting"), text);
        assert_int_equal(chmod(below("ptxas-counting"), 0700), 0);
        assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_OK);
        assert_int_equal(ptxpack_device(handle)->caps.isa, 80 + releases[i]);
        assert_int_equal(files_in(below("asked")), i == 2 ? 2 : 1);
        ptxpack_close(handle);
    }
}

/* ---- forbidding compilations, and being told of them ---------------------------------------------- */

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

static void test_forbidden_and_told(void **state)
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
    struct events events = {0};
    ptxpack_options options = {.size = sizeof options, .offline = true, .arch = "sm_90"};
    (void)state;
    options.ptxjit = compiler = fresh_copy("fake_ptxjit.so");
    options.on_compile = note_event;
    options.on_compile_context = &events;
    setenv("FAKE_PTXJIT", "ms=5", 1);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        ptxpack *handle;
        options.forbid_compile = steps[i].option;
        setenv("PTXPACK_FORBID_COMPILE", steps[i].variable, 1);
        assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_OK);
        assert_int_equal(ptxpack_kernel_compile(handle, &row, which, 1, NULL, NULL, NULL), steps[i].status);
        if (steps[i].status != PTXPACK_OK)
            assert_has(ptxpack_detail(handle), "test_row for sm_90: there is no usable machine code in the "
                       "cache, and compiling is forbidden");
        assert_int_equal(events.count, steps[i].events);
        assert_int_equal(compilations(), steps[i].events);
        ptxpack_close(handle);
    }
    assert_string_equal(events.last, "test_row sm_90");
    assert_true(events.ms >= 5);
    setenv("FAKE_PTXJIT", "line=1", 1); /* a failure is no compilation */
    unsetenv("PTXPACK_FORBID_COMPILE");
    options.forbid_compile = false;
    options.no_cache = true;
    ptxpack *handle;
    assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_OK);
    assert_int_equal(ptxpack_kernel_compile(handle, &row, which, 1, NULL, NULL, NULL), PTXPACK_E_COMPILE);
    assert_int_equal(events.count, 1);
    ptxpack_close(handle);
}

/* The driver's own JIT counts as well: it would compile while it loads. */
static void test_forbidden_and_told_by_the_driver(void **state)
{
    ptxpack_variant whole = row;
    struct events events = {0};
    ptxpack_options options = {.size = sizeof options, .ptxjit = "none"};
    (void)state;
    whole.flags = PTXPACK_VARIANT_WHOLE_PROGRAM;
    setenv("FAKE_CUDA", "", 1);
    options.on_compile = note_event;
    options.on_compile_context = &events;
    for (int allowed = 0; allowed < 2; allowed++) {
        ptxpack *handle;
        ptxpack_kernel *kernel;
        options.driver = fresh_copy("fake_driver.so");
        options.forbid_compile = !allowed;
        assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_OK);
        for (int i = 0; i < 2; i++) /* the second time it is there */
            assert_int_equal(load_row(handle, &whole, &kernel), allowed ? PTXPACK_OK : PTXPACK_E_FORBIDDEN);
        assert_int_equal(record_of(options.driver)->loads, allowed);
        assert_int_equal(events.count, allowed);
        ptxpack_close(handle);
    }
    assert_string_equal(events.last, "test_row sm_90");
}

/* ---- one compilation for all who ask -------------------------------------------------------------- */

enum { THREADS = 32 };
struct asker {
    pthread_t          thread;
    pthread_barrier_t *start;
    ptxpack           *handle;
    ptxpack_status     status;
    ptxpack_kernel    *kernel; /* when the handle can load */
    char               detail[512];
};

static void *ask(void *context)
{
    struct asker *a = (struct asker *)context;
    pthread_barrier_wait(a->start);
    a->status = ptxpack_driver_table(a->handle)
                    ? load_row(a->handle, &row, &a->kernel)
                    : ptxpack_kernel_compile(a->handle, &row, which, 1, NULL, NULL, NULL);
    snprintf(a->detail, sizeof a->detail, "%s", ptxpack_detail(a->handle));
    return NULL;
}

static void ask_all(struct asker *askers)
{
    pthread_barrier_t start;
    assert_int_equal(pthread_barrier_init(&start, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++) {
        askers[i].start = &start;
        assert_int_equal(pthread_create(&askers[i].thread, NULL, ask, &askers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(askers[i].thread, NULL), 0);
    pthread_barrier_destroy(&start);
}

static void test_one_handle_one_compilation(void **state)
{
    struct asker askers[THREADS] = {0};
    ptxpack *handle;
    ptxpack_options options = {.size = sizeof options};
    (void)state;
    setenv("FAKE_CUDA", "", 1);
    setenv("FAKE_PTXJIT", "ms=50", 1);
    options.driver = fresh_copy("fake_driver.so");
    options.ptxjit = compiler = fresh_copy("fake_ptxjit.so");
    options.no_cache = true;
    assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_OK);
    for (int i = 0; i < THREADS; i++)
        askers[i].handle = handle;
    ask_all(askers);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(askers[i].status, PTXPACK_OK);
        assert_ptr_equal(askers[i].kernel, askers[0].kernel);
    }
    assert_int_equal(compilations(), 1);
    assert_int_equal(record_of(options.driver)->loads, 1);
    ptxpack_close(handle);
}

static void test_many_handles_one_compilation(void **state)
{
    struct asker askers[THREADS] = {0};
    (void)state;
    for (int no_cache = 0; no_cache < 2; no_cache++) {
        setenv("FAKE_PTXJIT", "ms=300", 1);
        compiler = NULL;
        for (int i = 0; i < THREADS; i++)
            askers[i].handle = open_offline(no_cache ? "sm_89" : "sm_90", no_cache);
        ask_all(askers);
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(askers[i].status, PTXPACK_OK);
            ptxpack_close(askers[i].handle);
        }
        assert_int_equal(compilations(), 1);
    }
}

static void test_shared_failure(void **state)
{
    struct asker askers[THREADS] = {0};
    char cubin[128];
    (void)state;
    setenv("FAKE_PTXJIT", "ms=300 line=7", 1);
    for (int i = 0; i < THREADS; i++)
        askers[i].handle = open_offline("sm_90", false);
    ask_all(askers);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(askers[i].status, PTXPACK_E_COMPILE);
        assert_has(askers[i].detail, "kernel/test.ptx:10");
    }
    assert_int_equal(compilations(), 1);
    setenv("FAKE_PTXJIT", "", 1);
    assert_false(compile(askers[0].handle, which, cubin, sizeof cubin));
    for (int i = 0; i < THREADS; i++)
        ptxpack_close(askers[i].handle);
}

/* Who asks together with a handle that forbids compiling is not refused for its sake. */
static void test_forbidden_for_one_only(void **state)
{
    struct asker forbidding = {0}, other = {0};
    pthread_barrier_t start;
    ptxpack_options options = {.size = sizeof options, .offline = true, .arch = "sm_90", .forbid_compile = true};
    (void)state;
    other.handle = open_offline("sm_90", false);
    options.ptxjit = compiler;
    assert_int_equal(ptxpack_open(&options, &forbidding.handle), PTXPACK_OK);
    ptxpack_cache_key *key = key_of_row(other.handle);
    int lock = ptxpack_cache_lock(ptxpack_cache_of(other.handle), key, 0); /* the first waits for it */
    assert_int_not_equal(lock, -1);
    forbidding.start = other.start = &start;
    assert_int_equal(pthread_barrier_init(&start, NULL, 1), 0);
    assert_int_equal(pthread_create(&forbidding.thread, NULL, ask, &forbidding), 0);
    usleep(100000);
    assert_int_equal(pthread_create(&other.thread, NULL, ask, &other), 0);
    usleep(100000);
    ptxpack_cache_unlock(ptxpack_cache_of(other.handle), lock);
    assert_int_equal(pthread_join(forbidding.thread, NULL), 0);
    assert_int_equal(pthread_join(other.thread, NULL), 0);
    assert_int_equal(forbidding.status, PTXPACK_E_FORBIDDEN);
    assert_int_equal(other.status, PTXPACK_OK);
    assert_int_equal(compilations(), 1);
    pthread_barrier_destroy(&start);
    ptxpack_cache_key_free(key);
    ptxpack_close(forbidding.handle);
    ptxpack_close(other.handle);
}

static atomic_bool enough;

static void *open_and_close(void *context)
{
    (void)context;
    while (!atomic_load(&enough))
        ptxpack_close(open_offline("sm_80", true));
    return NULL;
}

/* A child finds no lock of the dynamic linker held by a thread that it does not have. */
static void test_fork_while_opening(void **state)
{
    enum { OPENERS = 4, CHILDREN = 200 };
    pthread_t threads[OPENERS];
    int status = 0;
    (void)state;
    ptxpack_close(open_offline("sm_80", true)); /* names the compiler for all */
    atomic_store(&enough, false);
    for (int i = 0; i < OPENERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_and_close, NULL), 0);
    for (int i = 0; i < CHILDREN && status == 0; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            alarm(10);
            ptxpack_close(open_offline("sm_80", true));
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    atomic_store(&enough, true);
    for (int i = 0; i < OPENERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(status, 0);
}

/* A child that is forked in the middle of a compilation starts afresh, and does not wait for its parent. */
static void test_fork_during_compilation(void **state)
{
    struct asker a = {0};
    pthread_barrier_t start;
    char cubin[128];
    int status = -1;
    (void)state;
    setenv("FAKE_PTXJIT", "ms=500", 1);
    a.handle = open_offline("sm_90", true);
    a.start = &start;
    assert_int_equal(pthread_barrier_init(&start, NULL, 2), 0);
    assert_int_equal(pthread_create(&a.thread, NULL, ask, &a), 0);
    pthread_barrier_wait(&start);
    usleep(200000); /* it is compiling now */
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(10); /* instead of hanging */
        setenv("FAKE_PTXJIT", "", 1);
        compile(open_offline("sm_90", true), which, cubin, sizeof cubin);
        _exit(strstr(cubin, "compiled") ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(pthread_join(a.thread, NULL), 0);
    assert_int_equal(a.status, PTXPACK_OK);
    pthread_barrier_destroy(&start);
    ptxpack_close(a.handle);
}

/* ---- logs ----------------------------------------------------------------------------------------- */

static void test_log_resources(void **state)
{
    ptxpack_resources r, back;
    char *text, longer[64];
    size_t bytes;
    (void)state;
    ptxpack_log_resources(
        "ptxas info    : (C7511) Potential Performance Loss: x\r\n"
        "ptxas info    : 0 bytes gmem, 12 bytes cmem[4]\n"
        "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
        "ptxas info    : Function properties for k\n"
        "    8 bytes stack frame, 16 bytes spill stores, 20 bytes spill loads\n"
        "ptxas info    : Used 168 registers, used 1 barriers, 8 bytes cumulative stack size, 512 bytes smem\n"
        "ptxas warning : something, line 3\n"
        "ptxas info    : Compiling entry function 'k2' for 'sm_90a'\n"
        "ptxas info    : Used 9 registers\n",
        "k", &r);
    assert_int_equal(r.registers, 168);
    assert_int_equal(r.shared_bytes, 512);
    assert_int_equal(r.stack_bytes, 8);
    assert_int_equal(r.spill_store_bytes, 16);
    assert_int_equal(r.spill_load_bytes, 20);
    assert_has(r.remarks, "(C7511)");
    assert_has(r.remarks, "\nptxas warning : something, line 3");
    assert_true(ptxpack_resources_write(&r, &text, &bytes));
    assert_true(ptxpack_resources_read(text, bytes, &back));
    assert_memory_equal(&r, &back, sizeof r);
    for (size_t i = 0; i < bytes; i++) /* nothing shorter will do */
        assert_false(ptxpack_resources_read(text, i, &back));
    snprintf(longer, sizeof longer, "%.50sx", text);
    assert_false(ptxpack_resources_read(longer, strlen(longer), &back));
    free(text);
    ptxpack_log_resources("", "k", &r);
    assert_int_equal(r.registers, 0);
}

/* More remarks than fit: whole ones are kept, none twice. */
static void test_log_overflow(void **state)
{
    char log[8192] = "", line[128];
    ptxpack_resources r;
    (void)state;
    for (int i = 0; i < 60; i++) {
        snprintf(line, sizeof line, "ptxas info : (C75%02d) remark with some words to fill the space\n",
                 i % 30);
        strcat(log, line);
    }
    ptxpack_log_resources(log, "k", &r);
    assert_in_range(strlen(r.remarks), 300, sizeof r.remarks - 1);
    assert_string_equal(r.remarks + strlen(r.remarks) - 5, "space");
    assert_null(strstr(strstr(r.remarks, "(C7500)") + 1, "(C7500)"));
}

static void test_log_errors(void **state)
{
    char line[128];
    (void)state;
    ptxpack_log_errors("ptxas fatal   : Value 'sm_90a' is not defined for option 'gpu-name'\n", NULL, line,
                       sizeof line);
    assert_string_equal(line, "Value 'sm_90a' is not defined for option 'gpu-name'");
    ptxpack_log_errors("ptxas x.ptx, line 12; error   : Parsing error near ':': syntax error\n"
                       "ptxas fatal   : Ptx assembly aborted due to errors\n", NULL, line, sizeof line);
    assert_string_equal(line, "line 12 of the PTX: Parsing error near ':': syntax error");
    ptxpack_log_errors("something else\nentirely\n", NULL, line, sizeof line);
    assert_string_equal(line, "something else");
    ptxpack_log_errors("", NULL, line, sizeof line);
    assert_string_equal(line, "no message");
    assert_int_equal(ptxpack_log_isa("Unsupported .version 9.5; current version is '8.4'"), 84);
    assert_int_equal(ptxpack_log_isa("current version is 'x'"), 0);
}

/* ---- library identity ----------------------------------------------------------------------------- */

static void test_identity(void **state)
{
    char first[96], second[96];
    const char *with = fresh_copy("fake_driver.so"), *without = fresh_copy("fake_ptxjit.so");
    (void)state;
    assert_true(ptxpack_library_identity(dlopen(with, RTLD_NOW), first, sizeof first));
    assert_true(ptxpack_library_identity(dlopen(without, RTLD_NOW), second, sizeof second));
    assert_has(first, "build-id ");
    assert_has(second, "content ");
    assert_string_equal(ptxpack_library_path(dlopen(with, RTLD_NOW)), with);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_key, reset_compiler),
        cmocka_unit_test_setup(test_no_cache, reset_compiler),
        cmocka_unit_test_setup(test_foreign_metadata, reset_compiler),
        cmocka_unit_test_setup(test_remembered_text, reset_compiler),
        cmocka_unit_test_setup(test_refusals, reset_compiler),
        cmocka_unit_test_setup(test_unusable_compilers, reset_compiler),
        cmocka_unit_test_setup(test_offline_isa, reset_compiler),
        cmocka_unit_test_setup(test_isa_of_both, reset_compiler),
        cmocka_unit_test_setup(test_exact_targets, reset_compiler),
        cmocka_unit_test_setup(test_exact_target_of_device, reset_compiler),
        cmocka_unit_test_setup(test_ptxas, reset_compiler),
        cmocka_unit_test_setup(test_ptxas_asked_once, reset_compiler),
        cmocka_unit_test_setup(test_forbidden_and_told, reset_compiler),
        cmocka_unit_test_setup(test_forbidden_and_told_by_the_driver, reset_compiler),
        cmocka_unit_test_setup(test_one_handle_one_compilation, reset_compiler),
        cmocka_unit_test_setup(test_many_handles_one_compilation, reset_compiler),
        cmocka_unit_test_setup(test_shared_failure, reset_compiler),
        cmocka_unit_test_setup(test_forbidden_for_one_only, reset_compiler),
        cmocka_unit_test_setup(test_fork_during_compilation, reset_compiler),
        cmocka_unit_test_setup(test_fork_while_opening, reset_compiler),
        cmocka_unit_test_setup(test_log_resources, reset_compiler),
        cmocka_unit_test_setup(test_log_overflow, reset_compiler),
        cmocka_unit_test_setup(test_log_errors, reset_compiler),
        cmocka_unit_test_setup(test_identity, reset_compiler),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
