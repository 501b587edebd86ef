/* prebuilt.c - opening a folder of prebuilt machine code, and reading what its manifest lists. */
#include "prebuilt.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char manifest_name[] = "manifest";

bool ptxpack_prebuilt_is(int dirfd) { return faccessat(dirfd, manifest_name, F_OK, AT_SYMLINK_NOFOLLOW) == 0; }

/* ---- files -------------------------------------------------------------------------------------- */

/* Read a regular file of at most `cap` bytes completely.  The result is malloc'ed and followed by a NUL byte;
 * NULL with errno (EFBIG: it is larger, EINVAL: it is not regular).  *st is its status when it was opened. */
static char *read_whole(int dirfd, const char *name, uint64_t cap, size_t *bytes, struct stat *st)
{
    int   fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), error = 0;
    char *text = NULL;
    *bytes = 0;
    if (fd < 0)
        return NULL;
    if (fstat(fd, st) != 0)
        error = errno;
    else if (!S_ISREG(st->st_mode))
        error = EINVAL;
    else if ((uint64_t)st->st_size > cap)
        error = EFBIG;
    else if ((text = (char *)malloc((size_t)st->st_size + 1)) == NULL)
        error = ENOMEM;
    while (!error && *bytes < (size_t)st->st_size) {
        ssize_t n = read(fd, text + *bytes, (size_t)st->st_size - *bytes);
        if (n > 0)
            *bytes += (size_t)n;
        else if (n == 0)
            break; /* the file has become shorter: the caller checks what is there */
        else if (errno != EINTR)
            error = errno;
    }
    close(fd);
    if (error) {
        free(text);
        errno = error;
        return NULL;
    }
    text[*bytes] = '\0';
    return text;
}

/* Check a file whose size the manifest lists.  Returns what is wrong, or NULL with the content in *data. */
static const char *read_listed(int dirfd, const ptxpack_manifest_entry *listed, char **data)
{
    char        name[PTXPACK_CACHE_NAME];
    uint8_t     digest[PTXPACK_SHA256_BYTES];
    struct stat st;
    size_t      bytes;
    snprintf(name, sizeof name, "%s.entry", listed->name);
    *data = read_whole(dirfd, name, listed->bytes, &bytes, &st);
    if (*data == NULL)
        return errno == ENOENT  ? "it is missing"
               : errno == EFBIG ? "it is longer than the manifest says"
                                : strerror(errno);
    if (bytes != listed->bytes)
        return "it is shorter than the manifest says";
    ptxpack_sha256(*data, bytes, digest);
    if (memcmp(digest, listed->sha256, sizeof digest) != 0)
        return "it does not have the SHA-256 of the manifest";
    return NULL;
}

/* ---- opening ------------------------------------------------------------------------------------ */

/* Whether the manifest may be trusted because of its owner: NULL, or why not. */
static const char *distrust(int dirfd, const struct stat *st)
{
    struct stat dir;
    if (fstat(dirfd, &dir) != 0)
        return strerror(errno);
    if (st->st_uid != dir.st_uid && st->st_uid != 0 && st->st_uid != geteuid())
        return "it belongs to another user";
    return st->st_mode & (S_IWGRP | S_IWOTH) ? "it is writable by group or others: chmod go-w it" : NULL;
}

int ptxpack_prebuilt_open_dir(const char *dir, bool anyones, char line[PTXPACK_CACHE_LINE])
{
    static const char disabled[] = "cache disabled: "; /* that variable is about the user's own cache */
    if (!anyones) {
        int fd = ptxpack_cache_open_dir(dir, false, true, line);
        if (fd < 0 && strncmp(line, disabled, sizeof disabled - 1) == 0)
            memmove(line, line + sizeof disabled - 1, strlen(line) - sizeof disabled + 2);
        return fd;
    }
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        snprintf(line, PTXPACK_CACHE_LINE, "%.300s: %s", dir, strerror(errno));
    return fd;
}

static bool open_manifest(ptxpack_prebuilt *folder, int dirfd, const char *pin, char line[PTXPACK_CACHE_LINE])
{
    char        wrong[PTXPACK_CACHE_LINE];
    struct stat st;
    size_t      bytes;
    char       *text = read_whole(dirfd, manifest_name, PTXPACK_MANIFEST_CAP, &bytes, &st);
    const char *why = text == NULL ? strerror(errno) : pin != NULL ? NULL : distrust(dirfd, &st);
    if (why == NULL && !ptxpack_manifest_read(text, bytes, &folder->manifest, wrong))
        why = wrong;
    ptxpack_sha256_hex(folder->manifest.sha256, folder->sha256);
    if (why == NULL && pin != NULL && strcmp(pin, folder->sha256) != 0)
        why = "its SHA-256 is not the one that was pinned";
    free(text);
    if (why != NULL)
        snprintf(line, PTXPACK_CACHE_LINE, "%.250s/%s: %.200s", folder->dir, manifest_name, why);
    return why == NULL;
}

ptxpack_prebuilt *ptxpack_prebuilt_open(const char *dir, const char *pin, char line[PTXPACK_CACHE_LINE])
{
    ptxpack_prebuilt *folder = (ptxpack_prebuilt *)calloc(1, sizeof *folder);
    snprintf(line, PTXPACK_CACHE_LINE, "%.300s: out of memory", dir);
    char *path = ptxpack_cache_choose_dir(dir, line);
    int   fd = folder != NULL && path != NULL ? ptxpack_prebuilt_open_dir(path, pin != NULL, line) : -1;
    bool  good = false;
    if (fd >= 0) {
        folder->dir = path;
        folder->pinned = pin != NULL;
        good = open_manifest(folder, fd, pin, line);
        path = NULL;
        close(fd);
    }
    free(path);
    if (good)
        return folder;
    ptxpack_prebuilt_close(folder);
    return NULL;
}

void ptxpack_prebuilt_close(ptxpack_prebuilt *folder)
{
    if (folder == NULL)
        return;
    ptxpack_manifest_free(&folder->manifest);
    free(folder->dir);
    free(folder);
}

/* ---- reading ------------------------------------------------------------------------------------ */

ptxpack_prebuilt_result ptxpack_prebuilt_read(const ptxpack_prebuilt *folder, const char *name,
                                              const ptxpack_cache_key *key, ptxpack_cache_entry *entry,
                                              char line[PTXPACK_CACHE_LINE])
{
    const ptxpack_manifest_entry *listed = ptxpack_manifest_find(&folder->manifest, name);
    const char                   *wrong;
    char                         *data = NULL;
    uint64_t                      key_bytes;
    memset(entry, 0, sizeof *entry);
    if (listed == NULL)
        return PTXPACK_PREBUILT_NONE;
    int fd = open(folder->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    wrong = fd >= 0 ? read_listed(fd, listed, &data) : strerror(errno);
    if (wrong == NULL &&
        ptxpack_entry_decode(data, (size_t)listed->bytes, name, key, entry, &key_bytes) != PTXPACK_ENTRY_GOOD)
        wrong = errno == ENOMEM ? "out of memory"
                                : "it is of another version, or it is not the entry of this key";
    if (wrong != NULL)
        snprintf(line, PTXPACK_CACHE_LINE, "%.250s/%s.entry: %.150s", folder->dir, name, wrong);
    if (fd >= 0)
        close(fd);
    free(data);
    return wrong != NULL ? PTXPACK_PREBUILT_BAD : PTXPACK_PREBUILT_HIT;
}
