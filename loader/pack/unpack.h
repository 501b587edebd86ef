/* unpack.h - the text of a gzip file in memory, which the Makefile has made.  Not installed. */
#ifndef PTXPACK_UNPACK_H
#define PTXPACK_UNPACK_H
#include <stdbool.h>

/* Writes the text, of as many bytes as the table of the pack says, and a NUL.  False: no memory for zlib, which needs some
 * 8 KB while it works, or the data are damaged. */
bool ptxpack_unpack(const unsigned char *begin, const unsigned char *end, char *text, unsigned bytes);
#endif
