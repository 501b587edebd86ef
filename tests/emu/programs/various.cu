// various.cu - n-body forces, Mandelbrot's set, sparse matrix times vector, breadth-first search, an FFT,
// Monte Carlo with curand's Philox.
#include <curand_kernel.h>

extern "C" __global__ void nbody(const float4 *bodies, float4 *forces, int n)
{
    __shared__ float4 tile[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    float4 me = bodies[i];
    float3 f = make_float3(0, 0, 0);
    for (int t = 0; t < n; t += 64) {
        tile[threadIdx.x] = bodies[t + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < 64; j++) {
            float x = tile[j].x - me.x, y = tile[j].y - me.y, z = tile[j].z - me.z;
            float inverse = rsqrtf(x * x + y * y + z * z + 0.01f), s = tile[j].w * inverse * inverse * inverse;
            f.x += x * s;
            f.y += y * s;
            f.z += z * s;
        }
        __syncthreads();
    }
    forces[i] = make_float4(f.x, f.y, f.z, 0);
}

extern "C" __global__ void mandelbrot(unsigned char *out, int width, int height, int most)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, n = 0;
    if (x >= width || y >= height)
        return;
    double cx = -2 + 3.0 * x / width, cy = -1 + 2.0 * y / height, a = 0, b = 0;
    while (n < most && __dadd_rn(__dmul_rn(a, a), __dmul_rn(b, b)) <= 4) {
        double next = __dadd_rn(__dadd_rn(__dmul_rn(a, a), -__dmul_rn(b, b)), cx);
        b = __dadd_rn(__dmul_rn(2 * a, b), cy);
        a = next;
        n++;
    }
    out[y * width + x] = (unsigned char)n;
}

// A warp a row.
extern "C" __global__ void spmv(const int *starts, const int *columns, const float *values, const float *x, float *y,
                                int rows)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    float sum = 0;
    for (int i = starts[row] + lane; i < starts[row + 1]; i += 32)
        sum += values[i] * __ldg(&x[columns[i]]);
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (lane == 0)
        y[row] = sum;
}

extern "C" __global__ void bfs_level(const int *starts, const int *edges, int *distance, int level, int nodes,
                                     int *changed)
{
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= nodes || *(volatile int *)&distance[v] != level) // others may be setting it
        return;
    for (int i = starts[v]; i < starts[v + 1]; i++)
        if (atomicCAS(&distance[edges[i]], -1, level + 1) == -1)
            atomicExch(changed, 1);
}

// 256 points a block of 128 threads, radix 2, in shared memory.
extern "C" __global__ void fft(float2 *data)
{
    __shared__ float2 cells[256];
    int t = threadIdx.x;
    data += blockIdx.x * 256;
    for (int i = t; i < 256; i += 128)
        cells[__brev(i) >> 24] = data[i];
    __syncthreads();
    for (int half = 1; half < 256; half *= 2) {
        int j = t % half, i = t / half * 2 * half + j;
        float c, s;
        sincospif(-(float)j / half, &s, &c);
        float2 u = cells[i], v = cells[i + half];
        float2 w = make_float2(v.x * c - v.y * s, v.x * s + v.y * c);
        cells[i] = make_float2(u.x + w.x, u.y + w.y);
        cells[i + half] = make_float2(u.x - w.x, u.y - w.y);
        __syncthreads();
    }
    for (int i = t; i < 256; i += 128)
        data[i] = cells[i];
}

extern "C" __global__ void monte_carlo(unsigned long long seed, int rounds, unsigned long long *inside)
{
    curandStatePhilox4_32_10_t state;
    curand_init(seed, blockIdx.x * blockDim.x + threadIdx.x, 0, &state);
    unsigned int count = 0;
    for (int i = 0; i < rounds; i++) {
        float x = curand_uniform(&state), y = curand_uniform(&state);
        count += x * x + y * y <= 1;
    }
    atomicAdd(inside, (unsigned long long)count);
}
