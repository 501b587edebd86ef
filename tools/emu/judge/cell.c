/* cell.c - the last accesses to 16 bytes of memory, and the check of a new access against them.
 *
 * A smaller access splits a cell into cells of 4 bytes, and these into bytes, so that stores to different parts
 * of one word are told apart.  A write of the whole cell joins it again.  A cell has its last write and the
 * reads since then: of one warp, or of several in `readers`. */
#include <stdlib.h>
#include "internal.h"

enum { READERS_SHARED = 4, READERS_SHARED_MOST = 64, READERS_GLOBAL = 2 };

/* ---- order ---------------------------------------------------------------------------------------- */
static bool own_ordered(const struct judge_view *view, enum judge_part p, uint32_t row, uint32_t lane,
                        uint32_t epoch)
{
    const struct judge_warp *w = view->warp;
    const uint32_t           kind = row / w->cluster->warps, warp = row % w->cluster->warps;
    if (kind >= ROW_KINDS)
        return false;
    if (kind == ROW_WGMMA)
        return warp == w->leader && w->own[p][kind][view->lane] >= epoch;
    if (kind == ROW_CP && p == PART_SEEN && epoch <= w->cluster->warp[warp].settled[lane])
        return true;
    if (warp != w->number || lane != (uint32_t)view->lane)
        return false;
    return (kind == ROW_THREAD && p == PART_SEEN) || w->own[p][kind][lane] >= epoch;
}

bool judge_ordered(const struct judge_view *view, enum judge_part p, uint32_t cluster, uint32_t row,
                   uint32_t lane, uint32_t epoch)
{
    const struct judge_cluster *c = view->warp->cluster;
    const struct judge_vector  *v = view->warp->part[p][view->lane];
    if (judge_is_earlier(c->grid, cluster))
        return judge_earlier_ordered(view, p, cluster);
    if (cluster != c->id) {
        const struct judge_packet_row *at = v != NULL ? judge_packet_find(v->foreign, cluster, row) : NULL;
        return at != NULL && at->at[lane] >= epoch;
    }
    if (row == ROW_TABLE) {
        const struct judge_operation *operation = &c->operations[epoch];
        if (!operation->point_epoch)
            return false;
        row = operation->point_row;
        lane = operation->point_lane;
        epoch = operation->point_epoch;
    }
    if (v != NULL && row < v->count && v->row[row] != NULL && v->row[row]->at[lane] >= epoch)
        return true;
    return own_ordered(view, p, row, lane, epoch);
}

bool judge_all_ordered(const struct judge_view *view, enum judge_part p, const struct judge_reads *before)
{
    const struct judge_cluster *c = view->warp->cluster;
    const struct judge_vector  *v = view->warp->part[p][view->lane];
    const uint32_t             *at = NULL;
    uint32_t                    seen = 0;
    if (before->row == ROW_TABLE)
        return judge_ordered(view, p, before->cluster, ROW_TABLE, 0, before->epoch);
    if (judge_is_earlier(c->grid, before->cluster))
        return judge_earlier_ordered(view, p, before->cluster);
    if (before->cluster != c->id) {
        const struct judge_packet     *foreign = v != NULL ? v->foreign : NULL;
        const struct judge_packet_row *row = judge_packet_find(foreign, before->cluster, before->row);
        at = row != NULL ? row->at : NULL;
    } else if (v != NULL && before->row < v->count && v->row[before->row] != NULL) {
        at = v->row[before->row]->at;
    }
    if (at == NULL)
        return false;
    if (!(before->mask & (before->mask - 1)))
        return at[__builtin_ctz(before->mask)] >= before->epoch;
    for (uint32_t l = 0; l < EMU_LANES; l++)
        seen |= (uint32_t)(at[l] >= before->epoch) << l;
    return !(before->mask & ~seen);
}

/* Are these strong accesses, whose scopes both include the other thread?  Then they need no order.  (Those of an
 * earlier grid do: a counter that one grid resets while the next one uses it is wrong.) */
