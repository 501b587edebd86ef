/* check.h - private: what a checked descriptor means, with every default filled in. */
#ifndef PTXPACK_ATTENTION_CHECK_H
#define PTXPACK_ATTENTION_CHECK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "attention.h"
#include "host/plan/plan.h"

/* The tensors, in the order of every table about them. */
enum { TENSOR_Q, TENSOR_K, TENSOR_V, TENSOR_O, TENSOR_COUNT };
extern const char *const attention_tensor_names[TENSOR_COUNT];

/* One tensor: strides in elements (0 where the extent is 1), and the bytes from its first element to
 * the end of its last. */
typedef struct attention_tensor {
    int64_t  batch, row, head;
    uint64_t bytes;
} attention_tensor;

typedef struct attention_geometry {
    attention_tensor tensor[TENSOR_COUNT];
    float            scale;
    float            softcap;                     /* 0: none */
    bool             limited_left, limited_right; /* false: the offset means nothing */
    /* Row i attends to keys i + left <= j <= i + right; clipped so that i + offset never overflows. */
    int32_t  left_offset, right_offset;
    uint64_t lse_bytes;
    uint64_t descale_bytes; /* of each, with PTXPACK_E4M3; otherwise 0 */
} attention_geometry;

/* The element type of a tensor: fp8 gives a bf16 output. */
static inline ptxpack_dtype attention_tensor_type(const ptxpack_attention_desc *desc, int tensor)
{
    return tensor == TENSOR_O && desc->dtype == PTXPACK_E4M3 ? PTXPACK_BF16 : desc->dtype;
}

/* Checks a descriptor, with or without a device.  On PTXPACK_OK *out is complete, otherwise `line` names the
 * field. PTXPACK_E_ARG */
ptxpack_status ptxpack_attention_resolve(const ptxpack_attention_desc *desc, attention_geometry *out,
                                         char line[PLAN_LINE]);
/* The same for the addresses of a launch; workspace: bytes that the plan needs. */
ptxpack_status ptxpack_attention_check_buffers(const attention_geometry *geometry, uint64_t workspace,
                                               const ptxpack_attention_buffers *buffers, char line[PLAN_LINE]);
#endif
