/* far.c - attention on tensors whose byte offsets need more than 32 bits, up to the largest row stride.
 *
 * They are too large to hold on the host: pieces of head_dim elements are copied one by one.  q, k and v lie
 * interleaved in one region, o in another.  The test is skipped, with a line, when the device has too little
 * memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/attention/inspect.h"
#include "check.h"
#include "tools/problem/random.h"
#include "tools/problem/verify.h"

enum { DIM = 128, HEADS = 2, PIECE = DIM * sizeof(uint16_t), INPUTS = TENSOR_O, POISON = 0xff };

typedef struct far_layout {
    const char     *name;
    int32_t         batch, rows;
    ptxpack_strides strides;
} far_layout;

static const far_layout layouts[] = {
    {"attention far-rows", 2, 4, {.batch = (INT64_C(1) << 32) + 8, .row = (1 << 30) - 8, .head = DIM}},
    {"attention far-tiles", 1, 200, {.batch = 0, .row = 1 << 25, .head = DIM}},
    {"attention far-heads", 1, 200, {.batch = 0, .row = DIM, .head = (INT64_C(1) << 32) + 8}},
};

typedef struct far_problem {
    const far_layout      *layout;
    ptxpack_attention_desc compact, far; /* the same on the host and on the device */
    size_t                 pieces;       /* of each tensor; in compact order [batch][row][head] */
    size_t                 bytes;        /* of a far tensor */
    uint16_t              *host[TENSOR_COUNT];
    float                 *lse;
    uint64_t               inputs, output, lse_device, workspace;
} far_problem;

static uint64_t piece_address(const far_problem *p, int tensor, size_t n)
{
    const far_layout *l = p->layout;
    size_t            rows = (size_t)l->rows;
    size_t            head = n % HEADS, row = n / HEADS % rows, batch = n / HEADS / rows;
    uint64_t          start = tensor == TENSOR_O ? p->output : p->inputs + (uint64_t)tensor * p->pieces * PIECE;
    return start + sizeof(uint16_t) * (batch * (uint64_t)l->strides.batch + row * (uint64_t)l->strides.row +
                                       head * (uint64_t)l->strides.head);
}

/* Makes the descriptors, random input and room for the output; returns false when host memory runs out. */
static bool make_problem(const check *c, const far_layout *layout, far_problem *p)
{
    attention_geometry geometry;
    char               line[PLAN_LINE];
    random_state       random = random_start(c->seed);
    bool               ok = true;
    *p = (far_problem){.layout = layout, .pieces = (size_t)layout->batch * (size_t)layout->rows * HEADS};
    p->compact = (ptxpack_attention_desc){
        .size = sizeof p->compact,
        .dtype = PTXPACK_F16,
        .batch = layout->batch,
        .seqlen_q = layout->rows,
        .seqlen_kv = layout->rows,
        .heads_q = HEADS,
        .heads_kv = HEADS,
        .head_dim = DIM,
    };
    p->far = p->compact;
    p->far.q = p->far.k = p->far.v = p->far.o = layout->strides;
    for (int t = 0; t < TENSOR_COUNT; t++) {
        p->host[t] = (uint16_t *)malloc(p->pieces * PIECE);
        ok = ok && p->host[t] != NULL;
        if (ok && t < INPUTS)
            random_normal(&random, PTXPACK_F16, p->host[t], p->pieces * DIM);
    }
    p->lse = (float *)malloc(p->pieces * sizeof *p->lse);
    ok = ok && p->lse != NULL && ptxpack_attention_resolve(&p->far, &geometry, line) == PTXPACK_OK;
    p->bytes = ok ? geometry.tensor[TENSOR_O].bytes : 0;
    return ok;
}

static void free_problem(check *c, far_problem *p)
{
    for (int t = 0; t < TENSOR_COUNT; t++)
        free(p->host[t]);
    free(p->lse);
    device_free(&c->gpu, p->inputs);
    device_free(&c->gpu, p->output);
    device_free(&c->gpu, p->lse_device);
    device_free(&c->gpu, p->workspace);
}

/* Takes device memory; returns false when there is too little, or after a failure has been recorded. */
static bool place(check *c, far_problem *p)
{
    size_t inputs = p->bytes + (INPUTS - 1) * p->pieces * PIECE;
    if (!check_reserve_far(c, p->layout->name, inputs, p->bytes, &p->inputs, &p->output))
        return false;
    bool ok = device_alloc(&c->gpu, &p->lse_device, p->pieces * sizeof *p->lse);
    for (int t = 0; t < INPUTS; t++)
        for (size_t n = 0; n < p->pieces && ok; n++)
            ok = device_upload(&c->gpu, piece_address(p, t, n), p->host[t] + n * DIM, PIECE);
    if (!ok)
        check_broken(c, p->layout->name, c->gpu.line);
    return ok;
}

