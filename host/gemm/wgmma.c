/* wgmma.c - the methods of the rows of ptx/gemm/wgmma.ptx, for tiles that fill the GPU badly of ptx/gemm/wgmma_fit.ptx and
 * wgmma_parts.ptx, for A and B of e4m3 of ptx/gemm/wgmma_fp8.ptx, and for groups of rows of ptx/gemm/wgmma_groups.ptx. */
#include <stdio.h>

#include "host/plan/quotient.h"
#include "host/plan/tensor_map.h"
#include "op.h"
#include "wgmma/cost.h"
#include "wgmma_symbols.h"

/* ---- symbols ------------------------------------------------------------------------------------------ */
static void symbols(const plan_problem *problem, const void *layout, symbol_list *list)
{
    const ptxpack_gemm_desc *desc = (const ptxpack_gemm_desc *)problem->desc;
    gemm_build_symbols(desc, desc->n % 8 != 0, list);
    gemm_wgmma_symbols((const gemm_wgmma_layout *)layout, desc->order_a == PTXPACK_COLUMN_MAJOR,
                       desc->order_b == PTXPACK_COLUMN_MAJOR, list);
}

static void symbols_fp8(const plan_problem *problem, const void *layout, symbol_list *list)
{
    symbols(problem, layout, list);
    gemm_wgmma_row_symbols((const gemm_wgmma_layout *)layout, list);
    symbol_add(list, "SCALES", ((const ptxpack_gemm_desc *)problem->desc)->scales);
    symbol_add(list, "SCALE_BLOCK", PTXPACK_SCALE_BLOCK);
}

static void symbols_groups(const plan_problem *problem, const void *layout, symbol_list *list)
{
    symbols(problem, layout, list);
    symbol_add(list, "GROUP_ROWS", GEMM_GROUP_ROWS);
}

/* ---- tensor maps -------------------------------------------------------------------------------------- */
/* The maps of a problem, and whose they are. */
enum { MAPS = GEMM_MATRICES + 2 };
static const int matrix_of_map[MAPS] = {GEMM_A, GEMM_B, GEMM_C, GEMM_D, GEMM_A, GEMM_B};
typedef struct map_list {
    argument_tensor_map *map[MAPS];
} map_list;

static map_list maps_of(gemm_wgmma_arguments *a)
{
    return (map_list){{&a->map_a, &a->map_b, &a->map_c, &a->map_d, &a->map_a_rest, &a->map_b_rest}};
}

/* Whether the problem has the matrix of the map, and for those of the rest of lines, whether its edges have boxes of their own. */
static bool takes_map(const gemm_wgmma_arguments *a, bool has_c, int map)
{
    const int32_t lines = matrix_of_map[map] == GEMM_A ? a->lines_a : a->lines_b;
    return map < GEMM_MATRICES ? map != GEMM_C || has_c : lines != GEMM_ALL_LINES;
}

/* Encodes the maps of the matrices that the problem has. */
static ptxpack_status encode_maps(const plan_problem *problem, const gemm_wgmma_layout *l,
                                  gemm_wgmma_arguments *a)
{
    const ptxpack_gemm_desc *d = (const ptxpack_gemm_desc *)problem->desc;
    const map_list           maps = maps_of(a);
    ptxpack_status           status = PTXPACK_OK;
    for (int i = 0; i < MAPS && status == PTXPACK_OK; i++) {
        const int       matrix = matrix_of_map[i];
        ptxpack_tma_box box;
        if (!takes_map(a, d->has_c, i))
            continue;
        status = ptxpack_gemm_wgmma_box(d, (const gemm_geometry *)problem->geometry, l, matrix, &box);
        if (status != PTXPACK_OK)
            return ptxpack_fail(problem->handle, status, "%s", ptxpack_detail(NULL));
        if (i >= GEMM_MATRICES)
            gemm_wgmma_crop_rest(&box);
        status = ptxpack_tensor_map_encode(problem->handle, gemm_matrix_names[matrix], &box, maps.map[i]);
    }
    return status;
}

/* ---- tiles -------------------------------------------------------------------------------------------- */
bool gemm_wgmma_gates(const ptxpack_variant *row)
{
    return ptxpack_variant_parameter(row, "BLOCK_N", 1) % 128 == 0 &&
           ptxpack_variant_parameter(row, "CLUSTER_K", 1) == 1;
}

