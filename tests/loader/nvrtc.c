/* nvrtc.c - CUDA C++ programs: how NVRTC is found and asked, what belongs to a key, what its answers
 * become; through a fake NVRTC, and in the end with the real one, where there is one. */
#include "jit_fixture.h"
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include "tests/fake/nvrtc.h"
#include "loader/compile/nvrtc.h"
#include "loader/build/program.h"

#define BEFORE_EACH reset_nvrtc
#define AFTER_EACH  NULL

static const char *nvrtc, *driver; /* this case's copies */

static int reset_nvrtc(void **state)
{
    static const char *const variables[] = {"CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV",
                                            "FAKE_NVRTC"};
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        unsetenv(variables[i]);
    nvrtc = fresh_copy("fake_nvrtc.so");
    driver = NULL;
    setenv("PTXPACK_NVRTC", nvrtc, 1);
    mkdir(below("ptx/inline"), 0700);
    write_text(below("ptx/inline/tiny.h"), "#include \"types.h\"\nint tiny;\n");
    write_text(below("ptx/inline/types.h"), "int types;\n");
    mkdir(below("lib"), 0700);
    return reset_compiler(state);
}

static struct fake_nvrtc *seen(void) { return (struct fake_nvrtc *)library_symbol(nvrtc, "fake_nvrtc"); }

static ptxpack_source source_of(const char *text)
{
    static char path[256];
    snprintf(path, sizeof path, "%s", below("k.cu"));
    ptxpack_source s = {.size = sizeof s, .language = PTXPACK_LANGUAGE_CUDA, .path = path, .text = text};
    return s;
}

/* Compile on an offline handle; whether it came from the cache. */
static bool build(ptxpack *handle, const ptxpack_source *source, char *cubin, size_t cap)
{
    ptxpack_program_info info;
    void                *made = NULL;
    size_t               bytes = 0;
    if (ptxpack_program_compile(handle, source, &info, NULL, &made, &bytes) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(handle));
    assert_int_equal(info.cubin_bytes, bytes);
    if (cubin != NULL)
        snprintf(cubin, cap, "%.*s", (int)bytes, (char *)made);
    free(made);
    return info.from_cache;
}

/* The same on a new offline handle, as another process would have. */
static bool build_for(const char *arch, const ptxpack_source *source)
{
    ptxpack *handle = open_offline(arch, false);
    bool     cached = build(handle, source, NULL, 0);
    ptxpack_close(handle);
    return cached;
}

static void expect_failure(const ptxpack_source *source, ptxpack_status status, const char *part)
{
    ptxpack       *handle = open_offline("sm_90a", false);
    void          *cubin = &handle;
    char          *log = NULL;
    ptxpack_status got = ptxpack_program_compile(handle, source, NULL, &log, &cubin, NULL);
    if (got != status || strstr(ptxpack_detail(handle), part) == NULL)
        fail_msg("%s, not %s with \"%s\": %s", ptxpack_status_name(got), ptxpack_status_name(status), part,
                 ptxpack_detail(handle));
    assert_null(cubin);
    assert_non_null(log);
    free(log);
    ptxpack_close(handle);
}

/* ---- finding it ----------------------------------------------------------------------------------- */

static void expect_found(const char *path)
{
    struct ptxpack_nvrtc_place place;
    char                       why[512];
    assert_true(ptxpack_nvrtc_find(&place, why, sizeof why));
    assert_string_equal(place.path, path);
    assert_has(place.identity, "content ");
}

static void copy_to(const char *folder_name, const char *name)
{
    char command[800];
    snprintf(command, sizeof command, "mkdir -p '%s' && cp '%s' '%s/%s'", below(folder_name), nvrtc,
             below(folder_name), name);
    assert_int_equal(system(command), 0);
}