/* Launches once into poisoned pieces and copies them back. */
static bool launch(check *c, far_problem *p, const ptxpack_attention_plan *plan)
{
    const ptxpack_attention_buffers buffers = {
        .size = sizeof buffers,
        .q = piece_address(p, TENSOR_Q, 0),
        .k = piece_address(p, TENSOR_K, 0),
        .v = piece_address(p, TENSOR_V, 0),
        .o = p->output,
        .lse = p->lse_device,
        .workspace = p->workspace,
    };
    bool ok = true;
    for (size_t n = 0; n < p->pieces && ok; n++)
        ok = device_try(&c->gpu,
                        c->gpu.driver->cuMemsetD8Async(piece_address(p, TENSOR_O, n), POISON, PIECE,
                                                       c->gpu.stream),
                        "cuMemsetD8Async");
    ok = ok && device_status(&c->gpu, ptxpack_attention_launch(plan, &buffers, c->gpu.stream));
    for (size_t n = 0; n < p->pieces && ok; n++)
        ok = device_download(&c->gpu, p->host[TENSOR_O] + n * DIM, piece_address(p, TENSOR_O, n), PIECE);
    return ok && device_download(&c->gpu, p->lse, p->lse_device, p->pieces * sizeof *p->lse);
}

static void run_row(check *c, far_problem *p, const ptxpack_variant *row, const char *name)
{
    ptxpack_attention_plan *plan = NULL;
    verify_result           result;
    char                    what[160];
    device_free(&c->gpu, p->workspace);
    p->workspace = 0;
    if (!device_status(&c->gpu, ptxpack_attention_plan_row(c->gpu.handle, &p->far, row, &plan)) ||
        !device_alloc_zeros(&c->gpu, &p->workspace, ptxpack_attention_workspace(plan)) || !launch(c, p, plan)) {
        check_broken(c, name, c->gpu.line);
    } else if (verify_attention(&p->compact, p->host[TENSOR_Q], p->host[TENSOR_K], p->host[TENSOR_V], NULL,
                                p->host[TENSOR_O], p->lse, p->pieces, c->seed, &result) != PTXPACK_OK) {
        check_broken(c, name, ptxpack_detail(NULL));
    } else {
        snprintf(what, sizeof what, "o errs by %.3g, allowed %.3g; lse by %.3g, allowed %.3g", result.out_error,
                 result.bound, result.lse_error, result.lse_bound);
        check_record(c, name, result.pass ? NULL : what);
    }
    ptxpack_attention_plan_free(plan);
}

static bool row_suits(const check *c, const far_layout *layout, const ptxpack_variant *row)
{
    const ptxpack_attention_desc plain = {.size = sizeof plain,
                                          .dtype = PTXPACK_F16,
                                          .batch = 1,
                                          .seqlen_q = layout->rows,
                                          .seqlen_kv = layout->rows,
                                          .heads_q = HEADS,
                                          .heads_kv = HEADS,
                                          .head_dim = DIM};
    char                         why[PLAN_LINE];
    return check_row_wanted(c, row) && ptxpack_variant_parameter(row, "HEAD_DIM", 0) == DIM &&
           plan_row_refusal(&attention_op, c->gpu.handle, &ptxpack_device(c->gpu.handle)->caps, &plain, row,
                            why) == NULL;
}

/* Runs every row of kernels.def of this head dimension that the device can run. */
static void run_layout(check *c, const far_layout *layout)
{
    far_problem            p = {.layout = NULL};
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    bool                   ready = false;
    for (size_t i = 0; i < count && !atomic_load(&c->broken); i++) {
        char name[128];
        snprintf(name, sizeof name, "%s f16 d%d %s", layout->name, (int)DIM, rows[i].id);
        if (!row_suits(c, layout, &rows[i]) || !check_wanted(c, name))
            continue;
        if (c->list) {
            puts(name);
            continue;
        }
        if (!ready && !make_problem(c, layout, &p)) {
            check_broken(c, name, "no memory");
            break;
        }
        if (!ready && !place(c, &p))
            break;
        ready = true;
        run_row(c, &p, &rows[i], name);
    }
    free_problem(c, &p);
}

void check_far(check *c)
{
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0] && !c->quick; i++)
        run_layout(c, &layouts[i]);
}
