/* worker.h - a separate process for compiling and running, so that a kernel can break only that process.
 *
 * A kernel that traps makes its context unusable, a kernel that does not end can only be ended together with its
 * process, and a compiler may crash.  The command survives all of these and starts a new worker for the next run.
 * Otherwise one worker runs all jobs, so that the driver is initialised only once.
 * Only the worker loads a driver; the process of the command must not, neither before nor after. */
#ifndef PTXPACK_PROGRAM_WORKER_H
#define PTXPACK_PROGRAM_WORKER_H
#include "run.h"

typedef struct program_worker program_worker;

/* NULL on failure, after a line on stderr. */
program_worker *program_worker_open(const program_settings *s);
void            program_worker_close(program_worker *w);
/* Run a job, in a new process if there is none.  The result is valid until the next run. */
const program_result *program_worker_run(program_worker *w, const program_job *job);
/* The file descriptor of the machine code of the last result, cubin_size bytes, or of its errors; and of its profile. */
int program_worker_cubin(const program_worker *w);
int program_worker_profile(const program_worker *w);

/* From now on Ctrl-C is noted, and interrupts program_sleep() and a running job. */
void program_catch_interrupts(void);
bool program_interrupted(void);
/* Sleep; false when interrupted. */
bool program_sleep(int ms);
#endif
