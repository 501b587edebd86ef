// prefill.cu - prefill.ptx in CUDA C++: O = softmax(scale Q K^T) V for prompts, head dimension 128.
//
// tensors  q, o: [batch x head][seqlen_q][128], k, v: [batch x head][seqlen_kv][128], f16, packed
// macros   BLOCK_M rows of Q for a block (64), BLOCK_N keys at a time (64), and how many warps divide them:
//          WARPS_M down (2), WARPS_N across (4)
// limits   head dimension 128, f16, no mask, scale > 0; any sequence lengths; pointers are multiples of 16 bytes
// needs    sm_80
// grid     x = batch x heads, y = ceil(seqlen_q / BLOCK_M);  32 WARPS_M WARPS_N threads, SHARED_BYTES of
//          dynamic shared memory
//
// prefill.ptx shows which warp computes what, and the order of the steps.
//
//   ptxpack nvrtc tools/examples/prefill_d128/prefill.cu -D HEADS=2 -D LENGTH=150 \
//       -D BLOCK_M=64 -D BLOCK_N=64 -D WARPS_M=2 -D WARPS_N=4 \
//       --grid 'HEADS,(LENGTH+BLOCK_M-1)/BLOCK_M' --block '32*WARPS_M*WARPS_N' \
//       --smem '256*(BLOCK_M+2*BLOCK_N)+BLOCK_M*(2*BLOCK_N+16)+4*WARPS_N*(BLOCK_M+8)' \
//       --arg out:f16:HEADS*LENGTH*128 --arg in:f16:HEADS*LENGTH*128 --arg in:f16:HEADS*LENGTH*128 \
//       --arg in:f16:HEADS*LENGTH*128 --arg u32:LENGTH --arg u32:LENGTH --arg f32:0.1275
//
// Which division is the fastest?  Add --sweep BLOCK_M=64,128 --sweep WARPS_M=2,4 --sweep WARPS_N=1,2,4 to it.

#include <ptxpack/inline/cp_async.h>
#include <ptxpack/inline/fast_math.h>
#include <ptxpack/inline/ldmatrix.h>
#include <ptxpack/inline/mma_sync.h>
#include <ptxpack/inline/shuffle.h>
using namespace ptxpack;

#ifndef BLOCK_M
#define BLOCK_M 64
#endif
#ifndef BLOCK_N
#define BLOCK_N 64
#endif
#ifndef WARPS_M
#define WARPS_M 2
#endif
#ifndef WARPS_N
#define WARPS_N 4
#endif
static_assert(WARPS_M >= 1 && (WARPS_N == 1 || WARPS_N == 2 || WARPS_N == 4),
              "prefill: WARPS_M is at least 1, WARPS_N is 1, 2 or 4");
static_assert(BLOCK_M >= 1 && BLOCK_N >= 1 && BLOCK_M % (16 * WARPS_M) == 0 && BLOCK_N % (16 * WARPS_N) == 0,
              "prefill: a warp has a multiple of 16 rows, BLOCK_M / WARPS_M, and of 16 keys, BLOCK_N / WARPS_N");

constexpr u32 THREADS = 32 * WARPS_M * WARPS_N, PASS_ROWS = THREADS / 16; // rows that all threads copy together
static_assert(THREADS <= 1024 && PASS_ROWS % 8 == 0 && BLOCK_M % PASS_ROWS == 0 && BLOCK_N % PASS_ROWS == 0,
              "prefill: 4 warps copy 8 rows at a time, 32 warps 64; that divides BLOCK_M and BLOCK_N");

// What a warp has: 16-row tiles of S and O, 8-column tiles of S, and of O.
constexpr u32 ROW_TILES = BLOCK_M / WARPS_M / 16, KEY_TILES = BLOCK_N / WARPS_N / 8, OUT_TILES = 128 / WARPS_N / 8;
constexpr u32 ROWS = 2 * ROW_TILES; // of a lane: r stands for 8 r + g, from the warp's first one on
constexpr u32 ROW_BYTES = 256, P_ROW_BYTES = 2 * BLOCK_N + 16;
constexpr u32 STATS_ROW = BLOCK_M + 8; // 8 banks on, so that a quad reads four rows at once

__device__ float minus_infinity() { return __int_as_float(0xff800000); }

// The place of chunk `chunk` of row `row` in a tile.
__device__ u32 swizzled(u32 row, u32 chunk) { return row * ROW_BYTES + 16 * (chunk ^ row % 8); }

// Copies PASS_ROWS of the tile's rows at a time; `left` rows exist from its first one on, then zeros.
template <u32 Rows> __device__ void copy_tile(u32 to, const char *from, int left)
{
#pragma unroll
    for (u32 row = 0; row < Rows; row += PASS_ROWS)
        SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<u128>(to + row * ROW_BYTES, from + row * ROW_BYTES,
                                              left > (int)row ? 16 : 0);
}

