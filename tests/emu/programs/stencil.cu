// stencil.cu - a 1D stencil of radius 3 with a halo in shared memory, a 2D five-point step, a game of life on bytes.
#define RADIUS 3
__constant__ float weight[2 * RADIUS + 1] = {0.05f, 0.1f, 0.2f, 0.3f, 0.2f, 0.1f, 0.05f};

extern "C" __global__ void stencil_1d(const float *in, float *out, int n)
{
    __shared__ float cells[256 + 2 * RADIUS];
    int g = blockIdx.x * blockDim.x + threadIdx.x, l = threadIdx.x + RADIUS;
    cells[l] = g < n ? in[g] : 0;
    if (threadIdx.x < RADIUS) {
        int left = g - RADIUS, right = g + blockDim.x;
        cells[l - RADIUS] = left >= 0 ? in[left] : 0;
        cells[l + blockDim.x] = right < n ? in[right] : 0;
    }
    __syncthreads();
    float sum = 0;
#pragma unroll
    for (int i = -RADIUS; i <= RADIUS; i++)
        sum += weight[i + RADIUS] * cells[l + i];
    if (g < n)
        out[g] = sum;
}

extern "C" __global__ void stencil_2d(const double *in, double *out, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    int i = y * width + x;
    if (x == 0 || y == 0 || x == width - 1 || y == height - 1)
        out[i] = in[i];
    else
        out[i] = 0.5 * in[i] + 0.125 * (in[i - 1] + in[i + 1] + in[i - width] + in[i + width]);
}

extern "C" __global__ void life(const unsigned char *in, unsigned char *out, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, count = 0;
    if (x >= width || y >= height)
        return;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++)
            if (dx || dy)
                count += in[(y + dy + height) % height * width + (x + dx + width) % width];
    out[y * width + x] = count == 3 || (count == 2 && in[y * width + x]);
}
