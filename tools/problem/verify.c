/* verify.c - FlashAttention's own test of an attention result. */
#include "verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/attention/inspect.h"
#include "attention_lengths.h"
#include "random.h"

static double round_trip(ptxpack_dtype type, double value)
{
    return ptxpack_to_float(type, ptxpack_from_float(type, (float)value));
}

double verify_atol(ptxpack_dtype type, const double *ref, size_t count)
{
    double most = 0;
    for (size_t i = 0; i < count; i++) {
        double value = round_trip(type, ref[i]);
        double back = round_trip(type, round_trip(type, value + 0.3) - 0.3);
        most = fmax(most, fabs(back - value));
    }
    return 2 * most;
}

double verify_worse(double a, double b) { return isnan(a) || isnan(b) ? (double)NAN : fmax(a, b); }

/* lse = m + ln(sum).  Scores are f32 sums of up to 576 products and carry a relative error of some 2^-20 of
 * their size; ex2.approx and lg2.approx add 2^-21 or so.  1e-3 + |lse| 2^-16 leaves room for cancellation in
 * q.k, and is far below what a lost key or a wrong scale would do to short rows. Hopper's wgmma of fp8 keeps 13
 * fraction bits of a sum and cuts the rest off, every 32 products: scores of normal numbers err by up to 2.4e-3
 * times both descales with the default scale, large scores in proportion, and with a larger scale in proportion
 * to that. tanh.approx of a softcap has a relative error of 2^-10.987, of scores that are at most the cap and,
 * where they count, not far from the LSE.  Elements of q8_0 become f16, each with an error of up to 2^-12 of it: scores of
 * normal numbers err by some 2e-4, and of rows whose q is twice as large by 1.5e-3 once in many thousands. */
double verify_lse_bound(const ptxpack_attention_desc *desc, double exact)
{
    double capped = fmin(desc->softcap, fabs(exact) + 32) * 5e-4;
    if (desc->dtype == PTXPACK_E4M3)
        return 2e-2 * fmax(1, desc->scale * sqrt(desc->head_dim)) + fabs(exact) * 0x1p-8 + capped;
    if (attention_has_blocks(desc))
        return 4e-3 + fabs(exact) * 0x1p-11 + capped;
    return 1e-3 + fabs(exact) * 0x1p-16 + capped;
}

double verify_rtol(const ptxpack_attention_desc *desc) { return desc->softcap > 0 ? 3 : 2; }

int verify_threads(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > 256 ? 256 : (int)count;
}

/* The number of rows that take about five seconds: a thread makes some 1.5e9 multiplications a second, 4 for
 * each key and channel (two products, exact and rounded). */
static size_t affordable_rows(const ptxpack_attention_desc *desc)
{
    double cost = 4.0 * desc->seqlen_kv * (desc->head_dim + attention_value_dim(desc) + 32) /
                  2; /* 16: exponentials, rounding */
    double rows = 5 * 1.5e9 * verify_threads() / cost;
    return rows < 64 ? 64 : rows > 1e9 ? 1000000000 : (size_t)rows;
}

/* Picks all rows, or `count` of them at random (one from each of `count` equal parts, so in order). */
static void pick_rows(const ptxpack_attention_desc *desc, const attention_reference *reference,
                      attention_row *rows, size_t count, size_t total, uint64_t seed)
{
    random_state   random = random_start(seed);
    attention_walk walk = {desc, reference, 0, 0};
    for (size_t i = 0; i < count; i++) {
        size_t first = (size_t)((double)i * (double)total / (double)count);
        size_t next = i + 1 < count ? (size_t)((double)(i + 1) * (double)total / (double)count) : total;
        size_t n = count == total ? i : first + random_below(&random, next > first ? next - first : 1);
        rows[i] = attention_walk_to(&walk, n);
    }
}

