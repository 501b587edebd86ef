// stmatrix.h - one, two or four 8x8 matrices of 16-bit elements, or 16x8 matrices of bytes, from a warp's registers to
// shared memory.
//
// needs    sm_90; SM100_.. sm_100a or later with the suffix a or f; all 32 lanes together
// The inverse of ldmatrix.h: the same addresses, and s[r] of lane l is what d[r] is there, for _N and _T.
// Bytes: lane l = 4 g + q gives the address of column l % 8 of matrix l / 8: 16 bytes, 16-byte aligned.
//   SM100_.._STSM_T   s[r] = M_r[g][2q], M_r[g][2q+1], M_r[g+8][2q], M_r[g+8][2q+1], as accumulators lie
#ifndef PTXPACK_INLINE_STMATRIX_H
#define PTXPACK_INLINE_STMATRIX_H
#include <ptxpack/inline/types.h>

#if PTXPACK_HAS(90)
#define PTXPACK_STMATRIX_OF(name, shape, count, form, type, registers) \
    PTXPACK_DEVICE void name(u32 shared, const u32 (&s)[count]) \
    { \
        asm volatile("stmatrix.sync.aligned." shape "." form ".shared." type " [%0], " registers ";" \
                     :: "r"(shared), PTXPACK_IN_##count("r", s) : "memory"); \
    }
#define PTXPACK_STMATRIX(name, count, form, registers) \
    PTXPACK_STMATRIX_OF(name, "m8n8", count, form, "b16", registers)
namespace ptxpack {
PTXPACK_STMATRIX(SM90_U32x1_STSM_N, 1, "x1", "{%1}")
PTXPACK_STMATRIX(SM90_U32x2_STSM_N, 2, "x2", "{%1, %2}")
PTXPACK_STMATRIX(SM90_U32x4_STSM_N, 4, "x4", "{%1, %2, %3, %4}")
PTXPACK_STMATRIX(SM90_U16x2_STSM_T, 1, "x1.trans", "{%1}")
PTXPACK_STMATRIX(SM90_U16x4_STSM_T, 2, "x2.trans", "{%1, %2}")
PTXPACK_STMATRIX(SM90_U16x8_STSM_T, 4, "x4.trans", "{%1, %2, %3, %4}")
} // namespace ptxpack
#endif

#if PTXPACK_HAS_SUFFIX(100)
namespace ptxpack {
PTXPACK_STMATRIX_OF(SM100_U8x4_STSM_T, "m16n8", 1, "x1.trans", "b8", "{%1}")
PTXPACK_STMATRIX_OF(SM100_U8x8_STSM_T, "m16n8", 2, "x2.trans", "b8", "{%1, %2}")
PTXPACK_STMATRIX_OF(SM100_U8x16_STSM_T, "m16n8", 4, "x4.trans", "b8", "{%1, %2, %3, %4}")
} // namespace ptxpack
#endif
#endif