static bool both_strong(const struct judge_view *view, const struct judge_record *other)
{
    const struct judge_cluster *c = view->warp->cluster;
    const uint8_t both = judge_is_earlier(c->grid, other->cluster) ? 0 : other->flags & view->me.flags;
    if (!(both & BY_STRONG) || both & BY_WIDE)
        return (both & BY_STRONG) != 0;
    if (other->cluster != c->id)
        return false;
    const uint32_t warps = c->cluster->ctas[0].warp_count;
    const uint32_t issuer = other->row == ROW_TABLE ? c->operations[other->epoch].row : other->row % c->warps;
    return issuer / warps == view->warp->number / warps;
}

/* The access of `other` must be ordered before the view's.  Report it if it is not. */
static void check_pair(const struct judge_view *view, const struct judge_record *other, bool other_writes)
{
    enum judge_part fence;
    if (both_strong(view, other))
        return;
    if (!judge_ordered(view, PART_SEEN, other->cluster, other->row, other->lane, other->epoch)) {
        judge_report_pair(view, other, other_writes,
                          other->flags & view->me.flags & BY_STRONG ? MISSING_SCOPE : MISSING_ORDER);
        return;
    }
    if (!(view->me.flags & BY_ASYNC_PROXY) || (other->flags & BY_ASYNC_PROXY))
        return;
    fence = view->ref->space == EMU_SHARED ? PART_SHARED : PART_GLOBAL;
    if (!judge_ordered(view, fence, other->cluster, other->row, other->lane, other->epoch))
        judge_report_pair(view, other, other_writes, MISSING_PROXY_FENCE);
}

/* For an earlier grid, a place is constant only until its end. */
static bool of_earlier(const struct judge_view *view, const struct judge_reads *reads)
{
    return judge_is_earlier(view->warp->cluster->grid, reads->cluster);
}

static void check_reads(const struct judge_view *view, const struct judge_reads *reads)
{
    struct judge_record other = {reads->epoch, reads->op, reads->cluster, reads->row, 0, reads->flags};
    if (reads->flags & BY_CONSTANT && !of_earlier(view, reads)) {
        other.lane = (uint8_t)__builtin_ctz(reads->mask);
        judge_report_pair(view, &other, false, MISSING_CONSTANCY);
        return;
    }
    for (uint32_t m = reads->mask; m; m &= m - 1) {
        other.lane = (uint8_t)__builtin_ctz(m);
        if (other.row == view->me.row && other.lane == view->me.lane && other.cluster == view->me.cluster &&
            (other.row < view->warp->cluster->warps || other.epoch == view->me.epoch))
            continue; /* the same thread, or the same operation */
        check_pair(view, &other, false);
    }
}

/* ---- readers -------------------------------------------------------------------------------------- */
static uint32_t reader_slot(const struct judge_reads *reads, uint32_t room)
{
    return (reads->row == ROW_TABLE ? reads->epoch : reads->row) & (room - 1);
}

static struct judge_readers *readers_new(struct judge_grid *grid, uint32_t room)
{
    struct judge_readers *readers = (struct judge_readers *)judge_alloc(grid, 1,
                                                                        sizeof *readers +
                                                                            room * sizeof readers->at[0]);
    if (readers != NULL)
        readers->room = room;
    return readers;
}

static bool reads_before(const struct judge_view *view, const struct judge_reads *reads)
{
    if (judge_all_ordered(view, PART_SEEN, reads))
        return true;
    for (uint32_t m = reads->mask; m; m &= m - 1)
        if (!judge_ordered(view, PART_SEEN, reads->cluster, reads->row, (uint32_t)__builtin_ctz(m),
                           reads->epoch))
            return false;
    return true;
}

void judge_cell_add_reads(struct judge_grid *grid, struct judge_cell *cell, const struct judge_reads *reads)
{
    if (!cell->read.epoch) {
        cell->read = *reads;
        return;
    }
    cell->readers = readers_new(grid, READERS_SHARED);
    if (cell->readers == NULL)
        return;
    cell->readers->at[reader_slot(&cell->read, READERS_SHARED)] = cell->read;
    cell->readers->at[reader_slot(reads, READERS_SHARED)] = *reads;
    cell->read.epoch = 0;
}

