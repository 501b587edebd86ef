/* inline_source.h - reads the headers of ptx/inline after the preprocessor: functions and their asm.
 *
 * A statement of asm is rendered as PTX text with each operand's C++ expression in its place, without C++'s
 * brackets and casts, stripped: "ldmatrix.sync.aligned.m8n8.x2.shared.b16{d0,d1},[shared];". */
#ifndef PTXPACK_INLINE_SOURCE_H
#define PTXPACK_INLINE_SOURCE_H
#include <stdbool.h>
#include <stddef.h>

typedef struct inline_function {
    const char *name;
    char       *text;           /* of all its asm statements, rendered, one after the other */
    int         operands, used; /* operands of these statements, and how many of them the text names */
} inline_function;

typedef struct inline_source {
    char            *file;      /* its text */
    inline_function *functions; /* in the order of the file; overloads are neighbours */
    size_t           count;
    char             error[256]; /* why it could not be read, or "" */
} inline_source;

/* Reads a file that `cc -E` made of the headers.  Free `s` also after an error. */
void inline_source_read(inline_source *s, const char *path);
void inline_source_free(inline_source *s);
/* The first function of that name; NULL: there is none. */
const inline_function *inline_source_find(const inline_source *s, const char *name);

/* Removes %, and blanks except one between two words. */
void inline_strip(char *text);
/* Replaces every whole word (letters, digits, _) `from` by `to`, which is not longer. */
void inline_rename(char *text, const char *from, const char *to);
#endif
