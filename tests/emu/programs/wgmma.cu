// wgmma.cu - C = A B^T on Hopper, f16 with f32 sums: TMA brings 64 x 64 tiles in 128-byte swizzle, two stages behind
// mbarriers, and a warpgroup multiplies them with wgmma m64n64k16. All of it in inline asm.
#include <cuda_fp16.h>

struct __align__(64) tensor_map { unsigned long long words[16]; };
struct __align__(1024) tiles { half a[2][64 * 64], b[2][64 * 64]; unsigned long long full[2]; };

__device__ unsigned int shared_address(const void *p) { return (unsigned int)__cvta_generic_to_shared(p); }

__device__ void fetch(const tensor_map *map, void *to, unsigned long long *bar, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(shared_address(to)), "l"(map), "r"(x), "r"(y), "r"(shared_address(bar)) : "memory");
}

__device__ void wait(unsigned long long *bar, int parity)
{
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}"
                 ::"r"(shared_address(bar)), "r"(parity) : "memory");
}

// K-major, 128-byte swizzle: 8 rows are 1024 bytes apart from the next 8
__device__ unsigned long long descriptor(const void *p)
{
    return (unsigned long long)((shared_address(p) & 0x3ffff) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

__device__ void multiply(float (&d)[32], unsigned long long a, unsigned long long b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
                 "%32, %33, 1, 1, 1, 0, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                   "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
                   "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]),
                   "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                   "+f"(d[30]), "+f"(d[31])
                 : "l"(a), "l"(b));
}

extern "C" __global__ void __launch_bounds__(128)
matmul_wgmma(const __grid_constant__ tensor_map A, const __grid_constant__ tensor_map B, float *C, int n, int k)
{
    extern __shared__ unsigned char raw[];
    tiles *t = (tiles *)(((unsigned long long)raw + 1023) & ~1023ull);
    int row = blockIdx.y * 64, column = blockIdx.x * 64, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float d[32] = {};
    if (threadIdx.x == 0) {
        for (int s = 0; s < 2; s++)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&t->full[s])) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async;" ::: "memory");
    }
    __syncthreads();
    for (int i = -1; i < k / 64; i++) {
        if (threadIdx.x == 0 && i + 1 < k / 64) {
            int s = (i + 1) % 2;
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 16384;" ::"r"(shared_address(&t->full[s]))
                         : "memory");
            fetch(&A, t->a[s], &t->full[s], (i + 1) * 64, row);
            fetch(&B, t->b[s], &t->full[s], (i + 1) * 64, column);
        }
        if (i < 0)
            continue;
        wait(&t->full[i % 2], i / 2 % 2);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        for (int kk = 0; kk < 4; kk++)
            multiply(d, descriptor(t->a[i % 2] + 16 * kk), descriptor(t->b[i % 2] + 16 * kk));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        __syncthreads();
    }
    for (int j = 0; j < 8; j++) {
        float *at = C + (row + 16 * warp + lane / 4) * n + column + 8 * j + lane % 4 * 2;
        *(float2 *)at = make_float2(d[4 * j], d[4 * j + 1]);
        *(float2 *)(at + 8 * n) = make_float2(d[4 * j + 2], d[4 * j + 3]);
    }
}
