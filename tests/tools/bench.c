/* bench.c - the benchmarks of decoding and serving on small problems and the emulated driver: what they allocate, launch,
 * check and print; that a wrong result is found; what the options refuse is in tests/golden/command.txt.
 *
 * The times are not looked at.  The library's own commands refuse the emulated driver for benchmarks. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/support/scratch.h"
#include "tests/support/unit.h"
#include "tools/bench/serving/attend.h"
#include "tools/bench/serving/serving.h"
#include "tools/command.h"
#include "tools/progress.h"

#define BEFORE_EACH open_gpu
#define AFTER_EACH  close_gpu

static device         gpu;
static bench_settings settings;
static bench_run     *run;
static char           output[1 << 16], errors[1 << 12];

static int open_gpu(void **state)
{
    (void)state;
    progress_every(1000000); /* stderr has only errors, however slow the machine is */
    assert_int_equal(device_open_as(&gpu, "emu", NULL), PTXPACK_OK);
    settings = (bench_settings){.rounds = 1,
                                .seed = 7,
                                .queries = 1,
                                .dtype = PTXPACK_BF16,
                                .head_dims = {.count = 1, .value = {64}}};
    run = (bench_run *)calloc(1, sizeof *run);
    assert_non_null(run);
    *run = (bench_run){.gpu = &gpu,
                       .settings = &settings,
                       .rotated = 1,
                       .launches = 2,
                       .rest_us = 0,
                       .head_dim = 64};
    return 0;
}

static int close_gpu(void **state)
{
    (void)state;
    bench_run_free(run);
    free(run);
    device_close(&gpu);
    return 0;
}

/* ---- what is printed --------------------------------------------------------------------------------------- */
static int saved[2];

static void redirect(void)
{
    for (int stream = 1; stream <= 2; stream++) {
        fflush(stream == 1 ? stdout : stderr);
        saved[stream - 1] = dup(stream);
        int file = open(scratch_path(stream == 1 ? "out" : "err"), O_RDWR | O_CREAT | O_TRUNC, 0600);
        assert_true(file >= 0);
        dup2(file, stream);
        close(file);
    }
}

static void collect(int stream, char *to, size_t cap)
{
    fflush(stream == 1 ? stdout : stderr);
    lseek(stream, 0, SEEK_SET);
    ssize_t got = read(stream, to, cap - 1);
    to[got > 0 ? got : 0] = '\0';
    dup2(saved[stream - 1], stream);
    close(saved[stream - 1]);
}

static void restore(void)
{
    collect(1, output, sizeof output);
    collect(2, errors, sizeof errors);
}

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;
    for (; (text = strstr(text, part)) != NULL; text += strlen(part))
        count++;
    return count;
}

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("no \"%s\" in: %s", part, text);
}

/* ---- decode ------------------------------------------------------------------------------------------------- */
static const decode_shape small[] = {{1, 8, 2, 100}, {3, 4, 4, 70}, {2, 16, 1, 33}};

static int decode(void)
{
    redirect();
    int status = decode_run(run, small, 3);
    restore();
    return status;
}

TEST(decode_prints_a_line_for_each_row)
{
    if (decode() != COMMAND_OK)
        fail_msg("%s%s", errors, output);
    assert_string_equal(errors, "");
    assert_has(output,
               "bf16, 1 query row, GB/s of K and V, median of 1 rounds, seed 7; a sum over all inputs reads ");
    assert_has(output, "\n| batch, heads, key heads, keys | d | us | GB/s | reduction, us (GB/s) | of it | "
                       "floor, us | kernel |");
    assert_has(output, "\n| 1, 8, 2, 100 | 64 | ");
    assert_has(output, "\n| 3, 4, 4, 70 | 64 | ");
    assert_has(output, "\n| 2, 16, 1, 33 | 64 | ");
    assert_int_equal(count_of(output, " | attention_decode_"), 3);
}

