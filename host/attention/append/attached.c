/* attached.c - an append as a part of an attention: what both state must agree, and is stated once. */
#include "attached.h"

#include <stdio.h>
#include <string.h>

#define refuse(line, ...) plan_refuse(line, PTXPACK_E_ARG, __VA_ARGS__)

/* A line of the append's own checks says whose field it names. */
static ptxpack_status name_line(ptxpack_status status, const char *own, char *line)
{
    return status == PTXPACK_OK ? PTXPACK_OK : plan_refuse(line, status, "append: %s", own);
}

/* ---- the descriptor ----------------------------------------------------------------------------------- */
/* A field that is 0 becomes the attention's; another one must be the same. */
static ptxpack_status take(const char *name, int32_t *field, const char *other, int32_t own, char *line)
{
    if (*field == 0)
        *field = own;
    if (*field != own)
        return refuse(line, "append: %s is %d, but %s of the attention is %d", name, (int)*field, other,
                      (int)own);
    return PTXPACK_OK;
}

/* An option of the append, and that of the attention that it must go with. */
static ptxpack_status take_option(const char *name, uint32_t bit, const char *other, uint32_t own,
                                  const ptxpack_attention_desc *d, ptxpack_attention_append_desc *a, char *line)
{
    if ((a->options & bit) != 0 && (d->options & own) == 0)
        return refuse(line, "append: options have %s, but those of the attention do not have %s", name, other);
    a->options |= (d->options & own) != 0 ? bit : 0;
    return PTXPACK_OK;
}

static ptxpack_status take_cache(const ptxpack_attention_desc *d, ptxpack_attention_append_desc *a, char *line)
{
    int32_t dtype = (int32_t)a->dtype, kv_rows = (int32_t)a->kv_rows, kv_dtype = (int32_t)a->kv_dtype;
    const struct {
        const char *name;
        int32_t    *field, own;
    } fields[] = {{"dtype", &dtype, (int32_t)d->dtype},
                  {"kv_dtype", &kv_dtype, (int32_t)d->kv_dtype},
                  {"batch", &a->batch, d->batch},
                  {"seqlen_kv", &a->seqlen_kv, d->seqlen_kv},
                  {"heads_kv", &a->heads_kv, d->heads_kv},
                  {"head_dim", &a->head_dim, d->head_dim},
                  {"kv_rows", &kv_rows, (int32_t)d->kv_rows},
                  {"rows_kv", &a->rows_kv, d->rows_kv},
                  {"page_rows", &a->page_rows, d->page_rows},
                  {"table_width", &a->table_width, d->table_width}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        ptxpack_status status = take(fields[i].name, fields[i].field, fields[i].name, fields[i].own, line);
        if (status != PTXPACK_OK)
            return status;
    }
    a->dtype = (ptxpack_dtype)dtype;
    a->kv_rows = (ptxpack_rows)kv_rows;
    a->kv_dtype = (ptxpack_dtype)kv_dtype;
    a->options |= d->options & (PTXPACK_DESCALES_TENSOR | PTXPACK_DESCALES_HEAD);
    return take_option("PTXPACK_ROW_MAP", PTXPACK_ROW_MAP, "PTXPACK_ROW_MAP", PTXPACK_ROW_MAP, d, a, line);
}

/* All rows of q are rotated, as new rows of their own sequences. */
static ptxpack_status take_q(const ptxpack_attention_desc *d, ptxpack_attention_append_desc *a, char *line)
{
    int32_t        new_rows = (int32_t)a->new_rows;
    ptxpack_status status = take("heads_q", &a->heads_q, "heads_q", d->heads_q, line);
    if (status == PTXPACK_OK)
        status = take("new_rows", &new_rows, "q_rows", (int32_t)d->q_rows, line);
    if (status == PTXPACK_OK)
        status = take("rows_new", &a->rows_new, "rows_q", d->rows_q, line);
    if (status == PTXPACK_OK)
        status = take("seqlen_new", &a->seqlen_new, "seqlen_q", d->seqlen_q, line);
    a->new_rows = (ptxpack_rows)new_rows;
    return status == PTXPACK_OK ? take_option("PTXPACK_LENGTHS_NEW", PTXPACK_LENGTHS_NEW, "PTXPACK_LENGTHS_Q",
                                              PTXPACK_LENGTHS_Q, d, a, line)
                                : status;
}

