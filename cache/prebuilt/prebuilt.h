/* prebuilt.h - a folder of prebuilt machine code: entries of the cache's format under a manifest.  Not
 * installed.
 *
 * Trust    The folder and its manifest must belong to the effective user or to root, and nobody else may write
 *          to them; or the manifest must have the SHA-256 that the user pinned, and then the owner does not
 *          matter.  The bytes of an entry are read into memory, and used from there only if they have the size
 *          and the SHA-256 that the manifest lists.  Files that the manifest does not list are ignored.
 * Reading  The manifest is read when the folder is opened, and an entry is read when it is asked for.  So a
 *          folder opens in well under a millisecond, and every entry is checked before it is used.
 * Writing  One process at a time writes; it holds a lock on the folder that leaves no file.  It writes first
 *          the entries and then the manifest, each atomically.  If a writer dies, the folder is as its last
 *          manifest says.  Readers need no lock, because entries that are listed and good are never changed. */
#ifndef PTXPACK_PREBUILT_H
#define PTXPACK_PREBUILT_H
#include "cache/inspect.h"
#include "manifest.h"

struct ptxpack_prebuilt {
    char            *dir;                            /* absolute */
    char             sha256[PTXPACK_SHA256_HEX + 1]; /* of the manifest */
    bool             pinned;
    ptxpack_manifest manifest;
};

/* A descriptor of a trusted folder, or with `anyones` of any folder; -1 with one line. */
int ptxpack_prebuilt_open_dir(const char *dir, bool anyones, char line[PTXPACK_CACHE_LINE]);

/* Read the entry that the manifest lists as `name` (32 digits).  Its key must be `key`; if that is NULL, the
 * digest of its key must be the name.  NONE: the manifest lists no such entry.  BAD: the file is missing or is
 * not what the manifest says, with one line.  *entry is zeroed unless the result is HIT. */
ptxpack_prebuilt_result ptxpack_prebuilt_read(const ptxpack_prebuilt *folder, const char *name,
                                              const ptxpack_cache_key *key, ptxpack_cache_entry *entry,
                                              char line[PTXPACK_CACHE_LINE]);
#endif
