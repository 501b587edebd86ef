/* attention.h - plan and launch an attention forward: O = softmax(scale Q K^T + mask) V.
 *
 * Shapes   slowest to fastest, unless strides say otherwise: q, o [batch][seqlen_q][heads_q][head_dim],
 *          k, v [batch][seqlen_kv][heads_kv][head_dim], lse [batch][heads_q][seqlen_q] (f32, natural log).
 *          Strides count ELEMENTS; the last dimension is contiguous.
 * fp8      PTXPACK_E4M3: q, k and v of one byte, which stand for code * descale; o is bf16.
 * Sums     f32, whatever the element type.  A row with nothing to attend to gives o = 0, lse = -inf.
 * Memory   device buffers stay the caller's; the library allocates none and keeps none.
 * Errors   every call that can fail returns a ptxpack_status; on error nothing was enqueued and no device
 *          memory written, and ptxpack_detail(handle) is one line that names the field or the driver call.
 * Threads  a plan is immutable: share it freely.  A launch takes no lock, allocates nothing and can be
 *          captured in a CUDA graph.
 * Method   FlashAttention-2 (Dao, arXiv 2307.08691): ptx/attention/mma.ptx; on Hopper with wgmma, TMA
 *          and a softmax that seldom looks for maxima: ptx/attention/wgmma.ptx. */
#ifndef PTXPACK_ATTENTION_H
#define PTXPACK_ATTENTION_H
#include <stddef.h>
#include <stdint.h>
#include "host/dtype.h"
#include "loader/loader.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Query row i may attend to key j when                                                               */
typedef enum ptxpack_mask {
    PTXPACK_MASK_NONE = 0,                /* always                                                   */
    PTXPACK_MASK_CAUSAL_TOP_LEFT = 1,     /* j <= i: the first query sees the first key               */
    PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT = 2, /* j <= i + seqlen_kv - seqlen_q: the last sees the last    */
    PTXPACK_MASK_WINDOW_TOP_LEFT = 3,     /* i - window_left <= j <= i + window_right                 */
    PTXPACK_MASK_WINDOW_BOTTOM_RIGHT = 4  /* the same with i + seqlen_kv - seqlen_q in place of i     */
} ptxpack_mask;

/* Distance in elements between neighbours: multiples of 16 bytes, ignored where the extent is 1.  All three
 * 0: compact, in the order of "Shapes".  A 0 on its own repeats an input (not o) along that dimension.
 * Any order and any gaps, but each stride steps over all that the smaller ones span. */
typedef struct ptxpack_strides {
    int64_t batch, row, head;
} ptxpack_strides;

typedef struct ptxpack_attention_desc {
    uint32_t        size;                       /* = sizeof(ptxpack_attention_desc)                   */
    ptxpack_dtype   dtype;                      /* of q, k and v; of o too, but with PTXPACK_E4M3 o is
                                           PTXPACK_BF16                                       */
    int32_t         batch, seqlen_q, seqlen_kv; /* each >= 1                                          */
    int32_t         heads_q, heads_kv;          /* heads_q % heads_kv == 0; heads_q / heads_kv query
                                           heads share a key head                             */
    int32_t         head_dim;                   /* multiple of 16 bytes of q, at most 256             */
    float           scale;                      /* multiplies q.k; > 0; 0 = 1/sqrt(head_dim)          */
    ptxpack_mask    mask;
    int32_t         window_left, window_right; /* of the window masks; < 0: no limit on that side.
                                               0 with any other mask                              */
    float           softcap;                   /* scores s become softcap tanh(s / softcap), after
                                               scale and before the mask; >= 0; 0 = off           */
    ptxpack_strides q, k, v, o;
} ptxpack_attention_desc;

