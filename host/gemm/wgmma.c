/* wgmma.c - the methods of the rows of ptx/gemm/wgmma.ptx, for tiles that fill the GPU badly of ptx/gemm/wgmma_fit.ptx and
 * wgmma_parts.ptx, for A and B of e4m3 of ptx/gemm/wgmma_fp8.ptx, and for groups of rows of ptx/gemm/wgmma_groups.ptx. */
#include <stdio.h>

#include "host/plan/tensor_map.h"
#include "op.h"
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
/* Encodes the maps of the matrices that the problem has. */
static ptxpack_status encode_maps(const plan_problem *problem, const gemm_wgmma_layout *l,
                                  gemm_wgmma_arguments *a)
{
    const ptxpack_gemm_desc   *d = (const ptxpack_gemm_desc *)problem->desc;
    argument_tensor_map *const maps[GEMM_MATRICES] = {&a->map_a, &a->map_b, &a->map_c, &a->map_d};
    ptxpack_status             status = PTXPACK_OK;
    for (int i = 0; i < GEMM_MATRICES && status == PTXPACK_OK; i++) {
        ptxpack_tma_box box;
        if (i == GEMM_C && !d->has_c)
            continue;
        status = ptxpack_gemm_wgmma_box(d, (const gemm_geometry *)problem->geometry, l, i, &box);
        if (status != PTXPACK_OK)
            return ptxpack_fail(problem->handle, status, "%s", ptxpack_detail(NULL));
        status = ptxpack_tensor_map_encode(problem->handle, gemm_matrix_names[i], &box, maps[i]);
    }
    return status;
}

/* ---- tiles -------------------------------------------------------------------------------------------- */
static bool is_fp8(const ptxpack_variant *row) { return ptxpack_variant_parameter(row, "FP8", 0) != 0; }

/* The k of a block: 128 bytes. */
static int64_t block_k_of(const ptxpack_variant *row) { return is_fp8(row) ? TILE_BOX_ROW : TILE_BOX_ROW / 2; }

/* Tiles of clusters. */
typedef struct tile_counts {
    int64_t m, n, total;
    int64_t cluster;  /* blocks */
    int64_t k_blocks; /* of a block of the cluster */
} tile_counts;

static tile_counts count_tiles(const ptxpack_variant *row, const ptxpack_gemm_desc *d, const gemm_geometry *g)
{
    int64_t     cluster_m = ptxpack_variant_parameter(row, "CLUSTER_M", 1);
    int64_t     cluster_n = ptxpack_variant_parameter(row, "CLUSTER_N", 1);
    int64_t     cluster_k = ptxpack_variant_parameter(row, "CLUSTER_K", 1);
    tile_counts t = {
        .m = divided_up(d->m, cluster_m * ptxpack_variant_parameter(row, "BLOCK_M", 1)),
        .n = divided_up(d->n, cluster_n * ptxpack_variant_parameter(row, "BLOCK_N", 1)),
        .cluster = cluster_m * cluster_n * cluster_k,
        .k_blocks = d->k > 0 ? divided_up(d->k, cluster_k * block_k_of(row)) : 1,
    };
    if (g->groups > 0) /* at most */
        t.m = (int64_t)gemm_groups_most_tiles(d->groups, d->m,
                                              cluster_m * ptxpack_variant_parameter(row, "BLOCK_M", 1));
    t.total = t.m * t.n <= INT32_MAX ? t.m * t.n * g->batch : INT64_MAX;
    return t;
}

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
    enum { MARGIN = 4096, TILE_LIMIT = INT32_MAX / 2 }; /* coordinates beyond the last one are 32 bits, too */
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
    tile_counts t = count_tiles(row, desc, geometry);
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

/* Offline a row is only chosen, as for an H200. */
static int64_t sms_of(int sm_count) { return sm_count > 0 ? sm_count : 132; }

