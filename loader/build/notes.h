/* notes.h - what the cache keeps beside a program's machine code or PTX: its entries with their resources,
 * and the names that NVRTC gave to name expressions. */
#ifndef PTXPACK_NOTES_H
#define PTXPACK_NOTES_H
#include <stdbool.h>
#include <stddef.h>
#include "loader/loader.h"

struct ptxpack_entry {
    char             *name;
    ptxpack_resources resources; /* spills -1 where the compiler did not say */
};
struct ptxpack_notes {
    struct ptxpack_entry *entries; /* in the order of the text */
    size_t                entry_count;
    char                **names; /* of the expressions, in their order */
    size_t                name_count;
    int                   nvrtc;  /* the version that made it, 13000; 0: NVRTC did not */
    bool                  is_ptx; /* not machine code */
};
/* Zeroes it. */
void ptxpack_notes_free(struct ptxpack_notes *notes);

/* Add the entries of a PTX text, with their resources from the log of compiling it (NULL: no log).  False
 * when memory is out. */
bool ptxpack_notes_add_entries(struct ptxpack_notes *notes, const char *ptx, const char *log);
bool ptxpack_notes_add_name(struct ptxpack_notes *notes, const char *name);

/* Write as text for the cache (*text malloc'ed), and read it.  Reading is strict: false for any text that
 * writing does not produce; then *out is zero. */
bool ptxpack_notes_write(const struct ptxpack_notes *notes, char **text, size_t *bytes);
bool ptxpack_notes_read(const char *text, size_t bytes, struct ptxpack_notes *out);
/* Merge a text into the notes of a build: its entries replace the entries, and the names stay unless the
 * text is from a step of NVRTC.  False when the text is bad or memory is out. */
bool ptxpack_notes_merge(struct ptxpack_notes *notes, const char *text, size_t bytes);
bool ptxpack_notes_good(const char *text, size_t bytes);
#endif
