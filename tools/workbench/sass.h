/* sass.h - machine code: how many instructions an entry has, and its text by a disassembler. */
#ifndef PTXPACK_SASS_H
#define PTXPACK_SASS_H
#include <stdbool.h>
#include <stddef.h>

enum { SASS_LINE = 512 };

/* Instructions of `entry` without the padding at its end; 0: not machine code of sm_70 or later, or it has no
 * such entry. */
long sass_count(const void *cubin, size_t bytes, const char *entry);

/* Print the code of `entry` (NULL: of all) to stdout, from the machine code in file `fd`, with the lines of
 * the source where the code names them: by $PTXPACK_NVDISASM, or nvdisasm or cuobjdump of the PATH.  False
 * after one line that says why not. */
bool sass_print(int fd, const char *entry, char line[SASS_LINE]);
#endif
