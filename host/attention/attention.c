/* attention.c - a checked descriptor, the kernel for it, and its launch. */
#include "attention.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cost.h"
#include "kernel.h"
#include "plan.h"

/* Tiles run in the order of their number.  The heads of a section are worked on together, longest tiles
 * first, and the keys and values of a section stay in the L2 cache: 16 MB suits caches from 24 MB on. */
enum { SECTION_BYTES = 16 << 20 };

/* ---- the kernels -------------------------------------------------------------------------------- */
const attention_kernel *attention_kernel_of(const ptxpack_variant *row)
{
    static const attention_kernel *const kernels[] = {&attention_mma, &attention_wgmma};
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        if (strcmp(row->file, kernels[i]->file) == 0)
            return kernels[i];
    return NULL;
}

/* Row and key numbers, up to a block beyond the last, are 32-bit registers. */
static ptxpack_status check_lengths(const ptxpack_attention_desc *d, const attention_geometry *g, char *line)
{
    enum { ROW_LIMIT = INT32_MAX - 4096 };
    if (d->seqlen_kv > ROW_LIMIT || d->seqlen_q > ROW_LIMIT)
        return attention_refuse(line, PTXPACK_E_UNSUPPORTED, "%s exceeds %d",
                                d->seqlen_q > ROW_LIMIT ? "seqlen_q" : "seqlen_kv", (int)ROW_LIMIT);
    int64_t beyond = g->limited_right ? g->right_offset : g->limited_left ? d->seqlen_kv : 0;
    if (d->seqlen_q + beyond > ROW_LIMIT)
        return attention_refuse(line, PTXPACK_E_UNSUPPORTED,
                                "window: the last of seqlen_q %d rows reaches %lld keys further, beyond %d",
                                (int)d->seqlen_q, (long long)beyond, (int)ROW_LIMIT);
    return PTXPACK_OK;
}

ptxpack_status attention_count_tiles(const ptxpack_attention_desc *d, const attention_geometry *g,
                                     int64_t block_m, attention_tiles *out, char line[ATTENTION_LINE])
{
    int64_t        heads = (int64_t)d->batch * d->heads_q;
    int64_t        tiles = (d->seqlen_q + block_m - 1) / block_m;
    ptxpack_status status = check_lengths(d, g, line);
    if (status != PTXPACK_OK)
        return status;
    if (heads > INT32_MAX)
        return attention_refuse(line, PTXPACK_E_UNSUPPORTED, "batch %d times heads_q %d exceeds %d",
                                (int)d->batch, (int)d->heads_q, INT32_MAX);
    if (tiles > INT32_MAX / heads)
        return attention_refuse(line, PTXPACK_E_UNSUPPORTED,
                                "seqlen_q %d: %lld tiles of %lld rows in each of %lld heads exceed %d",
                                (int)d->seqlen_q, (long long)tiles, (long long)block_m, (long long)heads,
                                INT32_MAX);
    int64_t kv_heads = SECTION_BYTES /
                       (2 * (int64_t)ptxpack_dtype_bytes(d->dtype) * d->seqlen_kv * d->head_dim);
    int64_t section = (kv_heads > 0 ? kv_heads : 1) * (d->heads_q / d->heads_kv);
    *out = (attention_tiles){.tiles_q = (int32_t)tiles,
                             .heads_total = (int32_t)heads,
                             .tiles_total = (int32_t)(heads * tiles),
                             .section_heads = (int32_t)(section < heads ? section : heads)};
    return PTXPACK_OK;
}

/* ---- the choice --------------------------------------------------------------------------------- */
static bool covers(const ptxpack_variant *row, const ptxpack_attention_desc *desc)
{
    return attention_kernel_of(row) != NULL &&
           ptxpack_variant_parameter(row, "HEAD_DIM", 0) >= desc->head_dim &&
           !(desc->dtype == PTXPACK_BF16 && (row->flags & PTXPACK_VARIANT_NO_BF16) != 0) &&
           (ptxpack_variant_parameter(row, "FP8", 0) != 0) == (desc->dtype == PTXPACK_E4M3);
}

/* What there is to choose for. */
typedef struct request {
    const ptxpack                *handle;
    const ptxpack_device_caps    *caps;
    const ptxpack_attention_desc *desc;
    attention_geometry            geometry;
} request;

