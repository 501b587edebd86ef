/* gemm.c - a checked descriptor, the kernel for it, and its launch. */
#include "gemm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

/* ---- the kernels -------------------------------------------------------------------------------------- */
/* The first that can take a problem does. */
static const gemm_kernel *const kernels[] = {&gemm_wgmma, &gemm_mma};
enum { KERNELS = sizeof kernels / sizeof kernels[0] };

const gemm_kernel *gemm_kernel_of(const ptxpack_variant *row)
{
    for (size_t i = 0; i < KERNELS; i++)
        if (strcmp(row->file, kernels[i]->file) == 0)
            return kernels[i];
    return NULL;
}

/* ---- builds ------------------------------------------------------------------------------------------- */
gemm_build ptxpack_gemm_build(const ptxpack_gemm_desc *d)
{
    return (gemm_build){.dtype = d->dtype,
                        .a_column = d->order_a == PTXPACK_COLUMN_MAJOR,
                        .b_column = d->order_b == PTXPACK_COLUMN_MAJOR,
                        .has_c = d->has_c,
                        .has_bias = d->has_bias,
                        .ragged = d->n % 8 != 0,
                        .activation = d->activation};
}

size_t ptxpack_gemm_build_symbols(gemm_build build, ptxpack_symbol symbols[GEMM_BUILD_SYMBOLS])
{
    /* clang-format off */
    const ptxpack_symbol all[GEMM_BUILD_SYMBOLS] = {
        {"BF16", build.dtype == PTXPACK_BF16}, {"A_COLUMN", build.a_column}, {"B_COLUMN", build.b_column},
        {"HAS_C", build.has_c},                {"HAS_BIAS", build.has_bias}, {"ACTIVATION", build.activation},
        {"RAGGED", build.ragged},
    };
    /* clang-format on */
    memcpy(symbols, all, sizeof all);
    return GEMM_BUILD_SYMBOLS;
}

enum { ORDERS = 4, EPILOGUES = 2 };

size_t ptxpack_gemm_instances(const ptxpack_variant *row)
{
    size_t types = (row->flags & PTXPACK_VARIANT_NO_BF16) != 0 ? 1 : 2;
    return gemm_kernel_of(row) != NULL ? types * ORDERS * EPILOGUES : 0;
}

void ptxpack_gemm_instance(const ptxpack_variant *row, size_t index, ptxpack_instance *out)
{
    bool             full = index % EPILOGUES != 0;
    size_t           order = index / EPILOGUES % ORDERS;
    const gemm_build build = {.dtype = index / EPILOGUES / ORDERS != 0 ? PTXPACK_BF16 : PTXPACK_F16,
                              .a_column = (order & 1) != 0,
                              .b_column = (order & 2) != 0,
                              .has_c = full,
                              .has_bias = full,
                              .ragged = full,
                              .activation = full ? PTXPACK_ACTIVATION_GELU : PTXPACK_ACTIVATION_NONE};
    snprintf(out->name, sizeof out->name, "%s %c%c%s", ptxpack_dtype_name(build.dtype),
             build.a_column ? 'c' : 'r', build.b_column ? 'c' : 'r', full ? " gelu(+ C + bias), ragged" : "");
    out->symbol_count = gemm_kernel_of(row)->symbols(row, build, out->symbols);
}

/* ---- the choice --------------------------------------------------------------------------------------- */
/* What there is to choose for. */
typedef struct request {
    const ptxpack           *handle;
    const ptxpack_gemm_desc *desc;
    gemm_geometry            geometry;
} request;

ptxpack_device_caps gemm_caps(const ptxpack *handle)
{
    ptxpack_device_caps caps = ptxpack_device(handle)->caps;
    if (caps.isa == 0 && ptxpack_driver_table(handle) == NULL)
        caps.isa = 90;
    return caps;
}

/* NULL: the row can be taken. */
static const char *refusal_of(const request *q, const ptxpack_variant *row, char line[GEMM_LINE])
{
    if (gemm_kernel_of(row) == NULL ||
        (q->desc->dtype == PTXPACK_BF16 && (row->flags & PTXPACK_VARIANT_NO_BF16) != 0)) {
        snprintf(line, GEMM_LINE, "does not cover dtype %s", ptxpack_dtype_name(q->desc->dtype));
        return line;
    }
    const ptxpack_device_caps caps = gemm_caps(q->handle);
    const char               *why = ptxpack_variant_refusal(row, &caps, line, GEMM_LINE);
    return why != NULL ? why : gemm_kernel_of(row)->refusal(q->handle, row, q->desc, &q->geometry, line);
}

const char *ptxpack_gemm_row_refusal(const ptxpack *handle, const ptxpack_gemm_desc *desc,
                                     const ptxpack_variant *row, char line[GEMM_WHY])
{
    request q = {.handle = handle, .desc = desc};
    if (ptxpack_gemm_resolve(desc, &q.geometry, line) != PTXPACK_OK)
        return line;
    return refusal_of(&q, row, line);
}

/* The cheapest row of a kernel that can be taken.  NULL: `line`, where it is still empty, says why the first
 * one cannot. */
static const ptxpack_variant *cheapest(const request *q, const gemm_kernel *kernel, char line[GEMM_WHY + 64])
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count), *best = NULL;
    double                 least = 0;
    for (size_t i = 0; i < count; i++) {
        char why[GEMM_LINE];
        if (gemm_kernel_of(&rows[i]) != kernel)
            continue;
        if (refusal_of(q, &rows[i], why) != NULL) {
            if (line[0] == '\0')
                snprintf(line, GEMM_WHY + 64, "row %s %s", rows[i].id, why);
            continue;
        }
        double cost = kernel->cost(&rows[i], q->desc, &q->geometry, ptxpack_device(q->handle)->sm_count);
        if (best == NULL || cost < least) {
            best = &rows[i];
            least = cost;
        }
    }
    return best;
}

