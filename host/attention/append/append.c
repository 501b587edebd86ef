/* append.c - the append to a cache of keys and values as an operation of the spine, and its public calls. */
#include "append.h"

#include <stdio.h>
#include <stdlib.h>

#include "host/attention/check.h"
#include "op.h"

/* ---- the row ------------------------------------------------------------------------------------------ */
/* What a row says: the threads of a block, each of which does one unit. */
typedef struct append_layout {
    uint32_t threads;
} append_layout;

static ptxpack_status derive(const ptxpack_variant *row, void *out)
{
    *(append_layout *)out = (append_layout){(uint32_t)row->threads};
    return PTXPACK_OK;
}

static void symbols(const plan_problem *problem, const void *layout, symbol_list *list)
{
    const ptxpack_attention_append_desc *d = (const ptxpack_attention_append_desc *)problem->desc;
    bool                                 pairs = (d->options & PTXPACK_ROPE_PAIRS) != 0;
    (void)layout;
    symbol_add(list, "KV_E4M3", d->kv_dtype == PTXPACK_E4M3);
    symbol_add(list, "KV_INT8", d->kv_dtype == PTXPACK_INT8);
    symbol_add(list, "KV_Q8_0", append_has_blocks(d));
    symbol_add(list, "BF16",
               (d->rotary_dim != 0 || append_kv_type(d) != d->dtype) &&
                   d->dtype == PTXPACK_BF16); /* a copy has no type */
    symbol_add(list, "PAGED", d->kv_rows == PTXPACK_ROWS_PAGED);
    symbol_add(list, "ROPE_HALVES", d->rotary_dim != 0 && !pairs);
    symbol_add(list, "ROPE_PAIRS", d->rotary_dim != 0 && pairs);
}

/* The kernel numbers units with 32 bits, up to a block beyond the last one. */
static const char *refusal(const plan_problem *problem, const ptxpack_variant *row, char line[PLAN_LINE])
{
    const append_geometry *g = (const append_geometry *)problem->geometry;
    (void)row;
    if (g->row_units <= INT32_MAX && g->rows <= INT32_MAX / g->row_units)
        return NULL;
    plan_refuse(line, PTXPACK_E_UNSUPPORTED,
                "does not append %lld rows of %lld pieces of 16 bytes: more than %d", (long long)g->rows,
                (long long)g->row_units, INT32_MAX);
    return line;
}

static uint32_t log2_of(int32_t power)
{
    uint32_t shift = 0;
    while (power >> shift > 1)
        shift++;
    return shift;
}

#define STRIDES(member, id)                                                                                 \
    .member##_batch = g->tensor[id].stride[MEMORY_BATCH], .member##_row = g->tensor[id].stride[MEMORY_ROW], \
    .member##_head = g->tensor[id].stride[MEMORY_HEAD]

static ptxpack_status fill(const plan_problem *problem, const ptxpack_variant *row, const void *layout,
                           plan_head *head)
{
    const ptxpack_attention_append_desc *d = (const ptxpack_attention_append_desc *)problem->desc;
    ptxpack_attention_append_plan       *plan = (ptxpack_attention_append_plan *)head;
    const append_geometry               *g = &plan->geometry;
    const append_layout                 *l = (const append_layout *)layout;
    (void)row;
    plan->arguments = (append_arguments){
        STRIDES(k_new, APPEND_K_NEW),
        STRIDES(v_new, APPEND_V_NEW),
        STRIDES(q, APPEND_Q),
        STRIDES(k, APPEND_K),
        STRIDES(v, APPEND_V),
        STRIDES(q_out, APPEND_Q_OUT),
        .units = (uint32_t)(g->rows * g->row_units),
        .row_units = (uint32_t)g->row_units,
        .k_units = (uint32_t)(d->heads_kv * g->k_units),
        .kv_units = (uint32_t)(d->heads_kv * (g->k_units + g->v_units)),
        .head_units = (uint32_t)g->head_units,
        .head_pieces = (uint32_t)g->v_units,
        .rotated = (uint32_t)g->rotated,
        .batch = (uint32_t)d->batch,
        .seqlen_new = d->seqlen_new,
        .seqlen_kv = d->seqlen_kv,
        .caches = (uint32_t)(d->rows_kv != 0 ? d->rows_kv : d->batch),
        .page_shift = log2_of(d->page_rows),
        .table_width = (uint32_t)d->table_width,
        .last_position = d->positions - 1,
        .table_row = (uint32_t)d->rotary_dim, /* half as many elements of two bytes */
        .q_step = (d->options & PTXPACK_ROPE_Q_AT_START) != 0 ? 0 : 1,
        .descale_batch = (uint32_t)(append_descale_batch(d) * (int64_t)sizeof(float)),
        .descale_head = (uint32_t)(append_descale_head(d) * (int64_t)sizeof(float)),
    };
    head->grid[0] = (plan->arguments.units - 1) / l->threads + 1;
    return PTXPACK_OK;
}

