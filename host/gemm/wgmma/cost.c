/* cost.c - clocks that the rows of ptx/gemm/wgmma.ptx and of its like take, fitted to times on an H200. */
#include "cost.h"

#include "host/plan/tiles.h"

static int64_t parameter(const ptxpack_variant *row, const char *name)
{
    return ptxpack_variant_parameter(row, name, 1);
}

static bool is_fp8(const ptxpack_variant *row) { return ptxpack_variant_parameter(row, "FP8", 0) != 0; }

int64_t gemm_wgmma_block_k(const ptxpack_variant *row) { return is_fp8(row) ? TILE_BOX_ROW : TILE_BOX_ROW / 2; }

gemm_tile_counts gemm_wgmma_tiles(const ptxpack_variant *row, const ptxpack_gemm_desc *d,
                                  const gemm_geometry *g)
{
    int64_t          cluster_m = parameter(row, "CLUSTER_M");
    int64_t          cluster_n = parameter(row, "CLUSTER_N");
    int64_t          cluster_k = parameter(row, "CLUSTER_K");
    gemm_tile_counts t = {
        .m = divided_up(d->m, cluster_m * parameter(row, "BLOCK_M")),
        .n = divided_up(d->n, cluster_n * parameter(row, "BLOCK_N")),
        .cluster = cluster_m * cluster_n * cluster_k,
        .k_blocks = d->k > 0 ? divided_up(d->k, cluster_k * gemm_wgmma_block_k(row)) : 1,
    };
    if (g->groups > 0) /* at most */
        t.m = (int64_t)gemm_groups_most_tiles(d->groups, d->m, cluster_m * parameter(row, "BLOCK_M"));
    t.total = t.m * t.n <= INT32_MAX ? t.m * t.n * g->batch : INT64_MAX;
    return t;
}

/* ---- clusters ------------------------------------------------------------------------------------------ */
/* Offline a row is only chosen, as for an H200. */
static int64_t sms_of(int sm_count) { return sm_count > 0 ? sm_count : 132; }

/* The rest of a group of SMs does not hold a whole one of more than two blocks. */
int64_t gemm_wgmma_held(const ptxpack_variant *row, const gemm_tile_counts *t, int sm_count)
{
    const int64_t places = sms_of(sm_count) * row->blocks_per_sm / t->cluster;
    const int64_t held = t->cluster > 2 ? places - places / 10 : places;
    return held > 0 ? held : 1;
}

static int64_t clusters_at_once(const ptxpack_variant *row, const gemm_tile_counts *t, int sm_count)
{
    const int64_t held = gemm_wgmma_held(row, t, sm_count);
    return held < t->total ? held : t->total;
}

int64_t gemm_wgmma_clusters(const ptxpack_variant *row, const gemm_tile_counts *t, int sm_count)
{
    return parameter(row, "CLUSTER_K") > 1 ? t->total : clusters_at_once(row, t, sm_count);
}

/* ---- blocks of k -------------------------------------------------------------------------------------- */
/* What a block of k needs, 128 bytes of it: block_m block_n 128 / 4096 clocks of the tensor cores, for which e4m3 is twice as fast as
 * 16 bits, which reach SPEED percent of that speed if all SMs are busy; and its bytes from L2, some of which the blocks of a cluster
 * share.  128 bytes of lines that do not all begin at a sector of L2 take two and a half accesses in the mean. */
typedef struct block_costs {
    double arithmetic; /* clocks */
    double busy;       /* the same if other blocks of the SM fill its gaps */
    double bytes;      /* as many as the accesses to L2 could bring */
    double rate;       /* of them, a clock and SM, at most */
    double together;   /* how much longer than alone blocks of one SM take */
} block_costs;

static double accesses_of(const gemm_matrix *x) /* to L2, for each line of it */
{
    enum { SECTOR = 32 };
    return x->stride * x->element % SECTOR == 0 ? 1 : 2.5;
}

/* So few rows that reading B is what takes the time. */
static bool waits_for_b(const plan_problem *problem)
{
    enum { FEW = 128 };
    return ((const ptxpack_gemm_desc *)problem->desc)->m <= FEW;
}

