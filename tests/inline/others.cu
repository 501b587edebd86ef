// others.cu - the functions of ptx/inline that are not atoms of a table, and TMA; others.c knows the right results,
// and how many threads and blocks each kernel has.
#include <ptxpack/inline/cluster.h>
#include <ptxpack/inline/cp_async.h>
#include <ptxpack/inline/fast_math.h>
#include <ptxpack/inline/mbarrier.h>
#include <ptxpack/inline/named_barrier.h>
#include <ptxpack/inline/shuffle.h>
#include <ptxpack/inline/tma.h>
#include <ptxpack/inline/wgmma.h>

using namespace ptxpack;

// ---- lanes: out[row][lane]
extern "C" __global__ void lanes(u32 *out, const u32 *in)
{
    const u32 l = lane_id(), x = in[l];
    u32      *o = out + l;
    o[32 * 0] = shuffle(x, 5);
    o[32 * 1] = shuffle(x, 9, 8);
    o[32 * 2] = shuffle_up(x, 3);
    o[32 * 3] = shuffle_up(x, 3, 8);
    o[32 * 4] = shuffle_down(x, 3);
    o[32 * 5] = shuffle_down(x, 3, 8);
    o[32 * 6] = shuffle_xor(x, 6);
    o[32 * 7] = (u32)shuffle_xor((float)l, 9);
    o[32 * 8] = (u32)-shuffle_xor(-(s32)l, 17);
    o[32 * 9] = vote_all(l < 32) + 2 * vote_all(l != 7);
    o[32 * 10] = vote_any(l == 7) + 2 * vote_any(l > 31);
    o[32 * 11] = vote_same(l > 31) + 2 * vote_same(l == 7);
    o[32 * 12] = vote_ballot(x & 1);
    o[32 * 13] = match_any(l / 4);
    o[32 * 14] = redux_add(x);
    o[32 * 15] = redux_min(x);
    o[32 * 16] = redux_max(x);
    o[32 * 17] = (u32)redux_add((s32)x);
    o[32 * 18] = (u32)redux_min((s32)x);
    o[32 * 19] = (u32)redux_max((s32)x);
    o[32 * 20] = redux_and(x | 0xff);
    o[32 * 21] = redux_or(x & 0xff00);
    o[32 * 22] = redux_xor(x);
    o[32 * 23] = vote_ballot(elect_one());
    warp_sync();
    o[32 * 24] = l;
}

// ---- numbers, by one thread: f[0..] exact results of f32, w[0..] words
extern "C" __global__ void numbers(float *f, u32 *w)
{
    f[0] = ex2_approx_f32(-3.0f);
    f[1] = ex2_approx_ftz_f32(5.0f);
    f[2] = lg2_approx_f32(0.125f);
    f[3] = lg2_approx_ftz_f32(1024.0f);
    f[4] = rcp_approx_f32(-8.0f);
    f[5] = rcp_approx_ftz_f32(0.25f);
    f[6] = rsqrt_approx_f32(16.0f);
    f[7] = rsqrt_approx_ftz_f32(0.25f);
    f[8] = sqrt_approx_f32(9.0f);
    f[9] = sqrt_approx_ftz_f32(0.0625f);
    f[10] = tanh_approx_f32(0.0f);
    f[11] = sin_approx_f32(0.0f);
    f[12] = cos_approx_f32(0.0f);
    f[13] = sin_approx_ftz_f32(0.0f);
    f[14] = cos_approx_ftz_f32(0.0f);
    f[15] = from_f16(to_f16(-1.0f / 3));
    unpack_f16x2(f[16], f[17], pack_f16x2(1.5f, -2.0f));
    unpack_bf16x2(f[18], f[19], pack_bf16x2(1.00390625f, -3.0f)); // halfway between 1 and 1.0078125: to even
    const u32 h = pack_f16x2(3.0f, -0.5f), g = pack_f16x2(2.0f, 4.0f), one = pack_f16x2(1.0f, 1.0f);
    const u32 b = pack_bf16x2(3.0f, -0.5f), c = pack_bf16x2(2.0f, 4.0f), b_one = pack_bf16x2(1.0f, 1.0f);
    w[0] = h;
    w[1] = b;
    w[2] = add_rn_f16x2(h, g);
    w[3] = sub_rn_f16x2(h, g);
    w[4] = mul_rn_f16x2(h, g);
    w[5] = fma_rn_f16x2(h, g, one);
    w[6] = fma_rn_relu_f16x2(h, g, one);
    w[7] = min_f16x2(h, g);
    w[8] = max_f16x2(h, g);
    w[9] = neg_f16x2(h);
    w[10] = abs_f16x2(h);
    w[11] = ex2_approx_f16x2(g);
    w[12] = tanh_approx_f16x2(0);
    w[13] = add_rn_bf16x2(b, c);
    w[14] = sub_rn_bf16x2(b, c);
    w[15] = mul_rn_bf16x2(b, c);
    w[16] = fma_rn_bf16x2(b, c, b_one);
    w[17] = fma_rn_relu_bf16x2(b, c, b_one);
    w[18] = min_bf16x2(b, c);
    w[19] = max_bf16x2(b, c);
    w[20] = neg_bf16x2(b);
    w[21] = abs_bf16x2(b);
    w[22] = ex2_approx_ftz_bf16x2(c);
    w[23] = tanh_approx_bf16x2(0);
    w[24] = to_tf32(1.00048828125f); // halfway between 1 and 1 + 2^-10: away from zero
    w[25] = pack_e4m3x4(1.0f, -2.0f, 1000.0f, 0.5f);
    w[26] = pack_e5m2x4(1.0f, -2.0f, 0.25f, 0.5f);
    w[27] = f16x2_of_e4m3x2(pack_e4m3x2(1.5f, -448.0f));
    w[28] = f16x2_of_e5m2x2(pack_e5m2x2(-1.5f, 57344.0f));
}

