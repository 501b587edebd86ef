/* entry.c - the format of an entry file, and the only code that reads or writes one.
 *
 *   offset  bytes  what                     All numbers are little-endian.
 *        0      8  magic "\x89ptxpk\r\n"
 *        8      4  format version
 *       12      4  bytes of the label        at most 1 KiB
 *       16      8  bytes of the metadata     at most 16 MiB
 *       24      8  bytes of the key          at most 64 MiB
 *       32      8  bytes of the payload      1 to 1 GiB
 *       40         label, metadata, key, payload, one after another
 *      end     16  XXH3-128, canonical, of everything before it
 *
 * The file is exactly as long as its header says.  Every size is checked against its limit and the file's
 * length before anything is allocated.  The name of the file is the XXH3-128 of the key, and the file holds the
 * whole key, which is compared.  Entries are read, never mapped: if a mapped file shrinks, its reader is
 * killed. */
#define XXH_INLINE_ALL
#include <xxhash.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "internal.h"
#include "cache/prebuilt/sha256.h"

const uint32_t ptxpack_entry_version = 1;

enum { HEADER_BYTES = 40, CHECKSUM_BYTES = 16 };
static const uint8_t  magic[8] = {0x89, 'p', 't', 'x', 'p', 'k', '\r', '\n'};
static const uint64_t label_cap = 1 << 10, metadata_cap = 16 << 20, key_cap = 64 << 20, payload_cap = 1 << 30;

static void put_le(uint8_t *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get_le(const uint8_t *at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

uint64_t ptxpack_entry_size(const ptxpack_entry_parts *p)
{
    if (p->label_bytes > label_cap || p->metadata_bytes > metadata_cap || p->key_bytes > key_cap ||
        p->payload_bytes > payload_cap || p->payload_bytes == 0)
        return 0;
    return HEADER_BYTES + (uint64_t)p->label_bytes + p->metadata_bytes + p->key_bytes + p->payload_bytes +
           CHECKSUM_BYTES;
}

/* ---- writing ------------------------------------------------------------------------------------ */

int ptxpack_cache_write_all(int fd, const void *bytes, size_t count)
{
    const uint8_t *at = (const uint8_t *)bytes;
    while (count) {
        ssize_t n = write(fd, at, count);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : ENOSPC;
        at += n;
        count -= (size_t)n;
    }
    return 0;
}

/* Writes bytes of an entry to its destination: 0 or an errno. */
typedef int (*taker)(void *to, const void *bytes, size_t count);

static int put_out(taker take, void *to, const ptxpack_entry_parts *p)
{
    uint8_t header[HEADER_BYTES];
    memcpy(header, magic, sizeof magic);
    put_le(header + 8, ptxpack_entry_version, 4);
    put_le(header + 12, p->label_bytes, 4);
    put_le(header + 16, p->metadata_bytes, 8);
    put_le(header + 24, p->key_bytes, 8);
    put_le(header + 32, p->payload_bytes, 8);

    const struct {
        const void *bytes;
        size_t      count;
    } pieces[] = {{header, sizeof header},
                  {p->label, p->label_bytes},
                  {p->metadata, p->metadata_bytes},
                  {p->key, p->key_bytes},
                  {p->payload, p->payload_bytes}};
    XXH3_state_t state;
    XXH3_128bits_reset(&state);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        if (!pieces[i].count)
            continue;
        XXH3_128bits_update(&state, pieces[i].bytes, pieces[i].count);
        int error = take(to, pieces[i].bytes, pieces[i].count);
        if (error)
            return error;
    }
    XXH128_canonical_t sum;
    XXH128_canonicalFromHash(&sum, XXH3_128bits_digest(&state));
    return take(to, sum.digest, sizeof sum.digest);
}

static int to_file(void *to, const void *bytes, size_t count)
{
    return ptxpack_cache_write_all(*(int *)to, bytes, count);
}

int ptxpack_entry_write(int fd, const ptxpack_entry_parts *parts) { return put_out(to_file, &fd, parts); }

static int to_digest(void *to, const void *bytes, size_t count)
{
    ptxpack_sha256_add((ptxpack_sha256_state *)to, bytes, count);
    return 0;
}

void ptxpack_entry_sha256(const ptxpack_entry_parts *parts, uint8_t digest[PTXPACK_SHA256_BYTES])
{
    ptxpack_sha256_state state;
    ptxpack_sha256_begin(&state);
    put_out(to_digest, &state, parts);
    ptxpack_sha256_end(&state, digest);
}

/* ---- reading ------------------------------------------------------------------------------------ */

/* An entry that is being read: the file, or its remaining bytes in memory; its header; and the checksum so
 * far. */
typedef struct reader {
    int                  fd; /* -1: the bytes are in memory */
    const uint8_t       *memory;
    size_t               left;
    ptxpack_entry_parts  sizes; /* the counts only */
    XXH3_state_t         state;
    ptxpack_entry_result result;
    int                  error; /* errno of PTXPACK_ENTRY_ERROR */
} reader;

static void fail(reader *r, int error)
{
    r->result = PTXPACK_ENTRY_ERROR;
    r->error = error;
}

static void fill_from_memory(reader *r, void *bytes, size_t count)
{
    if (count > r->left) {
        r->result = PTXPACK_ENTRY_CORRUPT;
    } else if (count) {
        memcpy(bytes, r->memory, count);
        r->memory += count;
        r->left -= count;
    }
}

static void fill(reader *r, void *bytes, size_t count)
{
    uint8_t *at = (uint8_t *)bytes;
    if (r->memory != NULL)
        fill_from_memory(r, bytes, count);
    for (size_t left = r->memory != NULL ? 0 : count; left && r->result == PTXPACK_ENTRY_GOOD;) {
        ssize_t n = read(r->fd, at, left);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            fail(r, errno);
        } else if (n == 0) {
            r->result = PTXPACK_ENTRY_CORRUPT; /* the file has become shorter */
        } else {
            at += n;
            left -= (size_t)n;
        }
    }
    if (count && r->result == PTXPACK_ENTRY_GOOD)
        XXH3_128bits_update(&r->state, bytes, count);
}

