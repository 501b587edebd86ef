/* clock.c - releases into clocks, and acquires from them. */
#include <stdlib.h>
#include "internal.h"

struct judge_clock *judge_clock_new(struct judge_cluster *c)
{
    struct judge_clock *clock = (struct judge_clock *)judge_alloc(c->grid, 1, sizeof *clock);
    if (clock == NULL)
        return NULL;
    clock->next = c->clocks;
    if (c->clocks != NULL)
        c->clocks->previous = clock;
    return c->clocks = clock;
}

void judge_clock_free(struct judge_cluster *c, struct judge_clock *clock)
{
    for (int p = 0; p < PARTS; p++) {
        judge_vector_drop(clock->part[p], 1);
        judge_vector_drop(clock->origin[p], 1);
    }
    if (clock->next != NULL)
        clock->next->previous = clock->previous;
    if (clock->previous != NULL)
        clock->previous->next = clock->next;
    else
        c->clocks = clock->next;
    free(clock);
}

void judge_add_own(struct judge_warp *w, uint32_t mask, enum judge_part p, uint32_t own[ROW_KINDS][EMU_LANES],
                   struct judge_vector **to)
{
    const uint32_t warps = w->cluster->warps;
    for (uint32_t kind = 0; kind < ROW_KINDS; kind++) {
        if (!(w->kinds & 1u << kind) || (p != PART_SEEN && (!w->fenced || kind > ROW_CP)))
            continue;
        if (kind == ROW_WGMMA) {
            uint32_t most = 0;
            for (uint32_t m = mask; m; m &= m - 1) {
                const uint32_t at = own[kind][__builtin_ctz(m)];
                most = at > most ? at : most;
            }
            judge_vector_point(w->cluster->grid, to, kind * warps + w->leader, 0, most);
        } else {
            judge_vector_lanes(w->cluster->grid, to, kind * warps + w->number, mask, own[kind]);
        }
    }
}

/* The lanes of mask that have the same vector as its first lane. */
static uint32_t same_vector(struct judge_vector *const v[EMU_LANES], uint32_t mask)
{
    const struct judge_vector *first = v[__builtin_ctz(mask)];
    uint32_t                   same = 0;
    for (uint32_t l = 0; l < EMU_LANES; l++)
        same |= (uint32_t)(v[l] == first) << l;
    return same & mask;
}

static void lanes_set(struct judge_warp *w, uint32_t mask, enum judge_part p, struct judge_vector *v)
{
    struct judge_vector **at = w->part[p];
    judge_vector_keep(v, (uint32_t)__builtin_popcount(mask));
    for (; mask; mask &= mask - 1) {
        const int l = __builtin_ctz(mask);
        judge_vector_drop(at[l], 1);
        at[l] = v;
    }
}

void judge_lanes_join(struct judge_warp *w, uint32_t mask, enum judge_part p, struct judge_vector *from,
                      const struct judge_vector *origin)
{
    if (from == NULL)
        return;
    while (mask) {
        const uint32_t       same = same_vector(w->part[p], mask);
        struct judge_vector *v = w->part[p][__builtin_ctz(same)];
        mask &= ~same;
        if (v == from)
            continue;
        if (v == NULL || v == origin) {
            lanes_set(w, same, p, from);
            continue;
        }
        judge_vector_keep(v, 1);
        judge_vector_join(w->cluster->grid, &v, from);
        lanes_set(w, same, p, v);
        judge_vector_drop(v, 1);
    }
}

/* Join into *to everything that these lanes have observed. */
static void lanes_gather(struct judge_warp *w, uint32_t mask, enum judge_part p, struct judge_vector **to,
                         const struct judge_vector *origin)
{
    for (uint32_t left = mask; left;) {
        const uint32_t       same = same_vector(w->part[p], left);
        struct judge_vector *v = w->part[p][__builtin_ctz(same)];
        left &= ~same;
        if (v != NULL && v != origin)
            judge_vector_join(w->cluster->grid, to, v);
    }
    judge_add_own(w, mask, p, w->own[p], to);
}

