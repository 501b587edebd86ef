/* compile_log.c - reading the logs of PTX compilers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "loader/compile/log.h"
#include "tests/support/unit.h"

#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

TEST(test_log_resources)
{
    ptxpack_resources r, back;
    char             *text, longer[64];
    size_t            bytes;
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
    assert_non_null(strstr(r.remarks, "(C7511)"));
    assert_non_null(strstr(r.remarks, "\nptxas warning : something, line 3"));
    assert_true(ptxpack_resources_write(&r, &text, &bytes));
    assert_true(ptxpack_resources_read(text, bytes, &back));
    assert_memory_equal(&r, &back, sizeof r);
    for (size_t i = 0; i < bytes; i++) /* nothing shorter is enough */
        assert_false(ptxpack_resources_read(text, i, &back));
    snprintf(longer, sizeof longer, "%.50sx", text);
    assert_false(ptxpack_resources_read(longer, strlen(longer), &back));
    free(text);
    ptxpack_log_resources("", "k", &r);
    assert_int_equal(r.registers, 0);
}

/* There are more remarks than room: whole ones are kept, and none twice. */
TEST(test_log_overflow)
{
    char              log[8192] = "", line[128];
    ptxpack_resources r;
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

TEST(test_log_errors)
{
    char line[128];
    ptxpack_log_errors("ptxas fatal   : Value 'sm_90a' is not defined for option 'gpu-name'\n", NULL, line,
                       sizeof line);
    assert_string_equal(line, "Value 'sm_90a' is not defined for option 'gpu-name'");
    ptxpack_log_errors("ptxas x.ptx, line 12; error   : Parsing error near ':': syntax error\n"
                       "ptxas fatal   : Ptx assembly aborted due to errors\n",
                       NULL, line, sizeof line);
    assert_string_equal(line, "line 12 of the PTX: Parsing error near ':': syntax error");
    ptxpack_log_errors("something else\nentirely\n", NULL, line, sizeof line);
    assert_string_equal(line, "something else");
    ptxpack_log_errors("", NULL, line, sizeof line);
    assert_string_equal(line, "no message");
    assert_int_equal(ptxpack_log_isa("Unsupported .version 9.5; current version is '8.4'"), 84);
    assert_int_equal(ptxpack_log_isa("current version is 'x'"), 0);
}

/* Unknown symbols are the cause of other errors: they come first, and nothing comes twice. */
TEST(test_log_error_list)
{
    static const char log[] = "ptxas x.ptx, line 8; error   : Arguments mismatch for instruction 'mov'\n"
                              "ptxas x.ptx, line 9; error   : Not a name of any known instruction: 'mvo'\n"
                              "ptxas x.ptx, line 8; error   : Unknown symbol '%a'\n"
                              "ptxas x.ptx, line 8; error   : Unknown symbol '%a'\n"
                              "ptxas fatal   : Ptx assembly aborted due to errors\n";
    static const char nvrtc[] =
        "k.cu(3): error: expected a \";\"\n\nk.cu(2): error: identifier \"x\" is undefined\n"
        "k.cu(9): warning: nothing\n2 errors detected in the compilation\n";
    static const char templates[] =
        "/cute/layout.hpp(11): error: static assertion\n    CUTE(x);\n    ^\n          detected during:\n"
        "            instantiation of \"int f(T) [with T=int]\" at line 91 of /cute/fold.hpp\n"
        "            instantiation of \"int g(T)\" at line 14\n"
        "            instantiation of \"int h(T) at line 2 of x\" at line 6 of k.cu\n\n"
        "k.cu(7): error: a value\n  x\n          detected during instantiation of \"void k(T *)\" at line "
        "10\n\n"
        "layout.hpp(12): error: at line 3 of nothing\n  a\n\nk.cu(2): warning: w\n    at line 4 of z\n\n";
    char   line[128];
    size_t count;
    char  *list = ptxpack_log_error_list(log, NULL, NULL, &count);
    assert_int_equal(count, 3);
    assert_string_equal(list, "line 9 of the PTX: Not a name of any known instruction: 'mvo'\n"
                              "line 8 of the PTX: Unknown symbol '%a'\n"
                              "line 8 of the PTX: Arguments mismatch for instruction 'mov'\n");
    free(list);
    ptxpack_log_errors(log, NULL, line, sizeof line);
    assert_string_equal(line, "line 9 of the PTX: Not a name of any known instruction: 'mvo' (and 2 more)");
    list = ptxpack_log_cuda_list(nvrtc, &count);
    assert_int_equal(count, 2);
    assert_string_equal(list,
                        "k.cu:2: error: identifier \"x\" is undefined\nk.cu:3: error: expected a \";\"\n");
    free(list);
    list = ptxpack_log_cuda_list(templates, &count);
    assert_int_equal(count, 3);
    assert_string_equal(list, "/cute/layout.hpp:11: error: static assertion (instantiated from k.cu:6)\n"
                              "k.cu:7: error: a value\n"
                              "layout.hpp:12: error: at line 3 of nothing\n");
    free(list);
    list = ptxpack_log_error_list("", NULL, NULL, &count);
    assert_int_equal(count, 0);
    assert_string_equal(list, "");
    free(list);
}

RUN_TESTS(NULL, NULL)
