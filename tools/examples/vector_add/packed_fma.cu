// packed_fma.cu - packed_fma.ptx in CUDA C++: loads of 16 bytes, two elements for each FMA.
//
//   u = b y + c, z = a x + u, by packed FMAs, each rounded
//
// limits   1 <= n <= 2^31; x, y and z on 16 bytes
// grid     x = ceil(n / 2048), blocks of 256 threads: a thread has 8 neighbours
//
//   ptxpack nvrtc tools/examples/vector_add/packed_fma.cu -D N=1000003 --grid '(N+2047)/2048' --block 256 \
//       --time --arg out:f16:N --arg in:f16:N --arg in:f16:N --arg u32:N \
//       --arg f16:1.5 --arg f16:-0.5 --arg f16:0.25

#include <ptxpack/inline/fast_math.h>
using namespace ptxpack;

struct alignas(16) eight {
    u32 pair[4];
};

extern "C" __global__ void __launch_bounds__(256)
vector_add(u16 *z, const u16 *x, const u16 *y, u32 n, u16 a, u16 b, u16 c)
{
    const u32 as = a * 0x10001u, bs = b * 0x10001u, cs = c * 0x10001u; // each factor is there twice
    const u32 first = 8 * (256 * blockIdx.x + threadIdx.x);
    if (first >= n)
        return;
    if (n - first < 8) { // the last 1 to 7 elements, each as the lower half of a pair
#pragma unroll 1
        for (u32 i = first; i < n; i++)
            z[i] = static_cast<u16>(fma_rn_f16x2(as, x[i], fma_rn_f16x2(bs, y[i], cs)));
        return;
    }
    eight       xs = *reinterpret_cast<const eight *>(x + first);
    const eight ys = *reinterpret_cast<const eight *>(y + first);
    for (int i = 0; i < 4; i++)
        xs.pair[i] = fma_rn_f16x2(as, xs.pair[i], fma_rn_f16x2(bs, ys.pair[i], cs));
    *reinterpret_cast<eight *>(z + first) = xs;
}
