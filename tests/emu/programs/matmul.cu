// matmul.cu - C = A B in f32: tiles of 16 x 16 in shared memory; and 64 x 64 with 4 x 4 a thread.
#define T 16

extern "C" __global__ void matmul(const float *A, const float *B, float *C, int m, int n, int k)
{
    __shared__ float a[T][T], b[T][T];
    int row = blockIdx.y * T + threadIdx.y, column = blockIdx.x * T + threadIdx.x;
    float sum = 0;
    for (int t = 0; t < (k + T - 1) / T; t++) {
        int ak = t * T + threadIdx.x, bk = t * T + threadIdx.y;
        a[threadIdx.y][threadIdx.x] = row < m && ak < k ? A[row * k + ak] : 0;
        b[threadIdx.y][threadIdx.x] = bk < k && column < n ? B[bk * n + column] : 0;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < T; i++)
            sum += a[threadIdx.y][i] * b[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && column < n)
        C[row * n + column] = sum;
}

// m, n multiples of 64, k of 8; 256 threads
extern "C" __global__ void __launch_bounds__(256)
matmul_blocked(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int n, int k)
{
    __shared__ float a[8][64], b[8][64];
    int t = threadIdx.x, tx = t % 16, ty = t / 16;
    float sum[4][4] = {};
    A += blockIdx.y * 64 * k;
    B += blockIdx.x * 64;
    for (int k0 = 0; k0 < k; k0 += 8) {
        for (int i = t; i < 512; i += 256) {
            a[i % 8][i / 8] = A[i / 8 * k + k0 + i % 8];
            b[i / 64][i % 64] = B[(k0 + i / 64) * n + i % 64];
        }
        __syncthreads();
#pragma unroll
        for (int j = 0; j < 8; j++) {
            float4 u = *(const float4 *)&a[j][4 * ty], v = *(const float4 *)&b[j][4 * tx];
            float us[4] = {u.x, u.y, u.z, u.w}, vs[4] = {v.x, v.y, v.z, v.w};
            for (int y = 0; y < 4; y++)
                for (int x = 0; x < 4; x++)
                    sum[y][x] = fmaf(us[y], vs[x], sum[y][x]);
        }
        __syncthreads();
    }
    for (int y = 0; y < 4; y++)
        *(float4 *)&C[(blockIdx.y * 64 + 4 * ty + y) * n + blockIdx.x * 64 + 4 * tx] =
            make_float4(sum[y][0], sum[y][1], sum[y][2], sum[y][3]);
}
