/* attention.c - a checked descriptor, the kernel for it, and its launch. */
#include "attention.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention_args.h"
#include "attention_check.h"
#include "attention_plan.h"
#include "attention_symbols.h"

struct ptxpack_attention_plan {
    const ptxpack       *handle;
    ptxpack_kernel      *kernel;
    attention_geometry   geometry;
    attention_arguments  arguments; /* all but the addresses */
    uint32_t             grid[3];
};

/* Tiles run in the order of their number.  The heads of a section are worked on together, longest tiles
 * first, and the keys and values of a section stay in the L2 cache: 16 MB suits caches from 24 MB on. */
enum { SECTION_BYTES = 16 << 20 };

/* ---- symbols ------------------------------------------------------------------------------------ */
size_t ptxpack_attention_symbols(const attention_layout *layout, attention_build build,
                                 ptxpack_symbol symbols[PTXPACK_INSTANCE_SYMBOLS])
{
    const ptxpack_symbol fixed[] = {
        {"ARG_BYTES", ATTENTION_ARGUMENT_BYTES},
#define ATTENTION_SYMBOL(type, name, symbol) {symbol, offsetof(attention_arguments, name)},
        ATTENTION_ARGUMENTS(ATTENTION_SYMBOL)
#undef ATTENTION_SYMBOL
        {"BF16", build.dtype == PTXPACK_BF16},
        {"CAUSAL", build.causal},
        {"PADDED", build.padded},
    };
    enum { FIXED = sizeof fixed / sizeof fixed[0] };
    _Static_assert(FIXED < (int)PTXPACK_INSTANCE_SYMBOLS, "instances have room for more");
    memcpy(symbols, fixed, sizeof fixed);
    size_t count = ptxpack_attention_layout_symbols(layout, symbols + FIXED,
                                                    PTXPACK_INSTANCE_SYMBOLS - FIXED);
    return count > 0 ? FIXED + count : 0;
}

/* ---- the choice --------------------------------------------------------------------------------- */
typedef struct wanted {
    int64_t head_dim; /* the row's */
    bool    bf16;
} wanted;

static bool row_suits(const ptxpack_variant *row, const void *context)
{
    const wanted *w = (const wanted *)context;
    return ptxpack_variant_parameter(row, "HEAD_DIM", 0) == w->head_dim &&
           !(w->bf16 && (row->flags & PTXPACK_VARIANT_NO_BF16));
}

/* The smallest HEAD_DIM of any attention row that is at least `head_dim`; 0 when there is none. */
static int64_t next_head_dim(int64_t head_dim)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    int64_t                best = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t row_dim = ptxpack_variant_parameter(&rows[i], "HEAD_DIM", 0);
        if (strcmp(rows[i].op, "attention") == 0 && row_dim >= head_dim && (best == 0 || row_dim < best))
            best = row_dim;
    }
    return best;
}

ptxpack_status ptxpack_attention_choose(ptxpack *handle, const ptxpack_device_caps *caps,
                                        const ptxpack_attention_desc *desc, const ptxpack_variant **row)
{
    char reason[ATTENTION_LINE] = "no row has such a HEAD_DIM";
    bool first = true;
    for (int64_t dim = next_head_dim(desc->head_dim); dim != 0; dim = next_head_dim(dim + 1)) {
        wanted w = {dim, desc->dtype == PTXPACK_BF16};
        char   why[ATTENTION_LINE];
        *row = ptxpack_variant_choose("attention", caps, row_suits, &w, why, sizeof why);
        if (*row != NULL)
            return PTXPACK_OK;
        if (first)
            memcpy(reason, why, sizeof reason);
        first = false;
    }
    return ptxpack_fail(handle, PTXPACK_E_UNSUPPORTED, "no attention kernel for dtype %s, head_dim %d: %s",
                        ptxpack_dtype_name(desc->dtype), (int)desc->head_dim, reason);
}

