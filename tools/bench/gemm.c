/* gemm.c - D = A B of square matrices, in each order of A and B (of e4m3 in the one that there is), on the chosen row or on
 * every one.
 *
 * FLOPs    2 m n k
 * Timing   rounds.h: a graph of 10 launches over two sets of matrices in turn, 50 ms of rest. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "rounds.h"
#include "tools/command.h"
#include "tools/device.h"
#include "host/gemm/inspect.h"
#include "host/ptxpack.h"
#include "tools/problem/gemm_problem.h"
#include "tools/problem/random.h"

enum { LAUNCHES = 10, INPUTS = 2, REST_US = 50000, CASES = 256, D = 2, OPERANDS /* a, b, d */ };

typedef struct bench_case {
    ptxpack_gemm_desc  desc;
    ptxpack_gemm_plan *plan;
    uint64_t           workspace;
} bench_case;

typedef struct bench {
    device       gpu;
    bench_rounds timing;
    bench_case   cases[CASES];
    size_t       count;
    uint64_t     matrix[INPUTS][OPERANDS]; /* of the size of the largest problem */
    uint64_t     scales;                   /* of A and of B */
} bench;

/* ---- set-up ------------------------------------------------------------------------------------- */
static const char *order_name(ptxpack_order order) { return order == PTXPACK_ROW_MAJOR ? "row" : "column"; }

/* Adds a plan on this row; NULL: on the chosen one.  With "all", a row that does not cover the problem is
 * omitted. */
static bool add_case(bench *b, const bench_settings *s, const ptxpack_gemm_desc *desc,
                     const ptxpack_variant *row)
{
    char        why[PLAN_LINE];
    bench_case *c = &b->cases[b->count];
    bool        all = s->kernel != NULL && strcmp(s->kernel, "all") == 0;
    if (all && plan_row_refusal(&gemm_op, b->gpu.handle, NULL, desc, row, why) != NULL)
        return true;
    if (b->count == CASES)
        return command_fail("bench", "more than %d cases", (int)CASES), false;
    c->desc = *desc;
    b->count++;
    return device_status(&b->gpu, ptxpack_gemm_plan_row(b->gpu.handle, desc, row, &c->plan)) &&
           device_alloc_zeros(&b->gpu, &c->workspace, ptxpack_gemm_workspace(c->plan));
}

/* Adds the rows that were asked for, for one problem. */
static bool add_rows(bench *b, const bench_settings *s, const ptxpack_gemm_desc *desc)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    if (s->kernel == NULL)
        return add_case(b, s, desc, NULL);
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].op, "gemm") == 0 &&
            (strcmp(s->kernel, "all") == 0 || strcmp(s->kernel, rows[i].id) == 0) &&
            !add_case(b, s, desc, &rows[i]))
            return false;
    return true;
}

static bool make_cases(bench *b, const bench_settings *s)
{
    bench_list sizes = s->sizes;
    for (int32_t size = 1024; s->sizes.count == 0 && size <= 8192; size *= 2)
        sizes.value[sizes.count++] = size;
    for (int i = 0; i < sizes.count; i++)
        for (int orders = 0; orders < 4; orders++) {
            const int32_t           size = sizes.value[i];
            const ptxpack_gemm_desc desc = {.size = sizeof desc,
                                            .dtype = s->dtype,
                                            .m = size,
                                            .n = size,
                                            .k = size,
                                            .order_a = orders & 2 ? PTXPACK_COLUMN_MAJOR : PTXPACK_ROW_MAJOR,
                                            .order_b = orders & 1 ? PTXPACK_ROW_MAJOR : PTXPACK_COLUMN_MAJOR,
                                            .dtype_ab = s->dtype_ab,
                                            .scales = s->scales};
            if (orders > 0 && s->dtype_ab == PTXPACK_E4M3)
                break; /* the first ones are those of e4m3 */
            if (!add_rows(b, s, &desc))
                return false;
        }
    return true;
}

enum { PART = 1 << 20 /* elements that are drawn */ };

/* Repeats drawn elements over an array of at least one. */
static bool make_array(bench *b, uint64_t *at, const void *part, size_t element, size_t elements)
{
    bool ok = device_alloc(&b->gpu, at, elements * element);
    for (size_t done = 0; done < elements && ok; done += PART) {
        size_t count = elements - done < PART ? elements - done : PART;
        ok = device_upload(&b->gpu, *at + done * element, part, count * element);
    }
    return ok;
}

/* Draws a part of each array: timing needs no more.  Of scales there are never more than elements. */
static bool make_matrices(bench *b, const bench_settings *s)
{
    const ptxpack_dtype operands = s->dtype_ab != 0 ? s->dtype_ab : s->dtype;
    random_state        random = random_start((uint64_t)s->seed);
    size_t              most = 0;
    float              *part = (float *)malloc(PART * sizeof *part);
    bool                ok = part != NULL;
    for (size_t i = 0; i < b->count; i++) {
        size_t elements = (size_t)b->cases[i].desc.m * (size_t)b->cases[i].desc.m;
        most = elements > most ? elements : most;
    }
    for (int i = 0; i < INPUTS * OPERANDS && ok; i++) {
        const ptxpack_dtype type = i % OPERANDS == D ? s->dtype : operands;
        random_normal(&random, type, part, PART);
        ok = make_array(b, &b->matrix[i / OPERANDS][i % OPERANDS], part, ptxpack_dtype_bytes(type), most);
    }
    if (ok && s->dtype_ab == PTXPACK_E4M3) {
        random_scales(&random, part, PART);
        ok = make_array(b, &b->scales, part, sizeof *part, most);
    }
    free(part);
    return ok;
}

