// matmul_narrow.cu - C = A B with 4 and 6 bits: rows of 16 elements and padding, which ldmatrix unpacks to bytes, and
// mma of .kind::f8f6f4; and e2m1 with a factor for 16 elements, mma of .kind::mxf4nvf4.  One warp makes 16 x 8 of C.
typedef unsigned int u32;

__device__ u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }

// A: m x k of e2m1, B: n x k of e3m2; 16 neighbours along k are 16 bytes; k a multiple of 32
extern "C" __global__ void matmul_narrow(const uint4 *A, const uint4 *B, float *C, int n, int k)
{
    __shared__ uint4 rows[2][16], columns[2][8]; // [16 neighbours along k][row]
    int   lane = threadIdx.x, run = lane / 16, chunks = k / 16;
    float c[4] = {};
    for (int chunk = 0; chunk < chunks; chunk += 2) {
        rows[run][lane % 16] = A[(blockIdx.y * 16 + lane % 16) * chunks + chunk + run];
        if (lane < 16)
            columns[lane / 8][lane % 8] = B[(blockIdx.x * 8 + lane % 8) * chunks + chunk + lane / 8];
        __syncwarp();
        u32 a[4], b[2];
        asm volatile("ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b4x16_p64 {%0, %1, %2, %3}, [%4];"
                     : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                     : "r"(shared_address(&rows[run][lane % 16]))
                     : "memory");
        asm volatile("ldmatrix.sync.aligned.m8n16.x2.shared.b8x16.b6x16_p32 {%0, %1}, [%2];"
                     : "=r"(b[0]), "=r"(b[1])
                     : "r"(shared_address(&columns[lane / 8 % 2][lane % 8]))
                     : "memory");
        for (int i = 0; i < 4; i++) // e2m1 to the middle of its byte
            a[i] <<= 2;
        asm volatile("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e3m2.f32 {%0, %1, %2, %3}, "
                     "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
        __syncwarp();
    }
    float *to = C + (blockIdx.y * 16 + lane / 4) * n + blockIdx.x * 8 + 2 * (lane % 4);
    to[0] = c[0], to[1] = c[1], to[8 * n] = c[2], to[8 * n + 1] = c[3];
}

// A: m x k, B: n x k of e2m1, two in a byte; SA, SB: a ue4m3 for 16 neighbours along k; k a multiple of 64
extern "C" __global__ void matmul_nvf4(const uint4 *A, const uint4 *B, const u32 *SA, const u32 *SB, float *C, int n,
                                       int k)
{
    __shared__ uint4 rows[2][16], columns[2][8]; // [32 neighbours along k][row]
    int   lane = threadIdx.x, run = lane / 16, chunks = k / 32;
    float c[4] = {};
    for (int chunk = 0; chunk < chunks; chunk += 2) {
        rows[run][lane % 16] = A[(blockIdx.y * 16 + lane % 16) * chunks + chunk + run];
        if (lane < 16)
            columns[lane / 8][lane % 8] = B[(blockIdx.x * 8 + lane % 8) * chunks + chunk + lane / 8];
        __syncwarp();
        u32 a[4], b[2];
        asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];" // in CUTLASS's order
                     : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                     : "r"(shared_address(&rows[run][lane % 16]))
                     : "memory");
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                     : "=r"(b[0]), "=r"(b[1])
                     : "r"(shared_address(&columns[lane / 8 % 2][lane % 8]))
                     : "memory");
        // threads 2 and 3 of four have the factors of A, thread 1 those of B
        u32 sa = lane & 2 ? SA[(blockIdx.y * 16 + lane / 4 + 8 * (lane & 1)) * (k / 64) + chunk / 2] : 0;
        u32 sb = (lane & 3) == 1 ? SB[(blockIdx.x * 8 + lane / 4) * (k / 64) + chunk / 2] : 0;
        asm volatile("mma.sync.aligned.kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue4m3 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, %10, {%12, %13}, %11, {%12, %14};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(sa), "r"(sb),
                       "h"((short)0), "h"((short)1), "h"((short)1));
        __syncwarp();
    }
    float *to = C + (blockIdx.y * 16 + lane / 4) * n + blockIdx.x * 8 + 2 * (lane % 4);
    to[0] = c[0], to[1] = c[1], to[8 * n] = c[2], to[8 * n + 1] = c[3];
}
