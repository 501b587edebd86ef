/* cache.h - bytes by key on disk, checked on the way back.  C11 and C++; knows nothing of what it keeps.
 *
 *   key_create, key_add ... -> get -> (miss: lock -> get -> make the bytes -> put -> unlock)
 *
 * Contract  the cache may vanish, fill up or be damaged at any moment: that costs time, never
 *           correctness.  What get returns was put under exactly this key, whole and unchanged.
 * Errors    nothing here fails upward.  A cache that cannot be used is a disabled cache: every get is a
 *           miss, every put is refused, and ptxpack_cache_detail is the one line that says why.
 * Threads   a handle may be shared by any number of threads and a directory by any number of processes;
 *           the handle holds no lock and no descriptor between calls, so a forked child may go on
 *           using it.  Only ptxpack_cache_close wants to be alone.  A key may be read by many threads
 *           once nobody adds to it.
 * NULL      is a disabled cache wherever a cache is wanted, a poisoned key wherever a key is.
 * Trust     the directory must belong to the effective user and be writable by nobody else; checksums
 *           find accidents, not attackers.
 * Prebuilt  beside it a handle may have folders of prebuilt machine code, which an application ships and
 *           nobody writes: entries under a manifest with their SHA-256, made by `ptxpack cache warm`. */
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

/* A zeroed struct is the default: then the environment variable named, then what is said last.
 * Environment variables are ignored in setuid and setgid programs.  A flag variable is off when it is
 * unset, empty, 0, no, off or false. */
typedef struct ptxpack_cache_options {
    uint32_t    size;          /* = sizeof(ptxpack_cache_options)                                         */
    bool        readonly;      /* PTXPACK_CACHE_READONLY: nothing is written, not even a last-use stamp   */
    bool        disable;       /* PTXPACK_CACHE_DISABLE                                                   */
    const char *dir;           /* PTXPACK_CACHE_DIR; XDG_CACHE_HOME/ptxpack; HOME/.cache/ptxpack; the
                                  password entry's home/.cache/ptxpack; never below /tmp by itself        */
    uint64_t    max_bytes;     /* PTXPACK_CACHE_MAX_SIZE, with suffix K, M, G or T; 1 GiB                 */
    uint64_t    max_age_s;     /* seconds since last use; 90 days; UINT64_MAX for no limit                */
    const char *readonly_dirs; /* PTXPACK_CACHE_READONLY_DIRS: prebuilt folders, joined by ':', asked in this
                              order; each DIR, of the effective user or of root, or DIR#SHA256: its
                              manifest must have that SHA-256 (64 digits), whoever owns it; none      */
} ptxpack_cache_options;

/* Open the cache, making its directory (mode 0700) when there is none.  NULL only when memory is out;
 * options may be NULL. */
PTXPACK_API ptxpack_cache *ptxpack_cache_open(const ptxpack_cache_options *options);
PTXPACK_API void           ptxpack_cache_close(ptxpack_cache *cache); /* NULL is fine */

/* False when, for dir, every get will miss and every put be refused.  Prebuilt folders are still used,
 * unless `disable` is set. */
PTXPACK_API bool ptxpack_cache_enabled(const ptxpack_cache *cache);
/* The absolute directory, whether enabled or not; "" when none could be determined.  Lives as long as the
 * handle. */
PTXPACK_API const char *ptxpack_cache_path(const ptxpack_cache *cache);
/* Why the calling thread's last call on this cache did less than it was asked to; otherwise what open
 * reported; "" when there was no problem.  One line, valid until the thread's next call on any cache. */
PTXPACK_API const char *ptxpack_cache_detail(const ptxpack_cache *cache);

/* Whether this flag variable of the environment is on. */
PTXPACK_API bool ptxpack_cache_env_flag(const char *name);
/* "64K", "512M", "1G" (powers of 1024) to bytes; false and *bytes untouched for anything else, 0 too. */
PTXPACK_API bool ptxpack_cache_parse_size(const char *text, uint64_t *bytes);

/* ---- keys --------------------------------------------------------------------------------------- */

/* A key is the ordered list of everything that the bytes depend on.  Each field is written with the
 * lengths of its name and value, so no two lists give the same key; the cache's own format version is
 * the first field.  No paths, times or random numbers belong here.
 * A key that is not complete - memory was out, a field was NULL or the whole over 64 MiB, or the caller
 * poisoned it because a version could not be found out - is poisoned: nothing is found or stored. */
