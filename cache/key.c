/* key.c - the key builder: length-prefixed fields in order, and their XXH3-128 digest. */
#define XXH_INLINE_ALL
#include <xxhash.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "internal.h"

/* One field: 4 bytes length of the name, name, 8 bytes length of the value, value; lengths little-endian.
 * Every length is before what it counts, so the list of fields can be read back from the blob: two
 * different lists cannot give one blob. */

enum { KEY_CAP = 64 << 20 };

static void poison(ptxpack_cache_key *key, const char *reason)
{
    if (key != NULL && !key->poisoned) {
        key->poisoned = true;
        snprintf(key->reason, sizeof key->reason, "%s",
                 reason != NULL && *reason ? reason : "no reason was given");
    }
}

static bool reserve(ptxpack_cache_key *key, size_t more)
{
    if (more > KEY_CAP || key->bytes > KEY_CAP - more) {
        poison(key, "the key is larger than 64 MiB");
        return false;
    }
    if (key->bytes + more <= key->capacity)
        return true;
    size_t capacity = key->capacity ? key->capacity : 256;
    while (capacity < key->bytes + more)
        capacity *= 2;
    uint8_t *blob = (uint8_t *)realloc(key->blob, capacity);
    if (blob == NULL) {
        poison(key, "out of memory while the key was built");
        return false;
    }
    key->blob = blob;
    key->capacity = capacity;
    return true;
}

static void append(ptxpack_cache_key *key, const void *bytes, size_t count)
{
    if (count)
        memcpy(key->blob + key->bytes, bytes, count);
    key->bytes += count;
}

static void append_length(ptxpack_cache_key *key, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        key->blob[key->bytes++] = (uint8_t)(value >> 8 * i);
}

ptxpack_cache_key *ptxpack_cache_key_create(void)
{
    ptxpack_cache_key *key = (ptxpack_cache_key *)calloc(1, sizeof *key);
    if (key != NULL)
        ptxpack_cache_key_add_u64(key, "ptxpack-cache-format", ptxpack_entry_version);
    return key;
}

void ptxpack_cache_key_free(ptxpack_cache_key *key)
{
    if (key != NULL)
        free(key->blob);
    free(key);
}

void ptxpack_cache_key_add(ptxpack_cache_key *key, const char *name, const void *value, size_t bytes)
{
    if (key == NULL || key->poisoned)
        return;
    if (name == NULL || (value == NULL && bytes)) {
        char reason[160];
        snprintf(reason, sizeof reason, "the field %s is NULL", name != NULL ? name : "name");
        poison(key, reason);
        return;
    }
    size_t name_bytes = strlen(name);
    if (bytes > KEY_CAP || name_bytes > KEY_CAP || !reserve(key, 4 + name_bytes + 8 + bytes)) {
        poison(key, "the key is larger than 64 MiB");
        return;
    }
    append_length(key, name_bytes, 4);
    append(key, name, name_bytes);
    append_length(key, bytes, 8);
    append(key, value, bytes);
}

void ptxpack_cache_key_add_text(ptxpack_cache_key *key, const char *name, const char *text)
{
    ptxpack_cache_key_add(key, name, text, text != NULL ? strlen(text) : 1);
}

void ptxpack_cache_key_add_u64(ptxpack_cache_key *key, const char *name, uint64_t value)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
    ptxpack_cache_key_add(key, name, bytes, sizeof bytes);
}

void ptxpack_cache_key_poison(ptxpack_cache_key *key, const char *reason) { poison(key, reason); }

const char *ptxpack_cache_key_poisoned(const ptxpack_cache_key *key)
{
    if (key == NULL)
        return "there is no key";
    return key->poisoned ? key->reason : NULL;
}

void ptxpack_cache_digest(const void *blob, size_t bytes, uint8_t digest[16])
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(blob, bytes));
    memcpy(digest, canonical.digest, 16);
}

void ptxpack_cache_hex_of(const uint8_t digest[16], char hex[PTXPACK_CACHE_HEX + 1])
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 16; i++) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    hex[PTXPACK_CACHE_HEX] = '\0';
}

void ptxpack_cache_key_hex(const ptxpack_cache_key *key, char hex[33])
{
    if (hex == NULL)
        return;
    uint8_t digest[16];
    hex[0] = '\0';
    if (ptxpack_cache_key_poisoned(key) != NULL)
        return;
    ptxpack_cache_digest(key->blob, key->bytes, digest);
    ptxpack_cache_hex_of(digest, hex);
}
