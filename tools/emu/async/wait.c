/* wait.c - waits: what they cover, complete and observe. */
#include "async.h"
#include "state.h"

/* ---- waiting -----------------------------------------------------------------------------------------
 * before[l]: the wait covers operations of lane l with fewer than this many commits before them. */
struct wait_bounds {
    uint32_t mask;
    bool     same;
    uint64_t before[EMU_LANES];
};

static void find_bounds(const struct async_queue *q, uint32_t mask, uint32_t newest, struct wait_bounds *out)
{
    uint32_t left = mask, passed[EMU_LANES] = {0};
    out->mask = mask;
    out->same = true;
    uint32_t i = q->commit_count, whole = 0;
    memset(out->before, 0, sizeof out->before);
    for (; i > 0 && whole <= newest; i--) {
        uint32_t here = q->commits[i - 1] & mask;
        if (here == mask)
            whole++;
        else if (here != 0)
            break;
    }
    if (i == 0 || whole > newest) { /* each commit was by all of these lanes or by none of them */
        out->before[0] = whole > newest ? q->first + i + 1 : 0;
        return;
    }
    out->same = false;
    for (i = q->commit_count; i > 0 && left != 0; i--)
        for (uint32_t here = q->commits[i - 1] & left; here; here &= here - 1) {
            int l = __builtin_ctz(here);
            if (passed[l]++ == newest) {
                out->before[l] = q->first + i;
                left &= ~(1u << l);
            }
        }
}

static uint32_t covered(const struct wait_bounds *b, const struct async_op *a)
{
    uint32_t lanes = a->lanes & b->mask;
    if (b->same)
        return a->group < b->before[0] ? lanes : 0;
    uint32_t out = 0;
    for (uint32_t m = lanes; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        out |= (uint32_t)(a->group < b->before[l]) << l;
    }
    return out;
}

/* Complete the operations of one group in the least expected order. */
static void complete_group(struct emu_cluster *cluster, struct async_op **list, uint32_t count)
{
    enum emu_async_policy policy = cluster->grid->settings->async_policy;
    bool                  ordered = list[0]->kind == ASYNC_WGMMA;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t pick = i;
        if (!ordered && policy == EMU_ASYNC_RANDOM)
            pick = i + emu_random(cluster) % (count - i);
        else if (!ordered && policy == EMU_ASYNC_LATEST && i < count / 2)
            pick = count - 1 - i;
        struct async_op *a = list[pick];
        list[pick] = list[i];
        list[i] = a;
        async_complete_queued(a);
    }
}

static void complete_batch(struct emu_cluster *cluster, uint32_t count)
{
    struct async_op **batch = cluster->async->batch;
    for (uint32_t begin = 0, end; begin < count; begin = end) {
        for (end = begin + 1; end < count && batch[end]->group == batch[begin]->group; end++)
            ;
        complete_group(cluster, batch + begin, end - begin);
    }
}

static bool add_to_batch(struct emu_warp *w, struct async_op *a, uint32_t *count)
{
    struct async_cluster *s = w->cluster->async;
    if (!async_grow(&s->batch, &s->batch_room, *count)) {
        emu_fault(w, a->op, a->lane, 2, "out of memory for asynchronous operations");
        return false;
    }
    s->batch[(*count)++] = a;
    return true;
}

static void end_judges(struct async_op *a, struct emu_warp *w, uint32_t lanes, uint32_t mask)
{
    if (a->kind != ASYNC_CP) {
        if (a->judge != NULL)
            judge_async_end(a->judge, w, a->kind == ASYNC_WGMMA ? mask : lanes);
        a->judge = NULL;
        return;
    }
    struct async_lanes *each = (struct async_lanes *)a;
    for (uint32_t m = w->judge != NULL ? lanes : 0; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        if (each->judge[l] != NULL)
            judge_async_end(each->judge[l], w, 1u << l);
        each->judge[l] = NULL;
    }
}

