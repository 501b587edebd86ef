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

/* Whether there is a manifest in that directory. */
bool ptxpack_prebuilt_is(int dirfd);

/* Open `dir`.  `pin`: the 64 digits that its manifest's SHA-256 must have, or NULL.  On failure NULL, and
 * one line that names the folder and the reason. */
ptxpack_prebuilt *ptxpack_prebuilt_open(const char *dir, const char *pin, char line[PTXPACK_CACHE_LINE]);
void              ptxpack_prebuilt_close(ptxpack_prebuilt *folder); /* NULL is fine */
/* As ptxpack_cache_prebuilt; the strings live as long as the folder is open. */
void ptxpack_prebuilt_describe(const ptxpack_prebuilt *folder, ptxpack_prebuilt_info *info);

/* ---- filling a folder --------------------------------------------------------------------------- */

typedef struct ptxpack_filling ptxpack_filling;

/* Open `dir` to fill it, and make it (mode 0755) where there is none.  An existing folder must be empty,
 * have a manifest, or be left by a filling that was stopped.  Waits while another process fills it, after
 * a call of `waits` (NULL: none).  On failure NULL, and one line. */
ptxpack_filling *ptxpack_filling_open(const char *dir, const char *library, void (*waits)(const char *dir),
                                      char line[PTXPACK_CACHE_LINE]);
/* Whether there is a good entry of that key.  Any thread may call it, and the two functions below. */
bool ptxpack_filling_has(ptxpack_filling *filling, const ptxpack_cache_key *key);
/* Write an entry, which the manifest that finish writes will list.  False, with one line: nothing was
 * written. */
bool ptxpack_filling_put(ptxpack_filling *filling, const ptxpack_cache_key *key, const char *label,
                         const void *metadata, size_t metadata_bytes, const void *payload, size_t payload_bytes,
                         char line[PTXPACK_CACHE_LINE]);
/* Write the manifest.  It lists what it listed before and what was put; with `only_current` only what was
 * put, or found by _has.  Entries that it does not list are removed.  *entries and *bytes are what it
 * lists. False, with one line: the old manifest, if any, is unchanged. */
bool ptxpack_filling_finish(ptxpack_filling *filling, bool only_current, size_t *entries, uint64_t *bytes,
                            char line[PTXPACK_CACHE_LINE]);
void ptxpack_filling_close(ptxpack_filling *filling); /* without finish nothing that was put is listed */
#endif
