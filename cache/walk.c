/* walk.c - listing the files of a cache directory: to count them, to show them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include "internal.h"

DIR *ptxpack_cache_list(int dirfd)
{
    int  fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (fd >= 0 && dir == NULL) {
        int error = errno;
        close(fd);
        errno = error;
    }
    return dir;
}

bool ptxpack_cache_next(DIR *dir, int dirfd, const char **name, ptxpack_cache_kind *kind, struct stat *st)
{
    for (struct dirent *d; (d = readdir(dir));) {
        *kind = ptxpack_cache_kind_of(d->d_name);
        *name = d->d_name;
        if (*kind != PTXPACK_NAME_ALIEN && fstatat(dirfd, d->d_name, st, AT_SYMLINK_NOFOLLOW) == 0 &&
            !S_ISDIR(st->st_mode))
            return true;
    }
    return false;
}

int ptxpack_cache_measure(int dirfd, ptxpack_cache_stats *stats)
{
    DIR *dir = ptxpack_cache_list(dirfd);
    if (dir == NULL)
        return errno;
    const char        *name;
    ptxpack_cache_kind kind;
    struct stat        st;
    while (ptxpack_cache_next(dir, dirfd, &name, &kind, &st)) {
        int64_t used = (int64_t)st.st_mtim.tv_sec;
        if (kind == PTXPACK_NAME_TEMPORARY) {
            stats->temporaries++;
            continue;
        }
        stats->oldest = stats->entries && stats->oldest < used ? stats->oldest : used;
        stats->newest = stats->entries && stats->newest > used ? stats->newest : used;
        stats->entries++;
        stats->bytes += (uint64_t)st.st_size;
    }
    closedir(dir);
    return 0;
}

typedef ptxpack_cache_step visitor(const ptxpack_cache_info *info, void *user);

/* Read one entry, call the visitor, and do what the visitor returns.  `st` is the status from the directory. */
static ptxpack_cache_step show(int dirfd, const char *name, bool check, const struct stat *st, visitor *visit,
                               void *user, bool may_remove)
{
    ptxpack_cache_entry  entry;
    ptxpack_cache_info   info;
    struct stat          stamp;
    char                 hex[PTXPACK_CACHE_HEX + 1];
    uint64_t             key_bytes = 0;
    ptxpack_entry_result result = check ? ptxpack_entry_read(dirfd, name, NULL, &entry, &key_bytes, &stamp)
                                        : ptxpack_entry_peek(dirfd, name, &entry, &key_bytes, &stamp);
    const int            error = errno;
    if (result == PTXPACK_ENTRY_ERROR && error == ENOENT)
        return PTXPACK_CACHE_NEXT; /* removed since its name was read */
    const bool good = result == PTXPACK_ENTRY_GOOD;
    if (!good)
        stamp = *st;
    memset(&info, 0, sizeof info);
    memcpy(hex, name, PTXPACK_CACHE_HEX);
    hex[PTXPACK_CACHE_HEX] = '\0';
    info.name = hex;
    info.state = good                              ? PTXPACK_CACHE_GOOD
                 : result == PTXPACK_ENTRY_CORRUPT ? PTXPACK_CACHE_CORRUPT
                 : result == PTXPACK_ENTRY_FOREIGN ? PTXPACK_CACHE_FOREIGN
                                                   : PTXPACK_CACHE_UNREADABLE;
    info.error = info.state == PTXPACK_CACHE_UNREADABLE ? error : 0;
    info.file_bytes = (uint64_t)stamp.st_size;
    info.last_used = (int64_t)stamp.st_mtim.tv_sec;
    info.key_bytes = good ? key_bytes : 0;
    info.payload_bytes = entry.payload_bytes;
    info.label = good ? entry.label : "";
    info.metadata = entry.metadata;
    info.metadata_bytes = entry.metadata_bytes;
    ptxpack_cache_step step = visit(&info, user);
    ptxpack_cache_entry_free(&entry);
    if (step == PTXPACK_CACHE_REMOVE && may_remove)
        ptxpack_cache_unlink_seen(dirfd, name, &stamp);
    return step;
}

bool ptxpack_cache_each(ptxpack_cache *cache, bool check, visitor *visit, void *user)
{
    if (visit == NULL)
        return false;
    int  dirfd = ptxpack_cache_begin(cache, false);
    DIR *dir = dirfd >= 0 ? ptxpack_cache_list(dirfd) : NULL;
    if (dir != NULL) {
        const char        *name;
        ptxpack_cache_kind kind;
        struct stat        st;
        ptxpack_cache_step step = PTXPACK_CACHE_NEXT;
        while (step != PTXPACK_CACHE_STOP && ptxpack_cache_next(dir, dirfd, &name, &kind, &st))
            if (kind == PTXPACK_NAME_ENTRY)
                step = show(dirfd, name, check, &st, visit, user, !cache->readonly);
        closedir(dir);
    }
    if (dirfd >= 0)
        close(dirfd);
    return dir != NULL;
}
