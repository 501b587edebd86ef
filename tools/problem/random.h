/* random.h - seeded random numbers: the same seed gives the same data. */
#ifndef PTXPACK_RANDOM_H
#define PTXPACK_RANDOM_H
#include <stddef.h>
#include <stdint.h>
#include "host/dtype.h"

typedef struct random_state {
    uint64_t state;
} random_state;

/* Returns a seed to use when the user gave none; print it. */
uint64_t     random_seed(void);
random_state random_start(uint64_t seed);
uint64_t     random_bits(random_state *random);
uint64_t     random_below(random_state *random, uint64_t limit); /* limit >= 1 */
/* Makes normal numbers with mean 0 and deviation 1, rounded to `type`; of int8 32 times these. */
void random_normal(random_state *random, ptxpack_dtype type, void *out, size_t count);
/* Makes numbers from 1/2 to 2 whose logarithms are evenly spread. */
void random_scales(random_state *random, float *out, size_t count);
#endif
