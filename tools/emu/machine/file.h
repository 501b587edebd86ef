/* file.h - files without a name, in memory, that processes share: the system removes such a file when no process has it
 * open or mapped any more, however they end. */
#ifndef EMU_FILE_H
#define EMU_FILE_H
#include <stdbool.h>
#include <stdint.h>

/* A file of zeros whose size cannot change; -1: errno says why there is none.  A program that is executed does not
 * inherit the descriptor. */
int emu_file_make(uint64_t bytes);
/* Is it such a file, of this size?  Then no access to a mapping of it fails. */
bool emu_file_fits(int file, uint64_t bytes);
#endif
