// prefill.cu - prefill.ptx in CUDA C++: O = softmax(scale Q K^T) V for prompts, head dimension 128.
//
// tensors  q, o: [batch x head][seqlen_q][128], k, v: [batch x head][seqlen_kv][128], f16, packed
// limits   head dimension 128, f16, no mask, scale > 0; any sequence lengths; pointers are multiples of 16 bytes
// needs    sm_80
// grid     x = batch x heads, y = ceil(seqlen_q / 64);  256 threads, 58496 bytes of dynamic shared memory
//
// prefill.ptx shows which warp computes what, and the order of the steps.
//
//   ptxpack nvrtc tools/examples/prefill_d128/prefill.cu -D HEADS=2 -D LENGTH=150 \
//       --grid 'HEADS,(LENGTH+63)/64' --block 256 --smem 58496 --arg out:f16:HEADS*LENGTH*128 \
//       --arg in:f16:HEADS*LENGTH*128 --arg in:f16:HEADS*LENGTH*128 --arg in:f16:HEADS*LENGTH*128 \
//       --arg u32:LENGTH --arg u32:LENGTH --arg f32:0.1275

#include <ptxpack/inline/cp_async.h>
#include <ptxpack/inline/fast_math.h>
#include <ptxpack/inline/ldmatrix.h>
#include <ptxpack/inline/mma_sync.h>
#include <ptxpack/inline/shuffle.h>
using namespace ptxpack;

constexpr u32 BLOCK = 64, THREADS = 256; // rows of Q, and keys at a time
constexpr u32 ROW_BYTES = 256, P_ROW_BYTES = 2 * BLOCK, TILE_BYTES = BLOCK * ROW_BYTES;
constexpr u32 STATS_ROW = BLOCK + 8; // 8 banks on, so that a quad reads four rows at once

__device__ float minus_infinity() { return __int_as_float(0xff800000); }

// The place of chunk `chunk` of row `row` in a tile.
__device__ u32 swizzled(u32 row, u32 chunk, u32 row_bytes)
{
    return row * row_bytes + 16 * (chunk ^ row % 8);
}

// Copies 16 rows at a time with 256 threads; `left` rows exist from its first one on, then zeros.
__device__ void copy_tile(u32 to, const char *from, int left)
{
#pragma unroll
    for (u32 row = 0; row < BLOCK; row += 16)
        SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<u128>(to + row * ROW_BYTES, from + row * ROW_BYTES,
                                              left > (int)row ? 16 : 0);
}

struct larger {
    static __device__ float of(float x, float y) { return fmaxf(x, y); }
};
struct sum {
    static __device__ float of(float x, float y) { return x + y; }
};
template <class Op> __device__ float quad(float x) // over the four lanes that share a row
{
    x = Op::of(x, shuffle_xor(x, 1));
    return Op::of(x, shuffle_xor(x, 2));
}
// This lane has four rows: r = 0..3 stand for 8 r + g.  x[r] becomes that of a row's lanes in all four
// warps.
template <class Op> __device__ void across(float (&x)[4], float *to, const float *from)
{
#pragma unroll
    for (int r = 0; r < 4; r++) {
        x[r] = quad<Op>(x[r]);
        if (threadIdx.x % 4 == 0)
            to[8 * r] = x[r];
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 4; r++) // lane t of the quad takes warp t's, and they agree
        x[r] = quad<Op>(from[8 * r]);
}

// S: s[i][j] is the fragment of 16-row tile i and 8-column tile j of the warp's 32 x 16.
__device__ void scores(float (&s)[2][2][4], u32 q_at, u32 k_at)
{
#pragma unroll
    for (int i = 0; i < 16; i++)
        s[i / 8][i / 4 % 2][i % 4] = 0;
#pragma unroll
    for (u32 step = 0; step < 8; step++) {
        u32 a[2][4], b[4];
        SM75_U32x4_LDSM_N(a[0], q_at ^ 32 * step);
        SM75_U32x4_LDSM_N(a[1], (q_at ^ 32 * step) + 16 * ROW_BYTES);
        SM75_U32x4_LDSM_N(b, k_at ^ 32 * step);
#pragma unroll
        for (int i = 0; i < 4; i++)
            SM80_16x8x16_F32F16F16F32_TN(s[i / 2][i % 2], a[i / 2], part<2>(b + i % 2 * 2), s[i / 2][i % 2]);
    }
}

