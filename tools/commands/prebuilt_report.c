/* prebuilt_report.c - what commands report about the prebuilt folders of a cache. */
#include "prebuilt_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/command.h"
#include "loader/inspect.h"

/* Whether this library wrote the folder.  Entries of another version are not found: their keys name its
 * kernels. */
static bool of_this_library(const ptxpack_prebuilt_info *folder)
{
    return strcmp(folder->library, ptxpack_library_version) == 0;
}

static void print_folder(const ptxpack_prebuilt_info *folder, const char *head, bool check, uint64_t bad,
                         const char *line)
{
    printf("%s%s: %" PRIu64 " entries, %.1f MiB, written by ptxpack %s%s", head, folder->path, folder->entries,
           (double)folder->bytes / (1 << 20), folder->library, folder->pinned ? ", pinned" : "");
    if (!of_this_library(folder))
        printf(" (this is %s, with other kernels)", ptxpack_library_version);
    if (check && bad != 0)
        printf(", %" PRIu64 " BAD, as %s\n", bad, line);
    else
        printf("%s\n", check ? ", all good" : "");
}

static void json_folder(const ptxpack_prebuilt_info *folder, bool check, uint64_t bad, const char *line)
{
    json_open(NULL, '{');
    json_text("path", folder->path);
    json_text("library", folder->library);
    json_text("manifest_sha256", folder->sha256);
    json_bool("of_this_library", of_this_library(folder));
    json_bool("pinned", folder->pinned);
    json_int("entries", (int64_t)folder->entries);
    json_int("bytes", (int64_t)folder->bytes);
    if (check) {
        json_int("bad", (int64_t)bad);
        json_text("detail", line);
    }
    json_close();
}

uint64_t prebuilt_report(const ptxpack_cache *cache, const char *head, bool check, bool json)
{
    ptxpack_prebuilt_info folder;
    uint64_t              all_bad = 0;
    size_t                i = 0;
    for (; ptxpack_cache_prebuilt(cache, i, &folder); i++) {
        char     line[640] = "";
        uint64_t bad = check ? folder.entries - ptxpack_cache_prebuilt_verify(cache, i, line, sizeof line) : 0;
        if (json && i == 0)
            json_open("prebuilt", '[');
        if (json)
            json_folder(&folder, check, bad, line);
        else
            print_folder(&folder, head, check, bad, line);
        all_bad += bad;
    }
    if (json && i > 0)
        json_close();
    return all_bad;
}
