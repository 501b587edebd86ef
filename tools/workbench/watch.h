/* watch.h - run, and run again whenever the source or what it includes changes. */
#ifndef PTXPACK_PROGRAM_WATCH_H
#define PTXPACK_PROGRAM_WATCH_H
#include "run.h"
#include "worker.h"

/* Until Ctrl-C; then COMMAND_OK.  A run that fails is told, and watching goes on. */
int program_watch(program_worker *w, const program_settings *s);
#endif
