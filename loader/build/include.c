/* include.c - finding the #include directives of C++ text, and the files behind them. */
#include "cuda_source.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- finding directives --------------------------------------------------------------------------- */

/* A name in quotes or angle brackets, of #include or of __has_include. */
enum kind { NONE, INCLUDE, ASKED, OPEN };
struct site {
    const char *begin, *end; /* with its quotes */
    enum kind   kind;
};
struct scanner {
    const char *at, *end;
    bool        line_start; /* only blanks and comments so far */
    bool        defining;   /* in a #define */
};

static bool in_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v'; }

static const char *skip_line(const char *at, const char *end)
{
    for (; at < end && *at != '\n'; at++)
        at += *at == '\\' && end - at > 1; /* a line goes on after a backslash */
    return at < end ? at : end;
}

/* The position after the comment at `at`; NULL when there is none. */
static const char *skip_comment(const char *at, const char *end)
{
    if (end - at < 2 || at[0] != '/' || (at[1] != '/' && at[1] != '*'))
        return NULL;
    if (at[1] == '/')
        return skip_line(at, end);
    const char *close = (const char *)memmem(at + 2, (size_t)(end - at - 2), "*/", 2);
    return close != NULL ? close + 2 : end;
}

static const char *skip_string(const char *at, const char *end, char quote)
{
    for (at++; at < end && *at != quote && *at != '\n'; at++)
        at += *at == '\\' && end - at > 1;
    return at < end ? at + 1 : end;
}

/* Skip R"x(...)x", from its quote on. */
static const char *skip_raw(const char *at, const char *end)
{
    char        close[20] = ")";
    const char *open = (const char *)memchr(at, '(', (size_t)(end - at));
    size_t      bytes = open != NULL ? (size_t)(open - at - 1) : sizeof close;
    if (bytes > 16)
        return at + 1;
    memcpy(close + 1, at + 1, bytes);
    close[bytes + 1] = '"';
    const char *found = (const char *)memmem(open, (size_t)(end - open), close, bytes + 2);
    return found != NULL ? found + bytes + 2 : end;
}

/* The position after a backslash at the end of a line; `at` itself when there is none. */
static const char *skip_splice(const char *at, const char *end)
{
    const char *next = at + 1;
    if (end - at < 2 || *at != '\\')
        return at;
    next += *next == '\r';
    return next < end && *next == '\n' ? next + 1 : at;
}

static const char *skip_blanks(const char *at, const char *end)
{
    const char *past;
    for (;;)
        if (at < end && is_blank(*at))
            at++;
        else if ((past = skip_splice(at, end)) != at)
            at = past;
        else if (end - at > 1 && at[1] == '*' && (past = skip_comment(at, end)) != NULL)
            at = past;
        else
            return at;
}

/* Read the name at `at`; OPEN when it is something else. */
static struct site name_at(const char *at, const char *end, enum kind kind)
{
    struct site site = {at, at, OPEN};
    if (at >= end || (*at != '"' && *at != '<'))
        return site;
    char close = *at == '"' ? '"' : '>';
    for (const char *c = at + 1; c < end && *c != '\n'; c++)
        if (*c == close) {
            site.end = c + 1;
            site.kind = kind;
            return site;
        }
    return site;
}

static bool is_word(const char *at, const char *end, const char *word)
{
    size_t bytes = strlen(word);
    return (size_t)(end - at) >= bytes && memcmp(at, word, bytes) == 0 &&
           ((size_t)(end - at) == bytes || !in_word(at[bytes]));
}

/* The bytes of the '#' at `at`, which may be spelt "%:"; 0 when there is none. */
static size_t is_hash(const char *at, const char *end)
{
    return *at == '#' ? 1 : *at == '%' && end - at > 1 && at[1] == ':' ? 2 : 0;
}

/* Read the directive after a '#' that starts a line. */
static struct site directive(struct scanner *s)
{
    const char *at = skip_blanks(s->at + is_hash(s->at, s->end), s->end);
    struct site site = {NULL, NULL, NONE};
    s->line_start = false;
    s->defining = is_word(at, s->end, "define");
    s->at = at;
    if (is_word(at, s->end, "include")) {
        site = name_at(skip_blanks(at + strlen("include"), s->end), s->end, INCLUDE);
        s->at = site.end;
    } else if (is_word(at, s->end, "include_next") || is_word(at, s->end, "import")) {
        site = (struct site){at, at, OPEN};
    }
    return site;
}

