/* line.h - a line for people: one line, and nothing that a terminal obeys. */
#ifndef EMU_LINE_H
#define EMU_LINE_H
#include <stddef.h>

/* Copies `text` to `line`, at most cap - 1 bytes of it and a NUL.  A newline becomes a blank; any other control character,
 * which the names of files and of kernels and the values of the environment may have, \x1b.  Returns the length. */
size_t emu_line_of(const char *text, char *line, size_t cap);
#endif
