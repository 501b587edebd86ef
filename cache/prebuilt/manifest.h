/* manifest.h - the list of what a prebuilt folder holds, as text.  Not installed.
 *
 *   ptxpack-manifest 1
 *   library 0.1.0                                            the version that wrote it last
 *   entry <SHA-256> <bytes> <32 hex digits>.entry <label>    one line for each entry, sorted by name
 *   sha256 <SHA-256 of all lines above>
 *
 * It is read strictly: a text is a manifest only if writing what was read gives the same text.  The last line
 * finds accidental damage.  Against people who may write to the folder only a pin helps, which is the SHA-256
 * of the whole file, kept elsewhere. */
#ifndef PTXPACK_MANIFEST_H
#define PTXPACK_MANIFEST_H
#include "cache/internal.h"
#include "sha256.h"

enum {
    PTXPACK_MANIFEST_CAP = 16 << 20 /* the most bytes of the text */
};

typedef struct ptxpack_manifest_entry {
    char     name[PTXPACK_CACHE_HEX + 1]; /* the key's digest */
    char     label[PTXPACK_MANIFEST_LABEL];
    uint8_t  sha256[PTXPACK_SHA256_BYTES]; /* of the file */
    uint64_t bytes;                        /* of the file */
    bool     current;                      /* a filling has found it or put it; the text does not hold this */
} ptxpack_manifest_entry;

typedef struct ptxpack_manifest {
    char                    library[32];
    ptxpack_manifest_entry *entries; /* sorted by name */
    size_t                  count, capacity;
    uint8_t sha256[PTXPACK_SHA256_BYTES]; /* of the text that was read: a pin must be equal to it */
} ptxpack_manifest;

/* Read a manifest into *out.  False: the text is not a manifest, `line` says where it is wrong ("line 3: ..."),
 * and *out is empty. */
bool ptxpack_manifest_read(const char *text, size_t bytes, ptxpack_manifest *out,
                           char line[PTXPACK_CACHE_LINE]);
/* The text, malloc'ed; NULL when memory ran out or the text is too long. */
char *ptxpack_manifest_text(const ptxpack_manifest *manifest, size_t *bytes);
/* Add an entry, in place of one with the same name.  Characters that may not be in a label become '?', and
 * a long label is cut.  False: memory ran out. */
bool ptxpack_manifest_add(ptxpack_manifest *manifest, const ptxpack_manifest_entry *entry);
const ptxpack_manifest_entry *ptxpack_manifest_find(const ptxpack_manifest *manifest, const char *name);
void                          ptxpack_manifest_remove(ptxpack_manifest *manifest, const char *name);
void                          ptxpack_manifest_free(ptxpack_manifest *manifest); /* and empty it */
#endif
