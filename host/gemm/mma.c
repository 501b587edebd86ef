/* mma.c - the methods of the rows of ptx/gemm/mma.ptx, and for groups of rows of ptx/gemm/mma_groups.ptx. */
#include <stdio.h>

#include "mma_symbols.h"
#include "op.h"

/* One text serves any n: it stores what is left of a row element by element. */
static void symbols(const plan_problem *problem, const void *layout, symbol_list *list)
{
    const ptxpack_gemm_desc *desc = (const ptxpack_gemm_desc *)problem->desc;
    gemm_build_symbols(desc, false, list);
    gemm_mma_symbols((const gemm_mma_layout *)layout, desc->order_a == PTXPACK_COLUMN_MAJOR,
                     desc->order_b == PTXPACK_COLUMN_MAJOR, list);
}

/* ---- the choice --------------------------------------------------------------------------------- */
static int64_t blocks_of(int64_t extent, int64_t block) { return (extent + block - 1) / block; }

static int64_t parameter(const ptxpack_variant *row, const char *name)
{
    return ptxpack_variant_parameter(row, name, 1);
}

/* With groups: at most. */
static double tiles_of(const ptxpack_variant *row, const ptxpack_gemm_desc *desc, const gemm_geometry *g)
{
    if (g->groups > 0)
        return gemm_groups_most_tiles(desc->groups, desc->m, parameter(row, "BLOCK_M")) *
               (double)blocks_of(desc->n, parameter(row, "BLOCK_N"));
    return (double)g->batch * (double)blocks_of(desc->m, parameter(row, "BLOCK_M")) *
           (double)blocks_of(desc->n, parameter(row, "BLOCK_N"));
}

/* The kernel holds byte strides, the numbers of tiles, and those of rows, columns and k up to a block beyond
 * the last one in 32-bit registers; QUOTIENT of ptx/shared/divide.ptx takes numbers of tiles below 2^30.
 * tanh.approx needs PTX ISA 7.0, and some rows need less. */
static const char *refusal(const plan_problem *problem, const ptxpack_variant *row, char line[PLAN_LINE])
{
    enum {
        TANH_ISA = 70,
        EXTENT_LIMIT = INT32_MAX - 4096,
        STRIDE_LIMIT = INT32_MAX / 2,
        TILE_LIMIT = INT32_MAX / 2
    };
    const ptxpack_gemm_desc *desc = (const ptxpack_gemm_desc *)problem->desc;
    const gemm_geometry     *g = (const gemm_geometry *)problem->geometry;
    const int                isa = problem->caps.isa;
    for (int i = 0; i < GEMM_MATRICES; i++)
        if ((i != GEMM_C || desc->has_c) && g->matrix[i].lines > 1 && g->matrix[i].stride > STRIDE_LIMIT) {
            snprintf(line, PLAN_LINE, "stride_%s: %lld exceeds %d elements", gemm_matrix_names[i],
                     (long long)g->matrix[i].stride, (int)STRIDE_LIMIT);
            return line;
        }
    const int32_t extents[] = {desc->m, desc->n, desc->k};
    for (int i = 0; i < 3; i++)
        if (extents[i] > EXTENT_LIMIT) {
            snprintf(line, PLAN_LINE, "%c is %d, more than %d", "mnk"[i], (int)extents[i], (int)EXTENT_LIMIT);
            return line;
        }
    if (tiles_of(row, desc, g) > TILE_LIMIT) {
        snprintf(line, PLAN_LINE, "m %d, n %d, batch %d are %.0f tiles, more than %d", (int)desc->m,
                 (int)desc->n, (int)g->batch, tiles_of(row, desc, g), (int)TILE_LIMIT);
        return line;
    }
    if (desc->activation == PTXPACK_ACTIVATION_GELU && row->isa < TANH_ISA && isa < TANH_ISA) {
        snprintf(line, PLAN_LINE, "activation: GELU needs PTX ISA 7.0, and here it is %d.%d", isa / 10,
                 isa % 10);
        return line;
    }
    return NULL;
}

