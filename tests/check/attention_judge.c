/* attention_judge.c - whether an output of attention is right: tests/check/attention.c says what is allowed. */
#include "attention_judge.h"

#include <math.h>
#include <stdio.h>

#include "tools/problem/verify.h"

enum { TILE_ROWS = 16, DOMINATED = 500 };
#define ONE_KEY 0x1p-14 /* the relative error of a row that one key dominates */

/* The largest errors of some of the compared rows. */
typedef struct errors {
    double out, rounded, ref; /* of the output, of the rounded maths; and the largest |exact| */
} errors;

static ptxpack_dtype o_type(const attention_compared *p) { return attention_tensor_type(&p->desc, TENSOR_O); }

static double element_error(const attention_compared *p, const check_output *out, size_t n, int c)
{
    const attention_row *r = &p->rows[n];
    return fabs(ptxpack_to_float(o_type(p), check_output_row(out, r->batch, r->row, r->head)[c]) -
                p->want.ref[n * (size_t)p->desc.head_dim + (size_t)c]);
}

static errors measure(const attention_compared *p, const check_output *out, size_t first, size_t count)
{
    errors e = {0, 0, 0};
    int    dim = p->desc.head_dim;
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

/* The allowed error of a 16-row tile, as the top of the file says.  The last terms allow for roundings, also of
 * subnormal numbers, and for f32. */
static double tile_bound(const attention_compared *p, const check_output *out, const errors *e)
{
    ptxpack_dtype type = o_type(p);
    double        unit = type == PTXPACK_F16 ? 0x1p-11 : 0x1p-8, smallest = type == PTXPACK_F16 ? 0x1p-24 : 0;
    double        factor = p->desc.dtype == PTXPACK_E4M3 ? 2 : 1.5;
    int           roundings = out->speculative && p->desc.dtype != PTXPACK_E4M3 ? 2 : 1;
    return factor * verify_rtol(&p->desc) * e->rounded + e->ref * (roundings * unit + 0x1p-16) + smallest;
}

/* Draws a picture of the head that holds compared row `bad`: a line for 16 rows, a column for 8 channels.  X is
 * wrong, . is right; rows that were not compared are ignored. */
static void draw_map(const attention_compared *p, const check_output *out, size_t bad, char *text, size_t cap)
{
    size_t per_head = p->per_head, first = bad / per_head * per_head, at = 0;
    size_t start = first + (bad - first) / TILE_ROWS / 16 * 16 * TILE_ROWS; /* 16 tiles around it */
    at += (size_t)snprintf(text, cap, "\n  batch %d head %d, 16 rows a line, 8 channels a column:",
                           (int)p->rows[bad].batch, (int)p->rows[bad].head);
    for (size_t n = start; n < first + per_head && n < start + 16 * TILE_ROWS && at + 64 < cap;
         n += TILE_ROWS) {
        size_t count = first + per_head - n < TILE_ROWS ? first + per_head - n : TILE_ROWS;
        errors e = measure(p, out, n, count);
        double bound = tile_bound(p, out, &e);
        at += (size_t)snprintf(text + at, cap - at, "\n  row %5d  ", (int)p->rows[n].row);
        for (int c = 0; c < p->desc.head_dim && at + 2 < cap; c += 8) {
            bool right = true;
            for (size_t i = n; i < n + count; i++)
                for (int k = c; k < c + 8; k++)
                    right = right && element_error(p, out, i, k) <= bound;
            text[at++] = right ? '.' : 'X';
        }
        text[at] = '\0';
    }
}

/* Writes a line about the worst element of some compared rows. */
static void describe_worst(const attention_compared *p, const check_output *out, size_t first, size_t count,
                           const char *rule, double bound, char *what)
{
    size_t worst = first;
    int    channel = 0;
    double most = -1;
    for (size_t n = first; n < first + count; n++)
        for (int c = 0; c < p->desc.head_dim; c++) {
            double error = element_error(p, out, n, c);
            if (!(error <= most)) {
                most = error;
                worst = n;
                channel = c;
            }
        }
    const attention_row *r = &p->rows[worst];
    const uint16_t      *got = check_output_row(out, r->batch, r->row, r->head);
    double               exact = p->want.ref[worst * (size_t)p->desc.head_dim + (size_t)channel];
    int                  length = snprintf(what, ATTENTION_WHAT,
                                           "%s: o[batch %d, row %d, head %d, %d] is %.8g, exact %.8g, allowed %.3g", rule,
                                           (int)r->batch, (int)r->row, (int)r->head, channel,
                                           (double)ptxpack_to_float(o_type(p), got[channel]), exact, bound);
    draw_map(p, out, worst, what + length, ATTENTION_WHAT - (size_t)length);
}

/* Whether one key dominates compared row n: then the maths in the element type gives its V, without any error. */
static bool is_dominated(const attention_compared *p, size_t n)
{
    const size_t dim = (size_t)p->desc.head_dim;
    double       largest = 0, error = 0;
    for (size_t i = n * dim; i < (n + 1) * dim; i++) {
        largest = fmax(largest, fabs(p->want.ref[i]));
        error = fmax(error, fabs(p->want.rounded[i] - p->want.ref[i]));
    }
    return error <= largest * ONE_KEY;
}

/* If one key dominates most rows, nearly all their elements must be its V exactly: a few such rows say too little. */
static bool judge_dominated(const attention_compared *p, const check_output *out, char *what)
{
    const size_t dim = (size_t)p->desc.head_dim;
    size_t       all = 0, other = 0;
    for (size_t n = 0; n < p->row_count; n++) {
        if (!is_dominated(p, n))
            continue;
        const attention_row *r = &p->rows[n];
        const uint16_t      *got = check_output_row(out, r->batch, r->row, r->head);
        for (size_t c = 0; c < dim; c++)
            other += ptxpack_to_float(o_type(p), got[c]) != (float)p->want.rounded[n * dim + c];
        all += dim;
    }
    if (other * DOMINATED <= all || 2 * all < p->row_count * dim)
        return true;
    snprintf(what, ATTENTION_WHAT,
             "of the rows that one key dominates, %zu of %zu elements are not its V: more than one in %d",
             other, all, (int)DOMINATED);
    return false;
}

/* Compares with the reference: FlashAttention's rule, the tiles, the LSE. */
static bool judge_values(const attention_compared *p, const check_output *out, char *what)
{
    const ptxpack_attention_desc *d = &p->desc;
    size_t                        per_head = p->per_head;
    errors                        all = measure(p, out, 0, p->row_count);
    double                        bound = verify_rtol(d) * all.rounded +
                   verify_atol(o_type(p), p->want.ref, p->row_count * (size_t)d->head_dim);
    if (!(all.out <= bound)) {
        describe_worst(p, out, 0, p->row_count, "all rows", bound, what);
        return false;
    }
    for (size_t n = 0; n < p->row_count;) {
        size_t in_head = per_head - n % per_head, count = in_head < TILE_ROWS ? in_head : TILE_ROWS;
        errors e = measure(p, out, n, count);
        bound = tile_bound(p, out, &e);
        if (!(e.out <= bound)) {
            describe_worst(p, out, n, count, "16 rows", bound, what);
            return false;
        }
        n += count;
    }
    for (size_t n = 0; n < p->row_count; n++) {
        const attention_row *r = &p->rows[n];
        float                lse = check_output_lse(out, r->batch, r->head)[r->row];
        if (!(fabs(lse - p->want.lse[n]) <= verify_lse_bound(d, p->want.lse[n])) &&
            !(isinf(p->want.lse[n]) && lse == p->want.lse[n])) {
            snprintf(what, ATTENTION_WHAT, "lse[batch %d, head %d, row %d] is %.8g, exact %.8g", (int)r->batch,
                     (int)r->head, (int)r->row, (double)lse, p->want.lse[n]);
            return false;
        }
    }
    return true;
}

/* Whether the row sees no key. */
static bool is_blind(const ptxpack_attention_desc *d, int64_t row)
{
    if (d->mask == PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT || d->mask == PTXPACK_MASK_WINDOW_BOTTOM_RIGHT)
        row += d->seqlen_kv - d->seqlen_q;
    return d->mask != PTXPACK_MASK_NONE && ((d->window_right >= 0 && row + d->window_right < 0) ||
                                            (d->mask >= PTXPACK_MASK_WINDOW_TOP_LEFT && d->window_left >= 0 &&
                                             row - d->window_left >= d->seqlen_kv));
}

/* Checks what holds for every row, compared or not: it is written and finite, or 0 and `blind_lse` without keys. */
static bool judge_row(const ptxpack_attention_desc *d, const uint16_t *o, float lse, int32_t row,
                      float blind_lse, char *what)
{
    bool blind = is_blind(d, row);
    for (int c = 0; c < d->head_dim; c++) {
        float value = ptxpack_to_float(attention_tensor_type(d, TENSOR_O), o[c]);
        if (!isfinite(value) || (blind && value != 0)) {
            snprintf(what, ATTENTION_WHAT, "o[row %d, %d] is %g%s", (int)row, c, (double)value,
                     blind            ? "; the row has no key and must be 0"
                     : o[c] == 0xffff ? ": not written"
                                      : "");
            return false;
        }
    }
    if (blind ? lse != blind_lse : !isfinite(lse)) {
        snprintf(what, ATTENTION_WHAT, "lse[row %d] is %g%s", (int)row, (double)lse,
                 blind ? "; without keys it is -inf, or the sink" : "");
        return false;
    }
    return true;
}

static bool judge_rows(const attention_compared *p, const check_output *out, char *what)
{
    const ptxpack_attention_desc *d = &p->desc;
    for (int32_t b = 0; b < d->batch; b++)
        for (int32_t h = 0; h < d->heads_q; h++)
            for (int32_t i = 0; i < d->seqlen_q; i++)
                if (!judge_row(d, check_output_row(out, b, i, h), check_output_lse(out, b, h)[i], i,
                               p->sinks != NULL ? p->sinks[h] : -INFINITY, what))
                    return false;
    return true;
}

bool attention_judge(const attention_compared *p, const check_output *out, char *what)
{
    const bool exact = p->desc.dtype != PTXPACK_E4M3 && p->desc.softcap == 0;
    return judge_rows(p, out, what) && judge_values(p, out, what) && (!exact || judge_dominated(p, out, what));
}
