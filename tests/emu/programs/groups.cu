// groups.cu - cooperative groups: tiles, reductions, coalesced groups, labeled partitions; clusters on sm_90.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

extern "C" __global__ void groups_reduce(const int *in, int *out, int n)
{
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> tile = cg::tiled_partition<32>(block);
    __shared__ int warps[32];
    int sum = 0;
    for (int i = cg::this_grid().thread_rank(); i < n; i += cg::this_grid().size())
        sum += in[i];
    sum = cg::reduce(tile, sum, cg::plus<int>());
    if (tile.thread_rank() == 0)
        warps[tile.meta_group_rank()] = sum;
    cg::sync(block);
    if (block.thread_rank() == 0) {
        for (int w = 1; w < tile.meta_group_size(); w++)
            sum += warps[w];
        atomicAdd(out, sum);
    }
}

extern "C" __global__ void groups_tiles(const float *in, float *most, int *scanned, unsigned int *ranks)
{
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
    int t = block.thread_rank();
    most[t] = cg::reduce(tile, in[t], cg::greater<float>());
    scanned[t] = cg::inclusive_scan(tile, t % 8 + 1);
    bool seven = tile.any(t % 3 == 7);
    if (t % 3 == 0) {
        cg::coalesced_group together = cg::coalesced_threads();
        ranks[t] = together.thread_rank() * 100 + together.size();
    } else {
        ranks[t] = seven ? 1 : 2;
    }
    block.sync();
    cg::coalesced_group label = cg::labeled_partition(cg::coalesced_threads(), t % 4);
    ranks[t] += 10000 * cg::reduce(label, 1u, cg::plus<unsigned int>());
}

#if __CUDA_ARCH__ >= 900
extern "C" __global__ void __cluster_dims__(4, 1, 1) groups_cluster(const int *in, int *out)
{
    __shared__ int mine[64], visits;
    cg::cluster_group cluster = cg::this_cluster();
    int t = threadIdx.x, rank = cluster.block_rank();
    mine[t] = in[blockIdx.x * 64 + t];
    if (t == 0)
        visits = 0;
    cluster.sync();
    int sum = 0;
    for (int r = 0; r < cluster.num_blocks(); r++)
        sum += cluster.map_shared_rank(mine, r)[(t + r) % 64];
    atomicAdd(cluster.map_shared_rank(&visits, (rank + 1) % 4), 1);
    cluster.sync();
    out[blockIdx.x * 64 + t] = sum + visits - 64;
}
#endif
