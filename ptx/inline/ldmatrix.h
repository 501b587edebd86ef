// ldmatrix.h - one, two or four 8x8 matrices of 16-bit elements from shared memory into a warp's registers.
//
// needs    sm_75; all 32 lanes together
// shared   lane l gives the address of row l % 8 of matrix l / 8: 16 bytes, 16-byte aligned.  x1 takes those
//          of lanes 0..7, x2 those of lanes 0..15; on sm_75 the other lanes' must be valid, too
//   _N     d[r] of lane l = M_r[l / 4][2 (l % 4) .. + 1]      A of mma, and B where B's rows are n
//   _T     d[r] of lane l = M_r[2 (l % 4) .. + 1][l / 4]      B where its rows are k
#ifndef PTXPACK_INLINE_LDMATRIX_H
#define PTXPACK_INLINE_LDMATRIX_H
#include <ptxpack/inline/types.h>

#if PTXPACK_HAS(75)
#define PTXPACK_LDMATRIX(name, count, form, registers) \
    PTXPACK_DEVICE void name(u32 (&d)[count], u32 shared) \
    { \
        asm volatile("ldmatrix.sync.aligned.m8n8." form ".shared.b16 " registers ";" \
                     : PTXPACK_OUT_##count("r") : "r"(shared) : "memory"); \
    }
namespace ptxpack {
PTXPACK_LDMATRIX(SM75_U32x1_LDSM_N, 1, "x1", "{%0}, [%1]")
PTXPACK_LDMATRIX(SM75_U32x2_LDSM_N, 2, "x2", "{%0, %1}, [%2]")
PTXPACK_LDMATRIX(SM75_U32x4_LDSM_N, 4, "x4", "{%0, %1, %2, %3}, [%4]")
PTXPACK_LDMATRIX(SM75_U16x2_LDSM_T, 1, "x1.trans", "{%0}, [%1]")
PTXPACK_LDMATRIX(SM75_U16x4_LDSM_T, 2, "x2.trans", "{%0, %1}, [%2]")
PTXPACK_LDMATRIX(SM75_U16x8_LDSM_T, 4, "x4.trans", "{%0, %1, %2, %3}, [%4]")
} // namespace ptxpack
#endif
#endif
