/* wgmma.c - the rows of ptx/gemm/wgmma.ptx: symbols, tensor maps, launch, what a row costs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/context.h"
#include "loader/driver.h"
#include "kernel.h"
#include "wgmma_symbols.h"
#include "host/plan/tensor_map.h"

/* ---- symbols ------------------------------------------------------------------------------------------ */
static size_t symbols(const ptxpack_variant *row, gemm_build build,
                      ptxpack_symbol out[PTXPACK_INSTANCE_SYMBOLS])
{
    const ptxpack_symbol fixed[] = {{"ARG_BYTES", GEMM_WGMMA_ARGUMENT_BYTES},
#define GEMM_SYMBOL(type, name, symbol) {symbol, offsetof(gemm_wgmma_arguments, name)},
                                    GEMM_WGMMA_ARGUMENTS(GEMM_SYMBOL)
#undef GEMM_SYMBOL
    };
    enum {
        FIXED = sizeof fixed / sizeof fixed[0],
        ROOM = PTXPACK_INSTANCE_SYMBOLS - FIXED - GEMM_BUILD_SYMBOLS
    };
    gemm_wgmma_layout       *own;
    const gemm_wgmma_layout *layout = ptxpack_gemm_wgmma_layout_of(row, &own);
    size_t                   count = FIXED, derived = 0;
    memcpy(out, fixed, sizeof fixed);
    count += ptxpack_gemm_build_symbols(build, out + count);
    if (layout != NULL && layout->status == PTXPACK_OK) {
        derived = ptxpack_gemm_wgmma_layout_symbols(layout, build, out + count, ROOM);
        if (derived == 0)
            ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED, "kernels.def, row %s: %s", row->id, ptxpack_detail(NULL));
    }
    free(own);
    return derived > 0 ? count + derived : 0;
}

/* ---- tensor maps -------------------------------------------------------------------------------------- */
/* The maps of the matrices that there are, each with the box of its order. */
typedef struct matrix_map {
    const ptxpack_tma_box *box; /* NULL: there is no such matrix */
    gemm_tensor_map       *map;
} matrix_map;

static void maps_of(const ptxpack_gemm_desc *d, const gemm_wgmma_layout *l, gemm_wgmma_arguments *a,
                    matrix_map out[GEMM_MATRICES])
{
    out[GEMM_A] = (matrix_map){&l->a[d->order_a == PTXPACK_COLUMN_MAJOR].box, &a->map_a};
    out[GEMM_B] = (matrix_map){&l->b[d->order_b == PTXPACK_COLUMN_MAJOR].box, &a->map_b};
    out[GEMM_C] = (matrix_map){d->has_c ? &l->c_box : NULL, &a->map_c};
    out[GEMM_D] = (matrix_map){&l->d_box, &a->map_d};
}

static ptxpack_status encode_maps(const ptxpack *handle, const ptxpack_gemm_desc *desc,
                                  const gemm_geometry *geometry, const gemm_wgmma_layout *layout,
                                  gemm_wgmma_arguments *a)
{
    matrix_map maps[GEMM_MATRICES];
    maps_of(desc, layout, a, maps);
    for (int i = 0; i < GEMM_MATRICES; i++) {
        if (maps[i].box == NULL)
            continue;
        ptxpack_tma_box box = *maps[i].box;
        ptxpack_status  status = ptxpack_gemm_wgmma_map(desc, geometry, i, &box);
        if (status != PTXPACK_OK)
            return ptxpack_fail(handle, status, "%s", ptxpack_detail(NULL));
        status = ptxpack_tensor_map_encode(handle, gemm_matrix_names[i], &box, maps[i].map);
        if (status != PTXPACK_OK)
            return status;
    }
    return PTXPACK_OK;
}

/* The driver looks at the current context here, too. */
static ptxpack_status encode_maps_in_context(const ptxpack *handle, const ptxpack_gemm_desc *desc,
                                             const gemm_geometry *geometry, const gemm_wgmma_layout *layout,
                                             gemm_wgmma_arguments *a)
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

