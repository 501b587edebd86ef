// mma_narrow.h - D = A B + C by one warp: floats of 8, 6 and 4 bits, with and without block scaling.
//
// needs    sm_120a, sm_120f or later ones of the family; all 32 lanes together.  _VS16_UE8M0 needs PTX ISA 9.1 (CUDA 13.1)
// name     SM120_16x8xK_DABC_TN(d, a, b, c), with the layouts of mma_sync.h; d may be c
//              SM120_16x8x32_F32E4M3E2M1F32_TN              A and B each of E4M3, E5M2, E3M2, E2M3, E2M1; D and C F32 or F16
//          with _VS and the number of elements along K that share a factor, and its type: (d, a, b, c, sfa, sfb)
//              SM120_16x8x32_F32E4M3E2M1F32_TN_VS32_UE8M0   .kind::mxf8f6f4
//              SM120_16x8x64_F32E2M1E2M1F32_TN_VS16_UE4M3   .kind::mxf4nvf4; also _VS32_UE8M0, _VS16_UE8M0
//
// Elements  K = 32: a byte each.  E3M2 and E2M3 are its lower 6 bits, E2M1 the middle 4 (2 to 5).  K = 64: 8 in a register
// Factors   Lane 4 g + q holds K / VS bytes of a row each, first chunk of K first, from byte byte_a on:
//             sfa   rows g and g + 8 of A in lanes 4 g + 2 thread_a and 4 g + 2 thread_a + 1
//             sfb   column g of B in lane 4 g + thread_b
//           byte_a, thread_a, byte_b, thread_b are template arguments, 0 where left out; byte_.. is a multiple of K / VS
//           UE8M0 is 2^(byte - 127); UE4M3 is an E4M3 without a sign
#ifndef PTXPACK_INLINE_MMA_NARROW_H
#define PTXPACK_INLINE_MMA_NARROW_H
#include <ptxpack/inline/mma_sync.h>

#if PTXPACK_HAS_SUFFIX(120)
#define PTXPACK_MMA_F8F6F4(A, a, B, b) \
    PTXPACK_MMA_4_4_2(SM120_16x8x32_F32##A##B##F32_TN, "m16n8k32.row.col.kind::f8f6f4.f32." a "." b ".f32", \
                      float, "f", u32, "r") \
    PTXPACK_MMA_2_4_2(SM120_16x8x32_F16##A##B##F16_TN, "m16n8k32.row.col.kind::f8f6f4.f16." a "." b ".f16", \
                      u32, "r", u32, "r") \
    PTXPACK_MMA_SCALED(SM120_16x8x32_F32##A##B##F32_TN_VS32_UE8M0, \
                       "m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32." a "." b ".f32.ue8m0")
#define PTXPACK_MMA_SCALED(name, op) \
    template <int byte_a = 0, int thread_a = 0, int byte_b = 0, int thread_b = 0> \
    PTXPACK_DEVICE void name(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2], const float (&c)[4], u32 sfa, \
                             u32 sfb) \
    { \
        asm volatile("mma.sync.aligned." op " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13}," \
                     " %14, {%15, %16}, %17, {%18, %19};" \
                     : PTXPACK_OUT_4("f") \
                     : PTXPACK_IN_4("r", a), PTXPACK_IN_2("r", b), PTXPACK_IN_4("f", c), \
                       "r"(sfa), "n"(byte_a), "n"(thread_a), "r"(sfb), "n"(byte_b), "n"(thread_b)); \
    }
#define PTXPACK_MMA_OF_B(A, a) \
    PTXPACK_MMA_F8F6F4(A, a, E4M3, "e4m3") \
    PTXPACK_MMA_F8F6F4(A, a, E5M2, "e5m2") \
    PTXPACK_MMA_F8F6F4(A, a, E3M2, "e3m2") \
    PTXPACK_MMA_F8F6F4(A, a, E2M3, "e2m3") \
    PTXPACK_MMA_F8F6F4(A, a, E2M1, "e2m1")
namespace ptxpack {
PTXPACK_MMA_OF_B(E4M3, "e4m3")
PTXPACK_MMA_OF_B(E5M2, "e5m2")
PTXPACK_MMA_OF_B(E3M2, "e3m2")
PTXPACK_MMA_OF_B(E2M3, "e2m3")
PTXPACK_MMA_OF_B(E2M1, "e2m1")
PTXPACK_MMA_SCALED(SM120_16x8x64_F32E2M1E2M1F32_TN_VS32_UE8M0,
                   "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0")
PTXPACK_MMA_SCALED(SM120_16x8x64_F32E2M1E2M1F32_TN_VS16_UE8M0,
                   "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue8m0")
PTXPACK_MMA_SCALED(SM120_16x8x64_F32E2M1E2M1F32_TN_VS16_UE4M3,
                   "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3")
} // namespace ptxpack
#endif
#endif
