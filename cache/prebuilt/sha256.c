/* sha256.c - SHA-256 of libmd, which is linked statically under hidden names. */
#include "sha256.h"
#include <string.h>

void ptxpack_sha256_begin(ptxpack_sha256_state *state) { SHA256Init(state); }

void ptxpack_sha256_add(ptxpack_sha256_state *state, const void *bytes, size_t count)
{
    SHA256Update(state, (const uint8_t *)bytes, count);
}

void ptxpack_sha256_end(ptxpack_sha256_state *state, uint8_t digest[PTXPACK_SHA256_BYTES])
{
    SHA256Final(digest, state);
}

void ptxpack_sha256(const void *bytes, size_t count, uint8_t digest[PTXPACK_SHA256_BYTES])
{
    ptxpack_sha256_state state;
    ptxpack_sha256_begin(&state);
    ptxpack_sha256_add(&state, bytes, count);
    ptxpack_sha256_end(&state, digest);
}

static const char digits[] = "0123456789abcdef";

void ptxpack_sha256_hex(const uint8_t digest[PTXPACK_SHA256_BYTES], char hex[PTXPACK_SHA256_HEX + 1])
{
    for (int i = 0; i < PTXPACK_SHA256_BYTES; i++) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    hex[PTXPACK_SHA256_HEX] = '\0';
}

static int value_of(char digit) { return (int)(strchr(digits, digit) - digits); }

bool ptxpack_sha256_parse(const char *hex, uint8_t digest[PTXPACK_SHA256_BYTES])
{
    if (strspn(hex, digits) < PTXPACK_SHA256_HEX)
        return false;
    for (int i = 0; i < PTXPACK_SHA256_BYTES; i++)
        digest[i] = (uint8_t)(value_of(hex[2 * i]) << 4 | value_of(hex[2 * i + 1]));
    return true;
}
