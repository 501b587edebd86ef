/* warm.c - `ptxpack cache warm`, and programs that use the folder it filled: without a compiler on the emulated
 * driver, with another compiler, with a damaged folder.  Its messages are in tests/golden/cache.txt. */
#include <math.h>
#include <unistd.h>
#include "command_fixture.h"
#include "loader/inspect.h"
#include "host/ptxpack.h"
#include "tools/commands/warm.h"

static char emulated[4096], fake[4096]; /* the compilers */

static int prepare(void **state)
{
    static const char *const variables[] = {"DRIVER",         "PTXJIT",
                                            "PTX_DIR",        "ARCH",
                                            "LINE_INFO",      "FORBID_COMPILE",
                                            "CACHE_DISABLE",  "CACHE_READONLY",
                                            "CACHE_MAX_SIZE", "CACHE_READONLY_DIRS",
                                            "EMU_SM"};
    ssize_t                  n = readlink("/proc/self/exe", fake, sizeof fake - 32);
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        char name[64];
        snprintf(name, sizeof name, "PTXPACK_%s", variables[i]);
        unsetenv(name);
    }
    setenv("PTXPACK_PTXAS", "none", 1);
    if (n <= 0 || ptxpack_emulator_path(emulated, sizeof emulated) == NULL)
        return -1;
    fake[n] = '\0';
    strcpy(strrchr(fake, '/') + 1, "fake_ptxjit.so");
    return scratch_open(state);
}

/* Each case has its own caches and folders. */
static int begin(void **state)
{
    scratch_close(state);
    scratch_open(state);
    setenv("PTXPACK_CACHE_DIR", scratch_path("cache"), 1);
    unsetenv("FAKE_PTXJIT");
    return 0;
}

/* Runs ptxpack cache warm --dir SCRATCH/ship ARGUMENTS with that compiler; returns its exit status. */
static int warm_with(const char *compiler, const char *arguments)
{
    char line[16384];
    snprintf(line, sizeof line, "warm --dir %s --ptxjit %s %s", scratch_path("ship"), compiler, arguments);
    return run_command("cache", line);
}

/* A machine that needs more than 10 s says how far it is. */
static bool only_progress(const char *text)
{
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
        int seconds, done, count;
        if (sscanf(line, "ptxpack cache: %d s: %d of %d:", &seconds, &done, &count) != 3 ||
            strchr(line, '\n') == NULL)
            return false;
    }
    return true;
}

static void must_warm(const char *compiler, const char *arguments)
{
    if (warm_with(compiler, arguments) != 0 || !only_progress(errors))
        fail_msg("%s%s", output, errors);
}

/* ---- patterns ----------------------------------------------------------------------------------- */
static void patterns(void **state)
{
    static const struct {
        const char *pattern, *row, *build;
        bool        matches;
    } cases[] = {
        {"attention", "attention_mma_sm80_d64_128x64", "f16 full", true},
        {"att*", "attention_mma_sm80_d64_128x64", "f16 full", true},
        {"*", "attention_mma_sm80_d64_128x64", "f16 full", true},
        {"attention/...", "attention_mma_sm80_d64_128x64", "f16 full", true},
        {"attention/d64*", "attention_mma_sm80_d64_128x64", "f16 full", true},
        {"attention/64*", "attention_mma_sm80_d64_128x64", "f16 full", false},
        {"attention/d64", "attention_mma_sm80_d64_128x64", "f16 full", false},
        {"attention/attention_mma*", "attention_mma_sm80_d64_128x64", "f16 full", true},
        {"attention/128x64", "attention_mma_sm80_d64_128x64", "f16 full", true},
        {"attention/*/bf16*", "attention_mma_sm80_d64_128x64", "f16 full", false},
        {"attention/*/f16*", "attention_mma_sm80_d64_128x64", "f16 full", true},
        {"attention/*/*causal*", "attention_mma_sm80_d64_128x64", "bf16 causal softcap", true},
        {"attention/*/causal", "attention_mma_sm80_d64_128x64", "bf16 causal", false},
        {"gemm", "attention_mma_sm80_d64_128x64", "f16 full", false},
        {"", "attention_mma_sm80_d64_128x64", "f16 full", false},
        {"attention/", "attention_mma_sm80_d64_128x64", "f16 full", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (warm_matches(cases[i].pattern, "attention", cases[i].row, cases[i].build) != cases[i].matches)
            fail_msg("%s, %s", cases[i].pattern, cases[i].build);
}

/* ---- damage ------------------------------------------------------------------------------------- */
static void damage(const char *path)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, -1, SEEK_END), 0);
    int c = fgetc(file);
    assert_int_equal(fseek(file, -1, SEEK_END), 0);
    fputc(c ^ 1, file);
    fclose(file);
}