static size_t corners_of(const ptxpack_variant *row)
{
    return gemm_wgmma_gates(row) ? GEMM_CORNERS : GEMM_PLAIN_CORNERS;
}

static const char *refusal(const plan_problem *problem, const ptxpack_variant *row, char line[PLAN_LINE])
{
    /* Coordinates beyond the last one are 32 bits, too; QUOTIENT of ptx/shared/divide.ptx takes numbers below 2^30. */
    enum { MARGIN = 4096, TILE_LIMIT = INT32_MAX / 2 };
    const ptxpack_gemm_desc *desc = (const ptxpack_gemm_desc *)problem->desc;
    const gemm_geometry     *geometry = (const gemm_geometry *)problem->geometry;
    const char              *missing = ptxpack_tensor_map_refusal(problem->handle);
    ptxpack_tma_box          box = {.status = PTXPACK_OK};
    if (missing != NULL) {
        snprintf(line, PLAN_LINE, "%s", missing);
        return line;
    }
    if (desc->activation == PTXPACK_ACTIVATION_SWIGLU && !gemm_wgmma_gates(row)) {
        snprintf(line, PLAN_LINE, "activation: has no SwiGLU");
        return line;
    }
    for (int i = 0; i < GEMM_MATRICES; i++)
        if ((i != GEMM_C || desc->has_c) && ptxpack_gemm_wgmma_map(desc, geometry, i, &box) != PTXPACK_OK) {
            snprintf(line, PLAN_LINE, "%s", ptxpack_detail(NULL));
            return line;
        }
    if (desc->m > INT32_MAX - MARGIN || desc->n > INT32_MAX - MARGIN || desc->k > INT32_MAX - MARGIN) {
        snprintf(line, PLAN_LINE, "takes extents up to %d", INT32_MAX - MARGIN);
        return line;
    }
    gemm_tile_counts t = gemm_wgmma_tiles(row, desc, geometry);
    if (t.total > TILE_LIMIT / t.cluster) { /* the grid may have a cluster for each */
        snprintf(line, PLAN_LINE, "takes up to %d tiles", (int)(TILE_LIMIT / t.cluster));
        return line;
    }
    return NULL;
}

static const char *refusal_fp8(const plan_problem *problem, const ptxpack_variant *row, char line[PLAN_LINE])
{
    enum { UNIT = 8 };
    const ptxpack_gemm_desc *desc = (const ptxpack_gemm_desc *)problem->desc;
    if (desc->order_a != PTXPACK_ROW_MAJOR || desc->order_b != PTXPACK_COLUMN_MAJOR)
        snprintf(line, PLAN_LINE, "order_%c: takes e4m3 of a row-major A and a column-major B",
                 desc->order_a != PTXPACK_ROW_MAJOR ? 'a' : 'b');
    else if (desc->n % UNIT != 0)
        snprintf(line, PLAN_LINE, "n is %d, no multiple of %d", (int)desc->n, UNIT);
    else
        return refusal(problem, row, line);
    return line;
}

/* Boxes of D of tiles whose columns are no multiple of 64 overlap, and boxes of an operand of which k goes from line to line are of 64. */
static const char *refusal_fit(const plan_problem *problem, const ptxpack_variant *row, char line[PLAN_LINE])
{
    const ptxpack_gemm_desc *desc = (const ptxpack_gemm_desc *)problem->desc;
    if (desc->order_a != PTXPACK_ROW_MAJOR || desc->order_b != PTXPACK_COLUMN_MAJOR)
        snprintf(line, PLAN_LINE, "order_%c: takes a row-major A and a column-major B",
                 desc->order_a != PTXPACK_ROW_MAJOR ? 'a' : 'b');
    else if (desc->has_c)
        snprintf(line, PLAN_LINE, "has_c: takes no C");
    else
        return refusal(problem, row, line);
    return line;
}

static const char *refusal_groups(const plan_problem *problem, const ptxpack_variant *row, char line[PLAN_LINE])
{
    enum { UNIT = 8 }; /* columns, which TMA stores together */
    const ptxpack_gemm_desc *desc = (const ptxpack_gemm_desc *)problem->desc;
    if (desc->n % UNIT == 0)
        return refusal(problem, row, line);
    snprintf(line, PLAN_LINE, "n is %d, no multiple of %d", (int)desc->n, UNIT);
    return line;
}