/* As many clusters as the GPU holds: the rest of a group of SMs does not hold a whole one of more than two blocks. */
static int64_t clusters_held(const ptxpack_variant *row, const tile_counts *t, int sm_count)
{
    const int64_t places = sms_of(sm_count) * row->blocks_per_sm / t->cluster;
    const int64_t held = t->cluster > 2 ? places - places / 10 : places;
    return held > 0 ? held : 1;
}

static int64_t clusters_at_once(const ptxpack_variant *row, const tile_counts *t, int sm_count)
{
    const int64_t held = clusters_held(row, t, sm_count);
    return held < t->total ? held : t->total;
}

/* Each cluster takes one tile after another; where its blocks share k, there is one cluster for each tile. */
static int64_t clusters_of(const ptxpack_variant *row, const tile_counts *t, int sm_count)
{
    return ptxpack_variant_parameter(row, "CLUSTER_K", 1) > 1 ? t->total : clusters_at_once(row, t, sm_count);
}

/* ---- blocks of k -------------------------------------------------------------------------------------- */
/* What a block of k needs, 128 bytes of it: block_m block_n 128 / 4096 clocks of the tensor cores, for which e4m3 is twice as fast as
 * 16 bits, which reach SPEED percent of that speed if all SMs are busy; and its bytes from L2, some of which the blocks of a cluster
 * share.  128 bytes of lines that do not all begin where a line of L2 does take one and a half accesses in the mean, and those of lines that
 * do not all begin at a sector of L2 two and a half. */
typedef struct block_costs {
    double arithmetic; /* clocks */
    double busy;       /* the same if other blocks of the SM fill its gaps */
    double bytes;      /* as many as the accesses to L2 could bring */
    double rate;       /* of them, a clock and SM, at most */
    double together;   /* how much longer than alone blocks of one SM take */
} block_costs;

static double accesses_of(const gemm_matrix *x) /* to L2, for each line of it */
{
    enum { SECTOR = 32, L2_LINE = 128 };
    const int64_t stride = x->stride * x->element;
    return stride % L2_LINE == 0 ? 1 : stride % SECTOR == 0 ? 1.5 : 2.5;
}

/* So few rows that reading B is what takes the time. */
static bool waits_for_b(const plan_problem *problem)
{
    enum { FEW = 128 };
    return ((const ptxpack_gemm_desc *)problem->desc)->m <= FEW;
}

static block_costs costs_of_block(const plan_problem *problem, const ptxpack_variant *row)
{
    enum {
        BYTES_A_CLOCK = 4096 /* of k, for each row and column */,
        FILLED = 90 /* percent */,
        LOW = 64 /* rows of the smallest tiles */
    };
    const gemm_matrix *x = ((const gemm_geometry *)problem->geometry)->matrix;
    const double       m = (double)ptxpack_variant_parameter(row, "BLOCK_M", 1);
    const double       n = (double)ptxpack_variant_parameter(row, "BLOCK_N", 1);
    const double       speed = (double)ptxpack_variant_parameter(row, "SPEED", 100);
    const double       least = m * n * TILE_BOX_ROW / BYTES_A_CLOCK * 100;
    const double lines = m / (double)ptxpack_variant_parameter(row, "CLUSTER_N", 1) * accesses_of(&x[GEMM_A]) +
                         n / (double)ptxpack_variant_parameter(row, "CLUSTER_M", 1) * accesses_of(&x[GEMM_B]);
    const bool low = m == LOW && ptxpack_variant_parameter(row, "CLUSTER_M", 1) == 1 &&
                     ptxpack_variant_parameter(row, "CLUSTER_K", 1) == 1 && !waits_for_b(problem);
    double rate = is_fp8(row) ? 64 : 80;
    if (low && !is_fp8(row)) /* many want the same B: their copies are slower */
        rate = n > LOW ? 34 : 50;
    return (block_costs){.arithmetic = least / speed,
                         .busy = least / (speed > FILLED || is_fp8(row) ? speed : FILLED),
                         .bytes = lines * TILE_BOX_ROW,
                         .rate = rate,
                         .together = is_fp8(row) ? 1 : 1.08};
}

