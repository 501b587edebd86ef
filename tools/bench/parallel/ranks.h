/* ranks.h - cases that run on all ranks of a group, or on the first one alone, and share their memory.
 *
 * Ranks    Rank r uses device r of the process, modulo their number: on one GPU several ranks may share it.
 * Memory   Each rank has two sets of tensors of random numbers, which launches use in turn.  A shard lies at the beginning of
 *          its tensor, in every case.  Queries are the same on all ranks.
 * Timing   rounds.h, on the stream of the first rank: the streams of the others begin after it has come to the case, and
 *          it ends after they have.  Nothing is captured, so that what the host takes to enqueue counts where the GPUs wait
 *          for it, as it does in a program.
 * Errors   Functions that return false have set the line of the first rank's device. */
#ifndef PTXPACK_BENCH_PARALLEL_RANKS_H
#define PTXPACK_BENCH_PARALLEL_RANKS_H
#include "host/ptxpack.h"
#include "tools/bench/bench.h"
#include "tools/bench/rounds.h"

enum { RANKS_MOST = 64, RANKS_SETS = 2 };
enum { RANKS_Q, RANKS_K, RANKS_V, RANKS_O, RANKS_LSE, RANKS_TENSORS };

typedef struct ranks_one {
    device             gpu;
    uint64_t           tensor[RANKS_TENSORS];
    struct CUevent_st *done;
} ranks_one;

/* What a case is: one attention on the first rank; the same by all ranks; decoding of keys that all ranks divide; copies
 * that every rank takes from the next one. */
typedef enum ranks_kind { RANKS_ALONE, RANKS_PREFILL, RANKS_DECODE, RANKS_COPY } ranks_kind;

typedef struct ranks_case {
    ranks_kind             kind;
    ptxpack_attention_desc desc; /* RANKS_DECODE: of one rank's keys */
    ptxpack_shards         shards;
    ptxpack_parallel_way   way;
    size_t                 copied; /* bytes that a rank receives */
    /* set by ranks_run: the plan of the kind */
    ptxpack_attention_plan          *alone;
    ptxpack_attention_parallel_plan *prefill;
    ptxpack_parallel_decode_plan    *decode;
    uint64_t                         workspace[RANKS_MOST];
} ranks_case;

typedef struct ranks_bench {
    const bench_settings   *settings;
    int                     rest_us;
    int32_t                 ranks, gpus; /* gpus: how many different ones */
    ranks_one               rank[RANKS_MOST];
    int32_t                 opened; /* ranks that have a device; the caller opens the first one */
    ptxpack_parallel_group *group;
    struct CUevent_st      *begun;        /* of the first rank */
    size_t       bytes[2][RANKS_TENSORS]; /* of a set: of the first rank, which has the whole, too; of others */
    ranks_case  *cases;
    size_t       count;
    bool        *live;
    int         *launches; /* of each case in a round */
    bench_rounds timing;
} ranks_bench;

/* Opens the other devices and makes the group. */
bool ranks_open(ranks_bench *b);
void ranks_close(ranks_bench *b);
/* Allocates and fills the tensors, makes and checks all cases, and times them. */
bool ranks_run(ranks_bench *b);
/* Enqueues launches of a case on all streams, as many as RANKS_LAUNCHES. */
bool ranks_enqueue(void *bench, size_t index);

/* Compares two rows of a case with double precision: the first row of the first head, and the last one of the last. */
bool ranks_check(ranks_bench *b, const ranks_case *c);
/* Where an element of random numbers comes from. */
uint32_t ranks_seed(const ranks_bench *b, int32_t rank, int tensor, int set);
/* The bytes of a set of a rank's tensor; where set `set` of it is. */
size_t   ranks_bytes(const ranks_bench *b, int32_t rank, int tensor);
uint64_t ranks_at(const ranks_bench *b, int32_t rank, int tensor, int set);
/* Copies what a device said to the first rank's line; returns `ok`. */
bool ranks_said(ranks_bench *b, int32_t rank, bool ok);
#endif
