/* sweep.h - one run for each combination of symbol values, and a table of them, the fastest first. */
#ifndef PTXPACK_PROGRAM_SWEEP_H
#define PTXPACK_PROGRAM_SWEEP_H
#include "run.h"
#include "worker.h"

/* The axes of all --sweep NAME=a,b,c; false after one line. */
bool program_sweep_parse(program_settings *s, char line[PROGRAM_LINE]);
/* How many combinations there are, and the symbols of one: the last axis goes fastest. */
size_t program_sweep_count(const program_settings *s);
bool   program_sweep_job(const program_settings *s, size_t index, program_job *job, char line[PROGRAM_LINE]);
/* Run them all and print the table.  The exit status: failed when none succeeded. */
int program_sweep(program_worker *w, const program_settings *s);
#endif