/* The same, and B may be read beside the kernel before, as in a step of decoding.  Of e4m3 it was not timed. */
static bool reads_b_ahead(const plan_problem *problem)
{
    const ptxpack_gemm_desc *d = (const ptxpack_gemm_desc *)problem->desc;
    return waits_for_b(problem) && (d->launch & PTXPACK_LAUNCH_CONSTANT_B) != 0 &&
           gemm_type(d, GEMM_A) != PTXPACK_E4M3;
}

/* What memory takes in these cases.  The first six are how much longer it takes: */
typedef struct memory_costs {
    double line;      /* for each row of A that the L2 cache brings beside a column of B */
    double wide;      /* for tiles of more than 128 columns: from run to run from nothing to 12 % */
    double high;      /* for tiles of more than 64 rows */
    double neighbour; /* where blocks share an SM */
    double again;     /* where two tiles read the same B apart from each other, as no cluster shares it */
    double four; /* where blocks of a cluster share A with more than one, besides what its beginning takes */
    double idle; /* where few SMs ask for A and B */
    double last; /* .. for the last tiles */
    double sums,
        sums_of_one;  /* of what parts of tiles are said to take, the latter for tiles of one warpgroup */
    double late;      /* clocks, of tiles that do not read B ahead */
    double shared_sm; /* clocks, of those that do, where blocks share an SM */
} memory_costs;

/* The last one was fitted to 104 products of 40 to 128 rows whose launches overlap (H200, 2026-12-01): the rows that were chosen took 1.11 times as
 * long as the best ones, and now take 1.013 times.  Clusters lose nothing there: a step of 64 sequences of Llama 3 8B takes 8.68 ms with
 * them, and 8.76 without. */
static const memory_costs *memory_costs_of(const plan_problem *problem)
{
    static const memory_costs many_rows = {.idle = 0.06, .sums = 1, .sums_of_one = 0.75};
    static const memory_costs few_rows = {.line = 0.05,
                                          .wide = 0.03,
                                          .high = 0.06,
                                          .neighbour = 0.01,
                                          .idle = 0.25,
                                          .sums = 1.45,
                                          .sums_of_one = 0.75};
    static const memory_costs ahead = {.high = 0.1,
                                       .again = 0.35,
                                       .four = 0.18,
                                       .idle = 0.45,
                                       .last = 0.45,
                                       .sums = 0.5,
                                       .sums_of_one = 0.5,
                                       .late = 6000,
                                       .shared_sm = 2000};
    return reads_b_ahead(problem) ? &ahead : waits_for_b(problem) ? &few_rows : &many_rows;
}

/* How much longer memory takes for tiles of this row; a cluster's parts of a box of A have rows of zeros, too. */
static double beside_a(const plan_problem *problem, const ptxpack_variant *row)
{
    enum { WIDE = 128 /* columns, at most not */, HIGH = 64 /* rows, the same */, TWO = 2 };
    const memory_costs *c = memory_costs_of(problem);
    const int64_t rows = ((const ptxpack_gemm_desc *)problem->desc)->m, height = parameter(row, "BLOCK_M");
    const int64_t across = parameter(row, "CLUSTER_N"), parts = parameter(row, "CLUSTER_K");
    const int64_t brought = across > 1 || rows > height ? height : rows;
    const int64_t columns = parameter(row, "BLOCK_N");
    const bool    apart = rows > height && parameter(row, "CLUSTER_M") == 1;
    return 1 + c->line * (double)(brought * parts) / (double)(across * columns) +
           (columns > WIDE ? c->wide : 0) + (height > HIGH ? c->high : 0) +
           (row->blocks_per_sm > 1 ? c->neighbour : 0) + (apart ? c->again : 0) + (across > TWO ? c->four : 0);
}

