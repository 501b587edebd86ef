/* attention_wgmma.c - every row of ptx/attention/wgmma.ptx on the emulated GPU: problems of random lengths,
 * heads and masks run twice on three SMs, so that a block has several tiles, and some tiles see no key at all.
 * The emulated driver finds waits that never end, and races; the values are verified.
 *
 *   attention_wgmma [SEED [PROBLEMS a row]] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "host/attention/inspect.h"
#include "tools/problem/attention_problem.h"
#include "tools/command.h"
#include "tools/device.h"
#include "tools/problem/random.h"
#include "tools/problem/verify.h"

enum { PROBLEMS = 8, COMPARED = 64 /* rows of a problem */ };

static int64_t pick(random_state *random, int64_t least, int64_t most)
{
    return least + (int64_t)random_below(random, (uint64_t)(most - least + 1));
}

/* Lengths on both sides of a few blocks; limits that leave tiles, warpgroups or rows without any key. */
static void draw_mask(random_state *random, ptxpack_attention_desc *d)
{
    d->mask = (ptxpack_mask)pick(random, PTXPACK_MASK_NONE, PTXPACK_MASK_WINDOW_BOTTOM_RIGHT);
    if (d->mask != PTXPACK_MASK_WINDOW_TOP_LEFT && d->mask != PTXPACK_MASK_WINDOW_BOTTOM_RIGHT)
        return;
    d->window_left = (int32_t)pick(random, -1, 300);
    d->window_right = (int32_t)pick(random, -1, 200);
}

static int draw(random_state *random, const ptxpack_variant *row, attention_problem *p)
{
    bool               fp8 = ptxpack_variant_parameter(row, "FP8", 0) != 0;
    int64_t            head_dim = ptxpack_variant_parameter(row, "HEAD_DIM", 0);
    attention_settings s = {.subcommand = "test",
                            .batch = pick(random, 1, 2),
                            .heads_q = 2,
                            .heads_kv = pick(random, 1, 2),
                            .seqlen_q = pick(random, 1, 500),
                            .seqlen_kv = pick(random, 1, 500),
                            .head_dim = head_dim - 16 * pick(random, 0, 1),
                            .head_dim_v = attention_row_values(row) != head_dim ? attention_row_values(row)
                                                                                : OPTION_NOT_GIVEN,
                            .in_keys = ptxpack_variant_parameter(row, "VALUES_IN_KEYS", 0) != 0,
                            .seed = pick(random, 0, INT32_MAX),
                            .scale = NAN, /* 1/sqrt(head_dim) */
                            .layout = "bshd",
                            .repeat = 1,
                            .dtype = fp8                       ? "e4m3"
                                     : pick(random, 0, 1) != 0 ? "bf16"
                                                               : "f16",
                            .lengths = {.page = OPTION_NOT_GIVEN},
                            .append = {.rows = OPTION_NOT_GIVEN, .rotary = OPTION_NOT_GIVEN},
                            .mask = {.causal = ""}};
    int                status = attention_problem_make(&s, p);
    draw_mask(random, &p->desc);
    p->desc.softcap = pick(random, 0, 3) == 0 ? 20 : 0;
    return status;
}

/* ---- one problem ------------------------------------------------------------------------------------ */
static bool place(device *d, const attention_problem *p, const ptxpack_attention_plan *plan,
                  ptxpack_attention_buffers *b)
{
    uint64_t *tensors[TENSOR_COUNT] = {&b->q, &b->k, &b->v, &b->o};
    uint64_t *scales[TENSOR_O] = {&b->q_descale, &b->k_descale, &b->v_descale};
    size_t    scale_bytes = p->descale_count[TENSOR_K] * sizeof(float);
    bool      ok = device_alloc(d, &b->lse, p->lse_count * sizeof(float)) &&
              device_alloc_zeros(d, &b->workspace, ptxpack_attention_workspace(plan));
    for (int t = 0; t < TENSOR_COUNT && ok; t++)
        ok = (t == TENSOR_V && p->geometry.values_in_keys) || /* it is k */
             (device_alloc(d, tensors[t], attention_problem_bytes(p, t)) &&
              (t == TENSOR_O || device_upload(d, *tensors[t], p->tensor[t], attention_problem_bytes(p, t))));
    for (int t = TENSOR_Q; t < TENSOR_O && ok; t++)
        ok = p->descale[t] == NULL || (device_alloc(d, scales[t], scale_bytes) &&
                                       device_upload(d, *scales[t], p->descale[t], scale_bytes));
    return ok;
}

