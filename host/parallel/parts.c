/* parts.c - merging any number of partial attentions as an operation of the spine. */
#include "parts.h"

#include <stdio.h>

enum { PIECE = 8 /* elements of o that a thread merges */ };

static void symbols(const plan_problem *problem, const void *layout, symbol_list *list)
{
    (void)layout;
    const merge_parts_desc *d = (const merge_parts_desc *)problem->desc;
    symbol_add(list, "BF16", d->dtype == PTXPACK_BF16);
    symbol_add(list, "LISTED", d->listed ? d->parts : 0);
}

static const char *refusal(const plan_problem *problem, const ptxpack_variant *row, char line[PLAN_LINE])
{
    const merge_parts_desc *d = (const merge_parts_desc *)problem->desc;
    (void)row;
    if ((int64_t)d->batch * d->rows <= INT32_MAX / d->heads)
        return NULL;
    plan_refuse(line, PTXPACK_E_UNSUPPORTED, "counts batch %d times rows %d times heads %d only up to %d",
                (int)d->batch, (int)d->rows, (int)d->heads, INT32_MAX);
    return line;
}

static ptxpack_status fill(const plan_problem *problem, const ptxpack_variant *row, const void *layout,
                           plan_head *head)
{
    const merge_parts_desc *d = (const merge_parts_desc *)problem->desc;
    const memory_tensor    *o = (const memory_tensor *)problem->geometry;
    merge_parts_plan       *plan = (merge_parts_plan *)head;
    const uint32_t          pieces = (uint32_t)d->head_dim / PIECE;
    (void)layout;
    plan->arguments = (merge_parts_arguments){
        .o_batch = o->stride[MEMORY_BATCH],
        .o_row = o->stride[MEMORY_ROW],
        .o_head = o->stride[MEMORY_HEAD],
        .parts = (uint32_t)d->parts,
        .vectors = (uint32_t)d->batch * (uint32_t)d->rows * (uint32_t)d->heads,
        .rows = (uint32_t)d->rows,
        .heads = (uint32_t)d->heads,
        .pieces = pieces,
        .per_block = (uint32_t)row->threads / pieces,
    };
    head->grid[0] = (plan->arguments.vectors - 1) / plan->arguments.per_block + 1;
    return PTXPACK_OK;
}

static ptxpack_status address(const plan_head *head, const void *buffers, void *arguments, uint32_t grid[3])
{
    const merge_parts_buffers *b = (const merge_parts_buffers *)buffers;
    merge_parts_arguments     *to = (merge_parts_arguments *)arguments;
    (void)head, (void)grid;
    to->parts_o = b->parts_o;
    to->parts_lse = b->parts_lse;
    to->o = b->o;
    to->lse = b->lse;
    to->o_part = b->o_part;
    to->lse_part = b->lse_part;
    to->list = b->list;
    to->list_lse = b->list_lse;
    return PTXPACK_OK;
}

static const argument_field fields[] = ARGUMENT_FIELDS(MERGE_PARTS_ARGUMENTS, merge_parts_arguments);
/* Builds that contain what the others do. */
enum { STRIDED, PAIR, EIGHT, BUILDS };
static const uint16_t    corners[] = {STRIDED, PAIR, EIGHT};
static const plan_method method = {
    .file = "parallel/parts.ptx",
    .ordered = true,
    PLAN_ARGUMENTS(fields, merge_parts_arguments),
    .refusal = refusal,
    .symbols = symbols,
    .fill = fill,
    .address = address,
    PLAN_CORNERS(corners),
};

/* The library itself makes the descriptors, of checked attentions. */
static ptxpack_status resolve(const void *desc, void *geometry, char line[PLAN_LINE])
{
    const merge_parts_desc *d = (const merge_parts_desc *)desc;
    const memory_shape      shape = {.name = "o",
                                     .written = true,
                                     .extent = {d->batch, d->rows, d->heads},
                                     .stride = {d->o.batch, d->o.row, d->o.head},
                                     .elements = d->head_dim,
                                     .element_bytes = ptxpack_dtype_bytes(d->dtype)};
    return memory_resolve(&shape, (memory_tensor *)geometry, line);
}

/* The addresses are the library's own. */
static ptxpack_status check(const plan_head *plan, const void *buffers, char line[PLAN_LINE])
{
    (void)plan, (void)buffers, (void)line;
    return PTXPACK_OK;
}

static void build(const ptxpack_variant *row, ptxpack_dtype dtype, unsigned index, bool corner, void *desc,
                  char *name, size_t size)
{
    static const int32_t parts[BUILDS] = {3, 2, MERGE_LISTED};
    (void)row, (void)corner;
    if (index == STRIDED)
        *name = '\0';
    else
        snprintf(name, size, " %d listed", (int)parts[index]);
    *(merge_parts_desc *)desc = (merge_parts_desc){.dtype = dtype,
                                                   .batch = 1,
                                                   .rows = 1,
                                                   .heads = 1,
                                                   .head_dim = 128,
                                                   .parts = parts[index],
                                                   .listed = index != STRIDED};
}

static const plan_method *const methods[] = {&method};
_Static_assert(sizeof(merge_parts_arguments) <= PLAN_ARGUMENT_BYTES, "plan_launch has room for the arguments");
const plan_op merge_parts_op = {
    .name = "attention_merge_parts",
    .methods = methods,
    .method_count = sizeof methods / sizeof methods[0],
    .margin = 1,
    .desc_bytes = sizeof(merge_parts_desc),
    .dtype_at = offsetof(merge_parts_desc, dtype),
    .plan_bytes = sizeof(merge_parts_plan),
    .geometry_at = offsetof(merge_parts_plan, geometry),
    .arguments_at = offsetof(merge_parts_plan, arguments),
    .resolve = resolve,
    .check = check,
    .builds = BUILDS,
    .build = build,
};