static void take_strides(ptxpack_strides *strides, const ptxpack_strides *own)
{
    if (strides->batch == 0 && strides->row == 0 && strides->head == 0)
        *strides = *own;
}

/* Strides of both, with every default filled in. */
static ptxpack_status compare_strides(const ptxpack_attention_desc *d, const attention_geometry *g,
                                      const append_geometry *a, char *line)
{
    static const char *const dimensions[MEMORY_DIMENSIONS] = {"batch", "row", "head"};
    static const struct {
        int append, attention;
    } pairs[] = {{APPEND_K, TENSOR_K}, {APPEND_V, TENSOR_V}, {APPEND_Q_OUT, TENSOR_Q}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const memory_tensor    *t = &a->tensor[pairs[i].append];
        const attention_tensor *own = &g->tensor[pairs[i].attention];
        const int64_t           wanted[MEMORY_DIMENSIONS] = {own->batch, own->row, own->head};
        const ptxpack_dtype     type = attention_tensor_type(d, pairs[i].attention);
        const int64_t           block = type == PTXPACK_Q8_0 ? PTXPACK_Q8_0_ELEMENTS : 1;
        const int64_t           bytes = (int64_t)ptxpack_dtype_span(type, (size_t)block);
        for (int k = 0; k < MEMORY_DIMENSIONS && t->bytes != 0; k++)
            if (t->stride[k] != wanted[k] / block * bytes)
                return refuse(line, "append: %s.%s is %lld, but %s.%s of the attention is %lld",
                              append_tensor_names[pairs[i].append], dimensions[k],
                              (long long)(t->stride[k] / bytes * block),
                              attention_tensor_names[pairs[i].attention], dimensions[k], (long long)wanted[k]);
    }
    return PTXPACK_OK;
}

ptxpack_status attached_describe(const ptxpack_attention_desc *d, ptxpack_attention_append_desc *a,
                                 char line[PLAN_LINE])
{
    char               own[PLAN_LINE];
    attention_geometry g;
    append_geometry    geometry;
    ptxpack_status     status = ptxpack_attention_resolve(d, &g, line);
    if (status != PTXPACK_OK)
        return status;
    status = name_line(plan_whole(&append_desc_struct, d->append, a, own), own, line);
    if (status != PTXPACK_OK)
        return status;
    if ((d->options & PTXPACK_LENGTHS_KV) == 0)
        return refuse(line, "options do not have PTXPACK_LENGTHS_KV, which an append needs");
    status = take_cache(d, a, line);
    if (status == PTXPACK_OK && a->heads_q != 0)
        status = take_q(d, a, line);
    if (status != PTXPACK_OK)
        return status;
    a->seqlen_new = a->seqlen_new != 0 ? a->seqlen_new : d->seqlen_q;
    take_strides(&a->k, &d->k);
    take_strides(&a->v, &d->v);
    if (a->heads_q != 0) {
        take_strides(&a->q_out, &d->q);
        take_strides(&a->q, &a->q_out);
    }
    status = name_line(append_resolve(a, &geometry, own), own, line);
    return status == PTXPACK_OK ? compare_strides(d, &g, &geometry, line) : status;
}

/* ---- addresses ---------------------------------------------------------------------------------------- */
/* An address that is 0 becomes the attention's; another one must be the same, unless it may be any. */
static ptxpack_status take_address(const char *name, uint64_t *address, const char *other, uint64_t own,
                                   bool any, char *line)
{
    if (*address == 0)
        *address = own;
    if (*address != own && !any)
        return refuse(line, "append: %s is 0x%llx, but %s of the attention is 0x%llx", name,
                      (unsigned long long)*address, other, (unsigned long long)own);
    return PTXPACK_OK;
}

