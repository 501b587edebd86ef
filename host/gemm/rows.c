/* rows.c - the method of the rows of ptx/gemm/rows.ptx: products of few rows, where B comes from memory once. */
#include <stdio.h>

#include "host/plan/quotient.h"
#include "op.h"

enum { BLOCK_K = 32 };

gemm_rows_layout gemm_rows_layout_of(const ptxpack_variant *row)
{
    return (gemm_rows_layout){ptxpack_variant_parameter(row, "ROWS", 0),
                              16 * ptxpack_variant_parameter(row, "TILES", 0),
                              ptxpack_variant_parameter(row, "UNROLL", 1), row->threads / 32};
}

ptxpack_status gemm_rows_derive(const ptxpack_variant *row, void *out)
{
    const gemm_rows_layout l = gemm_rows_layout_of(row);
    const int64_t          bytes = l.warps * l.rows * (l.columns + 4) * (int64_t)sizeof(float);
    *(gemm_rows_layout *)out = l;
    return bytes == row->shared_bytes
               ? PTXPACK_OK
               : ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED,
                              "kernels.def, row %s: shared_bytes is %d, its sums take %lld", row->id,
                              row->shared_bytes, (long long)bytes);
}

static void symbols(const plan_problem *problem, const void *layout, symbol_list *list)
{
    (void)layout;
    gemm_build_symbols((const ptxpack_gemm_desc *)problem->desc, false, list);
}

/* ---- the choice --------------------------------------------------------------------------------- */
static const char *refusal(const plan_problem *problem, const ptxpack_variant *row, char line[PLAN_LINE])
{
    enum { TANH_ISA = 70, EXTENT_LIMIT = INT32_MAX - 65536 };
    const ptxpack_gemm_desc *d = (const ptxpack_gemm_desc *)problem->desc;
    const int64_t            most = gemm_rows_layout_of(row).rows;
    if (d->m > most)
        snprintf(line, PLAN_LINE, "m is %d, more than %d", (int)d->m, (int)most);
    else if (((const gemm_geometry *)problem->geometry)->batch > 1)
        snprintf(line, PLAN_LINE, "batch: takes one product");
    else if (d->order_a != PTXPACK_ROW_MAJOR || d->order_b != PTXPACK_COLUMN_MAJOR)
        snprintf(line, PLAN_LINE, "order_a, order_b: takes A row-major and B column-major");
    else if (d->k % 8 != 0 || d->n % 8 != 0)
        snprintf(line, PLAN_LINE, "%c is %d, no multiple of 8", d->k % 8 != 0 ? 'k' : 'n',
                 (int)(d->k % 8 != 0 ? d->k : d->n));
    else if (d->n > EXTENT_LIMIT || d->k > EXTENT_LIMIT)
        snprintf(line, PLAN_LINE, "takes extents up to %d", (int)EXTENT_LIMIT);
    else if (d->activation == PTXPACK_ACTIVATION_GELU && row->isa < TANH_ISA && problem->caps.isa < TANH_ISA)
        snprintf(line, PLAN_LINE, "activation: GELU needs PTX ISA 7.0, and here it is %d.%d",
                 problem->caps.isa / 10, problem->caps.isa % 10);
    else
        return NULL;
    return line;
}

/* All read B once; the fewest rows that hold m take the least of everything else. */
static double cost(const plan_problem *problem, const ptxpack_variant *row)
{
    (void)problem;
    return (double)gemm_rows_layout_of(row).rows;
}

/* On Hopper, wgmma with 64 rows.  Over cuBLAS on an H200 on 2026-11-27, rows.ptx and wgmma, B column-major, n x k:
 *   m     4096 x 4096    28672 x 4096   4096 x 14336   8192 x 8192    57344 x 8192   6144 x 4096
 *    8    1.15   0.95    0.94   0.99    0.98   0.96
 *   16    1.13   0.96    0.89   1.00    0.92   0.97    0.87   0.80    0.93   0.97    0.88   0.79
 *   24    0.95   0.97    0.69   0.93
 *   32    0.90   0.99    0.66   1.01    0.78   0.99    0.67   0.88    0.75   0.97
 *   64    0.55   0.85    0.51   1.07    0.60   1.04    0.58   0.97                   0.51   0.80 */
