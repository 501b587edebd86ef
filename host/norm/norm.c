/* norm.c - RMSNorm as an operation of the spine, and its public calls. */
#include "norm.h"

#include <stdio.h>

#include "host/plan/calls.h"
#include "op.h"

struct ptxpack_norm_plan {
    plan_head      head;
    norm_geometry  geometry;
    norm_arguments arguments; /* all but the addresses */
};

/* ---- the row ------------------------------------------------------------------------------------------ */
/* What a row says: the elements of a piece, the pieces that a thread may have, and the threads of a block. */
typedef struct norm_layout {
    int32_t elements, pieces, threads;
} norm_layout;

static ptxpack_status derive(const ptxpack_variant *row, void *out)
{
    *(norm_layout *)out = (norm_layout){(int32_t)ptxpack_variant_parameter(row, "ELEMENTS", 0),
                                        (int32_t)ptxpack_variant_parameter(row, "PIECES", 0), row->threads};
    return PTXPACK_OK;
}

static void symbols(const plan_problem *problem, const void *layout, symbol_list *list)
{
    const ptxpack_norm_desc *d = (const ptxpack_norm_desc *)problem->desc;
    (void)layout;
    symbol_add(list, "BF16", d->dtype == PTXPACK_BF16);
    symbol_add(list, "RESIDUAL", (d->options & PTXPACK_NORM_RESIDUAL) != 0);
    symbol_add(list, "ONE_PLUS", (d->options & PTXPACK_NORM_ONE_PLUS_WEIGHT) != 0);
}

static const char *refusal(const plan_problem *problem, const ptxpack_variant *row, char line[PLAN_LINE])
{
    const ptxpack_norm_desc *d = (const ptxpack_norm_desc *)problem->desc;
    const int                most = (int)(ptxpack_variant_parameter(row, "ELEMENTS", 0) *
                           ptxpack_variant_parameter(row, "PIECES", 0) * row->threads);
    if ((int64_t)d->rows * d->heads > INT32_MAX) /* of every row: it comes first, so that it is what is told */
        plan_refuse(line, PTXPACK_E_UNSUPPORTED, "counts rows %d times heads %d only up to %d", (int)d->rows,
                    (int)d->heads, INT32_MAX);
    else if (d->columns > most)
        plan_refuse(line, PTXPACK_E_UNSUPPORTED, "takes up to %d columns, not %d", most, (int)d->columns);
    else
        return NULL;
    return line;
}

/* A vector has so many threads, a power of two, that each has at least two pieces in flight, if it can be. */
static uint32_t share_of(const norm_layout *l, int32_t pieces)
{
    uint32_t share = 0;
    while ((2 << share) < pieces && (1 << share) < l->threads)
        share++;
    return share;
}

static ptxpack_status fill(const plan_problem *problem, const ptxpack_variant *row, const void *layout,
                           plan_head *head)
{
    const ptxpack_norm_desc *d = (const ptxpack_norm_desc *)problem->desc;
    const norm_layout       *l = (const norm_layout *)layout;
    ptxpack_norm_plan       *plan = (ptxpack_norm_plan *)head;
    const memory_tensor     *t = plan->geometry.tensor;
    const int32_t            pieces = d->columns / l->elements;
    (void)row;
    plan->arguments = (norm_arguments){
        .x_row = t[NORM_X].stride[MEMORY_ROW],
        .x_head = t[NORM_X].stride[MEMORY_HEAD],
        .r_row = t[NORM_R].stride[MEMORY_ROW],
        .r_head = t[NORM_R].stride[MEMORY_HEAD],
        .y_row = t[NORM_Y].stride[MEMORY_ROW],
        .y_head = t[NORM_Y].stride[MEMORY_HEAD],
        .vectors = (uint32_t)d->rows * (uint32_t)d->heads,
        .heads = (uint32_t)d->heads,
        .pieces = (uint32_t)pieces,
        .share = share_of(l, pieces),
        .inverse = 1 / (float)d->columns,
        .eps = d->eps,
    };
    head->grid[0] = (plan->arguments.vectors - 1) / ((uint32_t)l->threads >> plan->arguments.share) + 1;
    return PTXPACK_OK;
}

static ptxpack_status address(const plan_head *head, const void *buffers, void *arguments, uint32_t grid[3])
{
    const ptxpack_norm_buffers *b = (const ptxpack_norm_buffers *)buffers;
    norm_arguments             *to = (norm_arguments *)arguments;
    (void)head, (void)grid;
    to->x = b->x;
    to->w = b->w;
    to->r = b->r;
    to->y = b->y;
    return PTXPACK_OK;
}

enum { BUILDS = 4 /* RESIDUAL + 2 ONE_PLUS: the options */ };
static const argument_field fields[] = ARGUMENT_FIELDS(NORM_ARGUMENTS, norm_arguments);
static const uint16_t       corners[] = {0, 3};
static const plan_method    norm_method = {
       .file = "norm/norm.ptx",
       .ordered = true,
       PLAN_ARGUMENTS(fields, norm_arguments),
       .layout_bytes = sizeof(norm_layout),
       .derive = derive,
       .refusal = refusal,
       .symbols = symbols,
       .fill = fill,
       .address = address,
       PLAN_CORNERS(corners),
};

/* ---- the operation ------------------------------------------------------------------------------------ */
static void build(const ptxpack_variant *row, ptxpack_dtype dtype, unsigned index, bool corner, void *desc,
                  char *name, size_t size)
{
    (void)row, (void)corner;
    snprintf(name, size, "%s%s", (index & PTXPACK_NORM_RESIDUAL) != 0 ? " residual" : "",
             (index & PTXPACK_NORM_ONE_PLUS_WEIGHT) != 0 ? " one plus weight" : "");
    *(ptxpack_norm_desc *)desc = (ptxpack_norm_desc){.size = sizeof(ptxpack_norm_desc),
                                                     .dtype = dtype,
                                                     .rows = 1,
                                                     .heads = 1,
                                                     .columns = 4096,
                                                     .options = index,
                                                     .eps = 1e-5f};
}

PLAN_CHECKS(ptxpack_norm, norm)
static const plan_method *const methods[] = {&norm_method};
const plan_op                   norm_op = {
                      .name = "norm",
                      PLAN_OP(ptxpack_norm),
                      .builds = BUILDS,
                      .build = build,
};

/* ---- the public calls --------------------------------------------------------------------------------- */
PLAN_CALLS(ptxpack_norm, norm_op, ptxpack_norm)
