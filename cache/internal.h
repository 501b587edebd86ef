/* internal.h - what the files of cache/ share.  Not installed.
 *
 *   key.c    the key builder          place.c  the directory, and whether it can be trusted
 *   entry.c  the file format          store.c  file names, atomic writes, locks
 *   walk.c   visiting all entries     evict.c  removing entries
 *   cache.c  open, get, put, lock: the calls of cache.h except those for keys, `each` and prebuilt folders
 *
 *   prebuilt/folders.c   the prebuilt folders of a handle
 *   prebuilt/prebuilt.c  reading a folder                 prebuilt/filling.c  writing a folder
 *   prebuilt/manifest.c  the list of its entries          prebuilt/sha256.c   the digest of its files */
#ifndef PTXPACK_CACHE_INTERNAL_H
#define PTXPACK_CACHE_INTERNAL_H
#include <dirent.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include "inspect.h"

enum {
    PTXPACK_CACHE_HEX = 32,           /* digits of a digest */
    PTXPACK_CACHE_NAME = 64,          /* buffer for any file name in the cache */
    PTXPACK_CACHE_MAX_ENTRIES = 32768 /* limits the inodes, as max_bytes limits the bytes */
};

struct ptxpack_cache_key {
    uint8_t *blob;
    size_t   bytes, capacity;
    bool     poisoned;
    char     reason[160];
};

/* The struct is immutable after ptxpack_cache_open, except for the atomics.  So no call waits for another
 * thread of the process, and a child that is forked at any moment finds everything consistent. */
struct ptxpack_cache {
    uint64_t                  id;      /* never used twice: connects a thread's detail line to this handle */
    char                     *dir;     /* absolute; NULL if none could be determined */
    struct ptxpack_prebuilt **folders; /* of prebuilt machine code, in the order of the search */
    size_t                    folder_count;
    char                     *refusal; /* why one of them cannot be used (then none is used), or NULL */
    bool                      usable;  /* dir could be opened and is trusted */
    bool                      readonly;
    uint64_t                  max_bytes, max_age_s;
    char                      line[PTXPACK_CACHE_LINE]; /* what ptxpack_cache_open reported */
    _Atomic uint64_t          hits, misses, stores, corrupt, evicted, refused, prebuilt_hits;
    /* To decide when to measure the directory again: its bytes as last measured plus what was stored
     * since, and the time of the measurement (monotonic seconds, 0: never). */
    _Atomic uint64_t estimate;
    _Atomic int64_t  scanned_at;
};

/* ---- cache.c ------------------------------------------------------------------------------------ */
/* Start a call: clear the thread's line, open the directory, and check it again.  With `create` a directory
 * that has vanished is made again.  -1: there is no directory, with one line unless it simply does not
 * exist. */
