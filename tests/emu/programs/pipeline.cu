// pipeline.cu - libcu++: barriers, a pipeline of asynchronous copies, memcpy_async, atomics of a scope.
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
namespace cg = cooperative_groups;

// Half of the threads produce, the other half consume, through two buffers and four barriers.
extern "C" __global__ void barrier_produce(const int *in, int *out, int rounds)
{
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ barrier ready[2], filled[2];
    __shared__ int cells[2][64];
    int t = threadIdx.x;
    if (t < 2) {
        init(&ready[t], 128);
        init(&filled[t], 128);
    }
    __syncthreads();
    if (t < 64) {
        for (int r = 0; r < rounds; r++) {
            ready[r % 2].arrive_and_wait();
            cells[r % 2][t] = in[r * 64 + t] * 2;
            barrier::arrival_token token = filled[r % 2].arrive();
            (void)token;
        }
    } else {
        barrier::arrival_token first = ready[0].arrive(), second = ready[1].arrive();
        (void)first;
        (void)second;
        int sum = 0;
        for (int r = 0; r < rounds; r++) {
            filled[r % 2].arrive_and_wait();
            sum += cells[r % 2][127 - t];
            barrier::arrival_token token = ready[r % 2].arrive();
            (void)token;
        }
        out[t - 64] = sum;
    }
}

extern "C" __global__ void pipeline_copy(const int4 *in, int4 *out, int batches)
{
    constexpr int stages = 3;
    extern __shared__ int4 buffer[];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, stages> state;
    cg::thread_block block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    int n = block.size(), t = block.thread_rank(), fetched = 0;
    in += blockIdx.x * n * batches;
    out += blockIdx.x * n * batches;
    for (int done = 0; done < batches; done++) {
        for (; fetched < batches && fetched < done + stages; fetched++) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, buffer + fetched % stages * n, in + fetched * n,
                               cuda::aligned_size_t<16>(n * sizeof(int4)), pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        int4 v = buffer[done % stages * n + (t + 1) % n];
        out[done * n + t] = make_int4(v.w, v.z, v.y, v.x);
        pipe.consumer_release();
    }
}

extern "C" __global__ void group_copy(const float *in, float *out, int n)
{
    __shared__ float cells[512];
    cg::thread_block block = cg::this_thread_block();
    cg::memcpy_async(block, cells, in + blockIdx.x * n, sizeof(float) * n);
    cg::wait(block);
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        out[blockIdx.x * n + i] = cells[n - 1 - i];
}

extern "C" __global__ void barrier_copy(const float4 *in, float *out)
{
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ barrier bar;
    __shared__ __align__(16) float4 cells[128];
    if (threadIdx.x == 0)
        init(&bar, blockDim.x);
    __syncthreads();
    cuda::memcpy_async(&cells[threadIdx.x], in + blockIdx.x * blockDim.x + threadIdx.x,
                       cuda::aligned_size_t<16>(16), bar);
    bar.arrive_and_wait();
    float4 v = cells[blockDim.x - 1 - threadIdx.x];
    out[blockIdx.x * blockDim.x + threadIdx.x] = v.x + v.y + v.z + v.w;
}

// Message passing between blocks: flags with release and acquire.
extern "C" __global__ void atomics(int *data, int *flag, int *out, unsigned long long *total)
{
    cuda::atomic_ref<int, cuda::thread_scope_device> f(*flag);
    cuda::atomic_ref<unsigned long long, cuda::thread_scope_device> sum(*total);
    if (threadIdx.x == 0) {
        if (blockIdx.x == 0) {
            *data = 42;
            f.store(1, cuda::memory_order_release);
        } else {
            while (f.load(cuda::memory_order_acquire) == 0)
                ;
            out[blockIdx.x] = *data + blockIdx.x;
        }
    }
    sum.fetch_add(threadIdx.x, cuda::memory_order_relaxed);
    sum.fetch_max(7, cuda::memory_order_acq_rel);
}
