/* shared_swizzle.h - private: which of the hardware's swizzles of shared memory a tile has. */
#ifndef PTXPACK_SHARED_SWIZZLE_H
#define PTXPACK_SHARED_SWIZZLE_H
#include "host/layout/layout.h"

enum { SWIZZLE_UNIT_BITS = 128 }; /* what is moved as one: 16 bytes */

/* B of the tile's Sw<B,4,3> over bytes, 0 to 3 as no swizzle has more bits than its shift, for elements of
 * `bits` bits, a power of 2 up to 128.  E_ARG, in the name of `who`: another swizzle. */
ptxpack_status shared_swizzle(const char *who, const ptxpack_layout *tile, int bits, int *b);
#endif
