/* fuzz.h - what the fuzz programs share: random numbers from a seed, files to run again, the number of texts to
 * try. A program defines LLVMFuzzerTestOneInput; with -DLIBFUZZER libFuzzer brings its own main instead of
 * this file's part.
 *
 *   NAME FILE...                   run these inputs unchanged
 *   PTXPACK_TEST_SEED=N            another seed; it is printed
 *   PTXPACK_FUZZ_RUNS=N            another number of texts */
#ifndef PTXPACK_TEST_FUZZ_H
#define PTXPACK_TEST_FUZZ_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t fuzz_state; /* never 0 */

/* A random number below `below`, which is not 0. */
static inline uint32_t draw(uint32_t below)
{
    fuzz_state ^= fuzz_state << 13;
    fuzz_state ^= fuzz_state >> 7;
    fuzz_state ^= fuzz_state << 17;
    return (uint32_t)(fuzz_state >> 33) % below;
}

static inline int fuzz_replay(const char *path)
{
    static uint8_t data[1 << 22];
    FILE          *file = fopen(path, "rb");
    if (file == NULL)
        return perror(path), 1;
    size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    return LLVMFuzzerTestOneInput(data, size);
}

/* Runs the files that are named and ends the program.  Without any, sets the seed and prints it, and returns
 * the number of texts to make: `usual`, or what the environment says. */
static inline long fuzz_begin(int argc, char **argv, const char *name, long usual)
{
    const char *seed = getenv("PTXPACK_TEST_SEED"), *runs = getenv("PTXPACK_FUZZ_RUNS");
    long        count = runs != NULL ? atol(runs) : usual;
    for (int i = 1; i < argc; i++)
        if (fuzz_replay(argv[i]) != 0)
            exit(1);
    if (argc > 1)
        exit(0);
    fuzz_state = seed != NULL ? strtoull(seed, NULL, 0) : 20261120;
    printf("%s: %ld texts from seed %llu\n", name, count, (unsigned long long)fuzz_state);
    fflush(stdout);
    fuzz_state |= fuzz_state == 0;
    return count;
}
#endif
