/* cache.h - keep bytes on disk under a key, and check them when they are read.  C11 and C++.  The cache does
 * not know what the bytes mean.
 *
 *   key_create, key_add ... -> get -> (miss: lock -> get -> make the bytes -> put -> unlock)
 *
 * Contract  The cache may vanish, fill up or be damaged at any moment: that costs time, never correctness.  The
 *           bytes that `get` returns were put under exactly this key, and they are complete and unchanged.
 * Errors    A problem with the cache is never an error of the caller.  A cache that cannot be used is disabled:
 *           every `get` is a miss, every `put` is refused, and ptxpack_cache_detail returns one line with the
 *           reason.
 * Threads   Any number of threads may share a handle, and any number of processes may share a directory.
 *           Between calls the handle holds no lock and no file descriptor, so a forked child may continue to
 *           use it.  Only ptxpack_cache_close must not run beside other calls.  Many threads may read a key
 *           when no thread adds to it any more.
 * NULL      A NULL cache acts as a disabled cache, and a NULL key acts as a poisoned key.
 * Trust     The directory must belong to the effective user, and nobody else may write to it.  Checksums find
 *           accidental damage; they do not protect against attackers.
 * Prebuilt  A handle may also have folders of prebuilt machine code.  An application ships them, and the cache
 *           never writes to them.  `ptxpack cache warm` makes them: they hold entries and a manifest with the
 *           SHA-256 of each entry. */
#ifndef PTXPACK_CACHE_H
#define PTXPACK_CACHE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef PTXPACK_API
#if defined(__GNUC__)
#define PTXPACK_API __attribute__((visibility("default")))
#else
#define PTXPACK_API
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ptxpack_cache     ptxpack_cache;
typedef struct ptxpack_cache_key ptxpack_cache_key;

/* ---- opening ------------------------------------------------------------------------------------ */

/* If a field is zero, the environment variable that is named here applies, and without it the default.
 * Programs that run setuid or setgid ignore environment variables.  A flag variable is off if it is unset,
 * empty, 0, no, off or false. */
typedef struct ptxpack_cache_options {
    uint32_t size;     /* = sizeof(ptxpack_cache_options) */
    bool     readonly; /* PTXPACK_CACHE_READONLY: nothing is written, not even the time of the last use */
    bool     disable;  /* PTXPACK_CACHE_DISABLE */
    /* PTXPACK_CACHE_DIR.  The default is the first of these that can be determined: $XDG_CACHE_HOME/ptxpack,
     * $HOME/.cache/ptxpack, and .cache/ptxpack in the home directory of the password database.  The default is
     * never below /tmp. */
    const char *dir;
    uint64_t    max_bytes; /* PTXPACK_CACHE_MAX_SIZE, with a suffix K, M, G or T; the default is 1 GiB */
    uint64_t    max_age_s; /* seconds since the last use; the default is 90 days; UINT64_MAX means no limit */
    /* PTXPACK_CACHE_READONLY_DIRS: prebuilt folders, joined by ':' and searched in this order.  A folder DIR
     * must belong to the effective user or to root.  With DIR#SHA256 its manifest must have that SHA-256 (64
     * digits), and its owner does not matter.  If the name of DIR contains a #, DIR must end in a slash.  The
     * default is no folder. */
    const char *readonly_dirs;
} ptxpack_cache_options;

/* Open the cache.  If its directory does not exist, it is made with mode 0700.  `options` may be NULL.  The
 * result is NULL only if memory ran out. */
PTXPACK_API ptxpack_cache *ptxpack_cache_open(const ptxpack_cache_options *options);
PTXPACK_API void           ptxpack_cache_close(ptxpack_cache *cache); /* NULL is allowed */

/* Whether the directory can be used.  If it is false, every get misses and every put is refused.  Prebuilt
 * folders are still used, unless `disable` is set. */
PTXPACK_API bool ptxpack_cache_enabled(const ptxpack_cache *cache);
/* The absolute path of the directory, whether it can be used or not; "" if none could be determined.  It lives
 * as long as the handle. */
PTXPACK_API const char *ptxpack_cache_path(const ptxpack_cache *cache);
/* Why the calling thread's last call on this cache did less than it was asked to.  If it did everything, the
 * line is what ptxpack_cache_open reported; "" if there was no problem.  It is valid until the thread's next
 * call on any cache. */
PTXPACK_API const char *ptxpack_cache_detail(const ptxpack_cache *cache);

/* Whether this flag variable of the environment is on. */
PTXPACK_API bool ptxpack_cache_env_flag(const char *name);
/* Convert "64K", "512M", "1G" (powers of 1024) to bytes.  For any other text, and for 0, the result is false
 * and *bytes is unchanged. */
PTXPACK_API bool ptxpack_cache_parse_size(const char *text, uint64_t *bytes);

/* ---- keys --------------------------------------------------------------------------------------- */