struct larger {
    static __device__ float of(float x, float y) { return fmaxf(x, y); }
};
struct sum {
    static __device__ float of(float x, float y) { return x + y; }
};
template <class Op, u32 Count> __device__ float lanes(float x) // over neighbouring lanes: 1, 2 or 4
{
#pragma unroll
    for (u32 lane = 1; lane < Count; lane *= 2)
        x = Op::of(x, shuffle_xor(x, lane));
    return x;
}
// x[r] becomes that of a row's lanes in all warps that have it.
template <class Op> __device__ void across(float (&x)[ROWS], float *to, const float *from)
{
#pragma unroll
    for (u32 r = 0; r < ROWS; r++) {
        x[r] = lanes<Op, 4>(x[r]);
        if (WARPS_N > 1 && threadIdx.x % 4 == 0)
            to[8 * r] = x[r];
    }
    if (WARPS_N == 1)
        return;
    __syncthreads();
#pragma unroll
    for (u32 r = 0; r < ROWS; r++) // lane t of the quad takes warp t's, and they agree
        x[r] = lanes<Op, WARPS_N>(from[8 * r]);
}

// S: s[i][j] is the fragment of 16-row tile i and 8-column tile j of the warp's part.
__device__ void scores(float (&s)[ROW_TILES][KEY_TILES][4], u32 q_at, u32 k_at)
{
#pragma unroll
    for (u32 i = 0; i < ROW_TILES; i++)
#pragma unroll
        for (u32 j = 0; j < KEY_TILES; j++)
            s[i][j][0] = s[i][j][1] = s[i][j][2] = s[i][j][3] = 0;
#pragma unroll
    for (u32 step = 0; step < 8; step++) {
        u32 a[ROW_TILES][4], b[4];
#pragma unroll
        for (u32 i = 0; i < ROW_TILES; i++)
            SM75_U32x4_LDSM_N(a[i], (q_at ^ 32 * step) + 16 * i * ROW_BYTES);
#pragma unroll
        for (u32 j = 0; j < KEY_TILES; j += 2) {
            SM75_U32x4_LDSM_N(b, (k_at ^ 32 * step) + 8 * j * ROW_BYTES);
#pragma unroll
            for (u32 i = 0; i < ROW_TILES; i++) {
                SM80_16x8x16_F32F16F16F32_TN(s[i][j], a[i], part<2>(b), s[i][j]);
                SM80_16x8x16_F32F16F16F32_TN(s[i][j + 1], a[i], part<2>(b + 2), s[i][j + 1]);
            }
        }
    }
}

// O += P V: o[i][j] is the fragment of 16-row tile i and 8-column tile j of the warp's part.
__device__ void output(float (&o)[ROW_TILES][OUT_TILES][4], u32 p_at, u32 v_at)
{
#pragma unroll
    for (u32 step = 0; step < BLOCK_N / 16; step++) {
        u32 a[ROW_TILES][4], b[4];
#pragma unroll
        for (u32 i = 0; i < ROW_TILES; i++)
            SM75_U32x4_LDSM_N(a[i], p_at + 32 * step + 16 * i * P_ROW_BYTES);
#pragma unroll
        for (u32 j = 0; j < OUT_TILES; j += 2) {
            SM75_U16x8_LDSM_T(b, (v_at ^ 16 * j) + 16 * step * ROW_BYTES);
#pragma unroll
            for (u32 i = 0; i < ROW_TILES; i++) {
                SM80_16x8x16_F32F16F16F32_TN(o[i][j], a[i], part<2>(b), o[i][j]);
                SM80_16x8x16_F32F16F16F32_TN(o[i][j + 1], a[i], part<2>(b + 2), o[i][j + 1]);
            }
        }
    }
}

