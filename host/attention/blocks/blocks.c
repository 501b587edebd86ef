/* blocks.c - making lists of blocks as an operation of the spine, and its public calls. */
#include "blocks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op.h"

struct ptxpack_attention_blocks_plan {
    plan_head          head;
    attention_geometry geometry;
    blocks_arguments   arguments; /* all but the addresses */
};

/* ---- the problem -------------------------------------------------------------------------------------- */
ptxpack_status blocks_resolve(const ptxpack_attention_desc *d, attention_geometry *out, char line[PLAN_LINE])
{
    ptxpack_status status = ptxpack_attention_resolve(d, out, line);
    if (status != PTXPACK_OK)
        return status;
    if (!attention_has_lists(out))
        return plan_refuse(line, PTXPACK_E_ARG, "block_rows is 0: there are no blocks");
    if (out->varlen)
        return plan_refuse(line, PTXPACK_E_ARG, "lists of blocks are for sequences of equal lengths");
    return PTXPACK_OK;
}

void blocks_keys(const ptxpack_attention_desc *d, const attention_geometry *g, int64_t row, int64_t *first,
                 int64_t *end)
{
    const int64_t from = g->limited_left ? attention_first_key(g, row + g->left_offset) : 0;
    const int64_t to = g->limited_right ? row + g->right_offset + 1 : d->seqlen_kv;
    *first = from > 0 ? from : 0;
    *end = to < d->seqlen_kv ? to : d->seqlen_kv;
}

/* ---- the row ------------------------------------------------------------------------------------------ */
typedef struct blocks_layout {
    int32_t warps;
} blocks_layout;

static ptxpack_status derive(const ptxpack_variant *row, void *out)
{
    *(blocks_layout *)out = (blocks_layout){(int32_t)ptxpack_variant_parameter(row, "WARPS", 0)};
    return PTXPACK_OK;
}

static void symbols(const plan_problem *problem, const void *layout, symbol_list *list)
{
    const attention_geometry *g = (const attention_geometry *)problem->geometry;
    (void)layout;
    symbol_add(list, "CHUNK", g->chunk > 0);
    symbol_add(list, "HOOK_SCORE", 0);
    symbol_add(list, "HOOK_MASK", g->hook_parts[HOOK_MASK]);
}

static int64_t lists_of(const ptxpack_attention_desc *d, const attention_geometry *g)
{
    const int64_t heads = g->lists.head != 0 ? d->heads_q : 1, batch = g->lists.batch != 0 ? d->batch : 1;
    return batch * heads > INT32_MAX / g->lists.row_blocks ? -1 : batch * heads * g->lists.row_blocks;
}

static const char *refusal(const plan_problem *problem, const ptxpack_variant *row, char line[PLAN_LINE])
{
    enum { MOST = 1 << 30 };
    const ptxpack_attention_desc *d = (const ptxpack_attention_desc *)problem->desc;
    const attention_geometry     *g = (const attention_geometry *)problem->geometry;
    (void)row;
    if (lists_of(d, g) < 0)
        plan_refuse(line, PTXPACK_E_UNSUPPORTED, "makes up to %d lists", INT32_MAX);
    else if ((int64_t)d->seqlen_q + d->seqlen_kv > MOST)
        plan_refuse(line, PTXPACK_E_UNSUPPORTED, "takes seqlen_q %d and seqlen_kv %d up to a sum of %d",
                    (int)d->seqlen_q, (int)d->seqlen_kv, (int)MOST);
    else
        return NULL;
    return line;
}

static void fill_chunks(blocks_arguments *to, const attention_geometry *g)
{
    const attention_chunks_arguments from = attention_count_chunks(g);
    ATTENTION_CHUNKS(ARGUMENT_COPY, );
}