static ptxpack_status address(const plan_head *head, const void *buffers, void *arguments, uint32_t grid[3])
{
    const append_geometry                  *g = &((const ptxpack_attention_append_plan *)head)->geometry;
    const ptxpack_attention_append_buffers *b = (const ptxpack_attention_append_buffers *)buffers;
    append_arguments                       *to = (append_arguments *)arguments;
    (void)grid;
    to->k_new = b->k_new;
    to->v_new = b->v_new;
    to->q = b->q;
    to->k = b->k;
    to->v = b->v;
    to->q_out = b->q_out;
    to->cos = b->cos;
    to->sin = b->sin;
    to->lengths_kv = append_array(g, b, APPEND_LENGTHS_KV);
    to->lengths_new = append_array(g, b, APPEND_LENGTHS_NEW);
    to->starts_new = append_array(g, b, APPEND_STARTS_NEW);
    to->row_map = append_array(g, b, APPEND_ROW_MAP);
    to->left_pad = append_array(g, b, APPEND_LEFT_PAD);
    to->page_table = append_array(g, b, APPEND_PAGE_TABLE);
    to->k_descale = g->descale_bytes != 0 ? b->k_descale : 0;
    to->v_descale = g->descale_bytes != 0 ? b->v_descale : 0;
    to->early = (b->launch & PTXPACK_LAUNCH_CONSTANT_KV) != 0;
    return PTXPACK_OK;
}

static const argument_field fields[] = ARGUMENT_FIELDS(APPEND_ARGUMENTS, append_arguments);
static const uint16_t       corners[] = {1, 4, 5}; /* without rotary embedding the text is a part of these */
static const plan_method    append_method = {
       .file = "kv_cache/append.ptx",
       .ordered = true,
       PLAN_ARGUMENTS(fields, append_arguments),
       .layout_bytes = sizeof(append_layout),
       .derive = derive,
       .refusal = refusal,
       .symbols = symbols,
       .fill = fill,
       .address = address,
       PLAN_CORNERS(corners),
};

/* ---- the operation ------------------------------------------------------------------------------------ */
static ptxpack_status resolve(const void *desc, void *geometry, char line[PLAN_LINE])
{
    return append_resolve((const ptxpack_attention_append_desc *)desc, (append_geometry *)geometry, line);
}

static bool covers(const ptxpack_variant *row, const void *desc)
{
    const ptxpack_attention_append_desc *d = (const ptxpack_attention_append_desc *)desc;
    return plan_row_takes(row, d->dtype) &&
           attention_row_kv(row) == (append_has_blocks(d)  ? ATTENTION_KV_BLOCKS
                                     : append_has_bytes(d) ? ATTENTION_KV_BYTES
                                                           : ATTENTION_KV_HALVES);
}

/* The index is 3 paged + the kind of rotary embedding; of bytes there are as many again, of int8. */
enum { ROTARIES = 3 };
static void build(const ptxpack_variant *row, ptxpack_dtype dtype, unsigned index, bool corner, void *desc,
                  char *name, size_t size)
{
    static const char *const      rotaries[ROTARIES] = {"", " halves", " pairs"};
    const bool                    bytes = attention_row_kv(row) == ATTENTION_KV_BYTES;
    const bool                    blocks = attention_row_kv(row) == ATTENTION_KV_BLOCKS;
    const bool                    int8 = bytes && (corner ? index == 4 : index / ROTARIES > 1);
    bool                          paged = index / ROTARIES % 2 != 0;
    unsigned                      rotary = index % ROTARIES;
    ptxpack_attention_append_desc d = {.size = sizeof d,
                                       .dtype = dtype,
                                       .batch = 1,
                                       .seqlen_new = 1,
                                       .seqlen_kv = 1024,
                                       .heads_kv = 1,
                                       .head_dim = 128,
                                       .rotary_dim = rotary != 0 ? 128 : 0,
                                       .positions = rotary != 0 ? 1024 : 0,
                                       .kv_rows = paged ? PTXPACK_ROWS_PAGED : PTXPACK_ROWS_DENSE,
                                       .rows_kv = paged ? 64 : 0,
                                       .page_rows = paged ? 16 : 0,
                                       .table_width = paged ? 64 : 0,
                                       .options = rotary == 2 ? PTXPACK_ROPE_PAIRS : 0,
                                       .kv_dtype = int8     ? PTXPACK_INT8
                                                   : bytes  ? PTXPACK_E4M3
                                                   : blocks ? PTXPACK_Q8_0
                                                            : (ptxpack_dtype)0};
    snprintf(name, size, " %s%s%s", paged ? "pages" : "dense", rotaries[rotary],
             int8     ? " int8"
             : bytes  ? " e4m3"
             : blocks ? " q8_0"
                      : "");
    *(ptxpack_attention_append_desc *)desc = d;
}

