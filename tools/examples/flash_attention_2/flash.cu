// flash.cu - flash.ptx in CUDA C++: O = softmax(scale Q K^T) V, a minimal FlashAttention-2.
//
// tensors  q, o: [heads][seqlen_q][HEAD_DIM], k, v: [heads][seqlen_kv][HEAD_DIM], f16, packed; `heads`
//          counts those of all batches
// macros   HEAD_DIM 64 or 128 (default 128);  CAUSAL 1: row i sees keys 0..i only (default 0)
// limits   scale > 0, any sequence lengths; pointers are multiples of 16 bytes
// needs    sm_80
// grid     x = ceil(seqlen_q / 64), y = heads;  128 threads: warp w has rows 16 w .. of the block's 64
// shared   Q (in the end O), K, V: tiles of 64 rows; chunk c (16 bytes) of row r lies at chunk c ^ (r % 8)
//
// flash.ptx explains the order of the steps.
//
//   ptxpack nvrtc tools/examples/flash_attention_2/flash.cu -D CAUSAL=1 -D HEADS=2 -D LENGTH=150 \
//       --grid '(LENGTH+63)/64,HEADS' --block 128 --arg out:f16:HEADS*LENGTH*128 \
//       --arg in:f16:HEADS*LENGTH*128 --arg in:f16:HEADS*LENGTH*128 --arg in:f16:HEADS*LENGTH*128 \
//       --arg u32:LENGTH --arg u32:LENGTH --arg f32:0.1275

#include <ptxpack/inline/cp_async.h>
#include <ptxpack/inline/fast_math.h>
#include <ptxpack/inline/ldmatrix.h>
#include <ptxpack/inline/mma_sync.h>
#include <ptxpack/inline/shuffle.h>
using namespace ptxpack;

#ifndef HEAD_DIM
#define HEAD_DIM 128
#endif
#ifndef CAUSAL
#define CAUSAL 0
#endif
static_assert(HEAD_DIM == 64 || HEAD_DIM == 128, "flash: HEAD_DIM is 64 or 128");

constexpr u32 BLOCK = 64, THREADS = 128; // rows of Q, and keys at a time
constexpr u32 ROW_BYTES = 2 * HEAD_DIM, TILE_BYTES = BLOCK * ROW_BYTES, CHUNKS = ROW_BYTES / 16;
constexpr u32 PASS_ROWS = THREADS / CHUNKS; // rows that all threads copy together: a multiple of 8
constexpr u32 K_STEPS = HEAD_DIM / 16, P_STEPS = BLOCK / 16, S_TILES = BLOCK / 8, O_TILES = HEAD_DIM / 8;

__device__ float minus_infinity() { return __int_as_float(0xff800000); }

// The place of chunk `chunk` of row `row` in a tile.
__device__ u32 swizzled(u32 row, u32 chunk) { return row * ROW_BYTES + 16 * (chunk ^ row % 8); }

// Copies this thread's 16 bytes of every PASS_ROWS rows; `left` rows exist from its first one on, then zeros.
__device__ void copy_tile(u32 to, const char *from, int left)
{
#pragma unroll
    for (u32 row = 0; row < BLOCK; row += PASS_ROWS)
        SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<u128>(to + row * ROW_BYTES, from + row * ROW_BYTES,
                                              left > (int)row ? 16 : 0);
}

// Reduces over the four lanes that share a row.
__device__ float quad_max(float x)
{
    x = fmaxf(x, shuffle_xor(x, 1));
    return fmaxf(x, shuffle_xor(x, 2));
}
__device__ float quad_sum(float x)
{
    x += shuffle_xor(x, 1);
    return x + shuffle_xor(x, 2);
}

