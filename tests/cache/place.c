/* place.c - the cache: where it lives, its environment, and when its directory is not trusted. */
#include <pwd.h>
#include <sys/mount.h>
#include "fixture.h"

#define BEFORE_EACH set_up
#define AFTER_EACH  tear_down

enum { STRANGER = 4242424 /* a user that no password file knows */ };

static char             *scratch;
static const char *const variables[] = {"PTXPACK_CACHE_DIR",
                                        "PTXPACK_CACHE_DISABLE",
                                        "XDG_CACHE_HOME",
                                        "PTXPACK_CACHE_MAX_SIZE",
                                        "PTXPACK_CACHE_READONLY",
                                        "PTXPACK_CACHE_READONLY_DIRS",
                                        "HOME"};

static void clear_environment(void)
{
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
}

static int set_up(void **state)
{
    (void)state;
    clear_environment();
    scratch = scratch_make();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    clear_environment();
    scratch_remove(scratch);
    return 0;
}

static ptxpack_cache *open_at(const char *dir)
{
    ptxpack_cache_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.dir = dir;
    ptxpack_cache *cache = ptxpack_cache_open(&options);
    assert_non_null(cache);
    return cache;
}

static void check_path(const char *dir, const char *want)
{
    ptxpack_cache *cache = open_at(dir);
    assert_string_equal(ptxpack_cache_path(cache), want);
    assert_string_equal(ptxpack_cache_detail(cache), "");
    assert_true(ptxpack_cache_enabled(cache));
    ptxpack_cache_close(cache);
}

/* Checks that the cache is disabled, with one line that contains `part`. */
static void check_disabled(const char *dir, const char *part)
{
    ptxpack_cache_key *key = key_of("a");
    ptxpack_cache     *cache = open_at(dir);
    assert_false(ptxpack_cache_enabled(cache));
    assert_non_null(strstr(ptxpack_cache_detail(cache), "cache disabled: "));
    if (strstr(ptxpack_cache_detail(cache), part) == NULL)
        fail_msg("no '%s' in '%s'", part, ptxpack_cache_detail(cache));
    assert_null(strchr(ptxpack_cache_detail(cache), '\n'));
    assert_false(put_text(cache, key, "payload"));
    assert_false(has_text(cache, key, "payload"));
    assert_int_equal(stats_of(cache).misses, 1);
    assert_int_equal(ptxpack_cache_lock(cache, key, 1000), -1);
    ptxpack_cache_close(cache);
    ptxpack_cache_key_free(key);
}

/* ---- which directory ---------------------------------------------------------------------------- */

TEST(test_order_of_places)
{
    char want[4096];
    setenv("HOME", path_in(scratch, "home"), 1);
    snprintf(want, sizeof want, "%s/home/.cache/ptxpack", scratch);
    check_path(NULL, want);
    setenv("XDG_CACHE_HOME", "relative/is/ignored", 1);
    check_path(NULL, want);
    setenv("XDG_CACHE_HOME", "", 1);
    check_path(NULL, want);
    setenv("XDG_CACHE_HOME", path_in(scratch, "xdg/"), 1);
    snprintf(want, sizeof want, "%s/xdg/ptxpack", scratch);
    check_path(NULL, want);
    setenv("PTXPACK_CACHE_DIR", path_in(scratch, "own//"), 1);
    snprintf(want, sizeof want, "%s/own", scratch);
    check_path(NULL, want);
    check_path("", want);
    snprintf(want, sizeof want, "%s/option", scratch);
    check_path(want, want);
    struct stat st;
    for (int i = 0; i < 3; i++) {
        static const char *const made[] = {"home/.cache", "home/.cache/ptxpack", "own"};
        assert_int_equal(stat(path_in(scratch, made[i]), &st), 0);
        assert_int_equal(st.st_mode & 07777, 0700);
    }
}

TEST(test_old_callers_options)
{
    struct {
        uint32_t size;
        char     rubbish[sizeof(ptxpack_cache_options)];
    } old = {sizeof old.size, ""};
    memset(old.rubbish, 0xff, sizeof old.rubbish); /* beyond `size`: it must not be read */
    ptxpack_cache_options options;
    memcpy(&options, &old, sizeof options);
    setenv("PTXPACK_CACHE_DIR", path_in(scratch, "own"), 1);
    ptxpack_cache *cache = ptxpack_cache_open(&options);
    assert_true(ptxpack_cache_enabled(cache));
    assert_int_equal(stats_of(cache).max_bytes, UINT64_C(1) << 30);
    assert_int_equal(stats_of(cache).max_age_s, 90 * 86400);
    ptxpack_cache_close(cache);
    cache = ptxpack_cache_open(NULL);
    assert_true(ptxpack_cache_enabled(cache));
    ptxpack_cache_close(cache);
}

