/* serving.c - ptxpack bench serving: what an inference engine launches, each on one plan, beside its own baseline.
 *
 * decode   one query row, equal lengths: with the lengths in device memory and in pages, beside dense keys
 * mixed    one long sequence and short ones, beside as many keys in sequences of one length
 * packed   causal prompts of unequal lengths, beside dense prompts of one length that are as many tokens and as much work
 * chunks   few query rows of a long sequence, beside the same with all that the plan knows
 * append   new rows with rotary into pages, beside the same into a dense cache
 * merge    two partial results, beside a sum that reads as much as both
 * loop     steps of decoding on one plan and one captured graph with growing lengths, beside steps of one length */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend.h"
#include "serving.h"
#include "tools/command.h"
#include "tools/report.h"

enum { LAUNCHES = 10, REST_US = 50000, ROTATED = 300000000 };
enum { PROMPTS = 64, SEQUENCES = 256 };

static const serving_sizes sizes_of_all = {.heads_q = 32,
                                           .heads_kv = 8,
                                           .batch = 32,
                                           .keys = 4096,
                                           .long_keys = 65536,
                                           .short_keys = 1024,
                                           .short_count = 31,
                                           .shorter = 1,
                                           .chunk_queries = {64, 256, 512},
                                           .chunk_keys = {16384, 32768, 8192},
                                           .append_batch = {32, 128, 1, 8},
                                           .append_rows = {1, 1, 8192, 2048},
                                           .cached = 1024,
                                           .merge_rows = {32, 1024, 16384},
                                           .loop_batch = 32,
                                           .loop_keys = 2000,
                                           .loop_steps = 100};

/* What the functions below add cases to. */
typedef struct serving {
    bench_run           *run;
    const serving_sizes *sizes;
} serving;

/* ---- attention ------------------------------------------------------------------------------------------- */
typedef struct storage {
    const char  *name; /* NULL: the end */
    attend_store store;
    int32_t      page_rows;
} storage;

/* Adds the ways of `kinds` to store one problem; base -1: the first one is the base of the others.  Returns false with the
 * line set. */
static bool add_storages(serving *b, const char *part, const char *problem_name, attend_problem problem,
                         const storage *kinds, int base, bool flops)
{
    for (const storage *kind = kinds; kind->name != NULL; kind++) {
        char name[BENCH_NAME];
        problem.store = kind->store;
        problem.page_rows = kind->page_rows;
        snprintf(name, sizeof name, "%s: %s", problem_name, kind->name);
        int index = bench_add_attend(b->run, part, name, &problem, flops);
        if (index < 0)
            return false;
        if (base < 0)
            base = index;
        else
            b->run->cases[index].base = base;
    }
    return true;
}

static attend_problem problem_of(const serving *b, int32_t batch, const int32_t *queries, const int32_t *keys)
{
    return (attend_problem){.batch = batch,
                            .heads_q = b->sizes->heads_q,
                            .heads_kv = b->sizes->heads_kv,
                            .head_dim = b->run->head_dim,
                            .dtype = b->run->settings->dtype,
                            .queries = queries,
                            .keys = keys};
}

static void set_all(int32_t *values, int32_t count, int32_t value)
{
    for (int32_t i = 0; i < count; i++)
        values[i] = value;
}

static const storage in_pages[] = {{"pages of 128", STORE_PAGES, 128},
                                   {"pages of 16", STORE_PAGES, 16},
                                   {"pages of 1", STORE_PAGES, 1},
                                   {NULL, STORE_DENSE, 0}};

static bool add_decode(serving *b)
{
    static const storage dense[] = {{"dense", STORE_DENSE, 0},
                                    {"lengths", STORE_LENGTHS, 0},
                                    {NULL, STORE_DENSE, 0}};
    int32_t              queries[SEQUENCES], keys[SEQUENCES];
    char                 name[BENCH_NAME];
    const int            base = b->run->count;
    set_all(queries, b->sizes->batch, 1);
    set_all(keys, b->sizes->batch, b->sizes->keys);
    snprintf(name, sizeof name, "%d x %d keys", (int)b->sizes->batch, (int)b->sizes->keys);
    attend_problem problem = problem_of(b, b->sizes->batch, queries, keys);
    return add_storages(b, "decode", name, problem, dense, -1, false) &&
           add_storages(b, "decode", name, problem, in_pages, base, false);
}