TEST(decode_takes_keys_of_bytes)
{
    settings.kv_dtype = PTXPACK_E4M3;
    if (decode() != COMMAND_OK)
        fail_msg("%s", errors);
    assert_has(output, "bf16, K and V of e4m3, 1 query row, ");
    assert_int_equal(count_of(output, "_bytes_d64_"), 3);
}

TEST(decode_takes_keys_of_blocks)
{
    settings.kv_dtype = PTXPACK_Q8_0;
    if (decode() != COMMAND_OK)
        fail_msg("%s", errors);
    assert_has(output, "bf16, K and V of q8_0, 1 query row, ");
    assert_int_equal(count_of(output, "_q8_0_d64_"), 3);
}

TEST(decode_takes_rows_and_queries_and_prints_json)
{
    settings.json = true;
    settings.queries = 3;
    settings.dtype = PTXPACK_F16;
    settings.table_rows = (bench_list){.count = 1, .value = {2}};
    if (decode() != COMMAND_OK)
        fail_msg("%s%s", errors, output);
    assert_has(output, "\"dtype\": \"f16\"");
    assert_has(output, "\"queries\": 3");
    assert_has(output, "\"roof_gb_per_s\": ");
    assert_has(output, "\"batch\": 3");
    assert_has(output, "\"of_reduction\": ");
    assert_has(output, "\"floor_us\": ");
    assert_int_equal(count_of(output, "\"variant\": "), 1);
}

/* The bytes of all sets are at least those that were asked for, and there are two sets at least. */
TEST(sets_of_inputs_are_beyond_the_cache)
{
    bench_case c = {.sets = 0};
    run->rotated = 1000;
    run->launches = 10;
    bench_rotate(run, &c, 100);
    assert_int_equal(c.sets, 11);
    assert_int_equal(c.launches, 11);
    bench_rotate(run, &c, 5000);
    assert_int_equal(c.sets, 2);
    assert_int_equal(c.launches, 10);
}

TEST(too_much_memory_is_one_line)
{
    static const decode_shape huge = {4096, 128, 128, 1 << 17};
    redirect();
    int status = decode_run(run, &huge, 1);
    restore();
    assert_int_equal(status, COMMAND_FAILED);
    assert_has(errors, "ptxpack bench: the inputs take ");
    assert_has(errors, " GB of device memory, of which ");
    assert_int_equal(count_of(errors, "\n"), 1);
    assert_string_equal(output, "");
}

/* It names the row, which --rows can leave out. */
TEST(what_no_kernel_covers_is_one_line)
{
    settings.head_dims.value[0] = 100;
    assert_int_equal(decode(), COMMAND_FAILED);
    assert_has(errors, "ptxpack bench: decode, 1, 8, 2, 100 of head dimension 100: ");
    assert_has(errors, "head_dim");
    assert_int_equal(count_of(errors, "\n"), 1);
    assert_string_equal(output, "");
}

/* ---- serving ------------------------------------------------------------------------------------------------ */
static const serving_sizes sizes = {.heads_q = 4,
                                    .heads_kv = 2,
                                    .batch = 3,
                                    .keys = 150,
                                    .long_keys = 300,
                                    .short_keys = 20,
                                    .short_count = 3,
                                    .shorter = 200,
                                    .chunk_queries = {7, 20, 33},
                                    .chunk_keys = {130, 90, 33},
                                    .append_batch = {3, 5, 1, 2},
                                    .append_rows = {1, 1, 20, 9},
                                    .cached = 10,
                                    .merge_rows = {3, 5, 9},
                                    .loop_batch = 3,
                                    .loop_keys = 13,
                                    .loop_steps = 5};

TEST(serving_prints_a_line_for_each_case)
{
    redirect();
    int status = serving_run(run, &sizes);
    restore();
    if (status != COMMAND_OK)
        fail_msg("%s%s", errors, output);
    assert_string_equal(errors, "");
    assert_int_equal(count_of(output, "\n| decode | 3 x 150 keys: "), 5);
    assert_int_equal(count_of(output, "\n| mixed | "), 5);
    assert_int_equal(count_of(output, "\n| packed | "), 16);
    assert_int_equal(count_of(output, "\n| chunks | "), 12);
    assert_int_equal(count_of(output, "\n| append | "), 8);
    assert_int_equal(count_of(output, "\n| merge | "), 6);
    assert_int_equal(count_of(output, "\n| loop | "), 2);
    assert_has(output, " plans were made before the first launch, 0 after it\n");
}

