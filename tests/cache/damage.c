/* damage.c - the cache: whatever an entry file contains, only the stored bytes are returned. */
#define XXH_INLINE_ALL
#include <xxhash.h>
#include "handle.h"

#define BEFORE_EACH set_up
#define AFTER_EACH  tear_down

/* ---- integrity: whatever the file contains, only the stored bytes are returned ------------------ */

/* Checks that a bad file is counted as a miss, and that the next put repairs it. */
static void check_bad_then_replaced(ptxpack_cache_key *key)
{
    ptxpack_cache_entry entry;
    uint64_t            corrupt = stats_of(cache).corrupt;
    assert_false(ptxpack_cache_get(cache, key, &entry));
    assert_null(entry.payload);
    assert_non_null(strstr(ptxpack_cache_detail(cache), "cache miss: "));
    assert_int_equal(stats_of(cache).corrupt, corrupt + 1);
    assert_true(put_text(cache, key, "payload"));
    assert_true(has_text(cache, key, "payload"));
}

TEST(test_every_flipped_bit)
{
    ptxpack_cache_key  *key = key_of("a");
    ptxpack_cache_entry entry;
    assert_true(put_text(cache, key, "payload"));
    size_t   bytes;
    uint8_t *file = read_whole(entry_path(cache, key), &bytes);
    for (size_t i = 0; i < bytes; i++) {
        for (int bit = 0; bit < 8; bit++) {
            file[i] ^= (uint8_t)(1 << bit);
            write_whole(entry_path(cache, key), file, bytes);
            file[i] ^= (uint8_t)(1 << bit);
            assert_false(ptxpack_cache_get(cache, key, &entry));
        }
        check_bad_then_replaced(key);
    }
    assert_int_equal(stats_of(cache).corrupt, 9 * bytes);
    size_t   again;
    uint8_t *last = read_whole(entry_path(cache, key), &again);
    assert_int_equal(again, bytes);
    assert_memory_equal(last, file, bytes);
    free(last);
    free(file);
    ptxpack_cache_key_free(key);
}

TEST(test_every_truncation_and_extensions)
{
    ptxpack_cache_key *key = key_of("a");
    assert_true(put_text(cache, key, "payload"));
    size_t   bytes;
    uint8_t *file = read_whole(entry_path(cache, key), &bytes);
    for (size_t length = 0; length < bytes; length++) {
        write_whole(entry_path(cache, key), file, length);
        check_bad_then_replaced(key);
    }
    memset(file + bytes, 0, bytes);
    for (size_t more = 1; more <= 64; more += 7) {
        write_whole(entry_path(cache, key), file, bytes + more);
        check_bad_then_replaced(key);
    }
    memcpy(file + bytes, file, bytes);
    write_whole(entry_path(cache, key), file, 2 * bytes);
    check_bad_then_replaced(key);
    memset(file, 0, bytes); /* some file systems leave this after a crash without fsync */
    write_whole(entry_path(cache, key), file, bytes);
    check_bad_then_replaced(key);
    free(file);
    ptxpack_cache_key_free(key);
}

/* Puts a right checksum at the end of a changed file. */
static void reseal(uint8_t *file, size_t bytes)
{
    XXH128_canonical_t sum;
    XXH128_canonicalFromHash(&sum, XXH3_128bits(file, bytes - 16));
    memcpy(file + bytes - 16, sum.digest, 16);
}

