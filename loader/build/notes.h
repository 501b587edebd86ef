/* notes.h - what the cache keeps beside a program's machine code or PTX: its entries with their resources,
 * and the names that NVRTC gave to name expressions. */
#ifndef PTXPACK_NOTES_H
#define PTXPACK_NOTES_H
#include <stdbool.h>
#include <stddef.h>
#include "loader/loader.h"

struct ptxpack_entry {
    char             *name;
    ptxpack_resources resources; /* the spills are -1 if the compiler did not report them */
};
struct ptxpack_notes {
    struct ptxpack_entry *entries; /* in the order of the text */
    size_t                entry_count;
    char                **names; /* the lowered names of the expressions, in their order */
    size_t                name_count;
    int                   nvrtc;  /* the version of the NVRTC that made it, 13000; 0: NVRTC did not make it */
    bool                  is_ptx; /* PTX, not machine code */
};
/* Free what the notes hold, and zero them. */
void ptxpack_notes_free(struct ptxpack_notes *notes);

/* Add the entries of a PTX text, with their resources from the log of its compilation (NULL: no log).  False:
 * memory ran out. */
bool ptxpack_notes_add_entries(struct ptxpack_notes *notes, const char *ptx, const char *log);
bool ptxpack_notes_add_name(struct ptxpack_notes *notes, const char *name);

/* Write the notes as text for the cache (*text is malloc'ed), and read them again.  Reading is strict: it
 * returns false, with *out zero, for every text that writing does not produce. */
bool ptxpack_notes_write(const struct ptxpack_notes *notes, char **text, size_t *bytes);
bool ptxpack_notes_read(const char *text, size_t bytes, struct ptxpack_notes *out);
/* Merge a text into the notes of a build.  Its entries replace the entries; its names replace the names only if
 * the text is from a step of NVRTC.  False: the text is bad, or memory ran out. */
bool ptxpack_notes_merge(struct ptxpack_notes *notes, const char *text, size_t bytes);
bool ptxpack_notes_good(const char *text, size_t bytes);
#endif