static ptxpack_status take_addresses(const attention_geometry *g, const append_geometry *a,
                                     const ptxpack_attention_buffers *b, ptxpack_attention_append_buffers *out,
                                     char *line)
{
    const bool rotated = a->tensor[APPEND_Q_OUT].bytes != 0;
    const struct {
        const char *name;
        uint64_t   *address;
        const char *other;
        uint64_t    own;
        bool        wanted, any;
    } all[] = {
        {"k", &out->k, "k", b->k, true, false},
        {"v", &out->v, "v", b->v, true, false},
        {"q_out", &out->q_out, "q", b->q, rotated, false},
        {"q", &out->q, "q", b->q, rotated, true},
        {"lengths_kv", &out->lengths_kv, "lengths_kv", b->lengths_kv, true, false},
        {"lengths_new", &out->lengths_new, "lengths_q", attention_array(g, b, ARRAY_LENGTHS_Q),
         a->array_bytes[APPEND_LENGTHS_NEW] != 0, !rotated},
        {"starts_new", &out->starts_new, "starts_q", attention_array(g, b, ARRAY_STARTS_Q),
         a->array_bytes[APPEND_STARTS_NEW] != 0, !rotated},
        {"row_map", &out->row_map, "row_map", b->row_map, a->array_bytes[APPEND_ROW_MAP] != 0, false},
        {"left_pad", &out->left_pad, "left_pad", attention_array(g, b, ARRAY_LEFT_PAD),
         a->array_bytes[APPEND_LEFT_PAD] != 0, true},
        {"page_table", &out->page_table, "page_table", b->page_table, a->array_bytes[APPEND_PAGE_TABLE] != 0,
         false},
        {"k_descale", &out->k_descale, "k_descale", b->k_descale, a->descale_bytes != 0, false},
        {"v_descale", &out->v_descale, "v_descale", b->v_descale, a->descale_bytes != 0, false},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        ptxpack_status status = !all[i].wanted ? PTXPACK_OK
                                               : take_address(all[i].name, all[i].address, all[i].other,
                                                              all[i].own, all[i].any, line);
        if (status != PTXPACK_OK)
            return status;
    }
    return PTXPACK_OK;
}

/* What one kernel writes may not be what only the other one reads; each has checked its own already.  But o may be where q
 * came from before it was rotated. */
static ptxpack_status refuse_overlaps(const memory_range attention[RANGE_COUNT], int count,
                                      const memory_range append[APPEND_RANGES], char *line)
{
    ptxpack_status status = PTXPACK_OK;
    for (int written = RANGE_WRITTEN; written < RANGE_ARRAYS; written++)
        for (int i = 0; i < APPEND_RANGES && status == PTXPACK_OK; i++)
            if (written != RANGE_WRITTEN || i != APPEND_Q)
                status = memory_refuse_overlap(&attention[written], &append[i], line);
    for (int written = APPEND_K; written <= APPEND_Q_OUT; written++) {
        if (written != APPEND_Q_OUT && status == PTXPACK_OK)
            status = memory_refuse_overlap(&append[written], &attention[RANGE_Q], line);
        for (int i = RANGE_ARRAYS; i < count && status == PTXPACK_OK; i++)
            status = memory_refuse_overlap(&append[written], &attention[i], line);
    }
    return status;
}

ptxpack_status attached_check(const ptxpack_attention_plan *plan, const ptxpack_attention_buffers *b,
                              ptxpack_attention_append_buffers *out, char line[PLAN_LINE])
{
    const attention_geometry *g = &plan->geometry;
    const append_geometry    *a = &plan->append->geometry;
    const uint64_t            scratch = plan->head.workspace;
    char                      own[PLAN_LINE];
    memory_range              attention[RANGE_COUNT], append[APPEND_RANGES];
    ptxpack_status            status = ptxpack_attention_check_buffers(g, scratch, b, line);
    if (status == PTXPACK_OK && b->append == NULL)
        status = refuse(line, "append is NULL, but the plan appends");
    if (status == PTXPACK_OK)
        status = name_line(plan_whole(&append_buffers_struct, b->append, out, own), own, line);
    if (status != PTXPACK_OK)
        return status;
    status = take_addresses(g, a, b, out, line);
    if (status == PTXPACK_OK)
        status = name_line(append_check(a, out, own), own, line);
    if (status != PTXPACK_OK)
        return status;
    const int count = attention_list_memory(g, scratch, b, attention);
    append_list_memory(a, out, append);
    return refuse_overlaps(attention, count, append, line);
}
