/* attention.c - attention forward as the FlashAttention papers measure it.
 *
 * Cases    16k tokens in all, hidden size 2048: batch = 16384 / seqlen, heads = 2048 / head_dim.  FLOPs    4
 * batch heads seqlen^2 head_dim, halved when causal; for a window, 4 head_dim for each pair that it keeps.
 * Timing   rounds.h: a CUDA graph of 10 launches over two inputs in turn, 50 ms of rest. */
#include <stdlib.h>
#include <string.h>

#include "tools/problem/attention_mask.h"
#include "bench.h"
#include "rounds.h"
#include "tools/command.h"
#include "tools/device.h"
#include "host/ptxpack.h"
#include "tools/problem/random.h"

enum { TOKENS = 16384, HIDDEN = 2048, LAUNCHES = 10, INPUTS = 2, TENSORS = 4, REST_US = 50000 };
static const size_t tensor_bytes = (size_t)TOKENS * HIDDEN * sizeof(uint16_t); /* fp8 uses only half of it */

typedef struct bench_case {
    ptxpack_attention_desc  desc;
    ptxpack_attention_plan *plan;
    uint64_t                workspace;
    double                  flops;
} bench_case;

typedef struct bench {
    device       gpu;
    bench_rounds timing;
    bench_case  *cases;
    size_t       count;
    uint64_t     tensor[INPUTS][TENSORS]; /* q, k, v, o */
    uint64_t     lse[INPUTS];
} bench;

/* ---- set-up ------------------------------------------------------------------------------------- */
static bool add_case(bench *b, const bench_settings *s, int32_t head_dim, int32_t length, bool causal)
{
    if (TOKENS % length != 0 || HIDDEN % head_dim != 0) {
        command_fail("bench", "seqlen %d must divide %d, head-dim %d must divide %d", (int)length, (int)TOKENS,
                     (int)head_dim, (int)HIDDEN);
        return false;
    }
    bench_case *c = &b->cases[b->count++];
    c->desc = s->masked;
    c->desc.size = sizeof c->desc;
    c->desc.dtype = s->dtype;
    c->desc.batch = TOKENS / length;
    c->desc.seqlen_q = c->desc.seqlen_kv = length;
    c->desc.heads_q = c->desc.heads_kv = HIDDEN / head_dim;
    c->desc.head_dim = head_dim;
    if (causal)
        c->desc.mask = PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT;
    bool window = s->masked.mask != PTXPACK_MASK_NONE;
    c->flops = window ? ptxpack_attention_flops(&c->desc) : 4.0 * TOKENS * HIDDEN * length * (causal ? 0.5 : 1);
    return true;
}

static bool make_cases(bench *b, const bench_settings *s)
{
    size_t most = (size_t)s->head_dims.count * (size_t)s->lengths.count * 2;
    b->cases = (bench_case *)calloc(most, sizeof *b->cases);
    if (b->cases == NULL)
        return command_fail("bench", "no memory for %zu cases", most), false;
    for (int d = 0; d < s->head_dims.count; d++)
        for (int causal = s->causal && !s->full; causal <= (int)s->causal; causal++)
            for (int l = 0; l < s->lengths.count; l++)
                if (!add_case(b, s, s->head_dims.value[d], s->lengths.value[l], causal))
                    return false;
    return true;
}

/* Fills a part of each tensor with random numbers and repeats it over the rest: timing needs no more. */
static bool make_tensors(bench *b, const bench_settings *s)
{
    enum { PART = 1 << 22 };
    random_state random = random_start((uint64_t)s->seed);
    size_t       bytes = PART * ptxpack_dtype_bytes(s->dtype);
    void        *part = malloc(bytes);
    bool         ok = part != NULL;
    for (int i = 0; i < INPUTS && ok; i++) {
        for (int t = 0; t < TENSORS && ok; t++) {
            random_normal(&random, s->dtype, part, PART);
            ok = device_alloc(&b->gpu, &b->tensor[i][t], tensor_bytes);
            for (size_t at = 0; at < tensor_bytes && ok; at += bytes)
                ok = device_upload(&b->gpu, b->tensor[i][t] + at, part, bytes);
        }
        ok = ok && device_alloc(&b->gpu, &b->lse[i], (size_t)TOKENS * HIDDEN / 8 * sizeof(float));
    }
    free(part);
    return ok;
}

