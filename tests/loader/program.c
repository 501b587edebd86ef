/* program.c - a caller's own PTX on the emulated driver: files and symbols, entries, errors with their lines,
 * the cache, launches. */
#include "loader_fixture.h"
#include <pthread.h>
#include "loader/build/notes.h"
#include "loader/build/program.h"

#define BEFORE_EACH reset_program
#define AFTER_EACH  NULL

static char              emulator[600];
static const char *const no_dirs[] = {NULL};

/* A handle on the emulated driver as PTXPACK_EMU_SM=`sm` makes it. */
static ptxpack *open_emulated(void)
{
    ptxpack_options options = {.size = sizeof options, .driver = emulator, .ptxjit = emulator};
    ptxpack        *handle = open_with(&options);
    assert_int_equal(ptxpack_driver_table(handle)->cuCtxSetCurrent(ptxpack_context(handle)), 0);
    return handle;
}

/* The primary context ends with the handle: no thread may keep it as the current one. */
static void close_handle(ptxpack *handle)
{
    if (ptxpack_driver_table(handle) != NULL)
        assert_int_equal(ptxpack_driver_table(handle)->cuCtxSetCurrent(NULL), 0);
    ptxpack_close(handle);
}

static int reset_program(void **state)
{
    ssize_t n = readlink("/proc/self/exe", emulator, 500);
    setenv("PTXPACK_EMU_SM", "90", 1);
    assert_true(n > 0);
    strcpy(strstr(emulator, "/tests/"), "/libptxpack-emu.so");
    mkdir(below("src"), 0700);
    mkdir(below("dir"), 0700);
    mkdir(below("ptx/atom"), 0700);
    write_text(below("ptx/atom/head.ptx"),
               ".version \\[ISA/10].\\[ISA%10]\n.target sm_\\[ARCH]\n.address_size 64\n");
    return reset(state);
}

/* p[i] = FACTOR * p[i] + i: "scale"; p[i] = i: "count".  Line 5 is in STEP. */
static const char           program_text[] = ".include \"atom/head.ptx\"\n"
                                             ".include \"step.ptx\"\n"
                                             ".visible .entry scale(.param .u64 p)\n{\n"
                                             "        STEP FACTOR\n"
                                             "        st.global.u32 [%p], %v;\n        ret;\n}\n"
                                             ".visible .entry count(.param .u64 p)\n{\n"
                                             "        STEP 0\n"
                                             "        st.global.u32 [%p], %v;\n        ret;\n}\n";
static const char           step_text[] = ".macro STEP factor\n"
                                          "        .reg .u64 %p, %o;\n"
                                          "        .reg .u32 %i, %v;\n"
                                          "        ld.param.u64 %p, [p];\n"
                                          "        mov.u32 %i, %tid.x;\n"
                                          "        mul.wide.u32 %o, %i, 4;\n"
                                          "        add.u64 %p, %p, %o;\n"
                                          "        ld.global.u32 %v, [%p];\n"
                                          "        mad.lo.u32 %v, %v, \\[\\factor], %i;\n"
                                          ".endm\n";
static const ptxpack_symbol factor[] = {{"FACTOR", 5}};

/* src/k.ptx with its step.ptx beside it. */
static ptxpack_source source_of(const char *text)
{
    static char path[256];
    write_text(below("src/k.ptx"), text);
    write_text(below("src/step.ptx"), step_text);
    snprintf(path, sizeof path, "%s", below("src/k.ptx"));
    ptxpack_source s = {.size = sizeof s,
                        .path = path,
                        .symbols = factor,
                        .symbol_count = 1,
                        .include_dirs = no_dirs};
    return s;
}

static ptxpack_program *load(ptxpack *handle, const ptxpack_source *s)
{
    ptxpack_program *program;
    if (ptxpack_program_load(handle, s, &program) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(handle));
    return program;
}

static const ptxpack_function *function_of(ptxpack_program *program, const char *name)
{
    const ptxpack_function *function;
    assert_int_equal(ptxpack_program_function(program, name, &function), PTXPACK_OK);
    return function;
}

