/* far_gemm.c - GEMM on matrices whose byte offsets need more than 32 bits: far lines, and far matrices
 * of a batch.
 *
 * They are too large to hold on the host: lines are copied one by one.  A, B and C lie interleaved in one
 * region, D in another.  The test is skipped, with a line, when the device has too little memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "host/gemm/inspect.h"
#include "tools/problem/random.h"

enum { SIZE = 150 /* m, n and k */, LINE = 152, BATCH = 2, LINES = BATCH * SIZE, POISON = 0xff };

static const struct far_layout {
    const char   *name;
    int64_t       stride, batch; /* elements from one line, or one matrix, to the next */
    ptxpack_order order;         /* of A and B */
} layouts[] = {
    {"gemm far-lines rr", 1 << 24, GEMM_D *LINE, PTXPACK_ROW_MAJOR},
    {"gemm far-lines cc", 1 << 24, GEMM_D *LINE, PTXPACK_COLUMN_MAJOR},
    {"gemm far-batch rr", GEMM_D *LINE, (INT64_C(1) << 31) + 8, PTXPACK_ROW_MAJOR},
    {"gemm far-batch cc", GEMM_D *LINE, (INT64_C(1) << 31) + 8, PTXPACK_COLUMN_MAJOR},
};

typedef struct far_problem {
    const struct far_layout *layout;
    ptxpack_gemm_desc        close, far; /* the same on the host and on the device */
    size_t                   bytes;      /* of a far matrix */
    uint16_t                *host[GEMM_MATRICES];
    double                  *value, *error;
    uint64_t                 inputs, output, workspace;
} far_problem;

static const gemm_inputs *inputs_of(const far_problem *p)
{
    static _Thread_local gemm_inputs inputs;
    inputs =
        (gemm_inputs){.a = p->host[GEMM_A], .b = p->host[GEMM_B], .c = p->host[GEMM_C], .alpha = 1, .beta = 1};
    return &inputs;
}

/* The address of line n, counted through all matrices of the batch. */
static uint64_t line_address(const far_problem *p, int matrix, size_t n)
{
    uint64_t start = matrix == GEMM_D ? p->output : p->inputs + sizeof(uint16_t) * (uint64_t)matrix * LINE;
    return start +
           sizeof(uint16_t) * (n % SIZE * (uint64_t)p->layout->stride + n / SIZE * (uint64_t)p->layout->batch);
}

static bool refer(far_problem *p)
{
    gemm_reference *reference;
    gemm_row        rows[LINES];
    for (int32_t i = 0; i < LINES; i++)
        rows[i] = (gemm_row){i / SIZE, i % SIZE};
    if (gemm_reference_open(&p->close, inputs_of(p), &reference) != PTXPACK_OK)
        return false;
    ptxpack_status status = gemm_reference_rows(reference, rows, LINES, 1, p->value, p->error);
    gemm_reference_close(reference);
    return status == PTXPACK_OK;
}

/* Makes the descriptors, random input, expected results and room for D; returns false when host memory runs
 * out. */
static bool make_problem(const check *c, const struct far_layout *layout, far_problem *p)
{
    gemm_geometry geometry;
    char          line[PLAN_LINE];
    random_state  random = random_start(c->seed);
    bool          ok = true;
    *p = (far_problem){.layout = layout};
    p->close = (ptxpack_gemm_desc){.size = sizeof p->close,
                                   .dtype = PTXPACK_F16,
                                   .m = SIZE,
                                   .n = SIZE,
                                   .k = SIZE,
                                   .batch = BATCH,
                                   .order_a = layout->order,
                                   .order_b = layout->order,
                                   .stride_a = LINE,
                                   .stride_b = LINE,
                                   .stride_c = LINE,
                                   .stride_d = LINE,
                                   .batch_a = SIZE * LINE,
                                   .batch_b = SIZE * LINE,
                                   .batch_c = SIZE * LINE,
                                   .batch_d = SIZE * LINE,
                                   .has_c = true};
    p->far = p->close;
    p->far.stride_a = p->far.stride_b = p->far.stride_c = p->far.stride_d = layout->stride;
    p->far.batch_a = p->far.batch_b = p->far.batch_c = p->far.batch_d = layout->batch;
    for (int i = 0; i < GEMM_MATRICES; i++) {
        p->host[i] = (uint16_t *)calloc(LINES * LINE, sizeof(uint16_t));
        ok = ok && p->host[i] != NULL;
        if (ok && i != GEMM_D)
            random_normal(&random, PTXPACK_F16, p->host[i], (size_t)LINES * LINE);
    }
    p->value = (double *)calloc((size_t)2 * LINES * SIZE, sizeof *p->value);
    p->error = p->value + (size_t)LINES * SIZE;
    ok = ok && p->value != NULL && ptxpack_gemm_resolve(&p->far, &geometry, line) == PTXPACK_OK && refer(p);
    p->bytes = ok ? geometry.matrix[GEMM_D].bytes : 0;
    return ok;
}

