/* check_attention.c - attention forward against the double-precision reference.
 *
 * Cases    element types x head dims (exact and padded) x {MHA, MQA, GQA} x FlashAttention's 20 pairs of
 *          sequence lengths, and pathological data on some of them; each with every mask, in three layouts,
 *          on every row that covers it and that the device can run.
 * Passes   when, against the exact result of the rows compared (all of them up to a limit, then a random
 *          sample in every head):
 *            all rows      max error <= 2 max error of the same maths in the element type + FlashAttention's
 *                          allowance for one sum in that type (verify.h)
 *            16-row tiles  max error <= 3 times that of the tile in the element type + one rounding: long
 *                          rows average many values and must be as much closer
 *          and every LSE is within verify_lse_bound, rows without keys are 0 and -inf, nothing but the
 *          output was written, and a second run gave the same bits. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attention_plan.h"
#include "attention_reference.h"
#include "check.h"
#include "check_tensor.h"
#include "random.h"
#include "verify.h"

/* ---- the cases ---------------------------------------------------------------------------------- */
typedef enum data_kind {
    NORMAL,
    EQUAL,
    HUGE_VALUES,
    TINY,
    RISING,
    FALLING,
    SCALED,
    REPEATED,
    KINDS
} data_kind;
static const char *const kind_names[KINDS] = {"normal", "equal",   "huge",   "tiny",
                                              "rising", "falling", "scaled", "repeated"};

/* Large ones first: they take longest. */
static const int pairs[][2] = {
    {4224, 4224}, {4096, 4096}, {1024, 1024}, {1023, 1024}, {1024, 1023}, {640, 128}, {512, 256},
    {256, 512},   {384, 256},   {256, 256},   {799, 3},     {128, 217},   {108, 256}, {113, 211},
    {113, 203},   {128, 192},   {113, 128},   {64, 128},    {239, 1},     {1, 1},
};
static const int head_dims[] = {256, 192, 128, 112, 96, 80, 72, 64, 40, 32, 8};
static const int heads[][2] = {{6, 6}, {6, 2}, {6, 1}};
enum {
    PAIRS = sizeof pairs / sizeof pairs[0],
    HEAD_DIMS = sizeof head_dims / sizeof head_dims[0],
    HEADS = sizeof heads / sizeof heads[0],
    MASKS = 3,
    TILE_ROWS = 16
};
static const char *const mask_names[MASKS] = {"full", "top-left", "bottom-right"};

typedef struct attention_case {
    ptxpack_attention_desc desc; /* compact, no mask */
    data_kind              kind;
    uint64_t               seed;
} attention_case;

/* The emulated driver's part: every row of the table at a size with partial tiles and several turns of the
 * pipeline; a longer one, and every kind of data, for one or two head dims. */
static bool in_brief_matrix(const check *c, int pair, int d, int group, data_kind kind)
{
    int  rows = pairs[pair][0], keys = pairs[pair][1];
    bool partial = rows == 113 && keys == 203;
    if (heads[group][1] != 2)
        return false;
    if (kind != NORMAL)
        return partial && d == 64 && !c->quick;
    if (rows == 256 && keys == 512)
        return (d == 64 || d == 128) && !c->quick;
    if (rows == 239)
        return d == 40 || d == 64;
    return partial && (d == 256 || d == 192 || d == 128 || d == 96 || d == 64 || d == 40 || d == 32);
}

/* Whether the case belongs to the run at all. */
static bool in_matrix(const check *c, int pair, int dim, int group, data_kind kind)
{
    int  d = head_dims[dim], rows = pairs[pair][0], keys = pairs[pair][1];
    bool some_pair =
        (rows == 113 && keys == 203) || (rows == 256 && keys == 512) || (rows == 1023 && keys == 1024);
    bool some_dim = d == 64 || d == 128 || d == 40;
    if (c->brief)
        return in_brief_matrix(c, pair, d, group, kind);
    if (kind != NORMAL)
        return some_pair && some_dim && heads[group][1] == 2 && !(c->quick && (d != 64 || rows != 256));
    if (!c->quick)
        return true;
    return heads[group][1] == 2 && (some_dim || d == 256) &&
           (some_pair || rows == 1 || rows == 239 || keys == 128);
}