/* The bytes a clock that copies bring to an SM, at most. */
static double rate_of(const plan_problem *problem, const ptxpack_variant *row)
{
    enum { LOW = 64 /* rows of the smallest tiles */, ANY = 80, ANY_FP8 = 64 };
    enum {
        FEW = 64,
        AHEAD = 50 /* beside the kernel before, even where blocks of a cluster have no rows */,
        TWICE = 40 /* two tiles want the same B */,
        TWICE_WIDE = 52,
        PARTS = 37 /* of k */,
        NO_ROWS = 24 /* blocks of a cluster have none */,
        MANY = 35,
        MANY_WIDE = 41 /* many want the same B: their copies are slower */
    };
    const int64_t rows = ((const ptxpack_gemm_desc *)problem->desc)->m, down = parameter(row, "CLUSTER_M");
    const int64_t across = parameter(row, "CLUSTER_N"), parts = parameter(row, "CLUSTER_K");
    const bool    low = parameter(row, "BLOCK_M") == LOW;
    if (reads_b_ahead(problem))
        return AHEAD;
    if (low && rows <= LOW && down > 1)
        return NO_ROWS;
    if (low && rows > LOW && across > 1)
        return MANY;
    const bool wide = parameter(row, "BLOCK_N") > LOW;
    if (waits_for_b(problem) && (low || parts > 1))
        return parts > 1 ? PARTS : rows <= LOW ? FEW : wide ? TWICE_WIDE : TWICE;
    if (is_fp8(row))
        return ANY_FP8;
    if (!low || down > 1 || parts > 1)
        return ANY;
    return wide ? MANY_WIDE : MANY;
}

/* About the lines of A or B that a block of k brings, in the mean of all tiles: most problems leave out those beyond an edge, unless the blocks
 * of a cluster share them (ptx/gemm/wgmma_lines.ptx). */
static double lines_brought(const plan_problem *problem, int64_t lines, int64_t tile, int64_t sharing)
{
    const bool cut = ((const gemm_geometry *)problem->geometry)->groups == 0 && sharing == 1;
    return cut ? (double)lines / (double)divided_up(lines, tile) : (double)tile / (double)sharing;
}

