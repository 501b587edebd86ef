/* gemm.h - D = activation(alpha A B + beta C + bias) on matrices in half precision, summed in f32.
 *
 * A is m x k, B is k x n, C and D are m x n.  Contracts as in attention.h: a plan does all that is slow and
 * may be shared by threads; a launch only fills arguments and launches, and may be captured in a CUDA graph.
 * Kernels: ptx/gemm/wgmma.ptx (sm_90a), ptx/gemm/mma.ptx (sm_75 on).
 * C11 and C++; no CUDA header. */
#ifndef PTXPACK_GEMM_H
#define PTXPACK_GEMM_H
#include <stdint.h>
#include "host/dtype.h"
#include "loader/loader.h"
#ifdef __cplusplus
extern "C" {
#endif
typedef struct ptxpack_gemm_plan ptxpack_gemm_plan;

/* Which index steps from line to line; the other one's elements lie side by side. */
typedef enum ptxpack_order { PTXPACK_ROW_MAJOR, PTXPACK_COLUMN_MAJOR } ptxpack_order;
typedef enum ptxpack_activation {
    PTXPACK_ACTIVATION_NONE,
    PTXPACK_ACTIVATION_RELU,
    PTXPACK_ACTIVATION_GELU, /* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), by tanh.approx */
    PTXPACK_ACTIVATION_SILU  /* x / (1 + exp(-x)) */
} ptxpack_activation;

typedef struct ptxpack_gemm_desc {
    uint32_t      size;             /* = sizeof(ptxpack_gemm_desc)                                    */
    ptxpack_dtype dtype;            /* of A, B, C, D and bias: PTXPACK_F16, PTXPACK_BF16              */
    int32_t       m, n, k;          /* 1 or more, k also 0                                            */
    int32_t       batch;            /* 0 counts as 1                                                  */
    ptxpack_order order_a, order_b; /* row-major A has its k elements side by side; D and C are row-major */
    int64_t       stride_a, stride_b, stride_c, stride_d; /* elements from a row (column) to the next;
                                     0: packed; multiples of 8; of one row (column) not looked at   */
    int64_t       batch_a, batch_b, batch_c, batch_d;     /* elements from a matrix to the next; 0: packed;
                                         -1: the same matrix for all (not D); multiples of 8            */
    bool          has_c;    /* a C is added (beta may be any)                                 */
    bool          has_bias; /* n values, one a column, same for all rows and matrices         */
    ptxpack_activation activation;
} ptxpack_gemm_desc;

typedef struct ptxpack_gemm_buffers {
    uint32_t size;             /* = sizeof(ptxpack_gemm_buffers)                                 */
    float    alpha, beta;      /* beta without a C is not looked at; a factor of 0 does not hide what
                                  it multiplies: 0 times NaN or infinity is NaN                  */
    uint64_t a, b, c, d, bias; /* device addresses on 16 bytes; c may be d where their strides are the
                                  same, the rest must not overlap d; a and b not looked at if k is 0 */
    uint64_t workspace;        /* as many bytes as ptxpack_gemm_workspace says, zero before the first
                                  use; each launch leaves it fit for the next; one launch at a time  */
} ptxpack_gemm_buffers;

/* The plan is the caller's: free it before the handle.
 *   PTXPACK_E_ARG          a field is malformed: the detail names it
 *   PTXPACK_E_UNSUPPORTED  no kernel of this device covers the problem: the detail says why
 *   and what ptxpack_kernel_load returns; *plan is NULL */
PTXPACK_API ptxpack_status ptxpack_gemm_plan_create(ptxpack *handle, const ptxpack_gemm_desc *desc,
                                                    ptxpack_gemm_plan **plan);
PTXPACK_API void           ptxpack_gemm_plan_free(ptxpack_gemm_plan *plan);       /* NULL is fine */
PTXPACK_API size_t         ptxpack_gemm_workspace(const ptxpack_gemm_plan *plan); /* bytes; 0: none is wanted */
PTXPACK_API const ptxpack_kernel *ptxpack_gemm_kernel(const ptxpack_gemm_plan *plan);
/* Enqueue on `stream`.
 *   PTXPACK_E_ARG   an address is 0 where one is wanted, misaligned, or overlaps: the detail names it
 *   PTXPACK_E_DRIVER, _E_LAUNCH, _E_FORKED */
PTXPACK_API ptxpack_status ptxpack_gemm_launch(const ptxpack_gemm_plan    *plan,
                                               const ptxpack_gemm_buffers *buffers, struct CUstream_st *stream);
#ifdef __cplusplus
}
#endif
#endif
