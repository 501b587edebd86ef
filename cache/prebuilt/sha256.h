/* sha256.h - SHA-256 (FIPS 180-4) by libmd, and its digits.  Not installed. */
#ifndef PTXPACK_SHA256_H
#define PTXPACK_SHA256_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sha2.h>

enum { PTXPACK_SHA256_BYTES = 32, PTXPACK_SHA256_HEX = 64 };

typedef SHA2_CTX ptxpack_sha256_state;
void             ptxpack_sha256_begin(ptxpack_sha256_state *state);
void             ptxpack_sha256_add(ptxpack_sha256_state *state, const void *bytes, size_t count);
void             ptxpack_sha256_end(ptxpack_sha256_state *state, uint8_t digest[PTXPACK_SHA256_BYTES]);

void ptxpack_sha256(const void *bytes, size_t count, uint8_t digest[PTXPACK_SHA256_BYTES]);
void ptxpack_sha256_hex(const uint8_t digest[PTXPACK_SHA256_BYTES], char hex[PTXPACK_SHA256_HEX + 1]);
/* Read exactly 64 digits in lower case; any text may follow them.  False if they are not there. */
bool ptxpack_sha256_parse(const char *hex, uint8_t digest[PTXPACK_SHA256_BYTES]);
#endif
