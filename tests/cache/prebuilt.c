/* prebuilt.c - folders of prebuilt machine code: filling them, reading them, and every kind of bad folder. */
#include <sys/resource.h>
#include "handle.h"
#include "cache/prebuilt/prebuilt.h"

#define BEFORE_EACH make_folder_name
#define AFTER_EACH  drop_folder_name

static char *folder; /* of this case */

static int make_folder_name(void **state)
{
    unsetenv("PTXPACK_CACHE_READONLY_DIRS");
    set_up(state);
    folder = strdup(path_in(scratch, "shipped"));
    return folder == NULL;
}

static int drop_folder_name(void **state)
{
    free(folder);
    return tear_down(state);
}

/* ---- filling ------------------------------------------------------------------------------------ */

static ptxpack_filling *open_filling(void)
{
    char             line[PTXPACK_CACHE_LINE];
    ptxpack_filling *f = ptxpack_filling_open(folder, "1.0", NULL, line);
    if (f == NULL)
        fail_msg("%s", line);
    return f;
}

static void put_one(ptxpack_filling *f, const char *name)
{
    char               line[PTXPACK_CACHE_LINE];
    ptxpack_cache_key *key = key_of(name);
    if (!ptxpack_filling_put(f, key, name, "meta", 4, name, strlen(name), line))
        fail_msg("%s", line);
    ptxpack_cache_key_free(key);
}

static void finish(ptxpack_filling *f, size_t wanted)
{
    char     line[PTXPACK_CACHE_LINE];
    size_t   entries;
    uint64_t bytes;
    if (!ptxpack_filling_finish(f, false, &entries, &bytes, line))
        fail_msg("%s", line);
    assert_int_equal(entries, wanted);
    ptxpack_filling_close(f);
}

/* Fills a folder with the entries "one" and "two". */
static void fill(void)
{
    ptxpack_filling *f = open_filling();
    put_one(f, "one");
    put_one(f, "two");
    finish(f, 2);
}

static const char *file_of(const char *name)
{
    char               file[PTXPACK_CACHE_NAME];
    ptxpack_cache_key *key = key_of(name);
    ptxpack_cache_entry_name(key, file);
    ptxpack_cache_key_free(key);
    return path_in(folder, file);
}

static const char *manifest_path(void) { return path_in(folder, "manifest"); }

static ptxpack_cache *open_shipped(const char *folders)
{
    return open_with((ptxpack_cache_options){.readonly_dirs = folders != NULL ? folders : folder});
}

static ptxpack_prebuilt_result ask(ptxpack_cache *c, const char *name)
{
    ptxpack_cache_entry     entry;
    ptxpack_cache_key      *key = key_of(name);
    ptxpack_prebuilt_result result = ptxpack_cache_get_prebuilt(c, key, &entry);
    ptxpack_cache_key_free(key);
    if (result == PTXPACK_PREBUILT_HIT) {
        assert_string_equal((const char *)entry.payload, name);
        assert_string_equal(entry.label, name);
        assert_memory_equal(entry.metadata, "meta", 4);
    } else {
        assert_true(!entry.payload && !entry.metadata && !entry.label);
    }
    ptxpack_cache_entry_free(&entry);
    return result;
}

static void expect_refused(const char *folders, const char *why)
{
    ptxpack_cache        *c = open_shipped(folders);
    const char           *refusal = ptxpack_cache_prebuilt_refusal(c);
    ptxpack_prebuilt_info info;
    if (refusal == NULL || strstr(refusal, why) == NULL || strchr(refusal, '\n') != NULL)
        fail_msg("\"%s\" does not say \"%s\"", refusal ? refusal : "(none)", why);
    assert_false(ptxpack_cache_prebuilt(c, 0, &info));
    assert_int_equal(ask(c, "one"), PTXPACK_PREBUILT_NONE);
    ptxpack_cache_close(c);
}