/* Of a warp, bytes: the warps of all parts of a tile ask for theirs at once, which one line of L2 would answer one after another. */
enum { COUNTER_BYTES = 128 };

static void symbols_parts(const plan_problem *problem, const void *layout, symbol_list *list)
{
    symbols(problem, layout, list);
    symbol_add(list, "COUNTER_BYTES", COUNTER_BYTES);
    gemm_wgmma_row_symbols((const gemm_wgmma_layout *)layout, list);
}

static const char *refusal_parts(const plan_problem *problem, const ptxpack_variant *row, char line[PLAN_LINE])
{
    enum { BOX = 64 /* columns of D, lines of k */ };
    if (ptxpack_variant_parameter(row, "BLOCK_N", BOX) % BOX != 0)
        return refusal_fit(problem, row, line);
    if (!((const ptxpack_gemm_desc *)problem->desc)->has_c)
        return refusal(problem, row, line);
    snprintf(line, PLAN_LINE, "has_c: takes no C");
    return line;
}

/* ---- the plan ----------------------------------------------------------------------------------------- */
/* Tiles are numbered in groups of rows, each group from left to right and each column of it from top to
 * bottom.  The tiles that run at the same time are then about as high as wide, so that they share the most
 * of A and B. */
static int64_t group_of(const ptxpack_variant *row, const gemm_tile_counts *t, int64_t clusters)
{
    int64_t height = ptxpack_variant_parameter(row, "BLOCK_M", 1), group = 1;
    int64_t width = ptxpack_variant_parameter(row, "BLOCK_N", 1);
    height *= ptxpack_variant_parameter(row, "CLUSTER_M", 1);
    width *= ptxpack_variant_parameter(row, "CLUSTER_N", 1);
    while (group < t->m && (group + 1) * (group + 1) * height <= clusters * width)
        group++;
    return group;
}

/* Whether at most two tiles, which are worked on together, want the same columns of B. */
static bool reads_b_once(const ptxpack_variant *row, const ptxpack_gemm_desc *d, const gemm_geometry *g,
                         const gemm_tile_counts *t)
{
    const int64_t height = ptxpack_variant_parameter(row, "BLOCK_M", 1);
    const double  below = g->groups > 0 ? gemm_groups_usual_tiles(d->groups, d->m, height) / d->groups
                                        : (double)t->m;
    return below <= 2 && (g->batch == 1 || g->matrix[GEMM_B].batch > 0);
}

static void fill_numbers(gemm_wgmma_arguments *a, const ptxpack_gemm_desc *d, const gemm_geometry *g,
                         const gemm_tile_counts *t, int64_t block_k, int64_t group)
{
    const int64_t         element = g->matrix[GEMM_D].element;
    const gemm_tile_order from = gemm_order_tiles(t->m, t->n, group);
    gemm_wgmma_arguments *to = a;
    GEMM_TILE_ORDER(ARGUMENT_COPY, )
    a->m = d->m;
    a->n = d->n;
    a->stride_d = element * g->matrix[GEMM_D].stride;
    a->batch_d = element * g->matrix[GEMM_D].batch;
    a->k_begin = d->k > 0 ? 0 : (int32_t)block_k;
    a->k_blocks = (int32_t)t->k_blocks;
    a->tiles_total = (int32_t)t->total;
    a->batches_a = g->matrix[GEMM_A].batch > 0;
    a->batches_b = g->matrix[GEMM_B].batch > 0;
    a->batches_c = g->matrix[GEMM_C].batch > 0;
}

/* The lines of A and of B, if tiles at their edges have boxes of their own: in a block's first tile all stages bring lines, or it is the only
 * one, without C, which comes to stages, too (ptx/gemm/wgmma_lines.ptx).  A part may have fewer blocks of k than there are stages: a block
 * that begins with one has no other piece (gemm_wgmma_cut). */
