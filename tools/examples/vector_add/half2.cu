// half2.cu - half2.ptx in CUDA C++: two 16-bit floats at a time, each multiplication and addition rounded.
//
//   z = ((a x) + (b y)) + c
//
// limits   1 <= n <= 2^31; x, y and z on 4 bytes
// grid     x = ceil(n / 2048), blocks of 256 threads: a thread has 4 of the 1024 pairs of its block
//
// No header of a CUDA toolkit is included: a half is a u16, instructions come from the pack's headers.
//
//   ptxpack nvrtc tools/examples/vector_add/half2.cu -D N=1000003 --grid '(N+2047)/2048' --block 256 \
//       --time --arg out:f16:N --arg in:f16:N --arg in:f16:N --arg u32:N \
//       --arg f16:1.5 --arg f16:-0.5 --arg f16:0.25

#include <ptxpack/inline/fast_math.h>
using namespace ptxpack;

extern "C" __global__ void __launch_bounds__(256)
vector_add(u16 *z, const u16 *x, const u16 *y, u32 n, u16 a, u16 b, u16 c)
{
    const u32 as = a * 0x10001u, bs = b * 0x10001u, cs = c * 0x10001u; // each factor is there twice
    u32       i = 2048 * blockIdx.x + 2 * threadIdx.x;
    for (int step = 0; step < 4 && i < n; step++, i += 512) { // 256 pairs on
        const bool whole = i + 1 < n; // otherwise n is odd, and this is its last element
        const u32  xs = whole ? *reinterpret_cast<const u32 *>(x + i) : x[i];
        const u32  ys = whole ? *reinterpret_cast<const u32 *>(y + i) : y[i];
        const u32  zs = add_rn_f16x2(add_rn_f16x2(mul_rn_f16x2(as, xs), mul_rn_f16x2(bs, ys)), cs);
        if (whole)
            *reinterpret_cast<u32 *>(z + i) = zs;
        else
            z[i] = static_cast<u16>(zs);
    }
}