// Computes S = Q K^T: the fragments of S have 8 columns each, like those of O.
__device__ void scores(float (&s)[S_TILES][4], const u32 (&q)[K_STEPS][4], u32 k_at)
{
#pragma unroll
    for (u32 j = 0; j < S_TILES; j++)
        s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0;
#pragma unroll
    for (u32 step = 0; step < K_STEPS; step++)
#pragma unroll
        for (u32 j = 0; j < S_TILES; j += 2) {
            u32 b[4];
            SM75_U32x4_LDSM_N(b, (k_at ^ 32 * step) + 8 * j * ROW_BYTES);
            SM80_16x8x16_F32F16F16F32_TN(s[j], q[step], part<2>(b), s[j]);
            SM80_16x8x16_F32F16F16F32_TN(s[j + 1], q[step], part<2>(b + 2), s[j + 1]);
        }
}

// For row g + 8 h: turns scores into weights, and updates m, l and O.
__device__ void softmax_row(int h, float (&s)[S_TILES][4], float (&o)[O_TILES][4], float &m, float &l,
                            float scale)
{
    float top = minus_infinity();
#pragma unroll
    for (u32 j = 0; j < S_TILES; j++)
        top = fmaxf(top, fmaxf(s[j][2 * h], s[j][2 * h + 1]));
    const float high = fmaxf(m, scale * quad_max(top));
    const float factor = ex2_approx_ftz_f32(m - high); // 0 at the first block: m is -inf
    m = high;
    l *= factor;
#pragma unroll
    for (u32 j = 0; j < S_TILES; j++)
#pragma unroll
        for (int e = 2 * h; e < 2 * h + 2; e++)
            l += s[j][e] = ex2_approx_ftz_f32(fmaf(s[j][e], scale, -high));
#pragma unroll
    for (u32 j = 0; j < O_TILES; j++) {
        o[j][2 * h] *= factor;
        o[j][2 * h + 1] *= factor;
    }
}

// Computes O += P V; two rounded C fragments are an A fragment.
__device__ void output(float (&o)[O_TILES][4], const float (&s)[S_TILES][4], u32 v_at)
{
#pragma unroll
    for (u32 step = 0; step < P_STEPS; step++) {
        const float(&left)[4] = s[2 * step], (&right)[4] = s[2 * step + 1];
        const u32 p[4] = {pack_f16x2(left[0], left[1]), pack_f16x2(left[2], left[3]),
                          pack_f16x2(right[0], right[1]), pack_f16x2(right[2], right[3])};
#pragma unroll
        for (u32 j = 0; j < O_TILES; j += 2) {
            u32 b[4];
            SM75_U16x8_LDSM_T(b, (v_at ^ 16 * j) + 16 * step * ROW_BYTES);
            SM80_16x8x16_F32F16F16F32_TN(o[j], p, part<2>(b), o[j]);
            SM80_16x8x16_F32F16F16F32_TN(o[j + 1], p, part<2>(b + 2), o[j + 1]);
        }
    }
}

