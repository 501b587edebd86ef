/* mma.c - the rows of ptx/attention/mma.ptx: symbols, arguments, builds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"
#include "plan.h"
#include "mma_symbols.h"

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
        {"LIMITED_LEFT", build.limited_left},
        {"LIMITED_RIGHT", build.limited_right},
        {"SOFTCAP", build.softcap},
        {"PADDED", build.padded},
    };
    enum { FIXED = sizeof fixed / sizeof fixed[0] };
    _Static_assert(FIXED < (int)PTXPACK_INSTANCE_SYMBOLS, "instances have room for more");
    memcpy(symbols, fixed, sizeof fixed);
    size_t count = ptxpack_attention_layout_symbols(layout, symbols + FIXED, PTXPACK_INSTANCE_SYMBOLS - FIXED);
    return count > 0 ? FIXED + count : 0;
}

attention_build ptxpack_attention_build(const ptxpack_attention_desc *desc, const attention_geometry *geometry,
                                        int64_t head_dim)
{
    return (attention_build){
        .dtype = desc->dtype,
        .limited_right = geometry->limited_right || geometry->limited_left,
        .limited_left = geometry->limited_left,
        .softcap = geometry->softcap > 0,
        .padded = desc->head_dim < head_dim,
    };
}

static size_t symbols_of(const ptxpack_variant *row, const ptxpack_attention_desc *desc,
                         const attention_geometry *geometry, ptxpack_symbol symbols[PTXPACK_INSTANCE_SYMBOLS])
{
    attention_layout       *own;
    const attention_layout *layout = ptxpack_attention_layout_of(row, &own);
    size_t                  count = 0;
    if (layout != NULL && layout->status == PTXPACK_OK) {
        count = ptxpack_attention_symbols(layout, ptxpack_attention_build(desc, geometry, layout->head_dim),
                                          symbols);
        if (count == 0)
            ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED, "kernels.def, row %s: %s", row->id, ptxpack_detail(NULL));
    }
    free(own);
    return count;
}

/* ---- builds ------------------------------------------------------------------------------------- */
/* What plans build of a row, for each element type; of the twelve that there can be, those that differ most:
 * the others with a softcap lie between these. */
typedef struct attention_instance_row {
    const char     *name;
    attention_build build;
} attention_instance_row;
static const attention_instance_row attention_builds[] = {
    {"full", {.limited_right = false}},
    {"causal", {.limited_right = true}},
    {"full padded", {.padded = true}},
    {"causal padded", {.limited_right = true, .padded = true}},
    {"window", {.limited_right = true, .limited_left = true}},
    {"window padded", {.limited_right = true, .limited_left = true, .padded = true}},
    {"causal softcap", {.limited_right = true, .softcap = true}},
    {"window softcap padded", {.limited_right = true, .limited_left = true, .softcap = true, .padded = true}},
};
enum { ATTENTION_BUILDS = sizeof attention_builds / sizeof attention_builds[0] };

static size_t instances(const ptxpack_variant *row)
{
    return row->flags & PTXPACK_VARIANT_NO_BF16 ? ATTENTION_BUILDS : 2 * ATTENTION_BUILDS;
}

static void instance(const ptxpack_variant *variant, size_t index, ptxpack_instance *out)
{
    const attention_instance_row *row = &attention_builds[index % ATTENTION_BUILDS];
    attention_build               build = row->build;
    build.dtype = index / ATTENTION_BUILDS != 0 ? PTXPACK_BF16 : PTXPACK_F16;
    snprintf(out->name, sizeof out->name, "%s %s", ptxpack_dtype_name(build.dtype), row->name);
    attention_layout       *own;
    const attention_layout *layout = ptxpack_attention_layout_of(variant, &own);
    if (layout != NULL && layout->status == PTXPACK_OK) /* a plan reports a bad row */
        out->symbol_count = ptxpack_attention_symbols(layout, build, out->symbols);
    free(own);
}

