/* verify.h - FlashAttention's own test of an attention result, against the CPU in double precision.
 *
 *   max|out - ref| <= rtol max|pt - ref| + 2 max|(ref + 0.3 - 0.3) - ref|
 *
 * rtol is 2, or 3 with a softcap.  ref is exact, pt is the same maths with S, P and O rounded to the element
 * type, and the last term is what a sum in that type loses.  For fp8, S, O and the last term are bf16, and P is
 * e4m3.  FlashAttention's test rounds P after the division by its sum, so that long rows lose most of P; this
 * test rounds it as host/attention/reference.h says, which is stricter. */
#ifndef PTXPACK_VERIFY_H
#define PTXPACK_VERIFY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "host/attention/attention.h"
#include "host/attention/inspect.h"

typedef struct verify_result {
    size_t rows, total;                           /* checked, and in all                               */
    double out_error, rounded_error, atol, bound; /* as above: bound is the right side                 */
    double lse_error, lse_bound;
    bool   pass;
} verify_result;

/* 2 max|(ref + 0.3 - 0.3) - ref| in the element type. */
double verify_atol(ptxpack_dtype type, const double *ref, size_t count);
double verify_rtol(const ptxpack_attention_desc *desc);
/* How far an LSE may be from the exact one because of the arithmetic of kernels for `desc`. */
double verify_lse_bound(const ptxpack_attention_desc *desc, double exact);
/* The larger of two errors; NaN, which fmax ignores, is the largest. */
double verify_worse(double a, double b);
int    verify_threads(void); /* one per processor */

/* Checks o (laid out by desc->o, always of 16 bits) and lse (NULL: not checked).  At most `most` rows, a random
 * sample from `seed`, are compared; 0: as many as take a few seconds.  The line of a failure is
 * ptxpack_detail(NULL). */
ptxpack_status verify_attention(const ptxpack_attention_desc *desc, const void *q, const void *k, const void *v,
                                const ptxpack_descales *descales, const uint16_t *o, const float *lse,
                                size_t most, uint64_t seed, verify_result *result);
/* The same of sequences with lengths of their own; NULL: they have none. */
ptxpack_status verify_attention_lengths(const ptxpack_attention_desc *desc, const void *q, const void *k,
                                        const void *v, const ptxpack_descales *descales,
                                        const ptxpack_attention_lengths *lengths, const uint16_t *o,
                                        const float *lse, size_t most, uint64_t seed, verify_result *result);
#endif
