/* memory.h - the kernels of the benchmarks' own (ptx/probe): random numbers in memory, a sum that only reads, and the
 * step of a decoding loop. */
#ifndef PTXPACK_BENCH_MEMORY_H
#define PTXPACK_BENCH_MEMORY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tools/device.h"

typedef struct bench_memory {
    device         *gpu;
    ptxpack_kernel *fill, *reduce, *advance; /* they belong to the handle */
    uint64_t        sum;                     /* a word on the device, to which reductions add */
    int             sm_count;
} bench_memory;

/* The functions below return false with the device's line set.  Close the memory in any case. */
bool bench_memory_open(bench_memory *m, device *gpu, ptxpack_dtype dtype);
void bench_memory_close(bench_memory *m);

/* Fills whole 16 bytes with random numbers of the type; element i is bench_memory_element. */
bool  bench_memory_fill(bench_memory *m, uint64_t at, size_t bytes, uint32_t seed);
float bench_memory_element(uint32_t index, uint32_t seed); /* the same in either type */

/* Enqueues an addition of all words of two arrays of so many bytes, whole 16 bytes, to the word at m->sum. */
bool bench_memory_reduce(bench_memory *m, uint64_t a, uint64_t b, size_t bytes);
/* Enqueues a step: lengths beyond first + steps - 1 begin anew at first + 1, the others grow by 1; int32 [batch]. */
bool bench_memory_advance(bench_memory *m, uint64_t lengths, uint64_t first, int32_t steps, int32_t batch);
#endif
