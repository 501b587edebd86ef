/* op.h - private: vector_add as an operation of the spine. */
#ifndef PTXPACK_VECTOR_OP_H
#define PTXPACK_VECTOR_OP_H
#include "host/atom/tiled.h"
#include "host/plan/plan.h"
#include "vector.h"

extern const plan_op vector_op; /* its descriptor is a ptxpack_dtype */

/* ptxpack_vector_plan_create with the row given; NULL chooses. */
ptxpack_status ptxpack_vector_plan_row(ptxpack *handle, ptxpack_dtype dtype, const ptxpack_variant *row,
                                       ptxpack_vector_plan **plan);
#endif
