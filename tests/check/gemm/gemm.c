/* gemm.c - D = activation(alpha A B + beta C + bias) against the double-precision reference.
 *
 * Cases    element types x orders of A and B x sizes, each with compact and with gapped lines and with some of
 *          the epilogues in turn; A and B of e4m3 with each kind of scales; RMSNorm(A); pathological data for some of them; each
 *          case on every row that runs here.
 * Passes   Some rows are compared: all of them up to a limit, else a random sample.  Every element of them is
 *          the rounding of a number within the reference's error (host/gemm/reference.h), and infinities and
 *          NaNs are where the reference has them.  All elements of D were written and nothing else, a second run
 *          gave the same bits, and a second launch could use the workspace as the first one left it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "tools/problem/random.h"

enum {
    POISON = 0xff,
    BIAS = GEMM_MATRICES,
    SCALES, /* of A, of B */
    NORM_W = SCALES + 2,
    REGIONS
};

/* ---- one case's data and reference -------------------------------------------------------------- */
/* Whole regions of host memory: guards, and matrices with NaNs around them. */
typedef struct problem {
    ptxpack_gemm_desc desc;
    gemm_geometry     geometry;
    gemm_inputs       inputs;
    bool              in_place;
    uint8_t          *host[REGIONS], *again; /* D has two */
    size_t            bytes[REGIONS];        /* with the guards; 0: there is no such matrix */
    gemm_row         *rows;                  /* compared rows */
    size_t            row_count;
    double           *value, *error; /* [row_count][columns of D] */
} problem;

static uint8_t *line_of(const problem *p, const uint8_t *region, int matrix, int64_t batch, int64_t line)
{
    const gemm_matrix *x = &p->geometry.matrix[matrix];
    return (uint8_t *)(uintptr_t)region + CHECK_GUARD + (batch * x->batch + line * x->stride) * x->element;
}

static uint16_t *line_of_d(const problem *p, int64_t batch, int64_t row)
{
    return (uint16_t *)(void *)line_of(p, p->host[GEMM_D], GEMM_D, batch, row);
}

static void fill_line(const gemm_case *a, random_state *random, ptxpack_dtype type, void *line, int64_t length)
{
    static const float special[] = {INFINITY, -INFINITY, NAN};
    random_normal(random, type, line, (size_t)length);
    for (int64_t i = 0; i < length; i++) {
        float value = ptxpack_element(type, line, (size_t)i);
        switch (a->kind) {
        case EQUAL: /* of e4m3: products of which 13 bits of a long sum lose a part */
            value = type == PTXPACK_E4M3 ? 1.125f : 1;
            break;
        case HUGE_VALUES:
            value *= type == PTXPACK_BF16 ? 0x1p58f : 400;
            break; /* D overflows f16; e4m3 has no more than 448 */
        case TINY:
            value *= type == PTXPACK_F16 ? 0x1p-12f : type == PTXPACK_BF16 ? 0x1p-66f : 0x1p-7f;
            break; /* D is subnormal; or A and B are */
        case ZEROS:
            value = 0;
            break;
        case NOT_FINITE:
            if (random_below(random, 300) == 0)
                value = special[random_below(random, 3)];
            break;
        default:
            break;
        }
        ptxpack_set_element(type, line, (size_t)i, value);
    }
}

static float *scales_of(const problem *p, int matrix)
{
    return p->bytes[SCALES + matrix] > 0 ? (float *)(void *)(p->host[SCALES + matrix] + CHECK_GUARD) : NULL;
}

/* Of either sign. */
static void fill_scales(problem *p, random_state *random, int matrix)
{
    float       *scales = scales_of(p, matrix);
    const size_t count = p->geometry.scale[matrix].bytes / sizeof *scales;
    if (scales == NULL)
        return;
    random_scales(random, scales, count);
    for (size_t i = 0; i < count; i++)
        scales[i] *= random_below(random, 4) == 0 ? -1.0f : 1.0f;
}

/* Products of huge weights would be beyond f32, where the sums are. */
static void fill_weights(const gemm_case *a, random_state *random, problem *p)
{
    gemm_case like = *a;
    like.kind = a->kind == EQUAL || a->kind == ZEROS ? a->kind : NORMAL;
    fill_line(&like, random, p->desc.dtype, p->host[NORM_W] + CHECK_GUARD, p->desc.k);
}

