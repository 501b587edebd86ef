/* program_source.c - checking and reading a program's source, and finding the files that it includes. */
#include "program_source.h"
#include "loader/compile/ptx_text.h"
#include "loader/inspect.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_SOURCE = 16 << 20 }; /* bytes of one file */

/* ---- checks --------------------------------------------------------------------------------------- */

static ptxpack_status check_words(const ptxpack *h, const char *field, const char *const *words, size_t count)
{
    if (count && words == NULL)
        return ptxpack_fail(h, PTXPACK_E_ARG, "source.%s is NULL, but its count is %zu", field, count);
    for (size_t i = 0; i < count; i++)
        if (words[i] == NULL || !*words[i])
            return ptxpack_fail(h, PTXPACK_E_ARG, "source.%s[%zu] is empty", field, i);
    return PTXPACK_OK;
}

static ptxpack_status check_symbols(const ptxpack *h, const ptxpack_source *s)
{
    if (s->symbol_count && s->symbols == NULL)
        return ptxpack_fail(h, PTXPACK_E_ARG, "source.symbols is NULL, but its count is %zu", s->symbol_count);
    for (size_t i = 0; i < s->symbol_count; i++) {
        const char       *name = s->symbols[i].name;
        static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
        if (name == NULL || !*name || strspn(name, letters) != strlen(name) || (*name >= '0' && *name <= '9'))
            return ptxpack_fail(h, PTXPACK_E_ARG, "source.symbols[%zu]: \"%.60s\" is not a symbol name", i,
                                name != NULL ? name : "");
    }
    return PTXPACK_OK;
}

static ptxpack_status check(const ptxpack *h, const ptxpack_source *s)
{
    ptxpack_status status;
    if (s->language != PTXPACK_LANGUAGE_PTX && s->language != PTXPACK_LANGUAGE_CUDA)
        return ptxpack_fail(h, PTXPACK_E_ARG, "source.language is %d", (int)s->language);
    if (s->text == NULL && (s->path == NULL || !*s->path))
        return ptxpack_fail(h, PTXPACK_E_ARG, "source: neither path nor text is given");
    if (s->language == PTXPACK_LANGUAGE_PTX && (s->option_count || s->expression_count))
        return ptxpack_fail(h, PTXPACK_E_ARG, "source.%s: only CUDA C++ takes them, and the source is PTX",
                            s->option_count ? "options" : "expressions");
    if ((status = check_symbols(h, s)) != PTXPACK_OK ||
        (status = check_words(h, "include_dirs", s->include_dirs, s->include_count)) != PTXPACK_OK ||
        (status = check_words(h, "options", s->options, s->option_count)) != PTXPACK_OK)
        return status;
    return check_words(h, "expressions", s->expressions, s->expression_count);
}

/* ---- files ---------------------------------------------------------------------------------------- */

static void free_file(struct ptxpack_file *f)
{
    free(f->path);
    free(f->real);
    free(f->text);
    free(f);
}

/* Add a file, which takes over `real` and `text`.  NULL: memory ran out. */
static struct ptxpack_file *add_file(struct ptxpack_text *t, const char *path, char *real, char *text,
                                     size_t bytes)
{
    struct ptxpack_file **end = &t->files, *f = (struct ptxpack_file *)calloc(1, sizeof *f);
    if (f == NULL || text == NULL || (f->path = strdup(path)) == NULL) {
        free(real);
        free(text);
        free(f);
        return NULL;
    }
    f->real = real;
    f->text = text;
    f->bytes = bytes;
    while (*end != NULL)
        end = &(*end)->next;
    return *end = f;
}

/* The text in place of an included C++ file that exists but cannot be read.  Otherwise NVRTC would read the
 * file itself, and would wait for ever if it is a pipe.  NULL: it is a folder, or memory ran out. */
static char *unreadable(const char *path, size_t *bytes)
{
    struct stat st;
    char       *text = NULL;
    const char *why = ptxpack_file_error(errno);
    int         n = stat(path, &st) == 0 && !S_ISDIR(st.st_mode)
                        ? asprintf(&text, "#error %s cannot be read: %s\n", path, why)
                        : -1;
    *bytes = n < 0 ? 0 : (size_t)n;
    return n < 0 ? NULL : text;
}

