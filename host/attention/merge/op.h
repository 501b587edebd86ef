/* op.h - private: merging as an operation of the spine. */
#ifndef PTXPACK_ATTENTION_MERGE_OP_H
#define PTXPACK_ATTENTION_MERGE_OP_H
#include "args.h"
#include "host/plan/memory.h"
#include "host/plan/plan.h"
#include "merge.h"

enum { MERGE_A, MERGE_B, MERGE_O, MERGE_TENSORS };

typedef struct merge_geometry {
    memory_tensor tensor[MERGE_TENSORS];
    uint64_t      lse_bytes; /* of each */
} merge_geometry;

extern const plan_op merge_op; /* its descriptor is a ptxpack_attention_merge_desc */

/* The element type's bytes: those of a tensor. */
static inline size_t merge_element_bytes(const ptxpack_attention_merge_desc *desc, int tensor)
{
    return tensor != MERGE_O && (desc->options & PTXPACK_MERGE_F32_PARTS) != 0
               ? sizeof(float)
               : ptxpack_dtype_bytes(desc->dtype);
}

/* PTXPACK_E_ARG, with the line of the field */
ptxpack_status merge_resolve(const ptxpack_attention_merge_desc *desc, merge_geometry *out,
                             char line[PLAN_LINE]);
/* The same for the addresses of a launch. */
ptxpack_status merge_check(const merge_geometry *geometry, const ptxpack_attention_merge_buffers *buffers,
                           char line[PLAN_LINE]);
/* ptxpack_attention_merge_plan_create with the row given; NULL chooses. */
ptxpack_status ptxpack_attention_merge_plan_row(ptxpack *handle, const ptxpack_attention_merge_desc *desc,
                                                const ptxpack_variant         *row,
                                                ptxpack_attention_merge_plan **plan);
#endif
