/* cache.c - the calls of cache.h: open, get, put, remove, lock, stats, trim, clear. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "internal.h"
#include "cache/prebuilt/prebuilt.h"

enum { STAMP_S = 300 /* the time of the last use is written at most this often */ };

/* ---- detail lines ------------------------------------------------------------------------------- */

static _Thread_local struct {
    uint64_t cache; /* id */
    char     text[PTXPACK_CACHE_LINE];
} thread_line;

void ptxpack_cache_forget(const ptxpack_cache *cache)
{
    thread_line.cache = cache != NULL ? cache->id : 0;
    thread_line.text[0] = '\0';
}

void ptxpack_cache_say(const ptxpack_cache *cache, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    thread_line.cache = cache->id;
    vsnprintf(thread_line.text, sizeof thread_line.text, format, arguments);
    va_end(arguments);
}

const char *ptxpack_cache_detail(const ptxpack_cache *cache)
{
    if (cache == NULL)
        return "cache disabled: there is no cache";
    return thread_line.cache == cache->id && *thread_line.text ? thread_line.text : cache->line;
}

/* ---- opening ------------------------------------------------------------------------------------ */

static uint64_t choose_max_bytes(uint64_t wanted, char line[PTXPACK_CACHE_LINE])
{
    uint64_t    bytes = wanted ? wanted : UINT64_C(1) << 30;
    const char *text = wanted ? NULL : ptxpack_cache_env("PTXPACK_CACHE_MAX_SIZE");
    if (text != NULL && !ptxpack_cache_parse_size(text, &bytes))
        snprintf(line, PTXPACK_CACHE_LINE,
                 "PTXPACK_CACHE_MAX_SIZE=%.100s is not a size such as 512M or 2G: the limit is 1G", text);
    return bytes;
}

static void set_up_dir(ptxpack_cache *cache)
{
    char line[PTXPACK_CACHE_LINE];
    if (cache->dir == NULL)
        return;
    int fd = ptxpack_cache_open_dir(cache->dir, !cache->readonly, false, line);
    if (fd >= 0 && !cache->readonly &&
        ptxpack_prebuilt_is(fd)) { /* as a cache it would lose its entries with time */
        snprintf(line, sizeof line,
                 "cache disabled: %.200s is a folder of prebuilt machine code: name it in "
                 "PTXPACK_CACHE_READONLY_DIRS",
                 cache->dir);
        close(fd);
        fd = -1;
        errno = EPERM;
    }
    /* For a reader a missing directory is an empty one. */
    cache->usable = fd >= 0 || (cache->readonly && errno == ENOENT);
    if (!cache->usable)
        memcpy(cache->line, line, sizeof line);
    if (fd >= 0 && !cache->readonly)
        ptxpack_cache_tag(fd);
    if (fd >= 0)
        close(fd);
}

ptxpack_cache *ptxpack_cache_open(const ptxpack_cache_options *options)
{
    static _Atomic uint64_t last_id;
    ptxpack_cache_options   o;
    memset(&o, 0, sizeof o);
    if (options != NULL)
        memcpy(&o, options, options->size < sizeof o ? options->size : sizeof o);
    ptxpack_cache *cache = (ptxpack_cache *)calloc(1, sizeof *cache);
    if (cache == NULL)
        return NULL;
    cache->id = atomic_fetch_add(&last_id, 1) + 1;
    ptxpack_cache_forget(cache);
    cache->readonly = o.readonly || ptxpack_cache_env_flag("PTXPACK_CACHE_READONLY");
    cache->max_bytes = choose_max_bytes(o.max_bytes, cache->line);
    cache->max_age_s = o.max_age_s ? o.max_age_s : UINT64_C(90) * 24 * 3600;
    cache->dir = ptxpack_cache_choose_dir(o.dir, cache->line);
    if (o.disable || ptxpack_cache_env_flag("PTXPACK_CACHE_DISABLE")) {
        snprintf(cache->line, sizeof cache->line, "cache disabled: %s",
                 o.disable ? "the program asked for it" : "PTXPACK_CACHE_DISABLE is set");
        return cache;
    }
    set_up_dir(cache);
    if (ptxpack_cache_open_folders(cache, o.readonly_dirs))
        return cache;
    ptxpack_cache_close(cache);
    return NULL;
}

