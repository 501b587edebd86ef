/* program_source.h - the source of a program: checked, read, and the files that it includes. */
#ifndef PTXPACK_PROGRAM_SOURCE_H
#define PTXPACK_PROGRAM_SOURCE_H
#include "loader/internal.h"
#include "loader/pack.h"
#include "program.h"

/* A file, read once. */
struct ptxpack_file {
    char                *path; /* as found: folder, slash, name */
    char                *real; /* absolute, without links; NULL: a text that the caller gave */
    char                *text; /* followed by a NUL byte */
    size_t               bytes;
    struct ptxpack_file *next;
};

struct ptxpack_text {
    ptxpack             *handle;
    ptxpack_source       source; /* all fields, whatever size the caller set */
    const char          *path;   /* in messages */
    struct ptxpack_file *files;  /* the source first, then what was included, in order */
    struct ptxpack_pack  pack;
    bool                 no_memory; /* files may be missing because memory was out */
};

/* Check the fields and read the source.  End it, also after a failure.
 *   PTXPACK_E_ARG, _E_IO, _E_MEMORY */
ptxpack_status ptxpack_text_begin(struct ptxpack_text *t, ptxpack *handle, const ptxpack_source *source);
void           ptxpack_text_end(struct ptxpack_text *t);

/* The file `name` beside the file `from` (NULL: do not look there), otherwise in the include folders; NULL
 * when there is none or memory is out. */
const struct ptxpack_file *ptxpack_text_find(struct ptxpack_text *t, const char *from, const char *name);
/* A ptxpack_reader; the context is the struct ptxpack_text.  It looks at the source's own path, beside the
 * source, in the include folders, and in the pack. */
const char *ptxpack_text_read(void *context, const char *path, size_t *bytes);
/* A ptxpack_locator: the path where ptxpack_text_read found the file; for the pack "ptx/PATH". */
const char *ptxpack_text_locate(void *context, const char *path, char *buf, size_t cap);
#endif