static void expect_failure(const ptxpack_source *s, ptxpack_status status, const char *part)
{
    ptxpack         *handle = open_emulated();
    ptxpack_program *program = (ptxpack_program *)handle;
    ptxpack_status   got = ptxpack_program_load(handle, s, &program);
    if (got != status || strstr(ptxpack_detail(handle), part) == NULL)
        fail_msg("%s, not %s with \"%s\": %s", ptxpack_status_name(got), ptxpack_status_name(status), part,
                 ptxpack_detail(handle));
    assert_null(program);
    close_handle(handle);
}

/* Runs `name` on 32 words that start as 7; returns element 31 afterwards. */
static uint32_t run(ptxpack *handle, ptxpack_program *program, const char *name)
{
    static const uint32_t        grid[] = {1, 1, 1}, block[] = {32, 1, 1};
    const struct ptxpack_driver *cuda = ptxpack_driver_table(handle);
    uint32_t                     values[32];
    ptxpack_deviceptr            at;
    void                        *arguments[] = {&at};
    assert_int_equal(cuda->cuMemAlloc(&at, sizeof values), 0);
    assert_int_equal(cuda->cuMemsetD32(at, 7, 32), 0);
    if (ptxpack_function_launch(function_of(program, name), grid, block, 0, arguments, NULL) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(handle));
    assert_int_equal(cuda->cuCtxSynchronize(), 0);
    assert_int_equal(cuda->cuMemcpyDtoH(values, at, sizeof values), 0);
    assert_int_equal(cuda->cuMemFree(at), 0);
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(values[i], values[0] + i);
    return values[31];
}

/* ---- running -------------------------------------------------------------------------------------- */

TEST(test_entries)
{
    ptxpack                    *handle = open_emulated();
    ptxpack_source              s = source_of(program_text);
    ptxpack_program            *program = load(handle, &s);
    const ptxpack_program_info *info = ptxpack_program_describe(program);
    const ptxpack_function     *function;
    assert_int_equal(run(handle, program, "scale"), 5 * 7 + 31);
    assert_int_equal(run(handle, program, "count"), 31);
    assert_ptr_equal(function_of(program, "scale"), function_of(program, "scale"));
    const ptxpack_function_info *scale = ptxpack_function_describe(function_of(program, "scale"));
    assert_string_equal(scale->name, "scale");
    assert_true(scale->registers > 0 && scale->resources.registers > 0);
    assert_int_equal(scale->max_threads, 1024);
    assert_int_equal(scale->resources.spill_store_bytes, 0);
    assert_non_null(ptxpack_function_handle(function_of(program, "scale")));
    assert_int_equal(ptxpack_program_function(program, "scales", &function), PTXPACK_E_ARG);
    assert_has(ptxpack_detail(handle), "k.ptx has no entry \"scales\"; it has scale, count");
    assert_null(function);
    assert_int_equal(ptxpack_program_function(program, NULL, &function), PTXPACK_E_ARG);
    assert_has(ptxpack_detail(handle), "k.ptx has 2 entries: name one of scale, count");
    assert_string_equal(info->target, "sm_90");
    assert_string_equal(info->compiler, "the emulated driver's assembler");
    assert_has(info->log, "count");
    assert_true(info->cubin_bytes > 0 && !info->from_cache && info->compile_ms > 0);
    ptxpack_program_free(program);
    close_handle(handle);
}

/* The only entry needs no name; text in memory needs no file, nor a NUL byte behind it. */
TEST(test_text)
{
    static const char text[] = ".version 7.0\n.target sm_80\n.visible .entry only()\n{\n ret;\n}\nnot PTX";
    ptxpack          *handle = open_emulated();
    ptxpack_source    s = {.size = sizeof s, .text = text, .bytes = sizeof text - 1 - strlen("not PTX")};
    ptxpack_program  *program = load(handle, &s);
    assert_string_equal(ptxpack_function_describe(function_of(program, NULL))->name, "only");
    ptxpack_program_free(program);
    s.path = below("src/nowhere.ptx"); /* its name, and the folder of its includes */
    s.text = ".include \"step.ptx\"\n.error \"here\"\n";
    s.bytes = 0;
    write_text(below("src/step.ptx"), step_text);
    assert_int_equal(ptxpack_program_load(handle, &s, &program), PTXPACK_E_EXPAND);
    assert_has(ptxpack_detail(handle), "src/nowhere.ptx:2: here");
    close_handle(handle);
}

