/* prebuilt.h - a folder of prebuilt machine code: entries of the cache's format under a manifest.  Not
 * installed.
 *
 * Trust    the folder and its manifest must belong to the effective user or to root and be writable by nobody
 *          else, or the manifest must have the SHA-256 that its user pinned: then its owner does not matter.
 *          An entry is what the manifest says: its bytes are read into memory, measured there against size
 *          and SHA-256, and taken from there.  What the manifest does not list does not exist.
 * Reading  of the manifest when the folder is opened, of an entry when it is asked for: a folder is open for
 *          use in well under a millisecond, and no entry is believed that was not measured.
 * Writing  by one process at a time (a lock on the folder, which leaves no file): entries first, each
 *          atomically, then the manifest, atomically.  A writer that dies leaves the folder as its last
 *          manifest says. Readers need no lock: entries that are listed and good are never touched. */
#ifndef PTXPACK_PREBUILT_H
#define PTXPACK_PREBUILT_H
#include "manifest.h"

typedef struct ptxpack_prebuilt {
    char            *dir;                            /* absolute                                  */
    char             sha256[PTXPACK_SHA256_HEX + 1]; /* of the manifest     */
    bool             pinned;
    ptxpack_manifest manifest;
} ptxpack_prebuilt;

/* Is there a manifest in that directory? */
bool ptxpack_prebuilt_is(int dirfd);

/* A descriptor of a folder that may be trusted, or with `anyones` of any; -1 with one line. */
int ptxpack_prebuilt_open_dir(const char *dir, bool anyones, char line[PTXPACK_CACHE_LINE]);

/* Open `dir`.  `pin`: the 64 digits that its manifest must have, or NULL.  NULL, with one line that names
 * folder and reason. */
ptxpack_prebuilt *ptxpack_prebuilt_open(const char *dir, const char *pin, char line[PTXPACK_CACHE_LINE]);
void              ptxpack_prebuilt_close(ptxpack_prebuilt *folder); /* NULL is fine */

/* The entry that the manifest lists as `name` (32 digits), whole; its key must be `key`, or without one that
 * of the name.  NONE: the manifest lists no such entry.  BAD: the file is not there or not what the manifest
 * says: one line.  *entry is zeroed unless HIT. */
ptxpack_prebuilt_result ptxpack_prebuilt_read(const ptxpack_prebuilt *folder, const char *name,
                                              const ptxpack_cache_key *key, ptxpack_cache_entry *entry,
                                              char line[PTXPACK_CACHE_LINE]);

/* ---- filling one -------------------------------------------------------------------------------- */

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
