/* flight.c - all threads and handles that need a kernel share one compilation, also when processes fork. */
#include "jit_fixture.h"
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include "loader/internal.h"

#define BEFORE_EACH reset_compiler
#define AFTER_EACH  NULL

enum { THREADS = 32 };
struct asker {
    pthread_t          thread;
    pthread_barrier_t *start;
    ptxpack           *handle;
    ptxpack_status     status;
    ptxpack_kernel    *kernel; /* when the handle can load */
    char               detail[512];
};

static void *ask(void *context)
{
    struct asker *a = (struct asker *)context;
    pthread_barrier_wait(a->start);
    a->status = ptxpack_driver_table(a->handle) != NULL
                    ? load_row(a->handle, &row, &a->kernel)
                    : ptxpack_kernel_compile(a->handle, &row, which, 1, NULL, NULL, NULL);
    snprintf(a->detail, sizeof a->detail, "%s", ptxpack_detail(a->handle));
    return NULL;
}

static void ask_all(struct asker *askers)
{
    pthread_barrier_t start;
    assert_int_equal(pthread_barrier_init(&start, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++) {
        askers[i].start = &start;
        assert_int_equal(pthread_create(&askers[i].thread, NULL, ask, &askers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(askers[i].thread, NULL), 0);
    pthread_barrier_destroy(&start);
}

TEST(test_one_handle_one_compilation)
{
    struct asker    askers[THREADS] = {0};
    ptxpack_options options = {.size = sizeof options};
    setenv("FAKE_CUDA", "", 1);
    setenv("FAKE_PTXJIT", "ms=50", 1);
    options.driver = fresh_copy("fake_driver.so");
    options.ptxjit = compiler = fresh_copy("fake_ptxjit.so");
    options.no_cache = true;
    ptxpack *handle = open_with(&options);
    for (int i = 0; i < THREADS; i++)
        askers[i].handle = handle;
    ask_all(askers);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(askers[i].status, PTXPACK_OK);
        assert_ptr_equal(askers[i].kernel, askers[0].kernel);
    }
    assert_int_equal(compilations(), 1);
    assert_int_equal(record_of(options.driver)->loads, 1);
    ptxpack_close(handle);
}

TEST(test_many_handles_one_compilation)
{
    struct asker askers[THREADS] = {0};
    for (int no_cache = 0; no_cache < 2; no_cache++) {
        setenv("FAKE_PTXJIT", "ms=300", 1);
        compiler = NULL;
        for (int i = 0; i < THREADS; i++)
            askers[i].handle = open_offline(no_cache ? "sm_89" : "sm_90", no_cache);
        ask_all(askers);
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(askers[i].status, PTXPACK_OK);
            ptxpack_close(askers[i].handle);
        }
        assert_int_equal(compilations(), 1);
    }
}

TEST(test_shared_failure)
{
    struct asker askers[THREADS] = {0};
    char         cubin[128];
    setenv("FAKE_PTXJIT", "ms=300 line=7", 1);
    for (int i = 0; i < THREADS; i++)
        askers[i].handle = open_offline("sm_90", false);
    ask_all(askers);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(askers[i].status, PTXPACK_E_COMPILE);
        assert_has(askers[i].detail, "kernel/test.ptx:10");
    }
    assert_int_equal(compilations(), 1);
    setenv("FAKE_PTXJIT", "", 1);
    assert_false(compile(askers[0].handle, which, cubin, sizeof cubin));
    for (int i = 0; i < THREADS; i++)
        ptxpack_close(askers[i].handle);
}

/* A handle that waits together with one that forbids compiling is not refused because of it. */
TEST(test_forbidden_for_one_only)
{
    struct asker      forbidding = {0}, other = {0};
    pthread_barrier_t start;
    ptxpack_options   options = {.size = sizeof options,
                                 .offline = true,
                                 .arch = "sm_90",
                                 .forbid_compile = true};
    other.handle = open_offline("sm_90", false);
    options.ptxjit = compiler;
    assert_int_equal(ptxpack_open(&options, &forbidding.handle), PTXPACK_OK);
    ptxpack_cache_key *key = key_of_row(other.handle);
    int lock = ptxpack_cache_lock(ptxpack_cache_of(other.handle), key, 0); /* the first thread waits for it */
    assert_int_not_equal(lock, -1);
    forbidding.start = other.start = &start;
    assert_int_equal(pthread_barrier_init(&start, NULL, 1), 0);
    assert_int_equal(pthread_create(&forbidding.thread, NULL, ask, &forbidding), 0);
    usleep(100000);
    assert_int_equal(pthread_create(&other.thread, NULL, ask, &other), 0);
    usleep(100000);
    ptxpack_cache_unlock(ptxpack_cache_of(other.handle), lock);
    assert_int_equal(pthread_join(forbidding.thread, NULL), 0);
    assert_int_equal(pthread_join(other.thread, NULL), 0);
    assert_int_equal(forbidding.status, PTXPACK_E_FORBIDDEN);
    assert_int_equal(other.status, PTXPACK_OK);
    assert_int_equal(compilations(), 1);
    pthread_barrier_destroy(&start);
    ptxpack_cache_key_free(key);
    ptxpack_close(forbidding.handle);
    ptxpack_close(other.handle);
}

static atomic_bool enough;

static void *open_and_close(void *context)
{
    (void)context;
    while (!atomic_load(&enough))
        ptxpack_close(open_offline("sm_80", true));
    return NULL;
}

/* After a fork no lock of the dynamic linker is held by a thread that the child does not have. */
TEST(test_fork_while_opening)
{
    enum { OPENERS = 4, CHILDREN = 200 };
    pthread_t threads[OPENERS];
    int       status = 0;
    ptxpack_close(open_offline("sm_80", true)); /* it chooses the compiler for all */
    atomic_store(&enough, false);
    for (int i = 0; i < OPENERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_and_close, NULL), 0);
    for (int i = 0; i < CHILDREN && status == 0; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            alarm(10);
            ptxpack_close(open_offline("sm_80", true));
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    atomic_store(&enough, true);
    for (int i = 0; i < OPENERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(status, 0);
}

/* A child that is forked in the middle of a compilation compiles again, and does not wait for its parent. */
TEST(test_fork_during_compilation)
{
    struct asker      a = {0};
    pthread_barrier_t start;
    char              cubin[128];
    int               status = -1;
    setenv("FAKE_PTXJIT", "ms=500", 1);
    a.handle = open_offline("sm_90", true);
    a.start = &start;
    assert_int_equal(pthread_barrier_init(&start, NULL, 2), 0);
    assert_int_equal(pthread_create(&a.thread, NULL, ask, &a), 0);
    pthread_barrier_wait(&start);
    usleep(200000); /* it is compiling now */
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(10); /* the test ends instead of waiting for ever */
        setenv("FAKE_PTXJIT", "", 1);
        compile(open_offline("sm_90", true), which, cubin, sizeof cubin);
        _exit(strstr(cubin, "compiled") != NULL ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(pthread_join(a.thread, NULL), 0);
    assert_int_equal(a.status, PTXPACK_OK);
    pthread_barrier_destroy(&start);
    ptxpack_close(a.handle);
}

RUN_TESTS(make_folder, remove_folder)
