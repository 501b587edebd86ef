/* stress.c - the cache under stress: writers are killed, many processes use an empty cache, files are damaged
 * while they are read, the file system is full.  A wrong payload or a crash is a failure; a miss never is.
 *
 *   stress_cache [seed]     PTXPACK_TEST_SEED also sets the seed, which is printed */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "cache/cache.h"

enum { KILLS = 200, HERD = 64, SHARED_KEYS = 8, KEYS = 12, MAX_PAYLOAD = 300000 };

/* What all processes of the test share. */
typedef struct board {
    _Atomic int compiles, hits, wrong, puts, corrupt;
} board;

static board   *shared;
static char     dir[4096], scratch[4096];
static uint64_t seed;

static int  failures;
static void check(bool good, const char *format, ...)
{
    va_list arguments;
    if (good)
        return;
    failures++;
    va_start(arguments, format);
    fputs("FAIL: ", stdout);
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
}

static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t draw(uint64_t *state) { return mix((*state)++); }

static void nap_us(long us)
{
    struct timespec t = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&t, NULL);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- entries whose every byte is known ---------------------------------------------------------- */

static ptxpack_cache_key *key_number(int number)
{
    ptxpack_cache_key *key = ptxpack_cache_key_create();
    ptxpack_cache_key_add_u64(key, "number", (uint64_t)number);
    return key;
}

/* Length and bytes follow from the number and the generation, which is in front of both the payload and
 * the metadata: halves of two writes cannot look like one. */
static size_t payload_of(int number, uint64_t generation, uint8_t *out)
{
    uint64_t     state = mix((uint64_t)number << 32 | generation);
    const size_t bytes = 8 + (size_t)(draw(&state) % (MAX_PAYLOAD >> draw(&state) % 8));
    memcpy(out, &generation, 8);
    for (size_t i = 8; i < bytes; i += 8) {
        uint64_t word = draw(&state);
        memcpy(out + i, &word, bytes - i < 8 ? bytes - i : 8);
    }
    return bytes;
}

static bool put_number(ptxpack_cache *cache, int number, uint64_t generation)
{
    static uint8_t     payload[MAX_PAYLOAD + 16];
    ptxpack_cache_key *key = key_number(number);
    size_t             bytes = payload_of(number, generation, payload);
    bool               stored = ptxpack_cache_put(cache, key, "stress", &generation, 8, payload, bytes);
    ptxpack_cache_key_free(key);
    return stored;
}

/* Returns 1 for a hit with the right bytes, 0 for a miss, -1 for anything else. */
static int get_number(ptxpack_cache *cache, int number)
{
    static uint8_t      want[MAX_PAYLOAD + 16];
    ptxpack_cache_key  *key = key_number(number);
    ptxpack_cache_entry entry;
    int                 result = 0;
    if (ptxpack_cache_get(cache, key, &entry)) {
        uint64_t generation = 0;
        if (entry.payload_bytes >= 8)
            memcpy(&generation, entry.payload, 8);
        size_t bytes = payload_of(number, generation, want);
        result = bytes == entry.payload_bytes && !memcmp(want, entry.payload, bytes) &&
                         entry.metadata_bytes == 8 && !memcmp(entry.metadata, &generation, 8) &&
                         !strcmp(entry.label, "stress")
                     ? 1
                     : -1;
    }
    ptxpack_cache_entry_free(&entry);
    ptxpack_cache_key_free(key);
    return result;
}

static ptxpack_cache *open_cache(uint64_t max_bytes)
{
    ptxpack_cache_options options = {.size = sizeof options, .dir = dir, .max_bytes = max_bytes};
    ptxpack_cache        *cache = ptxpack_cache_open(&options);
    if (cache == NULL || !ptxpack_cache_enabled(cache)) {
        printf("FAIL: %s\n", ptxpack_cache_detail(cache));
        exit(1);
    }
    return cache;
}

static ptxpack_cache_stats stats_of(ptxpack_cache *cache)
{
    ptxpack_cache_stats stats = {.size = sizeof stats};
    ptxpack_cache_get_stats(cache, &stats);
    return stats;
}

static ptxpack_cache_step count_bad(const ptxpack_cache_info *info, void *user)
{
    *(int *)user += info->state != PTXPACK_CACHE_GOOD;
    return PTXPACK_CACHE_NEXT;
}

static int bad_entries(ptxpack_cache *cache)
{
    int bad = 0;
    check(ptxpack_cache_each(cache, true, count_bad, &bad), "the directory cannot be listed");
    return bad;
}

