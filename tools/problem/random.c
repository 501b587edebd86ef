/* random.c - splitmix64, and normal numbers by the polar method. */
#include "random.h"

#include <math.h>
#include <time.h>

uint64_t random_seed(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    random_state r = random_start((uint64_t)now.tv_sec * 1000000007u ^ (uint64_t)now.tv_nsec);
    return random_bits(&r) >> 32; /* short enough to type again */
}

random_state random_start(uint64_t seed) { return (random_state){seed}; }

uint64_t random_bits(random_state *random)
{
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint64_t random_below(random_state *random, uint64_t limit)
{
    return random_bits(random) % limit; /* the bias is limit / 2^64 */
}

void random_normal(random_state *random, ptxpack_dtype type, void *out, size_t count)
{
    const float unit = type == PTXPACK_INT8 ? 32 : 1;
    for (size_t i = 0; i < count; i += 2) {
        float x, y, square;
        do { /* find a point in the unit circle */
            uint64_t bits = random_bits(random);
            x = (float)(int32_t)(uint32_t)bits * 0x1p-31f;
            y = (float)(int32_t)(uint32_t)(bits >> 32) * 0x1p-31f;
            square = x * x + y * y;
        } while (square >= 1 || square == 0);
        float factor = unit * sqrtf(-2 * logf(square) / square);
        ptxpack_set_element(type, out, i, x * factor);
        if (i + 1 < count)
            ptxpack_set_element(type, out, i + 1, y * factor);
    }
}

void random_scales(random_state *random, float *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = exp2f((float)(int32_t)(uint32_t)random_bits(random) * 0x1p-31f);
}