static void fill_lines(gemm_wgmma_arguments *a, const ptxpack_gemm_desc *d, const gemm_wgmma_layout *l,
                       const gemm_tile_counts *t, int64_t clusters)
{
    const bool    cut = d->groups == 0 && (t->k_blocks >= l->stages || (t->total <= clusters && !d->has_c));
    const int64_t idle = gemm_wgmma_idle_lines(d, l);
    a->a_bytes = (int32_t)(l->a_stage_bytes - idle * TILE_BOX_ROW);
    a->lines_a = cut && d->order_a == PTXPACK_ROW_MAJOR && l->cluster_n == 1 && idle == 0 &&
                         d->m % (l->cluster_m * l->block_m) != 0
                     ? d->m
                     : GEMM_ALL_LINES;
    a->lines_b = cut && d->order_b == PTXPACK_COLUMN_MAJOR && l->cluster_m == 1 &&
                         d->n % (l->cluster_n * l->block_n) != 0
                     ? d->n
                     : GEMM_ALL_LINES;
    a->cut_lines = a->lines_a != GEMM_ALL_LINES || a->lines_b != GEMM_ALL_LINES;
}

static ptxpack_status fill(const plan_problem *problem, const ptxpack_variant *row, const void *layout,
                           plan_head *head)
{
    const ptxpack_gemm_desc *desc = (const ptxpack_gemm_desc *)problem->desc;
    const gemm_geometry     *g = (const gemm_geometry *)problem->geometry;
    const gemm_wgmma_layout *l = (const gemm_wgmma_layout *)layout;
    gemm_wgmma_arguments    *a = &((ptxpack_gemm_plan *)head)->arguments.wgmma;
    gemm_tile_counts         t = gemm_wgmma_tiles(row, desc, g);
    int64_t                  clusters = gemm_wgmma_clusters(row, &t, problem->sm_count);
    fill_numbers(a, desc, g, &t, gemm_wgmma_block_k(row), group_of(row, &t, clusters));
    a->once = reads_b_once(row, desc, g, &t);
    fill_lines(a, desc, l, &t, clusters);
    head->grid[0] = (uint32_t)(clusters * t.cluster);
    /* Offline nothing is launched: loading will report it. */
    return ptxpack_driver_table(problem->handle) == NULL ? PTXPACK_OK : encode_maps(problem, l, a);
}

/* The arguments of both kernels begin alike. */
static ptxpack_status fill_fp8(const plan_problem *problem, const ptxpack_variant *row, const void *layout,
                               plan_head *head)
{
    const gemm_scale         *scale = ((const gemm_geometry *)problem->geometry)->scale;
    gemm_wgmma_fp8_arguments *a = &((ptxpack_gemm_plan *)head)->arguments.wgmma_fp8;
    a->scales_a = (int64_t)sizeof(float) * scale[GEMM_A].batch;
    a->scales_b = (int64_t)sizeof(float) * scale[GEMM_B].batch;
    a->scale_k = (int32_t)scale[GEMM_A].line;
    return fill(problem, row, layout, head);
}

/* ---- the launch --------------------------------------------------------------------------------------- */
/* A matrix without elements is never read: any aligned address will do. */
static ptxpack_status address(const plan_head *head, const void *buffers, void *arguments, uint32_t grid[3])
{
    const ptxpack_gemm_buffers *b = (const ptxpack_gemm_buffers *)buffers;
    const gemm_geometry        *g = &((const ptxpack_gemm_plan *)head)->geometry;
    gemm_wgmma_arguments       *a = (gemm_wgmma_arguments *)arguments;
    const map_list              maps = maps_of(a);
    const uint64_t              addresses[GEMM_MATRICES] = {b->a, b->b, b->c, b->d};
    ptxpack_status              status = PTXPACK_OK;
    (void)grid;
    a->bias = b->bias;
    a->d = b->d;
    a->alpha = b->alpha;
    a->beta = b->beta;
    a->early = (b->launch & PTXPACK_LAUNCH_CONSTANT_B) != 0;
    for (int i = 0; i < MAPS && status == PTXPACK_OK; i++) {
        const int matrix = matrix_of_map[i];
        uint64_t  address = g->matrix[matrix].bytes != 0 ? addresses[matrix] : b->d;
        if (takes_map(a, g->matrix[GEMM_C].bytes != 0, i))
            status = ptxpack_tensor_map_replace(head->handle, gemm_matrix_names[matrix], address, maps.map[i]);
    }
    return status;
}

