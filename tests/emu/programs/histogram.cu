// histogram.cu - of bytes: global atomics; a copy in shared memory; one a warp; and the aggregated form.
extern "C" __global__ void histogram_global(const unsigned char *in, int n, unsigned int *bins)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&bins[in[i]], 1u);
}

extern "C" __global__ void histogram_shared(const unsigned char *in, int n, unsigned int *bins)
{
    __shared__ unsigned int mine[256];
    for (int b = threadIdx.x; b < 256; b += blockDim.x)
        mine[b] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&mine[in[i]], 1u);
    __syncthreads();
    for (int b = threadIdx.x; b < 256; b += blockDim.x)
        if (mine[b])
            atomicAdd(&bins[b], mine[b]);
}

// Lanes with the same byte let one of them count for all.
extern "C" __global__ void histogram_aggregated(const unsigned char *in, int n, unsigned long long *bins)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        unsigned int active = __activemask(), value = in[i], same = 0, left = active;
        while (left) {
            unsigned int leader = __ffs(left) - 1;
            unsigned int theirs = __shfl_sync(active, value, leader);
            unsigned int equal = __ballot_sync(active, value == theirs);
            if (value == theirs)
                same = equal;
            left &= ~equal;
        }
        if (threadIdx.x % 32 == __ffs(same) - 1)
            atomicAdd(&bins[value], (unsigned long long)__popc(same));
    }
}

// Extremes, exchange, compare-and-swap loops: an atomic maximum of floats as it is written by hand.
__device__ void atomic_max_float(float *at, float v)
{
    int *word = (int *)at, old = *(volatile int *)word, seen;
    do {
        seen = old;
        if (__int_as_float(seen) >= v)
            return;
        old = atomicCAS(word, seen, __float_as_int(v));
    } while (old != seen);
}

extern "C" __global__ void extremes(const int *in, int n, int *low, int *high, unsigned int *bits, float *most,
                                    unsigned long long *wide)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    atomicMin(low, in[i]);
    atomicMax(high, in[i]);
    atomicXor(bits, (unsigned int)in[i]);
    atomicOr(bits + 1, (unsigned int)in[i]);
    atomicAnd(bits + 2, (unsigned int)in[i]);
    atomicInc(bits + 3, 99);
    atomic_max_float(most, (float)in[i]);
    atomicMax(wide, (unsigned long long)(unsigned int)in[i] << 20);
}
