// matmul_mma.cu - C = A B, f16 with f32 sums: mma.sync m16n8k16 and ldmatrix from two cp.async stages, in inline asm.
// 64 x 64 x 32 tiles, four warps of 32 x 32; m, n multiples of 64, k of 32; A row-major, B row-major.
#include <cuda_fp16.h>

#define ROW_A 40 // halves of a row of the A tile: 32 and padding against bank conflicts
#define ROW_B 72

__device__ unsigned int shared_address(const void *p) { return (unsigned int)__cvta_generic_to_shared(p); }

__device__ void copy16(void *to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}

__device__ void load_a(unsigned int a[4], const half *at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(shared_address(at))
                 : "memory");
}

__device__ void load_b(unsigned int b[2], const half *at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(b[0]), "=r"(b[1])
                 : "r"(shared_address(at))
                 : "memory");
}

__device__ void mma(float c[4], const unsigned int a[4], const unsigned int b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

struct stage { half a[64 * ROW_A], b[32 * ROW_B]; };

__device__ void fetch(stage *s, const half *A, const half *B, int n, int k, int k0)
{
    for (int i = threadIdx.x; i < 64 * 4; i += 128)
        copy16(&s->a[i / 4 * ROW_A + i % 4 * 8], A + (blockIdx.y * 64 + i / 4) * k + k0 + i % 4 * 8);
    for (int i = threadIdx.x; i < 32 * 8; i += 128)
        copy16(&s->b[i / 8 * ROW_B + i % 8 * 8], B + (k0 + i / 8) * n + blockIdx.x * 64 + i % 8 * 8);
    asm volatile("cp.async.commit_group;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(128)
matmul_mma(const half *A, const half *B, float *C, int n, int k)
{
    __shared__ __align__(16) stage stages[2];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = warp / 2 * 32, column = warp % 2 * 32;
    float c[2][4][4] = {};
    fetch(&stages[0], A, B, n, k, 0);
    for (int k0 = 0; k0 < k; k0 += 32) {
        const stage *s = &stages[k0 / 32 % 2];
        if (k0 + 32 < k)
            fetch(&stages[(k0 / 32 + 1) % 2], A, B, n, k, k0 + 32);
        if (k0 + 32 < k)
            asm volatile("cp.async.wait_group 1;" ::: "memory");
        else
            asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
        for (int kk = 0; kk < 32; kk += 16) {
            unsigned int a[2][4], b[4][2];
            for (int i = 0; i < 2; i++)
                load_a(a[i], &s->a[(row + 16 * i + lane % 16) * ROW_A + kk + lane / 16 * 8]);
            for (int j = 0; j < 4; j++)
                load_b(b[j], &s->b[(kk + lane % 16) * ROW_B + column + 8 * j]);
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 4; j++)
                    mma(c[i][j], a[i], b[j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++) {
            float *at = C + (blockIdx.y * 64 + row + 16 * i + lane / 4) * n + blockIdx.x * 64 + column + 8 * j +
                        lane % 4 * 2;
            *(float2 *)at = make_float2(c[i][j][0], c[i][j][1]);
            *(float2 *)(at + 8 * n) = make_float2(c[i][j][2], c[i][j][3]);
        }
}
