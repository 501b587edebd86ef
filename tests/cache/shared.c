/* shared.c - the cache: locks, threads, forks, limits of the process. */
#include <pthread.h>
#include <sys/resource.h>
#include "handle.h"

#define BEFORE_EACH set_up
#define AFTER_EACH  tear_down

/* ---- locks -------------------------------------------------------------------------------------- */

static double seconds_since(const struct timespec *start)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + 1e-9 * (double)(now.tv_nsec - start->tv_nsec);
}

TEST(test_lock_excludes_and_times_out)
{
    ptxpack_cache_key *a = key_of("a"), *b = key_of("b");
    ptxpack_cache     *other = open_with((ptxpack_cache_options){.size = 0});
    struct timespec    start;
    int                lock = ptxpack_cache_lock(cache, a, 0);
    assert_true(lock >= 0);
    int second = ptxpack_cache_lock(other, b, 0);
    assert_true(second >= 0); /* another key */
    clock_gettime(CLOCK_MONOTONIC, &start);
    assert_int_equal(ptxpack_cache_lock(cache, a, 100), -1);
    assert_true(seconds_since(&start) > 0.09 && seconds_since(&start) < 5);
    assert_int_equal(ptxpack_cache_lock(other, a, 0), -1);
    assert_true(put_text(other, a, "made without the lock")); /* this is correct without any lock */
    ptxpack_cache_unlock(cache, lock);
    lock = ptxpack_cache_lock(other, a, 0);
    assert_true(lock >= 0);
    ptxpack_cache_unlock(other, lock);
    ptxpack_cache_unlock(other, second);
    for (int i = 0; i < 300; i++) { /* locks leave no files */
        ptxpack_cache_key *key = numbered(i);
        lock = ptxpack_cache_lock(cache, key, 0);
        assert_true(lock >= 0);
        ptxpack_cache_unlock(cache, lock);
        ptxpack_cache_key_free(key);
    }
    assert_int_equal(count_files(dir, ".lock"), 1);
    ptxpack_cache_close(other);
    ptxpack_cache_key_free(a);
    ptxpack_cache_key_free(b);
}

/* Starts a child that takes the lock of `key`, reports it through a pipe, and waits to be killed. */
static pid_t start_holder(const ptxpack_cache_key *key)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char ok = ptxpack_cache_lock(cache, key, 0) >= 0 ? 'y' : 'n';
        if (write(ends[1], &ok, 1) == 1)
            for (;;)
                pause();
        _exit(1);
    }
    char ok = 0;
    assert_int_equal(read(ends[0], &ok, 1), 1);
    assert_int_equal(ok, 'y');
    close(ends[0]);
    close(ends[1]);
    return pid;
}

TEST(test_killed_holder_blocks_nobody)
{
    ptxpack_cache_key *key = key_of("a");
    struct timespec    start;
    pid_t              holder = start_holder(key);
    assert_int_equal(ptxpack_cache_lock(cache, key, 50), -1);
    assert_int_equal(kill(holder, SIGKILL), 0);
    assert_int_equal(waitpid(holder, NULL, 0), holder);
    clock_gettime(CLOCK_MONOTONIC, &start);
    int lock = ptxpack_cache_lock(cache, key, 60000);
    assert_true(lock >= 0);
    assert_true(seconds_since(&start) < 5);
    ptxpack_cache_unlock(cache, lock);
    ptxpack_cache_key_free(key);
}

static void *put_soon(void *user)
{
    nanosleep(&(struct timespec){0, 50000000}, NULL);
    return put_text(cache, (ptxpack_cache_key *)user, "payload") ? user : NULL;
}

TEST(test_wait_ends_when_the_entry_appears)
{
    ptxpack_cache_key *key = key_of("a");
    pid_t              holder = start_holder(key); /* it never releases the lock */
    pthread_t          writer;
    struct timespec    start;
    void              *stored;
    clock_gettime(CLOCK_MONOTONIC, &start);
    assert_int_equal(pthread_create(&writer, NULL, put_soon, key), 0);
    assert_int_equal(ptxpack_cache_lock(cache, key, 60000), -1);
    assert_true(seconds_since(&start) < 10);
    assert_true(has_text(cache, key, "payload"));
    pthread_join(writer, &stored);
    assert_non_null(stored);
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    ptxpack_cache_key_free(key);
}

TEST(test_locks_may_not_work)
{
    ptxpack_cache_key *key = key_of("a");
    struct timespec    start;
    unlink(path_in(dir, ".lock"));
    assert_int_equal(mkdir(path_in(dir, ".lock"), 0700), 0);
    clock_gettime(CLOCK_MONOTONIC, &start);
    assert_int_equal(ptxpack_cache_lock(cache, key, 60000), -1);
    assert_true(seconds_since(&start) < 5);
    assert_true(put_text(cache, key, "payload"));
    assert_true(has_text(cache, key, "payload"));
    assert_true(ptxpack_cache_trim(cache, 0, NULL));
    assert_int_equal(stats_of(cache).entries, 0);
    ptxpack_cache_key_free(key);
}