TEST(test_fill_and_read)
{
    ptxpack_filling *f = open_filling();
    put_one(f, "one");
    expect_refused(NULL, "/manifest: No such file or directory");
    finish(f, 1);
    ptxpack_cache *c = open_shipped(NULL);
    assert_null(ptxpack_cache_prebuilt_refusal(c));
    assert_int_equal(ask(c, "one"), PTXPACK_PREBUILT_HIT);
    assert_int_equal(ask(c, "two"), PTXPACK_PREBUILT_NONE);
    ptxpack_cache_key *key = key_of("one");
    assert_false(has_text(c, key, "one")); /* the cache itself does not have it */
    f = open_filling();
    assert_true(ptxpack_filling_has(f, key));
    ptxpack_cache_key_free(key);
    put_one(f, "two");
    assert_int_equal(ask(c, "one"), PTXPACK_PREBUILT_HIT); /* while it is filled */
    finish(f, 2);
    assert_int_equal(ask(c, "two"), PTXPACK_PREBUILT_NONE); /* not in the manifest that it opened */
    ptxpack_cache_close(c);
    c = open_shipped(NULL);
    assert_int_equal(ask(c, "two"), PTXPACK_PREBUILT_HIT);
    assert_int_equal(stats_of(c).prebuilt_hits, 1);
    assert_int_equal(stats_of(c).hits + stats_of(c).misses + stats_of(c).corrupt, 0);
    ptxpack_prebuilt_info info;
    assert_true(ptxpack_cache_prebuilt(c, 0, &info) && !ptxpack_cache_prebuilt(c, 1, &info));
    assert_true(ptxpack_cache_prebuilt(c, 0, &info));
    assert_string_equal(info.path, folder);
    assert_string_equal(info.library, "1.0");
    assert_int_equal(info.entries, 2);
    assert_int_equal(count_files(folder, ""), 3); /* no lock, no tag, no temporaries */
    struct stat st;
    assert_true(stat(folder, &st) == 0 && (st.st_mode & 0777) == 0755);
    ptxpack_cache_close(c);
}

TEST(test_what_may_be_filled)
{
    char               line[PTXPACK_CACHE_LINE];
    ptxpack_cache_key *key = key_of("a");
    assert_true(put_text(cache, key, "own"));
    ptxpack_cache_key_free(key);
    write_whole(path_in(dir, ".tmp-1-2-3"), "x", 1);
    assert_null(ptxpack_filling_open(dir, "1.0", NULL, line)); /* a cache in use */
    assert_non_null(strstr(line, "it holds other files, such as "));
    assert_int_equal(access(path_in(dir, ".tmp-1-2-3"), F_OK), 0); /* another process may be writing it */
    assert_int_equal(mkdir(folder, 0755), 0);
    write_whole(path_in(folder, "README"), "x", 1);
    assert_null(ptxpack_filling_open(folder, "1.0", NULL, line));
    assert_non_null(strstr(line, "README"));
    assert_int_equal(unlink(path_in(folder, "README")), 0);
    fill();
    write_whole(path_in(folder, "README"), "x", 1); /* a prebuilt folder may hold it */
    fill();
    write_whole(manifest_path(), "x", 1);
    assert_null(ptxpack_filling_open(folder, "1.0", NULL, line));
    assert_non_null(strstr(line, "/manifest: line 1: "));
    assert_int_equal(chmod(folder, 0775), 0); /* no reader would trust it */
    assert_null(ptxpack_filling_open(folder, "1.0", NULL, line));
    assert_non_null(strstr(line, "is writable by group or others"));
    assert_int_equal(strncmp(line, folder, strlen(folder)), 0);
    assert_int_equal(chmod(folder, 0755), 0);
    assert_null(ptxpack_filling_open(path_in(folder, "README"), "1.0", NULL, line));
    assert_non_null(strstr(line, strerror(ENOTDIR)));
}

static int die_while_filling(void *unused)
{
    (void)unused;
    ptxpack_filling *f = open_filling();
    put_one(f, "three");
    write_whole(path_in(folder, ".tmp-1-2-3"), "half an entry", 13);
    raise(SIGKILL);
    return 0;
}

TEST(test_killed_while_filling)
{
    size_t bytes, again_bytes;
    fill();
    uint8_t *before = read_whole(manifest_path(), &bytes);
    assert_int_equal(in_child(-1, die_while_filling, NULL), 128 + SIGKILL);
    uint8_t *after = read_whole(manifest_path(), &again_bytes);
    assert_int_equal(bytes, again_bytes);
    assert_memory_equal(before, after, bytes);
    free(before);
    free(after);
    ptxpack_cache *c = open_shipped(NULL);
    assert_int_equal(ask(c, "two"), PTXPACK_PREBUILT_HIT);
    assert_true(exists(file_of("three")));
    assert_int_equal(ask(c, "three"), PTXPACK_PREBUILT_NONE); /* it is not listed, so it is not there */
    ptxpack_cache_close(c);
    ptxpack_filling *f = open_filling(); /* the lock ended with the process */
    assert_false(exists(path_in(folder, ".tmp-1-2-3")));
    put_one(f, "three");
    finish(f, 3);
}