static attention_case make_case(const check *c, int dtype, int pair, int dim, int group, data_kind kind)
{
    int64_t        size = (int64_t)pairs[pair][0] * pairs[pair][1];
    attention_case made = {
        .desc =
            {
                .size = sizeof made.desc,
                .dtype = dtype == 0 ? PTXPACK_F16 : PTXPACK_BF16,
                .batch = size > 2000000 || c->brief ? 1 : 2,
                .seqlen_q = pairs[pair][0],
                .seqlen_kv = pairs[pair][1],
                .heads_q = !c->brief ? heads[group][0] : head_dims[dim] == 64 ? 4 : 2,
                .heads_kv = !c->brief ? heads[group][1] : head_dims[dim] == 64 ? 2 : 1,
                .head_dim = head_dims[dim],
                .scale = kind == SCALED ? 0.7f : 0,
            },
        .kind = kind,
        .seed = c->seed +
                (uint64_t)((((dtype * PAIRS + pair) * HEAD_DIMS + dim) * HEADS + group) * KINDS + (int)kind),
    };
    return made;
}

static void name_case(const attention_case *a, char name[128])
{
    const ptxpack_attention_desc *d = &a->desc;
    snprintf(name, 128, "attention %s d%d %d/%d %dx%d %s", ptxpack_dtype_name(d->dtype), (int)d->head_dim,
             (int)d->heads_q, (int)d->heads_kv, (int)d->seqlen_q, (int)d->seqlen_kv, kind_names[a->kind]);
}

/* ---- one case's data and reference -------------------------------------------------------------- */
/* What the reference says of the compared rows, for one mask. */
typedef struct expected {
    double *ref, *rounded, *lse; /* [row_count][head_dim], exact and rounded; [row_count] */
} expected;

/* Compact tensors, and what is expected of `rows`. */
typedef struct problem {
    attention_case  a;
    size_t          elements[TENSOR_COUNT];
    uint16_t       *tensor[TENSOR_COUNT]; /* q, k, v; o is not used */
    attention_row  *rows;                 /* compared; in order of batch, head, row */
    size_t          row_count;
    expected        by_mask[MASKS], want; /* want: of the mask in a.desc */
} problem;

static void fill_value(const problem *p, int tensor, uint16_t value)
{
    for (size_t i = 0; i < p->elements[tensor]; i++)
        p->tensor[tensor][i] = value;
}

static void multiply_by(const problem *p, int tensor, float factor)
{
    ptxpack_dtype type = p->a.desc.dtype;
    for (size_t i = 0; i < p->elements[tensor]; i++) {
        float value = ptxpack_to_float(type, p->tensor[tensor][i]) * factor;
        value = fmaxf(-60000, fminf(60000, value)); /* finite in every type */
        p->tensor[tensor][i] = ptxpack_from_float(type, value);
    }
}

/* Keys whose scores climb from 0 to 60 along the sequence, or fall: the running maximum keeps moving. */
static void fill_slope(const problem *p, bool rising)
{
    const ptxpack_attention_desc *d = &p->a.desc;
    size_t                        row = (size_t)d->heads_kv * (size_t)d->head_dim;
    fill_value(p, TENSOR_Q, ptxpack_from_float(d->dtype, 1));
    for (size_t i = 0; i < p->elements[TENSOR_K]; i++) {
        size_t j = i / row % (size_t)d->seqlen_kv, step = rising ? j : (size_t)d->seqlen_kv - 1 - j;
        double height = 60.0 * (double)step / d->seqlen_kv / sqrt(d->head_dim);
        p->tensor[TENSOR_K][i] = ptxpack_from_float(d->dtype, (float)height);
    }
}

static void fill_data(problem *p)
{
    ptxpack_dtype type = p->a.desc.dtype;
    random_state  random = random_start(p->a.seed);
    for (int t = TENSOR_Q; t <= TENSOR_V; t++) {
        random_normal(&random, type, p->tensor[t], p->elements[t]);
        if (p->a.kind == EQUAL)
            fill_value(p, t, ptxpack_from_float(type, 1));
        if (p->a.kind == HUGE_VALUES) /* scores of some 10^4, nearly one-hot; outputs near the largest f16 */
            multiply_by(p, t, t == TENSOR_V ? 8192 : 64);
        if (p->a.kind == TINY)
            multiply_by(p, t, type == PTXPACK_F16 ? 0x1p-18f : 0x1p-60f);
        if (p->a.kind == REPEATED && t != TENSOR_Q) { /* every batch as the first: stride 0 */
            size_t part = p->elements[t] / (size_t)p->a.desc.batch;
            for (size_t i = part; i < p->elements[t]; i++)
                p->tensor[t][i] = p->tensor[t][i - part];
        }
    }
    if (p->a.kind == RISING || p->a.kind == FALLING)
        fill_slope(p, p->a.kind == RISING);
}