/* Finds the file of the entry whose label has these words. */
static const char *entry_with(const char *words)
{
    static char path[8192];
    char        line[1024], name[64];
    FILE       *manifest = fopen(scratch_path("ship/manifest"), "r");
    assert_non_null(manifest);
    *path = '\0';
    while (fgets(line, sizeof line, manifest) != NULL)
        if (strstr(line, words) != NULL && sscanf(line, "entry %*s %*s %63s", name) == 1)
            snprintf(path, sizeof path, "%s/%s", scratch_path("ship"), name);
    fclose(manifest);
    assert_true(*path != '\0');
    return path;
}

/* ---- no compiler -------------------------------------------------------------------------------- */
static int  compiled; /* how often the loader reported a compilation */
static void note_compilation(void *context, const char *kernel, const char *target, double ms)
{
    (void)context, (void)kernel, (void)target, (void)ms;
    compiled++;
}

static ptxpack    *live; /* the handle of this process */
static const char *last_line(void) { return live != NULL ? ptxpack_detail(live) : ""; }

/* Opens a handle on the emulated driver, without a compiler unless `ptxjit` names one. */
static ptxpack *open_shipped(const char *ptxjit, bool forbid)
{
    ptxpack        *handle;
    ptxpack_options options = {.size = sizeof options,
                               .driver = emulated,
                               .forbid_compile = forbid,
                               .ptxjit = ptxjit != NULL ? ptxjit : "none",
                               .on_compile = note_compilation,
                               .cache_dir = scratch_path("empty"),
                               .readonly_dirs = scratch_path("ship")};
    compiled = 0;
    if (ptxpack_open(&options, &handle) != PTXPACK_OK) {
        fprintf(stderr, "%s\n", ptxpack_detail(NULL));
        _exit(3);
    }
    return live = handle;
}

/* Checks in a child, which ends with the condition that did not hold. */
#define MUST(condition)                                                                      \
    do {                                                                                     \
        if (!(condition)) {                                                                  \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, last_line()); \
            _exit(1);                                                                        \
        }                                                                                    \
    } while (0)

static uint64_t allocate(const struct ptxpack_driver *d, size_t bytes, const void *from)
{
    ptxpack_deviceptr p = 0;
    MUST(d->cuMemAlloc(&p, bytes) == 0);
    MUST(from == NULL ? d->cuMemsetD8(p, 0, bytes) == 0 : d->cuMemcpyHtoD(p, from, bytes) == 0);
    return p;
}

enum { ROWS = 40, KEYS = 70, DIM = 64 };

static void run_attention(ptxpack *handle, ptxpack_attention_desc desc)
{
    const struct ptxpack_driver *d = ptxpack_driver_table(handle);
    static uint16_t              q[ROWS * DIM], k[KEYS * DIM], v[KEYS * DIM], o[ROWS * DIM];
    static double                wanted_o[ROWS * DIM];
    ptxpack_attention_plan      *plan;
    for (int i = 0; i < KEYS * DIM; i++) {
        if (i < ROWS * DIM)
            q[i] = ptxpack_from_float(desc.dtype, sinf((float)i));
        k[i] = ptxpack_from_float(desc.dtype, cosf(1.7f * (float)i));
        v[i] = ptxpack_from_float(desc.dtype, sinf(0.3f * (float)i));
    }
    if (ptxpack_attention_plan_create(handle, &desc, &plan) != PTXPACK_OK) {
        fprintf(stderr, "%s\n", ptxpack_detail(handle));
        _exit(2);
    }
    const ptxpack_kernel_info *info = ptxpack_kernel_describe(ptxpack_attention_kernel(plan));
    MUST(info->from_cache && info->from_prebuilt);
    MUST(info->expand_ms == 0 && info->compile_ms == 0);
    MUST(d->cuCtxSetCurrent(ptxpack_context(handle)) == 0);
    ptxpack_attention_buffers b = {.size = sizeof b,
                                   .q = allocate(d, sizeof q, q),
                                   .k = allocate(d, sizeof k, k),
                                   .v = allocate(d, sizeof v, v),
                                   .o = allocate(d, sizeof o, NULL)};
    b.workspace = allocate(d, ptxpack_attention_workspace(plan) + 16, NULL);
    MUST(ptxpack_attention_launch(plan, &b, NULL) == PTXPACK_OK);
    MUST(d->cuCtxSynchronize() == 0);
    MUST(d->cuMemcpyDtoH(o, b.o, sizeof o) == 0);
    MUST(ptxpack_attention_reference(&desc, q, k, v, NULL, wanted_o, NULL) == PTXPACK_OK);
    for (int i = 0; i < ROWS * DIM; i++)
        MUST(fabs((double)ptxpack_to_float(desc.dtype, o[i]) - wanted_o[i]) < 0.03);
    ptxpack_attention_plan_free(plan);
}

