/* schedule.c - what each rank of a group copies and computes. */
#include "schedule.h"

#include <stdbool.h>
#include <stdlib.h>

enum { NO_LIMIT = INT32_MAX };

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- chunks ------------------------------------------------------------------------------------------- */
int32_t parallel_chunks(const parallel_problem *p, int32_t rank, parallel_rows chunk[2])
{
    const int32_t count = p->shards == PTXPACK_SHARDS_ZIGZAG ? 2 : 1, all = p->ranks * count;
    for (int32_t i = 0; i < count; i++) {
        int64_t at = i == 0 ? rank : all - 1 - rank;
        chunk[i].first = p->rows * at / all;
        chunk[i].count = p->rows * (at + 1) / all - chunk[i].first;
    }
    return count;
}

/* The packed sequence that has this row. */
static int32_t sequence_of(const parallel_problem *p, int64_t row)
{
    int32_t from = 0, to = p->sequences - 1; /* the last one that begins at the row or before */
    while (from < to) {
        const int32_t middle = from + (to - from + 1) / 2;
        if (p->starts[middle] <= row)
            from = middle;
        else
            to = middle - 1;
    }
    return from;
}

parallel_rows parallel_reach(const parallel_problem *p, const parallel_rows *chunk)
{
    const int64_t end = chunk->first + chunk->count;
    int64_t       from = 0, to = p->rows;
    if (p->starts != NULL) {
        from = p->starts[sequence_of(p, chunk->first)];
        to = p->starts[sequence_of(p, end - 1) + 1];
    }
    if (p->keys_of_chunk > 0 &&
        p->starts == NULL) /* from a chunk's first key on, so that chunks are counted from there */
        from = chunk->first - chunk->first % p->keys_of_chunk;
    if (p->left >= 0 && from < chunk->first - p->left)
        from = chunk->first - p->left;
    if (p->right >= 0 && to > end + p->right)
        to = end + p->right;
    return (parallel_rows){from, to - from};
}

/* The rows among `keys` that some row of the chunk sees. */
static parallel_rows seen(const parallel_problem *p, const parallel_rows *chunk, const parallel_rows *keys)
{
    if (chunk->count == 0)
        return (parallel_rows){keys->first, 0};
    const parallel_rows reach = parallel_reach(p, chunk);
    const int64_t       from = larger(keys->first, reach.first);
    const int64_t       to = smaller(keys->first + keys->count, reach.first + reach.count);
    return (parallel_rows){from, to > from ? to - from : 0};
}

/* ---- copies ------------------------------------------------------------------------------------------- */
/* Ranks at a distance of 1 come first, then those at 2 and 3, then at 4 to 7: the work of a step hides the copies of the
 * next, which are twice as many. */
static int32_t step_of(const parallel_problem *p, int32_t rank, int32_t from)
{
    int32_t step = 1;
    if (p->way != PTXPACK_PARALLEL_STEPS)
        return 1;
    for (int32_t distance = (rank - from + p->ranks) % p->ranks; distance > 1; distance /= 2)
        step++;
    return step;
}

/* Keeps the copies in the order of steps, and in each in the order of the sequence, or of way `arrive` against it: in that order
 * kernels attend. */
static void insert_copy(const parallel_problem *p, parallel_schedule *s, parallel_copy copy)
{
    const bool last_first = p->way == PTXPACK_PARALLEL_ARRIVE;
    int32_t    at = s->copy_count++;
    for (; at > 0 &&
           (s->copies[at - 1].step > copy.step ||
            (s->copies[at - 1].step == copy.step && s->copies[at - 1].first > copy.first) != last_first);
         at--)
        s->copies[at] = s->copies[at - 1];
    s->copies[at] = copy;
}

static void take_from(const parallel_problem *p, parallel_schedule *s, int32_t rank)
{
    parallel_rows theirs[2];
    int32_t       count = parallel_chunks(p, rank, theirs);
    int64_t       in_shard = 0;
    for (int32_t i = 0; i < count; in_shard += theirs[i++].count) {
        int64_t from = INT64_MAX, to = 0;
        for (int32_t c = 0; c < s->chunks; c++) {
            parallel_rows rows = seen(p, &s->chunk[c], &theirs[i]);
            if (rows.count > 0)
                from = smaller(from, rows.first), to = larger(to, rows.first + rows.count);
        }
        if (from < to)
            insert_copy(p, s,
                        (parallel_copy){.rank = rank,
                                        .step = step_of(p, s->rank, rank),
                                        .first = from,
                                        .count = to - from,
                                        .from = in_shard + from - theirs[i].first});
    }
}

/* ---- parts -------------------------------------------------------------------------------------------- */
/* Keys of a chunk that are neighbours in memory: row i attends to those of i - left <= j <= i + right, counted from the
 * run's first.  `right` may be below 0. */
typedef struct run {
    int64_t first, row, rows, left, right; /* first: in the sequence */
    bool    mixed;                         /* its rows are not neighbours in the sequence */
} run;

static run run_of(const parallel_problem *p, const parallel_rows *chunk, int64_t first, int64_t row,
                  int64_t rows)
{
    run r = {first, row, rows, NO_LIMIT, NO_LIMIT, false};
    if (p->starts != NULL) /* of each sequence its own mask says it */
        return r;
    if (p->left >= 0 && p->left - chunk->first + first < chunk->count - 1)
        r.left = p->left - chunk->first + first;
    if (p->right >= 0 && chunk->first - first + p->right < rows - 1)
        r.right = chunk->first - first + p->right;
    return r;
}