static void fill_data(const check *c, const gemm_case *a, problem *p)
{
    random_state random = random_start(c->seed + gemm_case_number(a));
    for (int i = 0; i < GEMM_D; i++)
        for (int32_t b = 0; b < p->geometry.batch && p->bytes[i] > 0; b++)
            for (int64_t line = 0; line < p->geometry.matrix[i].lines; line++)
                if (b == 0 || p->geometry.matrix[i].batch != 0)
                    fill_line(a, &random, gemm_type(&p->desc, i), line_of(p, p->host[i], i, b, line),
                              p->geometry.matrix[i].length);
    if (p->bytes[BIAS] > 0)
        fill_line(a, &random, p->desc.dtype, p->host[BIAS] + CHECK_GUARD, p->desc.n);
    if (p->bytes[NORM_W] > 0)
        fill_weights(a, &random, p);
    fill_scales(p, &random, GEMM_A);
    fill_scales(p, &random, GEMM_B);
    p->inputs = (gemm_inputs){.a = p->host[GEMM_A] + CHECK_GUARD,
                              .b = p->host[GEMM_B] + CHECK_GUARD,
                              .c = p->host[GEMM_C] + CHECK_GUARD,
                              .bias = p->host[BIAS] + CHECK_GUARD,
                              .norm_w = p->host[NORM_W] + CHECK_GUARD,
                              .alpha = gemm_case_epilogue(a)->alpha,
                              .beta = gemm_case_epilogue(a)->beta,
                              .scale_a = scales_of(p, GEMM_A),
                              .scale_b = scales_of(p, GEMM_B)};
}

/* Picks all rows, or as many as take about two seconds: a random one from each of equal parts. */
static void pick_rows(const check *c, const gemm_case *a, problem *p)
{
    size_t       total = (size_t)p->geometry.batch * (size_t)p->desc.m;
    double       affordable = 2e9 / (2.0 * p->desc.n * (p->desc.k + 16.0));
    random_state random = random_start(~(c->seed + gemm_case_number(a)));
    p->row_count = affordable >= (double)total ? total : affordable < 96 ? 96 : (size_t)affordable;
    p->rows = (gemm_row *)calloc(p->row_count, sizeof *p->rows);
    for (size_t i = 0; i < p->row_count && p->rows != NULL; i++) {
        size_t first = i * total / p->row_count, next = (i + 1) * total / p->row_count;
        size_t row = first + random_below(&random, next - first);
        p->rows[i] = (gemm_row){(int32_t)(row / (size_t)p->desc.m), (int32_t)(row % (size_t)p->desc.m)};
    }
}

static void free_problem(problem *p)
{
    for (int i = 0; i < REGIONS; i++)
        free(p->host[i]);
    free(p->again);
    free(p->rows);
    free(p->value);
}

/* Of a region, without guards; 0: there is none.  A scale of a tensor that is 1 need not be there. */
static size_t region_bytes(const gemm_case *a, const problem *p, int region)
{
    const bool plain = p->desc.scales == PTXPACK_SCALES_TENSOR && a->layout == 0;
    return region == BIAS                       ? p->geometry.bias_bytes
           : region == NORM_W                   ? p->geometry.norm_bytes
           : region == SCALES + GEMM_B && plain ? 0
           : region >= SCALES                   ? p->geometry.scale[region - SCALES].bytes
                                                : p->geometry.matrix[region].bytes;
}

