/* programs.c - well-known CUDA C++ programs (tests/emu/programs), compiled by NVRTC for several GPUs, and by
 * nvcc, run on the emulated driver: their results are those of plain C, and the judge finds nothing.
 *
 * PTXPACK_PROGRAMS=reduce,scan runs only these.  Without a CUDA toolkit only a few programs in PTX are run. */
#include "tests/emu/programs/check_basic.h"
#include "tests/emu/programs/check_control.h"
#include "tests/emu/programs/check_library.h"
#include "tests/emu/programs/check_narrow.h"
#include "tests/emu/programs/check_ptx.h"
#include "tests/emu/programs/check_tensor.h"
#include "tests/emu/programs/compile.h"

static char     sources[512]; /* folder of the programs */
static char     log_file[128];
static uint64_t seed;
static uint64_t (*executed)(void); /* that of the running machine */

/* The machine of a GPU, made when it is first needed. */
static struct emu_api *machine(int sm)
{
    static struct {
        int             sm;
        struct emu_api *cu;
    } made[8];
    char   environment[256];
    size_t i = 0;
    while (made[i].cu != NULL && made[i].sm != sm)
        i++;
    assert_true(i + 1 < sizeof made / sizeof made[0]);
    if (made[i].cu == NULL) {
        snprintf(environment, sizeof environment, "PTXPACK_EMU_SM=%d PTXPACK_EMU_MEMORY=64M PTXPACK_EMU_LOG=%s",
                 sm, log_file);
        made[i].sm = sm;
        made[i].cu = emu_api(environment);
    }
    emu_symbol(made[i].cu, "ptxpack_emu_executed", &executed);
    return made[i].cu;
}

/* Loads a module; returns the text of a refusal, or NULL. */
static const char *try_load(struct program *p, const char *ptx)
{
    static char  log[4096];
    unsigned int names[2] = {5, 6}; /* the error log and its size */
    void        *values[2] = {log, (void *)(uintptr_t)sizeof log};
    double       started = now();
    log[0] = '\0';
    unsigned int result = p->cu->cuModuleLoadDataEx(&p->module, ptx, 2, names, values);
    p->loaded = now() - started;
    return result ? log : NULL;
}

static void load(struct program *p, char *ptx)
{
    const char *refused = try_load(p, ptx);
    if (refused != NULL)
        fail_msg("%s: the PTX is refused: %s", p->name, refused);
    free(ptx);
}

static void expect_clean(const struct program *p)
{
    struct stat s;
    if (stat(log_file, &s) == 0 && s.st_size > 0) {
        show_log(p);
        unlink(log_file);
        fail_msg("%s: the emulator has something to say", p->name);
    }
}

struct source {
    const char *name;
    void (*check)(struct program *p);
    int  least_sm;
    char suffix;       /* 'a': for exactly that GPU */
    bool device_debug; /* also compiled with -G */
    bool loud;         /* its check reads the log itself */
};
static const struct source programs[] = {{"saxpy", check_saxpy, 75, 0, true, false},
                                         {"reduce", check_reduce, 75, 0, true, false},
                                         {"scan", check_scan, 75, 0, true, false},
                                         {"transpose", check_transpose, 75, 0, false, false},
                                         {"histogram", check_histogram, 75, 0, true, false},
                                         {"bitonic", check_bitonic, 75, 0, false, false},
                                         {"stencil", check_stencil, 75, 0, false, false},
                                         {"matmul", check_matmul, 75, 0, true, false},
                                         {"softmax", check_softmax, 75, 0, true, false},
                                         {"control", check_control, 75, 0, true, false},
                                         {"matmul_wmma", check_matmul_wmma, 75, 0, true, false},
                                         {"matmul_mma", check_matmul_mma, 80, 0, true, false},
                                         {"matmul_narrow", check_matmul_narrow, 120, 'a', false, false},
                                         LIBRARY_PROGRAMS};

