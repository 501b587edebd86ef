/* random_fixture.h - for tests with random input: numbers from a seed, which is printed and can be given. */
#ifndef PTXPACK_TEST_RANDOM_FIXTURE_H
#define PTXPACK_TEST_RANDOM_FIXTURE_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t seed = 20261120;

static inline uint64_t random_bits(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static inline int below(int n) { return (int)((random_bits() >> 33) % (uint64_t)n); }

/* Prints the seed; it is the setup of a group. */
static inline int print_seed(void **state)
{
    const char *text = getenv("PTXPACK_TEST_SEED");
    (void)state;
    seed = text != NULL ? strtoull(text, NULL, 0) | 1 : seed;
    printf("seed %llu\n", (unsigned long long)seed);
    return 0;
}
#endif
