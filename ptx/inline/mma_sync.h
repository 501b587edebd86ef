// mma_sync.h - D = A B + C by one warp: every mma.sync of sm_75 to sm_90, and what came before it.
//
// needs    the architecture that its section says, whatever its name says; all 32 lanes together
// name     CuTe's, of shape and types of D, A, B, C: SM80_16x8x16_F32BF16BF16F32_TN(d, a, b, c); d may be c
//
// lane l = 4 g + t.  A 32-bit register holds v = 32 / bits neighbours along K, the first in the lowest bits;
// f64 takes a double each (v = 1).  [i..] stands for such a run of v:
//   A  of 16 rows: a[0] = A[g][v t..]  a[1] = A[g+8][v t..]  a[2], a[3] = the same 4 v further along K, ...
//      of 8 rows:  a[0] = A[g][v t..]
//   B  b[0] = B[v t..][g]              b[1], .. = the same 4 v further along K each
//   C  c[0], c[1] = C[g][2t, 2t+1]     c[2], c[3] = C[g+8][2t, 2t+1]; f16: c[0] and c[1] are these two pairs
// Types    f16, bf16: pairs in a u32; tf32: a u32 of f32's bits; fp8, s8, u8: four; s4, u4: eight; b1: 32
// Registers of one operand should come from one ldmatrix, in its order: the machine instruction wants neighbours.
#ifndef PTXPACK_INLINE_MMA_SYNC_H
#define PTXPACK_INLINE_MMA_SYNC_H
#include <ptxpack/inline/types.h>

// D and C of nc registers T with constraint x, A of na and B of nb registers U with constraint y.
#define PTXPACK_MMA(name, op, T, x, U, y, nc, na, nb, registers) \
    PTXPACK_DEVICE void name(T (&d)[nc], const U (&a)[na], const U (&b)[nb], const T (&c)[nc]) \
    { \
        asm volatile(op " " registers ";" \
                     : PTXPACK_OUT_##nc(x) \
                     : PTXPACK_IN_##na(y, a), PTXPACK_IN_##nb(y, b), PTXPACK_IN_##nc(x, c)); \
    }
#define PTXPACK_MMA_2_1_1(name, op, T, x, U, y) \
    PTXPACK_MMA(name, "mma.sync.aligned." op, T, x, U, y, 2, 1, 1, "{%0,%1}, {%2}, {%3}, {%4,%5}")
#define PTXPACK_MMA_2_2_1(name, op, T, x, U, y) \
    PTXPACK_MMA(name, "mma.sync.aligned." op, T, x, U, y, 2, 2, 1, "{%0,%1}, {%2,%3}, {%4}, {%5,%6}")
#define PTXPACK_MMA_2_4_2(name, op, T, x, U, y) \
    PTXPACK_MMA(name, "mma.sync.aligned." op, T, x, U, y, 2, 4, 2, \
                "{%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%8,%9}")
#define PTXPACK_MMA_4_2_1(name, op, T, x, U, y) \
    PTXPACK_MMA(name, "mma.sync.aligned." op, T, x, U, y, 4, 2, 1, \
                "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10}")
#define PTXPACK_MMA_4_4_2(name, op, T, x, U, y) \
    PTXPACK_MMA(name, "mma.sync.aligned." op, T, x, U, y, 4, 4, 2, \
                "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13}")
#define PTXPACK_MMA_4_8_4(name, op, T, x, U, y) \
    PTXPACK_MMA(name, "mma.sync.aligned." op, T, x, U, y, 4, 8, 4, \
                "{%0,%1,%2,%3}, {%4,%5,%6,%7,%8,%9,%10,%11}, {%12,%13,%14,%15}, {%16,%17,%18,%19}")

namespace ptxpack {
// ---- sm_61: each thread for itself: four products of bytes; two of A's 16-bit numbers and B's low bytes
PTXPACK_MMA(SM61_DP4A, "dp4a.s32.s32", s32, "r", u32, "r", 1, 1, 1, "%0, %1, %2, %3")
PTXPACK_MMA(SM61_DP2A, "dp2a.lo.s32.s32", s32, "r", u32, "r", 1, 1, 1, "%0, %1, %2, %3")

// ---- sm_70: 8x8x4 by each of four groups of eight lanes, {0-3, 16-19} and so on; emulated after Volta
// `ptxpack atom SM70_8x8x4_F32F16F16F32_TN` shows which lane holds what.
#define PTXPACK_MMA_VOLTA(letters, order) \
    PTXPACK_MMA(SM70_8x8x4_F16F16F16F16_##letters, "mma.sync.aligned.m8n8k4." order \
                ".f16.f16.f16.f16", u32, "r", u32, "r", 4, 2, 2, \
                "{%0,%1,%2,%3}, {%4,%5}, {%6,%7}, {%8,%9,%10,%11}") \
    PTXPACK_MMA(SM70_8x8x4_F32F16F16F32_##letters, "mma.sync.aligned.m8n8k4." order \
                ".f32.f16.f16.f32", float, "f", u32, "r", 8, 2, 2, "{%0,%1,%2,%3,%4,%5,%6,%7}, " \
                "{%8,%9}, {%10,%11}, {%12,%13,%14,%15,%16,%17,%18,%19}")
PTXPACK_MMA_VOLTA(TN, "row.col")
PTXPACK_MMA_VOLTA(NT, "col.row")
PTXPACK_MMA_VOLTA(NN, "col.col")
PTXPACK_MMA_VOLTA(TT, "row.row")

// Integers: each pair of types, and the same with _SATURATE: sums saturate.
#define PTXPACK_MMA_S32(sizes, shape, mnk, A, a, B, b) \
    PTXPACK_MMA_##sizes(SM80_##shape##_S32##A##B##S32_TN, mnk ".row.col.s32." a "." b ".s32", \
                        s32, "r", u32, "r") \
    PTXPACK_MMA_##sizes(SM80_##shape##_S32##A##B##S32_TN_SATURATE, \
                        mnk ".row.col.satfinite.s32." a "." b ".s32", s32, "r", u32, "r")
