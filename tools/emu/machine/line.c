/* line.c - making a line out of any text. */
#include "line.h"
#include <stdio.h>

size_t emu_line_of(const char *text, char *line, size_t cap)
{
    enum { ESCAPE = 4 }; /* bytes of \x1b */
    size_t used = 0;
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0' && used + ESCAPE < cap; p++) {
        if (*p == '\n')
            line[used++] = ' ';
        else if (*p < 0x20 || *p == 0x7f)
            used += (size_t)snprintf(line + used, ESCAPE + 1, "\\x%02x", *p);
        else
            line[used++] = (char)*p;
    }
    line[used] = '\0';
    return used;
}
