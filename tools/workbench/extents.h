/* extents.h - --grid, --block and --smem: numbers that may be expressions of symbols. */
#ifndef PTXPACK_PROGRAM_EXTENTS_H
#define PTXPACK_PROGRAM_EXTENTS_H
#include <stdbool.h>
#include <stdint.h>
#include "symbols.h"

/* "8", "8,4", "(N+127)/128,1,4": three extents from 1 on.  `name` is the option's.  Both return false
 * after one line that begins with the option. */
bool program_extents(const char *name, const char *text, const program_symbols *symbols, uint32_t out[3],
                     char line[PROGRAM_LINE]);
bool program_smem(const char *text, const program_symbols *symbols, int64_t *bytes, char line[PROGRAM_LINE]);
#endif