static ptxpack_status fill(const plan_problem *problem, const ptxpack_variant *row, const void *layout,
                           plan_head *head)
{
    const ptxpack_attention_desc  *d = (const ptxpack_attention_desc *)problem->desc;
    ptxpack_attention_blocks_plan *plan = (ptxpack_attention_blocks_plan *)head;
    const attention_geometry      *g = &plan->geometry;
    (void)row, (void)layout;
    plan->arguments = (blocks_arguments){
        .seqlen_q = d->seqlen_q,
        .seqlen_kv = d->seqlen_kv,
        .left_offset = g->limited_left ? g->left_offset : -d->seqlen_q,
        .right_offset = g->limited_right ? g->right_offset : d->seqlen_kv - 1,
        .rows = g->lists.rows,
        .keys = g->lists.keys,
        .row_blocks = g->lists.row_blocks,
        .key_blocks = g->lists.key_blocks,
        .heads = g->lists.head != 0 ? d->heads_q : 1,
        .list_batch = g->lists.batch,
        .list_head = g->lists.head,
        .list_width = g->lists.width,
    };
    fill_chunks(&plan->arguments, g);
    head->grid[0] = (uint32_t)lists_of(d, g);
    return PTXPACK_OK;
}

static ptxpack_status address(const plan_head *head, const void *buffers, void *arguments, uint32_t grid[3])
{
    const ptxpack_attention_blocks_buffers *b = (const ptxpack_attention_blocks_buffers *)buffers;
    blocks_arguments                       *to = (blocks_arguments *)arguments;
    (void)head, (void)grid;
    to->block_count = b->block_count;
    to->full_count = b->full_count;
    to->block_list = b->block_list;
    to->full_list = b->full_list;
    memcpy(&to->aux, b->aux, sizeof to->aux);
    return PTXPACK_OK;
}

static const argument_field fields[] = ARGUMENT_FIELDS(BLOCKS_ARGUMENTS, blocks_arguments);
static const uint16_t       corners[] = {0, 1};
static const plan_method    blocks_method = {
       .file = "attention/blocks/make.ptx",
       .ordered = true,
       PLAN_ARGUMENTS(fields, blocks_arguments),
       .layout_bytes = sizeof(blocks_layout),
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
    return blocks_resolve((const ptxpack_attention_desc *)desc, (attention_geometry *)geometry, line);
}

static bool covers(const ptxpack_variant *row, const void *desc) /* no element is looked at */
{
    (void)row, (void)desc;
    return true;
}

static void describe(const void *desc, char *text, size_t size)
{
    (void)desc;
    snprintf(text, size, "lists of blocks");
}

static size_t texts(const void *desc, ptxpack_named_text out[PLAN_TEXTS])
{
    const char *text = attention_hook((const ptxpack_attention_desc *)desc, HOOK_MASK);
    if (text == NULL)
        return 0;
    out[0] = (ptxpack_named_text){attention_hook_names[HOOK_MASK], text};
    return 1;
}

/* The index says whether there are chunks. */
static void build(const ptxpack_variant *row, ptxpack_dtype dtype, unsigned index, bool corner, void *desc,
                  char *name, size_t size)
{
    (void)row, (void)corner;
    snprintf(name, size, "%s", index != 0 ? " chunk" : "");
    *(ptxpack_attention_desc *)desc = (ptxpack_attention_desc){
        .size = sizeof(ptxpack_attention_desc),
        .dtype = dtype,
        .batch = 1,
        .seqlen_q = 1024,
        .seqlen_kv = 1024,
        .heads_q = 1,
        .heads_kv = 1,
        .head_dim = 64,
        .mask = index != 0 ? PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT : PTXPACK_MASK_NONE,
        .chunk = index != 0 ? 64 : 0,
        .block_rows = 128,
        .block_keys = 128,
    };
}