static ptxpack_status address_fp8(const plan_head *head, const void *buffers, void *arguments, uint32_t grid[3])
{
    gemm_wgmma_fp8_arguments *a = (gemm_wgmma_fp8_arguments *)arguments;
    a->scale_a = ((const ptxpack_gemm_buffers *)buffers)->scale_a;
    a->scale_b = ((const ptxpack_gemm_buffers *)buffers)->scale_b;
    return address(head, buffers, arguments, grid);
}

static ptxpack_status fill_groups(const plan_problem *problem, const ptxpack_variant *row, const void *layout,
                                  plan_head *head)
{
    const ptxpack_gemm_desc     *desc = (const ptxpack_gemm_desc *)problem->desc;
    gemm_wgmma_groups_arguments *a = &((ptxpack_gemm_plan *)head)->arguments.wgmma_groups;
    a->groups = desc->groups;
    a->tiles_n = (int32_t)gemm_wgmma_tiles(row, desc, (const gemm_geometry *)problem->geometry).n;
    return fill(problem, row, layout, head);
}

static ptxpack_status address_groups(const plan_head *head, const void *buffers, void *arguments,
                                     uint32_t grid[3])
{
    ((gemm_wgmma_groups_arguments *)arguments)->starts = ((const ptxpack_gemm_buffers *)buffers)->group_starts;
    return address(head, buffers, arguments, grid);
}

static ptxpack_status fill_parts(const plan_problem *problem, const ptxpack_variant *row, const void *layout,
                                 plan_head *head)
{
    enum { WARPGROUP = 4 /* warps */ };
    const gemm_tile_counts t = gemm_wgmma_tiles(row, (const ptxpack_gemm_desc *)problem->desc,
                                                (const gemm_geometry *)problem->geometry);
    const gemm_cut_counts  cut = gemm_wgmma_cut(problem, row, &t);
    const int64_t          m = ptxpack_variant_parameter(row, "BLOCK_M", 1),
                  n = ptxpack_variant_parameter(row, "BLOCK_N", 1);
    const int64_t counters = cut.tiles * t.cluster * ptxpack_variant_parameter(row, "WARPGROUPS", 1) *
                             WARPGROUP * COUNTER_BYTES;
    const int64_t               held = gemm_wgmma_held(row, &t, problem->sm_count);
    gemm_wgmma_parts_arguments *a = &((ptxpack_gemm_plan *)head)->arguments.wgmma_parts;
    const ptxpack_status        status = fill(problem, row, layout, head);
    a->whole_tiles = (int32_t)(t.total - cut.tiles);
    a->cut_tiles = (int32_t)cut.tiles;
    a->tile_parts = (int32_t)cut.parts;
    a->part_blocks = (int32_t)cut.blocks;
    a->tiles_total = (int32_t)(t.total + cut.tiles * (cut.parts - 1));
    if (cut.tiles == 0)
        return status;
    quotient_inverse(cut.tiles, &a->cut_tiles_inverse, &a->cut_tiles_shift);
    head->grid[0] = (uint32_t)((a->tiles_total < held ? a->tiles_total : held) * t.cluster);
    head->counters = (uint64_t)counters;
    const int64_t places = cut.parts == 2 ? 1 : cut.parts; /* of two the first one that is done */
    head->workspace = head->counters + (uint64_t)(cut.tiles * t.cluster * places * m * n) * sizeof(float);
    return status;
}

static ptxpack_status address_parts(const plan_head *head, const void *buffers, void *arguments,
                                    uint32_t grid[3])
{
    gemm_wgmma_parts_arguments *a = (gemm_wgmma_parts_arguments *)arguments;
    a->counters = ((const ptxpack_gemm_buffers *)buffers)->workspace;
    a->parts = a->counters + head->counters;
    return address(head, buffers, arguments, grid);
}

static ptxpack_status derive(const ptxpack_variant *row, void *layout)
{
    return ptxpack_gemm_wgmma_layout(row, (gemm_wgmma_layout *)layout);
}

