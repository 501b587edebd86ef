/* nvrtc_answers.c - CUDA C++ programs: how NVRTC's answers are used, refusals, threads and processes; with a
 * fake NVRTC, and at the end with the real one, if it is installed. */
#include "nvrtc_fixture.h"

/* ---- what is asked for, and how the answer is used ------------------------------------------------ */

static ptxpack *open_online(const char *cuda)
{
    ptxpack_options options = {.size = sizeof options};
    setenv("FAKE_CUDA", cuda, 1);
    if (compiler == NULL)
        compiler = fresh_copy("fake_ptxjit.so");
    options.driver = driver = fresh_copy("fake_driver.so");
    options.ptxjit = compiler;
    ptxpack *handle = open_with(&options);
    return handle;
}

/* Such a program is not shared either: an #include that we do not see may have changed since it was
 * loaded. */
TEST(test_unknown_is_not_shared)
{
    ptxpack_source   s = source_of("#define H \"a.h\"\n#include H\n");
    ptxpack_program *first, *second;
    ptxpack         *handle = open_online("");
    assert_int_equal(ptxpack_program_load(handle, &s, &first), PTXPACK_OK);
    assert_int_equal(ptxpack_program_load(handle, &s, &second), PTXPACK_OK);
    assert_int_equal(seen()->compilations, 2);
    ptxpack_program_free(first);
    ptxpack_program_free(second);
    ptxpack_close(handle);
}

TEST(test_machine_code)
{
    static const char *const expressions[] = {"scale<float>"};
    ptxpack_source           s = source_of("int x;\n");
    ptxpack_program         *program;
    const ptxpack_function  *function;
    ptxpack                 *handle = open_online("");
    s.expressions = expressions;
    s.expression_count = 1;
    assert_int_equal(ptxpack_program_load(handle, &s, &program), PTXPACK_OK);
    assert_has(seen()->options, "--gpu-architecture=sm_90a\n");
    assert_string_equal(record_of(driver)->image, "made 1 sm_90a");
    const ptxpack_program_info *info = ptxpack_program_describe(program);
    assert_string_equal(info->target, "sm_90a");
    assert_string_equal(info->compiler, "NVRTC 13.0");
    assert_has(info->log, "Used 44 registers");
    assert_true(!info->from_cache && info->compile_ms == 0);
    assert_int_equal(compilations(), 0);
    assert_int_equal(ptxpack_program_function(program, "test", &function), PTXPACK_OK);
    const ptxpack_resources *r = &ptxpack_function_describe(function)->resources;
    assert_int_equal(r->registers, 44);
    assert_int_equal(r->spill_store_bytes, 4);
    assert_int_equal(ptxpack_program_function(program, "scale<float>", &function), PTXPACK_OK);
    assert_string_equal(ptxpack_function_describe(function)->name, "_Zlowered0");
    assert_int_equal(ptxpack_function_describe(function)->resources.spill_store_bytes, -1); /* unknown */
    assert_int_equal(ptxpack_program_function(program, "scale<int>", &function), PTXPACK_E_ARG);
    assert_has(ptxpack_detail(handle), "k.cu has no entry \"scale<int>\"; it has test, scale<float>");
    assert_null(function);
    ptxpack_program_free(program);
    ptxpack_close(handle);
    assert_int_equal(record_of(driver)->libraries, 0);
}

