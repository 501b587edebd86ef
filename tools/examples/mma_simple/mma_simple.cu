// mma_simple.cu - mma_simple.ptx in CUDA C++: C = A B^T on tensor cores, one tile, then a matrix of them.
//
//   C[i][j] = sum over k of A[i][k] B[j][k];  A, B 16-bit floats, C f32, all row-major
//
// entries  mma_tile   A 16 x 16, B 8 x 16, C 16 x 8: a single mma.sync;  grid 1, 32 threads
//          mma_grid   any m and n, even k;  grid x = ceil(n / 8), y = ceil(m / 16), 32 threads: a tile each
// limits   A and B on 4 bytes, k even (a register is loaded whole: two neighbours in k)
// needs    sm_80
//
// mma_simple.ptx has a picture of which lane holds what, <ptxpack/inline/mma_sync.h> describes it, and
// `ptxpack atom SM80_16x8x16_F32F16F16F32_TN` draws it.
//
//   ptxpack nvrtc tools/examples/mma_simple/mma_simple.cu --entry mma_grid -D ROWS=100 -D COLS=60 \
//       -D DEPTH=64 --grid '(COLS+7)/8,(ROWS+15)/16' --block 32 --arg out:f32:ROWS*COLS \
//       --arg in:f16:ROWS*DEPTH --arg in:f16:COLS*DEPTH --arg u32:ROWS --arg u32:COLS --arg u32:DEPTH

#include <ptxpack/inline/mma_sync.h>
using namespace ptxpack;

// Loads two neighbours in k.
__device__ u32 pair(const u16 *at) { return *reinterpret_cast<const u32 *>(at); }

extern "C" __global__ void __launch_bounds__(32) mma_tile(float *c, const u16 *a, const u16 *b)
{
    const u32 g = threadIdx.x / 4, t = threadIdx.x % 4;
    a += 16 * g + 2 * t;
    b += 16 * g + 2 * t;
    c += 8 * g + 2 * t;
    const u32 as[4] = {pair(a), pair(a + 8 * 16), pair(a + 8), pair(a + 8 * 16 + 8)};
    const u32 bs[2] = {pair(b), pair(b + 8)};
    float     cs[4] = {0, 0, 0, 0};
    SM80_16x8x16_F32F16F16F32_TN(cs, as, bs, cs);
    c[0] = cs[0];
    c[1] = cs[1];
    c[8 * 8] = cs[2];
    c[8 * 8 + 1] = cs[3];
}

// Loads elements `column` and the next of row `row`, or zeros outside the matrix.
__device__ u32 load(const u16 *matrix, u32 row, u32 rows, u32 column, u32 columns)
{
    return row < rows && column < columns ? pair(matrix + (u64)row * columns + column) : 0;
}

extern "C" __global__ void __launch_bounds__(32)
mma_grid(float *c, const u16 *a, const u16 *b, u32 m, u32 n, u32 k)
{
    const u32 g = threadIdx.x / 4, t = threadIdx.x % 4;
    const u32 row = 16 * blockIdx.y + g, column = 8 * blockIdx.x;
    float     cs[4] = {0, 0, 0, 0};
    for (u32 step = 0; step < k; step += 16) {
        const u32 left = step + 2 * t, right = left + 8;
        const u32 as[4] = {load(a, row, m, left, k), load(a, row + 8, m, left, k),
                           load(a, row, m, right, k), load(a, row + 8, m, right, k)};
        const u32 bs[2] = {load(b, column + g, n, left, k), load(b, column + g, n, right, k)};
        SM80_16x8x16_F32F16F16F32_TN(cs, as, bs, cs);
    }
    for (u32 i = 0; i < 4; i++) {
        const u32 at_row = row + i / 2 * 8, at_column = column + 2 * t + i % 2;
        if (at_row < m && at_column < n)
            c[(u64)at_row * n + at_column] = cs[i];
    }
}