// ---- barriers: four warps; warp 0 waits for the data that each other warp brings in its own way
extern "C" __global__ void barriers(u32 *out, const u32 *in)
{
    __shared__ alignas(16) u32 data[128];
    __shared__ alignas(8) u64  phases[2];
    const u32 thread = threadIdx.x, warp = thread / 32;
    const u32 copied = shared_address(&phases[0]), counted = shared_address(&phases[1]);
    if (thread == 0) {
        mbarrier_init(copied, 32);
        mbarrier_init(counted, 32);
        mbarrier_init_done();
    }
    __syncthreads();
    if (warp == 1) {
        SM80_CP_ASYNC_CACHEALWAYS<u32>(shared_address(&data[thread]), &in[thread]);
        cp_async_arrive(copied);
    } else if (warp == 2) {
        data[thread] = in[thread];
        mbarrier_arrive(counted);
    } else if (warp == 3) {
        data[thread] = in[thread];
        named_arrive(3, 64);
    } else {
        mbarrier_wait(copied, 0);
        mbarrier_wait(counted, 0);
        named_wait(3, 64);
        for (int i = 1; i < 4; i++)
            out[32 * i + thread] = data[32 * i + thread];
        out[thread] = mbarrier_test_wait(counted, 0) + 2 * mbarrier_test_wait(counted, 1);
    }
    __syncthreads();
    if (thread == 0) {
        mbarrier_inval(copied);
        mbarrier_inval(counted);
    }
}

// ---- bytes by the copy engine: in -> shared -> out
extern "C" __global__ void bulk(u32 *out, const u32 *in)
{
    __shared__ alignas(128) u32 data[64];
    __shared__ alignas(8) u64   phase;
    const u32 barrier = shared_address(&phase), at = shared_address(data), thread = threadIdx.x;
    if (thread == 0) {
        mbarrier_init(barrier, 1);
        mbarrier_init_done();
        bulk_prefetch(in, 256);
        mbarrier_expect(barrier, 256);
        mbarrier_arrive(barrier);
        SM90_BULK_COPY_G2S(at, in, 256, barrier);
    }
    __syncthreads();
    mbarrier_wait(barrier, 0);
    data[thread] += 1;
    tma_store_ready();
    __syncthreads();
    if (thread == 0) {
        SM90_BULK_COPY_S2G(out, at, 256);
        tma_store_commit();
        tma_store_wait_read<0>();
        tma_store_wait<0>();
    }
}