static void compare_row(const ptxpack_attention_desc *desc, const uint16_t *o, const float *lse,
                        const double *ref, const double *rounded, double exact_lse, verify_result *result)
{
    ptxpack_dtype type = attention_tensor_type(desc, TENSOR_O);
    for (int c = 0; c < attention_value_dim(desc); c++) {
        double error = fabs(ptxpack_to_float(type, o[c]) - ref[c]);
        result->out_error = verify_worse(result->out_error, error);
        result->rounded_error = verify_worse(result->rounded_error, fabs(rounded[c] - ref[c]));
    }
    if (lse == NULL || (isinf(exact_lse) && *lse == exact_lse))
        return;
    double error = fabs(*lse - exact_lse), bound = verify_lse_bound(desc, isinf(exact_lse) ? 0 : exact_lse);
    if (isnan(result->lse_error))
        return;                                                      /* no good row may replace a bad one */
    if (!(error * result->lse_bound <= result->lse_error * bound)) { /* the row nearest to its bound */
        result->lse_error = error;
        result->lse_bound = bound;
    }
}

/* Compares `count` of all rows. */
static ptxpack_status verify_rows(const ptxpack_attention_desc *desc, const attention_geometry *geometry,
                                  const attention_reference       *reference,
                                  const ptxpack_attention_lengths *lengths, const uint16_t *o, const float *lse,
                                  size_t count, uint64_t seed, verify_result *result)
{
    size_t         d = (size_t)attention_value_dim(desc);
    attention_row *rows = (attention_row *)calloc(count + 1, sizeof *rows);
    double        *values = (double *)calloc(count + 1, (2 * d + 1) * sizeof *values);
    ptxpack_status status = PTXPACK_OK;
    if (rows == NULL || values == NULL)
        status = ptxpack_fail(NULL, PTXPACK_E_MEMORY, "no memory to verify %zu rows", count);
    if (status == PTXPACK_OK) {
        const attention_row_results results = {values, values + count * d, values + 2 * count * d};
        pick_rows(desc, reference, rows, count, result->total, seed);
        status = attention_reference_rows(reference, rows, count, verify_threads(), &results);
        for (size_t i = 0; i < count && status == PTXPACK_OK; i++)
            compare_row(desc, o + attention_row_in_o(geometry, lengths, &rows[i]),
                        lse != NULL ? lse + attention_row_in_lse(desc, lengths, &rows[i]) : NULL,
                        results.o + i * d, results.rounded + i * d, results.lse[i], result);
        result->rows = count;
        result->atol = verify_atol(attention_tensor_type(desc, TENSOR_O), values, count * d);
        result->bound = verify_rtol(desc) * result->rounded_error + result->atol;
        result->pass = result->out_error <= result->bound && result->lse_error <= result->lse_bound;
    }
    free(values);
    free(rows);
    return status;
}

ptxpack_status verify_attention_lengths(const ptxpack_attention_desc *desc, const void *q, const void *k,
                                        const void *v, const ptxpack_descales *descales,
                                        const ptxpack_attention_lengths *lengths, const uint16_t *o,
                                        const float *lse, size_t most, uint64_t seed, verify_result *result)
{
    attention_geometry   geometry;
    char                 line[PLAN_LINE];
    attention_reference *reference = NULL;
    *result = (verify_result){.rows = 0};
    ptxpack_status status = ptxpack_attention_resolve(desc, &geometry, line);
    if (status != PTXPACK_OK)
        return ptxpack_fail(NULL, status, "%s", line);
    result->lse_bound = verify_lse_bound(desc, 0);
    status = attention_reference_open(desc, q, k, v, descales, lengths, &reference);
    if (status == PTXPACK_OK) {
        size_t limit = most > 0 ? most : affordable_rows(desc);
        result->total = attention_walk_total(&(attention_walk){desc, reference, 0, 0});
        status = verify_rows(desc, &geometry, reference, lengths, o, lse,
                             result->total < limit ? result->total : limit, seed, result);
    }
    attention_reference_close(reference);
    return status;
}

ptxpack_status verify_attention(const ptxpack_attention_desc *desc, const void *q, const void *k, const void *v,
                                const ptxpack_descales *descales, const uint16_t *o, const float *lse,
                                size_t most, uint64_t seed, verify_result *result)
{
    return verify_attention_lengths(desc, q, k, v, descales, NULL, o, lse, most, seed, result);
}
