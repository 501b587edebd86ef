/* judge_strong.c - words of memory that threads synchronise through: fence, strong write; strong read, fence.
 *
 * A strong write or atomic releases what its thread had observed at its last fence into the word; a strong
 * read or atomic notes the word, and the thread's next fence acquires what the word holds then.  The words of
 * global memory are shared by all clusters of the grid, so what they hold is in packets. */
#include <stdlib.h>
#include "judge_internal.h"

void judge_locations_init(struct judge_locations *table)
{
    for (int i = 0; i < LOCATION_SHARDS; i++)
        pthread_mutex_init(&table->lock[i], NULL);
}

void judge_locations_free(struct judge_locations *table)
{
    for (int i = 0; i < LOCATION_BUCKETS; i++)
        for (struct judge_location *at = table->bucket[i], *next; at; at = next) {
            next = at->next;
            for (int p = 0; p < PARTS; p++)
                judge_packet_drop(at->part[p]);
            free(at);
        }
    for (int i = 0; i < LOCATION_SHARDS; i++)
        pthread_mutex_destroy(&table->lock[i]);
}

static uint32_t location_hash(const void *owner, uint64_t address)
{
    const uint64_t key = (address >> 2) ^ ((uint64_t)(uintptr_t)owner << 8);
    return (uint32_t)((key * 0x9e3779b97f4a7c15ull) >> 40);
}

/* With its lock held, in either case.  NULL: nothing was ever released through it (and `make` is false). */
static struct judge_location *location_lock(struct judge_cluster *c, struct judge_locations *table, const void *owner,
                                            uint64_t address, bool make, pthread_mutex_t **lock)
{
    const uint32_t hash = location_hash(owner, address);
    struct judge_location **bucket = &table->bucket[hash % LOCATION_BUCKETS], *at;
    pthread_mutex_lock(*lock = &table->lock[hash % LOCATION_SHARDS]);
    for (at = *bucket; at && (at->owner != owner || at->address != address);)
        at = at->next;
    if (at || !make || !(at = (struct judge_location *)judge_alloc(c->grid, 1, sizeof *at)))
        return at;
    at->owner = owner;
    at->address = address;
    at->next = *bucket;
    return *bucket = at;
}

static struct judge_strong *strong_of(struct judge_warp *w)
{
    if (!w->strong)
        w->strong = (struct judge_strong *)judge_alloc(w->cluster->grid, 1, sizeof *w->strong);
    return w->strong;
}

void judge_strong_free(struct judge_warp *w)
{
    for (int p = 0; w->strong && p < PARTS; p++)
        for (int l = 0; l < EMU_LANES; l++)
            judge_vector_drop(w->strong->part[p][l], 1);
    free(w->strong);
    w->strong = NULL;
}

/* ---- acquire ------------------------------------------------------------------------------------------------ */
static void lane_import(struct judge_warp *w, int lane, struct judge_locations *table, struct judge_location *location)
{
    pthread_mutex_t *lock = &table->lock[location_hash(location->owner, location->address) % LOCATION_SHARDS];
    pthread_mutex_lock(lock);
    for (int p = 0; p < PARTS; p++)
        judge_vector_import(w->cluster, &w->part[p][lane], location->part[p]);
    pthread_mutex_unlock(lock);
}

static void lane_saw(struct judge_warp *w, int lane, struct judge_locations *table, struct judge_location *location)
{
    struct judge_strong *s = strong_of(w);
    unsigned int count;
    if (!s)
        return;
    count = s->pending_count[lane];
    for (unsigned int i = 0; i < count; i++)
        if (s->pending[lane][i].location == location)
            return;
    if (count == PENDING) {
        lane_import(w, lane, table, location);
        return;
    }
    s->pending[lane][count].table = table;
    s->pending[lane][count].location = location;
    s->pending_count[lane]++;
}

/* ---- release ------------------------------------------------------------------------------------------------ */
static void lane_export(struct judge_warp *w, int lane, struct judge_location *location, bool keep)
{
    struct judge_strong *s = w->strong;
    for (int p = 0; p < PARTS; p++) {
        struct judge_vector *v = judge_vector_keep(s->part[p][lane], 1);
        judge_add_own(w, 1u << lane, (enum judge_part)p, s->own[p], &v);
        if (!keep) {
            judge_packet_drop(location->part[p]);
            location->part[p] = NULL;
        }
        if (v)
            judge_vector_export(w->cluster, v, &location->part[p]);
        judge_vector_drop(v, 1);
    }
}

static void lane_strong(struct judge_warp *w, int lane, const struct emu_ref *ref, uint64_t address,
                        unsigned int access)
{
    struct judge_cluster *c = w->cluster;
    const bool shared = ref->space == EMU_SHARED, writes = (access & EMU_WRITE) != 0;
    struct judge_locations *table = shared ? &c->locations : &c->grid->locations;
    const bool releases = writes && w->strong && (w->strong->fenced >> lane & 1);
    pthread_mutex_t *lock;
    struct judge_location *location = location_lock(c, table, shared ? ref->cta : NULL, address, releases, &lock);
    if (location && releases)
        lane_export(w, lane, location, (access & (EMU_READ | EMU_ATOMIC)) != 0);
    else if (location && writes && !(access & (EMU_READ | EMU_ATOMIC)))
        for (int p = 0; p < PARTS; p++) { /* who reads this value has not read the one that was released */
            judge_packet_drop(location->part[p]);
            location->part[p] = NULL;
        }
    pthread_mutex_unlock(lock);
    if (location && (access & (EMU_READ | EMU_ATOMIC)))
        lane_saw(w, lane, table, location);
}

void judge_strong_access(struct judge_warp *w, uint32_t mask, const struct emu_ref ref[EMU_LANES], uint32_t bytes,
                         unsigned int access)
{
    for (; mask; mask &= mask - 1) {
        const int l = __builtin_ctz(mask);
        if (ref[l].space != EMU_LOCAL)
            for (uint64_t at = ref[l].address & ~3ull; at < ref[l].address + bytes; at += 4)
                lane_strong(w, l, &ref[l], at, access);
    }
}

/* ---- fence -------------------------------------------------------------------------------------------------- */
static void acquire_pending(struct judge_warp *w, int lane)
{
    struct judge_strong *s = w->strong;
    for (unsigned int i = 0; i < s->pending_count[lane]; i++)
        lane_import(w, lane, s->pending[lane][i].table, s->pending[lane][i].location);
    s->pending_count[lane] = 0;
}

static void snapshot(struct judge_warp *w, int lane)
{
    struct judge_strong *s = w->strong;
    w->own[PART_SEEN][ROW_THREAD][lane] = w->epoch;
    for (int p = 0; p < PARTS; p++) {
        judge_vector_keep(w->part[p][lane], 1);
        judge_vector_drop(s->part[p][lane], 1);
        s->part[p][lane] = w->part[p][lane];
        for (int kind = 0; kind < ROW_KINDS; kind++)
            s->own[p][kind][lane] = w->own[p][kind][lane];
    }
}

void judge_fence(struct emu_warp *warp, uint32_t mask)
{
    struct judge_warp *w = warp->judge;
    if (!w || !mask || judge_is_off(w->cluster->grid) || !strong_of(w))
        return;
    w->strong->fenced |= mask;
    for (; mask; mask &= mask - 1) {
        const int l = __builtin_ctz(mask);
        acquire_pending(w, l);
        snapshot(w, l);
    }
    w->epoch++;
}
