/* check.c - every check of an append's descriptor and of the addresses of a launch. */
#include <string.h>

#include "op.h"

#define refuse(line, ...) plan_refuse(line, PTXPACK_E_ARG, __VA_ARGS__)

enum { PIECE = 8 /* elements of 16 bytes */, MOST_DIM = APPEND_MOST_DIM, MOST_PAGE = 1024 };

const char *const append_tensor_names[APPEND_TENSORS] = {"k_new", "v_new", "q", "k", "v", "q_out"};
const char *const append_array_names[APPEND_ARRAYS] = {"lengths_kv", "lengths_new", "starts_new",
                                                       "row_map",    "left_pad",    "page_table"};

/* ---- the descriptor ----------------------------------------------------------------------------------- */
static ptxpack_status check_extents(const ptxpack_attention_append_desc *d, char *line)
{
    const struct {
        const char *name;
        int32_t     value, least;
    } extents[] = {{"batch", d->batch, 1},
                   {"seqlen_new", d->seqlen_new, 1},
                   {"seqlen_kv", d->seqlen_kv, 1},
                   {"heads_kv", d->heads_kv, 1},
                   {"heads_q", d->heads_q, 0}};
    for (size_t i = 0; i < sizeof extents / sizeof extents[0]; i++)
        if (extents[i].value < extents[i].least)
            return refuse(line, "%s is %d; it must be at least %d", extents[i].name, (int)extents[i].value,
                          (int)extents[i].least);
    const int step = append_has_blocks(d) ? PTXPACK_Q8_0_ELEMENTS : append_has_bytes(d) ? 2 * PIECE : PIECE;
    if (d->head_dim < step || d->head_dim % step != 0 || d->head_dim > MOST_DIM)
        return refuse(line, "head_dim %d is not a multiple of %d up to %d", (int)d->head_dim, step,
                      (int)MOST_DIM);
    return PTXPACK_OK;
}

static ptxpack_status check_kv_dtype(const ptxpack_attention_append_desc *d, char *line)
{
    const uint32_t shapes = d->options & (PTXPACK_DESCALES_TENSOR | PTXPACK_DESCALES_HEAD);
    if (append_has_bytes(d) && d->kv_dtype != PTXPACK_E4M3 && d->kv_dtype != PTXPACK_INT8)
        return refuse(line, "kv_dtype %d is none of 0, PTXPACK_E4M3, PTXPACK_INT8, PTXPACK_Q8_0 and dtype",
                      (int)d->kv_dtype);
    if (d->reserved != 0)
        return refuse(line, "reserved is %u; it must be 0", (unsigned)d->reserved);
    if (shapes != 0 && !append_has_bytes(d))
        return refuse(line, "PTXPACK_DESCALES_TENSOR and PTXPACK_DESCALES_HEAD need a kv_dtype of bytes");
    if (shapes == (PTXPACK_DESCALES_TENSOR | PTXPACK_DESCALES_HEAD))
        return refuse(line, "PTXPACK_DESCALES_TENSOR and PTXPACK_DESCALES_HEAD exclude each other");
    return PTXPACK_OK;
}

static ptxpack_status check_rotary(const ptxpack_attention_append_desc *d, char *line)
{
    const uint32_t of_rotary = PTXPACK_LEFT_PAD | PTXPACK_ROPE_PAIRS | PTXPACK_ROPE_Q_AT_START;
    if (d->rotary_dim < 0 || d->rotary_dim % (2 * PIECE) != 0 || d->rotary_dim > d->head_dim)
        return refuse(line, "rotary_dim %d is not a multiple of %d up to head_dim %d", (int)d->rotary_dim,
                      2 * PIECE, (int)d->head_dim);
    if (d->rotary_dim > 0 ? d->positions < 1 : d->positions != 0)
        return refuse(line, "positions is %d with rotary_dim %d; cos and sin have %s", (int)d->positions,
                      (int)d->rotary_dim, d->rotary_dim > 0 ? "at least one row" : "no rows then");
    if (d->rotary_dim == 0 && (d->options & of_rotary) != 0)
        return refuse(line, "options 0x%x: left_pad and the kinds of rotary embedding need a rotary_dim",
                      (unsigned)(d->options & of_rotary));
    if (d->rotary_dim == 0 && d->heads_q != 0)
        return refuse(line, "heads_q is %d, but without a rotary_dim q stays as it is", (int)d->heads_q);
    return PTXPACK_OK;
}

