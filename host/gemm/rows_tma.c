/* rows_tma.c - the methods of the rows of ptx/gemm/rows_tma.ptx and, for a B of e4m3, of ptx/gemm/rows_e4m3.ptx, and for RMSNorm(A) of
 * ptx/gemm/rows_norm.ptx: products of few rows, where TMA brings B from memory once. */
#include <stdio.h>

#include "host/plan/quotient.h"
#include "host/plan/tensor_map.h"
#include "host/plan/tiles.h"
#include "op.h"
#include "wgmma_layout.h"

enum { BITS = 16, RANK = 3 };
static const char norm_w_name[] = "norm_w";

/* What a row of kernels.def says, and the boxes of its two matrices: {128 bytes of k, lines, ...}; and of a norm's weights, if it has one. */
typedef struct rows_tma_layout {
    int64_t         rows, columns, warps, warps_k, boxes, stages; /* boxes: of B, of a stage */
    ptxpack_tma_box a, b, w;
} rows_tma_layout;

/* The lines of A that a stage has: it takes no more rows. */
static int64_t a_lines_of(const ptxpack_variant *row) { return ptxpack_variant_parameter(row, "A_LINES", 0); }

/* The bits of an element of B. */
static int bits_of_b(const ptxpack_variant *row)
{
    return ptxpack_variant_parameter(row, "B_E4M3", 0) != 0 ? 8 : BITS;
}

/* The k of a box of 128 bytes. */
static int64_t box_k(int bits) { return 8 * TILE_BOX_ROW / bits; }

/* The boxes of B of a stage. */
static int64_t boxes_of(const ptxpack_variant *row)
{
    return ptxpack_variant_parameter(row, "WARPS", 1) / ptxpack_variant_parameter(row, "WARPS_N", 1) *
           ptxpack_variant_parameter(row, "K_BOXES", 1);
}

/* The k of a box, which the layout algebra describes, so many times. */
static ptxpack_status describe_box(const char *name, int bits, int64_t lines, int64_t boxes,
                                   ptxpack_tma_box *box)
{
    ptxpack_layout tile = tile_of_boxes(lines, box_k(bits), bits);
    *box = tile_box(&tile, RANK, bits);
    ptxpack_status status = tile_check_box(name, box, RANK, lines, box_k(bits), 1, 0);
    box->box_dim[2] = (uint32_t)boxes;
    box->bytes *= boxes;
    return status;
}

/* A line of weights for each box of k, as they are: all lanes read the same ones.  Its type and strides are those of A's box. */
static ptxpack_tma_box weights_box(const ptxpack_tma_box *a)
{
    ptxpack_tma_box box = *a;
    box.box_dim[1] = 1;
    box.bytes = TILE_BOX_ROW * (int64_t)box.box_dim[2];
    box.swizzle = PTXPACK_TMA_SWIZZLE_NONE;
    return box;
}

static ptxpack_status derive(const ptxpack_variant *row, void *out)
{
    rows_tma_layout *l = (rows_tma_layout *)out;
    *l = (rows_tma_layout){.rows = ptxpack_variant_parameter(row, "ROWS", 0),
                           .columns = 16 * ptxpack_variant_parameter(row, "TILES", 0),
                           .warps = ptxpack_variant_parameter(row, "WARPS", 1),
                           .boxes = boxes_of(row),
                           .stages = ptxpack_variant_parameter(row, "STAGES", 1)};
    l->warps_k = l->warps / ptxpack_variant_parameter(row, "WARPS_N", 1);
    const int      bits = bits_of_b(row);
    ptxpack_status status = describe_box("a", BITS, l->rows, l->boxes * BITS / bits, &l->a);
    status = status == PTXPACK_OK ? describe_box("b", bits, l->columns, l->boxes, &l->b) : status;
    if (gemm_normalises(row))
        l->w = weights_box(&l->a);
    l->a.bytes = l->a.bytes / l->rows * a_lines_of(row); /* as swizzled as eight lines are */
    l->a.box_dim[1] = (uint32_t)a_lines_of(row);
    const int64_t sums = l->warps_k * l->rows * (l->columns + 4) * (int64_t)sizeof(float);
    const int64_t bytes = l->stages * (l->a.bytes + l->b.bytes + l->w.bytes + 16) + sums + 16;
    if (status != PTXPACK_OK)
        return tile_refuse_row(row, "%s", ptxpack_detail(NULL));
    if (row->threads != 32 * (l->warps + 1))
        return tile_refuse_row(row, "threads is not 32 * (WARPS + 1)");
    return bytes == row->shared_bytes
               ? PTXPACK_OK
               : tile_refuse_row(row, "shared_bytes is %d, its stages and sums take %lld", row->shared_bytes,
                                 (long long)bytes);
}

