/* notes.c - a program's entries and names: found in PTX, written as text, and read. */
#include "notes.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "loader/compile/log.h"
#include "loader/compile/ptx_text.h"

enum { MAX_COUNT = 1 << 16 }; /* entries, or names */

void ptxpack_notes_free(struct ptxpack_notes *n)
{
    for (size_t i = 0; i < n->entry_count; i++)
        free(n->entries[i].name);
    for (size_t i = 0; i < n->name_count; i++)
        free(n->names[i]);
    free(n->entries);
    free(n->names);
    memset(n, 0, sizeof *n);
}

/* ---- the entries of a text ------------------------------------------------------------------------ */

static bool has_entry(const struct ptxpack_notes *n, const char *name, size_t bytes)
{
    for (size_t i = 0; i < n->entry_count; i++)
        if (strncmp(n->entries[i].name, name, bytes) == 0 && n->entries[i].name[bytes] == '\0')
            return true;
    return false;
}

static bool add_entry(struct ptxpack_notes *n, const char *name, size_t bytes, const ptxpack_resources *r)
{
    struct ptxpack_entry *more = (struct ptxpack_entry *)realloc(n->entries,
                                                                 (n->entry_count + 1) * sizeof *more);
    if (more == NULL)
        return false;
    n->entries = more;
    more[n->entry_count].name = strndup(name, bytes);
    more[n->entry_count].resources = *r;
    return more[n->entry_count].name != NULL && ++n->entry_count;
}

bool ptxpack_notes_add_entries(struct ptxpack_notes *n, const char *ptx, const char *log)
{
    size_t bytes = 0;
    for (const char *at = ptx; (at = ptxpack_ptx_entry(at, &bytes)); at += bytes) {
        ptxpack_resources unsaid = {.spill_store_bytes = -1, .spill_load_bytes = -1};
        if (has_entry(n, at, bytes)) /* it was declared before */
            continue;
        if (n->entry_count == MAX_COUNT || !add_entry(n, at, bytes, &unsaid))
            return false;
        struct ptxpack_entry *e = &n->entries[n->entry_count - 1];
        if (log != NULL && ptxpack_log_knows(log, e->name))
            ptxpack_log_resources(log, e->name, &e->resources);
    }
    return true;
}

bool ptxpack_notes_add_name(struct ptxpack_notes *n, const char *name)
{
    char **more = (char **)realloc(n->names, (n->name_count + 1) * sizeof *more);
    if (more == NULL)
        return false;
    n->names = more;
    more[n->name_count] = strdup(name);
    return more[n->name_count] != NULL && ++n->name_count;
}

/* ---- as text -------------------------------------------------------------------------------------- */

/* The lines of the text: ptxpack program 1; nvrtc N; output cubin or ptx; names N; entries N; then each name on
 * a line; then for each entry a line "BYTES NAME" and that many bytes of resources. */
#define HEAD     "ptxpack program 1\nnvrtc %d\noutput %7[a-z]\nnames %zu\nentries %zu\n"
#define HEAD_OUT "ptxpack program 1\nnvrtc %d\noutput %s\nnames %zu\nentries %zu\n"

static bool write_entry(FILE *out, const struct ptxpack_entry *e)
{
    char  *text = NULL;
    size_t bytes = 0;
    if (!ptxpack_resources_write(&e->resources, &text, &bytes))
        return false;
    fprintf(out, "%zu %s\n", bytes, e->name);
    fwrite(text, 1, bytes, out);
    free(text);
    return true;
}

