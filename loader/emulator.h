/* emulator.h - private: finding the emulated driver, and the variable PTXPACK_DEVICE, which asks for it. */
#ifndef PTXPACK_EMULATOR_H
#define PTXPACK_EMULATOR_H
#include <stdbool.h>
#include <stddef.h>
#include "status.h"

/* Write the path of libptxpack-emu.so to buf and return it.  The path is $PTXPACK_EMU.  Otherwise the library
 * is searched for in the folder of libptxpack.so, or of the program that contains this code, in the folder
 * above that, in its ../lib and ../lib64, and then by the dynamic linker.  NULL: it was not found, and buf
 * holds the path of libptxpack.so or the program.  The call takes the linker's lock. */
const char *ptxpack_emulator_path(char *buf, size_t cap);

/* The advice at the end of a line that says that the driver cannot be used. */
#define PTXPACK_EMULATOR_ADVICE "; PTXPACK_DEVICE=emu takes the emulated driver"

/* Read PTXPACK_DEVICE, which is gpu or emu and matters if no option names a driver.  With emu *path becomes the
 * path of the emulated driver; otherwise it is unchanged.  After a failure `detail` holds one line.
 *   PTXPACK_E_ARG        the variable is neither gpu nor emu
 *   PTXPACK_E_NO_DRIVER  the emulated driver was not found */
enum { PTXPACK_EMULATOR_PATH = 4096 };
ptxpack_status ptxpack_emulator_asked(const char **path, char buf[PTXPACK_EMULATOR_PATH], char *detail,
                                      size_t cap);
#endif