/* How many rows of each head to compare: all, or as many as take about two seconds a mask. */
static size_t rows_per_head(const ptxpack_attention_desc *d)
{
    double all = d->seqlen_q, heads_in_all = (double)d->batch * d->heads_q;
    double affordable = 4e9 / (heads_in_all * d->seqlen_kv * 4.0 * d->head_dim);
    return (size_t)(affordable >= all ? all : affordable < 96 ? fmin(96, all) : affordable);
}

/* The first and last row of every head, and one at random from each of equal parts between. */
static void pick_rows(problem *p)
{
    const ptxpack_attention_desc *d = &p->a.desc;
    random_state                  random = random_start(~p->a.seed);
    size_t                        per_head = rows_per_head(d), rows = (size_t)d->seqlen_q;
    for (size_t n = 0; n < p->row_count; n++) {
        size_t i = n % per_head, head = n / per_head, first = i * rows / per_head,
               next = (i + 1) * rows / per_head;
        size_t row = i == 0 ? 0 : i + 1 == per_head ? rows - 1 : first + random_below(&random, next - first);
        p->rows[n] = (attention_row){(int32_t)(head / (size_t)d->heads_q),
                                     (int32_t)(head % (size_t)d->heads_q), (int32_t)row};
    }
}

static void free_problem(problem *p)
{
    for (int t = 0; t < TENSOR_COUNT; t++)
        free(p->tensor[t]);
    free(p->rows);
    for (int mask = 0; mask < MASKS; mask++) {
        free(p->by_mask[mask].ref);
        free(p->by_mask[mask].rounded);
        free(p->by_mask[mask].lse);
    }
}

static bool make_problem(const attention_case *a, problem *p)
{
    const ptxpack_attention_desc *d = &a->desc;
    size_t dim = (size_t)d->head_dim, rows_q = (size_t)d->batch * (size_t)d->seqlen_q * (size_t)d->heads_q;
    size_t rows_kv = (size_t)d->batch * (size_t)d->seqlen_kv * (size_t)d->heads_kv;
    memset(p, 0, sizeof *p);
    p->a = *a;
    p->row_count = (size_t)d->batch * (size_t)d->heads_q * rows_per_head(d);
    bool ok = true;
    for (int t = TENSOR_Q; t <= TENSOR_V; t++) {
        p->elements[t] = (t == TENSOR_Q ? rows_q : rows_kv) * dim;
        p->tensor[t] = (uint16_t *)malloc(p->elements[t] * sizeof(uint16_t));
        ok = ok && p->tensor[t] != NULL;
    }
    p->rows = (attention_row *)malloc(p->row_count * sizeof *p->rows);
    for (int mask = 0; mask < MASKS; mask++) {
        expected *e = &p->by_mask[mask];
        e->ref = (double *)malloc(p->row_count * dim * sizeof(double));
        e->rounded = (double *)malloc(p->row_count * dim * sizeof(double));
        e->lse = (double *)malloc(p->row_count * sizeof(double));
        ok = ok && e->ref != NULL && e->rounded != NULL && e->lse != NULL;
    }
    if (!ok || p->rows == NULL)
        return false;
    fill_data(p);
    pick_rows(p);
    return true;
}

static void set_mask(problem *p, int mask)
{
    p->a.desc.mask = (ptxpack_mask)mask;
    p->want = p->by_mask[mask];
}

/* For every mask, on this thread alone: cases run side by side. */
static bool refer(problem *p)
{
    bool ok = true;
    for (int mask = 0; mask < MASKS && ok; mask++) {
        attention_reference *reference;
        set_mask(p, mask);
        const attention_row_results results = {p->want.ref, p->want.rounded, p->want.lse};
        ok = attention_reference_open(&p->a.desc, p->tensor[TENSOR_Q], p->tensor[TENSOR_K],
                                      p->tensor[TENSOR_V], &reference) == PTXPACK_OK;
        ok = ok && attention_reference_rows(reference, p->rows, p->row_count, 1, &results) == PTXPACK_OK;
        attention_reference_close(reference);
    }
    return ok;
}

/* ---- judging an output -------------------------------------------------------------------------- */
/* Room for the failure's line, and for the map under it. */
enum { WHAT = 8192 };

