/* progress.h - signs of life of long work, on stderr: on a terminal one line that is written over, elsewhere a line every
 * 10 seconds.  What takes less than that says nothing.  A thread of its own writes, so work that calls nothing is shown, too. */
#ifndef PTXPACK_PROGRESS_H
#define PTXPACK_PROGRESS_H
#include <stddef.h>

/* Begin; `subcommand` and `what` must outlive it.  One at a time in a process; a second one is part of the first. */
void progress_begin(const char *subcommand, const char *what);
/* What is being done now, the `done`-th of `count` (0: not counted). */
void progress_step(size_t done, size_t count, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Before a line is printed: nothing of the progress stays on the terminal. */
void progress_clear(void);
void progress_end(void);
/* The interval elsewhere, which is 10 s. */
void progress_every(int ms);
#endif
