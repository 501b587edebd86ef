// wgmma.h - D[64][N] += A[64][K] B[K][N] by the 128 threads of a warpgroup, B and mostly A in shared memory.
//
// needs    sm_90a; without whole-program compilation ptxas waits after each instruction
// name     SM90_64xNxK_DAB_SS or _RS, as CuTe's: N = 8, 16, .. 256 (integers: 8, 24, and 16, 32, .. 256)
//              SM90_64x128x16_F32BF16BF16_SS(d, a, b, accumulate)       float d[64], descriptors a and b
//              SM90_64x128x16_F32BF16BF16_RS(d, a, b, accumulate)       u32 a[4]
//          accumulate 0: D = A B.  Of 16-bit types the major orders are template arguments, K where left out:
//              SM90_64x128x16_F32BF16BF16_SS<WGMMA_MN, WGMMA_K>(..); then, of all floating-point types,
//              1 or -1 for A and for B to be multiplied with
// order    shared memory written by ordinary stores: wgmma_shared_ready, a barrier;
//          wgmma_fence; SM90_..; wgmma_commit; wgmma_wait<n>
//          between wgmma_fence and wgmma_wait no instruction may use d and a: wgmma_hold(d) before the fence and
//          after the wait keeps the compiler from moving uses of d there
//
// thread t = 32 w + 4 g + q holds rows 16 w + g and 16 w + g + 8.  For 8 columns from n on, and i = n / 2:
//   d[i], d[i+1] = D[16w+g][n+2q, n+2q+1]      d[i+2], d[i+3] = D[16w+g+8][n+2q, n+2q+1]
// f16 sums: each of these pairs is one u32, d[n/4] and d[n/4+1].  A in registers: mma_sync.h's at rows 16 w.
#ifndef PTXPACK_INLINE_WGMMA_H
#define PTXPACK_INLINE_WGMMA_H
#include <ptxpack/inline/types.h>

namespace ptxpack {
enum wgmma_major { WGMMA_K = 0, WGMMA_MN = 1 }; // along which mode neighbours lie in memory
enum wgmma_swizzle { // the descriptor's numbers
    WGMMA_SWIZZLE_NONE = 0,
    WGMMA_SWIZZLE_128B = 1,
    WGMMA_SWIZZLE_64B = 2,
    WGMMA_SWIZZLE_32B = 3
};

// The descriptor of an operand in shared memory, the same in all threads: address of the tile, leading and stride
// offset, all in bytes and multiples of 16; ptxpack's host/atom/wgmma.h derives them from a layout.  The
// next step along a mode is the same descriptor plus that step's bytes / 16.
PTXPACK_DEVICE u64 wgmma_descriptor(u32 shared, u32 leading, u32 stride, wgmma_swizzle swizzle,
                                    u32 base_offset = 0)
{
    return (u64)(shared >> 4 & 0x3fff) | (u64)(leading >> 4 & 0x3fff) << 16 |
           (u64)(stride >> 4 & 0x3fff) << 32 | (u64)base_offset << 49 | (u64)swizzle << 62;
}
} // namespace ptxpack

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
namespace ptxpack {
// Makes what this thread stored in shared memory visible to wgmma.
PTXPACK_DEVICE void wgmma_shared_ready() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// Orders earlier uses of d and a before wgmma.
PTXPACK_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
PTXPACK_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until at most `groups` committed groups are pending.
template <int groups> PTXPACK_DEVICE void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(groups) : "memory");
}
#define PTXPACK_WGMMA_HOLD(T, x) \
    template <int n> PTXPACK_DEVICE void wgmma_hold(T (&d)[n]) \
    { \
        _Pragma("unroll") for (int i = 0; i < n; i++) \
            asm volatile("" : "+" x(d[i]) :: "memory"); \
    }
PTXPACK_WGMMA_HOLD(float, "f")
PTXPACK_WGMMA_HOLD(u32, "r")
PTXPACK_WGMMA_HOLD(s32, "r")

