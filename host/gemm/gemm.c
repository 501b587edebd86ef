/* gemm.c - GEMM as an operation of the spine, and its public calls. */
#include "gemm.h"

#include <stdio.h>

#include "host/plan/memory.h"
#include "host/plan/calls.h"
#include "op.h"

void gemm_build_symbols(const ptxpack_gemm_desc *d, bool ragged, symbol_list *list)
{
    symbol_add(list, "BF16", d->dtype == PTXPACK_BF16);
    symbol_add(list, "A_COLUMN", d->order_a == PTXPACK_COLUMN_MAJOR);
    symbol_add(list, "B_COLUMN", d->order_b == PTXPACK_COLUMN_MAJOR);
    symbol_add(list, "HAS_C", d->has_c);
    symbol_add(list, "HAS_BIAS", d->has_bias);
    symbol_add(list, "ACTIVATION", d->activation);
    symbol_add(list, "RAGGED", ragged);
}

/* ---- the operation ------------------------------------------------------------------------------------ */
static ptxpack_status resolve(const void *desc, void *geometry, char line[PLAN_LINE])
{
    return ptxpack_gemm_resolve((const ptxpack_gemm_desc *)desc, (gemm_geometry *)geometry, line);
}

static bool covers(const ptxpack_variant *row, const void *desc)
{
    return plan_row_takes(row, ((const ptxpack_gemm_desc *)desc)->dtype);
}

static void describe(const void *desc, char *text, size_t size)
{
    snprintf(text, size, "dtype %s", ptxpack_dtype_name(((const ptxpack_gemm_desc *)desc)->dtype));
}

static ptxpack_status check(const plan_head *plan, const void *buffers, char line[PLAN_LINE])
{
    const ptxpack_gemm_buffers *b = (const ptxpack_gemm_buffers *)buffers;
    const memory_range workspace = {"workspace", plan->workspace > 0 ? b->workspace : 0, plan->workspace, 16,
                                    plan->workspace == 0};
    ptxpack_status     status = memory_check(&workspace, line);
    return status == PTXPACK_OK
               ? ptxpack_gemm_check_buffers(&((const ptxpack_gemm_plan *)plan)->geometry, b, line)
               : status;
}

/* The bits of the index, from the lowest: A column-major, B, C, bias, two of the activation, n no multiple
 * of 8.  The last ones are those of SwiGLU, A, B and bias; a row without it has the plain ones again, and
 * those of few rows have one order, and n a multiple of 8. */
enum { PLAIN_BUILDS = 128, SWIGLU_BUILDS = 8 };
static void build(const ptxpack_variant *row, ptxpack_dtype dtype, unsigned index, bool corner, void *out,
                  char *name, size_t size)
{
    static const char *const activations[] = {"", " relu", " gelu", " silu", " swiglu"};
    const bool               gates = plan_method_of(row) != &gemm_wgmma || gemm_wgmma_gates(row);
    const bool               swiglu = index >= PLAIN_BUILDS && gates, bias = (index & (swiglu ? 4 : 8)) != 0;
    const bool               rows = plan_method_of(row) == &gemm_rows || plan_method_of(row) == &gemm_rows_tma;
    const unsigned           plain = index >= PLAIN_BUILDS ? index & 3 : index;
    const unsigned           rest = rows ? (plain & 0x3c) | 2 : plain;
    const ptxpack_gemm_desc  d = {.size = sizeof d,
                                  .dtype = dtype,
                                  .m = 1024,
                                  .n = rest >> 6 != 0 ? 1020 : 1024,
                                  .k = 1024,
                                  .order_a = (ptxpack_order)(rest & 1),
                                  .order_b = (ptxpack_order)(rest >> 1 & 1),
                                  .has_c = (rest & 4) != 0,
                                  .has_bias = bias,
                                  .stride_b = 1024,
                                  .stride_c = 1024,
                                  .stride_d = 1024,
                                  .activation = swiglu ? PTXPACK_ACTIVATION_SWIGLU
                                                       : (ptxpack_activation)(rest >> 4 & 3)};
    const char               a = d.order_a == PTXPACK_COLUMN_MAJOR ? 'c' : 'r',
               b = d.order_b == PTXPACK_COLUMN_MAJOR ? 'c' : 'r';
    if (corner)
        snprintf(name, size, " %c%c%s", a, b,
                 d.has_c   ? " gelu(+ C + bias), ragged"
                 : !swiglu ? ""
                 : bias    ? " swiglu(+ bias)"
                           : " swiglu");
    else
        snprintf(name, size, " %c%c%s%s%s%s", a, b, d.has_c ? " + C" : "", d.has_bias ? " + bias" : "",
                 activations[d.activation], rest >> 6 != 0 ? " ragged" : "");
    *(ptxpack_gemm_desc *)out = d;
}

/* What comes with a launch; before `launch` was there it ended there. */
static const plan_struct buffers_struct = {
    .name = "buffers",
    .type = "ptxpack_gemm_buffers",
    .size = sizeof(ptxpack_gemm_buffers),
    .older = {offsetof(ptxpack_gemm_buffers, launch)},
    .launch_at = offsetof(ptxpack_gemm_buffers, launch),
    .launch_bits = PTXPACK_LAUNCH_OVERLAP | PTXPACK_LAUNCH_CONSTANT_B,
};
static const plan_method *const methods[] = {&gemm_rows_tma, &gemm_rows, &gemm_wgmma, &gemm_mma};
_Static_assert(sizeof(gemm_arguments) <= PLAN_ARGUMENT_BYTES, "plan_launch has room for the arguments");
_Static_assert(sizeof(gemm_geometry) <= sizeof(plan_room), "plan_room has room for the geometry");
_Static_assert(sizeof(ptxpack_gemm_desc) <= sizeof(plan_room), "plan_room has room for the descriptor");
const plan_op gemm_op = {
    .name = "gemm",
    .methods = methods,
    .method_count = sizeof methods / sizeof methods[0],
    .by_method = true,
    .margin = 1,
    .desc_bytes = sizeof(ptxpack_gemm_desc),
    .plan_bytes = sizeof(ptxpack_gemm_plan),
    .geometry_at = offsetof(ptxpack_gemm_plan, geometry),
    .arguments_at = offsetof(ptxpack_gemm_plan, arguments),
    .resolve = resolve,
    .covers = covers,
    .describe = describe,
    .buffers = &buffers_struct,
    .check = check,
    .builds = PLAIN_BUILDS + SWIGLU_BUILDS,
    .build = build,
};

/* ---- the public calls --------------------------------------------------------------------------------- */
PLAN_CALLS(ptxpack_gemm, gemm_op, ptxpack_gemm_launch)

size_t ptxpack_gemm_workspace(const ptxpack_gemm_plan *plan)
{
    return plan != NULL ? (size_t)plan->head.workspace : 0;
}
