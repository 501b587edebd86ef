// shuffle.h - values between the lanes of a warp: shuffles, votes, reductions, one elected lane.
//
// needs    sm_70; reductions sm_80, elect_one sm_90; movmatrix sm_75
// `mask` has a bit for each lane that takes part; all of them must call, with the same mask.
#ifndef PTXPACK_INLINE_SHUFFLE_H
#define PTXPACK_INLINE_SHUFFLE_H
#include <ptxpack/inline/types.h>

namespace ptxpack {
enum : u32 { ALL_LANES = 0xffffffff };

PTXPACK_DEVICE u32 lane_id()
{
    u32 d;
    asm("mov.u32 %0, %%laneid;" : "=r"(d));
    return d;
}
PTXPACK_DEVICE void warp_sync(u32 mask = ALL_LANES)
{
    asm volatile("bar.warp.sync %0;" :: "r"(mask) : "memory");
}

// x of another lane: lane b, or b lanes below or above, or this lane's number XOR b.  The source is in the same group
// of `width` lanes, a power of two; if up or down would leave the group, the result is the lane's own x.
#define PTXPACK_SHUFFLE_AS(name, form, first, T, c) \
    PTXPACK_DEVICE T name(T x, u32 b, u32 width = 32, u32 mask = ALL_LANES) \
    { \
        T d; \
        asm volatile("shfl.sync." form ".b32 %0, %1, %2, %3, %4;" \
                     : "=" c(d) : c(x), "r"(b), "r"((32 - width) << 8 | (first)), "r"(mask)); \
        return d; \
    }
#define PTXPACK_SHUFFLE(name, form, first) \
    PTXPACK_SHUFFLE_AS(name, form, first, u32, "r") \
    PTXPACK_SHUFFLE_AS(name, form, first, s32, "r") \
    PTXPACK_SHUFFLE_AS(name, form, first, float, "f")
PTXPACK_SHUFFLE(shuffle, "idx", 31)
PTXPACK_SHUFFLE(shuffle_up, "up", 0)
PTXPACK_SHUFFLE(shuffle_down, "down", 31)
PTXPACK_SHUFFLE(shuffle_xor, "bfly", 31)

// Lanes l and l ^ XOR hold a 2 x 2 matrix of words, two words each, and transpose it.
#define PTXPACK_SHUFFLE_TRANSPOSE(name, bit) \
    PTXPACK_DEVICE void name(u32 (&d)[2], const u32 (&s)[2]) \
    { \
        bool odd = (lane_id() & bit) != 0; \
        u32  kept = odd ? s[1] : s[0], received = shuffle_xor(odd ? s[0] : s[1], bit); \
        d[0] = odd ? received : kept; \
        d[1] = odd ? kept : received; \
    }
PTXPACK_SHUFFLE_TRANSPOSE(SM50_Shuffle_U32_2x2Trans_XOR1, 1)
PTXPACK_SHUFFLE_TRANSPOSE(SM50_Shuffle_U32_2x2Trans_XOR4, 4)

#if PTXPACK_HAS(75)
// An 8x8 matrix of 16-bit elements, lane l holding [l / 4][2 (l % 4) .. + 1], becomes its transpose.
PTXPACK_DEVICE void SM75_U32x1_MOVM_T(u32 (&d)[1], const u32 (&s)[1])
{
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(d[0]) : "r"(s[0]));
}
#endif

// Whether p holds in all lanes, in any, or is the same in all; and a bit for each lane in which it holds.
#define PTXPACK_VOTE(name, form) \
    PTXPACK_DEVICE bool name(bool p, u32 mask = ALL_LANES) \
    { \
        u32 d; \
        asm volatile("{ .reg .pred p, q; setp.ne.b32 p, %1, 0; vote.sync." form ".pred q, p, %2;" \
                     " selp.b32 %0, 1, 0, q; }" : "=r"(d) : "r"((u32)p), "r"(mask)); \
        return d != 0; \
    }
PTXPACK_VOTE(vote_all, "all")
PTXPACK_VOTE(vote_any, "any")
PTXPACK_VOTE(vote_same, "uni")
PTXPACK_DEVICE u32 vote_ballot(bool p, u32 mask = ALL_LANES)
{
    u32 d;
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %1, 0; vote.sync.ballot.b32 %0, p, %2; }"
                 : "=r"(d) : "r"((u32)p), "r"(mask));
    return d;
}
// A bit for each lane with the same x.
PTXPACK_DEVICE u32 match_any(u32 x, u32 mask = ALL_LANES)
{
    u32 d;
    asm volatile("match.any.sync.b32 %0, %1, %2;" : "=r"(d) : "r"(x), "r"(mask));
    return d;
}

#if PTXPACK_HAS(80)
// The reduction of all lanes' x, in every lane.
#define PTXPACK_REDUX(name, form, T) \
    PTXPACK_DEVICE T name(T x, u32 mask = ALL_LANES) \
    { \
        T d; \
        asm volatile("redux.sync." form " %0, %1, %2;" : "=r"(d) : "r"(x), "r"(mask)); \
        return d; \
    }
PTXPACK_REDUX(redux_add, "add.u32", u32)
PTXPACK_REDUX(redux_min, "min.u32", u32)
PTXPACK_REDUX(redux_max, "max.u32", u32)
PTXPACK_REDUX(redux_add, "add.s32", s32)
PTXPACK_REDUX(redux_min, "min.s32", s32)
PTXPACK_REDUX(redux_max, "max.s32", s32)
PTXPACK_REDUX(redux_and, "and.b32", u32)
PTXPACK_REDUX(redux_or, "or.b32", u32)
PTXPACK_REDUX(redux_xor, "xor.b32", u32)
#endif

#if PTXPACK_HAS(90)
// True in one lane of the mask, always the same one.
PTXPACK_DEVICE bool elect_one(u32 mask = ALL_LANES)
{
    u32 d;
    asm volatile("{ .reg .pred p; elect.sync _|p, %1; selp.b32 %0, 1, 0, p; }" : "=r"(d) : "r"(mask));
    return d != 0;
}
#endif
} // namespace ptxpack
#endif
