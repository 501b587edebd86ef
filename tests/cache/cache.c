/* cache.c - the cache: keys, entries, the directory, read-only caches, listing. */
#define XXH_INLINE_ALL
#include <xxhash.h>
#include "handle.h"

#define BEFORE_EACH set_up
#define AFTER_EACH  tear_down

/* ---- keys --------------------------------------------------------------------------------------- */

static void hex_of_fields(char hex[33], const char *const *fields)
{
    ptxpack_cache_key *key = ptxpack_cache_key_create();
    for (; *fields; fields += 2)
        ptxpack_cache_key_add_text(key, fields[0], fields[1]);
    ptxpack_cache_key_hex(key, hex);
    ptxpack_cache_key_free(key);
}

TEST(test_key_fields_do_not_run_together)
{
    /* clang-format off */
    static const char *const lists[][8] = {
        {"ptx", "abc", "target", "sm_90", NULL}, {"ptx", "abc", "target", "sm_90a", NULL},
        {"target", "sm_90", "ptx", "abc", NULL}, {"ptx", "abctarget", "", "sm_90", NULL},
        {"ptx", "abc", NULL},                    {"ptx", "abc", "ptx", "abc", NULL},
        {"ptx", "ab", "c", "", NULL},            {"ptx", "", "abc", "", NULL},
        {"pt", "xabc", NULL},                    {"", "ptxabc", NULL},
        {"ptxabc", "", NULL},                    {NULL},
    };
    /* clang-format on */
    enum { LISTS = sizeof lists / sizeof *lists };
    char hex[LISTS][33];
    for (int i = 0; i < LISTS; i++) {
        hex_of_fields(hex[i], lists[i]);
        assert_int_equal(strspn(hex[i], "0123456789abcdef"), 32);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(hex[i], hex[j]);
    }
    char again[33];
    hex_of_fields(again, lists[0]);
    assert_string_equal(again, hex[0]);
}

/* The key format is written here by hand: who changes it must also change ptxpack_entry_version. */
TEST(test_key_bytes)
{
    static const char  blob[] = "\x14\0\0\0ptxpack-cache-format\x08\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0"
                                "\x03\0\0\0one\x02\0\0\0\0\0\0\0xy"
                                "\x02\0\0\0n2\x08\0\0\0\0\0\0\0\xef\xcd\xab\x89\x67\x45\x23\x01";
    XXH128_canonical_t want;
    char               text[33], hex[33];
    XXH128_canonicalFromHash(&want, XXH3_128bits(blob, sizeof blob - 1));
    for (int i = 0; i < 16; i++)
        snprintf(text + 2 * i, 3, "%02x", want.digest[i]);
    ptxpack_cache_key *key = ptxpack_cache_key_create();
    ptxpack_cache_key_add(key, "one", "xy", 2);
    ptxpack_cache_key_add_u64(key, "n2", UINT64_C(0x0123456789abcdef));
    ptxpack_cache_key_hex(key, hex);
    assert_string_equal(hex, text);
    assert_null(ptxpack_cache_key_poisoned(key));
    ptxpack_cache_key_free(key);
}

static void check_poisoned(ptxpack_cache_key *key, const char *part_of_reason)
{
    char                hex[33] = "x";
    ptxpack_cache_entry entry;
    assert_non_null(strstr(ptxpack_cache_key_poisoned(key), part_of_reason));
    ptxpack_cache_key_hex(key, hex);
    assert_string_equal(hex, "");
    assert_false(put_text(cache, key, "payload"));
    assert_non_null(strstr(ptxpack_cache_detail(cache), part_of_reason));
    assert_false(ptxpack_cache_get(cache, key, &entry));
    assert_int_equal(ptxpack_cache_lock(cache, key, 1000), -1);
    assert_false(ptxpack_cache_remove(cache, key));
    assert_int_equal(stats_of(cache).entries, 0);
    ptxpack_cache_key_free(key);
}

TEST(test_poisoned_keys_cache_nothing)
{
    ptxpack_cache_key *key = key_of("a");
    ptxpack_cache_key_poison(key, "the compiler's version is unknown");
    ptxpack_cache_key_poison(key, "a later reason");
    ptxpack_cache_key_add_text(key, "more", "text");
    check_poisoned(key, "the compiler's version is unknown");
    key = key_of("b");
    ptxpack_cache_key_add_text(key, "version", NULL);
    check_poisoned(key, "version is NULL");
    key = key_of("c");
    ptxpack_cache_key_add(key, NULL, "x", 1);
    check_poisoned(key, "is NULL");
    key = key_of("d");
    ptxpack_cache_key_poison(key, NULL);
    check_poisoned(key, "no reason");
    char *large = (char *)calloc(1, (64 << 20) + 1);
    assert_non_null(large);
    for (size_t bytes = (64 << 20) - 8; bytes <= (64 << 20) + 1; bytes += 9) {
        key = key_of("e");
        ptxpack_cache_key_add(key, "large", large, bytes);
        check_poisoned(key, "64 MiB");
    }
    key = key_of("f");
    ptxpack_cache_key_add(key, "huge", large, SIZE_MAX);
    check_poisoned(key, "64 MiB");
    free(large);
    check_poisoned(NULL, "no key");
}