static bool make_problem(const check *c, const gemm_case *a, problem *p)
{
    char line[PLAN_LINE];
    memset(p, 0, sizeof *p);
    p->desc = gemm_case_desc(a);
    p->in_place = gemm_case_epilogue(a)->in_place;
    if (ptxpack_gemm_resolve(&p->desc, &p->geometry, line) != PTXPACK_OK)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "%s", line), false;
    for (int i = 0; i < REGIONS; i++) {
        const size_t bytes = region_bytes(a, p, i);
        const bool   wanted = bytes > 0 || i == GEMM_A || i == GEMM_B; /* with k 0 they are empty */
        p->bytes[i] = wanted ? bytes + 2 * CHECK_GUARD : 0;
        p->host[i] = (uint8_t *)malloc(p->bytes[i] + 2 * CHECK_GUARD);
        if (p->host[i] == NULL)
            return ptxpack_fail(NULL, PTXPACK_E_MEMORY, "no memory"), false;
        memset(p->host[i], POISON, p->bytes[i]);
    }
    fill_data(c, a, p);
    pick_rows(c, a, p);
    size_t elements = p->row_count * (size_t)gemm_columns(&p->desc);
    p->again = (uint8_t *)malloc(p->bytes[GEMM_D]);
    p->value = (double *)malloc(2 * elements * sizeof *p->value);
    p->error = p->value + elements;
    if (p->again == NULL || p->rows == NULL || p->value == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_MEMORY, "no memory"), false;
    gemm_reference *reference;
    if (gemm_reference_open(&p->desc, &p->inputs, &reference) != PTXPACK_OK)
        return false;
    bool ok = gemm_reference_rows(reference, p->rows, p->row_count, 1, p->value, p->error) == PTXPACK_OK;
    gemm_reference_close(reference);
    return ok;
}

/* ---- on the device ------------------------------------------------------------------------------ */
typedef struct regions {
    check_buffer of[REGIONS], workspace;
} regions;

static uint64_t scale_address(const problem *p, const regions *r, int matrix)
{
    return p->bytes[SCALES + matrix] > 0 ? r->of[SCALES + matrix].address + CHECK_GUARD : 0;
}

/* Launches into guards and NaNs, or onto C when it lies in D's place, and copies D to `out`. */
static bool launch(check *c, const problem *p, const ptxpack_gemm_plan *plan, const regions *r, uint32_t bits,
                   uint8_t *out)
{
    const ptxpack_gemm_buffers b = {.size = sizeof b,
                                    .alpha = p->inputs.alpha,
                                    .beta = p->inputs.beta,
                                    .a = r->of[GEMM_A].address + CHECK_GUARD,
                                    .b = r->of[GEMM_B].address + CHECK_GUARD,
                                    .c = r->of[p->in_place ? GEMM_D : GEMM_C].address + CHECK_GUARD,
                                    .d = r->of[GEMM_D].address + CHECK_GUARD,
                                    .bias = r->of[BIAS].address + CHECK_GUARD,
                                    .workspace = r->workspace.address,
                                    .scale_a = scale_address(p, r, GEMM_A),
                                    .scale_b = scale_address(p, r, GEMM_B),
                                    .norm_w = r->of[NORM_W].address + CHECK_GUARD,
                                    .launch = bits};
    bool ok = p->in_place ? device_upload(&c->gpu, r->of[GEMM_D].address, p->host[GEMM_C], p->bytes[GEMM_D])
                          : device_try(&c->gpu,
                                       c->gpu.driver->cuMemsetD8Async(r->of[GEMM_D].address, POISON,
                                                                      p->bytes[GEMM_D], c->gpu.stream),
                                       "cuMemsetD8Async");
    return ok && device_status(&c->gpu, ptxpack_gemm_launch(plan, &b, c->gpu.stream)) &&
           device_download(&c->gpu, out, r->of[GEMM_D].address, p->bytes[GEMM_D]);
}

/* On the emulated driver only the elements are uploaded: it reports reads of what was never written. */
static bool upload(check *c, const problem *p, int i, uint64_t address)
{
    if (i == GEMM_D)
        return true;
    if (!c->brief || i >= BIAS)
        return device_upload(&c->gpu, address, p->host[i], check_input_bytes(c, p->bytes[i]));
    const gemm_matrix *x = &p->geometry.matrix[i];
    bool               ok = true;
    for (int64_t b = 0; b < (x->batch != 0 ? p->geometry.batch : 1); b++)
        for (int64_t line = 0; line < x->lines && x->length > 0 && ok; line++)
            ok = device_upload(&c->gpu,
                               address + CHECK_GUARD +
                                   (uint64_t)((b * x->batch + line * x->stride) * x->element),
                               line_of(p, p->host[i], i, b, line), (size_t)(x->length * x->element));
    return ok;
}

static void free_regions(check *c, regions *r)
{
    for (int i = 0; i < REGIONS; i++)
        device_free(&c->gpu, r->of[i].address);
    device_free(&c->gpu, r->workspace.address);
    *r = (regions){.workspace = {0, 0}};
}