void ptxpack_cache_close(ptxpack_cache *cache)
{
    if (cache == NULL)
        return;
    ptxpack_cache_close_folders(cache);
    free(cache->refusal);
    free(cache->dir);
    free(cache);
}

bool ptxpack_cache_enabled(const ptxpack_cache *cache) { return cache != NULL && cache->usable; }

const char *ptxpack_cache_path(const ptxpack_cache *cache)
{
    return cache != NULL && cache->dir != NULL ? cache->dir : "";
}

int ptxpack_cache_begin(const ptxpack_cache *cache, bool create)
{
    char line[PTXPACK_CACHE_LINE];
    ptxpack_cache_forget(cache);
    if (cache == NULL || !cache->usable)
        return -1;
    int fd = ptxpack_cache_open_dir(cache->dir, create, false, line);
    if (fd < 0 && (create || errno != ENOENT))
        ptxpack_cache_say(cache, "%s", line);
    return fd;
}

/* ---- get ---------------------------------------------------------------------------------------- */

void ptxpack_cache_entry_free(ptxpack_cache_entry *entry)
{
    if (entry == NULL)
        return;
    free(entry->payload);
    free(entry->metadata);
    free(entry->label);
    memset(entry, 0, sizeof *entry);
}

/* Stamp the entry as used now, for eviction.  A failure (read-only media) does not matter. */
static void stamp_use(int dirfd, const char *name, const struct stat *st)
{
    int64_t age = (int64_t)time(NULL) - (int64_t)st->st_mtim.tv_sec;
    if (age > STAMP_S || age < -STAMP_S)
        (void)utimensat(dirfd, name, NULL, AT_SYMLINK_NOFOLLOW);
}

static bool look_up(ptxpack_cache *cache, int dirfd, const ptxpack_cache_key *key, bool writable,
                    ptxpack_cache_entry *entry)
{
    char        name[PTXPACK_CACHE_NAME];
    struct stat st;
    uint64_t    key_bytes;
    ptxpack_cache_entry_name(key, name);
    switch (ptxpack_entry_read(dirfd, name, key, entry, &key_bytes, &st)) {
    case PTXPACK_ENTRY_GOOD:
        if (writable)
            stamp_use(dirfd, name, &st);
        return true;
    case PTXPACK_ENTRY_ERROR: /* ESTALE, EIO, EMFILE ...: a miss; the file stays */
        if (errno != ENOENT)
            ptxpack_cache_say(cache, "cache miss: %s: %s", name, strerror(errno));
        return false;
    case PTXPACK_ENTRY_CORRUPT:
    case PTXPACK_ENTRY_FOREIGN:
        break;
    }
    atomic_fetch_add(&cache->corrupt, 1);
    ptxpack_cache_say(cache, "cache miss: %s is damaged or of another version%s", name,
                      writable ? "; the next put replaces it" : "");
    return false;
}

bool ptxpack_cache_get(ptxpack_cache *cache, const ptxpack_cache_key *key, ptxpack_cache_entry *entry)
{
    if (entry == NULL)
        return false;
    memset(entry, 0, sizeof *entry);
    ptxpack_cache_forget(cache);
    if (cache == NULL)
        return false;
    const char *poisoned = ptxpack_cache_key_poisoned(key);
    int         fd = poisoned != NULL ? -1 : ptxpack_cache_begin(cache, false);
    bool        hit = fd >= 0 && look_up(cache, fd, key, !cache->readonly, entry);
    if (fd >= 0)
        close(fd);
    if (poisoned != NULL)
        ptxpack_cache_say(cache, "not cached: %s", poisoned);
    atomic_fetch_add(hit ? &cache->hits : &cache->misses, 1);
    return hit;
}

/* ---- put, remove -------------------------------------------------------------------------------- */

