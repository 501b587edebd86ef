/* gemm.c - GEMM as an operation of the spine, and its public calls. */
#include "gemm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "host/plan/memory.h"
#include "host/plan/quotient.h"
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

/* ---- groups of rows ----------------------------------------------------------------------------------- */
const uint16_t gemm_groups_corners[GEMM_GROUPS_CORNERS] = {2, 42, 134};

/* No more groups than rows have any. */
static double groups_with_rows(int32_t groups, int32_t rows) { return groups < rows ? groups : rows; }

double gemm_groups_most_tiles(int32_t groups, int32_t rows, int64_t height)
{
    const double some = groups_with_rows(groups, rows);
    return some + floor(((double)rows - some) / (double)height);
}

/* On average half of a group's last tile is empty. */
double gemm_groups_usual_tiles(int32_t groups, int32_t rows, int64_t height)
{
    const double some = groups_with_rows(groups, rows), each = (double)rows / some / (double)height;
    return some * (each > 0.5 ? each + 0.5 : 1);
}

gemm_tile_order gemm_order_tiles(int64_t tiles_m, int64_t tiles_n, int64_t group)
{
    const int64_t   last = tiles_m > 0 ? (tiles_m - 1) % group + 1 : 1;
    gemm_tile_order order = {
        .tiles_m = (int32_t)tiles_m,
        .matrix_tiles = (int32_t)(tiles_m * tiles_n),
        .group_m = (int32_t)group,
        .group_tiles = (int32_t)(group * tiles_n),
    };
    quotient_inverse(order.matrix_tiles > 0 ? order.matrix_tiles : 1, &order.matrix_tiles_inverse,
                     &order.matrix_tiles_shift);
    quotient_inverse(order.group_tiles > 0 ? order.group_tiles : 1, &order.group_tiles_inverse,
                     &order.group_tiles_shift);
    quotient_inverse(group, &order.group_m_inverse, &order.group_m_shift);
    quotient_inverse(last, &order.last_m_inverse, &order.last_m_shift);
    return order;
}

/* ---- the operation ------------------------------------------------------------------------------------ */
static ptxpack_status resolve(const void *desc, void *geometry, char line[PLAN_LINE])
{
    return ptxpack_gemm_resolve((const ptxpack_gemm_desc *)desc, (gemm_geometry *)geometry, line);
}

bool gemm_is_of_groups(const ptxpack_variant *row)
{
    const plan_method *method = plan_method_of(row);
    return method == &gemm_wgmma_groups || method == &gemm_mma_groups || method == &gemm_rows_groups;
}

bool gemm_normalises(const ptxpack_variant *row) { return plan_method_of(row) == &gemm_rows_norm; }

bool gemm_takes_b_alone(const ptxpack_variant *row)
{
    const plan_method *method = plan_method_of(row);
    return method == &gemm_rows_e4m3 || method == &gemm_rows_groups;
}

static bool covers(const ptxpack_variant *row, const void *desc)
{
    const ptxpack_gemm_desc *d = (const ptxpack_gemm_desc *)desc;
    return plan_row_takes(row, gemm_type(d, GEMM_A)) && gemm_is_of_groups(row) == (d->groups > 0) &&
           gemm_takes_b_alone(row) == gemm_b_alone(d) && gemm_normalises(row) == d->norm_a;
}

