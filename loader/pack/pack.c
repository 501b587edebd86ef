/* pack.c - reading .ptx files from the embedded table or from a folder. */
#include "pack.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "loader/files.h"
#include "unpack.h"

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

/* Keeps `text`, which free() takes, for the reader; frees it without memory. */
static const struct ptxpack_pack_text *keep(struct ptxpack_pack *pack, const char *path, char *text,
                                            size_t bytes)
{
    struct ptxpack_pack_text *t = (struct ptxpack_pack_text *)calloc(1, sizeof *t);
    if (t == NULL || (t->path = strdup(path)) == NULL) {
        free(t);
        free(text);
        return NULL;
    }
    t->text = text;
    t->bytes = bytes;
    t->next = pack->texts;
    return pack->texts = t;
}

static const struct ptxpack_pack_text *find(const struct ptxpack_pack *pack, const char *path)
{
    const struct ptxpack_pack_text *t = pack->texts;
    while (t != NULL && strcmp(t->path, path) != 0)
        t = t->next;
    return t;
}

/* ---- the embedded copy ------------------------------------------------------------------------------ */
/* Who finds a text empty fills it, for the life of the process.  Others do not wait for that, since it never ends in a
 * child of a fork: they unpack a copy of their own. */
enum { EMPTY, FILLING, FULL };

static const char *unpack_own(struct ptxpack_pack *pack, const struct ptxpack_pack_file *f)
{
    const struct ptxpack_pack_text *t = find(pack, f->path);
    char                           *text;
    if (t != NULL)
        return t->text;
    if ((text = (char *)malloc((size_t)f->bytes + 1)) == NULL)
        return NULL;
    if (!ptxpack_unpack(f->begin, f->end, text, f->bytes)) {
        free(text);
        return NULL;
    }
    t = keep(pack, f->path, text, f->bytes);
    return t != NULL ? t->text : NULL;
}

static const char *text_of(struct ptxpack_pack *pack, struct ptxpack_pack_file *f)
{
    int state = atomic_load_explicit(&f->state, memory_order_acquire);
    if (state == FULL)
        return f->text;
    if (state == FILLING || !atomic_compare_exchange_strong(&f->state, &state, FILLING))
        return unpack_own(pack, f);
    const bool good = ptxpack_unpack(f->begin, f->end, f->text, f->bytes);
    atomic_store_explicit(&f->state, good ? FULL : EMPTY, memory_order_release);
    return good ? f->text : NULL;
}

static const char *read_embedded(struct ptxpack_pack *pack, const char *path, size_t *bytes)
{
    for (struct ptxpack_pack_file *f = ptxpack_pack_files; f->path != NULL; f++)
        if (strcmp(f->path, path) == 0) {
            *bytes = f->bytes;
            return text_of(pack, f);
        }
    return NULL;
}

/* ---- a folder --------------------------------------------------------------------------------------- */
static const struct ptxpack_pack_text *read_text(struct ptxpack_pack *pack, const char *path)
{
    char  *full = NULL;
    size_t bytes = 0;
    if (asprintf(&full, "%s/%s", pack->dir, path) < 0)
        return NULL;
    char *text = ptxpack_read_file(full, MAX_FILE, &bytes);
    int   error = errno;
    free(full);
    errno = error;
    return text != NULL ? keep(pack, path, text, bytes) : NULL;
}

const char *ptxpack_pack_read(void *context, const char *path, size_t *bytes)
{
    struct ptxpack_pack *pack = (struct ptxpack_pack *)context;
    if (pack->dir == NULL)
        return read_embedded(pack, path, bytes);
    if (!path_is_plain(path))
        return NULL;
    const struct ptxpack_pack_text *t = find(pack, path);
    if (t == NULL && (t = read_text(pack, path)) == NULL)
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