/* Why these parts cannot be stored; NULL when they can. */
static const char *unfit(const ptxpack_cache *cache, const ptxpack_cache_key *key,
                         const ptxpack_entry_parts *parts)
{
    const char    *poisoned = ptxpack_cache_key_poisoned(key);
    const uint64_t bytes = ptxpack_entry_size(parts);
    if (poisoned != NULL)
        return poisoned;
    if (parts->payload == NULL || (parts->metadata == NULL && parts->metadata_bytes))
        return "the payload or the metadata is NULL";
    if (!bytes)
        return "the payload is empty, or a part is over its limit";
    return bytes > ptxpack_cache_low_water(cache->max_bytes) ? "the entry is too large for the cache" : NULL;
}

static bool store(ptxpack_cache *cache, const ptxpack_cache_key *key, const ptxpack_entry_parts *parts)
{
    char name[PTXPACK_CACHE_NAME];
    int  error = ENOENT;
    ptxpack_cache_entry_name(key, name);
    /* If another process clears or removes the directory while we write, try once more in a new one. */
    for (int tries = 0; tries < 2 && (error == ENOENT || error == ESTALE); tries++) {
        int fd = ptxpack_cache_begin(cache, true);
        if (fd < 0)
            return false;
        error = ptxpack_cache_publish(fd, name, parts);
        if (!error)
            ptxpack_cache_clean_after_put(cache, fd, ptxpack_entry_size(parts));
        close(fd);
    }
    if (error)
        ptxpack_cache_say(cache, "not cached: %.300s: %s", cache->dir, strerror(error));
    return !error;
}

bool ptxpack_cache_put(ptxpack_cache *cache, const ptxpack_cache_key *key, const char *label,
                       const void *metadata, size_t metadata_bytes, const void *payload, size_t payload_bytes)
{
    ptxpack_cache_forget(cache);
    if (cache == NULL || !cache->usable || cache->readonly)
        return false;
    ptxpack_entry_parts parts;
    memset(&parts, 0, sizeof parts);
    parts.label = label != NULL ? label : "";
    parts.label_bytes = strlen(parts.label);
    parts.metadata = metadata;
    parts.metadata_bytes = metadata_bytes;
    parts.key = key != NULL ? key->blob : NULL;
    parts.key_bytes = key != NULL ? key->bytes : 0;
    parts.payload = payload;
    parts.payload_bytes = payload_bytes;
    const char *why = unfit(cache, key, &parts);
    if (why != NULL)
        ptxpack_cache_say(cache, "not cached: %s", why);
    bool stored = why == NULL && store(cache, key, &parts);
    atomic_fetch_add(stored ? &cache->stores : &cache->refused, 1);
    return stored;
}

bool ptxpack_cache_remove(ptxpack_cache *cache, const ptxpack_cache_key *key)
{
    int  fd = ptxpack_cache_begin(cache, false);
    bool removed = false;
    if (fd >= 0 && !cache->readonly && ptxpack_cache_key_poisoned(key) == NULL) {
        char name[PTXPACK_CACHE_NAME];
        ptxpack_cache_entry_name(key, name);
        removed = unlinkat(fd, name, 0) == 0;
        if (!removed && errno != ENOENT)
            ptxpack_cache_say(cache, "not removed: %s: %s", name, strerror(errno));
    }
    if (fd >= 0)
        close(fd);
    return removed;
}

/* ---- lock --------------------------------------------------------------------------------------- */

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Whether the file has changed between two stat calls.  A missing file has a status of all zeros. */
static bool appeared(int dirfd, const char *name, const struct stat *before)
{
    struct stat st;
    return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           (st.st_ino != before->st_ino || st.st_mtim.tv_sec != before->st_mtim.tv_sec ||
            st.st_mtim.tv_nsec != before->st_mtim.tv_nsec);
}

/* Poll, because no call that locks takes a timeout.  When the holder's entry appears, the wait ends, even
 * before the holder unlocks. */