/* A key is the ordered list of everything that the bytes depend on.  Each field is written with the lengths of
 * its name and value, so two different lists cannot give the same key.  The first field is the format version
 * of the cache.  A key must not contain paths, times or random numbers.
 * An incomplete key is poisoned: nothing is found or stored under it.  A key is incomplete if memory ran out, a
 * field was NULL, or the key exceeds 64 MiB.  The caller poisons a key if it cannot determine a version, for
 * example. */
PTXPACK_API ptxpack_cache_key *ptxpack_cache_key_create(void);                 /* NULL: memory ran out */
PTXPACK_API void               ptxpack_cache_key_free(ptxpack_cache_key *key); /* NULL is allowed */
PTXPACK_API void ptxpack_cache_key_add(ptxpack_cache_key *key, const char *name, const void *value,
                                       size_t bytes);
PTXPACK_API void ptxpack_cache_key_add_text(ptxpack_cache_key *key, const char *name, const char *text);
PTXPACK_API void ptxpack_cache_key_add_u64(ptxpack_cache_key *key, const char *name, uint64_t value);
PTXPACK_API void ptxpack_cache_key_poison(ptxpack_cache_key *key, const char *reason);
/* NULL for a good key, otherwise the first reason why it is poisoned. */
PTXPACK_API const char *ptxpack_cache_key_poisoned(const ptxpack_cache_key *key);
/* XXH3-128 of the whole key as 32 hex digits, untruncated; "" for a poisoned key. */
PTXPACK_API void ptxpack_cache_key_hex(const ptxpack_cache_key *key, char hex[33]);

/* ---- entries ------------------------------------------------------------------------------------ */

/* What was put.  Payload, metadata and label are malloc'ed, and a NUL byte that is not counted follows each.
 * To keep the payload, copy its pointer and set the field to NULL before ptxpack_cache_entry_free. */
typedef struct ptxpack_cache_entry {
    void  *payload;
    size_t payload_bytes;
    void  *metadata;
    size_t metadata_bytes;
    char  *label;
} ptxpack_cache_entry;

/* Read the entry of `key`.  True: *entry is filled, and now is the time of its last use.  False: it is a miss,
 * and *entry is zeroed.  A damaged file under this key, or one of another format version, is a miss, too; the
 * next put replaces it. */
PTXPACK_API bool ptxpack_cache_get(ptxpack_cache *cache, const ptxpack_cache_key *key,
                                   ptxpack_cache_entry *entry);
PTXPACK_API void ptxpack_cache_entry_free(ptxpack_cache_entry *entry); /* also zeroes it; NULL is allowed */

/* Store an entry under `key`, in place of an existing one.  `label` is one line for people (at most 1 KiB; NULL
 * means ""), the metadata has at most 16 MiB, and the payload has 1 byte to 1 GiB.  An entry larger than 7/8 of
 * max_bytes is refused.  True: the complete entry is on disk, synced, and visible at once.  False: nothing was
 * stored, no temporary file is left, and the caller continues with the bytes in memory.  Some puts also remove
 * old entries. */
PTXPACK_API bool ptxpack_cache_put(ptxpack_cache *cache, const ptxpack_cache_key *key, const char *label,
                                   const void *metadata, size_t metadata_bytes, const void *payload,
                                   size_t payload_bytes);

/* Remove the entry of `key` from the directory, for example because the driver refused its bytes.  True: there
 * was one. */
PTXPACK_API bool ptxpack_cache_remove(ptxpack_cache *cache, const ptxpack_cache_key *key);

/* Lock a key, so that of several threads and processes only one makes its entry.  The lock only saves work:
 * without it the cache is correct, too.  The call waits while another holds the key, until the entry of that
 * holder appears or timeout_ms milliseconds have passed.  It returns a token for ptxpack_cache_unlock, or -1:
 * then the key is not locked, and the caller continues all the same.  In both cases call ptxpack_cache_get
 * again before you make the bytes.  When a process dies, its locks are free at once, unless a child that was
 * forked meanwhile shares them.  No lock survives in a file. */
PTXPACK_API int  ptxpack_cache_lock(ptxpack_cache *cache, const ptxpack_cache_key *key, uint32_t timeout_ms);
PTXPACK_API void ptxpack_cache_unlock(ptxpack_cache *cache, int lock); /* -1 is allowed */

/* ---- prebuilt folders --------------------------------------------------------------------------- */

typedef enum ptxpack_prebuilt_result {
    PTXPACK_PREBUILT_NONE, /* no folder lists such an entry */
    PTXPACK_PREBUILT_HIT,  /* *entry is filled: its file has the size and the SHA-256 that the manifest lists */
    PTXPACK_PREBUILT_BAD   /* a manifest lists it, but the file is missing or different: see the detail line */
} ptxpack_prebuilt_result;

/* If one of the folders cannot be used, one line with its name and the reason.  No folder is used in that case,
 * because a folder that was named must not be skipped silently.  NULL: all folders can be used. */
PTXPACK_API const char *ptxpack_cache_prebuilt_refusal(const ptxpack_cache *cache);
/* Search the folders in their order.  A bad entry counts in stats.corrupt, and the search goes on in the next
 * folder.  *entry is zeroed unless the result is a hit. */
