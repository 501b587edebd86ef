/* judge.c - races: the shadow of memory and the vector clocks, from the beginning of a grid to its end.
 *
 * An access is recorded with its thread and the epoch of its warp.  A later access by another thread must have
 * observed that epoch, through any release and acquire (clock.c, strong.c).
 * Asynchronous operations are recorded under their own components, which no thread has observed until it
 * observes their completion (async.c).  A program that orders all of its accesses is never reported.
 *
 * The judge misses:
 *   - older accesses: memory has its last write and the newest reads of each warp.  Earlier ordered
 *     accesses are forgotten, and so are all older reads by other lanes of the same warp;
 *   - some reads: of global memory it keeps one warp each of two clusters that read; of shared memory it
 *     keeps the newest reads if more than 64 warps of a cluster read;
 *   - global memory beyond what 1 GiB of shadow covers in one launch: from 60 MB (scattered words) to 2
 *     GB (whole lines of 128 bytes);
 *   - local memory, parameters, constants; launches that overlap: each one counts as after all others, except
 *     those that begin before the launch before them in their stream has ended (chain.c);
 *   - a missing fence between a strong read and a barrier;
 *   - reads of a word by lanes of the warp of which several have stored equal bytes there with one
 *     store;
 *   - the scope .cluster, which counts as .gpu; and the scope .cta of fences before flags in another block's shared memory;
 *   - some missing orders with fences: a fence acquires what was released through the words that were
 *     read before it, and if the grid runs on several host threads also what others have released there
 *     since (their order cannot be known); from the fifth word between two fences on, a read acquires at
 *     once;
 *   - everything after blocks have synchronised through memory for seconds of the judge's own time (a
 *     barrier of 132 blocks: some 100 times), or after it has run out of memory; it reports this;
 *   - reads of bulk copies from global memory when a later copy of the thread is complete: they count as
 *     complete;
 *   - a cp.async that has completed on some mbarrier, if its bytes are read without a wait for any
 *     mbarrier (of two cp.async.mbarrier.arrive the later one covers the copies of the earlier one);
 *   - the order of the wgmma of the four warps of a warpgroup: they complete together. */
#include <stdlib.h>
#include "internal.h"
#include "report.h"

static const uint64_t ROWS_MOST = 40 * 1000 * 1000; /* a few seconds */

/* ---- memory --------------------------------------------------------------------------------------- */
bool judge_is_off(const struct judge_grid *grid) { return __atomic_load_n(&grid->off, __ATOMIC_RELAXED); }

static void switch_off(struct judge_grid *grid, const char *why)
{
    if (!__atomic_exchange_n(&grid->off, true, __ATOMIC_RELAXED))
        report_line(grid->grid->settings, "%s: races are not judged any more in this launch", why);
}

void judge_count_rows(struct judge_grid *grid, uint64_t rows)
{
    if (__atomic_add_fetch(&grid->rows, rows, __ATOMIC_RELAXED) > ROWS_MOST)
        switch_off(grid, "too many blocks synchronise through memory too often");
}

void *judge_alloc(struct judge_grid *grid, size_t count, size_t size)
{
    void *p = judge_is_off(grid) ? NULL : calloc(count, size);
    if (p == NULL)
        switch_off(grid, "out of memory");
    return p;
}

void judge_note_op(struct judge_grid *grid, const struct emu_op *op)
{
    /* usually it is there already: a store would take the cache line from the other host threads */
    if (op->number < grid->op_count && __atomic_load_n(&grid->ops[op->number], __ATOMIC_RELAXED) != op)
        __atomic_store_n(&grid->ops[op->number], op, __ATOMIC_RELAXED);
}

const struct emu_op *judge_noted_op(const struct judge_launch *launch, uint32_t number)
{
    return number < launch->op_count ? __atomic_load_n(&launch->ops[number], __ATOMIC_RELAXED) : NULL;
}

/* ---- life ----------------------------------------------------------------------------------------- */
static struct judge_grid *grid_new(void)
{
    struct judge_grid *g = (struct judge_grid *)calloc(1, sizeof *g);
    for (int i = 0; g != NULL && i < PAGE_SHARDS; i++)
        pthread_mutex_init(&g->lock[i], NULL);
    return g;
}

void judge_forget(struct judge_grid **kept)
{
    struct judge_grid *g = *kept;
    *kept = NULL;
    if (g == NULL)
        return;
    judge_pages_free(g);
    for (int i = 0; i < PAGE_SHARDS; i++)
        pthread_mutex_destroy(&g->lock[i]);
    judge_chain_free(g);
    free(g);
}