static int wait_for_lock(int dirfd, const ptxpack_cache_key *key, uint32_t timeout_ms)
{
    char        name[PTXPACK_CACHE_NAME];
    uint8_t     digest[16];
    uint64_t    byte = 0;
    struct stat before;
    ptxpack_cache_digest(key->blob, key->bytes, digest);
    for (int i = 0; i < 8; i++)
        byte = byte << 8 | digest[i];
    byte %= PTXPACK_CACHE_CLEANER_BYTE;
    ptxpack_cache_entry_name(key, name);
    if (fstatat(dirfd, name, &before, AT_SYMLINK_NOFOLLOW) != 0)
        memset(&before, 0, sizeof before);

    const int64_t deadline = now_ns() + (int64_t)timeout_ms * 1000000;
    for (int64_t pause = 500000;; pause = pause < 8000000 ? 2 * pause : pause) {
        int        lock = ptxpack_cache_try_lock(dirfd, byte);
        const bool busy = lock < 0 && errno == EAGAIN;
        int64_t    left = deadline - now_ns();
        if (!busy || left <= 0 || appeared(dirfd, name, &before))
            return lock;
        struct timespec nap = {0, (long)(pause < left ? pause : left)};
        nanosleep(&nap, NULL);
    }
}

int ptxpack_cache_lock(ptxpack_cache *cache, const ptxpack_cache_key *key, uint32_t timeout_ms)
{
    ptxpack_cache_forget(cache);
    if (cache == NULL || cache->readonly || ptxpack_cache_key_poisoned(key) != NULL)
        return -1; /* nothing will be stored, so there is nothing to wait for */
    int fd = ptxpack_cache_begin(cache, true);
    if (fd < 0)
        return -1;
    int lock = wait_for_lock(fd, key, timeout_ms);
    close(fd);
    return lock;
}

void ptxpack_cache_unlock(ptxpack_cache *cache, int lock)
{
    (void)cache;
    if (lock >= 0)
        close(lock);
}

/* ---- maintenance -------------------------------------------------------------------------------- */

void ptxpack_cache_get_stats(ptxpack_cache *cache, ptxpack_cache_stats *stats)
{
    if (stats == NULL)
        return;
    ptxpack_cache_stats s;
    memset(&s, 0, sizeof s);
    int fd = ptxpack_cache_begin(cache, false);
    if (fd >= 0) {
        int error = ptxpack_cache_measure(fd, &s);
        if (error)
            ptxpack_cache_say(cache, "%.300s: %s", cache->dir, strerror(error));
        close(fd);
    }
    if (cache != NULL) {
        s.max_bytes = cache->max_bytes;
        s.max_age_s = cache->max_age_s;
        s.hits = atomic_load(&cache->hits);
        s.misses = atomic_load(&cache->misses);
        s.stores = atomic_load(&cache->stores);
        s.corrupt = atomic_load(&cache->corrupt);
        s.evicted = atomic_load(&cache->evicted);
        s.refused = atomic_load(&cache->refused);
        s.prebuilt_hits = atomic_load(&cache->prebuilt_hits);
    }
    s.size = stats->size;
    memcpy(stats, &s, stats->size < sizeof s ? stats->size : sizeof s);
}

static bool sweep(ptxpack_cache *cache, const ptxpack_sweep *how, ptxpack_cache_swept *swept)
{
    ptxpack_cache_swept done;
    memset(&done, 0, sizeof done);
    int fd = ptxpack_cache_begin(cache, false);
    int error = fd < 0 ? errno : 0;
    if (fd >= 0 && cache->readonly) {
        ptxpack_cache_say(cache, "nothing removed: the cache is read-only");
        error = EROFS;
    } else if (fd >= 0) {
        error = ptxpack_cache_sweep(fd, how, &done);
        if (error)
            ptxpack_cache_say(cache, "%.300s: %s", cache->dir, strerror(error));
        atomic_fetch_add(&cache->evicted, done.removed);
    }
    if (fd >= 0)
        close(fd);
    if (swept != NULL)
        *swept = done;
    return fd >= 0 && !error;
}

bool ptxpack_cache_trim(ptxpack_cache *cache, uint64_t to_bytes, ptxpack_cache_swept *swept)
{
    const ptxpack_sweep how = {.over_bytes = to_bytes,
                               .to_bytes = to_bytes,
                               .to_entries = UINT64_MAX,
                               .max_age_s = cache != NULL ? cache->max_age_s : 0};
    return sweep(cache, &how, swept);
}

bool ptxpack_cache_clear(ptxpack_cache *cache, ptxpack_cache_swept *swept)
{
    const ptxpack_sweep how = {.all_temporaries = true};
    return sweep(cache, &how, swept);
}
