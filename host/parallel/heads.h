/* heads.h - private: way `heads` of parallel attention: each rank attends with its own heads to whole sequences.
 *
 * Rank r attends with query heads r heads_q / ranks and those after it, and the key heads that go with them.  The rank that holds
 * rows gives pieces of them to each rank that attends, and takes as many results:
 *   shard   [batch][rows of the shard][heads][columns]   a piece: the rows of a chunk, and of each the columns of a rank's heads
 *   whole   [batch][all rows][heads / ranks][columns]    the same piece: rows one after another
 *   lse     [batch][heads][rows of the chunk] of a chunk of the shard; [batch][heads / ranks][all rows] of the whole */
#ifndef PTXPACK_PARALLEL_HEADS_H
#define PTXPACK_PARALLEL_HEADS_H
#include "plan.h"

enum { HEADS_Q, HEADS_K, HEADS_V, HEADS_O, HEADS_LSE, HEADS_TENSORS };

/* Of one rank; offsets are those in the workspace. */
struct parallel_heads {
    ptxpack_attention_plan *plan;
    uint64_t                workspace;            /* of that plan */
    uint64_t                whole[HEADS_TENSORS]; /* of the rank's heads */
    uint64_t                staged;               /* with NCCL: rows that are apart, on their way */
};

/* Whether a problem's heads can be divided.  PTXPACK_E_ARG, with `line` */
ptxpack_status heads_check(const parallel_whole *whole, char line[PLAN_LINE]);
/* The attention of one rank's heads. */
ptxpack_attention_desc heads_desc(const parallel_whole *whole);
/* Makes what a local rank needs beside its chunks. */
ptxpack_status heads_make(const ptxpack_parallel_group *group, const parallel_whole *whole, int32_t local,
                          parallel_rank *rank);
void           heads_free(parallel_heads *heads);

/* What a launch does for a local rank, in its context, one after another: rows come, and are attended to; results come; the
 * rank's stream waits until nobody reads what is its own. */
ptxpack_status heads_take(const ptxpack_attention_parallel_plan *plan, int32_t local,
                          const ptxpack_attention_parallel_buffers *buffers);
ptxpack_status heads_attend(const ptxpack_attention_parallel_plan *plan, int32_t local,
                            const ptxpack_attention_parallel_buffers *buffers);
ptxpack_status heads_return(const ptxpack_attention_parallel_plan *plan, int32_t local,
                            const ptxpack_attention_parallel_buffers *buffers);
ptxpack_status heads_end(const ptxpack_attention_parallel_plan *plan, int32_t local,
                         const ptxpack_attention_parallel_buffers *buffers);
#endif