static const ptxpack_attention_desc problem = {.size = sizeof problem,
                                               .batch = 1,
                                               .seqlen_q = ROWS,
                                               .seqlen_kv = KEYS,
                                               .heads_q = 1,
                                               .heads_kv = 1,
                                               .head_dim = DIM};

/* Makes plans and launches of every kind; what is not in the folder is refused with a clear message. */
static int live_without_compiler(void)
{
    ptxpack                *handle = open_shipped(NULL, true);
    ptxpack_vector_plan    *vector;
    ptxpack_attention_plan *plan = NULL;
    for (unsigned i = 0; i < 2 * 4 * 2; i++) {
        static const ptxpack_mask masks[] = {PTXPACK_MASK_NONE, PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT,
                                             PTXPACK_MASK_WINDOW_TOP_LEFT, PTXPACK_MASK_WINDOW_TOP_LEFT};
        ptxpack_attention_desc    desc = problem;
        desc.dtype = i % 2 != 0 ? PTXPACK_BF16 : PTXPACK_F16;
        desc.mask = masks[i / 2 % 4];
        desc.window_left = i / 2 % 4 >= 2 ? 9 : 0;
        desc.window_right = i / 2 % 4 == 3 ? -1 : 0;
        desc.softcap = i / 8 != 0 ? 5 : 0;
        run_attention(handle, desc);
    }
    MUST(ptxpack_vector_plan_create(handle, PTXPACK_BF16, &vector) == PTXPACK_OK);
    ptxpack_vector_plan_free(vector);
    ptxpack_attention_desc other = problem;
    other.dtype = PTXPACK_F16;
    other.head_dim = 256;
    MUST(ptxpack_attention_plan_create(handle, &other, &plan) == PTXPACK_E_FORBIDDEN && plan == NULL);
    MUST(strstr(ptxpack_detail(handle), "compiling is forbidden (PTXPACK_FORBID_COMPILE)") != NULL);
    MUST(strstr(ptxpack_detail(handle), scratch_path("ship")) != NULL);
    MUST(compiled == 0);
    ptxpack_close(handle);
    return 0;
}

/* Runs `body` in a separate process, on an emulated device of that architecture; the driver is initialised only
 * once. */
static int on_device(const char *sm, int (*body)(void))
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("PTXPACK_EMU_SM", sm, 1);
        _exit(body());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void no_compiler(void **state)
{
    (void)state;
    /* on sm_90 the model takes a row of d128 for a problem as small as this */
    must_warm(emulated, "--arch sm_80,sm_90a --kernels 'vector_add,attention/d64*,attention/d128*'");
    assert_int_equal(on_device("80", live_without_compiler), 0);
    assert_int_equal(on_device("90", live_without_compiler), 0);
    assert_int_not_equal(on_device("86", live_without_compiler), 0); /* the folder is not for that device */
}

static const char *damaged; /* an entry's file */

static int refuse_damage(void)
{
    ptxpack_vector_plan *plan;
    ptxpack             *handle = open_shipped(NULL, true);
    MUST(ptxpack_vector_plan_create(handle, PTXPACK_F16, &plan) == PTXPACK_OK);
    ptxpack_vector_plan_free(plan);
    MUST(ptxpack_vector_plan_create(handle, PTXPACK_BF16, &plan) == PTXPACK_E_PREBUILT);
    MUST(strstr(ptxpack_detail(handle), damaged) != NULL);
    MUST(strstr(ptxpack_detail(handle), "compiling is forbidden") != NULL);
    ptxpack_close(handle);
    return 0;
}

static int compile_over_damage(void)
{
    ptxpack_cache_stats  stats = {.size = sizeof stats};
    ptxpack_vector_plan *plan;
    ptxpack             *handle = open_shipped(emulated, false);
    MUST(ptxpack_vector_plan_create(handle, PTXPACK_BF16, &plan) == PTXPACK_OK && compiled == 1);
    MUST(!ptxpack_kernel_describe(ptxpack_vector_kernel(plan))->from_cache);
    ptxpack_cache_get_stats(ptxpack_cache_of(handle), &stats);
    MUST(stats.corrupt == 1);
    ptxpack_vector_plan_free(plan);
    ptxpack_close(handle);
    return 0;
}

/* The entry that the first process left in its own cache is used, also without a compiler. */
static int take_own_instead(void)
{
    ptxpack_vector_plan *plan;
    ptxpack             *handle = open_shipped(emulated, true);
    MUST(ptxpack_vector_plan_create(handle, PTXPACK_BF16, &plan) == PTXPACK_OK && compiled == 0);
    MUST(!ptxpack_kernel_describe(ptxpack_vector_kernel(plan))->from_prebuilt);
    ptxpack_vector_plan_free(plan);
    ptxpack_close(handle);
    return 0;
}