TEST(test_places)
{
    expect_found(nvrtc);
    unsetenv("PTXPACK_NVRTC");
    copy_to("venv/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib", "libnvrtc.so.12");
    copy_to("linker", "libnvrtc.so.12");
    copy_to("toolkit/lib64", "libnvrtc.so.12");
    copy_to("toolkit/lib64", "libnvrtc.so.13");
    setenv("VIRTUAL_ENV", below("venv"), 1);
    if (access("/usr/local/cuda/lib64/libnvrtc.so", R_OK) != 0) /* which comes first */
        expect_found(below("venv/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12"));
    setenv("LD_LIBRARY_PATH", below("linker"), 1);
    expect_found(below("linker/libnvrtc.so.12"));
    setenv("CUDA_HOME", below("toolkit"), 1);
    expect_found(below("toolkit/lib64/libnvrtc.so.13"));
}

TEST(test_absent)
{
    ptxpack_source s = source_of("int x;\n");
    setenv("PTXPACK_NVRTC", "none", 1);
    expect_failure(&s, PTXPACK_E_NO_NVRTC, "PTXPACK_NVRTC=none gives none");
    setenv("PTXPACK_NVRTC", below("no-such.so"), 1);
    expect_failure(&s, PTXPACK_E_NO_NVRTC, "no-such.so gives none");
    setenv("PTXPACK_NVRTC", fresh_copy("fake_ptxjit.so"), 1);
    expect_failure(&s, PTXPACK_E_NO_NVRTC, "does not export nvrtcGetErrorString");
    setenv("PTXPACK_NVRTC", fresh_copy("fake_nvrtc_broken.so"), 1);
    expect_failure(&s, PTXPACK_E_NO_NVRTC, "does not export nvrtcAddNameExpression");
    write_text(below("text.so"), "no library");
    setenv("PTXPACK_NVRTC", below("text.so"), 1);
    expect_failure(&s, PTXPACK_E_NO_NVRTC, "text.so");
    assert_int_equal(mkfifo(below("pipe.so"), 0600), 0); /* which the linker would wait for */
    setenv("PTXPACK_NVRTC", below("pipe.so"), 1);
    expect_failure(&s, PTXPACK_E_NO_NVRTC, "pipe.so gives none");
}

/* For a program in the cache NVRTC is not loaded, but the same NVRTC must exist. */
TEST(test_cached_without_loading)
{
    ptxpack_source s = source_of("int x;\n");
    assert_false(build_for("sm_90a", &s));
    setenv("PTXPACK_NVRTC", nvrtc = fresh_copy("fake_nvrtc.so"), 1);
    assert_true(build_for("sm_90a", &s));
    assert_null(dlopen(nvrtc, RTLD_NOW | RTLD_NOLOAD));
}

/* ---- what belongs to a key ------------------------------------------------------------------------ */

TEST(test_key)
{
    static const ptxpack_symbol symbols[] = {{"N", 1}, {"N", 2}};
    static const char *const options[] = {"--use_fast_math"}, *const expressions[] = {"scale<float>"};
    ptxpack_source s = source_of("#include \"a.h\"\nint x;\n");
    write_text(below("a.h"), "#include \"b.h\"\n");
    write_text(below("b.h"), "int b;\n");
    assert_false(build_for("sm_90a", &s));
    assert_true(build_for("sm_90a", &s));
    write_text(below("b.h"), "int c;\n"); /* two files away */
    assert_false(build_for("sm_90a", &s));
    s.text = "#include \"a.h\"\nint y;\n";
    assert_false(build_for("sm_90a", &s));
    assert_false(build_for("sm_90", &s));
    for (int i = 0; i < 2; i++) {
        s.symbols = &symbols[i];
        s.symbol_count = 1;
        assert_false(build_for("sm_90a", &s));
    }
    assert_has(seen()->options, "-DN=2\n");
    s.options = options;
    s.option_count = 1;
    assert_false(build_for("sm_90a", &s));
    assert_has(seen()->options, "--use_fast_math\n");
    s.expressions = expressions;
    s.expression_count = 1;
    assert_false(build_for("sm_90a", &s));
    assert_true(build_for("sm_90a", &s));
    assert_int_equal(seen()->compilations, 8);
    setenv("PTXPACK_LINE_INFO", "1", 1);
    assert_false(build_for("sm_90a", &s));
    unsetenv("PTXPACK_LINE_INFO");
    FILE *file = fopen(nvrtc = fresh_copy("fake_nvrtc.so"), "a"); /* another build of NVRTC */
    assert_non_null(file);
    fputs("x", file);
    fclose(file);
    setenv("PTXPACK_NVRTC", nvrtc, 1);
    assert_false(build_for("sm_90a", &s));
}