/* Why a file cannot be read that is there: the first reason is kept. */
static void note_failure(struct ptxpack_text *t, int error)
{
    t->no_memory |= error == ENOMEM;
    if (t->error == 0 && error != ENOENT && error != ENOTDIR)
        t->error = error;
}

/* A file that was read under another path is the same file. */
static const struct ptxpack_file *open_file(struct ptxpack_text *t, const char *path)
{
    struct ptxpack_file *f = t->files;
    size_t               bytes = 0;
    while (f != NULL && strcmp(f->path, path) != 0)
        f = f->next;
    if (f != NULL)
        return f;
    char *real = realpath(path, NULL);
    if (real == NULL)
        note_failure(t, errno);
    for (f = t->files; real != NULL && f != NULL; f = f->next)
        if (f->real != NULL && strcmp(f->real, real) == 0) {
            free(real);
            return f;
        }
    char *text = real != NULL ? ptxpack_read_file(path, MAX_SOURCE, &bytes) : NULL;
    if (real != NULL && text == NULL)
        note_failure(t, errno);
    if (real != NULL && text == NULL && t->files != NULL && t->source.language == PTXPACK_LANGUAGE_CUDA)
        text = unreadable(path, &bytes);
    if (text == NULL) {
        free(real);
        return NULL;
    }
    f = add_file(t, path, real, text, bytes);
    t->no_memory |= (f == NULL);
    return f;
}

/* The file `name` in the folder that the first `bytes` bytes of `folder` name; 0 bytes: the current folder. */
static const struct ptxpack_file *find_in(struct ptxpack_text *t, const char *folder, size_t bytes,
                                          const char *name)
{
    char *path = NULL;
    while (bytes > 1 && folder[bytes - 1] == '/')
        bytes--;
    if (asprintf(&path, "%.*s%s%s", (int)bytes, folder, bytes ? "/" : "", name) < 0) {
        t->no_memory = true;
        return NULL;
    }
    const struct ptxpack_file *f = open_file(t, path);
    free(path);
    return f;
}

/* A file of PTX that cannot be read is an error, also where there is another one of that name further on.  A
 * folder may have the name of a file. */
static bool is_in_the_way(const struct ptxpack_text *t)
{
    return t->source.language == PTXPACK_LANGUAGE_PTX && t->error != 0 && t->error != EISDIR;
}

const struct ptxpack_file *ptxpack_text_find(struct ptxpack_text *t, const char *from, const char *name)
{
    const struct ptxpack_file *f = NULL;
    const char                *slash = from != NULL ? strrchr(from, '/') : NULL;
    if (*name == '/')
        return open_file(t, name);
    if (from != NULL)
        f = find_in(t, from, slash != NULL ? (size_t)(slash - from) + (slash == from) : 0, name);
    for (size_t i = 0; i < t->source.include_count && f == NULL && !is_in_the_way(t); i++)
        f = find_in(t, t->source.include_dirs[i], strlen(t->source.include_dirs[i]), name);
    return f;
}

static const struct ptxpack_file *find_included(struct ptxpack_text *t, const char *path)
{
    return strcmp(path, t->path) == 0 ? t->files : ptxpack_text_find(t, t->path, path);
}

/* ---- what a text uses ------------------------------------------------------------------------------ */

void ptxpack_text_note(struct ptxpack_text *t, const char *text)
{
    for (size_t i = 0; i < t->source.symbol_count; i++)
        t->used[i] = t->used[i] || ptxpack_text_uses(text, t->source.symbols[i].name);
}

/* ---- reading ------------------------------------------------------------------------------------------ */

const char *ptxpack_text_read(void *context, const char *path, size_t *bytes)
{
    struct ptxpack_text *t = (struct ptxpack_text *)context;
    t->error = 0;
    const struct ptxpack_file *f = find_included(t, path);
    const char                *text = f != NULL ? f->text : NULL;
    if (f != NULL)
        *bytes = f->bytes;
    else if (!is_in_the_way(t))
        text = ptxpack_pack_read(&t->pack, path, bytes);
    if (t->used != NULL && text != NULL)
        ptxpack_text_note(t, text);
    if (t->error != 0)
        errno = t->error;
    return text;
}

