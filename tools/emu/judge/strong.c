/* strong.c - words of memory that threads synchronise through: fence, strong write; strong read, fence.
 *
 * A strong write or atomic releases into the word what its thread had observed at its last fence.  A strong
 * read or atomic remembers what the word holds, and the thread's next fence acquires it.  All clusters of the
 * grid share the words of global memory, so these hold packets. */
#include <stdlib.h>
#include "internal.h"

void judge_locations_init(struct judge_locations *table)
{
    for (int i = 0; i < LOCATION_SHARDS; i++)
        pthread_mutex_init(&table->lock[i], NULL);
}

static void location_clear(struct judge_location *location)
{
    for (int p = 0; p < PARTS; p++) {
        judge_packet_drop(location->part[p]);
        location->part[p] = NULL;
    }
    for (struct judge_near *at = location->near, *next; at != NULL; at = next) {
        next = at->next;
        for (int p = 0; p < PARTS; p++)
            judge_packet_drop(at->part[p]);
        free(at);
    }
    location->near = NULL;
}

void judge_locations_free(struct judge_locations *table)
{
    for (int i = 0; i < LOCATION_BUCKETS; i++) {
        for (struct judge_location *at = table->bucket[i], *next; at != NULL; at = next) {
            next = at->next;
            location_clear(at);
            free(at);
        }
        table->bucket[i] = NULL; /* the table of a grid that is kept is used by the next one */
    }
    for (int i = 0; i < LOCATION_SHARDS; i++)
        pthread_mutex_destroy(&table->lock[i]);
}

/* An address that is different in every host thread. */
static const void *this_thread(void)
{
    static _Thread_local char mine;
    return &mine;
}

static uint32_t location_hash(const void *owner, uint64_t address)
{
    const uint64_t key = (address >> 2) ^ ((uint64_t)(uintptr_t)owner << 8);
    return (uint32_t)((key * 0x9e3779b97f4a7c15ull) >> 40);
}

/* Returns with its lock held, also for NULL: nothing was ever released through it, and `make` is false. */
static struct judge_location *location_lock(struct judge_cluster *c, struct judge_locations *table,
                                            const void *owner, uint64_t address, bool make,
                                            pthread_mutex_t **lock)
{
    const uint32_t          hash = location_hash(owner, address);
    struct judge_location **bucket = &table->bucket[hash % LOCATION_BUCKETS], *at;
    pthread_mutex_lock(*lock = &table->lock[hash % LOCATION_SHARDS]);
    for (at = *bucket; at != NULL && (at->owner != owner || at->address != address);)
        at = at->next;
    if (at != NULL || !make || (at = (struct judge_location *)judge_alloc(c->grid, 1, sizeof *at)) == NULL)
        return at;
    at->owner = owner;
    at->address = address;
    at->next = *bucket;
    return *bucket = at;
}

static struct judge_strong *strong_of(struct judge_warp *w)
{
    if (w->strong == NULL)
        w->strong = (struct judge_strong *)judge_alloc(w->cluster->grid, 1, sizeof *w->strong);
    return w->strong;
}

static void pending_drop(struct judge_pending *pending)
{
    for (int r = 0; r < REACHES; r++)
        for (int p = 0; p < PARTS; p++)
            judge_packet_drop(pending->part[r][p]);
}

/* What the warp's block has released with fences of the scope .cta.  NULL: nothing, or out of memory. */
static struct judge_near *near_of(struct judge_warp *w, struct judge_location *location, bool make)
{
    const uint64_t     block = (uint64_t)w->cluster->id << 32 | w->w->cta->rank;
    struct judge_near *at = location->near;
    while (at != NULL && at->block != block)
        at = at->next;
    if (at != NULL || !make || (at = (struct judge_near *)judge_alloc(w->cluster->grid, 1, sizeof *at)) == NULL)
        return at;
    at->block = block;
    at->next = location->near;
    return location->near = at;
}

void judge_strong_free(struct judge_warp *w)
{
    for (int l = 0; w->strong != NULL && l < EMU_LANES; l++) {
        for (int i = 0; i < PARTS * REACHES; i++)
            judge_vector_drop(w->strong->at[i / PARTS].part[i % PARTS][l], 1);
        for (int i = 0; i < w->strong->pending_count[l]; i++)
            pending_drop(&w->strong->pending[l][i]);
    }
    free(w->strong);
    w->strong = NULL;
}

/* ---- acquire -------------------------------------------------------------------------------------- */
static struct judge_locations *table_of(struct judge_cluster *c, const void *owner)
{
    return owner != NULL ? &c->locations : &c->grid->locations;
}

