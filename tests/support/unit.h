/* unit.h - unit tests on cmocka that list themselves: TEST(name) { ... }, and RUN_TESTS at the end of the file.
 * Each test runs between the file's BEFORE_EACH and AFTER_EACH, in the order of the file. */
#ifndef UNIT_H
#define UNIT_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static struct CMUnitTest unit_tests[64]; /* running fails when a file has more */
static size_t            unit_count;

static inline void unit_add(struct CMUnitTest test)
{
    if (unit_count < sizeof unit_tests / sizeof *unit_tests)
        unit_tests[unit_count] = test;
    unit_count++;
}

#define TEST_WITH(name, before, after)                                                     \
    static void                              name(void **state);                           \
    __attribute__((constructor)) static void name##_is_listed(void)                        \
    {                                                                                      \
        unit_add((struct CMUnitTest)cmocka_unit_test_setup_teardown(name, before, after)); \
    }                                                                                      \
    static void name(__attribute__((unused)) void **state)
#define TEST(name) TEST_WITH(name, BEFORE_EACH, AFTER_EACH)

static inline int unit_run(int (*before_all)(void **), int (*after_all)(void **))
{
    if (unit_count > sizeof unit_tests / sizeof *unit_tests)
        return 1;
    return _cmocka_run_group_tests("tests", unit_tests, unit_count, before_all, after_all);
}
#define RUN_TESTS(before_all, after_all) \
    int main(void) { return unit_run(before_all, after_all); }
#endif