/* The clocks of `share` blocks of an SM, one of k each, while `busy` of the GPU's SMs work. */
static double block_clocks(const block_costs *c, double busy, double share)
{
    enum { L2_BYTES_ALL = 8400 /* a clock, to all SMs together */ };
    const double rate = L2_BYTES_ALL / busy < c->rate ? L2_BYTES_ALL / busy : c->rate;
    const double copies = c->bytes / rate, most = copies > c->busy ? copies : c->busy;
    const double all = share > 1 ? share * most * c->together : most;
    return c->arithmetic > all ? c->arithmetic : all;
}

/* Clocks in which memory brings A and B, once each, if so many SMs ask for them. */
static double memory_clocks(const plan_problem *problem, double busy)
{
    enum { MEMORY_BYTES = 16 /* a clock and SM */ };
    static const double idle = 0.06; /* it takes so much longer where few SMs ask */
    const gemm_matrix  *x = ((const gemm_geometry *)problem->geometry)->matrix;
    const double        sms = (double)sms_of(problem->sm_count);
    return (double)(x[GEMM_A].bytes + x[GEMM_B].bytes) / MEMORY_BYTES / sms * (1 + idle * (1 - busy / sms));
}

/* ---- parts of tiles ----------------------------------------------------------------------------------- */
/* What is cut, and what that brings.  Tiles are those of clusters. */
typedef struct cut_counts {
    int64_t tiles;  /* that are cut: the last ones, which do not fill a round */
    int64_t parts;  /* of each of them */
    int64_t blocks; /* of k, of a part */
    double  saved;  /* clocks that the blocks of k of the last round take less */
    double  added;  /* clocks for the sums of parts */
} cut_counts;

/* Each of these rows has one block for each SM, and at most one part.  Sums go to memory and come back (ptx/gemm/tile_part.ptx).  From times
 * on an H200 of 2 to 32 parts of 128 x 128. */
static cut_counts cut_tiles(const plan_problem *problem, const ptxpack_variant *row, const tile_counts *t)
{
    enum { MOST = 32 /* bits of a word */, MOVE = 8 /* sums a clock, there and back */ };
    enum { TWO = 4500, MORE = 5000, EACH = 340 /* clocks until parts are there, of more than two for each */ };
    enum { WORTH = 25 /* it must save one part of so many: while SMs rest, the others run faster */ };
    const double      sums = (double)(ptxpack_variant_parameter(row, "BLOCK_M", 1) *
                                 ptxpack_variant_parameter(row, "BLOCK_N", 1));
    const int64_t     held = clusters_held(row, t, problem->sm_count), rest = t->total % held;
    const block_costs costs = costs_of_block(problem, row);
    const double whole = rest > 0 ? (double)t->k_blocks * block_clocks(&costs, (double)(rest * t->cluster), 1)
                                  : 0;
    cut_counts   best = {0};
    for (int64_t parts = 2; rest > 0 && parts <= MOST && parts * rest <= held && parts <= t->k_blocks;
         parts++) {
        const int64_t blocks = divided_up(t->k_blocks, parts);
        const double  busy = (double)(rest * parts * t->cluster);
        const double  memory = memory_clocks(problem, busy) * (double)rest / (double)t->total;
        const double  part = (double)blocks * block_clocks(&costs, busy, 1);
        const double  saved = whole - (part > memory ? part : memory);
        const double  added = sums / MOVE + (parts == 2 ? TWO : MORE + EACH * (double)parts);
        if (saved - added > best.saved - best.added && divided_up(t->k_blocks, blocks) == parts)
            best = (cut_counts){rest, parts, blocks, saved, added};
    }
    if ((best.saved - best.added) * WORTH < whole * (double)divided_up(t->total, held))
        return (cut_counts){0};
    return best;
}

static void symbols_parts(const plan_problem *problem, const void *layout, symbol_list *list)
{
    symbols(problem, layout, list);
    gemm_wgmma_row_symbols((const gemm_wgmma_layout *)layout, list);
}