TEST(test_relative_directory_survives_chdir)
{
    char              *here = getcwd(NULL, 0);
    ptxpack_cache_key *key = key_of("a");
    assert_int_equal(chdir(scratch), 0);
    setenv("PTXPACK_CACHE_DIR", "./mine", 1);
    ptxpack_cache *cache = open_at(NULL);
    assert_int_equal(chdir("/"), 0);
    assert_true(put_text(cache, key, "payload"));
    assert_true(has_text(cache, key, "payload"));
    assert_int_equal(count_files(path_in(scratch, "mine"), ""), 3);
    assert_int_equal(chdir(here), 0);
    free(here);
    ptxpack_cache_close(cache);
    ptxpack_cache_key_free(key);
}

TEST(test_home_from_the_password_database)
{
    struct passwd *me = getpwuid(geteuid());
    if (me == NULL) {
        puts("SKIP: the user of this test is not in the password database");
        skip();
    }
    char   want[4096];
    size_t end = strlen(me->pw_dir);
    snprintf(want, sizeof want, "%.*s/.cache/ptxpack", (int)(end > 1 ? end : 0), me->pw_dir);
    setenv("PTXPACK_CACHE_READONLY", "1", 1); /* so that nothing is made there */
    ptxpack_cache *cache = open_at(NULL);
    assert_string_equal(ptxpack_cache_path(cache), want);
    ptxpack_cache_close(cache);
    setenv("HOME", "relative", 1);
    cache = open_at(NULL);
    assert_string_equal(ptxpack_cache_path(cache), want);
    ptxpack_cache_close(cache);
}

static int open_without_home(void *user)
{
    (void)user;
    ptxpack_cache *cache = ptxpack_cache_open(NULL);
    CHILD_CHECK(cache && !ptxpack_cache_enabled(cache));
    CHILD_CHECK(!strcmp(ptxpack_cache_path(cache), ""));
    CHILD_CHECK(strstr(ptxpack_cache_detail(cache), "HOME"));
    CHILD_CHECK(strstr(ptxpack_cache_detail(cache), "4242424"));
    ptxpack_cache_close(cache);
    setenv("HOME", "/", 1); /* as containers do */
    cache = ptxpack_cache_open(NULL);
    CHILD_CHECK(cache && !ptxpack_cache_enabled(cache));
    CHILD_CHECK(strstr(ptxpack_cache_detail(cache), "/.cache/ptxpack"));
    CHILD_CHECK(strstr(ptxpack_cache_detail(cache), strerror(EACCES)));
    ptxpack_cache_close(cache);
    return 0;
}

static void need_root(const char *what)
{
    if (geteuid() != 0) {
        printf("SKIP: %s needs root\n", what);
        skip();
    }
}

TEST(test_no_home_at_all)
{
    need_root("becoming a user without a home");
    assert_int_equal(in_child(STRANGER, open_without_home, NULL), 0);
}

/* ---- other variables ---------------------------------------------------------------------------- */

