// matmul_wmma.cu - C = A B with nvcuda::wmma, a 16 x 16 tile a warp; through shared memory; bytes; bf16, tf32, f64.
#include <mma.h>
#include <cuda_fp16.h>
#if __CUDA_ARCH__ >= 800
#include <cuda_bf16.h>
#endif
using namespace nvcuda;

// A row-major m x k, B column-major k x n
extern "C" __global__ void wmma_f16(const half *A, const half *B, float *C, int n, int k)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, row = warp / (n / 16) * 16, column = warp % (n / 16) * 16;
    wmma::fill_fragment(c, 0.0f);
    for (int i = 0; i < k; i += 16) {
        wmma::load_matrix_sync(a, A + row * k + i, k);
        wmma::load_matrix_sync(b, B + column * k + i, k);
        wmma::mma_sync(c, a, b, c);
    }
    for (int i = 0; i < c.num_elements; i++)
        c.x[i] *= 2.0f;
    wmma::store_matrix_sync(C + row * n + column, c, n, wmma::mem_row_major);
}

// half accumulators, m32n8k16, tiles staged in shared memory, one warp a block; D = A B + C in place
extern "C" __global__ void wmma_f16_shared(const half *A, const half *B, half *C, int n, int k)
{
    __shared__ half a_tile[32 * 24], b_tile[16 * 16];
    wmma::fragment<wmma::matrix_a, 32, 8, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 32, 8, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 32, 8, 16, half> c;
    int row = blockIdx.y * 32, column = blockIdx.x * 8;
    wmma::load_matrix_sync(c, C + row * n + column, n, wmma::mem_row_major);
    for (int i = 0; i < k; i += 16) {
        for (int e = threadIdx.x; e < 32 * 16; e += 32)
            a_tile[e / 16 * 24 + e % 16] = A[(row + e / 16) * k + i + e % 16];
        for (int e = threadIdx.x; e < 16 * 8; e += 32)
            b_tile[e / 8 * 16 + e % 8] = B[(i + e / 8) * n + column + e % 8];
        __syncwarp();
        wmma::load_matrix_sync(a, a_tile, 24);
        wmma::load_matrix_sync(b, b_tile, 16);
        wmma::mma_sync(c, a, b, c);
        __syncwarp();
    }
    wmma::store_matrix_sync(C + row * n + column, c, n, wmma::mem_row_major);
}

extern "C" __global__ void wmma_s8(const signed char *A, const signed char *B, int *C, int n, int k)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, int> c;
    int row = blockIdx.y * 16, column = blockIdx.x * 16;
    wmma::fill_fragment(c, 0);
    for (int i = 0; i < k; i += 16) {
        wmma::load_matrix_sync(a, A + row * k + i, k);
        wmma::load_matrix_sync(b, B + column * k + i, k);
        wmma::mma_sync(c, a, b, c);
    }
    wmma::store_matrix_sync(C + column * n + row, c, n, wmma::mem_col_major);
}

#if __CUDA_ARCH__ >= 800
extern "C" __global__ void wmma_bf16(const __nv_bfloat16 *A, const __nv_bfloat16 *B, float *C, int n, int k)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::col_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    int row = blockIdx.y * 16, column = blockIdx.x * 16, m = gridDim.y * 16;
    wmma::fill_fragment(c, 0.0f);
    for (int i = 0; i < k; i += 16) {
        wmma::load_matrix_sync(a, A + i * m + row, m);
        wmma::load_matrix_sync(b, B + i * n + column, n);
        wmma::mma_sync(c, a, b, c);
    }
    wmma::store_matrix_sync(C + row * n + column, c, n, wmma::mem_row_major);
}

extern "C" __global__ void wmma_tf32(const float *A, const float *B, float *C, int n, int k)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> c;
    int row = blockIdx.y * 16, column = blockIdx.x * 16;
    wmma::fill_fragment(c, 0.0f);
    for (int i = 0; i < k; i += 8) {
        wmma::load_matrix_sync(a, A + row * k + i, k);
        wmma::load_matrix_sync(b, B + i * n + column, n);
        for (int e = 0; e < a.num_elements; e++)
            a.x[e] = wmma::__float_to_tf32(a.x[e]);
        for (int e = 0; e < b.num_elements; e++)
            b.x[e] = wmma::__float_to_tf32(b.x[e]);
        wmma::mma_sync(c, a, b, c);
    }
    wmma::store_matrix_sync(C + row * n + column, c, n, wmma::mem_row_major);
}

extern "C" __global__ void wmma_f64(const double *A, const double *B, double *C, int n, int k)
{
    wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 8, 8, 4, double> c;
    int row = blockIdx.y * 8, column = blockIdx.x * 8;
    wmma::fill_fragment(c, 0.0);
    for (int i = 0; i < k; i += 4) {
        wmma::load_matrix_sync(a, A + row * k + i, k);
        wmma::load_matrix_sync(b, B + i * n + column, n);
        wmma::mma_sync(c, a, b, c);
    }
    wmma::store_matrix_sync(C + row * n + column, c, n, wmma::mem_row_major);
}
#endif
