/* plan_hooks.c - `ptxpack plan attention` with hooks: which row their kernel takes, and what it says of those that spill. */
#include <unistd.h>

#include "command_fixture.h"
#include "tests/fake/spilling_kernels.h"

/* ---- a pack of kernels that the fake compiler takes ------------------------------------------------------ */
static void write_file(const char *name, const char *text)
{
    FILE *file = fopen(scratch_path(name), "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Kernels with hooks spill if their tiles have more scores than these, or rows for decoding. */
static void write_pack(int most_wgmma, int most_mma)
{
    static const char *const names[] = {"wgmma", "mma", "decode"};
    const char *const        tiles[] = {"BLOCK_M * BLOCK_N", "BLOCK_M * BLOCK_N", "ROWS"};
    const int                most[] = {most_wgmma, most_mma, 0};
    char                     text[SPILLING_KERNEL], name[64];
    mkdir(scratch_path("ptx"), 0700);
    mkdir(scratch_path("ptx/attention"), 0700);
    for (int i = 0; i < 3; i++) {
        spilling_kernel(text, names[i], tiles[i], most[i]);
        snprintf(name, sizeof name, "ptx/attention/%s.ptx", names[i]);
        write_file(name, text);
    }
}

static int open_pack(void **state)
{
    char    program[512], compiler[600];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (scratch_open(state) != 0 || n <= 0)
        return -1;
    program[n] = '\0';
    *strrchr(program, '/') = '\0';
    snprintf(compiler, sizeof compiler, "%s/fake_ptxjit.so", program);
    return setenv("PTXPACK_PTXJIT", compiler, 1) | setenv("PTXPACK_PTX_DIR", scratch_path("ptx"), 1) |
           setenv("PTXPACK_CACHE_DIR", scratch_path("cache"), 1);
}

static const char score[] = ".macro SCORE_MOD s, r, b, h, q, kv, c, cf\n add.f32 \\s, \\s, \\cf;\n.endm\n";

static int plan(const char *options)
{
    char arguments[600];
    write_file("score", score);
    snprintf(arguments, sizeof arguments, "attention --arch sm_90a --head-dim 128 --score-mod %s %s",
             scratch_path("score"), options);
    return run_command("plan", arguments);
}

/* Checks that the report has a line of `row` that ends with `why`. */
static void assert_why(const char *row, const char *why)
{
    char line[128];
    snprintf(line, sizeof line, "\n  %s ", row);
    const char *at = strstr(output, line), *end = at != NULL ? strchr(at + 1, '\n') : NULL;
    if (end == NULL || strncmp(end - strlen(why), why, strlen(why)) != 0)
        fail_msg("no line of %s .. %s in\n%s", row, why, output);
}

/* ---- what is taken ----------------------------------------------------------------------------------------- */
static void the_fastest_is_taken_if_it_spills_nothing(void **state)
{
    (void)state;
    write_pack(1 << 20, 1 << 20);
    assert_int_equal(plan(""), 0);
    assert_non_null(strstr(output, "\nhooks      score_mod\n"));
    assert_non_null(strstr(output, "\nvariant    attention_wgmma_sm90_d128_128x128: "));
    assert_why("attention_wgmma_sm90_d128_128x128", "  the fastest by the model");
    assert_null(strstr(output, "with the hooks it spills"));
}

static void a_row_that_spills_gives_way(void **state)
{
    (void)state;
    write_pack(64 * 64, 1 << 20);
    assert_int_equal(plan(""), 0);
    assert_non_null(strstr(output, "\nvariant    attention_wgmma_sm90_d128_64x64: "));
    assert_why("attention_wgmma_sm90_d128_128x128", "  with the hooks it spills 12 bytes");
    assert_why("attention_wgmma_sm90_d128_64x64", "  the next one");

    assert_int_equal(plan("--variant attention_wgmma_sm90_d128_128x128"), 0); /* a row that is named stays */
    assert_why("attention_wgmma_sm90_d128_128x128", "  named by --variant");
    assert_non_null(strstr(output, "spills 12 bytes"));
    assert_int_equal(plan("--no-compile"), 0);
    assert_why("attention_wgmma_sm90_d128_128x128", "  the fastest by the model");
    assert_int_equal(run_command("plan", "attention --arch sm_90a --head-dim 128"), 0); /* without the hook */
    assert_why("attention_wgmma_sm90_d128_128x128", "  the fastest by the model");
    assert_null(strstr(output, "\nhooks "));
}

static void a_row_behind_others_is_listed_when_it_is_taken(void **state)
{
    (void)state;
    write_pack(0, 128 * 32);
    assert_int_equal(plan(""), 0);
    assert_non_null(strstr(output, "\nvariant    attention_mma_sm80_d128_128x32: "));
    assert_why("attention_mma_sm80_d128_128x48", "  with the hooks it spills 12 bytes");
    assert_why("attention_mma_sm80_d128_128x32", "  the next one");
}

/* Heads are packed, and keys cut into parts, as the device wants it: what is judged and what is reported is one build. */
static void the_build_that_is_judged_is_reported(void **state)
{
    static const char options[] =
        "--dtype bf16 --seqlen-q 64 --seqlen-kv 16384 --heads-q 32 --heads-kv 8 --causal";
    char text[SPILLING_KERNEL];
    (void)state;
    write_pack(1 << 20, 1 << 20);
    spilling_kernel(text, "wgmma", "1 - PACKED_HEADS", 0);
    write_file("ptx/attention/wgmma.ptx", text);
    assert_int_equal(plan(options), 0);
    assert_null(strstr(output, "spills 12 bytes"));
    spilling_kernel(text, "wgmma", "PACKED_HEADS", 0);
    write_file("ptx/attention/wgmma.ptx", text);
    assert_int_equal(plan(options), 0);
    assert_non_null(strstr(output, "spills 12 bytes"));
}

static void a_plan_without_a_kernel_is_refused(void **state)
{
    (void)state;
    write_pack(0, 0);
    assert_int_equal(plan(""), 1);
    assert_string_equal(
        errors,
        "ptxpack plan: with this hook every kernel spills registers; attention_wgmma_sm90_d128_128x128, the "
        "fastest of them, 12 bytes a thread\n");
    assert_string_equal(output, "");
}

/* ---- texts --------------------------------------------------------------------------------------------------- */
static void bad_texts_are_one_line(void **state)
{
    char arguments[600];
    (void)state;
    write_pack(1 << 20, 1 << 20);
    refuses("plan", "attention --arch sm_90a --score-mod nowhere", 2,
            "plan: --score-mod: nowhere: No such file");
    write_file("bad", ".macro MASK_MOD keep, r, b, h, q, kv, c, cf\n bar.sync 0;\n.endm\n");
    snprintf(arguments, sizeof arguments, "attention --arch sm_90a --mask-mod %s", scratch_path("bad"));
    refuses("plan", arguments, 2, "plan: mask_mod, line 2: bar is not an instruction that a hook may use");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fastest_is_taken_if_it_spills_nothing),
        cmocka_unit_test(a_row_that_spills_gives_way),
        cmocka_unit_test(a_row_behind_others_is_listed_when_it_is_taken),
        cmocka_unit_test(the_build_that_is_judged_is_reported),
        cmocka_unit_test(a_plan_without_a_kernel_is_refused),
        cmocka_unit_test(bad_texts_are_one_line),
    };
    return cmocka_run_group_tests(tests, open_pack, scratch_close);
}
