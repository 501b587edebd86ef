/* ptx_text.c - finding directives in PTX, outside of comments and strings, and words in any text. */
#include "ptx_text.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool in_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
           c == '%';
}

static const char *skip_string(const char *at)
{
    for (at++; *at && *at != '"' && *at != '\n'; at++)
        at += *at == '\\' && at[1];
    return *at ? at + 1 : at;
}

/* The position after the comment or string at `at`; `at` itself when there is none. */
static const char *skip_quoted(const char *at)
{
    if (*at == '"')
        return skip_string(at);
    if (at[0] == '/' && at[1] == '/')
        return at + strcspn(at, "\n");
    if (at[0] != '/' || at[1] != '*')
        return at;
    const char *end = strstr(at + 2, "*/");
    return end != NULL ? end + 2 : at + strlen(at);
}

/* The text after the next `directive` and blanks; NULL at the end. */
static const char *after(const char *at, const char *directive)
{
    size_t bytes = strlen(directive);
    while (*at) {
        const char *past = skip_quoted(at);
        if (past != at) {
            at = past;
        } else if (*at == '.' && strncmp(at, directive, bytes) == 0 && !in_name(at[bytes])) {
            at += bytes;
            return at + strspn(at, " \t\r\n");
        } else {
            at++;
        }
    }
    return NULL;
}

int ptxpack_ptx_isa(const char *text)
{
    const char *at = after(text, ".version");
    int         major = 0, minor = 0;
    return at != NULL && sscanf(at, "%2d.%1d", &major, &minor) == 2 && major > 0 && minor >= 0
               ? 10 * major + minor
               : 0;
}

bool ptxpack_ptx_target(const char *text, char *buf, size_t cap)
{
    const char *at = after(text, ".target");
    size_t      bytes = 0;
    while (at != NULL && in_name(at[bytes]))
        bytes++;
    if (!bytes || bytes >= cap)
        return false;
    memcpy(buf, at, bytes);
    buf[bytes] = '\0';
    return true;
}

const char *ptxpack_ptx_entry(const char *at, size_t *bytes)
{
    *bytes = 0;
    while ((at = after(at, ".entry")) != NULL && !in_name(*at))
        ;
    while (at != NULL && in_name(at[*bytes]))
        ++*bytes;
    return at;
}

/* ---- lines ---------------------------------------------------------------------------------------- */

/* The operands of the directive at the start of the line at `at`; NULL when the line has another one or
 * none. */
static const char *line_directive(const char *at, const char *directive)
{
    size_t bytes = strlen(directive);
    at += strspn(at, " \t");
    return strncmp(at, directive, bytes) == 0 && (at[bytes] == ' ' || at[bytes] == '\t') ? at + bytes : NULL;
}

static const char *next_line(const char *at)
{
    at += strcspn(at, "\n");
    return *at ? at + 1 : NULL;
}

/* The .loc that applies to the line with this number; NULL if there is none before it in its function. */
static const char *loc_of(const char *text, size_t line)
{
    const char *loc = NULL;
    for (const char *at = text; at != NULL && line; at = next_line(at), line--) {
        const char *operands = line_directive(at, ".loc");
        if (operands != NULL)
            loc = operands;
        else if (*at == '}' || strncmp(at, ".visible", 8) == 0 || strncmp(at, ".func", 5) == 0)
            loc = NULL;
    }
    return loc;
}

/* "FILE:LINE" for the numbers at `at`. */
static bool write_place(const char *text, const char *at, char *buf, size_t cap)
{
    unsigned long file = 0, line = 0, number = 0;
    int           name = 0;
    if (at == NULL || sscanf(at, "%lu %lu", &file, &line) != 2)
        return false;
    for (const char *l = text; l != NULL; l = next_line(l)) {
        const char *operands = line_directive(l, ".file");
        if (operands == NULL || sscanf(operands, "%lu \"%n", &number, &name) != 1 || number != file)
            continue;
        snprintf(buf, cap, "%.*s:%lu", (int)strcspn(operands + name, "\"\n"), operands + name, line);
        return true;
    }
    return false;
}

const char *ptxpack_ptx_origin(const void *context, size_t line, char *buf, size_t cap)
{
    const char *text = (const char *)context, *loc = loc_of(text, line);
    const char *end = loc != NULL ? loc + strcspn(loc, "\n") : NULL,
               *caller = loc != NULL ? strstr(loc, "inlined_at ") : NULL;
    char inner[256];
    if (cap)
        *buf = '\0';
    if (loc == NULL || !write_place(text, loc, buf, cap) || caller == NULL || caller > end)
        return buf;
    snprintf(inner, sizeof inner, "%s", buf);
    if (!write_place(text, caller + strlen("inlined_at "), buf, cap))
        return buf;
    size_t have = strlen(buf);
    snprintf(buf + have, cap - have, " (in %s)", inner);
    return buf;
}

void ptxpack_ptx_strip_folder(char *text)
{
    char folder[4096];
    if (getcwd(folder, sizeof folder - 1) == NULL || strcmp(folder, "/") == 0)
        return;
    size_t bytes = strlen(folder);
    folder[bytes++] = '/';
    char *to = text;
    for (const char *at = text; *at;) {
        const char *operands = line_directive(at, ".file"), *next = next_line(at);
        const char *end = next != NULL ? next : at + strlen(at),
                   *name = operands != NULL ? strchr(operands, '"') : NULL;
        if (name != NULL && name < end && strncmp(name + 1, folder, bytes) == 0) {
            memmove(to, at, (size_t)(name + 1 - at));
            to += name + 1 - at;
            at = name + 1 + bytes;
        }
        memmove(to, at, (size_t)(end - at));
        to += end - at;
        at = end;
    }
    *to = '\0';
}

/* ---- words of a text ------------------------------------------------------------------------------- */

static bool in_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Behind the comment that starts here; NULL when none does. */
static const char *after_comment(const char *at)
{
    if (at[0] != '/' || (at[1] != '/' && at[1] != '*'))
        return NULL;
    const char *end = at[1] == '/' ? strchr(at, '\n') : strstr(at + 2, "*/");
    return end == NULL ? at + strlen(at) : end + (at[1] == '/' ? 1 : 2);
}

bool ptxpack_text_uses(const char *text, const char *word)
{
    size_t bytes = strlen(word);
    for (const char *at = text, *next; *at != '\0'; at = next) {
        next = after_comment(at);
        if (next != NULL)
            continue;
        for (next = at; in_word(*next);)
            next++;
        if (next == at)
            next++;
        else if ((size_t)(next - at) == bytes && memcmp(at, word, bytes) == 0)
            return true;
    }
    return false;
}