/* What was released before the read was reported to the judge, which precedes the read itself. */
static void import_old(struct judge_warp *w, int lane, struct judge_pending *pending)
{
    for (int r = 0; r < REACHES; r++)
        for (int p = 0; p < PARTS; p++)
            judge_vector_import(w->cluster, &w->part[p][lane], pending->part[r][p]);
    pending_drop(pending);
}

static void import_near(struct judge_warp *w, int lane, const struct judge_near *near)
{
    for (int p = 0; near != NULL && p < PARTS; p++)
        judge_vector_import(w->cluster, &w->part[p][lane], near->part[p]);
}

/* What another host thread has released since: the read may have returned it. */
static void import_new(struct judge_warp *w, int lane, const struct judge_pending *pending,
                       enum judge_reach reach)
{
    pthread_mutex_t        *lock;
    struct judge_locations *table = table_of(w->cluster, pending->owner);
    struct judge_location  *location = location_lock(w->cluster, table, pending->owner, pending->address, false,
                                                     &lock);
    const bool              later = location == NULL ||
                       (location->thread == pending->thread && location->alone <= pending->changes);
    for (int p = 0; !later && reach == REACH_ALL && p < PARTS; p++)
        judge_vector_import(w->cluster, &w->part[p][lane], location->part[p]);
    if (!later)
        import_near(w, lane, near_of(w, location, false));
    pthread_mutex_unlock(lock);
}

/* A fence of the scope .cta acquires only what threads of the block have released. */
static void acquire_pending(struct judge_warp *w, int lane, enum judge_reach reach)
{
    struct judge_strong *s = w->strong;
    for (unsigned int i = 0; i < s->pending_count[lane]; i++) {
        struct judge_pending  *pending = &s->pending[lane][i];
        const enum judge_reach of = pending->owner != NULL ? REACH_ALL : reach;
        import_new(w, lane, pending, of);
        if (of == REACH_ALL) {
            import_old(w, lane, pending);
            memset(pending->part, 0, sizeof pending->part);
        } else
            for (int p = 0; p < PARTS; p++)
                judge_vector_import(w->cluster, &w->part[p][lane], pending->part[REACH_BLOCK][p]);
    }
    if (reach == REACH_ALL)
        s->pending_count[lane] = 0;
}

void judge_strong_acquire(struct judge_warp *w, uint32_t mask)
{
    for (; w->strong != NULL && mask; mask &= mask - 1)
        if (w->strong->pending_count[__builtin_ctz(mask)])
            acquire_pending(w, __builtin_ctz(mask), REACH_ALL);
}

/* The entry for the read of a word; the caller replaces an old one. */
static struct judge_pending *pending_for(struct judge_warp *w, int lane, const void *owner, uint64_t address)
{
    struct judge_strong *s = strong_of(w);
    unsigned int         i = 0;
    if (s == NULL)
        return NULL;
    while (i < s->pending_count[lane] &&
           (s->pending[lane][i].owner != owner || s->pending[lane][i].address != address))
        i++;
    if (i == PENDING) {
        acquire_pending(w, lane, REACH_ALL);
        i = 0;
    }
    if (i == s->pending_count[lane]) {
        s->pending_count[lane]++;
        s->pending[lane][i] = (struct judge_pending){.owner = owner, .address = address};
    }
    s->pending[lane][i].thread = this_thread();
    return &s->pending[lane][i];
}

/* Call it with the location's lock held (NULL: nothing was released there).  What a word holds only grows until
 * a plain store. */
static void lane_saw(struct judge_warp *w, int lane, struct judge_pending *pending,
                     struct judge_location *location)
{
    if (location == NULL)
        return;
    if (pending->stores != location->stores)
        import_old(w, lane, pending);
    else
        pending_drop(pending);
    pending->stores = location->stores;
    pending->changes = location->changes;
    const struct judge_near *near = near_of(w, location, false);
    for (int p = 0; p < PARTS; p++) {
        pending->part[REACH_ALL][p] = judge_packet_keep(location->part[p]);
        pending->part[REACH_BLOCK][p] = judge_packet_keep(near != NULL ? near->part[p] : NULL);
    }
}

/* ---- release -------------------------------------------------------------------------------------- */
static void lane_export(struct judge_warp *w, int lane, enum judge_reach reach, struct judge_packet *to[PARTS])
{
    struct judge_snapshot *s = &w->strong->at[reach];
    for (int p = 0; p < PARTS; p++) {
        struct judge_vector *v = judge_vector_keep(s->part[p][lane], 1);
        judge_add_own(w, 1u << lane, (enum judge_part)p, s->own[p], &v);
        if (v != NULL)
            judge_vector_export(w->cluster, v, &to[p]);
        judge_vector_drop(v, 1);
    }
}