/* ---- 1. writers killed -------------------------------------------------------------------------- */

static void write_for_ever(int ready, uint64_t round)
{
    ptxpack_cache *cache = open_cache(UINT64_C(1) << 30);
    uint64_t       state = mix(seed ^ round << 20);
    if (write(ready, "r", 1) != 1)
        _exit(1);
    for (uint64_t generation = round << 32;; generation++)
        put_number(cache, (int)(draw(&state) % KEYS), generation);
}

static void kill_writers(void)
{
    ptxpack_cache *cache = open_cache(UINT64_C(1) << 30);
    uint64_t       state = mix(seed ^ 1);
    int            hits = 0, wrong = 0;
    for (uint64_t round = 0; round < KILLS; round++) {
        int  ends[2];
        char ready;
        check(pipe2(ends, O_CLOEXEC) == 0, "pipe: %s", strerror(errno));
        pid_t pid = fork();
        if (pid == 0)
            write_for_ever(ends[1], round);
        close(ends[1]);
        check(read(ends[0], &ready, 1) == 1, "writer %d did not start", (int)round);
        close(ends[0]);
        nap_us((long)(draw(&state) % 6000));
        int status = 0;
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "a writer died by itself: %#x", status);
        for (int i = 0; i < KEYS; i++) {
            int got = get_number(cache, i);
            hits += got > 0;
            wrong += got < 0;
        }
    }
    ptxpack_cache_stats s = stats_of(cache);
    int                 bad = bad_entries(cache);
    printf("killed writers: %d kills, %d hits, %d wrong, %d torn entries, %d temporaries left behind\n", KILLS,
           hits, wrong, bad, (int)s.temporaries);
    check(wrong == 0 && bad == 0 && s.corrupt == 0, "a killed writer left a bad entry");
    check(hits > KILLS, "too few hits to tell anything");
    check(s.temporaries > 0, "no kill came in the middle of a write: nothing was tested");
    check(ptxpack_cache_clear(cache, NULL), "clear: %s", ptxpack_cache_detail(cache));
    s = stats_of(cache);
    check(s.entries + s.temporaries == 0, "clear left something");
    ptxpack_cache_close(cache);
}

/* ---- 2. many processes on an empty cache -------------------------------------------------------- */

static void use_one(ptxpack_cache *cache, int number)
{
    int got = get_number(cache, number);
    if (!got) {
        ptxpack_cache_key *key = key_number(number);
        int                lock = ptxpack_cache_lock(cache, key, 10000);
        got = get_number(cache, number);
        if (!got) {
            nap_us(20000); /* as long as a compiler would take */
            atomic_fetch_add(&shared->compiles, 1);
            atomic_fetch_add(&shared->puts, put_number(cache, number, 0));
            got = 1;
        } else {
            atomic_fetch_add(&shared->hits, 1);
        }
        ptxpack_cache_unlock(cache, lock);
        ptxpack_cache_key_free(key);
    } else {
        atomic_fetch_add(&shared->hits, 1);
    }
    atomic_fetch_add(&shared->wrong, got < 0);
}

static void herd_member(int member)
{
    ptxpack_cache *cache = open_cache(UINT64_C(1) << 30);
    uint64_t       state = mix(seed ^ (uint64_t)member << 8);
    int            start = (int)(draw(&state) % SHARED_KEYS);
    for (int i = 0; i < SHARED_KEYS; i++)
        use_one(cache, (start + i) % SHARED_KEYS);
    use_one(cache, 1000 + member);
    ptxpack_cache_close(cache);
}

/* Runs `body` in `count` processes at once; returns how many did not exit with 0. */
static int in_processes(int count, void (*body)(int))
{
    int bad = 0, status;
    fflush(NULL);
    for (int i = 0; i < count; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            body(i);
            _exit(0);
        }
        check(pid > 0, "fork: %s", strerror(errno));
    }
    while (wait(&status) > 0)
        bad += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    return bad;
}