bool judge_grid_begin(struct emu_grid *grid)
{
    struct judge_grid *g = NULL;
    grid->judge = NULL;
    if (grid->kept != NULL) {
        if (*grid->kept != NULL && (!grid->dependent || !judge_chain_has_room(*grid->kept, grid)))
            judge_forget(grid->kept);
        g = *grid->kept;
        *grid->kept = NULL;
    }
    if (!(grid->settings->judge & ~(unsigned int)EMU_JUDGE_UNINITIALISED)) {
        judge_forget(&g);
        return true;
    }
    if (g == NULL && (g = grid_new()) == NULL)
        return false;
    if (!judge_chain_add(g, grid)) {
        judge_forget(&g);
        return false;
    }
    judge_locations_init(&g->locations);
    g->grid = grid;
    grid->judge = g;
    return true;
}

void judge_grid_end(struct emu_grid *grid)
{
    struct judge_grid *g = grid->judge;
    report_grid_end(grid);
    grid->judge = NULL;
    if (g == NULL)
        return;
    judge_locations_free(&g->locations);
    judge_chain_end(g);
    g->grid = NULL;
    if (grid->kept != NULL)
        *grid->kept = g;
    else
        judge_forget(&g);
}

static void warp_init(struct judge_cluster *c, uint32_t number, struct emu_warp *w)
{
    struct judge_warp *mine = &c->warp[number];
    mine->cluster = c;
    mine->w = w;
    mine->number = number;
    mine->leader = number - w->index % 4;
    mine->epoch = 1;
    mine->kinds = 1u << ROW_THREAD;
    w->judge = mine;
}

static bool cta_init(struct judge_cluster *c, struct emu_cta *cta, uint32_t index, uint32_t *warp)
{
    struct judge_cta *mine = &c->cta[index];
    mine->count = cta->shared_bytes / LINE_BYTES + (cta->shared_bytes % LINE_BYTES != 0);
    mine->lines = (struct judge_line *)calloc((size_t)mine->count + 1, sizeof mine->lines[0]);
    cta->judge = mine;
    for (uint32_t i = 0; i < cta->warp_count; i++)
        warp_init(c, (*warp)++, &cta->warps[i]);
    return mine->lines != NULL;
}

static void cluster_unjudged(struct emu_cluster *cluster)
{
    cluster->judge = NULL;
    for (uint32_t i = 0; i < cluster->cta_count; i++) {
        cluster->ctas[i].judge = NULL;
        for (uint32_t j = 0; j < cluster->ctas[i].warp_count; j++)
            cluster->ctas[i].warps[j].judge = NULL;
    }
}

bool judge_cluster_begin(struct emu_cluster *cluster)
{
    struct judge_cluster *c;
    uint32_t              warp = 0;
    bool                  fine = true;
    cluster_unjudged(cluster);
    if (cluster->grid->judge == NULL)
        return true;
    c = (struct judge_cluster *)calloc(1, sizeof *c);
    if (c == NULL)
        return false;
    cluster->judge = c;
    c->cluster = cluster;
    c->grid = cluster->grid->judge;
    c->id = c->grid->first + cluster->id;
    judge_locations_init(&c->locations);
    for (uint32_t i = 0; i < cluster->cta_count; i++)
        c->warps += cluster->ctas[i].warp_count;
    c->warp = (struct judge_warp *)calloc(c->warps, sizeof c->warp[0]);
    c->cta = (struct judge_cta *)calloc(cluster->cta_count, sizeof c->cta[0]);
    for (uint32_t i = 0; c->warp != NULL && c->cta != NULL && i < cluster->cta_count; i++)
        fine &= cta_init(c, &cluster->ctas[i], i, &warp);
    if (fine && c->warp != NULL && c->cta != NULL)
        return true;
    judge_cluster_end(cluster);
    return false;
}

static void warp_free(struct judge_warp *w)
{
    for (int p = 0; p < PARTS; p++)
        for (int l = 0; l < EMU_LANES; l++)
            judge_vector_drop(w->part[p][l], 1);
    judge_strong_free(w);
}

