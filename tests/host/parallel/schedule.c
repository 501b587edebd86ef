/* schedule.c - schedules of parallel attention against a mask that is counted pair by pair: for groups of 1 to 9 ranks, every
 * kind of mask, odd lengths and lengths below the number of ranks, each row attends to each of its keys exactly once, and
 * what is copied is needed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "host/parallel/inspect.h"

enum { MOST_ROWS = 128 };

static const struct {
    int left, right;
} windows[] = {{-1, -1}, {-1, 0}, {0, 0}, {3, 0}, {5, 2}, {-1, 4}, {9, -1}, {40, 0}, {0, 7}, {33, 33}};

static int sees(const parallel_problem *p, int64_t i, int64_t j)
{
    return (p->left < 0 || j >= i - p->left) && (p->right < 0 || j <= i + p->right);
}

/* Whether row i of `rows` attends to key j of `keys`: attention.h to the letter. */
static int attends(const parallel_part *part, int64_t rows, int64_t i, int64_t j)
{
    const int64_t end = i + part->rows - rows;
    switch (part->mask) {
    case PTXPACK_MASK_NONE:
        return 1;
    case PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT:
        return j <= end;
    case PTXPACK_MASK_WINDOW_TOP_LEFT:
        return (part->window_left < 0 || j >= i - part->window_left) &&
               (part->window_right < 0 || j <= i + part->window_right);
    case PTXPACK_MASK_WINDOW_BOTTOM_RIGHT:
        return (part->window_left < 0 || j >= end - part->window_left) &&
               (part->window_right < 0 || j <= end + part->window_right);
    default:
        fail_msg("mask %d", (int)part->mask);
        return 0;
    }
}

/* Where the rows of the buffer, and of the own shard, come from. */
typedef struct places {
    int64_t buffer[MOST_ROWS], shard[MOST_ROWS];
} places;

static void find_places(const parallel_problem *p, const parallel_schedule *s, places *at)
{
    int64_t n = 0, filled = 0;
    for (int32_t c = 0; c < s->chunks; c++)
        for (int64_t i = 0; i < s->chunk[c].count; i++)
            at->shard[n++] = s->chunk[c].first + i;
    for (int32_t k = 0; k < s->copy_count; k++) {
        const parallel_copy *copy = &s->copies[k];
        parallel_rows        theirs[2];
        const int32_t        count = parallel_chunks(p, copy->rank, theirs);
        int64_t              in_shard = 0, found = 0;
        assert_true(copy->rank != s->rank || p->way == PTXPACK_PARALLEL_GATHER);
        assert_true(copy->step >= 1 && copy->step <= s->steps);
        for (int32_t c = 0; c < count; in_shard += theirs[c++].count)
            if (copy->first >= theirs[c].first &&
                copy->first + copy->count <= theirs[c].first + theirs[c].count)
                found += copy->from == in_shard + copy->first - theirs[c].first;
        assert_int_equal(found, 1); /* in one chunk of that rank's shard */
        for (int64_t i = 0; i < copy->count; i++)
            at->buffer[copy->to + i] = copy->first + i;
        filled += copy->count;
    }
    assert_int_equal(filled, s->buffer_rows);
}

static int step_is_there(const parallel_schedule *s, int64_t row, int32_t step)
{
    for (int32_t k = 0; k < s->copy_count; k++)
        if (row >= s->copies[k].to && row < s->copies[k].to + s->copies[k].count)
            return s->copies[k].step <= step;
    return 0;
}

static void check_rank(const parallel_problem *p, int32_t rank)
{
    static uint8_t     seen[MOST_ROWS][MOST_ROWS];
    static places      at;
    parallel_schedule *s = parallel_schedule_make(p, rank);
    assert_non_null(s);
    memset(seen, 0, sizeof seen);
    find_places(p, s, &at);
    for (int32_t k = 0; k < s->part_count; k++) {
        const parallel_part *part = &s->parts[k];
        const parallel_rows *rows = &s->chunk[part->chunk];
        const int64_t        all = part->step == 0 ? s->chunk[0].count + s->chunk[1].count : s->buffer_rows;
        assert_true(part->rows > 0 && part->row >= 0 && part->row + part->rows <= all);
        for (int64_t j = 0; j < part->rows; j++) {
            assert_true(part->step == 0 || step_is_there(s, part->row + j, part->step));
            for (int64_t i = 0; i < rows->count; i++)
                seen[rows->first + i][(part->step == 0 ? at.shard : at.buffer)[part->row + j]] += (uint8_t)
                    attends(part, rows->count, i, j);
        }
    }
    for (int32_t c = 0; c < s->chunks; c++) {
        assert_true(p->way == PTXPACK_PARALLEL_STEPS || parallel_parts_of(s, c) == (s->chunk[c].count > 0));
        for (int64_t i = s->chunk[c].first; i < s->chunk[c].first + s->chunk[c].count; i++)
            for (int64_t j = 0; j < p->rows; j++)
                if (seen[i][j] != sees(p, i, j))
                    fail_msg(
                        "%d ranks, shards %d, way %d, %d rows, window %d %d: row %d attends to key %d %d times",
                        (int)p->ranks, (int)p->shards, (int)p->way, (int)p->rows, (int)p->left, (int)p->right,
                        (int)i, (int)j, seen[i][j]);
    }
    /* Where only the own chunks' neighbours are seen, only these are copied. */
    for (int64_t j = 0; j < s->buffer_rows; j++) {
        int needed = 0;
        for (int32_t c = 0; c < s->chunks; c++)
            if (s->chunk[c].count > 0 && (p->left < 0 || at.buffer[j] >= s->chunk[c].first - p->left) &&
                (p->right < 0 || at.buffer[j] < s->chunk[c].first + s->chunk[c].count + p->right))
                needed = 1;
        assert_true(needed || s->chunks == 2); /* a copy may join what two chunks see */
    }
    free(s);
}

