/* print_tensor.c - tensors as text: into files and buffers, of memory, of counting and of coordinates.  What CuTe prints is
 * compared by tests/tools/cute_tensors.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "host/layout/tensor.h"
#include "loader/loader.h"

static char text[4096];

static ptxpack_layout layout_of(const char *notation) { return ptxpack_layout_parse(notation); }

/* print_tensor's text of a tensor. */
static const char *printed(const ptxpack_tensor *t, const ptxpack_engine *engine)
{
    size_t length = 0;
    assert_int_equal(ptxpack_print_tensor_text(t, engine, text, sizeof text, &length), PTXPACK_OK);
    assert_int_equal(strlen(text), length);
    return text;
}

static ptxpack_tensor at(uint64_t address, int bits, const char *notation)
{
    ptxpack_layout l = layout_of(notation);
    ptxpack_tensor t = ptxpack_make_tensor(address, bits, &l);
    assert_int_equal(t.layout.shape.status, PTXPACK_OK);
    return t;
}

/* The process's own memory, at its own address. */
static void own_memory(void **state)
{
    static const float data[6] = {0.5f, 1, 1e10f, -3, 4, 0};
    (void)state;
    ptxpack_tensor t = at((uint64_t)(uintptr_t)data, 32, "(2,3):(3,1)");
    ptxpack_engine engine = {.size = sizeof engine,
                             .number = PTXPACK_NUMBER_FLOAT,
                             .memory = data,
                             .base = t.address,
                             .bytes = sizeof data};
    char           line[80];
    snprintf(line, sizeof line, "ptr[32b](%p) o (2,3):(3,1)", (const void *)data);
    assert_int_equal(ptxpack_tensor_text(&t, &engine, text, sizeof text), strlen(line));
    assert_string_equal(text, line);
    const char *rows = strchr(printed(&t, &engine), '\n');
    assert_string_equal(rows, "\n  5.00e-01  1.00e+00  1.00e+10\n -3.00e+00  4.00e+00  0.00e+00\n");

    ptxpack_tuple coord = ptxpack_tuple_parse("(1,_)"), one = ptxpack_int(1);
    t = ptxpack_tensor_slice(&coord, &t);
    assert_int_equal(ptxpack_print_element(&t, &engine, &one, line, sizeof line), PTXPACK_OK);
    assert_string_equal(line, "4.000000");
}

/* A file has what a buffer has, and a buffer is cut as snprintf cuts it. */
static void file_and_buffer(void **state)
{
    ptxpack_tensor t = at(0, 32, "(2,2,2)");
    ptxpack_engine engine = {.size = sizeof engine, .space = PTXPACK_SPACE_GLOBAL};
    char          *written = NULL, small[20];
    size_t         bytes, length;
    (void)state;
    FILE *f = open_memstream(&written, &bytes);
    assert_non_null(f);
    assert_int_equal(ptxpack_print_tensor(f, &t, &engine), PTXPACK_OK);
    fclose(f);
    assert_string_equal(written, printed(&t, &engine));
    assert_string_equal(written, "gmem_ptr[32b]((nil)) o (2,2,2):(1,2,4):\n    0    2\n    1    3\n"
                                 "----------\n    4    6\n    5    7\n");
    assert_int_equal(ptxpack_print_tensor_text(&t, &engine, small, sizeof small, &length), PTXPACK_OK);
    assert_int_equal(length, strlen(written));
    assert_int_equal(strlen(small), sizeof small - 1);
    assert_memory_equal(small, written, sizeof small - 1);
    assert_int_equal(ptxpack_print_tensor_text(&t, &engine, NULL, 0, &length), PTXPACK_OK);
    assert_int_equal(length, strlen(written));
    assert_int_equal(ptxpack_tensor_text(&t, &engine, NULL, 0),
                     strlen("gmem_ptr[32b]((nil)) o (2,2,2):(1,2,4)"));
    free(written);
}

/* Counting and coordinates need no memory. */
static void counting_and_coordinates(void **state)
{
    ptxpack_engine engine = {.size = sizeof engine, .counting = true, .base = 1000};
    ptxpack_tensor t = at(998, 8, "3:2");
    ptxpack_tuple  shape = ptxpack_tuple_parse("(2,2)");
    (void)state;
    assert_string_equal(printed(&t, &engine), "counting_iter(-2) o 3:2:\n   -2\n    0\n    2\n");
    t = ptxpack_make_identity_tensor(&shape);
    assert_string_equal(printed(&t, NULL),
                        "ArithTuple(0,0) o (2,2):(1@0,1@1):\n  (0,0)  (0,1)\n  (1,0)  (1,1)\n");
}