/* If NVRTC's machine code cannot be used, its PTX is compiled like all PTX. */
TEST(test_ptx_instead)
{
    static const struct {
        const char *cuda, *words, *library, *arch, *option, *target;
    } cases[] = {
        {"version=12080", "", "fake_nvrtc.so", "", "--gpu-architecture=compute_90a\n", "sm_90a"},
        {"", "", "fake_nvrtc_old.so", "", "--gpu-architecture=compute_90a\n", "sm_90a"},
        {"", "archs=80", "fake_nvrtc.so", "", "--gpu-architecture=compute_80\n", "sm_90"},
        {"", "archs=80", "fake_nvrtc.so", "sm_80", "--gpu-architecture=compute_80\n", "sm_90"},
        {"", "no-version", "fake_nvrtc.so", "", "--gpu-architecture=compute_90a\n", "sm_90a"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ptxpack_source   s = source_of("int x;\n");
        ptxpack_program *program;
        char             wanted[64];
        reset(NULL);
        setenv("FAKE_NVRTC", cases[i].words, 1);
        setenv("PTXPACK_NVRTC", nvrtc = fresh_copy(cases[i].library), 1);
        setenv("PTXPACK_ARCH", cases[i].arch, 1);
        compiler = NULL;
        ptxpack *handle = open_online(cases[i].cuda);
        if (ptxpack_program_load(handle, &s, &program) != PTXPACK_OK)
            fail_msg("%zu: %s", i, ptxpack_detail(handle));
        assert_has(seen()->options, cases[i].option);
        snprintf(wanted, sizeof wanted, "compiled 1 --gpu-name=%s", cases[i].target);
        assert_string_equal(record_of(driver)->image, wanted);
        const ptxpack_program_info *info = ptxpack_program_describe(program);
        assert_string_equal(info->target, cases[i].target);
        assert_has(info->compiler, ", nvPTXCompiler 13.0");
        assert_has(info->log, "Used 33 registers"); /* the log has both compilers */
        assert_has(info->log, "Used 44 registers");
        ptxpack_program_free(program);
        ptxpack_close(handle);
    }
    unsetenv("PTXPACK_ARCH");
}

/* If the driver refuses machine code, PTX is used, and from then on it is used at once. */
TEST(test_refused)
{
    static const char *const images[] = {"compiled 1 --gpu-name=sm_90a", "compiled 1 --gpu-name=sm_90a"};
    ptxpack_source           s = source_of("int x;\n");
    for (int i = 0; i < 2; i++) {
        ptxpack_program *program;
        ptxpack         *handle = open_online(i ? "" : "load=209 load-times=1");
        assert_int_equal(ptxpack_program_load(handle, &s, &program), PTXPACK_OK);
        assert_string_equal(record_of(driver)->image, images[i]);
        assert_int_equal(ptxpack_program_describe(program)->from_cache, i);
        assert_int_equal(seen()->compilations, 2);
        assert_int_equal(compilations(), 1);
        ptxpack_program_free(program);
        ptxpack_close(handle);
    }
    ptxpack_program *program; /* a driver that refuses everything is an error */
    ptxpack         *handle = open_online("load=209");
    assert_int_equal(ptxpack_program_load(handle, &s, &program), PTXPACK_E_CUBIN);
    assert_null(program);
    assert_has(ptxpack_detail(handle), "loading ");
    ptxpack_close(handle);
}

/* The driver refuses the cached machine code of NVRTC's PTX: it is compiled again from the PTX. */
TEST(test_refused_of_ptx)
{
    ptxpack_source   s = source_of("int x;\n");
    ptxpack_program *program;
    for (int i = 0; i < 2; i++) {
        ptxpack *handle = open_online(i ? "version=12080 load=209 load-times=1" : "version=12080");
        assert_int_equal(ptxpack_program_load(handle, &s, &program), PTXPACK_OK);
        assert_string_equal(record_of(driver)->image,
                            i ? "compiled 2 --gpu-name=sm_90a" : "compiled 1 --gpu-name=sm_90a");
        assert_string_equal(ptxpack_program_describe(program)->target, "sm_90a");
        assert_int_equal(seen()->compilations, 1);
        ptxpack_program_free(program);
        ptxpack_close(handle);
    }
}

TEST(test_ptx_on_request)
{
    ptxpack_source s = source_of("int x;\n");
    char          *text, here[512];
    size_t         bytes;
    assert_false(build_for("sm_90a", &s)); /* machine code of the same source has another key */
    ptxpack *handle = open_offline("sm_90a", false);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ptxpack_program_ptx(handle, &s, &text, &bytes), PTXPACK_OK);
        assert_int_equal(strlen(text), bytes);
        assert_has(text, ".target sm_90a\n");
        assert_has(text, "\t.file\t1 \"k.cu\"\n"); /* not the current folder */
        assert_null(strstr(text, getcwd(here, sizeof here)));
        free(text);
    }
    assert_int_equal(seen()->compilations, 2);
    ptxpack_close(handle);
}

