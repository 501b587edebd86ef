/* async.c - asynchronous operations: in flight until a thread has observed their completion.
 *
 * Operations in groups (cp.async, bulk_group, wgmma) complete in order for the thread that waits: they are
 * numbered per lane, and a wait raises the number that the lane has observed.  Operations on an mbarrier
 * complete in any order: their records hold a number in judge_cluster.operations, which at completion gets a
 * component of that mbarrier ("the n-th that completed on it"); a thread that acquires the mbarrier's clock has
 * observed it. */
#include <stdlib.h>
#include "internal.h"

struct judge_async {
    struct judge_warp   *w;
    const struct emu_op *op;
    int                  lane;
    bool                 proxy;
    uint32_t writes, reads, loads; /* row numbers: of writes; of reads; of reads from global memory */
    uint32_t epoch;                /* in these rows */
    uint32_t number;               /* in the table of operations; 0: not there */
    struct judge_async *next;      /* spare */
};

static struct judge_async *async_take(struct judge_cluster *c)
{
    struct judge_async *a = c->spare;
    if (a == NULL)
        return (struct judge_async *)judge_alloc(c->grid, 1, sizeof *a);
    c->spare = a->next;
    return a;
}

static void async_give(struct judge_async *a)
{
    a->next = a->w->cluster->spare;
    a->w->cluster->spare = a;
}

void judge_async_free_spare(struct judge_cluster *c)
{
    while (c->spare != NULL) {
        struct judge_async *next = c->spare->next;
        free(c->spare);
        c->spare = next;
    }
}

/* ---- begin ---------------------------------------------------------------------------------------- */
static bool has_modifier(const struct emu_op *op, const char *word)
{
    for (unsigned int i = 0; op->text != NULL && i < op->text->modifier_count; i++)
        if (strcmp(op->text->modifiers[i], word) == 0)
            return true;
    return false;
}

static uint32_t operation_new(struct judge_cluster *c, const struct judge_warp *w, int lane)
{
    if (c->operation_count + 1 >= c->operation_room) {
        const uint32_t          room = c->operation_room ? 2 * c->operation_room : 64;
        struct judge_operation *more = (struct judge_operation *)judge_alloc(c->grid, room, sizeof *more);
        if (more == NULL)
            return 0;
        if (c->operations != NULL)
            memcpy(more, c->operations, c->operation_room * sizeof *more);
        free(c->operations);
        c->operations = more;
        c->operation_room = room;
    }
    c->operations[++c->operation_count] = (struct judge_operation){.row = (uint16_t)w->number,
                                                                   .lane = (uint8_t)lane};
    return c->operation_count;
}

static void in_sequence(struct judge_async *a, enum judge_row_kind writes, enum judge_row_kind reads)
{
    struct judge_warp *w = a->w;
    const uint32_t     warps = w->cluster->warps, who = writes == ROW_WGMMA ? w->leader : w->number;
    a->epoch = ++w->issued[writes][a->lane];
    a->writes = writes * warps + who;
    a->reads = a->loads = reads * warps + who;
}

struct judge_async *judge_async_begin(struct emu_warp *warp, const struct emu_op *op, int lane,
                                      bool async_proxy)
{
    struct judge_warp  *w = warp->judge;
    struct judge_async *a;
    if (w == NULL || judge_is_off(w->cluster->grid))
        return NULL;
    a = async_take(w->cluster);
    if (a == NULL)
        return NULL;
    judge_note_op(w->cluster->grid, op);
    *a = (struct judge_async){.w = w, .op = op, .lane = lane, .proxy = async_proxy};
    if (op->text != NULL && strcmp(op->text->opcode, "wgmma") == 0) {
        a->lane = 0;
        in_sequence(a, ROW_WGMMA, ROW_WGMMA);
    } else if (!async_proxy) {
        in_sequence(a, ROW_CP, ROW_CP);
    } else if (has_modifier(op, "bulk_group")) {
        in_sequence(a, ROW_BULK, ROW_BULK_READS);
    } else {
        a->number = operation_new(w->cluster, w, lane);
        in_sequence(a, ROW_LOADS, ROW_LOADS);
    }
    return a;
}

void judge_async_touch(struct judge_async *a, const struct emu_ref *ref, uint64_t bytes, unsigned int access)
{
    struct judge_view view;
    if (a == NULL || !bytes || judge_is_off(a->w->cluster->grid))
        return;
    view = (struct judge_view){.warp = a->w, .op = a->op, .lane = a->lane, .access = access};
    view.me.op = a->op->number;
    view.me.cluster = a->w->cluster->id;
    view.me.flags = (uint8_t)((a->proxy ? BY_ASYNC_PROXY : 0) |
                              (access & (EMU_STRONG | EMU_ATOMIC) ? BY_STRONG | BY_WIDE : 0));
    if (a->number && ref->space == EMU_SHARED) {
        view.me.row = ROW_TABLE;
        view.me.epoch = a->number;
    } else {
        view.me.row = (uint16_t)(access & EMU_WRITE         ? a->writes
                                 : ref->space == EMU_GLOBAL ? a->loads
                                                            : a->reads);
        view.me.epoch = a->epoch;
        view.me.lane = (uint8_t)a->lane;
    }
    judge_touch(&view, ref, bytes);
    judge_touch_done(&view);
}