static const char *number_text(ptxpack_number number, int bits, uint64_t raw)
{
    static char    element[64];
    ptxpack_tensor t = at(0, bits, "1:0");
    ptxpack_engine engine = {.size = sizeof engine, .number = number, .memory = &raw, .bytes = sizeof raw};
    ptxpack_tuple  zero = ptxpack_int(0);
    assert_int_equal(ptxpack_print_element(&t, &engine, &zero, element, sizeof element), PTXPACK_OK);
    return element;
}

static void numbers(void **state)
{
    (void)state;
    assert_string_equal(number_text(PTXPACK_NUMBER_FLOAT, 16, 0x3c01), "1.000977");
    assert_string_equal(number_text(PTXPACK_NUMBER_FLOAT, 16, 0xfc00), "-inf");
    assert_string_equal(number_text(PTXPACK_NUMBER_FLOAT, 16, 0x7e00), "nan");
    assert_string_equal(number_text(PTXPACK_NUMBER_FLOAT, 16, 0x0001), "0.000000");
    assert_string_equal(number_text(PTXPACK_NUMBER_FLOAT, 64, 0x4008000000000000), "3.000000");
    assert_string_equal(number_text(PTXPACK_NUMBER_BF16, 16, 0xc040), "-3.000000");
    assert_string_equal(number_text(PTXPACK_NUMBER_TF32, 32, 0x3f801fff), "1.000000");
    assert_string_equal(number_text(PTXPACK_NUMBER_E4M3, 8, 0x7e), "448.000000");
    assert_string_equal(number_text(PTXPACK_NUMBER_E4M3, 8, 0xff), "-nan");
    assert_string_equal(number_text(PTXPACK_NUMBER_E4M3, 8, 0x01), "0.001953");
    assert_string_equal(number_text(PTXPACK_NUMBER_E5M2, 8, 0x7b), "57344.000000");
    assert_string_equal(number_text(PTXPACK_NUMBER_E5M2, 8, 0x7c), "inf");
    assert_string_equal(number_text(PTXPACK_NUMBER_E3M2, 6, 0x1f), "28.000000");
    assert_string_equal(number_text(PTXPACK_NUMBER_E2M3, 6, 0x3f), "-7.500000");
    assert_string_equal(number_text(PTXPACK_NUMBER_E2M1, 4, 0x7), "6.000000");
    assert_string_equal(number_text(PTXPACK_NUMBER_INT, 4, 0xf), "-1");
    assert_string_equal(number_text(PTXPACK_NUMBER_UINT, 4, 0xf), "15");
    assert_string_equal(number_text(PTXPACK_NUMBER_INT, 64, UINT64_MAX), "-1");
    assert_string_equal(number_text(PTXPACK_NUMBER_UINT, 64, UINT64_MAX), "18446744073709551615");
    assert_string_equal(number_text(PTXPACK_NUMBER_UINT, 1, 1), "1");
}

static void refused(const ptxpack_tensor *t, const ptxpack_engine *engine, const char *line)
{
    size_t length;
    text[0] = 'x';
    assert_int_equal(ptxpack_print_tensor_text(t, engine, text, sizeof text, &length), PTXPACK_E_ARG);
    assert_string_equal(ptxpack_detail(NULL), line);
    assert_string_equal(text, "");
}

static void errors(void **state)
{
    static const char memory[8] = "1234567";
    ptxpack_tensor    t = at(0x100, 32, "3:1");
    ptxpack_engine    engine = {.size = sizeof engine, .memory = memory, .base = 0x100, .bytes = sizeof memory};
    (void)state;
    refused(&t, &engine, "address 0x108 is outside of the memory, 8 bytes from 0x100 on");
    refused(&t, NULL, "a tensor of memory is printed with its engine, which is NULL");
    assert_int_equal(ptxpack_tensor_text(&t, NULL, text, sizeof text), 5);
    assert_string_equal(text, "error");
    engine.number = PTXPACK_NUMBER_BF16;
    refused(&t, &engine, "no such number has 32 bits");
    engine.number = (ptxpack_number)99;
    refused(&t, &engine, "no such number has 32 bits");
    engine.size = 4;
    assert_int_equal(ptxpack_print_tensor(stderr, &t, &engine), PTXPACK_E_ARG);
    engine = (ptxpack_engine){.size = sizeof engine, .iota_bits = 12};
    refused(&t, &engine, "iota_number has no form of 12 bits");
    engine = (ptxpack_engine){.size = sizeof engine, .space = (ptxpack_space)9};
    refused(&t, &engine, "the engine's space is 9");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_memory),
        cmocka_unit_test(file_and_buffer),
        cmocka_unit_test(counting_and_coordinates),
        cmocka_unit_test(numbers),
        cmocka_unit_test(errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
