/* preload_plan.h - the kernels of plans, compiled in the background (preload.h).  C11 and C++.
 *
 * The kernel is chosen as the plan would choose it on that device.  A plan that is made later with a handle
 * of the same options finds its machine code in memory or in the cache. */
#ifndef PTXPACK_PRELOAD_PLAN_H
#define PTXPACK_PRELOAD_PLAN_H
#include "host/attention/attention.h"
#include "host/gemm/gemm.h"
#include "loader/build/preload.h"
#include "host/vector/vector.h"
#ifdef __cplusplus
extern "C" {
#endif
/* For ptxpack_attention_plan_create (_gemm_, _vector_) of that problem, which is copied.  A problem that no
 * kernel covers is reported with the line of the plan, by on_progress and ptxpack_preload_wait.
 *   codes of ptxpack_preload_row; PTXPACK_E_ARG also when desc->size is wrong */
PTXPACK_API ptxpack_status ptxpack_preload_attention(ptxpack_preloading           *preloading,
                                                     const ptxpack_attention_desc *desc);
PTXPACK_API ptxpack_status ptxpack_preload_gemm(ptxpack_preloading *preloading, const ptxpack_gemm_desc *desc);
PTXPACK_API ptxpack_status ptxpack_preload_vector(ptxpack_preloading *preloading, ptxpack_dtype dtype);
#ifdef __cplusplus
}
#endif
#endif
