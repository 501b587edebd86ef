/* emulator.h - where the emulated driver lies: the command and the checker use it when there is no GPU. */
#ifndef PTXPACK_EMULATOR_H
#define PTXPACK_EMULATOR_H
#include <stddef.h>

/* The path of libptxpack-emu.so, in buf: $PTXPACK_EMU, else beside this program, in the folder above it, in
 * lib/ or lib64/ of that, or where the dynamic linker finds it.  NULL: there is none. */
const char *emulator_path(char *buf, size_t cap);
#endif
