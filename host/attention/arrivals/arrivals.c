/* arrivals.c - the fields of keys that arrive while a launch runs, and which kernels take them. */
#include "arrivals.h"

#include <string.h>

#define refuse(line, ...) plan_refuse(line, PTXPACK_E_ARG, __VA_ARGS__)

static ptxpack_status check_numbers(const ptxpack_attention_desc *d, char *line)
{
    const int32_t beyond = d->seqlen_kv - d->seqlen_q;
    if (d->reserved_arrival != 0)
        return refuse(line, "reserved_arrival is %d; it must be 0", (int)d->reserved_arrival);
    if (d->arrival_rows < 0)
        return refuse(line, "arrival_rows is %d; it must be at least 0", (int)d->arrival_rows);
    if (d->arrival_rows == 0 && (d->early_rows != 0 || d->early_keys != 0))
        return refuse(line, "%s is %d; without arrival_rows it must be 0",
                      d->early_rows != 0 ? "early_rows" : "early_keys",
                      (int)(d->early_rows != 0 ? d->early_rows : d->early_keys));
    if (d->arrival_rows == 0)
        return PTXPACK_OK;
    if (d->mask != PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT || d->chunk != 0)
        return refuse(line, "arrival_rows needs PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, without chunks");
    if (beyond < 0)
        return refuse(line, "seqlen_kv %d is less than seqlen_q %d, as it may not be with arrival_rows",
                      (int)d->seqlen_kv, (int)d->seqlen_q);
    if (d->early_rows < 0 || d->early_rows >= d->seqlen_q)
        return refuse(line, "early_rows is %d, not from 0 to below seqlen_q %d", (int)d->early_rows,
                      (int)d->seqlen_q);
    if (d->early_keys < 0 || d->early_keys > (d->early_rows > 0 ? beyond : 0))
        return refuse(line, "early_keys is %d, not from 0 to %d: %s", (int)d->early_keys,
                      (int)(d->early_rows > 0 ? beyond : 0),
                      d->early_rows > 0 ? "the first row must see a key" : "early_rows is 0");
    return PTXPACK_OK;
}

ptxpack_status attention_resolve_arrivals(const ptxpack_attention_desc *d, attention_geometry *out,
                                          char line[PLAN_LINE])
{
    const ptxpack_status status = check_numbers(d, line);
    const bool           used = status == PTXPACK_OK && d->arrival_rows > 0;
    const uint64_t       rows = (uint64_t)d->batch * (uint64_t)d->seqlen_q * (uint64_t)d->heads_kv,
                   row = ptxpack_dtype_bytes(d->dtype);
    out->arrival_rows = used ? d->arrival_rows : 0;
    out->early_rows = used ? d->early_rows : 0;
    out->early_keys = used ? d->early_keys : 0;
    out->array_bytes[ARRAY_ARRIVALS] = used ? sizeof(uint32_t) *
                                                  ((uint64_t)(d->seqlen_kv - 1) / (uint64_t)d->arrival_rows + 1)
                                            : 0;
    out->array_bytes[ARRAY_K_OWN] = used ? rows * row * (uint64_t)d->head_dim : 0;
    out->array_bytes[ARRAY_V_OWN] = used ? rows * row * (uint64_t)attention_value_dim(d) : 0;
    if (used) { /* also where it hides no key: there is one kernel for all of them */
        out->limited_right = true;
        out->right_offset = d->seqlen_kv - d->seqlen_q;
    }
    return status;
}

static const char never[] = "does not wait for keys (arrival_rows)";

const char *attention_arrivals_missing(const ptxpack_variant *row)
{
    return strcmp(row->file, "attention/wgmma.ptx") != 0 || ptxpack_variant_parameter(row, "FP8", 0) != 0 ||
                   ptxpack_variant_parameter(row, "COLUMN_GROUPS", 1) > 1
               ? never
               : NULL;
}

