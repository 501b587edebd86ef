// named_barrier.h - barriers 1..15 of a block, among some of its warps.
//
// needs    sm_70
// `threads` counts all that take part, those that wait and those that only arrive: a multiple of 32.
#ifndef PTXPACK_INLINE_NAMED_BARRIER_H
#define PTXPACK_INLINE_NAMED_BARRIER_H
#include <ptxpack/inline/types.h>

namespace ptxpack {
PTXPACK_DEVICE void named_wait(u32 barrier, u32 threads)
{
    asm volatile("bar.sync %0, %1;" :: "r"(barrier), "r"(threads) : "memory");
}
PTXPACK_DEVICE void named_arrive(u32 barrier, u32 threads)
{
    asm volatile("bar.arrive %0, %1;" :: "r"(barrier), "r"(threads) : "memory");
}
} // namespace ptxpack
#endif
