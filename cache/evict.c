/* evict.c - removing entries that are too old or too many, and stale temporary files, and when to do so. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "internal.h"

enum {
    TEMPORARY_AGE_S = 3600,                     /* no writer takes an hour */
    SCAN_LIMIT = 2 * PTXPACK_CACHE_MAX_ENTRIES, /* one sweep looks at no more entries than that */
    AUTO_UNLINKS = 4096,                        /* a put removes no more entries than that */
    RESCAN_S = 60                               /* other processes store, too: look again after that time */
};

typedef struct seen_entry {
    char        name[PTXPACK_CACHE_HEX + sizeof ".entry"];
    struct stat st;
} seen_entry;

typedef struct scan {
    seen_entry *entries;
    size_t      count, capacity;
    uint64_t    bytes;
    uint64_t    swept; /* temporaries that were removed */
} scan;

/* The mtime is the time of the last use: the writer sets it and readers update it.  Access times cannot be
 * used, because file systems with relatime or noatime do not keep them. */
static bool older_than(const struct stat *st, uint64_t seconds, int64_t now)
{
    int64_t used = (int64_t)st->st_mtim.tv_sec;
    return used < now && (uint64_t)(now - used) > seconds;
}

static int add(scan *s, const char *name, const struct stat *st)
{
    if (s->count == s->capacity) {
        size_t      capacity = s->capacity ? 2 * s->capacity : 64;
        seen_entry *larger = (seen_entry *)realloc(s->entries, capacity * sizeof *larger);
        if (larger == NULL)
            return ENOMEM;
        s->entries = larger;
        s->capacity = capacity;
    }
    seen_entry *e = &s->entries[s->count++];
    memcpy(e->name, name, sizeof e->name);
    e->st = *st;
    s->bytes += (uint64_t)st->st_size;
    return 0;
}

/* Collect the entries and remove stale temporaries. */
static int look(int dirfd, const ptxpack_sweep *how, scan *s)
{
    DIR *dir = ptxpack_cache_list(dirfd);
    if (dir == NULL)
        return errno;
    const int64_t      now = (int64_t)time(NULL);
    const char        *name;
    ptxpack_cache_kind kind;
    struct stat        st;
    int                error = 0;
    while (!error && (s->count < SCAN_LIMIT || !how->automatic) &&
           ptxpack_cache_next(dir, dirfd, &name, &kind, &st)) {
        if (kind == PTXPACK_NAME_ENTRY)
            error = add(s, name, &st);
        else if (how->all_temporaries || older_than(&st, TEMPORARY_AGE_S, now))
            s->swept += unlinkat(dirfd, name, 0) == 0;
    }
    closedir(dir);
    return error;
}

static int by_last_use(const void *a, const void *b)
{
    const seen_entry *x = (const seen_entry *)a, *y = (const seen_entry *)b;
    if (x->st.st_mtim.tv_sec != y->st.st_mtim.tv_sec)
        return x->st.st_mtim.tv_sec < y->st.st_mtim.tv_sec ? -1 : 1;
    if (x->st.st_mtim.tv_nsec != y->st.st_mtim.tv_nsec)
        return x->st.st_mtim.tv_nsec < y->st.st_mtim.tv_nsec ? -1 : 1;
    return strcmp(x->name, y->name);
}

bool ptxpack_cache_unlink_seen(int dirfd, const char *name, const struct stat *seen)
{
    struct stat st;
    return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ino == seen->st_ino &&
           st.st_mtim.tv_sec == seen->st_mtim.tv_sec && st.st_mtim.tv_nsec == seen->st_mtim.tv_nsec &&
           unlinkat(dirfd, name, 0) == 0;
}

/* Remove entries, the least recently used first.  Another process may use, replace or remove entries at
 * the same time: an entry that changed stays, and one that is gone counts as freed. */
static void remove_oldest(int dirfd, const ptxpack_sweep *how, const scan *s, ptxpack_cache_swept *swept)
{
    const int64_t  now = (int64_t)time(NULL);
    const uint64_t to_bytes = s->bytes > how->over_bytes ? how->to_bytes : how->over_bytes;
    swept->left = s->count;
    swept->left_bytes = s->bytes;
    for (size_t i = 0; i < s->count && (swept->removed < AUTO_UNLINKS || !how->automatic); i++) {
        const seen_entry *e = &s->entries[i];
        if (swept->left_bytes <= to_bytes && swept->left <= how->to_entries &&
            !older_than(&e->st, how->max_age_s, now))
            break; /* entries are sorted by age: the rest is younger */
        bool removed = ptxpack_cache_unlink_seen(dirfd, e->name, &e->st);
        if (!removed && faccessat(dirfd, e->name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            continue;
        swept->left--;
        swept->left_bytes -= (uint64_t)e->st.st_size;
        swept->removed += removed;
        swept->removed_bytes += removed ? (uint64_t)e->st.st_size : 0;
    }
}

int ptxpack_cache_sweep(int dirfd, const ptxpack_sweep *how, ptxpack_cache_swept *swept)
{
    scan s;
    memset(&s, 0, sizeof s);
    memset(swept, 0, sizeof *swept);
    /* One cleaner at a time is enough, though two would be correct. */
    int lock = ptxpack_cache_try_lock(dirfd, PTXPACK_CACHE_CLEANER_BYTE);
    if (lock < 0 && errno == EAGAIN && how->automatic)
        return EAGAIN;
    int error = look(dirfd, how, &s);
    if (!error) {
        if (s.count)
            qsort(s.entries, s.count, sizeof *s.entries, by_last_use);
        remove_oldest(dirfd, how, &s, swept);
    }
    swept->temporaries = s.swept;
    free(s.entries);
    if (lock >= 0)
        close(lock);
    return error;
}

void ptxpack_cache_clean_after_put(struct ptxpack_cache *cache, int dirfd, uint64_t stored)
{
    struct timespec clock;
    clock_gettime(CLOCK_MONOTONIC, &clock);
    const int64_t  now = (int64_t)clock.tv_sec + 1, last = atomic_load(&cache->scanned_at);
    const uint64_t estimate = atomic_fetch_add(&cache->estimate, stored) + stored;
    if (last && now - last < RESCAN_S && estimate <= cache->max_bytes)
        return;
    const ptxpack_sweep over = {
        .over_bytes = cache->max_bytes,
        .to_bytes = ptxpack_cache_low_water(cache->max_bytes),
        .to_entries = PTXPACK_CACHE_MAX_ENTRIES,
        .max_age_s = cache->max_age_s,
        .automatic = true,
    };
    ptxpack_cache_swept swept;
    if (ptxpack_cache_sweep(dirfd, &over, &swept) != 0)
        return;
    atomic_fetch_add(&cache->evicted, swept.removed);
    atomic_store(&cache->estimate, swept.left_bytes);
    atomic_store(&cache->scanned_at, now);
}