/* Replace `reads` by `mine` if that loses only older reads of the same warp by other lanes. */
static bool reads_take(const struct judge_view *view, struct judge_reads *reads, const struct judge_reads *mine)
{
    const bool same_row = reads->epoch && reads->row == mine->row && reads->cluster == mine->cluster;
    if (reads->epoch && (reads->flags ^ mine->flags) & BY_CONSTANT &&
        !of_earlier(view, reads)) { /* a later write is a finding for this one */
        if (mine->flags & BY_CONSTANT)
            *reads = *mine;
        return true;
    }
    if (same_row && reads->epoch == mine->epoch) {
        reads->mask |= mine->mask;
        reads->op = mine->op;
        reads->flags &= mine->flags;
        return true;
    }
    if (reads->epoch && !(same_row && mine->row != ROW_TABLE)) {
        /* a read that the async proxy needs a fence for must not be hidden by one that needs none */
        if ((mine->flags & ~reads->flags & BY_ASYNC_PROXY) || !reads_before(view, reads))
            return false;
    }
    *reads = *mine;
    return true;
}

/* Keep two readers of a global cell, if possible of different clusters. */
static void readers_add_global(const struct judge_view *view, struct judge_readers *readers,
                               const struct judge_reads *mine)
{
    struct judge_reads *at = readers->at;
    if (reads_take(view, &at[0], mine) || reads_take(view, &at[1], mine))
        return;
    at[at[0].cluster == mine->cluster ? 0 : 1] = *mine;
}

static void readers_add_shared(const struct judge_view *view, struct judge_cell *cell,
                               const struct judge_reads *mine)
{
    for (;;) {
        struct judge_readers *old = cell->readers, *more;
        struct judge_reads   *here = &old->at[reader_slot(mine, old->room)];
        if (reads_take(view, here, mine))
            return;
        if (old->room == READERS_SHARED_MOST) {
            *here = *mine;
            return;
        }
        if ((more = readers_new(view->warp->cluster->grid, 2 * old->room)) == NULL)
            return;
        for (uint32_t i = 0; i < old->room; i++)
            if (old->at[i].epoch)
                more->at[reader_slot(&old->at[i], more->room)] = old->at[i];
        free(old);
        cell->readers = more;
    }
}

static void note_read(const struct judge_view *view, struct judge_cell *cell)
{
    const struct judge_record *me = &view->me;
    const struct judge_reads   mine = {me->epoch, me->op, me->cluster, 1u << me->lane, me->row, me->flags};
    const bool                 global = view->ref->space == EMU_GLOBAL;
    if (cell->readers == NULL) {
        if (reads_take(view, &cell->read, &mine))
            return;
        cell->readers = readers_new(view->warp->cluster->grid, global ? READERS_GLOBAL : READERS_SHARED);
        if (cell->readers == NULL)
            return;
        cell->readers->at[global ? 0 : reader_slot(&cell->read, READERS_SHARED)] = cell->read;
        cell->read.epoch = 0;
    }
    if (global)
        readers_add_global(view, cell->readers, &mine);
    else
        readers_add_shared(view, cell, &mine);
}

/* ---- cells ---------------------------------------------------------------------------------------- */
static void check_and_forget_reads(const struct judge_view *view, struct judge_cell *cell)
{
    if (cell->read.epoch) {
        check_reads(view, &cell->read);
        cell->read.epoch = 0;
    }
    for (uint32_t i = 0; cell->readers != NULL && i < cell->readers->room; i++)
        if (cell->readers->at[i].epoch) {
            check_reads(view, &cell->readers->at[i]);
            cell->readers->at[i].epoch = 0;
        }
}

/* Lanes of one store that write equal bytes to one place: the hardware does one of the writes, no matter which.
 * `last` is of this execution of the op if its lane takes part and stores to these bytes, since lanes are checked
 * in order. */
static bool stores_the_same(const struct judge_view *view, const struct judge_record *last, uint64_t address,
                            uint32_t bytes)
{
    const struct judge_record *me = &view->me;
    const struct emu_ref      *mine = view->ref, *other = view->all + last->lane;
    unsigned char              a, b;
    if (view->all == NULL || !(view->mask >> last->lane & 1) || last->row != me->row || last->op != me->op ||
        last->epoch != me->epoch || last->cluster != me->cluster || other->space != mine->space ||
        other->cta != mine->cta)
        return false;
    for (uint64_t at = address; at < address + bytes; at++)
        if (at - other->address >= view->bytes ||
            !memory_stored_byte(view->warp->w, view->op, view->lane, (uint32_t)(at - mine->address), &a) ||
            !memory_stored_byte(view->warp->w, view->op, last->lane, (uint32_t)(at - other->address), &b) ||
            a != b)
            return false;
    return true;
}

