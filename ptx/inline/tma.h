// tma.h - boxes of a tensor, and plain bytes, between global and shared memory, by one thread each.
//
// needs    sm_90
// map      a tensor map (cuTensorMapEncodeTiled; ptxpack's tma.h has its arguments) at a 64-byte address in
//          parameter memory (__grid_constant__), constant or global memory
// x0, ..   coordinates of the box's first element, the dimension of stride 1 first
// shared   128-byte aligned, with swizzles as they ask for; barrier: an mbarrier.h one's address
//
// A load completes all bytes of its box at a barrier, also those beyond the tensor, which are filled.  Before a store or
// a reduction, each thread that wrote to the box calls tma_store_ready, and then all meet at a barrier.  A store does
// not write what is beyond the tensor.
#ifndef PTXPACK_INLINE_TMA_H
#define PTXPACK_INLINE_TMA_H
#include <ptxpack/inline/types.h>

#if PTXPACK_HAS(90)
namespace ptxpack {
// What the L2 cache should do with it: createpolicy's words for all of the accesses.
enum : u64 {
    L2_EVICT_NORMAL = 0x1000000000000000,
    L2_EVICT_FIRST = 0x12f0000000000000,
    L2_EVICT_LAST = 0x14f0000000000000
};

// Brings the map itself into the cache from which TMA reads it.
PTXPACK_DEVICE void tma_prefetch_map(const void *map)
{
    asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory");
}
// Makes what this thread stored in shared memory visible to TMA (and to wgmma).
PTXPACK_DEVICE void tma_store_ready() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
PTXPACK_DEVICE void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Waits until all of this thread's committed groups but the last `groups` are written, or only read, so that their
// shared memory may be written again.
template <int groups> PTXPACK_DEVICE void tma_store_wait()
{
    asm volatile("cp.async.bulk.wait_group %0;" :: "n"(groups) : "memory");
}
template <int groups> PTXPACK_DEVICE void tma_store_wait_read()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(groups) : "memory");
}

// Coordinates of n dimensions: as parameters, as operands, from an array; and the box in the text, whose map
// is operand 0 and whose coordinates are the operands that are named.
#define PTXPACK_TMA_X_1 s32 x0
#define PTXPACK_TMA_X_2 PTXPACK_TMA_X_1, s32 x1
#define PTXPACK_TMA_X_3 PTXPACK_TMA_X_2, s32 x2
#define PTXPACK_TMA_X_4 PTXPACK_TMA_X_3, s32 x3
#define PTXPACK_TMA_X_5 PTXPACK_TMA_X_4, s32 x4
#define PTXPACK_TMA_IN_1 "r"(x0)
#define PTXPACK_TMA_IN_2 PTXPACK_TMA_IN_1, "r"(x1)
#define PTXPACK_TMA_IN_3 PTXPACK_TMA_IN_2, "r"(x2)
#define PTXPACK_TMA_IN_4 PTXPACK_TMA_IN_3, "r"(x3)
#define PTXPACK_TMA_IN_5 PTXPACK_TMA_IN_4, "r"(x4)
#define PTXPACK_TMA_OF_1 x[0]
#define PTXPACK_TMA_OF_2 PTXPACK_TMA_OF_1, x[1]
#define PTXPACK_TMA_OF_3 PTXPACK_TMA_OF_2, x[2]
#define PTXPACK_TMA_OF_4 PTXPACK_TMA_OF_3, x[3]
#define PTXPACK_TMA_OF_5 PTXPACK_TMA_OF_4, x[4]
#define PTXPACK_TMA_BOX_1(a, b, c, d, e) "[%0, {%" #a "}]"
#define PTXPACK_TMA_BOX_2(a, b, c, d, e) "[%0, {%" #a ", %" #b "}]"
#define PTXPACK_TMA_BOX_3(a, b, c, d, e) "[%0, {%" #a ", %" #b ", %" #c "}]"
#define PTXPACK_TMA_BOX_4(a, b, c, d, e) "[%0, {%" #a ", %" #b ", %" #c ", %" #d "}]"
#define PTXPACK_TMA_BOX_5(a, b, c, d, e) "[%0, {%" #a ", %" #b ", %" #c ", %" #d ", %" #e "}]"

