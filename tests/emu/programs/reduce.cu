// reduce.cu - sums: a tree in shared memory, warp shuffles, and the "last block finishes" form in one launch.
template <typename T> __device__ T warp_sum(T v)
{
    for (int step = 16; step > 0; step >>= 1)
        v += __shfl_down_sync(0xffffffffu, v, step);
    return v;
}

extern "C" __global__ void reduce_tree(const int *in, int *out, int n)
{
    extern __shared__ int cells[];
    unsigned int t = threadIdx.x, i = blockIdx.x * blockDim.x * 2 + t;
    cells[t] = (i < n ? in[i] : 0) + (i + blockDim.x < n ? in[i + blockDim.x] : 0);
    __syncthreads();
    for (unsigned int half = blockDim.x / 2; half > 0; half >>= 1) {
        if (t < half)
            cells[t] += cells[t + half];
        __syncthreads();
    }
    if (t == 0)
        out[blockIdx.x] = cells[0];
}

extern "C" __global__ void reduce_shuffle(const float *in, float *out, int n)
{
    __shared__ float warps[32];
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += in[i];
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < (blockDim.x + 31) / 32 ? warps[threadIdx.x] : 0;
        sum = warp_sum(sum);
        if (threadIdx.x == 0)
            atomicAdd(out, sum);
    }
}

__device__ unsigned int finished;

extern "C" __global__ void reduce_once(const double *in, double *partial, double *out, int n)
{
    __shared__ double warps[32];
    __shared__ bool last;
    double sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += in[i];
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < blockDim.x / 32; w++)
            sum += warps[w];
        ((volatile double *)partial)[blockIdx.x] = sum;
        __threadfence();
        last = atomicAdd(&finished, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        __threadfence();
        sum = 0;
        for (int b = 0; b < gridDim.x; b++)
            sum += ((volatile double *)partial)[b];
        *out = sum;
        finished = 0;
    }
}
