/* plan.h - private: from a row of kernels.def to the plan that uses it; for instance.c, and for tests
 * and benchmarks that run every row, not only the chosen one. */
#ifndef PTXPACK_GEMM_PLAN_H
#define PTXPACK_GEMM_PLAN_H
#include "gemm.h"
#include "host/plan/instance.h"

/* What sets one build of a row apart from the others; told to the PTX of each kernel as BF16, A_COLUMN,
 * B_COLUMN (1: column-major), HAS_C, HAS_BIAS, RAGGED and ACTIVATION (ptxpack_activation's
 * number; ptx/gemm/activation.ptx). */
typedef struct gemm_build {
    ptxpack_dtype      dtype;
    bool               a_column, b_column, has_c, has_bias;
    bool               ragged; /* n is no multiple of 8 */
    ptxpack_activation activation;
} gemm_build;
gemm_build ptxpack_gemm_build(const ptxpack_gemm_desc *desc);

/* Those symbols, for a kernel's list; returns how many there are. */
enum { GEMM_BUILD_SYMBOLS = 7 };
size_t ptxpack_gemm_build_symbols(gemm_build build, ptxpack_symbol symbols[GEMM_BUILD_SYMBOLS]);

/* The builds of a row that listings and tests walk: each type and order, bare and with all that an epilogue
 * can do; the others lie between these. */
size_t ptxpack_gemm_instances(const ptxpack_variant *row);
void   ptxpack_gemm_instance(const ptxpack_variant *row, size_t index, ptxpack_instance *out);

/* Why this row cannot be taken for `desc` on the handle's device: NULL, or `line`. */
enum { GEMM_WHY = 256 };
const char *ptxpack_gemm_row_refusal(const ptxpack *handle, const ptxpack_gemm_desc *desc,
                                     const ptxpack_variant *row, char line[GEMM_WHY]);
/* The row for `desc` on the handle's device.  PTXPACK_E_ARG, _E_UNSUPPORTED with the handle's line */
ptxpack_status ptxpack_gemm_choose(ptxpack *handle, const ptxpack_gemm_desc *desc, const ptxpack_variant **row);
/* ptxpack_gemm_plan_create with the row given; NULL chooses. */
PTXPACK_API ptxpack_status ptxpack_gemm_plan_row(ptxpack *handle, const ptxpack_gemm_desc *desc,
                                                 const ptxpack_variant *row, ptxpack_gemm_plan **plan);
#endif
