/* inspect.h - private: what the loader, the command and the tests use of the cache beyond cache.h: folders of
 * prebuilt machine code one at a time (prebuilt/prebuilt.h), and SHA-256. */
#ifndef PTXPACK_CACHE_INSPECT_H
#define PTXPACK_CACHE_INSPECT_H
#include "cache.h"
#include "cache/prebuilt/sha256.h"

enum {
    PTXPACK_CACHE_LINE = 512,    /* buffer for a detail line */
    PTXPACK_MANIFEST_LABEL = 256 /* buffer for the label of a prebuilt entry */
};

typedef struct ptxpack_prebuilt ptxpack_prebuilt;

/* Is there a manifest in that directory? */
bool ptxpack_prebuilt_is(int dirfd);

/* Open `dir`.  `pin`: the 64 digits that its manifest must have, or NULL.  NULL, with one line that names
 * folder and reason. */
ptxpack_prebuilt *ptxpack_prebuilt_open(const char *dir, const char *pin, char line[PTXPACK_CACHE_LINE]);
void              ptxpack_prebuilt_close(ptxpack_prebuilt *folder); /* NULL is fine */
/* As ptxpack_cache_prebuilt; the strings live as long as the folder is open. */
void ptxpack_prebuilt_describe(const ptxpack_prebuilt *folder, ptxpack_prebuilt_info *info);

/* ---- filling a folder --------------------------------------------------------------------------- */

typedef struct ptxpack_filling ptxpack_filling;

/* Open `dir` to be filled, making it (mode 0755) where there is none: a folder that is empty, that has a
 * manifest, or that a filling which was stopped has left.  Waits while another process fills it, after a call
 * of `waits` (NULL: none).  NULL with one line. */
ptxpack_filling *ptxpack_filling_open(const char *dir, const char *library, void (*waits)(const char *dir),
                                      char line[PTXPACK_CACHE_LINE]);
/* Is there a good entry of that key?  Any thread, as the two below. */
bool ptxpack_filling_has(ptxpack_filling *filling, const ptxpack_cache_key *key);
/* Write an entry; it is listed by the manifest that finish writes.  False with one line: nothing is there. */
bool ptxpack_filling_put(ptxpack_filling *filling, const ptxpack_cache_key *key, const char *label,
                         const void *metadata, size_t metadata_bytes, const void *payload, size_t payload_bytes,
                         char line[PTXPACK_CACHE_LINE]);
/* Write the manifest: of what it listed and what was put, or with `only_current` of what was put or found
 * there by _has alone; the number of entries and bytes that it lists.  Entries that it does not list are
 * removed. False with one line: the old manifest, if any, is as it was. */
bool ptxpack_filling_finish(ptxpack_filling *filling, bool only_current, size_t *entries, uint64_t *bytes,
                            char line[PTXPACK_CACHE_LINE]);
void ptxpack_filling_close(ptxpack_filling *filling); /* without finish: nothing that was put is listed */
#endif
