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
#include "cache/inspect.h"
#include "manifest.h"

struct ptxpack_prebuilt {
    char            *dir;                            /* absolute                                  */
    char             sha256[PTXPACK_SHA256_HEX + 1]; /* of the manifest     */
    bool             pinned;
    ptxpack_manifest manifest;
};

/* A descriptor of a trusted folder, or with `anyones` of any folder; -1 with one line. */
int ptxpack_prebuilt_open_dir(const char *dir, bool anyones, char line[PTXPACK_CACHE_LINE]);

/* Read the entry that the manifest lists as `name` (32 digits).  Its key must be `key`; without one, the
 * key's digest must be the name.  NONE: the manifest lists no such entry.  BAD: the file is missing or is
 * not what the manifest says, with one line.  *entry is zeroed unless HIT. */
ptxpack_prebuilt_result ptxpack_prebuilt_read(const ptxpack_prebuilt *folder, const char *name,
                                              const ptxpack_cache_key *key, ptxpack_cache_entry *entry,
                                              char line[PTXPACK_CACHE_LINE]);
#endif