/* ---- refusals ------------------------------------------------------------------------------------- */

TEST(test_errors)
{
    ptxpack_source s = source_of("int x;\n");
    char          *log = NULL;
    setenv("FAKE_NVRTC", "error", 1);
    expect_failure(
        &s, PTXPACK_E_COMPILE,
        "k.cu for sm_90a, NVRTC 13.0: lib/twice.h:12: error: identifier \"q\" is undefined (and 1 more)");
    setenv("FAKE_NVRTC", "silent", 1);
    expect_failure(&s, PTXPACK_E_COMPILE, "NVRTC 13.0: NVRTC_ERROR_COMPILATION");
    setenv("FAKE_NVRTC", "ptxas", 1); /* it names the lines of the PTX */
    expect_failure(&s, PTXPACK_E_COMPILE, "k.cu for sm_90a, NVRTC 13.0: k.cu:5: Unknown symbol '%zz'");
    setenv("FAKE_NVRTC", "error", 1);
    ptxpack *handle = open_offline("sm_90a", false);
    assert_int_equal(ptxpack_program_compile(handle, &s, NULL, &log, NULL, NULL), PTXPACK_E_COMPILE);
    assert_has(log, "k.cu(7): error: another one\n"); /* the whole line */
    assert_has(log, "2 errors detected");
    free(log);
    ptxpack_close(handle);
    setenv("FAKE_NVRTC", "", 1); /* a failure is not remembered */
    assert_false(build_for("sm_90a", &s));
}

/* When a compiler refuses a line of NVRTC's PTX, the error names the line of the source. */
TEST(test_error_of_the_assembler)
{
    ptxpack_source   s = source_of("int x;\n");
    ptxpack_program *program;
    setenv("FAKE_PTXJIT", "line=9", 1);
    ptxpack *handle = open_online("version=12080");
    assert_int_equal(ptxpack_program_load(handle, &s, &program), PTXPACK_E_COMPILE);
    assert_has(ptxpack_detail(handle), "k.cu for sm_90a, nvPTXCompiler 13.0: k.cu:5: Unknown symbol '%zz'");
    ptxpack_close(handle);
    setenv("FAKE_PTXJIT", "isa=65", 1);
    handle = open_online("version=12080");
    assert_int_equal(ptxpack_program_load(handle, &s, &program), PTXPACK_E_ISA);
    assert_has(ptxpack_detail(handle),
               "k.cu needs PTX ISA 7.0 (CUDA 11.0, driver branch 445), nvPTXCompiler 13.0 takes up to 6.5");
    ptxpack_close(handle);
}

TEST(test_options_that_cannot_be)
{
    static const char *const words[] = {"-arch=sm_80", "--gpu-architecture=compute_80",
                                        "-dc",         "-rdc=true",
                                        "-dlto",       "--optix-ir"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        ptxpack_source s = source_of("int x;\n");
        s.options = &words[i];
        s.option_count = 1;
        expect_failure(&s, PTXPACK_E_ARG, words[i]);
    }
    static const char *const apart[] = {"-rdc", "true"};
    ptxpack_source           s = source_of("int x;\n");
    s.options = apart;
    s.option_count = 2;
    expect_failure(&s, PTXPACK_E_ARG, "-rdc: it does not make a whole program");
}

TEST(test_forbidden)
{
    ptxpack_source s = source_of("int x;\n");
    setenv("PTXPACK_FORBID_COMPILE", "1", 1);
    expect_failure(&s, PTXPACK_E_FORBIDDEN, "k.cu for sm_90a: there is no usable machine code in the cache");
    unsetenv("PTXPACK_FORBID_COMPILE");
    assert_false(build_for("sm_90a", &s));
    setenv("PTXPACK_FORBID_COMPILE", "1", 1);
    assert_true(build_for("sm_90a", &s));
}