// For n dimensions, SM90_TMA_LOAD_nD and so on; SM90_TMA_LOAD and so on with an array of n coordinates.
//   LOAD             one box to this block's shared memory
//   LOAD_MULTICAST   to the same place in each block of the cluster that has a bit in `mask`; it completes at the
//                    barrier at the same place there
//   STORE            one box to global memory; REDUCE_ADD adds to what is there, as numbers of the map's type
// tma_prefetch_nd brings a box to the L2 cache.
#define PTXPACK_TMA_TILE(n) \
    PTXPACK_DEVICE void SM90_TMA_LOAD_##n##D(u32 shared, const void *map, u32 barrier, \
                                             PTXPACK_TMA_X_##n, u64 policy = L2_EVICT_NORMAL) \
    { \
        asm volatile("cp.async.bulk.tensor." #n "d.shared::cluster.global" \
                     ".mbarrier::complete_tx::bytes.L2::cache_hint [%1], " \
                     PTXPACK_TMA_BOX_##n(4, 5, 6, 7, 8) ", [%2], %3;" \
                     :: "l"(map), "r"(shared), "r"(barrier), "l"(policy), PTXPACK_TMA_IN_##n \
                     : "memory"); \
    } \
    PTXPACK_DEVICE void SM90_TMA_LOAD(u32 shared, const void *map, u32 barrier, const s32 (&x)[n], \
                                      u64 policy = L2_EVICT_NORMAL) \
    { \
        SM90_TMA_LOAD_##n##D(shared, map, barrier, PTXPACK_TMA_OF_##n, policy); \
    } \
    PTXPACK_DEVICE void SM90_TMA_LOAD_MULTICAST_##n##D(u32 shared, const void *map, u32 barrier, \
                                                       u16 mask, PTXPACK_TMA_X_##n, \
                                                       u64 policy = L2_EVICT_NORMAL) \
    { \
        asm volatile("cp.async.bulk.tensor." #n "d.shared::cluster.global" \
                     ".mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [%1], " \
                     PTXPACK_TMA_BOX_##n(5, 6, 7, 8, 9) ", [%2], %4, %3;" \
                     :: "l"(map), "r"(shared), "r"(barrier), "l"(policy), "h"(mask), \
                     PTXPACK_TMA_IN_##n : "memory"); \
    } \
    PTXPACK_DEVICE void SM90_TMA_LOAD_MULTICAST(u32 shared, const void *map, u32 barrier, \
                                                u16 mask, const s32 (&x)[n], \
                                                u64 policy = L2_EVICT_NORMAL) \
    { \
        SM90_TMA_LOAD_MULTICAST_##n##D(shared, map, barrier, mask, PTXPACK_TMA_OF_##n, policy); \
    } \
    PTXPACK_TMA_TO_GLOBAL(n, SM90_TMA_STORE, "cp.async", "") \
    PTXPACK_TMA_TO_GLOBAL(n, SM90_TMA_REDUCE_ADD, "cp.reduce.async", ".add") \
    PTXPACK_DEVICE void tma_prefetch_##n##d(const void *map, PTXPACK_TMA_X_##n) \
    { \
        asm volatile("cp.async.bulk.prefetch.tensor." #n "d.L2.global " \
                     PTXPACK_TMA_BOX_##n(1, 2, 3, 4, 5) ";" \
                     :: "l"(map), PTXPACK_TMA_IN_##n : "memory"); \
    }
#define PTXPACK_TMA_TO_GLOBAL(n, name, op, form) \
    PTXPACK_DEVICE void name##_##n##D(const void *map, u32 shared, PTXPACK_TMA_X_##n) \
    { \
        asm volatile(op ".bulk.tensor." #n "d.global.shared::cta" form ".bulk_group " \
                     PTXPACK_TMA_BOX_##n(2, 3, 4, 5, 6) ", [%1];" \
                     :: "l"(map), "r"(shared), PTXPACK_TMA_IN_##n : "memory"); \
    } \
    PTXPACK_DEVICE void name(const void *map, u32 shared, const s32 (&x)[n]) \
    { \
        name##_##n##D(map, shared, PTXPACK_TMA_OF_##n); \
    }
PTXPACK_TMA_TILE(1)
PTXPACK_TMA_TILE(2)
PTXPACK_TMA_TILE(3)
PTXPACK_TMA_TILE(4)
PTXPACK_TMA_TILE(5)

// Maps of cuTensorMapEncodeIm2col: dimensions 1 to n - 2 of the image have an offset each, y0, ..; stores
// have none.  With arrays likewise: SM90_TMA_LOAD_IM2COL(shared, map, barrier, x, y).
#define PTXPACK_TMA_Y_3 u16 y0
#define PTXPACK_TMA_Y_4 u16 y0, u16 y1
#define PTXPACK_TMA_Y_5 u16 y0, u16 y1, u16 y2
#define PTXPACK_TMA_Y_OF_3 y[0]
#define PTXPACK_TMA_Y_OF_4 y[0], y[1]
#define PTXPACK_TMA_Y_OF_5 y[0], y[1], y[2]
#define PTXPACK_TMA_OFFSETS_3 "h"(y0)
#define PTXPACK_TMA_OFFSETS_4 "h"(y0), "h"(y1)
#define PTXPACK_TMA_OFFSETS_5 "h"(y0), "h"(y1), "h"(y2)
#define PTXPACK_TMA_IM2COL(n, offsets, multicast_offsets) \
    PTXPACK_DEVICE void SM90_TMA_LOAD_IM2COL_##n##D(u32 shared, const void *map, u32 barrier, \
                                                    PTXPACK_TMA_X_##n, PTXPACK_TMA_Y_##n) \
    { \
        asm volatile("cp.async.bulk.tensor." #n "d.shared::cluster.global.im2col" \
                     ".mbarrier::complete_tx::bytes [%1], " \
                     PTXPACK_TMA_BOX_##n(3, 4, 5, 6, 7) ", [%2], " offsets ";" \
                     :: "l"(map), "r"(shared), "r"(barrier), PTXPACK_TMA_IN_##n, \
                     PTXPACK_TMA_OFFSETS_##n : "memory"); \
    } \
    PTXPACK_DEVICE void SM90_TMA_LOAD_IM2COL(u32 shared, const void *map, u32 barrier, \
                                             const s32 (&x)[n], const u16 (&y)[n - 2]) \
    { \
        SM90_TMA_LOAD_IM2COL_##n##D(shared, map, barrier, PTXPACK_TMA_OF_##n, PTXPACK_TMA_Y_OF_##n); \
    } \
    PTXPACK_DEVICE void SM90_TMA_LOAD_IM2COL_MULTICAST_##n##D( \
        u32 shared, const void *map, u32 barrier, u16 mask, PTXPACK_TMA_X_##n, PTXPACK_TMA_Y_##n) \
    { \
        asm volatile("cp.async.bulk.tensor." #n "d.shared::cluster.global.im2col" \
                     ".mbarrier::complete_tx::bytes.multicast::cluster [%1], " \
                     PTXPACK_TMA_BOX_##n(4, 5, 6, 7, 8) ", [%2], " multicast_offsets ", %3;" \
                     :: "l"(map), "r"(shared), "r"(barrier), "h"(mask), PTXPACK_TMA_IN_##n, \
                     PTXPACK_TMA_OFFSETS_##n : "memory"); \
    } \
    PTXPACK_DEVICE void SM90_TMA_LOAD_IM2COL_MULTICAST(u32 shared, const void *map, u32 barrier, \
                                                       u16 mask, const s32 (&x)[n], const u16 (&y)[n - 2]) \
    { \
        SM90_TMA_LOAD_IM2COL_MULTICAST_##n##D(shared, map, barrier, mask, PTXPACK_TMA_OF_##n, \
                                              PTXPACK_TMA_Y_OF_##n); \
    } \
    PTXPACK_TMA_TO_GLOBAL(n, SM90_TMA_STORE_IM2COL, "cp.async", ".im2col_no_offs")
PTXPACK_TMA_IM2COL(3, "{%6}", "{%7}")
PTXPACK_TMA_IM2COL(4, "{%7, %8}", "{%8, %9}")
PTXPACK_TMA_IM2COL(5, "{%8, %9, %10}", "{%9, %10, %11}")

// ---- plain bytes, a multiple of 16, between 16-byte aligned addresses
PTXPACK_DEVICE void SM90_BULK_COPY_G2S(u32 shared, const void *global, u32 bytes, u32 barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(shared), "l"(global), "r"(bytes), "r"(barrier) : "memory");
}
PTXPACK_DEVICE void SM90_BULK_COPY_S2G(void *global, u32 shared, u32 bytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 :: "l"(global), "r"(shared), "r"(bytes) : "memory");
}
// To the shared memory of another block of the cluster, and completing at a barrier there: both addresses come from
// cluster_address.
PTXPACK_DEVICE void bulk_copy_to_block(u32 remote, u32 shared, u32 bytes, u32 remote_barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
                 " [%0], [%1], %2, [%3];"
                 :: "r"(remote), "r"(shared), "r"(bytes), "r"(remote_barrier) : "memory");
}
PTXPACK_DEVICE void bulk_prefetch(const void *global, u32 bytes)
{
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" :: "l"(global), "r"(bytes) : "memory");
}
} // namespace ptxpack
#endif
#endif
