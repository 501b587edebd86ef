/* evict.c - the cache: which entries are removed, when, and which never. */
#include <pthread.h>
#include "handle.h"

#define BEFORE_EACH set_up
#define AFTER_EACH  tear_down

/* ---- eviction ----------------------------------------------------------------------------------- */

static bool numbered_is_there(int i)
{
    ptxpack_cache_key *key = numbered(i);
    bool               there = exists(entry_path(cache, key));
    ptxpack_cache_key_free(key);
    return there;
}

static void put_numbered(ptxpack_cache *into, int i, size_t bytes, int64_t age)
{
    ptxpack_cache_key *key = numbered(i);
    char              *payload = (char *)calloc(1, bytes);
    assert_non_null(payload);
    assert_true(ptxpack_cache_put(into, key, "n", NULL, 0, payload, bytes));
    if (age)
        set_age(entry_path(into, key), age);
    free(payload);
    ptxpack_cache_key_free(key);
}

TEST(test_trim_goes_by_last_use)
{
    for (int i = 0; i < 10; i++)
        put_numbered(cache, i, 1000, 4000 - 100 * i); /* entry 0 was used longest ago ... */
    ptxpack_cache_key  *key = numbered(0);
    ptxpack_cache_entry entry;
    assert_true(ptxpack_cache_get(cache, key, &entry)); /* ... but it is used now */
    ptxpack_cache_entry_free(&entry);
    ptxpack_cache_key_free(key);
    uint64_t            each = stats_of(cache).bytes / 10;
    ptxpack_cache_swept swept;
    assert_true(ptxpack_cache_trim(cache, 4 * each + each / 2, &swept));
    assert_int_equal(swept.removed, 6);
    assert_int_equal(swept.left, 4);
    assert_int_equal(stats_of(cache).bytes, swept.left_bytes);
    assert_int_equal(stats_of(cache).evicted, 6);
    for (int i = 0; i < 10; i++)
        assert_int_equal(numbered_is_there(i), i == 0 || i > 6);
    assert_true(ptxpack_cache_trim(cache, UINT64_MAX, &swept));
    assert_int_equal(swept.removed, 0);
    assert_true(ptxpack_cache_trim(cache, 0, &swept));
    assert_int_equal(swept.left, 0);
}

TEST(test_stamps_are_throttled)
{
    static const struct {
        int  age;
        bool stamped;
    } cases[] = {{100, false}, {1000, true}, {-1000, true}};
    for (size_t i = 0; i < 3; i++) {
        ptxpack_cache_key *key = numbered(1);
        put_numbered(cache, 1, 10, cases[i].age);
        ptxpack_cache_entry entry;
        struct stat         st;
        assert_true(ptxpack_cache_get(cache, key, &entry));
        ptxpack_cache_entry_free(&entry);
        assert_int_equal(stat(entry_path(cache, key), &st), 0);
        assert_int_equal(llabs((long long)(time(NULL) - st.st_mtime)) < 50, cases[i].stamped);
        ptxpack_cache_key_free(key);
    }
}

TEST(test_puts_keep_below_the_cap)
{
    ptxpack_cache *small = open_with((ptxpack_cache_options){.max_bytes = 64 << 10});
    uint64_t       evicted = 0;
    for (int i = 0; i < 60; i++) {
        put_numbered(small, i, 4000, 100 - i);
        ptxpack_cache_stats s = stats_of(small);
        assert_true(s.bytes <= 64 << 10);
        if (s.evicted > evicted) /* down to seven eighths, so that the next put need not clean again */
            assert_in_range(s.bytes, 50 << 10, 56 << 10);
        evicted = s.evicted;
        assert_true(numbered_is_there(i));
        if (i > 14)
            assert_true(s.entries >= 12);
    }
    assert_true(stats_of(small).evicted >= 44);
    assert_true(numbered_is_there(59) && numbered_is_there(50) && !numbered_is_there(0));
    ptxpack_cache_close(small);

    /* A handle that has stored nothing yet cleans up after others at its first put. */
    ptxpack_cache *smaller = open_with((ptxpack_cache_options){.max_bytes = 16 << 10});
    put_numbered(smaller, 100, 100, 0);
    assert_true(stats_of(smaller).bytes <= 16 << 10);
    assert_true(numbered_is_there(100));
    ptxpack_cache_close(smaller);
}

