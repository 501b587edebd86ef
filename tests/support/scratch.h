/* scratch.h - a temporary folder for a test, removed at its end. */
#ifndef PTXPACK_TEST_SCRATCH_H
#define PTXPACK_TEST_SCRATCH_H
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static char scratch_folder[4096];

static inline int scratch_open(void **state)
{
    const char *base = getenv("TMPDIR");
    (void)state;
    snprintf(scratch_folder, sizeof scratch_folder, "%s/ptxpack-test-XXXXXX",
             base != NULL && *base ? base : "/tmp");
    return mkdtemp(scratch_folder) != NULL ? 0 : -1;
}

static inline int scratch_unlink(const char *path, const struct stat *info, int type, struct FTW *at)
{
    (void)info, (void)type, (void)at;
    return remove(path);
}

static inline int scratch_close(void **state)
{
    (void)state;
    return nftw(scratch_folder, scratch_unlink, 8, FTW_DEPTH | FTW_PHYS);
}

/* folder/name, in one of a few static buffers. */
static inline const char *scratch_path(const char *name)
{
    static char paths[8][8192];
    static int  turn;
    char       *path = paths[turn++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", scratch_folder, name);
    return path;
}
#endif
