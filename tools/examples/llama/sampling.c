/* sampling.c - random numbers for the device, and its choice of a token done again in double precision. */
#include "llama.h"

#include <math.h>
#include <stdlib.h>

/* SplitMix64 of the two numbers; 24 bits, which a float holds exactly. */
float sampling_uniform(uint64_t seed, uint64_t position)
{
    uint64_t z = seed * UINT64_C(0xd1342543de82ef95) + position * UINT64_C(0x9e3779b97f4a7c15);
    for (int i = 0; i < 2; i++) {
        z += UINT64_C(0x9e3779b97f4a7c15);
        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        z ^= z >> 31;
    }
    return (float)(z >> 40) / 0x1p24f;
}

/* The shares of all logits that are at least `bound`; and the largest logit below it. */
static double above(const double *logits, const double *shares, int vocab, double bound, double *next)
{
    double sum = 0;
    *next = -INFINITY;
    for (int i = 0; i < vocab; i++)
        if (logits[i] >= bound)
            sum += shares[i];
        else
            *next = fmax(*next, logits[i]);
    return sum;
}

bool sampling_right(ptxpack_dtype type, const uint16_t *row, int vocab, choice how, int token)
{
    double *logits = (double *)allocate(2 * (size_t)vocab, sizeof *logits), *shares = logits + vocab;
    double  largest = -INFINITY, total = 0, before = 0, kept, bound, next;
    int     first = 0;
    for (int i = 0; i < vocab; i++) {
        logits[i] = (double)ptxpack_to_float(type, row[i]);
        first = logits[i] > logits[first] ? i : first;
    }
    largest = logits[first];
    for (int i = 0; i < vocab; i++)
        total += shares[i] = exp((logits[i] - largest) / (how.temperature > 0 ? (double)how.temperature : 1));
    for (bound = largest, next = 0; (kept = above(logits, shares, vocab, bound, &next)) < (double)how.top_p * total; bound = next)
        if (next == -INFINITY)
            break;
    for (int thread = 0; thread <= token % SAMPLE_THREADS; thread++)
        for (int i = thread; i < vocab && (thread < token % SAMPLE_THREADS || i < token); i += SAMPLE_THREADS)
            before += logits[i] >= bound ? shares[i] : 0;
    double target = (double)how.uniform * kept, slack = 1e-4 * kept;
    bool   right = how.temperature <= 0 ? token == first
                                        : token >= 0 && token < vocab && logits[token] >= bound && target >= before - slack &&
                                            target < before + shares[token] + slack;
    free(logits);
    return right;
}