static bool add_mixed(serving *b)
{
    static const storage dense[] = {{"dense", STORE_DENSE, 0}, {NULL, STORE_DENSE, 0}};
    static const storage packed[] = {{"packed", STORE_PACKED, 0}, {NULL, STORE_DENSE, 0}};
    const serving_sizes *z = b->sizes;
    const int32_t batch = z->short_count + 1, even = (z->long_keys + z->short_count * z->short_keys) / batch;
    const int     base = b->run->count;
    int32_t       queries[SEQUENCES], keys[SEQUENCES];
    char          name[BENCH_NAME];
    set_all(queries, batch, 1);
    set_all(keys, batch, even);
    snprintf(name, sizeof name, "%d x %d keys", (int)batch, (int)even);
    if (!add_storages(b, "mixed", name, problem_of(b, batch, queries, keys), dense, -1, false))
        return false;
    set_all(keys, batch, z->short_keys);
    keys[0] = z->long_keys;
    snprintf(name, sizeof name, "%d and %d x %d keys", (int)z->long_keys, (int)z->short_count,
             (int)z->short_keys);
    attend_problem problem = problem_of(b, batch, queries, keys);
    return add_storages(b, "mixed", name, problem, packed, base, false) &&
           add_storages(b, "mixed", name, problem, in_pages, base, false);
}

/* The prompts of a mix, as many as tools/bench/serving.py has, of lengths of the same ranges. */
static int32_t prompts_of(const serving *b, int mix, int32_t *lengths, const char **name)
{
    static const char *const names[SERVING_MIXES] = {"8 of 2048", "ten of 37 to 4100", "64 of 50 to 550",
                                                     "one of 8192 and 31 of 200"};
    static const int32_t counts[SERVING_MIXES] = {8, 10, 64, 32}, least[SERVING_MIXES] = {2048, 37, 50, 200},
                         most[SERVING_MIXES] = {2048, 4100, 550, 200};
    random_state random = random_start((uint64_t)b->run->settings->seed);
    for (int32_t i = 0; i < counts[mix]; i++) {
        int32_t length = least[mix] + (int32_t)random_below(&random, (uint64_t)(most[mix] - least[mix] + 1));
        length = (mix == 3 && i == 0 ? 8192 : length) / b->sizes->shorter;
        lengths[i] = length > 1 ? length : 1;
    }
    *name = names[mix];
    return counts[mix];
}

/* Dense prompts: as many tokens, and with lengths squared as much work. */
static bool add_dense_of(serving *b, const int32_t *lengths, int32_t count)
{
    static const storage dense[] = {{"dense", STORE_DENSE, 0}, {NULL, STORE_DENSE, 0}};
    double               tokens = 0, squares = 0;
    int32_t              even[PROMPTS];
    char                 name[BENCH_NAME];
    for (int32_t i = 0; i < count; i++) {
        tokens += lengths[i];
        squares += (double)lengths[i] * lengths[i];
    }
    int32_t batch = (int32_t)(tokens * tokens / squares + 0.5);
    batch = batch < 1 ? 1 : batch;
    const int32_t length = (int32_t)(tokens / batch + 0.5);
    set_all(even, batch, length);
    snprintf(name, sizeof name, "%d of %d", (int)batch, (int)length);
    attend_problem problem = problem_of(b, batch, even, even);
    problem.causal = true;
    return add_storages(b, "packed", name, problem, dense, -1, true);
}

