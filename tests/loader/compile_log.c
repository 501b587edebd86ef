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
    for (size_t i = 0; i < bytes; i++) /* nothing shorter will do */
        assert_false(ptxpack_resources_read(text, i, &back));
    snprintf(longer, sizeof longer, "%.50sx", text);
    assert_false(ptxpack_resources_read(longer, strlen(longer), &back));
    free(text);
    ptxpack_log_resources("", "k", &r);
    assert_int_equal(r.registers, 0);
}

/* More remarks than there is room for: whole ones are kept, and none twice. */
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

RUN_TESTS(NULL, NULL)
