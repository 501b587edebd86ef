/* nvrtc.c - CUDA C++ programs: how NVRTC is found and called, what belongs to a key, and the headers that a
 * source includes; through a fake NVRTC. */
#include "nvrtc_fixture.h"

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
    if (access("/usr/local/cuda/lib64/libnvrtc.so", R_OK) != 0) /* this place comes first */
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
    expect_failure(&s, PTXPACK_E_NO_NVRTC, "PTXPACK_NVRTC=none names no usable library");
    setenv("PTXPACK_NVRTC", below("no-such.so"), 1);
    expect_failure(&s, PTXPACK_E_NO_NVRTC, "no-such.so names no usable library");
    setenv("PTXPACK_NVRTC", fresh_copy("fake_ptxjit.so"), 1);
    expect_failure(&s, PTXPACK_E_NO_NVRTC, "does not export nvrtcGetErrorString");
    setenv("PTXPACK_NVRTC", fresh_copy("fake_nvrtc_broken.so"), 1);
    expect_failure(&s, PTXPACK_E_NO_NVRTC, "does not export nvrtcAddNameExpression");
    write_text(below("text.so"), "no library");
    setenv("PTXPACK_NVRTC", below("text.so"), 1);
    expect_failure(&s, PTXPACK_E_NO_NVRTC, "text.so");
    assert_int_equal(mkfifo(below("pipe.so"), 0600), 0); /* the linker would wait for it */
    setenv("PTXPACK_NVRTC", below("pipe.so"), 1);
    expect_failure(&s, PTXPACK_E_NO_NVRTC, "pipe.so names no usable library");
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

/* A symbol may have the name of another field of the key. */
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

/* A program whose inputs are unknown is not kept. */
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
    assert_has(seen()->options, "--include-path="); /* so that NVRTC can find it */
    s = source_of("int x;\n");
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        s.options = options[i];
        s.option_count = options[i][1] != NULL ? 2 : 1;
        expect_never_cached(&s);
    }
    s.option_count = 0;
    setenv("FAKE_NVRTC", "no-version", 1);
    setenv("PTXPACK_NVRTC", nvrtc = fresh_copy("fake_nvrtc.so"), 1); /* the version of a library is read once */
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

/* Tests other spellings of a directive, and text that is not a directive. */
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

/* NVRTC must not read files that we cannot read: the key would not contain them, and a pipe has no end. */
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
    assert_has(seen()->headers, "pipe.h cannot be read: Not a regular file\n");
    assert_has(seen()->headers, "#error there is a NUL byte in ");
    assert_has(seen()->headers, "lib/folder.h:\nint after;\n");
    s.text = NULL;
    s.path = below("pipe.h");
    expect_failure(&s, PTXPACK_E_IO, "pipe.h: Not a regular file");
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

RUN_TESTS(make_folder, remove_folder)