static void symbols(const plan_problem *problem, const void *layout, symbol_list *list)
{
    (void)layout;
    gemm_build_symbols((const ptxpack_gemm_desc *)problem->desc, false, list);
}

static void symbols_e4m3(const plan_problem *problem, const void *layout, symbol_list *list)
{
    symbols(problem, layout, list);
    symbol_add(list, "SCALES", ((const ptxpack_gemm_desc *)problem->desc)->scales);
    symbol_add(list, "SCALE_BLOCK", PTXPACK_SCALE_BLOCK);
}

/* Into `box` type, extents and strides of the problem's matrix: k is cut into boxes, which lie in a row. */
static ptxpack_status map_of(const ptxpack_gemm_desc *d, const gemm_geometry *g, int matrix,
                             ptxpack_tma_box *box)
{
    ptxpack_status status = ptxpack_gemm_wgmma_map(d, g, matrix, box);
    const int64_t  k = TILE_BOX_ROW / g->matrix[matrix].element;
    box->global_dim[0] = (uint64_t)k;
    box->global_dim[2] = (uint64_t)(d->k / k);
    box->global_strides[1] = TILE_BOX_ROW;
    return status;
}

/* ---- the choice --------------------------------------------------------------------------------- */
static const char *refusal(const plan_problem *problem, const ptxpack_variant *row, char line[PLAN_LINE])
{
    enum { EXTENT_LIMIT = INT32_MAX - 65536 };
    const ptxpack_gemm_desc *d = (const ptxpack_gemm_desc *)problem->desc;
    const gemm_geometry     *g = (const gemm_geometry *)problem->geometry;
    const int                most = (int)a_lines_of(row);
    const int                unit = (int)box_k(bits_of_b(row));
    const char              *missing = ptxpack_tensor_map_refusal(problem->handle);
    ptxpack_tma_box          box = {.status = PTXPACK_OK};
    if (missing != NULL)
        snprintf(line, PLAN_LINE, "%s", missing);
    else if (d->m > most)
        snprintf(line, PLAN_LINE, "m is %d, more than %d", (int)d->m, most);
    else if (g->batch > 1)
        snprintf(line, PLAN_LINE, "batch: takes one product");
    else if (d->order_a != PTXPACK_ROW_MAJOR || d->order_b != PTXPACK_COLUMN_MAJOR)
        snprintf(line, PLAN_LINE, "order_a, order_b: takes A row-major and B column-major");
    else if (d->k == 0 || d->k % unit != 0)
        snprintf(line, PLAN_LINE, "k is %d, no multiple of %d above 0", (int)d->k, unit);
    else if (d->n % 8 != 0)
        snprintf(line, PLAN_LINE, "n is %d, no multiple of 8", (int)d->n);
    else if (d->n > EXTENT_LIMIT || d->k > EXTENT_LIMIT)
        snprintf(line, PLAN_LINE, "takes extents up to %d", (int)EXTENT_LIMIT);
    else if (map_of(d, g, GEMM_A, &box) != PTXPACK_OK || map_of(d, g, GEMM_B, &box) != PTXPACK_OK)
        snprintf(line, PLAN_LINE, "%s", ptxpack_detail(NULL));
    else
        return NULL;
    return line;
}

/* Offline a row is only chosen, as for an H200. */
static int64_t sms_of(const plan_problem *problem) { return problem->sm_count > 0 ? problem->sm_count : 132; }

/* How a problem is cut: items of a tile, or of one of the parts of its k. */
typedef struct cut {
    int64_t tiles, splits, part_blocks, all_blocks, grid;
    double  clocks;
} cut;

/* Lines of A that a block of k costs: one beyond m, which TMA makes zeros, four times as much. */
static double lines_read(const ptxpack_variant *row, int64_t m)
{
    enum { ZEROS = 4 };
    return (double)(m + ZEROS * (a_lines_of(row) - m));
}

/* The clocks of the busiest block: its blocks of k, 128 bytes of each column, at the speed of memory, or of the L2 cache, from which A comes,
 * too; the ends of its items, of which the stages hide a part; and what it takes until the parts of a tile are added up.  From times of 35
 * products of 1 to 32 rows on an H200, and of 9 and 12 rows. */
