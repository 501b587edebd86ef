/* attention_plan.h - private: from a row of kernels.def to the symbols and the plan that use it; for
 * instance.c and for tests that run every row, not only the chosen one. */
#ifndef PTXPACK_ATTENTION_PLAN_H
#define PTXPACK_ATTENTION_PLAN_H
#include <stdbool.h>
#include "attention.h"
#include "attention_args.h"
#include "attention_layout.h"
#include "instance.h"

/* What sets one build of a row apart from the others. */
typedef struct attention_build {
    ptxpack_dtype dtype;
    bool          causal;
    bool          padded; /* head_dim is smaller than the row's HEAD_DIM */
} attention_build;

/* The symbols that the host adds to the row of these layouts; returns their number, at most
 * PTXPACK_INSTANCE_SYMBOLS, or 0 with a line in ptxpack_detail(NULL). */
size_t ptxpack_attention_symbols(const attention_layout *layout, attention_build build,
                                 ptxpack_symbol symbols[PTXPACK_INSTANCE_SYMBOLS]);
/* The row for `desc` on such a device.  PTXPACK_E_UNSUPPORTED, with the handle's line, when there is none. */
ptxpack_status ptxpack_attention_choose(ptxpack *handle, const ptxpack_device_caps *caps,
                                        const ptxpack_attention_desc *desc, const ptxpack_variant **row);
/* ptxpack_attention_plan_create with the row given; NULL chooses. */
ptxpack_status ptxpack_attention_plan_row(ptxpack *handle, const ptxpack_attention_desc *desc,
                                          const ptxpack_variant *row, ptxpack_attention_plan **plan);
/* What a launch hands to the kernel, and its grid; no checks. */
void ptxpack_attention_fill(const ptxpack_attention_plan *plan, const ptxpack_attention_buffers *buffers,
                            attention_arguments *arguments, uint32_t grid[3]);
#endif
