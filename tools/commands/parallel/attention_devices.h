/* attention_devices.h - the option --devices of `ptxpack attention`: one sequence on several GPUs of this machine. */
#ifndef PTXPACK_ATTENTION_DEVICES_H
#define PTXPACK_ATTENTION_DEVICES_H
#include "tools/device.h"
#include "tools/problem/attention_problem.h"

#define DEVICES_OPTION_HELP "N  share the sequence among devices 0 to N - 1, zigzag (parallel.h)"
#define WAY_OPTION_HELP     "gather|steps|heads|arrive  of --devices (default: what the library's model prefers)"

/* Computes o and the lse of a problem; `gpu` is one of the devices, and `way` may be "best".  Returns an exit status after a line on stderr. */
int attention_on_devices(attention_problem *p, device *gpu, int64_t devices, const char *way);
#endif
