/* report.h - the result of a run as text or JSON. */
#ifndef PTXPACK_PROGRAM_REPORT_H
#define PTXPACK_PROGRAM_REPORT_H
#include "run.h"
#include "worker.h"

/* Print a successful result; with --json, as members of the open object.  With `before`, also what has changed. */
void program_report(const program_settings *s, const program_result *result, const program_result *before);
/* Print only the lines about the device, for a sweep. */
void program_report_device(const program_settings *s, const program_result *result);
/* JSON members: symbols of a job; figures and times of one run. */
void program_json_symbols(const program_symbols *symbols);
void program_json_run(const program_result *result);
/* Lines on stderr for a failed run, with the first errors of a compiler (--errors); --json prints all as an object.  Returns
 * the exit status. */
int program_report_failure(program_worker *w, const program_settings *s, const program_result *result);
/* What each line of the last run executed; an exit status. */
int program_report_profile(program_worker *w, const program_settings *s);
#endif
