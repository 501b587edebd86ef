/* store.c - the names in a cache directory, the atomic write, and the lock file. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "internal.h"

/*   <32 hex digits>.entry          an entry
 *   .tmp-<pid>-<tid>-<counter>     a temporary: an entry being written
 *   .lock                          the lock file; empty, never removed
 *   CACHEDIR.TAG                   bford.info/cachedir: backup programs leave the directory out */
static const char entry_suffix[] = ".entry", temporary_prefix[] = ".tmp-", lock_name[] = ".lock",
                  tag_name[] = "CACHEDIR.TAG";

/* Three decimal numbers joined by '-', and nothing else. */
static bool is_three_numbers(const char *p)
{
    for (int i = 0; i < 3; i++) {
        size_t digits = strspn(p, "0123456789");
        if (!digits || digits > 20 || p[digits] != (i < 2 ? '-' : '\0'))
            return false;
        p += digits + (i < 2);
    }
    return true;
}

ptxpack_cache_kind ptxpack_cache_kind_of(const char *name)
{
    if (strspn(name, "0123456789abcdef") == PTXPACK_CACHE_HEX &&
        !strcmp(name + PTXPACK_CACHE_HEX, entry_suffix))
        return PTXPACK_NAME_ENTRY;
    const size_t prefix = sizeof temporary_prefix - 1;
    if (!strncmp(name, temporary_prefix, prefix) && is_three_numbers(name + prefix))
        return PTXPACK_NAME_TEMPORARY;
    return PTXPACK_NAME_ALIEN;
}

void ptxpack_cache_entry_name(const struct ptxpack_cache_key *key, char name[PTXPACK_CACHE_NAME])
{
    char hex[PTXPACK_CACHE_HEX + 1];
    ptxpack_cache_key_hex(key, hex);
    snprintf(name, PTXPACK_CACHE_NAME, "%s%s", hex, entry_suffix);
}

/* ---- writing ------------------------------------------------------------------------------------ */

/* A new file under a name that no other writer uses: pid and tid distinguish the writers of this machine,
 * the counter those of this thread, and O_EXCL those of other machines and of writers that died. */
static int open_temporary(int dirfd, char name[PTXPACK_CACHE_NAME])
{
    static _Atomic unsigned counter;
    for (int tries = 0; tries < 100; tries++) {
        snprintf(name, PTXPACK_CACHE_NAME, "%s%ld-%ld-%u", temporary_prefix, (long)getpid(), (long)gettid(),
                 atomic_fetch_add(&counter, 1));
        int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

/* A write beyond the process's file size limit would raise SIGXFSZ and end the program. */
static bool over_file_limit(uint64_t bytes)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur;
}

/* Call fsync; a file system that does not support it is no error. */
static int sync_fd(int fd)
{
    while (fsync(fd) != 0)
        if (errno != EINTR)
            return errno == EINVAL || errno == ENOTSUP || errno == ENOSYS ? 0 : errno;
    return 0;
}

/* Writes the content of a file: 0 or an errno. */
typedef int (*writer)(int fd, const void *content);

static int publish(int dirfd, const char *name, uint64_t bytes, writer write_content, const void *content)
{
    char temporary[PTXPACK_CACHE_NAME];
    if (over_file_limit(bytes))
        return EFBIG;
    int fd = open_temporary(dirfd, temporary);
    if (fd < 0)
        return errno;
    int error = write_content(fd, content);
    if (!error)
        error = sync_fd(fd);
    if (close(fd) != 0 && errno != EINTR && !error) /* NFS reports a full disk here */
        error = errno;
    if (!error && renameat(dirfd, temporary, dirfd, name) != 0)
        error = errno;
    if (error)
        unlinkat(dirfd, temporary, 0);
    else
        sync_fd(dirfd); /* failure is ignored: a power cut may then lose the name, but not damage the file */
    return error;
}

static int write_entry(int fd, const void *parts)
{
    return ptxpack_entry_write(fd, (const ptxpack_entry_parts *)parts);
}

int ptxpack_cache_publish(int dirfd, const char *name, const ptxpack_entry_parts *parts)
{
    int error = publish(dirfd, name, ptxpack_entry_size(parts), write_entry, parts);
    /* Some file systems refuse to rename over a file that another writer has just put there.  Then the
     * entry exists, and the other writer wrote the same. */
    return error == EEXIST ? 0 : error;
}

static int write_text(int fd, const void *text)
{
    return ptxpack_cache_write_all(fd, text, strlen((const char *)text));
}

int ptxpack_cache_publish_text(int dirfd, const char *name, const char *text)
{
    return publish(dirfd, name, strlen(text), write_text, text);
}

void ptxpack_cache_tag(int dirfd)
{
    static const char text[] = "Signature: 8a477f597d28d172789f06886806bc55\n"
                               "# A cache of ptxpack: deleting it costs time, nothing else.\n"
                               "# See https://bford.info/cachedir/\n";
    struct stat       st;
    if (fstatat(dirfd, tag_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return;
    DIR *dir = ptxpack_cache_list(dirfd);
    if (dir == NULL)
        return;
    /* A user may choose a folder that also holds other files, which need their backup. */
    bool alone = true;
    for (struct dirent *d; alone && (d = readdir(dir)) != NULL;)
        alone = !strcmp(d->d_name, ".") || !strcmp(d->d_name, "..") || !strcmp(d->d_name, lock_name) ||
                ptxpack_cache_kind_of(d->d_name) != PTXPACK_NAME_ALIEN;
    closedir(dir);
    int fd = alone ? openat(dirfd, tag_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644) : -1;
    if (fd < 0)
        return;
    const size_t count = sizeof text - 1;
    bool         whole = !over_file_limit(count) && write(fd, text, count) == (ssize_t)count;
    if (close(fd) != 0 || !whole)
        unlinkat(dirfd, tag_name, 0);
}

/* ---- locks -------------------------------------------------------------------------------------- */

/* Each key locks one byte of one file.  Open-file-description locks exclude threads and processes alike,
 * disappear with their last descriptor, and leave no lock files to clean up. */
int ptxpack_cache_try_lock(int dirfd, uint64_t byte)
{
    int fd = openat(dirfd, lock_name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0)
        return -1;
    struct flock range;
    memset(&range, 0, sizeof range);
    range.l_type = F_WRLCK;
    range.l_whence = SEEK_SET;
    range.l_start = (off_t)byte;
    range.l_len = 1;
    int got;
    do
        got = fcntl(fd, F_OFD_SETLK, &range);
    while (got != 0 && errno == EINTR);
    if (got == 0)
        return fd;
    int error = errno == EACCES ? EAGAIN : errno;
    close(fd);
    errno = error;
    return -1;
}
