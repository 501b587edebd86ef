/* grid.c - a launch: the check of its shape, and the host threads that run its clusters. */
#include "grid.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include "cluster.h"
#include "tools/emu/judge/judge.h"
#include "tools/emu/machine/arena.h"
#include "profile.h"

enum { QUANTUM = 200000 }; /* ops before a cluster is suspended for others, if there are any */

struct grid_work {
    pthread_mutex_t     lock;
    uint64_t            next, total;    /* clusters that have not begun */
    uint32_t            resident, most; /* that have begun and not ended; how many the GPU holds at once */
    struct emu_cluster *first, *last;   /* suspended */
    uint32_t            polling;        /* resident ones that only poll */
    uint64_t            ended;          /* ended clusters, whose effects those that poll may see */
    uint64_t            executed;       /* ops of all clusters, about */
    bool                out_of_memory;
};

static atomic_uint   all_findings;
static atomic_ullong grid_count;

unsigned int emu_findings(void) { return atomic_load(&all_findings); }

/* ---- the shape ------------------------------------------------------------------------------------ */
int emu_function_max_threads(const struct emu_function *f)
{
    uint64_t            most = 1024, said = 1;
    const unsigned int *limit = f->text->required_threads[0] ? f->text->required_threads : f->text->max_threads;
    for (int i = 0; i < 3; i++)
        said *= limit[i] ? limit[i] : 1;
    return (int)(limit[0] && said < most ? said : most);
}

int emu_function_occupancy(const struct emu_settings *s, const struct emu_function *f, int threads,
                           size_t dynamic_shared)
{
    uint64_t warps = ((uint64_t)(threads > 0 ? threads : 1) + 31) / 32, blocks = s->blocks_per_sm;
    uint64_t shared = f->shared_bytes + dynamic_shared, registers = (uint64_t)emu_function_registers(f);
    uint64_t by_threads = s->threads_per_sm / 32 / warps;
    uint64_t by_shared = shared ? s->shared_per_sm / shared : blocks;
    uint64_t by_registers = 65536 / ((registers + 7) / 8 * 8 * 32 * warps);
    if (threads > emu_function_max_threads(f))
        return 0;
    blocks = by_threads < blocks ? by_threads : blocks;
    blocks = by_registers < blocks ? by_registers : blocks;
    return (int)(by_shared < blocks ? by_shared : blocks);
}

/* A launch must not request other clusters than the kernel requires. */
static bool cluster_agrees(const struct emu_launch *l)
{
    const struct ptx_function *text = l->entry->text;
    uint64_t                   size = 1;
    for (int i = 0; i < 3; i++) {
        uint32_t asked = l->cluster[i] ? l->cluster[i] : 1;
        size *= asked;
        if (text->required_cluster[0] && asked != (text->required_cluster[i] ? text->required_cluster[i] : 1))
            return false;
    }
    return !text->max_cluster_rank || size <= text->max_cluster_rank;
}

static void cluster_shape(const struct emu_launch *l, uint32_t shape[3])
{
    const struct ptx_function *text = l->entry->text;
    for (int i = 0; i < 3; i++)
        shape[i] = l->cluster[0]               ? (l->cluster[i] ? l->cluster[i] : 1)
                   : text->required_cluster[0] ? (text->required_cluster[i] ? text->required_cluster[i] : 1)
                                               : 1;
}