static size_t yields(const plan_problem *problem)
{
    enum { HOPPER = 90, FEW = 16 };
    return problem->caps.arch == HOPPER && ((const ptxpack_gemm_desc *)problem->desc)->m > FEW ? 1 : 0;
}

/* ---- the plan ----------------------------------------------------------------------------------- */
/* Parts of k, so many that the blocks of all tiles fill the GPU once, and each warp has all its loads in flight at
 * least once. */
static int64_t splits_of(const ptxpack_variant *row, const gemm_rows_layout *l, int64_t tiles, int64_t blocks,
                         int sm_count)
{
    const int64_t held = (int64_t)(sm_count > 0 ? sm_count : 1) * row->blocks_per_sm;
    const int64_t most = blocks / (l->warps * l->unroll), wanted = held / tiles;
    const int64_t splits = wanted < most ? wanted : most;
    return splits > 1 ? splits : 1;
}

static ptxpack_status fill(const plan_problem *problem, const ptxpack_variant *row, const void *layout,
                           plan_head *head)
{
    enum { ELEMENT = sizeof(uint16_t), COUNTER = 4, ALIGNMENT = 16 };
    const ptxpack_gemm_desc *d = (const ptxpack_gemm_desc *)problem->desc;
    const gemm_matrix       *x = ((const gemm_geometry *)problem->geometry)->matrix;
    const gemm_rows_layout  *l = (const gemm_rows_layout *)layout;
    const int64_t            tiles = divided_up(d->n, l->columns), blocks = divided_up(d->k, BLOCK_K);
    const int64_t            wanted = splits_of(row, l, tiles, blocks, problem->sm_count);
    const int64_t            part = blocks > 0 ? divided_up(blocks, wanted) : 0;
    const int64_t            splits = blocks > 0 ? divided_up(blocks, part) : 1;
    gemm_rows_arguments     *a = &((ptxpack_gemm_plan *)head)->arguments.rows;
    *a = (gemm_rows_arguments){
        .a_line = x[GEMM_A].stride * ELEMENT,
        .b_line = x[GEMM_B].stride * ELEMENT,
        .c_line = x[GEMM_C].stride * ELEMENT,
        .d_line = x[GEMM_D].stride * ELEMENT,
        .m = d->m,
        .n = d->n,
        .k = d->k,
        .blocks = (int32_t)part,
        .splits = (int32_t)splits,
    };
    quotient_inverse(splits, &a->splits_inverse, &a->splits_shift);
    head->grid[0] = (uint32_t)(tiles * splits);
    if (splits > 1) {
        head->counters = (uint64_t)divided_up(tiles * COUNTER, ALIGNMENT) * ALIGNMENT;
        head->workspace = head->counters + (uint64_t)(tiles * splits * l->rows * l->columns) * sizeof(float);
    }
    return PTXPACK_OK;
}

static ptxpack_status address(const plan_head *head, const void *buffers, void *arguments, uint32_t grid[3])
{
    const ptxpack_gemm_buffers *b = (const ptxpack_gemm_buffers *)buffers;
    gemm_rows_arguments        *a = (gemm_rows_arguments *)arguments;
    (void)grid;
    a->a = b->a;
    a->b = b->b;
    a->c = b->c;
    a->d = b->d;
    a->bias = b->bias;
    a->counters = b->workspace;
    a->parts = b->workspace + head->counters;
    a->alpha = b->alpha;
    a->beta = b->beta;
    return PTXPACK_OK;
}

static const argument_field fields[] = ARGUMENT_FIELDS(GEMM_ROWS_ARGUMENTS, gemm_rows_arguments);
const uint16_t              gemm_rows_corners[GEMM_ROWS_CORNERS] = {2, 110, 134};
const plan_method           gemm_rows = {
              .file = "gemm/rows.ptx",
              PLAN_ARGUMENTS(fields, gemm_rows_arguments),
              .layout_bytes = sizeof(gemm_rows_layout),
              .derive = gemm_rows_derive,
              .refusal = refusal,
              .cost = cost,
              .yields = yields,
              .symbols = symbols,
              .fill = fill,
              .address = address,
              .corners = gemm_rows_corners,
              .corner_count = GEMM_ROWS_CORNERS,
};