/* The work of the tiles of the busiest SM, divided by the speed of the row where all SMs are busy for a long
 * time: SPEED, in percent of the fastest row. */
static double cost(const plan_problem *problem, const ptxpack_variant *row)
{
    const ptxpack_gemm_desc *desc = (const ptxpack_gemm_desc *)problem->desc;
    const gemm_geometry     *g = (const gemm_geometry *)problem->geometry;
    int64_t tiles = blocks_of((int64_t)tiles_of(row, desc, g), problem->sm_count > 0 ? problem->sm_count : 1);
    return (double)tiles * (double)parameter(row, "BLOCK_M") * (double)parameter(row, "BLOCK_N") /
           (double)parameter(row, "SPEED");
}

/* The same with as many tiles as groups of any size have. */
static double cost_groups(const plan_problem *problem, const ptxpack_variant *row)
{
    const ptxpack_gemm_desc *d = (const ptxpack_gemm_desc *)problem->desc;
    const double             sms = problem->sm_count > 0 ? problem->sm_count : 1;
    const double             down = gemm_groups_usual_tiles(d->groups, d->m, parameter(row, "BLOCK_M"));
    const double             tiles = down * (double)blocks_of(d->n, parameter(row, "BLOCK_N")) / sms;
    return (tiles > 1 ? tiles : 1) * (double)parameter(row, "BLOCK_M") * (double)parameter(row, "BLOCK_N") /
           (double)parameter(row, "SPEED");
}

/* ---- the plan ----------------------------------------------------------------------------------- */
/* As many rows of tiles as make the tiles that run at the same time about a square of D: there they share
 * the most of A and B. */
static int32_t group_of(const ptxpack_variant *row, int sm_count, int64_t tiles_m)
{
    double  at_once = (double)row->blocks_per_sm * (sm_count > 0 ? sm_count : 1);
    double  m = (double)parameter(row, "BLOCK_M"), n = (double)parameter(row, "BLOCK_N");
    int32_t group = 1;
    while (group < tiles_m && (group + 1) * m * (group + 1) * m <= at_once * m * n)
        group++;
    return group;
}

/* The stride of a single line means nothing. */
static int32_t line_of(const gemm_matrix *x)
{
    return x->lines > 1 ? (int32_t)(x->stride * (int64_t)sizeof(uint16_t)) : 0;
}

static void fill_lines(gemm_mma_arguments *a, const gemm_geometry *g)
{
    enum { ELEMENT = sizeof(uint16_t) };
    const gemm_matrix *x = g->matrix;
    a->a_batch = x[GEMM_A].batch * ELEMENT;
    a->b_batch = x[GEMM_B].batch * ELEMENT;
    a->c_batch = x[GEMM_C].batch * ELEMENT;
    a->d_batch = x[GEMM_D].batch * ELEMENT;
    a->a_line = line_of(&x[GEMM_A]);
    a->b_line = line_of(&x[GEMM_B]);
    a->c_line = line_of(&x[GEMM_C]);
    a->d_line = line_of(&x[GEMM_D]);
}

static ptxpack_status fill(const plan_problem *problem, const ptxpack_variant *row, const void *layout,
                           plan_head *plan)
{
    const ptxpack_gemm_desc *desc = (const ptxpack_gemm_desc *)problem->desc;
    const gemm_geometry     *g = (const gemm_geometry *)problem->geometry;
    int64_t                  tiles_m = blocks_of(desc->m, parameter(row, "BLOCK_M"));
    int64_t                  tiles_n = blocks_of(desc->n, parameter(row, "BLOCK_N"));
    gemm_mma_arguments      *a = &((ptxpack_gemm_plan *)plan)->arguments.mma;
    (void)layout;
    *a = (gemm_mma_arguments){
        .m = desc->m,
        .n = desc->n,
        .k = desc->k,
        .blocks = (int32_t)blocks_of(desc->k, parameter(row, "BLOCK_K")),
    };
    const gemm_tile_order from = gemm_order_tiles(tiles_m, tiles_n, group_of(row, problem->sm_count, tiles_m));
    gemm_mma_arguments   *to = a;
    GEMM_TILE_ORDER(ARGUMENT_COPY, )
    fill_lines(a, g);
    plan->grid[0] = (uint32_t)(tiles_m * tiles_n * g->batch);
    return PTXPACK_OK;
}

