/* bias.h - private: what a caller's arrays add to scores, a bias, and hide of keys, bits. */
#ifndef PTXPACK_ATTENTION_BIAS_H
#define PTXPACK_ATTENTION_BIAS_H
#include "host/attention/attention.h"
#include "host/attention/mma_args.h"
#include "host/plan/plan.h"
#include "host/plan/symbols.h"

/* Checks the fields.  PTXPACK_E_ARG */
ptxpack_status attention_check_bias(const ptxpack_attention_desc *desc, char line[PLAN_LINE]);
/* From the first element of the array to the end of its last; 0: it is not asked for. */
uint64_t attention_bias_bytes(const ptxpack_attention_desc *desc);
uint64_t attention_bits_bytes(const ptxpack_attention_desc *desc);

/* The bytes of both that there are to read. */
double attention_bias_traffic(const ptxpack_attention_desc *desc);

/* Whether tiles of several heads, or of several sequences, have the same bias, which they then read one after another. */
bool attention_shares_bias(const ptxpack_attention_desc *desc);

/* What ptx/attention/bias/ is told, and the order of tiles.  even: the kernel's first key of a thread in a block has an even number. */
void attention_bias_symbols(const ptxpack_attention_desc *desc, bool varlen, bool even, symbol_list *list);
attention_bias_arguments attention_bias_numbers(const ptxpack_attention_desc *desc); /* but for addresses */

/* The same in host memory: what is added to the score of row i and key j, and whether bits let the row see the key, in a
 * sequence of so many queries and keys. */
double attention_bias_at(const ptxpack_attention_desc *desc, const void *bias, int64_t batch, int64_t head,
                         int64_t i, int64_t j);
bool   attention_bit_at(const ptxpack_attention_desc *desc, const uint32_t *bits, int64_t batch, int64_t head,
                        int64_t i, int64_t j, int64_t queries, int64_t keys);
#endif