static const char *refusal_parts(const plan_problem *problem, const ptxpack_variant *row, char line[PLAN_LINE])
{
    if (!((const ptxpack_gemm_desc *)problem->desc)->has_c)
        return refusal(problem, row, line);
    snprintf(line, PLAN_LINE, "has_c: takes no C");
    return line;
}

/* ---- the cost ----------------------------------------------------------------------------------------- */
/* Clocks of rounds of tiles, `held` at once, of which one takes `round`, and `last` where few are left: these may not be enough for memory
 * to be busy. */
static double rounds_clocks(int64_t tiles, int64_t held, double round, double last, double memory)
{
    const int64_t rounds = divided_up(tiles, held);
    const double  rest = memory * (double)(tiles - (rounds - 1) * held) / (double)tiles;
    const double  bound = memory - rest + (rest > last ? rest : last);
    return bound > (double)rounds * round ? bound : (double)rounds * round;
}

/* The cost in clocks.  Every place for a cluster counts as many tiles as the busiest one.  The time of a tile is that of its blocks of
 * k plus the work that does not overlap with the next tile.  The blocks of one SM share both.  The costs of e4m3 were fitted apart: what
 * memory takes is in their SPEED. */
static double cost_cut(const plan_problem *problem, const ptxpack_variant *row, const cut_counts *cut)
{
    enum {
        FILL = 3500,
        CLUSTER = 1000 /* to begin together */,
        BOX = 64 /* columns that are stored together */,
        STORE = 4000 /* 128 rows and 256 columns */,
        EXCHANGE = 2600 /* with each of the blocks that share k */,
        EXCHANGE_FP8 = 8500
    };
    static const double narrow = 0.85; /* of STORE, of the smaller tiles */
    double              m = (double)ptxpack_variant_parameter(row, "BLOCK_M", 1);
    double              n = (double)ptxpack_variant_parameter(row, "BLOCK_N", 1);
    double              cluster_k = (double)ptxpack_variant_parameter(row, "CLUSTER_K", 1);
    int                 sm_count = problem->sm_count;
    tile_counts         t = count_tiles(row, (const ptxpack_gemm_desc *)problem->desc,
                                        (const gemm_geometry *)problem->geometry);
    int64_t             held = clusters_at_once(row, &t, sm_count);
    double              rounds = (double)divided_up(t.total, held);
    double              share = (double)divided_up(held * t.cluster, sms_of(sm_count)); /* blocks of an SM */
    double              busy = (double)(held * t.cluster) / share;
    const block_costs   costs = costs_of_block(problem, row);
    double              round = (double)t.k_blocks * block_clocks(&costs, busy, share);
    double              exchange = cluster_k == 1 ? 0 : is_fp8(row) ? EXCHANGE_FP8 : EXCHANGE * cluster_k;
    double              memory = is_fp8(row) ? 0 : memory_clocks(problem, busy);
    double              begin = FILL + (t.cluster > cluster_k && !is_fp8(row) ? CLUSTER : 0);
    double              boxes = (double)divided_up((int64_t)n, BOX);
    double              blocks = rounds_clocks(t.total, held, round, round / share, memory);
    if (cut->parts > 0)
        blocks = rounds * round - cut->saved > memory ? rounds * round - cut->saved : memory;
    double store = STORE * m * boxes * BOX / (128 * 256);
    if (!is_fp8(row) && !waits_for_b(problem))
        store *= share * (m * n <= 128 * 128 ? narrow : 1);
    return begin + blocks + rounds * (exchange + store) + cut->added;
}

static double cost(const plan_problem *problem, const ptxpack_variant *row)
{
    const cut_counts none = {0};
    return cost_cut(problem, row, &none);
}

static double cost_parts(const plan_problem *problem, const ptxpack_variant *row)
{
    const tile_counts t = count_tiles(row, (const ptxpack_gemm_desc *)problem->desc,
                                      (const gemm_geometry *)problem->geometry);
    const cut_counts  cut = cut_tiles(problem, row, &t);
    return cost_cut(problem, row, &cut);
}