TEST(test_foreign_version_and_lying_sizes)
{
    ptxpack_cache_key *key = key_of("a");
    assert_true(put_text(cache, key, "payload"));
    size_t   bytes;
    uint8_t *file = read_whole(entry_path(cache, key), &bytes), *good = (uint8_t *)malloc(bytes);
    assert_non_null(good);
    memcpy(good, file, bytes);
    reseal(file, bytes);
    assert_memory_equal(good, file, bytes); /* reseal does what the writer does */

    file[8] = 2; /* the next version */
    reseal(file, bytes);
    write_whole(entry_path(cache, key), file, bytes);
    ptxpack_cache_state seen = PTXPACK_CACHE_GOOD;
    assert_true(ptxpack_cache_each(cache, true, note_state, &seen));
    assert_int_equal(seen, PTXPACK_CACHE_FOREIGN);
    check_bad_then_replaced(key);
    memcpy(file, good, bytes);
    file[0] = 0x7f; /* not our magic */
    reseal(file, bytes);
    write_whole(entry_path(cache, key), file, bytes);
    check_bad_then_replaced(key);

    for (size_t at = 12; at < 40; at += at == 12 ? 4 : 8) { /* each size: huge, overflowing, wrong by one */
        const size_t          width = at == 12 ? 4 : 8;
        static const uint64_t lies[] = {UINT64_MAX, UINT64_MAX - 100, UINT64_C(1) << 63, UINT64_C(1) << 30,
                                        UINT64_C(1) << 32};
        for (size_t i = 0; i < 7; i++) {
            memcpy(file, good, bytes);
            uint64_t value = i < 5 ? lies[i] : (uint64_t)file[at] + (i == 5 ? 1 : -1);
            for (size_t b = 0; b < width; b++)
                file[at + b] = (uint8_t)(value >> 8 * b);
            if (!memcmp(file, good, bytes))
                continue; /* 2^32 is 0 in four bytes */
            reseal(file, bytes);
            write_whole(entry_path(cache, key), file, bytes);
            check_bad_then_replaced(key);
        }
    }
    free(file);
    free(good);
    ptxpack_cache_key_free(key);
}

TEST(test_shifted_sizes_do_not_fool_the_key)
{
    ptxpack_cache_key *key = key_of("a");
    assert_true(put_text(cache, key, "payload"));
    size_t   bytes;
    uint8_t *file = read_whole(entry_path(cache, key), &bytes);
    file[16]--; /* one byte of metadata becomes one byte of key */
    file[24]++;
    reseal(file, bytes);
    write_whole(entry_path(cache, key), file, bytes);
    check_bad_then_replaced(key);
    free(file);
    ptxpack_cache_key_free(key);
}

TEST(test_entry_of_another_key)
{
    ptxpack_cache_key *a = key_of("a"), *b = key_of("b");
    assert_true(put_text(cache, a, "kernel of a"));
    size_t   bytes;
    uint8_t *file = read_whole(entry_path(cache, a), &bytes);
    write_whole(entry_path(cache, b), file, bytes);
    ptxpack_cache_state seen = PTXPACK_CACHE_GOOD;
    ptxpack_cache_remove(cache, a);
    assert_true(ptxpack_cache_each(cache, true, note_state, &seen));
    assert_int_equal(seen, PTXPACK_CACHE_CORRUPT);
    check_bad_then_replaced(b);
    free(file);
    ptxpack_cache_key_free(a);
    ptxpack_cache_key_free(b);
}

TEST(test_things_that_are_no_entry_files)
{
    ptxpack_cache_key *key = key_of("a"), *real = key_of("b");
    assert_true(put_text(cache, real, "payload"));
    char *path = strdup(entry_path(cache, key));
    assert_int_equal(symlink(entry_path(cache, real), path), 0);
    check_bad_then_replaced(key);
    assert_true(has_text(cache, real, "payload"));
    assert_int_equal(rename(path, path_in(scratch, "elsewhere")), 0);  /* a whole entry of this key ... */
    assert_int_equal(symlink(path_in(scratch, "elsewhere"), path), 0); /* ... which others may change */
    check_bad_then_replaced(key);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    check_bad_then_replaced(key);
    static const mode_t others_may_write[] = {0666, 0660, 0602};
    for (size_t i = 0; i < sizeof others_may_write / sizeof *others_may_write; i++) {
        assert_int_equal(chmod(path, others_may_write[i]), 0);
        check_bad_then_replaced(key);
    }
    unlink(path);
    /* it cannot be replaced: this is refused without a temporary file or a crash */
    assert_int_equal(mkdir(path, 0700), 0);
    ptxpack_cache_entry entry;
    assert_false(ptxpack_cache_get(cache, key, &entry));
    assert_false(put_text(cache, key, "payload"));
    assert_true(strlen(ptxpack_cache_detail(cache)) > 0);
    assert_int_equal(count_files(dir, ".tmp"), 0);
    assert_true(ptxpack_cache_clear(cache, NULL));
    assert_true(exists(path));
    if (geteuid() == 0) {
        rmdir(path);
        assert_true(put_text(cache, key, "payload"));
        assert_int_equal(chown(path, 4242, 4242), 0);
        check_bad_then_replaced(key);
    }
    free(path);
    ptxpack_cache_key_free(key);
    ptxpack_cache_key_free(real);
}

RUN_TESTS(NULL, NULL)
