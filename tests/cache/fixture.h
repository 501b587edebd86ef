/* fixture.h - what the cache's tests share: scratch folders, keys, direct access to entry files. */
#ifndef PTXPACK_TEST_CACHE_FIXTURE_H
#define PTXPACK_TEST_CACHE_FIXTURE_H
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "cache/internal.h"
#include "tests/support/unit.h"

/* Makes a new folder, with mode 0711 so that children under another user can access it. */
static inline char *scratch_make(void)
{
    const char *base = getenv("TMPDIR");
    char       *path = NULL;
    assert_true(asprintf(&path, "%s/ptxpack-cache-test-XXXXXX", base && *base ? base : "/tmp") > 0);
    assert_non_null(mkdtemp(path));
    assert_int_equal(chmod(path, 0711), 0);
    return path;
}

static inline int scratch_unlink(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

static inline void scratch_remove(char *path)
{
    nftw(path, scratch_unlink, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    free(path);
}

/* Writes base/name into one of a few static buffers. */
static inline const char *path_in(const char *base, const char *name)
{
    static char buffers[8][4096];
    static int  turn;
    char       *path = buffers[turn++ % 8];
    snprintf(path, sizeof *buffers, "%s/%s", base, name);
    return path;
}

static inline ptxpack_cache_key *key_of(const char *text)
{
    ptxpack_cache_key *key = ptxpack_cache_key_create();
    assert_non_null(key);
    ptxpack_cache_key_add_text(key, "text", text);
    return key;
}

static inline const char *entry_path(const ptxpack_cache *cache, const ptxpack_cache_key *key)
{
    char name[PTXPACK_CACHE_NAME];
    ptxpack_cache_entry_name(key, name);
    return path_in(ptxpack_cache_path(cache), name);
}

static inline uint8_t *read_whole(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    uint8_t *data = (uint8_t *)malloc(1 << 20);
    assert_non_null(data);
    *bytes = fread(data, 1, 1 << 20, f);
    fclose(f);
    return data;
}

static inline void write_whole(const char *path, const void *data, size_t bytes)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    if (bytes)
        assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

/* Sets the time when a file was last used to so long ago. */
static inline void set_age(const char *path, int64_t seconds)
{
    struct timespec times[2] = {{time(NULL) - seconds, 0}, {time(NULL) - seconds, 0}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW), 0);
}

static inline bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static inline size_t count_files(const char *dir, const char *prefix)
{
    size_t count = 0;
    DIR   *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        count += e->d_name[0] && strcmp(e->d_name, ".") && strcmp(e->d_name, "..") &&
                 !strncmp(e->d_name, prefix, strlen(prefix));
    closedir(d);
    return count;
}

/* Runs `body` in a child as `uid` (-1: the present user); returns its exit status, for signals 128 + n. */
static inline int in_child(long uid, int (*body)(void *), void *user)
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (uid >= 0 && (setgroups(0, NULL) || setresgid((gid_t)uid, (gid_t)uid, (gid_t)uid) ||
                         setresuid((uid_t)uid, (uid_t)uid, (uid_t)uid)))
            _exit(100);
        _exit(body(user));
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* In such a child: exits with the line's number when a condition does not hold. */
#define CHILD_CHECK(condition)                                                     \
    do {                                                                           \
        if (!(condition)) {                                                        \
            fprintf(stderr, "child: %s:%d: %s\n", __FILE__, __LINE__, #condition); \
            return 1;                                                              \
        }                                                                          \
    } while (0)

static inline ptxpack_cache_stats stats_of(ptxpack_cache *cache)
{
    ptxpack_cache_stats stats;
    memset(&stats, 0, sizeof stats);
    stats.size = sizeof stats;
    ptxpack_cache_get_stats(cache, &stats);
    return stats;
}

static inline bool put_text(ptxpack_cache *cache, const ptxpack_cache_key *key, const char *payload)
{
    return ptxpack_cache_put(cache, key, "label", "meta", 4, payload, strlen(payload));
}

static inline bool has_text(ptxpack_cache *cache, const ptxpack_cache_key *key, const char *payload)
{
    ptxpack_cache_entry entry;
    bool same = ptxpack_cache_get(cache, key, &entry) && entry.payload_bytes == strlen(payload) &&
                !memcmp(entry.payload, payload, entry.payload_bytes);
    ptxpack_cache_entry_free(&entry);
    return same;
}
#endif