/* ---- threads and processes ------------------------------------------------------------------------ */

enum { THREADS = 8 };
struct asker {
    pthread_t      thread;
    ptxpack       *handle;
    ptxpack_status status;
};

static void *ask(void *context)
{
    struct asker  *a = (struct asker *)context;
    ptxpack_source s = {.size = sizeof s,
                        .language = PTXPACK_LANGUAGE_CUDA,
                        .path = "k.cu",
                        .text = "int x;\n"};
    a->status = ptxpack_program_compile(a->handle, &s, NULL, NULL, NULL, NULL);
    return NULL;
}

TEST(test_threads)
{
    struct asker askers[THREADS] = {0};
    ptxpack     *handle = open_offline("sm_90a", true);
    setenv("FAKE_NVRTC", "ms=100", 1);
    for (int i = 0; i < THREADS; i++) {
        askers[i].handle = handle;
        assert_int_equal(pthread_create(&askers[i].thread, NULL, ask, &askers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(askers[i].thread, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(askers[i].status, PTXPACK_OK);
    assert_int_equal(seen()->compilations, 1);
    ptxpack_close(handle);
}

/* A child that is forked while NVRTC compiles can use NVRTC. */
TEST(test_fork)
{
    struct asker a = {0};
    int          status = -1;
    setenv("FAKE_NVRTC", "ms=400", 1);
    a.handle = open_offline("sm_90a", true);
    assert_int_equal(pthread_create(&a.thread, NULL, ask, &a), 0);
    usleep(150000);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct asker own = {.status = PTXPACK_E_MEMORY};
        alarm(10); /* the test ends instead of waiting for ever */
        ask(&a);
        bool refused = a.status == PTXPACK_E_FORKED;
        own.handle = open_offline("sm_90a", true);
        ask(&own);
        _exit(refused && own.status == PTXPACK_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(pthread_join(a.thread, NULL), 0);
    assert_int_equal(a.status, PTXPACK_OK);
    ptxpack_close(a.handle);
}

/* ---- the real one --------------------------------------------------------------------------------- */

static const char kernels[] =
    "#include \"lib/asm.h\"\n"
    "template <class T> __global__ void scale(T *p, T by) { p[threadIdx.x] *= by; }\n"
    "extern \"C\" __global__ void twice(float *p) { p[threadIdx.x] = doubled(p[threadIdx.x]); }\n";

/* Opens an offline handle without a fake compiler; skips the test if there is no NVRTC. */
static ptxpack *open_real(void)
{
    struct ptxpack_nvrtc_place place;
    char                       why[512];
    ptxpack_options options = {.size = sizeof options, .offline = true, .arch = "sm_90a", .ptxjit = "none"};
    unsetenv("PTXPACK_NVRTC");
    if (!ptxpack_nvrtc_find(&place, why, sizeof why)) {
        print_message("SKIP: %s\n", why);
        skip();
    }
    write_text(below("lib/asm.h"), "__device__ inline float doubled(float x)\n{\n"
                                   "    asm(\"add.f32 %0, %0, %0;\" : \"+f\"(x));\n    return x;\n}\n");
    ptxpack *handle = open_with(&options);
    return handle;
}

TEST(test_real)
{
    static const char *const expressions[] = {"scale<float>", "scale<double>"};
    ptxpack                 *handle = open_real();
    ptxpack_source           s = source_of(kernels);
    s.expressions = expressions;
    s.expression_count = 2;
    for (int i = 0; i < 2; i++) {
        ptxpack_program_info info;
        void                *cubin;
        size_t               bytes;
        char                *log;
        ptxpack_status       status = ptxpack_program_compile(handle, &s, &info, &log, &cubin, &bytes);
        if (status != PTXPACK_OK)
            fail_msg("%s", ptxpack_detail(handle));
        assert_true(bytes > 64 && memcmp(cubin,
                                         "\x7f"
                                         "ELF",
                                         4) == 0);
        assert_int_equal(info.from_cache, i);
        if (!i)
            assert_has(log, "_Z5scaleIdEvPT_S0_");
        print_message("%s: %.1f ms, cache %.2f ms\n", info.compiler, info.front_ms, info.cache_ms);
        free(cubin);
        free(log);
    }
    ptxpack_close(handle);
}

TEST(test_real_errors)
{
    static const struct {
        const char *text, *header, *line;
    } cases[] = {
        {"#include \"lib/asm.h\"\n__global__ void k(float *p) { *p = q; }\n", "\n",
         "k.cu:2: error: identifier \"q\""},
        {"#include \"lib/asm.h\"\n", "\n__device__ int f() {\n return q; }\n",
         "lib/asm.h:3: error: identifier \"q\""},
        {"#include \"lib/asm.h\"\n\n__global__ void k(float *p) {\n    f(p);\n}\n",
         "__device__ inline void f(float *p) {\n  asm(\"no.such.instruction;\");\n}\n", "k.cu:4 (in "},
        {"__global__ void k(float *p) {\n  asm(\"no.such.instruction;\");\n}\n", "\n", "k.cu:2: "},
        {"#include <no_such_header.h>\n", "\n", "(neither beside the source nor in an include folder)"},
        {"__device__ int x;\n", "\n", "k.cu has no entry: no __global__ function"},
    };
    ptxpack *handle = open_real();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ptxpack_source s = source_of(cases[i].text);
        write_text(below("lib/asm.h"), cases[i].header);
        assert_int_equal(ptxpack_program_compile(handle, &s, NULL, NULL, NULL, NULL), PTXPACK_E_COMPILE);
        assert_has(ptxpack_detail(handle), cases[i].line);
    }
    ptxpack_close(handle);
}

/* The PTX of the real NVRTC runs on the emulated driver. */
TEST(test_real_run)
{
    static const char *const expressions[] = {"scale<float>"};
    static const uint32_t    one[] = {1, 1, 1}, block[] = {32, 1, 1};
    char                     program_path[600];
    ptxpack_close(open_real());
    ptxpack_source          s = source_of(kernels);
    ptxpack_program        *program;
    const ptxpack_function *twice, *scale;
    float                   values[32], by = 3;
    ptxpack_deviceptr       at;
    ssize_t                 n = readlink("/proc/self/exe", program_path, 500);
    assert_true(n > 0);
    strcpy(strstr(program_path, "/tests/"), "/libptxpack-emu.so");
    ptxpack_options options = {.size = sizeof options, .driver = program_path, .ptxjit = program_path};
    ptxpack        *handle = open_with(&options);
    s.expressions = expressions;
    s.expression_count = 1;
    if (ptxpack_program_load(handle, &s, &program) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(handle));
    assert_int_equal(ptxpack_program_function(program, "twice", &twice), PTXPACK_OK);
    assert_int_equal(ptxpack_program_function(program, "scale<float>", &scale), PTXPACK_OK);
    const struct ptxpack_driver *cuda = ptxpack_driver_table(handle);
    for (int i = 0; i < 32; i++)
        values[i] = (float)i;
    assert_int_equal(cuda->cuCtxSetCurrent(ptxpack_context(handle)), 0);
    assert_int_equal(cuda->cuMemAlloc(&at, sizeof values), 0);
    assert_int_equal(cuda->cuMemcpyHtoD(at, values, sizeof values), 0);
    void *arguments[] = {&at, &by};
    assert_int_equal(ptxpack_function_launch(twice, one, block, 0, arguments, NULL), PTXPACK_OK);
    assert_int_equal(ptxpack_function_launch(scale, one, block, 0, arguments, NULL), PTXPACK_OK);
    assert_int_equal(cuda->cuCtxSynchronize(), 0);
    assert_int_equal(cuda->cuMemcpyDtoH(values, at, sizeof values), 0);
    for (int i = 0; i < 32; i++)
        assert_true(values[i] == (float)(6 * i));
    assert_int_equal(cuda->cuCtxSetCurrent(NULL), 0);
    ptxpack_program_free(program);
    ptxpack_close(handle);
}

RUN_TESTS(make_folder, remove_folder)
