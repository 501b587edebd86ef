/* verify.h - FlashAttention's own test of an attention result, against the CPU in double precision.
 *
 *   max|out - ref| <= 2 max|pt - ref| + 2 max|(ref + 0.3 - 0.3) - ref|
 *
 * ref is exact, pt is the same maths with S, P and O rounded to the element type, and the last term is
 * what a sum in that type loses. */
#ifndef PTXPACK_VERIFY_H
#define PTXPACK_VERIFY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "attention.h"
#include "attention_reference.h"

typedef struct verify_result {
    size_t rows, total;                          /* checked, and in all                               */
    double out_error, rounded_error, atol, bound; /* as above: bound is the right side                 */
    double lse_error, lse_bound;
    bool   pass;
} verify_result;

/* 2 max|(ref + 0.3 - 0.3) - ref| in the element type. */
double verify_atol(ptxpack_dtype type, const double *ref, size_t count);
/* How far f32 arithmetic may take an LSE from the exact one. */
double verify_lse_bound(double exact);
/* The larger of two errors; NaN, which fmax ignores, is the largest. */
double verify_worse(double a, double b);
/* A double, rounded to the element type in one step. */
uint16_t verify_round_once(ptxpack_dtype type, double value);
int    verify_threads(void); /* one per processor */

/* Check o (laid out by desc->o) and lse (NULL: not checked).  At most `most` rows, a random sample from
 * `seed`, are compared; 0: as many as take a few seconds.  A failure's line is ptxpack_detail(NULL). */
ptxpack_status verify_attention(const ptxpack_attention_desc *desc, const uint16_t *q, const uint16_t *k,
                                const uint16_t *v, const uint16_t *o, const float *lse, size_t most,
                                uint64_t seed, verify_result *result);
#endif