// D of R registers: f(0) g(1) .. g(R - 1); and the numbers of the nine operands that follow them.
#define PTXPACK_D_2(f, g) f(0) g(1)
#define PTXPACK_D_4(f, g) PTXPACK_D_2(f, g) g(2) g(3)
#define PTXPACK_D_6(f, g) PTXPACK_D_4(f, g) g(4) g(5)
#define PTXPACK_D_8(f, g) PTXPACK_D_6(f, g) g(6) g(7)
#define PTXPACK_D_10(f, g) PTXPACK_D_8(f, g) g(8) g(9)
#define PTXPACK_D_12(f, g) PTXPACK_D_10(f, g) g(10) g(11)
#define PTXPACK_D_14(f, g) PTXPACK_D_12(f, g) g(12) g(13)
#define PTXPACK_D_16(f, g) PTXPACK_D_14(f, g) g(14) g(15)
#define PTXPACK_D_18(f, g) PTXPACK_D_16(f, g) g(16) g(17)
#define PTXPACK_D_20(f, g) PTXPACK_D_18(f, g) g(18) g(19)
#define PTXPACK_D_22(f, g) PTXPACK_D_20(f, g) g(20) g(21)
#define PTXPACK_D_24(f, g) PTXPACK_D_22(f, g) g(22) g(23)
#define PTXPACK_D_26(f, g) PTXPACK_D_24(f, g) g(24) g(25)
#define PTXPACK_D_28(f, g) PTXPACK_D_26(f, g) g(26) g(27)
#define PTXPACK_D_30(f, g) PTXPACK_D_28(f, g) g(28) g(29)
#define PTXPACK_D_32(f, g) PTXPACK_D_30(f, g) g(30) g(31)
#define PTXPACK_D_34(f, g) PTXPACK_D_32(f, g) g(32) g(33)
#define PTXPACK_D_36(f, g) PTXPACK_D_34(f, g) g(34) g(35)
#define PTXPACK_D_38(f, g) PTXPACK_D_36(f, g) g(36) g(37)
#define PTXPACK_D_40(f, g) PTXPACK_D_38(f, g) g(38) g(39)
#define PTXPACK_D_42(f, g) PTXPACK_D_40(f, g) g(40) g(41)
#define PTXPACK_D_44(f, g) PTXPACK_D_42(f, g) g(42) g(43)
#define PTXPACK_D_46(f, g) PTXPACK_D_44(f, g) g(44) g(45)
#define PTXPACK_D_48(f, g) PTXPACK_D_46(f, g) g(46) g(47)
#define PTXPACK_D_50(f, g) PTXPACK_D_48(f, g) g(48) g(49)
#define PTXPACK_D_52(f, g) PTXPACK_D_50(f, g) g(50) g(51)
#define PTXPACK_D_54(f, g) PTXPACK_D_52(f, g) g(52) g(53)
#define PTXPACK_D_56(f, g) PTXPACK_D_54(f, g) g(54) g(55)
#define PTXPACK_D_58(f, g) PTXPACK_D_56(f, g) g(56) g(57)
#define PTXPACK_D_60(f, g) PTXPACK_D_58(f, g) g(58) g(59)
#define PTXPACK_D_62(f, g) PTXPACK_D_60(f, g) g(60) g(61)
#define PTXPACK_D_64(f, g) PTXPACK_D_62(f, g) g(62) g(63)
#define PTXPACK_D_68(f, g) PTXPACK_D_64(f, g) g(64) g(65) g(66) g(67)
#define PTXPACK_D_72(f, g) PTXPACK_D_68(f, g) g(68) g(69) g(70) g(71)
#define PTXPACK_D_76(f, g) PTXPACK_D_72(f, g) g(72) g(73) g(74) g(75)
#define PTXPACK_D_80(f, g) PTXPACK_D_76(f, g) g(76) g(77) g(78) g(79)
#define PTXPACK_D_84(f, g) PTXPACK_D_80(f, g) g(80) g(81) g(82) g(83)
#define PTXPACK_D_88(f, g) PTXPACK_D_84(f, g) g(84) g(85) g(86) g(87)
#define PTXPACK_D_92(f, g) PTXPACK_D_88(f, g) g(88) g(89) g(90) g(91)
#define PTXPACK_D_96(f, g) PTXPACK_D_92(f, g) g(92) g(93) g(94) g(95)
#define PTXPACK_D_100(f, g) PTXPACK_D_96(f, g) g(96) g(97) g(98) g(99)
#define PTXPACK_D_104(f, g) PTXPACK_D_100(f, g) g(100) g(101) g(102) g(103)
#define PTXPACK_D_108(f, g) PTXPACK_D_104(f, g) g(104) g(105) g(106) g(107)
#define PTXPACK_D_112(f, g) PTXPACK_D_108(f, g) g(108) g(109) g(110) g(111)
#define PTXPACK_D_116(f, g) PTXPACK_D_112(f, g) g(112) g(113) g(114) g(115)
#define PTXPACK_D_120(f, g) PTXPACK_D_116(f, g) g(116) g(117) g(118) g(119)
#define PTXPACK_D_124(f, g) PTXPACK_D_120(f, g) g(120) g(121) g(122) g(123)
#define PTXPACK_D_128(f, g) PTXPACK_D_124(f, g) g(124) g(125) g(126) g(127)
#define PTXPACK_AFTER_2 2,3,4,5,6,7,8,9,10
#define PTXPACK_AFTER_4 4,5,6,7,8,9,10,11,12
#define PTXPACK_AFTER_6 6,7,8,9,10,11,12,13,14
#define PTXPACK_AFTER_8 8,9,10,11,12,13,14,15,16
#define PTXPACK_AFTER_10 10,11,12,13,14,15,16,17,18
#define PTXPACK_AFTER_12 12,13,14,15,16,17,18,19,20
#define PTXPACK_AFTER_14 14,15,16,17,18,19,20,21,22
#define PTXPACK_AFTER_16 16,17,18,19,20,21,22,23,24
#define PTXPACK_AFTER_18 18,19,20,21,22,23,24,25,26
#define PTXPACK_AFTER_20 20,21,22,23,24,25,26,27,28
#define PTXPACK_AFTER_22 22,23,24,25,26,27,28,29,30
#define PTXPACK_AFTER_24 24,25,26,27,28,29,30,31,32
#define PTXPACK_AFTER_26 26,27,28,29,30,31,32,33,34
#define PTXPACK_AFTER_28 28,29,30,31,32,33,34,35,36
#define PTXPACK_AFTER_30 30,31,32,33,34,35,36,37,38
#define PTXPACK_AFTER_32 32,33,34,35,36,37,38,39,40
#define PTXPACK_AFTER_34 34,35,36,37,38,39,40,41,42
#define PTXPACK_AFTER_36 36,37,38,39,40,41,42,43,44
#define PTXPACK_AFTER_38 38,39,40,41,42,43,44,45,46
#define PTXPACK_AFTER_40 40,41,42,43,44,45,46,47,48
#define PTXPACK_AFTER_42 42,43,44,45,46,47,48,49,50
#define PTXPACK_AFTER_44 44,45,46,47,48,49,50,51,52
#define PTXPACK_AFTER_46 46,47,48,49,50,51,52,53,54
#define PTXPACK_AFTER_48 48,49,50,51,52,53,54,55,56
#define PTXPACK_AFTER_50 50,51,52,53,54,55,56,57,58
#define PTXPACK_AFTER_52 52,53,54,55,56,57,58,59,60
#define PTXPACK_AFTER_54 54,55,56,57,58,59,60,61,62
#define PTXPACK_AFTER_56 56,57,58,59,60,61,62,63,64
#define PTXPACK_AFTER_58 58,59,60,61,62,63,64,65,66
#define PTXPACK_AFTER_60 60,61,62,63,64,65,66,67,68
#define PTXPACK_AFTER_62 62,63,64,65,66,67,68,69,70
#define PTXPACK_AFTER_64 64,65,66,67,68,69,70,71,72
#define PTXPACK_AFTER_68 68,69,70,71,72,73,74,75,76
#define PTXPACK_AFTER_72 72,73,74,75,76,77,78,79,80
#define PTXPACK_AFTER_76 76,77,78,79,80,81,82,83,84
#define PTXPACK_AFTER_80 80,81,82,83,84,85,86,87,88
#define PTXPACK_AFTER_84 84,85,86,87,88,89,90,91,92
#define PTXPACK_AFTER_88 88,89,90,91,92,93,94,95,96
#define PTXPACK_AFTER_92 92,93,94,95,96,97,98,99,100
#define PTXPACK_AFTER_96 96,97,98,99,100,101,102,103,104
#define PTXPACK_AFTER_100 100,101,102,103,104,105,106,107,108
#define PTXPACK_AFTER_104 104,105,106,107,108,109,110,111,112
#define PTXPACK_AFTER_108 108,109,110,111,112,113,114,115,116
#define PTXPACK_AFTER_112 112,113,114,115,116,117,118,119,120
#define PTXPACK_AFTER_116 116,117,118,119,120,121,122,123,124
#define PTXPACK_AFTER_120 120,121,122,123,124,125,126,127,128
#define PTXPACK_AFTER_124 124,125,126,127,128,129,130,131,132
#define PTXPACK_AFTER_128 128,129,130,131,132,133,134,135,136
#define PTXPACK_D_TEXT_0(i)  "%" #i
#define PTXPACK_D_TEXT(i)    ", %" #i
#define PTXPACK_D_FLOAT_0(i) "+f"(d[i])
#define PTXPACK_D_FLOAT(i)   , "+f"(d[i])
#define PTXPACK_D_WORD_0(i)  "+r"(d[i])
#define PTXPACK_D_WORD(i)    , "+r"(d[i])

