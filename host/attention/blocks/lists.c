/* lists.c - lists of blocks of keys that a launch brings: the check of the fields about them, and what kernels are told. */
#include <string.h>

#include "host/attention/op.h"

#define refuse(line, ...) plan_refuse(line, PTXPACK_E_ARG, __VA_ARGS__)

/* ---- the fields --------------------------------------------------------------------------------------- */
static ptxpack_status check_numbers(const ptxpack_attention_desc *d, char *line)
{
    if (d->block_rows < 0 || d->block_keys < 0 || (d->block_rows == 0) != (d->block_keys == 0))
        return refuse(line, "block_rows %d and block_keys %d are neither both at least 1 nor both 0",
                      (int)d->block_rows, (int)d->block_keys);
    if (d->reserved_block != 0)
        return refuse(line, "reserved_block is %d; it must be 0", (int)d->reserved_block);
    if (d->block_rows == 0 && (d->block_width != 0 || d->block_batch != 0 || d->block_head != 0))
        return refuse(line, "%s is not 0, but block_rows is",
                      d->block_width != 0   ? "block_width"
                      : d->block_batch != 0 ? "block_batch"
                                            : "block_head");
    if (d->block_batch < 0 || d->block_batch > INT32_MAX || d->block_head < 0 || d->block_head > INT32_MAX)
        return refuse(line, "%s %lld is not from 0 to %d",
                      d->block_batch < 0 || d->block_batch > INT32_MAX ? "block_batch" : "block_head",
                      (long long)(d->block_batch < 0 || d->block_batch > INT32_MAX ? d->block_batch
                                                                                   : d->block_head),
                      INT32_MAX);
    return PTXPACK_OK;
}

ptxpack_status attention_resolve_lists(const ptxpack_attention_desc *d, attention_geometry *out,
                                       char line[PLAN_LINE])
{
    const uint64_t  entry = sizeof(int32_t);
    attention_lists l = {0};
    ptxpack_status  status = check_numbers(d, line);
    if (status == PTXPACK_OK && d->block_rows > 0) {
        l = (attention_lists){.rows = d->block_rows,
                              .keys = d->block_keys,
                              .row_blocks = (d->seqlen_q - 1) / d->block_rows + 1,
                              .key_blocks = (d->seqlen_kv - 1) / d->block_keys + 1,
                              .batch = d->batch > 1 ? (int32_t)d->block_batch : 0,
                              .head = d->heads_q > 1 ? (int32_t)d->block_head : 0};
        l.width = d->block_width != 0 ? d->block_width : l.key_blocks;
        if (l.width < l.key_blocks)
            return refuse(line, "block_width %d is less than the %d blocks of %d keys", (int)d->block_width,
                          (int)l.key_blocks, (int)l.keys);
    }
    const uint64_t lists = (uint64_t)(d->batch - 1) * (uint64_t)l.batch +
                           (uint64_t)(d->heads_q - 1) * (uint64_t)l.head + (uint64_t)l.row_blocks;
    if (lists > INT32_MAX) /* kernels number them in 32 bits */
        return refuse(line, "block_batch %lld and block_head %lld: the lists exceed %d",
                      (long long)d->block_batch, (long long)d->block_head, INT32_MAX);
    out->lists = l;
    for (int i = ARRAY_BLOCK_COUNT; i <= ARRAY_FULL_COUNT; i++)
        out->array_bytes[i] = entry * lists;
    for (int i = ARRAY_BLOCK_LIST; i <= ARRAY_FULL_LIST; i++) /* of the last list what may be read */
        out->array_bytes[i] = l.rows == 0 ? 0
                                          : entry * ((lists - 1) * (uint64_t)l.width + (uint64_t)l.key_blocks);
    return status;
}