/* ---- tiles -------------------------------------------------------------------------------------------- */
enum { BLOCK_K = 64 };

/* Tiles of clusters. */
typedef struct tile_counts {
    int64_t m, n, total;
    int64_t cluster;  /* blocks */
    int64_t k_blocks; /* of a block of the cluster */
} tile_counts;

static int64_t divided_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

static tile_counts count_tiles(const ptxpack_variant *row, const ptxpack_gemm_desc *d, const gemm_geometry *g)
{
    int64_t     cluster_m = ptxpack_variant_parameter(row, "CLUSTER_M", 1);
    int64_t     cluster_n = ptxpack_variant_parameter(row, "CLUSTER_N", 1);
    int64_t     cluster_k = ptxpack_variant_parameter(row, "CLUSTER_K", 1);
    tile_counts t = {
        .m = divided_up(d->m, cluster_m * ptxpack_variant_parameter(row, "BLOCK_M", 1)),
        .n = divided_up(d->n, cluster_n * ptxpack_variant_parameter(row, "BLOCK_N", 1)),
        .cluster = cluster_m * cluster_n * cluster_k,
        .k_blocks = d->k > 0 ? divided_up(d->k, cluster_k * BLOCK_K) : 1,
    };
    t.total = t.m * t.n <= INT32_MAX ? t.m * t.n * g->batch : INT64_MAX;
    return t;
}

static const char *refusal(const ptxpack *handle, const ptxpack_variant *row, const ptxpack_gemm_desc *desc,
                           const gemm_geometry *geometry, char line[GEMM_LINE])
{
    enum { MARGIN = 4096, TILE_LIMIT = INT32_MAX / 2 }; /* coordinates beyond the last are 32 bits, too */
    const struct ptxpack_driver *driver = ptxpack_driver_table(handle); /* NULL offline */
    ptxpack_tma_box              box = {.status = PTXPACK_OK};
    if (driver != NULL &&
        (driver->cuTensorMapEncodeTiled == NULL || driver->cuTensorMapReplaceAddress == NULL)) {
        snprintf(line, GEMM_LINE,
                 "needs cuTensorMapEncodeTiled and cuTensorMapReplaceAddress, which the driver lacks");
        return line;
    }
    for (int i = 0; i < GEMM_MATRICES; i++)
        if ((i != GEMM_C || desc->has_c) && ptxpack_gemm_wgmma_map(desc, geometry, i, &box) != PTXPACK_OK) {
            snprintf(line, GEMM_LINE, "%s", ptxpack_detail(NULL));
            return line;
        }
    if (desc->m > INT32_MAX - MARGIN || desc->n > INT32_MAX - MARGIN || desc->k > INT32_MAX - MARGIN) {
        snprintf(line, GEMM_LINE, "takes extents up to %d", INT32_MAX - MARGIN);
        return line;
    }
    tile_counts t = count_tiles(row, desc, geometry);
    if (t.total > TILE_LIMIT / t.cluster) { /* the grid may have a cluster for each */
        snprintf(line, GEMM_LINE, "takes up to %d tiles", (int)(TILE_LIMIT / t.cluster));
        return line;
    }
    return NULL;
}

/* Offline, where only a choice is made: those of an H200. */
static int64_t sms_of(int sm_count) { return sm_count > 0 ? sm_count : 132; }

/* As many as the GPU holds. */
static int64_t clusters_at_once(const ptxpack_variant *row, const tile_counts *t, int sm_count)
{
    int64_t held = sms_of(sm_count) * row->blocks_per_sm / t->cluster;
    held = held > 0 ? held : 1;
    return held < t->total ? held : t->total;
}

/* They stay and take tile after tile; but where they share k there is one for each tile. */
static int64_t clusters_of(const ptxpack_variant *row, const tile_counts *t, int sm_count)
{
    return ptxpack_variant_parameter(row, "CLUSTER_K", 1) > 1 ? t->total : clusters_at_once(row, t, sm_count);
}

