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

/* Open `dir`.  `pin` is the SHA-256 that its manifest must have, as 64 digits, or NULL.  On failure the result
 * is NULL, and `line` names the folder and the reason. */
ptxpack_prebuilt *ptxpack_prebuilt_open(const char *dir, const char *pin, char line[PTXPACK_CACHE_LINE]);
void              ptxpack_prebuilt_close(ptxpack_prebuilt *folder); /* NULL is allowed */
/* Like ptxpack_cache_prebuilt; the strings live as long as the folder is open. */
void ptxpack_prebuilt_describe(const ptxpack_prebuilt *folder, ptxpack_prebuilt_info *info);

/* ---- filling a folder --------------------------------------------------------------------------- */

typedef struct ptxpack_filling ptxpack_filling;

/* Open `dir` to fill it.  If it does not exist, it is made with mode 0755.  An existing folder must be empty,
 * have a manifest, or have been left by a filling that was stopped.  If another process fills the folder, the
 * call first calls `waits` (NULL: nothing) and then waits.  On failure the result is NULL, with one line. */
ptxpack_filling *ptxpack_filling_open(const char *dir, const char *library, void (*waits)(const char *dir),
                                      char line[PTXPACK_CACHE_LINE]);
/* Whether the folder has a good entry of that key.  Any thread may call it and the next function. */
bool ptxpack_filling_has(ptxpack_filling *filling, const ptxpack_cache_key *key);
/* Write an entry, which the manifest that finish writes will list.  False, with one line: nothing was
 * written. */
bool ptxpack_filling_put(ptxpack_filling *filling, const ptxpack_cache_key *key, const char *label,
                         const void *metadata, size_t metadata_bytes, const void *payload, size_t payload_bytes,
                         char line[PTXPACK_CACHE_LINE]);
/* Write the manifest.  It lists the entries that it listed before and those that were put.  With `only_current`
 * it lists only those that were put or that ptxpack_filling_has found.  Entries that it does not list are
 * removed.  *entries and *bytes count what it lists.  False, with one line: the old manifest, if there is one,
 * is unchanged. */
bool ptxpack_filling_finish(ptxpack_filling *filling, bool only_current, size_t *entries, uint64_t *bytes,
                            char line[PTXPACK_CACHE_LINE]);
/* Close the filling.  Without ptxpack_filling_finish nothing that was put is listed. */
void ptxpack_filling_close(ptxpack_filling *filling);
#endif
