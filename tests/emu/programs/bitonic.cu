// bitonic.cu - sorting: a block in shared memory; any power of two by launches of one step.
extern "C" __global__ void bitonic_block(int *keys)
{
    extern __shared__ int cells[];
    unsigned int t = threadIdx.x, n = blockDim.x;
    cells[t] = keys[blockIdx.x * n + t];
    __syncthreads();
    for (unsigned int size = 2; size <= n; size *= 2)
        for (unsigned int stride = size / 2; stride > 0; stride /= 2) {
            unsigned int other = t ^ stride;
            if (other > t && ((t & size) == 0) == (cells[t] > cells[other])) {
                int swap = cells[t];
                cells[t] = cells[other];
                cells[other] = swap;
            }
            __syncthreads();
        }
    keys[blockIdx.x * n + t] = cells[t];
}

extern "C" __global__ void bitonic_step(float *keys, unsigned int *values, unsigned int stride, unsigned int size)
{
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x, other = i ^ stride;
    if (other <= i)
        return;
    float a = keys[i], b = keys[other];
    if (((i & size) == 0) == (a > b)) {
        unsigned int v = values[i];
        keys[i] = b;
        keys[other] = a;
        values[i] = values[other];
        values[other] = v;
    }
}