/* Files of a stopped filling are removed with the next manifest, and with `only_current` also the entries
 * that this filling did not ask for. */
TEST(test_what_is_removed)
{
    char     line[PTXPACK_CACHE_LINE];
    size_t   entries;
    uint64_t bytes;
    fill();
    assert_int_equal(in_child(-1, die_while_filling, NULL), 128 + SIGKILL);
    write_whole(path_in(folder, "README"), "x", 1);
    assert_true(exists(file_of("three")));
    ptxpack_filling *f = open_filling();
    put_one(f, "four");
    finish(f, 3);
    assert_false(exists(file_of("three")));
    assert_true(exists(file_of("one")) && exists(file_of("two")) && exists(file_of("four")));
    f = open_filling();
    ptxpack_cache_key *key = key_of("one");
    assert_true(ptxpack_filling_has(f, key));
    ptxpack_cache_key_free(key);
    put_one(f, "five");
    assert_true(ptxpack_filling_finish(f, true, &entries, &bytes, line));
    assert_int_equal(entries, 2);
    ptxpack_filling_close(f);
    assert_true(exists(file_of("one")) && exists(file_of("five")) && exists(path_in(folder, "README")));
    assert_false(exists(file_of("two")) || exists(file_of("four")));
    ptxpack_cache *c = open_shipped(NULL);
    assert_int_equal(ask(c, "one"), PTXPACK_PREBUILT_HIT);
    assert_int_equal(ask(c, "two"), PTXPACK_PREBUILT_NONE);
    ptxpack_cache_close(c);
}

/* Files are limited to some bytes: neither an entry nor the manifest can be written, and nothing is
 * half-written. */
static int fill_with_a_limit(void *limit)
{
    struct rlimit      small = {*(const rlim_t *)limit, RLIM_INFINITY};
    char               line[PTXPACK_CACHE_LINE], payload[4096];
    size_t             entries;
    uint64_t           bytes;
    ptxpack_cache_key *key = key_of("three");
    ptxpack_filling   *f = open_filling();
    memset(payload, 1, sizeof payload);
    CHILD_CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    bool put = ptxpack_filling_put(f, key, "three", NULL, 0, payload, sizeof payload, line);
    CHILD_CHECK(put == (small.rlim_cur > sizeof payload));
    CHILD_CHECK(put || strstr(line, strerror(EFBIG)));
    small.rlim_cur = 100;
    CHILD_CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    CHILD_CHECK(!ptxpack_filling_finish(f, false, &entries, &bytes, line));
    CHILD_CHECK(strstr(line, strerror(EFBIG)));
    ptxpack_filling_close(f);
    ptxpack_cache_key_free(key);
    return 0;
}

TEST(test_no_room)
{
    rlim_t limits[] = {4000, 8000};
    fill();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(in_child(-1, fill_with_a_limit, &limits[i]), 0);
        ptxpack_cache *c = open_shipped(NULL);
        assert_int_equal(ask(c, "one"), PTXPACK_PREBUILT_HIT);
        assert_int_equal(ask(c, "three"), PTXPACK_PREBUILT_NONE);
        ptxpack_cache_close(c);
        assert_int_equal(count_files(folder, ".tmp-"), 0);
    }
}

static int  waits_called;
static void note_wait(const char *path) { waits_called += path != NULL; }

static int fill_late(int start)
{
    char line[PTXPACK_CACHE_LINE], byte;
    CHILD_CHECK(read(start, &byte, 1) == 1);
    ptxpack_filling *f = ptxpack_filling_open(folder, "1.0", note_wait, line);
    CHILD_CHECK(f != NULL && waits_called == 1);
    put_one(f, "late");
    finish(f, 2);
    return 0;
}

