/* attention_run.h - an attention problem on the device, for commands. */
#ifndef PTXPACK_ATTENTION_RUN_H
#define PTXPACK_ATTENTION_RUN_H
#include "attention_problem.h"
#include "tools/device.h"

/* Plan, copy in, launch as often as the settings say, copy out; reports device and kernel.  Returns an exit
 * status, after a line on stderr unless it is COMMAND_OK. */
int attention_run(device *gpu, attention_problem *p, const attention_settings *s);
#endif