/* Had the other thread's grid ended before this one began? */
static bool is_over(const struct judge_view *view, const struct judge_record *other)
{
    const struct judge_grid *g = view->warp->cluster->grid;
    return judge_is_earlier(g, other->cluster) && judge_launch_of(g, other->cluster)->over;
}

/* The check against the last write.  Returns what it adds to the flags of the new record. */
static uint8_t check_write(const struct judge_view *view, const struct judge_record *last, uint64_t address,
                           uint32_t bytes)
{
    const struct judge_record *me = &view->me;
    const bool                 writes = (view->access & EMU_WRITE) != 0;
    const bool                 warp = last->row == me->row && last->cluster == me->cluster;
    if (view->access & EMU_NC && !is_over(view, last))
        judge_report_pair(view, last, true, MISSING_CONSTANCY);
    if (warp && last->lane == me->lane && (me->row < view->warp->cluster->warps || last->epoch == me->epoch))
        return 0;
    if (warp && !writes && last->flags & BY_SEVERAL)
        return 0;
    if (writes && stores_the_same(view, last, address, bytes))
        return BY_SEVERAL;
    check_pair(view, last, true);
    return 0;
}

static void leaf_touch(const struct judge_view *view, struct judge_cell *cell, uint64_t address, uint32_t bytes)
{
    const uint8_t flags = cell->write.epoch ? check_write(view, &cell->write, address, bytes) : 0;
    if (!(view->access & EMU_WRITE)) {
        note_read(view, cell);
        return;
    }
    check_and_forget_reads(view, cell);
    cell->write = view->me;
    cell->write.flags |= flags;
}

static struct judge_readers *readers_copy(struct judge_grid *grid, const struct judge_readers *from)
{
    struct judge_readers *to = readers_new(grid, from->room);
    if (to != NULL)
        memcpy(to->at, from->at, from->room * sizeof to->at[0]);
    return to;
}

static bool cell_split(struct judge_grid *grid, struct judge_cell *cell)
{
    struct judge_cell *parts = (struct judge_cell *)judge_alloc(grid, CELL_FAN, sizeof *parts);
    if (parts == NULL)
        return false;
    for (int i = 0; i < CELL_FAN; i++) {
        parts[i].write = cell->write;
        parts[i].read = cell->read;
        if (cell->readers != NULL)
            parts[i].readers = readers_copy(grid, cell->readers);
    }
    free(cell->readers);
    cell->readers = NULL;
    cell->split = parts;
    return true;
}

void judge_cells_free(struct judge_cell *cells, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (cells[i].split != NULL) {
            judge_cells_free(cells[i].split, CELL_FAN);
            free(cells[i].split);
        }
        free(cells[i].readers);
    }
}

/* `address` of the cell, `size` its bytes. */
static void touch(const struct judge_view *view, struct judge_cell *cell, uint64_t address, uint32_t size,
                  uint32_t offset, uint32_t bytes)
{
    const uint32_t quarter = size / CELL_FAN, end = offset + bytes;
    if (cell->split == NULL) {
        if (bytes == size) {
            leaf_touch(view, cell, address, size);
            return;
        }
        if (!cell_split(view->warp->cluster->grid, cell))
            return;
    }
    for (uint32_t at = offset; at < end;) {
        const uint32_t i = at / quarter, stop = (i + 1) * quarter < end ? (i + 1) * quarter : end;
        if (quarter == 1)
            leaf_touch(view, &cell->split[i], address + i, 1);
        else
            touch(view, &cell->split[i], address + i * quarter, quarter, at - i * quarter, stop - at);
        at = stop;
    }
    if (bytes == size && (view->access & EMU_WRITE)) {
        judge_cells_free(cell->split, CELL_FAN);
        free(cell->split);
        cell->split = NULL;
        cell->read.epoch = 0;
        cell->write = view->me;
    }
}

void judge_cell_touch(const struct judge_view *view, struct judge_cell *cell, uint64_t address, uint32_t bytes)
{
    const uint32_t offset = (uint32_t)(address % CELL_BYTES);
    touch(view, cell, address - offset, CELL_BYTES, offset, bytes);
}