static block_costs costs_of_block(const plan_problem *problem, const ptxpack_variant *row)
{
    enum { BYTES_A_CLOCK = 4096 /* of k, for each row and column */, FILLED = 75 /* percent */ };
    const ptxpack_gemm_desc *d = (const ptxpack_gemm_desc *)problem->desc;
    const gemm_matrix       *x = ((const gemm_geometry *)problem->geometry)->matrix;
    const int64_t            m = parameter(row, "BLOCK_M"), n = parameter(row, "BLOCK_N");
    const double             speed = (double)ptxpack_variant_parameter(row, "SPEED", 100);
    const double             least = (double)(m * n * TILE_BOX_ROW) / BYTES_A_CLOCK * 100;
    const double             lines = lines_brought(problem, d->m, m, parameter(row, "CLUSTER_N")) *
                             accesses_of(&x[GEMM_A]) +
                         lines_brought(problem, d->n, n, parameter(row, "CLUSTER_M")) * accesses_of(&x[GEMM_B]);
    return (block_costs){.arithmetic = least / speed,
                         .busy = least / (speed > FILLED || is_fp8(row) ? speed : FILLED),
                         .bytes = lines * TILE_BOX_ROW,
                         .rate = rate_of(problem, row),
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

/* Clocks in which memory brings A and B, once each, if so many SMs ask for them; `idle`: how much longer it takes where few ask. */
static double memory_clocks(const plan_problem *problem, double busy, double idle)
{
    enum { MEMORY_BYTES = 19 /* a clock and SM */ };
    const gemm_matrix *x = ((const gemm_geometry *)problem->geometry)->matrix;
    const double       sms = (double)sms_of(problem->sm_count);
    return (double)(x[GEMM_A].bytes + x[GEMM_B].bytes) / MEMORY_BYTES / sms * (1 + idle * (1 - busy / sms));
}

/* ---- parts of tiles ----------------------------------------------------------------------------------- */
/* Each of these rows has one block for each SM, and at most one part.  Sums go to memory and come back (ptx/gemm/tile_part.ptx).  From times
 * on an H200 of 2 to 32 parts of 128 x 128. */
gemm_cut_counts gemm_wgmma_cut(const plan_problem *problem, const ptxpack_variant *row,
                               const gemm_tile_counts *t)
{
    enum { MOST = 32 /* bits of a word */, MOVE = 8 /* sums a clock, there and back */ };
    /* Clocks until the parts are there, of more than two more for each. */
    enum { TWO = 3500, MORE = 6800, EACH = 50, SQUARE = 4 };
    static const double idle = 0.25;
    enum { WORTH = 25 /* it must save one part of so many: while SMs rest, the others run faster */ };
    const double      sums = (double)(parameter(row, "BLOCK_M") * parameter(row, "BLOCK_N"));
    const int64_t     held = gemm_wgmma_held(row, t, problem->sm_count), rest = t->total % held;
    const block_costs costs = costs_of_block(problem, row);
    const double whole = rest > 0 ? (double)t->k_blocks * block_clocks(&costs, (double)(rest * t->cluster), 1)
                                  : 0;
    gemm_cut_counts best = {0};
    for (int64_t parts = 2; rest > 0 && parts <= MOST && parts * rest <= held && parts <= t->k_blocks;
         parts++) {
        const int64_t blocks = divided_up(t->k_blocks, parts);
        const double  busy = (double)(rest * parts * t->cluster);
        const double  memory = memory_clocks(problem, busy, idle) * (double)rest / (double)t->total;
        const double  part = (double)blocks * block_clocks(&costs, busy, 1);
        const double  saved = whole - (part > memory ? part : memory);
        const int64_t wait = parts == 2 ? TWO : MORE + parts * (EACH + SQUARE * parts);
        const double  added = sums / MOVE + (double)wait;
        if (saved - added > best.saved - best.added && divided_up(t->k_blocks, blocks) == parts)
            best = (gemm_cut_counts){rest, parts, blocks, saved, added};
    }
    if ((best.saved - best.added) * WORTH < whole * (double)divided_up(t->total, held))
        return (gemm_cut_counts){0};
    return best;
}

/* ---- the cost ----------------------------------------------------------------------------------------- */
/* Clocks of rounds of tiles, `held` at once, of which one takes `round`, and `last` where few are left: these may not be enough for memory
 * to be busy, which then takes up to `idle` longer for them. */
static double rounds_clocks(int64_t tiles, int64_t held, double round, double last, double memory, double idle)
{
    const int64_t rounds = divided_up(tiles, held), left = tiles - (rounds - 1) * held;
    const double  share = memory * (double)left / (double)tiles;
    const double  rest = share * (1 + idle * (1 - (double)left / (double)held));
    const double  bound = memory - share + (rest > last ? rest : last);
    return bound > (double)rounds * round ? bound : (double)rounds * round;
}

/* Clocks that the beginning of clusters takes.  Blocks of one wait for each other, which later tiles hide; where B is what takes the time, those
 * of four bring it slower on many SMs. */
static double clusters_begin(const plan_problem *problem, const gemm_tile_counts *t, double busy)
{
    enum { CLUSTER = 300, TOGETHER = 18 /* a block of k of the first tiles */, CROWDED = 1500 };
    if (!waits_for_b(problem))
        return CLUSTER + TOGETHER * (double)t->k_blocks;
    return CLUSTER + (t->cluster > 2 && 2 * busy > (double)sms_of(problem->sm_count) ? CROWDED : 0);
}

/* EARLY_B of ptx/gemm/wgmma_kernel.ptx; groups have a cost of their own. */
static bool loads_b_early(const ptxpack_variant *row)
{
    enum { MOST_ROWS = 128 };
    return parameter(row, "CLUSTER_K") == 1 && parameter(row, "BLOCK_M") <= MOST_ROWS;
}

/* What tiles lose that do not begin beside the kernel before, or not alone. */
static double begin_late(const plan_problem *problem, const ptxpack_variant *row)
{
    const memory_costs *c = memory_costs_of(problem);
    return !loads_b_early(row) ? c->late : row->blocks_per_sm > 1 ? c->shared_sm : 0;
}

/* Clocks until parts are sums: tiles of one warpgroup are faster, and where few rows leave time to them others are slower, than what they were
 * fitted to. */
static double sums_of_parts(const plan_problem *problem, const ptxpack_variant *row, const gemm_cut_counts *cut)
{
    const memory_costs *c = memory_costs_of(problem);
    return cut->added * (parameter(row, "WARPGROUPS") == 1 ? c->sums_of_one : c->sums);
}

/* The cost in clocks.  Every place for a cluster counts as many tiles as the busiest one.  The time of a tile is that of its blocks of
 * k plus the work that does not overlap with the next tile.  The blocks of one SM share both.  The costs of e4m3 were fitted apart: what
 * memory takes is in their SPEED. */
static double cost_cut(const plan_problem *problem, const ptxpack_variant *row, const gemm_cut_counts *cut)
{
    enum {
        FILL = 3500,
        BOX = 64 /* columns that are stored together */,
        STORE = 5800 /* 128 rows and 256 columns */,
        STORE_FP8 = 4000,
        EXCHANGE = 2600 /* with each of the blocks that share k */,
        EXCHANGE_FP8 = 8500
    };
    static const double narrow = 0.85; /* of STORE, of the smaller tiles */
    const memory_costs *of_memory = memory_costs_of(problem);
    double              m = (double)parameter(row, "BLOCK_M");
    double              n = (double)parameter(row, "BLOCK_N");
    double              cluster_k = (double)parameter(row, "CLUSTER_K");
    int                 sm_count = problem->sm_count;
    gemm_tile_counts    t = gemm_wgmma_tiles(row, (const ptxpack_gemm_desc *)problem->desc,
                                             (const gemm_geometry *)problem->geometry);
    int64_t             held = clusters_at_once(row, &t, sm_count);
    double              rounds = (double)divided_up(t.total, held);
    double              share = (double)divided_up(held * t.cluster, sms_of(sm_count)); /* blocks of an SM */
    double              busy = (double)(held * t.cluster) / share;
    const block_costs   costs = costs_of_block(problem, row);
    double              round = (double)t.k_blocks * block_clocks(&costs, busy, share);
    const double        of_parts = (double)(cut->tiles * cut->parts * t.cluster);
    const double        asking = of_parts > busy ? of_parts : busy; /* SMs that ask for A and B */
    double              exchange = cluster_k == 1 ? 0 : is_fp8(row) ? EXCHANGE_FP8 : EXCHANGE * cluster_k;
    double memory = is_fp8(row) ? 0 : memory_clocks(problem, asking, of_memory->idle) * beside_a(problem, row);
    double begin = FILL;
    double boxes = (double)divided_up((int64_t)n, BOX);
    double blocks = rounds_clocks(t.total, held, round, round / share, memory, of_memory->last);
    if (t.cluster > cluster_k && !is_fp8(row))
        begin += clusters_begin(problem, &t, busy);
    begin += begin_late(problem, row);
    if (cut->parts > 0)
        blocks = rounds * round - cut->saved > memory ? rounds * round - cut->saved : memory;
    double store = (is_fp8(row) ? STORE_FP8 : STORE) * m * boxes * BOX / (128 * 256);
    if (!is_fp8(row) && !waits_for_b(problem))
        store *= share * (m * n <= 128 * 128 ? narrow : 1);
    return begin + blocks + rounds * (exchange + store) + sums_of_parts(problem, row, cut);
}

double gemm_wgmma_cost(const plan_problem *problem, const ptxpack_variant *row)
{
    const gemm_cut_counts none = {0};
    return cost_cut(problem, row, &none);
}

double gemm_wgmma_cost_parts(const plan_problem *problem, const ptxpack_variant *row)
{
    const gemm_tile_counts t = gemm_wgmma_tiles(row, (const ptxpack_gemm_desc *)problem->desc,
                                                (const gemm_geometry *)problem->geometry);
    const gemm_cut_counts  cut = gemm_wgmma_cut(problem, row, &t);
    return cost_cut(problem, row, &cut);
}

/* The same with as many tiles as groups of any size have.  What is read from memory is the B of a group, once: its tiles share the
 * time that takes, a part of the GPU's for each SM.  A part of the arithmetic does not go on beside the copies. */
double gemm_wgmma_cost_groups(const plan_problem *problem, const ptxpack_variant *row)
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
    double                   m = (double)parameter(row, "BLOCK_M");
    double                   n = (double)parameter(row, "BLOCK_N");
    double                   cluster_m = (double)parameter(row, "CLUSTER_M");
    double                   speed = (double)ptxpack_variant_parameter(row, "SPEED", 100) / 100;
    double                   groups = d->groups < d->m ? d->groups : d->m;
    gemm_tile_counts         t = gemm_wgmma_tiles(row, d, (const gemm_geometry *)problem->geometry);
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