static void expect_never_cached(const ptxpack_source *s)
{
    unsigned before = seen()->compilations;
    assert_false(build_for("sm_90a", s));
    assert_false(build_for("sm_90a", s));
    assert_int_equal(seen()->compilations, before + 2);
}

/* A symbol may be called as another field of the key is. */
TEST(test_key_names)
{
    static const char *const options[] = {"-Dabc=12"};
    ptxpack_symbol           symbol = {"option", 0};
    ptxpack_source           s = source_of("int x;\n");
    memcpy(&symbol.value, options[0], sizeof symbol.value);
    s.options = options;
    s.option_count = 1;
    assert_false(build_for("sm_90a", &s));
    s.option_count = 0;
    s.symbols = &symbol;
    s.symbol_count = 1;
    assert_false(build_for("sm_90a", &s));
}

/* What cannot be known is not kept. */
TEST(test_poisoned)
{
    static const char *const options[][2] = {{"--pre-include=x.h", NULL},
                                             {"-Xptxas", "-optf=words"},
                                             {"--ptxas-options=--options-file=words", NULL}};
    static const char *const texts[] = {
        "#define H \"a.h\"\n#include H\n",
        "#define H \"a.h\"\n#if __has_include(H)\nint y;\n#endif\n",
        "#inc\\\nlude \"a.h\"\n",
        "?\?=include \"a.h\"\n",
    };
    ptxpack_source s;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        s = source_of(texts[i]);
        expect_never_cached(&s);
    }
    assert_has(seen()->options, "--include-path="); /* so that NVRTC may find it */
    s = source_of("int x;\n");
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        s.options = options[i];
        s.option_count = options[i][1] != NULL ? 2 : 1;
        expect_never_cached(&s);
    }
    s.option_count = 0;
    setenv("FAKE_NVRTC", "no-version", 1);
    setenv("PTXPACK_NVRTC", nvrtc = fresh_copy("fake_nvrtc.so"), 1); /* a library tells its version once */
    expect_never_cached(&s);
}

/* ---- headers -------------------------------------------------------------------------------------- */