static ptxpack_status address(const plan_head *plan, const void *buffers, void *arguments, uint32_t grid[3])
{
    const ptxpack_gemm_buffers *b = (const ptxpack_gemm_buffers *)buffers;
    gemm_mma_arguments         *a = (gemm_mma_arguments *)arguments;
    (void)plan, (void)grid;
    a->a = b->a;
    a->b = b->b;
    a->c = b->c;
    a->d = b->d;
    a->bias = b->bias;
    a->alpha = b->alpha;
    a->beta = b->beta;
    return PTXPACK_OK;
}

/* The grid has a block for each tile that there may be; those without one end at once. */
static ptxpack_status fill_groups(const plan_problem *problem, const ptxpack_variant *row, const void *layout,
                                  plan_head *plan)
{
    const ptxpack_gemm_desc   *desc = (const ptxpack_gemm_desc *)problem->desc;
    gemm_mma_groups_arguments *a = &((ptxpack_gemm_plan *)plan)->arguments.mma_groups;
    ptxpack_status             status = fill(problem, row, layout, plan);
    a->groups = desc->groups;
    a->tiles_n = (int32_t)blocks_of(desc->n, parameter(row, "BLOCK_N"));
    plan->grid[0] = (uint32_t)tiles_of(row, desc, (const gemm_geometry *)problem->geometry);
    return status;
}

static ptxpack_status address_groups(const plan_head *plan, const void *buffers, void *arguments,
                                     uint32_t grid[3])
{
    ((gemm_mma_groups_arguments *)arguments)->starts = ((const ptxpack_gemm_buffers *)buffers)->group_starts;
    return address(plan, buffers, arguments, grid);
}

static ptxpack_status derive(const ptxpack_variant *row, void *layout)
{
    return ptxpack_gemm_mma_layout(row, (gemm_mma_layout *)layout);
}

/* Each order of A and B, bare and with all that an epilogue can do, and SwiGLU of weights as layers have them; the
 * others lie between these. */
const uint16_t              gemm_corners[GEMM_CORNERS] = {0, 108, 1, 109, 2, 110, 3, 111, 130, 134};
static const argument_field fields[] = ARGUMENT_FIELDS(GEMM_MMA_ARGUMENTS, gemm_mma_arguments);
static const argument_field fields_groups[] = ARGUMENT_FIELDS(GEMM_MMA_GROUPS_ARGUMENTS,
                                                              gemm_mma_groups_arguments);
const plan_method           gemm_mma = {
              .file = "gemm/mma.ptx",
              PLAN_ARGUMENTS(fields, gemm_mma_arguments),
              .layout_bytes = sizeof(gemm_mma_layout),
              .derive = derive,
              .refusal = refusal,
              .cost = cost,
              .symbols = symbols,
              .fill = fill,
              .address = address,
              .corners = gemm_corners,
              .corner_count = GEMM_CORNERS,
};
const plan_method gemm_mma_groups = {
    .file = "gemm/mma_groups.ptx",
    PLAN_ARGUMENTS(fields_groups, gemm_mma_groups_arguments),
    .layout_bytes = sizeof(gemm_mma_layout),
    .derive = derive,
    .refusal = refusal,
    .cost = cost_groups,
    .symbols = symbols,
    .fill = fill_groups,
    .address = address_groups,
    .corners = gemm_groups_corners,
    .corner_count = GEMM_GROUPS_CORNERS,
};
