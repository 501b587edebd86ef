/* rounds.h - cases timed in rounds: in each every case runs once, in shuffled order, after a rest; the
 * median counts.  One more round, before them, does not.  A case is a CUDA graph of some launches where the
 * driver has graphs. */
#ifndef PTXPACK_BENCH_ROUNDS_H
#define PTXPACK_BENCH_ROUNDS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tools/device.h"

typedef struct bench_rounds {
    device  *gpu;
    size_t   count;
    int64_t  rounds;
    uint64_t seed;
    int      launches, rest_us;                   /* of a case each time; before it */
    bool (*enqueue)(void *context, size_t index); /* the launches of a case, to the device's stream */
    void                   *context;
    struct CUgraphExec_st **graphs; /* set by bench_rounds_run, as is */
    double                 *ms;     /* [count][rounds], of one launch */
} bench_rounds;

/* false after setting the device's line; to be freed in any case. */
bool   bench_rounds_run(bench_rounds *b);
double bench_rounds_ms(bench_rounds *b, size_t index); /* the median, of one launch */
void   bench_rounds_free(bench_rounds *b);
#endif