/* ---- entries ------------------------------------------------------------------------------------ */

TEST(test_round_trip)
{
    static const size_t sizes[] = {1, 2, 255, 4096, 65537, 5000000};
    uint8_t            *payload = (uint8_t *)malloc(5000000);
    assert_non_null(payload);
    for (size_t i = 0; i < 5000000; i++)
        payload[i] = (uint8_t)(i * 2654435761u >> 13);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char text[32], label[32];
        snprintf(text, sizeof text, "size %zu", sizes[i]);
        snprintf(label, sizeof label, "kernel %zu sm_80", i);
        ptxpack_cache_key  *key = key_of(text);
        ptxpack_cache_entry entry;
        assert_false(ptxpack_cache_get(cache, key, &entry));
        assert_null(entry.payload);
        assert_string_equal(ptxpack_cache_detail(cache), "");
        assert_true(ptxpack_cache_put(cache, key, i ? label : NULL, payload, i * 100, payload, sizes[i]));
        assert_true(ptxpack_cache_get(cache, key, &entry));
        assert_int_equal(entry.payload_bytes, sizes[i]);
        assert_memory_equal(entry.payload, payload, sizes[i]);
        assert_int_equal(((uint8_t *)entry.payload)[sizes[i]], 0);
        assert_int_equal(entry.metadata_bytes, i * 100);
        if (i)
            assert_memory_equal(entry.metadata, payload, i * 100);
        assert_int_equal(((uint8_t *)entry.metadata)[i * 100], 0);
        assert_string_equal(entry.label, i ? label : "");
        ptxpack_cache_entry_free(&entry);
        assert_null(entry.payload);
        ptxpack_cache_entry_free(&entry);
        ptxpack_cache_key_free(key);
    }
    ptxpack_cache_stats s = stats_of(cache);
    assert_int_equal(s.entries, 6);
    assert_int_equal(s.hits, 6);
    assert_int_equal(s.misses, 6);
    assert_int_equal(s.stores, 6);
    assert_int_equal(s.corrupt + s.refused + s.evicted + s.temporaries, 0);
    assert_true(s.bytes > 5000000 && s.bytes < 5100000);
    assert_true(s.oldest <= s.newest && s.newest <= time(NULL) && s.oldest > time(NULL) - 100);
    free(payload);
}

TEST(test_stats_tell_the_first_and_the_last_use)
{
    static const int ages[] = {3000, 5000, 1000, 4000};
    const int64_t    now = (int64_t)time(NULL);
    for (int i = 0; i < 4; i++) {
        ptxpack_cache_key *key = numbered(i);
        assert_true(put_text(cache, key, "payload"));
        set_age(entry_path(cache, key), ages[i]);
        ptxpack_cache_key_free(key);
    }
    const ptxpack_cache_stats s = stats_of(cache);
    assert_in_range(s.oldest, now - 5000, now - 5000 + 100);
    assert_in_range(s.newest, now - 1000, now - 1000 + 100);
}

TEST(test_replace_and_remove)
{
    ptxpack_cache_key *key = key_of("a"), *other = key_of("b");
    assert_true(put_text(cache, key, "first"));
    assert_true(put_text(cache, other, "other"));
    assert_true(put_text(cache, key, "second"));
    assert_true(has_text(cache, key, "second"));
    assert_true(ptxpack_cache_remove(cache, key));
    assert_false(ptxpack_cache_remove(cache, key));
    assert_false(has_text(cache, key, "second"));
    assert_true(has_text(cache, other, "other"));
    ptxpack_cache_key_free(key);
    ptxpack_cache_key_free(other);
}