/* Device addresses.  q, k, v, o on 16 bytes, lse and the descales on 4. */
typedef struct ptxpack_attention_buffers {
    uint32_t size;      /* = sizeof(ptxpack_attention_buffers)                                        */
    uint64_t q, k, v;   /* read                                                                       */
    uint64_t o;         /* written                                                                    */
    uint64_t lse;       /* written; 0 = not wanted                                                    */
    uint64_t workspace; /* ptxpack_attention_workspace() bytes; when that is 0, not looked at         */
    uint64_t q_descale, k_descale, v_descale; /* read: with PTXPACK_E4M3 f32 [batch][heads_kv], what a
                           stored 1 means (of q: in all query heads that share the key head), 0 or
                           more, and scale q_descale k_descale finite; address 0 = all are 1;
                           with other types not looked at                                          */
} ptxpack_attention_buffers;

typedef struct ptxpack_attention_plan ptxpack_attention_plan;

/* Check `desc`, choose the kernel for the handle's device, compile or fetch it, load it: all that is
 * slow.  *plan is the caller's: free it before the handle.
 *   PTXPACK_E_ARG          a field is out of the range stated above
 *   PTXPACK_E_UNSUPPORTED  valid, but no kernel of this device covers it; nothing falls back silently
 *   and what ptxpack_kernel_load returns; *plan is NULL */
PTXPACK_API ptxpack_status ptxpack_attention_plan_create(ptxpack *handle, const ptxpack_attention_desc *desc,
                                                         ptxpack_attention_plan **plan);
PTXPACK_API void           ptxpack_attention_plan_free(ptxpack_attention_plan *plan); /* NULL is fine */
/* Bytes of device memory that a launch wants as scratch, on 16 bytes and zero before its first use: every
 * launch that completes leaves it fit for the next.  Launches that may run at the same time need one each.
 * And the kernel, which stays the handle's.  Of no plan (NULL): 0, and NULL. */
PTXPACK_API size_t                ptxpack_attention_workspace(const ptxpack_attention_plan *plan);
PTXPACK_API const ptxpack_kernel *ptxpack_attention_kernel(const ptxpack_attention_plan *plan);

/* Enqueue on `stream` (NULL: the default stream of the plan's context).
 *   PTXPACK_E_ARG     a pointer is null or misaligned, or the address range of o, lse or the workspace, from
 *                     its first to its last element, overlaps that of another buffer
 *   PTXPACK_E_DRIVER  the plan's context cannot be made current
 *   PTXPACK_E_LAUNCH, _E_FORKED */
PTXPACK_API ptxpack_status ptxpack_attention_launch(const ptxpack_attention_plan    *plan,
                                                    const ptxpack_attention_buffers *buffers,
                                                    struct CUstream_st              *stream);

/* The descales in HOST memory, f32 [batch][heads_kv]; NULL: all are 1. */
typedef struct ptxpack_descales {
    const float *q, *k, *v;
} ptxpack_descales;

/* The same on the CPU, in double precision from the inputs in HOST memory, for checking.
 * `descales`: with PTXPACK_E4M3; NULL: all are 1; with other types not looked at.
 * o (laid out by desc->o) and lse ([batch][heads_q][seqlen_q]) are doubles; either may be NULL.
 * One thread; takes 8 bytes of memory per element of k.
 *   PTXPACK_E_ARG     as for the plan, or q, k or v is NULL: nothing was written
 *   PTXPACK_E_MEMORY  some rows may have been written; the line is ptxpack_detail(NULL) */
PTXPACK_API ptxpack_status ptxpack_attention_reference(const ptxpack_attention_desc *desc, const void *q,
                                                       const void *k, const void *v,
                                                       const ptxpack_descales *descales, double *o,
                                                       double *lse);

/* Floating-point operations that `desc` needs: 4 head_dim for each pair of query and key that the mask
 * keeps (FlashAttention's convention, which halves causal, is the same up to the diagonal); and the
 * fewest bytes to move: each input read once, each output written once. */
PTXPACK_API double ptxpack_attention_flops(const ptxpack_attention_desc *desc);
PTXPACK_API double ptxpack_attention_bytes(const ptxpack_attention_desc *desc);
#ifdef __cplusplus
}
#endif
#endif
