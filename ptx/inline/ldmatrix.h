// ldmatrix.h - one, two or four 8x8 matrices of 16-bit elements from shared memory into a warp's registers; matrices of
// bytes, and of 6 and 4 bits, which become bytes.
//
// needs    sm_75; SM100_.. sm_100a or later with the suffix a or f; all 32 lanes together
// shared   lane l gives the address of row l % 8 of matrix l / 8: 16 bytes, 16-byte aligned.  x1 takes those
//          of lanes 0..7, x2 those of lanes 0..15; on sm_75 the other lanes' must be valid, too
//   _N     d[r] of lane l = M_r[l / 4][2 (l % 4) .. + 1]      A of mma, and B where B's rows are n
//   _T     d[r] of lane l = M_r[2 (l % 4) .. + 1][l / 4]      B where its rows are k
// Bytes, of 16x16 matrices; lane l = 4 g + q gives the address of row l % 16 of matrix l / 16:
//   SM100_U8x8_LDSM_T    d[r] = M[4q+2r][g], M[4q+2r+1][g], M[4q+2r][g+8], M[4q+2r+1][g+8], as stmatrix.h stores them;
//   SM100_U8x16_LDSM_T   the same of two matrices, d[2] and d[3] of the second
// 6 and 4 bits, of 8x16 matrices; lane l gives the address of row l % 8 of matrix l / 8, 16 elements and padding in 16 bytes:
//   SM100_SU6_.., SU4_.. d[r] = M_r[g][4q .. 4q+3], each in the lowest bits of a byte.  mma of .kind::f8f6f4 takes e2m1 in
//                        the middle bits: shift d[r] left by 2
// ldmatrix_bytes<offset> and its like are the instruction of SM100_U8x16_LDSM_T alone, for bytes, 6 and 4 bits:
//   d[2 j + s] = M_j[4q][g+8s] .. M_j[4q+3][g+8s]: A of mma with K = 32 bytes, where A's rows are k
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

#if PTXPACK_HAS_SUFFIX(100)
#define PTXPACK_LDMATRIX_UNPACK(name, count, form, type, registers) \
    PTXPACK_DEVICE void name(u32 (&d)[count], u32 shared) \
    { \
        asm volatile("ldmatrix.sync.aligned.m8n16." form ".shared.b8x16." type " " registers ";" \
                     : PTXPACK_OUT_##count("r") : "r"(shared) : "memory"); \
    }
namespace ptxpack {
PTXPACK_DEVICE void SM100_U8x8_LDSM_T(u32 (&d)[2], u32 shared)
{
    asm volatile("{ .reg .b32 t<2>; ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {t0, t1}, [%2];"
                 " prmt.b32 %0, t0, t1, 0x5410; prmt.b32 %1, t0, t1, 0x7632; }"
                 : PTXPACK_OUT_2("r") : "r"(shared) : "memory");
}
PTXPACK_DEVICE void SM100_U8x16_LDSM_T(u32 (&d)[4], u32 shared)
{
    asm volatile("{ .reg .b32 t<4>; ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8 {t0, t1, t2, t3}, [%4];"
                 " prmt.b32 %0, t0, t1, 0x5410; prmt.b32 %1, t0, t1, 0x7632;"
                 " prmt.b32 %2, t2, t3, 0x5410; prmt.b32 %3, t2, t3, 0x7632; }"
                 : PTXPACK_OUT_4("r") : "r"(shared) : "memory");
}
#define PTXPACK_LDMATRIX_BYTES(name, type) \
    template <int offset = 0> PTXPACK_DEVICE void name(u32 (&d)[4], u32 shared) \
    { \
        asm volatile("ldmatrix.sync.aligned.m16n16.x2.trans.shared." type " {%0, %1, %2, %3}, [%4+%5];" \
                     : PTXPACK_OUT_4("r") : "r"(shared), "n"(offset) : "memory"); \
    }
PTXPACK_LDMATRIX_BYTES(ldmatrix_bytes, "b8")
PTXPACK_LDMATRIX_BYTES(ldmatrix_unpack_6, "b8x16.b6x16_p32")
PTXPACK_LDMATRIX_BYTES(ldmatrix_unpack_4, "b8x16.b4x16_p64")
PTXPACK_LDMATRIX_UNPACK(SM100_SU4_DU8x16_x1_LDSM_N, 1, "x1", "b4x16_p64", "{%0}, [%1]")
PTXPACK_LDMATRIX_UNPACK(SM100_SU4_DU8x16_x2_LDSM_N, 2, "x2", "b4x16_p64", "{%0, %1}, [%2]")
PTXPACK_LDMATRIX_UNPACK(SM100_SU4_DU8x16_x4_LDSM_N, 4, "x4", "b4x16_p64", "{%0, %1, %2, %3}, [%4]")
PTXPACK_LDMATRIX_UNPACK(SM100_SU6_DU8x16_x1_LDSM_N, 1, "x1", "b6x16_p32", "{%0}, [%1]")
PTXPACK_LDMATRIX_UNPACK(SM100_SU6_DU8x16_x2_LDSM_N, 2, "x2", "b6x16_p32", "{%0, %1}, [%2]")
PTXPACK_LDMATRIX_UNPACK(SM100_SU6_DU8x16_x4_LDSM_N, 4, "x4", "b6x16_p32", "{%0, %1, %2, %3}, [%4]")
} // namespace ptxpack
#endif
#endif