PTXPACK_API ptxpack_prebuilt_result ptxpack_cache_get_prebuilt(ptxpack_cache           *cache,
                                                               const ptxpack_cache_key *key,
                                                               ptxpack_cache_entry     *entry);

typedef struct ptxpack_prebuilt_info {
    const char *path;    /* absolute; the strings live as long as the handle */
    const char *library; /* the version of the library that wrote its manifest */
    const char *sha256;  /* of the manifest, 64 digits: a pin must be equal to it */
    bool        pinned;
    uint64_t    entries, bytes; /* all that the manifest lists */
} ptxpack_prebuilt_info;
/* Describe the folder number `index`, counted from 0; false if there are fewer folders. */
PTXPACK_API bool ptxpack_cache_prebuilt(const ptxpack_cache *cache, size_t index, ptxpack_prebuilt_info *info);
/* Check all entries of that folder.  Returns how many are good, and writes one line of at most `cap` bytes
 * about the first bad one ("" if all are good). */
PTXPACK_API uint64_t ptxpack_cache_prebuilt_verify(const ptxpack_cache *cache, size_t index, char *line,
                                                   size_t cap);

/* ---- maintenance -------------------------------------------------------------------------------- */

typedef struct ptxpack_cache_stats {
    uint32_t size;        /* = sizeof(ptxpack_cache_stats), set by the caller */
    uint64_t entries;     /* now on disk, in the directory (not in prebuilt folders) */
    uint64_t bytes;       /* the sizes of their files */
    uint64_t temporaries; /* files that are being written, or were left by writers that died */
    uint64_t max_bytes, max_age_s;
    int64_t  oldest, newest; /* last use of the least and the most recently used entry, Unix seconds; 0: none */
    /* The counts since this handle was opened. */
    uint64_t hits, misses, stores;
    uint64_t corrupt;       /* files that were damaged, of another version, or of another key: also misses */
    uint64_t evicted;       /* entries that a put, trim or clear removed */
    uint64_t refused;       /* puts that stored nothing, except those of a read-only or disabled cache */
    uint64_t prebuilt_hits; /* they do not count as hits */
} ptxpack_cache_stats;
PTXPACK_API void ptxpack_cache_get_stats(ptxpack_cache *cache, ptxpack_cache_stats *stats);

typedef enum ptxpack_cache_state {
    PTXPACK_CACHE_GOOD,      /* without `check` in ptxpack_cache_each: only the header is known to be good */
    PTXPACK_CACHE_CORRUPT,   /* partly written, too short, too long, changed, or under another key's name */
    PTXPACK_CACHE_FOREIGN,   /* written by another format version */
    PTXPACK_CACHE_UNREADABLE /* reading it failed; `error` says how */
} ptxpack_cache_state;

typedef struct ptxpack_cache_info {
    const char         *name; /* 32 hex digits: the key's digest */
    ptxpack_cache_state state;
    int                 error; /* the errno of PTXPACK_CACHE_UNREADABLE */
    uint64_t            file_bytes;
    int64_t             last_used;                /* Unix seconds */
    uint64_t            key_bytes, payload_bytes; /* 0 unless good */
    const char         *label;                    /* "" unless good; without `check` it may be damaged */
    const void         *metadata;
    size_t              metadata_bytes;
} ptxpack_cache_info;

/* What to do after one entry. */
typedef enum ptxpack_cache_step {
    PTXPACK_CACHE_NEXT,
    PTXPACK_CACHE_STOP,
    PTXPACK_CACHE_REMOVE /* remove this entry, unless it was replaced meanwhile, and go on */
} ptxpack_cache_step;

/* Call `visit` for every entry, in no particular order.  With `check` each entry is read completely and its
 * checksum is compared; otherwise only header, label and metadata are read.  `info` lives until `visit`
 * returns.  False: the directory could not be read, or there is none. */
PTXPACK_API bool ptxpack_cache_each(ptxpack_cache *cache, bool check,
                                    ptxpack_cache_step (*visit)(const ptxpack_cache_info *info, void *user),
                                    void *user);

typedef struct ptxpack_cache_swept {
    uint64_t removed, removed_bytes; /* entries that were removed */
    uint64_t temporaries;            /* temporary files that were removed */
    uint64_t left, left_bytes;       /* entries that are still there */
} ptxpack_cache_swept;

/* Remove entries that were not used for longer than max_age_s, then the least recently used ones until at most
 * `to_bytes` are left.  Also remove temporary files that are older than an hour.  `swept` may be NULL.  False:
 * the cache is disabled or read-only, or its directory cannot be read. */
PTXPACK_API bool ptxpack_cache_trim(ptxpack_cache *cache, uint64_t to_bytes, ptxpack_cache_swept *swept);
/* Remove every entry and every temporary file, but no file whose name the cache would not give. */
PTXPACK_API bool ptxpack_cache_clear(ptxpack_cache *cache, ptxpack_cache_swept *swept);

#ifdef __cplusplus
}
#endif
#endif
