// softmax.cu - of the rows of a matrix, a block a row; and layer normalisation, a warp a row.
__device__ float block_reduce(float v, bool maximum)
{
    __shared__ float warps[32];
    for (int step = 16; step > 0; step /= 2) {
        float other = __shfl_xor_sync(0xffffffffu, v, step);
        v = maximum ? fmaxf(v, other) : v + other;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = v;
    __syncthreads();
    v = warps[0];
    for (int w = 1; w < blockDim.x / 32; w++)
        v = maximum ? fmaxf(v, warps[w]) : v + warps[w];
    return v;
}

extern "C" __global__ void softmax(const float *in, float *out, int columns)
{
    in += (size_t)blockIdx.x * columns;
    out += (size_t)blockIdx.x * columns;
    float most = __int_as_float(0xff800000), sum = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        most = fmaxf(most, in[i]);
    most = block_reduce(most, true);
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        sum += out[i] = expf(in[i] - most);
    sum = block_reduce(sum, false);
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        out[i] /= sum;
}

extern "C" __global__ void layer_norm(const float *in, const float *gain, float *out, int rows, int columns)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    float mean = 0, variance = 0;
    for (int i = lane; i < columns; i += 32)
        mean += in[row * columns + i];
    for (int step = 16; step > 0; step /= 2)
        mean += __shfl_xor_sync(0xffffffffu, mean, step);
    mean /= columns;
    for (int i = lane; i < columns; i += 32) {
        float d = in[row * columns + i] - mean;
        variance += d * d;
    }
    for (int step = 16; step > 0; step /= 2)
        variance += __shfl_xor_sync(0xffffffffu, variance, step);
    float scale = rsqrtf(variance / columns + 1e-5f);
    for (int i = lane; i < columns; i += 32)
        out[row * columns + i] = (in[row * columns + i] - mean) * scale * gain[i];
}
