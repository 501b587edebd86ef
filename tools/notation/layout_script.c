/* layout_script.c - several statements in one text. */
#include <string.h>

#include "layout_calls.h"
#include "layout_script.h"

static void blank(char *text, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++)
        text[i] = text[i] == '\n' ? '\n' : ' ';
}

void script_blank_comments(char *text, size_t bytes, bool *inside)
{
    bool quoted = false;
    for (size_t i = 0; i < bytes; i++) {
        if (!*inside && text[i] == '"' && (i == 0 || text[i - 1] != '\\'))
            quoted = !quoted;
        if (quoted)
            continue;
        bool   two = i + 1 < bytes && text[i] == '/' && !*inside;
        size_t begin = i;
        if ((two && text[i + 1] == '/') || (text[i] == '#' && !*inside)) {
            while (i < bytes && text[i] != '\n')
                i++;
            blank(text, begin, i);
        } else if (*inside || (two && text[i + 1] == '*')) {
            for (i += *inside ? 0 : 2, *inside = true; i < bytes && *inside; i++)
                if (text[i] == '*' && i + 1 < bytes && text[i + 1] == '/') {
                    i++;
                    *inside = false;
                }
            blank(text, begin, i);
            i--;
        }
    }
}

/* How many brackets are open after this byte.  The '<' of a type counts as well: there are no comparisons. */
static int deeper(int depth, char c)
{
    if (strchr("([{<", c) != NULL && c != '\0')
        return depth + 1;
    return strchr(")]}>", c) != NULL && c != '\0' && depth > 0 ? depth - 1 : depth;
}

/* Is this the ',' between two variables of one declaration, int M = 4, K = 8? */
static bool declares_another(const char *text, size_t at, size_t bytes)
{
    const char *name;
    size_t      name_bytes, end = at + 1;
    if (text[at] != ',')
        return false;
    while (end < bytes && strchr(",;\n([{<", text[end]) == NULL)
        end++;
    return statement_name(text, at + 1, end, &name, &name_bytes) > 0;
}

/* Past blanks, separators, and statements that declare nothing here. */
static size_t skip_nothing(const char *text, size_t bytes, size_t at)
{
    static const char uses[] = "using namespace ";
    for (;;) {
        while (at < bytes && ((strchr("; \t\r\n\v\f", text[at]) != NULL && text[at] != '\0') ||
                              declares_another(text, at, bytes)))
            at++;
        if (bytes - at < sizeof uses || memcmp(text + at, uses, sizeof uses - 1) != 0)
            return at;
        while (at < bytes && text[at] != ';' && text[at] != '\n')
            at++;
    }
}

/* Does the value of an assignment stand on the next line? */
static bool ends_in_equals(const char *text, size_t begin, size_t end)
{
    while (end > begin && strchr(" \t\r", text[end - 1]) != NULL)
        end--;
    return end > begin && text[end - 1] == '=';
}

bool script_next(const char *text, size_t bytes, size_t *at, size_t *end)
{
    int  depth = 0;
    bool quoted = false;
    *at = skip_nothing(text, bytes, *at);
    for (*end = *at; *end < bytes; ++*end) {
        char c = text[*end];
        quoted = quoted != (c == '"' && text[*end - (*end > 0)] != '\\');
        bool line = c == '\n' && !ends_in_equals(text, *at, *end);
        if (!quoted && (c == ';' || (depth == 0 && (line || declares_another(text, *end, bytes)))))
            break;
        depth = quoted ? depth : deeper(depth, c);
    }
    return *at < bytes;
}

bool script_goes_on(const char *text, size_t bytes)
{
    const char *name;
    size_t      name_bytes, at = 0, end = 0, begin = 0;
    int         depth = 0;
    while (script_next(text, bytes, &at, &end)) {
        begin = at;
        at = end;
    }
    if (end == bytes && ends_in_equals(text, begin, bytes))
        return true;
    if (end != bytes || statement_name(text, begin, bytes, &name, &name_bytes) == 0)
        return false;
    for (size_t i = begin; i < bytes; i++)
        depth = deeper(depth, text[i]);
    return depth > 0;
}
