/* filling.c - writing a folder of prebuilt machine code: the lock, the entries, the manifest. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include "prebuilt.h"

struct ptxpack_filling {
    char            *dir;
    int              dirfd;    /* holds the lock */
    ptxpack_manifest manifest; /* what was listed before, and what was put since */
    pthread_mutex_t  lock;     /* guards the manifest */
};

static void say(char line[PTXPACK_CACHE_LINE], const char *dir, const char *what)
{
    snprintf(line, PTXPACK_CACHE_LINE, "%.300s: %.180s", dir, what);
}

/* ---- opening ------------------------------------------------------------------------------------ */

/* mkdir -p, readable by all users, because the folder is shipped to others. */
static int make_folder(const char *dir)
{
    char *path = strdup(dir);
    int   error = path != NULL ? 0 : ENOMEM;
    for (char *slash = path; slash != NULL && !error;) {
        slash = strchr(slash + 1, '/');
        if (slash != NULL)
            *slash = '\0';
        struct stat st;
        if (mkdir(path, 0755) != 0)
            error = stat(path, &st) == 0 ? S_ISDIR(st.st_mode) ? 0 : ENOTDIR : errno;
        if (slash != NULL)
            *slash = '/';
    }
    free(path);
    return error;
}

/* Without this lock the second of two processes would list files that the first one has replaced. */
static bool lock_folder(ptxpack_filling *f, void (*waits)(const char *dir), char line[PTXPACK_CACHE_LINE])
{
    char what[128];
    int  got = flock(f->dirfd, LOCK_EX | LOCK_NB);
    if (got != 0 && errno == EWOULDBLOCK && waits != NULL)
        waits(f->dir);
    while (got != 0 && (errno == EWOULDBLOCK || errno == EINTR))
        got = flock(f->dirfd, LOCK_EX);
    if (got == 0)
        return true;
    snprintf(what, sizeof what, "it cannot be locked: %.80s", strerror(errno));
    say(line, f->dir, what);
    return false;
}

/* We hold the lock, so temporary files in the folder are from a writer that died.  A folder without a manifest
 * may hold only entries that a stopped filling has left.  It must not be a cache in use, because the manifest
 * would list the entries of that cache, and it must not hold other files. */
static bool look_round(const ptxpack_filling *f, bool has_manifest, char line[PTXPACK_CACHE_LINE])
{
    char alien[300] = "";
    DIR *dir = ptxpack_cache_list(f->dirfd);
    if (dir == NULL) {
        say(line, f->dir, strerror(errno));
        return false;
    }
    for (struct dirent *d; (d = readdir(dir));)
        if (ptxpack_cache_kind_of(d->d_name) == PTXPACK_NAME_ALIEN && strcmp(d->d_name, ".") != 0 &&
            strcmp(d->d_name, "..") != 0)
            snprintf(alien, sizeof alien,
                     "it holds other files, such as %.100s: name a folder that holds only machine code",
                     d->d_name);
    bool ours = has_manifest || !*alien;
    rewinddir(dir);
    for (struct dirent *d; ours && (d = readdir(dir)) != NULL;)
        if (ptxpack_cache_kind_of(d->d_name) == PTXPACK_NAME_TEMPORARY)
            unlinkat(f->dirfd, d->d_name, 0);
    closedir(dir);
    if (!ours)
        say(line, f->dir, alien);
    return ours;
}

static bool open_folder(ptxpack_filling *f, void (*waits)(const char *dir), char line[PTXPACK_CACHE_LINE])
{
    int error = make_folder(f->dir);
    if (error) {
        say(line, f->dir, strerror(error));
        return false;
    }
    f->dirfd = ptxpack_prebuilt_open_dir(f->dir, false, line);
    if (f->dirfd < 0 || !lock_folder(f, waits, line))
        return false;
    bool has_manifest = ptxpack_prebuilt_is(f->dirfd);
    if (!look_round(f, has_manifest, line))
        return false;
    ptxpack_prebuilt *old = has_manifest ? ptxpack_prebuilt_open(f->dir, NULL, line) : NULL;
    if (old != NULL) {
        f->manifest = old->manifest;
        memset(&old->manifest, 0, sizeof old->manifest);
        ptxpack_prebuilt_close(old);
    }
    return old != NULL || !has_manifest;
}

ptxpack_filling *ptxpack_filling_open(const char *dir, const char *library, void (*waits)(const char *dir),
                                      char line[PTXPACK_CACHE_LINE])
{
    ptxpack_filling *f = (ptxpack_filling *)calloc(1, sizeof *f);
    say(line, dir, "out of memory");
    if (f == NULL)
        return NULL;
    f->dirfd = -1;
    pthread_mutex_init(&f->lock, NULL);
    f->dir = ptxpack_cache_choose_dir(dir, line);
    if (f->dir != NULL && open_folder(f, waits, line)) {
        snprintf(f->manifest.library, sizeof f->manifest.library, "%s", library);
        return f;
    }
    ptxpack_filling_close(f);
    return NULL;
}