/* A row that the caller named must cover the problem and run here. */
static ptxpack_status check_row(ptxpack *handle, const ptxpack_attention_desc *desc,
                                const ptxpack_variant *row)
{
    char why[ATTENTION_LINE];
    if (strcmp(row->op, "attention") != 0 ||
        ptxpack_variant_parameter(row, "HEAD_DIM", 0) < desc->head_dim ||
        (desc->dtype == PTXPACK_BF16 && (row->flags & PTXPACK_VARIANT_NO_BF16)))
        return ptxpack_fail(handle, PTXPACK_E_UNSUPPORTED, "row %s does not cover dtype %s, head_dim %d",
                            row->id, ptxpack_dtype_name(desc->dtype), (int)desc->head_dim);
    if (ptxpack_variant_refusal(row, &ptxpack_device(handle)->caps, why, sizeof why) != NULL)
        return ptxpack_fail(handle, PTXPACK_E_UNSUPPORTED, "row %s %s", row->id, why);
    return PTXPACK_OK;
}

/* ---- the plan ----------------------------------------------------------------------------------- */
static void fill_arguments(attention_arguments *a, const ptxpack_attention_desc *d,
                           const attention_geometry *g)
{
    enum { ELEMENT = sizeof(uint16_t) };
    const attention_tensor *t = g->tensor;
    *a = (attention_arguments){
        .q_batch = t[TENSOR_Q].batch * ELEMENT,
        .q_row = t[TENSOR_Q].row * ELEMENT,
        .q_head = t[TENSOR_Q].head * ELEMENT,
        .k_batch = t[TENSOR_K].batch * ELEMENT,
        .k_row = t[TENSOR_K].row * ELEMENT,
        .k_head = t[TENSOR_K].head * ELEMENT,
        .v_batch = t[TENSOR_V].batch * ELEMENT,
        .v_row = t[TENSOR_V].row * ELEMENT,
        .v_head = t[TENSOR_V].head * ELEMENT,
        .o_batch = t[TENSOR_O].batch * ELEMENT,
        .o_row = t[TENSOR_O].row * ELEMENT,
        .o_head = t[TENSOR_O].head * ELEMENT,
        .seqlen_q = d->seqlen_q,
        .seqlen_kv = d->seqlen_kv,
        .heads_q = d->heads_q,
        .heads_per_kv = d->heads_q / d->heads_kv,
        .head_dim = d->head_dim,
        .causal_offset = g->causal_offset,
        .scale_log2 = (float)(g->scale * 1.4426950408889634),
    };
}

/* What the kernel's 32-bit registers hold: byte strides of rows, and row numbers up to a block beyond. */
static ptxpack_status check_ranges(ptxpack *handle, const ptxpack_attention_desc *d,
                                   const attention_geometry *g)
{
    enum { ROW_LIMIT = INT32_MAX - 4096 };
    for (int i = 0; i < TENSOR_COUNT; i++)
        if (g->tensor[i].row > INT32_MAX / 2)
            return ptxpack_fail(handle, PTXPACK_E_UNSUPPORTED, "%s.row: stride %lld exceeds %d elements",
                                attention_tensor_names[i], (long long)g->tensor[i].row, INT32_MAX / 2);
    if (d->seqlen_kv > ROW_LIMIT || d->seqlen_q > ROW_LIMIT)
        return ptxpack_fail(handle, PTXPACK_E_UNSUPPORTED, "%s exceeds %d",
                            d->seqlen_q > ROW_LIMIT ? "seqlen_q" : "seqlen_kv", (int)ROW_LIMIT);
    return PTXPACK_OK;
}

