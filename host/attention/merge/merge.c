/* merge.c - merging two partial attentions as an operation of the spine, and its public calls. */
#include "merge.h"

#include <stdio.h>

#include "host/plan/calls.h"
#include "op.h"

struct ptxpack_attention_merge_plan {
    plan_head       head;
    merge_geometry  geometry;
    merge_arguments arguments; /* all but the addresses */
};

/* ---- the row ------------------------------------------------------------------------------------------ */
/* What a row says: the elements of o that a thread merges, and the threads of a block. */
typedef struct merge_layout {
    int32_t elements, threads;
} merge_layout;

static ptxpack_status derive(const ptxpack_variant *row, void *out)
{
    *(merge_layout *)out = (merge_layout){(int32_t)ptxpack_variant_parameter(row, "ELEMENTS", 0), row->threads};
    return PTXPACK_OK;
}

static void symbols(const plan_problem *problem, const void *layout, symbol_list *list)
{
    const ptxpack_attention_merge_desc *d = (const ptxpack_attention_merge_desc *)problem->desc;
    (void)layout;
    symbol_add(list, "BF16", d->dtype == PTXPACK_BF16);
    symbol_add(list, "F32_PARTS", (d->options & PTXPACK_MERGE_F32_PARTS) != 0);
}

/* The number of vectors of head_dim elements, which the kernel counts in 32 bits; -1 if that is too little. */
static int64_t count_vectors(const ptxpack_attention_merge_desc *d)
{
    int64_t rows = (int64_t)d->batch * d->seqlen_q;
    return rows > INT32_MAX / d->heads_q ? -1 : rows * d->heads_q;
}

static const char *refusal(const plan_problem *problem, const ptxpack_variant *row, char line[PLAN_LINE])
{
    const ptxpack_attention_merge_desc *d = (const ptxpack_attention_merge_desc *)problem->desc;
    (void)row;
    if (count_vectors(d) >= 0)
        return NULL;
    plan_refuse(line, PTXPACK_E_UNSUPPORTED, "counts batch %d times seqlen_q %d times heads_q %d only up to %d",
                (int)d->batch, (int)d->seqlen_q, (int)d->heads_q, INT32_MAX);
    return line;
}

static ptxpack_status fill(const plan_problem *problem, const ptxpack_variant *row, const void *layout,
                           plan_head *head)
{
    const ptxpack_attention_merge_desc *d = (const ptxpack_attention_merge_desc *)problem->desc;
    const merge_layout                 *l = (const merge_layout *)layout;
    ptxpack_attention_merge_plan       *plan = (ptxpack_attention_merge_plan *)head;
    const memory_tensor *a = &plan->geometry.tensor[MERGE_A], *b = &plan->geometry.tensor[MERGE_B];
    const memory_tensor *o = &plan->geometry.tensor[MERGE_O];
    const uint32_t       pieces = (uint32_t)(d->head_dim / l->elements);
    (void)row;
    plan->arguments = (merge_arguments){
        .a_batch = a->stride[MEMORY_BATCH],
        .a_row = a->stride[MEMORY_ROW],
        .a_head = a->stride[MEMORY_HEAD],
        .b_batch = b->stride[MEMORY_BATCH],
        .b_row = b->stride[MEMORY_ROW],
        .b_head = b->stride[MEMORY_HEAD],
        .o_batch = o->stride[MEMORY_BATCH],
        .o_row = o->stride[MEMORY_ROW],
        .o_head = o->stride[MEMORY_HEAD],
        .vectors = (uint32_t)count_vectors(d),
        .rows = (uint32_t)d->seqlen_q,
        .heads = (uint32_t)d->heads_q,
        .pieces = pieces,
        .per_block = (uint32_t)l->threads / pieces,
    };
    head->grid[0] = (plan->arguments.vectors - 1) / plan->arguments.per_block + 1;
    return PTXPACK_OK;
}

static ptxpack_status address(const plan_head *head, const void *buffers, void *arguments, uint32_t grid[3])
{
    const ptxpack_attention_merge_buffers *b = (const ptxpack_attention_merge_buffers *)buffers;
    merge_arguments                       *to = (merge_arguments *)arguments;
    (void)head, (void)grid;
    to->o_a = b->o_a;
    to->o_b = b->o_b;
    to->o = b->o;
    to->lse_a = b->lse_a;
    to->lse_b = b->lse_b;
    to->lse = b->lse;
    return PTXPACK_OK;
}

static const argument_field fields[] = ARGUMENT_FIELDS(MERGE_ARGUMENTS, merge_arguments);
static const uint16_t       corners[] = {0, 1};
static const plan_method    merge_method = {
       .file = "attention/merge.ptx",
       .ordered = true,
       PLAN_ARGUMENTS(fields, merge_arguments),
       .layout_bytes = sizeof(merge_layout),
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
    return merge_resolve((const ptxpack_attention_merge_desc *)desc, (merge_geometry *)geometry, line);
}

/* The index says whether the parts are f32. */
static void build(const ptxpack_variant *row, ptxpack_dtype dtype, unsigned index, bool corner, void *desc,
                  char *name, size_t size)
{
    (void)row, (void)corner;
    snprintf(name, size, "%s", index != 0 ? " f32 parts" : "");
    *(ptxpack_attention_merge_desc *)desc = (ptxpack_attention_merge_desc){
        .size = sizeof(ptxpack_attention_merge_desc),
        .dtype = dtype,
        .batch = 1,
        .seqlen_q = 1,
        .heads_q = 1,
        .head_dim = 128,
        .options = index != 0 ? PTXPACK_MERGE_F32_PARTS : 0,
    };
}

static ptxpack_status check(const plan_head *head, const void *buffers, char line[PLAN_LINE])
{
    return merge_check(&((const ptxpack_attention_merge_plan *)head)->geometry,
                       (const ptxpack_attention_merge_buffers *)buffers, line);
}

/* What comes with a launch; before `launch` was there it ended there. */
static const plan_struct buffers_struct = {
    .name = "buffers",
    .type = "ptxpack_attention_merge_buffers",
    .size = sizeof(ptxpack_attention_merge_buffers),
    .older = {offsetof(ptxpack_attention_merge_buffers, launch)},
    .launch_at = offsetof(ptxpack_attention_merge_buffers, launch),
};
static const plan_method *const methods[] = {&merge_method};
_Static_assert(sizeof(merge_geometry) <= sizeof(plan_room), "plan_room has room for the geometry");
_Static_assert(sizeof(merge_arguments) <= PLAN_ARGUMENT_BYTES, "plan_launch has room for the arguments");
const plan_op merge_op = {
    .name = "attention_merge",
    .methods = methods,
    .method_count = sizeof methods / sizeof methods[0],
    .margin = 1,
    .desc_bytes = sizeof(ptxpack_attention_merge_desc),
    .dtype_at = offsetof(ptxpack_attention_merge_desc, dtype),
    .plan_bytes = sizeof(ptxpack_attention_merge_plan),
    .geometry_at = offsetof(ptxpack_attention_merge_plan, geometry),
    .arguments_at = offsetof(ptxpack_attention_merge_plan, arguments),
    .resolve = resolve,
    .buffers = &buffers_struct,
    .check = check,
    .builds = 2,
    .build = build,
};

/* ---- the public calls --------------------------------------------------------------------------------- */
PLAN_CALLS(ptxpack_attention_merge, merge_op, ptxpack_attention_merge)
