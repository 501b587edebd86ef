/* arrive.h - private: way `arrive` of parallel attention: one launch of all of a rank's rows, which begins at once and waits, piece
 * by piece, for keys that are on their way (attention.h, "Arrivals").
 *
 * A piece is a chunk of the whole sequence; all have as many rows.  The buffer has the pieces of other ranks at their places in
 * the sequence; the rank's own stay where they are.  The word of a piece is written in the stream of its copy, and so after the
 * data. */
#ifndef PTXPACK_PARALLEL_ARRIVE_H
#define PTXPACK_PARALLEL_ARRIVE_H
#include "plan.h"

/* Whether kernels of a group can begin before their keys are there, but for launches that are captured. */
bool arrive_early(const ptxpack_parallel_group *group);
/* Whether a problem is one of this way.  PTXPACK_E_ARG, with `line` */
ptxpack_status arrive_check(const parallel_whole *whole, char line[PLAN_LINE]);
/* The attention of a rank's rows. */
ptxpack_attention_desc arrive_desc(const parallel_whole *whole, int32_t rank);
/* Makes the launch of a local rank, and its words as they are before any piece has come. */
ptxpack_status arrive_make(const ptxpack_parallel_group *group, const parallel_whole *whole, int32_t local,
                           parallel_rank *rank);
/* After the data of `copy`: its word. */
ptxpack_status arrive_tell(const ptxpack_attention_parallel_plan *plan, int32_t local,
                           const ptxpack_attention_parallel_buffers *buffers, const parallel_copy *copy);
/* The launch, in the rank's stream. */
ptxpack_status arrive_attend(const ptxpack_attention_parallel_plan *plan, int32_t local,
                             const ptxpack_attention_parallel_buffers *buffers);
#endif
