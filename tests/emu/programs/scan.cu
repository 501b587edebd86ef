// scan.cu - prefix sums: Hillis-Steele in double buffers, Blelloch's up- and down-sweep with block sums, and
// shuffles with a look back at the blocks before (they spin on a flag).
extern "C" __global__ void scan_hillis_steele(const int *in, int *out)
{
    extern __shared__ int cells[];
    int t = threadIdx.x, n = blockDim.x, from = 0, to = 1;
    cells[t] = in[blockIdx.x * n + t];
    __syncthreads();
    for (int step = 1; step < n; step *= 2) {
        cells[to * n + t] = cells[from * n + t] + (t >= step ? cells[from * n + t - step] : 0);
        from = 1 - from;
        to = 1 - to;
        __syncthreads();
    }
    out[blockIdx.x * n + t] = cells[from * n + t];
}

extern "C" __global__ void scan_blelloch(const unsigned int *in, unsigned int *out, unsigned int *sums, int count)
{
    extern __shared__ unsigned int tree[];
    int t = threadIdx.x, n = 2 * blockDim.x, base = blockIdx.x * n, offset = 1;
    tree[2 * t] = base + 2 * t < count ? in[base + 2 * t] : 0;
    tree[2 * t + 1] = base + 2 * t + 1 < count ? in[base + 2 * t + 1] : 0;
    for (int d = n >> 1; d > 0; d >>= 1) {
        __syncthreads();
        if (t < d)
            tree[offset * (2 * t + 2) - 1] += tree[offset * (2 * t + 1) - 1];
        offset *= 2;
    }
    if (t == 0) {
        if (sums)
            sums[blockIdx.x] = tree[n - 1];
        tree[n - 1] = 0;
    }
    for (int d = 1; d < n; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (t < d) {
            int low = offset * (2 * t + 1) - 1, high = offset * (2 * t + 2) - 1;
            unsigned int v = tree[low];
            tree[low] = tree[high];
            tree[high] += v;
        }
    }
    __syncthreads();
    if (base + 2 * t < count)
        out[base + 2 * t] = tree[2 * t];
    if (base + 2 * t + 1 < count)
        out[base + 2 * t + 1] = tree[2 * t + 1];
}

extern "C" __global__ void scan_add(unsigned int *out, const unsigned int *offsets, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] += offsets[i / (2 * blockDim.x)];
}

__device__ int warp_scan(int v)
{
    int lane = threadIdx.x % 32;
    for (int step = 1; step < 32; step *= 2) {
        int other = __shfl_up_sync(0xffffffffu, v, step);
        if (lane >= step)
            v += other;
    }
    return v;
}

// state[b]: 0 nothing yet, otherwise 1 + the sum of all blocks up to b
extern "C" __global__ void scan_look_back(const int *in, int *out, int count, volatile unsigned long long *state)
{
    __shared__ int warps[32];
    __shared__ int before;
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    int v = i < count ? in[i] : 0, sum = warp_scan(v);
    if (t % 32 == 31)
        warps[t / 32] = sum;
    __syncthreads();
    if (t < 32)
        warps[t] = warp_scan(t < blockDim.x / 32 ? warps[t] : 0);
    __syncthreads();
    if (t >= 32)
        sum += warps[t / 32 - 1];
    if (t == blockDim.x - 1) {
        unsigned long long left = 1;
        if (blockIdx.x > 0)
            while ((left = state[blockIdx.x - 1]) == 0)
                ;
        before = (int)(left - 1);
        state[blockIdx.x] = left + sum;
    }
    __syncthreads();
    if (i < count)
        out[i] = before + sum;
}
