/* wgmma.c - the rows of ptx/attention/wgmma.ptx: symbols, tensor maps, launch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"
#include "wgmma_symbols.h"
#include "loader/context.h"
#include "loader/driver.h"
#include "host/plan/tensor_map.h"

/* ---- symbols ------------------------------------------------------------------------------------------ */
/* What sets one build of a row apart from the others. */
typedef struct wgmma_build {
    ptxpack_dtype dtype;
    bool          limited_left, limited_right, softcap;
} wgmma_build;

static size_t symbols_of(const ptxpack_variant *row, wgmma_build build,
                         ptxpack_symbol symbols[PTXPACK_INSTANCE_SYMBOLS])
{
    const ptxpack_symbol fixed[] = {
        {"ARG_BYTES", ATTENTION_WGMMA_ARGUMENT_BYTES},
#define ATTENTION_SYMBOL(type, name, symbol) {symbol, offsetof(attention_wgmma_arguments, name)},
        ATTENTION_WGMMA_ARGUMENTS(ATTENTION_SYMBOL)
#undef ATTENTION_SYMBOL
            {"BF16", build.dtype != PTXPACK_F16}, /* of O, and of 16-bit inputs */
        {"LIMITED_LEFT", build.limited_left},
        {"LIMITED_RIGHT", build.limited_right},
        {"SOFTCAP", build.softcap},
    };
    enum { FIXED = sizeof fixed / sizeof fixed[0] };
    _Static_assert(FIXED < (int)PTXPACK_INSTANCE_SYMBOLS, "instances have room for more");
    attention_wgmma_layout       *own;
    const attention_wgmma_layout *layout = ptxpack_attention_wgmma_layout_of(row, &own);
    size_t                        count = 0;
    memcpy(symbols, fixed, sizeof fixed);
    if (layout != NULL && layout->status == PTXPACK_OK) {
        count = ptxpack_attention_wgmma_layout_symbols(layout, symbols + FIXED,
                                                       PTXPACK_INSTANCE_SYMBOLS - FIXED);
        if (count == 0)
            ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED, "kernels.def, row %s: %s", row->id, ptxpack_detail(NULL));
    }
    free(own);
    return count > 0 ? FIXED + count : 0;
}

static size_t symbols(const ptxpack_variant *row, const ptxpack_attention_desc *desc,
                      const attention_geometry *geometry, ptxpack_symbol out[PTXPACK_INSTANCE_SYMBOLS])
{
    const wgmma_build build = {desc->dtype, geometry->limited_left, geometry->limited_right,
                               geometry->softcap > 0};
    return symbols_of(row, build, out);
}

/* What plans build of a row, for each element type; the others with a softcap lie between these. */
static const struct {
    const char *name;
    wgmma_build build;
} builds[] = {
    {"full", {.limited_left = false}},
    {"causal", {.limited_right = true}},
    {"left", {.limited_left = true}},
    {"window", {.limited_left = true, .limited_right = true}},
    {"full softcap", {.softcap = true}},
    {"window softcap", {.limited_left = true, .limited_right = true, .softcap = true}},
};
enum { BUILDS = sizeof builds / sizeof builds[0] };

static bool is_fp8(const ptxpack_variant *row) { return ptxpack_variant_parameter(row, "FP8", 0) != 0; }

static size_t instances(const ptxpack_variant *row) { return (is_fp8(row) ? 1 : 2) * BUILDS; }

static void instance(const ptxpack_variant *row, size_t index, ptxpack_instance *out)
{
    wgmma_build build = builds[index % BUILDS].build;
    build.dtype = is_fp8(row) ? PTXPACK_E4M3 : index / BUILDS != 0 ? PTXPACK_BF16 : PTXPACK_F16;
    snprintf(out->name, sizeof out->name, "%s %s", ptxpack_dtype_name(build.dtype),
             builds[index % BUILDS].name);
    out->symbol_count = symbols_of(row, build, out->symbols);
}

/* ---- tensor maps -------------------------------------------------------------------------------------- */
static ptxpack_status encode_maps(const ptxpack *handle, const ptxpack_attention_desc *desc,
                                  const attention_geometry *geometry, const attention_wgmma_layout *layout,
                                  attention_wgmma_arguments *a)
{
    attention_tensor_map *const  maps[TENSOR_COUNT] = {&a->map_q, &a->map_k, &a->map_v, &a->map_o};
    const ptxpack_tma_box *const boxes[TENSOR_COUNT] = {&layout->q_box, &layout->kv_box, &layout->kv_box,
                                                        &layout->o_box};
    for (int i = 0; i < TENSOR_COUNT; i++) {
        ptxpack_tma_box box = *boxes[i];
        ptxpack_status  status = ptxpack_attention_wgmma_map(desc, geometry, i, &box);
        if (status != PTXPACK_OK)
            return ptxpack_fail(handle, status, "%s", ptxpack_detail(NULL));
        status = ptxpack_tensor_map_encode(handle, attention_tensor_names[i], &box, maps[i]);
        if (status != PTXPACK_OK)
            return status;
    }
    return PTXPACK_OK;
}

