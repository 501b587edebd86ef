/* gather.c - gathering rows as an operation of the spine, its checks, and its public calls. */
#include "gather.h"

#include <stdio.h>

#include "host/plan/calls.h"
#include "op.h"

#define refuse(line, ...) plan_refuse(line, PTXPACK_E_ARG, __VA_ARGS__)

enum { PIECE = 8 /* elements that a thread copies */ };

struct ptxpack_gather_plan {
    plan_head        head;
    gather_geometry  geometry;
    gather_arguments arguments; /* all but the addresses */
};

/* ---- checks ------------------------------------------------------------------------------------------- */
static ptxpack_status check_fields(const ptxpack_gather_desc *d, char *line)
{
    if (d == NULL)
        return refuse(line, "desc is NULL");
    if (d->size != sizeof *d)
        return refuse(line, "desc.size is %u; sizeof(ptxpack_gather_desc) is %zu", (unsigned)d->size,
                      sizeof *d);
    if (d->dtype != PTXPACK_F16 && d->dtype != PTXPACK_BF16)
        return refuse(line, "dtype %d is neither PTXPACK_F16 nor PTXPACK_BF16", (int)d->dtype);
    if (d->reserved != 0)
        return refuse(line, "desc.reserved is %u, not 0", (unsigned)d->reserved);
    if (d->rows < 1 || d->table_rows < 1)
        return refuse(line, "%s is %d; it must be at least 1", d->rows < 1 ? "rows" : "table_rows",
                      (int)(d->rows < 1 ? d->rows : d->table_rows));
    if (d->columns < PIECE || d->columns % PIECE != 0)
        return refuse(line, "columns %d is not a multiple of %d", (int)d->columns, (int)PIECE);
    return PTXPACK_OK;
}

ptxpack_status gather_resolve(const ptxpack_gather_desc *d, gather_geometry *out, char line[PLAN_LINE])
{
    ptxpack_status status = check_fields(d, line);
    if (status != PTXPACK_OK)
        return status;
    const memory_shape table = {.name = "table",
                                .extent = {1, d->table_rows, 1},
                                .stride = {0, d->stride_table, 0},
                                .elements = d->columns,
                                .element_bytes = sizeof(uint16_t)};
    const memory_shape y = {.name = "y",
                            .written = true,
                            .extent = {1, d->rows, 1},
                            .stride = {0, d->stride_y, 0},
                            .elements = d->columns,
                            .element_bytes = sizeof(uint16_t)};
    out->ids_bytes = (uint64_t)d->rows * sizeof(int32_t);
    status = memory_resolve(&table, &out->table, line);
    return status == PTXPACK_OK ? memory_resolve(&y, &out->y, line) : status;
}

ptxpack_status gather_check(const gather_geometry *g, const ptxpack_gather_buffers *b, char line[PLAN_LINE])
{
    enum { Y = 2, RANGES };
    const memory_range ranges[RANGES] = {
        {"ids", b->ids, g->ids_bytes, sizeof(int32_t), false},
        {"table", b->table, g->table.bytes, 16, false},
        {"y", b->y, g->y.bytes, 16, false},
    };
    ptxpack_status status = PTXPACK_OK;
    for (int i = 0; i < RANGES && status == PTXPACK_OK; i++)
        status = memory_check(&ranges[i], line);
    for (int i = 0; i < Y && status == PTXPACK_OK; i++)
        status = memory_refuse_overlap(&ranges[Y], &ranges[i], line);
    return status;
}

/* ---- the row ------------------------------------------------------------------------------------------ */
static const char *refusal(const plan_problem *problem, const ptxpack_variant *row, char line[PLAN_LINE])
{
    const ptxpack_gather_desc *d = (const ptxpack_gather_desc *)problem->desc;
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
    const ptxpack_gather_desc *d = (const ptxpack_gather_desc *)problem->desc;
    ptxpack_gather_plan       *plan = (ptxpack_gather_plan *)head;
    const uint32_t             pieces = (uint32_t)(d->columns / PIECE);
    (void)layout;
    plan->arguments = (gather_arguments){
        .table_row = plan->geometry.table.stride[MEMORY_ROW],
        .y_row = plan->geometry.y.stride[MEMORY_ROW],
        .units = (uint32_t)d->rows * pieces,
        .pieces = pieces,
        .table_rows = (uint32_t)d->table_rows,
    };
    head->grid[0] = (plan->arguments.units - 1) / (uint32_t)row->threads + 1;
    return PTXPACK_OK;
}

static ptxpack_status address(const plan_head *head, const void *buffers, void *arguments, uint32_t grid[3])
{
    const ptxpack_gather_buffers *b = (const ptxpack_gather_buffers *)buffers;
    gather_arguments             *to = (gather_arguments *)arguments;
    (void)head, (void)grid;
    to->ids = b->ids;
    to->table = b->table;
    to->y = b->y;
    return PTXPACK_OK;
}

static const argument_field fields[] = ARGUMENT_FIELDS(GATHER_ARGUMENTS, gather_arguments);
static const uint16_t       corners[] = {0};
static const plan_method    gather_method = {
       .file = "gather/gather.ptx",
       .ordered = true,
       PLAN_ARGUMENTS(fields, gather_arguments),
       .refusal = refusal,
       .fill = fill,
       .address = address,
       PLAN_CORNERS(corners),
};

/* ---- the operation ------------------------------------------------------------------------------------ */
static bool covers(const ptxpack_variant *row, const void *desc)
{
    (void)row, (void)desc; /* elements are copied: the types differ in nothing here, also before bf16 */
    return true;
}

static void build(const ptxpack_variant *row, ptxpack_dtype dtype, unsigned index, bool corner, void *desc,
                  char *name, size_t size)
{
    (void)row, (void)index, (void)corner, (void)name, (void)size;
    *(ptxpack_gather_desc *)desc = (ptxpack_gather_desc){.size = sizeof(ptxpack_gather_desc),
                                                         .dtype = dtype,
                                                         .rows = 1,
                                                         .table_rows = 1,
                                                         .columns = PIECE};
}

PLAN_CHECKS(ptxpack_gather, gather)
static const plan_method *const methods[] = {&gather_method};
const plan_op                   gather_op = {
                      .name = "gather",
                      PLAN_OP(ptxpack_gather),
                      .covers = covers,
                      .builds = 1,
                      .build = build,
};

/* ---- the public calls --------------------------------------------------------------------------------- */
PLAN_CALLS(ptxpack_gather, gather_op, ptxpack_gather)