TEST(serving_takes_parts_and_prints_json)
{
    settings.json = true;
    settings.part = "merge,append";
    settings.dtype = PTXPACK_F16;
    redirect();
    int status = serving_run(run, &sizes);
    restore();
    if (status != COMMAND_OK)
        fail_msg("%s%s", errors, output);
    assert_int_equal(count_of(output, "\"part\": \"merge\""), 6);
    assert_int_equal(count_of(output, "\"part\": \"append\""), 8);
    assert_int_equal(count_of(output, "\"part\": "), 14);
    assert_int_equal(count_of(output, "\"of_baseline\": "), 7);
}

/* ---- wrong results ------------------------------------------------------------------------------------------ */
/* What the check of a case looks at, changed after a launch that was right. */
TEST(a_wrong_row_of_attention_is_found)
{
    static const int32_t queries[] = {1, 1}, keys[] = {40, 61};
    const attend_problem problem = {.batch = 2,
                                    .heads_q = 4,
                                    .heads_kv = 2,
                                    .head_dim = 64,
                                    .dtype = PTXPACK_BF16,
                                    .queries = queries,
                                    .keys = keys,
                                    .store = STORE_PAGES,
                                    .page_rows = 8};
    int                  index = bench_add_attend(run, "test", "paged", &problem, false);
    assert_int_equal(index, 0);
    assert_true(bench_run_all(run));
    bench_case         *c = &run->cases[index];
    const attend_state *s = (const attend_state *)c->state;
    assert_true(attend_compare(run, c, s, 0, 1, 0, 3));
    const uint64_t row = bench_at(run, c, ARENA_O, 0) + (uint64_t)(7 * 64 * 2); /* sequence 1, head 3 */
    uint16_t       bits, wrong = 0x4040;
    assert_true(device_download(&gpu, &bits, row + 20, sizeof bits) &&
                device_upload(&gpu, row + 20, &wrong, 2));
    assert_false(attend_compare(run, c, s, 0, 1, 0, 3));
    assert_has(gpu.line, "test, paged: wrong: sequence 1, row 0, head 3 differs by ");
    assert_true(device_upload(&gpu, row + 20, &bits, 2));
    assert_true(attend_compare(run, c, s, 0, 1, 0, 3));
    /* another page than the launch read */
    int32_t *table = s->table + s->desc.table_width, page = table[0];
    table[0] = s->table[0];
    assert_false(attend_compare(run, c, s, 0, 1, 0, 3));
    table[0] = page;
}

/* A pack whose kernel subtracts where it must add: the command's line, and status 1. */
TEST(a_wrong_kernel_is_status_1_and_one_line)
{
    static const decode_shape one = {1, 8, 2, 100};
    char                      line[16384];
    ptxpack_options           options = {.size = sizeof options, .no_cache = true};
    int                       bytes = snprintf(
                              line, sizeof line,
                              "cp -r ptx %s/pack && sed -i '/^        add.u32 .*, %%sum, %%x/s/add/sub/' %s/pack/probe/reduce.ptx",
                              scratch_folder, scratch_folder);
    assert_in_range(bytes, 1, sizeof line - 1);
    assert_int_equal(system(line), 0);
    options.ptx_dir = scratch_path("pack");
    device_close(&gpu);
    assert_int_equal(device_open_as(&gpu, "emu", &options), PTXPACK_OK);
    redirect();
    int status = decode_run(run, &one, 1);
    restore();
    assert_int_equal(status, COMMAND_FAILED);
    assert_has(errors, "ptxpack bench: decode, reduction of 0 MB: the sum of ");
    assert_int_equal(count_of(errors, "\n"), 1);
    assert_string_equal(output, "");
}

RUN_TESTS(scratch_open, scratch_close)