static double clocks_of(const ptxpack_variant *row, const cut *c, int64_t m, int64_t sms)
{
    enum {
        MEMORY = 19,
        L2 = 38 /* bytes a clock and SM */,
        LINE = 1 /* of A, of each block: fewer leave room for more stages */,
        END = 8 /* of a row of 16 columns */,
        SHARE = 3000,
        MERGE = 3000
    };
    const double tiles = (double)ptxpack_variant_parameter(row, "TILES", 1);
    const double rows = (double)ptxpack_variant_parameter(row, "ROWS", 1);
    const double k = (double)(TILE_BOX_ROW * boxes_of(row));
    const double a = lines_read(row, m) * BITS / bits_of_b(row);
    const double memory = k * 16 * tiles / MEMORY, cache = k * (16 * tiles + a) / L2;
    const double block = (memory > cache ? memory : cache) + LINE * (double)a_lines_of(row);
    const double item = (double)c->part_blocks * block + END * rows * tiles;
    return (double)divided_up(c->tiles * c->splits, sms) * (item + (c->splits > 1 ? SHARE : 0)) +
           (c->splits > 1 ? MERGE : 0);
}

/* How much longer whole tiles take for A, which takes a part of the cache's speed: it is read again for each tile.  Of parts this was not
 * timed, nor of a B of e4m3. */
static double beside_a(const ptxpack_variant *row, const cut *c, int64_t m)
{
    static const double each = 0.07; /* for a line of A to each column */
    const double        columns = 16 * (double)ptxpack_variant_parameter(row, "TILES", 1);
    return c->splits == 1 && bits_of_b(row) == BITS ? 1 + each * lines_read(row, m) / columns : 1;
}

/* The number of parts that takes the least time. */
static cut cut_of(const plan_problem *problem, const ptxpack_variant *row)
{
    enum { MOST_SPLITS = 16 };
    const ptxpack_gemm_desc *d = (const ptxpack_gemm_desc *)problem->desc;
    const int64_t            sms = sms_of(problem);
    const int64_t            blocks = divided_up(d->k, box_k(bits_of_b(row)) * boxes_of(row));
    cut                      best = {.clocks = -1};
    for (int64_t splits = 1; splits <= MOST_SPLITS && splits <= blocks; splits++) {
        cut c = {.tiles = divided_up(d->n, 16 * ptxpack_variant_parameter(row, "TILES", 1)),
                 .part_blocks = divided_up(blocks, splits),
                 .all_blocks = blocks};
        c.splits = divided_up(blocks, c.part_blocks);
        c.clocks = clocks_of(row, &c, d->m, sms);
        c.grid = c.tiles * c.splits < sms ? c.tiles * c.splits : sms;
        if (best.clocks < 0 || c.clocks < best.clocks)
            best = c;
    }
    best.clocks *= beside_a(row, &best, d->m);
    return best;
}

/* Above 16 rows wgmma is faster by itself, unless k is long, few tiles of 64 columns have all of it, or tiles of 256 columns keep all SMs
 * busy: with 32 rows of 6144 x 4096 it reads 3374 GB/s on an H200, and this kernel 3134, of 28672 x 4096 3976 and 3824, of 57344 x 8192 4189
 * and 4285.  Where B may be read before the kernel before has ended, these blocks, which share it evenly, hide more of it: in 27 of 35 such
 * products they were the faster ones, by up to 20 %, and lost 8 % at most. */
static size_t yields(const plan_problem *problem)
{
    enum { FEW = 16, COLUMNS = 256, LOW_COLUMNS = 64, RANKS = 2 /* rows.ptx, wgmma.ptx */ };
    const ptxpack_gemm_desc *d = (const ptxpack_gemm_desc *)problem->desc;
    const int64_t            sms = sms_of(problem);
    const bool               wide = divided_up(d->n, COLUMNS) >= sms;
    const bool               short_k = d->k <= 2 * (int64_t)d->n && divided_up(d->n, LOW_COLUMNS) >= sms / 5;
    const bool               early = (d->launch & PTXPACK_LAUNCH_CONSTANT_B) != 0;
    return d->m > FEW && !early && short_k && !wide ? RANKS : 0;
}

static double cost(const plan_problem *problem, const ptxpack_variant *row)
{
    return cut_of(problem, row).clocks;
}