TEST(test_sizes)
{
    static const struct {
        const char *text;
        uint64_t    bytes;
    } good[] = {{"1", 1},
                {"64K", 65536},
                {"64k", 65536},
                {"3M", 3 << 20},
                {"3m", 3 << 20},
                {"2G", UINT64_C(2) << 30},
                {"5g", UINT64_C(5) << 30},
                {"1T", UINT64_C(1) << 40},
                {"007", 7},
                {"18446744073709551615", UINT64_MAX},
                {"16777215T", UINT64_C(16777215) << 40}};
    static const char *const bad[] = {"",          "0",
                                      "0G",        "G",
                                      "-1",        "+1",
                                      " 1",        "1 ",
                                      "1.5G",      "1GB",
                                      "1GiB",      "1KK",
                                      "x",         "1P",
                                      "0x10",      "18446744073709551616",
                                      "16777216T", "99999999999999999999999"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t bytes = 0;
        assert_true(ptxpack_cache_parse_size(good[i].text, &bytes));
        assert_int_equal(bytes, good[i].bytes);
    }
    setenv("PTXPACK_CACHE_DIR", path_in(scratch, "own"), 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t bytes = 77;
        assert_false(ptxpack_cache_parse_size(bad[i], &bytes));
        assert_int_equal(bytes, 77);
        setenv("PTXPACK_CACHE_MAX_SIZE", bad[i], 1);
        ptxpack_cache *cache = open_at(NULL);
        assert_true(ptxpack_cache_enabled(cache));
        assert_int_equal(stats_of(cache).max_bytes, UINT64_C(1) << 30);
        if (*bad[i]) {
            assert_non_null(strstr(ptxpack_cache_detail(cache), "PTXPACK_CACHE_MAX_SIZE="));
            assert_non_null(strstr(ptxpack_cache_detail(cache), bad[i]));
        } else {
            assert_string_equal(ptxpack_cache_detail(cache), "");
        }
        ptxpack_cache_close(cache);
    }
    assert_false(ptxpack_cache_parse_size(NULL, NULL));
    setenv("PTXPACK_CACHE_READONLY", "1", 1);
    setenv("PTXPACK_CACHE_MAX_SIZE", "much", 1);
    ptxpack_cache *reader = open_at(path_in(scratch, "none"));
    assert_true(ptxpack_cache_enabled(reader));
    assert_non_null(strstr(ptxpack_cache_detail(reader), "PTXPACK_CACHE_MAX_SIZE=much"));
    ptxpack_cache_close(reader);
    unsetenv("PTXPACK_CACHE_READONLY");
    setenv("PTXPACK_CACHE_MAX_SIZE", "5M", 1);
    ptxpack_cache_options options = {.size = sizeof options};
    ptxpack_cache        *cache = ptxpack_cache_open(&options);
    assert_int_equal(stats_of(cache).max_bytes, 5 << 20);
    ptxpack_cache_close(cache);
    options.max_bytes = 1 << 20;
    cache = ptxpack_cache_open(&options);
    assert_int_equal(stats_of(cache).max_bytes, 1 << 20);
    ptxpack_cache_close(cache);
}

TEST(test_flags)
{
    static const char *const off[] = {"", "0", "no", "off", "false"};
    static const char *const on[] = {"1", "yes", "true", "on"};
    ptxpack_cache_key       *key = key_of("a");
    setenv("PTXPACK_CACHE_DIR", path_in(scratch, "own"), 1);
    for (size_t i = 0; i < 9; i++) {
        const char *value = i < 5 ? off[i] : on[i - 5];
        setenv("PTXPACK_CACHE_DISABLE", value, 1);
        ptxpack_cache *cache = open_at(NULL);
        assert_int_equal(ptxpack_cache_enabled(cache), i < 5);
        assert_int_equal(strstr(ptxpack_cache_detail(cache), "PTXPACK_CACHE_DISABLE is set") != NULL, i >= 5);
        ptxpack_cache_close(cache);
        unsetenv("PTXPACK_CACHE_DISABLE");
        setenv("PTXPACK_CACHE_READONLY", value, 1);
        cache = open_at(NULL);
        assert_true(ptxpack_cache_enabled(cache));
        assert_int_equal(put_text(cache, key, "payload"), i < 5);
        ptxpack_cache_close(cache);
        unsetenv("PTXPACK_CACHE_READONLY");
    }
    ptxpack_cache_key_free(key);
}

/* Runs as another effective user with PTXPACK_CACHE_DIR=$1, which must not be used. */
static int privileged_main(const char *dir)
{
    if (geteuid() == getuid())
        return 77; /* mounted nosuid */
    ptxpack_cache *cache = ptxpack_cache_open(NULL);
    CHILD_CHECK(getenv("PTXPACK_CACHE_DIR") && !strcmp(getenv("PTXPACK_CACHE_DIR"), dir));
    CHILD_CHECK(strcmp(ptxpack_cache_path(cache), dir) != 0);
    CHILD_CHECK(!ptxpack_cache_enabled(cache)); /* this user has no other cache folder */
    ptxpack_cache_close(cache);
    return 0;
}

static int run_setuid(void *program)
{
    char *dir = strdup(path_in(scratch, "own"));
    setenv("PTXPACK_CACHE_DIR", dir, 1);
    setenv("HOME", scratch, 1);
    setenv("XDG_CACHE_HOME", scratch, 1);
    execl((const char *)program, "test_cache_place", "--privileged", dir, (char *)NULL);
    return 1;
}

