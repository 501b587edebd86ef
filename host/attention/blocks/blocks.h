/* blocks.h - plan and launch the making of lists of blocks: which blocks of keys an attention has to visit.
 *
 * For each block of block_rows query rows the keys lie in blocks of block_keys.  Of the pairs of row and key that the descriptor's
 * mask leaves a mask_mod, if there is one, keeps those for which it says so.  A block of keys of which
 *     no pair is kept                    is in no list,
 *     all are kept that the mask leaves  is in full_list, for which an attention does not evaluate mask_mod, and
 *     some of these are kept             is in block_list,
 * in ascending order; rows and keys behind the last one do not count.  block_count and full_count say how many there are; the
 * rest of a list is not written.  These are the arrays that ptxpack_attention_launch wants for the same descriptor: with a mask that
 * leaves more pairs they would be wrong, as mask_mod was not asked about these.  (In FlexAttention's BlockMask the mask is a part of
 * mask_mod: its full blocks are seen as a whole.)
 *
 * Descriptor  That of the attention: batch, heads_q, seqlen_q, seqlen_kv, mask, window, chunk, mask_mod and the fields from
 *             block_rows on matter, the others are checked alone.  Where block_batch is 0 the lists are those of sequence 0,
 *             where block_head is 0 those of query head 0.  Not for sequences with lengths of their own.
 * Memory, errors and threads are as attention.h says.  The kernel is ptx/attention/blocks/make.ptx; it takes as long as
 * mask_mod for all pairs, so lists that serve many launches are better made once. */
#ifndef PTXPACK_ATTENTION_BLOCKS_H
#define PTXPACK_ATTENTION_BLOCKS_H
#include <stdint.h>
#include "host/attention/attention.h"
#include "loader/loader.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Device addresses, multiples of 4 bytes; int32, as those of ptxpack_attention_buffers. */
typedef struct ptxpack_attention_blocks_buffers {
    uint32_t size;                                           /* = sizeof(ptxpack_attention_blocks_buffers) */
    uint64_t block_count, full_count, block_list, full_list; /* written */
    uint64_t aux[8];                                         /* what AUX of mask_mod gives it */
    uint32_t launch;                                         /* 0 */
    uint32_t reserved;                                       /* 0 */
} ptxpack_attention_blocks_buffers;

typedef struct ptxpack_attention_blocks_plan ptxpack_attention_blocks_plan;

/* Check `desc`, choose the kernel for the handle's device, compile it or find its machine code, and load it.  *plan
 * belongs to the caller, who frees it before closing the handle.  On failure *plan is NULL.
 *   PTXPACK_E_ARG          a field is out of the range stated in attention.h, or block_rows is 0
 *   PTXPACK_E_UNSUPPORTED  no kernel covers it; more than 2^31 - 1 lists, or seqlen_q + seqlen_kv beyond 2^30
 *   The other codes are those of ptxpack_kernel_load. */
PTXPACK_API ptxpack_status ptxpack_attention_blocks_plan_create(ptxpack                        *handle,
                                                                const ptxpack_attention_desc   *desc,
                                                                ptxpack_attention_blocks_plan **plan);
PTXPACK_API void ptxpack_attention_blocks_plan_free(ptxpack_attention_blocks_plan *plan); /* NULL is allowed */
/* The kernel, which belongs to the handle; NULL if `plan` is NULL. */
PTXPACK_API const ptxpack_kernel *ptxpack_attention_blocks_kernel(const ptxpack_attention_blocks_plan *plan);

/* Make the lists, on `stream` (NULL: the default stream of the plan's context).
 *   PTXPACK_E_ARG     a pointer is null or misaligned, two of the arrays overlap, or `launch` has unknown bits
 *   PTXPACK_E_DRIVER  the plan's context cannot be made current
 *   PTXPACK_E_LAUNCH, _E_FORKED */
PTXPACK_API ptxpack_status ptxpack_attention_blocks(const ptxpack_attention_blocks_plan    *plan,
                                                    const ptxpack_attention_blocks_buffers *buffers,
                                                    struct CUstream_st                     *stream);

/* Make the same on the CPU, in HOST memory.  Of `hooks` the function `mask` is called, if the descriptor has a mask_mod.
 * After an error the line is ptxpack_detail(NULL).
 *   PTXPACK_E_ARG     as for the plan, or an array is NULL, or the function is missing; nothing was written */
PTXPACK_API ptxpack_status ptxpack_attention_blocks_reference(const ptxpack_attention_desc  *desc,
                                                              const ptxpack_attention_hooks *hooks,
                                                              int32_t *block_count, int32_t *full_count,
                                                              int32_t *block_list, int32_t *full_list);
#ifdef __cplusplus
}
#endif
#endif