/* The next `count` bytes, malloc'ed and followed by a NUL. */
static void *fetch(reader *r, size_t count)
{
    if (r->result != PTXPACK_ENTRY_GOOD)
        return NULL;
    uint8_t *bytes = (uint8_t *)malloc(count + 1);
    if (bytes == NULL) {
        fail(r, ENOMEM);
        return NULL;
    }
    bytes[count] = 0;
    fill(r, bytes, count);
    return bytes;
}

static void read_header(reader *r, uint64_t file_bytes)
{
    uint8_t header[HEADER_BYTES];
    if (file_bytes < HEADER_BYTES)
        r->result = PTXPACK_ENTRY_CORRUPT;
    fill(r, header, sizeof header);
    if (r->result != PTXPACK_ENTRY_GOOD)
        return;
    if (memcmp(header, magic, sizeof magic) != 0) {
        r->result = PTXPACK_ENTRY_CORRUPT;
        return;
    }
    if (get_le(header + 8, 4) != ptxpack_entry_version) {
        r->result = PTXPACK_ENTRY_FOREIGN;
        return;
    }
    const uint64_t label = get_le(header + 12, 4), metadata = get_le(header + 16, 8);
    const uint64_t key = get_le(header + 24, 8), payload = get_le(header + 32, 8);
    if (label > label_cap || metadata > metadata_cap || key > key_cap || payload > payload_cap) {
        r->result = PTXPACK_ENTRY_CORRUPT; /* because a size_t of 32 bits would truncate it */
        return;
    }
    r->sizes.label_bytes = (size_t)label;
    r->sizes.metadata_bytes = (size_t)metadata;
    r->sizes.key_bytes = (size_t)key;
    r->sizes.payload_bytes = (size_t)payload;
    if (ptxpack_entry_size(&r->sizes) != file_bytes)
        r->result = PTXPACK_ENTRY_CORRUPT;
}

/* Open the file and read its header.  A file of another user, or one that anybody may write, is not
 * trusted. */
static void start(reader *r, int dirfd, const char *name, struct stat *stamp)
{
    struct stat dir;
    memset(stamp, 0, sizeof *stamp);
    memset(r, 0, sizeof *r);
    XXH3_128bits_reset(&r->state);
    r->fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (r->fd < 0 || fstat(r->fd, stamp) != 0 || fstat(dirfd, &dir) != 0) {
        fail(r, errno);
        if (r->error == ELOOP) /* an entry is never a symbolic link */
            r->result = PTXPACK_ENTRY_CORRUPT;
        return;
    }
    const bool ours = S_ISREG(stamp->st_mode) && stamp->st_uid == dir.st_uid &&
                      !(stamp->st_mode & (S_IWGRP | S_IWOTH));
    r->result = ours ? PTXPACK_ENTRY_GOOD : PTXPACK_ENTRY_CORRUPT;
    if (ours)
        read_header(r, (uint64_t)stamp->st_size);
}