/* Of two launches the second one may read B before what is before it has ended. */
static bool run_on_device(check *c, problem *p, const ptxpack_gemm_plan *plan, regions *r)
{
    size_t workspace = ptxpack_gemm_workspace(plan);
    bool   ok = true;
    if (c->brief)
        free_regions(c, r);
    for (int i = 0; i < REGIONS && ok; i++)
        if (p->bytes[i] > 0)
            ok = check_reserve(c, &r->of[i], i == GEMM_D ? p->bytes[i] : check_input_bytes(c, p->bytes[i])) &&
                 upload(c, p, i, r->of[i].address);
    if (ok && workspace > 0)
        ok = check_reserve(c, &r->workspace, workspace) &&
             device_try(&c->gpu,
                        c->gpu.driver->cuMemsetD8Async(r->workspace.address, 0, workspace, c->gpu.stream),
                        "cuMemsetD8Async");
    ok = ok && launch(c, p, plan, r, 0, p->host[GEMM_D]);
    if (ok && !check_repeats(c, workspace))
        memcpy(p->again, p->host[GEMM_D], p->bytes[GEMM_D]);
    else
        ok = ok && launch(c, p, plan, r, PTXPACK_LAUNCH_OVERLAP | PTXPACK_LAUNCH_CONSTANT_B, p->again);
    return ok;
}

/* ---- judging ------------------------------------------------------------------------------------ */
enum { WHAT = 8192, MAP_ROWS = 24, MAP_COLUMNS = 64 };

static bool accepted(const problem *p, size_t row, int32_t column)
{
    size_t          at = row * (size_t)gemm_columns(&p->desc) + (size_t)column;
    const uint16_t *d = line_of_d(p, p->rows[row].batch, p->rows[row].row);
    return gemm_accepts(p->desc.dtype, d[column], p->value[at], p->error[at]);
}

/* Draws a picture of the matrix that holds a wrong element: X where any compared element is wrong, . where they
 * are right. */
static void draw_map(const problem *p, int32_t batch, char *text, size_t cap)
{
    char    cell[MAP_ROWS][MAP_COLUMNS];
    int32_t rows = (p->desc.m + MAP_ROWS - 1) / MAP_ROWS,
            columns = (gemm_columns(&p->desc) + MAP_COLUMNS - 1) / MAP_COLUMNS;
    size_t at = (size_t)snprintf(text, cap,
                                 "\n  matrix %d, %d rows a line, %d columns a character:", (int)batch,
                                 (int)rows, (int)columns);
    memset(cell, ' ', sizeof cell);
    for (size_t n = 0; n < p->row_count; n++)
        for (int32_t c = 0; c < gemm_columns(&p->desc) && p->rows[n].batch == batch; c++) {
            char *mark = &cell[p->rows[n].row / rows][c / columns];
            *mark = accepted(p, n, c) && *mark != 'X' ? '.' : 'X';
        }
    for (int i = 0; i < MAP_ROWS && i * rows < p->desc.m; i++)
        at += (size_t)snprintf(text + at, cap - at, "\n  row %6d  %.*s", (int)(i * rows), (int)MAP_COLUMNS,
                               cell[i]);
}

static bool judge_values(const problem *p, char *what)
{
    for (size_t n = 0; n < p->row_count; n++)
        for (int32_t c = 0; c < gemm_columns(&p->desc); c++) {
            size_t at = n * (size_t)gemm_columns(&p->desc) + (size_t)c;
            if (accepted(p, n, c))
                continue;
            const gemm_row *r = &p->rows[n];
            float           got = ptxpack_to_float(p->desc.dtype, line_of_d(p, r->batch, r->row)[c]);
            int length = snprintf(what, WHAT, "d[matrix %d, row %d, column %d] is %.8g, exact %.8g +- %.3g",
                                  (int)r->batch, (int)r->row, (int)c, (double)got, p->value[at], p->error[at]);
            draw_map(p, r->batch, what + length, WHAT - (size_t)length);
            return false;
        }
    return true;
}

