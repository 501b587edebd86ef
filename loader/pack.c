/* pack.c - reading .ptx files from the embedded table or from a folder. */
#include "pack.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "files.h"

enum { MAX_FILE = 16 << 20 }; /* bytes; the largest file of the pack is some ten thousand */

struct ptxpack_pack_text {
    struct ptxpack_pack_text *next;
    char                     *path;
    char                     *text;
    size_t                    bytes;
};

/* Pack paths are plain: relative, with no ".." in them. */
static int path_is_plain(const char *path)
{
    if (*path == '/' || *path == '\0')
        return 0;
    for (const char *at = path; at != NULL; at = strchr(at, '/')) {
        at += *at == '/';
        if (strncmp(at, "..", 2) == 0 && (at[2] == '/' || at[2] == '\0'))
            return 0;
    }
    return 1;
}

static const char *read_embedded(const char *path, size_t *bytes)
{
    for (const struct ptxpack_pack_file *f = ptxpack_pack_files; f->path != NULL; f++)
        if (strcmp(f->path, path) == 0) {
            *bytes = (size_t)(f->end - f->begin);
            return f->begin;
        }
    return NULL;
}

static struct ptxpack_pack_text *read_text(const char *dir, const char *path)
{
    char                     *full = NULL;
    struct ptxpack_pack_text *t = NULL;
    if (asprintf(&full, "%s/%s", dir, path) < 0)
        return NULL;
    size_t bytes = 0;
    char  *text = ptxpack_read_file(full, MAX_FILE, &bytes);
    int    error = errno;
    free(full);
    errno = error;
    if (text == NULL)
        return NULL;
    t = (struct ptxpack_pack_text *)calloc(1, sizeof *t);
    if (t != NULL && (t->path = strdup(path)) != NULL) {
        t->text = text;
        t->bytes = bytes;
        return t;
    }
    free(t);
    free(text);
    return NULL;
}

const char *ptxpack_pack_read(void *context, const char *path, size_t *bytes)
{
    struct ptxpack_pack *pack = (struct ptxpack_pack *)context;
    if (pack->dir == NULL)
        return read_embedded(path, bytes);
    if (!path_is_plain(path))
        return NULL;
    struct ptxpack_pack_text *t = pack->texts;
    while (t != NULL && strcmp(t->path, path) != 0)
        t = t->next;
    if (t == NULL && (t = read_text(pack->dir, path)) != NULL) {
        t->next = pack->texts;
        pack->texts = t;
    }
    if (t == NULL)
        return NULL;
    *bytes = t->bytes;
    return t->text;
}

void ptxpack_pack_free(struct ptxpack_pack *pack)
{
    while (pack->texts != NULL) {
        struct ptxpack_pack_text *t = pack->texts;
        pack->texts = t->next;
        free(t->path);
        free(t->text);
        free(t);
    }
}