/* The same with as many tiles as groups of any size have.  What is read from memory is the B of a group, once: its tiles share the
 * time that takes, a part of the GPU's for each SM.  A part of the arithmetic does not go on beside the copies. */
static double cost_groups(const plan_problem *problem, const ptxpack_variant *row)
{
    enum {
        BYTES_A_CLOCK = 4096,
        L2_BYTES = 64,
        MEMORY_BYTES = 20 /* a clock and SM */,
        NARROW = 64,
        NARROW_BYTES = 17 /* the same for tiles of so few columns */,
        FILL = 3500,
        STORE = 3000,
        BESIDE = 16
    };
    const ptxpack_gemm_desc *d = (const ptxpack_gemm_desc *)problem->desc;
    double                   m = (double)ptxpack_variant_parameter(row, "BLOCK_M", 1);
    double                   n = (double)ptxpack_variant_parameter(row, "BLOCK_N", 1);
    double                   cluster_m = (double)ptxpack_variant_parameter(row, "CLUSTER_M", 1);
    double                   speed = (double)ptxpack_variant_parameter(row, "SPEED", 100) / 100;
    double                   groups = d->groups < d->m ? d->groups : d->m;
    tile_counts              t = count_tiles(row, d, (const gemm_geometry *)problem->geometry);
    double                   down = gemm_groups_usual_tiles(d->groups, d->m, (int64_t)(m * cluster_m));
    double                   places = (double)(sms_of(problem->sm_count) * row->blocks_per_sm / t.cluster);
    double                   tiles = down * (double)t.n, rounds = tiles / places + 0.5 / row->blocks_per_sm;
    double                   arithmetic = m * n * TILE_BOX_ROW / BYTES_A_CLOCK / speed;
    double                   block = TILE_BOX_ROW * (m + n / cluster_m) / L2_BYTES;
    double                   from_memory = TILE_BOX_ROW * n / cluster_m * groups / down /
                         (n > NARROW ? MEMORY_BYTES : NARROW_BYTES);
    block = arithmetic > block ? arithmetic : block;
    block = row->blocks_per_sm * ((from_memory > block ? from_memory : block) + arithmetic / BESIDE);
    rounds = rounds > 1 ? rounds : 1;
    return FILL + rounds * ((double)t.k_blocks * block + STORE * m * n / (128 * 256));
}

/* ---- the plan ----------------------------------------------------------------------------------------- */
/* Tiles are numbered in groups of rows, each group from left to right and each column of it from top to
 * bottom.  The tiles that run at the same time are then about as high as wide, so that they share the most
 * of A and B. */
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

/* Whether at most two tiles, which are worked on together, want the same columns of B. */
static bool reads_b_once(const ptxpack_variant *row, const ptxpack_gemm_desc *d, const gemm_geometry *g,
                         const tile_counts *t)
{
    const int64_t height = ptxpack_variant_parameter(row, "BLOCK_M", 1);
    const double  below = g->groups > 0 ? gemm_groups_usual_tiles(d->groups, d->m, height) / d->groups
                                        : (double)t->m;
    return below <= 2 && (g->batch == 1 || g->matrix[GEMM_B].batch > 0);
}