int ptxpack_cache_begin(const struct ptxpack_cache *cache, bool create);
/* Set the line about this call of this thread. */
void ptxpack_cache_say(const struct ptxpack_cache *cache, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Clear that line. */
void ptxpack_cache_forget(const struct ptxpack_cache *cache);

/* ---- folders.c ---------------------------------------------------------------------------------- */
/* Open the folders of `wanted` (NULL: the environment's).  An error becomes the handle's refusal.  False:
 * memory ran out. */
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
/* The malloc'ed absolute path of the directory that `wanted` (NULL: the environment) names; NULL with one
 * line. */
char *ptxpack_cache_choose_dir(const char *wanted, char line[PTXPACK_CACHE_LINE]);
/* A descriptor of a trusted directory, or -1 with errno (EPERM: it is not trusted) and one line.  With `create`
 * the missing directories of the path are made. */
int ptxpack_cache_open_dir(const char *dir, bool create, bool root_may_own, char line[PTXPACK_CACHE_LINE]);

/* ---- entry.c ------------------------------------------------------------------------------------ */
typedef enum ptxpack_entry_result {
    PTXPACK_ENTRY_GOOD,
    PTXPACK_ENTRY_CORRUPT,
    PTXPACK_ENTRY_FOREIGN,
    PTXPACK_ENTRY_ERROR /* errno says which */
} ptxpack_entry_result;

extern const uint32_t ptxpack_entry_version;

/* The parts of an entry that will be written. */
typedef struct ptxpack_entry_parts {
    const char *label;
    const void *metadata, *key, *payload;
    size_t      label_bytes, metadata_bytes, key_bytes, payload_bytes;
} ptxpack_entry_parts;

/* The file size of an entry, or 0 when a part exceeds its limit or the payload is empty. */
uint64_t ptxpack_entry_size(const ptxpack_entry_parts *parts);
/* Write it to the empty file fd: 0 or an errno. */
int ptxpack_entry_write(int fd, const ptxpack_entry_parts *parts);
/* The SHA-256 of the file that ptxpack_entry_write would write. */
void ptxpack_entry_sha256(const ptxpack_entry_parts *parts, uint8_t digest[32]);
int  ptxpack_cache_write_all(int fd, const void *bytes, size_t count); /* 0 or an errno */
/* Open, read and check the entry `name` of a directory.  If `key` is not NULL, the entry must contain its blob;
 * otherwise the digest of the entry's blob must be the name.  *stamp is the status of the file, if it was
 * opened. */
ptxpack_entry_result ptxpack_entry_read(int dirfd, const char *name, const struct ptxpack_cache_key *key,
                                        ptxpack_cache_entry *out, uint64_t *key_bytes, struct stat *stamp);
/* The same for a file's bytes in memory. */
ptxpack_entry_result ptxpack_entry_decode(const void *bytes, size_t count, const char *name,
                                          const struct ptxpack_cache_key *key, ptxpack_cache_entry *out,
                                          uint64_t *key_bytes);
/* Read only header, label and metadata, and check only the header.  The payload stays NULL. */
ptxpack_entry_result ptxpack_entry_peek(int dirfd, const char *name, ptxpack_cache_entry *out,
                                        uint64_t *key_bytes, struct stat *stamp);

/* ---- store.c ------------------------------------------------------------------------------------ */
typedef enum ptxpack_cache_kind {
    PTXPACK_NAME_ALIEN,
    PTXPACK_NAME_ENTRY,
    PTXPACK_NAME_TEMPORARY
} ptxpack_cache_kind;
/* The kind of a file by its name.  An alien file has a name that the cache would not give; it is never
 * touched. */
ptxpack_cache_kind ptxpack_cache_kind_of(const char *name);
void               ptxpack_cache_entry_name(const struct ptxpack_cache_key *key, char name[PTXPACK_CACHE_NAME]);
/* Mark a directory that holds only our files as a cache, for backup programs; failure is ignored. */
void ptxpack_cache_tag(int dirfd);
/* Write an entry under `name` atomically: 0 or an errno. */
int ptxpack_cache_publish(int dirfd, const char *name, const ptxpack_entry_parts *parts);
/* The same for a text file. */
int ptxpack_cache_publish_text(int dirfd, const char *name, const char *text);
/* Lock one byte of the directory's lock file without waiting.  Returns a descriptor, which the caller closes,
 * or -1 with errno (EAGAIN: another holds the lock; any other value: locks do not work here). */
int ptxpack_cache_try_lock(int dirfd, uint64_t byte);
/* The byte that a cleaner locks; keys use the bytes below it. */
#define PTXPACK_CACHE_CLEANER_BYTE (UINT64_C(1) << 62)

/* ---- walk.c ------------------------------------------------------------------------------------- */
/* Open the directory for reading: NULL with errno.  The caller calls closedir; dirfd stays open. */
DIR *ptxpack_cache_list(int dirfd);
/* The next file of the cache, with its status; false at the end. */
bool ptxpack_cache_next(DIR *dir, int dirfd, const char **name, ptxpack_cache_kind *kind, struct stat *st);
/* Fill the on-disk part of stats: 0 or an errno. */
int ptxpack_cache_measure(int dirfd, ptxpack_cache_stats *stats);

/* ---- evict.c ------------------------------------------------------------------------------------ */
/* How many bytes a cleaning leaves at most, and how many one entry may have.  This is less than the limit, so
 * that not every put has to clean. */
static inline uint64_t ptxpack_cache_low_water(uint64_t max_bytes) { return max_bytes - max_bytes / 8; }
typedef struct ptxpack_sweep {
    uint64_t over_bytes, to_bytes; /* when there are more than over_bytes, remove down to to_bytes */
    uint64_t to_entries, max_age_s;
    bool     all_temporaries; /* remove also those younger than an hour */
    bool     automatic; /* it is part of a put: limit the work, and do nothing while another process cleans */
} ptxpack_sweep;
/* Clean a directory.  Returns 0, EAGAIN if another process is cleaning, or another errno. */
int ptxpack_cache_sweep(int dirfd, const ptxpack_sweep *how, ptxpack_cache_swept *swept);
/* Remove an entry whose last known status is `seen`; false if it has changed or vanished since. */
bool ptxpack_cache_unlink_seen(int dirfd, const char *name, const struct stat *seen);
/* Call it after a put of `stored` bytes: it cleans the directory if that is due. */
void ptxpack_cache_clean_after_put(struct ptxpack_cache *cache, int dirfd, uint64_t stored);
#endif