/* Checks that every element is written, and nothing else; it sets the elements back to poison. */
static bool judge_places(problem *p, char *what)
{
    for (int32_t b = 0; b < p->geometry.batch; b++)
        for (int32_t i = 0; i < p->desc.m; i++) {
            uint16_t *line = line_of_d(p, b, i);
            for (int32_t c = 0; c < gemm_columns(&p->desc); c++) {
                if (line[c] == 0xffff) {
                    snprintf(what, WHAT, "d[matrix %d, row %d, column %d] is not written", (int)b, (int)i,
                             (int)c);
                    return false;
                }
                line[c] = 0xffff;
            }
        }
    for (size_t i = 0; i < p->bytes[GEMM_D]; i++)
        if (p->host[GEMM_D][i] != POISON) {
            snprintf(what, WHAT, "d was written outside: byte %lld from its start", (long long)i - CHECK_GUARD);
            return false;
        }
    return true;
}

/* ---- running a case ----------------------------------------------------------------------------- */
static void run_row(check *c, problem *p, regions *r, const ptxpack_variant *row, const char *name)
{
    ptxpack_gemm_plan *plan;
    char               line[512], *what = (char *)malloc(WHAT);
    if (ptxpack_gemm_plan_row(c->gpu.handle, &p->desc, row, &plan) != PTXPACK_OK) {
        check_broken(c, name, ptxpack_detail(c->gpu.handle));
        free(what);
        return;
    }
    pthread_mutex_lock(&c->gpu_lock); /* making the plan may compile, which is outside the lock */
    bool ok = run_on_device(c, p, plan, r);
    snprintf(line, sizeof line, "%s", c->gpu.line);
    pthread_mutex_unlock(&c->gpu_lock);
    if (!ok || what == NULL)
        check_broken(c, name, ok ? "no memory" : line);
    else if (memcmp(p->host[GEMM_D], p->again, p->bytes[GEMM_D]) != 0)
        check_record(c, name, "a second run gave other bits");
    else
        check_record(c, name, judge_values(p, what) && judge_places(p, what) ? NULL : what);
    ptxpack_gemm_plan_free(plan);
    free(what);
}

/* Sizes for the kernels of few rows take a tile of 128 rows as long as one that is full: on the emulated driver each other row of
 * kernels.def runs two of their eight epilogues, in turn.  With a filter nothing is left out. */
static bool is_other_rows_turn(const check *c, const gemm_case *a, const ptxpack_variant *row, size_t index)
{
    const char *few = "gemm/rows";
    return c->brief && c->filter == NULL && gemm_case_is_for_few_rows(a) &&
           strncmp(row->file, few, strlen(few)) != 0 && ((size_t)(a->size + a->epilogue) + index) % 4 != 0;
}

static void run_case(check *c, const gemm_case *a, regions *r)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    problem                p;
    char                   name[128], full[256], why[PLAN_LINE];
    gemm_case_name(a, name);
    if (!make_problem(c, a, &p)) {
        check_broken(c, name, ptxpack_detail(NULL));
    } else {
        for (size_t i = 0; i < count && !atomic_load(&c->broken); i++) {
            if (strcmp(rows[i].op, "gemm") != 0 || !check_row_wanted(c, &rows[i]) ||
                is_other_rows_turn(c, a, &rows[i], i) ||
                plan_row_refusal(&gemm_op, c->gpu.handle, NULL, &p.desc, &rows[i], why) != NULL)
                continue;
            snprintf(full, sizeof full, "%s %s", name, rows[i].id);
            run_row(c, &p, r, &rows[i], full);
        }
    }
    free_problem(&p);
}

/* ---- all cases, on threads ---------------------------------------------------------------------- */
static void name_at(const void *cases, size_t i, char name[128])
{
    gemm_case_name((const gemm_case *)cases + i, name);
}

static void run_at(check *c, const void *cases, size_t i, void *r)
{
    run_case(c, (const gemm_case *)cases + i, (regions *)r);
}

static void free_images(check *c, void *images) { free_regions(c, (regions *)images); }

void check_gemm(check *c)
{
    gemm_case *cases = (gemm_case *)calloc(gemm_cases_most(), sizeof *cases);
    if (cases == NULL) {
        check_broken(c, "gemm", "no memory");
        return;
    }
    const check_cases all = {.op = "gemm",
                             .cases = cases,
                             .count = gemm_cases_list(c, cases),
                             .images = sizeof(regions),
                             .name = name_at,
                             .run = run_at,
                             .free = free_images};
    check_run_cases(c, &all);
    free(cases);
}
