// mma_simple.cu - mma_simple.ptx in CUDA C++: C = A B^T on tensor cores, with one tile, many, warps a tile.
//
//   C[i][j] = sum over k of A[i][k] B[j][k];  A, B 16-bit floats, C f32, all row-major
//
// entries  mma_tile   A 16 x 16, B 8 x 16, C 16 x 8: a single mma.sync;  grid 1, 32 threads
//          mma_grid   any m and n, even k;  grid x = ceil(n / 8), y = ceil(m / 16), 32 threads: a tile each
//          mma_block  the same;  grid x = ceil(n / BLOCK_N), y = ceil(m / BLOCK_M), 32 WARPS_M WARPS_N threads
// macros   of mma_block: WARPS_M x WARPS_N warps (2 x 2) with TILES_M x TILES_N tiles each (2 x 4);
//          BLOCK_M = 16 WARPS_M TILES_M, BLOCK_N = 8 WARPS_N TILES_N
// limits   A and B on 4 bytes, k even (a register is loaded whole: two neighbours in k)
// needs    sm_80
//
// mma_simple.ptx has a picture of which lane holds what, <ptxpack/inline/mma_sync.h> describes it, and
// `ptxpack atom SM80_16x8x16_F32F16F16F32_TN` draws it.
//
//   ptxpack nvrtc tools/examples/mma_simple/mma_simple.cu --entry mma_block -D ROWS=100 -D COLS=60 \
//       -D DEPTH=64 -D WARPS_M=2 -D WARPS_N=2 -D TILES_M=2 -D TILES_N=4 --block 32*WARPS_M*WARPS_N \
//       --grid '(COLS-1)/(8*WARPS_N*TILES_N)+1,(ROWS-1)/(16*WARPS_M*TILES_M)+1' --arg out:f32:ROWS*COLS \
//       --arg in:f16:ROWS*DEPTH --arg in:f16:COLS*DEPTH --arg u32:ROWS --arg u32:COLS --arg u32:DEPTH

#include <ptxpack/inline/mma_sync.h>
using namespace ptxpack;

#ifndef WARPS_M
#define WARPS_M 2
#endif
#ifndef WARPS_N
#define WARPS_N 2
#endif
#ifndef TILES_M
#define TILES_M 2
#endif
#ifndef TILES_N
#define TILES_N 4
#endif

static_assert(WARPS_M >= 1 && WARPS_N >= 1 && TILES_M >= 1 && TILES_N >= 1 && WARPS_M * WARPS_N <= 32,
              "mma_simple: WARPS_M, WARPS_N, TILES_M and TILES_N are at least 1; a block has at most 32 warps");

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

// Warp w is wm = w % WARPS_M down and wn = w / WARPS_M across; its tiles are WARPS_M, WARPS_N tiles apart.
extern "C" __global__ void __launch_bounds__(32 * WARPS_M * WARPS_N)
mma_block(float *c, const u16 *a, const u16 *b, u32 m, u32 n, u32 k)
{
    const u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const u32 wm = threadIdx.x / 32 % WARPS_M, wn = threadIdx.x / 32 / WARPS_M;
    const u32 row = 16 * (blockIdx.y * WARPS_M * TILES_M + wm) + g;
    const u32 column = 8 * (blockIdx.x * WARPS_N * TILES_N + wn);
    float     cs[TILES_M][TILES_N][4] = {};
    for (u32 step = 0; step < k; step += 16) {
        const u32 left = step + 2 * t, right = left + 8;
        u32       as[TILES_M][4], bs[TILES_N][2];
#pragma unroll
        for (u32 i = 0; i < TILES_M; i++)
#pragma unroll
            for (u32 r = 0; r < 4; r++)
                as[i][r] = load(a, row + 16 * WARPS_M * i + r % 2 * 8, m, r < 2 ? left : right, k);
#pragma unroll
        for (u32 j = 0; j < TILES_N; j++) {
            bs[j][0] = load(b, column + 8 * WARPS_N * j + g, n, left, k);
            bs[j][1] = load(b, column + 8 * WARPS_N * j + g, n, right, k);
#pragma unroll
            for (u32 i = 0; i < TILES_M; i++)
                SM80_16x8x16_F32F16F16F32_TN(cs[i][j], as[i], bs[j], cs[i][j]);
        }
    }
#pragma unroll
    for (u32 e = 0; e < 4 * TILES_M * TILES_N; e++) {
        const u32 i = e / 4 / TILES_N, j = e / 4 % TILES_N;
        const u32 at_row = row + 16 * WARPS_M * i + e % 4 / 2 * 8;
        const u32 at_column = column + 8 * WARPS_N * j + 2 * t + e % 2;
        if (at_row < m && at_column < n)
            c[(u64)at_row * n + at_column] = cs[i][j][e % 4];
    }
}