/* ---- end ------------------------------------------------------------------------------------------ */
/* These lanes have observed the operation's component `epoch` of a row kind. */
static void observed(struct judge_async *a, struct judge_warp *w, uint32_t lanes, enum judge_row_kind kind)
{
    const bool     collective = kind == ROW_WGMMA;
    const uint32_t row = kind * w->cluster->warps + (collective ? a->w->leader : a->w->number);
    for (; lanes; lanes &= lanes - 1) {
        const int l = __builtin_ctz(lanes);
        uint32_t *own = &w->own[PART_SEEN][kind][l];
        if (collective ? w->leader == a->w->leader : w == a->w && l == a->lane) {
            w->kinds |= 1u << kind;
            *own = *own > a->epoch ? *own : a->epoch;
        } else {
            struct judge_vector **v = &w->part[PART_SEEN][l];
            judge_vector_point(w->cluster->grid, v, row, (uint32_t)a->lane, a->epoch);
        }
    }
}

static enum judge_row_kind kind_of(const struct judge_async *a, uint32_t row)
{
    return (enum judge_row_kind)(row / a->w->cluster->warps);
}

void judge_async_end_reads(struct judge_async *a, struct emu_warp *w, uint32_t lanes)
{
    if (a != NULL && w->judge != NULL && !a->number)
        observed(a, w->judge, lanes, kind_of(a, a->reads));
}

/* Give it its own component: the next of `row` and lane. */
static void operation_done(struct judge_async *a, uint32_t row, uint32_t lane, uint32_t epoch)
{
    struct judge_operation *operation = &a->w->cluster->operations[a->number];
    operation->point_row = row;
    operation->point_lane = (uint8_t)lane;
    operation->point_epoch = epoch;
}

void judge_async_end(struct judge_async *a, struct emu_warp *w, uint32_t lanes)
{
    if (a == NULL)
        return;
    if (w->judge != NULL && !judge_is_off(a->w->cluster->grid)) {
        if (a->number)
            operation_done(a, a->loads, (uint32_t)a->lane, a->epoch);
        observed(a, w->judge, lanes, kind_of(a, a->writes));
        if (a->reads != a->writes)
            observed(a, w->judge, lanes, kind_of(a, a->reads));
    }
    async_give(a);
}

/* The number of the mbarrier with this clock; `barrier_count` if there is no memory for it. */
static uint32_t barrier_number(struct judge_cluster *c, struct judge_clock **clock)
{
    uint32_t i;
    for (i = 0; i < c->barrier_count; i++)
        if (c->barriers[i] == clock)
            return i;
    if (i == c->barrier_room) {
        const uint32_t        room = i ? 2 * i : 32;
        struct judge_clock ***at = (struct judge_clock ***)judge_alloc(c->grid, room, sizeof *at);
        uint32_t             *epoch = (uint32_t *)judge_alloc(c->grid, room, sizeof *epoch);
        if (at == NULL || epoch == NULL) {
            free(at);
            free(epoch);
            return i;
        }
        for (uint32_t j = 0; j < i; j++) {
            at[j] = c->barriers[j];
            epoch[j] = c->barrier_epoch[j];
        }
        free(c->barriers);
        free(c->barrier_epoch);
        c->barriers = at;
        c->barrier_epoch = epoch;
        c->barrier_room = room;
    }
    c->barriers[i] = clock;
    c->barrier_count++;
    return i;
}

static void complete_on(struct judge_async *a, struct judge_cluster *c, struct judge_clock **clock)
{
    struct judge_vector **v = &(*clock)->part[PART_SEEN];
    const uint32_t        lane = (uint32_t)a->lane;
    if (a->number) {
        const uint32_t n = barrier_number(c, clock), row = ROW_KINDS * c->warps + n / EMU_LANES;
        if (n == c->barrier_count)
            return;
        operation_done(a, row, n % EMU_LANES, ++c->barrier_epoch[n]);
        judge_vector_point(c->grid, v, row, n % EMU_LANES, c->barrier_epoch[n]);
    }
    judge_vector_point(c->grid, v, a->writes, lane, a->epoch);
    if (kind_of(a, a->writes) == ROW_CP && a->op->text != NULL && strcmp(a->op->text->opcode, "cp") == 0)
        a->w->settled[lane] = a->epoch > a->w->settled[lane] ? a->epoch : a->w->settled[lane];
    if (a->reads != a->writes)
        judge_vector_point(c->grid, v, a->reads, lane, a->epoch);
}

void judge_async_end_at(struct judge_async *a, struct emu_cluster *cluster, struct judge_clock **clock)
{
    struct judge_cluster *c = cluster->judge;
    if (a == NULL)
        return;
    if (c != NULL && !judge_is_off(c->grid) && (*clock != NULL || (*clock = judge_clock_new(c)) != NULL))
        complete_on(a, c, clock);
    async_give(a);
}

void judge_async_drop(struct judge_async *a, struct emu_cluster *cluster)
{
    (void)cluster; /* its records stay, so that later accesses to the same bytes are found */
    if (a != NULL)
        async_give(a);
}