static void release(device *d, const ptxpack_attention_buffers *b)
{
    const uint64_t all[] = {b->q,         b->k,         b->v,         b->o,        b->lse,
                            b->workspace, b->q_descale, b->k_descale, b->v_descale};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        device_free(d, all[i]);
}

/* Runs twice: a launch must leave its workspace ready for the next. */
static bool run(device *d, attention_problem *p, const ptxpack_variant *row)
{
    ptxpack_attention_plan   *plan = NULL;
    ptxpack_attention_buffers b = {.size = sizeof b};
    bool ok = device_status(d, ptxpack_attention_plan_row(d->handle, &p->desc, row, &plan)) &&
              place(d, p, plan, &b);
    for (int i = 0; i < 2 && ok; i++)
        ok = device_status(d, ptxpack_attention_launch(plan, &b, d->stream)) && device_sync(d);
    ok = ok && device_download(d, p->tensor[TENSOR_O], b.o, attention_problem_bytes(p, TENSOR_O)) &&
         device_download(d, p->lse, b.lse, p->lse_count * sizeof(float));
    release(d, &b);
    ptxpack_attention_plan_free(plan);
    return ok;
}

static bool right(device *d, attention_problem *p)
{
    verify_result result;
    if (verify_attention(&p->desc, p->tensor[TENSOR_Q], p->tensor[TENSOR_K], p->tensor[TENSOR_V], &p->descales,
                         (const uint16_t *)p->tensor[TENSOR_O], p->lse, COMPARED, p->seed,
                         &result) != PTXPACK_OK)
        snprintf(d->line, sizeof d->line, "%s", ptxpack_detail(NULL));
    else if (result.pass)
        return true;
    else
        snprintf(d->line, sizeof d->line, "o is off by %.3g, allowed %.3g; lse by %.3g, allowed %.3g",
                 result.out_error, result.bound, result.lse_error, result.lse_bound);
    return false;
}

static bool test_row(device *d, const ptxpack_variant *row, random_state *random, int64_t problems)
{
    for (int64_t i = 0; i < problems; i++) {
        attention_problem p = {.ms = 0};
        bool              ok = draw(random, row, &p) == COMMAND_OK;
        if (ok && p.descale[TENSOR_K] != NULL && i == 0) /* a head of zeros has this descale */
            p.descale[TENSOR_K][0] = 0;
        ok = ok && run(d, &p, row) && right(d, &p);
        if (!ok)
            fprintf(stderr,
                    "%s, %s, batch %d, %d x %d, heads 2/%d, head_dim %d, mask %d (%d, %d), softcap %g: %s\n",
                    row->id, ptxpack_dtype_name(p.desc.dtype), p.desc.batch, p.desc.seqlen_q, p.desc.seqlen_kv,
                    p.desc.heads_kv, p.desc.head_dim, (int)p.desc.mask, p.desc.window_left, p.desc.window_right,
                    (double)p.desc.softcap, d->line);
        attention_problem_free(&p);
        if (!ok)
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    int64_t                seed = argc > 1 ? atoll(argv[1]) : 20261122;
    int64_t                problems = argc > 2 ? atoll(argv[2]) : PROBLEMS;
    random_state           random = random_start((uint64_t)seed);
    device                 d = {.handle = NULL};
    size_t                 count, tested = 0, failed = 0;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    setenv("PTXPACK_EMU_SM", "90", 1);
    setenv("PTXPACK_EMU_SMS", "3", 1);
    if (device_open_as(&d, "emu", NULL) != PTXPACK_OK)
        return fprintf(stderr, "attention_wgmma: %s\n", d.line), 1;
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].file, "attention/wgmma.ptx") == 0) {
            tested++;
            failed += !test_row(&d, &rows[i], &random, problems);
        }
    device_close(&d);
    printf("%zu of %zu rows right, %lld problems each, seed %lld\n", tested - failed, tested,
           (long long)problems, (long long)seed);
    return failed != 0 || tested == 0;
}
