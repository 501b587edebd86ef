/* preload_plan.h - the kernels of plans, compiled in the background (preload.h).  C11 and C++.
 *
 * The kernel is chosen as the plan would choose it on that device.  A plan that is made later with a handle
 * of the same options finds its machine code in memory or in the cache. */
#ifndef PTXPACK_PRELOAD_PLAN_H
#define PTXPACK_PRELOAD_PLAN_H
#include "host/attention/append/append.h"
#include "host/attention/attention.h"
#include "host/attention/merge/merge.h"
#include "host/gemm/gemm.h"
#include "loader/build/preload.h"
#include "host/vector/vector.h"
#ifdef __cplusplus
extern "C" {
#endif
/* Make the machine code that ptxpack_attention_plan_create (ptxpack_attention_append_plan_create,
 * ptxpack_attention_merge_plan_create, ptxpack_gemm_plan_create, ptxpack_vector_plan_create) will need for this problem;
 * of an attention that appends, that of both kernels.  The descriptor is copied.  If no kernel covers the problem,
 * on_progress and ptxpack_preload_wait report the same line as the plan would.  The codes are those of
 * ptxpack_preload_row, and:
 *   PTXPACK_E_ARG     desc->size is wrong; or, with an append, any field */
PTXPACK_API ptxpack_status ptxpack_preload_attention(ptxpack_preloading           *preloading,
                                                     const ptxpack_attention_desc *desc);
PTXPACK_API ptxpack_status ptxpack_preload_attention_append(ptxpack_preloading                  *preloading,
                                                            const ptxpack_attention_append_desc *desc);
PTXPACK_API ptxpack_status ptxpack_preload_attention_merge(ptxpack_preloading                 *preloading,
                                                           const ptxpack_attention_merge_desc *desc);
PTXPACK_API ptxpack_status ptxpack_preload_gemm(ptxpack_preloading *preloading, const ptxpack_gemm_desc *desc);
PTXPACK_API ptxpack_status ptxpack_preload_vector(ptxpack_preloading *preloading, ptxpack_dtype dtype);
#ifdef __cplusplus
}
#endif
#endif