/* Later accesses of these lanes are after what they release now. */
static void lanes_step(struct judge_warp *w, uint32_t mask)
{
    for (; mask; mask &= mask - 1)
        w->own[PART_SEEN][ROW_THREAD][__builtin_ctz(mask)] = w->epoch;
    w->epoch++;
}

void judge_release(struct emu_warp *warp, uint32_t mask, struct judge_clock **clock)
{
    struct judge_warp *w = warp->judge;
    if (w == NULL || !mask || (*clock == NULL && (*clock = judge_clock_new(w->cluster)) == NULL))
        return;
    judge_strong_acquire(w, mask); /* other threads may execute the fence, after the barrier */
    lanes_step(w, mask);
    for (int p = 0; p < PARTS; p++) {
        struct judge_clock *c = *clock;
        if (c->part[p] == NULL) {
            struct judge_vector *first = w->part[p][__builtin_ctz(mask)];
            judge_vector_drop(c->origin[p], 1);
            c->origin[p] = judge_vector_keep(first, 1);
            c->part[p] = judge_vector_keep(first, 1);
        }
        lanes_gather(w, mask, (enum judge_part)p, &c->part[p], c->origin[p]);
    }
}

void judge_acquire(struct emu_warp *warp, uint32_t mask, const struct judge_clock *clock)
{
    struct judge_warp *w = warp->judge;
    if (w == NULL || !mask || clock == NULL)
        return;
    for (int p = 0; p < PARTS; p++)
        judge_lanes_join(w, mask, (enum judge_part)p, clock->part[p], clock->origin[p]);
}

void judge_clock_clear(struct emu_cluster *cluster, struct judge_clock **clock)
{
    if (*clock != NULL && cluster->judge != NULL)
        judge_clock_free(cluster->judge, *clock);
    *clock = NULL;
}

void judge_clock_move(struct emu_cluster *cluster, struct judge_clock **to, struct judge_clock **from)
{
    if (*from == NULL || cluster->judge == NULL)
        return;
    if (*to == NULL) {
        *to = *from;
        *from = NULL;
        return;
    }
    for (int p = 0; p < PARTS; p++)
        judge_vector_join(cluster->judge->grid, &(*to)->part[p], (*from)->part[p]);
    judge_clock_clear(cluster, from);
}

void judge_warp_sync(struct emu_warp *warp, uint32_t mask)
{
    struct judge_warp *w = warp->judge;
    if (w == NULL || !(mask & (mask - 1)))
        return; /* no lane, or a single one */
    lanes_step(w, mask);
    for (int p = 0; p < PARTS; p++) {
        struct judge_vector *v = NULL;
        lanes_gather(w, mask, (enum judge_part)p, &v, NULL);
        if (v != NULL)
            lanes_set(w, mask, (enum judge_part)p, v);
        judge_vector_drop(v, 1);
    }
}

void judge_proxy_fence(struct emu_warp *warp, uint32_t mask, unsigned int spaces)
{
    struct judge_warp *w = warp->judge;
    if (w == NULL || !mask)
        return;
    for (int p = PART_GLOBAL; p < PARTS; p++) {
        if (!(spaces & (unsigned int)p))
            continue;
        for (uint32_t m = mask; m; m &= m - 1) {
            const int l = __builtin_ctz(m);
            judge_vector_keep(w->part[PART_SEEN][l], 1);
            judge_vector_drop(w->part[p][l], 1);
            w->part[p][l] = w->part[PART_SEEN][l];
            w->own[p][ROW_THREAD][l] = w->epoch;
            w->own[p][ROW_CP][l] = w->own[PART_SEEN][ROW_CP][l];
        }
    }
    w->fenced = true;
    w->epoch++;
}
