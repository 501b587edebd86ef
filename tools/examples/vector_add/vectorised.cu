// vectorised.cu - vectorised.ptx in CUDA C++: loads of 16 bytes, one element for each FMA.
//
//   u = b y + c, z = a x + u, by FMAs of one element, each rounded
//
// limits   1 <= n <= 2^31; x, y and z on 16 bytes
// grid     x = ceil(n / 2048), blocks of 256 threads: a thread has 8 neighbours
//
// A struct of 16 bytes that is aligned as such is loaded by one instruction.
//
//   ptxpack nvrtc tools/examples/vector_add/vectorised.cu -D N=1000003 --grid '(N+2047)/2048' --block 256 \
//       --time --arg out:f16:N --arg in:f16:N --arg in:f16:N --arg u32:N \
//       --arg f16:1.5 --arg f16:-0.5 --arg f16:0.25

#include <ptxpack/inline/types.h>
using namespace ptxpack;

struct alignas(16) eight {
    u16 half[8];
};

// This instruction is in no header; operands of 16 bits are "h".
__device__ u16 fma_rn_f16(u16 x, u16 y, u16 z)
{
    u16 d;
    asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(d) : "h"(x), "h"(y), "h"(z));
    return d;
}

extern "C" __global__ void __launch_bounds__(256)
vector_add(u16 *z, const u16 *x, const u16 *y, u32 n, u16 a, u16 b, u16 c)
{
    const u32 first = 8 * (256 * blockIdx.x + threadIdx.x);
    if (first >= n)
        return;
    if (n - first < 8) { // the last 1 to 7 elements
#pragma unroll 1
        for (u32 i = first; i < n; i++)
            z[i] = fma_rn_f16(a, x[i], fma_rn_f16(b, y[i], c));
        return;
    }
    eight       xs = *reinterpret_cast<const eight *>(x + first);
    const eight ys = *reinterpret_cast<const eight *>(y + first);
    for (int i = 0; i < 8; i++)
        xs.half[i] = fma_rn_f16(a, xs.half[i], fma_rn_f16(b, ys.half[i], c));
    *reinterpret_cast<eight *>(z + first) = xs;
}