static void check_sum(reader *r)
{
    XXH128_canonical_t want, have;
    if (r->result != PTXPACK_ENTRY_GOOD)
        return;
    XXH128_canonicalFromHash(&want, XXH3_128bits_digest(&r->state));
    fill(r, have.digest, sizeof have.digest);
    if (r->result == PTXPACK_ENTRY_GOOD && memcmp(want.digest, have.digest, sizeof want.digest) != 0)
        r->result = PTXPACK_ENTRY_CORRUPT;
}

static void check_key(reader *r, const char *name, const struct ptxpack_cache_key *key, const uint8_t *blob)
{
    char    hex[PTXPACK_CACHE_HEX + 1];
    uint8_t digest[16];
    if (r->result != PTXPACK_ENTRY_GOOD)
        return;
    if (key != NULL) {
        if (key->bytes != r->sizes.key_bytes || memcmp(key->blob, blob, key->bytes) != 0)
            r->result = PTXPACK_ENTRY_CORRUPT;
        return;
    }
    ptxpack_cache_digest(blob, r->sizes.key_bytes, digest);
    ptxpack_cache_hex_of(digest, hex);
    if (strncmp(hex, name, PTXPACK_CACHE_HEX) != 0)
        r->result = PTXPACK_ENTRY_CORRUPT;
}

static ptxpack_entry_result finish(reader *r, ptxpack_cache_entry *out)
{
    if (r->fd >= 0)
        close(r->fd);
    if (r->result != PTXPACK_ENTRY_GOOD)
        ptxpack_cache_entry_free(out);
    errno = r->error;
    return r->result;
}

static void fetch_front(reader *r, ptxpack_cache_entry *out, uint64_t *key_bytes)
{
    out->label = (char *)fetch(r, r->sizes.label_bytes);
    out->metadata_bytes = r->sizes.metadata_bytes;
    out->metadata = fetch(r, out->metadata_bytes);
    out->payload_bytes = r->sizes.payload_bytes;
    *key_bytes = r->sizes.key_bytes;
}

/* Read what follows the header. */
static ptxpack_entry_result fetch_all(reader *r, const char *name, const struct ptxpack_cache_key *key,
                                      ptxpack_cache_entry *out, uint64_t *key_bytes)
{
    fetch_front(r, out, key_bytes);
    uint8_t *blob = (uint8_t *)fetch(r, r->sizes.key_bytes);
    check_key(r, name, key, blob);
    free(blob);
    out->payload = fetch(r, out->payload_bytes);
    check_sum(r);
    return finish(r, out);
}

ptxpack_entry_result ptxpack_entry_read(int dirfd, const char *name, const struct ptxpack_cache_key *key,
                                        ptxpack_cache_entry *out, uint64_t *key_bytes, struct stat *stamp)
{
    reader r;
    memset(out, 0, sizeof *out);
    start(&r, dirfd, name, stamp);
    return fetch_all(&r, name, key, out, key_bytes);
}

ptxpack_entry_result ptxpack_entry_decode(const void *bytes, size_t count, const char *name,
                                          const struct ptxpack_cache_key *key, ptxpack_cache_entry *out,
                                          uint64_t *key_bytes)
{
    reader r;
    memset(out, 0, sizeof *out);
    memset(&r, 0, sizeof r);
    r.fd = -1;
    r.memory = (const uint8_t *)bytes;
    r.left = count;
    XXH3_128bits_reset(&r.state);
    read_header(&r, count);
    return fetch_all(&r, name, key, out, key_bytes);
}

ptxpack_entry_result ptxpack_entry_peek(int dirfd, const char *name, ptxpack_cache_entry *out,
                                        uint64_t *key_bytes, struct stat *stamp)
{
    reader r;
    memset(out, 0, sizeof *out);
    start(&r, dirfd, name, stamp);
    fetch_front(&r, out, key_bytes);
    return finish(&r, out);
}