static void a_damaged_entry(void **state)
{
    (void)state;
    must_warm(emulated, "--arch sm_80 --kernels vector_add");
    damage(damaged = entry_with("/bf16 "));
    assert_int_equal(on_device("80", refuse_damage), 0);
    assert_int_equal(on_device("80", compile_over_damage), 0);
    assert_int_equal(on_device("80", take_own_instead), 0);
}

/* ---- another compiler --------------------------------------------------------------------------- */
static int refuse_machine_code(void)
{
    ptxpack_vector_plan *plan;
    ptxpack             *handle = open_shipped(NULL, true);
    MUST(ptxpack_vector_plan_create(handle, PTXPACK_F16, &plan) == PTXPACK_E_CUBIN);
    MUST(strstr(ptxpack_detail(handle), "its code in a prebuilt folder was refused: ") != NULL);
    MUST(strstr(ptxpack_detail(handle), "compiling is forbidden") != NULL);
    ptxpack_close(handle);
    handle = open_shipped(emulated, false); /* with a compiler this does no harm */
    MUST(ptxpack_vector_plan_create(handle, PTXPACK_F16, &plan) == PTXPACK_OK && compiled == 1);
    ptxpack_vector_plan_free(plan);
    ptxpack_close(handle);
    return 0;
}

/* The folder is found with every compiler here: the fake compiler's code is found, which no driver loads. */
static int find_whatever_compiles(void)
{
    ptxpack            *handle;
    ptxpack_kernel_info info;
    void               *code = NULL;
    size_t              bytes = 0;
    ptxpack_options     options = {.size = sizeof options,
                                   .offline = true,
                                   .arch = "sm_80",
                                   .ptxjit = emulated,
                                   .readonly_dirs = scratch_path("ship"),
                                   .cache_dir = scratch_path("empty")};
    MUST(ptxpack_open(&options, &handle) == PTXPACK_OK);
    const ptxpack_variant *row = ptxpack_variant_find("vector_add_sm80");
    ptxpack_instance       build = ptxpack_instance_get(row, 0);
    const size_t           count = build.symbol_count;
    MUST(ptxpack_kernel_compile(handle, row, build.symbols, count, &info, &code, &bytes) == PTXPACK_OK);
    MUST(info.from_prebuilt && info.from_cache);
    MUST(memcmp(code, "compiled ", 9) == 0);
    free(code);
    ptxpack_close(handle);
    options.line_info = true; /* another text: with lines */
    MUST(ptxpack_open(&options, &handle) == PTXPACK_OK);
    MUST(ptxpack_kernel_compile(handle, row, build.symbols, count, &info, NULL, NULL) == PTXPACK_OK);
    MUST(!info.from_prebuilt);
    ptxpack_close(handle);
    return 0;
}

static void another_compiler(void **state)
{
    (void)state;
    must_warm(fake, "--arch sm_80 --kernels vector_add");
    assert_int_equal(on_device("80", find_whatever_compiles), 0);
    assert_int_equal(on_device("80", refuse_machine_code), 0);
}

/* If a named folder is wrong, there is no handle. */
static void a_wrong_folder(void **state)
{
    ptxpack        *handle;
    ptxpack_options options = {.size = sizeof options, .offline = true, .arch = "sm_80", .ptxjit = emulated};
    (void)state;
    must_warm(emulated, "--arch sm_80 --kernels vector_add");
    damage(scratch_path("ship/manifest"));
    options.readonly_dirs = scratch_path("ship");
    assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_E_PREBUILT);
    assert_non_null(strstr(ptxpack_detail(NULL), "ship/manifest: line "));
    setenv("PTXPACK_CACHE_READONLY_DIRS", scratch_path("nowhere"), 1);
    options.readonly_dirs = NULL;
    assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_E_PREBUILT);
    assert_non_null(strstr(ptxpack_detail(NULL), "nowhere: No such file or directory"));
    options.readonly_dirs = "";
    assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_OK);
    ptxpack_close(handle);
    unsetenv("PTXPACK_CACHE_READONLY_DIRS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns),
        cmocka_unit_test_setup(no_compiler, begin),
        cmocka_unit_test_setup(a_damaged_entry, begin),
        cmocka_unit_test_setup(another_compiler, begin),
        /* these load the emulated driver into this process: from here on there is no device of another kind */
        cmocka_unit_test_setup(a_wrong_folder, begin),
    };
    return cmocka_run_group_tests_name("warm", tests, prepare, scratch_close);
}