/* The largest errors of some compared rows. */
typedef struct errors {
    double out, rounded, ref; /* of the output, of the rounded maths; and the largest |exact| */
} errors;

static double element_error(const problem *p, const check_output *out, size_t n, int c)
{
    const attention_row *r = &p->rows[n];
    return fabs(ptxpack_to_float(p->a.desc.dtype, check_output_row(out, r->batch, r->row, r->head)[c]) -
                p->want.ref[n * (size_t)p->a.desc.head_dim + (size_t)c]);
}

static errors measure(const problem *p, const check_output *out, size_t first, size_t count)
{
    errors e = {0, 0, 0};
    int    dim = p->a.desc.head_dim;
    for (size_t n = first; n < first + count; n++)
        for (int c = 0; c < dim; c++) {
            double ref = p->want.ref[n * (size_t)dim + (size_t)c],
                   rounded = p->want.rounded[n * (size_t)dim + (size_t)c];
            e.out = verify_worse(e.out, element_error(p, out, n, c));
            e.rounded = verify_worse(e.rounded, fabs(rounded - ref));
            e.ref = verify_worse(e.ref, fabs(ref));
        }
    return e;
}

/* What a 16-row tile may err: see the top.  The last terms: one rounding, subnormal or not, and f32. */
static double tile_bound(ptxpack_dtype type, const errors *e)
{
    double unit = type == PTXPACK_F16 ? 0x1p-11 : 0x1p-8, smallest = type == PTXPACK_F16 ? 0x1p-24 : 0;
    return 3 * e->rounded + e->ref * (unit + 0x1p-16) + smallest;
}

/* A picture of the head that holds compared row `bad`: a line for 16 rows, a column for 8 channels.  X is
 * wrong, . is right; rows that were not compared do not count. */
static void draw_map(const problem *p, const check_output *out, size_t bad, char *text, size_t cap)
{
    size_t per_head = rows_per_head(&p->a.desc), first = bad / per_head * per_head, at = 0;
    size_t start = first + (bad - first) / TILE_ROWS / 16 * 16 * TILE_ROWS; /* 16 tiles around it */
    at += (size_t)snprintf(text, cap, "\n  batch %d head %d, 16 rows a line, 8 channels a column:",
                           (int)p->rows[bad].batch, (int)p->rows[bad].head);
    for (size_t n = start; n < first + per_head && n < start + 16 * TILE_ROWS && at + 64 < cap;
         n += TILE_ROWS) {
        size_t count = first + per_head - n < TILE_ROWS ? first + per_head - n : TILE_ROWS;
        errors e = measure(p, out, n, count);
        double bound = tile_bound(p->a.desc.dtype, &e);
        at += (size_t)snprintf(text + at, cap - at, "\n  row %5d  ", (int)p->rows[n].row);
        for (int c = 0; c < p->a.desc.head_dim && at + 2 < cap; c += 8) {
            bool right = true;
            for (size_t i = n; i < n + count; i++)
                for (int k = c; k < c + 8; k++)
                    right = right && element_error(p, out, i, k) <= bound;
            text[at++] = right ? '.' : 'X';
        }
        text[at] = '\0';
    }
}

/* The worst element of some compared rows, as a line. */
static void describe_worst(const problem *p, const check_output *out, size_t first, size_t count,
                           const char *rule, double bound, char *what)
{
    size_t worst = first;
    int    channel = 0;
    double most = -1;
    for (size_t n = first; n < first + count; n++)
        for (int c = 0; c < p->a.desc.head_dim; c++) {
            double error = element_error(p, out, n, c);
            if (!(error <= most)) {
                most = error;
                worst = n;
                channel = c;
            }
        }
    const attention_row *r = &p->rows[worst];
    const uint16_t      *got = check_output_row(out, r->batch, r->row, r->head);
    double exact = p->want.ref[worst * (size_t)p->a.desc.head_dim + (size_t)channel];
    int    length = snprintf(what, WHAT,
                             "%s: o[batch %d, row %d, head %d, %d] is %.8g, exact %.8g, allowed %.3g", rule,
                             (int)r->batch, (int)r->row, (int)r->head, channel,
                             (double)ptxpack_to_float(p->a.desc.dtype, got[channel]), exact, bound);
    draw_map(p, out, worst, what + length, WHAT - (size_t)length);
}