/* The prefixes of raw strings. */
static bool is_raw(const char *at, const char *end)
{
    static const char *const prefixes[] = {"R", "u8R", "uR", "UR", "LR"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if ((size_t)(end - at) == strlen(prefixes[i]) && is_word(at, end, prefixes[i]))
            return true;
    return false;
}

/* Skip a word, which may be __has_include(NAME) or the R of a raw string. */
static struct site word(struct scanner *s)
{
    const char *from = s->at;
    struct site site = {NULL, NULL, NONE};
    while (s->at < s->end && in_word(*s->at))
        s->at++;
    const char *next = skip_splice(s->at, s->end);
    if (next != s->at && next < s->end &&
        in_word(*next)) { /* a word that is split over two lines may be any word */
        site = (struct site){s->at, s->at, OPEN};
    } else if (is_word(from, s->at, "__has_include")) {
        const char *at = skip_blanks(s->at, s->end);
        bool asks = at < s->end && *at == '(' && !s->defining; /* "#ifdef __has_include" asks for no file */
        site = name_at(at < s->end && *at == '(' ? skip_blanks(at + 1, s->end) : at, s->end, ASKED);
        s->at = site.kind == ASKED ? site.end : s->at;
        site.kind = site.kind == OPEN && !asks ? NONE : site.kind;
    } else if (s->at < s->end && *s->at == '"' && is_raw(from, s->at)) {
        s->at = skip_raw(s->at, s->end);
    } else if (s->at < s->end && *s->at == '\'') { /* 1'000, or a prefix of a character */
        if (*from >= '0' && *from <= '9')
            s->at++;
    }
    return site;
}

/* Find the next directive that matters; kind NONE at the end. */
static struct site next_site(struct scanner *s)
{
    struct site site = {NULL, NULL, NONE};
    while (s->at < s->end && site.kind == NONE) {
        const char *past = skip_comment(s->at, s->end);
        char        c = *s->at;
        if (past != NULL || (past = skip_blanks(s->at, s->end)) != s->at) {
            s->at = past;
        } else if (c == '\n') {
            s->line_start = true;
            s->defining = false;
            s->at++;
        } else if (s->line_start && is_hash(s->at, s->end)) {
            site = directive(s);
        } else {
            s->line_start = false;
            if (c == '"' || c == '\'')
                s->at = skip_string(s->at, s->end, c);
            else if (in_word(c))
                site = word(s);
            else
                s->at += c == '\\' && s->end - s->at > 1 ? 2 : 1;
        }
    }
    return site;
}

/* ---- finding files -------------------------------------------------------------------------------- */

/* The index of the header called `name`.  A new header takes over `text`.  SIZE_MAX: memory ran out. */
static size_t add_header(struct ptxpack_includes *in, const char *name, const char *text, size_t bytes,
                         bool packed)
{
    for (size_t i = 0; i < in->count; i++)
        if (in->headers[i].packed == packed && strcmp(in->headers[i].name, name) == 0)
            return i;
    struct ptxpack_header *more = (struct ptxpack_header *)realloc(in->headers, (in->count + 1) * sizeof *more);
    if (more == NULL)
        return SIZE_MAX;
    in->headers = more;
    more[in->count] = (struct ptxpack_header){strdup(name), (char *)calloc(1, bytes + 1), bytes, packed};
    struct ptxpack_header *h = &more[in->count];
    if (h->name == NULL || h->text == NULL) {
        free(h->name);
        free(h->text);
        return SIZE_MAX;
    }
    memcpy(h->text, text, bytes);
    return in->count++;
}

/* The same for a file.  NVRTC reads a text up to its first NUL byte only. */
static size_t add_file(struct ptxpack_includes *in, const struct ptxpack_file *f)
{
    char *line = NULL;
    if (memchr(f->text, '\0', f->bytes) == NULL)
        return add_header(in, f->path, f->text, f->bytes, false);
    int    bytes = asprintf(&line, "#error there is a NUL byte in %s\n", f->path);
    size_t index = bytes < 0 ? SIZE_MAX : add_header(in, f->path, line, (size_t)bytes, false);
    if (bytes >= 0)
        free(line);
    return index;
}

enum { MISSING = -1, NO_MEMORY = -2 };

/* Find the pack's "ptxpack/inline/NAME", in the folder of `from` or by its full name. */
static long find_packed(struct ptxpack_includes *in, struct ptxpack_text *t, const char *from, const char *name)
{
    static const char prefix[] = "ptxpack/";
    char              full[512];
    size_t            bytes = 0;
    const char       *slash = from != NULL ? strrchr(from, '/') : NULL;
    int               n = snprintf(full, sizeof full, "%.*s%s", slash != NULL ? (int)(slash - from + 1) : 0,
                     from != NULL ? from : "", name);
    if (n < 0 || (size_t)n >= sizeof full || strncmp(full, prefix, sizeof prefix - 1) != 0)
        return MISSING;
    const char *text = ptxpack_pack_read(&t->pack, full + sizeof prefix - 1, &bytes);
    size_t      at = text != NULL ? add_header(in, full, text, bytes, true) : 0;
    return text == NULL ? MISSING : at == SIZE_MAX ? NO_MEMORY : (long)at;
}

static long find(struct ptxpack_includes *in, struct ptxpack_text *t, size_t from, const struct site *site)
{
    char   name[4096];
    size_t bytes = (size_t)(site->end - site->begin) - 2;
    bool   quoted = *site->begin == '"', packed = in->headers[from].packed;
    if (bytes == 0 || bytes >= sizeof name)
        return MISSING;
    memcpy(name, site->begin + 1, bytes);
    name[bytes] = '\0';
    long at = packed && quoted ? find_packed(in, t, in->headers[from].name, name) : MISSING;
    if (at != MISSING)
        return at;
    const struct ptxpack_file *f = ptxpack_text_find(t, quoted && !packed ? in->headers[from].name : NULL,
                                                     name);
    if (f == NULL)
        return find_packed(in, t, NULL, name);
    size_t index = add_file(in, f);
    return index == SIZE_MAX ? NO_MEMORY : (long)index;
}

/* ---- a text with its directives rewritten --------------------------------------------------------- */

static bool rewrite(struct ptxpack_includes *in, struct ptxpack_text *t, size_t index)
{
    char          *text = NULL, *old = in->headers[index].text;
    size_t         bytes = 0;
    struct scanner s = {old, old + in->headers[index].bytes, true, false};
    const char    *copied = old;
    bool           good = true;
    FILE          *out = open_memstream(&text, &bytes);
    in->open |= strstr(old, "?\?=") != NULL || strstr(old, "?\?/") != NULL; /* # and backslash of C++14 */
    for (struct site site; out != NULL && good && (site = next_site(&s)).kind != NONE;) {
        long at = site.kind == OPEN ? MISSING : find(in, t, index, &site);
        bool writable = at >= 0 && strpbrk(in->headers[at].name, "\"\n") == NULL;
        in->itself |= at == 0;
        in->open |= site.kind == OPEN || (at >= 0 && !writable);
        good = at != NO_MEMORY;
        if (!writable || site.kind != INCLUDE)
            continue;
        fwrite(copied, 1, (size_t)(site.begin - copied), out);
        fprintf(out, "\"%s\"", in->headers[at].name);
        copied = site.end;
    }
    if (out == NULL)
        return false;
    fwrite(copied, 1, (size_t)(s.end - copied), out);
    good = !ferror(out) && good;
    if (fclose(out) != 0 || !good) {
        free(text);
        return false;
    }
    free(old);
    in->headers[index].text = text;
    in->headers[index].bytes = bytes;
    return true;
}

bool ptxpack_includes_gather(struct ptxpack_includes *in, struct ptxpack_text *t)
{
    memset(in, 0, sizeof *in);
    if (add_header(in, t->path, t->files->text, t->files->bytes, false) == SIZE_MAX)
        return false;
    for (size_t i = 0; i < in->count; i++) /* the count grows in the loop */
        if (!rewrite(in, t, i))
            return false;
    return !t->no_memory; /* otherwise NVRTC might find a file that the key does not contain */
}

void ptxpack_includes_free(struct ptxpack_includes *in)
{
    for (size_t i = 0; i < in->count; i++) {
        free(in->headers[i].name);
        free(in->headers[i].text);
    }
    free(in->headers);
    memset(in, 0, sizeof *in);
}