// What an instruction has behind its predicate, by kind: 16 bits, other floating-point types, integers.
#define PTXPACK_SS_HEAD_16 \
    template <int a_major = WGMMA_K, int b_major = WGMMA_K, int a_sign = 1, int b_sign = 1>
#define PTXPACK_SS_TEXT_16(i, j, k, l) ", %" #i ", %" #j ", %" #k ", %" #l
#define PTXPACK_SS_IN_16               , "n"(a_sign), "n"(b_sign), "n"(a_major), "n"(b_major)
#define PTXPACK_RS_HEAD_16             template <int b_major = WGMMA_K, int a_sign = 1, int b_sign = 1>
#define PTXPACK_RS_TEXT_16(i, j, k)    ", %" #i ", %" #j ", %" #k
#define PTXPACK_RS_IN_16               , "n"(a_sign), "n"(b_sign), "n"(b_major)
#define PTXPACK_SS_HEAD_FLOAT          template <int a_sign = 1, int b_sign = 1>
#define PTXPACK_SS_TEXT_FLOAT(i, j, k, l) ", %" #i ", %" #j
#define PTXPACK_SS_IN_FLOAT            , "n"(a_sign), "n"(b_sign)
#define PTXPACK_RS_HEAD_FLOAT          PTXPACK_SS_HEAD_FLOAT
#define PTXPACK_RS_TEXT_FLOAT(i, j, k) ", %" #i ", %" #j
#define PTXPACK_RS_IN_FLOAT            PTXPACK_SS_IN_FLOAT
#define PTXPACK_SS_HEAD_INTEGER
#define PTXPACK_SS_TEXT_INTEGER(i, j, k, l)
#define PTXPACK_SS_IN_INTEGER
#define PTXPACK_RS_HEAD_INTEGER
#define PTXPACK_RS_TEXT_INTEGER(i, j, k)
#define PTXPACK_RS_IN_INTEGER