unsigned int emu_launch_check(const struct emu_settings *s, const struct emu_launch *l)
{
    static const uint32_t      most_grid[3] = {0x7fffffff, 65535, 65535}, most_block[3] = {1024, 1024, 64};
    const struct ptx_function *text = l->entry->text;
    uint64_t                   threads = 1, blocks = 1, size = 1;
    uint32_t                   shape[3], limit = s->shared_default;
    if (l->cluster[0] && !cluster_agrees(l))
        return 912;
    cluster_shape(l, shape);
    for (int i = 0; i < 3; i++) {
        if (!l->grid[i] || l->grid[i] > most_grid[i] || !l->block[i] || l->block[i] > most_block[i])
            return 1;
        if (text->required_threads[0] &&
            l->block[i] != (text->required_threads[i] ? text->required_threads[i] : 1))
            return 1;
        threads *= l->block[i];
        blocks *= l->grid[i];
        size *= shape[i];
        if (l->grid[i] % shape[i])
            return 912; /* CUDA_ERROR_INVALID_CLUSTER_SIZE */
    }
    if (threads > (uint64_t)emu_function_max_threads(l->entry))
        return threads > 1024 ? 1 : 701;
    if (blocks / size > UINT32_MAX) /* clusters are counted in 32 bits; so many would never end anyway */
        return 701;
    if (size > (l->entry->nonportable_cluster ? 16u : 8u) || (size > 1 && s->sm < 90))
        return 912;
    if (l->entry->max_dynamic_shared > 0) /* the attribute has raised or lowered it */
        limit = (uint32_t)l->entry->max_dynamic_shared + l->entry->shared_static;
    if ((uint64_t)l->dynamic_shared + l->entry->shared_static > limit)
        return 1;
    if ((uint64_t)l->dynamic_shared + l->entry->shared_bytes > (uint64_t)s->shared_opt_in + s->shared_reserved)
        return 1;
    if (l->cooperative) {
        int each = emu_function_occupancy(s, l->entry, (int)threads, l->dynamic_shared);
        if (blocks > (uint64_t)each * (uint64_t)s->sm_count)
            return 720; /* CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE */
    }
    return 0;
}

/* ---- host threads --------------------------------------------------------------------------------- */
static void out_of_memory(struct emu_grid *g)
{
    if (!g->result)
        g->result = 2;
    g->stop = true;
}

/* The next cluster to run: a suspended one or a new one.  NULL: there is nothing for this thread. */
static struct emu_cluster *take(struct emu_grid *g, struct emu_cluster **spare, struct emu_count *counts)
{
    struct grid_work   *work = g->work;
    struct emu_cluster *c = NULL;
    pthread_mutex_lock(&work->lock);
    bool     begins = work->next < work->total && (work->resident < work->most || work->first == NULL);
    uint32_t id = (uint32_t)work->next;
    if (begins) {
        work->next++;
        work->resident++;
    } else if (work->first != NULL) {
        c = work->first;
        work->first = c->link;
        if (work->first == NULL)
            work->last = NULL;
    }
    pthread_mutex_unlock(&work->lock);
    if (!begins || g->stop)
        return c;
    c = *spare != NULL ? *spare : emu_cluster_new(g);
    *spare = NULL;
    if (c == NULL || !emu_cluster_begin(c, id, counts)) {
        out_of_memory(g);
        emu_cluster_free(c);
        return NULL;
    }
    return c;
}

/* True if others wait for a turn. */
static bool put_aside(struct emu_grid *g, struct emu_cluster *c, bool always)
{
    struct grid_work *work = g->work;
    pthread_mutex_lock(&work->lock);
    bool others = work->first != NULL || (work->next < work->total && work->resident < work->most);
    if (others || always) {
        c->link = NULL;
        *(work->last != NULL ? &work->last->link : &work->first) = c;
        work->last = c;
        others = true;
    }
    pthread_mutex_unlock(&work->lock);
    return others;
}

static void spend(struct emu_grid *g, struct emu_cluster *c, uint64_t executed)
{
    struct grid_work *work = g->work;
    pthread_mutex_lock(&work->lock);
    work->executed += executed;
    bool over = work->executed > g->settings->budget && !g->stop;
    pthread_mutex_unlock(&work->lock);
    struct emu_warp *w = NULL;
    for (uint32_t i = 0; i < c->ctas[0].warp_count; i++)
        if (c->ctas[0].warps[i].live)
            w = &c->ctas[0].warps[i];
    if (!over || w == NULL) /* the cluster is at its end: the next one decides */
        return;
    w->now = &w->fragments[0];
    emu_fault(w, &w->now->function->code[w->now->pc], __builtin_ctz(w->now->mask), 702,
              "the launch has executed its budget of %llu instructions (PTXPACK_EMU_BUDGET)",
              (unsigned long long)g->settings->budget);
}