/* The driver looks at the current context here, too. */
static ptxpack_status encode_maps_in_context(const ptxpack *handle, const ptxpack_attention_desc *desc,
                                             const attention_geometry     *geometry,
                                             const attention_wgmma_layout *layout, attention_wgmma_arguments *a)
{
    bool           pushed = false;
    ptxpack_status status = ptxpack_check_process(handle);
    if (status == PTXPACK_OK)
        status = ptxpack_enter(handle, &pushed);
    if (status == PTXPACK_OK)
        status = encode_maps(handle, desc, geometry, layout, a);
    ptxpack_leave(handle, pushed);
    return status;
}

/* ---- the plan ----------------------------------------------------------------------------------------- */
/* Tiles as for every kernel, but for the order.  Without a limit on the right the tiles of one head after
 * another: blocks that run at the same time then read the same keys.  With one, and none on the left, tiles
 * differ in length: the longest of several heads first, 16 heads, or fewer, but 8, that have 64 MB of keys and
 * values, or more that have only 16 MB.  (H200, causal, TFLOP/s of 1, 4, 8, 16, 64 heads: d 128, s 16384 769
 * 814 809 793; s 4096 680 699 721 728 636; d 256, s 16384 722 807 815.) */
static ptxpack_status count_tiles(const ptxpack_attention_desc *d, const attention_geometry *g, int64_t block_m,
                                  attention_tiles *tiles, char line[ATTENTION_LINE])
{
    enum { LEAST_BYTES = 16 << 20, MOST_BYTES = 64 << 20, LEAST_HEADS = 8, HEADS = 16, TILE_LIMIT = 1 << 30 };
    ptxpack_status status = attention_count_tiles(d, g, block_m, tiles, line);
    if (status != PTXPACK_OK)
        return status;
    if (tiles->tiles_total >= TILE_LIMIT) /* the kernel keeps two flags beside a tile's number */
        return attention_refuse(line, PTXPACK_E_UNSUPPORTED, "%d tiles of %d rows exceed %d",
                                (int)tiles->tiles_total, (int)block_m, TILE_LIMIT - 1);
    int64_t head_bytes = 2 * (int64_t)ptxpack_dtype_bytes(d->dtype) * d->seqlen_kv * d->head_dim;
    int64_t heads = MOST_BYTES / head_bytes < HEADS ? MOST_BYTES / head_bytes : HEADS;
    heads = heads > LEAST_HEADS ? heads : LEAST_HEADS;
    heads = LEAST_BYTES / head_bytes > heads ? LEAST_BYTES / head_bytes : heads;
    heads = g->limited_right && !g->limited_left ? heads : 1;
    int64_t section = heads * (d->heads_q / d->heads_kv);
    tiles->section_heads = (int32_t)(section < tiles->heads_total ? section : tiles->heads_total);
    return PTXPACK_OK;
}

static const char *refusal(const ptxpack *handle, const ptxpack_variant *row, const ptxpack_device_caps *caps,
                           const ptxpack_attention_desc *desc, const attention_geometry *geometry,
                           char line[ATTENTION_LINE])
{
    (void)caps;
    const struct ptxpack_driver *driver = ptxpack_driver_table(handle); /* NULL offline */
    attention_tiles              tiles;
    ptxpack_tma_box              box = {.status = PTXPACK_OK};
    if (driver != NULL &&
        (driver->cuTensorMapEncodeTiled == NULL || driver->cuTensorMapReplaceAddress == NULL)) {
        snprintf(line, ATTENTION_LINE,
                 "needs cuTensorMapEncodeTiled and cuTensorMapReplaceAddress, which the "
                 "driver lacks");
        return line;
    }
    for (int i = 0; i < TENSOR_COUNT; i++)
        if (ptxpack_attention_wgmma_map(desc, geometry, i, &box) != PTXPACK_OK) {
            snprintf(line, ATTENTION_LINE, "%s", ptxpack_detail(NULL));
            return line;
        }
    return count_tiles(desc, geometry, ptxpack_variant_parameter(row, "BLOCK_M", 0), &tiles, line) == PTXPACK_OK
               ? NULL
               : line;
}

