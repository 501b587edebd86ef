/* reference.c - the choice of tokens on the CPU, in the whole numbers that the kernel has. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "op.h"

uint64_t sampling_random(uint64_t seed, uint64_t counter)
{
    uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (int round = 0; round < 10; round++) {
        const uint64_t a = UINT64_C(0xD2511F53) * c[0], b = UINT64_C(0xCD9E8D57) * c[2];
        const uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ key[0], (uint32_t)b,
                                  (uint32_t)(a >> 32) ^ c[3] ^ key[1], (uint32_t)a};
        memcpy(c, next, sizeof c);
        key[0] += 0x9E3779B9;
        key[1] += 0xBB67AE85;
    }
    return c[0] | (uint64_t)c[1] << 32;
}

/* Keys are in the order of the numbers. */
static uint32_t key_of(float z)
{
    uint32_t bits;
    z = isnan(z) ? -INFINITY : z + 0.0f; /* -0 becomes 0 */
    memcpy(&bits, &z, sizeof bits);
    return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}

static float number_of(uint32_t key)
{
    const uint32_t bits = key >> 31 != 0 ? key & 0x7fffffffu : ~key;
    float          z;
    memcpy(&z, &bits, sizeof z);
    return z;
}

/* 2^30 2^u, u = (z - most) scale; each product and sum is one f32 operation, as in the kernel. */
static uint32_t weight_of(float z, float most, float scale)
{
    static const float c[] = {1.8775767e-3f, 8.9893397e-3f, 5.5826318e-2f, 2.4015361e-1f, 6.9315308e-1f, 1};
    const float        difference = z - most;
    float              u = difference * scale, p = c[0];
    if (!(u > -31)) /* less than 1; C shifts by less than 32 */
        return 0;
    int32_t n = (int32_t)u;
    n -= (float)n > u;
    u -= (float)n;
    for (int i = 1; i < 6; i++) {
        p *= u;
        p += c[i];
    }
    return (uint32_t)(p * 0x1p30f) >> -n;
}

/* A row: the tokens whose key is at least `least` are left. */
typedef struct sampled_row {
    uint32_t *key, *weight;
    int32_t   count;
    uint32_t  least;
} sampled_row;

/* The sum of the weights, or the number, of the tokens that are left and whose key is at least `key`. */
static uint64_t amount(const sampled_row *r, uint32_t key, bool weighted)
{
    uint64_t sum = 0;
    for (int32_t i = 0; i < r->count; i++)
        if (r->key[i] >= key && r->key[i] >= r->least)
            sum += weighted ? r->weight[i] : 1;
    return sum;
}

/* Leaves the tokens from the largest key on, above which, with it, there is so much. */
static void leave(sampled_row *r, uint64_t wanted, bool weighted)
{
    uint32_t key = 0;
    for (int bit = 31; bit >= 0; bit--)
        if (amount(r, key | UINT32_C(1) << bit, weighted) >= wanted)
            key |= UINT32_C(1) << bit;
    r->least = key > r->least ? key : r->least;
}

__extension__ typedef unsigned __int128 product;

static uint64_t high_product(uint64_t a, uint64_t b) { return (uint64_t)((product)a * b >> 64); }

static int32_t choose(sampled_row *r, const ptxpack_sampling_row *p)
{
    int32_t first = 0;
    for (int32_t i = 1; i < r->count; i++)
        first = r->key[i] > r->key[first] ? i : first;
    const float most = number_of(r->key[first]);
    if (p == NULL || !(p->temperature > 0) || isinf(most))
        return first;
    float scale = 1.44269504f / p->temperature;
    scale = isinf(scale) ? 3.40282347e38f : scale;
    for (int32_t i = 0; i < r->count; i++)
        r->weight[i] = weight_of(number_of(r->key[i]), most, scale);
    if (p->top_k > 0 && p->top_k < r->count)
        leave(r, (uint64_t)p->top_k, false);
    if (p->top_p > 0 && p->top_p < 1) {
        uint64_t wanted = high_product(amount(r, 0, true), (uint64_t)(p->top_p * 0x1p32f) << 32);
        leave(r, wanted > 0 ? wanted : 1, true);
    }
    uint64_t rest = high_product(sampling_random(p->seed, p->counter), amount(r, 0, true));
    for (int32_t i = 0;; i++) {
        const uint32_t weight = r->key[i] >= r->least ? r->weight[i] : 0;
        if (rest < weight)
            return i;
        rest -= weight;
    }
}

ptxpack_status ptxpack_sampling_reference(const ptxpack_sampling_desc *d, const void *logits,
                                          const ptxpack_sampling_row *parameters, int32_t *tokens)
{
    char              line[PLAN_LINE];
    sampling_geometry g;
    ptxpack_status    status = sampling_resolve(d, &g, line);
    if (status != PTXPACK_OK)
        return ptxpack_fail(NULL, status, "%s", line);
    if (logits == NULL || tokens == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "%s is NULL", logits == NULL ? "logits" : "tokens");
    uint32_t *words = (uint32_t *)malloc(2 * sizeof(uint32_t) * (size_t)d->vocabulary);
    if (words == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_MEMORY, "no memory for a row of %d logits", (int)d->vocabulary);
    for (int32_t i = 0; i < d->rows; i++) {
        sampled_row r = {.key = words, .weight = words + d->vocabulary, .count = d->vocabulary};
        for (int32_t j = 0; j < d->vocabulary; j++) {
            const size_t at = (size_t)(i * g.stride + j);
            r.key[j] = key_of(g.element_bytes == sizeof(float) ? ((const float *)logits)[at]
                                                               : ptxpack_element(d->dtype, logits, at));
        }
        tokens[i] = choose(&r, parameters != NULL ? &parameters[i] : NULL);
    }
    free(words);
    return PTXPACK_OK;
}
