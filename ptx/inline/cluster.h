// cluster.h - blocks of one cluster: their numbers, their barrier, their shared memory.
//
// needs    sm_90
// An address of another block's shared memory lives only as long as that block: cluster_arrive and
// cluster_wait before it ends.
#ifndef PTXPACK_INLINE_CLUSTER_H
#define PTXPACK_INLINE_CLUSTER_H
#include <ptxpack/inline/types.h>

#if PTXPACK_HAS(90)
namespace ptxpack {
// This block's number among those of its cluster, and how many they are.
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
// Where what lies at `shared` here lies in block `rank`, as a shared::cluster address.
PTXPACK_DEVICE u32 cluster_address(u32 shared, u32 rank)
{
    u32 d;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(d) : "r"(shared), "r"(rank));
    return d;
}
// All threads of all blocks, each first one and then the other; what was written before the one is visible
// after the other.
PTXPACK_DEVICE void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
PTXPACK_DEVICE void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
// A word of a block's shared memory.
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
