/* check.c - every check of an attention descriptor and of the addresses of a launch. */
#include "check.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "arrivals/arrivals.h"
#include "bias/bias.h"

const char *const attention_tensor_names[TENSOR_COUNT] = {"q", "k", "v", "o"};

#define refuse(line, ...) plan_refuse(line, PTXPACK_E_ARG, __VA_ARGS__)

enum {
    CHUNK = 16, /* the bytes that the kernels copy at once: rows consist of whole chunks */
    MOST_DIM = 576
};

/* ---- sizes and enumerations --------------------------------------------------------------------- */
static ptxpack_status check_extents(const ptxpack_attention_desc *d, char *line)
{
    const struct {
        const char *name;
        int32_t     value;
    } extents[] = {
        {"batch", d->batch},     {"seqlen_q", d->seqlen_q}, {"seqlen_kv", d->seqlen_kv},
        {"heads_q", d->heads_q}, {"heads_kv", d->heads_kv}, {"head_dim", d->head_dim},
    };
    for (size_t i = 0; i < sizeof extents / sizeof extents[0]; i++)
        if (extents[i].value < 1)
            return refuse(line, "%s is %d; it must be at least 1", extents[i].name, (int)extents[i].value);
    if (d->heads_q % d->heads_kv != 0)
        return refuse(line, "heads_q %d is not a multiple of heads_kv %d", (int)d->heads_q, (int)d->heads_kv);
    if (attention_has_blocks(d) && d->head_dim != 64 && d->head_dim != 128 && d->head_dim != 256)
        return refuse(line, "head_dim %d is none of 64, 128 and 256, which PTXPACK_Q8_0 takes",
                      (int)d->head_dim);
    int step = attention_has_blocks(d) ? 64 : (int)(CHUNK / ptxpack_dtype_bytes(attention_kv_type(d)));
    int most = attention_kv_type(d) == PTXPACK_E4M3 || attention_has_codes(d) ? 256 : MOST_DIM;
    if (d->head_dim % step != 0 || d->head_dim > most)
        return refuse(line, "head_dim %d is not a multiple of %d up to %d", (int)d->head_dim, step, most);
    return PTXPACK_OK;
}

/* Whether v states none, or those of k where they mean something. */
static bool has_strides_of_keys(const ptxpack_attention_desc *d)
{
    int64_t batches, rows;
    attention_extents(d, TENSOR_K, &batches, &rows);
    return (d->v.batch | d->v.row | d->v.head) == 0 ||
           ((batches == 1 || d->v.batch == d->k.batch) && (rows == 1 || d->v.row == d->k.row) &&
            (d->heads_kv == 1 || d->v.head == d->k.head));
}

static ptxpack_status check_values(const ptxpack_attention_desc *d, char *line)
{
    const int  step = (int)(CHUNK / ptxpack_dtype_bytes(d->dtype)), columns = attention_value_dim(d);
    const bool in_keys = (d->options & PTXPACK_VALUES_IN_KEYS) != 0, other = columns != d->head_dim;
    if (columns < 1 || columns % step != 0 || columns > ATTENTION_MOST_VALUES)
        return refuse(line, "head_dim_v %d is not a multiple of %d up to %d", columns, step,
                      (int)ATTENTION_MOST_VALUES);
    if ((other || in_keys) && d->dtype == PTXPACK_E4M3)
        return refuse(line, "%s is not taken with fp8", other ? "head_dim_v" : "PTXPACK_VALUES_IN_KEYS");
    if ((other || in_keys) && attention_has_codes(d))
        return refuse(line, "%s is not taken with kv_dtype", other ? "head_dim_v" : "PTXPACK_VALUES_IN_KEYS");
    if ((other || in_keys) && d->block_rows != 0)
        return refuse(line, "%s is not taken with lists of blocks",
                      other ? "head_dim_v" : "PTXPACK_VALUES_IN_KEYS");
    if ((other || in_keys) && d->append != NULL)
        return refuse(line, "%s is not taken with append", other ? "head_dim_v" : "PTXPACK_VALUES_IN_KEYS");
    if (d->reserved != 0)
        return refuse(line, "reserved is %u; it must be 0", (unsigned)d->reserved);
    if (in_keys && columns > d->head_dim)
        return refuse(line, "head_dim_v %d exceeds head_dim %d, but PTXPACK_VALUES_IN_KEYS takes v from k",
                      columns, (int)d->head_dim);
    if (in_keys && !has_strides_of_keys(d))
        return refuse(line, "v has other strides than k, but PTXPACK_VALUES_IN_KEYS takes it from k");
    return PTXPACK_OK;
}

static float scale_of(const ptxpack_attention_desc *d)
{
    return d->scale != 0 ? d->scale : (float)(1.0 / sqrt((double)d->head_dim));
}

