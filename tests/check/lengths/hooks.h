/* hooks.h - what cases of attention do to scores and masks: the same in PTX and in C, and biases and bits. */
#ifndef PTXPACK_CHECK_HOOKS_H
#define PTXPACK_CHECK_HOOKS_H
#include "host/attention/attention.h"

typedef struct check_hook {
    const char             *name, *score_mod, *mask_mod;
    ptxpack_attention_hooks functions;
    uint32_t                options; /* PTXPACK_BIAS, PTXPACK_MASK_BITS, PTXPACK_UNNORMALIZED */
    ptxpack_dtype           bias_dtype;
    int32_t                 mask_keys;
    int                     apart; /* how the rows of a bias and of bits lie: check_describe_bias */
} check_hook;
enum { CHECK_HOOKS = 11, CHECK_TEXTS = 6 /* the first ones: hooks alone */ };
extern const check_hook check_hooks[CHECK_HOOKS];

/* Sets the fields of a descriptor about a bias and bits: with `apart` 0 each row has its own, in pairs; 1 the same, of odd
 * rows; 2 all heads share them; 3 all sequences do. */
void check_describe_bias(const check_hook *hook, ptxpack_attention_desc *desc);
/* Fills the arrays for sequences of so many rows: small numbers, some of them -inf, and bits that hide some keys; every
 * seventh row has no key.  What no row needs is NaN. */
void check_fill_bias(const ptxpack_attention_desc *desc, void *bias, size_t bytes, int32_t sequence,
                     int64_t queries, int64_t keys);
void check_fill_bits(const ptxpack_attention_desc *desc, uint32_t *bits, size_t bytes);

/* What the hooks find in memory: at aux[0] the slope of each head, at aux[1] the document of each position, of which
 * CHECK_POSITIONS are before the first key. */
enum { CHECK_SLOPES = 64, CHECK_POSITIONS = 4096, CHECK_DOCUMENTS = 2 * CHECK_POSITIONS };
void check_fill_aux(float slopes[CHECK_SLOPES], int32_t documents[CHECK_DOCUMENTS]);
#endif
