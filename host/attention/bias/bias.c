/* bias.c - a bias and bits of a descriptor: their check, their bytes, what kernels are told, and their elements. */
#include "bias.h"

#define refuse(line, ...) plan_refuse(line, PTXPACK_E_ARG, __VA_ARGS__)

enum { WORD = sizeof(uint32_t), WORD_BITS = 32 };

static size_t element_bytes(const ptxpack_attention_desc *d)
{
    return d->bias_dtype == 0 ? sizeof(float) : ptxpack_dtype_bytes(d->bias_dtype);
}

/* The keys that have bits, of sequences as long as the descriptor says. */
static int32_t columns_of(const ptxpack_attention_desc *d)
{
    return d->mask_keys == 0                         ? d->seqlen_kv
           : d->mask_keys == PTXPACK_KEYS_OF_QUERIES ? d->seqlen_q
                                                     : d->mask_keys;
}
static int32_t words_of(const ptxpack_attention_desc *d) { return (columns_of(d) + WORD_BITS - 1) / WORD_BITS; }

/* Whether kernels read a bias two keys at a time: then a last row, too, has the element after its last one. */
static bool has_pairs(const ptxpack_attention_desc *d)
{
    const ptxpack_strides *s = &d->bias;
    return s->batch % 2 == 0 && s->row % 2 == 0 && s->head % 2 == 0 &&
           (d->seqlen_kv % 2 == 0 || s->row > d->seqlen_kv);
}

/* ---- the check ------------------------------------------------------------------------------------------ */
static ptxpack_status check_strides(const char *name, const ptxpack_strides *s, bool wanted, int64_t unit,
                                    const char *option, char *line)
{
    const int64_t most = (int64_t)1 << 40;
    const struct {
        const char *name;
        int64_t     value, most;
    } all[] = {{"batch", s->batch, most}, {"row", s->row, INT32_MAX / unit}, {"head", s->head, most}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (!wanted && all[i].value != 0)
            return refuse(line, "%s.%s is %lld, but options lack %s", name, all[i].name,
                          (long long)all[i].value, option);
        if (all[i].value < 0 || all[i].value > all[i].most)
            return refuse(line, "%s.%s is %lld; it must be from 0 to %lld", name, all[i].name,
                          (long long)all[i].value, (long long)all[i].most);
    }
    return PTXPACK_OK;
}

static ptxpack_status check_bits(const ptxpack_attention_desc *d, char *line)
{
    const bool             wanted = (d->options & PTXPACK_MASK_BITS) != 0;
    const ptxpack_strides *s = &d->mask_bits;
    const int64_t          bytes[] = {s->batch, s->row, s->head};
    if (!wanted && d->mask_keys != 0)
        return refuse(line, "mask_keys is %d, but options lack PTXPACK_MASK_BITS", (int)d->mask_keys);
    if (d->mask_keys < PTXPACK_KEYS_OF_QUERIES || d->mask_keys > d->seqlen_kv)
        return refuse(line, "mask_keys %d is neither PTXPACK_KEYS_OF_QUERIES nor from 0 to seqlen_kv %d",
                      (int)d->mask_keys, (int)d->seqlen_kv);
    for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++)
        if (bytes[i] % WORD != 0)
            return refuse(line, "a distance of mask_bits is %lld bytes, not a multiple of %d",
                          (long long)bytes[i], (int)WORD);
    return check_strides("mask_bits", s, wanted, 1, "PTXPACK_MASK_BITS", line);
}

ptxpack_status attention_check_bias(const ptxpack_attention_desc *d, char line[PLAN_LINE])
{
    const bool wanted = (d->options & PTXPACK_BIAS) != 0;
    if (d->bias_dtype != 0 && d->bias_dtype != PTXPACK_F16 && d->bias_dtype != PTXPACK_BF16)
        return refuse(line, "bias_dtype %d is none of 0 (f32), PTXPACK_F16 and PTXPACK_BF16",
                      (int)d->bias_dtype);
    if (!wanted && d->bias_dtype != 0)
        return refuse(line, "bias_dtype is %d, but options lack PTXPACK_BIAS", (int)d->bias_dtype);
    ptxpack_status status = check_strides("bias", &d->bias, wanted, (int64_t)element_bytes(d), "PTXPACK_BIAS",
                                          line);
    return status == PTXPACK_OK ? check_bits(d, line) : status;
}

/* ---- bytes -------------------------------------------------------------------------------------------- */
/* Strides are at most 2^40 and extents below 2^31; what exceeds 2^63 bytes is as good as that. */
static uint64_t span(const ptxpack_attention_desc *d, const ptxpack_strides *s, int64_t row_units, int64_t unit)
{
    const int64_t steps[][2] = {{s->batch, d->batch}, {s->row, d->seqlen_q}, {s->head, d->heads_q}};
    int64_t       all = row_units, step;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        if (__builtin_mul_overflow(steps[i][0], steps[i][1] - 1, &step) ||
            __builtin_add_overflow(all, step, &all))
            return INT64_MAX;
    return __builtin_mul_overflow(all, unit, &all) ? INT64_MAX : (uint64_t)all;
}