TEST(test_headers)
{
    static const char text[] = "// #include \"comment.h\"\n"
                               "/* \n#include \"a.h\"\n*/ #  include /* here */ \"a.h\" // so\n"
                               "const char *s = R\"x(\n#include \"a.h\"\n)x\"; char q = '\"'; int n = 1'000;\n"
                               "const char *t = FOR\"(\";\n"
                               "#include <ptxpack/inline/tiny.h>\n"
                               "#if __has_include(<asked.h>) && 0\n#include \"missing.h\"\n#endif\n"
                               "#include \"lib/../a.h\"\n#include <a.h>\n";
    ptxpack_source    s = source_of(text);
    const char       *dirs[] = {below("lib")};
    char              wanted[1024];
    s.include_dirs = dirs;
    s.include_count = 1;
    write_text(below("a.h"), "#include \"same.h\"\n");
    write_text(below("same.h"), "int outer;\n");
    write_text(below("lib/a.h"), "#include \"same.h\"\n");
    write_text(below("lib/same.h"), "int inner;\n");
    write_text(below("lib/asked.h"), "int asked;\n");
    assert_false(build_for("sm_90a", &s));
    snprintf(wanted, sizeof wanted,
             "// #include \"comment.h\"\n"
             "/* \n#include \"a.h\"\n*/ #  include /* here */ \"%s/a.h\" // so\n"
             "const char *s = R\"x(\n#include \"a.h\"\n)x\"; char q = '\"'; int n = 1'000;\n"
             "const char *t = FOR\"(\";\n"
             "#include \"ptxpack/inline/tiny.h\"\n"
             "#if __has_include(<asked.h>) && 0\n#include \"missing.h\"\n#endif\n"
             "#include \"%s/a.h\"\n#include \"%s/lib/a.h\"\n",
             folder, folder, folder);
    assert_string_equal(seen()->text, wanted);
    snprintf(wanted, sizeof wanted,
             "%s/a.h:\n#include \"%s/same.h\"\n"
             "ptxpack/inline/tiny.h:\n#include \"ptxpack/inline/types.h\"\nint tiny;\n"
             "%s/lib/asked.h:\nint asked;\n"
             "%s/lib/a.h:\n#include \"%s/lib/same.h\"\n"
             "%s/same.h:\nint outer;\n"
             "ptxpack/inline/types.h:\nint types;\n"
             "%s/lib/same.h:\nint inner;\n",
             folder, folder, folder, folder, folder, folder, folder);
    assert_string_equal(seen()->headers, wanted);
}

/* Other spellings of a directive, and text that is not a directive. */
TEST(test_spellings)
{
    static const char *const texts[] = {"%:include \"a.h\"\n", "\\\n#include \"a.h\"\n",
                                        "#\\\r\n include \"a.h\"\r\n", "#include \\\n <a.h>\n"};
    write_text(below("a.h"), "int a;\n");
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        ptxpack_source s = source_of(texts[i]);
        const char    *dirs[] = {below("")};
        s.include_dirs = dirs;
        s.include_count = 1;
        assert_false(build_for("sm_90a", &s));
        assert_has(seen()->headers, "a.h:\nint a;\n");
        assert_true(build_for("sm_90a", &s));
    }
    ptxpack_source s = source_of("#ifdef __has_include\n#define HAS(x) __has_include(x)\n#endif\n");
    assert_false(build_for("sm_90a", &s));
    assert_true(build_for("sm_90a", &s));
}

/* NVRTC must not read by itself what we cannot: the key would not have it, and a pipe has no end. */
TEST(test_unreadable_headers)
{
    ptxpack_source s = source_of("#include \"pipe.h\"\n#include \"nul.h\"\n#include \"folder.h\"\n");
    const char    *dirs[] = {below("lib")};
    s.include_dirs = dirs;
    s.include_count = 1;
    assert_int_equal(mkfifo(below("pipe.h"), 0600), 0);
    assert_int_equal(mkdir(below("folder.h"), 0700), 0);
    write_text(below("lib/folder.h"), "int after;\n");
    FILE *file = fopen(below("nul.h"), "w");
    assert_non_null(file);
    assert_int_equal(fwrite("int\0x;", 1, 6, file), 6);
    fclose(file);
    assert_false(build_for("sm_90a", &s));
    assert_has(seen()->headers, "pipe.h cannot be read: not a file, or too large\n");
    assert_has(seen()->headers, "#error there is a NUL byte in ");
    assert_has(seen()->headers, "lib/folder.h:\nint after;\n");
    s.text = NULL;
    s.path = below("pipe.h");
    expect_failure(&s, PTXPACK_E_IO, "pipe.h: not a file, or too large");
}

/* A source that includes itself is a header, too. */
TEST(test_itself)
{
    static const char text[] = "#ifndef AGAIN\n#define AGAIN\n#include \"k.cu\"\n#endif\n";
    ptxpack_source    s = source_of(NULL);
    char              wanted[512];
    write_text(s.path, text);
    assert_false(build_for("sm_90a", &s));
    snprintf(wanted, sizeof wanted, "%s:\n#ifndef AGAIN\n#define AGAIN\n#include \"%s\"\n#endif\n", s.path,
             s.path);
    assert_string_equal(seen()->headers, wanted);
}

