/* refusals.h - what the tests of products that may not be share: a descriptor `good` of theirs, changed, and the line that it gets. */
#ifndef PTXPACK_TEST_GEMM_REFUSALS_H
#define PTXPACK_TEST_GEMM_REFUSALS_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "host/gemm/inspect.h"

static void expect_line(const char *line, const char *words)
{
    if (strstr(line, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", line, words);
}

static void expect_refusal(const ptxpack_gemm_desc *desc, const char *words)
{
    gemm_geometry geometry;
    char          line[PLAN_LINE] = "";
    assert_int_equal(ptxpack_gemm_resolve(desc, &geometry, line), PTXPACK_E_ARG);
    expect_line(line, words);
}
#define REFUSED(words, ...)         \
    do {                            \
        ptxpack_gemm_desc d = good; \
        __VA_ARGS__;                \
        expect_refusal(&d, words);  \
    } while (0)
#endif