/* ---- threads, forks, limits --------------------------------------------------------------------- */

enum { THREADS = 8, ROUNDS = 60, KEYS = 5 };

static void *hammer(void *user)
{
    intptr_t wrong = 0, seed = (intptr_t)user;
    for (int i = 0; i < ROUNDS; i++) {
        char text[64];
        int  which = (int)((seed * 31 + i * 7) % KEYS);
        snprintf(text, sizeof text, "payload of %d", which);
        ptxpack_cache_key  *key = numbered(which);
        ptxpack_cache_entry entry;
        int                 lock = i % 3 ? -1 : ptxpack_cache_lock(cache, key, 20);
        if (ptxpack_cache_get(cache, key, &entry))
            wrong += entry.payload_bytes != strlen(text) || memcmp(entry.payload, text, entry.payload_bytes);
        else
            wrong += !put_text(cache, key, text);
        ptxpack_cache_entry_free(&entry);
        ptxpack_cache_unlock(cache, lock);
        if (i % 20 == 10)
            ptxpack_cache_remove(cache, key);
        if (i % 30 == 29)
            ptxpack_cache_trim(cache, 300, NULL);
        wrong += *ptxpack_cache_detail(cache) != '\0';
        ptxpack_cache_key_free(key);
    }
    return (void *)wrong;
}

TEST(test_threads_share_a_handle)
{
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    ptxpack_cache_stats s = stats_of(cache);
    assert_int_equal(s.hits + s.misses, THREADS * ROUNDS);
    assert_int_equal(s.stores, s.misses);
    assert_int_equal(s.corrupt + s.refused + s.temporaries, 0);
}

static int use_after_fork(void *user)
{
    ptxpack_cache_key *key = (ptxpack_cache_key *)user, *own = key_of("child");
    CHILD_CHECK(has_text(cache, key, "payload"));
    CHILD_CHECK(put_text(cache, own, "from the child"));
    CHILD_CHECK(stats_of(cache).entries == 2);
    ptxpack_cache_close(cache);
    return 0;
}

TEST(test_fork)
{
    ptxpack_cache_key *key = key_of("a"), *own = key_of("child");
    assert_true(put_text(cache, key, "payload"));
    assert_int_equal(in_child(-1, use_after_fork, key), 0);
    assert_true(has_text(cache, own, "from the child"));
    ptxpack_cache_key_free(key);
    ptxpack_cache_key_free(own);
}

static int put_over_limits(void *user)
{
    ptxpack_cache_key *key = (ptxpack_cache_key *)user;
    struct rlimit      limit = {4096, 4096};
    static char        payload[8192];
    CHILD_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0); /* SIGXFSZ still ends the process */
    CHILD_CHECK(!ptxpack_cache_put(cache, key, "l", NULL, 0, payload, sizeof payload));
    CHILD_CHECK(strstr(ptxpack_cache_detail(cache), "not cached: "));
    CHILD_CHECK(put_text(cache, key, "small"));
    CHILD_CHECK(has_text(cache, key, "small"));
    CHILD_CHECK(count_files(dir, ".tmp") == 0);
    for (int fd = dup(0); fd >= 0; fd = dup(0)) /* no descriptor is left */
        ;
    CHILD_CHECK(!has_text(cache, key, "small"));
    CHILD_CHECK(strlen(ptxpack_cache_detail(cache)) > 0);
    CHILD_CHECK(!put_text(cache, key, "small"));
    CHILD_CHECK(ptxpack_cache_lock(cache, key, 1000) == -1);
    close(5);
    close(6);
    close(7);
    CHILD_CHECK(has_text(cache, key, "small"));
    return 0;
}

TEST(test_process_limits)
{
    ptxpack_cache_key *key = key_of("a");
    assert_int_equal(in_child(-1, put_over_limits, key), 0);
    ptxpack_cache_key_free(key);
}

TEST(test_no_descriptor_leaks)
{
    size_t before = count_files("/proc/self/fd", "");
    for (int i = 0; i < 3; i++) {
        ptxpack_cache_state seen;
        test_lock_excludes_and_times_out(state);
        for (int which = 0; which < 4; which++) {
            ptxpack_cache_key *key = numbered(which);
            assert_true(put_text(cache, key, "payload"));
            if (which % 2)
                write_whole(entry_path(cache, key), "broken", 6);
            assert_int_equal(has_text(cache, key, "payload"), which % 2 == 0);
            ptxpack_cache_key_free(key);
        }
        assert_true(ptxpack_cache_each(cache, true, note_state, &seen));
        assert_true(ptxpack_cache_trim(cache, 0, NULL));
        assert_int_equal(chmod(dir, 0777), 0);
        assert_int_equal(stats_of(cache).entries, 0);
        assert_int_equal(chmod(dir, 0700), 0);
    }
    assert_int_equal(count_files("/proc/self/fd", ""), before);
}

RUN_TESTS(NULL, NULL)