TEST(test_unfit_entries_are_refused)
{
    ptxpack_cache_key *key = key_of("a");
    char               label[1200];
    memset(label, 'x', sizeof label);
    label[1100] = '\0';
    char *large = (char *)calloc(1, 60 << 20);
    assert_non_null(large);
    assert_false(ptxpack_cache_put(cache, key, "l", NULL, 0, "", 0));
    assert_non_null(strstr(ptxpack_cache_detail(cache), "empty"));
    assert_false(ptxpack_cache_put(cache, key, "l", NULL, 0, NULL, 5));
    assert_false(ptxpack_cache_put(cache, key, "l", NULL, 5, "x", 1));
    assert_false(ptxpack_cache_put(cache, key, label, NULL, 0, "x", 1));
    assert_non_null(strstr(ptxpack_cache_detail(cache), "limit"));
    assert_false(ptxpack_cache_put(cache, key, "l", large, (16 << 20) + 1, "x", 1));
    assert_false(ptxpack_cache_put(cache, key, "l", NULL, 0, large, 57 << 20));
    assert_non_null(strstr(ptxpack_cache_detail(cache), "too large"));
    assert_false(ptxpack_cache_put(cache, key, "l", NULL, 0, large, SIZE_MAX));
    assert_int_equal(stats_of(cache).refused, 7);
    assert_int_equal(count_files(dir, ".tmp"), 0);
    label[1024] = '\0';
    assert_true(ptxpack_cache_put(cache, key, label, NULL, 0, "x", 1));
    assert_string_equal(ptxpack_cache_detail(cache), "");
    free(large);
    ptxpack_cache_key_free(key);
}

/* ---- the directory ------------------------------------------------------------------------------ */

