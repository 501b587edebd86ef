/* plan.h - private: from a row of kernels.def to the symbols and the plan that use it; for
 * instance.c and for tests that run every row, not only the chosen one. */
#ifndef PTXPACK_ATTENTION_PLAN_H
#define PTXPACK_ATTENTION_PLAN_H
#include <stdbool.h>
#include "attention.h"
#include "kernel.h"
#include "mma_layout.h"
#include "host/plan/instance.h"

/* What sets one build of a row apart from the others. */
typedef struct attention_build {
    ptxpack_dtype dtype;
    bool          limited_right; /* causal, or a window                         */
    bool          limited_left;  /* a window; sets limited_right too            */
    bool          softcap;
    bool          padded; /* head_dim is smaller than the row's HEAD_DIM */
} attention_build;

/* The build of a row of `head_dim` (HEAD_DIM) for a problem.  One that is limited on the left alone takes the
 * build with both limits: its right offset is one that never binds. */
attention_build ptxpack_attention_build(const ptxpack_attention_desc *desc, const attention_geometry *geometry,
                                        int64_t head_dim);

/* The symbols that the host adds to the row of these layouts; returns their number, at most
 * PTXPACK_INSTANCE_SYMBOLS, or 0 with a line in ptxpack_detail(NULL). */
size_t ptxpack_attention_symbols(const attention_layout *layout, attention_build build,
                                 ptxpack_symbol symbols[PTXPACK_INSTANCE_SYMBOLS]);
/* The row for `desc` on such a device.  PTXPACK_E_UNSUPPORTED, with the handle's line, when there is none. */
ptxpack_status ptxpack_attention_choose(ptxpack *handle, const ptxpack_device_caps *caps,
                                        const ptxpack_attention_desc *desc, const ptxpack_variant **row);
/* Why this row cannot be taken for `desc`, which is valid, on such a device: NULL, or `line`. */
const char *ptxpack_attention_row_refusal(const ptxpack *handle, const ptxpack_device_caps *caps,
                                          const ptxpack_attention_desc *desc, const ptxpack_variant *row,
                                          char line[ATTENTION_LINE]);
/* The rows that cover a problem's type and head_dim, in table order, and what the model of cost.h
 * says of them: the fastest is chosen, the first of those that are about as fast.  PTXPACK_E_ARG */
enum { ATTENTION_CANDIDATES = 64 };
typedef struct attention_candidate {
    const ptxpack_variant *row;
    bool                   refused; /* ptxpack_attention_row_refusal says why */
    bool                   behind;  /* another row of its kernel comes first, whatever the problem */
    double                 us;      /* otherwise: the time that it would take */
} attention_candidate;
typedef struct attention_survey {
    size_t                 count;
    attention_candidate    candidate[ATTENTION_CANDIDATES];
    const ptxpack_variant *chosen; /* NULL: there is none */
} attention_survey;
ptxpack_status ptxpack_attention_survey(const ptxpack *handle, const ptxpack_device_caps *caps,
                                        const ptxpack_attention_desc *desc, attention_survey *out);
/* ptxpack_attention_plan_create with the row given; NULL chooses. */
ptxpack_status ptxpack_attention_plan_row(ptxpack *handle, const ptxpack_attention_desc *desc,
                                          const ptxpack_variant *row, ptxpack_attention_plan **plan);
/* What a launch hands to the kernel, and its grid; no checks. */
ptxpack_status ptxpack_attention_fill(const ptxpack_attention_plan    *plan,
                                      const ptxpack_attention_buffers *buffers,
                                      attention_any_arguments *arguments, uint32_t grid[3]);
#endif