/* ---- lists in host memory ----------------------------------------------------------------------------- */
void attention_read_list(const attention_lists *l, const attention_list_arrays *a, int32_t batch, int32_t head,
                         int32_t row, uint8_t *kinds)
{
    const int64_t number = (int64_t)batch * l->batch + (int64_t)head * l->head + row / l->rows;
    memset(kinds, ATTENTION_BLOCK_ABSENT, (size_t)l->key_blocks);
    for (int full = 0; full < 2; full++) {
        int32_t count = a->count[full] != NULL ? a->count[full][number] : 0;
        count = count < l->key_blocks ? count : l->key_blocks;
        for (int32_t i = 0; i < count; i++) {
            int32_t block = a->list[full][number * l->width + i];
            if (block >= 0 && block < l->key_blocks)
                kinds[block] = full ? ATTENTION_BLOCK_FULL : ATTENTION_BLOCK_MASKED;
        }
    }
}

/* ---- for the kernels ---------------------------------------------------------------------------------- */
const char *attention_lists_missing(const ptxpack_variant *row)
{
    enum {
        FEW_REGISTERS = 32 /* of the producer of attention/wgmma.ptx */,
        FULL_TILE = 48 /* keys of attention/mma.ptx */
    };
    return ptxpack_variant_parameter(row, "ROWS", 0) != 0
               ? "takes no lists of blocks" /* attention/decode.ptx */
           : ptxpack_variant_parameter(row, "FP8", 0) != 0 ? "takes no lists of blocks with fp8"
           : attention_row_kv(row) != ATTENTION_KV_HALVES  ? "takes no lists of blocks with kv_dtype"
           : ptxpack_variant_parameter(row, "COLUMN_GROUPS", 1) > 1
               ? "takes no lists of blocks with wide values"
           : attention_row_values(row) != ptxpack_variant_parameter(row, "HEAD_DIM", 0)
               ? "takes no lists of blocks with head_dim_v"
           : ptxpack_variant_parameter(row, "REGS_PRODUCER", 0) == FEW_REGISTERS ||
                   ptxpack_variant_parameter(row, "BLOCK_N", 0) == FULL_TILE
               ? "takes no lists of blocks: it would spill registers"
               : NULL;
}

const char *attention_refuse_lists(const attention_geometry *g, const ptxpack_variant *row,
                                   char line[PLAN_LINE])
{
    const int64_t m = ptxpack_variant_parameter(row, "BLOCK_M", 1),
                  n = ptxpack_variant_parameter(row, "BLOCK_N", 1);
    const char *missing = attention_lists_missing(row);
    if (!attention_has_lists(g))
        return NULL;
    if (attention_has_bias(g) || attention_has_bits(g))
        plan_refuse(line, PTXPACK_E_UNSUPPORTED,
                    "takes no lists of blocks with PTXPACK_BIAS or PTXPACK_MASK_BITS");
    else if (g->varlen)
        plan_refuse(line, PTXPACK_E_UNSUPPORTED, "takes no lists of blocks with lengths, packed rows or pages");
    else if (missing != NULL)
        plan_refuse(line, PTXPACK_E_UNSUPPORTED, "%s", missing);
    else if (g->lists.rows % m != 0)
        plan_refuse(line, PTXPACK_E_UNSUPPORTED, "block_rows %d is no multiple of its %d rows",
                    (int)g->lists.rows, (int)m);
    else if (g->lists.keys % n != 0)
        plan_refuse(line, PTXPACK_E_UNSUPPORTED, "block_keys %d is no multiple of its %d keys",
                    (int)g->lists.keys, (int)n);
    else
        return NULL;
    return line;
}

attention_list_numbers attention_count_lists(const attention_geometry *g, int64_t block_n)
{
    const attention_lists *l = &g->lists;
    if (l->rows == 0)
        return (attention_list_numbers){0};
    return (attention_list_numbers){.list_batch = l->batch,
                                    .list_head = l->head,
                                    .list_width = l->width,
                                    .list_rows = l->rows,
                                    .list_span = (int32_t)(l->keys / block_n),
                                    .list_most = l->key_blocks};
}

attention_list_addresses attention_find_lists(const attention_geometry *g, const ptxpack_attention_buffers *b)
{
    return (attention_list_addresses){.block_count = attention_array(g, b, ARRAY_BLOCK_COUNT),
                                      .full_count = attention_array(g, b, ARRAY_FULL_COUNT),
                                      .block_list = attention_array(g, b, ARRAY_BLOCK_LIST),
                                      .full_list = attention_array(g, b, ARRAY_FULL_LIST)};
}
