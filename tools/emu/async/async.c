/* async.c - operations in flight: their queues, and when they complete. */
#include "async.h"

#include <stdlib.h>

#include "state.h"
#include "mbarrier.h"

/* ---- memory: an operation has a reusable cell of one of a few sizes ------------------------------- */
struct async_op *async_new(struct emu_warp *w, const struct emu_op *op, int lane, size_t bytes,
                           void (*complete)(struct async_op *))
{
    struct async_cluster *s = w->cluster->async;
    size_t                room = (bytes + ASYNC_GRAIN - 1) / ASYNC_GRAIN * ASYNC_GRAIN;
    uint32_t pool = room / ASYNC_GRAIN <= ASYNC_POOLS ? (uint32_t)(room / ASYNC_GRAIN) - 1 : ASYNC_POOLS;
    struct async_cell *cell = pool < ASYNC_POOLS ? s->pool[pool] : NULL;
    if (cell != NULL)
        s->pool[pool] = cell->next;
    else
        cell = (struct async_cell *)malloc(sizeof *cell + room);
    if (cell == NULL) {
        emu_fault(w, op, lane, 2, "out of memory for an asynchronous operation");
        return NULL;
    }
    cell->pool = pool;
    cell->reads_over = false;
    struct async_op *a = (struct async_op *)(void *)(cell + 1);
    memset(a, 0, bytes);
    a->complete = complete;
    a->warp = w;
    a->op = op;
    a->lane = lane;
    a->lanes = lane < 0 ? EMU_ALL : 1u << lane; /* a warp's cp.async changes it */
    return a;
}

static void release_op(struct async_cluster *s, struct async_op *a)
{
    struct async_cell *cell = async_cell_of(a);
    if (a->forget != NULL)
        a->forget(a);
    if (cell->pool == ASYNC_POOLS) {
        free(cell);
        return;
    }
    cell->next = s->pool[cell->pool];
    s->pool[cell->pool] = cell;
}

void async_discard(struct async_op *a) { release_op(a->warp->cluster->async, a); }

/* ---- judging -------------------------------------------------------------------------------------- */
static void drop_judge(struct async_op *a)
{
    if (a->judge != NULL)
        judge_async_drop(a->judge, a->warp->cluster);
    a->judge = NULL;
    if (a->kind != ASYNC_CP)
        return;
    struct async_lanes *lanes = (struct async_lanes *)a;
    for (int l = 0; l < EMU_LANES; l++)
        if (lanes->judge[l] != NULL) {
            judge_async_drop(lanes->judge[l], a->warp->cluster);
            lanes->judge[l] = NULL;
        }
}

/* Does the operation, once done, still have to be reported to the judge or an observer? */
static bool is_watched(const struct async_op *a)
{
    return a->judge != NULL || a->observed != NULL || (a->kind == ASYNC_CP && a->warp->judge != NULL);
}

/* ---- queues --------------------------------------------------------------------------------------- */
static void set_busy(struct async_cluster *s, struct async_queue *q)
{
    if (q->undone > 0 && q->busy == 0) {
        s->busy[s->busy_count++] = q;
        q->busy = s->busy_count;
    } else if (q->undone == 0 && q->busy != 0) {
        struct async_queue *last = s->busy[--s->busy_count];
        s->busy[q->busy - 1] = last;
        last->busy = q->busy;
        q->busy = 0;
    }
}

void async_complete_queued(struct async_op *a)
{
    struct emu_cluster *cluster = a->warp->cluster;
    struct async_queue *q = async_queue_of(a->warp, a->kind);
    a->done = true;
    q->undone--;
    set_busy(cluster->async, q);
    a->complete(a);
    emu_changed(cluster);
}

/* Remove operations that are done and fully reported, and forget commits that no wait can ask for. */
void async_sweep(struct emu_warp *w, struct async_queue *q)
{
    struct async_op **link = &q->head;
    for (struct async_op *a; (a = *link) != NULL;) {
        bool waited = a->lanes == 0;
        if (!a->done || (!waited && is_watched(a))) {
            link = &a->next;
            continue;
        }
        *link = a->next;
        q->count--;
        if (waited && a->observed != NULL)
            a->observed(a);
        release_op(w->cluster->async, a);
    }
    q->tail = link;
    uint64_t old = q->head != NULL ? q->head->group - q->first : q->commit_count;
    if (old == 0 || (q->head != NULL && old < 64))
        return;
    q->commit_count -= (uint32_t)old;
    q->first += old;
    memmove(q->commits, q->commits + old, q->commit_count * sizeof *q->commits);
}