// O += P V: o[i][j] is the fragment of 16-row tile i and 8-column tile j of the warp's 32 x 32.
__device__ void output(float (&o)[2][4][4], u32 p_at, u32 v_at)
{
#pragma unroll
    for (u32 step = 0; step < 4; step++) {
        u32 a[2][4], b[2][4];
        SM75_U32x4_LDSM_N(a[0], p_at ^ 32 * step);
        SM75_U32x4_LDSM_N(a[1], (p_at ^ 32 * step) + 16 * P_ROW_BYTES);
        SM75_U16x8_LDSM_T(b[0], v_at + 16 * step * ROW_BYTES);
        SM75_U16x8_LDSM_T(b[1], (v_at ^ 32) + 16 * step * ROW_BYTES);
#pragma unroll
        for (int i = 0; i < 8; i++)
            SM80_16x8x16_F32F16F16F32_TN(o[i / 4][i % 4], a[i / 4], part<2>(b[i % 4 / 2] + i % 2 * 2),
                                         o[i / 4][i % 4]);
    }
}

// Turns scores into weights, two neighbours of each fragment in a row; writes P to shared memory, and updates m and l.
__device__ void weights(float (&s)[2][2][4], const float (&top)[4], float (&m)[4], float (&l)[4],
                        float (&factor)[4], float scale, u32 p_to)
{
#pragma unroll
    for (int r = 0; r < 4; r++) {
        const float high = fmaxf(m[r], scale * top[r]);
        factor[r] = ex2_approx_ftz_f32(m[r] - high); // 0 at the first block: m is -inf
        m[r] = high;
        l[r] *= factor[r];
#pragma unroll
        for (u32 j = 0; j < 2; j++) {
            float *pair = s[r / 2][j] + r % 2 * 2;
            for (int e = 0; e < 2; e++)
                l[r] += pair[e] = ex2_approx_ftz_f32(fmaf(pair[e], scale, -high));
            asm volatile("st.shared.b32 [%0], %1;" // the second fragment is the next chunk
                         :: "r"((p_to ^ 16 * j) + 8 * r * P_ROW_BYTES), "r"(pack_f16x2(pair[0], pair[1]))
                         : "memory");
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
prefill(u16 *o, const u16 *q, const u16 *k, const u16 *v, u32 seqlen_q, u32 seqlen_kv, float scale)
{
    extern __shared__ __align__(256) char shared[];
    const u32 q_tile = shared_address(shared), k_tile = q_tile + TILE_BYTES, v_tile = k_tile + TILE_BYTES;
    const u32 p_tile = v_tile + TILE_BYTES;
    float    *stats = reinterpret_cast<float *>(shared + 3 * TILE_BYTES + BLOCK * P_ROW_BYTES);
    const u32 head = blockIdx.x, first = BLOCK * blockIdx.y, last = (seqlen_kv - 1) / BLOCK;

    // which thread copies what: 16 threads for each row
    const u32   copy_row = threadIdx.x / 16, copy_chunk = threadIdx.x % 16;
    const u32   copy_to = swizzled(copy_row, copy_chunk, ROW_BYTES);
    const u64   kv_byte = (u64)(head * seqlen_kv + copy_row) * ROW_BYTES + 16 * copy_chunk;
    const u64   q_byte = (u64)(head * seqlen_q + first + copy_row) * ROW_BYTES + 16 * copy_chunk;
    const char *k_from = reinterpret_cast<const char *>(k) + kv_byte;
    const char *v_from = reinterpret_cast<const char *>(v) + kv_byte;
    int         left = (int)(seqlen_kv - copy_row);
    copy_tile(q_tile + copy_to, reinterpret_cast<const char *>(q) + q_byte,
              (int)(seqlen_q - first - copy_row));
    copy_tile(k_tile + copy_to, k_from, left);
    cp_async_commit();

    // which warp computes what: warp 4 wm + wn, lane 4g + t
    const u32 lane = threadIdx.x % 32, wm = threadIdx.x / 128, wn = threadIdx.x / 32 % 4;
    const u32 row = 32 * wm + lane / 4, column = 2 * (lane % 4);
    const u32 q_at = q_tile + swizzled(32 * wm + lane % 16, lane / 16, ROW_BYTES);
    const u32 p_at = p_tile + swizzled(32 * wm + lane % 16, lane / 16, P_ROW_BYTES);
    const u32 k_at = k_tile + swizzled(16 * wn + lane % 8 + lane / 16 * 8, lane / 8 % 2, ROW_BYTES);
    const u32 v_at = v_tile + swizzled(lane % 16, 4 * wn + lane / 16, ROW_BYTES);
    const u32 p_to = p_tile + swizzled(row, 2 * wn, P_ROW_BYTES) + 2 * column;
    float    *stats_to = stats + wn * STATS_ROW + row, *stats_from = stats + lane % 4 * STATS_ROW + row;
    float     s[2][2][4], os[2][4][4] = {}, m[4], l[4] = {0, 0, 0, 0}, top[4], factor[4];
    for (int r = 0; r < 4; r++)
        m[r] = minus_infinity();
    cp_async_wait<0>();
    __syncthreads();

    for (u32 n = 0; n <= last; n++) {
        copy_tile(v_tile + copy_to, v_from, left);
        cp_async_commit();
        scores(s, q_at, k_at);
#pragma unroll
        for (u32 i = 0; i < 16; i++) // only the last block has columns without a key
            if (n == last && n * BLOCK + 16 * wn + i / 4 % 2 * 8 + column + i % 2 >= seqlen_kv)
                s[i / 8][i / 4 % 2][i % 4] = minus_infinity();
#pragma unroll
        for (int r = 0; r < 4; r++) {
            const float *left_pair = s[r / 2][0] + r % 2 * 2, *right_pair = s[r / 2][1] + r % 2 * 2;
            top[r] = fmaxf(fmaxf(left_pair[0], left_pair[1]), fmaxf(right_pair[0], right_pair[1]));
        }
        across<larger>(top, stats_to, stats_from);
        weights(s, top, m, l, factor, scale, p_to);
        cp_async_wait<0>();
        __syncthreads(); // P and V(n) are there, and all have read K(n)
        k_from += TILE_BYTES;
        v_from += TILE_BYTES;
        left -= (int)BLOCK;
        if (n < last)
            copy_tile(k_tile + copy_to, k_from, left);
        cp_async_commit();
#pragma unroll
        for (int i = 0; i < 32; i++)
            os[i / 16][i / 4 % 4][i % 4] *= factor[i / 16 * 2 + i % 4 / 2];
        output(os, p_at, v_at);
        cp_async_wait<0>();
        __syncthreads(); // K(n+1) is there, and all have read P and V(n)
    }

    across<sum>(l, stats_to, stats_from);
#pragma unroll
    for (int r = 0; r < 4; r++) { // O / l to global memory: each lane writes two neighbours, a quad 16 bytes
        const float share = rcp_approx_f32(l[r]);
        u16        *to = o + (u64)(head * seqlen_q + first + row + 8 * r) * 128 + 32 * wn + column;
        if (first + row + 8 * r < seqlen_q)
#pragma unroll
            for (u32 j = 0; j < 4; j++) {
                const float *pair = os[r / 2][j] + r % 2 * 2;
                *reinterpret_cast<u32 *>(to + 8 * j) = pack_f16x2(pair[0] * share, pair[1] * share);
            }
    }
}