static bool enqueue(void *context, size_t index)
{
    bench            *b = (bench *)context;
    const bench_case *c = &b->cases[index];
    for (int n = 0; n < b->timing.launches; n++) {
        const uint64_t            *x = b->matrix[n % INPUTS];
        const ptxpack_gemm_buffers buffers = {.size = sizeof buffers,
                                              .alpha = 1,
                                              .a = x[0],
                                              .b = x[1],
                                              .d = x[D],
                                              .workspace = c->workspace,
                                              .scale_a = b->scales,
                                              .scale_b = b->scales};
        if (!device_status(&b->gpu, ptxpack_gemm_launch(c->plan, &buffers, b->gpu.stream)))
            return false;
    }
    return true;
}

/* ---- the table ------------------------------------------------------------------------------------ */
static void open_table(bench *b, const bench_settings *s)
{
    report_device(&b->gpu, s->json);
    if (s->json) {
        json_text("dtype", ptxpack_dtype_name(s->dtype));
        if (s->dtype_ab != 0) {
            json_text("dtype_ab", ptxpack_dtype_name(s->dtype_ab));
            json_text("scales", gemm_scales_name(s->scales));
        }
        json_int("rounds", b->timing.rounds);
        json_int("seed", s->seed);
        json_open("rows", '[');
    } else {
        if (s->dtype_ab != 0)
            printf("A and B %s (scales: %s), D ", ptxpack_dtype_name(s->dtype_ab), gemm_scales_name(s->scales));
        printf(
            "%s, TFLOP/s, median of %lld rounds, seed %lld\n\n| m = n = k | A | B | ptxpack | ms | kernel |\n"
            "|---|---|---|---|---|---|\n",
            ptxpack_dtype_name(s->dtype), (long long)b->timing.rounds, (long long)s->seed);
    }
}

static void print_row(bench *b, const bench_settings *s, size_t index)
{
    const ptxpack_gemm_desc *d = &b->cases[index].desc;
    double                   ms = bench_rounds_ms(&b->timing, index);
    double                   tflops = 2.0 * d->m * d->n * d->k / ms * 1e-9;
    const char *id = ptxpack_kernel_describe(ptxpack_gemm_kernel(b->cases[index].plan))->variant->id;
    if (s->json) {
        json_open(NULL, '{');
        json_int("size", d->m);
        json_text("order_a", order_name(d->order_a));
        json_text("order_b", order_name(d->order_b));
        json_real("tflops", tflops);
        json_real("ms", ms);
        json_text("variant", id);
        json_close();
    } else {
        printf("| %d | %s | %s | %.*f | %.4f | %s |\n", (int)d->m, order_name(d->order_a),
               order_name(d->order_b), tflops < 10 ? 4 : 0, tflops, ms, id);
    }
}

static void print_table(bench *b, const bench_settings *s)
{
    if (s->json)
        json_open(NULL, '{');
    open_table(b, s);
    for (size_t i = 0; i < b->count; i++)
        print_row(b, s, i);
    if (s->json) {
        json_close();
        json_close();
    }
}

/* ---- the benchmark -------------------------------------------------------------------------------------- */
static bool known_kernel(const char *name)
{
    const ptxpack_variant *row = ptxpack_variant_find(name);
    return strcmp(name, "all") == 0 || (row != NULL && strcmp(row->op, "gemm") == 0);
}

static bool run(bench *b, const bench_settings *s)
{
    if (!make_cases(b, s) || !make_matrices(b, s))
        return false;
    b->timing = (bench_rounds){.gpu = &b->gpu,
                               .count = b->count,
                               .rounds = s->rounds,
                               .seed = (uint64_t)s->seed,
                               .launches = LAUNCHES,
                               .rest_us = REST_US,
                               .enqueue = enqueue,
                               .context = b};
    return bench_rounds_run(&b->timing);
}

static void tear_down(bench *b)
{
    bench_rounds_free(&b->timing);
    for (size_t i = 0; i < b->count; i++) {
        device_free(&b->gpu, b->cases[i].workspace);
        ptxpack_gemm_plan_free(b->cases[i].plan);
    }
    for (int i = 0; i < INPUTS * OPERANDS; i++)
        device_free(&b->gpu, b->matrix[i / OPERANDS][i % OPERANDS]);
    device_free(&b->gpu, b->scales);
    device_close(&b->gpu);
}

int bench_gemm(const bench_settings *s)
{
    bench *b = (bench *)calloc(1, sizeof *b);
    int    status = COMMAND_OK;
    if (b == NULL)
        return command_fail("bench", "no memory");
    if (s->dtype == PTXPACK_E4M3) {
        command_fail("bench", "--dtype: gemm is f16 or bf16; --dtype-ab e4m3");
        status = COMMAND_USAGE;
    } else if (s->kernel != NULL && !known_kernel(s->kernel)) {
        command_fail("bench", "--kernel: \"%s\" is no gemm kernel", s->kernel);
        status = COMMAND_USAGE;
    } else if (!bench_open(&b->gpu, NULL) || !run(b, s)) {
        status = command_fail("bench", "%s", b->gpu.line);
    } else {
        print_table(b, s);
    }
    tear_down(b);
    free(b);
    return status;
}
