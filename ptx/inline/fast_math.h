// fast_math.h - approximate functions, pairs of 16-bit numbers, and conversions between formats.
//
// needs    sm_75; more, where a section says so
// A function of one instruction has its name: ex2_approx_ftz_f32 is ex2.approx.ftz.f32.
// A pair is a u32 of two 16-bit neighbours, the lower index in the lower half.
#ifndef PTXPACK_INLINE_FAST_MATH_H
#define PTXPACK_INLINE_FAST_MATH_H
#include <ptxpack/inline/types.h>

#define PTXPACK_MATH_1(name, op, T, c) \
    PTXPACK_DEVICE T name(T x) \
    { \
        T d; \
        asm(op " %0, %1;" : "=" c(d) : c(x)); \
        return d; \
    }
#define PTXPACK_MATH_2(name, op) \
    PTXPACK_DEVICE u32 name(u32 x, u32 y) \
    { \
        u32 d; \
        asm(op " %0, %1, %2;" : "=r"(d) : "r"(x), "r"(y)); \
        return d; \
    }
#define PTXPACK_MATH_3(name, op) \
    PTXPACK_DEVICE u32 name(u32 x, u32 y, u32 z) \
    { \
        u32 d; \
        asm(op " %0, %1, %2, %3;" : "=r"(d) : "r"(x), "r"(y), "r"(z)); \
        return d; \
    }
// Two f32 to a pair; the instruction has the upper half first.
#define PTXPACK_PACK_2(name, op, T, c) \
    PTXPACK_DEVICE T name(float low, float high) \
    { \
        T d; \
        asm(op " %0, %1, %2;" : "=" c(d) : "f"(high), "f"(low)); \
        return d; \
    }

