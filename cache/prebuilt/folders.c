/* folders.c - the prebuilt folders of a handle: opening them, and looking in one after another. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "prebuilt.h"

/* Where the pin of "DIR#<64 digits>" begins, with its #; NULL when there is none.  What follows the last # is
 * meant as a pin, unless it has a slash: a mistake in a pin must not turn it off. */
static char *pin_of(char *text)
{
    char *hash = strrchr(text, '#');
    return hash != NULL && strchr(hash, '/') == NULL ? hash : NULL;
}

/* NULL, or what is wrong with "DIR#PIN". */
static const char *pin_error(const char *text, const char *hash)
{
    uint8_t digest[PTXPACK_SHA256_BYTES];
    if (strlen(hash + 1) != PTXPACK_SHA256_HEX || !ptxpack_sha256_parse(hash + 1, digest))
        return "what follows the # is not a SHA-256 of 64 digits, in lower case (a folder with a # in its name "
               "is "
               "written with a slash at its end)";
    return hash == text ? "there is no folder before the pin" : NULL;
}

static bool add_folder(ptxpack_cache *cache, ptxpack_prebuilt *folder)
{
    ptxpack_prebuilt **larger = (ptxpack_prebuilt **)realloc(cache->folders,
                                                             (cache->folder_count + 1) * sizeof *larger);
    if (larger == NULL) {
        ptxpack_prebuilt_close(folder);
        return false;
    }
    cache->folders = larger;
    cache->folders[cache->folder_count++] = folder;
    return true;
}

/* Open one folder of the list, which is cut into words.  False: memory ran out. */
static bool open_folder(ptxpack_cache *cache, char *text)
{
    char              line[PTXPACK_CACHE_LINE];
    char             *pin = pin_of(text);
    const char       *wrong = pin != NULL ? pin_error(text, pin) : NULL;
    ptxpack_prebuilt *folder = NULL;
    if (wrong != NULL) {
        snprintf(line, sizeof line, "%.300s: %s", text, wrong);
    } else {
        if (pin != NULL)
            *pin++ = '\0';
        folder = ptxpack_prebuilt_open(text, pin, line);
    }
    if (folder != NULL)
        return add_folder(cache, folder);
    if (asprintf(&cache->refusal, "prebuilt folder %s", line) < 0)
        cache->refusal = NULL; /* asprintf leaves it undefined */
    return cache->refusal != NULL;
}

bool ptxpack_cache_open_folders(ptxpack_cache *cache, const char *wanted)
{
    bool good = true;
    if (wanted == NULL)
        wanted = ptxpack_cache_env("PTXPACK_CACHE_READONLY_DIRS");
    if (wanted == NULL)
        return true;
    char *list = strdup(wanted), *rest = NULL;
    if (list == NULL)
        return false;
    char *at = strtok_r(list, ":", &rest);
    for (; at != NULL && good && cache->refusal == NULL; at = strtok_r(NULL, ":", &rest))
        good = open_folder(cache, at);
    free(list);
    if (cache->refusal != NULL)
        ptxpack_cache_close_folders(cache);
    return good;
}

void ptxpack_cache_close_folders(ptxpack_cache *cache)
{
    for (size_t i = 0; i < cache->folder_count; i++)
        ptxpack_prebuilt_close(cache->folders[i]);
    free(cache->folders);
    cache->folders = NULL;
    cache->folder_count = 0;
}

const char *ptxpack_cache_prebuilt_refusal(const ptxpack_cache *cache)
{
    return cache != NULL ? cache->refusal : NULL;
}

ptxpack_prebuilt_result ptxpack_cache_get_prebuilt(ptxpack_cache *cache, const ptxpack_cache_key *key,
                                                   ptxpack_cache_entry *entry)
{
    if (entry == NULL)
        return PTXPACK_PREBUILT_NONE;
    char                    name[PTXPACK_CACHE_HEX + 1], line[PTXPACK_CACHE_LINE];
    ptxpack_prebuilt_result result = PTXPACK_PREBUILT_NONE;
    memset(entry, 0, sizeof *entry);
    ptxpack_cache_forget(cache);
    if (cache == NULL || !cache->folder_count || ptxpack_cache_key_poisoned(key) != NULL)
        return result;
    ptxpack_cache_key_hex(key, name);
    for (size_t i = 0; i < cache->folder_count; i++) {
        switch (ptxpack_prebuilt_read(cache->folders[i], name, key, entry, line)) {
        case PTXPACK_PREBUILT_NONE:
            break;
        case PTXPACK_PREBUILT_HIT:
            atomic_fetch_add(&cache->prebuilt_hits, 1);
            return PTXPACK_PREBUILT_HIT;
        case PTXPACK_PREBUILT_BAD:
            atomic_fetch_add(&cache->corrupt, 1);
            ptxpack_cache_say(cache, "%s", line);
            result = PTXPACK_PREBUILT_BAD;
            break;
        }
    }
    return result;
}

void ptxpack_prebuilt_describe(const ptxpack_prebuilt *folder, ptxpack_prebuilt_info *info)
{
    memset(info, 0, sizeof *info);
    info->path = folder->dir;
    info->library = folder->manifest.library;
    info->sha256 = folder->sha256;
    info->pinned = folder->pinned;
    info->entries = folder->manifest.count;
    for (size_t i = 0; i < folder->manifest.count; i++)
        info->bytes += folder->manifest.entries[i].bytes;
}

bool ptxpack_cache_prebuilt(const ptxpack_cache *cache, size_t index, ptxpack_prebuilt_info *info)
{
    if (info == NULL)
        return false;
    memset(info, 0, sizeof *info);
    if (cache == NULL || index >= cache->folder_count)
        return false;
    ptxpack_prebuilt_describe(cache->folders[index], info);
    return true;
}

uint64_t ptxpack_cache_prebuilt_verify(const ptxpack_cache *cache, size_t index, char *line, size_t cap)
{
    if (line == NULL)
        cap = 0;
    uint64_t good = 0;
    if (cap)
        *line = '\0';
    if (cache == NULL || index >= cache->folder_count)
        return 0;
    const ptxpack_prebuilt *folder = cache->folders[index];
    for (size_t i = 0; i < folder->manifest.count; i++) {
        char                why[PTXPACK_CACHE_LINE];
        ptxpack_cache_entry entry;
        bool hit = ptxpack_prebuilt_read(folder, folder->manifest.entries[i].name, NULL, &entry, why) ==
                   PTXPACK_PREBUILT_HIT;
        ptxpack_cache_entry_free(&entry);
        if (!hit && cap && !*line)
            snprintf(line, cap, "%s", why);
        good += hit;
    }
    return good;
}
