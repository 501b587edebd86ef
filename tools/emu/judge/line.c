/* line.c - lines of 128 bytes that warps, copies and wgmma access as a whole: one record for the line. */
#include <stdlib.h>
#include "internal.h"

enum { BREAKS_MOST = 4 };

static uint32_t lane_mask(uint32_t first, uint32_t lanes)
{
    return (lanes == EMU_LANES ? EMU_ALL : (1u << lanes) - 1) << first;
}

static struct judge_reads as_reads(const struct judge_record *record, uint32_t lanes)
{
    return (struct judge_reads){record->epoch, record->op,   record->cluster, lane_mask(record->lane, lanes),
                                record->row,   record->flags};
}

/* The same threads accessed the same bytes, or it is the same operation. */
static bool same_owner(const struct judge_view *view, const struct judge_reads *before,
                       const struct judge_reads *me)
{
    return before->row == me->row && before->mask == me->mask && before->cluster == me->cluster &&
           (me->row < view->warp->cluster->warps || before->epoch == me->epoch);
}

static bool is_before(const struct judge_view *view, const struct judge_reads *before,
                      const struct judge_reads *me)
{
    if (!before->epoch)
        return true;
    if (same_owner(view, before, me))
        return true;
    if (!judge_all_ordered(view, PART_SEEN, before))
        return false;
    if (!(me->flags & BY_ASYNC_PROXY) || (before->flags & BY_ASYNC_PROXY))
        return true;
    return judge_all_ordered(view, view->ref->space == EMU_SHARED ? PART_SHARED : PART_GLOBAL, before);
}

/* Can `mine` replace the record that is there? */
static bool replaces(const struct judge_view *view, const struct judge_reads *there,
                     const struct judge_reads *mine)
{
    if (!there->epoch)
        return true;
    if ((there->flags ^ mine->flags) & BY_CONSTANT &&
        !judge_is_earlier(view->warp->cluster->grid,
                          there->cluster)) /* a read through .nc is kept: a later write is a finding */
        return mine->flags & BY_CONSTANT;
    if (there->row == mine->row && there->mask == mine->mask && there->cluster == mine->cluster &&
        mine->row != ROW_TABLE)
        return true;
    return !(mine->flags & ~there->flags & BY_ASYNC_PROXY) && judge_all_ordered(view, PART_SEEN, there);
}

static bool line_read(const struct judge_view *view, struct judge_line *line, const struct judge_reads *mine)
{
    for (int i = 0; i < LINE_READS; i++)
        if (line->read[i].epoch && line->read[i].row == mine->row && line->read[i].epoch == mine->epoch &&
            line->read[i].mask == mine->mask && line->read[i].cluster == mine->cluster &&
            !(mine->flags & ~line->read[i].flags & BY_CONSTANT))
            return true;
    for (int i = 0; i < LINE_READS; i++)
        if (replaces(view, &line->read[i], mine)) {
            line->read[i] = *mine;
            return true;
        }
    if (view->ref->space != EMU_GLOBAL)
        return false;
    struct judge_reads *at =
        &line->read[line->read[0].cluster == mine->cluster ? 0 : 1]; /* two clusters are kept */
    if (!(at->flags & ~mine->flags & BY_CONSTANT) || judge_is_earlier(view->warp->cluster->grid, at->cluster))
        *at = *mine;
    return true;
}

bool judge_line_touch(const struct judge_view *view, struct judge_line *line, uint32_t lanes)
{
    const struct judge_reads mine = as_reads(&view->me, lanes);
    struct judge_reads       write;
    if (line->cells != NULL || (view->me.flags & BY_STRONG) || (view->access & EMU_NC && line->write.epoch))
        return false;
    write = as_reads(&line->write, line->write_lanes);
    if (!is_before(view, &write, &mine))
        return false;
    if (!(view->access & EMU_WRITE))
        return line_read(view, line, &mine);
    for (int i = 0; i < LINE_READS; i++)
        if (!is_before(view, &line->read[i], &mine) ||
            (line->read[i].epoch && line->read[i].flags & BY_CONSTANT))
            return false;
    for (int i = 0; i < LINE_READS; i++)
        line->read[i].epoch = 0;
    line->write = view->me;
    line->write_lanes = (uint8_t)lanes;
    return true;
}

/* ---- cells ---------------------------------------------------------------------------------------- */
static uint8_t lane_of_word(uint32_t first, uint32_t lanes, uint32_t word)
{
    return (uint8_t)(first + word * lanes / (LINE_BYTES / 4));
}

static void cell_fill(struct judge_grid *grid, struct judge_cell *cell, const struct judge_line *line,
                      uint32_t word)
{
    if (line->write.epoch) {
        cell->write = line->write;
        cell->write.lane = lane_of_word(line->write.lane, line->write_lanes, word);
    }
    for (int i = 0; i < LINE_READS; i++)
        if (line->read[i].epoch) {
            struct judge_reads reads = line->read[i];
            const uint32_t     first = (uint32_t)__builtin_ctz(reads.mask);
            reads.mask = 1u << lane_of_word(first, (uint32_t)__builtin_popcount(reads.mask), word);
            judge_cell_add_reads(grid, cell, &reads);
        }
}

/* Is the part of each lane smaller than a cell? */
static bool needs_words(const struct judge_line *line)
{
    bool words = line->write.epoch && line->write_lanes > LINE_CELLS;
    for (int i = 0; i < LINE_READS; i++)
        words |= line->read[i].epoch && __builtin_popcount(line->read[i].mask) > LINE_CELLS;
    return words;
}

bool judge_line_break(struct judge_grid *grid, struct judge_line *line)
{
    const bool         words = needs_words(line);
    struct judge_cell *cells;
    if (line->cells != NULL)
        return true;
    cells = (struct judge_cell *)judge_alloc(grid, LINE_CELLS, sizeof *cells);
    if (cells == NULL)
        return false;
    for (uint32_t i = 0; i < LINE_CELLS; i++) {
        if (words)
            cells[i].split = (struct judge_cell *)judge_alloc(grid, CELL_FAN, sizeof *cells);
        for (uint32_t j = 0; cells[i].split != NULL && j < CELL_FAN; j++)
            cell_fill(grid, &cells[i].split[j], line, CELL_FAN * i + j);
        if (!words)
            cell_fill(grid, &cells[i], line, CELL_FAN * i);
    }
    line->cells = cells;
    line->breaks += line->breaks < BREAKS_MOST;
    return true;
}

void judge_line_join(const struct judge_view *view, struct judge_line *line, uint32_t lanes)
{
    if (line->breaks == BREAKS_MOST || line->cells == NULL || (view->me.flags & BY_STRONG))
        return;
    judge_lines_free(line, 1);
    line->cells = NULL;
    for (int i = 0; i < LINE_READS; i++)
        line->read[i].epoch = 0;
    line->write = view->me;
    line->write_lanes = (uint8_t)lanes;
}

void judge_lines_free(struct judge_line *lines, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (lines[i].cells != NULL) {
            judge_cells_free(lines[i].cells, LINE_CELLS);
            free(lines[i].cells);
        }
}
