/* shared_swizzle.c - which of the hardware's swizzles of shared memory a tile has. */
#include "shared_swizzle.h"

#include "host/layout/arithmetic.h"
#include "loader/loader.h"

ptxpack_status shared_swizzle(const char *who, const ptxpack_layout *tile, int bits, int *b)
{
    ptxpack_swizzle s = tile->swizzle;
    int             base = log2_of(SWIZZLE_UNIT_BITS) - log2_of(bits);
    *b = 0;
    if (!tile->composed || s.bits == 0)
        return PTXPACK_OK;
    if (s.base != base || s.shift != 3)
        return ptxpack_fail(NULL, PTXPACK_E_ARG,
                            "%s: Sw<%d,%d,%d> over %d-bit elements is not the hardware's Sw<1..3,%d,3>", who,
                            s.bits, s.base, s.shift, bits, base);
    *b = s.bits;
    return PTXPACK_OK;
}