PTXPACK_API ptxpack_cache_key *ptxpack_cache_key_create(void);                 /* NULL when memory is out */
PTXPACK_API void               ptxpack_cache_key_free(ptxpack_cache_key *key); /* NULL is fine */
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

/* What was put.  All three are malloc'ed and followed by a NUL byte that is not counted; to keep the
 * payload, take it and set the field to NULL before ptxpack_cache_entry_free. */
typedef struct ptxpack_cache_entry {
    void  *payload;
    size_t payload_bytes;
    void  *metadata;
    size_t metadata_bytes;
    char  *label;
} ptxpack_cache_entry;

/* True: *entry is filled and the entry's last use is now.  False: a miss, *entry is zeroed; a damaged
 * or foreign file under this key is a miss, too, and the next put replaces it. */
PTXPACK_API bool ptxpack_cache_get(ptxpack_cache *cache, const ptxpack_cache_key *key,
                                   ptxpack_cache_entry *entry);
PTXPACK_API void ptxpack_cache_entry_free(ptxpack_cache_entry *entry); /* zeroes it; NULL is fine */

/* Store under `key`, in place of what is there.  `label` is one line for people (at most 1 KiB; NULL is
 * ""), metadata at most 16 MiB, payload 1 byte to 1 GiB; an entry over 7/8 of max_bytes is refused.  True
 * when it is on disk: whole, synced, visible at once.  False: nothing is there under this put, no
 * temporary is left, go on with the bytes in memory.  Now and then a put also evicts. */
PTXPACK_API bool ptxpack_cache_put(ptxpack_cache *cache, const ptxpack_cache_key *key, const char *label,
                                   const void *metadata, size_t metadata_bytes, const void *payload,
                                   size_t payload_bytes);

/* Remove the entry of `key` from dir (its user refused the bytes).  True when there was one. */
PTXPACK_API bool ptxpack_cache_remove(ptxpack_cache *cache, const ptxpack_cache_key *key);

/* Share the making of one entry between threads and processes; correct without.  Waits while another
 * holds the key, until its entry has appeared, or timeout_ms have passed.  Returns a token for unlock,
 * or -1: not locked, go on all the same.  Either way call get once more before making the bytes.  The
 * lock of a process that dies, however it dies, is free at once (a child forked while it was held
 * shares it); no lock survives in a file. */
PTXPACK_API int  ptxpack_cache_lock(ptxpack_cache *cache, const ptxpack_cache_key *key, uint32_t timeout_ms);
PTXPACK_API void ptxpack_cache_unlock(ptxpack_cache *cache, int lock); /* -1 is fine */

/* ---- prebuilt folders --------------------------------------------------------------------------- */

typedef enum ptxpack_prebuilt_result {
    PTXPACK_PREBUILT_NONE, /* no folder lists such an entry                                           */
    PTXPACK_PREBUILT_HIT,  /* *entry is it: its file has the size and the SHA-256 of the manifest     */
    PTXPACK_PREBUILT_BAD   /* a manifest lists it, but the file is missing or different: the detail says more */
} ptxpack_prebuilt_result;

/* Why one of the folders cannot be used, as one line that names it; then no folder is used, because a
 * folder that was named must not be skipped silently.  NULL when all can be used. */
PTXPACK_API const char *ptxpack_cache_prebuilt_refusal(const ptxpack_cache *cache);
/* Look in the folders in their order.  A bad entry counts in stats.corrupt, and the next folder is asked.
 * *entry is zeroed unless it is a hit. */
PTXPACK_API ptxpack_prebuilt_result ptxpack_cache_get_prebuilt(ptxpack_cache           *cache,
                                                               const ptxpack_cache_key *key,
                                                               ptxpack_cache_entry     *entry);

typedef struct ptxpack_prebuilt_info {
    const char *path;    /* absolute; strings live as long as the handle      */
    const char *library; /* the version that wrote its manifest               */
    const char *sha256;  /* of the manifest, 64 digits: what a pin would be   */
    bool        pinned;
    uint64_t    entries, bytes; /* that the manifest lists                    */
} ptxpack_prebuilt_info;
/* The folder with `index` from 0; false when there are not so many. */
PTXPACK_API bool ptxpack_cache_prebuilt(const ptxpack_cache *cache, size_t index, ptxpack_prebuilt_info *info);
/* Measure all entries of that folder: how many are good, and one line about the first that is not ("" when
 * all are), at most `cap` bytes. */
