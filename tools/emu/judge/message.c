/* message.c - the report about two accesses that nothing orders. */
#include <inttypes.h>
#include <stdio.h>
#include "internal.h"
#include "report.h"

enum { OTHER_TEXT = 384 };

/* Block `rank` of cluster `id`. */
static void block_index(const struct emu_grid *grid, uint32_t id, uint32_t rank, uint32_t index[3])
{
    for (int i = 0; i < 3; i++) {
        const uint32_t cluster = grid->cluster[i] ? grid->cluster[i] : 1;
        const uint32_t clusters = grid->grid[i] / cluster ? grid->grid[i] / cluster : 1;
        index[i] = id % clusters * cluster + rank % cluster;
        id /= clusters;
        rank /= cluster;
    }
}

/* Did an earlier grid do it? */
static bool is_earlier(const struct judge_view *view, const struct judge_record *record)
{
    return judge_is_earlier(view->warp->cluster->grid, record->cluster);
}

/* Warps of its cluster. */
static uint32_t warps_of(const struct judge_view *view, const struct judge_record *record)
{
    const struct emu_grid *grid = judge_launch_of(view->warp->cluster->grid, record->cluster)->shape;
    const uint32_t         threads = grid->block[0] * grid->block[1] * grid->block[2];
    uint32_t               warps = (threads + EMU_LANES - 1) / EMU_LANES;
    for (int i = 0; i < 3; i++)
        warps *= grid->cluster[i] ? grid->cluster[i] : 1;
    return is_earlier(view, record) ? warps : view->warp->cluster->warps;
}

/* The warp of the cluster to which a record belongs. */
static uint32_t warp_of(const struct judge_view *view, const struct judge_record *record, uint32_t *lane)
{
    const struct judge_cluster *c = view->warp->cluster;
    *lane = record->lane;
    if (record->row != ROW_TABLE)
        return record->row % warps_of(view, record);
    *lane = c->operations[record->epoch].lane;
    return c->operations[record->epoch].row;
}

/* "thread (35,0,0)", with its block if that is another one */
static const char *thread_text(const struct judge_view *view, const struct judge_record *record, char *buf,
                               size_t cap)
{
    const struct judge_cluster *c = view->warp->cluster;
    const struct judge_launch  *launch = judge_launch_of(c->grid, record->cluster);
    uint32_t                    lane, index[3];
    const uint32_t              warp = warp_of(view, record, &lane);
    const uint32_t threads = launch->shape->block[0] * launch->shape->block[1] * launch->shape->block[2];
    const uint32_t warps = (threads + EMU_LANES - 1) / EMU_LANES, rank = warp / warps;
    size_t         used;
    report_thread(launch->shape, warp % warps * EMU_LANES + lane, buf, cap);
    if (record->cluster == c->id && rank == view->warp->w->cta->rank)
        return buf;
    block_index(launch->shape, record->cluster - launch->first, rank, index);
    used = strlen(buf);
    snprintf(buf + used, cap - used, " of block (%u,%u,%u)", index[0], index[1], index[2]);
    return buf;
}

/* Is its completion unobserved?  The issuer of an operation on an mbarrier need not wait for it. */
static bool in_flight(const struct judge_view *view, const struct judge_record *record)
{
    const struct judge_cluster *c = view->warp->cluster;
    const uint32_t              kind = record->row / c->warps;
    if (record->row == ROW_TABLE || kind == ROW_LOADS)
        return true;
    if (kind == ROW_THREAD || record->cluster != c->id)
        return false;
    return record->epoch > c->warp[record->row % c->warps].own[PART_SEEN][kind][record->lane];
}

