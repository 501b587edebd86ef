/* internal.h - what the files of cache/ share.  Not installed.
 *
 *   key.c    the key builder          place.c  which directory, may it be trusted
 *   entry.c  the file format          store.c  names, atomic write, lock
 *   walk.c   look at all entries      evict.c  remove some
 *   cache.c  open, get, put, lock: the calls of cache.h, but for keys, `each` and prebuilt folders
 *
 *   folders.c  the prebuilt folders of a handle          prebuilt.c  reading one, filling.c  writing one
 *   manifest.c  the list of what is in one               sha256.c  what it is measured with */
#ifndef PTXPACK_CACHE_INTERNAL_H
#define PTXPACK_CACHE_INTERNAL_H
#include <dirent.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include "inspect.h"

enum {
    PTXPACK_CACHE_HEX = 32,           /* digits of a digest                                  */
    PTXPACK_CACHE_NAME = 64,          /* buffer for any file name in the cache */
    PTXPACK_CACHE_MAX_ENTRIES = 32768 /* a limit on inodes, beside the one on bytes */
};

struct ptxpack_cache_key {
    uint8_t *blob;
    size_t   bytes, capacity;
    bool     poisoned;
    char     reason[160];
};

/* Immutable after open, except for the atomics.  So no call waits for another thread of the process, and a
 * child forked at any moment finds nothing half changed. */
struct ptxpack_cache {
    uint64_t id;  /* never used twice: connects a thread's detail line to this handle */
    char    *dir; /* absolute; NULL when none could be named                                  */
    struct ptxpack_prebuilt **folders; /* prebuilt machine code, in the order in which they are asked  */
    size_t                    folder_count;
    char                     *refusal; /* why one of them cannot be used, and then none is; otherwise NULL */
    bool                      usable;  /* dir could be opened and is trusted */
    bool                      readonly;
    uint64_t                  max_bytes, max_age_s;
    char             line[PTXPACK_CACHE_LINE]; /* what open had to say                                     */
    _Atomic uint64_t hits, misses, stores, corrupt, evicted, refused, prebuilt_hits;
    /* To decide when to measure the directory again: its bytes as last measured plus what was stored
     * since, and the time of the measurement (monotonic seconds, 0: never). */
    _Atomic uint64_t estimate;
    _Atomic int64_t  scanned_at;
};

/* ---- cache.c ------------------------------------------------------------------------------------ */
/* Start a call: forget the thread's line, open the directory and check it again; `create` makes it again
 * when it has vanished.  -1 when there is no directory to work on, with a line unless it merely does not
 * exist. */