static bool is_normal(double value) { return value >= FLT_MIN && value <= FLT_MAX; }

/* The kernel gets scale / softcap and softcap * log2(e), which must stay finite and not vanish. */
static ptxpack_status check_softcap(const ptxpack_attention_desc *d, char *line)
{
    double cap = d->softcap, scale = scale_of(d);
    if (!(cap >= 0) || isinf(cap))
        return refuse(line, "softcap %g is neither 0 (off) nor a positive number", cap);
    if (cap > 0 && !(is_normal(cap * 1.4426950408889634) && is_normal(scale / cap)))
        return refuse(line,
                      "softcap %g is too %s for scale %g: scale / softcap and softcap * log2(e) must "
                      "be normal floats",
                      cap, cap < scale ? "small" : "large", scale);
    return PTXPACK_OK;
}

/* The kernel gets slope / scale, or slope / softcap, which must stay finite times the largest distance. */
static ptxpack_status check_alibi(const ptxpack_attention_desc *d, char *line)
{
    const float factor = d->softcap > 0 ? d->softcap : scale_of(d);
    if ((d->options & PTXPACK_ALIBI) != 0 && factor < 0x1p-40f)
        return refuse(line, "%s %g is too small for PTXPACK_ALIBI", d->softcap > 0 ? "softcap" : "scale",
                      (double)factor);
    return PTXPACK_OK;
}

static ptxpack_status check_unnormalized(const ptxpack_attention_desc *d, char *line)
{
    if ((d->options & PTXPACK_UNNORMALIZED) != 0 && (d->options & PTXPACK_SINKS) != 0)
        return refuse(
            line, "PTXPACK_SINKS is not taken with PTXPACK_UNNORMALIZED: there is no sum for sinks to join");
    return PTXPACK_OK;
}

static ptxpack_status check_chunk(const ptxpack_attention_desc *d, char *line)
{
    if (d->chunk < 0)
        return refuse(line, "chunk is %d; it must be at least 0", (int)d->chunk);
    if (d->chunk > 0 && d->mask != PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT)
        return refuse(line, "chunk is %d, but mask %d is not PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT", (int)d->chunk,
                      (int)d->mask);
    return PTXPACK_OK;
}

static ptxpack_status check_kv_dtype(const ptxpack_attention_desc *d, char *line)
{
    const uint32_t shapes = d->options & (PTXPACK_DESCALES_TENSOR | PTXPACK_DESCALES_HEAD);
    const bool     codes = d->kv_dtype >= PTXPACK_E4M3 && d->kv_dtype <= PTXPACK_Q8_0;
    if (d->kv_dtype != 0 && d->kv_dtype != d->dtype && !(codes && d->dtype != PTXPACK_E4M3))
        return refuse(line, "kv_dtype %d is none of 0, PTXPACK_E4M3, PTXPACK_INT8, PTXPACK_Q8_0 and dtype%s",
                      (int)d->kv_dtype, d->dtype == PTXPACK_E4M3 ? ", which is PTXPACK_E4M3" : "");
    if (shapes != 0 && !attention_has_bytes(d))
        return refuse(line, "PTXPACK_DESCALES_TENSOR and PTXPACK_DESCALES_HEAD need a kv_dtype of bytes");
    if (shapes == (PTXPACK_DESCALES_TENSOR | PTXPACK_DESCALES_HEAD))
        return refuse(line, "PTXPACK_DESCALES_TENSOR and PTXPACK_DESCALES_HEAD exclude each other");
    return PTXPACK_OK;
}

static ptxpack_status check_fields(const ptxpack_attention_desc *d, char *line)
{
    if (d == NULL)
        return refuse(line, "desc is NULL");
    if (d->size != sizeof *d)
        return refuse(line, "desc.size is %u; sizeof(ptxpack_attention_desc) is %zu", (unsigned)d->size,
                      sizeof *d);
    if (ptxpack_dtype_bytes(d->dtype) == 0 || d->dtype == PTXPACK_INT8)
        return refuse(line, "dtype %d is none of PTXPACK_F16, PTXPACK_BF16 and PTXPACK_E4M3", (int)d->dtype);
    if ((int)d->mask < PTXPACK_MASK_NONE || (int)d->mask > PTXPACK_MASK_WINDOW_BOTTOM_RIGHT)
        return refuse(line, "mask %d is no ptxpack_mask", (int)d->mask);
    if (d->mask < PTXPACK_MASK_WINDOW_TOP_LEFT && (d->window_left != 0 || d->window_right != 0))
        return refuse(line, "%s is %d, but mask %d is no window",
                      d->window_left != 0 ? "window_left" : "window_right",
                      (int)(d->window_left != 0 ? d->window_left : d->window_right), (int)d->mask);
    /* The kernel gets scale * log2(e), which must stay finite and not vanish. */
    if (!(d->scale == 0 || (d->scale >= FLT_MIN && d->scale <= FLT_MAX / 2)))
        return refuse(line, "scale %g is neither 0 (the default) nor a positive normal number",
                      (double)d->scale);
    ptxpack_status status = check_kv_dtype(d, line);
    if (status == PTXPACK_OK)
        status = check_extents(d, line);
    if (status == PTXPACK_OK)
        status = check_values(d, line);
    if (status == PTXPACK_OK)
        status = check_softcap(d, line);
    if (status == PTXPACK_OK)
        status = check_alibi(d, line);
    if (status == PTXPACK_OK)
        status = check_unnormalized(d, line);
    if (status == PTXPACK_OK)
        status = check_chunk(d, line);
    if (status == PTXPACK_OK)
        status = attention_check_bias(d, line);
    return status == PTXPACK_OK ? attention_check_lengths(d, line) : status;
}