/* Compare with the reference: FlashAttention's rule, the tiles, the LSE. */
static bool judge_values(const problem *p, const check_output *out, char *what)
{
    const ptxpack_attention_desc *d = &p->a.desc;
    size_t per_head = rows_per_head(d);
    errors all = measure(p, out, 0, p->row_count);
    double bound = 2 * all.rounded + verify_atol(d->dtype, p->want.ref, p->row_count * (size_t)d->head_dim);
    if (!(all.out <= bound)) {
        describe_worst(p, out, 0, p->row_count, "all rows", bound, what);
        return false;
    }
    for (size_t n = 0; n < p->row_count;) {
        size_t in_head = per_head - n % per_head, count = in_head < TILE_ROWS ? in_head : TILE_ROWS;
        errors e = measure(p, out, n, count);
        bound = tile_bound(d->dtype, &e);
        if (!(e.out <= bound)) {
            describe_worst(p, out, n, count, "16 rows", bound, what);
            return false;
        }
        n += count;
    }
    for (size_t n = 0; n < p->row_count; n++) {
        const attention_row *r = &p->rows[n];
        float lse = check_output_lse(out, r->batch, r->head)[r->row];
        if (!(fabs(lse - p->want.lse[n]) <= verify_lse_bound(p->want.lse[n])) &&
            !(isinf(p->want.lse[n]) && lse == p->want.lse[n])) {
            snprintf(what, WHAT, "lse[batch %d, head %d, row %d] is %.8g, exact %.8g", (int)r->batch,
                     (int)r->head, (int)r->row, (double)lse, p->want.lse[n]);
            return false;
        }
    }
    return true;
}

/* What holds for every row, compared or not: written, finite; 0 and -inf without keys. */
static bool judge_row(const ptxpack_attention_desc *d, const uint16_t *o, float lse, int32_t row, char *what)
{
    int64_t offset = d->mask == PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT ? d->seqlen_kv - d->seqlen_q : 0;
    bool    blind = d->mask != PTXPACK_MASK_NONE && row + offset < 0;
    for (int c = 0; c < d->head_dim; c++) {
        float value = ptxpack_to_float(d->dtype, o[c]);
        if (!isfinite(value) || (blind && value != 0)) {
            snprintf(what, WHAT, "o[row %d, %d] is %g%s", (int)row, c, (double)value,
                     blind ? "; the row has no key and must be 0" : o[c] == 0xffff ? ": not written" : "");
            return false;
        }
    }
    if (blind ? lse != -INFINITY : !isfinite(lse)) {
        snprintf(what, WHAT, "lse[row %d] is %g%s", (int)row, (double)lse,
                 blind ? "; without keys it is -inf" : "");
        return false;
    }
    return true;
}

static bool judge_rows(const problem *p, const check_output *out, char *what)
{
    const ptxpack_attention_desc *d = &p->a.desc;
    for (int32_t b = 0; b < d->batch; b++)
        for (int32_t h = 0; h < d->heads_q; h++)
            for (int32_t i = 0; i < d->seqlen_q; i++)
                if (!judge_row(d, check_output_row(out, b, i, h), check_output_lse(out, b, h)[i], i, what))
                    return false;
    return true;
}

/* ---- running a case ----------------------------------------------------------------------------- */
/* The problem's mask, the images' layout, and one row of kernels.def. */
static void run_one(check *c, const problem *p, check_images *images, const ptxpack_variant *row,
                    const char *name)
{
    check_output out;
    char        *what = (char *)malloc(WHAT);
    if (what == NULL) {
        check_broken(c, name, "no memory");
    } else if (!check_images_run(c, images, p->a.desc.mask, row, &out)) {
        check_broken(c, name, images->line);
    } else if (!out.repeats) {
        check_record(c, name, "a second run gave other bits");
    } else if (!judge_rows(p, &out, what) || !judge_values(p, &out, what) ||
               !check_output_guards(&out, what, WHAT)) {
        check_record(c, name, what);
    } else {
        check_record(c, name, NULL);
    }
    free(what);
}

/* Whether `row` is one to try for head_dim: the smallest HEAD_DIM that covers it. */
static bool row_suits(const check *c, const ptxpack_variant *row, const ptxpack_attention_desc *d)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    char                   why[256];
    int64_t                dim = ptxpack_variant_parameter(row, "HEAD_DIM", 0);
    if (strcmp(row->op, "attention") != 0 || dim < d->head_dim ||
        (d->dtype == PTXPACK_BF16 && (row->flags & PTXPACK_VARIANT_NO_BF16)) ||
        ptxpack_variant_refusal(row, &ptxpack_device(c->gpu.handle)->caps, why, sizeof why) != NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        int64_t other = ptxpack_variant_parameter(&rows[i], "HEAD_DIM", 0);
        if (strcmp(rows[i].op, "attention") == 0 && other >= d->head_dim && other < dim)
            return false;
    }
    return true;
}