TEST(test_age_limit)
{
    put_numbered(cache, 1, 100, 5000);
    put_numbered(cache, 2, 100, 3000);
    put_numbered(cache, 3, 100, -5000); /* as after a wrong clock */
    ptxpack_cache *limited = open_with((ptxpack_cache_options){.max_age_s = 4000});
    put_numbered(limited, 4, 100, 0);
    assert_true(!numbered_is_there(1) && numbered_is_there(2));
    assert_true(numbered_is_there(3) && numbered_is_there(4));
    assert_int_equal(stats_of(limited).evicted, 1);
    ptxpack_cache_close(limited);
    ptxpack_cache_swept swept;
    limited = open_with((ptxpack_cache_options){.max_age_s = 1, .dir = path_in(scratch, "future")});
    /* it is the only one: a younger entry would end the sweep before it */
    put_numbered(limited, 1, 100, -5000);
    assert_true(ptxpack_cache_trim(limited, UINT64_MAX, &swept));
    assert_int_equal(swept.removed, 0);
    ptxpack_cache_close(limited);
    limited = open_with((ptxpack_cache_options){.max_age_s = 2000});
    assert_true(ptxpack_cache_trim(limited, UINT64_MAX, NULL));
    assert_true(!numbered_is_there(2) && numbered_is_there(4));
    ptxpack_cache_close(limited);
    set_age(path_in(dir, "CACHEDIR.TAG"), 100000000);
    put_numbered(cache, 5, 100, 91 * 86400); /* the default: 90 days */
    put_numbered(cache, 6, 100, 89 * 86400);
    assert_true(ptxpack_cache_trim(cache, UINT64_MAX, NULL));
    assert_true(!numbered_is_there(5) && numbered_is_there(6));
    assert_true(exists(path_in(dir, "CACHEDIR.TAG")));
}

enum { CROWD = 300, CLEANERS = 4 };

static void *trim_to(void *user) { return ptxpack_cache_trim(cache, *(uint64_t *)user, NULL) ? user : NULL; }

TEST(test_cleaners_credit_what_others_removed)
{
    pthread_t cleaners[CLEANERS];
    for (int i = 0; i < CROWD; i++)
        put_numbered(cache, 100 + i, 10, CROWD - i); /* keys of one length */
    uint64_t half = stats_of(cache).bytes / 2;
    for (int i = 0; i < CLEANERS; i++)
        assert_int_equal(pthread_create(&cleaners[i], NULL, trim_to, &half), 0);
    for (int i = 0; i < CLEANERS; i++) {
        void *done;
        pthread_join(cleaners[i], &done);
        assert_non_null(done);
    }
    assert_int_equal(stats_of(cache).entries, CROWD / 2); /* not a quarter */
    assert_int_equal(stats_of(cache).evicted, CROWD / 2);
}

static const char *const not_ours[] = {"notes.txt",
                                       "0123456789abcdef0123456789abcde.entry",
                                       "0123456789abcdef0123456789abcdef0.entry",
                                       "0123456789ABCDEF0123456789abcdef.entry",
                                       "0123456789abcdef0123456789abcdef.entry~",
                                       "0123456789abcdef0123456789abcdef",
                                       ".tmp-1-2",
                                       ".tmp-1-2-3-4",
                                       ".tmp-1-2-x",
                                       ".tmp-1--3",
                                       ".tmp-",
                                       ".entry",
                                       ".tmp-1-2-3 ",
                                       "x.tmp-1-2-3"};
enum { NOT_OURS = sizeof not_ours / sizeof *not_ours };