TEST(test_setuid_programs_ignore_the_environment)
{
    need_root("a setuid program");
    char *copy = strdup(path_in(scratch, "program")), command[4200];
    snprintf(command, sizeof command, "cp /proc/%ld/exe %s", (long)getpid(), copy);
    assert_int_equal(system(command), 0);
    assert_int_equal(mkdir(path_in(scratch, "own"), 0700), 0);
    assert_int_equal(chown(path_in(scratch, "own"), STRANGER, STRANGER), 0);
    assert_int_equal(chown(copy, STRANGER, STRANGER), 0);
    assert_int_equal(chmod(copy, 04755), 0);
    int status = in_child(-1, run_setuid, copy);
    free(copy);
    if (status == 77) {
        puts("SKIP: setuid bits do not work in the temporary folder");
        skip();
    }
    assert_int_equal(status, 0);
}

/* ---- trust -------------------------------------------------------------------------------------- */

TEST(test_modes)
{
    char *dir = strdup(path_in(scratch, "own"));
    assert_int_equal(mkdir(dir, 0700), 0);
    static const int good[] = {0700, 0755, 0711, 0750}, bad[] = {0777, 0770, 0702, 0720, 01777, 0722};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(chmod(dir, (mode_t)good[i]), 0);
        check_path(dir, dir);
    }
    for (int i = 0; i < 6; i++) {
        char mode[16];
        snprintf(mode, sizeof mode, "(mode %04o)", bad[i]);
        assert_int_equal(chmod(dir, (mode_t)bad[i]), 0);
        check_disabled(dir, mode);
        check_disabled(dir, dir);
    }
    free(dir);
}

TEST(test_trust_is_checked_at_every_call)
{
    char              *dir = strdup(path_in(scratch, "own"));
    ptxpack_cache_key *key = key_of("a");
    ptxpack_cache     *cache = open_at(dir);
    assert_true(put_text(cache, key, "payload"));
    assert_int_equal(chmod(dir, 0777), 0);
    assert_false(has_text(cache, key, "payload"));
    assert_non_null(strstr(ptxpack_cache_detail(cache), "writable"));
    assert_false(put_text(cache, key, "payload"));
    assert_int_equal(stats_of(cache).refused, 1);
    assert_int_equal(chmod(dir, 0700), 0);
    assert_true(has_text(cache, key, "payload"));
    ptxpack_cache_close(cache);
    ptxpack_cache_key_free(key);
    free(dir);
}

static int open_of_root(void *dir)
{
    ptxpack_cache *cache = open_at((const char *)dir);
    CHILD_CHECK(!ptxpack_cache_enabled(cache));
    CHILD_CHECK(strstr(ptxpack_cache_detail(cache), "belongs to user 0, not to user 4242424"));
    ptxpack_cache_close(cache);
    return 0;
}

TEST(test_owner)
{
    need_root("a directory of another user");
    char *dir = strdup(path_in(scratch, "own"));
    assert_int_equal(mkdir(dir, 0755), 0);
    ptxpack_cache_key *key = key_of("a");
    ptxpack_cache     *cache = open_at(dir);
    assert_true(put_text(cache, key, "payload"));
    ptxpack_cache_close(cache);
    assert_int_equal(in_child(STRANGER, open_of_root, dir), 0);
    assert_int_equal(chown(dir, STRANGER, STRANGER), 0);
    check_disabled(dir, "belongs to user 4242424, not to user 0"); /* root does not trust others, either */
    ptxpack_cache_key_free(key);
    free(dir);
}

TEST(test_paths_that_cannot_be)
{
    write_whole(path_in(scratch, "file"), "x", 1);
    check_disabled(path_in(scratch, "file"), strerror(ENOTDIR));
    check_disabled(path_in(scratch, "file/below"), strerror(ENOTDIR));
    assert_int_equal(symlink("nowhere", path_in(scratch, "dangling")), 0);
    check_disabled(path_in(scratch, "dangling"), strerror(ENOENT));
    check_disabled("/proc/ptxpack/cache", "/proc/ptxpack");
    char *longest = (char *)malloc(9000);
    assert_non_null(longest);
    memset(longest, 'x', 8999);
    longest[0] = '/';
    longest[8999] = '\0';
    check_disabled(longest, strerror(ENAMETOOLONG));
    free(longest);
    assert_int_equal(mkdir(path_in(scratch, "real"), 0700), 0);
    assert_int_equal(symlink("real", path_in(scratch, "link")), 0);
    char *link_path = strdup(path_in(scratch, "link"));
    check_path(link_path, link_path); /* for a link to a directory the directory is checked */
    free(link_path);
}

