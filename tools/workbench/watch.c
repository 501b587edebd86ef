/* watch.c - --watch: run again whenever the source or what it includes from the disk changes. */
#include "repeat.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "loader/inspect.h"
#include "tools/device.h"
#include "report.h"
#include "sass.h"

enum { POLL_MS = 40, SETTLE_MS = 15, MAX_BYTES = 64 << 20 };

/* ---- the files ------------------------------------------------------------------------------------ */
enum { MAX_FILES = 1024 };
typedef struct watched_file {
    char *path;
    bool  there;
    /* from stat() */
    uint64_t device, inode, bytes;
    int64_t  seconds, nanoseconds;
} watched_file;

typedef struct file_list {
    watched_file list[MAX_FILES]; /* the source first */
    size_t       count;
    uint64_t     digest; /* of paths and contents */
} file_list;

static void free_files(file_list *f)
{
    for (size_t i = 0; i < f->count; i++)
        free(f->list[i].path);
    f->count = 0;
}

static void look(watched_file *file)
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

/* Whether one of the files has changed, judged by its date, size and identity. */
static bool touched(const file_list *f)
{
    for (size_t i = 0; i < f->count; i++) {
        watched_file now = f->list[i];
        look(&now);
        if (now.there != f->list[i].there || now.device != f->list[i].device || now.inode != f->list[i].inode ||
            now.bytes != f->list[i].bytes || now.seconds != f->list[i].seconds ||
            now.nanoseconds != f->list[i].nanoseconds)
            return true;
    }
    return false;
}

/* ---- finding -------------------------------------------------------------------------------------- */
/* Add folder/name, or an absolute name itself. */
static void add(file_list *f, const char *folder, size_t folder_bytes, const char *name, size_t name_bytes)
{
    char path[4096];
    bool absolute = name_bytes > 0 && name[0] == '/';
    int  length = absolute || folder_bytes == 0 ? snprintf(path, sizeof path, "%.*s", (int)name_bytes, name)
                                                : snprintf(path, sizeof path, "%.*s/%.*s", (int)folder_bytes,
                                                           folder, (int)name_bytes, name);
    if (length >= (int)sizeof path || f->count == MAX_FILES)
        return;
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->list[i].path, path) == 0)
            return;
    watched_file *file = &f->list[f->count];
    file->path = strdup(path);
    if (file->path != NULL)
        f->count++;
}

/* The name in an .include or #include at the start of a line; NULL if the line is neither. */
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

/* Add what file i includes at the end of the list. */
static void add_includes(file_list *f, size_t i, const char *text, const program_settings *s)
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

/* Find the source and all files that it includes.  A name in .include or #include is looked for in the folder of the
 * including file (for PTX also of the source), in the folders of -I, and in PTXPACK_PTX_DIR.  Paths where a file
 * might appear are watched as well. */
static void find_files(file_list *f, const program_settings *s)
{
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    f->count = 0;
    add(f, NULL, 0, s->path, strlen(s->path));
    for (size_t i = 0; i < f->count; i++) {
        size_t bytes = 0;
        look(&f->list[i]); /* before reading it, so that a change during the reading is noticed later */
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

/* ---- watching ------------------------------------------------------------------------------------- */
/* Wait until the contents have changed, and until an editor that writes in several steps or replaces the file has
 * finished.  False when interrupted.  *seen becomes the time of the change. */
static bool wait_for_change(file_list *files, const program_settings *s, double *seen)
{
    uint64_t before = files->digest;
    for (;;) {
        while (!touched(files))
            if (!program_sleep(POLL_MS))
                return false;
        *seen = now_ms();
        do {
            free_files(files);
            find_files(files, s);
            if (!program_sleep(SETTLE_MS))
                return false;
        } while (touched(files) || !files->list[0].there);
        if (files->digest != before)
            return true;
    }
}

static void show(program_worker *w, const program_settings *s, const program_result *result,
                 const program_result *before, double since)
{
    char line[SASS_LINE];
    if (s->json)
        json_open(NULL, '{');
    program_report(s, result, before);
    if (s->json)
        json_close();
    else
        printf("done in   %.2f s from %s\n", 1e-3 * (now_ms() - since),
               before != NULL ? "the change" : "the start");
    if (s->sass && result->cubin_size > 0 &&
        !sass_print(program_worker_cubin(w), result->entries[0].name, line))
        command_fail(s->subcommand, "--sass: %s", line);
}

/* Run once; `before` keeps the last successful result. */
static void run_once(program_worker *w, const program_settings *s, program_result *before, bool *any,
                     double since)
{
    const program_job     job = {.symbols = s->symbols};
    const program_result *result = program_worker_run(w, &job);
    if (program_interrupted())
        return;
    if (result->status == COMMAND_OK) {
        show(w, s, result, *any ? before : NULL, since);
        *before = *result;
        *any = true;
    } else {
        program_report_failure(w, s, result);
    }
    if (!s->json)
        printf("watching  %s\n\n", s->path);
    command_flush();
}

int program_watch(program_worker *w, const program_settings *s)
{
    file_list      *files = (file_list *)calloc(1, sizeof *files);
    program_result *before = (program_result *)calloc(1, sizeof *before);
    bool            any = false;
    double          since = now_ms();
    int             status = COMMAND_OK;
    program_catch_interrupts();
    if (files == NULL || before == NULL) {
        status = command_fail(s->subcommand, "out of memory");
    } else {
        find_files(files, s);
        if (!files->list[0].there)
            status = command_fail(s->subcommand, "%s cannot be read", s->path);
        else
            do
                run_once(w, s, before, &any, since);
            while (command_flush() && !program_interrupted() && wait_for_change(files, s, &since));
        free_files(files);
    }
    free(files);
    free(before);
    return status;
}
