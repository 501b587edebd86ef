/* bench_model.c - the benchmark of a whole model, on a tiny one and the emulated driver: what it computes and prints.  The times are
 * not looked at; what the options refuse is in tests/golden/command.txt. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/support/scratch.h"
#include "tests/support/unit.h"
#include "tools/bench/model/model.h"
#include "tools/command.h"
#include "tools/progress.h"

#define BEFORE_EACH open_bench
#define AFTER_EACH  close_bench

static const model_shape tiny = {"tiny", 2, 64, 128, 100, 4, 2, 64, 10000, true, false, 0, 0, false};
static device            target;
static bench_settings    settings;
static model_work        work;
static char              output[1 << 12];

static int open_bench(void **state)
{
    (void)state;
    progress_every(1000000); /* stderr has only errors, however slow the machine is */
    setenv("PTXPACK_DEVICE", "emu", 1);
    assert_int_equal(device_open_as(&target, NULL, NULL), PTXPACK_OK);
    settings = (bench_settings){.rounds = 1, .seed = 7, .dtype = PTXPACK_BF16};
    work = (model_work){.shape = &tiny,
                        .batches = {.count = 2, .value = {1, 3}},
                        .contexts = {.count = 1, .value = {70}},
                        .prompts = {.count = 1, .value = {20}},
                        .steps = 2,
                        .repeats = 2,
                        .roof_bytes = 4096};
    return 0;
}

static int close_bench(void **state)
{
    (void)state;
    device_close(&target);
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
    int status = bench_model_run(&target, &settings, &work);
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

TEST(a_line_for_each_row)
{
    assert_int_equal(run(), COMMAND_OK);
    assert_has("tiny, bf16, pages of 64, seed 7\n");
    assert_has("\n| decode | 1 | 70 | ");
    assert_has("\n| decode | 3 | 70 | ");
    assert_has("\n| prefill | 1 | 20 | ");
}

TEST(it_prints_json)
{
    settings.json = true;
    settings.dtype = PTXPACK_F16;
    work.batches.count = 1;
    assert_int_equal(run(), COMMAND_OK);
    assert_has("\"model\": \"tiny\"");
    assert_has("\"dtype\": \"f16\"");
    assert_has("\"what\": \"decode\"");
    assert_has("\"tokens_per_second\": ");
    assert_has("\"floor_ms\": ");
    assert_has("\"what\": \"prefill\"");
}

TEST(weights_of_e4m3)
{
    model_shape wide = tiny;
    wide.hidden = 128;
    work.shape = &wide;
    work.prompts.value[0] = 40;
    settings.weights = PTXPACK_E4M3;
    assert_int_equal(run(), COMMAND_OK);
    assert_has("tiny, bf16, weights of layers e4m3, pages of 64, seed 7\n");
    assert_has("\n| decode | 3 | 70 | ");
    assert_has("\n| prefill | 1 | 40 | "); /* more than products of e4m3 take */
}

/* Two of five experts each: of a layer one sequence reads 2, three read 2 to 5. */
TEST(experts_are_counted)
{
    model_shape mixed = tiny;
    double      one, three, prompt;
    mixed.experts = 5;
    mixed.top_k = 2;
    mixed.normalise = true;
    work.shape = &mixed;
    assert_int_equal(run(), COMMAND_OK);
    assert_has("| of the floor | experts of a layer |\n|---|---|---|---|---|---|---|\n");
    const char *line = strstr(output, "\n| decode | 1 | 70 | ");
    assert_non_null(line);
    assert_int_equal(sscanf(line, " | decode | 1 | 70 | %*f | %*f | %*f | %lf |", &one), 1);
    assert_true(one == 2);
    line = strstr(output, "\n| decode | 3 | 70 | ");
    assert_non_null(line);
    assert_int_equal(sscanf(line, " | decode | 3 | 70 | %*f | %*f | %*f | %lf |", &three), 1);
    assert_true(three > 2 && three <= 5);
    line = strstr(output, "\n| prefill | 1 | 20 | ");
    assert_non_null(line);
    assert_int_equal(sscanf(line, " | prefill | 1 | 20 | %*f | %*f | %*f | %lf |", &prompt), 1);
    assert_true(prompt == 5);
    settings.json = true;
    work.batches.count = 0;
    assert_int_equal(run(), COMMAND_OK);
    assert_has("\"experts\": 5\n");
}

/* Few rows of each expert, whose codes are multiplied, and many, for which all of them become 16 bits before. */
TEST(experts_of_e4m3)
{
    model_shape mixed = tiny;
    mixed.hidden = 128;
    mixed.experts = 2;
    mixed.top_k = 1;
    work.shape = &mixed;
    work.batches.count = 1;
    work.prompts = (bench_list){.count = 2, .value = {20, 140}};
    settings.weights = PTXPACK_E4M3;
    assert_int_equal(run(), COMMAND_OK);
    assert_has("tiny, bf16, weights of layers e4m3, pages of 64, seed 7\n");
    assert_has("\n| decode | 1 | 70 | ");
    assert_has("\n| prefill | 1 | 20 | ");
    assert_has("\n| prefill | 1 | 140 | ");
}

RUN_TESTS(NULL, NULL)