TEST(test_only_our_names_are_removed)
{
    for (int i = 0; i < NOT_OURS; i++) {
        write_whole(path_in(dir, not_ours[i]), "x", 1);
        set_age(path_in(dir, not_ours[i]), 100000000);
    }
    assert_int_equal(mkdir(path_in(dir, "sub"), 0700), 0);
    put_numbered(cache, 1, 100, 0);
    write_whole(path_in(dir, ".tmp-1-2-3"), "fresh", 5);
    write_whole(path_in(dir, ".tmp-1-2-4"), "stale", 5);
    set_age(path_in(dir, ".tmp-1-2-3"), 3000);
    set_age(path_in(dir, ".tmp-1-2-4"), 4000);
    assert_int_equal(stats_of(cache).temporaries, 2);
    assert_int_equal(stats_of(cache).entries, 1);
    ptxpack_cache_swept swept;
    assert_true(ptxpack_cache_trim(cache, UINT64_MAX, &swept));
    assert_int_equal(swept.temporaries, 1);
    assert_true(exists(path_in(dir, ".tmp-1-2-3")) && !exists(path_in(dir, ".tmp-1-2-4")));
    assert_true(ptxpack_cache_clear(cache, &swept));
    assert_int_equal(swept.temporaries, 1);
    assert_int_equal(swept.removed, 1);
    assert_int_equal(stats_of(cache).entries + stats_of(cache).temporaries, 0);
    for (int i = 0; i < NOT_OURS; i++)
        assert_true(exists(path_in(dir, not_ours[i])));
    assert_int_equal(count_files(dir, ""), NOT_OURS + 3); /* sub, the tag, the lock file */
}

TEST(test_puts_sweep_stale_temporaries)
{
    write_whole(path_in(dir, ".tmp-9-9-9"), "stale", 5);
    set_age(path_in(dir, ".tmp-9-9-9"), 4000);
    put_numbered(cache, 1, 100, 0);
    assert_false(exists(path_in(dir, ".tmp-9-9-9")));
}

TEST(test_cleaner_looks_again_before_removing)
{
    put_numbered(cache, 1, 100, 5000);
    ptxpack_cache_key *key = numbered(1);
    int                dirfd = open(dir, O_RDONLY | O_DIRECTORY);
    char               name[PTXPACK_CACHE_NAME];
    struct stat        seen;
    ptxpack_cache_entry_name(key, name);
    assert_int_equal(fstatat(dirfd, name, &seen, 0), 0);
    set_age(entry_path(cache, key), 10); /* it was used meanwhile */
    assert_false(ptxpack_cache_unlink_seen(dirfd, name, &seen));
    assert_int_equal(fstatat(dirfd, name, &seen, 0), 0);
    const struct timespec moment[2] = {seen.st_mtim, {seen.st_mtim.tv_sec, seen.st_mtim.tv_nsec ^ 1}};
    assert_int_equal(utimensat(dirfd, name, moment, 0), 0); /* used a moment later */
    assert_false(ptxpack_cache_unlink_seen(dirfd, name, &seen));
    assert_int_equal(fstatat(dirfd, name, &seen, 0), 0);
    assert_true(put_text(cache, key, "new")); /* it was replaced meanwhile */
    assert_false(ptxpack_cache_unlink_seen(dirfd, name, &seen));
    assert_true(has_text(cache, key, "new"));
    assert_int_equal(fstatat(dirfd, name, &seen, 0), 0);
    assert_true(ptxpack_cache_unlink_seen(dirfd, name, &seen));
    assert_false(ptxpack_cache_unlink_seen(dirfd, name, &seen)); /* it was removed meanwhile */

    /* While another process cleans, a put does not clean; trim does, with the lock or without. */
    put_numbered(cache, 2, 100, 8000000);
    int lock = ptxpack_cache_try_lock(dirfd, PTXPACK_CACHE_CLEANER_BYTE);
    assert_true(lock >= 0);
    ptxpack_cache *other = open_with((ptxpack_cache_options){.max_age_s = 1000});
    put_numbered(other, 3, 100, 0);
    assert_true(numbered_is_there(2));
    assert_true(ptxpack_cache_trim(other, UINT64_MAX, NULL));
    assert_false(numbered_is_there(2));
    close(lock);
    ptxpack_cache_close(other);
    close(dirfd);
    ptxpack_cache_key_free(key);
}

RUN_TESTS(NULL, NULL)
