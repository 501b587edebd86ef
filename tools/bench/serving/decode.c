/* decode.c - ptxpack bench decode: few query rows and many keys, beside a sum that only reads K and V.
 *
 * Memory   K and V rotate between so many sets of inputs that no launch finds them in the L2 cache (run.h).
 * Roof     The reduction of a row reads as many bytes; the floor of a row is the time that its K and V take at the speed of
 *          a reduction over the K and V of all inputs, in the same rounds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend.h"
#include "serving.h"
#include "tools/command.h"
#include "tools/report.h"

enum { LAUNCHES = 10, REST_US = 50000, ROTATED = 300000000 };

/* The rows of tools/bench/decode.py. */
static const decode_shape rows_of_all[] = {{1, 64, 8, 1024},   {1, 64, 8, 8192},   {1, 32, 8, 8192},
                                           {1, 32, 8, 131072}, {4, 32, 8, 4096},   {8, 64, 8, 8192},
                                           {16, 32, 8, 1024},  {32, 32, 8, 2048},  {32, 64, 8, 8192},
                                           {64, 32, 8, 4096},  {128, 32, 8, 4096}, {16, 32, 32, 4096},
                                           {128, 32, 8, 512},  {8, 16, 1, 8192}};

enum { ROWS = sizeof rows_of_all / sizeof rows_of_all[0] };

bool decode_rows_known(const bench_list *rows, int count)
{
    for (int i = 0; i < rows->count; i++)
        if (rows->value[i] > count)
            return command_fail("bench", "--rows: there is no row %d; the table has %d", (int)rows->value[i],
                                count),
                   false;
    return true;
}

/* ---- the cases: an attention and a reduction for each row, and one reduction over everything -------------- */
static bool add_row(bench_run *run, const decode_shape *shape)
{
    char           name[BENCH_NAME];
    const int32_t  queries = (int32_t)run->settings->queries;
    int32_t       *lengths = (int32_t *)malloc(2 * (size_t)shape->batch * sizeof *lengths);
    attend_problem problem = {.batch = shape->batch,
                              .heads_q = shape->heads_q,
                              .heads_kv = shape->heads_kv,
                              .head_dim = run->head_dim,
                              .dtype = run->settings->dtype,
                              .kv_dtype = run->settings->kv_dtype,
                              .queries = lengths,
                              .keys = lengths + shape->batch,
                              .causal = queries > 1};
    if (lengths == NULL) {
        snprintf(run->gpu->line, sizeof run->gpu->line, "no memory");
        return false;
    }
    for (int32_t i = 0; i < shape->batch; i++) {
        lengths[i] = queries;
        lengths[shape->batch + i] = shape->keys;
    }
    snprintf(name, sizeof name, "%d, %d, %d, %d of head dimension %d", (int)shape->batch, (int)shape->heads_q,
             (int)shape->heads_kv, (int)shape->keys, (int)run->head_dim);
    int attend = bench_add_attend(run, "decode", name, &problem, false);
    free(lengths);
    int reduction = attend < 0 ? -1 : bench_add_reduction(run, attend);
    if (reduction >= 0)
        run->cases[attend].base = reduction;
    return reduction >= 0;
}

/* The last case: a sum over the K and V of the case whose sets are largest together. */
static bool add_roof(bench_run *run)
{
    int    largest = 0;
    size_t most = 0;
    for (int i = 0; i < run->count; i++) {
        size_t bytes = run->cases[i].bytes[ARENA_K] * (size_t)run->cases[i].sets;
        if (bytes > most) {
            most = bytes;
            largest = i;
        }
    }
    const int index = bench_add_reduction(run, largest);
    if (index < 0)
        return false;
    bench_case *roof = &run->cases[index];
    roof->bytes[ARENA_K] = roof->bytes[ARENA_V] = most;
    roof->work = 2.0 * (double)(most / 16 * 16);
    roof->sets = 1;
    roof->launches = 2;
    return true;
}

