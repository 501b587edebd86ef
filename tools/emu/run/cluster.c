/* cluster.c - the blocks of a cluster: their memory, the scheduling of their warps, and deadlocks. */
#include "cluster.h"
#include <stdio.h>
#include <stdlib.h>
#include "tools/emu/async/async.h"
#include "tools/emu/judge/judge.h"
#include "profile.h"
#include "tools/emu/machine/special.h"
#include "tools/emu/machine/undefined.h"
#include "warp.h"

enum {
    TURN = 256,             /* ops that a warp runs at most before the next warp                         */
    PATIENCE = 20000,       /* successive waits that gave up without any change: a deadlock */
    POLLING = 2000000,      /* rounds of polling after which a cluster counts as one that only polls     */
    POLLING_OUTSIDE = 1000, /* the same where something outside the launch may end it                */
    WORKING = 128,          /* a round with more ops is more than polling                                */
    MOST_DEPTH = 1024,
    MOST_LOCAL = 512 << 10 /* bytes of local memory of a thread, all frames                             */
};

/* ---- sizes ---------------------------------------------------------------------------------------- */
struct frame_sizes {
    uint64_t rows, local;
    uint32_t depth;
};

static struct frame_sizes measure(const struct emu_grid *g)
{
    const struct emu_function *entry = g->entry;
    struct frame_sizes         s = {entry->calls ? g->module->frame_rows : entry->rows, entry->local_bytes, 1};
    for (uint32_t i = 0; i < g->module->function_count; i++) {
        const struct emu_function *f = &g->module->functions[i];
        uint32_t                   times = f->calls_recursively ? EMU_CALL_DEPTH : 1;
        if (f->text->is_entry || !f->text->has_body || !entry->calls)
            continue;
        s.local += (uint64_t)f->local_bytes * times;
        s.depth += times;
    }
    if (s.depth > MOST_DEPTH)
        s.depth = MOST_DEPTH;
    if (s.local > MOST_LOCAL)
        s.local = MOST_LOCAL;
    s.local = (s.local + 63) / 64 * 64;
    return s;
}

/* ---- memory --------------------------------------------------------------------------------------- */
static bool new_warp(struct emu_warp *w, const struct frame_sizes *s)
{
    w->row_count = (uint32_t)s->rows;
    w->local_bytes = (uint32_t)s->local;
    w->return_depth = s->depth;
    w->rows = (unsigned char *)calloc(s->rows + 1, EMU_ROW);
    w->defined_rows = (uint32_t *)calloc(s->rows + 1, sizeof *w->defined_rows);
    w->bank[EMU_BANK_SPECIAL] = (unsigned char *)calloc((size_t)EMU_SPECIAL_COUNT * 2, EMU_ROW);
    w->returns = (struct emu_return *)calloc((size_t)s->depth * EMU_LANES, sizeof *w->returns);
    w->local = (unsigned char *)calloc(s->local + 1, EMU_LANES);
    w->local_defined = (unsigned char *)calloc(s->local / 8 + 1, EMU_LANES);
    return w->rows != NULL && w->defined_rows != NULL && w->bank[EMU_BANK_SPECIAL] != NULL &&
           w->returns != NULL && w->local != NULL && w->local_defined != NULL;
}

static void free_warp(struct emu_warp *w)
{
    free(w->rows);
    free(w->defined_rows);
    free(w->busy_rows);
    free(w->written_rows);
    emu_undefined_free(w);
    free(w->bank[EMU_BANK_SPECIAL]);
    free(w->returns);
    free(w->local);
    free(w->local_defined);
}