/* True if this cluster and all others that have begun only poll, and no other can begin. */
static bool all_poll(struct emu_grid *g, struct emu_cluster *c)
{
    struct grid_work *work = g->work;
    pthread_mutex_lock(&work->lock);
    if (c->ended_seen != work->ended) /* it must poll once more */
        c->polls = 0;
    c->ended_seen = work->ended;
    bool polls = emu_cluster_polls(c);
    work->polling += polls && !c->counted_idle;
    work->polling -= !polls && c->counted_idle;
    c->counted_idle = polls;
    bool all = work->polling == work->resident && (work->next >= work->total || work->resident >= work->most);
    pthread_mutex_unlock(&work->lock);
    return polls && all;
}

/* It polls until something outside changes what it reads, or nothing can. */
static void poll_on(struct emu_grid *g, struct emu_cluster *c)
{
    emu_arena_leave();
    const bool may_change = g->may_change != NULL && g->may_change(g->may_change_data, c->waits);
    emu_arena_enter();
    if (!may_change) {
        emu_cluster_deadlock(c);
        return;
    }
    c->polls = 0;
    c->waits = true;
}

static void finish(struct emu_grid *g, struct emu_cluster *c, struct emu_cluster **spare)
{
    emu_cluster_end(c);
    pthread_mutex_lock(&g->work->lock);
    g->work->resident--;
    g->work->ended++;
    g->work->polling -= c->counted_idle;
    pthread_mutex_unlock(&g->work->lock);
    if (*spare != NULL)
        emu_cluster_free(c);
    else
        *spare = c;
}

static void run_cluster(struct emu_grid *g, struct emu_cluster *c, struct emu_cluster **spare)
{
    for (;;) {
        uint64_t      before = c->executed;
        enum emu_turn turn = emu_cluster_run(c, QUANTUM);
        emu_arena_pause();
        spend(g, c, c->executed - before + 1);
        if (all_poll(g, c))
            poll_on(g, c);
        if (turn == EMU_TURN_DONE || g->stop) {
            finish(g, c, spare);
            return;
        }
        if (put_aside(g, c, false))
            return;
    }
}

static bool idle(struct emu_grid *g)
{
    pthread_mutex_lock(&g->work->lock);
    bool done = g->work->next >= g->work->total && g->work->first == NULL;
    pthread_mutex_unlock(&g->work->lock);
    return done;
}

static void *worker(void *argument)
{
    struct emu_grid    *g = (struct emu_grid *)argument;
    struct emu_cluster *spare = NULL;
    struct emu_count   *counts = emu_profile_begin(g);
    emu_arena_enter();
    while (!g->stop) {
        struct emu_cluster *c = take(g, &spare, counts);
        if (c != NULL)
            run_cluster(g, c, &spare);
        else if (idle(g))
            break;
        emu_arena_pause();
    }
    emu_arena_leave();
    emu_cluster_free(spare);
    emu_profile_end(g, counts);
    return NULL;
}

static void drop_rest(struct emu_grid *g)
{
    while (g->work->first != NULL) {
        struct emu_cluster *c = g->work->first;
        g->work->first = c->link;
        emu_cluster_end(c);
        emu_cluster_free(c);
    }
}