/* ---- strides ------------------------------------------------------------------------------------ */
static ptxpack_status resolve_tensor(const ptxpack_attention_desc *d, int tensor, attention_geometry *out,
                                     char *line)
{
    const ptxpack_strides *all[TENSOR_COUNT] = {&d->q, &d->k, &d->v, &d->o}, *s = all[tensor];
    bool                   keys = tensor == TENSOR_K || tensor == TENSOR_V;
    const ptxpack_dtype    type = attention_tensor_type(d, tensor);
    const bool             blocks = type == PTXPACK_Q8_0; /* a row is 17 pieces of head_dim / 16 bytes */
    const int64_t          block = blocks ? PTXPACK_Q8_0_ELEMENTS : 1;
    const size_t           bytes = ptxpack_dtype_span(type, (size_t)block);
    memory_shape           shape = {.name = attention_tensor_names[tensor],
                                    .written = tensor == TENSOR_O,
                                    .extent = {0, 0, keys ? d->heads_kv : d->heads_q},
                                    .stride = {s->batch, s->row, s->head},
                                    .elements = attention_columns(d, tensor),
                                    .element_bytes = bytes,
                                    .block = block,
                                    .step = blocks ? d->head_dim : 0};
    memory_tensor          found;
    if (tensor == TENSOR_V && out->values_in_keys) {
        out->tensor[TENSOR_V] = out->tensor[TENSOR_K];
        return PTXPACK_OK;
    }
    attention_extents(d, tensor, &shape.extent[MEMORY_BATCH], &shape.extent[MEMORY_ROW]);
    ptxpack_status status = memory_resolve(&shape, &found, line);
    if (status == PTXPACK_OK)
        out->tensor[tensor] = (attention_tensor){found.stride[MEMORY_BATCH] / (int64_t)bytes * block,
                                                 found.stride[MEMORY_ROW] / (int64_t)bytes * block,
                                                 found.stride[MEMORY_HEAD] / (int64_t)bytes * block,
                                                 found.bytes};
    return status;
}

/* Row i attends to keys [i + left, i + right], of chunks to those from the first key of i + left's chunk on.  A limit that hides no key in any row is dropped; one that
 * hides all keys of all rows is moved next to them, so that i + offset lies between -seqlen_q and seqlen_q +
 * seqlen_kv. */
static void resolve_mask(const ptxpack_attention_desc *d, attention_geometry *out)
{
    bool    window = d->mask >= PTXPACK_MASK_WINDOW_TOP_LEFT;
    bool    bottom = d->mask == PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT || d->mask == PTXPACK_MASK_WINDOW_BOTTOM_RIGHT;
    int64_t rows = d->seqlen_q, keys = d->seqlen_kv, diagonal = bottom ? keys - rows : 0;
    int64_t left = diagonal - d->window_left, right = diagonal + d->window_right;
    out->chunk = d->chunk < keys ? d->chunk : 0;
    out->limited_left = out->chunk > 0 || (window && d->window_left >= 0 && left > 1 - rows);
    out->limited_right = out->chunk > 0 ||
                         (d->mask != PTXPACK_MASK_NONE && d->window_right >= 0 && right < keys - 1);
    out->left_offset = !out->limited_left ? 0 : (int32_t)(left < keys ? left : keys);
    out->right_offset = !out->limited_right ? 0 : (int32_t)(right > -rows ? right : -rows);
}