/* ---- the cost ----------------------------------------------------------------------------------------- */
/* Clocks: each place for a cluster does as many tiles as the busiest one; a tile takes its blocks of k and
 * what does not overlap with the next tile's.  A block of k keeps the tensor cores busy for block_m block_n
 * block_k / 2048 clocks, of which SPEED percent were measured where all SMs are busy; L2 brings its bytes, of
 * which the cluster's blocks share some.  Blocks of one SM share both. */
static double cost(const ptxpack_variant *row, const ptxpack_gemm_desc *d, const gemm_geometry *g, int sm_count)
{
    enum { FMAS = 2048, L2_BYTES = 64 /* a clock and SM */, FILL = 3500, STORE = 3000, EXCHANGE = 8500 };
    double      m = (double)ptxpack_variant_parameter(row, "BLOCK_M", 1);
    double      n = (double)ptxpack_variant_parameter(row, "BLOCK_N", 1);
    double      cluster_m = (double)ptxpack_variant_parameter(row, "CLUSTER_M", 1);
    double      cluster_n = (double)ptxpack_variant_parameter(row, "CLUSTER_N", 1);
    double      speed = (double)ptxpack_variant_parameter(row, "SPEED", 100) / 100;
    tile_counts t = count_tiles(row, d, g);
    int64_t     places = sms_of(sm_count) * row->blocks_per_sm / t.cluster;
    if (t.cluster > 2)
        places -= places / 10; /* what is left of a group of SMs holds no whole cluster */
    int64_t held = places < 1 ? 1 : places < t.total ? places : t.total;
    double  rounds = (double)divided_up(t.total, held);
    double  bytes = 2 * BLOCK_K * (m / cluster_n + n / cluster_m);
    double  share = (double)divided_up(held * t.cluster, sms_of(sm_count)); /* blocks of an SM */
    double  arithmetic = m * n * BLOCK_K / FMAS / speed;
    double  block = share * (arithmetic > bytes / L2_BYTES ? arithmetic : bytes / L2_BYTES);
    double  exchange = ptxpack_variant_parameter(row, "CLUSTER_K", 1) > 1 ? EXCHANGE : 0;
    return FILL + rounds * ((double)t.k_blocks * block + exchange + STORE * m * n / (128 * 256));
}

/* ---- the plan ----------------------------------------------------------------------------------------- */
/* Tiles are numbered in groups of rows that together are about as high as what runs at the same time is wide,
 * so that it shares the most; each group from left to right, each column from top to bottom. */
static int64_t group_of(const ptxpack_variant *row, const tile_counts *t, int64_t clusters)
{
    int64_t height = ptxpack_variant_parameter(row, "BLOCK_M", 1), group = 1;
    int64_t width = ptxpack_variant_parameter(row, "BLOCK_N", 1);
    height *= ptxpack_variant_parameter(row, "CLUSTER_M", 1);
    width *= ptxpack_variant_parameter(row, "CLUSTER_N", 1);
    while (group < t->m && (group + 1) * (group + 1) * height <= clusters * width)
        group++;
    return group;
}

static void fill_numbers(gemm_wgmma_arguments *a, const ptxpack_gemm_desc *d, const gemm_geometry *g,
                         const tile_counts *t, int64_t group)
{
    enum { ELEMENT = 2 };
    a->m = d->m;
    a->n = d->n;
    a->stride_d = ELEMENT * g->matrix[GEMM_D].stride;
    a->batch_d = ELEMENT * g->matrix[GEMM_D].batch;
    a->k_begin = d->k > 0 ? 0 : BLOCK_K;
    a->k_blocks = (int32_t)t->k_blocks;
    a->tiles_m = (int32_t)t->m;
    a->group_m = (int32_t)group;
    a->group_tiles = (int32_t)(group * t->n);
    a->matrix_tiles = (int32_t)(t->m * t->n);
    a->tiles_total = (int32_t)t->total;
    a->batches_a = g->matrix[GEMM_A].batch > 0;
    a->batches_b = g->matrix[GEMM_B].batch > 0;
    a->batches_c = g->matrix[GEMM_C].batch > 0;
}