/* The order of the tiles, and the grid: x = all tiles of all heads. */
static ptxpack_status fill_grid(ptxpack *handle, const ptxpack_attention_desc *d, int64_t block_m,
                                attention_arguments *a, uint32_t grid[3])
{
    int64_t heads = (int64_t)d->batch * d->heads_q;
    int64_t tiles = (d->seqlen_q + block_m - 1) / block_m;
    if (heads > INT32_MAX)
        return ptxpack_fail(handle, PTXPACK_E_UNSUPPORTED, "batch %d times heads_q %d exceeds %d",
                            (int)d->batch, (int)d->heads_q, INT32_MAX);
    if (tiles > INT32_MAX / heads)
        return ptxpack_fail(handle, PTXPACK_E_UNSUPPORTED,
                            "seqlen_q %d: %lld tiles of %lld rows in each of %lld heads exceed %d",
                            (int)d->seqlen_q, (long long)tiles, (long long)block_m, (long long)heads,
                            INT32_MAX);
    int64_t kv_heads = SECTION_BYTES / (2 * (int64_t)sizeof(uint16_t) * d->seqlen_kv * d->head_dim);
    int64_t section = (kv_heads > 0 ? kv_heads : 1) * (d->heads_q / d->heads_kv);
    a->tiles_q = (int32_t)tiles;
    a->heads_total = (int32_t)heads;
    a->section_heads = (int32_t)(section < heads ? section : heads);
    grid[0] = (uint32_t)(heads * tiles);
    grid[1] = grid[2] = 1;
    return PTXPACK_OK;
}

static ptxpack_status load_kernel(ptxpack *handle, const ptxpack_variant *row,
                                  const ptxpack_attention_desc *desc,
                                  const attention_geometry *geometry, const attention_layout *layout,
                                  ptxpack_kernel **kernel)
{
    ptxpack_symbol  symbols[PTXPACK_INSTANCE_SYMBOLS];
    attention_build build = {desc->dtype, geometry->causal, desc->head_dim < layout->head_dim};
    size_t          count = ptxpack_attention_symbols(layout, build, symbols);
    if (count == 0)
        return ptxpack_fail(handle, PTXPACK_E_UNSUPPORTED, "kernels.def, row %s: %s", row->id,
                            ptxpack_detail(NULL));
    return ptxpack_kernel_load(handle, row, symbols, count, kernel);
}

/* Grid, arguments and kernel of a plan whose geometry is known. */
static ptxpack_status fill_plan(ptxpack *handle, const ptxpack_variant *row,
                                const ptxpack_attention_desc *desc,
                                ptxpack_attention_plan *plan)
{
    attention_layout       *own;
    const attention_layout *layout = ptxpack_attention_layout_of(row, &own);
    if (layout == NULL || layout->status != PTXPACK_OK) {
        ptxpack_status status = layout == NULL ? PTXPACK_E_MEMORY : layout->status;
        free(own);
        return ptxpack_fail(handle, status, "%s", ptxpack_detail(NULL));
    }
    fill_arguments(&plan->arguments, desc, &plan->geometry);
    ptxpack_status status = check_ranges(handle, desc, &plan->geometry);
    if (status == PTXPACK_OK)
        status = fill_grid(handle, desc, layout->block_m, &plan->arguments, plan->grid);
    if (status == PTXPACK_OK)
        status = load_kernel(handle, row, desc, &plan->geometry, layout, &plan->kernel);
    free(own);
    return status;
}

ptxpack_status ptxpack_attention_plan_row(ptxpack *handle, const ptxpack_attention_desc *desc,
                                          const ptxpack_variant *row, ptxpack_attention_plan **plan)
{
    ptxpack_attention_plan made = {.handle = handle};
    char                   line[ATTENTION_LINE];
    if (plan == NULL)
        return ptxpack_fail(handle, PTXPACK_E_ARG, "plan is NULL");
    *plan = NULL;
    ptxpack_status status = ptxpack_attention_resolve(desc, &made.geometry, line);
    if (status != PTXPACK_OK)
        return ptxpack_fail(handle, status, "%s", line);
    if (handle == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "handle is NULL");
    status = row != NULL ? check_row(handle, desc, row)
                         : ptxpack_attention_choose(handle, &ptxpack_device(handle)->caps, desc, &row);
    if (status == PTXPACK_OK)
        status = fill_plan(handle, row, desc, &made);
    if (status != PTXPACK_OK)
        return status;
    *plan = (ptxpack_attention_plan *)malloc(sizeof **plan);
    if (*plan == NULL)
        return ptxpack_fail(handle, PTXPACK_E_MEMORY, "no memory for a plan");
    **plan = made;
    return PTXPACK_OK;
}

