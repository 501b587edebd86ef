/* emu.c - the command on the emulated driver: what it says, counts, and refuses. */
#include "command_fixture.h"

static void on_the_emulated_driver(void **state)
{
    (void)state;
    assert_int_equal(run_command("vector-add", "--device emu --n 1000 --verify --seed 1"), 0);
    assert_non_null(strstr(output, "emulated  every instruction is executed and judged"));
    assert_non_null(strstr(output, "all 1000 elements are exact"));
    assert_string_equal(errors, ""); /* judged clean */
    assert_int_equal(run_command("attention", "--device emu --batch 1 --heads-q 1 --seqlen-q 70 --head-dim 40 "
                                              "--causal --verify --seed 1 --json"),
                     0);
    assert_non_null(strstr(output, "\"ran_on\": \"emulator\""));
    assert_non_null(strstr(output, "\"emulated\": true"));
    assert_string_equal(errors, "");
}

static long long multiply_adds(void)
{
    long long sum = 0;
    for (const char *at = output; (at = strstr(at, "\"multiply_adds\":")) != NULL; at++)
        sum += atoll(at + strlen("\"multiply_adds\":"));
    return sum;
}

/* Every tile is multiplied once: 2 products of 128 x 64 rows, keys of 2 tiles, 32 columns. */
static void profile_counts(void **state)
{
    (void)state;
    setenv("PTXPACK_EMU_SM", "80", 1); /* for the tile of 128 x 64 */
    assert_int_equal(run_command("profile", "attention --seqlen-q 128 --head-dim 32 --json"), 0);
    long long conflicts = 0;
    for (const char *at = output; (at = strstr(at, "\"conflicts\":")) != NULL; at++)
        conflicts += atoll(at + strlen("\"conflicts\":"));
    assert_int_equal(multiply_adds(), 2LL * 128 * 128 * 32);
    assert_int_equal(conflicts, 0);
    assert_non_null(strstr(output, "\"file\": \"ptx/atom/mma_sync.ptx\""));
    assert_int_equal(run_command("profile", "attention --seqlen-q 128 --head-dim 32 --lines 3"), 0);
    assert_non_null(strstr(output, "3 of "));
    unsetenv("PTXPACK_EMU_SM");
}

/* Of a window only the blocks that some row of a tile sees are multiplied: of 128 rows that see themselves
 * and 127 keys before them, 255 keys, in blocks of 64 four of eight. */
static void windows_skip_blocks(void **state)
{
    (void)state;
    setenv("PTXPACK_EMU_SM", "80", 1);
    assert_int_equal(run_command("profile", "attention --seqlen-q 128 --seqlen-kv 512 --head-dim 32 "
                                            "--window 127,0 --json"),
                     0);
    assert_true(multiply_adds() <= 2LL * 128 * 256 * 32); /* warps leave out what their rows do not see */
    assert_true(multiply_adds() >= 2LL * 128 * 128 * 32);
    unsetenv("PTXPACK_EMU_SM");
}

static void what_is_refused(void **state)
{
    (void)state;
    refuses("attention", "--device tpu", 2, "'tpu' is neither gpu nor emu");
    refuses("vector-add", "--device tpu", 2, "'tpu' is neither gpu nor emu");
    refuses("profile", "", 2, "name what to profile");
    refuses("profile", "attention --lines -1", 2, "--lines");
    setenv("PTXPACK_EMU", "/nowhere/emu.so", 1);
    refuses("vector-add", "--device emu", 1, "/nowhere/emu.so");
    unsetenv("PTXPACK_EMU");
}

static int start(void **state)
{
    return scratch_open(state) != 0 ? -1 : setenv("PTXPACK_CACHE_DIR", scratch_path("cache"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_the_emulated_driver),
        cmocka_unit_test(profile_counts),
        cmocka_unit_test(windows_skip_blocks),
        cmocka_unit_test(what_is_refused),
    };
    return cmocka_run_group_tests(tests, start, scratch_close);
}
