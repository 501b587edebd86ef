/* profile.h - counters per op and warp of the block, for `ptxpack profile`. */
#ifndef EMU_PROFILE_H
#define EMU_PROFILE_H
#include "tools/emu/machine/emu.h"

/* Counters of one host thread: [warp of the block][op of the module]; NULL when nothing is counted. */
struct emu_count *emu_profile_begin(const struct emu_grid *grid);
/* Add them to the launch's sum, and free them. */
void emu_profile_end(const struct emu_grid *grid, struct emu_count *counts);
/* Thread-instructions that a launch has executed: always counted. */
void emu_profile_executed(uint64_t lanes);
#endif