static int make_cases(bench_run *run, const decode_shape *shapes, int count)
{
    const bench_settings *s = run->settings;
    for (int d = 0; d < s->head_dims.count; d++) {
        run->head_dim = s->head_dims.value[d];
        for (int i = 0; i < (s->table_rows.count > 0 ? s->table_rows.count : count); i++)
            if (!add_row(run, &shapes[s->table_rows.count > 0 ? s->table_rows.value[i] - 1 : i]))
                return command_fail("bench", "%s", run->gpu->line);
    }
    return add_roof(run) ? COMMAND_OK : command_fail("bench", "%s", run->gpu->line);
}

/* ---- the table -------------------------------------------------------------------------------------------- */
static void add_line(report *r, bench_run *run, int index, double roof)
{
    const bench_case             *c = &run->cases[index];
    const ptxpack_attention_desc *d = &((const attend_state *)c->state)->desc;
    report_open(r, NULL, '{');
    report_int(r, "batch", d->batch);
    report_int(r, "heads_q", d->heads_q);
    report_int(r, "heads_kv", d->heads_kv);
    report_int(r, "keys", d->seqlen_kv);
    report_int(r, "head_dim", d->head_dim);
    report_real(r, "us", bench_us(run, index));
    report_real(r, "gb_per_s", bench_rate(run, index));
    report_real(r, "reduction_us", bench_us(run, c->base));
    report_real(r, "reduction_gb_per_s", bench_rate(run, c->base));
    report_real(r, "of_reduction", bench_rate(run, index) / bench_rate(run, c->base));
    report_real(r, "floor_us", c->work / roof * 1e-3);
    report_text(r, "variant", "%s", ptxpack_kernel_describe(c->kernel)->variant->id);
    report_line(
        r, "| {batch}, {heads_q}, {heads_kv}, {keys} | {head_dim} | {us:.1f} | {gb_per_s:.0f} | "
           "{reduction_us:.1f} ({reduction_gb_per_s:.0f}) | {of_reduction:.2f} | {floor_us:.1f} | {variant} |");
    report_close(r);
}

static int print_table(bench_run *run)
{
    const bench_settings *s = run->settings;
    const double          roof = bench_rate(run, run->count - 1);
    report                r = {.items = NULL};
    if (s->json)
        json_open(NULL, '{');
    report_device(run->gpu, s->json);
    report_text(&r, "dtype", "%s", ptxpack_dtype_name(s->dtype));
    report_text(&r, "kv_dtype", "%s", ptxpack_dtype_name(s->kv_dtype != 0 ? s->kv_dtype : s->dtype));
    report_text(&r, "types", "%s%s%s", ptxpack_dtype_name(s->dtype), s->kv_dtype != 0 ? ", K and V of " : "",
                s->kv_dtype != 0 ? ptxpack_dtype_name(s->kv_dtype) : "");
    report_int(&r, "queries", s->queries);
    report_int(&r, "rounds", s->rounds);
    report_int(&r, "seed", s->seed);
    report_real(&r, "roof_gb_per_s", roof);
    report_line(
        &r,
        "{types}, {queries query row}, GB/s of K and V, median of {rounds} rounds, seed {seed}; a sum over all "
        "inputs reads {roof_gb_per_s:.0f} GB/s\n");
    report_line(&r, "| batch, heads, key heads, keys | d | us | GB/s | reduction, us (GB/s) | of it | floor, "
                    "us | kernel |\n"
                    "|---|---|---|---|---|---|---|---|");
    report_open(&r, "rows", '[');
    for (int i = 0; i < run->count; i++)
        if (run->cases[i].base >= 0)
            add_line(&r, run, i, roof);
    report_close(&r);
    int status = report_print(&r, "bench", s->json);
    if (s->json)
        json_close();
    return status;
}

int decode_run(bench_run *run, const decode_shape *shapes, int count)
{
    int status = make_cases(run, shapes, count);
    if (status != COMMAND_OK)
        return status;
    return bench_run_all(run) ? print_table(run) : command_fail("bench", "%s", run->gpu->line);
}

int bench_decode(const bench_settings *settings)
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
    if (decode_rows_known(&settings->table_rows, ROWS)) {
        status = COMMAND_FAILED;
        if (!bench_open(&gpu, NULL)) {
            command_fail("bench", "%s", gpu.line);
        } else {
            status = decode_run(run, rows_of_all, ROWS);
            bench_run_free(run);
            device_close(&gpu);
        }
    }
    free(run);
    return status;
}