/* A number that only some kinds of rows have. */
static ptxpack_status check_count(const char *name, int32_t value, bool wanted, const char *when, char *line)
{
    if (wanted ? value < 1 : value != 0)
        return refuse(line, "%s is %d; %s %s it must be %s", name, (int)value, wanted ? "with" : "without",
                      when, wanted ? "at least 1" : "0");
    return PTXPACK_OK;
}

static ptxpack_status check_rows(const ptxpack_attention_append_desc *d, char *line)
{
    const uint32_t known = PTXPACK_ROW_MAP | PTXPACK_LEFT_PAD | PTXPACK_LENGTHS_NEW | PTXPACK_ROPE_PAIRS |
                           PTXPACK_ROPE_Q_AT_START | PTXPACK_DESCALES_TENSOR | PTXPACK_DESCALES_HEAD;
    bool paged = d->kv_rows == PTXPACK_ROWS_PAGED, mapped = (d->options & PTXPACK_ROW_MAP) != 0;
    if (d->new_rows != PTXPACK_ROWS_DENSE && d->new_rows != PTXPACK_ROWS_PACKED)
        return refuse(line, "new_rows is %d, not PTXPACK_ROWS_DENSE or PTXPACK_ROWS_PACKED", (int)d->new_rows);
    if (d->kv_rows != PTXPACK_ROWS_DENSE && !paged)
        return refuse(line, "kv_rows is %d, not PTXPACK_ROWS_DENSE or PTXPACK_ROWS_PAGED", (int)d->kv_rows);
    if ((d->options & ~known) != 0)
        return refuse(line, "options has the unknown bits 0x%x", (unsigned)(d->options & ~known));
    if (mapped && paged)
        return refuse(line, "PTXPACK_ROW_MAP needs dense k and v");
    ptxpack_status status = check_count("rows_new", d->rows_new, d->new_rows == PTXPACK_ROWS_PACKED,
                                        "packed new rows", line);
    if (status == PTXPACK_OK)
        status = check_count("rows_kv", d->rows_kv, paged || mapped, "paged rows or a row map", line);
    if (status == PTXPACK_OK)
        status = check_count("page_rows", d->page_rows, paged, "paged rows", line);
    if (status == PTXPACK_OK)
        status = check_count("table_width", d->table_width, paged, "paged rows", line);
    if (status == PTXPACK_OK && paged && ((d->page_rows & (d->page_rows - 1)) != 0 || d->page_rows > MOST_PAGE))
        return refuse(line, "page_rows %d is not a power of two up to %d", (int)d->page_rows, (int)MOST_PAGE);
    if (status == PTXPACK_OK && paged && (int64_t)d->table_width * d->page_rows < d->seqlen_kv)
        return refuse(line, "table_width %d times page_rows %d is less than seqlen_kv %d", (int)d->table_width,
                      (int)d->page_rows, (int)d->seqlen_kv);
    return status;
}

static ptxpack_status check_fields(const ptxpack_attention_append_desc *d, char *line)
{
    if (d == NULL)
        return refuse(line, "desc is NULL");
    if (d->size != sizeof *d)
        return refuse(line, "desc.size is %u; sizeof(ptxpack_attention_append_desc) is %zu", (unsigned)d->size,
                      sizeof *d);
    if (d->dtype != PTXPACK_F16 && d->dtype != PTXPACK_BF16)
        return refuse(line, "dtype %d is neither PTXPACK_F16 nor PTXPACK_BF16", (int)d->dtype);
    ptxpack_status status = check_kv_dtype(d, line);
    if (status == PTXPACK_OK)
        status = check_extents(d, line);
    if (status == PTXPACK_OK)
        status = check_rotary(d, line);
    return status == PTXPACK_OK ? check_rows(d, line) : status;
}