/* ---- directories that cannot be written --------------------------------------------------------- */

static int use_unwritable(void *user)
{
    ptxpack_cache_key *key = key_of("a"), *other = key_of("b");
    char              *dir = (char *)user;
    ptxpack_cache     *cache = open_at(dir);
    CHILD_CHECK(put_text(cache, key, "payload"));
    CHILD_CHECK(chmod(dir, 0500) == 0);
    CHILD_CHECK(!put_text(cache, other, "payload"));
    CHILD_CHECK(strstr(ptxpack_cache_detail(cache), "not cached: "));
    CHILD_CHECK(strstr(ptxpack_cache_detail(cache), strerror(EACCES)));
    CHILD_CHECK(has_text(cache, key, "payload"));
    CHILD_CHECK(!*ptxpack_cache_detail(cache));
    CHILD_CHECK(!ptxpack_cache_remove(cache, key));
    CHILD_CHECK(stats_of(cache).refused == 1 && stats_of(cache).temporaries == 0);
    ptxpack_cache_close(cache);
    cache = open_at(dir);
    CHILD_CHECK(ptxpack_cache_enabled(cache) && has_text(cache, key, "payload"));
    ptxpack_cache_close(cache);
    CHILD_CHECK(chmod(dir, 0000) == 0);
    cache = open_at(dir);
    CHILD_CHECK(!ptxpack_cache_enabled(cache));
    ptxpack_cache_close(cache);
    CHILD_CHECK(chmod(dir, 0700) == 0);
    cache = open_at(path_in("/", "ptxpack-cannot-be-made"));
    CHILD_CHECK(!ptxpack_cache_enabled(cache));
    CHILD_CHECK(strstr(ptxpack_cache_detail(cache), strerror(EACCES)));
    ptxpack_cache_close(cache);
    ptxpack_cache_key_free(key);
    ptxpack_cache_key_free(other);
    return 0;
}

TEST(test_unwritable_directory)
{
    char *dir = strdup(path_in(scratch, "own"));
    assert_int_equal(mkdir(dir, 0700), 0);
    if (geteuid() == 0) /* permission bits do not limit root */
        assert_int_equal(chown(dir, STRANGER, STRANGER), 0);
    assert_int_equal(in_child(geteuid() == 0 ? STRANGER : -1, use_unwritable, dir), 0);
    free(dir);
}

TEST(test_read_only_file_system)
{
    char *mounted = strdup(path_in(scratch, "mount"));
    assert_int_equal(mkdir(mounted, 0700), 0);
    if (mount("none", mounted, "tmpfs", 0, "size=1m,mode=0700") != 0) {
        printf("SKIP: no tmpfs can be mounted: %s\n", strerror(errno));
        free(mounted);
        skip();
    }
    ptxpack_cache_key *key = key_of("a"), *other = key_of("b");
    ptxpack_cache     *cache = open_at(mounted);
    bool               stored = put_text(cache, key, "payload");
    int                error = mount("none", mounted, "tmpfs", MS_REMOUNT | MS_RDONLY, "size=1m,mode=0700");
    bool               hit = has_text(cache, key, "payload"), refused = !put_text(cache, other, "payload");
    bool               said = strstr(ptxpack_cache_detail(cache), strerror(EROFS)) != NULL;
    int                lock = ptxpack_cache_lock(cache, other, 1000);
    ptxpack_cache_close(cache);
    cache = open_at(mounted);
    bool again = ptxpack_cache_enabled(cache) && has_text(cache, key, "payload");
    ptxpack_cache_close(cache);
    cache = open_at(path_in(mounted, "below"));
    bool below = !ptxpack_cache_enabled(cache) && strstr(ptxpack_cache_detail(cache), strerror(EROFS)) != NULL;
    ptxpack_cache_close(cache);
    assert_int_equal(umount(mounted), 0);
    assert_true(stored && !error && hit && refused && said && again && below);
    assert_int_equal(lock, -1);
    ptxpack_cache_key_free(key);
    ptxpack_cache_key_free(other);
    free(mounted);
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "--privileged"))
        _exit(privileged_main(argv[2])); /* a leak checker cannot inspect a setuid program */
    return unit_run(NULL, NULL);
}