#define PTXPACK_WGMMA_SS(kind, name, op, T, reg, R, i0, i1, i2, i3, i4, i5, i6, i7, i8) \
    PTXPACK_SS_HEAD_##kind PTXPACK_DEVICE void name(T (&d)[R], u64 a, u64 b, int accumulate = 1) \
    { \
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #i2 ", 0; wgmma.mma_async.sync.aligned." \
                     op " {" PTXPACK_D_##R(PTXPACK_D_TEXT_0, PTXPACK_D_TEXT) "}, %" #i0 ", %" #i1 \
                     ", p" PTXPACK_SS_TEXT_##kind(i3, i4, i5, i6) "; }" \
                     : PTXPACK_D_##R(PTXPACK_D_##reg##_0, PTXPACK_D_##reg) \
                     : "l"(a), "l"(b), "r"(accumulate) PTXPACK_SS_IN_##kind); \
    }
#define PTXPACK_WGMMA_RS(kind, name, op, T, reg, R, i0, i1, i2, i3, i4, i5, i6, i7, i8) \
    PTXPACK_RS_HEAD_##kind PTXPACK_DEVICE void name(T (&d)[R], const u32 (&a)[4], u64 b, \
                                                    int accumulate = 1) \
    { \
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #i5 ", 0; wgmma.mma_async.sync.aligned." \
                     op " {" PTXPACK_D_##R(PTXPACK_D_TEXT_0, PTXPACK_D_TEXT) "}, {%" #i0 ", %" #i1 \
                     ", %" #i2 ", %" #i3 "}, %" #i4 ", p" PTXPACK_RS_TEXT_##kind(i6, i7, i8) "; }" \
                     : PTXPACK_D_##R(PTXPACK_D_##reg##_0, PTXPACK_D_##reg) \
                     : PTXPACK_IN_4("r", a), "l"(b), "r"(accumulate) PTXPACK_RS_IN_##kind); \
    }
