/* check.h - private: what a checked descriptor of a GEMM means, with every default filled in. */
#ifndef PTXPACK_GEMM_CHECK_H
#define PTXPACK_GEMM_CHECK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "gemm.h"
#include "host/plan/plan.h"

enum { GEMM_LAUNCH_BITS = PTXPACK_LAUNCH_OVERLAP | PTXPACK_LAUNCH_CONSTANT_B }; /* that a product knows */

/* The matrices, in the order of every table about them. */
enum { GEMM_A, GEMM_B, GEMM_C, GEMM_D, GEMM_MATRICES };
extern const char *const gemm_matrix_names[GEMM_MATRICES]; /* "a", ... */

/* One matrix of `lines` lines of `length` elements side by side: rows where it is row-major, else columns. */
typedef struct gemm_matrix {
    int64_t  lines, length;
    int64_t  stride;  /* elements from a line to the next: a multiple of 8 and at least `length`, always */
    int64_t  batch;   /* elements from a matrix to the next: a multiple of 8; 0: the same for all, or one */
    int64_t  element; /* bytes of one; where it is 1, the multiples are of 16 */
    uint64_t bytes;   /* from the first element to the end of the last, of all matrices; 0 when k is 0 */
} gemm_matrix;

/* The scales of A, or of B: zeros where there are none, which is where its elements have 16 bits. */
typedef struct gemm_scale {
    int64_t
        line; /* floats of a row of A, or of a column or a block of columns of B: with blocks, of k, else 1 */
    int64_t  batch;    /* floats from a matrix's to the next one's; 0: the same for all, or one */
    uint64_t bytes;    /* of all */
    bool     optional; /* the address may be 0 */
} gemm_scale;

typedef struct gemm_geometry {
    gemm_matrix matrix[GEMM_MATRICES]; /* C: zeros where there is none */
    gemm_scale  scale[2];              /* GEMM_A, GEMM_B */
    int32_t     batch;                 /* 1 or more; with groups 1 */
    int32_t     groups;                /* matrices of B, each for rows of its own; 0: there are no groups */
    uint64_t    bias_bytes;            /* 0: there is none */
    uint64_t    norm_bytes;            /* of the weights of A's norm; 0: there is none */
} gemm_geometry;

/* How many matrices of A, B or D there are, unless they are one for all. */
static inline int32_t gemm_matrices(const gemm_geometry *geometry, int matrix)
{
    return matrix == GEMM_B && geometry->groups > 0 ? geometry->groups : geometry->batch;
}

/* The type of a matrix. */
static inline ptxpack_dtype gemm_type(const ptxpack_gemm_desc *desc, int matrix)
{
    return matrix == GEMM_B && desc->dtype_b != 0      ? desc->dtype_b
           : (matrix <= GEMM_B && desc->dtype_ab != 0) ? desc->dtype_ab
                                                       : desc->dtype;
}
/* Whether B is of e4m3, and A is not. */
static inline bool gemm_b_alone(const ptxpack_gemm_desc *desc)
{
    return gemm_type(desc, GEMM_B) == PTXPACK_E4M3 && gemm_type(desc, GEMM_A) != PTXPACK_E4M3;
}

/* The columns of D. */
static inline int32_t gemm_columns(const ptxpack_gemm_desc *desc)
{
    return desc->activation == PTXPACK_ACTIVATION_SWIGLU ? desc->n / 2 : desc->n;
}

/* Checks a descriptor, with or without a device.  On PTXPACK_OK *out is complete, otherwise `line` names the
 * field. PTXPACK_E_ARG */
ptxpack_status ptxpack_gemm_resolve(const ptxpack_gemm_desc *desc, gemm_geometry *out, char line[PLAN_LINE]);
/* The same for the addresses of a launch. */
ptxpack_status ptxpack_gemm_check_buffers(const gemm_geometry *geometry, const ptxpack_gemm_buffers *buffers,
                                          char line[PLAN_LINE]);

/* a / b of numbers from 0 on, rounded up. */
static inline int64_t divided_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
#endif
