/* bench_parallel.c - the benchmark of several GPUs on small problems and two GPUs of the emulated driver: what it times,
 * checks and prints.  The times are not looked at; what the options refuse is in tests/golden/command.txt. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/support/scratch.h"
#include "tests/support/unit.h"
#include "tools/bench/parallel/parallel.h"
#include "tools/command.h"
#include "tools/progress.h"

#define BEFORE_EACH open_bench
#define AFTER_EACH  close_bench

static bench_settings settings;
static ranks_bench   *bench;
static char           output[1 << 14];

static int open_bench(void **state)
{
    (void)state;
    progress_every(1000000); /* stderr has only errors, however slow the machine is */
    setenv("PTXPACK_EMU_DEVICES", "2", 1);
    settings = (bench_settings){.rounds = 1,
                                .seed = 7,
                                .dtype = PTXPACK_BF16,
                                .causal = true,
                                .head_dims = {.count = 1, .value = {64}},
                                .lengths = {.count = 1, .value = {70}},
                                .keys = {.count = 1, .value = {131}},
                                .heads = {.count = 2, .value = {2, 2}}};
    bench = (ranks_bench *)calloc(1, sizeof *bench);
    assert_non_null(bench);
    bench->settings = &settings;
    assert_int_equal(device_open_as(&bench->rank[0].gpu, "emu", NULL), PTXPACK_OK);
    bench->opened = 1;
    return 0;
}

static int close_bench(void **state)
{
    (void)state;
    ranks_close(bench);
    free(bench);
    return 0;
}

/* What it prints is in `output`. */
static int run(void)
{
    fflush(stdout);
    const int saved = dup(1);
    FILE     *file = fopen(scratch_path("out"), "w+");
    assert_non_null(file);
    dup2(fileno(file), 1);
    int status = parallel_bench_run(bench);
    fflush(stdout);
    dup2(saved, 1);
    close(saved);
    rewind(file);
    output[fread(output, 1, sizeof output - 1, file)] = '\0';
    fclose(file);
    return status;
}

static void assert_has(const char *part)
{
    if (strstr(output, part) == NULL)
        fail_msg("no \"%s\" in: %s", part, output);
}

TEST(it_prints_both_kinds_of_shards_decoding_and_the_link)
{
    settings.full = true;
    if (run() != COMMAND_OK)
        fail_msg("%s", bench->rank[0].gpu.line);
    assert_has(
        "bf16, 2 ranks on 2 GPUs, 2 query heads on 2, median of 1 rounds, seed 7\nlink: each rank receives ");
    assert_has(" GB/s while all do, 9472 bytes\n");
    assert_has("\n| 64 | full | 70 | contiguous | ");
    assert_has("\n| 64 | full | 70 | zigzag | ");
    assert_has("\n| 64 | causal | 70 | contiguous | ");
    assert_has("\n| 64 | causal | 70 | zigzag | ");
    assert_has("\n| 64 | 130 | "); /* keys are divided in equal parts */
}

TEST(ranks_may_share_a_gpu_and_the_tables_are_json)
{
    settings.devices = 3;
    settings.json = true;
    if (run() != COMMAND_OK)
        fail_msg("%s", bench->rank[0].gpu.line);
    assert_has("\"ranks\": 3,\n  \"gpus\": 2,");
    assert_has("\"link_gb_per_s\": ");
    assert_has("\"shards\": \"zigzag\"");
    assert_has("\"steps_model_ms\": ");
    assert_null(strstr(output, "heads_ms")); /* 2 heads of 3 ranks */
    assert_has("\"keys\": 129,");
}

TEST(one_rank_has_no_link)
{
    settings.devices = 1;
    settings.json = true;
    if (run() != COMMAND_OK)
        fail_msg("%s", bench->rank[0].gpu.line);
    assert_has("\"ranks\": 1,");
    assert_null(strstr(output, "link"));
}

/* The last row of the last head of each case, changed where its rank has it. */
TEST(a_wrong_result_is_found)
{
    if (run() != COMMAND_OK)
        fail_msg("%s", bench->rank[0].gpu.line);
    for (size_t i = 0; i < bench->count; i++) {
        const ranks_case *c = &bench->cases[i];
        if (c->kind == RANKS_COPY)
            continue;
        assert_true(ranks_enqueue(bench, i) && device_sync(&bench->rank[0].gpu) && ranks_check(bench, c));
        /* zigzag: rank 0 has the last rows; contiguous: rank 1; rows of a shard: 35 */
        const bool     prefill = c->kind == RANKS_PREFILL;
        const int32_t  rank = prefill && c->shards == PTXPACK_SHARDS_CONTIGUOUS;
        const uint64_t row = (uint64_t)(c->kind == RANKS_DECODE || c->desc.seqlen_q == 1 ? 0
                                        : prefill                                        ? 34
                                                                                         : 69);
        const uint64_t at = ranks_at(bench, rank, RANKS_O, 1) + (row * 2 + 1) * 64 * sizeof(uint16_t);
        const uint16_t wrong = 0x4140; /* 12 */
        device        *gpu = &bench->rank[rank].gpu;
        assert_true(device_attach(gpu) && device_upload(gpu, at, &wrong, sizeof wrong));
        assert_false(ranks_check(bench, c));
        if (strstr(bench->rank[0].gpu.line, "wrong: ") == NULL)
            fail_msg("%s", bench->rank[0].gpu.line);
    }
}

TEST(fewer_keys_than_ranks_are_refused)
{
    settings.devices = 3;
    settings.keys.value[0] = 2;
    assert_int_equal(run(), COMMAND_USAGE);
}

RUN_TESTS(scratch_open, scratch_close)
