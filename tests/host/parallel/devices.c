/* devices.c - parallel attention on emulated devices of one process, against the whole attention in double precision: groups of
 * 1 to 8 ranks, both kinds of shards, both ways, every mask, odd lengths, and lengths below the number of ranks. */
#include "cases.h"

static const parallel_case cases[] = {
    {"full", 1, 150, 4, 2, 64, 0, PTXPACK_MASK_NONE, 0, 0, 0, 0, false, 0},
    {"causal", 2, 131, 4, 2, 64, 0, PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, 0, false, 0},
    {"causal, sinks", 1, 200, 3, 1, 64, 0, PTXPACK_MASK_CAUSAL_TOP_LEFT, 0, 0, 0, PTXPACK_SINKS, false, 0},
    {"window", 2, 97, 2, 2, 64, 0, PTXPACK_MASK_WINDOW_BOTTOM_RIGHT, 20, 0, 0, 0, false, 0},
    {"window on both sides", 1, 180, 4, 1, 64, 0, PTXPACK_MASK_WINDOW_TOP_LEFT, 30, 41, 5, 0, false, 0},
    {"window on the right", 1, 90, 2, 1, 64, 0, PTXPACK_MASK_WINDOW_TOP_LEFT, -1, 7, 0, PTXPACK_SINKS, false,
     0},
    {"few rows", 2, 5, 4, 2, 64, 0, PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, 0, false, 0},
    {"values of another size", 1, 70, 4, 2, 64, 128, PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, 0, false, 0},
    {"packed, full", SEQUENCES, 180, 4, 2, 64, 0, PTXPACK_MASK_NONE, 0, 0, 0, 0, true, 0},
    {"packed, causal", SEQUENCES, 180, 4, 2, 64, 0, PTXPACK_MASK_CAUSAL_TOP_LEFT, 0, 0, 0, PTXPACK_SINKS, true,
     0},
    {"packed, window", SEQUENCES, 180, 2, 1, 64, 128, PTXPACK_MASK_WINDOW_BOTTOM_RIGHT, 25, 0, 0, 0, true, 0},
};
enum { CASES = sizeof cases / sizeof cases[0] };
/* These ask where a row is in its sequence, which steps do not say. */
static const parallel_case placed[] = {
    {"ALiBi", 2, 131, 4, 2, 64, 0, PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, PTXPACK_ALIBI, false, 0},
    {"ALiBi, window", 1, 197, 3, 1, 64, 0, PTXPACK_MASK_WINDOW_TOP_LEFT, 60, 0, 0, PTXPACK_ALIBI, false, 0},
    {"ALiBi, few rows", 1, 5, 4, 2, 64, 0, PTXPACK_MASK_CAUSAL_TOP_LEFT, 0, 0, 0, PTXPACK_ALIBI, false, 0},
    {"chunks", 2, 150, 4, 2, 64, 0, PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, PTXPACK_SINKS, false, 32},
    {"long chunks", 1, 190, 2, 1, 64, 0, PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, 0, false, 100},
    {"short chunks", 1, 61, 2, 1, 64, 0, PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, 0, false, 3},
    {"packed, ALiBi", SEQUENCES, 180, 4, 2, 64, 0, PTXPACK_MASK_CAUSAL_TOP_LEFT, 0, 0, 0, PTXPACK_ALIBI, true,
     0},
    {"packed, chunks", SEQUENCES, 180, 2, 1, 64, 0, PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, 0, true, 24},
};
enum { PLACED = sizeof placed / sizeof placed[0] };

/* Neighbouring numbers of ranks take the other shards. */
static void all_cases(int32_t ranks)
{
    for (int i = 0; i < CASES; i++)
        for (int way = 0; way < (cases[i].packed ? 1 : 2); way++)
            run_case(&cases[i], ranks, (ptxpack_shards)((i + ranks) % 2),
                     way ? PTXPACK_PARALLEL_STEPS : PTXPACK_PARALLEL_GATHER,
                     (i + way) % 2 ? PTXPACK_BF16 : PTXPACK_F16);
    for (int i = 0; i < PLACED; i++)
        run_case(&placed[i], ranks, (ptxpack_shards)((i + ranks) % 2), PTXPACK_PARALLEL_BEST,
                 i % 2 ? PTXPACK_BF16 : PTXPACK_F16);
}

static void one_rank(void **state) { (void)state, all_cases(1); }
static void two_ranks(void **state) { (void)state, all_cases(2); }
static void three_ranks(void **state) { (void)state, all_cases(3); }
static void four_ranks(void **state) { (void)state, all_cases(4); }
static void eight_ranks(void **state) { (void)state, all_cases(8); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank),   cmocka_unit_test(two_ranks),   cmocka_unit_test(three_ranks),
        cmocka_unit_test(four_ranks), cmocka_unit_test(eight_ranks),
    };
    return cmocka_run_group_tests(tests, open_handles, close_handles);
}