static bool add_packed(serving *b)
{
    static const storage packed[] = {{"packed", STORE_PACKED, 0},
                                     {"keys in pages of 128", STORE_PAGES, 128},
                                     {"keys in pages of 16", STORE_PAGES, 16},
                                     {NULL, STORE_DENSE, 0}};
    int32_t              lengths[PROMPTS];
    for (int mix = 0; mix < SERVING_MIXES; mix++) {
        const char   *name;
        const int32_t count = prompts_of(b, mix, lengths, &name);
        const int     base = b->run->count;
        if (!add_dense_of(b, lengths, count))
            return false;
        attend_problem problem = problem_of(b, count, lengths, lengths);
        problem.causal = problem.packed = true;
        if (!add_storages(b, "packed", name, problem, packed, base, true))
            return false;
    }
    return true;
}

static bool add_chunks(serving *b)
{
    static const storage ways[] = {{"dense", STORE_DENSE, 0},
                                   {"lengths", STORE_LENGTHS, 0},
                                   {"pages of 128", STORE_PAGES, 128},
                                   {"pages of 16", STORE_PAGES, 16},
                                   {NULL, STORE_DENSE, 0}};
    for (int i = 0; i < SERVING_CHUNKS; i++) {
        char           name[BENCH_NAME];
        attend_problem problem = problem_of(b, 1, &b->sizes->chunk_queries[i], &b->sizes->chunk_keys[i]);
        problem.causal = true;
        snprintf(name, sizeof name, "%d rows, %d keys", (int)b->sizes->chunk_queries[i],
                 (int)b->sizes->chunk_keys[i]);
        if (!add_storages(b, "chunks", name, problem, ways, -1, true))
            return false;
    }
    return true;
}

/* ---- what is around attention ----------------------------------------------------------------------------- */
static bool add_append(serving *b)
{
    for (int i = 0; i < SERVING_APPENDS; i++) {
        const int dense = bench_add_append(b->run, b->sizes, i, 0);
        const int paged = dense < 0 ? -1 : bench_add_append(b->run, b->sizes, i, 16);
        if (paged < 0)
            return false;
        b->run->cases[paged].base = dense;
    }
    return true;
}

/* The reduction is described after the merge that it takes its size from, but stands before it in the table. */
static bool add_merge(serving *b)
{
    for (int i = 0; i < SERVING_MERGES; i++) {
        const int merge = bench_add_merge(b->run, b->sizes, b->sizes->merge_rows[i]);
        const int reduction = merge < 0 ? -1 : bench_add_reduction(b->run, merge);
        if (reduction < 0)
            return false;
        const bench_case described = b->run->cases[merge];
        b->run->cases[merge] = b->run->cases[reduction];
        b->run->cases[reduction] = described;
        b->run->cases[reduction].base = merge;
    }
    return true;
}

static bool add_loop(serving *b)
{
    const int fixed = bench_add_loop(b->run, b->sizes, 16, false);
    const int grows = fixed < 0 ? -1 : bench_add_loop(b->run, b->sizes, 16, true);
    if (grows >= 0)
        b->run->cases[grows].base = fixed;
    return grows >= 0;
}

static const struct {
    const char *name;
    bool (*add)(serving *b);
} parts[] = {{"decode", add_decode}, {"mixed", add_mixed}, {"packed", add_packed}, {"chunks", add_chunks},
             {"append", add_append}, {"merge", add_merge}, {"loop", add_loop}};
enum { PARTS = sizeof parts / sizeof parts[0] };

/* Whether a part is in the list of names, separated by commas; NULL: all are. */
static bool listed(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = list; at != NULL; at = strchr(at, ',') != NULL ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    return list == NULL;
}

bool serving_parts_known(const char *list)
{
    while (list != NULL) {
        const size_t length = strcspn(list, ",");
        int          i = 0;
        while (i < PARTS && (strlen(parts[i].name) != length || strncmp(parts[i].name, list, length) != 0))
            i++;
        if (i == PARTS) {
            command_fail("bench",
                         "--part: \"%.*s\" is not decode, mixed, packed, chunks, append, merge or loop",
                         (int)length, list);
            return false;
        }
        list = list[length] == ',' ? list + length + 1 : NULL;
    }
    return true;
}