void ptxpack_filling_close(ptxpack_filling *f)
{
    if (f == NULL)
        return;
    if (f->dirfd >= 0)
        close(f->dirfd);
    ptxpack_manifest_free(&f->manifest);
    pthread_mutex_destroy(&f->lock);
    free(f->dir);
    free(f);
}

/* ---- entries ------------------------------------------------------------------------------------ */

static bool list(ptxpack_filling *f, const ptxpack_manifest_entry *entry)
{
    pthread_mutex_lock(&f->lock);
    bool listed = ptxpack_manifest_add(&f->manifest, entry);
    pthread_mutex_unlock(&f->lock);
    return listed;
}

bool ptxpack_filling_has(ptxpack_filling *f, const ptxpack_cache_key *key)
{
    char                   line[PTXPACK_CACHE_LINE], name[PTXPACK_CACHE_HEX + 1];
    ptxpack_cache_entry    entry;
    ptxpack_manifest_entry listed;
    ptxpack_cache_key_hex(key, name);
    pthread_mutex_lock(&f->lock);
    const ptxpack_manifest_entry *found = ptxpack_manifest_find(&f->manifest, name);
    if (found != NULL)
        listed = *found;
    pthread_mutex_unlock(&f->lock);
    if (found == NULL)
        return false;
    ptxpack_prebuilt one = {.dir = f->dir, .manifest = {.entries = &listed, .count = 1}};
    bool             good = ptxpack_prebuilt_read(&one, name, key, &entry, line) == PTXPACK_PREBUILT_HIT;
    ptxpack_cache_entry_free(&entry);
    listed.current = true;
    return good && list(f, &listed);
}

bool ptxpack_filling_put(ptxpack_filling *f, const ptxpack_cache_key *key, const char *label,
                         const void *metadata, size_t metadata_bytes, const void *payload, size_t payload_bytes,
                         char line[PTXPACK_CACHE_LINE])
{
    const char            *poisoned = ptxpack_cache_key_poisoned(key);
    char                   name[PTXPACK_CACHE_NAME];
    ptxpack_manifest_entry entry;
    if (poisoned != NULL) {
        say(line, f->dir, poisoned);
        return false;
    }
    memset(&entry, 0, sizeof entry);
    entry.current = true;
    snprintf(entry.label, sizeof entry.label, "%s", label);
    ptxpack_cache_key_hex(key, entry.name);
    ptxpack_cache_entry_name(key, name);
    /* clang-format off */
    const ptxpack_entry_parts parts = {
        .label = entry.label, .label_bytes = strlen(entry.label),
        .metadata = metadata, .metadata_bytes = metadata_bytes,
        .key = key->blob,     .key_bytes = key->bytes,
        .payload = payload,   .payload_bytes = payload_bytes,
    };
    /* clang-format on */
    entry.bytes = ptxpack_entry_size(&parts);
    ptxpack_entry_sha256(&parts, entry.sha256);
    int error = entry.bytes ? ptxpack_cache_publish(f->dirfd, name, &parts) : EINVAL;
    if (!error && !list(f, &entry))
        error = ENOMEM;
    if (error)
        say(line, f->dir, strerror(error));
    return !error;
}

/* ---- the manifest ------------------------------------------------------------------------------- */

static void drop_others(ptxpack_manifest *m)
{
    size_t kept = 0;
    for (size_t i = 0; i < m->count; i++)
        if (m->entries[i].current)
            m->entries[kept++] = m->entries[i];
    m->count = kept;
}

/* Remove the files of entries that the manifest does not list: a stopped filling left them, or they were
 * dropped. */
static void remove_unlisted(const ptxpack_filling *f)
{
    DIR *dir = ptxpack_cache_list(f->dirfd);
    for (struct dirent *d; dir != NULL && (d = readdir(dir)) != NULL;) {
        char name[PTXPACK_CACHE_HEX + 1];
        if (ptxpack_cache_kind_of(d->d_name) != PTXPACK_NAME_ENTRY)
            continue;
        snprintf(name, sizeof name, "%.32s", d->d_name);
        if (ptxpack_manifest_find(&f->manifest, name) == NULL)
            unlinkat(f->dirfd, d->d_name, 0);
    }
    if (dir != NULL)
        closedir(dir);
}

bool ptxpack_filling_finish(ptxpack_filling *f, bool only_current, size_t *entries, uint64_t *bytes,
                            char line[PTXPACK_CACHE_LINE])
{
    size_t count = 0;
    *bytes = 0;
    if (only_current)
        drop_others(&f->manifest);
    *entries = f->manifest.count;
    for (size_t i = 0; i < f->manifest.count; i++)
        *bytes += f->manifest.entries[i].bytes;
    char *text = ptxpack_manifest_text(&f->manifest, &count);
    int   error = text != NULL ? ptxpack_cache_publish_text(f->dirfd, "manifest", text) : ENOMEM;
    free(text);
    if (error)
        say(line, f->dir, strerror(error));
    else
        remove_unlisted(f);
    return !error;
}