/* bf16 and f16 bare, with all that an epilogue can do, and SwiGLU; each with scales of another kind. */
static const uint16_t corners_fp8[] = {0, 3, 4, 66, 69, 70, 96, 105, 106};
static size_t         corners_fp8_of(const ptxpack_variant *row)
{
    enum { OF_SWIGLU = 3 };
    const size_t count = sizeof corners_fp8 / sizeof corners_fp8[0];
    return gemm_wgmma_gates(row) ? count : count - OF_SWIGLU;
}

static size_t corners_groups_of(const ptxpack_variant *row)
{
    return gemm_wgmma_gates(row) ? GEMM_GROUPS_CORNERS : GEMM_GROUPS_PLAIN_CORNERS;
}

static const argument_field fields[] = ARGUMENT_FIELDS(GEMM_WGMMA_ARGUMENTS, gemm_wgmma_arguments);
static const argument_field fields_fp8[] = ARGUMENT_FIELDS(GEMM_WGMMA_FP8_ARGUMENTS, gemm_wgmma_fp8_arguments);
static const argument_field fields_parts[] = ARGUMENT_FIELDS(GEMM_WGMMA_PARTS_ARGUMENTS,
                                                             gemm_wgmma_parts_arguments);
static const argument_field fields_groups[] = ARGUMENT_FIELDS(GEMM_WGMMA_GROUPS_ARGUMENTS,
                                                              gemm_wgmma_groups_arguments);
const plan_method           gemm_wgmma = {
              .file = "gemm/wgmma.ptx",
              PLAN_ARGUMENTS(fields, gemm_wgmma_arguments),
              .layout_bytes = sizeof(gemm_wgmma_layout),
              .derive = derive,
              .refusal = refusal,
              .cost = gemm_wgmma_cost,
              .symbols = symbols,
              .fill = fill,
              .address = address,
              .corners = gemm_corners,
              .corner_count = GEMM_CORNERS,
              .corners_of = corners_of,
};
const plan_method gemm_wgmma_fit = {
    .file = "gemm/wgmma_fit.ptx",
    .beside = &gemm_wgmma,
    PLAN_ARGUMENTS(fields, gemm_wgmma_arguments),
    .layout_bytes = sizeof(gemm_wgmma_layout),
    .derive = derive,
    .refusal = refusal_fit,
    .cost = gemm_wgmma_cost,
    .symbols = symbols,
    .fill = fill,
    .address = address,
    .corners = gemm_groups_corners,
    .corner_count = GEMM_GROUPS_CORNERS,
    .corners_of = corners_groups_of,
};
const plan_method gemm_wgmma_parts = {
    .file = "gemm/wgmma_parts.ptx",
    .beside = &gemm_wgmma,
    PLAN_ARGUMENTS(fields_parts, gemm_wgmma_parts_arguments),
    .layout_bytes = sizeof(gemm_wgmma_layout),
    .derive = derive,
    .refusal = refusal_parts,
    .cost = gemm_wgmma_cost_parts,
    .symbols = symbols_parts,
    .fill = fill_parts,
    .address = address_parts,
    .corners = gemm_groups_corners,
    .corner_count = GEMM_GROUPS_CORNERS,
    .corners_of = corners_groups_of,
};
const plan_method gemm_wgmma_fp8 = {
    .file = "gemm/wgmma_fp8.ptx",
    PLAN_ARGUMENTS(fields_fp8, gemm_wgmma_fp8_arguments),
    .layout_bytes = sizeof(gemm_wgmma_layout),
    .derive = derive,
    .refusal = refusal_fp8,
    .cost = gemm_wgmma_cost,
    .symbols = symbols_fp8,
    .fill = fill_fp8,
    .address = address_fp8,
    PLAN_CORNERS(corners_fp8),
    .corners_of = corners_fp8_of,
};
const plan_method gemm_wgmma_groups = {
    .file = "gemm/wgmma_groups.ptx",
    PLAN_ARGUMENTS(fields_groups, gemm_wgmma_groups_arguments),
    .layout_bytes = sizeof(gemm_wgmma_layout),
    .derive = derive,
    .refusal = refusal_groups,
    .cost = gemm_wgmma_cost_groups,
    .symbols = symbols_groups,
    .fill = fill_groups,
    .address = address_groups,
    .corners = gemm_groups_corners,
    .corner_count = GEMM_GROUPS_CORNERS,
    .corners_of = corners_groups_of,
};