TEST(test_files_modes_and_tag)
{
    struct stat        st;
    ptxpack_cache_key *key = key_of("a");
    assert_int_equal(stat(dir, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    mode_t old = umask(0);
    assert_true(put_text(cache, key, "payload"));
    umask(old);
    assert_int_equal(stat(entry_path(cache, key), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0644);
    assert_int_equal(count_files(dir, ""), 3); /* the entry, the tag, the lock file */
    char hex[33], name[64];
    ptxpack_cache_key_hex(key, hex);
    snprintf(name, sizeof name, "%s.entry", hex);
    assert_true(exists(path_in(dir, name)));
    size_t   bytes;
    uint8_t *tag = read_whole(path_in(dir, "CACHEDIR.TAG"), &bytes);
    assert_true(bytes > 43 && !memcmp(tag, "Signature: 8a477f597d28d172789f06886806bc55", 43));
    free(tag);

    /* A folder that holds other files gets no tag, which would exclude it from backups. */
    char *home = strdup(path_in(scratch, "home"));
    assert_int_equal(mkdir(home, 0700), 0);
    write_whole(path_in(home, "thesis.txt"), "x", 1);
    ptxpack_cache *other = open_with((ptxpack_cache_options){.dir = home});
    assert_true(put_text(other, key, "payload"));
    assert_false(exists(path_in(home, "CACHEDIR.TAG")));
    ptxpack_cache_close(other);
    free(home);
    ptxpack_cache_key_free(key);
}

TEST(test_directory_vanishes)
{
    ptxpack_cache_key  *key = key_of("a");
    ptxpack_cache_entry entry;
    for (int i = 0; i < 3; i++) {
        assert_true(put_text(cache, key, "payload"));
        assert_true(has_text(cache, key, "payload"));
        nftw(dir, scratch_unlink, 16, FTW_DEPTH | FTW_PHYS);
        assert_false(exists(dir));
        assert_false(ptxpack_cache_get(cache, key, &entry));
        assert_string_equal(ptxpack_cache_detail(cache), "");
        assert_int_equal(stats_of(cache).entries, 0);
        assert_false(exists(dir));
    }
    ptxpack_cache_key_free(key);
}

TEST(test_read_only)
{
    ptxpack_cache_key *key = key_of("a"), *other = key_of("b");
    assert_true(put_text(cache, key, "payload"));
    char *path = strdup(entry_path(cache, key));
    unlink(path_in(dir, ".lock"));
    set_age(path, 10000);
    struct stat before, after;
    assert_int_equal(stat(path, &before), 0);
    ptxpack_cache *reader = open_with((ptxpack_cache_options){.readonly = true});
    assert_true(ptxpack_cache_enabled(reader));
    assert_true(has_text(reader, key, "payload"));
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_mtime, after.st_mtime);
    assert_false(put_text(reader, other, "payload"));
    assert_false(put_text(reader, key, "changed"));
    assert_int_equal(ptxpack_cache_lock(reader, other, 1000), -1);
    assert_false(ptxpack_cache_remove(reader, key));
    assert_false(ptxpack_cache_trim(reader, 0, NULL));
    assert_non_null(strstr(ptxpack_cache_detail(reader), "read-only"));
    assert_false(ptxpack_cache_clear(reader, NULL));
    assert_true(has_text(reader, key, "payload"));
    assert_int_equal(count_files(dir, ""), 2);
    assert_int_equal(stats_of(reader).refused, 0);
    ptxpack_cache_close(reader);

    reader = open_with((ptxpack_cache_options){.readonly = true, .dir = path_in(scratch, "none")});
    assert_true(ptxpack_cache_enabled(reader));
    assert_false(has_text(reader, key, "payload"));
    assert_false(exists(path_in(scratch, "none")));
    ptxpack_cache_close(reader);
    free(path);
    ptxpack_cache_key_free(key);
    ptxpack_cache_key_free(other);
}

TEST(test_disabled_and_null)
{
    ptxpack_cache_key *key = key_of("a");
    ptxpack_cache *off = open_with((ptxpack_cache_options){.disable = true, .dir = path_in(scratch, "off")});
    ptxpack_cache *const list[] = {off, NULL};
    for (int i = 0; i < 2; i++) {
        ptxpack_cache_entry entry;
        ptxpack_cache_state seen;
        assert_false(ptxpack_cache_enabled(list[i]));
        assert_non_null(strstr(ptxpack_cache_detail(list[i]), "cache disabled: "));
        assert_false(put_text(list[i], key, "payload"));
        assert_false(ptxpack_cache_get(list[i], key, &entry));
        assert_int_equal(ptxpack_cache_lock(list[i], key, 1000), -1);
        ptxpack_cache_unlock(list[i], -1);
        assert_false(ptxpack_cache_remove(list[i], key));
        assert_false(ptxpack_cache_trim(list[i], 0, NULL));
        assert_false(ptxpack_cache_clear(list[i], NULL));
        assert_false(ptxpack_cache_each(list[i], true, note_state, &seen));
        assert_int_equal(stats_of(list[i]).entries, 0);
    }
    assert_int_equal(stats_of(off).misses, 1);
    assert_false(exists(path_in(scratch, "off")));
    assert_string_equal(ptxpack_cache_path(NULL), "");
    ptxpack_cache_close(off);
    ptxpack_cache_close(NULL);
    ptxpack_cache_key_free(key);
}

/* ---- list and verify ---------------------------------------------------------------------------- */

typedef struct tally {
    int good, bad, remove_bad;
} tally;

static ptxpack_cache_step count_states(const ptxpack_cache_info *info, void *user)
{
    tally *t = (tally *)user;
    assert_int_equal(strlen(info->name), 32);
    if (info->state != PTXPACK_CACHE_GOOD) {
        t->bad++;
        assert_string_equal(info->label, "");
        return t->remove_bad ? PTXPACK_CACHE_REMOVE : PTXPACK_CACHE_NEXT;
    }
    t->good++;
    assert_string_equal(info->label, "label");
    assert_int_equal(info->metadata_bytes, 4);
    assert_memory_equal(info->metadata, "meta", 4);
    assert_int_equal(info->payload_bytes, 7);
    assert_int_equal(info->file_bytes, 40 + 5 + 4 + info->key_bytes + 7 + 16);
    assert_true(llabs((long long)(info->last_used - time(NULL))) < 100);
    return PTXPACK_CACHE_NEXT;
}

static ptxpack_cache_step stop_at_once(const ptxpack_cache_info *info, void *user)
{
    (void)info;
    ++*(int *)user;
    return PTXPACK_CACHE_STOP;
}

TEST(test_each)
{
    for (int i = 0; i < 5; i++) {
        ptxpack_cache_key *key = numbered(i);
        assert_true(put_text(cache, key, "payload"));
        if (i == 3) {
            size_t   bytes;
            uint8_t *file = read_whole(entry_path(cache, key), &bytes);
            file[bytes - 20] ^= 1; /* in the payload: only the checksum shows it */
            write_whole(entry_path(cache, key), file, bytes);
            free(file);
        }
        ptxpack_cache_key_free(key);
    }
    tally t = {0, 0, 0};
    assert_true(ptxpack_cache_each(cache, false, count_states, &t));
    assert_int_equal(t.good, 5);
    t = (tally){0, 0, 0};
    assert_true(ptxpack_cache_each(cache, true, count_states, &t));
    assert_true(t.good == 4 && t.bad == 1);
    t = (tally){0, 0, 1};
    assert_true(ptxpack_cache_each(cache, true, count_states, &t));
    assert_int_equal(stats_of(cache).entries, 4);
    int calls = 0;
    assert_true(ptxpack_cache_each(cache, false, stop_at_once, &calls));
    assert_int_equal(calls, 1);
}

RUN_TESTS(NULL, NULL)
