/* vector.h - z = a x + b y + c over half precision: the smallest complete example of the pack.
 * The same contracts as attention.h; ptx/kernel/vector_add.ptx is the kernel. */
#ifndef PTXPACK_VECTOR_H
#define PTXPACK_VECTOR_H
#include <stdint.h>
#include "dtype.h"
#include "loader.h"
#ifdef __cplusplus
extern "C" {
#endif
typedef struct ptxpack_vector_plan ptxpack_vector_plan;

/* A plan for vectors of any length of `dtype` (PTXPACK_F16; PTXPACK_BF16 from sm_80 on). */
PTXPACK_API ptxpack_status ptxpack_vector_plan_create(ptxpack *handle, ptxpack_dtype dtype,
                                                      ptxpack_vector_plan **plan);
PTXPACK_API void ptxpack_vector_plan_free(ptxpack_vector_plan *plan);
PTXPACK_API const ptxpack_kernel *ptxpack_vector_kernel(const ptxpack_vector_plan *plan);
/* z[i] = a x[i] + b y[i] + c, i < n, as two packed FMAs: u = fma(b, y, c), z = fma(a, x, u), each
 * rounded to `dtype`; a, b, c are rounded to dtype first.  x, y, z: device addresses on 16 bytes;
 * z may be x or y, partial overlap is refused.  n = 0 is fine and enqueues nothing. */
PTXPACK_API ptxpack_status ptxpack_vector_add(const ptxpack_vector_plan *plan, uint64_t z, uint64_t x,
                                              uint64_t y, float a, float b, float c, uint64_t n,
                                              struct CUstream_st *stream);
#ifdef __cplusplus
}
#endif
#endif