/* ---- the table -------------------------------------------------------------------------------------------- */
static void add_line(report *r, bench_run *run, int index)
{
    const bench_case *c = &run->cases[index];
    const double      rate = bench_rate(run, index);
    report_open(r, NULL, '{');
    report_text(r, "part", "%s", c->part);
    report_text(r, "case", "%s", c->name);
    report_int(r, "head_dim", c->head_dim);
    report_real(r, "us", bench_us(run, index));
    report_real(r, c->flops ? "tflops" : "gb_per_s", rate);
    report_text(r, ".figure", "%.*f %s", rate < 10 ? 2 : 0, rate, c->flops ? "TFLOP/s" : "GB/s");
    report_text(r, ".ratio", "%s", "");
    if (c->base >= 0) {
        const double ratio = rate / bench_rate(run, c->base);
        report_text(r, "baseline", "%s", run->cases[c->base].name);
        report_real(r, "of_baseline", ratio);
        report_text(r, ".ratio", "%.2f", ratio);
    }
    report_text(r, "variant", "%s", c->kernel != NULL ? ptxpack_kernel_describe(c->kernel)->variant->id : "");
    report_line(r, "| {part} | {case} | {head_dim} | {us:.1f} | {figure} | {ratio} | {variant} |");
    report_close(r);
}

static int print_table(bench_run *run)
{
    const bench_settings *s = run->settings;
    report                r = {.items = NULL};
    if (s->json)
        json_open(NULL, '{');
    report_device(run->gpu, s->json);
    report_text(&r, "dtype", "%s", ptxpack_dtype_name(s->dtype));
    report_int(&r, "rounds", s->rounds);
    report_int(&r, "seed", s->seed);
    report_int(&r, "plans", run->plans_made);
    report_int(&r, "plans_after", run->plans - run->plans_made);
    report_line(&r, "{dtype}, median of {rounds} rounds, seed {seed}; a line without a ratio is the baseline "
                    "of those after it");
    report_line(&r, "{plans plan} were made before the first launch, {plans_after} after it\n");
    report_line(
        &r, "| part | case | d | us | figure | over its baseline | kernel |\n|---|---|---|---|---|---|---|");
    report_open(&r, "rows", '[');
    for (int i = 0; i < run->count; i++)
        add_line(&r, run, i);
    report_close(&r);
    int status = report_print(&r, "bench", s->json);
    if (s->json)
        json_close();
    return status;
}

/* ---- the benchmark ---------------------------------------------------------------------------------------- */
int serving_run(bench_run *run, const serving_sizes *sizes)
{
    const bench_settings *s = run->settings;
    serving               b = {run, sizes};
    for (int d = 0; d < s->head_dims.count; d++) {
        run->head_dim = s->head_dims.value[d];
        for (int i = 0; i < PARTS; i++)
            if (listed(s->part, parts[i].name) && !parts[i].add(&b))
                return command_fail("bench", "%s", run->gpu->line);
    }
    return bench_run_all(run) ? print_table(run) : command_fail("bench", "%s", run->gpu->line);
}

int bench_serving(const bench_settings *settings)
{
    device     gpu;
    bench_run *run = (bench_run *)calloc(1, sizeof *run);
    int        status = COMMAND_USAGE;
    if (run == NULL)
        return command_fail("bench", "no memory");
    *run = (bench_run){.gpu = &gpu,
                       .settings = settings,
                       .rotated = ROTATED,
                       .launches = LAUNCHES,
                       .rest_us = REST_US};
    if (serving_parts_known(settings->part)) {
        status = COMMAND_FAILED;
        if (!bench_open(&gpu, NULL)) {
            command_fail("bench", "%s", gpu.line);
        } else {
            status = serving_run(run, &sizes_of_all);
            bench_run_free(run);
            device_close(&gpu);
        }
    }
    free(run);
    return status;
}
