/* plan.h - private: a plan of parallel attention: of each local rank its schedule, kernels, events, and workspace. */
#ifndef PTXPACK_PARALLEL_PLAN_H
#define PTXPACK_PARALLEL_PLAN_H
#include "group.h"
#include "parts.h"
#include "schedule.h"

enum { PARALLEL_STEPS = GROUP_STEPS };

#define TRY(expression)                                 \
    do {                                                \
        const ptxpack_status try_status = (expression); \
        if (try_status != PTXPACK_OK)                   \
            return try_status;                          \
    } while (0)

/* The whole attention, with the sizes that addresses are computed from. */
typedef struct parallel_whole {
    ptxpack_attention_desc desc;
    parallel_problem       problem;
    ptxpack_parallel_way   asked;                      /* the way that the descriptor says */
    int64_t                batch;                      /* of the tensors: 1 if their rows are packed */
    int64_t                q_row, k_row, v_row, o_row; /* bytes of a row of all heads */
    uint32_t               starts_digest;              /* 0: not packed */
} parallel_whole;

/* A part of the schedule: its kernel, and where that kernel's workspace is.  Parts with equal descriptors share the plan and, if they
 * run in the same stream, the workspace. */
typedef struct parallel_kernel {
    ptxpack_attention_desc  desc;
    ptxpack_attention_plan *plan;
    bool                    own; /* this part is the first with it */
    uint64_t                workspace;
} parallel_kernel;

typedef struct parallel_heads parallel_heads;

/* Offsets are those in the workspace. */
typedef struct parallel_rank {
    parallel_schedule *schedule;
    int64_t            rows;                   /* of the shard */
    parallel_kernel   *kernel;                 /* of each part */
    merge_parts_plan  *merge[2];               /* of each chunk with several parts; otherwise NULL */
    uint64_t           k, v;                   /* of the buffer of keys */
    uint64_t           o[2], lse[2];           /* of the parts of a chunk that is merged */
    uint64_t           o_part[2], lse_part[2]; /* bytes of one of them */
    /* What each launch begins with, in host memory; NULL: nothing.  Of packed rows where sequences begin: in q and in keys,
     * for each chunk, or in whole sequences; of way `arrive` its words. */
    int32_t        *upload;
    int32_t         upload_count;
    uint64_t        upload_at; /* the same in the workspace */
    uint64_t        bytes;     /* of the workspace */
    parallel_heads *heads;     /* of that way; otherwise NULL */
    parallel_copy  *sends;     /* with NCCL: what other ranks take; .rank is who, .from where in the shard */
    int32_t         send_count,
        steps; /* by step; steps of the whole group, with NCCL, otherwise those of the schedule; of heads 2 */
    struct CUevent_st *ready; /* the rank's stream has come to the launch */
    struct CUevent_st
        *beside[2];          /* the parts of a chunk that take what arrives are done; [0]: those of heads */
    struct CUevent_st *keys; /* the keys of a copy, or of a step */
    struct CUevent_st *arrived[PARALLEL_STEPS + 1]; /* the copies of a step */
} parallel_rank;

struct ptxpack_attention_parallel_plan {
    ptxpack_parallel_group *group;
    parallel_whole          whole;
    int32_t                 local;
    parallel_rank          *rank;
};

/* Checks what is computed in parallel.  PTXPACK_E_ARG, _E_UNSUPPORTED, with `line` */
ptxpack_status parallel_resolve(const ptxpack_attention_parallel_desc *desc, int32_t ranks, parallel_whole *out,
                                char line[PLAN_LINE]);
/* Collective: whether all ranks have come here with PTXPACK_OK and the same descriptor; the way becomes that of rank 0.  A rank
 * that comes with a failure returns it.  PTXPACK_E_PEER, with a line that names the rank.  Without NCCL it returns `status`. */
ptxpack_status parallel_agree(ptxpack_parallel_group *group, parallel_whole *whole, ptxpack_status status);
/* Whether a problem can go this way; the best one, if any can.  PTXPACK_E_ARG, with `line` */
ptxpack_status parallel_check_way(const parallel_whole *whole, ptxpack_parallel_way way, char line[PLAN_LINE]);
/* Whether rows are asked for where they are in their sequence: by ALiBi, or by chunks. */
static inline bool parallel_has_places(const parallel_whole *whole)
{
    return whole->desc.chunk > 0 || (whole->desc.options & PTXPACK_ALIBI) != 0;
}
/* Takes the next bytes of a rank's workspace. */
uint64_t parallel_take(parallel_rank *rank, uint64_t bytes);
/* Which stream of a rank a part is in: 0 or 1, the one beside of its chunk, or 2, the caller's. */
int32_t parallel_stream_of(const parallel_part *part);
/* The attention of part number `index`. */
ptxpack_attention_desc parallel_part_desc(const parallel_whole *whole, const parallel_schedule *schedule,
                                          int32_t index);

/* The model of time, in microseconds, of rank `rank` with the problem's way; < 0: there is no memory, or a part that no
 * kernel covers, with the handle's line. */
typedef struct parallel_time {
    double all, compute, copies, merge; /* when the rank is ready; what each takes alone */
} parallel_time;
ptxpack_status parallel_model(const ptxpack *handle, const parallel_whole *whole, double link_gbps,
                              int32_t rank, parallel_time *out);
/* The same of the slowest rank with a way. */
ptxpack_status parallel_slowest(const ptxpack *handle, const parallel_whole *whole, ptxpack_parallel_way way,
                                double link_gbps, parallel_time *out);
/* The least time of all ranks' slowest, over gather and steps; over arrive, where kernels may begin early and that takes a hundredth
 * less; and over heads, where these can be divided and that takes a tenth less; unless the problem says one.  Sets the problem's
 * way.  early: kernels can begin before their keys are there (arrive.h) */
ptxpack_status parallel_choose(const ptxpack *handle, parallel_whole *whole, double link_gbps, bool early);
#endif
