/* combine.c - the weighted sum of what experts make of rows as an operation of the spine, and its public calls. */
#include <stdio.h>

#include "experts.h"
#include "host/plan/calls.h"
#include "op.h"

enum { PIECE = 8 /* elements that a thread adds */ };

struct ptxpack_experts_combine_plan {
    plan_head                 head;
    experts_combine_geometry  geometry;
    experts_combine_arguments arguments; /* all but the addresses */
};

/* ---- the row ------------------------------------------------------------------------------------------ */
static void symbols(const plan_problem *problem, const void *layout, symbol_list *list)
{
    const ptxpack_experts_combine_desc *d = (const ptxpack_experts_combine_desc *)problem->desc;
    (void)layout;
    symbol_add(list, "BF16", d->dtype == PTXPACK_BF16);
    symbol_add(list, "RESIDUAL", (d->options & PTXPACK_EXPERTS_RESIDUAL) != 0);
}

static const char *refusal(const plan_problem *problem, const ptxpack_variant *row, char line[PLAN_LINE])
{
    const ptxpack_experts_combine_desc *d = (const ptxpack_experts_combine_desc *)problem->desc;
    (void)row;
    if ((int64_t)d->rows * (d->columns / PIECE) <= INT32_MAX)
        return NULL;
    plan_refuse(line, PTXPACK_E_UNSUPPORTED, "counts rows %d times columns %d / %d only up to %d", (int)d->rows,
                (int)d->columns, (int)PIECE, INT32_MAX);
    return line;
}

static ptxpack_status fill(const plan_problem *problem, const ptxpack_variant *row, const void *layout,
                           plan_head *head)
{
    const ptxpack_experts_combine_desc *d = (const ptxpack_experts_combine_desc *)problem->desc;
    ptxpack_experts_combine_plan       *plan = (ptxpack_experts_combine_plan *)head;
    const experts_combine_geometry     *g = &plan->geometry;
    const uint32_t                      pieces = (uint32_t)(d->columns / PIECE);
    (void)layout;
    plan->arguments = (experts_combine_arguments){
        .y_row = g->y.stride[MEMORY_ROW],
        .residual_row = g->residual.stride[MEMORY_ROW],
        .out_row = g->out.stride[MEMORY_ROW],
        .units = (uint32_t)d->rows * pieces,
        .pieces = pieces,
        .top_k = (uint32_t)d->top_k,
        .all_places = (uint32_t)d->rows * (uint32_t)d->top_k,
    };
    head->grid[0] = (plan->arguments.units - 1) / (uint32_t)row->threads + 1;
    return PTXPACK_OK;
}

static ptxpack_status address(const plan_head *head, const void *buffers, void *arguments, uint32_t grid[3])
{
    const ptxpack_experts_combine_buffers *b = (const ptxpack_experts_combine_buffers *)buffers;
    experts_combine_arguments             *to = (experts_combine_arguments *)arguments;
    (void)head, (void)grid;
    to->y = b->y;
    to->places = b->places;
    to->weights = b->weights;
    to->residual = b->residual;
    to->out = b->out;
    return PTXPACK_OK;
}

static const argument_field fields[] = ARGUMENT_FIELDS(EXPERTS_COMBINE_ARGUMENTS, experts_combine_arguments);
static const uint16_t       corners[] = {0, 1};
static const plan_method    combine_method = {
       .file = "experts/combine.ptx",
       .ordered = true,
       PLAN_ARGUMENTS(fields, experts_combine_arguments),
       .refusal = refusal,
       .symbols = symbols,
       .fill = fill,
       .address = address,
       PLAN_CORNERS(corners),
};

/* ---- the operation ------------------------------------------------------------------------------------ */
/* The index is the options. */
static void build(const ptxpack_variant *row, ptxpack_dtype dtype, unsigned index, bool corner, void *desc,
                  char *name, size_t size)
{
    (void)row, (void)corner;
    snprintf(name, size, "%s", index != 0 ? " residual" : "");
    *(ptxpack_experts_combine_desc *)desc = (ptxpack_experts_combine_desc){.size = sizeof(
                                                                               ptxpack_experts_combine_desc),
                                                                           .dtype = dtype,
                                                                           .rows = 1,
                                                                           .top_k = 1,
                                                                           .columns = PIECE,
                                                                           .options = index};
}

PLAN_CHECKS(ptxpack_experts_combine, experts_combine)
static const plan_method *const methods[] = {&combine_method};
const plan_op                   experts_combine_op = {
                      .name = "experts_combine",
                      PLAN_OP(ptxpack_experts_combine),
                      .builds = 2,
                      .build = build,
};

/* ---- the public calls --------------------------------------------------------------------------------- */
PLAN_CALLS(ptxpack_experts_combine, experts_combine_op, ptxpack_experts_combine)
