/* repeat.h - more than one run: --sweep, one for each combination of symbol values, and --watch, one for each change
 * of the source. */
#ifndef PTXPACK_PROGRAM_REPEAT_H
#define PTXPACK_PROGRAM_REPEAT_H
#include "run.h"
#include "worker.h"

/* Parse the axes of all --sweep NAME=a,b,c; false after writing one line. */
bool program_sweep_parse(program_settings *s, char line[PROGRAM_LINE]);
/* Set the symbols of combination `index`; the last axis changes fastest. */
bool program_sweep_job(const program_settings *s, size_t index, program_job *job, char line[PROGRAM_LINE]);
/* Run them all and print the table.  The exit status: failed when none succeeded. */
int program_sweep(program_worker *w, const program_settings *s);

/* Watch until Ctrl-C, then return COMMAND_OK.  A failed run is reported, and watching goes on. */
int program_watch(program_worker *w, const program_settings *s);
#endif
