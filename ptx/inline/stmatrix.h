// stmatrix.h - one, two or four 8x8 matrices of 16-bit elements from a warp's registers to shared memory.
//
// needs    sm_90; all 32 lanes together
// The inverse of ldmatrix.h: the same addresses, and s[r] of lane l is what d[r] is there, for _N and _T.
#ifndef PTXPACK_INLINE_STMATRIX_H
#define PTXPACK_INLINE_STMATRIX_H
#include <ptxpack/inline/types.h>

#if PTXPACK_HAS(90)
#define PTXPACK_STMATRIX(name, count, form, registers) \
    PTXPACK_DEVICE void name(u32 shared, const u32 (&s)[count]) \
    { \
        asm volatile("stmatrix.sync.aligned.m8n8." form ".shared.b16 [%0], " registers ";" \
                     :: "r"(shared), PTXPACK_IN_##count("r", s) : "memory"); \
    }
namespace ptxpack {
PTXPACK_STMATRIX(SM90_U32x1_STSM_N, 1, "x1", "{%1}")
PTXPACK_STMATRIX(SM90_U32x2_STSM_N, 2, "x2", "{%1, %2}")
PTXPACK_STMATRIX(SM90_U32x4_STSM_N, 4, "x4", "{%1, %2, %3, %4}")
PTXPACK_STMATRIX(SM90_U16x2_STSM_T, 1, "x1.trans", "{%1}")
PTXPACK_STMATRIX(SM90_U16x4_STSM_T, 2, "x2.trans", "{%1, %2}")
PTXPACK_STMATRIX(SM90_U16x8_STSM_T, 4, "x4.trans", "{%1, %2, %3, %4}")
} // namespace ptxpack
#endif
#endif
