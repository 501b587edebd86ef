/* gather.c - gathers of rows without a GPU: what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "host/gather/inspect.h"

static const ptxpack_gather_desc good = {.size = sizeof good,
                                         .dtype = PTXPACK_BF16,
                                         .rows = 3,
                                         .table_rows = 10,
                                         .columns = 16};

static void odd_size(ptxpack_gather_desc *d) { d->size += 8; }
static void odd_type(ptxpack_gather_desc *d) { d->dtype = PTXPACK_INT8; }
static void odd_reserved(ptxpack_gather_desc *d) { d->reserved = 2; }
static void no_rows(ptxpack_gather_desc *d) { d->rows = 0; }
static void no_table(ptxpack_gather_desc *d) { d->table_rows = -3; }
static void odd_columns(ptxpack_gather_desc *d) { d->columns = 20; }
static void odd_stride(ptxpack_gather_desc *d) { d->stride_table = 20; }
static void short_stride(ptxpack_gather_desc *d) { d->stride_y = 8; }

static const struct {
    void (*spoil)(ptxpack_gather_desc *d);
    const char *line;
} refusals[] = {
    {odd_size, "desc.size is "},
    {odd_type, "dtype 4 is neither PTXPACK_F16 nor PTXPACK_BF16"},
    {odd_reserved, "desc.reserved is 2, not 0"},
    {no_rows, "rows is 0; it must be at least 1"},
    {no_table, "table_rows is -3; it must be at least 1"},
    {odd_columns, "columns 20 is not a multiple of 8"},
    {odd_stride, "table.row: stride 20 is not a multiple of 8 elements"},
    {short_stride, "y.row: stride 8 overlaps the 16 elements inside it"},
};

static void bad_descriptors_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        ptxpack_gather_desc d = good;
        gather_geometry     g;
        char                line[PLAN_LINE];
        refusals[i].spoil(&d);
        assert_int_equal(gather_resolve(&d, &g, line), PTXPACK_E_ARG);
        if (strncmp(line, refusals[i].line, strlen(refusals[i].line)) != 0)
            fail_msg("\"%s\" does not begin with \"%s\"", line, refusals[i].line);
    }
}

static void buffers_are_checked(void **state)
{
    static const struct {
        int         member; /* of ids, table, y */
        uint64_t    address;
        const char *line; /* NULL: it is fine */
    } changes[] = {
        {0, 0x10004, NULL},
        {0, 0x10002, "ids: address 0x10002 is not a multiple of 4 bytes"},
        {1, 0, "table is null"},
        {2, 0x30008, "y: address 0x30008 is not a multiple of 16 bytes"},
        {2, 0x20130, "y overlaps table: 0x20130 and 0x20000"},
        {2, 0x10000, "y overlaps ids: 0x10000 and 0x10000"},
    };
    char            line[PLAN_LINE];
    gather_geometry g;
    (void)state;
    assert_int_equal(gather_resolve(&good, &g, line), PTXPACK_OK);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        ptxpack_gather_buffers b = {.size = sizeof b, .ids = 0x10000, .table = 0x20000, .y = 0x30000};
        uint64_t              *members[] = {&b.ids, &b.table, &b.y};
        *members[changes[i].member] = changes[i].address;
        assert_int_equal(gather_check(&g, &b, line), changes[i].line == NULL ? PTXPACK_OK : PTXPACK_E_ARG);
        if (changes[i].line != NULL)
            assert_string_equal(line, changes[i].line);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_descriptors_are_refused),
        cmocka_unit_test(buffers_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
