/* plan.h - private: the symbols that the host adds to a vector_add row, and a plan for a given
 * row; for instance.c and for tests that run every row. */
#ifndef PTXPACK_VECTOR_PLAN_H
#define PTXPACK_VECTOR_PLAN_H
#include "host/plan/instance.h"
#include "host/atom/tiled.h"
#include "vector.h"

/* Who adds which elements: its layout_tv is (thread, value) -> element of a block's tile. */
ptxpack_tiled_copy ptxpack_vector_layout(const ptxpack_variant *row);
/* Their number; 0, with a line in ptxpack_detail(NULL), when the row's layout cannot be told. */
size_t ptxpack_vector_symbols(const ptxpack_tiled_copy *layout, ptxpack_dtype dtype,
                              ptxpack_symbol symbols[PTXPACK_INSTANCE_SYMBOLS]);
/* Check dtype, choose a row for the handle's device (or check the one given) and make its symbols: what a plan
 * loads.  Codes of ptxpack_vector_plan_create but for those of loading. */
ptxpack_status ptxpack_vector_resolve(ptxpack *handle, ptxpack_dtype dtype, const ptxpack_variant **row,
                                      ptxpack_symbol symbols[PTXPACK_INSTANCE_SYMBOLS], size_t *count);
/* ptxpack_vector_plan_create with the row given; NULL chooses. */
ptxpack_status ptxpack_vector_plan_row(ptxpack *handle, ptxpack_dtype dtype, const ptxpack_variant *row,
                                       ptxpack_vector_plan **plan);
#endif