static bool has_room(struct emu_warp *w, struct async_queue *q, const struct async_op *a)
{
    if (q->count < ASYNC_MOST)
        return true;
    async_sweep(w, q);
    if (q->count < ASYNC_MOST)
        return true;
    emu_fault(w, a->op, a->lane, 719,
              "%d asynchronous operations of one warp are in flight, and nothing waits for them", ASYNC_MOST);
    return false;
}

static void join_queue(struct emu_warp *w, struct async_op *a)
{
    struct async_cluster *s = w->cluster->async;
    struct async_queue   *q = async_queue_of(w, a->kind);
    if (a->kind == ASYNC_WGMMA)
        a->lanes = 1;
    a->group = q->first + q->commit_count;
    if (a->kind == ASYNC_CP)
        ((struct async_lanes *)a)->serial = w->async->serial++;
    if (w->grid->settings->async_policy == EMU_ASYNC_EARLIEST) {
        a->done = true;
        a->complete(a);
        emu_changed(w->cluster);
        if (!is_watched(a)) {
            release_op(s, a);
            return;
        }
    }
    if (!has_room(w, q, a)) {
        drop_judge(a);
        release_op(s, a);
        return;
    }
    *q->tail = a;
    q->tail = &a->next;
    q->count++;
    q->undone += !a->done;
    set_busy(s, q);
}

/* ---- towards mbarriers ---------------------------------------------------------------------------- */
static void complete_signal(struct async_op *a)
{
    struct emu_cluster *cluster = a->warp->cluster;
    a->done = true;
    a->complete(a);
    drop_judge(a);
    release_op(cluster->async, a);
    cluster->async->spins = cluster->async->rounds = 0;
    emu_changed(cluster);
}

static void complete_flying(struct async_cluster *s, uint32_t i)
{
    struct async_op *a = s->flying[i];
    s->flying_count--;
    memmove(s->flying + i, s->flying + i + 1, (s->flying_count - i) * sizeof *s->flying);
    complete_signal(a);
}

bool async_grow(struct async_op ***list, uint32_t *room, uint32_t count)
{
    if (count < *room)
        return true;
    uint32_t          more = *room ? 2 * *room : 64;
    struct async_op **bigger = (struct async_op **)realloc(*list, more * sizeof **list);
    if (bigger == NULL)
        return false;
    *list = bigger;
    *room = more;
    return true;
}

static void fly(struct emu_warp *w, struct async_op *a)
{
    struct async_cluster *s = w->cluster->async;
    if (w->grid->settings->async_policy == EMU_ASYNC_EARLIEST) {
        complete_signal(a);
        return;
    }
    if (s->flying_count >= ASYNC_MOST || !async_grow(&s->flying, &s->flying_room, s->flying_count)) {
        emu_fault(w, a->op, a->lane, 2, "there is no room for more than %u operations in flight",
                  s->flying_count);
        drop_judge(a);
        release_op(s, a);
        return;
    }
    s->flying[s->flying_count++] = a;
}

uint32_t async_flying_to(const struct emu_cta *cta, uint32_t address, uint64_t *bytes)
{
    const struct async_cluster *s = cta->cluster->async;
    uint32_t                    count = 0;
    *bytes = 0;
    for (uint32_t i = 0; i < s->flying_count; i++) {
        const struct async_signal *signal = (const struct async_signal *)s->flying[i];
        if (signal->cta == cta && signal->address == address) {
            count++;
            *bytes += signal->bytes;
        }
    }
    return count;
}

/* ---- issue and commit ----------------------------------------------------------------------------- */
void async_issue(struct emu_warp *w, struct async_op *a, enum async_kind kind)
{
    a->kind = kind;
    if (kind == ASYNC_MBARRIER)
        fly(w, a);
    else
        join_queue(w, a);
}

