/* float_run.h - runs one floating-point instruction on the emulated GPU, with operands as 64-bit words. */
#ifndef EMU_FLOAT_RUN_H
#define EMU_FLOAT_RUN_H
#include "tests/support/emu_test.h"
#include "float_inputs.h"

static uint64_t run_operands[INPUT_OPERANDS][INPUTS_ALL], run_results[INPUTS_ALL];
static uint64_t run_buffers[INPUT_OPERANDS + 1];

static void run_machine(int sm)
{
    emu_machine(sm);
    for (int k = 0; k <= INPUT_OPERANDS; k++)
        run_buffers[k] = emu_buffer(sizeof run_results);
}
/* Returns the CUresult; the results, of `bytes` each, are in run_results.  `count` is a multiple of 256. */
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
#endif