static bool new_cta(struct emu_cluster *c, struct emu_cta *cta, uint32_t rank)
{
    const struct emu_grid *g = c->grid;
    struct frame_sizes     sizes = measure(g);
    cta->cluster = c;
    cta->rank = rank;
    cta->thread_count = g->block[0] * g->block[1] * g->block[2];
    cta->warp_count = (cta->thread_count + EMU_LANES - 1) / EMU_LANES;
    cta->shared_bytes = g->entry->shared_bytes + g->dynamic_shared;
    cta->warps = (struct emu_warp *)calloc(cta->warp_count, sizeof *cta->warps);
    if (posix_memalign((void **)(void *)&cta->shared, 1024, cta->shared_bytes + 1024u))
        cta->shared = NULL;
    cta->shared_defined = (unsigned char *)calloc(cta->shared_bytes / 8u + 16, 1);
    if (cta->warps == NULL || cta->shared == NULL || cta->shared_defined == NULL)
        return false;
    for (uint32_t i = 0; i < cta->warp_count; i++) {
        struct emu_warp *w = &cta->warps[i];
        w->index = i;
        w->cta = cta;
        w->cluster = c;
        w->grid = c->grid;
        w->bank[EMU_BANK_CONSTANT] = g->module->constants;
        if (!new_warp(w, &sizes))
            return false;
    }
    return true;
}

struct emu_cluster *emu_cluster_new(struct emu_grid *grid)
{
    struct emu_cluster *c = (struct emu_cluster *)calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    c->grid = grid;
    c->cta_count = grid->cluster[0] * grid->cluster[1] * grid->cluster[2];
    c->ctas = (struct emu_cta *)calloc(c->cta_count, sizeof *c->ctas);
    for (uint32_t i = 0; i < c->cta_count; i++)
        if (c->ctas == NULL || !new_cta(c, &c->ctas[i], i)) {
            emu_cluster_free(c);
            return NULL;
        }
    return c;
}

void emu_cluster_free(struct emu_cluster *c)
{
    for (uint32_t i = 0; c != NULL && c->ctas != NULL && i < c->cta_count; i++) {
        struct emu_cta *cta = &c->ctas[i];
        for (uint32_t k = 0; cta->warps != NULL && k < cta->warp_count; k++)
            free_warp(&cta->warps[k]);
        free(cta->warps);
        free(cta->shared);
        free(cta->shared_defined);
    }
    if (c != NULL)
        free(c->ctas);
    free(c);
}

/* ---- beginning ------------------------------------------------------------------------------------ */
static void begin_warp(struct emu_warp *w, struct emu_count *counts)
{
    const struct emu_grid *g = w->grid;
    uint32_t               threads = w->cta->thread_count - w->index * EMU_LANES;
    struct emu_fragment   *f = &w->fragments[0];
    w->live = threads >= EMU_LANES ? EMU_ALL : (1u << threads) - 1;
    memset(f, 0, sizeof *f);
    f->mask = w->live;
    f->function = g->entry;
    w->fragment_count = 1;
    w->executed = w->executed_lanes = 0;
    w->streak = 0;
    w->event = EMU_NO_EVENT;
    w->judge = NULL;
    w->async = NULL;
    w->busy = NULL;
    w->written = NULL;
    w->wgmma_fence = 0;
    w->favoured = 0;
    w->turns = 0;
    memset(w->defined_rows, 0,
           (size_t)g->entry->rows * sizeof *w->defined_rows); /* other functions: when they are called */
    memset(w->cluster_generation, 0, sizeof w->cluster_generation);
    for (uint32_t l = 0; l < EMU_LANES; l++)
        memset(w->local_defined + (size_t)l * (w->local_bytes / 8), 0, (g->entry->local_bytes + 7) / 8);
    free(w->busy_rows);
    w->busy_rows = NULL;
    free(w->written_rows);
    w->written_rows = NULL;
    emu_undefined_free(w);
    w->missing = w->holes = 0;
    w->counts = counts != NULL ? counts + (size_t)w->index * g->module->op_count : NULL;
    emu_special_fill(w);
}