static ptxpack_status fill(const ptxpack *handle, const ptxpack_variant *row, const ptxpack_gemm_desc *desc,
                           ptxpack_gemm_plan *plan)
{
    gemm_wgmma_layout       *own;
    const gemm_wgmma_layout *layout = ptxpack_gemm_wgmma_layout_of(row, &own);
    ptxpack_status           status = layout == NULL ? PTXPACK_E_MEMORY : layout->status;
    if (status != PTXPACK_OK)
        ptxpack_fail(handle, status, "%s", ptxpack_detail(NULL));
    else if (ptxpack_driver_table(handle) != NULL) /* offline nothing is launched: loading will say so */
        status = encode_maps_in_context(handle, desc, &plan->geometry, layout, &plan->arguments.wgmma);
    free(own);
    if (status != PTXPACK_OK)
        return status;
    tile_counts t = count_tiles(row, desc, &plan->geometry);
    int64_t     clusters = clusters_of(row, &t, ptxpack_device(handle)->sm_count);
    fill_numbers(&plan->arguments.wgmma, desc, &plan->geometry, &t, group_of(row, &t, clusters));
    plan->grid[0] = (uint32_t)(clusters * t.cluster);
    plan->grid[1] = plan->grid[2] = 1;
    return PTXPACK_OK;
}

/* ---- the launch --------------------------------------------------------------------------------------- */
/* A matrix without elements is never read: any aligned address will do. */
static ptxpack_status replace_addresses(const ptxpack_gemm_plan *plan, const ptxpack_gemm_buffers *b,
                                        gemm_wgmma_arguments *a)
{
    const struct ptxpack_driver *driver = ptxpack_driver_table(plan->handle);
    gemm_tensor_map *const       maps[GEMM_MATRICES] = {&a->map_a, &a->map_b, &a->map_c, &a->map_d};
    const uint64_t               addresses[GEMM_MATRICES] = {b->a, b->b, b->c, b->d};
    char                         text[256];
    for (int i = 0; i < GEMM_MATRICES; i++) {
        if (i == GEMM_C && !plan->has_c)
            continue;
        uint64_t          address = plan->geometry.matrix[i].bytes != 0 ? addresses[i] : b->d;
        ptxpack_cu_result r = driver->cuTensorMapReplaceAddress((struct CUtensorMap_st *)(void *)maps[i],
                                                                (void *)(uintptr_t)address);
        if (r != PTXPACK_CU_SUCCESS)
            return ptxpack_fail(plan->handle, PTXPACK_E_LAUNCH, "cuTensorMapReplaceAddress of %s: %s",
                                gemm_matrix_names[i], ptxpack_driver_error(driver, r, text, sizeof text));
    }
    return PTXPACK_OK;
}

static ptxpack_status address(const ptxpack_gemm_plan *plan, const ptxpack_gemm_buffers *b,
                              gemm_any_arguments *arguments)
{
    gemm_wgmma_arguments *a = &arguments->wgmma;
    bool                  pushed = false;
    *a = plan->arguments.wgmma;
    a->bias = b->bias;
    a->d = b->d;
    a->alpha = b->alpha;
    a->beta = b->beta;
    ptxpack_status status = ptxpack_check_process(plan->handle);
    if (status == PTXPACK_OK)
        status = ptxpack_enter(plan->handle, &pushed);
    if (status == PTXPACK_OK)
        status = replace_addresses(plan, b, a);
    ptxpack_leave(plan->handle, pushed);
    return status;
}

const gemm_kernel gemm_wgmma = {
    .file = "gemm/wgmma.ptx",
    .refusal = refusal,
    .cost = cost,
    .symbols = symbols,
    .fill = fill,
    .address = address,
};
