/* expand_fixture.h - texts in memory for the tests of the macro expander. */
#ifndef PTXPACK_EXPAND_FIXTURE_H
#define PTXPACK_EXPAND_FIXTURE_H
#include <string.h>
#include "loader/expand/expand.h"

typedef struct fixture_file {
    const char *path, *text;
} fixture_file;

typedef struct fixture {
    fixture_file   files[4]; /* ends with a NULL path; the first is expanded */
    ptxpack_symbol symbols[4];
    bool           line_info;
    uint32_t       max_depth, max_ms;
    size_t         max_output, bytes; /* bytes of files[0], when it holds NULs */
} fixture;

static inline const char *fixture_read(void *context, const char *path, size_t *bytes)
{
    const fixture *f = (const fixture *)context;
    for (int i = 0; i < 4 && f->files[i].path != NULL; i++)
        if (strcmp(f->files[i].path, path) == 0) {
            *bytes = i == 0 && f->bytes ? f->bytes : strlen(f->files[i].text);
            return f->files[i].text;
        }
    return NULL;
}

static inline ptxpack_status fixture_expand(fixture *f, ptxpack_expansion **out)
{
    ptxpack_expand_options options = {
        .size = sizeof options,
        .symbols = f->symbols,
        .read = fixture_read,
        .context = f,
        .line_info = f->line_info,
        .max_depth = f->max_depth,
        .max_output = f->max_output,
        .max_ms = f->max_ms,
    };
    while (options.symbol_count < 4 && f->symbols[options.symbol_count].name != NULL)
        options.symbol_count++;
    return ptxpack_expand(f->files[0].path, &options, out);
}

/* One text, named "t". */
static inline ptxpack_status fixture_text(const char *text, ptxpack_expansion **out)
{
    fixture f = {.files = {{"t", text}}};
    return fixture_expand(&f, out);
}
#endif
