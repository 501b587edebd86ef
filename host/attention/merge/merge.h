/* merge.h - plan and launch a merge of two partial attentions by their log-sum-exps.
 *
 * Two attentions of the same queries to two sets of keys that have no key in common, (o_a, lse_a) and (o_b, lse_b),
 * become the attention (o, lse) to all of these keys:
 *
 *     lse = ln(e^lse_a + e^lse_b)        o = (e^lse_a o_a + e^lse_b o_b) / (e^lse_a + e^lse_b)
 *
 * That serves a prefix that many sequences share (attend to it once with all their queries), cascades of such
 * prefixes, and keys that are divided among several GPUs.  More than two parts are merged one after another.
 *
 * Shapes   As of attention.h, from the slowest to the fastest dimension:
 *            o_a, o_b, o          [batch][seqlen_q][heads_q][head_dim], strides in ELEMENTS
 *            lse_a, lse_b, lse    [batch][heads_q][seqlen_q], f32, natural logarithm, compact
 *          Packed q (o [rows_q][heads_q][head_dim], lse [heads_q][rows_q]) is batch 1 with seqlen_q = rows_q.
 * Values   The larger of the two log-sum-exps is taken out before exponentials are computed, so that none
 *          overflows.  A part whose lse is -inf counts nothing, even if its o holds NaN; if both are -inf, o is 0
 *          and the lse is -inf.  A NaN, or +inf, as an lse makes its row NaN.  Sums are f32.  Rows do not depend
 *          on each other: where both parts have a row that no attention wrote, that row of o means nothing.
 * Sinks    A virtual logit (attention sink) belongs to one part alone: its lse includes it.
 * Memory, errors and threads are as attention.h says.  The kernel is ptx/attention/merge.ptx. */
#ifndef PTXPACK_ATTENTION_MERGE_H
#define PTXPACK_ATTENTION_MERGE_H
#include <stdint.h>
#include "host/attention/attention.h"
#include "host/dtype.h"
#include "loader/loader.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Bits of ptxpack_attention_merge_desc.options. */
enum { PTXPACK_MERGE_F32_PARTS = 1 /* o_a and o_b are f32; o is of dtype all the same */ };

typedef struct ptxpack_attention_merge_desc {
    uint32_t        size;            /* = sizeof(ptxpack_attention_merge_desc) */
    ptxpack_dtype   dtype;           /* PTXPACK_F16, or from sm_80 on PTXPACK_BF16 */
    int32_t         batch, seqlen_q; /* each >= 1 */
    int32_t         heads_q;         /* >= 1 */
    int32_t         head_dim;        /* of o: a multiple of 8, at most 1024 */
    uint32_t        options;         /* PTXPACK_MERGE_F32_PARTS, or 0 */
    ptxpack_strides o_a, o_b, o;     /* as those of attention.h; a single 0 repeats o_a or o_b */
} ptxpack_attention_merge_desc;

/* Device addresses.  Those of o are multiples of 16 bytes, those of the lse of 4. */
typedef struct ptxpack_attention_merge_buffers {
    uint32_t size;                   /* = sizeof(ptxpack_attention_merge_buffers); an older one is fine */
    uint64_t o_a, lse_a, o_b, lse_b; /* read */
    uint64_t o;                      /* written; may be o_a or o_b, with the same strides and type */
    uint64_t lse;                    /* written; may be lse_a or lse_b; 0: it is not wanted */
    uint32_t launch;                 /* bits: PTXPACK_LAUNCH_OVERLAP (loader.h) */
    uint32_t reserved;               /* 0 */
} ptxpack_attention_merge_buffers;

typedef struct ptxpack_attention_merge_plan ptxpack_attention_merge_plan;

/* Check `desc`, choose the kernel for the handle's device, and load it.  *plan belongs to the caller, who frees it
 * before closing the handle.  On failure *plan is NULL.
 *   PTXPACK_E_ARG          a field is out of the range stated above
 *   PTXPACK_E_UNSUPPORTED  no kernel for this device covers dtype, or batch seqlen_q heads_q is beyond 2^31 - 1
 *   The other codes are those of ptxpack_kernel_load. */
PTXPACK_API ptxpack_status ptxpack_attention_merge_plan_create(ptxpack                            *handle,
                                                               const ptxpack_attention_merge_desc *desc,
                                                               ptxpack_attention_merge_plan      **plan);
PTXPACK_API void ptxpack_attention_merge_plan_free(ptxpack_attention_merge_plan *plan); /* NULL is allowed */
/* The kernel, which belongs to the handle; NULL if `plan` is NULL. */
PTXPACK_API const ptxpack_kernel *ptxpack_attention_merge_kernel(const ptxpack_attention_merge_plan *plan);

/* Merge, on `stream` (NULL: the default stream of the plan's context).
 *   PTXPACK_E_ARG     a pointer is null or misaligned, or o or lse overlaps another buffer that it is not equal to, or
 *                     `launch` has unknown bits
 *   PTXPACK_E_DRIVER  the plan's context cannot be made current
 *   PTXPACK_E_LAUNCH, _E_FORKED */
PTXPACK_API ptxpack_status ptxpack_attention_merge(const ptxpack_attention_merge_plan    *plan,
                                                   const ptxpack_attention_merge_buffers *buffers,
                                                   struct CUstream_st                    *stream);

/* Compute the same on the CPU in double precision, to check results.  The inputs are in HOST memory: o_a and o_b of
 * dtype (or f32), lse_a and lse_b f32.  o (with the strides desc->o) and lse are doubles, and either may be NULL.
 * After an error the line is ptxpack_detail(NULL).
 *   PTXPACK_E_ARG     as for the plan, or an input is NULL; nothing was written */
PTXPACK_API ptxpack_status ptxpack_attention_merge_reference(const ptxpack_attention_merge_desc *desc,
                                                             const void *o_a, const float *lse_a,
                                                             const void *o_b, const float *lse_b, double *o,
                                                             double *lse);
#ifdef __cplusplus
}
#endif
#endif