/* Adds `next` to the run before it, if one mask can say what is seen of both. */
static bool join(const parallel_problem *p, const parallel_rows *chunk, run *r, const run *next)
{
    if (r->row + r->rows != next->row)
        return false;
    if (!r->mixed && r->first + r->rows == next->first) {
        *r = run_of(p, chunk, r->first, r->row, r->rows + next->rows);
        return true;
    }
    /* Below -1 a row sees no key of `next`, and a mask that says so would hide keys of `r`. */
    if (r->left != NO_LIMIT || r->right != NO_LIMIT || next->left != NO_LIMIT || next->right < -1)
        return false;
    if (next->right != NO_LIMIT)
        r->right = next->right + r->rows;
    r->rows += next->rows;
    r->mixed = true;
    return true;
}

/* Where no row of a run's first keys is seen by the chunk's first row, the window is said from the ends. */
static void add_part(parallel_schedule *s, int32_t chunk, int32_t step, const run *r)
{
    parallel_part *part = &s->parts[s->part_count++];
    const int64_t  ends = r->rows - s->chunk[chunk].count;
    const bool     from_ends = r->right < 0;
    *part = (parallel_part){.chunk = chunk, .step = step, .row = r->row, .rows = r->rows};
    if (r->left == NO_LIMIT && r->right == NO_LIMIT)
        return;
    if (r->left == NO_LIMIT && r->right == ends) {
        part->mask = PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT;
        return;
    }
    part->mask = from_ends ? PTXPACK_MASK_WINDOW_BOTTOM_RIGHT : PTXPACK_MASK_WINDOW_TOP_LEFT;
    part->window_left = r->left == NO_LIMIT ? -1 : (int32_t)(r->left + (from_ends ? ends : 0));
    part->window_right = r->right == NO_LIMIT ? -1 : (int32_t)(r->right - (from_ends ? ends : 0));
}

/* The parts of one chunk in one step, from `count` runs of rows: first in the sequence, and where they are in memory. */
static void add_parts(const parallel_problem *p, parallel_schedule *s, int32_t chunk, int32_t step,
                      const parallel_copy *from, int32_t count)
{
    const parallel_rows *rows = &s->chunk[chunk];
    run                  open = {0};
    for (int32_t i = 0; i < count; i++) {
        const parallel_rows whole = {from[i].first, from[i].count};
        const parallel_rows keys = seen(p, rows, &whole);
        if (keys.count == 0)
            continue;
        run next = run_of(p, rows, keys.first, from[i].to + keys.first - from[i].first, keys.count);
        if (open.rows > 0 && join(p, rows, &open, &next))
            continue;
        if (open.rows > 0)
            add_part(s, chunk, step, &open);
        open = next;
    }
    if (open.rows > 0)
        add_part(s, chunk, step, &open);
}

static void add_own_parts(const parallel_problem *p, parallel_schedule *s)
{
    parallel_copy own[2] = {{.first = s->chunk[0].first, .count = s->chunk[0].count},
                            {.first = s->chunk[1].first, .count = s->chunk[1].count, .to = s->chunk[0].count}};
    for (int32_t c = 0; c < s->chunks; c++)
        add_parts(p, s, c, 0, own, s->chunks);
}

/* Way `arrive`: rows keep their places in the sequence, and each chunk attends to all up to its own last one. */
static void add_arrivals(parallel_schedule *s)
{
    s->steps = s->copy_count > 0;
    for (int32_t c = 0; c < s->chunks; c++) {
        const int64_t end = s->chunk[c].first + s->chunk[c].count;
        s->parts[s->part_count++] =
            (parallel_part){.chunk = c, .step = 1, .rows = end, .mask = PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT};
        if (s->copy_count > 0)
            s->buffer_rows = end;
    }
    for (int32_t i = 0; i < s->copy_count; i++)
        s->copies[i].to = s->copies[i].first;
}

parallel_schedule *parallel_schedule_make(const parallel_problem *p, int32_t rank)
{
    /* A chunk has at most a part for each chunk of the group. */
    const size_t       most = 2 * (size_t)p->ranks;
    parallel_schedule *s = (parallel_schedule *)calloc(1, sizeof *s + most * sizeof *s->copies +
                                                              2 * most * sizeof *s->parts);
    if (s == NULL)
        return NULL;
    s->copies = (parallel_copy *)(s + 1);
    s->parts = (parallel_part *)(s->copies + most);
    s->rank = rank;
    s->chunks = parallel_chunks(p, rank, s->chunk);
    if (p->way == PTXPACK_PARALLEL_HEADS)
        return s;
    for (int32_t from = 0; from < p->ranks; from++)
        if (from != rank || p->way == PTXPACK_PARALLEL_GATHER)
            take_from(p, s, from);
    if (p->way == PTXPACK_PARALLEL_STEPS)
        add_own_parts(p, s);
    if (p->way == PTXPACK_PARALLEL_ARRIVE) {
        add_arrivals(s);
        return s;
    }
    for (int32_t i = 0, end; i < s->copy_count; i = end) {
        s->steps = s->copies[i].step;
        for (end = i; end < s->copy_count && s->copies[end].step == s->steps; end++) {
            s->copies[end].to = s->buffer_rows;
            s->buffer_rows += s->copies[end].count;
        }
        for (int32_t c = 0; c < s->chunks; c++)
            add_parts(p, s, c, s->steps, &s->copies[i], end - i);
    }
    return s;
}

int32_t parallel_parts_of(const parallel_schedule *s, int32_t chunk)
{
    int32_t count = 0;
    for (int32_t i = 0; i < s->part_count; i++)
        count += s->parts[i].chunk == chunk;
    return count;
}
