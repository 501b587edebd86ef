/* reference.h - private: rows of D = activation(alpha A B + beta C + bias) on the CPU, in double precision, and
 * how far a kernel that sums in f32 may be from them before it rounds. */
#ifndef PTXPACK_GEMM_REFERENCE_H
#define PTXPACK_GEMM_REFERENCE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "gemm.h"

typedef struct gemm_reference gemm_reference;

/* Host memory with the strides of the descriptor; c, bias, norm_w and scales are read only if the descriptor
 * has them.  A scale of a
 * tensor may be NULL. */
typedef struct gemm_inputs {
    const void    *a, *b, *c, *bias, *norm_w;
    float          alpha, beta;
    const float   *scale_a, *scale_b;
    const int32_t *group_starts; /* with groups: as gemm.h has them */
} gemm_inputs;

/* A row of one D; with groups `batch` is 0, and the row is before the last start. */
typedef struct gemm_row {
    int32_t batch, row;
} gemm_row;

/* Keep B as floats in the order in which the rows need them.  The inputs are read later and must outlive *out.
 * After a failure the line is ptxpack_detail(NULL).
 *   PTXPACK_E_ARG, _E_MEMORY */
ptxpack_status gemm_reference_open(const ptxpack_gemm_desc *desc, const gemm_inputs *inputs,
                                   gemm_reference **out);
void           gemm_reference_close(gemm_reference *reference); /* NULL is allowed */

/* `value` and `error`, both [count][columns of D], on `threads` threads (at least one; fewer when no more can be had).
 *
 * error   tensor cores add 4 to 16 products at a time to a sum and cut off what f32 cannot hold: at most
 *         k/4 + 2 times 2^-23 of the sum of |a b|.  The epilogue rounds a few times, 2^-22 of all its terms.
 *         Of e4m3 they cut off more: in each step of 32 k the sum so far and 32 products lose less than 2^-13 of the
 *         largest of them each, and so does their sum.  After 128 k the next sum begins from 0.
 *         The factor of a row with norm_a has half of a sum's error, of its squares, and 2^-22 of itself.
 *         An activation multiplies that by its greatest slope; GELU adds the error of tanh.approx, 2^-11 of it.
 *
 *   PTXPACK_E_MEMORY */
ptxpack_status gemm_reference_rows(const gemm_reference *reference, const gemm_row *rows, size_t count,
                                   int threads, double *value, double *error);

/* Whether an element of D is right: any number between value - error and value + error, rounded to the
 * type.  NaN and infinities must be the same. */
bool gemm_accepts(ptxpack_dtype type, uint16_t element, double value, double error);
#endif
