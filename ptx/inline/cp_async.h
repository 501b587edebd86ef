// cp_async.h - 4, 8 or 16 bytes from global to shared memory by each thread, not through registers.
//
// needs    sm_80
// order    SM80_CP_ASYNC_..; cp_async_commit; ..; cp_async_wait<n>; then a barrier, before OTHER threads may
//          read.  Between copy and wait no thread may access the destination or change the source
//
// T is any type of the size that is copied: SM80_CP_ASYNC_CACHEGLOBAL<u128>(shared, global).
//   CACHEALWAYS   through L1 (.ca), 4, 8 or 16 bytes          CACHEGLOBAL   past L1 (.cg), 16 bytes only
//   _ZFILL        reads only the first `bytes` of them (0: none); the rest becomes zeros
#ifndef PTXPACK_INLINE_CP_ASYNC_H
#define PTXPACK_INLINE_CP_ASYNC_H
#include <ptxpack/inline/types.h>

#if PTXPACK_HAS(80)
#define PTXPACK_CP_ASYNC(name, cache, condition) \
    template <class T> PTXPACK_DEVICE void name(u32 shared, const void *global) \
    { \
        static_assert(condition, #name ": no such size"); \
        asm volatile("cp.async." cache ".shared.global.L2::128B [%0], [%1], %2;" \
                     :: "r"(shared), "l"(global), "n"((int)sizeof(T)) : "memory"); \
    } \
    template <class T> PTXPACK_DEVICE void name##_ZFILL(u32 shared, const void *global, u32 bytes) \
    { \
        static_assert(condition, #name "_ZFILL: no such size"); \
        asm volatile("cp.async." cache ".shared.global.L2::128B [%0], [%1], %2, %3;" \
                     :: "r"(shared), "l"(global), "n"((int)sizeof(T)), "r"(bytes) : "memory"); \
    }
namespace ptxpack {
PTXPACK_CP_ASYNC(SM80_CP_ASYNC_CACHEALWAYS, "ca", sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16)
PTXPACK_CP_ASYNC(SM80_CP_ASYNC_CACHEGLOBAL, "cg", sizeof(T) == 16)

PTXPACK_DEVICE void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until at most `groups` of this thread's committed groups are pending.
template <int groups> PTXPACK_DEVICE void cp_async_wait()
{
    asm volatile("cp.async.wait_group %0;" :: "n"(groups) : "memory");
}
// Arrives at a barrier of mbarrier.h when this thread's copies up to here are done; the barrier's count includes it.
PTXPACK_DEVICE void cp_async_arrive(u32 barrier)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(barrier) : "memory");
}
} // namespace ptxpack
#endif
#endif
