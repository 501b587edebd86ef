/* replace.c - a new file beside the old one, then a rename. */
#include "replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file that `path` means, through links; what is not there yet is made. */
static const char *find_target(replacement *r, const char *path, struct stat *old, bool *there)
{
    struct stat link;
    *there = false;
    if (strlen(path) >= sizeof r->target)
        return strerror(ENAMETOOLONG);
    if (realpath(path, r->target) == NULL) {
        int error = errno;
        if (lstat(path, &link) == 0 && S_ISLNK(link.st_mode))
            return error == ENOENT ? "it is a link to a file that is not there" : strerror(error);
        memcpy(r->target, path, strlen(path) + 1);
    } else if (stat(r->target, old) != 0) {
        return strerror(errno);
    } else if (!S_ISREG(old->st_mode)) {
        return "not a regular file";
    } else if (faccessat(AT_FDCWD, r->target, W_OK, AT_EACCESS) != 0) {
        return strerror(errno);
    } else {
        *there = true;
    }
    return NULL;
}

/* A name that exists already is another writer's, or was left behind: another one is tried. */
static int open_temporary(replacement *r)
{
    const char *slash = strrchr(r->target, '/');
    int         folder = slash != NULL ? (int)(slash + 1 - r->target) : 0;
    for (int tries = 0; tries < 100; tries++) {
        uint64_t random;
        if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
            return -1;
        int n = snprintf(r->temporary, sizeof r->temporary, "%.*s.ptxpack-%016llx", folder, r->target,
                         (unsigned long long)random);
        if (n >= (int)sizeof r->temporary) {
            errno = ENAMETOOLONG;
            return -1;
        }
        int fd = open(r->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

/* Where the group cannot be kept, the group that the file gets instead may do no more than others may. */
static int keep_attributes(int fd, const struct stat *old)
{
    mode_t mode = old->st_mode & (S_IRWXU | S_IRWXG | S_IRWXO);
    if (fchown(fd, old->st_uid, old->st_gid) != 0 && fchown(fd, (uid_t)-1, old->st_gid) != 0)
        mode &= ~(mode_t)S_IRWXG | (mode & S_IRWXO) << 3;
    return fchmod(fd, mode);
}

static void block_signals(sigset_t *before)
{
    static const int ending[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    sigset_t         set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++)
        sigaddset(&set, ending[i]);
    sigprocmask(SIG_BLOCK, &set, before);
}

const char *replace_begin(replacement *r, const char *path)
{
    struct stat old;
    bool        there;
    const char *why = find_target(r, path, &old, &there);
    if (why != NULL)
        return why;
    block_signals(&r->signals);
    r->fd = open_temporary(r);
    if (r->fd >= 0 && (!there || keep_attributes(r->fd, &old) == 0))
        return NULL;
    why = strerror(errno);
    if (r->fd >= 0) {
        close(r->fd);
        unlink(r->temporary);
    }
    sigprocmask(SIG_SETMASK, &r->signals, NULL);
    return why;
}

const char *replace_end(replacement *r, int error)
{
    if (close(r->fd) != 0 && error == 0)
        error = errno;
    if (error == 0 && rename(r->temporary, r->target) != 0)
        error = errno;
    if (error != 0)
        unlink(r->temporary);
    sigprocmask(SIG_SETMASK, &r->signals, NULL);
    return error != 0 ? strerror(error) : NULL;
}