// Row g + 8 h sees the keys below `sees`; this lane's are first + 8 j and the next.
__device__ void mask_row(int h, float (&s)[S_TILES][4], u32 first, u32 sees)
{
#pragma unroll
    for (u32 j = 0; j < S_TILES; j++)
#pragma unroll
        for (u32 e = 0; e < 2; e++)
            if (first + 8 * j + e >= sees)
                s[j][2 * h + e] = minus_infinity();
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
flash(u16 *o, const u16 *q, const u16 *k, const u16 *v, u32 seqlen_q, u32 seqlen_kv, float scale)
{
    __shared__ __align__(256) char shared[3 * TILE_BYTES];
    const u32 q_tile = shared_address(shared), k_tile = q_tile + TILE_BYTES, v_tile = k_tile + TILE_BYTES;
    const u32 head = blockIdx.y;
    const u32 tile = CAUSAL ? gridDim.x - 1 - blockIdx.x : blockIdx.x; // the longest rows first
    const u32 first = BLOCK * tile, all = (seqlen_kv - 1) / BLOCK, last = CAUSAL && tile < all ? tile : all;

    // which thread copies what: CHUNKS threads for each row
    const u32   copy_row = threadIdx.x / CHUNKS, copy_chunk = threadIdx.x % CHUNKS;
    const u32   copy_to = swizzled(copy_row, copy_chunk);
    const u64   kv_byte = (u64)(head * seqlen_kv + copy_row) * ROW_BYTES + 16 * copy_chunk;
    const u64   q_byte = (u64)(head * seqlen_q + first + copy_row) * ROW_BYTES + 16 * copy_chunk;
    const char *k_from = reinterpret_cast<const char *>(k) + kv_byte;
    const char *v_from = reinterpret_cast<const char *>(v) + kv_byte;
    int         left = (int)(seqlen_kv - copy_row);
    copy_tile(q_tile + copy_to, reinterpret_cast<const char *>(q) + q_byte,
              (int)(seqlen_q - first - copy_row));
    copy_tile(k_tile + copy_to, k_from, left);
    cp_async_commit();

    // which lane computes what: lane 4g + t of a warp has rows g and g + 8, columns 2t, 2t + 1 of each fragment
    const u32 lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * 16;
    const u32 row = first + warp_row + lane / 4, column = 2 * (lane % 4);
    const u32 q_at = q_tile + swizzled(warp_row + lane % 16, lane / 16);
    const u32 k_at = k_tile + swizzled(lane % 8 + lane / 16 * 8, lane / 8 % 2);
    const u32 v_at = v_tile + swizzled(lane % 16, lane / 16);
    u32       qs[K_STEPS][4]; // Q stays in registers
    float     s[S_TILES][4], os[O_TILES][4] = {}, m[2] = {minus_infinity(), minus_infinity()}, l[2] = {0, 0};
    cp_async_wait<0>();
    __syncthreads();
#pragma unroll
    for (u32 step = 0; step < K_STEPS; step++)
        SM75_U32x4_LDSM_N(qs[step], q_at ^ 32 * step);

    for (u32 n = 0; n <= last; n++) {
        copy_tile(v_tile + copy_to, v_from, left);
        cp_async_commit();
        scores(s, qs, k_at);
        if (n == last) { // only the last block has keys that not every row sees
            mask_row(0, s, n * BLOCK + column, CAUSAL ? min(row + 1, seqlen_kv) : seqlen_kv);
            mask_row(1, s, n * BLOCK + column, CAUSAL ? min(row + 9, seqlen_kv) : seqlen_kv);
        }
        softmax_row(0, s, os, m[0], l[0], scale);
        softmax_row(1, s, os, m[1], l[1], scale);
        cp_async_wait<0>();
        __syncthreads(); // V(n) is there, and all have read K(n)
        k_from += TILE_BYTES;
        v_from += TILE_BYTES;
        left -= (int)BLOCK;
        if (n < last)
            copy_tile(k_tile + copy_to, k_from, left);
        cp_async_commit();
        output(os, s, v_at);
        cp_async_wait<0>();
        __syncthreads(); // K(n+1) is there, and all have read V(n)
    }

    // O / l to the warp's rows of Q's tile: each lane writes two neighbours, a quad a chunk
    const u32 o_at = q_tile + swizzled(warp_row + lane / 4, 0) + 2 * column;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const float share = rcp_approx_f32(quad_sum(l[h]));
#pragma unroll
        for (u32 j = 0; j < O_TILES; j++)
            asm volatile("st.shared.b32 [%0], %1;"
                         :: "r"((o_at ^ 16 * j) + 8 * h * ROW_BYTES),
                            "r"(pack_f16x2(os[j][2 * h] * share, os[j][2 * h + 1] * share))
                         : "memory");
    }
    __syncwarp();
    // and from there to global memory: each lane writes a chunk, CHUNKS lanes a row
    const u32   from = warp_row + lane / CHUNKS, to = first + from;
    char       *out = reinterpret_cast<char *>(o) + (u64)(head * seqlen_q + to) * ROW_BYTES + 16 * (lane % CHUNKS);
#pragma unroll
    for (u32 row_on = 0; row_on < 16; row_on += 32 / CHUNKS)
        if (to + row_on < seqlen_q)
            *reinterpret_cast<uint4 *>(out + row_on * ROW_BYTES) =
                *reinterpret_cast<const uint4 *>(shared + swizzled(from + row_on, lane % CHUNKS));
}