static void rows_see_their_keys_once(void **state)
{
    static const int64_t lengths[] = {1, 2, 5, 8, 13, 31, 64, 97, 128};
    (void)state;
    for (int32_t ranks = 1; ranks <= 9; ranks++)
        for (int variant = 0; variant < 4; variant++)
            for (size_t w = 0; w < sizeof windows / sizeof windows[0]; w++)
                for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
                    const parallel_problem p = {.ranks = ranks,
                                                .shards = (ptxpack_shards)(variant % 2),
                                                .way = variant < 2 ? PTXPACK_PARALLEL_GATHER
                                                                   : PTXPACK_PARALLEL_STEPS,
                                                .rows = lengths[l],
                                                .left = windows[w].left,
                                                .right = windows[w].right};
                    for (int32_t rank = 0; rank < ranks; rank++)
                        check_rank(&p, rank);
                }
}

/* All chunks together are the sequence, and ranks hold the same number of rows but for two. */
static void chunks_are_the_sequence(void **state)
{
    (void)state;
    for (int32_t ranks = 1; ranks <= 9; ranks++)
        for (int32_t rows = 0; rows < 70; rows++)
            for (int shards = 0; shards < 2; shards++) {
                int     owner[70] = {0};
                int32_t least = INT32_MAX, most = 0;
                for (int32_t rank = 0; rank < ranks; rank++) {
                    int32_t all = 0;
                    for (int32_t chunk = 0; chunk < 2; chunk++) {
                        int32_t first = -1, count = -1;
                        ptxpack_attention_parallel_chunk((ptxpack_shards)shards, ranks, rank, rows, chunk,
                                                         &first, &count);
                        assert_true(count >= 0 && (count == 0 || (first >= 0 && first + count <= rows)));
                        for (int32_t i = first; i < first + count; i++)
                            owner[i]++;
                        all += count;
                    }
                    least = all < least ? all : least;
                    most = all > most ? all : most;
                }
                for (int32_t i = 0; i < rows; i++)
                    assert_int_equal(owner[i], 1);
                assert_true(most - least <= 1 + shards);
            }
    int32_t first = -1, count = -1;
    ptxpack_attention_parallel_chunk(PTXPACK_SHARDS_ZIGZAG, 4, 4, 100, 0, &first, &count);
    assert_int_equal(first, 0);
    assert_int_equal(count, 0);
    ptxpack_attention_parallel_chunk(PTXPACK_SHARDS_CONTIGUOUS, 4, 1, 100, 1, NULL, &count);
    assert_int_equal(count, 0);
}

/* The work of a causal mask: with zigzag shards that of the ranks differs by less than a hundredth. */
static void zigzag_balances(void **state)
{
    const parallel_problem p = {.ranks = 8,
                                .shards = PTXPACK_SHARDS_ZIGZAG,
                                .rows = 1 << 16,
                                .left = -1,
                                .right = 0};
    (void)state;
    for (int32_t rank = 0; rank < p.ranks; rank++) {
        parallel_rows chunk[2];
        double        pairs = 0, all = 0.5 * (double)p.rows * (double)(p.rows + 1);
        assert_int_equal(parallel_chunks(&p, rank, chunk), 2);
        for (int c = 0; c < 2; c++)
            pairs += (double)chunk[c].count * ((double)chunk[c].first + 0.5 * (double)(chunk[c].count + 1));
        assert_true(pairs > 0.99 * all / p.ranks && pairs < 1.01 * all / p.ranks);
    }
}

/* Of 8 ranks with a causal mask and zigzag shards, every step of a chunk is one launch: 4 steps, and of the first chunk
 * those in which nobody before it comes are missing. */
static void steps_are_few(void **state)
{
    const parallel_problem p = {.ranks = 8,
                                .shards = PTXPACK_SHARDS_ZIGZAG,
                                .way = PTXPACK_PARALLEL_STEPS,
                                .rows = 4096,
                                .left = -1,
                                .right = 0};
    (void)state;
    for (int32_t rank = 0; rank < p.ranks; rank++) {
        parallel_schedule *s = parallel_schedule_make(&p, rank);
        assert_non_null(s);
        assert_int_equal(s->steps, 3);
        assert_true(parallel_parts_of(s, 0) <= 4);
        assert_int_equal(parallel_parts_of(s, 1), 4);
        free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_see_their_keys_once),
        cmocka_unit_test(chunks_are_the_sequence),
        cmocka_unit_test(zigzag_balances),
        cmocka_unit_test(steps_are_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