/* Shared memory is nearly always the own block's, so that all fences reach far enough. */
static void lane_release(struct judge_warp *w, int lane, struct judge_location *location)
{
    if (w->strong->at[REACH_ALL].lanes >> lane & 1)
        lane_export(w, lane, REACH_ALL, location->part);
    if (!(w->strong->at[REACH_BLOCK].lanes >> lane & 1))
        return;
    struct judge_near *near = location->owner == NULL ? near_of(w, location, true) : NULL;
    if (near != NULL || location->owner != NULL)
        lane_export(w, lane, REACH_BLOCK, near != NULL ? near->part : location->part);
}

/* A thread that reads the new value has not read what was released with the old one. */
static void location_store(struct judge_location *location)
{
    location->stores++;
    location_clear(location);
}

static void location_changes(struct judge_location *location)
{
    if (location->thread != this_thread()) {
        location->thread = this_thread();
        location->alone = location->changes;
    }
    location->changes++;
}

static void lane_strong(struct judge_warp *w, int lane, const struct emu_ref *ref, uint64_t address,
                        unsigned int access)
{
    struct judge_cluster *c = w->cluster;
    const void           *owner = ref->space == EMU_SHARED ? ref->cta : NULL;
    const bool            reads = (access & (EMU_READ | EMU_ATOMIC)) != 0, writes = (access & EMU_WRITE) != 0;
    const bool            releases = writes && w->strong != NULL &&
                          ((w->strong->at[REACH_ALL].lanes | w->strong->at[REACH_BLOCK].lanes) >> lane & 1);
    struct judge_location *location;
    struct judge_pending  *pending;
    pthread_mutex_t       *lock;
    pending = reads ? pending_for(w, lane, owner, address) : NULL;
    location = location_lock(c, table_of(c, owner), owner, address, releases, &lock);
    if (pending != NULL)
        lane_saw(w, lane, pending, location);
    if (location != NULL && writes && !reads)
        location_store(location);
    if (location != NULL && releases)
        lane_release(w, lane, location);
    if (location != NULL && writes)
        location_changes(location);
    pthread_mutex_unlock(lock);
}

void judge_strong_access(struct judge_warp *w, uint32_t mask, const struct emu_ref ref[EMU_LANES],
                         uint32_t bytes, unsigned int access)
{
    for (; mask; mask &= mask - 1) {
        const int l = __builtin_ctz(mask);
        if (ref[l].space != EMU_LOCAL)
            for (uint64_t at = ref[l].address & ~3ull; at < ref[l].address + bytes; at += 4)
                lane_strong(w, l, &ref[l], at, access);
    }
}

/* ---- fence ---------------------------------------------------------------------------------------- */
static void snapshot(struct judge_warp *w, int lane, struct judge_snapshot *s)
{
    w->own[PART_SEEN][ROW_THREAD][lane] = w->epoch;
    for (int p = 0; p < PARTS; p++) {
        judge_vector_keep(w->part[p][lane], 1);
        judge_vector_drop(s->part[p][lane], 1);
        s->part[p][lane] = w->part[p][lane];
        for (int kind = 0; kind < ROW_KINDS; kind++)
            s->own[p][kind][lane] = w->own[p][kind][lane];
    }
    s->lanes |= 1u << lane;
}

void judge_fence(struct emu_warp *warp, uint32_t mask, bool own_block)
{
    struct judge_warp     *w = warp->judge;
    const enum judge_reach reach = own_block ? REACH_BLOCK : REACH_ALL;
    if (w == NULL || !mask || judge_is_off(w->cluster->grid) || strong_of(w) == NULL)
        return;
    if (reach == REACH_ALL)
        w->strong->at[REACH_BLOCK].lanes &= ~mask;
    for (; mask; mask &= mask - 1) {
        const int l = __builtin_ctz(mask);
        acquire_pending(w, l, reach);
        snapshot(w, l, &w->strong->at[reach]);
    }
    w->epoch++;
}

void judge_release_fenced(struct emu_warp *warp, uint32_t mask, struct judge_clock **clock)
{
    struct judge_warp *w = warp->judge;
    if (w == NULL || w->strong == NULL)
        return;
    struct judge_snapshot *s = &w->strong->at[REACH_ALL];
    mask &= s->lanes;
    if (!mask || (*clock == NULL && (*clock = judge_clock_new(w->cluster)) == NULL))
        return;
    for (; mask; mask &= mask - 1)
        for (int p = 0; p < PARTS; p++) {
            struct judge_vector **to = &(*clock)->part[p], *v = s->part[p][__builtin_ctz(mask)];
            if (v != NULL)
                judge_vector_join(w->cluster->grid, to, v);
            judge_add_own(w, mask & -mask, (enum judge_part)p, s->own[p], to);
        }
}
