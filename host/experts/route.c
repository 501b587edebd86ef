/* route.c - routing rows to experts as an operation of the spine, and its public calls. */
#include <stdio.h>

#include "experts.h"
#include "host/plan/calls.h"
#include "op.h"

struct ptxpack_experts_route_plan {
    plan_head               head;
    experts_route_geometry  geometry;
    experts_route_arguments arguments; /* all but the addresses */
};

/* ---- the row ------------------------------------------------------------------------------------------ */
static void symbols(const plan_problem *problem, const void *layout, symbol_list *list)
{
    const ptxpack_experts_route_desc *d = (const ptxpack_experts_route_desc *)problem->desc;
    const experts_route_geometry     *g = (const experts_route_geometry *)problem->geometry;
    const bool                        f32 = (d->options & PTXPACK_EXPERTS_F32) != 0;
    (void)layout;
    symbol_add(list, "F32", f32);
    symbol_add(list, "BF16", !f32 && d->dtype == PTXPACK_BF16);
    symbol_add(list, "EXPERTS", (int64_t)g->padded);
}

static ptxpack_status fill(const plan_problem *problem, const ptxpack_variant *row, const void *layout,
                           plan_head *head)
{
    const ptxpack_experts_route_desc *d = (const ptxpack_experts_route_desc *)problem->desc;
    ptxpack_experts_route_plan       *plan = (ptxpack_experts_route_plan *)head;
    const experts_route_geometry     *g = &plan->geometry;
    (void)row, (void)layout;
    plan->arguments = (experts_route_arguments){
        .stride = g->logits.stride[MEMORY_ROW],
        .rows = (uint32_t)d->rows,
        .experts = (uint32_t)d->experts,
        .top_k = (uint32_t)d->top_k,
        .chunk_rows = g->chunk_rows,
        .chunks = g->chunks,
        .normalise = (d->options & PTXPACK_EXPERTS_NORMALISE) != 0,
    };
    head->workspace = g->workspace;
    head->grid[0] = g->chunks > 1 ? 2 * g->chunks : 1;
    return PTXPACK_OK;
}

static ptxpack_status address(const plan_head *head, const void *buffers, void *arguments, uint32_t grid[3])
{
    const ptxpack_experts_route_buffers *b = (const ptxpack_experts_route_buffers *)buffers;
    experts_route_arguments             *to = (experts_route_arguments *)arguments;
    (void)head, (void)grid;
    to->logits = b->logits;
    to->starts = b->starts;
    to->sources = b->sources;
    to->places = b->places;
    to->weights = b->weights;
    to->counters = b->workspace;
    return PTXPACK_OK;
}

enum {
    SIZES = 5 /* 32 experts, twice as many, ... */,
    BUILDS = 2 * SIZES /* of the logits' type, then of f32 */
};
static const argument_field fields[] = ARGUMENT_FIELDS(EXPERTS_ROUTE_ARGUMENTS, experts_route_arguments);
static const uint16_t       corners[] = {0, SIZES - 1, BUILDS - 1};
static const plan_method    route_method = {
       .file = "experts/route.ptx",
       .ordered = true,
       PLAN_ARGUMENTS(fields, experts_route_arguments),
       .symbols = symbols,
       .fill = fill,
       .address = address,
       PLAN_CORNERS(corners),
};

/* ---- the operation ------------------------------------------------------------------------------------ */
static bool covers(const ptxpack_variant *row, const void *desc)
{
    const ptxpack_experts_route_desc *d = (const ptxpack_experts_route_desc *)desc;
    return (d->options & PTXPACK_EXPERTS_F32) != 0 || plan_row_takes(row, d->dtype);
}

static void describe(const void *desc, char *text, size_t size)
{
    const ptxpack_experts_route_desc *d = (const ptxpack_experts_route_desc *)desc;
    snprintf(text, size, "dtype %s",
             (d->options & PTXPACK_EXPERTS_F32) != 0 ? "f32" : ptxpack_dtype_name(d->dtype));
}

static void build(const ptxpack_variant *row, ptxpack_dtype dtype, unsigned index, bool corner, void *desc,
                  char *name, size_t size)
{
    const int32_t experts = 32 << index % SIZES;
    (void)row, (void)corner;
    snprintf(name, size, "%s %d experts", index / SIZES != 0 ? " f32 logits" : "", (int)experts);
    *(ptxpack_experts_route_desc *)desc =
        (ptxpack_experts_route_desc){.size = sizeof(ptxpack_experts_route_desc),
                                     .dtype = dtype,
                                     .rows = 1,
                                     .experts = experts,
                                     .top_k = 1,
                                     .options = index / SIZES != 0 ? PTXPACK_EXPERTS_F32 : 0};
}

PLAN_CHECKS(ptxpack_experts_route, experts_route)
static const plan_method *const methods[] = {&route_method};
const plan_op                   experts_route_op = {
                      .name = "experts_route",
                      PLAN_OP(ptxpack_experts_route),
                      .covers = covers,
                      .describe = describe,
                      .builds = BUILDS,
                      .build = build,
};

/* ---- the public calls --------------------------------------------------------------------------------- */
PLAN_CALLS(ptxpack_experts_route, experts_route_op, ptxpack_experts_route)

size_t ptxpack_experts_route_workspace(const ptxpack_experts_route_plan *plan)
{
    return plan != NULL ? (size_t)plan->head.workspace : 0;
}