static void run_one(const struct source *source, int sm, const char *by, bool with_nvcc,
                    const char *const *options)
{
    char             path[700], architecture[16];
    struct program   p = {.cu = machine(sm), .sm = sm, .log = log_file};
    uint64_t         before = executed();
    double           started = now();
    struct CUctx_st *context = NULL;
    unlink(log_file);
    assert_int_equal(p.cu->cuCtxCreate_v2(&context, 0, 0), 0);
    random_state = seed + 0x9e3779b97f4a7c15ull * (uint64_t)sm;
    snprintf(p.name, sizeof p.name, "%s.cu, compute_%d%.*s, %s", source->name, sm, source->suffix != 0,
             &source->suffix, by);
    snprintf(path, sizeof path, "%s/%s.cu", sources, source->name);
    snprintf(architecture, sizeof architecture, "%d%.*s", sm, source->suffix != 0, &source->suffix);
    load(&p, (with_nvcc ? compile_nvcc : compile_nvrtc)(path, architecture, options));
    double compiled = now() - started;
    source->check(&p);
    if (!source->loud)
        expect_clean(&p);
    print_message("%-46s %6.2f s to compile, %6.1f ms to load, %8.1f ms to run, %6.1f M "
                  "thread-instructions/s\n",
                  p.name, compiled - p.loaded, 1e3 * p.loaded, 1e3 * p.ran,
                  (double)(executed() - before) / p.ran / 1e6);
    for (unsigned int i = 0; i < p.buffer_count; i++)
        p.cu->cuMemFree_v2(p.buffers[i]);
    p.cu->cuModuleUnload(p.module);
    p.cu->cuCtxDestroy_v2(context);
}

static void test_ptx(void **state)
{
    const struct ptx_case *one = (const struct ptx_case *)*state;
    struct program         p = {.cu = machine(75), .sm = 75, .log = log_file};
    struct CUctx_st       *context = NULL;
    unlink(log_file);
    snprintf(p.name, sizeof p.name, "%s, PTX", one->name);
    assert_int_equal(p.cu->cuCtxCreate_v2(&context, 0, 0), 0);
    const char *refused = try_load(&p, one->text);
    if ((refused != NULL) != (one->refused != NULL) ||
        (refused != NULL && strstr(refused, one->refused) == NULL))
        fail_msg("%s: %s", p.name, refused ? refused : "is loaded");
    if (one->check != NULL)
        one->check(&p);
    expect_clean(&p);
    p.cu->cuCtxDestroy_v2(context);
}

static bool chosen(const char *name)
{
    const char *list = getenv("PTXPACK_PROGRAMS"), *found = list;
    size_t      n = strlen(name);
    for (; found != NULL && (found = strstr(found, name)) != NULL; found++)
        if ((found == list || found[-1] == ',') && (found[n] == ',' || found[n] == '\0'))
            return true;
    return list == NULL;
}

static void test_program(void **state)
{
    static const int         generations[] = {75, 80, 90};
    static const char *const none[] = {NULL}, *const lines[] = {"-lineinfo", NULL};
    static const char *const debug[] = {"-G", NULL};
    const struct source     *source = (const struct source *)*state;
    const int                usual = source->least_sm > 90 ? source->least_sm : 90;
    if (!chosen(source->name)) {
        print_message("SKIP: %s is not among $PTXPACK_PROGRAMS\n", source->name);
        skip();
    }
    for (size_t i = 0; i < sizeof generations / sizeof generations[0]; i++)
        if (generations[i] >= source->least_sm)
            run_one(source, generations[i], "NVRTC", false, none);
    run_one(source, usual, "NVRTC -lineinfo", false, lines);
    if (source->device_debug)
        run_one(source, usual, "NVRTC -G", false, debug);
    if (has_nvcc)
        run_one(source, usual, "nvcc -lineinfo", true, lines);
    if (has_nvcc && source->device_debug)
        run_one(source, usual, "nvcc -G", true, debug);
}

static int set_up(void **state)
{
    if (emu_folder_make(state))
        return -1;
    snprintf(log_file, sizeof log_file, "%s/log", emu_folder);
    return 0;
}

int main(int argc, char **argv)
{
    enum { PROGRAMS = sizeof programs / sizeof programs[0], CASES = sizeof ptx_cases / sizeof ptx_cases[0] };
    struct CMUnitTest tests[CASES + PROGRAMS];
    const char       *reason, *folder = getenv("PTXPACK_PROGRAM_SOURCES");
    snprintf(sources, sizeof sources, "%s", folder != NULL ? folder : "tests/emu/programs");
    size_t count = 0;
    for (size_t i = 0; i < CASES; i++)
        tests[count++] = (struct CMUnitTest){ptx_cases[i].name, test_ptx, NULL, NULL,
                                             (void *)(uintptr_t)&ptx_cases[i]};
    bool compilers = find_compilers(&reason);
    for (size_t i = 0; i < PROGRAMS && compilers; i++)
        tests[count++] = (struct CMUnitTest){programs[i].name, test_program, NULL, NULL,
                                             (void *)(uintptr_t)&programs[i]};
    if (!compilers)
        printf("SKIP: programs of CUDA C++ are not run: %s\n", reason);
    else if (!has_nvcc)
        printf("SKIP: nvcc is not there; NVRTC alone compiles\n");
    seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 20261120;
    printf("seed %llu\n", (unsigned long long)seed);
    return _cmocka_run_group_tests("programs", tests, count, set_up, emu_folder_remove);
}
