/* op.h - private: RMSNorm as an operation of the spine. */
#ifndef PTXPACK_NORM_OP_H
#define PTXPACK_NORM_OP_H
#include "args.h"
#include "host/plan/memory.h"
#include "host/plan/plan.h"
#include "norm.h"

enum { NORM_X, NORM_R, NORM_Y, NORM_TENSORS };

typedef struct norm_geometry {
    memory_tensor tensor[NORM_TENSORS]; /* r: zeros where there is none */
    uint64_t      w_bytes;
} norm_geometry;

extern const plan_op norm_op; /* its descriptor is a ptxpack_norm_desc */

/* PTXPACK_E_ARG, with the line of the field */
ptxpack_status norm_resolve(const ptxpack_norm_desc *desc, norm_geometry *out, char line[PLAN_LINE]);
/* The same for the addresses of a launch. */
ptxpack_status norm_check(const norm_geometry *geometry, const ptxpack_norm_buffers *buffers,
                          char line[PLAN_LINE]);
/* ptxpack_norm_plan_create with the row given; NULL chooses. */
ptxpack_status ptxpack_norm_plan_row(ptxpack *handle, const ptxpack_norm_desc *desc, const ptxpack_variant *row,
                                     ptxpack_norm_plan **plan);
#endif