static void describe(const void *desc, char *text, size_t size)
{
    const ptxpack_gemm_desc *d = (const ptxpack_gemm_desc *)desc;
    const ptxpack_dtype      of_b = gemm_type(d, GEMM_B);
    snprintf(text, size, "dtype %s%s%s%s%s", ptxpack_dtype_name(d->dtype),
             of_b == d->dtype  ? ""
             : gemm_b_alone(d) ? ", dtype_b "
                               : ", dtype_ab ",
             of_b == d->dtype ? "" : ptxpack_dtype_name(of_b), d->groups > 0 ? ", groups" : "",
             d->norm_a ? ", norm_a" : "");
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

static const char *const scale_names[] = {"", " scaled lines", " scaled blocks"};
static const char *const activations[] = {"", " relu", " gelu", " silu", " swiglu"};

/* Of e4m3: the index counts f16 and bf16, the scales, C, the bias and the activations; the last ones are those of SwiGLU, and
 * a row without it has the first ones again. */
enum { FP8_PLAIN_BUILDS = 96, FP8_BUILDS = 108 };
static void build_fp8(const ptxpack_variant *row, unsigned index, ptxpack_gemm_desc *d, char *name, size_t size)
{
    const bool     swiglu = index >= FP8_PLAIN_BUILDS && index < FP8_BUILDS && gemm_wgmma_gates(row);
    const unsigned rest = index % FP8_PLAIN_BUILDS / 6;
    *d = (ptxpack_gemm_desc){.size = sizeof *d,
                             .dtype = index % 2 == 0 ? PTXPACK_BF16 : PTXPACK_F16,
                             .m = 1024,
                             .n = 1024,
                             .k = 1024,
                             .order_b = PTXPACK_COLUMN_MAJOR,
                             .has_c = !swiglu && (rest & 2) != 0,
                             .has_bias = (rest & 1) != 0,
                             .activation = swiglu ? PTXPACK_ACTIVATION_SWIGLU : (ptxpack_activation)(rest >> 2),
                             .dtype_ab = PTXPACK_E4M3,
                             .scales = (ptxpack_gemm_scales)(index / 2 % 3)};
    snprintf(name, size, " %s%s%s%s%s", ptxpack_dtype_name(d->dtype), scale_names[d->scales],
             d->has_c ? " + C" : "", d->has_bias ? " + bias" : "", activations[d->activation]);
}

/* The bits of the index, from the lowest: A column-major, B, C, bias, two of the activation, n no multiple
 * of 8.  The last ones are those of SwiGLU, A, B and bias; a row without it has the plain ones again, and
 * those of few rows and of groups have one order, and n a multiple of 8; those of parts have no C; those of wgmma_fit.ptx no C and one order;
 * where B alone is of e4m3, the bits of the orders count its scales. */
enum { PLAIN_BUILDS = 128, SWIGLU_BUILDS = 8, SCALE_KINDS = 3 };
static void build(const ptxpack_variant *row, ptxpack_dtype dtype, unsigned index, bool corner, void *out,
                  char *name, size_t size)
{
    const bool groups = gemm_is_of_groups(row);
    const bool gates = ptxpack_variant_parameter(row, "WARPGROUPS", 0) == 0 || gemm_wgmma_gates(row);
    const bool swiglu = index >= PLAIN_BUILDS && gates, bias = (index & (swiglu ? 4 : 8)) != 0;
    const bool b_alone = gemm_takes_b_alone(row), norm = gemm_normalises(row);
    const bool rows = b_alone || norm || plan_method_of(row) == &gemm_rows ||
                      plan_method_of(row) == &gemm_rows_tma;
    const unsigned          plain = index >= PLAIN_BUILDS ? index & 3 : index;
    const unsigned          taken = plan_method_of(row) == &gemm_wgmma_parts ? plain & ~4U : plain; /* no C */
    const bool              fit = plan_method_of(row) == &gemm_wgmma_fit;
    const unsigned          rest = groups ? (plain & 0x38) | 2
                                   : rows ? (plain & 0x3c) | 2
                                   : fit  ? (plain & 0x78) | 2
                                          : taken;
    const ptxpack_gemm_desc d = {.size = sizeof d,
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
                                                      : (ptxpack_activation)(rest >> 4 & 3),
                                 .scales = (ptxpack_gemm_scales)(b_alone ? index % 4 % SCALE_KINDS : 0),
                                 .groups = groups ? 8 : 0,
                                 .dtype_b = b_alone ? PTXPACK_E4M3 : (ptxpack_dtype)0,
                                 .norm_a = norm,
                                 .norm_eps = norm ? 1e-5f : 0};
    if (dtype == PTXPACK_E4M3) {
        build_fp8(row, index, (ptxpack_gemm_desc *)out, name, size);
        return;
    }
    const char a = d.order_a == PTXPACK_COLUMN_MAJOR ? 'c' : 'r',
               b = d.order_b == PTXPACK_COLUMN_MAJOR ? 'c' : 'r';
    if (corner)
        snprintf(name, size, " %c%c%s%s", a, b, scale_names[d.scales],
                 d.has_c   ? " gelu(+ C + bias), ragged"
                 : !swiglu ? bias ? " gelu(+ bias)" : ""
                 : bias    ? " swiglu(+ bias)"
                           : " swiglu");
    else
        snprintf(name, size, " %c%c%s%s%s%s%s", a, b, scale_names[d.scales], d.has_c ? " + C" : "",
                 d.has_bias ? " + bias" : "", activations[d.activation], rest >> 6 != 0 ? " ragged" : "");
    *(ptxpack_gemm_desc *)out = d;
}

/* It ended before `dtype_ab`, before `groups` and `dtype_b`, before `norm_a`, and before `launch`. */
const plan_struct gemm_desc_struct = {
    .name = "desc",
    .type = "ptxpack_gemm_desc",
    .size = sizeof(ptxpack_gemm_desc),
    .older = {offsetof(ptxpack_gemm_desc, dtype_ab), offsetof(ptxpack_gemm_desc, groups),
              offsetof(ptxpack_gemm_desc, norm_a), offsetof(ptxpack_gemm_desc, launch)},
};
/* What comes with a launch; it ended before `launch`, before the scales, before `group_starts`, and before `norm_w`. */
static const plan_struct buffers_struct = {
    .name = "buffers",
    .type = "ptxpack_gemm_buffers",
    .size = sizeof(ptxpack_gemm_buffers),
    .older = {offsetof(ptxpack_gemm_buffers, launch), offsetof(ptxpack_gemm_buffers, scale_a),
              offsetof(ptxpack_gemm_buffers, group_starts), offsetof(ptxpack_gemm_buffers, norm_w)},
    .launch_at = offsetof(ptxpack_gemm_buffers, launch),
    .launch_bits = GEMM_LAUNCH_BITS,
};
static const plan_method *const methods[] = {&gemm_rows_tma,   &gemm_rows,         &gemm_wgmma,
                                             &gemm_wgmma_fit,  &gemm_wgmma_parts,  &gemm_wgmma_fp8,
                                             &gemm_rows_e4m3,  &gemm_wgmma_groups, &gemm_mma,
                                             &gemm_mma_groups, &gemm_rows_groups,  &gemm_rows_norm};
_Static_assert(sizeof(gemm_arguments) <= PLAN_ARGUMENT_BYTES, "plan_launch has room for the arguments");
_Static_assert(sizeof(gemm_geometry) <= sizeof(plan_room), "plan_room has room for the geometry");
_Static_assert(sizeof(ptxpack_gemm_desc) <= sizeof(plan_room), "plan_room has room for the descriptor");
_Static_assert(sizeof(ptxpack_gemm_buffers) <= sizeof(plan_room), "plan_room has room for the buffers");
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
ptxpack_status ptxpack_gemm_plan_row(ptxpack *handle, const ptxpack_gemm_desc *desc, const ptxpack_variant *row,
                                     ptxpack_gemm_plan **plan)
{
    ptxpack_gemm_desc whole;
    plan_head        *made;
    char              line[PLAN_LINE];
    if (plan == NULL)
        return ptxpack_fail(handle, PTXPACK_E_ARG, "plan is NULL");
    *plan = NULL;
    ptxpack_status status = plan_whole(&gemm_desc_struct, desc, &whole, line);
    if (status != PTXPACK_OK)
        return ptxpack_fail(handle, status, "%s", line);
    status = plan_create(&gemm_op, handle, &whole, row, &made);
    *plan = (ptxpack_gemm_plan *)made;
    return status;
}

ptxpack_status ptxpack_gemm_plan_create(ptxpack *handle, const ptxpack_gemm_desc *desc,
                                        ptxpack_gemm_plan **plan)
{
    return ptxpack_gemm_plan_row(handle, desc, NULL, plan);
}

void ptxpack_gemm_plan_free(ptxpack_gemm_plan *plan) { free(plan); }

const ptxpack_kernel *ptxpack_gemm_kernel(const ptxpack_gemm_plan *plan)
{
    return plan != NULL ? plan->head.kernel : NULL;
}

ptxpack_status ptxpack_gemm_launch(const ptxpack_gemm_plan *plan, const ptxpack_gemm_buffers *buffers,
                                   struct CUstream_st *stream)
{
    return plan_launch((const plan_head *)plan, buffers, stream);
}

size_t ptxpack_gemm_workspace(const ptxpack_gemm_plan *plan)
{
    return plan != NULL ? (size_t)plan->head.workspace : 0;
}