static ptxpack_status check(const plan_head *head, const void *buffers, char line[PLAN_LINE])
{
    const attention_geometry               *g = &((const ptxpack_attention_blocks_plan *)head)->geometry;
    const ptxpack_attention_blocks_buffers *b = (const ptxpack_attention_blocks_buffers *)buffers;
    enum { RANGES = ARRAY_FULL_LIST + 1 - ARRAY_BLOCK_COUNT };
    const uint64_t addresses[RANGES] = {b->block_count, b->full_count, b->block_list, b->full_list};
    memory_range   ranges[RANGES];
    for (int i = 0; i < RANGES; i++) {
        const int id = ARRAY_BLOCK_COUNT + i;
        ranges[i] = (memory_range){attention_array_names[id], addresses[i], g->array_bytes[id], 4, false};
        ptxpack_status status = memory_check(&ranges[i], line);
        for (int other = 0; other < i && status == PTXPACK_OK; other++)
            status = memory_refuse_overlap(&ranges[i], &ranges[other], line);
        if (status != PTXPACK_OK)
            return status;
    }
    return PTXPACK_OK;
}

static const plan_struct buffers_struct = {
    .name = "buffers",
    .type = "ptxpack_attention_blocks_buffers",
    .size = sizeof(ptxpack_attention_blocks_buffers),
    .launch_at = offsetof(ptxpack_attention_blocks_buffers, launch),
};
_Static_assert(sizeof(ptxpack_attention_blocks_buffers) <= sizeof(plan_room),
               "plan_room has room for the buffers");
static const plan_method *const methods[] = {&blocks_method};
_Static_assert(sizeof(blocks_arguments) <= PLAN_ARGUMENT_BYTES, "plan_launch has room for the arguments");
const plan_op blocks_op = {
    .name = "attention_blocks",
    .methods = methods,
    .method_count = sizeof methods / sizeof methods[0],
    .margin = 1,
    .desc_bytes = sizeof(ptxpack_attention_desc),
    .plan_bytes = sizeof(ptxpack_attention_blocks_plan),
    .geometry_at = offsetof(ptxpack_attention_blocks_plan, geometry),
    .arguments_at = offsetof(ptxpack_attention_blocks_plan, arguments),
    .resolve = resolve,
    .covers = covers,
    .describe = describe,
    .texts = texts,
    .buffers = &buffers_struct,
    .check = check,
    .builds = 2,
    .build = build,
};

/* ---- the public calls --------------------------------------------------------------------------------- */
ptxpack_status ptxpack_attention_blocks_plan_row(ptxpack *handle, const ptxpack_attention_desc *desc,
                                                 const ptxpack_variant          *row,
                                                 ptxpack_attention_blocks_plan **plan)
{
    ptxpack_attention_desc whole;
    attention_translated   translated;
    plan_head             *made = NULL;
    if (plan == NULL)
        return ptxpack_fail(handle, PTXPACK_E_ARG, "plan is NULL");
    *plan = NULL;
    if (handle == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "handle is NULL");
    ptxpack_status status = attention_take_desc(handle, desc, &whole, &translated);
    if (status == PTXPACK_OK)
        status = plan_create(&blocks_op, handle, &whole, row, &made);
    attention_translated_free(&translated);
    *plan = (ptxpack_attention_blocks_plan *)made;
    return status;
}

ptxpack_status ptxpack_attention_blocks_plan_create(ptxpack *handle, const ptxpack_attention_desc *desc,
                                                    ptxpack_attention_blocks_plan **plan)
{
    return ptxpack_attention_blocks_plan_row(handle, desc, NULL, plan);
}

void ptxpack_attention_blocks_plan_free(ptxpack_attention_blocks_plan *plan) { free(plan); }

const ptxpack_kernel *ptxpack_attention_blocks_kernel(const ptxpack_attention_blocks_plan *plan)
{
    return plan != NULL ? plan->head.kernel : NULL;
}

ptxpack_status ptxpack_attention_blocks(const ptxpack_attention_blocks_plan    *plan,
                                        const ptxpack_attention_blocks_buffers *buffers,
                                        struct CUstream_st                     *stream)
{
    return plan_launch((const plan_head *)plan, buffers, stream);
}