static void herd(bool locks)
{
    char lock_file[4200];
    memset(shared, 0, sizeof *shared);
    ptxpack_cache *cache = open_cache(UINT64_C(1) << 30);
    check(ptxpack_cache_clear(cache, NULL), "clear: %s", ptxpack_cache_detail(cache));
    snprintf(lock_file, sizeof lock_file, "%s/.lock", dir);
    unlink(lock_file);
    if (!locks)
        check(mkdir(lock_file, 0700) == 0, "mkdir: %s", strerror(errno));
    double start = now_s();
    int    bad = in_processes(HERD, herd_member);
    double seconds = now_s() - start;
    if (!locks)
        rmdir(lock_file);
    const int compiles = shared->compiles, lookups = HERD * (SHARED_KEYS + 1);
    printf("herd of %d, %s: %d look-ups, %d compiles (%d are needed), %d wrong, %.2f s\n", HERD,
           locks ? "locks work" : "no locks", lookups, compiles, SHARED_KEYS + HERD, shared->wrong, seconds);
    check(bad == 0, "%d processes of the herd failed", bad);
    check(shared->wrong == 0, "a wrong payload");
    check(shared->hits + compiles == lookups, "look-ups got lost");
    check(shared->puts == compiles, "a put failed");
    check(compiles >= SHARED_KEYS + HERD, "less was compiled than there is");
    if (locks)
        check(compiles <= SHARED_KEYS + HERD + SHARED_KEYS, "the locks do not share the work");
    check(bad_entries(cache) == 0, "bad entries after the herd");
    check(stats_of(cache).entries == SHARED_KEYS + HERD, "entries are missing after the herd");
    check(stats_of(cache).temporaries == 0, "temporaries are left after the herd");
    ptxpack_cache_close(cache);
}

/* ---- 3. everything at once: damage, removal, eviction, killed processes ------------------------- */

static ptxpack_cache_step damage(const ptxpack_cache_info *info, void *user)
{
    uint64_t *state = (uint64_t *)user;
    char      path[4200];
    if (draw(state) % 3)
        return PTXPACK_CACHE_NEXT;
    snprintf(path, sizeof path, "%s/%s.entry", dir, info->name);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return PTXPACK_CACHE_NEXT;
    uint64_t noise = draw(state);
    off_t    at = (off_t)(draw(state) % (info->file_bytes + 1));
    if (draw(state) % 2)
        (void)!pwrite(fd, &noise, 1 + noise % 8, at);
    else
        (void)!ftruncate(fd, at);
    close(fd);
    return PTXPACK_CACHE_NEXT;
}

static void vandal(ptxpack_cache *cache, uint64_t *state)
{
    ptxpack_cache_key *key = key_number((int)(draw(state) % KEYS));
    switch (draw(state) % 5) {
    case 0:
    case 1:
        ptxpack_cache_each(cache, false, damage, state);
        break;
    case 2:
        ptxpack_cache_remove(cache, key);
        break;
    case 3:
        ptxpack_cache_trim(cache, draw(state) % 500000, NULL);
        break;
    default:
        ptxpack_cache_clear(cache, NULL);
    }
    ptxpack_cache_key_free(key);
}

static void chaos_member(int member)
{
    ptxpack_cache *cache = open_cache(1 << 20);
    uint64_t       state = mix(seed ^ (uint64_t)member << 40);
    for (uint64_t i = 0; i < 40; i++) {
        int number = (int)(draw(&state) % KEYS);
        int got = get_number(cache, number);
        atomic_fetch_add(&shared->hits, got > 0);
        atomic_fetch_add(&shared->wrong, got < 0);
        ptxpack_cache_key *key = key_number(number);
        int                lock = got > 0 ? -1 : ptxpack_cache_lock(cache, key, 5);
        if (got <= 0)
            atomic_fetch_add(&shared->puts, put_number(cache, number, (uint64_t)member << 32 | i));
        if (member % 16 == 3 && i == 20)
            kill(getpid(), SIGKILL); /* with the lock or without */
        ptxpack_cache_unlock(cache, lock);
        ptxpack_cache_key_free(key);
        if (member % 8 == 0)
            vandal(cache, &state);
    }
    atomic_fetch_add(&shared->corrupt, (int)stats_of(cache).corrupt);
    ptxpack_cache_close(cache);
}

