/* quantise.c - rounding to e4m3 and the way back as operations of the spine, and their public calls. */
#include "quantise.h"

#include <stdio.h>

#include "host/plan/calls.h"
#include "op.h"

/* The plans of both operations. */
typedef struct quantise_plan {
    plan_head          head;
    quantise_geometry  geometry;
    quantise_arguments arguments; /* all but the addresses */
} quantise_plan;
struct ptxpack_quantise_plan {
    quantise_plan both;
};
struct ptxpack_dequantise_plan {
    quantise_plan both;
};

/* ---- the rows ----------------------------------------------------------------------------------------- */
static void symbols(const plan_problem *problem, const void *layout, symbol_list *list)
{
    const ptxpack_quantise_desc *d = (const ptxpack_quantise_desc *)problem->desc;
    (void)layout;
    symbol_add(list, "BF16", d->dtype == PTXPACK_BF16);
    if (problem->op == &quantise_op)
        symbol_add(list, "POWERS", (d->options & PTXPACK_QUANTISE_POWERS) != 0);
}

static const char *refusal(const plan_problem *problem, const ptxpack_variant *row, char line[PLAN_LINE])
{
    const ptxpack_quantise_desc *d = (const ptxpack_quantise_desc *)problem->desc;
    const quantise_geometry     *g = (const quantise_geometry *)problem->geometry;
    (void)row;
    if ((int64_t)d->rows * g->parts <= INT32_MAX)
        return NULL;
    plan_refuse(line, PTXPACK_E_UNSUPPORTED, "counts rows %d times %d scales only up to %d", (int)d->rows,
                (int)g->parts, INT32_MAX);
    return line;
}

/* A vector has so many threads, a power of two, that each has up to four pieces in flight, if the block has so many. */
static uint32_t share_of(int32_t threads, int32_t pieces)
{
    uint32_t share = 0;
    while ((4 << share) < pieces && (1 << share) < threads)
        share++;
    return share;
}

static ptxpack_status fill(const plan_problem *problem, const ptxpack_variant *row, const void *layout,
                           plan_head *head)
{
    const ptxpack_quantise_desc *d = (const ptxpack_quantise_desc *)problem->desc;
    quantise_plan               *plan = (quantise_plan *)head;
    const quantise_geometry     *g = &plan->geometry;
    (void)layout;
    plan->arguments = (quantise_arguments){
        .x_row = g->x.stride[MEMORY_ROW],
        .codes_row = g->codes.stride[MEMORY_ROW],
        .vectors = (uint32_t)d->rows * (uint32_t)g->parts,
        .parts = (uint32_t)g->parts,
        .pieces = (uint32_t)g->pieces,
        .last = (uint32_t)g->last,
        .share = share_of(row->threads, g->pieces),
    };
    head->grid[0] = (plan->arguments.vectors - 1) / ((uint32_t)row->threads >> plan->arguments.share) + 1;
    return PTXPACK_OK;
}

static ptxpack_status address(const plan_head *head, const void *buffers, void *arguments, uint32_t grid[3])
{
    const ptxpack_quantise_buffers *b = (const ptxpack_quantise_buffers *)buffers;
    quantise_arguments             *to = (quantise_arguments *)arguments;
    (void)head, (void)grid;
    to->x = b->x;
    to->codes = b->codes;
    to->scales = b->scales;
    return PTXPACK_OK;
}

static const argument_field fields[] = ARGUMENT_FIELDS(QUANTISE_ARGUMENTS, quantise_arguments);
static const uint16_t       corners[] = {0, 1};
#define METHOD(of, count)                                                                                \
    {                                                                                                    \
        .file = of, .ordered = true, PLAN_ARGUMENTS(fields, quantise_arguments), .refusal = refusal,     \
        .symbols = symbols, .fill = fill, .address = address, .corners = corners, .corner_count = count, \
    }
enum { BUILDS = 2 /* without and with POWERS */, BUILDS_BACK = 1 };
static const plan_method        quantise_method = METHOD("quantise/quantise.ptx", BUILDS);
static const plan_method        dequantise_method = METHOD("quantise/dequantise.ptx", BUILDS_BACK);
static const plan_method *const quantise_methods[] = {&quantise_method};
static const plan_method *const dequantise_methods[] = {&dequantise_method};

/* ---- the operations ----------------------------------------------------------------------------------- */
static ptxpack_status resolve(const void *desc, void *geometry, char line[PLAN_LINE])
{
    return quantise_resolve((const ptxpack_quantise_desc *)desc, (quantise_geometry *)geometry, line);
}

/* The index is the options. */
static void build(const ptxpack_variant *row, ptxpack_dtype dtype, unsigned index, bool corner, void *desc,
                  char *name, size_t size)
{
    (void)row, (void)corner;
    snprintf(name, size, "%s", index != 0 ? " powers" : "");
    *(ptxpack_quantise_desc *)desc = (ptxpack_quantise_desc){.size = sizeof(ptxpack_quantise_desc),
                                                             .dtype = dtype,
                                                             .rows = 1,
                                                             .columns = 4096,
                                                             .options = index};
}

static ptxpack_status check(const plan_head *head, const void *buffers, char line[PLAN_LINE])
{
    return quantise_check(&((const quantise_plan *)head)->geometry, (const ptxpack_quantise_buffers *)buffers,
                          head->op == &dequantise_op, line);
}

static const plan_struct buffers_struct = {
    .name = "buffers",
    .type = "ptxpack_quantise_buffers",
    .size = sizeof(ptxpack_quantise_buffers),
    .launch_at = offsetof(ptxpack_quantise_buffers, launch),
};
_Static_assert(sizeof(quantise_geometry) <= sizeof(plan_room), "plan_room has room for the geometry");
#define OPERATION(of, of_methods, count)                                                                    \
    {                                                                                                       \
        .name = of, .methods = of_methods, .method_count = 1, .margin = 1,                                  \
        .desc_bytes = sizeof(ptxpack_quantise_desc), .dtype_at = offsetof(ptxpack_quantise_desc, dtype),    \
        .plan_bytes = sizeof(quantise_plan), .geometry_at = offsetof(quantise_plan, geometry),              \
        .arguments_at = offsetof(quantise_plan, arguments), .resolve = resolve, .buffers = &buffers_struct, \
        .check = check, .builds = count, .build = build,                                                    \
    }
const plan_op quantise_op = OPERATION("quantise", quantise_methods, BUILDS);
const plan_op dequantise_op = OPERATION("dequantise", dequantise_methods, BUILDS_BACK);

/* ---- the public calls --------------------------------------------------------------------------------- */
PLAN_CALLS(ptxpack_quantise, quantise_op, ptxpack_quantise)
PLAN_CALLS(ptxpack_dequantise, dequantise_op, ptxpack_dequantise)
