// kernels.cu - what the kernels of inline.c share: they read and write operands in memory as ptx/probe/*.ptx do,
// so that the same host code runs both.  The test appends a line for each atom: MMA(..), COPY(..), WGMMA_SS(..),
// WGMMA_RS(..).
#include <ptxpack/inline/types.h>
#pragma nv_diag_suppress 177, 550 // not every kernel uses all that COPY declares

using namespace ptxpack;

// Reads or writes a value of whole words, words[word][lane].
template <class T> PTXPACK_DEVICE T get(const u32 *words, int index)
{
    union {
        T   value;
        u32 word[sizeof(T) / 4];
    } x;
    for (int i = 0; i < (int)sizeof(T) / 4; i++)
        x.word[i] = words[(index * ((int)sizeof(T) / 4) + i) * 32 + threadIdx.x];
    return x.value;
}
template <class T> PTXPACK_DEVICE void put(u32 *words, int index, T value)
{
    union {
        T   value;
        u32 word[sizeof(T) / 4];
    } x;
    x.value = value;
    for (int i = 0; i < (int)sizeof(T) / 4; i++)
        words[(index * ((int)sizeof(T) / 4) + i) * 32 + threadIdx.x] = x.word[i];
}

// ---- mma: each block of y has a plane of operands
struct mma_arguments {
    u64 a, b, c, patch, d;
};
template <class T, int n> PTXPACK_DEVICE void get_plane(T (&x)[n], u64 from)
{
    for (int i = 0; i < n; i++)
        x[i] = get<T>((const u32 *)from + blockIdx.y * n * (sizeof(T) / 4) * 32, i);
}
#define MMA(atom, T, C, U, A, B)                                                                    \
    extern "C" __global__ void k_##atom(mma_arguments p)                                            \
    {                                                                                               \
        T d[C], c[C];                                                                               \
        U a[A], b[B];                                                                               \
        get_plane(a, p.a);                                                                          \
        get_plane(b, p.b);                                                                          \
        get_plane(c, p.c);                                                                          \
        atom(d, a, b, c);                                                                           \
        for (int i = 0; i < C; i++)                                                                 \
            put((u32 *)p.d + blockIdx.y * C * (sizeof(T) / 4) * 32, i, d[i]);                   \
    }

// ---- copies: each block runs an experiment
struct copy_arguments {
    u64 image, source, where, words, after;
};
#define COPY(kernel, copy)                                                                          \
    extern "C" __global__ void k_##kernel(copy_arguments p)                                         \
    {                                                                                               \
        __shared__ alignas(128) u32 image[1024];                                                    \
        const u32  lane = threadIdx.x, e = blockIdx.x;                                              \
        const u32 *where = (const u32 *)p.where + (e * 32 + lane) * 2;                              \
        const u32  shared = shared_address(image) + where[0];                                       \
        const u8  *global = (const u8 *)p.source + 4096 * e + where[1];                             \
        u32       *after = (u32 *)p.after + (1024 + 128) * e;                                       \
        u32        s[4], d[4];                                                                      \
        for (int i = 0; i < 32; i++)                                                                \
            image[32 * i + lane] = ((const u32 *)p.image)[1024 * e + 32 * i + lane];                \
        for (int i = 0; i < 4; i++)                                                                 \
            d[i] = s[i] = get<u32>((const u32 *)p.words + 128 * e, i);                          \
        __syncthreads();                                                                            \
        copy;                                                                                       \
        __syncthreads();                                                                            \
        for (int i = 0; i < 32; i++)                                                                \
            after[32 * i + lane] = image[32 * i + lane];                                            \
        for (int i = 0; i < 4; i++)                                                                 \
            put(after + 1024, i, d[i]);                                                         \
    }

// ---- wgmma: one instruction on tiles of core matrices that lie 128 and 256 bytes apart
struct wgmma_arguments {
    u64 a, b, a_words, c, descriptors, d;
};
enum { A_BYTES = 2048 };
extern __shared__ __align__(1024) u8 wgmma_tiles[];
PTXPACK_DEVICE void fill_tile(u32 at, u64 from, int bytes)
{
    for (int i = threadIdx.x * 4; i < bytes; i += 512)
        *(u32 *)(wgmma_tiles + at + i) = *(const u32 *)(from + i);
}
PTXPACK_DEVICE void get_words(u32 (&x)[4], u64 from)
{
    for (int i = 0; i < 4; i++)
        x[i] = ((const u32 *)from)[128 * i + threadIdx.x];
}
#define WGMMA_RUN(kernel, T, R, b_at, b_bytes, fetch_a, a, call)                                    \
    extern "C" __global__ void __launch_bounds__(128) k_##kernel(wgmma_arguments p)                 \
    {                                                                                               \
        T d[R];                                                                                     \
        fetch_a;                                                                                    \
        fill_tile(b_at, p.b, b_bytes);                                                              \
        const u32 tiles = shared_address(wgmma_tiles);                                              \
        const u64 a_tile = wgmma_descriptor(tiles, 128, 256, WGMMA_SWIZZLE_NONE);                   \
        const u64 b = wgmma_descriptor(tiles + b_at, 128, 256, WGMMA_SWIZZLE_NONE);                 \
        for (int i = 0; i < R; i++)                                                                 \
            d[i] = ((const T *)p.c)[128 * i + threadIdx.x];                                         \
        wgmma_shared_ready();                                                                       \
        __syncthreads();                                                                            \
        wgmma_hold(d);                                                                              \
        wgmma_fence();                                                                              \
        call(d, a, b, 1);                                                                           \
        wgmma_commit();                                                                             \
        wgmma_wait<0>();                                                                            \
        wgmma_hold(d);                                                                              \
        for (int i = 0; i < R; i++)                                                                 \
            ((T *)p.d)[128 * i + threadIdx.x] = d[i];                                               \
        (void)a_tile;                                                                               \
    }
#define WGMMA_SS(kernel, T, R, N, call)                                                             \
    WGMMA_RUN(kernel, T, R, A_BYTES, 32 * N, fill_tile(0, p.a, A_BYTES), a_tile, call)
#define WGMMA_RS(kernel, T, R, N, call)                                                             \
    WGMMA_RUN(kernel, T, R, 0, 32 * N, u32 a[4]; get_words(a, p.a_words), a, call)