static ptxpack_status resolve_tensor(const ptxpack_attention_append_desc *d, int tensor, memory_tensor *out,
                                     char *line)
{
    const ptxpack_strides *all[APPEND_TENSORS] = {&d->k_new, &d->v_new, &d->q, &d->k, &d->v, &d->q_out};
    const ptxpack_strides *s = all[tensor];
    bool                   cache = tensor == APPEND_K || tensor == APPEND_V;
    bool                   packed = d->new_rows == PTXPACK_ROWS_PACKED;
    const ptxpack_dtype    type = cache ? append_kv_type(d) : d->dtype;
    const int64_t          block = type == PTXPACK_Q8_0 ? PTXPACK_Q8_0_ELEMENTS : 0;
    memory_shape           shape = {.name = append_tensor_names[tensor],
                                    .written = tensor >= APPEND_K,
                                    .extent = {packed ? 1 : d->batch, packed ? d->rows_new : d->seqlen_new, d->heads_kv},
                                    .stride = {s->batch, s->row, s->head},
                                    .elements = d->head_dim,
                                    .element_bytes = ptxpack_dtype_span(type, block != 0 ? (size_t)block : 1),
                                    .block = block,
                                    .step = block};
    if (cache) {
        shape.extent[MEMORY_BATCH] = d->rows_kv != 0 ? d->rows_kv : d->batch;
        shape.extent[MEMORY_ROW] = d->kv_rows == PTXPACK_ROWS_PAGED ? d->page_rows : d->seqlen_kv;
    }
    if (tensor == APPEND_Q || tensor == APPEND_Q_OUT)
        shape.extent[MEMORY_HEAD] = d->heads_q;
    return memory_resolve(&shape, out, line);
}

ptxpack_status append_resolve(const ptxpack_attention_append_desc *d, append_geometry *out,
                              char line[PLAN_LINE])
{
    ptxpack_status status = check_fields(d, line);
    *out = (append_geometry){.rows = 0};
    for (int i = 0; i < APPEND_TENSORS && status == PTXPACK_OK; i++)
        if (d->heads_q != 0 || (i != APPEND_Q && i != APPEND_Q_OUT))
            status = resolve_tensor(d, i, &out->tensor[i], line);
    if (status != PTXPACK_OK)
        return status;
    const uint64_t each = sizeof(int32_t) * (uint64_t)d->batch;
    const int32_t  pieces = d->head_dim / PIECE, turned = d->rotary_dim / PIECE;
    bool           pairs = (d->options & PTXPACK_ROPE_PAIRS) != 0;
    out->array_bytes[APPEND_LENGTHS_KV] = each;
    out->array_bytes[APPEND_LENGTHS_NEW] = (d->options & PTXPACK_LENGTHS_NEW) != 0 ? each : 0;
    out->array_bytes[APPEND_STARTS_NEW] = d->new_rows == PTXPACK_ROWS_PACKED ? each + sizeof(int32_t) : 0;
    out->array_bytes[APPEND_ROW_MAP] = (d->options & PTXPACK_ROW_MAP) != 0 ? each : 0;
    out->array_bytes[APPEND_LEFT_PAD] = (d->options & PTXPACK_LEFT_PAD) != 0 ? each : 0;
    out->array_bytes[APPEND_PAGE_TABLE] = each * (uint64_t)d->table_width;
    out->table_bytes = (uint64_t)d->positions * (uint64_t)d->rotary_dim / 2 * ptxpack_dtype_bytes(d->dtype);
    out->descale_bytes = !append_has_bytes(d)
                             ? 0
                             : sizeof(float) * (uint64_t)((append_descale_batch(d) != 0 ? d->batch : 1) *
                                                          (append_descale_head(d) != 0 ? d->heads_kv : 1));
    out->rotated = pairs ? turned : turned / 2;
    out->head_units = pairs ? pieces : pieces - turned / 2;
    out->rows = d->new_rows == PTXPACK_ROWS_PACKED ? d->rows_new : (int64_t)d->batch * d->seqlen_new;
    out->v_units = append_has_blocks(d) ? d->head_dim / PTXPACK_Q8_0_ELEMENTS : pieces;
    out->k_units = append_has_blocks(d) ? out->v_units : out->head_units;
    out->row_units = (int64_t)d->heads_kv * (out->k_units + out->v_units) +
                     (int64_t)d->heads_q * out->head_units;
    return PTXPACK_OK;
}

