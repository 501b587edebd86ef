/* program_source.h - the source of a program: checked, read, and the files that it includes. */
#ifndef PTXPACK_PROGRAM_SOURCE_H
#define PTXPACK_PROGRAM_SOURCE_H
#include "loader/internal.h"
#include "loader/pack/pack.h"
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
    ptxpack_source       source; /* all fields; those beyond the caller's size are zero */
    const char          *path;   /* for messages */
    struct ptxpack_file *files;  /* the source, then the included files in the order of their inclusion */
    struct ptxpack_pack  pack;
    bool                *used;      /* for each symbol: it stands in what was read; NULL: nobody asks */
    bool                 no_memory; /* files may be missing because memory was out */
    int                  error;     /* why a file that was sought cannot be read, though it is there; 0: none */
};

/* Check the fields and read the source.  Call ptxpack_text_end, also after a failure.
 *   PTXPACK_E_ARG, _E_IO, _E_MEMORY */
ptxpack_status ptxpack_text_begin(struct ptxpack_text *t, ptxpack *handle, const ptxpack_source *source);
void           ptxpack_text_end(struct ptxpack_text *t);

/* Find the file `name` in the folder of the file `from` (NULL: do not look there), or else in the include
 * folders.  NULL: there is no such file, or memory ran out. */
const struct ptxpack_file *ptxpack_text_find(struct ptxpack_text *t, const char *from, const char *name);
/* A ptxpack_reader, whose context is the struct ptxpack_text.  It finds the source itself by its path, and
 * other files in the source's folder, in the include folders, or in the pack. */
const char *ptxpack_text_read(void *context, const char *path, size_t *bytes);
/* Note in t->used which symbols of the source stand in a text. */
void ptxpack_text_note(struct ptxpack_text *t, const char *text);
/* A ptxpack_locator: the path where ptxpack_text_read found the file; for the pack "ptx/PATH". */
const char *ptxpack_text_locate(void *context, const char *path, char *buf, size_t cap);
/* Expand PTX with these symbols.  *out may be NULL; the codes of ptxpack_expand, with the handle's line. */
ptxpack_status ptxpack_text_expand(struct ptxpack_text *t, const ptxpack_symbol *symbols, size_t count,
                                   ptxpack_expansion **out);
#endif