#define PTXPACK_MMA_INTEGERS(sizes, shape, mnk, S, s, U, u) \
    PTXPACK_MMA_S32(sizes, shape, mnk, S, s, S, s) \
    PTXPACK_MMA_S32(sizes, shape, mnk, S, s, U, u) \
    PTXPACK_MMA_S32(sizes, shape, mnk, U, u, S, s) \
    PTXPACK_MMA_S32(sizes, shape, mnk, U, u, U, u)
// Bits: D = C + the number of ones in A ^ B or A & B.
#define PTXPACK_MMA_BITS(sizes, shape, mnk, ending, op) \
    PTXPACK_MMA_##sizes(SM80_##shape##_S32U1U1S32_TN_##ending, mnk ".row.col.s32.b1.b1.s32." op, \
                        s32, "r", u32, "r")

#if PTXPACK_HAS(75)
// ---- sm_75
PTXPACK_MMA_4_2_1(SM75_16x8x8_F32F16F16F32_TN, "m16n8k8.row.col.f32.f16.f16.f32", float, "f", u32, "r")
PTXPACK_MMA_2_2_1(SM75_16x8x8_F16F16F16F16_TN, "m16n8k8.row.col.f16.f16.f16.f16", u32, "r", u32, "r")
PTXPACK_MMA_4_2_1(SM80_16x8x8_F32F16F16F32_TN, "m16n8k8.row.col.f32.f16.f16.f32", float, "f", u32, "r")
PTXPACK_MMA_2_2_1(SM80_16x8x8_F16F16F16F16_TN, "m16n8k8.row.col.f16.f16.f16.f16", u32, "r", u32, "r")
PTXPACK_MMA_2_1_1(SM75_8x8x16_S32S8S8S32_TN, "m8n8k16.row.col.s32.s8.s8.s32", s32, "r", u32, "r")
PTXPACK_MMA_INTEGERS(2_1_1, 8x8x16, "m8n8k16", S8, "s8", U8, "u8")
PTXPACK_MMA_INTEGERS(2_1_1, 8x8x32, "m8n8k32", S4, "s4", U4, "u4")
PTXPACK_MMA_BITS(2_1_1, 8x8x128, "m8n8k128", XORPOPC, "xor.popc")
#endif