static void free_problem(check *c, far_problem *p)
{
    for (int i = 0; i < GEMM_MATRICES; i++)
        free(p->host[i]);
    free(p->value);
    device_free(&c->gpu, p->inputs);
    device_free(&c->gpu, p->output);
    device_free(&c->gpu, p->workspace);
}

/* Takes device memory; returns false when there is too little, or after a failure has been recorded. */
static bool place(check *c, far_problem *p)
{
    size_t inputs = p->bytes + (size_t)GEMM_D * LINE * sizeof(uint16_t);
    if (!check_reserve_far(c, p->layout->name, inputs, p->bytes, &p->inputs, &p->output))
        return false;
    bool ok = true;
    for (size_t n = 0; n < (size_t)GEMM_D * LINES && ok; n++)
        ok = device_upload(&c->gpu, line_address(p, (int)(n / LINES), n % LINES),
                           p->host[n / LINES] + n % LINES * LINE, SIZE * sizeof(uint16_t));
    if (!ok)
        check_broken(c, p->layout->name, c->gpu.line);
    return ok;
}

/* Launches once into poisoned lines and copies them back. */
static bool launch(check *c, far_problem *p, const ptxpack_gemm_plan *plan)
{
    const ptxpack_gemm_buffers buffers = {.size = sizeof buffers,
                                          .alpha = 1,
                                          .beta = 1,
                                          .a = line_address(p, GEMM_A, 0),
                                          .b = line_address(p, GEMM_B, 0),
                                          .c = line_address(p, GEMM_C, 0),
                                          .d = p->output,
                                          .workspace = p->workspace};
    bool                       ok = true;
    for (size_t n = 0; n < LINES && ok; n++)
        ok = device_try(&c->gpu,
                        c->gpu.driver->cuMemsetD8Async(line_address(p, GEMM_D, n), POISON,
                                                       SIZE * sizeof(uint16_t), c->gpu.stream),
                        "cuMemsetD8Async");
    ok = ok && device_status(&c->gpu, ptxpack_gemm_launch(plan, &buffers, c->gpu.stream));
    for (size_t n = 0; n < LINES && ok; n++)
        ok = device_download(&c->gpu, p->host[GEMM_D] + n * LINE, line_address(p, GEMM_D, n),
                             SIZE * sizeof(uint16_t));
    return ok;
}

static void judge(check *c, const far_problem *p, const char *name)
{
    char what[160];
    for (size_t i = 0; i < (size_t)LINES * SIZE; i++)
        if (!gemm_accepts(PTXPACK_F16, p->host[GEMM_D][i / SIZE * LINE + i % SIZE], p->value[i], p->error[i])) {
            snprintf(what, sizeof what, "d[matrix %zu, row %zu, column %zu] is %g, exact %g", i / SIZE / SIZE,
                     i / SIZE % SIZE, i % SIZE,
                     (double)ptxpack_to_float(PTXPACK_F16, p->host[GEMM_D][i / SIZE * LINE + i % SIZE]),
                     p->value[i]);
            check_record(c, name, what);
            return;
        }
    check_record(c, name, NULL);
}

static void run_row(check *c, far_problem *p, const ptxpack_variant *row, const char *name)
{
    ptxpack_gemm_plan *plan = NULL;
    device_free(&c->gpu, p->workspace);
    p->workspace = 0;
    if (!device_status(&c->gpu, ptxpack_gemm_plan_row(c->gpu.handle, &p->far, row, &plan)) ||
        !device_alloc_zeros(&c->gpu, &p->workspace, ptxpack_gemm_workspace(plan)) || !launch(c, p, plan))
        check_broken(c, name, c->gpu.line);
    else
        judge(c, p, name);
    ptxpack_gemm_plan_free(plan);
}

static bool is_wanted(const check *c, const ptxpack_variant *row)
{
    return strcmp(row->op, "gemm") == 0 && check_row_wanted(c, row);
}

static void run_layout(check *c, const struct far_layout *layout)
{
    size_t                 count, first = 0;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    far_problem            p;
    char                   full[160], why[PLAN_LINE];
    while (first < count && !is_wanted(c, &rows[first]))
        first++;
    if (first == count)
        return;
    if (!make_problem(c, layout, &p)) {
        check_broken(c, layout->name, "no memory");
    } else if (place(c, &p)) {
        for (size_t i = first; i < count && !atomic_load(&c->broken); i++) {
            if (!is_wanted(c, &rows[i]) ||
                plan_row_refusal(&gemm_op, c->gpu.handle, NULL, &p.far, &rows[i], why) != NULL)
                continue;
            snprintf(full, sizeof full, "%s %s", layout->name, rows[i].id);
            run_row(c, &p, &rows[i], full);
        }
    }
    free_problem(c, &p);
}

void check_far_gemm(check *c)
{
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0] && !atomic_load(&c->broken); i++) {
        if (c->quick || !check_wanted(c, layouts[i].name))
            continue;
        if (c->list)
            puts(layouts[i].name);
        else
            run_layout(c, &layouts[i]);
    }
}