static void run_workers(struct emu_grid *g)
{
    enum { MOST_THREADS = 64 };
    pthread_t threads[MOST_THREADS];
    int       wanted = g->settings->host_threads, made = 0;
    if ((uint64_t)wanted > g->work->total)
        wanted = (int)g->work->total;
    if (wanted > MOST_THREADS)
        wanted = MOST_THREADS;
    while (made < wanted - 1 && pthread_create(&threads[made], NULL, worker, g) == 0)
        made++;
    worker(g);
    for (int i = 0; i < made; i++)
        pthread_join(threads[i], NULL);
    emu_arena_enter();
    drop_rest(g);
    emu_arena_leave();
}

/* ---- the launch ----------------------------------------------------------------------------------- */
static bool place_parameters(struct emu_grid *g, const struct emu_launch *l)
{
    uint64_t bytes = l->entry->parameter_bytes ? l->entry->parameter_bytes : 1;
    g->parameter_address = emu_arena_alloc(bytes, EMU_MEMORY_PARAMETERS, "the parameters", NULL);
    if (!g->parameter_address)
        return false;
    g->parameters = (unsigned char *)(uintptr_t)g->parameter_address;
    if (l->entry->parameter_bytes)
        memcpy(g->parameters, l->parameters, l->entry->parameter_bytes);
    emu_arena_define(g->parameter_address, bytes, true);
    return true;
}

/* The workspace that CUDA's cooperative groups expect at %envreg1:2: its size, and a word for the barrier. */
static bool place_workspace(struct emu_grid *g)
{
    const uint32_t words[2] = {sizeof words, 0};
    g->workspace = emu_arena_alloc(sizeof words, EMU_MEMORY_DEVICE, "the workspace of the grid", NULL);
    if (!g->workspace)
        return false;
    memcpy((void *)(uintptr_t)g->workspace, words, sizeof words);
    emu_arena_define(g->workspace, sizeof words, true);
    return true;
}

static void shape_grid(struct emu_grid *g, struct grid_work *work, const struct emu_settings *s,
                       const struct emu_launch *l)
{
    uint32_t size = 1, threads = l->block[0] * l->block[1] * l->block[2];
    uint64_t blocks = 1;
    int      each = emu_function_occupancy(s, l->entry, (int)threads, l->dynamic_shared);
    cluster_shape(l, g->cluster);
    for (int i = 0; i < 3; i++) {
        g->grid[i] = l->grid[i];
        g->block[i] = l->block[i];
        size *= g->cluster[i];
        blocks *= l->grid[i];
    }
    g->explicit_cluster = l->cluster[0] || l->entry->text->required_cluster[0];
    work->total = blocks / size;
    work->most = (uint32_t)(each > 0 ? each : 1) * (uint32_t)s->sm_count / size;
    if (work->most < 1)
        work->most = 1;
}

unsigned int emu_launch_run(const struct emu_settings *settings, const struct emu_launch *launch)
{
    struct grid_work work = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct emu_grid  g = {.entry = launch->entry,
                          .module = launch->entry->module,
                          .settings = settings,
                          .dynamic_shared = launch->dynamic_shared,
                          .dependent = launch->dependent,
                          .unreachable = launch->unreachable,
                          .may_change = launch->may_change,
                          .may_change_data = launch->may_change_data,
                          .kept = launch->kept,
                          .work = &work};
    shape_grid(&g, &work, settings, launch);
    g.id = atomic_fetch_add(&grid_count, 1) + 1;
    g.role_count = (g.block[0] * g.block[1] * g.block[2] + EMU_LANES - 1) / EMU_LANES;
    bool placed = place_parameters(&g, launch) && (!launch->cooperative || place_workspace(&g));
    if (placed && judge_grid_begin(&g)) {
        run_workers(&g);
        judge_grid_end(&g);
    } else {
        g.result = 2;
    }
    if (g.parameter_address)
        emu_arena_free(g.parameter_address);
    if (g.workspace)
        emu_arena_free(g.workspace);
    pthread_mutex_destroy(&work.lock);
    atomic_fetch_add(&all_findings, g.findings);
    if (!g.result && g.findings && !settings->judge_reports_only)
        g.result = 719;
    return g.result;
}