#if PTXPACK_HAS(80)
// ---- sm_80
PTXPACK_MMA_4_4_2(SM80_16x8x16_F32F16F16F32_TN, "m16n8k16.row.col.f32.f16.f16.f32", float, "f", u32, "r")
PTXPACK_MMA_2_4_2(SM80_16x8x16_F16F16F16F16_TN, "m16n8k16.row.col.f16.f16.f16.f16", u32, "r", u32, "r")
PTXPACK_MMA_4_2_1(SM80_16x8x8_F32BF16BF16F32_TN, "m16n8k8.row.col.f32.bf16.bf16.f32", float, "f", u32, "r")
PTXPACK_MMA_4_4_2(SM80_16x8x16_F32BF16BF16F32_TN, "m16n8k16.row.col.f32.bf16.bf16.f32", float, "f", u32, "r")
PTXPACK_MMA_4_2_1(SM80_16x8x4_F32TF32TF32F32_TN, "m16n8k4.row.col.f32.tf32.tf32.f32", float, "f", u32, "r")
PTXPACK_MMA_4_4_2(SM80_16x8x8_F32TF32TF32F32_TN, "m16n8k8.row.col.f32.tf32.tf32.f32", float, "f", u32, "r")
PTXPACK_MMA_2_1_1(SM80_8x8x4_F64F64F64F64_TN, "m8n8k4.row.col.f64.f64.f64.f64", double, "d", double, "d")
PTXPACK_MMA_INTEGERS(4_2_1, 16x8x16, "m16n8k16", S8, "s8", U8, "u8")
PTXPACK_MMA_INTEGERS(4_4_2, 16x8x32, "m16n8k32", S8, "s8", U8, "u8")
PTXPACK_MMA_INTEGERS(4_2_1, 16x8x32, "m16n8k32", S4, "s4", U4, "u4")
PTXPACK_MMA_INTEGERS(4_4_2, 16x8x64, "m16n8k64", S4, "s4", U4, "u4")
PTXPACK_MMA_BITS(4_2_1, 16x8x128, "m16n8k128", XORPOPC, "xor.popc")
PTXPACK_MMA_BITS(4_4_2, 16x8x256, "m16n8k256", XORPOPC, "xor.popc")
PTXPACK_MMA_BITS(2_1_1, 8x8x128, "m8n8k128", ANDPOPC, "and.popc")
PTXPACK_MMA_BITS(4_2_1, 16x8x128, "m16n8k128", ANDPOPC, "and.popc")
PTXPACK_MMA_BITS(4_4_2, 16x8x256, "m16n8k256", ANDPOPC, "and.popc")
#endif

#if PTXPACK_HAS(89)
// ---- sm_89: fp8; with f16 sums from PTX ISA 8.7 on
#define PTXPACK_MMA_FP8(A, a, B, b) \
    PTXPACK_MMA_4_4_2(SM89_16x8x32_F32##A##B##F32_TN, "m16n8k32.row.col.f32." a "." b ".f32", \
                      float, "f", u32, "r") \
    PTXPACK_MMA_2_4_2(SM89_16x8x32_F16##A##B##F16_TN, "m16n8k32.row.col.f16." a "." b ".f16", \
                      u32, "r", u32, "r")
