/* arrive.c - way `arrive` of parallel attention on emulated devices of one process, whose kernels begin before their keys have
 * come, against the whole attention in double precision. */
#include "cases.h"

/* Rows are multiples of 128 for each of the chunks. */
static const parallel_case cases[] = {
    {"causal", 1, 512, 2, 1, 64, 0, PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, 0, false, 0},
    {"causal, sinks", 2, 512, 2, 2, 64, 0, PTXPACK_MASK_CAUSAL_TOP_LEFT, 0, 0, 0, PTXPACK_SINKS, false, 0},
    {"causal, softcap", 1, 1024, 1, 1, 64, 0, PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 5, 0, false, 0},
    {"values of another size", 1, 512, 2, 1, 192, 128, PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, 0, false, 0},
    {"six chunks", 1, 768, 2, 1, 64, 0, PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, 0, false, 0},
    {"sixteen chunks", 1, 2048, 1, 1, 64, 0, PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, 0, false, 0},
};

static void devices(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        for (int shards = 0; shards < 2; shards++)
            if (shards == 0 || i != 2)
                run_case(&cases[i], 2, (ptxpack_shards)shards, PTXPACK_PARALLEL_ARRIVE,
                         (i + shards) % 2 ? PTXPACK_BF16 : PTXPACK_F16);
    run_case(&cases[0], 1, PTXPACK_SHARDS_ZIGZAG, PTXPACK_PARALLEL_ARRIVE, PTXPACK_F16);
    run_case(&cases[0], 4, PTXPACK_SHARDS_CONTIGUOUS, PTXPACK_PARALLEL_ARRIVE, PTXPACK_BF16);
    run_case(&cases[2], 4, PTXPACK_SHARDS_ZIGZAG, PTXPACK_PARALLEL_ARRIVE, PTXPACK_F16);
    run_case(&cases[4], 3, PTXPACK_SHARDS_ZIGZAG, PTXPACK_PARALLEL_ARRIVE, PTXPACK_BF16);
    run_case(&cases[4], 3, PTXPACK_SHARDS_CONTIGUOUS, PTXPACK_PARALLEL_ARRIVE, PTXPACK_F16);
    run_case(&cases[2], 8, PTXPACK_SHARDS_CONTIGUOUS, PTXPACK_PARALLEL_ARRIVE, PTXPACK_BF16);
    run_case(&cases[5], 8, PTXPACK_SHARDS_ZIGZAG, PTXPACK_PARALLEL_ARRIVE, PTXPACK_F16);
}

/* Ranks that share a device take turns: a kernel may have all of it. */
static void one_device(void **state)
{
    (void)state;
    ptxpack *const second = handles[1];
    handles[1] = handles[0];
    run_case(&cases[0], 2, PTXPACK_SHARDS_ZIGZAG, PTXPACK_PARALLEL_ARRIVE, PTXPACK_F16);
    handles[1] = second;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(devices), cmocka_unit_test(one_device)};
    return cmocka_run_group_tests(tests, open_handles, close_handles);
}