/* NULL: the row can be taken. */
static const char *row_refusal(const request *q, const ptxpack_variant *row, char line[ATTENTION_LINE])
{
    if (!covers(row, q->desc)) {
        snprintf(line, ATTENTION_LINE, "does not cover dtype %s, head_dim %d",
                 ptxpack_dtype_name(q->desc->dtype), (int)q->desc->head_dim);
        return line;
    }
    const char *why = ptxpack_variant_refusal(row, q->caps, line, ATTENTION_LINE);
    return why != NULL
               ? why
               : attention_kernel_of(row)->refusal(q->handle, row, q->caps, q->desc, &q->geometry, line);
}

const char *ptxpack_attention_row_refusal(const ptxpack *handle, const ptxpack_device_caps *caps,
                                          const ptxpack_attention_desc *desc, const ptxpack_variant *row,
                                          char line[ATTENTION_LINE])
{
    request q = {handle, caps, desc, {.scale = 0}};
    if (ptxpack_attention_resolve(desc, &q.geometry, line) != PTXPACK_OK)
        return line;
    return row_refusal(&q, row, line);
}

/* Of an ordered kernel only the first row that can be taken counts, and those of a smaller HEAD_DIM behind
 * it. */
static void survey_rows(const request *q, attention_survey *out)
{
    char                   line[ATTENTION_LINE];
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    int64_t                least = INT64_MAX; /* HEAD_DIM of an ordered kernel's rows so far */
    double                 best = 0;
    *out = (attention_survey){.count = 0};
    for (size_t i = 0; i < count && out->count < ATTENTION_CANDIDATES; i++) {
        attention_candidate *c = &out->candidate[out->count];
        int64_t              dim = ptxpack_variant_parameter(&rows[i], "HEAD_DIM", 0);
        if (!covers(&rows[i], q->desc))
            continue;
        out->count++;
        bool ordered = attention_kernel_of(&rows[i])->ordered;
        *c = (attention_candidate){.row = &rows[i], .refused = row_refusal(q, &rows[i], line) != NULL};
        c->behind = !c->refused && ordered && dim >= least;
        if (c->refused || c->behind)
            continue;
        least = ordered ? dim : least;
        c->us = attention_cost(&rows[i], q->desc, &q->geometry, q->caps, ptxpack_device(q->handle)->sm_count);
        if (out->chosen != NULL && !attention_clearly_faster(c->us, best))
            continue;
        out->chosen = &rows[i];
        best = c->us;
    }
}

ptxpack_status ptxpack_attention_survey(const ptxpack *handle, const ptxpack_device_caps *caps,
                                        const ptxpack_attention_desc *desc, attention_survey *out)
{
    request        q = {handle, caps, desc, {.scale = 0}};
    char           line[ATTENTION_LINE];
    ptxpack_status status = ptxpack_attention_resolve(desc, &q.geometry, line);
    if (status != PTXPACK_OK)
        return ptxpack_fail(handle, status, "%s", line);
    survey_rows(&q, out);
    return PTXPACK_OK;
}

/* Of the rows that cover the problem and cannot be taken, why not: what is wrong with the problem before what
 * is wrong with the device, the smallest HEAD_DIM first. */
static ptxpack_status no_row(ptxpack *handle, const request *q)
{
    char                   line[ATTENTION_LINE], device[ATTENTION_LINE], nearest[ATTENTION_LINE + 64];
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    int64_t                best_dim = INT64_MAX;
    bool                   best_runs = false;
    snprintf(nearest, sizeof nearest, "no row covers it");
    for (size_t i = 0; i < count; i++) {
        int64_t dim = ptxpack_variant_parameter(&rows[i], "HEAD_DIM", 0);
        if (!covers(&rows[i], q->desc))
            continue;
        bool runs = ptxpack_variant_refusal(&rows[i], q->caps, device, sizeof device) == NULL;
        if (runs == best_runs ? dim >= best_dim : best_runs)
            continue;
        best_dim = dim;
        best_runs = runs;
        snprintf(nearest, sizeof nearest, "%s %s", rows[i].id, row_refusal(q, &rows[i], line));
    }
    return ptxpack_fail(handle, PTXPACK_E_UNSUPPORTED, "no attention kernel for dtype %s, head_dim %d: %s",
                        ptxpack_dtype_name(q->desc->dtype), (int)q->desc->head_dim, nearest);
}

ptxpack_status ptxpack_attention_choose(ptxpack *handle, const ptxpack_device_caps *caps,
                                        const ptxpack_attention_desc *desc, const ptxpack_variant **row)
{
    request          q = {handle, caps, desc, {.scale = 0}};
    char             line[ATTENTION_LINE];
    attention_survey survey;
    ptxpack_status   status = ptxpack_attention_resolve(desc, &q.geometry, line);
    *row = NULL;
    if (status != PTXPACK_OK)
        return ptxpack_fail(handle, status, "%s", line);
    survey_rows(&q, &survey);
    *row = survey.chosen;
    return *row != NULL ? PTXPACK_OK : no_row(handle, &q);
}

