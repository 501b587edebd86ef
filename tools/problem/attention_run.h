/* attention_run.h - runs an attention problem on the device, for commands. */
#ifndef PTXPACK_ATTENTION_RUN_H
#define PTXPACK_ATTENTION_RUN_H
#include "attention_problem.h"
#include "tools/device.h"

/* Makes a plan, copies the inputs, launches as often as the settings say, and copies the outputs back; reports
 * the device and the kernel.  Returns an exit status; a line is on stderr unless it is COMMAND_OK. */
int attention_run(device *gpu, attention_problem *p, const attention_settings *s);
/* The same on a row of kernels.def. */
int attention_run_row(device *gpu, attention_problem *p, const attention_settings *s,
                      const ptxpack_variant *row);
#endif
