/* vector.h - z = a x + b y + c on vectors in half precision: the smallest complete example of the pack.
 * The contracts are those of attention.h.  The kernel is ptx/vector/add.ptx. */
#ifndef PTXPACK_VECTOR_H
#define PTXPACK_VECTOR_H
#include <stdint.h>
#include "host/dtype.h"
#include "loader/loader.h"
#ifdef __cplusplus
extern "C" {
#endif
typedef struct ptxpack_vector_plan ptxpack_vector_plan;

/* Make a plan for vectors of any length with elements of type `dtype` (PTXPACK_F16; from sm_80 on also
 * PTXPACK_BF16).  *plan belongs to the caller, who frees it before closing the handle.  On failure *plan is
 * NULL.
 *   PTXPACK_E_ARG          dtype is another type, or a pointer is NULL
 *   PTXPACK_E_UNSUPPORTED  no kernel for this device covers dtype
 *   The other codes are those of ptxpack_kernel_load. */
PTXPACK_API ptxpack_status ptxpack_vector_plan_create(ptxpack *handle, ptxpack_dtype dtype,
                                                      ptxpack_vector_plan **plan);
PTXPACK_API void           ptxpack_vector_plan_free(ptxpack_vector_plan *plan); /* NULL is allowed */
/* The kernel, which belongs to the handle; NULL if `plan` is NULL. */
PTXPACK_API const ptxpack_kernel *ptxpack_vector_kernel(const ptxpack_vector_plan *plan);
/* Compute z[i] = a x[i] + b y[i] + c for i < n, with two packed FMAs: u = fma(b, y, c) and z = fma(a, x, u).
 * Each is rounded to `dtype`, and a, b, c are rounded to it first.  x, y and z are device addresses, multiples
 * of 16 bytes.  z may be equal to x or y; a partial overlap is refused.  With n = 0 nothing is enqueued, and
 * the addresses are ignored.  The kernel is enqueued on `stream` (NULL: the default stream of the plan's
 * context).
 *   PTXPACK_E_ARG          plan is NULL; an address is 0 or misaligned, its range wraps around, or z overlaps
 *                          x or y in part
 *   PTXPACK_E_UNSUPPORTED  n is more than the largest grid covers, about 4e12
 *   PTXPACK_E_DRIVER       the plan's context cannot be made current
 *   PTXPACK_E_LAUNCH, _E_FORKED */
PTXPACK_API ptxpack_status ptxpack_vector_add(const ptxpack_vector_plan *plan, uint64_t z, uint64_t x,
                                              uint64_t y, float a, float b, float c, uint64_t n,
                                              struct CUstream_st *stream);
#ifdef __cplusplus
}
#endif
#endif
