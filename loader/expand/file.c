/* file.c - files as they are read: without their comments. */
#include <errno.h>
#include <stdlib.h>
#include "internal.h"
#include "loader/files.h"

typedef struct stripper {
    const char *from, *end;
    char       *to;
} stripper;

/* Skip to the next byte that may begin a string, a character or a comment. */
static void strip_nothing(stripper *s)
{
    const char *from = s->from;
    while (s->from < s->end && !is_any(*s->from, IS_QUOTE) && *s->from != '/')
        s->from++;
    memcpy(s->to, from, (size_t)(s->from - from));
    s->to += s->from - from;
}

/* Skip from a quote to the closing quote, or to the end of the line. */
static void strip_string(stripper *s)
{
    *s->to++ = *s->from++;
    while (s->from < s->end && *s->from != '\n') {
        char c = *s->to++ = *s->from++;
        if (c == '"')
            return;
        if (c == '\\' && s->from < s->end && *s->from != '\n')
            *s->to++ = *s->from++;
    }
}

/* Skip an apostrophe and the character that it quotes, which may be a quote or a slash. */
static void strip_character(stripper *s)
{
    int left = s->end - s->from > 1 && s->from[1] == '\\' ? 3 : 2;
    while (left-- && s->from < s->end && *s->from != '\n')
        *s->to++ = *s->from++;
}

/* A comment of either kind becomes a blank; its newlines stay.  False if it is not closed. */
static bool strip_comment(stripper *s)
{
    bool block = s->from[1] == '*';
    *s->to++ = ' ';
    s->from += 2;
    for (; s->from < s->end; s->from++) {
        if (*s->from == '\n') {
            if (!block)
                return true;
            *s->to++ = '\n';
        } else if (block && *s->from == '*' && s->end - s->from > 1 && s->from[1] == '/') {
            s->from += 2;
            return true;
        }
    }
    return !block;
}

/* The line of the text in which `where` is. */
static uint32_t line_of(span in, const char *where)
{
    uint32_t line = 1;
    for (const char *c = in.data; c < where; c++)
        line += *c == '\n';
    return line;
}

static bool strip(expander *x, span in, place at, text *out)
{
    if (!expand_hold(x, in.size) || !expand_text_reserve(x, out, in.size + 1))
        return false;
    stripper s = {in.data, in.data + in.size, out->data};
    if (in.size >= 3 && memcmp(in.data, "\xEF\xBB\xBF", 3) == 0)
        s.from += 3;
    while (strip_nothing(&s), s.from < s.end) {
        const char *from = s.from;
        if (*from == '"') {
            strip_string(&s);
        } else if (*from == '\'') {
            strip_character(&s);
        } else if (s.end - from > 1 && (from[1] == '/' || from[1] == '*')) {
            if (!strip_comment(&s)) {
                at.line = line_of(in, from);
                return expand_fail_at(x, at, "the comment that begins here is not closed");
            }
        } else {
            *s.to++ = *s.from++;
        }
    }
    *s.to = 0;
    out->size = (size_t)(s.to - out->data);
    return true;
}

/* Read x->e->files[file]; `site` is the .include through which it was reached. */
static bool read_file(expander *x, uint32_t file, uint32_t site)
{
    source_file *f = &x->e->files[file];
    size_t       bytes = 0;
    errno = 0;
    const char *data = x->options.read(x->options.context, f->path, &bytes);
    if (data == NULL && (errno == 0 || errno == ENOENT))
        return expand_fail(x, "there is no file \"%s\"", f->path);
    if (data == NULL)
        return expand_fail(x, "the file \"%s\" cannot be read: %s", f->path, ptxpack_file_error(errno));
    place       at = {file, 1, site};
    span        in = span_of(data, bytes);
    const char *nul = (const char *)memchr(data, 0, bytes);
    if (nul != NULL) {
        at.line = line_of(in, nul);
        return expand_fail_at(x, at, "there is a NUL byte here");
    }
    return strip(x, in, at, &f->stripped);
}

bool expand_file(expander *x, span path, uint32_t site, uint32_t *file)
{
    ptxpack_expansion *e = x->e;
    *file = expand_names_find(&x->file_names, path);
    if (*file != NAME_NONE)
        return true;
    *file = e->file_count;
    if (!expand_grow(x, (void **)&e->files, e->file_count, &e->file_cap, sizeof *e->files))
        return false;
    char *copy = strndup(path.data, path.size);
    if (copy == NULL)
        return expand_no_memory(x);
    e->files[e->file_count++].path = copy;
    return read_file(x, *file, site) && expand_names_put(x, &x->file_names, path, *file);
}
