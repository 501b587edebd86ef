// mbarrier.h - barriers in shared memory that count arrivals of threads and bytes of copies.
//
// needs    sm_90
// at       the shared address of 8 bytes, 8-byte aligned, that nothing but these functions touches
//
// A phase ends when `count` arrivals have come and every byte that was announced has landed.  A wait for
// parity p returns once the phase of that parity is over: the first phase has parity 0, so a thread that
// waits for parity 1 of a new barrier continues at once.  A waiter may lag behind by one phase, not by two.
// What was done before a phase ended is visible to a thread after its wait.
#ifndef PTXPACK_INLINE_MBARRIER_H
#define PTXPACK_INLINE_MBARRIER_H
#include <ptxpack/inline/types.h>

#if PTXPACK_HAS(90)
namespace ptxpack {
// By one thread; then mbarrier_init_done and a barrier for all.
PTXPACK_DEVICE void mbarrier_init(u32 at, u32 count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(at), "r"(count) : "memory");
}
// Makes the initialisation visible to copies and to other blocks of the cluster, too.
PTXPACK_DEVICE void mbarrier_init_done()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// Call it before the memory is used for something else.
PTXPACK_DEVICE void mbarrier_inval(u32 at)
{
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" :: "r"(at) : "memory");
}
PTXPACK_DEVICE void mbarrier_arrive(u32 at)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at) : "memory");
}
// Arrives, and announces the bytes of copies.
PTXPACK_DEVICE void mbarrier_arrive_expect(u32 at, u32 bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at), "r"(bytes) : "memory");
}
// Only announces them.
PTXPACK_DEVICE void mbarrier_expect(u32 at, u32 bytes)
{
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;"
                 :: "r"(at), "r"(bytes) : "memory");
}
// Arrives at the barrier of another block: `at` comes from cluster_address of cluster.h.  _remote orders all earlier
// reads and writes of this thread, at the price of a fence; _cluster only its wgmma and the copies it waited for.
PTXPACK_DEVICE void mbarrier_arrive_remote(u32 at)
{
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(at) : "memory");
}
PTXPACK_DEVICE void mbarrier_arrive_cluster(u32 at)
{
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" :: "r"(at) : "memory");
}
// Whether the phase of that parity is over: tests once, or waits for a time that the hardware limits.
#define PTXPACK_MBARRIER_ASK(name, op) \
    PTXPACK_DEVICE bool name(u32 at, u32 parity) \
    { \
        u32 done; \
        asm volatile("{ .reg .pred p; mbarrier." op ".parity.shared::cta.b64 p, [%1], %2;" \
                     " selp.b32 %0, 1, 0, p; }" : "=r"(done) : "r"(at), "r"(parity) : "memory"); \
        return done != 0; \
    }
PTXPACK_MBARRIER_ASK(mbarrier_test_wait, "test_wait")
PTXPACK_MBARRIER_ASK(mbarrier_try_wait, "try_wait")
// Waits until it is over.
PTXPACK_DEVICE void mbarrier_wait(u32 at, u32 parity)
{
    while (!mbarrier_try_wait(at, parity)) {}
}
} // namespace ptxpack
#endif
#endif