int ptxpack_cache_begin(const struct ptxpack_cache *cache, bool create);
/* Set the line about this call of this thread. */
void ptxpack_cache_say(const struct ptxpack_cache *cache, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void ptxpack_cache_forget(const struct ptxpack_cache *cache); /* that line */

/* ---- folders.c ---------------------------------------------------------------------------------- */
/* Open the folders of `wanted` (NULL: the environment's).  An error becomes the handle's refusal.  False:
 * memory is out. */
bool ptxpack_cache_open_folders(struct ptxpack_cache *cache, const char *wanted);
void ptxpack_cache_close_folders(struct ptxpack_cache *cache);

/* ---- key.c -------------------------------------------------------------------------------------- */
/* XXH3-128 of the blob in canonical (big-endian) bytes. */
void ptxpack_cache_digest(const void *blob, size_t bytes, uint8_t digest[16]);
/* The digits of a digest, with a terminating NUL. */
void ptxpack_cache_hex_of(const uint8_t digest[16], char hex[PTXPACK_CACHE_HEX + 1]);

/* ---- place.c ------------------------------------------------------------------------------------ */
/* An environment variable; NULL when it is unset or empty, or the program runs setuid or setgid. */
const char *ptxpack_cache_env(const char *name);
/* The malloc'ed absolute directory that `wanted` (NULL: the environment) means; NULL with one line. */
char *ptxpack_cache_choose_dir(const char *wanted, char line[PTXPACK_CACHE_LINE]);
/* A descriptor of a directory that may be trusted, or -1 with errno (EPERM: not trusted) and one line.
 * `create` makes what is missing of the path. */
int ptxpack_cache_open_dir(const char *dir, bool create, bool root_may_own, char line[PTXPACK_CACHE_LINE]);

/* ---- entry.c ------------------------------------------------------------------------------------ */
typedef enum ptxpack_entry_result {
    PTXPACK_ENTRY_GOOD,
    PTXPACK_ENTRY_CORRUPT,
    PTXPACK_ENTRY_FOREIGN,
    PTXPACK_ENTRY_ERROR /* errno says which */
} ptxpack_entry_result;

extern const uint32_t ptxpack_entry_version;

/* The parts of an entry, to be written, or as `read` and `peek` found them. */
typedef struct ptxpack_entry_parts {
    const char *label;
    const void *metadata, *key, *payload;
    size_t      label_bytes, metadata_bytes, key_bytes, payload_bytes;
} ptxpack_entry_parts;

/* The file size of an entry, or 0 when a part exceeds its limit or the payload is empty. */
uint64_t ptxpack_entry_size(const ptxpack_entry_parts *parts);
/* Write it to the empty file fd: 0 or an errno. */
int ptxpack_entry_write(int fd, const ptxpack_entry_parts *parts);
/* The SHA-256 of the file that it makes. */
void ptxpack_entry_sha256(const ptxpack_entry_parts *parts, uint8_t digest[32]);
int  ptxpack_cache_write_all(int fd, const void *bytes, size_t count); /* 0 or an errno */
/* Open, read and check the entry `name` of a directory.  With a key, its blob must be the entry's;
 * without, the blob's digest must be the name.  *stamp is the file's status when it could be opened. */
ptxpack_entry_result ptxpack_entry_read(int dirfd, const char *name, const struct ptxpack_cache_key *key,
                                        ptxpack_cache_entry *out, uint64_t *key_bytes, struct stat *stamp);
/* The same of a file's bytes. */
ptxpack_entry_result ptxpack_entry_decode(const void *bytes, size_t count, const char *name,
                                          const struct ptxpack_cache_key *key, ptxpack_cache_entry *out,
                                          uint64_t *key_bytes);
/* Read header, label and metadata only, and check only the header; payload stays NULL. */
ptxpack_entry_result ptxpack_entry_peek(int dirfd, const char *name, ptxpack_cache_entry *out,
                                        uint64_t *key_bytes, struct stat *stamp);

/* ---- store.c ------------------------------------------------------------------------------------ */
typedef enum ptxpack_cache_kind {
    PTXPACK_NAME_ALIEN,
    PTXPACK_NAME_ENTRY,
    PTXPACK_NAME_TEMPORARY
} ptxpack_cache_kind;
/* The kind of a file by its name.  Only exact names of ours are ours; an alien file is never touched. */
ptxpack_cache_kind ptxpack_cache_kind_of(const char *name);
void               ptxpack_cache_entry_name(const struct ptxpack_cache_key *key, char name[PTXPACK_CACHE_NAME]);
/* Mark a directory that holds only our files as a cache, for backup programs; failure is ignored. */
void ptxpack_cache_tag(int dirfd);
/* Write an entry under `name`, all or nothing: 0 or an errno. */
int ptxpack_cache_publish(int dirfd, const char *name, const ptxpack_entry_parts *parts);
/* The same for a text file. */
int ptxpack_cache_publish_text(int dirfd, const char *name, const char *text);
/* Lock one byte of the directory's lock file without waiting: a descriptor to close, or -1 with errno
 * (EAGAIN: another holds it; anything else: locks do not work here). */
int ptxpack_cache_try_lock(int dirfd, uint64_t byte);
/* The byte that a cleaner locks; keys use the bytes below it. */
#define PTXPACK_CACHE_CLEANER_BYTE (UINT64_C(1) << 62)

/* ---- walk.c ------------------------------------------------------------------------------------- */
DIR *ptxpack_cache_list(int dirfd); /* NULL with errno; closedir it; dirfd stays open */
/* The next file of ours, with its status; false at the end. */
bool ptxpack_cache_next(DIR *dir, int dirfd, const char **name, ptxpack_cache_kind *kind, struct stat *st);
/* Fill the on-disk part of stats: 0 or an errno. */
int ptxpack_cache_measure(int dirfd, ptxpack_cache_stats *stats);

/* ---- evict.c ------------------------------------------------------------------------------------ */
/* How many bytes may stay after a cleaning, and be in one entry: less than the limit, so that not every
 * put has to clean. */
static inline uint64_t ptxpack_cache_low_water(uint64_t max_bytes) { return max_bytes - max_bytes / 8; }
typedef struct ptxpack_sweep {
    uint64_t over_bytes, to_bytes; /* when there are more than over_bytes, remove down to to_bytes */
    uint64_t to_entries, max_age_s;
    bool     all_temporaries; /* also those younger than an hour */
    bool     automatic;       /* part of a put: bounded work, and skipped while another process cleans */
} ptxpack_sweep;
/* 0, EAGAIN when another cleaner is at work, or another errno. */
int ptxpack_cache_sweep(int dirfd, const ptxpack_sweep *how, ptxpack_cache_swept *swept);
/* Remove an entry that was last seen as `seen`; false when it has changed or gone since. */
bool ptxpack_cache_unlink_seen(int dirfd, const char *name, const struct stat *seen);
/* After a put of `stored` bytes: clean when it is time to. */
void ptxpack_cache_clean_after_put(struct ptxpack_cache *cache, int dirfd, uint64_t stored);
#endif