/* ---- the plan ----------------------------------------------------------------------------------- */
static ptxpack_status encode_maps(const plan_problem *problem, const rows_tma_layout *l,
                                  gemm_rows_tma_arguments *a)
{
    const int                    matrices[] = {GEMM_A, GEMM_B};
    const ptxpack_tma_box *const boxes[] = {&l->a, &l->b};
    argument_tensor_map *const   maps[] = {&a->map_a, &a->map_b};
    ptxpack_status               status = PTXPACK_OK;
    for (int i = 0; i < 2 && status == PTXPACK_OK; i++) {
        ptxpack_tma_box box = *boxes[i];
        status = map_of((const ptxpack_gemm_desc *)problem->desc, (const gemm_geometry *)problem->geometry,
                        matrices[i], &box);
        if (status != PTXPACK_OK)
            return ptxpack_fail(problem->handle, status, "%s", ptxpack_detail(NULL));
        status = ptxpack_tensor_map_encode(problem->handle, gemm_matrix_names[matrices[i]], &box, maps[i]);
    }
    return status;
}

/* The weights are the one line of a matrix of boxes. */
static ptxpack_status encode_weights(const plan_problem *problem, const rows_tma_layout *l,
                                     argument_tensor_map *map)
{
    const ptxpack_gemm_desc *d = (const ptxpack_gemm_desc *)problem->desc;
    ptxpack_tma_box          box = l->w;
    ptxpack_status           status = map_of(d, (const gemm_geometry *)problem->geometry, GEMM_A, &box);
    if (status != PTXPACK_OK)
        return ptxpack_fail(problem->handle, status, "%s", ptxpack_detail(NULL));
    box.global_dim[1] = 1;
    box.global_strides[0] = (uint64_t)d->k * BITS / 8;
    return ptxpack_tensor_map_encode(problem->handle, norm_w_name, &box, map);
}

static ptxpack_status fill(const plan_problem *problem, const ptxpack_variant *row, const void *layout,
                           plan_head *head)
{
    enum { ELEMENT = sizeof(uint16_t), COUNTER = 4, ALIGNMENT = 16 };
    const ptxpack_gemm_desc *d = (const ptxpack_gemm_desc *)problem->desc;
    const gemm_matrix       *x = ((const gemm_geometry *)problem->geometry)->matrix;
    const rows_tma_layout   *l = (const rows_tma_layout *)layout;
    const cut                c = cut_of(problem, row);
    gemm_rows_tma_arguments *a = &((ptxpack_gemm_plan *)head)->arguments.rows_tma;
    a->c_line = x[GEMM_C].stride * ELEMENT;
    a->d_line = x[GEMM_D].stride * ELEMENT;
    a->m = d->m;
    a->n = d->n;
    a->splits = (int32_t)c.splits;
    quotient_inverse(c.splits, &a->splits_inverse, &a->splits_shift);
    a->items = (int32_t)(c.tiles * c.splits);
    a->part_blocks = (int32_t)c.part_blocks;
    a->all_blocks = (int32_t)c.all_blocks;
    head->grid[0] = (uint32_t)c.grid;
    if (c.splits > 1) {
        head->counters = (uint64_t)divided_up(c.tiles * COUNTER, ALIGNMENT) * ALIGNMENT;
        const int64_t sums = l->columns + gemm_normalises(row); /* and a row's sum of squares */
        head->workspace = head->counters + (uint64_t)(c.tiles * c.splits * l->rows * sums) * sizeof(float);
    }
    /* Offline nothing is launched: loading will report it. */
    return ptxpack_driver_table(problem->handle) == NULL ? PTXPACK_OK : encode_maps(problem, l, a);
}

/* The arguments of both kernels begin alike. */
static ptxpack_status fill_e4m3(const plan_problem *problem, const ptxpack_variant *row, const void *layout,
                                plan_head *head)
{
    ((ptxpack_gemm_plan *)head)->arguments.rows_e4m3.scale_k =
        (int32_t)((const gemm_geometry *)problem->geometry)->scale[GEMM_B].line;
    return fill(problem, row, layout, head);
}

