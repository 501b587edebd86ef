// cluster.h - blocks of one cluster: their numbers, their barrier, their shared memory.
//
// needs    sm_90
// An address of another block's shared memory is valid only while that block runs: call cluster_arrive and cluster_wait
// before it ends.
#ifndef PTXPACK_INLINE_CLUSTER_H
#define PTXPACK_INLINE_CLUSTER_H
#include <ptxpack/inline/types.h>

#if PTXPACK_HAS(90)
namespace ptxpack {
// This block's number in its cluster, and how many blocks the cluster has.
PTXPACK_DEVICE u32 cluster_rank()
{
    u32 d;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(d));
    return d;
}
PTXPACK_DEVICE u32 cluster_blocks()
{
    u32 d;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(d));
    return d;
}
// The shared::cluster address of block `rank`'s `shared`.
PTXPACK_DEVICE u32 cluster_address(u32 shared, u32 rank)
{
    u32 d;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(d) : "r"(shared), "r"(rank));
    return d;
}
// A barrier of all threads of all blocks: each calls arrive, then wait.  What was written before arrive is visible after
// wait.
PTXPACK_DEVICE void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
PTXPACK_DEVICE void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
// Loads or stores a word of another block's shared memory.
PTXPACK_DEVICE u32 cluster_load(u32 address)
{
    u32 d;
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(d) : "r"(address) : "memory");
    return d;
}
PTXPACK_DEVICE void cluster_store(u32 address, u32 value)
{
    asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(address), "r"(value) : "memory");
}
} // namespace ptxpack
#endif
#endif
