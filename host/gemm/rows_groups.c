/* rows_groups.c - the method of the rows of ptx/gemm/rows_groups_e4m3.ptx: products of groups of rows of 16 bits, each with a B of
 * e4m3, which comes from memory once where a group has few rows. */
#include <stdio.h>

#include "op.h"

enum { BLOCK_K = 64, UNIT_K = 16 /* of a lane's load */, UNIT_N = 8 };

static void symbols(const plan_problem *problem, const void *layout, symbol_list *list)
{
    const ptxpack_gemm_desc *d = (const ptxpack_gemm_desc *)problem->desc;
    (void)layout;
    gemm_build_symbols(d, false, list);
    symbol_add(list, "SCALES", d->scales);
    symbol_add(list, "SCALE_BLOCK", PTXPACK_SCALE_BLOCK);
}

/* ---- the choice --------------------------------------------------------------------------------- */
/* At most. */
static double tiles_of(const ptxpack_variant *row, const ptxpack_gemm_desc *d)
{
    const gemm_rows_layout l = gemm_rows_layout_of(row);
    return gemm_groups_most_tiles(d->groups, d->m, l.rows) * (double)divided_up(d->n, l.columns);
}

static const char *refusal(const plan_problem *problem, const ptxpack_variant *row, char line[PLAN_LINE])
{
    enum { EXTENT_LIMIT = INT32_MAX - 65536 };
    const ptxpack_gemm_desc *d = (const ptxpack_gemm_desc *)problem->desc;
    if (d->k % UNIT_K != 0 || d->n % UNIT_N != 0)
        snprintf(line, PLAN_LINE, "%c is %d, no multiple of %d", d->k % UNIT_K != 0 ? 'k' : 'n',
                 (int)(d->k % UNIT_K != 0 ? d->k : d->n), d->k % UNIT_K != 0 ? UNIT_K : UNIT_N);
    else if (d->m > EXTENT_LIMIT || d->n > EXTENT_LIMIT || d->k > EXTENT_LIMIT)
        snprintf(line, PLAN_LINE, "takes extents up to %d", (int)EXTENT_LIMIT);
    else if (tiles_of(row, d) > INT32_MAX)
        snprintf(line, PLAN_LINE, "m %d, n %d are %.0f tiles, more than %d", (int)d->m, (int)d->n,
                 tiles_of(row, d), INT32_MAX);
    else
        return NULL;
    return line;
}

/* The tiles of a column of groups.  One of them takes the time of B's bytes, from memory or the L2 cache, and that of its rows. */
static double cost(const plan_problem *problem, const ptxpack_variant *row)
{
    enum { BYTES_AS_ROWS = 32 };
    const ptxpack_gemm_desc *d = (const ptxpack_gemm_desc *)problem->desc;
    const int64_t            rows = gemm_rows_layout_of(row).rows;
    return gemm_groups_usual_tiles(d->groups, d->m, rows) * (double)(BYTES_AS_ROWS + rows);
}

/* ---- the plan ----------------------------------------------------------------------------------- */
/* The grid has a block for each tile that there may be; those without one end at once. */
static ptxpack_status fill(const plan_problem *problem, const ptxpack_variant *row, const void *layout,
                           plan_head *head)
{
    enum { ELEMENT = sizeof(uint16_t), GROUP_M = 8 };
    const ptxpack_gemm_desc *d = (const ptxpack_gemm_desc *)problem->desc;
    const gemm_geometry     *g = (const gemm_geometry *)problem->geometry;
    const int32_t            tiles_n = (int32_t)divided_up(d->n, ((const gemm_rows_layout *)layout)->columns);
    ((ptxpack_gemm_plan *)head)->arguments.rows_groups = (gemm_rows_groups_arguments){
        .a_line = g->matrix[GEMM_A].stride * ELEMENT,
        .b_line = g->matrix[GEMM_B].stride,
        .d_line = g->matrix[GEMM_D].stride * ELEMENT,
        .b_batch = g->matrix[GEMM_B].batch,
        .m = d->m,
        .n = d->n,
        .k = d->k,
        .blocks = (int32_t)divided_up(d->k, BLOCK_K),
        .scale_k = (int32_t)g->scale[GEMM_B].line,
        .groups = d->groups,
        .tiles_n = tiles_n,
        .group_m = GROUP_M,
        .group_tiles = GROUP_M * tiles_n,
    };
    head->grid[0] = (uint32_t)tiles_of(row, d);
    return PTXPACK_OK;
}

static ptxpack_status address(const plan_head *head, const void *buffers, void *arguments, uint32_t grid[3])
{
    const ptxpack_gemm_buffers *b = (const ptxpack_gemm_buffers *)buffers;
    gemm_rows_groups_arguments *a = (gemm_rows_groups_arguments *)arguments;
    (void)head, (void)grid;
    a->a = b->a;
    a->b = b->b;
    a->d = b->d;
    a->bias = b->bias;
    a->scale_b = b->scale_b;
    a->starts = b->group_starts;
    a->alpha = b->alpha;
    return PTXPACK_OK;
}

/* Each kind of scales, bare, with GELU and bias, with SwiGLU and bias. */
static const uint16_t       corners[] = {0, 1, 2, 40, 41, 42, 132, 133, 134};
static const argument_field fields[] = ARGUMENT_FIELDS(GEMM_ROWS_GROUPS_ARGUMENTS, gemm_rows_groups_arguments);
const plan_method           gemm_rows_groups = {
              .file = "gemm/rows_groups_e4m3.ptx",
              PLAN_ARGUMENTS(fields, gemm_rows_groups_arguments),
              .layout_bytes = sizeof(gemm_rows_layout),
              .derive = gemm_rows_derive,
              .refusal = refusal,
              .cost = cost,
              .symbols = symbols,
              .fill = fill,
              .address = address,
              PLAN_CORNERS(corners),
};
