/* bias.c - a bias and bits, from files or random. */
#include "bias.h"

#include <stdlib.h>
#include <string.h>

#include "tools/command.h"

/* Prints one line on stderr; the result is false. */
#define REFUSE(...) (command_fail(subcommand, __VA_ARGS__), false)

static bool is_random(const char *word) { return word != NULL && strcmp(word, "random") == 0; }

/* The distances, in elements, of an array [batch, heads, rows, last], whose dimensions are `d`'s, or 1, or missing from the
 * first one on. */
static bool find_strides(const char *subcommand, const char *name, const npy_array *array,
                         const ptxpack_attention_desc *d, ptxpack_strides *out)
{
    enum { RANK = 4 };
    const int64_t extents[RANK - 1] = {d->batch, d->heads_q, d->seqlen_q};
    int64_t       shape[RANK] = {1, 1, 1, 1}, strides[RANK - 1], step;
    if (array->rank < 1 || array->rank > RANK)
        return REFUSE("--%s: the file has %d dimensions, not 1 to 4", name, array->rank);
    memcpy(shape + RANK - array->rank, array->shape, (size_t)array->rank * sizeof *shape);
    step = shape[RANK - 1];
    for (int i = RANK - 2; i >= 0; i--) {
        if (shape[i] != 1 && shape[i] != extents[i])
            return REFUSE("--%s: dimension %d of [batch, heads, rows, ..] is %lld, neither 1 nor %lld", name, i,
                          (long long)shape[i], (long long)extents[i]);
        strides[i] = shape[i] == 1 ? 0 : step;
        step *= shape[i];
    }
    *out = (ptxpack_strides){.batch = strides[0], .head = strides[1], .row = strides[2]};
    return true;
}

static bool describe_bias(const char *subcommand, const char *word, attention_bias_files *files,
                          ptxpack_attention_desc *d)
{
    char          line[NPY_LINE];
    const int64_t rows = d->seqlen_q, row = d->seqlen_kv + d->seqlen_kv % 2; /* even: read in pairs */
    npy_array    *a = &files->bias;
    if (word == NULL)
        return true;
    d->options |= PTXPACK_BIAS;
    if (is_random(word)) {
        d->bias_dtype = d->dtype == PTXPACK_BF16 ? PTXPACK_BF16 : PTXPACK_F16;
        d->bias = (ptxpack_strides){.batch = d->heads_q * rows * row, .row = row, .head = rows * row};
        return true;
    }
    if (!npy_read(word, a, line))
        return REFUSE("--bias: %s", line);
    if (a->type != NPY_F32 && a->type != NPY_F16 && a->type != NPY_U16)
        return REFUSE("--bias: %s holds %s, not float32, float16 or uint16 (bf16)", word,
                      npy_type_name(a->type));
    d->bias_dtype = a->type == NPY_F16 ? PTXPACK_F16 : a->type == NPY_U16 ? PTXPACK_BF16 : (ptxpack_dtype)0;
    if (!find_strides(subcommand, "bias", a, d, &d->bias))
        return false;
    return a->shape[a->rank - 1] == d->seqlen_kv ||
           REFUSE("--bias: rows have %lld elements, not one for each of %d keys",
                  (long long)a->shape[a->rank - 1], (int)d->seqlen_kv);
}

static bool read_keys(const char *subcommand, const char *word, ptxpack_attention_desc *d)
{
    char      *end = NULL;
    const long keys = word == NULL ? 0 : strtol(word, &end, 10);
    if (word == NULL)
        return true;
    d->mask_keys = strcmp(word, "queries") == 0 ? PTXPACK_KEYS_OF_QUERIES : (int32_t)keys;
    return d->mask_keys == PTXPACK_KEYS_OF_QUERIES || (*end == '\0' && keys > 0 && keys <= d->seqlen_kv) ||
           REFUSE("--mask-keys: \"%s\" is neither queries nor a number from 1 to %d", word, (int)d->seqlen_kv);
}

static bool describe_bits(const char *subcommand, const attention_bias_words *words,
                          attention_bias_files *files, ptxpack_attention_desc *d)
{
    char       line[NPY_LINE];
    npy_array *a = &files->bits;
    if (words->bits == NULL)
        return words->keys == NULL || REFUSE("--mask-keys needs --mask-bits");
    d->options |= PTXPACK_MASK_BITS;
    if (!read_keys(subcommand, words->keys, d))
        return false;
    const int64_t columns = d->mask_keys > 0 ? d->mask_keys : d->mask_keys < 0 ? d->seqlen_q : d->seqlen_kv;
    const int64_t rows = d->seqlen_q, row = (columns + 31) / 32 * 4;
    if (is_random(words->bits)) {
        d->mask_bits = (ptxpack_strides){.batch = d->heads_q * rows * row, .row = row, .head = rows * row};
        return true;
    }
    if (!npy_read(words->bits, a, line))
        return REFUSE("--mask-bits: %s", line);
    if (a->type != NPY_U8)
        return REFUSE("--mask-bits: %s holds %s, not uint8", words->bits, npy_type_name(a->type));
    if (!find_strides(subcommand, "mask-bits", a, d, &d->mask_bits))
        return false;
    const int64_t bytes = a->shape[a->rank - 1];
    return (bytes % 4 == 0 && bytes >= row) ||
           REFUSE("--mask-bits: rows have %lld bytes, not a multiple of 4 from %lld on", (long long)bytes,
                  (long long)row);
}

bool attention_bias_describe(const char *subcommand, const attention_bias_words *words,
                             attention_bias_files *files, ptxpack_attention_desc *d)
{
    return describe_bias(subcommand, words->bias, files, d) && describe_bits(subcommand, words, files, d);
}

static void copy(const npy_array *from, void *to, size_t bytes)
{
    const size_t have = from->count * npy_element_bytes(from->type);
    memcpy(to, from->data, have < bytes ? have : bytes);
}

/* Random bits let a row see three of four keys. */
void attention_bias_draw(const ptxpack_attention_desc *d, const attention_geometry *g,
                         const attention_bias_files *files, random_state *random, attention_arrays *arrays)
{
    const size_t bias_bytes = g->array_bytes[ARRAY_BIAS], bits_bytes = g->array_bytes[ARRAY_BITS];
    uint32_t    *bits = (uint32_t *)arrays->array[ARRAY_BITS];
    if (files->bias.data != NULL)
        copy(&files->bias, arrays->array[ARRAY_BIAS], bias_bytes);
    else if (bias_bytes != 0)
        random_normal(random, d->bias_dtype, arrays->array[ARRAY_BIAS],
                      bias_bytes / ptxpack_dtype_bytes(d->bias_dtype));
    if (files->bits.data != NULL)
        copy(&files->bits, bits, bits_bytes);
    else
        for (size_t i = 0; i < bits_bytes / sizeof *bits; i++)
            bits[i] = (uint32_t)random_below(random, (uint64_t)1 << 32) |
                      (uint32_t)random_below(random, (uint64_t)1 << 32);
}

void attention_bias_free(attention_bias_files *files)
{
    npy_free(&files->bias);
    npy_free(&files->bits);
}
