/* parallel.h - the benchmark of attention that several GPUs share, with the device as an argument, so that tests can run
 * it on the emulated driver. */
#ifndef PTXPACK_BENCH_PARALLEL_PARALLEL_H
#define PTXPACK_BENCH_PARALLEL_PARALLEL_H
#include "ranks.h"

/* Times what the settings choose and prints the table; `b` has the first rank's device and the settings.  Returns an exit
 * status, with a line on stderr unless it is COMMAND_OK; the caller closes `b`. */
int parallel_bench_run(ranks_bench *b);
/* Whether the settings are in their ranges.  False after a line on stderr. */
bool parallel_settings_known(const bench_settings *settings);
#endif