static ptxpack_status check(const plan_head *head, const void *buffers, char line[PLAN_LINE])
{
    return append_check(&((const ptxpack_attention_append_plan *)head)->geometry,
                        (const ptxpack_attention_append_buffers *)buffers, line);
}

/* Before `kv_dtype` was there it ended there. */
const plan_struct append_desc_struct = {
    .name = "desc",
    .type = "ptxpack_attention_append_desc",
    .size = sizeof(ptxpack_attention_append_desc),
    .older = {offsetof(ptxpack_attention_append_desc, kv_dtype)},
};
/* What comes with a launch; it ended before `launch`, and before descales. */
const plan_struct append_buffers_struct = {
    .name = "buffers",
    .type = "ptxpack_attention_append_buffers",
    .size = sizeof(ptxpack_attention_append_buffers),
    .older = {offsetof(ptxpack_attention_append_buffers, launch),
              offsetof(ptxpack_attention_append_buffers, k_descale)},
    .launch_at = offsetof(ptxpack_attention_append_buffers, launch),
    .launch_bits = PTXPACK_LAUNCH_OVERLAP | PTXPACK_LAUNCH_CONSTANT_KV,
};
_Static_assert(sizeof(ptxpack_attention_append_buffers) <= sizeof(plan_room),
               "plan_room has room for the buffers");
static const plan_method *const methods[] = {&append_method};
_Static_assert(sizeof(append_geometry) <= sizeof(plan_room), "plan_room has room for the geometry");
_Static_assert(sizeof(ptxpack_attention_append_desc) <= sizeof(plan_room),
               "plan_room has room for the descriptor");
_Static_assert(sizeof(append_arguments) <= PLAN_ARGUMENT_BYTES, "plan_launch has room for the arguments");
const plan_op append_op = {
    .name = "attention_append",
    .methods = methods,
    .method_count = sizeof methods / sizeof methods[0],
    .margin = 1,
    .desc_bytes = sizeof(ptxpack_attention_append_desc),
    .dtype_at = offsetof(ptxpack_attention_append_desc, dtype),
    .plan_bytes = sizeof(ptxpack_attention_append_plan),
    .geometry_at = offsetof(ptxpack_attention_append_plan, geometry),
    .arguments_at = offsetof(ptxpack_attention_append_plan, arguments),
    .resolve = resolve,
    .covers = covers,
    .buffers = &append_buffers_struct,
    .check = check,
    .builds = 4 * ROTARIES,
    .build = build,
};

/* ---- the public calls --------------------------------------------------------------------------------- */
ptxpack_status ptxpack_attention_append_plan_row(ptxpack *handle, const ptxpack_attention_append_desc *desc,
                                                 const ptxpack_variant          *row,
                                                 ptxpack_attention_append_plan **plan)
{
    ptxpack_attention_append_desc whole;
    plan_head                    *made;
    char                          line[PLAN_LINE];
    if (plan == NULL)
        return ptxpack_fail(handle, PTXPACK_E_ARG, "plan is NULL");
    *plan = NULL;
    ptxpack_status status = plan_whole(&append_desc_struct, desc, &whole, line);
    if (status != PTXPACK_OK)
        return ptxpack_fail(handle, status, "%s", line);
    status = plan_create(&append_op, handle, &whole, row, &made);
    *plan = (ptxpack_attention_append_plan *)made;
    return status;
}

ptxpack_status ptxpack_attention_append_plan_create(ptxpack *handle, const ptxpack_attention_append_desc *desc,
                                                    ptxpack_attention_append_plan **plan)
{
    return ptxpack_attention_append_plan_row(handle, desc, NULL, plan);
}

void ptxpack_attention_append_plan_free(ptxpack_attention_append_plan *plan) { free(plan); }

const ptxpack_kernel *ptxpack_attention_append_kernel(const ptxpack_attention_append_plan *plan)
{
    return plan != NULL ? plan->head.kernel : NULL;
}

ptxpack_status ptxpack_attention_append(const ptxpack_attention_append_plan    *plan,
                                        const ptxpack_attention_append_buffers *buffers,
                                        struct CUstream_st                     *stream)
{
    return plan_launch((const plan_head *)plan, buffers, stream);
}
