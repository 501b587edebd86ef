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

/* Two normal numbers. */
static void draw_pair(random_state *random, float pair[2])
{
    float square;
    do { /* find a point in the unit circle */
        uint64_t bits = random_bits(random);
        pair[0] = (float)(int32_t)(uint32_t)bits * 0x1p-31f;
        pair[1] = (float)(int32_t)(uint32_t)(bits >> 32) * 0x1p-31f;
        square = pair[0] * pair[0] + pair[1] * pair[1];
    } while (square >= 1 || square == 0);
    float factor = sqrtf(-2 * logf(square) / square);
    pair[0] *= factor;
    pair[1] *= factor;
}

void random_normal(random_state *random, ptxpack_dtype type, void *out, size_t count)
{
    enum { BLOCK = PTXPACK_Q8_0_ELEMENTS };
    const float unit = type == PTXPACK_INT8 ? 32 : 1;
    float       values[BLOCK];
    for (size_t first = 0; first < count; first += BLOCK) {
        const size_t some = count - first < BLOCK ? count - first : BLOCK;
        for (size_t i = 0; i < some; i += 2) {
            float pair[2];
            draw_pair(random, pair);
            values[i] = unit * pair[0];
            values[i | 1] = unit * pair[1];
        }
        ptxpack_set_elements(type, out, first, values, some);
    }
}

void random_scales(random_state *random, float *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = exp2f((float)(int32_t)(uint32_t)random_bits(random) * 0x1p-31f);
}
