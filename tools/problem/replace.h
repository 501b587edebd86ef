/* replace.h - writing a file as a whole: until the end a reader sees the old one, or none.
 *
 * The new file is made beside the old one under a random name that nobody else has, with the old one's mode and,
 * where that is allowed, its owner and group.  Signals that end the program wait meanwhile, so that nothing is left
 * behind; after SIGKILL or a power cut a file ".ptxpack-*" may be. */
#ifndef PTXPACK_TOOLS_REPLACE_H
#define PTXPACK_TOOLS_REPLACE_H
#include <limits.h>
#include <signal.h>
#include <stdbool.h>

typedef struct replacement {
    int      fd; /* write here */
    char     target[PATH_MAX], temporary[PATH_MAX];
    sigset_t signals; /* that were blocked before */
} replacement;

/* Both return NULL, or why it is impossible; then the old file is as it was.  A link is written through.  After a
 * success of begin, end must be called, with the errno of what was written, or 0. */
const char *replace_begin(replacement *r, const char *path);
const char *replace_end(replacement *r, int error);
#endif