static void fill_numbers(attention_wgmma_arguments *a, const ptxpack_attention_desc *d,
                         const attention_geometry *g, const attention_tiles *tiles)
{
    const double log2_e = 1.4426950408889634;
    a->seqlen_q = d->seqlen_q;
    a->seqlen_kv = d->seqlen_kv;
    a->heads_q = d->heads_q;
    a->heads_per_kv = d->heads_q / d->heads_kv;
    a->left_offset = g->limited_left ? g->left_offset : 0;
    a->right_offset = g->limited_right ? g->right_offset : 0;
    a->tiles_q = tiles->tiles_q;
    a->tiles_total = tiles->tiles_total;
    a->heads_total = tiles->heads_total;
    a->section_heads = tiles->section_heads;
    a->scale_log2 = (float)((g->softcap > 0 ? g->softcap : g->scale) * log2_e);
    a->softcap_in = g->softcap > 0 ? g->scale / g->softcap : 0;
}

/* Blocks stay and take tile after tile from a counter in the workspace: as many as the GPU holds. */
static uint32_t grid_of(const ptxpack *handle, const ptxpack_variant *row, int32_t tiles)
{
    int64_t held = (int64_t)ptxpack_device(handle)->sm_count * row->blocks_per_sm;
    return (uint32_t)(held > 0 && held < tiles ? held : tiles);
}

static ptxpack_status fill(const ptxpack *handle, const ptxpack_variant *row,
                           const ptxpack_attention_desc *desc, ptxpack_attention_plan *plan)
{
    enum { COUNTERS = 16 };
    char                          line[ATTENTION_LINE];
    attention_tiles               tiles;
    attention_wgmma_layout       *own;
    const attention_wgmma_layout *layout = ptxpack_attention_wgmma_layout_of(row, &own);
    ptxpack_status                status = layout == NULL ? PTXPACK_E_MEMORY : layout->status;
    if (status != PTXPACK_OK) {
        free(own);
        return ptxpack_fail(handle, status, "%s", ptxpack_detail(NULL));
    }
    status = count_tiles(desc, &plan->geometry, layout->block_m, &tiles, line);
    if (status != PTXPACK_OK)
        ptxpack_fail(handle, status, "%s", line);
    else if (ptxpack_driver_table(handle) != NULL) /* offline nothing is launched: loading will say so */
        status = encode_maps_in_context(handle, desc, &plan->geometry, layout, &plan->arguments.wgmma);
    free(own);
    if (status != PTXPACK_OK)
        return status;
    fill_numbers(&plan->arguments.wgmma, desc, &plan->geometry, &tiles);
    plan->geometry.workspace_bytes = COUNTERS + sizeof(int32_t) * (uint64_t)tiles.tiles_total;
    plan->grid[0] = grid_of(handle, row, tiles.tiles_total);
    plan->grid[1] = plan->grid[2] = 1;
    return PTXPACK_OK;
}

/* ---- the launch --------------------------------------------------------------------------------------- */
static ptxpack_status replace_addresses(const ptxpack *handle, const ptxpack_attention_buffers *b,
                                        attention_wgmma_arguments *a)
{
    const struct ptxpack_driver *driver = ptxpack_driver_table(handle);
    attention_tensor_map *const  maps[TENSOR_COUNT] = {&a->map_q, &a->map_k, &a->map_v, &a->map_o};
    const uint64_t               addresses[TENSOR_COUNT] = {b->q, b->k, b->v, b->o};
    char                         text[256];
    for (int i = 0; i < TENSOR_COUNT; i++) {
        ptxpack_cu_result r = driver->cuTensorMapReplaceAddress((struct CUtensorMap_st *)(void *)maps[i],
                                                                (void *)(uintptr_t)addresses[i]);
        if (r != PTXPACK_CU_SUCCESS)
            return ptxpack_fail(handle, PTXPACK_E_LAUNCH, "cuTensorMapReplaceAddress of %s: %s",
                                attention_tensor_names[i], ptxpack_driver_error(driver, r, text, sizeof text));
    }
    return PTXPACK_OK;
}

static ptxpack_status address(const ptxpack_attention_plan *plan, const ptxpack_attention_buffers *b,
                              attention_any_arguments *arguments)
{
    attention_wgmma_arguments *a = &arguments->wgmma;
    bool                       pushed = false;
    *a = plan->arguments.wgmma;
    a->lse = b->lse;
    a->workspace = b->workspace;
    if (plan->geometry.descale_bytes != 0) {
        a->q_descale = b->q_descale;
        a->k_descale = b->k_descale;
        a->v_descale = b->v_descale;
    }
    ptxpack_status status = ptxpack_check_process(plan->handle);
    if (status == PTXPACK_OK)
        status = ptxpack_enter(plan->handle, &pushed);
    if (status == PTXPACK_OK)
        status = replace_addresses(plan->handle, b, a);
    ptxpack_leave(plan->handle, pushed);
    return status;
}

const attention_kernel attention_wgmma = {
    .file = "attention/wgmma.ptx",
    .refusal = refusal,
    .symbols = symbols,
    .fill = fill,
    .address = address,
    .instances = instances,
    .instance = instance,
};
