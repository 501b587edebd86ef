/* layout_script.h - several statements in one text: where one ends, and what is only a comment. */
#ifndef PTXPACK_LAYOUT_SCRIPT_H
#define PTXPACK_LAYOUT_SCRIPT_H
#include <stdbool.h>
#include <stddef.h>

/* Puts blanks in the place of comments, in C++ and from '#' on, as in Python and before the preprocessor, so that columns
 * stay.  *inside: the text begins, and then: it ends, within a comment that needs an end. */
void script_blank_comments(char *text, size_t bytes, bool *inside);

/* The next statement from *at on: [*at, end).  Statements end with ';' or, where no bracket is open and no '=' stands at its
 * end, with a line.  False: there is none. */
bool script_next(const char *text, size_t bytes, size_t *at, size_t *end);

/* Is the text the begin of an assignment whose brackets are still open?  Then the next line belongs to it. */
bool script_goes_on(const char *text, size_t bytes);
#endif