const char *ptxpack_text_locate(void *context, const char *path, char *buf, size_t cap)
{
    struct ptxpack_text       *t = (struct ptxpack_text *)context;
    const struct ptxpack_file *f = find_included(t, path);
    if (f != NULL)
        return f->path;
    snprintf(buf, cap, "ptx/%s", path);
    return buf;
}

ptxpack_status ptxpack_text_expand(struct ptxpack_text *t, const ptxpack_symbol *symbols, size_t count,
                                   ptxpack_expansion **out)
{
    ptxpack_expand_options options = {.size = sizeof options,
                                      .symbols = symbols,
                                      .symbol_count = count,
                                      .read = ptxpack_text_read,
                                      .locate = ptxpack_text_locate,
                                      .context = t,
                                      .line_info = t->handle->line_info};
    ptxpack_status         status = ptxpack_expand(t->path, &options, out);
    if (status == PTXPACK_OK)
        return status;
    return ptxpack_fail(t->handle, status, "%s",
                        *out != NULL ? ptxpack_expansion_error(*out) : ptxpack_status_string(status));
}

ptxpack_status ptxpack_source_expand(ptxpack *handle, const ptxpack_source *source, ptxpack_expansion **out)
{
    struct ptxpack_text t;
    *out = NULL;
    ptxpack_status status = ptxpack_text_begin(&t, handle, source);
    if (status == PTXPACK_OK)
        status = ptxpack_text_expand(&t, t.source.symbols, t.source.symbol_count, out);
    ptxpack_text_end(&t);
    return status;
}

/* ---- begin and end -------------------------------------------------------------------------------- */

static ptxpack_status read_source(struct ptxpack_text *t)
{
    const ptxpack_source *s = &t->source;
    size_t                bytes = s->text != NULL && !s->bytes ? strlen(s->text) : s->bytes;
    if (s->text == NULL) {
        if (open_file(t, s->path) != NULL)
            return PTXPACK_OK;
        int error = t->error != 0 ? t->error : errno; /* ENOENT and ENOTDIR are not kept */
        return ptxpack_fail(t->handle, t->no_memory ? PTXPACK_E_MEMORY : PTXPACK_E_IO, "%s: %s", s->path,
                            ptxpack_file_error(error));
    }
    if (bytes > MAX_SOURCE)
        return ptxpack_fail(t->handle, PTXPACK_E_ARG, "source.text: more than %d MiB", MAX_SOURCE >> 20);
    char *copy = (char *)calloc(1, bytes + 1);
    if (copy != NULL)
        memcpy(copy, s->text, bytes);
    if (add_file(t, t->path, NULL, copy, bytes) == NULL)
        return ptxpack_fail(t->handle, PTXPACK_E_MEMORY, "out of memory for %s", t->path);
    return PTXPACK_OK;
}

ptxpack_status ptxpack_text_begin(struct ptxpack_text *t, ptxpack *h, const ptxpack_source *source)
{
    memset(t, 0, sizeof *t);
    t->handle = h;
    t->pack.dir = h->ptx_dir;
    if (source->size < sizeof source->size || source->size > sizeof *source)
        return ptxpack_fail(h, PTXPACK_E_ARG, "source.size is %u, but this library knows %zu", source->size,
                            sizeof *source);
    memcpy(&t->source, source, source->size);
    ptxpack_status status = check(h, &t->source);
    t->path = t->source.path != NULL && *t->source.path     ? t->source.path
              : t->source.language == PTXPACK_LANGUAGE_CUDA ? "program.cu"
                                                            : "program.ptx";
    return status == PTXPACK_OK ? read_source(t) : status;
}

void ptxpack_text_end(struct ptxpack_text *t)
{
    while (t->files != NULL) {
        struct ptxpack_file *f = t->files;
        t->files = f->next;
        free_file(f);
    }
    ptxpack_pack_free(&t->pack);
}