PTXPACK_API uint64_t ptxpack_cache_prebuilt_verify(const ptxpack_cache *cache, size_t index, char *line,
                                                   size_t cap);

/* ---- looking after it --------------------------------------------------------------------------- */

typedef struct ptxpack_cache_stats {
    uint32_t size;        /* = sizeof(ptxpack_cache_stats), set by the caller                         */
    uint64_t entries;     /* on disk now, in dir (not in prebuilt folders)                            */
    uint64_t bytes;       /* their file sizes                                                         */
    uint64_t temporaries; /* being written, or left by writers that died                              */
    uint64_t max_bytes, max_age_s;
    int64_t  oldest, newest; /* last use of the least and most recently used, Unix seconds; 0: none   */
    /* Since this handle was opened. */
    uint64_t hits, misses, stores;
    uint64_t corrupt;       /* damaged, foreign or wrong-key files that were met; each is a miss, too */
    uint64_t evicted;       /* entries that the cleaner, trim or clear removed                          */
    uint64_t refused;       /* puts that stored nothing, except those of a read-only or disabled cache */
    uint64_t prebuilt_hits; /* not counted as hits                                                    */
} ptxpack_cache_stats;
PTXPACK_API void ptxpack_cache_get_stats(ptxpack_cache *cache, ptxpack_cache_stats *stats);

typedef enum ptxpack_cache_state {
    PTXPACK_CACHE_GOOD,      /* in `each` without check: the header is in order                       */
    PTXPACK_CACHE_CORRUPT,   /* torn, truncated, extended, changed, or under another key's name       */
    PTXPACK_CACHE_FOREIGN,   /* written by another format version                                     */
    PTXPACK_CACHE_UNREADABLE /* reading it failed; `error` says how                                   */
} ptxpack_cache_state;

typedef struct ptxpack_cache_info {
    const char         *name; /* 32 hex digits: the key's digest                                      */
    ptxpack_cache_state state;
    int                 error; /* errno of PTXPACK_CACHE_UNREADABLE                           */
    uint64_t            file_bytes;
    int64_t             last_used; /* Unix seconds                                                */
    uint64_t            key_bytes, payload_bytes; /* 0 unless good                                    */
    const char         *label; /* "" unless good; only as trustworthy as the check            */
    const void         *metadata;
    size_t              metadata_bytes;
} ptxpack_cache_info;

/* What to do after one entry. */
typedef enum ptxpack_cache_step {
    PTXPACK_CACHE_NEXT,
    PTXPACK_CACHE_STOP,
    PTXPACK_CACHE_REMOVE /* remove this entry, unless it was replaced meanwhile, and go on */
} ptxpack_cache_step;

/* Call `visit` for every entry, in no order; with `check` each is read whole and its checksum compared,
 * otherwise header, label and metadata only.  `info` lives until `visit` returns.  False when the
 * directory could not be read (or there is none). */
PTXPACK_API bool ptxpack_cache_each(ptxpack_cache *cache, bool check,
                                    ptxpack_cache_step (*visit)(const ptxpack_cache_info *info, void *user),
                                    void *user);

typedef struct ptxpack_cache_swept {
    uint64_t removed, removed_bytes; /* entries                       */
    uint64_t temporaries;            /* temporaries removed           */
    uint64_t left, left_bytes;       /* entries that are still there  */
} ptxpack_cache_swept;

/* Remove entries unused for longer than max_age_s, then the least recently used until at most `to_bytes`
 * are left; sweep temporaries older than an hour.  swept may be NULL.  False when the cache is disabled
 * or read-only or its directory cannot be read. */
PTXPACK_API bool ptxpack_cache_trim(ptxpack_cache *cache, uint64_t to_bytes, ptxpack_cache_swept *swept);
/* Remove every entry and temporary, and nothing with a name that is not ours. */
PTXPACK_API bool ptxpack_cache_clear(ptxpack_cache *cache, ptxpack_cache_swept *swept);

#ifdef __cplusplus
}
#endif
#endif