PTXPACK_MMA_FP8(E4M3, "e4m3", E4M3, "e4m3")
PTXPACK_MMA_FP8(E4M3, "e4m3", E5M2, "e5m2")
PTXPACK_MMA_FP8(E5M2, "e5m2", E4M3, "e4m3")
PTXPACK_MMA_FP8(E5M2, "e5m2", E5M2, "e5m2")
#endif

#if PTXPACK_HAS(90)
// ---- sm_90
PTXPACK_MMA_4_2_1(SM90_16x8x4_F64F64F64F64_TN, "m16n8k4.row.col.f64.f64.f64.f64", double, "d", double, "d")
PTXPACK_MMA_4_4_2(SM90_16x8x8_F64F64F64F64_TN, "m16n8k8.row.col.f64.f64.f64.f64", double, "d", double, "d")
PTXPACK_MMA_4_8_4(SM90_16x8x16_F64F64F64F64_TN, "m16n8k16.row.col.f64.f64.f64.f64", double, "d", double, "d")
#endif

// ---- complex numbers: four multiplications of their parts
#define PTXPACK_MMA_C64(sm, shape, nc, na, nb) \
    PTXPACK_DEVICE void sm##_##shape##_C64C64C64C64_TN(c64 (&d)[nc], const c64 (&a)[na], \
                                                       const c64 (&b)[nb], const c64 (&c)[nc]) \
    { \
        double a_real[na], a_imag[na], a_minus[na], b_real[nb], b_imag[nb], real[nc], imag[nc]; \
        for (int i = 0; i < na; i++) \
            a_real[i] = a[i].real, a_imag[i] = a[i].imag, a_minus[i] = -a[i].imag; \
        for (int i = 0; i < nb; i++) \
            b_real[i] = b[i].real, b_imag[i] = b[i].imag; \
        for (int i = 0; i < nc; i++) \
            real[i] = c[i].real, imag[i] = c[i].imag; \
        sm##_##shape##_F64F64F64F64_TN(real, a_real, b_real, real); \
        sm##_##shape##_F64F64F64F64_TN(imag, a_imag, b_real, imag); \
        sm##_##shape##_F64F64F64F64_TN(real, a_minus, b_imag, real); \
        sm##_##shape##_F64F64F64F64_TN(imag, a_real, b_imag, imag); \
        for (int i = 0; i < nc; i++) \
            d[i].real = real[i], d[i].imag = imag[i]; \
    }
#if PTXPACK_HAS(80)
PTXPACK_MMA_C64(SM80, 8x8x4, 2, 1, 1)
// Gauss's way, three: a sum is kept as t[0] = (ar + ai) br, t[1] = ar (bi - br), t[2] = ai (br + bi), and is
// t[0] - t[2] + (t[0] + t[1]) i.
struct gauss64 {
    double t[3];
};
PTXPACK_DEVICE void SM80_8x8x4_GC64C64C64GC64_TN(gauss64 (&d)[2], const c64 (&a)[1], const c64 (&b)[1],
                                                 const gauss64 (&c)[2])
{
    const double a_part[3][1] = {{a[0].real + a[0].imag}, {a[0].real}, {a[0].imag}};
    const double b_part[3][1] = {{b[0].real}, {b[0].imag - b[0].real}, {b[0].real + b[0].imag}};
    for (int i = 0; i < 3; i++) {
        double sum[2] = {c[0].t[i], c[1].t[i]};
        SM80_8x8x4_F64F64F64F64_TN(sum, a_part[i], b_part[i], sum);
        d[0].t[i] = sum[0];
        d[1].t[i] = sum[1];
    }
}
#endif
#if PTXPACK_HAS(90)
PTXPACK_MMA_C64(SM90, 16x8x4, 4, 2, 1)
PTXPACK_MMA_C64(SM90, 16x8x8, 4, 4, 2)
PTXPACK_MMA_C64(SM90, 16x8x16, 4, 8, 4)
#endif
} // namespace ptxpack
#endif
