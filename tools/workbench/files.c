/* files.c - a source and all that it includes from the disk. */
#include "files.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "loader/inspect.h"

enum { MAX_BYTES = 64 << 20 };

void program_files_free(program_files *f)
{
    for (size_t i = 0; i < f->count; i++)
        free(f->list[i].path);
    f->count = 0;
}

static void look(program_file *file)
{
    struct stat info;
    file->there = stat(file->path, &info) == 0 && S_ISREG(info.st_mode);
    if (!file->there) {
        file->device = file->inode = file->bytes = 0;
        file->seconds = file->nanoseconds = 0;
        return;
    }
    file->device = (uint64_t)info.st_dev;
    file->inode = (uint64_t)info.st_ino;
    file->bytes = (uint64_t)info.st_size;
    file->seconds = info.st_mtim.tv_sec;
    file->nanoseconds = info.st_mtim.tv_nsec;
}

bool program_files_touched(const program_files *f)
{
    for (size_t i = 0; i < f->count; i++) {
        program_file now = f->list[i];
        look(&now);
        if (now.there != f->list[i].there || now.device != f->list[i].device || now.inode != f->list[i].inode ||
            now.bytes != f->list[i].bytes || now.seconds != f->list[i].seconds ||
            now.nanoseconds != f->list[i].nanoseconds)
            return true;
    }
    return false;
}

/* ---- finding -------------------------------------------------------------------------------------- */
/* folder/name; a name from the root stays as it is. */
static void add(program_files *f, const char *folder, size_t folder_bytes, const char *name, size_t name_bytes)
{
    char path[4096];
    bool absolute = name_bytes > 0 && name[0] == '/';
    int  length = absolute || folder_bytes == 0 ? snprintf(path, sizeof path, "%.*s", (int)name_bytes, name)
                                                : snprintf(path, sizeof path, "%.*s/%.*s", (int)folder_bytes,
                                                           folder, (int)name_bytes, name);
    if (length >= (int)sizeof path || f->count == PROGRAM_MAX_FILES)
        return;
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->list[i].path, path) == 0)
            return;
    program_file *file = &f->list[f->count];
    file->path = strdup(path);
    if (file->path != NULL)
        f->count++;
}

/* The name in the quotes of an .include or #include at the start of a line; NULL: it is none. */
static const char *included(const char *line, size_t *bytes)
{
    line += strspn(line, " \t");
    if (*line == '#')
        line += 1 + strspn(line + 1, " \t");
    else if (*line++ != '.')
        return NULL;
    if (strncmp(line, "include", 7) != 0)
        return NULL;
    line += 7;
    line += strspn(line, " \t");
    if (*line != '"' && *line != '<')
        return NULL;
    *bytes = strcspn(line + 1, "\">\n");
    return line + 1;
}

/* What file i includes, behind the others. */
static void add_includes(program_files *f, size_t i, const char *text, const program_settings *s)
{
    const char *pack = getenv("PTXPACK_PTX_DIR"), *root = strrchr(s->path, '/');
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n') {
        size_t      bytes;
        const char *name = included(line, &bytes), *path = f->list[i].path, *slash = strrchr(path, '/');
        if (name == NULL)
            continue;
        add(f, path, slash != NULL ? (size_t)(slash - path) : 0, name, bytes);
        if (s->language == PTXPACK_LANGUAGE_PTX && root != NULL)
            add(f, s->path, (size_t)(root - s->path), name, bytes);
        for (size_t k = 0; k < s->includes.count; k++)
            add(f, s->includes.words[k], strlen(s->includes.words[k]), name, bytes);
        if (pack != NULL && *pack != '\0')
            add(f, pack, strlen(pack), name, bytes);
    }
}

void program_files_find(program_files *f, const program_settings *s)
{
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    f->count = 0;
    add(f, NULL, 0, s->path, strlen(s->path));
    for (size_t i = 0; i < f->count; i++) {
        size_t bytes = 0;
        look(&f->list[i]); /* before it is read: a change meanwhile is seen later */
        char *text = f->list[i].there ? ptxpack_read_file(f->list[i].path, MAX_BYTES, &bytes) : NULL;
        XXH3_64bits_update(&state, f->list[i].path, strlen(f->list[i].path) + 1);
        XXH3_64bits_update(&state, text != NULL ? "there" : "not", 4);
        if (text == NULL)
            continue;
        XXH3_64bits_update(&state, text, bytes);
        add_includes(f, i, text, s);
        free(text);
    }
    f->digest = XXH3_64bits_digest(&state);
}