static void begin_cta(struct emu_cta *cta, struct emu_count *counts)
{
    const struct emu_cluster *c = cta->cluster;
    const uint32_t           *grid = c->grid->grid, *shape = c->grid->cluster;
    uint32_t                  across = grid[0] / shape[0], down = grid[1] / shape[1];
    cta->index[0] = c->id % across * shape[0] + cta->rank % shape[0];
    cta->index[1] = c->id / across % down * shape[1] + cta->rank / shape[0] % shape[1];
    cta->index[2] = c->id / across / down * shape[2] + cta->rank / shape[0] / shape[1];
    cta->warps_left = cta->warp_count;
    memset(cta->barriers, 0, sizeof cta->barriers);
    memset(cta->shared_defined, 0, cta->shared_bytes / 8u + 1);
    for (uint32_t i = 0; i < cta->warp_count; i++)
        begin_warp(&cta->warps[i], counts);
}

bool emu_cluster_begin(struct emu_cluster *c, uint32_t id, struct emu_count *counts)
{
    c->id = id;
    c->changes = 1;
    c->executed = c->polls = c->expiries = 0;
    c->counted_idle = false;
    c->ended_seen = 0;
    c->barrier_arrived = c->barrier_generation = 0;
    c->barrier_clock = c->barrier_done = NULL;
    c->random = (c->grid->settings->seed + 1) * 0x9e3779b97f4a7c15ull ^
                ((uint64_t)id + 1) * 0xbf58476d1ce4e5b9ull;
    for (uint32_t i = 0; i < c->cta_count; i++)
        begin_cta(&c->ctas[i], counts);
    if (!async_cluster_begin(c))
        return false;
    if (judge_cluster_begin(c))
        return true;
    async_cluster_end(c);
    return false;
}

void emu_cluster_end(struct emu_cluster *c)
{
    async_cluster_end(c);
    judge_clock_clear(c, &c->barrier_clock);
    judge_clock_clear(c, &c->barrier_done);
    uint64_t lanes = 0;
    for (uint32_t i = 0; i < c->cta_count; i++) {
        for (uint32_t k = 0; k < EMU_BARRIERS; k++)
            judge_clock_clear(c, &c->ctas[i].barriers[k].clock);
        for (uint32_t k = 0; k < c->ctas[i].warp_count; k++)
            lanes += c->ctas[i].warps[k].executed_lanes;
    }
    judge_cluster_end(c);
    emu_profile_executed(lanes);
}

uint32_t emu_random(struct emu_cluster *c)
{
    uint64_t x = c->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    c->random = x;
    return (uint32_t)(x >> 32);
}

/* ---- deadlocks ------------------------------------------------------------------------------------ */
static void report_wait(struct emu_warp *w, struct emu_fragment *f)
{
    char                 what[512] = "";
    const struct emu_op *op = &f->function->code[f->pc];
    emu_load_fragment(w, f);
    if (f->state == EMU_WAITS_BARRIER)
        emu_barrier_text(w, f, what, sizeof what);
    else if (f->state == EMU_WAITS_LANES)
        snprintf(what, sizeof what, "for lanes 0x%08x, which are elsewhere: the warp has diverged",
                 f->waits_for & w->live & ~f->mask);
    else
        async_explain(w, op, f->mask, what, sizeof what);
    judge_find(w, op, __builtin_ctz(f->mask), JUDGE_DEADLOCK, "waits forever%s%s", *what ? ": " : "", what);
}

void emu_cluster_deadlock(struct emu_cluster *c)
{
    struct emu_warp     *last = NULL;
    struct emu_fragment *at = NULL;
    for (uint32_t i = 0; i < c->cta_count; i++)
        for (uint32_t k = 0; k < c->ctas[i].warp_count; k++) {
            struct emu_warp *w = &c->ctas[i].warps[k];
            for (uint32_t f = 0; f < w->fragment_count; f++) {
                report_wait(w, &w->fragments[f]);
                last = w;
                at = &w->fragments[f];
            }
        }
    if (last != NULL)
        emu_fault(last, &at->function->code[at->pc], __builtin_ctz(at->mask), 702,
                  "a deadlock: no thread of the %s can continue", c->cta_count > 1 ? "cluster" : "block");
}