static ptxpack_status fill_norm(const plan_problem *problem, const ptxpack_variant *row, const void *layout,
                                plan_head *head)
{
    const ptxpack_gemm_desc  *d = (const ptxpack_gemm_desc *)problem->desc;
    gemm_rows_norm_arguments *a = &((ptxpack_gemm_plan *)head)->arguments.rows_norm;
    a->inverse = 1.0f / (float)d->k;
    a->eps = d->norm_eps;
    ptxpack_status status = fill(problem, row, layout, head);
    return status != PTXPACK_OK || ptxpack_driver_table(problem->handle) == NULL
               ? status
               : encode_weights(problem, (const rows_tma_layout *)layout, &a->map_w);
}

static ptxpack_status address(const plan_head *head, const void *buffers, void *arguments, uint32_t grid[3])
{
    const ptxpack_gemm_buffers *b = (const ptxpack_gemm_buffers *)buffers;
    gemm_rows_tma_arguments    *a = (gemm_rows_tma_arguments *)arguments;
    (void)grid;
    a->c = b->c;
    a->d = b->d;
    a->bias = b->bias;
    a->counters = b->workspace;
    a->parts = b->workspace + head->counters;
    a->alpha = b->alpha;
    a->beta = b->beta;
    a->early = (b->launch & PTXPACK_LAUNCH_CONSTANT_B) != 0;
    ptxpack_status status = ptxpack_tensor_map_replace(head->handle, gemm_matrix_names[GEMM_A], b->a,
                                                       &a->map_a);
    return status == PTXPACK_OK
               ? ptxpack_tensor_map_replace(head->handle, gemm_matrix_names[GEMM_B], b->b, &a->map_b)
               : status;
}

static ptxpack_status address_e4m3(const plan_head *head, const void *buffers, void *arguments,
                                   uint32_t grid[3])
{
    ((gemm_rows_e4m3_arguments *)arguments)->scale_b = ((const ptxpack_gemm_buffers *)buffers)->scale_b;
    return address(head, buffers, arguments, grid);
}

static ptxpack_status address_norm(const plan_head *head, const void *buffers, void *arguments,
                                   uint32_t grid[3])
{
    ptxpack_status status = address(head, buffers, arguments, grid);
    return status == PTXPACK_OK ? ptxpack_tensor_map_replace(head->handle, norm_w_name,
                                                             ((const ptxpack_gemm_buffers *)buffers)->norm_w,
                                                             &((gemm_rows_norm_arguments *)arguments)->map_w)
                                : status;
}

static const argument_field fields[] = ARGUMENT_FIELDS(GEMM_ROWS_TMA_ARGUMENTS, gemm_rows_tma_arguments);
static const argument_field fields_norm[] = ARGUMENT_FIELDS(GEMM_ROWS_NORM_ARGUMENTS, gemm_rows_norm_arguments);
static const argument_field fields_e4m3[] = ARGUMENT_FIELDS(GEMM_ROWS_E4M3_ARGUMENTS, gemm_rows_e4m3_arguments);
const plan_method           gemm_rows_tma = {
              .file = "gemm/rows_tma.ptx",
              PLAN_ARGUMENTS(fields, gemm_rows_tma_arguments),
              .layout_bytes = sizeof(rows_tma_layout),
              .derive = derive,
              .refusal = refusal,
              .cost = cost,
              .yields = yields,
              .symbols = symbols,
              .fill = fill,
              .address = address,
              .corners = gemm_rows_corners,
              .corner_count = GEMM_ROWS_CORNERS,
};

const plan_method gemm_rows_norm = {
    .file = "gemm/rows_norm.ptx",
    PLAN_ARGUMENTS(fields_norm, gemm_rows_norm_arguments),
    .layout_bytes = sizeof(rows_tma_layout),
    .derive = derive,
    .refusal = refusal,
    .cost = cost,
    .symbols = symbols,
    .fill = fill_norm,
    .address = address_norm,
    .corners = gemm_rows_corners,
    .corner_count = GEMM_ROWS_CORNERS,
};

/* Each kind of scales, bare, with C, bias and GELU, and with a bias and SwiGLU. */
static const uint16_t corners_e4m3[] = {0, 1, 2, 108, 109, 110, 132, 133, 134};
const plan_method     gemm_rows_e4m3 = {
        .file = "gemm/rows_e4m3.ptx",
        PLAN_ARGUMENTS(fields_e4m3, gemm_rows_e4m3_arguments),
        .layout_bytes = sizeof(rows_tma_layout),
        .derive = derive,
        .refusal = refusal,
        .cost = cost,
        .symbols = symbols_e4m3,
        .fill = fill_e4m3,
        .address = address_e4m3,
        PLAN_CORNERS(corners_e4m3),
};
