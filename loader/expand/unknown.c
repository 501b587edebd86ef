/* unknown.c - words that are neither macros nor instructions, and the macros whose names are near. */
#include "unknown.h"
#include <ctype.h>
#include <stdio.h>
#include "internal.h"

enum { NAME = 64, NEAR = 3 }; /* longer names are not compared; that many are named */

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Letters that must be changed, added, left out, or exchanged with the next one; case does not matter. */
static size_t distance(span a, span b)
{
    size_t row[3][NAME + 1];
    for (size_t i = 0; i <= b.size; i++)
        row[0][i] = i;
    for (size_t i = 1; i <= a.size; i++) {
        size_t *now = row[i % 3], *before = row[(i - 1) % 3], *last = row[(i + 1) % 3];
        now[0] = i;
        for (size_t k = 1; k <= b.size; k++) {
            int x = tolower((unsigned char)a.data[i - 1]), y = tolower((unsigned char)b.data[k - 1]);
            now[k] = least(least(before[k], now[k - 1]) + 1, before[k - 1] + (x != y));
            if (i > 1 && k > 1 && x == tolower((unsigned char)b.data[k - 2]) &&
                y == tolower((unsigned char)a.data[i - 2]))
                now[k] = least(now[k], last[k - 2] + 1);
        }
    }
    return row[a.size % 3][b.size];
}

/* "; near: A, B": the macros at the least distance, if that is at most a third of the word. */
static void write_near(const ptxpack_expansion *e, span word, char *buf, size_t cap)
{
    size_t best = word.size < 6 ? 1 : word.size / 3, found = 0, used = 0;
    buf[0] = '\0';
    if (word.size > NAME)
        return;
    for (uint32_t i = 0; i < e->macro_text_cap && e->macro_texts[i] != NULL; i++) {
        span   name = span_of(e->macro_texts[i], strlen(e->macro_texts[i]));
        size_t far = name.size > NAME ? best + 1 : distance(word, name);
        if (far > best || far == 0)
            continue;
        if (far < best)
            found = used = 0;
        best = far;
        if (found++ < NEAR && used < cap)
            used += (size_t)snprintf(buf + used, cap - used, "%s%s", used ? ", " : "; near: ", name.data);
    }
}

static bool starts_word(char c) { return isalpha((unsigned char)c) || c == '_'; }
static bool continues_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* The word that a line begins with, behind "@%p" and "@!%p"; empty if it begins otherwise. */
static span first_word(const char *line)
{
    size_t bytes = 0;
    line += strspn(line, " \t");
    if (*line == '@') {
        line += strcspn(line, " \t\n");
        line += strspn(line, " \t");
    }
    while (starts_word(line[0]) && continues_word(line[bytes]))
        bytes++;
    return span_of(line, bytes);
}

/* A statement's name is followed by operands or by its end; a label, a list and a declaration's name are not. */
static bool is_unknown(span word)
{
    bool        odd = false;
    const char *next = word.data + word.size;
    for (size_t i = 0; i < word.size; i++)
        odd |= isupper((unsigned char)word.data[i]) || word.data[i] == '_';
    bool blank = *next == ' ' || *next == '\t';
    next += strspn(next, " \t");
    return odd &&
           (*next == '\0' || *next == '\n' || *next == ';' || (blank && strchr(":,=)}(+-", *next) == NULL));
}

/* The last character of a line that is no blank; '\n' for an empty one. */
static char last_of(const char *line, size_t bytes)
{
    while (bytes > 0 && (line[bytes - 1] == ' ' || line[bytes - 1] == '\t'))
        bytes--;
    return bytes > 0 ? line[bytes - 1] : '\n';
}

/* Directives that end with their line. */
static bool is_header(const char *line)
{
    static const char *const headers[] = {".version", ".target", ".address_size", ".file", ".loc"};
    bool                     found = false;
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        found |= strncmp(line, headers[i], strlen(headers[i])) == 0;
    return found;
}

size_t ptxpack_expansion_unknown(const ptxpack_expansion *e, size_t line, char *buf, size_t cap)
{
    char   near_ones[3 * NAME + 32];
    size_t number = 0, bytes;
    bool   boundary = true; /* a statement may begin: the line before has ended one, or was unknown itself */
    const char *all = ptxpack_expansion_text(e, &bytes);
    for (const char *at = all; at != NULL && *at != '\0'; at += bytes + (at[bytes] == '\n')) {
        bytes = strcspn(at, "\n");
        span word = first_word(at);
        bool unknown = boundary && is_unknown(word);
        number++;
        if (unknown && number > line) {
            write_near(e, word, near_ones, sizeof near_ones);
            snprintf(buf, cap, "no macro or instruction %.*s%s", (int)word.size, word.data, near_ones);
            return number;
        }
        boundary = unknown || strchr(";{}:\n", last_of(at, bytes)) != NULL || is_header(at + strspn(at, " \t"));
    }
    return 0;
}