// Turns scores into weights, two neighbours of each fragment in a row; writes P to shared memory, and updates m and l.
__device__ void weights(float (&s)[ROW_TILES][KEY_TILES][4], const float (&top)[ROWS], float (&m)[ROWS],
                        float (&l)[ROWS], float (&factor)[ROWS], float scale, u32 p_to)
{
#pragma unroll
    for (u32 r = 0; r < ROWS; r++) {
        const float high = fmaxf(m[r], scale * top[r]);
        factor[r] = ex2_approx_ftz_f32(m[r] - high); // 0 at the first block: m is -inf
        m[r] = high;
        l[r] *= factor[r];
#pragma unroll
        for (u32 j = 0; j < KEY_TILES; j++) {
            float *pair = s[r / 2][j] + r % 2 * 2;
            for (int e = 0; e < 2; e++)
                l[r] += pair[e] = ex2_approx_ftz_f32(fmaf(pair[e], scale, -high));
            asm volatile("st.shared.b32 [%0], %1;"
                         :: "r"(p_to + 8 * r * P_ROW_BYTES + 16 * j), "r"(pack_f16x2(pair[0], pair[1]))
                         : "memory");
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
prefill(u16 *o, const u16 *q, const u16 *k, const u16 *v, u32 seqlen_q, u32 seqlen_kv, float scale)
{
    extern __shared__ __align__(256) char shared[];
    const u32 q_tile = shared_address(shared), k_tile = q_tile + BLOCK_M * ROW_BYTES;
    const u32 v_tile = k_tile + BLOCK_N * ROW_BYTES, p_tile = v_tile + BLOCK_N * ROW_BYTES;
    float    *stats = reinterpret_cast<float *>(shared + (p_tile - q_tile) + BLOCK_M * P_ROW_BYTES);
    const u32 head = blockIdx.x, first = BLOCK_M * blockIdx.y, last = (seqlen_kv - 1) / BLOCK_N;

    // which thread copies what: 16 threads for each row
    const u32   copy_row = threadIdx.x / 16, copy_chunk = threadIdx.x % 16;
    const u32   copy_to = swizzled(copy_row, copy_chunk);
    const u64   kv_byte = (u64)(head * seqlen_kv + copy_row) * ROW_BYTES + 16 * copy_chunk;
    const u64   q_byte = (u64)(head * seqlen_q + first + copy_row) * ROW_BYTES + 16 * copy_chunk;
    const char *k_from = reinterpret_cast<const char *>(k) + kv_byte;
    const char *v_from = reinterpret_cast<const char *>(v) + kv_byte;
    int         left = (int)(seqlen_kv - copy_row);
    copy_tile<BLOCK_M>(q_tile + copy_to, reinterpret_cast<const char *>(q) + q_byte,
                       (int)(seqlen_q - first - copy_row));
    copy_tile<BLOCK_N>(k_tile + copy_to, k_from, left);
    cp_async_commit();

    // which warp computes what: warp WARPS_N wm + wn, lane 4g + t
    const u32 lane = threadIdx.x % 32, wm = threadIdx.x / 32 / WARPS_N, wn = threadIdx.x / 32 % WARPS_N;
    const u32 warp_row = 16 * ROW_TILES * wm, warp_key = 8 * KEY_TILES * wn;
    const u32 row = warp_row + lane / 4, column = 2 * (lane % 4);
    const u32 q_at = q_tile + swizzled(warp_row + lane % 16, lane / 16);
    const u32 p_at = p_tile + (warp_row + lane % 16) * P_ROW_BYTES + lane / 16 * 16;
    const u32 k_at = k_tile + swizzled(warp_key + lane % 8 + lane / 16 * 8, lane / 8 % 2);
    const u32 v_at = v_tile + swizzled(lane % 16, OUT_TILES * wn + lane / 16);
    const u32 p_to = p_tile + row * P_ROW_BYTES + 2 * (warp_key + column);
    float    *stats_to = stats + wn * STATS_ROW + row, *stats_from = stats + lane % WARPS_N * STATS_ROW + row;
    float     s[ROW_TILES][KEY_TILES][4], os[ROW_TILES][OUT_TILES][4] = {}, m[ROWS], l[ROWS] = {};
    float     top[ROWS], factor[ROWS];
    for (u32 r = 0; r < ROWS; r++)
        m[r] = minus_infinity();
    cp_async_wait<0>();
    __syncthreads();

    for (u32 n = 0; n <= last; n++) {
        copy_tile<BLOCK_N>(v_tile + copy_to, v_from, left);
        cp_async_commit();
        scores(s, q_at, k_at);
#pragma unroll
        for (u32 r = 0; r < ROWS; r++) {
            top[r] = minus_infinity();
#pragma unroll
            for (u32 e = 0; e < 2 * KEY_TILES; e++) {
                float &score = s[r / 2][e / 2][r % 2 * 2 + e % 2];
                if (n == last && n * BLOCK_N + warp_key + e / 2 * 8 + column + e % 2 >= seqlen_kv)
                    score = minus_infinity(); // only the last block has columns without a key
                top[r] = fmaxf(top[r], score);
            }
        }
        across<larger>(top, stats_to, stats_from);
        weights(s, top, m, l, factor, scale, p_to);
        cp_async_wait<0>();
        __syncthreads(); // P and V(n) are there, and all have read K(n)
        k_from += BLOCK_N * ROW_BYTES;
        v_from += BLOCK_N * ROW_BYTES;
        left -= BLOCK_N;
        if (n < last)
            copy_tile<BLOCK_N>(k_tile + copy_to, k_from, left);
        cp_async_commit();
#pragma unroll
        for (u32 e = 0; e < 4 * ROW_TILES * OUT_TILES; e++)
            os[e / 4 / OUT_TILES][e / 4 % OUT_TILES][e % 4] *= factor[e / 4 / OUT_TILES * 2 + e % 4 / 2];
        output(os, p_at, v_at);
        cp_async_wait<0>();
        __syncthreads(); // K(n+1) is there, and all have read P and V(n)
    }

    across<sum>(l, stats_to, stats_from);
#pragma unroll
    for (u32 r = 0; r < ROWS; r++) { // O / l to global memory: each lane writes two neighbours, a quad 16 bytes
        const float share = rcp_approx_f32(l[r]);
        u16        *to = o + (u64)(head * seqlen_q + first + row + 8 * r) * 128 + 8 * OUT_TILES * wn + column;
        if (first + row + 8 * r < seqlen_q)
#pragma unroll
            for (u32 j = 0; j < OUT_TILES; j++) {
                const float *pair = os[r / 2][j] + r % 2 * 2;
                *reinterpret_cast<u32 *>(to + 8 * j) = pack_f16x2(pair[0] * share, pair[1] * share);
            }
    }
}