/* ---- addresses ---------------------------------------------------------------------------------------- */
uint64_t append_array(const append_geometry *g, const ptxpack_attention_append_buffers *b, int id)
{
    const uint64_t all[APPEND_ARRAYS] = {b->lengths_kv, b->lengths_new, b->starts_new,
                                         b->row_map,    b->left_pad,    b->page_table};
    return g->array_bytes[id] != 0 ? all[id] : 0;
}

/* Whether two ranges may overlap: K and V, and the new rows and q, may be parts of one tensor, which their strides keep
 * apart; q may be rotated in place. */
static bool may_overlap(const append_geometry *g, int written, int other, bool same_address)
{
    bool new_rows = other == APPEND_K_NEW || other == APPEND_V_NEW;
    if (written == APPEND_V && other == APPEND_K)
        return !same_address;
    if (written == APPEND_Q_OUT && other == APPEND_Q)
        return same_address && memcmp(g->tensor[APPEND_Q].stride, g->tensor[APPEND_Q_OUT].stride,
                                      sizeof g->tensor[0].stride) == 0;
    return written == APPEND_Q_OUT && new_rows && !same_address;
}

void append_list_memory(const append_geometry *g, const ptxpack_attention_append_buffers *b,
                        memory_range ranges[APPEND_RANGES])
{
    enum { COS = APPEND_TENSORS, SIN, ARRAYS, K_DESCALE = ARRAYS + APPEND_ARRAYS };
    const uint64_t tensors[APPEND_TENSORS] = {b->k_new, b->v_new, b->q, b->k, b->v, b->q_out};
    for (int i = 0; i < APPEND_TENSORS; i++) {
        uint64_t bytes = g->tensor[i].bytes;
        ranges[i] = (memory_range){append_tensor_names[i], bytes != 0 ? tensors[i] : 0, bytes, 16, bytes == 0};
    }
    bool rotated = g->table_bytes != 0;
    ranges[COS] = (memory_range){"cos", rotated ? b->cos : 0, g->table_bytes, 16, !rotated};
    ranges[SIN] = (memory_range){"sin", rotated ? b->sin : 0, g->table_bytes, 16, !rotated};
    const uint64_t scales = g->descale_bytes;
    ranges[K_DESCALE] = (memory_range){"k_descale", scales != 0 ? b->k_descale : 0, scales, 4, true};
    ranges[K_DESCALE + 1] = (memory_range){"v_descale", scales != 0 ? b->v_descale : 0, scales, 4, true};
    for (int i = 0; i < APPEND_ARRAYS; i++)
        ranges[ARRAYS + i] = (memory_range){append_array_names[i], append_array(g, b, i), g->array_bytes[i], 4,
                                            g->array_bytes[i] == 0};
}

ptxpack_status append_check(const append_geometry *g, const ptxpack_attention_append_buffers *b,
                            char line[PLAN_LINE])
{
    memory_range ranges[APPEND_RANGES];
    if (b == NULL)
        return refuse(line, "buffers is NULL");
    if (b->size != sizeof *b)
        return refuse(line, "buffers.size is %u; sizeof(ptxpack_attention_append_buffers) is %zu",
                      (unsigned)b->size, sizeof *b);
    append_list_memory(g, b, ranges);
    for (int i = 0; i < APPEND_RANGES; i++) {
        ptxpack_status status = memory_check(&ranges[i], line);
        if (status != PTXPACK_OK)
            return status;
    }
    for (int written = APPEND_K; written <= APPEND_Q_OUT; written++)
        for (int i = 0; i < APPEND_RANGES; i++) {
            bool           earlier = i < written || i > APPEND_Q_OUT; /* each pair once */
            bool           same = ranges[written].address == ranges[i].address;
            ptxpack_status status = !earlier || may_overlap(g, written, i, same)
                                        ? PTXPACK_OK
                                        : memory_refuse_overlap(&ranges[written], &ranges[i], line);
            if (status != PTXPACK_OK)
                return status;
        }
    return PTXPACK_OK;
}
