/* schedule.h - private: what each rank of a group copies and computes; plain arithmetic, no device.
 *
 * The rows of the whole sequence are divided into chunks, `ranks` of them or, zigzag, twice as many, of which a rank owns one
 * or two: its shard, chunk after chunk.  Way `gather`: a rank copies all keys that its rows attend to into a buffer, in their
 * order, and each of its chunks is one attention.  Way `steps`: it attends to its own keys at once, while those of its peers
 * arrive, in steps that double: from 1 peer, from 2, from 4, ...; each chunk then has several parts, which are merged.  Way
 * `arrive` (arrive.c) copies all keys up to its last row, but its own, to their places in a buffer, and attends to them while
 * they arrive.  Way `heads` (heads.c) has chunks alone.
 *
 * A part is an attention of a chunk's rows to a run of rows in memory, with a mask of attention.h: keys that no row of the
 * chunk sees are left out at both ends, so that both bounds of a window can be said from one end or the other. */
#ifndef PTXPACK_PARALLEL_SCHEDULE_H
#define PTXPACK_PARALLEL_SCHEDULE_H
#include "parallel.h"

typedef struct parallel_problem {
    int32_t              ranks;
    ptxpack_shards       shards;
    ptxpack_parallel_way way;         /* not PTXPACK_PARALLEL_BEST */
    int64_t              rows;        /* of the whole sequence */
    int64_t              left, right; /* row i attends to i - left <= j <= i + right; below 0: no limit */
    int64_t keys_of_chunk; /* it attends to those of its own chunk of so many rows alone; 0: no chunks */
    /* Packed sequences: where each of them begins, and the end of the last one; NULL: one sequence, or several of equal length.
     * They gather, and right is -1 or 0. */
    const int32_t *starts;
    int32_t        sequences;
} parallel_problem;

/* Rows of the whole sequence. */
typedef struct parallel_rows {
    int64_t first, count;
} parallel_rows;

/* Rows that a rank takes from a shard, perhaps its own, into its buffer. */
typedef struct parallel_copy {
    int32_t rank, step;             /* whose shard; steps count from 1 */
    int64_t first, count, from, to; /* in the sequence; in the shard; in the buffer */
} parallel_copy;

typedef struct parallel_part {
    int32_t chunk,
        step; /* of the rank's own; 0: the keys are those of the own shard, otherwise of the buffer */
    int64_t      row, rows; /* of keys there */
    ptxpack_mask mask;
    int32_t      window_left, window_right;
} parallel_part;

typedef struct parallel_schedule {
    int32_t        rank, chunks, steps; /* 1 or 2 chunks */
    parallel_rows  chunk[2];
    int64_t        buffer_rows;
    int32_t        copy_count, part_count;
    parallel_copy *copies; /* by step, and by their place in the buffer */
    parallel_part *parts;  /* by step, and by chunk */
} parallel_schedule;

/* The chunks of a rank; returns how many.  Chunks may be empty. */
int32_t parallel_chunks(const parallel_problem *problem, int32_t rank, parallel_rows chunk[2]);
/* The rows that some row of a chunk that is not empty attends to; perhaps beyond both ends of the sequence, but not of packed
 * ones. */
parallel_rows parallel_reach(const parallel_problem *problem, const parallel_rows *chunk);
/* Makes the schedule of a rank, in one block of memory that the caller frees; NULL: out of memory. */
parallel_schedule *parallel_schedule_make(const parallel_problem *problem, int32_t rank);
/* The parts of a chunk. */
int32_t parallel_parts_of(const parallel_schedule *schedule, int32_t chunk);
#endif