/* ---- the plan ----------------------------------------------------------------------------------- */
static ptxpack_status load_kernel(ptxpack *handle, const ptxpack_variant *row,
                                  const ptxpack_attention_desc *desc, ptxpack_attention_plan *plan)
{
    ptxpack_symbol symbols[PTXPACK_INSTANCE_SYMBOLS];
    size_t         count = plan->methods->symbols(row, desc, &plan->geometry, symbols);
    if (count == 0)
        return ptxpack_fail(handle, PTXPACK_E_UNSUPPORTED, "%s", ptxpack_detail(NULL));
    return ptxpack_kernel_load(handle, row, symbols, count, &plan->kernel);
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
    const ptxpack_device_caps *caps = &ptxpack_device(handle)->caps;
    if (row == NULL)
        status = ptxpack_attention_choose(handle, caps, desc, &row);
    else if (ptxpack_attention_row_refusal(handle, caps, desc, row, line) != NULL)
        status = ptxpack_fail(handle, PTXPACK_E_UNSUPPORTED, "row %s %s", row->id, line);
    if (status != PTXPACK_OK)
        return status;
    made.methods = attention_kernel_of(row);
    status = made.methods->fill(handle, row, desc, &made);
    if (status == PTXPACK_OK)
        status = load_kernel(handle, row, desc, &made);
    if (status != PTXPACK_OK)
        return status;
    *plan = (ptxpack_attention_plan *)aligned_alloc(_Alignof(ptxpack_attention_plan), sizeof **plan);
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

void ptxpack_attention_plan_free(ptxpack_attention_plan *plan) { free(plan); }

size_t ptxpack_attention_workspace(const ptxpack_attention_plan *plan)
{
    return plan != NULL ? (size_t)plan->geometry.workspace_bytes : 0;
}

const ptxpack_kernel *ptxpack_attention_kernel(const ptxpack_attention_plan *plan)
{
    return plan != NULL ? plan->kernel : NULL;
}

ptxpack_status ptxpack_attention_fill(const ptxpack_attention_plan    *plan,
                                      const ptxpack_attention_buffers *buffers,
                                      attention_any_arguments *arguments, uint32_t grid[3])
{
    memcpy(grid, plan->grid, sizeof plan->grid);
    return plan->methods->address(plan, buffers, arguments);
}

ptxpack_status ptxpack_attention_launch(const ptxpack_attention_plan    *plan,
                                        const ptxpack_attention_buffers *buffers, struct CUstream_st *stream)
{
    char line[ATTENTION_LINE];
    if (plan == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "plan is NULL");
    ptxpack_status status = ptxpack_attention_check_buffers(&plan->geometry, buffers, line);
    if (status != PTXPACK_OK)
        return ptxpack_fail(plan->handle, status, "%s", line);
    attention_any_arguments arguments;
    status = plan->methods->address(plan, buffers, &arguments);
    return status == PTXPACK_OK ? ptxpack_kernel_launch(plan->kernel, plan->grid, &arguments, stream) : status;
}

/* ---- figures ------------------------------------------------------------------------------------ */
/* The sum of min(max(row + offset, 0), keys) over rows [0, rows). */
static double ramp(double rows, double keys, double offset)
{
    double first = offset > 0 ? 0 : -offset < rows ? -offset : rows; /* rows before it add nothing   */
    double full = keys - offset < rows ? keys - offset : rows;       /* rows from it on add all keys */
    double end = full > first ? full : first;
    return (end - first) * (first + end - 1 + 2 * offset) / 2 + (rows - end) * keys;
}

/* The keys that rows [0, seqlen_q) may attend to, summed: those up to the right limit less those before the
 * left one, which is never beyond it. */
static double kept_pairs(const ptxpack_attention_desc *d, const attention_geometry *g)
{
    double rows = d->seqlen_q, keys = d->seqlen_kv;
    double upto = g->limited_right ? ramp(rows, keys, g->right_offset + 1.0) : rows * keys;
    return upto - (g->limited_left ? ramp(rows, keys, g->left_offset) : 0);
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
    double in = (double)ptxpack_dtype_bytes(desc->dtype);
    double out = (double)ptxpack_dtype_bytes(attention_tensor_type(desc, TENSOR_O));
    return (double)desc->batch * (desc->head_dim * (in * (q + 2 * kv) + out * q) + sizeof(float) * q) +
           3.0 * (double)geometry.descale_bytes;
}