void async_wait(struct emu_warp *w, uint32_t mask, enum async_kind kind, uint32_t newest, bool reads)
{
    struct async_queue *q = async_queue_of(w, kind);
    uint32_t            lanes_mask = kind == ASYNC_WGMMA ? 1 : mask, count = 0;
    struct wait_bounds  bounds;
    if (q->head == NULL)
        return;
    find_bounds(q, lanes_mask, newest, &bounds);
    for (struct async_op *a = q->undone ? q->head : NULL; a != NULL; a = a->next)
        if (!a->done && covered(&bounds, a) && !add_to_batch(w, a, &count))
            return;
    complete_batch(w->cluster, count);
    for (struct async_op *a = q->head; a != NULL; a = a->next) {
        uint32_t lanes = covered(&bounds, a);
        if (lanes == 0)
            continue;
        if (!reads) {
            end_judges(a, w, lanes, mask);
            a->lanes &= ~lanes;
        } else if (!async_cell_of(a)->reads_over) {
            async_cell_of(a)->reads_over = true;
            if (a->judge != NULL)
                judge_async_end_reads(a->judge, w, lanes);
        }
    }
    async_sweep(w, q);
}

/* The warps of a warpgroup: 4 adjacent ones. */
static struct emu_warp *next_sibling(const struct emu_warp *w, uint32_t *at)
{
    uint32_t first = w->index & ~3u, end = first + 4 < w->cta->warp_count ? first + 4 : w->cta->warp_count;
    for (uint32_t i = first + *at; i < end; i++) {
        *at = i - first + 1;
        if (i != w->index && w->cta->warps[i].live)
            return &w->cta->warps[i];
    }
    return NULL;
}

bool async_wait_warpgroup(struct emu_warp *w, uint32_t newest)
{
    struct wait_bounds bounds;
    struct emu_warp   *s;
    uint32_t           count = 0;
    find_bounds(async_queue_of(w, ASYNC_WGMMA), 1, newest, &bounds);
    for (uint32_t at = 0; (s = next_sibling(w, &at)) != NULL;) {
        const struct async_queue *q = async_queue_of(s, ASYNC_WGMMA);
        if (q->first + q->commit_count < bounds.before[0]) {
            emu_wait_change(w);
            return false;
        }
    }
    for (uint32_t at = 0; (s = next_sibling(w, &at)) != NULL;)
        for (struct async_op *a = async_queue_of(s, ASYNC_WGMMA)->head; a != NULL; a = a->next)
            if (!a->done && a->group < bounds.before[0] && !add_to_batch(w, a, &count))
                return false;
    complete_batch(w->cluster, count);
    return true;
}

bool async_pending(const struct emu_warp *w, enum async_kind kind)
{
    return w->async->queue[kind].head != NULL;
}

void async_cp_settle(struct emu_warp *w, uint32_t lanes, uint64_t serial, struct judge_clock **clock)
{
    struct async_queue *q = async_queue_of(w, ASYNC_CP);
    uint32_t            count = 0;
    for (struct async_op *a = q->head; a != NULL; a = a->next)
        if (!a->done && (a->lanes & lanes) && ((struct async_lanes *)a)->serial < serial &&
            !add_to_batch(w, a, &count))
            return;
    complete_batch(w->cluster, count);
    for (struct async_op *a = clock != NULL ? q->head : NULL; a != NULL; a = a->next) {
        struct async_lanes *each = (struct async_lanes *)a;
        if (each->serial >= serial)
            break;
        for (uint32_t m = w->judge != NULL ? a->lanes & lanes : 0; m; m &= m - 1) {
            int l = __builtin_ctz(m);
            if (each->judge[l] != NULL)
                judge_async_end_at(each->judge[l], w->cluster, clock);
            each->judge[l] = NULL;
        }
        a->lanes &= ~lanes;
    }
    async_sweep(w, q);
}