ptxpack_status ptxpack_attention_resolve(const ptxpack_attention_desc *desc, attention_geometry *out,
                                         char line[PLAN_LINE])
{
    ptxpack_status status = check_fields(desc, line);
    out->values_in_keys = status == PTXPACK_OK && (desc->options & PTXPACK_VALUES_IN_KEYS) != 0;
    for (int i = 0; i < TENSOR_COUNT && status == PTXPACK_OK; i++)
        status = resolve_tensor(desc, i, out, line);
    if (status != PTXPACK_OK)
        return status;
    uint64_t rows = (uint64_t)desc->batch * (uint64_t)desc->heads_q;
    out->lse_bytes = rows * (uint64_t)desc->seqlen_q * sizeof(float); /* less than o, so no overflow */
    out->q_descale_bytes = desc->dtype == PTXPACK_E4M3
                               ? (uint64_t)desc->batch * (uint64_t)desc->heads_kv * sizeof(float)
                               : 0;
    out->descale_bytes = attention_has_bytes(desc) ? (uint64_t)attention_descale_count(desc) * sizeof(float)
                                                   : out->q_descale_bytes;
    out->scale = scale_of(desc);
    out->softcap = desc->softcap;
    out->unnormalized = (desc->options & PTXPACK_UNNORMALIZED) != 0;
    resolve_mask(desc, out);
    attention_resolve_lengths(desc, out);
    out->array_bytes[ARRAY_BIAS] = attention_bias_bytes(desc);
    out->array_bytes[ARRAY_BITS] = attention_bits_bytes(desc);
    status = attention_resolve_lists(desc, out, line);
    if (status == PTXPACK_OK)
        status = attention_resolve_arrivals(desc, out, line);
    for (int i = 0; i < HOOK_COUNT && status == PTXPACK_OK; i++)
        status = attention_check_hook(attention_hook(desc, i), i, &out->hook_parts[i], line);
    return status;
}

/* ---- addresses ---------------------------------------------------------------------------------- */
static bool is_tensor(int array) { return array == ARRAY_BIAS || array >= ARRAY_K_OWN; }

static bool asks_for_arrays(const attention_geometry *geometry)
{
    uint64_t any = 0;
    for (int i = 0; i < ARRAY_COUNT; i++)
        any |= geometry->array_bytes[i];
    return any != 0;
}

int attention_list_memory(const attention_geometry *geometry, uint64_t scratch,
                          const ptxpack_attention_buffers *b, memory_range ranges[RANGE_COUNT])
{
    const uint64_t scales = geometry->descale_bytes, of_q = geometry->q_descale_bytes; /* 0: not looked at */
    const memory_range tensors[RANGE_ARRAYS] = {
        {"q", b->q, geometry->tensor[TENSOR_Q].bytes, 16, false},
        {"k", b->k, geometry->tensor[TENSOR_K].bytes, 16, false},
        {"v", b->v, geometry->tensor[TENSOR_V].bytes, 16, false},
        {"q_descale", of_q != 0 ? b->q_descale : 0, of_q, 4, true},
        {"k_descale", scales != 0 ? b->k_descale : 0, scales, 4, true},
        {"v_descale", scales != 0 ? b->v_descale : 0, scales, 4, true},
        {"o", b->o, geometry->tensor[TENSOR_O].bytes, 16, false},
        {"lse", b->lse, geometry->lse_bytes, 4, true},
        {"workspace", scratch != 0 ? b->workspace : 0, scratch, 16, scratch == 0},
    };
    memcpy(ranges, tensors, sizeof tensors);
    if (!asks_for_arrays(geometry))
        return RANGE_ARRAYS;
    for (int i = 0; i < ARRAY_COUNT; i++)
        ranges[RANGE_ARRAYS + i] = (memory_range){attention_array_names[i], attention_array(geometry, b, i),
                                                  geometry->array_bytes[i], is_tensor(i) ? 16 : 4,
                                                  geometry->array_bytes[i] == 0};
    for (int i = ARRAY_FULL_COUNT; i <= ARRAY_FULL_LIST; i += ARRAY_FULL_LIST - ARRAY_FULL_COUNT)
        ranges[RANGE_ARRAYS + i].optional |= b->full_count == 0 && b->full_list == 0;
    for (int i = ARRAY_K_OWN; i <= ARRAY_V_OWN; i++)
        ranges[RANGE_ARRAYS + i].optional |= b->k_own == 0 && b->v_own == 0;
    return RANGE_COUNT;
}

ptxpack_status ptxpack_attention_check_buffers(const attention_geometry *geometry, uint64_t scratch,
                                               const ptxpack_attention_buffers *b, char line[PLAN_LINE])
{
    memory_range ranges[RANGE_COUNT];
    const int    count = attention_list_memory(geometry, scratch, b, ranges);
    for (int i = 0; i < count; i++) {
        ptxpack_status status = memory_check(&ranges[i], line);
        if (status != PTXPACK_OK)
            return status;
    }
    for (int written = RANGE_WRITTEN; written < RANGE_ARRAYS; written++)
        for (int i = 0; i < count; i++) {
            ptxpack_status status = i < written || i >= RANGE_ARRAYS
                                        ? memory_refuse_overlap(&ranges[written], &ranges[i], line)
                                        : PTXPACK_OK;
            if (status != PTXPACK_OK)
                return status;
        }
    return PTXPACK_OK;
}
