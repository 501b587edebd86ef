/* rounds.h - times cases in rounds: in each round every case runs once, in shuffled order, after a rest; the
 * result is the median.  A first round before them is not counted.  A case is a CUDA graph of some launches if
 * the driver has graphs, unless it is one that launches graphs itself.
 *
 * After a rest the first call of the driver takes some 40 us.  So that this does not count, the GPU is busy with sums over a
 * buffer of its own until the launches of a case are enqueued; they also drive the inputs of the case out of the L2. */
#ifndef PTXPACK_BENCH_ROUNDS_H
#define PTXPACK_BENCH_ROUNDS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "memory.h"
#include "tools/device.h"

typedef struct bench_rounds {
    device  *gpu;
    size_t   count;
    int64_t  rounds;
    uint64_t seed;
    int      launches, rest_us;                   /* launches of a case in each round; the rest before it */
    bool (*enqueue)(void *context, size_t index); /* the launches of a case, to the device's stream */
    void                   *context;
    const int              *launches_of; /* [count], of each case; NULL: all have `launches` */
    const bool             *live;        /* [count], whether a case is not captured; NULL: all are */
    struct CUgraphExec_st **graphs;      /* set by bench_rounds_run, as are those below */
    double                 *ms;          /* [count][rounds], each of one launch */
    bench_memory            memory;
    uint64_t                busy; /* what the GPU is busy with */
} bench_rounds;

/* Captures the launches of one case as a graph; *out stays NULL where the driver has no graphs.  Returns false after setting
 * the device's line.  The caller frees the graph. */
bool bench_capture(device *gpu, bool (*enqueue)(void *context, size_t index), void *context, size_t index,
                   struct CUgraphExec_st **out);
void bench_graph_free(device *gpu, struct CUgraphExec_st *graph); /* NULL is allowed */

/* Returns false after setting the device's line; free the rounds in any case. */
bool   bench_rounds_run(bench_rounds *b);
double bench_rounds_ms(bench_rounds *b, size_t index); /* the median time of one launch */
void   bench_rounds_free(bench_rounds *b);
#endif
