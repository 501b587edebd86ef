/* op.h - private: making lists of blocks as an operation of the spine. */
#ifndef PTXPACK_ATTENTION_BLOCKS_OP_H
#define PTXPACK_ATTENTION_BLOCKS_OP_H
#include "args.h"
#include "blocks.h"
#include "host/attention/op.h"

extern const plan_op blocks_op; /* its descriptor is a ptxpack_attention_desc */

/* As attention's, of a descriptor with block_rows, whose sequences have equal lengths.  PTXPACK_E_ARG */
ptxpack_status blocks_resolve(const ptxpack_attention_desc *desc, attention_geometry *out,
                              char line[PLAN_LINE]);
/* The keys that the mask leaves a row: from *first to *end. */
void blocks_keys(const ptxpack_attention_desc *desc, const attention_geometry *geometry, int64_t row,
                 int64_t *first, int64_t *end);
/* ptxpack_attention_blocks_plan_create with the row given; NULL chooses. */
ptxpack_status ptxpack_attention_blocks_plan_row(ptxpack *handle, const ptxpack_attention_desc *desc,
                                                 const ptxpack_variant          *row,
                                                 ptxpack_attention_blocks_plan **plan);
#endif
