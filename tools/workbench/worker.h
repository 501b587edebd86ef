/* worker.h - a process of its own for compiling and running: what a kernel breaks ends with it.
 *
 * A kernel that traps makes its context unusable, one that does not end can only be ended with its process,
 * and a compiler may crash: this process then goes on, and the next run gets a new one.  As long as nothing
 * of that happens, one process runs all jobs, so that the driver is initialised once.
 * Only the worker loads a driver: this process must not, before or after. */
#ifndef PTXPACK_PROGRAM_WORKER_H
#define PTXPACK_PROGRAM_WORKER_H
#include "run.h"

typedef struct program_worker program_worker;

/* NULL after a line on stderr. */
program_worker *program_worker_open(const program_settings *s);
void            program_worker_close(program_worker *w);
/* Run a job, in a new process if there is none.  The result stays until the next run. */
const program_result *program_worker_run(program_worker *w, const program_job *job);
/* The file with the machine code of the last result, cubin_size bytes. */
int program_worker_cubin(const program_worker *w);

/* From now on Ctrl-C is noted, and ends what waits below. */
void program_catch_interrupts(void);
bool program_interrupted(void);
/* Sleep; false when interrupted. */
bool program_sleep(int ms);
#endif