/* Let waits that may give up do so once. */
static bool expire(struct emu_cluster *c)
{
    bool any = false;
    for (uint32_t i = 0; i < c->cta_count; i++)
        for (uint32_t k = 0; k < c->ctas[i].warp_count; k++) {
            struct emu_warp *w = &c->ctas[i].warps[k];
            for (uint32_t f = 0; f < w->fragment_count; f++)
                if (w->fragments[f].state == EMU_WAITS_CHANGE) {
                    w->fragments[f].state = EMU_RUNS;
                    w->fragments[f].expired = any = true;
                }
        }
    return any;
}

/* ---- turns ---------------------------------------------------------------------------------------- */
static bool finished(const struct emu_cluster *c)
{
    for (uint32_t i = 0; i < c->cta_count; i++)
        if (c->ctas[i].warps_left)
            return false;
    return true;
}

/* Run each warp that can run once, beginning with a different warp each time.  *spun: all of them only polled;
 * *polled: they polled something that other clusters may change. */
static uint64_t round_of_warps(struct emu_cluster *c, bool *spun, bool *polled)
{
    uint64_t executed = 0;
    *spun = true;
    *polled = false;
    for (uint32_t i = 0; i < c->cta_count; i++) {
        struct emu_cta *cta = &c->ctas[i];
        uint32_t        first = emu_random(c) % cta->warp_count;
        for (uint32_t k = 0; k < cta->warp_count && !c->grid->stop; k++) {
            struct emu_warp *w = &cta->warps[(first + k) % cta->warp_count];
            bool             spins = false;
            if (!emu_warp_ready(w))
                continue;
            w->polls = false;
            executed += emu_warp_run(w, TURN / 2 + emu_random(c) % TURN, &spins);
            *spun &= spins;
            *polled |= w->polls;
        }
        async_step(c, false);
    }
    return executed;
}

bool emu_cluster_polls(const struct emu_cluster *c)
{
    return c->polls > (c->grid->may_change != NULL ? POLLING_OUTSIDE : POLLING);
}

/* A round made no progress (`ran`: warps ran, but only polled): an operation must complete, a wait must give
 * up, or another cluster must run.  A deadlock is reported only when all fragments are at the op that they wait
 * at. */
static enum emu_turn idle(struct emu_cluster *c, bool ran, bool polled)
{
    if (async_step(c, true))
        return EMU_TURN_MORE;
    if (polled) { /* another cluster may change what it polls */
        c->expiries = 0;
        c->polls++;
        return EMU_TURN_SPINS;
    }
    if (++c->expiries <= (ran ? 2 : 1) * (uint64_t)PATIENCE && (ran || expire(c)))
        return EMU_TURN_MORE;
    emu_cluster_deadlock(c);
    return EMU_TURN_DONE;
}

enum emu_turn emu_cluster_run(struct emu_cluster *c, uint64_t quantum)
{
    uint64_t end = c->executed + quantum;
    while (!c->grid->stop) {
        uint64_t      changes = c->changes;
        enum emu_turn turn = EMU_TURN_MORE;
        bool          spun, polled;
        uint64_t      ran = round_of_warps(c, &spun, &polled);
        c->executed += ran;
        if (finished(c))
            return EMU_TURN_DONE;
        if (c->changes != changes)
            c->polls = c->expiries = 0;
        else if (ran && !spun)
            c->polls = ran >= WORKING ? 0 : c->polls;
        else
            turn = idle(c, ran > 0, polled);
        if (turn != EMU_TURN_MORE || c->executed >= end)
            return turn;
    }
    return EMU_TURN_DONE;
}