/* ---- the plan ----------------------------------------------------------------------------------- */
/* The kernel's 32-bit registers hold byte strides of rows; tanh.approx came with PTX ISA 7.0, later than some
 * rows want. */
static const char *refusal(const ptxpack *handle, const ptxpack_variant *row, const ptxpack_device_caps *caps,
                           const ptxpack_attention_desc *desc, const attention_geometry *geometry,
                           char line[ATTENTION_LINE])
{
    enum { TANH_ISA = 70 };
    attention_tiles tiles;
    (void)handle;
    for (int i = 0; i < TENSOR_COUNT; i++)
        if (geometry->tensor[i].row > INT32_MAX / 2) {
            snprintf(line, ATTENTION_LINE, "%s.row: stride %lld exceeds %d elements", attention_tensor_names[i],
                     (long long)geometry->tensor[i].row, INT32_MAX / 2);
            return line;
        }
    if (geometry->softcap > 0 && row->isa < TANH_ISA && caps->isa < TANH_ISA) {
        snprintf(line, ATTENTION_LINE, "softcap needs PTX ISA 7.0, and here it is %d.%d", caps->isa / 10,
                 caps->isa % 10);
        return line;
    }
    return attention_count_tiles(desc, geometry, ptxpack_variant_parameter(row, "BLOCK_M", 0), &tiles, line) ==
                   PTXPACK_OK
               ? NULL
               : line;
}

static void fill_arguments(attention_arguments *a, const ptxpack_attention_desc *d, const attention_geometry *g)
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
        .left_offset = g->left_offset,
        .right_offset = g->limited_right ? g->right_offset : d->seqlen_kv - 1, /* never binds */
        .softcap_in = g->softcap > 0 ? g->scale / g->softcap : 0,
        .scale_log2 = (float)((g->softcap > 0 ? g->softcap : g->scale) * 1.4426950408889634),
    };
}

/* The grid is all tiles of all heads. */
static ptxpack_status fill(const ptxpack *handle, const ptxpack_variant *row,
                           const ptxpack_attention_desc *desc, ptxpack_attention_plan *plan)
{
    attention_arguments    *a = &plan->arguments.mma;
    attention_tiles         tiles;
    char                    line[ATTENTION_LINE];
    attention_layout       *own;
    const attention_layout *layout = ptxpack_attention_layout_of(row, &own);
    ptxpack_status          status = layout == NULL ? PTXPACK_E_MEMORY : layout->status;
    if (status != PTXPACK_OK)
        snprintf(line, sizeof line, "%s", ptxpack_detail(NULL));
    else
        status = attention_count_tiles(desc, &plan->geometry, layout->block_m, &tiles, line);
    free(own);
    if (status != PTXPACK_OK)
        return ptxpack_fail(handle, status, "%s", line);
    fill_arguments(a, desc, &plan->geometry);
    a->tiles_q = tiles.tiles_q;
    a->heads_total = tiles.heads_total;
    a->section_heads = tiles.section_heads;
    plan->grid[0] = (uint32_t)tiles.tiles_total;
    plan->grid[1] = plan->grid[2] = 1;
    return PTXPACK_OK;
}

static ptxpack_status address(const ptxpack_attention_plan *plan, const ptxpack_attention_buffers *buffers,
                              attention_any_arguments *arguments)
{
    attention_arguments *a = &arguments->mma;
    *a = plan->arguments.mma;
    a->q = buffers->q;
    a->k = buffers->k;
    a->v = buffers->v;
    a->o = buffers->o;
    a->lse = buffers->lse;
    return PTXPACK_OK;
}

const attention_kernel attention_mma = {
    .file = "attention/mma.ptx",
    .ordered = true,
    .refusal = refusal,
    .symbols = symbols_of,
    .fill = fill,
    .address = address,
    .instances = instances,
    .instance = instance,
};