const char *attention_refuse_arrivals(const attention_geometry *g, char line[PLAN_LINE])
{
    if (!attention_has_arrivals(g))
        return NULL;
    plan_refuse(line, PTXPACK_E_UNSUPPORTED, "%s", never);
    return line;
}

/* What of a problem the kernels do not have together with pieces; NULL: nothing. */
static const char *excluded(const ptxpack_attention_desc *d, const attention_geometry *g)
{
    return g->varlen                                        ? "lengths of sequences, packed or paged rows"
           : attention_has_alibi(g)                         ? "PTXPACK_ALIBI"
           : attention_has_bias(g) || attention_has_bits(g) ? "a bias or bits"
           : attention_has_hooks(g)                         ? "hooks"
           : attention_has_lists(g)                         ? "lists of blocks"
           : g->values_in_keys                              ? "PTXPACK_VALUES_IN_KEYS"
           : d->append != NULL                              ? "an append"
                                                            : NULL;
}

const char *attention_refuse_pieces(const ptxpack_attention_desc *d, const attention_geometry *g,
                                    const ptxpack_variant *row, char line[PLAN_LINE])
{
    enum { STORED = 16 /* rows */ };
    const int64_t n = ptxpack_variant_parameter(row, "BLOCK_N", 1);
    if (!attention_has_arrivals(g))
        return NULL;
    if (attention_arrivals_missing(row) != NULL)
        return attention_refuse_arrivals(g, line);
    if (excluded(d, g) != NULL)
        plan_refuse(line, PTXPACK_E_UNSUPPORTED, "does not take %s with arrival_rows", excluded(d, g));
    else if (d->arrival_rows % n != 0)
        plan_refuse(line, PTXPACK_E_UNSUPPORTED, "takes multiples of %d keys: arrival_rows is %d", (int)n,
                    (int)d->arrival_rows);
    else if (d->early_rows % STORED != 0)
        plan_refuse(line, PTXPACK_E_UNSUPPORTED, "takes multiples of %d rows: early_rows is %d", (int)STORED,
                    (int)d->early_rows);
    else
        return NULL;
    return line;
}

int32_t attention_early_shift(const attention_geometry *g, int64_t block_m)
{
    return (int32_t)((block_m - g->early_rows % block_m) % block_m);
}

void attention_find_turn(const ptxpack_attention_desc *d, const attention_geometry *g, int32_t *first,
                         int32_t *end)
{
    const int32_t rows = g->arrival_rows,
                  last = d->seqlen_kv - rows;          /* where the second run's own keys begin */
    const int32_t early = last - g->early_keys - rows; /* the first one's */
    const bool    pieces = rows > 0 && g->early_rows == rows && d->seqlen_q == 2 * rows && early >= 0 &&
                        last % rows == 0 && early % rows == 0;
    *first = pieces ? early : 0;
    *end = pieces ? last : 0;
}

int64_t attention_lse_place(const ptxpack_attention_desc *d, int64_t batch, int64_t head, int64_t row)
{
    const bool    early = row < d->early_rows;
    const int64_t first = early ? 0 : d->early_rows, rows = early ? d->early_rows : d->seqlen_q - d->early_rows;
    return first * d->batch * d->heads_q + (batch * d->heads_q + head) * rows + row - first;
}

void attention_own_keys(const ptxpack_attention_desc *d, const attention_geometry *g,
                        ptxpack_attention_desc *own_desc, attention_geometry *own)
{
    const int tensors[] = {TENSOR_K, TENSOR_V};
    *own_desc = *d;
    *own = *g;
    own_desc->seqlen_kv = d->seqlen_q;
    for (int i = 0; i < 2; i++) {
        const int64_t columns = attention_columns(d, tensors[i]), row = columns * d->heads_kv;
        own->tensor[tensors[i]] =
            (attention_tensor){.batch = row * d->seqlen_q,
                               .row = row,
                               .head = columns,
                               .bytes = g->array_bytes[i == 0 ? ARRAY_K_OWN : ARRAY_V_OWN]};
    }
}
