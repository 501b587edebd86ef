/* inspect.h - private: what tests and tools may use of the spine.  host/attention/inspect.h,
 * host/gemm/inspect.h and host/vector/inspect.h do the same for the operations. */
#ifndef PTXPACK_PLAN_INSPECT_H
#define PTXPACK_PLAN_INSPECT_H
#include "builds.h"
#include "plan.h"
#include "symbols.h"
#include "tiles.h"

/* The steps of plan.h with a descriptor in place of a problem; caps NULL means those of the handle. */

/* The rows that cover the problem.  PTXPACK_E_ARG, with the handle's line */
ptxpack_status plan_survey_of(const plan_op *op, const ptxpack *handle, const ptxpack_device_caps *caps,
                              const void *desc, plan_survey *out);
/* The row for the problem; NULL on failure.  PTXPACK_E_ARG, _E_UNSUPPORTED, with the handle's line */
ptxpack_status plan_row_of(const plan_op *op, const ptxpack *handle, const ptxpack_device_caps *caps,
                           const void *desc, const ptxpack_variant **row);
/* Why the row cannot be taken: NULL, or `line`. */
const char *plan_row_refusal(const plan_op *op, const ptxpack *handle, const ptxpack_device_caps *caps,
                             const void *desc, const ptxpack_variant *row, char line[PLAN_LINE]);
/* What the row would cost; the descriptor is right. */
double plan_row_cost(const plan_op *op, const ptxpack *handle, const ptxpack_device_caps *caps,
                     const void *desc, const ptxpack_variant *row);
/* What a plan for the row has before it is loaded: grid, workspace and arguments without tensor maps, for a GPU of so many SMs.
 * *plan is op->plan_bytes of zeros.  The codes of method->fill, with a line in ptxpack_detail(NULL) */
ptxpack_status plan_row_fill(const plan_op *op, const ptxpack_device_caps *caps, int sm_count, const void *desc,
                             const ptxpack_variant *row, void *plan);
/* The symbols of the build; 0 with a line in ptxpack_detail(NULL). */
size_t plan_row_symbols(const ptxpack_variant *row, const void *desc,
                        ptxpack_symbol symbols[PTXPACK_INSTANCE_SYMBOLS]);
#endif