bool ptxpack_notes_write(const struct ptxpack_notes *n, char **text, size_t *bytes)
{
    *text = NULL;
    *bytes = 0;
    FILE *out = open_memstream(text, bytes);
    if (out == NULL)
        return false;
    fprintf(out, HEAD_OUT, n->nvrtc, n->is_ptx ? "ptx" : "cubin", n->name_count, n->entry_count);
    for (size_t i = 0; i < n->name_count; i++)
        fprintf(out, "%s\n", n->names[i]);
    bool good = true;
    for (size_t i = 0; i < n->entry_count && good; i++)
        good = write_entry(out, &n->entries[i]);
    good = !ferror(out) && good;
    good = fclose(out) == 0 && good;
    if (!good) {
        free(*text);
        *text = NULL;
        *bytes = 0;
    }
    return good;
}

/* The line at *at without its end, as a new string; *at moves to the next line.  NULL when there is none. */
static char *take_line(const char **at, const char *end)
{
    const char *stop = (const char *)memchr(*at, '\n', (size_t)(end - *at));
    char       *line = stop != NULL ? strndup(*at, (size_t)(stop - *at)) : NULL;
    if (line != NULL)
        *at = stop + 1;
    return line;
}

static bool read_entry(const char **at, const char *end, struct ptxpack_notes *n)
{
    ptxpack_resources r;
    char             *line = take_line(at, end), *name = NULL;
    size_t            bytes = line != NULL ? strtoul(line, &name, 10) : 0;
    bool              good = name != NULL && *name == ' ' && name[1] && bytes <= (size_t)(end - *at) &&
                ptxpack_resources_read(*at, bytes, &r) && add_entry(n, name + 1, strlen(name + 1), &r);
    *at += good ? bytes : 0;
    free(line);
    return good;
}

static bool read_all(const char *text, const char *end, struct ptxpack_notes *n)
{
    char   output[8];
    size_t names = 0, entries = 0;
    if (sscanf(text, HEAD, &n->nvrtc, output, &names, &entries) != 4 || names > MAX_COUNT ||
        entries > MAX_COUNT)
        return false;
    n->is_ptx = strcmp(output, "ptx") == 0;
    const char *at = text;
    for (int i = 0; i < 5; i++) /* the head */
        if ((at = (const char *)memchr(at, '\n', (size_t)(end - at))) == NULL || ++at > end)
            return false;
    for (size_t i = 0; i < names; i++) {
        char *line = take_line(&at, end);
        bool  good = line != NULL && ptxpack_notes_add_name(n, line);
        free(line);
        if (!good)
            return false;
    }
    for (size_t i = 0; i < entries; i++)
        if (!read_entry(&at, end, n))
            return false;
    return at == end;
}

bool ptxpack_notes_read(const char *text, size_t bytes, struct ptxpack_notes *out)
{
    char  *copy = NULL, *again = NULL;
    size_t again_bytes = 0;
    memset(out, 0, sizeof *out);
    if (memchr(text, '\0', bytes) != NULL || (copy = strndup(text, bytes)) == NULL)
        return false;
    bool good = read_all(copy, copy + bytes, out);
    /* Writing what was read must give the same text: no other spelling is accepted. */
    good = good && ptxpack_notes_write(out, &again, &again_bytes) && again_bytes == bytes &&
           memcmp(again, text, bytes) == 0;
    free(copy);
    free(again);
    if (!good)
        ptxpack_notes_free(out);
    return good;
}

bool ptxpack_notes_good(const char *text, size_t bytes)
{
    struct ptxpack_notes notes;
    bool                 good = ptxpack_notes_read(text, bytes, &notes);
    ptxpack_notes_free(&notes);
    return good;
}

bool ptxpack_notes_merge(struct ptxpack_notes *notes, const char *text, size_t bytes)
{
    struct ptxpack_notes read, old = *notes;
    if (!ptxpack_notes_read(text, bytes, &read))
        return false;
    *notes = read;
    if (!read.nvrtc) { /* the names are from NVRTC's step, which came before */
        notes->names = old.names;
        notes->name_count = old.name_count;
        notes->nvrtc = old.nvrtc;
        old.names = read.names;
        old.name_count = read.name_count;
    }
    ptxpack_notes_free(&old);
    return true;
}
