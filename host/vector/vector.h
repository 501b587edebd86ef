/* vector.h - z = a x + b y + c over half precision: the smallest complete example of the pack.
 * The same contracts as attention.h; ptx/vector/add.ptx is the kernel. */
#ifndef PTXPACK_VECTOR_H
#define PTXPACK_VECTOR_H
#include <stdint.h>
#include "host/dtype.h"
#include "loader/loader.h"
#ifdef __cplusplus
extern "C" {
#endif
typedef struct ptxpack_vector_plan ptxpack_vector_plan;

/* A plan for vectors of any length of `dtype` (PTXPACK_F16; PTXPACK_BF16 from sm_80 on).  *plan is the
 * caller's: free it before the handle.
 *   PTXPACK_E_ARG          dtype is neither, or a pointer is NULL
 *   PTXPACK_E_UNSUPPORTED  no kernel of this device covers dtype
 *   and what ptxpack_kernel_load returns; *plan is NULL */
PTXPACK_API ptxpack_status ptxpack_vector_plan_create(ptxpack *handle, ptxpack_dtype dtype,
                                                      ptxpack_vector_plan **plan);
PTXPACK_API void           ptxpack_vector_plan_free(ptxpack_vector_plan *plan); /* NULL is fine */
/* The kernel, which stays the handle's; NULL of no plan (NULL). */
PTXPACK_API const ptxpack_kernel *ptxpack_vector_kernel(const ptxpack_vector_plan *plan);
/* z[i] = a x[i] + b y[i] + c, i < n, as two packed FMAs: u = fma(b, y, c), z = fma(a, x, u), each
 * rounded to `dtype`; a, b, c are rounded to dtype first.  x, y, z: device addresses on 16 bytes;
 * z may be x or y, partial overlap is refused.  n = 0 is fine: it enqueues nothing and looks at no address.
 * Enqueued on `stream` (NULL: the default stream of the plan's context).
 *   PTXPACK_E_ARG          plan is NULL; an address is 0 or misaligned, its range wraps around, or z overlaps
 *                          x or y in part
 *   PTXPACK_E_UNSUPPORTED  n is more than the largest grid covers, some 4e12
 *   PTXPACK_E_DRIVER       the plan's context cannot be made current
 *   PTXPACK_E_LAUNCH, _E_FORKED */
PTXPACK_API ptxpack_status ptxpack_vector_add(const ptxpack_vector_plan *plan, uint64_t z, uint64_t x,
                                              uint64_t y, float a, float b, float c, uint64_t n,
                                              struct CUstream_st *stream);
#ifdef __cplusplus
}
#endif
#endif