void judge_cluster_end(struct emu_cluster *cluster)
{
    struct judge_cluster *c = cluster->judge;
    if (c == NULL)
        return;
    for (uint32_t i = 0; c->warp != NULL && i < c->warps; i++)
        warp_free(&c->warp[i]);
    for (uint32_t i = 0; c->cta != NULL && i < cluster->cta_count; i++)
        if (c->cta[i].lines != NULL) {
            judge_lines_free(c->cta[i].lines, c->cta[i].count);
            free(c->cta[i].lines);
            judge_remote_free(&c->cta[i], c->warps);
        }
    while (c->clocks != NULL)
        judge_clock_free(c, c->clocks);
    judge_async_free_spare(c);
    judge_locations_free(&c->locations);
    free(c->warp);
    free(c->cta);
    free(c->operations);
    free(c->barriers);
    free(c->barrier_epoch);
    free(c);
    cluster_unjudged(cluster);
}

/* ---- mbarriers ------------------------------------------------------------------------------------ */
/* Find plain accesses to live mbarriers; for mbarrier instructions, async_is_mbarrier is false. */
static void find_mbarriers(struct emu_warp *w, const struct emu_op *op, uint32_t mask,
                           const struct emu_ref ref[EMU_LANES], uint32_t bytes, unsigned int access)
{
    const char *what = access & EMU_ATOMIC ? "updates" : access & EMU_WRITE ? "writes" : "reads";
    for (; mask; mask &= mask - 1) {
        const int l = __builtin_ctz(mask);
        if (ref[l].space == EMU_SHARED && async_is_mbarrier(ref[l].cta, (uint32_t)ref[l].address, bytes))
            judge_find(w, op, l, JUDGE_MBARRIER, "%s shared 0x%x..0x%x, where a live mbarrier is", what,
                       (unsigned int)ref[l].address, (unsigned int)(ref[l].address + bytes - 1));
    }
}

/* Is there any mbarrier between the first and the last byte? */
static bool near_mbarrier(uint32_t mask, const struct emu_ref ref[EMU_LANES], uint32_t bytes)
{
    const struct emu_cta *cta = ref[__builtin_ctz(mask)].cta;
    uint64_t              low = ~0ull, high = 0;
    if (ref[__builtin_ctz(mask)].space != EMU_SHARED || cta->async == NULL)
        return false;
    for (; mask; mask &= mask - 1) {
        const struct emu_ref *r = &ref[__builtin_ctz(mask)];
        if (r->space != EMU_SHARED || r->cta != cta)
            return true;
        low = r->address < low ? r->address : low;
        high = r->address > high ? r->address : high;
    }
    return async_is_mbarrier(cta, (uint32_t)low, (uint32_t)(high - low) + bytes);
}

/* mbarrier.inval does not race with the tests of other lanes, since these are atomic operations. */
static bool invalidates(const struct emu_op *op)
{
    const struct ptx_instruction *in = op->text;
    return in != NULL && in->opcode[0] == 'm' && strcmp(in->opcode, "mbarrier") == 0 && in->modifier_count &&
           strcmp(in->modifiers[0], "inval") == 0;
}

static uint8_t flags_of(unsigned int access, bool strong)
{
    if (access & EMU_NC)
        return BY_CONSTANT;
    return !strong ? 0 : access & EMU_OWN_BLOCK ? BY_STRONG : BY_STRONG | BY_WIDE;
}

/* ---- generic accesses ----------------------------------------------------------------------------- */
void judge_access(struct emu_warp *warp, const struct emu_op *op, uint32_t mask,
                  const struct emu_ref ref[EMU_LANES], uint32_t bytes, unsigned int access)
{
    struct judge_warp *w = warp->judge;
    bool               strong = (access & (EMU_STRONG | EMU_ATOMIC)) != 0;
    struct judge_view  view;
    if (w == NULL || judge_is_off(w->cluster->grid) || op->class_ == EMU_CLASS_load_param ||
        op->class_ == EMU_CLASS_load_const)
        return;
    if (near_mbarrier(mask, ref, bytes))
        find_mbarriers(warp, op, mask, ref, bytes, access);
    strong |= invalidates(op);
    judge_note_op(w->cluster->grid, op);
    view = (struct judge_view){.warp = w,
                               .op = op,
                               .access = access,
                               .mask = mask,
                               .all = ref,
                               .me = {w->epoch, op->number, w->cluster->id, (uint16_t)w->number, 0,
                                      flags_of(access, strong)}};
    judge_touch_lanes(&view, mask, ref, bytes);
    judge_touch_done(&view);
    if (warp->cluster->cta_count > 1)
        judge_remote_access(w, op, mask, ref);
    if (strong)
        judge_strong_access(w, mask, ref, bytes, access);
}