/* The child begins before the parent has the lock, which a child would inherit. */
TEST(test_two_at_once)
{
    int start[2], status;
    assert_int_equal(pipe(start), 0);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(fill_late(start[0]));
    ptxpack_filling *f = open_filling();
    assert_int_equal(write(start[1], "x", 1), 1);
    usleep(200000);
    assert_int_equal(waitpid(pid, &status, WNOHANG), 0); /* it waits */
    put_one(f, "early");
    finish(f, 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(start[0]);
    close(start[1]);
    ptxpack_cache *c = open_shipped(NULL);
    assert_int_equal(ask(c, "early"), PTXPACK_PREBUILT_HIT);
    assert_int_equal(ask(c, "late"), PTXPACK_PREBUILT_HIT);
    ptxpack_cache_close(c);
}

/* ---- invalid folders ---------------------------------------------------------------------------- */

/* Changes each byte of an entry, one at a time. */
TEST(test_every_byte_of_an_entry)
{
    size_t bytes;
    fill();
    char          *path = strdup(file_of("one"));
    uint8_t       *data = read_whole(path, &bytes);
    ptxpack_cache *c = open_shipped(NULL);
    for (size_t i = 0; i < bytes; i++) {
        data[i] ^= 0x10;
        write_whole(path, data, bytes);
        data[i] ^= 0x10;
        assert_int_equal(ask(c, "one"), PTXPACK_PREBUILT_BAD);
        assert_non_null(strstr(ptxpack_cache_detail(c), "it does not have the SHA-256 of the manifest"));
    }
    assert_int_equal(stats_of(c).corrupt, bytes);
    write_whole(path, data, bytes - 1);
    assert_int_equal(ask(c, "one"), PTXPACK_PREBUILT_BAD);
    assert_non_null(strstr(ptxpack_cache_detail(c), "shorter"));
    write_whole(path, data, bytes + 1);
    assert_int_equal(ask(c, "one"), PTXPACK_PREBUILT_BAD);
    assert_non_null(strstr(ptxpack_cache_detail(c), "longer"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(ask(c, "one"), PTXPACK_PREBUILT_BAD);
    assert_non_null(strstr(ptxpack_cache_detail(c), "missing"));
    assert_int_equal(mkdir(path, 0755), 0);
    assert_int_equal(ask(c, "one"), PTXPACK_PREBUILT_BAD);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkfifo(path, 0644), 0);
    assert_int_equal(ask(c, "one"), PTXPACK_PREBUILT_BAD); /* without waiting for a writer */
    assert_int_equal(ask(c, "two"), PTXPACK_PREBUILT_HIT);
    char line[PTXPACK_CACHE_LINE];
    assert_int_equal(ptxpack_cache_prebuilt_verify(c, 0, line, sizeof line), 1);
    assert_non_null(strstr(line, path));
    assert_int_equal(unlink(path), 0);
    write_whole(path, data, bytes);
    assert_int_equal(ptxpack_cache_prebuilt_verify(c, 0, line, sizeof line), 2);
    assert_string_equal(line, "");
    ptxpack_cache_close(c);
    free(data);
    free(path);
}

/* A good entry under another's name: its digest is in the manifest, its key is not the one that was asked
 * for. */
TEST(test_entry_of_another_key)
{
    size_t           bytes;
    char             line[PTXPACK_CACHE_LINE];
    ptxpack_manifest m;
    fill();
    uint8_t *data = read_whole(file_of("two"), &bytes);
    write_whole(file_of("one"), data, bytes);
    free(data);
    uint8_t *text = read_whole(manifest_path(), &bytes);
    assert_true(ptxpack_manifest_read((const char *)text, bytes, &m, line));
    free(text);
    char               one[PTXPACK_CACHE_NAME];
    ptxpack_cache_key *key = key_of("one");
    ptxpack_cache_key_hex(key, one);
    ptxpack_cache_key_free(key);
    size_t other = strcmp(m.entries[0].name, one) == 0;
    memcpy(m.entries[!other].sha256, m.entries[other].sha256, sizeof m.entries[0].sha256);
    m.entries[!other].bytes = m.entries[other].bytes;
    char *forged = ptxpack_manifest_text(&m, &bytes);
    write_whole(manifest_path(), forged, bytes);
    free(forged);
    ptxpack_manifest_free(&m);
    ptxpack_cache *c = open_shipped(NULL);
    assert_int_equal(ask(c, "one"), PTXPACK_PREBUILT_BAD);
    assert_int_equal(ask(c, "two"), PTXPACK_PREBUILT_HIT);
    ptxpack_cache_close(c);
}

/* Changes each byte of a manifest: the folder is refused. */
TEST(test_every_byte_of_a_manifest)
{
    size_t bytes;
    fill();
    uint8_t *data = read_whole(manifest_path(), &bytes);
    for (size_t i = 0; i < bytes; i++) {
        data[i] ^= 1;
        write_whole(manifest_path(), data, bytes);
        data[i] ^= 1;
        expect_refused(NULL, "/manifest: line ");
    }
    write_whole(manifest_path(), data, 0);
    expect_refused(NULL, "/manifest: line 1: ");
    write_whole(manifest_path(), data, bytes / 2);
    expect_refused(NULL, "/manifest: line ");
    assert_int_equal(unlink(manifest_path()), 0);
    expect_refused(NULL, strerror(ENOENT));
    free(data);
}

TEST(test_lists_of_folders)
{
    char list[8192];
    fill();
    char *first = folder;
    folder = strdup(path_in(scratch, "other"));
    fill();
    write_whole(path_in(first, strrchr(file_of("one"), '/') + 1), "bad", 3);
    snprintf(list, sizeof list, ":%s::%s:", first, folder);
    ptxpack_cache        *c = open_shipped(list);
    ptxpack_prebuilt_info info;
    assert_true(ptxpack_cache_prebuilt(c, 1, &info) && strcmp(info.path, folder) == 0);
    assert_int_equal(ask(c, "one"), PTXPACK_PREBUILT_HIT); /* of the second */
    assert_int_equal(stats_of(c).corrupt, 1);
    assert_int_equal(ask(c, "two"), PTXPACK_PREBUILT_HIT);
    ptxpack_cache_close(c);
    snprintf(list, sizeof list, "%s:%s/nowhere", first, folder);
    expect_refused(list, "/nowhere: No such file or directory"); /* one wrong folder is enough */
    setenv("PTXPACK_CACHE_READONLY_DIRS", folder, 1);
    c = open_with((ptxpack_cache_options){.size = 0});
    assert_int_equal(ask(c, "one"), PTXPACK_PREBUILT_HIT);
    ptxpack_cache_close(c);
    c = open_shipped(""); /* no folder, whatever the environment says */
    assert_int_equal(ask(c, "one"), PTXPACK_PREBUILT_NONE);
    ptxpack_cache_close(c);
    c = open_with((ptxpack_cache_options){.disable = true});
    assert_int_equal(ask(c, "one"), PTXPACK_PREBUILT_NONE);
    ptxpack_cache_close(c);
    unsetenv("PTXPACK_CACHE_READONLY_DIRS");
    free(first);
}

/* A mistake in a pin is reported: it neither turns the pin off nor becomes a part of the name. */
static void expect_malformed_pins(const char *sha256)
{
    static const char malformed[] = "what follows the # is not a SHA-256 of 64 digits";
    char              list[8192], upper[PTXPACK_SHA256_HEX + 1];
    snprintf(list, sizeof list, "%s#%.63s", folder, sha256);
    expect_refused(list, malformed);
    snprintf(list, sizeof list, "%s#%s0", folder, sha256);
    expect_refused(list, malformed);
    snprintf(list, sizeof list, "%s#", folder);
    expect_refused(list, malformed);
    for (size_t i = 0; i <= PTXPACK_SHA256_HEX; i++)
        upper[i] = (char)(sha256[i] >= 'a' ? sha256[i] - 'a' + 'A' : sha256[i]);
    snprintf(list, sizeof list, "%s#%s", folder, upper);
    expect_refused(list, malformed);
    snprintf(list, sizeof list, "#%s", sha256);
    expect_refused(list, "there is no folder before the pin");
    snprintf(list, sizeof list, "%s/with#", folder);
    expect_refused(list, malformed);
    snprintf(list, sizeof list, "%s/with#hash/", folder); /* this is not a pin, but part of the name */
    expect_refused(list, "No such file or directory");
}

TEST(test_pins)
{
    char list[8192], right[PTXPACK_SHA256_HEX + 1], wrong[PTXPACK_SHA256_HEX + 1];
    fill();
    ptxpack_cache        *c = open_shipped(NULL);
    ptxpack_prebuilt_info info;
    assert_true(ptxpack_cache_prebuilt(c, 0, &info) && !info.pinned);
    snprintf(list, sizeof list, "%s#%s", folder, info.sha256);
    snprintf(right, sizeof right, "%s", info.sha256);
    snprintf(wrong, sizeof wrong, "%s", info.sha256);
    ptxpack_cache_close(c);
    c = open_shipped(list);
    assert_true(ptxpack_cache_prebuilt(c, 0, &info) && info.pinned);
    assert_int_equal(ask(c, "one"), PTXPACK_PREBUILT_HIT);
    ptxpack_cache_close(c);
    wrong[5] = wrong[5] == 'a' ? 'b' : 'a';
    snprintf(list, sizeof list, "%s#%s", folder, wrong);
    expect_refused(list, "its SHA-256 is not the one that was pinned");
    expect_malformed_pins(right);
}

/* Users who may write to the folder could put anything into it. */
TEST(test_permissions)
{
    char list[8192];
    fill();
    ptxpack_cache        *c = open_shipped(NULL);
    ptxpack_prebuilt_info info;
    assert_true(ptxpack_cache_prebuilt(c, 0, &info));
    snprintf(list, sizeof list, "%s#%s", folder, info.sha256);
    ptxpack_cache_close(c);
    assert_int_equal(chmod(folder, 0777), 0);
    expect_refused(NULL, "is writable by group or others");
    c = open_shipped(list); /* a pin says what the folder must hold */
    assert_int_equal(ask(c, "one"), PTXPACK_PREBUILT_HIT);
    ptxpack_cache_close(c);
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(chmod(manifest_path(), 0666), 0);
    expect_refused(NULL, "/manifest: it is writable by group or others");
    assert_int_equal(chmod(manifest_path(), 0444), 0);
    assert_int_equal(chmod(folder, 0555), 0);
    c = open_shipped(NULL);
    assert_int_equal(ask(c, "one"), PTXPACK_PREBUILT_HIT);
    ptxpack_cache_close(c);
    if (geteuid() != 0) {
        assert_int_equal(chmod(folder, 0755), 0);
        print_message("SKIP: prebuilt: folders of other users can be made by root only\n");
        return;
    }
    assert_int_equal(chown(folder, 4242424, 4242424), 0);
    expect_refused(NULL, "belongs to user 4242424, not to user 0");
    c = open_shipped(list);
    assert_int_equal(ask(c, "one"), PTXPACK_PREBUILT_HIT);
    ptxpack_cache_close(c);
    assert_int_equal(chown(folder, 0, 0), 0);
    assert_int_equal(chown(manifest_path(), 4242424, 0), 0);
    expect_refused(NULL, "/manifest: it belongs to another user");
    assert_int_equal(chmod(folder, 0755), 0);
}

/* Every user can read what root installed. */
static int read_as_stranger(void *unused)
{
    (void)unused;
    ptxpack_cache *c = open_shipped(NULL);
    CHILD_CHECK(ptxpack_cache_prebuilt_refusal(c) == NULL);
    CHILD_CHECK(!ptxpack_cache_enabled(c)); /* dir is root's */
    CHILD_CHECK(ask(c, "one") == PTXPACK_PREBUILT_HIT);
    ptxpack_cache_close(c);
    return 0;
}

TEST(test_folder_of_root)
{
    if (geteuid() != 0) {
        print_message("SKIP: prebuilt: only root can act as another user\n");
        skip();
    }
    fill();
    assert_int_equal(in_child(4242424, read_as_stranger, NULL), 0);
}

/* A prebuilt folder may not be used as a cache: it would age and lose its entries. */
TEST(test_no_cache_of_its_own)
{
    fill();
    ptxpack_cache *c = open_with((ptxpack_cache_options){.dir = folder});
    assert_false(ptxpack_cache_enabled(c));
    assert_non_null(strstr(ptxpack_cache_detail(c), "PTXPACK_CACHE_READONLY_DIRS"));
    assert_false(ptxpack_cache_clear(c, NULL));
    ptxpack_cache_close(c);
    assert_int_equal(count_files(folder, ""), 3);
    c = open_with((ptxpack_cache_options){.dir = folder, .readonly = true}); /* it can be listed */
    assert_int_equal(stats_of(c).entries, 2);
    ptxpack_cache_close(c);
}

RUN_TESTS(NULL, NULL)
