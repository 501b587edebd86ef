/* manifest.c - reading and writing the text of a manifest, and its list of entries. */
#include "manifest.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char first_line[] = "ptxpack-manifest 1\n", sum_word[] = "sha256 ";
enum { SUM_LINE = sizeof sum_word - 1 + PTXPACK_SHA256_HEX + 1 }; /* bytes of the last line */

/* ---- the list ----------------------------------------------------------------------------------- */

void ptxpack_manifest_free(ptxpack_manifest *m)
{
    free(m->entries);
    memset(m, 0, sizeof *m);
}

/* The index of `name`, or where it would be inserted. */
static size_t place_of(const ptxpack_manifest *m, const char *name, bool *there)
{
    size_t low = 0, high = m->count;
    *there = false;
    while (low < high && !*there) {
        size_t middle = low + (high - low) / 2;
        int    order = strcmp(m->entries[middle].name, name);
        *there = order == 0;
        if (order == 0)
            low = middle;
        else if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const ptxpack_manifest_entry *ptxpack_manifest_find(const ptxpack_manifest *m, const char *name)
{
    bool   there;
    size_t at = place_of(m, name, &there);
    return there ? &m->entries[at] : NULL;
}

void ptxpack_manifest_remove(ptxpack_manifest *m, const char *name)
{
    bool   there;
    size_t at = place_of(m, name, &there);
    if (there)
        memmove(&m->entries[at], &m->entries[at + 1], (--m->count - at) * sizeof *m->entries);
}

static bool may_stand(char c) { return (unsigned char)c >= 0x20 && c != 0x7f; }

bool ptxpack_manifest_add(ptxpack_manifest *m, const ptxpack_manifest_entry *entry)
{
    bool   there;
    size_t at = place_of(m, entry->name, &there);
    if (!there && m->count == m->capacity) {
        size_t                  capacity = m->capacity ? 2 * m->capacity : 64;
        ptxpack_manifest_entry *larger = (ptxpack_manifest_entry *)realloc(m->entries,
                                                                           capacity * sizeof *larger);
        if (larger == NULL)
            return false;
        m->entries = larger;
        m->capacity = capacity;
    }
    if (!there)
        memmove(&m->entries[at + 1], &m->entries[at], (m->count++ - at) * sizeof *m->entries);
    m->entries[at] = *entry;
    for (char *c = m->entries[at].label; *c; c++)
        *c = may_stand(*c) ? *c : '?';
    return true;
}

/* ---- writing ------------------------------------------------------------------------------------ */

static void put_entry(FILE *out, const ptxpack_manifest_entry *e)
{
    char hex[PTXPACK_SHA256_HEX + 1];
    ptxpack_sha256_hex(e->sha256, hex);
    fprintf(out, "entry %s %" PRIu64 " %s.entry %s\n", hex, e->bytes, e->name, e->label);
}

/* All but the last line. */
static char *write_lines(const ptxpack_manifest *m, size_t *bytes)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, bytes);
    if (out == NULL)
        return NULL;
    fprintf(out, "%slibrary %s\n", first_line, m->library);
    for (size_t i = 0; i < m->count; i++)
        put_entry(out, &m->entries[i]);
    bool failed = ferror(out) != 0;
    if (fclose(out) == 0 && !failed)
        return text;
    free(text);
    return NULL;
}

char *ptxpack_manifest_text(const ptxpack_manifest *m, size_t *bytes)
{
    uint8_t digest[PTXPACK_SHA256_BYTES];
    char    hex[PTXPACK_SHA256_HEX + 1], *text = write_lines(m, bytes);
    char   *whole = text != NULL && *bytes <= PTXPACK_MANIFEST_CAP - SUM_LINE
                        ? (char *)realloc(text, *bytes + SUM_LINE + 1)
                        : NULL;
    if (whole == NULL) {
        free(text);
        return NULL;
    }
    ptxpack_sha256(whole, *bytes, digest);
    ptxpack_sha256_hex(digest, hex);
    snprintf(whole + *bytes, SUM_LINE + 1, "%s%s\n", sum_word, hex);
    *bytes += SUM_LINE;
    return whole;
}

/* ---- reading ------------------------------------------------------------------------------------ */

