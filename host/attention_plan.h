/* attention_plan.h - private: from a row of kernels.def to the symbols and the plan that use it; for
 * instance.c and for tests that run every row, not only the chosen one. */
#ifndef PTXPACK_ATTENTION_PLAN_H
#define PTXPACK_ATTENTION_PLAN_H
#include <stdbool.h>
#include "attention.h"
#include "attention_args.h"
#include "instance.h"

/* What sets one build of a row apart from the others. */
typedef struct attention_build {
    ptxpack_dtype dtype;
    bool          causal;
    bool          padded; /* head_dim is smaller than the row's HEAD_DIM */
} attention_build;

/* Tiles, shared memory and swizzle of one row, in bytes. */
typedef struct attention_tiles {
    int64_t head_dim, block_m, block_n, stages;
    int64_t row_bytes;                    /* of one row of Q, K or V in shared memory          */
    int64_t smem_q, smem_k, smem_v;       /* offsets: Q, then STAGES K tiles, then STAGES V    */
    int64_t stage_bytes;                  /* one K or V tile                                   */
    int64_t shared_bytes;                 /* all of it                                         */
    int64_t swizzle_mask, swizzle_shift;  /* chunk ^= (row >> shift) & mask                    */
    int64_t load_lanes;                   /* threads that copy one row                         */
} attention_tiles;

/* PTXPACK_E_UNSUPPORTED with a line when the row contradicts itself: a mistake in kernels.def. */
ptxpack_status ptxpack_attention_tiles(const ptxpack_variant *row, attention_tiles *out, char *line,
                                       size_t cap);
/* The symbols that the host adds to a row; returns their number, at most PTXPACK_INSTANCE_SYMBOLS. */
size_t ptxpack_attention_symbols(const ptxpack_variant *row, attention_build build,
                                 ptxpack_symbol symbols[PTXPACK_INSTANCE_SYMBOLS]);
/* ptxpack_attention_plan_create with the row given; NULL chooses. */
ptxpack_status ptxpack_attention_plan_row(ptxpack *handle, const ptxpack_attention_desc *desc,
                                          const ptxpack_variant *row, ptxpack_attention_plan **plan);
/* What a launch hands to the kernel, and its grid; no checks. */
void ptxpack_attention_fill(const ptxpack_attention_plan *plan, const ptxpack_attention_buffers *buffers,
                            attention_arguments *arguments, uint32_t grid[3]);
#endif
