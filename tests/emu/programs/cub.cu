// cub.cu - the block- and warp-wide algorithms of CUB, as its examples use them.
#include <cub/block/block_load.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>

extern "C" __global__ void __launch_bounds__(128) cub_sort(unsigned int *keys, int *values)
{
    using sort = cub::BlockRadixSort<unsigned int, 128, 4, int>;
    using load = cub::BlockLoad<unsigned int, 128, 4, cub::BLOCK_LOAD_TRANSPOSE>;
    __shared__ union {
        typename sort::TempStorage sort;
        typename load::TempStorage load;
    } shared;
    unsigned int k[4];
    int v[4];
    load(shared.load).Load(keys + blockIdx.x * 512, k);
    __syncthreads();
    for (int i = 0; i < 4; i++)
        v[i] = threadIdx.x * 4 + i;
    sort(shared.sort).SortBlockedToStriped(k, v);
    cub::StoreDirectStriped<128>(threadIdx.x, keys + blockIdx.x * 512, k);
    cub::StoreDirectStriped<128>(threadIdx.x, values + blockIdx.x * 512, v);
}

extern "C" __global__ void __launch_bounds__(128) cub_scan(const int *in, int *out, int *sum)
{
    using scan = cub::BlockScan<int, 128, cub::BLOCK_SCAN_WARP_SCANS>;
    using reduce = cub::BlockReduce<int, 128>;
    __shared__ typename scan::TempStorage shared;
    __shared__ typename reduce::TempStorage more;
    int v[2] = {in[blockIdx.x * 256 + 2 * threadIdx.x], in[blockIdx.x * 256 + 2 * threadIdx.x + 1]};
    int total = reduce(more).Sum(v);
    scan(shared).ExclusiveSum(v, v);
    out[blockIdx.x * 256 + 2 * threadIdx.x] = v[0];
    out[blockIdx.x * 256 + 2 * threadIdx.x + 1] = v[1];
    if (threadIdx.x == 0)
        sum[blockIdx.x] = total;
}

extern "C" __global__ void __launch_bounds__(64) cub_warp(int *values, int *sums)
{
    using scan = cub::WarpScan<int>;
    using reduce = cub::WarpReduce<int>;
    __shared__ typename scan::TempStorage shared[2];
    __shared__ typename reduce::TempStorage more[2];
    int warp = threadIdx.x / 32, v = values[threadIdx.x], sum = reduce(more[warp]).Sum(v);
    scan(shared[warp]).InclusiveSum(v, v);
    values[threadIdx.x] = v;
    if (threadIdx.x % 32 == 0)
        sums[warp] = sum;
}