void async_commit(struct emu_warp *w, uint32_t mask, enum async_kind kind)
{
    struct async_queue *q = async_queue_of(w, kind);
    if (q->head == NULL)
        return; /* an empty group, older than all later ones, which no wait can observe */
    if (q->commit_count == q->commit_room) {
        uint32_t  room = q->commit_room ? 2 * q->commit_room : 16;
        uint32_t *bigger = room > 2 * ASYNC_MOST ? NULL
                                                 : (uint32_t *)realloc(q->commits, room * sizeof *q->commits);
        if (bigger == NULL) {
            emu_fault(w, q->head->op, __builtin_ctz(mask), 719,
                      "%u groups of copies are in flight, and nothing waits for them", q->commit_count);
            return;
        }
        q->commits = bigger;
        q->commit_room = room;
    }
    q->commits[q->commit_count++] = kind == ASYNC_WGMMA ? 1 : mask;
    if (kind == ASYNC_WGMMA)
        emu_changed(w->cluster); /* other warps of the warpgroup may wait for it */
}

/* ---- between the warps' turns --------------------------------------------------------------------- */
/* One unfinished operation of the queue's oldest group. */
static void complete_some_of(struct emu_cluster *cluster, struct async_queue *q)
{
    struct async_op *first = q->head, *pick;
    while (first->done)
        first = first->next;
    pick = first;
    uint32_t seen = 1;
    for (struct async_op *a = first->next; a != NULL && a->group == first->group; a = a->next)
        if (!a->done && first->kind != ASYNC_WGMMA && emu_random(cluster) % ++seen == 0)
            pick = a;
    async_complete_queued(pick);
}

static void complete_random(struct emu_cluster *cluster)
{
    struct async_cluster *s = cluster->async;
    uint32_t              pick = emu_random(cluster) % (s->flying_count + s->busy_count);
    if (pick < s->flying_count)
        complete_flying(s, emu_random(cluster) % s->flying_count);
    else
        complete_some_of(cluster, s->busy[pick - s->flying_count]);
}

/* With the policy `latest`, operations complete now, the newest first, since programs expect the oldest
 * first. */
static void complete_latest(struct emu_cluster *cluster)
{
    struct async_cluster *s = cluster->async;
    if (s->flying_count > 0) {
        complete_flying(s, s->flying_count - 1);
        return;
    }
    struct async_queue *q = s->busy[s->busy_count - 1];
    struct async_op    *a = q->head;
    while (a->done)
        a = a->next;
    async_complete_queued(a);
}

void async_spun(struct emu_cluster *cluster) { cluster->async->spins++; }

bool async_step(struct emu_cluster *cluster, bool stuck)
{
    enum { MOST_SPINS = 256, MOST_ROUNDS = 1024 }; /* a program may wait by other means than an mbarrier */
    struct async_cluster *s = cluster->async;
    if (s->flying_count + s->busy_count == 0)
        return false;
    if (cluster->grid->settings->async_policy != EMU_ASYNC_RANDOM) {
        if (!stuck && s->spins < MOST_SPINS && ++s->rounds < MOST_ROUNDS)
            return false;
        complete_latest(cluster);
        s->spins = s->rounds = 0;
        return true;
    }
    uint32_t dice = emu_random(cluster), times = dice % 4 == 0 ? 0 : dice % 4 < 3 ? 1 : 1 + (dice >> 8) % 8;
    times += stuck && times == 0;
    uint32_t done = 0;
    for (; done < times && s->flying_count + s->busy_count > 0; done++)
        complete_random(cluster);
    return done > 0;
}