static const char shared_text[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".extern .shared .align 16 .b8 dynamic[];\n"
    ".visible .entry reach(.param .u64 p, .param .u32 offset)\n{\n"
    "        .reg .u64 %p;\n        .reg .u32 %o, %a, %v;\n        .shared .align 4 .b8 fixed[1024];\n"
    "        ld.param.u64 %p, [p];\n        ld.param.u32 %o, [offset];\n"
    "        mov.u32 %a, dynamic;\n        add.u32 %a, %a, %o;\n"
    "        st.shared.u32 [fixed], %o;\n        st.shared.u32 [%a], 99;\n"
    "        ld.shared.u32 %v, [%a];\n        st.global.u32 [%p], %v;\n        ret;\n}\n";

TEST(test_dynamic_shared)
{
    static const uint32_t        one[] = {1, 1, 1}, zero[] = {1, 0, 1};
    ptxpack                     *handle = open_emulated();
    const struct ptxpack_driver *cuda = ptxpack_driver_table(handle);
    ptxpack_source               s = source_of(shared_text);
    ptxpack_program             *program = load(handle, &s);
    const ptxpack_function      *f = function_of(program, NULL);
    uint32_t                     offset = 150000, value = 0;
    ptxpack_deviceptr            at;
    void                        *arguments[] = {&at, &offset};
    assert_int_equal(ptxpack_function_describe(f)->shared_bytes, 1024);
    assert_int_equal(cuda->cuMemAlloc(&at, sizeof value), 0);
    assert_int_equal(ptxpack_function_launch(f, one, one, 200000, arguments, NULL), PTXPACK_OK);
    assert_int_equal(cuda->cuCtxSynchronize(), 0);
    assert_int_equal(cuda->cuMemcpyDtoH(&value, at, sizeof value), 0);
    assert_int_equal(value, 99);
    size_t most = (size_t)ptxpack_device(handle)->caps.shared_per_block - 1024;
    assert_int_equal(ptxpack_function_launch(f, one, one, most, arguments, NULL), PTXPACK_OK);
    assert_int_equal(ptxpack_function_launch(f, one, one, most + 16, arguments, NULL), PTXPACK_E_LAUNCH);
    assert_has(ptxpack_detail(handle), "cuLaunchKernel of reach, grid 1 x 1 x 1, block 1 x 1 x 1, ");
    assert_int_equal(ptxpack_function_launch(f, one, one, (size_t)1 << 40, arguments, NULL), PTXPACK_E_LAUNCH);
    assert_int_equal(ptxpack_function_launch(f, zero, one, 0, arguments, NULL), PTXPACK_E_ARG);
    assert_has(ptxpack_detail(handle), "launch of reach: grid[1] is 0");
    assert_int_equal(ptxpack_function_launch(f, one, zero, 0, arguments, NULL), PTXPACK_E_ARG);
    assert_has(ptxpack_detail(handle), "launch of reach: block[1] is 0");
    ptxpack_program_free(program);
    close_handle(handle);
}

/* ---- where files are found ------------------------------------------------------------------------ */

TEST(test_search)
{
    static const char text[] = ".include \"atom/head.ptx\"\n.include \"who.ptx\"\n"
                               ".visible .entry who_\\[WHO]()\n{\n ret;\n}\n";
    ptxpack          *handle = open_emulated();
    const char       *dirs[] = {below("no-such-folder"), below("dir")};
    ptxpack_source    s = source_of(text);
    s.include_dirs = dirs;
    s.include_count = 2;
    for (int i = 0; i < 3; i++) { /* each hides the one before */
        static const char *const folders[] = {"ptx/who.ptx", "dir/who.ptx", "src/who.ptx"};
        char                     line[32], name[32];
        snprintf(line, sizeof line, "WHO = %d\n", i);
        snprintf(name, sizeof name, "who_%d", i);
        write_text(below(folders[i]), line);
        ptxpack_program *program = load(handle, &s);
        assert_string_equal(ptxpack_function_describe(function_of(program, NULL))->name, name);
        ptxpack_program_free(program);
    }
    close_handle(handle);
}

/* Line information names files where they are, those of the pack below ptx/. */
TEST(test_line_info)
{
    ptxpack_source s = source_of(program_text);
    char          *text, wanted[300];
    setenv("PTXPACK_LINE_INFO", "1", 1);
    ptxpack *handle = open_emulated();
    assert_int_equal(ptxpack_program_ptx(handle, &s, &text, NULL), PTXPACK_OK);
    unsetenv("PTXPACK_LINE_INFO");
    snprintf(wanted, sizeof wanted, ".file 1 \"%s\"\n", below("src/step.ptx"));
    assert_has(text, wanted);
    snprintf(wanted, sizeof wanted, ".file 2 \"%s\"\n", below("src/k.ptx"));
    assert_has(text, wanted);
    assert_has(text, ".version 9.0\n.target sm_90\n");
    free(text);
    close_handle(handle);
}

/* ---- the target ----------------------------------------------------------------------------------- */

static void expect_target(const char *arch, const char *named, ptxpack_status status, const char *answer)
{
    char                 text[256];
    ptxpack_program_info info;
    ptxpack_options      options = {.size = sizeof options, .offline = true, .arch = arch, .ptxjit = emulator};
    ptxpack             *handle = open_with(&options);
    snprintf(text, sizeof text,
             "// .target sm_10\n.version 8.0\n.target %s\n.visible .entry k()\n{\n ret;\n}\n", named);
    ptxpack_source s = source_of(text);
    assert_int_equal(ptxpack_program_compile(handle, &s, &info, NULL, NULL, NULL), status);
    if (status == PTXPACK_OK)
        assert_string_equal(info.target, answer);
    else
        assert_has(ptxpack_detail(handle), answer);
    close_handle(handle);
}

TEST(test_targets)
{
    expect_target("sm_90a", "sm_80", PTXPACK_OK, "sm_90a");
    expect_target("sm_90a", "sm_90a, texmode_independent", PTXPACK_OK, "sm_90a");
    expect_target("sm_90", "sm_90a", PTXPACK_E_UNSUPPORTED, "k.ptx needs exactly sm_90a, the target is sm_90");
    expect_target("sm_100", "sm_90a", PTXPACK_E_UNSUPPORTED, "needs exactly sm_90a, the target is sm_100");
    expect_target("sm_80", "sm_90", PTXPACK_E_UNSUPPORTED, "k.ptx needs sm_90, the target is sm_80");
    ptxpack         *handle = open_emulated(); /* a device also has its exact target */
    ptxpack_source   s = source_of(".version 8.0\n.target sm_90a\n.visible .entry k()\n{\n ret;\n}\n");
    ptxpack_program *program = load(handle, &s);
    assert_string_equal(ptxpack_program_describe(program)->target, "sm_90a");
    ptxpack_program_free(program);
    close_handle(handle);
}

/* ---- refusals ------------------------------------------------------------------------------------- */

TEST(test_errors)
{
    ptxpack_source s = source_of(program_text);
    s.symbol_count = 0;
    expect_failure(&s, PTXPACK_E_EXPAND, "src/k.ptx:5: unknown symbol FACTOR");
    s.symbol_count = 1;
    write_text(below("src/step.ptx"), ".macro STEP factor\n        .reg .u32 %v;\n        .reg .u64 %p;\n"
                                      "        mov.u32 %v, %unknown;\n.endm\n");
    expect_failure(&s, PTXPACK_E_COMPILE, "src/k.ptx:5 (in macro STEP, step.ptx:4): ");
    unlink(below("src/step.ptx"));
    expect_failure(&s, PTXPACK_E_EXPAND, "src/k.ptx:2: there is no file \"step.ptx\"");
    unlink(below("src/k.ptx"));
    expect_failure(&s, PTXPACK_E_IO, "src/k.ptx: No such file");
    s.path = below("src");
    expect_failure(&s, PTXPACK_E_IO, "src: ");
    s = source_of(".version 8.0\n.target sm_90\n// .visible .entry k()\n.global .b32 x;\n");
    expect_failure(&s, PTXPACK_E_COMPILE, "k.ptx has no entry");
    s = source_of(".version 99.0\n.target sm_90\n.visible .entry k()\n{\n ret;\n}\n");
    expect_failure(&s, PTXPACK_E_ISA, "k.ptx needs PTX ISA 99.0");
}

TEST(test_arguments)
{
    static const char *const word[] = {"--fast"}, *const empty[] = {""};
    static const ptxpack_symbol bad[] = {{"1st", 0}};
    ptxpack_source              good = source_of(program_text), s;
    s = good, s.size = 3;
    expect_failure(&s, PTXPACK_E_ARG, "source.size is 3");
    s = good, s.size = 4096;
    expect_failure(&s, PTXPACK_E_ARG, "source.size is 4096");
    s = good, s.path = NULL;
    expect_failure(&s, PTXPACK_E_ARG, "source: neither path nor text");
    s = good, s.options = word, s.option_count = 1;
    expect_failure(&s, PTXPACK_E_ARG, "source.options: only CUDA C++ takes them");
    s = good, s.expressions = word, s.expression_count = 1;
    expect_failure(&s, PTXPACK_E_ARG, "source.expressions: only CUDA C++ takes them");
    s = good, s.include_dirs = empty, s.include_count = 1;
    expect_failure(&s, PTXPACK_E_ARG, "source.include_dirs[0] is empty");
    s = good, s.include_dirs = NULL, s.include_count = 1;
    expect_failure(&s, PTXPACK_E_ARG, "source.include_dirs is NULL, but its count is 1");
    s = good, s.symbols = bad;
    expect_failure(&s, PTXPACK_E_ARG, "source.symbols[0]: \"1st\" is not a symbol name");
    s = good, s.language = (ptxpack_language)2;
    expect_failure(&s, PTXPACK_E_ARG, "source.language is 2");
    ptxpack_program *program;
    ptxpack_options  options = {.size = sizeof options, .offline = true, .arch = "sm_90", .ptxjit = emulator};
    ptxpack         *handle = open_with(&options);
    assert_int_equal(ptxpack_program_load(handle, &good, &program), PTXPACK_E_ARG);
    assert_has(ptxpack_detail(handle), "offline");
    close_handle(handle);
}

/* A caller of an earlier version has a shorter struct. */
TEST(test_shorter_source)
{
    ptxpack       *handle = open_emulated();
    ptxpack_source s = source_of(".version 8.0\n.target sm_90\n.visible .entry k()\n{\n ret;\n}\n");
    s.size = offsetof(ptxpack_source, options);
    s.option_count = 77; /* behind its end */
    ptxpack_program_free(load(handle, &s));
    close_handle(handle);
}

/* The whole log is there after a failure, too. */
TEST(test_log)
{
    ptxpack             *handle = open_emulated();
    ptxpack_source       s = source_of(".version 8.0\n.target sm_90\n.visible .entry k()\n{\n first;\n}\n");
    ptxpack_program_info info;
    char                *log = NULL;
    void                *cubin = handle;
    size_t               bytes = 1;
    assert_int_equal(ptxpack_program_compile(handle, &s, &info, &log, &cubin, &bytes), PTXPACK_E_COMPILE);
    assert_has(log, "line 5");
    assert_ptr_equal(info.log, log);
    assert_null(cubin);
    assert_int_equal(bytes, 0);
    free(log);
    s = source_of(program_text);
    assert_int_equal(ptxpack_program_compile(handle, &s, &info, &log, &cubin, &bytes), PTXPACK_OK);
    assert_has(log, "Compiling entry function 'scale'");
    assert_ptr_equal(info.log, log);
    assert_int_equal(info.cubin_bytes, bytes);
    free(cubin);
    free(log);
    close_handle(handle);
}

/* ---- the cache ------------------------------------------------------------------------------------ */

/* Loads on a new handle; returns whether the program came from the cache. */
static bool cached(const ptxpack_source *s)
{
    ptxpack                    *handle = open_emulated();
    ptxpack_program            *program = load(handle, s);
    const ptxpack_program_info *info = ptxpack_program_describe(program);
    bool                        from_cache = info->from_cache;
    assert_int_equal(*info->log == '\0', from_cache);
    assert_true(!from_cache || info->compile_ms == 0);
    assert_int_equal(run(handle, program, "count"), 31); /* entries and all notes are there again */
    assert_int_equal(ptxpack_function_describe(function_of(program, "count"))->resources.spill_load_bytes, 0);
    ptxpack_program_free(program);
    close_handle(handle);
    return from_cache;
}

TEST(test_cache)
{
    static const ptxpack_symbol other[] = {{"FACTOR", 6}};
    ptxpack_source              s = source_of(program_text);
    char                        step[sizeof step_text + 64];
    assert_false(cached(&s));
    assert_true(cached(&s));
    s.symbols = other;
    assert_false(cached(&s));
    s.symbols = factor;
    snprintf(step, sizeof step, "%.*s        add.u32 %%v, %%v, 0;\n.endm\n",
             (int)(sizeof step_text - 1 - strlen(".endm\n")), step_text);
    write_text(below("src/step.ptx"), step); /* an included file */
    assert_false(cached(&s));
    assert_true(cached(&s));
    write_text(below("src/step.ptx"), step_text);
    assert_true(cached(&s));
    setenv("PTXPACK_FORBID_COMPILE", "1", 1);
    assert_true(cached(&s));
    s.symbols = (const ptxpack_symbol[]){{"FACTOR", 9}};
    expect_failure(&s, PTXPACK_E_FORBIDDEN, "k.ptx for sm_90: there is no usable machine code in the cache");
}

static ptxpack_cache_step remove_entry(const ptxpack_cache_info *info, void *user)
{
    (void)info, (void)user;
    return PTXPACK_CACHE_REMOVE;
}

TEST(test_cache_removed)
{
    ptxpack_source s = source_of(program_text);
    ptxpack       *handle = open_emulated();
    assert_false(cached(&s));
    assert_true(ptxpack_cache_each(ptxpack_cache_of(handle), false, remove_entry, NULL));
    close_handle(handle);
    assert_false(cached(&s));
}

/* The notes beside the machine code are read exactly as they were written; any other text is refused. */
TEST_WITH(test_notes, NULL, NULL)
{
    static const char    log[] = "ptxas info    : Compiling entry function 'b' for 'sm_90'\n"
                                 "    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads\n"
                                 "ptxas info    : Used 21 registers\n";
    struct ptxpack_notes notes = {.nvrtc = 13000, .is_ptx = true}, again;
    char                *text, *damaged;
    size_t               bytes;
    assert_true(ptxpack_notes_add_entries(&notes,
                                          "// .entry no\n.entry\n a();\n\"\\\".entry no\" /* .entry no */\n"
                                          ".visible .entry b() {}\n.entry a() {}\n.entrys no",
                                          log));
    assert_true(ptxpack_notes_add_name(&notes, "_Z1bv"));
    assert_true(ptxpack_notes_write(&notes, &text, &bytes));
    ptxpack_notes_free(&notes);
    assert_true(ptxpack_notes_read(text, bytes, &again));
    assert_int_equal(again.entry_count, 2);
    assert_string_equal(again.entries[0].name, "a");
    assert_int_equal(again.entries[0].resources.spill_store_bytes, -1);
    assert_string_equal(again.entries[1].name, "b");
    assert_int_equal(again.entries[1].resources.registers, 21);
    assert_int_equal(again.entries[1].resources.spill_load_bytes, 4);
    assert_int_equal(again.name_count, 1);
    assert_string_equal(again.names[0], "_Z1bv");
    assert_true(again.nvrtc == 13000 && again.is_ptx);
    ptxpack_notes_free(&again);
    damaged = (char *)malloc(bytes + 1);
    assert_non_null(damaged);
    for (size_t i = 0; i < bytes; i++) {
        memcpy(damaged, text, bytes + 1);
        assert_false(ptxpack_notes_good(damaged, i)); /* cut off */
        damaged[i] = '\0';
        assert_false(ptxpack_notes_good(damaged, bytes));
        damaged[i] = '\n';
        assert_true(text[i] == '\n' || !ptxpack_notes_good(damaged, bytes));
    }
    memcpy(damaged, text, bytes);
    damaged[bytes] = 'x';
    assert_false(ptxpack_notes_good(damaged, bytes + 1));
    free(damaged);
    free(text);
}

/* ---- threads -------------------------------------------------------------------------------------- */

enum { THREADS = 8 };
struct worker {
    pthread_t      thread;
    ptxpack       *handle;
    ptxpack_source source;
    bool           good;
};
static unsigned compilations;

static void count_compilation(void *context, const char *kernel, const char *target, double ms)
{
    (void)kernel, (void)target, (void)ms;
    __atomic_add_fetch((unsigned *)context, 1, __ATOMIC_RELAXED);
}

static void *work(void *context)
{
    static const uint32_t        one[] = {1, 1, 1};
    struct worker               *w = (struct worker *)context;
    const struct ptxpack_driver *cuda = ptxpack_driver_table(w->handle);
    ptxpack_program             *program;
    const ptxpack_function      *f;
    ptxpack_deviceptr            at = 0;
    uint32_t                     value = 0;
    void                        *arguments[] = {&at};
    w->good = ptxpack_program_load(w->handle, &w->source, &program) == PTXPACK_OK &&
              ptxpack_program_function(program, "scale", &f) == PTXPACK_OK &&
              cuda->cuCtxSetCurrent(ptxpack_context(w->handle)) == 0 && cuda->cuMemAlloc(&at, 4) == 0 &&
              cuda->cuMemsetD32(at, 2, 1) == 0 &&
              ptxpack_function_launch(f, one, one, 0, arguments, NULL) == PTXPACK_OK &&
              cuda->cuCtxSynchronize() == 0 && cuda->cuMemcpyDtoH(&value, at, 4) == 0 && value == 10;
    ptxpack_program_free(program);
    return NULL;
}

TEST(test_threads)
{
    struct worker   workers[THREADS];
    ptxpack_options options = {.size = sizeof options,
                               .driver = emulator,
                               .ptxjit = emulator,
                               .on_compile = count_compilation,
                               .on_compile_context = &compilations};
    ptxpack        *handle = open_with(&options);
    for (int i = 0; i < THREADS; i++) {
        workers[i].handle = handle;
        workers[i].source = source_of(program_text);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        assert_true(workers[i].good);
    assert_int_equal(compilations, 1);
    close_handle(handle);
}

/* ---- drivers without a compiler beside them ------------------------------------------------------- */

/* The driver's own JIT gets the text of the whole program; its answers name the source's lines. */
TEST(test_driver_compiles)
{
    ptxpack_source   s = source_of(program_text);
    ptxpack         *handle;
    ptxpack_program *program;
    ptxpack_options  options = {.size = sizeof options, .driver = emulator, .ptxjit = "none"};
    for (int i = 0; i < 2; i++) {
        handle = open_with(&options);
        assert_int_equal(ptxpack_driver_table(handle)->cuCtxSetCurrent(ptxpack_context(handle)), 0);
        if (i) {
            write_text(below("src/step.ptx"), ".macro STEP f\n        no.such %r0;\n.endm\n");
            assert_int_equal(ptxpack_program_load(handle, &s, &program), PTXPACK_E_COMPILE);
            assert_has(ptxpack_detail(handle), "src/k.ptx:5 (in macro STEP, step.ptx:2): ");
        } else {
            program = load(handle, &s);
            assert_string_equal(ptxpack_program_describe(program)->compiler, "the driver's JIT");
            assert_has(ptxpack_program_describe(program)->log, "Compiling entry function 'scale'");
            assert_int_equal(ptxpack_program_describe(program)->cubin_bytes, 0);
            assert_int_equal(run(handle, program, "scale"), 5 * 7 + 31);
            assert_int_equal(
                ptxpack_function_describe(function_of(program, "scale"))->resources.spill_load_bytes, 0);
            ptxpack_program_free(program);
        }
        close_handle(handle);
    }
}

RUN_TESTS(make_folder, remove_folder)