/* Every mask and row, in one layout. */
static void run_layout(check *c, problem *p, check_images *images, check_layout layout, const char *name)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    char                   full[320];
    if (!check_images_fill(images, &p->a.desc, layout, p->a.kind == REPEATED, p->tensor)) {
        check_broken(c, name, "no memory");
        return;
    }
    for (int mask = 0; mask < MASKS; mask++) {
        set_mask(p, mask);
        for (size_t i = 0; i < count && !atomic_load(&c->broken); i++) {
            if (!row_suits(c, &rows[i], &p->a.desc))
                continue;
            snprintf(full, sizeof full, "%s %s %s %s", name, mask_names[mask], check_layout_names[layout],
                     rows[i].id);
            run_one(c, p, images, &rows[i], full);
        }
    }
}

static void run_case(check *c, const attention_case *a, check_images *images)
{
    problem p;
    char    name[128];
    name_case(a, name);
    if (!make_problem(a, &p))
        check_broken(c, name, "no memory");
    else if (!refer(&p))
        check_broken(c, name, ptxpack_detail(NULL));
    int layouts = c->brief && a->desc.head_dim != 40 ? 1 : CHECK_LAYOUTS;
    for (int layout = 0; layout < layouts && !atomic_load(&c->broken); layout++)
        run_layout(c, &p, images, (check_layout)layout, name);
    free_problem(&p);
}

/* ---- all cases, on threads ---------------------------------------------------------------------- */
typedef struct case_list {
    check          *c;
    attention_case *cases;
    size_t          count;
    atomic_size_t   next;
} case_list;

static void list_cases(check *c, case_list *list)
{
    for (int pair = 0; pair < PAIRS; pair++)
        for (int dim = 0; dim < HEAD_DIMS; dim++)
            for (int group = 0; group < HEADS; group++)
                for (int kind = 0; kind < KINDS; kind++)
                    for (int dtype = 0; dtype < 2; dtype++) {
                        char name[128];
                        if (!in_matrix(c, pair, dim, group, (data_kind)kind))
                            continue;
                        attention_case a = make_case(c, dtype, pair, dim, group, (data_kind)kind);
                        name_case(&a, name);
                        if (check_wanted(c, name))
                            list->cases[list->count++] = a;
                    }
}

static void *run_cases(void *context)
{
    case_list   *list = (case_list *)context;
    check       *c = list->c;
    check_images images = {.line = ""};
    size_t       next;
    bool         terminal = !c->quiet && isatty(STDERR_FILENO);
    pthread_mutex_lock(&c->gpu_lock);
    if (!device_attach(&c->gpu))
        check_broken(c, "attention", c->gpu.line);
    pthread_mutex_unlock(&c->gpu_lock);
    while (!atomic_load(&c->broken) && (next = atomic_fetch_add(&list->next, 1)) < list->count) {
        run_case(c, &list->cases[next], &images);
        if (terminal) {
            pthread_mutex_lock(&c->print_lock);
            fprintf(stderr, "\r%zu of %zu cases ", next + 1, list->count);
            pthread_mutex_unlock(&c->print_lock);
        }
    }
    pthread_mutex_lock(&c->gpu_lock);
    check_images_free(c, &images);
    pthread_mutex_unlock(&c->gpu_lock);
    return NULL;
}

void check_attention(check *c)
{
    case_list list = {.c = c};
    pthread_t threads[256];
    int       started = 0;
    list.cases = (attention_case *)calloc((size_t)PAIRS * HEAD_DIMS * HEADS * KINDS * 2, sizeof *list.cases);
    if (list.cases == NULL) {
        check_broken(c, "attention", "no memory");
        return;
    }
    list_cases(c, &list);
    for (size_t i = 0; i < list.count && c->list; i++) {
        char name[128];
        name_case(&list.cases[i], name);
        puts(name);
    }
    if (!c->list && !atomic_load(&c->broken)) {
        while (started < c->threads - 1 && started < 256 &&
               pthread_create(&threads[started], NULL, run_cases, &list) == 0)
            started++;
        run_cases(&list);
        for (int i = 0; i < started; i++)
            pthread_join(threads[i], NULL);
    }
    free(list.cases);
}