/* A folder among the options is searched like those of include_dirs. */
TEST(test_option_folders)
{
    const char *spellings[][2] = {{"--include-path=%s", NULL}, {"-I%s", NULL}, {"-I", "%s"}};
    write_text(below("lib/only.h"), "int only;\n");
    for (size_t i = 0; i < 3; i++) {
        char           first[300], second[300];
        const char    *options[] = {first, second};
        ptxpack_source s = source_of("#include <only.h>\n");
        snprintf(first, sizeof first,
                 spellings[i][1] != NULL ? "-I"
                 : i                     ? "-I%s"
                                         : "--include-path=%s",
                 below("lib"));
        snprintf(second, sizeof second, "%s", below("lib"));
        s.options = options;
        s.option_count = spellings[i][1] != NULL ? 2 : 1;
        assert_false(build_for("sm_90a", &s));
        assert_has(seen()->headers, "lib/only.h:\nint only;\n");
        if (spellings[i][1] == NULL && i == 1) /* after our own, in the order in which we search */
            assert_true(strstr(seen()->options, first) > strstr(seen()->options, "--include-path="));
    }
}

/* ---- what is asked for, and what becomes of the answer -------------------------------------------- */

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
    assert_int_equal(ptxpack_function_describe(function)->resources.spill_store_bytes, -1); /* it did not say */
    assert_int_equal(ptxpack_program_function(program, "scale<int>", &function), PTXPACK_E_ARG);
    assert_has(ptxpack_detail(handle), "k.cu has no entry \"scale<int>\"; it has test, scale<float>");
    assert_null(function);
    ptxpack_program_free(program);
    ptxpack_close(handle);
    assert_int_equal(record_of(driver)->libraries, 0);
}

/* Where NVRTC's machine code cannot be used, its PTX is compiled like all PTX. */
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
        assert_has(info->log, "Used 33 registers"); /* of both compilers */
        assert_has(info->log, "Used 44 registers");
        ptxpack_program_free(program);
        ptxpack_close(handle);
    }
    unsetenv("PTXPACK_ARCH");
}

/* The driver refuses machine code: PTX, and from then on at once. */
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
    assert_false(build_for("sm_90a", &s)); /* machine code of the same source is another thing */
    ptxpack *handle = open_offline("sm_90a", false);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ptxpack_program_ptx(handle, &s, &text, &bytes), PTXPACK_OK);
        assert_int_equal(strlen(text), bytes);
        assert_has(text, ".target sm_90a\n");
        assert_has(text, "\t.file\t1 \"k.cu\"\n"); /* not the folder that we are in */
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
    setenv("FAKE_NVRTC", "ptxas", 1); /* named by the lines of the PTX */
    expect_failure(&s, PTXPACK_E_COMPILE, "k.cu for sm_90a, NVRTC 13.0: k.cu:5: Unknown symbol '%zz'");
    setenv("FAKE_NVRTC", "error", 1);
    ptxpack *handle = open_offline("sm_90a", false);
    assert_int_equal(ptxpack_program_compile(handle, &s, NULL, &log, NULL, NULL), PTXPACK_E_COMPILE);
    assert_has(log, "k.cu(7): error: another one\n"); /* whole */
    assert_has(log, "2 errors detected");
    free(log);
    ptxpack_close(handle);
    setenv("FAKE_NVRTC", "", 1); /* a failure is not remembered */
    assert_false(build_for("sm_90a", &s));
}

/* A line of NVRTC's PTX that its compiler refuses is named by the source. */
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
        alarm(10); /* instead of hanging */
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

/* An offline handle without a fake compiler; skips where there is no NVRTC. */
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

/* ... and its PTX on the emulated driver. */
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