/* "cp.async.bulk" */
static const char *async_name(const struct emu_op *op, char *buf, size_t cap)
{
    static const char *const part[] = {"reduce", "async", "bulk", "tensor", "mma_async"};
    unsigned int             most = 0;
    for (bool more = true; more && op != NULL && op->text != NULL && most < op->text->modifier_count;
         most += more) {
        more = false;
        for (size_t i = 0; i < sizeof part / sizeof part[0]; i++)
            more |= strcmp(op->text->modifiers[most], part[i]) == 0;
    }
    return report_mnemonic(op, most, buf, cap);
}

static const char *verb(unsigned int access)
{
    if (access & EMU_ATOMIC)
        return "updates";
    return access & EMU_WRITE ? "writes" : "reads";
}

/* "reads shared 0x410..0x413" */
static const char *mine_text(const struct judge_view *view, char *buf, size_t cap)
{
    const struct emu_ref *ref = view->ref;
    size_t used = (size_t)snprintf(buf, cap, "%s %s 0x%" PRIx64 "..0x%" PRIx64, verb(view->access),
                                   ref->space == EMU_SHARED ? "shared" : "global", ref->address,
                                   ref->address + view->bytes - 1);
    if (ref->space == EMU_SHARED && ref->cta != view->warp->w->cta)
        snprintf(buf + used, cap - used, " of block (%u,%u,%u)", ref->cta->index[0], ref->cta->index[1],
                 ref->cta->index[2]);
    return buf;
}

void judge_report_pair(const struct judge_view *view, const struct judge_record *other, bool other_writes,
                       enum judge_missing missing)
{
    struct judge_warp         *w = view->warp;
    const struct judge_launch *launch = judge_launch_of(w->cluster->grid, other->cluster);
    const struct emu_op       *op = judge_noted_op(launch, other->op);
    const bool                 thread = other->row < warps_of(view, other);
    char                       mine[OTHER_TEXT], place[2 * REPORT_NAME], name[REPORT_NAME], who[REPORT_NAME];
    mine_text(view, mine, sizeof mine);
    report_place(launch->shape, op, place, sizeof place);
    async_name(op, name, sizeof name);
    thread_text(view, other, who, sizeof who);
    if (missing == MISSING_PROXY_FENCE)
        judge_find(w->w, view->op, view->lane, JUDGE_PROXY,
                   "%s through the async proxy, %s by %s%s at %s: fence.proxy.async is missing in between",
                   mine, other_writes ? "written" : "read", thread ? "" : "the ", thread ? who : name, place);
    else if (missing == MISSING_SCOPE)
        judge_find(w->w, view->op, view->lane, JUDGE_RACE,
                   "%s, %s by %s at %s: the scope .cta does not include the other block", mine,
                   other_writes ? "written" : "read", who, place);
    else if (missing == MISSING_CONSTANCY)
        judge_find(w->w, view->op, view->lane, JUDGE_RACE,
                   other_writes
                       ? "%s through .nc, written by %s%s at %s: nothing may write there during the launch"
                       : "%s, read through .nc by %s%s at %s: nothing may write there during the launch",
                   mine, thread ? "" : "the ", thread ? who : name, place);
    else if (is_earlier(view, other))
        judge_find(w->w, view->op, view->lane, JUDGE_RACE,
                   "%s, %s by %s of an earlier launch, of %s, at %s, and no griddepcontrol.wait orders them",
                   mine, other_writes ? "written" : "read", who, launch->shape->entry->name, place);
    else if (thread)
        judge_find(w->w, view->op, view->lane, JUDGE_RACE, "%s, %s by %s at %s, and nothing orders them", mine,
                   other_writes ? "written" : "read", who, place);
    else if (in_flight(view, other))
        judge_find(w->w, view->op, view->lane, JUDGE_ASYNC,
                   "%s before the %s at %s (of %s), which %s it, was waited for", mine, name, place, who,
                   other_writes ? "writes" : "reads");
    else
        judge_find(w->w, view->op, view->lane, JUDGE_RACE,
                   "%s, %s by the %s at %s (of %s), and nothing orders them", mine,
                   other_writes ? "written" : "read", name, place, who);
}