/* ---- life ----------------------------------------------------------------------------------------- */
bool async_cluster_begin(struct emu_cluster *cluster)
{
    struct async_cluster *s = (struct async_cluster *)calloc(1, sizeof *s);
    uint32_t              warps = 0;
    for (uint32_t c = 0; c < cluster->cta_count; c++)
        warps += cluster->ctas[c].warp_count;
    cluster->async = s;
    if (s == NULL)
        return false;
    s->warps = (struct async_warp *)calloc(warps + 1, sizeof *s->warps);
    s->busy = (struct async_queue **)calloc((size_t)warps * ASYNC_KINDS + 1, sizeof(struct async_queue *));
    bool               good = s->warps != NULL && s->busy != NULL;
    struct async_warp *next = s->warps;
    for (uint32_t c = 0; c < cluster->cta_count; c++) {
        cluster->ctas[c].async = NULL; /* its first mbarrier allocates it */
        for (uint32_t i = 0; good && i < cluster->ctas[c].warp_count; i++, next++) {
            cluster->ctas[c].warps[i].async = next;
            for (int k = 0; k < ASYNC_KINDS; k++)
                next->queue[k].tail = &next->queue[k].head;
        }
    }
    if (!good)
        async_cluster_end(cluster);
    return good;
}

static void end_queue(struct async_queue *q, bool judged)
{
    for (struct async_op *a; (a = q->head) != NULL;) {
        struct emu_cluster *cluster = a->warp->cluster;
        if (judged && a->kind == ASYNC_BULK && !async_cell_of(a)->reads_over)
            judge_find(a->warp, a->op, a->lane, JUDGE_ASYNC,
                       "issued it, and its block ended before that had read shared memory: "
                       "cp.async.bulk.wait_group.read is missing");
        if (!a->done && !cluster->grid->stop)
            async_complete_queued(a);
        else if (!a->done) {
            q->undone--;
            set_busy(cluster->async, q);
        }
        drop_judge(a);
        q->head = a->next;
        q->count--;
        release_op(cluster->async, a);
    }
    q->tail = &q->head;
    q->first += q->commit_count;
    q->commit_count = 0;
}

void async_cta_end(struct emu_cta *cta)
{
    struct async_cluster *s = cta->cluster->async;
    bool                  stopped = cta->cluster->grid->stop;
    for (uint32_t i = 0; i < s->flying_count;) {
        struct async_op           *a = s->flying[i];
        const struct async_signal *signal = (const struct async_signal *)a;
        if (stopped || (signal->cta != cta && a->warp->cta != cta)) {
            i++;
            continue;
        }
        if (!signal->harmless)
            judge_find(a->warp, a->op, a->lane, JUDGE_ASYNC,
                       "issued it, and block %u of the cluster ended while it was in flight: no thread waited "
                       "for the mbarrier at shared 0x%x",
                       cta->rank, signal->address);
        complete_flying(s, i);
    }
    for (uint32_t i = 0; i < cta->warp_count; i++)
        for (int k = 0; k < ASYNC_KINDS; k++)
            end_queue(&cta->warps[i].async->queue[k], !stopped);
}

void async_cluster_end(struct emu_cluster *cluster)
{
    struct async_cluster *s = cluster->async;
    if (s == NULL)
        return;
    bool runs = s->warps != NULL && s->busy != NULL && !cluster->grid->stop;
    for (uint32_t c = 0; runs && c < cluster->cta_count; c++)
        async_cta_end(&cluster->ctas[c]); /* blocks that ended earlier have nothing left */
    while (s->flying_count > 0) {
        struct async_op *a = s->flying[--s->flying_count];
        drop_judge(a);
        release_op(s, a);
    }
    for (uint32_t c = 0; s->warps != NULL && c < cluster->cta_count; c++) {
        struct emu_cta *cta = &cluster->ctas[c];
        for (uint32_t i = 0; i < cta->warp_count && cta->warps[i].async != NULL; i++)
            for (int k = 0; k < ASYNC_KINDS; k++) {
                end_queue(&cta->warps[i].async->queue[k], false);
                free(cta->warps[i].async->queue[k].commits);
            }
        mbarrier_cta_end(cta);
    }
    for (int p = 0; p < ASYNC_POOLS; p++)
        for (struct async_cell *cell; (cell = s->pool[p]) != NULL;) {
            s->pool[p] = cell->next;
            free(cell);
        }
    free(s->warps);
    free(s->busy);
    free(s->flying);
    free(s->batch);
    free(s);
    cluster->async = NULL;
}

const char *async_explain(struct emu_warp *w, const struct emu_op *op, uint32_t mask, char *buf, size_t cap)
{
    return mbarrier_explain(w, op, mask, buf, cap);
}
