/* sass.h - machine code: the number of instructions of an entry, and its text from a disassembler. */
#ifndef PTXPACK_SASS_H
#define PTXPACK_SASS_H
#include <stdbool.h>
#include <stddef.h>

enum { SASS_LINE = 512 };

/* The number of instructions of `entry` without the padding at its end; 0 if this is not machine code of sm_70 or later,
 * or has no such entry. */
long sass_count(const void *cubin, size_t bytes, const char *entry);

/* Print the code of `entry` (NULL: of all) to stdout, from the machine code in file `fd`, with the lines of the source
 * if the code names them.  Uses $PTXPACK_NVDISASM, or nvdisasm or cuobjdump from the PATH.  False after writing one
 * line about the failure. */
bool sass_print(int fd, const char *entry, char line[SASS_LINE]);
#endif