#define PTXPACK_WGMMA_CALL(macro, ...) macro(__VA_ARGS__)
#define PTXPACK_WGMMA(kind, N, K, types, ending, op, T, reg, R) \
    PTXPACK_WGMMA_CALL(PTXPACK_WGMMA_SS, kind, SM90_64x##N##x##K##_##types##_SS##ending, \
                       "m64n" #N "k" #K "." op, T, reg, R, PTXPACK_AFTER_##R) \
    PTXPACK_WGMMA_CALL(PTXPACK_WGMMA_RS, kind, SM90_64x##N##x##K##_##types##_RS##ending, \
                       "m64n" #N "k" #K "." op, T, reg, R, PTXPACK_AFTER_##R)

#define PTXPACK_WGMMA_FP8(N, D, d, T, reg, R) \
    PTXPACK_WGMMA(FLOAT, N, 32, D##E4M3E4M3, _TN, d ".e4m3.e4m3", T, reg, R) \
    PTXPACK_WGMMA(FLOAT, N, 32, D##E4M3E5M2, _TN, d ".e4m3.e5m2", T, reg, R) \
    PTXPACK_WGMMA(FLOAT, N, 32, D##E5M2E4M3, _TN, d ".e5m2.e4m3", T, reg, R) \
    PTXPACK_WGMMA(FLOAT, N, 32, D##E5M2E5M2, _TN, d ".e5m2.e5m2", T, reg, R)
#define PTXPACK_WGMMA_S32_OF(N, types, op, R) \
    PTXPACK_WGMMA(INTEGER, N, 32, types, _TN, "s32." op, s32, WORD, R) \
    PTXPACK_WGMMA(INTEGER, N, 32, types, _TN_SATURATE, "satfinite.s32." op, s32, WORD, R)
// The atoms of width N: those with f32 sums (in R registers), with f16 sums, with s32 sums.
#define PTXPACK_WGMMA_F32(N, R) \
    PTXPACK_WGMMA(16, N, 16, F32F16F16, , "f32.f16.f16", float, FLOAT, R) \
    PTXPACK_WGMMA(16, N, 16, F32BF16BF16, , "f32.bf16.bf16", float, FLOAT, R) \
    PTXPACK_WGMMA(FLOAT, N, 8, F32TF32TF32, _TN, "f32.tf32.tf32", float, FLOAT, R) \
    PTXPACK_WGMMA_FP8(N, F32, "f32", float, FLOAT, R)
#define PTXPACK_WGMMA_F16(N, R) \
    PTXPACK_WGMMA(16, N, 16, F16F16F16, , "f16.f16.f16", u32, WORD, R) \
    PTXPACK_WGMMA_FP8(N, F16, "f16", u32, WORD, R)
#define PTXPACK_WGMMA_S32(N, R) \
    PTXPACK_WGMMA_S32_OF(N, S32S8S8, "s8.s8", R) \
    PTXPACK_WGMMA_S32_OF(N, S32S8U8, "s8.u8", R) \
    PTXPACK_WGMMA_S32_OF(N, S32U8S8, "u8.s8", R) \
    PTXPACK_WGMMA_S32_OF(N, S32U8U8, "u8.u8", R)
PTXPACK_WGMMA_F32(8, 4) PTXPACK_WGMMA_F16(8, 2) PTXPACK_WGMMA_S32(8, 4)
PTXPACK_WGMMA_F32(16, 8) PTXPACK_WGMMA_F16(16, 4) PTXPACK_WGMMA_S32(16, 8)
PTXPACK_WGMMA_F32(24, 12) PTXPACK_WGMMA_F16(24, 6) PTXPACK_WGMMA_S32(24, 12)
PTXPACK_WGMMA_F32(32, 16) PTXPACK_WGMMA_F16(32, 8) PTXPACK_WGMMA_S32(32, 16)
PTXPACK_WGMMA_F32(40, 20) PTXPACK_WGMMA_F16(40, 10)
PTXPACK_WGMMA_F32(48, 24) PTXPACK_WGMMA_F16(48, 12) PTXPACK_WGMMA_S32(48, 24)
PTXPACK_WGMMA_F32(56, 28) PTXPACK_WGMMA_F16(56, 14)
PTXPACK_WGMMA_F32(64, 32) PTXPACK_WGMMA_F16(64, 16) PTXPACK_WGMMA_S32(64, 32)
PTXPACK_WGMMA_F32(72, 36) PTXPACK_WGMMA_F16(72, 18)
PTXPACK_WGMMA_F32(80, 40) PTXPACK_WGMMA_F16(80, 20) PTXPACK_WGMMA_S32(80, 40)
PTXPACK_WGMMA_F32(88, 44) PTXPACK_WGMMA_F16(88, 22)
PTXPACK_WGMMA_F32(96, 48) PTXPACK_WGMMA_F16(96, 24) PTXPACK_WGMMA_S32(96, 48)
PTXPACK_WGMMA_F32(104, 52) PTXPACK_WGMMA_F16(104, 26)
PTXPACK_WGMMA_F32(112, 56) PTXPACK_WGMMA_F16(112, 28) PTXPACK_WGMMA_S32(112, 56)
PTXPACK_WGMMA_F32(120, 60) PTXPACK_WGMMA_F16(120, 30)
PTXPACK_WGMMA_F32(128, 64) PTXPACK_WGMMA_F16(128, 32) PTXPACK_WGMMA_S32(128, 64)
PTXPACK_WGMMA_F32(136, 68) PTXPACK_WGMMA_F16(136, 34)
PTXPACK_WGMMA_F32(144, 72) PTXPACK_WGMMA_F16(144, 36) PTXPACK_WGMMA_S32(144, 72)
PTXPACK_WGMMA_F32(152, 76) PTXPACK_WGMMA_F16(152, 38)
PTXPACK_WGMMA_F32(160, 80) PTXPACK_WGMMA_F16(160, 40) PTXPACK_WGMMA_S32(160, 80)
PTXPACK_WGMMA_F32(168, 84) PTXPACK_WGMMA_F16(168, 42)
PTXPACK_WGMMA_F32(176, 88) PTXPACK_WGMMA_F16(176, 44) PTXPACK_WGMMA_S32(176, 88)
PTXPACK_WGMMA_F32(184, 92) PTXPACK_WGMMA_F16(184, 46)
PTXPACK_WGMMA_F32(192, 96) PTXPACK_WGMMA_F16(192, 48) PTXPACK_WGMMA_S32(192, 96)
PTXPACK_WGMMA_F32(200, 100) PTXPACK_WGMMA_F16(200, 50)
PTXPACK_WGMMA_F32(208, 104) PTXPACK_WGMMA_F16(208, 52) PTXPACK_WGMMA_S32(208, 104)
PTXPACK_WGMMA_F32(216, 108) PTXPACK_WGMMA_F16(216, 54)
PTXPACK_WGMMA_F32(224, 112) PTXPACK_WGMMA_F16(224, 56) PTXPACK_WGMMA_S32(224, 112)
PTXPACK_WGMMA_F32(232, 116) PTXPACK_WGMMA_F16(232, 58)
PTXPACK_WGMMA_F32(240, 120) PTXPACK_WGMMA_F16(240, 60) PTXPACK_WGMMA_S32(240, 120)
PTXPACK_WGMMA_F32(248, 124) PTXPACK_WGMMA_F16(248, 62)
PTXPACK_WGMMA_F32(256, 128) PTXPACK_WGMMA_F16(256, 64) PTXPACK_WGMMA_S32(256, 128)
} // namespace ptxpack
#endif
#endif