// ---- boxes of tensors of n dimensions: from -> seen; seen + 1 -> to; sum += seen + 1
struct alignas(64) tensor_map {
    u64 word[16];
};
struct tensors {
    tensor_map from, to, sum;
    s32        x[5];
    u32        bytes;
};
enum { BOX_WORDS = 64 };
PTXPACK_DEVICE void open_barrier(u32 barrier)
{
    if (threadIdx.x == 0) {
        mbarrier_init(barrier, 1);
        mbarrier_init_done();
    }
    __syncthreads();
}
#define BOXES(n)                                                                                    \
    extern "C" __global__ void boxes_##n(const __grid_constant__ tensors t, u32 *seen)              \
    {                                                                                               \
        __shared__ alignas(128) u32 box[BOX_WORDS];                                                 \
        __shared__ alignas(8) u64   phase;                                                          \
        const u32 barrier = shared_address(&phase), at = shared_address(box), thread = threadIdx.x; \
        s32       x[n];                                                                             \
        for (int i = 0; i < n; i++)                                                                 \
            x[i] = t.x[i];                                                                          \
        open_barrier(barrier);                                                                      \
        if (thread == 0) {                                                                          \
            tma_prefetch_map(&t.from);                                                              \
            tma_prefetch_##n##d(&t.from, PTXPACK_TMA_OF_##n);                                       \
            mbarrier_arrive_expect(barrier, t.bytes);                                               \
            SM90_TMA_LOAD(at, &t.from, barrier, x);                                                 \
        }                                                                                           \
        mbarrier_wait(barrier, 0);                                                                  \
        for (u32 i = thread; i < t.bytes / 4; i += 32)                                              \
            seen[i] = box[i]++;                                                                     \
        tma_store_ready();                                                                          \
        __syncthreads();                                                                            \
        if (thread == 0) {                                                                          \
            SM90_TMA_STORE(&t.to, at, x);                                                           \
            SM90_TMA_REDUCE_ADD(&t.sum, at, x);                                                     \
            tma_store_commit();                                                                     \
            tma_store_wait<0>();                                                                    \
        }                                                                                           \
    }                                                                                               \
    /* two blocks of a cluster; the load of the first one fills both */                           \
    extern "C" __global__ void __cluster_dims__(2, 1, 1)                                            \
        boxes_of_two_##n(const __grid_constant__ tensors t, u32 *seen)                              \
    {                                                                                               \
        __shared__ alignas(128) u32 box[BOX_WORDS];                                                 \
        __shared__ alignas(8) u64   phase;                                                          \
        const u32 barrier = shared_address(&phase), at = shared_address(box), thread = threadIdx.x; \
        s32       x[n];                                                                             \
        for (int i = 0; i < n; i++)                                                                 \
            x[i] = t.x[i];                                                                          \
        open_barrier(barrier);                                                                      \
        if (thread == 0)                                                                            \
            mbarrier_arrive_expect(barrier, t.bytes);                                               \
        cluster_arrive();                                                                           \
        cluster_wait();                                                                             \
        if (thread == 0 && cluster_rank() == 0)                                                     \
            SM90_TMA_LOAD_MULTICAST(at, &t.from, barrier, 3, x);                                    \
        mbarrier_wait(barrier, 0);                                                                  \
        for (u32 i = thread; i < t.bytes / 4; i += 32)                                              \
            seen[BOX_WORDS * cluster_rank() + i] = box[i];                                          \
        cluster_arrive();                                                                           \
        cluster_wait();                                                                             \
    }
BOXES(1)
BOXES(2)
BOXES(3)
BOXES(4)
BOXES(5)

// ---- wgmma by four warps: out[0..3][thread] = A B, which replaces the old sums; out[4..7] = these sums minus A B
extern "C" __global__ void __launch_bounds__(128) signs(float *out, const u32 *in)
{
    __shared__ alignas(1024) u32 tiles[640]; // A, then B: core matrices 128 and 256 bytes apart
    const u32 thread = threadIdx.x, at = shared_address(tiles);
    for (u32 i = thread; i < 576; i += 128)
        tiles[i] = in[i];
    const u64 a = wgmma_descriptor(at, 128, 256, WGMMA_SWIZZLE_NONE);
    const u64 b = wgmma_descriptor(at + 2048, 128, 256, WGMMA_SWIZZLE_NONE);
    float     d[4] = {1, 2, 3, 4}, e[4];
    wgmma_shared_ready();
    __syncthreads();
    wgmma_hold(d);
    wgmma_fence();
    SM90_64x8x16_F32F16F16_SS(d, a, b, 0);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_hold(d);
    for (int i = 0; i < 4; i++)
        e[i] = d[i];
    wgmma_hold(e);
    wgmma_fence();
    SM90_64x8x16_F32F16F16_SS<WGMMA_K, WGMMA_K, -1, 1>(e, a, b);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_hold(e);
    for (int i = 0; i < 4; i++) {
        out[128 * i + thread] = d[i];
        out[512 + 128 * i + thread] = e[i];
    }
}

// ---- two blocks of a cluster: out[block][..] = what the other block sent
extern "C" __global__ void __cluster_dims__(2, 1, 1) neighbours(u32 *out)
{
    __shared__ alignas(128) u32 mine[32], theirs[32], word[2];
    __shared__ alignas(8) u64   phase;
    const u32 rank = cluster_rank(), other = rank ^ 1, thread = threadIdx.x;
    const u32 barrier = shared_address(&phase);
    mine[thread] = 1000 * rank + thread;
    if (thread == 0) {
        word[0] = 7 + rank;
        mbarrier_init(barrier, 2);
        mbarrier_init_done();
        mbarrier_arrive_expect(barrier, 128);
    }
    tma_store_ready();
    cluster_arrive();
    cluster_wait();
    if (thread == 0) {
        const u32 remote = cluster_address(barrier, other);
        bulk_copy_to_block(cluster_address(shared_address(theirs), other), shared_address(mine), 128, remote);
        cluster_store(cluster_address(shared_address(&word[1]), other), 50 + rank);
        mbarrier_arrive_remote(remote);
    }
    mbarrier_wait(barrier, 0);
    out[64 * rank + thread] = theirs[thread];
    cluster_arrive();
    cluster_wait();
    if (thread == 0) {
        out[64 * rank + 32] = word[1];
        out[64 * rank + 33] = cluster_load(cluster_address(shared_address(&word[0]), other));
        out[64 * rank + 34] = cluster_blocks();
    }
    cluster_arrive();
    cluster_wait();
}