namespace ptxpack {
// ---- f32.  Largest errors: ex2 2 ulp, rcp 1 ulp; rsqrt 2^-22.9, tanh 2^-11, lg2 2^-22, relative (lg2
// between 0.5 and 2: absolute).  With ftz, subnormal numbers are zeros, which shortens ex2, lg2, rsqrt.
#define PTXPACK_MATH_F32(name) \
    PTXPACK_MATH_1(name##_approx_f32, #name ".approx.f32", float, "f") \
    PTXPACK_MATH_1(name##_approx_ftz_f32, #name ".approx.ftz.f32", float, "f")
PTXPACK_MATH_F32(ex2)   // 2^x
PTXPACK_MATH_F32(lg2)   // log2 x
PTXPACK_MATH_F32(rcp)   // 1 / x
PTXPACK_MATH_F32(rsqrt) // 1 / sqrt x
PTXPACK_MATH_F32(sqrt)
PTXPACK_MATH_F32(sin)
PTXPACK_MATH_F32(cos)
PTXPACK_MATH_1(tanh_approx_f32, "tanh.approx.f32", float, "f")

// ---- pairs of f16
PTXPACK_MATH_1(ex2_approx_f16x2, "ex2.approx.f16x2", u32, "r")
PTXPACK_MATH_1(tanh_approx_f16x2, "tanh.approx.f16x2", u32, "r")
PTXPACK_MATH_1(neg_f16x2, "neg.f16x2", u32, "r")
PTXPACK_MATH_1(abs_f16x2, "abs.f16x2", u32, "r")
PTXPACK_MATH_2(add_rn_f16x2, "add.rn.f16x2")
PTXPACK_MATH_2(sub_rn_f16x2, "sub.rn.f16x2")
PTXPACK_MATH_2(mul_rn_f16x2, "mul.rn.f16x2")
PTXPACK_MATH_3(fma_rn_f16x2, "fma.rn.f16x2") // x y + z, rounded once
// f32 to f16 and back.
PTXPACK_DEVICE u16 to_f16(float x)
{
    u16 d;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(d) : "f"(x));
    return d;
}
PTXPACK_DEVICE float from_f16(u16 x)
{
    float d;
    asm("cvt.f32.f16 %0, %1;" : "=f"(d) : "h"(x));
    return d;
}
PTXPACK_DEVICE void unpack_f16x2(float &low, float &high, u32 x)
{
    low = from_f16((u16)x);
    high = from_f16((u16)(x >> 16));
}
// bf16 is the upper half of f32.
PTXPACK_DEVICE void unpack_bf16x2(float &low, float &high, u32 x)
{
    asm("mov.b32 %0, %1;" : "=f"(low) : "r"(x << 16));
    asm("mov.b32 %0, %1;" : "=f"(high) : "r"(x & 0xffff0000));
}

#if PTXPACK_HAS(80)
// ---- sm_80: rounded to nearest, ties to even
PTXPACK_PACK_2(pack_f16x2, "cvt.rn.f16x2.f32", u32, "r")
PTXPACK_PACK_2(pack_bf16x2, "cvt.rn.bf16x2.f32", u32, "r")
PTXPACK_MATH_1(neg_bf16x2, "neg.bf16x2", u32, "r")
PTXPACK_MATH_1(abs_bf16x2, "abs.bf16x2", u32, "r")
PTXPACK_MATH_2(min_f16x2, "min.f16x2")
PTXPACK_MATH_2(max_f16x2, "max.f16x2")
PTXPACK_MATH_2(min_bf16x2, "min.bf16x2")
PTXPACK_MATH_2(max_bf16x2, "max.bf16x2")
PTXPACK_MATH_3(fma_rn_relu_f16x2, "fma.rn.relu.f16x2")
PTXPACK_MATH_3(fma_rn_bf16x2, "fma.rn.bf16x2")
PTXPACK_MATH_3(fma_rn_relu_bf16x2, "fma.rn.relu.bf16x2")
// To tf32: the nearest, ties away from zero, the low 13 bits being zeros.
PTXPACK_DEVICE u32 to_tf32(float x)
{
    u32 d;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(d) : "f"(x));
    return d;
}
#else
PTXPACK_DEVICE u32 pack_f16x2(float low, float high) { return to_f16(low) | (u32)to_f16(high) << 16; }
#endif

#if PTXPACK_HAS(90)
// ---- sm_90
PTXPACK_MATH_1(ex2_approx_ftz_bf16x2, "ex2.approx.ftz.bf16x2", u32, "r")
PTXPACK_MATH_1(tanh_approx_bf16x2, "tanh.approx.bf16x2", u32, "r")
PTXPACK_MATH_2(add_rn_bf16x2, "add.rn.bf16x2")
PTXPACK_MATH_2(sub_rn_bf16x2, "sub.rn.bf16x2")
PTXPACK_MATH_2(mul_rn_bf16x2, "mul.rn.bf16x2")
#endif

#if PTXPACK_HAS(89)
// ---- sm_89: fp8.  Rounds to nearest even and saturates.
PTXPACK_PACK_2(pack_e4m3x2, "cvt.rn.satfinite.e4m3x2.f32", u16, "h")
PTXPACK_PACK_2(pack_e5m2x2, "cvt.rn.satfinite.e5m2x2.f32", u16, "h")
// Four f32 to four bytes, the first in the lowest.
PTXPACK_DEVICE u32 pack_e4m3x4(float w, float x, float y, float z)
{
    return pack_e4m3x2(w, x) | (u32)pack_e4m3x2(y, z) << 16;
}
PTXPACK_DEVICE u32 pack_e5m2x4(float w, float x, float y, float z)
{
    return pack_e5m2x2(w, x) | (u32)pack_e5m2x2(y, z) << 16;
}
// Two bytes to a pair of f16, exactly.
#define PTXPACK_UNPACK_FP8(name, op) \
    PTXPACK_DEVICE u32 name(u16 x) \
    { \
        u32 d; \
        asm(op " %0, %1;" : "=r"(d) : "h"(x)); \
        return d; \
    }
PTXPACK_UNPACK_FP8(f16x2_of_e4m3x2, "cvt.rn.f16x2.e4m3x2")
PTXPACK_UNPACK_FP8(f16x2_of_e5m2x2, "cvt.rn.f16x2.e5m2x2")
#endif
} // namespace ptxpack
#endif