uint64_t attention_bias_bytes(const ptxpack_attention_desc *d)
{
    const int64_t keys = (int64_t)d->seqlen_kv + (has_pairs(d) ? d->seqlen_kv % 2 : 0);
    return (d->options & PTXPACK_BIAS) == 0 ? 0 : span(d, &d->bias, keys, (int64_t)element_bytes(d));
}

uint64_t attention_bits_bytes(const ptxpack_attention_desc *d)
{
    return (d->options & PTXPACK_MASK_BITS) == 0 ? 0 : span(d, &d->mask_bits, (int64_t)WORD * words_of(d), 1);
}

static double rows_of(const ptxpack_attention_desc *d, const ptxpack_strides *s)
{
    return (s->batch != 0 ? (double)d->batch : 1) * (s->row != 0 ? (double)d->seqlen_q : 1) *
           (s->head != 0 ? (double)d->heads_q : 1);
}

double attention_bias_traffic(const ptxpack_attention_desc *d)
{
    const bool bias = (d->options & PTXPACK_BIAS) != 0, bits = (d->options & PTXPACK_MASK_BITS) != 0;
    return (bias ? rows_of(d, &d->bias) * d->seqlen_kv * (double)element_bytes(d) : 0) +
           (bits ? rows_of(d, &d->mask_bits) * words_of(d) * WORD : 0);
}

/* ---- for the kernels ------------------------------------------------------------------------------------ */
static bool same_for_sequences(const ptxpack_attention_desc *d)
{
    return (d->options & PTXPACK_BIAS) != 0 && d->batch > 1 && d->bias.batch == 0;
}

static bool same_for_heads(const ptxpack_attention_desc *d)
{
    return (d->options & PTXPACK_BIAS) != 0 && d->heads_q > 1 && d->bias.head == 0;
}

bool attention_shares_bias(const ptxpack_attention_desc *d)
{
    return same_for_sequences(d) || same_for_heads(d);
}

void attention_bias_symbols(const ptxpack_attention_desc *d, bool varlen, bool even, symbol_list *list)
{
    const bool bias = (d->options & PTXPACK_BIAS) != 0, bits = (d->options & PTXPACK_MASK_BITS) != 0;
    symbol_add(list, "BIAS", !bias ? 0 : d->bias_dtype == 0 ? 1 : d->bias_dtype == PTXPACK_F16 ? 2 : 3);
    symbol_add(list, "BIAS_PAIRS", bias && even && has_pairs(d));
    symbol_add(list, "BATCHES_FIRST", same_for_sequences(d) && !same_for_heads(d) && !varlen);
    symbol_add(list, "BITS", !bits ? 0 : d->mask_keys == 0 ? 1 : d->mask_keys > 0 ? 2 : 3);
}

attention_bias_arguments attention_bias_numbers(const ptxpack_attention_desc *d)
{
    const int64_t bytes = (int64_t)element_bytes(d);
    return (attention_bias_arguments){
        .bias_batch = d->bias.batch * bytes,
        .bias_head = d->bias.head * bytes,
        .bias_row = (int32_t)(d->bias.row * bytes),
        .bits_batch = d->mask_bits.batch,
        .bits_head = d->mask_bits.head,
        .bits_row = (int32_t)d->mask_bits.row,
        .bits_keys = d->mask_keys,
        .bits_words = words_of(d),
    };
}

/* ---- elements in host memory ---------------------------------------------------------------------------- */
static int64_t place(const ptxpack_strides *s, int64_t batch, int64_t head, int64_t i)
{
    return batch * s->batch + head * s->head + i * s->row;
}

double attention_bias_at(const ptxpack_attention_desc *d, const void *bias, int64_t batch, int64_t head,
                         int64_t i, int64_t j)
{
    const size_t at = (size_t)(place(&d->bias, batch, head, i) + j);
    return d->bias_dtype == 0 ? (double)((const float *)bias)[at]
                              : (double)ptxpack_element(d->bias_dtype, bias, at);
}

bool attention_bit_at(const ptxpack_attention_desc *d, const uint32_t *bits, int64_t batch, int64_t head,
                      int64_t i, int64_t j, int64_t queries, int64_t keys)
{
    const int64_t   columns = d->mask_keys == PTXPACK_KEYS_OF_QUERIES ? queries : columns_of(d);
    const int64_t   x = d->mask_keys == 0 ? j : j - (keys - columns);
    const uint32_t *row = bits + place(&d->mask_bits, batch, head, i) / WORD;
    return x < 0 || (row[x / WORD_BITS] >> (x % WORD_BITS) & 1) != 0;
}
