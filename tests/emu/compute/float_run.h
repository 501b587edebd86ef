/* float_run.h - one floating-point instruction on the emulated GPU, on operands given as 64-bit words. */
#ifndef EMU_FLOAT_RUN_H
#define EMU_FLOAT_RUN_H
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include "tests/support/emu_fixture.h"
#include "float_inputs.h"

static uint64_t run_operands[INPUT_OPERANDS][INPUTS_ALL], run_results[INPUTS_ALL];
static uint64_t run_buffers[INPUT_OPERANDS + 1];

static void run_machine(int sm)
{
    emu_machine(sm);
    for (int k = 0; k <= INPUT_OPERANDS; k++)
        run_buffers[k] = emu_buffer(sizeof run_results);
}
/* The CUresult; the results, `bytes` each, are in run_results.  `count` is a multiple of 256. */
static unsigned int run_instruction(const char *target, const char *instruction, int bytes, size_t count)
{
    char text[4096];
    snprintf(text, sizeof text, INPUT_KERNEL, target, bytes, instruction, bytes * 8, bytes);
    for (int k = 0; k < INPUT_OPERANDS; k++)
        emu_write(run_buffers[k], run_operands[k], count * sizeof(uint64_t));
    const unsigned int result = emu_run(text, "k", (uint32_t)(count / 256), 256, 0, run_buffers,
                                        INPUT_OPERANDS + 1);
    emu_read(run_results, run_buffers[INPUT_OPERANDS], count * (size_t)bytes);
    return result;
}
static void run_fill(const char *kinds)
{
    uint64_t *values[INPUT_OPERANDS] = {run_operands[0], run_operands[1], run_operands[2]};
    input_fill(kinds, values);
}

struct run_vector {
    const char *instruction, *kinds;
    int         bytes;
    uint64_t    hash;
};
static const struct run_vector run_vectors[] = {
#define VECTOR(instruction, kinds, bytes, hash) {instruction, kinds, bytes, hash},
#define REFUSED(instruction)                    {instruction, "", 4, 0},
#include "float_vectors.def"
#undef VECTOR
#undef REFUSED
};

/* All recorded instructions that are conversions, or that are not. */
static void run_recorded(bool conversions)
{
    unsigned int wrong = 0, run = 0;
    char         filled[INPUT_OPERANDS + 1] = "-";
    run_machine(90);
    for (size_t i = 0; i < sizeof run_vectors / sizeof run_vectors[0]; i++) {
        const struct run_vector *v = &run_vectors[i];
        if ((strncmp(v->instruction, "cvt", 3) == 0) != conversions)
            continue;
        if (strcmp(filled, v->kinds) != 0)
            run_fill(strcpy(filled, v->kinds));
        const unsigned int result = run_instruction("sm_90a", v->instruction, v->bytes, input_count(v->kinds));
        const bool         expected = v->hash == 0
                                          ? result != 0
                                          : result == 0 && input_hash(run_results, input_count(v->kinds) *
                                                                                       (size_t)v->bytes) == v->hash;
        if (!expected)
            print_error("%s on %s: not what an H200 does (result %u)\n", v->instruction, v->kinds, result);
        wrong += !expected;
        run++;
        emu_log_clear();
    }
    print_message("%u instructions as an H200 has them\n", run - wrong);
    assert_int_equal(wrong, 0);
    assert_true(run > 250);
}
/* Instructions that must not be loaded. */
static void run_refused(const char *target, const char *const *instructions)
{
    for (; *instructions; instructions++) {
        const unsigned int result = run_instruction(target, *instructions, 4, 256);
        if (result == 0)
            print_error("%s was not refused\n", *instructions);
        assert_int_not_equal(result, 0);
        emu_log_clear();
    }
}
#endif