static void chaos(void)
{
    memset(shared, 0, sizeof *shared);
    double         start = now_s();
    int            bad = in_processes(HERD, chaos_member);
    ptxpack_cache *cache = open_cache(1 << 20);
    printf("chaos of %d: %d hits, %d puts, %d damaged files met, %d wrong, %.2f s\n", HERD, shared->hits,
           shared->puts, shared->corrupt, shared->wrong, now_s() - start);
    check(bad == HERD / 16, "%d processes died, not the %d that were meant to", bad, HERD / 16);
    check(shared->wrong == 0, "a wrong payload");
    check(shared->hits > 0 && shared->puts > 0 && shared->corrupt > 0, "nothing happened");
    for (int i = 0; i < KEYS; i++) { /* whatever is there now can be used and repaired */
        int got = get_number(cache, i);
        check(got >= 0, "a wrong payload after the chaos");
        check(got > 0 || put_number(cache, i, 7), "cannot be mended: %s", ptxpack_cache_detail(cache));
        check(get_number(cache, i) > 0 || stats_of(cache).evicted > 0, "mended, but not there");
    }
    check(stats_of(cache).bytes <= 1 << 20, "over the cap");
    ptxpack_cache_clear(cache, NULL);
    ptxpack_cache_close(cache);
}

/* ---- 4. a full file system ---------------------------------------------------------------------- */

static void fill_it(int expected)
{
    ptxpack_cache *cache = open_cache(UINT64_C(1) << 30);
    int            stored = 0, refused = 0, wrong = 0;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 60; i++) {
            if (put_number(cache, i, (uint64_t)round)) {
                stored++;
                continue;
            }
            refused++;
            const char *line = ptxpack_cache_detail(cache);
            check(strstr(line, "not cached: ") != NULL && strstr(line, strerror(expected)) != NULL,
                  "unclear: '%s'", line);
        }
        for (int i = 0; i < 60; i++)
            wrong += get_number(cache, i) < 0;
    }
    ptxpack_cache_stats s = stats_of(cache);
    printf("  %d stored, %d refused, %d wrong, %d temporaries left\n", stored, refused, wrong,
           (int)s.temporaries);
    check(stored > 0 && refused > 0, "it was never full, or always");
    check(wrong == 0 && s.corrupt == 0 && bad_entries(cache) == 0, "a bad entry on a full file system");
    check(s.temporaries == 0, "temporaries fill the file system");
    check((int)s.refused == refused && (int)s.stores == stored, "the counters are wrong");
    if (expected == ENOSPC) {
        check(ptxpack_cache_clear(cache, NULL), "clear on a full one: %s", ptxpack_cache_detail(cache));
        int small = 0;
        while (small < 60 && !put_number(cache, small, 0))
            small++;
        check(small < 60 && get_number(cache, small) == 1, "no use when there is room again");
    }
    ptxpack_cache_close(cache);
}

static void fill_up(void)
{
    char plain[4096];
    memcpy(plain, dir, sizeof plain);
    snprintf(dir, sizeof dir, "%.4000s/small", scratch);
    mkdir(dir, 0700);
    if (mount("none", dir, "tmpfs", 0, "size=256k,mode=0700") == 0) {
        puts("full file system: a tmpfs of 256 KiB");
        fill_it(ENOSPC);
        check(umount(dir) == 0, "umount: %s", strerror(errno));
    } else {
        printf("full file system: no tmpfs can be mounted (%s)\n", strerror(errno));
    }
    puts("file size limit: RLIMIT_FSIZE of 64 KiB, SIGXFSZ deadly as ever");
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit limit = {65536, 65536};
        check(setrlimit(RLIMIT_FSIZE, &limit) == 0, "setrlimit: %s", strerror(errno));
        fill_it(EFBIG);
        fflush(NULL);
        _exit(failures != 0);
    }
    int status = 0;
    check(waitpid(pid, &status, 0) == pid && status == 0, "under RLIMIT_FSIZE: status %#x", status);
    memcpy(dir, plain, sizeof dir);
}

static int unlink_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

int main(int argc, char **argv)
{
    const char  *text = argc > 1 ? argv[1] : getenv("PTXPACK_TEST_SEED"), *base = getenv("TMPDIR");
    const double start = now_s();
    seed = text != NULL ? strtoull(text, NULL, 0) : 20240229;
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("stress_cache: seed %llu\n", (unsigned long long)seed);
    snprintf(scratch, sizeof scratch, "%.4000s/ptxpack-cache-stress-XXXXXX",
             base != NULL && *base ? base : "/tmp");
    shared = (board *)mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || mkdtemp(scratch) == NULL) {
        printf("FAIL: %s: %s\n", scratch, strerror(errno));
        return 1;
    }
    snprintf(dir, sizeof dir, "%.4000s/cache", scratch);
    kill_writers();
    herd(true);
    herd(false);
    chaos();
    fill_up();
    nftw(scratch, unlink_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    printf("%s: %d failures, %.1f s\n", failures ? "FAIL" : "PASS", failures, now_s() - start);
    return failures != 0;
}