/* Read "entry SHA BYTES NAME.entry LABEL" without the end of the line.  Returns NULL, or what is wrong. */
static const char *read_entry(const char *at, ptxpack_manifest_entry *e)
{
    static const char word[] = "entry ", suffix[] = ".entry ";
    int               used = 0;
    memset(e, 0, sizeof *e);
    if (strncmp(at, word, sizeof word - 1) != 0)
        return "this is neither an entry nor the sum of the lines";
    at += sizeof word - 1;
    if (!ptxpack_sha256_parse(at, e->sha256) || at[PTXPACK_SHA256_HEX] != ' ')
        return "there is no SHA-256";
    at += PTXPACK_SHA256_HEX + 1;
    if (sscanf(at, "%20" SCNu64 "%n", &e->bytes, &used) != 1 || at[used] != ' ' || e->bytes == 0)
        return "there is no size";
    at += used + 1;
    if (strspn(at, "0123456789abcdef") != PTXPACK_CACHE_HEX ||
        strncmp(at + PTXPACK_CACHE_HEX, suffix, sizeof suffix - 1) != 0)
        return "there is no name of an entry";
    memcpy(e->name, at, PTXPACK_CACHE_HEX);
    at += PTXPACK_CACHE_HEX + sizeof suffix - 1;
    if (strlen(at) >= sizeof e->label)
        return "the label is too long";
    memcpy(e->label, at, strlen(at));
    return NULL;
}

/* Read the lines between the first and the last, and cut the text at line ends.  Returns NULL, or what is
 * wrong. */
static const char *read_lines(char *at, ptxpack_manifest *m, size_t *number)
{
    static const char library[] = "library ";
    for (*number = 2; *at; ++*number) {
        char *end = strchr(at, '\n');
        if (end == NULL)
            return "its end is missing";
        *end = '\0';
        ptxpack_manifest_entry e;
        const char            *wrong = NULL;
        if (*number == 2 && (strncmp(at, library, sizeof library - 1) != 0 ||
                             strlen(at + sizeof library - 1) >= sizeof m->library))
            return "there is no version of the library";
        if (*number == 2)
            memcpy(m->library, at + sizeof library - 1, strlen(at + sizeof library - 1));
        else if ((wrong = read_entry(at, &e)) != NULL)
            return wrong;
        else if (m->count && strcmp(m->entries[m->count - 1].name, e.name) >= 0)
            return "the lines are not in the order of the names";
        else if (!ptxpack_manifest_add(m, &e))
            return "out of memory";
        at = end + 1;
    }
    return *number == 2 ? "there is no version of the library" : NULL;
}

/* Compute in one pass the SHA-256 of all lines but the last, which holds that sum, and of the whole text. */
static const char *read_sum(const char *text, size_t body, uint8_t whole[PTXPACK_SHA256_BYTES])
{
    uint8_t              want[PTXPACK_SHA256_BYTES], have[PTXPACK_SHA256_BYTES];
    ptxpack_sha256_state state, lines;
    const char          *last = text + body;
    if ((body && last[-1] != '\n') || strncmp(last, sum_word, sizeof sum_word - 1) != 0 ||
        !ptxpack_sha256_parse(last + sizeof sum_word - 1, want) || last[SUM_LINE - 1] != '\n')
        return "the last line is not the SHA-256 of the others: it is cut off";
    ptxpack_sha256_begin(&state);
    ptxpack_sha256_add(&state, text, body);
    lines = state;
    ptxpack_sha256_end(&lines, have);
    ptxpack_sha256_add(&state, last, SUM_LINE);
    ptxpack_sha256_end(&state, whole);
    return memcmp(want, have, sizeof want) == 0 ? NULL : "its lines do not have the SHA-256 of the last one";
}

/* Whether writing the manifest gives the same lines: no other spelling is accepted. */
static bool says_the_same(const ptxpack_manifest *m, const char *text, size_t body)
{
    size_t again_bytes = 0;
    char  *again = write_lines(m, &again_bytes);
    bool   same = again != NULL && again_bytes == body && memcmp(again, text, body) == 0;
    free(again);
    return same;
}

bool ptxpack_manifest_read(const char *text, size_t bytes, ptxpack_manifest *out, char line[PTXPACK_CACHE_LINE])
{
    const char *wrong = NULL;
    size_t      number = 1, body = bytes >= SUM_LINE ? bytes - SUM_LINE : 0;
    char       *copy = NULL;
    memset(out, 0, sizeof *out);
    if (bytes > PTXPACK_MANIFEST_CAP)
        wrong = "the manifest is larger than 16 MiB";
    else if (bytes < sizeof first_line - 1 || memcmp(text, first_line, sizeof first_line - 1) != 0)
        wrong = "it does not begin with \"ptxpack-manifest 1\"";
    else if (bytes < SUM_LINE + sizeof first_line - 1)
        wrong = "it is cut off";
    else if (memchr(text, '\0', bytes) != NULL)
        wrong = "it contains a NUL byte";
    else if ((copy = strndup(text, body)) == NULL)
        wrong = "out of memory";
    else if ((wrong = read_lines(copy + sizeof first_line - 1, out, &number)) == NULL &&
             ((wrong = read_sum(text, body, out->sha256)) == NULL) && !says_the_same(out, text, body))
        wrong = "it is not spelled as this library spells it";
    free(copy);
    if (wrong == NULL)
        return true;
    snprintf(line, PTXPACK_CACHE_LINE, "line %zu: %s", number, wrong);
    ptxpack_manifest_free(out);
    return false;
}
