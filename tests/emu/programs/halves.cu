// halves.cu - cuda_fp16.h and cuda_bf16.h: arithmetic, comparisons, conversions, packed forms.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#define ROW(n, expression) out[(n) * count + i] = (expression)

extern "C" __global__ void halves(const half *in, const half *other, half *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    half x = in[i], y = other[i];
    ROW(0, x + y);
    ROW(1, x - y);
    ROW(2, x * y);
    ROW(3, x / y);
    ROW(4, __hfma(x, y, x));
    ROW(5, hsqrt(__habs(x)));
    ROW(6, __hmax(x, y));
    ROW(7, x < y ? x : y);
    ROW(8, __float2half_rn(__half2float(x) * 0.3333f));
    ROW(9, __float2half_rz(__half2float(x) * 0.3333f));
    ROW(10, __int2half_rn(__half2int_rz(x) + 3));
    ROW(11, hfloor(x));
    ROW(12, __hneg(y));
    ROW(13, __hadd_sat(x, y));
}

extern "C" __global__ void halves2(const half2 *in, const half2 *other, half2 *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    half2 x = in[i], y = other[i];
    ROW(0, __hadd2(x, y));
    ROW(1, __hfma2(x, y, y));
    ROW(2, __lowhigh2highlow(x));
    ROW(3, __hmin2(x, y));
    ROW(4, __float22half2_rn(__half22float2(x)));
    ROW(5, h2rcp(y));
    ROW(6, __hgt2(x, y));
}

extern "C" __global__ void bfloats(const __nv_bfloat16 *in, const __nv_bfloat16 *other, __nv_bfloat16 *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    __nv_bfloat16 x = in[i], y = other[i];
    ROW(0, __hadd(x, y));
    ROW(1, __hmul(x, y));
    ROW(2, __hsub(y, x));
    ROW(3, __float2bfloat16(__bfloat162float(x) * 1.7f));
    ROW(4, __hmax(x, y));
    ROW(5, __hgt(x, y) ? x : y);
}

// Atomic sums of halves, and of pairs.
extern "C" __global__ void half_atomics(half *one, half2 *two, double *wide)
{
    atomicAdd(one, __float2half(1.0f));
    atomicAdd(two, __floats2half2_rn(1.0f, 2.0f));
    atomicAdd(wide, 0.5);
}
