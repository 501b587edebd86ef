/* memory.h - all accesses of kernels to memory, in any space. */
#ifndef EMU_MEMORY_H
#define EMU_MEMORY_H
#include "tools/emu/machine/space.h"

/* Lane l accesses `bytes` (1 to 128) at address[l] of `space`.  Checks bounds, alignment (to `align` bytes),
 * undefined bytes and races, updates the counters, and marks written bytes as defined.  False: a fatal error
 * was reported, and the exec function must return at once. */
bool emu_memory(struct emu_warp *w, const struct emu_op *op, uint32_t mask, enum emu_space space,
                const uint64_t address[EMU_LANES], uint32_t bytes, uint32_t align, unsigned int access,
                struct emu_ref out[EMU_LANES]);

/* One range of any length, on behalf of one lane, for bulk copies.  EMU_NO_JUDGE skips the checks of undefined
 * bytes and races, but not of bounds. */
bool emu_memory_range(struct emu_warp *w, const struct emu_op *op, int lane, enum emu_space space,
                      uint64_t address, uint64_t bytes, uint32_t align, unsigned int access,
                      struct emu_ref *out);

/* Definedness of a range that emu_memory or emu_memory_range has found. */
bool     emu_defined(const struct emu_ref *ref, uint64_t bytes);
uint32_t emu_undefined_bytes(const struct emu_ref *ref, uint32_t bytes); /* a bit for each of up to 32 */
void     emu_define(const struct emu_ref *ref, uint64_t bytes);
/* Copy the bytes and their definedness. */
void emu_copy(const struct emu_ref *to, const struct emu_ref *from, uint64_t bytes);

/* For messages: "global 0x7f..., 16 bytes beyond allocation 12 (1024 bytes)" and the like. */
const char *emu_address_text(struct emu_warp *w, int lane, enum emu_space space, uint64_t address, char *buf,
                             size_t cap);

/* The wavefronts that the lanes of mask need in shared memory: 32 banks of 4 bytes; 64-bit accesses by
 * half-warps, 128-bit by quarter-warps, ldmatrix by matrices of 8 rows. */
unsigned int emu_wavefronts(const uint64_t address[EMU_LANES], uint32_t mask, uint32_t bytes);
#endif