/* Of the rows that cannot be taken, those of the last kernel are for the most devices: its line is told. */
static ptxpack_status choose(ptxpack *handle, const request *q, const ptxpack_variant **row)
{
    char line[GEMM_WHY + 64] = "";
    for (size_t i = 0; i < KERNELS; i++) {
        line[0] = '\0';
        *row = cheapest(q, kernels[i], line);
        if (*row != NULL)
            return PTXPACK_OK;
    }
    return ptxpack_fail(handle, PTXPACK_E_UNSUPPORTED, "no gemm kernel for dtype %s: %s",
                        ptxpack_dtype_name(q->desc->dtype), line);
}

ptxpack_status ptxpack_gemm_choose(ptxpack *handle, const ptxpack_gemm_desc *desc, const ptxpack_variant **row)
{
    char           line[GEMM_LINE];
    request        q = {.handle = handle, .desc = desc};
    ptxpack_status status = ptxpack_gemm_resolve(desc, &q.geometry, line);
    *row = NULL;
    return status == PTXPACK_OK ? choose(handle, &q, row) : ptxpack_fail(handle, status, "%s", line);
}

/* ---- the plan ----------------------------------------------------------------------------------------- */
static ptxpack_status load_kernel(ptxpack *handle, const ptxpack_variant *row, const ptxpack_gemm_desc *desc,
                                  ptxpack_gemm_plan *plan)
{
    ptxpack_symbol symbols[PTXPACK_INSTANCE_SYMBOLS];
    size_t         count = plan->methods->symbols(row, ptxpack_gemm_build(desc), symbols);
    if (count == 0)
        return ptxpack_fail(handle, PTXPACK_E_UNSUPPORTED, "%s", ptxpack_detail(NULL));
    return ptxpack_kernel_load(handle, row, symbols, count, &plan->kernel);
}

/* All but the memory for it. */
static ptxpack_status make_plan(ptxpack *handle, const ptxpack_gemm_desc *desc, const ptxpack_variant *row,
                                ptxpack_gemm_plan *made)
{
    char           line[GEMM_LINE];
    request        q = {.handle = handle, .desc = desc};
    ptxpack_status status = ptxpack_gemm_resolve(desc, &q.geometry, line);
    if (status != PTXPACK_OK)
        return ptxpack_fail(handle, status, "%s", line);
    if (handle == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "handle is NULL");
    if (row == NULL)
        status = choose(handle, &q, &row);
    else if (refusal_of(&q, row, line) != NULL)
        status = ptxpack_fail(handle, PTXPACK_E_UNSUPPORTED, "row %s %s", row->id, line);
    if (status != PTXPACK_OK)
        return status;
    *made = (ptxpack_gemm_plan){.handle = handle,
                                .methods = gemm_kernel_of(row),
                                .geometry = q.geometry,
                                .has_c = desc->has_c};
    status = made->methods->fill(handle, row, desc, made);
    return status == PTXPACK_OK ? load_kernel(handle, row, desc, made) : status;
}

ptxpack_status ptxpack_gemm_plan_row(ptxpack *handle, const ptxpack_gemm_desc *desc, const ptxpack_variant *row,
                                     ptxpack_gemm_plan **plan)
{
    ptxpack_gemm_plan made;
    if (plan == NULL)
        return ptxpack_fail(handle, PTXPACK_E_ARG, "plan is NULL");
    *plan = NULL;
    ptxpack_status status = make_plan(handle, desc, row, &made);
    if (status != PTXPACK_OK)
        return status;
    *plan = (ptxpack_gemm_plan *)aligned_alloc(_Alignof(ptxpack_gemm_plan), sizeof **plan);
    if (*plan == NULL)
        return ptxpack_fail(handle, PTXPACK_E_MEMORY, "no memory for a plan");
    **plan = made;
    return PTXPACK_OK;
}

ptxpack_status ptxpack_gemm_plan_create(ptxpack *handle, const ptxpack_gemm_desc *desc,
                                        ptxpack_gemm_plan **plan)
{
    return ptxpack_gemm_plan_row(handle, desc, NULL, plan);
}

void ptxpack_gemm_plan_free(ptxpack_gemm_plan *plan) { free(plan); }

size_t ptxpack_gemm_workspace(const ptxpack_gemm_plan *plan)
{
    return plan != NULL ? (size_t)plan->geometry.workspace_bytes : 0;
}

const ptxpack_kernel *ptxpack_gemm_kernel(const ptxpack_gemm_plan *plan)
{
    return plan != NULL ? plan->kernel : NULL;
}

/* ---- the launch --------------------------------------------------------------------------------------- */
ptxpack_status ptxpack_gemm_launch(const ptxpack_gemm_plan *plan, const ptxpack_gemm_buffers *buffers,
                                   struct CUstream_st *stream)
{
    char line[GEMM_LINE];
    if (plan == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "plan is NULL");
    ptxpack_status status = ptxpack_gemm_check_buffers(&plan->geometry, plan->has_c, buffers, line);
    if (status != PTXPACK_OK)
        return ptxpack_fail(plan->handle, status, "%s", line);
    gemm_any_arguments arguments;
    status = plan->methods->address(plan, buffers, &arguments);
    return status == PTXPACK_OK ? ptxpack_kernel_launch(plan->kernel, plan->grid, &arguments, stream) : status;
}
