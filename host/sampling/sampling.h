/* sampling.h - plan and launch the choice of a token from each row of logits: greedy, or by temperature, top-k, top-p.
 *
 * Shapes   logits [rows][vocabulary], tokens [rows] (int32), parameters [rows] of ptxpack_sampling_row; all in device
 *          memory and read at each launch, so that a captured graph stays valid.
 * Choice   With z the logits of a row as f32 (NaN counts as -inf, -0 as 0):
 *            temperature 0, or an infinite maximum: the first index of the maximum.
 *            Otherwise weight[i] = 2^30 e^((z[i] - max z) / temperature), to about a millionth, and then rounded down to a
 *            whole number: a token less likely than 2^-30 of the likeliest one is never drawn.
 *            top_k keeps the tokens whose logit is at least the k-th largest one; equal logits stay together.
 *            top_p keeps, of those, the tokens whose logit is at least the largest limit above which, with it, their
 *            weights sum to floor(top_p 2^32) / 2^32 of all of theirs, rounded down, and to 1 at least.
 *            The token is the first index up to which the weights that are left sum to more than floor(u W / 2^64): W
 *            is the sum of all of them, and u the first two words of Philox4x32-10 with the key `seed` and the counter
 *            `counter`, low words first, u = word 0 + 2^32 word 1.
 *          The weights are whole numbers from f32 products and sums of a stated order, so ptxpack_sampling_reference
 *          gives the same tokens, bit for bit, and a row's token does not depend on other rows.
 * Counter  A launch adds 1 to the counter of each row, so that a graph that is launched again draws again.
 * Memory, errors and threads are as attention.h says.  The kernel is ptx/sampling/sampling.ptx (from sm_75 on). */
#ifndef PTXPACK_SAMPLING_H
#define PTXPACK_SAMPLING_H
#include <stdint.h>
#include "host/dtype.h"
#include "loader/loader.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Bits of ptxpack_sampling_desc.options. */
enum { PTXPACK_SAMPLING_F32 = 1 /* logits are f32, and dtype is ignored */ };

/* What a row is drawn with, in device memory: 32 bytes, at a multiple of 8. */
typedef struct ptxpack_sampling_row {
    float    temperature; /* 0 or less, or NaN: greedy */
    float    top_p;       /* 0 or less, 1 or more, or NaN: all tokens */
    int32_t  top_k;       /* 0 or less: all tokens */
    uint32_t reserved;    /* 0 */
    uint64_t seed;
    uint64_t counter; /* each launch adds 1 */
} ptxpack_sampling_row;

typedef struct ptxpack_sampling_desc {
    uint32_t      size;       /* = sizeof(ptxpack_sampling_desc) */
    ptxpack_dtype dtype;      /* of logits: PTXPACK_F16 or PTXPACK_BF16 */
    int32_t       rows;       /* >= 1 */
    int32_t       vocabulary; /* 1 to 2^21 */
    uint32_t      options;    /* PTXPACK_SAMPLING_F32, or 0 */
    uint32_t      reserved;   /* 0 */
    int64_t       stride;     /* elements from a row of logits to the next; 0: compact */
} ptxpack_sampling_desc;

/* Device addresses: parameters a multiple of 8 bytes, the others of an element's. */
typedef struct ptxpack_sampling_buffers {
    uint32_t size;       /* = sizeof(ptxpack_sampling_buffers) */
    uint64_t logits;     /* read */
    uint64_t parameters; /* read, and its counters written; 0: all rows greedy */
    uint64_t tokens;     /* written */
    uint32_t launch;     /* bits: PTXPACK_LAUNCH_OVERLAP (loader.h) */
    uint32_t reserved;   /* 0 */
} ptxpack_sampling_buffers;

typedef struct ptxpack_sampling_plan ptxpack_sampling_plan;

/* Check `desc`, choose the kernel for the handle's device, and load it.  *plan belongs to the caller, who frees it
 * before closing the handle.  On failure *plan is NULL.
 *   PTXPACK_E_ARG          a field is out of the range stated above
 *   The other codes are those of ptxpack_kernel_load. */
PTXPACK_API ptxpack_status ptxpack_sampling_plan_create(ptxpack *handle, const ptxpack_sampling_desc *desc,
                                                        ptxpack_sampling_plan **plan);
PTXPACK_API void           ptxpack_sampling_plan_free(ptxpack_sampling_plan *plan); /* NULL is allowed */
/* The kernel, which belongs to the handle; NULL if `plan` is NULL. */
PTXPACK_API const ptxpack_kernel *ptxpack_sampling_kernel(const ptxpack_sampling_plan *plan);

/* Choose the tokens, on `stream` (NULL: the default stream of the plan's context).
 *   PTXPACK_E_ARG     a pointer is null or misaligned, tokens or parameters overlap another buffer, or `launch` has
 *                     unknown bits
 *   PTXPACK_E_DRIVER  the plan's context cannot be made current
 *   PTXPACK_E_LAUNCH, _E_FORKED */
PTXPACK_API ptxpack_status ptxpack_sampling(const ptxpack_sampling_plan    *plan,
                                            const ptxpack_sampling_buffers *buffers,
                                            struct CUstream_st             *stream);

/* Choose the same tokens on the CPU.  All is in HOST memory; parameters may be NULL (greedy), and their counters stay
 * as they are.  After an error the line is ptxpack_detail(NULL).
 *   PTXPACK_E_ARG     as for the plan, or logits or tokens is NULL; nothing was written
 *   PTXPACK_E_MEMORY */
PTXPACK_API ptxpack_status ptxpack_sampling_reference(const ptxpack_sampling_desc *desc, const void *logits,
                                                      const ptxpack_sampling_row *parameters, int32_t *tokens);
#ifdef __cplusplus
}
#endif
#endif
