// types.h - what all inline headers share: fixed-width types, addresses, and lists of operands.
//
// For device code of NVRTC, nvcc or clang, C++11 and later; includes nothing, and is compatible with <stdint.h> and
// <cuda_fp16.h>.  A header declares what the target architecture has: a call of anything else is an unknown name at the
// caller's line.
#ifndef PTXPACK_INLINE_TYPES_H
#define PTXPACK_INLINE_TYPES_H

#define PTXPACK_DEVICE __device__ __forceinline__

// Whether the target is at least sm_`arch`; always true in a compiler's pass for the host.
#ifdef __CUDA_ARCH__
#define PTXPACK_HAS(arch) (__CUDA_ARCH__ >= 10 * (arch))
#else
#define PTXPACK_HAS(arch) 1
#endif

// The same of what targets have only with a suffix, from that architecture on: sm_100a, sm_120f, ..
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FAMILY_SPECIFIC__) || defined(__CUDA_ARCH_FEAT_SM100_ALL) || \
    defined(__CUDA_ARCH_FEAT_SM101_ALL) || defined(__CUDA_ARCH_FEAT_SM103_ALL) || defined(__CUDA_ARCH_FEAT_SM110_ALL) || \
    defined(__CUDA_ARCH_FEAT_SM120_ALL) || defined(__CUDA_ARCH_FEAT_SM121_ALL)
#define PTXPACK_HAS_SUFFIX(arch) PTXPACK_HAS(arch)
#else
#define PTXPACK_HAS_SUFFIX(arch) 0
#endif

// Operands of asm: elements of an array, all with the constraint x.
#define PTXPACK_OUT_1(x) "=" x(d[0])
#define PTXPACK_OUT_2(x) PTXPACK_OUT_1(x), "=" x(d[1])
#define PTXPACK_OUT_4(x) PTXPACK_OUT_2(x), "=" x(d[2]), "=" x(d[3])
#define PTXPACK_OUT_8(x) PTXPACK_OUT_4(x), "=" x(d[4]), "=" x(d[5]), "=" x(d[6]), "=" x(d[7])
#define PTXPACK_IN_1(x, a) x(a[0])
#define PTXPACK_IN_2(x, a) PTXPACK_IN_1(x, a), x(a[1])
#define PTXPACK_IN_4(x, a) PTXPACK_IN_2(x, a), x(a[2]), x(a[3])
#define PTXPACK_IN_8(x, a) PTXPACK_IN_4(x, a), x(a[4]), x(a[5]), x(a[6]), x(a[7])

namespace ptxpack {

typedef unsigned char      u8;
typedef unsigned short     u16;
typedef unsigned int       u32;
typedef unsigned long long u64;
typedef int                s32;
typedef long long          s64;
struct alignas(16) u128 { u64 low, high; };
struct alignas(16) c64 { double real, imag; };

// `n` neighbours of an array, as the array that an atom takes: part<2>(b + 2)
template <int n, class T> PTXPACK_DEVICE T (&part(T *first))[n] { return *reinterpret_cast<T (*)[n]>(first); }

// The address in shared memory, as ld.shared takes it, of what a pointer into shared memory points at.
PTXPACK_DEVICE u32 shared_address(const void *p)
{
    u32 address;
    asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(address) : "l"(p));
    return address;
}

} // namespace ptxpack
#endif
