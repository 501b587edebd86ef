/* chain.c - launches that may overlap: a grid that was launched as a programmatic dependent may begin before the grid
 * before it has ended, until griddepcontrol.wait.
 *
 * Here it runs after that grid, whose shadow of memory stays for it.  Three rules say which accesses of earlier grids are
 * before its own.  Grid n is the dependent of grid n - 1, and so on back to grid 0, which was launched normally.
 *   wait    after it, a thread has observed all accesses of grid n - 1, and of all grids whose end that grid's end
 *           implies: those from launch[n - 1].covers on.  The knowledge is a row of the thread's vectors, so that
 *           barriers and mbarriers hand it on.
 *   end     the end of grid n implies the end of grid n - 1 only if some thread of grid n has waited for it.
 *   begin   grid n begins when every block of grid n - 1 has let dependents begin, or has ended.  If one of them did
 *           so after its wait, grid n - 2 has ended by then. */
#include <stdlib.h>
#include "internal.h"

enum { LAUNCHES_MOST = 1024 };
enum { EARLIER_GRIDS = 0 }; /* the cluster whose row says that a thread has waited; real ones begin at 1 */

static struct judge_launch *current(const struct judge_grid *g) { return &g->launch[g->launch_count - 1]; }

/* ---- life ----------------------------------------------------------------------------------------- */
static uint64_t clusters_of(const struct emu_grid *grid)
{
    uint64_t count = 1;
    for (int i = 0; i < 3; i++)
        count *= grid->grid[i] / (grid->cluster[i] ? grid->cluster[i] : 1);
    return count;
}

static uint32_t next_cluster(const struct judge_grid *g)
{
    return g->launch_count ? current(g)->first + current(g)->clusters : EARLIER_GRIDS + 1;
}

bool judge_chain_has_room(const struct judge_grid *g, const struct emu_grid *grid)
{
    return !judge_is_off(g) && g->launch_count < LAUNCHES_MOST &&
           next_cluster(g) + clusters_of(grid) <= UINT32_MAX;
}

/* What had ended when the new grid began? */
static void begin_after(struct judge_grid *g)
{
    const uint32_t before = g->launch_count - 1; /* the grid that it depends on */
    if (before && __atomic_load_n(&g->launch[before].late, __ATOMIC_RELAXED))
        for (uint32_t i = g->launch[before - 1].covers; i < before; i++)
            g->launch[i].over = true;
}

/* All threads that have waited share it, so that it costs little to hand it on. */
static struct judge_packet *packet_of_waited(void)
{
    struct judge_packet *packet = (struct judge_packet *)calloc(1, sizeof *packet + sizeof packet->rows[0]);
    if (packet == NULL)
        return NULL;
    packet->ref = packet->count = packet->room = 1;
    packet->rows[0].cluster = EARLIER_GRIDS;
    packet->rows[0].at[0] = 1;
    return packet;
}

bool judge_chain_add(struct judge_grid *g, const struct emu_grid *grid)
{
    const uint32_t       first = next_cluster(g);
    struct judge_launch *launch;
    if (g->launch_count)
        begin_after(g);
    launch = (struct judge_launch *)realloc(g->launch, (g->launch_count + 1) * sizeof *launch);
    if (launch == NULL)
        return false;
    g->launch = launch;
    launch += g->launch_count;
    *launch = (struct judge_launch){.first = first,
                                    .clusters = (uint32_t)clusters_of(grid),
                                    .covers = g->launch_count,
                                    .op_count = grid->module->op_count};
    launch->ops = (const struct emu_op **)calloc((size_t)launch->op_count + 1, sizeof launch->ops[0]);
    launch->shape = (struct emu_grid *)calloc(1, sizeof *launch->shape);
    launch->ended = g->launch_count ? packet_of_waited() : NULL;
    if (launch->ops == NULL || launch->shape == NULL || (g->launch_count && launch->ended == NULL)) {
        free(launch->ops);
        free(launch->shape);
        free(launch->ended);
        return false;
    }
    launch->shape->entry = grid->entry;
    launch->shape->module = grid->module;
    for (int i = 0; i < 3; i++) {
        launch->shape->grid[i] = grid->grid[i];
        launch->shape->block[i] = grid->block[i];
        launch->shape->cluster[i] = grid->cluster[i];
    }
    g->launch_count++;
    g->first = first;
    g->ops = launch->ops;
    g->op_count = launch->op_count;
    return true;
}

void judge_chain_end(struct judge_grid *g)
{
    struct judge_launch *launch = current(g);
    if (g->launch_count > 1 && launch->waited)
        launch->covers = launch[-1].covers;
}

void judge_chain_free(struct judge_grid *g)
{
    for (uint32_t i = 0; i < g->launch_count; i++) {
        free(g->launch[i].ops);
        free(g->launch[i].shape);
        judge_packet_drop(g->launch[i].ended);
    }
    free(g->launch);
}

/* ---- order ---------------------------------------------------------------------------------------- */
const struct judge_launch *judge_launch_of(const struct judge_grid *g, uint32_t cluster)
{
    uint32_t i = g->launch_count - 1;
    while (i && g->launch[i].first > cluster)
        i--;
    return &g->launch[i];
}

static bool has_waited(const struct judge_vector *v)
{
    return v != NULL && judge_packet_find(v->foreign, EARLIER_GRIDS, 0) != NULL;
}

bool judge_earlier_ordered(const struct judge_view *view, enum judge_part p, uint32_t cluster)
{
    const struct judge_grid   *g = view->warp->cluster->grid;
    const struct judge_launch *launch = judge_launch_of(g, cluster);
    return launch->over ||
           (has_waited(view->warp->part[p][view->lane]) && launch >= &g->launch[current(g)[-1].covers]);
}

/* ---- what threads do ------------------------------------------------------------------------------ */
void judge_dependent_wait(struct emu_warp *warp, uint32_t mask)
{
    struct judge_warp *w = warp->judge;
    if (w == NULL || !mask || current(w->cluster->grid)->ended == NULL)
        return;
    struct judge_vector *v = judge_vector_of(w->cluster->grid, current(w->cluster->grid)->ended);
    for (int p = 0; p < PARTS; p++)
        judge_lanes_join(w, mask, (enum judge_part)p, v, NULL);
    judge_vector_drop(v, 1);
    w->w->cta->judge->waited = true;
    __atomic_store_n(&current(w->cluster->grid)->waited, true, __ATOMIC_RELAXED);
}

void judge_dependents_begin(struct emu_warp *warp, uint32_t mask)
{
    struct judge_warp *w = warp->judge;
    bool               late = false;
    if (w == NULL || warp->cta->judge->released)
        return;
    warp->cta->judge->released = true; /* what other threads of the block do later has no effect */
    for (; mask; mask &= mask - 1)
        late |= has_waited(w->part[PART_SEEN][__builtin_ctz(mask)]);
    if (late)
        __atomic_store_n(&current(w->cluster->grid)->late, true, __ATOMIC_RELAXED);
}

void judge_dependents_begin_at_exit(struct judge_warp *w)
{
    struct judge_cta *block = w->w->cta->judge;
    if (!block->released && block->waited)
        __atomic_store_n(&current(w->cluster->grid)->late, true, __ATOMIC_RELAXED);
}