/* Enqueues ten launches, one after the other. */
static bool enqueue(void *context, size_t index)
{
    bench            *b = (bench *)context;
    const bench_case *c = &b->cases[index];
    for (int n = 0; n < LAUNCHES; n++) {
        const uint64_t *t = b->tensor[n % INPUTS];
        /* clang-format off */
        const ptxpack_attention_buffers buffers = {
            .size = sizeof buffers, .q = t[0], .k = t[1], .v = t[2], .o = t[3], .lse = b->lse[n % INPUTS],
            .workspace = c->workspace,
        };
        /* clang-format on */
        if (!device_status(&b->gpu, ptxpack_attention_launch(c->plan, &buffers, b->gpu.stream)))
            return false;
    }
    return true;
}

static bool set_up(bench *b, const bench_settings *s)
{
    if (!make_tensors(b, s))
        return false;
    for (size_t i = 0; i < b->count; i++) {
        bench_case    *c = &b->cases[i];
        ptxpack_status status = ptxpack_attention_plan_create(b->gpu.handle, &c->desc, &c->plan);
        if (!device_status(&b->gpu, status) ||
            !device_alloc_zeros(&b->gpu, &c->workspace, ptxpack_attention_workspace(c->plan)))
            return false;
    }
    return true;
}

static void tear_down(bench *b)
{
    bench_rounds_free(&b->timing);
    for (size_t i = 0; i < b->count; i++) {
        device_free(&b->gpu, b->cases[i].workspace);
        ptxpack_attention_plan_free(b->cases[i].plan);
    }
    for (int i = 0; i < INPUTS; i++) {
        for (int t = 0; t < TENSORS; t++)
            device_free(&b->gpu, b->tensor[i][t]);
        device_free(&b->gpu, b->lse[i]);
    }
    free(b->cases);
    device_close(&b->gpu);
}

/* ---- the rounds --------------------------------------------------------------------------------- */
static bool run_rounds(bench *b, const bench_settings *s)
{
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

static void print_table(bench *b, const bench_settings *s)
{
    report r = {.items = NULL};
    if (s->json)
        json_open(NULL, '{');
    report_device(&b->gpu, s->json);
    report_text(&r, "dtype", "%s", ptxpack_dtype_name(s->dtype));
    report_int(&r, "rounds", s->rounds);
    report_int(&r, "seed", s->seed);
    report_line(&r, "{dtype}, TFLOP/s, median of {rounds} rounds, seed {seed}\n");
    report_line(&r, "| d | mask | s | ptxpack | ms | kernel |\n|---|---|---|---|---|---|");
    report_open(&r, "rows", '[');
    for (size_t i = 0; i < b->count; i++) {
        bench_case *c = &b->cases[i];
        double      ms = bench_rounds_ms(&b->timing, i);
        report_open(&r, NULL, '{');
        report_int(&r, "head_dim", c->desc.head_dim);
        report_bool(&r, "causal", c->desc.mask == PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT);
        attention_mask_report(&r, &c->desc);
        report_int(&r, "seqlen", c->desc.seqlen_q);
        report_real(&r, "tflops", c->flops / ms * 1e-9);
        report_real(&r, "ms", ms);
        report_text(&r, "variant", "%s",
                    ptxpack_kernel_describe(ptxpack_attention_kernel(c->plan))->variant->id);
        report_line(&r, "| {head_dim} | {mask_name} | {seqlen} | {tflops:.0f} | {ms:.4f} | {variant} |");
        report_close(&r);
    }
    report_close(&r);
    report_print(&r, "bench", s->json);
    if (s->json)
        json_close();
}

int bench_attention(const bench_settings *s)
{
    bench b = {.count = 0};
    int   status = COMMAND_OK;
    if (!make_cases(&b, s))
        status = COMMAND_USAGE;
    else if (!bench_open(&b.gpu, NULL) || !set_up(&b, s) || !run_rounds(&b, s))
        status = command_fail("bench", "%s", b.gpu.line);
    else
        print_table(&b, s);
    tear_down(&b);
    return status;
}