ptxpack_status ptxpack_attention_plan_create(ptxpack *handle, const ptxpack_attention_desc *desc,
                                             ptxpack_attention_plan **plan)
{
    return ptxpack_attention_plan_row(handle, desc, NULL, plan);
}

void ptxpack_attention_plan_free(ptxpack_attention_plan *plan)
{
    free(plan);
}

size_t ptxpack_attention_workspace(const ptxpack_attention_plan *plan)
{
    (void)plan; /* no kernel so far wants scratch */
    return 0;
}

const ptxpack_kernel *ptxpack_attention_kernel(const ptxpack_attention_plan *plan)
{
    return plan != NULL ? plan->kernel : NULL;
}

void ptxpack_attention_fill(const ptxpack_attention_plan *plan, const ptxpack_attention_buffers *buffers,
                            attention_arguments *arguments, uint32_t grid[3])
{
    *arguments = plan->arguments;
    arguments->q = buffers->q;
    arguments->k = buffers->k;
    arguments->v = buffers->v;
    arguments->o = buffers->o;
    arguments->lse = buffers->lse;
    memcpy(grid, plan->grid, sizeof plan->grid);
}

ptxpack_status ptxpack_attention_launch(const ptxpack_attention_plan *plan,
                                        const ptxpack_attention_buffers *buffers,
                                        struct CUstream_st *stream)
{
    char line[ATTENTION_LINE];
    if (plan == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "plan is NULL");
    ptxpack_status status = ptxpack_attention_check_buffers(&plan->geometry, buffers, line);
    if (status != PTXPACK_OK)
        return ptxpack_fail(plan->handle, status, "%s", line);
    attention_arguments arguments;
    uint32_t            grid[3];
    ptxpack_attention_fill(plan, buffers, &arguments, grid);
    return ptxpack_kernel_launch(plan->kernel, grid, &arguments, stream);
}

/* ---- figures ------------------------------------------------------------------------------------ */
/* The keys that rows [0, seqlen_q) may attend to, summed: row i sees min(seqlen_kv, i + 1 + offset). */
static double kept_pairs(const ptxpack_attention_desc *d, const attention_geometry *g)
{
    double rows = d->seqlen_q, keys = d->seqlen_kv;
    if (!g->causal)
        return rows * keys;
    double first = g->causal_offset < 0 ? -(double)g->causal_offset : 0; /* first row that sees a key */
    double full = keys - 1 - g->causal_offset;                           /* first row that sees all   */
    double end = full < rows ? full : rows;                              /* of the rows that see some */
    if (first >= rows)
        return 0;
    double growing = end > first ? end - first : 0;
    double lowest = first + 1 + g->causal_offset, highest = end + g->causal_offset;
    return growing * (lowest + highest) / 2 + (rows - first - growing) * keys;
}

double ptxpack_attention_flops(const ptxpack_attention_desc *desc)
{
    attention_geometry geometry;
    char               line[ATTENTION_LINE];
    if (ptxpack_attention_resolve(desc, &geometry, line) != PTXPACK_OK)
        return 0;
    return 4.0 * desc->head_dim * desc->batch * desc->heads_q * kept_pairs(desc, &geometry);
}

double ptxpack_attention_bytes(const ptxpack_attention_desc *desc)
{
    attention_geometry geometry;
    char               line[ATTENTION_LINE];
    if (ptxpack_attention_resolve(desc, &geometry, line) != PTXPACK_OK)
        return 0;
    double q = (double)desc->seqlen_q * desc->heads_q, kv = (double)desc->seqlen_kv * desc->heads_kv;
    return (double)desc->batch * (2.0 * desc->head_dim * (2 * q + 2 * kv) + sizeof(float) * q);
}