static void fill_numbers(gemm_wgmma_arguments *a, const ptxpack_gemm_desc *d, const gemm_geometry *g,
                         const tile_counts *t, int64_t block_k, int64_t group)
{
    const int64_t element = g->matrix[GEMM_D].element;
    a->m = d->m;
    a->n = d->n;
    a->stride_d = element * g->matrix[GEMM_D].stride;
    a->batch_d = element * g->matrix[GEMM_D].batch;
    a->k_begin = d->k > 0 ? 0 : (int32_t)block_k;
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

static ptxpack_status fill(const plan_problem *problem, const ptxpack_variant *row, const void *layout,
                           plan_head *head)
{
    const ptxpack_gemm_desc *desc = (const ptxpack_gemm_desc *)problem->desc;
    const gemm_geometry     *g = (const gemm_geometry *)problem->geometry;
    const gemm_wgmma_layout *l = (const gemm_wgmma_layout *)layout;
    gemm_wgmma_arguments    *a = &((ptxpack_gemm_plan *)head)->arguments.wgmma;
    tile_counts              t = count_tiles(row, desc, g);
    int64_t                  clusters = clusters_of(row, &t, problem->sm_count);
    fill_numbers(a, desc, g, &t, block_k_of(row), group_of(row, &t, clusters));
    a->once = reads_b_once(row, desc, g, &t);
    a->block_bytes = (int32_t)(l->a_stage_bytes + l->b_stage_bytes -
                               gemm_wgmma_idle_lines(desc, l) * TILE_BOX_ROW);
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
    argument_tensor_map *const  maps[GEMM_MATRICES] = {&a->map_a, &a->map_b, &a->map_c, &a->map_d};
    const uint64_t              addresses[GEMM_MATRICES] = {b->a, b->b, b->c, b->d};
    ptxpack_status              status = PTXPACK_OK;
    (void)grid;
    a->bias = b->bias;
    a->d = b->d;
    a->alpha = b->alpha;
    a->beta = b->beta;
    a->early = (b->launch & PTXPACK_LAUNCH_CONSTANT_B) != 0;
    for (int i = 0; i < GEMM_MATRICES && status == PTXPACK_OK; i++) {
        uint64_t address = g->matrix[i].bytes != 0 ? addresses[i] : b->d;
        if (i != GEMM_C || g->matrix[GEMM_C].bytes != 0) /* there may be no C */
            status = ptxpack_tensor_map_replace(head->handle, gemm_matrix_names[i], address, maps[i]);
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
    a->tiles_n = (int32_t)count_tiles(row, desc, (const gemm_geometry *)problem->geometry).n;
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
    enum { COUNTERS = 8 /* bytes, of a warp */, ALIGNMENT = 16, WARPGROUP = 4 /* warps */ };
    const tile_counts t = count_tiles(row, (const ptxpack_gemm_desc *)problem->desc,
                                      (const gemm_geometry *)problem->geometry);
    const cut_counts  cut = cut_tiles(problem, row, &t);
    const int64_t     m = ptxpack_variant_parameter(row, "BLOCK_M", 1),
                  n = ptxpack_variant_parameter(row, "BLOCK_N", 1);
    const int64_t counters = cut.tiles * t.cluster * ptxpack_variant_parameter(row, "WARPGROUPS", 1) *
                             WARPGROUP * COUNTERS;
    const int64_t               held = clusters_held(row, &t, problem->sm_count);
    gemm_wgmma_parts_arguments *a = &((ptxpack_gemm_plan *)head)->arguments.wgmma_parts;
    const ptxpack_status        status = fill(problem, row, layout, head);
    a->whole_tiles = (int32_t)(t.total - cut.tiles);
    a->cut_tiles = (int32_t)cut.tiles;
    a->tile_parts = (int32_t)cut.parts;
    a->part_blocks = (int32_t)cut.blocks;
    a->tiles_total = (int32_t)(t.total + cut.tiles * (cut.parts - 1));
    if (cut.tiles == 0)
        return status;
    head->grid[0] = (uint32_t)((a->tiles_total < held ? a->tiles_total : held) * t.cluster);
    head->counters = (uint64_t)divided_up(counters, ALIGNMENT) * ALIGNMENT;
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
              .cost = cost,
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
    .cost = cost,
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
    .cost = cost_parts,
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
    .cost = cost,
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
    .cost = cost_groups,
    .symbols = symbols_groups,
    .fill = fill_groups,
    .address = address_groups,
    .corners = gemm_groups_corners,
    .corner_count = GEMM_GROUPS_CORNERS,
    .corners_of = corners_groups_of,
};
